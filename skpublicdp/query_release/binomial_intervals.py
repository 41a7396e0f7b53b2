"""Intervals of fractions from their noisy counts alone, whatever public rows say."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from skpublicdp.typing import Floats

BINOMIAL_BISECTIONS = 80
"""Of the range in which a root is looked for."""


def binomial_bounds(
    noisy: ArrayLike, variance: ArrayLike, n: float, failure: float, *, gaussian: bool
) -> tuple[Floats, Floats]:
    """Bound shares of a population by noisy shares of a sample.

    Parameters
    ----------
    noisy : array-like of float
        Share of n sampled persons, and noise.
    variance : array-like of float
        Of the noise, at least 0; broadcasts with `noisy`.
    n : float
        Persons.
    failure : float
        Probability with which each bound may fail, below 1/2.
    gaussian : bool
        Whether the noise is Gaussian, else discrete Laplace.

    Returns
    -------
    low, high : ndarray of float
        All shares p under which neither so low a sum of a Binomial(n, p) and noise, nor so high a
        one, is rarer than `failure`.

    References
    ----------
    Lugannani and Rice (1980), whose formula gives both tails; Clopper and Pearson (1934).

    Examples
    --------
    >>> low, high = binomial_bounds([0.3], [1e-4], 1000, 0.025, gaussian=True)
    >>> low.round(3), high.round(3)
    (array([0.266]), array([0.336]))
    """
    counts, spread = np.broadcast_arrays(np.asarray(noisy, float) * n, np.asarray(variance, float))
    spread = np.maximum(spread * n**2, 1e-12)
    half = 0.5  # counts are whole, and the formula is for sums that are not
    high = _largest_share(counts + half, spread, n, failure, gaussian)
    return 1 - _largest_share(n - counts + half, spread, n, failure, gaussian), high


def _largest_share(
    counts: Floats, variance: Floats, n: float, failure: float, gaussian: bool
) -> Floats:
    """Return the largest share under which no lower sum has less than a probability."""
    if gaussian:
        left = np.minimum((counts - n) / variance, 0.0)
    else:
        left = -2 * np.arcsinh(np.sqrt(0.5 / variance))  # arccosh(1 + 1 / variance)
    right = np.zeros(counts.shape)
    for _ in range(BINOMIAL_BISECTIONS):
        middle = (left + right) / 2
        rarer = _saddle_point_tail(middle, counts, variance, n, gaussian)[1] < failure
        left, right = np.where(rarer, middle, left), np.where(rarer, right, middle)
    return _saddle_point_tail(right, counts, variance, n, gaussian)[0]


def _saddle_point_tail(
    tilt: Floats, counts: Floats, variance: Floats, n: float, gaussian: bool
) -> tuple[Floats, Floats]:
    """Return the share whose saddle point for a count has a tilt < 0, and its lower tail."""
    with np.errstate(all="ignore"):
        if gaussian:
            cumulant, slope, curve = variance * tilt**2 / 2, variance * tilt, variance
        else:
            rest = 1 - 2 * variance * np.sinh(tilt / 2) ** 2
            cumulant, slope = -np.log(rest), variance * np.sinh(tilt) / rest
            curve = variance * np.cosh(tilt) / rest + slope**2
        tilted = (counts - slope) / n
        inside = np.clip(tilted, 1e-300, 1 - 1e-16)
        share = inside / (inside + (1 - inside) * np.exp(tilt))
        cumulant = cumulant + n * np.log1p(share * np.expm1(tilt))
        curve = curve + n * inside * (1 - inside)
        root = -np.sqrt(np.maximum(2 * (tilt * counts - cumulant), 1e-12))
        tail = ndtr(root) + np.exp(-(root**2) / 2) / np.sqrt(2 * np.pi) * (
            1 / root - 1 / (tilt * np.sqrt(curve))
        )
    tail = np.where(tilt * np.sqrt(curve) > -1e-3, 0.5, np.clip(tail, 0, 1))
    share = np.where(tilted >= 1, 1.0, np.where(tilted <= 0, 0.0, share))
    return share, np.where(tilted >= 1, 0.0, np.where(tilted <= 0, 1.0, tail))
