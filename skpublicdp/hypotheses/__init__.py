"""Hypothesis classes, their covers built from public rows, and the rules that they contain."""

from skpublicdp.hypotheses.axis_aligned import Stumps, Thresholds
from skpublicdp.hypotheses.base import (
    Cover,
    Hypothesis,
    HypothesisClass,
    PublicSample,
)
from skpublicdp.hypotheses.boxes import Intervals, Rectangles
from skpublicdp.hypotheses.class_checks import check_hypothesis_class
from skpublicdp.hypotheses.conjunctions import Conjunctions
from skpublicdp.hypotheses.corrections import Corrections
from skpublicdp.hypotheses.finite import FiniteClass, ListedCover, Union
from skpublicdp.hypotheses.halfspaces import Halfspace, Halfspaces
from skpublicdp.hypotheses.intersections import HalfspaceIntersections
from skpublicdp.hypotheses.polytopes import Polytope
from skpublicdp.hypotheses.trees import DecisionTrees

__all__ = [
    "Conjunctions",
    "Corrections",
    "Cover",
    "DecisionTrees",
    "FiniteClass",
    "Halfspace",
    "HalfspaceIntersections",
    "Halfspaces",
    "Hypothesis",
    "HypothesisClass",
    "Intervals",
    "ListedCover",
    "Polytope",
    "PublicSample",
    "Rectangles",
    "Stumps",
    "Thresholds",
    "Union",
    "check_hypothesis_class",
]
