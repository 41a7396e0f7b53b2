"""Boosting: noisy sums over public cells, and exactly drawn trees."""

from skpublicdp.boosting.classifier import SemiPrivateBoostingClassifier
from skpublicdp.boosting.regressor import SemiPrivateBoostingRegressor

__all__ = ["SemiPrivateBoostingClassifier", "SemiPrivateBoostingRegressor"]
