"""Measured sums by group: sensitivity by brute force, means and totals, intervals."""

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease, PrivacyBudget
from skpublicdp.accounting import Gaussian, Pure, Steps
from skpublicdp.query_release import MarginalQueries
from tests.internals.privacy import Ledger
from tests.internals.query_release import (
    UNITS,
    BinnedMeans,
    CombinedMeans,
    MeasuredSum,
    SumColumn,
    combine_means,
    plan_sums,
    share_sensitivity,
    sum_shares,
    to_shares,
    to_units,
)

SUMS = {"pay": ["job", ("job", "sex")]}
BOUNDS = {"pay": (0, 100_000)}


def people(n, seed, missing=0.0):
    """Return rows with a skewed number, whose mean is larger among farmers."""
    rng = np.random.default_rng(seed)
    job, sex = rng.choice(["farm", "shop"], size=n), rng.choice(["f", "m"], size=n)
    pay = rng.lognormal(9, 1, size=n) * np.where(job == "farm", 1.5, 1)
    pay = np.where(rng.random(n) < missing, np.nan, pay.clip(0, 100_000))
    return pd.DataFrame({"job": job, "sex": sex, "pay": pay})


def fitted(n=50_000, seed=0, sums=SUMS, missing=0.0, **settings):
    settings = {"epsilon": 8, "bounds": BOUNDS, "random_state": seed} | settings
    release = PAPQueryRelease(MarginalQueries(sums=sums), **settings)
    rows = people(n, seed, missing)
    return rows, release.fit(rows, X_public=people(300, 1000 + seed, missing))


@pytest.fixture(scope="module")
def rows_and_release():
    return fitted()


class TestShares:
    def test_numbers_beyond_the_bounds_are_moved_to_them(self):
        numbers = np.array([-np.inf, -1e300, -3.0, 1.0, 4.0, 5.0, 1e300, np.inf, np.nan])
        units = to_units(numbers, -3.0, 5.0)
        np.testing.assert_array_equal(units, [-UNITS] * 3 + [0, 3 * UNITS // 4] + [UNITS] * 3 + [0])
        shares = to_shares(numbers, -3.0, 5.0)
        np.testing.assert_array_equal(shares.sum(axis=1), [2 * UNITS] * 8 + [0])
        assert shares.min() == 0

    @pytest.mark.parametrize(("low", "high"), [(0, 1e-300), (-1e300, 1e300), (1e9, 1e9 + 1)])
    def test_units_represent_numbers(self, low, high):
        numbers = low + (high - low) * np.linspace(0, 1, 7)
        exact = UNITS * np.linspace(-1, 1, 7)
        np.testing.assert_allclose(to_units(numbers, low, high), exact, atol=2 / 3, rtol=0)

    def test_sensitivity_by_brute_force(self):
        """The largest change over all replacements of a row is the declared sensitivity."""
        columns = [SumColumn(1, (0,), -1.0, 3.0)]
        possible = list(itertools.product([0, 1], [-9.0, -1.0, 0.3, 1.0, 2.9, 3.0, 50.0, np.nan]))

        def sums(row):
            rows = np.array([row, possible[4]])
            return sum_shares(rows, rows[:, :1].astype(int), columns, (2, 9))

        changes = [np.abs(sums(row) - sums(other)) for row in possible for other in possible]
        largest = max(map(np.sum, changes)), max((change**2).sum() for change in changes)
        assert largest == share_sensitivity()

    def test_sums_add_up_over_chunks_and_groups(self):
        rng = np.random.default_rng(0)
        codes = rng.integers(0, (2, 3), (200, 2))
        rows = np.column_stack([codes, rng.normal(size=200)])
        columns = [SumColumn(2, (0, 1), -1.0, 1.0), SumColumn(2, (1,), -1.0, 1.0)]
        sums = sum_shares(rows, codes, columns, (2, 3, 1))
        parts = [
            sum_shares(rows[part], codes[part], columns, (2, 3, 1))
            for part in (slice(70), slice(70, None))
        ]
        np.testing.assert_array_equal(sums, parts[0] + parts[1])
        of_pairs, of_one = sums[:12].reshape(2, 3, 2), sums[12:].reshape(3, 2)
        np.testing.assert_array_equal(of_pairs.sum(axis=0), of_one)
        shares = to_shares(rows[codes[:, 1] == 2, 2], -1.0, 1.0)
        np.testing.assert_array_equal(of_one[2], shares.sum(axis=0))


class TestPlan:
    def test_few_sums_have_laplace_noise(self):
        ledger = Ledger(1, Fraction(1, 10**9), 0)
        of_sums, of_tables = plan_sums(ledger, 1)
        assert of_sums == Pure(Fraction(1, 2))
        assert isinstance(of_tables, Gaussian)
        assert ledger.event == Steps((of_sums, of_tables))
        assert ledger.fits(ledger.event)
        assert not ledger.fits(Steps((of_sums, of_tables.scaled(Fraction(101, 100)))))

    def test_many_sums_share_gaussian_noise(self):
        ledger = Ledger(1, Fraction(1, 10**6), 0)
        noise = ledger.noise
        assert plan_sums(ledger, 20) == (noise.scaled(Fraction(1, 2)),) * 2
        assert ledger.event == noise

    def test_a_pure_budget_is_halved(self):
        assert plan_sums(Ledger(3, 0, 0), 5) == (Pure(Fraction(3, 2)),) * 2

    def test_noise_beyond_the_sampler(self):
        with pytest.raises(ValueError, match="too large to be drawn"):
            plan_sums(Ledger(Fraction(1, 10**5), 0, 0), 5)

    @pytest.mark.parametrize("accountant", ["pure", "gdp", "zcdp", "auto"])
    def test_every_accountant_covers_the_plan(self, accountant):
        budget = PrivacyBudget(8, 1e-5, accountant=accountant, for_tests=True)
        _, release = fitted(n=2000, budget=budget, delta=1e-6, epsilon=1)
        assert release.privacy_.epsilon == 1
        assert release.privacy_.entry is not None


class TestMeans:
    def test_means_and_totals_are_those_of_the_rows(self, rows_and_release):
        rows, release = rows_and_release
        for by in ("job", "sex", ["sex", "job"]):
            groups = rows.groupby(by).pay
            means = release.mean("pay", by=by).set_index(by)["mean"]
            totals = release.total("pay", by=by).set_index(by)["total"]
            # noise of about 60 in each mean; public rows alone have an error of hundreds
            assert (means - groups.mean()).abs().max() < 300
            assert (totals - groups.sum()).abs().max() < 8e6
        assert release.mean("pay") == pytest.approx(rows.pay.mean(), abs=100)
        assert release.total("pay") == pytest.approx(rows.pay.sum(), abs=5e6)
        assert release.total("pay", counts=100) == pytest.approx(100 * release.mean("pay"))

    def test_missing_numbers_are_not_counted(self):
        rows, release = fitted(missing=0.3)
        means = release.mean("pay", by="job").set_index("job")["mean"]
        assert (means - rows.groupby("job").pay.mean()).abs().max() < 300
        totals = release.total("pay", by="job").set_index("job")["total"]
        assert (totals - rows.groupby("job").pay.sum()).abs().max() < 8e6
        assert release.total("pay") == pytest.approx(rows.pay.sum(), abs=1e7)

    @pytest.mark.parametrize("settings", [{}, {"delta": 0}, {"epsilon": 0.1, "n": 3000}])
    def test_intervals_cover(self, settings):
        truth = people(2_000_000, 99).groupby("job").pay.agg(["mean", "sum"]) / [1, 2_000_000]
        hits = np.zeros(3)
        for seed in range(10):
            _, release = fitted(seed=seed, **{"n": 20_000, "epsilon": 1, **settings})
            means = release.mean_interval("pay", by="job").set_index("job")
            totals = release.total_interval("pay", by="job", counts=1).set_index("job")
            joint = release.mean_interval("pay", by="job", simultaneous=True).set_index("job")
            for k, (frame, name) in enumerate([(means, "mean"), (totals, "sum"), (joint, "mean")]):
                frame = frame.loc[truth.index]
                hits[k] += ((frame.low <= truth[name]) & (truth[name] <= frame.high)).sum()
        assert (hits >= 12).all()  # of 20; false alarm 2e-7 with coverage .95

    @pytest.mark.parametrize("mean", [0.05, 0.5, 0.9])
    @pytest.mark.parametrize("inside", [0.04, 1.0])
    def test_variances_are_those_of_the_errors(self, rows_and_release, mean, inside):
        """Noise is drawn for 4,000 equal groups, and errors have the stated variances."""
        rng, n_groups, count, deviation, table_deviation = np.random.default_rng(0), 4000, 900, 6, 9
        column = rows_and_release[1]._schema.columns[2]
        true_shares = count * np.array([mean, 1 - mean])
        shares = rng.normal(true_shares, deviation, (n_groups, 2))
        bins = BinnedMeans(
            means=rng.normal(mean, 0.125 * inside, n_groups),
            variances=np.zeros(n_groups),
            inside=np.full(n_groups, inside),
            counts=rng.normal(count, table_deviation, n_groups),
            count_variances=np.full(n_groups, float(table_deviation**2)),
        )
        sum_column = SumColumn(2, (0,), column.low, column.high)
        measured = MeasuredSum(sum_column, shares, deviation**2, 10_000, True)
        groups = combine_means(shares, measured, bins)
        indices, sampling = list(range(n_groups)), np.zeros(n_groups)
        totals = CombinedMeans(indices, column, groups, sampling, measured, 1e4).totals()
        errors = totals.values() - 100_000 * mean * count / 10_000
        found = {
            "means": (groups.variances(), groups.means - mean),
            "counts": (groups.count_variances, groups.counts - count),
            "totals": (totals.noise, errors),
        }
        for stated, error in found.values():
            # the standard error of a variance of 4,000 normal numbers is 2.2% of it
            assert (error**2).mean() == pytest.approx(stated.mean(), rel=0.15)

    def test_intervals_contain_the_estimates(self, rows_and_release):
        _, release = rows_and_release
        means = release.mean_interval("pay", by=["job", "sex"], level=0.01)
        assert ((means.low <= means["mean"]) & (means["mean"] <= means.high)).all()
        joint = release.mean_interval("pay", by=["job", "sex"], level=0.01, simultaneous=True)
        assert ((joint.low <= means.low) & (means.high <= joint.high)).all()
        low, high = release.mean_interval("pay")
        assert low < release.mean("pay") < high
        low, high = release.total_interval("pay")
        assert low < release.total("pay") < high

    def test_sums_are_far_more_accurate_than_wide_bins(self):
        errors = {}
        for sums in (None, SUMS):
            rows, release = fitted(sums=sums)
            means = release.mean("pay", by="job").set_index("job")["mean"]
            errors[sums is None] = (means - rows.groupby("job").pay.mean()).abs().max()
        assert errors[False] < errors[True] / 3

    def test_hopeless_sums_leave_the_bins(self):
        """With noise far larger than the sums, the means are those of the bins."""
        _, release = fitted(n=500, epsilon=0.01)
        low, high = release.mean_interval("pay", by="job")[["low", "high"]].to_numpy().T
        assert (low >= 0).all()
        assert (high <= 100_000).all()
        means = release.mean("pay", by="job")["mean"]
        assert means.between(5_000, 40_000).all()
        assert release.total_interval("pay", level=0.9999).min() == 0

    def test_release_can_be_pickled(self, rows_and_release):
        _, release = rows_and_release
        copy = pickle.loads(pickle.dumps(release))
        assert copy.total_interval("pay").tolist() == release.total_interval("pay").tolist()

    def test_persons(self):
        rows = people(20_000, 0)
        release = PAPQueryRelease(
            MarginalQueries(sums=SUMS), epsilon=8, bounds=BOUNDS, max_rows_per_group=2,
            random_state=0,
        )  # fmt: skip
        release.fit(rows, X_public=people(300, 1), groups=np.arange(20_000) // 2)
        assert release.mean("pay") == pytest.approx(rows.pay.mean(), rel=0.05)
        width = np.diff(release.mean_interval("pay"))
        assert width > np.diff(fitted(n=20_000)[1].mean_interval("pay"))


class TestRatios:
    SUMS = {"pay": "job", "tax": "job"}  # noqa: RUF012

    @staticmethod
    def rows(n, seed):
        rng = np.random.default_rng(seed)
        rows = people(n, seed)
        share = np.where(rows.job == "farm", 0.3, 0.2) * rng.uniform(0.8, 1.2, n)
        return rows.drop(columns="sex").assign(tax=rows.pay * share)

    def fitted(self, n, seed, sums=None, **settings):
        bounds = BOUNDS | {"tax": (0, 50_000)}
        queries = MarginalQueries(sums=sums or self.SUMS)
        release = PAPQueryRelease(queries, bounds=bounds, random_state=seed, **settings)
        return release.fit(self.rows(n, seed), X_public=self.rows(300, 1000 + seed))

    def test_ratios_are_those_of_the_totals(self):
        release = self.fitted(50_000, 0, epsilon=8)
        ratios = release.ratio_interval("tax", "pay", by="job").set_index("job")
        np.testing.assert_allclose(ratios.ratio, [0.3, 0.2], atol=0.01)
        assert (ratios.high - ratios.low < 0.02).all()
        assert release.ratio("tax", "pay", by="job").ratio.tolist() == ratios.ratio.tolist()
        totals = release.total("tax") / release.total("pay")
        assert release.ratio("tax", "pay") == pytest.approx(totals)
        low, high = release.ratio_interval("tax", "pay")
        assert low < totals < high

    def test_intervals_cover(self):
        hits = 0
        for seed in range(10):
            release = self.fitted(5000, seed, epsilon=2)
            ratios = release.ratio_interval("tax", "pay", by="job").set_index("job")
            truth = np.array([0.3, 0.2])
            hits += ((ratios.low <= truth) & (truth <= ratios.high)).sum()
        assert hits >= 12  # of 20; false alarm 2e-7 with coverage .95

    def test_a_ratio_to_what_may_be_zero(self):
        rows = self.rows(3000, 0).assign(tax=np.random.default_rng(0).normal(0, 1000, 3000))
        release = PAPQueryRelease(
            MarginalQueries(sums=self.SUMS), bounds=BOUNDS | {"tax": (-9000, 9000)}, random_state=0
        )
        release.fit(rows[300:], X_public=rows[:300])
        assert release.ratio_interval("pay", "tax").tolist() == [-np.inf, np.inf]

    def test_both_sums_are_needed(self):
        release = self.fitted(1000, 0, sums={"pay": "job"})
        with pytest.raises(ValueError, match="Totals of column tax"):
            release.ratio("tax", "pay")


class TestErrors:
    @pytest.mark.parametrize(
        ("sums", "message"),
        [
            ({"job": "sex"}, "must be numeric"),
            ({"pay": "pay"}, "distinct columns other than pay"),
            ({"pay": [("job", "job")]}, "distinct columns"),
            ({"pay": [()]}, "distinct columns"),
            ({"pay": []}, "must be a dict"),
            (["pay"], "must be a dict"),
            ({"wage": "job"}, "wage"),
        ],
    )
    def test_invalid_sums(self, sums, message):
        with pytest.raises(ValueError, match=message):
            fitted(n=100, sums=sums)

    @pytest.mark.parametrize("settings", [{"method": "pmw"}, {"method": "public"}])
    def test_sums_need_measured_tables(self, settings):
        with pytest.raises(ValueError, match="sums requires method='auto'"):
            fitted(n=100, **settings)

    def test_totals_that_were_not_measured(self, rows_and_release):
        with pytest.raises(ValueError, match="were not measured"):
            fitted(n=1000, sums={"pay": "job"})[1].total("pay", by="sex")
        _, release = rows_and_release
        calibrated = release.calibrate({"sex": {"f": 1, "m": 1}})
        with pytest.raises(ValueError, match="were not measured"):
            calibrated.total("pay")
