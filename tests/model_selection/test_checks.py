"""check_pipeline on every meta-estimator of scikit-learn, and functions that couple rows."""

import re
import warnings
from functools import cache
from inspect import signature

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    BaggingClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    StratifiedKFold,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    StandardScaler,
    quantile_transform,
    scale,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import all_estimators

from skpublicdp import (
    ConformalClassifier,
    LabelBoostClassifier,
    PrivacyBudget,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.data import describe_columns
from skpublicdp.hypotheses import FiniteClass, Stumps, Thresholds, Union
from skpublicdp.metrics import make_private_scorer
from skpublicdp.model_selection import PublicKFold, SemiPrivateSearchCV, check_pipeline
from tests.internals.data import DESCRIBED, take_rows
from tests.internals.shared import couples_rows
from tests.kit import Recorder

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
LABELS = np.arange(90) % 3
PUBLIC = RNG.normal(size=(60, 1))
PRIVATE = SemiPrivateClassifier()

SEEDS = []  # of what was fitted


class NotesSeed:
    protects_all_rows = True

    def fit(self, X, y, sample_weight=None, check_input=True):  # as trees before 1.8 have it
        SEEDS.append(self.random_state)
        return super().fit(X, y, sample_weight, check_input)


class NotedClassifier(NotesSeed, DecisionTreeClassifier):
    def __init__(self, epsilon=1.0, random_state=None):
        super().__init__(max_depth=2, random_state=random_state)
        self.epsilon = epsilon


class NotedRegressor(NotesSeed, DecisionTreeRegressor):
    def __init__(self, epsilon=1.0, random_state=None):
        super().__init__(max_depth=2, random_state=random_state)
        self.epsilon = epsilon


CONTAINERS = {"Pipeline", "FeatureUnion", "ColumnTransformer", "FrozenEstimator"}
PLACES = ("estimator", "estimators", "base_estimator", "regressor", "init")
SETTINGS = {"param_grid": {"epsilon": [1.0, 2.0]}, "param_distributions": {"epsilon": [1.0, 2.0]}}
TARGETS = (LABELS, LABELS > 0, np.column_stack([LABELS > 0, LABELS > 1]).astype(int))


def wrapped():
    """Return (name, meta-estimator) for each place where scikit-learn takes an estimator."""
    found = {}
    for name, kind in all_estimators():
        parameters = signature(kind).parameters
        for place in PLACES:
            other = place == "init" and not name.startswith("GradientBoosting")
            if place not in parameters or name in CONTAINERS or other:
                continue
            for part in (NotedClassifier(), NotedRegressor()):
                settings = {key: grid for key, grid in SETTINGS.items() if key in parameters}
                settings |= {"n_iter": 2} if name == "RandomizedSearchCV" else {}
                settings |= {"min_samples": 0.5} if name == "RANSACRegressor" else {}
                value = [("a", part), ("b", part)] if place == "estimators" else part
                found.setdefault(name, []).append(kind(**{place: value}, **settings))
    return found


def seeds_in_fits(wrapper):
    """Return the seeds that the parts have in the first kind of fit that works."""
    rows = X.copy()
    if type(wrapper).__name__ == "IterativeImputer":
        rows[::7, 0] = np.nan
    for target in TARGETS:
        SEEDS.clear()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wrapper.fit(rows, target)
        except (ValueError, TypeError, LookupError, AttributeError, NotImplementedError):
            if not SEEDS:
                continue
        return list(SEEDS)
    return []


WRAPPED = wrapped()


@cache
def seeds_of(name):
    """Return the seeds in all fits of a meta-estimator around classifiers and regressors."""
    return [seed for wrapper in WRAPPED[name] for seed in seeds_in_fits(wrapper)]


def said(pipeline):
    return [str(finding) for finding in check_pipeline(pipeline)]


def test_the_wrappers_that_set_seeds_are_named_and_no_others():
    """By running all of them: a member that has a seed at its fit got it from the wrapper."""
    assert len(WRAPPED) > 25
    assert all(seeds_of(name) for name in WRAPPED)
    seeded = {name for name in WRAPPED if any(seed is not None for seed in seeds_of(name))}
    undone = "the noise can be removed"
    assert seeded == {name for name in WRAPPED if undone in " ".join(said(WRAPPED[name][0]))}
    assert seeded == {
        "AdaBoostClassifier",
        "AdaBoostRegressor",
        "BaggingClassifier",
        "BaggingRegressor",
        "RANSACRegressor",
    }
    integers = {name for name in seeded if all(isinstance(one, int) for one in seeds_of(name))}
    assert integers == seeded - {"RANSACRegressor"}
    for name in integers:
        assert all(0 <= seed < 2**31 for seed in seeds_of(name))
        assert "31-bit" in " ".join(said(WRAPPED[name][0]))


ADDS_UP = {  # look at private rows through their parts alone
    "ClassifierChain",
    "MultiOutputClassifier",
    "MultiOutputRegressor",
    "OneVsRestClassifier",
    "OutputCodeClassifier",
    "RegressorChain",
    "RFE",
    "VotingClassifier",
    "VotingRegressor",
}
ONE_FIT = {"FixedThresholdClassifier", "SelectFromModel", "TransformedTargetRegressor"}


@pytest.mark.parametrize("name", WRAPPED)
def test_no_wrapper_that_fits_something_itself_is_said_to_cost_its_fits(name):
    texts = said(WRAPPED[name][0])
    if name in ONE_FIT:
        assert texts == []
    elif name in ADDS_UP:
        assert all("costs k·ε" in text or "their ε add up" in text for text in texts)
        assert len(texts) == 1
    else:
        assert texts
        assert not any("·ε" in text or "budget" in text for text in texts)
        assert any("not private at any ε" in text or "removed" in text for text in texts)


N = 600
ROWS = RNG.normal(size=(N, 2))
Y = (ROWS[:, 0] + RNG.normal(size=N) > 0).astype(int)
CHANGED = np.where(np.arange(N) == 3, 1 - Y, Y)


def boosting():
    # a seed: whether a score moves with one label depends on the noise
    return SemiPrivateBoostingClassifier(
        epsilon=0.1, classes=[0, 1], bounds=(-4, 4), random_state=0
    )


def replayed(wrapper, labels, read):
    """Fit to neighbours with the same private outcomes, and read something off both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Recorder() as recorder:
            one = read(wrapper().fit(ROWS, labels[0]))
        with Recorder(recorder.outcomes):
            return one, read(wrapper().fit(ROWS, labels[1]))


def probabilities(model):
    return model.predict_proba(ROWS[:50])


@pytest.mark.parametrize(
    ("wrapper", "read"),
    [
        (lambda: CalibratedClassifierCV(boosting(), cv=3), probabilities),
        (
            lambda: StackingClassifier([("a", boosting())], LogisticRegression(), cv=3),
            probabilities,
        ),
        (
            lambda: VotingClassifier(
                [("a", boosting()), ("b", LogisticRegression())], voting="soft"
            ),
            probabilities,
        ),
        (
            lambda: TunedThresholdClassifierCV(boosting(), cv=2, scoring="accuracy"),
            lambda model: model.best_score_,
        ),
    ],
    ids=["calibrated", "stacking", "voting", "threshold"],
)
def test_what_is_not_private_at_any_epsilon_tells_neighbours_apart(wrapper, read):
    one, other = replayed(wrapper, (Y, CHANGED), read)
    assert not np.array_equal(one, other)
    texts = said(wrapper())
    assert any("not private at any ε" in text for text in texts)
    assert not any("·ε" in text or "budget" in text for text in texts)


def search(scoring=None, **settings):
    scorer = make_private_scorer("accuracy", epsilon=0.1) if scoring is None else scoring
    return GridSearchCV(boosting(), {"max_rounds": [1, 2]}, scoring=scorer, **settings)


def test_a_search_with_private_scores_adds_up_if_folds_do_not_depend_on_labels():
    for cv in (KFold(3), PublicKFold(3)):
        texts = said(search(cv=cv))
        assert len(texts) == 1
        assert "which costs k·ε, where k is the number of fits, plus the ε of every" in texts[0]
    seeded = make_private_scorer("accuracy", random_state=0)
    assert any("scorer with a seed" in text for text in said(search(seeded, cv=KFold(3))))
    for cv in (None, 3, StratifiedKFold(3)):
        assert all("folds that may be stratified" in text for text in said(search(cv=cv)))
    for scoring in ("accuracy", make_scorer(accuracy_score)):
        assert all("not private at any ε" in text for text in said(search(scoring, cv=KFold(3))))


def importances(model):
    return np.ptp(model.predict_proba(np.eye(model.n_features_in_)), axis=1)


def test_what_is_said_to_add_up_is_the_same_for_neighbours():
    for wrapper, read in (
        (lambda: OneVsRestClassifier(boosting()), probabilities),
        (lambda: FixedThresholdClassifier(boosting()), lambda model: model.predict(ROWS[:50])),
        (lambda: VotingClassifier([("a", boosting())], voting="soft"), probabilities),
        (
            lambda: RFE(boosting(), n_features_to_select=1, importance_getter=importances),
            lambda model: np.append(model.ranking_, model.predict_proba(ROWS[:50])[:, 0]),
        ),
        (
            lambda: search(cv=KFold(3)),
            lambda model: np.append(
                model.cv_results_["mean_test_score"], model.predict_proba(ROWS[:50])[:, 0]
            ),
        ),
    ):
        one, other = replayed(wrapper, (Y, CHANGED), read)
        assert np.array_equal(one, other)


def test_pairs_of_labels_tell_how_many_rows_have_them():
    labels = np.arange(N) % 3
    moved = np.where(np.arange(N) == 0, 1, labels)
    wrapper = lambda: OneVsOneClassifier(PRIVATE)  # noqa: E731
    sizes = lambda model: [one.privacy_.n_private for one in model.estimators_]  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = sizes(wrapper().fit(ROWS, labels))
        other = sizes(wrapper().fit(ROWS, moved))
    assert one != other
    assert any("not private at any ε" in text for text in said(wrapper()))


class Foreign(ClassifierMixin, BaseEstimator):
    def __init__(self, estimator=None, random_state=None):
        self.estimator, self.random_state = estimator, random_state

    def fit(self, X, y):
        return self


class ForeignBagging(BaggingClassifier):
    pass


class Stateless(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def center(X):
    return X - np.asarray(X).mean(axis=0)


SCALED = StandardScaler().fit(ROWS)


@pytest.mark.parametrize(
    ("pipeline", "found"),
    [
        (
            VotingClassifier([("a", PRIVATE), ("b", LogisticRegression())]),
            [
                ("VotingClassifier.b", "declares no protection"),
                ("VotingClassifier", "not private at any ε, because it contains b"),
            ],
        ),
        (
            BaggingClassifier(make_pipeline(StandardScaler(), PRIVATE)),
            [
                ("BaggingClassifier.estimator.standardscaler", "wrap it in PublicFit"),
                ("BaggingClassifier", "contains estimator"),
                ("BaggingClassifier", "31-bit"),
            ],
        ),
        (
            BaggingClassifier(PRIVATE, oob_score=True),
            [("BaggingClassifier", "exact score"), ("BaggingClassifier", "31-bit")],
        ),
        (
            OneVsRestClassifier(VotingClassifier([("a", PRIVATE), ("b", PRIVATE)])),
            [
                ("OneVsRestClassifier.estimator", "their ε add up"),
                ("OneVsRestClassifier", "costs k·ε"),
            ],
        ),
        (
            OneVsRestClassifier(BaggingClassifier(PRIVATE)),
            [
                ("OneVsRestClassifier.estimator", "31-bit"),
                ("OneVsRestClassifier", "not private at any ε"),
            ],
        ),
        (StackingClassifier([("a", PRIVATE)]), [("StackingClassifier", "final estimator")]),
        (StackingClassifier([("a", PRIVATE)], PRIVATE), [("StackingClassifier", "moves other")]),
        (
            StackingClassifier([("a", PRIVATE)], PRIVATE, cv=KFold()),
            [("StackingClassifier", "costs k·ε")],
        ),
        (
            StackingRegressor([("a", NotedRegressor())], NotedRegressor()),
            [("StackingRegressor", "k·ε")],
        ),
        (ClassifierChain(PRIVATE, cv=3), [("ClassifierChain", "moves other")]),
        (
            TransformedTargetRegressor(NotedRegressor(), transformer=StandardScaler()),
            [
                ("TransformedTargetRegressor.transformer", "use func"),
                ("TransformedTargetRegressor", "contains transformer"),
            ],
        ),
        (TransformedTargetRegressor(NotedRegressor(), func=np.log1p, inverse_func=np.expm1), []),
        (
            TransformedTargetRegressor(NotedRegressor(), func=center, inverse_func=center),
            [("TransformedTargetRegressor", "result of func")],
        ),
        (
            GridSearchCV(PRIVATE, {"alpha": [0.1]}, scoring=lambda fitted, X, y: 0),
            [("GridSearchCV", "unless scoring uses public rows only")],
        ),
        (Foreign(PRIVATE), [("Foreign", "is an unknown class")]),
        (
            ForeignBagging(PRIVATE),
            [("ForeignBagging", "31-bit"), ("ForeignBagging", "unknown class")],
        ),
        (make_pipeline(FunctionTransformer(scale), PRIVATE), [("functiontransformer", "that row")]),
        (
            make_pipeline(PublicFit(make_pipeline(FunctionTransformer(scale))), PRIVATE),
            [("publicfit.functiontransformer", "that row alone")],
        ),
        (
            make_pipeline(make_column_transformer((FunctionTransformer(center), [0])), PRIVATE),
            [("columntransformer.functiontransformer", "that row alone")],
        ),
        (make_pipeline(FunctionTransformer(np.log1p), PRIVATE), []),
        (make_pipeline(Normalizer(), PRIVATE), []),
        (make_pipeline(Stateless(), PRIVATE), [("stateless", "that row alone")]),
        (FrozenEstimator(PRIVATE), [("FrozenEstimator", "the budget counts")]),
        (
            make_pipeline(FrozenEstimator(SCALED), PRIVATE),
            [("frozenestimator", "no private rows were used")],
        ),
        (
            make_pipeline(PublicFit(FrozenEstimator(SCALED)), PRIVATE),
            [("publicfit", "no private rows were used")],
        ),
        (
            make_pipeline(SelectFromModel(LogisticRegression(), prefit=True), PRIVATE),
            [("selectfrommodel", "no private rows were used")],
        ),
        (make_pipeline(PublicFit(), PRIVATE, memory="cache"), [("Pipeline", "to disk")]),
        (make_pipeline("passthrough", PRIVATE, memory="cache"), []),
        (
            LabelBoostClassifier(make_pipeline(FunctionTransformer(scale), PRIVATE)),
            [("LabelBoostClassifier.estimator.functiontransformer", "that row alone")],
        ),
        (RFE(LogisticRegression()), [("RFE", "wrap it in PublicFit")]),
    ],
    ids=lambda value: re.sub(r" at 0x\w+", "", " ".join(repr(value).split()))[:70],
)
def test_every_part_is_looked_at(pipeline, found):
    if hasattr(pipeline, "steps"):
        pipeline.set_params(transform_input=["X_public"])
    findings = check_pipeline(pipeline)
    assert [finding.step for finding in findings] == [step for step, _ in found]
    for finding, (_, text) in zip(findings, found, strict=True):
        assert text in str(finding)


def first_difference(X):
    return np.diff(X, axis=0, prepend=0)


def noisy(X):
    return X + np.random.default_rng().normal(size=X.shape)


def fails_alone(X):
    if len(np.unique(X[:, 0])) == 1:
        raise ValueError
    return X * 2


def filled(X):
    return np.where(np.isnan(X), np.nanmean(X, axis=0), X)


class TestCouplingIsTriedOnPublicRows:
    HOLES = np.where(np.arange(60)[:, None] % 20 == 7, np.nan, PUBLIC)

    @pytest.mark.parametrize(
        ("function", "rows"),
        [
            (scale, PUBLIC),
            (center, PUBLIC),
            (quantile_transform, PUBLIC),
            (first_difference, PUBLIC),
            (filled, HOLES),
            (lambda X: X.mean(axis=0) < X, PUBLIC),
            (lambda X: np.sort(X, axis=0), PUBLIC),
            (lambda X: X / np.abs(X).max(), PUBLIC),
        ],
    )
    def test_functions_of_several_rows(self, function, rows):
        assert couples_rows(function, rows, len(rows), take_rows)

    @pytest.mark.parametrize(
        "function",
        [
            np.exp,
            noisy,
            fails_alone,
            lambda X: np.log(X),
            lambda X: (X @ RNG.normal(size=(1, 40))).sum(axis=1),
            lambda X: X + np.arange(len(X))[:, None],
            lambda X: X[:3],
            lambda X: np.where(X > 0, "old", "young").astype(object),
            StandardScaler().fit(PUBLIC).transform,
        ],
    )
    def test_functions_of_one_row(self, function):
        assert not couples_rows(function, PUBLIC, len(PUBLIC), take_rows)

    def test_one_row_shows_nothing(self):
        assert not couples_rows(scale, PUBLIC[:1], 1, take_rows)


PRIVATE_ROWS = RNG.normal(size=(500, 1))
PRIVATE_LABELS = (PRIVATE_ROWS[:, 0] > 0).astype(int)
GRID = {"semiprivateclassifier__alpha": [0.1, 0.2]}


class TestSearch:
    def searched(self, step, budget=None, **data):
        pipeline = make_pipeline(*step, SemiPrivateClassifier(Thresholds()))
        search = SemiPrivateSearchCV(pipeline, GRID, classes=[0, 1], budget=budget)
        return search.fit(PRIVATE_ROWS, PRIVATE_LABELS, **{"X_public": PUBLIC} | data)

    @pytest.mark.parametrize(
        "steps",
        [
            [FunctionTransformer(scale)],
            [PublicFit(), FunctionTransformer(scale)],
            [PublicFit(make_pipeline(StandardScaler(), FunctionTransformer(quantile_transform)))],
        ],
        ids=len,
    )
    @pytest.mark.parametrize("marked", [False, True])
    def test_a_function_that_couples_public_rows_is_refused_for_nothing(self, steps, marked):
        budget = PrivacyBudget(2)
        mask = {"X_public": None, "is_public": np.arange(500) < 100}
        with pytest.raises(ValueError, match="for a public row"):
            self.searched(steps, budget, **(mask if marked else {}))
        assert budget.spent().epsilon == 0
        assert len(budget.ledger) == 0

    def test_described_public_rows_are_assumed_in_the_receipt(self):
        X, y = np.random.default_rng(0).random(size=(300, 2)), np.arange(300) % 2
        search = SemiPrivateSearchCV(SemiPrivateClassifier(), {"alpha": [0.1, 0.2]}, random_state=0)
        public = describe_columns({"a": (0, 1), "b": (0, 1)})
        assert DESCRIBED in search.fit(X, y, X_public=public).privacy_.assumptions
        actual = np.random.default_rng(1).random((50, 2))
        assert DESCRIBED not in search.fit(X, y, X_public=actual).privacy_.assumptions

    def test_what_cannot_be_seen_is_assumed_in_the_receipt(self):
        assumption = "these steps are assumed to transform each row independently of other rows"
        line = f"{assumption}: functiontransformer"
        search = self.searched([FunctionTransformer(lambda X: X * 2)])
        assert line in search.privacy_.assumptions
        for step in (FunctionTransformer(np.exp), PublicFit()):
            assumptions = self.searched([step]).privacy_.assumptions
            assert not any("that row alone" in one for one in assumptions)

    def test_so_it_is_for_steps_that_only_the_grid_has(self):
        pipeline = make_pipeline("passthrough", SemiPrivateClassifier(Thresholds()))
        step = FunctionTransformer(lambda X: X * 2)
        search = SemiPrivateSearchCV(pipeline, {"passthrough": [None, step]}, classes=[0, 1])
        search.fit(PRIVATE_ROWS, PRIVATE_LABELS, X_public=PUBLIC)
        assert any(one.endswith("other rows: passthrough") for one in search.privacy_.assumptions)


class TestFiniteClass:
    PLAIN = DummyClassifier(strategy="constant", constant=0).fit(PUBLIC, np.arange(60) % 2)
    LINE = "the prediction of a FiniteClass model for a row depends on that row alone"

    def fitted(self, model, budget=None):
        model.fit(PUBLIC, (PUBLIC[:, 0] > 0).astype(int))
        hypotheses = Union([FiniteClass([model, self.PLAIN]), Stumps()])
        clf = SemiPrivateClassifier(hypotheses, classes=[0, 1], budget=budget)
        return clf.fit(PRIVATE_ROWS, PRIVATE_LABELS, X_public=PUBLIC)

    def test_a_model_that_looks_at_the_batch_is_refused_for_nothing(self):
        budget = PrivacyBudget(1)
        with pytest.raises(ValueError, match="Pipeline for"):
            self.fitted(make_pipeline(FunctionTransformer(scale), LogisticRegression()), budget)
        assert budget.spent().epsilon == 0

    def test_the_receipt_states_the_assumption(self):
        assert self.LINE in self.fitted(LogisticRegression()).privacy_.assumptions
        plain = SemiPrivateClassifier(Stumps(), classes=[0, 1])
        plain.fit(PRIVATE_ROWS, PRIVATE_LABELS, X_public=PUBLIC)
        assert self.LINE not in plain.privacy_.assumptions
        hypotheses = FiniteClass([self.PLAIN])
        grid = {"alpha": [0.1, 0.2]}
        search = SemiPrivateSearchCV(SemiPrivateClassifier(hypotheses), grid, classes=[0, 1])
        search.fit(PRIVATE_ROWS, PRIVATE_LABELS, X_public=PUBLIC)
        assert self.LINE in search.privacy_.assumptions


class TestReleasedModels:
    """A constant threshold on a model with a receipt uses no private row."""

    rows = np.random.default_rng(0).normal(size=(300, 2))
    labels = rows[:, 0] > 0

    def fitted(self, step=None):
        learner = SemiPrivateClassifier(random_state=0)
        learner = learner.fit(self.rows, self.labels, X_public=self.rows[:50].copy())
        if step is None:
            return learner
        return make_pipeline(step, learner, transform_input=["X_public"])

    @pytest.mark.parametrize("step", [None, PublicFit(StandardScaler())])
    def test_no_finding(self, step):
        frozen = FrozenEstimator(self.fitted(step))
        assert check_pipeline(FixedThresholdClassifier(frozen, threshold=0.2)) == []
        others = check_pipeline(VotingClassifier([("a", frozen), ("b", PRIVATE)]))
        assert any("their ε add up" in str(finding) for finding in others)

    @pytest.mark.parametrize(
        "frozen",
        [
            lambda self: FrozenEstimator(self.fitted(StandardScaler())),
            lambda self: FrozenEstimator(SemiPrivateClassifier()),
            lambda self: FrozenEstimator(LogisticRegression().fit(self.rows, self.labels)),
        ],
    )
    def test_what_no_receipt_covers_is_found(self, frozen):
        assert len(check_pipeline(FixedThresholdClassifier(frozen(self), threshold=0.2))) == 1

    def test_a_calibration_does_not_protect_its_estimator(self):
        public = LogisticRegression().fit(self.rows, self.labels)
        for estimator in (public, FrozenEstimator(public)):
            sets = ConformalClassifier(estimator, random_state=0).fit(self.rows, self.labels)
            (finding,) = check_pipeline(sets)
            assert "unknown which rows were used" in str(finding)
            fixed = FixedThresholdClassifier(FrozenEstimator(sets), threshold=0.2)
            assert len(check_pipeline(fixed)) == 1
        learner = SemiPrivateBoostingClassifier(random_state=0)
        learner = learner.fit(self.rows, self.labels, X_public=self.rows[:50].copy())
        private = ConformalClassifier(learner, random_state=0)
        assert check_pipeline(private.fit(self.rows, self.labels)) == []
