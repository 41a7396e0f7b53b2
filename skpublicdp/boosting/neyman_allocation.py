"""Neyman allocation: division of a budget that minimises the sum of expected losses."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from skpublicdp.typing import Floats, Integers

ALLOCATION_STEPS = 32
"""Number of units that each item would have in an equal division of the budget. The smallest
positive allocation is one unit."""


def allocation_grid(n_items: int, steps: int = ALLOCATION_STEPS) -> Integers:
    """Return the allocations, in units, at which the loss of an item is evaluated.

    They are 0, powers of 2, and the total of all units.

    Parameters
    ----------
    n_items : int
        Number of items.
    steps : int
        Number of units in an equal share, so that the total is ``n_items * steps``.
    """
    total = n_items * steps
    powers = 1 << np.arange(total.bit_length())
    return np.concatenate([[0], powers[powers < total], [total]])


def neyman_allocation(losses: Floats, units: Integers) -> list[Fraction]:
    """Return the division of a budget that minimises the sum of expected losses (Neyman 1934).

    Units are allocated greedily along the steepest segments of the lower convex hulls of the
    losses. The result is optimal if the losses are convex, and linear between the grid points.

    Parameters
    ----------
    losses : ndarray of float64, shape (n_items, n_allocations)
        Expected loss of each item with each allocation.
    units : ndarray of int64, shape (n_allocations,)
        The allocations, as `allocation_grid` returns them; the last one is the total.

    Returns
    -------
    list of Fraction
        Fraction of the budget for each item, of sum 1.

    Examples
    --------
    >>> from skpublicdp.boosting.neyman_allocation import allocation_grid, neyman_allocation
    >>> units = allocation_grid(2)
    >>> noise = 1 / (1 + units)
    >>> [str(share) for share in neyman_allocation(np.array([noise, 9 * noise]), units)]
    ['1/4', '3/4']
    """
    n_items = len(losses)
    segments = []
    for item in range(n_items):
        segments += _hull_segments(units, losses[item], item)
    total_units = int(units[-1])
    allocation, remaining = np.zeros(n_items, dtype=np.int64), total_units
    for segment in sorted(segments):  # the steepest one first
        n_units = min(segment.n_units, remaining)
        allocation[segment.item] += n_units
        remaining -= n_units
    # units that reduce no loss are divided equally
    allocation += remaining // n_items
    allocation[0] += remaining % n_items
    return [Fraction(int(n_units), total_units) for n_units in allocation]


class _HullSegment(NamedTuple):
    """Segment of the lower convex hull of an item's loss. Segments are ordered by slope.

    Attributes
    ----------
    slope : float
        Change of the loss per unit; negative.
    item : int
        Position of the item.
    n_units : int
        Length of the segment, in units.
    """

    slope: float
    item: int
    n_units: int


def _hull_segments(units: Integers, losses: Floats, item: int) -> list[_HullSegment]:
    """Return the decreasing segments of the lower convex hull of an item's loss, from the left.

    Parameters
    ----------
    units : ndarray of int64, shape (n_allocations,)
        The allocations, in increasing order.
    losses : ndarray of float64, shape (n_allocations,)
        Expected loss with each allocation.
    item : int
        Position of the item, which is copied to the result.
    """
    segments, start = [], 0
    while start < len(units) - 1:
        slopes = (losses[start + 1 :] - losses[start]) / (units[start + 1 :] - units[start])
        steepest = int(np.argmin(slopes))
        if slopes[steepest] >= 0:  # no larger allocation has a smaller loss
            break
        end = start + 1 + steepest
        n_units = int(units[end] - units[start])
        segments.append(_HullSegment(float(slopes[steepest]), item, n_units))
        start = end
    return segments
