"""Hierarchical estimation of all workload marginals, using noisy tables and public rows.

Tables are estimated in order of increasing width (number of columns), given the estimates of their
margins. All inputs are released or public numbers. All values are fractions, and the precision of a
value is its inverse variance.
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
from skpublicdp.query_release.marginals.intervals import (
    MIN_VARIANCE,
    TablePosterior,
    table_posteriors,
)
from skpublicdp.query_release.marginals.shrinkage import (
    rake_public_tables,
    set_independence_estimates,
    set_shrunk_priors,
    set_single_column_priors,
    shift_variance_scale,
)
from skpublicdp.query_release.marginals.table import (
    MAX_IPF_SWEEPS,
    MIN_PRECISION,
    MIN_UNEXPLAINED_SHARE,
    SMALLEST_POSITIVE,
    MarginalEstimate,
    TableMeasurement,
    UnconstrainedEstimate,
    fit_with_fixed_margins,
    ipf,
    largest_shares,
    solvable_groups,
    stack_margins,
    stack_possible,
)
from skpublicdp.query_release.marginals.zeros import (
    Zeros,
    possible_cells,
    reconcile,
    residual_noise_share,
)
from skpublicdp.query_release.ratios import ratios
from skpublicdp.typing import Floats, Mask

DOMINANT_SHARE = 0.5
"""Share of the prior variance along an axis above which a cell is dominant. If a dominant cell
deviates, the other cells along the axis, which vary less, must compensate for it."""

MAX_RELATIVE_NOISE = 0.3
"""Maximum ratio of noise variance to prior variance at which a dominant cell shifts the other
priors."""

COMMON_PRIOR_WEIGHT = 0.1
"""Prior weight against a deviation common to all cells, relative to the weight against a deviation
of a single cell."""

NON_DOMINANT_WEIGHT = 1e-3
"""Relative weight of measurements of non-dominant cells."""

MAX_SHIFTED_SIZE = 0.5
"""Effective public sample size, relative to its value without a shift, below which the measurements
are considered to show a shift. Intervals then also allow for worthless public rows."""

MIN_EFFECTIVE_SIZE = 1e-9
"""Lower bound on the effective public sample size."""


class MarginalModel:
    """Bayesian estimates of all marginal tables in a workload and of their margins.

    After each round, the noisy tables are passed to `update`, which estimates all tables. Finally,
    `make_consistent` makes all tables agree on shared columns.
    """

    def __init__(
        self,
        public: NDArray[np.integer],  # codes (n_public, n_columns), or no rows
        sizes: Attributes,  # number of codes of each column
        workload: Iterable[Attributes],
        n_private: float,  # number of persons, which determines the sampling error
        trust: str | float = "auto",  # effective public sample size, or "auto" to estimate it
        zeros: Zeros | None = None,
    ) -> None:
        self._public, self._sizes = public, sizes
        self.n_private = n_private
        self.trust = None if isinstance(trust, str) else float(trust)
        self.workload = tuple(workload)
        # the tables and all of their margins
        self.tables = {
            columns: MarginalEstimate(columns, tuple(sizes[column] for column in columns))
            for columns in downward_closure(self.workload)
        }
        self._tables_by_width = defaultdict(list)
        for columns, table in self.tables.items():
            table.possible = possible_cells(zeros or {}, columns, table.shape)
            if table.possible is not None:
                table.residual_noise_share = residual_noise_share(table)
            self._link_margins(table)
            self._tables_by_width[len(columns)].append(table)
        # in private rows, by number of columns of a table
        self.effective_public_size: dict[int, float] = {}
        self._effective_sizes: dict[int, EffectiveSizePosterior] = {}

    def update(self, measurements: Mapping[Attributes, TableMeasurement]) -> None:
        """Add new noisy tables to those from earlier rounds, and re-estimate all tables."""
        for columns, measurement in measurements.items():
            self.tables[columns].add(measurement.values, 1 / measurement.variance)
        self.fit()

    def fit(self) -> None:
        """Estimate all tables from all measurements so far, in order of increasing width."""
        for width, tables in self._tables_by_width.items():
            self._fit_independence_estimates(tables)
            size, posterior = self._estimate_effective_size(tables)
            self.effective_public_size[width] = size
            self._effective_sizes[width] = posterior
            set_priors = set_single_column_priors if width == 1 else set_shrunk_priors
            ratios = set_priors(tables, size)
            ratio_of_columns = {t.columns: ratio for t, ratio in zip(tables, ratios, strict=True)}
            for group in solvable_groups(tables):
                ratio = np.stack([ratio_of_columns[table.columns] for table in group])
                for table, fractions in zip(group, _estimate_group(group, ratio), strict=True):
                    table.fractions = fractions
                    _set_deviation_variances(table, fractions)
            reconcile(self.tables, width)

    def make_consistent(self) -> None:
        """Make all tables agree on shared columns.

        Each table is replaced by an average of this table and the sums of wider tables, and is then
        adjusted to agree with its margins.
        """
        unconstrained = {columns: table.unconstrained() for columns, table in self.tables.items()}
        for width, tables in self._tables_by_width.items():
            for group in solvable_groups(tables):
                means = np.stack([_pooled_margin(table, unconstrained) for table in group])
                consistent = _nearest_consistent(
                    means,
                    [unconstrained[table.columns] for table in group],
                    stack_margins(group),
                    stack_possible(group),
                )
                for table, fractions in zip(group, consistent, strict=True):
                    table.fractions = fractions
            reconcile(self.tables, width)

    def posteriors(self) -> dict[Attributes, TablePosterior]:
        """Return the posteriors of all tables, which determine the intervals."""
        # with `trust`, the user has decided how many private rows the public rows are worth
        is_shifted = False
        if self.trust is None and len(self._public):
            size_without_shift = 1 / (1 / len(self._public) + 1 / self.n_private)
            smallest_size = min(self.effective_public_size.values())
            is_shifted = smallest_size < MAX_SHIFTED_SIZE * size_without_shift
        return table_posteriors(
            self._tables_by_width,
            self.effective_public_size,
            self._effective_sizes,
            is_shifted=is_shifted,
        )

    def _link_margins(self, table: MarginalEstimate) -> None:
        """Link a table to its margins, i.e. the tables over all proper subsets of its columns."""
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
        """Set the pooled measurements, independence estimates and raked public fractions.

        The attributes of the given tables are changed in place. All tables must have the same
        number of columns, and their margins must have been estimated before.
        """
        for table in tables:
            self._pool_measurements(table)
        for group in solvable_groups(tables):
            set_independence_estimates(group)
        n_public = len(self._public)
        if not n_public:
            for table in tables:
                table.public = table.independence_estimate
            return
        for table in tables:
            cell = ravel_codes(self._public, table.columns, self._sizes)
            counts = np.bincount(cell, minlength=math.prod(table.shape))
            table.public = table.on_possible(counts.reshape(table.shape) / n_public)
        if tables[0].parents:
            for group in solvable_groups(tables):
                rake_public_tables(group, float(n_public))

    def _pool_measurements(self, table: MarginalEstimate) -> None:
        """Set a table's `values` and `precisions`, pooling it with wider tables' measurements.

        A wider table, summed over its other columns, is also a measurement of this table. All
        measurements are weighted by precision.
        """
        weighted_sum = table.precision * table.measured
        precisions = np.full(table.shape, table.precision)
        for wider in table.supermarginals:
            if wider.precision:
                projection, projection_precisions = wider.project_measurement(table)
                weighted_sum = weighted_sum + projection_precisions * projection
                precisions = precisions + projection_precisions
        table.values = ratios(weighted_sum, precisions)
        table.precisions = precisions

    def _estimate_effective_size(
        self, tables: Sequence[MarginalEstimate]
    ) -> tuple[float, EffectiveSizePosterior]:
        """Return the effective public sample size for tables of one width, and its posterior.

        The size is estimated from the squared differences between measured and public fractions
        that exceed noise and sampling errors. If `trust` is a number, it replaces the estimate.
        """
        n_public = float(len(self._public))
        if not n_public:
            return 0.0, point_mass_size(0.0)
        if self.trust is not None:
            trusted_size = min(max(self.trust, MIN_EFFECTIVE_SIZE), n_public)
            return trusted_size, point_mass_size(trusted_size)
        base_variance = 1 / n_public + 1 / self.n_private
        squared_differences, variances_per_shift, noise_variances, degrees_of_freedom = (
            np.concatenate(arrays)
            for arrays in zip(*(_shift_evidence(table, n_public) for table in tables), strict=True)
        )
        evidence = (
            squared_differences,
            variances_per_shift,
            noise_variances,
            base_variance,
            degrees_of_freedom,
        )
        return effective_sample_size(*evidence), effective_size_posterior(*evidence)


def _shift_evidence(
    table: MarginalEstimate, n_public: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the arguments of `effective_sample_size` for the measured cells of a table.

    These are the squared differences between measured and public fractions without the effects of
    all margins, their variances per unit of shift variance, their noise variances, and their
    degrees of freedom. The remaining degrees of freedom are fixed by the margins.
    """
    # if a column has a single code, margins determine the table and no cell is free
    noise_share = table.residual_noise_share
    is_informative = (table.precisions > 0) & (noise_share > 0)
    squared_differences = table.residual()[is_informative] ** 2
    variances_per_shift = shift_variance_scale(table, n_public)[is_informative]
    noise_variances = noise_share / table.precisions[is_informative]
    degrees_of_freedom = np.full(len(variances_per_shift), noise_share)
    return squared_differences, variances_per_shift, noise_variances, degrees_of_freedom


def downward_closure(workload: Iterable[Attributes]) -> list[Attributes]:
    """Return the downward closure of a workload: all tables and margins, narrowest first.

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
    """Return the precision-weighted mean of a table's estimate and the sums of wider estimates."""
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
    means: Floats,
    unconstrained: Sequence[UnconstrainedEstimate],
    margins: Sequence[Floats],
    possible: Mask | None = None,
) -> Floats:
    """Return the tables with given margins that are nearest to given fractions.

    The fractions are passed to `fit_with_fixed_margins` both as prior and as values. As a result,
    the distance is weighted by the posterior precision 1/prior + 1/noise, and no cell becomes
    negative. Unmeasured tables are fitted by iterative proportional fitting.
    """
    _, prior, noise = map(np.stack, zip(*unconstrained, strict=True))
    if noise.min() >= 1 / MIN_PRECISION:
        return ipf(means, margins, MAX_IPF_SWEEPS)
    return fit_with_fixed_margins(
        means,
        means * noise / prior,
        means,
        precisions=1 / noise,
        margins=margins,
        possible=possible,
    )


def _estimate_group(group: Sequence[MarginalEstimate], ratio: Floats) -> Floats:
    """Return the estimated fractions of tables of equal shape, either all measured or none."""
    prior = np.stack([table.prior for table in group])
    margins, possible = stack_margins(group), stack_possible(group)
    is_measured = group[0].precisions.flat[0] > 0
    if not is_measured:
        return ipf(prior, margins, MAX_IPF_SWEEPS)
    values = np.stack([table.values for table in group])
    precisions = np.stack([table.precisions for table in group])
    if group[0].parents:
        prior_variances = [
            table.prior_variance_factor * table.prior * table.unexplained_share for table in group
        ]
        prior = _follow_dominant_cells(
            prior,
            np.stack(prior_variances),
            ratio,
            values=values,
            precisions=precisions,
            margins=margins,
            possible=possible,
        )
    return fit_with_fixed_margins(
        prior, ratio, values, precisions=precisions, margins=margins, possible=possible
    )


def _set_deviation_variances(table: MarginalEstimate, fractions: Floats) -> None:
    """Set the prior and posterior variances of a table's cells, assuming exact margins."""
    if not table.parents:  # single column: Var(q) is proportional to q (1 - q)
        table.unexplained_share = np.maximum(1 - fractions, MIN_UNEXPLAINED_SHARE)
    # an estimate below its prior because of noise is no less uncertain
    fractions = np.maximum(fractions, table.prior)
    prior_variance = table.prior_variance_factor * fractions * table.unexplained_share
    table.deviation_prior_variance = np.maximum(prior_variance, MIN_VARIANCE)
    posterior_precision = 1 / table.deviation_prior_variance + table.precisions
    table.deviation_posterior_variance = 1 / posterior_precision


def _follow_dominant_cells(
    prior: Floats,
    prior_variance: Floats,
    ratio: Floats,
    values: Floats,
    precisions: Floats,
    margins: Sequence[Floats],
    possible: Mask | None,
) -> Floats:
    """Return priors, adjusted to the measurements of dominant cells (see `DOMINANT_SHARE`).

    The priors treat deviations in different cells as independent. If two columns exclude each
    other, a block of cells is empty although the product of its margins is large. In this case, all
    priors in the block err in the same direction. Therefore, common deviations are estimated first,
    mainly from precisely measured dominant cells, with less weight on the priors.
    """
    shares = np.stack([largest_shares(variance) for variance in prior_variance])
    is_dominant = shares > DOMINANT_SHARE
    is_dominant &= 1 / precisions < MAX_RELATIVE_NOISE * prior_variance
    # indices of the tables with a dominant cell
    affected = np.flatnonzero(is_dominant.reshape(len(is_dominant), -1).any(axis=1))
    if len(affected):
        relative_precision = np.where(is_dominant[affected], 1, NON_DOMINANT_WEIGHT)
        prior = prior.copy()
        prior[affected] = fit_with_fixed_margins(
            prior[affected],
            COMMON_PRIOR_WEIGHT * ratio[affected] / relative_precision,
            values[affected],
            precisions=precisions[affected] * relative_precision,
            margins=[margin[affected] for margin in margins],
            possible=None if possible is None else possible[affected],
        )
    return np.maximum(prior, SMALLEST_POSITIVE)
