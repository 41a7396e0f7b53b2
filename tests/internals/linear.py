"""Internal names of linear models that tests use."""

from skpublicdp.linear import linear_fit, row_encoder, softmax_rows
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
from skpublicdp.linear.glm_loss import LogisticGLMLoss, SoftmaxGLMLoss, SquaredGLMLoss
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
from skpublicdp.linear.softmax_fit import evidence_variances, fit_labelled_softmax
from skpublicdp.linear.softmax_rows import (
    ResidualTerms,
    class_sums,
    residual_sums,
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
    "ResidualTerms",
    "RowEncoder",
    "SoftmaxGLMLoss",
    "SquaredGLMLoss",
    "class_sums",
    "correction_sensitivity",
    "correction_sums",
    "energy_shares",
    "estimate_coefficients",
    "evidence_variances",
    "expected_error",
    "fit_labelled_rows",
    "fit_labelled_softmax",
    "fit_posterior",
    "integer_coefficients",
    "label_sum_sensitivity",
    "label_sums",
    "linear_fit",
    "misfit",
    "residual_sums",
    "row_encoder",
    "shorten",
    "shrunk_covariance",
    "softmax_rows",
]
