"""Empirical Bayes shrinkage of cells to their independence estimates.

The deviation of a cell with independence estimate b has the prior variance g √b per unit of the
fraction, with a scale g of the cell. The mixture over g is estimated from all cells of a table and,
for small tables, from the other tables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from skpublicdp.query_release.effective_sizes import SHIFT_VARIANCE_GRID
from skpublicdp.query_release.marginals.ipf import SMALLEST_POSITIVE
from skpublicdp.typing import Codes, Floats

DEVIATION_SCALES = SHIFT_VARIANCE_GRID[:, None]
"""Grid of the scale g."""

NO_PUBLIC_SCALE_PRIOR = 1 / np.sqrt(np.maximum(DEVIATION_SCALES, DEVIATION_SCALES[1]))
NO_PUBLIC_SCALE_PRIOR /= NO_PUBLIC_SCALE_PRIOR.sum()
"""Prior of g without public rows. Small scales have more mass."""

PRIOR_PSEUDO_CELLS = 5.0
"""Weight of the prior of a mixture, in cells. The prior of the mixture of all tables is the initial
one, and the prior of the mixture of each table is the mixture of all tables."""

MIN_LOGLIK_RANGE = 0.05
"""Minimum range of a cell's log-likelihood over the grid. Cells below it are not used to fit the
mixture."""

MAX_TRAINING_CELLS = 1 << 14
"""Maximum number of cells used to fit the mixture. More cells are subsampled evenly."""

MIN_INDEPENDENCE_ESTIMATE = 1e-12
"""Lower bound of the independence estimate and of the prior mean of a cell."""


class CellBatch(NamedTuple):
    """Concatenated cells of several tables. All arrays have the shape (n_cells,).

    Attributes
    ----------
    independence_estimate : ndarray
        Fraction in the maximum entropy table with the estimated margins.
    public : ndarray
        Fraction of the public rows, raked to the estimated margins.
    unexplained_share : ndarray
        Share of a cell's variance that the margins do not determine.
    values : ndarray
        Measured fraction, adjusted to the estimated margins.
    precisions : ndarray
        Inverse variance of the noise. It is 0 for an unmeasured cell.
    residual_noise_share : ndarray
        Share of the noise variance that remains without the effects of all margins.
    """

    independence_estimate: Floats
    public: Floats
    unexplained_share: Floats
    values: Floats
    precisions: Floats
    residual_noise_share: Floats

    def select(self, cells: NDArray[np.integer] | slice) -> CellBatch:
        """Return some of the cells."""
        return CellBatch(*(array[cells] for array in self))


class ShrunkPrior(NamedTuple):
    """Prior of each cell, averaged over the scales g. All arrays have the shape (n_cells,).

    Attributes
    ----------
    mean : ndarray
        Prior mean, between the independence estimate and the public fraction.
    variance_factor : ndarray
        Prior variance per unit of the fraction.
    ratio : ndarray
        Weight of the prior relative to the measured value. It is infinite for unmeasured cells.
    """

    mean: Floats
    variance_factor: Floats
    ratio: Floats


def shrink_to_margins(
    cells: CellBatch, starts: NDArray[np.integer], effective_size: float
) -> ShrunkPrior:
    """Fit the mixture over g, and return the prior of each cell under it.

    Parameters
    ----------
    cells : CellBatch
        Cells of all tables with one number of columns.
    starts : ndarray of int, shape (n_tables,)
        Index of the first cell of each table.
    effective_size : float
        Effective public sample size, in private rows.

    Returns
    -------
    ShrunkPrior
        Prior mean, variance and weight of each cell.
    """
    n_cells = len(cells.independence_estimate)
    cells = cells._replace(
        independence_estimate=np.maximum(cells.independence_estimate, MIN_INDEPENDENCE_ESTIMATE)
    )
    table_of_cell = np.searchsorted(starts, np.arange(n_cells), side="right") - 1
    mixtures = _fit_table_mixtures(cells, table_of_cell, len(starts), effective_size)
    prior_mean, variance_factor, ratio = np.empty((3, n_cells))
    for start in range(0, n_cells, MAX_TRAINING_CELLS):
        block = slice(start, start + MAX_TRAINING_CELLS)
        prior = _average_over_scales(
            cells.select(block), mixtures[:, table_of_cell[block]], effective_size
        )
        prior_mean[block], variance_factor[block], ratio[block] = prior
    return ShrunkPrior(prior_mean, variance_factor, ratio)


def _fit_table_mixtures(
    cells: CellBatch, table_of_cell: Codes, n_tables: int, effective_size: float
) -> Floats:
    """Return the mixture over g of each table, shape (n_scales, n_tables).

    The mixture of all tables is fitted first. It is the prior of the mixture of each table.
    """
    n_cells = len(table_of_cell)
    n_training_cells = min(n_cells, MAX_TRAINING_CELLS)
    training_cells = np.unique(np.linspace(0, n_cells - 1, n_training_cells).astype(np.intp))
    log_likelihoods = log_likelihood(cells.select(training_cells), effective_size)
    is_informative = np.ptp(log_likelihoods, axis=0) >= MIN_LOGLIK_RANGE
    log_likelihoods = log_likelihoods[:, is_informative]
    likelihood = np.exp(log_likelihoods - log_likelihoods.max(axis=0, initial=-np.inf))
    initial = (
        np.full_like(NO_PUBLIC_SCALE_PRIOR, 1 / len(DEVIATION_SCALES))
        if effective_size
        else NO_PUBLIC_SCALE_PRIOR
    )
    one_group = np.array([likelihood.shape[1]])
    pooled = _fit_mixture(likelihood, one_group, initial, max_iter=60)
    ends = np.searchsorted(
        table_of_cell[training_cells[is_informative]], np.arange(n_tables), side="right"
    )
    return _fit_mixture(likelihood, ends, np.repeat(pooled, n_tables, axis=1), max_iter=30)


def _average_over_scales(
    cells: CellBatch, mixture_of_cell: Floats, effective_size: float
) -> ShrunkPrior:
    """Average the prior of each cell over the posterior of its scale g.

    Each scale has its own prior mean, and its own weight of the prior relative to the measurement.

    Parameters
    ----------
    cells : CellBatch
        Cells with positive independence estimates.
    mixture_of_cell : ndarray of shape (n_scales, n_cells)
        Mixture over g of the table of each cell.
    effective_size : float
        Effective public sample size.
    """
    base, public = cells.independence_estimate, cells.public
    log_likelihoods = log_likelihood(cells, effective_size)
    weights = np.exp(log_likelihoods - log_likelihoods.max(axis=0)) * mixture_of_cell
    weights /= weights.sum(axis=0)
    variance = DEVIATION_SCALES * np.sqrt(base)
    posterior_variance = variance / (1 + variance * effective_size)  # given the public rows
    means = np.maximum(
        base + posterior_variance * effective_size * (public - base), MIN_INDEPENDENCE_ESTIMATE
    )
    prior_weights = weights / (1 + posterior_variance * means * cells.precisions)
    prior_share = prior_weights.sum(axis=0)
    mean = (prior_weights * means).sum(axis=0) / prior_share
    ratio = np.divide(
        mean * prior_share,
        1 - prior_share,
        out=np.full(len(prior_share), np.inf),
        where=prior_share < 1 - 1e-12,
    )
    return ShrunkPrior(mean, (weights * posterior_variance).sum(axis=0), ratio)


def _fit_mixture(
    likelihood: Floats, ends: NDArray[np.integer], prior: Floats, max_iter: int
) -> Floats:
    """Return the mixture over g of each group of cells, by expectation maximisation.

    Parameters
    ----------
    likelihood : ndarray of shape (n_scales, n_cells)
        Likelihood of each g, up to a factor for each cell. Cells of a group are adjacent.
    ends : ndarray of int, shape (n_groups,)
        Index after the last cell of each group.
    prior : ndarray of shape (n_scales, n_groups)
        Initial mixture, and mean of its Dirichlet prior of weight `PRIOR_PSEUDO_CELLS`.
    max_iter : int
        Maximum number of iterations.

    Returns
    -------
    ndarray of shape (n_scales, n_groups)
    """
    mixture = prior
    counts = np.diff(ends, prepend=0)
    groups = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    for _ in range(max_iter):
        likelihood_ratios = np.zeros(prior.shape)
        for group, cells in enumerate(groups):
            # sums of posterior weights, without an array of all of them
            group_likelihood = likelihood[:, cells]
            evidence = mixture[:, group] @ group_likelihood
            likelihood_ratios[:, group] = group_likelihood @ (1 / evidence)
        expected_counts = likelihood_ratios * mixture + PRIOR_PSEUDO_CELLS * prior
        updated = expected_counts / (counts + PRIOR_PSEUDO_CELLS)
        max_change = float(np.abs(updated - mixture).max())
        mixture = updated
        if max_change < 1e-4:
            break
    return mixture


def log_likelihood(cells: CellBatch, effective_size: float) -> Floats:
    """Return the log-likelihood of each scale g for each cell, up to constants.

    Public counts are negative binomial around the independence estimate: Poisson counts whose mean
    has a gamma distribution. Measured values are normal around their mean given the public counts.

    Parameters
    ----------
    cells : CellBatch
        Cells with positive independence estimates.
    effective_size : float
        Effective public sample size. Without public rows it is 0.

    Returns
    -------
    ndarray of shape (n_scales, n_cells)
    """
    base, public = cells.independence_estimate, cells.public
    variance = DEVIATION_SCALES * np.sqrt(base)
    log_likelihoods = np.zeros((len(DEVIATION_SCALES), len(base)))
    if effective_size:
        count = np.maximum(
            effective_size * (base + (public - base) / np.sqrt(cells.unexplained_share)), 0
        )
        log_likelihoods = _public_log_likelihood(count, base, variance, effective_size)
    # margins determine the cells of a table with a column of one code
    is_free = cells.residual_noise_share > 0
    is_measured = is_free & (cells.precisions > 0)
    noise = np.divide(
        cells.residual_noise_share, cells.precisions, out=np.ones(len(base)), where=is_measured
    )
    posterior_variance = variance / (1 + variance * effective_size)  # given the public rows
    expected = base + posterior_variance * effective_size * (public - base)
    total_variance = posterior_variance * np.maximum(expected, 0) * cells.unexplained_share + noise
    normal = -0.5 * ((cells.values - expected) ** 2 / total_variance + np.log(total_variance))
    total: Floats = np.where(is_free, log_likelihoods, 0) + np.where(is_measured, normal, 0)
    return total


def _public_log_likelihood(
    count: Floats, base: Floats, variance: Floats, effective_size: float
) -> Floats:
    """Return the negative binomial log-likelihood of public counts, up to constants.

    Parameters
    ----------
    count : ndarray of shape (n_cells,)
        Effective number of public rows in each cell, not rounded.
    base : ndarray of shape (n_cells,)
        Independence estimates, positive.
    variance : ndarray of shape (n_scales, n_cells)
        Variance of a cell's deviation per unit of the fraction, for each scale g.
    effective_size : float
        Effective public sample size, positive.

    Returns
    -------
    ndarray of shape (n_scales, n_cells)
    """
    shape, odds = base / np.maximum(variance, 1e-30), effective_size * variance
    is_poisson = shape > 1e8  # the limit of a large shape, which has rounding errors
    shape = np.where(is_poisson, 1.0, shape)
    negative_binomial = -shape * np.log1p(odds)
    # most cells of large tables are empty, and the gamma function is slow
    is_nonempty = count > 0
    count_nonempty, shape, odds = count[is_nonempty], shape[:, is_nonempty], odds[:, is_nonempty]
    negative_binomial[:, is_nonempty] += (
        gammaln(count_nonempty + shape)
        - gammaln(shape)
        + count_nonempty * (np.log(np.maximum(odds, SMALLEST_POSITIVE)) - np.log1p(odds))
    )
    poisson = count * np.log(effective_size * base) - effective_size * base
    return np.where(is_poisson, poisson, negative_binomial)
