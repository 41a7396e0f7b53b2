"""Confidence intervals of means, from released distribution functions and from tables."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease
from skpublicdp.query_release import MarginalQueries, StumpQueries

N = 6000


def people(n, seed):
    rng = np.random.default_rng(seed)
    job = rng.choice(["farm", "shop", "spy"], size=n, p=[0.5, 0.4, 0.1])
    pay = rng.gamma(2.0, 10.0, size=n) * np.where(job == "farm", 1.0, 2.0)
    return pd.DataFrame({"job": job, "pay": pay.clip(0, 400)})


MEANS = {"farm": 20.0, "shop": 40.0, "spy": 40.0}
MEAN = 30.0


def fitted(rows, public, queries=None, seed=0, **settings):
    settings = {"bounds": {"pay": (0, 400)}, "epsilon": 1.0, **settings}
    return PAPQueryRelease(queries, random_state=seed, **settings).fit(rows, X_public=public)


@pytest.fixture(scope="module")
def release():
    return fitted(people(N, 0), people(300, 1))


def width(ends):
    return float(ends[1] - ends[0])


class TestOneColumn:
    @pytest.mark.parametrize("queries", [None, StumpQueries(), MarginalQueries(k=1)])
    def test_it_contains_the_mean_and_depends_on_level_and_epsilon(self, queries):
        rows, public = people(N, 0), people(300, 1)
        if queries is None:
            rows, public = rows[["pay"]], public[["pay"]]
        release = fitted(rows, public, queries)
        ends = release.mean_interval("pay")
        assert ends.shape == (2,)
        assert ends[0] < release.mean("pay") < ends[1]
        assert width(release.mean_interval("pay", level=0.5)) < width(ends)
        assert width(fitted(rows, public, queries, epsilon=0.05).mean_interval("pay")) > width(ends)
        sampling_error = rows["pay"].std() / np.sqrt(N)
        assert width(fitted(rows, public, queries, epsilon=50).mean_interval("pay")) < width(ends)
        assert width(ends) > 2 * 1.9 * sampling_error

    def test_of_zeros_and_ones_it_is_the_interval_of_the_fraction(self):
        rng = np.random.default_rng(0)
        rows = (rng.random((N + 300, 2)) < 0.3).astype(float)
        release = fitted(rows[300:], rows[:300].copy(), MarginalQueries(k=2), bounds=(0, 1))
        ends = release.mean_interval(0)
        fraction = release.histogram_interval([0, 0.5, 1], column=0)[1]
        # of a bin from 0.5 to 1 only public rows say that all of its numbers are 1
        assert ends[0] <= fraction[0]
        assert fraction[1] <= ends[1] + 0.005
        assert width(ends) < 4 * width(fraction)

    def test_simultaneous_intervals_hold_for_any_numbers_in_the_bins(self, release):
        ends = release.mean_interval("pay")
        together = release.mean_interval("pay", simultaneous=True)
        assert together[0] <= ends[0] < ends[1] <= together[1]
        distribution, _ = release._distribution("pay")
        noisy = distribution.noisy
        _, _, (lower_ends, upper_ends) = distribution._bin_moments()
        # the noise alone gives at least the mean of the lower ends of the bins
        assert together[0] <= lower_ends @ noisy.values
        assert together[1] >= upper_ends @ noisy.values

    def test_coverage(self):
        held, alone = [], []
        for seed in range(30):
            rows, public = people(3000, seed), people(200, 1000 + seed)
            low, high = fitted(rows, public, seed=seed, epsilon=0.5).mean_interval("pay")
            held.append(low <= MEAN <= high)
            low, high = fitted(rows[["pay"]], public[["pay"]], seed=seed).mean_interval()
            alone.append(low <= MEAN <= high)
        assert sum(held) >= 26
        assert sum(alone) >= 26

    def test_shifted_public_rows_may_be_worthless(self):
        rows, public = people(N, 0), people(2000, 1)
        release = fitted(rows, public[public["pay"] < 30][:300], epsilon=0.1)
        allowed, _ = release._distribution("pay")
        assert allowed.posterior.is_shifted
        trusted = replace(allowed, posterior=replace(allowed.posterior, is_shifted=False))
        assert width(allowed.mean_interval(0.95)) > width(trusted.mean_interval(0.95))
        above, up_to = allowed.cuts[:-1], allowed.cuts[1:]
        low, high = allowed.fraction_intervals(above, up_to, 0.95).T
        trusted_low, trusted_high = trusted.fraction_intervals(above, up_to, 0.95).T
        assert (low <= trusted_low).all()
        assert (trusted_high <= high).all()
        assert ((high - low) > (trusted_high - trusted_low)).any()

    def test_missing_numbers(self):
        rows, public = people(N, 0), people(300, 1)
        rows.loc[rows.index % 4 == 0, "pay"] = np.nan
        release = fitted(rows, public, MarginalQueries(k=2, missing=["pay"]))
        low, high = release.mean_interval("pay")
        assert low < release.mean("pay") < high
        assert low < rows["pay"].mean() < high
        table = release.mean_interval("pay", by="job")
        assert ((table["low"] <= table["mean"]) & (table["mean"] <= table["high"])).all()

    def test_a_column_without_values_and_a_constant_one(self):
        rows = pd.DataFrame({"pay": np.full(2000, 7.0), "job": ["farm", "shop"] * 1000})
        release = fitted(rows[100:], rows[:100], bounds={"pay": (0, 10)})
        low, high = release.mean_interval("pay")
        assert 0 <= low <= release.mean("pay") <= high <= 10


class TestGroups:
    def test_it_has_the_means_of_the_groups(self, release):
        table = release.mean_interval("pay", by="job")
        assert table.columns.tolist() == ["job", "mean", "low", "high"]
        means = release.mean("pay", by="job")
        pd.testing.assert_frame_equal(table[["job", "mean"]], means)
        assert ((table["low"] < table["mean"]) & (table["mean"] < table["high"])).all()
        together = release.mean_interval("pay", by="job", simultaneous=True)
        assert (together["low"] <= table["low"]).all()
        assert (table["high"] <= together["high"]).all()

    def test_coverage(self):
        held = []
        for seed in range(20):
            release = fitted(people(N, seed), people(300, 1000 + seed), seed=seed)
            table = release.mean_interval("pay", by="job").set_index("job")
            for job in set(table.index) & set(MEANS):
                held.append(table["low"][job] <= MEANS[job] <= table["high"][job])
        assert len(held) >= 55
        assert np.mean(held) >= 0.88

    def test_a_shift_inside_the_bins_affects_groups_as_well(self):
        """Public numbers end at 30, so the last bin has wrong numbers in all rows and in groups."""
        held = []
        for seed in range(10):
            rows, public = people(N, seed), people(2000, 1000 + seed)
            rows["job"] = np.random.default_rng(seed).choice(["farm", "spy"], N, p=[0.95, 0.05])
            public["job"] = np.random.default_rng(seed).choice(["farm", "spy"], 2000)
            release = fitted(rows, public[public["pay"] < 30][:300], seed=seed)
            everybody = release.mean_interval("pay")
            low, high = release.mean_interval("pay", by="job").set_index("job").loc["farm"][-2:]
            assert high - low > 0.9 * width(everybody)
            held.append(low <= MEAN <= high)
        assert all(held)

    def test_known_shares_weight_simultaneous_intervals_after_calibration(self):
        """Calibration hardly changes the means of the groups that are known."""
        shares = pd.Series({"farm": 0.2, "shop": 0.3, "spy": 0.5})
        true, held = shares @ pd.Series(MEANS), []
        for seed in range(8):
            release = fitted(people(N, seed), people(300, 1000 + seed), seed=seed)
            groups = release.mean_interval("pay", by="job", simultaneous=True).set_index("job")
            calibrated = release.calibrate({"job": shares})
            after = calibrated.mean("pay", by="job").set_index("job")["mean"]
            np.testing.assert_allclose(after[shares.index], groups["mean"][shares.index], rtol=0.01)
            low, high = shares @ groups.loc[shares.index, ["low", "high"]]
            assert low < calibrated.mean("pay") < high
            held.append(low <= true <= high)
        assert sum(held) >= 7

    def test_only_tables_have_groups(self, release):
        calibrated = release.calibrate({"job": {"farm": 1, "shop": 1, "spy": 1}})
        with pytest.raises(ValueError, match="by group"):
            calibrated.mean_interval("pay", by="job")
        with pytest.raises(ValueError, match="not available"):
            calibrated.mean_interval("pay")
        stumps = fitted(people(N, 0), people(300, 1), StumpQueries())
        with pytest.raises(ValueError, match="by requires"):
            stumps.mean_interval("pay", by="job")
