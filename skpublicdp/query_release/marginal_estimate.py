"""One table: what was measured of it, what is believed of it, and what it says of its margins."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from skpublicdp.query_release.marginal_solver import TINY, Floats
from skpublicdp.query_release.marginal_tables import Columns

NOTHING = 1e-12
"""Precision of a fraction of which nothing was measured."""

FAR = 3.0
"""Deviations of a plain sum beyond which what differs from it is taken to be wrong."""


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

    def freed(self) -> tuple[Floats, Floats]:
        """Return what the estimate would be if its margins were not taken for known.

        Of what it lacks towards the measured values, the table's own part has taken its share; the
        errors of the margins have not, and the rest is theirs by their variance.
        """
        margins = self.error() - self.variances
        expected = np.maximum(margins + self.spread, TINY)
        noise = 1 / np.maximum(self.precisions, NOTHING)
        moved = self.known + margins / (expected + noise) * (self.values - self.known)
        return np.maximum(moved, TINY), 1 / (1 / expected + 1 / noise)

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
        """Return what the own measurement says of a margin, and how precisely.

        The plain sum needs no model and adds up the noise of all cells. The matched filter takes
        each cell for its part of the margin, up to its doubt, and is used where it is better; but
        not where it is far from the plain sum, whose error is known: then its model is wrong.
        """
        axes = self.axes_without(target.columns)
        size = math.prod(self.shape[axis] for axis in axes)
        plain = self.measured.sum(axis=axes)
        precision = self.precision / size
        if self.fractions is None:
            return plain, np.full(plain.shape, precision)
        part, worth = self._matched(target, 1 / self.precision)
        summed = (part**2 * worth).sum(axis=axes)
        filtered = (part * worth * self.measured).sum(axis=axes) / np.maximum(summed, 1e-300)
        better = (summed > precision) & ((filtered - plain) ** 2 * precision < FAR**2)
        return np.where(better, filtered, plain), np.where(better, summed, precision)

    def reach(self, target: Table, noise: float) -> float:
        """Return the share of a precision here that a margin's cell gets, on average."""
        axes = self.axes_without(target.columns)
        part, worth = self._matched(target, noise)
        share = float(((part**2 * worth).sum(axis=axes) * target.known).sum() * noise)
        return max(share, 1 / math.prod(self.shape[axis] for axis in axes))

    def _matched(self, target: Table, noise: float) -> tuple[Floats, Floats]:
        fractions = self.known
        total = fractions.sum(axis=self.axes_without(target.columns), keepdims=True)
        return fractions / np.maximum(total, 1e-300), 1 / (self.doubt(target.columns) + noise)
