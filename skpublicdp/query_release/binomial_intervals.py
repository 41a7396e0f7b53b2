"""Confidence intervals of population fractions from noisy counts alone, without any model."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from skpublicdp.typing import Floats

BINOMIAL_BISECTIONS = 80
"""Number of bisection steps when solving for the tilt at which the tail equals `failure`."""


def binomial_bounds(
    noisy: ArrayLike, variance: ArrayLike, n: float, failure: float, *, gaussian: bool
) -> tuple[Floats, Floats]:
    """Return confidence bounds of population fractions, given noisy fractions of n sampled persons.

    The bounds invert both tails of Binomial(n, p) plus noise, as Clopper and Pearson (1934) invert
    the tails of a binomial. The tails are saddle-point approximations.

    Parameters
    ----------
    noisy : array-like of float
        Observed fraction of the n persons, plus noise.
    variance : array-like of float
        Noise variance, at least 0. Broadcasts with `noisy`.
    n : float
        Number of persons.
    failure : float
        Probability with which each of the two bounds may fail, below 1/2.
    gaussian : bool
        Whether the noise is Gaussian. Otherwise it is discrete Laplace.

    Returns
    -------
    low, high : ndarray of float
        The fractions p between them give both tails of the noisy count at least the probability
        `failure`.

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
    counts, variances = np.broadcast_arrays(
        np.asarray(noisy, float) * n, np.asarray(variance, float)
    )
    variances = np.maximum(variances * n**2, 1e-12)
    continuity = 0.5  # counts are integers, and the formula is for continuous sums
    high = _upper_bound(counts + continuity, variances, n, failure, gaussian)
    return 1 - _upper_bound(n - counts + continuity, variances, n, failure, gaussian), high


def _upper_bound(
    counts: Floats, variance: Floats, n: float, failure: float, gaussian: bool
) -> Floats:
    """Return the largest fractions whose lower tail at the noisy counts is at least `failure`.

    The bisection is over the tilt of the saddle point. For a given tilt, the fraction has a closed
    form.
    """
    if gaussian:
        low_tilt = np.minimum((counts - n) / variance, 0.0)
    else:
        low_tilt = -2 * np.arcsinh(np.sqrt(0.5 / variance))  # -arccosh(1 + 1 / variance)
    high_tilt = np.zeros(counts.shape)
    for _ in range(BINOMIAL_BISECTIONS):
        tilt = (low_tilt + high_tilt) / 2
        is_rare = _saddle_point_tail(tilt, counts, variance, n, gaussian)[1] < failure
        low_tilt = np.where(is_rare, tilt, low_tilt)
        high_tilt = np.where(is_rare, high_tilt, tilt)
    return _saddle_point_tail(high_tilt, counts, variance, n, gaussian)[0]


def _saddle_point_tail(
    tilt: Floats, counts: Floats, variance: Floats, n: float, gaussian: bool
) -> tuple[Floats, Floats]:
    """Return the fractions whose saddle point is `tilt`, and their lower tails at the counts.

    With cumulant function K of Binomial(n, p) plus noise, the saddle point solves
    K'(tilt) = count. The tail is the formula of Lugannani and Rice (1980).

    Parameters
    ----------
    tilt : ndarray
        Negative tilts.
    counts, variance : ndarray of the same shape
        Noisy counts, with the continuity correction, and the noise variance of each.
    """
    with np.errstate(all="ignore"):
        if gaussian:
            cumulant = variance * tilt**2 / 2
            slope = variance * tilt
            curvature = variance
        else:
            # sums of discrete Laplace variables have at most the cumulant -log(1 - v (cosh t - 1))
            denominator = 1 - 2 * variance * np.sinh(tilt / 2) ** 2
            cumulant = -np.log(denominator)
            slope = variance * np.sinh(tilt) / denominator
            curvature = variance * np.cosh(tilt) / denominator + slope**2
        tilted_fraction = (counts - slope) / n
        clipped = np.clip(tilted_fraction, 1e-300, 1 - 1e-16)
        fraction = clipped / (clipped + (1 - clipped) * np.exp(tilt))
        cumulant = cumulant + n * np.log1p(fraction * np.expm1(tilt))
        curvature = curvature + n * clipped * (1 - clipped)
        signed_root = -np.sqrt(np.maximum(2 * (tilt * counts - cumulant), 1e-12))
        density = np.exp(-(signed_root**2) / 2) / np.sqrt(2 * np.pi)
        tail = ndtr(signed_root) + density * (1 / signed_root - 1 / (tilt * np.sqrt(curvature)))
    # at a tilt of zero the count is the mean, and the formula is 0/0
    tail = np.where(tilt * np.sqrt(curvature) > -1e-3, 0.5, np.clip(tail, 0, 1))
    fraction = np.where(tilted_fraction >= 1, 1.0, np.where(tilted_fraction <= 0, 0.0, fraction))
    tail = np.where(tilted_fraction >= 1, 0.0, np.where(tilted_fraction <= 0, 1.0, tail))
    return fraction, tail
