"""Noisy fractions of table cells, and how they shorten the intervals of a posterior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from skpublicdp.query_release.binomial_intervals import binomial_bounds
from skpublicdp.query_release.marginals.ipf import SMALLEST_POSITIVE
from skpublicdp.typing import Floats

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


def find_disagreement(
    low: Floats, high: Floats, estimate: Floats, noisy: NoisyFractions
) -> Disagreement:
    """Find the cells in which the posterior and the noisy answer disagree."""
    low = np.where(low < MIN_LOWER_END, 0, low)
    noisy_low, noisy_high = noisy.bounds(DISAGREEMENT_FAILURE * NOISE_INTERVAL_SHARE)
    smallest, largest = np.maximum(low, noisy_low), np.minimum(high, noisy_high)
    # an estimate of 0 is compatible with an interval that begins below one person
    is_below = (estimate < smallest) & (smallest > 1 / noisy.persons)
    is_measured = np.less(noisy.variance, MAX_NOISE_VARIANCE)
    cells = is_measured & (is_below | (estimate > largest))
    return Disagreement(cells, noisy_low > estimate, noisy_high < estimate)


def cap_by_noisy_interval(
    low: Floats,
    high: Floats,
    estimate: Floats,
    noisy: NoisyFractions,
    failure: float,
    disagreement: Disagreement,
) -> tuple[Floats, Floats]:
    """Return posterior intervals after shortening them by means of the noisy answers.

    The ends are clipped to confidence bounds from the noisy answers. The length is limited to that
    of a normal interval around the estimate. The normal interval itself is not used, since it would
    be too short for a noisy answer that is far too low (Feldman and Cousins 1998).

    If the posterior and the noisy answer disagree, the interval contains the confidence interval
    from the noisy answer and the posterior interval. The latter is clipped only by bounds that
    contain the estimate, and the length is not limited.

    Parameters
    ----------
    low, high : ndarray of shape (n,)
        Ends of the posterior intervals.
    estimate : ndarray of shape (n,)
        Released fractions, which remain within the intervals.
    noisy : NoisyFractions
        Noisy answers for the same cells.
    failure : float
        Failure probability of each posterior interval.
    disagreement : Disagreement
        The cells in which posterior and noisy answer disagree, independent of `failure`.

    Returns
    -------
    low, high : ndarray of shape (n,)
        Ends of the intervals after shortening.
    """
    low = np.where(low < MIN_LOWER_END, 0, low)
    # these bounds fail much more rarely, so clipping hardly reduces coverage
    noisy_low, noisy_high = noisy.bounds(failure * NOISE_INTERVAL_SHARE)
    clipped_low, clipped_high = np.maximum(low, noisy_low), np.minimum(high, noisy_high)

    direct_low, direct_high = noisy.bounds(failure / 2)
    union_low = np.minimum(direct_low, np.where(disagreement.is_low_too_strict, low, clipped_low))
    union_high = np.maximum(
        direct_high, np.where(disagreement.is_high_too_strict, high, clipped_high)
    )

    low, high = np.minimum(clipped_low, estimate), np.maximum(clipped_high, estimate)
    max_length = np.minimum(noisy.length(estimate, failure), 1)
    shrinkage = np.minimum(max_length / np.maximum(high - low, SMALLEST_POSITIVE), 1)
    low = estimate - shrinkage * (estimate - low)
    high = estimate + shrinkage * (high - estimate)
    low = np.where(disagreement.cells, np.minimum(union_low, estimate), low)
    high = np.where(disagreement.cells, np.maximum(union_high, estimate), high)
    return np.where(low < MIN_LOWER_END, 0, low), high
