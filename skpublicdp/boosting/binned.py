"""Binned data, with the bin codes of all rows and multithreaded sums over chunks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import DTypeLike, NDArray

from skpublicdp.boosting.bin_splits import BinSplits, apply_tree, refine_splits
from skpublicdp.boosting.binner import BinCodes, Binner, ColumnBins
from skpublicdp.boosting.model import AdditiveModel
from skpublicdp.data.binning import snap_to_edges
from skpublicdp.data.dataset import scratch_array
from skpublicdp.hypotheses.splits import Predicates
from skpublicdp.typing import Integers

HISTOGRAM_CHUNK_ROWS = 1 << 17
"""Number of rows whose histogram is computed in a single step. With smaller chunks, Python would
take more time than numpy."""

MAX_MEMORY_BYTES = 1 << 27
"""Maximum memory for rows, in bytes. Beyond this limit, arrays are stored in memory-mapped
temporary files."""

SPANS_PER_THREAD = 8
"""Number of spans of rows per thread. A span is a sequence of chunks that are summed by one thread.
With several spans per thread, the other threads do not wait long for the slowest one."""

NO_MARGINS: NDArray[np.int16] = np.empty((0, 1), dtype=np.int16)
"""Empty array of margins, used for any number of rows if there is no public model."""

RowIndex = slice | NDArray[np.intp]
"""Selection of rows, given as a slice or as an array of indices."""


def encode_rows(
    fine_binner: Binner, dtype: DTypeLike, X: NDArray[np.float64], y: NDArray[Any]
) -> tuple[list[BinCodes], NDArray[Any]]:
    """Return the fine bins of encoded rows, one array per column, and `y` converted to `dtype`."""
    pairs = zip(fine_binner.columns, X.T, strict=True)
    return [bins.encoded_codes(values) for bins, values in pairs], y.astype(dtype)


class FineBinnedRows:
    """Fine bins and targets of the private or the public rows.

    Parameters
    ----------
    fine_binner : Binner
        The fine bins. All bins used later in the fit are unions of fine bins.
    n : int
        Number of rows.
    dtype : dtype
        Type of `y`.
    n_jobs : int, optional
        Number of joblib threads. The results do not depend on this number.
    bytes_used : int, default=0
        Number of bytes that are already in use.
    n_margins : int, default=0
        Number of margins that the public model has for each row.

    Attributes
    ----------
    columns : list of ndarray of uint8 or uint16, shape (n,)
        Fine bin of each row, one array for each column.
    y : ndarray, shape (n,)
        Label codes, or regression targets between 0 and 1.
    public_margins : ndarray of int16, shape (n_margins, n)
        Margins of a public model, in units of 1 / MARGIN_UNIT.
    """

    def __init__(
        self,
        fine_binner: Binner,
        n: int,
        dtype: DTypeLike,
        n_jobs: int | None = None,
        bytes_used: int = 0,
        n_margins: int = 0,
    ) -> None:
        self.fine_binner = fine_binner
        self.n = n
        self.n_jobs = n_jobs
        self._bytes_used = bytes_used
        self.columns = [self.allocate((n,), bins.dtype) for bins in fine_binner.columns]
        self.y = self.allocate((n,), dtype)
        self.public_margins: NDArray[np.int16] = np.empty((0, n), dtype=np.int16)
        if n_margins:
            self.public_margins = self.allocate((n_margins, n), np.int16)

    @classmethod
    def from_encoded(
        cls,
        fine_binner: Binner,
        chunks: Iterable[tuple[NDArray[Any], NDArray[Any]]],
        n: int,
        dtype: DTypeLike,
    ) -> FineBinnedRows:
        """Bin chunks of encoded rows (X, y), and concatenate them with `from_codes`."""
        codes = ((*encode_rows(fine_binner, dtype, X, y), NO_MARGINS) for X, y in chunks)
        return cls.from_codes(fine_binner, codes, n, dtype)

    @classmethod
    def from_codes(
        cls,
        fine_binner: Binner,
        chunks: Iterable[tuple[list[BinCodes], NDArray[Any], NDArray[np.int16]]],
        n: int,
        dtype: DTypeLike,
        n_jobs: int | None = None,
        n_margins: int = 0,
    ) -> FineBinnedRows:
        """Concatenate chunks of binned rows, which can be of any size.

        A chunk has fine bins and `y`, as returned by `encode_rows`, and margins of a public model,
        shape (n_margins, k), or `NO_MARGINS`.
        """
        rows = cls(fine_binner, n, dtype, n_jobs, n_margins=n_margins)
        rows.fill(chunks)
        return rows

    def fill(
        self, chunks: Iterable[tuple[list[BinCodes], NDArray[Any], NDArray[np.int16]]]
    ) -> None:
        """Set the bins, the targets and the margins of all rows, given for chunks of rows."""
        end = 0
        for columns, y, margins in chunks:
            start, end = end, end + len(y)
            if end > self.n:  # the first pass had fewer rows, which raises an error below
                break
            self.y[start:end] = y
            self.public_margins[:, start:end] = margins
            for column, codes in zip(self.columns, columns, strict=True):
                column[start:end] = codes
        if end != self.n:
            raise ValueError(
                f"The chunks of X must contain {self.n} rows in total, as on the first pass."
            )

    def with_targets(self, encode: Callable[[NDArray[Any]], NDArray[Any]]) -> FineBinnedRows:
        """Return the same rows with transformed targets."""
        rows = copy(self)
        rows.y = self.allocate((self.n,), self.y.dtype)
        for start in range(0, self.n, HISTOGRAM_CHUNK_ROWS):
            chunk = slice(start, start + HISTOGRAM_CHUNK_ROWS)
            rows.y[chunk] = encode(self.y[chunk])
        return rows

    def take(self, indices: NDArray[np.intp]) -> FineBinnedRows:
        """Return a copy of the rows with the given indices."""
        n_rows, dtype = len(indices), self.y.dtype
        n_margins = len(self.public_margins)
        subset = FineBinnedRows(
            self.fine_binner, n_rows, dtype, self.n_jobs, self._bytes_used, n_margins
        )
        destinations = [*subset.columns, subset.y, *subset.public_margins]
        sources = [*self.columns, self.y, *self.public_margins]
        for destination, source in zip(destinations, sources, strict=True):
            np.take(source, indices, out=destination)
        return subset

    def allocate(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an uninitialised array, memory-mapped if `MAX_MEMORY_BYTES` would be exceeded."""
        array = scratch_array(shape, dtype, limit=MAX_MEMORY_BYTES - self._bytes_used)
        self._bytes_used += array.nbytes
        return array

    def sum_over_chunks(self, f: Callable[[slice], Any]) -> Any:
        """Return the sum of ``f(chunk)`` over all chunks of rows, using several threads.

        For integer arrays, the sum does not depend on the number of threads.

        Parameters
        ----------
        f : callable
            Function that maps a slice of the rows to an array or an integer.
        """

        def sum_span(start: int, stop: int) -> Any:
            """Return the sum over the chunks of one span of rows."""
            total = f(slice(start, min(start + HISTOGRAM_CHUNK_ROWS, stop)))
            for first in range(start + HISTOGRAM_CHUNK_ROWS, stop, HISTOGRAM_CHUNK_ROWS):
                total = total + f(slice(first, min(first + HISTOGRAM_CHUNK_ROWS, stop)))
            return total

        n_chunks = -(-self.n // HISTOGRAM_CHUNK_ROWS)
        n_threads = min(effective_n_jobs(self.n_jobs), n_chunks)
        if n_threads < 2:
            return sum_span(0, self.n)
        bounds = np.linspace(0, n_chunks, SPANS_PER_THREAD * n_threads + 1, dtype=int)
        ends = [HISTOGRAM_CHUNK_ROWS * bound for bound in bounds]
        spans = [(start, min(stop, self.n)) for start, stop in pairwise(ends) if start < stop]
        # starting joblib.Parallel takes as long as summing a million rows
        with ThreadPoolExecutor(n_threads) as pool:
            return sum(pool.map(sum_span, *zip(*spans, strict=True)), np.int64(0))

    def for_each_chunk(self, f: Callable[[slice], None]) -> None:
        """Call ``f(chunk)`` on all chunks of rows for its side effects, using several threads."""

        def call_on_chunk(chunk: slice) -> int:
            """Call `f`, and return 0 so that `sum_over_chunks` has a summand."""
            f(chunk)
            return 0

        self.sum_over_chunks(call_on_chunk)


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class BinnedData:
    """Private and public rows, assigned to bins that are unions of fine bins."""

    binner: Binner
    rows: FineBinnedRows  # training rows, assigned to fine bins
    public: FineBinnedRows  # public rows, assigned to fine bins

    @classmethod
    def from_fine_bins(
        cls, binner: Binner, rows: FineBinnedRows, public: FineBinnedRows
    ) -> BinnedData:
        """Return the rows in the given bins, after moving every cut to the nearest fine cut."""
        snapped_columns = []
        for bins, fine in zip(binner.columns, rows.fine_binner.columns, strict=True):
            snapped = snap_to_edges(fine.cuts, bins.cuts)
            cuts = np.unique(snapped)  # cuts that move to the same fine cut are merged
            cuts = cuts[~np.isnan(cuts)]
            size = bins.size + len(cuts) - len(bins.cuts)
            column = ColumnBins(bins.column, cuts, size, bins.bin_of_category)
            snapped_columns.append(column)
        binner = Binner(tuple(snapped_columns))
        return cls(binner, rows, public)

    @cached_property
    def bin_of_fine_bin(self) -> list[BinCodes]:
        """For each column, an array with the index of the bin that contains each fine bin."""
        pairs = zip(self.binner.columns, self.rows.fine_binner.columns, strict=True)
        return [bins.coarse_bins(fine) for bins, fine in pairs]

    @cached_property
    def public_codes(self) -> BinCodes:
        """Bins of the public rows, shape (n_columns, m)."""
        return self._codes(self.public, slice(None))

    def codes(self, index: RowIndex) -> BinCodes:
        """Return the bins of selected training rows, shape (n_columns, k)."""
        return self._codes(self.rows, index)

    def _codes(self, rows: FineBinnedRows, index: RowIndex) -> BinCodes:
        """Return the bins of selected private or public rows, shape (n_columns, k)."""
        pairs = zip(self.bin_of_fine_bin, rows.columns, strict=True)
        return np.array([np.take(bins, column[index]) for bins, column in pairs])

    def codes_of_column(self, column: int, index: slice) -> BinCodes:
        """Return the bins of one column of selected training rows, shape (k,)."""
        return np.take(self.bin_of_fine_bin[column], self.rows.columns[column][index])

    def leaf_indexer(self, splits: Predicates) -> Callable[[slice], BinCodes]:
        """Return a function that maps a slice of the training rows to their leaves in a tree."""
        assert isinstance(splits, BinSplits)
        fine_splits = refine_splits(splits, self.binner, self.rows.fine_binner)
        return lambda index: apply_tree(
            fine_splits, [column[index] for column in self.rows.columns]
        )

    def add_scores(
        self,
        margins: NDArray[np.int32],  # (n_targets, n)
        scores: Integers,  # (n_targets, n_bins)
        bins_of_rows: Callable[[slice], BinCodes],
    ) -> None:
        """Add the score of each row's bin to its margins, in place."""
        change = scores.astype(np.int32)

        def add_to_chunk(chunk: slice) -> None:
            """Add the scores to the margins of one chunk of rows, in place."""
            margins[:, chunk] += np.take(change, bins_of_rows(chunk), axis=1)

        self.rows.for_each_chunk(add_to_chunk)

    def margins(self, model: AdditiveModel) -> NDArray[np.int32]:
        """Return the margins of all training rows, shape (n_targets, n).

        Sums of 32-bit integers wrap around on overflow, but even then the margin of a row depends
        on this row alone.
        """
        result = self.rows.allocate((len(model.intercepts), self.rows.n), np.int32)
        pairs = zip(model.offsets[:-1], self.bin_of_fine_bin, strict=True)
        # using scores of the fine bins avoids converting rows to bins
        tables = [model.scores[:, start + bins].astype(np.int32) for start, bins in pairs]
        leaf_indexers = [self.leaf_indexer(tree.splits) for tree in model.trees]
        leaf_scores = [scores.astype(np.int32) for scores in model.leaf_scores]

        def fill_chunk(chunk: slice) -> None:
            """Write the margins of one chunk of rows into `result`."""
            margins = result[:, chunk]  # a view of `result`
            margins[:] = model.intercepts[:, None]
            for table, column in zip(tables, self.rows.columns, strict=True):
                fine_bins = column[chunk]
                margins += np.take(table, fine_bins, axis=1)
            for scores, leaf_indexer in zip(leaf_scores, leaf_indexers, strict=True):
                leaves = leaf_indexer(chunk)
                margins += np.take(scores, leaves, axis=1)

        self.rows.for_each_chunk(fill_chunk)
        return result
