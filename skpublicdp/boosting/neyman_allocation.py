"""A budget parted among blocks: more where noise costs more (Neyman's allocation)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ALLOCATION_STEPS = 32
"""Whoever gets anything gets one over so many of an equal share, if its noise can be drawn."""


def allocation_grid(size: int, finest: int = ALLOCATION_STEPS) -> Integers:
    """Return what one of so many may get, 0 first: the whole is `size` times `finest` units."""
    whole = size * finest
    powers = 1 << np.arange(whole.bit_length())
    return np.concatenate([[0], powers[powers < whole], [whole]])


def neyman_allocation(risks: Floats, units: Integers) -> list[Fraction]:
    """Part a whole so that risks add up to least.

    Parameters
    ----------
    risks : ndarray of float64, shape (size, n_amounts)
        What each loses with each of the amounts.
    units : ndarray of int64, shape (n_amounts,)
        The `amounts`, of which the last is the whole.

    Returns
    -------
    list of Fraction
        The shares, of sum 1: the steepest pieces of the lower convex hulls, which is best if risks
        are convex, and linear between amounts.

    Examples
    --------
    >>> from skpublicdp.boosting.neyman_allocation import allocation_grid, neyman_allocation
    >>> units = allocation_grid(2)
    >>> noise = 1 / (1 + units)
    >>> [str(share) for share in neyman_allocation(np.array([noise, 9 * noise]), units)]
    ['1/4', '3/4']
    """
    size = len(risks)
    pieces = [piece for which in range(size) for piece in _falls(units, risks[which], which)]
    found, left = np.zeros(size, dtype=np.int64), int(units[-1])
    for _, which, length in sorted(pieces):
        found[which] += min(length, left)
        left -= min(length, left)
    found += left // size  # something is left where nothing depends on it
    found[0] += left % size
    return [Fraction(int(share), int(units[-1])) for share in found]


def _falls(units: Integers, risks: Floats, which: int) -> list[tuple[float, int, int]]:
    """Return slope, owner and length of the falling pieces of a lower convex hull."""
    pieces, here = [], 0
    while here < len(units) - 1:
        slopes = (risks[here + 1 :] - risks[here]) / (units[here + 1 :] - units[here])
        step = int(np.argmin(slopes))
        if slopes[step] >= 0:
            break
        pieces.append((float(slopes[step]), which, int(units[here + step + 1] - units[here])))
        here += step + 1
    return pieces
