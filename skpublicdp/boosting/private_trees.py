"""Voting trees and trees with noisy leaf values, both drawn by the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from skpublicdp.accounting import Draw, Gaussian, Pure, Sensitivity, Steps
from skpublicdp.boosting.additive_posterior import (
    GaussianPosterior,
    NoisyStatistic,
    WarmStart,
    WeightedPublicRows,
    evidence_weights,
    gauss_newton_update,
    mix_models,
    warm_starts,
)
from skpublicdp.boosting.bin_splits import apply_tree
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.budget_split import (
    LEAF_SHARE,
    MAX_SHIFT_SHARE,
    MAX_TREES,
    N_BINS,
    basic_composition_is_better,
    n_measured_trees,
    n_voting_trees,
    signal_to_noise,
    vote_step,
)
from skpublicdp.boosting.covariate_shift import NO_DRIFT, noisy_shift
from skpublicdp.boosting.fitted_model import LogisticFit, mean_variances
from skpublicdp.boosting.histograms import BOOSTING_PROOF, histogram_sums
from skpublicdp.boosting.model import (
    MARGIN_UNIT,
    MAX_GRADIENT,
    boosting_weights,
    gradient_scale,
    null_model,
    probabilities,
    scaled_gradients,
)
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.hypotheses.trees import DecisionTree, TreeCover
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.privacy.stage_budget import StageBudget, make_stage_budget
from skpublicdp.typing import Floats, Integers

MAX_ROW_WEIGHT = 16
"""Maximum boosting weight of a row. Weights are nonnegative integers, and rows that the current
model predicts incorrectly have large weights."""

LEAF_SENSITIVITY = Sensitivity(2 * MAX_GRADIENT, (2 * MAX_GRADIENT) ** 2)
"""Sensitivity of the gradient sums over leaves. Flipping a label changes the sum of one leaf by 2
MAX_GRADIENT. Moving a row to another leaf changes two sums by MAX_GRADIENT each."""

LEAF_VALUE_PRIOR = 0.8
"""Mean and standard deviation, in logits, of the prior of an absolute leaf value (ablation:
"little")."""


def fit_trees(
    training: TrainingData,
    ledger: Ledger,
    trees: TreeCover,
    max_trees: int | None,
    learning_rate: float | None,
    later_share: Fraction,
) -> tuple[LogisticFit, StageBudget]:
    """Spend the budget on voting trees (two labels) or trees with noisy leaves (more labels)."""
    if training.n_targets > 1:
        return _fit_trees_with_noisy_leaves(training, ledger, trees, max_trees, later_share)
    return _fit_voting_trees(training, ledger, trees, max_trees, learning_rate, later_share)


def _fit_voting_trees(
    training: TrainingData,
    ledger: Ledger,
    trees: TreeCover,
    n_trees: int | None,
    learning_rate: float | None,
    later_share: Fraction,
) -> tuple[LogisticFit, StageBudget]:
    """Fit voting trees, each of which changes the log-odds by a constant of the learning rate.

    The share `later_share` of the budget is kept for a later release.
    """
    data = training.binned
    if n_trees is None:
        budget = StageBudget(ledger.epsilon, pure=True)
        n_trees = n_voting_trees(_signal_to_noise(budget, data, ledger, trees))
        if not basic_composition_is_better(ledger, n_trees):
            n_trees = MAX_TREES
    draw, later_budget = _plan_equal_draws(ledger, n_trees, later_share)
    pure = basic_composition_is_better(ledger, n_trees)
    rate = vote_step(n_trees, pure=pure) if learning_rate is None else learning_rate
    null = WarmStart(null_model(data.binner.offsets, n_targets=1), [])
    booster = PrivateTreeBooster([null], trees, data, ledger)
    for _ in range(n_trees):
        booster.add_voting_tree(draw, rate)
    design = WeightedPublicRows.from_data(data)
    return LogisticFit(booster.model, data, design, covariances=[]), later_budget


def _plan_equal_draws(
    ledger: Ledger, n_trees: int, later_share: Fraction
) -> tuple[Draw, StageBudget]:
    """Register a plan of equal draws followed by noise, and return the events of both.

    The plan uses either Laplace noise, in which case the ε of all steps add up, or Gaussian noise,
    whichever allows better draws. With a `later_share` of 0, there is no noisy release.
    """
    if not later_share:
        draw = Draw(ledger.equal_draws(n_trees))
        ledger.plan(Steps((draw,) * n_trees))
        return draw, StageBudget(Fraction(0), pure=True)
    share_of_draw = (1 - later_share) / n_trees

    def make_plan(budget: StageBudget) -> Steps:
        """Return the plan of all steps under a given budget."""
        draws = (budget.fraction(share_of_draw).draw,) * n_trees
        return Steps((*draws, budget.fraction(later_share).event))

    budgets = []
    pure_budget = StageBudget(ledger.epsilon, pure=True)
    if ledger.fits(make_plan(pure_budget)):
        budgets.append(pure_budget)
    if ledger.delta:
        amount = ledger.calibrate(lambda amount: make_plan(StageBudget(amount, pure=False)))
        budgets.append(StageBudget(amount, pure=False))
    budget = max(budgets, key=lambda budget: budget.fraction(share_of_draw).draw.epsilon)
    ledger.plan(make_plan(budget))
    return budget.fraction(share_of_draw).draw, budget.fraction(later_share)


def _fit_trees_with_noisy_leaves(
    training: TrainingData,
    ledger: Ledger,
    trees: TreeCover,
    max_trees: int | None,
    later_share: Fraction,
) -> tuple[LogisticFit, StageBudget]:
    """Estimate the covariate shift, and spend the remaining budget on trees with noisy leaves.

    The share `later_share` of the budget is kept for a later release.
    """
    budget, data = StageBudget(ledger.epsilon, pure=True), training.binned
    if ledger.fits(budget.event):
        ledger.plan(budget.event)
    else:  # an accountant for Gaussian noise overestimates the cost of pure steps
        budget = make_stage_budget(ledger)
    later_budget = budget.fraction(later_share)
    budget = budget.fraction(1 - later_share)

    def n_affordable_trees(budget: StageBudget) -> int:
        """Return the number of trees among which the budget is divided."""
        n_trees = n_measured_trees(_signal_to_noise(budget, data, ledger, trees))
        return min(n_trees, max_trees or MAX_TREES)

    max_shift_share = 2 * MAX_SHIFT_SHARE
    n_trees = n_affordable_trees(budget)
    min_leaf_share = (1 - max_shift_share) * LEAF_SHARE / n_trees
    _check_leaf_noise(budget.fraction(min_leaf_share), ledger)
    shift, spent = noisy_shift(training, ledger, budget, max_share=max_shift_share)
    weights = None if shift is None else shift.weights
    if weights is not None:
        data = training.bin(N_BINS, weights)
        trees = training.candidate_trees(data)

    public_rows_unusable = shift is not None and shift.drifted and weights is None
    public_labels = None if public_rows_unusable else training.public_labels
    design = WeightedPublicRows.from_data(data, weights)
    starts = warm_starts(data.binner, design, training.n_targets, public_labels)
    booster = PrivateTreeBooster(starts, trees, data, ledger)
    budget = budget.fraction(1 - spent)
    # `_check_leaf_noise` is valid for at most `n_trees` trees; new bins might allow more trees
    n_trees = min(n_trees, n_affordable_trees(budget))
    tree_budget = budget.fraction(Fraction(1, n_trees))
    draw = tree_budget.fraction(1 - LEAF_SHARE).draw_as_gaussian
    leaf_noise = tree_budget.fraction(LEAF_SHARE).event
    for _ in range(n_trees):
        booster.add_tree_with_noisy_leaves(draw, leaf_noise, design)

    column_variances = mean_variances(data.public_codes, booster.column_covariances, design.weights)
    fit = LogisticFit(
        booster.model,
        data=data,
        design=design,
        covariances=[*booster.column_covariances, *booster.tree_covariances],
        drift=NO_DRIFT if shift is None else shift.report,
        variances=column_variances + booster.tree_variances(design.weights),
    )
    return fit, later_budget


def _signal_to_noise(
    budget: StageBudget, data: BinnedData, ledger: Ledger, trees: TreeCover
) -> float:
    """Return the signal of a draw, which depends on the number of persons rather than rows."""
    return signal_to_noise(budget, data.rows.n / ledger.rows_per_person, math.log(trees.size))


def _check_leaf_noise(budget: StageBudget, ledger: Ledger) -> None:
    """Raise an error if the noise for the leaf sums of a tree cannot be sampled."""
    if not noise_is_representable(budget.event, ledger.for_person(LEAF_SENSITIVITY)):
        raise ValueError(
            f"epsilon = {float(ledger.epsilon):g} is so small that the noise of the leaf sums is "
            "too large to be drawn. Check that epsilon has the intended value."
        )


class PrivateTreeBooster:
    """Boosting with trees drawn by the exponential mechanism, in which errors have larger weights.

    Parameters
    ----------
    warm_starts : list of WarmStart
        Candidate initial models. The last candidate is used until the noisy leaf sums of the first
        tree are released, after which the candidates are mixed with weights determined by their
        evidence.
    cover : TreeCover
        All candidate trees.
    data : BinnedData
        Binned private and public rows.
    ledger : Ledger
        Ledger that is charged and draws the noise.

    Attributes
    ----------
    model : AdditiveModel
        Current model.
    column_covariances : list of ndarray, shape (n_targets, n_bins, n_bins)
        Posterior covariances of each column's bin scores in the initial model.
    tree_covariances : list of ndarray, shape (n_targets, n_leaves, n_leaves)
        Posterior covariances of each tree's leaf values. The list is empty for voting trees.
    """

    def __init__(
        self, warm_starts: list[WarmStart], cover: TreeCover, data: BinnedData, ledger: Ledger
    ) -> None:
        self._warm_starts, self.tree_covariances = warm_starts, list[Floats]()
        self._cover, self._data, self._ledger = cover, data, ledger
        self._set_model(warm_starts[-1])

    def _set_model(self, start: WarmStart) -> None:
        """Replace the current model, and recompute the margins of all rows accordingly."""
        self.model, self.column_covariances = start.model, start.covariances
        self._margins = self._data.margins(start.model)

    def tree_variances(self, row_weights: Floats) -> Floats:
        """Return the variance of each target's leaf values, averaged over the public rows."""
        public_codes = self._data.public_codes
        leaves = [apply_tree(tree.splits, public_codes) for tree in self.model.trees]
        return mean_variances(leaves, self.tree_covariances, row_weights)

    def add_voting_tree(self, event: Draw, rate: float) -> None:
        """Draw a tree for two labels, and add it with leaf scores of ± 2 `rate` logits."""
        tree = self._draw_tree(event)
        signs = 2 * tree.leaves[None].astype(np.int64) - 1  # -1 or 1, shape (1, n_leaves)
        self._add_tree(tree, round(2 * rate * MARGIN_UNIT) * signs)

    def add_tree_with_noisy_leaves(
        self, event: Draw, noise: Gaussian | Pure, design: WeightedPublicRows
    ) -> float:
        """Draw a tree, release the gradient sums of its leaves, and set the leaf values."""
        tree = self._draw_tree(event)
        leaf_of_public_row = apply_tree(tree.splits, self._data.public_codes)
        Z = np.eye(len(tree.leaves))[leaf_of_public_row]  # one-hot, shape (m, n_leaves)
        statistics = self._noisy_leaf_sums(tree, Z, noise)
        n_targets = len(statistics)
        # two labels have one target, the log-odds of label 1
        label_of_target = np.arange(n_targets)[:, None] if n_targets > 1 else [[1]]
        is_positive = tree.leaves == label_of_target  # (n_targets, n_leaves)
        leaf_rows = WeightedPublicRows(Z, design.weights, design.n)
        is_first_tree = not self.tree_covariances
        models = [start.model for start in self._warm_starts] if is_first_tree else [self.model]
        posteriors = []
        for i, model in enumerate(models):
            offsets = model.raw_predict(self._data.public_codes) / MARGIN_UNIT
            # the tree was drawn on rows that a model of the public labels misclassifies, so it may
            # add nothing to this model (all warm starts except the first)
            posterior = _leaf_posterior(
                leaf_rows, statistics, offsets, is_positive=is_positive, may_be_zero=i > 0
            )
            posteriors.append(posterior)
        scores = [posterior.scores for posterior in posteriors]
        covariances = [posterior.covariances for posterior in posteriors]
        weights = evidence_weights(np.array([posterior.evidence for posterior in posteriors]))
        if len(models) > 1:
            self._set_model(mix_models(self._warm_starts, weights))
        self.tree_covariances.append(np.tensordot(weights, covariances, axes=1))
        leaf_values = np.tensordot(weights, scores, axes=1)
        self._add_tree(tree, np.rint(MARGIN_UNIT * leaf_values).astype(np.int64))
        return float(weights @ [posterior.gain for posterior in posteriors])

    def _noisy_leaf_sums(
        self, tree: DecisionTree, Z: Floats, noise: Gaussian | Pure
    ) -> list[NoisyStatistic]:
        """Return the noisy gradient sums of a tree's leaves, one statistic for each target.

        Parameters
        ----------
        Z : ndarray of float64, shape (m, n_leaves)
            Leaf indicators of the public rows.
        noise : Gaussian or Pure
            Privacy event to spend.
        """
        pure = isinstance(noise, Pure)
        measured = self._ledger.add_noise(
            leaf_gradients(tree, self._data, self._margins, pure=pure),
            LEAF_SENSITIVITY,
            noise,
            name="noisy gradient sums of its leaves",
            proof=BOOSTING_PROOF,
        )
        totals = measured.values / (2 * MAX_GRADIENT)
        baseline = probabilities(self.model.raw_predict(self._data.public_codes))
        scale = gradient_scale(baseline, pure)
        covariance = measured.variance / (2 * MAX_GRADIENT) ** 2 * np.eye(len(tree.leaves))
        return [
            NoisyStatistic(total, covariance=covariance, Z=Z, scale=scale, baseline=probability)
            for total, probability in zip(totals, baseline, strict=True)
        ]

    def _draw_tree(self, event: Draw) -> DecisionTree:
        """Draw a tree by the exponential mechanism, which favours small weighted errors.

        The weighted error is the total boosting weight of misclassified rows. The weight of a row
        depends only on its own margin and label, so the sensitivity is `MAX_ROW_WEIGHT`.
        """
        data, cover, margins = self._data, self._cover, self._margins

        def tabulate_chunk(chunk: slice) -> Integers:
            """Return the weighted table of joint splits for one chunk of rows."""
            y = data.rows.y[chunk]
            weights = boosting_weights(margins[:, chunk], y, MAX_ROW_WEIGHT)
            X: NDArray[Any] = data.codes(chunk).T
            return cover.tabulate(X, y, weights)

        path = self._ledger.draw(
            self._cover.family(data.rows.sum_over_chunks(tabulate_chunk)),
            event,
            MAX_ROW_WEIGHT,
            name="exponential mechanism, exact draw of a tree",
            proof="docs/proofs/selection.md",
        )
        return self._cover.hypothesis(path)

    def _add_tree(self, tree: DecisionTree, scores: Integers) -> None:
        """Add a tree to the model, and update the margins of all rows with its leaf scores."""
        self.model = self.model.with_tree(tree, scores)
        self._data.add_scores(self._margins, scores, self._data.leaf_indexer(tree.splits))


def leaf_gradients(
    tree: DecisionTree, data: BinnedData, margins: NDArray[np.int32], *, pure: bool
) -> Integers:
    """Return the sum of the private rows' gradients in each leaf, shape (n_targets, n_leaves).

    The sums are noiseless integers in units of 1 / (2 MAX_GRADIENT).
    """
    leaf_of_row = data.leaf_indexer(tree.splits)

    def tabulate_chunk(chunk: slice) -> Integers:
        """Return the gradient sums of one chunk of rows, shape (n_targets, n_leaves)."""
        gradients = scaled_gradients(margins[:, chunk], data.rows.y[chunk], pure)
        # leaves are treated as bins of a single column
        offsets = np.array([0, len(tree.leaves)])
        sums_and_counts = histogram_sums(gradients, leaf_of_row(chunk)[None], offsets)
        return sums_and_counts[:-1]

    return data.rows.sum_over_chunks(tabulate_chunk)


@dataclass(frozen=True, eq=False)
class _LeafPosterior:
    """Gaussian posterior of the leaf values of a single tree."""

    scores: Floats  # (n_targets, n_leaves): posterior means
    covariances: Floats  # (n_targets, n_leaves, n_leaves)
    evidence: float  # log marginal likelihood, up to a constant
    gain: float  # log Bayes factor in favour of the leaf values, compared with zero values


def _leaf_posterior(
    design: WeightedPublicRows,
    statistics: Sequence[NoisyStatistic],
    offsets: Floats,  # (n_targets, m)
    is_positive: NDArray[np.bool_],  # (n_targets, n_leaves)
    *,
    may_be_zero: bool,
) -> _LeafPosterior:
    """Return the posterior of the leaf values, given the noisy gradient sums of each target.

    The prior means depend on the drawn labels: they are positive for leaves with the target's
    label, and negative for other leaves. If `may_be_zero`, all values are zero with a prior
    probability of 1/2.
    """

    def fit(prior_mean: float) -> list[tuple[GaussianPosterior, float]]:
        """For each target, return the posterior and the log evidence.

        Since the prior standard deviation equals the absolute prior mean, a mean of 0 fixes all
        values at 0.
        """
        signed_means = np.where(is_positive, prior_mean, -prior_mean)
        means = np.pad(signed_means, ((0, 0), (0, 1)))  # the intercept is fixed at 0
        return [
            gauss_newton_update(
                GaussianPosterior(mean, np.diag(mean**2)), design, statistic, offset
            )
            for mean, statistic, offset in zip(means, statistics, offsets, strict=True)
        ]

    fitted = fit(LEAF_VALUE_PRIOR)
    evidence = sum(log_evidence for _, log_evidence in fitted)
    zero_evidence = sum(log_evidence for _, log_evidence in fit(0.0))
    gain = evidence - zero_evidence
    weight = float(expit(gain)) if may_be_zero else 1.0  # posterior probability of nonzero values
    scores = np.array([posterior.mean[:-1] for posterior, _ in fitted])
    covariances = np.array([posterior.covariance[:-1, :-1] for posterior, _ in fitted])
    # law of total covariance for the mixture with zero values
    between = (1 - weight) * scores[:, :, None] * scores[:, None]
    if may_be_zero:
        # marginal likelihood of the mixture, where each component has a prior probability of 1/2
        evidence = float(np.logaddexp(evidence, zero_evidence) - np.log(2))
    return _LeafPosterior(
        scores=weight * scores,
        covariances=weight * (covariances + between),
        evidence=evidence,
        gain=gain,
    )
