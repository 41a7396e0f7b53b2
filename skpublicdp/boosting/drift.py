"""Drift of public rows: predicted counts without a shift, a test of histograms, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve
from scipy.optimize import brentq
from scipy.stats import chi2

from skpublicdp.boosting.additive_posterior import WeightedPublicRows
from skpublicdp.boosting.binner import Binner, n_removable_rows
from skpublicdp.boosting.strategy import STRATEGY_UNIT, HistogramStrategy
from skpublicdp.typing import Floats, Mask

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
    squares: Floats,
    errors: Floats,
    noise_shares: Floats,
    column_slices: Sequence[slice],
    is_identity: Sequence[bool],
    columns: Mask | None = None,
) -> DriftReport:
    """Test whether the counts of a histogram differ from their predictions by more than chance.

    Without a shift, the mean of squared deviations is approximately a multiple of a chi-squared
    variable. Its degrees of freedom are chosen to match mean and variance (Satterthwaite 1946). The
    correlations of counts of related columns increase the variance.

    References
    ----------
    F. E. Satterthwaite (1946). An approximate distribution of estimates of variance components.
    Biometrics Bulletin 2(6).

    Parameters
    ----------
    squares : ndarray of float64, shape (n_measured,)
        Squared deviations of the counts, divided by their variances.
    errors : ndarray of float64, shape (m, n_measured)
        Sampling errors of the counts due to each public row, divided by their standard deviations.
    noise_shares : ndarray of float64, shape (n_measured,)
        Shares of the variances that are due to independent errors such as noise.
    column_slices : sequence of slice
        Positions of each column's counts.
    is_identity : sequence of bool
        Whether every bin of a column is counted separately, so that the counts add up to a public
        number.
    columns : ndarray of bool, shape (n_columns,), optional
        Mask of the columns that are tested. By default, all columns are tested.
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

    Parameters
    ----------
    X_public : ndarray of float64, shape (m, n_columns)
        Encoded public rows.
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

    Parameters
    ----------
    expected : ExpectedShares
        Predicted fractions of private rows in each bin.
    strategy : HistogramStrategy
        Linear combinations of bins that are measured.

    Returns
    -------
    ndarray of float64, shape (n_measured,)
        Expected counts.
    ndarray of float64, shape (n_measured,)
        Variances of these predictions due to the sampling of public rows.
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
    deviations: Floats,
    Z: Floats,
    weights: Floats,
    variance: float,
    column_slices: Sequence[slice],
    has_actual_values: Mask | None = None,
) -> Mask:
    """Indicate which columns can be reweighted without losing too many public rows.

    If weights of the public rows matched a column's fractions exactly, the effective sample size
    would be divided by at least 1 + χ², where χ² is the chi-squared divergence of the private from
    the public fractions. A column overlaps if the lower limit of this divergence (three standard
    deviations below the estimate) leaves the fraction `MIN_KEPT_FRACTION`.

    Parameters
    ----------
    deviations : ndarray of float64, shape (n_measured,)
        Measured minus expected fractions.
    Z : ndarray of float64, shape (m, n_measured)
        Contribution of each public row to the fractions.
    weights : ndarray of float64, shape (m,)
        Weights of the public rows.
    variance : float
        Noise variance of the fractions.
    column_slices : sequence of slice
        Positions of each column's fractions.
    has_actual_values : ndarray of bool, shape (n_columns,), optional
        Mask of the columns without synthetic public values. By default, no column has any.
        Columns with synthetic values always overlap: these values are no sample, so their fractions
        are wrong by design, and Newton steps with wrong fractions can diverge.
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
