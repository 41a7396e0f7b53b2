"""Loss functions, with the mean outcome, gradient and hessian as functions of integer margins.

The gradient v (y - mean) is that of the log-likelihood and therefore a direction of ascent. The
hessian is the product of v and the derivative of the mean. The scale v depends on the margins and,
for clipped residuals, on a released dispersion. Every gradient is bounded by 1/2 for any outcome.
Hessians are at most 1/4, in units of `Loss.hessian_unit` (docs/proofs/moments.md). Gradients and
hessians are integers in units of 1 / (2 MAX_GRADIENT).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, xlogy
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, PoissonRegressor, RidgeCV

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.binner import BinCodes
from skpublicdp.boosting.model import (
    MARGIN_UNIT,
    MAX_GRADIENT,
    MAX_MARGIN,
    SIGMOID_TABLE,
    AdditiveModel,
    gradient_scale,
    probabilities,
)
from skpublicdp.data.outcomes import TARGET_LEVELS
from skpublicdp.typing import Floats

FOREST = {
    "n_estimators": 50,
    "min_samples_leaf": 3,
    "max_leaf_nodes": 128,
    "max_features": "sqrt",
    "oob_score": True,
    "n_jobs": 1,  # the sum over trees has a fixed order in one thread
    "random_state": 0,
}
"""Settings of the forest in the default public model."""


class OutcomeRange(NamedTuple):
    """Range of encoded outcomes, contained in [0, 1]."""

    # ends of the range, which are multiples of 1 / TARGET_LEVELS
    low: float = 0.0
    high: float = 1.0
    mean: float = 0.5  # estimated mean outcome, between `low` and `high`
    # posterior variance of the mean, or None if the histogram of the gradients alone is used
    mean_variance: float | None = None

    @property
    def width(self) -> float:
        """Length of the range."""
        return self.high - self.low

    @property
    def balance(self) -> float:
        """Class balance 4 p (1 - p), where p is the mean outcome's position within the range."""
        p = (self.mean - self.low) / self.width
        return 4 * p * (1 - p)

    @property
    def mean_margin(self) -> int:
        """Logistic margin of the mean's position within the range, in units of 1 / MARGIN_UNIT."""
        p = min(max((self.mean - self.low) / self.width, 0.01), 0.99)
        return round(MARGIN_UNIT * math.log(p / (1 - p)))

    def encode(self, y: Floats) -> Floats:
        """Clip outcomes to the range, scale them to [0, 1], and round them to encoding levels."""
        shares = np.clip((y - self.low) / self.width, 0.0, 1.0)
        return np.rint(TARGET_LEVELS * shares) / TARGET_LEVELS


DECLARED_RANGE = OutcomeRange()
"""The declared bounds."""


Margins = NDArray[np.integer[Any]]

HESSIAN_SHIFT = float(1 << 28)
"""Factor of the hessian in a packed float. The absolute gradient sums of a chunk are at most
2^25."""

EXP_TABLE = np.exp(-np.arange(2 * MAX_MARGIN + 1) / MARGIN_UNIT)
"""Value of exp(-margin) for each integer margin. With a lookup table, equal margins have equal
results, regardless of the row's position in an array."""

CLIPPING_GAIN = 2.0
"""Factor by which clipping the residuals is assumed to reduce the noise of a regression. With this
reduction, Newton boosting needs half as many rows."""

MIN_RATE = 1e-6
"""Smallest rate at which the slopes of losses are compared, since slopes may be 0 at rates 0 and
1."""

MAX_RESIDUAL_DEVIATIONS = 2.0
"""Number of standard deviations at which residuals are clipped. Smaller values reduce the noise but
bias the mean of skewed residuals (ablation: "regression, much")."""

COUNT_GAIN = 0.5
"""Factor instead of `CLIPPING_GAIN` for counts. Their gradients are small where the mean is small,
so Newton boosting needs twice as many rows as for labels."""

MAX_COUNT_DEVIATIONS = 3.0
"""Number of standard deviations, in addition to the same number of dispersions, at which residuals
of counts are clipped. Residuals of counts are skewed, so smaller values would bias their mean."""


class Loss(ABC):
    """Loss function of the integer margins of a boosted model, in units of 1 / MARGIN_UNIT.

    A subclass answers all questions that depend on the loss. The defaults are those of labels.

    Attributes
    ----------
    sensitivity : Sensitivity
        Maximum change in the gradient and hessian sums, over the bins of any partition of the rows,
        when one row is replaced.
    """

    name: str  # value of the parameter `loss`, for outcomes
    n_targets: int = 1  # number of margins that each row has
    # margin per unit of a linear model's margin, or 0 if there is no linear model for this loss
    glm_unit: float = 1.0
    # whether trees can be drawn without noisy sums, with a label for each leaf
    has_labels: bool = True
    # whether one histogram of residuals describes the outcomes of all rows
    has_intervals: bool = False
    output_name: str = "log-odds"  # what the scores of the model are added to
    # factor applied to the diagonal hessian to account for the joint update of all margins: K / (K
    # - 1) for the softmax of K classes
    hessian_factor: float = 1.0
    # factor applied to the released hessians (see `ClippedSquaredLoss`)
    hessian_unit: float = 1.0
    clipping_gain: float = 1.0  # effective rows per row, compared with labels (see `COUNT_GAIN`)
    # for labels, the ratio is the scale v, which lies between 1/2 and 1
    # ratio of a gradient's variance to its hessian
    gradient_variance = 0.8
    # a flipped outcome reverses the gradient in one bin; in the 1-norm, the worst case is a row
    # that changes bins, which affects the gradients and hessians of both bins
    sensitivity = Sensitivity(3 * MAX_GRADIENT, (2 * MAX_GRADIENT) ** 2 + (MAX_GRADIENT // 2) ** 2)

    @abstractmethod
    def mean(self, margins: Margins) -> Floats:
        """Return the expected outcome of each row and target, shape (n_targets, n)."""

    @abstractmethod
    def link(self, means: Floats) -> Floats:
        """Return the margins that correspond to given means, as floats in units of log-odds."""

    @abstractmethod
    def logistic_rescaling(
        self, rates: Floats, outcome_range: OutcomeRange = DECLARED_RANGE
    ) -> Floats:
        """For each target, return the factor that converts log-odds scores to scores of this loss.

        To first order around `rates`, which are the means within a range of outcomes, the converted
        score and the log-odds score change the mean equally.
        """

    @abstractmethod
    def of_log_odds(self, log_odds: Floats) -> Floats:
        """Return the margins with the means that the log-odds of each target describe."""

    @abstractmethod
    def log_likelihood(self, means: Floats, outcomes: Floats) -> float:
        """Return the log-likelihood of outcomes given their means, both of shape (n_targets, k)."""

    @abstractmethod
    def mean_change(self, margins: Margins, direction: Floats) -> Floats:
        """Return the derivative of each row's means when margins move in a direction, in logits."""

    @abstractmethod
    def outcome_covariance(self, margins: Margins, direction: Floats) -> Floats:
        """Multiply the covariance matrix of each row's outcomes by a direction."""

    @abstractmethod
    def gradient_hessian(
        self, margins: Margins, y: NDArray[Any] | None = None
    ) -> tuple[Floats, Floats]:
        """Return gradients and hessians of rows, as integers in units of 1 / (2 MAX_GRADIENT)."""

    def packed_gradient_hessian(self, margins: Margins, y: NDArray[Any]) -> Floats:
        """Return gradient + HESSIAN_SHIFT * hessian as one float, shape (n_targets, n).

        A single `bincount` then adds up gradients and hessians exactly, and `sum_packed` separates
        the two sums.
        """
        gradients, hessians = self.gradient_hessian(margins, y)
        hessians *= HESSIAN_SHIFT
        return np.add(gradients, hessians, out=hessians)

    def from_logistic(
        self,
        model: AdditiveModel,
        codes: BinCodes,  # (n_columns, m)
        row_weights: Floats,  # (m,)
        outcome_range: OutcomeRange = DECLARED_RANGE,
    ) -> AdditiveModel:
        """Convert a model of each target's log-odds to a model for this loss, to first order.

        The mean outcome over the public rows is preserved exactly, up to rounding.
        """
        rates = probabilities(model.raw_predict(codes)) @ row_weights
        rates = self.normalised(rates)
        factors = self.logistic_rescaling(rates, outcome_range)[:, None]
        rates = outcome_range.low + outcome_range.width * rates

        def rescale(scores: NDArray[np.int64]) -> NDArray[np.int64]:
            """Return the product of scores and the targets' factors, rounded to integers."""
            return np.rint(factors * scores).astype(np.int64)

        leaf_scores = tuple(map(rescale, model.leaf_scores))
        converted = replace(model, scores=rescale(model.scores), leaf_scores=leaf_scores)
        for _ in range(5):  # Newton steps on the intercepts
            means = self.mean(converted.raw_predict(codes)) @ row_weights
            change = np.rint(MARGIN_UNIT * (self.link(rates) - self.link(means))).astype(np.int64)
            converted = replace(converted, intercepts=converted.intercepts + change)
        return converted

    def margins_of_means(self, means: Floats) -> Floats:
        """Return the margins of a public model that predicts given means."""
        return self.link(np.clip(means, 0.0, 1.0))

    def margins_of_linear_model(self, scores: Floats) -> Floats:
        """Return the margins of the linear model of `public_estimators`, given its scores."""
        return self.margins_of_means(scores)

    def public_estimators(self, **settings: Any) -> tuple[Any, Any, Any]:
        """Return gradient boosting with given settings, a linear model and a forest, unfitted."""
        trees = HistGradientBoostingClassifier(**settings)
        forest = RandomForestClassifier(**FOREST)
        return trees, LogisticRegression(C=0.01, max_iter=1000), forest

    def output_scale(self, bounds: tuple[float, float] | None) -> tuple[float, float]:
        """Return the change in the output per unit of margin, and the output of margin 0."""
        return 1.0, 0.0

    def normalised(self, means: Floats) -> Floats:
        """Return means that sum to 1 over the targets, if there are several."""
        return means

    def centred(self, margins: Floats) -> Floats:
        """Return margins that sum to 0 over the targets of each row, if there are several."""
        return margins


class ScalarLoss(Loss):
    """Loss for one target in [0, 1], whose mean is a tabulated function of the margin.

    Parameters
    ----------
    mean : ndarray of float64, shape (2 MAX_MARGIN + 1,)
        Mean for each margin from -MAX_MARGIN to MAX_MARGIN.
    slope : ndarray of float64, shape (2 MAX_MARGIN + 1,)
        Derivative of the mean with respect to the margin.
    """

    def __init__(self, mean: Floats, slope: Floats) -> None:
        self._mean = mean
        self._scale = MAX_GRADIENT / np.maximum(mean, 1 - mean)  # scale v, in integer units
        self._hessian = np.rint(self._scale * slope)

    def mean(self, margins: Margins) -> Floats:
        """Return the mean outcome, shape (1, n)."""
        return np.take(self._mean, np.clip(margins, -MAX_MARGIN, MAX_MARGIN) + MAX_MARGIN)

    def gradient_hessian(
        self, margins: Margins, y: NDArray[Any] | None = None
    ) -> tuple[Floats, Floats]:
        """Return gradients and hessians, rounded to the nearest integers."""
        position = np.clip(margins, -MAX_MARGIN, MAX_MARGIN).astype(np.intp)
        position += MAX_MARGIN
        hessians = np.take(self._hessian, position)
        if y is None:
            return np.zeros(hessians.shape), hessians
        gradients = np.take(self._mean, position)
        np.subtract(y, gradients, out=gradients)
        gradients *= np.take(self._scale, position)
        return np.rint(gradients, out=gradients), hessians

    def scale(self, margins: Margins) -> Floats:
        """Return the factor by which each row's residual is multiplied, shape (1, n)."""
        position = np.clip(margins, -MAX_MARGIN, MAX_MARGIN) + MAX_MARGIN
        return np.take(self._scale, position) / (2 * MAX_GRADIENT)

    @abstractmethod
    def slope(self, means: Floats) -> Floats:
        """Return the derivative of the mean with respect to the margin, at given means."""

    def logistic_rescaling(
        self, rates: Floats, outcome_range: OutcomeRange = DECLARED_RANGE
    ) -> Floats:
        """Return the slope of the logistic function at the rates, relative to that of this loss."""
        rates = np.clip(rates, MIN_RATE, 1 - MIN_RATE)  # where all public outcomes are equal
        means = outcome_range.low + outcome_range.width * rates
        return outcome_range.width * (rates * (1 - rates) / self.slope(means))

    def mean_change(self, margins: Margins, direction: Floats) -> Floats:
        """Return the product of slope and direction, shape (1, n)."""
        _, hessians = self.gradient_hessian(margins)
        # a hessian is the derivative of the mean times the gradient scale, in integer units
        hessians = self.hessian_unit * hessians / (2 * MAX_GRADIENT)
        return hessians / gradient_scale(self.mean(margins), pure=False) * direction

    def outcome_covariance(self, margins: Margins, direction: Floats) -> Floats:
        """Multiply a direction by the largest variance of outcomes in [0, 1] with given means."""
        means = self.mean(margins)
        return means * (1 - means) * direction


class LogisticLoss(ScalarLoss):
    """Logistic loss for two labels, whose gradients and hessians come from one packed table."""

    def __init__(self) -> None:
        super().__init__(SIGMOID_TABLE, SIGMOID_TABLE * (1 - SIGMOID_TABLE))
        # all margins with label 0, then all margins with label 1
        margins = np.tile(np.arange(-MAX_MARGIN, MAX_MARGIN + 1), 2)
        labels = np.repeat([0, 1], len(SIGMOID_TABLE))
        self._packed = super().packed_gradient_hessian(margins, labels)

    def __reduce__(self) -> str:
        return "LOGISTIC"  # pickled by reference, without the tables

    def packed_gradient_hessian(self, margins: Margins, y: NDArray[Any]) -> Floats:
        """Look up gradients and hessians in a single table, indexed by label and margin."""
        position = np.clip(margins, -MAX_MARGIN, MAX_MARGIN)
        position += np.multiply(y, len(SIGMOID_TABLE), dtype=np.int32)
        position += MAX_MARGIN
        return np.take(self._packed, position)

    def link(self, means: Floats) -> Floats:
        """Return the log-odds that correspond to given means."""
        return logit(means)

    def slope(self, means: Floats) -> Floats:
        """Return the derivative p (1 - p) of the logistic function."""
        return means * (1 - means)

    def of_log_odds(self, log_odds: Floats) -> Floats:
        """Return the log-odds, which are the margins of this loss."""
        return log_odds

    def log_likelihood(self, means: Floats, outcomes: Floats) -> float:
        """Return the Bernoulli log-likelihood, shape of both arrays (1, k)."""
        return _categorical_log_likelihood(
            np.vstack([1 - means, means]), np.vstack([1 - outcomes, outcomes])
        )


class OutcomeLoss(ScalarLoss):
    """Loss for numeric outcomes, scaled to [0, 1] by public bounds.

    The variance of an outcome is the product of its `unit_variance` and of a dispersion, which is
    the same for all rows and estimated from a noisy sum.
    """

    has_labels = False
    clipping_gain = CLIPPING_GAIN
    max_dispersion: float  # largest dispersion of outcomes in [0, 1]

    @abstractmethod
    def unit_variance(self, margins: Margins) -> Floats:
        """Return the variance of outcomes for a dispersion of 1, shape (1, n)."""

    @abstractmethod
    def clipped(self, dispersion: float) -> OutcomeLoss:
        """Return a loss with clipped residuals if clipping reduces the noise, or else this loss."""

    def usable_bounds(
        self, bounds: tuple[float, float], public: Floats, *, declared: bool
    ) -> tuple[float, float]:
        """Return the bounds of outcomes, given declared bounds or those of public outcomes."""
        return bounds

    def relative_gradient_variance(
        self, dispersion: float, margins: Margins, row_weights: Floats
    ) -> float:
        """Return the ratio of a gradient's variance to its hessian, capped at 1.

        The variance and the hessian are averaged over the rows, whose weights sum to 1.
        """
        scale = self.scale(margins)[0]
        squared_scale = float((scale**2 * self.unit_variance(margins)[0]) @ row_weights)
        hessian = float((scale * self.slope(self.mean(margins))[0]) @ row_weights)
        return min(squared_scale * dispersion / hessian, 1.0)

    def of_log_odds(self, log_odds: Floats) -> Floats:
        """Return the margins with the means that the log-odds describe."""
        return self.link(expit(log_odds))


class SquaredLoss(OutcomeLoss):
    """Squared error for outcomes in [0, 1], where the mean is 1/2 + margin / 4, clipped to [0, 1].

    With this scaling, a margin has the same effect as log-odds if the mean is near 1/2.
    """

    name = "squared_error"
    has_intervals = True
    glm_unit = 4.0
    output_name = "mean outcome"
    max_dispersion = 0.25
    # hessians lie between MAX_GRADIENT / 4 and MAX_GRADIENT / 2
    sensitivity = Sensitivity(3 * MAX_GRADIENT, (2 * MAX_GRADIENT) ** 2 + (MAX_GRADIENT // 4) ** 2)

    def __init__(self) -> None:
        line = np.arange(-MAX_MARGIN, MAX_MARGIN + 1) / (4 * MARGIN_UNIT)
        super().__init__(np.clip(0.5 + line, 0.0, 1.0), np.full(len(line), 0.25))

    def __reduce__(self) -> str | tuple[Any, ...]:
        return "SQUARED"  # pickled by reference, without the tables

    def clipped(self, dispersion: float) -> SquaredLoss:
        """Return a loss with clipped residuals if clipping reduces the noise, or else this loss."""
        max_residual = MAX_RESIDUAL_DEVIATIONS * math.sqrt(dispersion)
        # the scale of this loss is between 1/2 and 1
        return self if max_residual >= 0.5 else ClippedSquaredLoss(max_residual)

    def link(self, means: Floats) -> Floats:
        """Return the margins 4 (mean - 1/2), the inverse of the mean."""
        return 4 * (means - 0.5)

    def slope(self, means: Floats) -> Floats:
        """Return the constant slope 1/4, also where the mean is clipped."""
        return np.full(means.shape, 0.25)

    def unit_variance(self, margins: Margins) -> Floats:
        """Return ones, since all outcomes have the same variance."""
        return np.ones(margins.shape)

    def output_scale(self, bounds: tuple[float, float] | None) -> tuple[float, float]:
        """Return the scale of mean outcomes, where a margin of 0 is the centre of the bounds."""
        assert bounds is not None
        low, high = bounds
        return (high - low) / 4, (low + high) / 2

    def public_estimators(self, **settings: Any) -> tuple[Any, Any, Any]:
        """Return gradient boosting, ridge regression and a forest, unfitted."""
        trees, forest = HistGradientBoostingRegressor(**settings), RandomForestRegressor(**FOREST)
        return trees, RidgeCV(alphas=np.logspace(-1, 4, 11)), forest

    def log_likelihood(self, means: Floats, outcomes: Floats) -> float:
        """Return the normal log-likelihood for the most likely variance."""
        squared_errors = (outcomes - means) ** 2
        variance = max(float(squared_errors.mean()), 1e-12)
        return -outcomes.size / 2 * float(np.log(variance))


class MultinomialLoss(Loss):
    """Multinomial logistic loss: the softmax of one margin per class.

    Parameters
    ----------
    n_targets : int
        Number of classes.
    pure : bool
        Whether gradients and hessians are bounded in the 1-norm rather than the Euclidean norm.
    """

    # the hessians of the old and the new row may belong to different targets
    sensitivity = Sensitivity(
        3 * MAX_GRADIENT, (2 * MAX_GRADIENT) ** 2 + 2 * (MAX_GRADIENT // 2) ** 2
    )

    def __init__(self, n_targets: int, *, pure: bool) -> None:
        self.n_targets = n_targets
        self.hessian_factor = n_targets / (n_targets - 1)
        self._pure = pure

    def mean(self, margins: Margins) -> Floats:
        """Return the softmax, which is the probability of each class, shape (n_targets, n)."""
        # also clipped at 0, in case the difference overflows
        differences = np.clip(margins.max(axis=0) - margins, 0, len(EXP_TABLE) - 1)
        exponentials: Floats = EXP_TABLE[differences]
        total = np.zeros(exponentials.shape[1])
        # added in a fixed order, so that a row's sum does not depend on its position
        for exponential in exponentials:
            total += exponential
        exponentials /= total
        return exponentials

    def link(self, means: Floats) -> Floats:
        """Return the logarithms of class probabilities, which are valid softmax margins."""
        return np.log(means)

    def logistic_rescaling(
        self, rates: Floats, outcome_range: OutcomeRange = DECLARED_RANGE
    ) -> Floats:
        """Return 1 - rate, since increasing one margin decreases the other class probabilities."""
        return 1 - rates

    def normalised(self, means: Floats) -> Floats:
        """Return probabilities that sum to 1 over the classes."""
        return means / means.sum(axis=0)

    def centred(self, margins: Floats) -> Floats:
        """Return margins minus their mean over the classes, which has no effect on the softmax."""
        return margins - margins.mean(axis=0)

    def of_log_odds(self, log_odds: Floats) -> Floats:
        """Return the margins of the class probabilities that the log-odds describe."""
        return self.link(self.normalised(expit(log_odds)))

    def log_likelihood(self, means: Floats, outcomes: Floats) -> float:
        """Return the multinomial log-likelihood, where the outcomes are indicators of classes."""
        return _categorical_log_likelihood(means, outcomes)

    def mean_change(self, margins: Margins, direction: Floats) -> Floats:
        """Return the product of the covariance matrix of the classes and the direction."""
        means = self.mean(margins)
        return means * (direction - (means * direction).sum(axis=0))

    def outcome_covariance(self, margins: Margins, direction: Floats) -> Floats:
        """Multiply the covariance matrix of the classes by a direction."""
        return self.mean_change(margins, direction)

    def gradient_hessian(
        self, margins: Margins, y: NDArray[Any] | None = None
    ) -> tuple[Floats, Floats]:
        """Return gradients and hessians, rounded towards 0 so that no norm exceeds its bound."""
        p = self.mean(margins)  # class probabilities, (n_targets, n)
        # 1-norm, or squared Euclidean norm, of the gradient 1[y] - p for the least probable class y
        max_norm = 1 - 2 * p.min(axis=0)
        for probability in p:  # in a fixed order, so that equal rows have equal sums
            max_norm += probability if self._pure else probability * probability
        if not self._pure:
            max_norm = np.sqrt(max_norm)
        # the factor 1 - 1e-12 absorbs rounding errors of the norm
        scale = (1 - 1e-12) * MAX_GRADIENT / max_norm
        hessians = np.trunc(scale * (p * (1 - p)))
        if y is None:
            return np.zeros(hessians.shape), hessians
        gradients = np.negative(p, out=p)  # in place, since the array is large
        gradients[y, np.arange(len(y))] += 1  # 1[y] - p
        gradients *= scale
        return np.trunc(gradients, out=gradients), hessians


class ClippedSquaredLoss(SquaredLoss):
    """Squared error with clipped residuals, whose gradient is that of the Huber loss.

    All gradients have the scale 1 / (2 max_residual), which exceeds the scale used in
    `SquaredLoss`. The noise is therefore smaller relative to the gradients.

    Parameters
    ----------
    max_residual : float
        Upper bound on the absolute residual, between 0 and 1.
    """

    def __init__(self, max_residual: float) -> None:
        super().__init__()
        self._scale = np.full(len(self._mean), MAX_GRADIENT / max_residual)
        # The hessian is a public constant, so hessian sums are multiples of counts. They are
        # released in a unit in which they do not exceed those of other losses.
        self._hessian = np.full(len(self._mean), MAX_GRADIENT / 4)
        self.hessian_unit, self._max_residual = 1 / max_residual, max_residual

    def __reduce__(self) -> tuple[Any, ...]:
        return ClippedSquaredLoss, (self._max_residual,)  # pickled without the tables

    def gradient_hessian(
        self, margins: Margins, y: NDArray[Any] | None = None
    ) -> tuple[Floats, Floats]:
        """Return gradients clipped to ±MAX_GRADIENT, and constant hessians."""
        gradients, hessians = super().gradient_hessian(margins, y)
        return np.clip(gradients, -MAX_GRADIENT, MAX_GRADIENT, out=gradients), hessians


class PoissonLoss(OutcomeLoss):
    """Poisson deviance of counts, divided by their upper bound, with the mean exp(margin) / 2.

    The mean is at most 1. With this scaling, a margin has the same effect as log-odds if the mean
    is small, and a margin of 0 is the centre of the bounds for every loss.

    Parameters
    ----------
    dispersion : float, default=inf
        Variance of outcomes divided by their mean, for which residuals are clipped. Gradients are
        then larger relative to the noise. By default, residuals are not clipped.
    """

    clipping_gain = COUNT_GAIN
    name = "poisson"
    glm_unit = 0.0
    output_name = "log of the mean outcome"
    max_dispersion = 1.0

    def __init__(self, dispersion: float = math.inf) -> None:
        margins = np.arange(-MAX_MARGIN, MAX_MARGIN + 1)
        exponentials = np.exp(margins / MARGIN_UNIT)
        mean = np.minimum(exponentials / 2, 1.0)
        super().__init__(mean, mean)
        self._dispersion = dispersion
        # many standard deviations if the mean is large, and a few counts if it is small
        deviation = np.sqrt(dispersion * mean)
        max_residual = MAX_COUNT_DEVIATIONS * (deviation + dispersion)
        clipped_scale = MAX_GRADIENT / max_residual
        self._scale = np.maximum(self._scale, clipped_scale)
        # hessians are released in a unit in which the largest is MAX_GRADIENT / 2
        hessians = self._scale * mean
        largest = float(hessians.max())
        self.hessian_unit = 2 * largest / MAX_GRADIENT
        self._hessian = np.rint(hessians / self.hessian_unit)

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._dispersion == math.inf:
            return "POISSON"  # pickled by reference, without the tables
        return PoissonLoss, (self._dispersion,)

    def gradient_hessian(
        self, margins: Margins, y: NDArray[Any] | None = None
    ) -> tuple[Floats, Floats]:
        """Return gradients clipped to ±MAX_GRADIENT, and hessians in units of `hessian_unit`."""
        gradients, hessians = super().gradient_hessian(margins, y)
        return np.clip(gradients, -MAX_GRADIENT, MAX_GRADIENT, out=gradients), hessians

    def link(self, means: Floats) -> Floats:
        """Return the margins log(2 mean), for means within the range of the table."""
        return np.log(2 * np.clip(means, self._mean[0], 1.0))

    def slope(self, means: Floats) -> Floats:
        """Return the means, since the derivative of an exponential is the exponential itself."""
        return means

    def unit_variance(self, margins: Margins) -> Floats:
        """Return the means, to which the variances of counts are proportional."""
        return self.mean(margins)

    def clipped(self, dispersion: float) -> PoissonLoss:
        """Return a loss with residuals clipped for a dispersion, where this reduces the noise."""
        return PoissonLoss(dispersion)

    def usable_bounds(
        self, bounds: tuple[float, float], public: Floats, *, declared: bool
    ) -> tuple[float, float]:
        """Return bounds that begin at 0, or raise an error if declared bounds do not."""
        low, high = bounds
        if declared and low != 0:
            raise ValueError(
                "outcome_bounds must begin at 0 for loss='poisson', whose outcomes are counts; got "
                f"({low:g}, {high:g}). Pass outcome_bounds=(0, high)."
            )
        if not declared and public.max() <= 0:
            raise ValueError(
                "loss='poisson' needs positive public outcomes, or outcome_bounds=(0, high)."
            )
        return 0.0, high

    def margins_of_means(self, means: Floats) -> Floats:
        """Return the margins of a public model, whose means are at least one encoding level."""
        return self.link(np.clip(means, 1 / TARGET_LEVELS, 1.0))

    def margins_of_linear_model(self, scores: Floats) -> Floats:
        """Return the margins of Poisson regression, whose scores are logarithms of means."""
        margins = scores + math.log(2)
        return np.clip(margins, *self.link(np.array([1 / TARGET_LEVELS, 1.0])))

    def public_estimators(self, **settings: Any) -> tuple[Any, Any, Any]:
        """Return boosting and linear regression with the Poisson deviance, and a forest."""
        trees = HistGradientBoostingRegressor(loss="poisson", **settings)
        return trees, PoissonRegressor(alpha=0.01, max_iter=1000), RandomForestRegressor(**FOREST)

    def output_scale(self, bounds: tuple[float, float] | None) -> tuple[float, float]:
        """Return the scale of logarithms of mean outcomes."""
        assert bounds is not None
        return 1.0, math.log(bounds[1] / 2)

    def log_likelihood(self, means: Floats, outcomes: Floats) -> float:
        """Return the extended quasi-likelihood of counts for the most likely dispersion.

        Nelder and Pregibon (1987), with the deviance of the Poisson distribution.
        """
        means = np.maximum(means, self._mean[0])
        deviances = 2 * (xlogy(outcomes, outcomes / means) - (outcomes - means))
        dispersion = max(float(deviances.mean()), 1e-12)
        return -outcomes.size / 2 * float(np.log(dispersion))


LOGISTIC, SQUARED, POISSON = LogisticLoss(), SquaredLoss(), PoissonLoss()

OUTCOME_LOSSES = {loss.name: loss for loss in (SQUARED, POISSON)}
"""Losses for outcomes, by the values of the parameter `loss` of `SemiPrivateBoostingRegressor`."""


def _categorical_log_likelihood(means: Floats, outcomes: Floats) -> float:
    """Return the log-likelihood of indicators of classes, both of shape (n_classes, k)."""
    return float((outcomes * np.log(np.maximum(means, 1e-12))).sum())


def sum_packed(bins: NDArray[np.integer[Any]], size: int, packed: Floats) -> NDArray[np.int64]:
    """Return the exact sums of packed gradients and hessians over each bin."""
    totals = np.array([np.bincount(bins, weights, minlength=size) for weights in packed])
    # gradient sums are below HESSIAN_SHIFT / 2, so rounding removes them
    hessians = np.rint(totals / HESSIAN_SHIFT)
    return np.array([totals - HESSIAN_SHIFT * hessians, hessians]).astype(np.int64)
