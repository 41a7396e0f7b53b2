"""Read DuckDB relations, and through SQL also CSV files, Postgres and SQLite."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from functools import cached_property
from typing import Any

from skpublicdp.data.sources import optional_imports
from skpublicdp.data.sources.reader import CHUNK_ROWS, RowReader, check_distinct_names

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
        self.names = tuple(relation.columns)
        self.n_columns = len(self.names)
        check_distinct_names(self.names, self.kind)

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
        assert self.names is not None
        pa = optional_imports.pyarrow()
        quoted = ('"' + self.names[c].replace('"', '""') + '"' for c in columns)
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
