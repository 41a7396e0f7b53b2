"""Fits and searches that share a budget."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline

import skpublicdp
from skpublicdp import (
    LabelBoostClassifier,
    LabelPrivateClassifier,
    PAPQueryRelease,
    PrivacyBudget,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
    SubsamplingActiveLearner,
)
from skpublicdp.accounting import Draw, Gaussian, basic_price, exact_fraction
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.hypotheses import Stumps
from skpublicdp.model_selection import SemiPrivateSearchCV
from tests.kit import Recorder

# fits


class Untouchable:
    """Rows that nobody may read; how many there are is public."""

    shape = (60, 2)

    def __getattr__(self, name):
        raise AssertionError(f"{name} of private rows was read")

    def __len__(self):
        return self.shape[0]

    def __array__(self, *args, **kwargs):
        raise AssertionError("private rows were read")

    def __getitem__(self, key):
        raise AssertionError("private rows were taken")

    def __iter__(self):
        raise AssertionError("private rows were read")


RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.where(X[:, 0] > 0, "yes", "no")
X_PUBLIC = RNG.normal(size=(20, 2))


def learner(**settings):
    return SemiPrivateClassifier(Stumps(), random_state=0, **settings)


def estimators():
    found = [getattr(skpublicdp, name) for name in skpublicdp.__all__ if name[0].isupper()]
    found = [one for one in found if "budget" in one.__init__.__code__.co_varnames]
    # reads the names of columns first, which its budget protects
    return [one for one in found if not one.__name__.startswith("PrivateColumns")]


@pytest.mark.parametrize("kind", estimators(), ids=lambda kind: kind.__name__)
def test_a_fit_is_refused_before_rows_are_read(kind):
    protects = "labels" if kind is LabelPrivateClassifier else "rows"
    budget = PrivacyBudget(0.001, for_tests=True, protects=protects)
    search = {"estimator": SemiPrivateClassifier(), "param_grid": {"alpha": [0.1, 0.2]}}
    required = search if kind is SemiPrivateSearchCV else {}
    if kind.__name__.startswith(("Conformal", "LabelPrivate")):
        required = {"estimator": LogisticRegression()}
    estimator = kind(**required, budget=budget, epsilon=1.0)
    if "delta" in estimator.get_params():
        estimator.set_params(delta=0.0)
    rows = (Untouchable(),) if kind.__name__ == "PAPQueryRelease" else (Untouchable(),) * 2
    with pytest.raises(PrivacyBudgetError, match=r"0\.001 is left"):
        estimator.fit(*rows)
    assert budget.ledger == []


def test_a_fit_is_an_entry():
    budget = PrivacyBudget(1.0, for_tests=True)
    first = learner(epsilon=0.3, budget=budget).fit(X, Y, X_public=X_PUBLIC)
    second = learner(epsilon=0.2, budget=budget.group("north")).fit(X, Y, X_public=X_PUBLIC)
    assert (first.privacy_.entry, second.privacy_.entry) == (1, 2)
    assert "entry 2 of a budget for tests, without any protection" in repr(second.privacy_)
    entries = budget.ledger
    assert [entry.who for entry in entries] == ["SemiPrivateClassifier"] * 2
    assert [entry.n_rows for entry in entries] == [60, 60]
    assert [entry.group for entry in entries] == [None, "north"]
    assert [entry.event for entry in entries] == [first.privacy_.event, second.privacy_.event]
    assert budget.spent().epsilon == 0.5
    assert learner().fit(X, Y, X_public=X_PUBLIC).privacy_.entry is None


def test_a_failed_validation_spends_nothing():
    budget = PrivacyBudget(1.0, for_tests=True)
    bad = X.copy()
    bad[3, 1] = np.nan
    for rows, labels, parameters in (
        (bad, Y, {}),
        (X, Y[:-1], {}),
        (X, Y, {"alpha": 2.0}),
        (X, Y, {"classes": ["yes", "perhaps"]}),
        (X, Y, {"max_rows_per_group": 2}),
    ):
        with pytest.raises(ValueError):
            learner(budget=budget, **parameters).fit(rows, labels, X_public=X_PUBLIC)
    assert budget.ledger == []
    assert budget.remaining("pure") == 1.0


class Interrupted(Recorder):
    def draw_member(self, *args):
        raise KeyboardInterrupt


def test_a_fit_that_dies_after_its_entry_has_spent():
    budget = PrivacyBudget(1.0, for_tests=True)
    with Interrupted(), pytest.raises(KeyboardInterrupt):
        learner(epsilon=0.4, budget=budget).fit(X, Y, X_public=X_PUBLIC)
    assert [entry.event for entry in budget.ledger] == [Draw(Fraction(2, 5))]
    assert budget.remaining("pure") == 0.6


class Waiting(Recorder):
    """Looks into the ledger when the first random bit is asked for."""

    def __init__(self, budget):
        super().__init__()
        self.budget, self.seen = budget, []

    def draw_member(self, family, epsilon, sensitivity, sample, ledger):
        self.seen.append(len(pickle.loads(pickle.dumps(self.budget)).ledger))
        return sample(ledger, family, epsilon, sensitivity)


def test_the_entry_is_there_before_anything_is_drawn():
    budget = PrivacyBudget(1.0, for_tests=True)
    with Waiting(budget) as recorder:
        learner(epsilon=0.4, budget=budget).fit(X, Y, X_public=X_PUBLIC)
    assert recorder.seen == [1]


def test_two_fits_that_both_passed_the_check_cannot_both_spend():
    """Refused at the first draw then, with nothing drawn."""
    budget = PrivacyBudget(1.0, for_tests=True)

    class Overtaken(Recorder):
        def draw_member(self, *args):
            raise AssertionError("something was drawn")

    class Rows:
        """Another fit spends while these are read."""

        def __array__(self, dtype=None, copy=None):
            if not budget.ledger:
                budget.spend(Draw(Fraction(3, 5)))
            return X.copy()

    with Overtaken(), pytest.raises(PrivacyBudgetError, match=r"ε = 0\.4 is left"):
        learner(epsilon=0.5, budget=budget).fit(Rows(), Y, X_public=X_PUBLIC)
    assert len(budget.ledger) == 1


# searches

GRID = {"epsilon": [0.1, 0.2, 0.3]}


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_grid_search_charges_exactly_the_sum(n_jobs):
    budget = PrivacyBudget(10.0, for_tests=True)
    search = GridSearchCV(learner(budget=budget), GRID, cv=KFold(5), n_jobs=n_jobs)
    search.fit(X, Y, X_public=X_PUBLIC)
    best = search.best_params_["epsilon"]
    assert budget.spent().epsilon == float(exact_fraction(3.0) + exact_fraction(best))
    assert len(budget.ledger) == 16
    assert search.best_estimator_.privacy_.entry == 16
    assert search.best_estimator_.budget is budget
    assert {entry.n_rows for entry in budget.ledger} == {48, 60}


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_cap_in_the_middle_stops_a_strict_search(n_jobs):
    """The last with workers: its error ends them, and others would take seconds to start."""
    budget = PrivacyBudget(1.0, for_tests=True)  # 5 fits of .1, 2 of .2 and no third
    search = GridSearchCV(
        learner(budget=budget), GRID, cv=KFold(5), error_score="raise", n_jobs=n_jobs
    )
    # workers overtake each other, so any fit may be the one that is refused
    refused = r"ε = 0\.2" if n_jobs is None else r"requests ε = 0\."
    with pytest.raises(PrivacyBudgetError, match=refused):
        search.fit(X, Y, X_public=X_PUBLIC)
    if n_jobs is None:
        spent = [entry.event.epsilon for entry in budget.ledger]
        assert spent == [Fraction(1, 10)] * 5 + [Fraction(2, 10)] * 2
        assert budget.remaining("pure") == 0.1
    assert budget.spent().epsilon <= 1.0


KINDS = {"clf": [SemiPrivateClassifier(Stumps()), SemiPrivateBoostingClassifier(max_rounds=2)]}


@pytest.mark.parametrize("accountant", ["auto", "pure"])
def test_a_search_among_kinds_with_noise_is_an_entry(accountant):
    """Its trials are known only by their (ε, δ): ε counts as a pure fit, δ as a failure."""
    budget = PrivacyBudget(3, 1e-6, accountant=accountant, for_tests=True)
    release = {"epsilon": 0.5, "delta": 1e-6 if accountant == "auto" else 1e-7, "bounds": (-4, 4)}
    PAPQueryRelease(**release, budget=budget, random_state=0).fit(
        X[:, :1], X_public=X_PUBLIC[:, :1]
    )
    before = budget.remaining("pure")
    search = SemiPrivateSearchCV(
        Pipeline([("clf", SemiPrivateClassifier())]), KINDS, epsilon=1.0, delta=1e-7,
        budget=budget, random_state=0,
    )  # fmt: skip
    search.fit(X, Y, X_public=X_PUBLIC)
    assert search.chosen_by_ == "trials"
    assert search.privacy_.entry == 2
    assert basic_price(budget.ledger[1].event) == (1, Fraction(1, 10**7))
    assert budget.remaining("pure") == pytest.approx(before - 1)
    if accountant == "auto":
        assert budget.remaining("approximate") == 0.0  # a tenth of δ is spent
        with pytest.raises(PrivacyBudgetError, match="δ = 0 is left"):
            search.fit(X, Y, X_public=X_PUBLIC)


@pytest.mark.parametrize(
    "learner",
    [LabelBoostClassifier(), SubsamplingActiveLearner(SemiPrivateBoostingClassifier(max_rounds=2))],
    ids=lambda learner: type(learner).__name__,
)
def test_learners_with_a_delta_fit_the_default_budget(learner):
    budget = PrivacyBudget(3, 1e-6, for_tests=True)
    budget.spend(Gaussian(Fraction(1, 100)))
    learner = clone(learner).set_params(epsilon=1.0, delta=5e-8, budget=budget, random_state=0)
    asked = learner.query(X) if hasattr(learner, "query") else slice(None)
    labels = np.full(len(Y), -1)
    labels[asked] = Y[asked] == "yes"
    learner.fit(X, labels, X_public=X_PUBLIC)
    assert basic_price(budget.ledger[1].event)[1] <= Fraction(5, 10**8)
    assert budget.remaining("approximate", 1e-8) > 0


# persons


def test_a_person_costs_what_a_row_does_and_gets_less_signal():
    """The event is the same; the draw is that of k times the sensitivity."""
    persons = np.repeat(np.arange(20), 3)
    budget = PrivacyBudget(1.0, for_tests=True)
    with Recorder() as recorder:
        clf = learner(epsilon=0.5, max_rows_per_group=2, budget=budget)
        clf.fit(X, Y, X_public=X_PUBLIC, groups=persons)
    (call,) = recorder.calls_of("draw")
    assert call.sensitivity == 2
    assert call.event == Draw(Fraction(1, 2))
    (entry,) = budget.ledger
    assert entry.n_rows == 40
    assert entry.event == Draw(Fraction(1, 2))
    assert clf.privacy_.unit == "replace one person, up to 2 private rows"
