"""The learner: sums and trees where the budget is small, and growth where it is not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Draw, Steps
from skpublicdp.boosting.additive import AdditiveFit
from skpublicdp.boosting.features import MOST_CELLS, FeatureMap, carried, refined
from skpublicdp.boosting.growth import Growth
from skpublicdp.boosting.halves import Look
from skpublicdp.boosting.halving import HALVING_SHARE, Halving
from skpublicdp.boosting.known import Start, starts
from skpublicdp.boosting.loss import Loss
from skpublicdp.boosting.moments import PROOF
from skpublicdp.boosting.monotone import constrained
from skpublicdp.boosting.plan import (
    ATTEMPTS,
    EVEN_ENOUGH,
    FINDABLE,
    FINE,
    LEAF_SHARE,
    MAX_VOTES,
    MOST_LOOK_SHARE,
    RATE_SHARE,
    SWEEPS,
    Attempt,
    Budget,
    added_up,
    attempted,
    choose_attempt,
    first_share,
    grows,
    moments_budget,
    n_measured,
    n_rounds,
    n_votes,
    quality,
    rows_to_grow_on,
    sums_below_noise,
    vote_rate,
)
from skpublicdp.boosting.posterior import PublicDesign
from skpublicdp.boosting.questions import carried_questions
from skpublicdp.boosting.residuals import SPREAD_SHARE, residual_counts, residual_variance
from skpublicdp.boosting.rows import Cells
from skpublicdp.boosting.scores import HALF, Model, nothing, probabilities
from skpublicdp.boosting.stages import Stages
from skpublicdp.boosting.strategy import Strategy
from skpublicdp.boosting.votes import LEAVES, Voters
from skpublicdp.ledger import Ledger, drawable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Learned:
    """What the stages came to.

    Attributes
    ----------
    model : Model
        Scores of cells and trees.
    cells : Cells
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
    residuals : ndarray of int64, shape (len(EDGES) - 1,), or None
        How many outcomes lie how far from what is predicted, from -1 to 1, with noise.
    """

    model: Model
    cells: Cells
    loss: Loss
    covariances: list[Floats]
    drift: float | None
    drifted: bool
    residuals: Integers | None


class Learner(Stages):
    """Runs the stages on private rows."""

    def too_few_rows(self, method: str) -> bool:
        """Indicate, by public numbers, whether noise hides the strongest possible effects."""
        sums = sums_below_noise(self._whole, self._n, self._columns)
        whole = Budget(self._ledger.epsilon, pure=True)
        trees = quality(whole, self._persons, self._log_size) < FINDABLE
        if method == "votes":
            return trees
        # without labels there are no trees in place of sums
        return sums and (trees or method == "moments" or self._rows.classes is None)

    def votes(self) -> Learned:
        """Spend all on trees: those for more than two labels have measured leaves, others vote."""
        ledger = self._ledger
        whole = Budget(ledger.epsilon, pure=True)
        if self._targets > 1:
            return self._all_measured(whole)
        model = nothing(self.cells.features.offsets, self._targets)
        few = n_votes(whole, self._persons, self._log_size)
        count = self._most or (few if added_up(ledger, few) else MAX_VOTES)
        each = Draw(ledger.equal_draws(count))
        ledger.plan(Steps((each,) * count))
        model = self._voted(model, each, count, ledger, pure=added_up(ledger, count))
        return self._learned(model)

    def _all_measured(self, budget: Budget) -> Learned:
        """Look at the columns, and spend all else on trees with measured leaves."""
        if self._ledger.fits(budget.event):
            self._ledger.plan(budget.event)
        else:  # pure fits are dear to a budget that adds up noise
            budget = self._whole
        most, count = 2 * MOST_LOOK_SHARE, self._n_measured(budget)
        self._check_leaves(budget.part((1 - most) * LEAF_SHARE / count))
        self._budget = budget
        look, spent = self._look(most)
        left = budget.part(1 - spent)
        weights = None if look is None else look.weights
        if weights is not None:
            self._cut(FINE, weights)
        hopeless = look is not None and look.drifted and weights is None
        known = None if hopeless else self._rows.known
        design = self._design(weights)
        begin = starts(self.cells.features, design, self._targets, known)
        voters = self._voters(begin, self._ledger)
        # no more than were checked, even if fewer trees are left to choose among
        self._measure(voters, left, min(count, self._n_measured(left)), design)
        sure = [*voters.of_columns, *voters.of_trees]
        return self._learned(voters.model, look=look, of_trees=sure)

    def _n_measured(self, budget: Budget) -> int:
        found = n_measured(quality(budget, self._persons, self._log_size))
        return min(found, self._most or MAX_VOTES)

    def _check_leaves(self, budget: Budget) -> None:
        """Refuse a budget with which the noise of sums over leaves cannot be drawn."""
        if not drawable(budget.event, self._ledger.for_person(LEAVES)):
            raise ValueError(
                f"epsilon = {float(self._ledger.epsilon):g} is so small that the noise of sums "
                "over leaves is too large to be drawn; use a larger one."
            )

    def both(self) -> Learned:
        """Release sums and draw trees, or draw trees alone where sums are of little use.

        That is without public rows, and where ε add up in sums for many columns and labels.
        """
        loud = self._targets > 1 and self._whole.pure
        useful = self._rows.n_public and not loud
        return self.moments(trees=True) if useful or self._grows else self.votes()

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
        if self._grows:
            return self._grown(trees=trees)
        columns = self._columns
        n, m = self._n, len(self._rows.X_public)
        self._budget, outcomes = self._whole, self._rows.classes is None
        pure = self._budget.pure
        attempt = None if pure or outcomes or not trees else self._attempt(self._persons)
        planned = attempt is not None
        if planned:
            self._budget = moments_budget(self._ledger, trees=True)
        if not self._measurable():
            if trees and not outcomes:
                return self.votes()
            instead = "." if outcomes else ", or method='votes'."
            raise ValueError(
                f"epsilon = {float(self._ledger.epsilon):g} is so small that the noise of sums is "
                f"too large to be drawn; use a larger one{instead}"
            )
        left, evenness = Fraction(1), 1.0
        if not pure or n_rounds(n, m, self._budget.variance(columns)) > 1:
            left -= RATE_SHARE
            evenness = self._evenness(self._budget.part(RATE_SHARE))
        # rare labels make a tree harder to find than the number of rows tells
        attempt = attempt and self._attempt(self._persons * evenness**2)
        if planned:  # without an attempt there is noise alone, which any of them covers
            self._ledger.choose(attempted(self._budget, attempt or ATTEMPTS[0]))
        later = attempt.probe + attempt.rest if attempt else Fraction(0)
        stop = trees and not outcomes  # trees can vote instead, but for labels alone
        fit, measured, look, left = self._additive(left - later, evenness, stop=stop)
        model = fit.model
        of_trees: list[Floats] = []
        if self._unlike(fit) and stop:
            if left + later:
                model, of_trees = self._voted_instead(model, left + later, fit.design)
        elif attempt:
            model, of_trees = self._probed(fit, measured, attempt)
        return self._learned(model, fit, look, of_trees=of_trees)

    @property
    def _grows(self) -> bool:
        """Tell whether something is left to grow with."""
        return grows(self._whole, self._n, self._columns)

    def _grown(self, *, trees: bool) -> Learned:
        """Let an additive fit have what it needs, and grow with what is left."""
        whole, columns = self._whole, self._columns
        evenness = self._evenness(whole.part(RATE_SHARE))
        worth = min(1.0, evenness / EVEN_ENOUGH)
        self._thin_out(whole, worth)
        effective = self._n * worth
        loss, fit, look, left = self._loss, None, None, 1 - RATE_SHARE
        model, size = nothing(self.cells.features.offsets, self._targets), 0.0
        design = self._design()
        if self._rows.n_public:  # a mere reference says nothing of what columns have in common
            share = left  # too few rows may have the rarer labels
            if grows(whole, effective, columns):
                share = first_share(whole, effective, design.size, columns)
            self._budget = whole.part(share)
            fit, _, look, unspent = self._additive(Fraction(1), evenness, stop=True)
            model, design, size = fit.model, fit.design, fit.design.size
            left -= share * (1 - unspent)
            if not left:
                return self._learned(fit.model, fit, look)
        # the cells so far are cut further
        coarse, weights = self.cells.features, design.weights
        self.cells = self._rows.cells(refined(coarse, self._rows.X_public, weights))
        model = self._carried(model, coarse)
        model = loss.converted(model, self.cells.public_codes, weights)
        budget = whole.part(left)
        sampling = loss.sampling
        if sampling is None:
            sampling = residual_variance(
                model, self.cells, weights, loss, self._ledger, budget.part(RATE_SHARE)
            )
            budget = budget.part(1 - RATE_SHARE)
        margins = self.cells.margins(model)
        halving = Halving(self._rows, self.cells, loss, self._ledger, budget, sampling)
        if halving.worth(effective):
            before = self.cells.features
            self.cells = halving.run(margins)
            model = self._carried(model, before)
            budget = budget.part(1 - HALVING_SHARE)
        growth = Growth(model, self.cells, margins, weights, size, loss, self._ledger, sampling)
        asked = carried_questions(self._asked, coarse, self.cells.features) if trees else None
        last = None if self._n == self._all.n else replace(self.cells, rows=self._all)
        growth.run(budget, effective, asked, self._most, last)
        return self._learned(growth.model, fit, look, growth.covariances)

    def _thin_out(self, budget: Budget, worth: float) -> None:
        """Run the stages that follow on some of the rows, if half of them are enough."""
        visit = budget.part(Fraction(1, SWEEPS * len(self._all.columns)))
        noise = visit.variance(self._ledger.for_person(self._loss.moved)) / (2 * HALF) ** 2
        few = math.ceil(rows_to_grow_on(noise, MOST_CELLS) / worth)
        if 2 * few > self._n:
            return
        # at random: positions that are fixed hold others where a table is sorted by a value
        some = self._all.some(self._ledger.subset(self._n, few))
        self._rows, self._n = replace(self._rows, coded=some), few
        self._cut(FINE)

    def _carried(self, model: Model, before: FeatureMap) -> Model:
        """Return a model of cells that were cut further since."""
        now = self.cells.features
        return replace(model, scores=carried(model.scores, before, now), offsets=now.offsets)

    def _learned(
        self,
        model: Model,
        fit: AdditiveFit | None = None,
        look: Look | None = None,
        covariances: list[Floats] | None = None,
        of_trees: list[Floats] | None = None,
    ) -> Learned:
        """Sum up; what public rows look like before they are reweighed is what counts as drift."""
        drift, drifted = (fit.drift, fit.drifted) if fit else (None, False)
        if look is not None and (fit is None or look.drifted):
            drift, drifted = look.drift, look.drifted
        if covariances is None:
            # a logistic model of each target so far
            codes = self.cells.public_codes
            design = fit.design if fit else self._design(look.weights if look else None)
            weights = design.weights
            factors = self._loss.factors(probabilities(model.margins(codes)) @ weights)
            model = self._loss.converted(model, codes, weights)
            known = [*(fit.covariances if fit else []), *(of_trees or [])]
            covariances = [factors[:, None, None] ** 2 * of_column for of_column in known]
        if self._directions is not None:
            features, codes = self.cells.features, self.cells.public_codes
            model = constrained(model, features, codes, self._directions, covariances)
        left = None
        if self._rows.classes is None:
            budget = moments_budget(self._ledger, trees=False).part(SPREAD_SHARE)
            cells = replace(self.cells, rows=self._all)
            left = residual_counts(model, cells, self._loss, self._ledger, budget)
        return Learned(model, self.cells, self._loss, covariances, drift, drifted, left)

    def _attempt(self, effective: float) -> Attempt | None:
        """Choose what trees may spend if there are as good as so many persons."""
        return choose_attempt(quality(self._budget, effective, self._log_size))

    def _probed(
        self, fit: AdditiveFit, measured: Strategy, attempt: Attempt
    ) -> tuple[Model, list[Floats]]:
        """Try a tree; let another follow if it explains something, else a round of sums."""
        voters = self._voters([Start(fit.model, [])], self._ledger)
        gain = self._grow(voters, fit, attempt.probe)
        if gain > 0 or fit.stopped:
            self._grow(voters, fit, attempt.rest)
            return voters.model, voters.of_trees
        self._round(fit, measured, self._budget.part(attempt.rest))
        return fit.model, []

    def _grow(self, voters: Voters, fit: AdditiveFit, share: Fraction) -> float:
        drawn = self._budget.part(share * (1 - LEAF_SHARE))
        leaves = self._budget.part(share * LEAF_SHARE)
        return voters.grow(drawn.draw, leaves.event, fit.design)

    def _voted_instead(
        self, model: Model, share: Fraction, design: PublicDesign
    ) -> tuple[Model, list[Floats]]:
        """Let trees follow with what is left of the budget, as if they were noise."""
        left = self._budget.part(share)
        if self._targets > 1:
            name = "exponential mechanism, exact draws of trees, and noisy sums over their leaves"
            voters = self._voters(
                [Start(model, [])], self._ledger.child(left.event, name=name, proof=PROOF)
            )
            self._measure(voters, left, self._n_measured(left), design)
            return voters.model, voters.of_trees
        count = n_votes(self._budget, self._persons, self._log_size, share)
        name = f"exponential mechanism, exact draws of {count} trees"
        paid = self._ledger.child(left.event, name=name, proof=PROOF)
        each = left.part(Fraction(1, count)).draw_like_noise
        return self._voted(model, each, count, paid, pure=left.pure), []

    @staticmethod
    def _measure(voters: Voters, budget: Budget, count: int, design: PublicDesign) -> None:
        """Draw trees, and measure the leaves of each before the next one is drawn."""
        each = budget.part(Fraction(1, count))
        drawn, leaves = each.part(1 - LEAF_SHARE), each.part(LEAF_SHARE)
        for _ in range(count):
            voters.grow(drawn.draw_like_noise, leaves.event, design)

    def _voted(self, model: Model, each: Draw, count: int, ledger: Ledger, *, pure: bool) -> Model:
        """Let trees vote."""
        rate = vote_rate(count, pure=pure) if self._rate is None else self._rate
        voters = self._voters([Start(model, [])], ledger)
        for _ in range(count):
            voters.vote(each, rate)
        return voters.model

    def _voters(self, begin: list[Start], ledger: Ledger) -> Voters:
        return Voters(begin, self._cover, self.cells, ledger)
