"""Conversion of queries about cells of tables from the user's formats to codes, and cell names."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.binning import Bins
from skpublicdp.data.schema import Column, Schema, is_missing
from skpublicdp.data.tables import Table, is_frame
from skpublicdp.query_release.queries.base import one_dimensional_message
from skpublicdp.typing import Integers

MAX_LISTED_COLUMNS, MAX_LISTED_CATEGORIES = 5, 10
"""Maximum numbers of names that an error message lists."""

Objects = NDArray[np.object_]


def read_cells(Q: Any, schema: Schema, bins: Bins, wildcard: int) -> Integers:
    """Return the user's queries about cells of tables as codes of bins and categories.

    Parameters
    ----------
    Q : DataFrame, mapping, list of mappings, or array-like
        A value for each column that a query restricts. A frame or a mapping may omit columns. In an
        array, None stands for any value, and in a frame a missing value does. One-dimensional
        values are accepted if there is a single column.
    schema : Schema
        The columns.
    bins : Bins
        The bins of numeric columns.
    wildcard : int
        The code that stands for any value.

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
        # bins are defined for entire rows, so that the other columns are set to zero
        rows = np.zeros((len(values), len(schema.columns)))
        # `from_user` accepts dates in more forms than `encode`, as in `cdf`
        rows[:, position] = column.from_user(values) if column.has_offset else column.encode(values)
        codes[is_restricted, position] = bins.codes(rows)[:, position]
    return codes


def _object_table(Q: Any, schema: Schema) -> Objects:
    """Return the user's queries about cells as an array of objects, shape (n_queries, n_columns).

    `read_cells` lists the accepted formats. Entries are values of columns. None, or a missing
    value, stands for any value.
    """
    n_columns = len(schema.columns)
    if isinstance(Q, Mapping):  # a single query
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
        if values.dtype.kind == "M":  # numpy converts nanoseconds to integer objects, not dates
            values = values.astype("datetime64[us]")
        values = np.ma.filled(values.astype(object), None)
        table[:, schema.position(name)] = values
    return table


def _array_to_objects(Q: Any, schema: Schema) -> Objects:
    """Return queries about cells, passed as an array-like, as an array of objects.

    The array must have the shape (n_queries, n_columns). It may be one-dimensional if there is a
    single column.
    """
    names, n_columns = schema.names, len(schema.columns)
    array = np.asarray(Q)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(
            "Queries of MarginalQueries contain NaN; in an array, write None for any value."
        )
    if array.dtype.kind == "M":  # numpy converts nanoseconds to integer objects, not dates
        array = array.astype("datetime64[us]")
    array = array.astype(object)
    if array.ndim == 1 and n_columns == 1:
        array = array[:, None]
    if array.ndim == 1:
        raise ValueError(one_dimensional_message("MarginalQueries", n_columns))
    if array.ndim != 2 or array.shape[1] != n_columns:
        listed_names = _join_first(names, MAX_LISTED_COLUMNS)
        raise ValueError(
            f"Expected a value, or None for any, for each of {n_columns} columns ({listed_names}), "
            f"shape (n_queries, {n_columns}); got shape {array.shape}. To restrict only some "
            "columns, pass a dict of column to value."
        )
    return array


def _join_first(texts: Sequence[str], max_texts: int) -> str:
    """Return the first `max_texts` texts, separated by commas, with an ellipsis for the rest."""
    ellipsis = ["..."] if len(texts) > max_texts else []
    return ", ".join([*texts[:max_texts], *ellipsis])


def check_categories(values: Objects, column: Column) -> None:
    """Raise a ValueError if a value in a query is not a category of the column."""
    categories = set(column.names)
    for value in values:
        if value not in categories:
            listed_categories = _join_first(list(map(repr, column.names)), MAX_LISTED_CATEGORIES)
            raise ValueError(
                f"Column {column.name} has no category {value!r} in public rows or in its type. "
                f"Its categories are {listed_categories}."
            )


def describe_cells(column: Column, cuts: NDArray[np.float64] | None) -> list[Any]:
    """Return a name for each code of a column: a category, a number, or the range of a bin as text.

    `cuts` contains the cuts between the bins of a numeric column, and is None for a categorical
    one.
    """
    if column.categorical:
        return list(column.names)
    assert cuts is not None
    values = column.values
    if len(values) == len(cuts) + 1:  # each distinct public value has a bin, named after it
        return list(column.decode(values).tolist())
    ends = [column.low, *cuts.tolist(), column.high]
    texts = [column.format(end) if column.has_offset else f"{end:g}" for end in ends]
    return [f"{low} to {high}" for low, high in itertools.pairwise(texts)]
