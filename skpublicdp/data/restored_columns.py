"""Decoded columns as arrays and series that have the types of the rows passed to `fit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]


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
        type_ = nw.Int64() if values.dtype.kind == "i" and not is_missing.any() else nw.Float64()
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
    low, high = max(limits_of_type.min, -(2**63)), min(limits_of_type.max, 2**63 - 1)
    return np.clip(column, low, high).astype(dtype)
