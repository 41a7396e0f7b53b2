"""Neyman allocation: division of a budget that minimises the sum of expected losses."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from skpublicdp.typing import Floats, Integers

ALLOCATION_STEPS = 32
"""Number of units in an equal share. The smallest allocation is one unit."""


def allocation_grid(n_items: int, steps: int = ALLOCATION_STEPS) -> Integers:
    """Return the possible allocations of an item: 0, powers of 2, and the total of all units.

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
    """Divide a total so that the sum of expected losses is minimal (Neyman 1934).

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
        Share of each item, of sum 1.

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
    allocation, remaining = np.zeros(n_items, dtype=np.int64), int(units[-1])
    for _, item, length in sorted(segments):
        allocation[item] += min(length, remaining)
        remaining -= min(length, remaining)
    # units that reduce no loss are divided equally
    allocation += remaining // n_items
    allocation[0] += remaining % n_items
    return [Fraction(int(share), int(units[-1])) for share in allocation]


def _hull_segments(units: Integers, losses: Floats, item: int) -> list[tuple[float, int, int]]:
    """Return (slope, item, length) of each decreasing segment of the lower convex hull.

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
        step = int(np.argmin(slopes))
        if slopes[step] >= 0:
            break
        segments.append((float(slopes[step]), item, int(units[start + step + 1] - units[start])))
        start += step + 1
    return segments
