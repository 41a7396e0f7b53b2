"""Noisy histogram of regression residuals for prediction intervals, and their noisy variance."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.budget_split import StageBudget
from skpublicdp.boosting.fitted_model import FittedModel
from skpublicdp.boosting.histograms import BOOSTING_PROOF
from skpublicdp.boosting.loss import SquaredLoss
from skpublicdp.boosting.model import MAX_GRADIENT, AdditiveModel
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Floats, Integers

RESIDUAL_SHARE = Fraction(1, 25)
"""Share of the budget for the residual histogram."""

EDGE_DISTANCES = 2.0 ** (np.arange(-32, 1) / 4)
"""Distances of the bin edges from 0. The distances range from 2^-8 to 1, with four edges per
doubling."""

RESIDUAL_EDGES = np.concatenate([-EDGE_DISTANCES[::-1], [0.0], EDGE_DISTANCES])
"""Edges of the residual bins, from -1 to 1. The distances of the edges from 0 form a geometric
sequence, so that the bins are fine enough for any residual variance."""

MIN_RESIDUAL_VARIANCE = 1e-5
"""Lower bound on the estimated residual variance, for outcomes scaled to [0, 1]."""


class ResidualVariance(NamedTuple):
    """Noisy residual variance, in squared units of encoded outcomes."""

    estimate: float  # estimated variance, bounded below by `MIN_RESIDUAL_VARIANCE`
    # upper confidence limit, which is the estimate plus two standard deviations of the noise
    upper: float


def noisy_residual_variance(
    model: AdditiveModel,
    data: BinnedData,
    row_weights: Floats,
    loss: SquaredLoss,
    ledger: Ledger,
    budget: StageBudget,
) -> ResidualVariance:
    """Return a noisy estimate of a model's mean squared residual, with an upper confidence limit.

    The noisy sum of squared gradients is divided by the number of rows and by the mean squared
    gradient scale, which is estimated on the public rows.

    Parameters
    ----------
    model : AdditiveModel
        Current model.
    row_weights : ndarray of float64, shape (m,)
        Weights of the public rows, which sum to 1.
    loss : SquaredLoss
        Loss that defines the gradients and their scale.
    ledger : Ledger
        Ledger that records the privacy loss of the release and draws the noise.
    """

    def sum_squares(chunk: slice) -> Integers:
        """Return the sum of squared gradients over one chunk of rows, shape (1,)."""
        gradients, _ = loss.gradient_hessian(
            model.raw_predict(data.codes(chunk)), data.rows.y[chunk]
        )
        return np.array([(gradients**2).sum()]).astype(np.int64)

    measured = ledger.add_noise(
        data.rows.sum_over_chunks(sum_squares),
        Sensitivity(MAX_GRADIENT**2, MAX_GRADIENT**4),
        budget.event,
        name="noisy sum of squared residuals",
        proof=BOOSTING_PROOF,
    )
    squared_scale = float((loss.scale(model.raw_predict(data.public_codes))[0] ** 2) @ row_weights)
    unit = data.rows.n * (2 * MAX_GRADIENT) ** 2 * squared_scale
    noise = math.sqrt(measured.variance) / unit
    estimate = max(float(measured.values[0]) / unit, MIN_RESIDUAL_VARIANCE)
    return ResidualVariance(min(estimate, 0.25), estimate + 2 * noise)


def noisy_residual_histogram(fitted: FittedModel, ledger: Ledger, budget: StageBudget) -> Integers:
    """Return a noisy histogram of the private rows' residuals (outcome minus prediction).

    Parameters
    ----------
    fitted : FittedModel
        Final model and the private rows.
    ledger : Ledger
        Ledger that records the privacy loss of the release and draws the noise.

    Returns
    -------
    ndarray of int64, shape (len(RESIDUAL_EDGES) - 1,)
        Noisy number of residuals between consecutive `RESIDUAL_EDGES`.
    """
    size = len(RESIDUAL_EDGES) - 1

    def count_chunk(chunk: slice) -> Integers:
        """Return the number of residuals in each bin for a single chunk of rows, shape (size,)."""
        residuals = fitted.data.rows.y[chunk] - fitted.loss.mean(fitted.margins(chunk))[0]
        bins = np.searchsorted(RESIDUAL_EDGES, residuals, side="right") - 1
        return np.bincount(bins.clip(0, size - 1), minlength=size)

    counts = fitted.data.rows.sum_over_chunks(count_chunk)
    # a row that changes bins decreases one count and increases another
    sensitivity, name = Sensitivity(2, 2), "noisy histogram of residuals"
    return ledger.add_noise(
        counts, sensitivity, budget.event, name=name, proof=BOOSTING_PROOF
    ).values


def residual_fractions(counts: Integers, n: int) -> Floats:
    """Return the noisy fractions ``counts / n``, projected onto the probability simplex.

    The Euclidean projection subtracts a threshold from all fractions and clips the results at 0
    (Held, Wolfe and Crowder 1974). Most bins that contain only noise are set to 0.
    """
    fractions = counts / n
    descending = np.sort(fractions)[::-1]
    n_positive = np.arange(1, len(fractions) + 1)
    # threshold at which the largest fractions, reduced by it, sum to 1
    thresholds = (np.cumsum(descending) - 1) / n_positive
    is_reduced = descending > thresholds
    last = np.flatnonzero(is_reduced)[-1]
    return np.maximum(fractions - thresholds[last], 0.0)


def residual_quantiles(fractions: Floats, levels: Floats) -> Floats:
    """Return quantiles of the residuals, given the fraction of residuals in each bin.

    The CDF is interpolated with a monotone cubic spline, because bins can be wide compared with the
    distribution.
    """
    cdf = PchipInterpolator(RESIDUAL_EDGES, np.append(0.0, np.cumsum(fractions)))
    # the CDF is inverted on a fine grid, since the spline has no closed-form inverse
    grid = np.linspace(-1.0, 1.0, 1 << 14)
    return np.interp(levels, cdf(grid), grid)
