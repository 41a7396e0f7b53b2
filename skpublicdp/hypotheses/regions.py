"""What answers to questions leave of a column: which of them can still be met."""

from __future__ import annotations

import math

Part = tuple[tuple[float, float], ...]
"""Values of a column, in intervals: above the low end of one, up to its high end."""

EVERYTHING: Part = ((-math.inf, math.inf),)

Region = dict[int, Part]
"""What is left of columns; of those that are not in it, everything."""


def inside(part: Part, low: float, high: float) -> Part:
    """Return the values above `low` and up to `high`.

    Examples
    --------
    >>> inside(((0, 4), (6, 9)), 2, 7)
    ((2, 4), (6, 7))
    """
    cut = ((max(low, a), min(high, b)) for a, b in part)
    return tuple((a, b) for a, b in cut if a < b)


def parted(region: Region, column: int, low: float, high: float) -> tuple[Region, Region]:
    """Part a region by whether the value of a column is above `low` and up to `high`.

    Returns
    -------
    dict
        Where it is not.
    dict
        Where it is.
    """
    part = region.get(column, EVERYTHING)
    without = inside(part, -math.inf, low) + inside(part, high, math.inf)
    return region | {column: without}, region | {column: inside(part, low, high)}


def is_empty(region: Region) -> bool:
    """Tell whether no row is there."""
    return not all(region.values())
