"""Complete public rows by the declared values of the columns they lack."""

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
from skpublicdp.data.fit_inputs import Dataset
from skpublicdp.data.reference import reference_sample
from skpublicdp.data.schema import Column, column_names
from skpublicdp.data.streaming import as_rows, is_streamed
from skpublicdp.data.tables import BOOLEAN, DATE, NUMBER, Table, is_frame

N_GRID_VALUES = 16
"""Number of grid values that represent a numeric column between its bounds."""

MAX_COMPLETIONS = 64
"""Maximum number of completions of a public row, unless one column has more values."""


def add_missing_columns(X: Any, X_public: Any, bounds: Any) -> tuple[Any, tuple[int, ...]]:
    """Add the columns that a frame of public rows lacks, with some value that is declared.

    Parameters
    ----------
    X : DataFrame or RowSource
        All other rows. Only the names and types of their columns are looked at.
    X_public : object
        Public rows. Returned as they are if they are no frame, lack nothing or have other columns.
    bounds : array-like or mapping, optional
        Bounds of columns of numbers and dates.

    Returns
    -------
    X_public : object
        The public rows.
    lacking : tuple of int
        The positions in `X` of the columns that were added.

    Raises
    ------
    ValueError
        If nothing declares what such a column may hold.
    """
    table = Table(as_rows(X).empty() if is_streamed(X) else X) if is_frame(X_public) else None
    if table is None or not table.is_frame or not Table(X_public).shape[0]:
        return X_public, ()
    shown, names = Table(X_public).labels, column_names(table)
    lacking = [at for at, label in enumerate(table.labels) if label not in shown]
    named = all(isinstance(label, str) for label in table.labels)
    if not lacking or not named or not set(shown) <= set(table.labels):
        return X_public, ()
    limits = parse_bounds(bounds, names, table.types)
    none = table.take(slice(0, 0))
    values = []
    for at in lacking:
        type_ = table.types[at]
        value: str | float | datetime | None
        if type_.categories:  # numbers in their place would be of another kind
            value = type_.categories[0] if isinstance(type_.categories[0], str) else None
        elif type_.kind == BOOLEAN:
            value = False
        elif type_.kind in (NUMBER, DATE) and at in limits:
            value = _number(*limits[at], none.column(at).dtype)
        else:
            raise ValueError(
                f"Column {names[at]} is lacking in X_public and nothing declares its values; "
                "declare its categories in the type of the column, or pass "
                f"bounds={{{names[at]!r}: (low, high)}} for numbers, or public rows that have it."
            )
        values.append(nw.lit(value).alias(names[at]))
    frame = nw.from_native(X_public, eager_only=True)
    return frame.with_columns(*values).to_native(), tuple(lacking)


def _number(low: float, high: float, dtype: np.dtype[Any]) -> float | datetime:
    """Return a number or a date between bounds, which is whole only if the column's type is."""
    if dtype.kind == "M":
        date: datetime = np.datetime64(int(low), "us").item()
        return date
    return math.ceil(low) if dtype.kind in "iu" else float(np.nextafter(low, high))


def enumerate_completions(rows: Dataset, lacking: Collection[int]) -> tuple[Dataset, int]:
    """Complete public rows by what the columns that they do not show may hold.

    Parameters
    ----------
    rows : Dataset
        Its private rows are not looked at.
    lacking : collection of int
        Positions of columns that are not shown, besides those that are missing in all public rows.

    Returns
    -------
    rows : Dataset
        Its public rows below each other, once for each combination of declared values; of many
        combinations, for a spread of them.
    n_completions : int
        How often.
    """
    m, columns = rows.n_public, rows.schema.columns
    given = rows.X_public[:m]
    true = given[~rows.is_synthetic[:m]]
    unseen = [
        at for at in range(len(columns)) if at in lacking or _is_missing(columns[at], true[:, at])
    ]
    if not unseen:
        return rows, 1
    values = [_values(columns[at]) for at in unseen]
    sizes = tuple(len(each) for each in values)
    most = max(MAX_COMPLETIONS, *sizes)
    if math.prod(sizes) <= most:
        chosen = np.indices(sizes).reshape(len(sizes), -1)
    else:
        spread = reference_sample(len(sizes), (0, 1), most)
        chosen = np.floor(spread * np.array(sizes)).astype(np.intp).T
    n = chosen.shape[1]
    X_public = np.tile(given, (n, 1))
    for at, each, places in zip(unseen, values, chosen, strict=True):
        X_public[:, at] = np.repeat(each[places], m)
    return replace(rows, X_public=X_public, is_synthetic=np.ones(n * m, dtype=bool)), n


def _is_missing(column: Column, codes: NDArray[np.float64]) -> bool:
    """Tell whether public rows show no value of a column of which categories are known."""
    if not (column.categorical and len(column.values) and len(codes)):
        return False
    return bool((codes == len(column.values) + 1).all())


def _values(column: Column) -> NDArray[np.float64]:
    """Return encoded values that stand for all that a column may hold."""
    if column.categorical:
        return np.arange(len(column.values), dtype=np.float64)
    levels = np.linspace(column.low, column.high, N_GRID_VALUES)
    return np.unique(np.rint(levels)) if column.integral else levels
