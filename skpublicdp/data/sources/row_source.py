"""RowSource: selected columns and labels of a reader, and the passes over them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp.data.sources.chunk_task import (
    Chunk,
    ChunkTask,
    RawChunk,
    Result,
    map_in_order,
    sum_tables,
)
from skpublicdp.data.sources.dask_reader import DaskReader
from skpublicdp.data.sources.memory_reader import MemoryReader
from skpublicdp.data.sources.reader import RowReader, SourceColumn, rows_per_chunk
from skpublicdp.data.tables import concatenate_tables, pick_column, pick_rows, table_height
from skpublicdp.typing import R

MIN_CHUNK_ROWS = 2**13
"""Rows of a chunk in memory, at least: fewer are not worth a thread."""


class RowSource:
    """Rows that are read in chunks, as often as needed, and never all at once.

    Made by `open_rows` and `as_rows`.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    names : tuple of str or None
        The columns; None for arrays.
    n_columns : int
        Number of columns.
    ordered : bool
        Whether every pass gives the rows in the same order, so that positions mean something.

    Examples
    --------
    >>> from skpublicdp.data.streaming import as_rows
    >>> rows = as_rows(np.arange(6).reshape(3, 2), np.array([0, 1, 1]))
    >>> rows.n_rows
    3
    >>> rows.fold(lambda chunk: np.bincount(chunk.y))
    array([1, 2])
    """

    def __init__(
        self,
        scan: RowReader,
        columns: Sequence[int] | None = None,
        labels: SourceColumn | None = None,
        kept: NDArray[np.bool_] | None = None,
    ) -> None:
        self._reader = scan
        self._columns = tuple(range(scan.n_columns) if columns is None else columns)
        self._labels = labels
        self._mask = kept

    def __repr__(self) -> str:
        return f"<rows of {self._reader.kind}: {self.n_columns} columns>"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._reader.n_rows

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self._columns)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns; None for arrays."""
        names = self._reader.names
        return None if names is None else tuple(names[c] for c in self._columns)

    @property
    def ordered(self) -> bool:
        """Whether every pass gives the rows in the same order."""
        return self._reader.ordered

    @property
    def labelled(self) -> bool:
        """Whether chunks have labels."""
        return self._labels is not None

    def empty(self) -> Any:
        """Return no rows, as an array or a frame with the types that the rows have."""
        return self._reader.empty(self._columns)

    def empty_labels(self) -> Any:
        """Return no labels, in their type; None without labels."""
        return None if self._labels is None else self._labels.empty()

    @overload
    def __getitem__(self, key: str) -> SourceColumn: ...
    @overload
    def __getitem__(self, key: list[str]) -> RowSource: ...
    def __getitem__(self, key: str | list[str]) -> SourceColumn | RowSource:
        """Return one column, to be passed as `y`, or rows of the columns in a list."""
        if isinstance(key, str):
            return SourceColumn(self._reader, self._positions_of([key])[0])
        return RowSource(self._reader, self._positions_of(key), self._labels)

    def drop(self, *names: str) -> RowSource:
        """Return the rows without these columns."""
        gone = {*self._positions_of(names)}
        return RowSource(self._reader, [c for c in self._columns if c not in gone], self._labels)

    def with_mask(self, kept: NDArray[np.bool_]) -> RowSource:
        """Return the rows of which passes show only some, by a mask; `n_rows` counts all."""
        self.check_ordered("Groups")
        return RowSource(self._reader, self._columns, self._labels, kept)

    def check_ordered(self, what: str) -> None:
        """Refuse what goes by position where every pass may have another order."""
        check_ordered(self._reader, what)

    def _positions_of(self, columns: Sequence[str | int]) -> tuple[int, ...]:
        """Return where columns, by name or position, are in the scan."""
        known: dict[str | int, int] = dict(enumerate(self._columns))
        known |= zip(self.names or (), self._columns, strict=False)
        for column in columns:
            if column not in known:
                raise KeyError(
                    f"Columns must be among those of {self._reader.kind}, "
                    f"{', '.join(self.names or ()) or 'which have no names'}; got {column!r}."
                )
        return tuple(known[column] for column in columns)

    def map(
        self,
        f: Callable[[Chunk], R],
        *,
        columns: Sequence[str | int] | None = None,
        n_jobs: int | None = None,
    ) -> Iterator[R]:
        """Yield f(chunk) for every chunk, in the order of rows.

        Parameters
        ----------
        f : callable
            Called with a `Chunk`, on threads, or on Dask's workers if the rows are there; then it
            must be picklable. With no rows at all it is called once, with an empty chunk.
        columns : sequence of str or int, optional
            The only columns that are read, by name or position.
        n_jobs : int, optional
            Threads, as in joblib. Dask has its own workers.

        Yields
        ------
        result
            What `f` returned.

        Raises
        ------
        ReadError
            If rows cannot be read, or `f` fails other than by an exception of this package. No
            message of others is quoted, as it may quote a value.
        """
        with contextlib.closing(self._results(f, columns, n_jobs)) as outcomes:
            for result, failure in outcomes:
                if failure is not None:
                    raise failure
                yield result

    def map_labels(self, f: Callable[[Any], R]) -> Iterator[R]:
        """Yield f(labels) for every chunk of labels, in the order of rows; no row is read.

        Parameters
        ----------
        f : callable
            Called with labels as they were given, where `map` would call it.

        Yields
        ------
        result
            What `f` returned.

        Raises
        ------
        ReadError
            As in `map`.
        """
        assert self._labels is not None
        scan, position = self._labels.reader, self._labels.position
        return RowSource(scan, [position], kept=self._mask).map(_MapLabels(f, scan.flat))

    def fold(
        self,
        f: Callable[[Chunk], Any],
        *,
        columns: Sequence[str | int] | None = None,
        n_jobs: int | None = None,
    ) -> Any:
        """Return Σ f(chunk), the same bits for every partition and number of workers.

        Parameters
        ----------
        f : callable
            Returns an array of integers, or a tuple of such arrays. Otherwise as in `map`.
        columns, n_jobs :
            As in `map`.

        Returns
        -------
        ndarray of int64, or tuple of them

        Raises
        ------
        ReadError
            As in `map`.
        TypeError
            If a table does not hold integers.
        """
        job, wanted, labels = self._task(f, columns)
        if self._runs_on_dask(labels):
            assert isinstance(self._reader, DaskReader)
            result, failure = self._reader.run_sum(job, wanted, labels)
        else:
            with contextlib.closing(self._results(f, columns, n_jobs)) as outcomes:
                result, failure = sum_tables(outcomes)
        if failure is not None:
            raise failure
        return result

    def take(self, positions: ArrayLike, *, columns: Sequence[str | int] | None = None) -> Any:
        """Return the rows at these positions, in the order asked, as an array or a frame."""
        return self.take_chunk(positions, columns=columns).X

    def take_chunk(
        self, positions: ArrayLike, *, columns: Sequence[str | int] | None = None
    ) -> Chunk:
        """Return the rows at these positions with their labels; `start` is 0.

        Parameters
        ----------
        positions : array-like of int
            In any order, as often as wanted.
        columns : sequence of str or int, optional
            The only columns that are read.

        Returns
        -------
        Chunk
            Rows and labels in the order asked.

        Raises
        ------
        ValueError
            If the rows have no fixed order.
        IndexError
            If there is no such row.
        """
        wanted = np.asarray(positions, dtype=np.intp).ravel()
        self.check_ordered("Positions")
        if wanted.size and not 0 <= wanted.min() <= wanted.max() < self.n_rows:
            raise IndexError(f"Positions must be from 0 to {self.n_rows - 1}, one for each row.")
        order = np.argsort(wanted, kind="stable")
        found = self._take(wanted[order], columns)
        back = np.argsort(order)
        y = None if found.y is None else pick_rows(found.y, back)
        return Chunk(pick_rows(found.X, back), y, 0)

    def _take(self, positions: NDArray[np.intp], columns: Sequence[str | int] | None) -> Chunk:
        """Return the rows at positions that never fall."""
        job, read, labels = self._task(_same, columns)
        if not self._runs_on_dask(labels):
            y = (
                None
                if labels is None
                else labels.take_from(labels.reader.take_rows([labels.position], positions))
            )
            found, failure = job((self._reader.take_rows(read, positions), y, 0))
            if failure is not None:
                raise failure
            return found  # type: ignore[no-any-return]
        parts = list(self.map(_PickRows(positions), columns=columns))
        parts = [part for part in parts if table_height(part.X)] or parts[:1]
        X = concatenate_tables([part.X for part in parts])
        return Chunk(
            X, concatenate_tables([part.y for part in parts]) if self.labelled else None, 0
        )

    def _task(
        self, f: Callable[[Chunk], Any], columns: Sequence[str | int] | None
    ) -> tuple[ChunkTask, tuple[int, ...], SourceColumn | None]:
        """Return the work, what to read for it, and labels that are read from elsewhere."""
        xs = self._columns if columns is None else self._positions_of(columns)
        inside = self._labels is not None and self._labels.reader is self._reader
        label = self._labels.position if self._labels is not None and inside else None
        wanted = tuple(dict.fromkeys(xs if label is None else (*xs, label)))
        at = None if label is None else wanted.index(label)
        job = ChunkTask(
            f, self._reader.without_dictionaries, tuple(map(wanted.index, xs)), at, self._mask
        )
        return job, wanted, None if inside else self._labels

    def _runs_on_dask(self, labels: SourceColumn | None) -> bool:
        """Indicate whether the function runs on Dask's workers, where the rows are."""
        scan = self._reader
        return isinstance(scan, DaskReader) and scan.n_rows > 0 and scan.can_pair(labels)

    def _results(
        self, f: Callable[[Chunk], Any], columns: Sequence[str | int] | None, n_jobs: int | None
    ) -> Generator[Result, None, None]:
        job, wanted, labels = self._task(f, columns)
        if self._runs_on_dask(labels):
            assert isinstance(self._reader, DaskReader)
            yield from self._reader.run(job, wanted, labels)
            return
        n_threads = joblib.effective_n_jobs(n_jobs)
        rows = rows_per_chunk(len(wanted))
        if isinstance(self._reader, MemoryReader):
            rows = min(rows, max(MIN_CHUNK_ROWS, -(-self.n_rows // n_threads)))
        with contextlib.closing(self._raw_chunks(wanted, labels, rows)) as pieces:
            yield from map_in_order(job, pieces, n_threads)

    def _raw_chunks(
        self, wanted: Sequence[int], labels: SourceColumn | None, rows: int
    ) -> Generator[RawChunk, None, None]:
        if not self.n_rows:
            yield self._reader.empty(wanted), None if labels is None else labels.empty(), 0
            return
        starts = range(0, self.n_rows, rows)
        with contextlib.ExitStack() as stack:
            tables = stack.enter_context(contextlib.closing(self._reader.chunks(wanted, rows)))
            if labels is None:
                for table, start in zip(tables, starts, strict=True):
                    yield table, None, start
                return
            ys = labels.reader.chunks([labels.position], rows)
            ys = stack.enter_context(contextlib.closing(ys))
            for table, y, start in zip(tables, ys, starts, strict=True):
                yield table, labels.take_from(y), start


def _same(chunk: Chunk) -> Chunk:
    return chunk


@dataclass(frozen=True, eq=False, repr=False)
class _MapLabels:
    """Calls a function with the only column of a chunk."""

    function: Callable[[Any], Any]
    flat: bool

    def __call__(self, chunk: Chunk) -> Any:
        return self.function(chunk.X if self.flat else pick_column(chunk.X, 0))


@dataclass(frozen=True, eq=False, repr=False)
class _PickRows:
    """Picks rows of a chunk by their positions among all rows, which are sorted."""

    positions: NDArray[np.intp]

    def __call__(self, chunk: Chunk) -> Chunk:
        ends = (chunk.start, chunk.start + table_height(chunk.X))
        first, last = np.searchsorted(self.positions, ends)
        here = self.positions[first:last] - chunk.start
        y = None if chunk.y is None else pick_rows(chunk.y, here)
        return Chunk(pick_rows(chunk.X, here), y, chunk.start)


def check_ordered(scan: RowReader, what: str) -> None:
    """Refuse what goes by position where every pass may have another order."""
    if not scan.ordered:
        raise ValueError(
            f"{what} need rows in a fixed order, which {scan.kind} does not promise (joins, groups "
            "and sorts may change it); take labels from the same open_rows(...), or write the "
            "rows to a table or a Parquet file first."
        )
