"""Pickles of fitted estimators are small, and hold no path where the budget was taken away."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from skpublicdp import PrivacyBudget, SemiPrivateBoostingClassifier, SemiPrivateBoostingRegressor
from tests.contracts.test_common import ESTIMATORS

RNG = np.random.default_rng(0)
N = 300
X, PUBLIC = RNG.normal(size=(N, 2)), RNG.normal(size=(60, 2))
Y = np.where(X[:, 0] > 0, "ill", "well")

pytestmark = pytest.mark.filterwarnings("ignore")


def fitted(estimator):
    estimator = clone(estimator)
    taken = inspect.signature(estimator.fit).parameters
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    given = {"X_public": PUBLIC} if "X_public" in taken else {}
    y = X[:, 1] if "Regressor" in type(estimator).__name__ else Y
    needs_y = "y" in taken and taken["y"].default is not None
    return estimator.fit(X, y, **given) if needs_y else estimator.fit(X, **given)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_a_pickle_is_small(estimator):
    assert len(pickle.dumps(fitted(estimator))) < 2**16


@pytest.mark.parametrize(
    "estimator",
    [SemiPrivateBoostingClassifier(), SemiPrivateBoostingRegressor(outcome_bounds=(-3, 3))],
    ids=repr,
)
def test_boosting_predicts_alike_from_a_pickle(estimator):
    model = fitted(estimator)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_published_pickle_may_leave_out_the_path_of_the_budget(tmp_path):
    budget = PrivacyBudget(2, 1e-6, path=tmp_path / "secret-place.sqlite")
    model = fitted(SemiPrivateBoostingClassifier(delta=0, budget=budget))
    path = b"secret-place"
    # workers and copies charge the same file
    assert path in pickle.dumps(model)
    assert pickle.loads(pickle.dumps(model)).budget.spent() == budget.spent()
    assert "secret-place" not in model.to_json() + model.__repr__(N_CHAR_MAX=10**6)
    expected = model.predict(X)
    published = pickle.dumps(model.set_params(budget=None))
    assert path not in published
    np.testing.assert_array_equal(pickle.loads(published).predict(X), expected)
