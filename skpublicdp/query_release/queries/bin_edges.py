"""Edges of the bins of a numeric column, which are public, and names of the bins."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

from skpublicdp._internal.reproducible import stable_floor
from skpublicdp.data.schema import Column, Schema
from skpublicdp.query_release.cdf.grid import just_below
from skpublicdp.typing import Floats

DEFAULT_BINS = 16
"""Default maximum number of bins of a numeric column."""

LABEL_PRECISION = 3
"""Number of decimals of edges in labels, which is increased until all edges differ, as in
`pandas.cut`."""

MAX_LABEL_PRECISION = 20
"""Upper limit on the precision of labels, as in `pandas.cut`."""


def parse_bins(bins: Any, schema: Schema) -> dict[int, int | Floats]:
    """Return, for each numeric column, the maximum number of bins or the encoded edges.

    Parameters
    ----------
    bins : int, or mapping of column to int or to edges
        The parameter of `MarginalQueries`.
    """
    positions = np.flatnonzero(schema.numeric).tolist()
    if not isinstance(bins, Mapping):
        return dict.fromkeys(positions, _check_number(bins))
    parsed: dict[int, int | Floats] = dict.fromkeys(positions, DEFAULT_BINS)
    for name, value in bins.items():
        position = schema.position(name)
        column = schema.columns[position]
        if column.categorical:
            raise ValueError(
                f"bins has an entry for column {column.name}, which is categorical. Bins apply "
                "only to numeric columns."
            )
        is_number = np.ndim(value) == 0
        parsed[position] = _check_number(value) if is_number else _check_edges(value, column)
    return parsed


def max_bins(bins: int | Mapping[Any, Any], name: str) -> int:
    """Return the maximum number of bins of a numeric column, for the parameter `bins`."""
    chosen: Any = bins.get(name, DEFAULT_BINS) if isinstance(bins, Mapping) else bins
    # rows beyond the edges may need a bin on each side
    return _check_number(chosen) if np.ndim(chosen) == 0 else len(chosen) + 1


def _check_number(bins: Any) -> int:
    """Check that a number of bins is a positive integer, and return it as an int."""
    if not isinstance(bins, Integral) or bins < 1:
        raise ValueError(
            "The 'bins' parameter of MarginalQueries must be a positive integer, or a dict that "
            f"maps columns to positive integers or increasing edges. Got {bins!r} instead."
        )
    return int(bins)


def encode_edges(edges: Any, column: Column) -> Floats:
    """Check that bin edges are increasing, and return the encoded edges."""
    numbers = column.from_user(edges)
    if numbers.ndim != 1 or len(numbers) < 2 or not (numbers[1:] > numbers[:-1]).all():
        raise ValueError(
            f"The edges of column {column.name} must contain at least two increasing numbers."
        )
    return numbers


def _check_edges(edges: Any, column: Column) -> Floats:
    """Check that each bin contains numbers within the bounds, and return the encoded edges."""
    numbers = encode_edges(edges, column)
    if not (numbers[1:] > column.low).all() or not (numbers[:-1] < column.high).all():
        low, high = column.format(column.low), column.format(column.high)
        raise ValueError(
            f"The bins of column {column.name} must lie within its bounds, {low} to {high}, "
            "because numbers are clipped to the bounds. Pass bounds that contain all edges."
        )
    return numbers


def cuts_from_edges(edges: Floats, column: Column) -> Floats:
    """Return the cuts between bins with given edges, shape (n_bins - 1,).

    A bin (a, b] contains its right edge, and the first bin contains both edges. If the bounds of
    the column extend beyond the edges, there is an additional bin below or above the edges.
    """
    below = [just_below(edges[0])] if column.low < edges[0] else []
    above = [edges[-1]] if column.high > edges[-1] else []
    return np.concatenate([below, edges[1:-1], above])


def bin_labels(edges: Floats, column: Column) -> list[str]:
    """Return labels of bins with given edges, like ``pandas.cut(..., include_lowest=True)``.

    Bins below and above all edges (see `cuts_from_edges`) have labels such as "< 0" and "> 50". For
    dates, the first label begins with a square bracket, "[2024-01-01, 2025-01-01]", instead of a
    slightly earlier date.
    """
    texts = column.format_all(edges)
    if column.has_offset:
        labels = [f"({low}, {high}]" for low, high in itertools.pairwise(texts)]
        labels[0] = f"[{labels[0][1:]}"
    else:
        labels = _pandas_labels(edges)
    below = [f"< {texts[0]}"] if column.low < edges[0] else []
    above = [f"> {texts[-1]}"] if column.high > edges[-1] else []
    return [*below, *labels, *above]


def _pandas_labels(edges: Floats) -> list[str]:
    """Return the labels that ``pandas.cut(..., include_lowest=True)`` gives to bins.

    Edges are rounded. Since intervals are open on the left, the first edge is lowered by one unit
    of the last decimal.

    Examples
    --------
    >>> _pandas_labels(np.array([0.0, 10.0, 20.5]))
    ['(-0.001, 10.0]', '(10.0, 20.5]']
    """
    precision = LABEL_PRECISION
    while precision < MAX_LABEL_PRECISION:
        rounded = [_round(edge, precision) for edge in edges.tolist()]
        if len(set(rounded)) == len(rounded):
            break
        precision += 1
    else:
        precision = LABEL_PRECISION
        rounded = [_round(edge, precision) for edge in edges.tolist()]
    rounded[0] -= 10.0**-precision
    return [f"({low}, {high}]" for low, high in itertools.pairwise(rounded)]


def _round(number: float, precision: int) -> float:
    """Round a number to `precision` decimals, or to significant digits if it is below 1."""
    fraction, whole = np.modf(number)
    if not np.isfinite(number) or number == 0:
        return number
    digits = precision
    if whole == 0:
        digits = precision - 1 - stable_floor(np.log10(abs(fraction)))
    return float(np.round(number, digits))


def describe_cells(column: Column, cuts: Floats | None) -> list[Any]:
    """Return the name of each code in a column: a category, a number, or a bin's range as text.

    `cuts` contains the cuts between the bins of a numeric column, or None for a categorical column.
    A bin that contains a single public value is named after this value. If the bounds allow smaller
    or larger numbers in the first or the last bin, the name of this bin states it, for example
    "<= 0" or ">= 2". So do the names of bins that contain several whole numbers.
    """
    if column.categorical:
        return list(column.names)
    assert cuts is not None
    if not has_bin_per_value(column, cuts):
        return _describe_ranges(column, cuts)
    if column.integral and not column.is_datetime:
        return _describe_whole_numbers(column, cuts)
    values, texts = _values_within_bounds(column), column.format_all(cuts)
    # numbers between two public values are counted with the nearer value
    allows_smaller, allows_larger = column.low < values[0], column.high > values[-1]
    names: list[Any] = column.to_user(values).tolist()
    if column.is_datetime and (allows_smaller or allows_larger or column.nullable):
        names = [*column.format_all(values)]
    if allows_smaller:
        names[0] = f"<= {texts[0]}"
    if allows_larger:
        names[-1] = f"> {texts[-1]}"
    return names


def _describe_whole_numbers(column: Column, cuts: Floats) -> list[Any]:
    """Return the public values, or for bins with several whole numbers, their range as text."""
    names: list[Any] = column.restore(_values_within_bounds(column)).tolist()
    last_whole = np.floor(cuts)
    smallest = [column.low, *(last_whole + 1).tolist()]
    largest = [*last_whole.tolist(), column.high]
    for code, (low, high) in enumerate(zip(smallest, largest, strict=True)):
        if low == high:
            continue
        first = str(int(low) + column.offset)
        last = str(int(high) + column.offset)
        names[code] = f"{first} to {last}"
        if code == 0:
            names[code] = f"<= {last}"
        if code == len(cuts):
            names[code] = f">= {first}"
    return names


def has_bin_per_value(column: Column, cuts: Floats) -> bool:
    """Indicate whether each distinct public value of a numeric column has a bin of its own."""
    return 0 < len(cuts) == len(_values_within_bounds(column)) - 1


def _values_within_bounds(column: Column) -> Floats:
    """Return the distinct public values, where values beyond a bound count as the bound."""
    return np.unique(np.clip(column.values, column.low, column.high))


def _describe_ranges(column: Column, cuts: Floats) -> list[str]:
    """Return the range of each bin of a numeric column as text, such as "18 to 22.5".

    A bin contains the upper end of its range, and only the first bin contains the lower end.
    Without declared bounds, the first and the last bin have no outer end, since they also count all
    numbers beyond the public range.
    """
    if not column.is_bounded:
        texts = column.format_all(cuts)
        if not texts:
            return ["any"]
        inner = [f"{low} to {high}" for low, high in itertools.pairwise(texts)]
        return [f"<= {texts[0]}", *inner, f"> {texts[-1]}"]
    ends = [column.low, *cuts.tolist(), column.high]
    if column.low == column.high:
        return [column.format(column.low)]
    texts = column.format_all(ends)
    return [f"{low} to {high}" for low, high in itertools.pairwise(texts)]
