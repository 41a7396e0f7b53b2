"""Released tables: formats of queries about cells, intervals, tables, and scikit-learn."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.model_selection import GridSearchCV

from skpublicdp import PAPQueryRelease
from skpublicdp.exceptions import UnmeasuredWarning
from skpublicdp.query_release import MarginalQueries
from tests.helpers import FALSE_ALARM

N, M = 5000, 200


def people(n, seed):
    generator = np.random.default_rng(seed)
    age = generator.choice([20, 30, 40, 50], size=n, p=[0.4, 0.3, 0.2, 0.1])
    retired = generator.random(n) < age / 100
    job = np.where(retired, "retired", generator.choice(["farm", "shop"], size=n))
    return pd.DataFrame({"age": age, "job": job, "sex": generator.choice(["f", "m"], size=n)})


AGE_NAMES = {20: "<= 25", 30: "26 to 35", 40: "36 to 45", 50: ">= 46"}
"""Names of the bins of the ages in tables."""


def with_names(rows):
    return rows.assign(age=rows["age"].map(AGE_NAMES))


PEOPLE, PUBLIC = people(N, 0), people(M, 1)


def fitted(queries=None, rows=PEOPLE, public=PUBLIC, **settings):
    release = PAPQueryRelease(queries, random_state=0, **{"epsilon": 5.0, **settings})
    return release.fit(rows, X_public=public)


@pytest.fixture(scope="module")
def release():
    return fitted()


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
class TestQueryFormats:
    def test_formats_are_equivalent(self, release):
        expected = release.answer([{"age": 30, "job": "shop"}, {"job": "farm", "sex": "f"}])
        truth = [
            ((PEOPLE["age"] == 30) & (PEOPLE["job"] == "shop")).mean(),
            ((PEOPLE["job"] == "farm") & (PEOPLE["sex"] == "f")).mean(),
        ]
        np.testing.assert_allclose(expected, truth, atol=0.02)
        for Q in (
            [[30, "shop", None], [None, "farm", "f"]],
            np.array([[30, "shop", None], [None, "farm", "f"]], dtype=object),
            pd.DataFrame({"age": [30, None], "job": ["shop", "farm"], "sex": [None, "f"]}),
            pd.DataFrame({"sex": [None, "f"], "job": ["shop", "farm"], "age": [30, np.nan]}),
            [{0: 30, 1: "shop"}, {"job": "farm", 2: "f"}],
        ):
            np.testing.assert_array_equal(release.answer(Q), expected)

    def test_omitted_columns(self, release):
        one = release.answer({"job": "farm"})
        assert one.shape == (1,)
        np.testing.assert_array_equal(release.answer(pd.DataFrame({"job": ["farm"]})), one)
        assert one[0] == pytest.approx((PEOPLE["job"] == "farm").mean(), abs=0.02)
        assert release.answer([{}, {"sex": "f"}])[0] == 1

    def test_one_dimensional_queries_of_one_column(self):
        one = fitted(None, PEOPLE[["job"]], PUBLIC[["job"]])
        flat = one.answer(["farm", "shop"])
        np.testing.assert_array_equal(one.answer([["farm"], ["shop"]]), flat)
        np.testing.assert_array_equal(one.answer([{"job": "farm"}, {"job": "shop"}]), flat)

    def test_numbers_match_by_bin(self, release):
        same = release.answer([{"age": 30}, {"age": 31}, {"age": 40}])
        assert same[0] == same[1] != same[2]

    @pytest.mark.parametrize(
        ("Q", "message"),
        [
            ({"pay": 3}, "'pay'"),
            (pd.DataFrame({"pay": [3]}), "'pay'"),
            ({3: "f"}, "position below 3"),
            ({"job": "fram"}, r"'fram'.*'farm'.*\(other\)"),
            ([["30", "shop"]], "of the 3 columns"),
            (["farm"], "3 columns|2D array"),
            (np.full((1, 3), np.nan), "use None"),
        ],
    )
    def test_invalid_queries(self, release, Q, message):
        for ask in (release.answer, release.interval):
            with pytest.raises(ValueError, match=message):
                ask(Q)

    def test_unreleased_table(self, release):
        Q = {"age": "<= 25", "job": "farm", "sex": "f"}
        with pytest.warns(UnmeasuredWarning, match="workload") as caught:
            answer = release.answer(Q)
        assert caught[0].filename == __file__
        truth = ((PEOPLE["age"] == 20) & (PEOPLE["job"] == "farm") & (PEOPLE["sex"] == "f")).mean()
        np.testing.assert_allclose(answer, truth, atol=0.05)
        with pytest.raises(ValueError, match="age and job and sex"):
            release.interval(Q)
        with (
            warnings.catch_warnings(action="ignore"),
            pytest.raises(ValueError, match="age and job and sex"),
        ):
            release.table(["age", "job", "sex"])
        wide = fitted(MarginalQueries(k=3))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            low, high = wide.interval(Q)[0]
            assert low <= wide.answer(Q)[0] <= high


class TestIntervals:
    def test_width_grows_with_level_and_number_of_simultaneous_queries(self, release):
        Q = [{"job": "farm"}, {"age": 20, "sex": "f"}, {"job": "shop", "sex": "m"}]
        answers = release.answer(Q)

        def half(*arguments, **settings):
            low, high = release.interval(Q, *arguments, **settings).T
            assert ((low >= 0) & (low < answers) & (answers < high) & (high <= 1)).all()
            return (high - low) / 2

        normal = norm.isf(0.25) / norm.isf(0.025)
        np.testing.assert_allclose(
            half(0.5) / half(), normal, rtol=0.05
        )  # the intervals are close to normal at this ε
        together, pointwise = release.interval(Q, simultaneous=True), release.interval(Q)
        assert (together[:, 0] <= pointwise[:, 0]).all()
        assert (together[:, 1] >= pointwise[:, 1]).all()
        of_six = release.interval([*Q, *Q], simultaneous=True)
        assert (np.diff(of_six[:3]) > np.diff(together)).all()
        for level in (0, 1, "high"):
            with pytest.raises(ValueError, match="level"):
                release.interval(Q, level)

    def test_expected_error(self, release):
        errors = [fitted(epsilon=epsilon).expected_error_ for epsilon in (0.05, 0.5, 5)]
        assert errors == sorted(errors, reverse=True)
        truth, found = [], []
        population = with_names(people(1_000_000, 7))
        for columns in (["age", "job"], ["age", "sex"], ["job", "sex"]):
            table = release.table(columns)
            shares = population.groupby(columns).size() / len(population)
            keys = pd.MultiIndex.from_frame(table[columns])
            truth += shares.reindex(keys, fill_value=0).tolist()
            found += table["fraction"].tolist()
        error = np.sqrt(np.mean(np.square(np.subtract(found, truth))))
        assert error < 3 * release.expected_error_
        assert fitted(method="public").expected_error_ is None


class TestTable:
    def test_frame(self, release):
        table = release.table(["job", "age"])
        assert isinstance(table, pd.DataFrame)
        assert list(table.columns) == ["job", "age", "fraction", "low", "high"]
        assert len(table) == 5 * 4
        assert table["fraction"].sum() == pytest.approx(1)
        assert (table["low"] <= table["fraction"]).all()
        assert (table["fraction"] <= table["high"]).all()
        Q = table[["job", "age"]]
        np.testing.assert_allclose(release.answer(Q), table["fraction"], 0, 1e-12)
        np.testing.assert_array_equal(release.interval(Q), table[["low", "high"]])
        one = release.table("age")
        assert one["age"].tolist() == list(AGE_NAMES.values())
        summed = table.groupby("age")["fraction"].sum()
        np.testing.assert_allclose(summed[one["age"]], one["fraction"], atol=1e-6)

    @pytest.mark.parametrize(
        ("columns", "message"),
        [("pay", "are age, job, sex"), (["age", "age"], "distinct columns"), ([], "more distinct")],
    )
    def test_invalid_columns(self, release, columns, message):
        with pytest.raises(ValueError, match=message):
            release.table(columns)


class TestColumnMethods:
    def test_numeric_column(self, release):
        ages = [19, 20, 35, 50]
        truth = [(PEOPLE["age"] <= age).mean() for age in ages]
        np.testing.assert_allclose(release.cdf(ages, "age"), truth, atol=0.03)
        np.testing.assert_array_equal(release.cdf(ages, 0), release.cdf(ages, column="age"))
        assert release.quantile(0.5, "age") == 30
        assert release.mean("age") == pytest.approx(PEOPLE["age"].mean(), abs=1)
        shares = release.histogram([-np.inf, 25, 45, np.inf], "age")
        np.testing.assert_allclose(shares, [0.4, 0.5, 0.1], atol=0.03)

    def test_columns_without_a_cdf(self, release):
        for curve in (release.cdf, release.quantile):
            with pytest.raises(ValueError, match="single numeric"):
                curve([0.5])
            with pytest.raises(ValueError, match="Column job"):
                curve([0.5], "job")
            with pytest.raises(ValueError, match="are age, job, sex"):
                curve([0.5], "pay")


def test_synthetic_rows_have_the_released_tables(release):
    n = 200_000
    sample = release.sample(n)
    pd.testing.assert_frame_equal(sample, release.sample(n))
    for columns in (["age", "job"], ["age", "sex"], ["job", "sex"]):
        table = release.table(columns)
        keys = pd.MultiIndex.from_frame(table[columns])
        counts = with_names(sample).groupby(columns).size().reindex(keys, fill_value=0).to_numpy()
        p = table["fraction"].to_numpy()
        # the tolerance is for the weighted rows, after the sampling error
        chance = norm.isf(FALSE_ALARM) * np.sqrt(p * (1 - p) / n) + 5 / n
        assert np.maximum(np.abs(counts / n - p) - chance, 0).sum() < 0.02


class TestScikitLearn:
    def test_transform(self, release):
        Q = pd.DataFrame({"age": [20, 30], "job": ["farm", None], "sex": [None, "m"]})
        found = release.transform(Q)
        assert found.shape == (2, 1)
        np.testing.assert_array_equal(found[:, 0], release.answer(Q))
        assert release.get_feature_names_out().tolist() == ["fraction"]
        framed = fitted().set_output(transform="pandas").transform(Q)
        assert isinstance(framed, pd.DataFrame)
        assert list(framed.columns) == ["fraction"]
        np.testing.assert_array_equal(framed["fraction"], found[:, 0])

    def test_grid_search(self):
        """A larger budget has a better score."""
        rows = pd.concat([PEOPLE, PUBLIC], ignore_index=True)
        order = np.random.default_rng(0).permutation(len(rows))  # every fold has public rows
        rows, mask = rows.iloc[order], order >= N
        search = GridSearchCV(
            PAPQueryRelease(random_state=0), {"epsilon": [0.001, 20.0]}, cv=3, error_score="raise"
        ).fit(rows, is_public=mask)
        assert search.best_params_ == {"epsilon": 20.0}
        assert (search.cv_results_["mean_test_score"] < 0).all()

    def test_score_is_minus_the_mean_error_of_all_cells(self):
        release = fitted(MarginalQueries(1))
        held_out = people(1000, 5)
        named = with_names(held_out)
        errors = []
        for column in ("age", "job", "sex"):
            table = release.table(column)
            shares = named[column].value_counts(normalize=True)
            truth = shares.reindex(table[column], fill_value=0)
            errors += np.abs(table["fraction"].to_numpy() - truth.to_numpy()).tolist()
        assert release.score(held_out) == pytest.approx(-np.mean(errors))
