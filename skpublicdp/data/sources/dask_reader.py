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
"""Tables that one task adds."""


class DaskReader(RowReader):
    """A Dask DataFrame, Series or Array, by its partitions.

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
        """Rows of each partition, counted once, by the first column."""
        (lengths,) = self._lengths_of([self])
        return lengths

    def _count(self) -> int:
        return sum(self.lengths)

    def count_with(self, labels: DaskReader) -> None:
        """Count the rows of both in one pass, if neither was counted and partitions may match."""
        both = [self, labels]
        counted = any("lengths" in vars(scan) for scan in both)
        if not counted and self._collection.npartitions == labels._collection.npartitions:
            self.lengths, labels.lengths = self._lengths_of(both)

    def _lengths_of(self, scans: list[DaskReader]) -> Iterator[tuple[int, ...]]:
        parts = zip(*(self.reading(scan._parts, [0]) for scan in scans), strict=True)
        return zip(*self._results([_task(table_heights, *part) for part in parts]), strict=True)

    def _parts(self, columns: Sequence[int]) -> list[Any]:
        """Return each partition of these columns, to be computed by the task that takes it."""
        part = self._collection
        if not self.flat:
            part = (
                part[:, list(columns)] if self._array else part[[part.columns[c] for c in columns]]
            )
        if self._array:
            # optimized, a flat array that is persisted would be its key in Dask 2025.1
            return self._as_partitions(
                list(np.ravel(part.to_delayed(optimize_graph=not self.flat)))
            )
        # all of Dask's optimization would merge partitions when few columns are read
        parts = list(part.simplify().to_delayed(optimize_graph=False))
        if len(parts) != self._collection.npartitions:
            raise ReadError(self.changed())
        return self._as_partitions(parts)

    def _as_partitions(self, parts: list[Any]) -> list[Any]:
        """Let tasks compute the partitions, unless workers hold them or several share some work."""
        distributed = sys.modules.get("distributed")
        if distributed is not None and distributed.futures_of(self._collection):
            return parts
        graphs = {id(one.dask): one.dask for one in parts}
        tasks = {key: task for graph in graphs.values() for key, task in dict(graph).items()}
        apart = [Partition({}, one.key) for one in parts]
        seen: set[Any] = set()
        for part in apart:
            left = {part.key}
            while left:
                if left & seen:
                    return parts
                seen |= left
                part.graph.update((key, tasks[key]) for key in left)
                needed = (optional_imports.dask().core.get_dependencies(tasks, key) for key in left)
                left = set().union(*needed) - part.graph.keys()
        return apart

    @cached_property
    def _kinds(self) -> Any:
        """No rows, as pandas holds them; undeclared categories are what private rows hold."""
        if self._array:
            return np.empty((0, *self._collection.shape[1:]), self._collection.dtype)
        import pandas as pd

        if self.flat:
            return pd.Series([], dtype=declared(self._collection), name=self._collection.name)
        series = {
            c: pd.Series([], dtype=declared(self._collection[c])) for c in self._collection.columns
        }
        return pd.DataFrame(series)

    def _empty(self) -> Any:
        return self._kinds

    def _kinds_of(self, columns: Sequence[int]) -> Any:
        return self._kinds if self.flat else pick_columns(self._kinds, columns)

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        kinds = self._kinds_of(columns)
        parts = zip(self._parts(columns), self.lengths, strict=True)
        for table, failure in self._results(
            [_task(check_partition, part, kinds, length) for part, length in parts if length]
        ):
            if failure is not None:
                raise failure
            yield table

    def can_pair(self, labels: SourceColumn | None) -> bool:
        """Indicate whether labels are partitioned as the rows are, or are in memory."""
        if labels is None or isinstance(labels.reader, MemoryReader):
            return True
        return isinstance(labels.reader, DaskReader) and labels.reader.lengths == self.lengths

    def run(
        self, job: ChunkTask, columns: Sequence[int], labels: SourceColumn | None
    ) -> Generator[Result, None, None]:
        """Yield what comes of each chunk, in the order of rows, worked on where the rows are."""
        for outcomes in self._results(self._tasks(map_partition, job, columns, labels)):
            yield from outcomes

    def run_sum(
        self, job: ChunkTask, columns: Sequence[int], labels: SourceColumn | None
    ) -> Result:
        """Return the sum of the tables, added where the rows are."""
        level = self._tasks(sum_partition, job, columns, labels)
        while len(level) > 1:
            groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
            level = [_task(sum_tables, group) for group in groups]
        (outcome,) = self._results(level)
        return outcome  # type: ignore[no-any-return]

    def _tasks(
        self, work: Any, job: ChunkTask, columns: Sequence[int], labels: SourceColumn | None
    ) -> list[Any]:
        shared = optional_imports.dask().delayed(job.with_mask(None, 0), pure=False, traverse=False)
        kinds = self._kinds_of(columns)
        starts = [int(start) for start in np.cumsum([0, *self.lengths])]
        ys: list[Any] = [None] * len(self.lengths)
        if labels is not None and isinstance(labels.reader, DaskReader):
            ys = labels.reader._parts([labels.position])
        elif labels is not None and isinstance(labels.reader, MemoryReader):
            bounds = pairwise(starts)
            ys = [labels.reader.part(labels.position, *bound) for bound in bounds]
        kept = [None if job.mask is None else job.mask[a:b] for a, b in pairwise(starts)]
        parts = zip(self._parts(columns), ys, kept, starts[:-1], self.lengths, strict=True)
        return [
            _task(work, shared, part, y, here, kinds, start, length)
            for part, y, here, start, length in parts
            if length
        ]

    def _results(self, tasks: Sequence[Any]) -> Generator[Any, None, None]:
        """Yield results in order; only some tables at a time wait for whoever asks."""
        client = _client()
        if client is None:
            ahead = 2 * (os.cpu_count() or 1)
            for i in range(0, len(tasks), ahead):
                yield from self.reading(optional_imports.dask().compute, *tasks[i : i + ahead])
            return
        ahead = 2 + 2 * sum(self.reading(client.nthreads).values())
        waiting: deque[Any] = deque()
        left = iter(tasks)
        try:
            while True:
                # many at a time: a message to the scheduler takes as long as thousands of rows
                if 2 * len(waiting) <= ahead:
                    more = list(islice(left, ahead - len(waiting)))
                    waiting.extend(self.reading(client.compute, more) if more else ())
                if not waiting:
                    return
                yield self._result(waiting.popleft())
        finally:
            for future in waiting:
                future.release()

    def _result(self, future: Any) -> Any:
        try:
            return self.reading(future.result)
        finally:
            future.release()  # a failure that is remembered would be that of the next pass


def _client() -> Any:
    """Return the client of a cluster if Dask would compute there."""
    distributed = sys.modules.get("distributed")
    scheduler = optional_imports.dask().config.get("scheduler", None)
    if distributed is None or scheduler not in (None, "dask.distributed", "distributed"):
        return None
    client, _ = call_silently(distributed.default_client)  # raises where there is none
    return client


class Partition:
    """A partition that is computed within the task that takes it.

    Rows and labels of tasks of their own are sent from worker to worker. Dask would look into a
    tuple or a dataclass for tasks.
    """

    def __init__(self, graph: dict[Any, Any], key: Any) -> None:
        self.graph, self.key = graph, key


def _task(work: Any, *args: Any) -> Any:
    return optional_imports.dask().delayed(_done, pure=False, traverse=False)(work, *args)


def _done(work: Any, *args: Any) -> Any:
    parts = [arg for arg in args if isinstance(arg, Partition)]
    # of rows and labels together: they may be columns of one table that is read
    graph = {key: task for part in parts for key, task in part.graph.items()}
    tables = iter(optional_imports.dask().get(graph, [part.key for part in parts]))
    return work(*(next(tables) if isinstance(arg, Partition) else arg for arg in args))


def table_heights(*tables: Any) -> tuple[int, ...]:
    """Return how many rows each table has."""
    return tuple(map(table_height, tables))


def declared(series: Any) -> Any:
    """Return the type of a column, with categories only if they are known before any row is."""
    category = getattr(series.dtype, "categories", None) is not None
    return series.dtype if not category or series.cat.known else np.dtype(object)


def check_partition(table: Any, kinds: Any, length: int) -> Result:
    """Return a partition, provided that it is what the collection says of it."""
    if table_height(table) != length:
        return None, ReadError(
            "A Dask collection must hold the same rows whenever it is computed; the length of a "
            "partition has changed, so write it to Parquet files first."
        )
    if table.ndim != kinds.ndim or not _same_kinds(table, kinds):
        return None, ReadError(
            "Every partition of a Dask collection must have the columns and types that the "
            "collection says; one has others, so pass the right `meta` or use `astype`."
        )
    return _without_own_categories(table, kinds), None


def _same_kinds(table: Any, kinds: Any) -> bool:
    if not hasattr(table, "iloc"):
        return _kind(table.dtype) == _kind(kinds.dtype)
    if table.ndim == 1:
        return table.name == kinds.name and _kind(table.dtype) == _kind(kinds.dtype)
    return list(table.columns) == list(kinds.columns) and all(
        _kind(a) == _kind(b) for a, b in zip(table.dtypes, kinds.dtypes, strict=True)
    )


def _kind(dtype: Any) -> str:
    """Return what a type is, up to its width: a missing value makes floats of integers."""
    return "number" if dtype.kind in "iuf" else dtype.kind if dtype.kind in "bmM" else "other"


def _without_own_categories(table: Any, kinds: Any) -> Any:
    """Return a partition without categories that only its own rows declare."""
    if not hasattr(table, "iloc"):
        return table
    if table.ndim == 1:
        return table.astype(object) if _is_own_category(table.dtype, kinds.dtype) else table
    pairs = zip(table.columns, table.dtypes, kinds.dtypes, strict=True)
    return table.astype({name: object for name, own, said in pairs if _is_own_category(own, said)})


def _is_own_category(own: Any, said: Any) -> bool:
    return hasattr(own, "categories") and not hasattr(said, "categories")


def _chunks(table: Any, y: Any, start: int) -> Iterator[RawChunk]:
    """Yield parts of a partition, however large it is, so that little is held at once."""
    rows, end = rows_per_chunk(table_width(table)), table_height(table)
    for a in range(0, end, rows):
        b = min(a + rows, end)
        yield slice_rows(table, a, b), None if y is None else slice_rows(y, a, b), start + a


def map_partition(
    job: ChunkTask, table: Any, y: Any, kept: Any, kinds: Any, start: int, length: int
) -> list[Result]:
    """Return what comes of each chunk of a partition, up to the first failure."""
    outcomes = []
    job = job.with_mask(kept, start)
    table, failure = check_partition(table, kinds, length)
    if failure is not None:
        return [(None, failure)]
    for piece in _chunks(table, y, start):
        outcomes.append(job(piece))
        if outcomes[-1][1] is not None:
            break
    return outcomes


def sum_partition(
    job: ChunkTask, table: Any, y: Any, kept: Any, kinds: Any, start: int, length: int
) -> Result:
    """Return the sum over the chunks of a partition."""
    table, failure = check_partition(table, kinds, length)
    if failure is not None:
        return None, failure
    return sum_tables(map(job.with_mask(kept, start), _chunks(table, y, start)))
