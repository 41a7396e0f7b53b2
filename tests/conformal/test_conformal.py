"""Prediction sets and intervals: coverage, edge cases, parameters and errors."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpublicdp import ConformalClassifier, ConformalRegressor, PrivacyBudget
from skpublicdp.exceptions import PrivacyBudgetError, TooFewRowsWarning

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 2))
LABELS = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + RNG.normal(size=2000) / 2, [-0.5, 0.5])]
OUTCOMES = X[:, 0] + RNG.normal(size=2000)
CLF = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:300], LABELS[:300])
REG = LinearRegression().fit(X[:300], OUTCOMES[:300])
BOUNDS = (-6, 6)


def classifier(estimator=CLF, **settings):
    return ConformalClassifier(estimator, **{"random_state": 0, **settings})


def regressor(estimator=REG, **settings):
    settings = {"random_state": 0, "outcome_bounds": BOUNDS, **settings}
    return ConformalRegressor(estimator, **settings)


class Uniform:
    """The score of a row is its only feature."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X):
        return (X[:, 0] > 0.5).astype(int)


@pytest.mark.parametrize(
    ("n", "coverage", "epsilon"), [(300, 0.8, 0.5), (300, 0.9, 1), (90, 0.5, 3)]
)
def test_the_average_coverage(n, coverage, epsilon):
    """The exact coverage of sets of uniform scores, over calibration rows and draws."""
    rng = np.random.default_rng(1)
    covered = []
    for seed in range(300):
        sets = ConformalClassifier(
            Uniform(), coverage=coverage, epsilon=epsilon, random_state=seed
        ).fit(rng.random((n, 1)), np.ones(n, dtype=int))
        covered.append(1 - sets.min_probability_)
    mean, error = np.mean(covered), np.std(covered) / np.sqrt(300)
    assert coverage - 4.8 * error < mean < coverage + 12 / (n * epsilon) + 0.02
    assert coverage <= sets.coverage_ < coverage + 1 / n


def test_sets_of_labels():
    sets = classifier(coverage=0.95).fit(X[300:1500], LABELS[300:1500])
    members = sets.predict_set(X[1500:])
    assert members.dtype == bool
    np.testing.assert_array_equal(members, sets.predict_proba(X[1500:]) >= sets.min_probability_)
    covered = members[np.arange(500), np.searchsorted(sets.classes_, LABELS[1500:])]
    assert 0.92 < covered.mean() < 0.99
    np.testing.assert_array_equal(sets.predict(X), CLF.predict(X))
    assert sets.score(X, LABELS) == CLF.score(X, LABELS)
    assert sets.privacy_.epsilon == 1
    assert [event.name for event in sets.privacy_.mechanisms] == [
        "quantile of conformity scores: exponential mechanism, one exact draw"
    ]


def test_intervals():
    intervals = regressor().fit(X[300:1500], OUTCOMES[300:1500])
    low, high = intervals.predict_interval(X[1500:]).T
    np.testing.assert_allclose((low + high) / 2, REG.predict(X[1500:]))
    np.testing.assert_allclose(high - low, 2 * intervals.half_width_)
    covered = (low <= OUTCOMES[1500:]) & (OUTCOMES[1500:] <= high)
    assert 0.87 < covered.mean() < 0.95
    assert intervals.n_features_in_ == 2


def test_bounds_are_those_of_the_estimator():
    class Bounded(LinearRegression):
        outcome_bounds_ = BOUNDS

    estimator = Bounded().fit(X[:300], OUTCOMES[:300])
    own = regressor(estimator, outcome_bounds=None).fit(X[300:], OUTCOMES[300:])
    assert own.half_width_ == regressor().fit(X[300:], OUTCOMES[300:]).half_width_
    with pytest.raises(ValueError, match="outcome_bounds"):
        regressor(outcome_bounds=None).fit(X, OUTCOMES)


def test_outcomes_outside_of_the_bounds_are_covered():
    intervals = regressor(outcome_bounds=(-0.01, 0.01)).fit(X[300:], OUTCOMES[300:])
    assert intervals.half_width_ == np.inf
    assert intervals.predict_interval(X[:1]).tolist() == [[-np.inf, np.inf]]


def test_all_labels_are_in_a_set_without_threshold():
    class Certain(Uniform):
        def predict_proba(self, X):
            return np.column_stack([np.ones(len(X)), np.full(len(X), np.nan)])

    sets = classifier(Certain()).fit(X[:, :1], np.ones(2000, dtype=int))
    assert sets.min_probability_ == 0
    assert sets.predict_set(X[:3, :1]).all()


@pytest.mark.parametrize(("make", "y"), [(classifier, LABELS), (regressor, OUTCOMES)])
def test_too_few_rows_spend_nothing(make, y):
    budget = PrivacyBudget(1, for_tests=True)
    with pytest.warns(TooFewRowsWarning, match="20 rows are too few"):
        fitted = make(budget=budget).fit(X[:20], y[:20])
    assert fitted.coverage_ == 1
    assert fitted.privacy_.epsilon == 0
    assert budget.ledger == []
    if make is classifier:
        assert fitted.predict_set(X[:5]).all()
    else:
        assert np.isinf(fitted.predict_interval(X[:5])).all()


@pytest.mark.parametrize(("make", "y"), [(classifier, LABELS), (regressor, OUTCOMES)])
class TestEstimator:
    def test_copies(self, make, y):
        fitted = make(FrozenEstimator(make().estimator)).fit(X[300:], y[300:])
        again = clone(fitted).fit(X[300:], y[300:])
        restored = pickle.loads(pickle.dumps(fitted))
        method = "predict_set" if make is classifier else "predict_interval"
        expected = getattr(fitted, method)(X)
        for copy in (again, restored):
            np.testing.assert_array_equal(getattr(copy, method)(X), expected)
        assert (is_classifier(fitted), is_regressor(fitted)) == (
            make is classifier,
            make is regressor,
        )
        assert "quantile of conformity scores" in fitted._repr_html_()

    def test_it_must_be_fitted(self, make, y):
        with pytest.raises(NotFittedError):
            make(clone(make().estimator)).fit(X, y)
        with pytest.raises(NotFittedError):
            make().predict(X)

    def test_parameters(self, make, y):
        for settings in ({"coverage": 1.0}, {"epsilon": 0}, {"max_rows_per_group": 0}):
            (name,) = settings
            with pytest.raises(ValueError, match=name):
                make(**settings).fit(X, y)
        with pytest.raises(ValueError, match="estimator"):
            make(StandardScaler()).fit(X, y)
        with pytest.raises(ValueError, match="groups"):
            make().fit(X, y, groups=np.arange(len(y)))

    def test_a_fit_is_charged(self, make, y):
        budget = PrivacyBudget(1.5, for_tests=True)
        fitted = make(budget=budget).fit(X[300:], y[300:])
        assert fitted.privacy_.entry == 1
        with pytest.raises(PrivacyBudgetError):
            make(budget=budget).fit(X[300:], y[300:])
        # a receipt of a fit to other rows does not count the seed of the estimator
        assert make(random_state=None).fit(X[300:], y[300:]).privacy_.secure_randomness

    def test_errors_quote_no_row(self, make, y):
        class Failing(Uniform):
            def predict(self, X):
                raise ValueError(f"{X[0, 0]}")

            predict_proba = predict

        with pytest.raises(ValueError, match="the reason is withheld") as error:
            make(Failing()).fit(X, np.arange(len(y)) % 2)
        assert str(X[0, 0]) not in str(error.value)


def test_labels_and_outcomes_of_other_types_are_refused():
    with pytest.raises(ValueError, match="text"):
        classifier().fit(X, np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match="complex"):
        regressor().fit(X, OUTCOMES + 1j)


@pytest.mark.parametrize("prediction", [np.nan, np.inf])
def test_the_widest_interval_contains_every_outcome(prediction):
    """The coverage is proved for any regressor, even one without finite predictions."""
    fitted = SimpleNamespace(predict=lambda rows: np.full(len(rows), prediction))
    reg = regressor(fitted).fit(X, OUTCOMES)
    assert reg.half_width_ == np.inf
    np.testing.assert_array_equal(reg.predict_interval(X[:2]), [[-np.inf, np.inf]] * 2)
