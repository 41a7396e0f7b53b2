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
        """Return all labelings with their errors on the first ``len(y)`` rows, whose labels are y.

        Each labeling is one member of the family.
        """

    @abstractmethod
    def labels(self, member: Path) -> Codes:
        """Return the labels of all rows by one member of the family."""


class EnumeratedLabelings(Labelings):
    """Labelings whose error counts fit in one array."""

    @abstractmethod
    def errors(self, y: Codes) -> Integers:
        """Return the errors of each labeling on the first ``len(y)`` rows, whose labels are y."""

    def family(self, y: Codes) -> Leaf:
        """Return the labelings as one leaf that holds the errors of each."""
        return Leaf(self.errors(y))


class SplitLabelings(EnumeratedLabelings):
    """Labelings by one split of one feature, and the constant labelings.

    Parameters
    ----------
    X : ndarray of float64, shape (n, n_features)
        Rows. Only the order of the values in each column matters.
    features : sequence of int
        Columns that may be split.
    pairs : sequence of (int, int)
        Codes of the labels above and below a split; the two must differ.
    n_classes : int
        Number of labels. Each label gives one constant labeling.
    """

    def __init__(
        self, X: Floats, features: Any, pairs: list[tuple[int, int]], n_classes: int
    ) -> None:
        self._ranks = [np.unique(X[:, j], return_inverse=True)[1].ravel() for j in features]
        self._pairs = pairs
        self._n_classes = n_classes
        n_splits = [int(ranks.max()) for ranks in self._ranks]
        feature = np.repeat(np.arange(len(n_splits)), n_splits)
        min_rank = np.concatenate([np.arange(1, size + 1) for size in n_splits])
        # splits of a single feature are distinct without a check
        several = len(n_splits) > 1
        distinct = _distinct_splits(self._ranks, feature, min_rank) if several else slice(None)
        # a row is above the split (feature, min_rank) if its rank is at least min_rank
        self._feature, self._min_rank = feature[distinct], min_rank[distinct]

    def errors(self, y: Codes) -> Integers:
        """Return the errors of all splits for each pair of labels, then of the constants."""
        n_of_label = np.bincount(y, minlength=self._n_classes)
        n_above = np.empty((self._n_classes, len(self._feature)), dtype=np.int64)
        for feature, ranks in enumerate(self._ranks):
            on_feature = self._feature == feature
            n_ranks = int(ranks.max()) + 1
            cells = y * n_ranks + ranks[: len(y)]
            counts = np.bincount(cells, minlength=self._n_classes * n_ranks).reshape(-1, n_ranks)
            tail_counts = counts[:, ::-1].cumsum(axis=1)[:, ::-1]  # rows of this rank or a higher
            n_above[:, on_feature] = tail_counts[:, self._min_rank[on_feature]]
        by_pair = [
            len(y) - n_above[upper] - (n_of_label[lower] - n_above[lower])
            for upper, lower in self._pairs
        ]
        return np.concatenate([*by_pair, len(y) - n_of_label]).astype(np.int64)

    def labels(self, member: int) -> Codes:
        """Return the labels of all rows by the labeling at an index of `errors`."""
        n = len(self._ranks[0])
        n_splits = len(self._feature)
        if member >= len(self._pairs) * n_splits:
            return np.full(n, member - len(self._pairs) * n_splits, dtype=np.intp)
        pair, split = divmod(member, n_splits)
        upper, lower = self._pairs[pair]
        is_above = self._ranks[self._feature[split]] >= self._min_rank[split]
        return np.where(is_above, upper, lower).astype(np.intp)


def _distinct_splits(ranks: list[Codes], feature: Codes, min_rank: Codes) -> Codes:
    """Return the index of one split for each partition of the rows into two sets.

    Each row gets a random 64-bit key. Splits into the same two sets have the same smaller sum of
    keys. Splits with equal sums are then compared exactly, two columns at a time. If two of them
    differ, which has probability 2^-64, new keys are drawn.
    """
    n = len(ranks[0])
    for seed in itertools.count():
        keys = np.random.default_rng(seed).integers(0, 1 << 64, n, dtype=np.uint64)
        total = keys.sum(dtype=np.uint64)
        sums_above = []
        for column in ranks:
            sum_of_rank = np.zeros(int(column.max()) + 1, dtype=np.uint64)
            np.add.at(sum_of_rank, column, keys)
            sums_above.append(sum_of_rank[::-1].cumsum(dtype=np.uint64)[::-1][1:])
        sums = np.concatenate(sums_above)
        digest = np.minimum(sums, total - sums)  # equal for a set and its complement
        _, representatives, group = np.unique(digest, return_index=True, return_inverse=True)
        twin = representatives[group.ravel()]
        duplicates = np.flatnonzero(twin != np.arange(len(twin)))
        if _all_same_partition(ranks, feature, min_rank, duplicates, twin[duplicates]):
            return np.sort(representatives)
    raise AssertionError("the seeds never end")


def _all_same_partition(
    ranks: list[Codes], feature: Codes, min_rank: Codes, first: Codes, second: Codes
) -> bool:
    """Return whether each split of `first` makes the same two sets of rows as its twin in `second`.

    Two splits agree if the rows above the first are exactly the rows above the second, or exactly
    the rows below it. The smallest and largest rank of these rows in the second feature decide it.

    Parameters
    ----------
    ranks : list of ndarray of intp, shape (n,)
        Ranks of the rows in each column.
    feature, min_rank : ndarray of intp, shape (n_splits,)
        Column of each split, and the smallest rank above it.
    first, second : ndarray of intp, shape (n_pairs,)
        Indices of the splits to compare.
    """
    columns = np.stack([feature[first], feature[second]], axis=1)
    for first_column, second_column in np.unique(columns, axis=0).tolist():
        in_columns = (columns == (first_column, second_column)).all(axis=1)
        first_cut, second_cut = min_rank[first[in_columns]], min_rank[second[in_columns]]
        ranks_1, ranks_2 = ranks[first_column], ranks[second_column]
        # smallest and largest rank in the second column, for each rank in the first column
        smallest = np.full(int(ranks_1.max()) + 1, np.iinfo(np.intp).max)
        np.minimum.at(smallest, ranks_1, ranks_2)
        largest = np.full(len(smallest), -1)
        np.maximum.at(largest, ranks_1, ranks_2)
        smallest_above = np.minimum.accumulate(smallest[::-1])[::-1][first_cut]
        largest_above = np.maximum.accumulate(largest[::-1])[::-1][first_cut]
        smallest_below = np.minimum.accumulate(smallest)[first_cut - 1]
        largest_below = np.maximum.accumulate(largest)[first_cut - 1]
        is_same = (smallest_above >= second_cut) & (largest_below < second_cut)
        is_complement = (largest_above < second_cut) & (smallest_below >= second_cut)
        if not (is_same | is_complement).all():
            return False
    return True


class IntervalLabelings(EnumeratedLabelings):
    """Labelings by an interval of one feature: 1 on consecutive distinct values, 0 elsewhere.

    Parameters
    ----------
    column : ndarray of float64, shape (n,)
        Values of the rows.
    """

    def __init__(self, column: Floats) -> None:
        self._ranks = np.unique(column, return_inverse=True)[1].ravel()
        self._low, self._high = np.triu_indices(int(self._ranks.max()) + 1)

    def errors(self, y: Codes) -> Integers:
        """Return the errors of all intervals, then of the empty one."""
        n_ranks = int(self._ranks.max()) + 1
        counts = np.bincount(y * n_ranks + self._ranks[: len(y)], minlength=2 * n_ranks)
        zeros, ones = counts.reshape(2, n_ranks)
        n_ones = ones.sum()
        cumulative_change = np.concatenate([[0], np.cumsum(zeros - ones)])
        errors = n_ones + cumulative_change[self._high + 1] - cumulative_change[self._low]
        return np.append(errors, n_ones).astype(np.int64)

    def labels(self, member: int) -> Codes:
        """Return the labels of all rows by the labeling at an index of `errors`."""
        inside = np.zeros(len(self._ranks), dtype=np.intp)
        if member < len(self._low):
            inside += (self._low[member] <= self._ranks) & (self._ranks <= self._high[member])
        return inside


class ExplicitLabelings(EnumeratedLabelings):
    """Labelings by the rules of a list, each distinct labeling once.

    Parameters
    ----------
    labelings : ndarray of intp, shape (n_rules, n)
        Code of the label that each rule gives to each row.
    """

    def __init__(self, labelings: Codes) -> None:
        self._labelings = np.unique(labelings, axis=0)

    def errors(self, y: Codes) -> Integers:
        """Return the errors of each labeling."""
        is_wrong = self._labelings[:, : len(y)] != y
        return np.asarray(is_wrong.sum(axis=1, dtype=np.int64))

    def labels(self, member: int) -> Codes:
        """Return the labels of all rows by one labeling."""
        return np.asarray(self._labelings[member])
