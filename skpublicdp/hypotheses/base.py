"""Base classes: a hypothesis class builds a cover from public rows, and a cover tabulates rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skpublicdp.guarantees import Cuts
from skpublicdp.mechanisms.families import Family, Path
from skpublicdp.typing import Codes, Floats, Integers

TABULATION_CHUNK_ROWS = 1 << 16
"""Number of rows that a worker tabulates at a time, which bounds its memory use."""

MAX_REPR_LENGTH = 300
"""Maximum number of characters of a rule in a repr; most trees of depth 2 are shorter."""

MAX_BLOCK_ERRORS = 1 << 22
"""Maximum number of error counts of a family kept in memory at a time."""


class FeatureName(str):
    """Name of a column whose numbers have their own text format, such as dates.

    Parameters
    ----------
    name : str
        Name of the column.
    """

    # function that formats a number in the column as text in printed rules
    write: Callable[[float], str]

    def __new__(cls, name: str, write: Callable[[float], str] | None = None) -> FeatureName:
        """Return the name; `write` is set after copying or unpickling."""
        self = super().__new__(cls, name)
        if write is not None:
            self.write = write
        return self


@dataclass(frozen=True, eq=False)
class PublicSample:
    """Public rows, label values and feature names used to build a cover.

    Parameters
    ----------
    X : ndarray of float64, shape (m, n_features)
        Public rows, or a data-independent reference sample if there are no public rows.
    classes : ndarray, shape (n_classes,)
        Sorted labels; hypotheses predict their indices (codes).
    feature_names : tuple of str
        One name per column.
    """

    X: Floats
    classes: NDArray[Any]
    feature_names: tuple[str, ...]


class Hypothesis(ABC):
    """A prediction rule that depends only on public numbers."""

    @abstractmethod
    def predict(self, X: Floats) -> Codes:
        """Return the predicted label code of each row, shape (n,)."""

    @abstractmethod
    def rule(self) -> str:
        """Return the rule as text, with feature names and labels."""

    def __str__(self) -> str:
        return self.rule()

    def __repr__(self) -> str:
        line = " ".join(self.rule().split())
        if len(line) > MAX_REPR_LENGTH:
            line = line[: MAX_REPR_LENGTH - 3] + "..."
        return f"<{type(self).__name__}: {line}>"

    def _repr_html_(self) -> str:
        """Return the rule as HTML for display in a notebook."""
        return f"<p><b>{type(self).__name__}</b></p><pre>{escape(self.rule())}</pre>"


class Cover(ABC):
    """A finite set of prediction rules that approximates a hypothesis class.

    A cover depends only on public rows. Only `tabulate` reads private rows, and the table it
    returns has these properties:

    - **additive**: the table of two sets of rows is the sum of their tables;
    - **row-local**: a row's contribution depends on that row and the cover alone;
    - **bounded**: replacing one row of weight w changes each member's error count in `family` by at
      most w.

    A cover may define finer covers around a released hypothesis. In this case, `rounds` draws share
    the privacy budget, and each draw uses the cover that `refine` returns for the previous draw.
    Every draw except the last is restricted to the members of `refinable_members`.
    """

    rounds: int | str = 1
    """Number of draws, or "auto" to use the number that `guarantees.n_rounds` returns."""

    equal_rounds: bool = False
    """Whether all draws receive equal shares of the budget and none of them can be omitted.

    Otherwise, later draws receive larger shares."""

    radius: float | None = None
    """Upper bound on the distance from any rule of the class to the nearest member of the cover.

    The distance is the fraction of public rows on which the two rules disagree. None means that no
    bound is known.

    `guarantees.cover_radius` converts the fraction into a bound for the population."""

    cuts: Cuts | None = None
    """Distance, in public rows, between the cuts of a rule and the cuts of the nearest member.

    None for classes whose rules do not compare single columns with thresholds."""

    @property
    def refinable_members(self) -> Cover:
        """Cover of only the members that have finer covers, used for every draw except the last."""
        return self

    def refine(self, hypothesis: Hypothesis, step: int) -> Cover:
        """Return a finer cover around a released hypothesis; the default returns this cover.

        Parameters
        ----------
        hypothesis : Hypothesis
            The most recently drawn hypothesis. In a union, the hypothesis may belong to another
            cover.
        step : int
            Number of the refinement, starting at 1.

        Returns
        -------
        Cover
            The cover for the next draw. If this cover itself is returned, the next draw is the last
            and uses the remaining budget.
        """
        return self

    def n_final_rules(self, n_draws: int) -> int:
        """Return an upper bound on the number of distinct rules that `n_draws` draws can produce.

        The draw with number t has at most size^t outcomes, and the search can end after any draw.
        """
        return sum(self.size**t for t in range(1, n_draws + 1))

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of hypotheses, including duplicates."""

    @abstractmethod
    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the additive integer table of the rows, from which `family` computes error counts.

        Parameters
        ----------
        X : ndarray of float64, shape (n, n_features)
            Rows.
        y : ndarray of intp, shape (n,)
            Label codes of the rows.
        weights : ndarray of int64, shape (n,)
            Non-negative weights.

        Returns
        -------
        ndarray of int64
            Table whose shape depends only on the cover.
        """

    @abstractmethod
    def family(self, table: Integers) -> Family:
        """Return the error counts of all members, given the table of the counted rows."""

    @abstractmethod
    def hypothesis(self, path: Path) -> Hypothesis:
        """Return the member that a path in `family` leads to, such as the path of a draw."""


class HypothesisClass(BaseEstimator, ABC):
    """A class of prediction rules that can be reduced to a finite cover using public rows.

    To add a class, create a subclass, define its settings as ``__init__`` parameters (as in
    scikit-learn estimators) and implement `build_cover`. Covers of classes from outside this
    package are checked on the public rows, as by `check_hypothesis_class`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let classes from outside this package check the covers that they build."""
        super().__init_subclass__(**kwargs)
        from skpublicdp.hypotheses.class_checks import check_built_covers  # imports this module

        check_built_covers(cls)

    @abstractmethod
    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> Cover:
        """Build a finite cover, using only public rows.

        Parameters
        ----------
        public : PublicSample
            Public rows, label values and feature names.
        alpha : float
            Target radius: each rule of the class should disagree with some rule of the cover on at
            most this fraction of the public rows.
        beta : float
            Failure probability of guarantees over the random sample of public rows.

        Returns
        -------
        Cover
            The cover.
        """


def is_of_package(hypothesis_class: type) -> bool:
    """Indicate whether a class is part of this package."""
    return hypothesis_class.__module__.partition(".")[0] == __name__.partition(".")[0]


OWN_CLASS_ASSUMPTION = (
    "the cover of {} depends on public rows alone, and a row changes its error counts by at most "
    "the row's weight, regardless of other rows"
)
"""Assumption about a hypothesis class that is not part of this package."""


def assumptions_of_class(hypotheses: HypothesisClass | None) -> tuple[str, ...]:
    """Return the assumptions of a hypothesis class that the privacy receipt of a fit must state.

    The list includes the assumptions of classes that are parameters of the class, as in `Union`.
    Each assumption is listed once. If the class is None, there are no assumptions.
    """
    if hypotheses is None:
        return ()
    # a dict is an ordered set
    assumptions: dict[str, None] = dict.fromkeys(getattr(hypotheses, "_assumptions", ()))
    if not is_of_package(type(hypotheses)):
        assumptions |= {OWN_CLASS_ASSUMPTION.format(type(hypotheses).__name__): None}
    for value in hypotheses.get_params(deep=False).values():
        members = value if isinstance(value, list | tuple) else [value]
        for member in members:
            if isinstance(member, HypothesisClass):
                assumptions |= dict.fromkeys(assumptions_of_class(member))
    return tuple(assumptions)


def check_public_values(
    hypotheses: Any, tables: Iterable[Floats | None], feature_names: tuple[str, ...]
) -> None:
    """Raise ValueError if no cover can be built because products of public values overflow.

    A fit that spends budget before it builds the cover calls this function first. The classes that
    are parameters of the class, as in `Union`, are also checked.
    """
    if not isinstance(hypotheses, HypothesisClass):
        return
    tables = [table for table in tables if table is not None]
    check = getattr(hypotheses, "_check_public_values", None)
    if check is not None:
        for table in tables:
            check(table, feature_names)
    for value in hypotheses.get_params(deep=False).values():
        for member in value if isinstance(value, list | tuple) else [value]:
            check_public_values(member, tables, feature_names)


def check_binary(hypotheses: HypothesisClass, public: PublicSample) -> None:
    """Raise ValueError if there are more than two labels, which binary rules cannot predict."""
    if len(public.classes) > 2:
        raise ValueError(
            f"{type(hypotheses).__name__} supports at most two classes, but y has "
            f"{len(public.classes)}. Use Stumps() or DecisionTrees() instead."
        )


def check_count(name: str, value: Any, minimum: int = 1) -> None:
    """Raise ValueError unless a parameter is an integer that is at least `minimum`."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_integer or value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}; got {value!r}.")


def tabulate(
    cover: Cover,
    X: ArrayLike,  # (n, n_features)
    y: ArrayLike,  # (n,)
    weights: ArrayLike | None = None,  # (n,)
    n_jobs: int | None = None,
) -> Integers:
    """Return the table defined by `cover.tabulate`, computed in chunks by joblib workers.

    The table depends on neither the chunks nor the number of workers.
    """
    X = np.asarray(X, dtype=np.float64)
    y = np.asarray(y, dtype=np.intp)
    weights = np.asarray(np.ones(len(y)) if weights is None else weights, dtype=np.int64)
    return tabulate_chunks(cover, X, y, weights, n_jobs)


def tabulate_chunks(
    cover: Cover, X: NDArray[Any], y: Codes, weights: Integers, n_jobs: int | None = None
) -> Integers:
    """Return the table of `tabulate` for arrays; X can have any dtype that the cover accepts."""
    # if there are no rows, one empty chunk yields a table of the right shape
    chunks = [
        slice(start, start + TABULATION_CHUNK_ROWS)
        for start in range(0, max(len(X), 1), TABULATION_CHUNK_ROWS)
    ]
    if len(chunks) == 1:
        return cover.tabulate(X, y, weights)
    tables = Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")(
        delayed(cover.tabulate)(X[chunk], y[chunk], weights[chunk]) for chunk in chunks
    )
    total: Integers = next(tables)
    for table in tables:
        total = total + table
    return total
