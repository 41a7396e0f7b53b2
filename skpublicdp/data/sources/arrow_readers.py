"""Readers for Parquet files, pyarrow datasets, record batches, and engines with Arrow output."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
from collections.abc import Generator, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.sources import optional_imports
from skpublicdp.data.sources.reader import (
    CHUNK_ROWS,
    RowReader,
    is_instance,
    pick_from_tables,
)
from skpublicdp.data.tables import is_eager
from skpublicdp.exceptions import ReadError
from skpublicdp.typing import Codes

DATASET_OPTIONS = {"format": "parquet", "partitioning": "hive"}
"""Options of `pyarrow.dataset.dataset` for Parquet files."""

ONE_SHOT = (
    "Record batches must be passed as a list or as a function that returns a new iterator each "
    "time, because rows are read in several passes; got an iterator, which can be read only once."
)


class DatasetReader(RowReader):
    """Reader of a `pyarrow.dataset.Dataset`. Each pass reads only the columns that are required.

    Parquet files with the same schema as the dataset are read batch by batch. For all other
    datasets, which have filters, unions, or other formats or schemas, Arrow reads several Parquet
    row groups ahead, or up to 1 GB for other formats.
    """

    kind = "the dataset"
    remedy = "check that no file is damaged or truncated and that all files have the same columns"

    @staticmethod
    def without_dictionaries(table: Any) -> Any:
        """Return a pyarrow table with its dictionary-encoded columns decoded."""
        return decode_dictionaries(table)

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.name_columns(dataset.schema.names)

    def _count(self) -> int:
        return int(self._dataset.count_rows())

    def _empty(self) -> Any:
        return decode_dictionaries(self._dataset.schema.empty_table())

    @property
    def _is_parquet(self) -> bool:
        """Whether the dataset consists of Parquet files."""
        parquet_format = optional_imports.pyarrow().dataset.ParquetFileFormat
        return isinstance(getattr(self._dataset, "format", None), parquet_format)

    @cached_property
    def _files(self) -> list[Any]:
        """Parquet files of the dataset, if it consists of entire files with the same schema.

        If the dataset is filtered or has other formats or schemas, the list is empty.
        """
        if not self._is_parquet:
            return []
        files, failure = call_silently(lambda: list(self._dataset.get_fragments()))
        if failure is not None:  # a filtered dataset cannot list its fragments
            return []
        return files if all(has_schema(file, self._dataset.schema) for file in files) else []

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        """Yield tables with these columns, file by file if possible, or else by Arrow's scanner."""
        pa = optional_imports.pyarrow()
        names = self.names_of(columns)
        if self._files:
            for file in self._files:
                yield from read_batches(file, names, self._dataset.schema)
            return
        # the smallest readahead that Arrow accepts limits memory use
        options: dict[str, Any] = {
            "batch_size": CHUNK_ROWS,
            "batch_readahead": 2,
            "fragment_readahead": 1,
        }
        if self._is_parquet:
            options["fragment_scan_options"] = pa.dataset.ParquetFragmentScanOptions(
                use_buffered_stream=True, pre_buffer=False
            )
        for batch in self._dataset.scanner(columns=names, **options).to_batches():
            yield decode_dictionaries(pa.Table.from_batches([batch]))

    def _take(self, columns: Sequence[int], positions: Codes) -> Iterator[Any]:
        """Yield tables that together contain the rows at non-decreasing positions.

        If the dataset consists of plain files, only the row groups that contain these rows are
        read.
        """
        if not self._files:
            yield from super()._take(columns, positions)
            return
        names, stop = self.names_of(columns), 0
        for file in self._files:
            for i, row_group in enumerate(file.row_groups):
                start, stop = stop, stop + row_group.num_rows
                first, last = np.searchsorted(positions, (start, stop))
                if first < last:  # this row group contains a requested position
                    tables = read_batches(file, names, self._dataset.schema, i)
                    yield from pick_from_tables(tables, positions, start)


class ParquetReader(DatasetReader):
    """Reader of Parquet files, given as a path, a glob, a directory or a list of files.

    Parameters
    ----------
    source : path or list of paths
        Files. Folder names like `year=2024/` become columns.
    """

    kind = "the Parquet files"

    def __init__(self, source: Any) -> None:
        ds = optional_imports.pyarrow().dataset
        paths = resolve_paths(source)
        text_files = [path for path in paths if is_text_file(path)]
        if text_files:
            raise ReadError(
                f"A path must be that of Parquet files, but {text_files[0]} is a text file. Read "
                "CSV files through DuckDB and declare the types of the columns, as in "
                "open_rows(\"select * from read_csv('people.csv', columns={'age': 'BIGINT', "
                "'job': 'VARCHAR'})\", connection=duckdb.connect())."
            )
        path_or_paths = paths if len(paths) > 1 else paths[0]
        dataset = self.reading(ds.dataset, path_or_paths, **DATASET_OPTIONS)
        for file in dataset.get_fragments():
            self._check_file(file, dataset.schema)
        super().__init__(dataset)

    def _check_file(self, file: Any, schema: Any) -> None:
        """Raise ReadError if a file has a different schema.

        Without this check, Arrow would silently fill missing columns with nulls and cast types.
        """
        is_equal, failure = call_silently(has_schema, file, schema)
        if failure is not None:
            raise ReadError(
                f"The Parquet file {file.path} is damaged or truncated. Write it again."
            )
        if not is_equal:
            raise ReadError(
                "All Parquet files must have the same columns and types as the first file, but the "
                f"columns of {file.path} differ. Write this file again with the same schema."
            )


class RecordBatchesReader(RowReader):
    """Reader of Arrow record batches.

    Parameters
    ----------
    source : list or callable
        Record batches, or a function that returns a new iterator over all batches on each call.
    """

    kind = "the record batches"
    remedy = "check that every iteration returns all batches, with the same columns and types"

    def __init__(self, source: Any) -> None:
        if isinstance(source, Iterator) or is_instance(source, "pyarrow", "RecordBatchReader"):
            raise ValueError(ONE_SHOT)
        self._source, self._last_iterator = source, None
        self._schema = self.reading(self._first_batch).schema
        self.name_columns(self._schema.names)

    def _batches(self) -> Iterator[Any]:
        """Yield all record batches of a new pass over the rows."""
        batches = iter(self._source() if callable(self._source) else self._source)
        if batches is self._last_iterator:
            raise ReadError(ONE_SHOT)
        self._last_iterator = batches
        for batch in batches:
            if not is_instance(batch, "pyarrow", "RecordBatch", "Table"):
                raise ReadError(
                    "Record batches must be pyarrow.RecordBatch or pyarrow.Table; got "
                    f"{type(batch).__name__}."
                )
            yield batch

    def _first_batch(self) -> Any:
        """Return the first record batch, whose schema all other batches must share."""
        for batch in self._batches():
            return batch
        raise ReadError("At least one record batch is required, but it may have no rows.")

    def _count(self) -> int:
        return sum(batch.num_rows for batch in self._batches())

    def _empty(self) -> Any:
        return decode_dictionaries(self._schema.empty_table())

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        """Yield one table per record batch, with the schema of the first batch."""
        pa = optional_imports.pyarrow()
        for batch in self._batches():
            plain_empty = decode_dictionaries(batch.schema.empty_table())
            if not plain_empty.schema.equals(self._empty().schema):
                raise ReadError(
                    "All record batches must have the columns of the first batch, in the same "
                    "order and with the same types. Convert them, for example with "
                    "Table.cast(schema)."
                )
            table = pa.table(batch) if is_instance(batch, "pyarrow", "RecordBatch") else batch
            # a table without columns has no rows, so at least one column is selected
            yield decode_dictionaries(table.select(list(columns) or [0]))


class ArrowStreamReader(RowReader):
    """Reader of an object that returns a new Arrow stream of all rows on every call.

    Streams are read batch by batch. The object has one of the methods in `STREAM_METHODS`. A stream
    that can be read only once is detected in the second pass, in which its rows are missing.
    """

    kind = "the Arrow stream"
    remedy = (
        "try to read it on its own, and if it is a stream that can be read only once, write it to "
        "a Parquet file first"
    )
    remedy_if_changed = (
        "make sure that nothing writes to it during a fit, and if it is a stream that can be read "
        "only once, write it to a Parquet file first"
    )

    def __init__(self, source: Any) -> None:
        self._source = source
        self._schema = self.reading(self._read_schema)
        self.name_columns(self._schema.names)

    @property
    def ordered(self) -> bool:
        """False, since multithreaded or distributed engines guarantee no order of rows."""
        return False

    def _read_schema(self) -> Any:
        """Return the schema of the tables that `_read` yields, with plain types in all columns."""
        with contextlib.closing(self._open(None)) as batches:
            return plain_schema(batches.schema)

    def _open(self, names: Sequence[str] | None) -> Any:
        """Return a new `pyarrow.RecordBatchReader` with at least these columns, or all for None."""
        if hasattr(type(self._source), "to_pyarrow_batches"):
            return self._source.to_pyarrow_batches()
        return optional_imports.pyarrow().RecordBatchReader.from_stream(self._source)

    def _count(self) -> int:
        with contextlib.closing(self._open(None)) as batches:
            return sum(batch.num_rows for batch in batches)

    def _empty(self) -> Any:
        return self._schema.empty_table()

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        """Yield one table per record batch, with the types of `empty`."""
        pa = optional_imports.pyarrow()
        # a table without columns has no rows, so at least one column is selected
        names = self.names_of(columns or [0])
        fields = [self._schema.field(name) for name in names]
        schema = pa.schema(fields)
        with contextlib.closing(self._open(names)) as batches:
            for batch in batches:
                yield conform_table(pa.Table.from_batches([batch]), schema, self.kind)


class IbisReader(ArrowStreamReader):
    """Reader of an ibis table or column, which runs the query once for each pass.

    The engine counts the rows, and returns only the columns that a pass requires.
    """

    kind = "the ibis table"
    remedy = "try to run its query on its own"
    remedy_if_changed = RowReader.remedy_if_changed

    def __init__(self, expression: Any) -> None:
        super().__init__(expression.as_table())

    def _read_schema(self) -> Any:
        return plain_schema(self._source.schema().to_pyarrow())

    def _open(self, names: Sequence[str] | None) -> Any:
        table = self._source if names is None else self._source.select(*names)
        return table.to_pyarrow_batches(chunk_size=CHUNK_ROWS)

    def _count(self) -> int:
        return int(self._source.count().execute())


STREAM_METHODS = ("to_pyarrow_batches", "__arrow_c_stream__")
"""Methods in ibis and in the Arrow PyCapsule interface that return Arrow streams.

See https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html.
"""


def has_arrow_stream(candidate: Any) -> bool:
    """Indicate whether an object returns Arrow streams and is not a frame or series in memory."""
    has_method = any(hasattr(type(candidate), method) for method in STREAM_METHODS)
    return has_method and not is_eager(candidate)


def plain_schema(schema: Any) -> Any:
    """Return a pyarrow schema with nullable columns, no dictionaries, and a single text type."""
    pa = optional_imports.pyarrow()
    types = map(value_type, schema.types)
    plain_types = (
        pa.string() if is_text(type_) or pa.types.is_string_view(type_) else type_
        for type_ in types
    )
    return pa.schema(list(zip(schema.names, plain_types, strict=True)))


def conform_table(table: Any, schema: Any, reader_kind: str) -> Any:
    """Return the columns of a pyarrow table that are in a plain schema, with the schema's types.

    Raise ReadError if types differ in anything but text and dictionary encodings.
    """
    decoded = decode_dictionaries(table.select(schema.names))
    if plain_schema(decoded.schema) != schema:
        raise ReadError(
            f"Every batch of {reader_kind} must have the declared column types, but one batch has "
            "other types. Convert the columns in the query."
        )
    return decoded.cast(schema)


def has_schema(file: Any, schema: Any) -> bool:
    """Indicate whether a Parquet file has the same schema as its dataset.

    Names of folders define columns, and dictionary-encoded columns equal plain ones.
    """
    expected = {field.name: value_type(field.type) for field in schema}
    actual = {name: expected.get(name) for name in folder_values(file)}
    actual |= {field.name: value_type(field.type) for field in file.physical_schema}
    return actual == expected


def folder_values(file: Any) -> dict[str, Any]:
    """Return the column values that a file's folder names define, as in ``year=2024/``."""
    ds = optional_imports.pyarrow().dataset
    return ds.get_partition_keys(file.partition_expression)


def read_batches(
    file: Any, names: list[str], schema: Any, row_group: int | None = None
) -> Generator[Any, None, None]:
    """Yield the rows of a Parquet file as pyarrow tables, with one batch at a time in memory.

    Text is dictionary-encoded with the same type for all files, since most files store encoded
    text.

    Parameters
    ----------
    names : list of str
        Names of the columns.
    schema : pyarrow.Schema
        Schema of the dataset.
    row_group : int, optional
        Index of the row group to read. By default, all of them are read.
    """
    pa = optional_imports.pyarrow()
    from pyarrow.parquet import ParquetFile

    constants = {name: value for name, value in folder_values(file).items() if name in names}
    stored_names = [name for name in names if name not in constants]
    types = {name: value_type(schema.field(name).type) for name in names}
    dictionary_types = {
        name: pa.dictionary(pa.int32(), types[name])
        for name in stored_names
        if is_text(types[name])
    }
    output_schema = pa.schema([(name, dictionary_types.get(name, types[name])) for name in names])
    with file.filesystem.open_input_file(file.path) as source:
        parquet_file = ParquetFile(source, read_dictionary=[*dictionary_types])
        row_groups = range(parquet_file.num_row_groups) if row_group is None else [row_group]
        for batch in chain.from_iterable(
            # each row group has its own iterator, since an iterator keeps all data that it has read
            parquet_file.iter_batches(CHUNK_ROWS, row_groups=[i], columns=stored_names)
            for i in row_groups
        ):
            table = pa.Table.from_batches([batch])
            for name, value in constants.items():
                column = pa.repeat(pa.scalar(value, types[name]), len(table))
                table = table.append_column(name, column)
            table = table.select(names)
            actual_types = map(value_type, table.schema.types)
            if not all(map(_is_same_type, types.values(), actual_types)):
                raise ReadError(
                    f"Parquet files must not change during a fit, but the columns of {file.path} "
                    "have changed. Make sure that nothing writes to this file."
                )
            yield table.cast(output_schema)


def _is_same_type(first: Any, second: Any) -> bool:
    """Indicate whether two Arrow types are equal, treating all text types as equal."""
    return bool(first == second or (is_text(first) and is_text(second)))


def value_type(arrow_type: Any) -> Any:
    """Return the value type of an Arrow type that may be dictionary-encoded."""
    types = optional_imports.pyarrow().types
    return arrow_type.value_type if types.is_dictionary(arrow_type) else arrow_type


def is_text(arrow_type: Any) -> bool:
    """Indicate whether an Arrow type is a text type."""
    types = optional_imports.pyarrow().types
    return bool(types.is_string(arrow_type) or types.is_large_string(arrow_type))


def decode_dictionaries(table: Any) -> Any:
    """Return a pyarrow table with its dictionary-encoded columns decoded.

    A dictionary lists values of private rows, so functions of other rows must not receive it.
    """
    pa = optional_imports.pyarrow()
    for position, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            decoded = table.column(position).cast(value_type(field.type))
            table = table.set_column(position, field.name, decoded)
    return table


def is_path(source: Any) -> bool:
    """Indicate whether an object is a file path, as a string or a `pathlib.Path`."""
    return isinstance(source, str | os.PathLike)


SQL_QUERY = re.compile(r"\s*(select|with|from)\s", re.IGNORECASE)
"""Beginning of an SQL query of DuckDB."""


def is_text_file(path: str) -> bool:
    """Indicate whether a path is that of a CSV or text file, possibly compressed."""
    name = path.lower().removesuffix(".gz").removesuffix(".zst")
    return name.endswith((".csv", ".tsv", ".txt"))


def resolve_paths(source: Any) -> list[str]:
    """Expand globs, and return the paths of files or the path of a single directory."""
    paths: list[str] = []
    for path in map(os.fspath, [source] if is_path(source) else source):
        is_exact = "://" in path or os.path.exists(path)
        matches = [path] if is_exact else sorted(glob.glob(path, recursive=True))
        if not matches and SQL_QUERY.match(path):
            raise ValueError(
                "source must be a path if no connection is given, but it is an SQL query. Pass the "
                "DuckDB connection as connection=."
            )
        if not matches:
            raise FileNotFoundError(f"No Parquet file was found at {path!r}.")
        paths += matches
    if len(paths) > 1 and any(map(os.path.isdir, paths)):
        raise ValueError(
            "If several paths are given, each must be a file, but one of them is a directory. Open "
            "the directory alone, or pass its files, as in 'people/*.parquet'."
        )
    return paths


ORDER_PRESERVING_STEPS = {
    *("PROJECTION", "FILTER", "LIMIT", "STREAMING_LIMIT", "UNION", "STREAMING_WINDOW"),
    *("SEQ_SCAN", "TABLE_SCAN", "COLUMN_DATA_SCAN", "DUMMY_SCAN", "EMPTY_RESULT", "RANGE"),
    *("PARQUET_SCAN", "READ_PARQUET", "CSV_SCAN", "READ_CSV", "READ_CSV_AUTO"),
    *("PANDAS_SCAN", "ARROW_SCAN", "PYTHON_ARROW_SCAN"),
}
"""Steps of a query plan that, according to DuckDB's documentation, preserve the order of rows.

See https://duckdb.org/docs/stable/sql/dialect/order_preservation. All other steps are assumed to
change the order.
"""


class DuckDBReader(RowReader):
    """Reader of a DuckDB relation, which runs and streams the query once for each pass."""

    kind = "the DuckDB relation"
    remedy = "try to run its query on its own"

    def __init__(self, relation: Any) -> None:
        self._relation = relation
        self.name_columns(relation.columns)

    @cached_property
    def ordered(self) -> bool:
        """Whether every step of the query preserves the order of the rows."""
        return bool(self.reading(self._keeps_order))

    def _keeps_order(self) -> bool:
        """Indicate whether the settings and the query plan preserve the order of rows."""
        setting = "select current_setting('preserve_insertion_order')"
        ((keeps_insertion_order,),) = self._relation.query("rows_", setting).fetchall()
        if not keeps_insertion_order:
            return False
        explanation = self._relation.query("rows_", "explain (format json) from rows_")
        if explanation is None:  # DuckDB 1 does not show a plan here
            return False
        _, plan = explanation.fetchall()[-1]  # (name of the plan, plan as JSON)
        steps = set(_step_names(json.loads(plan)))
        return steps <= ORDER_PRESERVING_STEPS

    def _count(self) -> int:
        ((n_rows,),) = self._relation.aggregate("count(*)").fetchall()
        return int(n_rows)

    def _empty(self) -> Any:
        return self._relation.limit(0).to_arrow_table()

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        """Yield one table for each Arrow batch of the streamed query."""
        pa = optional_imports.pyarrow()
        quoted = ('"' + name.replace('"', '""') + '"' for name in self.names_of(columns))
        # a relation without columns has no rows, so all columns are read if none is requested
        relation = self._relation.project(", ".join(quoted)) if columns else self._relation
        # an open reader would block the connection
        with relation.to_arrow_reader(CHUNK_ROWS) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])


def query(sql: str, connection: Any) -> DuckDBReader:
    """Return a reader of the rows returned by an SQL query on a DuckDB connection."""
    relation = DuckDBReader.reading(connection.sql, sql)
    if relation is None:
        raise ValueError(
            "The SQL must be a query that returns rows, such as 'select * from people'."
        )
    return DuckDBReader(relation)


def _step_names(plan: Any) -> Iterator[str]:
    """Yield the names of all steps in a DuckDB query plan, which is a tree."""
    for step in plan:
        yield step["name"].strip()
        yield from _step_names(step.get("children", ()))


ORDER_PRESERVING_PREFIXES = (
    *("Parquet SCAN", "Csv SCAN", "NDJson SCAN", "Ipc SCAN", "DF "),
    *("PROJECT", "ESTIMATED ROWS:", "SELECT ", "FILTER ", "FROM", "WITH_COLUMNS:", "["),
    *("SLICE[", "ROW_INDEX:"),
)
"""Prefixes of those lines in a query plan whose steps preserve the order of rows. These steps are
scans, filters and column expressions. All other steps are assumed to change the order.
"""


class PolarsReader(RowReader):
    """Reader of a `polars.LazyFrame`, which runs and streams the query once for each pass."""

    kind = "the lazy frame"
    remedy = "try to collect it on its own"

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.name_columns(self.reading(frame.collect_schema).names())

    @cached_property
    def ordered(self) -> bool:
        """Whether all query steps preserve the row order, which joins and groups may change."""
        plan = self.reading(self._frame.explain, optimized=False)
        lines = plan.splitlines()
        return all(line.strip().startswith(ORDER_PRESERVING_PREFIXES) for line in lines)

    def _count(self) -> int:
        """Count the rows with the streaming engine."""
        import polars as pl

        return int(self._frame.select(pl.len()).collect(engine="streaming").item())

    def _empty(self) -> Any:
        return self._frame.head(0).collect()

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        """Yield one frame for each batch of the streamed query."""
        frame = self._frame.select(self.names_of(columns)) if columns else self._frame
        yield from frame.collect_batches(chunk_size=CHUNK_ROWS, maintain_order=True)
