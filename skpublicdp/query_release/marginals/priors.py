"""Priors of marginal tables: independence estimates, raked public tables, and shrinkage.

All functions change attributes of the `MarginalEstimate` objects that they get.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skpublicdp.query_release.marginals.ipf import MAX_IPF_SWEEPS, ipf
from skpublicdp.query_release.marginals.shrinkage import (
    MIN_INDEPENDENCE_ESTIMATE,
    CellBatch,
    shrink_to_margins,
)
from skpublicdp.query_release.marginals.table import (
    MIN_UNEXPLAINED_SHARE,
    MarginalEstimate,
    stack_margins,
)
from skpublicdp.typing import Floats

MIN_SINGLE_COLUMN_PRIOR = 1e-9
"""Lower bound of the prior fraction of a cell of a single column."""


def set_independence_estimates(group: Sequence[MarginalEstimate]) -> None:
    """Set `independence_estimate` and `unexplained_share` of tables of one shape.

    The independence estimate is the maximum entropy table with the given margins. For two columns
    it is the product of the margins. The unexplained share of a cell is the product of 1 - q over
    its one-way margins q.
    """
    n_columns = len(group[0].columns)
    shape = (len(group), *group[0].shape)
    if n_columns == 1:
        estimates, shares = np.full(shape, 1 / shape[1]), np.full(shape, 1 - 1 / shape[1])
    else:
        estimates, shares = np.ones(shape), np.ones(shape)
        for axis in range(n_columns):
            one_way = np.stack([_one_way_margin(table, axis) for table in group])
            estimates, shares = estimates * one_way, shares * (1 - one_way)
        if n_columns > 2:
            estimates = ipf(np.ones(shape), stack_margins(group), MAX_IPF_SWEEPS)
    for i, table in enumerate(group):
        table.independence_estimate = estimates[i]
        table.unexplained_share = np.maximum(shares[i], MIN_UNEXPLAINED_SHARE)


def _one_way_margin(table: MarginalEstimate, axis: int) -> Floats:
    """Return the estimate of one column of a table, in a shape that broadcasts over the table."""
    margin = table.submarginals[axis]  # the first margins are the single columns, in order
    return margin.estimate.reshape(table.broadcast_shape(margin))


def rake_public_tables(group: Sequence[MarginalEstimate], n_public: float) -> None:
    """Set `public` of tables of one shape to the public fractions, raked to the estimated margins.

    One pseudo-row is added to each table first, spread like its independence estimate. A cell
    without public rows would otherwise remain empty.
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
    """Set the priors of single columns: effective public rows and one pseudo-row, spread evenly.

    Parameters
    ----------
    tables : sequence of MarginalEstimate
        Tables of one column each.
    effective_size : float
        Effective public sample size, in private rows.

    Returns
    -------
    list of ndarray
        Weight of the prior of each cell relative to its measurement. It is infinite for an
        unmeasured cell.
    """
    ratios = []
    for table in tables:
        table.prior_variance_factor = np.full(table.shape, 1 / (1 + effective_size))
        uniform = table.independence_estimate
        public_weight = 1 - table.prior_variance_factor
        prior = uniform + public_weight * (table.public - uniform)
        table.prior = np.maximum(prior, MIN_SINGLE_COLUMN_PRIOR)
        with np.errstate(divide="ignore"):  # an unmeasured cell has the precision 0
            ratios.append(1 / (table.prior_variance_factor * table.precisions))
    return ratios


def set_shrunk_priors(tables: Sequence[MarginalEstimate], effective_size: float) -> list[Floats]:
    """Set the priors of tables by empirical Bayes shrinkage to their independence estimates.

    See `shrink_to_margins`.

    Parameters
    ----------
    tables : sequence of MarginalEstimate
        All tables with one number of columns, at least 2.
    effective_size : float
        Effective public sample size, in private rows.

    Returns
    -------
    list of ndarray
        Weight of the prior of each cell relative to its measurement. It is infinite for an
        unmeasured cell.
    """
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
    shrunk = shrink_to_margins(batch, boundaries[:-1], effective_size)
    ratios = []
    for table, start, end in zip(tables, boundaries[:-1], boundaries[1:], strict=True):
        table.prior = shrunk.mean[start:end].reshape(table.shape)
        table.prior_variance_factor = shrunk.variance_factor[start:end].reshape(table.shape)
        ratios.append(shrunk.ratio[start:end].reshape(table.shape))
    return ratios


def _concatenated(tables: Sequence[MarginalEstimate], name: str) -> Floats:
    """Return one attribute of the cells of all tables as a flat array, table after table."""
    return np.concatenate([getattr(table, name).ravel() for table in tables])


def shift_variance_scale(table: MarginalEstimate, n_public: float) -> Floats:
    """Return the variance of the difference between public and private fractions of each cell.

    It is divided by the shift variance and has the shape of the table. For the fraction q of a
    single column it is q (1 - q). Otherwise it is the independence estimate times the share of the
    variance that margins do not determine.
    """
    if len(table.columns) > 1:
        return (
            np.maximum(table.independence_estimate, MIN_INDEPENDENCE_ESTIMATE)
            * table.unexplained_share
        )
    fractions = (table.public + np.maximum(table.values, 0)) / 2
    fractions = np.maximum(fractions, table.independence_estimate / (n_public + 1))
    return fractions * np.maximum(1 - fractions, MIN_UNEXPLAINED_SHARE)
