"""Intervals that cover the choice of the test rows and the noise; see docs/proofs/scores.md."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom, norm

from skpublicdp.metrics.noisy_counts import NoisyCount, NoisyTable

Floats = NDArray[np.float64]

REACH = 12
"""Standard deviations within which a binomial number is looked at."""


def imagined(failure: float) -> float:
    """Return how many rows are imagined at either end, after Agresti and Coull (1998)."""
    return float(norm.isf(failure / 2) ** 2 / 4)


def share_interval(count: NoisyCount, failure: float) -> tuple[float, float]:
    """Return ends between which the share of right predictions in the population lies.

    Parameters
    ----------
    count : NoisyCount
        Right predictions of independent rows.
    failure : float
        How often it may lie outside. Half of that is to either side, but for shares so near to 0
        or 1 that no number between 0 and n is too small or too large: all of it is to the other.

    Returns
    -------
    tuple of float
        All shares under which neither so large nor so small a noisy number is rarer than that.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from skpublicdp.accounting import Measurement
    >>> count = NoisyCount(90, 100, Measurement(np.array([90]), Fraction(1), 1.8), True)
    >>> [round(end, 2) for end in share_interval(count, 0.05)]
    [0.82, 0.95]
    """

    def end(value: int, level: float) -> float:
        """Return the share for which a number is at a quantile; it rises with the number."""

        def excess(share: float) -> float:
            return _at_most(value, share, count) - level

        if excess(0.0) <= 0:
            return 0.0
        return 1.0 if excess(1.0) >= 0 else float(brentq(excess, 0.0, 1.0, xtol=1e-10))

    value, half = int(count.likely), failure / 2
    # up to `few` no number is too small, from `many` on none is too large
    few, many = end(0, half), end(count.n - 1, 1 - half)
    if few > many:
        few = many = min(max(0.5, many), few)
    low, high = end(value - 1, 1 - failure), end(value, failure)
    if low > few:
        low = max(end(value - 1, 1 - half), few)
    if high < many:
        high = min(end(value, half), many)
    return low, high


def _at_most(value: int, share: float, count: NoisyCount) -> float:
    """Return P(noisy number <= value); it falls as the share grows."""
    n = max(int(count.n / count.crowd), 1)  # persons, each of whom is right of all rows or none
    reach = REACH * math.sqrt(n * share * (1 - share)) + REACH
    at = np.arange(max(0, math.floor(n * share - reach)), min(n, math.ceil(n * share + reach)) + 1)
    away = np.floor(value - at * (count.n / n))
    spread = float(count.noise.spread)
    if count.laplace:
        beyond = np.exp(-np.maximum(away + 1, -away) / spread) / (1 + math.exp(-1 / spread))
        below = np.where(away >= 0, 1 - beyond, beyond)
    else:
        below = ndtr((away + 0.5) / math.sqrt(spread))
    return float(binom.pmf(at, n, share) @ below)


def ratio_interval(
    table: NoisyTable,
    upper: Floats,
    lower: Floats,
    totals: tuple[Floats, Floats],
    failure: float,
    rows: Floats,
    ends: float = 0.0,
) -> Floats:
    """Return ends for ratios of sums over a noisy table, after Fieller (1954).

    Parameters
    ----------
    table : NoisyTable
        Noisy counts.
    upper, lower : ndarray of shape (..., n_labels * n_cells)
        By how much a row in each cell moves the numerator and the denominator.
    totals : pair of ndarray of shape (...,)
        Numerator and denominator.
    failure : float
        How often each ratio may lie outside.
    rows : ndarray of shape (n_labels * n_cells,)
        Rows whose choice adds uncertainty.
    ends : float, default=0
        How many rows are imagined that add one, or nothing, to the numerator and one to the
        denominator.

    Returns
    -------
    ndarray of shape (..., 2)
        In [0, 1]; the whole of it where the denominator may be zero.
    """
    over, under = np.asarray(totals[0]) + ends, np.asarray(totals[1]) + 2 * ends

    def spread(u: Floats, v: Floats) -> Floats:
        return np.asarray(table.covariance(u, v) + table.crowd * ((u * v) @ rows))

    a, b, c = spread(upper, upper), spread(upper, lower), spread(lower, lower)
    a, b, c = a + ends, b + ends, c + 2 * ends
    guess = first_guess(over, under)
    fourth = table.fourth(upper - guess[..., None] * lower)
    return fieller(over, under, (a, b, c), fourth, failure)


def first_guess(over: Floats, under: Floats) -> Floats:
    """Return a ratio in [0, 1], one half where there is nothing to divide by."""
    ratio = np.divide(over, under, out=np.full(over.shape, 0.5), where=under != 0)
    found: Floats = np.clip(ratio, 0, 1)
    return found


def fieller(
    over: Floats,
    under: Floats,
    spreads: tuple[Floats, Floats, Floats],
    fourth: Floats,
    failure: float,
    doubt: Floats | float = 0.0,
) -> Floats:
    """Return the ends in [0, 1] of all θ with (over - θ under)² <= z² (a - 2bθ + cθ²).

    Parameters
    ----------
    over, under : ndarray of shape (...,)
        Numerators and denominators.
    spreads : tuple of ndarray of shape (...,)
        a, b and c: variances and covariance of both.
    fourth : ndarray of shape (...,)
        Fourth cumulant of the noise of over - θ under.
    failure : float
        How often each ratio may lie outside; z is the quantile for it.
    doubt : float or ndarray of shape (...,), default=0
        One over the degrees of freedom of the variance.

    Returns
    -------
    ndarray of shape (..., 2)
        The whole of [0, 1] where the denominator may be zero and no θ beside an end is ruled out.
    """
    a, b, c = spreads
    z = float(norm.isf(failure / 2))
    guess = first_guess(over, under)
    variance = a - 2 * guess * b + guess**2 * c
    # noise of few cells has longer tails than Gaussian noise
    kurtosis = np.divide(fourth, variance**2, out=np.zeros(over.shape), where=variance > 0)
    # and a variance that is estimated of few rows varies
    z2 = (z + kurtosis * (z**3 - 3 * z) / 24 + doubt * (z**3 + z) / 4) ** 2
    square, middle, rest = under**2 - z2 * c, over * under - z2 * b, over**2 - z2 * a
    inner = middle**2 - square * rest
    root = np.sqrt(np.maximum(inner, 0))
    safe = np.where(square == 0, 1.0, square)
    one, other = (middle - root) / safe, (middle + root) / safe
    # if the parabola opens downwards, what is between its zeros is ruled out, not what is beyond
    outside = (square < 0) & (inner > 0)
    low = np.where(square > 0, one, np.where(outside & (other < 0) & (one < 1), one, 0.0))
    high = np.where(square > 0, other, np.where(outside & (one > 1) & (other > 0), other, 1.0))
    found: Floats = np.clip(np.stack([low, high], axis=-1), 0, 1)
    return found
