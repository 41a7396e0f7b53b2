"""One table: what was measured of it, what is believed of it, and what it says of its margins."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from skpublicdp.query_release.marginals.count import Columns
from skpublicdp.query_release.marginals.ipf import TINY, Floats

NOTHING = 1e-12
"""Precision of a fraction of which nothing was measured."""

FAR = 3.0
"""Standard deviations between measurement and model, of a cell or a sum, from which the measurement
alone counts."""

EMPTY = 1e-12
"""Smallest fraction in a ratio: the parts of an empty margin cell are equal."""


class Freed(NamedTuple):
    """A table whose margins count as uncertain; arrays of the table's shape.

    Attributes
    ----------
    fractions : ndarray
        The posterior mean.
    prior, noise : ndarray
        Variance of a cell without the measurements, errors of its margins included, and the noise
        variance of the measured value.
    """

    fractions: Floats
    prior: Floats
    noise: Floats

    def variances(self) -> Floats:
        """Return the posterior variance of each cell."""
        return 1 / (1 / self.prior + 1 / self.noise)


@dataclass(eq=False)
class Table:
    """A table, what was measured of it, and what is believed of it.

    Attributes
    ----------
    columns : tuple of int
        Increasing.
    shape : tuple of int
        One axis for each column.
    parents, below, above : list of Table
        Those of one column less, of any fewer, and of more columns.
    measured : ndarray
        The mean of its own noisy answers, by their precisions.
    precision : float
        Of each of these.
    base, public, prior : ndarray
        What its margins alone suggest, the public fractions, and what both suggest.
    values, precisions : ndarray
        All that was measured of it, in wider tables too.
    open : ndarray
        Share of a cell's variance that its margins leave.
    loose : ndarray
        Prior variance of a cell is `loose` times its fraction times `open`.
    fractions : ndarray
        The estimate.
    spread, variances : ndarray
        The variance of what the table adds to its margins, before and after it is measured.
    """

    columns: Columns
    shape: tuple[int, ...]
    parents: list[Table] = field(default_factory=list)
    below: list[Table] = field(default_factory=list)
    above: list[Table] = field(default_factory=list)
    measured: Floats = field(init=False)
    precision: float = 0.0
    base: Floats = field(init=False)
    public: Floats = field(init=False)
    prior: Floats = field(init=False)
    values: Floats = field(init=False)
    precisions: Floats = field(init=False)
    open: Floats = field(init=False)
    loose: Floats = field(init=False)
    fractions: Floats | None = None
    spread: Floats = field(init=False)
    variances: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.measured = np.zeros(self.shape)
        # of independent noise, projecting out all margins leaves this share
        self.kept = math.prod(1 - 1 / size for size in self.shape)

    @property
    def known(self) -> Floats:
        """The estimate, of a table that has one."""
        assert self.fractions is not None
        return self.fractions

    def axes_without(self, columns: Columns) -> tuple[int, ...]:
        """Return the axes of columns that are not among these."""
        return tuple(axis for axis, column in enumerate(self.columns) if column not in columns)

    def widened(self, other: Table) -> tuple[int, ...]:
        """Return the shape in which a table of some of the columns is repeated over this one."""
        return tuple(
            size if column in other.columns else 1
            for column, size in zip(self.columns, self.shape, strict=True)
        )

    def margins(self) -> list[Floats]:
        """Return the parents' estimates, each with the axis of its missing column."""
        if not self.parents:
            return [np.ones(1)]
        return [each.known.reshape(self.widened(each)) for each in self.parents]

    def add(self, values: Floats, precision: float) -> None:
        """Take in a noisy measurement."""
        total = self.precision + precision
        self.measured = (self.precision * self.measured + precision * values) / total
        self.precision = total

    def summed(self) -> tuple[Floats, float]:
        """Return the mean of own answers and sums of wider ones, by precisions, and its own."""
        total, precision = self.precision * self.measured, self.precision
        for other in self.above:
            axes = other.axes_without(self.columns)
            worth = other.precision / math.prod(other.shape[axis] for axis in axes)
            total, precision = total + worth * other.measured.sum(axis=axes), precision + worth
        return total / max(precision, NOTHING), max(precision, NOTHING)

    def freed(self) -> Freed:
        """Return the estimate with margins that are uncertain instead of known.

        The estimate already contains the share of the gap to the measured value that the table's
        own part explains. The errors of the margins explain their share by variance.
        """
        margins = self.error() - self.variances
        prior = np.maximum(margins + self._free_spread(), TINY)
        noise = 1 / np.maximum(self.precisions, NOTHING)
        fractions = self.known + margins / (prior + noise) * (self.values - self.known)
        return Freed(np.maximum(fractions, EMPTY), prior, noise)

    def _free_spread(self) -> Floats:
        """Return the prior variance of a cell's own part, given that own parts add up to zero.

        Independent parts of variances P, conditioned on their sum, have the variances P (1 - P/ΣP).
        The axis where that is least counts.
        """
        return self.spread * (1 - largest_shares(self.spread))

    def residual(self) -> Floats:
        """Return measured less public fractions, less what is due to the margins of either."""
        residual = self.values - self.public
        for axis in range(residual.ndim):
            residual = residual - residual.mean(axis=axis, keepdims=True)
        return residual

    def doubt(self, known: Columns = ()) -> Floats:
        """Return the variance of a cell, measurements apart, if some columns' tables are known."""
        return self._with_margins(self.loose * self.known * self.open, known)

    def error(self) -> Floats:
        """Return the variance of the estimate, that of its margins included."""
        return self._with_margins(self.variances, ())

    def _with_margins(self, variance: Floats, known: Columns) -> Floats:
        for other in self.below:
            if not set(other.columns) <= set(known):
                shape = self.widened(other)
                whole = np.maximum(other.known.reshape(shape), 1e-300)
                share = np.minimum(self.known / whole, 1)
                variance = variance + share**2 * other.variances.reshape(shape)
        return variance

    def message(self, target: Table) -> tuple[Floats, Floats]:
        """Return the estimate of a margin from the own measurement alone, and its precisions.

        The estimate is the best linear unbiased one under the model of `_margin_weights`. Where it
        is `FAR` from the plain sum, whose error is known, the model is wrong and the sum counts.
        """
        axes = self.axes_without(target.columns)
        plain = self.measured.sum(axis=axes)
        plain_precision = self.precision / math.prod(self.shape[axis] for axis in axes)
        if self.fractions is None:
            return plain, np.full(plain.shape, plain_precision)
        parts, weights = self._margin_weights(target, 1 / self.precision)
        precisions = (weights * parts).sum(axis=axes)
        values = (weights * self.measured).sum(axis=axes) / precisions
        close = (values - plain) ** 2 * plain_precision < FAR**2
        return np.where(close, values, plain), np.where(close, precisions, plain_precision)

    def reach(self, target: Table, noise: float) -> float:
        """Return the mean precision of a margin's message, in units of the precision of a cell."""
        axes = self.axes_without(target.columns)
        parts, weights = self._margin_weights(target, noise)
        return float(((weights * parts).sum(axis=axes) * target.known).sum() * noise)

    def _margin_weights(self, target: Table, noise: float) -> tuple[Floats, Floats]:
        """Return each cell's part p of its margin cell, and the generalised least squares weights.

        A cell is p times the margin plus a deviation of prior variance P, and is measured with a
        noise variance w. Deviations add up to zero within a margin cell, so the covariance is
        C = diag(P + w) - P Pᵀ / ΣP. The weights are C⁻¹ p (Sherman and Morrison): they estimate the
        margin by Σ(weight · value) / Σ(weight · p), with the precision Σ(weight · p). They tend to
        those of the plain sum as P grows, and sum up the cells that may be filled as P ∝ p.
        """
        axes = self.axes_without(target.columns)
        fractions = np.maximum(self.known, EMPTY)
        parts = fractions / fractions.sum(axis=axes, keepdims=True)
        doubt = self.doubt(target.columns)
        if self.precision:
            gaps = (self.measured - self.known) ** 2
            doubt = np.where(gaps > FAR**2 * (self.doubt() + 1 / self.precision), gaps, doubt)
        gains = doubt / (doubt + noise)
        total_gain = np.maximum(gains.sum(axis=axes, keepdims=True), EMPTY)
        seen = (parts * gains).sum(axis=axes, keepdims=True)
        return parts, parts / (doubt + noise) + gains * seen / (noise * total_gain)


def largest_shares(variances: Floats) -> Floats:
    """Return each cell's share in the sum of the variances along an axis, of the axis with most."""
    shares = np.zeros(variances.shape)
    for axis in range(variances.ndim):
        total = np.maximum(variances.sum(axis=axis, keepdims=True), TINY)
        shares = np.maximum(shares, variances / total)
    return shares
