"""scikit-learn's own checks, over every public estimator, with no expected failures."""

import pytest
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    PrivateSelectionClassifier,
    PrivateVotesClassifier,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
    SubsamplingActiveLearner,
)
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.query_release import RegressionRelease
from skpublicdp.sanitizers import QuantileSanitizer
from tests.internals.query_release import synthetic

ESTIMATORS = [
    SemiPrivateClassifier(),
    SemiPrivateBoostingClassifier(),
    SemiPrivateBoostingClassifier(delta=0.0, method="moments"),
    SemiPrivateBoostingRegressor(outcome_bounds=(-100, 100)),
    SemiPrivateBoostingRegressor(delta=0.0, outcome_bounds=(-100, 100)),
    SemiPrivateLogisticRegression(),
    SemiPrivateLogisticRegression(delta=0.0, fit_intercept=False),
    SemiPrivateLinearRegression(outcome_bounds=(-100, 100)),
    GenericLearnerClassifier(),
    LabelBoostClassifier(),
    SubsamplingActiveLearner(),
    SubsamplingActiveLearner(roles="paper"),
    SubsamplingActiveLearner(transcript_private=True),
    QuantileSanitizer(),
    PPMHalfspaceClassifier(),
    PrivateSelectionClassifier(n_candidates=10),
    PrivateVotesClassifier(),
    PrivateVotesClassifier(DecisionTreeClassifier(max_depth=3), delta=0.0),
    PublicFit(),
    PAPQueryRelease(),
    PAPQueryRelease(method="pmw"),
    PAPQueryRelease(method="public"),
    RegressionRelease(),
    SemiPrivateSearchCV(SemiPrivateClassifier(), {"alpha": [0.05, 0.2]}),
    SemiPrivateSearchCV(SemiPrivateBoostingClassifier(), {"max_rounds": [2, 3]}, delta=1e-6),
]


@pytest.fixture(autouse=True)
def few_rows_are_drawn(monkeypatch):
    """How many rows are drawn from released tables is nothing that scikit-learn checks."""
    monkeypatch.setattr(synthetic, "N_TREE_ROWS", 2000)


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.UnmeasuredWarning")
@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.AmbiguousLabelWarning")
@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
