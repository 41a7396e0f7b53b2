"""Golden numbers: seeded fits of every estimator and mode give the numbers of `golden.json`.

While names, docstrings and files change, nothing that is computed may. Each case is a seeded fit or
release: what it draws, releases, answers, predicts and charges is recorded. Whole numbers and
labels must be equal. Floats may differ in their last digits, as vector units of processors do. No
text, class name or pickle is recorded. `make test` runs 29 cases, and `make golden` all of them.
``python -m tests.test_golden [CASE ...]`` records numbers anew, in a commit that says which of them
change and why.
"""

import json
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
    SubsamplingActiveLearner,
)
from skpublicdp.accounting import basic_price, mu_squared_price, rho_price
from skpublicdp.data import open_rows
from skpublicdp.hypotheses import (
    Conjunctions,
    DecisionTrees,
    Halfspaces,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
    Union,
)
from skpublicdp.metrics import (
    private_balanced_accuracy_score,
    private_confusion_matrix,
    private_roc_auc_score,
    private_scores,
)
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.query_release import (
    CustomQueries,
    HalfspaceQueries,
    IntervalQueries,
    MarginalQueries,
    RectangleQueries,
    StumpQueries,
    ThresholdQueries,
)
from skpublicdp.sanitizers import BLRSanitizer, QuantileSanitizer
from tests import ROOT

pytestmark = pytest.mark.once
RECORD = ROOT / "tests" / "golden.json"
DIGITS = 7
RTOL = 1e-4
ATOL = 1e-7


def _rows(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(2) + shift
    margin = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n)
    return X, margin


def _frame(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float) + shift,
            "job": rng.choice(["a", "b", "c", "d"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "smoker": rng.random(n) < 0.3,
            "wage": rng.gamma(2.0, 10.0, n).round(),
        }
    )
    margin = (frame["age"] - 50) / 20 + (frame["job"] == "a") - frame["smoker"] + rng.normal(size=n)
    frame.loc[rng.random(n) < 0.1, "wage"] = np.nan
    return frame, margin.to_numpy()


N = 1200
ARRAY, ARRAY_MARGIN = _rows(N, 0)
FRAME, FRAME_MARGIN = _frame(N, 1)
TABLE = FRAME.assign(wage=FRAME["wage"].fillna(0.0))
NEW = {"array": _rows(12, 2)[0], "frame": _frame(12, 3)[0]}
GROUPS = np.arange(N) // 2
PUBLIC = {"none": (None, None), "few": (12, 0.0), "many": (150, 0.0), "drifted": (150, 0.7)}


def _labels(margin, k=2):
    return np.searchsorted(np.quantile(margin, np.arange(1, k) / k), margin)


def _public(kind, make, name, scale=1.0):
    count, shift = PUBLIC[kind]
    return None if count is None else make(count, 4, shift * scale)


def _given(kind, public, labelled, k=2):
    """Return the public arguments of a fit."""
    make, scale = (_rows, 1.0) if kind == "array" else (_frame, 15.0)
    rows = _public(public, make, kind, scale)
    if rows is None:
        return {}
    return {"X_public": rows[0]} | ({"y_public": _labels(rows[1], k)} if labelled else {})


def recorded_form(numbers):
    """Return an iterator over (shape, values) of each array in nested numbers, ready for JSON.

    Floats keep `DIGITS` significant digits. Labels are recorded as their ranks, so that no text
    is recorded.
    """
    for array in _arrays(numbers):
        values = array.ravel().tolist()
        if array.dtype.kind == "f":
            values = [float(f"{value:.{DIGITS}g}") for value in values]
        elif array.dtype.kind == "b":
            values = [int(value) for value in values]
        elif array.dtype.kind not in "iu":
            values = np.unique(array.ravel().astype(str), return_inverse=True)[1].tolist()
        yield [list(array.shape), values]


def _arrays(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _arrays(part)
    elif value is not None:
        yield np.asarray(value)


def computed(name):
    """Return the recorded form of a case, computed now."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(recorded_form(CASES[name]()))


def _receipt(receipt):
    event = receipt.event
    whole = [float(price) for price in (*basic_price(event), mu_squared_price(event))]
    return [
        [receipt.epsilon, receipt.delta, receipt.n_private, receipt.n_public],
        [*whole, float(rho_price(event))],
        [[one.epsilon, one.delta] for one in receipt.mechanisms],
    ]


ATTRIBUTES = (
    "cover_size_", "cover_radius_", "guarantee_", "n_rounds_", "intercept_", "drift_",
    "feature_importances_", "best_index_", "sanitized_",
)  # fmt: skip


def _numbers(model, X):
    """Return what a fitted estimator holds, predicts and has spent."""
    numbers = [getattr(model, name, None) for name in ATTRIBUTES]
    for name in ("predict", "predict_proba", "decision_function"):
        if hasattr(model, name):
            numbers.append(getattr(model, name)(X))
    if hasattr(model, "interval") and hasattr(model, "outcome_bounds_"):
        numbers += [model.interval(X), model.interval(X, of="mean")]
    return [numbers, _receipt(model.privacy_)]


CASES = {}


def _case(name):
    def keep(fit):
        assert name not in CASES, name
        CASES[name] = fit

    return keep


def _classify(name, model, kind="array", public="many", labelled=False, k=2, y=None, **arguments):
    X = {"array": ARRAY, "frame": FRAME}[kind]
    margin = {"array": ARRAY_MARGIN, "frame": FRAME_MARGIN}[kind]

    @_case(name)
    def _():
        target = _labels(margin, k) if y is None else y
        given = _given(kind, public, labelled, k)
        fitted = model().fit(X, target, **given, **arguments)
        return _numbers(fitted, NEW[kind])


# rules

RULES = {
    "thresholds": Thresholds,
    "stumps": Stumps,
    "intervals": Intervals,
    "trees": DecisionTrees,
    "trees 3": lambda: DecisionTrees(max_depth=3),
    "halfspaces": Halfspaces,
    "rectangles": Rectangles,
    "conjunctions": Conjunctions,
    "union": lambda: Union([Stumps(), Intervals()]),
}
for name, rules in RULES.items():
    for public in ("many", "none"):
        if (name, public) in {("trees 3", "none"), ("halfspaces", "none")}:
            continue
        _classify(
            f"rule, {name}, {public}",
            lambda rules=rules: SemiPrivateClassifier(
                rules(), random_state=0, bounds=(-5, 5), classes=[0, 1]
            ),
            public=public,
        )
for epsilon in (0.01, 10.0):
    _classify(
        f"rule, ε {epsilon}",
        lambda epsilon=epsilon: SemiPrivateClassifier(epsilon=epsilon, random_state=1),
    )
_classify(
    "rule, labelled public",
    lambda: SemiPrivateClassifier(Stumps(), public_weight=5, random_state=2),
    labelled=True,
)
_classify("rule, three labels", lambda: SemiPrivateClassifier(random_state=3), k=3)
_classify(
    "rule, persons",
    lambda: SemiPrivateClassifier(Stumps(), max_rows_per_group=2, random_state=4),
    groups=GROUPS,
)
_classify(
    "rule, mask",
    lambda: SemiPrivateClassifier(random_state=5),
    public="none",
    is_public=np.arange(N) < 100,
)

# mixtures

for weight in (None, "balanced"):
    for pool in ("auto", "paper"):
        X2 = ARRAY[:, :2]

        @_case(f"mixture, {weight}, {pool}")
        def _(weight=weight, pool=pool, X2=X2):
            y = (X2.sum(axis=1) > 0.3).astype(int)
            public = (y == 0) & (np.arange(N) < 400)
            model = PPMHalfspaceClassifier(
                private_label=1, class_weight=weight, pool=pool, random_state=6
            )
            model.fit(X2, y, is_public=public)
            return _numbers(model, NEW["array"][:, :2])


# few labels

HALF = np.where(np.arange(N) < 600, _labels(ARRAY_MARGIN), -1)
for public in ("none", "many"):
    _classify(
        f"label boost, {public}",
        lambda: LabelBoostClassifier(
            hypotheses=Stumps(), classes=[0, 1], bounds=(-5, 5), random_state=7
        ),
        public=public,
        y=HALF,
    )
    _classify(
        f"generic learner, {public}",
        lambda: GenericLearnerClassifier(Stumps(), classes=[0, 1], bounds=(-5, 5), random_state=8),
        public=public,
        y=HALF,
    )
_classify(
    "label boost, released labeler",
    lambda: LabelBoostClassifier(
        hypotheses=Stumps(), release_labeler=True, classes=[0, 1], random_state=9
    ),
    y=HALF,
)
for roles in ("random", "paper"):

    @_case(f"active, {roles}")
    def _(roles=roles):
        learner = SubsamplingActiveLearner(
            SemiPrivateClassifier(Stumps()), n_labels=60, roles=roles, random_state=10,
            classes=[0, 1],
        )  # fmt: skip
        asked = learner.query(ARRAY)
        told = np.full(N, -1)
        told[asked] = _labels(ARRAY_MARGIN)[asked]
        return [np.asarray(asked), _numbers(learner.fit(ARRAY, told), NEW["array"])]


# boosting

BOOSTING = {
    "auto, many": {},
    "auto, none": {"public": "none"},
    "auto, few": {"public": "few"},
    "auto, drifted": {"public": "drifted"},
    "auto, labelled": {"labelled": True},
    "auto, pure": {"delta": 0.0},
    "auto, ε .1": {"epsilon": 0.1},
    "auto, ε 20": {"epsilon": 20.0},
    "auto, ε 20, none": {"epsilon": 20.0, "public": "none"},
    "auto, ε 20, labelled": {"epsilon": 20.0, "labelled": True},
    "auto, ε 20, drifted": {"epsilon": 20.0, "public": "drifted"},
    "moments": {"method": "moments"},
    "moments, pure": {"method": "moments", "delta": 0.0},
    "moments, ε 20": {"method": "moments", "epsilon": 20.0},
    "votes": {"method": "votes"},
    "votes, none": {"method": "votes", "public": "none"},
    "votes, labelled": {"method": "votes", "labelled": True},
    "votes, pure": {"method": "votes", "delta": 0.0},
    "monotone": {"monotonic_cst": {"age": 1}},
    "persons": {"max_rows_per_group": 2, "groups": GROUPS},
    "three labels": {"k": 3},
    "three labels, ε 20": {"k": 3, "epsilon": 20.0},
    "three labels, pure": {"k": 3, "delta": 0.0},
    "three labels, votes": {"k": 3, "method": "votes"},
    "three labels, pure, drifted": {"k": 3, "delta": 0.0, "public": "drifted"},
    "three labels, labelled": {"k": 3, "labelled": True},
}
LISTED = {"job": ["a", "b", "c", "d"], "smoker": [False, True]}


def _listed(frame):
    """Return a frame whose types list the categories, so that no public row has to."""
    return frame.astype({"job": pd.CategoricalDtype(LISTED["job"]), "smoker": "boolean"})


def _boost(settings, cls=SemiPrivateBoostingClassifier, **more):
    settings = settings | more
    arguments = {name: settings.pop(name) for name in ("groups",) if name in settings}
    k, public = settings.pop("k", 2), settings.pop("public", "many")
    labelled = settings.pop("labelled", False)

    def fit():
        given = _given("frame", public, labelled, k)
        if given:
            given["X_public"] = _listed(given["X_public"])
        y = _labels(FRAME_MARGIN, k)
        if cls is SemiPrivateBoostingRegressor:
            y = FRAME_MARGIN
            if labelled:
                given["y_public"] = _frame(150, 4)[1]
        model = cls(bounds={"age": (0, 130), "wage": (0, 200)}, random_state=11, **settings)
        model.fit(_listed(FRAME), y, **given, **arguments)
        return _numbers(model, _listed(NEW["frame"]))

    return fit


for name, settings in BOOSTING.items():
    _case(f"boosting, {name}")(_boost(settings))
REGRESSION = {
    "auto": {},
    "none": {"public": "none"},
    "labelled": {"labelled": True},
    "drifted": {"public": "drifted"},
    "pure": {"delta": 0.0},
    "ε .1": {"epsilon": 0.1},
    "ε 20": {"epsilon": 20.0},
    "persons": {"max_rows_per_group": 2, "groups": GROUPS},
}
for name, settings in REGRESSION.items():
    regress = _boost(settings, SemiPrivateBoostingRegressor, outcome_bounds=(-4, 4))
    _case(f"regression, {name}")(regress)


@_case("boosting, stream")
def _():
    import pyarrow as pa

    rows = pa.Table.from_pandas(FRAME.assign(y=_labels(FRAME_MARGIN)))
    model = SemiPrivateBoostingClassifier(random_state=12, classes=[0, 1])
    model.fit(open_rows(rows.select(FRAME.columns.tolist())), _labels(FRAME_MARGIN),
              X_public=_frame(150, 4)[0])  # fmt: skip
    return _numbers(model, NEW["frame"])


# releases

MIXED = {
    "tables of 2": (MarginalQueries(2), {}),
    "tables of 3": (MarginalQueries(3), {}),
    "tables, none": (MarginalQueries(2), {"public": "none"}),
    "tables, few": (MarginalQueries(2), {"public": "few"}),
    "tables, drifted": (MarginalQueries(2), {"public": "drifted"}),
    "tables, pure": (MarginalQueries(2), {"delta": 0.0}),
    "tables, ε .1": (MarginalQueries(2), {"epsilon": 0.1}),
    "tables, ε 20": (MarginalQueries(2), {"epsilon": 20.0}),
    "tables, trust": (MarginalQueries(2), {"trust": 0.5}),
    "tables, pmw": (MarginalQueries(2), {"method": "pmw"}),
    "tables, public": (MarginalQueries(2), {"method": "public"}),
    "tables, persons": (MarginalQueries(2), {"max_rows_per_group": 2, "groups": GROUPS}),
}


def _table_of(n, seed, shift=0.0):
    frame, _ = _frame(n, seed, shift)
    return _listed(frame.assign(wage=frame["wage"].fillna(0.0)))


def _release(queries, settings, X, public_rows, asked):
    settings = dict(settings)
    arguments = {name: settings.pop(name) for name in ("groups",) if name in settings}
    given = {} if public_rows is None else {"X_public": public_rows}
    model = PAPQueryRelease(queries, random_state=13, **settings).fit(X, **given, **arguments)
    return [asked(model), getattr(model, "guarantee_", None), _receipt(model.privacy_)]


def _tables(model):
    tables = []
    for columns in (["job"], ["job", "smoker"], ["age", "job"], ["wage"]):
        frame = model.table(columns)
        tables.append(frame["fraction"].to_numpy(float))
    return [*tables, model.sample(20)["age"].to_numpy(float)]


for name, (queries, settings) in MIXED.items():

    @_case(f"release, {name}")
    def _(queries=queries, settings=settings):
        rest = {key: value for key, value in settings.items() if key != "public"}
        rest["bounds"] = {"age": (0, 130), "wage": (0, 200)}
        count, shift = PUBLIC[settings.get("public", "many")]
        public = None if count is None else _table_of(count, 4, 15 * shift)
        return _release(queries, rest, _listed(TABLE), public, _tables)


def _function(rows):
    return np.column_stack([rows[:, 0] > rows[:, 1], rows[:, 0] > 0])


LINES = {
    "thresholds": (ThresholdQueries(), 1, {}, [[0.5], [-1.0]]),
    "thresholds, none": (ThresholdQueries(), 1, {"public": "none"}, [[0.5], [-1.0]]),
    "thresholds, drifted": (ThresholdQueries(), 1, {"public": "drifted"}, [[0.5], [-1.0]]),
    "thresholds, pure": (ThresholdQueries(), 1, {"delta": 0.0}, [[0.5], [-1.0]]),
    "thresholds, ε 20": (ThresholdQueries(), 1, {"epsilon": 20.0}, [[0.5], [-1.0]]),
    "thresholds, pmw": (ThresholdQueries(), 1, {"method": "pmw"}, [[0.5], [-1.0]]),
    "intervals": (IntervalQueries(), 1, {}, [[-1.0, 0.5]]),
    "stumps": (StumpQueries(), 3, {}, [[0, 0.5], [2, -1.0]]),
    "stumps, pmw": (StumpQueries(), 3, {"method": "pmw"}, [[0, 0.5], [2, -1.0]]),
    "rectangles": (RectangleQueries(), 2, {}, [[[-1, 1], [-2, 0.5]]]),
    "halfspaces": (HalfspaceQueries(), 2, {}, [[1.0, 1.0, 0.5]]),
    "custom": (CustomQueries(_function), 2, {}, [[0], [1]]),
}
for name, (queries, width, settings, asked) in LINES.items():

    @_case(f"release, {name}")
    def _(queries=queries, width=width, settings=settings, asked=asked):
        rest = {key: value for key, value in settings.items() if key != "public"}
        if rest.get("method") != "pmw":
            rest["bounds"] = (-6, 6)
        rows = _public(settings.get("public", "many"), _rows, "array")
        public = None if rows is None else rows[0][:, :width]
        return _release(queries, rest, ARRAY[:, :width], public, lambda model: model.answer(asked))


# sanitizers, search, scores


@_case("sanitizer, quantiles")
def _():
    model = QuantileSanitizer(bounds=(-5, 5), random_state=14).fit(ARRAY)
    return [model.sample(20), _receipt(model.privacy_)]


@_case("sanitizer, BLR")
def _():
    domain = [[0.0], [1.0], [2.0]]
    X = np.clip(ARRAY[:, :1].round(), 0, 2)
    model = BLRSanitizer(domain, n_points=10, random_state=15).fit(X)
    return [model.points_, _receipt(model.privacy_)]


SEARCHES = {
    "one draw": (SemiPrivateClassifier(), {"hypotheses": [Stumps(), DecisionTrees()]}),
    "trials": (SemiPrivateBoostingClassifier(), {"max_rounds": [1, 3]}),
    "pipeline": (
        make_pipeline(PublicFit(StandardScaler()), SemiPrivateClassifier(Stumps())),
        {"semiprivateclassifier__alpha": [0.05, 0.2]},
    ),
}
for name, (estimator, grid) in SEARCHES.items():
    delta = 1e-6 if name == "trials" else 0.0
    for labelled in (False, True):
        _classify(
            f"search, {name}, {labelled}",
            lambda estimator=estimator, grid=grid, delta=delta: SemiPrivateSearchCV(
                estimator, grid, delta=delta, random_state=16
            ),
            labelled=labelled,
        )


@_case("scores")
def _():
    X, margin = _rows(400, 5)
    public = _rows(40, 6)[0]
    model = SemiPrivateClassifier(Stumps(), random_state=0).fit(X, _labels(margin), X_public=public)
    y, margins = _labels(ARRAY_MARGIN), ARRAY[:, 0]
    predicted = model.predict(ARRAY)
    boosted = SemiPrivateBoostingClassifier(random_state=0)
    boosted.fit(X, _labels(margin), X_public=public)
    scores = private_scores(boosted, ARRAY, y, delta=1e-6, random_state=1)
    return [
        [float(private_balanced_accuracy_score(y, predicted, labels=[0, 1], random_state=2))],
        [float(private_roc_auc_score(y, margins, random_state=3))],
        np.asarray(
            private_confusion_matrix(y, predicted, labels=[0, 1], random_state=4).value, dtype=float
        ),
        [scores.accuracy, *scores.interval("accuracy"), *scores.interval("roc_auc")],
        _receipt(scores.privacy_),
    ]


@_case("public fit")
def _():
    encoder = PublicFit(OneHotEncoder(sparse_output=False, handle_unknown="ignore"))
    public = _frame(150, 4)[0]
    return encoder.fit(FRAME[["job"]], X_public=public[["job"]]).transform(NEW["frame"][["job"]])


@pytest.fixture(scope="module", autouse=True)
def few_rows_are_drawn():
    """Tables are small here, and what is answered from drawn rows needs few of them."""
    with pytest.MonkeyPatch.context() as patch:
        _draw_few(patch.setattr)
        yield


def _draw_few(setattr):
    setattr("skpublicdp.query_release.synthetic.N_TREE_ROWS", 2000)


QUICK = {
    "rule, thresholds, many",
    "rule, trees, many",
    "rule, halfspaces, many",
    "rule, labelled public",
    "rule, persons",
    "mixture, None, auto",
    "label boost, many",
    "generic learner, many",
    "active, random",
    "boosting, auto, many",
    "boosting, auto, none",
    "boosting, auto, drifted",
    "boosting, auto, pure",
    "boosting, votes",
    "boosting, moments, ε 20",
    "boosting, persons",
    "boosting, three labels",
    "boosting, stream",
    "regression, auto",
    "regression, pure",
    "release, tables of 2",
    "release, tables, none",
    "release, thresholds",
    "release, stumps, pmw",
    "release, halfspaces",
    "sanitizer, quantiles",
    "sanitizer, BLR",
    "search, one draw, False",
    "scores",
}
"""One case of each estimator and mode, which `make test` runs."""


def _cases():
    for name in CASES:
        yield pytest.param(name, marks=() if name in QUICK else pytest.mark.golden)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", _cases())
def test_golden_numbers(name):
    numbers, expected = computed(name), recorded()[name]
    assert [shape for shape, _ in numbers] == [shape for shape, _ in expected]
    for (_, values), (_, recorded_values) in zip(numbers, expected, strict=True):
        if all(isinstance(value, int) for value in recorded_values):
            assert values == recorded_values
        else:
            np.testing.assert_allclose(values, recorded_values, rtol=RTOL, atol=ATOL)


def test_each_case_is_recorded():
    assert list(recorded()) == list(CASES)
    assert set(CASES) >= QUICK


def recorded():
    """Return the recorded numbers of each case."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def main(*names):
    """Record the numbers of the given cases, or of all cases."""
    numbers = recorded() if names else {}
    with pytest.MonkeyPatch.context() as patch:
        _draw_few(patch.setattr)
        for name in names or CASES:
            numbers[name] = computed(name)
    lines = [f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(numbers[name])}"
             for name in CASES]  # fmt: skip
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
