"""Public rows go in everywhere alike: apart, by a mask, or described; and so does alpha."""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
    SubsamplingActiveLearner,
)
from skpublicdp.data import describe_columns
from skpublicdp.exceptions import NoPublicDataWarning, TooFewRowsWarning
from skpublicdp.hypotheses import Stumps
from skpublicdp.model_selection import SemiPrivateSearchCV
from tests.contracts.test_common import ESTIMATORS
from tests.label_boost.test_label_boost import Recorder

RNG = np.random.default_rng(0)
N, M = 1500, 200
X = 50 + 10 * RNG.normal(size=(N, 2))
Y = np.where(X[:, 0] + X[:, 1] > 103, "yes", "no")
PUBLIC = 50 + 10 * RNG.normal(size=(M, 2))
LABELS = np.where(PUBLIC[:, 0] + PUBLIC[:, 1] > 103, "yes", "no")
X_ALL, MASK = np.vstack([X, PUBLIC]), np.arange(N + M) >= N
Y_ALL = np.append(Y, LABELS)
DESCRIBED = describe_columns({"age": (20, 80, 50), "dose": (20, 80, 50)}, size=120)

LEARNERS = [
    SemiPrivateClassifier(random_state=0),
    PPMHalfspaceClassifier(max_halfspaces=60, random_state=0),
    LabelBoostClassifier(random_state=0),
    LabelBoostClassifier(release_labeler=True, random_state=0),
    GenericLearnerClassifier(random_state=0),
    SemiPrivateBoostingClassifier(max_rounds=2, random_state=0),
    SemiPrivateSearchCV(SemiPrivateClassifier(), {"alpha": [0.1, 0.2]}, random_state=0),
]
WITH_ALPHA = [*LEARNERS[:3], LEARNERS[4]]

pytestmark = pytest.mark.filterwarnings(
    "ignore::skpublicdp.exceptions.TooFewRowsWarning",
    "ignore::skpublicdp.exceptions.UnprovedWarning",
)
each_learner = pytest.mark.parametrize("learner", LEARNERS, ids=repr)


def labels_for(learner, y):
    """A released labeller leaves some of these labels for the base learner."""
    if not getattr(learner, "release_labeler", False):
        return y
    return np.where(np.arange(len(y)) % 2 == 0, y, "-1")


class TestPipelines:
    """A mask that a step consumed reaches the classifier behind it."""

    @each_learner
    def test_a_routed_mask_reaches_every_step(self, learner):
        steps = [("scale", PublicFit()), ("learn", clone(learner))]
        with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
            warnings.simplefilter("error", NoPublicDataWarning)
            pipeline = Pipeline(steps).fit(X_ALL, labels_for(learner, Y_ALL), is_public=MASK)
        scaler = StandardScaler().fit(PUBLIC)
        np.testing.assert_array_equal(pipeline[0].transformer_.mean_, scaler.mean_)
        receipt = pipeline[-1].privacy_
        assert (receipt.n_private, receipt.n_public) == (N, M)
        assert pipeline.score(X, Y) > 0.75

    @each_learner
    def test_names_of_steps_do_without_routing(self, learner):
        steps = [("scale", PublicFit()), ("learn", clone(learner))]
        pipeline = Pipeline(steps).fit(
            X_ALL, labels_for(learner, Y_ALL), scale__is_public=MASK, learn__is_public=MASK
        )
        assert pipeline[-1].privacy_.n_public == M

    @each_learner
    def test_described_rows_are_scaled_on_the_way(self, learner):
        frame = pd.DataFrame(X, columns=["age", "dose"])
        steps = [("scale", PublicFit().set_output(transform="pandas")), ("learn", clone(learner))]
        with sklearn.config_context(enable_metadata_routing=True):
            pipeline = Pipeline(steps, transform_input=["X_public"]).fit(
                frame, labels_for(learner, Y), X_public=DESCRIBED
            )
        assert pipeline[0].transformer_.mean_ == pytest.approx([50, 50], abs=1)
        assert pipeline[-1].privacy_.n_public == 120

    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
    def test_whatever_fit_takes_is_routed_without_being_asked_for(self, estimator):
        taken = set(inspect.signature(estimator.fit).parameters) - {"X", "y"}
        requests = estimator.get_metadata_routing()
        requests = getattr(requests, "_self_request", requests).fit.requests
        assert {name for name, wanted in requests.items() if wanted is True} == taken


PEOPLE = pd.DataFrame({"age": X[:, 0], "dose": X[:, 1], "job": np.where(Y == "yes", "a", "b")})
PEOPLE_PUBLIC = pd.DataFrame({"age": PUBLIC[:, 0], "dose": PUBLIC[:, 1], "job": LABELS}).replace(
    {"job": {"yes": "a", "no": "b"}}
)
NUMBERS = ["age", "dose"]
ONE_HOT = OneHotEncoder(sparse_output=False)
MIXED = ColumnTransformer([("codes", ONE_HOT, ["job"]), ("scaled", StandardScaler(), NUMBERS)])
STEPS = [*LEARNERS, PAPQueryRelease(random_state=0)]
each_step = pytest.mark.parametrize("learner", STEPS, ids=lambda one: type(one).__name__)


def piped(step, learner, rows, public):
    """Fit a pipeline that transforms private rows alone."""
    steps = [("before", clone(step)), ("learn", clone(learner))]
    y = labels_for(learner, Y)
    return Pipeline(steps).fit(rows, y, learn__X_public=public)


class TestPipelinesThatLeaveOutThePublicRows:
    HELP = ".*transform_input=.*X_public"

    @each_step
    @pytest.mark.parametrize(
        ("step", "columns", "name"),
        [
            (ONE_HOT, ["job"], "X_public"),
            (MIXED, [*NUMBERS, "job"], "X_public"),
            (clone(MIXED).set_output(transform="pandas"), [*NUMBERS, "job"], "job"),
        ],
    )
    def test_other_columns(self, learner, step, columns, name):
        with pytest.raises(ValueError, match=name + self.HELP):
            piped(step, learner, PEOPLE[columns], PEOPLE_PUBLIC[columns])

    @each_step
    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning")
    def test_names_where_there_are_none(self, learner):
        with pytest.warns(UserWarning, match="X_public" + self.HELP):
            piped(StandardScaler(), learner, PEOPLE[NUMBERS], PEOPLE_PUBLIC[NUMBERS])

    @pytest.mark.parametrize("learner", [STEPS[0], STEPS[5], STEPS[7]], ids=repr)
    def test_numbers_beyond_their_bounds(self, learner):
        """Private ranges may not be looked at, but bounds may."""
        learner = clone(learner).set_params(bounds=[(-9, 9), (-9, 9)])
        with pytest.raises(ValueError, match="x0.*bounds" + self.HELP):
            piped(StandardScaler(), learner, X, PUBLIC)

    @each_step
    @pytest.mark.parametrize("step", [StandardScaler(), MIXED])
    def test_what_helps(self, learner, step):
        steps = [("before", PublicFit(clone(step))), ("learn", clone(learner))]
        columns = NUMBERS if step is not MIXED else [*NUMBERS, "job"]
        with sklearn.config_context(enable_metadata_routing=True):
            fitted = Pipeline(steps, transform_input=["X_public"]).fit(
                PEOPLE[columns], labels_for(learner, Y), X_public=PEOPLE_PUBLIC[columns]
            )
        assert fitted[-1].privacy_.n_public == M


class TestColumnsThatXPublicLacks:
    """Without a pipeline there is no advice about one."""

    @each_step
    @pytest.mark.parametrize(
        ("rows", "public"),
        [
            (PEOPLE[NUMBERS], PEOPLE_PUBLIC[NUMBERS[:1]]),
            (PEOPLE[NUMBERS].to_numpy(), PEOPLE_PUBLIC[NUMBERS[:1]].to_numpy()),
        ],
        ids=["frames", "arrays"],
    )
    def test_no_pipeline(self, learner, rows, public):
        with pytest.raises(ValueError, match="X_public") as raised:
            clone(learner).fit(rows, labels_for(learner, Y), X_public=public)
        said = str(raised.value)
        assert "pipeline" not in said.lower()
        assert NUMBERS[1] in said or not hasattr(rows, "columns")

    def test_bounds(self):
        learner = SemiPrivateClassifier(bounds=(-9, 9))
        with pytest.raises(ValueError, match="bounds") as raised:
            learner.fit(X, Y, X_public=PUBLIC)
        assert "pipeline" not in str(raised.value).lower()


NUMERIC = [*LEARNERS[:5], SubsamplingActiveLearner(n_labels=300, random_state=0)]


class TestTextOfTypeObject:
    """A column of type object is text where public rows say so, and private ones never do."""

    @staticmethod
    def said(learner, rows, **public):
        with pytest.raises(ValueError, match="Column") as raised:
            clone(learner).fit(rows, labels_for(learner, Y_ALL[: len(rows)]), **public)
        return str(raised.value)

    @staticmethod
    def rows(values):
        ages = pd.Series([*PEOPLE["age"], *PEOPLE_PUBLIC["age"]])
        return pd.DataFrame({"age": ages, "job": pd.Series(values, dtype=object)})

    @pytest.mark.parametrize("learner", NUMERIC, ids=repr)
    def test_it_gets_the_sentence_of_declared_text(self, learner):
        rows = self.rows(["a", "b"] * ((N + M) // 2))
        name = type(learner).__name__
        declared = rows.astype({"job": "category"})
        sentence = self.said(learner, declared[:N], X_public=declared[N:]).replace(
            "categories", "text"
        )
        assert sentence.startswith("Column job ")
        assert name in sentence
        assert "['job']" in sentence
        assert self.said(learner, rows[:N], X_public=rows[N:]) == sentence
        arrays = rows.to_numpy()
        said = self.said(learner, arrays[:N], X_public=arrays[N:].copy())
        assert said == sentence.replace("Column job", "Column x1").replace("'job'", "1")
        if "is_public" in inspect.signature(learner.fit).parameters:
            assert self.said(learner, rows, is_public=MASK) == sentence

    @pytest.mark.parametrize("learner", NUMERIC, ids=repr)
    def test_all_columns_of_text_are_named(self, learner):
        rows = self.rows(["a", "b"] * ((N + M) // 2))
        rows = rows.assign(**{f"town{i}": rows["job"] for i in range(6)})
        for typed in (rows, rows.astype(dict.fromkeys(rows.columns[1:], "category"))):
            said = self.said(learner, typed[:N], X_public=typed[N:])
            assert said.startswith("Columns job, town0, town1, town2, town3 and 2 others ")
            assert "['job', 'town0', 'town1', 'town2', 'town3', ...])" in said
        said = self.said(learner, rows.iloc[:N, :3], X_public=rows.iloc[N:, :3])
        assert said.startswith("Columns job and town0 ")
        assert "['job', 'town0']" in said
        private = rows.iloc[:N, :3].assign(town0=1)  # public rows decide
        assert self.said(learner, private, X_public=rows.iloc[N:, :3]) == said

    @pytest.mark.parametrize("learner", NUMERIC, ids=repr)
    def test_text_among_public_numbers(self, learner):
        rows = self.rows([*range(N + M - 1), "unknown"])
        said = self.said(learner, rows[:N], X_public=rows[N:])
        assert "job" in said
        assert "OneHotEncoder" not in said

    @pytest.mark.parametrize("learner", NUMERIC, ids=repr)
    @pytest.mark.parametrize("public", [True, False])
    def test_private_text_is_told_from_nothing(self, learner, public):
        spoilt = [
            [*range(N - 1), "unknown"],
            ["unknown"] * N,
            [*range(N - 1), None],
            [*range(N - 1), np.inf],
        ]
        given = {"X_public": PEOPLE_PUBLIC.assign(job=1)[["age", "job"]]} if public else {}
        sentences = set()
        for values in spoilt:
            rows = self.rows([*values, *[0] * M])[:N]
            sentences.add(self.said(learner, rows, **given))
        assert len(sentences) == 1
        assert "job" in sentences.pop()


class TestDescribedRows:
    @pytest.mark.parametrize("named", [True, False])
    @pytest.mark.parametrize(
        "learner", [*LEARNERS, SubsamplingActiveLearner(n_labels=300, random_state=0)], ids=repr
    )
    def test_they_go_where_public_rows_go(self, learner, named):
        rows = pd.DataFrame(X, columns=["age", "dose"]) if named else X
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", TooFewRowsWarning)
            fitted = clone(learner).fit(rows, labels_for(learner, Y), X_public=DESCRIBED)
        assert fitted.privacy_.n_public == 120
        if "Search" not in type(learner).__name__:
            assert "description" in repr(fitted.privacy_)
        assert fitted.score(rows, Y) > 0.7

    def test_columns_go_by_their_names(self):
        turned = pd.DataFrame(X[:, ::-1], columns=["dose", "age"])
        uneven = describe_columns({"age": (0, 1), "dose": (5, 9)}, size=40)
        scaler = PublicFit().fit(turned, X_public=uneven)
        np.testing.assert_allclose(scaler.transformer_.mean_, [7, 0.5], atol=0.1)
        np.testing.assert_allclose(scaler.transform(uneven).mean(axis=0), 0, atol=1e-9)
        with pytest.raises(ValueError, match="pulse"):
            PublicFit().fit(turned.rename(columns={"age": "pulse"}), X_public=uneven)


class TestMaskOrApart:
    """It is one thing whether public rows are marked or come in an argument of their own."""

    @pytest.mark.parametrize("released", [False, True])
    def test_label_boost(self, released):
        clf = LabelBoostClassifier(
            Recorder(), release_labeler=released, epsilon=3.0, delta=1e-6, random_state=0
        )
        y = np.where(np.arange(N) < 300, Y, "-1")
        apart = clone(clf).fit(X, y, X_public=PUBLIC)
        for labels in ("-1", "yes", "a label that nobody has", 7, np.nan):
            with_public = np.append(y.astype(object), np.full(M, labels, dtype=object))
            masked = clone(clf).fit(X_ALL, with_public, is_public=MASK)
            np.testing.assert_array_equal(masked.estimator_.X, apart.estimator_.X)
            np.testing.assert_array_equal(masked.estimator_.y, apart.estimator_.y)
            assert masked.classes_.tolist() == ["no", "yes"]
        assert (masked.privacy_.n_private, masked.privacy_.n_public) == (N, M)
        given = {tuple(row) for row in PUBLIC}
        assert not any(tuple(row) in given for row in masked.estimator_.X)

    def test_generic_learner(self):
        y = np.where(np.arange(N) < 500, Y, "-1")
        clf = GenericLearnerClassifier(random_state=0)
        alone = clone(clf).fit(X, y)
        apart = clone(clf).fit(X, y, X_public=PUBLIC)
        masked = clone(clf).fit(X_ALL, np.append(y, LABELS), is_public=MASK)
        assert str(masked.hypothesis_) == str(apart.hypothesis_)
        for one in (apart, masked):  # public rows cost nothing and leave the synthetic ones alone
            np.testing.assert_array_equal(one.sanitized_, alone.sanitized_)
            assert one.privacy_.mechanisms == alone.privacy_.mechanisms
            assert (one.privacy_.n_private, one.privacy_.n_public) == (N, M)

    def test_public_rows_alone_choose_the_cover_of_a_generic_learner(self):
        clf = GenericLearnerClassifier(Stumps(), random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            clf = clone(clf).fit(X, Y, X_public=PUBLIC)
        assert clf.sanitized_.shape == (0, 2)
        semi = SemiPrivateClassifier(Stumps()).fit(X, Y, X_public=PUBLIC)
        assert clf.cover_size_ == semi.cover_size_
        assert clf.privacy_.epsilon == 1.0

    def test_groups_of_public_rows_are_not_looked_at(self):
        persons = np.append(np.arange(N) // 2, np.full(M, -1)).astype(float)
        persons[MASK] = np.nan
        clf = GenericLearnerClassifier(max_rows_per_group=1, random_state=0)
        clf = clf.fit(X_ALL, Y_ALL, is_public=MASK, groups=persons)
        assert (clf.privacy_.n_private, clf.privacy_.n_public) == (N // 2, M)


class TestAlpha:
    @pytest.mark.parametrize("learner", WITH_ALPHA, ids=repr)
    def test_grid_search_over_epsilon_and_alpha(self, learner):
        grid = {"epsilon": [1e-4, 5.0], "alpha": [0.05, 0.4]}
        search = GridSearchCV(learner, grid, cv=KFold(3)).fit(X, Y, X_public=PUBLIC)
        assert search.best_params_["epsilon"] == 5.0
        assert search.best_estimator_.privacy_.n_public == M
        assert search.best_score_ > 0.85

    @pytest.mark.parametrize("learner", WITH_ALPHA, ids=repr)
    def test_a_smaller_one_is_a_finer_cover(self, learner):
        sizes = []
        for alpha in (0.5, 0.25, 0.12):
            clf = clone(learner).set_params(alpha=alpha).fit(X, Y, X_public=PUBLIC)
            sizes.append(getattr(clf, "estimator_", clf).cover_size_)
        assert sizes == sorted(sizes)
        assert sizes[0] < sizes[-1]


class TestIndex:
    """A series of pandas goes by the names of rows or not at all."""

    FRAME = pd.DataFrame(X_ALL, columns=["age", "dose"])
    STATUS = pd.Series(MASK)

    @pytest.mark.parametrize("estimator", [*STEPS, PublicFit()], ids=repr)
    def test_a_mask_in_another_order_is_refused(self, estimator):
        y = () if isinstance(estimator, PublicFit) else (labels_for(estimator, Y_ALL),)
        for mask in (self.STATUS[::-1], self.STATUS.set_axis(np.arange(N + M) + 1)):
            with pytest.raises(ValueError, match="is_public"):
                clone(estimator).fit(self.FRAME, *y, is_public=mask)
        same = clone(estimator).fit(self.FRAME, *y, is_public=self.STATUS[::-1].loc[::-1])
        assert not hasattr(same, "privacy_") or same.privacy_.n_public == M

    def test_persons_in_another_order_are_refused(self):
        persons = pd.Series(np.arange(N + M) // 2)
        clf = SemiPrivateClassifier(max_rows_per_group=1, random_state=0)
        with pytest.raises(ValueError, match="groups"):
            clf.fit(self.FRAME, Y_ALL, is_public=self.STATUS, groups=persons[::-1])
        for plain in (persons, persons[::-1].to_numpy()):
            clf.fit(self.FRAME, Y_ALL, is_public=self.STATUS, groups=plain)

    def test_arrays_go_by_position(self):
        named = self.FRAME.set_axis([f"row {i}" for i in range(N + M)])
        turned = self.STATUS.set_axis(np.arange(N + M)[::-1])
        for rows, mask in ((named, MASK), (X_ALL, turned)):
            clf = SemiPrivateClassifier(random_state=0).fit(rows, Y_ALL, is_public=mask)
            assert clf.privacy_.n_public == M
