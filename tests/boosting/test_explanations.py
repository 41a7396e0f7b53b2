"""Explanations add up to predictions, and JSON holds all that predicting takes."""

import json
import re
from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from skpublicdp import (
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
)
from tests.internals.boosting import N_TERMS_SHOWN, Shape, merge_bins, range_text

RNG = np.random.default_rng(0)
N, N_PUBLIC = 4000, 250


def people(n):
    X = pd.DataFrame(
        {
            "age": RNG.integers(18, 90, size=n),
            "job": RNG.choice(["farm", "sea", "shop"], size=n),
            "wage": np.where(RNG.random(n) < 0.1, np.nan, RNG.lognormal(7, 1, size=n)),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 999, n), "D"),
            "kin": RNG.random(n) < 0.4,
        }
    )
    return X, 3.0 * ((X["age"] > 50) ^ (X["job"] == "sea")) + X["wage"].isna() - 1.5


X, MEAN = people(N)
PUBLIC, _ = people(N_PUBLIC)
NEW, _ = people(500)
NEW.loc[:20, "job"] = "never heard of"
NEW.loc[10:30, "wage"] = np.nan
Y = np.where(MEAN + RNG.logistic(size=N) > 0, "ill", "well")
Y3 = np.where(X["age"] > 75, "old", Y)


@pytest.fixture(scope="module")
def models():
    made = {
        "two": SemiPrivateBoostingClassifier(epsilon=3.0, random_state=0),
        "three": SemiPrivateBoostingClassifier(epsilon=3.0, random_state=0),
        "votes": SemiPrivateBoostingClassifier(method="votes", random_state=0),
        "few": SemiPrivateBoostingClassifier(epsilon=1.0, random_state=0),
        "number": SemiPrivateBoostingRegressor(epsilon=3.0, outcome_bounds=(-6, 8), random_state=0),
    }
    outcomes = {"two": Y, "three": Y3, "votes": Y, "few": Y, "number": MEAN + RNG.normal(size=N)}
    return {name: made[name].fit(X, y, X_public=PUBLIC) for name, y in outcomes.items()}


KINDS = ["two", "three", "votes", "few"]


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_are_the_decision_function_exactly(models, kind):
    clf = models[kind]
    found = clf.explain_local(NEW)
    np.testing.assert_array_equal(found.total, clf.decision_function(NEW))
    # in any order, for they are multiples of 1/1024
    backwards = found.contributions[:, ::-1].cumsum(axis=1)[:, -1] + found.intercept
    np.testing.assert_array_equal(backwards, found.total)
    assert found.contributions.shape[:2] == found.cells.shape == (500, len(found.terms))
    assert len(found) == 500
    assert kind == "few" or len(clf.pairs_) > 0


def test_contributions_are_the_mean_outcome(models):
    reg = models["number"]
    found = reg.explain_local(NEW)
    clipped = np.clip(found.total, *reg.outcome_bounds_)
    np.testing.assert_allclose(clipped, reg.predict(NEW), atol=1e-12)


@pytest.mark.parametrize("kind", ["two", "three", "number"])
def test_columns_contribute_what_shapes_say(models, kind):
    model = models[kind]
    found = model.explain_local(NEW)
    for place, shape in enumerate(model.shapes_):
        assert found.terms[place] == shape.name
        for row in (0, 15, 400):
            cell = shape.cells.index(found.cells[row, place])
            expected = shape.scores[:, cell]
            np.testing.assert_array_equal(np.atleast_1d(found.contributions[row, place]), expected)
    jobs = found.cells[:, found.terms.index("job")]
    assert set(jobs[:21]) == {"(other)"}
    np.testing.assert_array_equal(jobs[21:], NEW["job"][21:])


@pytest.mark.parametrize("kind", ["two", "three", "votes"])
def test_pairs_contribute_what_pairs_say(models, kind):
    """With the sums above: all trees of two columns are in their pair, and nowhere else."""
    clf = models[kind]
    names = [shape.name for shape in clf.shapes_]
    found = clf.explain_local(NEW)
    for pair in clf.pairs_:
        place = found.terms.index(" & ".join(pair.names))
        first, second = (names.index(name) for name in pair.names)
        for row in (0, 30, 400):
            a = pair.cells[0].index(found.cells[row, first])
            b = pair.cells[1].index(found.cells[row, second])
            added = np.atleast_1d(found.contributions[row, place])
            np.testing.assert_array_equal(added, pair.scores[:, a, b])
            assert found.cells[row, place] == f"{pair.cells[0][a]}, {pair.cells[1][b]}"
        assert all(clf.trees_[tree].names == pair.names for tree in pair.trees)
        assert pair.shares.sum() == pytest.approx(1)
        shape = clf.shapes_[first]
        np.testing.assert_allclose(pair.shares.sum(axis=1), shape.shares)


def test_deviations_of_trees_are_known_where_leaves_were_measured(models):
    for kind in ("two", "three", "number"):
        assert all((tree.deviations > 0).all() for tree in models[kind].trees_)
        assert all((pair.deviations > 0).all() for pair in models[kind].pairs_)
    assert not any(tree.deviations.any() for tree in models["votes"].trees_)


# Words


def test_explain_shows_the_most_important_terms(models):
    text = models["votes"].explain()
    headings = [line for line in text.splitlines()[1:] if not line.startswith(" ")]
    assert len(headings) == N_TERMS_SHOWN + 1
    assert headings[-1].startswith("weaker (importance ")
    values = [float(line.split("importance ")[1].split(")")[0]) for line in headings[:-1]]
    assert values == sorted(values, reverse=True)
    found = models["votes"].explain_local(NEW)
    named = [*(line.split(" (importance")[0] for line in headings[:-1])]
    named += headings[-1].split(": ", 1)[1].split(", ")
    assert sorted(named) == sorted(found.terms)


def test_merge_bins_minimises_the_squared_error():
    shares = np.array([0.2, 0.2, 0.2, 0.2, 0.2, 0.0])
    scores = np.array([[0.0, 0.1, 1.0, 1.05, 3.0, 9.0]])
    shape = Shape("a", (), np.arange(4.0), shares, scores, np.zeros((1, 6)))
    cells = [[k] for k in range(6)]
    assert merge_bins(cells, shape, 5) == [[0], [1], [2, 3], [4], [5]]
    assert merge_bins(cells, shape, 4) == [[0, 1], [2, 3], [4], [5]]
    assert merge_bins(cells, shape, 3) == [[0, 1, 2, 3], [4], [5]]


def test_ranges_of_cells():
    cells = ["<= 1", "1 to 2", "2 to 5", "> 5", "(missing)"]
    assert range_text(cells, 0, 0) == "<= 1"
    assert range_text(cells, 0, 1) == "<= 2"
    assert range_text(cells, 1, 3) == "> 1"
    assert range_text(cells, 0, 3) == "any"
    assert range_text(cells, 4, 4) == "(missing)"


# JSON


def cell_of(column, value):
    """Return the cell of a value, as docs/user_guide/boosting.md defines it."""
    missing, last = value is None or value != value, len(column["cells"]) - 1
    if missing:
        return last
    if column["kind"] == "category":
        listed = column["categories"]
        return listed.index(value) if value in listed else last - 1
    if column["kind"] == "date":
        value = (value - datetime(1970, 1, 1)).total_seconds() * 1e6
    return sum(cut < value - column["origin"] for cut in column["cuts"])


def one_hot_cell_of(column, row):
    """Return the cell of a row, as docs/user_guide/boosting.md defines it."""
    last, listed = len(column["cells"]) - 1, column["categories"]
    names = column["members"] + column["rare_members"]
    if any(row[name] != row[name] for name in names):
        return last
    ones = [name for name in column["members"] if row[name] > 0.5]
    rare = any(row[name] > 0.5 for name in column["rare_members"])
    category = ones[0] if len(ones) == 1 else "(other)" if ones or rare else "(none)"
    return listed.index(category) if category in listed else last - 1


def margins_of(model, row):
    cells = [
        one_hot_cell_of(column, row)
        if column["kind"] == "one-hot"
        else cell_of(column, row[column["name"]])
        for column in model["columns"]
    ]
    found = list(model["intercept"])
    for target in range(len(found)):
        for column, cell in zip(model["columns"], cells, strict=True):
            found[target] += column["scores"][target][cell]
        for tree in model["trees"]:
            node, questions = 0, tree["questions"]
            while node < len(questions):
                asked = questions[node]
                yes = asked["first"] <= cells[asked["column"]] <= asked["last"]
                node = 2 * node + 1 + yes
            found[target] += tree["scores"][target][node - len(questions)]
    return [margin / model["unit"] for margin in found]


@pytest.mark.parametrize("kind", ["two", "three", "votes", "number"])
def test_json_predicts_in_another_language(models, kind):
    model = models[kind]
    read = json.loads(model.to_json())
    rows = NEW[:60].to_dict("records")
    margins = np.array([margins_of(read, row) for row in rows])
    if kind == "number":
        low, high = read["outcome_bounds"]
        means = low + (high - low) * np.clip(0.5 + margins[:, 0] / 4, 0, 1)
        np.testing.assert_allclose(means, model.predict(NEW[:60]), atol=1e-12)
        return
    np.testing.assert_array_equal(margins.squeeze(), model.decision_function(NEW[:60]))
    assert read["classes"] == model.classes_.tolist()


def test_json_says_what_it_is(models):
    read = json.loads(models["two"].to_json())
    assert (read["schema"], read["version"]) == ("skpublicdp boosting", 3)
    assert read["estimator"] == "SemiPrivateBoostingClassifier"
    assert read["drift"] == models["two"].drift_
    assert read["privacy"] == json.loads(json.dumps(models["two"].privacy_.to_dict()))
    assert [c["kind"] for c in read["columns"]] == [
        "number",
        "category",
        "number",
        "date",
        "category",
    ]
    assert read["columns"][4]["categories"] == [False, True]
    assert read["trees"][0]["questions"][0]["text"] in models["two"].trees_[0].rule


@pytest.mark.parametrize(("hour", "timed"), [(0, False), (5, True)])
def test_days_are_written_as_days(hour, timed):
    """Cuts lie half-way between days, and are read as the day before."""
    rng = np.random.default_rng(0)

    def dated(n):
        late = pd.to_timedelta(hour * rng.integers(0, 2, n), "h")
        days = pd.to_timedelta(rng.integers(0, 29, n), "D")
        return pd.DataFrame({"seen": pd.Timestamp("2020-02-01") + days + late})

    rows, public = dated(4000), dated(200)
    y = (rows["seen"] > pd.Timestamp("2020-02-14 23:00")).astype(int)
    clf = SemiPrivateBoostingClassifier(epsilon=3.0, random_state=0).fit(rows, y, X_public=public)
    rule = SemiPrivateClassifier(random_state=0).fit(rows, y, X_public=public).hypothesis_
    said = [clf.explain(), str(clf.explain_local(rows[:5])), str(rule), clf.to_json()]
    assert any(re.search(r"\d\d:\d\d:\d\d", text) for text in said) == timed
    if not timed:  # a day is in the cell whose words say so
        (shape,) = clf.shapes_
        for day in pd.date_range("2020-02-01", "2020-02-29"):
            words = clf.explain_local(pd.DataFrame({"seen": [day]})).cells[0, 0]
            low, _, high = words.removeprefix("<= ").rpartition(" to ")
            if words.startswith("> "):
                low, high = words.removeprefix("> "), ""
            assert (low or "0") < str(day.date()) <= (high or "9")
        assert len(shape.cells) > 5
        assert "if seen > 2020-02-14:" in str(rule)
