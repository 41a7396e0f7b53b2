"""Columns as public rows describe them: numbers and dates within bounds, and categories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp.data.bounds import limits_of
from skpublicdp.data.frames import (
    ANYTHING,
    BOOLEAN,
    DATE,
    NUMBER,
    ColumnType,
    Container,
    Table,
)
from skpublicdp.guard import NotNumbersError, RefusedError, guarded

Rows = NDArray[np.float64]
Codes = NDArray[np.int64]

OTHER, MISSING = "(other)", "(missing)"
"""How a category that no public row has, and a missing value, are written out."""

EXACT = 2**53
"""Floats hold all whole numbers up to this."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column, from public rows only.

    Attributes
    ----------
    name : str
        Name, in messages.
    values : ndarray
        Distinct public values, sorted. Those of a categorical column are its categories.
    categorical : bool
        Whether values are only equal or not.
    low, high : float
        Bounds of a numeric column; other numbers are moved to the nearer one.
    integral : bool
        Whether all public values of a numeric column, and its bounds, are whole numbers.
    nullable : bool
        Whether a numeric column may have missing values.
    dated : bool
        Whether numbers are microseconds since 1970.
    origin : int
        Numbers are counted from here, so that floats hold whole ones that are too large for them.
    """

    name: str
    values: NDArray[Any]
    categorical: bool
    low: float = -np.inf
    high: float = np.inf
    integral: bool = False
    nullable: bool = False
    dated: bool = False
    origin: int = 0

    @property
    def n_categories(self) -> int:
        """Number of codes: the categories, then those of `OTHER` and `MISSING`."""
        return len(self.values) + 2

    def encode(self, values: NDArray[Any], *, clamp: bool = True) -> Rows:
        """Return numbers within the bounds, or codes of categories; each value on its own."""
        if self.categorical:
            values = np.asarray(values, dtype=object)
            refusal = RefusedError(f"Column {self.name} could not be read.")
            codes: Rows = guarded(self._codes, values, error=refusal)
            return codes
        numbers = to_numbers(values, self.name, self.origin)
        if not self.nullable and not np.isfinite(numbers).all():
            raise NotNumbersError(not_numbers([self.name]))
        return np.clip(numbers, self.low, self.high) if clamp else numbers

    def _codes(self, values: NDArray[Any]) -> Rows:
        codes = {value: code for code, value in enumerate(self.values.tolist())}
        other, missing = len(codes), len(codes) + 1
        codes.setdefault(OTHER, other)
        codes.setdefault(MISSING, missing)

        def code(value: Any) -> int:
            try:
                return missing if is_missing(value) else codes.get(value, other)
            except Exception:  # what cannot be compared is no public category
                return other

        listed, plain = values.tolist(), {**codes, None: missing}.get
        found: Iterator[int]
        if set(map(type, listed)) <= PLAIN:
            found = map(plain, listed, repeat(other))
        else:
            found = (plain(v, other) if type(v) in PLAIN else code(v) for v in listed)
        return np.fromiter(found, dtype=np.float64, count=len(listed))

    def decode(self, numbers: Rows) -> NDArray[Any]:
        """Undo `encode`, `OTHER` and `MISSING` being written out."""
        if self.dated:
            return self._dates(numbers)
        if self.integral:
            # up: as many are at or below each integer as before
            return np.ceil(numbers).astype(np.int64) + self.origin
        if not self.categorical:
            return numbers
        names = np.empty(self.n_categories, dtype=object)
        names[:] = self.names
        decoded: NDArray[Any] = names[numbers.astype(np.intp)]
        return decoded

    @property
    def counted(self) -> bool:
        """Whether encoded numbers are counted from somewhere, and not what they mean."""
        return self.dated or self.origin != 0

    def text(self, number: float) -> str:
        """Write out an encoded number or date."""
        if not self.counted:
            return f"{number:.6g}"
        if not self.dated:
            return str(self.origin + int(np.floor(number)))
        day, time = str(self._dates(np.array([number]))[0]).split("T")
        return day if time == "00:00:00.000000" else f"{day} {time.partition('.')[0]}"

    def numbers(self, values: Any) -> Rows:
        """Return numbers or dates that somebody asks about as encoded ones."""
        if not self.counted:
            return np.asarray(values, dtype=np.float64)
        try:
            if self.dated:
                dates = np.asarray(values, dtype="datetime64[us]")
                return np.where(np.isnat(dates), np.nan, dates.astype(np.float64))
            return (np.asarray(values, dtype=object) - self.origin).astype(np.float64)
        except (TypeError, ValueError):
            kind = "dates" if self.dated else "whole numbers"
            raise ValueError(
                f"Column {self.name} holds {kind}, and what is asked of it must be such, too."
            ) from None

    def written(self, numbers: Rows) -> NDArray[Any]:
        """Return encoded numbers as what they mean, not rounded to what public values are."""
        if not self.counted:
            return numbers
        numbers = np.asarray(numbers, dtype=np.float64)
        if self.dated:
            return self._dates(numbers)
        return np.ceil(numbers).astype(np.int64) + self.origin

    @staticmethod
    def _dates(numbers: Rows) -> NDArray[np.datetime64]:
        return np.ceil(numbers).astype(np.int64).astype("datetime64[us]")

    @property
    def names(self) -> list[Any]:
        """The categories by their codes, `OTHER` and `MISSING` being written out."""
        return [*self.values.tolist(), OTHER, MISSING]


PLAIN = {str, int, bool, type(None)}
"""Types of values that can be compared, and of which only None is missing."""


def is_missing(value: Any) -> bool:
    """Tell None, NaN, numpy's masked value and pandas' NA from all other values."""
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(value != value)


def to_numbers(values: NDArray[Any], name: str, origin: int = 0) -> Rows:
    """Convert a column to floats, each value on its own; an error quotes no value."""
    refusal = NotNumbersError(not_numbers([name]))
    numbers: Rows = guarded(_floats, values, origin, error=refusal)
    return numbers


def _floats(values: NDArray[Any], origin: int) -> Rows:
    missing = np.ma.getmaskarray(values)
    values = np.ma.getdata(values)
    if values.dtype.kind == "M":
        missing = missing | np.isnat(values)
        values = values.astype("datetime64[us]").astype(np.int64)
    parts = values.tolist() if values.dtype == object else [values]
    # numpy would take the real part and warn
    if any(isinstance(part, complex) or _kind(part) == "c" for part in parts):
        raise TypeError("complex")
    if origin and values.dtype.kind in "iu":  # wraps around where it is too far for a float anyway
        numbers = (values.astype(np.int64) - np.int64(origin)).astype(np.float64)
    else:
        numbers = np.asarray(values, dtype=np.float64) - origin
    # a signalling NaN is heard again and again
    return np.where(missing | np.isnan(numbers), np.nan, numbers)


def _kind(values: Any) -> str:
    """Return the kind of a type; "O" if there is none, or none of numpy's."""
    return str(getattr(getattr(values, "dtype", None), "kind", "O"))


def not_numbers(names: Sequence[str], nullable: bool = False) -> str:
    """Return what is said of private values of some columns, whichever of them will not do.

    Which of them it is, is withheld.
    """
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} others" if len(names) > 5 else "")
    columns = f"Column {listed}" if len(names) == 1 else f"Columns {listed}"
    if nullable:
        return (
            f"{columns} must hold numbers only, as among the public rows, and some value is "
            "neither a number nor missing (where is withheld); convert such values, or drop it."
        )
    return (
        f"{columns} must hold numbers only, none missing or infinite (each argument must be a "
        "string that is a number, or a number), and some value is not (where is withheld): X "
        "contains NaN, infinity, a value too large for float64, or text; drop such rows, fill "
        "them in, or use SemiPrivateBoostingClassifier, which takes missing values as they are."
    )


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
    ) -> Rows:
        """Return rows as floats, column by column in memory; each row on its own.

        Errors go by types of columns, of all rows if the table is but some of these.
        """
        encoded = np.empty(table.shape, order="F")
        refusal = NotNumbersError(not_numbers(*self._doubtful(types or table.types)))
        failed = False
        for position, column in enumerate(self.columns):
            if column.categorical:
                encoded[:, position] = guarded(table.codes, position, column.encode, error=refusal)
                continue
            values = guarded(table.column, position, error=refusal)
            try:
                encoded[:, position] = column.encode(values, clamp=clamp)
            except NotNumbersError:
                failed = True
        if failed:
            raise refusal
        return encoded

    def check(self, table: Table) -> int:
        """Refuse numbers that are none, where none may be missing; nothing else comes of it."""
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
            raise NotNumbersError(not_numbers(*self._doubtful(table.types)))
        return 0

    def _doubtful(self, types: Sequence[ColumnType]) -> tuple[list[str], bool]:
        """Return the columns of numbers whose type allows for values that will not do."""
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

    def decode(self, rows: Rows) -> Any:
        """Return rows in the container they came in."""
        return self.container.build(
            [column.decode(rows[:, position]) for position, column in enumerate(self.columns)]
        )

    def position(self, column: Any) -> int:
        """Return the position of a column given by its name or its position."""
        if isinstance(column, str) and column in self.names:
            return self.names.index(column)
        is_number = isinstance(column, int | np.integer | float) and 0 <= column < len(self.columns)
        if is_number and column == int(column):
            return int(column)
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
    whole = (distinct % 1 == 0).all() and (ends % 1 == 0).all() and np.abs(ends).max() < EXACT
    return Column(
        name,
        distinct,
        categorical=False,
        low=low,
        high=high,
        integral=bool(len(distinct) and whole),
        dated=type_.kind == DATE,
        origin=origin,
    )


def _public_numbers(values: NDArray[Any], name: str, origin: int) -> Rows:
    try:
        return to_numbers(values, name, origin)
    except NotNumbersError:
        raise NotNumbersError(
            f"Column {name} must hold numbers only, as its type or other public rows say; some "
            "public value is none: convert it, or declare the column as text."
        ) from None


def _origin(public: Sequence[Any]) -> int:
    """Return a public number from which floats count all whole numbers near the public ones."""
    whole = [np.ma.getdata(part) for part in public if np.ma.getdata(part).dtype.kind in "iu"]
    kept = [part for part in whole if len(part)]
    if not kept or len(whole) != len(public):
        return 0
    low, high = min(int(part.min()) for part in kept), max(int(part.max()) for part in kept)
    return 0 if -EXACT < low <= high < EXACT else (low + high) // 2
