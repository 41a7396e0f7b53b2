"""Integers that represent bounded numbers, whose exact sums are released with noise."""

from __future__ import annotations

import numpy as np

from skpublicdp.accounting import Sensitivity
from skpublicdp.typing import Floats, Integers

UNITS = 1 << 15
"""Default integer of the upper bound. Rounding moves a number by at most 2^-17 of the range."""


def to_units(values: Floats, low: float, high: float, units: int = UNITS) -> Integers:
    """Return numbers as integers from -units to units, where low < high are public bounds.

    The middle of the bounds is 0. Numbers beyond a bound are moved to it, and missing numbers are
    0. Each integer depends only on its own number and on the bounds.
    """
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    scaled = (np.clip(values, low, high) - middle) / half
    clipped = np.clip(np.where(np.isnan(scaled), 0.0, scaled), -1, 1)
    return np.rint(clipped * units).astype(np.int64)


def to_shares(values: Floats, low: float, high: float, units: int = UNITS) -> Integers:
    """Return each number as two shares of 2 * units, for the upper and the lower bound, (n, 2).

    The sum of the first shares minus the sum of the second ones is the sum of `to_units`. Both
    shares of a missing number are 0, and otherwise they add up to 2 * units.
    """
    integers = to_units(values, low, high, units)
    shares = np.stack([units + integers, units - integers], axis=1)
    shares[np.isnan(values)] = 0
    return shares


def share_sensitivity(units: int = UNITS) -> Sensitivity:
    """Return the sensitivity of the sums of both shares, by group, to the replacement of a row.

    The shares of a row are not negative and add up to at most 2 * units, like the counts of
    2 * units rows in a single cell.
    """
    return Sensitivity(2 * (2 * units), 2 * (2 * units) ** 2)
