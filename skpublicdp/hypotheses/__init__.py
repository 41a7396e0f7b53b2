"""Hypothesis classes: public structure, tables and predictions; nothing here knows ε."""

from skpublicdp.hypotheses.axis_aligned import Stumps, Thresholds
from skpublicdp.hypotheses.base import (
    Cover,
    Hypothesis,
    HypothesisClass,
    ListedCover,
    PublicSample,
)
from skpublicdp.hypotheses.trees import DecisionTrees

__all__ = [
    "Cover",
    "DecisionTrees",
    "Hypothesis",
    "HypothesisClass",
    "ListedCover",
    "PublicSample",
    "Stumps",
    "Thresholds",
]
