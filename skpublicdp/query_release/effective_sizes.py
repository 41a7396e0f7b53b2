"""Effective public sample size under distribution shift, estimated by marginal likelihood."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skpublicdp.typing import Floats

SHIFT_VARIANCE_GRID = np.concatenate([[0.0], np.geomspace(1e-6, 10, 29)])
"""Grid of shift variances, in units of one over a number of rows: 0, and four values per power of
ten. The shift variance is the variance of the difference between the public and private
distributions."""

NO_SHIFT_PROBABILITY, MIN_SHIFT_VARIANCE = 0.2, 1e-2
"""Prior probability of no shift, as used for intervals, and smallest variance that counts as a
shift. Both were chosen for coverage with shifted public rows (benchmarks/bench_intervals.py).
benchmarks/ablate.py has the interval scores for other values."""

SHIFT_QUANTILE_LEVELS = np.array([0.0, 0.5, 0.75, 0.9, 0.975, 1.0])
"""Quantile levels that divide the posterior of the shift variance into parts, each represented by
its median. The parts are smaller in the upper tail, which determines the ends of intervals."""

SHIFT_PART_WEIGHTS = np.diff(SHIFT_QUANTILE_LEVELS)
"""Posterior probabilities of the parts."""

MIN_SIZE_PROBABILITY = 0.08
"""Minimum probability of an effective size that widens the bounds inside a bin. The two smallest of
the five sizes have lower probabilities (.075 and .025). If these sizes were used, nearly all bounds
inside a bin would be 0 and 1."""

MIN_DIFFERENCE_VARIANCE = 1e-30
"""Constant added to the variance of a difference, which keeps the variance positive if there is no
noise."""


class EffectiveSizePosterior(NamedTuple):
    """Posterior distribution of the effective public sample size, in private rows."""

    rows: Floats  # (n_sizes,): possible effective numbers of rows
    # (n_sizes, n_parts): joint probability of each size and each part of the shift variance's
    # posterior. The parts lie between consecutive `SHIFT_QUANTILE_LEVELS`. The entire mass of a
    # part belongs to one size, so each column has exactly one positive entry.
    parts: Floats

    @property
    def weights(self) -> Floats:
        """Posterior probability of each size, shape (n_sizes,)."""
        return self.parts.sum(axis=1)

    @property
    def smallest_likely(self) -> float:
        """The smallest size that has at least a probability of `MIN_SIZE_PROBABILITY`."""
        return float(self.rows[self.weights > MIN_SIZE_PROBABILITY].min())

    def conditional_weights(self, condition: EffectiveSizePosterior) -> Floats:
        """Return the probabilities of the sizes, conditional on each size in `condition`.

        For example, `condition` can be the posterior for one-way tables, and `self` the posterior
        for wider tables. Both shifts are assumed to lie in the same part of their posteriors.
        """
        has_part = (self.parts > 0).astype(np.float64)  # (n_sizes, n_parts)
        joint: Floats = condition.parts @ has_part.T  # (n_condition_sizes, n_sizes)
        return joint / condition.weights[:, None]


def point_mass_size(rows: float) -> EffectiveSizePosterior:
    """Return the posterior whose entire mass is on one effective sample size."""
    return EffectiveSizePosterior(np.array([rows]), SHIFT_PART_WEIGHTS[None, :])


def effective_sample_size(
    squared_differences: Floats,
    variance_per_shift: Floats,
    noise_variance: Floats | float,
    base_variance: float,
    degrees_of_freedom: Floats | float = 1.0,
) -> float:
    """Return the posterior median of the effective public sample size, in private rows.

    The difference between a noisy and a public answer is normal with variance ``variance_per_shift
    * (base_variance + shift) + noise_variance``. The prior of the shift variance has half of its
    mass at 0, and the other half is spread evenly over the other points of `SHIFT_VARIANCE_GRID`.
    The posterior median is therefore 0 if noise hides the shift.

    Examples
    --------
    >>> clear, hidden = (
    ...     effective_sample_size(np.full(9, 0.2), np.ones(9), noise, base_variance=1e-3)
    ...     for noise in (1e-4, 1e4)
    ... )
    >>> round(clear), round(hidden)
    (6, 1000)
    """
    posterior = _likelihood(
        squared_differences, variance_per_shift, noise_variance, base_variance, degrees_of_freedom
    )
    posterior[0] *= len(posterior) - 1  # prior odds of 1 between no shift and any shift
    cumulative = np.cumsum(posterior)
    median_shift = SHIFT_VARIANCE_GRID[np.searchsorted(cumulative, cumulative[-1] / 2)]
    return float(1 / (base_variance + median_shift))


def effective_size_posterior(
    squared_differences: Floats,
    variance_per_shift: Floats,
    noise_variance: Floats | float,
    base_variance: float,
    degrees_of_freedom: Floats | float = 1.0,
) -> EffectiveSizePosterior:
    """Return the posterior distribution of the effective public sample size, for intervals.

    The prior of `effective_sample_size` avoids estimating a shift from mere noise. Since intervals
    must also hold if noise hides a shift, this prior puts less mass on no shift
    (`NO_SHIFT_PROBABILITY`).

    Examples
    --------
    >>> hidden = effective_size_posterior(np.full(9, 0.2), np.ones(9), 1e4, base_variance=1e-3)
    >>> hidden.rows.round(1)
    array([90.9,  3.2,  0.3,  0.2,  0.1])
    """
    is_possible = SHIFT_VARIANCE_GRID >= MIN_SHIFT_VARIANCE
    prior = is_possible * (1 - NO_SHIFT_PROBABILITY) / is_possible.sum()
    prior[0] = NO_SHIFT_PROBABILITY
    likelihood = _likelihood(
        squared_differences, variance_per_shift, noise_variance, base_variance, degrees_of_freedom
    )
    cumulative = np.cumsum(prior * likelihood)
    median_levels = (SHIFT_QUANTILE_LEVELS[1:] + SHIFT_QUANTILE_LEVELS[:-1]) / 2
    median_indices = np.searchsorted(cumulative / cumulative[-1], median_levels)
    median_indices = np.minimum(median_indices, len(SHIFT_VARIANCE_GRID) - 1)  # rounding errors
    # parts with the same median share one size
    shift_indices, size_of_part = np.unique(median_indices, return_inverse=True)
    n_parts = len(SHIFT_PART_WEIGHTS)
    parts = np.zeros((len(shift_indices), n_parts))
    parts[size_of_part, np.arange(n_parts)] = SHIFT_PART_WEIGHTS
    rows = 1 / (base_variance + SHIFT_VARIANCE_GRID[shift_indices])
    return EffectiveSizePosterior(rows, parts)


def _likelihood(
    squared_differences: Floats,
    variance_per_shift: Floats,
    noise_variance: Floats | float,
    base_variance: float,
    degrees_of_freedom: Floats | float,
) -> Floats:
    """Return the likelihood of each shift variance on the grid, relative to the maximum.

    This function has the same parameters as `effective_sample_size`. The shape is
    (n_shift_variances,).
    """
    log_likelihoods = np.empty(len(SHIFT_VARIANCE_GRID))
    for i, shift in enumerate(SHIFT_VARIANCE_GRID):
        variance = (
            variance_per_shift * (base_variance + shift) + noise_variance + MIN_DIFFERENCE_VARIANCE
        )
        terms = squared_differences / variance + np.log(variance)
        log_likelihoods[i] = -float((degrees_of_freedom * terms).sum()) / 2
    return np.exp(log_likelihoods - log_likelihoods.max())
