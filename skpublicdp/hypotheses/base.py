"""The contracts: a hypothesis class builds a cover from public rows, a cover tabulates rows."""

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
"""Rows tabulated at a time: enough for fast array work, little enough memory per worker."""

MAX_REPR_LENGTH = 300
"""Number of characters of a rule that a repr shows; most trees of depth 2 are shorter."""

MAX_BLOCK_ERRORS = 1 << 22
"""Error counts held at a time while a table is arranged as a family."""


class FeatureName(str):
    """Name of a column whose numbers are written in a way of their own, such as dates.

    Parameters
    ----------
    name : str
        Name.
    write : callable
        Writes out a number.
    """

    write: Callable[[float], str]

    def __new__(cls, name: str, write: Callable[[float], str] | None = None) -> FeatureName:
        """Return the name; copies and pickles bring what writes numbers later."""
        self = super().__new__(cls, name)
        if write is not None:
            self.write = write
        return self


@dataclass(frozen=True, eq=False)
class PublicSample:
    """What a hypothesis class may look at: nothing here depends on private rows.

    Parameters
    ----------
    X : ndarray of float64, shape (m, n_features)
        Public rows, or a data-independent reference where there are none.
    classes : ndarray, shape (n_classes,)
        The labels, sorted; hypotheses predict their positions (codes).
    feature_names : tuple of str
        One name per column.
    """

    X: Floats
    classes: NDArray[Any]
    feature_names: tuple[str, ...]


class Hypothesis(ABC):
    """A prediction rule, made of public numbers only."""

    @abstractmethod
    def predict(self, X: Floats) -> Codes:
        """Return the code of the predicted label of each row, shape (n,)."""

    @abstractmethod
    def rule(self) -> str:
        """Return the rule in words, with feature names and labels."""

    def __str__(self) -> str:
        return self.rule()

    def __repr__(self) -> str:
        line = " ".join(self.rule().split())
        if len(line) > MAX_REPR_LENGTH:
            line = line[: MAX_REPR_LENGTH - 3] + "..."
        return f"<{type(self).__name__}: {line}>"

    def _repr_html_(self) -> str:
        """Return the rule for a notebook."""
        return f"<p><b>{type(self).__name__}</b></p><pre>{escape(self.rule())}</pre>"


class Cover(ABC):
    """A finite public family that represents a hypothesis class.

    Everything about a cover is public. Private rows meet it only in `tabulate`, whose result is

    - **additive**: the table of two sets of rows is the sum of their tables;
    - **row-local**: a row's contribution depends on that row and the cover alone;
    - such that replacing one row of weight w changes no member's error count in `family` by more
      than w.

    A cover may offer finer ones around a hypothesis that was released: then `rounds` draws share
    the budget, each on the cover that `refined` makes of the one before. All draws but the last are
    among its `scouts`.
    """

    rounds: int | str = 1
    """Number of draws, or "auto" for as many as cost little."""

    radius: float | None = None
    """Each member of the class disagrees with some member of the cover on at most this share of
    the public rows; None where no bound is known. `guarantees.cover_radius` says what that means of
    the population."""

    cuts: Cuts | None = None
    """How far rules that cut single columns are from their stand-ins; None for other rules."""

    @property
    def scouts(self) -> Cover:
        """The members worth a draw that is not the last: those that lead to finer covers."""
        return self

    def refined(self, hypothesis: Hypothesis, step: int) -> Cover:
        """Return a finer cover around a released hypothesis, itself (the default) if it has none.

        Parameters
        ----------
        hypothesis : Hypothesis
            The hypothesis drawn last; of a union, possibly another cover's.
        step : int
            1 for the first refinement.

        Returns
        -------
        Cover
            The cover of the next draw. If it is this one, the next draw is the last and takes all
            of the budget that is left.
        """
        return self

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of hypotheses, duplicates included."""

    @abstractmethod
    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Reduce rows to an integer table.

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
            A table of a shape that depends on the cover alone.
        """

    @abstractmethod
    def family(self, table: Integers) -> Family:
        """Arrange a table as the error counts of all members."""

    @abstractmethod
    def hypothesis(self, path: Path) -> Hypothesis:
        """Return the member that a path of `family` names."""


class HypothesisClass(BaseEstimator, ABC):
    """A class of prediction rules that knows how to cover itself.

    To add a class, subclass this, list its settings as ``__init__`` parameters (as scikit-learn
    estimators do) and write `build_cover`.
    """

    @abstractmethod
    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> Cover:
        """Build a finite cover from public rows alone.

        Parameters
        ----------
        public : PublicSample
            Public rows, labels and names.
        alpha : float
            Radius wanted: each member of the class should disagree with some member of the cover
            on at most this fraction of the public rows.
        beta : float
            Probability with which a guarantee over the draw of the public rows may fail.

        Returns
        -------
        Cover
            The cover.
        """


def assumptions_of_class(hypotheses: HypothesisClass | None) -> tuple[str, ...]:
    """Return what receipts take for granted about the rules of a class and of classes in it."""
    lines: dict[str, None] = dict.fromkeys(getattr(hypotheses, "_assumptions", ()))
    for value in ({} if hypotheses is None else hypotheses.get_params(deep=False)).values():
        for part in value if isinstance(value, list | tuple) else (value,):
            if isinstance(part, HypothesisClass):
                lines.update(dict.fromkeys(assumptions_of_class(part)))
    return tuple(lines)


def check_binary(hypotheses: HypothesisClass, public: PublicSample) -> None:
    """Refuse more than two labels for a class whose rules know two."""
    if len(public.classes) > 2:
        raise ValueError(
            f"{type(hypotheses).__name__} needs at most two classes and y has "
            f"{len(public.classes)}; use Stumps() or DecisionTrees() instead."
        )


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Refuse what is not an integer, or too small a one."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name} must be an integer >= {least}; got {value!r}.")


def tabulate(
    cover: Cover,
    X: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Integers:
    """Tabulate rows in chunks, on several workers; the table is the same whatever their number.

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
    """Tabulate rows of any kind that the cover knows, as `tabulate` does."""
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
