"""Metrics of a regressor as ratios of noisy sums, with confidence intervals.

Polynomials in the residual r and the outcome z are represented by coefficient arrays with the axes
of `NoisySums`. The formulas are derived in docs/proofs/scores.md.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.signal import convolve2d

from skpublicdp.metrics.residual_sums import MAX_POWER, NoisySums
from skpublicdp.metrics.score_intervals import clipped_ratio, fieller
from skpublicdp.typing import Floats

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
    """Return the ends of a confidence interval for the population value of a metric, shape (2,)."""
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
