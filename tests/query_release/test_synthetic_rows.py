"""Synthetic rows to hand out: possible values, constraints, fidelity, and their guarantee."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from skpublicdp import PAPQueryRelease
from skpublicdp.exceptions import SyntheticTailsWarning
from skpublicdp.query_release import (
    CustomQueries,
    HalfspaceQueries,
    IntervalQueries,
    MarginalQueries,
    RectangleQueries,
    StumpQueries,
    ThresholdQueries,
)
from tests.helpers import FALSE_ALARM
from tests.internals.data import MISSING, OTHER, Column, Container, Schema
from tests.internals.privacy import public_seed
from tests.internals.query_release import check_constraints, draw_accepted_rows, satisfies


def people(n, seed):
    generator = np.random.default_rng(seed)
    age = generator.integers(0, 90, size=n)
    return pd.DataFrame(
        {
            "age": age,
            "works": (age >= 15) & (generator.random(n) < 0.6),
            "region": pd.Categorical(generator.choice(["n", "s"], n), categories=["s", "n"]),
            "job": generator.choice(["farm", "shop"], n),
            "since": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(generator.integers(0, 365, n), unit="D"),
        }
    )


PEOPLE, PUBLIC = people(3000, 0), people(200, 1)
LOW_NOISE, HIGH_NOISE = 5.0, 0.2


def fitted(queries=None, rows=PEOPLE, public=PUBLIC, **settings):
    release = PAPQueryRelease(queries, **{"epsilon": HIGH_NOISE, "random_state": 0, **settings})
    return release.fit(rows, X_public=public)


@pytest.fixture(scope="module")
def release():
    return fitted()


class TestValues:
    @pytest.mark.once
    def test_no_other_category_where_the_type_declares_all(self, release):
        """With so much noise, "(other)" and "(missing)" have released mass in all columns.

        No public value of the boolean column is missing, so that synthetic values are not, either.
        """
        rows = release.sample(20_000)
        closed = {column.name for column in release._schema.columns if column.is_closed}
        assert closed == {"works", "region"}
        assert set(rows["works"]) == {False, True}
        assert set(rows["region"].dropna()) == {"n", "s"}
        assert set(rows["job"].dropna()) == {"farm", "shop", OTHER}
        assert rows.isna().any().tolist() == [False, False, True, True, False]
        pd.testing.assert_series_equal(rows.dtypes, PEOPLE.dtypes)

    @pytest.mark.parametrize("keep_other", [True, False])
    @pytest.mark.parametrize("keep_missing", [True, False])
    def test_other_and_missing_are_two_switches(self, release, keep_other, keep_missing):
        rows = release.sample(20_000, keep_other=keep_other, keep_missing=keep_missing)
        assert (rows["job"] == OTHER).any() == keep_other
        assert rows["job"].isna().any() == rows["region"].isna().any() == keep_missing

    def test_values_of_other_rows_take_the_place(self, release):
        schema = release._schema
        rows = np.random.default_rng(0).integers(4, size=(1000, 5)).astype(float)
        replaced = schema.replace_impossible(rows)
        is_closed = np.array([column.is_closed for column in schema.columns])
        is_excluded = is_closed & (rows == 2)
        is_excluded[:, 1] |= rows[:, 1] == 3  # booleans, none of which is missing in public rows
        np.testing.assert_array_equal(replaced[~is_excluded], rows[~is_excluded])
        assert set(replaced[:, is_closed].ravel()) == {0, 1, 3}
        # without another row, there is no value to take, and the row is drawn again
        assert schema.replace_impossible(np.full((1, 5), 2.0)).tolist() == [[2.0] * 5]
        assert schema.is_possible(replaced).all()
        assert not schema.is_possible(np.full((1, 5), 2.0)).any()

    def test_other_rows_keep_their_distribution(self, release):
        """Leaving out rows is conditioning: shares among the rows left are those of before."""
        n = 100_000
        rows = release.sample(n)
        rows = rows[rows["job"].isin(["farm", "shop"]) & rows["region"].notna()]
        known = release.sample(n, keep_other=False, keep_missing=False)
        for column in ("job", "region", "works"):
            before = rows[column].value_counts(normalize=True).sort_index()
            after = known[column].value_counts(normalize=True).sort_index()
            tolerance = norm.isf(FALSE_ALARM) * np.sqrt(before * (1 - before) * 2 / len(rows))
            assert (np.abs(before - after) < tolerance).all()

    def test_draws_are_unchanged_where_all_rows_are_accepted(self):
        rows = pd.DataFrame({"a": np.arange(2000) % 7, "b": np.arange(2000) % 3})
        release = fitted(rows=rows, public=rows[::10].copy(), bounds={"a": (0, 6), "b": (0, 2)})
        expected = release._schema.decode(
            release._released.answers.sample(50, np.random.default_rng([public_seed(0), 1]))
        )
        pd.testing.assert_frame_equal(release.sample(50), expected)


class TestTails:
    @pytest.mark.parametrize("queries", [None, CustomQueries(lambda rows: rows["age"] > 40)])
    def test_tables_and_lists_end_with_the_public_rows(self, queries):
        columns = ["age", "job"]
        release = fitted(queries, PEOPLE[columns], PUBLIC[columns], bounds={"age": (0, 200)})
        with pytest.warns(SyntheticTailsWarning, match="age are limited"):
            rows = release.sample(5000)
        assert rows["age"].max() == PUBLIC["age"].max()

    @pytest.mark.one_in(2)
    @pytest.mark.filterwarnings("error::skpublicdp.exceptions.SyntheticTailsWarning")
    @pytest.mark.parametrize(
        "queries", [ThresholdQueries(), StumpQueries(), RectangleQueries(), HalfspaceQueries()]
    )
    def test_released_columns_have_tails(self, queries):
        rows = np.random.default_rng(0).normal(size=(5000, 1)) * 30
        release = fitted(queries, rows, rows[:20] / 10, bounds=(-200, 200), epsilon=LOW_NOISE)
        assert release.sample(2000).max() > 40

    @pytest.mark.filterwarnings("error::skpublicdp.exceptions.SyntheticTailsWarning")
    def test_bounds_of_the_public_rows_are_no_tails(self):
        bounds = {"age": (PUBLIC["age"].min(), PUBLIC["age"].max())}
        columns = ["age", "job"]
        fitted(None, PEOPLE[columns], PUBLIC[columns], bounds=bounds).sample(10)


def is_working(rows):
    return rows["works"] == True  # noqa: E712 - some are missing


def grown_if_working(rows):
    return (rows["age"] >= 15) | ~is_working(rows)


class TestConstraints:
    def test_on_rows_of_a_release(self, release):
        rows = release.sample(
            3000,
            constraints=[
                grown_if_working,
                lambda rows: rows["since"] >= "2020-02-01",
                lambda rows: rows["age"] < 80,
            ],
        )
        assert len(rows) == 3000
        works = is_working(rows).to_numpy()
        assert rows.loc[works, "age"].min() >= 15
        assert rows.loc[~works, "age"].min() < 15
        assert rows["since"].min() == pd.Timestamp("2020-02-01")
        assert rows["age"].max() < 80

    def test_function_gets_rows_of_the_container(self):
        seen = []

        def function(rows):
            seen.append(rows)
            return rows[:, 0] > 0

        rows = np.array([[0.0, 1, 0, 1], [2, 1, 1, 0]])
        constraints = check_constraints([lambda rows: rows[:, 1] == 1, function])
        holds = satisfies(constraints, rows, _small_schema())
        assert holds.tolist() == [False, True]
        assert seen[0].tolist() == [[0, 1, "p", True], [2, 1, "q", False]]

    @pytest.mark.parametrize(
        ("constraints", "message"),
        [
            (3, "constraints .*int"),
            ("x > 3", "functions of rows .*str"),
            (lambda rows: rows[:, 0], "one boolean"),
            (lambda rows: True, "one boolean .*2"),
        ],
    )
    def test_messages(self, constraints, message):
        with pytest.raises(ValueError, match=message):
            satisfies(check_constraints(constraints), np.ones((2, 4)), _small_schema())

    def test_contradiction(self, release):
        with pytest.raises(ValueError, match="the constraints"):
            release.sample(1, constraints=lambda rows: rows["age"] > 500)

    @pytest.mark.parametrize("rate", [0.01, 0.5, 1.0])
    def test_rejection_is_conditioning(self, rate):
        """Accepted rows are the first n accepted of a stream of draws."""
        generator = np.random.default_rng(0)
        stream = []

        def draw(size):
            stream.append(generator.random((size, 1)))
            return stream[-1]

        rows = draw_accepted_rows(draw, lambda rows: rows[:, 0] < rate, 400)
        everything = np.concatenate(stream)
        is_accepted = everything[:, 0] < rate
        np.testing.assert_array_equal(rows, everything[is_accepted][:400])


def _small_schema():
    """Return a schema of two numbers, a category and a boolean."""
    numbers = np.arange(3.0)
    return Schema(
        (
            Column("x", numbers, categorical=False, integral=True),
            Column("y", numbers, categorical=False, integral=True),
            Column("c", np.array(["p", "q"], dtype=object), categorical=True),
            Column("b", np.array([False, True], dtype=object), categorical=True),
        ),
        Container(None, ("x", "y", "c", "b")),
    )


class TestFidelity:
    @pytest.mark.once
    def test_tables_against_counting(self, release):
        fidelity = release.fidelity(2000, constraints=grown_if_working)
        assert fidelity["table"][:6].tolist() == [*PEOPLE.columns, "age, works"]
        assert len(fidelity) == 5 + 10
        # `sample` draws the same rows, since the release has a seed
        rows = release.sample(2000, constraints=grown_if_working)
        table = release.table(["works", "job"])
        counts = rows[["works", "job"]].astype(object).fillna(MISSING).astype(str).value_counts()
        keys = pd.MultiIndex.from_frame(table[["works", "job"]].astype(str))
        fractions = counts.reindex(keys, fill_value=0).to_numpy() / 2000
        differences = fractions - table["fraction"].to_numpy()
        found = fidelity.set_index("table").loc["works, job"]
        assert found["n_numbers"] == len(table) == 16
        assert found["rms_difference"] == pytest.approx(np.sqrt((differences**2).mean()))
        assert found["largest_difference"] == pytest.approx(np.abs(differences).max())
        p = table["fraction"].to_numpy()
        assert found["drawing_error"] == pytest.approx(np.sqrt((p * (1 - p)).mean() / 2000))
        inside = (table["low"].to_numpy() <= fractions) & (fractions <= table["high"].to_numpy())
        assert found["inside"] == inside.mean()

    def test_expected_error_is_that_of_the_release(self, release):
        fidelity = release.fidelity(10)
        workload = fidelity[fidelity["table"].str.contains(",")]
        mean = np.average(workload["release_error"] ** 2, weights=workload["n_numbers"])
        assert math.sqrt(mean) == pytest.approx(release.expected_error_)

    def test_cdf(self):
        release = fitted(ThresholdQueries(), PEOPLE[["age"]], PUBLIC[["age"]])
        fidelity = release.fidelity(200_000)
        (found,) = fidelity.to_dict("records")
        # the rows are drawn from the CDF, so that only chance is left
        assert found["rms_difference"] < 4 * found["drawing_error"]
        assert found["release_error"] == pytest.approx(
            np.sqrt((release._released.answers.cdf.deviations**2).mean())
        )
        assert found["inside"] == 1

    @pytest.mark.parametrize(
        ("queries", "names"),
        [
            (StumpQueries(), ["job", "CDF of age"]),
            (CustomQueries(lambda rows: rows["age"] > 40), ["query 0"]),
        ],
    )
    def test_other_classes(self, queries, names):
        columns = ["age", "job"]
        release = fitted(queries, PEOPLE[columns], PUBLIC[columns], bounds={"age": (0, 90)})
        fidelity = release.fidelity(20_000)
        assert fidelity["table"].tolist() == names
        assert (fidelity["rms_difference"] < 4 * fidelity["drawing_error"] + 0.002).all()

    def test_rows_that_contradict_the_release_are_found(self):
        release = fitted(epsilon=LOW_NOISE)
        honest = release.fidelity(20_000)
        wrong = release.fidelity(20_000, constraints=lambda rows: rows["job"] == "farm")

        def inside(fidelity):
            return fidelity.loc[fidelity["table"].str.contains("job"), "inside"].mean()

        assert inside(honest) > 0.9
        assert inside(wrong) < 0.7

    def test_calibrated_release(self, release):
        """Rows of a calibrated release agree with its tables and intervals."""
        calibrated = release.calibrate({"works": {False: 1, True: 3}})
        fidelity = calibrated.fidelity(50_000, keep_other=False, keep_missing=False)
        rows = calibrated.sample(50_000, keep_other=False, keep_missing=False)
        assert rows["works"].mean() == pytest.approx(0.75, abs=0.01)
        table = calibrated.table(["works", "job"])
        counts = rows[["works", "job"]].astype(str).value_counts() / 50_000
        keys = pd.MultiIndex.from_frame(table[["works", "job"]].astype(str))
        fractions = counts.reindex(keys, fill_value=0).to_numpy()
        inside = (table["low"].to_numpy() <= fractions) & (fractions <= table["high"].to_numpy())
        assert fidelity.set_index("table").loc["works, job", "inside"] == inside.mean()

    def test_weighted_release(self):
        """Weights are no variable: rows have equal weights, and tables are the weighted ones."""
        rows = PEOPLE[["works", "job"]].assign(weight=np.where(PEOPLE["works"], 3.0, 1.0))
        public = PUBLIC[["works", "job"]].assign(weight=1.0)
        bounds = {"weight": (0, 4)}
        release = fitted(None, rows, public, weights="weight", bounds=bounds, epsilon=LOW_NOISE)
        fidelity = release.fidelity(20_000, keep_other=False, keep_missing=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error", SyntheticTailsWarning)  # weights have no tails
            drawn = release.sample(20_000, keep_other=False, keep_missing=False)
        assert (drawn["weight"] == 1).all()
        assert fidelity["table"].tolist() == ["works", "job", "works, job"]
        assert (fidelity["rms_difference"] < 0.02).all()

    def test_releases_without_tables(self):
        assert fitted(method="public").fidelity(100).shape == (0, 7)


@pytest.fixture(scope="module")
def pmw():
    rows = people(200_000, 2)[["job", "region"]].astype(str)
    settings = {"method": "pmw", "epsilon": LOW_NOISE, "beta": 0.1}
    return fitted(MarginalQueries(k=1), rows[5000:], rows[:5000].copy(), **settings)


class TestGuarantee:
    def test_is_that_of_remark_9(self, pmw):
        n, k, beta = 5000, 12, 0.01
        sampling = math.sqrt(math.log(2 * k / beta) / (2 * n))
        bound = pmw.sample_guarantee(n, n_queries=k, beta=beta)
        assert pmw.guarantee_ < 0.5
        assert bound == pytest.approx(pmw.guarantee_ + sampling)
        # rows that are left out add their weight: the total variation distance
        weights, rows = pmw._released.rows.weights, pmw._released.rows.rows
        left_out = weights[~((rows < 2).all(axis=1))].sum()
        with_known = pmw.sample_guarantee(
            n, n_queries=k, beta=beta, keep_other=False, keep_missing=False
        )
        assert left_out > 0
        assert with_known == pytest.approx(bound + left_out)
        assert pmw.sample_guarantee(1) == 1.0

    def test_sampling_error_holds(self, pmw):
        """For k queries, more than the sampling part happens with probability at most beta."""
        n, beta = 400, 0.2
        Q = pmw.queries_.bind(pmw._schema, pmw._released.rows.rows[:5]).all_cells
        released = pmw._released.answers.answer(Q)
        radius = math.sqrt(math.log(2 * len(Q) / beta) / (2 * n))
        generator, failures, n_samples = np.random.default_rng(0), 0, 1000
        for _ in range(n_samples):
            rows = pmw._released.answers.sample(n, generator)
            sampled = pmw._released.queries.weighted_mean(Q, rows, np.full(n, 1 / n))
            failures += np.abs(sampled - released).max() > radius
        assert failures / n_samples < beta

    @pytest.mark.parametrize(
        "queries", [ThresholdQueries(), IntervalQueries(), StumpQueries(), RectangleQueries()]
    )
    @pytest.mark.parametrize("m", [40, 3000])
    def test_rows_of_cuts_answer_all_queries(self, queries, m):
        """The rows are the representatives of cells, and half of all values are tied."""
        rng = np.random.default_rng(0)
        width = 2 if isinstance(queries, StumpQueries | RectangleQueries) else 1

        def numbers(n):
            is_tied = rng.random((n, width)) < 0.5
            return np.where(is_tied, 0.25, rng.random((n, width)))

        settings = {"method": "pmw", "epsilon": 1.0, "delta": 1e-6, "random_state": 0}
        release = PAPQueryRelease(queries, **settings).fit(numbers(20_000), X_public=numbers(m))
        bound = release.sample_guarantee(10**12)  # without sampling error
        assert release.guarantee_ <= bound < release.guarantee_ + 1e-3
        ends = np.sort(rng.random((500, width, 2)), axis=2)
        inside = np.diff(ends, axis=2)[:, :, 0] / 2 + ((ends - 0.25).prod(axis=2) <= 0) / 2
        if isinstance(queries, RectangleQueries):
            Q, expected = ends, inside.prod(axis=1)
        elif isinstance(queries, IntervalQueries):
            Q, expected = ends[:, 0], inside[:, 0]
        else:
            at = ends[:, :, 1]
            below = (at + (at >= 0.25)) / 2
            column = np.arange(500) % width
            value = at[range(500), column]
            Q = at if width == 1 else list(zip(column.tolist(), value, strict=True))
            expected = below[range(500), column]
        fitted_release = release._released
        encoded = fitted_release.queries.encode(Q, release._schema)
        answers = fitted_release.rows.answer(fitted_release.queries, encoded)
        errors = np.abs(answers - expected)
        assert errors.max() <= bound
        assert errors.max() > bound / 20

    def test_none_where_nothing_is_proved(self, release):
        assert release.sample_guarantee(1000) is None
        rows = np.random.default_rng(0).normal(size=(3000, 2))
        half = fitted(HalfspaceQueries(), rows, rows[:50].copy(), method="pmw", bounds=(-9, 9))
        assert half.guarantee_ is not None
        assert half.sample_guarantee(1000) is None  # rows and members may differ
        with pytest.raises(ValueError, match="beta must"):
            release.sample_guarantee(10, beta=1.5)
