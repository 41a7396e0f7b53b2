"""Adapters of the catalogue: functions and rare stages that are audited like estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skpublicdp.audit.recorder import replaced
from skpublicdp.boosting import SemiPrivateBoostingClassifier, fit
from skpublicdp.metrics import (
    private_balanced_accuracy_score,
    private_confusion_matrix,
    private_roc_auc_score,
    private_scores,
)


class PublishedScore:
    """Adapter whose `fit` releases a private score."""

    def __init__(self, release: Callable[..., Any], **settings: Any) -> None:
        self.release, self.settings = release, settings

    def fit(self, X: Any, y: Any) -> PublishedScore:
        """Release the score."""
        self.found_ = self.release(np.asarray(X)[:, 0], y, **self.settings)
        self.privacy_ = self.found_.privacy_
        return self


class ScoreClassifier:
    """Public classifier whose score is its only feature."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, X: Any) -> Any:
        """Return the complement of the feature and the feature."""
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X: Any) -> Any:
        """Return "yes" above one half."""
        return self.classes_[(X[:, 0] > 0.5).astype(int)]


class RowSampledBoosting(SemiPrivateBoostingClassifier):
    """Boosting that subsamples rows at any size, which otherwise takes millions of rows."""

    def fit(self, *args: Any, **given: Any) -> Any:
        """Fit."""
        with replaced(fit, "subsample_size", lambda *noise: 20):
            return super().fit(*args, **given)


def scores_of(scores: Any, y: Any, **settings: Any) -> Any:
    """Release the curves of `ScoreClassifier`."""
    return private_scores(ScoreClassifier(), scores[:, None], y, **settings)


def area_of(scores: Any, y: Any, **settings: Any) -> Any:
    """Release the area under a curve."""
    return private_roc_auc_score(y, scores, pos_label="yes", **settings)


def matrix_of(scores: Any, y: Any, **settings: Any) -> Any:
    """Release the confusion matrix of `ScoreClassifier`."""
    return private_confusion_matrix(
        y, ScoreClassifier().predict(scores[:, None]), labels=["no", "yes"], **settings
    )


def balanced_of(scores: Any, y: Any, **settings: Any) -> Any:
    """Release the balanced accuracy of `ScoreClassifier`."""
    return private_balanced_accuracy_score(
        y, ScoreClassifier().predict(scores[:, None]), labels=["no", "yes"], **settings
    )


def beyond_half(X: Any) -> Any:
    """Answer two queries of a row."""
    return np.column_stack([X[:, 0] > 0.5, X[:, 1] > 0.5])


def known_true(rows: Any) -> Any:
    """Answer a query of a row by the column of booleans alone."""
    return np.asarray(rows["sick"]).astype(bool)
