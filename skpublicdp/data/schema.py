"""Schema of a table: columns described by public rows, declared types and bounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp._internal.redaction import NotNumbersError, call_or_raise, call_silently
from skpublicdp._internal.text import is_valid_text
from skpublicdp.data.column import MAX_EXACT_INTEGER, MISSING, OTHER, Column
from skpublicdp.data.container import Container
from skpublicdp.data.dates import dates_from_user
from skpublicdp.data.tables import (
    ANYTHING,
    BOOLEAN,
    CATEGORY,
    DATE,
    NUMBER,
    ColumnType,
    Table,
)
from skpublicdp.data.value_conversion import (
    is_missing,
    kind_of_object,
    not_numbers_message,
    public_numbers,
    types_with_dates,
    unreadable_message,
)
from skpublicdp.typing import Floats, Mask


def parse_bounds(
    bounds: Any,
    names: Sequence[str],
    types: Sequence[ColumnType] = (),
    labels: Sequence[Any] = (),
) -> dict[int, tuple[float, float]]:
    """Validate column bounds, and return them as a dict of position to (low, high).

    Parameters
    ----------
    bounds : array-like of shape (2,) or (n_columns, 2), mapping of column to pair, or None
        Bounds for all columns, or for some columns specified by name or position.
    names : sequence of str
        Names of the columns.
    types : sequence of ColumnType
        Types of the columns. If no types are given, all columns are numeric.
    labels : sequence
        Labels of the columns of a frame, as in `column_position`.

    Raises
    ------
    ValueError
        If a column is unknown, or if its bounds are not an increasing pair of finite numbers or
        dates.
    """
    if bounds is None:
        return {}
    if isinstance(bounds, Mapping):
        limits = {}
        for column, pair in bounds.items():
            position = column_position(column, names, labels)
            if position is None:
                raise ValueError(
                    f"bounds refers to a column that X does not have: {column!r}. The columns of X "
                    f"are {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}."
                )
            type_ = types[position] if types else ColumnType(NUMBER)
            limits[position] = _parse_pair(pair, f"bounds of column {column}", type_)
        return limits
    pairs = _parse_pairs(bounds, len(names)).tolist()
    return {position: (low, high) for position, (low, high) in enumerate(pairs)}


def bounds_by_position(bounds: Any, names: Sequence[str], labels: Sequence[Any] = ()) -> Any:
    """Return the validated parameter `bounds` with column names replaced by positions.

    Bounds that are not a mapping are returned unchanged. All columns are numeric.
    """
    limits = parse_bounds(bounds, names, labels=labels)
    return limits if isinstance(bounds, Mapping) else bounds


def has_numbers_as_names(labels: Sequence[Any]) -> bool:
    """Indicate whether a number is the name of a column instead of its position.

    This is the case if a label of a frame is a number, unless the labels are the positions.
    """
    are_positions = tuple(labels) == tuple(range(len(labels)))
    return not are_positions and any(isinstance(each, int | float | np.number) for each in labels)


def column_position(column: Any, names: Sequence[str], labels: Sequence[Any] = ()) -> int | None:
    """Return the position of a column specified by name or position, or None if unknown.

    If the labels of a frame are numbers, a number is a name and never a position.
    """
    if isinstance(column, str):
        return list(names).index(column) if column in names else None
    if has_numbers_as_names(labels):
        return list(labels).index(column) if column in labels else None
    if not isinstance(column, int | np.integer | float):
        return None
    is_position = 0 <= column < len(names) and column == int(column)
    return int(column) if is_position else None


def _parse_pair(pair: Any, subject: str, type_: ColumnType) -> tuple[float, float]:
    """Return a column's bounds (low, high) as floats, in microseconds since 1970 for dates.

    Parameters
    ----------
    pair : array-like of shape (2,)
        Bounds specified by the user. Dates without a time zone are read in that of the column.
    subject : str
        Subject of the error message, such as "bounds of column age".
    """
    is_date = type_.kind == DATE
    if is_date:
        ends, failure = call_silently(dates_from_user, pair, type_.time_zone)
    else:
        ends, failure = call_silently(np.asarray, pair, dtype=np.float64)
    if failure is None and ends.shape == (2,) and not (is_date and np.isnat(ends).any()):
        low, high = ends.astype(np.int64).tolist() if is_date else ends.tolist()
        if np.isfinite(low) and np.isfinite(high) and low < high:
            return float(low), float(high)
    raise ValueError(
        f"{subject} must be a pair of {'dates' if is_date else 'numbers'} (low, high), finite with "
        f"low < high; got {' '.join(repr(pair).split())}."
    )


def _parse_pairs(bounds: Any, n_features: int) -> Floats:
    """Return the bounds of all columns as an array of shape (n_features, 2)."""
    limits, failure = call_silently(np.asarray, bounds, dtype=np.float64)
    if failure is not None:
        raise ValueError(
            "bounds must contain numbers: one pair (low, high), or one pair per feature, shape "
            f"({n_features}, 2). At least one value is not a number."
        )
    if limits.shape not in {(2,), (n_features, 2)}:
        raise ValueError(
            f"bounds must be one pair (low, high), or one pair per feature, shape ({n_features}, "
            f"2); got shape {limits.shape}."
        )
    pairs: Floats = np.broadcast_to(limits, (n_features, 2))
    low, high = pairs.T
    invalid = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high) & (low < high)))
    if len(invalid):
        feature = int(invalid[0])
        raise ValueError(
            "bounds must be finite with low < high for every feature; got "
            f"({low[feature]:g}, {high[feature]:g}) for feature {feature}."
        )
    return pairs


def feature_labels(estimator: Any) -> tuple[Any, ...]:
    """Return the column labels of the frame seen in `fit` if all are numbers, or else ()."""
    return getattr(estimator, "_numbers_as_names", ())


__all__ = [
    "MISSING",
    "OTHER",
    "Coder",
    "Column",
    "Schema",
    "build_schema",
    "column_names",
]

Coder = Callable[[NDArray[Any]], NDArray[Any]]
"""Elementwise function that maps the values of a column, shape (n,), to n codes."""

MAX_DEFAULT_BOUND = 1e300
"""Maximum magnitude of the bounds of a column that are computed from smaller public values."""

REFERENCE_BOUND = 8.0
"""Default bound of a numeric column that has neither public values nor user-defined bounds. The
reference sample of such a column is standard normal and lies between -8 and 8.
"""


@dataclass(frozen=True, eq=False)
class Schema:
    """Descriptions of all columns and the container of the rows."""

    columns: tuple[Column, ...]  # descriptions of the columns, in order
    container: Container  # library and labels of the table passed to `fit`

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def labels(self) -> tuple[Any, ...]:
        """Labels of the columns of a frame, or an empty tuple for an array."""
        return self.container.labels if self.container.library is not None else ()

    @property
    def numeric(self) -> NDArray[np.bool_]:
        """Mask of the numeric columns."""
        return np.array([not column.categorical for column in self.columns])

    def encode(
        self, table: Table, *, clamp: bool = True, types: Sequence[ColumnType] | None = None
    ) -> Floats:
        """Encode the rows of a table as floats, shape (n_rows, n_columns), in Fortran order.

        Numbers are clipped to the bounds, and categories are converted to codes. Each row is
        encoded independently of all other rows.
        """
        encoded = np.empty(table.shape, order="F")
        coders = [partial(column.encode, clamp=clamp) for column in self.columns]
        for position, values in self._encoded_columns(table, coders, types):
            encoded[:, position] = values
        return encoded

    def codes(
        self, table: Table, coders: Sequence[Coder], types: Sequence[ColumnType] | None = None
    ) -> list[NDArray[Any]]:
        """Return a list with the codes of each column, shape (n_rows,)."""
        return [codes for _, codes in self._encoded_columns(table, coders, types)]

    def _encoded_columns(
        self, table: Table, coders: Sequence[Coder], types: Sequence[ColumnType] | None
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (position, codes) for each column, using the function for this column in `coders`.

        Errors about numbers are raised after the last column, so that they do not reveal which
        numeric column is invalid.
        """
        refusal = self._invalid_numbers_error(types or table.types)
        is_invalid = False
        for position, (column, coder) in enumerate(zip(self.columns, coders, strict=True)):
            if column.categorical:
                yield position, call_or_raise(table.map_distinct, position, coder, error=refusal)
                continue
            values = call_or_raise(table.column, position, error=refusal)
            try:
                yield position, coder(values)
            except NotNumbersError:
                is_invalid = True
        if is_invalid:
            raise refusal

    def check(self, table: Table) -> None:
        """Raise NotNumbersError if a numeric column has a missing, infinite or non-numeric value.

        Missing and infinite numbers are valid in nullable columns. The error does not reveal which
        column is invalid, since all columns are read before the error is raised, and the error
        message depends on types alone.
        """
        is_invalid = False
        for position, column in enumerate(self.columns):
            can_be_invalid = table.types[position].nullable or not table.is_frame
            if column.categorical or not can_be_invalid:
                continue
            values = table.column(position)
            if values.dtype.kind in "iub" and not np.ma.isMaskedArray(values):
                continue  # integers and booleans are finite
            try:
                numbers = column.to_numbers(values)
                is_invalid |= not column.nullable and not np.isfinite(numbers).all()
            except NotNumbersError:
                is_invalid = True
        if is_invalid:
            raise self._invalid_numbers_error(table.types)

    def _invalid_numbers_error(self, types: Sequence[ColumnType]) -> NotNumbersError:
        """Return the error about an invalid value in any numeric column.

        The message names all numeric columns whose types allow an invalid value. The message
        depends on types alone, since a private row determines which column is actually invalid.
        """
        numeric = [
            (column, type_)
            for column, type_ in zip(self.columns, types, strict=True)
            if not column.categorical
        ]
        # if numbers can be missing, every value in a column of numbers is valid
        columns = [
            column
            for column, type_ in numeric
            if type_.nullable and not (column.nullable and type_.kind == NUMBER)
        ]
        columns = columns or [column for column, _ in numeric]
        may_be_missing = all(column.nullable for column in columns)
        names = [column.name for column in columns]
        dates = [column.name for column in columns if column.is_datetime]
        error = NotNumbersError(not_numbers_message(names, may_be_missing, dates))
        error.names = () if may_be_missing else tuple(names)
        return error

    def decode(self, rows: Floats) -> Any:
        """Decode rows to the user's values, in a container of the kind that was passed to `fit`.

        Declared categories, time zones and public values decide the types. Missing values are
        missing.
        """
        columns = [
            column.restore(rows[:, position]) for position, column in enumerate(self.columns)
        ]
        categories = [
            column.possible_categories if column.categorical else None for column in self.columns
        ]
        time_zones = [column.time_zone for column in self.columns]
        return self.container.restore(columns, categories, time_zones)

    def has_known_categories(self, rows: Floats) -> Mask:
        """Indicate which encoded rows contain no unknown category, i.e. no `OTHER`."""
        is_known = np.ones(len(rows), dtype=bool)
        for position, column in enumerate(self.columns):
            if column.categorical:  # the code of `OTHER` follows the codes of the categories
                is_known &= rows[:, position] != len(column.values)
        return is_known

    def has_all_values(self, rows: Floats) -> Mask:
        """Indicate which encoded rows contain no missing value."""
        has_value = np.ones(len(rows), dtype=bool)
        for column, values in zip(self.columns, rows.T, strict=True):
            missing_code = len(column.values) + 1
            has_value &= values != missing_code if column.categorical else ~np.isnan(values)
        return has_value

    def is_possible(self, rows: Floats) -> Mask:
        """Indicate which encoded rows contain only values that the types of the columns allow."""
        possible = np.ones(len(rows), dtype=bool)
        for position, column in enumerate(self.columns):
            possible &= ~column.is_impossible(rows[:, position])
        return possible

    def replace_impossible(self, rows: Floats) -> Floats:
        """Replace values that the types of the columns exclude, in encoded rows.

        Each replacement is the value of another row in the same column (hot deck imputation).
        """
        rows = rows.copy()
        for position, column in enumerate(self.columns):
            is_replaced = column.is_impossible(rows[:, position])
            donors = rows[~is_replaced, position]
            if len(donors):
                rows[is_replaced, position] = np.resize(donors, int(is_replaced.sum()))
        return rows

    def decode_rowwise(self, rows: Floats, *, with_time_zones: bool = False) -> Any:
        """Return decoded rows in the same container as in `fit`, with column types from the schema.

        If the types depended on values, the result of a function for one row could depend on other
        rows. By default, dates are in UTC and have no time zone, since libraries cannot convert the
        remote dates that probe a model.
        """
        columns = [column.decode(rows[:, position]) for position, column in enumerate(self.columns)]
        if self.container.library is None:
            return self.container.build(columns)
        typed_columns = [
            self.container.typed_column(decoded, column.values)
            for decoded, column in zip(columns, self.columns, strict=True)
        ]
        values, types = zip(*typed_columns, strict=True)
        zones = [column.time_zone for column in self.columns] if with_time_zones else []
        return self.container.build(values, types, zones)

    def position(self, column: Any) -> int:
        """Return the position of a column specified by name or position."""
        position = column_position(column, self.names, self.labels)
        if position is not None:
            return position
        names = ", ".join(self.names[:10]) + (", ..." if len(self.names) > 10 else "")
        if has_numbers_as_names(self.labels):
            raise ValueError(
                "A column must be given by its name, because the names of the columns are numbers; "
                f"got {column!r}. The columns are {names}."
            )
        raise ValueError(
            f"A column must be given by its name or by its position below {len(self.columns)}; "
            f"got {column!r}. The columns are {names}."
        )


def build_schema(
    X: Table,
    public: Sequence[Table],
    *,
    bounds: ArrayLike | Mapping[Any, Any] | None = None,
    nullable: bool | Collection[int] = False,
    numeric: bool = False,
) -> Schema:
    """Build the schema of a table from public rows, bounds and the column types of `X`.

    Parameters
    ----------
    X : Table
        Table with all rows, from which only the column types are read.
    public : sequence of Table
        Public rows in several parts, with the columns of `X`. The sequence can be empty.
    bounds : array-like of shape (2,) or (n_features, 2), or mapping of column to pair, optional
        Bounds of numeric columns. By default, the bounds are the range of the public values,
        extended on each side by the width of this range.
    nullable : bool or collection of int, default=False
        Whether numeric columns can have missing values and infinities. A collection lists the
        positions of nullable columns, in addition to the columns with missing public numbers.
    numeric : bool, default=False
        Whether all columns are numeric.

    Returns
    -------
    Schema
        The columns.
    """
    names, X_types = column_names(X), types_with_dates(X, public)
    limits = parse_bounds(bounds, names, X_types, frame_labels(X))
    columns, declared = [], []
    for position, name in enumerate(names):
        public_parts = [table.column(position) for table in public]
        types = [X_types[position], *(table.types[position] for table in public)]
        declared.append(_declaring_type(types).declared_type)
        if not numeric and _is_categorical(types, X.is_frame, public_parts):
            columns.append(_categorical_column(name, types, public_parts))
        else:
            limit = limits.get(position)
            is_nullable: bool | None
            is_nullable = nullable if isinstance(nullable, bool) else position in nullable or None
            columns.append(_numeric_column(name, types[0], public_parts, limit, is_nullable))
    container = X.container
    if X.is_frame:
        container = replace(container, declared_types=tuple(declared))
    return Schema(tuple(columns), container)


def column_names(X: Table) -> list[str]:
    """Return the column names of a frame as strings. For an array, these are x0, x1 and so on."""
    return [str(label) if X.is_frame else f"x{label}" for label in X.labels]


def frame_labels(X: Table) -> tuple[Any, ...]:
    """Return the column labels of a frame, or an empty tuple for an array."""
    return X.labels if X.is_frame else ()


def _is_categorical(
    types: Sequence[ColumnType], is_frame: bool, public_parts: Sequence[Any]
) -> bool:
    """Indicate whether a column is categorical rather than numeric.

    The declared type decides, and in a column of dtype object public text or booleans. Booleans in
    arrays are treated as numbers.
    """
    kind = types[0].kind
    if kind in (NUMBER, DATE):
        return False
    if is_frame and (kind != ANYTHING or any(type_.kind == CATEGORY for type_ in types)):
        return True
    if is_frame and not public_parts:
        return True  # there is no evidence that an object column contains numbers
    if kind == BOOLEAN:
        return False
    return any(isinstance(value, str | bool) for part in public_parts for value in part.tolist())


def _categorical_column(
    name: str, types: Sequence[ColumnType], public_parts: Sequence[Any]
) -> Column:
    """Describe a categorical column, based on its public values and declared categories.

    A category that is called `OTHER` or `MISSING`, as in rows of an earlier release, is not a
    category of its own. Its rows are counted in the cell of this name.

    Parameters
    ----------
    types : sequence of ColumnType
        Types of the column in `X` and in the public tables.
    public_parts : sequence of ndarray
        Public values of the column in several parts.
    """
    values = [value for part in public_parts for value in np.asarray(part, dtype=object).tolist()]
    present = [value for value in values if not is_missing(value) and not _is_marker(value)]
    named = [value for type_ in types for value in type_.categories or ()]
    declared = [value for value in named if not _is_marker(value)]
    are_boolean = [isinstance(value, bool | np.bool_) for value in present + declared]
    all_boolean = all(are_boolean) and bool(are_boolean or types[0].kind == BOOLEAN)
    if all_boolean:
        declared = [False, True]  # domain of the type, which does not depend on any row
    if not all(map(is_valid_text, [*present, *declared])):
        raise ValueError(
            f"The categories of column {name} must be text that can be written in UTF-8, but at "
            "least one public or declared category contains surrogates. Replace them, for example "
            "with text.encode('utf-8', 'replace').decode()."
        )
    if not values and not declared:
        conversion = ""
        if types[0].kind == ANYTHING:
            conversion = (
                ". The type object does not say what the column contains: convert dates with "
                "pandas.to_datetime, and numbers with pandas.to_numeric"
            )
        raise ValueError(
            f"The categories of column {name} must come from public rows or from the column's "
            f"type. Pass X_public or is_public, or declare the categories{conversion}."
        )
    if not all(isinstance(value, Hashable) for value in present):
        raise ValueError(unreadable_message(name, dict.fromkeys(map(kind_of_object, present))))
    try:
        distinct = sorted({*present, *declared})
    except TypeError:  # values of several types
        distinct = sorted(
            {*present, *declared}, key=lambda value: (type(value).__name__, str(value))
        )
    categories = np.empty(len(distinct), dtype=object)
    categories[:] = distinct
    public_first = [*types[1:], types[0]]
    orders = [type_.categories for type_ in public_first if type_.ordered and type_.categories]
    declared_order = orders[0] if orders else ()
    # A boolean column is closed regardless of its type, since a missing private value may have
    # changed the type.
    declares_all = _declaring_type(types).categories is not None and OTHER not in named
    return Column(
        name,
        categories,
        categorical=True,
        is_closed=declares_all or all_boolean,
        # booleans of pandas have no missing values, which public values decide
        can_be_missing=not all_boolean or not values or len(present) < len(values),
        declared_order=declared_order,
    )


def _declaring_type(types: Sequence[ColumnType]) -> ColumnType:
    """Return the type that declares the categories of a column of `X`, if one of its types does.

    Types of public tables precede that of `X`, since one private value that is no category makes a
    column of `X` text or objects. A declared order precedes, because others have lost it.
    """
    X_type, *public_types = types
    candidates = [type_ for type_ in (*public_types, X_type) if type_.kind == CATEGORY]
    candidates.sort(key=lambda type_: (not type_.ordered, type_.categories is None))
    return candidates[0] if candidates else X_type


def _is_marker(value: Any) -> bool:
    """Indicate whether a category has the name of one of the two additional codes."""
    return isinstance(value, str) and value in (OTHER, MISSING)


def _numeric_column(
    name: str,
    type_: ColumnType,
    public_parts: Sequence[Any],
    limits: tuple[float, float] | None,
    nullable: bool | None,
) -> Column:
    """Describe a numeric column, based on its public values or its bounds.

    Parameters
    ----------
    type_ : ColumnType
        Type of the column in `X`.
    public_parts : sequence of ndarray
        Public values of the column in several parts.
    limits : (low, high) or None
        Bounds specified by the user.
    nullable : bool or None
        Whether the column can have missing values and infinities. With None, the column is nullable
        if a public value is missing.
    """
    offset, dates = _exact_offset(public_parts), type_.kind == DATE
    numbers = [public_numbers(part, name, offset, dates=dates) for part in public_parts]
    values = np.concatenate([np.empty(0), *numbers])
    if nullable is None:
        nullable = bool(np.isnan(values).any())
    if nullable:
        values = values[np.isfinite(values)]
    elif dates and not np.isfinite(values).all():
        raise ValueError(
            f"Input X contains a missing date in public rows of the column {name}. Drop these "
            "rows, or impute the values."
        )
    elif not np.isfinite(values).all():
        raise ValueError(
            f"Input X contains NaN or infinity in public rows of the numeric column {name}. Drop "
            "these rows, or impute the values."
        )
    distinct = np.unique(values)
    if limits is not None:
        low, high = limits[0] - offset, limits[1] - offset
    elif not len(distinct):
        low, high = -REFERENCE_BOUND, REFERENCE_BOUND
    else:
        # a single public value has no range, so its magnitude is used as the width
        low, high = distinct[[0, -1]].tolist()
        width = high - low or max(1.0, abs(low))  # infinite if the difference overflows
        limit = max(MAX_DEFAULT_BOUND, abs(low), abs(high))
        low, high = max(low - width, -limit), min(high + width, limit)
    # determined by public values, since a single missing private number would turn an integer
    # column into floats
    ends = np.array([low, high])
    are_whole_numbers = (distinct % 1 == 0).all() and (ends % 1 == 0).all()
    is_integral = are_whole_numbers and np.abs(ends).max() < MAX_EXACT_INTEGER
    return Column(
        name,
        distinct,
        categorical=False,
        low=low,
        high=high,
        integral=bool(len(distinct) and is_integral),
        nullable=nullable,
        is_datetime=dates,
        offset=offset,
        is_bounded=limits is not None,
        time_zone=type_.time_zone,
        can_be_missing=nullable,
    )


def _exact_offset(public_parts: Sequence[Any]) -> int:
    """Return an offset such that an integer column minus the offset is exact as floats.

    The offset is the middle of the public range if it extends beyond 2**53, and otherwise 0.
    """
    lows, highs = [], []
    for part in public_parts:
        integers = _present_integers(part)
        if integers is None:
            return 0
        if len(integers):
            lows.append(int(min(integers)))
            highs.append(int(max(integers)))
    if not lows:
        return 0
    low, high = min(lows), max(highs)
    is_exact = low > -MAX_EXACT_INTEGER and high < MAX_EXACT_INTEGER
    return 0 if is_exact else (low + high) // 2


def _present_integers(values: Any) -> Any:
    """Return the values that are not missing, or None if some of them are not integers."""
    if np.ma.isMaskedArray(values):
        values = values.compressed()
    if values.dtype.kind in "iu":
        return values
    if values.dtype != object:  # one private value of another type makes a column of objects
        return None
    present = [value for value in values.tolist() if not is_missing(value)]
    are_integers = all(
        isinstance(value, int | np.integer) and not isinstance(value, bool) for value in present
    )
    return present if are_integers else None
