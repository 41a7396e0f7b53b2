"""Allocate the budget to tables by expected variance, from public and released numbers only."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse as sp

from skpublicdp.query_release.marginals.marginal_model import MarginalModel
from skpublicdp.typing import Floats

N_VARIANCE_BINS = 24
"""Number of groups of similar variance into which the cells of a table are binned."""

N_GRADIENT_STEPS = 300


def allocate_budget(model: MarginalModel, precision: float, power: int) -> Floats:
    """Return the share of the budget for each table.

    Parameters
    ----------
    model : MarginalModel
        Solved.
    precision : float
        What all of the budget would buy, spent on one table.
    power : int
        A share buys its power of this precision: 1 of Gaussian noise, 2 of Laplace noise.

    Returns
    -------
    ndarray of shape (n_tables,)
        With sum 1. They go down the gradient of the sum of the expected variances of cells, and
        cells of a table count as often as it is in the workload, itself or as a margin.
    """
    tables = list(model.tables.values())
    places = {table.columns: place for place, table in enumerate(tables)}
    uses = np.zeros(len(tables))
    for columns in model.workload:
        for width in range(1, len(columns) + 1):
            for margin in itertools.combinations(columns, width):
                uses[places[margin]] += 1
    variances, counts, owners, precisions = [], [], [], []
    reach: list[tuple[int, int, float]] = []
    noise = len(tables) ** power / precision
    for place, table in enumerate(tables):
        variance, known = table.prior_variance().ravel(), table.precisions.ravel()
        for part in np.array_split(np.argsort(variance), min(N_VARIANCE_BINS, len(variance))):
            variances.append(variance[part].mean())
            precisions.append(known[part].mean())
            counts.append(len(part) * uses[place])
            owners.append(place)
        reach.append((place, place, 1.0))
        reach += [
            (place, places[o.columns], o.information_share(table, noise))
            for o in table.supermarginals
        ]
    rows, columns_, values = map(np.array, zip(*reach, strict=True))
    reached = sp.csr_matrix((values, (rows, columns_)), shape=(len(tables), len(tables)))
    back = reached.T  # transpose once: doing it in the loop dominates the run time
    variance, known, count = map(np.array, (variances, precisions, counts))
    owner = np.array(owners)
    shares: Floats = np.full(len(tables), 1 / len(tables))
    for _ in range(N_GRADIENT_STEPS):
        bought = precision * shares**power
        left = variance / (1 + variance * (known + (reached @ bought)[owner]))
        gain = np.bincount(owner, count * left**2, minlength=len(tables))
        shares = shares * np.sqrt((back @ gain) * shares ** (power - 1))
        shares /= shares.sum()
    return shares
