"""Advice in messages that depends on the scikit-learn estimator that called `fit`."""

from __future__ import annotations

import sys
from types import FrameType

from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.feature_selection import SelectorMixin
from sklearn.multioutput import ClassifierChain, RegressorChain
from sklearn.pipeline import Pipeline

PIPELINE_ADVICE = (
    ". In a pipeline, the earlier steps must also transform X_public: enable metadata routing and "
    "pass transform_input=['X_public'] to Pipeline."
)
"""Advice for the case that public rows do not match private rows that earlier steps transformed."""


SELECTORS = (SelectorMixin, BaggingClassifier, BaggingRegressor, ClassifierChain, RegressorChain)
"""Meta-estimators that remove or add columns of `X`, but not of `X_public`."""


def pipeline_advice() -> str:
    """Return the end of a message: advice within the `fit` of a pipeline or selector, or a stop."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, Pipeline):
            return PIPELINE_ADVICE
        if isinstance(caller, SELECTORS):
            return (
                f". {type(caller).__name__} may change the columns of X only: mark the public rows "
                "of X with is_public instead of passing X_public."
            )
        frame = frame.f_back
    return "."
