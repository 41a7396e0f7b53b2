"""Seeded fits and budgets: one is admitted with a warning, the second is refused."""

import pickle
import sqlite3
import warnings
from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    PAPQueryRelease,
    PrivacyBudget,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
)
from skpublicdp.accounting import (
    Approximate,
    Draw,
    Gaussian,
    PrivacyReceipt,
    Pure,
    Steps,
    gaussian_mu_squared,
)
from skpublicdp.exceptions import DriftWarning, PrivacyBudgetError, SeededRandomnessWarning
from skpublicdp.hypotheses import Stumps, Thresholds
from skpublicdp.metrics import make_private_scorer, private_accuracy_score, private_scores
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.sanitizers import QuantileSanitizer
from tests.internals.accounting import BudgetCap, fraction_above, fraction_below

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
Y = (X[:, 0] > 0).astype(int)
PUBLIC, OTHERS = RNG.normal(size=(60, 2)), RNG.normal(size=(70, 2))
HALF_LABELLED = np.where(np.arange(300) < 150, Y, -1)
QUARTER = Fraction(1, 4)


def _score(budget, seed):
    return private_accuracy_score(Y, Y, epsilon=0.1, budget=budget, random_state=seed)


def _fit(make, y=Y, **arguments):
    def fit(budget, seed):
        learner = make().set_params(epsilon=0.1, budget=budget, random_state=seed)
        return learner.fit(X, y, X_public=PUBLIC, **arguments)

    return fit


FITS = {
    "semi-private": _fit(lambda: SemiPrivateClassifier(Stumps(), classes=[0, 1])),
    "boosting": _fit(lambda: SemiPrivateBoostingClassifier(classes=[0, 1])),
    "regression": _fit(lambda: SemiPrivateBoostingRegressor(outcome_bounds=(-4, 4)), X[:, 1]),
    "logistic": _fit(lambda: SemiPrivateLogisticRegression(classes=[0, 1])),
    "linear": _fit(lambda: SemiPrivateLinearRegression(outcome_bounds=(-4, 4)), X[:, 1]),
    "release": lambda budget, seed: PAPQueryRelease(
        epsilon=0.1, delta=1e-6, budget=budget, random_state=seed
    ).fit(X[:, :1], X_public=PUBLIC[:, :1]),
    "search": _fit(
        lambda: SemiPrivateSearchCV(
            SemiPrivateClassifier(Stumps()), {"alpha": [0.1, 0.2]}, classes=[0, 1]
        )
    ),
    "accuracy": _score,
    "scores": lambda budget, seed: private_scores(
        SemiPrivateClassifier(Stumps()).fit(OTHERS, OTHERS[:, 0] > 0, X_public=PUBLIC),
        X, Y > 0, epsilon=0.1, budget=budget, random_state=seed,
    ),
    "scorer": lambda budget, seed: make_private_scorer(
        "accuracy", epsilon=0.1, budget=budget, random_state=seed
    )(SemiPrivateClassifier(Stumps()).fit(OTHERS, OTHERS[:, 0] > 0, X_public=PUBLIC), X, Y > 0),
    "label boost": _fit(
        lambda: LabelBoostClassifier(hypotheses=Thresholds(), classes=[0, 1]), HALF_LABELLED
    ),
    "generic learner": _fit(
        lambda: GenericLearnerClassifier(Stumps(), classes=[0, 1]), HALF_LABELLED
    ),
    "seed of a base learner": lambda budget, seed: LabelBoostClassifier(
        SemiPrivateClassifier(Stumps(), random_state=seed),
        epsilon=0.1, budget=budget, classes=[0, 1], hypotheses=Stumps(),
    ).fit(X, HALF_LABELLED, X_public=PUBLIC),
    "seed of a sanitizer": lambda budget, seed: GenericLearnerClassifier(
        Stumps(), sanitizer=QuantileSanitizer(random_state=seed),
        epsilon=0.1, budget=budget, classes=[0, 1],
    ).fit(X, HALF_LABELLED, X_public=PUBLIC),
}  # fmt: skip
"""What is charged to a budget, with a seed."""


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
@pytest.mark.parametrize("name", FITS)
class TestEveryFit:
    def test_a_seed_warns_and_the_second_one_is_refused(self, name):
        budget = PrivacyBudget(5, 1e-3)
        with pytest.warns(SeededRandomnessWarning, match="its noise"):
            FITS[name](budget, 0)
        with pytest.raises(PrivacyBudgetError, match="random_state"):
            FITS[name](budget, 1)  # whatever its seed: none is kept to be compared
        assert [entry.seeded for entry in budget.ledger] == [True]

    def test_without_a_seed_nothing_is_said(self, name):
        budget = PrivacyBudget(5, 1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("error", SeededRandomnessWarning)
            warnings.simplefilter("ignore", DriftWarning)  # noise without a seed may look like it
            FITS[name](budget, None)
            FITS[name](budget, None)
        assert [entry.seeded for entry in budget.ledger] == [False] * 2

    def test_a_budget_for_tests_admits_any_number(self, name):
        budget = PrivacyBudget(5, 1e-3, for_tests=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error", SeededRandomnessWarning)
            FITS[name](budget, 0)
            fitted = FITS[name](budget, 0)
        assert len(budget.ledger) == 2
        if isinstance(getattr(fitted, "privacy_", None), PrivacyReceipt):
            receipt = fitted.privacy_
            assert "entry 2 of a budget for tests, without any protection" in repr(receipt)
            assert receipt.to_dict()["for_tests"] is True
            assert PrivacyReceipt.from_dict(receipt.to_dict()) == receipt


def test_a_seed_without_a_budget_is_for_the_receipt_alone():
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeededRandomnessWarning)
        FITS["semi-private"](None, 0)


def test_generators_are_seeds():
    # a clone copies its generator, so that two clones repeat each other's noise
    budget = PrivacyBudget(5)
    learner = SemiPrivateClassifier(
        Stumps(), epsilon=0.1, budget=budget, random_state=np.random.default_rng(), classes=[0, 1]
    )
    with pytest.warns(SeededRandomnessWarning):
        clone(learner).fit(X, Y, X_public=PUBLIC)
    with pytest.raises(PrivacyBudgetError, match="random_state"):
        clone(learner).fit(X, Y, X_public=PUBLIC)


def test_noise_is_not_shared_between_groups():
    budget = PrivacyBudget(5)
    with pytest.warns(SeededRandomnessWarning):
        _score(budget.group("north"), 0)
    with pytest.raises(PrivacyBudgetError, match="random_state"):
        _score(budget.group("south"), 0)
    _score(budget.group("south"), None)


def test_folds_searches_and_members_of_an_ensemble():
    learner = SemiPrivateClassifier(Stumps(), epsilon=0.1, random_state=0, classes=[0, 1])
    refusals = {
        "folds": lambda one: cross_val_score(one, X, Y, cv=KFold(3), error_score="raise"),
        "search": lambda one: GridSearchCV(
            one, {"alpha": [0.1, 0.2]}, cv=KFold(2), error_score="raise"
        ).fit(X, Y, X_public=PUBLIC),
        # scikit-learn sets seeds of 31 bits in the members
        "bagging": lambda one: BaggingClassifier(
            one.set_params(random_state=None), n_estimators=2
        ).fit(X, Y),
    }
    for run in refusals.values():
        budget = PrivacyBudget(5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(PrivacyBudgetError, match="random_state"):
                run(clone(learner).set_params(budget=budget))
        assert len(budget.ledger) == 1


def test_a_file_remembers_and_nothing_of_the_seed_is_in_it(tmp_path):
    path = tmp_path / "budget.sqlite"
    with pytest.warns(SeededRandomnessWarning):
        _score(PrivacyBudget(5, path=path), 123456789)
    again = PrivacyBudget(5, path=path)
    with pytest.raises(PrivacyBudgetError, match="random_state"):
        _score(again, 987654321)
    with closing(sqlite3.connect(path)) as connection:
        for other in (1, 123456789):
            with pytest.warns(SeededRandomnessWarning):
                _score(PrivacyBudget(5, path=tmp_path / f"{other}.sqlite"), other)
        first, second = (
            closing(sqlite3.connect(tmp_path / f"{other}.sqlite")) for other in (1, 123456789)
        )
        query = "SELECT who, event, n_rows, disjoint, total, ticket, seeded FROM entries"
        with first as one, second as two:
            assert one.execute(query).fetchall() == two.execute(query).fetchall()
        assert connection.execute("SELECT count(*) FROM entries").fetchone() == (1,)


def test_a_budget_for_tests_says_so_and_stays_one(tmp_path):
    path = tmp_path / "budget.sqlite"
    budget = PrivacyBudget(5, path=path, for_tests=True)
    assert repr(budget) == "PrivacyBudget(epsilon=5, delta=0, accountant='pure', for_tests=True)"
    assert "it gives no protection" in budget._repr_html_()
    assert budget.to_dict()["for_tests"] is True
    for copied in (pickle.loads(pickle.dumps(budget)), budget.group("north"), clone(budget)):
        assert copied.for_tests
    with pytest.raises(PrivacyBudgetError, match="cannot be changed"):
        PrivacyBudget(5, path=path)
    with pytest.raises(ValueError, match="for_tests"):
        PrivacyBudget(5, for_tests=1)


def test_a_file_of_an_earlier_version_is_no_budget_for_tests(tmp_path):
    path = tmp_path / "budget.sqlite"
    PrivacyBudget(5, path=path).spend(Pure(QUARTER), who="before")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE entries DROP COLUMN seeded")
        connection.execute("DELETE FROM terms WHERE name = 'for_tests'")
        connection.commit()
    budget = PrivacyBudget(5, path=path)
    # whether it was seeded is not known
    assert [(entry.who, entry.seeded) for entry in budget.ledger] == [("before", True)]
    budget.spend(Pure(QUARTER))
    with pytest.raises(PrivacyBudgetError, match="random_state"):
        budget.check(Pure(QUARTER), seeded=True)


class Committee(ClassifierMixin, BaseEstimator):
    """A private learner of somebody else, whose members are a list."""

    protects_all_rows = True

    def __init__(self, epsilon=1.0, members=(), classes=None):
        self.epsilon, self.members, self.classes = epsilon, members, classes

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        epsilon = self.epsilon / len(self.members)
        self.members_ = [
            clone(one).set_params(epsilon=epsilon, classes=self.classes).fit(X, y)
            for one in self.members
        ]
        return self

    def predict(self, X):
        return self.members_[0].predict(X)


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
def test_seeds_in_lists_of_learners_are_seen():
    budget = PrivacyBudget(5)
    base = Committee(members=[SemiPrivateClassifier(Stumps(), random_state=0)])
    learner = LabelBoostClassifier(base, hypotheses=Stumps(), budget=budget, classes=[0, 1])
    with pytest.warns(SeededRandomnessWarning):
        fitted = learner.fit(X, HALF_LABELLED)
    assert not fitted.privacy_.secure_randomness
    with pytest.raises(PrivacyBudgetError, match="random_state"):
        clone(learner).fit(X, HALF_LABELLED)
    grid = {"members": [base.members, [SemiPrivateClassifier(Stumps())]]}
    search = SemiPrivateSearchCV(Committee(members=[SemiPrivateClassifier()]), grid)
    with pytest.raises(ValueError, match="random_state=None"):
        search.fit(X, Y)


def test_nothing_that_remains_is_false():
    budget = PrivacyBudget(1)
    assert budget.remaining()
    budget.spend(Pure(Fraction(1)))
    assert not budget.remaining()


# a fresh budget and a plan that takes all of it


@pytest.mark.parametrize("accountant", ["auto", "gdp", "zcdp"])
def test_a_fresh_budget_admits_what_was_planned_to_take_all_of_it(accountant):
    delta = Fraction(1, 10**6)
    for epsilon in [Fraction(38, 10), Fraction(59, 10), *map(Fraction, range(6, 400, 29))]:
        capacity = BudgetCap(epsilon, delta, accountant)
        for count in (1, 4, 32):
            event = Steps((Draw(capacity.equal_draws(count)),) * count)
            assert capacity.admits(event)
            PrivacyBudget(epsilon, delta, accountant=accountant).check(event)


def test_votes_take_all_of_a_default_budget():
    learner = SemiPrivateBoostingClassifier(
        method="votes", epsilon=3.8, delta=1e-6, classes=[0, 1], bounds=(-9, 9),
        budget=PrivacyBudget(3.8, 1e-6),
    )  # fmt: skip
    assert learner.fit(X, Y, X_public=PUBLIC).privacy_.entry == 1


def test_rounding_up_never_passes_a_rounded_number():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        cap = fraction_below(Fraction(int(rng.integers(1, 1 << 62)), int(rng.integers(1, 1 << 62))))
        below = cap * (1 - Fraction(1, int(rng.integers(2, 1 << 62))) ** 2)
        assert below <= fraction_above(below) <= cap
        assert fraction_below(cap) == fraction_above(cap) == cap


# numbers beyond all budgets


@pytest.mark.parametrize("accountant", ["auto", "pure", "gdp", "zcdp"])
@pytest.mark.parametrize(
    "event",
    [
        Pure(Fraction(1e308)),
        Draw(Fraction(10) ** 400),
        Gaussian(Fraction(10) ** 400),
        Approximate(Fraction(1e308), Fraction(1, 10**9)),
        Steps((Pure(Fraction(1e308)),) * 2),
    ],
)
def test_what_no_float_holds_is_refused_by_a_sentence(event, accountant):
    budget = PrivacyBudget(1, 1e-6, accountant=accountant)
    with pytest.raises(PrivacyBudgetError, match=r"requests|cannot account for"):
        budget.spend(event)
    assert not budget.ledger


# what is left


def test_remaining_shows_all_kinds():
    budget = PrivacyBudget(2.0, 1e-6)
    budget.spend(Gaussian(gaussian_mu_squared(1, Fraction(1, 10**6))))
    left = budget.remaining()
    assert left._asdict() == {kind: budget.remaining(kind) for kind in left._fields}
    assert repr(left).startswith("Largest ε of one more fit, by kind")
    for kind, room in left._asdict().items():
        assert f"{kind} {room:.3g}"[:-1] in repr(left)
    assert repr(left) in budget._repr_html_()
    with pytest.raises(ValueError, match="Pass kind as well"):
        budget.remaining(delta=1e-7)
