"""Credible intervals for released tables, based on a mixture of normal distributions per cell.

Each component of the mixture assumes one effective public sample size
(`effective_sizes.effective_size_posterior`) and one scale of the cell's deviation from its margins
(`cell_scales`). The ends of an interval are quantiles of the mixture. All inputs are
released or public numbers. See docs/proofs/marginals.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr
from scipy.stats import norm

from skpublicdp.query_release.effective_sizes import (
    SHIFT_VARIANCE_GRID,
    EffectiveSizePosterior,
    point_mass_size,
)
from skpublicdp.query_release.marginals.count import Attributes
from skpublicdp.query_release.marginals.noisy_fractions import (
    DISAGREEMENT_FAILURE,
    NoisyFractions,
    cap_by_noisy_interval,
    find_disagreement,
)
from skpublicdp.query_release.marginals.shrinkage import (
    MAX_TRAINING_CELLS,
    MIN_INDEPENDENCE_ESTIMATE,
    CellBatch,
    log_likelihood,
    prior_given_public,
)
from skpublicdp.query_release.marginals.table import (
    MIN_UNEXPLAINED_SHARE,
    SMALLEST_POSITIVE,
    MarginalEstimate,
)
from skpublicdp.query_release.ratios import ratios
from skpublicdp.typing import Codes, Floats

MIN_SCALE = 1e-9
"""Positive scale that replaces a scale of 0 in logarithms and denominators."""

LOG_SCALE_GRID = np.log(np.maximum(SHIFT_VARIANCE_GRID, MIN_SCALE))
"""Grid of values of log g, the first of which represents g = 0."""

MEDIAN_SCALES = {2: 8e-3, 3: 1e-4}
"""Prior median of S by number of columns (3 means 3 or more), estimated by maximum likelihood on
ten public tables: adult, two ACS regions, churn, TV16, CPS, lending, MplsStops, covid and
HealthInsurance."""

POPULATION_DEVIATION, TABLE_DEVIATION, CELL_DEVIATION = 2.0, 1.4, 1.4
"""Standard deviations of log S, of log G given S, and of log g given G, estimated by maximum
likelihood on the same tables. The estimate for G is 2.0, but 1.4 gives better coverage of
intervals."""

NO_DEVIATIONS_PROBABILITY = 0.03
"""Prior probability that the margins of a population determine all tables."""

TEMPERATURE = 0.25
"""Exponent of the likelihood of a table (power likelihood). The cells share margins and rows with
other tables and are therefore not independent evidence. The exponent was chosen based on
coverage."""

PRIOR_SHARE = 0.5
"""Weight of the prior when the posterior of G is computed for an unmeasured table, since the
likelihood of a few raked public rows overstates how informative they are. The weight was chosen
based on the coverage of unmeasured tables. benchmarks/ablate.py reports the cost in terms of the
interval score."""

MIN_EVIDENCE = 1e-290
"""Lower bound on a likelihood, which keeps logarithms finite."""


def _transition_matrix(deviation: float) -> Floats:
    """Return the conditional distribution of a scale, given the scale one level above."""
    density = np.exp(-0.5 * ((LOG_SCALE_GRID[:, None] - LOG_SCALE_GRID) / deviation) ** 2)
    # index 0 is the scale 0, which is reached only from the scale 0
    density[0], density[:, 0] = 0, 0
    density[0, 0] = 1
    return density / density.sum(axis=0)


def _population_prior(n_columns: int) -> Floats:
    """Return prior probabilities of the population's scale S, shape (n_scales,).

    The prior is log-normal on the grid with a point mass at 0, and depends on the number of columns
    of the tables.
    """
    median = MEDIAN_SCALES[min(n_columns, max(MEDIAN_SCALES))]
    prior: Floats = np.exp(-0.5 * ((LOG_SCALE_GRID - np.log(median)) / POPULATION_DEVIATION) ** 2)
    prior[0] = 0
    prior *= (1 - NO_DEVIATIONS_PROBABILITY) / prior.sum()
    prior[0] = NO_DEVIATIONS_PROBABILITY
    return prior


def table_scales(
    cells: CellBatch, starts: NDArray[np.integer], effective_size: float, n_columns: int
) -> Floats:
    """Return the posterior of each table's scale G, given all measurements, (n_scales, n_tables).

    The cells are those of all tables with `n_columns` columns, whose first cells are at `starts`.
    """
    n_cells, n_tables = len(cells.independence_estimate), len(starts)
    table_of_cell = np.searchsorted(starts, np.arange(n_cells), side="right") - 1
    log_evidence = _table_log_evidence(cells, table_of_cell, n_tables, effective_size)
    population_prior = _population_prior(n_columns)
    table_given_population = _transition_matrix(TABLE_DEVIATION)
    # Bayes' theorem for S, given all tables, and then for G of each table, given S
    with np.errstate(divide="ignore"):
        # axes: scale G of the table, scale S of the population, table
        log_joint = log_evidence[:, None, :] + np.log(table_given_population)[:, :, None]
        log_prior = np.log(population_prior)
    log_evidence_given_population = logsumexp(log_joint, axis=0)  # (n_scales, n_tables)
    log_population = log_prior + log_evidence_given_population.sum(axis=1)
    log_population -= logsumexp(log_population)
    log_table_given_population = log_joint - log_evidence_given_population
    posterior: Floats = np.exp(
        logsumexp(log_table_given_population + log_population[:, None], axis=1)
    )
    # unmeasured tables have only public rows; see `PRIOR_SHARE`
    is_unmeasured = np.bincount(table_of_cell, cells.precisions > 0, n_tables) == 0
    table_prior = table_given_population @ population_prior
    posterior[:, is_unmeasured] *= 1 - PRIOR_SHARE
    posterior[:, is_unmeasured] += PRIOR_SHARE * table_prior[:, None]
    return posterior


def _table_log_evidence(
    cells: CellBatch, table_of_cell: Codes, n_tables: int, effective_size: float
) -> Floats:
    """Return the log marginal likelihood of each scale G of each table, (n_scales, n_tables).

    The scale g of each cell is integrated out, and the likelihood has the exponent `TEMPERATURE`.
    Each cell is weighted by the share of the noise that remains after removing the effects of the
    margins.
    """
    cell_given_table = _transition_matrix(CELL_DEVIATION)
    log_evidence = np.zeros((len(SHIFT_VARIANCE_GRID), n_tables))
    for start in range(0, len(table_of_cell), MAX_TRAINING_CELLS):
        block = slice(start, start + MAX_TRAINING_CELLS)
        log_likelihoods = log_likelihood(cells.select(block), effective_size)
        likelihood = np.exp(log_likelihoods - log_likelihoods.max(axis=0))
        log_marginal = np.log(np.maximum(cell_given_table.T @ likelihood, MIN_EVIDENCE))
        weighted = TEMPERATURE * cells.residual_noise_share[block] * log_marginal
        for scale, log_evidence_of_cells in enumerate(weighted):
            log_evidence[scale] += np.bincount(
                table_of_cell[block], log_evidence_of_cells, n_tables
            )
    return log_evidence


def cell_scales(cells: CellBatch, effective_size: float, scales: Floats) -> Floats:
    """Return the posterior of the scale g for each cell of a table."""
    log_likelihoods = log_likelihood(cells, effective_size)
    likelihood = np.exp(log_likelihoods - log_likelihoods.max(axis=0))
    cell_given_table = _transition_matrix(CELL_DEVIATION)
    evidence = np.maximum(cell_given_table.T @ likelihood, MIN_EVIDENCE)
    # for each g: sum over G of P(g | G) P(G) / evidence(G), times the likelihood of g
    table_weights = scales[:, None] / evidence
    joint = (cell_given_table @ table_weights) * likelihood
    return joint / joint.sum(axis=0)


MIN_COMPONENT_WEIGHT = 1e-4
"""Minimum probability of a component; components below this minimum in all cells are dropped to
save time."""

QUANTILE_BISECTIONS = 34
"""Number of bisection steps for each end of an interval, which gives a precision of 1e-10."""

CELL_BLOCK = 2048
"""Number of cells processed at a time, which is small enough for the components to fit into a
cache."""

MIN_VARIANCE = 1e-30
"""Lower bound on variances of fractions, which keeps divisions finite."""


class NormalMixture(NamedTuple):
    """Posterior distributions of several fractions, each a mixture of normal distributions.

    All attributes are arrays of shape (n_components, n_fractions). The variance of each component
    is noise + prior · fraction.
    """

    weights: Floats  # probability of each component
    means: Floats  # posterior mean of each fraction
    noise: Floats  # part of the posterior variance that is due to the noise
    # part of the posterior variance that is due to the prior, divided by the fraction
    prior: Floats

    def quantile(self, level: float, variance: Callable[[Floats], Floats]) -> Floats:
        """Return a quantile of each mixture, computed by bisection."""
        n_fractions = self.means.shape[1]
        low, high = np.zeros(n_fractions), np.ones(n_fractions)
        for _ in range(QUANTILE_BISECTIONS):
            fraction = (low + high) / 2
            deviation = np.sqrt(variance(fraction) + MIN_VARIANCE)
            standardized = (fraction - self.means) / deviation
            probability = (self.weights * ndtr(standardized)).sum(axis=0)
            is_below = probability < level
            low = np.where(is_below, fraction, low)
            high = np.where(is_below, high, fraction)
        return (low + high) / 2


@dataclass(frozen=True, eq=False)
class TablePosterior:
    """Posterior distribution of the fraction in each cell of a released marginal table."""

    columns: Attributes
    cells: CellBatch  # cells of the table in C order; their independence estimates must be positive
    estimate: Floats  # the released fractions, with one axis for each column
    effective_size: float  # effective public sample size of the estimate, in private rows
    sizes: EffectiveSizePosterior  # posterior of the effective public sample size
    # (n_scales,): posterior of the scale of the table's deviations from its margins; see `scales`.
    # It is None for a single column, which has no margins.
    scales: Floats | None
    # posteriors of the tables over all proper subsets of the columns
    margins: Sequence[TablePosterior] = ()
    # Whether the measurements show that the distribution of the public rows is shifted. The shift
    # of a cell may then be much larger than the average shift, on which `sizes` is based. The
    # intervals therefore also contain the intervals of `without_public`.
    is_shifted: bool = False
    # (n_scales,): as `scales`, if the public rows are worth no private rows. It is None if there is
    # no shift.
    scales_without_public: Floats | None = None

    @cached_property
    def without_public(self) -> TablePosterior:
        """Posterior of the same table if the public rows are worth no private rows."""
        return replace(
            self,
            effective_size=0.0,
            sizes=point_mass_size(0.0),
            scales=self.scales_without_public,
            margins=[margin.without_public for margin in self.margins],
            is_shifted=False,
        )

    @cached_property
    def deviation_variances(self) -> Floats:
        """Mean squared error of each cell assuming exact margins, shape (n_sizes, n_cells).

        The error depends on the effective public sample size; see `sizes`.
        """
        variances = np.empty((len(self.sizes.rows), self.estimate.size))
        for block in _blocks(self.estimate.size):
            variances[:, block] = self._deviation_variances(block)
        return variances

    def deviations(self, persons: float) -> Floats:
        """Return the expected root mean squared error of each cell, in the table's shape.

        The error includes the sampling error of `persons` private persons.
        """
        shape = self.estimate.shape
        variance = np.empty(self.estimate.size)
        for block in _blocks(self.estimate.size):
            deviation_variance = self._deviation_variances(block)
            margin_variance = self._margin_variances(block)
            variance_by_size = deviation_variance + margin_variance  # (n_sizes, n_cells)
            variance[block] = self.sizes.weights @ variance_by_size
        sampling_variance = self.estimate * (1 - self.estimate) / persons
        return np.sqrt(variance.reshape(shape) + sampling_variance)

    def intervals(
        self,
        cells: Codes,  # (n,)
        level: float,
        noisy: NoisyFractions,
        groups: TablePosterior | None = None,
    ) -> Floats:
        """Return credible intervals for the fractions in selected cells."""
        intervals = [np.empty((0, 2))]  # this is the result if there are no cells
        for start in range(0, len(cells), CELL_BLOCK):
            block = slice(start, start + CELL_BLOCK)
            noisy_block = noisy._replace(values=noisy.values[block])
            if np.ndim(noisy.variance):
                noisy_block = noisy_block._replace(variance=np.asarray(noisy.variance)[block])
            if groups is None:
                low, high = _mixture_interval(
                    self._mixtures(cells[block]),
                    self.estimate.ravel()[cells[block]],
                    level,
                    noisy_block,
                )
            else:
                low, high = self._share_ends(cells[block], level, noisy_block, groups)
            intervals.append(np.column_stack([low, high]))
        return np.concatenate(intervals)

    def _share_ends(
        self, cells: Codes, level: float, noisy: NoisyFractions, groups: TablePosterior
    ) -> tuple[Floats, Floats]:
        """Return the lower and upper interval ends for shares, as in `intervals`.

        Each cell inherits the error of the group's fraction in proportion (see
        `_margin_variances`), so this error does not change the share. Conditional on the group's
        fraction, the share is a fraction of the private persons in the group.
        """
        assert isinstance(noisy.persons, float)
        group_codes = self._codes_in(cells, groups.columns)
        group = groups.estimate[group_codes]
        sampling_variance = group * (1 - group) / noisy.persons
        deviation = groups.deviations(noisy.persons)[group_codes]
        # the share of a group that may be empty is unknown
        is_known = group > norm.isf((1 - level) / 2) * deviation
        group = np.where(is_known, group, 1)
        mixtures = [
            mixture._replace(
                means=mixture.means / group,
                noise=mixture.noise / group**2,
                prior=mixture.prior / group,
            )
            for mixture in self._mixtures(cells, exact_columns=groups.columns)
        ]
        share = self.estimate.ravel()[cells] / group
        # the noisy share inherits the error of the group through its denominator
        group_variance = np.maximum(deviation**2 - sampling_variance, 0)
        noisy_shares = NoisyFractions(
            noisy.values / group,
            (noisy.variance + share**2 * group_variance) / group**2,
            noisy.persons * group,
            noisy.gaussian,
        )
        low, high = _mixture_interval(mixtures, share, level, noisy_shares)
        return np.where(is_known, low, 0), np.where(is_known, np.minimum(high, 1), 1)

    def _mixtures(self, cells: Codes, exact_columns: Attributes = ()) -> list[NormalMixture]:
        """Return the posteriors of selected cells that the intervals must contain.

        If the public rows are shifted, this includes the posterior without public rows.
        """
        posteriors = [self, self.without_public] if self.is_shifted else [self]
        return [posterior._mixture(cells, exact_columns) for posterior in posteriors]

    def _mixture(self, cells: Codes, exact_columns: Attributes = ()) -> NormalMixture:
        """Return the posterior of selected cells: a mixture over effective sizes and scales.

        The components of `_mixtures_by_size` are concatenated. The variance due to errors in the
        margins is added to the prior variance. Margins over `exact_columns` are treated as exact.
        """
        estimate = self.estimate.ravel()[cells]
        margin_variances = self._margin_variances(cells, exact_columns)
        mixtures = []
        for i, mixture in enumerate(self._mixtures_by_size(cells)):
            # The error inherited from a margin is proportional to the cell's fraction. Its variance
            # is therefore divided by the fraction, like the prior variance. A fraction near 0 is
            # replaced by the standard deviation of the error.
            variance = margin_variances[i]
            scale = np.maximum(np.maximum(estimate, np.sqrt(variance)), SMALLEST_POSITIVE)
            mixtures.append(
                mixture._replace(
                    weights=self.sizes.weights[i] * mixture.weights,
                    prior=mixture.prior + variance / scale,
                )
            )
        joined = NormalMixture(*map(np.concatenate, zip(*mixtures, strict=True)))
        is_relevant = joined.weights.max(axis=1) > MIN_COMPONENT_WEIGHT
        joined = NormalMixture(*(array[is_relevant] for array in joined))
        return joined._replace(weights=joined.weights / joined.weights.sum(axis=0))

    def _mixtures_by_size(self, cells: Codes) -> Iterator[NormalMixture]:
        """For each effective size, yield the posterior of selected cells, assuming exact margins.

        Each mixture has one component for every likely scale of a cell's deviation from the
        margins. For a single column, there is only one component.
        """
        selected = self.cells.select(cells)
        base, public = selected.independence_estimate, selected.public
        precision = ratios(selected.precisions, selected.residual_noise_share)
        weights, scale_variance = np.ones((1, len(base))), None
        if self.scales is not None:
            weights = cell_scales(selected, self.effective_size, self.scales)
            is_relevant = weights.max(axis=1) > MIN_COMPONENT_WEIGHT
            weights = weights[is_relevant] / weights[is_relevant].sum(axis=0)
            scale_variance = np.maximum(SHIFT_VARIANCE_GRID[is_relevant, None], MIN_SCALE)
            scale_variance = scale_variance * np.sqrt(base)
        for n_rows in self.sizes.rows:
            # prior of the fraction given public rows: means, and variances divided by the means
            if scale_variance is None:  # a single column: one pseudo-row, spread evenly
                variance_factor = np.full((1, len(base)), 1 / (1 + n_rows))
                means = base + (1 - variance_factor) * (public - base)
            else:
                means, variance_factor = prior_given_public(selected, scale_variance, n_rows)
            means = np.maximum(means, MIN_INDEPENDENCE_ESTIMATE)
            prior_variance = variance_factor * means * selected.unexplained_share
            prior_variance = np.maximum(prior_variance, MIN_VARIANCE)
            gain = prior_variance * precision / (1 + prior_variance * precision)  # of Kalman
            yield NormalMixture(
                weights=weights,
                means=means + gain * (selected.values - means),
                noise=ratios(gain**2, precision),
                prior=(1 - gain) ** 2 * variance_factor * selected.unexplained_share,
            )

    def _deviation_variances(self, cells: Codes) -> Floats:
        """Return the mean squared error of selected cells for each size, given exact margins."""
        variances = []
        for weights, means, noise, prior in self._mixtures_by_size(cells):
            if self.scales is None:
                # the estimate assumes one size; its difference to other sizes is a bias
                center = self.estimate.ravel()[cells]
            else:
                center = (weights * means).sum(axis=0)
            prior_variance = prior * np.maximum(means, MIN_INDEPENDENCE_ESTIMATE)
            squared_error = noise + prior_variance + (means - center) ** 2
            variances.append((weights * squared_error).sum(axis=0))
        return np.stack(variances)

    def _margin_variances(self, cells: Codes, exact_columns: Attributes = ()) -> Floats:
        """For each size, return the variance of selected cells due to errors in the margins.

        Each cell inherits a part of the margin cell's error, in proportion to the cell's share of
        the margin cell. Margins over `exact_columns` are treated as exact.

        Returns
        -------
        ndarray of shape (n_sizes, n)
        """
        estimate = self.estimate.ravel()[cells]
        variances = np.zeros((len(self.sizes.rows), len(cells)))
        margin_of_columns = {margin.columns: margin for margin in self.margins}
        for margin in self.margins:
            if set(margin.columns) <= set(exact_columns):
                continue
            margin_codes = self._codes_in(cells, margin.columns)
            margin_fraction = margin.estimate[margin_codes]
            margin_cell = np.ravel_multi_index(margin_codes, margin.estimate.shape)
            size_weights = margin.sizes.conditional_weights(self.sizes)
            margin_variance = size_weights @ margin.deviation_variances[:, margin_cell]
            # A margin cell whose estimate is below its standard deviation says little about the
            # cell's share. The shortfall is distributed like the other columns (independence).
            other_columns = tuple(column for column in self.columns if column not in margin.columns)
            other = margin_of_columns[other_columns]
            other_fraction = other.estimate[self._codes_in(cells, other_columns)]
            shortfall = np.maximum(np.sqrt(margin_variance) - margin_fraction, 0)
            share = (estimate + shortfall * other_fraction) / np.maximum(
                margin_fraction + shortfall, SMALLEST_POSITIVE
            )
            variances += np.minimum(share, 1) ** 2 * margin_variance
        return variances

    def _codes_in(self, cells: Codes, columns: Attributes) -> tuple[Codes, ...]:
        """Return the codes of selected cells in some of the columns, as one array per column."""
        codes = np.unravel_index(cells, self.estimate.shape)
        return tuple(
            code for code, column in zip(codes, self.columns, strict=True) if column in columns
        )


def _mixture_interval(
    mixtures: Sequence[NormalMixture], estimate: Floats, level: float, noisy: NoisyFractions
) -> tuple[Floats, Floats]:
    """Return the ends of credible intervals for fractions, given their posteriors."""

    def posterior_interval(failure: float) -> tuple[Floats, Floats]:
        """Return the ends of the smallest interval that contains those of all posteriors."""
        ends = [_mixture_quantiles(mixture, failure, noisy.persons) for mixture in mixtures]
        return np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)

    failure = 1 - level
    low, high = posterior_interval(failure)
    is_compared = math.isclose(failure, DISAGREEMENT_FAILURE)
    compared = (low, high) if is_compared else posterior_interval(DISAGREEMENT_FAILURE)
    disagreement = find_disagreement(*compared, estimate, noisy)
    return cap_by_noisy_interval(
        low, high, estimate, noisy=noisy, failure=failure, disagreement=disagreement
    )


def _mixture_quantiles(
    mixture: NormalMixture, failure: float, persons: float | Floats
) -> tuple[Floats, Floats]:
    """Return the quantiles of fractions at `failure` / 2 and 1 - `failure` / 2.

    The variances include the sampling of the private persons.
    """

    def variance(fraction: Floats) -> Floats:
        """Return the variances of the components, given candidate values of the true fractions."""
        sampling_variance = fraction * (1 - fraction) / persons
        return mixture.noise + mixture.prior * fraction + sampling_variance

    # Below the mean, the variance at the mean is used, since a cell may be empty and its prior has
    # the heavy lower tail of a gamma distribution. q (1 - q) is largest at 0.5.
    center = np.clip(mixture.means, 0, 0.5)
    low = mixture.quantile(failure / 2, lambda fraction: variance(np.maximum(fraction, center)))
    high = mixture.quantile(1 - failure / 2, lambda fraction: variance(np.maximum(fraction, 0)))
    return low, high


def _blocks(n_cells: int) -> Iterator[Codes]:
    """Yield the cell indices from 0 to n_cells - 1 in arrays of up to `CELL_BLOCK` indices."""
    for start in range(0, n_cells, CELL_BLOCK):
        yield np.arange(start, min(start + CELL_BLOCK, n_cells))


def table_posteriors(
    tables_by_width: Mapping[int, Sequence[MarginalEstimate]],
    effective_size: Mapping[int, float],
    sizes: Mapping[int, EffectiveSizePosterior],
    *,
    is_shifted: bool,
) -> dict[Attributes, TablePosterior]:
    """Return the posteriors of all tables of a fitted `MarginalModel`, by columns.

    The tables are grouped by number of columns in increasing order, since each posterior refers to
    the posteriors of the margins.
    """
    posteriors: dict[Attributes, TablePosterior] = {}
    for width, tables in tables_by_width.items():
        batches = [_cell_batch(table) for table in tables]
        scales = scales_without_public = None
        if width > 1:
            all_cells = CellBatch(*map(np.concatenate, zip(*batches, strict=True)))
            n_cells = np.array([len(batch.independence_estimate) for batch in batches])
            starts = np.cumsum(n_cells) - n_cells
            scales = table_scales(all_cells, starts, effective_size[width], width).T
            if is_shifted:
                scales_without_public = table_scales(all_cells, starts, 0.0, width).T
        for i, table in enumerate(tables):
            posteriors[table.columns] = TablePosterior(
                columns=table.columns,
                cells=batches[i],
                estimate=table.estimate,
                effective_size=effective_size[width],
                sizes=sizes[width],
                scales=None if scales is None else scales[i],
                margins=[posteriors[margin.columns] for margin in table.submarginals],
                is_shifted=is_shifted,
                scales_without_public=(
                    None if scales_without_public is None else scales_without_public[i]
                ),
            )
    return posteriors


def _cell_batch(table: MarginalEstimate) -> CellBatch:
    """Return the cells of a fitted table as flat arrays in C order.

    A single column has no margins. The variance of a fraction q in a single column is therefore
    proportional to q (1 - q), as in a binomial distribution, and the values are the measured
    values.
    """
    is_single_column = len(table.columns) == 1
    if is_single_column:
        max_fraction = np.maximum(table.estimate, table.prior)
        unexplained_share = np.maximum(1 - max_fraction, MIN_UNEXPLAINED_SHARE)
    else:
        unexplained_share = table.unexplained_share
    batch = CellBatch(
        independence_estimate=np.maximum(table.independence_estimate, MIN_INDEPENDENCE_ESTIMATE),
        public=table.public,
        unexplained_share=unexplained_share,
        values=table.values if is_single_column else table.public + table.residual(),
        precisions=table.precisions,
        residual_noise_share=np.array(1.0 if is_single_column else table.residual_noise_share),
    )
    return CellBatch(*(np.broadcast_to(array, table.shape).ravel() for array in batch))
