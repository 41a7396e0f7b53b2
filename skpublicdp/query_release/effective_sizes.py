"""Effective size of the public sample under distribution shift, by marginal likelihood."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skpublicdp.typing import Floats

SHIFT_VARIANCE_GRID = np.concatenate([[0.0], np.geomspace(1e-6, 10, 29)])
"""Grid of shift variances, in units of one over a number of rows: 0, then four per power of ten."""

NO_SHIFT_PROBABILITY, MIN_SHIFT_VARIANCE = 0.2, 1e-2
"""Prior probability of no shift, for intervals, and the smallest variance that counts as a shift.
Chosen for coverage with shifted public rows (benchmarks/bench_intervals.py). The interval scores of
other values are in benchmarks/ablate.py."""

SHIFT_QUANTILE_LEVELS = np.array([0.0, 0.5, 0.75, 0.9, 0.975, 1.0])
"""Quantile levels that cut the posterior of the shift into parts. The median of a part represents
it. Parts are finer in the upper tail, which determines the ends of intervals."""

SHIFT_PART_WEIGHTS = np.diff(SHIFT_QUANTILE_LEVELS)
"""Probabilities of the parts."""


class EffectiveSizePosterior(NamedTuple):
    """Posterior distribution of the effective public sample size, in private rows.

    Attributes
    ----------
    rows : ndarray of shape (n_sizes,)
        Effective numbers of rows.
    parts : ndarray of shape (n_sizes, n_parts)
        Joint probability of a size and of a part of the posterior of the shift. The parts are those
        of `SHIFT_QUANTILE_LEVELS`. Each part has one size, its median.
    """

    rows: Floats
    parts: Floats

    @property
    def weights(self) -> Floats:
        """The probability of each size."""
        weights: Floats = self.parts.sum(axis=1)
        return weights

    def conditional_weights(self, condition: EffectiveSizePosterior) -> Floats:
        """Return the probabilities of the sizes, conditional on each size of `condition`.

        One posterior is for one-way tables, the other for wider ones. Both shifts are taken to be
        in the same part, at the same quantile.

        Returns
        -------
        ndarray of shape (n_condition_sizes, n_sizes)
            Each row adds up to 1.
        """
        joint: Floats = condition.parts @ (self.parts > 0).T.astype(np.float64)
        return joint / condition.weights[:, None]


def point_mass_size(rows: float) -> EffectiveSizePosterior:
    """Return the posterior that has all its probability at one effective sample size."""
    return EffectiveSizePosterior(np.array([rows]), SHIFT_PART_WEIGHTS[None, :])


def effective_sample_size(
    squared_differences: Floats,
    variance_per_shift: Floats,
    noise_variance: Floats | float,
    base_variance: float,
    degrees_of_freedom: Floats | float = 1.0,
) -> float:
    """Return the posterior median of the effective public sample size, in private rows.

    A difference of a noisy and a public answer is normal with variance
    ``variance_per_shift * (base_variance + shift) + noise_variance``. The prior gives half of its
    mass to no shift and spreads the rest evenly over `SHIFT_VARIANCE_GRID`. Noise that hides the
    shift therefore leaves the posterior median at no shift.

    Parameters
    ----------
    squared_differences : ndarray
        Squared differences of noisy and public answers.
    variance_per_shift : ndarray
        Variance of each difference per unit of shift variance.
    noise_variance : ndarray or float
        Noise variance of each answer.
    base_variance : float
        Inverse of the effective sample size without shift.
    degrees_of_freedom : ndarray or float, default=1
        Degrees of freedom of each difference. They are below 1 for differences that add up to zero.

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
    posterior[0] *= len(posterior) - 1  # the prior odds of no shift against a shift are 1
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
    """Return the posterior of the effective public sample size, for intervals.

    The prior of `effective_sample_size` avoids estimating a shift from mere noise. An interval must
    also hold if noise hides a shift, so that its prior has more mass on shifts
    (`NO_SHIFT_PROBABILITY`).

    Parameters
    ----------
    squared_differences, variance_per_shift, noise_variance, base_variance, degrees_of_freedom
        As in `effective_sample_size`.

    Examples
    --------
    >>> hidden = effective_size_posterior(np.full(9, 0.2), np.ones(9), 1e4, base_variance=1e-3)
    >>> hidden.rows.round(1)
    array([90.9,  3.2,  0.3,  0.2,  0.1])
    """
    prior = np.where(SHIFT_VARIANCE_GRID >= MIN_SHIFT_VARIANCE, 1.0, 0.0)
    prior *= (1 - NO_SHIFT_PROBABILITY) / prior.sum()
    prior[0] = NO_SHIFT_PROBABILITY
    likelihood = _likelihood(
        squared_differences, variance_per_shift, noise_variance, base_variance, degrees_of_freedom
    )
    cumulative = np.cumsum(prior * likelihood)
    median_levels = (SHIFT_QUANTILE_LEVELS[1:] + SHIFT_QUANTILE_LEVELS[:-1]) / 2
    median_indices = np.searchsorted(cumulative / cumulative[-1], median_levels)
    shift_indices, size_of_part = np.unique(
        np.minimum(median_indices, len(SHIFT_VARIANCE_GRID) - 1), return_inverse=True
    )
    parts = np.zeros((len(shift_indices), len(SHIFT_PART_WEIGHTS)))
    parts[size_of_part, np.arange(len(SHIFT_PART_WEIGHTS))] = SHIFT_PART_WEIGHTS
    return EffectiveSizePosterior(1 / (base_variance + SHIFT_VARIANCE_GRID[shift_indices]), parts)


def _likelihood(
    squared_differences: Floats,
    variance_per_shift: Floats,
    noise_variance: Floats | float,
    base_variance: float,
    degrees_of_freedom: Floats | float,
) -> Floats:
    """Return the normal likelihood of each shift variance of the grid, divided by the maximum."""
    log_likelihoods = np.empty(len(SHIFT_VARIANCE_GRID))
    for i, shift in enumerate(SHIFT_VARIANCE_GRID):
        variance = variance_per_shift * (base_variance + shift) + noise_variance + 1e-30
        terms = squared_differences / variance + np.log(variance)
        log_likelihoods[i] = -float((degrees_of_freedom * terms).sum()) / 2
    likelihood: Floats = np.exp(log_likelihoods - log_likelihoods.max())
    return likelihood
