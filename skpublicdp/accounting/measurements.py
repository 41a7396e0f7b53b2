"""Noise calibration: the noise scale for a given privacy cost, and the resulting measurements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import erfc, ndtr

from skpublicdp.accounting.events import Event, Gaussian, Noise, Pure, Sensitivity
from skpublicdp.accounting.rounding import fraction_above
from skpublicdp.typing import Floats, Integers

MIN_NOISE_VARIANCE = 2.0**-40
"""Lower bound on a noise variance, which makes it safe to divide by the variance."""

NOISE_SCALE_BITS = 24
"""Binary digits of a noise scale. Fewer digits make sampling faster."""

MAX_HALF_RATE = 300
"""Argument above which sinh² overflows; the noise variance is then returned as 0."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy counts or sums, and the scale of the noise.

    Attributes
    ----------
    values : ndarray of int64
        Exact integers plus sampled noise.
    scale : Fraction
        σ² of Gaussian noise before rounding, or the parameter b of discrete Laplace noise.
    variance : float
        Approximate noise variance of each value.
    """

    values: Integers
    scale: Fraction
    variance: float


def _rounded_variance(sigma2: float) -> float:
    """Return the variance that Gaussian noise of variance `sigma2` has after rounding to integers.

    This variance equals the sum of 2 m P(|noise| > m) over all positive half-integers m. If σ² is
    at most 1, the first 19 terms are accurate to float precision.
    """
    if sigma2 > 1:
        return sigma2 + 1 / 12  # Sheppard's correction errs by less than 1e-7 here
    half_integers = np.arange(1, 20) - 0.5
    tail_probabilities = erfc(half_integers / math.sqrt(2 * sigma2))  # both tails
    return float((2 * half_integers) @ tail_probabilities)


def noise_scale(event: Event, sensitivity: Sensitivity) -> tuple[Fraction, float]:
    """Return the scale and the variance of the noise that has the privacy cost of a given event.

    Parameters
    ----------
    event : Gaussian or Pure
        Privacy cost: `Gaussian` for rounded Gaussian noise, `Pure` for discrete Laplace noise.
    sensitivity : Sensitivity
        Sensitivity of the integers.

    Returns
    -------
    scale : Fraction
        σ² or b, rounded up to `NOISE_SCALE_BITS` binary digits.
    variance : float
        Variance of the resulting noise.
    """
    match event:
        case Gaussian(mu_squared):
            scale = fraction_above(Fraction(sensitivity.squared) / mu_squared, NOISE_SCALE_BITS)
            return scale, max(_rounded_variance(float(scale)), MIN_NOISE_VARIANCE)
        case Pure(epsilon):
            scale = fraction_above(Fraction(sensitivity.absolute) / epsilon, NOISE_SCALE_BITS)
            half_rate = 0.5 / float(scale)  # the variance is 1 / (2 sinh²(1 / (2 b)))
            variance = 0.5 / math.sinh(half_rate) ** 2 if half_rate < MAX_HALF_RATE else 0.0
            return scale, max(variance, MIN_NOISE_VARIANCE)
    raise TypeError(
        f"A noise mechanism's event must be Gaussian or Pure; got {type(event).__name__}."
    )


def noise_cdf(event: Noise, scale: Fraction, values: Floats) -> Floats:
    """Return P(noise <= k) for each integer k in `values`, given the privacy cost of the noise."""
    if isinstance(event, Gaussian):
        return np.asarray(ndtr((values + 0.5) / math.sqrt(scale)))  # noise is rounded to integers
    # P(noise >= k) = P(noise <= -k) = e^(-k/b) / (1 + e^(-1/b)) for k >= 0
    distance = np.maximum(values + 1, -values)
    tail = np.exp(-distance / float(scale)) / (1 + math.exp(-1 / float(scale)))
    return np.where(values >= 0, 1 - tail, tail)
