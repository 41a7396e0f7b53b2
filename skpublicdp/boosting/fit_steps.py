"""Releases in stages: shares of labels, looks, and rounds of sums that make an additive fit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.additive import LARGE_SHIFT_THRESHOLD, AdditiveFit
from skpublicdp.boosting.bin_splits import candidate_splits, tree_cover
from skpublicdp.boosting.budget_split import (
    BALANCED,
    MAX_ROUNDS,
    MAX_ROUNDS_WITH_SHIFT_TEST,
    MAX_SHIFT_FRACTION,
    MIN_HISTOGRAM_SHARE,
    MISMATCH,
    N_BINS,
    N_BINS_UNBALANCED,
    StageBudget,
    make_stage_budget,
    n_rounds,
    round_shares,
    shift_share,
)
from skpublicdp.boosting.covariate_shift import (
    MIN_SHIFT_EVIDENCE,
    ShiftEstimate,
    estimate_shift,
    median_split_indicators,
    shift_features,
)
from skpublicdp.boosting.histograms import PROOF, gradient_histogram, histogram_sums, measure
from skpublicdp.boosting.loss import LOGISTIC, SQUARED, Loss, MultinomialLoss
from skpublicdp.boosting.model import MAX_GRADIENT, TARGET_LEVELS
from skpublicdp.boosting.monotone import Directions
from skpublicdp.boosting.posterior import WeightedPublicRows, prior_covariances
from skpublicdp.boosting.residual_histogram import RESIDUAL_SHARE
from skpublicdp.boosting.strategy import (
    STRATEGY_UNIT,
    HistogramStrategy,
    identity_strategy,
    optimised_strategy,
)
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.ledger import Ledger, drawable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class FitSteps:
    """Releases what a fit is made of; each is listed in the ledger.

    Parameters
    ----------
    rows : TrainingData
        Private and public rows.
    ledger : Ledger
        Pays.
    max_rounds : int, optional
        Most rounds of sums, or number of trees that vote; chosen by rule otherwise.
    learning_rate : float, optional
        What a vote adds on either side of the margin; chosen by rule otherwise.
    directions : ndarray of int8, shape (n_columns,), optional
        Monotone constraints, for one target.
    """

    def __init__(
        self,
        rows: TrainingData,
        ledger: Ledger,
        *,
        max_rounds: int | None = None,
        learning_rate: float | None = None,
        directions: Directions | None = None,
    ) -> None:
        self._directions = directions
        self._training, self._n = rows, rows.rows.n
        self._all_rows = rows.rows  # even where stages run on some of them
        self._n_targets = 1 if rows.classes is None or len(rows.classes) == 2 else len(rows.classes)
        self._ledger = ledger
        self._n_persons = self._n / ledger.rows_per_person  # as many as count for a draw
        self._max_rounds = max_rounds
        self._learning_rate = learning_rate
        self._budget = self._full_budget  # of the stages that follow, which may be less
        self._bin(N_BINS)

    def _bin(self, max_bins: int, weights: Floats | None = None) -> None:
        self.data = self._training.bin(max_bins, weights)
        features, codes = self.data.binner, self.data.public_codes
        self._splits = candidate_splits(features, codes)
        labels = np.arange(2) if self._training.classes is None else self._training.classes
        self._cover = tree_cover(self._splits, codes, features.names, labels, depth=2)
        self._log_n_trees = math.log(self._cover.size)

    @property
    def _full_budget(self) -> StageBudget:
        """The budget of all sums; of outcomes, a share is kept for residuals."""
        kept = RESIDUAL_SHARE if self._training.classes is None else Fraction(0)
        return make_stage_budget(self._ledger, trees=False).fraction(1 - kept)

    @property
    def _column_sensitivity(self) -> Sensitivity:
        """How far a person moves one count for each column."""
        return self._ledger.for_person(count_sensitivity(len(self._training.rows.columns)))

    @property
    def _loss(self) -> Loss:
        if self._n_targets > 1:
            return MultinomialLoss(self._n_targets, pure=not self._ledger.delta)
        return SQUARED if self._training.classes is None else LOGISTIC

    def _fit_rounds(
        self, left: Fraction, class_balance: float, *, stop: bool
    ) -> tuple[AdditiveFit, HistogramStrategy, ShiftEstimate | None, Fraction]:
        """Look at the columns, then release sums in rounds, with a share of the budget.

        Returns
        -------
        AdditiveFit
            What was learned; damped if the public rows are of no use.
        Strategy
            What was measured.
        ShiftEstimate or None
            What was seen.
        Fraction
            The share that is left: all but the first round's if public rows are of no use, and
            `stop` says to end there.
        """
        n, pure, design = self._n, self._budget.pure, self._weighted_public_rows()
        look = None
        cells = identity_strategy(self.data.binner, design.X, pure=pure)
        if (
            n_rounds(n * class_balance, design.effective_size, self._noise_variance(cells))
            <= MAX_ROUNDS_WITH_SHIFT_TEST
        ):
            look, share = self._estimate_shift(left * MAX_SHIFT_FRACTION)
            left -= share
        bins = N_BINS_UNBALANCED if class_balance < BALANCED else N_BINS
        weights = None if look is None else look.weights
        if bins != N_BINS or weights is not None:
            self._bin(bins, weights)
        design = self._weighted_public_rows(weights)
        features, X_public = self.data.binner, design.X
        measured = identity_strategy(features, X_public, pure=pure)
        if not pure and class_balance >= BALANCED:
            measured = optimised_strategy(
                features,
                design.weights @ X_public,
                prior_covariances(features, design),
                self._noise_variance(measured),
                n * class_balance / 4,
                n * class_balance / 4 * (1 + MISMATCH * n * design.concentration),
            )
        fit = AdditiveFit(
            features,
            design,
            measured,
            self._n_targets,
            pure=pure,
            public_labels=self._training.public_labels,
        )
        rounds = n_rounds(n * class_balance, design.effective_size, self._noise_variance(measured))
        rounds = min(rounds, self._max_rounds or MAX_ROUNDS)
        share = left
        for number, part in enumerate(round_shares(rounds, pure=pure)):
            again = rounds == 1 and number > 0
            self._run_round(fit, measured, self._budget.fraction(share * part), again=again)
            left -= share * part
            if stop and self._public_rows_unusable(fit):
                fit.shrink_by_half()
                break
            if fit.overshot:
                break
        return fit, measured, look, left

    @staticmethod
    def _public_rows_unusable(fit: AdditiveFit) -> bool:
        """Tell whether the public rows are of no use."""
        return fit.drifted and fit.drift is not None and fit.drift > LARGE_SHIFT_THRESHOLD

    def _weighted_public_rows(self, weights: Floats | None = None) -> WeightedPublicRows:
        """Return the public rows as they are cut now."""
        X = self.data.binner.indicators(self.data.public_codes)
        weights = np.full(len(X), 1 / len(X)) if weights is None else weights
        return WeightedPublicRows(X, weights, self._n)

    def _estimate_shift(self, most: Fraction) -> tuple[ShiftEstimate | None, Fraction]:
        """Compare public rows with private ones, and if they look unlike once more when weighed.

        Parameters
        ----------
        most : Fraction
            The largest share of the budget that may be spent.

        Returns
        -------
        ShiftEstimate or None
            The first drift and the last weights; ``None`` if no look was made.
        Fraction
            The share of the budget that was spent.
        """
        design = self._weighted_public_rows()
        moved = self._ledger.for_person(
            count_sensitivity(len(median_split_indicators(self.data.binner, design)))
        )
        share = shift_share(self._budget, self._n, moved)
        if share is None or share > most:
            return None, Fraction(0)
        first, spent = self._shift_from_noisy_counts(design, share, MIN_SHIFT_EVIDENCE), 2 * share
        if first.weights is None or spent > most:
            return first, share
        self.data = self._training.bin(N_BINS, first.weights)
        second = self._shift_from_noisy_counts(
            self._weighted_public_rows(first.weights), share, 0.0
        )
        weights = first.weights if second.weights is None else second.weights
        return ShiftEstimate(first.drift, weights, drifted=True), spent

    def _shift_from_noisy_counts(
        self, design: WeightedPublicRows, share: Fraction, unlikely: float
    ) -> ShiftEstimate:
        """Count the rows in a half of each column, and compare them with public rows."""
        cells = self.data
        chosen = median_split_indicators(cells.binner, design)
        none, offsets = np.empty((0, 0)), cells.binner.offsets
        rows = cells.rows.sum_over_chunks(lambda at: histogram_sums(none, cells.codes(at), offsets))
        counts = self._ledger.add_noise(
            chosen @ rows[-1],
            count_sensitivity(len(chosen)),
            self._budget.fraction(share).event,
            name="noisy counts of halves of columns",
            proof=PROOF,
        )
        T = shift_features(cells.binner, design.X, self._training.X_public)
        return estimate_shift(design, chosen, T, counts.values, counts.variance, unlikely)

    def _noise_can_be_drawn(self) -> bool:
        """Tell whether the noise of the smallest release is within what can be drawn."""
        columns = len(self._training.rows.columns) + 1
        # a column moves by less than 4 MAX_GRADIENT STRATEGY_UNIT, counts included
        most = 4 * MAX_GRADIENT * STRATEGY_UNIT
        moved = self._ledger.for_person(Sensitivity(columns * most, columns * most**2))
        return drawable(self._budget.fraction(MIN_HISTOGRAM_SHARE).event, moved)

    def _noise_variance(self, measured: HistogramStrategy) -> float:
        """Return the variance of the noise of one release that takes the whole budget."""
        moved = self._ledger.for_person(measured.sensitivity(counts=False))
        return self._budget.variance(moved) / (2 * MAX_GRADIENT * STRATEGY_UNIT) ** 2

    def _noisy_class_balance(self, budget: StageBudget) -> float:
        """Release how many rows have each label; 1 if two labels are equally common, else less."""
        one = self._n_targets == 1
        # of outcomes their sum, in units in which each is an integer
        unit = TARGET_LEVELS if self._training.classes is None else 1

        def counted(at: slice) -> Integers:
            y = self._training.rows.y[at]
            if one:
                return np.array([np.rint(unit * y).sum(dtype=np.int64)])
            return np.bincount(y, minlength=self._n_targets)

        counts = self._ledger.add_noise(
            self._training.rows.sum_over_chunks(counted),
            # of more than two labels one has a row less, another one a row more
            Sensitivity(unit, unit**2) if one else Sensitivity(2, 2),
            budget.event,
            name="noisy counts of the labels" if unit == 1 else "noisy sum of the outcomes",
            proof=PROOF,
        ).values
        n = self._n
        shares = np.clip(counts / (unit * n), min(3 / n, 0.5), max(1 - 3 / n, 0.5))
        if one:
            return float(4 * shares[0] * (1 - shares[0]))
        shares = shares / shares.sum()
        return min(1.0, float(2 * (1 - shares @ shares)))

    def _run_round(
        self,
        fit: AdditiveFit,
        measured: HistogramStrategy,
        budget: StageBudget,
        *,
        again: bool = False,
    ) -> None:
        """Release the residuals that the model leaves, or again those of none; learn from them."""
        pure, model = budget.pure, fit.null_model if again else fit.model
        table = gradient_histogram(model, self.data, pure=pure)
        counts = not pure or fit.drift is None  # with Laplace noise they cost
        noisy = measure(table, measured, budget.event, self._ledger, counts=counts)
        (fit.pool_first_release if again else fit.update)(noisy)


def count_sensitivity(size: int) -> Sensitivity:
    """Return how far one row moves so many counts, each by one at most."""
    return Sensitivity(size, size)
