"""A single marginal table of a model: its measurements, estimate and projections.

`ipf` and `fit_with_fixed_margins` fit tables to given margins.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import wrightomega

from skpublicdp.query_release.marginals.count import Attributes
from skpublicdp.typing import Floats, Mask

SMALLEST_POSITIVE = 1e-300
"""Lower bound that is applied to denominators and to arguments of logarithms."""

MAX_IPF_SWEEPS = 50
"""Maximum number of sweeps of iterative proportional fitting for an entire table."""

MAX_NEWTON_CYCLES = 20
"""Maximum number of Newton cycles. Afterwards, proportional fitting removes any remaining
deviation."""

MARGIN_TOLERANCE = 1e-7
"""Newton cycles stop when no sum deviates from the margin by more than this tolerance."""

IPF_TOLERANCE = 1e-3 * MARGIN_TOLERANCE
"""Iterative proportional fitting stops when no sum deviates from the margin by more than this
tolerance, which is small because sweeps are cheap."""

REPAIR_TOLERANCE = 1e-4
"""Deviation from a margin, as a fraction of the rows, above which a table is repaired."""

MIN_REPAIRED_SHARE = 1e-3
"""A repair raises cells to at least this share of their independence estimate."""

REPAIR_SWEEPS = 100
"""Maximum number of sweeps of iterative proportional fitting in a repair."""

MIN_PRIOR_RATIO = 1e-12
"""Minimum weight of the prior relative to the measurement, which avoids division by zero."""

MAX_PRIOR_RATIO = 1e6
"""Maximum weight of the prior relative to the measurement. A larger weight would not change any
released digit.
"""


def ipf(tables: Floats, margins: Sequence[Floats], max_sweeps: int) -> Floats:
    """Scale tables to each of their margins in turn (iterative proportional fitting).

    Each sweep scales the tables to every margin once.

    Examples
    --------
    >>> half = np.array([[[0.5], [0.5]]])
    >>> ipf(np.array([[[4.0, 1.0], [1.0, 4.0]]]), [half.reshape(1, 1, 2), half], 9)[0]
    array([[0.4, 0.1],
           [0.1, 0.4]])
    """
    for _ in range(max_sweeps):
        max_deviation = 0.0
        for axis, margin in enumerate(margins, 1):
            total = tables.sum(axis=axis, keepdims=True)
            max_deviation = max(max_deviation, float(np.abs(total - margin).max()))
            tables = tables * np.divide(margin, total, out=np.zeros_like(total), where=total > 0)
        if max_deviation < IPF_TOLERANCE:
            break
    return tables


def fit_with_fixed_margins(
    prior: Floats,
    ratio: Floats,
    values: Floats,
    precisions: Floats,
    margins: Sequence[Floats],
    possible: Mask | None = None,
) -> Floats:
    """Return the tables with given margins that are nearest to both a prior and noisy values.

    The result is the t ≥ 0 that minimises Σ W (r t log(t / prior) - r t + (t - y)² / 2) under the
    margins, where r is the `ratio`, y the values and W the precisions. Impossible cells are 0.

    Notes
    -----
    Each margin cell has a Lagrange multiplier, and ν is the sum of the multipliers of a cell's
    margins. The value of the cell is r ω(log(prior / r) + (y + ν / W) / r), where ω is Wright's
    function (Corless and Jeffrey 2002). The multipliers are updated by Newton steps, one margin
    after the other.

    Since the sum over a margin's cells is a convex function of the multiplier, Newton steps from
    above never overshoot. From below, Newton's method is applied to the logarithm of the sum. The
    step is no larger than the smallest step at which a single cell reaches the margin. Therefore,
    the sum exceeds the margin at most by a factor equal to the number of cells.
    """
    r = np.clip(ratio, MIN_PRIOR_RATIO, MAX_PRIOR_RATIO)
    if possible is not None:  # a tiny prior of full weight keeps impossible cells empty
        r = np.where(possible, r, MAX_PRIOR_RATIO)
        prior = np.where(possible, prior, 0.0)
        values = np.where(possible, values, 0.0)
    # argument of ω for multipliers of 0
    omega_argument = np.log(np.maximum(prior, SMALLEST_POSITIVE) / r) + values / r
    multipliers = np.zeros_like(prior)  # ν of each cell
    tables = r * wrightomega(omega_argument)
    for _ in range(MAX_NEWTON_CYCLES):
        max_deviation = 0.0
        for axis, margin in enumerate(margins, 1):
            tables = np.maximum(tables, SMALLEST_POSITIVE)
            total = tables.sum(axis=axis, keepdims=True)
            # derivative of the sum with respect to its multiplier
            slope = (tables / (r + tables) / precisions).sum(axis=axis, keepdims=True)
            slope = np.maximum(slope, SMALLEST_POSITIVE)
            deficit = margin - total
            max_deviation = max(max_deviation, float(np.abs(deficit).max()))
            # for each cell, the step at which this cell alone reaches the margin
            target = np.maximum(margin, SMALLEST_POSITIVE)
            single_cell_steps = precisions * (r * np.log(target / tables) + target - tables)
            max_step_up = single_cell_steps.min(axis=axis, keepdims=True)
            step_up = np.log(target / total) * total / slope
            step_up = np.minimum(step_up, max_step_up)
            step = np.where(deficit > 0, step_up, deficit / slope)
            multipliers = multipliers + step
            tables = r * wrightomega(omega_argument + multipliers / (precisions * r))
        if max_deviation < MARGIN_TOLERANCE:
            break
    tables = np.maximum(tables, SMALLEST_POSITIVE)
    if possible is not None:
        tables = np.where(possible, tables, 0.0)
    raked = ipf(tables, margins, MAX_NEWTON_CYCLES)
    return _repair_unconverged(raked, margins, possible)


def _repair_unconverged(tables: Floats, margins: Sequence[Floats], possible: Mask | None) -> Floats:
    """Repair and rake the tables that are far from their margins, and return all tables.

    The repair raises nearly empty cells. Proportional fitting cannot do so because it only
    multiplies. The array `tables`, of shape (n_tables, ...), is changed in place.
    """
    max_deviation = np.zeros(len(tables))
    for axis, margin in enumerate(margins, 1):
        deviation = np.abs(tables.sum(axis=axis, keepdims=True) - margin)
        max_deviation = np.maximum(max_deviation, deviation.reshape(len(tables), -1).max(axis=1))
    unconverged = np.flatnonzero(max_deviation > REPAIR_TOLERANCE)
    if len(unconverged):
        # a margin may be shared by all tables of the batch
        table_margins = [
            np.broadcast_to(margin, (len(tables), *margin.shape[1:]))[unconverged]
            for margin in margins
        ]
        support = np.ones_like(tables[unconverged])
        if possible is not None:
            support = possible[unconverged].astype(np.float64)
        independent = ipf(support, table_margins, MAX_NEWTON_CYCLES)
        filled = np.maximum(tables[unconverged], MIN_REPAIRED_SHARE * independent)
        tables[unconverged] = ipf(filled, table_margins, REPAIR_SWEEPS)
    return tables


MIN_PRECISION = 1e-12
"""Precision (inverse variance) that represents an unmeasured fraction."""

OUTLIER_DEVIATIONS = 3.0
"""Maximum deviation of a measurement from the model, in standard deviations, for cells and for
sums. If the deviation is larger, only the measurement is used."""

MIN_FRACTION = 1e-12
"""Minimum value of the fractions in a ratio, which gives equal shares to all cells of an empty
margin cell."""

MIN_UNEXPLAINED_SHARE = 1e-6
"""Lower bound on the share of a cell's variance that is not determined by its margins."""


class UnconstrainedEstimate(NamedTuple):
    """Estimate of a marginal table, computed without assuming that the margins are exact.

    All array attributes have the shape of the table.
    """

    fractions: Floats  # posterior mean of each cell
    prior: Floats  # prior variance of each cell, including the errors of its margins
    noise: Floats  # noise variance of the measured value of each cell

    def variances(self) -> Floats:
        """Return the posterior variance of each cell."""
        return 1 / (1 / self.prior + 1 / self.noise)


class TableMeasurement(NamedTuple):
    """Noisy fractions of a table's cells."""

    values: Floats  # the fractions in the shape of the table
    # noise variance of each fraction, or an array of variances for combined cells
    variance: Any


@dataclass(eq=False)
class MarginalEstimate:
    """Marginal table, with its measurements and its estimate.

    All array attributes have the shape of the table. Values are fractions of the population.

    Attributes
    ----------
    residual_noise_share : float
        Share of the variance of independent noise that remains after the effects of all margins are
        removed.
    """

    columns: Attributes  # increasing column indices
    shape: tuple[int, ...]  # number of codes of each column
    possible: Mask | None = None  # cells that are not structural zeros, or None if there are none
    # Tables with one column fewer, where parent i lacks the column of axis i. The list is empty for
    # a single column.
    parents: list[MarginalEstimate] = field(default_factory=list)
    # tables over all proper subsets of the columns, and wider tables that contain these columns
    submarginals: list[MarginalEstimate] = field(default_factory=list)
    supermarginals: list[MarginalEstimate] = field(default_factory=list)
    # precision-weighted mean of the noisy tables over the same columns
    measured: Floats = field(init=False)
    # inverse noise variance of each cell of `measured`, which is 0 before the first measurement
    precision: float = 0.0
    # maximum entropy table that has the estimated margins
    independence_estimate: Floats = field(init=False)
    # fractions of the public rows, raked to the estimated margins
    public: Floats = field(init=False)
    # prior mean, between the independence estimate and the public fractions
    prior: Floats = field(init=False)
    # measurements, pooled with projections of wider tables, and the inverse variances of the pooled
    # values
    values: Floats = field(init=False)
    precisions: Floats = field(init=False)
    # share of a cell's variance that is not determined by its margins
    unexplained_share: Floats = field(init=False)
    # prior variance of a cell, divided by the cell's fraction and by `unexplained_share`
    prior_variance_factor: Floats = field(init=False)
    fractions: Floats | None = None  # the estimated fractions, or None before the first fit
    # prior and posterior variances of a cell's deviation from the margins, assuming exact margins
    deviation_prior_variance: Floats = field(init=False)
    deviation_posterior_variance: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.measured = np.zeros(self.shape)
        self.residual_noise_share = math.prod(1 - 1 / size for size in self.shape)

    @property
    def estimate(self) -> Floats:
        """Estimated fractions of a fitted table."""
        assert self.fractions is not None
        return self.fractions

    def axes_without(self, columns: Attributes) -> tuple[int, ...]:
        """Return the axes of this table that correspond to columns absent from `columns`."""
        return tuple(axis for axis, column in enumerate(self.columns) if column not in columns)

    def broadcast_shape(self, margin: MarginalEstimate) -> tuple[int, ...]:
        """Return a shape in which a margin can be broadcast, with length 1 for missing columns."""
        return tuple(
            size if column in margin.columns else 1
            for column, size in zip(self.columns, self.shape, strict=True)
        )

    def margins(self) -> list[Floats]:
        """Return the parents' estimates, each with an axis of length 1 for the missing column."""
        if not self.parents:  # the sum of a single column is 1
            return [np.ones(1)]
        return [parent.estimate.reshape(self.broadcast_shape(parent)) for parent in self.parents]

    def add(self, values: Floats, precision: float) -> None:
        """Add a noisy table to `measured`, weighted by its precision (inverse variance)."""
        total_precision = self.precision + precision
        weighted_sum = self.precision * self.measured + precision * values
        self.measured = weighted_sum / total_precision
        self.precision = total_precision

    def pooled_measurement(self) -> TableMeasurement:
        """Return the precision-weighted mean of the noisy table and the sums of noisy wider tables.

        Neither public rows nor a model are used.
        """
        weighted_sum, precision = self.precision * self.measured, self.precision
        for wider in self.supermarginals:
            axes = wider.axes_without(self.columns)
            n_summed = wider.max_possible(axes)
            sum_precision = wider.precision / n_summed
            weighted_sum = weighted_sum + sum_precision * wider.measured.sum(axis=axes)
            precision = precision + sum_precision
        precision = max(precision, MIN_PRECISION)
        return TableMeasurement(weighted_sum / precision, 1 / precision)

    def unconstrained(self) -> UnconstrainedEstimate:
        """Return the estimate of this table without assuming exact margins.

        `estimate` is conditional on the estimated margins. Errors in these margins explain a part
        of the difference between measurement and estimate, in proportion to their variance. This
        part is added to the estimate.
        """
        margin_variance = self.posterior_variance() - self.deviation_posterior_variance
        # Conditional on their sum, independent deviations with the variances P have the variances P
        # (1 - P/ΣP). The deviations sum to zero along each axis; the axis that gives the smallest
        # variance is used.
        deviation_variance = self.deviation_prior_variance
        constrained_variance = deviation_variance * (1 - largest_shares(deviation_variance))
        prior = np.maximum(margin_variance + constrained_variance, SMALLEST_POSITIVE)
        noise = 1 / np.maximum(self.precisions, MIN_PRECISION)
        gain = margin_variance / (prior + noise)
        fractions = self.estimate + gain * (self.values - self.estimate)
        fractions = np.maximum(fractions, MIN_FRACTION)
        fractions = self.on_possible(fractions)
        return UnconstrainedEstimate(fractions, prior, noise)

    def residual(self) -> Floats:
        """Return measured minus public fractions after removing the effects of all margins.

        The mean along each axis is subtracted, as in an analysis of variance.
        """
        return self.without_margins(self.values - self.public)

    def without_margins(self, residual: Floats) -> Floats:
        """Return cells minus the means along each axis, over the possible cells.

        `residual` has the shape of the table, and may have further axes at the end.
        """
        if self.possible is None:
            for axis in range(residual.ndim):
                residual = residual - residual.mean(axis=axis, keepdims=True)
            return residual
        n_further_axes = residual.ndim - len(self.shape)
        possible = self.possible.reshape(*self.shape, *[1] * n_further_axes)
        residual = residual * possible
        for _ in range(MAX_IPF_SWEEPS):  # means over different axes are not orthogonal
            max_mean = 0.0
            for axis in range(len(self.shape)):
                n_possible = np.maximum(possible.sum(axis=axis, keepdims=True), 1)
                means = residual.sum(axis=axis, keepdims=True) / n_possible
                residual = (residual - means) * possible
                max_mean = max(max_mean, float(np.abs(means).max()))
            if max_mean < IPF_TOLERANCE * np.abs(residual).max():
                break
        return residual

    def on_possible(self, cells: Floats) -> Floats:
        """Return values of cells, with 0 in cells that are impossible."""
        return cells if self.possible is None else np.where(self.possible, cells, 0.0)

    def max_possible(self, axes: tuple[int, ...]) -> int:
        """Return the largest number of possible cells that add up to a cell of a margin."""
        if self.possible is None:
            return math.prod(self.shape[axis] for axis in axes)
        return int(self.possible.sum(axis=axes).max())

    def prior_variance(self, exact_columns: Attributes = ()) -> Floats:
        """Return the prior variance of each cell, including the errors of its margins.

        Margins over subsets of `exact_columns` are treated as exact.
        """
        deviation_variance = self.prior_variance_factor * self.estimate * self.unexplained_share
        return self._add_margin_variance(deviation_variance, exact_columns)

    def posterior_variance(self) -> Floats:
        """Return the posterior variance of each cell, including the errors of its margins."""
        return self._add_margin_variance(self.deviation_posterior_variance)

    def _add_margin_variance(self, variance: Floats, exact_columns: Attributes = ()) -> Floats:
        """Return the variances of cells after adding the variance due to errors in the margins.

        Each cell inherits a part of the margin cell's error, in proportion to the cell's share of
        the margin cell. Margins over subsets of `exact_columns` are assumed to have no error.
        """
        for margin in self.submarginals:
            if not set(margin.columns) <= set(exact_columns):
                shape = self.broadcast_shape(margin)
                margin_cell = np.maximum(margin.estimate.reshape(shape), SMALLEST_POSITIVE)
                share = np.minimum(self.estimate / margin_cell, 1)
                variance = variance + share**2 * margin.deviation_posterior_variance.reshape(shape)
        return variance

    def project_measurement(self, target: MarginalEstimate) -> tuple[Floats, Floats]:
        """Return the estimate of a margin from this table's noisy cells, and its precisions.

        The result is the best linear unbiased estimate under the model of `_margin_weights`. If
        this estimate differs from the plain sum by more than `OUTLIER_DEVIATIONS`, the model is
        considered wrong and the plain sum is returned.
        """
        axes = self.axes_without(target.columns)
        n_summed = self.max_possible(axes)
        plain_sum = self.measured.sum(axis=axes)
        plain_precision = self.precision / n_summed
        if self.fractions is None:
            return plain_sum, np.full(plain_sum.shape, plain_precision)
        shares, weights = self._margin_weights(target, 1 / self.precision)
        precisions = (weights * shares).sum(axis=axes)
        values = (weights * self.measured).sum(axis=axes) / precisions
        squared_deviation = (values - plain_sum) ** 2 * plain_precision
        is_close = squared_deviation < OUTLIER_DEVIATIONS**2
        values = np.where(is_close, values, plain_sum)
        precisions = np.where(is_close, precisions, plain_precision)
        return values, precisions

    def information_share(self, target: MarginalEstimate, noise: float) -> float:
        """Return the precision of a projection to a margin, relative to the precision of a cell.

        The precision is averaged over the cells of the margin, weighted by their fractions.
        """
        axes = self.axes_without(target.columns)
        shares, weights = self._margin_weights(target, noise)
        precisions = (weights * shares).sum(axis=axes)
        return float((precisions * target.estimate).sum() * noise)

    def _margin_weights(self, target: MarginalEstimate, noise: float) -> tuple[Floats, Floats]:
        """Return each cell's share p of the margin cell, and its least squares weight.

        Each cell equals p times the margin plus a deviation with prior variance P, and is measured
        with noise variance w. Deviations sum to zero within a margin cell, so the covariance is C =
        diag(P + w) - P Pᵀ / ΣP. The weights are C⁻¹ p (Sherman-Morrison formula). The margin is
        Σ(weight · value) / Σ(weight · p), with the precision Σ(weight · p). As P grows, the weights
        become equal, i.e. the estimate approaches a plain sum.
        """
        axes = self.axes_without(target.columns)
        fractions = np.maximum(self.estimate, MIN_FRACTION)
        shares = fractions / fractions.sum(axis=axes, keepdims=True)
        variance = self.prior_variance(target.columns)
        if self.precision:
            # an outlier shows that the prior variance of its cell is too small
            squared_gap = (self.measured - self.estimate) ** 2
            expected_gap = self.prior_variance() + 1 / self.precision
            is_outlier = squared_gap > OUTLIER_DEVIATIONS**2 * expected_gap
            variance = np.where(is_outlier, squared_gap, variance)
        gains = variance / (variance + noise)
        total_gain = np.maximum(gains.sum(axis=axes, keepdims=True), MIN_FRACTION)
        mean_gain = (shares * gains).sum(axis=axes, keepdims=True)
        weights = shares / (variance + noise) + gains * mean_gain / (noise * total_gain)
        return shares, weights


def largest_shares(variances: Floats) -> Floats:
    """Return each cell's largest share in the sum of variances along any axis."""
    shares = np.zeros(variances.shape)
    for axis in range(variances.ndim):
        total = np.maximum(variances.sum(axis=axis, keepdims=True), SMALLEST_POSITIVE)
        shares = np.maximum(shares, variances / total)
    return shares


def solvable_groups(tables: Iterable[MarginalEstimate]) -> Iterable[list[MarginalEstimate]]:
    """Group tables that can be solved in one batch: by shape, and by whether they are measured."""
    groups = defaultdict(list)
    for table in tables:
        is_measured = bool(table.precisions.flat[0] > 0)  # either all cells of a table or none
        groups[table.shape, is_measured].append(table)
    return groups.values()


def stack_margins(group: Sequence[MarginalEstimate]) -> list[Floats]:
    """Return the margins of tables of equal shape, as one array of shape (n_tables, ...) per axis.

    The summed axis has length 1, as required by `ipf`.
    """
    margins_of_tables = [table.margins() for table in group]
    return [np.stack(margins) for margins in zip(*margins_of_tables, strict=True)]


def stack_possible(group: Sequence[MarginalEstimate]) -> Mask | None:
    """Return the possible cells of tables of equal shape, or None if all cells are possible."""
    if all(table.possible is None for table in group):
        return None
    everything = np.ones(group[0].shape, dtype=bool)
    return np.stack([everything if t.possible is None else t.possible for t in group])
