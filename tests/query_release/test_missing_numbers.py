"""Missing numbers in releases of tables: their cell, statistics of the others, and errors."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skpublicdp import PAPQueryRelease
from skpublicdp.data import open_rows
from skpublicdp.query_release import MarginalQueries, StumpQueries, ThresholdQueries

N, M = 10_000, 400
BOUNDS = {"income": (0, 100), "age": (18, 80)}


def people(n, seed, p_missing=0.3):
    """Return rows in which small incomes are missing more often in the east."""
    generator = np.random.default_rng(seed)
    region = generator.choice(["east", "west"], size=n)
    income = generator.gamma(2, 10, size=n).round().clip(0, 100)
    is_missing = generator.random(n) < np.where(region == "east", p_missing, p_missing / 3)
    return pd.DataFrame(
        {
            "region": region,
            "income": np.where(is_missing, np.nan, income),
            "age": generator.integers(18, 81, size=n),
        }
    )


ROWS, PUBLIC = people(N, 0), people(M, 1)
COMPLETE = ROWS.dropna()
EDGES = [0, 10, 20, 50, 100]


def fitted(queries=None, rows=ROWS, public=PUBLIC, **settings):
    settings = {"epsilon": 5.0, "bounds": BOUNDS, **settings}
    return PAPQueryRelease(queries, random_state=0, **settings).fit(rows, X_public=public)


@pytest.fixture(scope="module")
def release():
    return fitted(MarginalQueries(bins={"income": EDGES}))


class TestTables:
    @pytest.mark.parametrize("method", ["auto", "public", "pmw"])
    def test_missing_numbers_have_a_cell(self, method):
        release = fitted(MarginalQueries(bins={"income": EDGES}), method=method)
        table = release.table("income")
        labels = pd.cut(ROWS["income"], EDGES, include_lowest=True)
        truth = [*labels.value_counts(sort=False) / N, ROWS["income"].isna().mean()]
        assert table["income"].tolist() == [*labels.cat.categories.astype(str), "(missing)"]
        atol = 0.01 if method == "auto" else 0.08
        np.testing.assert_allclose(table["fraction"], truth, atol=atol)
        assert table["fraction"].sum() == pytest.approx(1)
        assert release.missing_fraction("income") == table["fraction"].iloc[-1]

    def test_other_columns_have_no_such_cell(self, release):
        assert "(missing)" not in release.table("age")["age"].tolist()
        assert release.missing_fraction("age") == 0
        np.testing.assert_array_equal(release.missing_fraction_interval("age"), [0, 0])

    def test_shares_of_groups(self, release):
        table = release.table("income", within="region").set_index(["region", "income"])
        truth = ROWS["income"].isna().groupby(ROWS["region"]).mean()
        for region in ("east", "west"):
            row = table.loc[(region, "(missing)")]
            assert row["low"] < truth[region] < row["high"]

    def test_queries(self, release):
        Q = [{"income": "(missing)"}, {"income": 15, "region": "east"}, {"region": "west"}]
        truth = [
            ROWS["income"].isna().mean(),
            (ROWS["income"].between(10.5, 20) & (ROWS["region"] == "east")).mean(),
            (ROWS["region"] == "west").mean(),
        ]
        np.testing.assert_allclose(release.answer(Q), truth, atol=0.02)
        np.testing.assert_allclose(release.holds(Q, ROWS).mean(axis=1), truth, atol=1e-12)
        array = np.array([[None, "(missing)", None], ["east", 15, None], ["west", None, None]])
        np.testing.assert_array_equal(release.answer(array), release.answer(Q))

    def test_interval(self, release):
        low, high = release.missing_fraction_interval("income")
        assert low < ROWS["income"].isna().mean() < high
        table = release.table("income")
        np.testing.assert_array_equal([low, high], table[["low", "high"]].iloc[-1])
        wider = release.missing_fraction_interval("income", level=0.999)
        assert wider[0] < low
        assert wider[1] > high

    def test_calibration(self, release):
        totals = dict(zip(release.table("income")["income"], [1, 1, 1, 1], strict=False))
        calibrated = release.calibrate({"income": totals})
        assert calibrated.missing_fraction("income") == 0
        np.testing.assert_allclose(calibrated.cdf(EDGES[1:], "income"), [0.25, 0.5, 0.75, 1])
        shares = release.calibrate({"region": {"east": 1, "west": 0}})
        missing_in_east = ROWS["income"].isna()[ROWS["region"] == "east"].mean()
        assert shares.missing_fraction("income") == pytest.approx(missing_in_east, abs=0.03)


class TestStatisticsOfRowsWithAValue:
    def test_cdf_quantiles_and_mean(self, release):
        incomes = COMPLETE["income"]
        numbers = [5, 10, 20, 35, 60]
        truth = [(incomes <= number).mean() for number in numbers]
        np.testing.assert_allclose(release.cdf(numbers, "income"), truth, atol=0.04)
        assert release.cdf(100, "income") == pytest.approx(1)
        assert release.quantile(0.5, "income") == pytest.approx(incomes.median(), abs=2)
        assert release.mean("income") == pytest.approx(incomes.mean(), abs=1)
        means = release.mean("income", by="region").set_index("region")["mean"]
        np.testing.assert_allclose(means, COMPLETE.groupby("region")["income"].mean(), atol=2)

    def test_groups(self):
        """Groups have their labels, in any order of the table, and leave missing numbers out."""

        def rows(n, seed):
            generator = np.random.default_rng(seed)
            grade = generator.choice(["9", "10", "11"], size=n)
            income = 10 * (grade.astype(int) - 8) + generator.integers(0, 5, size=n)
            income = np.where(generator.random(n) < 0.3, np.nan, income)
            return pd.DataFrame({"grade": grade, "income": income})

        private = rows(N, 3)
        release = fitted(None, private, rows(M, 4), bounds={"income": (0, 100)})
        found = release.quantile_interval(0.5, column="income", by="grade").head(3)
        assert found["grade"].tolist() == ["9", "10", "11"]
        truth = private.groupby("grade")["income"].median()[found["grade"]].to_numpy()
        assert ((found["low"] <= truth) & (truth <= found["high"])).all()
        np.testing.assert_allclose(found["quantile"], truth, atol=1)
        cdf = release.cdf([99], column="income", by="grade")["fraction"]
        np.testing.assert_allclose(cdf.head(3), 1)
        low, high = release.cdf_interval([25], column="income", by="grade")[["low", "high"]].iloc[1]
        assert low <= 1
        assert high == pytest.approx(1)
        means = release.mean("income", by="grade").set_index("grade")["mean"]
        np.testing.assert_allclose(means.loc[["9", "10", "11"]], [12, 22, 32], atol=1)

    def test_histogram_is_the_table_without_missing_numbers(self, release):
        fractions = release.table("income")["fraction"].to_numpy()
        shares = fractions[:-1] / fractions[:-1].sum()
        np.testing.assert_allclose(release.histogram(column="income"), shares, atol=1e-4)

    def test_intervals(self, release):
        for settings in ({}, {"simultaneous": True}):
            ends = release.histogram_interval(column="income", **settings)
            shares = pd.cut(COMPLETE["income"], EDGES, include_lowest=True)
            truth = shares.value_counts(sort=False, normalize=True).to_numpy()
            assert ((ends[:, 0] < truth) & (truth < ends[:, 1])).all()
        low, high = release.quantile_interval(0.5, "income")
        assert low <= COMPLETE["income"].median() <= high
        np.testing.assert_array_equal(release.cdf_interval([-1, 100], "income"), [[0, 0], [1, 1]])

    def test_little_noise_gives_binomial_intervals_of_the_rows_with_a_value(self):
        rows = people(20_000, 7, 0.9)
        release = fitted(MarginalQueries(1, bins={"income": EDGES}), rows, epsilon=500.0,
                         trust=1e-6, delta=1e-6)  # fmt: skip
        low, high = release.cdf_interval(10, "income")
        values = rows["income"].dropna()
        share = (values <= 10).mean()
        expected = 2 * 1.96 * np.sqrt(share * (1 - share) / len(values))
        assert high - low == pytest.approx(expected, rel=0.1)

    @pytest.mark.slow
    def test_coverage(self):
        """Intervals hold about as often as they should, where many numbers are missing."""
        held, population = [], people(400_000, 100, 0.8)
        values = population["income"].dropna()
        truth = np.array([(values <= edge).mean() for edge in EDGES[1:-1]])
        for seed in range(40):
            rows, public = people(1_500, 200 + seed, 0.8), people(100, 300 + seed, 0.8)
            release = PAPQueryRelease(
                MarginalQueries(1, bins={"income": EDGES}),
                epsilon=0.5,
                bounds=BOUNDS,
                random_state=seed,
            ).fit(rows, X_public=public)
            low, high = release.cdf_interval(EDGES[1:-1], "income").T
            held.append((low <= truth) & (truth <= high))
        assert np.mean(held) > 0.89

    def test_synthetic_rows(self, release):
        sample = release.sample(50_000)
        assert sample["income"].isna().mean() == pytest.approx(
            release.missing_fraction("income"), abs=0.01
        )
        assert sample["age"].dtype.kind == "i"
        values = sample["income"].dropna()
        assert (values % 1 == 0).all()
        assert values.between(0, 100).all()


class TestWhichColumns:
    def test_declared(self):
        """Without missing numbers in public rows the user declares where private ones may be."""
        public = PUBLIC.dropna()
        for missing in (["income"], "income", [1], 1):
            release = fitted(MarginalQueries(missing=missing), public=public)
            assert release.missing_fraction("income") == pytest.approx(
                ROWS["income"].isna().mean(), abs=0.02
            )

    def test_default_queries(self):
        release = fitted(None)
        assert release.table(["region", "income"])["income"].iloc[-1] == "(missing)"
        alone = fitted(None, ROWS[["income"]], PUBLIC[["income"]], bounds=None)
        assert alone.missing_fraction() == pytest.approx(ROWS["income"].isna().mean(), abs=0.02)

    @pytest.mark.parametrize("stream", [False, True])
    def test_undeclared_columns(self, stream):
        """The error does not depend on which column has a missing number."""
        messages = []
        for column in ("income", "age"):
            rows = COMPLETE.astype({"age": float}).reset_index(drop=True)
            rows.loc[3, column] = np.nan
            public = PUBLIC.dropna().astype({"age": float})
            if stream:
                arrow = [
                    pl.from_pandas(part).to_arrow() for part in (rows[:999], rows[999:], public)
                ]
                rows, public = open_rows(arrow[:2]), arrow[2]
            with pytest.raises(ValueError, match="numbers only") as caught:
                fitted(MarginalQueries(), rows, public)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
        assert "income, age" in messages[0]

    @pytest.mark.parametrize("queries", [StumpQueries(), ThresholdQueries()])
    def test_other_query_classes(self, queries):
        with pytest.raises(ValueError, match=r"NaN|numbers only"):
            fitted(queries, ROWS[["income"]], PUBLIC[["income"]], bounds=None)
        release = fitted(queries, COMPLETE[["income"]], PUBLIC[["income"]].dropna(), bounds=None)
        assert release.missing_fraction("income") == 0


class TestContainers:
    def test_frames_and_streams(self, release):
        expected = release.table("income")["fraction"].to_numpy()
        queries = MarginalQueries(bins={"income": EDGES})
        integers = [rows.astype({"income": "Int64"}) for rows in (ROWS, PUBLIC)]
        frames = [pl.from_pandas(rows) for rows in integers]
        arrow = [rows.to_arrow() for rows in frames]
        stream = open_rows([arrow[0][:999], arrow[0][999:]])
        for rows, public in (integers, frames, arrow, (stream, arrow[1])):
            table = fitted(queries, rows, public).table("income")
            np.testing.assert_array_equal(table["fraction"].to_numpy(), expected)
        sample = fitted(queries, *frames).sample(500)
        assert isinstance(sample, pl.DataFrame)

    def test_dates(self):
        generator = np.random.default_rng(0)

        def days(n):
            dates = np.datetime64("2024-01-01") + generator.integers(0, 366, size=n)
            day = pd.Series(dates).astype("datetime64[us]").mask(generator.random(n) < 0.2)
            return pd.DataFrame({"day": day, "x": generator.choice(["a", "b"], size=n)})

        edges = np.array(["2024-01-01", "2024-07-01", "2024-12-31"], "datetime64[D]")
        release = fitted(
            MarginalQueries(bins={"day": edges}),
            days(5_000),
            days(300),
            bounds={"day": ("2024-01-01", "2024-12-31")},
        )
        table = release.table("day")
        assert table["day"].tolist()[-1] == "(missing)"
        np.testing.assert_allclose(table["fraction"], [0.4, 0.4, 0.2], atol=0.03)
        middle = release.answer([{"day": "2024-03-01"}, {"day": "(missing)"}])
        np.testing.assert_allclose(middle, table["fraction"].iloc[[0, 2]], atol=1e-12)
        assert release.sample(2_000)["day"].isna().mean() == pytest.approx(0.2, abs=0.04)
        assert abs(release.mean("day") - pd.Timestamp("2024-07-01")) < pd.Timedelta("15D")


@pytest.mark.parametrize("queries", [None, MarginalQueries()])
def test_the_message_names_the_column_that_may_be_missing(queries):
    """The advice for other estimators, imputation, would hide that incomes are missing."""
    rows = pd.DataFrame({"income": [1.0, 2.0, np.nan] * 50, "region": ["a", "b", "c"] * 50})
    release = PAPQueryRelease(queries, random_state=0)
    with pytest.raises(ValueError, match=r"missing=\['income'\]") as raised:
        release.fit(rows, X_public=rows.dropna()[:20])
    assert "Boosting" not in str(raised.value)
    release = PAPQueryRelease(MarginalQueries(missing=["x0"]), random_state=0)
    array = rows[["income"]].to_numpy()
    release = release.fit(array, X_public=array[~np.isnan(array[:, 0])][:20])
    assert release.table(0)["x0"][-1] == "(missing)"


class TestWithoutAnyValue:
    """If possibly no row has a value, there is no mean, whatever public rows say."""

    def rows(self, n, seed, empty=False):
        rows = people(n, seed)
        is_empty = np.ones(n, dtype=bool) if empty else rows["region"] == "west"
        return rows.assign(income=rows["income"].mask(is_empty))

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("public_too", [False, True])
    def test_a_column_is_missing_for_everybody(self, public_too):
        public = self.rows(M, 1, empty=public_too)
        queries = MarginalQueries(missing=["income"])
        release = fitted(queries, self.rows(N, 0, empty=True), public)
        assert np.isnan(release.mean("income"))
        assert np.isnan(release.quantile([0.1, 0.5], "income")).all()
        assert np.isnan(release.cdf([0, 10], "income")).all()
        low, high = release.mean_interval("income")
        assert low < high
        if public_too:  # otherwise, public rows make a small share of values plausible
            assert len(release.mean("income", by="region")) == 0
        assert release.missing_fraction("income") == pytest.approx(1, abs=0.01)

    def test_a_group_without_values_has_no_mean(self):
        release = fitted(MarginalQueries(missing=["income"]), self.rows(N, 0), self.rows(M, 1))
        assert release.mean("income") > 0
        assert release.mean("income", by="region")["region"].tolist() == ["east"]
        assert release.mean_interval("income", by="region")["region"].tolist() == ["east"]
