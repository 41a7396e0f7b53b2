"""Invalid arguments: the error is one sentence with a remedy, and the estimator is unchanged."""

import re
import tempfile
import warnings
from decimal import Decimal
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone

from skpublicdp import PAPQueryRelease, PrivacyBudget, PublicFit
from tests.garbage import FAULTS, LEARNERS, SECRETS, X_PUBLIC, M, N, X, Y

INTERNALS = re.compile(
    r"numpy|joblib|pandas|narwhals|pyarrow|polars\.|sklearn|ufunc|has no attr|not subscriptable"
    r"|tuple|index out|array element|inhomog|convert string|object of type|dtype|unhashable|<class"
    r"|promot|not supported between|unsupported operand|positional|not iterable|unpack|float\(\)"
    r"|cannot cast",
    re.IGNORECASE,
)
"""Words of errors of other libraries."""


def chain(error):
    """Return an error and all of its causes."""
    errors = []
    while error is not None:
        errors.append(error)
        error = error.__cause__ or error.__context__
    return errors


def check_sentence(error, message):
    # the end of scikit-learn's errors about parameters
    text = re.sub(r"\. Got .* instead\.$", ".", str(error))
    # the own message of a transformer, which saw public rows only
    text = re.sub(r"(to the public rows): .*?\.( Column .*)?$", r"\1.\2", text)
    assert re.search(message, str(error))
    assert re.fullmatch(r"[^\n]{20,500}\.", text)
    assert len(re.findall(r"[^.]\.\s+[A-Z]", text)) <= 1  # at most two sentences
    assert not INTERNALS.search(text)
    everything = "".join(f"{e!r} {getattr(e, '__notes__', '')}" for e in chain(error))
    assert not any(secret in everything for secret in SECRETS)


WITH_TEXT_TYPE = ("column: text", "X_public: other kinds", "stream: a stream beside other kinds")


@pytest.mark.one_in(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FAULTS)
def test_the_error_is_one_sentence_and_fit_changes_nothing(name):
    if name in WITH_TEXT_TYPE and pd.__version__ < "3":
        pytest.skip("text has no type of its own in frames of pandas 2")
    argument, fault = FAULTS[name]
    learners = {
        kind: learner for kind, learner in LEARNERS.items() if fault.applies_to(learner, argument)
    }
    assert learners
    budget = PrivacyBudget(100, 1e-3)
    for kind, learner in learners.items():
        parameters = dict(fault.parameters)
        if "budget" in learner.make().get_params():
            parameters = {"budget": budget, "random_state": 0, **parameters}
        estimator = learner.make(**parameters)
        arguments = learner.fit_arguments(**fault.make_arguments())
        before = dict(vars(estimator))
        with pytest.raises((TypeError, ValueError, RuntimeError)) as raised:
            pytest.fail(f"{kind} accepts it: {estimator.fit(**arguments)}")

        expected = fault.message
        if isinstance(estimator, PAPQueryRelease):  # counts missing numbers instead
            expected = expected.replace("PublicFit.*Boosting", "Boosting")
            expected = expected.replace("Boosting", "(Boosting|MarginalQueries)")
        check_sentence(raised.value, expected)
        assert vars(estimator).keys() == before.keys(), kind
        assert all(vars(estimator)[name] is value for name, value in before.items()), kind
        assert budget.ledger == [], kind


def test_at_least_sixty_faults_for_each_estimator():
    for learner in LEARNERS.values():
        assert sum(fault.applies_to(learner, argument) for argument, fault in FAULTS.values()) >= 60


def wrong_names(rows):
    return rows.rename(columns={"hours": "time"})


INVALID_NEW_ROWS = {
    "one row": (lambda: [1.0, 2.0], r"Expected 2D array.*Reshape"),
    "a Series": (lambda: X["age"], r"single column.*to_frame"),
    "a text": (lambda: "people.csv", r"X must be a table.*open_rows"),
    "None": (lambda: None, r"X must be a table"),
    "a column less": (lambda: X[["age"]], r"hours is missing"),
    "a column more": (lambda: X.assign(zip=1.0), r"zip is unknown"),
    "another name": (lambda: wrong_names(X), r"hours is missing and time is unknown"),
    "another name in polars": (
        lambda: pl.DataFrame(wrong_names(X)),
        r"hours is missing and time is unknown",
    ),
    "two of a name": (lambda: X.set_axis(["age", "age"], axis=1), r"'age' occurs twice"),
    "no rows": (lambda: X[:0], r"0 sample"),
    "lists": (lambda: X.assign(hours=pd.Series([[1]] * N, dtype=LISTS)), r"hours .*lists"),
    "a mask": (lambda: np.ma.masked_less(X.to_numpy(), 0), r"mask.*filled"),
    "a sparse matrix": (lambda: sparse.csr_array(X.to_numpy()), r"[Ss]parse.*toarray"),
}
LISTS = pd.ArrowDtype(pa.list_(pa.int64()))
PREDICTORS = [kind for kind, learner in LEARNERS.items() if hasattr(learner.make(), "predict")]


@pytest.fixture(scope="module")
def fitted():
    """Return all fitted predictors and the transformer, by kind."""
    estimators = {}
    with warnings.catch_warnings(action="ignore"):
        for kind in [*PREDICTORS, "public_fit"]:
            seed = {} if kind == "public_fit" else {"random_state": 0}
            estimators[kind] = LEARNERS[kind].make(**seed).fit(**LEARNERS[kind].fit_arguments())
    return estimators


@pytest.mark.parametrize("name", INVALID_NEW_ROWS)
def test_invalid_new_rows(name, fitted):
    make, message = INVALID_NEW_ROWS[name]
    for estimator in fitted.values():
        method = getattr(estimator, "predict", None) or estimator.transform
        with pytest.raises((TypeError, ValueError)) as raised:
            method(make())
        check_sentence(raised.value, message)


def test_a_failed_fit_keeps_the_model_of_the_last_fit(fitted):
    learner = clone(fitted["boosting"]).fit(X, Y, X_public=X_PUBLIC)
    before, predictions = dict(vars(learner)), learner.predict(X)
    with pytest.raises(ValueError, match="at least two classes"):
        learner.fit(X[["age"]], np.ones(N, int), X_public=X_PUBLIC[["age"]])
    assert vars(learner) == before
    np.testing.assert_array_equal(learner.predict(X), predictions)


def on_disk(rows):
    with tempfile.TemporaryFile() as file:
        mapped = np.memmap(file, dtype=float, mode="w+", shape=rows.shape)
    mapped[:] = rows
    return mapped


def read_only(rows):
    rows = rows.to_numpy(copy=True)
    rows.setflags(write=False)
    return rows


EQUIVALENT_CONTAINERS = {
    "polars": pl.DataFrame,
    "Arrow": pa.Table.from_pandas,
    "an array": lambda rows: rows.to_numpy(),
    "a list": lambda rows: rows.to_numpy().tolist(),
    "tuples": lambda rows: tuple(map(tuple, rows.to_numpy())),
    "a memory map": on_disk,
    "a read-only array": read_only,
    "columns in order": lambda rows: np.asfortranarray(rows.to_numpy()),
    "every second row": lambda rows: np.repeat(rows.to_numpy(), 2, axis=0)[::2],
    "other bytes": lambda rows: rows.to_numpy().astype(">f8"),
    "float32": lambda rows: rows.astype(np.float32),
    "float16": lambda rows: rows.to_numpy().astype(np.float16),
    "nullable": lambda rows: rows.astype("Float64"),
    "pandas by Arrow": lambda rows: rows.convert_dtypes(dtype_backend="pyarrow"),
    "polars float32": lambda rows: pl.DataFrame(rows).cast(pl.Float32),
    "objects": lambda rows: rows.astype(object),
    "decimals": lambda rows: rows.map(lambda value: Decimal(str(value))),
    "Arrow decimals": lambda rows: pa.Table.from_pandas(
        rows.map(lambda value: Decimal(f"{value:.2f}"))
    ),
    "sparse columns": lambda rows: rows.astype(pd.SparseDtype(float, 0.0)),
    "names that are numbers": lambda rows: rows.set_axis([7, 8], axis=1),
    "rows with names": lambda rows: rows.set_axis([f"row {i}" for i in range(len(rows))]),
}


def fitted_output(learner, rows, public, new_rows):
    """Return the predictions of a fit for new rows, or rows that it transforms or samples."""
    parameters = {"random_state": 0, "max_rounds": 2}
    valid_names = learner.make().get_params()
    parameters = {name: value for name, value in parameters.items() if name in valid_names}
    estimator = learner.make(**parameters).fit(**learner.fit_arguments(X=rows, X_public=public))
    if hasattr(estimator, "predict"):
        return np.asarray(estimator.predict(new_rows))
    if learner.make is PublicFit:
        return np.asarray(estimator.transform(new_rows), dtype=float).round(2)
    samples = estimator.sample(20)
    samples = samples.to_pandas() if hasattr(samples, "to_pandas") else samples
    if isinstance(samples, pd.DataFrame):  # rows keep the time zone, which is UTC
        for label in samples.select_dtypes("datetimetz"):
            samples[label] = samples[label].dt.tz_localize(None)
    return np.asarray(samples).astype(str)


@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EQUIVALENT_CONTAINERS)
def test_the_same_numbers_are_the_same_rows(name):
    convert = EQUIVALENT_CONTAINERS[name]
    for kind, learner in LEARNERS.items():
        if name in ("sparse columns", "float16") and kind == "public_fit":  # too much for a scaler
            continue
        output = fitted_output(learner, convert(X), convert(X_PUBLIC), convert(X))
        np.testing.assert_array_equal(output, output_with_pandas(kind), err_msg=kind)


@cache
def output_with_pandas(kind):
    return fitted_output(LEARNERS[kind], X, X_PUBLIC, X)


def mixed(n):
    return pd.DataFrame(
        {
            "born": pd.date_range("2020-01-01", periods=n, freq="17h"),
            "job": np.resize(["clerk", "nurse", "cook"], n),
            "left": np.arange(n) % 3 == 0,
            "wage": np.where(np.arange(n) % 5 == 0, np.nan, np.arange(n) * 0.5),
        }
    )


MIXED_CONTAINERS = {
    "polars": pl.DataFrame,
    "Arrow": pa.Table.from_pandas,
    "nullable": lambda rows: rows.convert_dtypes(),
    "pandas by Arrow": lambda rows: rows.convert_dtypes(dtype_backend="pyarrow"),
    "zones": lambda rows: rows.assign(born=rows["born"].dt.tz_localize("UTC")),
    "categories": lambda rows: rows.astype({"job": "category"}),
    "polars Enum": lambda rows: pl.DataFrame(rows).with_columns(
        pl.col("job").cast(pl.Enum(["clerk", "cook", "nurse"]))
    ),
    "Arrow dictionaries": lambda rows: pa.Table.from_pandas(rows.astype({"job": "category"})),
}
NEEDING_TEXT = {"categories", "polars Enum", "Arrow dictionaries"}
DATED = {kind: learner for kind, learner in LEARNERS.items() if learner.dated}


def mixed_rows(learner):
    """Return private, public and new rows with all column types that an estimator accepts."""
    columns = ["born", "left"]
    columns += (["job"] if learner.text else []) + (["wage"] if learner.missing else [])
    return [mixed(n)[columns] for n in (N, M, N)]


@cache
def output_with_mixed_pandas(kind):
    return fitted_output(LEARNERS[kind], *mixed_rows(LEARNERS[kind]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MIXED_CONTAINERS)
def test_dates_texts_booleans_and_missing_numbers(name):
    for kind, learner in DATED.items():
        if learner.text or name not in NEEDING_TEXT:
            output = fitted_output(learner, *map(MIXED_CONTAINERS[name], mixed_rows(learner)))
            np.testing.assert_array_equal(output, output_with_mixed_pandas(kind), err_msg=kind)


def test_a_list_of_numbers_is_a_list_of_queries_of_one_column():
    release = PAPQueryRelease(random_state=0).fit(X[["age"]], X_public=X_PUBLIC[["age"]])
    expected = release.answer([[20], [50], [80]])
    for queries in ([20, 50, 80], np.array([20.0, 50, 80]), pd.Series([20, 50, 80]), (20, 50, 80)):
        np.testing.assert_array_equal(release.answer(queries), expected)
        np.testing.assert_array_equal(
            release.interval(queries), release.interval([[20], [50], [80]])
        )
