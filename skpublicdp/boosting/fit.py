"""Fit of a boosting model, organised as an ordered list of steps.

The steps are described in the README.md of this folder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum, auto
from fractions import Fraction

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.additive_fit import fit_additive
from skpublicdp.boosting.budget_split import (
    CLASS_COUNT_SHARE,
    MIN_HISTOGRAM_SHARE,
    MIN_SIGNAL,
    N_PASSES,
    can_afford_boosting,
    effects_below_noise,
    label_effects_below_noise,
    signal_to_noise,
)
from skpublicdp.boosting.fitted_model import FittedModel
from skpublicdp.boosting.histograms import STRATEGY_UNIT, count_sensitivity
from skpublicdp.boosting.linear_stage import (
    LINEAR_SHARE,
    linear_model_alone,
    linear_model_suffices,
    with_linear_model,
)
from skpublicdp.boosting.model import MAX_GRADIENT
from skpublicdp.boosting.monotone import Directions, project_monotone
from skpublicdp.boosting.newton import fit_newton
from skpublicdp.boosting.outcome_histogram import (
    MAX_MEAN_SHARE,
    RESIDUAL_SHARE,
    noisy_residual_histogram,
)
from skpublicdp.boosting.private_trees import fit_trees
from skpublicdp.boosting.stacking import STACKING_SHARE, stack_public_model
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.data.outcomes import TARGET_LEVELS
from skpublicdp.exceptions import TooFewRowsWarning, warn
from skpublicdp.hypotheses.trees import TreeCover
from skpublicdp.linear.linear_fit import NoiseTooLargeError
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.privacy.stage_budget import StageBudget, make_stage_budget


class Algorithm(Enum):
    """Algorithms for fitting a boosting model, with the values that each algorithm releases."""

    TREES = auto()
    """Trees alone. With two labels, the algorithm exactly draws trees that change the log-odds by a
    constant. With more labels, the algorithm releases noisy counts for a shift test, draws each
    tree exactly, and then releases its noisy leaf sums."""
    ADDITIVE = auto()
    """Additive posterior, used for small budgets. The releases are the noisy class balance, noisy
    counts for a shift test, one or two noisy gradient histograms of all columns, and up to two
    trees."""
    NEWTON = auto()
    """Newton boosting, used for large budgets. Part of the budget is spent on an additive
    posterior. The remaining releases are noisy sums that determine how bins are split, followed by
    noisy gradient and hessian sums of one column or one drawn tree at a time."""


@dataclass(frozen=True, eq=False)
class FitOptions:
    """Estimator parameters on which the fit depends."""

    # algorithms that may be used: all of them, only models without trees, or only trees
    method: str
    # Maximum number of boosting rounds, or number of voting trees. By default, this number is
    # determined by the number of rows and the budget.
    max_rounds: int | None = None
    # Half of the absolute score of a voting tree's leaves. By default, this value is determined by
    # the number of trees.
    learning_rate: float | None = None
    # (n_columns,): monotone constraints, which are supported only for models with one target
    directions: Directions | None = None


def fit_boosting(training: TrainingData, ledger: Ledger, options: FitOptions) -> FittedModel:
    """Fit an additive model with interaction trees to private rows with the help of public rows.

    1. Reserve part of the budget for the residuals of a regression.
    2. If the table has many numbers, fit a linear model. If the rest of the table is too large for
       the budget, stop here.
    3. Reserve part of the budget for the weights of a public or linear model. Choose an algorithm
       based on public numbers, and run it. The algorithm accesses the private rows only through
       noisy sums and exact draws of trees, which `Algorithm` lists in order.
    4. With a public or linear model, release two sums that determine the model weights, and combine
       it with the boosted model.
    5. Project the model onto monotone constraints.
    6. Release a histogram of the residuals if one distribution describes those of all rows.
    """
    whole_budget = make_stage_budget(ledger)
    loss = training.loss
    residual_share = RESIDUAL_SHARE if loss.has_intervals else Fraction(0)
    budget = whole_budget.fraction(1 - residual_share)
    if training.dataset is None:
        fitted = _fit_terms(training, ledger, budget, options)
    elif linear_model_suffices(training, ledger, budget):
        try:
            training = with_linear_model(training, ledger, budget)
            fitted = linear_model_alone(training)
        except NoiseTooLargeError:  # trees alone may be affordable
            fitted = _fit_terms(replace(training, dataset=None), ledger, budget, options)
    else:
        training = with_linear_model(training, ledger, budget.fraction(LINEAR_SHARE))
        budget = budget.fraction(1 - LINEAR_SHARE)
        fitted = _fit_terms(training, ledger, budget, options)
    if options.directions is not None:
        binner, codes = fitted.data.binner, fitted.data.public_codes
        model = project_monotone(
            fitted.model, binner, codes, options.directions, fitted.covariances
        )
        fitted = replace(fitted, model=model)
    if loss.has_intervals:
        data = replace(fitted.data, rows=training.rows)  # all rows, even if the fit used a sample
        residual_budget = whole_budget.fraction(residual_share)
        counts = noisy_residual_histogram(replace(fitted, data=data), ledger, residual_budget)
        fitted = replace(fitted, residual_counts=counts)
    return fitted


def _fit_terms(
    training: TrainingData, ledger: Ledger, budget: StageBudget, options: FitOptions
) -> FittedModel:
    """Fit the terms of columns and trees, and stack them with a public or linear model."""
    loss, public_margins = training.loss, training.public_margins
    stacking_share = Fraction(0) if public_margins is None else STACKING_SHARE
    trees = training.candidate_trees(training.binned)
    _warn_about_too_few_rows(training, ledger, budget, trees, options.method)
    max_rounds, may_have_trees = options.max_rounds, options.method == "auto"
    match choose_algorithm(training, ledger, budget, options.method):
        case Algorithm.TREES:
            # draws are accounted for as pure DP steps, so their budget is the entire ε
            fit, stacking_budget = fit_trees(
                training, ledger, trees, max_rounds, options.learning_rate, stacking_share
            )
            fitted = fit.with_loss(loss)
        case Algorithm.ADDITIVE:
            # the plan of a trial tree cannot begin with a linear model
            may_try_tree = may_have_trees and training.dataset is None
            log_n_trees = math.log(trees.size) if may_try_tree else None
            fit, stacking_budget = fit_additive(
                training, ledger, budget, log_n_trees, max_rounds, stacking_share
            )
            fitted = fit.with_loss(loss)
        case Algorithm.NEWTON:
            stacking_budget = budget.fraction(stacking_share)
            budget = budget.fraction(1 - stacking_share)
            fitted = fit_newton(
                training, ledger, budget, loss, trees=may_have_trees, max_rounds=max_rounds
            )
    if public_margins is None:
        return fitted
    return stack_public_model(fitted, training, ledger, stacking_budget)


def choose_algorithm(
    training: TrainingData, ledger: Ledger, budget: StageBudget, method: str
) -> Algorithm:
    """Choose the algorithm based on public numbers, namely table sizes, parameters and budget.

    Newton boosting is used if the budget and, for labels, the number of rows are large relative to
    the number of columns, and for regression without public rows. Without public rows, the additive
    posterior would treat the columns as independent and count the shared effect of correlated
    columns several times. Public rows that were generated from a description have independent
    columns, so they would cause the same problem. Trees alone are used for classification without
    public rows, for more than two classes if histograms of all classes and columns are too
    expensive, and whenever the noise of the histograms would be too large to be sampled. Histograms
    of more than two classes are always too expensive under pure differential privacy. If no public
    row is labelled, such histograms are also too expensive when the budget is small relative to the
    numbers of columns and classes.

    Raises
    ------
    ValueError
        If the noise is too large to be sampled, and `method` does not allow trees alone.
    """
    if method == "votes":  # only classifiers accept this value
        return Algorithm.TREES
    n_columns = len(training.rows.columns)
    columns = ledger.for_person(count_sensitivity(n_columns))
    effective_rows = training.loss.clipping_gain * training.rows.n
    rows_per_column = training.rows.n / n_columns if training.loss.has_labels else math.inf
    if can_afford_boosting(budget, effective_rows, columns, rows_per_column):
        return Algorithm.NEWTON
    has_joint_rows = training.n_joint_public > 0
    if (
        not training.loss.has_labels
        and not has_joint_rows
        and _can_start_from_mean(ledger, budget, n_columns)
    ):
        return Algorithm.NEWTON
    trees_are_allowed = _may_use_trees_alone(training, method)
    too_expensive = training.n_targets > 1 and (
        budget.pure
        or (
            training.public_labels is None  # labels of public rows have no noise
            and label_effects_below_noise(budget, training.rows.n, training.n_targets, columns)
        )
    )
    if trees_are_allowed and (not has_joint_rows or too_expensive):
        return Algorithm.TREES
    # each column and the row count change by less than 4 MAX_GRADIENT STRATEGY_UNIT
    n_sums, max_change = n_columns + 1, 4 * MAX_GRADIENT * STRATEGY_UNIT
    change = ledger.for_person(Sensitivity(n_sums * max_change, n_sums * max_change**2))
    if noise_is_representable(budget.fraction(MIN_HISTOGRAM_SHARE).event, change):
        return Algorithm.ADDITIVE
    if trees_are_allowed:
        return Algorithm.TREES
    alternative = ", or use method='votes'" if training.loss.has_labels else ""
    raise ValueError(
        f"epsilon = {float(ledger.epsilon):g} is so small that the noise of sums is too large to "
        f"be drawn. Check that epsilon has the intended value{alternative}."
    )


def _can_start_from_mean(ledger: Ledger, budget: StageBudget, n_columns: int) -> bool:
    """Indicate whether the noise of Newton boosting can be sampled for outcomes, no public rows.

    Newton boosting then releases a sum of the outcomes (at most `MAX_MEAN_SHARE` of the budget),
    a sum of squared residuals, and an update of every column in every pass.
    """
    columns = ledger.for_person(count_sensitivity(n_columns))
    outcomes = Sensitivity(TARGET_LEVELS, TARGET_LEVELS**2)
    squares = Sensitivity(MAX_GRADIENT**2, MAX_GRADIENT**4)
    updates = Sensitivity(3 * MAX_GRADIENT * columns.absolute, (3 * MAX_GRADIENT) ** 2)
    releases = (
        (MAX_MEAN_SHARE, ledger.for_person(outcomes)),
        ((1 - MAX_MEAN_SHARE) * CLASS_COUNT_SHARE, ledger.for_person(squares)),
        ((1 - MAX_MEAN_SHARE) * Fraction(1, N_PASSES * columns.absolute), updates),
    )
    return all(
        noise_is_representable(budget.fraction(share).event, change) for share, change in releases
    )


def _may_use_trees_alone(training: TrainingData, method: str) -> bool:
    """Indicate whether a fit may use trees alone, which requires a classifier that allows trees."""
    return training.loss.has_labels and method != "moments" and training.dataset is None


def _warn_about_too_few_rows(
    training: TrainingData, ledger: Ledger, budget: StageBudget, trees: TreeCover, method: str
) -> None:
    """Warn if public numbers show that no applicable algorithm can learn from the rows."""
    columns = ledger.for_person(count_sensitivity(len(training.rows.columns)))
    histograms_fail = effects_below_noise(budget, training.rows.n, columns)
    n_persons = training.rows.n / ledger.rows_per_person
    tree_budget = StageBudget(ledger.epsilon, pure=True)
    trees_fail = signal_to_noise(tree_budget, n_persons, math.log(trees.size)) < MIN_SIGNAL
    if _may_use_trees_alone(training, method) and not trees_fail:
        return
    if method != "votes" and not histograms_fail:
        return
    expected = (
        "predictions that are close to chance"
        if training.public_labels is None
        else (
            "predictions that are no better than those of a model trained on the labelled public "
            "rows alone"
        )
    )
    warn(
        f"With {training.n_private} private rows and epsilon = {float(ledger.epsilon):g}, the "
        f"noise is larger than the strongest effect that a column can have. Expect {expected}. "
        "Privacy is unaffected. To reduce the noise, use more rows or fewer columns.",
        TooFewRowsWarning,
    )
