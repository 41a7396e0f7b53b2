"""A common interface to arrays and data frames in memory, for all libraries that narwhals reads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.dtypes import DType
from numpy.typing import NDArray

from skpublicdp.data.container import Container, DeclaredType, object_array
from skpublicdp.data.dates import name_of_time_zone, read_time_zone
from skpublicdp.typing import Codes

ColumnValues = NDArray[Any]
"""Values of one column, shape (n_rows,)."""

NUMBER, BOOLEAN, TEXT, CATEGORY, DATE = "numbers", "booleans", "text", "categories", "dates"
ANYTHING = "anything"
"""Kinds of columns according to their declared types, as they appear in messages. ANYTHING denotes
dtype object."""

MIN_REPETITIONS = 2
"""Minimum mean number of rows per distinct string at which each distinct string is encoded only
once. If strings are repeated less often, a lookup table is slower than encoding each row.
"""

MIN_FACTORIZED = 32
"""Minimum number of rows of a pandas column of text at which distinct strings are searched for."""

UNUSABLE: dict[type, str] = {
    nw.List: "lists",
    nw.Array: "lists",
    nw.Struct: "structs",
    nw.Binary: "bytes",
    nw.Time: "times of day",
    nw.Duration: "durations",
}
"""Names that messages use for unreadable column types."""


@dataclass(frozen=True)
class ColumnType:
    """Declared type of a column. The type does not depend on values."""

    kind: str  # one of the column kinds, or the name of an unreadable type
    # declared categories of a categorical column, or None if the type declares no categories
    categories: tuple[Any, ...] | None = None
    nullable: bool = True  # whether values can be missing
    ordered: bool = False  # whether the type declares an order of categories
    time_zone: str | None = None  # time zone of dates, or None if the type declares no time zone

    @property
    def declared_type(self) -> DeclaredType | None:
        """Declared categories, or None for a column that is not categorical."""
        return DeclaredType(self.categories, self.ordered) if self.kind == CATEGORY else None

    @property
    def usable(self) -> bool:
        """Whether columns of this type can be read."""
        return self.kind in (NUMBER, BOOLEAN, TEXT, CATEGORY, DATE, ANYTHING)


def is_frame(X: Any) -> bool:
    """Indicate whether X is a data frame in memory."""
    return _as_frame(X) is not None


def _as_frame(X: Any) -> Any:
    """Return X if it is a pandas frame, or wrap a frame of another library with narwhals.

    If X is not a frame in memory but an array, a list, a series or a lazy frame, the result is
    None.
    """
    if isinstance(X, np.ndarray | list | tuple):
        return None
    if hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2:
        return X  # narwhals does not accept frames with duplicate column names
    wrapped = to_narwhals(X)
    return wrapped if isinstance(wrapped, nw.DataFrame) else None


class Table:
    """Array or frame with rows and columns.

    Parameters
    ----------
    native : ndarray of two dimensions, or DataFrame
        The rows.
    """

    def __init__(self, native: Any) -> None:
        self.native = native
        self._frame = _as_frame(native)

    @property
    def is_frame(self) -> bool:
        """Whether the table is a frame."""
        return self._frame is not None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns."""
        rows, columns = self.native.shape
        return int(rows), int(columns)

    @cached_property
    def labels(self) -> tuple[Any, ...]:
        """Column labels of a frame. For an array, the labels are 0, 1, and so on."""
        if not self.is_frame:
            return tuple(range(self.native.shape[1]))
        if hasattr(self.native, "column_names"):
            return tuple(self.native.column_names)
        return tuple(self.native.columns)

    @cached_property
    def types(self) -> tuple[ColumnType, ...]:
        """Declared type of each column."""
        if not self.is_frame:
            return (numpy_type(self.native.dtype),) * self.shape[1]
        return tuple(self._declared_type(position) for position in range(self.shape[1]))

    def column(self, position: int) -> ColumnValues:
        """Return the values of the column at a given position, as an array of shape (n_rows,).

        Numbers keep their type, dates are converted to datetime64, and other values are Python
        objects. An integer column with missing values is returned as a masked array. All other
        missing numbers are NaN, and missing objects are None or NaN.
        """
        if not self.is_frame:
            return self.native[:, position]
        native = self._native_column(position)
        if isinstance(getattr(native, "dtype", None), np.dtype):
            return np.asarray(native)
        return _series_values(self._series(position), self.types[position])

    def map_distinct(
        self, position: int, encode: Callable[[ColumnValues], NDArray[Any]]
    ) -> NDArray[Any]:
        """Return the codes that an elementwise function assigns to the values of a column.

        For a text column, the function is called only once per distinct value if these values can
        be found quickly.

        Parameters
        ----------
        position : int
            Position of the column.
        encode : callable
            Function that maps values to codes, both arrays of shape (k,). Missing strings are
            passed as None.
        """
        values, indices = self.distinct(position)
        codes = encode(values)
        return codes if indices is None else np.take(codes, indices)

    def distinct(self, position: int) -> tuple[ColumnValues, Codes | None]:
        """Return distinct values of a column, and the index of the value of each row.

        Some values may occur in no row or twice. The indices are None if the values are those of
        the rows, since distinct values cannot be found quickly. A missing string is None or NaN.
        """
        if not self.is_frame or self.types[position].kind not in (TEXT, CATEGORY):
            return self.column(position), None
        native = self._native_column(position)
        if hasattr(native, "factorize"):  # pandas
            return _distinct_in_pandas(native, self.types[position].categories)
        if hasattr(native, "dictionary_encode"):  # pyarrow
            return _distinct_in_arrow(native)
        series = self._series(position).cast(nw.String)
        distinct = series.unique()
        if len(series) < MIN_REPETITIONS * len(distinct) or distinct.is_null().all():
            return self.column(position), None
        return object_array(distinct.to_list()), replace_values(series, distinct)

    def take(self, positions: Codes) -> Table:
        """Return the rows at given positions."""
        return Table(take_rows(self.native, positions))

    def select(self, labels: Sequence[Any]) -> Table:
        """Return the columns with given labels, in the order of the labels."""
        positions = [self.labels.index(label) for label in labels]
        unchanged = positions == list(range(self.shape[1]))
        return self if unchanged else Table(pick_columns(self.native, positions))

    @property
    def container(self) -> Container:
        """Library and column labels of the table."""
        if not self.is_frame:
            return Container(None, self.labels)
        # a slice without rows, since narwhals rejects pandas frames with duplicate column names
        wrapped = nw.from_native(self.native.iloc[:0, :0]) if self._has_iloc else self._frame
        # A private value can decide whether a column has integers, floats, booleans or objects, so
        # only declared categories are kept.
        declared = tuple(type_.declared_type for type_ in self.types)
        return Container(str(wrapped.implementation.value), self.labels, declared)

    @property
    def _has_iloc(self) -> bool:
        """Whether rows are selected with `iloc`, as in pandas."""
        return hasattr(self.native, "iloc")

    @cached_property
    def _pandas_columns(self) -> list[Any]:
        """Columns of a pandas frame, since selecting each of them with `iloc` takes longer."""
        return [series for _, series in self.native.items()]

    def _native_column(self, position: int) -> Any:
        """Return the column at a given position of a frame, as a series of its library."""
        if self._has_iloc:
            return self._pandas_columns[position]
        return self._series(position).to_native()

    def _series(self, position: int) -> Any:
        """Return the column at a given position of a frame, as a narwhals series."""
        if self._has_iloc:
            return nw.from_native(self._pandas_columns[position], series_only=True)
        return self._frame.get_column(self.labels[position])

    def _declared_type(self, position: int) -> ColumnType:
        """Return the declared type of the column at a given position of a frame."""
        native = self._native_column(position)
        if self._has_iloc:
            dtype = native.dtype
            if isinstance(dtype, np.dtype):
                # narwhals would infer the type of an object column from its values
                return numpy_type(dtype)
            # narwhals reads these types, too, but takes longer
            if dtype.type is str:
                return ColumnType(TEXT)
            if hasattr(dtype, "categories"):
                categories = _declared_categories(native)
                return ColumnType(CATEGORY, categories, ordered=bool(dtype.ordered))
        series = self._series(position)
        return narwhals_type(series.dtype, native)


def numpy_type(dtype: np.dtype[Any]) -> ColumnType:
    """Return the type of a column with a numpy dtype."""
    kind = _KIND_OF_NUMPY_KIND.get(dtype.kind, f"values of type {dtype}")
    can_be_missing = dtype.kind not in "biu"  # booleans and integers have no missing values
    return ColumnType(kind, nullable=can_be_missing)


_KIND_OF_NUMPY_KIND = {
    "b": BOOLEAN,
    "i": NUMBER,
    "u": NUMBER,
    "f": NUMBER,
    "c": "complex numbers",
    "m": "durations",
    "M": DATE,
    "O": ANYTHING,
    "S": "bytes",
    "U": TEXT,
    "T": TEXT,
}
"""Kind of a column for each numpy `dtype.kind`. Types such as "complex numbers" cannot be read."""


def narwhals_type(dtype: DType, native: Any) -> ColumnType:
    """Return the type of a column of a frame.

    Parameters
    ----------
    dtype : narwhals dtype
        Type of the column.
    native : series of the frame's library
        Column, used for its declared categories and the name of its type. No value is read.
    """
    if dtype == nw.Boolean:
        return ColumnType(BOOLEAN)
    if dtype.is_numeric():
        return ColumnType(NUMBER)
    if isinstance(dtype, nw.Datetime):
        if dtype.time_zone is None:
            return ColumnType(DATE)
        name = name_of_time_zone(dtype.time_zone)
        read_time_zone(name)  # raises an error if the zone is unknown
        return ColumnType(DATE, time_zone=name)
    if isinstance(dtype, nw.Date):
        return ColumnType(DATE)
    if isinstance(dtype, nw.Enum):
        return ColumnType(CATEGORY, tuple(dtype.categories), ordered=True)
    if dtype == nw.Categorical:
        native_type: Any = getattr(native, "dtype", getattr(native, "type", None))
        is_ordered = bool(getattr(native_type, "ordered", False))
        return ColumnType(CATEGORY, _declared_categories(native), ordered=is_ordered)
    if dtype == nw.String:
        return ColumnType(TEXT)
    native_dtype: Any = getattr(native, "dtype", None)
    if type(native_dtype).__name__ == "SparseDtype":
        return numpy_type(native_dtype.subtype)
    if dtype == nw.Object:
        return ColumnType(ANYTHING)
    unusable = UNUSABLE.get(type(dtype))
    return ColumnType(unusable or f"values of type {native_dtype or dtype}")


def _declared_categories(native: Any) -> tuple[Any, ...] | None:
    """Return the categories declared by the type of a pandas series, or None.

    The polars type `Categorical` declares no categories, since it collects the values of all rows.
    """
    if not hasattr(native, "iloc"):
        return None
    categories = getattr(native.dtype, "categories", None)
    return None if categories is None else tuple(categories.tolist())


def _series_values(series: Any, type_: ColumnType) -> ColumnValues:
    """Return the values of a narwhals series, as described in `Table.column`."""
    native, dtype = series.to_native(), series.dtype
    if type_.kind == DATE:
        if isinstance(dtype, nw.Datetime) and dtype.time_zone is not None:
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return np.asarray(series.cast(nw.Datetime("us")).to_numpy(), dtype="datetime64[us]")
    if type_.kind == NUMBER:
        if dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128):  # no types of NumPy
            # as floats, large integers would be rounded only in columns with missing values
            if not series.null_count():
                return np.asarray(series.to_numpy())
            missing = np.asarray(series.is_null().to_numpy(), dtype=bool)
            return np.ma.MaskedArray(series.fill_null(0).to_numpy(), missing)
        if dtype != nw.Float32:
            series = series.cast(nw.Float64)
        float_type = np.float32 if dtype == nw.Float32 else np.float64
        return np.asarray(series.to_numpy(), dtype=float_type)
    if hasattr(native, "iloc"):
        return np.asarray(native.to_numpy(dtype=object))
    if type_.kind in (CATEGORY, TEXT):
        series = series.cast(nw.String)
    return object_array(series.to_list())


def _distinct_in_pandas(
    series: Any, categories: Sequence[Any] | None
) -> tuple[ColumnValues, Codes | None]:
    """Return distinct values of a series of text or categories, and the index of each row."""
    if categories is not None:
        values = object_array([None, *categories])
        indices = series.array.codes + 1  # the code of a missing value is -1
        is_repeated = len(series) >= MIN_REPETITIONS * len(values)
        return (values, indices) if is_repeated else (values[indices], None)
    if len(series) < MIN_FACTORIZED:
        return series.to_numpy(dtype=object), None
    indices, distinct_texts = series.factorize()
    return object_array([None, *distinct_texts.tolist()]), indices + 1


def _distinct_in_arrow(column: Any) -> tuple[ColumnValues, Codes]:
    """Return distinct strings of each chunk of a pyarrow column, and the index of each row."""
    texts: list[str | None] = []
    indices_of_chunks = [np.empty(0, dtype=np.int64)]
    for chunk in column.chunks:
        has_dictionary = hasattr(chunk, "dictionary")
        # a long dictionary can list many strings that do not occur in the chunk
        if has_dictionary and len(chunk) < MIN_REPETITIONS * len(chunk.dictionary):
            chunk, has_dictionary = chunk.dictionary_decode(), False
        encoded = chunk if has_dictionary else chunk.dictionary_encode()
        start = len(texts) + 1
        texts.append(None)  # a missing value has index -1
        texts += encoded.dictionary.cast("string").to_pylist()
        indices = encoded.indices.cast("int64").fill_null(-1)
        indices_of_chunks.append(indices.to_numpy() + start)
    return object_array(texts), np.concatenate(indices_of_chunks)


def to_narwhals(table: Any) -> Any:
    """Wrap a frame or series with narwhals, and return other objects unchanged."""
    return nw.from_native(table, eager_only=True, allow_series=True, pass_through=True)


def is_eager(table: Any) -> bool:
    """Indicate whether an object is an in-memory frame or series of a library in narwhals."""
    return is_frame(table) or isinstance(to_narwhals(table), nw.Series)


def count_rows(X: Any) -> int | None:
    """Return the number of rows or entries of a container, or None if the object is no container.

    The number is public. No value is read.
    """
    shape = None if isinstance(X, type) else getattr(X, "shape", None)
    if isinstance(shape, tuple):
        return int(shape[0]) if shape else None
    if isinstance(X, type | str | bytes | Mapping):
        return None
    if hasattr(X, "__len__"):
        return len(X)
    return count_rows(np.asarray(X)) if hasattr(X, "__array__") else None


def table_height(table: Any) -> int:
    """Return the number of rows of an array, a frame or a series."""
    n = count_rows(table)
    assert n is not None
    return n


def table_width(table: Any) -> int:
    """Return the number of columns of an array or a frame, or 1 for a series or a flat array."""
    shape = getattr(table, "shape", ())
    return int(shape[1]) if isinstance(shape, tuple) and len(shape) > 1 else 1


def take_rows(table: Any, positions: Codes) -> Any:
    """Return a copy of the rows at given positions, in a container of the same kind."""
    if isinstance(table, list | tuple):
        return [table[position] for position in positions]
    if hasattr(table, "iloc"):
        return table.iloc[positions]
    if hasattr(table, "combine_chunks"):  # pyarrow does not support indexing with numpy arrays
        return table.take(positions)
    rows = table[positions]
    return np.asarray(rows) if isinstance(rows, np.memmap) else rows


def slice_rows(table: Any, start: int, stop: int) -> Any:
    """Return a view of the rows `start`, ..., `stop` - 1 of an array, a frame or a series."""
    if start == 0 and stop == table_height(table):
        return table
    return nw.to_native(to_narwhals(table)[start:stop], pass_through=True)


def pick_columns(table: Any, columns: Sequence[int]) -> Any:
    """Return the columns at given positions, in the order of the positions.

    Adjacent columns of an array are returned as a view.
    """
    positions = list(columns)
    if positions == list(range(table_width(table))):
        return table
    start = positions[0] if positions else 0
    stop = start + len(positions)
    if isinstance(table, np.ndarray) and positions == list(range(start, stop)):
        return table[:, start:stop]
    return nw.to_native(to_narwhals(table)[:, positions], pass_through=True)


def pick_column(table: Any, position: int) -> Any:
    """Return the column at a given position as a series or a flat array."""
    return nw.to_native(to_narwhals(table)[:, position], pass_through=True)


def add_numbers(table: Any, names: Sequence[str], numbers: Mapping[str, NDArray[Any]]) -> Any:
    """Return a table with further columns of numbers, and with other names of its own columns.

    Arrays have no names. Numbers of arrays become floats, since a missing value would make them
    floats, too. Other arrays have dtype object.
    """
    if isinstance(table, np.ndarray):
        is_numeric = table.dtype.kind in "biuf"
        with np.errstate(all="ignore"):  # which could reveal that a value is very large
            values = table.astype(np.float64 if is_numeric else object)
        return np.column_stack([values, *numbers.values()])
    frame = to_narwhals(table)
    new_names = dict(zip(frame.columns, names, strict=True))
    frame = frame.rename(new_names)
    library = frame.implementation
    for name, values in numbers.items():
        column = nw.new_series(name, values, nw.Float64, backend=library)
        frame = frame.with_columns(column)
    return frame.to_native()


def concatenate_tables(tables: Sequence[Any]) -> Any:
    """Concatenate the rows of arrays, or of frames or series from the same library."""
    if len(tables) == 1:
        return tables[0]
    wrapped = [to_narwhals(table) for table in tables]
    if isinstance(wrapped[0], nw.DataFrame):
        return nw.concat(wrapped).to_native()
    if isinstance(wrapped[0], nw.Series):
        name = wrapped[0].name  # the name can be None, which is invalid for a frame column
        frames = [series.alias("y").to_frame() for series in wrapped]
        return nw.concat(frames)["y"].alias(name).to_native()
    return np.concatenate(wrapped)


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


def replace_values(series: Any, distinct: Any, codes: Codes | None = None) -> Codes:
    """Return the code of each value in a series, given the distinct values and their codes.

    By default, the codes are the positions of the distinct values.
    """
    values = to_narwhals(distinct).to_list()
    new_values = list(range(len(values))) if codes is None else codes.tolist()
    coded = to_narwhals(series).replace_strict(values, new_values, return_dtype=nw.Int64)
    return np.asarray(coded.to_numpy(), dtype=np.intp)
