"""Private hyperparameter search, splitters that train on public rows, and pipeline checks."""

from skpublicdp.model_selection.checks import Finding, check_pipeline
from skpublicdp.model_selection.search import SemiPrivateSearchCV
from skpublicdp.model_selection.splitters import PublicKFold, PublicShuffleSplit

__all__ = [
    "Finding",
    "PublicKFold",
    "PublicShuffleSplit",
    "SemiPrivateSearchCV",
    "check_pipeline",
]
