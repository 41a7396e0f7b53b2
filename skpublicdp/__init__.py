"""Differentially private learning and query release, assisted by public data."""

from skpublicdp.active import SubsamplingActiveLearner
from skpublicdp.boosting import SemiPrivateBoostingClassifier, SemiPrivateBoostingRegressor
from skpublicdp.conformal import ConformalClassifier, ConformalRegressor
from skpublicdp.label_boost import LabelBoostClassifier
from skpublicdp.label_privacy import (
    LabelPrivateClassifier,
    PrivateColumnsClassifier,
    PrivateColumnsRegressor,
)
from skpublicdp.linear import SemiPrivateLinearRegression, SemiPrivateLogisticRegression
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.preprocessing import PublicFit
from skpublicdp.privacy.budget import PrivacyBudget
from skpublicdp.query_release import PAPQueryRelease
from skpublicdp.rules.generic_learner import GenericLearnerClassifier
from skpublicdp.rules.ppm import PPMHalfspaceClassifier
from skpublicdp.rules.private_selection import PrivateSelectionClassifier
from skpublicdp.rules.private_votes import PrivateVotesClassifier
from skpublicdp.rules.semi_private import SemiPrivateClassifier

StatisticsRelease = PAPQueryRelease
"""Alias of `PAPQueryRelease` under a name that is easier to find."""

__version__ = "0.2.0"

__all__ = [
    "ConformalClassifier",
    "ConformalRegressor",
    "GenericLearnerClassifier",
    "LabelBoostClassifier",
    "LabelPrivateClassifier",
    "PAPQueryRelease",
    "PPMHalfspaceClassifier",
    "PrivacyBudget",
    "PrivateColumnsClassifier",
    "PrivateColumnsRegressor",
    "PrivateSelectionClassifier",
    "PrivateVotesClassifier",
    "PublicFit",
    "SemiPrivateBoostingClassifier",
    "SemiPrivateBoostingRegressor",
    "SemiPrivateClassifier",
    "SemiPrivateLinearRegression",
    "SemiPrivateLogisticRegression",
    "SemiPrivateSearchCV",
    "StatisticsRelease",
    "SubsamplingActiveLearner",
    "__version__",
]
