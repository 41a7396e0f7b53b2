"""Single columns of labels or outcomes, for all libraries that narwhals reads."""

from __future__ import annotations

import sys
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.tables import (
    ANYTHING,
    TEXT,
    UNUSABLE,
    ColumnType,
    is_frame,
    narwhals_type,
    numpy_type,
    pick_column,
    table_width,
    to_narwhals,
)
from skpublicdp.typing import Codes


def as_series(column: Any) -> Any:
    """Return the only column of a frame, an index or an array of a library as its series.

    Series, numpy arrays, lists and other objects are returned unchanged.
    """
    if is_frame(column) and table_width(column) == 1:
        return pick_column(column, 0)
    library = type(column).__module__.split(".")[0]
    if library == "pandas" and not hasattr(column, "iloc"):
        return sys.modules[library].Series(column)
    if library == "pyarrow" and hasattr(column, "to_pylist") and not is_frame(column):
        arrow: Any = sys.modules[library]
        return column if isinstance(column, arrow.ChunkedArray) else arrow.chunked_array([column])
    return column


def declared_type(column: Any) -> ColumnType:
    """Return the declared type of labels in any container, on which no value has an effect.

    The type of a list is open, and so is a type that narwhals does not know.
    """
    series = as_series(column)
    dtype = getattr(series, "dtype", None)
    if isinstance(dtype, np.dtype):
        return numpy_type(dtype)
    wrapped = to_narwhals(series)
    if not isinstance(wrapped, nw.Series):
        return ColumnType(ANYTHING)
    # a dictionary of Arrow has values of any type
    arrow_type = getattr(dtype, "pyarrow_dtype", getattr(series, "type", None))
    value_type = str(getattr(arrow_type, "value_type", ""))
    if wrapped.dtype == nw.Categorical and value_type:
        return ColumnType(TEXT if "string" in value_type else ANYTHING)
    type_ = narwhals_type(wrapped.dtype, series)
    return type_ if type_.usable or type_.kind in UNUSABLE.values() else ColumnType(ANYTHING)


def integer_values(series: Any) -> NDArray[Any] | None:
    """Return the values of a series of integers, or None if values are missing or not integers."""
    wrapped = to_narwhals(series)
    if not isinstance(wrapped, nw.Series) or not wrapped.dtype.is_integer() or wrapped.null_count():
        return None
    return np.asarray(wrapped.to_numpy())


def distinct_values(series: Any) -> Any:
    """Return the distinct values of a series, or None if its library cannot find them quickly.

    Distinct values are found quickly in non-empty series of text, booleans or integers.
    """
    wrapped = to_narwhals(series)
    if not isinstance(wrapped, nw.Series) or not len(wrapped):
        return None
    is_fast = wrapped.dtype in (nw.String, nw.Boolean) or wrapped.dtype.is_integer()
    return wrapped.unique().to_native() if is_fast else None


def replace_values(series: Any, distinct: Any, codes: Codes) -> Codes:
    """Return the code of each value in a series, given the distinct values and their codes."""
    values = to_narwhals(distinct).to_list()
    coded = to_narwhals(series).replace_strict(values, codes.tolist(), return_dtype=nw.Int64)
    return np.asarray(coded.to_numpy(), dtype=np.intp)
