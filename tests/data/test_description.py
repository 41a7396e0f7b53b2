"""Rows written from a description: where values lie, and which estimators take them."""

import gc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.pipeline import Pipeline

from skpublicdp import (
    LabelBoostClassifier,
    PAPQueryRelease,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.data import describe_columns
from skpublicdp.exceptions import DriftWarning
from skpublicdp.hypotheses import Stumps
from skpublicdp.model_selection import SemiPrivateSearchCV
from tests.data.internals import DESCRIBED, is_described, mark_described, public_rows

pytestmark = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning")

RNG = np.random.default_rng(0)
STAFF = pd.DataFrame(
    {
        "age": RNG.integers(17, 70, size=3000),
        "wage": RNG.lognormal(10, 0.5, size=3000),
        "job": RNG.choice(["clerk", "nurse"], size=3000),
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, 3000), unit="D"),
    }
)
LATE = np.where(STAFF["age"] > 40, "yes", "no")
DESCRIPTION = {
    "job": ["clerk", "nurse"],
    "day": ("2020-01-01", "2022-06-30"),
    "age": (17, 70),
    "wage": (0.0, 2e5, 22000.0),
}


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0, 1), st.integers(4, 400))
def test_half_of_the_values_lie_on_either_side_of_the_typical_one(low, width, share, size):
    high = low + width
    typical = low + share * width
    values = describe_columns({"a": (low, high, typical)}, size=size).columns["a"]
    assert low <= values.min() <= values.max() <= high
    below, above = (values < typical).sum(), (values > typical).sum()
    assert max(below, above) <= (size + 1) // 2
    near = np.abs(values - typical) <= 0.25 * max(high - typical, typical - low)
    assert near.mean() >= 0.45  # √.25 is half of them


def test_shares_of_categories():
    jobs = describe_columns({"job": {"a": 6, "b": 3, "c": 1}}, size=100).columns["job"]
    assert {job: int((jobs == job).sum()) for job in "abc"} == {"a": 60, "b": 30, "c": 10}
    even = describe_columns({"job": ["a", "b"]}, size=100).columns["job"]
    assert (even == "a").sum() == 50


def test_dates_are_days_where_their_ends_are():
    rows = describe_columns(
        {"day": ("2020-01-01", "2022-06-30"), "at": ("2020-01-01 08:00", "2021")}
    )
    days = [rows.columns[name].astype("datetime64[D]") for name in ("day", "at")]
    assert (days[0] == rows.columns["day"]).all()
    assert len(np.unique(days[0])) == 300
    assert not (days[1] == rows.columns["at"]).all()


def test_dates_and_whole_numbers_stay_such():
    rows = describe_columns(DESCRIPTION)
    assert rows.shape == (300, 4)
    assert rows.columns["day"].dtype.kind == "M"
    assert rows.columns["age"].dtype.kind == "i"
    assert rows.columns["wage"].dtype.kind == "f"
    assert repr(rows) == "<300 described rows of job, day, age, wage>"


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ({}, "column"),
        ([("age", 17, 90)], "list"),
        ({"age": (90, 17)}, "age"),
        ({"age": (17, 90, 91)}, "age"),
        ({"age": ("old", "young")}, "age"),
        ({"age": 17}, "age"),
        ({"job": {"a": 0}}, "job"),
    ],
)
def test_bad_descriptions(description, name):
    with pytest.raises(ValueError, match=name):
        describe_columns(description)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_they_take_the_place_of_public_rows(library):
    rows = STAFF
    if library != "pandas":
        rows = pytest.importorskip("polars").from_pandas(STAFF)
        rows = rows if library == "polars" else rows.to_arrow()
    described = describe_columns(DESCRIPTION)
    clf = SemiPrivateBoostingClassifier(epsilon=3.0, random_state=0)
    clf.fit(rows, LATE, X_public=described)
    assert clf.score(rows, LATE) > 0.95
    assert DESCRIBED in clf.privacy_.assumptions
    release = PAPQueryRelease(random_state=0).fit(rows, X_public=described)
    assert type(release.sample(2)) is type(rows)


def eight_copies():
    """Rows with eight copies of a column, labels, and a description of the columns."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({f"copy{i}": STAFF["age"] for i in range(8)})
    y = np.where(rng.random(3000) < np.where(STAFF["age"] > 40, 0.7, 0.3), "yes", "no")
    return rows, y, describe_columns(dict.fromkeys(rows, (17, 70)))


def test_boosting_relies_on_no_joint_distribution_of_described_columns():
    # eight copies of a column, which the additive fit would count eight times
    rows, y, described = eight_copies()
    clf = SemiPrivateBoostingClassifier(epsilon=0.3, random_state=0)
    clf.fit(rows, y, X_public=described)
    assert clf.drift_ is None
    trees = SemiPrivateBoostingClassifier(epsilon=0.3, method="votes", random_state=0)
    trees.fit(rows, y, X_public=described)
    np.testing.assert_array_equal(clf.predict_proba(rows), trees.predict_proba(rows))
    # boosting begins without an additive fit if the budget is large
    clf.set_params(epsilon=30.0).fit(rows, y, X_public=described)
    assert clf.drift_ is None
    assert log_loss(y, clf.predict_proba(rows)) < 0.63
    assert clf.privacy_.n_public == 300


BOOSTING = SemiPrivateBoostingClassifier()
SCALED = Pipeline([("scale", PublicFit()), ("clf", BOOSTING)])


@pytest.mark.parametrize("epsilon", [0.3, 30.0])
@pytest.mark.parametrize("as_frame", [True, False])
def test_a_search_fits_its_candidate_to_described_rows_as_the_candidate_does(epsilon, as_frame):
    rows, y, described = eight_copies()
    rows = rows if as_frame else rows.to_numpy()
    search = SemiPrivateSearchCV(BOOSTING, {"max_rounds": [3]}, epsilon=epsilon, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DriftWarning)
        search.fit(rows, y, X_public=described)
    chosen = search.best_estimator_
    alone = clone(chosen).fit(rows, y, X_public=described)
    assert chosen.drift_ is None
    np.testing.assert_array_equal(chosen.predict_proba(rows), alone.predict_proba(rows))
    assert DESCRIBED in search.privacy_.assumptions


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("candidate", "grid"),
    [(SCALED, {"clf__max_rounds": [3]}), (BOOSTING, {"max_rounds": [3, 4]})],
    ids=["pipeline", "trials"],
)
def test_every_candidate_of_a_search_knows_that_rows_are_described(candidate, grid):
    rows, y, described = eight_copies()
    mask = np.arange(len(rows)) < 40  # further public rows, which are not described
    search = SemiPrivateSearchCV(candidate, grid, epsilon=3.0, random_state=0)
    for is_public in (None, mask):
        search.fit(rows, y, X_public=described, is_public=is_public)
        chosen = search.best_estimator_
        assert getattr(chosen, "steps", [("", chosen)])[-1][1].drift_ is None
        assert DESCRIBED in search.privacy_.assumptions
    if candidate is BOOSTING:  # labelled rows compare candidates by public fits in two processes
        labels = np.resize(["yes", "no"], 300)
        search.set_params(n_jobs=2, cv=2).fit(rows, y, X_public=described, y_public=labels)
        assert search.best_estimator_.drift_ is None


def test_a_base_learner_knows_that_rows_are_described():
    rows, y, described = eight_copies()
    y[2000:] = "-1"
    clf = LabelBoostClassifier(BOOSTING, random_state=0).fit(rows, y, X_public=described)
    assert clf.estimator_.drift_ is None
    assert DESCRIBED in clf.estimator_.privacy_.assumptions
    clf.fit(rows, y, X_public=described.to_frame())
    assert clf.estimator_.drift_ is not None


def test_a_search_states_no_bound_of_a_candidate_with_described_rows():
    X, y = STAFF[["age"]].to_numpy(), LATE
    base = SemiPrivateClassifier(Stumps(), alpha=0.1)
    boosted = LabelBoostClassifier(base, hypotheses=Stumps())
    search = SemiPrivateSearchCV(boosted, {"alpha": [0.3]}, epsilon=5, random_state=0)
    search.fit(X, y, X_public=describe_columns({"age": (17, 70)}))
    assert search.guarantee_ is None
    assert "description" in search.guarantee_reason_


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_scaled_rows_of_a_description_are_described(output):
    rows, y, described = eight_copies()
    scalers = [PublicFit().set_output(transform=output) for _ in range(2)]
    steps = [*zip("ab", scalers, strict=True), ("clf", clone(BOOSTING))]
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = Pipeline(steps, transform_input=["X_public"]).fit(rows, y, X_public=described)
    assert pipeline[-1].drift_ is None
    assert DESCRIBED in pipeline[-1].privacy_.assumptions
    assert not is_described(scalers[0].transform(rows))


def test_marks_end_with_their_tables():
    tables = [np.zeros((2, 1)), pd.DataFrame({"a": [0.0]}), pl.DataFrame({"a": [0.0]})]
    tables.append(pa.table({"a": [0.0]}))
    assert not any(map(is_described, tables))
    for table in tables:
        assert is_described(mark_described(table))
    assert not is_described(tables[0].copy())
    keys = list(map(id, tables))
    del table
    tables.clear()
    gc.collect()
    assert not set(keys) & set(public_rows._marks)
    assert not is_described(mark_described(None))


def test_order_is_that_of_names_in_frames_and_of_the_description_in_arrays():
    numbers = STAFF[["age", "wage"]]
    turned = describe_columns({"wage": (0.0, 2e5), "age": (17, 70)})
    clf = SemiPrivateClassifier(epsilon=10.0, random_state=0)
    assert clf.fit(numbers, LATE, X_public=turned).score(numbers, LATE) > 0.95
    straight = describe_columns({"first": (17, 70), "second": (0.0, 2e5)})
    clf.fit(numbers.to_numpy(), LATE, X_public=straight)
    assert clf.score(numbers.to_numpy(), LATE) > 0.95
    with pytest.raises(ValueError, match="wage"):
        clf.fit(numbers, LATE, X_public=describe_columns({"age": (17, 70)}))
