"""Row sources: rows of any container, opened for reading in chunks."""

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
    source : path, list of paths, or container of rows
        - Parquet files: a path, a glob such as `"people/*.parquet"`, a directory, or a list;
        - SQL, with a `connection`. DuckDB thereby reads CSV files, Postgres and SQLite;
        - a DuckDB relation, a `pyarrow.dataset.Dataset`, a Dask DataFrame or Array, a
          `polars.LazyFrame`;
        - Arrow record batches: a list, or a function that returns a new iterator on each call;
        - an array or a frame.

        Rows are read in several passes, which must all give the same rows. For privacy, each row
        must be a function of one person's row alone. A query or a lazy frame may select columns,
        compute columns from the same row and filter rows by their own values. It must not have
        window functions, `LIMIT`, aggregates, `DISTINCT`, samples or ranks. Joins are allowed only
        with public tables that match each row once. Otherwise one person could change many rows.
    connection : duckdb.DuckDBPyConnection, optional
        Connection that runs `source` as a query.

    Returns
    -------
    RowSource
        Rows. The column ``rows["income"]`` can be passed as `y`, together with
        ``rows.drop("income")`` as `X`; both are read in one pass.

    Raises
    ------
    ImportError
        If an optional package is missing. The message names it.
    FileNotFoundError
        If a path matches no file.
    ReadError
        If the source cannot be opened.
    ValueError
        If names of columns are not distinct, or if the source can be read only once.

    See Also
    --------
    RowSource : Class of the returned object.
    describe_columns : Synthetic public rows from a description.

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
                "With a connection, the source must be a text with SQL; got "
                f"{type(source).__name__}."
            )
        return RowSource(query(source, connection))
    if is_path(source) or (isinstance(source, list) and source and all(map(is_path, source))):
        return RowSource(ParquetReader(source))
    return as_rows(source)


def is_streamed(X: Any) -> bool:
    """Indicate whether `X` is read in chunks, in contrast to arrays and frames in memory."""
    return isinstance(X, RowSource | SourceColumn) or _reader_class(X) is not None


def as_rows(X: Any, y: Any = None) -> RowSource:
    """Return a source of rows, and of labels in the same order, from any container.

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
        If the numbers of labels and rows differ, or if their order may change between passes.
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
    labels = _as_label_column(y)
    reader = rows._reader
    if labels.reader is not reader:
        if isinstance(reader, DuckDBReader) and isinstance(labels.reader, DuckDBReader):
            raise ValueError(
                "X and y from DuckDB must be columns of one relation, since two queries keep no "
                "common order; use rows = open_rows(relation), then rows.drop('y') as X and "
                "rows['y'] as y."
            )
        for paired_reader in (reader, labels.reader):
            check_ordered(paired_reader, "Labels from another source")
        if isinstance(reader, DaskReader) and isinstance(labels.reader, DaskReader):
            reader.count_with(labels.reader)
        if reader.n_rows != labels.n_rows:
            raise ValueError(
                f"X and y must have equally many rows; got {reader.n_rows} and {labels.n_rows}."
            )
    return RowSource(reader, rows._columns, labels)


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
    is_batches = isinstance(X, list) and X and is_instance(X[0], "pyarrow", "RecordBatch", "Table")
    # iterators are refused by the reader, with a message about batches
    is_iterator = isinstance(X, Iterator) or is_instance(X, "pyarrow", "RecordBatchReader")
    return RecordBatchesReader if is_batches or is_iterator or callable(X) else None


def _make_reader(X: Any) -> RowReader:
    """Return a reader of a container; the default is the reader of tables in memory."""
    return (_reader_class(X) or MemoryReader)(X)


def _as_label_column(y: Any) -> SourceColumn:
    """Return labels of any container as the single column of a source."""
    if isinstance(y, SourceColumn):
        return y
    rows = y if isinstance(y, RowSource) else RowSource(_make_reader(y))
    if rows.n_columns != 1:
        raise ValueError(f"y must be one column; got {rows.n_columns} columns.")
    return SourceColumn(rows._reader, rows._columns[0])
