"""Expected errors before a fit: formulas, the smallest ε, and what then happens."""

import math

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease
from skpublicdp.query_release import (
    CustomQueries,
    IntervalQueries,
    MarginalQueries,
    StumpQueries,
    ThresholdQueries,
    epsilon_for,
    expected_error,
)
from tests.internals.query_release import (
    _expected_largest,
    _prefix_sum_noise,
    _Samples,
    _table_sizes,
)

SIZES = {"one": 4, "two": 6, "three": None}


def test_expected_largest_is_that_of_normal_variables():
    deviations, counts = np.array([1.0, 3.0, 0.1]), np.array([20.0, 2.0, 50.0])
    normals = np.random.default_rng(0).normal(size=(20_000, 72))
    simulated = np.abs(normals * np.repeat(deviations, counts.astype(int))).max(axis=1)
    assert _expected_largest(deviations, counts) == pytest.approx(simulated.mean(), rel=0.01)
    # of one normal variable: √(2/π)
    assert _expected_largest(np.ones(1), np.ones(1)) == pytest.approx(math.sqrt(2 / math.pi))


@pytest.mark.parametrize(("n", "m", "noise"), [(50, 20, 0.05), (200, 0, 0.1), (30, 300, 0.3)])
def test_error_is_that_of_the_weighted_mean(n, m, noise):
    """Simulated: the private fraction with noise, the public one and a prior, by precision."""
    p, prior_deviation, size = 0.3, 0.2, 400_000
    generator = np.random.default_rng(1)
    # the population's fraction deviates from the prior mean, 0 here
    deviation = generator.normal(0, prior_deviation, size)
    row_variance = p * (1 - p)
    private = deviation + generator.normal(0, math.sqrt(row_variance / n), size)
    noisy = private + generator.normal(0, noise, size)
    public_precision = m / row_variance
    public = generator.normal(0, math.sqrt(row_variance / max(m, 1)), size) + deviation
    prior = public * public_precision / (public_precision + prior_deviation**-2)
    # the variance of the private fraction around the public one, and around the prior mean
    precision = prior_deviation**-2
    if m:
        precision += 1 / (row_variance * (1 / n + 1 / m))
    weight = 1 / (1 + noise**2 * precision)
    simulated = np.mean((weight * noisy + (1 - weight) * prior - deviation) ** 2)
    formula = _Samples(n, m).error(
        np.array([row_variance]), np.array([noise**2]), np.array([prior_deviation**-2])
    )
    assert formula.item() == pytest.approx(simulated, rel=0.01)


def test_noise_of_prefix_sums_is_that_of_the_square_root():
    """The strategy is the square root of prefix sums, so its noise has the norms of its rows."""
    n_cells = 40
    variances, _, _ = _prefix_sum_noise(n_cells, True)
    squares = np.cumprod(np.r_[1.0, 1 - 0.5 / np.arange(1, n_cells - 1)]) ** 2
    scale = variances[0]  # coefficients are multiplied by a power of two
    np.testing.assert_allclose(variances / scale, np.cumsum(squares), rtol=1e-2)


def test_workload_has_the_cells_of_its_tables():
    assert _table_sizes(MarginalQueries(), SIZES).tolist() == [24, 64, 96]
    assert _table_sizes(MarginalQueries(k=1, bins=5), [4, 6, None]).tolist() == [4, 6, 5]
    queries = MarginalQueries(workload=[("two",), ("one", "three")])
    assert _table_sizes(queries, SIZES).tolist() == [6, 64]


@pytest.mark.parametrize("kind", ["rms", "largest"])
@pytest.mark.parametrize("delta", [None, 0])
@pytest.mark.parametrize(
    ("error", "settings"),
    [
        (0.03, {}),
        (0.03, {"queries": IntervalQueries(), "n_public": 400}),
        (0.02, {"sizes": SIZES}),
        (0.02, {"sizes": SIZES, "n_public": 300, "queries": MarginalQueries(k=1)}),
        (0.03, {"queries": 12, "n_public": 50}),
    ],
)
def test_epsilon_is_the_smallest(kind, delta, error, settings):
    settings = {"n": 5_000, "delta": delta, "kind": kind, **settings}
    epsilon = epsilon_for(error, **settings)
    assert expected_error(epsilon, **settings) <= error
    assert epsilon == 0.001 or expected_error(epsilon - 0.001, **settings) > error
    assert epsilon_for(error, **{**settings, "n": 50_000}) <= epsilon
    if delta is None:
        assert epsilon_for(error, **{**settings, "delta": 1e-3}) <= epsilon


def test_public_rows_and_fewer_queries_need_less():
    base = epsilon_for(0.004, n=10_000, sizes=SIZES)
    assert epsilon_for(0.004, n=10_000, sizes=SIZES, n_public=500) < base
    assert epsilon_for(0.02, n=5_000, queries=5) < epsilon_for(0.02, n=5_000, queries=50)
    assert epsilon_for(0.02, n=5_000) < epsilon_for(0.02, n=5_000, kind="largest")
    # public rows alone have this error
    assert epsilon_for(0.03, n=5_000, sizes=SIZES, n_public=10_000) == 0.001


def test_no_noise_leaves_the_sampling_error():
    n = 2_000
    assert expected_error(100, n=n, queries=7) == pytest.approx(0.5 / math.sqrt(n), rel=0.01)
    # the integral of F (1 - F) is 1/6; the mean of Kolmogorov's distribution is √(π/2) ln 2
    assert expected_error(100, n=n) == pytest.approx(math.sqrt(1 / 6 / n), rel=0.05)
    largest = math.sqrt(math.pi / 2 / n) * math.log(2)
    assert expected_error(100, n=n, kind="largest") == pytest.approx(largest, rel=0.05)


def _population(generator):
    """Return 60,000 rows of two related columns and a number."""
    one = generator.choice(4, p=[0.4, 0.3, 0.2, 0.1], size=60_000)
    two = np.where(generator.random(60_000) < 0.3, one, generator.integers(6, size=60_000))
    three = generator.normal(40 + 3 * one, 10, size=60_000).clip(0, 100)
    return pd.DataFrame({"one": one.astype(str), "two": two.astype(str), "three": three})


POPULATION = _population(np.random.default_rng(3))


def _released_errors(epsilon, n, m, columns, queries, true_and_released):
    """Return (rms, largest) error of a release, averaged over six samples and fits."""
    squares, largest = [], []
    bounds = {"three": (0, 100)} if "three" in columns else None
    for seed in range(6):
        rows = POPULATION[columns].sample(n + m, random_state=seed)
        release = PAPQueryRelease(queries, epsilon=epsilon, random_state=seed, bounds=bounds)
        release.fit(rows[m:], X_public=rows[:m] if m else None)
        true, released = true_and_released(release)
        squares.append(np.mean((released - true) ** 2))
        largest.append(np.abs(released - true).max())
    return math.sqrt(np.mean(squares)), np.mean(largest)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("epsilon", [0.2, 2.0])
@pytest.mark.parametrize("m", [50, 1_000])
@pytest.mark.parametrize("what", ["cdf", "tables", "list"])
def test_errors_of_releases(what, m, epsilon):
    """What happens is .4 to 1.3 times what was expected."""
    n, planned = 5_000, {"n": 5_000, "n_public": m}
    if what == "cdf":
        columns, queries = ["three"], None
        x = np.quantile(POPULATION["three"], np.linspace(0.01, 0.99, 99))
        true = np.linspace(0.01, 0.99, 99)

        def true_and_released(release):
            return true, release.cdf(x)
    elif what == "tables":
        columns, queries = ["one", "two"], None
        planned["sizes"] = {"one": 4, "two": 6}
        cells = POPULATION.groupby(["one", "two"]).size() / len(POPULATION)

        def true_and_released(release):
            return cells.to_numpy(), release.answer(cells.reset_index()[["one", "two"]])
    else:
        columns, planned["queries"] = ["three"], 9
        queries = CustomQueries(lambda rows: rows[["three"]].to_numpy() > np.arange(28, 64, 4))

        def true_and_released(release):
            true = (POPULATION[["three"]].to_numpy() > np.arange(28, 64, 4)).mean(axis=0)
            return true, release.answer(np.arange(9)[:, None])

    rms, largest = _released_errors(epsilon, n, m, columns, queries, true_and_released)
    assert 0.4 < rms / expected_error(epsilon, **planned) < 1.3
    assert 0.3 < largest / expected_error(epsilon, kind="largest", **planned) < 1.3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: epsilon_for(0.0001, n=100), "sampling error"),
        (lambda: epsilon_for(0.1, n=100, n_public=-1), "n_public must"),
        (lambda: epsilon_for(0.1, n=100, kind="mean"), "kind must"),
        (lambda: epsilon_for(0.1, n=100, queries=MarginalQueries()), "sizes must contain"),
        (lambda: epsilon_for(0.1, n=100, queries=StumpQueries()), "queries must"),
        (lambda: epsilon_for(0.1, n=100, queries=0), "queries must"),
        (lambda: epsilon_for(-1, n=100), "error must be positive"),
        (lambda: expected_error(0, n=100), "epsilon must"),
        (lambda: expected_error(1, n=0, queries=ThresholdQueries()), "n must"),
        (lambda: expected_error(1, n=9, sizes={"a": 0}), "sizes of a must"),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_persons_have_more_noise_and_a_smaller_sample():
    tables = {"n": 6_000, "sizes": SIZES, "delta": 1e-6}
    assert expected_error(1.0, **tables, max_rows_per_group=1) == expected_error(1.0, **tables)
    # without noise, k rows of a person are one row
    alone = expected_error(1e4, **tables, max_rows_per_group=3)
    assert alone == pytest.approx(expected_error(1e4, **{**tables, "n": 2_000}), rel=0.02)
    # with much noise, three times as much of it: the error of a third of the rows
    for queries in (None, 12):
        settings = {"n": 6_000, "queries": queries, "delta": 1e-6}
        few = expected_error(0.05, **{**settings, "n": 2_000})
        assert expected_error(0.05, **settings, max_rows_per_group=3) == pytest.approx(few, rel=0.2)
    assert epsilon_for(0.004, **tables, max_rows_per_group=3) > 2 * epsilon_for(0.004, **tables)


def test_weights_make_noise_larger_and_the_sample_smaller():
    tables = {"n": 6_000, "sizes": SIZES, "delta": 1e-6}
    even = expected_error(0.3, **tables, mean_weight=1.0)
    # a sixteenth of the budget is for the sum of the weights
    assert expected_error(0.3, **tables) < even < 1.05 * expected_error(0.3, **tables)
    half = expected_error(0.3, **tables, mean_weight=0.5, design_effect=1.0)
    worst = expected_error(0.3, **tables, mean_weight=0.5)
    assert even < half < worst
    assert worst == expected_error(0.3, **tables, mean_weight=0.5, design_effect=2.0)
    assert epsilon_for(0.004, **tables, mean_weight=0.5) > epsilon_for(0.004, **tables)


@pytest.mark.parametrize("settings", [{"max_rows_per_group": 3}, {"weights": "weight"}])
def test_errors_of_persons_and_weights_are_those_of_releases(settings):
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        n = 6_000

        def draw(rng, n):
            rows = {
                name: rng.integers(size or 16, size=n).astype(str) for name, size in SIZES.items()
            }
            return pd.DataFrame(rows).assign(weight=rng.uniform(0.2, 1.0, size=n))

        rows, public = draw(rng, n), draw(rng, 400)
        if "weights" in settings:
            plan = {"mean_weight": 0.6, "design_effect": 1 + (0.64 / 12) / 0.36}
            groups, bounds = None, {"weight": (0, 1)}
        else:
            rows, public = rows.drop(columns="weight"), public.drop(columns="weight")
            plan, bounds = settings, None
            groups = np.arange(n) // 3
        release = PAPQueryRelease(
            MarginalQueries(k=2),
            epsilon=0.5,
            delta=1e-6,
            bounds=bounds,
            random_state=seed,
            **settings,
        )
        release = release.fit(rows, X_public=public, groups=groups)
        sizes = {"one": 4 + 2, "two": 6 + 2, "three": 16 + 2}  # other and missing
        planned = expected_error(0.5, n=n, sizes=sizes, n_public=400, delta=1e-6, **plan)
        ratios.append(release.expected_error_ / planned)
    assert 0.5 < np.mean(ratios) < 1.4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_rows_per_group": 0}, "max_rows_per_group must"),
        ({"max_rows_per_group": 1.5}, "max_rows_per_group must"),
        ({"mean_weight": 0}, "mean_weight must"),
        ({"mean_weight": 3.0}, "mean_weight must"),
        ({"mean_weight": 0.5, "design_effect": 0.9}, "design_effect must"),
        ({"mean_weight": 0.5, "design_effect": 3.0}, "design_effect must"),
        ({"design_effect": 1.5}, "design_effect req"),
        ({"mean_weight": 0.5, "queries": 12}, "mean_weight requires"),
        ({"mean_weight": 0.5, "queries": ThresholdQueries()}, "mean_weight requires"),
    ],
)
def test_invalid_persons_and_weights(settings, message):
    for ask in (expected_error, epsilon_for):
        with pytest.raises(ValueError, match=message):
            ask(0.5, **{"n": 2_000, "sizes": SIZES, **settings})
