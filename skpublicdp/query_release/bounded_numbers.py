"""Integers that represent bounded numbers, whose exact sums are released with noise."""

from __future__ import annotations

import numpy as np

from skpublicdp.accounting import Sensitivity
from skpublicdp.typing import Floats, Integers

UNITS = 1 << 20
"""Default integer of the upper bound. Sums over fewer than 2^33 rows are exact in float64."""


def to_units(values: Floats, low: float, high: float, units: int = UNITS) -> Integers:
    """Return numbers as integers from -units to units, where low < high are public bounds.

    The middle of the bounds is 0. Numbers beyond a bound are moved to it, and missing numbers are
    0. Each integer depends only on its own number and on the bounds.
    """
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    scaled = (np.clip(values, low, high) - middle) / half
    clipped = np.clip(np.where(np.isnan(scaled), 0.0, scaled), -1, 1)
    return np.rint(clipped * units).astype(np.int64)


def from_units(values: Floats, low: float, high: float, units: int = UNITS) -> Floats:
    """Return the numbers that (averages of) the integers of `to_units` represent."""
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    return middle + half * (values / units)


def sum_sensitivity(units: int = UNITS) -> Sensitivity:
    """Return the sensitivity of the sums by group to the replacement of a row.

    A row may change the sum of its own group from -units to units, which is a larger squared change
    than one unit each in two groups.
    """
    return Sensitivity(2 * units, 4 * units * units)
