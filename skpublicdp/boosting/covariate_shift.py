"""Covariate shift, tested with noisy counts and corrected by importance weights of public rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve
from scipy.optimize import brentq, minimize
from scipy.special import erfcx, log_ndtr, ndtri_exp
from scipy.stats import chi2, rankdata

from skpublicdp.boosting.additive_posterior import WeightedPublicRows, row_space, whiten_and_reduce
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import Binner, n_removable_rows
from skpublicdp.boosting.budget_split import N_BINS, shift_share
from skpublicdp.boosting.histograms import (
    BOOSTING_PROOF,
    STRATEGY_UNIT,
    HistogramStrategy,
    count_sensitivity,
    histogram_sums,
)
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.privacy.stage_budget import StageBudget
from skpublicdp.typing import Floats, Integers, Mask

FALSE_ALARM_RATE = 0.01
"""Probability that the counts of a histogram are considered to show a shift if there is none. The
earlier test with `MIN_SHIFT_EVIDENCE` has about the same rate, so a fit has about twice this
rate."""

MIN_KEPT_FRACTION = 0.5
"""Minimum effective sample size that reweighting leaves, as a fraction of the number of public
rows, if at least half of the columns do not need the weights. Flatter weights correct less of the
shift, but all columns need the public rows. For biased
samples of CPS1988, wa_churn and adult, the mean ROC-AUC was .838 for each of 1/2, 1/4 and no limit
beyond `MIN_EFFECTIVE_FRACTION`, and .815 without weights."""


class DriftReport(NamedTuple):
    """Drift reported to the user, which refers to the columns without synthetic public values."""

    # mean squared deviation of the counts in standard errors, or ``None`` if there are no such
    # columns
    statistic: float | None
    is_significant: bool  # whether the statistic is larger than chance alone would explain
    # (n_columns,): the statistic of each column, which is NaN if the column was not tested
    columns: Floats | None = None

    def by_name(self, names: Sequence[str]) -> dict[str, float] | None:
        """Return the statistics of tested columns in decreasing order, or None without a test."""
        if self.columns is None:
            return None
        tested = [
            (name, float(drift))
            for name, drift in zip(names, self.columns, strict=True)
            if not np.isnan(drift)
        ]
        return dict(sorted(tested, key=lambda item: -item[1]))


NO_DRIFT = DriftReport(None, is_significant=False)
"""Report returned if no column was tested."""


def histogram_drift(
    squares: Floats,  # (n_measured,)
    errors: Floats,  # (m, n_measured)
    noise_shares: Floats,  # (n_measured,)
    column_slices: Sequence[slice],
    is_identity: Sequence[bool],
    columns: Mask | None = None,  # (n_columns,)
) -> DriftReport:
    """Test whether the counts of a histogram differ from their predictions by more than chance.

    Without a shift, the mean of squared deviations is approximately a multiple of a chi-squared
    variable. Its degrees of freedom are chosen to match mean and variance (Satterthwaite 1946). The
    correlations of counts of related columns increase the variance. Deviations are standardised:
    `squares` by the variances of the counts, and `errors` of each public row by their standard
    deviations. Independent errors such as noise have the shares `noise_shares` of the variances. If
    every bin of a column is counted (`is_identity`), the counts add up to a public number.

    References
    ----------
    F. E. Satterthwaite (1946). An approximate distribution of estimates of variance components.
    Biometrics Bulletin 2(6).
    """
    if columns is None:
        columns = np.ones(len(column_slices), dtype=bool)
    if not columns.any():
        return NO_DRIFT
    is_tested = np.zeros(len(squares), dtype=bool)
    n_counts = 0
    column_drifts = np.full(len(columns), np.nan)
    for i in np.flatnonzero(columns).tolist():
        block = column_slices[i]
        is_tested[block] = True
        n_column_counts = block.stop - block.start - is_identity[i]
        column_drifts[i] = squares[block].sum() / max(n_column_counts, 1)
        n_counts += n_column_counts
    drift = float(squares[is_tested].sum() / max(n_counts, 1))

    errors = errors[:, is_tested]
    noise_shares = noise_shares[is_tested]
    variances = (errors**2).sum(axis=0) + noise_shares
    # squared norm of the covariance matrix of the counts: errors.T @ errors with `variances` on its
    # diagonal; the matrices errors @ errors.T and errors.T @ errors have the same norm
    n_rows, n_tested = errors.shape
    gram = errors @ errors.T if n_rows < n_tested else errors.T @ errors
    diagonal_change = variances**2 - (variances - noise_shares) ** 2
    squared_norm = (gram**2).sum() + diagonal_change.sum()
    degrees_of_freedom = variances.sum() ** 2 / squared_norm if squared_norm > 0 else 1.0
    threshold = chi2.isf(FALSE_ALARM_RATE, degrees_of_freedom) / degrees_of_freedom
    return DriftReport(drift, bool(drift > threshold), column_drifts)


class ExpectedShares(NamedTuple):
    """Fractions of private rows in each bin, as predicted by the public rows without a shift."""

    means: Floats  # (n_bins,): predicted fractions
    # (n_bins,): fractions from which the sampling variances of the predictions are computed
    row_shares: Floats
    # (n_categorical, n_bins): change of the predictions per unit of mass that moves from a column's
    # categories to its bin for other categories
    transfers: Floats
    # (n_categorical,): variance of this mass for each categorical column
    transfer_variances: Floats


def expected_bin_shares(
    binner: Binner, design: WeightedPublicRows, X_public: Floats
) -> ExpectedShares:
    """Use the public rows to predict the fraction of private rows in each bin.

    The categories that have bins were chosen for their public counts, so their public shares are
    too large, and the share of all other categories is too small. The prediction for other
    categories is therefore the fraction of public rows that would be in this bin if the bins had
    been chosen without them. For a column in which every public category has a bin, this
    leave-one-out estimate is the Good-Turing estimate of the unseen mass, and its variance is that
    of Esty (1983). The mass is taken from all categories by absolute discounting (Ney, Essen and
    Kneser 1994). It is at least half a public row.

    References
    ----------
    W. W. Esty (1983). A normal limit law for a nonparametric estimator of the coverage of a random
    sample. Annals of Statistics 11(3).

    H. Ney, U. Essen, R. Kneser (1994). On structuring probabilistic dependences in stochastic
    language modelling. Computer Speech and Language 8(1).
    """
    m, shares = len(design.X), design.weights @ design.X
    means = shares.copy()
    squared_weights = design.weights**2 @ design.X
    transfers, transfer_variances = [], []
    for start, bins, values in zip(binner.offsets[:-1], binner.columns, X_public.T, strict=True):
        if not bins.column.categorical:
            continue
        other_bin = start + bins.size - 2  # the last bin is for missing values
        categories, column = slice(start, other_bin), slice(start, start + bins.size)
        category_shares, category_squares = shares[categories], squared_weights[categories]
        n_removable = n_removable_rows(bins, values)
        loses_bin, may_lose_bin = n_removable == 0, n_removable == 1
        transfer = np.zeros(len(shares))
        lost_mass = float(category_shares[loses_bin].sum())
        if lost_mass > 0:
            transfer[categories] = -_absolute_discounts(category_shares, lost_mass) / lost_mass
        else:
            lost_mass = 0.5 / m
            transfer[column] = -shares[column]
        transfer[other_bin] += 1
        means[column] += lost_mass * transfer[column]
        # pairs of rows of a category that would lose its bin if both rows were left out
        pair_weights = (category_shares**2 - category_squares)[may_lose_bin]
        transfers.append(transfer)
        transfer_variances.append(category_squares[loses_bin].sum() + pair_weights.sum())
    return ExpectedShares(
        means,
        np.maximum(means, shares),
        np.array(transfers).reshape(len(transfers), len(shares)),
        np.array(transfer_variances),
    )


def _absolute_discounts(shares: Floats, total: float) -> Floats:
    """Return equal discounts with a given total, each limited to the share that it reduces."""
    ascending = np.sort(shares)
    n_larger = np.arange(len(shares), 0, -1)
    # common discount if it exceeds exactly the shares before each position
    candidates = (total - np.cumsum(ascending) + ascending) / n_larger
    return np.minimum(shares, candidates[np.argmax(candidates <= ascending)])


def predict_counts(
    expected: ExpectedShares, strategy: HistogramStrategy, design: WeightedPublicRows
) -> tuple[Floats, Floats]:
    """Predict the measured private counts from the public rows.

    Return the expected counts and their variances due to the sampling of public rows, both of shape
    (n_measured,).
    """
    n, m = design.n, design.effective_size
    means = strategy.apply(expected.means) / STRATEGY_UNIT
    squared_blocks = tuple(block**2 for block in strategy.blocks)
    squared_strategy = replace(strategy, blocks=squared_blocks)
    # assuming at least half a public row in each bin ensures that no variance is zero
    row_shares = np.maximum(expected.row_shares, 0.5 / m)
    variances = squared_strategy.apply(row_shares) / STRATEGY_UNIT**2
    blocks = zip(strategy.column_slices, strategy.is_identity, strict=True)
    for block, is_identity in blocks:
        # E[x²] - E[x]² for combinations of bins; individual bins are nearly independent
        if not is_identity:
            variances[block] -= means[block] ** 2
    variances = np.maximum(variances, 0.0) / m
    transferred = strategy.apply(expected.transfers) / STRATEGY_UNIT
    variances += expected.transfer_variances @ transferred**2
    means[-1] = strategy.total_weight / STRATEGY_UNIT
    variances[-1] = 0.0  # the number of rows is public
    return n * means, n**2 * variances


def overlapping_columns(
    deviations: Floats,  # (n_measured,)
    Z: Floats,  # (m, n_measured)
    weights: Floats,  # (m,)
    variance: float,
    column_slices: Sequence[slice],
    has_actual_values: Mask | None = None,  # (n_columns,)
) -> Mask:
    """Indicate which columns can be reweighted without losing too many public rows.

    If weights of the public rows matched a column's fractions exactly, the effective sample size
    would be divided by at least 1 + χ², where χ² is the chi-squared divergence of the private from
    the public fractions. A column overlaps if the lower limit of this divergence (three standard
    deviations below the estimate) leaves the fraction `MIN_KEPT_FRACTION`. Columns with synthetic
    public values always overlap: these values are no sample, so their fractions are wrong by
    design, and Newton steps with wrong fractions can diverge.
    """
    overlaps = np.ones(len(column_slices), dtype=bool)
    for i, block in enumerate(column_slices):
        column_Z = Z[:, block]
        column_deviations = deviations[block]
        centred = column_Z - weights @ column_Z
        row_covariance = (centred * weights[:, None]).T @ centred
        noise = variance * np.eye(len(row_covariance))
        # inverse of the row covariance, shrunk where it is small compared with the noise
        noisy_covariance = row_covariance + noise
        shrunk = solve(noisy_covariance, row_covariance, assume_a="pos")
        inverse = solve(noisy_covariance, shrunk.T, assume_a="pos")
        divergence = column_deviations @ inverse @ column_deviations
        # mean and variance of this quadratic form without a shift
        null_covariance = (weights @ weights) * row_covariance + noise
        product = inverse @ null_covariance
        null_mean = np.trace(product)
        null_variance = 2 * np.trace(product @ product)
        chance = null_mean + 3 * np.sqrt(null_variance)
        overlaps[i] = 1 + divergence - chance <= 1 / MIN_KEPT_FRACTION
    return overlaps if has_actual_values is None else overlaps | ~has_actual_values


def flattened_weights(weights: Floats) -> Floats:
    """Return the weights, raised to the largest power from 0 to 1 that keeps enough public rows.

    The minimum effective sample size is `MIN_KEPT_FRACTION`. A single column whose public values
    lie beside the private values would otherwise leave few rows for all other columns.
    """
    log_weights = np.log(np.maximum(weights, 1e-100))

    def flattened(power: float) -> Floats:
        """Return the normalised weights for a given power."""
        unnormalised = np.exp(power * (log_weights - log_weights.max()))
        return unnormalised / unnormalised.sum()

    def excess_concentration(power: float) -> float:
        """Return the sum of squared weights, relative to its maximum, minus 1."""
        flat = flattened(power)
        return MIN_KEPT_FRACTION * len(flat) * float(flat @ flat) - 1

    if excess_concentration(1.0) <= 0:
        return weights
    return flattened(float(brentq(excess_concentration, 0.0, 1.0)))


MIN_SHIFT_EVIDENCE = 2.0
"""Log marginal likelihood ratio in favour of a shift above which the public rows are reweighted."""

MIN_EFFECTIVE_FRACTION = 0.1
"""Minimum effective sample size, as a fraction of the number of rows, at which the weights of the
first tests are accepted."""

TILT_VARIANCES = np.geomspace(0.003, 30, 25)
"""Grid of prior variances for the coefficients of the log weights, from which the most likely one
is used."""

MAX_CALIBRATION_STEPS = 50
"""Maximum number of Newton steps in `calibrate_weights`, which stops early at the optimum."""


def median_split_indicators(binner: Binner, design: WeightedPublicRows) -> Integers:
    """Return a median split of each column, with about half of the public rows on either side.

    Noisy counts of the private rows in these bins are used to test for a shift of the column. Bins
    are split in their order. The order of categories does not depend on the public rows: in
    decreasing order of frequency, the public share of the lower half would exceed the private share
    even without a shift. Columns that are constant in the public rows have no split. Shape of the
    result: (n_splits, n_bins).
    """
    bin_shares = design.weights @ design.X  # (n_bins,)
    splits = []
    # the last offset is the number of bins, not the start of a column
    for start, bins in zip(binner.offsets[:-1], binner.columns, strict=True):
        shares = bin_shares[start : start + bins.size]
        occupied = np.flatnonzero(shares > 0)
        if len(occupied) < 2:
            continue
        lower_share = np.cumsum(shares[occupied[:-1]])  # of each possible split
        n_lower = 1 + int(np.argmin(np.abs(lower_share - 0.5)))
        lower_bins = start + occupied[:n_lower]
        indicator = np.zeros(len(bin_shares), dtype=np.int64)
        indicator[lower_bins] = 1
        splits.append(indicator)
    shape = len(splits), len(bin_shares)
    return np.array(splits, dtype=np.int64).reshape(shape)


def shift_features(binner: Binner, X: Floats, X_public: Floats) -> Floats:
    """Return the features of a log-linear model of the density ratio of private to public rows.

    The features of a numeric column are the logit of the rank, which is unbounded in both tails,
    and an indicator of missing values. The features of a categorical column are indicators of its
    categories. Shapes: X (m, n_bins), X_public (m, n_columns), result (m, n_features).
    """
    features = []
    for start, stop, bins, values in zip(
        binner.offsets[:-1], binner.offsets[1:], binner.columns, X_public.T, strict=True
    ):
        if bins.column.categorical:
            features.append(X[:, start:stop])
            continue
        is_number = ~np.isnan(values)
        logits = np.zeros(len(values))
        ranks = (rankdata(values[is_number]) - 0.5) / max(int(is_number.sum()), 1)
        logits[is_number] = np.log(ranks / (1 - ranks))
        is_missing = X[:, stop - 1 : stop]
        features += [logits[:, None], is_missing]
    return np.hstack(features)


def noisy_shift(
    training: TrainingData, ledger: Ledger, budget: StageBudget, max_share: Fraction
) -> tuple[ShiftEstimate | None, Fraction]:
    """Test for covariate shift, and reweight the public rows if the shift is significant.

    If the test is significant, the weights are estimated a second time. The second estimate uses
    bins at quantiles of the reweighted public rows. Return the drift found by the first test with
    the weights found by the last one, or None if testing is too expensive, and the share of the
    budget that was spent.
    """
    data = training.binned
    design = WeightedPublicRows.from_data(data)
    n_counts = len(median_split_indicators(data.binner, design))
    share = shift_share(budget, data.rows.n, ledger.for_person(count_sensitivity(n_counts)))
    if share is None or share > max_share:
        return None, Fraction(0)
    test_budget = budget.fraction(share)
    first = _shift_from_noisy_counts(
        training, data, design, ledger, test_budget, MIN_SHIFT_EVIDENCE
    )
    spent = 2 * share
    if first.weights is None or spent > max_share:
        return first, share
    data = training.bin(N_BINS, first.weights)
    design = WeightedPublicRows.from_data(data, first.weights)
    second = _shift_from_noisy_counts(training, data, design, ledger, test_budget, 0.0)
    weights = first.weights if second.weights is None else second.weights
    return replace(first, weights=weights), spent


def _shift_from_noisy_counts(
    training: TrainingData,
    data: BinnedData,
    design: WeightedPublicRows,
    ledger: Ledger,
    budget: StageBudget,
    min_evidence: float,
) -> ShiftEstimate:
    """Release noisy counts of the private rows below each column's median, and estimate the shift.

    The public rows are reweighted if the log marginal likelihood ratio exceeds `min_evidence`.
    """
    indicators = median_split_indicators(data.binner, design)
    expected = expected_bin_shares(data.binner, design, training.X_public)
    no_gradients, offsets = np.empty((0, 0)), data.binner.offsets
    bin_counts = data.rows.sum_over_chunks(
        lambda rows: histogram_sums(no_gradients, data.codes(rows), offsets)
    )[-1]
    counts = ledger.add_noise(
        indicators @ bin_counts,
        count_sensitivity(len(indicators)),
        budget.event,
        name="noisy counts of lower halves of columns",
        proof=BOOSTING_PROOF,
    )
    features = shift_features(data.binner, design.X, training.X_public)

    def estimate(is_tested: Mask) -> ShiftEstimate:
        """Return the estimate obtained from a subset of the splits."""
        return estimate_shift(
            design,
            indicators[is_tested],
            features,
            counts.values[is_tested],
            counts.variance,
            min_evidence,
            expected=expected,
            pure=budget.pure,
        )

    column_of_split = np.searchsorted(offsets, indicators.argmax(axis=1), side="right") - 1

    def column_squares(is_tested: Mask, squares: Floats | None) -> Floats | None:
        """Return the squared deviation of each column, which is NaN without a tested split."""
        if squares is None:
            return None
        by_column = np.full(len(offsets) - 1, np.nan)
        by_column[column_of_split[is_tested]] = squares
        return by_column

    all_splits = np.ones(len(indicators), dtype=bool)
    shift = estimate(all_splits)
    shift = replace(shift, columns=column_squares(all_splits, shift.columns))
    if training.has_actual_values is None:
        return shift
    is_tested = training.has_actual_values[column_of_split]
    if not is_tested.any():
        return replace(shift, actual=NO_DRIFT)
    actual = estimate(is_tested).report
    columns = column_squares(is_tested, actual.columns)
    return replace(shift, actual=actual._replace(columns=columns))


@dataclass(frozen=True, eq=False)
class ShiftEstimate:
    """Result of a covariate shift test of the public rows."""

    # Drift statistic, which is the mean squared deviation of the counts in units of standard
    # errors. The statistic is about 1 if both samples come from the same population.
    drift: float
    # (m,): importance weights of the public rows, which sum to 1. The value is None if there is no
    # significant shift, or if no acceptable weights can correct the shift.
    weights: Floats | None
    drifted: bool  # whether the shift is significant
    # Result of the same test for the columns without synthetic public values. By default, this is
    # the result for all columns.
    actual: DriftReport | None = None
    # squared deviation of each count in units of its variance or, after `noisy_shift`, of each
    # column
    columns: Floats | None = None

    @property
    def report(self) -> DriftReport:
        """Drift that is reported to the user."""
        if self.actual is not None:
            return self.actual
        return DriftReport(self.drift, self.drifted, self.columns)


def estimate_shift(
    design: WeightedPublicRows,
    indicators: Integers,  # (n_splits, n_bins)
    features: Floats,  # (m, n_features)
    counts: Integers,  # (n_splits,)
    variance: float,
    min_evidence: float,
    *,
    expected: ExpectedShares | None = None,
    pure: bool = False,
) -> ShiftEstimate:
    """Test whether the distributions of private and public rows differ, and reweight public rows.

    The density ratio of private to public rows is modelled as exp(features @ a) with the prior a ~
    N(0, s I), where s is chosen to maximise the marginal likelihood of a Gaussian approximation.
    The public rows are reweighted by the density ratio at the posterior mode of a. The log marginal
    likelihood ratio must exceed `min_evidence`. By default, the expected fractions are those of
    public rows. With Laplace noise (`pure`), the test uses normal scores of the deviations.
    """
    Z = design.X @ indicators.T  # (m, n_splits)
    n, weights = design.n, design.weights
    # variance of the difference of two sample means, per unit of the variance of a row
    sampling_factor = design.concentration + 1 / n
    public_shares = weights @ Z
    sampling_variances = sampling_factor * (weights @ (Z - public_shares) ** 2)
    expected_shares, transfer_variances = public_shares, np.zeros(len(counts))
    if expected is not None:
        expected_shares = indicators @ expected.means
        transferred = indicators @ expected.transfers.T  # (n_splits, n_categorical)
        transfer_variances = transferred**2 @ expected.transfer_variances
    # the errors of different splits are independent, like those of the noise
    error_variances = variance / n**2 + transfer_variances
    deviations = counts / n - expected_shares
    tested = deviations
    if pure:
        gaussian_variances = sampling_variances + transfer_variances
        tested = normal_scores(deviations, gaussian_variances, variance / n**2)
    squares = tested**2 / (sampling_variances + error_variances)
    drift = float(squares.mean())

    totals = public_shares + np.stack([deviations, tested])
    (shares, tested_shares), Z = whiten_and_reduce(totals, error_variances, Z)
    _, features = row_space(features - weights @ features)
    centred = Z - weights @ Z
    row_covariance = (centred * weights[:, None]).T @ centred
    covariance = sampling_factor * row_covariance + np.eye(len(shares))
    jacobian = (centred * weights[:, None]).T @ features
    log_evidence = _shift_log_evidence(tested_shares - weights @ Z, covariance, jacobian)
    if log_evidence.max() <= min_evidence:
        return ShiftEstimate(drift, None, drifted=False, columns=squares)
    # if there is a shift, normal scores would underestimate its size
    log_evidence = _shift_log_evidence(shares - weights @ Z, covariance, jacobian)
    scaled = np.sqrt(TILT_VARIANCES[np.argmax(log_evidence)]) * features
    new_weights = _tilt_weights(weights, scaled, Z, shares, covariance)
    effective_size = 1 / (new_weights @ new_weights)
    is_rejected = effective_size < MIN_EFFECTIVE_FRACTION * len(new_weights)
    if is_rejected:
        return ShiftEstimate(drift, None, drifted=True, columns=squares)
    is_similar = squares <= chi2.isf(FALSE_ALARM_RATE, 1)
    if is_similar.mean() >= 0.5:  # most columns need many rows more than other weights
        new_weights = flattened_weights(new_weights)
    return ShiftEstimate(drift, new_weights, drifted=True, columns=squares)


def normal_scores(deviations: Floats, sampling_variances: Floats, noise_variance: float) -> Floats:
    """Transform deviations into Gaussian deviations with the same variances and tail probabilities.

    Each deviation is the sum of a Gaussian sampling error and Laplace noise. Large deviations are
    more likely under Laplace noise than under Gaussian noise, so a test that assumes Gaussian noise
    would find spurious shifts.
    """
    scale = np.sqrt(noise_variance / 2)  # of the Laplace distribution
    sampling = np.sqrt(sampling_variances)
    # adding a Gaussian part that is negligible compared with the noise avoids a division by zero
    sampling = np.maximum(sampling, 1e-4 * scale)
    u = np.abs(deviations) / sampling
    k = sampling / scale
    # P(X > x) = phi(u) (R(u) - R(u + k) / 2 + R(k - u) / 2), for Mills' ratio R
    log_ratio = _log_mills_ratio(u)
    quotient = np.exp(_log_mills_ratio(u + k) - log_ratio)
    log_difference = log_ratio + np.log1p(-quotient / 2)  # the first two terms
    log_last_term = _log_mills_ratio(k - u) - np.log(2)
    squares = u**2 + np.log(2 * np.pi)
    log_density = -squares / 2
    log_tail = log_density + np.logaddexp(log_difference, log_last_term)
    log_tail = np.minimum(log_tail, np.log(0.5))
    scores = -ndtri_exp(log_tail)
    variances = sampling_variances + noise_variance
    total_deviations = np.sqrt(variances)
    return np.sign(deviations) * scores * total_deviations


def _log_mills_ratio(x: Floats) -> Floats:
    """Return log((1 - Phi(x)) / phi(x)), without cancellation in either tail."""
    positive = np.log(np.sqrt(np.pi / 2) * erfcx(np.maximum(x, 0) / np.sqrt(2)))
    negative = log_ndtr(-x) + (x**2 + np.log(2 * np.pi)) / 2
    return np.where(x > 0, positive, negative)


def _shift_log_evidence(deviation: Floats, covariance: Floats, jacobian: Floats) -> Floats:
    """Return the log marginal likelihood ratio for a shift at each prior variance.

    The prior variances s of the log-weight coefficients are `TILT_VARIANCES`. Let C be the
    covariance of the deviation without a shift, and let J be the Jacobian. With a shift, the
    covariance is C + s J Jᵀ. After whitening by C, the eigenvectors are the same for all s, so a
    single decomposition suffices.
    """
    root = np.linalg.cholesky(covariance)
    white_jacobian = np.linalg.solve(root, jacobian)
    white_deviation = np.linalg.solve(root, deviation)
    shift_covariance = white_jacobian @ white_jacobian.T
    eigenvalues, eigenvectors = np.linalg.eigh(shift_covariance)
    squares = (eigenvectors.T @ white_deviation) ** 2
    eigenvalues = np.maximum(eigenvalues, 0.0)
    ratios = TILT_VARIANCES[:, None] * eigenvalues  # (n_variances, n)
    explained = squares * ratios / (1 + ratios)
    return (explained - np.log1p(ratios)).sum(axis=1) / 2


def _tilt_weights(
    weights: Floats, features: Floats, Z: Floats, shares: Floats, covariance: Floats
) -> Floats:
    """Return weights proportional to weights * exp(features @ a), at the posterior mode of a.

    The coefficients a have a N(0, I) prior, and the likelihood of the released shares is Gaussian.
    The features, shape (m, n_features), are multiplied by the prior standard deviation. Z, shape
    (m, n), has the contribution of each public row to the shares.
    """
    factor = cho_factor(covariance)

    def tilt(coefficients: Floats) -> Floats:
        """Return the weights for given coefficients, normalised to sum to 1."""
        exponents = features @ coefficients
        unnormalised = weights * np.exp(exponents - exponents.max())
        return unnormalised / unnormalised.sum()

    def negative_log_posterior(coefficients: Floats) -> tuple[float, Floats]:
        """Return the negative log posterior density of the coefficients, and its gradient."""
        w = tilt(coefficients)
        residuals = w @ Z - shares
        solved = cho_solve(factor, residuals)
        row_slopes = Z @ solved
        gradient = features.T @ (w * (row_slopes - w @ row_slopes))
        value = float(residuals @ solved + coefficients @ coefficients) / 2
        return value, gradient + coefficients

    start = np.zeros(features.shape[1])
    mode = minimize(negative_log_posterior, start, jac=True, method="L-BFGS-B").x
    new_weights = np.maximum(tilt(mode), 1e-100)  # `calibrate_weights` takes logarithms
    return new_weights / new_weights.sum()


def calibrate_weights(
    design: WeightedPublicRows, Z: Floats, counts: Floats, variance: float
) -> WeightedPublicRows:
    """Reweight the public rows by entropy balancing to match the released counts.

    The weights w minimise m KL(w || u) + ½ Σ (counts - n Zᵀw)² / variance. Here u denotes the
    current weights and m the effective number of public rows. At the solution, log(w / u) is linear
    in Z. The solution is computed by Newton's method with backtracking on the convex dual problem
    (Hainmueller 2012). Z, shape (m, n_measured), has the contribution of each public row to the
    counts.
    """
    n, m = design.n, design.effective_size
    log_weights = np.log(design.weights)
    dual = np.zeros(len(counts))

    def evaluate(dual: Floats) -> tuple[float, Floats]:
        """Return the dual objective, and the weights that correspond to the dual variables."""
        exponents = n * (Z @ dual) / m + log_weights
        max_exponent = exponents.max()  # subtracted so that `exp` does not overflow
        unnormalised = np.exp(exponents - max_exponent)
        total = unnormalised.sum()
        log_partition = max_exponent + np.log(total)
        penalty = variance * (dual @ dual) / 2
        value = m * log_partition - dual @ counts + penalty
        return float(value), unnormalised / total

    value, weights = evaluate(dual)
    for _ in range(MAX_CALIBRATION_STEPS):
        mean = Z.T @ weights
        gradient = n * mean - counts + variance * dual
        hessian = n**2 / m * ((Z * weights[:, None]).T @ Z - np.outer(mean, mean))
        hessian[np.diag_indices_from(hessian)] += variance
        direction = solve(hessian, gradient, assume_a="pos")
        decrease = float(gradient @ direction)  # squared Newton decrement
        if decrease < 1e-8:
            break
        step_size = 1.0
        while step_size > 1e-6:  # backtracking until the Armijo condition holds
            new_value, new_weights = evaluate(dual - step_size * direction)
            if new_value <= value - step_size * decrease / 4:
                break
            step_size /= 2
        else:  # rounding errors prevent any further decrease
            break
        dual, value, weights = dual - step_size * direction, new_value, new_weights
    return WeightedPublicRows(design.X, weights, n)
