"""Hierarchical estimate of all marginals of a workload from noisy tables and public rows.

Tables are estimated by increasing number of columns, each given the estimates of its margins. Only
released and public numbers enter. All values are fractions, and a precision is an inverse variance.
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
from skpublicdp.query_release.marginals.ipf import (
    MAX_IPF_SWEEPS,
    SMALLEST_POSITIVE,
    fit_with_fixed_margins,
    ipf,
)
from skpublicdp.query_release.marginals.priors import (
    rake_public_tables,
    set_independence_estimates,
    set_shrunk_priors,
    set_single_column_priors,
    shift_variance_scale,
)
from skpublicdp.query_release.marginals.table import (
    MIN_PRECISION,
    MIN_UNEXPLAINED_SHARE,
    MarginalEstimate,
    UnconstrainedEstimate,
    largest_shares,
    solvable_groups,
    stack_margins,
)
from skpublicdp.typing import Floats

DOMINANT_SHARE = 0.5
"""A cell with a larger share of the prior variance along an axis is dominant. The other cells vary
less and would have to compensate its deviation."""

MAX_RELATIVE_NOISE = 0.3
"""Maximum ratio of noise to prior variance of a dominant cell that moves the other priors."""

COMMON_PRIOR_WEIGHT = 0.1
"""Prior weight against a common deviation of all cells, relative to the weight against a deviation
of a single cell."""

NON_DOMINANT_WEIGHT = 1e-3
"""Relative weight of the measurements of cells that are not dominant."""

MIN_EFFECTIVE_SIZE = 1e-9
"""Lower bound of the effective public sample size."""


class MarginalModel:
    """Estimates of all tables of a workload and of their margins.

    Parameters
    ----------
    public : ndarray of int, shape (n_public, n_columns)
        Codes of the public rows; may be empty.
    sizes : tuple of int
        Number of codes of each column.
    workload : iterable of tuple of int
        Columns of each table.
    n_private : float
        Number of private persons, which determines the sampling error.
    trust : "auto" or float
        Effective public sample size, or "auto" to estimate it from the noisy answers.

    Attributes
    ----------
    tables : dict of tuple of int to MarginalEstimate
        The tables and all of their margins, by columns.
    effective_public_size : dict of int to float
        Effective public sample size in private rows, by number of columns of a table.
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
        self._tables_by_width = defaultdict(list)
        for columns, table in self.tables.items():
            self._link_margins(table)
            self._tables_by_width[len(columns)].append(table)
        self.effective_public_size: dict[int, float] = {}
        self._effective_sizes: dict[int, EffectiveSizePosterior] = {}

    def fit(self) -> None:
        """Estimate all tables from the measurements so far."""
        for width, tables in self._tables_by_width.items():
            self._fit_independence_estimates(tables)
            size, posterior = self._estimate_effective_size(tables)
            self.effective_public_size[width], self._effective_sizes[width] = size, posterior
            if width == 1:
                ratios = set_single_column_priors(tables, size)
            else:
                ratios = set_shrunk_priors(tables, size)
            _estimate_tables(tables, ratios)

    def make_consistent(self) -> None:
        """Make tables consistent: pool each marginal over the tables containing it, then fit."""
        unconstrained = {columns: table.unconstrained() for columns, table in self.tables.items()}
        for tables in self._tables_by_width.values():
            for group in solvable_groups(tables):
                means = np.stack([_pooled_margin(table, unconstrained) for table in group])
                consistent = _nearest_consistent(
                    means, [unconstrained[table.columns] for table in group], stack_margins(group)
                )
                for table, fractions in zip(group, consistent, strict=True):
                    table.fractions = fractions

    def posteriors(self) -> dict[Attributes, TablePosterior]:
        """Return the posteriors of all tables, from which intervals are computed."""
        return table_posteriors(
            self._tables_by_width, self.effective_public_size, self._effective_sizes
        )

    def _link_margins(self, table: MarginalEstimate) -> None:
        """Link a table to the tables of all proper subsets of its columns."""
        columns = table.columns
        for width in range(1, len(columns)):
            for margin_columns in itertools.combinations(columns, width):
                margin = self.tables[margin_columns]
                table.submarginals.append(margin)
                margin.supermarginals.append(table)
        if len(columns) > 1:
            table.parents = [
                self.tables[columns[:axis] + columns[axis + 1 :]] for axis in range(len(columns))
            ]

    def _fit_independence_estimates(self, tables: Sequence[MarginalEstimate]) -> None:
        """Set measurements, independence estimates and raked public fractions of tables.

        All tables have the same number of columns, and their margins have been estimated.
        """
        for table in tables:
            self._pool_measurements(table)
        for group in solvable_groups(tables):
            set_independence_estimates(group)
        for table in tables:
            table.public = self._count_public(table)
        n_public = len(self._public)
        if n_public and tables[0].parents:
            for group in solvable_groups(tables):
                rake_public_tables(group, float(n_public))

    def _pool_measurements(self, table: MarginalEstimate) -> None:
        """Pool the table's measurement with the projections of wider tables, by precision."""
        weighted_sum = table.precision * table.measured
        precisions = np.full(table.shape, table.precision)
        for wider in table.supermarginals:
            if wider.precision:
                projected = wider.project_measurement(table)
                weighted_sum = weighted_sum + projected.precisions * projected.values
                precisions = precisions + projected.precisions
        table.values = np.divide(
            weighted_sum, precisions, out=np.zeros(table.shape), where=precisions > 0
        )
        table.precisions = precisions

    def _count_public(self, table: MarginalEstimate) -> Floats:
        """Return the fraction of public rows in each cell.

        Without public rows, this is the independence estimate.
        """
        if not len(self._public):
            return table.independence_estimate
        cell = ravel_codes(self._public, table.columns, self._sizes)
        counts = np.bincount(cell, minlength=math.prod(table.shape))
        fractions: Floats = counts.reshape(table.shape) / len(cell)
        return fractions

    def _estimate_effective_size(
        self, tables: Sequence[MarginalEstimate]
    ) -> tuple[float, EffectiveSizePosterior]:
        """Return the effective public sample size of tables of one width, and its posterior."""
        n_public = float(len(self._public))
        if not n_public:
            return 0.0, point_mass_size(0.0)
        if self.trust is not None:
            trusted_size = min(max(self.trust, MIN_EFFECTIVE_SIZE), n_public)
            return trusted_size, point_mass_size(trusted_size)
        base_variance = 1 / n_public + 1 / self.n_private
        squared_gaps, scales, noises, weights = [], [], [], []
        for table in tables:
            # margins determine the cells of a table with a column of one code
            is_informative = (table.precisions > 0) & (table.residual_noise_share > 0)
            squared_gaps.append(table.residual()[is_informative] ** 2)
            scales.append(shift_variance_scale(table, n_public)[is_informative])
            noises.append(table.residual_noise_share / table.precisions[is_informative])
            # margins fix the other degrees of freedom
            weights.append(np.full(len(scales[-1]), table.residual_noise_share))
        squared_gap, scale, noise, weight = map(
            np.concatenate, (squared_gaps, scales, noises, weights)
        )
        evidence = squared_gap, scale, noise, base_variance, weight
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
    table: MarginalEstimate, unconstrained: Mapping[Attributes, UnconstrainedEstimate]
) -> Floats:
    """Return the precision-weighted mean of a table and of the sums of wider tables."""
    weighted_sum: Floats = np.zeros(table.shape)
    precision: Floats = np.zeros(table.shape)
    for source in (table, *table.supermarginals):
        axes = source.axes_without(table.columns)
        estimate = unconstrained[source.columns]
        source_precision = 1 / estimate.variances().sum(axis=axes)
        weighted_sum = weighted_sum + source_precision * estimate.fractions.sum(axis=axes)
        precision = precision + source_precision
    return weighted_sum / precision


def _nearest_consistent(
    means: Floats, unconstrained: Sequence[UnconstrainedEstimate], margins: Sequence[Floats]
) -> Floats:
    """Return the tables with given margins that are nearest to the means, by posterior precision.

    `fit_with_fixed_margins` takes the means both as prior and as values. Its curvature in a cell is
    then the posterior precision 1/prior + 1/noise, and no cell becomes negative. Unmeasured tables
    are fitted by iterative proportional fitting.
    """
    _, prior, noise = map(np.stack, zip(*unconstrained, strict=True))
    if noise.min() >= 1 / MIN_PRECISION:
        return ipf(means, margins, MAX_IPF_SWEEPS)
    return fit_with_fixed_margins(means, means * noise / prior, means, 1 / noise, margins)


def _estimate_tables(tables: Sequence[MarginalEstimate], ratios: Sequence[Floats]) -> None:
    """Estimate tables of one width given their margins, and set their variances.

    Parameters
    ----------
    tables : sequence of MarginalEstimate
        Tables with priors and pooled measurements.
    ratios : sequence of ndarray
        Weights of the priors of each table relative to the measurements.
    """
    index_of = {id(table): i for i, table in enumerate(tables)}
    for group in solvable_groups(tables):
        prior = np.stack([table.prior for table in group])
        margins = stack_margins(group)
        is_measured = group[0].precisions.flat[0] > 0
        if is_measured:
            ratio = np.stack([ratios[index_of[id(table)]] for table in group])
            values = np.stack([table.values for table in group])
            precisions = np.stack([table.precisions for table in group])
            if group[0].parents:
                prior_variance = np.stack(
                    [
                        table.prior_variance_factor * table.prior * table.unexplained_share
                        for table in group
                    ]
                )
                prior = _follow_dominant_cells(
                    prior, prior_variance, ratio, values, precisions, margins
                )
            estimates = fit_with_fixed_margins(prior, ratio, values, precisions, margins)
        else:
            estimates = ipf(prior, margins, MAX_IPF_SWEEPS)
        for table, fractions in zip(group, estimates, strict=True):
            table.fractions = fractions
            _set_deviation_variances(table, fractions)


def _set_deviation_variances(table: MarginalEstimate, fractions: Floats) -> None:
    """Set prior and posterior variance of a table's deviations from its margins."""
    if not table.parents:
        table.unexplained_share = np.maximum(1 - fractions, MIN_UNEXPLAINED_SHARE)
    # noise may push an estimate below its prior, which does not reduce its uncertainty
    fractions = np.maximum(fractions, table.prior)
    prior_variance = table.prior_variance_factor * fractions * table.unexplained_share
    table.deviation_prior_variance = np.maximum(prior_variance, 1e-30)
    posterior_precision = 1 / table.deviation_prior_variance + table.precisions
    table.deviation_posterior_variance = 1 / posterior_precision


def _follow_dominant_cells(
    prior: Floats,
    prior_variance: Floats,
    ratio: Floats,
    values: Floats,
    precisions: Floats,
    margins: Sequence[Floats],
) -> Floats:
    """Return priors that follow the measurements of dominant cells.

    Priors treat the deviations of cells as independent. If two columns exclude each other, a block
    of cells is empty although the product of its margins is large, and all priors in the block err
    in the same direction. Common deviations are therefore estimated first, from the dominant cells
    alone and with less weight on the priors.

    Parameters
    ----------
    prior, prior_variance : ndarray of shape (n_tables, ...)
        Prior mean and variance of each cell.
    ratio, values, precisions, margins
        As in `fit_with_fixed_margins`.

    Returns
    -------
    ndarray of shape (n_tables, ...)
        Prior means.
    """
    shares = np.stack([largest_shares(variance) for variance in prior_variance])
    is_dominant = shares > DOMINANT_SHARE
    is_dominant &= 1 / precisions < MAX_RELATIVE_NOISE * prior_variance
    affected = np.flatnonzero(is_dominant.any(axis=tuple(range(1, is_dominant.ndim))))
    if len(affected):
        relative_precision = np.where(is_dominant[affected], 1, NON_DOMINANT_WEIGHT)
        prior = prior.copy()
        prior[affected] = fit_with_fixed_margins(
            prior[affected],
            COMMON_PRIOR_WEIGHT * ratio[affected] / relative_precision,
            values[affected],
            precisions[affected] * relative_precision,
            [margin[affected] for margin in margins],
        )
    return np.maximum(prior, SMALLEST_POSITIVE)
