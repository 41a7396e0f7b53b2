"""The theorems as functions of public numbers."""

from skpublicdp.guarantees.certificates import Certificate, excess_error, n_rounds
from skpublicdp.guarantees.growth import (
    cover_radius,
    growth_function,
    n_public,
    n_uniform,
    vc_dimension,
)
from skpublicdp.guarantees.sizes import (
    SampleSize,
    n_finite,
    n_generic_learner,
    n_label_boost,
    n_ppm,
    n_private,
    n_query_release,
    n_subsampling,
)

__all__ = [
    "Certificate",
    "SampleSize",
    "cover_radius",
    "excess_error",
    "growth_function",
    "n_finite",
    "n_generic_learner",
    "n_label_boost",
    "n_ppm",
    "n_private",
    "n_public",
    "n_query_release",
    "n_rounds",
    "n_subsampling",
    "n_uniform",
    "vc_dimension",
]
