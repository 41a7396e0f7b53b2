"""The learner: sums and trees where the budget is small, and growth where it is not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Draw, Steps
from skpublicdp.boosting.adaptive_bins import BIN_SPLIT_SHARE, BinSplitter
from skpublicdp.boosting.additive import AdditiveFit
from skpublicdp.boosting.bin_splits import refine_splits
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import MAX_FINE_BINS, Binner, refine_bins, refine_scores
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
    n_measured_trees,
    n_rounds,
    n_voting_trees,
    signal_to_noise,
    subsample_size,
    trial_event,
    vote_step,
)
from skpublicdp.boosting.covariate_shift import ShiftEstimate
from skpublicdp.boosting.fit_steps import FitSteps
from skpublicdp.boosting.histograms import PROOF
from skpublicdp.boosting.loss import Loss
from skpublicdp.boosting.model import MAX_GRADIENT, AdditiveModel, null_model, probabilities
from skpublicdp.boosting.monotone import project_monotone
from skpublicdp.boosting.newton_boosting import NewtonBooster
from skpublicdp.boosting.posterior import WeightedPublicRows
from skpublicdp.boosting.private_trees import LEAF_SENSITIVITY, PrivateTreeBooster
from skpublicdp.boosting.public_labels import WarmStart, warm_starts
from skpublicdp.boosting.residual_histogram import (
    RESIDUAL_SHARE,
    noisy_residual_histogram,
    residual_variance,
)
from skpublicdp.boosting.strategy import HistogramStrategy
from skpublicdp.ledger import Ledger, drawable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FittedModel:
    """What the stages came to.

    Attributes
    ----------
    model : AdditiveModel
        Scores of cells and trees.
    data : BinnedData
        The cells.
    loss : Loss
        What margins predict.
    covariances : list of ndarray, shape (n_targets, n_cells of a column, n_cells of a column)
        How sure the scores of each column are, then those of each tree whose leaves were measured;
        empty if there were only votes.
    drift : float or None
        How unlike the public rows are.
    drifted : bool
        Whether that is more than chance.
    residuals : ndarray of int64, shape (len(RESIDUAL_EDGES) - 1,), or None
        How many outcomes lie how far from what is predicted, from -1 to 1, with noise.
    """

    model: AdditiveModel
    data: BinnedData
    loss: Loss
    covariances: list[Floats]
    drift: float | None
    drifted: bool
    residuals: Integers | None


class BoostingFit(FitSteps):
    """Runs the stages on private rows."""

    def too_few_rows(self, method: str) -> bool:
        """Indicate, by public numbers, whether noise hides the strongest possible effects."""
        sums = effects_below_noise(self._full_budget, self._n, self._column_sensitivity)
        whole = StageBudget(self._ledger.epsilon, pure=True)
        trees = signal_to_noise(whole, self._n_persons, self._log_n_trees) < MIN_SIGNAL
        if method == "votes":
            return trees
        # without labels there are no trees in place of sums
        return sums and (trees or method == "moments" or self._training.classes is None)

    def fit_tree_ensemble(self) -> FittedModel:
        """Spend all on trees: those for more than two labels have measured leaves, others vote."""
        ledger = self._ledger
        whole = StageBudget(ledger.epsilon, pure=True)
        if self._n_targets > 1:
            return self._fit_multiclass_trees(whole)
        model = null_model(self.data.binner.offsets, self._n_targets)
        few = n_voting_trees(whole, self._n_persons, self._log_n_trees)
        count = self._max_rounds or (few if basic_composition_is_better(ledger, few) else MAX_TREES)
        each = Draw(ledger.equal_draws(count))
        ledger.plan(Steps((each,) * count))
        model = self._add_voting_trees(
            model, each, count, ledger, pure=basic_composition_is_better(ledger, count)
        )
        return self._finish(model)

    def _fit_multiclass_trees(self, budget: StageBudget) -> FittedModel:
        """Look at the columns, and spend all else on trees with measured leaves."""
        if self._ledger.fits(budget.event):
            self._ledger.plan(budget.event)
        else:  # pure fits are dear to a budget that adds up noise
            budget = self._full_budget
        most, count = 2 * MAX_SHIFT_SHARE, self._n_measured_trees(budget)
        self._check_leaf_noise(budget.fraction((1 - most) * LEAF_SHARE / count))
        self._budget = budget
        look, spent = self._estimate_shift(most)
        left = budget.fraction(1 - spent)
        weights = None if look is None else look.weights
        if weights is not None:
            self._bin(N_BINS, weights)
        hopeless = look is not None and look.drifted and weights is None
        known = None if hopeless else self._training.public_labels
        design = self._weighted_public_rows(weights)
        begin = warm_starts(self.data.binner, design, self._n_targets, known)
        voters = self._tree_booster(begin, self._ledger)
        # no more than were checked, even if fewer trees are left to choose among
        self._add_measured_trees(voters, left, min(count, self._n_measured_trees(left)), design)
        sure = [*voters.column_covariances, *voters.tree_covariances]
        return self._finish(voters.model, look=look, of_trees=sure)

    def _n_measured_trees(self, budget: StageBudget) -> int:
        found = n_measured_trees(signal_to_noise(budget, self._n_persons, self._log_n_trees))
        return min(found, self._max_rounds or MAX_TREES)

    def _check_leaf_noise(self, budget: StageBudget) -> None:
        """Refuse a budget with which the noise of sums over leaves cannot be drawn."""
        if not drawable(budget.event, self._ledger.for_person(LEAF_SENSITIVITY)):
            raise ValueError(
                f"epsilon = {float(self._ledger.epsilon):g} is so small that the noise of sums "
                "over leaves is too large to be drawn; use a larger one."
            )

    def fit_auto(self) -> FittedModel:
        """Release sums and draw trees, or draw trees alone where sums are of little use.

        That is without public rows, and where ε add up in sums for many columns and labels.
        """
        loud = self._n_targets > 1 and self._full_budget.pure
        useful = self._training.n_public and not loud
        return (
            self.fit_additive(trees=True)
            if useful or self._can_afford_boosting
            else self.fit_tree_ensemble()
        )

    def fit_additive(self, *, trees: bool) -> FittedModel:
        """Release sums in rounds, and try trees after them.

        Parameters
        ----------
        trees : bool
            Whether trees may be drawn: after sums, or in their place where they are of little use.

        Raises
        ------
        ValueError
            If the noise is too large to be drawn, and trees may not be drawn either.
        """
        if self._can_afford_boosting:
            return self._fit_boosted(trees=trees)
        columns = self._column_sensitivity
        n, m = self._n, len(self._training.X_public)
        self._budget, outcomes = self._full_budget, self._training.classes is None
        pure = self._budget.pure
        attempt = None if pure or outcomes or not trees else self._choose_trial(self._n_persons)
        planned = attempt is not None
        if planned:
            self._budget = make_stage_budget(self._ledger, trees=True)
        if not self._noise_can_be_drawn():
            if trees and not outcomes:
                return self.fit_tree_ensemble()
            instead = "." if outcomes else ", or method='votes'."
            raise ValueError(
                f"epsilon = {float(self._ledger.epsilon):g} is so small that the noise of sums is "
                f"too large to be drawn; use a larger one{instead}"
            )
        left, class_balance = Fraction(1), 1.0
        if not pure or n_rounds(n, m, self._budget.variance(columns)) > 1:
            left -= CLASS_COUNT_SHARE
            class_balance = self._noisy_class_balance(self._budget.fraction(CLASS_COUNT_SHARE))
        # rare labels make a tree harder to find than the number of rows tells
        attempt = attempt and self._choose_trial(self._n_persons * class_balance**2)
        if planned:  # without an attempt there is noise alone, which any of them covers
            self._ledger.choose(trial_event(self._budget, attempt or TREE_TRIALS[0]))
        later = attempt.first + attempt.second if attempt else Fraction(0)
        stop = trees and not outcomes  # trees can vote instead, but for labels alone
        fit, measured, look, left = self._fit_rounds(left - later, class_balance, stop=stop)
        model = fit.model
        of_trees: list[Floats] = []
        if self._public_rows_unusable(fit) and stop:
            if left + later:
                model, of_trees = self._fall_back_to_trees(model, left + later, fit.design)
        elif attempt:
            model, of_trees = self._try_interaction_tree(fit, measured, attempt)
        return self._finish(model, fit, look, of_trees=of_trees)

    @property
    def _can_afford_boosting(self) -> bool:
        """Tell whether something is left to grow with."""
        return can_afford_boosting(self._full_budget, self._n, self._column_sensitivity)

    def _fit_boosted(self, *, trees: bool) -> FittedModel:
        """Let an additive fit have what it needs, and grow with what is left."""
        whole, columns = self._full_budget, self._column_sensitivity
        class_balance = self._noisy_class_balance(whole.fraction(CLASS_COUNT_SHARE))
        worth = min(1.0, class_balance / BALANCED_FOR_NEWTON)
        self._subsample_rows(whole, worth)
        effective = self._n * worth
        loss, fit, look, left = self._loss, None, None, 1 - CLASS_COUNT_SHARE
        model, size = null_model(self.data.binner.offsets, self._n_targets), 0.0
        design = self._weighted_public_rows()
        if self._training.n_public:  # a mere reference says nothing of what columns have in common
            share = left  # too few rows may have the rarer labels
            if can_afford_boosting(whole, effective, columns):
                share = additive_share(whole, effective, design.effective_size, columns)
            self._budget = whole.fraction(share)
            fit, _, look, unspent = self._fit_rounds(Fraction(1), class_balance, stop=True)
            model, design, size = fit.model, fit.design, fit.design.effective_size
            left -= share * (1 - unspent)
            if not left:
                return self._finish(fit.model, fit, look)
        # the cells so far are cut further
        coarse, weights = self.data.binner, design.weights
        self.data = self._training.with_bins(refine_bins(coarse, self._training.X_public, weights))
        model = self._refined_model(model, coarse)
        model = loss.from_logistic(model, self.data.public_codes, weights)
        budget = whole.fraction(left)
        sampling = loss.gradient_variance
        if sampling is None:
            sampling = residual_variance(
                model, self.data, weights, loss, self._ledger, budget.fraction(CLASS_COUNT_SHARE)
            )
            budget = budget.fraction(1 - CLASS_COUNT_SHARE)
        margins = self.data.margins(model)
        halving = BinSplitter(self._training, self.data, loss, self._ledger, budget, sampling)
        if halving.is_affordable(effective):
            before = self.data.binner
            self.data = halving.split(margins)
            model = self._refined_model(model, before)
            budget = budget.fraction(1 - BIN_SPLIT_SHARE)
        growth = NewtonBooster(
            model, self.data, margins, weights, size, loss, self._ledger, sampling
        )
        asked = refine_splits(self._splits, coarse, self.data.binner) if trees else None
        last = None if self._n == self._all_rows.n else replace(self.data, rows=self._all_rows)
        growth.fit(budget, effective, asked, self._max_rounds, last)
        return self._finish(growth.model, fit, look, growth.covariances)

    def _subsample_rows(self, budget: StageBudget, worth: float) -> None:
        """Run the stages that follow on some of the rows, if half of them are enough."""
        visit = budget.fraction(Fraction(1, N_PASSES * len(self._all_rows.columns)))
        noise = (
            visit.variance(self._ledger.for_person(self._loss.sensitivity))
            / (2 * MAX_GRADIENT) ** 2
        )
        few = math.ceil(subsample_size(noise, MAX_FINE_BINS) / worth)
        if 2 * few > self._n:
            return
        # at random: positions that are fixed hold others where a table is sorted by a value
        some = self._all_rows.take(self._ledger.subset(self._n, few))
        self._training, self._n = replace(self._training, rows=some), few
        self._bin(N_BINS)

    def _refined_model(self, model: AdditiveModel, before: Binner) -> AdditiveModel:
        """Return a model of cells that were cut further since."""
        now = self.data.binner
        return replace(model, scores=refine_scores(model.scores, before, now), offsets=now.offsets)

    def _finish(
        self,
        model: AdditiveModel,
        fit: AdditiveFit | None = None,
        look: ShiftEstimate | None = None,
        covariances: list[Floats] | None = None,
        of_trees: list[Floats] | None = None,
    ) -> FittedModel:
        """Sum up; what public rows look like before they are reweighed is what counts as drift."""
        drift, drifted = (fit.drift, fit.drifted) if fit else (None, False)
        if look is not None and (fit is None or look.drifted):
            drift, drifted = look.drift, look.drifted
        if covariances is None:
            # a logistic model of each target so far
            codes = self.data.public_codes
            design = (
                fit.design if fit else self._weighted_public_rows(look.weights if look else None)
            )
            weights = design.weights
            factors = self._loss.logistic_rescaling(
                probabilities(model.raw_predict(codes)) @ weights
            )
            model = self._loss.from_logistic(model, codes, weights)
            known = [*(fit.covariances if fit else []), *(of_trees or [])]
            covariances = [factors[:, None, None] ** 2 * of_column for of_column in known]
        if self._directions is not None:
            features, codes = self.data.binner, self.data.public_codes
            model = project_monotone(model, features, codes, self._directions, covariances)
        left = None
        if self._training.classes is None:
            budget = make_stage_budget(self._ledger, trees=False).fraction(RESIDUAL_SHARE)
            cells = replace(self.data, rows=self._all_rows)
            left = noisy_residual_histogram(model, cells, self._loss, self._ledger, budget)
        return FittedModel(model, self.data, self._loss, covariances, drift, drifted, left)

    def _choose_trial(self, effective: float) -> TreeTrial | None:
        """Choose what trees may spend if there are as good as so many persons."""
        return choose_trial(signal_to_noise(self._budget, effective, self._log_n_trees))

    def _try_interaction_tree(
        self, fit: AdditiveFit, measured: HistogramStrategy, attempt: TreeTrial
    ) -> tuple[AdditiveModel, list[Floats]]:
        """Try a tree; let another follow if it explains something, else a round of sums."""
        voters = self._tree_booster([WarmStart(fit.model, [])], self._ledger)
        gain = self._add_measured_tree(voters, fit, attempt.first)
        if gain > 0 or fit.overshot:
            self._add_measured_tree(voters, fit, attempt.second)
            return voters.model, voters.tree_covariances
        self._run_round(fit, measured, self._budget.fraction(attempt.second))
        return fit.model, []

    def _add_measured_tree(
        self, voters: PrivateTreeBooster, fit: AdditiveFit, share: Fraction
    ) -> float:
        drawn = self._budget.fraction(share * (1 - LEAF_SHARE))
        leaves = self._budget.fraction(share * LEAF_SHARE)
        return voters.add_tree_with_noisy_leaves(drawn.draw, leaves.event, fit.design)

    def _fall_back_to_trees(
        self, model: AdditiveModel, share: Fraction, design: WeightedPublicRows
    ) -> tuple[AdditiveModel, list[Floats]]:
        """Let trees follow with what is left of the budget, as if they were noise."""
        left = self._budget.fraction(share)
        if self._n_targets > 1:
            name = "exponential mechanism, exact draws of trees, and noisy sums over their leaves"
            voters = self._tree_booster(
                [WarmStart(model, [])], self._ledger.child(left.event, name=name, proof=PROOF)
            )
            self._add_measured_trees(voters, left, self._n_measured_trees(left), design)
            return voters.model, voters.tree_covariances
        count = n_voting_trees(self._budget, self._n_persons, self._log_n_trees, share)
        name = f"exponential mechanism, exact draws of {count} trees"
        paid = self._ledger.child(left.event, name=name, proof=PROOF)
        each = left.fraction(Fraction(1, count)).draw_as_gaussian
        return self._add_voting_trees(model, each, count, paid, pure=left.pure), []

    @staticmethod
    def _add_measured_trees(
        voters: PrivateTreeBooster, budget: StageBudget, count: int, design: WeightedPublicRows
    ) -> None:
        """Draw trees, and measure the leaves of each before the next one is drawn."""
        each = budget.fraction(Fraction(1, count))
        drawn, leaves = each.fraction(1 - LEAF_SHARE), each.fraction(LEAF_SHARE)
        for _ in range(count):
            voters.add_tree_with_noisy_leaves(drawn.draw_as_gaussian, leaves.event, design)

    def _add_voting_trees(
        self, model: AdditiveModel, each: Draw, count: int, ledger: Ledger, *, pure: bool
    ) -> AdditiveModel:
        """Let trees vote."""
        rate = vote_step(count, pure=pure) if self._learning_rate is None else self._learning_rate
        voters = self._tree_booster([WarmStart(model, [])], ledger)
        for _ in range(count):
            voters.add_voting_tree(each, rate)
        return voters.model

    def _tree_booster(self, begin: list[WarmStart], ledger: Ledger) -> PrivateTreeBooster:
        return PrivateTreeBooster(begin, self._cover, self.data, ledger)
