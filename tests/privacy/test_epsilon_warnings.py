"""An epsilon that protects nothing, or from which nothing can be learned, is warned of."""

import inspect
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone, is_regressor
from sklearn.metrics import roc_auc_score

from skpublicdp import (
    PrivacyBudget,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
)
from skpublicdp.accounting import Draw, Gaussian, Pure, Sensitivity
from skpublicdp.exceptions import LargeEpsilonWarning, TooFewRowsWarning
from skpublicdp.metrics import private_accuracy_score
from tests.contracts.test_common import ESTIMATORS
from tests.internals.privacy import Ledger

RNG = np.random.default_rng(0)
N, M = 5000, 300
X, PUBLIC = RNG.normal(size=(N, 13)), RNG.normal(size=(M, 13))
Y = np.where(X[:, 0] > 0, "ill", "well")
LABELS = np.where(PUBLIC[:, 0] > 0, "ill", "well")

pytestmark = pytest.mark.filterwarnings("ignore")


def heard(category, call):
    """Return the result of a call, and the warnings of one category."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, [one for one in caught if one.category is category]


class TestLargeEpsilon:
    ALLOWED = 1 / (1 + np.exp(-10))  # how often an attacker is right at a pure epsilon of 10

    @pytest.mark.parametrize(
        ("event", "right"),
        [
            *((Pure(Fraction(e)), 1 / (1 + np.exp(-e))) for e in (1, 9.9, 10.1, 50, 1000)),
            *((Draw(Fraction(e)), 1 / (1 + np.exp(-e / 2))) for e in (1, 19.9, 20.1, 100)),
            *((Gaussian(Fraction(mu) ** 2), norm.cdf(mu / 2)) for mu in (1, 7.7, 7.9, 40)),
        ],
    )
    def test_the_steps_of_the_fit_decide(self, event, right):
        ledger = Ledger(10**4, Fraction(1, 10**6), random_state=0, event=event)
        sensitivity = Sensitivity(1, 1)
        zeros = np.zeros(1, dtype=np.int64)

        def spend():
            if isinstance(event, Draw):
                ledger.sub_ledger(event, name="draw", proof="none")
            else:
                ledger.add_noise(zeros, sensitivity, event, name="noise", proof="none")

        assert len(heard(LargeEpsilonWarning, spend)[1]) == (right > self.ALLOWED)
        assert ledger.receipt().delta_at(0) == pytest.approx(2 * right - 1, rel=0.01)

    @pytest.mark.one_in(2)
    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
    def test_each_estimator_warns_once_at_the_line_of_the_user(self, estimator):
        if "epsilon" not in estimator.get_params() or getattr(estimator, "method", "") == "public":
            pytest.skip("spends nothing")
        for epsilon, warned in ((1, False), (1000, True)):
            model = clone(estimator).set_params(epsilon=epsilon)
            if "base_epsilon" in model.get_params():
                model.set_params(n_labels=50)
            taken = inspect.signature(model.fit).parameters
            given = {"X_public": PUBLIC[:, :2]} if "X_public" in taken else {}
            y = X[:400, 1] if is_regressor(model) else Y[:400]
            arguments = [X[:400, :2], y] if taken.get("y") else [X[:400, :2]]
            if "y" in taken and taken["y"].default is None:
                arguments = arguments[:1]
            _, caught = heard(
                LargeEpsilonWarning, lambda a=arguments, g=given, m=model: m.fit(*a, **g)
            )
            assert len(caught) == warned, epsilon
            assert {one.filename for one in caught} <= {__file__}

    def test_nothing_is_spent_where_it_is_an_error(self):
        budget = PrivacyBudget(10**5)
        with warnings.catch_warnings():
            warnings.simplefilter("error", LargeEpsilonWarning)
            with pytest.raises(LargeEpsilonWarning, match=r"99\.99%"):
                SemiPrivateClassifier(epsilon=1000, budget=budget).fit(X, Y, X_public=PUBLIC)
        assert budget.spent().epsilon == 0

    def test_scores_warn_too(self):
        score = lambda: private_accuracy_score(Y, Y, epsilon=100, delta=0)  # noqa: E731
        assert len(heard(LargeEpsilonWarning, score)[1]) == 1


class TestTooFewRows:
    def boosting(self, epsilon, y=Y, *, n=N, learner=SemiPrivateBoostingClassifier, **given):
        public = given.pop("public", {"X_public": PUBLIC})
        model = learner(epsilon=epsilon, random_state=0, **given)
        return heard(TooFewRowsWarning, lambda: model.fit(X[:n], y[:n], **public))

    @pytest.mark.parametrize("delta", [0, 1e-6])
    def test_not_in_ordinary_use(self, delta):
        assert not self.boosting(0.1, delta=delta)[1]
        outcomes = {"learner": SemiPrivateBoostingRegressor, "outcome_bounds": (-3, 3)}
        assert not self.boosting(0.1, X[:, 0], delta=delta, **outcomes)[1]
        assert not self.boosting(0.1, delta=delta, method="votes")[1]
        assert not self.boosting(1, n=300, delta=delta)[1]

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"delta": 0},
            {"method": "votes"},
            {"method": "moments"},
            {"learner": SemiPrivateBoostingRegressor, "outcome_bounds": (-3, 3)},
            {"public": {}, "bounds": (-3, 3)},
        ],
        ids=str,
    )
    def test_where_noise_hides_everything(self, given):
        y = X[:, 0] if "learner" in given else Y
        _, caught = self.boosting(0.006, y, **given)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        said = str(caught[0].message)
        assert all(part in said for part in ("5000 private", "epsilon = 0.006", "close to chance"))
        # the same for any private rows
        other = RNG.permutation(y)
        assert str(self.boosting(0.006, other, **given)[1][0].message) == said

    def test_what_private_rows_add_to_labels_of_public_ones(self):
        public = {"X_public": PUBLIC, "y_public": LABELS}
        _, caught = self.boosting(0.006, public=public)
        assert "labelled public" in str(caught[0].message)

    def test_scores_are_near_chance_below_and_above_it_otherwise(self):
        """One column decides the label: the strongest effect there is."""
        areas = {}
        for epsilon in (0.001, 0.1):
            models = [
                SemiPrivateBoostingClassifier(epsilon=epsilon, random_state=seed)
                for seed in range(8)
            ]
            fits = [
                heard(TooFewRowsWarning, lambda m=m: m.fit(X, Y, X_public=PUBLIC)) for m in models
            ]
            assert {len(caught) for _, caught in fits} == {int(epsilon < 0.01)}
            areas[epsilon] = np.mean(
                [roc_auc_score(Y == "well", model.predict_proba(X)[:, 1]) for model, _ in fits]
            )
        assert abs(areas[0.001] - 0.5) < 0.2
        assert areas[0.1] > 0.9
