"""Query covers, which consist of representative queries and of cells on which they are constant.

A cover is built from public rows alone (Bassily et al. 2020, Algorithm 3, steps 1 to 4). The
theorem has two conditions. Each query of the class must agree with a member of the cover on all but
a few rows, and each member must have the same answer for all rows of a cell.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees import cuts_radius
from skpublicdp.guarantees.population import population_share_bound
from skpublicdp.query_release.marginals.count import MEMORY_BYTES
from skpublicdp.typing import Codes, Floats, Integers

RowPredicate = Callable[[NDArray[Any], Floats], NDArray[np.bool_]]

MAX_INCIDENCE_ENTRIES = MEMORY_BYTES // 4
"""Maximum number of entries in the incidence matrix of queries and cells, at 4 bytes each."""

MAX_CANDIDATE_ROWS = 1 << 12
"""Maximum number of public rows whose cells are listed by `split_sample_cover`."""

MAX_COVER_QUERIES = 1 << 18
"""Maximum number of queries in an explicit cover."""

ANSWER_BLOCK = MEMORY_BYTES // 16
"""Maximum number of query-row answers in memory, each of which takes a byte and sometimes two
floats."""

MATCH_BLOCK = 1 << 12
"""Number of columns that are matched at a time."""


class QueryCover(ABC):
    """Finite cover of a query class, together with cells of rows on which each member is constant.

    Each query of the class has a nearest member. Each member gives the same answer for all rows of
    a cell, so the cell counts determine the answers of all members.

    Cells may form several blocks, for instance one per column. Each row then belongs to one cell of
    each block, and the weights of the blocks are independent.
    """

    n_queries: int  # number of queries in the cover
    sizes: Codes  # number of cells in each block
    # radius of the cover in the limit of infinitely many public rows, which is positive if the
    # number of cells is limited
    irreducible_error: float
    # Bound on the additional error if queries are evaluated on `weighted_rows` instead of taking
    # the answer of the nearest member, or None if no bound is known
    rows_error: float | None = None

    @abstractmethod
    def assign_cells(self, X: Floats) -> Codes:
        """Return the cell of each row in each block, computed row by row, shape (n, n_blocks)."""

    @abstractmethod
    def answers(self, cells: NDArray[Any]) -> NDArray[Any]:
        """For each member, sum the counts or weights of the cells in which it holds."""

    @abstractmethod
    def incidence_row(self, query: int) -> Floats:
        """Indicate whether a given member holds in each cell, as 0.0 or 1.0, shape (size,)."""

    @abstractmethod
    def weighted_rows(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return synthetic rows (n_rows, n_features) and their weights (n_rows,).

        The parameter `weights` contains the released weights of the cells, shape (size,).
        """

    @abstractmethod
    def radius(self, m: int, d: int, beta: float) -> float:
        """Bound the difference between a query's answer and that of its nearest member."""

    @property
    def member_index(self) -> Any:
        """Search index for the member nearest to each query, or None if all queries are members."""
        return self

    @property
    def size(self) -> int:
        """Total number of cells in all blocks, which is the length of a count array."""
        return int(self.sizes.sum())

    @property
    def starts(self) -> Codes:
        """Index of the first cell of each block."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def log_cells(self) -> float:
        """Logarithm of the number of ways to choose one cell from each block."""
        return float(np.log(self.sizes).sum())

    def count(self, X: Floats) -> Integers:
        """Return the number of rows in each cell, shape (size,).

        When a row is replaced, one row moves from one cell to another in each block.
        """
        return np.bincount(self.assign_cells(X).ravel(), minlength=self.size).astype(np.int64)

    def normalize_blocks(self, log_weights: Floats) -> Floats:
        """Return weights proportional to exp(log_weights) that sum to 1 in each block."""
        block_max = np.maximum.reduceat(log_weights, self.starts)
        weights: Floats = np.exp(log_weights - np.repeat(block_max, self.sizes))
        weights /= np.repeat(np.add.reduceat(weights, self.starts), self.sizes)
        return weights


@dataclass(frozen=True, eq=False)
class CoverIndex:
    """Search index for the members of a cover, based on their answers on a few points."""

    # function that indicates which queries hold for which rows, shape (n_queries, n_rows)
    holds: RowPredicate
    cover: NDArray[Any]  # members of the cover
    points: Floats  # (n_points, n_features): points on which the members have distinct answers

    def find(self, Q: NDArray[Any]) -> Codes:
        """Return the index of the member that agrees with each query on most points."""
        return _match_columns(self.holds(self.cover, self.points).T, self.holds(Q, self.points).T)


class ExplicitCover(QueryCover):
    """Cover with explicit lists of queries and cells, and a matrix of the cells of each query.

    The cells are those of the candidates. A row in another cell is assigned to the cell with the
    fewest differing answers. The held-out public rows, which are independent of the cover and of
    the candidates, estimate the fraction of these rows. On the points, each query of the class
    agrees with some member of the cover; without points, the cover is the entire class. The
    `disagreement` bounds the fraction of held-out rows on which a query and its member differ.
    """

    def __init__(
        self,
        holds: RowPredicate,  # (n_queries, n_rows)
        cover: NDArray[Any],
        candidates: Floats,
        holdout: Floats | None = None,
        points: Floats | None = None,
        disagreement: float = 0.0,
    ) -> None:
        check_cover_size(len(cover))
        self._holds = holds
        self._cover = cover
        self._points = points
        self._disagreement = disagreement
        candidates = candidates[: MAX_INCIDENCE_ENTRIES // len(cover)]
        answers = holds(cover, candidates)  # (n_queries, n_candidates)
        # candidates on which all queries agree belong to one cell, represented by the first of them
        cell_of_key: dict[bytes, int] = {}
        keys = _packed_columns(answers)
        cells = [cell_of_key.setdefault(key, len(cell_of_key)) for key in keys]
        self._cell_of_candidate = np.array(cells, dtype=np.intp)
        _, first_rows = np.unique(self._cell_of_candidate, return_index=True)
        self.cells = candidates[first_rows]
        self.incidence = answers[:, first_rows]
        self.sizes = np.array([len(self.cells)])
        self.n_queries = len(cover)
        self._n_holdout = None if holdout is None else len(holdout)
        self._reassigned_share = 0.0
        if holdout is not None and len(holdout):
            assigned = self.assign_cells(holdout)[:, 0]
            is_different = holds(cover, holdout) != self.incidence[:, assigned]
            self._reassigned_share = float(is_different.mean(axis=1).max())
        self.irreducible_error = disagreement + self._reassigned_share

    def assign_cells(self, X: Floats) -> Codes:
        """Return each row's cell or, if it is not listed, the nearest listed cell, shape (n, 1)."""
        block_rows = max(1, ANSWER_BLOCK // len(self._cover))
        cells = [
            _match_columns(self.incidence, self._holds(self._cover, X[start : start + block_rows]))
            for start in range(0, len(X), block_rows)
        ]
        return np.concatenate(cells)[:, None]

    def answers(self, cells: NDArray[Any]) -> NDArray[Any]:
        """For each query, return the sum of the counts or weights of the query's cells.

        Sums of counts are exact, whereas sums of weights are computed in single precision.
        """
        if np.issubdtype(cells.dtype, np.floating):
            return np.asarray(self._float_incidence @ cells.astype(np.float32), dtype=np.float64)
        return np.array([cells[query_cells].sum() for query_cells in self.incidence])

    def incidence_row(self, query: int) -> Floats:
        """Indicate whether a given member holds in each cell, as 0.0 or 1.0."""
        return np.asarray(self.incidence[query], dtype=np.float64)

    def weighted_rows(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return one public row per cell, and the weights of these rows."""
        return self.cells, weights

    def radius(self, m: int, d: int, beta: float) -> float:
        """Bound the difference between a query's answer and that of its nearest member.

        The bound is the disagreement between queries and their members, plus the share of rows
        assigned to other cells. Half of the failure probability is allotted to each of the two
        terms.
        """
        total = 0.0
        if self._n_holdout is not None:
            # the rows are independent of the cover, so a union bound over its members applies
            shares = [self._reassigned_share]
            if self._points is not None:
                shares.append(self._disagreement)
            member_beta = beta / 2 / self.n_queries
            total = sum(population_share_bound(s, self._n_holdout, member_beta) for s in shares)
        return min(total, 1.0)

    @property
    def member_index(self) -> CoverIndex | None:
        """Search index of the members by their answers on the points."""
        if self._points is None:
            return None
        return CoverIndex(self._holds, self._cover, self._points)

    @cached_property
    def _float_incidence(self) -> NDArray[np.float32]:
        """Incidence matrix in single precision, for fast products with weights."""
        return self.incidence.astype(np.float32)


def split_sample_cover(holds: RowPredicate, cover: NDArray[Any], X_public: Floats) -> ExplicitCover:
    """Return a cover whose cells are listed from the first half of the public rows.

    The other half is used to estimate the fraction of rows in unlisted cells.
    """
    candidates, holdout = np.array_split(X_public, 2)
    return ExplicitCover(holds, cover, candidates[:MAX_CANDIDATE_ROWS], holdout)


def check_cover_size(n_queries: int) -> None:
    """Raise a CoverSizeError if a cover has too many queries."""
    if n_queries > MAX_COVER_QUERIES:
        raise CoverSizeError(
            f"The cover has {n_queries} queries, but at most {MAX_COVER_QUERIES} are allowed. This "
            "depends on the number of cells, not on the number of rows. Use fewer columns or bins, "
            'or method="auto".'
        )


def _match_columns(reference: NDArray[np.bool_], columns: NDArray[np.bool_]) -> Codes:
    """Return the index of the reference column nearest to each column of a bit matrix.

    Identical columns are found by hashing, and Hamming distances are computed only for the
    remaining columns.
    """
    unknown = -1  # no reference column is equal
    index_of = {key: i for i, key in enumerate(_packed_columns(reference))}
    indices = [index_of.get(key, unknown) for key in _packed_columns(columns)]
    nearest = np.array(indices, dtype=np.intp)
    unmatched = np.flatnonzero(nearest == unknown)
    if len(unmatched):
        signs = 1 - 2 * reference.astype(np.float32)
        n_ones = reference.sum(axis=0)
        for start in range(0, len(unmatched), MATCH_BLOCK):
            block = unmatched[start : start + MATCH_BLOCK]
            bits = columns[:, block].T.astype(np.float32)  # (n_block, n_bits)
            # the number of bits in which a column and a reference column r differ is
            # sum(column * (1 - 2 r)) + sum(r)
            distance = bits @ signs + n_ones
            nearest[block] = distance.argmin(axis=1)
    return nearest


def _packed_columns(columns: NDArray[np.bool_]) -> list[bytes]:
    """Return each column of a bit matrix as bytes (eight bits per byte), for use as a hash key."""
    return [bits.tobytes() for bits in np.packbits(columns.T, axis=1)]


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

    The column is cut between all public values, or at quantiles if there are too many values. The
    number of ends that can vary is 2 for arbitrary ranges of cells, 1 for ranges that start at the
    first cell, and 0 for single cells.
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
        # upper ends of all cells except the last one, each of which belongs to its cell
        self.cuts = _midpoints(values, cut_gaps[1:-1])
        # a public value in each cell
        self.representatives = _median_values(values, share_below, cut_gaps)
        # maximum number of public rows between a value and the nearest cut
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
    """Cover of box queries, each of which is a product of one range of cells per column."""

    rows_error = 0.0  # each box has the rows of a member within the same radius

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
            cells = axis.cell_slice(int(range_index))
            box.append(cells)
        incidence = np.zeros(self._shape)
        incidence[*box] = 1
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
    """

    # half a row for each end of a range of cells, in addition to `BoxQueryCover.rows_error`
    rows_error = 1 / N_PRODUCT_ROWS

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
        cells = self.axes[column].cell_slice(range_index)
        column_cells[cells] = 1
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
        n_rows = N_PRODUCT_ROWS
        generator = np.random.default_rng(0)  # fixed: rows depend only on weights
        rows = np.empty((n_rows, len(self.axes)), order="F")
        levels = (np.arange(n_rows) + 0.5) / n_rows
        column_weights = np.split(weights, self.starts[1:])
        for column, cell_weights in enumerate(column_weights):
            # inverse transform sampling at evenly spaced levels
            cumulative = np.cumsum(cell_weights)
            cells = np.searchsorted(cumulative, levels)
            cells = np.minimum(cells, len(cumulative) - 1)
            representatives = self.axes[column].representatives[cells]
            rows[:, column] = generator.permutation(representatives)
        equal_weights = np.full(n_rows, 1 / n_rows)
        return rows, equal_weights


Signs = NDArray[np.bool_]

ON_PLANE_TOLERANCE = 1e-9
"""Maximum distance from a hyperplane at which a standardised point counts as lying on it."""

MAX_CELLS = 1 << 13
"""Maximum number of cells. With `MAX_HALFSPACES` queries, the incidence matrix then takes 75 MB."""

N_NEIGHBOURS = 4
"""Number of neighbours of each public row between which additional cells are placed."""

MAX_FITTED_ROWS = 1 << 10
"""Maximum number of public rows that `choose_points` uses when it compares points."""

POINTS_AT_A_TIME = 2
"""Number of points that `choose_points` adds before it lists the dichotomies again."""

ROW_BLOCK = 1 << 11
"""Number of rows for which the sides of all hyperplanes are computed at a time."""


class HalfspaceDichotomies:
    """All dichotomies of points by halfspaces, and the hyperplanes that bound each of them.

    The halfspaces of one dichotomy form a cone in the space of normals and offsets. The extreme
    rays of the cone are hyperplanes through d independent points in d dimensions. The sum of these
    rays lies in the interior of the cone.
    """

    def __init__(self, points: Floats) -> None:
        self.points = points
        self.centre = points.mean(axis=0)
        scale = np.ptp(points, axis=0)
        scale[scale == 0] = 1.0
        standardized = (points - self.centre) / scale
        _, widths, axes = np.linalg.svd(standardized, full_matrices=False)
        is_spanned = widths > ON_PLANE_TOLERANCE * len(points)
        # the points span the space of the coordinates (x - centre) @ basis
        self.basis = (axes[is_spanned] / scale).T
        # normals and negative offsets in these coordinates, (n_planes, dimension + 1)
        self.planes = _planes_through(self._homogeneous(points))
        sides = self._sides(points)  # (n_points, n_planes)
        dichotomies = {}
        for plane_sides in sides.T:
            on_plane = np.flatnonzero(plane_sides == 0)
            for labels in _dichotomies_on_plane(points[on_plane], self.basis.shape[1]):
                for dichotomy in (plane_sides > 0, plane_sides < 0):
                    dichotomy[on_plane] = labels
                    dichotomies[dichotomy.tobytes()] = dichotomy
        if not self.basis.size:  # a single point, or points that are equal up to the tolerance
            dichotomies = {sign: np.full(len(points), sign) for sign in (True, False)}
        self.signs = np.array(list(dichotomies.values()))  # (n_dichotomies, n_points)
        agreement = np.where(self.signs, 1, -1) @ sides
        n_off_plane = np.abs(sides).sum(axis=0)
        # whether a side of a plane is an extreme ray of the cone, (n_dichotomies, n_planes)
        self.bounds_positive = agreement == n_off_plane
        self.bounds_negative = agreement == -n_off_plane

    def halfspaces(self, holds: Callable[[Floats, Floats], Signs]) -> Floats:
        """Return a halfspace for each dichotomy, shape (n_halfspaces, n_features + 1).

        Each row consists of a normal and an offset. A halfspace is dropped if rounding changes its
        dichotomy on the points, as evaluated by `holds`, which returns an array of shape
        (n_halfspaces, n_points).
        """
        # the sum of the extreme rays of each cone, as in the class docstring
        orientation = self.bounds_positive.astype(float) - self.bounds_negative
        interior = orientation @ self.planes
        if not self.basis.size:
            interior = np.where(self.signs[:, :1], 1.0, -1.0)
        # from coordinates of the points' affine hull to features
        normals = interior[:, :-1] @ self.basis.T
        negative_offsets = interior[:, -1]
        offsets = normals @ self.centre - negative_offsets
        halfspaces = np.column_stack([normals, offsets])
        evaluated_signs = holds(halfspaces, self.points)  # (n_halfspaces, n_points)
        is_equal = evaluated_signs == self.signs
        is_exact = is_equal.all(axis=1)
        return halfspaces[is_exact]

    def disagreement_bound(self, rows: Floats) -> float:
        """Bound the fraction of rows on which two halfspaces of the same dichotomy may differ."""
        n_undetermined = sum(
            self.undetermined(rows[start : start + ROW_BLOCK]).sum(axis=1)
            for start in range(0, len(rows), ROW_BLOCK)
        )
        return float(np.max(n_undetermined) / max(1, len(rows)))

    def undetermined(self, rows: Floats) -> Signs:
        """Indicate rows on which two halfspaces of a dichotomy may differ, (n_dichotomies, n_rows).

        All halfspaces of a dichotomy agree on the points themselves, and on every row that all
        hyperplanes bounding the dichotomy place on the same side.
        """
        is_equal = (rows[:, None] == self.points).all(axis=2)  # (n_rows, n_points)
        is_point = is_equal.any(axis=1)
        n_dichotomies = len(self.signs)
        if self.basis.shape[1] < self.points.shape[1]:
            # the points do not span the space, so no bound is known for other rows
            return np.tile(~is_point, (n_dichotomies, 1))
        sides = self._sides(rows).T  # (n_planes, n_rows)
        undetermined = np.empty((n_dichotomies, len(rows)), dtype=bool)
        for number in range(n_dichotomies):
            # sides of the few extreme rays of the cone
            positive = sides[self.bounds_positive[number]]
            negative = sides[self.bounds_negative[number]]
            ray_sides = np.concatenate([positive, -negative])
            has_inside = (ray_sides >= 0).any(axis=0)
            has_outside = (ray_sides <= 0).any(axis=0)
            undetermined[number] = has_inside & has_outside
        undetermined[:, is_point] = False
        return undetermined

    def _homogeneous(self, rows: Floats) -> Floats:
        """Return rows in the coordinates of the points, with a final coordinate of 1."""
        return np.column_stack([(rows - self.centre) @ self.basis, np.ones(len(rows))])

    def _sides(self, rows: Floats) -> Integers:
        """Return each row's side of each hyperplane: 1, -1, or 0 if the row lies on it."""
        return _signs(self._homogeneous(rows) @ self.planes.T)


def _dichotomies_on_plane(points: Floats, dimension: int) -> Signs:
    """Return the dichotomies of points on a hyperplane, shape (n_dichotomies, n_points).

    A small tilt of the hyperplane realises each dichotomy without changing the side of any other
    point.
    """
    if len(points) == dimension:  # hyperplanes label independent points in every possible way
        return np.array(list(product((False, True), repeat=dimension)))
    return HalfspaceDichotomies(points).signs


def _planes_through(homogeneous: Floats) -> Floats:
    """Return the distinct hyperplanes through d points in d dimensions, as unit vectors.

    Points have a final coordinate of 1. Two hyperplanes are considered equal if every point lies on
    the same side of both hyperplanes.
    """
    dimension = homogeneous.shape[1] - 1
    if not dimension:
        return np.empty((0, 1))
    subsets = np.array(list(combinations(range(len(homogeneous)), dimension)))
    _, singular_values, right_vectors = np.linalg.svd(homogeneous[subsets])
    # the last right singular vector spans the null space if the points are independent
    is_independent = singular_values[:, -1] > ON_PLANE_TOLERANCE
    planes = right_vectors[is_independent, -1]
    sides = _signs(homogeneous @ planes.T).T
    # the orientation of a plane is arbitrary, so the first point off the plane is made positive
    first_off_plane = (sides != 0).argmax(axis=1)
    orientation = sides[np.arange(len(sides)), first_off_plane, None]  # (n_planes, 1)
    planes = planes * orientation
    oriented_sides = sides * orientation
    _, first_index = np.unique(oriented_sides, axis=0, return_index=True)
    return planes[np.sort(first_index)]


def _signs(values: Floats) -> Integers:
    """Return the signs of distances: 0 within `ON_PLANE_TOLERANCE`, otherwise 1 or -1."""
    return np.where(np.abs(values) > ON_PLANE_TOLERANCE, np.sign(values), 0).astype(np.int64)


def choose_points(rows: Floats, n_points: int, generator: np.random.Generator) -> Floats:
    """Return up to `n_points` of the distinct rows, whose dichotomies leave few rows undetermined.

    The first third of the points are random rows. Each further point is a row in the largest
    undetermined region, chosen to belong to as many large undetermined regions as possible.
    """
    rows = generator.permutation(rows)
    n_first = min(len(rows), max(rows.shape[1] + 1, n_points // 3))
    chosen = [*range(min(n_first, n_points))]
    fitted = rows[:MAX_FITTED_ROWS]
    while len(chosen) < min(n_points, len(rows)):
        undetermined = HalfspaceDichotomies(rows[chosen]).undetermined(fitted)
        sizes = undetermined.sum(axis=1)
        for _ in range(min(POINTS_AT_A_TIME, n_points - len(chosen))):
            largest = int(sizes.argmax())
            if not sizes[largest]:
                break
            candidates = np.flatnonzero(undetermined[largest])
            covered_sizes = sizes @ undetermined[:, candidates]
            point = int(candidates[covered_sizes.argmax()])
            chosen.append(point)
            sizes = np.where(undetermined[:, point], 0, sizes)  # the point divides these regions
        if not undetermined.any():
            break
    return rows[chosen]


class HalfspaceQueryCover(ExplicitCover):
    """Cover with one halfspace per dichotomy of a few public points, and with cells around rows.

    The cells are represented by public rows and by random points between a row and its neighbours.
    Each row is assigned to the nearest cell. The errors due to halfspaces that separate a row from
    its cell are estimated on held-out rows, which are independent of `dichotomies` and `rows`.
    """

    def __init__(
        self,
        holds: Callable[[Any, Floats], Signs],
        dichotomies: HalfspaceDichotomies,
        rows: Floats,
        holdout: Floats,
        generator: np.random.Generator,
    ) -> None:
        cover = dichotomies.halfspaces(holds)
        disagreement = 1.0  # no bound holds if a dichotomy lost its halfspace through rounding
        if len(cover) == len(dichotomies.signs):
            disagreement = dichotomies.disagreement_bound(holdout)
        selected_rows = generator.permutation(rows)[:MAX_CELLS]
        candidates = _points_among(selected_rows, generator)
        self._low = candidates.min(axis=0)
        self._high = candidates.max(axis=0)
        is_constant = self._high == self._low
        self._scale = np.where(is_constant, 1.0, candidates.std(axis=0))
        self._tree = cKDTree(candidates / self._scale)
        super().__init__(holds, cover, candidates, holdout, dichotomies.points, disagreement)

    def assign_cells(self, X: Floats) -> Codes:
        """Return, for each row, the cell of the nearest candidate, shape (n, 1).

        Rows are first clipped to the range of the candidates, so that no distance overflows.
        """
        clipped = np.clip(np.nan_to_num(X), self._low, self._high)
        nearest = self._tree.query(clipped / self._scale)[1]
        cells: Codes = self._cell_of_candidate[nearest]
        return cells[:, None]


def _points_among(rows: Floats, generator: np.random.Generator) -> Floats:
    """Return the rows and random points between neighbouring rows, at most `MAX_CELLS` in total.

    Each random point lies in the triangle formed by a row and two of its nearest neighbours.
    """
    n_neighbours = min(N_NEIGHBOURS, len(rows) - 1)
    n_points = MAX_CELLS - len(rows)
    if n_neighbours < 1 or n_points < 1:
        return rows
    scaled = rows / np.maximum(rows.std(axis=0), np.finfo(float).tiny)
    _, nearest = cKDTree(scaled).query(scaled, k=n_neighbours + 1)
    neighbours = nearest[:, 1:]  # (n_rows, n_neighbours), without the row itself
    corner = np.arange(n_points) % len(rows)
    corners = rows[corner]
    points = corners.copy()
    for _ in range(2):
        rank = generator.integers(n_neighbours, size=n_points)
        other_corners = rows[neighbours[corner, rank]]
        step = generator.random((n_points, 1)) / 2
        points += step * (other_corners - corners)
    return np.concatenate([rows, points])
