"""Confidence intervals of metrics that account for both test sampling and privacy noise.

The formulas are derived in docs/proofs/scores.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom, norm

from skpublicdp.accounting.measurements import noise_cdf
from skpublicdp.metrics.noisy_counts import NoisyCount, NoisyTable
from skpublicdp.typing import Floats

BINOMIAL_TAIL_SDS = 12
"""Number of standard deviations of a binomial count beyond which its probability is neglected."""


def agresti_coull_rows(failure: float) -> float:
    """Return z² / 4, which is half of the pseudo-count z² / 2 of Agresti and Coull (1998).

    Here z is the two-sided normal quantile of `failure`, the probability that an interval misses.
    """
    return float(norm.isf(failure / 2) ** 2 / 4)


def share_interval(count: NoisyCount, failure: float) -> tuple[float, float]:
    """Return a confidence interval for the population accuracy.

    Parameters
    ----------
    count : NoisyCount
        Noisy number of correct predictions on independent rows.
    failure : float
        Probability that the interval misses the true value. Each tail receives half of this
        probability, except for accuracies so close to 0 or 1 that one tail is empty. In this case,
        the other tail receives the entire probability.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from skpublicdp.accounting import Measurement, Pure
    >>> noisy = Measurement(np.array([90]), Fraction(1), 1.8)
    >>> count = NoisyCount(90, 100, noisy, Pure(Fraction(1)))
    >>> [round(end, 2) for end in share_interval(count, 0.05)]
    [0.82, 0.95]
    """

    def accuracy_with_cdf(value: int, level: float) -> float:
        """Return the accuracy for which P(noisy count <= value) is `level`, clipped to [0, 1]."""

        def excess(accuracy: float) -> float:
            return _noisy_binomial_cdf(value, accuracy, count) - level

        # the probability decreases in the accuracy
        if excess(0.0) <= 0:
            return 0.0
        return 1.0 if excess(1.0) >= 0 else float(brentq(excess, 0.0, 1.0, xtol=1e-10))

    value, half_failure = int(count.clipped), failure / 2
    # no count is too small for accuracies below `max_one_sided_low`, and no count is too large for
    # accuracies above `min_one_sided_high`
    max_one_sided_low = accuracy_with_cdf(0, half_failure)
    min_one_sided_high = accuracy_with_cdf(count.n - 1, 1 - half_failure)
    if max_one_sided_low > min_one_sided_high:  # for few rows: divide [0, 1] at one accuracy
        middle = min(max(0.5, min_one_sided_high), max_one_sided_low)
        max_one_sided_low = min_one_sided_high = middle
    low, high = accuracy_with_cdf(value - 1, 1 - failure), accuracy_with_cdf(value, failure)
    if low > max_one_sided_low:
        low = max(accuracy_with_cdf(value - 1, 1 - half_failure), max_one_sided_low)
    if high < min_one_sided_high:
        high = min(accuracy_with_cdf(value, half_failure), min_one_sided_high)
    return low, high


def _noisy_binomial_cdf(value: int, accuracy: float, count: NoisyCount) -> float:
    """Return P(noisy count <= value) if predictions are correct with probability `accuracy`.

    All rows of a person are assumed to have the same result. The count is therefore n / n_units
    times a binomial variable, for n / design_effect independent units.
    """
    n_units = max(int(count.n / count.design_effect), 1)
    mean = n_units * accuracy
    variance = mean * (1 - accuracy)
    sd = math.sqrt(variance)
    # the added constant covers the Poisson tails at accuracies near 0 or 1
    half_width = BINOMIAL_TAIL_SDS * sd + BINOMIAL_TAIL_SDS
    min_correct = max(0, math.floor(mean - half_width))
    max_correct = min(n_units, math.ceil(mean + half_width))
    n_correct = np.arange(min_correct, max_correct + 1)
    probabilities = binom.pmf(n_correct, n_units, accuracy)
    rows_per_unit = count.n / n_units
    max_noise = np.floor(value - n_correct * rows_per_unit)  # noise at most this large
    noise_cdf_values = noise_cdf(count.event, count.noise.scale, max_noise)
    return float(probabilities @ noise_cdf_values)


def ratio_interval(
    table: NoisyTable,
    numerator_weights: Floats,
    denominator_weights: Floats,
    totals: tuple[Floats, Floats],
    failure: float,
    sampled_counts: Floats,
    pseudo_rows: float = 0.0,
) -> Floats:
    """Return Fieller (1954) intervals for ratios of sums over a noisy table.

    Parameters
    ----------
    table : NoisyTable
        Noisy counts.
    numerator_weights, denominator_weights : ndarray of shape (..., n_labels * n_bins)
        Weights of the cells in both sums.
    totals : pair of ndarray of shape (...,)
        Estimates of the numerators and the denominators.
    failure : float
        Probability that each interval misses the true value.
    sampled_counts : ndarray of shape (n_labels * n_bins,)
        Nonnegative counts used to estimate the sampling variance.
    pseudo_rows : float, default=0
        Pseudo-count added to the numerator, and again to the denominator for rows outside the
        numerator.

    Returns
    -------
    ndarray of shape (..., 2)
        Ends within [0, 1]. The interval is [0, 1] if the denominator may be zero.
    """
    numerator = np.asarray(totals[0]) + pseudo_rows
    denominator = np.asarray(totals[1]) + 2 * pseudo_rows

    def covariance(u: Floats, v: Floats) -> Floats:
        """Return the covariance of two weighted sums that is due to noise and sampling."""
        return np.asarray(table.covariance(u, v) + table.design_effect * ((u * v) @ sampled_counts))

    a, b, c = (
        covariance(numerator_weights, numerator_weights),
        covariance(numerator_weights, denominator_weights),
        covariance(denominator_weights, denominator_weights),
    )
    # a row with weights (1, 1) adds 1 to a, b and c, and a row with weights (0, 1) adds 1 to c
    a, b, c = a + pseudo_rows, b + pseudo_rows, c + 2 * pseudo_rows
    ratio = clipped_ratio(numerator, denominator)
    fourth_cumulant = table.fourth_cumulant(
        numerator_weights - ratio[..., None] * denominator_weights
    )
    return fieller(numerator, denominator, (a, b, c), fourth_cumulant, failure)


def clipped_ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return the ratio, clipped to [0, 1], or 0.5 if the denominator is 0."""
    ratio = np.divide(
        numerator, denominator, out=np.full(numerator.shape, 0.5), where=denominator != 0
    )
    return np.clip(ratio, 0, 1)


def fieller(
    numerator: Floats,
    denominator: Floats,
    variances: tuple[Floats, Floats, Floats],
    fourth_cumulant: Floats,
    failure: float,
    inverse_dof: Floats | float = 0.0,
) -> Floats:
    """Return Fieller's confidence interval for a ratio θ of two means, estimated by A / B.

    The interval is the range in [0, 1] of all θ with (A - θ B)² <= z² (a - 2bθ + cθ²), where the
    right side is z² times the variance of A - θ B.

    Parameters
    ----------
    numerator, denominator : ndarray of shape (...,)
        The estimates A and B.
    variances : tuple of ndarray of shape (...,)
        The values a, b and c: variance of A, covariance of A and B, variance of B.
    fourth_cumulant : ndarray of shape (...,)
        Fourth cumulant of the noise of A - θ B, at θ = A / B.
    failure : float
        Probability that each interval misses the true value. z is its two-sided normal quantile.
    inverse_dof : float or ndarray of shape (...,), default=0
        Inverse degrees of freedom of the variance estimate (Satterthwaite 1946).

    Returns
    -------
    ndarray of shape (..., 2)
        The interval is [0, 1] if B may be zero and neither 0 nor 1 is excluded.
    """
    a, b, c = variances
    z = float(norm.isf(failure / 2))
    ratio = clipped_ratio(numerator, denominator)
    variance = a - 2 * ratio * b + ratio**2 * c
    # first term of the Cornish-Fisher expansion, for the tails of Laplace noise
    kurtosis = np.divide(
        fourth_cumulant, variance**2, out=np.zeros(numerator.shape), where=variance > 0
    )
    # first term of the expansion of Student's quantile, since the variance is estimated
    z_squared = (z + kurtosis * (z**3 - 3 * z) / 24 + inverse_dof * (z**3 + z) / 4) ** 2
    # the condition is quadratic θ² - 2 linear θ + constant <= 0
    quadratic = denominator**2 - z_squared * c
    linear = numerator * denominator - z_squared * b
    constant = numerator**2 - z_squared * a
    discriminant = linear**2 - quadratic * constant
    sqrt_discriminant = np.sqrt(np.maximum(discriminant, 0))
    divisor = np.where(quadratic == 0, 1.0, quadratic)
    root_low = (linear - sqrt_discriminant) / divisor
    root_high = (linear + sqrt_discriminant) / divisor
    # a parabola that opens downwards only excludes the values between root_high and root_low
    excludes_between = (quadratic < 0) & (discriminant > 0)
    low = np.where(
        quadratic > 0,
        root_low,
        np.where(excludes_between & (root_high < 0) & (root_low < 1), root_low, 0.0),
    )
    high = np.where(
        quadratic > 0,
        root_high,
        np.where(excludes_between & (root_low > 1) & (root_high > 0), root_high, 1.0),
    )
    return np.clip(np.stack([low, high], axis=-1), 0, 1)


def extend_interval(interval: Floats, value: Any) -> Any:
    """Return intervals of shape (..., 2), extended to contain estimates of shape (...).

    A single interval is returned as a pair of floats.
    """
    low, high = np.minimum(interval[..., 0], value), np.maximum(interval[..., 1], value)
    return (float(low), float(high)) if low.ndim == 0 else np.stack([low, high], axis=-1)
