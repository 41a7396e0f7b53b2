"""Read arrays, memory maps and frames that are already in memory."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from skpublicdp.data.sources import optional_imports
from skpublicdp.data.sources.reader import RowReader, is_instance, text_names
from skpublicdp.data.tables import (
    pick_column,
    pick_columns,
    pick_rows,
    slice_rows,
    table_height,
    table_width,
    to_narwhals,
)
from skpublicdp.typing import Codes


class MemoryReader(RowReader):
    """Reader of a table or a column in memory, which is sliced without a copy of all rows."""

    kind = "a table in memory"
    remedy = "check that it is an array or a frame"

    def __init__(self, table: Any) -> None:
        if is_instance(table, "pyarrow", "Array"):
            table = optional_imports.pyarrow().chunked_array([table])
        self._table = table
        wrapped = to_narwhals(table)
        self.names = text_names(wrapped.columns) if hasattr(wrapped, "columns") else None
        self.n_columns = table_width(table)
        self.flat = len(getattr(table, "shape", (0,))) == 1

    def _count(self) -> int:
        return table_height(self._table)

    def _empty(self) -> Any:
        return slice_rows(self._table, 0, 0)

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        yield self._table if self.flat else pick_columns(self._table, columns)

    def chunks(self, columns: Sequence[int], rows: int) -> Generator[Any, None, None]:
        """Yield all rows in tables of `rows` rows each; only the last table may be shorter.

        Rows are sliced before columns are picked, so that copies are small.
        """
        for start in range(0, self.n_rows, rows):
            table = slice_rows(self._table, start, min(start + rows, self.n_rows))
            yield table if self.flat else pick_columns(table, columns)

    def slice_column(self, column: int, start: int, stop: int) -> Any:
        """Return the rows `start`, ..., `stop` - 1 of the column at a position."""
        table = slice_rows(self._table, start, stop)
        return table if self.flat else pick_column(table, column)

    def take_rows(self, columns: Sequence[int], positions: Codes) -> Any:
        """Return the rows at positions in any order, by indexing instead of a pass."""
        rows = pick_rows(self._table, positions)
        return rows if self.flat else pick_columns(rows, columns)
