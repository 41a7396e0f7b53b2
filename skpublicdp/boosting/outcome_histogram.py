"""Noisy histogram of regression outcomes, and the range of most outcomes.

Declared bounds are often several times wider apart than most outcomes, and the noise is
proportional to the distance between the bounds. The additive fit therefore has less noise if it
uses the range of most outcomes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.budget_split import CLASS_COUNT_SHARE, StageBudget
from skpublicdp.boosting.histograms import BOOSTING_PROOF
from skpublicdp.boosting.model import TARGET_LEVELS
from skpublicdp.boosting.outcome_range import OutcomeRange
from skpublicdp.boosting.residual_histogram import residual_fractions
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Floats, Integers

N_OUTCOME_BINS = 32
"""Number of outcome bins between the declared bounds."""

MAX_COUNT_NOISE = 1 / 32
"""Maximum standard deviation of the noise in a count, as a fraction of the number of rows. If the
noise is larger, no histogram is released and the declared bounds are used as the range."""

MAX_OUTCOME_SHARE = Fraction(1, 6)
"""Maximum share of the budget for the outcome histogram or the outcome sum."""

TAIL_FRACTION = 0.1
"""Fraction of the outcomes that lies below the lower quantile, and above the upper quantile, from
which the range is computed."""

EXTENSION = 0.28
"""Extension of the range beyond these quantiles, as a multiple of the distance between the
quantiles. For a normal distribution, the resulting range extends to two standard deviations from
the mean."""


def restrict_outcomes(training: TrainingData, outcome_range: OutcomeRange) -> TrainingData:
    """Return the training data with all outcomes encoded relative to a range."""
    labels = training.public_labels
    if labels is not None:
        labels = replace(labels, outcomes=outcome_range.encode(labels.outcomes))
    rows = training.rows.with_targets(outcome_range.encode)
    return replace(training, rows=rows, public_labels=labels)


def noisy_outcome_range(
    training: TrainingData, ledger: Ledger, budget: StageBudget
) -> tuple[OutcomeRange, Fraction]:
    """Release a noisy histogram of outcomes, and return their mean and the range of most outcomes.

    If the histogram is too expensive, a noisy sum of the outcomes is released instead, and the
    declared bounds are used as the range.

    Parameters
    ----------
    ledger : Ledger
        Ledger that records the privacy loss of the release and draws the noise.

    Returns
    -------
    OutcomeRange
        The range.
    Fraction
        Share of the budget that was spent.
    """
    # share of the budget, as a function of public numbers, at which the noise is acceptable
    sensitivity = ledger.for_person(Sensitivity(2, 2))
    deviation = math.sqrt(budget.variance(sensitivity))
    relative_noise = deviation / (training.rows.n * MAX_COUNT_NOISE)
    # the noise is proportional to 1 / ε or to 1 / μ
    needed_share = relative_noise if budget.pure else relative_noise**2
    rounded_share = Fraction(math.ceil(1000 * needed_share), 1000)
    share = max(rounded_share, CLASS_COUNT_SHARE)
    if share > MAX_OUTCOME_SHARE:
        # without public rows, boosting starts from the mean, which therefore receives more of the
        # budget
        share = CLASS_COUNT_SHARE if training.n_joint_public else MAX_OUTCOME_SHARE
        mean = _noisy_mean(training, ledger, budget.fraction(share))
        return OutcomeRange(mean=mean), share
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


def _noisy_mean(training: TrainingData, ledger: Ledger, budget: StageBudget) -> float:
    """Spend a budget on the sum of the outcomes, and return their mean, kept away from 0 and 1."""
    rows = training.rows

    def sum_chunk(chunk: slice) -> Integers:
        """Return the sum of the outcomes in one chunk of rows, in units of 1 / TARGET_LEVELS."""
        return np.array([np.rint(TARGET_LEVELS * rows.y[chunk]).sum(dtype=np.int64)])

    total = ledger.add_noise(
        rows.sum_over_chunks(sum_chunk),
        Sensitivity(TARGET_LEVELS, TARGET_LEVELS**2),
        budget.event,
        name="noisy sum of the outcomes",
        proof=BOOSTING_PROOF,
    ).values[0]
    margin = min(3 / rows.n, 0.5)
    return float(np.clip(total / (TARGET_LEVELS * rows.n), margin, 1 - margin))
