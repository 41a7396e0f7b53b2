"""Rows as small integers, coded once; and the only loop over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import DTypeLike, NDArray

from skpublicdp.boosting.bin_splits import BinSplits, apply_tree, refine_splits
from skpublicdp.boosting.binner import Binner, Codes, ColumnBins
from skpublicdp.boosting.model import AdditiveModel
from skpublicdp.data.binning import snapped
from skpublicdp.data.spool import store
from skpublicdp.hypotheses.splits import Predicates
from skpublicdp.typing import Integers

CHUNK_ROWS = 1 << 17
"""Rows that are worked on at a time: with fewer, threads wait for Python more than they work."""

MAX_MEMORY_BYTES = 1 << 27
"""Bytes that are held in memory for rows; what comes then goes to temporary files."""

SPANS_PER_THREAD = 8
"""Parts of the rows for each thread: enough that none waits long for the last."""

RowIndex = slice | NDArray[np.intp]
"""Which rows."""


def encode_rows(
    grid: Binner, dtype: DTypeLike, X: NDArray[np.float64], y: NDArray[Any]
) -> tuple[list[Codes], NDArray[Any]]:
    """Return the fine cells of encoded rows, column by column, and `y`, each as small as it is."""
    lines = zip(grid.columns, X.T, strict=True)
    return [feature.encoded_codes(values) for feature, values in lines], y.astype(dtype)


class FineBinnedRows:
    """Private or public rows: the fine cell of each column, and what is to be learned.

    Parameters
    ----------
    grid : Binner
        The fine cells: columns are never cut elsewhere.
    n : int
        Number of rows.
    dtype : dtype
        That of `y`.
    n_jobs : int, optional
        Number of joblib threads; nothing else depends on it.
    bytes_used : int, default=0
        Bytes that others hold in memory already.

    Attributes
    ----------
    columns : list of ndarray of uint8 or uint16, shape (n,)
        Fine cells.
    y : ndarray, shape (n,)
        Codes of labels, or outcomes.
    """

    def __init__(
        self,
        grid: Binner,
        n: int,
        dtype: DTypeLike,
        n_jobs: int | None = None,
        bytes_used: int = 0,
    ) -> None:
        self.fine_binner, self.n, self.n_jobs = grid, n, n_jobs
        self._bytes_used = bytes_used
        self.columns = [self.allocate((n,), feature.dtype) for feature in grid.columns]
        self.y = self.allocate((n,), dtype)

    @classmethod
    def from_encoded(
        cls,
        grid: Binner,
        chunks: Iterable[tuple[NDArray[Any], NDArray[Any]]],
        n: int,
        dtype: DTypeLike,
    ) -> FineBinnedRows:
        """Code chunks of encoded rows, otherwise as `of`."""
        return cls.from_codes(grid, (encode_rows(grid, dtype, X, y) for X, y in chunks), n, dtype)

    @classmethod
    def from_codes(
        cls,
        grid: Binner,
        chunks: Iterable[tuple[list[Codes], NDArray[Any]]],
        n: int,
        dtype: DTypeLike,
        n_jobs: int | None = None,
    ) -> FineBinnedRows:
        """Keep chunks of coded rows, each with its `y`: the same rows whatever the chunks are.

        Parameters
        ----------
        grid : Binner
            The fine cells.
        chunks : iterable of (list of ndarray, shape (k,), ndarray, shape (k,))
            All rows, `n` together, as `coded` returns them.
        n : int
            Number of rows.
        dtype : dtype
            That of `y`.
        n_jobs : int, optional
            Number of joblib threads.
        """
        rows, end = cls(grid, n, dtype, n_jobs), 0
        for columns, y in chunks:
            start, end = end, end + len(y)
            if end > n:
                break
            rows.y[start:end] = y
            for column, codes in zip(rows.columns, columns, strict=True):
                column[start:end] = codes
        if end != n:
            raise ValueError(
                f"X must hold {n} rows in all its chunks together, as was said before."
            )
        return rows

    def take(self, chosen: NDArray[np.intp]) -> FineBinnedRows:
        """Return the rows at some positions."""
        found = FineBinnedRows(
            self.fine_binner, len(chosen), self.y.dtype, self.n_jobs, self._bytes_used
        )
        for few, column in zip([*found.columns, found.y], [*self.columns, self.y], strict=True):
            np.take(column, chosen, out=few)
        return found

    def allocate(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array with room for something of each row, in memory while that is little."""
        found = store(shape, dtype, limit=MAX_MEMORY_BYTES - self._bytes_used)
        self._bytes_used += found.nbytes
        return found

    def sum_over_chunks(self, f: Callable[[slice], Any]) -> Any:
        """Return the sum of ``f(chunk)`` over all chunks of rows."""

        def over(start: int, stop: int) -> Any:
            found = f(slice(start, min(start + CHUNK_ROWS, stop)))
            for at in range(start + CHUNK_ROWS, stop, CHUNK_ROWS):
                found = found + f(slice(at, min(at + CHUNK_ROWS, stop)))
            return found

        chunks = -(-self.n // CHUNK_ROWS)
        jobs = min(effective_n_jobs(self.n_jobs), chunks)
        if jobs < 2:
            return over(0, self.n)
        ends = [
            CHUNK_ROWS * end
            for end in np.linspace(0, chunks, SPANS_PER_THREAD * jobs + 1, dtype=int)
        ]
        # not joblib's Parallel, which takes as long to begin as a million rows do
        with ThreadPoolExecutor(jobs) as pool:
            spans = [(low, min(high, self.n)) for low, high in pairwise(ends) if low < high]
            return sum(pool.map(over, *zip(*spans, strict=True)), np.int64(0))


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class BinnedData:
    """Columns cut into cells, each of which is made of fine ones.

    Attributes
    ----------
    features : Binner
        The cells.
    rows, public : FineBinnedRows
        The rows that are learned from, and the public ones.
    """

    binner: Binner
    rows: FineBinnedRows
    public: FineBinnedRows

    @classmethod
    def from_fine_bins(
        cls, features: Binner, rows: FineBinnedRows, public: FineBinnedRows
    ) -> BinnedData:
        """Cut columns at the fine cuts nearest to those of `features`."""
        moved = []
        for feature, fine in zip(features.columns, rows.fine_binner.columns, strict=True):
            cuts = np.unique(snapped(fine.cuts, feature.cuts))
            cuts = cuts[~np.isnan(cuts)]
            size = feature.size + len(cuts) - len(feature.cuts)
            moved.append(ColumnBins(feature.column, cuts, size, feature.own))
        return cls(Binner(tuple(moved)), rows, public)

    @cached_property
    def bin_of_fine_bin(self) -> list[Codes]:
        """The cell of each fine cell, column by column."""
        pairs = zip(self.binner.columns, self.rows.fine_binner.columns, strict=True)
        return [feature.coarse_bins(fine) for feature, fine in pairs]

    @cached_property
    def public_codes(self) -> Codes:
        """The cells of public rows, shape (n_columns, m)."""
        return self._codes(self.public, slice(None))

    def codes(self, at: RowIndex) -> Codes:
        """Return the cells of some of the rows that are learned from, shape (n_columns, k)."""
        return self._codes(self.rows, at)

    def _codes(self, rows: FineBinnedRows, at: RowIndex) -> Codes:
        lines = zip(self.bin_of_fine_bin, rows.columns, strict=True)
        return np.array([np.take(cells, column[at]) for cells, column in lines])

    def codes_of_column(self, position: int, at: slice) -> Codes:
        """Return the cells of some of the rows that are learned from, of one column."""
        return np.take(self.bin_of_fine_bin[position], self.rows.columns[position][at])

    def leaf_indexer(self, asked: Predicates) -> Callable[[slice], Codes]:
        """Return what says which leaf of a tree rows end in, its questions being asked of these."""
        assert isinstance(asked, BinSplits)
        fine = refine_splits(asked, self.binner, self.rows.fine_binner)
        return lambda at: apply_tree(fine, [column[at] for column in self.rows.columns])

    def add_scores(
        self, margins: NDArray[np.int32], scores: Integers, line: Callable[[slice], Codes]
    ) -> None:
        """Add to margins of all rows the score of each one's cell in a line of these."""
        change = scores.astype(np.int32)

        def moved(at: slice) -> int:
            margins[:, at] += np.take(change, line(at), axis=1)
            return 0

        self.rows.sum_over_chunks(moved)

    def margins(self, model: AdditiveModel) -> NDArray[np.int32]:
        """Return the margins of all rows, shape (n_targets, n): of 32 bits, whatever overflows."""
        found = self.rows.allocate((len(model.intercepts), self.rows.n), np.int32)
        parts = zip(model.offsets[:-1], self.bin_of_fine_bin, strict=True)
        # by fine cell, so that each value is looked up once
        tables = [model.scores[:, start + cells].astype(np.int32) for start, cells in parts]
        leaf_indexer = [self.leaf_indexer(tree.splits) for tree in model.trees]
        leaf_scores = [scores.astype(np.int32) for scores in model.leaf_scores]

        def fill(at: slice) -> int:
            margins = found[:, at]
            margins[:] = model.intercepts[:, None]
            for table, column in zip(tables, self.rows.columns, strict=True):
                margins += np.take(table, column[at], axis=1)
            for scores, line in zip(leaf_scores, leaf_indexer, strict=True):
                margins += np.take(scores, line(at), axis=1)
            return 0

        self.rows.sum_over_chunks(fill)
        return found
