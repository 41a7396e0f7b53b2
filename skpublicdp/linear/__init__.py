"""Linear models, fitted to noisy sums of private rows along the principal axes of public rows."""

from skpublicdp.linear.linear_regression import SemiPrivateLinearRegression
from skpublicdp.linear.logistic_regression import SemiPrivateLogisticRegression

__all__ = ["SemiPrivateLinearRegression", "SemiPrivateLogisticRegression"]
