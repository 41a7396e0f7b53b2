"""Arrays, memory maps and frames: rows that somebody else already holds."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.sources import extras, native
from skpublicdp.data.sources.scan import Scan, is_a, texts


class MemoryScan(Scan):
    """A table or a column in memory; it is cut, never copied as a whole."""

    kind = "a table in memory"
    remedy = "check that it is an array or a frame"

    def __init__(self, table: Any) -> None:
        if is_a(table, "pyarrow", "Array"):
            table = extras.pyarrow().chunked_array([table])
        self._table = table
        wrapped = native.wrapped(table)
        self.names = texts(wrapped.columns) if hasattr(wrapped, "columns") else None
        self.n_columns = native.width(table)
        self.flat = len(getattr(table, "shape", (0,))) == 1

    def _count(self) -> int:
        return native.height(self._table)

    def _empty(self) -> Any:
        return native.cut(self._table, 0, 0)

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        yield self._table if self.flat else native.pick_columns(self._table, columns)

    def read(self, columns: Sequence[int], rows: int) -> Generator[Any, None, None]:
        """Yield tables of `rows` rows; columns are picked after rows, so that copies are small."""
        for start in range(0, self.n_rows, rows):
            table = native.cut(self._table, start, min(start + rows, self.n_rows))
            yield table if self.flat else native.pick_columns(table, columns)

    def part(self, column: int, start: int, stop: int) -> Any:
        """Return some rows of one column."""
        table = native.cut(self._table, start, stop)
        return table if self.flat else native.column(table, column)

    def take(self, columns: Sequence[int], positions: NDArray[np.intp]) -> Any:
        """Return rows at once, without a pass."""
        rows = native.pick_rows(self._table, positions)
        return rows if self.flat else native.pick_columns(rows, columns)
