"""What is done with each chunk of rows, here or on another machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.sources import native
from skpublicdp.data.sources.scan import bare, is_ours
from skpublicdp.exceptions import ReadError

Outcome: TypeAlias = tuple[Any, Exception | None]
"""A result, or what to raise."""

Piece: TypeAlias = tuple[Any, Any, int]
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
class AsRead:
    """A function of chunks whose text may come in dictionaries, as files have it."""

    function: Callable[[Chunk], Any]

    def __call__(self, chunk: Chunk) -> Any:
        """Call the function."""
        return self.function(chunk)


@dataclass(frozen=True, eq=False, repr=False)
class Job:
    """A function of chunks, which columns of a table are the chunk's, and which rows count."""

    function: Callable[[Chunk], Any]
    plain: Callable[[Any], Any]
    columns: tuple[int, ...]
    label: int | None
    kept: NDArray[np.bool_] | None = None
    first: int = 0

    def keeping(self, kept: NDArray[np.bool_] | None, first: int) -> Job:
        """Return the same work where only some rows count, by a mask of those from `first` on."""
        return replace(self, kept=kept, first=first)

    def __call__(self, piece: Piece) -> Outcome:
        """Call the function; what it raises is one sentence, unless the package wrote it."""
        result, failure = call_silently(self._call, *piece)
        if failure is None:
            return result, None
        if not is_ours(failure):
            failure = ReadError(
                "Every chunk of rows must hold what its columns promise; one does not, so check "
                "the types and values of the columns (the message is withheld, as it may quote "
                "private values)."
            )
        return None, bare(failure)

    def _call(self, table: Any, labels: Any, start: int) -> Any:
        y = labels
        if self.label is not None:
            y = native.column(self.plain(native.pick_columns(table, [self.label])), 0)
        if not isinstance(self.function, AsRead):
            table = self.plain(table)
        flat = len(getattr(table, "shape", (0, 0))) == 1
        X = table if flat else native.pick_columns(table, self.columns)
        if self.kept is not None:
            at = start - self.first
            here = np.flatnonzero(self.kept[at : at + native.height(X)])
            if len(here) < native.height(X):
                X, y = native.pick_rows(X, here), None if y is None else native.pick_rows(y, here)
        return self.function(Chunk(X, y, start))


def in_order(job: Job, pieces: Iterable[Piece], n_threads: int) -> Iterator[Outcome]:
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


def summed(outcomes: Iterable[Outcome]) -> Outcome:
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
