"""Intervals of released tables: the posterior of each cell, as a mixture of normal distributions.

The components of the mixture are the effective numbers of public rows (`drift.effective_sizes`)
and the scales of the cell's deviation from its margins (`marginal_scales`). An interval ends where
the mixture has its tails. Only released and public numbers enter. See docs/proofs/marginals.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import norm

from skpublicdp.query_release.binomial_intervals import share_bounds
from skpublicdp.query_release.effective_sizes import SIZES, EffectiveSizes
from skpublicdp.query_release.marginals.count import Columns
from skpublicdp.query_release.marginals.scales import cell_scales, table_scales
from skpublicdp.query_release.marginals.shrinkage import Cells
from skpublicdp.query_release.marginals.table import Table

Floats = NDArray[np.float64]

LEAST_WEIGHT = 1e-4
"""Components of less probability in all cells are left out, for time."""

SPARED = 1 / 20
"""Share of the failure probability that each end of the interval of the noise alone may have. No
end is beyond that interval. With 1/2 intervals miss more often, see benchmarks/ablate.py."""

HALVINGS = 34
"""Bisections for an end: to 1e-10."""

BLOCK = 2048
"""Cells at once, so that the components fit into a cache."""

SMALLEST = 1e-8
"""A lower end below this is 0."""

LEAST_BASE, LEAST_OPEN = 1e-12, 1e-6
"""Smallest base of a cell, and smallest share of its prior variance that margins leave."""


class NoisyFractions(NamedTuple):
    """Noisy answers about cells, in which nothing comes from public rows.

    Attributes
    ----------
    values : ndarray
        Noisy fractions.
    variance : float or ndarray
        Variance of the noise of each.
    persons : float
        Number of private persons.
    gaussian : bool
        Whether the noise is Gaussian, else Laplace.
    """

    values: Floats
    variance: float | Floats
    persons: float
    gaussian: bool

    def bounds(self, failure: float) -> tuple[Floats, Floats]:
        """Return bounds of the population's fractions, each of which fails so often."""
        return share_bounds(
            self.values, self.variance, self.persons, failure, gaussian=self.gaussian
        )

    def length(self, fractions: Floats, failure: float) -> Floats:
        """Return the lengths of normal intervals of the noise and the sampling alone."""
        variance = self.variance + fractions * (1 - fractions) / self.persons
        length: Floats = 2 * norm.isf(failure / 2) * np.sqrt(variance)
        return length


class Components(NamedTuple):
    """Normal distributions of fractions, arrays of shape (n_components, n_fractions).

    Attributes
    ----------
    weights : ndarray
        Their probabilities.
    means : ndarray
        Posterior means.
    noise : ndarray
        Variance that comes from the noise.
    prior : ndarray
        What is left of the prior variance, per fraction.
    """

    weights: Floats
    means: Floats
    noise: Floats
    prior: Floats

    def quantile(self, level: float, variance: Callable[[Floats], Floats]) -> Floats:
        """Return the fraction at which the mixture of the distributions reaches a level.

        Parameters
        ----------
        level : float
            Between 0 and 1.
        variance : callable
            Returns the variance of the components if a fraction is the true one. An error is judged
            by what the candidate would cause (a score interval, Wilson 1927).
        """
        low, high = np.zeros(self.means.shape[1]), np.ones(self.means.shape[1])
        for _ in range(HALVINGS):
            fraction = (low + high) / 2
            deviation = np.sqrt(variance(fraction) + 1e-30)
            reached = (self.weights * ndtr((fraction - self.means) / deviation)).sum(axis=0)
            low = np.where(reached < level, fraction, low)
            high = np.where(reached < level, high, fraction)
        return (low + high) / 2


def capped(
    low: Floats, high: Floats, estimate: Floats, noisy: NoisyFractions, failure: float
) -> tuple[Floats, Floats]:
    """Cut intervals where the noisy answers alone exclude more, and let none be longer than these.

    The intervals of the noise alone are not taken where they are shorter: clipped at 0, they are
    short exactly where the noisy answer is far too low (Feldman and Cousins 1998).
    """
    least, most = noisy.bounds(failure * SPARED)
    low, high = np.maximum(low, least), np.minimum(high, most)
    low = np.minimum(np.where(low < SMALLEST, 0, low), estimate)
    high = np.maximum(high, estimate)
    length = np.minimum(noisy.length(estimate, failure), 1)
    shrinkage = np.minimum(length / np.maximum(high - low, 1e-300), 1)
    low = estimate - shrinkage * (estimate - low)
    return np.where(low < SMALLEST, 0, low), estimate + shrinkage * (high - estimate)


@dataclass(frozen=True, eq=False)
class TablePosterior:
    """Posterior of the cells of a released table.

    Attributes
    ----------
    columns : tuple of int
        The columns of the table.
    cells : Cells
        Its cells in C order, as they were weighed, with positive bases.
    estimate : ndarray
        The released fractions, one axis for each column.
    effective_size : float
        How many private rows the estimate takes the public rows for.
    sizes : EffectiveSizes
        The posterior of that.
    scales : ndarray of shape (n_scales,), or None
        The posterior of the scale of its deviations; None for a single column.
    margins : sequence of TablePosterior
        Of the tables of fewer of its columns.
    """

    columns: Columns
    cells: Cells
    estimate: Floats
    effective_size: float
    sizes: EffectiveSizes
    scales: Floats | None
    margins: Sequence[TablePosterior] = ()

    @cached_property
    def own_variances(self) -> Floats:
        """Mean squared errors of the table's own part, shape (n_sizes, n_cells)."""
        variances = np.empty((len(self.sizes.rows), self.estimate.size))
        for block in _blocks(self.estimate.size):
            variances[:, block] = self._own_variances(block)
        return variances

    def deviations(self, persons: float) -> Floats:
        """Return the expected root mean squared errors, those of sampling included."""
        variance = np.empty(self.estimate.size)
        for block in _blocks(self.estimate.size):
            of_sizes = self._own_variances(block) + self._margin_variances(block)
            variance[block] = self.sizes.weights @ of_sizes
        sampling = self.estimate * (1 - self.estimate) / persons
        deviations: Floats = np.sqrt(variance.reshape(sampling.shape) + sampling)
        return deviations

    def intervals(self, cells: NDArray[np.intp], level: float, noisy: NoisyFractions) -> Floats:
        """Return intervals of some cells, shape (n, 2).

        Parameters
        ----------
        cells : ndarray of int, shape (n,)
            Their positions, in C order.
        level : float
            Coverage, on average over cells.
        noisy : NoisyFractions
            The noisy answers about these cells.
        """
        ends = [np.empty((0, 2))]
        for start in range(0, len(cells), BLOCK):
            block = slice(start, start + BLOCK)
            part = noisy._replace(values=noisy.values[block])
            low, high = self._ends(cells[block], level, part)
            ends.append(np.column_stack([low, high]))
        return np.concatenate(ends)

    def _ends(
        self, cells: NDArray[np.intp], level: float, noisy: NoisyFractions
    ) -> tuple[Floats, Floats]:
        components, failure = self._components(cells), 1 - level

        def variance(fraction: Floats, least: Floats | float = 0.0) -> Floats:
            likely = np.maximum(fraction, least)
            sampling = likely * (1 - likely) / noisy.persons
            total: Floats = components.noise + components.prior * likely + sampling
            return total

        # downwards no variance is less than at the mean: a cell may be empty, and the lower tail of
        # its prior is as heavy as that of a gamma distribution
        centre = np.clip(components.means, 0, 0.5)
        low = components.quantile(failure / 2, lambda fraction: variance(fraction, centre))
        high = components.quantile(1 - failure / 2, variance)
        return capped(low, high, self.estimate.ravel()[cells], noisy, failure)

    def _components(self, cells: NDArray[np.intp]) -> Components:
        """Return the mixture of all sizes, the errors of margins included."""
        estimate, parts = self.estimate.ravel()[cells], []
        of_sizes = zip(
            self.sizes.weights, self._of_sizes(cells), self._margin_variances(cells), strict=True
        )
        for weight, components, margins in of_sizes:
            # the error that a margin brings grows with the share of it that a cell may be
            per_fraction = margins / np.maximum(np.maximum(estimate, np.sqrt(margins)), 1e-300)
            parts.append(
                components._replace(
                    weights=weight * components.weights, prior=components.prior + per_fraction
                )
            )
        mixture = Components(*map(np.concatenate, zip(*parts, strict=True)))
        used = mixture.weights.max(axis=1) > LEAST_WEIGHT
        mixture = Components(*(array[used] for array in mixture))
        return mixture._replace(weights=mixture.weights / mixture.weights.sum(axis=0))

    def _of_sizes(self, cells: NDArray[np.intp]) -> Iterator[Components]:
        """Yield the components of a cell's own part for each effective size."""
        selected = self.cells.at(cells)
        base, public = selected.base, selected.public
        precision = np.divide(
            selected.precisions, selected.kept, out=np.zeros(len(base)), where=selected.kept > 0
        )
        weights, spread = np.ones((1, len(base))), None
        if self.scales is not None:
            weights = cell_scales(selected, self.effective_size, self.scales)
            used = weights.max(axis=1) > LEAST_WEIGHT
            weights = weights[used] / weights[used].sum(axis=0)
            spread = np.maximum(SIZES[used, None], 1e-9) * np.sqrt(base)
        for rows in self.sizes.rows:
            if spread is None:  # a single column: one imagined row more, anywhere
                per_fraction = np.full((1, len(base)), 1 / (1 + rows))
                means = base + (1 - per_fraction) * (public - base)
            else:
                per_fraction = spread / (1 + spread * rows)
                means = base + per_fraction * rows * (public - base)
            means = np.maximum(means, LEAST_BASE)
            prior = np.maximum(per_fraction * means * selected.open, 1e-30)
            gain = prior * precision / (1 + prior * precision)
            yield Components(
                weights,
                means + gain * (selected.values - means),
                np.divide(gain**2, precision, out=np.zeros(gain.shape), where=precision > 0),
                (1 - gain) ** 2 * per_fraction * selected.open,
            )

    def _own_variances(self, cells: NDArray[np.intp]) -> Floats:
        """Return the mean squared errors of the own part for each size, shape (n_sizes, n)."""
        variances = []
        for weights, means, noise, prior in self._of_sizes(cells):
            centre = (weights * means).sum(axis=0)
            if self.scales is None:  # a wrong size counts as bias
                centre = self.estimate.ravel()[cells]
            squared = noise + prior * np.maximum(means, LEAST_BASE) + (means - centre) ** 2
            variances.append((weights * squared).sum(axis=0))
        return np.stack(variances)

    def _margin_variances(self, cells: NDArray[np.intp]) -> Floats:
        """Return the variances that errors of the margins bring, shape (n_sizes, n)."""
        codes = np.unravel_index(cells, self.estimate.shape)
        estimate = self.estimate[codes]
        variances = np.zeros((len(self.sizes.rows), len(cells)))
        for margin in self.margins:
            inside = tuple(
                code
                for code, column in zip(codes, self.columns, strict=True)
                if column in margin.columns
            )
            share = np.minimum(estimate / np.maximum(margin.estimate[inside], 1e-300), 1)
            position = np.ravel_multi_index(inside, margin.estimate.shape)
            own = margin.own_variances[:, position]
            variances += share**2 * (margin.sizes.given(self.sizes) @ own)
        return variances


def _blocks(n_cells: int) -> Iterator[NDArray[np.intp]]:
    for start in range(0, n_cells, BLOCK):
        yield np.arange(start, min(start + BLOCK, n_cells))


def table_posteriors(
    orders: Mapping[int, Sequence[Table]],
    effective_size: Mapping[int, float],
    sizes: Mapping[int, EffectiveSizes],
) -> dict[Columns, TablePosterior]:
    """Return the posteriors of all tables of a solved model.

    Parameters
    ----------
    orders : mapping of int to sequence of Table
        The tables of so many columns, those of fewer first.
    effective_size, sizes : mapping
        What the estimate takes the public rows for, and the posterior, for tables of so many
        columns.
    """
    posteriors: dict[Columns, TablePosterior] = {}
    for width, tables in orders.items():
        parts = [_cells(table) for table in tables]
        scales = None
        if width > 1:
            joined = Cells(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
            ends = np.cumsum([len(part.base) for part in parts])
            starts = ends - [len(part.base) for part in parts]
            scales = table_scales(joined, starts, effective_size[width], width).T
        for place, (table, cells) in enumerate(zip(tables, parts, strict=True)):
            posteriors[table.columns] = TablePosterior(
                columns=table.columns,
                cells=cells,
                estimate=table.known,
                effective_size=effective_size[width],
                sizes=sizes[width],
                scales=None if scales is None else scales[place],
                margins=[posteriors[margin.columns] for margin in table.below],
            )
    return posteriors


def _cells(table: Table) -> Cells:
    """Return the cells of a table of a solved model, in C order."""
    single = len(table.columns) == 1
    arrays = (
        np.maximum(table.base, LEAST_BASE),
        table.public,
        np.maximum(1 - np.maximum(table.known, table.prior), LEAST_OPEN) if single else table.open,
        table.values if single else table.public + table.residual(),
        table.precisions,
        1.0 if single else table.kept,
    )
    return Cells(*(np.broadcast_to(array, table.shape).ravel() for array in arrays))
