"""PrivacyBudget: a privacy filter for many fits, stored in SQLite; see docs/proofs/budgets.md."""

from __future__ import annotations

import atexit
import math
import os
import sqlite3
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal
from html import escape
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

from skpublicdp.accounting import Event, exact_fraction
from skpublicdp.accounting.events import from_text, to_text
from skpublicdp.accounting.filters import (
    ACCOUNTANTS,
    FIT_KINDS,
    ZERO_SPENT,
    Filter,
    Spent,
    SpentTotals,
    four_digits,
)
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.privacy.budget_file import BudgetFile

LAST_TOTALS = "SELECT disjoint, total, max(number) FROM entries GROUP BY disjoint"

N_SEEDED = "SELECT count(*) FROM entries WHERE seeded"

SEEDED_TWICE = (
    "A budget admits one fit with a random_state, and this one has had it: two fits with the same "
    "seed have the same noise, which their difference removes. Use random_state=None, also in the "
    "parts of an estimator, and no ensemble that sets seeds, such as BaggingClassifier; for tests "
    "without private data there is PrivacyBudget(..., for_tests=True)."
)

USED_TICKET = (
    "A query is good for one fit, and this one or a copy of it has been fitted; call query again."
)
"""Message for a ticket, see `ledger.new_ticket`, that was used before."""


class Entry(NamedTuple):
    """One fit that was charged to a budget, in public numbers only.

    Attributes
    ----------
    number : int
        Position in the ledger, from 1.
    time : str
        Time of the entry, which is before the first draw; ISO 8601, UTC.
    who : str
        Name of the estimator.
    event : Event
        Plan that was paid for.
    n_rows : int
        Number of private rows.
    group : str or None
        Name of the disjoint group of rows.
    seeded : bool
        Whether its randomness came from a `random_state`, or an earlier version did not write down
        whether it did.
    """

    number: int
    time: str
    who: str
    event: Event
    n_rows: int
    group: str | None
    seeded: bool = False


class Remaining(NamedTuple):
    """The largest ε that one more fit may have, by the kind of fit.

    Kinds of fits compose differently, so none of these is ε minus the ε spent.

    Attributes
    ----------
    pure : float
        For any fit with ``delta=0``.
    draw : float
        For a fit that only draws a rule by the exponential mechanism.
    gaussian : float
        For a fit that adds Gaussian noise, at the δ of the budget. It is 0 if that δ is 0.
    approximate : float
        For any other fit with a δ, at the remaining δ.
    """

    pure: float
    draw: float
    gaussian: float
    approximate: float

    def __bool__(self) -> bool:
        return any(self)

    def __repr__(self) -> str:
        left = ", ".join(
            f"{name} {four_digits(left, ROUND_FLOOR)}" for name, left in self._asdict().items()
        )
        return f"Largest ε of one more fit, by its kind, as kinds compose differently: {left}"


class PrivacyBudget:
    """One (ε, δ) for many fits that may be chosen adaptively: a privacy filter.

    Pass it as `budget` to any estimator of this package. Each fit is recorded and paid for before
    its first draw. It is refused before a private row is read if the total would exceed (ε, δ).
    The next fit and its ε may depend on all results so far.

    Parameters
    ----------
    epsilon : float
        Total ε > 0 of all fits, read as an exact fraction.
    delta : float, default=0.0
        Total δ of all fits, in [0, 1).
    path : path-like, default=None
        File that keeps the ledger across processes, notebooks and restarts. An existing file is
        opened and must have the same terms. ``None`` uses a temporary file of this process.
    accountant : {"auto", "pure", "zcdp", "gdp"}, default="auto"
        The quantity that is added up: ``"pure"`` ε and δ, ``"zcdp"`` ρ, ``"gdp"`` μ². ``"auto"``
        is ``"pure"`` for ``delta=0``. Otherwise it admits a fit while one of three totals stays
        below the cap: all ε, with at most one fit of noise; μ² of all fits; or ε of the fits
        without noise in k sixteenths of ε, and μ² of the fits with noise in the rest. Fits of
        which only (ε, δ) is known share a tenth of δ.
    for_tests : bool, default=False
        Whether any number of fits with a `random_state` may be charged. Otherwise the second one is
        refused, since two fits with the same seed have the same noise, and their difference has
        none. A budget for tests protects nobody. Its `repr` and all receipts state this.

    Warns
    -----
    SeededRandomnessWarning
        In each fit with a `random_state` that is charged, unless the budget is for tests.

    See Also
    --------
    SemiPrivateClassifier : Accepts a budget, as all estimators do.

    Notes
    -----
    Copies, pickles, clones and workers share the file and hence the budget. A copy that cannot
    open its file raises. A fit that fails or is killed after its entry was written has spent.

    A budget counts each row once in each fit. If bootstrap samples or oversampling repeat a row k
    times in a fit, the privacy loss of that row is k times as large. The budget cannot detect this.

    The filters are those of Feldman and Zrnic (2021), Whitehouse et al. (2023) and Smith and
    Thakurta (2022). They are valid under fully adaptive choices (docs/proofs/budgets.md).

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
    skpublicdp.exceptions.PrivacyBudgetError: This fit asks for ε = 0.7, and ε = 0.3 is left ...
    """

    def __init__(
        self,
        epsilon: Any,
        delta: Any = 0.0,
        *,
        path: str | os.PathLike[str] | None = None,
        accountant: str = "auto",
        for_tests: bool = False,
    ) -> None:
        if not _is_number(epsilon) or not 0 < epsilon < math.inf:
            raise ValueError(f"epsilon must be a number, positive and finite; got {epsilon!r}.")
        _check_delta(delta)
        if accountant not in ACCOUNTANTS:
            raise ValueError(f"accountant must be one of {ACCOUNTANTS}; got {accountant!r}.")
        if not delta and accountant in ("zcdp", "gdp"):
            raise ValueError(f"accountant={accountant!r} needs a positive delta.")
        if not isinstance(for_tests, bool):
            raise ValueError(f"for_tests must be True or False; got {for_tests!r}.")
        self._filter = Filter(
            exact_fraction(epsilon), exact_fraction(delta), accountant if delta else "pure"
        )
        self._group = ""
        if path is None:
            handle, path = tempfile.mkstemp(prefix="privacy-budget-", suffix=".sqlite")
            os.close(handle)
            atexit.register(_remove, path, os.getpid())
        self._file = BudgetFile.open(str(Path(path).resolve()), self._filter, for_tests=for_tests)

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
        """The accountant, which decides which quantity is added up."""
        return self._filter.accountant

    @property
    def for_tests(self) -> bool:
        """Whether any number of fits with a `random_state` may be charged."""
        return self._file.for_tests

    @property
    def path(self) -> str:
        """Path of the file that holds the ledger."""
        return self._file.path

    @property
    def ledger(self) -> list[Entry]:
        """Entries of all fits so far, of all groups, in order."""
        rows = self._file.read(
            "SELECT number, time, who, event, n_rows, disjoint, seeded FROM entries ORDER BY number"
        )
        return [
            Entry(number, time, who, from_text(event), n_rows, group or None, bool(seeded))
            for number, time, who, event, n_rows, group, seeded in rows
        ]

    def group(self, name: str) -> Self:
        """Return this budget for one of several disjoint groups of rows (parallel composition).

        Each group may spend everything that the fits on all rows leave. No two groups may share a
        row or a person. The members of a group and its size must be public.

        Parameters
        ----------
        name : str
            Name of the group, which the ledger keeps.

        Returns
        -------
        PrivacyBudget
            Budget for fits on rows of that group only.
        """
        if not isinstance(name, str) or not name:
            raise ValueError(f"name must be a text that is not empty; got {name!r}.")
        if self._group:
            raise ValueError(f"This budget is already that of the group {self._group!r}.")
        budget = object.__new__(type(self))
        budget.__dict__.update(self.__dict__, _group=name)
        return budget

    def check(self, event: Event, *, seeded: bool = False) -> None:
        """Raise if an event would not be admitted now, without spending anything.

        Parameters
        ----------
        event : Event
            The plan of a fit.
        seeded : bool, default=False
            Whether its randomness comes from a `random_state`.

        Raises
        ------
        PrivacyBudgetError
            If the event costs more than the budget has left, or is the second seeded one.
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
        """Charge an event, and return after its entry is on disk.

        Parameters
        ----------
        event : Event
            The event that is about to use private rows. Mechanisms of other packages are
            ``accounting.Pure(epsilon)``, ``accounting.Gaussian(mu_squared)`` or
            ``accounting.Approximate(epsilon, delta)``.
        who : str
            Name of the program or estimator.
        n_rows : int
            Number of private rows.
        ticket : str, optional
            One-time token, which is accepted for one entry only.
        seeded : bool, default=False
            Whether the randomness comes from a `random_state`.

        Returns
        -------
        int
            Number of the entry.

        Raises
        ------
        PrivacyBudgetError
            If the event costs more than the budget has left, is the second seeded one, or has a
            used ticket. Nothing is spent then.
        """
        if not isinstance(who, str) or not 0 <= n_rows < 1 << 63:
            raise ValueError(f"who must be a text, n_rows a number; got {who!r} and {n_rows!r}.")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._file.connected() as connection:
            connection.execute("BEGIN IMMEDIATE")  # other writers wait from here on
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
            connection.execute("COMMIT")
        return int(written.lastrowid or 0)

    def spent(self) -> Spent:
        """Return the smallest (ε, δ) that would have admitted all fits, of the most spent group.

        The guarantee is that of the whole budget, unless all fits were fixed in advance: a decision
        to stop that depends on earlier results is an adaptive choice (docs/proofs/budgets.md).
        """
        return self._most_spent(self._groups(self._file.read(LAST_TOTALS)))

    @overload
    def remaining(self, kind: None = None) -> Remaining: ...

    @overload
    def remaining(self, kind: str, delta: Any = None) -> float: ...

    def remaining(self, kind: str | None = None, delta: Any = None) -> float | Remaining:
        """Return the largest ε that one more fit may have, by the kind of fit.

        Parameters
        ----------
        kind : {"pure", "draw", "gaussian", "approximate"}, default=None
            ``None`` returns all of them. ``"pure"`` applies to any fit with ``delta=0``.
            ``"draw"`` may be larger and applies to fits that only draw: `SemiPrivateClassifier`,
            `PPMHalfspaceClassifier`, and `SemiPrivateSearchCV` over settings of the former. With a
            positive δ, ``"gaussian"`` applies to `PAPQueryRelease`,
            `SemiPrivateBoostingClassifier`, `SemiPrivateBoostingRegressor` and `private_scores`,
            and ``"approximate"`` to all others.
        delta : float, optional
            δ of that fit, for the last two kinds. The default is the δ of the budget, or the
            remaining δ for ``"approximate"`` and for ``accountant="pure"``.

        Returns
        -------
        float or Remaining
            0 if nothing is left.

        Examples
        --------
        >>> from skpublicdp import PrivacyBudget
        >>> from skpublicdp.accounting import Gaussian, gaussian_mu_squared
        >>> budget = PrivacyBudget(2.0, 1e-6)
        >>> entry = budget.spend(Gaussian(gaussian_mu_squared(1, 1e-6)))
        >>> budget.remaining("gaussian")
        1.65...
        >>> budget.remaining()
        Largest ε of one more fit, by its kind, as kinds compose differently: pure 0.833...
        """
        if kind is None:
            if delta is not None:
                raise ValueError("delta belongs to one kind of fit; pass kind as well.")
            return Remaining(*(self.remaining(kind) for kind in Remaining._fields))
        if kind not in FIT_KINDS:
            raise ValueError(f"kind must be one of {FIT_KINDS}; got {kind!r}.")
        if delta is not None and kind in ("pure", "draw"):
            raise ValueError(f"delta is 0 for kind={kind!r}; leave it out.")
        if delta is not None:
            _check_delta(delta)
        exact_delta = None if delta is None else exact_fraction(delta)
        totals = self._totals(self._groups(self._file.read(LAST_TOTALS)))
        return min(self._filter.largest_epsilon(total, kind, exact_delta) for total in totals)

    def history(self) -> list[Spent]:
        """Return the result of `spent` after each entry."""
        groups: dict[str, SpentTotals] = {}
        history: list[Spent] = []
        for group, total in self._file.read("SELECT disjoint, total FROM entries ORDER BY number"):
            groups[group] = _total(total)
            history.append(self._most_spent(groups))
        return history

    def to_dict(self) -> dict[str, Any]:
        """Return terms, entries and spending as plain values that JSON can store."""
        fields = ("number", "time", "who", "n_rows", "group", "seeded")
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "accountant": self.accountant,
            "for_tests": self.for_tests,
            "spent": list(self.spent()),
            "entries": [
                {name: getattr(entry, name) for name in fields} | {"event": to_text(entry.event)}
                for entry in self.ledger
            ],
        }

    def plot(self, ax: Any = None) -> Any:
        """Plot the remaining budget after each fit.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw into. The default is a new figure.

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
        group = f", group={self._group!r}" if self._group else ""
        return (
            f"PrivacyBudget(epsilon={self.epsilon:g}, delta={self.delta:g}, "
            f"accountant={self.accountant!r}{tests}{group})"
        )

    def _repr_html_(self) -> str:
        spent = self.spent()
        rows = "".join(
            f"<tr><td>{entry.number}</td><td>{entry.time}</td><td>{escape(entry.who)}</td>"
            f"<td>{entry.n_rows}</td><td>{escape(entry.group or '')}</td></tr>"
            for entry in self.ledger
        )
        tests = " For tests only: it protects nobody." if self.for_tests else ""
        return (
            f"<div><p><b>Privacy budget: ε = {self.epsilon:g}, δ = {self.delta:g}.{tests}</b> "
            f"Spent: ε = {spent.epsilon:.4g}, δ = {spent.delta:g}. {self.remaining()}.</p>"
            f'<progress max="{self.epsilon}" value="{spent.epsilon}"></progress>'
            "<table><tr><th>entry</th><th>time (UTC)</th><th>who</th><th>private rows</th>"
            f"<th>group</th></tr>{rows}</table></div>"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrivacyBudget):
            return NotImplemented
        return (self._file, self._group) == (other._file, other._group)

    def __hash__(self) -> int:
        return hash((self._file, self._group))

    def __sklearn_clone__(self) -> Self:
        return self

    def _groups(self, last_totals: list[Any]) -> dict[str, SpentTotals]:
        return {group: _total(total) for group, total, _ in last_totals}

    def _totals(self, groups: dict[str, SpentTotals]) -> list[SpentTotals]:
        """Return the totals that limit this budget: of its group, or of all rows and each group."""
        all_rows = groups.get("", ZERO_SPENT)
        if self._group:
            return [all_rows + groups.get(self._group, ZERO_SPENT)]
        return [all_rows, *(all_rows + total for name, total in groups.items() if name)]

    def _most_spent(self, groups: dict[str, SpentTotals]) -> Spent:
        return max(map(self._filter.spent, self._totals(groups)), key=lambda spent: spent.epsilon)

    def _admit(self, event: Event, seeded: bool, connection: sqlite3.Connection) -> SpentTotals:
        """Return the new total of the events of this group alone, or raise."""
        # of all groups: who knows the rows of one group could remove noise that two groups share
        if seeded and not self.for_tests and connection.execute(N_SEEDED).fetchone()[0]:
            raise PrivacyBudgetError(SEEDED_TWICE)
        price = SpentTotals.of(event)
        groups = self._groups(connection.execute(LAST_TOTALS).fetchall())
        for total in self._totals(groups):
            if not self._filter.admits(total + price):
                raise PrivacyBudgetError(self._filter.refusal_message(event, total))
        return groups.get(self._group, ZERO_SPENT) + price


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | Decimal)


def _check_delta(delta: Any) -> None:
    if not _is_number(delta) or not 0 <= delta < 1:
        raise ValueError(f"delta must be a number, at least 0 and below 1; got {delta!r}.")


def _total(text: str) -> SpentTotals:
    try:
        return SpentTotals.from_text(text)
    except (AttributeError, TypeError, ValueError):
        raise PrivacyBudgetError(
            "This file of a budget was written by an earlier version, which added up other "
            "prices; go on with that version, or count all that it spent elsewhere."
        ) from None


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        with suppress(OSError):
            os.remove(path)
