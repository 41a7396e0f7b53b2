"""Scores, searches and private metrics accept the labels that `fit` accepts, with one result."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    PPMHalfspaceClassifier,
    PrivacyBudget,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
    SemiPrivateLogisticRegression,
    SubsamplingActiveLearner,
)
from skpublicdp.data import open_rows
from skpublicdp.exceptions import ImplausibleScoreWarning
from skpublicdp.hypotheses import Stumps
from skpublicdp.metrics import (
    make_private_scorer,
    private_accuracy_score,
    private_balanced_accuracy_score,
    private_confusion_matrix,
    private_roc_auc_score,
    private_scores,
)
from skpublicdp.model_selection import SemiPrivateSearchCV
from tests.internals.data import label_positions, labels_equal

RNG = np.random.default_rng(0)
N = 120
X, PUBLIC = RNG.normal(size=(N, 2)), RNG.normal(size=(40, 2))
CODES = (X[:, 0] + RNG.normal(size=N) > 0).astype(int)
EXACT = 1e6
"""An ε at which noise hides no row."""

pytestmark = [
    pytest.mark.skipif(
        pd.Series(["a"]).dtype == object, reason="pandas declares text from version 3 on"
    ),
    pytest.mark.filterwarnings("ignore:A column-vector y"),
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning"),
]


def text(codes):
    return np.where(codes, "yes", "no")


def decimals(codes):
    return [Decimal(int(code)) for code in codes]


NUMBERS = {
    "int64": np.asarray,
    "int8": lambda codes: codes.astype("int8"),
    "uint64": lambda codes: codes.astype("uint64") + np.uint64(2**63),
    "beyond floats": lambda codes: codes + 2**60,
    "ends of int64": lambda codes: np.where(codes, np.iinfo("i8").max, np.iinfo("i8").min),
    "-1 and 1": lambda codes: 2 * codes - 1,
    "bool": lambda codes: codes.astype(bool),
    "float64": lambda codes: codes.astype(float),
    "float16": lambda codes: codes.astype("f2"),
    "object int": lambda codes: codes.astype(object),
    "object bool": lambda codes: codes.astype(bool).astype(object),
    "object float": lambda codes: codes.astype(float).astype(object),
    "object Decimal": lambda codes: np.array(decimals(codes), dtype=object),
    "masked array": np.ma.array,
    "column": lambda codes: codes[:, None],
    "list int": lambda codes: codes.tolist(),
    "list bool": lambda codes: codes.astype(bool).tolist(),
    "list beyond floats": lambda codes: (codes + 2**60).tolist(),
    "list beyond int64": lambda codes: [2**63 + int(code) for code in codes],
    "list Decimal": decimals,
    "list Fraction": lambda codes: [Fraction(int(code)) for code in codes],
    "list of lists": lambda codes: codes[:, None].tolist(),
    "tuple": lambda codes: tuple(codes.tolist()),
    "pandas object int": lambda codes: pd.Series(codes.astype(object)),
    "pandas object bool": lambda codes: pd.Series(codes.astype(bool).astype(object)),
    "pandas Int64": lambda codes: pd.Series(codes).astype("Int64"),
    "pandas boolean": lambda codes: pd.Series(codes).astype("boolean"),
    "pandas int64[pyarrow]": lambda codes: pd.Series(codes).astype("int64[pyarrow]"),
    "pandas category int": lambda codes: pd.Series(codes).astype("category"),
    "pandas category bool": lambda codes: pd.Series(codes.astype(bool)).astype("category"),
    "pandas frame": lambda codes: pd.DataFrame({"y": codes}),
    "pandas Index": pd.Index,
    "pandas array": lambda codes: pd.array(codes, dtype="Int64"),
    "polars int": pl.Series,
    "polars UInt8": lambda codes: pl.Series(codes, dtype=pl.UInt8),
    "polars bool": lambda codes: pl.Series(codes.astype(bool)),
    "polars Decimal": lambda codes: pl.Series(decimals(codes)),
    "polars frame": lambda codes: pl.DataFrame({"y": codes}),
    "Arrow int": pa.array,
    "Arrow bool": lambda codes: pa.array(codes.astype(bool)),
    "Arrow decimal": lambda codes: pa.array(decimals(codes)),
    "Arrow dictionary of int": lambda codes: pa.array(codes).dictionary_encode(),
    "Arrow table": lambda codes: pa.table({"y": codes}),
}
TEXTS = {
    "U": text,
    "object text": lambda codes: text(codes).astype(object),
    "list text": lambda codes: text(codes).tolist(),
    "pandas str": lambda codes: pd.Series(text(codes), dtype="str"),
    "pandas string": lambda codes: pd.Series(text(codes), dtype="string"),
    "pandas string[pyarrow]": lambda codes: pd.Series(text(codes), dtype="string[pyarrow]"),
    "pandas category": lambda codes: pd.Series(text(codes)).astype("category"),
    "pandas Categorical": lambda codes: pd.Categorical(text(codes)),
    "pandas text Index": lambda codes: pd.Index(text(codes)),
    "pandas text array": lambda codes: pd.array(text(codes), dtype="string"),
    "polars text": lambda codes: pl.Series(text(codes).tolist()),
    "polars Categorical": lambda codes: pl.Series(text(codes).tolist(), dtype=pl.Categorical),
    "polars Enum": lambda codes: pl.Series(text(codes).tolist(), dtype=pl.Enum(["no", "yes"])),
    "Arrow text": lambda codes: pa.array(text(codes).tolist()),
    "Arrow chunks": lambda codes: pa.chunked_array([text(codes[:50]), text(codes[50:])]),
    "Arrow dictionary": lambda codes: pa.array(text(codes).tolist()).dictionary_encode(),
}
CONTAINERS = NUMBERS | TEXTS
UNDECLARED_TEXTS = {"object text", "list text"}
# scikit-learn's own splitting fails for these before any fit, whatever the estimator
NOT_SPLIT = {"pandas Index", "pandas array", "pandas text Index", "pandas text array"}

UNSEEDED = SemiPrivateClassifier(Stumps(), epsilon=20.0)
CLF = clone(UNSEEDED).set_params(random_state=0)
LEARNERS = [
    CLF,
    SemiPrivateBoostingClassifier(max_rounds=1, random_state=0),
    GenericLearnerClassifier(Stumps(), random_state=0),
    LabelBoostClassifier(random_state=0),
    PPMHalfspaceClassifier(max_halfspaces=20, random_state=0),
    SubsamplingActiveLearner(n_labels=20, random_state=0),
    SemiPrivateSearchCV(UNSEEDED, {"public_weight": [0, 1]}, random_state=0),
    SemiPrivateLogisticRegression(random_state=0),
]


def results(make):
    """Return all scores of rules that are fitted to labels in a container."""
    y, extra = make(CODES), {"params": {"X_public": PUBLIC}}
    clf = clone(CLF).fit(X, y, X_public=PUBLIC)
    labels = clf.classes_
    found = {
        "score": clf.score(X, y),
        "weighted": clf.score(X, y, sample_weight=np.arange(N)),
        "private_scores": private_scores(clf, X, y, epsilon=EXACT).accuracy,
        "private_accuracy": float(private_accuracy_score(y, clf.predict(X), epsilon=EXACT)),
        "private_matrix": private_confusion_matrix(
            y, clf.predict(X), labels=labels, epsilon=EXACT
        ).value,
        "private_auc": float(
            private_roc_auc_score(y, X[:, 0] > 0, pos_label=labels[1], epsilon=EXACT)
        ),
        "private_scorer": make_private_scorer("balanced_accuracy", epsilon=EXACT)(clf, X, y),
        "permutation": permutation_importance(
            clf, X, y, n_repeats=2, random_state=0
        ).importances_mean,
    }
    declared = clone(CLF).set_params(classes=make(np.array([0, 1])))
    found["declared"] = declared.fit(X, y, X_public=PUBLIC).score(X, y)
    search = SemiPrivateSearchCV(UNSEEDED, {"public_weight": [0, 1]}, epsilon=20.0, random_state=0)
    found["SemiPrivateSearchCV"] = search.fit(X, y, X_public=PUBLIC).score(X, y)
    if make not in [CONTAINERS[name] for name in NOT_SPLIT]:
        found["cross_val_score"] = cross_val_score(CLF, X, y, cv=KFold(3), **extra)
        grid = GridSearchCV(CLF, {"epsilon": [1e-3, 20.0]}, cv=KFold(3), error_score="raise")
        grid.fit(X, y, X_public=PUBLIC)
        found["grid"] = grid.best_score_
    return found


@pytest.fixture(scope="module")
def expected():
    return results(np.asarray)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("container", CONTAINERS)
def test_every_score_is_that_of_plain_integers(container, expected):
    found = results(CONTAINERS[container])
    assert len(found) >= 10
    for name, value in found.items():
        assert np.isfinite(value).all()
        np.testing.assert_allclose(value, expected[name], atol=1e-3, err_msg=name)
    is_correct = clone(CLF).fit(X, CODES, X_public=PUBLIC).predict(X) == CODES
    assert expected["score"] == is_correct.mean() > 0.65
    assert expected["weighted"] == pytest.approx(np.average(is_correct, weights=np.arange(N)))


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    "container",
    ["object bool", "object int", "beyond floats", "uint64", "list Decimal", "polars Enum"],
)
def test_every_learner_scores_what_it_fits(learner, container):
    y = CONTAINERS[container](CODES)
    plain = clone(learner).fit(X, CODES, X_public=PUBLIC)
    clf = clone(learner).fit(X, y, X_public=PUBLIC)
    assert clf.score(X, y) == plain.score(X, CODES)
    assert private_scores(clf, X, y, epsilon=EXACT).accuracy == pytest.approx(
        plain.score(X, CODES), abs=1e-3
    )


@pytest.mark.parametrize("make", [np.asarray, pd.Series, pl.Series, lambda y: y.astype(object)])
def test_a_regressor_scores_what_it_fits(make):
    reg = SemiPrivateBoostingRegressor(outcome_bounds=(-3, 3), random_state=0)
    reg.fit(X, make(X[:, 1]), X_public=PUBLIC)
    assert reg.score(X, make(X[:, 1])) == reg.score(X, X[:, 1])
    texts = X[:, 1].astype(str)  # numbers in text are read, too
    assert clone(reg).fit(X, texts, X_public=PUBLIC).score(X, texts) == reg.score(X, X[:, 1])


def test_large_integers_that_share_a_float_are_two_labels():
    y = CODES + 2**60  # one float holds both
    clf = clone(CLF).fit(X, y, X_public=PUBLIC)
    assert clf.classes_.tolist() == [2**60, 2**60 + 1]
    assert clf.score(X, np.where(CODES, 2**60, 2**60 + 1)) == pytest.approx(1 - clf.score(X, y))
    # in public rows of another type
    mixed = SemiPrivateClassifier(Stumps(), random_state=0)
    mixed.fit(X, y, X_public=PUBLIC, y_public=[2**60, 2**60 + 1] * 20)
    unsigned = np.array([2**60, 2**60 + 1] * 20, dtype="uint64")
    assert (
        clone(mixed).fit(X, y, X_public=PUBLIC, y_public=unsigned).classes_.tolist()
        == mixed.classes_.tolist()
        == [2**60, 2**60 + 1]
    )
    unsigned = pa.array([2**63 + code for code in CODES.tolist()], pa.uint64())
    chunks = pa.table({"u": X[:, 0], "v": X[:, 1], "y": unsigned})
    rows = open_rows(chunks.to_batches(max_chunksize=50))
    streamed = clone(CLF).fit(
        rows.drop("y"), rows["y"], X_public=pd.DataFrame(PUBLIC, columns=["u", "v"])
    )
    assert streamed.classes_.tolist() == [2**63, 2**63 + 1]
    assert streamed.score(rows.drop("y"), rows["y"]) > 0.65


def test_numbers_are_compared_exactly():
    big = 2**60
    integers = np.array([big, big + 1, -1, 5])
    assert label_positions(integers, [big + 1, 5.0, True]).tolist() == [-1, 0, -1, 1]
    unsigned = np.array([2**64 - 1, big], dtype="uint64")
    assert label_positions(unsigned, [-1, big, float(2**64)]).tolist() == [-1, 1]
    floats = np.array([float(big), 1.0, np.nan, np.inf])
    assert label_positions(floats, [big + 1, big, 1, "1"]).tolist() == [1, 2, -1, -1]
    assert label_positions(integers, ["5", "a"]).tolist() == [-1, -1, -1, -1]
    assert labels_equal(integers, np.array([big, big, -1, 5.0])).tolist() == [
        *(True, False, True, True)
    ]
    assert labels_equal(np.array([-1]), np.array([2**64 - 1], dtype="uint64")).tolist() == [False]


REFUSED = {
    "StringDType": (text(CODES).astype(np.dtypes.StringDType()), "type StringDType"),
    "pandas dates": (pd.Series(pd.date_range("2020", periods=N, tz="UTC")), "got dates"),
    "polars dates": (pl.Series(pd.date_range("2020", periods=N).date.tolist()), "got dates"),
    "Arrow dates": (pa.array(pd.date_range("2020", periods=N).date.tolist()), "got dates"),
    "category of dates": (
        pd.Series(pd.date_range("2020", periods=N)).astype("category"),
        "got dates",
    ),
    "polars durations": (pl.Series(CODES).cast(pl.Duration), "got durations"),
    "polars lists": (pl.Series([[int(code)] for code in CODES]), "got lists"),
    "polars structs": (pl.Series([{"y": int(code)} for code in CODES]), "got structs"),
    "Arrow bytes": (pa.array(text(CODES).astype("S").tolist()), "got bytes"),
    "structured": (np.zeros(N, dtype=[("y", int)]), "got values of type"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_types_that_cannot_be_labels_are_refused_by_their_name(fault):
    y, says = REFUSED[fault]
    with pytest.raises(ValueError, match=says):
        clone(CLF).fit(X, y, X_public=PUBLIC)
    clf, budget = clone(CLF).fit(X, CODES, X_public=PUBLIC), PrivacyBudget(1)
    with pytest.raises(ValueError, match=says):
        clf.score(X, y)
    if fault != "StringDType":  # which the metrics read
        with pytest.raises(ValueError, match=says):
            private_scores(clf, X, y, budget=budget)
        with pytest.raises(ValueError, match=says):
            private_accuracy_score(y, CODES, budget=budget)
        assert budget.spent().epsilon == 0


def test_private_metrics_read_numpy_text():
    y = REFUSED["StringDType"][0]
    clf = clone(CLF).fit(X, text(CODES), X_public=PUBLIC)
    scores = private_scores(clf, X, y, epsilon=EXACT)
    assert scores.accuracy == pytest.approx(clf.score(X, text(CODES)), abs=1e-3)


def test_masked_labels_are_missing():
    y = np.ma.array(CODES, mask=np.arange(N) == 3)
    with pytest.raises(ValueError, match="contains missing labels"):
        clone(CLF).fit(X, y, X_public=PUBLIC)


@pytest.mark.parametrize(
    "learner", [CLF, LEARNERS[1], LEARNERS[6]], ids=lambda one: type(one).__name__
)
def test_public_labels_of_another_type_are_named(learner):
    for y, y_public in (
        (CODES, text(CODES)[:40]),
        (TEXTS["pandas str"](CODES), CODES[:40].tolist()),
    ):
        with pytest.raises(ValueError, match=r"got text in .*, and numbers in .*Convert"):
            clone(learner).fit(X, y, X_public=PUBLIC, y_public=y_public)
    # no public row has a label, so these have no type
    clone(learner).fit(X, text(CODES), X_public=PUBLIC, y_public=np.full(40, -1))


DIGITS = {name: lambda codes, name=name: TEXTS[name](codes) for name in TEXTS}
DIGITS["pandas str of digits"] = lambda codes: pd.Series(codes).astype("str")
DIGITS["U of digits"] = lambda codes: codes.astype(str)
METRICS = {
    "scores": lambda clf, y, **k: private_scores(clf, X, y, **k),
    "accuracy": lambda clf, y, **k: private_accuracy_score(y, clf.predict(X), **k),
    "accuracy of predictions": lambda clf, y, **k: private_accuracy_score(clf.predict(X), y, **k),
    "balanced": lambda clf, y, **k: private_balanced_accuracy_score(
        y, clf.predict(X), labels=clf.classes_, **k
    ),
    "matrix": lambda clf, y, **k: private_confusion_matrix(
        y, clf.predict(X), labels=clf.classes_, **k
    ),
    "auc": lambda clf, y, **k: private_roc_auc_score(
        y, X[:, 0] > 0, pos_label=clf.classes_[1], **k
    ),
    "accuracy scorer": lambda clf, y, **k: make_private_scorer("accuracy", **k)(clf, X, y),
    "balanced scorer": lambda clf, y, **k: make_private_scorer("balanced_accuracy", **k)(clf, X, y),
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("fitted", "container"),
    [
        *((np.asarray, DIGITS[name]) for name in DIGITS if name not in UNDECLARED_TEXTS),
        *(
            (text, NUMBERS[n])
            for n in ("int64", "bool", "pandas Int64", "polars bool", "Arrow int")
        ),
    ],
)
def test_labels_that_can_never_agree_cost_nothing(fitted, container, metric):
    """The declared type of one side is text, and that of the other side numbers."""
    clf, budget = clone(CLF).fit(X, fitted(CODES), X_public=PUBLIC), PrivacyBudget(1)
    with pytest.raises(ValueError, match="all text or all numbers"):
        METRICS[metric](clf, container(CODES), budget=budget)
    assert budget.spent().epsilon == 0


def test_streamed_labels_that_can_never_agree_cost_nothing():
    clf, budget = LEARNERS[1], PrivacyBudget(1)
    table = pa.table({"u": X[:, 0], "v": X[:, 1], "y": CODES, "t": CODES.astype(str).tolist()})
    rows = open_rows(table.to_batches(max_chunksize=50))
    features = rows.drop("y", "t")
    public = pd.DataFrame(PUBLIC, columns=["u", "v"])
    clf = clone(clf).fit(features, rows["y"], X_public=public)
    with pytest.raises(ValueError, match="got text in y, and numbers in the classes"):
        private_scores(clf, features, rows["t"], budget=budget)
    assert budget.spent().epsilon == 0
    assert private_scores(clf, features, rows["y"], budget=budget).accuracy > 0.5


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("container", ["list", "object array", "object series"])
def test_a_released_score_far_below_chance_is_told(container, metric):
    """Only private values show that these labels are text, so the release comes first."""
    digits = CODES.astype(str).astype(object)
    y = {
        "list": digits.tolist(),
        "object array": digits,
        "object series": pd.Series(digits, dtype=object),
    }
    numbers, budget = clone(CLF).fit(X, CODES, X_public=PUBLIC), PrivacyBudget(20)
    with pytest.warns(ImplausibleScoreWarning, match="Labels may be coded differently") as told:
        METRICS[metric](numbers, y[container], epsilon=20.0, budget=budget)
    assert [one.category for one in told].count(ImplausibleScoreWarning) == 1
    assert budget.spent().epsilon == 20
    # the same containers of labels that do agree
    numbers_in = {
        "list": CODES.tolist(),
        "object array": CODES.astype(object),
        "object series": pd.Series(CODES.astype(object)),
    }
    METRICS[metric](numbers, numbers_in[container], epsilon=20.0)


@pytest.mark.parametrize("metric", METRICS)
def test_a_single_private_label_decides_about_no_error_and_no_warning(metric):
    clf = clone(CLF).fit(X, CODES, X_public=PUBLIC)
    for odd in (
        "1",
        None,
        2.5,
        2**70,
        b"1",
        object(),
        (1, 2),
        Decimal("NaN"),
        pd.NA,
        np.datetime64(0, "D"),
    ):
        y = np.empty(N, dtype=object)
        y[:] = CODES
        y[7] = odd
        METRICS[metric](clf, y, epsilon=20.0)
        METRICS[metric](clf, y.tolist(), epsilon=20.0)


def test_labels_that_no_integer_type_holds_are_refused_without_a_quote():
    y, y_public = np.where(CODES, 5, -8675309), np.full(40, 2**63, dtype="uint64")
    for learner in (CLF, LEARNERS[1], LEARNERS[4], LEARNERS[6]):
        with pytest.raises(ValueError, match="integers of up to 64 bits") as refused:
            clone(learner).fit(X, y, X_public=PUBLIC, y_public=y_public)
        assert "8675309" not in str(refused.value)
    with pytest.raises(ValueError, match="integers of up to 64 bits"):
        clone(CLF).fit(X, [*y[1:].tolist(), 2**63], X_public=PUBLIC)
