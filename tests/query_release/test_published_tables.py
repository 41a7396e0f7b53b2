"""Tables for publication: order of categories, counts, wide tables, shares within groups, means."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skpublicdp import PAPQueryRelease
from skpublicdp.exceptions import UnmeasuredWarning
from skpublicdp.query_release import MarginalQueries, StumpQueries
from tests.internals.data import natural_key
from tests.internals.privacy import Ledger
from tests.internals.query_release import release_marginals

N, M = 8_000, 300
GRADES = ["9", "10", "11", "12"]
LEVELS = ["low", "middle", "high"]


def people(n, seed):
    generator = np.random.default_rng(seed)
    region = generator.choice(["east", "west"], size=n, p=[0.3, 0.7])
    smokes = generator.random(n) < np.where(region == "east", 0.4, 0.1)
    level = generator.choice(LEVELS, size=n, p=[0.5, 0.3, 0.2])
    return pd.DataFrame(
        {
            "region": region,
            "smokes": np.where(smokes, "yes", "no"),
            "level": pd.Categorical(level, categories=LEVELS, ordered=True),
            "grade": generator.choice(GRADES, size=n),
            "income": np.where(region == "east", 10, 30) + generator.integers(0, 5, size=n),
        }
    )


PEOPLE, PUBLIC = people(N, 0), people(M, 1)
OTHERS = ["(other)", "(missing)"]


def fitted(rows=PEOPLE, public=PUBLIC, queries=None, **settings):
    settings = {"epsilon": 5.0, "bounds": {"income": (0, 50)}, **settings}
    return PAPQueryRelease(queries, random_state=0, **settings).fit(rows, X_public=public)


@pytest.fixture(scope="module")
def release():
    return fitted()


class TestOrder:
    def test_natural_key(self):
        texts = ["<10", "10-20", "20-100", "100-200", ">200"]
        assert sorted(texts[3:0:-1], key=natural_key) == texts[1:4]
        labels = pd.cut([0.0], [-10.5, -1, 0, 9, 10, 200]).categories.astype(str).tolist()
        assert sorted(sorted(labels), key=natural_key) == labels
        assert sorted(["b2", "a10", "a9"], key=natural_key) == ["a9", "a10", "b2"]

    @pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
    def test_tables(self, release, library):
        if library == "polars":
            types = {"level": pl.Enum(LEVELS)}
            frames = [
                pl.from_pandas(rows.astype({"level": str}), schema_overrides=types)
                for rows in (PEOPLE, PUBLIC)
            ]
            release = fitted(*frames)
        elif library == "pyarrow":  # text declares no order
            frames = [
                pl.from_pandas(rows.astype({"level": str})).to_arrow() for rows in (PEOPLE, PUBLIC)
            ]
            release = fitted(*frames)
        table = release.table("grade")
        assert list(map(str, table["grade"].to_numpy())) == GRADES + OTHERS
        order = sorted(LEVELS) if library == "pyarrow" else LEVELS
        table = release.table(["region", "level"])
        assert list(map(str, table["level"].to_numpy())) == [*order, *OTHERS] * 4
        assert (
            list(map(str, table["region"].to_numpy()))
            == np.repeat(["east", "west", *OTHERS], 5).tolist()
        )
        fractions = np.asarray(table["fraction"].to_numpy()).reshape(4, 5)[:2, :3]
        truth = pd.crosstab(PEOPLE["region"], PEOPLE["level"].astype(str), normalize=True)
        np.testing.assert_allclose(fractions, truth[order], atol=0.01)

    def test_the_declared_order_depends_on_types_alone(self):
        """Declared categories that no row has are in the table at their place."""
        levels = ["lowest", *LEVELS, "highest"]
        rows, public = (
            frame.assign(level=frame["level"].cat.set_categories(levels))
            for frame in (PEOPLE, PUBLIC)
        )
        assert fitted(rows, public).table("level")["level"].tolist() == [*levels, *OTHERS]


class TestCounts:
    def test_counts_are_multiples_of_fractions(self, release):
        table = release.table(["region", "smokes"], counts=True)
        for name, count_name in (
            ("fraction", "count"),
            ("low", "count_low"),
            ("high", "count_high"),
        ):
            np.testing.assert_allclose(table[count_name], N * table[name], atol=1e-6)
        population = release.table(["region", "smokes"], counts=10**6)
        np.testing.assert_allclose(population["count"], 10**6 * table["fraction"], atol=1e-6)
        assert "count_low" not in fitted(method="public").table("region", counts=True)

    def test_weights(self):
        """The sum of private weights is not known, so that counts are those of a population."""
        rows, public = (frame.assign(w=2.0 + (frame["income"] > 20)) for frame in (PEOPLE, PUBLIC))
        bounds = {"income": (0, 50), "w": (0, 4)}
        release = fitted(rows, public, weights="w", bounds=bounds)
        with pytest.raises(ValueError, match="counts must be the"):
            release.table("region", counts=True)
        table = release.table("region", counts=10**6)
        np.testing.assert_allclose(table["count"], 10**6 * table["fraction"])
        assert len(list(release.tables())) == 5 + 10
        public.loc[0, "w"] = np.nan
        with pytest.raises(ValueError, match="column w"):
            fitted(rows, public, weights="w", bounds=bounds)

    @pytest.mark.parametrize("counts", [0, -3, 2.5, "yes", None])
    def test_invalid_counts(self, release, counts):
        with pytest.raises(ValueError, match="counts must be a bool"):
            release.table("region", counts=counts)


class TestWide:
    @pytest.mark.parametrize(
        ("settings", "value"),
        [
            ({}, "fraction"),
            ({"counts": True}, "count"),
            ({"within": "region"}, "share"),
            ({"wide": "high"}, "high"),
            ({"counts": 5000, "wide": "count_low"}, "count_low"),
        ],
    )
    def test_pivot(self, release, settings, value):
        columns = ["region", "level", "smokes"]
        release = fitted(queries=MarginalQueries(k=3)) if settings == {} else release
        columns = columns if settings == {} else ["region", "smokes"]
        settings = {"wide": True, **settings}
        wide = release.table(columns, **settings)
        long = release.table(columns, **{**settings, "wide": False})
        assert wide.columns.tolist() == [*columns[:-1], "no", "yes", *OTHERS]
        pivot = long.pivot(index=columns[:-1], columns="smokes", values=value)
        keys = wide[columns[:-1]] if len(columns) > 2 else wide["region"]
        index = pd.MultiIndex.from_frame(keys) if len(columns) > 2 else keys
        found = wide.set_index(columns[:-1])
        pd.testing.assert_frame_equal(
            found, pivot.loc[index, found.columns], check_names=False, check_column_type=False
        )

    def test_one_column(self, release):
        wide = release.table("grade", wide=True)
        assert wide.columns.tolist() == [*GRADES, *OTHERS]
        np.testing.assert_array_equal(wide.to_numpy()[0], release.table("grade")["fraction"])

    def test_a_category_with_the_name_of_a_column(self):
        rows = pd.DataFrame({"a": ["a", "b"] * 500, "b": ["a", "x"] * 500})
        wide = fitted(rows, rows[:100].copy(), bounds=None).table(["a", "b"], wide=True)
        assert wide.columns.tolist() == ["a", "b = a", "x", *OTHERS]


class TestTables:
    def test_all_released_tables(self, release):
        tables = list(release.tables(0.9, counts=True))
        names = [
            list(columns)
            for width in (1, 2)
            for columns in itertools.combinations(PEOPLE.columns, width)
        ]
        assert len(tables) == len(names)
        for table, columns in zip(tables, names, strict=True):
            pd.testing.assert_frame_equal(table, release.table(columns, 0.9, counts=True))

    def test_simultaneous_intervals_hold_for_all_tables(self, release):
        """The failure probability of a cell is the one of as many queries as there are cells."""
        tables = list(release.tables(simultaneous=True))
        n_cells = sum(map(len, tables))
        failure = 0.05 / (2 * n_cells)
        grade = tables[3]
        assert grade.columns[0] == "grade"
        noisy = release._released.answers.release.noisy((3,), (np.array([3, 0, 1, 2, 4, 5]),))
        low, high = noisy.bounds(failure)
        assert (grade["low"] <= low + 1e-12).all()
        assert (grade["high"] >= high - 1e-12).all()
        alone = release.table("grade", simultaneous=True)
        assert (grade["low"] <= alone["low"]).all()
        assert (grade["high"] >= alone["high"]).all()


@pytest.fixture(scope="module")
def ages():
    ages = pd.DataFrame({"age": np.random.default_rng(0).integers(17, 91, size=8000)})
    release = PAPQueryRelease(bounds={"age": (0, 120)}, random_state=0)
    return release.fit(ages[200:], X_public=ages[:200])


class TestTableOfOneNumber:
    def test_bins_are_cut_at_round_numbers(self, ages):
        table = ages.table("age", counts=True)
        assert table.columns.tolist() == [
            *["age", "fraction", "low", "high"],
            *["count", "count_low", "count_high"],
        ]
        assert table["age"].tolist()[:2] == ["(-0.001, 20.0]", "(20.0, 25.0]"]
        assert table["fraction"].sum() == pytest.approx(1)
        assert table["count"].sum() == pytest.approx(7800)
        cuts = np.arange(20, 95, 5)
        assert len(table) == len(cuts) + 1
        edges = [0, *cuts, 120]
        np.testing.assert_allclose(table["fraction"], ages.histogram(edges), atol=1e-12)
        ends = ages.histogram_interval(edges)
        np.testing.assert_allclose(table[["low", "high"]], ends, atol=1e-12)
        wider = ages.table(0, simultaneous=True)
        assert ((wider["high"] - wider["low"]) >= (table["high"] - table["low"]) - 1e-12).all()

    def test_tables_and_wide_tables(self, ages):
        (table,) = ages.tables()
        pd.testing.assert_frame_equal(table, ages.table("age"))
        wide = ages.table("age", wide="low")
        assert wide.columns.tolist() == table["age"].tolist()
        np.testing.assert_array_equal(wide.iloc[0], table["low"])
        with pytest.raises(ValueError, match="wide"):
            ages.table("age", wide="share")

    @pytest.mark.filterwarnings("ignore:The public rows contain|No error bound|There are too few")
    @pytest.mark.parametrize("settings", [{"method": "public"}, {"method": "pmw"}])
    def test_releases_without_intervals(self, settings):
        rows = np.random.default_rng(0).normal(size=(4000, 1))
        release = PAPQueryRelease(bounds=(-5, 5), random_state=0, **settings)
        table = release.fit(rows[100:], X_public=rows[:100].copy()).table(0)
        assert list(table) == ["x0", "fraction"]
        assert table["fraction"].sum() == pytest.approx(1)

    def test_numbers_of_a_release_of_stumps_and_dates(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(
            {
                "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, 4000), "D"),
                "job": rng.choice(["farm", "shop"], size=4000),
            }
        )
        release = PAPQueryRelease(StumpQueries(), random_state=0)
        release = release.fit(frame[200:], X_public=frame[:200])
        table = release.table("day")
        assert len(table) == 16
        assert table["day"][0].startswith("<= 20")
        assert table["day"].iloc[-1].startswith("> 20")
        assert table["fraction"].sum() == pytest.approx(1)
        assert (table["low"] <= table["high"]).all()
        with pytest.raises(ValueError, match="table requires"):
            release.table("job")


class TestSmallStumbles:
    def test_counts_next_to_zero_are_zero(self):
        rows = pd.DataFrame(
            np.random.default_rng(0).choice(["x", "y"], (4000, 2)), columns=["a", "b"]
        )
        release = PAPQueryRelease(random_state=0).fit(rows[100:], X_public=rows[:100])
        counts = release.table(["a", "b"], counts=True)["count"]
        assert ((counts == 0) | (counts >= 1e-6)).all()

    @pytest.mark.parametrize("value", [(20, 30), "young", [1, "young"]])
    def test_a_number_of_no_cell_is_refused(self, value):
        rows = pd.DataFrame({"age": np.arange(2000) % 90, "job": ["x", "y"] * 1000})
        release = PAPQueryRelease(random_state=0).fit(rows[100:], X_public=rows[:100])
        with pytest.raises(ValueError, match="column age"):
            release.answer({"age": value, "job": "x"})


class TestUnmeasuredColumns:
    @pytest.fixture
    def jobs(self):
        rng = np.random.default_rng(0)
        rows = pd.DataFrame({"age": rng.integers(90, size=2000), "job": ["x", "y"] * 1000})
        release = PAPQueryRelease(MarginalQueries(workload=["job"]), random_state=0)
        return release.fit(rows[100:], X_public=rows[:100])

    @pytest.mark.parametrize(
        "ask",
        [
            lambda release: release.mean("age"),
            lambda release: release.cdf([20.0], "age"),
            lambda release: release.quantile([0.5], "age"),
            lambda release: release.histogram([-np.inf, 20, np.inf], "age"),
        ],
    )
    def test_estimates_of_other_columns_warn(self, jobs, ask):
        with pytest.warns(UnmeasuredWarning, match="column age"):
            ask(jobs)

    def test_intervals_are_refused(self, jobs):
        for ask in (jobs.mean_interval, jobs.cdf_interval, jobs.quantile_interval):
            arguments = () if ask == jobs.mean_interval else ([0.5],)
            with pytest.raises(ValueError, match="column age"):
                ask(*arguments, column="age")
        for ask in (jobs.mean, jobs.mean_interval):
            with pytest.raises(ValueError, match="age and job"):
                ask("age", by="job")


class TestWorkload:
    FRAME = pd.DataFrame(np.random.default_rng(0).choice(["x", "y"], (2000, 2)), columns=["a", "b"])

    def tables(self, workload):
        release = PAPQueryRelease(MarginalQueries(workload=workload), random_state=0)
        release = release.fit(self.FRAME[100:], X_public=self.FRAME[:100])
        return [table.columns.tolist()[:-3] for table in release.tables()]

    @pytest.mark.parametrize("workload", ["b", 1, ["b"], [1], [("b",)], np.array([1])])
    def test_a_single_column_is_its_table(self, workload):
        assert self.tables(workload) == [["b"]]

    def test_columns_beside_tables(self):
        assert self.tables([("a", "b"), "a"]) == [["a"], ["b"], ["a", "b"]]

    @pytest.mark.parametrize("workload", [["a", "b"], [0, 1], ("a", "b")])
    def test_columns_without_a_table_are_refused(self, workload):
        first, second = map(repr, workload)
        spelled = f"[({first}, {second})] for one table of these columns, or workload=[({first},)"
        with pytest.raises(ValueError, match="got columns") as caught:
            self.tables(workload)
        assert spelled in str(caught.value)

    def test_a_name_is_no_sequence_of_letters(self):
        with pytest.raises(ValueError, match="got 'ab'"):
            self.tables(["ab"])


class TestShares:
    def test_shares_are_ratios_of_fractions(self, release):
        table = release.table("smokes", within="region")
        assert table.columns.tolist() == ["region", "smokes", "share", "low", "high"]
        joint = release.table(["region", "smokes"])["fraction"].to_numpy().reshape(4, 4)
        ratios = joint / joint.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(
            table["share"].to_numpy().reshape(4, 4)[:2], ratios[:2], atol=1e-6
        )
        truth = pd.crosstab(PEOPLE["region"], PEOPLE["smokes"], normalize="index")
        np.testing.assert_allclose(
            table["share"].to_numpy().reshape(4, 4)[:2, :2], truth, atol=0.02
        )
        swapped = release.table(["smokes", "region"], within="region")
        assert swapped.columns.tolist()[:2] == ["smokes", "region"]
        found = swapped.set_index(["region", "smokes"]).sort_index()
        pd.testing.assert_frame_equal(found, table.set_index(["region", "smokes"]).sort_index())

    def test_intervals_contain_the_share(self, release):
        for settings in ({}, {"simultaneous": True}, {"level": 0.5}):
            table = release.table("level", within="region", **settings)
            known = table["share"].notna()
            assert (table["low"] <= table["share"])[known].all()
            assert (table["share"] <= table["high"])[known].all()
            assert table["low"].between(0, 1).all()
            assert table["high"].between(0, 1).all()

    def test_groups_that_may_be_empty(self, release):
        """Nobody is in the group "(other)", so that nothing is known about shares in it."""
        table = release.table("smokes", within="region").set_index("region")
        assert (table.loc[OTHERS, ["low", "high"]].to_numpy() == [0, 1]).all()
        assert table.loc[OTHERS, "share"].isna().all()
        assert table.loc[["east", "west"], "share"].notna().all()

    def test_two_columns_define_groups(self):
        release = fitted(queries=MarginalQueries(k=3))
        table = release.table("smokes", within=["region", "level"])
        assert table.columns.tolist()[:3] == ["region", "level", "smokes"]
        pairs = release.table(["region", "level"])["fraction"].to_numpy()
        joint = release.table(["region", "level", "smokes"])["fraction"].to_numpy().reshape(-1, 4)
        known = pairs > 0.01
        np.testing.assert_allclose(
            table["share"].to_numpy().reshape(-1, 4)[known],
            joint[known] / pairs[known, None],
            atol=1e-3,
        )

    def test_without_intervals(self):
        table = fitted(method="public").table("smokes", within="region")
        assert table.columns.tolist() == ["region", "smokes", "share"]
        truth = pd.crosstab(PUBLIC["region"], PUBLIC["smokes"], normalize="index")
        np.testing.assert_allclose(table["share"].to_numpy().reshape(4, 4)[:2, :2], truth)

    def test_calibrated_shares(self, release):
        """Known regions keep shares and their intervals. A known table has exact shares."""
        totals = {"region": {"east": 0.5, "west": 0.5}}
        before = release.table("smokes", within="region")
        table = release.calibrate(totals).table("smokes", within="region")
        known = before["share"].notna() & (before["low"] > 0)
        np.testing.assert_allclose(table["share"][known], before["share"][known], atol=0.005)
        lengths, old = ((it["high"] - it["low"])[known] for it in (table, before))
        np.testing.assert_allclose(lengths, old, rtol=0.5)
        assert ((table["low"] <= table["share"]) & (table["share"] <= table["high"]))[known].all()
        cells = {(region, smokes): 0.25 for region in ("east", "west") for smokes in ("no", "yes")}
        exact = release.calibrate({("region", "smokes"): cells}).table("smokes", within="region")
        assert (exact.loc[[0, 1, 4, 5], ["low", "share", "high"]].to_numpy() == 0.5).all()

    def test_calibration_of_ordered_categories(self, release):
        """Totals belong to the categories that they name, whatever order tables have."""
        totals = {"level": {"high": 1, "low": 5, "middle": 4}}
        table = release.calibrate(totals).table("level")
        assert table["level"].tolist() == [*LEVELS, *OTHERS]
        np.testing.assert_allclose(table["fraction"], [0.5, 0.4, 0.1, 0, 0])
        pairs = {(grade, level): number + place for number, grade in enumerate(GRADES, 1)
                 for place, level in enumerate(LEVELS)}  # fmt: skip
        table = release.calibrate({("grade", "level"): pairs}).table(["grade", "level"])
        found = table.set_index(["grade", "level"])["fraction"]
        expected = pd.Series(pairs) / sum(pairs.values())
        np.testing.assert_allclose(found[expected.index], expected)

    def test_little_noise_gives_the_binomial_interval_of_the_group(self):
        """With next to no noise and no public rows, the interval is that of n_group persons."""
        generator = np.random.default_rng(3)
        group = (generator.random(20_000) < 0.2).astype(int)
        codes = np.column_stack([group, generator.random(20_000) < 0.3 + 0.2 * group]).astype(int)
        release = release_marginals(
            codes, codes[:0], (2, 2), [(0, 1)], ledger=Ledger(1000, 1e-9, 0)
        )
        low, high = release.share_intervals((0, 1), (np.array([1]), np.array([1])), (0,), 0.95).T
        n_group = group.sum()
        share = codes[group == 1, 1].mean()
        expected = 2 * 1.96 * np.sqrt(share * (1 - share) / n_group)
        assert high - low == pytest.approx(expected, rel=0.05)
        assert low < share < high

    def test_coverage(self):
        """Most intervals of shares hold, over samples, noise and groups of two sizes."""
        held, p_group, p_cell = [], [0.3, 0.7], np.array([[0.6, 0.4], [0.9, 0.1]])
        codes = tuple(np.indices((2, 2)).reshape(2, -1))
        for seed in range(20):
            generator = np.random.default_rng([seed, 5])

            def draw(n, generator=generator):
                group = generator.choice(2, size=n, p=p_group)
                return np.column_stack([group, generator.random(n) < p_cell[group, 1]]).astype(int)

            private, public = draw(2000), draw(100)
            release = release_marginals(
                private, public, (2, 2), [(0, 1)], ledger=Ledger(0.3, 1e-7, seed)
            )
            low, high = release.share_intervals((0, 1), codes, (0,), 0.9).T
            held.append((low <= p_cell.ravel()) & (p_cell.ravel() <= high))
        assert 0.84 < np.mean(held) <= 1


class TestMeansByGroup:
    def test_means(self, release):
        table = release.mean("income", by="region")
        assert table.columns.tolist() == ["region", "mean"]
        truth = PEOPLE.groupby("region")["income"].mean()
        found = table.set_index("region")["mean"]
        np.testing.assert_allclose(found[truth.index], truth, atol=0.5)

    def test_the_mean_of_all_rows_is_the_mean_over_groups(self, release):
        weighted = release._released.rows
        means = release.mean("income", by="grade")
        grades = release._schema.columns[3].names
        shares = np.bincount(weighted.rows[:, 3].astype(int), weighted.weights, len(grades))
        share_of_grade = dict(zip(grades, shares, strict=True))
        assert means["grade"].tolist() == GRADES  # without groups that may be empty
        total = sum(share_of_grade[grade] * mean for grade, mean in means.itertuples(index=False))
        total /= sum(share_of_grade[grade] for grade in GRADES)
        assert release.mean("income") == pytest.approx(total, abs=0.02)

    def test_unreleased_and_repeated_columns(self):
        release = fitted(queries=MarginalQueries(workload=[("smokes", "region"), ("income",)]))
        with pytest.raises(ValueError, match="region and income"):
            release.mean("income", by="region")
        with pytest.raises(ValueError, match="distinct columns"):
            release.mean("income", by="income")
        with pytest.raises(ValueError, match="Column region"):
            release.mean("region", by="smokes")
