"""Where a private quantile may lie: round numbers of every size, chosen without any data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LARGEST_EXPONENT = 9
"""Without bounds the coarsest step is 10^9 and the finest 10^-9."""

MULTIPLES = 2500
"""Without bounds: multiples of each step on either side of zero; years are among them."""

UNIFORM = 25_000
"""Within bounds: the most multiples of the finest step that goes from end to end."""

ZOOMED = 1000, 9
"""Within bounds: multiples of other steps on either side of the origin, and how many decades."""

FLAGS = np.array([0.0, 1.0])


@dataclass(frozen=True, eq=False)
class Candidates:
    """Increasing numbers, each with the prior weight of its being chosen.

    Attributes
    ----------
    values : ndarray of float64, shape (n_values,)
        The numbers.
    prior : ndarray of int64, shape (n_values,)
        Positive weights.
    """

    values: NDArray[np.float64]
    prior: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.values)

    def nearest(self, column: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the place of the candidate nearest to each number, which is looked at alone."""
        middles = self.values[:-1] / 2 + self.values[1:] / 2
        return np.searchsorted(middles, column)


@lru_cache(maxsize=8)
def candidates(bounds: tuple[float, float] | None = None) -> Candidates:
    """List candidates between bounds, or of all usual sizes.

    Parameters
    ----------
    bounds : pair of float, optional
        Lowest and highest value.

    Returns
    -------
    Candidates
        Multiples of powers of ten. Those of one power weigh as much together as those of another,
        so that 0 and 1 weigh more than 0.37, and numbers near zero are told apart even if the
        bounds are far too wide. One more such share goes evenly to the whole range between bounds,
        one to their ends and one to 0 and 1, since columns of flags are common and often rare.

    Examples
    --------
    >>> ages = candidates((0.0, 120.0))
    >>> len(ages), ages.values[:3]
    (31101, array([0.e+00, 1.e-10, 2.e-10]))
    >>> usual = candidates()
    >>> len(usual), float(usual.values[-1])
    (86001, 2500000000000.0)
    """
    if bounds is None:
        exponents = range(-LARGEST_EXPONENT, LARGEST_EXPONENT + 1)
        far = float(MULTIPLES)
        grids = [_multiples(1, exponent, -far, far) for exponent in exponents]
        return _weighed([FLAGS, *grids], -np.inf, np.inf)
    low, high = bounds
    half = max(high / 2 - low / 2, 1e-280)  # no width is too large or too small for a float
    decade = math.floor(math.log10(half))
    grids = [FLAGS, np.array([low, high])]
    finest = decade, 1
    for exponent in range(decade, decade - 5, -1):
        for digit in (5, 2, 1):
            # both halved: the width itself may overflow
            if half / 10.0**exponent <= UNIFORM / 2 * digit:
                finest = exponent, digit
    exponent, digit = finest
    step = digit * 10.0**exponent
    grids.append(_multiples(digit, exponent, low / step, high / step))
    origin = min(max(0.0, low), high)
    reach, decades = ZOOMED
    for finer in range(exponent + 1, exponent + 1 - decades, -1):
        middle = origin / 10.0**finer
        grids.append(_multiples(1, finer, middle - reach, middle + reach))
    return _weighed(grids, low, high)


def _multiples(digit: int, exponent: int, first: float, last: float) -> NDArray[np.float64]:
    """Return k * digit * 10^exponent for k from first to last, each rounded once."""
    whole = digit * np.arange(math.ceil(first), math.floor(last) + 1, dtype=np.float64)
    return whole * 10.0**exponent if exponent >= 0 else whole / 10.0**-exponent


def _weighed(grids: list[NDArray[np.float64]], low: float, high: float) -> Candidates:
    kept = [grid[(low <= grid) & (grid <= high)] + 0.0 for grid in grids]  # no zero with a sign
    kept = [grid for grid in kept if len(grid)]
    weights = np.concatenate([np.full(len(grid), (1 << 24) // len(grid)) for grid in kept])
    values, place = np.unique(np.concatenate(kept), return_inverse=True)
    prior = np.bincount(place, weights).astype(np.int64)
    values.setflags(write=False)
    prior.setflags(write=False)
    return Candidates(values, prior)
