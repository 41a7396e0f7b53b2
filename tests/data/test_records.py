"""Records, as JSON has them, are predicted like the rows of a frame."""

import json

import numpy as np
import pytest

from skpublicdp import (
    PAPQueryRelease,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
)
from tests.data.containers import pd
from tests.data.internals import NotNumbersError

N = 300
LEARNERS = [
    SemiPrivateBoostingClassifier(random_state=0),
    SemiPrivateBoostingRegressor(random_state=0, outcome_bounds=(0, 1)),
    SemiPrivateLogisticRegression(random_state=0),
    SemiPrivateLinearRegression(random_state=0, outcome_bounds=(0, 1)),
]


def frame(zone=None):
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-31 12:00", tz=zone) + pd.to_timedelta(rng.integers(0, 99, N), "D")
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, N),
            "pay": np.where(rng.random(N) < 0.2, np.nan, rng.normal(size=N).round(3)),
            "town": pd.Series(rng.choice(["a", "b", "c"], N)).mask(rng.random(N) < 0.2),
            "married": rng.random(N) < 0.5,
            "day": days.where(rng.random(N) < 0.8),
        }
    )


def fitted(learner, rows):
    y = (rows["age"] > 50).astype(int)
    return learner.fit(rows, y, is_public=np.arange(N) < 100)


def records(rows):
    """The rows as a JSON service reads them: dates are text, and missing values are null."""
    return json.loads(rows.to_json(orient="records", date_format="iso"))


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_records_are_predicted_like_rows(learner, zone):
    rows = frame(zone)
    model, given = fitted(learner, rows), records(rows)
    expected = model.predict(rows)
    assert len(set(expected)) > 1
    np.testing.assert_array_equal(model.predict(given), expected)
    np.testing.assert_array_equal(model.predict(given[7:8]), expected[7:8])
    reordered = [dict(reversed(record.items())) for record in given]
    np.testing.assert_array_equal(model.predict(reordered), expected)
    y = (rows["age"] > 50).astype(int)
    assert model.score(given, y) == model.score(rows, y)


def test_records_of_numbers_and_of_a_release():
    rows = frame()[["age", "pay"]].fillna(0)
    model = fitted(SemiPrivateClassifier(random_state=0), rows)
    np.testing.assert_array_equal(model.predict(records(rows)), model.predict(rows))
    release = PAPQueryRelease(random_state=0).fit(rows, is_public=np.arange(N) < 100)
    assert release.score(records(rows)) == release.score(rows)


@pytest.fixture(scope="module")
def model():
    return fitted(SemiPrivateBoostingClassifier(random_state=0), frame())


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"age": ...}, "age is missing"),
        ({"Age": 3}, "Age is unknown"),
        ({"age": "old"}, "age"),
        ({"day": "yesterday"}, "day"),
    ],
)
def test_a_wrong_record_is_refused(model, change, match):
    *others, last = records(frame())[:3]
    last = {key: value for key, value in {**last, **change}.items() if value is not ...}
    with pytest.raises(ValueError, match=match) as refusal:
        model.predict([*others, last])
    assert "yesterday" not in str(refusal.value)


def test_records_need_names(model):
    plain = SemiPrivateBoostingClassifier(random_state=0)
    X = frame()[["age", "pay"]].to_numpy()
    plain.fit(X, X[:, 0] > 50, is_public=np.arange(N) < 100)
    with pytest.raises(ValueError, match="feature names"):
        plain.predict([{"age": 3, "pay": 4}])


def test_fit_refuses_records():
    rows = frame()
    with pytest.raises(ValueError, match="DataFrame"):
        SemiPrivateBoostingClassifier().fit(records(rows), rows["age"] > 50)


def test_one_dict_is_told_to_be_put_into_a_list(model):
    with pytest.raises(ValueError, match=r"list of dicts"):
        model.predict(records(frame())[0])


def test_text_in_a_record_of_numbers_quotes_no_value():
    rows = frame()[["age", "pay"]].fillna(0)
    model = fitted(SemiPrivateClassifier(random_state=0), rows)
    with pytest.raises(NotNumbersError) as refusal:
        model.predict([{"age": "secret", "pay": 1}])
    assert "secret" not in str(refusal.value)
