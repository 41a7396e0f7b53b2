"""Columns as public rows describe them: numbers within bounds, categories, and bins of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp.guard import NotNumbersError, guarded

Rows = NDArray[np.float64]
Codes = NDArray[np.int64]

OTHER, MISSING = "(other)", "(missing)"
"""How a category that no public row has, and a missing value, are written out."""


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
    """

    name: str
    values: NDArray[Any]
    categorical: bool
    low: float = -np.inf
    high: float = np.inf
    integral: bool = False
    nullable: bool = False

    @property
    def n_categories(self) -> int:
        """Number of codes: the categories, then those of `OTHER` and `MISSING`."""
        return len(self.values) + 2

    def encode(self, values: NDArray[Any], *, clamp: bool = True) -> Rows:
        """Return numbers within the bounds, or codes of categories; each value on its own."""
        if self.categorical:
            values = np.asarray(values, dtype=object)
            refusal = ValueError(f"Column {self.name} could not be read.")
            codes: Rows = guarded(self._codes, values, error=refusal)
            return codes
        numbers = to_numbers(values, self.name)
        if not self.nullable and not np.isfinite(numbers).all():
            raise NotNumbersError(_numbers_only([self.name], self.nullable))
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
        if self.integral:
            # up: as many are at or below each integer as before
            return np.ceil(numbers).astype(np.int64)
        if not self.categorical:
            return numbers
        names = np.empty(self.n_categories, dtype=object)
        names[:] = self.names
        decoded: NDArray[Any] = names[numbers.astype(np.intp)]
        return decoded

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


def to_numbers(values: NDArray[Any], name: str) -> Rows:
    """Convert a column to floats; an error quotes no value."""
    numbers: Rows = guarded(_floats, values, error=NotNumbersError(_numbers_only([name], True)))
    return numbers


def _floats(values: NDArray[Any]) -> Rows:
    parts = values.tolist() if values.dtype == object else [values]
    # numpy would take the real part and warn
    if any(isinstance(part, complex) or _kind(part) == "c" for part in parts):
        raise TypeError("complex")
    numbers = np.asarray(values, dtype=np.float64)
    return np.where(np.isnan(numbers), np.nan, numbers)  # a signalling NaN is heard again and again


def _kind(values: Any) -> str:
    """Return the kind of a type; "O" if there is none, or none of numpy's."""
    return str(getattr(getattr(values, "dtype", None), "kind", "O"))


def _numbers_only(names: list[str], nullable: bool) -> str:
    """Return what is said of numeric columns, whichever of them is wrong, and whatever with it."""
    first = names[0] if names else "x0"
    others = ", and so must all other numeric columns (which does not is withheld)"
    return (
        f"Column {first} must hold numbers only, as it does among the public rows"
        f"{others if len(names) > 1 else ''}: each argument must be a string that is a number, or "
        "a number"
        + ("." if nullable else f". There may be no infinity and no NaN in column {first}.")
    )


@dataclass(frozen=True, eq=False)
class Schema:
    """All columns and the container that rows came in.

    Attributes
    ----------
    columns : tuple of Column
        One per column.
    frame : type or None
        The class of data frames rows came as; None for arrays.
    labels : tuple
        Column labels of the frame.
    """

    columns: tuple[Column, ...]
    frame: type | None
    labels: tuple[Any, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def numeric(self) -> NDArray[np.bool_]:
        """Which columns are numeric."""
        return np.array([not column.categorical for column in self.columns])

    def encode(self, X: Any, *, clamp: bool = True) -> Rows:
        """Return rows as floats; each row on its own, and an error names no single column."""
        names = [column.name for column in self.columns if not column.categorical]
        refusal = NotNumbersError(_numbers_only(names, any(c.nullable for c in self.columns)))
        parts = guarded(split_columns, X, error=refusal)
        try:
            encoded = [
                column.encode(values, clamp=clamp)
                for column, values in zip(self.columns, parts, strict=True)
            ]
        except NotNumbersError:
            encoded = None
        if encoded is None:
            raise refusal
        return np.ascontiguousarray(np.array(encoded).reshape(len(encoded), -1).T)

    def decode(self, rows: Rows) -> Any:
        """Return rows in the container they came in."""
        parts = [column.decode(rows[:, position]) for position, column in enumerate(self.columns)]
        if self.frame is not None:
            return self.frame(dict(enumerate(parts))).set_axis(list(self.labels), axis=1)
        if self.numeric.all():
            return np.column_stack(parts)
        decoded = np.empty(rows.shape, dtype=object)
        for position, part in enumerate(parts):
            decoded[:, position] = part
        return decoded

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


def split_columns(X: Any) -> list[NDArray[Any]]:
    """Return the columns of a frame or an array."""
    if hasattr(X, "iloc"):
        return [_values(X.iloc[:, position]) for position in range(X.shape[1])]
    return [X[:, position] for position in range(X.shape[1])]


def _values(series: Any) -> NDArray[Any]:
    """Return a column of a frame; a missing number becomes NaN."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return np.asarray(series)
    if getattr(dtype, "kind", "O") in "fiu" and dtype.name != "category":
        values: NDArray[Any] = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return values
    return np.asarray(series.astype(object), dtype=object)


def build_schema(
    X: Any,
    public: Sequence[Any],
    *,
    names: Sequence[str],
    bounds: ArrayLike | Mapping[Any, Any] | None = None,
    nullable: bool = False,
) -> Schema:
    """Describe columns by public rows, and by the types of the columns of `X`.

    Parameters
    ----------
    X : DataFrame or ndarray
        All rows, looked at for column types only: which columns may be categorical.
    public : sequence of DataFrame or ndarray
        Parts of the public rows, of the columns of `X`; may be empty.
    names : sequence of str
        Names of the columns.
    bounds : array-like of shape (2,) or (n_features, 2), or mapping of column to pair, optional
        Bounds of numeric columns, by default the public range widened by itself on each side.
    nullable : bool, default=False
        Whether numeric columns may have missing values and infinities.

    Returns
    -------
    Schema
        The columns.
    """
    parts = [split_columns(part) for part in public]
    limits = _limits(bounds, names)
    columns = []
    for position, name in enumerate(names):
        of_public = [part[position] for part in parts]
        values = np.concatenate(of_public) if of_public else np.empty(0)
        if _is_categorical(X, position, values):
            columns.append(_categorical(X, position, name, values))
        else:
            numbers = to_numbers(values, name)
            if nullable:
                numbers = numbers[np.isfinite(numbers)]
            described = _numeric(name, numbers, limits.get(position))
            columns.append(replace(described, nullable=nullable))
    frame = type(X) if hasattr(X, "iloc") else None
    labels = tuple(X.columns) if frame is not None else tuple(range(len(names)))
    return Schema(tuple(columns), frame, labels)


def _is_categorical(X: Any, position: int, public: NDArray[Any]) -> bool:
    """Decide by the type of the column and, where it may hold anything, by the public values."""
    dtype = X.iloc[:, position].dtype if hasattr(X, "iloc") else X.dtype
    kind = getattr(dtype, "kind", "O")
    if kind in "iuf" and getattr(dtype, "name", "") != "category":
        return False
    if kind in "mM":
        raise ValueError("A column of dates must be turned into numbers first.")
    if kind == "b":
        return hasattr(X, "iloc")
    if hasattr(X, "iloc") and not isinstance(dtype, np.dtype):
        return True
    if hasattr(X, "iloc") and not len(public):
        return True
    return any(isinstance(value, str | bool) for value in public.tolist())


def _categorical(X: Any, position: int, name: str, values: NDArray[Any]) -> Column:
    kept = [value for value in values.tolist() if not is_missing(value)]
    declared = hasattr(X, "iloc") and _kind(X.iloc[:, position]) == "b"
    if (kept or declared) and all(isinstance(value, bool | np.bool_) for value in kept):
        kept = [False, True]  # known without looking at a row
    if not len(values) and not kept:
        raise ValueError(
            f"Column {name} is categorical, and only public rows may say which categories there "
            "are; pass X_public or is_public."
        )
    try:
        distinct = sorted(set(kept))
    except TypeError:
        distinct = sorted(set(kept), key=lambda value: (type(value).__name__, str(value)))
    categories = np.empty(len(distinct), dtype=object)
    categories[:] = distinct
    return Column(name, categories, categorical=True)


def _numeric(name: str, values: Rows, limits: tuple[float, float] | None) -> Column:
    if not np.isfinite(values).all():
        raise ValueError(
            f"Input X contains NaN or infinity in public rows of the numeric column {name}."
        )
    distinct = np.unique(values)
    if limits is None:
        if not len(distinct):
            limits = -8.0, 8.0  # of standard-normal reference rows
        else:
            width = distinct[-1] - distinct[0] or max(1.0, abs(distinct[0]))
            limits = distinct[0] - width, distinct[-1] + width
    low, high = map(float, limits)
    # not by the type of the column, which one missing private number makes another
    ends = np.array([low, high])
    whole = (distinct % 1 == 0).all() and (ends % 1 == 0).all() and np.abs(ends).max() < 2**53
    integral = bool(len(distinct) and whole)
    return Column(name, distinct, categorical=False, low=low, high=high, integral=integral)


def _limits(bounds: Any, names: Sequence[str]) -> dict[int, tuple[float, float]]:
    if bounds is None:
        return {}
    if isinstance(bounds, Mapping):
        unknown = [column for column in bounds if column not in names]
        if unknown:
            raise ValueError(f"bounds names a column that X does not have: {unknown[0]!r}.")
        limits = {}
        for column, pair in bounds.items():
            (low,), (high,) = check_bounds([pair], 1)
            limits[list(names).index(column)] = float(low), float(high)
        return limits
    lows, highs = check_bounds(bounds, len(names))
    return dict(enumerate(zip(lows.tolist(), highs.tolist(), strict=True)))


def check_bounds(
    bounds: ArrayLike, n_features: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Validate bounds as (low, high), two arrays of shape (n_features,)."""
    limits = np.asarray(bounds, dtype=np.float64)
    if limits.shape not in {(2,), (n_features, 2)}:
        raise ValueError(
            f"bounds must be one pair (low, high) or one per feature, shape ({n_features}, 2); "
            f"got shape {limits.shape}."
        )
    low, high = np.broadcast_to(limits, (n_features, 2)).T
    if not (np.isfinite(limits).all() and (low < high).all()):
        raise ValueError("bounds must be finite with low < high for every feature.")
    return low, high
