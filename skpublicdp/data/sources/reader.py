"""Base class of readers: passes over the rows of a container, with errors that quote no value."""

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
from skpublicdp.data.tables import (
    concatenate_tables,
    pick_column,
    pick_columns,
    pick_rows,
    slice_rows,
    table_height,
)
from skpublicdp.exceptions import ReadError

CHUNK_ROWS = 2**17
"""Rows of a chunk, unless there are many columns."""

MAX_CHUNK_VALUES = 2**22
"""Values of a chunk."""

END = object()


def rows_per_chunk(n_columns: int) -> int:
    """Return how many rows of so many columns are worked on at once."""
    return max(2**10, min(CHUNK_ROWS, MAX_CHUNK_VALUES // max(n_columns, 1)))


class RowReader(ABC):
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
    def without_dictionaries(table: Any) -> Any:
        """Return a table that was read in the types of `empty`."""
        return table

    def empty(self, columns: Sequence[int]) -> Any:
        """Return no rows of these columns, in the types that the rows have."""
        table = self.reading(self._empty)
        return table if self.flat else pick_columns(table, columns)

    def chunks(self, columns: Sequence[int], rows: int) -> Generator[Any, None, None]:
        """Yield all rows in tables of exactly `rows` rows, the last one of what is left."""
        expected, seen = self.n_rows, 0  # counted first: some can do only one thing at a time
        with contextlib.closing(self._guarded(columns)) as tables:
            for table in rechunk(tables, rows):
                seen += table_height(table)
                if seen > expected:
                    break
                yield table
        if seen != expected:
            raise ReadError(self.changed())

    def take_rows(self, columns: Sequence[int], positions: NDArray[np.intp]) -> Any:
        """Return the rows at positions that never fall."""
        parts = self.reading(lambda: list(self._take(columns, positions)))
        return concatenate_tables(parts) if parts else self.empty(columns)

    def _take(self, columns: Sequence[int], positions: NDArray[np.intp]) -> Iterator[Any]:
        with contextlib.closing(self._read(columns)) as tables:
            yield from pick_from_tables(tables, positions, 0)

    def _guarded(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        tables = self.reading(self._read, columns)
        with contextlib.closing(tables):
            while (table := self.reading(next, tables, END)) is not END:
                yield table

    @classmethod
    def reading(cls, call: Any, *args: Any, **options: Any) -> Any:
        """Call a function that reads rows. An error is one sentence that quotes no value."""
        result, failure = call_silently(call, *args, **options)
        if failure is None:
            return result
        if not is_package_error(failure):
            failure = ReadError(
                f"All rows of {cls.kind} must be readable; {cls.remedy} (what the reader said is "
                "withheld, as it may quote private values)."
            )
        raise without_traceback(failure)

    def changed(self) -> str:
        """Return the sentence about rows that are not the ones that were counted."""
        return (
            f"{self.kind[0].upper()}{self.kind[1:]} must hold the same rows on every pass; their "
            "number has changed, so let nothing write to it during a fit."
        )


@dataclass(frozen=True, eq=False, repr=False)
class SourceColumn:
    """One column of a source of rows, to be passed as `y`.

    Attributes
    ----------
    scan : Scan
        What it is read from.
    position : int
        Which column it is.
    """

    reader: RowReader
    position: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.reader.n_rows

    def empty(self) -> Any:
        """Return no rows of the column, in the type that the rows have."""
        return self.take_from(self.reader.empty([self.position]))

    def take_from(self, table: Any) -> Any:
        """Return the column of a table that was read for it alone."""
        return (
            table if self.reader.flat else pick_column(self.reader.without_dictionaries(table), 0)
        )


def is_package_error(failure: BaseException) -> bool:
    """Indicate whether this package defines the exception, which then quotes no private value."""
    return type(failure).__module__.split(".")[0] == "skpublicdp"


def without_traceback(failure: Exception) -> Exception:
    """Return an exception without the frames and exceptions behind it, which hold rows."""
    failure.__cause__ = failure.__context__ = None
    return failure.with_traceback(None)


def pick_from_tables(
    tables: Iterable[Any], positions: NDArray[np.intp], start: int
) -> Iterator[Any]:
    """Yield those rows of tables, the first of which is at `start`, whose positions are given."""
    for table in tables:
        stop = start + table_height(table)
        first, last = np.searchsorted(positions, (start, stop))
        if first < last:
            yield pick_rows(table, positions[first:last] - start)
        if last == len(positions):
            return
        start = stop


def rechunk(tables: Iterable[Any], rows: int) -> Iterator[Any]:
    """Yield the same rows in tables of exactly `rows` rows, the last one of what is left."""
    parts: list[Any] = []
    held = 0
    for table in tables:
        start, end = 0, table_height(table)
        while start < end:
            stop = min(end, start + rows - held)
            parts.append(slice_rows(table, start, stop))
            held, start = held + stop - start, stop
            if held == rows:
                yield concatenate_tables(parts)
                parts, held = [], 0
    if parts:
        yield concatenate_tables(parts)


def is_instance(thing: Any, module: str, *names: str) -> bool:
    """Indicate whether an object is of a class of a package, without importing the package."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(thing, tuple(getattr(loaded, n) for n in names))


def check_distinct_names(names: Sequence[Any], kind: str) -> None:
    """Refuse columns of one name: they are read by it."""
    twice = sorted({str(name) for name in names if list(names).count(name) > 1})
    if twice:
        raise ValueError(
            f"Columns of {kind} must have names of their own; {twice[0]!r} stands more than once, "
            "so rename one of them."
        )


def text_names(names: Iterable[Any]) -> tuple[str, ...] | None:
    """Return names of columns if all are text, as scikit-learn does."""
    names = tuple(names)
    return names if all(isinstance(name, str) for name in names) else None
