"""Questions about cells as users write them, and tables as users read them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.binning import Bins
from skpublicdp.data.schema import Column, Schema, is_missing
from skpublicdp.data.tables import Table, is_frame
from skpublicdp.query_release.queries.base import flat_queries
from skpublicdp.typing import Integers

Objects = NDArray[np.object_]


def read_cells(Q: Any, schema: Schema, bins: Bins, any_code: int) -> Integers:
    """Return questions about cells as codes.

    Parameters
    ----------
    Q : DataFrame, mapping, list of mappings, or array-like
        A value in each column that a question is about. In rows of all columns, None (in a frame,
        whatever is missing) stands for any value; a frame or a mapping may leave columns out. Of a
        single column, one-dimensional values do.
    schema : Schema
        The columns.
    bins : Bins
        Their cells.
    any_code : int
        The code of "any value".

    Returns
    -------
    ndarray of int64, shape (n_queries, n_columns)
        Codes.
    """
    table = _as_rows(Q, schema)
    codes = np.full(table.shape, any_code)
    for position, column in enumerate(schema.columns):
        asked = np.array([not is_missing(value) for value in table[:, position]], dtype=bool)
        values = table[asked, position]
        if column.categorical:
            check_categories(values, column)
        numbers = np.zeros((len(values), len(schema.columns)))
        # of dates, text and whatever else names one is understood here, as by `cdf`
        numbers[:, position] = (
            column.from_user(values) if column.has_offset else column.encode(values)
        )
        codes[asked, position] = bins.codes(numbers)[:, position]
    return codes


def _as_rows(Q: Any, schema: Schema) -> Objects:
    """Return questions with a value or None in every column."""
    names, n_columns = schema.names, len(schema.columns)
    if isinstance(Q, Mapping):
        Q = [Q]
    if isinstance(Q, list | tuple) and len(Q) and all(isinstance(row, Mapping) for row in Q):
        rows = np.full((len(Q), n_columns), None, dtype=object)
        for place, row in enumerate(Q):
            for name, value in row.items():
                rows[place, schema.position(name)] = value
        return rows
    if hasattr(Q, "iloc") and Q.ndim == 1:  # one question as a series
        return _as_rows(dict(Q), schema)
    if is_frame(Q):
        frame = Table(Q)
        rows = np.full((len(Q), n_columns), None, dtype=object)
        for place, name in enumerate(frame.labels):
            values: Any = np.ma.asarray(frame.column(place))
            if values.dtype.kind == "M":  # numpy makes bare integers of nanoseconds
                values = values.astype("datetime64[us]")
            values = np.ma.filled(values.astype(object), None)
            rows[:, schema.position(name)] = values
        return rows
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
        raise ValueError(flat_queries("MarginalQueries", n_columns))
    if array.ndim != 2 or array.shape[1] != n_columns:
        raise ValueError(
            f"Expected a value, or None for any, for each of {n_columns} columns "
            f"({', '.join(names[:5])}{', ...' if n_columns > 5 else ''}), shape (n_queries, "
            f"{n_columns}); got shape {array.shape}. A dict of column to value asks about some."
        )
    return array


def check_categories(values: Objects, column: Column) -> None:
    """Refuse categories that public rows do not show."""
    names = column.names
    known = set(names)
    for value in values:
        if value not in known:
            shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
            raise ValueError(
                f"Column {column.name} has no category {value!r} that public rows show; it has "
                f"{shown}."
            )


def describe_cells(column: Column, cuts: NDArray[np.float64] | None) -> list[Any]:
    """Return what the cells of a column are called, by the order of their codes."""
    if column.categorical:
        return list(column.names)
    assert cuts is not None
    values = column.values
    if len(values) == len(cuts) + 1:  # a cell around each public value
        return list(column.decode(values).tolist())
    ends = [column.low, *cuts.tolist(), column.high]
    texts = [column.format(end) if column.has_offset else f"{end:g}" for end in ends]
    return [f"{low} to {high}" for low, high in itertools.pairwise(texts)]
