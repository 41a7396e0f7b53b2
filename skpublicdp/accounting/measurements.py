"""Noise that an event pays for, and what comes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from skpublicdp.accounting.decimals import fraction_above
from skpublicdp.accounting.events import Event, Gaussian, Pure

Integers = NDArray[np.int64]


LEAST_VARIANCE = 2.0**-40
"""Noise that is hardly ever there is no divisor otherwise."""


class Sensitivity(NamedTuple):
    """The most that replacing one row changes integers, in both norms.

    Attributes
    ----------
    absolute : int
        Sum of absolute changes.
    squared : int
        Sum of squared changes.
    """

    absolute: int
    squared: int


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy integers: all that is ever learned of the private rows they count.

    Attributes
    ----------
    values : ndarray of int64
        Exact integers plus exact noise.
    spread : Fraction
        σ² of Gaussian noise before it is rounded, or the scale of Laplace noise.
    variance : float
        The variance of the noise on each value, or very nearly.
    """

    values: Integers
    spread: Fraction
    variance: float


def _rounded_variance(sigma2: float) -> float:
    """Return the variance of Gaussian noise rounded to integers."""
    if sigma2 > 1:
        return sigma2 + 1 / 12  # Sheppard's correction errs by less than 1e-7 here
    half_integers = np.arange(1, 20) - 0.5
    beyond = erfc(half_integers / math.sqrt(2 * sigma2))  # of both signs
    return float((2 * half_integers) @ beyond)


def noise_of(event: Event, sensitivity: Sensitivity) -> tuple[Fraction, float]:
    """Return the spread and the variance of the noise that an event pays for.

    Parameters
    ----------
    event : Gaussian or Pure
        Which of the two decides between Gaussian and Laplace noise.
    sensitivity : Sensitivity
        Of the integers.

    Returns
    -------
    spread : Fraction
        σ² or scale, rounded up to 24 binary digits: short numbers make for fast draws.
    variance : float
        Of the noise.
    """
    match event:
        case Gaussian(mu_squared):
            spread = fraction_above(Fraction(sensitivity.squared) / mu_squared, 24)
            return spread, max(_rounded_variance(float(spread)), LEAST_VARIANCE)
        case Pure(epsilon):
            spread = fraction_above(Fraction(sensitivity.absolute) / epsilon, 24)
            half = 0.5 / float(spread)
            exact = 0.5 / math.sinh(half) ** 2 if half < 300 else 0.0
            return spread, max(exact, LEAST_VARIANCE)
    raise TypeError(f"noise is paid for by Gaussian or Pure, not by {type(event).__name__}.")
