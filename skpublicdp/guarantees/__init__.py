"""Error bounds and sample sizes, as functions of public numbers."""

from skpublicdp.guarantees.growth import (
    cover_radius,
    growth_function,
    n_public,
    n_uniform,
    vc_dimension,
)
from skpublicdp.guarantees.label_boost import BaseAccuracy, n_label_boost, n_subsampling
from skpublicdp.guarantees.lower_bounds import (
    n_active_lower,
    n_labelled_lower,
    n_public_lower,
    n_query_release_lower,
)
from skpublicdp.guarantees.population import (
    Certificate,
    Cuts,
    Promise,
    cuts_radius,
    dichotomies_radius,
    excess_error,
    finite_excess,
    n_rounds,
    sampling_error,
    uniform_error,
)
from skpublicdp.guarantees.ppm import (
    n_ppm,
    n_ppm_boxes,
    n_ppm_growing_boxes,
    n_ppm_growing_unions,
    n_ppm_paper,
)
from skpublicdp.guarantees.query_release import n_query_release, n_release_learner, n_stumps
from skpublicdp.guarantees.sample_size import (
    SampleSize,
    epsilon_finite,
    n_finite,
    n_generic_learner,
    n_private,
)
from skpublicdp.guarantees.sanitizer_bounds import (
    BLRSize,
    blr_error,
    n_blr_learner,
    n_quantile_learner,
    quantile_error,
)

__all__ = [
    "BLRSize",
    "BaseAccuracy",
    "Certificate",
    "Cuts",
    "Promise",
    "SampleSize",
    "blr_error",
    "cover_radius",
    "cuts_radius",
    "dichotomies_radius",
    "epsilon_finite",
    "excess_error",
    "finite_excess",
    "growth_function",
    "n_active_lower",
    "n_blr_learner",
    "n_finite",
    "n_generic_learner",
    "n_label_boost",
    "n_labelled_lower",
    "n_ppm",
    "n_ppm_boxes",
    "n_ppm_growing_boxes",
    "n_ppm_growing_unions",
    "n_ppm_paper",
    "n_private",
    "n_public",
    "n_public_lower",
    "n_quantile_learner",
    "n_query_release",
    "n_query_release_lower",
    "n_release_learner",
    "n_rounds",
    "n_stumps",
    "n_subsampling",
    "n_uniform",
    "quantile_error",
    "sampling_error",
    "uniform_error",
    "vc_dimension",
]
