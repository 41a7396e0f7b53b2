"""Displays of releases and models in the style of scikit-learn, which require matplotlib."""

from skpublicdp.plotting.budget_display import BudgetDisplay
from skpublicdp.plotting.coefficient_display import CoefficientDisplay
from skpublicdp.plotting.polytope_display import PolytopeDisplay
from skpublicdp.plotting.release_displays import CDFDisplay, FidelityDisplay, MarginalDisplay
from skpublicdp.plotting.report import report
from skpublicdp.plotting.roc_displays import ScoresDisplay, TracingDisplay
from skpublicdp.plotting.shape_display import ShapeDisplay

__all__ = [
    "BudgetDisplay",
    "CDFDisplay",
    "CoefficientDisplay",
    "FidelityDisplay",
    "MarginalDisplay",
    "PolytopeDisplay",
    "ScoresDisplay",
    "ShapeDisplay",
    "TracingDisplay",
    "report",
]
