"""Apply a function to each chunk of rows, on threads or on a cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.sources.reader import is_package_error, without_traceback
from skpublicdp.data.tables import pick_column, pick_columns, pick_rows, table_height
from skpublicdp.exceptions import ReadError

Result: TypeAlias = tuple[Any, Exception | None]
"""A result, or what to raise."""

RawChunk: TypeAlias = tuple[Any, Any, int]
"""A table, labels that came from elsewhere or None, and the position of the first row."""


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class Chunk:
    """Some consecutive rows.

    Attributes
    ----------
    X : ndarray of shape (k, n_columns), or a frame of pandas, polars or pyarrow
        The rows.
    y : ndarray or series of k labels, or None
        The labels as they were given.
    start : int
        Position of the first row among all rows, those that do not count included.
    """

    X: Any
    y: Any
    start: int


@dataclass(frozen=True, eq=False, repr=False)
class AcceptsDictionaries:
    """A function of chunks that accepts dictionary-encoded text."""

    function: Callable[[Chunk], Any]

    def __call__(self, chunk: Chunk) -> Any:
        """Call the function."""
        return self.function(chunk)


@dataclass(frozen=True, eq=False, repr=False)
class ChunkTask:
    """A function of chunks, with the columns that it reads and the mask of rows that count."""

    function: Callable[[Chunk], Any]
    without_dictionaries: Callable[[Any], Any]
    columns: tuple[int, ...]
    label: int | None
    mask: NDArray[np.bool_] | None = None
    mask_start: int = 0

    def with_mask(self, kept: NDArray[np.bool_] | None, first: int) -> ChunkTask:
        """Return the same work where only some rows count, by a mask of those from `first` on."""
        return replace(self, mask=kept, mask_start=first)

    def __call__(self, piece: RawChunk) -> Result:
        """Call the function; what it raises is one sentence, unless the package wrote it."""
        result, failure = call_silently(self._call, *piece)
        if failure is None:
            return result, None
        if not is_package_error(failure):
            failure = ReadError(
                "Every chunk of rows must hold what its columns promise; one does not, so check "
                "the types and values of the columns (the message is withheld, as it may quote "
                "private values)."
            )
        return None, without_traceback(failure)

    def _call(self, table: Any, labels: Any, start: int) -> Any:
        y = labels
        if self.label is not None:
            y = pick_column(self.without_dictionaries(pick_columns(table, [self.label])), 0)
        if not isinstance(self.function, AcceptsDictionaries):
            table = self.without_dictionaries(table)
        flat = len(getattr(table, "shape", (0, 0))) == 1
        X = table if flat else pick_columns(table, self.columns)
        if self.mask is not None:
            at = start - self.mask_start
            here = np.flatnonzero(self.mask[at : at + table_height(X)])
            if len(here) < table_height(X):
                X, y = pick_rows(X, here), None if y is None else pick_rows(y, here)
        return self.function(Chunk(X, y, start))


def map_in_order(job: ChunkTask, pieces: Iterable[RawChunk], n_threads: int) -> Iterator[Result]:
    """Yield outcomes in the order of rows; only a few chunks are in memory at once."""
    if n_threads == 1:
        yield from map(job, pieces)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        waiting: deque[Any] = deque()
        try:
            for piece in pieces:
                waiting.append(pool.submit(job, piece))
                if len(waiting) > n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def sum_tables(outcomes: Iterable[Result]) -> Result:
    """Add integer tables, or tuples of them, up to the first failure."""
    total: list[Any] = []
    many = False
    for result, failure in outcomes:
        if failure is not None:
            return None, failure
        many = isinstance(result, tuple)
        tables = [np.asarray(table) for table in (result if many else (result,))]
        if any(table.dtype.kind not in "biu" for table in tables):
            return None, TypeError("Tables must hold integers: only these add up in any order.")
        if not total:
            total = [table.astype(np.int64) for table in tables]
        else:
            for old, new in zip(total, tables, strict=True):
                np.add(old, new, out=old, casting="unsafe")
    return (tuple(total) if many else total[0] if total else None), None
