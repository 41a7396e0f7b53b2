"""The fit: an additive posterior for small budgets, Newton boosting for large ones, or trees alone.

README.md of this folder lists the steps in order.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from skpublicdp.accounting import Draw, Steps
from skpublicdp.boosting.adaptive_bins import BIN_SPLIT_SHARE, BinSplitter
from skpublicdp.boosting.additive_fit import AdditiveFit
from skpublicdp.boosting.bin_splits import refine_splits
from skpublicdp.boosting.binner import MAX_FINE_BINS, refine_bins
from skpublicdp.boosting.budget_split import (
    BALANCED_FOR_NEWTON,
    CLASS_COUNT_SHARE,
    LEAF_SHARE,
    MAX_SHIFT_SHARE,
    MAX_TREES,
    MIN_SIGNAL,
    N_BINS,
    N_PASSES,
    TREE_TRIALS,
    StageBudget,
    TreeTrial,
    additive_share,
    basic_composition_is_better,
    can_afford_boosting,
    choose_trial,
    effects_below_noise,
    make_stage_budget,
    n_histogram_rounds,
    n_measured_trees,
    n_voting_trees,
    signal_to_noise,
    subsample_size,
    trial_event,
    vote_step,
)
from skpublicdp.boosting.covariate_shift import ShiftEstimate
from skpublicdp.boosting.fit_steps import FitSteps
from skpublicdp.boosting.fitted_model import FittedModel
from skpublicdp.boosting.model import MAX_GRADIENT, AdditiveModel, null_model, probabilities
from skpublicdp.boosting.monotone import project_monotone
from skpublicdp.boosting.newton_boosting import NewtonBooster
from skpublicdp.boosting.private_trees import PrivateTreeBooster
from skpublicdp.boosting.public_labels import WarmStart, warm_starts
from skpublicdp.boosting.residual_histogram import (
    RESIDUAL_SHARE,
    noisy_residual_histogram,
    residual_variance,
)
from skpublicdp.boosting.strategy import HistogramStrategy
from skpublicdp.typing import Floats


class BoostingFit(FitSteps):
    """One fit of a boosting model. It chooses among three algorithms by public numbers.

    The algorithms are trees alone (`fit_tree_ensemble`), the additive posterior for small budgets
    (`fit_additive`), and Newton boosting for large ones (`_fit_boosted`).
    """

    def has_too_few_rows(self, method: str) -> bool:
        """Indicate whether noise exceeds the strongest possible effects. Uses public numbers only.

        Parameters
        ----------
        method : {"auto", "moments", "votes"}
            The estimator's `method`.
        """
        histograms_fail = effects_below_noise(self._full_budget, self._n, self._column_sensitivity)
        pure_budget = StageBudget(self._ledger.epsilon, pure=True)
        signal = signal_to_noise(pure_budget, self._n_persons, self._log_n_trees)
        trees_fail = signal < MIN_SIGNAL
        if method == "votes":
            return trees_fail
        # a regression cannot use trees in place of histograms
        is_regression = self._training.classes is None
        return histograms_fail and (trees_fail or method == "moments" or is_regression)

    def fit_auto(self) -> FittedModel:
        """Fit an additive model and interaction trees, or trees alone.

        Trees alone are used without public rows. They are also used for several classes under
        pure differential privacy, where the histograms of all classes and columns cost too much.
        """
        too_expensive = self._n_targets > 1 and self._full_budget.pure
        additive_is_useful = self._training.n_public and not too_expensive
        if additive_is_useful or self._can_afford_boosting:
            return self.fit_additive(trees=True)
        return self.fit_tree_ensemble()

    def fit_tree_ensemble(self) -> FittedModel:
        """Spend the whole budget on trees: voting trees for two labels, else with noisy leaves."""
        ledger = self._ledger
        budget = StageBudget(ledger.epsilon, pure=True)
        if self._n_targets > 1:
            return self._fit_multiclass_trees(budget)
        model = null_model(self.data.binner.offsets, self._n_targets)
        n_trees = self._max_rounds
        if n_trees is None:
            signal = signal_to_noise(budget, self._n_persons, self._log_n_trees)
            n_trees = n_voting_trees(signal)
            if not basic_composition_is_better(ledger, n_trees):
                n_trees = MAX_TREES
        draw = Draw(ledger.equal_draws(n_trees))
        ledger.plan(Steps((draw,) * n_trees))
        pure = basic_composition_is_better(ledger, n_trees)
        rate = vote_step(n_trees, pure=pure) if self._learning_rate is None else self._learning_rate
        booster = self._tree_booster([WarmStart(model, [])])
        for _ in range(n_trees):
            booster.add_voting_tree(draw, rate)
        return self._finish(booster.model)

    def _fit_multiclass_trees(self, budget: StageBudget) -> FittedModel:
        """Estimate the covariate shift, then spend the rest on trees with noisy leaves.

        Parameters
        ----------
        budget : StageBudget
            Pure budget of the whole fit.
        """
        if self._ledger.fits(budget.event):
            self._ledger.plan(budget.event)
        else:  # an accountant of Gaussian noise charges too much for pure steps
            budget = self._full_budget
        max_shift_share, n_trees = 2 * MAX_SHIFT_SHARE, self._n_measured_trees(budget)
        self._check_leaf_noise(budget.fraction((1 - max_shift_share) * LEAF_SHARE / n_trees))
        self._budget = budget
        shift, spent = self._estimate_shift(max_shift_share)
        tree_budget = budget.fraction(1 - spent)
        weights = None if shift is None else shift.weights
        if weights is not None:
            self._bin(N_BINS, weights)
        public_rows_unusable = shift is not None and shift.drifted and weights is None
        public_labels = None if public_rows_unusable else self._training.public_labels
        design = self._weighted_public_rows(weights)
        warm_start_models = warm_starts(self.data.binner, design, self._n_targets, public_labels)
        booster = self._tree_booster(warm_start_models)
        # `_check_leaf_noise` holds for at most `n_trees` trees; new bins may allow more
        n_trees = min(n_trees, self._n_measured_trees(tree_budget))
        tree_budget = tree_budget.fraction(Fraction(1, n_trees))
        draw = tree_budget.fraction(1 - LEAF_SHARE).draw_as_gaussian
        leaf_noise = tree_budget.fraction(LEAF_SHARE).event
        for _ in range(n_trees):
            booster.add_tree_with_noisy_leaves(draw, leaf_noise, design)
        covariances = [*booster.column_covariances, *booster.tree_covariances]
        return self._finish(booster.model, shift=shift, tree_covariances=covariances)

    def _n_measured_trees(self, budget: StageBudget) -> int:
        """Return the number of trees with noisy leaves for a budget."""
        n_trees = n_measured_trees(signal_to_noise(budget, self._n_persons, self._log_n_trees))
        return min(n_trees, self._max_rounds or MAX_TREES)

    def fit_additive(self, *, trees: bool) -> FittedModel:
        """Fit an additive model to noisy histograms in rounds, then perhaps interaction trees.

        A budget that is large for the number of columns goes to Newton boosting instead.

        Parameters
        ----------
        trees : bool
            Whether trees may be drawn: after the histograms, or in place of them if the noise of
            histograms is too large to be drawn.

        Raises
        ------
        ValueError
            If the noise is too large to be drawn, and trees are not allowed.
        """
        if self._can_afford_boosting:
            return self._fit_boosted(trees=trees)
        columns = self._column_sensitivity
        n, m = self._n, len(self._training.X_public)
        self._budget, is_regression = self._full_budget, self._training.classes is None
        pure = self._budget.pure
        trial = None
        if trees and not (pure or is_regression):
            trial = self._choose_trial(self._n_persons)
        plan_has_trial = trial is not None
        if plan_has_trial:
            self._budget = make_stage_budget(self._ledger, trees=True)
        if not self._noise_can_be_drawn():
            if trees and not is_regression:
                return self.fit_tree_ensemble()
            alternative = "" if is_regression else ", or method='votes'"
            raise ValueError(
                f"epsilon = {float(self._ledger.epsilon):g} is so small that the noise of sums is "
                f"too large to be drawn; use a larger one{alternative}."
            )
        share, class_balance = Fraction(1), 1.0
        if not pure or n_histogram_rounds(n, m, self._budget.variance(columns)) > 1:
            share -= CLASS_COUNT_SHARE
            class_balance = self._noisy_class_balance(self._budget.fraction(CLASS_COUNT_SHARE))
        if plan_has_trial:
            # a tree is harder to find among rare labels than the number of rows suggests
            trial = self._choose_trial(self._n_persons * class_balance**2)
            # without a trial any branch of the plan covers the fit
            self._ledger.take_option(trial_event(self._budget, trial or TREE_TRIALS[0]))
        trial_share = trial.first + trial.second if trial else Fraction(0)
        rounds = self._fit_rounds(share - trial_share, class_balance)
        model, fit = rounds.fit.model, rounds.fit
        tree_covariances: list[Floats] = []
        if trial:
            model, tree_covariances = self._try_interaction_tree(fit, rounds.strategy, trial)
        return self._finish(model, fit, rounds.shift, tree_covariances=tree_covariances)

    @property
    def _can_afford_boosting(self) -> bool:
        """Whether Newton boosting would learn more than the additive posterior alone."""
        return can_afford_boosting(self._full_budget, self._n, self._column_sensitivity)

    def _fit_boosted(self, *, trees: bool) -> FittedModel:
        """Fit the additive posterior with part of the budget, then Newton boosting with the rest.

        1. Release the class balance, and choose a subsample of the rows if the table is large.
        2. Fit the additive posterior, if there are public rows.
        3. Refine the bins, by public quantiles and then by noisy sums over halves of bins.
        4. Run Newton boosting, starting from the scores of the additive posterior.

        Parameters
        ----------
        trees : bool
            Whether interaction trees may be drawn.
        """
        budget, columns = self._full_budget, self._column_sensitivity
        class_balance = self._noisy_class_balance(budget.fraction(CLASS_COUNT_SHARE))
        balance_factor = min(1.0, class_balance / BALANCED_FOR_NEWTON)
        self._subsample_rows(budget, balance_factor)
        effective_rows = self._n * balance_factor
        loss, fit, shift, share = self._loss, None, None, 1 - CLASS_COUNT_SHARE
        model, n_public = null_model(self.data.binner.offsets, self._n_targets), 0.0
        design = self._weighted_public_rows()
        # without public rows there is a reference grid, whose columns are independent
        if self._training.n_public:
            fit_share = share
            # otherwise one label is too rare, and the additive fit has the whole budget
            if can_afford_boosting(budget, effective_rows, columns):
                fit_share = additive_share(budget, effective_rows, design.effective_size, columns)
            self._budget = budget.fraction(fit_share)
            rounds = self._fit_rounds(Fraction(1), class_balance)
            fit, shift = rounds.fit, rounds.shift
            model, design, n_public = fit.model, fit.design, fit.design.effective_size
            share -= fit_share
            if not share:
                return self._finish(fit.model, fit, shift)
        coarse, weights = self.data.binner, design.weights
        self.data = self._training.with_bins(refine_bins(coarse, self._training.X_public, weights))
        model = self._refined_model(model, coarse)
        model = loss.from_logistic(model, self.data.public_codes, weights)
        budget = budget.fraction(share)
        gradient_variance = loss.gradient_variance
        if gradient_variance is None:  # it is known for labels, and released for outcomes
            variance_budget = budget.fraction(CLASS_COUNT_SHARE)
            gradient_variance = residual_variance(
                model, self.data, weights, loss, self._ledger, variance_budget
            )
            budget = budget.fraction(1 - CLASS_COUNT_SHARE)
        margins = self.data.margins(model)
        splitter = BinSplitter(
            self._training, self.data, loss, self._ledger, budget, gradient_variance
        )
        if splitter.is_affordable(effective_rows):
            unsplit = self.data.binner
            self.data = splitter.split(margins)
            model = self._refined_model(model, unsplit)
            budget = budget.fraction(1 - BIN_SPLIT_SHARE)
        booster = NewtonBooster(
            model, self.data, margins, weights, n_public, loss, self._ledger, gradient_variance
        )
        splits = refine_splits(self._splits, coarse, self.data.binner) if trees else None
        is_subsample = self._n != self._all_rows.n
        all_data = replace(self.data, rows=self._all_rows) if is_subsample else None
        booster.fit(budget, effective_rows, splits, self._max_rounds, all_data)
        return self._finish(booster.model, fit, shift, booster.covariances)

    def _subsample_rows(self, budget: StageBudget, balance_factor: float) -> None:
        """Replace the rows by a random subset of at most half of them, if it is large enough.

        Parameters
        ----------
        budget : StageBudget
            Budget of the whole fit.
        balance_factor : float
            Effective rows per row, from 0 to 1. It is smaller with unbalanced classes.
        """
        n_updates = N_PASSES * len(self._all_rows.columns)
        update_budget = budget.fraction(Fraction(1, n_updates))
        sensitivity = self._ledger.for_person(self._loss.sensitivity)
        noise = update_budget.variance(sensitivity) / (2 * MAX_GRADIENT) ** 2
        n_rows = math.ceil(subsample_size(noise, MAX_FINE_BINS) / balance_factor)
        if 2 * n_rows > self._n:
            return
        # a random set: neighbouring tables need not have their rows in the same places
        subsample = self._all_rows.take(self._ledger.subset(self._n, n_rows))
        self._training, self._n = replace(self._training, rows=subsample), n_rows
        self._bin(N_BINS)

    def _finish(
        self,
        model: AdditiveModel,
        fit: AdditiveFit | None = None,
        shift: ShiftEstimate | None = None,
        covariances: list[Floats] | None = None,
        tree_covariances: list[Floats] | None = None,
    ) -> FittedModel:
        """Convert the model to the final loss, apply monotone constraints, count residuals.

        Parameters
        ----------
        model : AdditiveModel
            Fitted model.
        fit : AdditiveFit, optional
            The additive fit, for the drift and the covariances of columns.
        shift : ShiftEstimate, optional
            Result of the shift test. A significant drift of this test, before public rows were
            reweighted, is reported in place of the drift of the histograms.
        covariances : list of ndarray, optional
            Covariances of Newton boosting, whose model has the final loss. Other models are
            logistic for each target, and are rescaled to the final loss.
        tree_covariances : list of ndarray, optional
            Covariances of trees after an additive fit.
        """
        drift, drifted = (fit.drift, fit.drifted) if fit else (None, False)
        if shift is not None and (fit is None or shift.drifted):
            drift, drifted = shift.drift, shift.drifted
        if covariances is None:
            codes = self.data.public_codes
            shift_weights = shift.weights if shift else None
            design = fit.design if fit else self._weighted_public_rows(shift_weights)
            weights = design.weights
            factors = self._loss.logistic_rescaling(
                probabilities(model.raw_predict(codes)) @ weights
            )
            model = self._loss.from_logistic(model, codes, weights)
            unscaled = [*(fit.covariances if fit else []), *(tree_covariances or [])]
            covariances = [factors[:, None, None] ** 2 * covariance for covariance in unscaled]
        if self._directions is not None:
            binner, codes = self.data.binner, self.data.public_codes
            model = project_monotone(model, binner, codes, self._directions, covariances)
        histogram = None
        if self._training.classes is None:
            budget = make_stage_budget(self._ledger, trees=False).fraction(RESIDUAL_SHARE)
            data = replace(self.data, rows=self._all_rows)
            histogram = noisy_residual_histogram(model, data, self._loss, self._ledger, budget)
        return FittedModel(model, self.data, self._loss, covariances, drift, drifted, histogram)

    def _choose_trial(self, effective_persons: float) -> TreeTrial | None:
        """Choose the budget of an interaction tree; ``None`` if no tree is likely to be found."""
        return choose_trial(signal_to_noise(self._budget, effective_persons, self._log_n_trees))

    def _try_interaction_tree(
        self, fit: AdditiveFit, strategy: HistogramStrategy, trial: TreeTrial
    ) -> tuple[AdditiveModel, list[Floats]]:
        """Draw an interaction tree, and keep it if it raises the marginal likelihood.

        The rest of the trial's budget is for a second tree in this case, and for another round of
        histograms otherwise.

        Returns
        -------
        AdditiveModel
            The model.
        list of ndarray of float64, shape (n_targets, n_leaves, n_leaves)
            Posterior covariances of the leaf values of its trees.
        """
        booster = self._tree_booster([WarmStart(fit.model, [])])
        gain = self._add_measured_tree(booster, fit, trial.first)
        if gain > 0:
            self._add_measured_tree(booster, fit, trial.second)
            return booster.model, booster.tree_covariances
        self._run_round(fit, strategy, self._budget.fraction(trial.second))
        return fit.model, []

    def _add_measured_tree(
        self, booster: PrivateTreeBooster, fit: AdditiveFit, share: Fraction
    ) -> float:
        """Draw one tree, release its leaf sums, and return its log Bayes factor.

        Parameters
        ----------
        booster : PrivateTreeBooster
            Adds the tree to its model.
        fit : AdditiveFit
            The additive fit, for the weights of the public rows.
        share : Fraction
            Share of the budget to spend.
        """
        draw_budget = self._budget.fraction(share * (1 - LEAF_SHARE))
        leaf_budget = self._budget.fraction(share * LEAF_SHARE)
        return booster.add_tree_with_noisy_leaves(draw_budget.draw, leaf_budget.event, fit.design)

    def _tree_booster(self, models: list[WarmStart]) -> PrivateTreeBooster:
        """Return a booster of the current trees and data, from one or several initial models."""
        return PrivateTreeBooster(models, self._cover, self.data, self._ledger)
