"""The additive model, learned from released sums and public rows alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.binner import Binner
from skpublicdp.boosting.budget_split import MISMATCH
from skpublicdp.boosting.covariate_shift import calibrate_weights, expected_bin_shares
from skpublicdp.boosting.known import TRUSTS, KnownOutcomes, averaged, conditioned, trusted
from skpublicdp.boosting.moments import Noisy
from skpublicdp.boosting.posterior import (
    CellScores,
    PublicDesign,
    Release,
    Scores,
    condensed,
    kernels,
    learned,
    prior,
    smoothness,
    update,
)
from skpublicdp.boosting.scores import UNIT, Model, nothing, probabilities, scale
from skpublicdp.boosting.strategy import ONE, Strategy

Floats = NDArray[np.float64]

DRIFTED, UNLIKE = 1.6, 5.0
"""Values of the drift statistic beyond which public rows are reweighed, or hardly trusted.

With few cells it varies more: then the first is at three of its standard deviations at least.
"""


class AdditiveFit:
    """Scores of cells, round by round.

    Parameters
    ----------
    features : Binner
        Cells.
    design : PublicDesign
        Public rows and the number of private ones.
    strategy : Strategy
        What is measured.
    n_targets : int
        1 for two labels, otherwise their number.
    pure : bool
        How residuals are scaled.
    known : KnownOutcomes, optional
        Outcomes of public rows.

    Attributes
    ----------
    model : Model
        The model so far.
    nothing : Model
        The model before the first round.
    beliefs : list of CellScores
        What is believed of each target's scores; empty before the first round.
    drift : float or None
        How unlike the public rows are, about 1 if they are of the same population.
    drifted : bool
        Whether that is more than chance.
    design : PublicDesign
        The public rows, reweighed if they look unlike.
    stopped : bool
        Whether a step overshot, so that no further one should be made.
    """

    def __init__(
        self,
        features: Binner,
        design: PublicDesign,
        strategy: Strategy,
        n_targets: int,
        *,
        pure: bool,
        known: KnownOutcomes | None = None,
    ) -> None:
        self.design = design
        self._known = known
        self.beliefs: list[CellScores] = []
        self.drift: float | None = None
        self.drifted = False
        self.stopped = False
        self.model = nothing(features.offsets, n_targets)
        self.nothing = self.model
        self._first: Noisy | None = None
        self._features = features
        self._public = design
        self._pure = pure
        self._strategy = strategy
        self._every = strategy.every / ONE
        self._Z = strategy.combined(design.X) / ONE
        self._expected, self._spread = self._public_counts()
        self._counts: Floats | None = None
        self._count_variance = np.inf
        self._steps: list[Floats] = []

    @property
    def covariances(self) -> list[Floats]:
        """What is believed of the scores of each column, shape (n_targets, n_cells, n_cells)."""
        columns = zip(*(belief.covariances for belief in self.beliefs), strict=True)
        return [np.array(column) for column in columns]

    def learn(self, noisy: Noisy) -> None:
        """Take in the released table of the present model."""
        self._count(noisy)
        if not self.beliefs:
            self._begin(noisy)
        elif not self._overshot(noisy):
            updated = [
                learned(belief, self.design, released)
                for belief, released in zip(self.beliefs, self._releases(noisy), strict=True)
            ]
            self._steps = [
                new.along.mean - old.along.mean
                for new, old in zip(updated, self.beliefs, strict=True)
            ]
            self.beliefs = updated
        self._set_model()

    def add(self, noisy: Noisy) -> None:
        """Take in another table of the model before the first round, and begin again."""
        assert self._first is not None
        self._count(noisy)
        first = self._first
        old, new = 1 / first.variance, 1 / noisy.variance
        pooled = (old * first.sums + new * noisy.sums) / (old + new)
        self.beliefs, self._steps = [], []
        self.model = self.nothing
        self._begin(Noisy(pooled, None, 1 / (old + new), np.inf))
        self._set_model()

    def damp(self) -> None:
        """Halve all scores: they rest on public rows that look unlike the private ones."""
        self.model = Model(self.model.scores // 2, self.model.intercepts, self.model.offsets)

    def _set_model(self) -> None:
        scores = np.rint(UNIT * np.array([belief.mean for belief in self.beliefs]))
        integers = scores.astype(np.int64)
        self.model = Model(integers[:, :-1], integers[:, -1], self._features.offsets)

    def _public_counts(self) -> tuple[Floats, Floats]:
        """Return the counts that public rows lead to expect, and their variances."""
        n, m = self._public.n, self._public.size
        shares = expected_bin_shares(self._features, self._public)
        means = self._strategy.combined(shares) / ONE
        squares = replace(self._strategy, blocks=tuple(b**2 for b in self._strategy.blocks))
        spread = squares.combined(np.maximum(shares, 0.5 / m)) / ONE**2
        for part, by_cell in zip(self._strategy.parts, self._strategy.by_cell, strict=True):
            if not by_cell:  # the counts of single cells are as good as independent
                spread[part] -= means[part] ** 2
        means[-1], spread[-1] = self._every, 0.0  # the number of rows is public
        return n * means, n**2 * np.maximum(spread, 0.0) / m

    def _count(self, noisy: Noisy) -> None:
        """Pool counts by their precision, and weigh public rows by them if they look unlike."""
        if noisy.counts is None:
            return
        n, counts = self._public.n, noisy.counts.copy()
        free = 0
        for part, by_cell in zip(self._strategy.parts, self._strategy.by_cell, strict=True):
            free += part.stop - part.start
            if by_cell:  # their total is public
                counts[part] += (n - counts[part].sum()) / (part.stop - part.start)
                free -= 1
        old, new = 1 / self._count_variance, 1 / noisy.count_variance
        if self._counts is None:
            misses = (counts - self._expected) ** 2 / (noisy.count_variance + self._spread)
            self.drift = float(misses[:-1].sum() / max(free, 1))
            self.drifted = self.drift > max(DRIFTED, 1 + 3 * np.sqrt(2 / max(free, 1)))
            self._counts = counts
        else:
            self._counts = (old * self._counts + new * counts) / (old + new)
        self._count_variance = 1 / (old + new)
        if self.drifted:
            variances = np.full(len(self._counts), self._count_variance)
            told, Z = condensed(self._counts, variances, self._Z)
            self.design = calibrate_weights(self._public, Z, told, 1.0)

    def _baseline(self) -> tuple[Floats, Floats]:
        """Return what the present model makes of public rows: probabilities, and their `scale`."""
        cells = self._public.X.astype(np.int64)
        baseline = probabilities(self.model.intercepts[:, None] + self.model.scores @ cells.T)
        return baseline, scale(baseline, self._pure)

    def _releases(self, noisy: Noisy) -> list[Release]:
        """Describe released sums of the present model, for each target."""
        baseline, factor = self._baseline()
        variances = np.full(noisy.sums.shape[1], noisy.variance)
        sums, Z = condensed(noisy.sums, variances, self._Z)
        noise = np.eye(Z.shape[1])
        return [
            Release(told, noise, Z, factor, probability)
            for told, probability in zip(sums, baseline, strict=True)
        ]

    def _begin(self, noisy: Noisy) -> None:
        """Centre the first sums at the shares of the labels, choose the smoothness and begin."""
        self._first = noisy
        n, m = self._public.n, len(self._public.X)
        counts, count_variance = self._shrunk_counts()
        blocks = kernels(self._features, self.design)
        baseline, factor = (found[..., 0] for found in self._baseline())  # all rows are alike
        starts, releases = [], []
        for center, sums in zip(baseline, noisy.sums / factor, strict=True):
            rate = center + self._excess(sums) / n
            least = min(max(0.01, 3 / n), 0.5)
            rate = float(np.clip(rate, least, 1 - least))
            told, Z = condensed(
                sums + (center - rate) * counts,
                noisy.variance / factor**2 + (center - rate) ** 2 * count_variance,
                self._Z,
            )
            centred = Release(told, np.eye(len(told)), Z, np.ones(m), np.full(m, rate))
            theta = smoothness(blocks, self.design, centred, rate)
            starts.append(prior(blocks, theta, float(np.log(rate / (1 - rate))), self.design.X))
            releases.append(centred)
        self.beliefs = self._conditioned(starts, releases)
        pairs = zip(self.beliefs, starts, strict=True)
        self._steps = [belief.along.mean - start.along.mean for belief, start in pairs]

    def _conditioned(self, starts: list[CellScores], releases: list[Release]) -> list[CellScores]:
        """Condition on a release, after public outcomes as far as it has evidence of these."""
        trusts = TRUSTS[:1] if self._known is None else TRUSTS
        evidence = np.zeros(len(trusts))
        found: list[list[Scores]] = []
        for target, (start, release) in enumerate(zip(starts, releases, strict=True)):
            found.append([])
            for place, trust in enumerate(trusts):
                along = start.along
                if self._known is not None and trust:
                    X, outcomes = start.X[self._known.rows], self._known.outcomes[target]
                    along = conditioned(along, X, outcomes, trust)
                along, told = update(along, replace(self.design, X=start.X), release)
                evidence[place] += told
                found[-1].append(along)
        weights = trusted(evidence)
        return [
            replace(start, along=averaged(beliefs, weights))
            for start, beliefs in zip(starts, found, strict=True)
        ]

    def _excess(self, sums: Floats) -> float:
        """Estimate the sum over all rows: from the row that measures it and from each column."""
        estimates, precisions = [sums[-1] / self._every], [self._every**2]
        for part, by_cell in zip(self._strategy.parts, self._strategy.by_cell, strict=True):
            if by_cell:
                estimates.append(sums[part].sum())
                precisions.append(1 / (part.stop - part.start))
        return float(np.average(estimates, weights=precisions))

    def _shrunk_counts(self) -> tuple[Floats, Floats]:
        """Return counts, as released ones and public rows have it, and their variances."""
        if self._counts is None:
            return self._expected, self._spread
        # public rows that look unlike say little of the counts
        spread = self._spread * max(1.0, self.drift or 1.0)
        trust = spread / (spread + self._count_variance)
        counts = self._expected + trust * (self._counts - self._expected)
        return counts, trust * self._count_variance

    def _overshot(self, noisy: Noisy) -> bool:
        """Undo part of the last step where what it left points backwards, and stop there."""
        if self.design is self._public:
            return False
        n, w = self.design.n, self.design.weights
        for target, released in enumerate(self._releases(noisy)):
            q = released.baseline * (1 - released.baseline)
            belief, step = self.beliefs[target], self._steps[target]
            moved = belief.X @ step[:-1] + step[-1]
            towards = n * released.Z.T @ (w * q * released.scale * moved)
            own = n * (1 + MISMATCH * n * self.design.concentration) * w * q * released.scale**2
            S = (released.Z * own[:, None]).T @ released.Z + released.covariance
            solved = np.linalg.solve(S, towards)
            precision = float(towards @ solved)
            if precision <= 0:  # nothing that is measured moved
                continue
            slope = float(solved @ released.total) / precision
            if slope < -2 / np.sqrt(precision):
                mean = belief.along.mean - step + step / (1 - slope)
                self.beliefs[target] = replace(belief, along=Scores(mean, belief.along.covariance))
                self.stopped = True
        return self.stopped
