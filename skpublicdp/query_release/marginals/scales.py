"""Posterior of the scale of deviations of each table, under a hierarchical prior.

A cell with independence estimate b deviates from it with variance g √b per unit of the fraction.
`shrink_to_margins` estimates a mixture over g by empirical Bayes, which is overconfident: where
noise hides deviations, the estimate of g tends to 0. Intervals therefore integrate over g.
Its logarithm is normal around the scale G of its table, whose logarithm is normal around the scale
S of the population. A point mass at 0 stands for populations whose margins determine all tables.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from skpublicdp.query_release.effective_sizes import SHIFT_VARIANCE_GRID
from skpublicdp.query_release.marginals.shrinkage import (
    MAX_TRAINING_CELLS,
    CellBatch,
    log_likelihood,
)
from skpublicdp.typing import Floats

LOG_SCALE_GRID = np.log(np.maximum(SHIFT_VARIANCE_GRID, 1e-9))
"""Grid of log g. The first value stands for g = 0, which is a state of its own."""

MEDIAN_SCALES = {2: 8e-3, 3: 1e-4}
"""Prior median of S for tables of two columns and of more. Maximum likelihood on ten public tables:
adult, two ACS regions, churn, TV16, CPS, lending, MplsStops, covid and HealthInsurance."""

POPULATION_SPREAD, TABLE_SPREAD, CELL_SPREAD = 2.0, 1.4, 1.4
"""Standard deviations of log S, of log G given S, and of log g given G. Maximum likelihood on the
same tables, except that tables fit 2.0 and intervals cover better with 1.4."""

NO_DEVIATIONS = 0.03
"""Prior probability that the margins of a population determine all tables."""

TEMPERATURE = 0.25
"""Exponent of the likelihood of a table (a power likelihood): its cells have margins and rows in
common with other tables and are not independent evidence. Chosen by coverage."""

PRIOR_SHARE = 0.5
"""Weight of the prior in the posterior of G of an unmeasured table. The likelihood of a few raked
public rows overstates their information. Chosen by coverage of unmeasured tables. Its cost in
interval score is in benchmarks/ablate.py."""

MIN_EVIDENCE = 1e-290
"""Lower bound of a likelihood, which keeps logarithms finite."""


def _kernel(deviation: float) -> Floats:
    """Return p(log g | log G) on the grid, shape (n_g, n_G); g is 0 if and only if G is."""
    kernel = np.exp(-0.5 * ((LOG_SCALE_GRID[:, None] - LOG_SCALE_GRID) / deviation) ** 2)
    kernel[0], kernel[:, 0], kernel[0, 0] = 0, 0, 1
    normalised: Floats = kernel / kernel.sum(axis=0)
    return normalised


def _population_prior(n_columns: int) -> Floats:
    """Return the prior of S for tables of so many columns."""
    median = MEDIAN_SCALES[min(n_columns, max(MEDIAN_SCALES))]
    prior: Floats = np.exp(-0.5 * ((LOG_SCALE_GRID - np.log(median)) / POPULATION_SPREAD) ** 2)
    prior[0] = 0
    prior *= (1 - NO_DEVIATIONS) / prior.sum()
    prior[0] = NO_DEVIATIONS
    return prior


def table_scales(
    cells: CellBatch, starts: NDArray[np.integer], effective_size: float, n_columns: int
) -> Floats:
    """Return the posterior of the scale G of each table.

    Parameters
    ----------
    cells : CellBatch
        The cells of all tables of one number of columns, with positive independence estimates.
    starts : ndarray of int, shape (n_tables,)
        Where the tables begin.
    effective_size : float
        Effective public sample size, in private rows.
    n_columns : int
        Columns of each table, at least 2.

    Returns
    -------
    ndarray of shape (n_scales, n_tables)
        Probabilities.
    """
    n_cells, n_tables = len(cells.independence_estimate), len(starts)
    table_of_cell = np.searchsorted(starts, np.arange(n_cells), side="right") - 1
    of_cells, of_tables = _kernel(CELL_SPREAD), _kernel(TABLE_SPREAD)
    evidence = np.zeros((len(SHIFT_VARIANCE_GRID), n_tables))
    for start in range(0, n_cells, MAX_TRAINING_CELLS):
        block = slice(start, start + MAX_TRAINING_CELLS)
        logs = log_likelihood(cells.at(block), effective_size)
        marginal = np.log(np.maximum(of_cells.T @ np.exp(logs - logs.max(axis=0)), MIN_EVIDENCE))
        for scale, log_evidence in enumerate(
            TEMPERATURE * cells.residual_noise_share[block] * marginal
        ):
            evidence[scale] += np.bincount(table_of_cell[block], log_evidence, n_tables)
    prior = _population_prior(n_columns)
    with np.errstate(divide="ignore"):
        joint = evidence[:, None, :] + np.log(of_tables)[:, :, None]  # G, S, table
        log_prior = np.log(prior)
    of_population = logsumexp(joint, axis=0)
    population = log_prior + of_population.sum(axis=1)
    population -= logsumexp(population)
    posterior: Floats = np.exp(logsumexp(joint - of_population + population[:, None], axis=1))
    unmeasured = np.bincount(table_of_cell, cells.precisions > 0, n_tables) == 0
    posterior[:, unmeasured] *= 1 - PRIOR_SHARE
    posterior[:, unmeasured] += PRIOR_SHARE * (of_tables @ prior)[:, None]
    return posterior


def cell_scales(cells: CellBatch, effective_size: float, scales: Floats) -> Floats:
    """Return the posterior of g of each cell of a table, shape (n_scales, n_cells).

    Parameters
    ----------
    cells : CellBatch
        Cells of one table, with positive independence estimates.
    effective_size : float
        As in `table_scales`.
    scales : ndarray of shape (n_scales,)
        The posterior of the scale of the table.
    """
    logs = log_likelihood(cells, effective_size)
    likelihood = np.exp(logs - logs.max(axis=0))
    kernel = _kernel(CELL_SPREAD)
    evidence = np.maximum(kernel.T @ likelihood, MIN_EVIDENCE)
    joint = (kernel @ (scales[:, None] / evidence)) * likelihood
    posterior: Floats = joint / joint.sum(axis=0)
    return posterior
