"""LabelBoostProcedure: label private rows by a rule drawn from all labelings of these very rows.

Beimel, Nissim and Stemmer (2015), Algorithm 2; the proof is docs/proofs/label_boost.md. Everything
here depends on private rows: nothing of it may be stored or shown.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Draw
from skpublicdp.exceptions import CoverSizeError
from skpublicdp.hypotheses import (
    FiniteClass,
    HypothesisClass,
    Intervals,
    PublicSample,
    Stumps,
    Thresholds,
)
from skpublicdp.hypotheses.base import Codes, Rows
from skpublicdp.label_boost.receipts import PROOF
from skpublicdp.ledger import Ledger
from skpublicdp.mechanisms.families import Leaf


class Dichotomies(ABC):
    """Every way in which a class labels given rows, listed once."""

    @abstractmethod
    def errors(self, y: Codes) -> NDArray[np.int64]:
        """Return the errors of each on the first `len(y)` rows, whose labels these are."""

    @abstractmethod
    def labels(self, member: int) -> Codes:
        """Return the labels that one of them gives to all rows."""


class Splits(Dichotomies):
    """Labelings by one split of some features, and the constant ones.

    Parameters
    ----------
    X : ndarray of float64, shape (n, n_features)
        Rows; only which of two values is larger is looked at.
    features : sequence of int
        Columns that may be split.
    pairs : sequence of (int, int)
        Codes above and below a split, two different ones.
    n_classes : int
        Number of labels, each of which makes a constant labeling.
    """

    def __init__(
        self, X: Rows, features: Any, pairs: list[tuple[int, int]], n_classes: int
    ) -> None:
        self._ranks = [np.unique(X[:, j], return_inverse=True)[1].ravel() for j in features]
        self._pairs = pairs
        self._n_classes = n_classes
        sizes = [int(ranks.max()) for ranks in self._ranks]
        feature = np.repeat(np.arange(len(sizes)), sizes)
        first = np.concatenate([np.arange(1, size + 1) for size in sizes])
        kept = _distinct(self._ranks, feature, first) if len(sizes) > 1 else slice(None)
        # a row is above the split (feature, first) when its rank is at least first
        self._feature, self._first = feature[kept], first[kept]

    def errors(self, y: Codes) -> NDArray[np.int64]:
        """Return the errors of all splits for each pair of labels, then those of the constants."""
        total = np.bincount(y, minlength=self._n_classes)
        above = np.empty((self._n_classes, len(self._feature)), dtype=np.int64)
        for feature, ranks in enumerate(self._ranks):
            own = self._feature == feature
            cells = int(ranks.max()) + 1
            counts = np.bincount(y * cells + ranks[: len(y)], minlength=self._n_classes * cells)
            tails = counts.reshape(-1, cells)[:, ::-1].cumsum(axis=1)[:, ::-1]
            above[:, own] = tails[:, self._first[own]]
        split = [
            len(y) - above[over] - (total[under] - above[under]) for over, under in self._pairs
        ]
        return np.concatenate([*split, len(y) - total]).astype(np.int64)

    def labels(self, member: int) -> Codes:
        """Return the labels that one of them gives to all rows."""
        n = len(self._ranks[0])
        if member >= len(self._pairs) * len(self._feature):
            return np.full(n, member - len(self._pairs) * len(self._feature), dtype=np.intp)
        pair, split = divmod(member, len(self._feature))
        over, under = self._pairs[pair]
        above = self._ranks[self._feature[split]] >= self._first[split]
        return np.where(above, over, under).astype(np.intp)


def _distinct(
    ranks: list[NDArray[np.intp]], feature: NDArray[np.intp], first: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return one split for each partition of the rows in two, exactly.

    Sums of random keys tell partitions apart. Those with equal sums are compared row by row, two
    columns at a time; if they differ after all, which has chance 2^-64, other keys are taken.
    """
    n = len(ranks[0])
    for seed in itertools.count():
        keys = np.random.default_rng(seed).integers(0, 1 << 64, n, dtype=np.uint64)
        total = keys.sum(dtype=np.uint64)
        sums = []
        for column in ranks:
            cells = np.zeros(int(column.max()) + 1, dtype=np.uint64)
            np.add.at(cells, column, keys)
            sums.append(cells[::-1].cumsum(dtype=np.uint64)[::-1][1:])
        side = np.concatenate(sums)
        digest = np.minimum(side, total - side)  # a set and its complement part the rows alike
        _, representative, group = np.unique(digest, return_index=True, return_inverse=True)
        twin = representative[group.ravel()]
        copies = np.flatnonzero(twin != np.arange(len(twin)))
        if _all_alike(ranks, feature, first, copies, twin[copies]):
            return np.sort(representative)
    raise AssertionError("the seeds never end")


def _all_alike(
    ranks: list[NDArray[np.intp]],
    feature: NDArray[np.intp],
    first: NDArray[np.intp],
    left: NDArray[np.intp],
    right: NDArray[np.intp],
) -> bool:
    """Tell whether pairs of splits part the rows alike, each of them."""
    columns = np.stack([feature[left], feature[right]], axis=1)
    for one, other in np.unique(columns, axis=0).tolist():
        own = (columns == (one, other)).all(axis=1)
        cut, other_cut = first[left[own]], first[right[own]]
        least = np.full(int(ranks[one].max()) + 1, np.iinfo(np.intp).max)
        np.minimum.at(least, ranks[one], ranks[other])
        most = np.full(len(least), -1)
        np.maximum.at(most, ranks[one], ranks[other])
        # the rows above one split are just those above the other, or just those below it
        least_above = np.minimum.accumulate(least[::-1])[::-1][cut]
        most_above = np.maximum.accumulate(most[::-1])[::-1][cut]
        least_below = np.minimum.accumulate(least)[cut - 1]
        most_below = np.maximum.accumulate(most)[cut - 1]
        same = (least_above >= other_cut) & (most_below < other_cut)
        opposite = (most_above < other_cut) & (least_below >= other_cut)
        if not (same | opposite).all():
            return False
    return True


class Runs(Dichotomies):
    """Labelings by an interval of one feature: 1 on a run of neighbouring values, 0 elsewhere.

    Parameters
    ----------
    column : ndarray of float64, shape (n,)
        Values of the rows.
    """

    def __init__(self, column: NDArray[np.float64]) -> None:
        self._ranks = np.unique(column, return_inverse=True)[1].ravel()
        self._low, self._high = np.triu_indices(int(self._ranks.max()) + 1)

    def errors(self, y: Codes) -> NDArray[np.int64]:
        """Return the errors of all runs, then those of the empty one."""
        cells = int(self._ranks.max()) + 1
        counts = np.bincount(y * cells + self._ranks[: len(y)], minlength=2 * cells)
        zeros, ones = counts.reshape(2, cells)
        change = np.concatenate([[0], np.cumsum(zeros - ones)])
        runs = ones.sum() + change[self._high + 1] - change[self._low]
        return np.append(runs, ones.sum()).astype(np.int64)

    def labels(self, member: int) -> Codes:
        """Return the labels that one of them gives to all rows."""
        inside = np.zeros(len(self._ranks), dtype=np.intp)
        if member < len(self._low):
            inside += (self._low[member] <= self._ranks) & (self._ranks <= self._high[member])
        return inside


class Listed(Dichotomies):
    """Labelings by listed rules, each different labeling once.

    Parameters
    ----------
    labelings : ndarray of intp, shape (rules, n)
        What each rule says of each row.
    """

    def __init__(self, labelings: Codes) -> None:
        self._labelings = np.unique(labelings, axis=0)

    def errors(self, y: Codes) -> NDArray[np.int64]:
        """Return the errors of each labeling."""
        wrong = self._labelings[:, : len(y)] != y
        return np.asarray(wrong.sum(axis=1, dtype=np.int64))

    def labels(self, member: int) -> Codes:
        """Return one labeling."""
        return np.asarray(self._labelings[member])


MOST_RUNS = 1 << 26
"""More intervals are refused: each is one number to weigh."""


def check_relabelling(hypotheses: HypothesisClass, n_features: int, classes: NDArray[Any]) -> None:
    """Refuse what cannot list each labeling of private rows once.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class to relabel with.
    n_features : int
        Number of features.
    classes : ndarray
        The labels.

    Raises
    ------
    ValueError
        If the class is none of those known here, or does not fit the rows.
    """
    # not isinstance: what a subclass lists is not known
    if type(hypotheses) not in (Thresholds, Stumps, Intervals, FiniteClass):
        raise ValueError(
            "hypotheses must be Thresholds, Stumps, Intervals or FiniteClass: the members are made "
            "of private rows and the privacy proof needs each labeling of these rows listed once; "
            f"got {type(hypotheses).__name__}, which release_labeler=True takes."
        )
    width = max(n_features, 1)
    hypotheses.build_cover(_nothing(classes, width), alpha=0.5, beta=0.5)


def check_rows_of(hypotheses: HypothesisClass, n: int) -> None:
    """Refuse rows with more labelings than fit in memory, by their number alone.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class to relabel with.
    n : int
        Number of rows.

    Raises
    ------
    CoverSizeError
        If there are too many.
    """
    if isinstance(hypotheses, Intervals) and n * (n + 1) // 2 > MOST_RUNS:
        raise CoverSizeError(
            f"Intervals label {n} rows in {n * (n + 1) // 2 + 1} ways and {MOST_RUNS} are allowed; "
            "use Thresholds() or Stumps() instead, or fewer rows."
        )


def dichotomies(hypotheses: HypothesisClass, X: Rows, classes: NDArray[Any]) -> Dichotomies:
    """List every way in which a class labels rows, once.

    Parameters
    ----------
    hypotheses : HypothesisClass
        One that `check_relabelling` has let pass.
    X : ndarray of float64, shape (n, n_features)
        Rows, at least one.
    classes : ndarray
        The labels.

    Returns
    -------
    Dichotomies
        The list; it depends on the rows.
    """
    count = len(classes)
    match hypotheses:
        case Thresholds(feature=feature):
            return Splits(X, [feature], [(1, 0)][: count - 1], count)
        case Intervals(feature=feature) if count == 2:
            return Runs(X[:, feature])
        case FiniteClass():
            cover = hypotheses.build_cover(_nothing(classes, X.shape[1]), alpha=0.5, beta=0.5)
            return Listed(np.stack([model.predict(X) for model in cover.hypotheses]))
    pairs = [(over, under) for over in range(count) for under in range(count) if over != under]
    return Splits(X, range(X.shape[1]), pairs, count)


def relabel(
    hypotheses: HypothesisClass,
    X: Rows,
    y: Codes,
    classes: NDArray[Any],
    epsilon: Fraction,
    ledger: Ledger,
) -> Codes:
    """Label all rows by one rule, drawn by the exponential mechanism on the labelled ones.

    Parameters
    ----------
    hypotheses : HypothesisClass
        One that `check_relabelling` has let pass.
    X : ndarray of float64, shape (n, n_features)
        Rows, the labelled ones first.
    y : ndarray of intp, shape (n_labelled,)
        Codes of the labels.
    classes : ndarray
        The labels.
    epsilon : Fraction
        Parameter of the mechanism.
    ledger : Ledger
        Draws.

    Returns
    -------
    ndarray of intp, shape (n,)
        The new codes. They are not private by themselves: only what a private algorithm makes of
        them may be shown.
    """
    ways = dichotomies(hypotheses, X, classes)
    family = Leaf(ways.errors(y))
    return ways.labels(ledger.draw(family, Draw(epsilon), 1, name="relabelling", proof=PROOF))


def log_size(
    hypotheses: HypothesisClass, rows: Any, n_features: int, n_classes: int
) -> NDArray[np.float64]:
    """Bound the logarithm of the number of labelings, from public numbers.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class.
    rows : array-like of int
        Numbers of rows.
    n_features, n_classes : int
        Numbers of features and labels.

    Returns
    -------
    ndarray of float64
        One bound for each number of rows.
    """
    rows = np.asarray(rows, dtype=np.float64)
    match hypotheses:
        case Thresholds():
            size = rows + 1
        case Intervals():
            size = rows * (rows + 1) / 2 + 1
        case FiniteClass(models=models):
            size = np.full_like(rows, len(models))
        case _:
            splits = n_features * (rows - 1).clip(0)
            size = n_classes * (n_classes - 1) * splits + n_classes
    return np.asarray(np.log(size))


def _nothing(classes: NDArray[Any], n_features: int) -> PublicSample:
    """Return public rows that say nothing, for a class to check its own settings with."""
    names = tuple(f"x{column}" for column in range(n_features))
    return PublicSample(np.zeros((1, n_features)), classes, names)
