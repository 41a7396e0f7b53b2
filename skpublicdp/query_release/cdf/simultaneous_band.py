"""Width of simultaneous confidence bands for a distribution function, by the tube formula."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from skpublicdp.typing import Floats


def path_length(covariance: Floats) -> float:
    """Return the length of the path of standardised prefix sums on the unit sphere.

    A step of the path is the angle whose cosine is the correlation of two neighbours.
    """
    variance, neighbour_covariance = np.diag(covariance), np.diag(covariance, 1)
    scale = np.sqrt(variance[:-1] * variance[1:])
    correlation = np.divide(neighbour_covariance, scale, out=np.ones_like(scale), where=scale > 0)
    return float(np.arccos(np.clip(correlation, -1, 1)).sum())


def simultaneous_factor(length: float, level: float) -> float:
    """Return the half-width of a simultaneous band in standard deviations, by the tube formula.

    Parameters
    ----------
    length : float
        `path_length` of the covariance.
    level : float
        Coverage of the band.

    References
    ----------
    Naiman (1986), Conservative confidence bands in curvilinear regression; Sun and Loader (1994).
    """

    def excess_failure(deviations: float) -> float:
        """Return the failure probability of a band, less the allowed one."""
        tube = length / np.pi * np.exp(-(deviations**2) / 2)
        return float(tube + 2 * ndtr(-deviations)) - (1 - level)

    return float(brentq(excess_failure, 0.0, 40.0))
