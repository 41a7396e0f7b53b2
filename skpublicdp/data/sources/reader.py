"""Row readers, which redact errors, and tasks that apply a function to each chunk of rows."""

from __future__ import annotations

import contextlib
import sys
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.sources import optional_imports
from skpublicdp.data.tables import (
    concatenate_tables,
    pick_column,
    pick_columns,
    slice_rows,
    table_height,
    table_width,
    take_rows,
    to_narwhals,
)
from skpublicdp.exceptions import ReadError
from skpublicdp.typing import Codes, Mask

CHUNK_ROWS = 2**17
"""Number of rows per chunk, unless there are many columns. With this number, a chunk uses little
memory."""

MAX_CHUNK_VALUES = 2**22
"""Maximum number of values per chunk, which applies up to the number of columns that `MIN_ROWS`
allows."""

MIN_ROWS = 2**10
"""Minimum number of rows in a chunk with very many columns."""

END = object()
"""Default value of `next`, which marks the end of an iterator of tables."""


def rows_per_chunk(n_columns: int) -> int:
    """Return the number of rows in a chunk with `n_columns` columns."""
    return max(MIN_ROWS, min(CHUNK_ROWS, MAX_CHUNK_VALUES // max(n_columns, 1)))


class RowReader(ABC):
    """Reader of the rows in a container, which must return the same rows in every pass.

    Attributes
    ----------
    ordered : bool
        Whether every pass returns the rows in the same order.
    """

    kind: ClassVar[str]  # name of the container, used in messages
    remedy: ClassVar[str]  # remedy that the message about unreadable rows suggests
    # remedy that is suggested if the number of rows changes between passes
    remedy_if_changed: ClassVar[str] = "make sure that nothing writes to it during a fit"
    names: tuple[str, ...] | None  # names of the columns, or None for arrays
    n_columns: int  # number of columns
    # whether the container is a one-dimensional array or series rather than a table
    flat: bool = False

    @property
    def ordered(self) -> bool:
        """Whether every pass returns the rows in the same order."""
        return True

    @cached_property
    def n_rows(self) -> int:
        """Number of rows, which are counted only once."""
        return int(self.reading(self._count))

    @abstractmethod
    def _count(self) -> int:
        """Count the rows."""

    @abstractmethod
    def _empty(self) -> Any:
        """Return an empty table with all columns."""

    @abstractmethod
    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        """Yield tables with these columns and any number of rows, in the order of the rows."""

    @staticmethod
    def without_dictionaries(table: Any) -> Any:
        """Convert the columns of a table that was read to the types of `empty`."""
        return table

    def name_columns(self, names: Iterable[str]) -> None:
        """Store the names of the columns, which must be distinct."""
        self.names = tuple(names)
        self.n_columns = len(self.names)
        check_distinct_names(self.names, self.kind)

    def names_of(self, columns: Sequence[int]) -> list[str]:
        """Return the names of columns given by position."""
        assert self.names is not None
        return [self.names[column] for column in columns]

    def empty(self, columns: Sequence[int]) -> Any:
        """Return an empty table with these columns and the types of the rows."""
        table = self.reading(self._empty)
        return table if self.flat else pick_columns(table, columns)

    def chunks(self, columns: Sequence[int], rows: int) -> Generator[Any, None, None]:
        """Yield all rows in tables of `rows` rows each. Only the last table can be shorter.

        A ReadError is raised if the number of rows differs from the count in an earlier pass.
        """
        # counted before reading, since some containers allow only one query at a time
        expected, n_read = self.n_rows, 0
        with contextlib.closing(self._read_redacted(columns)) as tables:
            for table in rechunk(tables, rows):
                n_read += table_height(table)
                if n_read > expected:
                    break
                yield table
        if n_read != expected:
            raise ReadError(self.changed_message())

    def take_rows(self, columns: Sequence[int], positions: Codes) -> Any:
        """Return the rows at non-decreasing positions as one array, frame or series."""
        tables = self.reading(lambda: list(self._take(columns, positions)))
        return concatenate_tables(tables) if tables else self.empty(columns)

    def _take(self, columns: Sequence[int], positions: Codes) -> Iterator[Any]:
        """Yield tables that together contain the rows at non-decreasing positions."""
        with contextlib.closing(self._read(columns)) as tables:
            yield from pick_from_tables(tables, positions, 0)

    def _read_redacted(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        """Yield the tables from `_read`, with exceptions that quote no value."""
        tables = self.reading(self._read, columns)
        with contextlib.closing(tables):
            while (table := self.reading(next, tables, END)) is not END:
                yield table

    @classmethod
    def reading(cls, call: Any, *args: Any, **options: Any) -> Any:
        """Return the result of call(*args, **options), a call that reads rows of the container.

        Exceptions from other packages may quote a private value, so they are replaced by ReadError.
        """
        result, failure = call_silently(call, *args, **options)
        if failure is None:
            return result
        if not is_package_error(failure):
            failure = ReadError(
                f"The rows of {cls.kind} could not be read; {cls.remedy}. The reader's message is "
                "withheld, because it may quote private values."
            )
        raise without_traceback(failure)

    def changed_message(self) -> str:
        """Return the message about a change in the number of rows between passes."""
        return (
            f"{self.kind[0].upper()}{self.kind[1:]} must return the same rows in every pass, but "
            f"the number of rows has changed; {self.remedy_if_changed}."
        )


def check_ordered(reader: RowReader, feature: str) -> None:
    """Raise ValueError if the order of a reader's rows can change between passes."""
    if not reader.ordered:
        raise ValueError(
            f"{feature} require rows in a fixed order, but {reader.kind} does not guarantee one, "
            "because joins, groups and sorts may change the order. Take the labels from the same "
            "open_rows(...), or write the rows to a table or a Parquet file first."
        )


class WorkerReader(RowReader):
    """Reader of rows that are held by other processes, which apply functions to their own rows."""

    @abstractmethod
    def can_pair(self, labels: SourceColumn | None) -> bool:
        """Indicate whether workers can read labels together with the rows of a partition."""

    @abstractmethod
    def run(
        self, task: Any, columns: Sequence[int], labels: SourceColumn | None
    ) -> Generator[Any, None, None]:
        """Yield the result of a `ChunkTask` for each chunk, as computed by the workers."""

    @abstractmethod
    def run_sum(self, task: Any, columns: Sequence[int], labels: SourceColumn | None) -> Any:
        """Return (sum, None) for the result tables of all chunks, or (None, exception)."""


@dataclass(frozen=True, eq=False, repr=False)
class SourceColumn:
    """Column of a row source, which can be passed as `y`."""

    reader: RowReader  # reader of the container
    position: int  # position of the column within the container

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.reader.n_rows

    def empty(self) -> Any:
        """Return an empty column of the same data type."""
        return self.take_from(self.reader.empty([self.position]))

    def take_from(self, table: Any) -> Any:
        """Return the column from a table that was read for this column alone."""
        if self.reader.flat:
            return table
        return pick_column(self.reader.without_dictionaries(table), 0)


def is_package_error(failure: BaseException) -> bool:
    """Indicate whether an exception comes from this package and therefore quotes no value."""
    return type(failure).__module__.split(".")[0] == "skpublicdp"


def without_traceback(failure: BaseException) -> BaseException:
    """Remove the traceback of an exception, whose frames hold private rows, and return it."""
    failure.__cause__ = failure.__context__ = None
    return failure.with_traceback(None)


def pick_from_tables(tables: Iterable[Any], positions: Codes, start: int) -> Iterator[Any]:
    """Select the rows at given positions from consecutive tables, and yield them as tables."""
    for table in tables:
        stop = start + table_height(table)
        first, last = np.searchsorted(positions, (start, stop))
        if first < last:
            yield take_rows(table, positions[first:last] - start)
        if last == len(positions):
            return
        start = stop


def rechunk(tables: Iterable[Any], rows: int) -> Iterator[Any]:
    """Regroup the rows of consecutive tables into tables of `rows` rows each.

    Only the last table can be shorter.
    """
    parts: list[Any] = []
    n_buffered = 0
    for table in tables:
        start, height = 0, table_height(table)
        while start < height:
            n_missing = rows - n_buffered
            stop = min(height, start + n_missing)
            parts.append(slice_rows(table, start, stop))
            n_buffered += stop - start
            start = stop
            if n_buffered == rows:
                yield concatenate_tables(parts)
                parts, n_buffered = [], 0
    if parts:
        yield concatenate_tables(parts)


def is_instance(candidate: Any, module: str, *names: str) -> bool:
    """Indicate whether an object is an instance of a class from an optional package.

    The package is not imported: without an import, no object can be an instance of its classes.
    """
    loaded = sys.modules.get(module)
    if loaded is None:
        return False
    return isinstance(candidate, tuple(getattr(loaded, name) for name in names))


def check_distinct_names(names: Sequence[Any], reader_kind: str) -> None:
    """Raise ValueError if two columns have the same name, since columns are read by name."""
    repeated = sorted({str(name) for name in names if list(names).count(name) > 1})
    if repeated:
        raise ValueError(
            f"The columns of {reader_kind} must have distinct names, but {repeated[0]!r} occurs "
            "more than once. Rename one of these columns."
        )


def text_names(names: Iterable[Any]) -> tuple[str, ...] | None:
    """Return the column names if all of them are strings, as in scikit-learn, or else None."""
    names = tuple(names)
    return names if all(isinstance(name, str) for name in names) else None


class MemoryReader(RowReader):
    """Reader of a table or column in memory, which slices it without copying all rows."""

    kind = "a table in memory"
    remedy = "check that it is an array or a data frame"

    def __init__(self, table: Any) -> None:
        if isinstance(table, SourceColumn):
            names = table.reader.names
            name = table.position if names is None else names[table.position]
            raise ValueError(
                f"X must be a table, but it is a single column of a source. Pass rows[[{name!r}]] "
                f"instead of rows[{name!r}]."
            )
        if is_instance(table, "pyarrow", "Array"):
            table = optional_imports.pyarrow().chunked_array([table])
        self._table = table
        wrapped = to_narwhals(table)
        self.names = text_names(wrapped.columns) if hasattr(wrapped, "columns") else None
        self.n_columns = table_width(table)
        self.flat = len(getattr(table, "shape", (0,))) == 1

    def _count(self) -> int:
        return table_height(self._table)

    def _empty(self) -> Any:
        return slice_rows(self._table, 0, 0)

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        yield self._table if self.flat else pick_columns(self._table, columns)

    def chunks(self, columns: Sequence[int], rows: int) -> Generator[Any, None, None]:
        """Yield all rows in tables of `rows` rows each. Only the last table can be shorter.

        Rows are sliced before columns are selected, so that copies are small.
        """
        for start in range(0, self.n_rows, rows):
            table = slice_rows(self._table, start, min(start + rows, self.n_rows))
            yield table if self.flat else pick_columns(table, columns)

    def slice_column(self, column: int, start: int, stop: int) -> Any:
        """Return the rows `start`, ..., `stop` - 1 of the column at a given position."""
        table = slice_rows(self._table, start, stop)
        return table if self.flat else pick_column(table, column)

    def take_rows(self, columns: Sequence[int], positions: Codes) -> Any:
        """Return the rows at positions given in any order, by indexing instead of a pass."""
        rows = take_rows(self._table, positions)
        return rows if self.flat else pick_columns(rows, columns)


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
