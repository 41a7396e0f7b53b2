"""Estimate of one marginal table: pooled measurements, prior, posterior, and sums to margins."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from skpublicdp.query_release.marginals.count import Attributes
from skpublicdp.query_release.marginals.ipf import SMALLEST_POSITIVE
from skpublicdp.typing import Floats

MIN_PRECISION = 1e-12
"""Precision (inverse variance) of a fraction that was not measured."""

OUTLIER_DEVIATIONS = 3.0
"""Deviation of a measurement from the model, in standard deviations, beyond which the model is
dropped and the measurement alone counts. Applies to cells and to sums."""

MIN_FRACTION = 1e-12
"""Minimum fraction in a ratio. The cells of an empty margin cell have equal shares."""


class UnconstrainedEstimate(NamedTuple):
    """Estimate of a table whose margins are uncertain. All arrays have the shape of the table.

    Attributes
    ----------
    fractions : ndarray
        The posterior mean.
    prior, noise : ndarray
        Prior variance of each cell, including the errors of its margins, and the noise variance of
        its measured value.
    """

    fractions: Floats
    prior: Floats
    noise: Floats

    def variances(self) -> Floats:
        """Return the posterior variance of each cell."""
        return 1 / (1 / self.prior + 1 / self.noise)


@dataclass(eq=False)
class MarginalEstimate:
    """A marginal table with its measurements and its estimate.

    Attributes
    ----------
    columns : tuple of int
        Increasing.
    shape : tuple of int
        One axis for each column.
    parents, below, above : list of Table
        Tables of one column fewer, of any proper subset of the columns, and of more columns.
    measured : ndarray
        Precision-weighted mean of the table's own noisy answers.
    precision : float
        Inverse noise variance of each cell of `measured`.
    base, public, prior : ndarray
        What its margins alone suggest, the public fractions, and what both suggest.
    values, precisions : ndarray
        Pooled measurements, those of wider tables included, and their inverse variances.
    open : ndarray
        Share of a cell's variance that its margins do not determine.
    loose : ndarray
        The prior variance of a cell is this factor times its fraction times `unexplained_share`.
    fractions : ndarray
        The estimated fractions, or None before the first fit.
    spread, variances : ndarray
        The variance of what the table adds to its margins, before and after it is measured.
    """

    columns: Attributes
    shape: tuple[int, ...]
    parents: list[MarginalEstimate] = field(default_factory=list)
    submarginals: list[MarginalEstimate] = field(default_factory=list)
    supermarginals: list[MarginalEstimate] = field(default_factory=list)
    measured: Floats = field(init=False)
    precision: float = 0.0
    independence_estimate: Floats = field(init=False)
    public: Floats = field(init=False)
    prior: Floats = field(init=False)
    values: Floats = field(init=False)
    precisions: Floats = field(init=False)
    unexplained_share: Floats = field(init=False)
    prior_variance_factor: Floats = field(init=False)
    fractions: Floats | None = None
    own_prior_variance: Floats = field(init=False)
    own_posterior_variance: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.measured = np.zeros(self.shape)
        # share of independent noise that remains after all margins are projected out
        self.residual_noise_share = math.prod(1 - 1 / size for size in self.shape)

    @property
    def estimate(self) -> Floats:
        """The estimated fractions of a table that was fitted."""
        assert self.fractions is not None
        return self.fractions

    def axes_without(self, columns: Attributes) -> tuple[int, ...]:
        """Return the axes of the columns that are not in `columns`."""
        return tuple(axis for axis, column in enumerate(self.columns) if column not in columns)

    def broadcast_shape(self, other: MarginalEstimate) -> tuple[int, ...]:
        """Return the shape that broadcasts a margin of this table over it."""
        return tuple(
            size if column in other.columns else 1
            for column, size in zip(self.columns, self.shape, strict=True)
        )

    def margins(self) -> list[Floats]:
        """Return the estimates of the parents, each with a unit axis for its missing column."""
        if not self.parents:
            return [np.ones(1)]
        return [parent.estimate.reshape(self.broadcast_shape(parent)) for parent in self.parents]

    def add(self, values: Floats, precision: float) -> None:
        """Pool a noisy measurement with the earlier ones, by inverse variance."""
        total = self.precision + precision
        self.measured = (self.precision * self.measured + precision * values) / total
        self.precision = total

    def pooled_measurement(self) -> tuple[Floats, float]:
        """Return the precision-weighted mean of all measurements, and its precision."""
        total, precision = self.precision * self.measured, self.precision
        for other in self.supermarginals:
            axes = other.axes_without(self.columns)
            sum_precision = other.precision / math.prod(other.shape[axis] for axis in axes)
            total, precision = (
                total + sum_precision * other.measured.sum(axis=axes),
                precision + sum_precision,
            )
        return total / max(precision, MIN_PRECISION), max(precision, MIN_PRECISION)

    def unconstrained(self) -> UnconstrainedEstimate:
        """Return the estimate without the assumption that its margins are exact.

        The estimate conditions on estimated margins. This adds the part of the residual that margin
        errors explain, in proportion to their variance.
        """
        margins = self.posterior_variance() - self.own_posterior_variance
        prior = np.maximum(margins + self._free_spread(), SMALLEST_POSITIVE)
        noise = 1 / np.maximum(self.precisions, MIN_PRECISION)
        fractions = self.estimate + margins / (prior + noise) * (self.values - self.estimate)
        return UnconstrainedEstimate(np.maximum(fractions, MIN_FRACTION), prior, noise)

    def _free_spread(self) -> Floats:
        """Return the prior variance of a cell's deviation, given that deviations add up to zero.

        Conditioned on their sum, independent deviations of variances P have variances P (1 - P/ΣP).
        The axis with the smallest value counts.
        """
        return self.own_prior_variance * (1 - largest_shares(self.own_prior_variance))

    def residual(self) -> Floats:
        """Return measured minus public fractions, with the effects of all margins projected out."""
        residual = self.values - self.public
        for axis in range(residual.ndim):
            residual = residual - residual.mean(axis=axis, keepdims=True)
        return residual

    def prior_variance(self, known: Attributes = ()) -> Floats:
        """Return the prior variance of each cell, given exact tables of the columns `known`."""
        return self._with_margins(
            self.prior_variance_factor * self.estimate * self.unexplained_share, known
        )

    def posterior_variance(self) -> Floats:
        """Return the variance of the estimate, including the errors of its margins."""
        return self._with_margins(self.own_posterior_variance, ())

    def _with_margins(self, variance: Floats, known: Attributes) -> Floats:
        for other in self.submarginals:
            if not set(other.columns) <= set(known):
                shape = self.broadcast_shape(other)
                margin_cell = np.maximum(other.estimate.reshape(shape), 1e-300)
                share = np.minimum(self.estimate / margin_cell, 1)
                variance = variance + share**2 * other.own_posterior_variance.reshape(shape)
        return variance

    def project_measurement(self, target: MarginalEstimate) -> tuple[Floats, Floats]:
        """Return the estimate of a margin from this table's own measurement, and its precisions.

        The estimate is the best linear unbiased one under the model of `_margin_weights`. Where it
        is `OUTLIER_DEVIATIONS` from the plain sum, the model is wrong and the sum is returned.
        """
        axes = self.axes_without(target.columns)
        plain_sum = self.measured.sum(axis=axes)
        plain_precision = self.precision / math.prod(self.shape[axis] for axis in axes)
        if self.fractions is None:
            return plain_sum, np.full(plain_sum.shape, plain_precision)
        shares, weights = self._margin_weights(target, 1 / self.precision)
        precisions = (weights * shares).sum(axis=axes)
        values = (weights * self.measured).sum(axis=axes) / precisions
        is_close = (values - plain_sum) ** 2 * plain_precision < OUTLIER_DEVIATIONS**2
        return np.where(is_close, values, plain_sum), np.where(
            is_close, precisions, plain_precision
        )

    def information_share(self, target: MarginalEstimate, noise: float) -> float:
        """Return the mean precision of a projected margin, in units of the precision of a cell."""
        axes = self.axes_without(target.columns)
        shares, weights = self._margin_weights(target, noise)
        return float(((weights * shares).sum(axis=axes) * target.estimate).sum() * noise)

    def _margin_weights(self, target: MarginalEstimate, noise: float) -> tuple[Floats, Floats]:
        """Return the share p of each cell in its margin cell, and least squares weights.

        A cell is p times the margin plus a deviation of prior variance P. It is measured with noise
        variance w. Deviations add up to zero within a margin cell, so the covariance is
        C = diag(P + w) - P Pᵀ / ΣP. The weights are C⁻¹ p (Sherman-Morrison formula). The margin is
        Σ(weight · value) / Σ(weight · p), with the precision Σ(weight · p). As P grows, the weights
        tend to those of the plain sum.
        """
        axes = self.axes_without(target.columns)
        fractions = np.maximum(self.estimate, MIN_FRACTION)
        shares = fractions / fractions.sum(axis=axes, keepdims=True)
        variance = self.prior_variance(target.columns)
        if self.precision:
            squared_gaps = (self.measured - self.estimate) ** 2
            variance = np.where(
                squared_gaps > OUTLIER_DEVIATIONS**2 * (self.prior_variance() + 1 / self.precision),
                squared_gaps,
                variance,
            )
        gains = variance / (variance + noise)
        total_gain = np.maximum(gains.sum(axis=axes, keepdims=True), MIN_FRACTION)
        mean_gain = (shares * gains).sum(axis=axes, keepdims=True)
        return shares, shares / (variance + noise) + gains * mean_gain / (noise * total_gain)


def largest_shares(variances: Floats) -> Floats:
    """Return the share of each cell in the variance along an axis, maximised over axes."""
    shares = np.zeros(variances.shape)
    for axis in range(variances.ndim):
        total = np.maximum(variances.sum(axis=axis, keepdims=True), SMALLEST_POSITIVE)
        shares = np.maximum(shares, variances / total)
    return shares
