"""Means of one-versus-rest metrics over labels, with confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from skpublicdp.metrics.estimates import Statistic
from skpublicdp.metrics.noisy_counts import NoisyTable
from skpublicdp.metrics.score_intervals import extend_interval
from skpublicdp.typing import Floats


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
