"""Regressions and correlations: sensitivity, agreement with numpy, coverage, containers."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom

from skpublicdp import PrivacyBudget
from skpublicdp.audit import verify_privacy
from skpublicdp.query_release import RegressionRelease
from tests.internals.data import Table

pytestmark = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.LargeEpsilonWarning")

BOUNDS = {"income": (0, 100), "age": (18, 78)}


def table(n, seed=0):
    """Return incomes that depend on age, on sex, and on a job that is unequally frequent."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 76, n)
    sex = rng.choice(["f", "m"], n)
    job = rng.choice(["clerk", "nurse", "smith"], n, p=[0.6, 0.3, 0.1])
    income = 20 + 0.5 * age + 5 * (sex == "m") - 8 * (job == "nurse") + rng.normal(0, 8, n)
    return pd.DataFrame({"income": income.clip(0, 100), "age": age, "sex": sex, "job": job})


def fitted(X, public=None, **settings):
    """Fit a release with a seed, so little noise that results have four digits, and bounds."""
    settings = {"epsilon": 1e6, "bounds": BOUNDS, "random_state": 0, **settings}
    public = table(300, 1) if public is None else public
    return RegressionRelease(**settings).fit(X, X_public=public)


def coordinates_of(X, bounds=BOUNDS):
    """Return the coordinates of a release of some rows."""
    return fitted(X[:50].copy(), X, epsilon=1.0, bounds=bounds)._moments.coordinates


def ols(outcome, *columns):
    """Return numpy's coefficients, with the intercept first."""
    design = np.column_stack([np.ones(len(outcome)), *columns])
    return np.linalg.lstsq(design, outcome, rcond=None)[0]


class TestPrivacy:
    @pytest.mark.parametrize("names", [["age"], ["sex"], ["age", "income"], ["age", "sex", "job"]])
    def test_sensitivity_by_brute_force(self, names):
        """The rows are all corners of the bounds, their middles, and all categories."""
        X = table(300)[names]
        layout = coordinates_of(X, {k: v for k, v in BOUNDS.items() if k in names})
        values = [
            [*layout.bounds[p], sum(layout.bounds[p]) / 2]
            if p in layout.bounds
            else range(layout.schema.columns[p].n_categories)
            for p in range(len(names))
        ]
        rows = np.array(list(itertools.product(*values)), dtype=float)
        sums = np.array([layout.sums(row[None]) for row in rows]).astype(object)
        changes = np.array([a - b for a in sums for b in sums])
        absolute, squared = np.abs(changes).sum(axis=1).max(), (changes**2).sum(axis=1).max()
        sensitivity = layout.sensitivity
        assert absolute <= sensitivity.absolute
        assert squared <= sensitivity.squared <= 1.5 * squared

    def test_sums_are_exact_and_add_up(self):
        layout = coordinates_of(table(300))
        rows = layout.schema.encode(Table(table(70_000, 2)))
        integers = layout.integers(rows)
        upper = np.triu_indices(layout.n_coordinates)
        expected = (integers.T @ integers)[upper][1:]
        assert np.array_equal(layout.sums(rows), expected)
        assert np.array_equal(layout.sums(rows[:9]) + layout.sums(rows[9:]), expected)

    @pytest.mark.parametrize("delta", [0, 1e-6])
    def test_only_the_ledger_sees_private_rows(self, delta):
        result = verify_privacy(
            lambda: RegressionRelease(epsilon=6, delta=delta, bounds=(0, 3)),
            [[0.0, 0.0], [1.0, 1.0], [3.0, 0.0]],
            3,
            fit_params={"X_public": np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 1.0], [2.0, 1.0]])},
            look=lambda release: (release.correlation(), release.regression(0), release.variance()),
            max_fits=20,
        )
        assert result.holds, result

    def test_noise_that_cannot_be_drawn_costs_nothing(self):
        budget = PrivacyBudget(1, 1e-5, for_tests=True)
        with pytest.raises(ValueError, match="Release fewer columns"):
            fitted(table(200), epsilon=1e-7, budget=budget)
        assert budget.spent().epsilon == 0

    def test_the_grid_is_the_finest_with_drawable_noise(self):
        units = [fitted(table(99), epsilon=e)._moments.coordinates.units for e in (1e-3, 1, 1e6)]
        assert units[0] < units[1] < units[2]


class TestAgreesWithNumpy:
    X = table(20_000)

    def test_numbers_and_categories(self):
        X = self.X
        result = fitted(X).regression("income", on=["age", "sex", "job"])
        sex = result["name"][2]  # both categories are equally frequent
        indicators = [X["sex"] == sex[-1], X["job"] == "nurse", X["job"] == "smith"]
        assert result["name"].tolist() == ["(intercept)", "age", sex, "job=nurse", "job=smith"]
        expected = ols(X["income"], X["age"], *indicators)
        np.testing.assert_allclose(result["coefficient"], expected, rtol=0.01, atol=0.02)
        assert (result["low"] < expected).all()
        assert (expected < result["high"]).all()

    def test_half_widths_are_those_of_ordinary_least_squares(self):
        """With hardly any noise, intervals are 1.96 standard errors."""
        X = self.X
        result = fitted(X).regression("income", on="age")
        design = np.column_stack([np.ones(len(X)), X["age"]])
        residuals = X["income"] - design @ ols(X["income"], X["age"])
        errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * residuals.var())
        widths = (result["high"] - result["low"]) / (2 * 1.96 * errors)
        assert widths.between(0.93, 1.2).all()

    def test_unequal_residual_variances_lengthen_intervals(self):
        """The variance is larger where age is far from its mean."""
        X, public = table(20_000), table(2000, 1)
        for rows in (X, public):
            scale = np.abs(rows["age"] - 48) / 14
            rows["income"] = 50 + scale * np.random.default_rng(len(rows)).normal(0, 8, len(rows))
        equal = fitted(X, public=public.assign(income=public["income"].sample(frac=1).to_numpy()))
        widths = [
            r.regression("income", "age").eval("high - low")[1] for r in (fitted(X, public), equal)
        ]
        assert widths[0] > 1.2 * widths[1]

    def test_the_share_of_a_category_and_all_other_columns(self):
        X = self.X
        result = fitted(X).regression("job=nurse")
        assert result["name"].str.startswith("sex=").sum() == 1
        sex = result["name"].iloc[-1][-1]
        expected = ols(X["job"] == "nurse", X["income"], X["age"], X["sex"] == sex)
        np.testing.assert_allclose(result["coefficient"], expected, rtol=0.02, atol=1e-3)

    def test_variances(self):
        result = fitted(self.X).variance()
        assert result["name"].tolist() == ["income", "age"]
        expected = self.X[["income", "age"]].var(ddof=0)
        np.testing.assert_allclose(result["variance"], expected, rtol=1e-3)
        assert (result["low"] < result["variance"]).all()
        assert (result["variance"] < result["high"]).all()

    def test_variances_of_small_budgets_are_covered(self):
        """The population is the table, and its rows are drawn with replacement."""
        population = table(20_000, 3)
        truth = population[["income", "age"]].var(ddof=0).to_numpy()
        held = np.zeros(2)
        for seed in range(60):
            rows = population.sample(2000, replace=True, random_state=seed)
            rows = rows.reset_index(drop=True)
            result = fitted(rows, epsilon=1.0, random_state=seed).variance()
            held += (result["low"] <= truth) & (truth <= result["high"])
        assert (held >= binom.ppf(1e-6, 60, 0.95)).all()

    def test_correlations(self):
        result = fitted(self.X).correlation()
        expected = self.X[["income", "age"]].corr().iloc[0, 1]
        assert result[["first", "second"]].to_numpy().tolist() == [["income", "age"]]
        assert abs(result["correlation"][0] - expected) < 1e-3
        assert result["low"][0] < expected < result["high"][0]

    def test_large_whole_numbers(self):
        """The offset of the column enters the intercept only."""
        shift = 2**60
        X, public = self.X.assign(age=self.X["age"] + shift), table(300, 1)
        public["age"] += shift
        result = fitted(X, public, bounds={"income": (0, 100)}).regression("income", "age")
        ages = public["age"] - shift
        clipped = self.X["age"].clip(*np.quantile(ages, [0.005, 0.995]))
        expected = ols(self.X["income"], clipped)[1]
        assert abs(result["coefficient"][1] - expected) < 0.01

    def test_numbers_are_clipped(self):
        X = self.X.assign(age=self.X["age"] * 2)
        release = fitted(X)
        assert release.bounds_ == {"income": (0.0, 100.0), "age": (18.0, 78.0)}
        expected = ols(X["income"], X["age"].clip(18, 78))
        found = release.regression("income", on="age")["coefficient"]
        np.testing.assert_allclose(found, expected, rtol=0.01)

    def test_default_bounds_are_public_quantiles(self):
        release, public = fitted(self.X, bounds=None), table(300, 1)
        low, high = release.bounds_["income"]
        assert ((public["income"] < low).sum(), (public["income"] > high).sum()) == (2, 2)
        assert fitted(self.X, public[:100], bounds=None).bounds_["income"][0] < 0


class TestIntervals:
    def test_coverage(self):
        """Over samples and noise that have about equal shares in the variance."""
        n_fits, truth = 60, np.array([0.5, 5.0, -8.0])
        n_covered = np.zeros(5)
        population = table(200_000, 7)[["income", "age"]].corr().iloc[0, 1]
        for seed in range(n_fits):
            X = table(4000, seed)
            release = fitted(X, epsilon=3.0, random_state=seed)
            result = release.regression("income").set_index("name")
            signs = np.array([1, 1 if "sex=m" in result.index else -1, 1])
            names = ["age", "sex=m" if signs[1] > 0 else "sex=f", "job=nurse"]
            ends = result.loc[names, ["low", "high"]].to_numpy()
            n_covered[:3] += (ends[:, 0] <= signs * truth) & (signs * truth <= ends[:, 1])
            assert np.isfinite(ends).all()
            pair = release.correlation()
            n_covered[3] += (pair["low"][0] <= population) & (population <= pair["high"][0])
        assert n_covered[:4].min() >= binom.ppf(1e-6 / 4, n_fits, 0.95)
        assert n_covered[:3].max() < n_fits  # they are not too long

    def test_noise_that_exceeds_the_data(self):
        release = fitted(table(250), epsilon=0.01)
        result = release.regression("income", on="age")
        assert np.isnan(result["coefficient"][1])
        assert np.isinf(result[["low", "high"]].iloc[1]).all()
        assert release.correlation().iloc[0, 2:].tolist()[1:] == [-1, 1]

    def test_a_rare_category_belongs_to_the_reference(self):
        X = table(20_000)
        X.loc[:3, "job"] = "smith"
        X = X[(X["job"] != "smith") | (X.index < 4)]
        result = fitted(X, epsilon=1.0).regression("income", on=["age", "job"])
        assert result["name"].tolist() == ["(intercept)", "age", "job=nurse"]

    def test_levels(self):
        release = fitted(table(5000), epsilon=1.0)
        widths = [
            release.regression("income", "age", level=p).eval("high - low") for p in (0.5, 0.99)
        ]
        assert (widths[0] < 0.4 * widths[1]).all()

    def test_persons_have_longer_intervals(self):
        X = pd.concat([table(3000)] * 2, ignore_index=True)
        persons = np.tile(np.arange(3000), 2)
        settings = {"epsilon": 1e6, "bounds": BOUNDS, "random_state": 0}
        release = RegressionRelease(max_rows_per_group=2, **settings)
        release.fit(X, X_public=table(300, 1), groups=persons)
        alone = fitted(table(3000))
        widths = [r.regression("income", "age").eval("high - low")[1] for r in (release, alone)]
        assert 0.8 < widths[0] / widths[1] < 1.25

    def test_estimates_agree_with_the_facts_about_categories(self):
        release = fitted(table(400), epsilon=0.3)
        moments = release._moments
        layout = moments.coordinates
        block = moments.block(np.arange(layout.n_coordinates))
        assert block[0, 0] == moments.n
        for position in (2, 3):
            group = layout.columns[position]
            np.testing.assert_allclose(np.diag(block)[group], block[0, group])
            products = block[np.ix_(group, group)]
            assert np.count_nonzero(products - np.diag(np.diag(products))) == 0
            sums = block[group].sum(axis=0)
            assert np.abs(sums - block[0]).max() < 0.02 * moments.noise_sd

    def test_moments_without_noise_are_unchanged(self):
        moments = fitted(table(400), epsilon=0.3)._moments
        rows = moments.public[:200]
        exact = replace(moments, matrix=rows.T @ rows, n=200)
        coordinates = np.arange(rows.shape[1])
        np.testing.assert_allclose(exact.block(coordinates), rows.T @ rows, atol=1e-9)


class TestContainersAndErrors:
    def test_arrays_return_dicts(self):
        X = table(3000)[["income", "age"]].to_numpy()
        release = fitted(X[300:], X[:300], bounds=[(0, 100), (18, 78)])
        result = release.regression(0, on=1)
        assert list(result) == ["name", "coefficient", "low", "high"]
        assert result["name"].tolist() == ["(intercept)", "x1"]
        assert list(release.correlation()) == ["first", "second", "correlation", "low", "high"]

    def test_polars(self):
        X = pl.from_pandas(table(3000))
        result = fitted(X[300:], X[:300]).regression("income")
        assert isinstance(result, pl.DataFrame)
        assert result["low"].dtype == pl.Float64

    def test_without_public_rows(self):
        with pytest.warns(UserWarning, match="X_public"):
            release = RegressionRelease(bounds={"a": (0, 1), "b": (0, 1)}, random_state=0).fit(
                pd.DataFrame(np.random.default_rng(0).random((500, 2)), columns=["a", "b"])
            )
        assert len(release.regression("a")) == 2

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"y": "sex"}, "y='sex=f'"),
            ({"y": "age", "on": ["sex", "age"]}, "must not be among"),
            ({"y": "job=nurse", "on": "job"}, "must not be among"),
            ({"y": "nobody"}, "'nobody'"),
            ({"y": "age", "level": 95}, "level must be"),
        ],
    )
    def test_errors(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            fitted(table(400)).regression(**arguments)

    def test_correlations_need_two_numbers(self):
        with pytest.raises(ValueError, match="two numeric columns"):
            fitted(table(400)[["age", "sex"]], table(50)[["age", "sex"]], bounds=None).correlation()

    def test_dates_are_refused_before_anything_is_spent(self):
        X = table(400).assign(day=pd.date_range("2026-01-01", periods=400))
        budget = PrivacyBudget(1, 1e-5, for_tests=True)
        with pytest.raises(ValueError, match="Column day contains dates"):
            fitted(X[50:], X[:50], budget=budget, epsilon=1.0)
        assert budget.spent().epsilon == 0
