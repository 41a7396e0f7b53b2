"""Calibration of a release to known totals: raking by brute force, intervals, and messages."""

import itertools

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease, PrivacyBudget
from skpublicdp.accounting import PrivacyReceipt
from skpublicdp.query_release import MarginalQueries, StumpQueries
from tests.internals.query_release import rake_to_margins

REGIONS, SEXES, ANSWERS = "abc", "fm", ("no", "yes")
N = 4000


def population(n, seed, tilt=False):
    """Return rows. With `tilt`, some regions and a sex are more frequent than in the population."""
    rng = np.random.default_rng(seed)
    region = rng.choice(list(REGIONS), n, p=[0.3, 0.3, 0.4] if tilt else [0.5, 0.3, 0.2])
    sex = rng.choice(list(SEXES), n, p=[0.3, 0.7] if tilt else [0.5, 0.5])
    smokes = rng.random(n) < 0.2 + 0.2 * (sex == "m") + 0.2 * (region == "a")
    return pd.DataFrame({"region": region, "sex": sex, "smokes": np.where(smokes, "yes", "no")})


KNOWN = {"region": {"a": 500, "b": 300, "c": 200}, "sex": {"f": 0.5, "m": 0.5}}
# the distribution of `population`: shares of each cell
TRUTH = {
    (region, sex, answer): share * 0.5 * (rate if answer == "yes" else 1 - rate)
    for (region, share), sex, answer in itertools.product(
        zip(REGIONS, (0.5, 0.3, 0.2), strict=True), SEXES, ANSWERS
    )
    for rate in [0.2 + 0.2 * (sex == "m") + 0.2 * (region == "a")]
}


def fitted(k=2, seed=0, **settings):
    release = PAPQueryRelease(MarginalQueries(k=k), random_state=seed, **{"epsilon": 4, **settings})
    return release.fit(population(N, seed, True), X_public=population(200, 1000 + seed, True))


@pytest.fixture(scope="module")
def release():
    return fitted()


def series(release, columns):
    return release.table(columns).set_index(columns)["fraction"]


def raked(table, margins):
    """Return a table that is scaled to its margins many times, one loop over cells each."""
    table = table.copy()
    for _, (name, totals) in itertools.product(range(200), margins.items()):
        for category in table.index.unique(name):
            is_category = table.index.get_level_values(name) == category
            share = totals.get(category, 0) / sum(totals.values())
            if table[is_category].sum() > 0:
                table[is_category] *= share / table[is_category].sum()
    return table


class TestRaking:
    def test_a_table_with_the_known_columns_is_raked(self):
        wide = fitted(k=3)
        columns = ["region", "sex", "smokes"]
        expected = raked(series(wide, columns), KNOWN)
        calibrated = wide.calibrate(KNOWN)
        np.testing.assert_allclose(series(calibrated, columns), expected, atol=2e-4)
        for pair in itertools.combinations(columns, 2):
            np.testing.assert_allclose(
                series(calibrated, list(pair)),
                expected.groupby(level=list(pair), sort=False).sum(),
                atol=2e-4,
            )

    def test_one_known_column_is_post_stratification(self, release):
        calibrated = release.calibrate({"sex": KNOWN["sex"]})
        old = series(release, ["sex", "smokes"]).unstack(sort=False).loc[list(SEXES)]
        new = series(calibrated, ["sex", "smokes"]).unstack(sort=False).loc[list(SEXES)]
        np.testing.assert_allclose(new, 0.5 * old.div(old.sum(axis=1), axis=0), atol=2e-4)
        np.testing.assert_allclose(series(calibrated, "smokes"), new.sum(), atol=2e-4)

    def test_tables_agree_with_totals_and_with_each_other(self, release):
        calibrated = release.calibrate(KNOWN)
        np.testing.assert_allclose(series(calibrated, "region")[:3], [0.5, 0.3, 0.2], atol=1e-12)
        assert (series(calibrated, "region")[3:] == 0).all()
        for pair in (["region", "sex"], ["region", "smokes"], ["sex", "smokes"]):
            table = series(calibrated, pair)
            for name in pair:
                sums = table.groupby(level=name, sort=False).sum()
                np.testing.assert_allclose(sums, series(calibrated, name), atol=1e-8)
        in_another_order = release.calibrate(dict(reversed(KNOWN.items())))
        np.testing.assert_allclose(
            series(calibrated, ["region", "sex"]),
            series(in_another_order, ["region", "sex"]),
            atol=1e-9,
        )

    def test_known_tables_of_several_columns(self, release):
        rng = np.random.default_rng(0)
        pairs = pd.Series(
            rng.integers(1, 9, 6), pd.MultiIndex.from_product([list(SEXES), list(REGIONS)])
        )
        calibrated = release.calibrate({("sex", "region"): pairs})
        table = series(calibrated, ["sex", "region"])
        np.testing.assert_allclose(table[pairs.index], pairs / pairs.sum(), atol=1e-12)
        by_region = pairs.groupby(level=1).sum() / pairs.sum()
        np.testing.assert_allclose(series(calibrated, "region")[:3], by_region, atol=1e-12)
        # "(missing)" may have a total
        some = release.calibrate({"sex": {"f": 5, "m": 4, "(missing)": 1}})
        np.testing.assert_allclose(series(some, "sex"), [0.5, 0.4, 0, 0.1], atol=1e-12)

    def test_what_is_known_already_changes_nothing(self, release):
        same = release.calibrate({"sex": series(release, "sex")})
        for columns in (["sex"], ["smokes"], ["region", "smokes"]):
            np.testing.assert_allclose(series(same, columns), series(release, columns), atol=1e-5)

    def test_bias_of_the_sample_is_removed(self):
        errors = {False: [], True: []}
        for seed in range(5):
            one = fitted(seed=seed)
            for is_calibrated in errors:
                smokes = series(one.calibrate(KNOWN) if is_calibrated else one, "smokes")["yes"]
                truth = sum(share for cell, share in TRUTH.items() if cell[2] == "yes")
                errors[is_calibrated].append(abs(smokes - truth))
        assert np.mean(errors[True]) < 0.5 * np.mean(errors[False])

    def test_known_cells_that_are_empty_in_the_release(self):
        rows = population(N, 5, True)
        rows["sex"] = pd.Categorical(rows["sex"], categories=["f", "m", "x"])
        public = rows[:200].copy()
        release = PAPQueryRelease(epsilon=4, random_state=0).fit(rows[200:].copy(), X_public=public)
        empty = {"x": release.table("sex").set_index("sex")["fraction"]["x"]}
        assert empty["x"] < 0.01
        calibrated = release.calibrate({"sex": {"f": 5, "m": 4, "x": 1}})
        table = series(calibrated, ["sex", "smokes"])
        np.testing.assert_allclose(
            table.groupby(level=0, sort=False, observed=False).sum()[:3], [0.5, 0.4, 0.1], atol=1e-6
        )
        drawn = calibrated.sample(4000)
        assert (drawn["sex"] == "x").mean() == pytest.approx(0.1, abs=0.02)

    def test_raked_weights_have_the_margins(self):
        rng = np.random.default_rng(0)
        codes = rng.integers(0, (2, 3), size=(500, 2))
        weights = rng.random(500)
        known = {(0,): np.array([0.9, 0.1]), (1,): np.array([0.2, 0.2, 0.6])}
        new = rake_to_margins(codes, weights / weights.sum(), known, (2, 3))
        for (column,), fractions in known.items():
            np.testing.assert_allclose(np.bincount(codes[:, column], new), fractions, atol=1e-9)
        # weights are multiplied by a factor of each row of the table and one of each column
        factor = np.zeros((2, 3))
        factor[codes[:, 0], codes[:, 1]] = new / weights
        assert np.linalg.matrix_rank(factor, tol=1e-9 * factor.max()) == 1


class TestCalibratedRelease:
    def test_all_answers_are_calibrated(self):
        rng = np.random.default_rng(3)
        rows = population(N, 5, True)
        rows["age"] = np.where(rows["sex"] == "f", 40, 60) + rng.integers(0, 5, N)
        release = PAPQueryRelease(epsilon=4, random_state=0).fit(rows, X_public=rows[:200].copy())
        calibrated = release.calibrate({"sex": {"f": 0.9, "m": 0.1}})
        assert release.mean("age") == pytest.approx(56, abs=0.6)
        assert calibrated.mean("age") == pytest.approx(44, abs=0.6)
        assert calibrated.cdf([50], column="age")[0] == pytest.approx(0.9, abs=0.01)
        assert calibrated.quantile(0.8, column="age") < 50 < release.quantile(0.8, column="age")
        assert calibrated.answer({"sex": "f"})[0] == pytest.approx(0.9)
        assert (calibrated.sample(2000)["sex"] == "f").mean() == pytest.approx(0.9, abs=0.03)
        assert calibrated.privacy_ is release.privacy_
        # the release itself stays as it was
        assert release.answer({"sex": "f"})[0] == pytest.approx(
            (rows["sex"] == "f").mean(), abs=0.02
        )
        with pytest.raises(ValueError, match="calling calibrate"):
            calibrated.cdf_interval([50], column="age")

    def test_totals_of_private_rows_leave_their_columns_unprotected(self, release):
        calibrated = release.calibrate({"sex": {"f": 3, "m": 1}}, from_private_rows=True)
        receipt = calibrated.privacy_
        assert receipt.unit == "replace one private row (columns not protected: sex)"
        assert receipt.protects == "columns"
        assert receipt.assumptions[0] == "all private rows have public values of sex"
        assert "whose public columns are equal" in receipt.in_words()
        assert "and equal public columns" in str(receipt.to_registry())
        assert (receipt.epsilon, receipt.event) == (
            release.privacy_.epsilon,
            release.privacy_.event,
        )
        assert PrivacyReceipt.from_dict(receipt.to_dict()) == receipt
        assert release.privacy_.protects == "rows"
        assert "columns not protected: sex" in calibrated.describe_method()
        equal = dict.fromkeys(itertools.product(REGIONS, SEXES), 1)
        both = release.calibrate(
            {("sex", "region"): {key[::-1]: 1 for key in equal}}, from_private_rows=True
        )
        assert "columns not protected: region, sex)" in both.privacy_.unit
        again = calibrated.calibrate({"region": dict.fromkeys(REGIONS, 1)}, from_private_rows=True)
        assert again.privacy_.unit == "replace one private row (columns not protected: sex, region)"
        assert len(again.privacy_.assumptions) == len(receipt.assumptions)
        for source, text in ((calibrated, "not about a population"), (release, "sampling of rows")):
            assert text in source.describe_method()

    def test_totals_of_private_rows_are_refused_where_they_say_more_than_their_columns(self):
        rows = population(900, 0).assign(weight=np.arange(900) % 3 + 1.0)
        settings = {"weights": "weight", "bounds": {"weight": (0, 3)}}
        weighted = PAPQueryRelease(random_state=0, **settings)
        budgeted = PAPQueryRelease(budget=PrivacyBudget(9, 1e-5, for_tests=True), random_state=0)
        for release, columns in ((weighted, rows), (budgeted, rows.drop(columns="weight"))):
            release.fit(columns, X_public=columns[:90].copy())
            with pytest.raises(ValueError, match="from_private_rows requires a release without"):
                release.calibrate({"sex": KNOWN["sex"]}, from_private_rows=True)
            release.calibrate({"sex": KNOWN["sex"]})

    def test_totals_in_impossible_cells(self):
        zeros = {"region": "a", "smokes": "yes"}
        rows = population(900, 0)
        rows = rows[(rows["region"] != "a") | (rows["smokes"] == "no")]
        release = PAPQueryRelease(MarginalQueries(zeros=[zeros]), random_state=0)
        release.fit(rows, X_public=rows[:90].copy())
        cells = dict.fromkeys(itertools.product(REGIONS, ANSWERS), 1)
        with pytest.raises(ValueError, match="positive in cells that are declared impossible"):
            release.calibrate({("region", "smokes"): cells})
        table = release.calibrate({("region", "smokes"): cells | {("a", "yes"): 0}}).table(
            ["region", "smokes"]
        )
        np.testing.assert_array_equal(table["low"], table["fraction"])
        np.testing.assert_array_equal(table["high"], table["fraction"])

    def test_intervals(self, release):
        calibrated = release.calibrate(KNOWN)
        for columns in ("region", "sex"):
            table = calibrated.table(columns)
            np.testing.assert_array_equal(table["low"], table["fraction"])
            np.testing.assert_array_equal(table["high"], table["fraction"])
        for simultaneous in (False, True):
            table = calibrated.table(["sex", "smokes"], simultaneous=simultaneous)
            assert (table["low"] <= table["fraction"]).all()
            assert (table["fraction"] <= table["high"]).all()
            assert table["low"].min() >= 0
            assert table["high"].max() <= 1
        assert 0 < calibrated.expected_error_ < 2 * release.expected_error_

    def test_totals_of_several_calls_all_hold(self, release):
        """A second call adds its totals to those of the first, in whatever order."""
        together = release.calibrate(KNOWN)
        for first, second in (("region", "sex"), ("sex", "region")):
            twice = release.calibrate({first: KNOWN[first]}).calibrate({second: KNOWN[second]})
            for columns in ("region", "sex", ["region", "sex"], ["sex", "smokes"], "smokes"):
                output, expected = twice.table(columns), together.table(columns)
                numbers = ["fraction", "low", "high"]
                assert output[numbers].notna().all(axis=None)
                np.testing.assert_allclose(output[numbers], expected[numbers], atol=1e-6)
            shares = twice.table("smokes", within="region")
            assert shares[shares["region"].isin([*REGIONS])]["low"].notna().all()
        again = release.calibrate(KNOWN).calibrate({"sex": KNOWN["sex"]})
        pd.testing.assert_frame_equal(again.table("smokes"), together.table("smokes"))
        with pytest.raises(ValueError, match="The totals contradict each other"):
            release.calibrate(KNOWN).calibrate({"sex": {"f": 1, "m": 2}})

    def test_fidelity_compares_known_tables_with_drawing_alone(self, release):
        """Rows that are drawn from known fractions lie in intervals for the drawing of rows."""
        calibrated = release.calibrate(KNOWN)
        fidelity = calibrated.fidelity(20_000).set_index("table")
        known = fidelity.loc[[*KNOWN]]
        assert (known["release_error"] == 0).all()
        assert (known["rms_difference"] < 4 * known["drawing_error"]).all()
        assert (known["inside"] >= 0.6).all()
        wrong = calibrated.fidelity(20_000, constraints=lambda rows: rows["region"] != "a")
        region = wrong.set_index("table").loc["region"]
        assert region["inside"] <= 0.4  # of "(other)" and "(missing)", which are empty

    def test_intervals_hold(self):
        held = []
        for seed in range(12):
            calibrated = fitted(seed=seed, epsilon=1).calibrate(KNOWN)
            for columns, cell in ((["smokes"], (2,)), (["region", "smokes"], (0, 2))):
                table = calibrated.table(columns).set_index(columns)
                for key in itertools.product(*[(REGIONS, SEXES, ANSWERS)[axis] for axis in cell]):
                    truth = sum(
                        share
                        for full, share in TRUTH.items()
                        if tuple(full[axis] for axis in cell) == key
                    )
                    row = table.loc[key if len(key) > 1 else key[0]]
                    held.append(row["low"] <= truth <= row["high"])
        assert np.mean(held) > 0.9

    def test_intervals_of_rare_cells(self):
        """Groups of 7 rows: no cell exceeds its group, and cells may be empty as before."""
        rng = np.random.default_rng(0)
        group = np.where(np.arange(N) < 7, "rare", np.where(rng.random(N) < 0.5, "a", "b"))
        kind = rng.choice([f"kind {i}" for i in range(8)], N, p=[0.65, *[0.05] * 7])
        rows = pd.DataFrame({"group": group, "kind": kind})
        rows["group"] = pd.Categorical(rows["group"], ["a", "b", "rare"])
        totals = rows["group"].value_counts()
        for seed in range(3):
            release = PAPQueryRelease(epsilon=0.3, random_state=seed)
            release = release.fit(rows, X_public=rows[-200:].copy())
            calibrated = release.calibrate({"group": totals})
            before, after = (r.table(["group", "kind"]) for r in (release, calibrated))
            assert (after["low"][before["low"] == 0] == 0).all()
            is_rare = after["group"] == "rare"
            assert (after["high"][is_rare] <= 7 / N + 1e-12).all()
            assert (after["high"][is_rare & (before["high"] > 7 / N)] > 0).all()

    def test_sampling_deviation_is_that_of_post_stratification(self):
        # with next to no noise, the variance is Σ N_h² p_h (1 - p_h) / n_h over strata h
        exact = fitted(epsilon=1000)
        calibrated = exact.calibrate({"sex": KNOWN["sex"]})
        table = series(exact, ["sex", "smokes"]).unstack(sort=False).loc[list(SEXES), list(ANSWERS)]
        sizes = N * table.sum(axis=1)
        rates = table["yes"] / table.sum(axis=1)
        expected = np.sqrt((0.25 * rates * (1 - rates) / sizes).sum())
        deviations = calibrated._released.answers.release.deviations[2,]
        assert deviations[1] == pytest.approx(expected, rel=0.03)


class TestMessages:
    @pytest.mark.parametrize(
        ("totals", "message"),
        [
            ({}, "totals must"),
            (KNOWN["sex"], "position below 3"),
            ([("sex", {"f": 1})], "totals must"),
            ({"sex": {"f": 1, "x": 2, "m": 1}}, "exist: 'x'"),
            ({"sex": {"f": 1}}, "totals of sex .*'m'"),
            ({"sex": {"f": -1, "m": 2}}, "must be non-negative"),
            ({"sex": {"f": 0, "m": 0}}, "must not all be zero"),
            ({"sex": pd.DataFrame({"sex": ["f", "m"], "n": [1, 1]})}, "must be a dict or a Series"),
            ({"sex": {"f": np.nan, "m": 1}}, "must be non-negative"),
            (
                {"sex": KNOWN["sex"], ("sex", "smokes"): dict.fromkeys(
                    itertools.product(SEXES, ANSWERS), 1) | {("f", "no"): 9}},
                "contradict",
            ),
            (
                {("region", "sex", "smokes"): dict.fromkeys(
                    itertools.product(REGIONS, SEXES, ANSWERS), 1)},
                "sex and smokes",
            ),
        ],
    )  # fmt: skip
    def test_invalid_totals(self, release, totals, message):
        with pytest.raises(ValueError, match=message):
            release.calibrate(totals)

    def test_a_number_and_the_same_text_are_two_cells(self):
        rows = pd.DataFrame({"code": pd.Series([1, "1", True, "a"] * 300, dtype=object)})
        release = PAPQueryRelease(random_state=0).fit(rows, X_public=rows[:100].copy())
        cells = release.queries_.bind(release._schema, np.zeros((1, 1))).cell_names(0)
        totals = dict.fromkeys(cells[:-2], 1)
        table = release.calibrate({"code": totals}).table("code")
        np.testing.assert_allclose(table["fraction"][:-2], 1 / len(totals))

    def test_totals_that_no_rows_have(self):
        codes, weights = np.array([[0, 0], [1, 1]]), np.array([0.5, 0.5])
        known = {(0,): np.array([0.9, 0.1]), (1,): np.array([0.2, 0.8])}
        with pytest.raises(ValueError, match="satisfied"):
            rake_to_margins(codes, weights, known, (2, 2))

    def test_releases_without_tables(self):
        rows = population(N, 0)
        for settings in ({"queries": StumpQueries()}, {"method": "public"}):
            other = PAPQueryRelease(random_state=0, **settings).fit(rows, X_public=rows[:99].copy())
            with pytest.raises(ValueError, match="can be calibrated"):
                other.calibrate(KNOWN)
