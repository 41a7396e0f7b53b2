"""Linear models within other estimators of this package and of scikit-learn."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skpublicdp import (
    LabelBoostClassifier,
    PrivacyBudget,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
    SubsamplingActiveLearner,
)
from skpublicdp.metrics import private_scores
from skpublicdp.model_selection import SemiPrivateSearchCV, check_pipeline
from tests.linear.test_linear import (
    OUTCOMES,
    OUTCOMES_PUBLIC,
    OUTCOMES_TEST,
    PUBLIC,
    TEST,
    Y_TEST,
    X,
    Y,
)

LOGISTIC = SemiPrivateLogisticRegression(epsilon=2, random_state=0)
LINEAR = SemiPrivateLinearRegression(epsilon=2, outcome_bounds=(-20, 20), random_state=0)
FEW_LABELS = np.where(np.arange(len(X)) < 3000, Y, -1)
NAMES = np.array(["low", "middle", "top"])


def thirds(outcomes):
    return NAMES[np.digitize(outcomes, [-2, 2])]


@pytest.fixture(autouse=True)
def _routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class TestSelection:
    def test_private_search_among_kinds(self):
        candidates = [SemiPrivateLogisticRegression(), SemiPrivateBoostingClassifier()]
        search = SemiPrivateSearchCV(
            make_pipeline(PublicFit(StandardScaler()), candidates[0]),
            {"semiprivatelogisticregression": candidates},
            epsilon=4,
            delta=1e-6,
            random_state=0,
        )
        search.fit(X, Y, X_public=PUBLIC)
        assert (search.privacy_.epsilon, search.privacy_.delta) == (4, 1e-6)
        assert isinstance(search.best_estimator_[-1], SemiPrivateLogisticRegression)
        assert search.score(TEST, Y_TEST) > 0.85

    def test_private_search_of_a_parameter(self):
        search = SemiPrivateSearchCV(
            SemiPrivateLogisticRegression(), {"fit_intercept": [True, False]}, random_state=0
        )
        search.fit(X, Y, X_public=PUBLIC)
        assert (search.privacy_.epsilon, search.privacy_.delta) == (1, 0)
        assert search.best_estimator_.privacy_.delta == 0

    def test_private_search_has_one_epsilon(self):
        search = SemiPrivateSearchCV(SemiPrivateLogisticRegression(), {"epsilon": [1, 2]})
        with pytest.raises(ValueError, match="epsilon"):
            search.fit(X, Y, X_public=PUBLIC)

    @pytest.mark.parametrize(("learner", "y"), [(LOGISTIC, Y), (LINEAR, OUTCOMES)])
    def test_grid_search_and_cross_validation(self, learner, y):
        search = GridSearchCV(learner, {"epsilon": [0.1, 5]}, cv=3).fit(X, y, X_public=PUBLIC)
        assert search.best_params_ == {"epsilon": 5}
        scores = cross_val_score(learner, X, y, cv=3, params={"X_public": PUBLIC})
        assert scores.min() > 0.7


class TestLearners:
    def test_label_boost(self):
        learner = LabelBoostClassifier(SemiPrivateLogisticRegression(), epsilon=4, random_state=0)
        learner.fit(X, FEW_LABELS, X_public=PUBLIC)
        assert isinstance(learner.estimator_, SemiPrivateLogisticRegression)
        assert learner.privacy_.epsilon == 4
        assert learner.score(TEST, Y_TEST) > 0.8

    def test_active_learner(self):
        learner = SubsamplingActiveLearner(
            SemiPrivateLogisticRegression(), n_labels=1500, epsilon=2, random_state=0
        )
        queried = learner.query(X)
        y = np.full(len(X), -1)
        y[queried] = Y[queried]
        learner.fit(X, y, X_public=PUBLIC)
        assert learner.privacy_.epsilon == 2
        assert learner.score(TEST, Y_TEST) > 0.75

    def test_one_per_label(self):
        budget = PrivacyBudget(6, 3e-6)
        base = SemiPrivateLogisticRegression(epsilon=2, delta=1e-6, budget=budget)
        learner = OneVsRestClassifier(base).fit(X, thirds(OUTCOMES), X_public=PUBLIC)
        assert learner.score(TEST, thirds(OUTCOMES_TEST)) > 0.75
        assert [part.privacy_.n_public for part in learner.estimators_] == [250] * 3
        assert len(budget.ledger) == 3

    def test_one_per_label_with_labelled_public_rows(self):
        rows, outcomes = np.vstack([PUBLIC, X]), np.append(OUTCOMES_PUBLIC, OUTCOMES)
        is_public = np.arange(len(rows)) < len(PUBLIC)
        base = SemiPrivateLogisticRegression(epsilon=0.1, random_state=0)
        learner = OneVsRestClassifier(base).fit(rows, thirds(outcomes), is_public=is_public)
        assert [part.privacy_.n_public for part in learner.estimators_] == [250] * 3
        assert learner.score(TEST, thirds(OUTCOMES_TEST)) > 0.75


def test_private_scores():
    model = LOGISTIC.fit(X, Y, X_public=PUBLIC)
    scores = private_scores(model, TEST, Y_TEST, epsilon=1, random_state=0)
    assert scores.accuracy == pytest.approx(model.score(TEST, Y_TEST), abs=0.02)
    model = LINEAR.fit(X, OUTCOMES, X_public=PUBLIC)
    scores = private_scores(model, TEST, OUTCOMES_TEST, epsilon=8, random_state=0)
    assert scores.r2 == pytest.approx(model.score(TEST, OUTCOMES_TEST), abs=0.05)


def test_check_pipeline():
    good = make_pipeline(PublicFit(StandardScaler()), LOGISTIC, transform_input=["X_public"])
    assert check_pipeline(good) == []
    (finding,) = check_pipeline(CalibratedClassifierCV(LOGISTIC))
    assert "not private at any" in finding.problem
    (finding,) = check_pipeline(OneVsRestClassifier(LOGISTIC))
    assert "costs k·ε" in finding.problem


class TestExplain:
    def test_of_labels(self):
        learner = SemiPrivateLogisticRegression(epsilon=20, random_state=0)
        text = learner.fit(X, Y, X_public=PUBLIC).explain()
        first, *lines, last = text.splitlines()
        assert first == f"log-odds of 1: {learner.intercept_[0]:+.3g} if all columns are 0"
        effects = np.abs(learner.coef_[0] * PUBLIC.std(axis=0))
        largest = np.argsort(-effects)[:10]
        assert lines == [f"  {learner.coef_[0, index]:+.3g} × x{index}" for index in largest]
        assert last == "  ... (20 smaller terms)"

    def test_of_outcomes_and_categories(self):
        rng = np.random.default_rng(0)
        rows = pd.DataFrame({"city": rng.choice(["Bern", "Rome"], 3000)})
        learner = SemiPrivateLinearRegression(epsilon=20, outcome_bounds=(0, 10), random_state=0)
        learner.fit(rows[200:], 4.0 + 3 * (rows["city"] == "Rome")[200:], X_public=rows[:200])
        lines = learner.explain().splitlines()
        assert lines[0].startswith("outcome: +")
        assert {line.partition(" × ")[2] for line in lines[1:]} == {"city=Bern", "city=Rome"}


class Score(ClassifierMixin, BaseEstimator):
    """Published log-odds of the first column."""

    def __init__(self, factor=2.0):
        self.factor = factor
        self.classes_ = np.array([0, 1])

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def decision_function(self, X):
        return self.factor * np.asarray(X, dtype=float)[:, 0]


class Mean(RegressorMixin, BaseEstimator):
    """Published mean, twice the first column."""

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return 2 * np.asarray(X, dtype=float)[:, 0]


class TestPublicModel:
    ROWS = np.random.default_rng(0).normal(size=(2000, 30))
    TEST_ROWS = np.random.default_rng(1).normal(size=(3000, 30))
    PUBLIC_ROWS = np.random.default_rng(2).normal(size=(200, 30))

    def labels(self, rows, factor=2.0):
        return (np.random.default_rng(3).random(len(rows)) < expit(factor * rows[:, 0])).astype(int)

    def auc(self, model, epsilon, **options):
        areas = []
        for seed in range(3):
            learner = SemiPrivateLogisticRegression(
                epsilon=epsilon, public_model=model, classes=[0, 1], random_state=seed
            )
            learner.fit(self.ROWS, self.labels(self.ROWS), X_public=self.PUBLIC_ROWS, **options)
            margins = learner.decision_function(self.TEST_ROWS)
            areas.append(roc_auc_score(self.labels(self.TEST_ROWS), margins))
        return np.mean(areas)

    def test_a_good_model_helps_and_a_reversed_one_is_outweighed(self):
        alone = roc_auc_score(self.labels(self.TEST_ROWS), self.TEST_ROWS[:, 0])
        assert self.auc(Score(), 0.1) > alone - 0.03 > self.auc(None, 0.1) + 0.05
        assert self.auc(Score(-2.0), 20) > alone - 0.02

    def test_labelled_public_rows_correct_the_model(self):
        y_public = self.labels(self.PUBLIC_ROWS)
        assert self.auc(Score(-0.5), 0.1, y_public=y_public) > self.auc(Score(-0.5), 0.1) + 0.1

    def test_the_model_is_a_column(self):
        learner = SemiPrivateLogisticRegression(
            epsilon=1, public_model=Score(), random_state=0
        ).fit(self.ROWS, self.labels(self.ROWS), X_public=self.PUBLIC_ROWS)
        assert learner.coef_names_[-1] == "public model"
        columns = np.column_stack([self.TEST_ROWS, Score().decision_function(self.TEST_ROWS)])
        margins = columns @ learner.coef_[0] + learner.intercept_[0]
        # the margins of the model are clipped to probabilities from .005 to .995
        few = np.abs(columns[:, -1]) < 5
        np.testing.assert_allclose(
            learner.decision_function(self.TEST_ROWS)[few], margins[few], atol=1e-6
        )
        assert any("public_model was made without" in line for line in learner.privacy_.assumptions)
        assert clone(learner).public_model is learner.public_model

    def test_a_private_model_adds_up(self):
        budget = PrivacyBudget(3, 1e-5, for_tests=True)
        first, second = (
            SemiPrivateLogisticRegression(epsilon=epsilon, budget=budget, random_state=0)
            for epsilon in (0.25, 1)
        )
        y = self.labels(self.ROWS)
        first.fit(self.ROWS, y, X_public=self.PUBLIC_ROWS)
        second.set_params(public_model=first).fit(self.ROWS, y, X_public=self.PUBLIC_ROWS)
        text = " | ".join(second.privacy_.assumptions)
        assert "a private fit with (ε, δ) = (0.25, 1e-06), which adds up" in text
        assert "both are entries of the same budget (that of public_model is 1)" in text
        assert "without the private rows" not in text

    def test_outcomes(self):
        learner = SemiPrivateLinearRegression(
            epsilon=1, outcome_bounds=(-6, 10), public_model=Mean(), random_state=0
        )
        noise = np.random.default_rng(4).normal(size=2000)
        learner.fit(self.ROWS, 2 * self.ROWS[:, 0] + noise, X_public=self.PUBLIC_ROWS)
        predictions = learner.predict(self.TEST_ROWS)
        assert r2_score(2 * self.TEST_ROWS[:, 0], predictions) > 0.9

    def test_models_that_are_refused(self):
        learner = SemiPrivateLogisticRegression(public_model=LogisticRegression(), random_state=0)
        fit = {"X": self.ROWS, "y": self.labels(self.ROWS), "X_public": self.PUBLIC_ROWS}
        with pytest.raises(ValueError, match="public_model must be fitted"):
            learner.fit(**fit)
        with pytest.raises(ValueError, match="public_model must be a classifier"):
            learner.set_params(public_model=Mean()).fit(**fit)
        centred = make_pipeline(FunctionTransformer(lambda X: X - X.mean(axis=0)), Score())
        with pytest.raises(ValueError, match="independently of the others"):
            learner.set_params(public_model=centred).fit(**fit)
