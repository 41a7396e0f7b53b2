"""The JavaScript program of the guide on serving predicts what the model predicts."""

import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from skpublicdp import SemiPrivateBoostingClassifier, SemiPrivateBoostingRegressor
from tests import ROOT

NODE = shutil.which("node")
PAGE = ROOT / "docs" / "user_guide" / "serving.md"
pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node.js")
N = 1500


def rows(zone):
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2026-01-01 12:30", tz=zone) + pd.to_timedelta(rng.integers(0, 99, N), "D")
    job = rng.integers(0, 4, N)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, N),
            "pay": np.where(rng.random(N) < 0.2, np.nan, rng.normal(size=N).round(3)),
            "town": pd.Series(rng.choice(["a", "b", "c"], N)).mask(rng.random(N) < 0.2),
            "married": rng.random(N) < 0.5,
            "seen": days.where(rng.random(N) < 0.8),
            **{
                f"job_{name}": (job == code) * 1 for code, name in enumerate(["sea", "farm", "inn"])
            },
        }
    )


def said_in_javascript(model, records, folder):
    """Return what the program of the page prints about records, one dict for each."""
    (program,) = re.findall(
        r"^```javascript\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S
    )
    texts = {"score.js": program, "model.json": model.to_json(), "rows.json": json.dumps(records)}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [NODE, *texts], cwd=folder, capture_output=True, check=True, env={"TZ": "Asia/Tokyo"}
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("labels", "zone"), [(2, None), (3, "Europe/Berlin")])
def test_labels(labels, zone, tmp_path):
    X, is_public = rows(zone), np.arange(N) < 300
    noise = np.random.default_rng(1).normal(scale=10, size=N)
    y = np.digitize(X["age"] + 10 * X["job_sea"] + noise, [45, 65][: labels - 1])
    clf = SemiPrivateBoostingClassifier(epsilon=20.0, public_model=None, random_state=0)
    clf.fit(X, y, is_public=is_public)
    kinds = [column["kind"] for column in json.loads(clf.to_json())["columns"]]
    assert {"number", "category", "date", "one-hot"} == set(kinds)
    records = json.loads(X.to_json(orient="records", date_format="iso"))
    records[0] |= {"town": "new", "job_sea": 1, "job_farm": 1}
    records[1] |= {"job_inn": None}
    said = said_in_javascript(clf, records, tmp_path)
    margins = np.array([line["margins"] for line in said]).squeeze()
    np.testing.assert_array_equal(margins, clf.decision_function(records))
    probabilities = [line["probabilities"] for line in said]
    np.testing.assert_allclose(probabilities, clf.predict_proba(records), atol=1e-6)


def test_outcomes(tmp_path):
    X = rows(None)
    reg = SemiPrivateBoostingRegressor(epsilon=20.0, outcome_bounds=(0, 100), random_state=0)
    reg.set_params(public_model=None).fit(X, X["age"], is_public=np.arange(N) < 300)
    records = json.loads(X.to_json(orient="records", date_format="iso"))
    said = said_in_javascript(reg, records, tmp_path)
    margins = np.array([line["margins"][0] for line in said])
    means = 100 * np.clip(0.5 + margins / 4, 0, 1)
    np.testing.assert_allclose(means, reg.predict(X), atol=1e-9)


def test_a_public_model_is_refused(tmp_path):
    X, y = rows(None), rows(None)["married"]
    clf = SemiPrivateBoostingClassifier(epsilon=20.0, random_state=0)
    clf.fit(X, y, is_public=np.arange(N) < 300)
    assert json.loads(clf.to_json())["public_model"] is not None
    with pytest.raises(subprocess.CalledProcessError) as failure:
        said_in_javascript(clf, [], tmp_path)
    assert b"public model" in failure.value.stderr


def test_a_key_that_is_missing_is_refused(tmp_path):
    X = rows(None)[["age", "town"]]
    clf = SemiPrivateBoostingClassifier(epsilon=20.0, public_model=None, random_state=0)
    clf.fit(X, X["age"] > 50, is_public=np.arange(N) < 300)
    with pytest.raises(subprocess.CalledProcessError) as failure:
        said_in_javascript(clf, [{"age": 30}], tmp_path)
    assert b"no town" in failure.value.stderr
