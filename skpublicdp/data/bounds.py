"""Bounds of columns, as users declare them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.tables import DATE, ColumnType
from skpublicdp.typing import Floats


def parse_bounds(
    bounds: Any, names: Sequence[str], types: Sequence[ColumnType] = ()
) -> dict[int, tuple[float, float]]:
    """Return the bounds of columns as a dict of position to (low, high), after validation.

    Parameters
    ----------
    bounds : array-like of shape (2,) or (n_columns, 2), mapping of column to pair, or None
        Bounds of all columns, or of some columns given by name or position.
    names : sequence of str
        The names of the columns.
    types : sequence of ColumnType
        The types of the columns. Without types all columns are numeric.

    Raises
    ------
    ValueError
        If a column is unknown, or if bounds are not an increasing pair of finite numbers or dates.
    """
    if bounds is None:
        return {}
    if isinstance(bounds, Mapping):
        limits = {}
        for column, pair in bounds.items():
            position = column_position(column, names)
            if position is None:
                raise ValueError(
                    f"bounds names a column that X does not have: {column!r}; it has "
                    f"{', '.join(names[:10])}{', ...' if len(names) > 10 else ''}."
                )
            is_date = bool(types) and types[position].kind == DATE
            limits[position] = _parse_pair(pair, f"bounds of column {column}", is_date)
        return limits
    pairs = _parse_pairs(bounds, len(names)).tolist()
    return {position: (low, high) for position, (low, high) in enumerate(pairs)}


def bounds_by_position(bounds: Any, names: Sequence[str]) -> Any:
    """Return the parameter `bounds` with column names replaced by positions, after validation.

    Bounds that are no mapping are returned unchanged. All columns are numeric.
    """
    limits = parse_bounds(bounds, names)
    return limits if isinstance(bounds, Mapping) else bounds


def column_position(column: Any, names: Sequence[str]) -> int | None:
    """Return the position of a column that a user gave by name or position; None if unknown.

    Parameters
    ----------
    column : str, int or float
        Name, or position as a whole number.
    names : sequence of str
        The names of the columns.
    """
    if isinstance(column, str):
        return list(names).index(column) if column in names else None
    is_number = isinstance(column, int | np.integer | float) and 0 <= column < len(names)
    return int(column) if is_number and column == int(column) else None


def _parse_pair(pair: Any, subject: str, is_date: bool) -> tuple[float, float]:
    """Return the bounds (low, high) of one column as floats; dates are microseconds since 1970.

    Parameters
    ----------
    pair : array-like of shape (2,)
        Bounds that the user passed.
    subject : str
        Subject of the error message, such as "bounds of column age".
    is_date : bool
        Whether the bounds are dates.
    """
    dtype = "datetime64[us]" if is_date else np.float64
    ends, failure = call_silently(np.asarray, pair, dtype=dtype)
    if failure is None and ends.shape == (2,) and not (is_date and np.isnat(ends).any()):
        low, high = ends.astype(np.int64).tolist() if is_date else ends.tolist()
        if np.isfinite(low) and np.isfinite(high) and low < high:
            return float(low), float(high)
    raise ValueError(
        f"{subject} must be a pair of {'dates' if is_date else 'numbers'} (low, high), finite with "
        f"low < high; got {' '.join(repr(pair).split())}."
    )


def _parse_pairs(bounds: Any, n_features: int) -> Floats:
    """Return the bounds of all columns as an array of shape (n_features, 2)."""
    limits, failure = call_silently(np.asarray, bounds, dtype=np.float64)
    if failure is not None:
        raise ValueError(
            f"bounds must be numbers, one pair (low, high) or one per feature, shape ({n_features},"
            " 2); got a value that is not a number."
        )
    if limits.shape not in {(2,), (n_features, 2)}:
        raise ValueError(
            f"bounds must be one pair (low, high) or one per feature, shape ({n_features}, 2); "
            f"got shape {limits.shape}."
        )
    pairs: Floats = np.broadcast_to(limits, (n_features, 2))
    low, high = pairs.T
    invalid = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high) & (low < high)))
    if len(invalid):
        feature = int(invalid[0])
        raise ValueError(
            "bounds must be finite with low < high for every feature; got "
            f"({low[feature]:g}, {high[feature]:g}) for feature {feature}."
        )
    return pairs
