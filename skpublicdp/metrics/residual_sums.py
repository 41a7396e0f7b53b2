"""Release of noisy sums over rows of powers of a regressor's residuals and outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skpublicdp.accounting import Noise, Sensitivity
from skpublicdp.data.streaming import Chunk
from skpublicdp.data.tables import table_height
from skpublicdp.metrics.label_codes import call_estimator, outcome_column
from skpublicdp.metrics.noisy_counts import SCORES_PROOF
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

    def count(self, X: Any, y: Any, n: int) -> Integers:
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

    Outcomes and predictions are clipped to the bounds. If the outcome or the prediction is missing,
    the residual is set to 1 and the outcome to the middle of its range.
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
