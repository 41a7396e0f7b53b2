"""Whole counts that add up, grades of reliability, and suppressed cells."""

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease
from skpublicdp.query_release import MarginalQueries
from tests.internals.query_release import (
    complete_suppression,
    controlled_rounding,
    grades,
    largest_remainders,
)


def people(n, seed):
    rng = np.random.default_rng(seed)
    region = rng.choice(["a", "b", "c", "d"], size=n, p=[0.6, 0.3, 0.09, 0.01])
    job = rng.choice(["x", "y", "z"], size=n, p=[0.8, 0.19, 0.01])
    return pd.DataFrame({"region": region, "job": job, "age": rng.integers(0, 80, n)})


@pytest.fixture(scope="module")
def release():
    queries = MarginalQueries(k=3, bins=4)
    release = PAPQueryRelease(queries, bounds={"age": (0, 80)}, random_state=0)
    return release.fit(people(7_654, 0), X_public=people(200, 1))


def sums(table, column):
    return table.groupby(column, observed=True, sort=False)["count"].sum()


@pytest.mark.parametrize("counts", ["whole", ("whole", 1_000_003)])
def test_whole_counts_add_up(release, counts):
    n = 7_654 if counts == "whole" else counts[1]
    table = release.table(["job", "region"], counts=counts)
    assert table["count"].dtype.kind == "i"
    for column in ("region", "job", "age"):
        margin = release.table(column, counts=counts).set_index(column)["count"]
        assert margin.sum() == n
        if column in table:
            assert sums(table, column).to_dict() == margin.to_dict()
    fractions = table["fraction"] * n
    assert (np.abs(table["count"] - fractions) < 2).all()
    assert (np.abs(table["count"] - fractions) < 1).mean() > 0.8
    ends = release.table(["job", "region"], counts=n)
    assert (table["count_low"] == np.floor(ends["count_low"])).all()
    assert (table["count_high"] == np.ceil(ends["count_high"])).all()
    # another order of columns, a wider table, a wide table and combined cells have the same counts
    other = release.table(["region", "job"], counts=counts)
    assert (
        other.set_index(["job", "region"])["count"].to_dict()
        == table.set_index(["job", "region"])["count"].to_dict()
    )
    three = release.table(["region", "job", "age"], counts=counts)
    pairs = three.groupby(["job", "region"], observed=True)["count"].sum()
    assert pairs.to_dict() == table.set_index(["job", "region"])["count"].to_dict()
    wide = release.table(["region", "job"], counts=counts, wide=True)
    assert wide["x"].sum() == table.loc[table["job"] == "x", "count"].sum()
    combined = release.table(
        ["job", "region"], counts=counts, collapse={"region": {"ab": ["a", "b"]}}
    )
    expected = table[table["region"].isin(["a", "b"]) & (table["job"] == "x")]["count"].sum()
    is_cell = (combined["region"] == "ab") & (combined["job"] == "x")
    assert combined.loc[is_cell, "count"].item() == expected


def test_whole_counts_of_a_single_number():
    ages = people(3_000, 0)[["age"]]
    release = PAPQueryRelease(bounds=(0, 80), random_state=0)
    release = release.fit(ages, X_public=people(100, 1)[["age"]])
    counts = release.table("age", counts="whole")["count"]
    assert counts.sum() == 3_000
    assert counts.dtype.kind == "i"


def test_fractions_near_zero_are_zero(release):
    fractions = release.table(["region", "job", "age"])["fraction"]
    assert not ((fractions > 0) & (fractions < 1e-12)).any()


def test_invalid_counts(release):
    for counts in ("half", ("whole", 0), ("whole", 2.5), 0):
        with pytest.raises(ValueError, match="counts must be a bool"):
            release.table("region", counts=counts)


def test_largest_remainders():
    assert largest_remainders(np.array([1.5, 2.3, 0.2]), 4).tolist() == [2, 2, 0]
    assert largest_remainders(np.array([0.3, 0.3, 0.4]), 10).tolist() == [3, 3, 4]


@pytest.mark.parametrize("seed", range(20))
def test_controlled_rounding(seed):
    rng = np.random.default_rng(seed)
    counts = rng.gamma(0.3, 3, size=rng.integers(2, 7, size=2)) * (rng.random() < 0.9)
    counts[rng.random(counts.shape) < 0.3] = 0
    counts[0, 0] += 1
    n = round(counts.sum())
    rows = largest_remainders(counts.sum(axis=1), n)
    columns = largest_remainders(counts.sum(axis=0), n)
    rounded = controlled_rounding(counts, rows, columns)
    assert (rounded >= 0).all()
    assert rounded.sum(axis=1).tolist() == rows.tolist()
    assert rounded.sum(axis=0).tolist() == columns.tolist()
    # with margins that are sums of rounded cells, every cell becomes a neighbouring whole number
    nearest = np.floor(counts + 0.5).astype(int)
    again = controlled_rounding(counts, nearest.sum(axis=1), nearest.sum(axis=0))
    assert again.tolist() == nearest.tolist()
    assert (rounded[counts == 0] == 0).mean() > 0.9


def test_margins_that_require_a_cell_of_zero():
    counts = np.diag([0.5, 0.5])
    rounded = controlled_rounding(counts, np.array([1, 0]), np.array([0, 1]))
    assert rounded.tolist() == [[0, 1], [0, 0]]


def test_grades(release):
    half_widths = np.array([0.05, 0.09, 0.15, 0.25, 0.45, 0.6])
    found = grades(np.ones(6), 1 - half_widths, 1 + half_widths, (0.1, 0.2, 0.3, 0.5))
    assert "".join(found) == "AABCDE"
    assert grades(np.zeros(1), np.zeros(1), np.zeros(1), (0.1, 0.2, 0.3, 0.5)).tolist() == ["E"]
    table = release.table("region", quality=True)
    assert table["quality"].tolist()[0] == "A"
    assert table["quality"].tolist()[-1] == "E"
    own = release.table("region", quality=[1e-6, 2e-6, 3e-6, 100])["quality"]
    assert own.tolist()[0] == "D"
    shares = release.table("job", within="region", quality=True)
    assert set(shares["quality"]) <= set("ABCDE")


@pytest.mark.parametrize("quality", [1, [0.1, 0.2, 0.3], [0.1, 0.1, 0.2, 0.3], [0, 1, 2, 3]])
def test_invalid_limits(release, quality):
    with pytest.raises(ValueError, match="quality must be"):
        release.table("region", quality=quality)


def test_invalid_suppress(release):
    for suppress in ("A", "F", 0.3, True):
        with pytest.raises(ValueError, match="suppress must be a grade"):
            release.table("region", suppress=suppress)
    public = PAPQueryRelease(MarginalQueries(), method="public", random_state=0)
    public = public.fit(people(200, 0), X_public=people(100, 1))
    with pytest.raises(ValueError, match="require intervals"):
        public.table("region", quality=True)


def test_suppressed_tables(release):
    plain = release.table(["region", "job"], counts=True, quality=True)
    hidden = release.table(["region", "job"], counts=True, quality=True, suppress="D")
    is_hidden = hidden["fraction"].isna()
    assert is_hidden[plain["quality"] >= "D"].all()
    assert not is_hidden.all()
    for name in ("low", "high", "count", "count_low", "count_high"):
        assert (hidden[name].isna() == is_hidden).all()
    visible = ~is_hidden
    assert (hidden.loc[visible, "fraction"] == plain.loc[visible, "fraction"]).all()
    for column in ("region", "job"):
        n_hidden = is_hidden.groupby(hidden[column].to_numpy()).sum()
        assert (n_hidden != 1).all()
    assert "quality" not in release.table("region", suppress="D")


@pytest.mark.parametrize("seed", range(25))
def test_hidden_cells_are_not_determined_by_sums(seed):
    """Checked by the rank of the system of equations; there are as few hidden cells as needed."""
    rng = np.random.default_rng(seed)
    shape = [(5,), (4, 5), (2, 2), (3, 4, 3), (6, 3)][seed % 5]
    must_hide = rng.random(shape) < 0.15
    hidden = complete_suppression(must_hide, rng.random(shape))
    assert hidden[must_hide].all()
    assert hidden.any() == must_hide.any()
    cells = np.argwhere(hidden)
    equations = []
    for axis in range(len(shape)):
        others = np.delete(cells, axis, axis=1)
        for line in np.unique(others, axis=0):
            equations.append((others == line).all(axis=1).astype(float))
    if not equations:
        return
    rank = np.linalg.matrix_rank(np.array(equations))
    for number in range(len(cells)):
        unit = np.eye(len(cells))[number]
        assert np.linalg.matrix_rank(np.array([*equations, unit])) == rank + 1


def test_a_bridge_between_two_blocks_is_found():
    """Each line has two hidden cells, but the middle cell follows from the sums of a block."""
    hidden = np.zeros((5, 5), dtype=bool)
    hidden[:2, :2] = hidden[3:, 3:] = True
    hidden[2, [1, 3]] = True
    sizes = np.arange(25.0).reshape(5, 5)
    assert complete_suppression(hidden, sizes).sum() > hidden.sum()
