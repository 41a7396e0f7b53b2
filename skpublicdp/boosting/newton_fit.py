"""Fit for large budgets, which consists of an additive fit, finer bins and Newton boosting."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from skpublicdp.boosting.adaptive_bins import BIN_SPLIT_SHARE, BinSplitter
from skpublicdp.boosting.additive_fit import fit_histograms
from skpublicdp.boosting.additive_posterior import WeightedPublicRows
from skpublicdp.boosting.bin_splits import (
    candidate_splits,
    refine_splits,
)
from skpublicdp.boosting.binner import (
    MAX_FINE_BINS,
    Binner,
    refine_bins,
    refine_scores,
)
from skpublicdp.boosting.budget_split import (
    BALANCED_FOR_NEWTON,
    CLASS_COUNT_SHARE,
    CLIPPING_GAIN,
    N_PASSES,
    StageBudget,
    additive_share,
    can_afford_boosting,
    subsample_size,
)
from skpublicdp.boosting.fitted_model import FittedModel, LogisticFit, mean_variances
from skpublicdp.boosting.histograms import (
    count_sensitivity,
    noisy_class_balance,
)
from skpublicdp.boosting.loss import Loss, SquaredLoss
from skpublicdp.boosting.model import MAX_GRADIENT, AdditiveModel, null_model
from skpublicdp.boosting.newton_boosting import NewtonBooster
from skpublicdp.boosting.outcome_histogram import noisy_outcome_range, restrict_outcomes
from skpublicdp.boosting.outcome_range import DECLARED_RANGE, OutcomeRange
from skpublicdp.boosting.residual_histogram import noisy_residual_variance
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.privacy.ledger import Ledger


def fit_newton(
    training: TrainingData,
    ledger: Ledger,
    budget: StageBudget,
    loss: Loss,
    *,
    trees: bool,
    max_rounds: int | None,
) -> FittedModel:
    """Fit the additive posterior with part of a budget, and run Newton boosting with the rest.

    1. Release the class balance or, for regression, the range of the outcomes. If the table is
       large, draw a random sample of the rows, which is used by all steps except the last boosting
       pass.
    2. If there are public rows, test for covariate shift and fit the additive posterior.
    3. Refine the bins by adding cuts at quantiles of the public rows.
    4. For regression, release the residual variance, and clip large residuals.
    5. Split the bins whose halves have significantly different noisy sums.
    6. Starting from the scores of the additive posterior, run Newton boosting: one pass over the
       columns, then trees, then further passes.

    Parameters
    ----------
    ledger : Ledger
        Ledger that records the privacy loss of each release and draws the noise.
    trees : bool
        Whether interaction trees may be drawn.
    max_rounds : int, optional
        Maximum number of passes over all columns.
    """
    # 1. class balance or range of the outcomes, and a sample of the rows
    outcome_range, first_share = DECLARED_RANGE, CLASS_COUNT_SHARE
    if training.is_regression:
        outcome_range, first_share = noisy_outcome_range(training, ledger, budget)
        class_balance = outcome_range.balance
    else:
        class_balance = noisy_class_balance(training, ledger, budget.fraction(first_share))
    balance_factor = min(1.0, class_balance / BALANCED_FOR_NEWTON)
    sample = _sample_rows(training, ledger, budget, loss=loss, balance_factor=balance_factor)
    effective_rows = sample.rows.n * balance_factor

    # 2. covariate shift and additive posterior
    start_share = _start_share(sample, ledger, budget, effective_rows=effective_rows)
    start_share = min(start_share, 1 - first_share)
    start_budget = budget.fraction(start_share)
    start = _fit_start(sample, outcome_range, ledger, start_budget, class_balance, max_rounds)
    budget = budget.fraction(1 - first_share - start_share)
    if not budget.amount:
        return start.with_loss(loss)

    # 3. finer bins
    coarse, weights = start.data.binner, start.design.weights
    data = sample.with_bins(refine_bins(coarse, sample.X_public, weights))
    model = _refined_model(start.model, coarse, data.binner)
    model = loss.from_logistic(model, data.public_codes, weights, outcome_range)

    # 4. residual variance, which is known for labels and released for outcomes
    final_loss, gradient_variance = loss, loss.gradient_variance
    if gradient_variance is None:
        assert isinstance(loss, SquaredLoss)
        variance_budget = budget.fraction(CLASS_COUNT_SHARE)
        residuals = noisy_residual_variance(model, data, weights, loss, ledger, variance_budget)
        budget = budget.fraction(1 - CLASS_COUNT_SHARE)
        loss = loss.clipped(residuals.upper)
        gradient_variance = loss.relative_gradient_variance(
            residuals.estimate, model.raw_predict(data.public_codes), weights
        )

    # 5. bins split at significant differences
    margins = data.margins(model)
    splitter = BinSplitter(sample, data, loss, ledger, budget, gradient_variance)
    if splitter.is_affordable(effective_rows):
        unsplit, data = data.binner, splitter.split(margins)
        model = _refined_model(model, unsplit, data.binner)
        budget = budget.fraction(1 - BIN_SPLIT_SHARE)

    # 6. Newton boosting
    n_public = start.design.effective_size if training.n_joint_public else 0.0
    start_variances = _start_variances(start, final_loss) if training.is_regression else []
    booster = NewtonBooster(
        start=model,
        data=data,
        margins=margins,
        row_weights=weights,
        n_public=n_public,
        loss=loss,
        ledger=ledger,
        gradient_variance=gradient_variance,
        start_variances=start_variances,
    )
    splits = None
    if trees:  # chosen on coarse bins but expressed in finer bins
        coarse_splits = candidate_splits(coarse, start.data.public_codes)
        splits = refine_splits(coarse_splits, coarse, data.binner)
    all_data = None if sample is training else replace(data, rows=training.rows)
    booster.fit(budget, effective_rows, splits, max_rounds, all_data)
    variance = float(mean_variances(booster.public_bins, booster.covariances, weights).sum())
    return FittedModel(
        model=booster.model,
        data=data,
        loss=final_loss,
        covariances=booster.covariances,
        drift=start.drift,
        row_weights=weights,
        variance=variance,
        error_covariances=booster.error_covariances,
    )


def _sample_rows(
    training: TrainingData,
    ledger: Ledger,
    budget: StageBudget,
    loss: Loss,
    balance_factor: float,
) -> TrainingData:
    """Return a random sample of at most half of the rows, or all rows if there are too few.

    The `balance_factor` is the number of effective rows per actual row, which is smaller for
    unbalanced classes.
    """
    n_updates = N_PASSES * len(training.rows.columns)
    update_budget = budget.fraction(Fraction(1, n_updates))
    sensitivity = ledger.for_person(loss.sensitivity)
    noise_variance = update_budget.variance(sensitivity) / (2 * MAX_GRADIENT) ** 2
    n_effective_rows = subsample_size(noise_variance, MAX_FINE_BINS)
    n_rows = math.ceil(n_effective_rows / balance_factor)
    if 2 * n_rows > training.rows.n:
        return training
    # the set is random, since neighbouring tables need not have the same order of rows
    return replace(training, rows=training.rows.take(ledger.subset(training.rows.n, n_rows)))


def _start_share(
    training: TrainingData, ledger: Ledger, budget: StageBudget, effective_rows: float
) -> Fraction:
    """Return the share of the budget to spend on the initial additive fit."""
    if not training.n_joint_public:  # the reference grid has independent columns
        return Fraction(0)
    columns = ledger.for_person(count_sensitivity(len(training.rows.columns)))
    gain = CLIPPING_GAIN if training.is_regression else 1.0
    if not can_afford_boosting(budget, gain * effective_rows, columns):
        return Fraction(1)  # one label is too rare for boosting
    m = WeightedPublicRows.from_data(training.binned).effective_size
    return additive_share(budget, effective_rows, m, columns)


def _fit_start(
    training: TrainingData,
    outcome_range: OutcomeRange,
    ledger: Ledger,
    budget: StageBudget,
    class_balance: float,
    max_rounds: int | None,
) -> LogisticFit:
    """Spend a budget on the initial additive fit.

    Without a budget, the initial model is constant and predicts the mean of the outcomes or, for
    classification, equal probabilities.
    """
    if budget.amount:
        if training.is_regression:
            training = restrict_outcomes(training, outcome_range)
        fit = fit_histograms(training, ledger, budget, Fraction(1), class_balance, max_rounds)
        return replace(fit.result(), outcome_range=outcome_range)
    data = training.binned
    null = null_model(data.binner.offsets, training.n_targets)
    if training.is_regression:
        null = replace(null, intercepts=np.array([outcome_range.mean_margin]))
    design = WeightedPublicRows.from_data(data)
    return LogisticFit(null, data, design, covariances=[], outcome_range=outcome_range)


def _start_variances(start: LogisticFit, loss: Loss) -> list[float]:
    """Return the posterior variance of each column's initial scores in units of a loss.

    The scores are centred, and their variances are averaged over the public rows. The list is empty
    without an initial fit.
    """
    columns = zip(start.data.public_codes, start.with_loss(loss).covariances, strict=False)
    weights = start.design.weights
    return [
        float(mean_variances([codes], [covariance], weights).sum()) for codes, covariance in columns
    ]


def _refined_model(model: AdditiveModel, coarse: Binner, fine: Binner) -> AdditiveModel:
    """Return the same model, expressed in bins that refine the `coarse` bins."""
    return replace(model, scores=refine_scores(model.scores, coarse, fine), offsets=fine.offsets)
