"""SemiPrivateSearchCV: what it chooses, what it accepts and what it keeps."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from skpublicdp import (
    GenericLearnerClassifier,
    PrivacyBudget,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
)
from skpublicdp.accounting import exact_fraction
from skpublicdp.exceptions import TooFewRowsWarning
from skpublicdp.guarantees import excess_error
from skpublicdp.hypotheses import DecisionTrees, Halfspaces, Stumps
from skpublicdp.model_selection import SemiPrivateSearchCV
from tests.helpers import public_sample
from tests.internals.mechanisms import Choice, Lazy, Leaf, OneOf, Product
from tests.internals.model_selection import (
    CandidateCover,
    CandidateRows,
    kind_choice,
    log_normalizer,
    split_budget,
)
from tests.internals.privacy import Ledger
from tests.kit import Recorder

RNG = np.random.default_rng(0)
N = 2000
X = RNG.normal(size=(N, 2))
XOR = np.where((X[:, 0] > 0) ^ (X[:, 1] > 0), "a", "b")
SIGN = np.where(X[:, 0] > 0.1, "a", "b")
PUBLIC = RNG.normal(size=(100, 2))
DEPTHS = {"hypotheses": [Stumps(), DecisionTrees(2)]}


def searched(grid, y=XOR, estimator=None, data=None, **parameters):
    estimator = SemiPrivateClassifier() if estimator is None else estimator
    search = SemiPrivateSearchCV(estimator, grid, **{"random_state": 0} | parameters)
    return search.fit(X, y, **{"X_public": PUBLIC} | (data or {}))


def test_the_draw_finds_the_class_that_can_tell():
    search = searched(DEPTHS)
    assert isinstance(search.best_params_["hypotheses"], DecisionTrees)
    assert search.best_index_ == 1
    assert search.score(X, XOR) > 0.95
    assert search.chosen_by_ == "one draw"
    best = search.best_estimator_
    assert best.privacy_ == search.privacy_
    assert [one.epsilon for one in search.privacy_.mechanisms] == [1.0]
    assert best.certificate_.excess_error < 0.1
    assert best.cover_size_ == 38**3 * 2**4
    assert best.classes_.tolist() == search.classes_.tolist() == ["a", "b"]
    assert "x0" in str(best.hypothesis_)


def test_it_says_where_nothing_is_promised():
    for rows, least in ((slice(N), False), (slice(40), True)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TooFewRowsWarning)
            search = SemiPrivateSearchCV(SemiPrivateClassifier(), DEPTHS, random_state=0)
            search.fit(X[rows], XOR[rows], X_public=PUBLIC)
        said = [str(one.message) for one in caught if "No accuracy bound" in str(one.message)]
        assert (search.guarantee_ == 1) is bool(said)
        assert len(said) <= 1
        assert bool(said) or not least


def test_a_fixed_setting_is_drawn_as_by_its_own_fit():
    search = searched({"alpha": [0.1]}, epsilon=0.3)
    alone = SemiPrivateClassifier(alpha=0.1, epsilon=0.3, random_state=0)
    alone.fit(X, XOR, X_public=PUBLIC)
    assert str(search.best_estimator_.hypothesis_) == str(alone.hypothesis_)
    assert search.best_estimator_.certificate_ == alone.certificate_
    assert search.chosen_by_ == "only candidate"


@pytest.mark.parametrize("grid", [{"alpha": [0.1, 0.2]}, [{"alpha": [0.1]}, {"beta": [0.1, 0.2]}]])
def test_settings_are_those_of_grid_search(grid):
    search = searched(grid)
    theirs = GridSearchCV(SemiPrivateClassifier(), grid, cv=2)
    theirs.fit(X[:300], XOR[:300], X_public=PUBLIC)
    assert search.n_candidates_ == len(ParameterGrid(grid))
    for name, column in search.cv_results_.items():
        expected = theirs.cv_results_[name]
        assert name == "params" or np.ma.allequal(column, expected)
        assert np.array_equal(np.ma.getmaskarray(column), np.ma.getmaskarray(expected))
    assert search.cv_results_["params"] == theirs.cv_results_["params"]
    assert set(search.cv_results_) == {
        name for name in theirs.cv_results_ if name.startswith("param")
    }
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]


@pytest.mark.filterwarnings("ignore:(Only . public|The public rows contain)")
def test_feature_maps_are_candidates_too():
    """Only one of the maps keeps what tells the labels apart."""
    keep, lose = FunctionTransformer(), FunctionTransformer(np.zeros_like)
    pipeline = Pipeline([("map", keep), ("scale", PublicFit()), ("clf", SemiPrivateClassifier())])
    grid = {
        "map": [lose, keep, "passthrough"],
        "scale": [PublicFit(MinMaxScaler()), None],
        "clf__hypotheses__max_depth": [2],
    }
    pipeline.set_params(clf__hypotheses=DecisionTrees())
    with Recorder() as recorder:
        search = searched(grid, estimator=pipeline)
    assert len(recorder.calls) == 1
    assert search.best_params_["map"] != lose
    assert search.score(X, XOR) > 0.95
    best = search.best_estimator_
    assert [name for name, _ in best.steps] == ["map", "scale", "clf"]
    assert search.n_features_in_ == 2
    direct = clone(pipeline).set_params(**search.best_params_)
    assert repr(direct.steps[:2]) == repr(best.steps[:2]) or best.steps[1][1] == "passthrough"


def test_a_step_is_silent_about_private_rows():
    def quote(rows):
        if len(rows) == N:
            raise ValueError(f"I saw {rows[0, 0]}")
        return rows

    pipeline = Pipeline([("map", FunctionTransformer(quote)), ("clf", SemiPrivateClassifier())])
    with pytest.raises(ValueError, match="'map'") as caught:
        searched({"clf__alpha": [0.1]}, estimator=pipeline)
    assert "I saw" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_scaler_is_fitted_on_public_rows_alone():
    pipeline = Pipeline([("scale", PublicFit(StandardScaler())), ("clf", SemiPrivateClassifier())])
    mask = np.arange(N) < 300
    search = SemiPrivateSearchCV(pipeline, {"clf__alpha": [0.1, 0.2]}, random_state=0)
    search.fit(X[:600], XOR[:600], is_public=mask[:600])  # as many as private ones: no warning
    scaler = search.best_estimator_["scale"].transformer_
    assert np.allclose(scaler.mean_, X[mask].mean(axis=0))
    assert (search.privacy_.n_private, search.privacy_.n_public) == (300, 300)


class TestPublicRowsFirst:
    def test_a_clear_win_spends_nothing_on_the_choice(self):
        labels = np.where((PUBLIC[:, 0] > 0) ^ (PUBLIC[:, 1] > 0), "a", "b")
        search = searched(DEPTHS, data={"y_public": labels})
        assert search.chosen_by_ == "public rows"
        assert search.best_index_ == 1
        with Recorder() as recorder:
            searched(DEPTHS, data={"y_public": labels})
        family = recorder.calls_of("draw")[-1].exact_input  # of the last fit: of the trees alone
        assert not isinstance(family, OneOf)

    def test_a_tie_is_for_the_private_rows(self):
        labels = np.where(PUBLIC[:, 0] > 0, "a", "b")
        search = searched({"alpha": [0.1, 0.11]}, data={"y_public": labels})
        assert search.chosen_by_ == "one draw"

    def test_few_labels_are_not_even_tried(self, monkeypatch):
        monkeypatch.setattr(kind_choice, "fit_base", None)
        labels = np.where(np.arange(100) < 4, "a", "-1")  # 1/16 is above the level
        assert searched(DEPTHS, data={"y_public": labels}).chosen_by_ == "one draw"

    def test_what_is_ruled_out_is_not_tried(self):
        """Of trees, trees again and a kind that cannot tell, one family is left."""
        labels = np.where((PUBLIC[:, 0] > 0) ^ (PUBLIC[:, 1] > 0), "a", "b")
        pipeline = Pipeline([("clf", SemiPrivateClassifier())])
        useless = GenericLearnerClassifier(Stumps(), bounds=(0, 1))
        grid = {"clf": [useless, SemiPrivateClassifier(), SemiPrivateClassifier(alpha=0.06)]}
        search = searched(grid, estimator=pipeline, data={"y_public": labels}, epsilon=0.5)
        assert search.chosen_by_ == "one draw"
        assert search.best_index_ > 0
        assert [one.epsilon for one in search.privacy_.mechanisms] == [0.5]

    def test_kinds_too(self):
        labels = np.where((PUBLIC[:, 0] > 0) ^ (PUBLIC[:, 1] > 0), "a", "b")
        pipeline = Pipeline([("clf", SemiPrivateClassifier())])
        grid = {"clf": [SemiPrivateClassifier(), GenericLearnerClassifier(Stumps(), bounds=(0, 1))]}
        search = searched(grid, estimator=pipeline, data={"y_public": labels}, epsilon=0.5)
        assert search.chosen_by_ == "public rows"
        assert [one.epsilon for one in search.privacy_.mechanisms] == [0.5]


class TestKinds:
    GRID = {"clf": [GenericLearnerClassifier(Stumps(), bounds=(-3, 3)), SemiPrivateClassifier()]}  # noqa: RUF012
    PIPELINE = Pipeline([("scale", PublicFit()), ("clf", SemiPrivateClassifier())])

    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
    def test_the_better_one_is_chosen_and_fitted_to_all_rows(self):
        budget = PrivacyBudget(1.0, for_tests=True)
        search = searched(self.GRID, estimator=self.PIPELINE, budget=budget)
        assert search.chosen_by_ == "trials"
        assert search.best_index_ == 1
        assert search.score(X, XOR) > 0.95
        assert budget.spent().epsilon == search.privacy_.epsilon == 1.0
        receipt = search.privacy_
        assert [round(one.epsilon, 6) for one in receipt.mechanisms] == [
            0.076667,
            0.076667,
            0.076667,
            0.77,
        ]
        assert not receipt.secure_randomness

    def test_boosting_gets_delta_and_gives_probabilities(self):
        search = SemiPrivateSearchCV(
            SemiPrivateBoostingClassifier(max_rounds=2),
            {"method": ["moments", "auto"]},
            epsilon=2.0,
            delta=1e-6,
            random_state=0,
        )
        search.fit(X, SIGN, X_public=PUBLIC)
        assert search.predict_proba(X[:3]).shape == (3, 2)
        assert search.decision_function(X[:3]).shape == (3,)
        assert search.privacy_.delta == 1e-6
        assert search.best_estimator_.privacy_ == search.privacy_
        assert not hasattr(searched(DEPTHS), "predict_proba")

    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
    def test_a_lone_candidate_has_all_of_the_budget(self):
        with Recorder() as recorder:
            searched({"alpha": [0.3]}, estimator=GenericLearnerClassifier(bounds=(-3, 3)))
        assert sum(call.cost for call in recorder.calls_of("draw")) == 1

    @given(n=st.integers(1, 10**7), kinds=st.integers(2, 9), share=st.floats(0.01, 0.9))
    def test_shares(self, n, kinds, share):
        ledger = Ledger(Fraction(3, 2), Fraction(1, 10**9), 0)
        ledger.read(n)
        trial, choice_epsilon, fit = split_budget(ledger, kinds, share)
        for place, whole in enumerate((ledger.epsilon, ledger.delta)):
            choice = choice_epsilon if place == 0 else 0
            assert kinds * trial[place] + choice + fit[place] == whole
            assert fit[place] == whole * (1 - exact_fraction(share))
        assert 0 < choice_epsilon <= trial[0]
        if choice_epsilon < trial[0]:  # what is left over was not needed
            promised = excess_error(kinds, n, choice_epsilon, beta=0.05)
            assert promised == pytest.approx(0.005)


def test_public_weights_are_a_prior_and_move_no_mass_between_candidates():
    """However much public rows weigh, what they say of rules says nothing of the setting."""
    labels = np.where(np.arange(100) % 3 > 0, "a", "b")  # no rule is good on them
    with Recorder() as recorder:
        searched(
            {"public_weight": [0, 1, 7]},
            estimator=SemiPrivateClassifier(Stumps()),
            data={"y_public": labels},
            epsilon=0.5,
            cv=2,
        )
    family = recorder.calls_of("draw")[-1].exact_input
    rate = 0.25
    private = recorder.calls_of("draw")[-1].exact_input.options[0]
    assert isinstance(private, Leaf)
    masses = []
    for place, option in enumerate(family.options):
        errors = np.array([errors for _, errors, _ in option.members()])
        public = errors - private.errors  # what is left without private rows
        masses.append(family.weight(place) * np.exp(-rate * public).sum())
    assert max(masses) / min(masses) < np.exp(rate) * 1.01


LEAVES = Leaf(np.array([[0, 3, 1], [2, 2, 5]], dtype=np.int64))
FAMILIES = [
    LEAVES.at((0,)),
    Choice(LEAVES, [2, 5]),
    Product([LEAVES.at((0,)), Choice(LEAVES)]),
    OneOf([LEAVES.at((1,)), Choice(LEAVES, np.array([1, 7]))], [3, 1]),
    Choice(Lazy(2, lambda start, stop: Leaf(LEAVES.errors[start:stop]), 1), [1, 4]),
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_log_mass_is_that_of_the_listed_members(family):
    members = Choice(LEAVES, family.prior) if family is FAMILIES[-1] else family
    listed = sum(prior * np.exp(-0.3 * errors) for _, errors, prior in members.members())
    assert float(log_normalizer(family, 0.3)) == pytest.approx(np.log(listed))


@pytest.mark.parametrize(
    ("estimator", "grid", "reason"),
    [
        (SemiPrivateClassifier(), {"epsilon": [0.1, 1]}, "'epsilon'"),
        (SemiPrivateClassifier(), [], "one combination"),
        (
            SemiPrivateClassifier(budget=PrivacyBudget(1, for_tests=True)),
            {"alpha": [0.1]},
            "budget=None",
        ),
        (SemiPrivateClassifier(max_rows_per_group=2), {"alpha": [0.1]}, "max_rows_per_group=None"),
        (SemiPrivateClassifier(random_state=0), {"alpha": [0.1]}, "random_state=None"),
        (DecisionTrees, {"alpha": [0.1]}, "estimator"),
        (SemiPrivateBoostingRegressor(), {"max_rounds": [1, 2]}, "is a regressor"),
        (
            Pipeline([("scale", StandardScaler()), ("clf", SemiPrivateClassifier())]),
            {"clf__alpha": [0.1]},
            "'scale' .*PublicFit",
        ),
        (
            Pipeline([("scale", PublicFit()), ("clf", SemiPrivateClassifier())]),
            {"scale": [PublicFit(), MinMaxScaler()]},
            "MinMaxScaler",
        ),
    ],
)
def test_what_is_refused(estimator, grid, reason):
    with pytest.raises((ValueError, TypeError), match=reason):
        SemiPrivateSearchCV(estimator, grid).fit(X, XOR, X_public=PUBLIC)


def test_it_may_be_a_base_learner_of_itself():
    inner = SemiPrivateSearchCV(SemiPrivateClassifier(), DEPTHS)
    search = searched({"param_grid": [DEPTHS]}, estimator=inner)
    assert search.score(X, XOR) > 0.9


def test_a_rule_of_one_candidate_refines_no_other():
    public = public_sample(RNG.normal(size=(100, 4)))
    cover = Halfspaces(directions=20, rounds=2).build_cover(public, alpha=0.1, beta=0.1)
    weights = np.ones(100, dtype=np.int64)
    scored = CandidateRows(public.X, weights, 100, np.zeros(0, dtype=np.intp))
    one, other = (CandidateCover(cover, place, scored) for place in (0, 1))
    rule = one.hypothesis(5)
    assert rule.candidate == 0
    assert other.refine(rule, 1) is other
    finer = one.refine(rule, 1)
    assert finer is not one
    assert (finer.candidate, finer.scored) == (0, scored)
    assert finer.cover.sweeps is not cover.sweeps


def test_rounds_go_on_around_the_rule_that_was_drawn():
    """A refined cover is that of the drawn candidate; others keep theirs."""
    y = np.where(X[:, 0] + 2 * X[:, 1] > 0.3, "a", "b")
    grid = {
        "scale": [PublicFit(), PublicFit(MinMaxScaler())],
        "clf__hypotheses": [Halfspaces(cover="directions", directions=20, rounds=3)],
    }
    pipeline = Pipeline([("scale", PublicFit()), ("clf", SemiPrivateClassifier())])
    search = searched(grid, y=y, estimator=pipeline, epsilon=20)
    assert len(search.privacy_.mechanisms) == 3
    assert search.score(X, y) > 0.97
