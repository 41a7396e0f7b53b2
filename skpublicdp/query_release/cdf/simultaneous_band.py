"""Width of simultaneous confidence bands for a distribution function, by the tube formula."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from skpublicdp.typing import Floats

MAX_FACTOR = 40.0
"""Upper bound of the half-width in standard deviations, where normal tails vanish in floats."""


def path_length(covariance: Floats) -> float:
    """Return the path length in the tube formula, for estimates at increasing numbers.

    The standardised errors are unit vectors, whose inner products are the correlations. The path
    goes from each vector to the next one on the unit sphere. A step is the angle whose cosine is
    the correlation of two neighbours.

    Parameters
    ----------
    covariance : ndarray of shape (n_edges, n_edges)
        Covariance of the estimates.
    """
    variance, neighbour_covariance = np.diag(covariance), np.diag(covariance, 1)
    scale = np.sqrt(variance[:-1] * variance[1:])
    correlation = np.divide(neighbour_covariance, scale, out=np.ones_like(scale), where=scale > 0)
    return float(np.arccos(np.clip(correlation, -1, 1)).sum())


def simultaneous_factor(length: float, level: float) -> float:
    """Return the half-width of a simultaneous confidence band, in standard deviations.

    It solves length / π · exp(-c²/2) + 2 Φ(-c) = 1 - level for c (tube formula).

    Parameters
    ----------
    length : float
        `path_length` of the covariance.
    level : float
        Probability that the band holds at all numbers.

    References
    ----------
    Naiman (1986), Conservative confidence bands in curvilinear regression; Sun and Loader (1994).
    """

    def excess_failure(deviations: float) -> float:
        """Return the failure probability of a band with this half-width, less 1 - level."""
        tube = length / np.pi * np.exp(-(deviations**2) / 2)
        return float(tube + 2 * ndtr(-deviations)) - (1 - level)

    return float(brentq(excess_failure, 0.0, MAX_FACTOR))
