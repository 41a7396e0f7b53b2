"""Boosting: noisy sums over public cells, and exactly drawn trees."""

from skpublicdp.boosting.classifier import SemiPrivateBoostingClassifier

__all__ = ["SemiPrivateBoostingClassifier"]
