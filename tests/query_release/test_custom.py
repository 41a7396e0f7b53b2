"""Custom queries: posterior by linear algebra, sensitivity, missing public values, coverage."""

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skpublicdp import PAPQueryRelease, PrivacyBudget
from skpublicdp.accounting import Gaussian, Pure
from skpublicdp.audit import verify_privacy
from skpublicdp.exceptions import NoPublicDataWarning
from skpublicdp.query_release import CustomQueries, StumpQueries
from tests.internals.privacy import Ledger
from tests.internals.query_release import UNITS, _posterior, release_linear_queries

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_posterior_is_the_normal_posterior(n):
    root = RNG.normal(size=(n, n))
    covariance, noise = root @ root.T + 0.01 * np.eye(n), RNG.uniform(0.02, 1, n)
    mean, values = RNG.normal(size=(2, n))
    found, variance, scale = _posterior(
        values,
        noise_variance=noise,
        prior_mean=mean,
        prior_covariance=covariance,
        base_scale=1.0,
        effective_size=4.0,
    )
    assert scale == 0.25
    prior = 0.25 * covariance
    gain = prior @ np.linalg.inv(prior + np.diag(noise))
    expected = mean + gain @ (values - mean)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(variance, np.diag(prior - gain @ prior), rtol=1e-9, atol=1e-12)


def test_the_posterior_converges_to_values_without_noise():
    """The noise variance is 20 orders of magnitude below the prior variances."""
    root = RNG.normal(size=(30, 30))
    values = RNG.random(30)
    mean, variance, _ = _posterior(
        values,
        noise_variance=np.full(30, 1e-20),
        prior_mean=np.full(30, 0.5),
        prior_covariance=root @ root.T / 30,
        base_scale=1e-3,
    )
    np.testing.assert_allclose(mean, values, atol=1e-9)
    assert (variance <= 1e-20).all()


def test_a_shift_is_estimated():
    values = 0.5 + RNG.normal(0, np.sqrt(0.25e-3), 40)
    scales = [
        _posterior(
            values + shift,
            noise_variance=np.full(40, 1e-6),
            prior_mean=np.full(40, 0.5),
            prior_covariance=0.25 * np.eye(40),
            base_scale=1e-3,
        )[2]
        for shift in (0, 0.2)
    ]
    assert scales[0] == 1e-3
    assert scales[1] > 0.02


@pytest.mark.parametrize("n_queries", [1, 3])
def test_a_replaced_row_moves_each_count_by_at_most_one(n_queries):
    """The noise has the scale that this sensitivity requires."""
    answers = list(itertools.product([0, 1], repeat=n_queries))
    moves = np.array([np.subtract(a, b) for a in answers for b in answers])
    assert np.abs(moves).sum(axis=1).max() == n_queries
    assert np.square(moves).sum(axis=1).max() == n_queries
    ledgers = {"gaussian": Ledger(1, Fraction(1, 10**6), 0), "pure": Ledger(1, 0, 0)}
    spreads = {}
    for kind, ledger in ledgers.items():
        drawn = []
        ledger._sample_noise = lambda event, spread, table, drawn=drawn: (
            drawn.append((event, spread)) or np.zeros_like(table)
        )
        counts = np.arange(n_queries) + 40
        release_linear_queries(counts, 100, np.zeros((0, n_queries), dtype=int), ledger=ledger)
        ((event, spreads[kind]),) = drawn
        assert event == ledger.event
        if isinstance(event, Gaussian):
            assert spreads[kind] >= Fraction(n_queries) / event.mu_squared
            assert spreads[kind] <= Fraction(n_queries) / event.mu_squared * Fraction(10001, 10000)
        else:
            assert isinstance(event, Pure)
            assert spreads[kind] == n_queries


def test_public_correlations_improve_noisy_answers():
    """Queries that hold for the same rows share their information."""
    ties = RNG.random(4000) < 0.3
    public = np.column_stack([ties] * 30).astype(int)
    private = RNG.random(50_000) < 0.4
    counts = np.full(30, private.sum())
    release = release_linear_queries(
        counts, len(private), public, ledger=Ledger(Fraction(1, 100), Fraction(1, 10**9), 0)
    )
    found = np.array([release.fractions[j,][1] for j in range(30)])
    alone = release_linear_queries(
        counts, len(private), public[:0], ledger=Ledger(Fraction(1, 100), Fraction(1, 10**9), 0)
    )
    apart = np.array([alone.fractions[j,][1] for j in range(30)])
    assert np.abs(found - private.mean()).max() < 0.3 * np.abs(apart - private.mean()).max()


@pytest.mark.parametrize("delta", [None, 0])
def test_columns_share_the_budget(delta):
    X = np.column_stack([RNG.normal(size=2000), RNG.integers(3, size=2000)])
    release = PAPQueryRelease(StumpQueries(), delta=delta, random_state=0).fit(
        X[200:], X_public=X[:200]
    )
    mechanisms = release.privacy_.mechanisms
    assert len(mechanisms) == 2
    if delta == 0:
        assert sum(Fraction(each.epsilon) for each in mechanisms) <= 1
    answers = release.answer([[0, 0.0], [1, 1.0]])
    lines = release._released.answers.cdfs
    np.testing.assert_array_equal(answers, [lines[0].cdf(0.0), lines[1].cdf(1.0)])
    low, high = release.interval([[0, 0.0], [1, 1.0]]).T
    assert (low < answers).all()
    assert (answers < high).all()


def test_position_beyond_the_list():
    X = RNG.normal(size=(500, 2))
    queries = CustomQueries(lambda X: X > 0)
    release = PAPQueryRelease(queries, random_state=0).fit(X[100:], X_public=X[:100])
    with pytest.raises(ValueError, match="positions"):
        release.answer([[2]])


LABELS = ["maybe", "no", "yes"]


def people(n, seed=0):
    generator = np.random.default_rng(seed)
    age = generator.integers(18, 90, n)
    label = np.where(age + generator.normal(0, 10, n) > 75, "yes", "no")
    label = pd.Categorical(label, categories=LABELS)
    return pd.DataFrame({"age": age, "label": label, "sick": generator.random(n) < 0.1})


def evaluate_queries(rows):
    old, label = np.asarray(rows["age"]) > 50, np.asarray(rows["label"])
    sick = np.asarray(rows["sick"]).astype(bool)
    return np.column_stack(
        [old, label == "yes", old & (label == "yes"), old & ~sick, sick & (label == "no")]
    )


def fitted(X, X_public, function=evaluate_queries, **settings):
    settings = {"epsilon": 0.05, "delta": 1e-6, "random_state": 0, **settings}
    return PAPQueryRelease(CustomQueries(function), **settings).fit(X, X_public=X_public)


FRAMES = {
    "pandas": lambda it, type_: pd.DataFrame({"it": pd.array(it, dtype=type_)}),
    "polars": lambda it, type_: pl.from_arrow(FRAMES["pyarrow"](it, type_)),
    "pyarrow": lambda it, type_: pa.table({"it": pa.array(it, TYPES[type_])}),
}
TYPES = {"boolean": pa.bool_(), "str": pa.string(), "int64": pa.int64(), "float64": pa.float64()}
OF_ONE_TYPE = {
    "boolean": [True, False, None],
    "str": ["a", "b", "new", None],
    "int64": [1, 2, 3, 4],
    "float64": [0.5, 1.0, 7.0, 2.0],
}


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("type_", OF_ONE_TYPE)
def test_column_types_do_not_depend_on_rows(library, type_):
    """Otherwise one missing value would turn the other values of a column into text."""
    first, second, *_, last = values = OF_ONE_TYPE[type_]
    seen = set()

    def function(rows):
        column = rows["it"]
        seen.add(str(column.type if library == "pyarrow" else column.dtype))
        return np.array([value == first for value in column.to_numpy().tolist()])

    for private in ([first] * 50, [*[first] * 49, last], [last] * 50, values):
        tables = [FRAMES[library](it, type_) for it in (private, [first, second] * 20)]
        fitted(*tables, function, epsilon=1e4)
    assert len(seen) == 1


@pytest.mark.parametrize("library", FRAMES)
def test_missing_boolean_changes_an_answer_by_one_row(library):
    """In a column of text, every value that is not empty would be true."""
    public, *private = (
        FRAMES[library](it, "boolean")
        for it in ([True, False] * 50, [False] * 1000, [False] * 999 + [None])
    )

    def sick(rows):
        return np.asarray(rows["it"]).astype(bool)

    answers = [fitted(X, public, sick, epsilon=1e4).answer([0]) for X in private]
    np.testing.assert_allclose(answers[0], answers[1], atol=1.5e-3)


@pytest.mark.parametrize("drift", [0, 20])
def test_error_falls_with_the_noise(drift):
    """The error is below that of noisy counts alone, up to five standard errors of 20 errors."""
    n, errors, noise = 20_000, [], []
    X = people(n)
    public = people(300, 1)
    public["age"] += drift
    truth = evaluate_queries(X).mean(axis=0)
    budgets = 10.0 ** np.array([1, 2, 3, 4, 6, 8])
    for budget in budgets:
        found = [fitted(X, public, epsilon=budget / n, random_state=seed) for seed in range(5)]
        errors.append(np.mean([abs(each.answer(np.arange(5)) - truth) for each in found], axis=0))
        noise.append(np.sqrt(found[0]._released.answers.release.measured[0,].variance))
    open_ = np.mean(errors, axis=1, where=[False, True, True, True, True])
    assert (open_ < (np.sqrt(2 / np.pi) + 5 * 0.6 / np.sqrt(20)) * np.array(noise) + 1e-12).all()
    assert open_[0] < 0.3
    assert (np.diff(open_) < 0.1 * open_[:-1]).all()
    assert errors[-1].max() < 1e-6


def test_intervals_cover():
    """The queries of a seed are dependent: 60 trials, 5 standard deviations."""
    held = []
    for seed in range(60):
        X, public = people(2000, 2 * seed), people(100, 2 * seed + 1)
        low, high = fitted(X, public, random_state=seed).interval(np.arange(5)).T
        held.append((low <= POPULATION) & (high >= POPULATION))
    assert np.mean(held) > 0.95 - 5 * np.sqrt(0.95 * 0.05 / 60)


POPULATION = evaluate_queries(people(1_000_000, 999)).mean(axis=0)


def test_columns_without_public_values_are_refused():
    """Nothing is charged, whether the column is absent or all its public values are missing."""
    X, public, budget = people(50), people(9, 1), PrivacyBudget(1, 1e-3)
    unlabelled = public.assign(label=pd.Categorical([None] * 9, categories=LABELS))
    mask = np.arange(59) < 9
    marked = pd.concat([unlabelled, X], ignore_index=True)
    for rows, how, message in (
        (X, {"X_public": public.drop(columns="label")}, "label is missing.* leave it out of X"),
        (X, {"X_public": unlabelled}, "column label is missing in all public rows. Leave"),
        (marked, {"is_public": mask}, "column label is missing in all public rows. Leave"),
    ):
        release = PAPQueryRelease(CustomQueries(evaluate_queries), epsilon=1, budget=budget)
        with pytest.raises(ValueError, match=message):
            release.fit(rows, **how)
    assert budget.ledger == []
    unlabelled.loc[0, "label"] = "no"
    fitted(X, unlabelled)
    with pytest.warns(NoPublicDataWarning):
        fitted(X, None, bounds={"age": (18, 90)})


def test_empty_list_of_queries_is_not_charged():
    budget = PrivacyBudget(1, 1e-3)
    none = CustomQueries(lambda X: np.empty((len(X), 0), dtype=bool))
    X = np.arange(20.0)[:, None]
    with pytest.raises(ValueError, match="at least one column"):
        PAPQueryRelease(none, epsilon=1, budget=budget).fit(X, X_public=X[:3].copy())
    assert budget.ledger == []


def test_privacy_on_tiny_data():
    """Over all outcomes of tiny data sets."""

    def yes(rows):
        return np.column_stack([rows["x"] > 0.5, (rows["x"] > 0.5) & (rows["label"] == "yes")])

    domain = pd.DataFrame(
        {
            "x": [0.0, 1.0, 1.0],
            "label": pd.Categorical(["no", "no", "yes"], categories=["no", "yes"]),
        }
    )
    found = verify_privacy(
        lambda: PAPQueryRelease(CustomQueries(yes), epsilon=1, delta=0),
        domain,
        2,
        fit_params={"X_public": domain.copy()},
        look=lambda release: (release.answer([0, 1]), release.interval([0, 1])),
    )
    assert found.holds
    assert 0.9 < found.attained <= 1


def test_an_error_of_the_function_on_public_rows_is_shown():
    def function(X):
        raise KeyError("no column salery")

    rows = np.arange(20.0).reshape(10, 2)
    with pytest.raises(ValueError, match="raised KeyError: 'no column salery'"):
        PAPQueryRelease(CustomQueries(function)).fit(rows, X_public=rows[:5] + 0.5)


class TestNumbers:
    BOUNDS = ((0.0, 200.0), (-5.0, 5.0))

    @staticmethod
    def rows(n, seed):
        rng = np.random.default_rng(seed)
        return np.column_stack([rng.gamma(2, 10, size=n), rng.normal(size=n)])

    def fitted(self, seed=0, function=lambda X: X, n=5000, **settings):
        queries = CustomQueries(function, bounds=settings.pop("bounds", self.BOUNDS))
        release = PAPQueryRelease(queries, random_state=seed, **settings)
        return release.fit(self.rows(n, seed), X_public=self.rows(200, 1000 + seed))

    def test_answers_are_means_and_intervals_cover(self):
        hits = np.zeros(2)
        for seed in range(20):
            release = self.fitted(seed)
            low, high = release.interval([[0], [1]]).T
            hits += (low <= [20, 0]) & (high >= [20, 0])
            answers = release.answer([[0], [1]])
            np.testing.assert_allclose(answers, [20, 0], atol=3)
            assert ((low <= answers) & (answers <= high)).all()
            joint = release.interval([[0], [1]], simultaneous=True)
            assert ((joint[:, 0] <= low) & (high <= joint[:, 1])).all()
        assert (hits >= 12).all()  # of 20; false alarm 2e-7 with coverage .95

    def test_numbers_beyond_the_bounds_are_moved_to_them(self):
        release = self.fitted(function=lambda X: 1e9 * X, epsilon=1000)
        rows = 1e9 * self.rows(5000, 0)
        expected = [np.clip(rows[:, k], *self.BOUNDS[k]).mean() for k in (0, 1)]
        np.testing.assert_allclose(release.answer([[0], [1]]), expected, atol=0.05)

    def test_missing_numbers_count_as_the_lower_bound(self):
        release = self.fitted(function=lambda X: np.where(X > 0, 5.0, np.nan), epsilon=1000)
        share = (self.rows(5000, 0)[:, 1] > 0).mean()
        assert release.answer([[1]]) == pytest.approx(-5 + 10 * share, abs=0.05)

    def test_a_replaced_row_moves_each_sum_by_at_most_the_units(self):
        queries = CustomQueries(lambda X: X, bounds=self.BOUNDS)
        schema = self.fitted()._schema
        bound_queries = queries.bind(schema, self.rows(5, 0))
        rows = np.array([[-9.0, -9.0], [0.0, 0.0], [np.nan, np.inf], [1e9, 5.0]])
        units = bound_queries.units([[0], [1]], rows)
        np.testing.assert_array_equal(units[0], [0, 0, 0, 2 * UNITS])
        np.testing.assert_array_equal(units[1], [0, UNITS, 2 * UNITS, 2 * UNITS])

    def test_score_is_on_the_scale_of_the_numbers(self):
        rows = self.rows(5000, 0)
        release = self.fitted()
        errors = np.abs(release.answer([[0], [1]]) - rows.mean(axis=0))
        assert release.score(rows) == pytest.approx(-errors.mean(), abs=1e-3)

    @pytest.mark.parametrize("bounds", [(1, 0), (0, np.inf), [(0, 1)] * 3, 5.0])
    def test_invalid_bounds(self, bounds):
        with pytest.raises(ValueError, match="The bounds of CustomQueries must be"):
            self.fitted(bounds=bounds)

    @pytest.mark.parametrize("method", ["pmw", "public"])
    def test_other_methods(self, method):
        with pytest.raises(ValueError, match="requires method='auto'"):
            self.fitted(method=method)

    def test_what_numbers_do_not_have(self):
        release = self.fitted()
        assert release.expected_error_ is None
        with pytest.raises(ValueError, match="no synthetic rows"):
            release.sample(3)
        with pytest.raises(ValueError, match="neither true nor false"):
            release.holds([[0]], self.rows(3, 0))
        with pytest.raises(ValueError, match="must return numbers"):
            self.fitted(function=lambda X: X.astype(str))
