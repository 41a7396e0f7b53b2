"""The additive model, learned from released sums and public rows alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.binner import Binner
from skpublicdp.boosting.budget_split import MISMATCH
from skpublicdp.boosting.covariate_shift import calibrate_weights, expected_bin_shares
from skpublicdp.boosting.histograms import NoisyHistogram
from skpublicdp.boosting.model import (
    MARGIN_UNIT,
    AdditiveModel,
    gradient_scale,
    null_model,
    probabilities,
)
from skpublicdp.boosting.posterior import (
    BinPosterior,
    GaussianPosterior,
    NoisyStatistic,
    WeightedPublicRows,
    bin_prior,
    condition_on,
    fit_prior_variances,
    gauss_newton_update,
    prior_covariances,
    whiten_and_reduce,
)
from skpublicdp.boosting.public_labels import (
    POWER_PRIORS,
    PublicLabels,
    evidence_weights,
    laplace_approximation,
    mix_gaussians,
)
from skpublicdp.boosting.strategy import STRATEGY_UNIT, HistogramStrategy

Floats = NDArray[np.float64]

SHIFT_THRESHOLD, LARGE_SHIFT_THRESHOLD = 1.6, 5.0
"""Values of the drift statistic beyond which public rows are reweighed, or hardly trusted.

With few cells it varies more: then the first is at three of its standard deviations at least.
"""


class AdditiveFit:
    """Scores of cells, round by round.

    Parameters
    ----------
    features : Binner
        Cells.
    design : WeightedPublicRows
        Public rows and the number of private ones.
    strategy : HistogramStrategy
        What is measured.
    n_targets : int
        1 for two labels, otherwise their number.
    pure : bool
        How residuals are scaled.
    public_labels : PublicLabels, optional
        Outcomes of public rows.

    Attributes
    ----------
    model : AdditiveModel
        The model so far.
    null_model : Model
        The model before the first round.
    posteriors : list of BinPosterior
        What is believed of each target's scores; empty before the first round.
    drift : float or None
        How unlike the public rows are, about 1 if they are of the same population.
    drifted : bool
        Whether that is more than chance.
    design : WeightedPublicRows
        The public rows, reweighed if they look unlike.
    overshot : bool
        Whether a step overshot, so that no further one should be made.
    """

    def __init__(
        self,
        features: Binner,
        design: WeightedPublicRows,
        strategy: HistogramStrategy,
        n_targets: int,
        *,
        pure: bool,
        public_labels: PublicLabels | None = None,
    ) -> None:
        self.design = design
        self._public_labels = public_labels
        self.posteriors: list[BinPosterior] = []
        self.drift: float | None = None
        self.drifted = False
        self.overshot = False
        self.model = null_model(features.offsets, n_targets)
        self.null_model = self.model
        self._first: NoisyHistogram | None = None
        self._features = features
        self._public = design
        self._pure = pure
        self._strategy = strategy
        self._total_weight = strategy.total_weight / STRATEGY_UNIT
        self._Z = strategy.apply(design.X) / STRATEGY_UNIT
        self._expected, self._spread = self._expected_bin_counts()
        self._counts: Floats | None = None
        self._count_variance = np.inf
        self._steps: list[Floats] = []

    @property
    def covariances(self) -> list[Floats]:
        """What is believed of the scores of each column, shape (n_targets, n_cells, n_cells)."""
        columns = zip(*(posterior.covariances for posterior in self.posteriors), strict=True)
        return [np.array(column) for column in columns]

    def update(self, noisy: NoisyHistogram) -> None:
        """Take in the released table of the present model."""
        self._count(noisy)
        if not self.posteriors:
            self._begin(noisy)
        elif not self._line_search_back(noisy):
            updated = [
                condition_on(posterior, self.design, released)
                for posterior, released in zip(self.posteriors, self._releases(noisy), strict=True)
            ]
            self._steps = [
                new.factors.mean - old.factors.mean
                for new, old in zip(updated, self.posteriors, strict=True)
            ]
            self.posteriors = updated
        self._set_model()

    def pool_first_release(self, noisy: NoisyHistogram) -> None:
        """Take in another table of the model before the first round, and begin again."""
        assert self._first is not None
        self._count(noisy)
        first = self._first
        old, new = 1 / first.variance, 1 / noisy.variance
        pooled = (old * first.sums + new * noisy.sums) / (old + new)
        self.posteriors, self._steps = [], []
        self.model = self.null_model
        self._begin(NoisyHistogram(pooled, None, 1 / (old + new), np.inf))
        self._set_model()

    def shrink_by_half(self) -> None:
        """Halve all scores: they rest on public rows that look unlike the private ones."""
        self.model = AdditiveModel(
            self.model.scores // 2, self.model.intercepts, self.model.offsets
        )

    def _set_model(self) -> None:
        scores = np.rint(MARGIN_UNIT * np.array([posterior.mean for posterior in self.posteriors]))
        integers = scores.astype(np.int64)
        self.model = AdditiveModel(integers[:, :-1], integers[:, -1], self._features.offsets)

    def _expected_bin_counts(self) -> tuple[Floats, Floats]:
        """Return the counts that public rows lead to expect, and their variances."""
        n, m = self._public.n, self._public.effective_size
        shares = expected_bin_shares(self._features, self._public)
        means = self._strategy.apply(shares) / STRATEGY_UNIT
        squares = replace(self._strategy, blocks=tuple(b**2 for b in self._strategy.blocks))
        spread = squares.apply(np.maximum(shares, 0.5 / m)) / STRATEGY_UNIT**2
        for part, is_identity in zip(
            self._strategy.column_slices, self._strategy.is_identity, strict=True
        ):
            if not is_identity:  # the counts of single cells are as good as independent
                spread[part] -= means[part] ** 2
        means[-1], spread[-1] = self._total_weight, 0.0  # the number of rows is public
        return n * means, n**2 * np.maximum(spread, 0.0) / m

    def _count(self, noisy: NoisyHistogram) -> None:
        """Pool counts by their precision, and weigh public rows by them if they look unlike."""
        if noisy.counts is None:
            return
        n, counts = self._public.n, noisy.counts.copy()
        free = 0
        for part, is_identity in zip(
            self._strategy.column_slices, self._strategy.is_identity, strict=True
        ):
            free += part.stop - part.start
            if is_identity:  # their total is public
                counts[part] += (n - counts[part].sum()) / (part.stop - part.start)
                free -= 1
        old, new = 1 / self._count_variance, 1 / noisy.count_variance
        if self._counts is None:
            misses = (counts - self._expected) ** 2 / (noisy.count_variance + self._spread)
            self.drift = float(misses[:-1].sum() / max(free, 1))
            self.drifted = self.drift > max(SHIFT_THRESHOLD, 1 + 3 * np.sqrt(2 / max(free, 1)))
            self._counts = counts
        else:
            self._counts = (old * self._counts + new * counts) / (old + new)
        self._count_variance = 1 / (old + new)
        if self.drifted:
            variances = np.full(len(self._counts), self._count_variance)
            told, Z = whiten_and_reduce(self._counts, variances, self._Z)
            self.design = calibrate_weights(self._public, Z, told, 1.0)

    def _baseline(self) -> tuple[Floats, Floats]:
        """Return what the present model makes of public rows: probabilities, and their `scale`."""
        cells = self._public.X.astype(np.int64)
        baseline = probabilities(self.model.intercepts[:, None] + self.model.scores @ cells.T)
        return baseline, gradient_scale(baseline, self._pure)

    def _releases(self, noisy: NoisyHistogram) -> list[NoisyStatistic]:
        """Describe released sums of the present model, for each target."""
        baseline, factor = self._baseline()
        variances = np.full(noisy.sums.shape[1], noisy.variance)
        sums, Z = whiten_and_reduce(noisy.sums, variances, self._Z)
        noise = np.eye(Z.shape[1])
        return [
            NoisyStatistic(told, noise, Z, factor, probability)
            for told, probability in zip(sums, baseline, strict=True)
        ]

    def _begin(self, noisy: NoisyHistogram) -> None:
        """Centre the first sums at the shares of the labels, choose the smoothness and begin."""
        self._first = noisy
        n, m = self._public.n, len(self._public.X)
        counts, count_variance = self._shrunk_bin_counts()
        blocks = prior_covariances(self._features, self.design)
        baseline, factor = (found[..., 0] for found in self._baseline())  # all rows are alike
        starts, releases = [], []
        for center, sums in zip(baseline, noisy.sums / factor, strict=True):
            rate = center + self._total_gradient(sums) / n
            least = min(max(0.01, 3 / n), 0.5)
            rate = float(np.clip(rate, least, 1 - least))
            told, Z = whiten_and_reduce(
                sums + (center - rate) * counts,
                noisy.variance / factor**2 + (center - rate) ** 2 * count_variance,
                self._Z,
            )
            centred = NoisyStatistic(told, np.eye(len(told)), Z, np.ones(m), np.full(m, rate))
            theta = fit_prior_variances(blocks, self.design, centred, rate)
            starts.append(bin_prior(blocks, theta, float(np.log(rate / (1 - rate))), self.design.X))
            releases.append(centred)
        self.posteriors = self._conditioned(starts, releases)
        pairs = zip(self.posteriors, starts, strict=True)
        self._steps = [posterior.factors.mean - start.factors.mean for posterior, start in pairs]

    def _conditioned(
        self, starts: list[BinPosterior], releases: list[NoisyStatistic]
    ) -> list[BinPosterior]:
        """Condition on a release, after public outcomes as far as it has evidence of these."""
        trusts = POWER_PRIORS[:1] if self._public_labels is None else POWER_PRIORS
        evidence = np.zeros(len(trusts))
        found: list[list[GaussianPosterior]] = []
        for target, (start, release) in enumerate(zip(starts, releases, strict=True)):
            found.append([])
            for place, trust in enumerate(trusts):
                along = start.factors
                if self._public_labels is not None and trust:
                    X, outcomes = (
                        start.X[self._public_labels.rows],
                        self._public_labels.outcomes[target],
                    )
                    along = laplace_approximation(along, X, outcomes, trust)
                along, told = gauss_newton_update(along, replace(self.design, X=start.X), release)
                evidence[place] += told
                found[-1].append(along)
        weights = evidence_weights(evidence)
        return [
            replace(start, factors=mix_gaussians(posteriors, weights))
            for start, posteriors in zip(starts, found, strict=True)
        ]

    def _total_gradient(self, sums: Floats) -> float:
        """Estimate the sum over all rows: from the row that measures it and from each column."""
        estimates, precisions = [sums[-1] / self._total_weight], [self._total_weight**2]
        for part, is_identity in zip(
            self._strategy.column_slices, self._strategy.is_identity, strict=True
        ):
            if is_identity:
                estimates.append(sums[part].sum())
                precisions.append(1 / (part.stop - part.start))
        return float(np.average(estimates, weights=precisions))

    def _shrunk_bin_counts(self) -> tuple[Floats, Floats]:
        """Return counts, as released ones and public rows have it, and their variances."""
        if self._counts is None:
            return self._expected, self._spread
        # public rows that look unlike say little of the counts
        spread = self._spread * max(1.0, self.drift or 1.0)
        trust = spread / (spread + self._count_variance)
        counts = self._expected + trust * (self._counts - self._expected)
        return counts, trust * self._count_variance

    def _line_search_back(self, noisy: NoisyHistogram) -> bool:
        """Undo part of the last step where what it left points backwards, and stop there."""
        if self.design is self._public:
            return False
        n, w = self.design.n, self.design.weights
        for target, released in enumerate(self._releases(noisy)):
            q = released.baseline * (1 - released.baseline)
            posterior, step = self.posteriors[target], self._steps[target]
            moved = posterior.X @ step[:-1] + step[-1]
            towards = n * released.Z.T @ (w * q * released.scale * moved)
            own = n * (1 + MISMATCH * n * self.design.concentration) * w * q * released.scale**2
            S = (released.Z * own[:, None]).T @ released.Z + released.covariance
            solved = np.linalg.solve(S, towards)
            precision = float(towards @ solved)
            if precision <= 0:  # nothing that is measured moved
                continue
            slope = float(solved @ released.total) / precision
            if slope < -2 / np.sqrt(precision):
                mean = posterior.factors.mean - step + step / (1 - slope)
                self.posteriors[target] = replace(
                    posterior, factors=GaussianPosterior(mean, posterior.factors.covariance)
                )
                self.overshot = True
        return self.overshot
