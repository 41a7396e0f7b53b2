"""Base classes: a hypothesis class builds a cover from public rows; a cover tabulates rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
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
"""Number of rows that a worker tabulates together, which bounds its memory."""

MAX_REPR_LENGTH = 300
"""Maximum number of characters of a rule in a repr; most trees of depth 2 are shorter."""

EARLIER_NAMES = {"refine": "refined", "refinable_members": "scouts"}
"""Members of `Cover` that had another name in earlier versions."""

MAX_BLOCK_ERRORS = 1 << 22
"""Maximum number of error counts of a family that are in memory together."""


class FeatureName(str):
    """Name of a column whose numbers have a special text form, for example dates.

    Parameters
    ----------
    name : str
        Name of the column.
    write : callable, optional
        Function that returns the text of a number of the column, for printed rules.
    """

    write: Callable[[float], str]

    def __new__(cls, name: str, write: Callable[[float], str] | None = None) -> FeatureName:
        """Return the name; copies and unpickled names set `write` afterwards."""
        self = super().__new__(cls, name)
        if write is not None:
            self.write = write
        return self


@dataclass(frozen=True, eq=False)
class PublicSample:
    """Public rows, all labels and the names of features, from which a cover is built.

    Parameters
    ----------
    X : ndarray of float64, shape (m, n_features)
        Public rows, or a data-independent reference sample without public rows.
    classes : ndarray, shape (n_classes,)
        Sorted labels; hypotheses predict their indices (codes).
    feature_names : tuple of str
        One name per column.
    """

    X: Floats
    classes: NDArray[Any]
    feature_names: tuple[str, ...]


class Hypothesis(ABC):
    """A prediction rule that depends on public numbers only."""

    @abstractmethod
    def predict(self, X: Floats) -> Codes:
        """Return the code of the predicted label of each row, shape (n,)."""

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
        """Return the rule as HTML for a notebook."""
        return f"<p><b>{type(self).__name__}</b></p><pre>{escape(self.rule())}</pre>"


class Cover(ABC):
    """A finite set of prediction rules that approximates a hypothesis class.

    A cover depends on public rows alone. Only `tabulate` reads private rows, and its table has
    these properties:

    - **additive**: the table of two sets of rows is the sum of their tables;
    - **row-local**: a row's contribution depends on that row and the cover alone;
    - **bounded**: replacing one row of weight w changes the error count of each member in `family`
      by at most w.

    A cover may have finer covers around a released hypothesis. Then `rounds` draws share the
    budget, each on the cover that `refine` returns for the previous one. All draws but the last
    are among the members of `refinable_members`. Earlier names of these two members, `refined` and
    `scouts`, remain valid, also in subclasses.
    """

    rounds: int | str = 1
    """Number of draws, or "auto" for the number that `guarantees.n_rounds` returns."""

    equal_rounds: bool = False
    """Whether all draws get the same share of the budget and none can be omitted. Otherwise later
    draws get larger shares."""

    radius: float | None = None
    """Upper bound, over the class, on the fraction of public rows on which a rule disagrees with
    the nearest member of the cover; None without a bound. `guarantees.cover_radius` converts it
    into a bound for the population."""

    cuts: Cuts | None = None
    """Distance, in public rows, between the cuts of a rule and those of the nearest member.

    None for classes whose rules do not compare single columns with thresholds."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make methods of a subclass available under their current and their earlier name."""
        super().__init_subclass__(**kwargs)
        for name, earlier_name in EARLIER_NAMES.items():
            if name in vars(cls):
                setattr(cls, earlier_name, vars(cls)[name])
            elif earlier_name in vars(cls):
                setattr(cls, name, vars(cls)[earlier_name])

    @property
    def refinable_members(self) -> Cover:
        """Cover of the members with finer covers, for all draws but the last."""
        return self

    def refine(self, hypothesis: Hypothesis, step: int) -> Cover:
        """Return a finer cover around a released hypothesis; by default this cover.

        Parameters
        ----------
        hypothesis : Hypothesis
            The hypothesis that was drawn last. In a union it may belong to another cover.
        step : int
            1 for the first refinement.

        Returns
        -------
        Cover
            The cover of the next draw. If it is this cover, the next draw is the last and uses the
            remaining budget.
        """
        return self

    def n_final_rules(self, n_draws: int) -> int:
        """Return an upper bound on the number of rules with which `n_draws` draws may end.

        Draw t has at most size^t outcomes, and the search may end after any draw.
        """
        return sum(self.size**t for t in range(1, n_draws + 1))

    scouts = refinable_members
    refined = refine

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of hypotheses, duplicates included."""

    @abstractmethod
    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the additive integer table of rows, from which `family` computes error counts.

        Parameters
        ----------
        X : ndarray of float64, shape (n, n_features)
            Rows.
        y : ndarray of intp, shape (n,)
            Codes of their labels.
        weights : ndarray of int64, shape (n,)
            Non-negative weights.

        Returns
        -------
        ndarray of int64
            Table, whose shape depends on the cover alone.
        """

    @abstractmethod
    def family(self, table: Integers) -> Family:
        """Return the error counts of all members, given the table of the rows to count."""

    @abstractmethod
    def hypothesis(self, path: Path) -> Hypothesis:
        """Return the member at a path of `family`, for example the path of a private draw."""


class HypothesisClass(BaseEstimator, ABC):
    """A class of prediction rules, which public rows reduce to a finite set, its cover.

    To add a class, subclass this one, define its settings as ``__init__`` parameters (as in
    scikit-learn estimators) and implement `build_cover`.
    """

    @abstractmethod
    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> Cover:
        """Build a finite cover from public rows alone.

        Parameters
        ----------
        public : PublicSample
            Public rows, labels and names.
        alpha : float
            Target radius: each member of the class should disagree with some member of the cover on
            at most this fraction of the public rows.
        beta : float
            Probability that a guarantee over the random sample of public rows fails.

        Returns
        -------
        Cover
            The cover.
        """


def assumptions_of_class(hypotheses: HypothesisClass | None) -> tuple[str, ...]:
    """Return the assumptions of a hypothesis class that the privacy receipt of a fit must state.

    The assumptions of classes that are parameters of the class, as in `Union`, are included. Each
    assumption is returned once. Without a class (None) there are none.
    """
    if hypotheses is None:
        return ()
    # a dict is an ordered set
    assumptions: dict[str, None] = dict.fromkeys(getattr(hypotheses, "_assumptions", ()))
    for value in hypotheses.get_params(deep=False).values():
        members = value if isinstance(value, list | tuple) else [value]
        for member in members:
            if isinstance(member, HypothesisClass):
                assumptions |= dict.fromkeys(assumptions_of_class(member))
    return tuple(assumptions)


def check_binary(hypotheses: HypothesisClass, public: PublicSample) -> None:
    """Raise ValueError if there are more than two labels, which binary rules cannot predict."""
    if len(public.classes) > 2:
        raise ValueError(
            f"{type(hypotheses).__name__} needs at most two classes and y has "
            f"{len(public.classes)}; use Stumps() or DecisionTrees() instead."
        )


def check_count(name: str, value: Any, minimum: int = 1) -> None:
    """Raise ValueError unless a parameter is an integer of at least `minimum`."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_integer or value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}; got {value!r}.")


def tabulate(
    cover: Cover,
    X: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Integers:
    """Return the table of rows that `cover.tabulate` defines, computed in chunks by joblib workers.

    The table does not depend on the chunks or on the number of workers.

    Parameters
    ----------
    cover : Cover
        The cover.
    X : array-like of float, shape (n, n_features)
        Rows.
    y : array-like of int, shape (n,)
        Codes of their labels.
    weights : array-like of int, shape (n,), optional
        Non-negative weights; all 1 by default.
    n_jobs : int, optional
        Number of joblib threads.

    Returns
    -------
    ndarray of int64
        The table.
    """
    X = np.asarray(X, dtype=np.float64)
    y = np.asarray(y, dtype=np.intp)
    weights = np.asarray(np.ones(len(y)) if weights is None else weights, dtype=np.int64)
    return tabulate_chunks(cover, X, y, weights, n_jobs)


def tabulate_chunks(
    cover: Cover, X: NDArray[Any], y: Codes, weights: Integers, n_jobs: int | None = None
) -> Integers:
    """Return the table of `tabulate` for arrays; X has any dtype that the cover accepts."""
    # without rows there is one empty chunk, whose table has the right shape
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
