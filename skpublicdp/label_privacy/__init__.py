"""Estimators for tables in which only the labels, or only some columns, are private."""

from skpublicdp.label_privacy.classifier import LabelPrivateClassifier
from skpublicdp.label_privacy.private_columns import PrivateColumnsClassifier
from skpublicdp.label_privacy.private_columns_regressor import PrivateColumnsRegressor

__all__ = ["LabelPrivateClassifier", "PrivateColumnsClassifier", "PrivateColumnsRegressor"]
