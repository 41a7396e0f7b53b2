"""Pictures of what was released, after scikit-learn's displays; matplotlib is optional."""

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
