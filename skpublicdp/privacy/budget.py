"""`PrivacyBudget`: a privacy filter for many fits, stored in a SQLite file.

Proofs: docs/proofs/budgets.md.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from html import escape
from numbers import Real
from pathlib import Path
from typing import Any, Self, overload

from skpublicdp._internal.html import table
from skpublicdp._internal.text import is_valid_text
from skpublicdp.accounting import Event, exact_fraction
from skpublicdp.accounting.events import from_text, to_text
from skpublicdp.accounting.filters import (
    ACCOUNTANTS,
    FIT_KINDS,
    ZERO_SPENT,
    Filter,
    Remaining,
    Spent,
    SpentTotals,
)
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.privacy.budget_file import UNUSABLE_FILE, BudgetFile, Entry
from skpublicdp.privacy.ticket import USED_TICKET

SEEDED_FIT = (
    "{} is charged to a budget, but its noise comes from a random_state, so anyone who knows the "
    "seed can remove the noise. The random_state belongs to this estimator or to a nested one, or "
    "was set by an ensemble such as BaggingClassifier. Set random_state=None and avoid such "
    "ensembles; for tests without private data, use PrivacyBudget(..., for_tests=True)."
)
"""Warning about a seeded fit that is charged to a budget; {} is replaced by the name of the fit."""

SEEDED_TWICE = (
    "A budget admits only one fit with a random_state, and this budget has already admitted one. "
    "Two fits with the same seed share their noise, which cancels in the difference of their "
    "results. Set random_state=None, also in nested estimators, and avoid ensembles that set "
    "seeds, such as BaggingClassifier; for tests without private data, use PrivacyBudget(..., "
    "for_tests=True)."
)
"""Error message for a second seeded fit that is charged to a budget."""


def has_seed(parameter: Any) -> bool:
    """Indicate whether a parameter is or contains a private estimator with a `random_state`.

    An estimator counts as private if it has a parameter `epsilon`. The search covers lists, tuples,
    dicts and the parameters of estimators.

    Seeds with other names, and seeds that are not parameters, cannot be detected.
    """
    if isinstance(parameter, Mapping):
        return any(map(has_seed, parameter.values()))
    if isinstance(parameter, list | tuple):
        return any(map(has_seed, parameter))
    if not hasattr(parameter, "get_params") or isinstance(parameter, type):
        return False
    parameters = parameter.get_params(deep=False)
    seeded = "epsilon" in parameters and parameters.get("random_state") is not None
    return seeded or any(map(has_seed, parameters.values()))


LAST_TOTALS = "SELECT disjoint, total, max(number) FROM entries GROUP BY disjoint"
"""SQL query for each group's running total after the group's last entry.

In SQLite, columns selected alongside max() are taken from the row that attains the maximum.
"""

STORED_ENTRY = "SELECT event, disjoint, total FROM entries WHERE number = ?"
"""SQL query for the entry that was just written, which a trigger could have changed or removed."""

TOTAL_TOLERANCE = Fraction(1, 10**9)
"""Relative amount by which a stored total may be below the sum of the stored events.

Other versions may round the cost of an event to other digits."""

N_SEEDED = "SELECT count(*) FROM entries WHERE seeded"
"""SQL query for the number of fits that used a `random_state`."""


class PrivacyBudget:
    """Privacy filter that limits many adaptively chosen fits to one total (ε, δ).

    Pass the budget as the parameter `budget` to any estimator of this package. Each fit is recorded
    and charged before any random draw. A fit is refused before any private row is read if the total
    would exceed (ε, δ). The next fit and its ε may depend on all results so far.

    Parameters
    ----------
    epsilon : float
        Total ε > 0 of all fits, read as an exact fraction.
    delta : float, default=0.0
        Total δ of all fits, in [0, 1).
    path : path-like, default=None
        File that stores the ledger across processes, notebooks and restarts. If the file exists, it
        must have been created with the same terms. ``None`` uses a temporary file of this process.
    accountant : {"auto", "pure", "zcdp", "gdp"}, default="auto"
        Quantity that is summed over the fits: ε and δ for ``"pure"``, ρ for ``"zcdp"`` and μ² for
        ``"gdp"``. ``"auto"`` equals ``"pure"`` if ``delta=0``. Otherwise it admits a fit while one
        of three totals stays below the cap: the sum of all ε, with at most one fit that adds noise;
        the sum of all μ²; or a split of ε, in which k sixteenths cover the ε of fits without noise
        and the remainder covers the μ² of fits with noise. Fits for which only (ε, δ) is known
        share a tenth of δ.
    protects : {"rows", "labels"} or list of str, default="rows"
        What the budget protects of each private row. A budget for ``"labels"`` also admits fits
        that treat the features of all rows as public, such as `LabelPrivateClassifier`. A budget
        for a list of columns also admits fits for which all these columns are private, and any
        others are public, such as `PrivateColumnsClassifier`. Its total then holds for the labels
        or for these columns alone. The default refuses these fits.
    for_tests : bool, default=False
        Whether to accept any number of fits with a `random_state`. If False, a second seeded fit is
        refused, because two fits with the same seed share their noise, which cancels in the
        difference of their results. A budget for tests gives no protection, as its `repr` and all
        receipts state.

    Warns
    -----
    SeededRandomnessWarning
        If a fit with a `random_state` is charged to a budget that is not for tests.

    See Also
    --------
    SemiPrivateClassifier : Accepts a budget, like all estimators of this package.

    Notes
    -----
    Copies, pickles, clones and workers share the file and hence the budget. A copy that cannot open
    its file raises an error. If a fit fails or is killed after its entry was written, its cost
    still counts as spent.

    A budget assumes that each row occurs only once in each fit. If bootstrapping or oversampling
    repeats a row k times in a fit, the privacy loss of this row is k times as large. The budget
    cannot detect such repetitions.

    The filters follow Feldman and Zrnic (2021), Whitehouse et al. (2023) and Smith and Thakurta
    (2022), and remain valid when all choices are fully adaptive (docs/proofs/budgets.md).

    Examples
    --------
    >>> from skpublicdp import PrivacyBudget, SemiPrivateClassifier
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> budget = PrivacyBudget(1.0)
    >>> clf = SemiPrivateClassifier(epsilon=0.7, budget=budget)
    >>> clf = clf.fit(X, X[:, 0] > 0, X_public=rng.normal(size=(50, 2)))
    >>> budget.spent().epsilon, budget.remaining("pure"), clf.privacy_.entry
    (0.7, 0.3, 1)
    >>> clf.fit(X, X[:, 0] > 0)
    Traceback (most recent call last):
        ...
    skpublicdp.exceptions.PrivacyBudgetError: This fit requests ε = 0.7, but only ε = 0.3 ...
    """

    def __init__(
        self,
        epsilon: Any,
        delta: Any = 0.0,
        *,
        path: str | os.PathLike[str] | None = None,
        accountant: str = "auto",
        protects: str | Sequence[str] = "rows",
        for_tests: bool = False,
    ) -> None:
        if not _is_number(epsilon) or not 0 < epsilon < math.inf:
            raise ValueError(f"epsilon must be a positive finite number; got {epsilon!r}.")
        _check_delta(delta)
        if accountant not in ACCOUNTANTS:
            raise ValueError(f"accountant must be one of {ACCOUNTANTS}; got {accountant!r}.")
        if not delta and accountant in ("zcdp", "gdp"):
            raise ValueError(f"accountant={accountant!r} requires a positive delta.")
        is_list = isinstance(protects, list | tuple) and all(map(_is_text, protects))
        if protects not in ("rows", "labels") and not (is_list and protects):
            raise ValueError(
                "protects must be 'rows', 'labels' or a list of names of columns; got "
                f"{protects!r}."
            )
        if not isinstance(for_tests, bool):
            raise ValueError(f"for_tests must be True or False; got {for_tests!r}.")
        self._filter = Filter(
            exact_fraction(epsilon), exact_fraction(delta), accountant if delta else "pure"
        )
        self._group = ""
        if path is None:
            handle, path = tempfile.mkstemp(prefix="privacy-budget-", suffix=".sqlite")
            os.close(handle)
            atexit.register(_remove_file, path, os.getpid())
        stored = protects if isinstance(protects, str) else json.dumps(sorted(set(protects)))
        self._file = BudgetFile.open(
            str(Path(path).resolve()), self._filter, protects=stored, for_tests=for_tests
        )
        self._check_running_totals()

    @property
    def epsilon(self) -> float:
        """Total ε of all fits."""
        return float(self._filter.epsilon)

    @property
    def delta(self) -> float:
        """Total δ of all fits."""
        return float(self._filter.delta)

    @property
    def accountant(self) -> str:
        """The accountant, which determines the quantity that is summed over all fits."""
        return self._filter.accountant

    @property
    def protects(self) -> str | list[str]:
        """What the budget protects of each private row: "rows", "labels" or a list of columns."""
        stored = self._file.protects
        return json.loads(stored) if stored.startswith("[") else stored

    @property
    def for_tests(self) -> bool:
        """Whether the budget accepts any number of fits with a `random_state`."""
        return self._file.for_tests

    @property
    def path(self) -> str:
        """Path of the file that stores the ledger."""
        return self._file.path

    @property
    def ledger(self) -> list[Entry]:
        """Entries of all fits so far in chronological order, for all groups."""
        rows = self._file.read(
            "SELECT number, time, who, event, n_rows, disjoint, seeded FROM entries ORDER BY number"
        )
        return [
            Entry(number, time, who, from_text(event), n_rows, group or None, bool(seeded))
            for number, time, who, event, n_rows, group, seeded in rows
        ]

    def group(self, name: str) -> Self:
        """Return this budget for one of several disjoint groups of rows (parallel composition).

        Each group may spend all of the budget that remains after the fits on all rows. No row and
        no person may belong to more than one group. Group membership and group sizes must be
        public.

        Parameters
        ----------
        name : str
            Name of the group, as stored in the ledger.

        Returns
        -------
        PrivacyBudget
            Budget for fits that use only the rows of this group.
        """
        if not _is_text(name) or not name:
            raise ValueError(
                f"name must be a non-empty string without surrogate characters; got {name!r}."
            )
        if self._group:
            raise ValueError(f"This budget already belongs to the group {self._group!r}.")
        budget = object.__new__(type(self))
        budget.__dict__.update(self.__dict__, _group=name)
        return budget

    @property
    def _protected(self) -> str:
        """What the budget protects, in words."""
        if self.protects == "rows":
            return "whole rows"
        return "labels" if self.protects == "labels" else f"the columns {', '.join(self.protects)}"

    def check_protects_labels(self) -> None:
        """Raise PrivacyBudgetError unless the budget admits fits that protect labels alone."""
        if self.protects != "labels":
            raise PrivacyBudgetError(
                "This fit protects only the labels of private rows, but its budget protects "
                f"{self._protected}, so their costs do not add up. Use PrivacyBudget(..., "
                "protects='labels'), whose total holds for labels alone."
            )

    def check_protects_columns(self, private: Sequence[str]) -> None:
        """Raise PrivacyBudgetError unless all columns that the budget protects are `private`."""
        is_for_columns = not isinstance(self.protects, str)
        if not is_for_columns or not set(self.protects) <= set(private):
            raise PrivacyBudgetError(
                f"This fit protects only the columns {', '.join(private)} of private rows, but its "
                f"budget protects {self._protected}, so their costs do not add up. Use "
                f"PrivacyBudget(..., protects={list(private)!r}), whose total holds for these "
                "columns alone."
            )

    def check_protects_features(self) -> None:
        """Raise PrivacyBudgetError if a fit that protects no labels does not suit the total."""
        if self.protects != "rows":
            raise PrivacyBudgetError(
                f"This budget protects {self._protected} of private rows, but this fit protects "
                "their features only, and its labels may be a protected column. Use a budget with "
                "protects='rows'."
            )

    def check(self, event: Event, *, seeded: bool = False) -> None:
        """Check that the budget covers an event, without charging it.

        Parameters
        ----------
        event : Event
            The plan of a fit, or the event of a single mechanism.
        seeded : bool, default=False
            Whether the randomness comes from a `random_state`.

        Raises
        ------
        PrivacyBudgetError
            If the event costs more than the remaining budget, or if it is the second seeded event.
        """
        with self._file.connected() as connection:
            self._admit(event, seeded, connection)

    def spend(
        self,
        event: Event,
        *,
        who: str = "",
        n_rows: int = 0,
        ticket: str | None = None,
        seeded: bool = False,
    ) -> int:
        """Charge an event to the budget, and return only after the entry was written to disk.

        Parameters
        ----------
        event : Event
            The event, which must be charged before it uses private rows. Mechanisms from other
            packages are described by ``accounting.Pure(epsilon)``,
            ``accounting.Gaussian(mu_squared)`` or ``accounting.Approximate(epsilon, delta)``.
        who : str
            Name of the estimator or program, which is recorded in the entry.
        n_rows : int
            Number of private rows.
        ticket : str, optional
            One-time token, which is accepted only once.
        seeded : bool, default=False
            Whether the randomness comes from a `random_state`.

        Returns
        -------
        int
            Number of the new entry.

        Raises
        ------
        PrivacyBudgetError
            If the event costs more than the remaining budget, if it is the second seeded event, or
            if its ticket has already been used. The budget is not charged in these cases.
        """
        if not _is_text(who) or not 0 <= n_rows < 1 << 63:
            raise ValueError(
                "who must be a string without surrogates and n_rows a non-negative integer; "
                f"got {who!r} and {n_rows!r}."
            )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._file.connected() as connection:
            connection.execute("BEGIN IMMEDIATE")  # locks out other writers
            total = self._admit(event, seeded, connection).to_text()
            row = (now, who, to_text(event), int(n_rows), self._group, total, ticket, int(seeded))
            try:
                written = connection.execute(
                    "INSERT INTO entries "
                    "(time, who, event, n_rows, disjoint, total, ticket, seeded) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
            except sqlite3.IntegrityError:
                raise PrivacyBudgetError(USED_TICKET) from None
            stored = connection.execute(STORED_ENTRY, (written.lastrowid,)).fetchone()
            if stored != (to_text(event), self._group, total):
                raise PrivacyBudgetError(UNUSABLE_FILE.format("it does not keep new entries"))
            connection.execute("COMMIT")
        return int(written.lastrowid or 0)

    def spent(self) -> Spent:
        """Return the smallest (ε, δ) that would have admitted all fits on the costliest group.

        This (ε, δ) is a guarantee only if all fits were fixed in advance. Otherwise, the guarantee
        is the (ε, δ) of the whole budget, since the decision to stop may depend on earlier results
        (docs/proofs/budgets.md).
        """
        return self._largest_spent(self._parse_last_totals(self._file.read(LAST_TOTALS)))

    @overload
    def remaining(self, kind: None = None) -> Remaining: ...

    @overload
    def remaining(self, kind: str, delta: Any = None) -> float: ...

    def remaining(self, kind: str | None = None, delta: Any = None) -> float | Remaining:
        """Return the largest ε that the budget allows for one more fit, by kind of fit.

        Parameters
        ----------
        kind : {"pure", "draw", "gaussian", "approximate"}, default=None
            ``None`` returns the results for all kinds. ``"pure"`` applies to any fit with
            ``delta=0``. ``"draw"`` applies to fits that only draw a rule, and may allow a larger ε:
            `SemiPrivateClassifier`, `PPMHalfspaceClassifier` without `evaluation_share`, and
            `SemiPrivateSearchCV` over settings of `SemiPrivateClassifier`. With a positive δ,
            ``"gaussian"`` applies to `PAPQueryRelease`, `SemiPrivateBoostingClassifier`,
            `SemiPrivateBoostingRegressor` and `private_scores`, and ``"approximate"`` to all
            others.
        delta : float, optional
            δ of that fit, which applies to the last two kinds only. The default is the δ of the
            budget, or the remaining δ for ``"approximate"`` and for ``accountant="pure"``.

        Returns
        -------
        float or Remaining
            The largest ε, or 0 if the budget is exhausted. `Remaining` has one field per kind.

        Examples
        --------
        >>> from skpublicdp import PrivacyBudget
        >>> from skpublicdp.accounting import Gaussian, gaussian_mu_squared
        >>> budget = PrivacyBudget(2.0, 1e-6)
        >>> entry = budget.spend(Gaussian(gaussian_mu_squared(1, 1e-6)))
        >>> budget.remaining("gaussian")
        1.65...
        >>> budget.remaining()
        Largest ε of one more fit, by kind (each kind composes differently): pure 0.833...
        """
        if kind is None:
            if delta is not None:
                raise ValueError("delta applies to a single kind of fit. Pass kind as well.")
            return Remaining(*(self.remaining(kind) for kind in Remaining._fields))
        if kind not in FIT_KINDS:
            raise ValueError(f"kind must be one of {FIT_KINDS}; got {kind!r}.")
        if delta is not None and kind in ("pure", "draw"):
            raise ValueError(f"delta is always 0 for kind={kind!r}. Omit it.")
        if delta is not None:
            _check_delta(delta)
        exact_delta = None if delta is None else exact_fraction(delta)
        totals = self._limiting_totals(self._parse_last_totals(self._file.read(LAST_TOTALS)))
        return min(self._filter.largest_epsilon(total, kind, exact_delta) for total in totals)

    def history(self) -> list[Spent]:
        """Return, for each entry, the (ε, δ) that `spent` would have returned after it."""
        groups: dict[str, SpentTotals] = {}
        history: list[Spent] = []
        for group, total in self._file.read("SELECT disjoint, total FROM entries ORDER BY number"):
            groups[group] = _parse_totals(total)
            history.append(self._largest_spent(groups))
        return history

    def to_dict(self) -> dict[str, Any]:
        """Return the terms, the spent (ε, δ) and the entries as a JSON-serializable dict."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "accountant": self.accountant,
            "protects": self.protects,
            "for_tests": self.for_tests,
            "spent": list(self.spent()),
            "entries": [entry.to_dict() for entry in self.ledger],
        }

    def plot(self, ax: Any = None) -> Any:
        """Plot the remaining budget after each fit.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes on which to draw. By default, a new figure is created.

        Returns
        -------
        plotting.BudgetDisplay
            The display.
        """
        from skpublicdp import plotting  # matplotlib is optional

        display: Any = plotting.BudgetDisplay
        return display.from_budget(self, ax=ax)

    def __repr__(self) -> str:
        tests = ", for_tests=True" if self.for_tests else ""
        protects = "" if self.protects == "rows" else f", protects={self.protects!r}"
        group = f", group={self._group!r}" if self._group else ""
        return (
            f"PrivacyBudget(epsilon={self.epsilon:g}, delta={self.delta:g}, "
            f"accountant={self.accountant!r}{protects}{tests}{group})"
        )

    def _repr_html_(self) -> str:
        spent = self.spent()
        header = ("entry", "time (UTC)", "who", "private rows", "group")
        rows = ((e.number, e.time, e.who, e.n_rows, e.group or "") for e in self.ledger)
        tests = " For tests only: it gives no protection." if self.for_tests else ""
        scope = "" if self.protects == "rows" else f" of {escape(self._protected)}"
        terms = f"ε = {self.epsilon:g}, δ = {self.delta:g}"
        return (
            f"<div><p><b>Privacy budget{scope}: {terms}.{tests}</b> "
            f"Spent: ε = {spent.epsilon:.4g}, δ = {spent.delta:g}. {self.remaining()}.</p>"
            f'<progress max="{self.epsilon}" value="{spent.epsilon}"></progress>'
            f"{table(rows, header=header)}</div>"
        )

    def __eq__(self, budget: object) -> bool:
        if not isinstance(budget, PrivacyBudget):
            return NotImplemented
        return (self._file, self._group) == (budget._file, budget._group)

    def __hash__(self) -> int:
        return hash((self._file, self._group))

    def _adds_up_with(self, other: Any) -> bool:
        """Return whether costs of both handles add up: the same file, and no disjoint groups."""
        if not isinstance(other, PrivacyBudget) or self._file != other._file:
            return False
        return self._group == other._group or not (self._group and other._group)

    def __sklearn_clone__(self) -> Self:
        return self

    def _check_running_totals(self) -> None:
        """Raise PrivacyBudgetError if a total in the file is below the sum of the file's events.

        The totals decide which fits are admitted, so a changed total would admit too many.
        """
        sums: dict[str, SpentTotals] = {}
        query = "SELECT number, event, disjoint, total FROM entries ORDER BY number"
        for number, event, group, text in self._file.read(query):
            total = _parse_totals(text)
            try:
                price = SpentTotals.from_event(from_text(event))
            except (AttributeError, KeyError, TypeError, ValueError):
                raise PrivacyBudgetError(
                    UNUSABLE_FILE.format(f"the event of entry {number} cannot be read")
                ) from None
            sums[group] = sums.get(group, ZERO_SPENT) + price
            if not total.covers(sums[group], TOTAL_TOLERANCE):
                raise PrivacyBudgetError(
                    UNUSABLE_FILE.format(f"the total of entry {number} is below its events")
                )

    def _parse_last_totals(self, records: list[Any]) -> dict[str, SpentTotals]:
        """Return each group's total from the records of `LAST_TOTALS`; "" stands for all rows."""
        return {group: _parse_totals(total) for group, total, _ in records}

    def _limiting_totals(self, groups: dict[str, SpentTotals]) -> list[SpentTotals]:
        """Return the totals that must stay below the cap after the next fit.

        A fit on one group is limited by the earlier fits on that group and on all rows. A fit on
        all rows is limited by every group, since it uses rows from all of them.
        """
        all_rows = groups.get("", ZERO_SPENT)
        if self._group:
            return [all_rows + groups.get(self._group, ZERO_SPENT)]
        return [all_rows, *(all_rows + total for name, total in groups.items() if name)]

    def _largest_spent(self, groups: dict[str, SpentTotals]) -> Spent:
        """Return the (ε, δ) spent by the group with the largest ε."""
        spending = map(self._filter.spent, self._limiting_totals(groups))
        return max(spending, key=lambda spent: spent.epsilon)

    def _admit(self, event: Event, seeded: bool, connection: sqlite3.Connection) -> SpentTotals:
        """Return this group's total after an event, or raise if the event is not admitted.

        The total for fits on all rows is kept separately and is not part of any group's total.
        """
        # Seeded fits of all groups count: an attacker who knows the rows of one group could compute
        # the noise that this group shares with another group.
        if seeded and not self.for_tests:
            (n_seeded,) = connection.execute(N_SEEDED).fetchone()
            if n_seeded:
                raise PrivacyBudgetError(SEEDED_TWICE)
        price = SpentTotals.from_event(event)
        groups = self._parse_last_totals(connection.execute(LAST_TOTALS).fetchall())
        for total in self._limiting_totals(groups):
            if not self._filter.admits(total + price):
                raise PrivacyBudgetError(self._filter.refusal_message(event, total))
        return groups.get(self._group, ZERO_SPENT) + price


def _is_number(value: Any) -> bool:
    """Indicate whether a value is a real number or a `Decimal`, which is not a `Real`."""
    return isinstance(value, Real | Decimal)


def _is_text(value: Any) -> bool:
    """Indicate whether a value is a string that can be stored, i.e. contains no surrogates."""
    return isinstance(value, str) and is_valid_text(value)


def _check_delta(delta: Any) -> None:
    """Raise ValueError unless δ is a number in [0, 1)."""
    if not _is_number(delta) or not 0 <= delta < 1:
        raise ValueError(f"delta must be a number, at least 0 and below 1; got {delta!r}.")


def _parse_totals(text: str) -> SpentTotals:
    """Return the totals from the JSON string of an entry, or raise if the format is outdated."""
    try:
        totals = SpentTotals.from_text(text)
    except (AttributeError, TypeError, ValueError):
        raise PrivacyBudgetError(
            "The file of this PrivacyBudget was written by an earlier version of skpublicdp, and "
            "this version cannot read the totals. Use the earlier version, or start a new budget "
            "with the remaining epsilon."
        ) from None
    if any(price is not None and price < 0 for price in totals):
        raise PrivacyBudgetError(UNUSABLE_FILE.format("a total is negative"))
    return totals


def _remove_file(path: str, owner: int) -> None:
    """Remove a temporary file at exit, but only in the process that created it and not in forks."""
    if os.getpid() == owner:
        with suppress(OSError):
            os.remove(path)
