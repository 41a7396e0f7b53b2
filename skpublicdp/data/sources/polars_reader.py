"""Read polars lazy frames."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cached_property
from typing import Any

from skpublicdp.data.sources.reader import CHUNK_ROWS, RowReader

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
        self.names = tuple(self.reading(frame.collect_schema).names())
        self.n_columns = len(self.names)

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
        assert self.names is not None
        frame = self._frame.select([self.names[c] for c in columns]) if columns else self._frame
        yield from frame.collect_batches(chunk_size=CHUNK_ROWS, maintain_order=True)
