"""Arrangements of queries about runs along columns: boxes, and single columns.

Only the distinct public values of each column matter. Where they are too many, columns are cut at
public quantiles, and what that misses is counted on the public rows.
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
"""The most boxes of a cover: a few arrays of so many numbers are held."""

MAX_AXIS_CELLS = 1 << 10
"""The most cells of a column: more hardly tell more, and cost as much as any."""

N_PRODUCT_ROWS = 1 << 12
"""Rows that stand for a product of columns."""


class QuantileAxis:
    """A column cut into cells, and runs of cells that queries are about.

    It is cut between all its values, or at quantiles where they are too many.

    Parameters
    ----------
    column : ndarray
        Public values.
    ends : int
        Which runs there are. With 2 ends, all; with 1, those from the first cell on; with none,
        each cell by itself.
    n_cells : int
        The most cells.

    Attributes
    ----------
    middles : ndarray of shape (n_cells,)
        A public value of each cell.
    n_runs : int
        Number of runs.
    missed : float
        The largest share of public rows between a value and its nearest cut.
    n_missed : int
        The number of these rows; 0 where each gap between values has its cut.
    """

    def __init__(self, column: NDArray[Any], ends: int, n_cells: int) -> None:
        values, counts = np.unique(column, return_counts=True)
        n_below = np.append(0, np.cumsum(counts))
        below = n_below / len(column)
        cut = np.arange(len(below))
        if len(values) > n_cells:
            cut = np.unique(_nearest(below, np.arange(n_cells + 1) / n_cells))
        # for each place before, between and behind the values, the cut nearest in public rows
        self._values, self._nearest = values, _nearest(below[cut], below)
        self.n_missed = int(np.abs(n_below - n_below[cut][self._nearest]).max())
        self.missed = self.n_missed / len(column)
        self.ends = ends
        left, right = values[cut[1:-1] - 1], values[cut[1:-1]]
        halfway = left / 2 + right / 2
        # the upper ends of the cells, which belong to them
        self.cuts = np.where((halfway >= left) & (halfway < right), halfway, left)
        middle = (below[cut[:-1]] + below[cut[1:]]) / 2
        self.middles = values[np.clip(np.searchsorted(below[1:], middle), cut[:-1], cut[1:] - 1)]
        self._first, self._last = _runs(len(self.middles), ends)
        self.n_runs = len(self._first)

    def radius(self, m: int, beta: float, n_columns: int) -> float:
        """Bound the share of the population between the ends of any run and the nearest cuts.

        Parameters
        ----------
        m : int
            Public rows, drawn independently.
        beta : float
            Probability with which the bound may fail, for `n_columns` axes at once.
        n_columns : int
            Number of axes of the same public rows.
        """
        if not self.ends:
            return 0.0  # each cell by itself: all runs are listed
        # the rows decide how many are missed: shares of beta for all numbers, of sum 1
        share = beta / ((self.n_missed + 1) * (self.n_missed + 2))
        return cuts_radius(m, share, self.ends, columns=n_columns, missed=self.n_missed)

    def cell_of(self, column: Floats) -> Codes:
        """Return the cell of each number."""
        return np.searchsorted(self.cuts, column)

    def along(self, table: NDArray[Any], axis: int) -> NDArray[Any]:
        """Add up the runs of cells along an axis of a table."""
        none = np.zeros_like(table.take([0], axis))
        sums = np.cumsum(np.concatenate([none, table], axis=axis), axis=axis)
        totals: NDArray[Any] = sums.take(self._last, axis) - sums.take(self._first, axis)
        return totals

    def find(self, low: Floats, high: Floats) -> Codes:
        """Return the run that is nearest to low <= x <= high."""
        first = self._nearest[np.searchsorted(self._values, low)]
        last = self._nearest[np.searchsorted(self._values, high, side="right")]
        wide = len(self.middles) + 1
        wanted = np.where(first < last, first * wide + last, 0)  # of empty runs, (0, 0) is listed
        return np.searchsorted(self._first * wide + self._last, wanted)

    def run(self, place: int) -> slice:
        """Return the cells of a run."""
        return slice(self._first[place], self._last[place])


def _runs(n_cells: int, ends: int) -> tuple[Codes, Codes]:
    """List runs by their first cells and the cells behind them, in lexicographic order."""
    cells = np.arange(n_cells)
    if ends == 0:
        return cells, cells + 1
    if ends == 1:
        return np.zeros(n_cells + 1, dtype=np.intp), np.arange(n_cells + 1)
    first, last = np.triu_indices(n_cells)
    return np.append(0, first), np.append(0, last + 1)  # the empty one among them


def _nearest(known: Floats, wanted: Floats) -> Codes:
    """Return the place of the nearest known number, of ascending ones."""
    right = np.clip(np.searchsorted(known, wanted), 1, len(known) - 1)
    return right - (wanted - known[right - 1] <= known[right] - wanted)


class BoxCover(QueryCover):
    """Boxes of cells: a run along each column, all at once.

    Parameters
    ----------
    X_public : ndarray of shape (m, n_features)
        Public rows.
    ends : int
        How many ends of a run are between cells: 1 or 2.
    """

    def __init__(self, X_public: Floats, ends: int) -> None:
        n_cells = [min(len(np.unique(column)), MAX_AXIS_CELLS) for column in X_public.T]
        while math.prod(len(_runs(k, ends)[0]) for k in n_cells) > MAX_COVER_BOXES:
            widest = n_cells.index(max(n_cells))
            n_cells[widest] -= -(-n_cells[widest] // 16)
            if n_cells[widest] < 2:
                raise CoverSizeError(
                    f"Two cells for each of {len(n_cells)} columns make more boxes than fit into "
                    'memory: cells, not rows, are the limit; use fewer columns or method="auto".'
                )
        self.axes = [
            QuantileAxis(column, ends, k) for column, k in zip(X_public.T, n_cells, strict=True)
        ]
        self._shape = tuple(len(axis.middles) for axis in self.axes)
        self._n_runs = tuple(axis.n_runs for axis in self.axes)
        self.n_queries, self.sizes = math.prod(self._n_runs), np.array([math.prod(self._shape)])
        self.irreducible_error = ends * sum(axis.missed for axis in self.axes)

    def radius(self, m: int, d: int, beta: float) -> float:
        """Add up the bounds of all columns."""
        return min(1.0, sum(axis.radius(m, beta, len(self.axes)) for axis in self.axes))

    def cell_of(self, X: Floats) -> Codes:
        """Return the cell of each row."""
        of_axes = tuple(axis.cell_of(column) for axis, column in zip(self.axes, X.T, strict=True))
        return np.ravel_multi_index(of_axes, self._shape)[:, None]

    def answers(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Add up counts or weights in each box."""
        table = cells.reshape(self._shape)
        for place, axis in enumerate(self.axes):
            table = axis.along(table, place)
        return table.ravel()

    def incidence_row(self, query: int) -> Floats:
        """Return the cells of a box."""
        inside = np.zeros(self._shape)
        runs = np.unravel_index(query, self._n_runs)
        inside[tuple(axis.run(int(run)) for axis, run in zip(self.axes, runs, strict=True))] = 1
        return inside.ravel()

    def find(self, boxes: Floats) -> Codes:
        """Return the member nearest to each box, given as shape (n_queries, n_features, 2)."""
        runs = [axis.find(*boxes[:, place].T) for place, axis in enumerate(self.axes)]
        return np.ravel_multi_index(tuple(runs), self._n_runs)

    def table(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return a row of public values for each cell."""
        grid = np.meshgrid(*(axis.middles for axis in self.axes), indexing="ij")
        return np.stack([values.ravel() for values in grid], axis=1), weights


class ProductCover(QueryCover):
    """A run along one of many columns.

    The cells are those of the grid of all columns, and they are not listed: if each update is about
    one column, multiplicative weights on the grid stay a product of weights on the columns.
    """

    def __init__(self, axes: Sequence[QuantileAxis]) -> None:
        self.axes = axes
        self.sizes = np.array([len(axis.middles) for axis in axes])
        self._queries = np.append(0, np.cumsum([axis.n_runs for axis in axes]))
        self.n_queries = int(self._queries[-1])
        self.irreducible_error = max(axis.missed for axis in axes)

    def radius(self, m: int, d: int, beta: float) -> float:
        """Return the largest bound of a column."""
        n_numeric = sum(axis.ends > 0 for axis in self.axes)
        return max(axis.radius(m, beta, n_numeric) for axis in self.axes)

    def cell_of(self, X: Floats) -> Codes:
        """Return the cell of each row in each column."""
        of_axes = [axis.cell_of(column) for axis, column in zip(self.axes, X.T, strict=True)]
        return np.stack(of_axes, axis=1) + self.starts

    def answers(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Add up counts or weights in each run."""
        blocks = np.split(cells, self.starts[1:])
        return np.concatenate(
            [axis.along(block, 0) for axis, block in zip(self.axes, blocks, strict=True)]
        )

    def incidence_row(self, query: int) -> Floats:
        """Return the cells of a run."""
        column = int(np.searchsorted(self._queries, query, side="right")) - 1
        inside = np.zeros(self.size)
        block = inside[self.starts[column] :]
        block[self.axes[column].run(query - int(self._queries[column]))] = 1
        return inside

    def find(self, columns: Codes, low: Floats, high: Floats) -> Codes:
        """Return the member nearest to low <= x <= high of a column, for each query."""
        found = self._queries[columns]
        for column in np.unique(columns):
            asked = columns == column
            found[asked] += self.axes[column].find(low[asked], high[asked])
        return found

    def table(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return equally likely rows whose columns are as released, and independent."""
        generator = np.random.default_rng(0)  # part of the method, and of released weights only
        even = (np.arange(N_PRODUCT_ROWS) + 0.5) / N_PRODUCT_ROWS
        rows = np.empty((N_PRODUCT_ROWS, len(self.axes)), order="F")
        for place, block in enumerate(np.split(weights, self.starts[1:])):
            cells = np.minimum(np.searchsorted(np.cumsum(block), even), len(block) - 1)
            rows[:, place] = self.axes[place].middles[generator.permutation(cells)]
        return rows, np.full(N_PRODUCT_ROWS, 1 / N_PRODUCT_ROWS)
