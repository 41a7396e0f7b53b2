"""Noisy histograms of outcomes and of residuals: range, variance and intervals of a regression."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.budget_split import CLASS_COUNT_SHARE
from skpublicdp.boosting.fitted_model import FittedModel
from skpublicdp.boosting.histograms import BOOSTING_PROOF, noisy_class_balance
from skpublicdp.boosting.loss import DECLARED_RANGE, OutcomeLoss, OutcomeRange
from skpublicdp.boosting.model import MAX_GRADIENT, AdditiveModel
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.data.outcomes import TARGET_LEVELS
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.privacy.stage_budget import StageBudget
from skpublicdp.typing import Floats, Integers

RESIDUAL_SHARE = Fraction(1, 25)
"""Share of the budget for the residual histogram."""

EDGE_DISTANCES = 2.0 ** (np.arange(-32, 1) / 4)
"""Distances of the bin edges from 0. The distances range from 2^-8 to 1, with four edges per
doubling."""

RESIDUAL_EDGES = np.concatenate([-EDGE_DISTANCES[::-1], [0.0], EDGE_DISTANCES])
"""Edges of the residual bins, from -1 to 1. The distances of the edges from 0 form a geometric
sequence, so that the bins are fine enough for any residual variance."""

MIN_DISPERSION = 1e-5
"""Lower bound on the estimated dispersion of outcomes scaled to [0, 1]."""


class Dispersion(NamedTuple):
    """Noisy dispersion of outcomes, which is the residual variance of the squared error."""

    estimate: float  # estimate, bounded below by `MIN_DISPERSION`
    # upper confidence limit, which is the estimate plus two standard deviations of the noise
    upper: float


def noisy_dispersion(
    model: AdditiveModel,
    data: BinnedData,
    row_weights: Floats,  # (m,)
    loss: OutcomeLoss,
    ledger: Ledger,
    budget: StageBudget,
) -> Dispersion:
    """Return a noisy estimate of the dispersion of outcomes, with an upper confidence limit.

    The noisy sum of squared gradients is divided by the number of rows and by the expected square
    of a gradient for a dispersion of 1, which is estimated on the public rows.
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
    margins = model.raw_predict(data.public_codes)
    squares = loss.scale(margins)[0] ** 2 * loss.unit_variance(margins)[0]
    unit = data.rows.n * (2 * MAX_GRADIENT) ** 2 * float(squares @ row_weights)
    noise = math.sqrt(measured.variance) / unit
    estimate = max(float(measured.values[0]) / unit, MIN_DISPERSION)
    return Dispersion(min(estimate, loss.max_dispersion), estimate + 2 * noise)


def noisy_residual_histogram(fitted: FittedModel, ledger: Ledger, budget: StageBudget) -> Integers:
    """Return a noisy histogram of the private rows' residuals (outcome minus prediction).

    The bins lie between consecutive `RESIDUAL_EDGES`.
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


N_OUTCOME_BINS = 32
"""Number of outcome bins between the declared bounds."""

MAX_COUNT_NOISE = 1 / 32
"""Maximum standard deviation of the noise in a count, as a fraction of the number of rows. If the
noise is larger, no histogram is released and the declared bounds are used as the range."""

MAX_OUTCOME_SHARE, MAX_MEAN_SHARE = Fraction(1, 6), Fraction(1, 2)
"""Maximum share of the budget for the outcome histogram, and for the outcome sum. Without an
accurate mean, a model predicts worse than the mean of all outcomes."""

MAX_MEAN_NOISE = 1 / 20
"""Standard deviation of the noise in the mean outcome, relative to the declared bounds, below which
no more budget is spent on it."""

MEAN_DEVIATION = 0.2
"""Prior standard deviation of the mean outcome around the middle of the declared bounds."""

PUBLIC_MEAN_DEVIATION = 0.1
"""Prior standard deviation of the difference of the mean outcomes of private and public rows."""

TAIL_FRACTION = 0.1
"""Fraction of the outcomes that lies below the lower quantile, and above the upper quantile, from
which the range is computed."""

EXTENSION = 0.28
"""Extension of the range beyond these quantiles, as a multiple of the distance between the
quantiles. For a normal distribution, the resulting range extends to two standard deviations from
the mean."""


def restrict_outcomes(training: TrainingData, outcome_range: OutcomeRange) -> TrainingData:
    """Return the training data with all outcomes encoded relative to a range.

    Labels, and outcomes whose range is that of the declared bounds, are not changed.
    """
    if outcome_range.low == 0 and outcome_range.high == 1:
        return training
    labels = training.public_labels
    if labels is not None:
        labels = replace(labels, outcomes=outcome_range.encode(labels.outcomes))
    rows = training.rows.with_targets(outcome_range.encode)
    return replace(training, rows=rows, public_labels=labels)


def noisy_start(
    training: TrainingData, ledger: Ledger, budget: StageBudget
) -> tuple[OutcomeRange, float, Fraction]:
    """Release the class balance of labels, or the range of most outcomes.

    Return the range (that of the declared bounds for labels), the class balance between 0 and 1,
    and the share of the budget that was spent.
    """
    if training.classes is None:
        outcome_range, share = noisy_outcome_range(training, ledger, budget)
        return outcome_range, outcome_range.balance, share
    share = CLASS_COUNT_SHARE
    balance = noisy_class_balance(training, ledger, budget.fraction(share))
    return DECLARED_RANGE, balance, share


def noisy_outcome_range(
    training: TrainingData, ledger: Ledger, budget: StageBudget
) -> tuple[OutcomeRange, Fraction]:
    """Release a noisy histogram of outcomes, and return their mean and the range of most outcomes.

    If the histogram is too expensive, a noisy sum of the outcomes is released instead, and the
    declared bounds are used as the range. Return the range and the share of the budget that was
    spent.
    """

    # share of the budget, as a function of public numbers, at which the noise is acceptable
    def needed_share(change: int, max_noise: float) -> Fraction:
        """Return the share of the budget at which the relative noise of sums is acceptable."""
        sensitivity = ledger.for_person(Sensitivity(change, change))
        deviation = math.sqrt(budget.variance(sensitivity))
        relative_noise = deviation / (training.rows.n * max_noise)
        # the noise is proportional to 1 / ε or to 1 / μ
        exact_share = relative_noise if budget.pure else relative_noise**2
        return Fraction(math.ceil(1000 * exact_share), 1000)

    share = max(needed_share(2, MAX_COUNT_NOISE), CLASS_COUNT_SHARE)
    if share > MAX_OUTCOME_SHARE:
        share = min(needed_share(1, MAX_MEAN_NOISE), MAX_MEAN_SHARE)
        mean, variance = _noisy_mean(training, ledger, budget.fraction(share))
        return OutcomeRange(mean=mean, mean_variance=variance), share
    fractions = _noisy_fractions(training, ledger, budget.fraction(share))
    edges = np.linspace(0.0, 1.0, N_OUTCOME_BINS + 1)
    cdf = np.append(0.0, np.cumsum(fractions))  # at the edges
    levels = [TAIL_FRACTION, 1 - TAIL_FRACTION]
    lower, upper = np.interp(levels, cdf, edges)
    extension = EXTENSION * (upper - lower)
    min_outcome = max(lower - extension, 0.0)
    max_outcome = min(upper + extension, 1.0)
    low = math.floor(TARGET_LEVELS * min_outcome) / TARGET_LEVELS
    high = math.ceil(TARGET_LEVELS * max_outcome) / TARGET_LEVELS
    centres = (edges[:-1] + edges[1:]) / 2
    clipped_centres = np.clip(centres, low, high)
    mean = float(fractions @ clipped_centres)
    return OutcomeRange(low, high, mean), share


def _noisy_fractions(training: TrainingData, ledger: Ledger, budget: StageBudget) -> Floats:
    """Spend a budget on an outcome histogram, and return the fraction of rows in each bin."""
    rows = training.rows

    def count_chunk(chunk: slice) -> Integers:
        """Return the number of outcomes in each bin for a single chunk of rows."""
        bins = np.minimum(np.floor(N_OUTCOME_BINS * rows.y[chunk]), N_OUTCOME_BINS - 1)
        return np.bincount(bins.astype(np.intp), minlength=N_OUTCOME_BINS)

    counts = ledger.add_noise(
        rows.sum_over_chunks(count_chunk),
        Sensitivity(2, 2),  # one count decreases by 1 and another count increases by 1
        budget.event,
        name="noisy histogram of the outcomes",
        proof=BOOSTING_PROOF,
    ).values
    return residual_fractions(counts, rows.n)


def _noisy_mean(training: TrainingData, ledger: Ledger, budget: StageBudget) -> tuple[float, float]:
    """Spend a budget on the sum of the outcomes, and return the posterior mean and its variance.

    The prior of the mean is centred at the middle of the bounds, or at the public outcomes.
    """
    rows = training.rows
    prior_mean, prior_variance = 0.5, MEAN_DEVIATION**2
    if training.public_labels is not None:
        outcomes = training.public_labels.outcomes[0]
        prior_mean = float(outcomes.mean())
        prior_variance = PUBLIC_MEAN_DEVIATION**2 + MEAN_DEVIATION**2 / len(outcomes)

    def sum_chunk(chunk: slice) -> Integers:
        """Return the sum of the outcomes in one chunk of rows, in units of 1 / TARGET_LEVELS."""
        return np.array([np.rint(TARGET_LEVELS * rows.y[chunk]).sum(dtype=np.int64)])

    measured = ledger.add_noise(
        rows.sum_over_chunks(sum_chunk),
        Sensitivity(TARGET_LEVELS, TARGET_LEVELS**2),
        budget.event,
        name="noisy sum of the outcomes",
        proof=BOOSTING_PROOF,
    )
    unit = TARGET_LEVELS * rows.n
    noise_variance = measured.variance / unit**2
    gain = prior_variance / (prior_variance + noise_variance)
    mean = prior_mean + gain * (float(measured.values[0]) / unit - prior_mean)
    margin = min(3 / rows.n, 0.5)
    return float(np.clip(mean, margin, 1 - margin)), gain * noise_variance
