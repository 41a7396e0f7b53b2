"""Structural zeros and hierarchies: impossible cells are empty, and private rows do not decide."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease
from skpublicdp.query_release import MarginalQueries
from tests.internals.query_release import (
    complete_suppression,
    synthetic,
)
from tests.kit import Recorder

STATE_OF = {"a": "N", "b": "N", "c": "N", "d": "S", "e": "S"}
COUNTIES = sorted(STATE_OF)
UNKNOWN = ["(other)", "(missing)"]
CLOSED = [{column: UNKNOWN} for column in ("county", "state", "work")]
CHILDREN = {"work": "child", "county": "a"}


@pytest.fixture(autouse=True)
def few_rows_are_drawn(monkeypatch):
    monkeypatch.setattr(synthetic, "N_TREE_ROWS", 2000)


def people(n, seed):
    """Return people of counties in two states. No child lives in county "a"."""
    generator = np.random.default_rng(seed)
    county = generator.choice(COUNTIES, p=[0.3, 0.2, 0.1, 0.3, 0.1], size=n)
    work = np.where(generator.random(n) < 0.3, "child", "yes")
    work[county == "a"] = "yes"
    return pd.DataFrame({"county": county, "state": [STATE_OF[x] for x in county], "work": work})


PUBLIC = people(100, 1)


def fit(rows, zeros=(*CLOSED, CHILDREN), hierarchy=None, k=2, public=PUBLIC, **settings):
    hierarchy = {"county": "state"} if hierarchy is None else hierarchy
    queries = MarginalQueries(k=k, zeros=list(zeros), hierarchy=hierarchy)
    release = PAPQueryRelease(queries, epsilon=1, delta=1e-6, random_state=0, **settings)
    return release.fit(rows, X_public=public)


def are_impossible(rows):
    """Indicate impossible rows, or cells of a table of some columns."""
    columns = [column for column in ("county", "state", "work") if column in rows]
    rows = rows.astype(str)
    found = rows[columns].isin(UNKNOWN).any(axis=1)
    if {"county", "state"} <= set(columns):
        found |= rows["county"].map(STATE_OF) != rows["state"]
    if {"county", "work"} <= set(columns):
        found |= (rows["county"] == "a") & (rows["work"] == "child")
    return found


@pytest.mark.parametrize("k", [2, 3])
class TestTables:
    def test_impossible_cells_are_zero_with_no_uncertainty(self, k):
        release = fit(people(2000, 0), k=k)
        columns = ["county", "state", "work"]
        for width in range(1, k + 1):
            for names in itertools.combinations(columns, width):
                table = release.table(list(names), simultaneous=True)
                impossible = table[are_impossible(table)]
                assert len(impossible) > 0
                assert (impossible[["fraction", "low", "high"]] == 0).all(axis=None)
                assert table["fraction"].sum() == pytest.approx(1)
                single = release.table(list(names))
                assert (single[are_impossible(single)][["low", "high"]] == 0).all(axis=None)
        shares = release.table(["county", "work"], within="county")
        assert (shares[are_impossible(shares)]["high"] == 0).all()

    def test_counties_add_up_to_their_state(self, k):
        release = fit(people(2000, 0), k=k)
        for others in ([], ["work"]):
            counties = release.table(["county", *others])
            counties["state"] = counties["county"].astype(str).map(STATE_OF)
            sums = counties.groupby(["state", *others])["fraction"].sum()
            states = release.table(["state", *others]).set_index(["state", *others])["fraction"]
            np.testing.assert_allclose(states.loc[sums.index], sums, atol=1e-7)

    def test_synthetic_rows_are_possible(self, k):
        assert not are_impossible(fit(people(2000, 0), k=k).sample(3000)).any()


def test_columns_without_a_common_table_are_possible_together_in_synthetic_rows():
    assert not are_impossible(fit(people(2000, 0), k=1).sample(3000)).any()


def test_estimates_of_other_cells_are_closer_than_without_zeros():
    rows = people(4000, 0)
    truth = rows.groupby(["county", "state"]).size() / len(rows)
    errors = {}
    declared = MarginalQueries(zeros=CLOSED, hierarchy={"county": "state"})
    for name, queries in (("with", declared), ("without", MarginalQueries())):
        squares = []
        for seed in range(8):
            release = PAPQueryRelease(queries, epsilon=0.3, delta=1e-6, random_state=seed)
            table = release.fit(rows, X_public=PUBLIC).table(["county", "state"])
            table = table.set_index(["county", "state"])["fraction"]
            squares.append(((table.loc[truth.index] - truth) ** 2).mean())
        errors[name] = np.mean(squares)
    assert errors["with"] < errors["without"]


class TestDeclarations:
    def test_a_frame_equals_dicts(self):
        rows = people(500, 0)
        frame = pd.DataFrame({"county": ["a", "b"], "work": ["child", "yes"]})
        dicts = [{"county": "a", "work": ["child"]}, {"county": "b", "work": "yes"}]
        by_frame, by_dicts = fit(rows, zeros=[frame]), fit(rows, zeros=dicts)
        pd.testing.assert_frame_equal(
            by_frame.table(["county", "work"]), by_dicts.table(["county", "work"])
        )

    def test_a_declared_hierarchy_equals_that_of_public_rows(self):
        rows = people(500, 0)
        declared = fit(rows, hierarchy={"county": ("state", {**STATE_OF, "unseen": "S"})})
        found = fit(rows)
        pd.testing.assert_frame_equal(
            declared.table(["county", "state"]), found.table(["county", "state"])
        )

    def test_unknown_counties_may_be_in_any_state(self):
        public = PUBLIC[PUBLIC["county"] != "e"]
        rows = people(2000, 0)
        release = fit(rows, zeros=[], public=public)
        table = release.table(["county", "state"]).set_index(["county", "state"])
        true = (rows["county"] == "e").mean()
        assert table.loc[("(other)", "S"), "fraction"] == pytest.approx(true, abs=0.03)
        assert (table.loc[("(other)", "N"), "high"] > 0).all()

    def test_categories_of_a_type_are_complete(self):
        typed = PUBLIC.astype({"work": pd.CategoricalDtype(["child", "yes"])})
        work = fit(people(500, 0), zeros=[], public=typed).table("work").set_index("work")
        assert work.loc["(other)", "high"] == 0
        assert work.loc["(missing)", "high"] > 0

    def test_whole_bins_of_a_number(self):
        generator = np.random.default_rng(0)
        rows = pd.DataFrame({"age": generator.uniform(0, 90, 1000).round(1)})
        rows["job"] = np.where(rows["age"] <= 15, "none", generator.choice(["none", "shop"], 1000))
        zeros = [{"age": "(-0.001, 15.0]", "job": ["shop"]}]
        queries = MarginalQueries(bins={"age": [0, 15, 90]}, zeros=zeros)
        release = PAPQueryRelease(queries, bounds={"age": (0, 90)}, random_state=0)
        release.fit(rows, X_public=rows[:50].copy())
        assert release.interval({"age": 3, "job": "shop"}).tolist() == [[0, 0]]
        sample = release.sample(1000)
        assert not ((sample["age"] <= 15) & (sample["job"] == "shop")).any()


class TestErrors:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"zeros": [{}]}, "must name at least one column"),
            ({"zeros": ["a"]}, "zeros must be a list of dicts"),
            ({"zeros": [{"county": COUNTIES + UNKNOWN}]}, "exclude all values of county"),
            ({"hierarchy": {"county": "county"}}, "categorical column to another one"),
            ({"hierarchy": {"state": "county"}}, "'N' lies in several"),
            ({"hierarchy": {"county": ("state", {"a": "W"})}}, "no category 'W'"),
        ],
    )
    def test_declarations(self, settings, message):
        with pytest.raises(ValueError, match=message):
            fit(people(60, 0), **settings)

    def test_a_number_of_a_wider_bin(self):
        rows = pd.DataFrame({"age": np.arange(100.0), "job": ["farm", "shop"] * 50})
        queries = MarginalQueries(bins=4, zeros=[{"age": 3, "job": "shop"}])
        with pytest.raises(ValueError, match="must be whole bins"):
            PAPQueryRelease(queries, bounds={"age": (0, 99)}).fit(rows, X_public=rows[:40].copy())

    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
    def test_hierarchy_without_public_rows(self):
        types = {"county": pd.CategoricalDtype(COUNTIES), "state": pd.CategoricalDtype(["N", "S"])}
        rows = people(60, 0)[["county", "state"]].astype(types)
        with pytest.raises(ValueError, match="requires public rows"):
            fit(rows, zeros=[], public=None)

    def test_other_methods(self):
        with pytest.raises(ValueError, match="require method='auto'"):
            fit(people(60, 0), method="pmw")


def visible(rows, outcomes=None, **settings):
    """Return the calls of the ledger, and everything that a release shows, as bytes."""
    with Recorder(outcomes) as recorder:
        release = fit(pd.DataFrame(rows, columns=PUBLIC.columns), **settings)
    shown = [release, release.table(["county", "state"]), release.sample(20)]
    return recorder.calls, pickle.dumps([*shown, release.privacy_.to_dict()])


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
@pytest.mark.parametrize("zeros", [[*CLOSED, CHILDREN], [CHILDREN]])
def test_private_rows_enter_through_paid_tables_only(zeros):
    """Neighbours include rows in impossible cells, and rows that the declarations do not know."""
    kinds = [("a", "N", "yes"), ("d", "S", "child"), ("a", "S", "child"), ("spy", None, "x")]
    rows = [kinds[0]] * 5 + [kinds[1]] * 4 + [kinds[2]]
    calls, shown = visible(rows, zeros=zeros)
    outcomes = [call.outcome for call in calls]
    largest = 0
    for changed in (0, 9):
        for kind in kinds:
            neighbour = [*rows[:changed], kind, *rows[changed + 1 :]]
            same_calls, same = visible(neighbour, outcomes, zeros=zeros)
            assert same == shown
            for call, other in zip(calls, same_calls, strict=True):
                assert call.sensitivity == other.sensitivity
                change = call.exact_input - other.exact_input
                assert np.abs(change).sum() <= call.sensitivity.absolute
                assert (change**2).sum() <= call.sensitivity.squared
                largest = max(largest, np.abs(change).sum())
    assert largest == 2


class TestCombined:
    """Impossible cells in combined cells, counts to publish and suppression."""

    @pytest.fixture
    def release(self):
        rng = np.random.default_rng(0)

        def rows(n):
            county = rng.choice(["A1", "A2", "A3", "B1", "B2"], n, p=[0.3, 0.29, 0.01, 0.2, 0.2])
            return pd.DataFrame({"state": pd.Series(county).str[0], "county": county})

        queries = MarginalQueries(hierarchy={"county": "state"}, zeros=[{"county": "(other)"}])
        return PAPQueryRelease(queries, random_state=0).fit(rows(4000), X_public=rows(500))

    def test_intervals_of_impossible_combinations(self, release):
        query = {"state": "A", "county": ["B1", "B2"]}
        for simultaneous in (False, True):
            ends = release.interval([query], simultaneous=simultaneous)
            assert ends.tolist() == [[0, 0]]

    def test_combined_cells_are_impossible_if_all_their_cells_are(self, release):
        groups = {"north": ["A1", "B1"], "south": ["A2", "A3"], "east": ["B2"]}
        table = release.table(["state", "county"], collapse={"county": groups})
        table = table.set_index(["state", "county"])
        assert table.loc[("B", "south"), ["low", "high"]].tolist() == [0, 0]
        assert table.loc[("A", "east"), ["low", "high"]].tolist() == [0, 0]
        for cell in (("A", "north"), ("A", "south"), ("B", "north"), ("B", "east")):
            assert table.loc[cell, "low"] < table.loc[cell, "fraction"] < table.loc[cell, "high"]

    def test_whole_counts_of_impossible_cells_are_0(self, release):
        table = release.table(["state", "county"], counts="whole")
        is_impossible = table["state"] != table["county"].str[0]
        is_known = table["county"].str.len() == 2
        impossible = table[is_impossible & is_known & table["state"].isin(["A", "B"])]
        assert len(impossible) == 5
        assert (impossible["count"] == 0).all()
        assert table["count"].sum() == 4000

    def test_impossible_cells_are_known_and_not_hidden(self, release):
        table = release.table(["state", "county"], quality=True, suppress="E")
        impossible = table[(table["low"] == 0) & (table["high"] == 0)]
        assert (impossible["quality"] == "A").all()
        assert len(impossible) > 4
        one_line = np.array([[True, False, False]])
        hidden = complete_suppression(one_line, np.array([[1.0, 2, 3]]), ~one_line)
        assert hidden.tolist() == one_line.tolist()
