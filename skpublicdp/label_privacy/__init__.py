"""Estimators of rows of which some values are public: all features, or the label and columns."""

from skpublicdp.label_privacy.classifier import LabelPrivateClassifier
from skpublicdp.label_privacy.private_columns import PrivateColumnsClassifier
from skpublicdp.label_privacy.private_columns_regressor import PrivateColumnsRegressor

__all__ = ["LabelPrivateClassifier", "PrivateColumnsClassifier", "PrivateColumnsRegressor"]
