"""What a model of outcomes leaves unexplained: how much in all, and how often how far."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.interpolate import PchipInterpolator

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.budget_split import StageBudget
from skpublicdp.boosting.histograms import PROOF
from skpublicdp.boosting.loss import Loss
from skpublicdp.boosting.model import MAX_GRADIENT, AdditiveModel
from skpublicdp.ledger import Ledger
from skpublicdp.typing import Floats, Integers

RESIDUAL_SHARE = Fraction(1, 25)
"""Share of the budget for the counts of residuals."""

EDGE_DISTANCES = 2.0 ** (np.arange(-32, 1) / 4)
RESIDUAL_EDGES = np.concatenate([-EDGE_DISTANCES[::-1], [0.0], EDGE_DISTANCES])
"""Ends of the bins of residuals, from -1 to 1: whatever their scale is, some bins suit it."""

MIN_RESIDUAL_VARIANCE = 1e-4
"""Residuals vary no less beside their slopes, whatever noise says."""


def residual_variance(
    model: AdditiveModel,
    cells: BinnedData,
    row_weights: Floats,
    loss: Loss,
    ledger: Ledger,
    budget: StageBudget,
) -> float:
    """Release the sum of squared residuals; return it over that of slopes among public rows."""

    def squared(at: slice) -> Integers:
        residuals, _ = loss.gradient_hessian(model.raw_predict(cells.codes(at)), cells.rows.y[at])
        return np.array([(residuals**2).sum()]).astype(np.int64)

    squares = ledger.add_noise(
        cells.rows.sum_over_chunks(squared),
        Sensitivity(MAX_GRADIENT**2, MAX_GRADIENT**4),
        budget.event,
        name="noisy sum of squared residuals",
        proof=PROOF,
    ).values[0]
    _, slopes = loss.gradient_hessian(model.raw_predict(cells.public_codes))
    expected = cells.rows.n * float((slopes @ row_weights).sum()) * 2 * MAX_GRADIENT
    return float(np.clip(squares / expected, MIN_RESIDUAL_VARIANCE, 1.0))


def noisy_residual_histogram(
    model: AdditiveModel, cells: BinnedData, loss: Loss, ledger: Ledger, budget: StageBudget
) -> Integers:
    """Release how many outcomes lie how far from what is predicted, from -1 to 1.

    Returns
    -------
    ndarray of int64, shape (len(RESIDUAL_EDGES) - 1,)
        Noisy counts.
    """
    size = len(RESIDUAL_EDGES) - 1

    def counted(at: slice) -> Integers:
        left = cells.rows.y[at] - loss.mean(model.raw_predict(cells.codes(at)))[0]
        bins = np.searchsorted(RESIDUAL_EDGES, left, side="right") - 1
        return np.bincount(bins.clip(0, size - 1), minlength=size)

    counts = cells.rows.sum_over_chunks(counted)
    # a row that moves is missing in one bin and counts in another one
    moved, name = Sensitivity(2, 2), "noisy counts of residuals"
    return ledger.add_noise(counts, moved, budget.event, name=name, proof=PROOF).values


def residual_fractions(counts: Integers, n: int) -> Floats:
    """Return the nearest shares of `n` residuals that are no less than 0 and add up to 1.

    Where counts are nothing but noise most of these are 0.
    """
    shares = counts / n
    ranked = np.sort(shares)[::-1]
    excess = (np.cumsum(ranked) - 1) / np.arange(1, len(ranked) + 1)
    lowered = excess[np.flatnonzero(ranked > excess)[-1]]
    nearest: Floats = np.maximum(shares - lowered, 0.0)
    return nearest


def residual_quantiles(shares: Floats, levels: Floats) -> Floats:
    """Return how far from what is predicted given shares of outcomes lie at most."""
    # smooth within bins, which are not much narrower than what they hold
    below = PchipInterpolator(RESIDUAL_EDGES, np.append(0.0, np.cumsum(shares)))
    places = np.linspace(-1.0, 1.0, 1 << 14)
    found: Floats = np.interp(levels, below(places), places)
    return found
