"""Tasks that apply a function to each chunk of rows, in threads or on cluster workers."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.sources.reader import is_package_error, without_traceback
from skpublicdp.data.tables import pick_column, pick_columns, table_height, take_rows
from skpublicdp.exceptions import ReadError
from skpublicdp.typing import Mask

Result: TypeAlias = tuple[Any, BaseException | None]
"""The pair (result, None) if a function succeeded, or (None, exception) if it failed."""

RawChunk: TypeAlias = tuple[Any, Any, int]
"""Table, its labels if they come from another source, and the position of its first row."""


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class Chunk:
    """Consecutive rows of a source and their labels."""

    X: Any  # (n_chunk, n_columns): the rows
    y: Any  # the labels in their original type
    # Position of the first row among all rows, including rows outside the mask. For Spark, which
    # does not guarantee an order, this is the position within the partition.
    start: int


ORDER_CHANGED = (
    "Rows must be read in the same order in every pass if groups is used, but the persons of some "
    "rows differ from those in the first pass. Write the rows to a table or a Parquet file first."
)

FINGERPRINT_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Odd multiplier whose products have well-mixed upper halves (2^64 divided by the golden ratio)."""


def person_fingerprints(persons: NDArray[Any]) -> NDArray[np.uint32]:
    """Return 32 bits of each person, which are the same in every process and for every chunk."""
    if persons.dtype.kind in "biufmM":
        if persons.dtype.kind in "mM":
            numbers = persons.view(np.int64)
        elif persons.dtype.kind == "f":
            numbers = persons.astype(np.float64)
        else:
            numbers = persons.astype(np.int64)
        mixed = numbers.view(np.uint64) * FINGERPRINT_FACTOR
        return (mixed >> np.uint64(32)).astype(np.uint32)
    names = (name if isinstance(name, str) else repr(name) for name in persons.tolist())
    fingerprints = (zlib.crc32(name.encode()) for name in names)
    return np.fromiter(fingerprints, np.uint32, len(persons))


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print who the persons are
class RowMask:
    """Mask of the counted rows, with the persons of the rows if their order can be verified."""

    counted: Mask
    # position in the container of the column of persons, or None if passes are not compared
    person: int | None = None
    # fingerprints of the rows' persons in the first pass, with which other passes are compared
    fingerprints: NDArray[np.uint32] | None = None

    def __getitem__(self, rows: slice) -> RowMask:
        fingerprints = None if self.fingerprints is None else self.fingerprints[rows]
        return RowMask(self.counted[rows], self.person, fingerprints)

    def check(self, persons: Any) -> None:
        """Raise ReadError unless these persons are the persons of the rows in the first pass."""
        assert self.fingerprints is not None
        if not np.array_equal(person_fingerprints(np.asarray(persons)), self.fingerprints):
            raise ReadError(ORDER_CHANGED)


@dataclass(frozen=True, eq=False, repr=False)
class ChunkTask:
    """Picklable task, which consists of a function of chunks, the columns it reads, and a row mask.

    Calling the task with a `RawChunk` returns a `Result`.
    """

    function: Callable[[Chunk], Any]
    # Function that decodes dictionary-encoded text in the tables of the reader. Such text is a list
    # of distinct strings with an integer code per row.
    without_dictionaries: Callable[[Any], Any]
    # Whether the function accepts dictionary-encoded text. If so, only labels are decoded.
    keeps_dictionaries: bool
    columns: tuple[int, ...]  # positions of the columns of `Chunk.X` in the tables that are read
    # position of the label column in the tables, or None if labels are read from another source
    label: int | None
    # mask of the counted rows, starting at row `mask_start`, or None for all rows
    mask: RowMask | None = None
    mask_start: int = 0  # position of the mask's first row among all rows
    # position of the column of persons in the tables, or None if their order is not verified
    person: int | None = None

    def with_mask(self, mask: RowMask | None, start: int) -> ChunkTask:
        """Return the task with a mask of the counted rows that starts at row `start`."""
        return replace(self, mask=mask, mask_start=start)

    def __call__(self, chunk: RawChunk) -> Result:
        """Apply the function to a chunk, and return (result, None) or (None, exception).

        Exceptions from other packages are replaced, since they may quote private values.
        """
        result, failure = call_silently(self._call, *chunk)
        if failure is None:
            return result, None
        if not is_package_error(failure):
            failure = ReadError(
                "A chunk of rows could not be processed; the error message is withheld, because it "
                "may quote private values. Check that the columns have the declared types and "
                "contain valid values."
            )
        return None, without_traceback(failure)

    def _call(self, table: Any, labels: Any, start: int) -> Any:
        """Return the result of the function for the counted rows of a raw chunk.

        Parameters
        ----------
        table : array, frame or series
            The columns that were read.
        labels : array, series or None
            Labels that were read from another source.
        start : int
            Position of the first row among all rows.
        """
        y = labels
        if self.label is not None:
            y = pick_column(self.without_dictionaries(pick_columns(table, [self.label])), 0)
        if not self.keeps_dictionaries:
            table = self.without_dictionaries(table)
        shape = getattr(table, "shape", None)
        is_flat = shape is not None and len(shape) == 1  # a series or a one-dimensional array
        X = table if is_flat else pick_columns(table, self.columns)
        if self.mask is not None:
            offset = start - self.mask_start
            mask = self.mask[offset : offset + table_height(X)]
            if self.person is not None:
                persons = table if is_flat else pick_columns(table, [self.person])
                if not is_flat:
                    persons = pick_column(self.without_dictionaries(persons), 0)
                mask.check(persons)
            counted = np.flatnonzero(mask.counted)
            if len(counted) < table_height(X):
                X, y = take_rows(X, counted), None if y is None else take_rows(y, counted)
        return self.function(Chunk(X, y, start))


def map_in_order(task: ChunkTask, chunks: Iterable[RawChunk], n_threads: int) -> Iterator[Result]:
    """Yield the result of a task for each chunk, in order. The results are computed in threads.

    At most `n_threads` + 1 chunks are in memory.
    """
    if n_threads == 1:
        yield from map(task, chunks)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        futures: deque[Any] = deque()
        try:
            for chunk in chunks:
                futures.append(pool.submit(task, chunk))
                if len(futures) > n_threads:
                    yield futures.popleft().result()
            while futures:
                yield futures.popleft().result()
        finally:
            for future in futures:
                future.cancel()


def sum_tables(results: Iterable[Result]) -> Result:
    """Add up the integer tables, or tuples of integer tables, of all results.

    The return value is (sum, None), or the first failed result if there is one. Integer addition is
    exact, so the sum does not depend on the order of chunks.
    """
    total: list[Any] = []
    is_tuple = False
    for result, failure in results:
        if failure is not None:
            return None, failure
        is_tuple = isinstance(result, tuple)
        tables = [np.asarray(table) for table in (result if is_tuple else (result,))]
        if any(table.dtype.kind not in "biu" for table in tables):
            return None, TypeError(
                "Tables must contain integers, because only integer sums do not depend on the "
                "order of summation."
            )
        if not total:
            total = [table.astype(np.int64) for table in tables]
        else:
            for sum_so_far, table in zip(total, tables, strict=True):
                np.add(sum_so_far, table, out=sum_so_far, casting="unsafe")
    if is_tuple:
        return tuple(total), None
    return (total[0] if total else None), None
