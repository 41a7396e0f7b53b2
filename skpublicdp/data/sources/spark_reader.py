"""Reader of Spark DataFrames, which runs functions on the executors and returns their results."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any

from skpublicdp.data.sources import optional_imports
from skpublicdp.data.sources.arrow_readers import conform_table, plain_schema
from skpublicdp.data.sources.chunk_task import Chunk, ChunkTask, Result, sum_tables
from skpublicdp.data.sources.reader import (
    END,
    SourceColumn,
    WorkerReader,
    check_distinct_names,
    rechunk,
    rows_per_chunk,
)
from skpublicdp.data.tables import table_height, table_width
from skpublicdp.exceptions import ReadError

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
        self.names = tuple(frame.columns)
        self.n_columns = len(self.names)
        check_distinct_names(self.names, self.kind)

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

        Each partition sends a single table to the driver. The parameters are those of `run`.
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
        assert self.names is not None
        pa = optional_imports.pyarrow()
        # if no columns are requested, one column is still read for all rows
        names = [self.names[c] for c in columns or [0]]
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
    """Yield (number of rows, Result) for each chunk of a partition, up to the first failure.

    The parameters are those of `_outputs`.
    """
    for n_rows, (result, failure) in _outputs(task, tables):
        yield n_rows, (result, failure)
        if failure is not None:
            return


def sum_chunks(task: ChunkTask, tables: Iterator[Any]) -> list[Output]:
    """Return [(number of rows, Result)] for the sum over the chunks of a partition, if any.

    The parameters are those of `_outputs`.
    """
    heights: list[int] = []

    def results() -> Iterator[Result]:
        for n_rows, result in _outputs(task, tables):
            heights.append(n_rows)
            yield result

    total = sum_tables(results())
    return [(sum(heights), total)] if heights else []
