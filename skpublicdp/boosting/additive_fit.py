"""Additive fit: a Gaussian posterior of bin scores, updated by rounds of noisy histograms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skpublicdp.boosting.additive_posterior import (
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
from skpublicdp.boosting.binner import Binner
from skpublicdp.boosting.covariate_shift import (
    calibrate_weights,
    expected_bin_shares,
    normal_scores,
)
from skpublicdp.boosting.histograms import NoisyHistogram
from skpublicdp.boosting.model import (
    MARGIN_UNIT,
    AdditiveModel,
    gradient_scale,
    null_model,
    probabilities,
)
from skpublicdp.boosting.public_labels import (
    POWER_PRIORS,
    PublicLabels,
    evidence_weights,
    laplace_approximation,
    mix_gaussians,
)
from skpublicdp.boosting.strategy import STRATEGY_UNIT, HistogramStrategy
from skpublicdp.typing import Floats

SHIFT_THRESHOLD = 1.6
"""Value of the shift statistic above which public rows are reweighted.

The statistic is a mean of squared standardised differences of bin counts, so it is about 1 without
a shift. With few bins it varies more. The threshold is therefore at least three standard deviations
above 1.
"""


class AdditiveFit:
    """Gaussian posterior of the bin scores of an additive model, updated round by round.

    Each round conditions on a noisy gradient histogram of the current model. All computations are
    functions of released histograms and public rows, so they are post-processing.

    Parameters
    ----------
    binner : Binner
        Bins of all columns.
    design : WeightedPublicRows
        Public rows and the number of private rows.
    strategy : HistogramStrategy
        Linear combinations of bins that are measured.
    n_targets : int
        1 for two labels, otherwise the number of labels.
    pure : bool
        Whether gradients are scaled for the 1-norm (pure DP) or the Euclidean norm.
    public_labels : PublicLabels, optional
        Targets of public rows.

    Attributes
    ----------
    model : AdditiveModel
        Current model.
    posteriors : list of BinPosterior
        Posterior of each target's scores; empty before the first round.
    drift : float or None
        Shift statistic of the public rows, about 1 without a covariate shift.
    drifted : bool
        Whether the shift is larger than chance.
    design : WeightedPublicRows
        Public rows, reweighted if there is a shift.
    """

    def __init__(
        self,
        binner: Binner,
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
        self.model = null_model(binner.offsets, n_targets)
        self._binner = binner
        self._public = design
        self._pure = pure
        self._strategy = strategy
        self._total_weight = strategy.total_weight / STRATEGY_UNIT
        self._Z = strategy.apply(design.X) / STRATEGY_UNIT
        self._expected_counts, self._expected_count_variances = self._predict_counts()
        self._counts: Floats | None = None
        self._count_variance = np.inf

    @property
    def covariances(self) -> list[Floats]:
        """Posterior covariances of each column's scores, shape (n_targets, n_bins, n_bins)."""
        columns = zip(*(posterior.covariances for posterior in self.posteriors), strict=True)
        return [np.array(column) for column in columns]

    def update(self, noisy: NoisyHistogram) -> None:
        """Condition the scores on a histogram, and set the model to the posterior means.

        Parameters
        ----------
        noisy : NoisyHistogram
            Released histogram of the current model.
        """
        self._pool_counts(noisy)
        if not self.posteriors:
            self._fit_first(noisy)
        else:
            statistics = self._statistics(noisy)
            self.posteriors = [
                condition_on(posterior, self.design, statistic)
                for posterior, statistic in zip(self.posteriors, statistics, strict=True)
            ]
        self._set_model()

    def _set_model(self) -> None:
        """Set the model to the posterior means, rounded to integer scores."""
        scores = np.rint(MARGIN_UNIT * np.array([posterior.mean for posterior in self.posteriors]))
        integers = scores.astype(np.int64)
        self.model = AdditiveModel(integers[:, :-1], integers[:, -1], self._binner.offsets)

    def _predict_counts(self) -> tuple[Floats, Floats]:
        """Predict the measured counts of private rows from public rows.

        Returns
        -------
        ndarray of float64, shape (n_measured,)
            Expected counts.
        ndarray of float64, shape (n_measured,)
            Variances of the prediction, from the sampling of public rows.
        """
        n, m = self._public.n, self._public.effective_size
        shares = expected_bin_shares(self._binner, self._public)
        means = self._strategy.apply(shares) / STRATEGY_UNIT
        squared_blocks = tuple(block**2 for block in self._strategy.blocks)
        squared_strategy = replace(self._strategy, blocks=squared_blocks)
        # at least half a public row in each bin, so that no variance is zero
        variances = squared_strategy.apply(np.maximum(shares, 0.5 / m)) / STRATEGY_UNIT**2
        for block, is_identity in zip(
            self._strategy.column_slices, self._strategy.is_identity, strict=True
        ):
            # E[x²] - E[x]² for combinations of bins; single bins are nearly independent
            if not is_identity:
                variances[block] -= means[block] ** 2
        means[-1], variances[-1] = self._total_weight, 0.0  # the number of rows is public
        return n * means, n**2 * np.maximum(variances, 0.0) / m

    def _pool_counts(self, noisy: NoisyHistogram) -> None:
        """Average the counts with earlier ones, and reweight the public rows after a shift.

        The first counts give the shift statistic. After a significant shift the weights of the
        public rows are calibrated to the pooled counts.

        Parameters
        ----------
        noisy : NoisyHistogram
            Released histogram, with or without counts.
        """
        if noisy.counts is None:
            return
        n, counts = self._public.n, noisy.counts.copy()
        degrees_of_freedom = 0
        for block, is_identity in zip(
            self._strategy.column_slices, self._strategy.is_identity, strict=True
        ):
            n_counts = block.stop - block.start
            degrees_of_freedom += n_counts
            if is_identity:  # the counts of all bins add up to n, which is public
                counts[block] += (n - counts[block].sum()) / n_counts
                degrees_of_freedom -= 1
        old_precision, precision = 1 / self._count_variance, 1 / noisy.count_variance
        total_precision = old_precision + precision
        if self._counts is None:
            self._test_for_shift(counts, noisy.count_variance, max(degrees_of_freedom, 1))
            self._counts = counts
        else:
            self._counts = (old_precision * self._counts + precision * counts) / total_precision
        self._count_variance = 1 / total_precision
        if self.drifted:
            variances = np.full(len(self._counts), self._count_variance)
            whitened, Z = whiten_and_reduce(self._counts, variances, self._Z)
            self.design = calibrate_weights(self._public, Z, whitened, 1.0)

    def _test_for_shift(self, counts: Floats, variance: float, degrees_of_freedom: int) -> None:
        """Set the shift statistic: chi-squared per degree of freedom, of released counts.

        The deviations are from the counts that the public rows predict. The last count is the
        number of rows, which is public.
        """
        variances = variance + self._expected_count_variances
        deviations = counts - self._expected_counts
        if self._pure:
            deviations = normal_scores(deviations, self._expected_count_variances, variance)
        squares = deviations**2 / variances
        self.drift = float(squares[:-1].sum() / degrees_of_freedom)
        standard_deviation = np.sqrt(2 / degrees_of_freedom)
        self.drifted = self.drift > max(SHIFT_THRESHOLD, 1 + 3 * standard_deviation)

    def _baseline(self) -> tuple[Floats, Floats]:
        """Return the current probabilities of the public rows, and their gradient scales."""
        indicators = self._public.X.astype(np.int64)
        baseline = probabilities(self.model.intercepts[:, None] + self.model.scores @ indicators.T)
        return baseline, gradient_scale(baseline, self._pure)

    def _statistics(self, noisy: NoisyHistogram) -> list[NoisyStatistic]:
        """Return the whitened gradient sums of the current model, for each target."""
        baseline, scale = self._baseline()
        variances = np.full(noisy.sums.shape[1], noisy.variance)
        sums, Z = whiten_and_reduce(noisy.sums, variances, self._Z)
        noise = np.eye(Z.shape[1])
        return [
            NoisyStatistic(total, noise, Z, scale, probability)
            for total, probability in zip(sums, baseline, strict=True)
        ]

    def _fit_first(self, noisy: NoisyHistogram) -> None:
        """Compute the posterior of the first histogram, which is of the null model.

        1. Estimate each target's rate (its fraction of the rows) from its gradient sums.
        2. Convert the sums to gradients of a constant model with this rate: the difference is a
           multiple of the bin counts, for which shrunk estimates are used.
        3. Choose prior variances by empirical Bayes, and condition on the converted sums.

        Parameters
        ----------
        noisy : NoisyHistogram
            Released histogram of the null model.
        """
        n, m = self._public.n, len(self._public.X)
        counts, count_variance = self._shrunk_bin_counts()
        blocks = prior_covariances(self._binner, self.design)
        # all rows have the same probability under the null model
        baseline, scale = (values[..., 0] for values in self._baseline())
        priors, statistics = [], []
        for null_rate, sums in zip(baseline, noisy.sums / scale, strict=True):
            rate = null_rate + self._total_gradient(sums) / n
            min_rate = min(max(0.01, 3 / n), 0.5)
            rate = float(np.clip(rate, min_rate, 1 - min_rate))
            total, Z = whiten_and_reduce(
                sums + (null_rate - rate) * counts,
                noisy.variance / scale**2 + (null_rate - rate) ** 2 * count_variance,
                self._Z,
            )
            centred = NoisyStatistic(total, np.eye(len(total)), Z, np.ones(m), np.full(m, rate))
            log_variances = fit_prior_variances(blocks, self.design, centred, rate)
            intercept = float(np.log(rate / (1 - rate)))
            priors.append(bin_prior(blocks, log_variances, intercept, self.design.X))
            statistics.append(centred)
        self.posteriors = self._condition_priors(priors, statistics)

    def _condition_priors(
        self, priors: list[BinPosterior], statistics: list[NoisyStatistic]
    ) -> list[BinPosterior]:
        """Condition on the public labels as a power prior, then on the noisy statistics.

        The posteriors of all exponents are averaged by marginal likelihood (`evidence_weights`).
        The weights are common to all targets.

        Parameters
        ----------
        priors : list of BinPosterior
            Prior of each target's scores.
        statistics : list of NoisyStatistic
            Gradient sums of each target.
        """
        exponents = POWER_PRIORS[:1] if self._public_labels is None else POWER_PRIORS
        log_evidence = np.zeros(len(exponents))
        posteriors: list[list[GaussianPosterior]] = []
        for target, (prior, statistic) in enumerate(zip(priors, statistics, strict=True)):
            posteriors.append([])
            for i, exponent in enumerate(exponents):
                factors = prior.factors
                if self._public_labels is not None and exponent:
                    X = prior.X[self._public_labels.rows]
                    y = self._public_labels.outcomes[target]
                    factors = laplace_approximation(factors, X, y, exponent)
                factors, log_likelihood = gauss_newton_update(
                    factors, replace(self.design, X=prior.X), statistic
                )
                log_evidence[i] += log_likelihood
                posteriors[-1].append(factors)
        weights = evidence_weights(log_evidence)
        return [
            replace(prior, factors=mix_gaussians(components, weights))
            for prior, components in zip(priors, posteriors, strict=True)
        ]

    def _total_gradient(self, sums: Floats) -> float:
        """Estimate the gradient sum over all rows.

        The measured total and, for each column with measured bins, the sum over its bins are
        averaged by precision.
        """
        estimates, precisions = [sums[-1] / self._total_weight], [self._total_weight**2]
        for block, is_identity in zip(
            self._strategy.column_slices, self._strategy.is_identity, strict=True
        ):
            if is_identity:
                estimates.append(sums[block].sum())
                precisions.append(1 / (block.stop - block.start))
        return float(np.average(estimates, weights=precisions))

    def _shrunk_bin_counts(self) -> tuple[Floats, Floats]:
        """Return released counts shrunk towards the predicted ones, and their variances.

        The shrinkage is the posterior mean for a Gaussian prior around the prediction.
        """
        if self._counts is None:
            return self._expected_counts, self._expected_count_variances
        # with a shift, the public rows are worse predictors of the counts
        prior_variances = self._expected_count_variances * max(1.0, self.drift or 1.0)
        gain = prior_variances / (prior_variances + self._count_variance)
        counts = self._expected_counts + gain * (self._counts - self._expected_counts)
        return counts, gain * self._count_variance
