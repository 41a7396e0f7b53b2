"""Priors for marginal tables: independence estimates, raked public tables, and shrinkage.

Shrinkage is based on empirical Bayes. The fraction q of a cell with independence estimate b has
prior variance g √b q, where g is the scale of the cell. The distribution of g (the mixture) is
estimated from all cells of a table and, for small tables, from the other tables. The variance
factor of a cell is its variance divided by q. The functions `set_...` and `rake_public_tables`
modify the given `MarginalEstimate` objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from skpublicdp.query_release.effective_sizes import SHIFT_VARIANCE_GRID
from skpublicdp.query_release.marginals.table import (
    MAX_IPF_SWEEPS,
    MIN_UNEXPLAINED_SHARE,
    SMALLEST_POSITIVE,
    MarginalEstimate,
    ipf,
    stack_margins,
    stack_possible,
)
from skpublicdp.typing import Codes, Floats

DEVIATION_SCALES = SHIFT_VARIANCE_GRID[:, None]
"""Grid of the scale g."""

NO_PUBLIC_SCALE_PRIOR = 1 / np.sqrt(np.maximum(DEVIATION_SCALES, DEVIATION_SCALES[1]))
NO_PUBLIC_SCALE_PRIOR /= NO_PUBLIC_SCALE_PRIOR.sum()
"""Prior of g in the absence of public rows, which puts more mass on small scales."""

PRIOR_PSEUDO_CELLS = 5.0
"""Weight of a mixture's prior, expressed as a number of cells. The initial mixture is the prior of
the mixture over all tables, which in turn is the prior of each table's mixture."""

MIN_LOGLIK_RANGE = 0.05
"""Minimum range of a cell's log-likelihood over the grid. Cells with a smaller range are ignored
when the mixture is fitted."""

MAX_TRAINING_CELLS = 1 << 14
"""Maximum number of cells used to fit the mixture. If there are more cells, they are subsampled
evenly."""

MAX_POOLED_ITERATIONS, MAX_TABLE_ITERATIONS = 60, 30
"""Maximum numbers of expectation maximisation iterations: for the mixture over all tables, and for
the mixtures of single tables, which start from the former."""

MIXTURE_TOLERANCE = 1e-4
"""Maximum change of a mixture weight at which expectation maximisation stops."""

MAX_GAMMA_SHAPE = 1e8
"""Shape parameter above which the negative binomial distribution is replaced by its Poisson limit,
which avoids rounding errors in differences of log-gamma functions."""

MIN_INDEPENDENCE_ESTIMATE = 1e-12
"""Lower bound on the independence estimate and on the prior mean of a cell."""

MIN_SINGLE_COLUMN_PRIOR = 1e-9
"""Lower bound on the prior fraction of a cell in a single column."""


class CellBatch(NamedTuple):
    """Cells of several tables, concatenated into flat arrays.

    All attributes are arrays of shape (n_cells,).
    """

    # fraction in the maximum entropy table that has the estimated margins
    independence_estimate: Floats
    public: Floats  # fraction of the public rows, raked to the estimated margins
    unexplained_share: Floats  # share of a cell's variance that is not determined by the margins
    values: Floats  # measured fraction, adjusted to the estimated margins
    precisions: Floats  # inverse noise variance, which is 0 for an unmeasured cell
    # share of the noise variance that remains after the effects of all margins are removed
    residual_noise_share: Floats

    def select(self, cells: NDArray[np.integer] | slice) -> CellBatch:
        """Return the cells with the given indices."""
        return CellBatch(*(array[cells] for array in self))


def shrink_to_margins(
    cells: CellBatch, starts: NDArray[np.integer], effective_size: float
) -> Floats:
    """Return each cell's empirical Bayes prior, shrunk towards the independence estimate.

    The rows of the result, of shape (3, n_cells), are the prior mean, the variance factor (the
    prior variance divided by the mean and the unexplained share), and the weight of the prior
    relative to the measurement, which is infinite for an unmeasured cell.
    """
    n_cells = len(cells.independence_estimate)
    cells = cells._replace(
        independence_estimate=np.maximum(cells.independence_estimate, MIN_INDEPENDENCE_ESTIMATE)
    )
    table_of_cell = np.searchsorted(starts, np.arange(n_cells), side="right") - 1
    mixtures = _fit_table_mixtures(cells, table_of_cell, len(starts), effective_size)
    priors = np.empty((3, n_cells))
    for start in range(0, n_cells, MAX_TRAINING_CELLS):
        block = slice(start, start + MAX_TRAINING_CELLS)
        mixture_of_cell = mixtures[:, table_of_cell[block]]
        priors[:, block] = _average_over_scales(
            cells.select(block), mixture_of_cell, effective_size
        )
    return priors


def _fit_table_mixtures(
    cells: CellBatch, table_of_cell: Codes, n_tables: int, effective_size: float
) -> Floats:
    """Return the distribution of the scale g in each table, shape (n_scales, n_tables).

    The mixture over all tables is fitted first and serves as the prior of each table's mixture.
    """
    n_cells = len(table_of_cell)
    n_training_cells = min(n_cells, MAX_TRAINING_CELLS)
    training_cells = np.unique(np.linspace(0, n_cells - 1, n_training_cells).astype(np.intp))
    log_likelihoods = log_likelihood(cells.select(training_cells), effective_size)
    is_informative = np.ptp(log_likelihoods, axis=0) >= MIN_LOGLIK_RANGE
    log_likelihoods = log_likelihoods[:, is_informative]
    # without informative cells, the mixtures equal their priors
    likelihood = np.exp(log_likelihoods - log_likelihoods.max(axis=0, initial=-np.inf))
    if effective_size:
        initial = np.full_like(NO_PUBLIC_SCALE_PRIOR, 1 / len(DEVIATION_SCALES))
    else:
        initial = NO_PUBLIC_SCALE_PRIOR
    all_cells = np.array([likelihood.shape[1]])
    pooled = _fit_mixture(likelihood, all_cells, initial, MAX_POOLED_ITERATIONS)
    training_table = table_of_cell[training_cells[is_informative]]
    ends = np.searchsorted(training_table, np.arange(n_tables), side="right")
    table_priors = np.repeat(pooled, n_tables, axis=1)
    return _fit_mixture(likelihood, ends, table_priors, MAX_TABLE_ITERATIONS)


def _average_over_scales(
    cells: CellBatch, mixture_of_cell: Floats, effective_size: float
) -> tuple[Floats, Floats, Floats]:
    """Return the rows of `shrink_to_margins`, averaged over the posterior of each cell's scale g.

    Each scale has a separate prior mean. Means are weighted by the posterior of the scale and by
    the prior's weight in the estimate of the cell.
    """
    log_likelihoods = log_likelihood(cells, effective_size)
    weights = np.exp(log_likelihoods - log_likelihoods.max(axis=0)) * mixture_of_cell
    weights /= weights.sum(axis=0)
    # variance factors and means for each scale, shape (n_scales, n_cells)
    factor = DEVIATION_SCALES * np.sqrt(cells.independence_estimate)
    means, factor_given_public = prior_given_public(cells, factor, effective_size)
    means = np.maximum(means, MIN_INDEPENDENCE_ESTIMATE)
    prior_weights = weights / (1 + factor_given_public * means * cells.precisions)
    prior_share = prior_weights.sum(axis=0)
    mean = (prior_weights * means).sum(axis=0) / prior_share
    ratio = np.divide(
        mean * prior_share,
        1 - prior_share,
        out=np.full(len(prior_share), np.inf),
        where=prior_share < 1 - 1e-12,  # otherwise the cell is unmeasured, up to rounding
    )
    return mean, (weights * factor_given_public).sum(axis=0), ratio


def _fit_mixture(
    likelihood: Floats, ends: NDArray[np.integer], prior: Floats, max_iter: int
) -> Floats:
    """Return the distribution of the scale g in each group of adjacent cells, (n_scales, n_groups).

    It is fitted by expectation maximisation. The prior is the initial mixture, and the mean of its
    Dirichlet prior with weight `PRIOR_PSEUDO_CELLS`.
    """
    mixture = prior
    counts = np.diff(ends, prepend=0)
    groups = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    for _ in range(max_iter):
        likelihood_ratios = np.zeros(prior.shape)
        for group, cells in enumerate(groups):
            # Sum over cells of P(cell | g) / P(cell). Multiplied by the mixture, this sum is the
            # expected number of cells with scale g.
            group_likelihood = likelihood[:, cells]
            evidence = mixture[:, group] @ group_likelihood
            likelihood_ratios[:, group] = group_likelihood @ (1 / evidence)
        expected_counts = likelihood_ratios * mixture + PRIOR_PSEUDO_CELLS * prior
        updated = expected_counts / (counts + PRIOR_PSEUDO_CELLS)
        max_change = float(np.abs(updated - mixture).max())
        mixture = updated
        if max_change < MIXTURE_TOLERANCE:
            break
    return mixture


def log_likelihood(cells: CellBatch, effective_size: float) -> Floats:
    """Return the log-likelihood of each scale g, up to a constant per cell, (n_scales, n_cells).

    Public counts are negative binomial around the independence estimate: Poisson counts whose mean
    has a gamma distribution. Measured values are normally distributed around their mean given the
    public counts.
    """
    base = cells.independence_estimate
    factor = DEVIATION_SCALES * np.sqrt(base)  # variance factors, (n_scales, n_cells)
    public_log_likelihood = np.zeros(factor.shape)
    if effective_size:
        # undo the reduction in a raked table's deviations that is due to its margins
        deviation = (cells.public - base) / np.sqrt(cells.unexplained_share)
        count = np.maximum(effective_size * (base + deviation), 0)
        public_log_likelihood = _public_log_likelihood(count, base, factor, effective_size)

    # if a column has a single code, margins determine the table and no cell is free
    is_free = cells.residual_noise_share > 0
    is_measured = is_free & (cells.precisions > 0)
    noise = np.ones(len(base))
    np.divide(cells.residual_noise_share, cells.precisions, out=noise, where=is_measured)
    expected, factor_given_public = prior_given_public(cells, factor, effective_size)
    prior_variance = factor_given_public * np.maximum(expected, 0)
    variance = prior_variance * cells.unexplained_share + noise
    squared_deviation = (cells.values - expected) ** 2
    normal = -0.5 * (squared_deviation / variance + np.log(variance))
    normal = np.where(is_measured, normal, 0)
    return np.where(is_free, public_log_likelihood, 0) + normal


def prior_given_public(
    cells: CellBatch, factor: Floats, public_size: float
) -> tuple[Floats, Floats]:
    """Return the mean and the variance factor of each cell's prior, given the public rows.

    Without public rows, the mean is the independence estimate. The public rows count as
    `public_size` observations with the variance factor 1.
    """
    base = cells.independence_estimate
    factor_given_public = factor / (1 + factor * public_size)
    mean = base + factor_given_public * public_size * (cells.public - base)
    return mean, factor_given_public


def _public_log_likelihood(
    count: Floats, base: Floats, factor: Floats, effective_size: float
) -> Floats:
    """Return the negative binomial log-likelihood of public counts, up to a constant per cell.

    A count is Poisson with mean effective_size · q. The fraction q has a gamma distribution with
    mean b (`base`) and variance factor · b.
    """
    gamma_shape = base / np.maximum(factor, 1e-30)  # the scale 0 has a factor of 0
    odds = effective_size * factor
    is_poisson = gamma_shape > MAX_GAMMA_SHAPE
    gamma_shape = np.where(is_poisson, 1.0, gamma_shape)  # not used for these entries
    negative_binomial = -gamma_shape * np.log1p(odds)  # the log-likelihood of a count of 0
    # most cells of large tables are empty, and the gamma function is slow
    is_nonempty = count > 0
    count_nonempty = count[is_nonempty]
    gamma_shape, odds = gamma_shape[:, is_nonempty], odds[:, is_nonempty]
    negative_binomial[:, is_nonempty] += (
        gammaln(count_nonempty + gamma_shape)
        - gammaln(gamma_shape)
        + count_nonempty * (np.log(np.maximum(odds, SMALLEST_POSITIVE)) - np.log1p(odds))
    )
    poisson = count * np.log(effective_size * base) - effective_size * base
    return np.where(is_poisson, poisson, negative_binomial)


def set_independence_estimates(group: Sequence[MarginalEstimate]) -> None:
    """Set `independence_estimate` and `unexplained_share` for tables of the same shape.

    The independence estimate is the maximum entropy table with the given margins. For two columns,
    this table is the product of the margins. The unexplained share of a cell is the product of 1 -
    q over its one-way margins q.
    """
    n_columns = len(group[0].columns)
    shape = (len(group), *group[0].shape)
    possible = stack_possible(group)
    if n_columns == 1:
        estimates = np.full(shape, 1 / shape[1])
        shares = np.full(shape, 1 - 1 / shape[1])
        if possible is not None:
            estimates = possible / possible.sum(axis=1, keepdims=True)
    else:
        estimates = np.ones(shape)
        shares = np.ones(shape)
        for axis in range(n_columns):
            # the first margins are the single columns, in order
            one_way_margins = [
                table.submarginals[axis].estimate.reshape(
                    table.broadcast_shape(table.submarginals[axis])
                )
                for table in group
            ]
            one_way = np.stack(one_way_margins)
            estimates = estimates * one_way
            shares = shares * (1 - one_way)
        if n_columns > 2:
            estimates = np.ones(shape)
        if possible is not None:  # quasi-independence
            estimates = np.where(possible, estimates, 0.0)
            # a cell that is the only possible one along an axis equals its margin
            for axis in range(1, n_columns + 1):
                is_single = possible.sum(axis=axis, keepdims=True) == 1
                shares = np.where(is_single, 0.0, shares)
        if n_columns > 2 or possible is not None:
            estimates = ipf(estimates, stack_margins(group), MAX_IPF_SWEEPS)
    shares = np.maximum(shares, MIN_UNEXPLAINED_SHARE)
    for i, table in enumerate(group):
        table.independence_estimate = estimates[i]
        table.unexplained_share = shares[i]


def rake_public_tables(group: Sequence[MarginalEstimate], n_public: float) -> None:
    """Set `public` for tables of the same shape to public fractions raked to the estimated margins.

    First, one pseudo-row is added to each table, distributed according to the independence
    estimate. Without it, a cell without public rows would remain empty.
    """
    tables = [
        (n_public * table.public + table.independence_estimate) / (n_public + 1) for table in group
    ]
    raked_tables = ipf(np.stack(tables), stack_margins(group), MAX_IPF_SWEEPS)
    for table, raked in zip(group, raked_tables, strict=True):
        table.public = raked


def set_single_column_priors(
    tables: Sequence[MarginalEstimate], effective_size: float
) -> list[Floats]:
    """Set the prior of each column from the effective public rows and one uniform pseudo-row."""
    ratios = []
    for table in tables:
        table.prior_variance_factor = np.full(table.shape, 1 / (1 + effective_size))
        uniform = table.independence_estimate
        public_weight = 1 - table.prior_variance_factor
        prior = uniform + public_weight * (table.public - uniform)
        table.prior = table.on_possible(np.maximum(prior, MIN_SINGLE_COLUMN_PRIOR))
        with np.errstate(divide="ignore"):  # an unmeasured cell has the precision 0
            ratios.append(1 / (table.prior_variance_factor * table.precisions))
    return ratios


def set_shrunk_priors(tables: Sequence[MarginalEstimate], effective_size: float) -> list[Floats]:
    """Set priors by `shrink_to_margins`, and return the weights of the priors of each table."""
    n_cells = [table.independence_estimate.size for table in tables]
    batch = CellBatch(
        independence_estimate=_concatenated(tables, "independence_estimate"),
        public=_concatenated(tables, "public"),
        unexplained_share=_concatenated(tables, "unexplained_share"),
        values=np.concatenate([(table.public + table.residual()).ravel() for table in tables]),
        precisions=_concatenated(tables, "precisions"),
        residual_noise_share=np.repeat([table.residual_noise_share for table in tables], n_cells),
    )
    boundaries = np.concatenate([[0], np.cumsum(n_cells)])
    priors = shrink_to_margins(batch, boundaries[:-1], effective_size)
    ratios = []
    for table, start, end in zip(tables, boundaries[:-1], boundaries[1:], strict=True):
        mean, variance_factor, ratio = priors[:, start:end].reshape(3, *table.shape)
        table.prior = table.on_possible(mean)
        table.prior_variance_factor = variance_factor
        ratios.append(ratio)
    return ratios


def _concatenated(tables: Sequence[MarginalEstimate], name: str) -> Floats:
    """Concatenate one attribute of all tables' cells into a flat array."""
    return np.concatenate([getattr(table, name).ravel() for table in tables])


def shift_variance_scale(table: MarginalEstimate, n_public: float) -> Floats:
    """Return the variance of the difference between each cell's public and private fractions.

    The result has the shape of the table and is expressed per unit of shift variance. For a
    fraction q in a table of a single column, it is q (1 - q). For wider tables, it is the
    independence estimate times the share of the variance that is not determined by the margins.
    """
    if len(table.columns) > 1:
        return (
            np.maximum(table.independence_estimate, MIN_INDEPENDENCE_ESTIMATE)
            * table.unexplained_share
        )
    fractions = (table.public + np.maximum(table.values, 0)) / 2
    fractions = np.maximum(fractions, table.independence_estimate / (n_public + 1))
    return fractions * np.maximum(1 - fractions, MIN_UNEXPLAINED_SHARE)
