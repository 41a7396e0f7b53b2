"""Displays of releases and models, in the style of scikit-learn; they need matplotlib."""

from skpublicdp.plotting.budget import BudgetDisplay
from skpublicdp.plotting.cdf import CDFDisplay
from skpublicdp.plotting.marginal import MarginalDisplay
from skpublicdp.plotting.polytope import PolytopeDisplay
from skpublicdp.plotting.report import report
from skpublicdp.plotting.scores import ScoresDisplay
from skpublicdp.plotting.shape import ShapeDisplay
from skpublicdp.plotting.tracing import TracingDisplay

__all__ = [
    "BudgetDisplay",
    "CDFDisplay",
    "MarginalDisplay",
    "PolytopeDisplay",
    "ScoresDisplay",
    "ShapeDisplay",
    "TracingDisplay",
    "report",
]
