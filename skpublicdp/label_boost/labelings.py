"""Every way in which a class labels given rows, listed once.

The proofs are in docs/proofs/label_boost.md. The lists depend on the rows, which may be private.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from skpublicdp.mechanisms.families import Family, Leaf, Path
from skpublicdp.typing import Codes, Floats, Integers


class Labelings(ABC):
    """Every way in which a class labels given rows, listed once."""

    @abstractmethod
    def family(self, y: Codes) -> Family:
        """Return all of them with their errors on the first `len(y)` rows, whose labels these are.

        Each is a member of the family once.
        """

    @abstractmethod
    def labels(self, member: Path) -> Codes:
        """Return the labels that one of them gives to all rows."""


class EnumeratedLabelings(Labelings):
    """Labelings whose errors fit in one array."""

    @abstractmethod
    def errors(self, y: Codes) -> Integers:
        """Return the errors of each on the first `len(y)` rows, whose labels these are."""

    def family(self, y: Codes) -> Leaf:
        """Return the errors as they are."""
        return Leaf(self.errors(y))


class SplitLabelings(EnumeratedLabelings):
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
        self, X: Floats, features: Any, pairs: list[tuple[int, int]], n_classes: int
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

    def errors(self, y: Codes) -> Integers:
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


def _distinct(ranks: list[Codes], feature: Codes, first: Codes) -> Codes:
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
    ranks: list[Codes],
    feature: Codes,
    first: Codes,
    left: Codes,
    right: Codes,
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


class IntervalLabelings(EnumeratedLabelings):
    """Labelings by an interval of one feature: 1 on a run of neighbouring values, 0 elsewhere.

    Parameters
    ----------
    column : ndarray of float64, shape (n,)
        Values of the rows.
    """

    def __init__(self, column: Floats) -> None:
        self._ranks = np.unique(column, return_inverse=True)[1].ravel()
        self._low, self._high = np.triu_indices(int(self._ranks.max()) + 1)

    def errors(self, y: Codes) -> Integers:
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


class ExplicitLabelings(EnumeratedLabelings):
    """Labelings by listed rules, each different labeling once.

    Parameters
    ----------
    labelings : ndarray of intp, shape (rules, n)
        What each rule says of each row.
    """

    def __init__(self, labelings: Codes) -> None:
        self._labelings = np.unique(labelings, axis=0)

    def errors(self, y: Codes) -> Integers:
        """Return the errors of each labeling."""
        wrong = self._labelings[:, : len(y)] != y
        return np.asarray(wrong.sum(axis=1, dtype=np.int64))

    def labels(self, member: int) -> Codes:
        """Return one labeling."""
        return np.asarray(self._labelings[member])
