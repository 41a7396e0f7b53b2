"""Intervals that cover the choice of the test rows and the noise; see docs/proofs/scores.md."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom, norm

from skpublicdp.metrics.table import NoisyCount, NoisyTable

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
        How often it may lie outside, to either side half as often.

    Returns
    -------
    tuple of float
        All shares under which neither so large nor so small a noisy number is rarer than that; of
        the very number released half is counted (mid-p).

    Examples
    --------
    >>> from fractions import Fraction
    >>> from skpublicdp.accounting import Measurement
    >>> count = NoisyCount(90, 100, Measurement(np.array([90]), Fraction(1), 1.8), True)
    >>> [round(end, 2) for end in share_interval(count, 0.05)]
    [0.82, 0.95]
    """
    value = int(count.likely)

    def excess(share: float, level: float) -> float:
        return _below(value, share, count) - level

    ends = []
    for level in (1 - failure / 2, failure / 2):
        if excess(0.0, level) <= 0:
            ends.append(0.0)
        elif excess(1.0, level) >= 0:
            ends.append(1.0)
        else:
            ends.append(float(brentq(excess, 0.0, 1.0, args=(level,), xtol=1e-10)))
    return ends[0], ends[1]


def _below(value: int, share: float, count: NoisyCount) -> float:
    """Return P(noisy number < value) + P(= value) / 2; it falls with the share."""
    n = count.n
    reach = REACH * math.sqrt(n * share * (1 - share)) + REACH
    at = np.arange(max(0, math.floor(n * share - reach)), min(n, math.ceil(n * share + reach)) + 1)
    away = (value - at).astype(np.float64)
    spread = float(count.noise.spread)
    if count.laplace:
        tail = np.exp(-np.abs(away) / spread) / 2
        below = np.where(away > 0, 1 - tail, tail)
    else:
        sigma = math.sqrt(spread)
        below = (ndtr((away - 0.5) / sigma) + ndtr((away + 0.5) / sigma)) / 2
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
    z = float(norm.isf(failure / 2))
    over, under = np.asarray(totals[0]) + ends, np.asarray(totals[1]) + 2 * ends

    def spread(u: Floats, v: Floats) -> Floats:
        return np.asarray(table.covariance(u, v) + ((u * v) @ rows))

    a, b, c = spread(upper, upper), spread(upper, lower), spread(lower, lower)
    a, b, c = a + ends, b + ends, c + 2 * ends
    # noise of few cells has longer tails than Gaussian noise
    guess = np.clip(np.divide(over, under, out=np.full(over.shape, 0.5), where=under != 0), 0, 1)
    variance = a - 2 * guess * b + guess**2 * c
    fourth = table.fourth(upper - guess[..., None] * lower)
    kurtosis = np.divide(fourth, variance**2, out=np.zeros(over.shape), where=variance > 0)
    z2 = (z + kurtosis * (z**3 - 3 * z) / 24) ** 2
    # (over - θ under)^2 <= z^2 variance(θ) is a quadratic inequality
    square, middle, rest = under**2 - z2 * c, over * under - z2 * b, over**2 - z2 * a
    bounded = square > 0
    root = np.sqrt(np.maximum(middle**2 - square * rest, 0))
    safe = np.where(bounded, square, 1.0)
    low = np.where(bounded, (middle - root) / safe, 0.0)
    high = np.where(bounded, (middle + root) / safe, 1.0)
    found: Floats = np.clip(np.stack([low, high], axis=-1), 0, 1)
    return found
