"""Bins of tables with public edges: labels, codes, histograms and errors."""

import re

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease
from skpublicdp.exceptions import UncoveredBoundsWarning
from skpublicdp.query_release import MarginalQueries
from tests.internals.data import Column
from tests.internals.query_release import bin_labels, cuts_from_edges, max_bins

EDGES = [0, 10, 20, 50]


def households(n, seed):
    generator = np.random.default_rng(seed)
    income = np.where(generator.random(n) < 0.2, 0, generator.gamma(2, 9, size=n).round())
    return pd.DataFrame(
        {"income": income.clip(0, 100), "region": generator.choice(["east", "west"], size=n)}
    )


ROWS, PUBLIC = households(10_000, 0), households(300, 1)


def fitted(bins, rows=ROWS, public=PUBLIC, bounds=(0, 100), **settings):
    release = PAPQueryRelease(
        MarginalQueries(bins=bins),
        epsilon=5.0,
        bounds={"income": bounds},
        random_state=0,
        **settings,
    )
    return release.fit(rows, X_public=public)


def column(low, high, **settings):
    return Column("x", np.array([low, high]), categorical=False, low=low, high=high, **settings)


@pytest.mark.parametrize(
    "edges",
    [
        [0, 10, 20, 50],
        [-5, 0, 5],
        [0.0, 0.25, 0.5],
        [1e-7, 2e-7, 3e-7],
        [100.0001, 100.0002, 100.0003],
        [0, 1234567.891, 2e6],
        [-np.inf, 0, 1.5, np.inf],
    ],
)
def test_labels_are_those_of_pandas(edges):
    expected = pd.cut([], edges, include_lowest=True).categories.astype(str).tolist()
    assert bin_labels(np.array(edges, float), column(edges[0], edges[-1])) == expected


class TestCells:
    def test_table(self):
        """Cells are those of pandas, and rows outside the edges have a bin of their own."""
        table = fitted({"income": EDGES}).table("income")
        labels = pd.cut(ROWS["income"], EDGES, include_lowest=True)
        truth = (labels.value_counts(sort=False) / len(ROWS)).tolist()
        truth += [(ROWS["income"] > 50).mean()]
        assert table["income"].tolist() == [*labels.cat.categories.astype(str), "> 50"]
        np.testing.assert_allclose(table["fraction"], truth, atol=0.01)
        assert table["fraction"].sum() == pytest.approx(1)

    @pytest.mark.parametrize("method", ["auto", "public", "pmw"])
    def test_every_number_has_the_cell_of_its_label(self, method):
        rows = pd.DataFrame({"income": [-5.0, -1e-9, 0, 1, 10, 10.5, 50, 50.5, 60]})
        release = fitted({"income": EDGES}, rows=ROWS[["income"]], public=PUBLIC[["income"]],
                         bounds=(-10, 60), method=method)  # fmt: skip
        table = release.table("income")
        assert table["income"].tolist()[0] == "< 0"
        Q = [{"income": value} for value in (-1, 5, 15, 30, 60)]
        np.testing.assert_array_equal(release.answer(Q), table["fraction"])
        cells = release.holds(Q, rows).argmax(axis=0)
        assert cells.tolist() == [0, 0, 1, 1, 1, 2, 3, 4, 4]

    def test_no_bins_outside_the_bounds(self):
        edges = [-np.inf, 10, np.inf]
        assert fitted({"income": edges}).table("income")["income"].tolist() == [
            "(-inf, 10.0]",
            "(10.0, inf]",
        ]
        assert cuts_from_edges(np.array([0.0, 1, 2]), column(0, 2)).tolist() == [1]

    def test_numbers_of_bins_by_column(self):
        rows = ROWS.assign(age=ROWS["income"] + np.arange(len(ROWS)) % 7)
        public = PUBLIC.assign(age=PUBLIC["income"] + np.arange(len(PUBLIC)) % 7)
        release = fitted({"age": 4, 0: EDGES}, rows, public)
        assert len(release.table("age")) == 4
        assert len(release.table("income")) == 4
        table = release.table(["income", "age"], within="income")
        assert table["income"].tolist()[::4] == release.table("income")["income"].tolist()

    def test_synthetic_rows_and_means(self):
        release = fitted({"income": EDGES})
        sample = release.sample(20_000)
        table = release.table("income", counts=20_000)
        labels = pd.cut(sample["income"], [*EDGES, np.inf], include_lowest=True)
        counts = labels.value_counts(sort=False).to_numpy()
        np.testing.assert_allclose(counts, table["count"], atol=4 * np.sqrt(5_000))
        assert sample["income"].dtype == np.int64  # as public values are whole
        assert (sample["income"] % 1 == 0).all()
        assert release.mean("income") == pytest.approx(ROWS["income"].mean(), abs=1.5)


def test_numbers_of_bins_for_planning():
    """Edges give one bin each, and one on either side for rows beyond them."""
    chosen = {"income": EDGES, "age": 4}
    assert [max_bins(chosen, name) for name in ("income", "age", "wage")] == [5, 4, 16]
    assert max_bins(7, "income") == 7


class TestHistogram:
    def test_edges_of_the_fit(self):
        release = fitted({"income": [0, 10, 20, 100]})
        table = release.table("income")
        found = release.histogram(column="income")
        np.testing.assert_allclose(found, table["fraction"], atol=1e-4)
        np.testing.assert_array_equal(found, release.histogram([0, 10, 20, 100], "income"))
        ends = release.histogram_interval(column="income")
        assert (ends[:, 0] <= found).all()
        assert (found <= ends[:, 1]).all()
        # bins are cells, so that nothing within bins is unknown
        np.testing.assert_allclose(ends, table[["low", "high"]], atol=0.005)

    def test_rows_outside_the_edges(self):
        release = fitted({"income": EDGES})
        with pytest.warns(UncoveredBoundsWarning, match="from 0 to 50"):
            found = release.histogram(column="income")
        np.testing.assert_allclose(found, release.table("income")["fraction"][:3], atol=1e-4)


@pytest.mark.parametrize(
    ("bins", "message"),
    [
        ({"income": [0]}, "edges of column income"),
        ({"income": [0, 10, 5]}, "edges of column income"),
        ({"income": [0, 10, 10]}, "edges of column income"),
        ({"income": [[0, 10]]}, "edges of column income"),
        ({"income": [0, 50, 150, 200]}, "column income .*0 to 100"),
        ({"income": [-20, -10, 0, 50]}, "bins of column income"),
        ({"region": [0, 1]}, "column region"),
        ({"pay": [0, 1]}, "are income, region"),
        ({"income": 0}, "'bins' parameter"),
        ({"income": 2.5}, "'bins' parameter"),
        ("many", "'bins' parameter"),
        ([0, 10], "'bins' parameter"),
    ],
)
def test_invalid(bins, message):
    with pytest.raises(ValueError, match=re.compile(message)):
        fitted(bins)
