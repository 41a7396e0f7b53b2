"""Refinement of heavy cells of a column: splits, sensitivity, and dependence on released counts."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.internals.privacy import Ledger
from tests.internals.query_release import (
    INTERVAL_SENSITIVITY,
    REFINEMENT_SHARE,
    IntervalMasses,
    SortedColumn,
    build_grid,
    just_below,
    project_to_simplex,
    refine_heavy_cells,
    release_cdf,
    split_at_decimals,
)
from tests.kit import Recorder

BUDGETS = {"gaussian": (1.0, 1e-6), "pure": (1.0, 0)}


def intervals_between(*ends):
    starts, ends = np.array(ends[:-1], dtype=float), np.array(ends[1:], dtype=float)
    return IntervalMasses(starts, ends, np.ones(len(ends)))


def refinement_rounds(recorder):
    return [call for call in recorder.calls if "heavy cells, round " in call.name]


# cutting


@given(st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=6, unique=True))
@settings(max_examples=100)
def test_parts_partition_the_intervals(ends):
    intervals = intervals_between(*sorted(ends))
    intervals = intervals.select(just_below(intervals.ends) > intervals.starts)
    if not len(intervals.ends):
        return
    parts = split_at_decimals(intervals)
    parent = np.searchsorted(intervals.ends, parts.ends)
    first = np.unique(parent, return_index=True)[1]
    assert np.array_equal(parts.starts[first], intervals.starts)
    assert np.array_equal(np.delete(parts.starts, first), parts.ends[:-1][np.diff(parent) == 0])
    assert np.array_equal(parts.ends[np.append(first[1:], len(parent)) - 1], intervals.ends)
    assert np.all(parts.starts < parts.ends)
    assert np.all(np.bincount(parent) > 1)
    assert np.all(np.bincount(parent) <= 66)


@pytest.mark.parametrize(
    ("low", "high", "values"),
    [
        (17.3, 99.2, [20, 50, 90]),
        (-0.7, 1.1, [-0.5, 0.0, 0.3, 1.0]),
        (39, 40, [39.1, 39.5, 40]),
        (1e20, 3e21, [1e20 * k for k in (2, 9, 30)]),
        (19.9, 20.0, [19.95, 19.99]),
    ],
)
def test_short_decimal_numbers_become_parts_of_a_single_float(low, high, values):
    parts = split_at_decimals(intervals_between(low, high))
    alone = parts.ends[just_below(parts.ends) == parts.starts]
    assert set(values) <= set(alone.tolist())


def test_repeated_splits_end_at_a_single_float():
    target, intervals = 100 / 3, intervals_between(-1e6, 1e6)
    for _ in range(40):
        if just_below(intervals.ends[0]) == intervals.starts[0]:
            break
        parts = split_at_decimals(intervals)
        intervals = parts.select((parts.starts < target) & (target <= parts.ends))
    assert (intervals.starts[0], intervals.ends[0]) == (just_below(np.array(target)), target)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.floats(0.01, 9))
@settings(max_examples=100)
def test_projection_to_the_simplex(values, total):
    values = np.array(values)
    nearest = project_to_simplex(values, total)
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(total)
    # what is left of each number is the same where it is positive, and no more elsewhere
    level = (values - nearest)[nearest > 1e-9]
    assert np.ptp(level) < 1e-9
    assert np.all(values[nearest == 0] <= level.max() + 1e-9)


# sensitivity


DOMAIN = (-7.0, 0.0, 0.25, 0.25 + 2**-40, 1.0, 1.7, 3.0, 50.0)


@pytest.mark.parametrize("delta", [1e-6, 0])
def test_a_replaced_row_changes_each_round_by_at_most_the_sensitivity(delta):
    """All neighbours of three rows, with equal outcomes, so that the same cells are split."""
    line = build_grid(np.array([0.0, 1.0, 1.0]), 0.0, 3.0, 4)
    masses = np.zeros(len(line.edges) + 1)
    masses[np.searchsorted(line.edges, [0.25, 1.7])] = 1  # other rows are in no part
    noise = Ledger(10_000, delta).noise

    def answers(rows, outcomes=None):
        with Recorder(outcomes) as recorder:
            refine_heavy_cells(
                line,
                masses,
                SortedColumn(np.array(rows), line.low, line.high),
                noise,
                Ledger(10_000, delta, 0),
                16,
            )
        return recorder

    recorder = answers((0.25, 0.25, 1.7))
    assert len(recorder.calls) > 2
    outcomes, farthest = recorder.outcomes, 0
    exact = {
        rows: [call.exact_input for call in answers(rows, outcomes).calls]
        for rows in itertools.combinations_with_replacement(DOMAIN, 3)
    }
    alone = False
    for kept in itertools.combinations_with_replacement(DOMAIN, 2):
        for old, new in itertools.combinations(DOMAIN, 2):
            one, other = (exact[tuple(sorted((*kept, row)))] for row in (old, new))
            for a, b in zip(one, other, strict=True):
                moved = np.abs(a - b)
                assert moved.sum() <= INTERVAL_SENSITIVITY.absolute
                assert np.square(moved).sum() <= INTERVAL_SENSITIVITY.squared
                farthest = max(farthest, moved.sum())
                alone |= moved.sum() == 1
    assert alone
    assert farthest == INTERVAL_SENSITIVITY.absolute
    assert all(call.sensitivity == INTERVAL_SENSITIVITY for call in recorder.calls)
    total = noise.mu_squared if delta else noise.epsilon
    assert sum(call.cost for call in recorder.calls) <= REFINEMENT_SHARE * total


@pytest.mark.parametrize("n", [1, 40])
def test_counts_of_the_parts(n):
    generator = np.random.default_rng(n)
    x = generator.choice(DOMAIN, n)
    line = build_grid(np.empty(0), 0.0, 3.0, 5)
    with Recorder() as recorder:
        masses = np.ones(len(line.edges) + 1)
        ledger = Ledger(10_000, 1e-6, 0)
        refine_heavy_cells(
            line, masses, SortedColumn(x, line.low, line.high), ledger.noise, ledger, 16
        )
    first = recorder.calls[0].exact_input
    intervals = IntervalMasses(
        np.append(just_below(np.array([0.0])), line.edges), np.append(line.edges, 3.0), masses
    )
    parts = split_at_decimals(intervals.select(just_below(intervals.ends) > intervals.starts))
    inside = np.clip(x, 0, 3)[:, None]
    assert np.array_equal(first, ((parts.starts < inside) & (inside <= parts.ends)).sum(axis=0))


# what follows from released values alone


def heavy(n=20_000, seed=0):
    generator = np.random.default_rng(seed)
    u = generator.random(n)
    return np.where(u < 0.3, 37.25, np.where(u < 0.4, 61.0, generator.normal(50, 20, n)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("n_public", [0, 50])
def test_equal_outcomes_give_equal_rounds_and_equal_releases(budget, n_public):
    x, bounds, budget = heavy(), (-100, 300), (30, budget[1])
    public = np.random.default_rng(1).normal(50, 20, n_public)
    with Recorder() as recorder:
        one = release_cdf(x, public, bounds=bounds, ledger=Ledger(*budget, 0))
    assert len(refinement_rounds(recorder)) >= 2
    for others in (np.full(len(x), 5.0), np.append(x[1:], 299.0)):
        with Recorder(recorder.outcomes) as again:
            other = release_cdf(others, public, bounds=bounds, ledger=Ledger(*budget, 0))
        for call, same in zip(recorder.calls, again.calls, strict=True):
            assert (call.name, call.event, call.spread) == (same.name, same.event, same.spread)
        assert np.array_equal(one.curve.heights, other.curve.heights)
        assert np.array_equal(one.curve.knots, other.curve.knots)
        assert np.array_equal(one.deviations, other.deviations)
        assert np.array_equal(one.quantile_interval(0.3), other.quantile_interval(0.3))


def test_a_small_budget_is_not_spent_on_refinement():
    x = np.random.default_rng(0).normal(size=500)
    for budget, uses in (((0.1, 1e-6), 1), ((0.1, 0), 1), ((0.2, 1e-6), 2)):
        with Recorder() as recorder:
            release_cdf(x, x[:200], bounds=(-6, 6), ledger=Ledger(*budget, 1))
        assert len(recorder.calls) == uses


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("n_public", [0, 50, 1000])
def test_heavy_values_without_public_rows_are_found(budget, n_public):
    x = heavy()
    public = np.random.default_rng(1).normal(60, 20, n_public)
    found = release_cdf(x, public, bounds=(-100, 300), ledger=Ledger(*budget, 0))
    assert {37.25, 61.0} <= set(found.atoms.tolist())
    for atom in (37.25, 61.0):
        assert found.fraction(just_below(atom), atom) == pytest.approx((x == atom).mean(), abs=0.02)
    assert found.quantile(0.4) == 37.25


def test_a_column_in_one_cell_is_found_without_public_rows():
    x = np.exp(np.random.default_rng(0).normal(10, 1, 50_000))
    found = release_cdf(x, [], bounds=(-1e6, 1e8), ledger=Ledger(1, 1e-6, 0))
    at = np.quantile(x, np.linspace(0.01, 0.99, 99))
    assert np.abs(found.cdf(at) - np.linspace(0.01, 0.99, 99)).max() < 0.02
