"""Allocation of the privacy budget to marginal tables that minimises the sum of variances."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from skpublicdp.query_release.marginals.count import Attributes
from skpublicdp.query_release.marginals.marginal_model import MarginalModel
from skpublicdp.query_release.marginals.table import MarginalEstimate
from skpublicdp.typing import Codes, Floats

N_VARIANCE_BINS = 24
"""Number of groups into which the cells of each table are binned by prior variance."""

N_GRADIENT_STEPS = 300
"""Number of multiplicative gradient steps that update the shares."""


def allocate_budget(model: MarginalModel, precision: float, power: int) -> Floats:
    """Return each table's share of the budget, computed by multiplicative gradient descent.

    The objective is the sum of the expected posterior variances of all cells. The cells of each
    table are weighted by the number of workload marginals that contain the table. The objective
    depends only on public and released numbers.

    Parameters
    ----------
    model : MarginalModel
        The model, fitted to the measurements of the first round.
    precision : float
        Inverse noise variance of each cell of a table that receives the entire budget.
    power : int
        Exponent of the precision: a table that receives the share s has s**power times the
        precision given by the entire budget. The exponent is 1 for Gaussian noise and 2 for Laplace
        noise.

    Returns
    -------
    ndarray of shape (n_tables,)
        The shares, which sum to 1.
    """
    tables = list(model.tables.values())
    n_tables = len(tables)
    cells = _bin_cells(tables, _count_uses(model))
    # start with equal shares, and compute projection weights for the corresponding noise
    transfer = _transfer_matrix(tables, noise=n_tables**power / precision)
    transposed = transfer.T  # a transposition in the loop would dominate the run time
    shares: Floats = np.full(n_tables, 1 / n_tables)
    for _ in range(N_GRADIENT_STEPS):
        table_precision = precision * shares**power
        cell_precision = cells.precision + (transfer @ table_precision)[cells.table_index]
        posterior_variance = cells.variance / (1 + cells.variance * cell_precision)
        # a cell's variance falls by its square per unit of precision of its table
        table_gain = np.bincount(
            cells.table_index, cells.weight * posterior_variance**2, minlength=n_tables
        )
        # negative derivative with respect to each share, up to a factor; equal for all tables at
        # the optimum
        share_gain = (transposed @ table_gain) * shares ** (power - 1)
        shares = shares * np.sqrt(share_gain)
        shares /= shares.sum()
    return shares


def _count_uses(model: MarginalModel) -> dict[Attributes, int]:
    """Return the number of workload marginals that contain each table, by columns."""
    n_uses = dict.fromkeys(model.tables, 0)
    for columns in model.workload:
        for width in range(1, len(columns) + 1):
            for margin in itertools.combinations(columns, width):
                n_uses[margin] += 1
    return n_uses


class _CellBins(NamedTuple):
    """Bins of cells of one table with similar prior variances, as arrays of shape (n_bins,)."""

    # mean prior variance of the cells, and mean precision of the measurements so far
    variance: Floats
    precision: Floats
    weight: Floats  # number of cells times the number of marginals that contain the table
    table_index: Codes


def _bin_cells(tables: Sequence[MarginalEstimate], n_uses: dict[Attributes, int]) -> _CellBins:
    """Group the cells of each table by prior variance into bins of nearly equal size.

    Optimising over bins rather than cells saves time.
    """
    variances, precisions, weights, table_indices = [], [], [], []
    for i, table in enumerate(tables):
        variance = table.prior_variance().ravel()
        precision = table.precisions.ravel()
        increasing = np.argsort(variance, kind="stable")
        n_bins = min(N_VARIANCE_BINS, len(variance))
        for cells in np.array_split(increasing, n_bins):
            variances.append(variance[cells].mean())
            precisions.append(precision[cells].mean())
            weights.append(float(len(cells) * n_uses[table.columns]))
            table_indices.append(i)
    return _CellBins(
        variance=np.array(variances),
        precision=np.array(precisions),
        weight=np.array(weights),
        table_index=np.array(table_indices),
    )


def _transfer_matrix(tables: Sequence[MarginalEstimate], noise: float) -> sp.csr_matrix:
    """Return the precision with which a measurement of one table also measures its margins."""
    index_of = {table.columns: i for i, table in enumerate(tables)}
    matrix = sp.lil_matrix((len(tables), len(tables)))
    for i, table in enumerate(tables):
        matrix[i, i] = 1.0
        for wider in table.supermarginals:
            matrix[i, index_of[wider.columns]] = wider.information_share(table, noise)
    return matrix.tocsr()
