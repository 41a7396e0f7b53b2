"""Model-free confidence intervals for population fractions, computed from noisy counts alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from skpublicdp.typing import Floats

BINOMIAL_BISECTIONS = 80
"""Number of bisection steps used to find the tilt at which the tail equals `failure`."""

CONTINUITY_CORRECTION = 0.5
"""Continuity correction for integer counts, since the tail approximation assumes continuous
sums."""

MIN_COUNT_NOISE_VARIANCE = 1e-12
"""Lower bound on the noise variance of a count, which avoids division by zero."""

MAX_ROUNDING_ERROR = 1e-12
"""Distance from 0 or 1 below which a bound is rounded outwards to exactly 0 or 1."""

MIN_STANDARDIZED_TILT = 1e-3
"""Smallest absolute tilt, in units of one over the standard deviation. For smaller tilts, the tail
is set to 1/2, since at tilt zero the count equals the mean and the Lugannani-Rice formula is
0/0."""


def binomial_bounds(
    noisy: ArrayLike, variance: ArrayLike, n: float | Floats, failure: float, *, gaussian: bool
) -> tuple[Floats, Floats]:
    """Return confidence bounds on population fractions, given noisy fractions of n sampled persons.

    The bounds are found by inverting both tails of Binomial(n, p) plus noise, just as Clopper and
    Pearson (1934) invert the tails of a binomial. The tails are computed by a saddle-point
    approximation.

    References
    ----------
    Lugannani and Rice (1980), Saddle point approximation for the distribution of the sum of
    independent random variables; Clopper and Pearson (1934).

    Examples
    --------
    >>> low, high = binomial_bounds([0.3], [1e-4], 1000, 0.025, gaussian=True)
    >>> low.round(3), high.round(3)
    (array([0.266]), array([0.336]))
    """
    counts = np.asarray(noisy, float) * n
    counts, variances = np.broadcast_arrays(counts, np.asarray(variance, float))
    variances = np.maximum(variances * n**2, MIN_COUNT_NOISE_VARIANCE)
    # a lower bound follows from an upper bound on the complementary fraction
    both_counts = np.stack([counts, n - counts])  # (2, *counts.shape)
    both_counts = both_counts + CONTINUITY_CORRECTION
    high, complement = _upper_bounds(both_counts, variances, n, failure, gaussian)
    return 1 - complement, high


def _upper_bounds(
    counts: Floats, variance: Floats, n: float | Floats, failure: float, gaussian: bool
) -> Floats:
    """Return the largest fractions whose lower tail at the noisy counts is at least `failure`.

    A bisection finds the tilt of the saddle point. For a given tilt, the fraction has a closed form
    (see `_saddle_point`) and decreases with the tilt.
    """
    # the smallest tilt makes the tilted fraction 1, or the cumulant of Laplace noise infinite
    if gaussian:
        low_tilt = np.minimum((counts - n) / variance, 0.0)
    else:
        low_tilt = -2 * np.arcsinh(np.sqrt(0.5 / variance))  # -arccosh(1 + 1 / variance)
    high_tilt = np.zeros(counts.shape)
    for _ in range(BINOMIAL_BISECTIONS):
        tilt = (low_tilt + high_tilt) / 2
        _, tail = _saddle_point(tilt, counts, variance, n, gaussian)
        is_rare = tail < failure
        low_tilt = np.where(is_rare, tilt, low_tilt)
        high_tilt = np.where(is_rare, high_tilt, tilt)
    bounds, _ = _saddle_point(high_tilt, counts, variance, n, gaussian)
    # where no fraction is rejected, the bisection ends a few rounding errors below 1
    return np.where(bounds > 1 - MAX_ROUNDING_ERROR, 1.0, bounds)


def _saddle_point(
    tilt: Floats, counts: Floats, variance: Floats, n: float | Floats, gaussian: bool
) -> tuple[Floats, Floats]:
    """Return the success probabilities whose saddle point is `tilt`, and their lower tails.

    A lower tail is the probability that a noisy sum is at most the noisy count.

    K is the cumulant function of Binomial(n, p) plus noise. The saddle point solves K'(tilt) =
    count. The tail is computed by the approximation of Lugannani and Rice (1980).

    Parameters
    ----------
    tilt : ndarray
        Tilts, at most 0.
    counts, variance : ndarray of the same shape
        Noisy counts after continuity correction, and the noise variances.
    """
    with np.errstate(all="ignore"):  # 0/0 and overflows are replaced at the end
        # cumulant of the noise and its first two derivatives at the tilt
        if gaussian:
            cumulant = variance * tilt**2 / 2
            slope = variance * tilt
            curvature = variance
        else:
            # the cumulant of sums of discrete Laplace variables is at most -log(1 - v (cosh t - 1))
            denominator = 1 - 2 * variance * np.sinh(tilt / 2) ** 2
            cumulant = -np.log(denominator)
            slope = variance * np.sinh(tilt) / denominator
            curvature = variance * np.cosh(tilt) / denominator + slope**2
        # K' = n q + slope, with the success probability q of the exponentially tilted binomial
        tilted_fraction = (counts - slope) / n
        q = np.clip(tilted_fraction, 1e-300, 1 - 1e-16)
        fraction = q / (q + (1 - q) * np.exp(tilt))
        # add the binomial
        cumulant = cumulant + n * np.log1p(fraction * np.expm1(tilt))
        curvature = curvature + n * q * (1 - q)
        squared_root = np.maximum(2 * (tilt * counts - cumulant), 1e-12)
        signed_root = -np.sqrt(squared_root)
        density = np.exp(-(signed_root**2) / 2) / np.sqrt(2 * np.pi)
        standardized_tilt = tilt * np.sqrt(curvature)
        correction = density * (1 / signed_root - 1 / standardized_tilt)
        tail = ndtr(signed_root) + correction
    is_near_mean = standardized_tilt > -MIN_STANDARDIZED_TILT
    tail = np.where(is_near_mean, 0.5, np.clip(tail, 0, 1))
    # no fraction between 0 and 1 has this saddle point
    is_above, is_below = tilted_fraction >= 1, tilted_fraction <= 0
    fraction = np.select([is_above, is_below], [1.0, 0.0], fraction)
    tail = np.select([is_above, is_below], [0.0, 1.0], tail)
    return fraction, tail
