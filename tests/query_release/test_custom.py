"""Custom queries: posterior by linear algebra, sensitivity, missing public columns, coverage."""

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
from skpublicdp.query_release import CustomQueries, MarginalQueries, StumpQueries
from tests.internals.data import read_fit_inputs
from tests.internals.privacy import Ledger
from tests.internals.query_release import (
    LinearPrior,
    _posterior,
    add_missing_columns,
    enumerate_completions,
    release_linear_queries,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_posterior_is_the_normal_posterior(n):
    root = RNG.normal(size=(n, n))
    covariance, noise = root @ root.T + 0.01 * np.eye(n), RNG.uniform(0.02, 1, n)
    mean, values = RNG.normal(size=(2, n))
    extra = RNG.uniform(0, 1, n) * (np.arange(n) != 1)
    posterior = _posterior(
        LinearPrior(mean, covariance, extra), values, noise, 1.0, effective_size=4.0
    )
    assert posterior.scale == 0.25
    prior = 0.25 * covariance + np.diag(extra)
    gain = prior @ np.linalg.inv(prior + np.diag(noise))
    expected = mean + gain @ (values - mean)
    np.testing.assert_allclose(posterior.mean, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        posterior.variance, np.diag(prior - gain @ prior), rtol=1e-9, atol=1e-12
    )


def test_the_posterior_converges_to_values_without_noise():
    """The noise variance is 20 orders of magnitude below the prior variances."""
    root = RNG.normal(size=(30, 30))
    prior = LinearPrior(np.full(30, 0.5), root @ root.T / 30, np.repeat([0.0, 0.08], 15))
    values, noise = RNG.random(30), np.full(30, 1e-20)
    posterior = _posterior(prior, values, noise, 1e-3)
    np.testing.assert_allclose(posterior.mean, values, atol=1e-9)
    assert (posterior.variance <= 1e-20).all()


def test_a_shift_is_estimated():
    prior = LinearPrior(np.full(40, 0.5), 0.25 * np.eye(40), np.zeros(40))
    noise = np.full(40, 1e-6)
    values = prior.mean + RNG.normal(0, np.sqrt(0.25e-3), 40)
    assert _posterior(prior, values, noise, 1e-3).scale == 1e-3
    assert _posterior(prior, values + 0.2, noise, 1e-3).scale > 0.02
    # values that public rows do not show explain the same difference without a shift
    unseen = prior._replace(extra_variance=np.full(40, 1 / 12))
    assert _posterior(unseen, values + 0.2, noise, 1e-3).scale == 1e-3


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
        release_linear_queries(counts, 100, np.zeros((1, 0, n_queries), dtype=int), ledger=ledger)
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
    public = np.column_stack([ties] * 30).astype(int)[None]
    private = RNG.random(50_000) < 0.4
    counts = np.full(30, private.sum())
    release = release_linear_queries(
        counts, len(private), public, ledger=Ledger(Fraction(1, 100), Fraction(1, 10**9), 0)
    )
    found = np.array([release.fractions[j,][1] for j in range(30)])
    alone = release_linear_queries(
        counts, len(private), public[:, :0], ledger=Ledger(Fraction(1, 100), Fraction(1, 10**9), 0)
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


# columns that are missing in public rows

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


def posterior_mean_by_hand(public, noisy, noise, public_size):
    """Return the posterior mean, with prior means and variances computed row by row."""
    n_queries, m = len(noisy), len(public)
    shares, unknown = np.zeros((m, n_queries)), np.zeros((m, n_queries))
    for row, age in enumerate(public):
        completions = itertools.product(LABELS, [False, True])
        answers = [
            evaluate_queries(pd.DataFrame({"age": [age], "label": [label], "sick": [sick]}))[0]
            for label, sick in completions
        ]
        shares[row] = np.mean(answers, axis=0)
        for query, share in enumerate(shares[row]):
            if 0 < share < 1:
                fractions = (np.arange(10_000) + 0.5) / 10_000
                unknown[row, query] = np.sqrt(np.mean((fractions - share) ** 2))
    same = np.isin(shares.mean(axis=0), [0, 1])
    unknown[:, same] = np.sqrt(1 / 3)
    mean = (shares.sum(axis=0) + 0.5) / (m + 1)
    prior = (
        np.cov(shares.T, bias=True) * m / (m + 1) + np.eye(n_queries) / 4 / (m + 1)
    ) / public_size
    prior += np.diag(unknown.mean(axis=0) ** 2)
    return mean + prior @ np.linalg.solve(prior + np.eye(n_queries) * noise, noisy - mean)


@pytest.mark.parametrize("epsilon", [0.05, 1.0])
@pytest.mark.filterwarnings("ignore:Only 1 public row")
@pytest.mark.parametrize("ages", [[20, 60, 61, 80, 30, 33, 70], [60]])
def test_prior_of_missing_columns_is_uniform(epsilon, ages):
    X = people(400)
    release = fitted(X, pd.DataFrame({"age": ages}), epsilon=epsilon, trust=0.5)
    measured = release._released.answers.release.measured
    noisy = np.array([measured[j,].values[1] for j in range(5)])
    noise = measured[0,].variance
    # the release clips its answers
    expected = np.clip(posterior_mean_by_hand(ages, noisy, noise, len(ages) / 2), 0, 1)
    np.testing.assert_allclose(release.answer(np.arange(5)), expected, atol=1e-6)


def test_absent_and_missing_columns_are_equivalent():
    X, public = people(3000), people(200, 1)
    shown = public[["age"]]
    nothing = pd.Categorical([None] * 200, categories=LABELS)
    missing = shown.assign(label=nothing, sick=pd.array([None] * 200, dtype="boolean"))
    both = pd.concat([X.astype({"sick": "boolean"}), missing], ignore_index=True)
    queries, mask = CustomQueries(evaluate_queries), np.arange(len(both)) >= 3000
    answers = [
        fitted(X, shown).answer(np.arange(5)),
        fitted(X, missing).answer(np.arange(5)),
        PAPQueryRelease(queries, epsilon=0.05, delta=1e-6, random_state=0)
        .fit(both, is_public=mask)
        .answer(np.arange(5)),
        fitted(
            pl.from_pandas(X).with_columns(pl.col("label").cast(pl.String).cast(pl.Enum(LABELS))),
            pl.from_pandas(shown),
        ).answer(np.arange(5)),
    ]
    for other in answers[1:]:
        np.testing.assert_array_equal(other, answers[0])


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


def test_missing_columns_do_not_count_as_shift():
    """Labels far from uniform are no evidence of a shift."""
    X, public = people(20_000), people(300, 1)[["age"]]
    X = X.assign(label=pd.Categorical(["yes"] * 20_000, categories=LABELS), sick=True)
    release = fitted(X, public, epsilon=1.0)
    assert release.effective_public_size_ > 250
    truth = (X["age"] > 50).mean()
    assert abs(release.answer([0]) - truth) < abs((public["age"] > 50).mean() - truth) + 0.01
    np.testing.assert_allclose(release.answer([1, 2, 3, 4])[[0, 2, 3]], [1, 0, 0], atol=0.02)


@pytest.mark.parametrize("drift", [0, 20])
def test_error_falls_with_the_noise(drift):
    """The error is below that of noisy counts alone, up to five standard errors of 20 errors."""
    n, errors, noise = 20_000, [], []
    X = people(n)
    public = people(300, 1)[["age"]] + drift
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
        X, public = people(2000, 2 * seed), people(100, 2 * seed + 1)[["age"]]
        low, high = fitted(X, public, random_state=seed).interval(np.arange(5)).T
        held.append((low <= POPULATION) & (high >= POPULATION))
    assert np.mean(held) > 0.95 - 5 * np.sqrt(0.95 * 0.05 / 60)


POPULATION = evaluate_queries(people(1_000_000, 999)).mean(axis=0)


def test_intervals_cover_for_values_without_completion():
    """Queries about one of a thousand numbers, and about one of many pairs of categories."""
    codes = [f"c{k}" for k in range(20)]
    held = []
    for seed in range(40):
        generator = np.random.default_rng(seed)
        X = people(2000, seed)[["age"]].assign(i=np.where(generator.random(2000) < 0.3, 7, 500))
        for name in ("a", "b"):
            X[name] = pd.Categorical(["c3"] * 2000, categories=codes)

        def function(rows):
            pair = (np.asarray(rows["a"]) == "c3") & (np.asarray(rows["b"]) == "c3")
            return np.column_stack([np.asarray(rows["i"]) == 7, pair])

        public = people(1000, 100 + seed)[["age"]]
        release = fitted(
            X, public, function, epsilon=0.02, bounds={"i": (0, 1000)}, random_state=seed
        )
        low, high = release.interval([0, 1]).T
        held.append((low <= [0.3, 1.0]) & (high >= [0.3, 1.0]))
    assert (np.mean(held, axis=0) > 0.95 - 5 * np.sqrt(0.95 * 0.05 / 40)).all()


def test_synthetic_rows_have_the_missing_columns():
    X, public = people(20_000), people(300, 1)[["age"]]
    drawn = fitted(X, public, epsilon=10.0).sample(4000)
    np.testing.assert_allclose(
        evaluate_queries(drawn).mean(axis=0), evaluate_queries(X).mean(axis=0), atol=0.04
    )


def completed_rows(X, X_public, bounds=None):
    release = PAPQueryRelease(bounds=bounds)
    X_public, lacking = add_missing_columns(X, X_public, bounds)
    rows = enumerate_completions(
        read_fit_inputs(release, X, X_public=X_public, clamp=True), lacking
    )
    return rows, rows.n_completions


def test_completions_contain_all_declared_values():
    X = pd.DataFrame(
        {
            "a": [0.5, 1.5],
            "whole": [0, 1],
            "real": [0.1, 0.9],
            "day": pd.to_datetime(["2020-01-02", "2020-01-03"]),
            "label": pd.Categorical([1, 2], categories=[1, 2, 3]),
        }
    )
    bounds = {"whole": (0, 1), "real": (0, 1), "day": ("2020-01-01", "2020-02-01")}
    public = pd.DataFrame({"a": [0.0, 1.0, 2.0]})
    expected = {
        "whole": [0, 1],
        "real": np.linspace(0, 1, 16).tolist(),
        "label": [1, 2, 3],
    }
    for name, values in expected.items():
        known = {name: bounds[name]} if name in bounds else None
        rows, n = completed_rows(X[["a", name]], public, known)
        decoded = rows.schema.decode(rows.X_public)
        assert n == len(values)
        assert rows.n_public == 3
        found = set(zip(decoded["a"], decoded[name], strict=True))
        assert found == set(itertools.product([0.0, 1.0, 2.0], values))
        assert len(decoded) == len(found)
    assert decoded["label"].tolist()[:4] == [1, 1, 1, 2]
    rows, n = completed_rows(X[["a", "day"]], public, {"day": bounds["day"]})
    days = rows.schema.decode(rows.X_public)["day"]
    assert (days.min(), days.max()) == (pd.Timestamp("2020-01-01"), pd.Timestamp("2020-02-01"))
    rows, n = completed_rows(X[["a", "whole", "label"]], public, {"whole": (0, 1)})
    assert n == 6
    rows, n = completed_rows(X, public, bounds)  # 2 * 16 * 16 * 3 are too many
    assert n == 64
    assert len(np.unique(rows.X_public[:, 1:], axis=0)) > 60
    assert [len(np.unique(column)) for column in rows.X_public.T] == [3, 2, 16, 16, 3]


def test_missing_columns_without_declared_values():
    public = pd.DataFrame({"age": [20, 30, 70]})
    X = people(50)
    text = X.astype({"label": object})
    for frame, name in ((text, "label"), (X.assign(pay=1.5), "pay")):
        with pytest.raises(
            ValueError,
            match=f"no column {name}",
        ):
            fitted(frame, public)
    assert fitted(X.assign(pay=1.5), public, bounds={"pay": (0, 9)}).answer([0])[0] > 0
    with pytest.raises(ValueError, match="years is unknown"):
        fitted(X, public.rename(columns={"age": "years"}))
    for queries, method in ((CustomQueries(evaluate_queries), "pmw"), (MarginalQueries(), "auto")):
        with pytest.raises(ValueError, match="sick is missing"):
            PAPQueryRelease(queries, method=method).fit(X, X_public=public)
    with pytest.raises(ValueError, match="sick is missing"):  # which marked rows do show
        PAPQueryRelease(CustomQueries(evaluate_queries)).fit(
            X, X_public=public, is_public=np.arange(50) < 9
        )


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
        fit_params={"X_public": pd.DataFrame({"x": [0.0, 1.0, 1.0]})},
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
