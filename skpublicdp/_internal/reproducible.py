"""Floats decide the same on every processor, although their last digits differ.

Linear algebra libraries and vector units differ in the last digits of results, and in the signs of
eigenvectors. A decision about such a float, as rounding down or choosing a maximum among equals,
must not depend on them.
"""

from __future__ import annotations

import math

import numpy as np

from skpublicdp.typing import Floats

DECIDING_DIGITS = 9
"""Digits of a float that decide. A computed float has more digits that are exact."""


def stable_floor(value: float) -> int:
    """Return the largest integer at most the value, which is rounded to nine decimals first."""
    return math.floor(round(float(value), DECIDING_DIGITS))


def significant(values: Floats) -> Floats:
    """Return the values, each rounded to about nine significant digits."""
    mantissas, exponents = np.frexp(values)
    return np.asarray(np.ldexp(np.round(mantissas, DECIDING_DIGITS), exponents))


def with_stable_signs(rows: Floats) -> Floats:
    """Return vectors, one per row, each negated if its first large entry is negative.

    An entry is large if it exceeds half of the largest entry in absolute value.
    """
    is_large = np.abs(rows) > np.abs(rows).max(axis=1, keepdims=True) / 2
    first_large = rows[np.arange(len(rows)), is_large.argmax(axis=1)]
    return np.asarray(rows * np.where(first_large < 0, -1.0, 1.0)[:, None])
