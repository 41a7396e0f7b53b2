"""Metrics that are ratios of sums over the cells, or pairs of cells, of a noisy table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.stats import norm

from skpublicdp.metrics.counts import ScoreBins
from skpublicdp.metrics.noisy_counts import NoisyTable
from skpublicdp.metrics.score_intervals import (
    agresti_coull_rows,
    clipped_ratio,
    extend_interval,
    fieller,
    ratio_interval,
)
from skpublicdp.typing import Floats

N_CALIBRATION_BINS = 8
"""Number of bins in a calibration curve."""

MIN_CLASS_Z = 2
"""A class is not clipped if its size exceeds this number of noise standard deviations."""

PSEUDO_ROWS = 0.25
"""Pseudo-count added to the first and last bin of each class, which keeps variances positive."""

MIN_SHRINKAGE = 0.75
"""Minimum factor applied to the noise variance to correct for gradients at noisy counts.

The unhalved factor is at least 1/2, so half of its step is at least 3/4 (docs/proofs/scores.md)."""


class Statistic(Protocol):
    """A metric that is estimated from a noisy table, with a confidence interval."""

    def value(self, table: NoisyTable) -> Any:
        """Return the estimate, which is a number or an array for metrics with several values."""

    def interval(self, table: NoisyTable, failure: float) -> Floats:
        """Return intervals of shape (..., 2), each of which fails with probability `failure`."""


class _PairSums(NamedTuple):
    """Sums over all pairs of a positive and a negative row, and their gradients in the counts."""

    # (2 * n_bins,): derivatives with respect to the counts of shape (2, n_bins), flattened, with
    # the negative class first
    numerator_gradient: Floats
    denominator_gradient: Floats
    numerator: float  # sum of the kernel over the pairs
    denominator: float  # number of pairs


@dataclass(frozen=True, eq=False)
class TwoSampleUStatistic:
    """Mean of a kernel over pairs of a positive and a negative row (two-sample U-statistic)."""

    # (n_bins, n_bins): kernel value of a pair, indexed by the bin of its positive row and the bin
    # of its negative row
    kernel: Floats

    def gradients_and_sums(self, counts: Floats) -> _PairSums:
        """Return the sums over pairs of rows for counts of shape (2, n_bins), negatives first."""
        negative, positive = counts
        positive_gradient, negative_gradient = self.kernel @ negative, positive @ self.kernel
        numerator_gradient = np.concatenate([negative_gradient, positive_gradient])
        denominator_gradient = np.repeat([positive.sum(), negative.sum()], counts.shape[1])
        return _PairSums(
            numerator_gradient,
            denominator_gradient,
            float(positive @ positive_gradient),
            float(positive.sum() * negative.sum()),
        )

    def value(self, table: NoisyTable) -> float:
        """Return the estimated mean of the kernel, or 0.5 if a class is empty."""
        # indicator of the cells of each class, (2, 2 * n_bins)
        class_weights = np.repeat(np.eye(2), table.counts.shape[1], axis=1)
        class_noise = np.sqrt(table.covariance(class_weights, class_weights))
        class_sizes = table.counts.sum(1)
        # nonnegative counts are biased, but a class size below the noise may be negative
        is_detected = class_sizes > MIN_CLASS_Z * class_noise
        counts = table.counts if is_detected.all() else table.nonnegative
        _, _, numerator, n_pairs = self.gradients_and_sums(counts)
        if n_pairs > 0:
            return float(np.clip(numerator / n_pairs, 0, 1))
        return 0.5

    def interval(self, table: NoisyTable, failure: float) -> Floats:
        """Return the two ends of Fieller's confidence interval, shape (2,).

        The variance of A - θ B, for the ratio θ = A / B, is the sum of a noise variance and a
        sampling variance. The sampling variance is estimated at θ (1 - θ), as in Wilson's interval
        (docs/proofs/scores.md).
        """
        # u, v: gradients of A and B; (a, b, c): variance of A, covariance, variance of B
        u, v, numerator, denominator = self.gradients_and_sums(table.counts)
        totals = np.array(numerator), np.array(denominator)
        ratio = clipped_ratio(*totals)  # the estimate of θ
        noise_a = table.covariance(u, u)
        noise_b = table.covariance(u, v)
        noise_c = table.covariance(v, v)
        noise_variance = noise_a - 2 * ratio * noise_b + ratio**2 * noise_c
        # gradients at noisy counts include the variance of the noise product twice; half of the
        # excess is subtracted, because the estimate itself varies
        squared_deviations = ((self.kernel - ratio) ** 2).sum()
        product_variance = table.variance.prod() * squared_deviations
        shrinkage = 1.0
        if noise_variance > 0:
            shrinkage = max(1 - product_variance / noise_variance / 2, MIN_SHRINKAGE)
        a = shrinkage * noise_a
        b = shrinkage * noise_b
        c = shrinkage * noise_c
        sampling_variance, squared_per_row = self._sampling_variance(table, denominator)
        # θ (1 - θ) V added to a - 2 θ b + θ² c
        variances = a, b - sampling_variance / 2, c - sampling_variance
        total_variance = a - 2 * ratio * b + ratio**2 * c
        total_variance += sampling_variance * ratio * (1 - ratio)
        inverse_dof = np.array(0.0)
        if total_variance > 0:
            relative_variance = ratio * (1 - ratio) / total_variance
            inverse_dof = squared_per_row * relative_variance**2
        fourth_cumulant = table.fourth_cumulant(u - ratio * v)
        return fieller(
            *totals, variances, fourth_cumulant, failure=failure, inverse_dof=inverse_dof
        )

    def _sampling_variance(self, table: NoisyTable, denominator: float) -> tuple[float, float]:
        """Return the sampling variance of A - θ B (DeLong et al. 1988), and its squares per row.

        These are Σ V_k / (θ (1 - θ)) and Σ V_k² / n_k / (θ (1 - θ))² over both classes. The
        denominator is the unbiased estimate of the number of pairs.
        """
        counts = table.nonnegative.copy()
        counts[:, [0, -1]] += PSEUDO_ROWS
        u, v, numerator, n_pairs = self.gradients_and_sums(counts)
        ratio = numerator / n_pairs
        gradients = u - ratio * v
        squared_gradients = (gradients**2).reshape(counts.shape)
        # the gradients refer to `n_pairs` pairs, which include the pseudo-counts
        pairs_ratio = denominator / n_pairs
        binomial_variance = ratio * (1 - ratio)
        scale = table.design_effect * pairs_ratio**2 / binomial_variance
        class_variances = scale * (counts * squared_gradients).sum(1)
        # the numerator of Satterthwaite's inverse degrees of freedom
        squared_per_row = table.design_effect * class_variances**2 / counts.sum(1)
        return float(class_variances.sum()), float(squared_per_row.sum())


def roc_auc_kernel(n_bins: int) -> TwoSampleUStatistic:
    """Return the U-statistic of the area under the ROC curve.

    A pair of rows in the same bin contributes 1/2.
    """
    all_pairs = np.ones((n_bins, n_bins))
    return TwoSampleUStatistic((np.tril(all_pairs) + np.tril(all_pairs, -1)) / 2)


def balanced_accuracy_kernel(score_bins: ScoreBins) -> TwoSampleUStatistic:
    """Return the U-statistic of balanced accuracy, the mean recall of the two classes."""
    half_positive = score_bins.predicts_positive / 2
    # a pair contributes 1/2 if its positive row is predicted positive, and 1/2 if its negative row
    # is predicted negative
    return TwoSampleUStatistic(half_positive[:, None] + 0.5 - half_positive)


@dataclass(frozen=True, eq=False)
class RatioMetrics:
    """Metrics that are ratios of two weighted sums of the counts in a contingency table."""

    # (..., n_labels, n_bins): weights of the cells in both sums, between 0 and 1. The leading axes
    # index the ratios.
    numerator: Floats
    denominator: Floats
    default: Floats  # (...,): value of the ratio if the denominator is 0
    # whether estimates use the unbiased counts instead of the nonnegative counts
    unbiased: bool = False

    def value(self, table: NoisyTable) -> Floats:
        """Return the estimates, shape (...,)."""
        counts = table.counts if self.unbiased else table.nonnegative
        numerator = (self.numerator * counts).sum((-2, -1))
        denominator = (self.denominator * counts).sum((-2, -1))
        ratios = np.divide(
            numerator, denominator, out=np.array(self.default, dtype=float), where=denominator > 0
        )
        return np.clip(ratios, 0, 1)

    def interval(self, table: NoisyTable, failure: float) -> Floats:
        """Return the ends of a confidence interval for each ratio, shape (..., 2)."""
        flat_shape = (*self.numerator.shape[:-2], -1)  # (..., n_labels * n_bins)
        numerator = self.numerator.reshape(flat_shape)
        denominator = np.broadcast_to(self.denominator, self.numerator.shape).reshape(flat_shape)
        counts = table.counts.ravel()
        return ratio_interval(
            table,
            numerator,
            denominator,
            (numerator @ counts, denominator @ counts),
            failure,
            table.nonnegative.ravel(),
            2 * agresti_coull_rows(failure),
        )


def confusion_shares(n_labels: int, score_bins: ScoreBins | None) -> RatioMetrics:
    """Return the ratios for the entries of the confusion matrix, as fractions of all rows.

    The ratios have shape (n_labels, n_labels), indexed by true label and predicted label.
    """
    identity = np.eye(n_labels)
    predicted = identity  # (n_labels, n_bins): indicator of the bins with each predicted label
    if score_bins is not None:
        is_positive = score_bins.predicts_positive
        predicted = np.array([~is_positive, is_positive], dtype=float)
    numerator = identity[:, None, :, None] * predicted[None, :, None, :]
    denominator = np.ones(numerator.shape[-2:])
    return RatioMetrics(numerator, denominator, default=np.zeros(numerator.shape[:2]))


def recalls(n_labels: int) -> RatioMetrics:
    """Return the ratios for the recall of each class, shape (n_labels,).

    The recall of a class that has no rows is 0.5.
    """
    identity = np.eye(n_labels)
    numerator = identity[:, :, None] * identity[:, None, :]
    return RatioMetrics(
        numerator, np.repeat(identity[:, :, None], n_labels, axis=2), np.full(n_labels, 0.5)
    )


@dataclass(frozen=True, eq=False)
class MeanRecall:
    """Mean recall of several classes, computed from a confusion matrix."""

    n_labels: int

    def value(self, table: NoisyTable) -> float:
        """Return the estimated mean recall."""
        return float(recalls(self.n_labels).value(table).mean())

    def interval(self, table: NoisyTable, failure: float) -> Floats:
        """Return the two ends of a confidence interval, shape (2,).

        By the union bound, all recalls are simultaneously contained in their intervals except with
        probability `failure`. In this case, the mean recall is contained in the mean of the
        intervals.
        """
        return np.asarray(
            recalls(self.n_labels).interval(table, failure / self.n_labels).mean(axis=0)
        )


def balanced_accuracy_statistic(n_labels: int, score_bins: ScoreBins | None) -> Statistic:
    """Return balanced accuracy: a U-statistic for two classes with score bins, or mean recall."""
    return MeanRecall(n_labels) if score_bins is None else balanced_accuracy_kernel(score_bins)


def above_threshold(n_bins: int) -> Floats:
    """Return the indicator of the bins above each edge, shape (n_bins - 1, n_bins)."""
    return np.triu(np.ones((n_bins, n_bins)))[1:]


def roc_rates(n_bins: int) -> RatioMetrics:
    """Return the ratios for false and true positive rates at each edge, shape (2, n_bins - 1)."""
    label = np.eye(2)[:, None, :, None]
    numerator = label * above_threshold(n_bins)[None, :, None, :]
    denominator = np.broadcast_to(label, numerator.shape)
    return RatioMetrics(numerator, denominator, np.zeros(numerator.shape[:2]))


def precisions(n_bins: int) -> RatioMetrics:
    """Return the ratios for the precision above each edge, shape (n_bins - 1,)."""
    denominator = np.repeat(above_threshold(n_bins)[:, None, :], 2, axis=1)
    return RatioMetrics(
        denominator * np.array([0.0, 1.0])[:, None], denominator, np.ones(n_bins - 1)
    )


def accuracies(n_bins: int) -> RatioMetrics:
    """Return the ratios for the accuracy at each edge as threshold, shape (n_bins - 1,)."""
    predicted_positive = above_threshold(n_bins)
    numerator = np.stack([1 - predicted_positive, predicted_positive], axis=1)
    return RatioMetrics(numerator, np.ones((2, n_bins)), np.zeros(n_bins - 1))


def calibration_bins(n_bins: int) -> Floats:
    """Return which consecutive score bins are merged to form each calibration bin.

    The shape is (n_calibration_bins, n_bins).
    """
    score_bins = np.arange(n_bins)
    groups = np.array_split(score_bins, min(N_CALIBRATION_BINS, n_bins))
    return np.array([np.isin(score_bins, group) for group in groups], dtype=float)


def calibration(n_bins: int, mean_prediction: Floats) -> RatioMetrics:
    """Return the ratios for the fraction of positive rows in each calibration bin.

    `mean_prediction`, shape (n_calibration_bins,), is the value used for empty bins.
    """
    denominator = np.repeat(calibration_bins(n_bins)[:, None, :], 2, axis=1)
    return RatioMetrics(denominator * np.array([0.0, 1.0])[:, None], denominator, mean_prediction)


@dataclass(frozen=True, eq=False)
class LabelMean:
    """Weighted sum, over all labels, of a statistic of each label's table."""

    statistic: Statistic  # one-versus-rest metric of a label, which is a number
    weights: Floats  # (n_labels,)
    # Confusion matrix used to estimate the weights, as fractions of rows by true label. None means
    # that the weights are fixed.
    confusion: NoisyTable | None = None

    def values(self, tables: tuple[NoisyTable, ...]) -> Floats:
        """Return the metric of each label, shape (n_labels,)."""
        return np.array([self.statistic.value(table) for table in tables])

    def intervals(self, tables: tuple[NoisyTable, ...], failure: float) -> Floats:
        """Return the interval of each label's metric, shape (n_labels, 2)."""
        ends = np.array([self.statistic.interval(table, failure) for table in tables])
        return extend_interval(ends, self.values(tables))

    def value(self, tables: tuple[NoisyTable, ...]) -> float:
        """Return the estimated weighted sum."""
        return float(self.weights @ self.values(tables))

    def interval(self, tables: tuple[NoisyTable, ...], failure: float) -> Floats:
        """Return the two ends of a confidence interval, shape (2,).

        Distances from the estimate to the ends are combined like standard errors (MOVER, Zou and
        Donner 2008). Since the noise of different labels is nearly uncorrelated, the squares of the
        distances due to noise are added. All labels are evaluated on the same rows, so the
        distances due to sampling are added linearly, which covers any correlation. An interval that
        ends at 0 or 1 may be truncated, so its entire distance is added linearly.
        """
        values = self.values(tables)
        estimates = values[:, None]  # (n_labels, 1)
        ends = self.intervals(tables, failure)
        distances = np.abs(ends - estimates)  # (n_labels, 2)

        noiseless = [table.without_noise() for table in tables]
        sampling_ends = np.array([self.statistic.interval(table, failure) for table in noiseless])
        sampling_distances = np.abs(sampling_ends - estimates)
        sampling_distances = np.minimum(sampling_distances, distances)
        low, high = ends.T
        is_cut_off = (low <= 0) | (high >= 1)
        sampling_distances[is_cut_off] = distances[is_cut_off]

        noise_squared = distances**2 - sampling_distances**2
        z = float(norm.isf(failure / 2))
        weight_squared = z**2 * self._weight_variance(values)
        distance_squared = (self.weights @ sampling_distances) ** 2  # (2,)
        distance_squared += self.weights**2 @ noise_squared
        distance_squared += weight_squared
        distance = np.sqrt(distance_squared)
        return np.asarray(self.weights @ values + distance * np.array([-1, 1]))

    def _weight_variance(self, values: Floats) -> float:
        """Return the variance of a weighted sum of given values with the estimated weights."""
        if self.confusion is None:
            return 0.0
        n_labels, n = len(self.weights), self.confusion.n
        cell_values = np.repeat(values, n_labels)  # by true label, flattened
        deviations = np.repeat(values - self.weights @ values, n_labels)
        noise = self.confusion.covariance(cell_values, cell_values)
        sampling = self.confusion.design_effect * (
            deviations**2 @ self.confusion.nonnegative.ravel()
        )
        return float(noise + sampling) / n**2
