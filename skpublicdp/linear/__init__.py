"""Linear models, fitted to noisy sums of private rows along the principal axes of public rows."""

from skpublicdp.linear.classifier import SemiPrivateLogisticRegression
from skpublicdp.linear.regressor import SemiPrivateLinearRegression

__all__ = ["SemiPrivateLinearRegression", "SemiPrivateLogisticRegression"]
