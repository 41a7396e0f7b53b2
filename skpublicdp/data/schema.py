"""Schema of a table, from public rows, declared column types and bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp._internal.redaction import NotNumbersError, call_or_raise
from skpublicdp.data.bounds import limits_of, position_of
from skpublicdp.data.column import (
    MAX_EXACT_INTEGER,
    MISSING,
    OTHER,
    Column,
    is_missing,
    not_numbers,
    to_numbers,
)
from skpublicdp.data.tables import (
    ANYTHING,
    BOOLEAN,
    DATE,
    NUMBER,
    ColumnType,
    Container,
    Table,
)
from skpublicdp.typing import Floats

__all__ = [
    "MISSING",
    "OTHER",
    "Coder",
    "Column",
    "Schema",
    "build_schema",
    "column_names",
    "is_missing",
    "not_numbers",
    "to_numbers",
]

Coder = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Schema:
    """All columns and the container that rows came in.

    Attributes
    ----------
    columns : tuple of Column
        One per column.
    container : Container
        What rows came in.
    """

    columns: tuple[Column, ...]
    container: Container

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def numeric(self) -> NDArray[np.bool_]:
        """Which columns are numeric."""
        return np.array([not column.categorical for column in self.columns])

    def encode(
        self, table: Table, *, clamp: bool = True, types: Sequence[ColumnType] | None = None
    ) -> Floats:
        """Return rows as floats, column by column in memory; each row on its own.

        Errors go by types of columns, of all rows if the table is but some of these.
        """
        encoded = np.empty(table.shape, order="F")
        coders = [partial(column.encode, clamp=clamp) for column in self.columns]
        for position, values in self._encoded_columns(table, coders, types):
            encoded[:, position] = values
        return encoded

    def codes(
        self, table: Table, coders: Sequence[Coder], types: Sequence[ColumnType] | None = None
    ) -> list[NDArray[Any]]:
        """Return what a function of single values makes of each column; errors are as above."""
        return [codes for _, codes in self._encoded_columns(table, coders, types)]

    def _encoded_columns(
        self, table: Table, coders: Sequence[Coder], types: Sequence[ColumnType] | None
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        refusal = NotNumbersError(not_numbers(*self._nullable_names(types or table.types)))
        failed = False
        for position, (column, coder) in enumerate(zip(self.columns, coders, strict=True)):
            if column.categorical:
                yield position, call_or_raise(table.map_distinct, position, coder, error=refusal)
                continue
            values = call_or_raise(table.column, position, error=refusal)
            try:
                yield position, coder(values)
            except NotNumbersError:
                failed = True
        if failed:
            raise refusal

    def check(self, table: Table) -> int:
        """Raise if a numeric column holds invalid values. Returns 0, as a table to add up."""
        failed = False
        for position, column in enumerate(self.columns):
            if not column.categorical and (table.types[position].nullable or not table.is_frame):
                values = table.column(position)
                if values.dtype.kind in "iub" and not np.ma.isMaskedArray(values):
                    continue
                try:
                    failed |= not np.isfinite(to_numbers(values, column.name)).all()
                except NotNumbersError:
                    failed = True
        if failed:
            raise NotNumbersError(not_numbers(*self._nullable_names(table.types)))
        return 0

    def _nullable_names(self, types: Sequence[ColumnType]) -> tuple[list[str], bool]:
        """Return numeric columns whose type allows invalid values, and whether any is nullable."""
        numeric = [
            (column, type_)
            for column, type_ in zip(self.columns, types, strict=True)
            if not column.categorical
        ]
        nullable = any(column.nullable for column, _ in numeric)
        names = [
            column.name
            for column, type_ in numeric
            if type_.nullable and not (nullable and type_.kind == NUMBER)
        ]
        return names or [column.name for column, _ in numeric], nullable

    def decode(self, rows: Floats) -> Any:
        """Return rows in the container they came in."""
        return self.container.build(
            [column.decode(rows[:, position]) for position, column in enumerate(self.columns)]
        )

    def decode_rowwise(self, rows: Floats) -> Any:
        """Return rows in the container they came in, each as if it were the only one.

        No value decides the type of its column: what a function of single rows makes of one row
        would depend on the others.
        """
        columns = [column.decode(rows[:, position]) for position, column in enumerate(self.columns)]
        if self.container.library is None:
            return self.container.build(columns)
        held = [
            self.container.typed_column(decoded, column.values)
            for decoded, column in zip(columns, self.columns, strict=True)
        ]
        return self.container.build(*zip(*held, strict=True))

    def position(self, column: Any) -> int:
        """Return the position of a column given by its name or its position."""
        position = position_of(column, self.names)
        if position is not None:
            return position
        names = ", ".join(self.names[:10]) + (", ..." if len(self.names) > 10 else "")
        raise ValueError(
            f"A column must be given by its name or by its position below {len(self.columns)}; "
            f"got {column!r}, and there are {names}."
        )


def build_schema(
    X: Table,
    public: Sequence[Table],
    *,
    bounds: ArrayLike | Mapping[Any, Any] | None = None,
    nullable: bool = False,
    numeric: bool = False,
) -> Schema:
    """Describe columns by public rows, and by the types of the columns of `X`.

    Parameters
    ----------
    X : Table
        All rows, looked at for column types only: which columns may be categorical.
    public : sequence of Table
        Parts of the public rows, of the columns of `X`; may be empty.
    bounds : array-like of shape (2,) or (n_features, 2), or mapping of column to pair, optional
        Bounds of numeric columns, by default the public range widened by itself on each side.
    nullable : bool, default=False
        Whether numeric columns may have missing values and infinities.
    numeric : bool, default=False
        Whether all columns are.

    Returns
    -------
    Schema
        The columns.
    """
    names = column_names(X)
    limits = limits_of(bounds, names, X.types)
    columns = []
    for position, name in enumerate(names):
        parts = [part.column(position) for part in public]
        given = [X.types[position], *(part.types[position] for part in public)]
        if not numeric and _is_categorical(given, X.is_frame, parts):
            columns.append(_categorical(name, given, parts))
        else:
            described = _numeric(name, given[0], parts, limits.get(position), nullable)
            columns.append(replace(described, nullable=nullable))
    return Schema(tuple(columns), X.container)


def column_names(X: Table) -> list[str]:
    """Return the names of columns, or x0, x1 and so on for those of arrays."""
    return [str(label) if X.is_frame else f"x{label}" for label in X.labels]


def _is_categorical(types: Sequence[ColumnType], frame: bool, public: Sequence[Any]) -> bool:
    """Decide by the types of the column and, where it may hold anything, by the public values."""
    kind = types[0].kind
    if kind in (NUMBER, DATE):
        return False
    if frame and (kind != ANYTHING or not public):
        return True
    if kind == BOOLEAN:
        return False
    return any(isinstance(value, str | bool) for part in public for value in part.tolist())


def _categorical(name: str, types: Sequence[ColumnType], public: Sequence[Any]) -> Column:
    values = [value for part in public for value in np.asarray(part, dtype=object).tolist()]
    kept = [value for value in values if not is_missing(value)]
    declared = [value for type_ in types for value in type_.categories or ()]
    booleans = all(isinstance(value, bool | np.bool_) for value in kept + declared)
    if booleans and (kept or types[0].kind == BOOLEAN):
        declared = [False, True]  # known without looking at a row
    if not values and not declared:
        raise ValueError(
            f"Column {name} is categorical, and only public rows may say which categories there "
            "are; pass X_public or is_public, or declare them in the type of the column."
        )
    try:
        distinct = sorted({*kept, *declared})
    except TypeError:
        distinct = sorted({*kept, *declared}, key=lambda value: (type(value).__name__, str(value)))
    categories = np.empty(len(distinct), dtype=object)
    categories[:] = distinct
    return Column(name, categories, categorical=True)


def _numeric(
    name: str,
    type_: ColumnType,
    public: Sequence[Any],
    limits: tuple[float, float] | None,
    nullable: bool,
) -> Column:
    origin = _origin(public)
    values = np.concatenate([np.empty(0), *(_public_numbers(p, name, origin) for p in public)])
    if nullable:
        values = values[np.isfinite(values)]
    elif not np.isfinite(values).all():
        raise ValueError(
            f"Input X contains NaN or infinity in public rows of the numeric column {name}; drop "
            "these rows or fill them in."
        )
    distinct = np.unique(values)
    if limits is not None:
        low, high = limits[0] - origin, limits[1] - origin
    elif not len(distinct):
        low, high = -8.0, 8.0  # of standard-normal reference rows
    else:
        width = distinct[-1] - distinct[0] or max(1.0, abs(distinct[0]))
        low, high = float(distinct[0] - width), float(distinct[-1] + width)
    # not by the type of the column, which one missing private number makes another
    ends = np.array([low, high])
    whole = (
        (distinct % 1 == 0).all()
        and (ends % 1 == 0).all()
        and np.abs(ends).max() < MAX_EXACT_INTEGER
    )
    return Column(
        name,
        distinct,
        categorical=False,
        low=low,
        high=high,
        integral=bool(len(distinct) and whole),
        is_datetime=type_.kind == DATE,
        offset=origin,
    )


def _public_numbers(values: NDArray[Any], name: str, origin: int) -> Floats:
    try:
        return to_numbers(values, name, origin)
    except NotNumbersError:
        raise NotNumbersError(
            f"Column {name} must hold numbers, as its declared type or other public rows do; some "
            "public value is not a number: convert it, or declare the column as text."
        ) from None


def _origin(public: Sequence[Any]) -> int:
    """Return a public number from which floats count all whole numbers near the public ones."""
    whole = [np.ma.getdata(part) for part in public if np.ma.getdata(part).dtype.kind in "iu"]
    kept = [part for part in whole if len(part)]
    if not kept or len(whole) != len(public):
        return 0
    low, high = min(int(part.min()) for part in kept), max(int(part.max()) for part in kept)
    return 0 if -MAX_EXACT_INTEGER < low <= high < MAX_EXACT_INTEGER else (low + high) // 2
