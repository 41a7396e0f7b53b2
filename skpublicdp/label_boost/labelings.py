"""Enumerations of the labellings (dichotomies) of given rows by a hypothesis class.

Each list contains every labelling exactly once, as required by the privacy proof in
docs/proofs/label_boost.md. The lists depend on the rows, which may be private.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from skpublicdp.mechanisms.families import Family, Leaf, Path
from skpublicdp.typing import Codes, Floats, Integers


class Labelings(ABC):
    """List of all labellings of given rows by a hypothesis class, without duplicates."""

    @abstractmethod
    def family(self, y: Codes) -> Family:
        """Return a family with one member per labelling, scored by its number of errors.

        Errors are counted on the first ``len(y)`` rows, whose labels are y. The other rows are
        unlabelled.
        """

    @abstractmethod
    def labels(self, member: Path) -> Codes:
        """Return the label codes that a single member of the family assigns to all rows."""


class EnumeratedLabelings(Labelings):
    """List of labellings whose error counts fit in one array."""

    @abstractmethod
    def errors(self, y: Codes) -> Integers:
        """Return each labelling's error count on the first ``len(y)`` rows, whose labels are y."""

    def family(self, y: Codes) -> Leaf:
        """Return the labellings as one leaf; member i is the labelling at index i of `errors`."""
        return Leaf(self.errors(y))


class SplitLabelings(EnumeratedLabelings):
    """Labellings by a single split of one feature, and the constant labellings.

    Parameters
    ----------
    X : ndarray of float64, shape (n, n_features)
        Rows. Only the order of the values in each column matters.
    features : sequence of int
        Columns in which splits can be placed.
    pairs : sequence of (int, int)
        Label codes above and below a split, which must differ.
    n_classes : int
        Number of labels. There is one constant labelling for each label.
    """

    def __init__(
        self, X: Floats, features: Any, pairs: list[tuple[int, int]], n_classes: int
    ) -> None:
        self._ranks = [np.unique(X[:, j], return_inverse=True)[1].ravel() for j in features]
        self._pairs = pairs
        self._n_classes = n_classes
        # a feature with the ranks 0, ..., r has a split below each of the ranks 1, ..., r
        n_splits_by_feature = [int(ranks.max()) for ranks in self._ranks]
        feature = np.repeat(np.arange(len(n_splits_by_feature)), n_splits_by_feature)
        min_rank = np.concatenate([np.arange(1, n + 1) for n in n_splits_by_feature])
        if len(n_splits_by_feature) > 1:  # splits of a single feature are always distinct
            distinct = _distinct_splits(self._ranks, feature, min_rank)
            feature, min_rank = feature[distinct], min_rank[distinct]
        # row i is above split s if _ranks[_feature[s]][i] >= _min_rank[s]
        self._feature, self._min_rank = feature, min_rank

    def errors(self, y: Codes) -> Integers:
        """Return the errors on the first ``len(y)`` rows, whose labels are y.

        Returns
        -------
        ndarray of int64, shape (n_pairs * n_splits + n_classes,)
            Errors of all splits for the first pair of labels, then for the second pair and so on,
            followed by the errors of the constant labellings.
        """
        n_of_label = np.bincount(y, minlength=self._n_classes)
        n_above = np.empty((self._n_classes, len(self._feature)), dtype=np.int64)
        for feature, ranks in enumerate(self._ranks):
            on_feature = self._feature == feature
            n_ranks = int(ranks.max()) + 1
            cells = y * n_ranks + ranks[: len(y)]
            counts = np.bincount(cells, minlength=self._n_classes * n_ranks).reshape(-1, n_ranks)
            # rows by label and minimum rank: sums from the highest rank downwards
            counts_from_rank = counts[:, ::-1].cumsum(axis=1)[:, ::-1]
            n_above[:, on_feature] = counts_from_rank[:, self._min_rank[on_feature]]
        # a labelling is correct on rows above with the upper label and on rows below with the lower
        # label
        errors_by_pair = [
            len(y) - n_above[upper] - (n_of_label[lower] - n_above[lower])
            for upper, lower in self._pairs
        ]
        return np.concatenate([*errors_by_pair, len(y) - n_of_label]).astype(np.int64)

    def labels(self, member: int) -> Codes:
        """Return the label codes of all rows for the labelling at index `member` of `errors`."""
        n_rows = len(self._ranks[0])
        n_splits = len(self._feature)
        first_constant = len(self._pairs) * n_splits
        if member >= first_constant:
            return np.full(n_rows, member - first_constant, dtype=np.intp)
        pair, split = divmod(member, n_splits)
        upper, lower = self._pairs[pair]
        is_above = self._ranks[self._feature[split]] >= self._min_rank[split]
        return np.where(is_above, upper, lower).astype(np.intp)


def _distinct_splits(ranks: list[Codes], feature: Codes, min_rank: Codes) -> Codes:
    """Return the index of one split for each partition of the rows into two sets.

    Each row is assigned a random 64-bit key. A split is hashed by summing the keys of each of its
    two sets and keeping the smaller sum. Splits with equal hashes are then compared exactly. If two
    splits with equal hashes differ, which has probability 2^-64, new keys are drawn.

    Parameters
    ----------
    ranks : list of ndarray of intp, shape (n,)
        Ranks of the rows in each column.
    feature, min_rank : ndarray of intp, shape (n_splits,)
        Column of each split, and the smallest rank above the split.
    """
    n_rows = len(ranks[0])
    for seed in itertools.count():  # the first seed is enough, except with probability 2^-64
        keys = np.random.default_rng(seed).integers(0, 1 << 64, n_rows, dtype=np.uint64)
        total = keys.sum(dtype=np.uint64)
        sums_above = []  # by column: the sum of the keys above each split, modulo 2^64
        for column in ranks:
            sum_of_rank = np.zeros(int(column.max()) + 1, dtype=np.uint64)
            np.add.at(sum_of_rank, column, keys)
            sums_above.append(sum_of_rank[::-1].cumsum(dtype=np.uint64)[::-1][1:])
        sums = np.concatenate(sums_above)
        hashes = np.minimum(sums, total - sums)  # equal for a set and its complement
        _, representatives, group = np.unique(hashes, return_index=True, return_inverse=True)
        representative_of_split = representatives[group.ravel()]
        duplicates = np.flatnonzero(
            representative_of_split != np.arange(len(representative_of_split))
        )
        if _are_equal_partitions(
            ranks, feature, min_rank, duplicates, representative_of_split[duplicates]
        ):
            return np.sort(representatives)
    raise AssertionError("unreachable: itertools.count does not end")


def _are_equal_partitions(
    ranks: list[Codes], feature: Codes, min_rank: Codes, first: Codes, second: Codes
) -> bool:
    """Return whether each split in `first` partitions the rows like its counterpart in `second`.

    Two splits are equivalent if the rows above the first split are exactly the rows above the
    second split, or exactly the rows below it. To test this, the smallest and largest ranks in the
    second split's column are compared with its cut, separately for the rows on either side of the
    first split. All pairs of splits on the same two columns are processed together.

    Parameters
    ----------
    ranks : list of ndarray of intp, shape (n,)
        Ranks of the rows in each column.
    feature, min_rank : ndarray of intp, shape (n_splits,)
        Column of each split, and the smallest rank above the split.
    first, second : ndarray of intp, shape (n_pairs,)
        Indices of the splits to compare.
    """
    columns = np.stack([feature[first], feature[second]], axis=1)
    for first_column, second_column in np.unique(columns, axis=0).tolist():
        in_columns = (columns == (first_column, second_column)).all(axis=1)
        first_cut, second_cut = min_rank[first[in_columns]], min_rank[second[in_columns]]
        ranks_1, ranks_2 = ranks[first_column], ranks[second_column]
        # smallest and largest rank in the second column, for each rank in the first column; the
        # initial values are neutral for the minimum and the maximum
        smallest = np.full(int(ranks_1.max()) + 1, np.iinfo(np.intp).max)
        np.minimum.at(smallest, ranks_1, ranks_2)
        largest = np.full(len(smallest), -1)
        np.maximum.at(largest, ranks_1, ranks_2)
        smallest_above = np.minimum.accumulate(smallest[::-1])[::-1][first_cut]
        largest_above = np.maximum.accumulate(largest[::-1])[::-1][first_cut]
        smallest_below = np.minimum.accumulate(smallest)[first_cut - 1]
        largest_below = np.maximum.accumulate(largest)[first_cut - 1]
        is_equal = (smallest_above >= second_cut) & (largest_below < second_cut)
        is_complement = (largest_above < second_cut) & (smallest_below >= second_cut)
        if not (is_equal | is_complement).all():
            return False
    return True


class IntervalLabelings(EnumeratedLabelings):
    """Labellings by an interval of one feature: 1 for consecutive distinct values, 0 elsewhere.

    Parameters
    ----------
    column : ndarray of float64, shape (n,)
        Values of the rows. Only the order of the values matters.
    """

    def __init__(self, column: Floats) -> None:
        self._ranks = np.unique(column, return_inverse=True)[1].ravel()
        # lowest and highest rank of each non-empty interval, both inclusive
        self._low, self._high = np.triu_indices(int(self._ranks.max()) + 1)

    def errors(self, y: Codes) -> Integers:
        """Return the errors of all intervals and the empty interval on the first ``len(y)`` rows.

        The empty interval mislabels every row with label 1. Including a rank in an interval adds an
        error for each of its zeros and removes one for each of its ones.
        """
        n_ranks = int(self._ranks.max()) + 1
        cells = y * n_ranks + self._ranks[: len(y)]
        zeros_by_rank, ones_by_rank = np.bincount(cells, minlength=2 * n_ranks).reshape(2, n_ranks)
        empty_errors = ones_by_rank.sum()
        cumulative_change = np.concatenate([[0], np.cumsum(zeros_by_rank - ones_by_rank)])
        errors = empty_errors + cumulative_change[self._high + 1] - cumulative_change[self._low]
        return np.append(errors, empty_errors).astype(np.int64)

    def labels(self, member: int) -> Codes:
        """Return the labels that the labelling at index `member` of `errors` gives to the rows."""
        inside = np.zeros(len(self._ranks), dtype=np.intp)
        if member < len(self._low):  # the last member is the empty interval
            inside += (self._low[member] <= self._ranks) & (self._ranks <= self._high[member])
        return inside


class GridLabelings(EnumeratedLabelings):
    """Labellings by a box of grid cells: 1 inside, 0 outside.

    Each set of rows that can be cut out by a box is listed as its bounding box, which has rows in
    its first and in its last cell along each axis. All boxes of the grid are counted with
    summed-area tables, so time and memory depend on the grid and hardly on the number of rows.

    Parameters
    ----------
    cells : ndarray of intp, shape (n_axes, n)
        Cell of each row along each axis.
    shape : sequence of int, length n_axes
        Number of cells along each axis.
    """

    def __init__(self, cells: Codes, shape: Sequence[int]) -> None:
        self._cells, self._shape = cells, tuple(shape)
        self._cell_of_row = np.ravel_multi_index(tuple(cells), self._shape)
        # first and last cell of each interval along an axis, both inclusive
        self._intervals = [np.triu_indices(n_cells) for n_cells in self._shape]
        self._n_intervals = tuple(len(first) for first, _ in self._intervals)
        n_rows = np.bincount(self._cell_of_row, minlength=math.prod(self._shape))
        is_bounding = np.ones(self._n_intervals, dtype=np.bool_)
        for axis, (first, last) in enumerate(self._intervals):
            # for each cell of this axis and each interval of the other axes: whether there are rows
            has_rows = self._box_sums(n_rows, cell_axis=axis) > 0
            is_bounding &= has_rows.take(first, axis)
            is_bounding &= has_rows.take(last, axis)
        self._boxes = np.flatnonzero(is_bounding)

    def errors(self, y: Codes) -> Integers:
        """Return the errors of all bounding boxes and the empty box on the first ``len(y)`` rows.

        The empty box mislabels every row with label 1. Including a cell in a box adds an error for
        each of its zeros and removes one for each of its ones.
        """
        n_cells = math.prod(self._shape)
        labelled_cells = self._cell_of_row[: len(y)]
        n_ones = np.bincount(labelled_cells[y == 1], minlength=n_cells)
        change = np.bincount(labelled_cells, minlength=n_cells) - 2 * n_ones
        empty_errors = n_ones.sum()
        errors = empty_errors + self._box_sums(change).ravel()[self._boxes]
        return np.append(errors, empty_errors).astype(np.int64)

    def labels(self, member: int) -> Codes:
        """Return the labels that the labelling at index `member` of `errors` gives to the rows."""
        if member == len(self._boxes):  # the empty box
            return np.zeros(self._cells.shape[1], dtype=np.intp)
        box = np.unravel_index(self._boxes[member], self._n_intervals)
        inside = np.ones(self._cells.shape[1], dtype=np.intp)
        for cells, (first, last), interval in zip(self._cells, self._intervals, box, strict=True):
            inside &= (first[interval] <= cells) & (cells <= last[interval])
        return inside

    def _box_sums(self, values: Codes, cell_axis: int | None = None) -> Integers:
        """Return the sum of the values of all cells in each box."""
        sums = values.astype(np.int64).reshape(self._shape)
        for axis, (first, last) in enumerate(self._intervals):
            if axis != cell_axis:
                cumulative = np.insert(sums.cumsum(axis), 0, 0, axis)
                sums = cumulative.take(last + 1, axis)
                sums -= cumulative.take(first, axis)
        return sums


class ExplicitLabelings(EnumeratedLabelings):
    """The distinct labellings produced by a list of rules.

    Parameters
    ----------
    labelings : ndarray of intp, shape (n_rules, n)
        Label code that each rule assigns to each row.
    """

    def __init__(self, labelings: Codes) -> None:
        self._labelings = np.unique(labelings, axis=0)

    def errors(self, y: Codes) -> Integers:
        """Return each labelling's error count on the first ``len(y)`` rows, whose labels are y."""
        is_wrong = self._labelings[:, : len(y)] != y
        return np.asarray(is_wrong.sum(axis=1, dtype=np.int64))

    def labels(self, member: int) -> Codes:
        """Return the label codes of all rows for the labelling at index `member` of `errors`."""
        return np.asarray(self._labelings[member])
