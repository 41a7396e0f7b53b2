"""Parquet files and other datasets of pyarrow, and record batches from anywhere."""

from __future__ import annotations

import glob
import os
from collections.abc import Generator, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.sources import optional_imports
from skpublicdp.data.sources.reader import (
    CHUNK_ROWS,
    RowReader,
    check_distinct_names,
    is_instance,
    pick_from_tables,
)
from skpublicdp.exceptions import ReadError

FILES = {"format": "parquet", "partitioning": "hive"}

ONE_SHOT = (
    "Rows are read in several passes, so record batches must come as a list or as a function that "
    "returns a new iterator each time; got an iterator, which can be read only once."
)


class DatasetReader(RowReader):
    """A `pyarrow.dataset.Dataset`: columns are read as they are needed.

    Plain Parquet is read batch by batch. Of whatever else is there (filters, unions, files of
    other formats or schemas) Arrow reads ahead: several row groups, or up to 1 GB of other formats.
    """

    kind = "the dataset"
    remedy = "check that no file is damaged or cut short and that all have the same columns"

    @staticmethod
    def without_dictionaries(table: Any) -> Any:
        """Return a table without dictionaries."""
        return decode_dictionaries(table)

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.names = tuple(dataset.schema.names)
        self.n_columns = len(self.names)
        check_distinct_names(self.names, self.kind)

    def _count(self) -> int:
        return int(self._dataset.count_rows())

    def _empty(self) -> Any:
        return decode_dictionaries(self._dataset.schema.empty_table())

    @property
    def _parquet(self) -> bool:
        kind = optional_imports.pyarrow().dataset.ParquetFileFormat
        return isinstance(getattr(self._dataset, "format", None), kind)

    @cached_property
    def _files(self) -> list[Any]:
        """The Parquet files whose rows are all the rows; none if that is not so."""
        if not self._parquet:
            return []
        files, filtered = call_silently(lambda: list(self._dataset.get_fragments()))
        if filtered is not None:
            return []
        return files if all(has_schema(file, self._dataset.schema) for file in files) else []

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        assert self.names is not None
        pa = optional_imports.pyarrow()
        names = [self.names[c] for c in columns]
        if self._files:
            for file in self._files:
                yield from batches_of(file, names, self._dataset.schema)
            return
        # as little ahead as there is a way to say
        options: dict[str, Any] = {
            "batch_size": CHUNK_ROWS,
            "batch_readahead": 2,
            "fragment_readahead": 1,
        }
        if self._parquet:
            options["fragment_scan_options"] = pa.dataset.ParquetFragmentScanOptions(
                use_buffered_stream=True, pre_buffer=False
            )
        for batch in self._dataset.scanner(columns=names, **options).to_batches():
            yield decode_dictionaries(pa.Table.from_batches([batch]))

    def _take(self, columns: Sequence[int], positions: NDArray[np.intp]) -> Iterator[Any]:
        """Read only the row groups of plain Parquet that hold some of the rows."""
        if not self._files:
            yield from super()._take(columns, positions)
            return
        assert self.names is not None
        names, end = [self.names[c] for c in columns], 0
        for file in self._files:
            for number, group in enumerate(file.row_groups):
                start, end = end, end + group.num_rows
                if np.searchsorted(positions, start) < np.searchsorted(positions, end):
                    tables = batches_of(file, names, self._dataset.schema, number)
                    yield from pick_from_tables(tables, positions, start)


class ParquetReader(DatasetReader):
    """Parquet files: a path, a glob, a directory or a list of files.

    Parameters
    ----------
    source : path or list of paths
        A directory is read with the columns that its folders are named for (`year=2024/`).
    """

    kind = "the Parquet files"

    def __init__(self, source: Any) -> None:
        ds = optional_imports.pyarrow().dataset
        paths = resolve_paths(source)
        dataset = self.reading(ds.dataset, paths if len(paths) > 1 else paths[0], **FILES)
        for fragment in dataset.get_fragments():
            self._check(fragment, dataset.schema)
        super().__init__(dataset)

    def _check(self, fragment: Any, schema: Any) -> None:
        """Arrow fills columns that a file lacks, and casts types, without a word."""
        same, failure = call_silently(has_schema, fragment, schema)
        if failure is not None:
            raise ReadError(
                f"The Parquet file {fragment.path} must be readable; it is damaged or cut short, "
                "so write it again."
            )
        if not same:
            raise ReadError(
                f"Parquet files must all have the columns of the first one, in the same types; "
                f"those of {fragment.path} differ, so write it again with the same schema."
            )


class RecordBatchesReader(RowReader):
    """Arrow record batches, from a list or from a function that returns a new iterator.

    Parameters
    ----------
    source : list or callable
        As described.
    """

    kind = "the record batches"
    remedy = "check that every iteration gives all batches, with the same columns and types"

    def __init__(self, source: Any) -> None:
        if isinstance(source, Iterator) or is_instance(source, "pyarrow", "RecordBatchReader"):
            raise ValueError(ONE_SHOT)
        self._source, self._last = source, None
        first = self.reading(self._first)
        self._schema = first.schema
        self.names = tuple(self._schema.names)
        self.n_columns = len(self.names)
        check_distinct_names(self.names, self.kind)

    def _batches(self) -> Iterator[Any]:
        batches = iter(self._source() if callable(self._source) else self._source)
        if batches is self._last:
            raise ReadError(ONE_SHOT)
        self._last = batches
        for batch in batches:
            if not is_instance(batch, "pyarrow", "RecordBatch", "Table"):
                raise ReadError(
                    "Record batches must be pyarrow.RecordBatch or pyarrow.Table; got "
                    f"{type(batch).__name__}."
                )
            yield batch

    def _first(self) -> Any:
        for batch in self._batches():
            return batch
        raise ReadError("Record batches must be at least one, which may be without rows.")

    def _count(self) -> int:
        return sum(batch.num_rows for batch in self._batches())

    def _empty(self) -> Any:
        return decode_dictionaries(self._schema.empty_table())

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        pa = optional_imports.pyarrow()
        for batch in self._batches():
            if not same_columns(batch.schema, self._schema):
                raise ReadError(
                    "Record batches must all have the columns of the first one, in its order and "
                    "types; make them the same, for example by Table.cast(schema)."
                )
            table = pa.table(batch) if is_instance(batch, "pyarrow", "RecordBatch") else batch
            yield decode_dictionaries(
                table.select(list(columns) or [0])
            )  # a table of no columns has no rows


def has_schema(file: Any, schema: Any) -> bool:
    """Indicate whether a file, with the columns of its folders, has a given schema."""
    wanted = {field.name: value_type(field.type) for field in schema}
    given = {field.name: value_type(field.type) for field in file.physical_schema}
    return {**{name: wanted.get(name) for name in folders(file)}, **given} == wanted


def folders(file: Any) -> dict[str, Any]:
    """Return the columns that folders are named for, and their value in a file."""
    ds = optional_imports.pyarrow().dataset
    keys: dict[str, Any] = ds.get_partition_keys(file.partition_expression)
    return keys


def batches_of(
    file: Any, names: list[str], schema: Any, only: int | None = None
) -> Generator[Any, None, None]:
    """Yield the rows of a Parquet file, or of one row group, of which one batch is in memory.

    Text comes in dictionaries of one type, whichever type files have: most hold it like this.
    """
    pa = optional_imports.pyarrow()
    from pyarrow.parquet import ParquetFile

    constant = {name: value for name, value in folders(file).items() if name in names}
    own = [name for name in names if name not in constant]
    kinds = {name: value_type(schema.field(name).type) for name in names}
    listed = {name: pa.dictionary(pa.int32(), kinds[name]) for name in own if is_text(kinds[name])}
    wanted = pa.schema([(name, listed.get(name, kinds[name])) for name in names])
    with file.filesystem.open_input_file(file.path) as source:
        opened = ParquetFile(source, read_dictionary=[*listed])
        for batch in chain.from_iterable(
            # what was read of a row group is held as long as its iterator
            opened.iter_batches(CHUNK_ROWS, row_groups=[group], columns=own)
            for group in (range(opened.num_row_groups) if only is None else [only])
        ):
            table = pa.Table.from_batches([batch])
            for name, value in constant.items():
                same = pa.repeat(pa.scalar(value, kinds[name]), len(table))
                table = table.append_column(name, same)
            table = table.select(names)
            found = zip(kinds.values(), map(value_type, table.schema.types), strict=True)
            if not all(kind == own or (is_text(kind) and is_text(own)) for kind, own in found):
                raise ReadError(
                    f"Parquet files must not change during a fit; the columns of {file.path} did."
                )
            yield table.cast(wanted)


def value_type(kind: Any) -> Any:
    """Return the type of the values, also of those in a dictionary."""
    types = optional_imports.pyarrow().types
    return kind.value_type if types.is_dictionary(kind) else kind


def is_text(kind: Any) -> bool:
    """Indicate whether an Arrow type is text."""
    types = optional_imports.pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def decode_dictionaries(table: Any) -> Any:
    """Return a table without dictionaries: those of a stream list what private rows hold."""
    pa = optional_imports.pyarrow()
    for position, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            decoded = table.column(position).cast(value_type(field.type))
            table = table.set_column(position, field.name, decoded)
    return table


def same_columns(schema: Any, first: Any) -> bool:
    """Indicate whether names and types are equal, after dictionaries are decoded."""
    return bool(
        decode_dictionaries(schema.empty_table()).schema.equals(
            decode_dictionaries(first.empty_table()).schema
        )
    )


def is_path(source: Any) -> bool:
    """Indicate whether the source is a path."""
    return isinstance(source, str | os.PathLike)


def resolve_paths(source: Any) -> list[str]:
    """Return the paths of files, or of one directory."""
    paths: list[str] = []
    for path in map(os.fspath, [source] if is_path(source) else source):
        exact = "://" in path or os.path.exists(path)
        matches = [path] if exact else sorted(glob.glob(path, recursive=True))
        if not matches:
            raise FileNotFoundError(
                f"Parquet files must be where the path says; there is nothing at {path!r}."
            )
        paths += matches
    if len(paths) > 1 and any(map(os.path.isdir, paths)):
        raise ValueError(
            "Several paths must all be files; got a directory among them, so open it alone or "
            "name its files, as in 'people/*.parquet'."
        )
    return paths
