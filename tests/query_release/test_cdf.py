"""One column: exact sensitivity, a table of cells, and answers that see noisy integers only."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from skpublicdp import PrivacyBudget
from skpublicdp.accounting import (
    Gaussian,
    Measurement,
    Pure,
    gaussian_epsilon,
    gaussian_mu_squared,
)
from skpublicdp.query_release import (
    CustomQueries,
    IntervalQueries,
    MarginalQueries,
    PAPQueryRelease,
    RectangleQueries,
    StumpQueries,
    ThresholdQueries,
)
from tests.internals.privacy import Ledger
from tests.internals.query_release import (
    NO_SHIFT,
    DistributionShift,
    SortedColumn,
    StrategyMeasurement,
    build_grid,
    hierarchy_strategy,
    histogram_strategy,
    just_below,
    least_squares,
    linearize,
    measure,
    path_length,
    prefix_strategy,
    public_prior_at_edges,
    release_cdf,
    simultaneous_factor,
)
from tests.kit import Recorder

BUDGET = Fraction(1, 50)
GAUSSIAN = 1.0, 1e-6
PURE = 1.0, 0


def normal_rows(n_private=3000, n_public=60, shift=0.0, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=n_private), generator.normal(shift, 1, n_public)


def hours(n, seed):
    generator = np.random.default_rng(seed)
    often = generator.random(n) < 0.5
    return np.where(often, 40, generator.integers(1, 99, n)).astype(float)


NORMAL, NORMAL_PUBLIC = normal_rows()
RELEASES = {
    # name: private rows, public rows, bounds
    "normal": (NORMAL, NORMAL_PUBLIC, (-6, 6)),
    "loose": (NORMAL, NORMAL_PUBLIC, (-600, 600)),
    "drift": (NORMAL, NORMAL_PUBLIC + 1, (-6, 6)),
    "no public rows": (NORMAL, [], (-6, 6)),
    "one public row": (NORMAL, [0.5], (-6, 6)),
    "few rows": ([1.0, 2.0], [1.0, 2.0, 2.5], (0, 3)),
    "one row": ([2.0], [1.0, 2.0], (0, 3)),
    "constant": (np.full(500, 3.0), np.full(20, 3.0), (0, 10)),
    "constant, one public row": (np.full(500, 3.0), [3.0], (0, 10)),
    "at a bound": (np.zeros(500), np.zeros(5), (0, 1)),
    "hours": (hours(3000, 0), hours(60, 1), (0, 100)),
    "hours, loose": (hours(3000, 0), hours(60, 1), (-5000, 5000)),
    "tenths": (hours(3000, 0) / 10, hours(60, 1) / 10, (0, 10)),
    "outside": (np.full(300, 99.0), np.full(9, -99.0), (0, 1)),
    "half outside": (10 * NORMAL, NORMAL_PUBLIC, (-3, 3)),
    "heavy tails": (np.sinh(3 * NORMAL), np.sinh(3 * NORMAL_PUBLIC), (-1e6, 1e6)),
    "huge": (1e290 * NORMAL, 1e290 * NORMAL_PUBLIC, (-1e300, 1e300)),
    "tiny": (1e-300 * NORMAL, 1e-300 * NORMAL_PUBLIC, (-1e-299, 1e-299)),
}


def release(name, budget=GAUSSIAN, seed=0, **options):
    x, x_public, bounds = RELEASES[name]
    return release_cdf(x, x_public, bounds=bounds, ledger=Ledger(*budget, seed), **options)


# sensitivity


@pytest.mark.parametrize("n_cells", [2, 3, 5, 8, 9, 17, 64, 65, 100])
@pytest.mark.parametrize(
    "build",
    [
        lambda n_cells: prefix_strategy(n_cells, BUDGET),
        lambda n_cells: prefix_strategy(n_cells, Fraction(1, 2**50)),
        histogram_strategy,
        hierarchy_strategy,
    ],
)
def test_sensitivity_is_that_of_the_farthest_pair_of_cells(n_cells, build):
    strategy = build(n_cells)
    assert strategy.matrix.dtype == np.int64
    moves = [a - b for a, b in itertools.combinations(strategy.matrix.T, 2)]
    assert strategy.sensitivity.absolute == max(int(np.abs(move).sum()) for move in moves)
    assert strategy.sensitivity.squared == max(int(np.square(move).sum()) for move in moves)


@pytest.mark.parametrize("x_public", [[], [1.0], [0.0, 1.0, 3.0], [0.25, 0.25, 2.5]])
def test_replacing_any_row_moves_the_measurements_by_at_most_the_sensitivity(x_public):
    line = build_grid(np.array(x_public), 0.0, 3.0, 2)
    strategy = prefix_strategy(len(line.edges) + 1, BUDGET)
    domain = [-7.0, 0.0, 0.25, 1.0, 1.7, 2.5, 3.0, np.nextafter(3.0, 0), 50.0]
    exact = {
        rows: strategy.matrix @ line.tabulate(SortedColumn(np.array(rows), line.low, line.high))
        for rows in itertools.product(domain, repeat=2)
    }
    moved = [
        int(np.square(exact[kept, old] - exact[kept, new]).sum())
        for kept, old, new in itertools.product(domain, repeat=3)
    ]
    assert max(moved) <= strategy.sensitivity.squared


def test_the_coefficients_are_a_square_root_of_prefix_sums():
    root = prefix_strategy(200, BUDGET).matrix[:, :-1] / 2**12
    prefix = np.tril(np.ones((199, 199)))
    assert np.abs(root @ root - prefix).max() < 0.01


@pytest.mark.parametrize("name", RELEASES)
def test_what_is_spent_is_what_was_asked_for(name):
    with Recorder() as recorder:
        release(name)
        release(name, PURE)
    gaussian = [call for call in recorder.calls if call.gaussian]
    pure = [call for call in recorder.calls if not call.gaussian]
    cost = sum(call.cost for call in gaussian)
    assert 0.999 < gaussian_epsilon(cost, GAUSSIAN[1]) <= 1
    # the spread is rounded up to 24 binary digits
    least = 1 - Fraction(1, 2**23)
    assert least * gaussian_mu_squared(*GAUSSIAN) < cost <= gaussian_mu_squared(*GAUSSIAN)
    assert least < sum(call.cost for call in pure) <= 1


# the table


@given(st.data())
@settings(max_examples=30)
def test_the_table_adds_up_and_looks_at_each_row_alone(data):
    numbers = st.floats(-20, 20)
    x_public = np.array(data.draw(st.lists(numbers, max_size=20)))
    line = build_grid(x_public, -10.0, 10.0, data.draw(st.integers(2, 40)))
    one = np.array(data.draw(st.lists(numbers, max_size=20)))
    two = np.array(data.draw(st.lists(numbers, max_size=20)))
    table = line.tabulate(SortedColumn(np.concatenate([two, one]), line.low, line.high))
    assert np.array_equal(
        table,
        line.tabulate(SortedColumn(one, line.low, line.high))
        + line.tabulate(SortedColumn(two, line.low, line.high)),
    )
    alone = sum(
        (line.tabulate(SortedColumn(x, line.low, line.high)) for x in one[:, None]),
        np.zeros_like(table),
    )
    assert np.array_equal(line.tabulate(SortedColumn(one, line.low, line.high)), alone)
    assert table.sum() == len(one) + len(two)


@given(st.lists(st.floats(-1e6, 1e6), max_size=40), st.integers(2, 100))
@settings(max_examples=50)
def test_cells_end_at_the_numbers_at_or_below_their_edge(x_public, resolution):
    x_public = np.array(x_public)
    line = build_grid(x_public, -1e5, 1e6, resolution)
    assert np.all(np.diff(line.edges) > 0)
    assert line.edges[0] == line.low
    assert line.edges[-1] < line.high
    at_or_below = (np.clip(x_public, line.low, line.high)[:, None] <= line.edges).sum(axis=0)
    assert np.array_equal(
        np.cumsum(line.tabulate(SortedColumn(x_public, line.low, line.high)))[:-1], at_or_below
    )
    for curve in (line.public_cdf, line.tail_cdf):
        assert np.all(np.diff(curve.knots) > 0)
        assert np.all(np.diff(curve.heights) >= 0)
        assert (curve.heights[0], curve.heights[-1]) == (0, 1)


def test_the_guess_is_close_to_the_public_rows():
    x_public = np.repeat(NORMAL_PUBLIC, np.arange(len(NORMAL_PUBLIC)) % 3 + 1)
    line = build_grid(x_public, -6.0, 6.0, 100)
    ecdf = np.searchsorted(np.sort(x_public), NORMAL_PUBLIC, side="right") / len(x_public)
    assert np.abs(line.public_cdf(NORMAL_PUBLIC) - ecdf).max() < 2 / len(x_public)


@pytest.mark.parametrize("x_public", [[20.0, 25.0, 31.0], [20.0, 20.0, 25.0, 31.0, 31.0]])
def test_near_whole_public_rows_whole_numbers_are_expected(x_public):
    whole = np.arange(20.0, 32.0)
    line = build_grid(np.array(x_public), 0.0, 120.0, 20)
    aside = build_grid(np.array(x_public) + 0.5, 0.0, 120.0, 20)
    for curve, smooth in ((line.public_cdf, aside.public_cdf), (line.tail_cdf, aside.tail_cdf)):
        below = curve(np.nextafter(whole, 0))
        assert np.all(curve(whole) > below)
        # between them there is what is spread over the bounds
        assert np.all(below[1:] - curve(whole[:-1]) <= 0.25 / 120)
        assert np.all(np.diff(smooth(np.linspace(21, 24, 30))) > 0)
        assert smooth(27.0) == pytest.approx(smooth(np.nextafter(27.0, 0)))


def test_values_seen_twice_are_points_however_little_the_noise_has_room_for():
    x_public = np.concatenate([np.repeat([0.25, 1.75], 2), np.linspace(0.3, 2.9, 200)])
    base = build_grid(x_public, 0.0, 3.0, 4).public_cdf
    for value in (0.25, 1.75):
        assert base(value) - base(np.nextafter(value, 0)) == pytest.approx(2 / 205)


@pytest.mark.parametrize("n_public", [50, 3000])
def test_cells_end_where_public_rows_are_rare(n_public):
    x_public = np.sinh(4 * ndtri((np.arange(n_public) + 0.5) / n_public))
    line = build_grid(x_public, -1e6, 1e6, 16)
    heights = line.public_cdf(line.edges)
    for level in (heights, 1 - heights[::-1]):
        rare = level[(level > 1 / n_public) & (level < 1 / 16)]
        # from a public row on, the next cell ends before the mass below is four times as much
        assert rare.min() < 4 / n_public
        assert np.all(rare[1:] <= 4 * rare[:-1])
        assert rare.max() > 1 / 64


# private rows are seen through the noisy integers only


def test_what_is_measured_is_the_product():
    strategy, counts = prefix_strategy(20, BUDGET), np.arange(20)
    with Recorder() as recorder:
        found = measure(strategy, counts, Gaussian(BUDGET), Ledger(1, 1e-6, 3))
    (call,) = recorder.calls
    assert np.array_equal(call.exact_input, strategy.matrix @ counts)
    assert call.sensitivity == strategy.sensitivity
    assert np.array_equal(found.values, call.outcome)
    assert found.values.dtype == np.int64
    assert found.variance == pytest.approx(float(found.scale) + 1 / 12)


# answers


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE])
@pytest.mark.parametrize("name", RELEASES)
def test_answers_are_those_of_one_distribution(name, budget):
    found = release(name, budget)
    low, high = RELEASES[name][2]
    x = np.unique(np.concatenate([found.curve.knots, found.edges, found.atoms, [low, high]]))
    heights = found.cdf(x)
    assert np.all(np.diff(heights) >= 0)
    assert found.cdf(high) == 1
    assert found.cdf([np.nextafter(low, -np.inf), -np.inf, np.inf]).tolist() == [0, 0, 1]
    assert found.weights.min() >= 0
    assert np.allclose(np.cumsum(found.weights)[:-1], found.cdf(found.edges), atol=1e-12)

    p = np.linspace(0, 1, 501)
    quantiles = found.quantile(p)
    assert np.all(np.diff(quantiles) >= 0)
    assert low <= quantiles[0] <= quantiles[-1] <= high
    assert np.all(found.cdf(quantiles) >= p - 1e-9)
    inner = p > 0
    assert np.all(found.cdf(np.nextafter(quantiles, -np.inf))[inner] <= p[inner] + 1e-9)

    assert found.fraction(just_below(low), high) == 1
    assert found.fraction(just_below(high), low) == 0
    middle = found.quantile(0.5)
    parts = found.fraction(just_below(low), middle) + found.fraction(middle, high)
    assert parts == pytest.approx(1)
    bars = found.half_width(x)
    assert np.all((bars >= 0) & (bars <= 1))
    assert found.half_width(0.5 * low + 0.5 * high).shape == ()
    assert found.effective_public_size > 0


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE])
@pytest.mark.parametrize("name", RELEASES)
def test_mean_is_the_integral_of_the_distribution(name, budget):
    found = release(name, budget)
    knots = [Fraction(x) for x in found.curve.knots.tolist()]
    heights = [Fraction(p) for p in found.curve.heights.tolist()]
    pieces = zip(itertools.pairwise(knots), itertools.pairwise(heights), strict=True)
    mean = sum((q - p) * (a + b) / 2 for (a, b), (p, q) in pieces)
    width = found.curve.knots[-1] - found.curve.knots[0]
    assert found.mean() == pytest.approx(float(mean), rel=1e-12, abs=1e-12 * width)
    quantiles = found.quantile((np.arange(10_000) + 0.5) / 10_000)
    assert abs(found.mean() - quantiles.mean()) <= width / 20_000


def test_atoms_have_mass_of_their_own():
    x, _, _ = RELEASES["hours"]
    found = release("hours")
    assert 40 in found.atoms
    assert found.fraction(just_below(40), 40) == pytest.approx((x == 40).mean(), abs=0.05)
    assert found.fraction(just_below(40.2), 40.8) < 0.01
    assert found.quantile(0.5) == 40
    mixed = np.where(np.arange(3000) % 2, 0.0, np.abs(NORMAL))
    found = release_cdf(mixed, mixed[::30], bounds=(0, 9), ledger=Ledger(*GAUSSIAN, 0))
    assert found.cdf(0) == pytest.approx(0.5, abs=0.05)


def test_rows_without_drift_are_trusted_and_others_are_not():
    x, x_public = normal_rows(6000, 500)
    alike, apart = (
        release_cdf(x, rows, bounds=(-9, 9), ledger=Ledger(*GAUSSIAN, 0))
        for rows in (x_public, x_public + 1)
    )
    assert alike.drift is NO_SHIFT
    assert alike.effective_public_size > 100
    assert apart.effective_public_size < 20


def test_a_fixed_trust_is_a_number_of_rows():
    whole, half, none = (release("normal", trust=trust) for trust in (1, 0.5, 0))
    sizes = [found.effective_public_size for found in (whole, half, none)]
    assert sizes[0] == pytest.approx(61, rel=0.2)
    assert sizes[1] == pytest.approx(31, rel=0.2)
    assert sizes[2] < 2


@pytest.mark.one_in(2)
@pytest.mark.parametrize("budget", [GAUSSIAN, PURE])
@pytest.mark.parametrize("shift", [0.0, 0.2, 0.8])
def test_error_bars_hold_the_population(shift, budget):
    levels = np.linspace(0.05, 0.95, 19)
    at = np.quantile(np.random.default_rng(9).normal(size=200_000), levels)
    covered = []
    for seed in range(12):
        x, x_public = normal_rows(2000, 200, shift, seed)
        found = release_cdf(x, x_public, bounds=(-9, 9), ledger=Ledger(*budget, seed))
        covered.append(np.abs(found.cdf(at) - levels) <= found.half_width(at))
    assert np.mean(covered) >= 0.88  # .92 over many seeds: answers of one release err together


@pytest.mark.parametrize("shift", [0.0, 0.8])
def test_quantile_intervals_and_bands_hold_the_population(shift):
    levels = np.linspace(0.05, 0.95, 19)
    grid = np.linspace(-4, 4, 801)
    covered, bands, ratios = [], [], []
    for seed in range(25):
        x, x_public = normal_rows(4000, 100, shift, seed)
        found = release_cdf(x, x_public, bounds=(-9, 9), ledger=Ledger(*GAUSSIAN, seed))
        interval = found.quantile_interval(levels)
        assert interval.shape == (19, 2)
        at = ndtri(levels)
        covered.append((interval[:, 0] <= at) & (at <= interval[:, 1]))
        band = found.half_width(grid, n_intervals=np.inf)
        bands.append(np.all(np.abs(found.cdf(grid) - ndtr(grid)) <= band))
        ratios.append(np.median(band / found.half_width(grid)))
    assert np.mean(covered) >= 0.93  # .98 over many seeds
    assert np.mean(bands) >= 0.92
    assert max(ratios) < 2.1


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE])
@pytest.mark.parametrize("name", RELEASES)
def test_quantile_intervals_invert_the_intervals_of_fractions(name, budget):
    found = release(name, budget)
    p = np.linspace(0, 1, 101)
    low, high = np.moveaxis(found.quantile_interval(p), -1, 0)
    quantiles = found.quantile(p)
    assert np.all((low <= quantiles) & (quantiles <= high))
    assert np.all(np.diff(low) >= 0)
    assert np.all(np.diff(high) >= 0)
    # outside, the interval of the fraction leaves p out
    x = found.edges
    above, below = (found.cdf(x) + sign * found.half_width(x) for sign in (-1, 1))
    for level, least, most in zip(p, low, high, strict=True):
        assert np.all(above[x < most] <= level + 1e-9)
        assert np.all(below[x < least] <= level + 1e-9)
    assert found.quantile_interval(0.5).shape == (2,)
    assert found.quantile_interval([[0.1, 0.5]]).shape == (1, 2, 2)
    assert np.all(found.half_width(x, n_intervals=np.inf) >= found.half_width(x))


def test_a_band_is_as_wide_as_paths_on_a_sphere_say():
    # one point, two independent points (a bound), and a path that goes nowhere
    assert simultaneous_factor(path_length(np.ones((5, 5))), 0.95) == pytest.approx(
        1.959964, abs=1e-5
    )
    generator = np.random.default_rng(0)
    for rho in (0.0, 0.5, 0.95):
        places = np.arange(31)
        deviations = simultaneous_factor(path_length(rho ** np.abs(places[:, None] - places)), 0.95)
        steps = generator.normal(size=(20_000, 31))
        path = steps.copy()
        for i in range(1, 31):
            path[:, i] = rho * path[:, i - 1] + np.sqrt(1 - rho**2) * steps[:, i]
        held = (np.abs(path).max(axis=1) <= deviations).mean()
        assert 0.95 <= held <= 0.99


# the fit


def test_without_noise_the_private_prefix_sums_are_returned():
    line = build_grid(NORMAL_PUBLIC, -6.0, 6.0, 50)
    counts = line.tabulate(SortedColumn(NORMAL, line.low, line.high))
    for strategy in (
        prefix_strategy(len(counts), BUDGET),
        histogram_strategy(len(counts)),
        hierarchy_strategy(len(counts)),
    ):
        measurement = Measurement(strategy.matrix @ counts, Fraction(1), 1.0)
        found = least_squares([StrategyMeasurement(strategy, measurement)], len(NORMAL)).prefix_sums
        assert np.allclose(found, np.cumsum(counts)[:-1] / len(NORMAL), atol=1e-9)


def test_looks_at_fine_and_coarse_cells_are_one_least_squares_problem():
    generator = np.random.default_rng(0)
    cells = np.array([0, 0, 1, 2, 2, 2, 3])
    fine, coarse = hierarchy_strategy(7), prefix_strategy(4, BUDGET)
    looks, rows, targets = [], [], []
    for strategy, at, variance in ((fine, None, 2.0), (coarse, cells, 0.5)):
        values = generator.integers(0, 50, len(strategy.matrix))
        looks.append(StrategyMeasurement(strategy, Measurement(values, Fraction(1), variance), at))
        matrix = strategy.matrix if at is None else strategy.matrix[:, at]
        rows.append(matrix / np.sqrt(variance))
        targets.append(values / np.sqrt(variance))
    # counts of all cells but the last, which is what is left of 40 rows
    rows, targets = np.concatenate(rows), np.concatenate(targets)
    design, target = rows[:, :-1] - rows[:, -1:], targets - 40 * rows[:, -1]
    counts = np.linalg.lstsq(design, target)[0]
    covariance = np.tril(np.ones((6, 6))) @ np.linalg.inv(design.T @ design)
    covariance = covariance @ np.tril(np.ones((6, 6))).T
    evidence = least_squares(looks, 40)
    assert np.allclose(evidence.prefix_sums, np.cumsum(counts) / 40)
    assert np.allclose(evidence.covariance, covariance / 40**2)


def test_two_looks_at_the_same_cells_are_worth_one_of_both_budgets():
    strategy = prefix_strategy(9, BUDGET)
    parts = [
        StrategyMeasurement(strategy, Measurement(strategy.matrix[:, 0], Fraction(1), v))
        for v in (4.0, 4 / 3)
    ]
    whole = StrategyMeasurement(strategy, Measurement(strategy.matrix[:, 0], Fraction(1), 1.0))
    assert np.allclose(least_squares(parts, 5).covariance, least_squares([whole], 5).covariance)


def test_the_linear_model_has_the_slopes_of_the_tilt():
    line = build_grid(NORMAL_PUBLIC, -6.0, 6.0, 30)
    guess = public_prior_at_edges(line, NORMAL_PUBLIC)
    waves = np.linspace(0.2, -0.1, 9)
    model = linearize(guess, waves, 100)
    for i in range(len(waves)):
        step = np.zeros_like(waves)
        step[i] = 1e-5
        up, down = (linearize(guess, waves + sign * step, 100) for sign in (1, -1))
        values = [
            found.mean + found.jacobian @ (waves + sign * step)
            for found, sign in ((up, 1), (down, -1))
        ]
        assert np.allclose((values[0] - values[1]) / 2e-5, model.jacobian[:, i], atol=1e-6)
    for covariance in (
        model.public_covariance,
        model.rough_covariance,
        model.sampling_covariance,
        model.prior_covariance(NO_SHIFT),
    ):
        assert np.linalg.eigvalsh(covariance).min() > -1e-12
    assert np.trace(model.prior_covariance(DistributionShift(waves, 0.1, 0.5))) > np.trace(
        model.prior_covariance(NO_SHIFT)
    )


# what is refused


@pytest.mark.parametrize("persons", [1, 2])
@pytest.mark.parametrize(
    ("settings", "least"),
    [
        # two rows of a person move all of it twice as far
        ((1, 0), Pure(Fraction(1, 2**28))),
        ((1, 1e-6), Gaussian(Fraction(1, 2**58))),
    ],
)
def test_noise_that_cannot_be_drawn_is_refused_before_it_is_charged(settings, least, persons):
    budget = PrivacyBudget(1, 1e-3, for_tests=True)
    x = np.arange(9.0)

    def released(factor):
        event = type(least)(*(value * factor for value in vars(least).values()))
        ledger = Ledger(*settings, 0, budget, event=event, rows_per_person=persons)
        return release_cdf(x, x, bounds=(0, 9), ledger=ledger)

    scale = persons if settings[1] == 0 else persons**2
    with pytest.raises(ValueError, match="drawn"):
        released(scale * Fraction(99, 100))
    assert budget.ledger == []
    released(Fraction(scale))
    assert len(budget.ledger) == 1


@pytest.mark.parametrize(
    "queries",
    [
        *(ThresholdQueries(), IntervalQueries(), RectangleQueries(), StumpQueries()),
        *(MarginalQueries(), CustomQueries(lambda X: X > 2)),
    ],
)
def test_an_epsilon_too_small_to_be_drawn_charges_nothing(queries):
    budget = PrivacyBudget(1, 1e-3, for_tests=True)
    n_columns = 1 if isinstance(queries, ThresholdQueries | IntervalQueries) else 2
    X = np.arange(20.0).reshape(-1, n_columns)
    release = PAPQueryRelease(queries, epsilon=1e-9, delta=0, bounds=(0, 20), budget=budget)
    with pytest.raises(ValueError, match="drawn"):
        release.fit(X, X_public=X[:3].copy())
    assert budget.ledger == []
