"""Label privacy: exact probabilities, replay on all labels, corrections, persons and budgets."""

import itertools
import math
import pickle
import sqlite3
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import binom
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpublicdp import (
    LabelBoostClassifier,
    LabelPrivateClassifier,
    PPMHalfspaceClassifier,
    PrivacyBudget,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
    SemiPrivateLogisticRegression,
)
from skpublicdp.accounting import REPLACE_LABEL
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.model_selection import SemiPrivateSearchCV
from tests.kit import Recorder

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 2))
Y = np.where(X[:, 0] + RNG.normal(size=3000) / 3 > 0, "ill", "well")
LINEAR = LogisticRegression()
FOUR = np.array([[0.0], [1.0], [2.0], [3.0]])


def classifier(estimator=LINEAR, **settings):
    return LabelPrivateClassifier(estimator, **{"random_state": 0, **settings})


@pytest.mark.parametrize(("epsilon", "k"), [(Fraction(1, 2), None), (2, None), (3, 2)])
def test_flips_have_the_stated_probability(epsilon, k):
    """Each label is kept with e^ε times the probability of a flip, and flips are independent."""
    n = 40_000
    y = np.arange(n) % 2
    groups = None if k is None else np.arange(n) // k
    clf = classifier(DummyClassifier(), epsilon=epsilon, max_rows_per_group=k)
    clf.fit(np.zeros((n, 1)), y, groups=groups)
    flip = clf.flip_probability_
    assert math.log((1 - flip) / flip) == pytest.approx(float(epsilon) / (k or 1))
    for label in (0, 1):
        flips = int((clf.released_labels_[y == label] != label).sum())
        low, high = binom.ppf([1e-7, 1 - 1e-7], n // 2, flip)
        assert low <= flips <= high


def test_a_release_is_the_same_function_of_noise_for_all_labels():
    """The only call is noise of sensitivity 1 for one changed label, and all else follows."""
    for y in itertools.product((0, 1), repeat=4):
        with Recorder() as recorder:
            fitted = classifier(DummyClassifier(), classes=[0, 1]).fit(FOUR, y)
        (call,) = recorder.calls
        assert call.exact_input.tolist() == list(y)
        assert call.sensitivity == (1, 1)
        assert call.spread == 1
        for neighbour in itertools.product((0, 1), repeat=4):
            if sum(a != b for a, b in zip(y, neighbour, strict=True)) != 1:
                continue
            with Recorder(recorder.outcomes):
                other = classifier(DummyClassifier(), classes=[0, 1]).fit(FOUR, neighbour)
            assert pickle.dumps(other) == pickle.dumps(fitted)


def test_probabilities_are_corrected():
    y = np.arange(3000) % 10 == 0
    clf = classifier(DummyClassifier(), epsilon=1).fit(X, y)
    released = clf.released_labels_.mean()
    # the expected share of released labels is flip + (1 - 2 flip) share
    flip = 1 / (1 + math.e)
    share = clf.predict_proba(X[:1])[0, 1]
    assert flip + (1 - 2 * flip) * share == pytest.approx(released)
    assert share == pytest.approx(0.1, abs=0.1)
    rare = classifier(DummyClassifier(), epsilon=1, classes=[False, True]).fit(X, np.zeros(3000))
    assert 0 <= rare.predict_proba(X[:1])[0, 1] < 0.1  # clipped, if negative


def test_equal_released_labels():
    """Some estimators accept a single label, which then has all the probability."""
    y = np.zeros(3)
    clf = classifier(DummyClassifier(), epsilon=60, classes=[0, 1]).fit(X[:3], y)
    assert set(clf.released_labels_) == {0}
    assert clf.predict_proba(X[:2]).tolist() == [[1, 0], [1, 0]]


def test_it_learns_and_ranks():
    clf = classifier(make_pipeline(StandardScaler(), LINEAR), epsilon=2).fit(X, Y)
    assert clf.score(X, Y) > 0.87
    assert ((clf.decision_function(X) > 0) == (clf.predict(X) == "well")).all()
    assert clf.classes_.tolist() == ["ill", "well"]
    assert clf.n_features_in_ == 2
    assert pickle.loads(pickle.dumps(clf)).predict(X[:5]).tolist() == clf.predict(X[:5]).tolist()
    assert not hasattr(classifier(DummyClassifier()), "decision_function")


def test_containers():
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert classifier().fit(frame, Y).feature_names_in_.tolist() == ["a", "b"]
    sparse = classifier().fit(csr_matrix(X), Y)
    assert sparse.predict(X[:9]).tolist() == classifier().fit(X, Y).predict(X[:9]).tolist()
    classifier().fit(X.tolist(), Y.tolist())


def test_a_search_among_settings_costs_nothing():
    search = GridSearchCV(LINEAR, {"C": [0.01, 1.0]}, cv=3)
    budget = PrivacyBudget(1, protects="labels", for_tests=True)
    clf = classifier(search, budget=budget).fit(X, Y)
    assert clf.estimator_.best_params_["C"] in (0.01, 1.0)
    assert len(budget.ledger) == 1


def test_rows_of_persons_are_capped():
    groups = np.arange(3000) // 3
    clf = classifier(max_rows_per_group=2, epsilon=4).fit(X, Y, groups=groups)
    assert len(clf.released_labels_) == 2000 == clf.privacy_.n_private
    assert clf.privacy_.n_omitted == 1000
    assert clf.privacy_.unit == (
        "replace one person, up to 2 private rows (labels only: features are not protected)"
    )
    assert clf.privacy_.protects == "labels"


@pytest.mark.parametrize(
    "estimator",
    [
        SemiPrivateClassifier(),
        SemiPrivateBoostingClassifier(),
        SemiPrivateLogisticRegression(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_private_estimator_gets_the_features_as_public_rows(estimator):
    clf = classifier(estimator, epsilon=1).fit(X, Y)
    direct = clone(estimator).set_params(epsilon=1, random_state=0)
    direct.fit(X, Y, X_public=X[:-1].copy())
    assert (clf.predict(X) == direct.predict(X)).all()
    assert clf.privacy_.unit == REPLACE_LABEL == clf.estimator_.privacy_.unit
    assert clf.privacy_.n_private == 3000
    assert clf.privacy_.assumptions[0].startswith("the features of all rows are public, of which")
    assert clf.estimator_.guarantee_ is None
    assert not hasattr(clf, "released_labels_")
    assert clf.flip_probability_ == 0


def test_a_private_estimator_of_three_labels():
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    assert classifier(SemiPrivateBoostingClassifier(), epsilon=5).fit(X, y).score(X, y) > 0.8


def test_attributes_of_an_earlier_fit_are_removed():
    clf = classifier().fit(X, Y)
    clf.set_params(estimator=SemiPrivateClassifier()).fit(X, Y)
    assert not hasattr(clf, "released_labels_")


def test_a_budget_of_labels(tmp_path):
    budget = PrivacyBudget(3, 1e-5, protects="labels", path=tmp_path / "b.sqlite", for_tests=True)
    for estimator in (LINEAR, SemiPrivateBoostingClassifier()):
        classifier(estimator, budget=budget).fit(X, Y)
    rule = SemiPrivateClassifier(budget=budget, epsilon=0.5, random_state=0)
    rule.fit(X, Y, X_public=RNG.normal(size=(100, 2)))  # protects rows, and so labels
    assert len(budget.ledger) == 3
    again = PrivacyBudget(3, 1e-5, protects="labels", path=tmp_path / "b.sqlite", for_tests=True)
    assert again.protects == pickle.loads(pickle.dumps(budget)).protects == "labels"
    with pytest.raises(PrivacyBudgetError, match="protects='labels'"):
        PrivacyBudget(3, 1e-5, path=tmp_path / "b.sqlite", for_tests=True)


def test_a_file_of_an_earlier_version_protects_rows(tmp_path):
    path = tmp_path / "b.sqlite"
    PrivacyBudget(1, path=path)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM terms WHERE name = 'protects'")
    assert PrivacyBudget(1, path=path).protects == "rows"
    with pytest.raises(PrivacyBudgetError, match="protects='rows'"):
        PrivacyBudget(1, path=path, protects="labels")


class Unreadable:
    def __len__(self):
        raise AssertionError("y was read")


@pytest.mark.parametrize("estimator", [LINEAR, SemiPrivateBoostingClassifier()])
def test_a_budget_of_rows_refuses_before_a_label_is_read(estimator):
    budget = PrivacyBudget(3, 1e-5, for_tests=True)
    clf = classifier(estimator, budget=budget)
    with pytest.raises(PrivacyBudgetError, match="protects whole rows"):
        clf.fit(X, Unreadable())
    assert not budget.ledger


def test_a_budget_of_labels_refuses_a_fit_that_protects_features_only():
    budget = PrivacyBudget(50, 1e-6, protects="labels", for_tests=True)
    with pytest.raises(PrivacyBudgetError, match="features only"):
        PPMHalfspaceClassifier(budget=budget, random_state=0).fit(X, Y)
    mixed = PPMHalfspaceClassifier(random_state=0).fit(X[:300], Y[:300])
    assert mixed.privacy_.protects == "features"
    assert "protects='labels'" in repr(budget)
    assert budget.to_dict()["protects"] == "labels"


def test_a_large_epsilon_flips_nothing():
    clf = classifier(DummyClassifier(), epsilon=800).fit(X, Y)
    assert clf.flip_probability_ == 0
    assert (clf.released_labels_ == Y).all()


def test_receipts_of_a_renewal_say_that_labels_add_up_only():
    budget = PrivacyBudget(9, 1e-5, protects="labels", for_tests=True)
    earlier = classifier(SemiPrivateBoostingClassifier(), budget=budget).fit(X, Y)
    renewed = SemiPrivateLogisticRegression(public_model=earlier, budget=budget, random_state=0)
    renewed.fit(X, Y, X_public=X[:400].copy())
    text = " ".join(renewed.privacy_.assumptions)
    assert "protects labels only and adds up with this fit for what both protect" in text
    assert "both are entries of the same budget (that of public_model is 1)" in text


def test_names_of_an_earlier_fit_are_removed():
    clf = classifier().fit(pd.DataFrame(X, columns=["a", "b"]), Y).fit(X, Y)
    assert not hasattr(clf, "feature_names_in_")


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (SemiPrivateSearchCV(SemiPrivateClassifier(), {"alpha": [0.1]}), "another estimator"),
        (LabelBoostClassifier(), "another estimator"),
        (make_pipeline(StandardScaler(), SemiPrivateClassifier()), "budget of its own"),
    ],
)
def test_nested_private_estimators_are_refused(estimator, message):
    with pytest.raises(ValueError, match=message):
        classifier(estimator).fit(X, Y)


def test_errors():
    with pytest.raises(ValueError, match="Only binary classification"):
        classifier().fit(X, np.arange(3000) % 3)
    with pytest.raises(ValueError, match="at least two classes"):
        classifier().fit(X, np.zeros(3000))
    with pytest.raises(ValueError, match="inconsistent numbers"):
        classifier().fit(X, Y[:5])
    with pytest.raises(ValueError, match="withheld"):
        classifier().fit(X, [*Y[1:], None])
    with pytest.raises(ValueError, match="protects must be"):
        PrivacyBudget(1, protects="features")
    with pytest.raises(ValueError, match="treats some of these rows as public"):
        LabelBoostClassifier(classifier()).fit(X, Y)
