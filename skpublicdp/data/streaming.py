"""Open rows of any container for reading in chunks, the only way to pass over private rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from skpublicdp.data.sources.arrow_readers import (
    DatasetReader,
    ParquetReader,
    RecordBatchesReader,
    is_path,
)
from skpublicdp.data.sources.chunk_task import AcceptsDictionaries, Chunk
from skpublicdp.data.sources.dask_reader import DaskReader
from skpublicdp.data.sources.duckdb_reader import DuckDBReader, query
from skpublicdp.data.sources.memory_reader import MemoryReader
from skpublicdp.data.sources.polars_reader import PolarsReader
from skpublicdp.data.sources.reader import RowReader, SourceColumn, is_instance
from skpublicdp.data.sources.row_source import RowSource, check_ordered

__all__ = [
    "AcceptsDictionaries",
    "Chunk",
    "RowSource",
    "SourceColumn",
    "as_rows",
    "is_streamed",
    "open_rows",
]


def open_rows(source: Any, *, connection: Any = None) -> RowSource:
    """Open rows that need not fit in memory, to be passed to `fit` as `X`.

    Parameters
    ----------
    source : path, list of paths, or what holds rows
        - Parquet files: a path, a glob such as `"people/*.parquet"`, a directory, or a list;
        - SQL, if there is a `connection`; so CSV files, Postgres and SQLite are read by DuckDB;
        - a DuckDB relation, a `pyarrow.dataset.Dataset`, a Dask DataFrame or Array, a
          `polars.LazyFrame`;
        - Arrow record batches: a list, or a function that returns a new iterator each time;
        - an array or a frame.

        Rows are read in several passes and must be the same ones in each. For privacy each must
        come of one person's row alone: a query or a lazy frame may choose columns, compute new ones
        of the same row and filter rows by their own values. It must not have windows, `LIMIT`,
        aggregates, `DISTINCT`, samples or ranks, and joins only with public tables of one match for
        each row: one person would else move many rows, or decide which others there are.
    connection : duckdb.DuckDBPyConnection, optional
        Makes `source` a query.

    Returns
    -------
    RowSource
        `rows["income"]` is a column, to be passed as `y`, and `rows.drop("income")` are the
        rows without it; both are read in one pass.

    Raises
    ------
    ImportError
        If a package is missing; the message says which.
    FileNotFoundError
        If there is no such file.
    ReadError
        If it cannot be opened.
    ValueError
        If names of columns are not distinct, or the source can be read only once.

    See Also
    --------
    RowSource : What it returns.
    describe_columns : Public rows from a description.

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
            raise TypeError("With a connection, the source must be a text, its SQL.")
        return RowSource(query(source, connection))
    if is_path(source) or (isinstance(source, list) and source and all(map(is_path, source))):
        return RowSource(ParquetReader(source))
    return as_rows(source)


def is_streamed(X: Any) -> bool:
    """Indicate whether X is read in chunks, in contrast to arrays and frames in memory."""
    return isinstance(X, RowSource | SourceColumn) or _reader_class(X) is not None


def as_rows(X: Any, y: Any = None) -> RowSource:
    """Return rows, and labels in step with them, from whatever holds them.

    Parameters
    ----------
    X : RowSource, array, frame, or what `open_rows` reads other than paths
        The rows. What is in memory is cut into chunks, never copied as a whole.
    y : column of a RowSource, array, series, or column of the same kind as X, optional
        Labels. A column of the same `RowSource` is read in the same pass.

    Returns
    -------
    RowSource

    Raises
    ------
    ValueError
        If there are not as many labels as rows, or no order that both are in.
    ReadError
        If rows or labels cannot be counted.

    Examples
    --------
    >>> import numpy as np
    >>> rows = as_rows(np.arange(6).reshape(3, 2), np.array([0, 1, 1]))
    >>> [chunk.y for chunk in rows.map(lambda chunk: chunk)]
    [array([0, 1, 1])]
    """
    rows = X if isinstance(X, RowSource) else RowSource(_make_reader(X))
    if y is None:
        return rows
    labels = _labels(y)
    scan = rows._reader
    if labels.reader is not scan:
        if isinstance(scan, DuckDBReader) and isinstance(labels.reader, DuckDBReader):
            raise ValueError(
                "X and y from DuckDB must be columns of one relation, since two queries keep no "
                "common order; use rows = open_rows(relation), then rows.drop('y') as X and "
                "rows['y'] as y."
            )
        for one in (scan, labels.reader):
            check_ordered(one, "Labels from elsewhere")
        if isinstance(scan, DaskReader) and isinstance(labels.reader, DaskReader):
            scan.count_with(labels.reader)
        if scan.n_rows != labels.n_rows:
            raise ValueError(
                f"X and y must have equally many rows; got {scan.n_rows} and {labels.n_rows}."
            )
    return RowSource(scan, rows._columns, labels)


def _reader_class(X: Any) -> Callable[[Any], RowReader] | None:
    """Return the reader class of a container that is not in memory, or None."""
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
    batches = isinstance(X, list) and X and is_instance(X[0], "pyarrow", "RecordBatch", "Table")
    once = isinstance(X, Iterator) or is_instance(X, "pyarrow", "RecordBatchReader")
    return RecordBatchesReader if batches or once or callable(X) else None


def _make_reader(X: Any) -> RowReader:
    return (_reader_class(X) or MemoryReader)(X)


def _labels(y: Any) -> SourceColumn:
    if isinstance(y, SourceColumn):
        return y
    rows = y if isinstance(y, RowSource) else RowSource(_make_reader(y))
    if rows.n_columns != 1:
        raise ValueError(f"y must be one column; got {rows.n_columns} columns.")
    return SourceColumn(rows._reader, rows._columns[0])
