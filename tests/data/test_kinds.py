"""Rows to predict have columns of the kinds of fit: others are refused, safe ones converted."""

import inspect
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skpublicdp import (
    LabelBoostClassifier,
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
)
from skpublicdp.data import open_rows
from skpublicdp.exceptions import DriftWarning, UnknownCategoriesWarning
from skpublicdp.metrics import private_scores
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.query_release import MarginalQueries, RegressionRelease
from skpublicdp.sanitizers import QuantileSanitizer
from tests.contracts.test_common import ESTIMATORS
from tests.data.internals import streaming, synthetic

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

LIBRARIES = pytest.mark.parametrize("library", ["pandas", "polars"])
QUIET = [
    pytest.mark.filterwarnings(f"ignore::skpublicdp.exceptions.{name}")
    for name in ("NoPublicDataWarning", "TooFewRowsWarning", "DriftWarning", "UnmeasuredWarning")
]
pytestmark = QUIET

NOT_ROWS = {("PAPQueryRelease", "transform"), ("SubsamplingActiveLearner", "query")}
"""Methods whose X are queries, or the rows of another fit."""


def to_library(frame, library):
    return frame if library == "pandas" else pl.from_pandas(frame)


def methods_of_rows(estimator):
    """Return the names of the methods that read rows after fit."""
    kind = type(estimator)
    return [
        name
        for name in dir(kind)
        if not name.startswith(("_", "fit", "set_", "inverse_"))
        and callable(getattr(kind, name))
        and "X" in inspect.signature(getattr(kind, name)).parameters
        and (kind.__name__, name) not in NOT_ROWS
        and hasattr(estimator, name)
    ]


def call(estimator, name, X, y):
    if name == "score":
        return estimator.score(X, y)
    if name == "holds":
        return estimator.holds(*estimator.queries_for_test, X)
    result = getattr(estimator, name)(X)
    return str(result) if name == "explain_local" else np.asarray(result)


def numbers(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(18, 90, n), "wage": rng.integers(0, 50, n)})
    return frame, (frame["age"] + frame["wage"] > 70).astype(int).to_numpy()


X, Y = numbers(600, 0)
NEW, NEW_Y = numbers(40, 1)


def public_of(estimator, frame):
    takes = "X_public" in inspect.signature(estimator.fit).parameters
    return {"X_public": frame} if takes else {}


def fitted_on_numbers(estimator, library):
    model = clone(estimator)
    if isinstance(model, PAPQueryRelease):
        model.set_params(queries=MarginalQueries(1))
        model.queries_for_test = ([{"age": 40}],)
    frames = [to_library(frame, library) for frame in (X, numbers(90, 2)[0])]
    return model.fit(frames[0], Y, **public_of(model, frames[1]))


@pytest.fixture(autouse=True)
def few_rows_are_drawn(monkeypatch):
    monkeypatch.setattr(synthetic, "N_TREE_ROWS", 2000)


@pytest.mark.one_in(2)
@LIBRARIES
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: repr(one)[:60])
def test_each_estimator_refuses_another_kind_and_converts_numbers(estimator, library):
    model = fitted_on_numbers(estimator, library)
    methods = methods_of_rows(model)
    assert methods or isinstance(model, QuantileSanitizer | RegressionRelease)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(NEW["age"], unit="D")
    for name in methods:
        expected = call(model, name, to_library(NEW, library), NEW_Y)
        for safe in (NEW.astype(float), NEW.astype({"age": "float32"}), NEW[["wage", "age"]]):
            found = call(model, name, to_library(safe, library), NEW_Y)
            np.testing.assert_array_equal(found, expected)
        for other in (NEW["age"] > 50, days, NEW["age"].map("age {}".format).astype("category")):
            with pytest.raises(ValueError, match=r"\bage\b"):
                call(model, name, to_library(NEW.assign(age=other), library), NEW_Y)
    copy = pickle.loads(pickle.dumps(model))
    for name in methods:
        with pytest.raises(ValueError, match=r"\bage\b"):
            call(copy, name, to_library(NEW.assign(age=NEW["age"] > 50), library), NEW_Y)


def mixed(n, seed):
    """Digits as text, other text, booleans and numbers; labels depend on each."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "zip": rng.choice(["10", "20", "30"], n),
            "color": rng.choice(["red", "blue"], n),
            "smoker": rng.random(n) < 0.5,
            "age": rng.integers(18, 90, n),
        }
    )
    ill = (frame["zip"] == "10") & frame["smoker"] | (frame["color"] == "red") & (frame["age"] > 50)
    return frame, ill.astype(int).to_numpy()


MIXED, MIXED_Y = mixed(1500, 3)
MIXED_PUBLIC, _ = mixed(200, 4)
SERVED, SERVED_Y = mixed(60, 5)
DAYS = pd.Timestamp("2020-01-01") + pd.to_timedelta(SERVED["age"], unit="D")

TAKE_TEXT = [
    SemiPrivateBoostingClassifier(),
    SemiPrivateBoostingClassifier(method="votes"),
    SemiPrivateBoostingRegressor(outcome_bounds=(0, 1)),
    PAPQueryRelease(MarginalQueries(1)),
    SemiPrivateSearchCV(SemiPrivateBoostingClassifier(), {"max_rounds": [2]}, delta=1e-6),
]
OTHERS = {
    "zip": DAYS,
    "color": SERVED["age"],
    "smoker": SERVED["smoker"].map({True: "yes", False: "no"}).astype("string"),
    "age": SERVED["age"] > 50,
}
SAFE = {
    "whole numbers for text": SERVED.assign(zip=SERVED["zip"].astype(int)),
    "floats for text": SERVED.assign(zip=SERVED["zip"].astype(float)),
    "nullable numbers for text": SERVED.assign(zip=SERVED["zip"].astype(int).astype("Int64")),
    "categories": SERVED.astype({"zip": "category", "color": "category"}),
    "zeros and ones for booleans": SERVED.astype({"smoker": int}),
    "floats for booleans": SERVED.astype({"smoker": float}),
    "text for numbers": SERVED.assign(age=SERVED["age"].astype(str)),
    "floats for numbers": SERVED.astype({"age": float}),
}


def fitted_on_mixed(estimator, library, frame=MIXED, public=MIXED_PUBLIC):
    model = clone(estimator)
    if isinstance(model, PAPQueryRelease):
        model.queries_for_test = ([{"zip": "10"}, {"smoker": True}],)
    return model.fit(to_library(frame, library), MIXED_Y, X_public=to_library(public, library))


take_text = pytest.mark.parametrize("estimator", TAKE_TEXT, ids=lambda one: repr(one)[:50])


@LIBRARIES
@take_text
def test_kinds_of_mixed_columns(estimator, library):
    model = fitted_on_mixed(estimator, library)
    for name in methods_of_rows(model):
        expected = call(model, name, to_library(SERVED, library), SERVED_Y)
        for told, rows in SAFE.items():
            found = call(model, name, to_library(rows, library), SERVED_Y)
            np.testing.assert_array_equal(found, expected, err_msg=told)
        for column, other in OTHERS.items():
            with pytest.raises(ValueError, match=rf"\b{column}\b"):
                call(model, name, to_library(SERVED.assign(**{column: other}), library), SERVED_Y)


@take_text
def test_objects_are_converted_value_by_value(estimator):
    model = fitted_on_mixed(estimator, "pandas", MIXED.astype(object), MIXED_PUBLIC.astype(object))
    sent = SERVED.astype(object)
    sent["zip"] = [int(z) if i % 2 else float(z) for i, z in enumerate(SERVED["zip"])]
    sent["zip"] = sent["zip"].astype(object)
    sent.loc[sent.index[::3], "zip"] = SERVED["zip"][::3]
    for name in methods_of_rows(model):
        expected = call(model, name, SERVED, SERVED_Y)
        np.testing.assert_array_equal(call(model, name, sent, SERVED_Y), expected)
        with pytest.raises(ValueError, match=r"\bcolor\b"):
            call(model, name, SERVED.assign(color=OTHERS["color"]), SERVED_Y)


def test_a_column_without_any_value_names_its_likely_cause():
    model = SemiPrivateBoostingClassifier(bounds={"wage": (0, 9)}, random_state=0)
    rows = pd.DataFrame({"job": ["sea", "farm"] * 50, "wage": np.arange(100) % 9})
    model.fit(rows, np.arange(100) % 2, X_public=rows[:40].copy())
    with pytest.raises(ValueError, match=r"\bjob\b.*CSV"):
        model.predict(rows.assign(job=np.nan))


def unknown(share):
    """Return rows whose zip is unknown in a share of them, the first ones."""
    rows = SERVED.copy()
    rows.loc[: int(share * len(rows)) - 1, "zip"] = "010"
    return rows


@LIBRARIES
@take_text
def test_mostly_unknown_categories_warn_once(estimator, library):
    model = fitted_on_mixed(estimator, library)
    for name in methods_of_rows(model):
        call(model, name, to_library(unknown(0.5), library), SERVED_Y)
        with pytest.warns(UnknownCategoriesWarning, match=r"\bzip\b") as caught:
            call(model, name, to_library(unknown(0.6), library), SERVED_Y)
        assert len(caught) == 1
        assert caught[0].filename == __file__


def test_missing_values_are_not_unknown():
    model = fitted_on_mixed(SemiPrivateBoostingClassifier(), "pandas")
    rows = SERVED.assign(zip=None, smoker=pd.array([None] * len(SERVED), dtype="boolean"))
    numbers = rows.assign(zip=pd.array([None] * len(SERVED), dtype="Int64"))
    np.testing.assert_array_equal(model.predict_proba(rows), model.predict_proba(numbers))


SOURCES = {
    "polars": lambda frame, directory: pl.from_pandas(frame).lazy(),
    "parquet": lambda frame, directory: parquet(frame, directory),
    "duckdb": lambda frame, directory: relation(frame),
    "dask": lambda frame, directory: dask_frame(frame),
}


def parquet(frame, directory):
    pytest.importorskip("pyarrow")
    frame.to_parquet(directory / "rows.parquet")
    return str(directory / "rows.parquet")


def relation(frame):
    duckdb = pytest.importorskip("duckdb")
    return duckdb.connect().from_df(frame)


def dask_frame(frame):
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("source", SOURCES)
def test_streams_are_decided_by_schema_and_over_all_chunks(source, tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "rows_per_chunk", lambda columns: 7)
    model = fitted_on_mixed(SemiPrivateBoostingClassifier(), "pandas")

    def rows(frame):
        return open_rows(SOURCES[source](frame, tmp_path))

    expected = model.predict_proba(SERVED)
    for told in ("whole numbers for text", "floats for booleans", "text for numbers"):
        found = model.predict_proba(rows(SAFE[told]))
        np.testing.assert_array_equal(found, expected, err_msg=told)
    for column, other in OTHERS.items():
        with pytest.raises(ValueError, match=rf"\b{column}\b"):
            model.predict(rows(SERVED.assign(**{column: other})))
    model.predict(rows(unknown(0.5)))  # all of the first four chunks
    with pytest.warns(UnknownCategoriesWarning) as caught:
        model.predict(rows(unknown(0.6)))
    assert len(caught) == 1
    labelled = rows(unknown(0.6).assign(ill=SERVED_Y))
    with pytest.warns(UnknownCategoriesWarning) as caught:
        model.score(labelled.drop("ill"), labelled["ill"])
    assert len(caught) == 1


class TestPrivateRows:
    """Where the package itself predicts private rows, no value of theirs warns or refuses."""

    ODD = (10, 10.0, True, "never seen", None, 2.5, pd.Timestamp("2020-01-01"), (1, 2))

    @staticmethod
    def heard(call):
        """Return the warnings and the error of a call, but for what a released sum warns of."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", DriftWarning)
            try:
                call()
            except Exception as error:
                return [str(one.message) for one in caught], repr(error)
        return [str(one.message) for one in caught], None

    def neighbours(self):
        """Yield rows of objects that differ in one private value, or are all unknown."""
        rows = SERVED.astype(object)
        yield rows
        for value in self.ODD:
            zips = rows["zip"].tolist()
            zips[0] = value
            yield rows.assign(zip=pd.Series(zips, dtype=object))
        yield rows.assign(zip=pd.Series(["never seen"] * len(rows), dtype=object))

    def test_private_scores(self):
        model = fitted_on_mixed(SemiPrivateBoostingClassifier(), "pandas")
        for rows in self.neighbours():
            with warnings.catch_warnings():
                warnings.simplefilter("error", UnknownCategoriesWarning)
                private_scores(model, rows, SERVED_Y, epsilon=1.0, random_state=0)
        with pytest.warns(UnknownCategoriesWarning):  # the last rows, outside of it
            model.predict(rows)

    def test_fits_search_and_public_fit(self):
        encoder = PublicFit(OneHotEncoder(sparse_output=False, handle_unknown="ignore"))
        search = SemiPrivateSearchCV(
            make_pipeline(encoder, SemiPrivateClassifier()), {"semiprivateclassifier__alpha": [0.1]}
        )
        learners = [
            SemiPrivateBoostingClassifier(max_rounds=1),
            PAPQueryRelease(MarginalQueries(1), random_state=0),
            SemiPrivateSearchCV(SemiPrivateBoostingClassifier(), {"max_rounds": [1]}, delta=1e-6),
            search,
            encoder,
        ]
        public = MIXED_PUBLIC.astype(object)
        for learner in learners:
            outcomes = {
                str(self.heard(lambda: clone(learner).fit(rows, SERVED_Y, X_public=public)))  # noqa: B023
                for rows in self.neighbours()
            }
            assert len(outcomes) == 1, type(learner)
            assert "unknown" not in outcomes.pop()

    def test_transforming_is_silent(self):
        encoder = PublicFit(OneHotEncoder(sparse_output=False, handle_unknown="ignore"))
        encoder.fit(MIXED, X_public=MIXED_PUBLIC)
        assert self.heard(lambda: encoder.transform(unknown(1))) == ([], None)


@LIBRARIES
def test_public_fit_refuses_another_kind(library):
    encoder = PublicFit(OneHotEncoder(sparse_output=False, handle_unknown="ignore"))
    for dtype in (None, object) if library == "pandas" else (None,):
        frame, public = (f if dtype is None else f.astype(dtype) for f in (MIXED, MIXED_PUBLIC))
        encoder.fit(to_library(frame, library), X_public=to_library(public, library))
        encoder.transform(to_library(SERVED if dtype is None else SERVED.astype(dtype), library))
        others = OTHERS | {"zip": SERVED["zip"].astype(int)}
        for column in ("zip", "color", "smoker"):
            with pytest.raises(ValueError, match=rf"\b{column}\b"):
                encoder.transform(to_library(SERVED.assign(**{column: others[column]}), library))


def test_a_value_is_converted_on_its_own():
    """1 and True are equal in Python and print differently: no other row decides which is meant."""
    frame = MIXED_PUBLIC.assign(zip=np.resize(["1", "True", "1.5"], len(MIXED_PUBLIC)))
    schema = fitted_on_mixed(PAPQueryRelease(MarginalQueries(1)), "pandas", MIXED, frame)._schema
    column = schema.columns[0]
    codes = {"1": 0, "1.5": 1, "True": 2}
    for values in ([1, True, 1.5, 1.0], [True, 1, 1.0, 1.5]):
        expected = [codes[str(v if v is True or v == 1.5 else 1)] for v in values]
        assert column.encode(np.array(values, dtype=object)).tolist() == expected


NUMBERS_OR_OBJECTS = [
    X.assign(wage=X["wage"].astype(object)),
    X.assign(wage=pd.Series([str(X["wage"][0]), *X["wage"][1:]], dtype=object)),
]
"""What a reader makes of a column of numbers in which one private number is written as text."""


@pytest.mark.parametrize(
    "estimator",
    [
        SemiPrivateBoostingClassifier(),
        SemiPrivateClassifier(),
        LabelBoostClassifier(),
        PPMHalfspaceClassifier(private_label=1),
        PAPQueryRelease(MarginalQueries(1)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_the_type_that_one_private_value_decides_is_not_kept(estimator):
    public = numbers(90, 2)[0]
    fitted = [
        clone(estimator).set_params(random_state=0).fit(frame, Y, **public_of(estimator, public))
        for frame in (X, *NUMBERS_OR_OBJECTS)
    ]
    assert len({pickle.dumps(getattr(model, "_kinds", None)) for model in fitted}) == 1
    for model in fitted:
        for name in methods_of_rows(model):
            if isinstance(model, PAPQueryRelease):
                model.queries_for_test = ([{"age": 40}],)
            with pytest.raises(ValueError, match=r"\bwage\b"):
                call(model, name, NEW.assign(wage=NEW["wage"] > 20), NEW_Y)


def test_one_missing_boolean_among_the_private_rows_decides_nothing():
    public = MIXED_PUBLIC
    smoker = MIXED["smoker"].astype(object)
    smoker.iloc[0] = None
    texts = SERVED.assign(smoker=SERVED["smoker"].map({True: "yes", False: "no"}))
    for estimator in (SemiPrivateBoostingClassifier(), PAPQueryRelease(MarginalQueries(1))):
        for frame in (MIXED, MIXED.assign(smoker=smoker)):
            model = fitted_on_mixed(estimator, "pandas", frame, public)
            with pytest.raises(ValueError, match=r"\bsmoker\b"):
                model.score(texts.astype({"smoker": "string"}), SERVED_Y)
    for frame in (MIXED, MIXED.assign(smoker=smoker)):
        encoder = PublicFit(OneHotEncoder(handle_unknown="ignore")).fit(frame, X_public=public)
        assert encoder._kinds == ("text", "text", "booleans", "numbers")
