"""Names of the cells of numeric columns state which numbers they count."""

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease
from skpublicdp.plotting import MarginalDisplay, report
from skpublicdp.query_release import MarginalQueries
from tests.internals.data import Column
from tests.internals.query_release import describe_cells

KIDS = np.array([0, 1, 2, 7]).repeat([600, 400, 400, 600])
WIDE = {"kids": (0, 10)}


def frame(kids):
    region = np.where(np.arange(len(kids)) % 2, "east", "west")
    return pd.DataFrame({"kids": kids, "region": region})


def fitted(bounds=WIDE, public=(0, 1, 2), queries=None):
    release = PAPQueryRelease(queries, epsilon=50.0, bounds=bounds, random_state=0)
    return release.fit(frame(KIDS), X_public=frame(np.resize(public, 60)))


def column(values, low, high, **settings):
    return Column("x", np.array(values, float), False, low=low, high=high, **settings)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (column([0, 1, 2], 0, 2, integral=True), [0, 1, 2]),
        (column([0, 1, 2], 0, 10, integral=True), [0, 1, ">= 2"]),
        (column([0, 1, 2], -2, 4, integral=True), ["<= 0", 1, ">= 2"]),
        (
            column([20, 38, 40, 45], 20, 45, integral=True),
            ["<= 29", "30 to 39", "40 to 42", ">= 43"],
        ),
        (column([1, 2, 4], 1, 4, integral=True), [1, "2 to 3", 4]),
        (column([-1, 0, 1], -1, 1, integral=True, offset=2**60), [2**60 - 1, 2**60, 2**60 + 1]),
        (column([0, 1], -1, 1, integral=True, offset=2**60), [f"<= {2**60}", 2**60 + 1]),
        (column([0.5, 1, 2], 0.5, 2), [0.5, 1, 2]),
        (column([0.5, 1, 2], 0, 9), ["<= 0.75", 1, "> 1.5"]),
        # a public value beyond a bound counts as the bound
        (column([0, 1, 2, 7], 0, 3, integral=True), [0, 1, 2, 3]),
        (column([-5, 0, 1, 2], -1, 5, integral=True), [-1, 0, 1, ">= 2"]),
        (column([0, 1.5, 2, 7], 0, 3), [0, 1.5, 2, 3]),
    ],
)
def test_names_of_distinct_values(schema, expected):
    """Each whole number within the bounds is in the cell whose name contains it."""
    values = np.unique(schema.values.clip(schema.low, schema.high))
    cuts = (values[1:] + values[:-1]) / 2
    names = describe_cells(schema, cuts)
    assert names == expected
    if schema.integral:
        for number in range(int(schema.low), int(schema.high) + 1):
            name = str(names[np.searchsorted(cuts, number)])
            if name.startswith("<= "):
                low, high = -np.inf, int(name[3:])
            elif name.startswith(">= "):
                low, high = int(name[3:]), np.inf
            else:
                low, high = map(int, [name.split(" to ")[0], name.split(" to ")[-1]])
            assert low <= number + schema.offset <= high


def test_dates():
    days = np.array([0, 1, 4]) * 86_400e6
    schema = column(days, -days[2], days[2] * 2, integral=True, is_datetime=True)
    cuts = (days[1:] + days[:-1]) / 2
    assert describe_cells(schema, cuts) == ["<= 1970-01-01", "1970-01-02", "> 1970-01-03"]


def test_a_table_says_which_numbers_it_counts():
    """The last cell counts the sevens of the private rows, which no public row has."""
    release = fitted()
    table = release.table("kids", counts=True)
    assert table["kids"].tolist() == ["0", "1", ">= 2"]
    np.testing.assert_allclose(table["fraction"], [0.3, 0.2, 0.5], atol=0.02)
    np.testing.assert_allclose(release.answer(table[["kids"]]), table["fraction"])
    np.testing.assert_allclose(release.answer({"kids": ">= 2"}), release.answer({"kids": 7}))
    np.testing.assert_allclose(release.interval({"kids": "1"}), release.interval({"kids": 1}))
    assert list(release.table("kids", within="region", wide=True))[1:] == ["0", "1", ">= 2"]
    assert release.table("region", within="kids")["kids"].unique().tolist() == ["0", "1", ">= 2"]
    assert release.sample(100)["kids"].dtype.kind == "i"


def test_numbers_remain_numbers_within_bounds_of_the_public_values():
    assert fitted({"kids": (0, 2)}).table("kids")["kids"].tolist() == [0, 1, 2]
    assert fitted(None).table("kids")["kids"].tolist() == ["<= 0", "1", ">= 2"]


def test_totals_with_names_of_cells():
    release = fitted()
    for totals in (
        {0: 1, 1: 1, ">= 2": 2},
        {"0": 1, "1": 1, ">= 2": 2},
        dict(zip(release.table("kids")["kids"], [1, 1, 2], strict=True)),
    ):
        table = release.calibrate({"kids": totals}).table("kids")
        np.testing.assert_allclose(table["fraction"], [0.25, 0.25, 0.5], atol=1e-6)
    with pytest.raises(ValueError, match=r"exist: 2\."):
        release.calibrate({"kids": {0: 1, 1: 1, 2: 2}})
    with pytest.raises(ValueError, match="cell 0 twice"):
        release.calibrate({"kids": {0: 1, "0": 5, 1: 1, ">= 2": 2}})


def test_names_of_edges_are_queries_too():
    queries = MarginalQueries(bins={"kids": [0, 1, 5]})
    release = fitted(queries=queries)
    table = release.table("kids")
    assert table["kids"].tolist()[-1] == "> 5"
    np.testing.assert_allclose(release.answer(table[["kids"]]), table["fraction"])
    with pytest.raises(ValueError, match="name of a bin"):
        release.answer({"kids": "> 6"})


@pytest.mark.parametrize(
    "values",
    [
        1e9 + np.arange(40) / 64,
        20_000_000 + np.arange(400),
        1e15 + np.arange(40) / 4,
        np.arange(40) * 1e-9 + 1,
        np.array(["2020-01-01T00:00:00"], "M8[us]") + np.arange(40),
        np.array(["2020-01-01"], "M8[us]") + np.arange(40).astype("m8[h]"),
    ],
)
@pytest.mark.parametrize("bins", [4, 16, 64])
def test_different_bins_have_different_names(values, bins):
    """However close the edges are, a bin has a name of its own, which is a query."""
    rows = pd.DataFrame({"x": np.resize(values, 400)})
    release = PAPQueryRelease(MarginalQueries(bins=bins), random_state=0)
    release = release.fit(rows, X_public=rows.iloc[:40].copy())
    table = release.table("x")
    assert table["x"].is_unique
    np.testing.assert_allclose(release.answer(table[["x"]]), table["fraction"], 0, 1e-12)
    totals = dict(zip(table["x"], table["fraction"], strict=True))
    np.testing.assert_allclose(
        release.calibrate({"x": totals}).table("x")["fraction"], table["fraction"], atol=1e-9
    )


def test_plots_and_cards_have_the_names_of_the_table(tmp_path):
    release = fitted()
    assert MarginalDisplay.from_estimator(release, "kids").labels == ["0", "1", ">= 2"]
    edges = fitted(queries=MarginalQueries(bins={"kids": [0, 1, 5]}))
    labels = MarginalDisplay.from_estimator(edges, "kids").labels
    assert labels == edges.table("kids")["kids"].tolist()
    card = report(release, tmp_path / "card.html").read_text(encoding="utf-8")
    assert "kids × region" in card
    assert "outside the bounds 0 to 10 count as the nearer bound; cells: 0; 1; &gt;= 2" in card
    assert "categories: east; west; (other); (missing)" in card
