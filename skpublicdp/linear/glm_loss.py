"""Losses of linear models: logistic for two labels, softmax for more, and squared for outcomes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit, logsumexp, softmax

from skpublicdp.typing import Floats

MEAN_UNIT = 2**20
"""Number of integer units in a predicted mean of 1."""

MARGIN_CELLS = 2**10
"""Number of cells per unit of the margin in the table of logistic means."""

MAX_LOGISTIC_MARGIN = 16
"""Margin beyond which logistic means in the table are constant. They are then 1e-7 from 0 or 1."""

MAX_SQUARED_MARGIN = 4
"""Largest absolute predicted outcome of a private row, in units of the width of the bounds."""

MIN_OUTCOME_VARIANCE = 1e-3
"""Smallest mean square of an outcome, in units of the squared width of the bounds."""


class GLMLoss(ABC):
    """Loss of a generalised linear model whose targets lie in [-1/2, 1/2]."""

    levels: int  # number of integer levels of a target on either side of 0
    n_mode_passes: int  # passes in which the curvature of the penalty is updated
    saturation: float  # bounds squared differences of means, see `public_errors`
    slope_variance: float  # prior variance of a margin that the design assumes
    intercept_variance: float  # of the margin of a mean that is uniform between its bounds
    curvature_at_zero: float
    releases_squares: bool  # whether the sum of squared targets is released
    n_margins: int = 1  # number of margins of a row

    @property
    def sum_scale(self) -> int:
        """Integer that multiplies rows times targets in the first release."""
        return 4 * self.levels

    def residual_variance(self, mean_square: float) -> float:
        """Return the variance of a target in units of the curvature, given its mean square."""
        return 1.0

    @abstractmethod
    def mean(self, margins: Floats) -> Floats:
        """Return the expected target at each margin."""

    @abstractmethod
    def curvature(self, means: Floats) -> Floats:
        """Return the derivative of the mean with respect to the margin."""

    @abstractmethod
    def log_partition(self, margins: Floats) -> Floats:
        """Return the convex function whose derivative is the mean."""

    @abstractmethod
    def integer_means(self, margins: Floats) -> Floats:
        """Return means in units of 1 / MEAN_UNIT, as floats with integer values.

        Every value is an elementwise function of its margin that does not depend on the processor.
        """

    @abstractmethod
    def integer_targets(self, targets: Floats) -> Floats:
        """Return encoded targets between 0 and 1 as integers from -levels to levels."""


class LogisticGLMLoss(GLMLoss):
    """Logistic loss of two labels, with the targets -1/2 and 1/2."""

    levels, n_mode_passes, saturation = 1, 4, 4.0
    # the means then have a quarter of the variance of the targets
    slope_variance, curvature_at_zero, releases_squares = 1.0, 0.25, False
    intercept_variance = math.pi**2 / 3

    def __init__(self) -> None:
        margins = np.arange(-MAX_LOGISTIC_MARGIN * MARGIN_CELLS, 1) / MARGIN_CELLS
        half = np.rint(MEAN_UNIT * (expit(margins) - 0.5))
        self._table = np.concatenate([half, -half[-2::-1]])

    def mean(self, margins: Floats) -> Floats:
        """Return the expected target at each margin."""
        return np.asarray(expit(margins) - 0.5)

    def curvature(self, means: Floats) -> Floats:
        """Return the derivative of the mean with respect to the margin."""
        return 0.25 - means * means

    def log_partition(self, margins: Floats) -> Floats:
        """Return the convex function whose derivative is the mean."""
        return np.asarray(np.logaddexp(0, margins) - margins / 2)

    def integer_means(self, margins: Floats) -> Floats:
        """Return means in units of 1 / MEAN_UNIT, as floats with integer values."""
        limit = MAX_LOGISTIC_MARGIN
        cells = np.rint(MARGIN_CELLS * np.clip(margins, -limit, limit)).astype(np.int64)
        return self._table[cells + limit * MARGIN_CELLS]

    def integer_targets(self, targets: Floats) -> Floats:
        """Return encoded targets between 0 and 1 as integers from -levels to levels."""
        return 2.0 * targets - 1


class SoftmaxGLMLoss(GLMLoss):
    """Loss of more than two labels, whose margins and means have one column per label."""

    levels, n_mode_passes, saturation, releases_squares = 1, 1, 4.0, False
    sum_scale = 1

    def __init__(self, n_labels: int) -> None:
        self.n_margins = n_labels
        self.slope_variance = float(np.log2(n_labels))
        self.curvature_at_zero = (1 - 1 / n_labels) / n_labels
        differences = np.arange(MAX_LOGISTIC_MARGIN * MARGIN_CELLS + 1) / MARGIN_CELLS
        self._exponentials = np.rint(MEAN_UNIT * np.exp(-differences))

    def mean(self, margins: Floats) -> Floats:
        """Return the probability of each label, shape (n, n_labels)."""
        return np.asarray(softmax(margins, axis=1))

    def curvature(self, means: Floats) -> Floats:
        """Return the mean curvature over all contrasts of the margins, shape (n,)."""
        return (1 - (means * means).sum(axis=1)) / (self.n_margins - 1)

    def log_partition(self, margins: Floats) -> Floats:
        """Return the convex function whose gradient is the mean, shape (n,)."""
        return np.asarray(logsumexp(margins, axis=1))

    def integer_means(self, margins: Floats) -> Floats:
        """Return probabilities in units of 1 / MEAN_UNIT, as floats with integer values.

        Every sum is exact, and divisions are elementwise, so the probabilities of a row are a
        function of its margins.
        """
        with np.errstate(invalid="ignore"):
            differences = margins.max(axis=1, keepdims=True) - margins
        differences = np.clip(np.nan_to_num(differences), 0, MAX_LOGISTIC_MARGIN)
        cells = np.rint(MARGIN_CELLS * differences).astype(np.int64)
        exponentials = self._exponentials[cells]
        total = exponentials.sum(axis=1, keepdims=True)
        return np.rint(MEAN_UNIT * exponentials / total)

    def integer_targets(self, targets: Floats) -> Floats:
        """Return the codes of labels."""
        return targets


class SquaredGLMLoss(GLMLoss):
    """Squared loss of outcomes, scaled to [-1/2, 1/2] by their bounds."""

    levels, n_mode_passes, saturation = 2**8, 1, 0.0
    # a quarter of the variance of outcomes whose standard deviation is a quarter of the bounds
    slope_variance, curvature_at_zero, releases_squares = 1 / 64, 1.0, True
    intercept_variance = 1 / 12

    def residual_variance(self, mean_square: float) -> float:
        """Return the variance of a target in units of the curvature, given its mean square."""
        return min(max(mean_square, MIN_OUTCOME_VARIANCE), 0.25)

    def mean(self, margins: Floats) -> Floats:
        """Return the expected target at each margin."""
        return margins

    def curvature(self, means: Floats) -> Floats:
        """Return the derivative of the mean with respect to the margin."""
        return np.ones_like(means)

    def log_partition(self, margins: Floats) -> Floats:
        """Return the convex function whose derivative is the mean."""
        return 0.5 * margins * margins

    def integer_means(self, margins: Floats) -> Floats:
        """Return means in units of 1 / MEAN_UNIT, as floats with integer values."""
        limit = MAX_SQUARED_MARGIN
        return np.rint(MEAN_UNIT * np.clip(margins, -limit, limit))

    def integer_targets(self, targets: Floats) -> Floats:
        """Return encoded targets between 0 and 1 as integers from -levels to levels."""
        return np.rint(self.levels * (2.0 * targets - 1))
