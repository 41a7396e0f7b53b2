"""Read Dask collections: functions run where partitions are, and only results are sent back."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

import numpy as np

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.sources import optional_imports
from skpublicdp.data.sources.chunk_task import ChunkTask, RawChunk, Result, sum_tables
from skpublicdp.data.sources.memory_reader import MemoryReader
from skpublicdp.data.sources.reader import (
    RowReader,
    SourceColumn,
    check_distinct_names,
    is_instance,
    rows_per_chunk,
    text_names,
)
from skpublicdp.data.tables import pick_columns, slice_rows, table_height, table_width
from skpublicdp.exceptions import ReadError

FAN_IN = 8
"""Number of tables that one task of a tree sum adds."""


class DaskReader(RowReader):
    """Reader of a Dask DataFrame, Series or Array, partition by partition.

    Parameters
    ----------
    collection : dask.dataframe.DataFrame, dask.dataframe.Series or dask.array.Array
        It must give the same rows in the same order whenever it is computed.
    """

    kind = "the Dask collection"
    remedy = "compute it by itself and look at the logs of the workers"

    def __init__(self, collection: Any) -> None:
        self.flat = collection.ndim == 1
        self._array = is_instance(collection, "dask.array", "Array")
        self.names = None
        self.n_columns = 1 if self.flat else collection.shape[1]
        if self._array and not self.flat:
            collection = collection.rechunk({1: -1})
        if self._array and not np.isnan(collection.chunks[0]).any():
            self.lengths = tuple(map(int, collection.chunks[0]))
        self._collection = collection
        if not self._array and not self.flat:
            check_distinct_names(collection.columns, self.kind)
            self.names = text_names(collection.columns)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Number of rows of each partition, counted once in the first column."""
        (lengths,) = self._count_partitions([self])
        return lengths

    def _count(self) -> int:
        return sum(self.lengths)

    def count_with(self, labels: DaskReader) -> None:
        """Count the rows of both readers in one pass if they have as many partitions.

        Readers that are counted already are not counted again.
        """
        readers = [self, labels]
        is_counted = any("lengths" in vars(reader) for reader in readers)
        if not is_counted and self._collection.npartitions == labels._collection.npartitions:
            self.lengths, labels.lengths = self._count_partitions(readers)

    def _count_partitions(self, readers: list[DaskReader]) -> Iterator[tuple[int, ...]]:
        """Return an iterator over the partition lengths of each reader, computed together."""
        partitions = zip(
            *(self.reading(reader._partitions, [0]) for reader in readers), strict=True
        )
        tasks = [_delay(table_heights, *paired) for paired in partitions]
        return zip(*self._results(tasks), strict=True)

    def _partitions(self, columns: Sequence[int]) -> list[Any]:
        """Return the partitions of these columns, as `Partition` or as delayed objects of Dask."""
        selected = self._collection
        if self._array:
            selected = selected if self.flat else selected[:, list(columns)]
            # without optimization for a flat array: Dask 2025.1 would return the key of a
            # persisted array in place of its values
            delayed = selected.to_delayed(optimize_graph=not self.flat)
            return self._embed_graphs(list(np.ravel(delayed)))
        if not self.flat:
            selected = selected[[selected.columns[c] for c in columns]]
        # Dask's full optimization would merge partitions when few columns are read
        partitions = list(selected.simplify().to_delayed(optimize_graph=False))
        if len(partitions) != self._collection.npartitions:
            raise ReadError(self.changed_message())
        return self._embed_graphs(partitions)

    def _embed_graphs(self, partitions: list[Any]) -> list[Any]:
        """Return partitions that carry their own graphs, computed by the task that uses them.

        Partitions stay delayed objects if workers hold them in memory, or if their graphs share
        tasks, which would then be computed several times.
        """
        distributed = sys.modules.get("distributed")
        if distributed is not None and distributed.futures_of(self._collection):
            return partitions
        get_dependencies = optional_imports.dask().core.get_dependencies
        graphs = {id(partition.dask): partition.dask for partition in partitions}
        tasks = {key: task for graph in graphs.values() for key, task in dict(graph).items()}
        embedded = [Partition({}, partition.key) for partition in partitions]
        visited: set[Any] = set()
        for partition in embedded:
            frontier = {partition.key}
            while frontier:
                if frontier & visited:
                    return partitions
                visited |= frontier
                partition.graph.update((key, tasks[key]) for key in frontier)
                dependencies = (get_dependencies(tasks, key) for key in frontier)
                frontier = set().union(*dependencies) - partition.graph.keys()
        return embedded

    @cached_property
    def _empty_table(self) -> Any:
        """An empty table with the declared types; undeclared categories come from private rows."""
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
        """Return an empty table with these columns, which partitions are compared with."""
        return self._empty_table if self.flat else pick_columns(self._empty_table, columns)

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        """Yield the non-empty partitions, computed on the workers and sent here."""
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
        """Indicate whether labels are in memory, or are partitioned like the rows."""
        if labels is None or isinstance(labels.reader, MemoryReader):
            return True
        return isinstance(labels.reader, DaskReader) and labels.reader.lengths == self.lengths

    def run(
        self, task: ChunkTask, columns: Sequence[int], labels: SourceColumn | None
    ) -> Generator[Result, None, None]:
        """Yield the result of each chunk in the order of rows, computed on the workers.

        Parameters
        ----------
        task : ChunkTask
            Function of chunks; it must be picklable.
        columns : sequence of int
            Positions of the columns that are read.
        labels : SourceColumn or None
            Labels from another source.
        """
        for results in self._results(self._delay_partitions(map_partition, task, columns, labels)):
            yield from results

    def run_sum(
        self, task: ChunkTask, columns: Sequence[int], labels: SourceColumn | None
    ) -> Result:
        """Return the sum of the result tables, added on the workers in a tree.

        Parameters are as in `run`.
        """
        level = self._delay_partitions(sum_partition, task, columns, labels)
        while len(level) > 1:
            groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
            level = [_delay(sum_tables, group) for group in groups]
        (total,) = self._results(level)
        return total  # type: ignore[no-any-return]

    def _delay_partitions(
        self, function: Any, task: ChunkTask, columns: Sequence[int], labels: SourceColumn | None
    ) -> list[Any]:
        """Return one delayed call of `map_partition` or `sum_partition` per non-empty partition."""
        # the mask is sent in slices, and the rest of the task once
        delayed_task = optional_imports.dask().delayed(
            task.with_mask(None, 0), pure=False, traverse=False
        )
        template = self._template(columns)
        starts = [int(start) for start in np.cumsum([0, *self.lengths])]
        ys: list[Any] = [None] * len(self.lengths)
        if labels is not None and isinstance(labels.reader, DaskReader):
            ys = labels.reader._partitions([labels.position])
        elif labels is not None and isinstance(labels.reader, MemoryReader):
            ys = [
                labels.reader.slice_column(labels.position, start, stop)
                for start, stop in pairwise(starts)
            ]
        masks = [
            None if task.mask is None else task.mask[start:stop] for start, stop in pairwise(starts)
        ]
        partitions = zip(
            self._partitions(columns), ys, masks, starts[:-1], self.lengths, strict=True
        )
        return [
            _delay(function, delayed_task, partition, y, mask, template, start, length)
            for partition, y, mask, start, length in partitions
            if length
        ]

    def _results(self, tasks: Sequence[Any]) -> Generator[Any, None, None]:
        """Yield the results of delayed tasks in order, with a limited number computed ahead."""
        client = _client()
        if client is None:
            n_ahead = 2 * (os.cpu_count() or 1)
            for i in range(0, len(tasks), n_ahead):
                yield from self.reading(optional_imports.dask().compute, *tasks[i : i + n_ahead])
            return
        n_ahead = 2 + 2 * sum(self.reading(client.nthreads).values())
        futures: deque[Any] = deque()
        remaining = iter(tasks)
        try:
            while True:
                # in batches: one message to the scheduler takes as long as thousands of rows
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
        """Return the result of a future, and release the future."""
        try:
            return self.reading(future.result)
        finally:
            future.release()  # the scheduler would otherwise return a stored failure again


def _client() -> Any:
    """Return the client of a cluster if Dask would compute there, otherwise None."""
    distributed = sys.modules.get("distributed")
    scheduler = optional_imports.dask().config.get("scheduler", None)
    if distributed is None or scheduler not in (None, "dask.distributed", "distributed"):
        return None
    client, _ = call_silently(distributed.default_client)  # raises without a client
    return client


class Partition:
    """A partition with its own graph, which is computed inside the task that uses it.

    As tasks of their own, rows and labels would be sent from worker to worker. This is a plain
    class because Dask searches tuples and dataclasses for tasks.
    """

    def __init__(self, graph: dict[Any, Any], key: Any) -> None:
        self.graph, self.key = graph, key


def _delay(function: Any, *args: Any) -> Any:
    """Return a delayed call of a function, where a `Partition` stands for its table."""
    delayed = optional_imports.dask().delayed(_call_with_tables, pure=False, traverse=False)
    return delayed(function, *args)


def _call_with_tables(function: Any, *args: Any) -> Any:
    """Call a function with the computed tables in place of `Partition` arguments."""
    partitions = [arg for arg in args if isinstance(arg, Partition)]
    # in one graph, since rows and labels may be columns of the same table
    graph = {key: task for partition in partitions for key, task in partition.graph.items()}
    keys = [partition.key for partition in partitions]
    tables = iter(optional_imports.dask().get(graph, keys))
    return function(*(next(tables) if isinstance(arg, Partition) else arg for arg in args))


def table_heights(*tables: Any) -> tuple[int, ...]:
    """Return the number of rows of each table."""
    return tuple(map(table_height, tables))


def declared_dtype(series: Any) -> Any:
    """Return the declared type of a column; object if its categories come from its rows."""
    is_categorical = getattr(series.dtype, "categories", None) is not None
    return series.dtype if not is_categorical or series.cat.known else np.dtype(object)


def check_partition(table: Any, template: Any, length: int) -> Result:
    """Return a computed partition if it has the declared columns, types and length.

    Parameters
    ----------
    table : array, frame or series
        The partition.
    template : array, frame or series
        Empty table with the declared columns and types.
    length : int
        Number of rows that was counted.
    """
    if table_height(table) != length:
        return None, ReadError(
            "A Dask collection must hold the same rows whenever it is computed; the length of a "
            "partition has changed, so write it to Parquet files first."
        )
    if table.ndim != template.ndim or not _has_same_kinds(table, template):
        return None, ReadError(
            "Every partition of a Dask collection must have the columns and types that the "
            "collection declares; one has others, so pass the right `meta` or use `astype`."
        )
    return _without_undeclared_categories(table, template), None


def _has_same_kinds(table: Any, template: Any) -> bool:
    """Indicate whether a table has the columns of the template, in types of the same kinds."""
    if not hasattr(table, "iloc"):
        return _kind(table.dtype) == _kind(template.dtype)
    if table.ndim == 1:
        return table.name == template.name and _kind(table.dtype) == _kind(template.dtype)
    return list(table.columns) == list(template.columns) and all(
        _kind(a) == _kind(b) for a, b in zip(table.dtypes, template.dtypes, strict=True)
    )


def _kind(dtype: Any) -> str:
    """Return the kind of a type; integers and floats are one kind.

    A missing value turns integers into floats.
    """
    if dtype.kind in "iuf":
        return "number"
    return dtype.kind if dtype.kind in "bmM" else "other"


def _without_undeclared_categories(table: Any, template: Any) -> Any:
    """Convert categorical columns to objects where the collection declares no categories.

    The categories of one partition depend on its private rows.
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
    """Indicate whether a type is categorical and the declared type is not."""
    return hasattr(dtype, "categories") and not hasattr(declared, "categories")


def _raw_chunks(table: Any, y: Any, start: int) -> Iterator[RawChunk]:
    """Yield the chunks of a partition, which bound the memory of the function."""
    rows, end = rows_per_chunk(table_width(table)), table_height(table)
    for i in range(0, end, rows):
        j = min(i + rows, end)
        yield slice_rows(table, i, j), None if y is None else slice_rows(y, i, j), start + i


def map_partition(
    task: ChunkTask, table: Any, y: Any, mask: Any, template: Any, start: int, length: int
) -> list[Result]:
    """Return the results of the chunks of a partition, up to the first failure.

    Parameters
    ----------
    task : ChunkTask
        Function of chunks, without its mask.
    table : array, frame or series
        The partition.
    y : array, series or None
        Labels from another source.
    mask : ndarray of bool, or None
        Mask of the rows of the partition that count.
    template : array, frame or series
        Empty table with the declared columns and types.
    start : int
        Position of the first row of the partition among all rows.
    length : int
        Number of rows that was counted.
    """
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
    """Return the sum of the result tables of a partition.

    Parameters are as in `map_partition`.
    """
    table, failure = check_partition(table, template, length)
    if failure is not None:
        return None, failure
    return sum_tables(map(task.with_mask(mask, start), _raw_chunks(table, y, start)))
