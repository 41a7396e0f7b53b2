"""Containers of decoded rows: arrays and frames like those passed to `fit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.dtypes import DType
from numpy.typing import NDArray

Values = NDArray[Any]
"""Values of one column, shape (n_rows,)."""

TYPE_OF_KIND = {"f": nw.Float64(), "i": nw.Int64(), "u": nw.UInt64(), "M": nw.Datetime("us")}
"""Narwhals types of the kinds of numpy types: floats, integers and dates."""


@dataclass(frozen=True)
class DeclaredType:
    """Categories that the type of a column declares."""

    # declared categories, or None if the type does not list them
    categories: tuple[Any, ...] | None = None
    is_ordered: bool = False  # whether the categories are ordered

    def with_public_categories(self, categories: Values) -> list[Any]:
        """Return the declared categories, followed by those that only public rows have."""
        declared = dict.fromkeys(self.categories or ())
        return [*declared, *(value for value in categories.tolist() if value not in declared)]


@dataclass(frozen=True)
class Container:
    """Library and column labels of a table, from which tables of the same kind can be built.

    It holds no rows.
    """

    library: str | None  # name of a frame's library, such as "pandas", or None for arrays
    labels: tuple[Any, ...]  # column labels
    # Declared categories of the columns of a frame. Other columns have None, since a private value
    # can decide their type. The tuple is empty for arrays.
    declared_types: tuple[DeclaredType | None, ...] = ()

    def typed_column(self, column: Values, categories: NDArray[Any]) -> tuple[Values, DType]:
        """Return the values and the narwhals type of a frame column.

        For numbers and dates, the numpy type determines the narwhals type. For other columns, the
        public categories determine the type. The values never affect the type. In pandas,
        categories of several types are stored as objects, whereas other libraries store them as
        text. In other libraries, boolean categories become booleans, and missing values become
        False.
        """
        if column.dtype != object:
            return column, TYPE_OF_KIND[column.dtype.kind]
        category_types = set(map(type, categories.tolist()))
        if self.library == "pandas":
            is_text = category_types <= {str}
            return column, nw.String() if is_text else nw.Object()
        values = column.tolist()
        if category_types == {bool}:
            booleans = [value is True for value in values]
            return np.array(booleans, dtype=bool), nw.Boolean()
        texts = list(map(str, values))
        return object_array(texts), nw.String()

    def restore(
        self,
        columns: Sequence[Values],  # (n_rows,)
        categories: Sequence[NDArray[Any] | None],
        time_zones: Sequence[str | None],
    ) -> Any:
        """Combine columns into a frame or array of the kind that was passed to `fit`.

        The types depend on declared categories, time zones and public values, and on whether one of
        the given values is missing.
        """
        if self.library is None or not self.declared_types:
            plain = [np.ma.filled(c.astype(float), np.nan) if np.ma.isMA(c) else c for c in columns]
            return self.build(plain)
        names = [str(number) for number in range(len(columns))]
        restored = [
            restore_series(self.library, name, column, known, declared).alias(name).to_frame()
            for name, column, known, declared in zip(
                names, columns, categories, self.declared_types, strict=True
            )
        ]
        frame = _with_time_zones(nw.concat(restored, how="horizontal"), time_zones)
        return self._with_labels(frame, names)

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
            Time zones of the columns of a frame, whose dates are in UTC.
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
        frame = nw.from_dict(dict(zip(names, columns, strict=True)), schema, backend=backend)
        frame = _with_time_zones(frame, time_zones)
        if levels and self.library != "pyarrow":  # which has no ordered categories of text
            for position, categories in levels.items():
                ordered = nw.col(str(position)).cast(nw.Enum(categories))
                frame = frame.with_columns(ordered)
        return self._with_labels(frame, names)

    def _with_labels(self, frame: Any, names: Sequence[str]) -> Any:
        """Return a narwhals frame with numbered columns as a frame of its library."""
        native = frame.to_native()
        if hasattr(native, "set_axis"):  # pandas, whose labels need not be strings
            return native.set_axis(list(self.labels), axis=1)
        return frame.rename(dict(zip(names, self.labels, strict=True))).to_native()


def _with_time_zones(frame: Any, time_zones: Sequence[str | None]) -> Any:
    """Return a narwhals frame whose numbered columns of dates in UTC have time zones."""
    for position, zone in enumerate(time_zones):
        if zone is not None:
            dates = nw.col(str(position)).dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
            frame = frame.with_columns(dates)
    return frame


def object_array(values: list[Any]) -> Values:
    """Return a one-dimensional array of dtype object, without inferring a type from the values."""
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def _text_if_mixed(column: Values) -> Values:
    """Convert a column whose values have several Python types to text."""
    has_one_type = column.dtype != object or len(set(map(type, column.tolist()))) < 2
    return column if has_one_type else column.astype(str)


def restore_series(
    library: str,
    name: str,
    column: Values,  # (n_rows,)
    categories: Values | None,
    declared: DeclaredType | None,
) -> Any:
    """Return a column as a narwhals series of a data frame library."""
    if categories is not None:
        return _restore_categories(library, name, column, categories, declared)
    if column.dtype.kind == "M":
        backend: Any = library
        return nw.new_series(name, column.astype("datetime64[us]"), backend=backend)
    return _restore_numbers(library, name, column)


def _restore_categories(
    library: str, name: str, column: Values, categories: Values, declared: DeclaredType | None
) -> Any:
    """Return a series of text, booleans or categories. Missing values are None in `column`."""
    backend: Any = library
    category_types = set(map(type, categories.tolist()))
    is_pandas = library not in ("polars", "pyarrow")
    values = column.tolist()
    if declared is None:
        if category_types == {bool}:
            if is_pandas and None in values:  # booleans of NumPy have no missing values
                return nw.new_series(name, column, nw.Object(), backend=backend)
            return nw.new_series(name, values, nw.Boolean(), backend=backend)
        if is_pandas and not category_types <= {str}:
            return nw.new_series(name, column, nw.Object(), backend=backend)
        return nw.new_series(name, _as_text(values), nw.String(), backend=backend)
    namespace = nw.Implementation.from_backend(backend).to_native_namespace()
    if is_pandas:
        series = nw.new_series(name, column, nw.Object(), backend=backend)
        all_categories = declared.with_public_categories(categories)
        dtype = namespace.CategoricalDtype(all_categories, ordered=declared.is_ordered)
        return nw.from_native(series.to_native().astype(dtype), series_only=True)
    series = nw.new_series(name, _as_text(values), nw.String(), backend=backend)
    if library == "pyarrow":
        dtype = namespace.dictionary(namespace.int32(), namespace.string(), declared.is_ordered)
        native = series.to_native().cast(namespace.string()).dictionary_encode().cast(dtype)
        return nw.from_native(native, series_only=True)
    if declared.categories is None:
        return series.cast(nw.Categorical())
    return series.cast(nw.Enum(declared.with_public_categories(categories)))


def _as_text(values: list[Any]) -> list[str | None]:
    """Convert all values to text, except missing values, which are None."""
    return [None if value is None else str(value) for value in values]


def _restore_numbers(library: str, name: str, column: Values) -> Any:
    """Return a series of floats or integers.

    In pandas, integers become floats if a value is missing, unless floats cannot represent them.
    """
    backend: Any = library
    is_missing = np.ma.getmaskarray(column)
    values = np.ma.getdata(column)
    if values.dtype.kind == "f":
        is_missing = is_missing | np.isnan(values)
    if not is_missing.any():
        return nw.new_series(name, values, backend=backend)
    if library in ("polars", "pyarrow"):
        types = {"i": nw.Int64(), "u": nw.UInt64()}
        objects = values.astype(object)
        objects[is_missing] = None
        type_ = types.get(values.dtype.kind, nw.Float64())
        return nw.new_series(name, objects.tolist(), type_, backend=backend)
    present = values[~is_missing]
    if values.dtype.kind != "f" and not np.array_equal(
        present.astype(float).astype(values.dtype), present
    ):
        # floats would change these integers
        nullable = nw.new_series(name, values, backend=backend).to_native()
        nullable = nullable.astype("UInt64" if values.dtype.kind == "u" else "Int64")
        return nw.from_native(nullable.mask(is_missing), series_only=True)
    floats = values.astype(np.float64)
    floats[is_missing] = np.nan
    return nw.new_series(name, floats, backend=backend)
