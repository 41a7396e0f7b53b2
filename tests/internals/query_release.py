"""Internal names of query_release that tests use."""

from skpublicdp.query_release import mechanisms, synthetic
from skpublicdp.query_release.bounded_numbers import (
    UNITS,
    share_sensitivity,
    to_shares,
    to_units,
)
from skpublicdp.query_release.calibration import _rows_in_empty_cells, rake_to_margins
from skpublicdp.query_release.cdf.cdf_posterior import (
    NO_SHIFT,
    DistributionShift,
    StrategyMeasurement,
    least_squares,
    linearize,
)
from skpublicdp.query_release.cdf.grid import (
    PiecewiseLinearCDF,
    SortedColumn,
    build_grid,
    just_below,
)
from skpublicdp.query_release.cdf.release import posterior_cdf, public_prior_at_edges, release_cdf
from skpublicdp.query_release.cdf.released_cdf import path_length, simultaneous_factor
from skpublicdp.query_release.cdf.strategies import (
    INTERVAL_SENSITIVITY,
    REFINEMENT_SHARE,
    IntervalMasses,
    hierarchy_strategy,
    histogram_strategy,
    measure,
    prefix_strategy,
    project_to_simplex,
    refine_heavy_cells,
    split_at_decimals,
)
from skpublicdp.query_release.contrasts import Contrast, covariance, difference, ratio
from skpublicdp.query_release.discretize import (
    bin_labels,
    cuts_from_edges,
    describe_cells,
    max_bins,
)
from skpublicdp.query_release.effective_sizes import (
    effective_sample_size,
    effective_size_posterior,
    point_mass_size,
)
from skpublicdp.query_release.group_sums import CombinedMeans
from skpublicdp.query_release.marginals.collapse import collapse_posterior
from skpublicdp.query_release.marginals.count import (
    WEIGHT_UNITS,
    WeightColumn,
    WeightTotals,
    check_workload,
    marginal_tables,
    ravel_codes,
    release_weight_totals,
    weighted_sensitivity,
)
from skpublicdp.query_release.marginals.intervals import (
    LOG_SCALE_GRID,
    NormalMixture,
    cell_scales,
    table_scales,
)
from skpublicdp.query_release.marginals.marginal_model import (
    MarginalModel,
    _nearest_consistent,
    downward_closure,
)
from skpublicdp.query_release.marginals.noisy_fractions import (
    NoisyFractions,
    binomial_bounds,
    cap_by_noisy_interval,
    find_disagreement,
)
from skpublicdp.query_release.marginals.release import (
    MarginalRelease,
    _refine_total,
    _released_tables,
    _row_units,
    allocate_budget,
    release_marginals,
)
from skpublicdp.query_release.marginals.shrinkage import (
    DEVIATION_SCALES,
    CellBatch,
    shrink_to_margins,
)
from skpublicdp.query_release.marginals.table import (
    MarginalEstimate,
    TableMeasurement,
    UnconstrainedEstimate,
    fit_with_fixed_margins,
    ipf,
)
from skpublicdp.query_release.measured_sums import (
    BinnedMeans,
    MeasuredSum,
    SumColumn,
    combine_means,
    plan_sums,
    sum_shares,
)
from skpublicdp.query_release.mechanisms import _posterior, release_linear_queries
from skpublicdp.query_release.planning import (
    _expected_largest,
    _prefix_sum_noise,
    _Samples,
    _table_sizes,
)
from skpublicdp.query_release.pmw import release as pmw_release
from skpublicdp.query_release.pmw.cover import (
    BoxQueryCover,
    ExplicitCover,
    HalfspaceDichotomies,
    HalfspaceQueryCover,
    ProductCover,
    QuantileAxis,
    choose_points,
)
from skpublicdp.query_release.pmw.release import run_pmw
from skpublicdp.query_release.queries import geometric
from skpublicdp.query_release.synthetic import (
    check_constraints,
    draw_accepted_rows,
    satisfies,
    spread_weights,
    synthesize,
)
from skpublicdp.query_release.table_rounding import (
    complete_suppression,
    controlled_rounding,
    grades,
    largest_remainders,
)
