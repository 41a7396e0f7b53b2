"""A warning is issued once per process, line and fit setting, and says nothing in a search."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease, SemiPrivateBoostingClassifier, exceptions
from skpublicdp.exceptions import LargeDeltaWarning, LargeEpsilonWarning, TextColumnWarning, warn
from tests import ROOT
from tests.internals.data import Column

FITS = """
import numpy as np
from sklearn.model_selection import GridSearchCV, KFold
from skpublicdp import SemiPrivateBoostingClassifier, SemiPrivateClassifier
rng = np.random.default_rng(0)
X, P = rng.normal(size=(200, 3)), rng.normal(size=(51, 3))
y = (X[:, 0] > 0).astype(int)
if __name__ == "__main__":
    for n_jobs in (1, 2):
        grid = {"epsilon": [.1, .3]}
        search = GridSearchCV(SemiPrivateClassifier(), grid, cv=KFold(3), n_jobs=n_jobs)
        search.fit(X, y, X_public=P)
    for n in (200, 199, 198):
        for epsilon in (.1, .3):
            SemiPrivateClassifier(epsilon=epsilon).fit(X[:n], y[:n], X_public=P)
    votes = SemiPrivateBoostingClassifier(max_rounds=1)
    GridSearchCV(votes, {"epsilon": [.01]}, cv=KFold(7)).fit(X, y, X_public=P)
"""


@pytest.mark.slow
def test_a_search_is_silent_and_a_loop_warns_once_per_epsilon(tmp_path):
    """Under Python's own filters, in a fresh process and its workers."""
    script = tmp_path / "fits.py"
    script.write_text(FITS, encoding="utf-8")
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": ""}
    done = subprocess.run(
        [sys.executable, script], env=settings, capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stderr.splitlines() if "Warning: " in line]
    assert len(lines) == 3, done.stderr
    for epsilon, line in zip((0.1, 0.3), lines, strict=False):
        assert (
            f"No accuracy bound holds for 200 private and 51 public rows at ε = {epsilon}" in line
        )
    assert "epsilon = 0.01, the noise is larger" in lines[2]


@pytest.fixture
def default_filters(monkeypatch):
    monkeypatch.setattr(exceptions, "_issued", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield caught


def test_messages_that_differ_in_numbers_other_than_epsilon_are_one(default_filters):
    for message in (
        "10 rows at ε = 3",
        "1,000.5 rows at ε = 3",
        "10 rows at ε = 4",
        "10 rows of x1",
    ):
        warn(message, UserWarning)
        with warnings.catch_warnings():  # which makes Python forget what it has shown
            pass
    heard = [str(warning.message) for warning in default_filters]
    assert heard == ["10 rows at ε = 3", "10 rows at ε = 4", "10 rows of x1"]


def test_another_class_or_another_line_is_another_warning(default_filters):
    for category in (LargeDeltaWarning, LargeEpsilonWarning):
        warn("same", category)
    warn("same", LargeDeltaWarning)
    assert len(default_filters) == 3


@pytest.mark.parametrize(("action", "n_heard"), [("always", 3), ("ignore", 0), ("error", 3)])
def test_filters_of_the_user_are_followed_each_time(action, n_heard, default_filters):
    n_raised = 0
    for _ in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.filterwarnings(action, "same")
            try:
                warn("same", UserWarning)
            except UserWarning:
                n_raised += 1
        n_raised += len(caught)
    assert n_raised == n_heard
    warn("same", UserWarning)  # what was ignored was not heard
    assert len(default_filters) == 1


NOTES = ["the bird hit engine {} at {} feet", "report {} of station {}", "{}{}"]
TEXTS = {
    "iso": lambda i: f"2024-{1 + i % 12:02}-{1 + i % 28:02}",
    "iso time": lambda i: f"2024-{1 + i % 12:02}-{1 + i % 28:02}T10:{i % 60:02}:00Z",
    "us": lambda i: f"{1 + i % 12}/{1 + i % 28}/2023",
    "dots": lambda i: f"{1 + i % 28:02}.{1 + i % 12:02}.99",
    "month": lambda i: f"{1 + i % 28} January {1990 + i % 30}",
    "month first": lambda i: f"Mar {1 + i % 28}, {1990 + i % 30}",
    "dollars": lambda i: f"${1000 + i}.50",
    "separators": lambda i: f"{1 + i},234.50",
    "euros": lambda i: f"{10 + i},50 €",
    "code": lambda i: f"USD {i}",
    "percent": lambda i: f"{i}%",
    "note": lambda i: NOTES[i % 3].format(i, 7 * i),
}
KINDS = {
    "to_datetime": ["iso", "iso time", "us", "dots", "month", "month first"],
    "to_numeric": ["dollars", "separators", "euros", "code", "percent"],
    "occurs once": ["note"],
}


def table(make, n, start):
    return pd.DataFrame({"a": np.arange(n) % 5, "text": [make(i) for i in range(start, start + n)]})


@pytest.mark.parametrize("learner", [SemiPrivateBoostingClassifier, PAPQueryRelease])
@pytest.mark.parametrize("kind", KINDS)
def test_public_text_that_is_no_category_is_named_at_fit(learner, kind):
    for name in KINDS[kind]:
        X, public = table(TEXTS[name], 90, 200), table(TEXTS[name], 40, 0)
        with pytest.warns(TextColumnWarning, match=rf"olumn text .*{kind}"):
            fit(learner, X, public)


def fit(learner, X, public):
    y = () if learner is PAPQueryRelease else (X["a"] > 2,)
    with warnings.catch_warnings():
        for name in ("DriftWarning", "UnmeasuredWarning", "NoPublicDataWarning"):
            warnings.simplefilter("ignore", getattr(exceptions, name))
        learner(random_state=0).fit(X, *y, X_public=public)


CODES = {
    "few days": lambda i: f"2024-01-0{1 + i % 5}",
    "zip": lambda i: f"{10000 + i % 19}",
    "diagnoses": lambda i: f"{250 + i % 15}.{i % 10}",
    "ages": lambda i: f"{5 * (i % 15)}-{5 * (i % 15) + 4}",
    "states": lambda i: "ABCDEFGHIJKLMNOP"[i % 16],
    "versions": lambda i: f"v{i % 12}.1",
}


@pytest.mark.parametrize("name", CODES)
def test_ordinary_categories_are_not(name):
    fit(PAPQueryRelease, table(CODES[name], 90, 200), table(CODES[name], 60, 0))


def test_declared_categories_are_not():
    dtype = pd.CategoricalDtype([TEXTS["note"](i) for i in range(300)])
    X, public = (table(TEXTS["note"], n, start) for n, start in ((90, 200), (40, 0)))
    fit(PAPQueryRelease, X.astype({"text": dtype}), public.astype({"text": dtype}))


def test_infinite_numbers_are_decoded_without_a_warning_of_numpy():
    """Models of users are probed with them."""
    for settings in ({"is_datetime": True}, {"integral": True}):
        column = Column("k", np.arange(3.0), False, low=0.0, high=9.0, **settings)
        decoded = column.decode(np.array([np.inf, -np.inf, 1.0]))
        assert decoded[1] < decoded[2] < decoded[0]


def test_a_fitted_model_of_dates_as_public_model_is_probed_without_a_warning():
    def people(n, seed):
        rng = np.random.default_rng(seed)
        day = np.datetime64("2024-01-01") + rng.integers(0, 365, n)
        X = pd.DataFrame({"age": rng.integers(18, 90, n), "visit": day})
        return X, np.where(X["age"] > 55, "ill", "well")

    (X, y), (X2, y2), (public, y_public) = people(800, 0), people(800, 1), people(120, 2)
    model = SemiPrivateBoostingClassifier(max_rounds=2, random_state=0)
    model.fit(X, y, X_public=public, y_public=y_public)
    again = SemiPrivateBoostingClassifier(public_model=model, max_rounds=2, random_state=1)
    again.fit(X2, y2, X_public=public, y_public=y_public)  # warnings are errors here
    assert again.score(X2, y2) > 0.8
