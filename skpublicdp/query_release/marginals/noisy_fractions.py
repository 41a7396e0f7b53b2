"""Noisy fractions of cells, their confidence bounds, and how they shorten posterior intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from scipy.stats import norm

from skpublicdp.query_release.marginals.table import SMALLEST_POSITIVE
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
    fractions = np.asarray(noisy, float)
    noise_variances = np.asarray(variance, float)
    counts, variances = np.broadcast_arrays(fractions * n, noise_variances)
    count_variances = variances * n**2
    variances = np.maximum(count_variances, MIN_COUNT_NOISE_VARIANCE)
    # a lower bound follows from an upper bound on the complementary fraction
    both_counts = np.stack([counts, n - counts])  # (2, *counts.shape)
    both_counts = both_counts + CONTINUITY_CORRECTION
    high, complement = _upper_bounds(both_counts, variances, n, failure=failure, gaussian=gaussian)
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
        _, tail = _saddle_point(tilt, counts, variance, n=n, gaussian=gaussian)
        is_rare = tail < failure
        low_tilt = np.where(is_rare, tilt, low_tilt)
        high_tilt = np.where(is_rare, high_tilt, tilt)
    bounds, _ = _saddle_point(high_tilt, counts, variance, n=n, gaussian=gaussian)
    # where no fraction is rejected, the bisection ends a few rounding errors below 1
    return np.where(bounds > 1 - MAX_ROUNDING_ERROR, 1.0, bounds)


def _saddle_point(
    tilt: Floats, counts: Floats, variance: Floats, n: float | Floats, gaussian: bool
) -> tuple[Floats, Floats]:
    """Return the success probabilities whose saddle point is `tilt`, and their lower tails.

    K is the cumulant function of Binomial(n, p) plus noise, and the saddle point solves K'(tilt) =
    count, after continuity correction. A lower tail, the probability that a noisy sum is at most
    the count, is computed by the approximation of Lugannani and Rice (1980).
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
    is_above = tilted_fraction >= 1
    is_below = tilted_fraction <= 0
    fraction = np.select([is_above, is_below], [1.0, 0.0], fraction)
    tail = np.select([is_above, is_below], [0.0, 1.0], tail)
    return fraction, tail


NOISE_INTERVAL_SHARE = 1 / 20
"""Failure probability of each end of the interval computed from the noisy answers alone, relative
to the failure probability of the posterior interval. The posterior interval is clipped to this
interval. A share of 1/2 would lower coverage; see benchmarks/ablate.py."""

DISAGREEMENT_FAILURE = 0.05
"""Failure probability of the posterior intervals that are compared with the noisy answers. It does
not depend on the level of the intervals, so that an interval grows with its level."""

MAX_NOISE_VARIANCE = 1.0
"""Noise variance of a fraction from which its noisy answer counts as no measurement."""

MIN_LOWER_END = 1e-8
"""Fraction below which the lower end of an interval is set to 0."""


class NoisyFractions(NamedTuple):
    """Noisy fractions of the private rows in each cell, without any use of public rows."""

    values: Floats
    variance: float | Floats  # variance of the noise of each fraction
    persons: float | Floats  # number of private persons to whom the fractions refer
    gaussian: bool  # Whether the noise is Gaussian. If False, it is Laplace noise.

    def bounds(self, failure: float) -> tuple[Floats, Floats]:
        """Return lower and upper confidence bounds on the population's fractions.

        Each bound is violated with probability `failure`. Both arrays have the shape of `values`.
        """
        return binomial_bounds(
            self.values, self.variance, self.persons, failure, gaussian=self.gaussian
        )

    def length(self, fractions: Floats, failure: float) -> Floats:
        """Return the length of a normal confidence interval around each fraction.

        Its variance is the sum of the noise and sampling variances, and its failure probability is
        `failure`.
        """
        variance = self.variance + fractions * (1 - fractions) / self.persons
        return 2 * norm.isf(failure / 2) * np.sqrt(variance)


class Disagreement(NamedTuple):
    """Cells in which the posterior and the noisy answer disagree, so that either may be wrong."""

    # whether the estimate lies outside the posterior interval or outside the noisy bounds
    cells: NDArray[np.bool_]
    # whether the estimate lies outside the lower or the upper noisy bound
    is_low_too_strict: NDArray[np.bool_]
    is_high_too_strict: NDArray[np.bool_]


def extend_to_zero(low: Floats) -> Floats:
    """Return lower ends, of which tiny ones are replaced by 0."""
    return np.where(low < MIN_LOWER_END, 0, low)


def find_disagreement(
    low: Floats, high: Floats, estimate: Floats, noisy: NoisyFractions
) -> Disagreement:
    """Find the cells in which the posterior and the noisy answer disagree."""
    noisy_low, noisy_high = noisy.bounds(DISAGREEMENT_FAILURE * NOISE_INTERVAL_SHARE)
    smallest = np.maximum(extend_to_zero(low), noisy_low)
    largest = np.minimum(high, noisy_high)
    # an estimate of 0 is compatible with an interval that begins below one person
    is_positive = smallest > 1 / noisy.persons
    is_below = is_positive & (estimate < smallest)
    is_measured = np.less(noisy.variance, MAX_NOISE_VARIANCE)
    is_outside = is_below | (estimate > largest)
    cells = is_measured & is_outside
    return Disagreement(cells, noisy_low > estimate, noisy_high < estimate)


def cap_by_noisy_interval(
    low: Floats,
    high: Floats,
    estimate: Floats,
    noisy: NoisyFractions,
    failure: float,
    disagreement: Disagreement,
) -> tuple[Floats, Floats]:
    """Return the ends of posterior intervals after shortening them by means of the noisy answers.

    The ends are clipped to confidence bounds from the noisy answers. The length is limited to that
    of a normal interval around the estimate. The normal interval itself is not used, since it would
    be too short for a noisy answer that is far too low (Feldman and Cousins 1998).

    If the posterior and the noisy answer disagree, the interval contains the confidence interval
    from the noisy answer and the posterior interval. The latter is clipped only by bounds that
    contain the estimate, and the length is not limited.
    """
    low = extend_to_zero(low)
    # these bounds fail much more rarely, so clipping hardly reduces coverage
    noisy_low, noisy_high = noisy.bounds(failure * NOISE_INTERVAL_SHARE)
    clipped_low = np.maximum(low, noisy_low)
    clipped_high = np.minimum(high, noisy_high)

    direct_low, direct_high = noisy.bounds(failure / 2)
    compatible_low = np.where(disagreement.is_low_too_strict, low, clipped_low)
    compatible_high = np.where(disagreement.is_high_too_strict, high, clipped_high)
    union_low = np.minimum.reduce([direct_low, compatible_low, estimate])
    union_high = np.maximum.reduce([direct_high, compatible_high, estimate])

    low = np.minimum(clipped_low, estimate)
    high = np.maximum(clipped_high, estimate)
    noisy_length = noisy.length(estimate, failure)
    max_length = np.minimum(noisy_length, 1)
    length = np.maximum(high - low, SMALLEST_POSITIVE)
    shrinkage = np.minimum(max_length / length, 1)
    low = estimate - shrinkage * (estimate - low)
    high = estimate + shrinkage * (high - estimate)
    is_union = disagreement.cells
    low = np.where(is_union, union_low, low)
    high = np.where(is_union, union_high, high)
    return extend_to_zero(low), high
