"""PublicKFold, PublicShuffleSplit and check_pipeline."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from skpublicdp import PublicFit, SemiPrivateBoostingClassifier, SemiPrivateClassifier
from skpublicdp.exceptions import NoPublicDataWarning
from skpublicdp.metrics import private_scores
from skpublicdp.model_selection import PublicKFold, PublicShuffleSplit, check_pipeline

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2))
MASK = RNG.random(400) < 0.3
Y = np.where(MASK, -1, X[:, 0] > 0)

SPLITTERS = [
    PublicKFold(3),
    PublicKFold(3, shuffle=True, random_state=0),
    PublicShuffleSplit(3, test_size=0.3, random_state=0),
]
each_splitter = pytest.mark.parametrize("splitter", SPLITTERS, ids=repr)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@each_splitter
@given(data=st.data())
@settings(max_examples=40)
def test_tests_hold_labelled_private_rows_only(splitter, data):
    n = data.draw(st.integers(8, 30))
    masks = st.lists(st.booleans(), min_size=n, max_size=n).map(np.array)
    is_public, is_labelled = data.draw(masks), data.draw(masks)
    tested = np.flatnonzero(~is_public & is_labelled)
    given = {"is_public": is_public, "is_labelled": is_labelled}
    if len(tested) < 3:
        return
    splits = list(splitter.split(np.zeros((n, 1)), **given))
    assert len(splits) == splitter.get_n_splits(np.zeros((n, 1)), **given) == 3
    for train, test in splits:
        assert np.isin(test, tested).all()
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(n))
        assert len(test)
    if isinstance(splitter, PublicKFold):
        assert np.array_equal(np.sort(np.concatenate([test for _, test in splits])), tested)
        sizes = [len(test) for _, test in splits]
        assert max(sizes) - min(sizes) <= 1
    again = splitter.split(np.zeros((n, 1)), np.arange(n) % 2, **given)  # labels play no part
    for (train, test), (other_train, other_test) in zip(splits, again, strict=True):
        assert np.array_equal(train, other_train)
        assert np.array_equal(test, other_test)


@each_splitter
def test_persons_stay_together(splitter):
    persons = RNG.integers(0, 40, size=400)
    for train, test in splitter.split(X, Y, groups=persons, is_public=MASK):
        assert not set(persons[train[~MASK[train]]]) & set(persons[test])
        assert MASK[train].sum() == MASK.sum()
        assert 60 < len(test) < 130


def test_without_a_shuffle_folds_are_blocks():
    tests = [test.tolist() for _, test in PublicKFold(2).split(np.zeros((5, 1)))]
    assert tests == [[0, 1, 2], [3, 4]] == [test.tolist() for _, test in KFold(2).split(range(5))]


def test_the_size_of_a_shuffled_test():
    splits = PublicShuffleSplit(4, test_size=0.25, random_state=1).split(X, Y, is_public=MASK)
    tests = [test for _, test in splits]
    assert {len(test) for test in tests} == {round(0.25 * (~MASK).sum())}
    assert not np.array_equal(tests[0], tests[1])


@pytest.mark.parametrize(
    ("splitter", "given", "reason"),
    [
        (PublicKFold(1), {}, "n_splits .*2; got 1"),
        (PublicShuffleSplit(0), {}, "n_splits .*1; got 0"),
        (PublicShuffleSplit(test_size=1), {}, "test_size must be in"),
        (PublicKFold(5), {"is_public": np.arange(6) > 2}, "5 labelled private"),
        (PublicShuffleSplit(), {"is_public": np.arange(6) > 0}, "2 labelled private"),
        (PublicKFold(2), {"is_public": [0, 1, 0, 0, 2, 0]}, "status is unknown"),
        (PublicKFold(2), {"groups": [1, 2]}, "one person per row"),
        (PublicKFold(2), {"groups": [1, 2, 3, None, 5, 6]}, "one is missing"),
        (PublicKFold(2), {"y": [0, 1, -1, 0, 1, -1]}, "the mask"),
    ],
)
def test_what_is_refused(splitter, given, reason):
    with pytest.raises(ValueError, match=reason):
        list(splitter.split(np.zeros((6, 1)), **given))


@pytest.mark.parametrize("splitter", [PublicKFold, PublicShuffleSplit])
def test_masks_go_by_the_index_of_a_frame(splitter):
    frame = pd.DataFrame({"age": np.arange(8.0)})
    mask = pd.Series(np.arange(8) < 2)
    wanted = [test.tolist() for _, test in splitter(2, random_state=0).split(frame, is_public=mask)]
    for other in (mask[::-1], mask.set_axis(np.arange(8) + 1)):
        for name in ("is_public", "is_labelled", "groups"):
            with pytest.raises(ValueError, match=rf"{name} must have the same index as X"):
                list(splitter(2).split(frame, **{name: other}))
        with pytest.raises(ValueError, match="is_public must"):
            list(splitter(2, is_public=other).split(frame))
    for plain in (mask.to_numpy(), mask.tolist()):
        same = splitter(2, random_state=0).split(frame, is_public=plain)
        assert [test.tolist() for _, test in same] == wanted


@pytest.mark.parametrize("y", [[-1, 1, 1, -1], ["a", "b", "a", "b"]])
def test_labels_that_mark_nothing_are_let_through(y):
    assert len(list(PublicKFold(2).split(np.zeros((4, 1)), y))) == 2
    marked = [*y, 0, -1]
    assert len(list(PublicKFold(2).split(np.zeros((6, 1)), marked, is_labelled=np.full(6, True))))


@pytest.mark.usefixtures("routing")
class TestWithScikitLearn:
    PIPELINE = Pipeline([("scale", PublicFit()), ("clf", SemiPrivateClassifier(random_state=0))])

    @pytest.mark.parametrize("estimator", [SemiPrivateClassifier(random_state=0), PIPELINE])
    @each_splitter
    def test_cross_validation(self, estimator, splitter):
        scores = cross_validate(
            estimator, X, Y, cv=splitter, params={"is_public": MASK}, return_estimator=True
        )
        for fitted in scores["estimator"]:
            clf = fitted[-1] if isinstance(fitted, Pipeline) else fitted
            assert clf.privacy_.n_public == MASK.sum()
            assert clf.classes_.tolist() == [0, 1]
        assert scores["test_score"].mean() > 0.9  # no row without a label counts as an error

    def test_roc_auc_of_rows_without_labels_elsewhere(self):
        clf = SemiPrivateBoostingClassifier(method="votes", max_rounds=2, random_state=0)
        scores = cross_val_score(
            clf, X, Y, cv=PublicKFold(2), scoring="roc_auc", params={"is_public": MASK}
        )
        assert scores.min() > 0.8

    def test_grid_search(self):
        search = GridSearchCV(self.PIPELINE, {"clf__alpha": [0.05, 0.2]}, cv=PublicKFold(3))
        assert search.fit(X, Y, is_public=MASK).best_score_ > 0.9

    def test_other_splitters_are_told_of(self):
        """All public rows are in the last fold: its training rows are private."""
        order = np.argsort(MASK, kind="stable")
        with pytest.warns(NoPublicDataWarning, match="PublicKFold"):
            cross_val_score(
                SemiPrivateClassifier(random_state=0, classes=[0, 1]),
                X[order],
                np.maximum(Y[order], 0),
                cv=[(np.arange(100), np.arange(100, 200))],
                params={"is_public": MASK[order]},
            )


def test_without_metadata_routing_the_splitter_has_the_mask():
    scores = cross_val_score(
        SemiPrivateClassifier(random_state=0),
        X,
        Y,
        cv=PublicKFold(3, is_public=MASK),
        params={"is_public": MASK},
    )
    assert scores.mean() > 0.9
    with pytest.raises(ValueError, match="routing"):
        cross_val_score(
            SemiPrivateClassifier(), X, Y, cv=PublicKFold(3), params={"is_public": MASK}
        )


class Oversampler:
    """As in imbalanced-learn."""

    def fit_resample(self, X, y):
        return X, y

    def get_params(self, deep=True):
        return {}


PRIVATE = SemiPrivateClassifier()


@pytest.mark.parametrize(
    ("pipeline", "found"),
    [
        (PRIVATE, []),
        (make_pipeline(PublicFit(StandardScaler()), PRIVATE), []),
        (make_pipeline("passthrough", FunctionTransformer(), PRIVATE), []),
        (make_pipeline(StandardScaler(), PRIVATE), [("standardscaler", "wrap it in PublicFit")]),
        (
            make_pipeline(make_column_transformer((MinMaxScaler(), [0]), ("drop", [1])), PRIVATE),
            [("columntransformer.minmaxscaler", "PublicFit")],
        ),
        (
            make_pipeline(FeatureUnion([("a", StandardScaler()), ("b", PublicFit())]), PRIVATE),
            [("featureunion.a", "PublicFit")],
        ),
        (make_pipeline(make_pipeline(MinMaxScaler()), PRIVATE), [("pipeline.minmaxscaler", "")]),
        (LogisticRegression(), [("LogisticRegression", "declares no protection")]),
        (make_pipeline(Oversampler(), PRIVATE), [("oversampler", "k·ε")]),
        (
            BaggingClassifier(PRIVATE, n_estimators=7),
            [("BaggingClassifier", "and rows are repeated")],
        ),
        (
            BaggingClassifier(make_pipeline(PublicFit(), PRIVATE), bootstrap=False),
            [("BaggingClassifier", "31-bit seed")],
        ),
        (
            VotingClassifier([("a", PRIVATE), ("b", PRIVATE)]),
            [("VotingClassifier", "their ε add up")],
        ),
        (GridSearchCV(PRIVATE, {"alpha": [0.1]}), [("GridSearchCV", "use SemiPrivateSearchCV")]),
        (BaggingClassifier(LogisticRegression()), [("BaggingClassifier", "no protection")]),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_findings(pipeline, found):
    if isinstance(pipeline, Pipeline):
        pipeline.set_params(transform_input=["X_public"])
    findings = check_pipeline(pipeline)
    assert [finding.step for finding in findings] == [step for step, _ in found]
    for finding, (_, told) in zip(findings, found, strict=True):
        assert told in str(finding)


def test_a_fitted_pipeline_is_checked_as_well():
    pipeline = Pipeline([("scale", StandardScaler()), ("clf", SemiPrivateClassifier())])
    pipeline.fit(X, X[:, 0] > 0, clf__X_public=X[:50])
    assert [finding.step for finding in check_pipeline(pipeline)] == ["scale", "clf"]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([PublicFit(StandardScaler()), SemiPrivateClassifier()], True),
        (["passthrough", SemiPrivateClassifier()], False),
        ([SemiPrivateClassifier()], False),
        ([PublicFit(StandardScaler()), "passthrough"], False),
        ([PublicFit(StandardScaler()), LogisticRegression()], False),
    ],
)
def test_public_rows_that_pass_by_the_steps_are_told(steps, told):
    pipeline = make_pipeline(*steps)
    found = [str(finding) for finding in check_pipeline(pipeline) if "X_public" in str(finding)]
    assert len(found) == told
    pipeline.set_params(transform_input=["X_public"])
    assert not any("passed to fit" in str(finding) for finding in check_pipeline(pipeline))


def test_receipts_name_what_declares_no_protection():
    rows, y = X[:, :2], X[:, 0] > 0
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, y)
    receipt = private_scores(fitted, rows, y).privacy_
    (line,) = [line for line in receipt.assumptions if "declare no protection" in line]
    assert line.endswith(": standardscaler, logisticregression")
    clf = SemiPrivateClassifier(random_state=0).fit(rows, y, X_public=rows[:50].copy())
    receipt = private_scores(clf, rows, y).privacy_
    assert not any("declare no protection" in line for line in receipt.assumptions)
