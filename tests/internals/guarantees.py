"""Internal names of guarantees that tests use."""

from skpublicdp.guarantees import lower_bounds
from skpublicdp.guarantees.label_boost import (
    LabellerDraw,
    labeller_error,
    n_labelled_paper,
    relative_deviation_bound,
)
from skpublicdp.guarantees.population import (
    _small_error_excess,
    _tilted_error,
    log_growth,
    population_share_bound,
    smallest_integer,
)
from skpublicdp.guarantees.ppm import (
    MAX_AXIS_HALFSPACES,
    ErrorCounts,
    cone_count,
    evaluated_guarantee,
    laplace_quantile,
    ppm_guarantee,
    support_loss,
    union_growth,
    upper_binomial_limit,
)
from skpublicdp.guarantees.sanitizer_bounds import (
    UNBOUNDED_PRIOR_RATIO,
    _max_laplace_sum,
    approximation_error,
    n_levels,
    n_multisets,
)
