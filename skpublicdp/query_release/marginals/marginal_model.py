"""Hierarchical estimate of all marginals of a workload from noisy tables and public rows.

Tables are estimated by increasing number of columns, each given its margins. Only released and
public numbers enter. All values are fractions, and a precision is an inverse variance.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from skpublicdp.query_release.effective_sizes import (
    EffectiveSizePosterior,
    effective_sample_size,
    effective_size_posterior,
    point_mass_size,
)
from skpublicdp.query_release.marginals.count import Attributes, ravel_codes
from skpublicdp.query_release.marginals.intervals import TablePosterior, table_posteriors
from skpublicdp.query_release.marginals.ipf import SMALLEST_POSITIVE, fit_with_fixed_margins, ipf
from skpublicdp.query_release.marginals.shrinkage import CellBatch, shrink_to_margins
from skpublicdp.query_release.marginals.table import (
    MIN_PRECISION,
    MarginalEstimate,
    UnconstrainedEstimate,
    largest_shares,
)
from skpublicdp.typing import Floats

MIN_UNEXPLAINED_SHARE = 1e-6
"""Margins never tell all of a cell."""

DOMINANT_SHARE = 0.5
"""A cell with a larger share of the prior variance along an axis is dominant. The other cells vary
less and would have to compensate its deviation."""

MAX_RELATIVE_NOISE = 0.3
"""Maximum ratio of noise to prior variance of a dominant cell that moves the other priors."""

COMMON_PRIOR_WEIGHT = 0.1
"""Prior weight against a common deviation, relative to the weight against one of a single cell."""

LEFT_OUT_WEIGHT = 1e-3
"""Relative weight of the measurements of cells that are not dominant."""

MIN_EFFECTIVE_SIZE = 1e-9
"""Lower bound of the effective public sample size."""


class MarginalModel:
    """Estimates of all tables of a workload and of their margins.

    Parameters
    ----------
    public : ndarray of int, shape (m, n_columns)
        Public rows, coded; there may be none.
    sizes : tuple of int
        Number of codes of each column.
    workload : iterable of tuple of int
        The tables.
    n_private : float
        Number of private persons, which determines the sampling error.
    trust : "auto" or float
        Effective public sample size, or "auto" to estimate it from the noisy answers.
    """

    def __init__(
        self,
        public: NDArray[np.integer],
        sizes: Attributes,
        workload: Iterable[Attributes],
        n_private: float,
        trust: str | float = "auto",
    ) -> None:
        self._public, self._sizes = public, sizes
        self.n_private = n_private
        self.trust = None if isinstance(trust, str) else float(trust)
        self.workload = tuple(workload)
        self.tables = {
            columns: MarginalEstimate(columns, tuple(sizes[column] for column in columns))
            for columns in downward_closure(self.workload)
        }
        for columns, table in self.tables.items():
            for width in range(1, len(columns)):
                below = [self.tables[each] for each in itertools.combinations(columns, width)]
                table.submarginals += below
                for other in below:
                    other.supermarginals.append(table)
            table.parents = [
                self.tables[columns[:axis] + columns[axis + 1 :]]
                for axis in range(len(columns))
                if len(columns) > 1
            ]
        self._orders = defaultdict(list)
        for columns, table in self.tables.items():
            self._orders[len(columns)].append(table)
        self.effective_public_size: dict[int, float] = {}
        """Effective public sample size in private rows, by the number of columns of a table."""
        self._effective_sizes: dict[int, EffectiveSizePosterior] = {}

    def fit(self) -> None:
        """Estimate all tables from the measurements so far."""
        m = float(len(self._public))
        for width, tables in self._orders.items():
            for table in tables:
                self._pool_measurements(table)
            for group in _solvable_groups(tables):
                _set_independence_estimates(group)
            for table in tables:
                table.public = self._count_public(table)
            if width > 1 and m:
                for group in _solvable_groups(tables):
                    _rake_public_tables(group, m)
            self.effective_public_size[width], self._effective_sizes[width] = (
                self._estimate_effective_size(tables, m)
            )
            if width == 1:
                for table in tables:  # one pseudo-row, spread evenly
                    table.prior_variance_factor = np.full(
                        table.shape, 1 / (1 + self.effective_public_size[1])
                    )
                    table.prior = table.independence_estimate + (
                        1 - table.prior_variance_factor
                    ) * (table.public - table.independence_estimate)
                    table.prior = np.maximum(table.prior, 1e-9)
                with np.errstate(divide="ignore"):  # infinite without a measurement
                    ratios = [
                        1 / (table.prior_variance_factor * table.precisions) for table in tables
                    ]
            else:
                ratios = _set_shrunk_priors(tables, self.effective_public_size[width])
            _estimate_tables(tables, ratios)

    def make_consistent(self) -> None:
        """Make tables consistent: pool each marginal over the tables containing it, then fit."""
        freed = {columns: table.unconstrained() for columns, table in self.tables.items()}
        for tables in self._orders.values():
            for group in _solvable_groups(tables):
                means = np.stack([_pooled_margin(table, freed) for table in group])
                agreed = _nearest_consistent(
                    means, [freed[table.columns] for table in group], _margins(group)
                )
                for table, fractions in zip(group, agreed, strict=True):
                    table.fractions = fractions

    def posteriors(self) -> dict[Attributes, TablePosterior]:
        """Return the posteriors of all tables, from which intervals are computed."""
        return table_posteriors(self._orders, self.effective_public_size, self._effective_sizes)

    def _pool_measurements(self, table: MarginalEstimate) -> None:
        """Pool the table's own measurement with the projections of wider tables, by precision."""
        total = table.precision * table.measured
        precisions = np.full(table.shape, table.precision)
        for other in table.supermarginals:
            if other.precision:
                values, precision = other.project_measurement(table)
                total, precisions = total + precision * values, precisions + precision
        table.values = np.divide(total, precisions, out=np.zeros(table.shape), where=precisions > 0)
        table.precisions = precisions

    def _count_public(self, table: MarginalEstimate) -> Floats:
        if not len(self._public):
            return table.independence_estimate
        cell = ravel_codes(self._public, table.columns, self._sizes)
        counts = np.bincount(cell, minlength=math.prod(table.shape))
        fractions: Floats = counts.reshape(table.shape) / len(cell)
        return fractions

    def _estimate_effective_size(
        self, tables: Sequence[MarginalEstimate], m: float
    ) -> tuple[float, EffectiveSizePosterior]:
        """Return the effective public sample size and its posterior."""
        if not m:
            return 0.0, point_mass_size(0.0)
        if self.trust is not None:
            trusted = min(max(self.trust, MIN_EFFECTIVE_SIZE), m)
            return trusted, point_mass_size(trusted)
        base_variance = 1 / m + 1 / self.n_private
        errors, spreads, noises, weights = [], [], [], []
        for table in tables:
            is_informative = (table.precisions > 0) & (
                table.residual_noise_share > 0
            )  # otherwise margins determine the table
            errors.append(table.residual()[is_informative] ** 2)
            expected = table.independence_estimate
            if len(table.columns) == 1:
                expected = (table.public + np.maximum(table.values, 0)) / 2
                expected = np.maximum(expected, table.independence_estimate / (m + 1))
                expected = expected * np.maximum(1 - expected, MIN_UNEXPLAINED_SHARE)
            else:
                expected = np.maximum(expected, 1e-12) * table.unexplained_share
            spreads.append(expected[is_informative])
            noises.append(table.residual_noise_share / table.precisions[is_informative])
            weights.append(
                np.full(len(spreads[-1]), table.residual_noise_share)
            )  # margins fix the other errors
        error, spread, noise, weight = map(np.concatenate, (errors, spreads, noises, weights))
        evidence = error, spread, noise, base_variance, weight
        return effective_sample_size(*evidence), effective_size_posterior(*evidence)


def downward_closure(workload: Iterable[Attributes]) -> list[Attributes]:
    """Return the downward closure of a workload: all tables and margins, fewest columns first.

    Examples
    --------
    >>> downward_closure([(0, 2), (1,)])
    [(0,), (1,), (2,), (0, 2)]
    """
    tables = {
        margin
        for columns in workload
        for width in range(1, len(columns) + 1)
        for margin in itertools.combinations(columns, width)
    }
    return sorted(tables, key=lambda columns: (len(columns), columns))


def _pooled_margin(
    table: MarginalEstimate, freed: Mapping[Attributes, UnconstrainedEstimate]
) -> Floats:
    """Return the precision-weighted mean of a table and of the sums of wider tables to it."""
    total: Floats = np.zeros(table.shape)
    precision: Floats = np.zeros(table.shape)
    for other in (table, *table.supermarginals):
        axes = other.axes_without(table.columns)
        weights = 1 / freed[other.columns].variances().sum(axis=axes)
        total = total + weights * freed[other.columns].fractions.sum(axis=axes)
        precision = precision + weights
    return total / precision


def _nearest_consistent(
    means: Floats, freed: Sequence[UnconstrainedEstimate], margins: Sequence[Floats]
) -> Floats:
    """Return the tables with given margins that are nearest to the means, by posterior precision.

    `fit_with_fixed_margins` takes the means both as prior and as values. Its curvature in a cell is
    then the posterior precision 1/prior + 1/noise, and no cell becomes negative. Unmeasured tables
    are fitted by iterative proportional fitting.
    """
    _, prior, noise = map(np.stack, zip(*freed, strict=True))
    if noise.min() >= 1 / MIN_PRECISION:
        return ipf(means, margins, 50)
    return fit_with_fixed_margins(means, means * noise / prior, means, 1 / noise, margins)


def _solvable_groups(tables: Iterable[MarginalEstimate]) -> Iterable[list[MarginalEstimate]]:
    """Group tables of one shape, measured or not, which are solved as one batch."""
    groups = defaultdict(list)
    for table in tables:
        groups[table.shape, bool(table.precisions.flat[0] > 0)].append(table)
    return groups.values()


def _margins(group: Sequence[MarginalEstimate]) -> list[Floats]:
    return [np.stack(each) for each in zip(*(table.margins() for table in group), strict=True)]


def _set_independence_estimates(group: Sequence[MarginalEstimate]) -> None:
    """Set the maximum entropy table with the given margins, and the unexplained share."""
    width = len(group[0].columns)
    shape = (len(group), *group[0].shape)
    if width == 1:
        bases, unexplained = np.full(shape, 1 / shape[1]), np.full(shape, 1 - 1 / shape[1])
    else:
        bases, unexplained = np.ones(shape), np.ones(shape)
        for axis in range(width):
            one_way = np.stack(
                [
                    table.submarginals[axis].estimate.reshape(
                        table.broadcast_shape(table.submarginals[axis])
                    )
                    for table in group
                ]
            )
            bases, unexplained = bases * one_way, unexplained * (1 - one_way)
        if width > 2:
            bases = ipf(np.ones(shape), _margins(group), 50)
    for table, base, share in zip(group, bases, unexplained, strict=True):
        table.independence_estimate, table.unexplained_share = (
            base,
            np.maximum(share, MIN_UNEXPLAINED_SHARE),
        )


def _rake_public_tables(group: Sequence[MarginalEstimate], m: float) -> None:
    """Rake the public tables to the estimated margins; a pseudo-row is spread by independence."""
    tables = np.stack(
        [(m * table.public + table.independence_estimate) / (m + 1) for table in group]
    )
    for table, moved in zip(group, ipf(tables, _margins(group), 50), strict=True):
        table.public = moved


def _set_shrunk_priors(tables: Sequence[MarginalEstimate], effective_size: float) -> list[Floats]:
    """Set the prior of each cell by empirical Bayes shrinkage to its independence estimate."""
    batch = CellBatch(
        independence_estimate=_concatenated(tables, "independence_estimate"),
        public=_concatenated(tables, "public"),
        unexplained_share=_concatenated(tables, "unexplained_share"),
        values=np.concatenate([(t.public + t.residual()).ravel() for t in tables]),
        precisions=_concatenated(tables, "precisions"),
        residual_noise_share=np.repeat(
            [t.residual_noise_share for t in tables], [t.independence_estimate.size for t in tables]
        ),
    )
    starts = np.concatenate(
        [[0], np.cumsum([table.independence_estimate.size for table in tables])]
    )
    prior, loose, ratio = shrink_to_margins(batch, starts[:-1], effective_size)
    ratios = []
    for table, start, end in zip(tables, starts[:-1], starts[1:], strict=True):
        table.prior = prior[start:end].reshape(table.shape)
        table.prior_variance_factor = loose[start:end].reshape(table.shape)
        ratios.append(ratio[start:end].reshape(table.shape))
    return ratios


def _concatenated(tables: Sequence[MarginalEstimate], name: str) -> Floats:
    return np.concatenate([getattr(table, name).ravel() for table in tables])


def _estimate_tables(tables: Sequence[MarginalEstimate], ratios: Sequence[Floats]) -> None:
    position_of = {id(table): position for position, table in enumerate(tables)}
    for group in _solvable_groups(tables):
        prior = np.stack([table.prior for table in group])
        margins = _margins(group)
        if group[0].precisions.flat[0] > 0:
            ratio = np.stack([ratios[position_of[id(table)]] for table in group])
            values = np.stack([table.values for table in group])
            precisions = np.stack([table.precisions for table in group])
            if group[0].parents:
                spread = np.stack(
                    [
                        table.prior_variance_factor * table.prior * table.unexplained_share
                        for table in group
                    ]
                )
                prior = _follow_dominant_cells(prior, spread, ratio, values, precisions, margins)
            estimates = fit_with_fixed_margins(prior, ratio, values, precisions, margins)
        else:
            estimates = ipf(prior, margins, 50)
        for table, fractions in zip(group, estimates, strict=True):
            table.fractions = fractions
            if not table.parents:
                table.unexplained_share = np.maximum(1 - fractions, MIN_UNEXPLAINED_SHARE)
            # noise may push an estimate below its prior, which does not reduce its uncertainty
            likely = np.maximum(fractions, table.prior)
            table.own_prior_variance = np.maximum(
                table.prior_variance_factor * likely * table.unexplained_share, 1e-30
            )
            table.own_posterior_variance = 1 / (1 / table.own_prior_variance + table.precisions)


def _follow_dominant_cells(
    prior: Floats,
    prior_variance: Floats,
    ratio: Floats,
    values: Floats,
    precisions: Floats,
    margins: Sequence[Floats],
) -> Floats:
    """Return priors that follow the measurements of dominant cells.

    Priors treat the deviations of cells as independent. Where two columns exclude each other, a
    block is empty although the product of margins gives it much mass, and all priors in it are
    wrong alike. Common deviations are therefore estimated first, from the dominant cells alone and
    with less weight on the priors. The arguments are those of `fit_with_fixed_margins`, and
    `prior_variance` has the prior variances.
    """
    dominant = np.stack([largest_shares(each) for each in prior_variance]) > DOMINANT_SHARE
    dominant &= 1 / precisions < MAX_RELATIVE_NOISE * prior_variance
    affected = np.flatnonzero(dominant.any(axis=tuple(range(1, dominant.ndim))))
    if len(affected):
        relative_precision = np.where(dominant[affected], 1, LEFT_OUT_WEIGHT)
        prior = prior.copy()
        prior[affected] = fit_with_fixed_margins(
            prior[affected],
            COMMON_PRIOR_WEIGHT * ratio[affected] / relative_precision,
            values[affected],
            precisions[affected] * relative_precision,
            [margin[affected] for margin in margins],
        )
    return np.maximum(prior, SMALLEST_POSITIVE)
