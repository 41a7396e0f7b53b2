"""Queries about combined cells: in some columns, any of several values or a range of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.schema import Column
from skpublicdp.typing import Codes, Floats, Integers

Objects = NDArray[np.object_]

SINGLE_VALUES = (str, int, float, np.generic, type(None))
"""Types of values that are neither a range nor a choice, which a query may contain many times."""

CombinedQuery = dict[int, Codes]
"""Codes that satisfy a query, for each restricted column."""


def is_range(value: Any) -> bool:
    """Indicate whether a value in a query is a range: a pair, a slice or a pandas Interval."""
    is_pair = isinstance(value, tuple) and len(value) == 2
    return is_pair or isinstance(value, slice | Ends) or hasattr(value, "closed_left")


def is_choice(value: Any) -> bool:
    """Indicate whether a value in a query lists several values, of which any one may hold."""
    is_collection = isinstance(value, list | tuple | set | frozenset)
    has_values = getattr(value, "ndim", 0) == 1 and hasattr(value, "tolist")  # array, series, index
    return not is_range(value) and (is_collection or has_values)


def read_combined(
    table: Objects,
    columns: Sequence[Column],
    *,
    wildcard: int,
    cuts: Sequence[Floats | None],
    encode: Callable[[Objects], Integers],
) -> list[CombinedQuery]:
    """Return the codes that satisfy each query, given an object for each query and column.

    An object is a value, a list of values, a range, or None for any value. The function `encode`
    returns the codes of a table without lists and ranges, or `wildcard`.
    """
    n_queries, n_columns = table.shape

    def codes_of(value: Any, position: int) -> list[int]:
        """Return the codes of one entry of the table."""
        if is_choice(value):
            if not len(value):
                raise ValueError(
                    f"A list in a query must contain at least one value; the list for column "
                    f"{columns[position].name} is empty."
                )
            return [code for member in value for code in codes_of(member, position)]
        if is_range(value):
            return range_codes(value, columns[position], cuts[position])
        single = np.full((1, n_columns), None, dtype=object)
        single[0, position] = value
        codes: list[int] = encode(single)[:, position].tolist()
        return codes

    return [
        {
            position: np.unique(codes)
            for position in range(n_columns)
            if wildcard not in (codes := codes_of(table[number, position], position))
        }
        for number in range(n_queries)
    ]


class Ends(NamedTuple):
    """Ends of a range, each None if the range is unlimited on this side."""

    low: Any
    high: Any
    has_low: bool = True  # whether the range contains its lower end
    has_high: bool = True


def _ends(value: Any, column: Column) -> Ends:
    """Return the ends of a range. Pairs and slices contain both, as slices of labels in pandas."""
    if isinstance(value, tuple):
        return value if isinstance(value, Ends) else Ends(*value)
    if not isinstance(value, slice):
        return Ends(value.left, value.right, value.closed_left, value.closed_right)
    if value.step is not None:
        raise ValueError(f"A slice in a query about column {column.name} must not have a step.")
    return Ends(value.start, value.stop)


def range_codes(value: Any, column: Column, cuts: Floats | None) -> list[int]:
    """Return the codes of the bins that form a range of numbers, or the categories between two.

    The range must contain each bin entirely or not at all, since the numbers within a bin are not
    known.
    """
    ends = _ends(value, column)
    if cuts is None:
        return _category_codes(ends, column)
    low = column.low if ends.low is None else _number(ends.low, column)
    high = column.high if ends.high is None else _number(ends.high, column)
    # the smallest and the largest number of the column in the range
    low, high = (
        _first_inside(low, ends.has_low, column),
        -_first_inside(-high, ends.has_high, column),
    )
    low, high = max(low, column.low), min(high, column.high)
    if low > high:
        raise ValueError(
            f"The range for column {column.name} contains no number within the bounds of the "
            "column. Its lower end must not exceed its upper end."
        )
    first, last = np.searchsorted(cuts, [low, high]).tolist()
    starts = [column.low, *(_first_inside(cut, False, column) for cut in cuts.tolist())]
    stops = [*(-_first_inside(-cut, True, column) for cut in cuts.tolist()), column.high]
    if low > starts[first] or high < stops[last]:
        code = first if low > starts[first] else last
        raise ValueError(
            f"The range for column {column.name} contains a part of the numbers from "
            f"{column.format(starts[code])} to {column.format(stops[code])}, which are counted in "
            "one bin. Use the ends of bins (a pair contains both of its ends, and "
            "pandas.Interval(a, b) does not contain a), or declare edges in "
            "MarginalQueries(bins={column: edges}) before the fit."
        )
    return list(range(first, last + 1))


def _number(end: Any, column: Column) -> float:
    """Return the end of a range as an encoded number."""
    try:
        number = float(column.from_user([end])[0])
    except (TypeError, ValueError):
        number = np.nan
    if np.isnan(number):
        raise ValueError(
            f"The ends of a range for column {column.name} must be numbers or dates like those of "
            f"the column, or None; got {end!r}."
        )
    return number


def _first_inside(end: float, is_included: bool, column: Column) -> float:
    """Return the smallest number of a column that is at or above an end, or only above it."""
    if not np.isfinite(end):
        return end
    if column.integral:
        return float(np.ceil(end) if is_included else np.floor(end) + 1)
    return end if is_included else float(np.nextafter(end, np.inf))


def _category_codes(ends: Ends, column: Column) -> list[int]:
    """Return the codes of the categories between two, in the declared order of the column."""
    codes = column.display_order[: len(column.values)]
    order = [str(column.names[code]) for code in codes]
    named = [None if end is None else str(end) for end in (ends.low, ends.high)]
    is_unknown = any(name not in [None, *order] for name in named)
    if is_unknown or not column.declared_order:
        raise ValueError(
            f"A pair or a slice means a range, but column {column.name} has no numbers and no "
            "declared order of categories, or the range has an end that is not a category. Pass a "
            "list for any one of several categories."
        )
    first = 0 if named[0] is None else order.index(named[0]) + (not ends.has_low)
    stop = len(order) if named[1] is None else order.index(named[1]) + ends.has_high
    return column.display_order[first:stop]


def expand(
    queries: Sequence[CombinedQuery], n_columns: int, wildcard: int
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the cells of all queries, and the position of the first cell of each query."""
    blocks = []
    for query in queries:
        combinations = list(product(*query.values()))
        codes = np.array(combinations)
        block = np.full((len(codes), n_columns), wildcard)
        block[:, list(query)] = codes
        blocks.append(block)
    sizes = np.array([len(block) for block in blocks])
    starts = np.cumsum(sizes) - sizes
    return np.concatenate(blocks).astype(np.int64), starts
