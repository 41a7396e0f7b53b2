"""Private search over settings, folds that keep public rows in training, checks of pipelines."""

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
