"""Boosting with additive models, which are fitted to noisy histograms, and exactly drawn trees."""

from skpublicdp.boosting.classifier import SemiPrivateBoostingClassifier
from skpublicdp.boosting.regressor import SemiPrivateBoostingRegressor

__all__ = ["SemiPrivateBoostingClassifier", "SemiPrivateBoostingRegressor"]
