"""Additive fit, which updates a Gaussian posterior of the bin scores with noisy histograms."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

import numpy as np

from skpublicdp.boosting.additive_posterior import (
    LOG_VARIANCE_MEAN,
    POWER_PRIORS,
    BinPosterior,
    GaussianPosterior,
    NoisyStatistic,
    PublicLabels,
    WarmStart,
    WeightedPublicRows,
    bin_prior,
    choose_factor_basis,
    condition_on,
    evidence_weights,
    fit_prior_variances,
    gauss_newton_update,
    laplace_approximation,
    mix_gaussians,
    prior_covariances,
    project_sums,
    whiten_and_reduce,
)
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.budget_split import (
    BALANCED,
    LEAF_SHARE,
    MAX_SHIFT_FRACTION,
    N_BINS,
    N_BINS_UNBALANCED,
    ROUND_SHARES,
    TREE_TRIALS,
    TreeTrial,
    choose_trial,
    n_histogram_rounds,
    plan_tree_trial,
    signal_to_noise,
    trial_event,
)
from skpublicdp.boosting.covariate_shift import (
    NO_DRIFT,
    DriftReport,
    ShiftEstimate,
    calibrate_weights,
    expected_bin_shares,
    flattened_weights,
    histogram_drift,
    noisy_shift,
    normal_scores,
    overlapping_columns,
    predict_counts,
)
from skpublicdp.boosting.fitted_model import LogisticFit
from skpublicdp.boosting.histograms import (
    STRATEGY_UNIT,
    HistogramStrategy,
    NoisyHistogram,
    choose_strategy,
    count_sensitivity,
    gradient_histogram,
    measure,
)
from skpublicdp.boosting.loss import DECLARED_RANGE, OutcomeRange
from skpublicdp.boosting.model import (
    MARGIN_UNIT,
    AdditiveModel,
    gradient_scale,
    null_model,
    probabilities,
)
from skpublicdp.boosting.outcome_histogram import noisy_start, restrict_outcomes
from skpublicdp.boosting.private_trees import PrivateTreeBooster
from skpublicdp.boosting.public_covariance import index_of_blocks
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.privacy.stage_budget import StageBudget
from skpublicdp.typing import Floats, Mask

LOG_OUTCOME_VARIANCE = 0.0
"""Mean of the log prior variance of the logits of outcomes within their range, of all columns
together."""

MAX_TREE_COLUMNS = 64
"""Maximum number of columns in the splits of an interaction tree. Time and noise of a draw grow
with the number of pairs of columns."""


def fit_additive(
    training: TrainingData,
    ledger: Ledger,
    budget: StageBudget,
    log_n_trees: float | None,
    max_rounds: int | None,
    later_share: Fraction = Fraction(0),
) -> tuple[LogisticFit, StageBudget]:
    """Fit an additive model to noisy histograms, and add interaction trees if they seem useful.

    1. Reserve part of the budget for a trial interaction tree if the fit is likely to find a useful
       one.
    2. Release the class balance or, for regression, the range of outcomes to which the model is
       fitted.
    3. Test for covariate shift, and compute the posterior of all scores from noisy histograms.
    4. Draw a tree unless the released class balance makes a useful tree unlikely.

    Return the fit and the budget of the later release, for which `later_share` is reserved.
    """
    n, m = training.rows.n, len(training.X_public)
    may_draw_trees = not (log_n_trees is None or budget.pure or not training.loss.has_labels)

    def promising_trial(budget: StageBudget, class_balance: float) -> TreeTrial | None:
        """Return the plan for a trial tree, or None if finding a useful tree is unlikely."""
        if not may_draw_trees or log_n_trees is None:
            return None
        # the privacy cost of the exponential mechanism is per person, and rare labels make it
        # harder to find a tree
        effective_persons = n / ledger.rows_per_person * class_balance**2
        return choose_trial(signal_to_noise(budget, effective_persons, log_n_trees))

    later_budget, budget = budget.fraction(later_share), budget.fraction(1 - later_share)
    plan_has_trial = promising_trial(budget, 1.0) is not None
    if plan_has_trial:
        budget, later_budget = plan_tree_trial(ledger, later_share)
    share, class_balance, outcome_range = Fraction(1), 1.0, DECLARED_RANGE
    columns = ledger.for_person(count_sensitivity(len(training.rows.columns)))
    if not budget.pure or n_histogram_rounds(n, m, budget.variance(columns)) > 1:
        outcome_range, class_balance, spent = noisy_start(training, ledger, budget)
        training = restrict_outcomes(training, outcome_range)
        share -= spent
    trial = promising_trial(budget, class_balance) if plan_has_trial else None
    if plan_has_trial:
        # each option allows histograms to use the entire budget, so it also covers a fit without a
        # tree
        ledger.take_option(trial_event(budget, trial or TREE_TRIALS[0]))
    if trial is None:
        fit = fit_histograms(
            training, ledger, budget, share, class_balance, max_rounds, outcome_range
        )
        return replace(fit.result(), outcome_range=outcome_range), later_budget
    share -= trial.first + trial.second
    fit = fit_histograms(training, ledger, budget, share, class_balance, max_rounds)
    return _try_interaction_tree(fit, training, ledger, budget, trial), later_budget


def fit_histograms(
    training: TrainingData,
    ledger: Ledger,
    budget: StageBudget,
    share: Fraction,
    class_balance: float,
    max_rounds: int | None,
    outcome_range: OutcomeRange = DECLARED_RANGE,
) -> AdditiveFit:
    """Estimate the covariate shift, and fit an additive model to noisy histograms.

    The shift test and the rounds together spend `share` of the budget. The strategy and the number
    of rounds are planned for the noise of the whole budget. The class balance of two labels is 4 p
    (1 - p).
    """
    shift, spent = noisy_shift(training, ledger, budget, share * MAX_SHIFT_FRACTION)
    share -= spent
    weights = None if shift is None else shift.weights
    is_balanced = class_balance >= BALANCED
    if is_balanced and weights is None:
        data = training.binned
    else:
        data = training.bin(N_BINS if is_balanced else N_BINS_UNBALANCED, weights)
    design = WeightedPublicRows.from_data(data, weights)
    log_variance_mean = LOG_VARIANCE_MEAN
    if not training.loss.has_labels:
        # columns together explain at most the variance of outcomes within their range
        columns_mean = LOG_OUTCOME_VARIANCE - math.log(len(data.binner.columns))
        log_variance_mean = min(log_variance_mean, columns_mean)
    strategy = choose_strategy(data.binner, design, ledger, budget, class_balance)
    fit = AdditiveFit(
        data,
        design,
        training.X_public,
        strategy,
        training.n_targets,
        pure=budget.pure,
        public_labels=training.public_labels,
        shift=shift,
        has_actual_values=training.has_actual_values,
        outcome_range=outcome_range,
        log_variance_mean=log_variance_mean,
    )
    effective_rows, variance = data.rows.n * class_balance, strategy.noise_variance(budget, ledger)
    n_rounds = n_histogram_rounds(effective_rows, design.effective_size, variance)
    if max_rounds is not None:
        n_rounds = min(n_rounds, max_rounds)
    for fraction in ROUND_SHARES[n_rounds]:
        fit.run_round(ledger, budget.fraction(share * fraction))
    return fit


def _try_interaction_tree(
    fit: AdditiveFit, training: TrainingData, ledger: Ledger, budget: StageBudget, trial: TreeTrial
) -> LogisticFit:
    """Draw an interaction tree, and keep it if it increases the marginal likelihood.

    If the tree is kept, a second tree is drawn with the rest of the trial budget. Otherwise, the
    rest is spent on another round of histograms.
    """
    warm_start = WarmStart(fit.model, [])
    booster = PrivateTreeBooster(
        [warm_start], training.candidate_trees(fit.data, fit.tree_columns), fit.data, ledger
    )

    def add_tree(share: Fraction) -> float:
        """Spend a share of the budget on drawing a tree, and return the tree's log Bayes factor."""
        draw = budget.fraction(share * (1 - LEAF_SHARE)).draw
        leaf_noise = budget.fraction(share * LEAF_SHARE).event
        return booster.add_tree_with_noisy_leaves(draw, leaf_noise, fit.design)

    if add_tree(trial.first) > 0:
        add_tree(trial.second)
        result = fit.result()
        covariances = [*result.covariances, *booster.tree_covariances]
        return replace(
            result,
            model=booster.model,
            covariances=covariances,
            variances=result.variances + booster.tree_variances(fit.design.weights),
        )
    fit.run_round(ledger, budget.fraction(trial.second))
    return fit.result()


@dataclass(eq=False, repr=False)  # a repr would print private rows
class AdditiveFit:
    """Gaussian posterior of an additive model's bin scores, updated in every round.

    Each round conditions on a noisy gradient histogram of the current model. All computations
    between rounds use only released histograms and public rows, so they are post-processing.
    """

    data: BinnedData
    # weighted public rows, and the number of private rows that they represent
    initial_design: WeightedPublicRows
    X_public: Floats  # (m, n_columns): encoded public rows
    strategy: HistogramStrategy  # linear combinations of bins that are measured
    # number of targets, which is 1 for two labels and otherwise the number of labels
    n_targets: int
    # whether gradients are bounded in the 1-norm (pure DP) rather than the Euclidean norm
    pure: bool
    public_labels: PublicLabels | None = None  # targets of public rows
    # result of an earlier shift test, from which the weights in `initial_design` were computed
    shift: ShiftEstimate | None = None
    # (n_columns,): mask of the columns without synthetic public values. By default, all columns are
    # included.
    has_actual_values: Mask | None = None
    outcome_range: OutcomeRange = DECLARED_RANGE  # range and released mean of a regression
    log_variance_mean: float = LOG_VARIANCE_MEAN  # of the hyperprior of the scores' log variance
    model: AdditiveModel = field(init=False)  # current model
    # posterior of each target's scores, empty before the first round
    posteriors: list[BinPosterior] = field(init=False, default_factory=list)
    # shift statistic of the public rows, which is about 1 without a covariate shift
    drift: float | None = field(init=False, default=None)
    # whether the shift is statistically significant
    drifted: bool = field(init=False, default=False)
    # shift statistic and its significance for the columns without synthetic public values
    report: DriftReport = field(init=False, default=NO_DRIFT)
    design: WeightedPublicRows = field(init=False)  # public rows, reweighted if there is a shift
    # (n_columns,): mask of the columns for which public rows can be reweighted without losing too
    # many rows
    overlaps: Mask = field(init=False)
    _counts: Floats | None = field(init=False, default=None)
    _count_variance: float = field(init=False, default=np.inf)

    def __post_init__(self) -> None:
        binner, strategy = self.data.binner, self.strategy
        design = self.design = self.initial_design
        self.model = null_model(binner.offsets, self.n_targets)
        self.overlaps = np.ones(len(strategy.blocks), dtype=bool)
        self._Z = strategy.apply(design.X) / STRATEGY_UNIT  # (m, n_measured)
        expected = expected_bin_shares(binner, design, self.X_public)
        self._expected_counts, self._expected_count_variances = predict_counts(
            expected, strategy, design
        )

    def run_round(self, ledger: Ledger, budget: StageBudget) -> None:
        """Spend a budget on a gradient histogram of the current model, and update the fit."""
        histogram = gradient_histogram(self.model, self.data, pure=self.pure)
        # with Gaussian noise, counts have no extra cost; with Laplace noise, they are released only
        # once
        counts = not self.pure or self._counts is None
        self.update(measure(histogram, self.strategy, budget.event, ledger, counts=counts))

    def result(self) -> LogisticFit:
        """Return the model after all rounds completed so far.

        If the earlier shift test found a significant drift, the model reports this drift, measured
        before the public rows were reweighted, instead of the drift in the histograms.
        """
        report = self.report
        if self.shift is not None and self.shift.drifted:
            report = self.shift.report
        weights = self.design.weights
        variances = np.array([posterior.mean_variance(weights) for posterior in self.posteriors])
        return LogisticFit(self.model, self.data, self.design, self.covariances, report, variances)

    @property
    def covariances(self) -> list[Floats]:
        """Posterior covariances of each column's scores, shape (n_targets, n_bins, n_bins)."""
        columns = zip(*(posterior.covariances for posterior in self.posteriors), strict=True)
        return [np.array(column) for column in columns]

    @property
    def usable_columns(self) -> Mask:
        """Mask of the columns that overlap, or of all columns if most of them do not overlap."""
        most_overlap = 2 * self.overlaps.sum() >= len(self.overlaps)
        return self.overlaps if most_overlap else np.ones_like(self.overlaps)

    @property
    def tree_columns(self) -> Mask:
        """Mask of the usable columns whose released scores vary most over the public rows."""
        shares = self.design.weights @ self.design.X
        scores = self.model.scores / MARGIN_UNIT  # (n_targets, n_bins)
        first_bins = self.data.binner.offsets[:-1]
        means = np.add.reduceat(scores * shares, first_bins, axis=1)  # (n_targets, n_columns)
        squares = np.add.reduceat(scores**2 * shares, first_bins, axis=1)
        effects = (squares - means**2).sum(axis=0)
        effects[~self.usable_columns] = -1.0
        strongest = np.argsort(-effects, kind="stable")[:MAX_TREE_COLUMNS]
        selected = np.zeros_like(self.usable_columns)
        selected[strongest] = True
        return selected & self.usable_columns

    def update(self, noisy: NoisyHistogram) -> None:
        """Condition the scores on a released histogram; set the model to the posterior means."""
        self._pool_counts(noisy)
        if not self.posteriors:
            self._fit_first(noisy)
        else:
            baseline, scale = self._baseline()
            variances = np.full(noisy.sums.shape[1], noisy.variance)
            posteriors = []
            for posterior, sums, rates in zip(self.posteriors, noisy.sums, baseline, strict=True):
                measured_at = posterior.factors.mean[:-1]
                statistic = self._statistic(
                    sums, variances, scale, rates, X=posterior.X, measured_at=measured_at
                )
                posteriors.append(condition_on(posterior, self.design, statistic))
            self.posteriors = posteriors
        self._set_model()

    def _statistic(
        self,
        sums: Floats,  # (n_measured,)
        variances: Floats,  # (n_measured,): noise variances
        scale: Floats,  # (m,)
        baseline: Floats,  # (m,)
        X: Floats,  # (m, n_factors): coefficients of the factors in the margins of public rows
        measured_at: Floats,  # (n_factors,): factors of the measured model
    ) -> NoisyStatistic:
        """Return the gradient sums of a target, in units of their noise, reduced to what counts."""
        columns = None
        if self.design.basis is None:
            total, Z = whiten_and_reduce(sums, variances, self._Z)
        else:
            deviations = np.sqrt(variances)
            columns = index_of_blocks([len(block) for block in self.strategy.blocks])
            columns = np.append(columns, -1)
            total, Z, columns = project_sums(
                sums / deviations, self._Z / deviations, columns, self.design, X
            )
        noise = np.eye(len(total))
        return NoisyStatistic(total, noise, Z, scale, baseline, columns, measured_at)

    def _set_model(self) -> None:
        """Set the model to the posterior means, rounded to integer scores."""
        scores = np.rint(MARGIN_UNIT * np.array([posterior.mean for posterior in self.posteriors]))
        integers = scores.astype(np.int64)
        self.model = AdditiveModel(integers[:, :-1], integers[:, -1], self.data.binner.offsets)

    def _pool_counts(self, noisy: NoisyHistogram) -> None:
        """Average the counts with earlier counts, and reweight the public rows if a shift is found.

        The first counts determine the shift statistic. If the shift is significant, the public rows
        are reweighted to match the pooled counts.

        Parameters
        ----------
        noisy : NoisyHistogram
            Released histogram, with or without counts.
        """
        if noisy.counts is None:
            return
        counts = self.strategy.consistent_counts(noisy.counts, self.initial_design.n)
        old_precision, precision = 1 / self._count_variance, 1 / noisy.count_variance
        total_precision = old_precision + precision
        if self._counts is None:
            self._test_for_shift(counts, noisy.count_variance)
            self._counts = counts
        else:
            self._counts = (old_precision * self._counts + precision * counts) / total_precision
        self._count_variance = 1 / total_precision
        if self.drifted:
            # a few columns without overlap must not cost the public rows of all others
            n_counts = [block.stop - block.start for block in self.strategy.column_slices]
            is_used = np.repeat(self.usable_columns, n_counts)
            is_used = np.append(is_used, True)  # the number of rows is the last count
            variances = np.full(int(is_used.sum()), self._count_variance)
            whitened, Z = whiten_and_reduce(self._counts[is_used], variances, self._Z[:, is_used])
            self.design = calibrate_weights(self.initial_design, Z, counts=whitened, variance=1.0)
            if 2 * self.overlaps.sum() >= len(self.overlaps):
                weights = flattened_weights(self.design.weights)
                self.design = replace(self.design, weights=weights)

    def _test_for_shift(self, counts: Floats, variance: float) -> None:
        """Compute the shift statistic, chi-squared per degree of freedom, from the released counts.

        The statistic has no privacy cost beyond that of the histogram. The earlier shift test uses
        cheaper counts and reweights the public rows before the bins are chosen, so this statistic
        measures the remaining shift. Deviations are measured from the counts predicted by the
        public rows. The last count is the number of rows, which is public.
        """
        design = self.initial_design
        # the private rows are a sample, too
        sampling_variances = self._expected_count_variances * (1 + design.effective_size / design.n)
        variances = sampling_variances + variance
        deviations = counts - self._expected_counts
        if self.pure:
            deviations = normal_scores(deviations, sampling_variances, variance)
        squares = deviations**2 / variances
        row_factors = np.sqrt(design.weights * (design.concentration + 1 / design.n))
        errors = design.n * row_factors[:, None] * (self._Z - design.weights @ self._Z)
        test = partial(
            histogram_drift,
            squares,
            errors / np.sqrt(variances),
            variance / variances,
            self.strategy.column_slices,
            self.strategy.is_identity,
        )
        self.report = test()
        self.drift, self.drifted = self.report.statistic, self.report.is_significant
        if self.has_actual_values is not None:
            self.report = test(self.has_actual_values)
        if self.drifted:
            self.overlaps = overlapping_columns(
                (counts - self._expected_counts) / design.n,
                self._Z,
                design.weights,
                variance / design.n**2,
                self.strategy.column_slices,
                self.has_actual_values,
            )

    def _baseline(self) -> tuple[Floats, Floats]:
        """Return the probabilities and gradient scales of public rows under the current model."""
        indicators = self.initial_design.X.astype(np.int64)
        baseline = probabilities(self.model.intercepts[:, None] + self.model.scores @ indicators.T)
        return baseline, gradient_scale(baseline, self.pure)

    def _fit_first(self, noisy: NoisyHistogram) -> None:
        """Compute the posterior from the initial histogram, which is measured at the null model.

        1. Estimate each target's rate (its fraction of the rows) from its gradient sums.
        2. Convert the sums to gradients of a constant model with this rate. The conversion changes
           each sum by a multiple of its bin count, for which a shrunk estimate is used.
        3. Choose the prior variances by empirical Bayes, and condition on the converted sums.
        """
        n, m = self.initial_design.n, len(self.initial_design.X)
        # shrink the released counts towards their predictions, to the posterior mean
        counts, count_variance = self._expected_counts, self._expected_count_variances
        if self._counts is not None:
            # if there is a shift, the public rows predict the counts less accurately
            prior_variances = count_variance * max(1.0, self.drift or 1.0)
            gain = prior_variances / (prior_variances + self._count_variance)
            counts = counts + gain * (self._counts - counts)
            count_variance = gain * self._count_variance
        blocks = prior_covariances(self.data.binner, self.design)
        basis = choose_factor_basis(blocks, self.design)
        self.design = replace(self.design, basis=basis)
        # all rows have the same probability under the null model
        baseline, scale = (by_row[..., 0] for by_row in self._baseline())
        gradient_variance = noisy.variance / scale**2
        min_rate = min(max(0.01, 3 / n), 0.5)
        priors, statistics = [], []
        for null_rate, gradients in zip(baseline, noisy.sums / scale, strict=True):
            gradient_variances = np.full(len(gradients), gradient_variance)
            if self.outcome_range.mean_variance is None:
                rate = null_rate + self.strategy.estimate_total(gradients) / n
            else:
                rate = self._pool_total(gradients, gradient_variances, null_rate)
            rate = float(np.clip(rate, min_rate, 1 - min_rate))
            change = null_rate - rate  # of the gradient of each row
            totals = gradients + change * counts
            variances = gradient_variances + change**2 * count_variance
            intercept = float(np.log(rate / (1 - rate)))
            unit_prior = bin_prior(blocks, np.zeros(len(blocks)), intercept, self.design.X, basis)
            statistic = self._statistic(
                totals,
                variances,
                scale=np.ones(m),
                baseline=np.full(m, rate),
                X=unit_prior.X,
                measured_at=unit_prior.factors.mean[:-1],
            )
            log_variances = fit_prior_variances(
                blocks, self.design, statistic, rate, basis, self.log_variance_mean
            )
            prior = bin_prior(blocks, log_variances, intercept, self.design.X, basis)
            priors.append(prior)
            statistics.append(statistic)
        self.posteriors = self._condition_priors(priors, statistics)

    def _pool_total(self, gradients: Floats, variances: Floats, null_rate: float) -> float:
        """Average the measured total with the released mean, in place, and return the mean."""
        outcome_range, n = self.outcome_range, self.initial_design.n
        assert outcome_range.mean_variance is not None
        weight = self.strategy.total_weight / STRATEGY_UNIT
        n_weighted = weight * n
        released = n_weighted * (outcome_range.mean - null_rate)
        precision = 1 / (weight**2 * n**2 * outcome_range.mean_variance)
        measured, variance = gradients[-1], variances[-1]
        pooled_variance = 1 / (precision + 1 / variance)
        pooled = pooled_variance * (precision * released + measured / variance)
        gradients[-1] = pooled
        variances[-1] = pooled_variance
        return float(null_rate + pooled / n_weighted)

    def _condition_priors(
        self, priors: list[BinPosterior], statistics: list[NoisyStatistic]
    ) -> list[BinPosterior]:
        """Condition the scores on public labels through a power prior, and then on the noisy sums.

        The posteriors for the different exponents are averaged, with weights determined by their
        marginal likelihoods (`evidence_weights`). All targets share the same weights.
        """
        exponents = POWER_PRIORS[:1] if self.public_labels is None else POWER_PRIORS
        log_evidence = np.zeros(len(exponents))
        posteriors: list[list[GaussianPosterior]] = []
        for target, (prior, statistic) in enumerate(zip(priors, statistics, strict=True)):
            posteriors.append([])
            for i, exponent in enumerate(exponents):
                factors = prior.factors
                if self.public_labels is not None and exponent:
                    X = prior.X[self.public_labels.rows]
                    y = self.public_labels.outcomes[target]
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
