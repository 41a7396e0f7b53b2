"""Bounds of columns, as users declare them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.tables import DATE, ColumnType


def limits_of(
    bounds: Any, names: Sequence[str], types: Sequence[ColumnType] = ()
) -> dict[int, tuple[float, float]]:
    """Return the bounds of columns by their positions, where there are any.

    Parameters
    ----------
    bounds : array-like of shape (2,) or (n_columns, 2), mapping of column to pair, or None
        As users declare them; a column is named, or given by its position.
    names : sequence of str
        The names of the columns.
    types : sequence of ColumnType
        Their types; without these all are numbers.

    Raises
    ------
    ValueError
        If a column is unknown, or what it has is no pair of finite numbers, or dates, that
        increase.
    """
    if bounds is None:
        return {}
    if isinstance(bounds, Mapping):
        limits = {}
        for column, pair in bounds.items():
            position = position_of(column, names)
            if position is None:
                raise ValueError(
                    f"bounds names a column that X does not have: {column!r}; it has "
                    f"{', '.join(names[:10])}{', ...' if len(names) > 10 else ''}."
                )
            dated = bool(types) and types[position].kind == DATE
            limits[position] = _pair(pair, f"bounds of column {column}", dated)
        return limits
    pairs = _pairs(bounds, len(names)).tolist()
    return {position: (low, high) for position, (low, high) in enumerate(pairs)}


def by_position(bounds: Any, names: Sequence[str]) -> Any:
    """Validate the bounds of columns of numbers; return them for the same columns without names."""
    limits = limits_of(bounds, names)
    return limits if isinstance(bounds, Mapping) else bounds


def position_of(column: Any, names: Sequence[str]) -> int | None:
    """Return the position of a column given by its name or its position; None if there is none."""
    if isinstance(column, str):
        return list(names).index(column) if column in names else None
    is_number = isinstance(column, int | np.integer | float) and 0 <= column < len(names)
    return int(column) if is_number and column == int(column) else None


def _pair(pair: Any, what: str, dated: bool) -> tuple[float, float]:
    """Validate the bounds of one column, as numbers."""
    ends, failure = call_silently(np.asarray, pair, dtype="datetime64[us]" if dated else np.float64)
    if failure is None and ends.shape == (2,) and not (dated and np.isnat(ends).any()):
        low, high = ends.astype(np.int64).tolist() if dated else ends.tolist()
        if np.isfinite(low) and np.isfinite(high) and low < high:
            return float(low), float(high)
    raise ValueError(
        f"{what} must be a pair of {'dates' if dated else 'numbers'} (low, high), finite with low "
        f"< high; got {' '.join(repr(pair).split())}."
    )


def _pairs(bounds: Any, n_features: int) -> NDArray[np.float64]:
    """Validate the bounds of all columns, as an array of shape (n_features, 2)."""
    limits, failure = call_silently(np.asarray, bounds, dtype=np.float64)
    if failure is not None:
        raise ValueError(
            f"bounds must be numbers, one pair (low, high) or one per feature, shape ({n_features},"
            " 2); got something that is no number."
        )
    if limits.shape not in {(2,), (n_features, 2)}:
        raise ValueError(
            f"bounds must be one pair (low, high) or one per feature, shape ({n_features}, 2); "
            f"got shape {limits.shape}."
        )
    pairs: NDArray[np.float64] = np.broadcast_to(limits, (n_features, 2))
    low, high = pairs.T
    wrong = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high) & (low < high)))
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(
            "bounds must be finite with low < high for every feature; got "
            f"({low[at]:g}, {high[at]:g}) for feature {at}."
        )
    return pairs
