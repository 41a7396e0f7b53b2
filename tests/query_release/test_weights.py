"""Weighted tables: integer weights, sensitivity by brute force, totals, estimates and intervals."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease, PrivacyBudget
from skpublicdp.accounting import Sensitivity
from skpublicdp.exceptions import UncoveredBoundsWarning
from skpublicdp.query_release import MarginalQueries, ThresholdQueries
from tests.internals.privacy import Ledger
from tests.internals.query_release import (
    WEIGHT_UNITS,
    TableMeasurement,
    WeightColumn,
    WeightTotals,
    _refine_total,
    _row_units,
    marginal_tables,
    release_weight_totals,
    weighted_sensitivity,
)

N, MAXIMUM = 6000, 250.0


def survey(n, seed, weighted=True):
    """Return rows of a population in which half are women, of whom fewer are asked."""
    rng = np.random.default_rng(seed)
    share = 0.25 if weighted else 0.5
    sex = np.where(rng.random(n) < share, "f", "m")
    smokes = np.where(rng.random(n) < np.where(sex == "f", 0.1, 0.5), "yes", "no")
    weight = np.where(sex == "f", 150.0, 50.0) if weighted else np.ones(n)
    return pd.DataFrame({"sex": sex, "smokes": smokes, "weight": weight})


def fitted(seed=0, queries=None, rows=None, **settings):
    settings = {"epsilon": 4, "weights": "weight", "bounds": {"weight": (0, MAXIMUM)}} | settings
    release = PAPQueryRelease(queries, random_state=seed, **settings)
    rows = survey(N, seed) if rows is None else rows
    return release.fit(rows, X_public=survey(200, 1000 + seed))


@pytest.fixture(scope="module")
def release():
    return fitted()


class TestUnits:
    def test_units_are_in_range_for_every_number(self):
        column = WeightColumn(1, 5.0, offset=2.0)
        numbers = [-np.inf, -9.0, -2.0, 0.5, 3.0, 7.0, 1e300, np.inf, np.nan]
        units = column.units(np.column_stack([np.zeros(9), numbers]))
        half = WEIGHT_UNITS // 2
        expected = [0, 0, 0, half, WEIGHT_UNITS, WEIGHT_UNITS, WEIGHT_UNITS, 0, 0]
        np.testing.assert_array_equal(units, expected)
        assert units.dtype == np.int64

    def test_weights_of_a_row_depend_on_this_row_alone(self):
        rows = np.random.default_rng(0).random((50, 2)) * 9
        column = WeightColumn(0, 8.0)
        alone = np.concatenate([column.units(rows[[i]]) for i in range(50)])
        np.testing.assert_array_equal(column.units(rows), alone)
        halves = column.totals(rows[:20]) + column.totals(rows[20:])
        np.testing.assert_array_equal(column.totals(rows), halves)

    def test_weighted_tables_are_sums(self):
        rng = np.random.default_rng(0)
        codes, weights = rng.integers(0, (2, 3), (200, 2)), rng.integers(0, 99, 200)
        workload = [(0,), (0, 1)]
        tables = marginal_tables(codes, workload, (2, 3), weights)
        expected = [weights[codes[:, 0] == code].sum() for code in range(2)]
        expected += [
            weights[(codes == pair).all(axis=1)].sum()
            for pair in itertools.product(range(2), range(3))
        ]
        np.testing.assert_array_equal(tables, expected)
        assert tables.dtype == np.int64

    def test_sensitivity_by_brute_force(self):
        """The largest change over all replacements of a row is the declared sensitivity."""
        column = WeightColumn(1, 3.0)
        possible = np.array(list(itertools.product([0, 1, 2], [0.0, 1.1, 2.9, 3.0, 50.0])))

        def tables(rows):
            codes = rows[:, :1].astype(int)
            table = marginal_tables(codes, [(0,)], (3,), column.units(rows))
            return {"table": table, "totals": column.totals(rows)}

        declared = weighted_sensitivity(Sensitivity(2, 2))
        largest = {"table": [0, 0], "totals": [0, 0]}
        for row, other in itertools.product(possible, repeat=2):
            before = tables(np.stack([row, possible[4]]))
            after = tables(np.stack([other, possible[4]]))
            for name, ends in largest.items():
                change = np.abs(before[name] - after[name])
                ends[:] = max(ends[0], change.sum()), max(ends[1], (change**2).sum())
        assert largest["table"] == list(declared)
        assert largest["totals"] == list(declared)


class TestTotals:
    def test_totals_are_those_of_the_weights(self):
        weights = np.random.default_rng(0).gamma(3.0, 0.1, size=2000).clip(0, 1)
        column = WeightColumn(0, 1.0)
        ledger = Ledger(1000, 1e-6, 0)
        totals = release_weight_totals(lambda: column.totals(weights[:, None]), 2000, ledger)
        assert totals.total == pytest.approx(weights.sum(), rel=1e-3)
        kish = weights.sum() ** 2 / (weights**2).sum()
        assert totals.effective_rows == pytest.approx(kish, rel=1e-2)

    @pytest.mark.parametrize("counts", [(0, 0), (10**9, 0), (-(10**9), 10**9)])
    def test_noise_cannot_leave_the_possible_range(self, counts):
        totals = release_weight_totals(
            lambda: np.array(counts, dtype=np.int64), 50, Ledger(1, 1e-6, 0)
        )
        assert 1 <= totals.total <= totals.effective_rows <= 50

    def test_refined_total_is_the_weighted_mean(self):
        totals = WeightTotals(100.0, 25.0, 400.0)
        measurement = TableMeasurement(np.array([0.5, 0.6]), 0.002)
        units, refined = _refine_total(_row_units(500, totals), totals, {(0,): measurement})
        # estimates 100 and 110 of the total, of variances 25 and 2 * 0.002 * 100²
        precisions = np.array([1 / 25, 1 / 40])
        total = precisions @ [100, 110] / precisions.sum()
        assert units.total == pytest.approx(total)
        np.testing.assert_allclose(refined[0,].values, [50 / total, 60 / total])
        assert refined[0,].variance == pytest.approx(20 / total**2)


class TestRelease:
    def test_fractions_are_weighted(self, release):
        sex = release.table("sex").set_index("sex")["fraction"]
        assert sex["f"] == pytest.approx(0.5, abs=0.03)
        rows = survey(N, 0)
        smokes = np.average(rows["smokes"] == "yes", weights=rows["weight"])
        assert release.answer({"smokes": "yes"})[0] == pytest.approx(smokes, abs=0.03)

    @pytest.mark.filterwarnings("ignore:The mean weight in column")
    def test_equal_weights_are_no_weights(self):
        rows = survey(N, 0).assign(weight=MAXIMUM)
        weighted, plain = fitted(rows=rows), fitted(rows=rows, weights=None)
        for columns in ("sex", ["sex", "smokes"]):
            np.testing.assert_allclose(
                weighted.table(columns)["fraction"], plain.table(columns)["fraction"], atol=0.02
            )
        persons = weighted._released.answers.release.persons
        assert persons == pytest.approx(N, rel=0.05)

    def test_larger_weights_are_lowered_to_the_maximum(self):
        rows = survey(N, 0)
        rows.loc[rows["sex"] == "f", "weight"] = 1e9
        sex = fitted(rows=rows).table("sex").set_index("sex")["fraction"]
        n_women = (rows["sex"] == "f").sum()
        expected = n_women * MAXIMUM / (n_women * MAXIMUM + (N - n_women) * 50)
        assert sex["f"] == pytest.approx(expected, abs=0.02)

    def test_intervals_hold(self):
        truth = {"yes": 0.3, "no": 0.7}
        held = []
        for seed in range(15):
            table = fitted(seed, epsilon=1).table("smokes").set_index("smokes")
            held += [table.loc[k, "low"] <= v <= table.loc[k, "high"] for k, v in truth.items()]
        assert np.mean(held) >= 0.85

    def test_nothing_is_about_the_column_of_weights(self, release):
        assert release._released.answers.release.measured.keys() == {(0,), (1,), (0, 1)}
        message = "cannot be queried"
        for ask in (release.mean, release.quantile, release.cdf):
            arguments = () if ask == release.mean else ([0.5],)
            with pytest.raises(ValueError, match=message):
                ask(*arguments, column="weight")
        for ask in (release.answer, release.interval):
            with pytest.raises(ValueError, match=message):
                ask({"weight": 3})
        assert (release.sample(20)["weight"] == 1).all()

    def test_scores_are_weighted(self, release):
        rows = survey(4000, 50)
        repeated = rows.loc[rows.index.repeat(rows["weight"] / 50)].assign(weight=1.0)
        assert release.score(rows) == pytest.approx(release.score(repeated), abs=5e-5)

    def test_whole_weights_with_an_offset(self):
        rows = survey(N, 0)
        rows["weight"] = rows["weight"].astype(int)
        public = survey(200, 1).assign(weight=100)
        release = PAPQueryRelease(
            weights="weight", bounds={"weight": (0, 250)}, epsilon=4, random_state=0
        )
        sex = release.fit(rows, X_public=public).table("sex").set_index("sex")["fraction"]
        assert sex["f"] == pytest.approx(0.5, abs=0.03)

    def test_persons_with_several_rows(self):
        rows = survey(N, 0)
        release = PAPQueryRelease(
            weights=2, bounds={"weight": (0, MAXIMUM)}, max_rows_per_group=2, random_state=0
        )
        release.fit(rows, X_public=survey(200, 1), groups=np.arange(N) // 2)
        one_row = fitted(epsilon=1)._released.answers.release.persons
        assert release._released.answers.release.persons == pytest.approx(one_row / 2, rel=0.2)

    @staticmethod
    def count_intervals_of_children(n_fits, *, weighted):
        """Return how many simultaneous intervals of the share of children contain it.

        Two of the rows of each household count, and children are the last rows.
        """
        rng = np.random.default_rng(5)
        household = np.repeat(np.arange(2000), rng.integers(1, 6, 2000))
        by_household = pd.Series(household).groupby(household)
        rows = pd.DataFrame({"who": np.where(by_household.cumcount() < 2, "adult", "child")})
        sizes = by_household.transform("size").to_numpy()
        rows["weight"] = np.maximum(sizes, 2) / 2 if weighted else 1.0
        maximum, n_hits = 1.25 * rows["weight"].max(), 0  # equal weights are far from it
        for seed in range(n_fits):
            public = rows.sample(200, random_state=seed).assign(weight=1.0)
            release = PAPQueryRelease(
                weights="weight",
                bounds={"weight": (0, maximum)},
                max_rows_per_group=2,
                random_state=seed,
            )
            release.fit(rows, X_public=public, groups=household)
            table = release.table("who", simultaneous=True).set_index("who")
            n_hits += table["low"]["child"] <= (rows["who"] == "child").mean()
            n_hits -= table["high"]["child"] < (rows["who"] == "child").mean()
        return n_hits

    def test_kept_rows_of_households_stand_for_all_rows(self):
        """With 20 intervals at 95%, fewer than 12 hold with probability 2e-7."""
        assert self.count_intervals_of_children(20, weighted=True) >= 12
        assert self.count_intervals_of_children(5, weighted=False) == 0

    def test_calibration_after_weighting(self, release):
        calibrated = release.calibrate({"sex": {"f": 3, "m": 1}})
        assert calibrated.answer({"smokes": "yes"})[0] == pytest.approx(0.2, abs=0.03)


class TestMessages:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"bounds": None}, "column weight must"),
            ({"bounds": {"weight": (-1, 250)}}, "start at 0"),
            ({"weights": "sex"}, "column sex must"),
            ({"weights": "pay"}, "got 'pay'"),
            ({"method": "public"}, "method='auto'"),
            ({"queries": MarginalQueries(workload=[("sex", "weight")])}, "workload must not"),
        ],
    )
    def test_invalid_weights(self, settings, message):
        with pytest.raises(ValueError, match=message):
            fitted(**settings)

    def test_weights_alone(self):
        weights = survey(N, 0)[["weight"]]
        public = survey(100, 1)[["weight"]]
        for queries, message in (
            (MarginalQueries(), "X must have"),
            (ThresholdQueries(), "weights requires"),
        ):
            release = PAPQueryRelease(queries, weights=0, bounds=(0, 250))
            with pytest.raises(ValueError, match=message):
                release.fit(weights, X_public=public)


class TestUnsuitableWeights:
    def test_negative_public_weights(self):
        """Replicate weights may be negative, which a private row must not reveal."""
        public = survey(200, 1).assign(weight=lambda rows: rows["weight"] - 60)
        release = PAPQueryRelease(weights="weight", bounds={"weight": (0, MAXIMUM)})
        with pytest.raises(ValueError, match="must not be negative, but a public weight is"):
            release.fit(survey(N, 0), X_public=public)

    @pytest.mark.parametrize(("maximum", "share"), [(100.0, "26%"), (151.0, None)])
    def test_public_weights_above_the_maximum(self, maximum, share):
        bounds = {"weight": (0, maximum)}
        rows, public = survey(N, 0), survey(200, 1)
        above = (public["weight"] > maximum).mean()
        release = PAPQueryRelease(epsilon=4, weights="weight", bounds=bounds, random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            release.fit(rows, X_public=public)
        texts = [str(each.message) for each in caught if "weights in column" in str(each.message)]
        assert len(texts) == (above > 0)
        assert all(text.startswith(f"{above:.0%} of the public weights") for text in texts)

    def test_the_released_mean_weight_is_close_to_the_maximum(self):
        """Public rows without weights show nothing, but the released sum of the weights does."""
        public = survey(200, 1).assign(weight=1.0)
        for maximum, is_low in ((50.0, True), (MAXIMUM, False)):
            release = PAPQueryRelease(epsilon=4, weights="weight", random_state=0)
            release.set_params(bounds={"weight": (0, maximum)})
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                release.fit(survey(N, 0), X_public=public)
            texts = [str(each.message) for each in caught]
            expected = "The mean weight in column weight is 100% of the declared maximum"
            assert any(text.startswith(expected) for text in texts) == is_low

    def test_a_warning_that_is_an_error_does_not_undo_a_charged_release(self):
        rows, budget = survey(N, 0), PrivacyBudget(epsilon=5, delta=1e-4)
        release = PAPQueryRelease(
            epsilon=4, weights="weight", bounds={"weight": (0, 50.0)}, budget=budget
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error", UncoveredBoundsWarning)
            with pytest.raises(UncoveredBoundsWarning, match="The mean weight"):
                release.fit(rows, X_public=survey(200, 1).assign(weight=1.0))
        assert len(budget.ledger) == 1
        sex = release.table("sex").set_index("sex")["fraction"]
        assert sex["f"] == pytest.approx((rows["sex"] == "f").mean(), abs=0.03)

    @pytest.mark.parametrize("weights", ["weight", 2])
    def test_a_missing_weight_gets_no_cell(self, weights):
        rows = survey(N, 0)
        rows.loc[3, "weight"] = np.nan
        release = PAPQueryRelease(weights=weights, bounds={"weight": (0, MAXIMUM)})
        message = "Weights in column weight must be given for all rows"
        with pytest.raises(ValueError, match=message) as raised:
            release.fit(rows, X_public=survey(200, 1))
        assert "MarginalQueries(missing" not in str(raised.value)
        assert str(raised.value).endswith("for all rows.")
        with pytest.raises(ValueError, match=message) as raised:
            release.fit(rows.assign(age=1.5), X_public=survey(200, 1).assign(age=1.0))
        assert "MarginalQueries(missing=['age'])" in str(raised.value)
