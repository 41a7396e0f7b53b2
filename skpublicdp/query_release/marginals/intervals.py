"""Intervals of released tables: the posterior of each cell is a mixture of normal distributions.

A component has an effective public sample size (`effective_sizes.effective_size_posterior`) and a
scale of the cell's deviation from its margins (`scales.cell_scales`). Ends of an interval are
quantiles of the mixture. Only released and public numbers enter. See docs/proofs/marginals.md.
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

from skpublicdp.query_release.binomial_intervals import binomial_bounds
from skpublicdp.query_release.effective_sizes import SHIFT_VARIANCE_GRID, EffectiveSizePosterior
from skpublicdp.query_release.marginals.count import Attributes
from skpublicdp.query_release.marginals.scales import cell_scales, table_scales
from skpublicdp.query_release.marginals.shrinkage import CellBatch
from skpublicdp.query_release.marginals.table import MarginalEstimate
from skpublicdp.typing import Floats

MIN_COMPONENT_WEIGHT = 1e-4
"""Components of lower probability in all cells are dropped, to save time."""

NOISE_INTERVAL_SHARE = 1 / 20
"""Failure probability of each end of the interval of the noisy answers alone, as a share, to which
the posterior interval is clipped. With 1/2 coverage is lower, see benchmarks/ablate.py."""

QUANTILE_BISECTIONS = 34
"""Number of bisections for an end, which gives a precision of 1e-10."""

CELL_BLOCK = 2048
"""Cells that are processed at a time, so that the components fit into a cache."""

MIN_LOWER_END = 1e-8
"""A lower end below this is set to 0."""

MIN_INDEPENDENCE_ESTIMATE, MIN_UNEXPLAINED_SHARE = 1e-12, 1e-6
"""Lower bounds of a cell's independence estimate and of the share its margins leave unexplained."""


class NoisyFractions(NamedTuple):
    """Noisy answers about cells, independent of the public rows.

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
        """Return one-sided bounds of the population's fractions with a failure probability each."""
        return binomial_bounds(
            self.values, self.variance, self.persons, failure, gaussian=self.gaussian
        )

    def length(self, fractions: Floats, failure: float) -> Floats:
        """Return the lengths of normal intervals for noise and sampling error alone."""
        variance = self.variance + fractions * (1 - fractions) / self.persons
        length: Floats = 2 * norm.isf(failure / 2) * np.sqrt(variance)
        return length


class NormalMixture(NamedTuple):
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
        Remaining prior variance per unit of the fraction.
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
            Returns the variance of the components at a candidate for the true fraction, as in a
            score interval (Wilson 1927).
        """
        low, high = np.zeros(self.means.shape[1]), np.ones(self.means.shape[1])
        for _ in range(QUANTILE_BISECTIONS):
            fraction = (low + high) / 2
            deviation = np.sqrt(variance(fraction) + 1e-30)
            reached = (self.weights * ndtr((fraction - self.means) / deviation)).sum(axis=0)
            low = np.where(reached < level, fraction, low)
            high = np.where(reached < level, high, fraction)
        return (low + high) / 2


def cap_by_noisy_interval(
    low: Floats, high: Floats, estimate: Floats, noisy: NoisyFractions, failure: float
) -> tuple[Floats, Floats]:
    """Clip intervals to the bounds of the noisy answers alone, and limit their length to these.

    The shorter noise interval does not simply replace the posterior interval. Clipped at 0, it is
    short exactly where the noisy answer is far too low (Feldman and Cousins 1998).
    """
    least, most = noisy.bounds(failure * NOISE_INTERVAL_SHARE)
    low, high = np.maximum(low, least), np.minimum(high, most)
    low = np.minimum(np.where(low < MIN_LOWER_END, 0, low), estimate)
    high = np.maximum(high, estimate)
    length = np.minimum(noisy.length(estimate, failure), 1)
    shrinkage = np.minimum(length / np.maximum(high - low, 1e-300), 1)
    low = estimate - shrinkage * (estimate - low)
    return np.where(low < MIN_LOWER_END, 0, low), estimate + shrinkage * (high - estimate)


@dataclass(frozen=True, eq=False)
class TablePosterior:
    """Posterior of the cells of a released table.

    Attributes
    ----------
    columns : tuple of int
        The columns of the table.
    cells : CellBatch
        Its cells in C order, with positive independence estimates.
    estimate : ndarray
        The released fractions, one axis for each column.
    effective_size : float
        How many private rows the estimate takes the public rows for.
    sizes : EffectiveSizes
        The posterior of that.
    scales : ndarray of shape (n_scales,), or None
        The posterior of the scale of its deviations; None for a single column.
    margins : sequence of TablePosterior
        Posteriors of the tables of proper subsets of its columns.
    """

    columns: Attributes
    cells: CellBatch
    estimate: Floats
    effective_size: float
    sizes: EffectiveSizePosterior
    scales: Floats | None
    margins: Sequence[TablePosterior] = ()

    @cached_property
    def own_variances(self) -> Floats:
        """Mean squared errors of deviations from the margins, shape (n_sizes, n_cells)."""
        variances = np.empty((len(self.sizes.rows), self.estimate.size))
        for block in _blocks(self.estimate.size):
            variances[:, block] = self._own_variances(block)
        return variances

    def deviations(self, persons: float) -> Floats:
        """Return the expected root mean squared errors, including sampling error."""
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
        for start in range(0, len(cells), CELL_BLOCK):
            block = slice(start, start + CELL_BLOCK)
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
        return cap_by_noisy_interval(low, high, self.estimate.ravel()[cells], noisy, failure)

    def _components(self, cells: NDArray[np.intp]) -> NormalMixture:
        """Return the mixture over all effective sizes, including the errors of margins."""
        estimate, parts = self.estimate.ravel()[cells], []
        of_sizes = zip(
            self.sizes.weights,
            self._components_by_size(cells),
            self._margin_variances(cells),
            strict=True,
        )
        for weight, components, margins in of_sizes:
            # the error inherited from a margin grows with the cell's share in it
            per_fraction = margins / np.maximum(np.maximum(estimate, np.sqrt(margins)), 1e-300)
            parts.append(
                components._replace(
                    weights=weight * components.weights, prior=components.prior + per_fraction
                )
            )
        mixture = NormalMixture(*map(np.concatenate, zip(*parts, strict=True)))
        used = mixture.weights.max(axis=1) > MIN_COMPONENT_WEIGHT
        mixture = NormalMixture(*(array[used] for array in mixture))
        return mixture._replace(weights=mixture.weights / mixture.weights.sum(axis=0))

    def _components_by_size(self, cells: NDArray[np.intp]) -> Iterator[NormalMixture]:
        """Yield the components of a cell's deviation from its margins, for each effective size."""
        selected = self.cells.at(cells)
        base, public = selected.independence_estimate, selected.public
        precision = np.divide(
            selected.precisions,
            selected.residual_noise_share,
            out=np.zeros(len(base)),
            where=selected.residual_noise_share > 0,
        )
        weights, spread = np.ones((1, len(base))), None
        if self.scales is not None:
            weights = cell_scales(selected, self.effective_size, self.scales)
            used = weights.max(axis=1) > MIN_COMPONENT_WEIGHT
            weights = weights[used] / weights[used].sum(axis=0)
            spread = np.maximum(SHIFT_VARIANCE_GRID[used, None], 1e-9) * np.sqrt(base)
        for rows in self.sizes.rows:
            if spread is None:  # a single column: one imagined row more, anywhere
                per_fraction = np.full((1, len(base)), 1 / (1 + rows))
                means = base + (1 - per_fraction) * (public - base)
            else:
                per_fraction = spread / (1 + spread * rows)
                means = base + per_fraction * rows * (public - base)
            means = np.maximum(means, MIN_INDEPENDENCE_ESTIMATE)
            prior = np.maximum(per_fraction * means * selected.unexplained_share, 1e-30)
            gain = prior * precision / (1 + prior * precision)
            yield NormalMixture(
                weights,
                means + gain * (selected.values - means),
                np.divide(gain**2, precision, out=np.zeros(gain.shape), where=precision > 0),
                (1 - gain) ** 2 * per_fraction * selected.unexplained_share,
            )

    def _own_variances(self, cells: NDArray[np.intp]) -> Floats:
        """Return the mean squared errors of the own part for each size, shape (n_sizes, n)."""
        variances = []
        for weights, means, noise, prior in self._components_by_size(cells):
            centre = (weights * means).sum(axis=0)
            if self.scales is None:  # a wrong size counts as bias
                centre = self.estimate.ravel()[cells]
            squared = (
                noise + prior * np.maximum(means, MIN_INDEPENDENCE_ESTIMATE) + (means - centre) ** 2
            )
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
            variances += share**2 * (margin.sizes.conditional_weights(self.sizes) @ own)
        return variances


def _blocks(n_cells: int) -> Iterator[NDArray[np.intp]]:
    for start in range(0, n_cells, CELL_BLOCK):
        yield np.arange(start, min(start + CELL_BLOCK, n_cells))


def table_posteriors(
    orders: Mapping[int, Sequence[MarginalEstimate]],
    effective_size: Mapping[int, float],
    sizes: Mapping[int, EffectiveSizePosterior],
) -> dict[Attributes, TablePosterior]:
    """Return the posteriors of all tables of a solved model.

    Parameters
    ----------
    orders : mapping of int to sequence of Table
        The tables by number of columns, in increasing order.
    effective_size, sizes : mapping
        Effective public sample size and its posterior, by number of columns.
    """
    posteriors: dict[Attributes, TablePosterior] = {}
    for width, tables in orders.items():
        parts = [_cells(table) for table in tables]
        scales = None
        if width > 1:
            joined = CellBatch(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
            ends = np.cumsum([len(part.independence_estimate) for part in parts])
            starts = ends - [len(part.independence_estimate) for part in parts]
            scales = table_scales(joined, starts, effective_size[width], width).T
        for place, (table, cells) in enumerate(zip(tables, parts, strict=True)):
            posteriors[table.columns] = TablePosterior(
                columns=table.columns,
                cells=cells,
                estimate=table.estimate,
                effective_size=effective_size[width],
                sizes=sizes[width],
                scales=None if scales is None else scales[place],
                margins=[posteriors[margin.columns] for margin in table.submarginals],
            )
    return posteriors


def _cells(table: MarginalEstimate) -> CellBatch:
    """Return the cells of a table of a solved model, in C order."""
    single = len(table.columns) == 1
    arrays = (
        np.maximum(table.independence_estimate, MIN_INDEPENDENCE_ESTIMATE),
        table.public,
        np.maximum(1 - np.maximum(table.estimate, table.prior), MIN_UNEXPLAINED_SHARE)
        if single
        else table.unexplained_share,
        table.values if single else table.public + table.residual(),
        table.precisions,
        1.0 if single else table.residual_noise_share,
    )
    return CellBatch(*(np.broadcast_to(array, table.shape).ravel() for array in arrays))
