"""Lazy frames of polars."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from skpublicdp.data.sources.scan import CHUNK_ROWS, Scan


class LazyScan(Scan):
    """A `polars.LazyFrame`: its query runs once for each pass and is streamed."""

    kind = "the lazy frame"
    remedy = "collect it by itself to see that its query works"
    ordered = False  # polars promises none after a join, a group or a union, and does not tell

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names = tuple(self.reading(frame.collect_schema).names())
        self.n_columns = len(self.names)

    def _count(self) -> int:
        import polars as pl

        return int(self._frame.select(pl.len()).collect(engine="streaming").item())

    def _empty(self) -> Any:
        return self._frame.head(0).collect()

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        assert self.names is not None
        frame = self._frame.select([self.names[c] for c in columns]) if columns else self._frame
        yield from frame.collect_batches(chunk_size=CHUNK_ROWS)
