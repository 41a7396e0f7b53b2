"""Calibrated noise: the noise scale that an event pays for, and noisy measurements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.special import erfc

from skpublicdp.accounting.events import Event, Gaussian, Pure
from skpublicdp.accounting.rounding import fraction_above
from skpublicdp.typing import Integers

MIN_NOISE_VARIANCE = 2.0**-40
"""Lower bound of a noise variance, so that it can be a divisor."""


class Sensitivity(NamedTuple):
    """Largest change of integers when one row is replaced, in the ℓ1 and squared ℓ2 norms.

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
    """Noisy counts or sums: the released values and the size of their noise.

    Attributes
    ----------
    values : ndarray of int64
        Exact integers plus exact noise.
    scale : Fraction
        σ² of Gaussian noise before rounding, or the parameter b of discrete Laplace noise.
    variance : float
        Variance of the noise on each value, approximated closely.
    """

    values: Integers
    scale: Fraction
    variance: float

    @property
    def spread(self) -> Fraction:
        """Former name of `scale`."""
        return self.scale


def _rounded_variance(sigma2: float) -> float:
    """Return the variance of Gaussian noise of variance `sigma2` after rounding to integers.

    It is the sum of 2 m P(|noise| > m) over the half-integers m.
    """
    if sigma2 > 1:
        return sigma2 + 1 / 12  # Sheppard's correction errs by less than 1e-7 here
    half_integers = np.arange(1, 20) - 0.5
    tail_probabilities = erfc(half_integers / math.sqrt(2 * sigma2))  # both tails
    return float((2 * half_integers) @ tail_probabilities)


def noise_scale(event: Event, sensitivity: Sensitivity) -> tuple[Fraction, float]:
    """Return the scale and the variance of the noise that an event pays for.

    Parameters
    ----------
    event : Gaussian or Pure
        Price of the noise: `Gaussian` for rounded Gaussian, `Pure` for discrete Laplace noise.
    sensitivity : Sensitivity
        Sensitivity of the integers.

    Returns
    -------
    scale : Fraction
        σ² or b, rounded up to 24 binary digits, since short numbers are faster to sample with.
    variance : float
        Variance of the noise.
    """
    match event:
        case Gaussian(mu_squared):
            scale = fraction_above(Fraction(sensitivity.squared) / mu_squared, 24)
            return scale, max(_rounded_variance(float(scale)), MIN_NOISE_VARIANCE)
        case Pure(epsilon):
            scale = fraction_above(Fraction(sensitivity.absolute) / epsilon, 24)
            half_rate = 0.5 / float(scale)  # the variance is 1 / (2 sinh²(1 / (2 b)))
            variance = 0.5 / math.sinh(half_rate) ** 2 if half_rate < 300 else 0.0
            return scale, max(variance, MIN_NOISE_VARIANCE)
    raise TypeError(f"noise is paid for by Gaussian or Pure, not by {type(event).__name__}.")


noise_of = noise_scale
"""Former name of `noise_scale`."""
