"""Boosting: additive models fitted to noisy histograms, and trees drawn exactly."""

from skpublicdp.boosting.classifier import SemiPrivateBoostingClassifier
from skpublicdp.boosting.regressor import SemiPrivateBoostingRegressor

__all__ = ["SemiPrivateBoostingClassifier", "SemiPrivateBoostingRegressor"]
