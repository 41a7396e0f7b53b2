"""Neyman allocation: split a budget so that the sum of expected losses is minimal."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from skpublicdp.typing import Floats, Integers

ALLOCATION_STEPS = 32
"""The smallest nonzero allocation is 1/32 of an equal share, if its noise can be drawn."""


def allocation_grid(n_items: int, steps: int = ALLOCATION_STEPS) -> Integers:
    """Return the allocations an item can get: 0, powers of 2, and all n_items * steps units."""
    total = n_items * steps
    powers = 1 << np.arange(total.bit_length())
    return np.concatenate([[0], powers[powers < total], [total]])


def neyman_allocation(losses: Floats, units: Integers) -> list[Fraction]:
    """Allocate a total so that the sum of expected losses is minimal (Neyman 1934).

    The steepest segments of the lower convex hulls are served first. That is optimal if the losses
    are convex, and linear between the grid points.

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
    segments = [
        segment for item in range(n_items) for segment in _hull_segments(units, losses[item], item)
    ]
    allocation, remaining = np.zeros(n_items, dtype=np.int64), int(units[-1])
    for _, item, length in sorted(segments):
        allocation[item] += min(length, remaining)
        remaining -= min(length, remaining)
    allocation += remaining // n_items  # units that no item profits from
    allocation[0] += remaining % n_items
    return [Fraction(int(share), int(units[-1])) for share in allocation]


def _hull_segments(units: Integers, losses: Floats, item: int) -> list[tuple[float, int, int]]:
    """Return (slope, item, length) of the decreasing segments of the lower convex hull."""
    segments, start = [], 0
    while start < len(units) - 1:
        slopes = (losses[start + 1 :] - losses[start]) / (units[start + 1 :] - units[start])
        step = int(np.argmin(slopes))
        if slopes[step] >= 0:
            break
        segments.append((float(slopes[step]), item, int(units[start + step + 1] - units[start])))
        start += step + 1
    return segments
