"""The stages: shares of labels, looks, rounds of sums, trees; each spends, and each is listed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.additive import UNLIKE, AdditiveFit
from skpublicdp.boosting.door import BoostingRows
from skpublicdp.boosting.halves import UNLIKELY, Look, compare, halves, tendencies
from skpublicdp.boosting.moments import cell_sums, exact_noise, moment_table, release
from skpublicdp.boosting.plan import (
    COARSE,
    EVEN,
    FINE,
    GAIN,
    LEAF_SHARE,
    LEAST_SHARE,
    LOOK_ROUNDS,
    LOOKS_TO_SUMS,
    MAX_ROUNDS,
    RATE_SHARE,
    SECOND_LOOK,
    Attempt,
    Budget,
    choose_attempt,
    look_share,
    moments_budget,
    n_rounds,
    n_votes,
    quality,
    round_shares,
    vote_rate,
    votes_budget,
)
from skpublicdp.boosting.posterior import MISMATCH, PublicDesign, Scores, kernels
from skpublicdp.boosting.questions import questions, tree_cover
from skpublicdp.boosting.scores import HALF, Model, nothing
from skpublicdp.boosting.strategy import ONE, Strategy, cell_strategy, smooth_strategy
from skpublicdp.boosting.votes import Voters
from skpublicdp.mechanisms.noise import LARGEST_SCALE
from skpublicdp.mechanisms.randomness import RandomBits

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

TREE = "exponential mechanism, exact draw of a tree"


@dataclass(frozen=True)
class Spent:
    """One use of the private rows.

    Attributes
    ----------
    name : str
        What was run.
    budget : Budget
        What it took.
    epsilon : Fraction or None
        The ε of an exact draw; ``None`` where it was noise.
    """

    name: str
    budget: Budget
    epsilon: Fraction | None = None


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
    spent : tuple of Spent
        Every use of the private rows, in order.
    """

    model: Model
    beliefs: list[Scores]
    drift: float | None
    drifted: bool
    spent: tuple[Spent, ...]


class Learner:
    """Runs the stages on private rows.

    Parameters
    ----------
    rows : BoostingRows
        Private and public rows and the budget.
    bits : RandomBits
        Source of randomness.
    max_rounds : int, optional
        Most rounds of sums, or number of trees that vote; chosen by rule otherwise.
    learning_rate : float, optional
        What a vote adds on either side of the margin; chosen by rule otherwise.
    n_jobs : int, optional
        Number of joblib threads.
    report : callable, optional
        Called with the name of each stage.
    """

    def __init__(
        self,
        rows: BoostingRows,
        *,
        bits: RandomBits,
        max_rounds: int | None = None,
        learning_rate: float | None = None,
        n_jobs: int | None = None,
        report: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._rows = rows
        self._y = rows.y
        self._n_classes = len(rows.classes)
        self._targets = 1 if self._n_classes == 2 else self._n_classes
        self._bits = bits
        self._most = max_rounds
        self._rate = learning_rate
        self._n_jobs = n_jobs
        self._report = report
        self._spent: list[Spent] = []
        self._cut(FINE)

    def _cut(self, max_bins: int, weights: Floats | None = None) -> None:
        self.cells = self._rows.cut(max_bins, weights)
        features, codes = self.cells.features, self.cells.public_codes
        asked = questions(features, codes)
        self._cover = tree_cover(asked, codes, features.names, self._rows.classes, depth=2)
        self._log_size = math.log(self._cover.size)

    def votes(self) -> Learned:
        """Spend all on trees that vote."""
        epsilon, delta = self._rows.epsilon, self._rows.delta
        count = n_votes(Budget(epsilon, pure=True), len(self._y), self._log_size)
        self._budget = votes_budget(epsilon, delta, self._most or count)
        model = nothing(self.cells.features.offsets, self._targets)
        model = self._voted(model, Fraction(1), alone=True)
        return Learned(model, [], None, False, tuple(self._spent))

    def moments(self, *, trees: bool) -> Learned:
        """Release sums in rounds, and try trees after them.

        Parameters
        ----------
        trees : bool
            Whether trees may follow.
        """
        n, m = len(self._y), len(self._rows.X_public)
        epsilon, delta = self._rows.epsilon, self._rows.delta
        self._budget = moments_budget(epsilon, delta, trees=False)
        attempt = self._attempt(n) if trees else None
        if attempt:
            self._budget = moments_budget(epsilon, delta, trees=True)
        pure = self._budget.pure
        if not self._measurable():
            return self.votes()
        left, evenness = Fraction(1), 1.0
        if not pure or n_rounds(n, m, self._budget.variance(self._rows.X.shape[1])) > 1:
            left -= RATE_SHARE
            evenness = self._evenness(self._budget.part(RATE_SHARE))
        # rare labels make a tree harder to find than the number of rows tells
        attempt = attempt and self._attempt(n * evenness**2)
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
            if fit.drifted and fit.drift > UNLIKE:
                fit.damp()
                model = self._voted(fit.model, left) if left else fit.model
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
        return Learned(model, fit.beliefs, drift, drifted, tuple(self._spent))

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
        share = look_share(self._budget, n, len(halves(self.cells.features, design)))
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
        cells, budget = self.cells, self._budget.part(share)
        chosen = halves(cells.features, design)
        self._spend("noisy counts of halves of columns", budget)
        none = np.empty((0, len(self._y)), dtype=np.int64)
        rows = cell_sums(none, cells.codes, cells.features.offsets)[-1]
        size = len(chosen)  # how far one row moves the counts, in absolute values and in squares
        noise, variance = exact_noise(size, budget.amount, size, self._bits, pure=budget.pure)
        T = tendencies(cells.features, design.X, self._rows.X_public)
        return compare(design, chosen, T, chosen @ rows + noise, variance, unlikely)

    def _measurable(self) -> bool:
        """Tell whether the noise of the smallest release is within what can be drawn."""
        columns = self._rows.X.shape[1] + 1
        least = LEAST_SHARE * self._budget.amount
        # a column moves by less than 4 HALF entries of at most ONE each, counts included
        if self._budget.pure:
            return bool(columns * 4 * HALF * ONE / least <= LARGEST_SCALE)
        return bool(columns * (4 * HALF * ONE) ** 2 / least <= LARGEST_SCALE**2)

    def _variance(self, measured: Strategy) -> float:
        """Return the variance of the noise of one release that takes the whole budget."""
        power = 1 if self._budget.pure else 2
        sensitivity = measured.sensitivity(pure=self._budget.pure, counts=False)
        return self._budget.variance(sensitivity / (2 * HALF * ONE) ** power)

    def _evenness(self, budget: Budget) -> float:
        """Release how many rows have each label; 1 if two labels are equally common, else less."""
        pure = budget.pure
        counts = np.bincount(self._y, minlength=self._n_classes)
        if self._n_classes == 2:
            counts, sensitivity = counts[1:], 1
        else:
            sensitivity = 2  # one label has a row less, another a row more: L1 and squared L2
        self._spend("noisy counts of the labels", budget)
        noise, _ = exact_noise(sensitivity, budget.amount, len(counts), self._bits, pure=pure)
        n = len(self._y)
        shares = np.clip((counts + noise) / n, min(3 / n, 0.5), max(1 - 3 / n, 0.5))
        if self._n_classes == 2:
            return float(4 * shares[0] * (1 - shares[0]))
        shares = shares / shares.sum()
        return min(1.0, float(2 * (1 - shares @ shares)))

    def _attempt(self, effective: float) -> Attempt | None:
        """Choose what trees may spend if there are as good as so many rows."""
        return choose_attempt(quality(self._budget, effective, self._log_size))

    def _round(
        self, fit: AdditiveFit, measured: Strategy, budget: Budget, *, again: bool = False
    ) -> None:
        """Release the residuals that the model leaves, or again those of none; learn from them."""
        pure = budget.pure
        model = fit.nothing if again else fit.model
        table = moment_table(model, self.cells.codes, self._y, pure=pure, n_jobs=self._n_jobs)
        counts = not pure or fit.drift is None  # with Laplace noise they cost
        self._spend("noisy sums of residuals over cells", budget)
        noisy = release(table, measured, budget.amount, self._bits, pure=pure, counts=counts)
        (fit.add if again else fit.learn)(noisy)

    def _probed(self, fit: AdditiveFit, measured: Strategy, attempt: Attempt) -> Model:
        """Try a tree; let another follow if it explains something, else a round of sums."""
        voters = self._voters(fit.model)
        gain = self._grow(voters, fit, attempt.probe)
        if gain > GAIN or fit.stopped:
            self._grow(voters, fit, attempt.rest)
            return voters.model
        self._round(fit, measured, self._budget.part(attempt.rest))
        return fit.model

    def _grow(self, voters: Voters, fit: AdditiveFit, share: Fraction) -> float:
        drawn = self._budget.part(share * (1 - LEAF_SHARE))
        leaves = self._budget.part(share * LEAF_SHARE)
        self._spend(TREE, drawn, drawn.draw)
        self._spend("noisy sums of residuals over its leaves", leaves)
        return voters.grow(
            drawn.draw, leaves.amount, fit.design, self.cells.public_codes, pure=leaves.pure
        )

    def _voted(self, model: Model, share: Fraction, *, alone: bool = False) -> Model:
        """Let trees vote with a share of the budget."""
        budget, most = self._budget, self._most if alone else None
        count = n_votes(budget, len(self._y), self._log_size, share) if most is None else most
        rate = vote_rate(count, pure=budget.pure) if self._rate is None else self._rate
        voters = self._voters(model)
        part = budget.part(share / count)
        for _ in range(count):
            epsilon = part.draw if alone else part.draw_like_noise
            self._spend(TREE, part, epsilon)
            voters.vote(epsilon, rate)
        return voters.model

    def _voters(self, model: Model) -> Voters:
        return Voters(model, self._cover, self.cells.codes, self._y, self._bits, self._n_jobs)

    def _spend(self, name: str, budget: Budget, epsilon: Fraction | None = None) -> None:
        self._spent.append(Spent(name, budget, epsilon))
        self._report(name)
