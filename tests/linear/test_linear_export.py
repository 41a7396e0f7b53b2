"""JSON of linear models, and what a reader of it predicts."""

import json

import numpy as np
import pandas as pd
import pytest

from skpublicdp import (
    SemiPrivateBoostingClassifier,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
)

RNG = np.random.default_rng(0)


def frame(n):
    """Numbers, of which some are missing, whole numbers far from 0, and categories."""
    numbers = RNG.normal(size=n)
    numbers[::7] = np.nan
    categories = RNG.choice(["red", "green", "blue"], n).astype(object)
    categories[::11] = None
    years = RNG.integers(1980, 2020, n)
    return pd.DataFrame({"number": numbers, "year": years, "colour": categories})


X, PUBLIC = frame(800), frame(200)
TEST = pd.concat([frame(50), pd.DataFrame({"number": [9e9], "year": [1], "colour": ["pink"]})])
SIGNAL = np.nan_to_num(X["number"]) + (X["colour"] == "red") + RNG.normal(size=len(X))


def margins(exported, record):
    """The margins of a record, as a program in another language computes them."""
    total = np.array(exported["intercept"])
    for column in exported["columns"]:
        value = record[column["name"]]
        if column["kind"] == "category":
            if value is None:
                value = "(missing)"
            if value not in column["categories"]:
                value = "(other)"
            total += column["coefficients"][column["categories"].index(value)]
            continue
        value = value - column["origin"]
        if not np.isfinite(value):
            value = column["missing"]
        low, high = column["limits"]
        value = max(value, low if low is not None else value)
        value = min(value, high if high is not None else value)
        total += np.array(column["coefficients"]) * (value - column["centre"])
    return total


def exported_margins(exported):
    records = TEST.astype(object).where(TEST.notna() | (TEST.columns != "colour"), None)
    return np.array([margins(exported, record) for record in records.to_dict("records")])


@pytest.mark.parametrize("n_labels", [2, 3])
def test_labels(n_labels):
    y = np.digitize(SIGNAL, [0.3, 1.5][: n_labels - 1])
    clf = SemiPrivateLogisticRegression(bounds={"year": (1990, 2010)}, random_state=0)
    clf.fit(X, y, X_public=PUBLIC)
    exported = json.loads(clf.to_json())
    assert exported["classes"] == list(range(n_labels))
    decision = clf.decision_function(TEST).reshape(len(TEST), -1)
    np.testing.assert_allclose(exported_margins(exported), decision, rtol=1e-9, atol=1e-9)


def test_outcomes():
    reg = SemiPrivateLinearRegression(outcome_bounds=(-4, 6), random_state=0)
    reg.fit(X, SIGNAL, X_public=PUBLIC)
    exported = json.loads(reg.to_json())
    low, high = exported["outcome_bounds"]
    predicted = low + (high - low) * (0.5 + exported_margins(exported)[:, 0])
    np.testing.assert_allclose(np.clip(predicted, low, high), reg.predict(TEST), rtol=1e-9)


def test_public_model():
    first = SemiPrivateLogisticRegression(random_state=0).fit(X, SIGNAL > 0, X_public=PUBLIC)
    clf = SemiPrivateLogisticRegression(random_state=0, public_model=first)
    exported = json.loads(clf.fit(X, SIGNAL > 0, X_public=PUBLIC).to_json())
    term = exported["public_model"]
    prediction = np.clip(first.decision_function(TEST), *term["limits"]) - term["centre"]
    together = exported_margins(exported)[:, 0] + term["coefficients"][0] * prediction
    np.testing.assert_allclose(together, clf.decision_function(TEST), rtol=1e-6, atol=1e-6)


def test_linear_model_before_boosting():
    rng = np.random.default_rng(1)
    numbers, public = rng.normal(size=(600, 40)), rng.normal(size=(100, 40))
    clf = SemiPrivateBoostingClassifier(random_state=0)
    clf.fit(numbers, (numbers.sum(axis=1) > 0).astype(int), X_public=public)
    exported = json.loads(clf.to_json())
    linear, intercept = exported["linear_model"], exported["intercept"][0] / exported["unit"]
    assert (exported["public_model"], linear["weight"]) == (None, 1.0)
    names = [column["name"] for column in linear["columns"]]
    records = [dict(zip(names, row, strict=True)) for row in numbers[:20]]
    expected = [intercept + margins(linear, record)[0] for record in records]
    np.testing.assert_allclose(clf.decision_function(numbers[:20]), expected, atol=1e-3)
