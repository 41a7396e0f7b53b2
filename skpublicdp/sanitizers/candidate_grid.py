"""Candidate values of a private quantile: decimal numbers, chosen without any data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from skpublicdp.typing import Codes, Floats, Integers

MAX_EXPONENT = 9
"""Without bounds the steps are powers of ten from 10^-9 to 10^9."""

MULTIPLES_PER_STEP = 2500
"""Without bounds: number of multiples of each step on either side of 0. Years are among them."""

MAX_UNIFORM_STEPS = 25_000
"""Within bounds: maximum number of steps of the evenly spaced grid between the bounds."""

MULTIPLES_PER_DECADE = 1000
"""Within bounds: number of multiples of each finer step on either side of the origin."""

N_DECADES = 9
"""Within bounds: number of finer steps, each a power of ten."""

MIN_HALF_WIDTH = 1e-280
"""Lower bound of half the width between the bounds, which must not underflow to 0."""

WEIGHT_PER_GRID = 1 << 24
"""Total prior weight of one grid, up to rounding down to integers."""

ZERO_AND_ONE = np.array([0.0, 1.0])
"""Values of indicator columns, which are a grid of their own."""


@dataclass(frozen=True, eq=False)
class CandidateGrid:
    """Increasing candidate values with prior weights for the exponential mechanism.

    Attributes
    ----------
    values : ndarray of float64, shape (n_values,)
        The candidates.
    prior : ndarray of int64, shape (n_values,)
        Positive prior weights.
    """

    values: Floats
    prior: Integers

    def __len__(self) -> int:
        return len(self.values)

    def nearest(self, column: Floats) -> Codes:
        """Return the index of the candidate nearest to each number."""
        midpoints = self.values[:-1] / 2 + self.values[1:] / 2
        return np.searchsorted(midpoints, column)


@lru_cache(maxsize=8)
def candidate_grid(bounds: tuple[float, float] | None = None) -> CandidateGrid:
    """Return candidates between bounds, or candidates of all usual magnitudes without bounds.

    Parameters
    ----------
    bounds : pair of float, optional
        Lower and upper bound.

    Returns
    -------
    CandidateGrid
        Union of several grids of equal prior weight. Each of most grids holds the multiples of one
        power of ten. Round numbers are in several grids: 0 and 1 have more weight than 0.37. Grids
        of small steps around the origin separate small numbers even if the bounds are far too wide.
        Between bounds there are three further grids: evenly spaced values between the bounds, the
        bounds, and the values 0 and 1, since indicator columns are common.

    Examples
    --------
    >>> ages = candidate_grid((0.0, 120.0))
    >>> len(ages), ages.values[:3]
    (31101, array([0.e+00, 1.e-10, 2.e-10]))
    >>> usual = candidate_grid()
    >>> len(usual), float(usual.values[-1])
    (86001, 2500000000000.0)
    """
    if bounds is None:
        exponents = range(-MAX_EXPONENT, MAX_EXPONENT + 1)
        n_multiples = float(MULTIPLES_PER_STEP)
        grids = [_multiples(1, exponent, -n_multiples, n_multiples) for exponent in exponents]
        return _union([ZERO_AND_ONE, *grids], -np.inf, np.inf)
    low, high = bounds
    half_width = max(high / 2 - low / 2, MIN_HALF_WIDTH)  # the width itself may overflow
    digit, exponent = _finest_uniform_step(half_width)
    step = digit * 10.0**exponent
    grids = [
        ZERO_AND_ONE,
        np.array([low, high]),
        _multiples(digit, exponent, low / step, high / step),
    ]
    origin = min(max(0.0, low), high)  # the number between the bounds that is nearest to 0
    for fine_exponent in range(exponent + 1, exponent + 1 - N_DECADES, -1):
        center = origin / 10.0**fine_exponent
        first, last = center - MULTIPLES_PER_DECADE, center + MULTIPLES_PER_DECADE
        grids.append(_multiples(1, fine_exponent, first, last))
    return _union(grids, low, high)


def _finest_uniform_step(half_width: float) -> tuple[int, int]:
    """Return digit and exponent of the finest grid step that is allowed between two bounds.

    At most `MAX_UNIFORM_STEPS` steps fit between the bounds, whose distance is 2 · half_width. A
    step is digit * 10^exponent, and digit is 1, 2 or 5.
    """
    decade = math.floor(math.log10(half_width))
    finest = 1, decade
    # 5 decades below the half-width there are more than `MAX_UNIFORM_STEPS` steps
    for exponent in range(decade, decade - 5, -1):
        for digit in (5, 2, 1):
            if half_width / 10.0**exponent <= MAX_UNIFORM_STEPS / 2 * digit:
                finest = digit, exponent
    return finest


def _multiples(digit: int, exponent: int, first: float, last: float) -> Floats:
    """Return k * digit * 10^exponent for all integers k from `first` to `last`, rounded once."""
    mantissas = digit * np.arange(math.ceil(first), math.floor(last) + 1, dtype=np.float64)
    return mantissas * 10.0**exponent if exponent >= 0 else mantissas / 10.0**-exponent


def _union(grids: list[Floats], low: float, high: float) -> CandidateGrid:
    """Return the union of grids between two bounds. Each grid has the same total prior weight."""
    # adding 0.0 turns -0.0 into 0.0
    clipped = [grid[(low <= grid) & (grid <= high)] + 0.0 for grid in grids]
    clipped = [grid for grid in clipped if len(grid)]
    weights = np.concatenate([np.full(len(grid), WEIGHT_PER_GRID // len(grid)) for grid in clipped])
    values, value_index = np.unique(np.concatenate(clipped), return_inverse=True)
    prior = np.bincount(value_index, weights).astype(np.int64)
    values.setflags(write=False)
    prior.setflags(write=False)
    return CandidateGrid(values, prior)
