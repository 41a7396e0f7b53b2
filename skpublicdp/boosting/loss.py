"""Losses: what a margin predicts, and what of a row it leaves to be learned.

A residual is v (y - mean) and its slope is v times the derivative of the mean, v being a function
of the margins with which no outcome leaves a residual longer than a half. No slope is then longer
than a quarter (docs/proofs/moments.md). Both are integers in units of 1 / (2 MAX_GRADIENT).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.binner import Codes
from skpublicdp.boosting.model import (
    MARGIN_UNIT,
    MAX_GRADIENT,
    MAX_MARGIN,
    SIGMOID_TABLE,
    AdditiveModel,
    probabilities,
)

Floats = NDArray[np.float64]
Margins = NDArray[np.integer[Any]]

HESSIAN_SHIFT = float(1 << 28)
"""Sums of residuals are far below this: sums of slopes times it are added up in the same float."""

EXP_TABLE = np.exp(-np.arange(2 * MAX_MARGIN + 1) / MARGIN_UNIT)
"""e to the power of minus a margin, looked up so that it depends on the margin alone."""


class Loss(ABC):
    """What is fitted.

    Attributes
    ----------
    n_targets : int
        Margins of a row.
    hessian_factor : float
        What slopes are multiplied by, since the margins of all targets move at once.
    gradient_variance : float or None
        Variance of a residual beside its slope; ``None`` if rows must tell.
    sensitivity : Sensitivity
        How far replacing one row moves the sums of residuals and slopes over the cells of any
        partition of the rows.
    """

    n_targets: int = 1
    hessian_factor: float = 1.0
    # of labels it is v, which lies between ½ and 1
    gradient_variance: float | None = 0.8
    # another outcome turns a residual; two residuals in two cells are no longer than that in the
    # Euclidean norm, but their slopes count twice in the sum of all entries
    sensitivity = Sensitivity(3 * MAX_GRADIENT, (2 * MAX_GRADIENT) ** 2 + (MAX_GRADIENT // 2) ** 2)

    @abstractmethod
    def mean(self, margins: Margins) -> Floats:
        """Return the mean outcome of each target, shape (n_targets, n)."""

    @abstractmethod
    def link(self, means: Floats) -> Floats:
        """Return margins that have given means."""

    @abstractmethod
    def logistic_rescaling(self, rates: Floats) -> Floats:
        """Return what scores of a logistic model of each target are multiplied by.

        So that means near `rates` are the same, to first order.
        """

    @abstractmethod
    def gradient_hessian(
        self, margins: Margins, y: NDArray[Any] | None = None
    ) -> tuple[Floats, Floats]:
        """Return residuals (0 without outcomes) and slopes, integers, both (n_targets, n)."""

    def packed_gradient_hessian(self, margins: Margins, y: NDArray[Any]) -> Floats:
        """Return residuals and `SHIFT` times slopes in one number: there is but one to sum."""
        residuals, slopes = self.gradient_hessian(margins, y)
        slopes *= HESSIAN_SHIFT
        return np.add(residuals, slopes, out=slopes)

    def from_logistic(
        self, model: AdditiveModel, codes: Codes, row_weights: Floats
    ) -> AdditiveModel:
        """Turn a logistic model of each target into one of this loss.

        Parameters
        ----------
        model : AdditiveModel
            Its margins are log-odds of each target.
        codes : ndarray of int, shape (n_columns, m)
            Public rows, over which mean outcomes stay what they are.
        row_weights : ndarray of float64, shape (m,)
            Their weights, of sum 1.

        Returns
        -------
        Model
            The same, to first order.
        """
        rates = probabilities(model.raw_predict(codes)) @ row_weights
        if self.n_targets > 1:
            rates /= rates.sum()
        factors = self.logistic_rescaling(rates)[:, None]

        def scaled(scores: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.rint(factors * scores).astype(np.int64)

        leaf_scores = tuple(map(scaled, model.leaf_scores))
        found = replace(model, scores=scaled(model.scores), leaf_scores=leaf_scores)
        for _ in range(5):  # of Newton's method
            means = self.mean(found.raw_predict(codes)) @ row_weights
            change = np.rint(MARGIN_UNIT * (self.link(rates) - self.link(means))).astype(np.int64)
            found = replace(found, intercepts=found.intercepts + change)
        return found


class ScalarLoss(Loss):
    """One target: outcomes from 0 to 1, whose mean is a function of the margin.

    Parameters
    ----------
    mean, slope : ndarray of float64, shape (2 MAX_MARGIN + 1,)
        Of margins from -MAX_MARGIN to MAX_MARGIN.
    """

    def __init__(self, mean: Floats, slope: Floats) -> None:
        self._mean = mean
        self._factor = MAX_GRADIENT / np.maximum(mean, 1 - mean)
        self._slope = np.rint(self._factor * slope)

    def mean(self, margins: Margins) -> Floats:
        """Return the mean outcome, shape (1, n)."""
        found: Floats = np.take(self._mean, np.clip(margins, -MAX_MARGIN, MAX_MARGIN) + MAX_MARGIN)
        return found

    def gradient_hessian(
        self, margins: Margins, y: NDArray[Any] | None = None
    ) -> tuple[Floats, Floats]:
        """Return the residual and its slope."""
        position = np.clip(margins, -MAX_MARGIN, MAX_MARGIN).astype(np.intp)
        position += MAX_MARGIN
        slopes = np.take(self._slope, position)
        if y is None:
            return np.zeros(slopes.shape), slopes
        residuals = np.take(self._mean, position)
        np.subtract(y, residuals, out=residuals)
        residuals *= np.take(self._factor, position)
        return np.rint(residuals, out=residuals), slopes


class LogisticLoss(ScalarLoss):
    """Two labels: the logistic loss."""

    def __init__(self) -> None:
        super().__init__(SIGMOID_TABLE, SIGMOID_TABLE * (1 - SIGMOID_TABLE))
        margins = np.tile(np.arange(-MAX_MARGIN, MAX_MARGIN + 1), 2)
        self._packed = super().packed_gradient_hessian(
            margins, np.repeat([0, 1], len(SIGMOID_TABLE))
        )

    def __reduce__(self) -> str:
        return "LOGISTIC"  # a reference: a fitted model holds no constant tables

    def packed_gradient_hessian(self, margins: Margins, y: NDArray[Any]) -> Floats:
        """Return both parts: a row's margin and label say all of them."""
        position = np.clip(margins, -MAX_MARGIN, MAX_MARGIN)
        position += np.multiply(y, len(SIGMOID_TABLE), dtype=np.int32)
        position += MAX_MARGIN
        found: Floats = np.take(self._packed, position)
        return found

    def link(self, means: Floats) -> Floats:
        """Return log-odds."""
        found: Floats = logit(means)
        return found

    def logistic_rescaling(self, rates: Floats) -> Floats:
        """Return ones: it is logistic already."""
        return np.ones(len(rates))


class SquaredLoss(ScalarLoss):
    """Outcomes from 0 to 1, squared error: the mean is ½ + margin / 4, but from 0 to 1.

    Near ½ a margin then means as much as a log-odds.
    """

    gradient_variance = None
    # slopes are from a half of the longest one on
    sensitivity = Sensitivity(3 * MAX_GRADIENT, (2 * MAX_GRADIENT) ** 2 + (MAX_GRADIENT // 4) ** 2)

    def __init__(self) -> None:
        line = np.arange(-MAX_MARGIN, MAX_MARGIN + 1) / (4 * MARGIN_UNIT)
        super().__init__(np.clip(0.5 + line, 0.0, 1.0), np.full(len(line), 0.25))

    def __reduce__(self) -> str:
        return "SQUARED"

    def link(self, means: Floats) -> Floats:
        """Return margins."""
        found: Floats = 4 * (means - 0.5)
        return found

    def logistic_rescaling(self, rates: Floats) -> Floats:
        """Return how steep the logistic function is there, beside its steepest."""
        steepness: Floats = 4 * rates * (1 - rates)
        return steepness


class MultinomialLoss(Loss):
    """More than two labels: the softmax of one margin for each.

    Parameters
    ----------
    n_targets : int
        Number of labels.
    pure : bool
        Whether the length of residuals and slopes is the sum of their entries, or Euclidean.
    """

    # slopes of two rows may be of different targets
    sensitivity = Sensitivity(
        3 * MAX_GRADIENT, (2 * MAX_GRADIENT) ** 2 + 2 * (MAX_GRADIENT // 2) ** 2
    )

    def __init__(self, n_targets: int, *, pure: bool) -> None:
        self.n_targets = n_targets
        self.hessian_factor = n_targets / (n_targets - 1)
        self._pure = pure

    def mean(self, margins: Margins) -> Floats:
        """Return the probability of each label."""
        # not below 0 either: a difference that overflows is no reason to fail for one row
        below = np.clip(margins.max(axis=0) - margins, 0, len(EXP_TABLE) - 1)
        found: Floats = EXP_TABLE[below]
        total = np.zeros(found.shape[1])
        for line in found:  # in one order, so that a row's numbers are its own
            total += line
        found /= total
        return found

    def link(self, means: Floats) -> Floats:
        """Return logarithms."""
        found: Floats = np.log(means)
        return found

    def logistic_rescaling(self, rates: Floats) -> Floats:
        """Return 1 - rates: the margins of the other labels fall when one rises."""
        others: Floats = 1 - rates
        return others

    def gradient_hessian(
        self, margins: Margins, y: NDArray[Any] | None = None
    ) -> tuple[Floats, Floats]:
        """Return residuals and slopes, both rounded towards 0 so that none is too long."""
        p = self.mean(margins)
        longest = 1 - 2 * p.min(axis=0)  # of 1[y] - p, where the unlikeliest label occurs
        for line in p:
            longest += line if self._pure else line * line
        # by a hair more, so that no sum of squares is too long
        factor = (1 - 1e-12) * MAX_GRADIENT / (longest if self._pure else np.sqrt(longest))
        slopes = np.trunc(factor * (p * (1 - p)))
        if y is None:
            return np.zeros(slopes.shape), slopes
        np.negative(p, out=p)
        p[y, np.arange(len(y))] += 1
        p *= factor
        return np.trunc(p, out=p), slopes


LOGISTIC, SQUARED = LogisticLoss(), SquaredLoss()


def sum_packed(line: NDArray[np.integer[Any]], size: int, packed: Floats) -> NDArray[np.int64]:
    """Return the exact sums of packed gradients and hessians in each bin, (2, n_targets, size)."""
    totals = np.array([np.bincount(line, value, minlength=size) for value in packed])
    slopes = np.rint(totals / HESSIAN_SHIFT)
    return np.array([totals - HESSIAN_SHIFT * slopes, slopes]).astype(np.int64)
