"""scikit-learn's own checks, over every public estimator, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skpublicdp import (
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    PublicFit,
    SemiPrivateClassifier,
)

ESTIMATORS = [
    SemiPrivateClassifier(),
    PPMHalfspaceClassifier(),
    PublicFit(),
    PAPQueryRelease(),
    PAPQueryRelease(method="pmw"),
    PAPQueryRelease(method="mwem"),
    PAPQueryRelease(method="public"),
]


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
