"""Posterior of the scale of deviations from the margins, under a hierarchical prior.

A cell with independence estimate b and fraction q deviates from b with variance g √b q, where g is
the scale of the cell. The empirical Bayes mixture over g in `shrink_to_margins` is overconfident:
if noise hides deviations, the estimate of g tends to 0. Therefore intervals integrate over g. The
prior on scales has three levels. The logarithm of g is normal around log G, where G is the scale of
the cell's table, and log G is normal around log S, where S is the scale of the population. A point
mass at 0 represents populations in which the margins determine all tables.
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
from skpublicdp.typing import Codes, Floats

MIN_SCALE = 1e-9
"""Positive scale that replaces a scale of 0 in logarithms and denominators."""

LOG_SCALE_GRID = np.log(np.maximum(SHIFT_VARIANCE_GRID, MIN_SCALE))
"""Grid of values of log g, the first of which represents g = 0."""

MEDIAN_SCALES = {2: 8e-3, 3: 1e-4}
"""Prior median of S by number of columns (3 means 3 or more), estimated by maximum likelihood on
ten public tables: adult, two ACS regions, churn, TV16, CPS, lending, MplsStops, covid and
HealthInsurance."""

POPULATION_DEVIATION, TABLE_DEVIATION, CELL_DEVIATION = 2.0, 1.4, 1.4
"""Standard deviations of log S, of log G given S, and of log g given G, estimated by maximum
likelihood on the same tables. The estimate for G is 2.0, but 1.4 gives better coverage of
intervals."""

NO_DEVIATIONS_PROBABILITY = 0.03
"""Prior probability that the margins of a population determine all tables."""

TEMPERATURE = 0.25
"""Exponent of the likelihood of a table (power likelihood). The cells share margins and rows with
other tables and are therefore not independent evidence. The exponent was chosen based on
coverage."""

PRIOR_SHARE = 0.5
"""Weight of the prior when the posterior of G is computed for an unmeasured table, since the
likelihood of a few raked public rows overstates how informative they are. The weight was chosen
based on the coverage of unmeasured tables. benchmarks/ablate.py reports the cost in terms of the
interval score."""

MIN_EVIDENCE = 1e-290
"""Lower bound on a likelihood, which keeps logarithms finite."""


def _transition_matrix(deviation: float) -> Floats:
    """Return the conditional distribution of a scale, given the scale one level above."""
    density = np.exp(-0.5 * ((LOG_SCALE_GRID[:, None] - LOG_SCALE_GRID) / deviation) ** 2)
    # index 0 is the scale 0, which is reached only from the scale 0
    density[0], density[:, 0] = 0, 0
    density[0, 0] = 1
    return density / density.sum(axis=0)


def _population_prior(n_columns: int) -> Floats:
    """Return prior probabilities of the population's scale S, shape (n_scales,).

    The prior is log-normal on the grid with a point mass at 0, and depends on the number of columns
    of the tables.
    """
    median = MEDIAN_SCALES[min(n_columns, max(MEDIAN_SCALES))]
    prior: Floats = np.exp(-0.5 * ((LOG_SCALE_GRID - np.log(median)) / POPULATION_DEVIATION) ** 2)
    prior[0] = 0
    prior *= (1 - NO_DEVIATIONS_PROBABILITY) / prior.sum()
    prior[0] = NO_DEVIATIONS_PROBABILITY
    return prior


def table_scales(
    cells: CellBatch, starts: NDArray[np.integer], effective_size: float, n_columns: int
) -> Floats:
    """Return the posterior of the scale G for each table, given the measurements of all tables.

    Parameters
    ----------
    cells : CellBatch
        Cells of all tables with `n_columns` columns, with positive independence estimates.
    starts : ndarray of int, shape (n_tables,)
        Index of the first cell of each table.
    effective_size : float
        Effective size of the public sample, in private rows.
    n_columns : int
        Number of columns of each table, at least 2.

    Returns
    -------
    ndarray of shape (n_scales, n_tables)
        Posterior probabilities of the scales in `LOG_SCALE_GRID`.
    """
    n_cells, n_tables = len(cells.independence_estimate), len(starts)
    table_of_cell = np.searchsorted(starts, np.arange(n_cells), side="right") - 1
    log_evidence = _table_log_evidence(cells, table_of_cell, n_tables, effective_size)
    population_prior = _population_prior(n_columns)
    table_given_population = _transition_matrix(TABLE_DEVIATION)
    # Bayes' theorem for S, given all tables, and then for G of each table, given S
    with np.errstate(divide="ignore"):
        # axes: scale G of the table, scale S of the population, table
        log_joint = log_evidence[:, None, :] + np.log(table_given_population)[:, :, None]
        log_prior = np.log(population_prior)
    log_evidence_given_population = logsumexp(log_joint, axis=0)  # (n_scales, n_tables)
    log_population = log_prior + log_evidence_given_population.sum(axis=1)
    log_population -= logsumexp(log_population)
    log_table_given_population = log_joint - log_evidence_given_population
    posterior: Floats = np.exp(
        logsumexp(log_table_given_population + log_population[:, None], axis=1)
    )
    # unmeasured tables have only public rows; see `PRIOR_SHARE`
    is_unmeasured = np.bincount(table_of_cell, cells.precisions > 0, n_tables) == 0
    table_prior = table_given_population @ population_prior
    posterior[:, is_unmeasured] *= 1 - PRIOR_SHARE
    posterior[:, is_unmeasured] += PRIOR_SHARE * table_prior[:, None]
    return posterior


def _table_log_evidence(
    cells: CellBatch, table_of_cell: Codes, n_tables: int, effective_size: float
) -> Floats:
    """Return the log marginal likelihood of each table for each value of its scale G.

    The scale g of each cell is integrated out, and the likelihood has the exponent `TEMPERATURE`.
    Each cell is weighted by the share of the noise that remains after removing the effects of the
    margins.

    Parameters
    ----------
    cells, effective_size
        As in `table_scales`.
    table_of_cell : ndarray of int, shape (n_cells,)
        Index of the table that contains each cell.
    n_tables : int
        Number of tables.

    Returns
    -------
    ndarray of shape (n_scales, n_tables)
    """
    cell_given_table = _transition_matrix(CELL_DEVIATION)
    log_evidence = np.zeros((len(SHIFT_VARIANCE_GRID), n_tables))
    for start in range(0, len(table_of_cell), MAX_TRAINING_CELLS):
        block = slice(start, start + MAX_TRAINING_CELLS)
        log_likelihoods = log_likelihood(cells.select(block), effective_size)
        likelihood = np.exp(log_likelihoods - log_likelihoods.max(axis=0))
        log_marginal = np.log(np.maximum(cell_given_table.T @ likelihood, MIN_EVIDENCE))
        weighted = TEMPERATURE * cells.residual_noise_share[block] * log_marginal
        for scale, log_evidence_of_cells in enumerate(weighted):
            log_evidence[scale] += np.bincount(
                table_of_cell[block], log_evidence_of_cells, n_tables
            )
    return log_evidence


def cell_scales(cells: CellBatch, effective_size: float, scales: Floats) -> Floats:
    """Return the posterior of the scale g for each cell of a table."""
    log_likelihoods = log_likelihood(cells, effective_size)
    likelihood = np.exp(log_likelihoods - log_likelihoods.max(axis=0))
    cell_given_table = _transition_matrix(CELL_DEVIATION)
    evidence = np.maximum(cell_given_table.T @ likelihood, MIN_EVIDENCE)
    # for each g: sum over G of P(g | G) P(G) / evidence(G), times the likelihood of g
    joint = (cell_given_table @ (scales[:, None] / evidence)) * likelihood
    return joint / joint.sum(axis=0)
