"""Bounds of columns, and the positions of columns that are given by name or position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.dates import dates_from_user
from skpublicdp.data.tables import DATE, NUMBER, ColumnType
from skpublicdp.typing import Floats


def parse_bounds(
    bounds: Any,
    names: Sequence[str],
    types: Sequence[ColumnType] = (),
    labels: Sequence[Any] = (),
) -> dict[int, tuple[float, float]]:
    """Validate column bounds, and return them as a dict of position to (low, high).

    Parameters
    ----------
    bounds : array-like of shape (2,) or (n_columns, 2), mapping of column to pair, or None
        Bounds for all columns, or for some columns specified by name or position.
    names : sequence of str
        Names of the columns.
    types : sequence of ColumnType
        Types of the columns. If no types are given, all columns are numeric.
    labels : sequence
        Labels of the columns of a frame, as in `column_position`.

    Raises
    ------
    ValueError
        If a column is unknown, or if its bounds are not an increasing pair of finite numbers or
        dates.
    """
    if bounds is None:
        return {}
    if isinstance(bounds, Mapping):
        limits = {}
        for column, pair in bounds.items():
            position = column_position(column, names, labels)
            if position is None:
                raise ValueError(
                    f"bounds refers to a column that X does not have: {column!r}. The columns of X "
                    f"are {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}."
                )
            type_ = types[position] if types else ColumnType(NUMBER)
            limits[position] = _parse_pair(pair, f"bounds of column {column}", type_)
        return limits
    pairs = _parse_pairs(bounds, len(names)).tolist()
    return {position: (low, high) for position, (low, high) in enumerate(pairs)}


def bounds_by_position(bounds: Any, names: Sequence[str], labels: Sequence[Any] = ()) -> Any:
    """Return the validated parameter `bounds` with column names replaced by positions.

    Bounds that are not a mapping are returned unchanged. All columns are numeric.
    """
    limits = parse_bounds(bounds, names, labels=labels)
    return limits if isinstance(bounds, Mapping) else bounds


def has_numbers_as_names(labels: Sequence[Any]) -> bool:
    """Indicate whether a number is the name of a column instead of its position.

    This is the case if a label of a frame is a number, unless the labels are the positions.
    """
    are_positions = tuple(labels) == tuple(range(len(labels)))
    return not are_positions and any(isinstance(each, int | float | np.number) for each in labels)


def column_position(column: Any, names: Sequence[str], labels: Sequence[Any] = ()) -> int | None:
    """Return the position of a column specified by name or position, or None if unknown.

    If the labels of a frame are numbers, a number is a name and never a position.
    """
    if isinstance(column, str):
        return list(names).index(column) if column in names else None
    if has_numbers_as_names(labels):
        return list(labels).index(column) if column in labels else None
    if not isinstance(column, int | np.integer | float):
        return None
    is_position = 0 <= column < len(names) and column == int(column)
    return int(column) if is_position else None


def _parse_pair(pair: Any, subject: str, type_: ColumnType) -> tuple[float, float]:
    """Return a column's bounds (low, high) as floats, in microseconds since 1970 for dates.

    Parameters
    ----------
    pair : array-like of shape (2,)
        Bounds specified by the user. Dates without a time zone are read in that of the column.
    subject : str
        Subject of the error message, such as "bounds of column age".
    """
    is_date = type_.kind == DATE
    if is_date:
        ends, failure = call_silently(dates_from_user, pair, type_.time_zone)
    else:
        ends, failure = call_silently(np.asarray, pair, dtype=np.float64)
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
            "bounds must contain numbers: one pair (low, high), or one pair per feature, shape "
            f"({n_features}, 2). At least one value is not a number."
        )
    if limits.shape not in {(2,), (n_features, 2)}:
        raise ValueError(
            f"bounds must be one pair (low, high), or one pair per feature, shape ({n_features}, "
            f"2); got shape {limits.shape}."
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


def feature_labels(estimator: Any) -> tuple[Any, ...]:
    """Return the column labels of the frame seen in `fit` if all are numbers, or else ()."""
    return getattr(estimator, "_numbers_as_names", ())
