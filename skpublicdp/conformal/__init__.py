"""Prediction sets and intervals with a proved coverage, calibrated on private rows."""

from skpublicdp.conformal.prediction_sets import ConformalClassifier, ConformalRegressor

__all__ = ["ConformalClassifier", "ConformalRegressor"]
