"""The stages: shares of labels, looks, rounds of sums, trees; each spends, and each is listed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Draw, Sensitivity, Steps
from skpublicdp.boosting.additive import UNLIKE, AdditiveFit
from skpublicdp.boosting.door import BoostingRows
from skpublicdp.boosting.halves import UNLIKELY, Look, compare, halves, tendencies
from skpublicdp.boosting.moments import PROOF, cell_sums, moment_table, release
from skpublicdp.boosting.plan import (
    ATTEMPTS,
    COARSE,
    EVEN,
    FINE,
    GAIN,
    LEAF_SHARE,
    LEAST_SHARE,
    LOOK_ROUNDS,
    LOOKS_TO_SUMS,
    MAX_ROUNDS,
    MAX_VOTES,
    RATE_SHARE,
    SECOND_LOOK,
    Attempt,
    Budget,
    added_up,
    attempted,
    choose_attempt,
    look_share,
    moments_budget,
    n_rounds,
    n_votes,
    quality,
    round_shares,
    vote_rate,
)
from skpublicdp.boosting.posterior import MISMATCH, PublicDesign, Scores, kernels
from skpublicdp.boosting.questions import questions, tree_cover
from skpublicdp.boosting.scores import HALF, Model, nothing
from skpublicdp.boosting.strategy import ONE, Strategy, cell_strategy, smooth_strategy
from skpublicdp.boosting.votes import Voters
from skpublicdp.ledger import Ledger, drawable

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Learned:
    """What the stages came to.

    Attributes
    ----------
    model : Model
        Scores of cells and trees.
    beliefs : list of Scores
        How sure the scores of cells are, for each target; empty if there were only votes.
    drift : float or None
        How unlike the public rows are.
    drifted : bool
        Whether that is more than chance.
    """

    model: Model
    beliefs: list[Scores]
    drift: float | None
    drifted: bool


class Learner:
    """Runs the stages on private rows.

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
    n_jobs : int, optional
        Number of joblib threads.
    """

    def __init__(
        self,
        rows: BoostingRows,
        ledger: Ledger,
        *,
        max_rounds: int | None = None,
        learning_rate: float | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self._rows = rows
        self._y = rows.y
        self._n_classes = len(rows.classes)
        self._targets = 1 if self._n_classes == 2 else self._n_classes
        self._ledger = ledger
        self._persons = len(rows.y) / ledger.rows_per_person  # as many as count for a draw
        self._most = max_rounds
        self._rate = learning_rate
        self._n_jobs = n_jobs
        self._cut(FINE)

    def _cut(self, max_bins: int, weights: Floats | None = None) -> None:
        self.cells = self._rows.cut(max_bins, weights)
        features, codes = self.cells.features, self.cells.public_codes
        asked = questions(features, codes)
        self._cover = tree_cover(asked, codes, features.names, self._rows.classes, depth=2)
        self._log_size = math.log(self._cover.size)

    def votes(self) -> Learned:
        """Spend all on trees that vote."""
        ledger = self._ledger
        whole = Budget(ledger.epsilon, pure=True)
        few = n_votes(whole, self._persons, self._log_size)
        count = self._most or (few if added_up(ledger, few) else MAX_VOTES)
        each = Draw(ledger.equal_draws(count))
        ledger.plan(Steps((each,) * count))
        model = nothing(self.cells.features.offsets, self._targets)
        model = self._voted(model, each, count, ledger, pure=added_up(ledger, count))
        return Learned(model, [], None, False)

    def moments(self, *, trees: bool) -> Learned:
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
        n, m = len(self._y), len(self._rows.X_public)
        self._budget = moments_budget(self._ledger, trees=False)
        pure = self._budget.pure
        attempt = None if pure or not trees else self._attempt(self._persons)
        planned = attempt is not None
        if planned:
            self._budget = moments_budget(self._ledger, trees=True)
        if not self._measurable():
            if trees:
                return self.votes()
            raise ValueError(
                f"epsilon = {float(self._ledger.epsilon):g} is so small that the noise of sums is "
                "too large to be drawn; use a larger one, or method='votes'."
            )
        left, evenness = Fraction(1), 1.0
        columns = self._ledger.for_person(_once(self._rows.X.shape[1]))
        if not pure or n_rounds(n, m, self._budget.variance(columns)) > 1:
            left -= RATE_SHARE
            evenness = self._evenness(self._budget.part(RATE_SHARE))
        # rare labels make a tree harder to find than the number of rows tells
        attempt = attempt and self._attempt(self._persons * evenness**2)
        if planned:  # without an attempt there is noise alone, which any of them covers
            self._ledger.choose(attempted(self._budget, attempt or ATTEMPTS[0]))
        later = attempt.probe + attempt.rest if attempt else Fraction(0)
        look, share = self._look(evenness, (left - later) * LOOKS_TO_SUMS)
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
        fit = AdditiveFit(features, design, measured, self._targets, pure=pure)
        rounds = n_rounds(n * evenness, design.size, self._variance(measured))
        rounds = min(rounds, self._most or MAX_ROUNDS)
        share = left - later
        for number, part in enumerate(round_shares(rounds, pure=pure)):
            again = rounds == 1 and number > 0
            self._round(fit, measured, self._budget.part(share * part), again=again)
            left -= share * part
            assert fit.drift is not None
            if trees and fit.drifted and fit.drift > UNLIKE:
                fit.damp()
                model = self._voted_instead(fit.model, left) if left else fit.model
                return self._learned(model, fit, look)
            if fit.stopped:
                break
        model = self._probed(fit, measured, attempt) if attempt else fit.model
        return self._learned(model, fit, look)

    def _learned(self, model: Model, fit: AdditiveFit, look: Look | None) -> Learned:
        """Sum up; what public rows look like before they are reweighed is what counts as drift."""
        drift, drifted = fit.drift, fit.drifted
        if look is not None and look.weights is not None:
            drift, drifted = look.drift, True
        return Learned(model, fit.beliefs, drift, drifted)

    def _design(self, weights: Floats | None = None) -> PublicDesign:
        """Return the public rows as they are cut now."""
        X = self.cells.features.indicators(self.cells.public_codes)
        weights = np.full(len(X), 1 / len(X)) if weights is None else weights
        return PublicDesign(X, weights, len(self._y))

    def _look(self, evenness: float, most: Fraction) -> tuple[Look | None, Fraction]:
        """Compare public rows with private ones, and if they look unlike once more when weighed.

        Parameters
        ----------
        evenness : float
            How even the labels are.
        most : Fraction
            The largest share of the budget that may be spent.

        Returns
        -------
        Look or None
            The first drift and the last weights; ``None`` if no look was made.
        Fraction
            The share of the budget that was spent.
        """
        n, design = len(self._y), self._design()
        cells = cell_strategy(self.cells.features, design.X, pure=self._budget.pure)
        if n_rounds(n * evenness, design.size, self._variance(cells)) > LOOK_ROUNDS:
            return None, Fraction(0)
        moved = self._ledger.for_person(_once(len(halves(self.cells.features, design))))
        share = look_share(self._budget, n, moved)
        if share is None or share > most:
            return None, Fraction(0)
        first, spent = self._counted(design, share, UNLIKELY), share * (1 + SECOND_LOOK)
        if first.weights is None or spent > most:
            return first, share
        self.cells = self._rows.cut(FINE, first.weights)
        second = self._counted(self._design(first.weights), share * SECOND_LOOK, 0.0)
        return Look(first.drift, first.weights if second.weights is None else second.weights), spent

    def _counted(self, design: PublicDesign, share: Fraction, unlikely: float) -> Look:
        """Count the rows in a half of each column, and compare them with public rows."""
        cells = self.cells
        chosen = halves(cells.features, design)
        none = np.empty((0, len(self._y)), dtype=np.int64)
        rows = cell_sums(none, cells.codes, cells.features.offsets)[-1]
        counts = self._ledger.add_noise(
            chosen @ rows,
            _once(len(chosen)),
            self._budget.part(share).event,
            name="noisy counts of halves of columns",
            proof=PROOF,
        )
        T = tendencies(cells.features, design.X, self._rows.X_public)
        return compare(design, chosen, T, counts.values, counts.variance, unlikely)

    def _measurable(self) -> bool:
        """Tell whether the noise of the smallest release is within what can be drawn."""
        columns = self._rows.X.shape[1] + 1
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
        counts = np.bincount(self._y, minlength=self._n_classes)
        two = self._n_classes == 2
        counts = self._ledger.add_noise(
            counts[1:] if two else counts,
            # of more than two labels one has a row less, another one a row more
            Sensitivity(1, 1) if two else Sensitivity(2, 2),
            budget.event,
            name="noisy counts of the labels",
            proof=PROOF,
        ).values
        n = len(self._y)
        shares = np.clip(counts / n, min(3 / n, 0.5), max(1 - 3 / n, 0.5))
        if two:
            return float(4 * shares[0] * (1 - shares[0]))
        shares = shares / shares.sum()
        return min(1.0, float(2 * (1 - shares @ shares)))

    def _attempt(self, effective: float) -> Attempt | None:
        """Choose what trees may spend if there are as good as so many persons."""
        return choose_attempt(quality(self._budget, effective, self._log_size))

    def _round(
        self, fit: AdditiveFit, measured: Strategy, budget: Budget, *, again: bool = False
    ) -> None:
        """Release the residuals that the model leaves, or again those of none; learn from them."""
        pure, model = budget.pure, fit.nothing if again else fit.model
        table = moment_table(model, self.cells.codes, self._y, pure=pure, n_jobs=self._n_jobs)
        counts = not pure or fit.drift is None  # with Laplace noise they cost
        noisy = release(table, measured, budget.event, self._ledger, counts=counts)
        (fit.add if again else fit.learn)(noisy)

    def _probed(self, fit: AdditiveFit, measured: Strategy, attempt: Attempt) -> Model:
        """Try a tree; let another follow if it explains something, else a round of sums."""
        voters = self._voters(fit.model, self._ledger)
        gain = self._grow(voters, fit, attempt.probe)
        if gain > GAIN or fit.stopped:
            self._grow(voters, fit, attempt.rest)
            return voters.model
        self._round(fit, measured, self._budget.part(attempt.rest))
        return fit.model

    def _grow(self, voters: Voters, fit: AdditiveFit, share: Fraction) -> float:
        drawn = self._budget.part(share * (1 - LEAF_SHARE))
        leaves = self._budget.part(share * LEAF_SHARE)
        return voters.grow(drawn.draw, leaves.event, fit.design, self.cells.public_codes)

    def _voted_instead(self, model: Model, share: Fraction) -> Model:
        """Let trees vote with what is left of the budget, as if they were noise."""
        left = self._budget.part(share)
        count = n_votes(self._budget, self._persons, self._log_size, share)
        name = f"exponential mechanism, exact draws of {count} trees"
        paid = self._ledger.child(left.event, name=name, proof=PROOF)
        each = left.part(Fraction(1, count)).draw_like_noise
        return self._voted(model, each, count, paid, pure=left.pure)

    def _voted(self, model: Model, each: Draw, count: int, ledger: Ledger, *, pure: bool) -> Model:
        """Let trees vote."""
        rate = vote_rate(count, pure=pure) if self._rate is None else self._rate
        voters = self._voters(model, ledger)
        for _ in range(count):
            voters.vote(each, rate)
        return voters.model

    def _voters(self, model: Model, ledger: Ledger) -> Voters:
        return Voters(model, self._cover, self.cells.codes, self._y, ledger, self._n_jobs)


def _once(size: int) -> Sensitivity:
    """Return how far one row moves so many counts, each by one at most."""
    return Sensitivity(size, size)
