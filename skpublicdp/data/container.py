"""Containers of decoded rows: arrays and frames with the types of the rows passed to `fit`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.dtypes import DType
from numpy.typing import NDArray

from skpublicdp.data.dates import dates_from_user

Values = NDArray[Any]
"""Values of one column, shape (n_rows,)."""


@dataclass(frozen=True)
class Container:
    """Library and column labels of a table, from which tables of the same kind can be built.

    It holds no rows.

    Attributes
    ----------
    library : str or None
        Name of a frame's library, such as "pandas", or None for arrays.
    labels : tuple
        Column labels.
    dtypes : tuple
        Types of the columns in the library: categories and dates with a time zone. Other columns
        have None, since a private value can decide their type. The tuple is empty for arrays.
    """

    library: str | None
    labels: tuple[Any, ...]
    dtypes: tuple[Any, ...] = ()

    def typed_column(self, column: Values, categories: NDArray[Any]) -> tuple[Values, DType]:
        """Return the values and the narwhals type of a frame column.

        For numbers and dates, the numpy type determines the narwhals type. For other columns, the
        public categories determine the type. The values never affect the type. In pandas,
        categories of several types are stored as objects, whereas other libraries store them as
        text. In other libraries, boolean categories become booleans, and missing values become
        False.

        Parameters
        ----------
        column : ndarray, shape (n_rows,)
            Decoded values, with dtype object for a categorical column.
        categories : ndarray
            Public categories.
        """
        if column.dtype != object:
            # by numpy's dtype.kind: floats, integers, dates
            types = {"f": nw.Float64(), "i": nw.Int64(), "u": nw.UInt64(), "M": nw.Datetime("us")}
            return column, types[column.dtype.kind]
        category_types = set(map(type, categories.tolist()))
        if self.library == "pandas":
            return column, nw.String() if category_types <= {str} else nw.Object()
        values = column.tolist()
        if category_types == {bool}:
            return np.array([value is True for value in values], dtype=bool), nw.Boolean()
        return object_array(list(map(str, values))), nw.String()

    @property
    def time_zones(self) -> tuple[str | None, ...]:
        """Time zone of each column of dates, or an empty tuple if the types are not known."""
        return tuple(map(time_zone_of, self.dtypes))

    def restore(self, columns: Sequence[Values], categories: Sequence[NDArray[Any] | None]) -> Any:
        """Combine columns into a frame or array with the types of the rows passed to `fit`.

        The types do not depend on the values. Numbers and dates that a type cannot represent are
        moved to its nearest number.

        Parameters
        ----------
        columns : sequence of ndarray, each of shape (n_rows,)
            Values of the columns. Missing values are None, NaN, NaT or masked.
        categories : sequence of ndarray or None
            Public categories of the categorical columns, and None for numbers and dates.
        """
        if not self.dtypes:
            plain = [np.ma.filled(c.astype(float), np.nan) if np.ma.isMA(c) else c for c in columns]
            return self.build(plain)
        if self.library is None:
            return restore_array(columns, self.dtypes[0])
        names = [str(number) for number in range(len(columns))]
        restored = [
            restore_series(self.library, name, *column).alias(name).to_frame()
            for name, *column in zip(names, columns, categories, self.dtypes, strict=True)
        ]
        return self._with_labels(nw.concat(restored, how="horizontal"), names)

    def build(
        self,
        columns: Sequence[Values],
        types: Sequence[DType] | None = None,
        time_zones: Sequence[str | None] = (),
        levels: Mapping[int, Sequence[str]] | None = None,
    ) -> Any:
        """Combine columns into a frame or array that has the library and labels of this container.

        An array has a numeric type if all columns are numeric, and otherwise dtype object.

        Parameters
        ----------
        columns : sequence of ndarray, each of shape (n_rows,)
            Values of the columns.
        types : sequence of narwhals types, optional
            Types of the columns of a frame. By default, the types are inferred from the values.
        time_zones : sequence of str or None, optional
            Time zones of the columns of a frame. Dates in these columns are read without a zone.
        levels : mapping of int to sequence of str, optional
            Ordered categories of text columns of a frame, by position. Libraries without ordered
            categories keep the text.
        """
        if self.library is None:
            if all(column.dtype.kind in "iuf" for column in columns):
                return np.column_stack(columns)
            array = np.empty((len(columns[0]), len(columns)), dtype=object)
            for position, column in enumerate(columns):
                array[:, position] = column
            return array
        # numbered because pandas labels need not be strings or distinct; renamed at the end
        names = [str(number) for number in range(len(columns))]
        # only pandas supports columns with values of several types
        if types is None and self.library != "pandas":
            columns = [_text_if_mixed(column) for column in columns]
        schema = None if types is None else dict(zip(names, types, strict=True))
        backend: Any = self.library
        plain = [
            dates_from_user(column, zone) if zone is not None else column
            for column, zone in itertools.zip_longest(columns, time_zones)
        ]
        frame = nw.from_dict(dict(zip(names, plain, strict=True)), schema, backend=backend)
        for name, zone in zip(names, time_zones, strict=False):
            if zone is not None:
                dates = nw.col(name).dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
                frame = frame.with_columns(dates)
        for position, categories in (levels or {}).items():
            if self.library != "pyarrow":
                ordered = nw.col(names[position]).cast(nw.Enum(categories))
                frame = frame.with_columns(ordered)
        return self._with_labels(frame, names)

    def _with_labels(self, frame: Any, names: Sequence[str]) -> Any:
        """Return a narwhals frame with numbered columns as a frame of its library."""
        native = frame.to_native()
        if hasattr(native, "set_axis"):  # pandas, whose labels need not be strings
            return native.set_axis(list(self.labels), axis=1)
        return frame.rename(dict(zip(names, self.labels, strict=True))).to_native()


def object_array(values: list[Any]) -> Values:
    """Return a one-dimensional array of dtype object, without inferring a type from the values."""
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def _text_if_mixed(column: Values) -> Values:
    """Convert a column whose values have several Python types to text."""
    has_one_type = column.dtype != object or len(set(map(type, column.tolist()))) < 2
    return column if has_one_type else column.astype(str)


def restore_array(columns: Sequence[Values], dtype: np.dtype[Any]) -> Values:
    """Return columns as an array of a numpy dtype.

    For dtype object, the result is numeric if all columns are numeric.
    """
    if dtype.kind in "biufM":
        return np.column_stack([_as_numpy(column, dtype) for column in columns])
    if all(column.dtype.kind in "iuf" for column in columns):
        # a list of rows, in which a private value could change the type
        return np.column_stack([_plain_numbers(column) for column in columns])
    array = np.empty((len(columns[0]), len(columns)), dtype=object)
    for position, column in enumerate(columns):
        array[:, position] = np.ma.filled(column.astype(object), None)
    return array


def _plain_numbers(column: Values) -> Values:
    """Return numbers as floats if some can be missing, or else unchanged."""
    return np.ma.filled(column.astype(float), np.nan) if np.ma.isMaskedArray(column) else column


def restore_series(
    library: str, name: str, column: Values, categories: Values | None, dtype: Any
) -> Any:
    """Return a column as a narwhals series with a given type of a data frame library.

    Parameters
    ----------
    library : str
        Name of the library.
    name : str
        Name of the series.
    column : ndarray, shape (n_rows,)
        Values. Missing values are None, NaN, NaT or masked.
    categories : ndarray or None
        Public categories, or None for numbers and dates.
    dtype : object
        Type of the column in the library.
    """
    if categories is not None:
        return _restore_categories(library, name, column, categories, dtype)
    if column.dtype.kind == "M":
        return _restore_dates(library, name, column, dtype)
    return _restore_numbers(library, name, column, dtype)


def _restore_categories(
    library: str, name: str, column: Values, categories: Values, dtype: Any
) -> Any:
    """Return a series of text, booleans or categories. Missing values are None in `column`."""
    backend: Any = library
    category_types = set(map(type, categories.tolist()))
    if dtype is None and category_types == {bool} and {*map(type, column.tolist())} <= {bool}:
        return nw.new_series(name, column.astype(bool), nw.Boolean(), backend=backend)
    if dtype is None and category_types <= {str}:  # public categories decide the type
        return nw.new_series(name, column.tolist(), nw.String(), backend=backend)
    if library not in ("polars", "pyarrow"):
        series = nw.new_series(name, column, nw.Object(), backend=backend)
        if hasattr(dtype, "categories"):
            dtype = type(dtype)(_with_public_categories(dtype, categories), ordered=dtype.ordered)
        return _cast(series, dtype)
    are_booleans = set(map(type, categories.tolist())) == {bool}
    values = column.tolist()
    if not are_booleans:
        values = [None if value is None else str(value) for value in values]
    type_ = nw.Boolean() if are_booleans else nw.String()
    series = nw.new_series(name, values, type_, backend=backend)
    if isinstance(_cast(series[:0], dtype).dtype, nw.Enum):
        dtype = type(dtype)(_with_public_categories(dtype, categories))
    return _cast(series, dtype)


def _with_public_categories(dtype: Any, categories: Values) -> list[Any]:
    """Return the categories of a declared type, followed by those that only public rows have."""
    declared = list(dtype.categories)
    return declared + [value for value in categories.tolist() if value not in declared]


def _restore_dates(library: str, name: str, column: Values, dtype: Any) -> Any:
    """Return a series of dates, which `column` contains in UTC."""
    backend: Any = library
    type_ = _cast(nw.new_series(name, column[:0], backend=backend), dtype, utc=True).dtype
    if isinstance(type_, nw.Datetime):  # some units cannot represent all years
        column = _as_numpy(column, np.dtype(f"datetime64[{type_.time_unit}]"))
    series = nw.new_series(name, column.astype("datetime64[us]"), backend=backend)
    return _cast(series, dtype, utc=True)


def _restore_numbers(library: str, name: str, column: Values, dtype: Any) -> Any:
    """Return a series of numbers with a type of numbers. Other types become floats or integers."""
    backend: Any = library
    is_missing = np.ma.getmaskarray(column)
    values = np.ma.getdata(column)
    if values.dtype.kind == "f":
        is_missing = is_missing | np.isnan(values)
        values = np.where(is_missing, 0, values)
    type_: Any = nw.Object()
    if not (isinstance(dtype, np.dtype) and dtype.kind == "O"):
        type_ = _cast(nw.new_series(name, values[:0], backend=backend), dtype).dtype
    is_plain = type(dtype).__name__ == "SparseDtype" or not type_.is_numeric()
    is_plain = is_plain or type_.is_decimal() or type_ in (nw.Int128(), nw.UInt128())
    if is_plain:
        integers = {"i": nw.Int64(), "u": nw.UInt64()}
        type_ = nw.Float64() if is_missing.any() else integers.get(values.dtype.kind, nw.Float64())
        dtype = None
    values = _as_numpy(values, np.dtype(str(type_).lower()))
    if not is_missing.any():
        return _cast(nw.new_series(name, values, backend=backend), dtype)
    if isinstance(dtype, np.dtype) or dtype is None:  # only floats have missing values
        values = values if values.dtype.kind == "f" else values.astype(np.float64)
        values[is_missing] = np.nan
        return nw.new_series(name, values, backend=backend)
    series = _cast(nw.new_series(name, values, backend=backend), dtype)
    native = series.to_native()
    if hasattr(native, "mask"):  # pandas
        return nw.from_native(native.mask(is_missing), series_only=True)
    listed: list[Any] = values.tolist()
    for position in np.flatnonzero(is_missing).tolist():
        listed[position] = None
    return _cast(nw.new_series(name, listed, type_, backend=backend), dtype)


def _cast(series: Any, dtype: Any, *, utc: bool = False) -> Any:
    """Return a narwhals series with a type of its library, or unchanged if the type is None.

    With `utc`, dates without a time zone are converted from UTC to the time zone of the type.
    """
    if dtype is None:
        return series
    time_zone = time_zone_of(dtype)
    if utc and time_zone is not None:
        series = series.dt.replace_time_zone("UTC").dt.convert_time_zone(time_zone)
    native = series.to_native()
    if hasattr(native, "astype"):  # pandas
        return nw.from_native(native.astype(dtype), series_only=True)
    options = {"safe": False} if hasattr(native, "combine_chunks") else {}  # pyarrow
    return nw.from_native(native.cast(dtype, **options), series_only=True)


def time_zone_of(dtype: Any) -> str | None:
    """Return the time zone of a type of any data frame library, or None if it has none."""
    dtype = getattr(dtype, "pyarrow_dtype", dtype)
    time_zone = getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None)
    return None if time_zone is None else str(time_zone)


def _as_numpy(column: Values, dtype: np.dtype[Any]) -> Values:
    """Return numbers, booleans or dates as a numpy dtype, moved into the range of this dtype."""
    if dtype.kind == "M":
        if np.datetime_data(dtype)[0] == "ns":  # other units have a wider range
            limit = np.datetime64((2**63 - 1) // 1000, "us")
            column = np.clip(column, np.datetime64(-((2**63 - 1) // 1000), "us"), limit)
        return column.astype(dtype)
    if dtype.kind == "f":
        limit = np.finfo(dtype).max
        floats = np.ma.filled(column.astype(np.float64), np.nan)
        return np.clip(floats, -limit, limit).astype(dtype)
    if dtype.kind == "b":
        return column.astype(np.float64) > 0
    if column.dtype.kind == "f":  # as in `Column.decode`
        column = np.ceil(column)
    limits_of_type = np.iinfo(dtype)
    if column.dtype.kind == "f" and limits_of_type.max > 2**53:  # the largest integer is no float
        highest = np.nextafter(float(limits_of_type.max), 0)
        return np.clip(column, float(limits_of_type.min), highest).astype(dtype)
    limits_of_column = np.iinfo(column.dtype)
    low = max(limits_of_type.min, limits_of_column.min)
    high = min(limits_of_type.max, limits_of_column.max)
    return np.clip(column, low, high).astype(dtype)
