"""Enumerations of the labellings (dichotomies) of given rows by a hypothesis class.

Each list contains every labelling exactly once, as required by the privacy proof in
docs/proofs/label_boost.md. The lists depend on the rows, which may be private.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Path, Product
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
        """Return the errors of all splits, pair by pair of labels, and then of the constants."""
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
            reversed_counts = counts[:, ::-1]
            sums_downwards = reversed_counts.cumsum(axis=1)
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

        Including a rank adds an error for each of its zeros and removes one for each of its ones.
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

        Including a cell adds an error for each of its zeros and removes one for each of its ones.
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


class _LowerSides(NamedTuple):
    """Consecutive lower sides of boxes that can be combined with the same upper sides.

    A side is an index into `_Strip.heights`.
    """

    # first and last lower side, both inclusive
    first: int
    last: int
    # Lowest upper side for these lower sides. All higher upper sides are also possible.
    first_upper: int


class _Strip(NamedTuple):
    """Points between a left and a right side of a box, with possible lower and upper sides."""

    points: slice  # the points between the sides, as a slice of all distinct points
    heights: Codes  # distinct ranks of these points in the second column, in increasing order
    # all pairs of a lower and an upper side that touch both the left and the right side
    runs: list[_LowerSides]


class BoxLabelings(Labelings):
    """Labellings by an axis-parallel box: 1 inside, 0 outside.

    Each set of rows that can be cut out by a box has a unique bounding box, which touches rows on
    all four sides. The list therefore contains each bounding box once, and the empty box.

    Parameters
    ----------
    X : ndarray of float64, shape (n, 2)
        Rows. Only the order of the values in each column matters.
    """

    def __init__(self, X: Floats) -> None:
        ranks = np.stack([ranks_of_values(column) for column in X.T])
        points, point_of_row = np.unique(ranks, axis=1, return_inverse=True)
        self._point_of_row = point_of_row.ravel()
        # np.unique sorts by the first column, so points with the same x rank are adjacent
        self._x_ranks, self._y_ranks = points
        _, first_points = np.unique(self._x_ranks, return_index=True)
        _, n_points = points.shape
        # the points with x rank r are _starts[r], ..., _starts[r + 1] - 1
        self._starts = np.append(first_points, n_points)
        # x ranks of the left and the right side, for each pair of sides
        n_ranks = len(first_points)
        self._lefts, self._rights = np.triu_indices(n_ranks)

    def family(self, y: Codes) -> Family:
        """Return all boxes with their errors on the first ``len(y)`` rows, whose labels are y.

        The family is a choice of one pair of a left and a right side. The boxes between a left and
        a right side are generated on demand. The last option in the family is the empty box.
        """
        n_points = len(self._x_ranks)
        labelled_points = self._point_of_row[: len(y)]
        ones = np.bincount(labelled_points, y, n_points).astype(np.int64)
        error_change = np.bincount(labelled_points, minlength=n_points) - 2 * ones
        n_ones = int(ones.sum())

        def build(sides: int, _: int) -> Family:
            if sides == len(self._lefts):
                return Leaf(np.array([[n_ones]], dtype=np.int64))  # the empty box
            return self._boxes_between(sides, error_change, n_ones)

        return Choice(Lazy(len(self._lefts) + 1, build, 1))

    def labels(self, member: Path) -> Codes:
        """Return the labels that one box of the family assigns to all rows.

        The path of a box is ``(sides, (run, (lower, upper)))``, in the order of `_boxes_between`.
        """
        sides, path_between = member
        inside = np.zeros(len(self._x_ranks), dtype=np.intp)
        if sides < len(self._lefts):  # the last option is the empty box
            run_index, (lower, upper) = path_between
            strip = self._strip(sides)
            run = strip.runs[run_index]
            y_ranks = self._y_ranks[strip.points]
            min_y_rank = strip.heights[run.first + lower]
            max_y_rank = strip.heights[run.first_upper + upper]
            inside[strip.points] = (min_y_rank <= y_ranks) & (y_ranks <= max_y_rank)
        return inside[self._point_of_row]

    def _strip(self, sides: int) -> _Strip:
        """Return the points between a left and a right side, and all lower and upper sides.

        A box touches its left and its right side only if each of these sides has a point between
        the lower and the upper side. For a given lower side, the lowest upper side is therefore the
        larger of two heights: the lowest point at or above the lower side on the left, and on the
        right. The lowest upper side changes only where a lower side passes one of these points.
        These changes divide the lower sides into runs.

        Parameters
        ----------
        sides : int
            Index of the pair of sides in `_lefts` and `_rights`.
        """
        left, right = self._lefts[sides], self._rights[sides]
        points = slice(self._starts[left], self._starts[right + 1])
        heights = np.unique(self._y_ranks[points])
        heights_on_sides = [
            np.searchsorted(heights, self._y_ranks[self._starts[side] : self._starts[side + 1]])
            for side in (left, right)
        ]
        runs, first_lower = [], 0
        for last_lower in np.unique(np.concatenate(heights_on_sides)):
            heights_above = [
                heights_on_side[np.searchsorted(heights_on_side, first_lower) :]
                for heights_on_side in heights_on_sides
            ]
            if not all(map(len, heights_above)):
                break  # one of the two sides has no point above
            first_upper = int(max(heights_on_side[0] for heights_on_side in heights_above))
            runs.append(_LowerSides(first_lower, int(last_lower), first_upper))
            first_lower = int(last_lower) + 1
        return _Strip(points, heights, runs)

    def _boxes_between(self, sides: int, error_change: Integers, n_ones: int) -> Family:
        """Return all boxes with a given left and right side, with their errors.

        A box mislabels every 1 outside and every 0 inside, so its error count is `n_ones` plus the
        sum of `error_change` over its points. If the points are ordered by height, the sum over the
        points of a box is a difference of two cumulative sums, one for the lower side and one for
        the upper side. Within a run, every lower side can be combined with every upper side, so the
        errors of a run are a `Product` of two leaves.
        """
        strip = self._strip(sides)
        height_of_point = np.searchsorted(strip.heights, self._y_ranks[strip.points])
        change = np.bincount(
            height_of_point, error_change[strip.points], len(strip.heights)
        ).astype(np.int64)
        cumulative = np.concatenate([[0], np.cumsum(change)])
        options = []  # the leaves have a leading batch axis of length 1, as `Lazy` needs
        for run in strip.runs:
            lower = Leaf(n_ones - cumulative[None, run.first : run.last + 1])
            upper = Leaf(cumulative[None, run.first_upper + 1 :])
            options.append(Product([lower, upper]))
        return OneOf(options)


MEMBERS_OF_CONSTANTS = 2
"""Number of constant labellings, which `HalfplaneLabelings` lists first: all 0, then all 1."""

SAFE_DIFFERENCE = 2.0**1000
"""Differences of coordinates below this bound cannot overflow.

Slopes below the inverse of this bound may have lost digits due to underflow, so they are compared
as fractions."""

SLOPE_TOLERANCE = 2.0**-48
"""Relative difference below which two slopes are compared as fractions.

This value exceeds the rounding error of a slope, see docs/proofs/label_boost.md."""

INTEGER_BITS = 25
"""Maximum bits of integer coordinates for which float slopes of different directions differ."""


class HalfplaneLabelings(EnumeratedLabelings):
    """Labellings by a line in the plane, with 1 on either side, and all constant labellings.

    Each non-constant labelling is determined by a point and a ray from this point through other
    points. The label is 1 for points to the left of the ray's line and, on the line, for the ray's
    origin and the points behind it.

    Parameters
    ----------
    X : ndarray of float64, shape (n, 2)
        Rows, which are compared exactly.
    """

    def __init__(self, X: Floats) -> None:
        points, point_of_row = np.unique(X + 0.0, axis=0, return_inverse=True)
        self._exact_points = points
        self._point_of_row = point_of_row.ravel()
        # If possible, scale the columns to integers of INTEGER_BITS bits. Scaling a column by a
        # power of two maps lines to lines and preserves their sides.
        max_abs = np.abs(points).max(axis=0)  # (2,)
        _, exponents = np.frexp(max_abs)
        shifts = INTEGER_BITS - exponents
        scaled = np.ldexp(points, shifts)
        is_exact = np.ldexp(scaled, -shifts) == points
        is_integer = scaled == np.rint(scaled)
        self._are_integers = bool((is_exact & is_integer).all())
        self._points = scaled if self._are_integers else points

    def errors(self, y: Codes) -> Integers:
        """Return the errors of the constants, followed by the errors of the rays of each point.

        Parameters
        ----------
        y : ndarray of intp
            Labels of the first ``len(y)`` rows, on which errors are counted.

        Returns
        -------
        ndarray of int64, shape (n_labelings,)
            One error count for each labelling: all rows 0, all rows 1, and then, for each point,
            its upper rays and its lower rays by angle (see `_lines_through`).
        """
        n_points = len(self._points)
        labelled_points = self._point_of_row[: len(y)]
        ones = np.bincount(labelled_points, y, n_points)
        error_change = np.bincount(labelled_points, minlength=n_points) - 2 * ones
        n_ones = int(ones.sum())
        errors = [np.array([n_ones, len(y) - n_ones], dtype=np.int64)]
        for point in range(n_points):
            line_of_point, on_lower_ray = self._lines_through(point)
            n_lines = int(line_of_point.max(initial=-1)) + 1
            change = np.delete(error_change, point)
            # Sums of the change over the upper and the lower rays of all lines up to an angle.
            # Floats add these integers exactly.
            upper_sums, lower_sums = (
                np.bincount(line_of_point[on_ray], change[on_ray], n_lines).cumsum()
                for on_ray in (~on_lower_ray, on_lower_ray)
            )
            # The upper rays of larger angles and the lower rays of smaller angles lie to the left
            # of an upper ray. The lower ray of the same line lies behind the point, so it is
            # included.
            left_of_upper = upper_sums[-1:] - upper_sums + lower_sums
            left_of_lower = lower_sums[-1:] - lower_sums + upper_sums
            # only rays through at least one other point are listed
            change_of_ray = [
                left_of_upper[np.unique(line_of_point[~on_lower_ray])],
                left_of_lower[np.unique(line_of_point[on_lower_ray])],
            ]
            n_errors = n_ones + error_change[point] + np.concatenate(change_of_ray)
            errors.append(n_errors.astype(np.int64))
        return np.concatenate(errors)

    def labels(self, member: int) -> Codes:
        """Return the labels that the labelling at index `member` of `errors` gives to the rows."""
        inside = np.zeros(len(self._points), dtype=np.intp)
        if member < MEMBERS_OF_CONSTANTS:
            inside += member  # all rows have the label 0 or 1
            return inside[self._point_of_row]
        n_remaining = member - MEMBERS_OF_CONSTANTS
        for point in range(len(self._points)):
            line_of_point, on_lower_ray = self._lines_through(point)
            for is_lower in (False, True):
                on_same_side = on_lower_ray == is_lower
                lines = np.unique(line_of_point[on_same_side])
                if n_remaining < len(lines):
                    line = lines[n_remaining]
                    is_left = np.where(on_same_side, line_of_point > line, line_of_point <= line)
                    inside[np.delete(np.arange(len(inside)), point)] = is_left
                    inside[point] = 1
                    return inside[self._point_of_row]
                n_remaining -= len(lines)
        raise IndexError(f"member must be below the number of labellings; got {member}")

    def _lines_through(self, point: int) -> tuple[Codes, NDArray[np.bool_]]:
        """Return the line that joins each other point to a given point, and its side of that line.

        Parameters
        ----------
        point : int
            Index of the point.

        Returns
        -------
        line_of_point : ndarray of intp, shape (n_points - 1,)
            Index of the line through each other point. Lines are numbered by their angle, from 0 to
            below π.
        on_lower_ray : ndarray of bool, shape (n_points - 1,)
            Marks the points on the lower ray of their line. The upper ray has the same angle as its
            line.
        """
        with np.errstate(over="ignore"):
            differences = self._points - self._points[point]
        dx, dy = np.delete(differences, point, axis=0).T
        # a difference of two floats has the correct sign
        points_left = (dy == 0) & (dx < 0)
        on_lower_ray = (dy < 0) | points_left
        sign = np.where(on_lower_ray, -1.0, 1.0)
        sectors, slopes = _slopes(dx * sign, dy * sign)
        order = np.lexsort((slopes, sectors))
        is_close = self._is_close_to_next(sectors[order], slopes[order])
        # the first direction begins a line, and so does each direction that differs from the
        # previous one
        begins_line = np.append(True, ~is_close)
        if not self._are_integers and is_close.any():
            begins_line = self._sort_close_directions(order, begins_line, point)
        n_points = len(order)
        line_of_point = np.empty(n_points, dtype=np.intp)
        # without other points, `order` is empty and `begins_line` has one entry
        n_lines = np.cumsum(begins_line[:n_points])
        line_of_point[order] = n_lines - 1
        return line_of_point, on_lower_ray

    def _is_close_to_next(self, sectors: Codes, slopes: Floats) -> NDArray[np.bool_]:
        """Return a mask of the sorted directions that equal the next direction up to rounding.

        For integer coordinates, float slopes are sufficiently accurate and the mask marks equal
        directions.

        Parameters
        ----------
        sectors, slopes : ndarray, shape (n_directions,)
            Directions in the upper half-plane, sorted by angle.

        Returns
        -------
        ndarray of bool, shape (n_directions - 1,)
            The mask, which has no entry for the last direction.
        """
        in_same_sector = sectors[1:] == sectors[:-1]
        difference = np.diff(slopes)
        if self._are_integers:
            return in_same_sector & (difference == 0)
        if not np.abs(self._points).max(initial=0) < SAFE_DIFFERENCE:
            return np.ones(len(difference), dtype=np.bool_)  # differences may overflow
        slope, next_slope = slopes[:-1], slopes[1:]
        largest = np.maximum(np.abs(next_slope), np.abs(slope))
        is_far = difference > SLOPE_TOLERANCE * largest
        is_near = ~is_far | (largest < 1 / SAFE_DIFFERENCE)
        # the slope 1 that ends a sector and the slope -1 that begins the next represent the same
        # direction
        ends_sector = slope > 1 - SLOPE_TOLERANCE
        begins_sector = next_slope < SLOPE_TOLERANCE - 1
        is_near_border = ends_sector & begins_sector
        return np.where(in_same_sector, is_near, is_near_border)

    def _sort_close_directions(
        self, order: Codes, begins_run: NDArray[np.bool_], point: int
    ) -> NDArray[np.bool_]:
        """Sort each run of close directions by exact slopes, changing `order` in place.

        Parameters
        ----------
        order : ndarray of intp, shape (n_points - 1,)
            The other points, sorted by the float slopes of their directions.
        begins_run : ndarray of bool, shape (n_points - 1,)
            Marks the directions that are not close to the previous direction.
        point : int
            Origin of the rays.

        Returns
        -------
        ndarray of bool, shape (n_points - 1,)
            Marks the directions that differ from the previous direction.
        """
        others = np.delete(np.arange(len(self._points)), point)
        x, y = map(Fraction, self._exact_points[point].tolist())
        begins_line = begins_run.copy()
        starts = np.flatnonzero(begins_line)
        for start, stop in zip(starts, np.append(starts[1:], len(order)), strict=True):
            if stop - start < 2:
                continue
            keys = []
            for index in order[start:stop].tolist():
                other_x, other_y = map(Fraction, self._exact_points[others[index]].tolist())
                is_level = other_y == y
                # -cot(angle) increases with the angle from 0 to π; the angle 0 itself comes first
                negative_cotangent = 0 if is_level else (x - other_x) / (other_y - y)
                keys.append((not is_level, negative_cotangent, index))
            keys.sort()
            order[start:stop] = [index for _, _, index in keys]
            directions = [(is_above, slope) for is_above, slope, _ in keys]
            for position, (previous, current) in enumerate(
                itertools.pairwise(directions), int(start) + 1
            ):
                begins_line[position] = previous != current
        return begins_line


def _slopes(dx: Floats, dy: Floats) -> tuple[Codes, Floats]:
    """Return a sector and a slope for each direction (dx, dy) of the upper half-plane.

    Directions sorted by sector, then by slope, are sorted by angle from 0 to below π. The sectors
    contain the angles below π/4 (0), from π/4 to 3π/4 (1) and above 3π/4 (2). Slopes are measured
    along the nearer axis, so they lie in [-1, 1].
    """
    is_flat = np.abs(dx) > dy
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        slopes = np.where(is_flat, dy / dx, -dx / dy)
    sectors = np.where(is_flat, np.where(dx > 0, 0, 2), 1)
    return sectors.astype(np.intp), slopes
