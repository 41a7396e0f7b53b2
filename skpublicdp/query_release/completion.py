"""Imputation of columns that public rows lack, using declared categories and bounds."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.bounds import parse_bounds
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.public_rows import reference_sample
from skpublicdp.data.schema import Column, column_names
from skpublicdp.data.streaming import as_rows, is_streamed
from skpublicdp.data.tables import BOOLEAN, DATE, NUMBER, Table, add_constant_columns, is_frame

N_GRID_VALUES = 16
"""Number of evenly spaced values between the bounds that stand for a numeric column."""

MAX_COMPLETIONS = 64
"""Maximum number of completions of each public row, unless a single column has more values."""


def add_missing_columns(X: Any, X_public: Any, bounds: Any) -> tuple[Any, tuple[int, ...]]:
    """Add the columns of `X` that public rows lack, and fill them with a declared value.

    This value only determines the type of the column. `enumerate_completions` replaces it.

    Parameters
    ----------
    X : DataFrame or RowSource
        The remaining rows, of which only the column names and types are read.
    X_public : object
        Public rows. The rows are returned unchanged if they are not a frame, if they have all
        columns of `X`, or if they have columns that `X` does not have.
    bounds : array-like or mapping, optional
        Bounds of numeric and date columns.

    Returns
    -------
    X_public : object
        The public rows, including the additional columns.
    missing : tuple of int
        Positions of the added columns in `X`.

    Raises
    ------
    ValueError
        If the values of a missing column are declared neither by its type nor by `bounds`.
    """
    if not is_frame(X_public):
        return X_public, ()
    table = Table(as_rows(X).empty() if is_streamed(X) else X)
    n_public = Table(X_public).shape[0]
    if not table.is_frame or not n_public:
        return X_public, ()
    public_labels, names = Table(X_public).labels, column_names(table)
    missing = [
        position for position, label in enumerate(table.labels) if label not in public_labels
    ]
    has_names = all(isinstance(label, str) for label in table.labels)
    if not missing or not has_names or not set(public_labels) <= set(table.labels):
        return X_public, ()
    bounds_of_column = parse_bounds(bounds, names, table.types, table.labels)
    empty = table.take(np.empty(0, dtype=np.intp))  # take no rows, so that no private value is read
    value_of_column: dict[str, str | float | datetime | None] = {}
    for position in missing:
        type_ = table.types[position]
        value: str | float | datetime | None
        if type_.categories:
            category = type_.categories[0]
            # a number would make the column numeric
            value = category if isinstance(category, str) else None
        elif type_.kind == BOOLEAN:
            value = False
        elif type_.kind in (NUMBER, DATE) and position in bounds_of_column:
            low, high = bounds_of_column[position]
            value = _value_within(low, high, empty.column(position).dtype)
        else:
            raise ValueError(
                f"X_public has no column {names[position]}, and the values of this column are "
                "declared neither by its type in X nor by bounds. Add the column to X_public, "
                f"declare its categories in its type, or pass bounds={{{names[position]!r}: (low, "
                "high)} if it contains numbers."
            )
        value_of_column[names[position]] = value
    return add_constant_columns(X_public, value_of_column), tuple(missing)


def _value_within(low: float, high: float, dtype: np.dtype[Any]) -> float | datetime:
    """Return a value between the bounds with the type of the column: a date, integer or float.

    If the bounds allow it, a float value is not a whole number, because otherwise the schema would
    infer an integer column.
    """
    if dtype.kind == "M":  # the bounds are microseconds since 1970
        date: datetime = np.datetime64(int(low), "us").item()
        return date
    is_integer = dtype.kind in "iu"
    return math.ceil(low) if is_integer else float(np.nextafter(low, high))


def enumerate_completions(rows: Dataset, missing: Collection[int]) -> Dataset:
    """Replace each public row by copies with all combinations of values for missing columns.

    If there are more than `MAX_COMPLETIONS` combinations, a Latin hypercube sample of the
    combinations is used.

    Parameters
    ----------
    rows : Dataset
        Public and private rows. Private rows are not read.
    missing : collection of int
        Positions of the missing columns. Columns whose values are missing in all public rows are
        also completed.

    Returns
    -------
    Dataset
        Dataset whose `X_public` has the shape (n_completions * m, n_features). Row i * m + j is
        completion i of public row j. If no column is missing, the rows are returned unchanged.
    """
    m, columns = rows.n_public, rows.schema.columns
    X_public = rows.X_public[:m]
    real_rows = X_public[~rows.is_synthetic[:m]]
    completed_positions = [
        position
        for position, column in enumerate(columns)
        if position in missing or _is_all_missing(column, real_rows[:, position])
    ]
    if not completed_positions:
        return rows
    values = [_declared_values(columns[position]) for position in completed_positions]
    value_indices = _combinations(tuple(map(len, values)))
    n_completions = value_indices.shape[1]
    X_completed = np.tile(X_public, (n_completions, 1))
    for position, column_values, indices in zip(
        completed_positions, values, value_indices, strict=True
    ):
        X_completed[:, position] = np.repeat(column_values[indices], m)
    is_synthetic = np.ones(n_completions * m, dtype=bool)
    return replace(
        rows, X_public=X_completed, is_synthetic=is_synthetic, n_completions=n_completions
    )


def _combinations(sizes: tuple[int, ...]) -> NDArray[np.intp]:
    """Return all index tuples of an array of shape `sizes`, or a Latin hypercube sample.

    The tuples are the columns of the result, which has shape (len(sizes), n_combinations).
    """
    # a sample of this size contains each index of each axis
    max_combinations = max(MAX_COMPLETIONS, *sizes)
    if math.prod(sizes) <= max_combinations:
        return np.indices(sizes).reshape(len(sizes), -1)
    hypercube = reference_sample(len(sizes), (0, 1), max_combinations)  # in [0, 1)
    indices: NDArray[np.intp] = np.floor(hypercube * np.array(sizes)).astype(np.intp)
    return indices.T


def _is_all_missing(column: Column, codes: NDArray[np.float64]) -> bool:
    """Indicate whether a column with known categories is missing in all public rows.

    `codes` contains the encoded values of the column in public rows, shape (n_public,).
    """
    n_categories = len(column.values)
    if not column.categorical or not n_categories or not len(codes):
        return False
    missing_code = n_categories + 1  # the code n_categories is "(other)"
    return bool((codes == missing_code).all())


def _declared_values(column: Column) -> NDArray[np.float64]:
    """Return the candidate values of a column, i.e. its category codes or a grid of numbers.

    The grid has `N_GRID_VALUES` numbers between the bounds, or fewer for whole numbers.
    """
    if column.categorical:
        return np.arange(len(column.values), dtype=np.float64)
    numbers = np.linspace(column.low, column.high, N_GRID_VALUES)
    return np.unique(np.rint(numbers)) if column.integral else numbers
