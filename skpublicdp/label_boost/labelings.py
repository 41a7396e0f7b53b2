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


def ranks_of_values(column: Floats) -> Codes:
    """Return the rank of each value among the distinct values of a column."""
    _, ranks = np.unique(column, return_inverse=True)
    return ranks.ravel()


def count_rows(y: Codes, cells: Codes, shape: tuple[int, int]) -> Integers:
    """Return the number of rows with each label code in each cell, shape (n_classes, n_cells)."""
    n_classes, n_cells = shape
    counts = np.bincount(y * n_cells + cells, minlength=n_classes * n_cells)
    return counts.reshape(shape)


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
        self._ranks = [ranks_of_values(X[:, feature]) for feature in features]
        self._pairs = pairs
        self._n_classes = n_classes
        # a feature with the ranks 0, ..., r has a split below each of the ranks 1, ..., r
        n_splits_by_feature = [int(ranks.max()) for ranks in self._ranks]
        n_features = len(n_splits_by_feature)
        feature = np.repeat(np.arange(n_features), n_splits_by_feature)
        min_ranks_by_feature = [np.arange(1, n + 1) for n in n_splits_by_feature]
        min_rank = np.concatenate(min_ranks_by_feature)
        if n_features > 1:  # splits of a single feature are always distinct
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
        n_above = self._count_above(y)  # (n_classes, n_splits)
        n_below = n_of_label[:, None] - n_above
        errors = []
        for upper, lower in self._pairs:
            # rows above with the upper label are correct, and rows below with the lower label
            n_correct = n_above[upper] + n_below[lower]
            errors.append(len(y) - n_correct)
        errors_of_constants = len(y) - n_of_label
        return np.concatenate([*errors, errors_of_constants]).astype(np.int64)

    def _count_above(self, y: Codes) -> Integers:
        """Return the number of rows with each label above each split."""
        n_splits = len(self._feature)
        n_above = np.empty((self._n_classes, n_splits), dtype=np.int64)
        for feature, ranks in enumerate(self._ranks):
            n_ranks = int(ranks.max()) + 1
            counts = count_rows(y, ranks[: len(y)], (self._n_classes, n_ranks))
            # rows by label and minimum rank: sums from the highest rank downwards
            sums_downwards = counts[:, ::-1].cumsum(axis=1)
            counts_from_rank = sums_downwards[:, ::-1]
            on_feature = self._feature == feature
            min_ranks = self._min_rank[on_feature]
            n_above[:, on_feature] = counts_from_rank[:, min_ranks]
        return n_above

    def labels(self, member: int) -> Codes:
        """Return the label codes of all rows for the labelling at index `member` of `errors`."""
        n_rows = len(self._ranks[0])
        n_splits = len(self._feature)
        first_constant = len(self._pairs) * n_splits
        if member >= first_constant:
            return np.full(n_rows, member - first_constant, dtype=np.intp)
        pair, split = divmod(member, n_splits)
        upper, lower = self._pairs[pair]
        ranks = self._ranks[self._feature[split]]
        is_above = ranks >= self._min_rank[split]
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
    columns_of_pairs = np.stack([feature[first], feature[second]], axis=1)
    for columns in np.unique(columns_of_pairs, axis=0):
        in_columns = (columns_of_pairs == columns).all(axis=1)
        first_cut = min_rank[first[in_columns]]
        second_cut = min_rank[second[in_columns]]
        first_ranks, second_ranks = ranks[columns[0]], ranks[columns[1]]
        n_ranks = int(first_ranks.max()) + 1
        # smallest and largest rank in the second column, for each rank in the first column; the
        # initial values are neutral for the minimum and the maximum
        smallest = np.full(n_ranks, np.iinfo(np.intp).max)
        np.minimum.at(smallest, first_ranks, second_ranks)
        largest = np.full(n_ranks, -1)
        np.maximum.at(largest, first_ranks, second_ranks)
        # the same for the ranks from, and up to, each rank in the first column
        smallest_from = np.minimum.accumulate(smallest[::-1])[::-1]
        largest_from = np.maximum.accumulate(largest[::-1])[::-1]
        smallest_up_to = np.minimum.accumulate(smallest)
        largest_up_to = np.maximum.accumulate(largest)
        smallest_above, largest_above = smallest_from[first_cut], largest_from[first_cut]
        last_below = first_cut - 1
        smallest_below, largest_below = smallest_up_to[last_below], largest_up_to[last_below]
        is_equal = smallest_above >= second_cut
        is_equal &= largest_below < second_cut
        is_complement = largest_above < second_cut
        is_complement &= smallest_below >= second_cut
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
        self._ranks = ranks_of_values(column)
        # lowest and highest rank of each non-empty interval, both inclusive
        self._low, self._high = np.triu_indices(int(self._ranks.max()) + 1)

    def errors(self, y: Codes) -> Integers:
        """Return the errors of all intervals and the empty interval on the first ``len(y)`` rows.

        The empty interval mislabels every row with label 1. Including a rank in an interval adds an
        error for each of its zeros and removes one for each of its ones.
        """
        n_ranks = int(self._ranks.max()) + 1
        counts = count_rows(y, self._ranks[: len(y)], (2, n_ranks))
        zeros_by_rank, ones_by_rank = counts
        empty_errors = ones_by_rank.sum()
        change_by_rank = zeros_by_rank - ones_by_rank
        change_below = np.append(0, np.cumsum(change_by_rank))  # of the ranks below each rank
        change_up_to_high = change_below[self._high + 1]
        change_below_low = change_below[self._low]
        errors = empty_errors + change_up_to_high - change_below_low
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
        self._cells = cells
        self._shape = tuple(shape)
        self._cell_of_row = np.ravel_multi_index(tuple(cells), self._shape)
        # first and last cell of each interval along an axis, both inclusive
        self._intervals = [np.triu_indices(n_cells) for n_cells in self._shape]
        self._n_intervals = tuple(len(first) for first, _ in self._intervals)
        n_cells = math.prod(self._shape)
        n_rows = np.bincount(self._cell_of_row, minlength=n_cells)
        is_bounding = np.ones(self._n_intervals, dtype=np.bool_)
        for axis, (first, last) in enumerate(self._intervals):
            # for each cell of this axis and each interval of the other axes: whether there are rows
            rows_of_boxes = self._box_sums(n_rows, cell_axis=axis)
            has_rows = rows_of_boxes > 0
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
        n_labelled = np.bincount(labelled_cells, minlength=n_cells)
        change = n_labelled - 2 * n_ones  # zeros minus ones
        changes = self._box_sums(change).ravel()
        empty_errors = n_ones.sum()
        errors = empty_errors + changes[self._boxes]
        return np.append(errors, empty_errors).astype(np.int64)

    def labels(self, member: int) -> Codes:
        """Return the labels that the labelling at index `member` of `errors` gives to the rows."""
        n_rows = self._cells.shape[1]
        if member == len(self._boxes):  # the empty box
            return np.zeros(n_rows, dtype=np.intp)
        box = np.unravel_index(self._boxes[member], self._n_intervals)
        inside = np.ones(n_rows, dtype=np.intp)
        for axis, interval in enumerate(box):
            cells = self._cells[axis]
            first, last = self._intervals[axis]
            inside &= first[interval] <= cells
            inside &= cells <= last[interval]
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
