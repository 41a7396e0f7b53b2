"""What one pass over private rows is, whatever holds them, and what happens when it fails."""

from __future__ import annotations

import contextlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.sources import native
from skpublicdp.exceptions import ReadError

CHUNK_ROWS = 2**17
"""Rows of a chunk, unless there are many columns."""

CHUNK_VALUES = 2**22
"""Values of a chunk."""

END = object()


def rows_per_chunk(n_columns: int) -> int:
    """Return how many rows of so many columns are worked on at once."""
    return max(2**10, min(CHUNK_ROWS, CHUNK_VALUES // max(n_columns, 1)))


class Scan(ABC):
    """Rows that can be read any number of times, always the same ones.

    Attributes
    ----------
    kind : str
        What messages call them.
    remedy : str
        What to do when they cannot be read, as the end of a sentence.
    names : tuple of str or None
        The columns; None for arrays.
    n_columns : int
        Number of columns.
    flat : bool
        Whether this is one column without a table around it: labels.
    ordered : bool
        Whether every pass gives the rows in the same order.
    """

    kind: ClassVar[str]
    remedy: ClassVar[str]
    names: tuple[str, ...] | None
    n_columns: int
    flat: bool = False

    @property
    def ordered(self) -> bool:
        """Whether every pass gives the rows in the same order."""
        return True

    @cached_property
    def n_rows(self) -> int:
        """Number of rows, counted once."""
        return int(self.reading(self._count))

    @abstractmethod
    def _count(self) -> int:
        """Count the rows."""

    @abstractmethod
    def _empty(self) -> Any:
        """Return no rows, with all columns."""

    @abstractmethod
    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        """Yield tables with these columns, in the order of rows, of any heights."""

    @staticmethod
    def plain(table: Any) -> Any:
        """Return a table that was read in the types of `empty`."""
        return table

    def empty(self, columns: Sequence[int]) -> Any:
        """Return no rows of these columns, in the types that the rows have."""
        table = self.reading(self._empty)
        return table if self.flat else native.pick_columns(table, columns)

    def read(self, columns: Sequence[int], rows: int) -> Generator[Any, None, None]:
        """Yield all rows in tables of exactly `rows` rows, the last one of what is left."""
        expected, seen = self.n_rows, 0  # counted first: some can do only one thing at a time
        with contextlib.closing(self._guarded(columns)) as tables:
            for table in regrouped(tables, rows):
                seen += native.height(table)
                if seen > expected:
                    break
                yield table
        if seen != expected:
            raise ReadError(self.changed())

    def take(self, columns: Sequence[int], positions: NDArray[np.intp]) -> Any:
        """Return the rows at positions that never fall."""
        parts = self.reading(lambda: list(self._take(columns, positions)))
        return native.joined(parts) if parts else self.empty(columns)

    def _take(self, columns: Sequence[int], positions: NDArray[np.intp]) -> Iterator[Any]:
        with contextlib.closing(self._read(columns)) as tables:
            yield from picked(tables, positions, 0)

    def _guarded(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        tables = self.reading(self._read, columns)
        with contextlib.closing(tables):
            while (table := self.reading(next, tables, END)) is not END:
                yield table

    @classmethod
    def reading(cls, call: Any, *args: Any, **options: Any) -> Any:
        """Call what reads rows; whatever fails is one sentence that quotes none of it."""
        result, failure = call_silently(call, *args, **options)
        if failure is None:
            return result
        if not is_ours(failure):
            failure = ReadError(
                f"All rows of {cls.kind} must be readable; {cls.remedy} (what the reader said is "
                "withheld, as it may quote private values)."
            )
        raise bare(failure)

    def changed(self) -> str:
        """Return the sentence about rows that are not the ones that were counted."""
        return (
            f"{self.kind[0].upper()}{self.kind[1:]} must hold the same rows on every pass; their "
            "number has changed, so let nothing write to it during a fit."
        )


@dataclass(frozen=True, eq=False, repr=False)
class Column:
    """One column of a source of rows, to be passed as `y`.

    Attributes
    ----------
    scan : Scan
        What it is read from.
    position : int
        Which column it is.
    """

    scan: Scan
    position: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.scan.n_rows

    def empty(self) -> Any:
        """Return no rows of the column, in the type that the rows have."""
        return self.of(self.scan.empty([self.position]))

    def of(self, table: Any) -> Any:
        """Return the column of a table that was read for it alone."""
        return table if self.scan.flat else native.column(self.scan.plain(table), 0)


def is_ours(failure: BaseException) -> bool:
    """Tell whether an exception is of the package, and so quotes nothing private."""
    return type(failure).__module__.split(".")[0] == "skpublicdp"


def bare(failure: Exception) -> Exception:
    """Return an exception without the frames and exceptions behind it, which hold rows."""
    failure.__cause__ = failure.__context__ = None
    return failure.with_traceback(None)


def picked(tables: Iterable[Any], positions: NDArray[np.intp], start: int) -> Iterator[Any]:
    """Yield those rows of tables, the first of which is at `start`, whose positions are given."""
    for table in tables:
        stop = start + native.height(table)
        first, last = np.searchsorted(positions, (start, stop))
        if first < last:
            yield native.pick_rows(table, positions[first:last] - start)
        if last == len(positions):
            return
        start = stop


def regrouped(tables: Iterable[Any], rows: int) -> Iterator[Any]:
    """Yield the same rows in tables of exactly `rows` rows, the last one of what is left."""
    parts: list[Any] = []
    held = 0
    for table in tables:
        start, end = 0, native.height(table)
        while start < end:
            stop = min(end, start + rows - held)
            parts.append(native.cut(table, start, stop))
            held, start = held + stop - start, stop
            if held == rows:
                yield native.joined(parts)
                parts, held = [], 0
    if parts:
        yield native.joined(parts)


def is_a(thing: Any, module: str, *names: str) -> bool:
    """Tell whether a thing is of a class of a package, without importing the package."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(thing, tuple(getattr(loaded, n) for n in names))


def distinct(names: Sequence[Any], kind: str) -> None:
    """Refuse columns of one name: they are read by it."""
    twice = sorted({str(name) for name in names if list(names).count(name) > 1})
    if twice:
        raise ValueError(
            f"Columns of {kind} must have names of their own; {twice[0]!r} stands more than once, "
            "so rename one of them."
        )


def texts(names: Iterable[Any]) -> tuple[str, ...] | None:
    """Return names of columns if all are text, as scikit-learn does."""
    names = tuple(names)
    return names if all(isinstance(name, str) for name in names) else None
