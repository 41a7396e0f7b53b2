"""Distributions of a number in groups of rows: prefix sums of released cells, with intervals."""

import itertools

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease
from skpublicdp.query_release import MarginalQueries, StumpQueries

N = 6000


def people(n, seed):
    rng = np.random.default_rng(seed)
    job = rng.choice(["farm", "shop", "spy"], size=n, p=[0.5, 0.4, 0.1])
    sex = rng.choice(["f", "m"], size=n)
    pay = rng.gamma(2.0, 10.0, size=n) * np.where(job == "farm", 1.0, 2.0)
    return pd.DataFrame({"job": job, "pay": pay.round(2), "sex": sex})


def fitted(queries=None, seed=0, n_public=300, **settings):
    release = PAPQueryRelease(
        queries, bounds={"pay": (0, 400)}, random_state=seed, **{"epsilon": 4, **settings}
    )
    return release.fit(people(N, seed), X_public=people(n_public, 1000 + seed))


@pytest.fixture(scope="module")
def release():
    return fitted()


def bin_cuts(release):
    return release._released.queries.bin_cuts(1)


class TestEstimates:
    def test_cdf_at_cuts_is_the_prefix_sum_of_released_cells(self, release):
        cuts = bin_cuts(release)
        cells = release._released.answers.release.marginal([0, 1])
        table = release.cdf(cuts, column="pay", by="job")
        names = ["farm", "shop", "spy", "(other)", "(missing)"]
        for code, job in enumerate(names):
            prefix_sums = np.cumsum(cells[code])[:-1] / cells[code].sum()
            of_job = table[table["job"] == job]
            np.testing.assert_array_equal(of_job["x"], cuts)
            np.testing.assert_allclose(of_job["fraction"], prefix_sums, atol=1e-9)

    def test_groups_average_to_the_column(self, release):
        cuts = bin_cuts(release)
        shares = release.table("sex")["fraction"].to_numpy()
        by_group = release.cdf(cuts, column="pay", by="sex")["fraction"].to_numpy()
        average = shares[shares > 0] @ by_group.reshape(-1, len(cuts))
        np.testing.assert_allclose(average, release.cdf(cuts, column="pay"), atol=2e-3)

    def test_estimates_are_close_to_the_rows(self):
        exact, rows = fitted(epsilon=200), people(N, 0)
        numbers = np.array([7.0, 20.0, 55.0])
        table = exact.cdf(numbers, column="pay", by="job").set_index(["job", "x"])["fraction"]
        quantiles = exact.quantile([0.2, 0.5, 0.9], column="pay", by="job")
        for job in ("farm", "shop", "spy"):
            pay = rows["pay"][rows["job"] == job].to_numpy()
            np.testing.assert_allclose(
                table[job], (pay[:, None] <= numbers).mean(axis=0), atol=0.025
            )
            of_job = quantiles[quantiles["job"] == job]
            ranks = (pay[:, None] <= of_job["quantile"].to_numpy()).mean(axis=0)
            np.testing.assert_allclose(ranks, of_job["p"], atol=0.03)

    def test_groups_of_several_columns(self):
        wide = fitted(MarginalQueries(workload=[("sex", "pay", "job")]), epsilon=50)
        table = wide.quantile(0.5, column="pay", by=["job", "sex"])
        assert list(table.columns) == ["job", "sex", "p", "quantile"]
        medians = people(N, 0).groupby(["job", "sex"])["pay"].median()
        released = table.set_index(["job", "sex"])["quantile"]
        for key in itertools.product(["farm", "shop"], ["f", "m"]):
            assert released[key] == pytest.approx(medians[key], rel=0.15)
        swapped = wide.quantile(0.5, column="pay", by=["sex", "job"]).set_index(["job", "sex"])
        assert released["farm", "m"] == swapped["quantile"]["farm", "m"]

    def test_numbers_define_groups_by_their_bins(self):
        rng = np.random.default_rng(0)
        X, public = rng.normal(size=(2, N, 1)).repeat(2, axis=2)
        release = PAPQueryRelease(MarginalQueries(bins=4), bounds=(-5, 5), random_state=0)
        release = release.fit(X, X_public=public[:200])
        table = release.quantile([0.5], column=1, by=0)
        assert isinstance(table, dict)
        assert (np.diff(table["quantile"]) > 0).all()

    def test_empty_groups_are_left_out(self, release):
        # calibration empties the cells that totals omit
        calibrated = release.calibrate({"sex": {"f": 1, "m": 1}})
        table = calibrated.cdf([20.0], column="pay", by="sex")
        assert table["sex"].tolist() == ["f", "m"]

    def test_groups_of_next_to_no_rows(self):
        # public rows have a group, and the release has next to nothing of it
        public = people(300, 1)
        public.loc[:2, "job"] = "king"
        release = PAPQueryRelease(epsilon=1000, bounds={"pay": (0, 400)}, random_state=0)
        release = release.fit(people(N, 0), X_public=public)
        table = release.cdf_interval([20.0], column="pay", by="job")
        assert table[["fraction", "low", "high"]].notna().all(axis=None)

    def test_dates(self):
        rng = np.random.default_rng(0)

        def visits(n):
            days = pd.to_timedelta(rng.integers(0, 100, size=n), unit="D")
            job = rng.choice(["farm", "shop"], size=n)
            return pd.DataFrame({"day": pd.Timestamp("2024-01-01") + days, "job": job})

        release = PAPQueryRelease(random_state=0).fit(visits(N), X_public=visits(300))
        table = release.quantile_interval([0.5], column="day", by="job").head(2)
        assert (table["low"] <= table["quantile"]).all()
        assert (table["quantile"] <= table["high"]).all()
        assert abs(table["quantile"] - pd.Timestamp("2024-02-20")).max() < pd.Timedelta(days=6)
        days = np.array(["2024-02-20"], dtype="datetime64[D]")
        fractions = release.cdf(days, column="day", by="job")["fraction"][:2]
        np.testing.assert_allclose(fractions, 0.51, atol=0.06)


class TestIntervals:
    def test_columns_and_order(self, release):
        numbers = [10.0, 40.0]
        estimates = release.cdf(numbers, column="pay", by="job")
        for simultaneous in (False, True):
            table = release.cdf_interval(numbers, column="pay", by="job", simultaneous=simultaneous)
            pd.testing.assert_frame_equal(table[list(estimates.columns)], estimates)
            assert (table["low"] <= table["fraction"]).all()
            assert (table["fraction"] <= table["high"]).all()
            assert table["low"].min() >= 0
            assert table["high"].max() <= 1
        pointwise = release.cdf_interval(numbers, column="pay", by="job")
        assert (table["low"] <= pointwise["low"]).all()
        assert (table["high"] >= pointwise["high"]).all()
        longer = release.cdf_interval(numbers, column="pay", by="job", level=0.99)
        assert (longer["low"] <= pointwise["low"]).all()
        assert (longer["high"] >= pointwise["high"]).all()

    def test_small_groups_have_long_intervals(self, release):
        table = release.cdf_interval([25.0], column="pay", by="job")
        lengths = (table["high"] - table["low"]).tolist()
        assert lengths[0] < lengths[2] < lengths[3]  # half, a tenth and none of the rows
        assert lengths[3] > 0.9

    @pytest.mark.parametrize("n_runs", [5, pytest.param(15, marks=pytest.mark.slow)])
    def test_intervals_hold(self, n_runs):
        truth = people(400_000, 99)
        numbers, levels = np.array([10.0, 25.0, 50.0]), np.array([0.25, 0.5, 0.75])
        held = {"cdf": [], "quantile": [], "simultaneous": []}
        for seed in range(n_runs):
            release = fitted(seed=seed, epsilon=1)
            cdf = release.cdf_interval(numbers, column="pay", by="job")
            together = release.cdf_interval(numbers, column="pay", by="job", simultaneous=True)
            quantiles = release.quantile_interval(levels, column="pay", by="job")
            for job in ("farm", "shop", "spy"):
                pay = truth["pay"][truth["job"] == job].to_numpy()
                fractions = (pay[:, None] <= numbers).mean(axis=0)
                for name, table, values in (
                    ("cdf", cdf, fractions),
                    ("simultaneous", together, fractions),
                    ("quantile", quantiles, np.quantile(pay, levels)),
                ):
                    rows = table[table["job"] == job]
                    held[name] += [(rows["low"] <= values) & (values <= rows["high"])]
        for name, results in held.items():
            n_held, n = np.sum(results), np.size(results)
            least = 0.97 if name == "simultaneous" else 0.93
            assert n_held / n > least, name


class TestMessages:
    def test_tables_that_are_not_released(self, release):
        with pytest.raises(ValueError, match="job and pay and sex"):
            release.cdf([1.0], column="pay", by=["sex", "job"])
        with pytest.raises(ValueError, match="more distinct"):
            release.quantile(0.5, column="pay", by="pay")
        with pytest.raises(ValueError, match="Column job"):
            release.quantile(0.5, column="job", by="sex")
        with pytest.raises(ValueError, match="lie in"):
            release.quantile(2, column="pay", by="sex")

    def test_releases_without_tables(self):
        for settings in ({"queries": StumpQueries()}, {"method": "public"}):
            with pytest.raises(ValueError, match="by requires"):
                fitted(**settings).cdf([1.0], column="pay", by="sex")

    def test_calibrated_groups_have_no_intervals(self, release):
        calibrated = release.calibrate({"sex": {"f": 3, "m": 1}})
        with pytest.raises(ValueError, match="by group"):
            calibrated.quantile_interval(0.5, column="pay", by="job")
