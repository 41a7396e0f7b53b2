"""Imputation of columns that public rows lack, from declared categories and bounds."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.bounds import parse_bounds
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.reference import reference_sample
from skpublicdp.data.schema import Column, column_names
from skpublicdp.data.streaming import as_rows, is_streamed
from skpublicdp.data.tables import BOOLEAN, DATE, NUMBER, Table, is_frame

N_GRID_VALUES = 16
"""Number of evenly spaced values that represent a numeric column between its bounds."""

MAX_COMPLETIONS = 64
"""Maximum number of completions of a public row, unless one column alone has more values."""


def add_missing_columns(X: Any, X_public: Any, bounds: Any) -> tuple[Any, tuple[int, ...]]:
    """Add the columns of `X` that a frame of public rows lacks, filled with one declared value.

    The value only gives the column its type. `enumerate_completions` replaces it.

    Parameters
    ----------
    X : DataFrame or RowSource
        All other rows. Only the names and types of the columns are read.
    X_public : object
        Public rows. They are returned unchanged if they are not a frame, lack no column, or have
        columns that `X` does not have.
    bounds : array-like or mapping, optional
        Bounds of numeric and date columns.

    Returns
    -------
    X_public : object
        The public rows with the additional columns.
    missing : tuple of int
        The positions in `X` of the columns that were added.

    Raises
    ------
    ValueError
        If neither the type of a missing column nor `bounds` declares its values.
    """
    table = Table(as_rows(X).empty() if is_streamed(X) else X) if is_frame(X_public) else None
    if table is None or not table.is_frame or not Table(X_public).shape[0]:
        return X_public, ()
    public_labels, names = Table(X_public).labels, column_names(table)
    missing = [
        position for position, label in enumerate(table.labels) if label not in public_labels
    ]
    has_names = all(isinstance(label, str) for label in table.labels)
    if not missing or not has_names or not set(public_labels) <= set(table.labels):
        return X_public, ()
    limits = parse_bounds(bounds, names, table.types)
    empty = table.take(slice(0, 0))
    columns = []
    for position in missing:
        type_ = table.types[position]
        value: str | float | datetime | None
        if type_.categories:
            category = type_.categories[0]
            # a number would make the column numeric
            value = category if isinstance(category, str) else None
        elif type_.kind == BOOLEAN:
            value = False
        elif type_.kind in (NUMBER, DATE) and position in limits:
            value = _value_within(*limits[position], empty.column(position).dtype)
        else:
            raise ValueError(
                f"X_public lacks column {names[position]}, and neither its type nor bounds declare "
                "its values. Declare its categories in the type of the column, pass "
                f"bounds={{{names[position]!r}: (low, high)}} for numbers, or add it to X_public."
            )
        columns.append(nw.lit(value).alias(names[position]))
    frame = nw.from_native(X_public, eager_only=True)
    return frame.with_columns(*columns).to_native(), tuple(missing)


def _value_within(low: float, high: float, dtype: np.dtype[Any]) -> float | datetime:
    """Return a value within bounds of the kind of a column: a date, an integer or a float.

    The float is not an integer (if there is one within the bounds), so that the column is taken for
    continuous.
    """
    if dtype.kind == "M":
        date: datetime = np.datetime64(int(low), "us").item()
        return date
    return math.ceil(low) if dtype.kind in "iu" else float(np.nextafter(low, high))


def enumerate_completions(rows: Dataset, missing: Collection[int]) -> tuple[Dataset, int]:
    """Replace public rows by all combinations of declared values of their missing columns.

    If there are more than `MAX_COMPLETIONS` combinations, a Latin hypercube of them is taken.

    Parameters
    ----------
    rows : Dataset
        Its private rows are not read.
    missing : collection of int
        Positions of missing columns. A column whose values are missing in all public rows is
        completed, too.

    Returns
    -------
    rows : Dataset
        Its public rows are the n_completions copies of the m given rows, copy by copy.
    n_completions : int
        Number of copies.
    """
    m, columns = rows.n_public, rows.schema.columns
    X_public = rows.X_public[:m]
    real_rows = X_public[~rows.is_synthetic[:m]]
    completed = [
        position
        for position, column in enumerate(columns)
        if position in missing or _is_all_missing(column, real_rows[:, position])
    ]
    if not completed:
        return rows, 1
    values = [_declared_values(columns[position]) for position in completed]
    sizes = tuple(map(len, values))
    max_completions = max(MAX_COMPLETIONS, *sizes)
    if math.prod(sizes) <= max_completions:
        value_indices = np.indices(sizes).reshape(len(sizes), -1)
    else:
        hypercube = reference_sample(len(sizes), (0, 1), max_completions)
        value_indices = np.floor(hypercube * np.array(sizes)).astype(np.intp).T
    n_completions = value_indices.shape[1]
    X_completed = np.tile(X_public, (n_completions, 1))
    for position, column_values, indices in zip(completed, values, value_indices, strict=True):
        X_completed[:, position] = np.repeat(column_values[indices], m)
    is_synthetic = np.ones(n_completions * m, dtype=bool)
    return replace(rows, X_public=X_completed, is_synthetic=is_synthetic), n_completions


def _is_all_missing(column: Column, codes: NDArray[np.float64]) -> bool:
    """Indicate whether a column with known categories is missing in all public rows."""
    if not (column.categorical and len(column.values) and len(codes)):
        return False
    missing_code = len(column.values) + 1
    return bool((codes == missing_code).all())


def _declared_values(column: Column) -> NDArray[np.float64]:
    """Return the codes of all categories, or a grid of numbers between the bounds."""
    if column.categorical:
        return np.arange(len(column.values), dtype=np.float64)
    numbers = np.linspace(column.low, column.high, N_GRID_VALUES)
    return np.unique(np.rint(numbers)) if column.integral else numbers
