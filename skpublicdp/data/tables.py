"""Tables in memory: arrays and frames of any library behind one interface (narwhals)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals as nw
import narwhals.stable.v2 as nw_stable
import numpy as np
from narwhals.dtypes import DType
from numpy.typing import NDArray

Column = NDArray[Any]

NUMBER, BOOLEAN, TEXT, CATEGORY, DATE = "numbers", "booleans", "text", "categories", "dates"
ANYTHING = "anything"
"""Column kinds by declared type; ANYTHING is dtype object."""


UNUSABLE: dict[type, str] = {
    nw.List: "lists",
    nw.Array: "lists",
    nw.Struct: "structs",
    nw.Binary: "bytes",
    nw.Time: "times of day",
    nw.Duration: "durations",
}
"""What messages call types of columns that cannot be read."""


@dataclass(frozen=True)
class ColumnType:
    """Declared type of a column. It does not depend on values.

    Attributes
    ----------
    kind : str
        One of the kinds above, or in words what the column holds that cannot be used.
    categories : tuple or None
        The declared categories of a categorical column, where there is such a list.
    nullable : bool
        Whether a value may be missing.
    """

    kind: str
    categories: tuple[Any, ...] | None = None
    nullable: bool = True

    @property
    def usable(self) -> bool:
        """Whether columns of this type can be read."""
        return self.kind in (NUMBER, BOOLEAN, TEXT, CATEGORY, DATE, ANYTHING)


def is_frame(X: Any) -> bool:
    """Indicate whether X is a data frame in memory."""
    return _eager(X) is not None


def _eager(X: Any) -> Any:
    if isinstance(X, np.ndarray | list | tuple):
        return None
    if hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2:
        return X  # narwhals knows no frame whose columns share a name
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return None if frame is X else frame


@dataclass(frozen=True)
class Container:
    """Library and labels of a table, to build tables of the same kind.

    Attributes
    ----------
    library : str or None
        Of frames, the name of their library; None for arrays.
    labels : tuple
        The labels of the columns.
    """

    library: str | None
    labels: tuple[Any, ...]

    def typed_column(self, column: Column, categories: NDArray[Any]) -> tuple[Column, DType]:
        """Return a column and its type, which follows from public categories alone.

        Frames other than those of pandas hold text, or booleans, of which a missing one is false.
        """
        if column.dtype != object:
            numbers = {"f": nw.Float64(), "i": nw.Int64(), "M": nw.Datetime("us")}
            return column, numbers[column.dtype.kind]
        kinds, values = set(map(type, categories.tolist())), column.tolist()
        if self.library == "pandas":
            return column, nw.String() if kinds <= {str} else nw.Object()
        if kinds == {bool}:
            return np.array([value is True for value in values], dtype=bool), nw.Boolean()
        return _and_none(list(map(str, values)))[:-1], nw.String()

    def build(self, columns: Sequence[Column], types: Sequence[DType] | None = None) -> Any:
        """Return columns as a frame, of types as given, or as an array of floats or of objects."""
        if self.library is None:
            if all(column.dtype.kind in "iuf" for column in columns):
                return np.column_stack(columns)
            array = np.empty((len(columns[0]), len(columns)), dtype=object)
            for position, column in enumerate(columns):
                array[:, position] = column
            return array
        names = [str(number) for number in range(len(columns))]
        # only pandas has columns of values of several types
        if types is None and self.library != "pandas":
            columns = [_of_one_type(column) for column in columns]
        schema = None if types is None else dict(zip(names, types, strict=True))
        backend: Any = self.library
        frame = nw.from_dict(dict(zip(names, columns, strict=True)), schema, backend=backend)
        native = frame.to_native()
        if hasattr(native, "set_axis"):  # labels of pandas need not be text
            return native.set_axis(list(self.labels), axis=1)
        return frame.rename(dict(zip(names, self.labels, strict=True))).to_native()


class Table:
    """An array or a frame with rows and columns.

    Parameters
    ----------
    native : ndarray of two dimensions, or DataFrame
        The rows.
    """

    def __init__(self, native: Any) -> None:
        self.native = native
        self._frame = _eager(native)

    @property
    def is_frame(self) -> bool:
        """Whether the rows came in a frame."""
        return self._frame is not None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        rows, columns = self.native.shape
        return int(rows), int(columns)

    @cached_property
    def labels(self) -> tuple[Any, ...]:
        """The labels of the columns; their positions in an array."""
        if not self.is_frame:
            return tuple(range(self.native.shape[1]))
        if hasattr(self.native, "column_names"):
            return tuple(self.native.column_names)
        return tuple(self.native.columns)

    @cached_property
    def types(self) -> tuple[ColumnType, ...]:
        """The type of each column."""
        if not self.is_frame:
            return (_numpy_type(self.native.dtype),) * self.shape[1]
        return tuple(self._type(position) for position in range(self.shape[1]))

    def column(self, position: int) -> Column:
        """Return the values of a column.

        Numbers are of their own type, whole ones that may be missing in a masked array; dates are
        datetime64; what is neither is an array of objects, in which None or NaN is missing.
        """
        if not self.is_frame:
            values: Column = self.native[:, position]
            return values
        return _values(self._series(position), self.types[position])

    def map_distinct(self, position: int, code: Callable[[Column], NDArray[Any]]) -> NDArray[Any]:
        """Apply an elementwise function to a column; to text, once per distinct value."""
        if not self.is_frame or self.types[position].kind not in (TEXT, CATEGORY):
            return code(self.column(position))
        native = self._series(position).to_native()
        if hasattr(native, "factorize"):
            which, words = native.factorize()  # a missing value is -1, the last
            coded: NDArray[Any] = np.take(code(_and_none(words.tolist())), which)
            return coded
        if hasattr(native, "dictionary_encode"):
            return _of_dictionaries(native, code)
        series = self._series(position).cast(nw.String)
        distinct = series.unique()
        if 2 * len(distinct) > len(series) or distinct.is_null().all():
            return code(self.column(position))
        found = code(_objects(distinct))
        mapped = series.replace_strict(distinct.to_list(), found.tolist(), return_dtype=nw.Float64)
        return np.asarray(mapped.to_numpy()).astype(found.dtype)

    def take(self, where: slice | NDArray[Any]) -> Table:
        """Return some rows, by their positions, a mask or a slice."""
        if not self.is_frame:
            return Table(self.native[where])
        if self._by_place:
            return Table(self.native.iloc[where])
        if isinstance(where, slice):
            return Table(self._frame[where].to_native())
        positions = np.flatnonzero(where) if where.dtype == bool else where
        return Table(self._frame[positions.tolist(), :].to_native())

    def select(self, labels: Sequence[Any]) -> Table:
        """Return the columns in another order."""
        positions = [self.labels.index(label) for label in labels]
        if positions == list(range(self.shape[1])):
            return self
        if self._by_place:
            return Table(self.native.iloc[:, positions])
        return Table(self._frame.select(list(labels)).to_native())

    @property
    def container(self) -> Container:
        """What rows of this kind can be built of; it keeps no row."""
        if not self.is_frame:
            return Container(None, self.labels)
        backend = nw.from_native(self.native.iloc[:0, :0]) if self._by_place else self._frame
        return Container(str(backend.implementation.value), self.labels)

    @property
    def _by_place(self) -> bool:
        return hasattr(self.native, "iloc")

    def _series(self, position: int) -> Any:
        if self._by_place:
            return nw.from_native(self.native.iloc[:, position], series_only=True)
        return self._frame.get_column(self.labels[position])

    def _type(self, position: int) -> ColumnType:
        if self._by_place:
            dtype = self.native.iloc[:, position].dtype
            if isinstance(dtype, np.dtype):  # its own word, not what its values look like
                return _numpy_type(dtype)
        series = self._series(position)
        return _narwhals_type(series.dtype, series.to_native())


def stack_frames(parts: Sequence[Any]) -> Any:
    """Put frames of one library below each other."""
    frames = [nw.from_native(part, eager_only=True) for part in parts]
    return nw.concat(frames, how="vertical").to_native()


def _of_one_type(column: Column) -> Column:
    plain = column.dtype != object or len(set(map(type, column.tolist()))) < 2
    return column if plain else column.astype(str)


def _numpy_type(dtype: np.dtype[Any]) -> ColumnType:
    kinds = {"b": BOOLEAN, "U": TEXT, "S": "bytes", "T": TEXT, "M": DATE, "O": ANYTHING}
    kinds |= dict.fromkeys("iuf", NUMBER) | {"c": "complex numbers", "m": "durations"}
    kind = kinds.get(dtype.kind, f"values of type {dtype}")
    return ColumnType(kind, nullable=dtype.kind not in "biu")


def _narwhals_type(dtype: DType, native: Any) -> ColumnType:
    if dtype == nw.Boolean:
        return ColumnType(BOOLEAN)
    if dtype.is_numeric():
        return ColumnType(NUMBER)
    if isinstance(dtype, nw.Datetime | nw.Date):
        return ColumnType(DATE)
    if isinstance(dtype, nw.Enum):
        return ColumnType(CATEGORY, tuple(dtype.categories))
    if dtype == nw.Categorical:
        return ColumnType(CATEGORY, _declared(native))
    if dtype == nw.String:
        return ColumnType(TEXT)
    own: Any = getattr(native, "dtype", None)
    if type(own).__name__ == "SparseDtype":
        return _numpy_type(own.subtype)
    if dtype == nw.Object:
        return ColumnType(ANYTHING)
    known = UNUSABLE.get(type(dtype))
    return ColumnType(known or f"values of type {own or dtype}")


def _declared(native: Any) -> tuple[Any, ...] | None:
    """Return the list of categories that is part of a type; polars' Categorical has none."""
    categories = getattr(native.dtype, "categories", None) if hasattr(native, "iloc") else None
    return None if categories is None else tuple(categories.tolist())


def _values(series: Any, type_: ColumnType) -> Column:
    native, dtype = series.to_native(), series.dtype
    if isinstance(getattr(native, "dtype", None), np.dtype):
        return np.asarray(native)
    if type_.kind == DATE:
        if isinstance(dtype, nw.Datetime) and dtype.time_zone is not None:
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return np.asarray(series.cast(nw.Datetime("us")).to_numpy(), dtype="datetime64[us]")
    if type_.kind == NUMBER:
        if dtype.is_integer():  # float64 would round those next to a missing one, and no others
            if not series.null_count():
                return np.asarray(series.to_numpy())
            missing = np.asarray(series.is_null().to_numpy(), dtype=bool)
            return np.ma.MaskedArray(series.fill_null(0).to_numpy(), missing)
        if dtype != nw.Float32:
            series = series.cast(nw.Float64)
        kind = np.float32 if dtype == nw.Float32 else np.float64
        return np.asarray(series.to_numpy(), dtype=kind)
    if hasattr(native, "iloc"):
        return np.asarray(native.astype(object), dtype=object)
    if type_.kind in (CATEGORY, TEXT):
        series = series.cast(nw.String)
    return _objects(series)


def _objects(series: Any) -> Column:
    return _and_none(series.to_list())[:-1]


def _and_none(values: list[Any]) -> Column:
    objects = np.empty(len(values) + 1, dtype=object)  # None at the end
    objects[:-1] = values
    return objects


def _of_dictionaries(column: Any, code: Callable[[Column], NDArray[Any]]) -> NDArray[Any]:
    """Return what a function of single values makes of a column of pyarrow."""
    parts = [code(_and_none([]))[:0]]
    for chunk in column.chunks:
        listed = hasattr(chunk, "dictionary")
        if listed and 2 * len(chunk.dictionary) > len(chunk):  # of which few may occur
            chunk, listed = chunk.dictionary_decode(), False
        encoded = chunk if listed else chunk.dictionary_encode()
        words, which = encoded.dictionary, encoded.indices
        found = code(_and_none(words.cast("string").to_pylist()))
        if which.null_count:
            which = which.cast("int64").fill_null(len(words))
        parts.append(np.take(found, which.to_numpy()))
    return np.concatenate(parts)


def take_rows(X: Any, positions: NDArray[np.intp]) -> Any:
    """Select rows of a container before anything of it is converted."""
    if isinstance(X, list | tuple):
        return [X[position] for position in positions]
    if hasattr(X, "iloc"):
        return X.iloc[positions]
    # indices of arrow are no arrays
    return X.take(positions) if hasattr(X, "combine_chunks") else X[positions]


def to_narwhals(table: Any) -> Any:
    """Return a frame or series as narwhals sees it, and anything else as it is."""
    return nw_stable.from_native(table, eager_only=True, allow_series=True, pass_through=True)


def to_native(table: Any) -> Any:
    """Return what `to_narwhals` was given."""
    return nw_stable.to_native(table, pass_through=True)


def table_height(table: Any) -> int:
    """Return the number of rows."""
    shape = getattr(table, "shape", None)
    return int(shape[0]) if isinstance(shape, tuple) and shape else len(table)


def table_width(table: Any) -> int:
    """Return the number of columns; 1 for a series or a flat array."""
    shape = getattr(table, "shape", ())
    return int(shape[1]) if isinstance(shape, tuple) and len(shape) > 1 else 1


def slice_rows(table: Any, start: int, stop: int) -> Any:
    """Return the rows from `start` to before `stop`, without copying them."""
    if start == 0 and stop == table_height(table):
        return table
    return to_native(to_narwhals(table)[start:stop])


def pick_rows(table: Any, positions: NDArray[np.intp]) -> Any:
    """Return the rows at the positions, in their order, as a copy."""
    table = to_narwhals(table)
    return (
        np.asarray(table[positions])
        if isinstance(table, np.ndarray)
        else to_native(table[positions])
    )


def pick_columns(table: Any, columns: Sequence[int]) -> Any:
    """Return the columns at the positions, in their order; side by side they are no copy."""
    if list(columns) == list(range(table_width(table))):
        return table
    if isinstance(table, np.ndarray) and list(columns) == list(
        range(columns[0], columns[0] + len(columns)) if columns else ()
    ):
        return table[:, columns[0] : columns[0] + len(columns)] if columns else table[:, :0]
    return to_native(to_narwhals(table)[:, list(columns)])


def pick_column(table: Any, position: int) -> Any:
    """Return one column as a series or a flat array."""
    return to_native(to_narwhals(table)[:, position])


def concatenate_tables(tables: Sequence[Any]) -> Any:
    """Return tables of one kind under each other."""
    if len(tables) == 1:
        return tables[0]
    parts = [to_narwhals(table) for table in tables]
    if isinstance(parts[0], nw_stable.DataFrame):
        return to_native(nw_stable.concat(parts))
    if isinstance(parts[0], nw_stable.Series):
        name = parts[0].name
        frames = [part.alias("y").to_frame() for part in parts]
        return to_native(nw_stable.concat(frames)["y"].alias(name))
    return np.concatenate(parts)
