"""Releases in stages: shares of labels, looks, and rounds of sums that make an additive fit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.additive import UNLIKE, AdditiveFit
from skpublicdp.boosting.door import BoostingRows
from skpublicdp.boosting.halves import UNLIKELY, Look, compare, halves, tendencies
from skpublicdp.boosting.loss import LOGISTIC, SQUARED, Loss, MultinomialLoss
from skpublicdp.boosting.moments import PROOF, cell_sums, moment_table, release
from skpublicdp.boosting.monotone import Directions
from skpublicdp.boosting.plan import (
    COARSE,
    EVEN,
    FINE,
    LEAST_SHARE,
    LOOK_ROUNDS,
    LOOKS_TO_SUMS,
    MAX_ROUNDS,
    MISMATCH,
    Budget,
    look_share,
    moments_budget,
    n_rounds,
    round_shares,
)
from skpublicdp.boosting.posterior import PublicDesign, kernels
from skpublicdp.boosting.questions import questions, tree_cover
from skpublicdp.boosting.residuals import SPREAD_SHARE
from skpublicdp.boosting.scores import HALF, OUTCOMES
from skpublicdp.boosting.strategy import ONE, Strategy, cell_strategy, smooth_strategy
from skpublicdp.ledger import Ledger, drawable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Stages:
    """Releases what a fit is made of; each is listed in the ledger.

    Parameters
    ----------
    rows : BoostingRows
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
        rows: BoostingRows,
        ledger: Ledger,
        *,
        max_rounds: int | None = None,
        learning_rate: float | None = None,
        directions: Directions | None = None,
    ) -> None:
        self._directions = directions
        self._rows, self._n = rows, rows.coded.n
        self._all = rows.coded  # even where stages run on some of them
        self._targets = 1 if rows.classes is None or len(rows.classes) == 2 else len(rows.classes)
        self._ledger = ledger
        self._persons = self._n / ledger.rows_per_person  # as many as count for a draw
        self._most = max_rounds
        self._rate = learning_rate
        self._budget = self._whole  # of the stages that follow, which may be less
        self._cut(FINE)

    def _cut(self, max_bins: int, weights: Floats | None = None) -> None:
        self.cells = self._rows.cut(max_bins, weights)
        features, codes = self.cells.features, self.cells.public_codes
        self._asked = questions(features, codes)
        labels = np.arange(2) if self._rows.classes is None else self._rows.classes
        self._cover = tree_cover(self._asked, codes, features.names, labels, depth=2)
        self._log_size = math.log(self._cover.size)

    @property
    def _whole(self) -> Budget:
        """The budget of all sums; of outcomes, a share is kept for residuals."""
        kept = SPREAD_SHARE if self._rows.classes is None else Fraction(0)
        return moments_budget(self._ledger, trees=False).part(1 - kept)

    @property
    def _columns(self) -> Sensitivity:
        """How far a person moves one count for each column."""
        return self._ledger.for_person(once(len(self._rows.coded.columns)))

    @property
    def _loss(self) -> Loss:
        if self._targets > 1:
            return MultinomialLoss(self._targets, pure=not self._ledger.delta)
        return SQUARED if self._rows.classes is None else LOGISTIC

    def _additive(
        self, left: Fraction, evenness: float, *, stop: bool
    ) -> tuple[AdditiveFit, Strategy, Look | None, Fraction]:
        """Look at the columns, then release sums in rounds, with a share of the budget.

        Returns
        -------
        AdditiveFit
            What was learned; damped if the public rows are of no use.
        Strategy
            What was measured.
        Look or None
            What was seen.
        Fraction
            The share that is left: all but the first round's if public rows are of no use, and
            `stop` says to end there.
        """
        n, pure, design = self._n, self._budget.pure, self._design()
        look = None
        cells = cell_strategy(self.cells.features, design.X, pure=pure)
        if n_rounds(n * evenness, design.size, self._variance(cells)) <= LOOK_ROUNDS:
            look, share = self._look(left * LOOKS_TO_SUMS)
            left -= share
        bins = COARSE if evenness < EVEN else FINE
        weights = None if look is None else look.weights
        if bins != FINE or weights is not None:
            self._cut(bins, weights)
        design = self._design(weights)
        features, X_public = self.cells.features, design.X
        measured = cell_strategy(features, X_public, pure=pure)
        if not pure and evenness >= EVEN:
            measured = smooth_strategy(
                features,
                design.weights @ X_public,
                kernels(features, design),
                self._variance(measured),
                n * evenness / 4,
                n * evenness / 4 * (1 + MISMATCH * n * design.concentration),
            )
        fit = AdditiveFit(
            features, design, measured, self._targets, pure=pure, known=self._rows.known
        )
        rounds = n_rounds(n * evenness, design.size, self._variance(measured))
        rounds = min(rounds, self._most or MAX_ROUNDS)
        share = left
        for number, part in enumerate(round_shares(rounds, pure=pure)):
            again = rounds == 1 and number > 0
            self._round(fit, measured, self._budget.part(share * part), again=again)
            left -= share * part
            if stop and self._unlike(fit):
                fit.damp()
                break
            if fit.stopped:
                break
        return fit, measured, look, left

    @staticmethod
    def _unlike(fit: AdditiveFit) -> bool:
        """Tell whether the public rows are of no use."""
        return fit.drifted and fit.drift is not None and fit.drift > UNLIKE

    def _design(self, weights: Floats | None = None) -> PublicDesign:
        """Return the public rows as they are cut now."""
        X = self.cells.features.indicators(self.cells.public_codes)
        weights = np.full(len(X), 1 / len(X)) if weights is None else weights
        return PublicDesign(X, weights, self._n)

    def _look(self, most: Fraction) -> tuple[Look | None, Fraction]:
        """Compare public rows with private ones, and if they look unlike once more when weighed.

        Parameters
        ----------
        most : Fraction
            The largest share of the budget that may be spent.

        Returns
        -------
        Look or None
            The first drift and the last weights; ``None`` if no look was made.
        Fraction
            The share of the budget that was spent.
        """
        design = self._design()
        moved = self._ledger.for_person(once(len(halves(self.cells.features, design))))
        share = look_share(self._budget, self._n, moved)
        if share is None or share > most:
            return None, Fraction(0)
        first, spent = self._counted(design, share, UNLIKELY), 2 * share
        if first.weights is None or spent > most:
            return first, share
        self.cells = self._rows.cut(FINE, first.weights)
        second = self._counted(self._design(first.weights), share, 0.0)
        weights = first.weights if second.weights is None else second.weights
        return Look(first.drift, weights, drifted=True), spent

    def _counted(self, design: PublicDesign, share: Fraction, unlikely: float) -> Look:
        """Count the rows in a half of each column, and compare them with public rows."""
        cells = self.cells
        chosen = halves(cells.features, design)
        none, offsets = np.empty((0, 0)), cells.features.offsets
        rows = cells.rows.fold(lambda at: cell_sums(none, cells.codes(at), offsets))
        counts = self._ledger.add_noise(
            chosen @ rows[-1],
            once(len(chosen)),
            self._budget.part(share).event,
            name="noisy counts of halves of columns",
            proof=PROOF,
        )
        T = tendencies(cells.features, design.X, self._rows.X_public)
        return compare(design, chosen, T, counts.values, counts.variance, unlikely)

    def _measurable(self) -> bool:
        """Tell whether the noise of the smallest release is within what can be drawn."""
        columns = len(self._rows.coded.columns) + 1
        # a column moves by less than 4 HALF entries of at most ONE each, counts included
        most = 4 * HALF * ONE
        moved = self._ledger.for_person(Sensitivity(columns * most, columns * most**2))
        return drawable(self._budget.part(LEAST_SHARE).event, moved)

    def _variance(self, measured: Strategy) -> float:
        """Return the variance of the noise of one release that takes the whole budget."""
        moved = self._ledger.for_person(measured.sensitivity(counts=False))
        return self._budget.variance(moved) / (2 * HALF * ONE) ** 2

    def _evenness(self, budget: Budget) -> float:
        """Release how many rows have each label; 1 if two labels are equally common, else less."""
        one = self._targets == 1
        # of outcomes their sum, in units in which each is an integer
        unit = OUTCOMES if self._rows.classes is None else 1

        def counted(at: slice) -> Integers:
            y = self._rows.coded.y[at]
            if one:
                return np.array([np.rint(unit * y).sum(dtype=np.int64)])
            return np.bincount(y, minlength=self._targets)

        counts = self._ledger.add_noise(
            self._rows.coded.fold(counted),
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

    def _round(
        self, fit: AdditiveFit, measured: Strategy, budget: Budget, *, again: bool = False
    ) -> None:
        """Release the residuals that the model leaves, or again those of none; learn from them."""
        pure, model = budget.pure, fit.nothing if again else fit.model
        table = moment_table(model, self.cells, pure=pure)
        counts = not pure or fit.drift is None  # with Laplace noise they cost
        noisy = release(table, measured, budget.event, self._ledger, counts=counts)
        (fit.add if again else fit.learn)(noisy)


def once(size: int) -> Sensitivity:
    """Return how far one row moves so many counts, each by one at most."""
    return Sensitivity(size, size)
