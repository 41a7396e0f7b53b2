"""The estimators that docs/user_guide/sample_sizes.md names for its sizes, with their settings."""

import numpy as np
import pytest

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    SemiPrivateClassifier,
    SubsamplingActiveLearner,
)
from skpublicdp.guarantees import (
    n_blr_learner,
    n_finite,
    n_label_boost,
    n_ppm,
    n_ppm_boxes,
    n_private,
    n_public,
    n_quantile_learner,
    n_query_release,
    n_subsampling,
)
from skpublicdp.hypotheses import FiniteClass, Thresholds
from skpublicdp.query_release import ThresholdQueries
from skpublicdp.sanitizers import BLRSanitizer

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning"),
]

BETA, LABELS = 0.05, [0, 1]
ALPHAS = pytest.mark.parametrize("alpha", [0.1, 0.4])
REALIZABLE = pytest.mark.parametrize("realizable", [False, True])


class Above:
    """A threshold as a fitted classifier."""

    classes_ = np.array(LABELS)

    def __init__(self, cut):
        self.cut = cut

    def predict(self, X):
        return (X[:, 0] > self.cut).astype(int)


def rows(n, width=1):
    """Return uniform rows and the labels of a threshold."""
    X = np.random.default_rng(0).random((n, width))
    return X, (X[:, 0] > 0.4).astype(int)


def assert_kept(fitted, alpha):
    """The estimator states alpha, and the size is not far from the least."""
    assert alpha / 10 < fitted.guarantee_ <= alpha


@ALPHAS
@REALIZABLE
def test_public_rules(alpha, realizable):
    models = FiniteClass([Above(cut) for cut in np.arange(1000) / 1000])
    n = n_finite(alpha, BETA, 1.0, 1000, realizable=realizable)
    best_error = 0 if realizable else None
    clf = SemiPrivateClassifier(models, best_error=best_error, classes=LABELS, random_state=0)
    clf.fit(*rows(n))
    assert clf.guarantee_ == pytest.approx(alpha, rel=0.01)
    assert clf.guarantee_ <= alpha


@ALPHAS
@REALIZABLE
def test_thresholds(alpha, realizable):
    n = n_private(alpha, BETA, 1.0, 1, constants="tight", realizable=realizable)
    m = n_public(alpha / 2, BETA / 2, 1, constants="tight", realizable=realizable)
    base = SemiPrivateClassifier(
        Thresholds(),
        alpha=1 / (2 * m),
        best_error=0 if realizable else None,
        classes=LABELS,
        random_state=0,
    )
    X_public = np.random.default_rng(1).random((m, 1))
    assert_kept(base.fit(*rows(n), X_public=X_public), alpha)
    if not realizable:
        X, y = rows(n_subsampling(n, 0.1))
        learner = SubsamplingActiveLearner(
            base, n_labels=n, epsilon=0.1, classes=LABELS, random_state=0
        )
        is_asked = np.isin(np.arange(len(X)), learner.query(X))
        assert_kept(learner.fit(X, np.where(is_asked, y, -1), X_public=X_public), alpha)


@pytest.mark.slow
@ALPHAS
def test_generic_learner(alpha):
    size = n_quantile_learner(alpha, BETA, 1.0)
    X, y = rows(sum(size))
    y[size.labelled :] = -1
    clf = GenericLearnerClassifier(Thresholds(), alpha=0.01, classes=LABELS, random_state=0)
    assert_kept(clf.fit(X, y), alpha)


@ALPHAS
def test_generic_learner_of_four_points(alpha):
    size = n_blr_learner(alpha, BETA, 1.0, 1, 4)
    domain = np.arange(4.0)[:, None]
    X = np.random.default_rng(0).integers(0, 4, (size.labelled + size.unlabelled, 1)).astype(float)
    y = np.where(np.arange(len(X)) < size.labelled, X[:, 0] > 1, -1)
    clf = GenericLearnerClassifier(
        Thresholds(),
        alpha=1e-9,
        sanitizer=BLRSanitizer(domain, n_points=size.n_points),
        classes=LABELS,
        random_state=0,
    )
    assert_kept(clf.fit(X, y), alpha)


@ALPHAS
@REALIZABLE
def test_label_boost(alpha, realizable):
    models = FiniteClass([Above(cut) for cut in np.arange(1001) / 1000], vc_dimension=1)
    n_base = n_finite(alpha / 4, BETA / 2, 1.0, 1001)
    size = n_label_boost(alpha, BETA, 1.0, 1, n_base, constants="tight", realizable=realizable)
    X, y = rows(sum(size))
    y[size.labelled :] = -1
    clf = LabelBoostClassifier(
        SemiPrivateClassifier(models, beta=BETA / 2),
        hypotheses=models,
        alpha=alpha / 4,
        n_base=n_base,
        classes=LABELS,
        random_state=0,
    )
    assert clf.fit(X, y).guarantee_ <= alpha
    assert clf.n_rounds_ == 0


@pytest.mark.parametrize("alpha", [0.1, 0.4])
def test_mixtures(alpha):
    """Just below half of the rows are public."""
    n = n_ppm(alpha, BETA, 1.0, 2, public_share=0.5)
    X = np.random.default_rng(0).random((n, 2))
    y = (X[:, 0] > np.sort(X[:, 0])[n // 2 - 1]).astype(int)
    clf = PPMHalfspaceClassifier(pool="paper", private_label=1, random_state=0)
    assert_kept(clf.fit(X, y), alpha)


@ALPHAS
def test_boxes(alpha):
    n = n_ppm_boxes(alpha, BETA, 1.0, 10, public_share=0.5)
    X = np.random.default_rng(0).random((n, 10))
    y = (X[:, 0] > np.sort(X[:, 0])[n // 2 - 1]).astype(int)
    clf = PPMHalfspaceClassifier(pool="axes", private_label=1, random_state=0)
    assert_kept(clf.fit(X, y), alpha)


def test_release():
    alpha, budget = 0.4, {"epsilon": 0.5, "delta": 1e-6}
    n = n_query_release(alpha, BETA, **budget, d=1, dual=1, constants="tight")
    m = n_public(alpha / 4, BETA / 2, 1, constants="tight")
    rng = np.random.default_rng(0)
    release = PAPQueryRelease(
        ThresholdQueries(), method="pmw", alpha=alpha, random_state=0, **budget
    )
    assert_kept(release.fit(rng.random((n, 1)), X_public=rng.random((m, 1))), alpha)
