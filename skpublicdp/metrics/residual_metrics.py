"""Release of noisy sums of residuals, and metrics as their ratios, with confidence intervals.

Polynomials in the residual r and the outcome z are represented by coefficient arrays with the axes
of `NoisySums`. The formulas are derived in docs/proofs/scores.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.signal import convolve2d

from skpublicdp.accounting import Noise, Sensitivity
from skpublicdp.data.streaming import Chunk
from skpublicdp.data.tables import table_height
from skpublicdp.metrics.label_tables import call_estimator, outcome_column
from skpublicdp.metrics.noisy_counts import SCORES_PROOF
from skpublicdp.metrics.score_intervals import clipped_ratio, fieller
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Floats, Integers

MAX_POWER = 4
"""Maximum power of the residual and of the outcome in a sum."""

POWERS = np.array([(2, 0), (1, 0), (4, 0), (0, 1), (0, 2), (0, 3), (0, 4), (2, 1), (2, 2)])
"""Powers (a, b) of the released sums of rᵃ zᵇ, for the residuals r and outcomes z of `scaled_rows`.

The metrics require powers up to 2, and their sampling variances require the other powers."""

SUM_UNITS = np.array([1 << 20] + [1 << 19] * 8)
"""The integer that represents 1 in each sum.

The sum of squared residuals has twice the weight of the other sums, since it has the largest
relative noise."""

SUM_RANGES = SUM_UNITS // [1, 1, 1, 1, 4, 4, 16, 1, 4]
"""Range of the summands of each sum, for r in [0, 1] and z in [-1/2, 1/2]."""

SUM_SENSITIVITY = Sensitivity(3 * (1 << 20) + len(SUM_UNITS), int((SUM_RANGES**2).sum()))
"""Sensitivity of the sums to replacing one row.

Replacing one row changes all sums together by at most 3 units of the first sum, plus 1 for each sum
due to rounding (docs/proofs/scores.md). The squared changes are bounded by the squares of the
ranges."""


@dataclass(frozen=True, eq=False)
class ResidualCounter:
    """Function that computes sums of powers of residuals and outcomes.

    The counter is a class instead of a closure, which makes it picklable for worker processes.
    """

    estimator: Any  # fitted regressor
    # public bounds (low, high) to which outcomes and predictions are clipped
    bounds: tuple[float, float]

    def __call__(self, chunk: Chunk) -> Integers:
        """Return the sums over one batch of streamed rows; see `count`."""
        return self.count(chunk.X, chunk.y, table_height(chunk.X))

    def count(self, X: Any, y: Any, n: int, by: Any = None) -> Integers:
        """Return the sums over n rows in units of `SUM_UNITS`, shape (n_sums,)."""
        if not n:  # some estimators reject an empty X
            return np.zeros(len(POWERS), dtype=np.int64)
        outcomes = outcome_column("y", y)
        predictions = call_estimator(self.estimator, "predict", X, n=n)
        predicted = outcome_column("predict", predictions)
        residuals, positions = scaled_rows(outcomes, predicted, self.bounds)
        residual_powers = residuals[:, None] ** POWERS[:, 0]  # (n, n_sums)
        position_powers = positions[:, None] ** POWERS[:, 1]
        summands = residual_powers * position_powers * SUM_UNITS
        rounded = np.rint(summands).astype(np.int64)
        return np.asarray(rounded.sum(axis=0))


def scaled_rows(
    outcomes: Floats, predicted: Floats, bounds: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Return residuals in [0, 1] and outcomes in [-1/2, 1/2], in units of the width of the bounds.

    Outcomes and predictions are clipped to the bounds. Without one of them, the residual is 1 and
    the outcome the middle of its range.
    """
    low, high = bounds
    width = high - low
    clipped = np.clip(outcomes, low, high)
    prediction = np.clip(predicted, low, high)
    residuals = np.minimum(np.abs(clipped - prediction) / width, 1)
    positions = np.clip((clipped - low) / width, 0, 1) - 0.5
    is_missing = np.isnan(residuals)
    residuals = np.where(is_missing, 1.0, residuals)
    positions = np.where(is_missing, 0.0, positions)
    return residuals, positions


@dataclass(frozen=True, eq=False)
class NoisySums:
    """Released sums of rᵃ zᵇ, together with their noise variances.

    Arrays have the axes a and b, each of length MAX_POWER + 1. The noise terms of all sums are
    independent. The sum for a = b = 0 is the number of rows and has no noise.
    """

    sums: Floats  # (5, 5): noisy sums; entries for sums that are not released are 0
    variances: Floats  # (5, 5): noise variances of the sums
    bounds: tuple[float, float]  # bounds of the outcomes
    event: Noise  # privacy cost, which determines the distribution of the noise
    design_effect: float  # factor by which persons with several rows increase sampling variances

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.sums[0, 0])

    def total(self, polynomial: Floats) -> float:
        """Return the sum over rows of a polynomial in r and z, given its coefficients."""
        return float((polynomial * self.sums).sum())

    def covariance(self, u: Floats, v: Floats) -> float:
        """Return the noise covariance of the sums of two polynomials."""
        return float((u * v * self.variances).sum())

    def fourth_cumulant(self, u: Floats) -> float:
        """Return the fourth cumulant of the noise of the sum of a polynomial."""
        return float(self.event.excess_kurtosis * (u**4 * self.variances**2).sum())


def release_residual_sums(
    exact: Integers, n: int, bounds: tuple[float, float], ledger: Ledger, design_effect: float
) -> NoisySums:
    """Release the sums of `ResidualCounter` over n rows, spending the entire budget of a ledger."""
    noise = ledger.noise
    name = f"{noise.noise_name} on sums of powers of residuals and outcomes"
    noisy = ledger.add_noise(exact, SUM_SENSITIVITY, noise, name=name, proof=SCORES_PROOF)
    sums, variances = np.zeros((2, MAX_POWER + 1, MAX_POWER + 1))
    a, b = POWERS.T
    squared_units = SUM_UNITS.astype(np.float64) ** 2
    sums[0, 0] = n
    sums[a, b] = noisy.values / SUM_UNITS
    variances[a, b] = noisy.variance / squared_units
    return NoisySums(sums, variances, bounds=bounds, event=noise, design_effect=design_effect)


RESIDUAL_METRICS = ("r2", "rmse", "mae")
"""Metrics available for a regressor."""


def residual_value(metric: str, sums: NoisySums) -> float:
    """Return the estimate of a metric.

    R² is set to 0 if the outcomes do not vary beyond the noise.
    """
    numerator, denominator = (sums.total(part) for part in _parts(metric, sums))
    if metric == "r2":
        variation = denominator - numerator
        return 1 - max(numerator, 0.0) / variation if variation > 0 else 0.0
    return float(_from_ratio(metric, np.clip(numerator / denominator, 0, 1), sums))


def residual_interval(metric: str, sums: NoisySums, failure: float) -> Floats:
    """Return the ends of a confidence interval for the population value of a metric, shape (2,).

    Fieller's interval holds the ratios r for which numerator - r denominator may have expectation
    0. The rows vary in this difference alone, so that its sampling variance, at the estimated
    ratio, is added once, to the noise variance of the numerator.
    """
    numerator, denominator = _parts(metric, sums)
    totals = np.array(sums.total(numerator)), np.array(sums.total(denominator))
    ratio = clipped_ratio(*totals)
    difference = numerator - ratio * denominator
    noise_variance = sums.covariance(numerator, numerator)
    variances = (
        np.array(noise_variance + _sampling_variance(difference, sums)),
        np.array(sums.covariance(numerator, denominator)),
        np.array(sums.covariance(denominator, denominator)),
    )
    fourth_cumulant = np.array(sums.fourth_cumulant(difference))
    ratios = fieller(*totals, variances, fourth_cumulant, failure)
    return np.sort(_from_ratio(metric, ratios, sums))


def _parts(metric: str, sums: NoisySums) -> tuple[Floats, Floats]:
    """Return the polynomials whose sums are the numerator and the denominator of a ratio.

    For R², the denominator is the squared residual plus the squared deviation of the outcome from
    its mean, which keeps the ratio in [0, 1].
    """
    numerator, denominator = np.zeros((2, MAX_POWER + 1, MAX_POWER + 1))
    if metric != "r2":
        numerator[1 if metric == "mae" else 2, 0] = 1
        denominator[0, 0] = 1
        return numerator, denominator
    mean = float(np.clip(sums.sums[0, 1] / sums.n, -0.5, 0.5))
    numerator[2, 0] = denominator[2, 0] = 1
    denominator[0, :3] = mean**2, -2 * mean, 1
    return numerator, denominator


def _sampling_variance(difference: Floats, sums: NoisySums) -> float:
    """Return an estimate of the sampling variance of a sum of a mean-zero polynomial.

    The estimate is the sum of the squared polynomial over the rows. One standard deviation of the
    noise is added, which makes the interval wide enough for any true variance.
    """
    square = convolve2d(difference, difference)[: MAX_POWER + 1, : MAX_POWER + 1]
    noise = math.sqrt(sums.covariance(square, square))
    return sums.design_effect * (max(sums.total(square), 0.0) + noise)


def _from_ratio(metric: str, ratio: Floats, sums: NoisySums) -> Floats:
    """Return the metric, which is a monotone function of a given ratio of sums."""
    width = sums.bounds[1] - sums.bounds[0]
    if metric == "r2":
        # A / (A + B) becomes 1 - A / B
        odds = np.divide(ratio, 1 - ratio, out=np.full(ratio.shape, np.inf), where=ratio < 1)
        return np.asarray(1 - odds)
    return np.asarray(width * (ratio if metric == "mae" else np.sqrt(ratio)))
