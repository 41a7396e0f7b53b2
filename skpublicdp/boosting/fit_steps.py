"""Steps of a fit that release noisy statistics: class balance, covariate shift, histograms.

`BoostingFit` runs them in an order that depends on public numbers and released values only.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.additive_fit import AdditiveFit
from skpublicdp.boosting.additive_posterior import WeightedPublicRows, prior_covariances
from skpublicdp.boosting.bin_splits import candidate_splits, tree_cover
from skpublicdp.boosting.binner import Binner, refine_scores
from skpublicdp.boosting.budget_split import (
    BALANCED,
    MAX_SHIFT_FRACTION,
    MIN_HISTOGRAM_SHARE,
    MISMATCH,
    N_BINS,
    N_BINS_UNBALANCED,
    ROUND_SHARES,
    StageBudget,
    make_stage_budget,
    n_histogram_rounds,
    shift_share,
)
from skpublicdp.boosting.covariate_shift import (
    MIN_SHIFT_EVIDENCE,
    ShiftEstimate,
    estimate_shift,
    median_split_indicators,
    shift_features,
)
from skpublicdp.boosting.histograms import (
    BOOSTING_PROOF,
    gradient_histogram,
    histogram_sums,
    measure,
)
from skpublicdp.boosting.loss import LOGISTIC, SQUARED, Loss, MultinomialLoss
from skpublicdp.boosting.model import MAX_GRADIENT, TARGET_LEVELS, AdditiveModel
from skpublicdp.boosting.monotone import Directions
from skpublicdp.boosting.private_trees import LEAF_SENSITIVITY
from skpublicdp.boosting.residual_histogram import RESIDUAL_SHARE
from skpublicdp.boosting.strategy import (
    STRATEGY_UNIT,
    HistogramStrategy,
    identity_strategy,
    optimised_strategy,
)
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.typing import Floats, Integers


class AdditiveRounds(NamedTuple):
    """Result of `FitSteps._fit_rounds`.

    Attributes
    ----------
    fit : AdditiveFit
        The fitted model.
    strategy : HistogramStrategy
        Linear combinations of bins that each histogram measured.
    shift : ShiftEstimate or None
        Result of the shift test; ``None`` if it was skipped.
    """

    fit: AdditiveFit
    strategy: HistogramStrategy
    shift: ShiftEstimate | None


class FitSteps:
    """Binned data, the ledger, and the releases that are common to all ways to fit.

    Parameters
    ----------
    training : TrainingData
        Private and public rows.
    ledger : Ledger
        Pays for every release and draws its noise.
    max_rounds : int, optional
        Maximum number of boosting rounds, or number of voting trees. By default it follows from
        the number of rows and the budget.
    learning_rate : float, optional
        Half of the absolute score of a voting tree's leaves. By default it follows from the number
        of trees.
    directions : ndarray of int8, shape (n_columns,), optional
        Monotone constraints. Only models of one target can have them.

    Attributes
    ----------
    data : BinnedData
        The rows in the current bins.
    """

    def __init__(
        self,
        training: TrainingData,
        ledger: Ledger,
        *,
        max_rounds: int | None = None,
        learning_rate: float | None = None,
        directions: Directions | None = None,
    ) -> None:
        self._directions = directions
        self._training, self._n = training, training.rows.n
        self._all_rows = training.rows  # for the last steps, if the others use a subsample
        classes = training.classes
        self._n_targets = 1 if classes is None or len(classes) == 2 else len(classes)
        self._ledger = ledger
        # the exponential mechanism pays for persons, not for rows
        self._n_persons = self._n / ledger.rows_per_person
        self._max_rounds = max_rounds
        self._learning_rate = learning_rate
        self._budget = self._full_budget  # replaced by ways to fit that reserve a part of it
        self._bin(N_BINS)

    def _bin(self, max_bins: int, weights: Floats | None = None) -> None:
        """Bin all rows, and list the candidate splits and trees on these bins.

        Parameters
        ----------
        max_bins : int
            Maximum number of bins of a numeric column.
        weights : ndarray of float64, shape (m,), optional
            Weights of the public rows, whose quantiles are the cut points.
        """
        self.data = self._training.bin(max_bins, weights)
        binner, codes = self.data.binner, self.data.public_codes
        self._splits = candidate_splits(binner, codes)
        labels = np.arange(2) if self._training.classes is None else self._training.classes
        self._cover = tree_cover(self._splits, codes, binner.names, labels, depth=2)
        self._log_n_trees = math.log(self._cover.size)

    def _refined_model(self, model: AdditiveModel, coarse: Binner) -> AdditiveModel:
        """Return the same model on the current bins, which refine the `coarse` ones."""
        fine = self.data.binner
        scores = refine_scores(model.scores, coarse, fine)
        return replace(model, scores=scores, offsets=fine.offsets)

    @property
    def _full_budget(self) -> StageBudget:
        """Budget of the fit, without the reserve for the residual histogram of a regression."""
        reserved = RESIDUAL_SHARE if self._training.classes is None else Fraction(0)
        return make_stage_budget(self._ledger, trees=False).fraction(1 - reserved)

    @property
    def _column_sensitivity(self) -> Sensitivity:
        """Sensitivity of one count for each column, for one person."""
        return self._ledger.for_person(count_sensitivity(len(self._training.rows.columns)))

    @property
    def _loss(self) -> Loss:
        """Loss of the target: squared, logistic or multinomial."""
        if self._n_targets > 1:
            return MultinomialLoss(self._n_targets, pure=not self._ledger.delta)
        return SQUARED if self._training.classes is None else LOGISTIC

    def _fit_rounds(self, share: Fraction, class_balance: float) -> AdditiveRounds:
        """Estimate the covariate shift, then fit an additive model to noisy histograms in rounds.

        Parameters
        ----------
        share : Fraction
            Share of the budget that shift test and histograms may spend together.
        class_balance : float
            4 p (1 - p) for two labels, from 0 to 1.
        """
        shift, spent = self._estimate_shift(share * MAX_SHIFT_FRACTION)
        share -= spent
        max_bins = N_BINS_UNBALANCED if class_balance < BALANCED else N_BINS
        weights = None if shift is None else shift.weights
        if max_bins != N_BINS or weights is not None:
            self._bin(max_bins, weights)
        design = self._weighted_public_rows(weights)
        strategy = self._choose_strategy(design, class_balance)
        fit = AdditiveFit(
            self.data.binner,
            design,
            strategy,
            self._n_targets,
            pure=self._budget.pure,
            public_labels=self._training.public_labels,
        )
        n_rounds = n_histogram_rounds(
            self._n * class_balance, design.effective_size, self._noise_variance(strategy)
        )
        for fraction in ROUND_SHARES[min(n_rounds, self._max_rounds or n_rounds)]:
            self._run_round(fit, strategy, self._budget.fraction(share * fraction))
        return AdditiveRounds(fit, strategy, shift)

    def _choose_strategy(
        self, design: WeightedPublicRows, class_balance: float
    ) -> HistogramStrategy:
        """Return the HDMM strategy for Gaussian noise and balanced classes, else the identity."""
        binner, X_public, pure = self.data.binner, design.X, self._budget.pure
        identity = identity_strategy(binner, X_public, pure=pure)
        if pure or class_balance < BALANCED:
            return identity
        information = self._n * class_balance / 4  # number of rows times p (1 - p)
        return optimised_strategy(
            binner,
            design.weights @ X_public,
            prior_covariances(binner, design),
            self._noise_variance(identity),
            information,
            information * (1 + MISMATCH * self._n * design.concentration),
        )

    def _weighted_public_rows(self, weights: Floats | None = None) -> WeightedPublicRows:
        """Return the public rows in the current bins, with equal weights by default."""
        X = self.data.binner.indicators(self.data.public_codes)
        weights = np.full(len(X), 1 / len(X)) if weights is None else weights
        return WeightedPublicRows(X, weights, self._n)

    def _estimate_shift(self, max_share: Fraction) -> tuple[ShiftEstimate | None, Fraction]:
        """Test for covariate shift, and after a positive test estimate the weights a second time.

        The second estimate uses bins that are quantiles of the reweighted public rows.

        Parameters
        ----------
        max_share : Fraction
            Largest share of the budget that may be spent.

        Returns
        -------
        ShiftEstimate or None
            Drift of the first test and weights of the last one; ``None`` if the test is too
            expensive.
        Fraction
            Share of the budget that was spent.
        """
        design = self._weighted_public_rows()
        n_counts = len(median_split_indicators(self.data.binner, design))
        sensitivity = self._ledger.for_person(count_sensitivity(n_counts))
        share = shift_share(self._budget, self._n, sensitivity)
        if share is None or share > max_share:
            return None, Fraction(0)
        first = self._shift_from_noisy_counts(design, share, MIN_SHIFT_EVIDENCE)
        spent = 2 * share
        if first.weights is None or spent > max_share:
            return first, share
        self.data = self._training.bin(N_BINS, first.weights)
        reweighted = self._weighted_public_rows(first.weights)
        second = self._shift_from_noisy_counts(reweighted, share, 0.0)
        weights = first.weights if second.weights is None else second.weights
        return ShiftEstimate(first.drift, weights, drifted=True), spent

    def _shift_from_noisy_counts(
        self, design: WeightedPublicRows, share: Fraction, min_evidence: float
    ) -> ShiftEstimate:
        """Release the number of private rows below each column's median, and estimate the shift.

        Parameters
        ----------
        design : WeightedPublicRows
            Public rows with their current weights.
        share : Fraction
            Share of the budget to spend.
        min_evidence : float
            Log marginal likelihood ratio above which rows are reweighted.
        """
        data = self.data
        indicators = median_split_indicators(data.binner, design)
        no_gradients, offsets = np.empty((0, 0)), data.binner.offsets
        bin_counts = data.rows.sum_over_chunks(
            lambda rows: histogram_sums(no_gradients, data.codes(rows), offsets)
        )[-1]
        counts = self._ledger.add_noise(
            indicators @ bin_counts,
            count_sensitivity(len(indicators)),
            self._budget.fraction(share).event,
            name="noisy counts of lower halves of columns",
            proof=BOOSTING_PROOF,
        )
        features = shift_features(data.binner, design.X, self._training.X_public)
        return estimate_shift(
            design,
            indicators,
            features,
            counts.values,
            counts.variance,
            min_evidence,
            pure=self._budget.pure,
        )

    def _noise_can_be_drawn(self) -> bool:
        """Indicate whether the sampler can draw the noise of the cheapest possible histogram."""
        n_columns = len(self._training.rows.columns) + 1
        # a column moves by less than 4 MAX_GRADIENT STRATEGY_UNIT, counts included
        max_change = 4 * MAX_GRADIENT * STRATEGY_UNIT
        sensitivity = self._ledger.for_person(
            Sensitivity(n_columns * max_change, n_columns * max_change**2)
        )
        return noise_is_representable(self._budget.fraction(MIN_HISTOGRAM_SHARE).event, sensitivity)

    def _check_leaf_noise(self, budget: StageBudget) -> None:
        """Raise if the sampler cannot draw the noise of one tree's leaves."""
        if not noise_is_representable(budget.event, self._ledger.for_person(LEAF_SENSITIVITY)):
            raise ValueError(
                f"epsilon = {float(self._ledger.epsilon):g} is so small that the noise of sums "
                "over leaves is too large to be drawn; use a larger one."
            )

    def _noise_variance(self, strategy: HistogramStrategy) -> float:
        """Return the noise variance of one histogram that takes the whole budget, in rows²."""
        sensitivity = self._ledger.for_person(strategy.sensitivity(counts=False))
        return self._budget.variance(sensitivity) / (2 * MAX_GRADIENT * STRATEGY_UNIT) ** 2

    def _noisy_class_balance(self, budget: StageBudget) -> float:
        """Release the number of rows of each label, and return the balance of the classes.

        Parameters
        ----------
        budget : StageBudget
            Budget to spend.

        Returns
        -------
        float
            4 p (1 - p) for two labels, and 2 (1 - Σ p²), at most 1, for more. It is 1 for equal
            shares p. For a regression p is the mean target.
        """
        is_single = self._n_targets == 1
        # targets of a regression are multiples of 1 / TARGET_LEVELS; in this unit they are integers
        unit = TARGET_LEVELS if self._training.classes is None else 1

        def count_chunk(chunk: slice) -> Integers:
            """Return the class counts, or the sum of the targets, of one chunk of rows."""
            y = self._training.rows.y[chunk]
            if is_single:
                return np.array([np.rint(unit * y).sum(dtype=np.int64)])
            return np.bincount(y, minlength=self._n_targets)

        counts = self._ledger.add_noise(
            self._training.rows.sum_over_chunks(count_chunk),
            # with more than two labels one count loses a row and another one gains it
            Sensitivity(unit, unit**2) if is_single else Sensitivity(2, 2),
            budget.event,
            name="noisy counts of the labels" if unit == 1 else "noisy sum of the outcomes",
            proof=BOOSTING_PROOF,
        ).values
        n = self._n
        shares = np.clip(counts / (unit * n), min(3 / n, 0.5), max(1 - 3 / n, 0.5))
        if is_single:
            return float(4 * shares[0] * (1 - shares[0]))
        shares = shares / shares.sum()
        return min(1.0, float(2 * (1 - shares @ shares)))

    def _run_round(
        self, fit: AdditiveFit, strategy: HistogramStrategy, budget: StageBudget
    ) -> None:
        """Release the gradient histogram of the current model and update the fit.

        Parameters
        ----------
        fit : AdditiveFit
            The fit to update.
        strategy : HistogramStrategy
            Linear combinations of bins to measure.
        budget : StageBudget
            Budget to spend.
        """
        pure = budget.pure
        histogram = gradient_histogram(fit.model, self.data, pure=pure)
        # counts are free with Gaussian noise; with Laplace noise they are released only once
        counts = not pure or fit.drift is None
        fit.update(measure(histogram, strategy, budget.event, self._ledger, counts=counts))


def count_sensitivity(n_counts: int) -> Sensitivity:
    """Return the sensitivity of `n_counts` counts, if one row moves each by at most 1."""
    return Sensitivity(n_counts, n_counts)
