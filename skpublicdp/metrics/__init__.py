"""Differentially private metrics of classifiers on private rows, with confidence intervals."""

from skpublicdp.metrics.array_scores import (
    PrivateValue,
    make_private_scorer,
    private_accuracy_score,
    private_balanced_accuracy_score,
    private_confusion_matrix,
    private_roc_auc_score,
)
from skpublicdp.metrics.comparison import Differences, DriftComparison, measure_drift
from skpublicdp.metrics.operating_points import OperatingPoint
from skpublicdp.metrics.score_release import private_scores
from skpublicdp.metrics.scores import PrivateScores

__all__ = [
    "Differences",
    "DriftComparison",
    "OperatingPoint",
    "PrivateScores",
    "PrivateValue",
    "make_private_scorer",
    "measure_drift",
    "private_accuracy_score",
    "private_balanced_accuracy_score",
    "private_confusion_matrix",
    "private_roc_auc_score",
    "private_scores",
]
