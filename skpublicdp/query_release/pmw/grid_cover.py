"""Covers of range queries on columns, i.e. of boxes and of ranges on single columns.

Covers depend only on the distinct public values of each column. Columns with too many values are
cut at public quantiles. The number of public rows between a value and the nearest cut is counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees import cuts_radius
from skpublicdp.query_release.pmw.cover import QueryCover
from skpublicdp.typing import Codes, Floats

MAX_COVER_BOXES = 1 << 20
"""Maximum number of boxes in a cover. A few arrays of this length must fit into memory."""

MAX_AXIS_CELLS = 1 << 10
"""Maximum number of cells per column. More cells would take longer and hardly reduce the error."""

N_PRODUCT_ROWS = 1 << 12
"""Number of representative rows for a product of columns."""

CELL_REDUCTION = 16
"""Columns of a box cover lose 1/16 of their cells at a time, until all boxes fit into memory."""


class QuantileAxis:
    """Numeric column divided into cells, and the ranges of cells that queries select.

    The column is cut between all public values, or at quantiles if there are too many values.

    Parameters
    ----------
    column : ndarray of shape (m,)
        Public values.
    n_ends : int
        Number of ends of a range that can vary: 2 for arbitrary ranges of cells, 1 for ranges that
        start at the first cell, and 0 for single cells.
    max_cells : int
        Maximum number of cells.

    Attributes
    ----------
    cuts : ndarray of shape (n_cells - 1,)
        Upper ends of all cells except the last one. Each upper end belongs to its cell.
    representatives : ndarray of shape (n_cells,)
        A public value in each cell.
    n_ranges : int
        Number of ranges.
    max_skipped_rows : int
        Maximum number of public rows between a value and the nearest cut, which is 0 if there is a
        cut between all values.
    max_skipped_share : float
        `max_skipped_rows` as a fraction of the public rows.
    """

    def __init__(self, column: NDArray[Any], n_ends: int, max_cells: int) -> None:
        values, counts = np.unique(column, return_counts=True)
        rows_below = np.append(0, np.cumsum(counts))  # below each gap
        share_below = rows_below / len(column)
        cut_gaps = _choose_cut_gaps(share_below, max_cells)
        nearest_cut = _nearest(
            share_below[cut_gaps], share_below
        )  # of each gap, an index of cut_gaps
        nearest_gap = cut_gaps[nearest_cut]
        n_skipped = np.abs(rows_below - rows_below[nearest_gap])
        self.cuts = _midpoints(values, cut_gaps[1:-1])
        self.representatives = _median_values(values, share_below, cut_gaps)
        self.max_skipped_rows = int(n_skipped.max())
        self.max_skipped_share = self.max_skipped_rows / len(column)
        self.n_ends = n_ends
        self.n_cells = len(self.representatives)
        self._range_starts, self._range_stops = _cell_ranges(self.n_cells, n_ends)
        self.n_ranges = len(self._range_starts)
        self._values = values
        self._nearest_cut = nearest_cut

    def radius(self, m: int, beta: float, n_columns: int) -> float:
        """Bound the population share between the ends of any range and the nearest cuts."""
        if not self.n_ends:
            return 0.0  # single cells: all ranges are listed
        # The number k of skipped rows depends on the public rows. Shares 1/((k + 1)(k + 2)) of beta
        # for all k add up to beta.
        share = beta / ((self.max_skipped_rows + 1) * (self.max_skipped_rows + 2))
        return cuts_radius(m, share, self.n_ends, columns=n_columns, missed=self.max_skipped_rows)

    def assign_cells(self, column: Floats) -> Codes:
        """Return the index of the cell that contains each number."""
        return np.searchsorted(self.cuts, column)

    def sum_over_ranges(self, table: NDArray[Any], axis: int) -> NDArray[Any]:
        """Return a table in which the cells along one axis are replaced by sums over all ranges."""
        zeros = np.zeros_like(table.take([0], axis))
        cumulative = np.cumsum(np.concatenate([zeros, table], axis=axis), axis=axis)
        stop_sums = cumulative.take(self._range_stops, axis)
        start_sums = cumulative.take(self._range_starts, axis)
        return stop_sums - start_sums

    def nearest_ranges(self, low: Floats, high: Floats) -> Codes:
        """Return the index of the range of cells nearest to each interval [low, high]."""
        first_gap = np.searchsorted(self._values, low)
        last_gap = np.searchsorted(self._values, high, side="right")
        start = self._nearest_cut[first_gap]
        stop = self._nearest_cut[last_gap]
        # ranges are in lexicographic order, so that one combined number per pair is increasing
        base = self.n_cells + 1
        range_keys = self._range_starts * base + self._range_stops
        # (0, 0) is the only empty range in the list
        keys = np.where(start < stop, start * base + stop, 0)
        return np.searchsorted(range_keys, keys)

    def cell_slice(self, range_index: int) -> slice:
        """Return the cells in a range as a slice, given the index of the range."""
        return slice(self._range_starts[range_index], self._range_stops[range_index])


def _cell_ranges(n_cells: int, n_ends: int) -> tuple[Codes, Codes]:
    """Return the starts and stops of all ranges of adjacent cells with `n_ends` free ends.

    With two free ends, these are all ranges; with one free end, ranges that start at the first
    cell; and with none, single cells. Ranges are in lexicographic order, and range i contains the
    cells from start[i] to stop[i] - 1.
    """
    cells = np.arange(n_cells)
    if n_ends == 0:
        return cells, cells + 1
    if n_ends == 1:
        return np.zeros(n_cells + 1, dtype=np.intp), np.arange(n_cells + 1)
    first, last = np.triu_indices(n_cells)
    # the empty range (0, 0) comes first
    return np.append(0, first), np.append(0, last + 1)


def _n_boxes(n_cells: Sequence[int], n_ends: int) -> int:
    """Return the number of boxes, i.e. of products of one range of cells per column."""
    return math.prod(len(_cell_ranges(k, n_ends)[0]) for k in n_cells)


def _choose_cut_gaps(share_below: Floats, max_cells: int) -> Codes:
    """Return the gaps at which a column is cut: all gaps, or those nearest to quantiles."""
    n_values = len(share_below) - 1
    if n_values <= max_cells:
        return np.arange(n_values + 1)
    levels = np.arange(max_cells + 1) / max_cells
    return np.unique(_nearest(share_below, levels))


def _midpoints(values: NDArray[Any], gaps: Codes) -> NDArray[Any]:
    """Return a number in each gap, or the value below if no float lies between both values."""
    left, right = values[gaps - 1], values[gaps]
    middle = left / 2 + right / 2
    is_between = (middle >= left) & (middle < right)
    return np.where(is_between, middle, left)


def _median_values(values: NDArray[Any], share_below: Floats, cut_gaps: Codes) -> NDArray[Any]:
    """Return the median of the public rows in each cell, shape (n_cells,)."""
    first_gap, last_gap = cut_gaps[:-1], cut_gaps[1:]
    middle_share = (share_below[first_gap] + share_below[last_gap]) / 2
    share_up_to_value = share_below[1:]
    median_value = np.searchsorted(share_up_to_value, middle_share)
    return values[np.clip(median_value, first_gap, last_gap - 1)]


def _nearest(sorted_values: Floats, targets: Floats) -> Codes:
    """Return the index of the sorted value nearest to each target, or the lower one in a tie."""
    right = np.clip(np.searchsorted(sorted_values, targets), 1, len(sorted_values) - 1)
    is_left_nearer = targets - sorted_values[right - 1] <= sorted_values[right] - targets
    return right - is_left_nearer


class BoxQueryCover(QueryCover):
    """Cover of box queries, each of which is a product of one range of cells per column.

    Parameters
    ----------
    X_public : ndarray of shape (m, n_features)
        Public rows.
    n_ends : int
        Number of ends of a range that can vary, 1 or 2.
    """

    def __init__(self, X_public: Floats, n_ends: int) -> None:
        columns = X_public.T
        n_cells = [min(len(np.unique(column)), MAX_AXIS_CELLS) for column in columns]
        while _n_boxes(n_cells, n_ends) > MAX_COVER_BOXES:
            # remove a sixteenth (rounded up) of the cells in the column with the most cells
            widest = n_cells.index(max(n_cells))
            n_cells[widest] -= math.ceil(n_cells[widest] / CELL_REDUCTION)
            if n_cells[widest] < 2:
                raise CoverSizeError(
                    f"With {len(n_cells)} columns, even two cells per column form more boxes than "
                    "fit into memory. This depends on the number of cells, not on the number of "
                    'rows. Use fewer columns or method="auto".'
                )
        self.axes = [
            QuantileAxis(column, n_ends, limit)
            for column, limit in zip(columns, n_cells, strict=True)
        ]
        self._shape = tuple(axis.n_cells for axis in self.axes)
        self._n_ranges = tuple(axis.n_ranges for axis in self.axes)
        self.n_queries = math.prod(self._n_ranges)
        self.sizes = np.array([math.prod(self._shape)])
        self.irreducible_error = n_ends * sum(axis.max_skipped_share for axis in self.axes)

    def radius(self, m: int, d: int, beta: float) -> float:
        """Bound the difference between a box's answer and that of its nearest member.

        The box and the member differ in the rows between the box's ends and the nearest cuts; this
        bound is summed over the columns.
        """
        return min(1.0, sum(axis.radius(m, beta, len(self.axes)) for axis in self.axes))

    def assign_cells(self, X: Floats) -> Codes:
        """Return the index of the cell that contains each row, shape (n, 1)."""
        axis_cells = tuple(
            axis.assign_cells(column) for axis, column in zip(self.axes, X.T, strict=True)
        )
        return np.ravel_multi_index(axis_cells, self._shape)[:, None]

    def answers(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of counts or weights in each box of the cover, shape (n_queries,)."""
        table = cells.reshape(self._shape)
        for i, axis in enumerate(self.axes):
            table = axis.sum_over_ranges(table, i)
        return table.ravel()

    def incidence_row(self, query: int) -> Floats:
        """Indicate whether each cell is in a given box, as 0.0 or 1.0."""
        ranges = np.unravel_index(query, self._n_ranges)
        box = []
        for axis, range_index in zip(self.axes, ranges, strict=True):
            box.append(axis.cell_slice(int(range_index)))
        incidence = np.zeros(self._shape)
        incidence[tuple(box)] = 1
        return incidence.ravel()

    def find(self, boxes: Floats) -> Codes:
        """Return the index of the member nearest to each box.

        `boxes` has shape (n_queries, n_features, 2), with lower and upper ends on the last axis.
        """
        ranges = [axis.nearest_ranges(*boxes[:, i].T) for i, axis in enumerate(self.axes)]
        return np.ravel_multi_index(tuple(ranges), self._n_ranges)

    def weighted_rows(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return a row of public values for each cell, and the weights of the cells."""
        grid = np.meshgrid(*(axis.representatives for axis in self.axes), indexing="ij")
        return np.stack([values.ravel() for values in grid], axis=1), weights


class ProductCover(QueryCover):
    """Cover of range queries that each restrict a single column, for tables with many columns.

    The cells form the grid of all columns and are not listed explicitly. Since each update involves
    only one column, multiplicative weights on the grid remain a product of weights on the columns.
    There is one block of weights per column.

    Parameters
    ----------
    axes : sequence of QuantileAxis
        The columns.
    """

    def __init__(self, axes: Sequence[QuantileAxis]) -> None:
        self.axes = axes
        self.sizes = np.array([len(axis.representatives) for axis in axes])
        self._query_starts = np.append(0, np.cumsum([axis.n_ranges for axis in axes]))
        self.n_queries = int(self._query_starts[-1])
        self.irreducible_error = max(axis.max_skipped_share for axis in axes)

    def radius(self, m: int, d: int, beta: float) -> float:
        """Bound the difference between a range's answer and that of its nearest member.

        Since each query restricts one column, the bound is the largest bound for any column.
        """
        n_numeric = sum(axis.n_ends > 0 for axis in self.axes)
        return max(axis.radius(m, beta, n_numeric) for axis in self.axes)

    def assign_cells(self, X: Floats) -> Codes:
        """Return the cell index of each row in each column, shape (n, n_columns)."""
        axis_cells = [
            axis.assign_cells(column) for axis, column in zip(self.axes, X.T, strict=True)
        ]
        return np.stack(axis_cells, axis=1) + self.starts

    def answers(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of counts or weights in each range of each column, shape (n_queries,)."""
        blocks = np.split(cells, self.starts[1:])
        return np.concatenate(
            [axis.sum_over_ranges(block, 0) for axis, block in zip(self.axes, blocks, strict=True)]
        )

    def incidence_row(self, query: int) -> Floats:
        """Indicate whether each cell of each column is in the range of a query, as 0 or 1."""
        column = int(np.searchsorted(self._query_starts, query, side="right")) - 1
        incidence = np.zeros(self.size)
        column_cells = incidence[self.starts[column] :]  # a view
        range_index = query - int(self._query_starts[column])
        column_cells[self.axes[column].cell_slice(range_index)] = 1
        return incidence

    def find(self, columns: Codes, low: Floats, high: Floats) -> Codes:
        """Return the index of the member nearest to each query low <= x[column] <= high.

        All arrays have the shape (n_queries,).
        """
        members = self._query_starts[columns]
        for column in np.unique(columns):
            is_column = columns == column
            members[is_column] += self.axes[column].nearest_ranges(low[is_column], high[is_column])
        return members

    def weighted_rows(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return equally weighted rows whose columns follow the released distributions.

        The columns are independent, because the weights on the grid are a product.
        """
        generator = np.random.default_rng(0)  # fixed: rows depend only on weights
        rows = np.empty((N_PRODUCT_ROWS, len(self.axes)), order="F")
        levels = (np.arange(N_PRODUCT_ROWS) + 0.5) / N_PRODUCT_ROWS
        column_weights = np.split(weights, self.starts[1:])
        for column, (axis, cell_weights) in enumerate(zip(self.axes, column_weights, strict=True)):
            # inverse transform sampling at evenly spaced levels
            cells = np.searchsorted(np.cumsum(cell_weights), levels)
            cells = np.minimum(cells, axis.n_cells - 1)
            shuffled = generator.permutation(cells)
            rows[:, column] = axis.representatives[shuffled]
        return rows, np.full(N_PRODUCT_ROWS, 1 / N_PRODUCT_ROWS)
