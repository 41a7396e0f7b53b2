"""Conversion of queries about cells from the user's formats to codes, and names of cells."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.binning import Bins
from skpublicdp.data.schema import Column, Schema, is_missing
from skpublicdp.data.tables import Table, is_frame
from skpublicdp.query_release.queries.base import one_dimensional_message
from skpublicdp.typing import Integers

Objects = NDArray[np.object_]


def read_cells(Q: Any, schema: Schema, bins: Bins, wildcard: int) -> Integers:
    """Return queries about cells as codes.

    Parameters
    ----------
    Q : DataFrame, mapping, list of mappings, or array-like
        A value for each column that a query restricts. A frame or a mapping may omit columns. In an
        array, None stands for any value, and in a frame a missing value does. One-dimensional
        values are accepted if there is a single column.
    schema : Schema
        The columns.
    bins : Bins
        Their bins.
    wildcard : int
        The code of "any value".

    Returns
    -------
    ndarray of int64, shape (n_queries, n_columns)
        Codes of bins and categories, or `wildcard`.
    """
    table = _object_table(Q, schema)
    codes = np.full(table.shape, wildcard)
    for position, column in enumerate(schema.columns):
        is_restricted = np.array(
            [not is_missing(value) for value in table[:, position]], dtype=bool
        )
        values = table[is_restricted, position]
        if column.categorical:
            check_categories(values, column)
        rows = np.zeros((len(values), len(schema.columns)))
        # dates may be given in every form that `cdf` accepts
        rows[:, position] = column.from_user(values) if column.has_offset else column.encode(values)
        codes[is_restricted, position] = bins.codes(rows)[:, position]
    return codes


def _object_table(Q: Any, schema: Schema) -> Objects:
    """Return queries in any format as an array of objects, shape (n_queries, n_columns).

    None, or a missing value, stands for any value.
    """
    n_columns = len(schema.columns)
    if isinstance(Q, Mapping):
        Q = [Q]
    if isinstance(Q, list | tuple) and len(Q) and all(isinstance(query, Mapping) for query in Q):
        table = np.full((len(Q), n_columns), None, dtype=object)
        for number, query in enumerate(Q):
            for name, value in query.items():
                table[number, schema.position(name)] = value
        return table
    if hasattr(Q, "iloc") and Q.ndim == 1:  # a pandas series is one query
        return _object_table(dict(Q), schema)
    if is_frame(Q):
        return _frame_to_objects(Q, schema)
    return _array_to_objects(Q, schema)


def _frame_to_objects(Q: Any, schema: Schema) -> Objects:
    """Return the queries of a frame, with None for omitted columns and missing values."""
    frame = Table(Q)
    table = np.full((len(Q), len(schema.columns)), None, dtype=object)
    for number, name in enumerate(frame.labels):
        values: Any = np.ma.asarray(frame.column(number))
        if values.dtype.kind == "M":  # as objects, nanoseconds would be integers and not dates
            values = values.astype("datetime64[us]")
        values = np.ma.filled(values.astype(object), None)
        table[:, schema.position(name)] = values
    return table


def _array_to_objects(Q: Any, schema: Schema) -> Objects:
    """Return the queries of an array-like with one column for each column of the schema."""
    names, n_columns = schema.names, len(schema.columns)
    array = np.asarray(Q)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(
            "Queries of MarginalQueries contain NaN; in an array, write None for any value."
        )
    if array.dtype.kind == "M":
        array = array.astype("datetime64[us]")
    array = array.astype(object)
    if array.ndim == 1 and n_columns == 1:
        array = array[:, None]
    if array.ndim == 1:
        raise ValueError(one_dimensional_message("MarginalQueries", n_columns))
    if array.ndim != 2 or array.shape[1] != n_columns:
        shown_names = ", ".join(names[:5]) + (", ..." if n_columns > 5 else "")
        raise ValueError(
            f"Expected a value, or None for any, for each of {n_columns} columns ({shown_names}), "
            f"shape (n_queries, {n_columns}); got shape {array.shape}. To restrict only some "
            "columns, pass a dict of column to value."
        )
    return array


def check_categories(values: Objects, column: Column) -> None:
    """Raise a ValueError if a value is not a category of the column."""
    names = column.names
    categories = set(names)
    for value in values:
        if value not in categories:
            shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
            raise ValueError(
                f"Column {column.name} has no category {value!r} in public rows or in its type. "
                f"Its categories are {shown}."
            )


def describe_cells(column: Column, cuts: NDArray[np.float64] | None) -> list[Any]:
    """Return the names of the cells of a column, in the order of their codes.

    They are categories, public values, or ranges as text.
    """
    if column.categorical:
        return list(column.names)
    assert cuts is not None
    values = column.values
    if len(values) == len(cuts) + 1:  # each public value has its own bin
        return list(column.decode(values).tolist())
    ends = [column.low, *cuts.tolist(), column.high]
    texts = [column.format(end) if column.has_offset else f"{end:g}" for end in ends]
    return [f"{low} to {high}" for low, high in itertools.pairwise(texts)]
