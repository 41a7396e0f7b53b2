"""Internal names of linear models that tests use."""

from skpublicdp.linear import linear_fit, row_encoder
from skpublicdp.linear.coefficient_covariance import ObservedSums, estimate_coefficients
from skpublicdp.linear.coefficient_posterior import (
    CoefficientPrior,
    CoefficientSums,
    PublicDesign,
    fit_labelled_rows,
    fit_posterior,
    misfit,
)
from skpublicdp.linear.design_columns import DesignColumns
from skpublicdp.linear.glm_loss import LogisticGLMLoss, SquaredGLMLoss
from skpublicdp.linear.linear_fit import LabelSums
from skpublicdp.linear.public_basis import energy_shares, expected_error, shrunk_covariance
from skpublicdp.linear.row_encoder import (
    CorrectionTerms,
    RowEncoder,
    correction_sensitivity,
    correction_sums,
    integer_coefficients,
    label_sum_sensitivity,
    label_sums,
    shorten,
)

__all__ = [
    "CoefficientPrior",
    "CoefficientSums",
    "CorrectionTerms",
    "DesignColumns",
    "LabelSums",
    "LogisticGLMLoss",
    "ObservedSums",
    "PublicDesign",
    "RowEncoder",
    "SquaredGLMLoss",
    "correction_sensitivity",
    "correction_sums",
    "energy_shares",
    "estimate_coefficients",
    "expected_error",
    "fit_labelled_rows",
    "fit_posterior",
    "integer_coefficients",
    "label_sum_sensitivity",
    "label_sums",
    "linear_fit",
    "misfit",
    "row_encoder",
    "shorten",
    "shrunk_covariance",
]
