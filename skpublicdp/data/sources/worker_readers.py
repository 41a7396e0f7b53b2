"""Readers of Dask and Spark, which run functions where the partitions are."""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.sources import optional_imports
from skpublicdp.data.sources.arrow_readers import conform_table, plain_schema
from skpublicdp.data.sources.reader import (
    END,
    Chunk,
    ChunkTask,
    MemoryReader,
    RawChunk,
    Result,
    SourceColumn,
    WorkerReader,
    check_distinct_names,
    is_instance,
    rechunk,
    rows_per_chunk,
    sum_tables,
    text_names,
)
from skpublicdp.data.tables import pick_columns, slice_rows, table_height, table_width
from skpublicdp.exceptions import ReadError

FAN_IN = 8
"""Number of partial sums that a single Dask task adds up in a tree reduction."""


class DaskReader(WorkerReader):
    """Reader of a Dask DataFrame, Series or Array, partition by partition.

    Parameters
    ----------
    collection : dask.dataframe.DataFrame, dask.dataframe.Series or dask.array.Array
        Collection that yields the same rows in the same order whenever it is computed.
    """

    kind = "the Dask collection"
    remedy = "try to compute it on its own, and check the logs of the workers"

    def __init__(self, collection: Any) -> None:
        self.flat = collection.ndim == 1
        self._array = is_instance(collection, "dask.array", "Array")
        self.names = None
        self.n_columns = 1 if self.flat else collection.shape[1]
        if self._array and not self.flat:
            collection = collection.rechunk({1: -1})  # all columns in one partition
        if self._array and not np.isnan(collection.chunks[0]).any():
            self.lengths = tuple(map(int, collection.chunks[0]))
        self._collection = collection
        if not self._array and not self.flat:
            check_distinct_names(collection.columns, self.kind)
            self.names = text_names(collection.columns)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Number of rows in each partition, counted once using the first column."""
        (lengths,) = self._count_partitions([self])
        return lengths

    def _count(self) -> int:
        return sum(self.lengths)

    def count_with(self, labels: DaskReader) -> None:
        """Count the rows of two readers in one pass if they have the same number of partitions.

        Readers that have already been counted are not counted again.
        """
        readers = [self, labels]
        is_counted = any("lengths" in vars(reader) for reader in readers)
        if not is_counted and self._collection.npartitions == labels._collection.npartitions:
            self.lengths, labels.lengths = self._count_partitions(readers)

    def _count_partitions(self, readers: list[DaskReader]) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of rows of all partitions of each reader, counted in one pass.

        All readers must have the same number of partitions.
        """
        partitions = zip(
            *(self.reading(reader._partitions, [0]) for reader in readers), strict=True
        )
        tasks = [_delay(table_heights, *paired) for paired in partitions]
        return zip(*self._results(tasks), strict=True)

    def _partitions(self, columns: Sequence[int]) -> list[Any]:
        """Return the partitions with these columns only, as `Partition` or Dask delayed objects.

        Nothing is computed.
        """
        selected = self._collection
        if self._array:
            selected = selected if self.flat else selected[:, list(columns)]
            # a flat array is not optimized, since Dask 2025.1 would return the key of a persisted
            # array instead of its values
            delayed = selected.to_delayed(optimize_graph=not self.flat)
            return self._embed_graphs(list(np.ravel(delayed)))
        if not self.flat:
            selected = selected[[selected.columns[c] for c in columns]]
        # full optimization by Dask would merge partitions if few columns are read
        partitions = list(selected.simplify().to_delayed(optimize_graph=False))
        if len(partitions) != self._collection.npartitions:
            raise ReadError(self.changed_message())
        return self._embed_graphs(partitions)

    def _embed_graphs(self, partitions: list[Any]) -> list[Any]:
        """Return each delayed partition as a `Partition` that contains the tasks that compute it.

        The delayed partitions are returned unchanged if workers already have them in memory, or if
        two partitions depend on the same task, which would otherwise be computed twice.
        """
        distributed = sys.modules.get("distributed")
        if distributed is not None and distributed.futures_of(self._collection):
            return partitions
        get_dependencies = optional_imports.dask().core.get_dependencies
        graphs = {id(partition.dask): partition.dask for partition in partitions}
        tasks = {key: task for graph in graphs.values() for key, task in dict(graph).items()}
        embedded = [Partition({}, partition.key) for partition in partitions]
        visited: set[Any] = set()  # keys of the tasks of all partitions
        for partition in embedded:
            # breadth-first search over the tasks on which the partition depends
            frontier = {partition.key}
            while frontier:
                if frontier & visited:  # the task belongs to another partition
                    return partitions
                visited |= frontier
                partition.graph.update((key, tasks[key]) for key in frontier)
                dependencies = (get_dependencies(tasks, key) for key in frontier)
                frontier = set().union(*dependencies) - partition.graph.keys()
        return embedded

    @cached_property
    def _empty_table(self) -> Any:
        """Empty table in which all columns have their declared types.

        A categorical column without declared categories has dtype object, since its categories come
        from private rows.
        """
        if self._array:
            return np.empty((0, *self._collection.shape[1:]), self._collection.dtype)
        import pandas as pd

        if self.flat:
            dtype = declared_dtype(self._collection)
            return pd.Series([], dtype=dtype, name=self._collection.name)
        columns = {
            name: pd.Series([], dtype=declared_dtype(self._collection[name]))
            for name in self._collection.columns
        }
        return pd.DataFrame(columns)

    def _empty(self) -> Any:
        return self._empty_table

    def _template(self, columns: Sequence[int]) -> Any:
        """Return an empty table with these columns, for comparison with computed partitions."""
        return self._empty_table if self.flat else pick_columns(self._empty_table, columns)

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        """Yield the non-empty partitions, which workers compute and send to this process."""
        template = self._template(columns)
        partitions = zip(self._partitions(columns), self.lengths, strict=True)
        tasks = [
            _delay(check_partition, partition, template, length)
            for partition, length in partitions
            if length
        ]
        for table, failure in self._results(tasks):
            if failure is not None:
                raise failure
            yield table

    def can_pair(self, labels: SourceColumn | None) -> bool:
        """Indicate whether workers can read labels together with the rows of a partition.

        The labels must be in local memory or partitioned in the same way as the rows.
        """
        if labels is None or isinstance(labels.reader, MemoryReader):
            return True
        return isinstance(labels.reader, DaskReader) and labels.reader.lengths == self.lengths

    def run(
        self, task: ChunkTask, columns: Sequence[int], labels: SourceColumn | None
    ) -> Generator[Result, None, None]:
        """Yield the result of each chunk, as computed by the workers, in the order of the rows."""
        for results in self._results(self._delay_partitions(map_partition, task, columns, labels)):
            yield from results

    def run_sum(
        self, task: ChunkTask, columns: Sequence[int], labels: SourceColumn | None
    ) -> Result:
        """Return (sum, None) for the result tables of all chunks, or (None, exception).

        The workers add up partial sums in a tree, so only one table is sent to this process.
        """
        partial_sums = self._delay_partitions(sum_partition, task, columns, labels)
        while len(partial_sums) > 1:
            starts = range(0, len(partial_sums), FAN_IN)
            groups = [partial_sums[start : start + FAN_IN] for start in starts]
            partial_sums = [_delay(sum_tables, group) for group in groups]
        (total,) = self._results(partial_sums)
        return total

    def _delay_partitions(
        self, function: Any, task: ChunkTask, columns: Sequence[int], labels: SourceColumn | None
    ) -> list[Any]:
        """Return delayed calls of `map_partition` or `sum_partition` on non-empty partitions."""
        # the mask is sent in slices, and the rest of the task only once
        delayed_task = optional_imports.dask().delayed(
            task.with_mask(None, 0), pure=False, traverse=False
        )
        template = self._template(columns)
        starts = [int(start) for start in np.cumsum([0, *self.lengths])]
        label_parts: list[Any] = [None] * len(self.lengths)
        if labels is not None and isinstance(labels.reader, DaskReader):
            label_parts = labels.reader._partitions([labels.position])
        elif labels is not None and isinstance(labels.reader, MemoryReader):
            label_parts = [
                labels.reader.slice_column(labels.position, start, stop)
                for start, stop in pairwise(starts)
            ]
        masks = [
            None if task.mask is None else task.mask[start:stop] for start, stop in pairwise(starts)
        ]
        partitions = zip(
            self._partitions(columns), label_parts, masks, starts[:-1], self.lengths, strict=True
        )
        return [
            _delay(function, delayed_task, partition, y, mask, template, start, length)
            for partition, y, mask, start, length in partitions
            if length
        ]

    def _results(self, tasks: Sequence[Any]) -> Generator[Any, None, None]:
        """Yield the results of delayed tasks in order, while computing a limited number in advance.

        This limit bounds the memory that the results use. The limit is about twice the number of
        threads, which keeps all threads busy.
        """
        client = _client()
        if client is None:
            n_ahead = 2 * (os.cpu_count() or 1)
            for start in range(0, len(tasks), n_ahead):
                batch = tasks[start : start + n_ahead]
                yield from self.reading(optional_imports.dask().compute, *batch)
            return
        n_threads = sum(self.reading(client.nthreads).values())
        n_ahead = 2 + 2 * n_threads
        futures: deque[Any] = deque()
        remaining = iter(tasks)
        try:
            while True:
                # calls are submitted in batches, since one message to the scheduler takes as long
                # as processing thousands of rows
                if 2 * len(futures) <= n_ahead:
                    batch = list(islice(remaining, n_ahead - len(futures)))
                    futures.extend(self.reading(client.compute, batch) if batch else ())
                if not futures:
                    return
                yield self._result(futures.popleft())
        finally:
            for future in futures:
                future.release()

    def _result(self, future: Any) -> Any:
        """Return the result of a Dask future, and release the future."""
        try:
            return self.reading(future.result)
        finally:
            future.release()  # otherwise the scheduler would return a stored failure again


def _client() -> Any:
    """Return the Dask client of a cluster, or None if Dask computes in this process."""
    distributed = sys.modules.get("distributed")
    scheduler = optional_imports.dask().config.get("scheduler", None)
    if distributed is None or scheduler not in (None, "dask.distributed", "distributed"):
        return None
    client, _ = call_silently(distributed.default_client)  # raises an error if there is no client
    return client


class Partition:
    """Partition with a graph of its own, which is computed inside the task that uses it.

    If rows and labels were separate tasks, Dask would send them between workers. `Partition` is a
    plain class because Dask searches tuples and dataclasses for tasks.
    """

    def __init__(self, graph: dict[Any, Any], key: Any) -> None:
        self.graph, self.key = graph, key


def _delay(function: Any, *args: Any) -> Any:
    """Return a delayed call of a function, in which each `Partition` is replaced by its table."""
    delayed = optional_imports.dask().delayed(_call_with_tables, pure=False, traverse=False)
    return delayed(function, *args)


def _call_with_tables(function: Any, *args: Any) -> Any:
    """Return function(*args), where `Partition` arguments are replaced by computed tables."""
    partitions = [arg for arg in args if isinstance(arg, Partition)]
    # both are in one graph, since rows and labels can be columns of the same table
    graph = {key: task for partition in partitions for key, task in partition.graph.items()}
    keys = [partition.key for partition in partitions]
    tables = iter(optional_imports.dask().get(graph, keys))
    return function(*(next(tables) if isinstance(arg, Partition) else arg for arg in args))


def table_heights(*tables: Any) -> tuple[int, ...]:
    """Return the number of rows of each table."""
    return tuple(map(table_height, tables))


def declared_dtype(series: Any) -> Any:
    """Return a Dask column's declared type, or object if its categories come from the rows."""
    is_categorical = getattr(series.dtype, "categories", None) is not None
    if is_categorical and not series.cat.known:
        return np.dtype(object)
    return series.dtype


def check_partition(table: Any, template: Any, length: int) -> Result:
    """Return (partition, None) if the partition has the declared columns, types and length.

    If any of these differ, (None, ReadError) is returned. Categories that the collection does not
    declare are decoded.
    """
    if table_height(table) != length:
        return None, ReadError(
            "A Dask collection must contain the same rows each time it is computed, but the length "
            "of a partition has changed. Write the collection to Parquet files first."
        )
    if table.ndim != template.ndim or not _has_same_kinds(table, template):
        return None, ReadError(
            "Every partition of a Dask collection must have the columns and types declared by the "
            "collection, but one partition has different ones. Pass the correct `meta`, or use "
            "`astype`."
        )
    return _without_undeclared_categories(table, template), None


def _has_same_kinds(table: Any, template: Any) -> bool:
    """Indicate whether a table has the columns of an empty table, with types of the same kinds."""
    if not hasattr(table, "iloc"):
        return _kind_of_dtype(table.dtype) == _kind_of_dtype(template.dtype)
    if table.ndim == 1:
        has_same_kind = _kind_of_dtype(table.dtype) == _kind_of_dtype(template.dtype)
        return table.name == template.name and has_same_kind
    return list(table.columns) == list(template.columns) and all(
        _kind_of_dtype(dtype) == _kind_of_dtype(declared)
        for dtype, declared in zip(table.dtypes, template.dtypes, strict=True)
    )


def _kind_of_dtype(dtype: Any) -> str:
    """Return the kind of a column type: number, boolean, duration, date or other.

    Integers and floats belong to the same kind, since a missing value turns integers into floats.
    """
    if dtype.kind in "iuf":
        return "number"
    return {"b": "boolean", "m": "duration", "M": "date"}.get(dtype.kind, "other")


def _without_undeclared_categories(table: Any, template: Any) -> Any:
    """Convert categorical columns without declared categories to dtype object.

    The conversion is necessary because the categories of a partition depend on its private rows.
    """
    if not hasattr(table, "iloc"):
        return table
    if table.ndim == 1:
        is_undeclared = _is_undeclared_category(table.dtype, template.dtype)
        return table.astype(object) if is_undeclared else table
    dtypes = zip(table.columns, table.dtypes, template.dtypes, strict=True)
    undeclared = [name for name, *pair in dtypes if _is_undeclared_category(*pair)]
    return table.astype(dict.fromkeys(undeclared, object))


def _is_undeclared_category(dtype: Any, declared: Any) -> bool:
    """Indicate whether a column's type is categorical although its declared type is not."""
    return hasattr(dtype, "categories") and not hasattr(declared, "categories")


def _raw_chunks(table: Any, y: Any, start: int) -> Iterator[RawChunk]:
    """Yield the rows of a partition and their labels in chunks, in order to limit memory use."""
    n_chunk_rows, height = rows_per_chunk(table_width(table)), table_height(table)
    for first in range(0, height, n_chunk_rows):
        stop = min(first + n_chunk_rows, height)
        labels = None if y is None else slice_rows(y, first, stop)
        yield slice_rows(table, first, stop), labels, start + first


def map_partition(
    task: ChunkTask, table: Any, y: Any, mask: Any, template: Any, start: int, length: int
) -> list[Result]:
    """Return (result, None) for each chunk of a partition, up to the first (None, exception)."""
    results = []
    task = task.with_mask(mask, start)
    table, failure = check_partition(table, template, length)
    if failure is not None:
        return [(None, failure)]
    for chunk in _raw_chunks(table, y, start):
        result, failure = task(chunk)
        results.append((result, failure))
        if failure is not None:
            break
    return results


def sum_partition(
    task: ChunkTask, table: Any, y: Any, mask: Any, template: Any, start: int, length: int
) -> Result:
    """Return (sum, None) for the tables of all chunks of a partition, or (None, exception)."""
    table, failure = check_partition(table, template, length)
    if failure is not None:
        return None, failure
    return sum_tables(map(task.with_mask(mask, start), _raw_chunks(table, y, start)))


Output = tuple[int, Result]
"""Number of rows in a chunk or a partition, and the result of the function for these rows."""

OUTPUT_SCHEMA = "n_rows long, result binary"
"""Schema of the rows that executors return, in which results are pickled."""


class SparkReader(WorkerReader):
    """Reader of a Spark DataFrame (classic or Spark Connect), using `mapInArrow`.

    Spark may run a task several times, either after a failure or through speculative execution.
    However, Spark returns the output of only one run of each task, so no row is counted twice.
    """

    kind = "the Spark DataFrame"
    remedy = "try to run an action on it, and check the logs of the executors"

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.name_columns(frame.columns)

    @property
    def ordered(self) -> bool:
        """False, since Spark guarantees no order of rows."""
        return False

    @cached_property
    def _schema(self) -> Any:
        """Pyarrow schema of all columns."""
        return plain_schema(self.reading(lambda: self._frame.limit(0).toArrow()).schema)

    def _count(self) -> int:
        return int(self._frame.count())

    def _empty(self) -> Any:
        return self._schema.empty_table()

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        """Yield all rows, in chunks."""
        positions = tuple(range(len(columns)))
        task = ChunkTask(_rows_of, self.without_dictionaries, False, positions, None)
        for table, failure in self.run(task, columns, None):
            if failure is not None:
                raise failure
            yield table

    def can_pair(self, labels: SourceColumn | None) -> bool:
        """Return False for labels from another source, which would need a fixed order of rows."""
        return labels is None

    def run(
        self, task: ChunkTask, columns: Sequence[int], labels: SourceColumn | None
    ) -> Generator[Result, None, None]:
        """Yield the result of each chunk, as computed by the executors, partition by partition."""
        outputs = self.reading(self._map_partitions, partial(map_chunks, task), columns)
        rows = self.reading(outputs.toLocalIterator, prefetchPartitions=True)
        n_read = 0
        while (row := self.reading(next, rows, END)) is not END:
            n_read += row.n_rows
            result, failure = pickle.loads(row.result)
            yield result, failure
            if failure is not None:
                return
        self._check_number(n_read)

    def run_sum(
        self, task: ChunkTask, columns: Sequence[int], labels: SourceColumn | None
    ) -> Result:
        """Return (sum, None) for the result tables of all chunks, or (None, exception).

        Each partition sends a single table to the driver.
        """
        outputs = self.reading(self._map_partitions, partial(sum_chunks, task), columns)
        rows = self.reading(outputs.collect)
        tables = (pickle.loads(row.result) for row in rows)
        total, failure = sum_tables(tables)
        if failure is None:
            self._check_number(sum(row.n_rows for row in rows))
        return total, failure

    def _check_number(self, n_read: int) -> None:
        """Raise ReadError if the number of rows in a pass differs from the earlier count."""
        if n_read != self.n_rows:
            raise ReadError(self.changed_message())

    def _map_partitions(
        self, function: Callable[[Iterator[Any]], Iterable[Output]], columns: Sequence[int]
    ) -> Any:
        """Return a Spark DataFrame with the pickled outputs of a function for each partition.

        Parameters
        ----------
        function : callable
            Function of an iterator of pyarrow tables.
        columns : sequence of int
            Positions of the columns that are read.
        """
        pa = optional_imports.pyarrow()
        # if no columns are requested, one column is still read for all rows
        names = self.names_of(columns or [0])
        fields = [self._schema.field(name) for name in names]
        schema = pa.schema(fields)
        kind = self.kind  # the workers do not get the reader

        def map_batches(batches: Iterator[Any]) -> Iterator[Any]:
            tables = (pa.Table.from_batches([batch]).rename_columns(names) for batch in batches)
            conforming = (conform_table(table, schema, kind) for table in tables)
            for n_rows, result in function(conforming):
                output = {"n_rows": [n_rows], "result": [pickle.dumps(result)]}
                yield pa.record_batch(output)

        quoted = ("`" + name.replace("`", "``") + "`" for name in names)
        # `mapInArrow` looks up names without quoting them
        plain_names = (f"c{position}" for position in range(len(names)))
        frame = self._frame.select(*quoted).toDF(*plain_names)
        return frame.mapInArrow(map_batches, OUTPUT_SCHEMA)


def _rows_of(chunk: Chunk) -> Any:
    """Return the rows of a chunk."""
    return chunk.X


def _outputs(task: ChunkTask, tables: Iterator[Any]) -> Iterator[Output]:
    """Yield the number of rows and the result for each chunk of a partition.

    Chunk positions are relative to the partition, since Spark does not guarantee an order.
    """
    first = next(tables, None)
    if first is None:
        return
    start = 0
    for table in rechunk(chain([first], tables), rows_per_chunk(table_width(first))):
        yield table_height(table), task((table, None, start))
        start += table_height(table)


def map_chunks(task: ChunkTask, tables: Iterator[Any]) -> Iterator[Output]:
    """Yield (number of rows, Result) for each chunk of a partition, up to the first failure."""
    for n_rows, (result, failure) in _outputs(task, tables):
        yield n_rows, (result, failure)
        if failure is not None:
            return


def sum_chunks(task: ChunkTask, tables: Iterator[Any]) -> list[Output]:
    """Return [(number of rows, Result)] for the sum over the chunks of a partition, if any."""
    heights: list[int] = []

    def results() -> Iterator[Result]:
        for n_rows, result in _outputs(task, tables):
            heights.append(n_rows)
            yield result

    total = sum_tables(results())
    return [(sum(heights), total)] if heights else []
