"""Rows in any container, which are opened as a RowSource and read in chunks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import joblib
import numpy as np
from numpy.typing import ArrayLike

from skpublicdp._internal.progress import pass_over_rows
from skpublicdp.data.sources.arrow_readers import (
    ArrowStreamReader,
    DatasetReader,
    DuckDBReader,
    IbisReader,
    ParquetReader,
    PolarsReader,
    RecordBatchesReader,
    has_arrow_stream,
    is_path,
    query,
)
from skpublicdp.data.sources.reader import (
    Chunk,
    ChunkTask,
    MemoryReader,
    RawChunk,
    Result,
    RowMask,
    RowReader,
    SourceColumn,
    WorkerReader,
    check_ordered,
    is_instance,
    map_in_order,
    person_fingerprints,
    rows_per_chunk,
    sum_tables,
)
from skpublicdp.data.sources.worker_readers import DaskReader, SparkReader
from skpublicdp.data.tables import concatenate_tables, pick_column, table_height, take_rows
from skpublicdp.typing import Codes, Mask, R

__all__ = [
    "Chunk",
    "RowSource",
    "SourceColumn",
    "as_rows",
    "is_streamed",
    "open_rows",
]


def open_rows(source: Any, *, connection: Any = None) -> RowSource:
    """Open rows that need not fit into memory, so that they can be passed to `fit` as `X`.

    Parameters
    ----------
    source : path, list of paths, or container of rows
        - Parquet files: a path, a glob such as `"people/*.parquet"`, a directory, or a list;
        - SQL, with a `connection`, through which DuckDB can also read CSV files, Postgres and
          SQLite;
        - an ibis table, which gives access to Postgres, BigQuery, Snowflake and other engines of
          ibis;
        - a DuckDB relation, a `pyarrow.dataset.Dataset`, a Dask DataFrame or Array, a Spark
          DataFrame, or a `polars.LazyFrame`;
        - an object that returns a new Arrow stream on each call of `__arrow_c_stream__`;
        - Arrow record batches, as a list or as a function that returns a new iterator on each call;
        - an array or a frame.

        Rows are read in several passes, all of which must return the same rows in the same order.
        Only a source that declares its order as variable (`ordered` is False) may change it; such a
        source cannot be used with `groups`. For the privacy guarantee, each row must be a function
        of a single person's row. A query or a lazy frame can select columns, compute columns from
        values in the same row, and filter rows by their own values. A query must not contain window
        functions, `LIMIT`, aggregates, `DISTINCT`, samples or ranks. Joins are allowed only with
        public tables in which each row has exactly one match. If these rules are violated, one
        person could affect many rows.
    connection : duckdb.DuckDBPyConnection, optional
        Connection that runs `source` as a query.

    Returns
    -------
    RowSource
        Rows. The column ``rows["income"]`` can be passed as `y` together with
        ``rows.drop("income")`` as `X`. Rows and labels are then read in the same pass.

    Raises
    ------
    ImportError
        If an optional package, named in the message, is missing.
    FileNotFoundError
        If a path matches no file.
    ReadError
        If the source cannot be opened.
    ValueError
        If column names are not distinct, or if the source can be read only once.

    See Also
    --------
    RowSource : Class of the object that this function returns.
    describe_columns : Function that generates synthetic public rows from a description.

    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"age": [30, 40, 50], "income": [0, 1, 1]})
    >>> rows = open_rows([batch, batch])
    >>> rows.names, rows.n_rows
    (('age', 'income'), 6)
    >>> labelled = as_rows(rows.drop("income"), rows["income"])
    >>> labelled.take([3, 2]).to_pydict()
    {'age': [30, 50]}
    """
    if connection is not None:
        if not isinstance(source, str):
            raise TypeError(
                "If a connection is given, the source must be a string with an SQL query; got "
                f"{type(source).__name__}."
            )
        return RowSource(query(source, connection))
    if is_path(source) or (isinstance(source, list) and source and all(map(is_path, source))):
        return RowSource(ParquetReader(source))
    return as_rows(source)


def is_streamed(X: Any) -> bool:
    """Indicate whether `X` is read in chunks, unlike arrays and frames in memory."""
    return isinstance(X, RowSource | SourceColumn) or _reader_class(X) is not None


def as_rows(X: Any, y: Any = None) -> RowSource:
    """Create a source of rows, with labels in the same order, from any container.

    Parameters
    ----------
    X : RowSource, array, frame, or container that `open_rows` accepts except paths
        The rows. Rows in memory are sliced into chunks, without a copy of all rows.
    y : column of a RowSource, array, series, or column of the same kind as X, optional
        Labels. A column of the same `RowSource` is read in the same pass.

    Returns
    -------
    RowSource

    Raises
    ------
    ValueError
        If the numbers of labels and rows differ, or if the order of either can change between
        passes.
    ReadError
        If rows or labels cannot be counted.

    Examples
    --------
    >>> import numpy as np
    >>> rows = as_rows(np.arange(6).reshape(3, 2), np.array([0, 1, 1]))
    >>> [chunk.y for chunk in rows.map(lambda chunk: chunk)]
    [array([0, 1, 1])]
    """
    rows = X if isinstance(X, RowSource) else RowSource((_reader_class(X) or MemoryReader)(X))
    if y is None:
        return rows
    labels = _as_label_column(y)
    reader = rows._reader
    if labels.reader is not reader:
        if isinstance(reader, DuckDBReader) and isinstance(labels.reader, DuckDBReader):
            raise ValueError(
                "X and y from DuckDB must be columns of the same relation, because two queries may "
                "return rows in different orders. Use rows = open_rows(relation), then "
                "rows.drop('y') as X and rows['y'] as y."
            )
        for paired_reader in (reader, labels.reader):
            check_ordered(paired_reader, "Labels from another source")
        if isinstance(reader, DaskReader) and isinstance(labels.reader, DaskReader):
            reader.count_with(labels.reader)
        if reader.n_rows != labels.n_rows:
            raise ValueError(
                f"X and y must have the same number of rows; got {reader.n_rows} and "
                f"{labels.n_rows}."
            )
    return RowSource(reader, rows._columns, labels)


def _reader_class(X: Any) -> Callable[[Any], RowReader] | None:
    """Return the reader class for a container that is not in memory, or None if it is."""
    if is_instance(X, "pyarrow.dataset", "Dataset"):
        return DatasetReader
    if is_instance(X, "duckdb", "DuckDBPyRelation"):
        return DuckDBReader
    if is_instance(X, "dask.dataframe", "DataFrame", "Series") or is_instance(
        X, "dask.array", "Array"
    ):
        return DaskReader
    if is_instance(X, "polars", "LazyFrame"):
        return PolarsReader
    if is_instance(X, "pyspark.sql.dataframe", "DataFrame"):
        return SparkReader
    if is_instance(X, "ibis.expr.types", "Table", "Column"):
        return IbisReader
    is_batches = isinstance(X, list) and X and is_instance(X[0], "pyarrow", "RecordBatch", "Table")
    # iterators are rejected by the reader, with a message about batches
    is_iterator = isinstance(X, Iterator) or is_instance(X, "pyarrow", "RecordBatchReader")
    if is_batches or is_iterator:
        return RecordBatchesReader
    if has_arrow_stream(X):
        return ArrowStreamReader
    return RecordBatchesReader if callable(X) else None


def _as_label_column(y: Any) -> SourceColumn:
    """Return labels in any container as the only column of a source."""
    if isinstance(y, SourceColumn):
        return y
    rows = y if isinstance(y, RowSource) else RowSource((_reader_class(y) or MemoryReader)(y))
    if rows.n_columns != 1:
        raise ValueError(f"y must be a single column; got {rows.n_columns} columns.")
    return SourceColumn(rows._reader, rows._columns[0])


MIN_CHUNK_ROWS = 2**13
"""Minimum number of rows in a chunk of a table in memory. For smaller chunks, threads are not
worthwhile."""


class RowSource:
    """Rows that can be read in chunks, in any number of passes, but never all at once.

    A `RowSource` is created by `open_rows` or `as_rows`.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    names : tuple of str or None
        Names of the columns, or None for arrays.
    n_columns : int
        Number of columns.
    ordered : bool
        Whether every pass returns the rows in the same order, so that positions identify rows.

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
        reader: RowReader,
        columns: Sequence[int] | None = None,
        labels: SourceColumn | None = None,
        mask: RowMask | None = None,
    ) -> None:
        self._reader = reader
        self._columns = tuple(range(reader.n_columns) if columns is None else columns)
        self._labels = labels
        self._mask = mask

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
        """Names of the columns, or None for arrays."""
        names = self._reader.names
        return None if names is None else tuple(names[c] for c in self._columns)

    @property
    def ordered(self) -> bool:
        """Whether every pass returns the rows in the same order."""
        return self._reader.ordered

    @property
    def labelled(self) -> bool:
        """Whether chunks have labels."""
        return self._labels is not None

    def empty(self) -> Any:
        """Return an empty array or frame with the column types of the rows."""
        return self._reader.empty(self._columns)

    def empty_labels(self) -> Any:
        """Return an empty column with the type of the labels, or None if there are no labels."""
        return None if self._labels is None else self._labels.empty()

    @overload
    def __getitem__(self, key: str) -> SourceColumn: ...
    @overload
    def __getitem__(self, key: list[str]) -> RowSource: ...
    def __getitem__(self, key: str | list[str]) -> SourceColumn | RowSource:
        """Return a single column, to be passed as `y`, or the rows with a list of columns."""
        if isinstance(key, str):
            return SourceColumn(self._reader, self._reader_positions([key])[0])
        return RowSource(self._reader, self._reader_positions(key), self._labels)

    def drop(self, *names: str) -> RowSource:
        """Return the rows without the given columns."""
        dropped = {*self._reader_positions(names)}
        columns = [column for column in self._columns if column not in dropped]
        return RowSource(self._reader, columns, self._labels)

    def with_mask(self, mask: Mask, groups: Any = None, persons: Any = None) -> RowSource:
        """Return a source that skips the rows outside a mask, but counts them in `n_rows`.

        If `groups` is a column of the same container, every pass compares it with `persons`, its
        values in the first pass. A pass in another order would apply the mask to other rows.
        """
        self.check_ordered("Groups")
        row_mask = RowMask(mask)
        if is_streamed(groups) and (column := _as_label_column(groups)).reader is self._reader:
            row_mask = RowMask(mask, column.position, person_fingerprints(np.asarray(persons)))
        return RowSource(self._reader, self._columns, self._labels, row_mask)

    def check_ordered(self, feature: str) -> None:
        """Raise ValueError if the row order can change between passes, so that `feature` fails."""
        check_ordered(self._reader, feature)

    def _reader_positions(self, columns: Sequence[str | int]) -> tuple[int, ...]:
        """Return the positions in the reader of columns given by name or position."""
        positions: dict[str | int, int] = dict(enumerate(self._columns))
        positions |= zip(self.names or (), self._columns, strict=False)
        for column in columns:
            if column not in positions:
                raise KeyError(
                    f"Columns must be among those of {self._reader.kind} "
                    f"({', '.join(self.names or ()) or 'which have no names'}); got {column!r}."
                )
        return tuple(positions[column] for column in columns)

    def map(
        self,
        f: Callable[[Chunk], R],
        *,
        columns: Sequence[str | int] | None = None,
        n_jobs: int | None = None,
        keep_dictionaries: bool = False,
    ) -> Iterator[R]:
        """Yield f(chunk) for every chunk, in the order of the rows.

        Parameters
        ----------
        f : callable
            Function of a `Chunk`. The function is called in threads, or on Dask or Spark workers.
            In the latter case, it must be picklable. If there are no rows, the function is called
            once, with an empty chunk.
        columns : sequence of str or int, optional
            Columns to read, by name or position. By default, all columns are read.
        n_jobs : int, optional
            Number of joblib threads. Dask and Spark use workers of their own instead.
        keep_dictionaries : bool, default=False
            Whether `f` accepts dictionary-encoded Arrow text. If so, the text is not decoded.

        Yields
        ------
        result
            Results of `f`.

        Raises
        ------
        ReadError
            If rows cannot be read, or if `f` raises an exception from another package. The original
            message is withheld, since it may quote a private value.
        """
        plan = self._plan(f, columns, keep_dictionaries)
        with pass_over_rows(), contextlib.closing(self._results(plan, n_jobs)) as results:
            for result, failure in results:
                if failure is not None:
                    raise failure
                yield result

    def map_labels(self, f: Callable[[Any], R]) -> Iterator[R]:
        """Yield f(labels) for every chunk of labels, in order, without reading `X`.

        Parameters
        ----------
        f : callable
            Function of labels in their original type, which is called like the function in `map`.

        Yields
        ------
        result
            Results of `f`.

        Raises
        ------
        ReadError
            As in `map`.
        """
        assert self._labels is not None
        reader, position = self._labels.reader, self._labels.position
        mask = self._mask
        if mask is not None and reader is not self._reader:
            mask = RowMask(mask.counted)  # this container lacks the column of persons
        return RowSource(reader, [position], mask=mask).map(_LabelFunction(f, reader.flat))

    def fold(
        self,
        f: Callable[[Chunk], Any],
        *,
        columns: Sequence[str | int] | None = None,
        n_jobs: int | None = None,
        keep_dictionaries: bool = False,
    ) -> Any:
        """Return the sum of f(chunk) over all chunks.

        Since the summands are integers, the result does not depend on chunks, partitions or
        workers.

        Parameters
        ----------
        f : callable
            Function of a `Chunk` that returns an array of integers or a tuple of integer arrays.
            The function is called like the function in `map`.
        columns, n_jobs, keep_dictionaries :
            As in `map`.

        Returns
        -------
        ndarray of int64, or tuple of them

        Raises
        ------
        ReadError
            As in `map`.
        TypeError
            If a table does not contain integers.
        """
        plan = self._plan(f, columns, keep_dictionaries)
        with pass_over_rows():
            if self._runs_on_workers(plan.labels):
                assert isinstance(self._reader, WorkerReader)
                result, failure = self._reader.run_sum(plan.task, plan.columns, plan.labels)
            else:
                with contextlib.closing(self._results(plan, n_jobs)) as results:
                    result, failure = sum_tables(results)
        if failure is not None:
            raise failure
        return result

    def take(self, positions: ArrayLike, *, columns: Sequence[str | int] | None = None) -> Any:
        """Return the rows at given positions, in the given order, as an array or a frame."""
        return self.take_chunk(positions, columns=columns).X

    def take_chunk(
        self, positions: ArrayLike, *, columns: Sequence[str | int] | None = None
    ) -> Chunk:
        """Return the rows at given positions with their labels, as a chunk whose `start` is 0.

        Parameters
        ----------
        positions : array-like of int
            Positions in any order, possibly repeated.
        columns : sequence of str or int, optional
            Columns to read. By default, all columns are read.

        Returns
        -------
        Chunk
            Rows and labels in the order of `positions`.

        Raises
        ------
        ValueError
            If the order of the rows is not fixed.
        IndexError
            If a position is out of range.
        """
        positions = np.asarray(positions, dtype=np.intp).ravel()
        self.check_ordered("Positions")
        if positions.size and not 0 <= positions.min() <= positions.max() < self.n_rows:
            raise IndexError(f"Row positions must be from 0 to {self.n_rows - 1}.")
        order = np.argsort(positions, kind="stable")
        chunk = self._take_sorted(positions[order], columns)
        inverse = np.argsort(order)
        X = take_rows(chunk.X, inverse)
        y = None if chunk.y is None else take_rows(chunk.y, inverse)
        return Chunk(X, y, 0)

    def _take_sorted(self, positions: Codes, columns: Sequence[str | int] | None) -> Chunk:
        """Return the rows at non-decreasing positions with their labels, as a single chunk.

        Dask workers select the rows of their partitions. From all other containers, the rows are
        selected in this process.
        """
        plan = self._plan(_identity, columns)
        labels = plan.labels
        if not self._runs_on_workers(labels):
            y = None
            if labels is not None:
                y = labels.take_from(labels.reader.take_rows([labels.position], positions))
            chunk, failure = plan.task((self._reader.take_rows(plan.columns, positions), y, 0))
            if failure is not None:
                raise failure
            return chunk
        chunks = list(self.map(_RowPicker(positions), columns=columns))
        # if no row is selected, an empty chunk has the declared types
        chunks = [chunk for chunk in chunks if table_height(chunk.X)] or chunks[:1]
        X = concatenate_tables([chunk.X for chunk in chunks])
        y = concatenate_tables([chunk.y for chunk in chunks]) if self.labelled else None
        return Chunk(X, y, 0)

    def _plan(
        self,
        f: Callable[[Chunk], Any],
        columns: Sequence[str | int] | None,
        keep_dictionaries: bool = False,
    ) -> _ReadingPlan:
        """Return the columns to read for a function of chunks, and a task that calls the function.

        Labels from the same container are read in the same pass as the columns of `X`.
        """
        x_columns = self._columns if columns is None else self._reader_positions(columns)
        labels = self._labels
        label = None if labels is None or labels.reader is not self._reader else labels.position
        person = None if self._mask is None else self._mask.person
        extra_columns = [position for position in (label, person) if position is not None]
        read_columns = tuple(dict.fromkeys((*x_columns, *extra_columns)))
        task = ChunkTask(
            f,
            self._reader.without_dictionaries,
            keep_dictionaries,
            tuple(map(read_columns.index, x_columns)),
            None if label is None else read_columns.index(label),
            self._mask,
            person=None if person is None else read_columns.index(person),
        )
        return _ReadingPlan(task, read_columns, labels if label is None else None)

    def _runs_on_workers(self, labels: SourceColumn | None) -> bool:
        """Indicate whether functions are run by Dask or Spark workers, which hold the rows."""
        reader = self._reader
        return isinstance(reader, WorkerReader) and reader.n_rows > 0 and reader.can_pair(labels)

    def _results(self, plan: _ReadingPlan, n_jobs: int | None) -> Generator[Result, None, None]:
        """For each chunk, in order, yield the task's (result, None) or (None, exception)."""
        if self._runs_on_workers(plan.labels):
            assert isinstance(self._reader, WorkerReader)
            yield from self._reader.run(plan.task, plan.columns, plan.labels)
            return
        n_threads = joblib.effective_n_jobs(n_jobs)
        n_chunk_rows = rows_per_chunk(len(plan.columns))
        if isinstance(self._reader, MemoryReader):
            rows_per_thread = -(-self.n_rows // n_threads)  # rounded up
            n_chunk_rows = min(n_chunk_rows, max(MIN_CHUNK_ROWS, rows_per_thread))
        chunks = self._raw_chunks(plan.columns, plan.labels, n_chunk_rows)
        with contextlib.closing(chunks):
            yield from map_in_order(plan.task, chunks, n_threads)

    def _raw_chunks(
        self, columns: Sequence[int], labels: SourceColumn | None, n_chunk_rows: int
    ) -> Generator[RawChunk, None, None]:
        """Yield all rows in chunks, together with labels that are read from another source.

        Parameters
        ----------
        columns : sequence of int
            Positions of the columns in the reader.
        labels : SourceColumn or None
            Labels from another source.
        n_chunk_rows : int
            Number of rows per chunk.
        """
        if not self.n_rows:
            yield self._reader.empty(columns), None if labels is None else labels.empty(), 0
            return
        starts = range(0, self.n_rows, n_chunk_rows)
        with contextlib.ExitStack() as stack:
            tables = self._reader.chunks(columns, n_chunk_rows)
            stack.enter_context(contextlib.closing(tables))
            if labels is None:
                for table, start in zip(tables, starts, strict=True):
                    yield table, None, start
                return
            ys = labels.reader.chunks([labels.position], n_chunk_rows)
            stack.enter_context(contextlib.closing(ys))
            for table, y, start in zip(tables, ys, starts, strict=True):
                yield table, labels.take_from(y), start


class _ReadingPlan(NamedTuple):
    """Function of chunks, together with the columns that must be read for it."""

    task: ChunkTask
    """The function, together with the positions of its columns among the columns read."""
    columns: tuple[int, ...]
    """Positions in the reader of the columns to read, without duplicates."""
    labels: SourceColumn | None
    """Labels to be read from another source."""


def _identity(chunk: Chunk) -> Chunk:
    """Return the chunk itself. The function is used by tasks that only read rows."""
    return chunk


@dataclass(frozen=True, eq=False, repr=False)
class _LabelFunction:
    """Function of chunks that calls another function with their only column, the labels.

    The function is implemented as a class rather than a closure because Dask pickles it. The
    attribute `flat` indicates whether the reader returns a series or a flat array.
    """

    function: Callable[[Any], Any]
    flat: bool

    def __call__(self, chunk: Chunk) -> Any:
        return self.function(chunk.X if self.flat else pick_column(chunk.X, 0))


@dataclass(frozen=True, eq=False, repr=False)
class _RowPicker:
    """Function that selects rows of a chunk, given non-decreasing positions among all rows.

    The function is implemented as a class rather than a closure because Dask pickles it.
    """

    positions: Codes

    def __call__(self, chunk: Chunk) -> Chunk:
        ends = (chunk.start, chunk.start + table_height(chunk.X))
        first, last = np.searchsorted(self.positions, ends)
        in_chunk = self.positions[first:last] - chunk.start
        y = None if chunk.y is None else take_rows(chunk.y, in_chunk)
        return Chunk(take_rows(chunk.X, in_chunk), y, chunk.start)
