"""Displays of releases and models, in the style of scikit-learn; they need matplotlib."""

from skpublicdp.plotting.budget_display import BudgetDisplay
from skpublicdp.plotting.cdf_display import CDFDisplay
from skpublicdp.plotting.marginal_display import MarginalDisplay
from skpublicdp.plotting.polytope_display import PolytopeDisplay
from skpublicdp.plotting.report import report
from skpublicdp.plotting.scores_display import ScoresDisplay
from skpublicdp.plotting.shape_display import ShapeDisplay
from skpublicdp.plotting.tracing_display import TracingDisplay

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
