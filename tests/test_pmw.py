"""Private multiplicative weights: cells, exact privacy over all neighbours, the guarantee."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from skpublicdp.accounting import exact_fraction, exponential_rho, zcdp_epsilon, zcdp_rho
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.mechanisms.powers import exp_minus
from skpublicdp.mechanisms.randomness import SeededBits
from skpublicdp.mechanisms.selection import probabilities
from skpublicdp.query_release import (
    CustomQueries,
    HalfspaceQueries,
    IntervalQueries,
    RectangleQueries,
    StumpQueries,
    ThresholdQueries,
)
from skpublicdp.query_release import multiplicative_weights as pmw

ARRANGED = [
    (ThresholdQueries(), 1, 9),
    (IntervalQueries(), 1, 7),
    (RectangleQueries(), 2, 6),
    (StumpQueries(), 2, 6),
    (HalfspaceQueries(), 1, 6),
    (HalfspaceQueries(), 2, 6),
]


@pytest.mark.parametrize(("queries", "width", "m"), ARRANGED)
def test_cells_are_the_representative_domain(queries, width, m):
    """Definition 2: cells are distinct, and every row is in one of them."""
    rng = np.random.default_rng(0)
    arrangement = pmw.arrange(queries, rng.normal(size=(m, width)), 100)
    columns = {column.tobytes() for column in arrangement.incidence.T}
    assert len(columns) == len(arrangement.cells)
    np.testing.assert_array_equal(
        arrangement.incidence, queries.holds(arrangement.cover, arrangement.cells)
    )
    X = rng.normal(size=(5000, width)) * 2
    of_row = arrangement.incidence[:, arrangement.locate(X)]
    wrong = (of_row != queries.holds(arrangement.cover, X)).any(axis=0)
    assert wrong.mean() < 1e-3  # a row may be closer to a crossing than the step of the search


def test_rows_of_no_listed_cell_go_to_the_nearest():
    """Of listed queries nobody can say which cells there are."""
    queries = CustomQueries(lambda X: X > 0)
    arrangement = pmw.arrange(queries, np.array([[1.0, 2.0], [-1.0, 1.0], [-1.0, -1.0]]), 100)
    assert arrangement.incidence.shape == (2, 3)
    (place,) = arrangement.locate(np.array([[1.0, -1.0]]))
    assert (arrangement.incidence[:, place] != [True, False]).sum() == 1
    assert arrangement.tally(np.array([[1.0, -1.0], [-1.0, -9.0]])).sum() == 2


def test_few_points_are_drawn_from_many():
    X = np.repeat(np.arange(50.0), np.where(np.arange(50) == 7, 500, 1))[:, None]
    arrangement = pmw.arrange(ThresholdQueries(), X, 10)
    assert len(arrangement.points) == 10
    assert 7.0 in arrangement.points
    assert len(arrangement.cover) == 11
    np.testing.assert_array_equal(pmw.arrange(ThresholdQueries(), X, 10).cells, arrangement.cells)


def test_counts_move_by_one_at_most():
    """All neighbours on a tiny domain: the sensitivity behind every draw."""
    arrangement = pmw.arrange(IntervalQueries(), np.arange(3.0)[:, None], 100)
    places = [-5.0, 0.4, 0.6, 1.2, 9.0]
    for rows in itertools.combinations_with_replacement(places, 3):
        counts = arrangement.incidence @ arrangement.tally(np.array(rows)[:, None])
        for position, value in itertools.product(range(3), places):
            other = np.array([*rows[:position], *rows[position + 1 :], value])[:, None]
            moved = arrangement.incidence @ arrangement.tally(other)
            assert np.abs(moved - counts).max() <= 1


def outcomes(counts, n, incidence, plan):
    """Bounds of the exact probability of every transcript of `play`."""
    dense = incidence.astype(float)
    found = {(): (Fraction(1), Fraction(1), np.zeros(incidence.shape[1]))}
    for _ in range(plan.rounds):
        following = {}
        for path, (lower, upper, logs) in found.items():
            weights = np.exp(logs - logs.max())
            expected = np.rint(n * (dense @ (weights / weights.sum()))).astype(np.int64)
            leaf = Leaf(np.concatenate([expected - counts, counts - expected]))
            for place, (p_low, p_high) in probabilities(leaf, plan.round_epsilon, 1).items():
                sign = 1 if place < len(counts) else -1
                moved = logs + sign * plan.rate * dense[place % len(counts)]
                following[(*path, place)] = lower * p_low, upper * p_high, moved
        found = following
    return {path: (lower, upper) for path, (lower, upper, _) in found.items()}


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_exact_privacy_over_all_neighbours(epsilon):
    """Two rounds, three rows, three cells: P <= e^ε P' for every transcript and neighbour."""
    arrangement = pmw.arrange(ThresholdQueries(), np.arange(3.0)[:, None], 100)
    plan = pmw.Plan(2, epsilon / 2, 0.7, 1.0, "")
    _, shrink = exp_minus(epsilon, 200)
    growth = Fraction(1 << 200, shrink)
    tables = {}
    for cells in itertools.combinations_with_replacement(range(3), 3):
        counts = arrangement.incidence @ np.bincount(cells, minlength=3)
        tables[cells] = outcomes(counts, 3, arrangement.incidence, plan)
        assert abs(float(sum(lower for lower, _ in tables[cells].values())) - 1) < 1e-9
    worst = 0
    for cells, other in itertools.product(tables, repeat=2):
        shared = sum(min(cells.count(cell), other.count(cell)) for cell in range(3))
        if shared < 2:
            continue
        for path, (lower, upper) in tables[cells].items():
            assert upper <= growth * tables[other][path][0]
            worst = max(worst, float(lower / tables[other][path][1]))
    assert worst > 1


def test_play_draws_what_the_plan_says(monkeypatch):
    drawn = []
    real = pmw.draw

    def spy(family, epsilon, sensitivity, bits):
        drawn.append((epsilon, sensitivity))
        return real(family, epsilon, sensitivity, bits)

    monkeypatch.setattr(pmw, "draw", spy)
    incidence = np.tri(5, 4, -1, dtype=bool)
    plan = pmw.plan_rounds(1000, 5, 4, epsilon=Fraction(1), delta=Fraction(1, 10**6), beta=0.05)
    weights = pmw.play(
        incidence @ np.array([400, 300, 200, 100]), 1000, incidence, plan, SeededBits(0)
    )
    assert drawn == [(plan.round_epsilon, 1)] * plan.rounds
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**8)])
@pytest.mark.parametrize("rounds", [1, 3, 40, 1000])
@pytest.mark.parametrize("share", [1, 2])
def test_the_rounds_spend_no_more_than_the_budget(delta, rounds, share):
    epsilon = exact_fraction(0.7)
    budget, composition = pmw.round_budget(epsilon, delta, rounds, share)
    if composition.startswith("basic"):
        assert rounds * share * budget <= epsilon
    else:
        total = share * rounds * exponential_rho(budget)
        assert total <= zcdp_rho(epsilon, delta)
        assert zcdp_epsilon(total, delta) <= 0.7
    if delta and rounds == 1000:
        assert budget > 5 * epsilon / (rounds * share)


class TestPlan:
    SETTINGS = {  # noqa: RUF012 - read only
        "epsilon": Fraction(1),
        "delta": Fraction(1, 10**10),
        "beta": 0.0125,
    }

    def test_alpha_means_fewer_rounds(self):
        best = pmw.plan_rounds(100_000, 63, 64, **self.SETTINGS)
        rough = pmw.plan_rounds(100_000, 63, 64, alpha=0.5, **self.SETTINGS)
        assert rough.rounds == math.ceil(math.log(64) / (2 * 0.25**2))
        assert rough.rounds < best.rounds
        assert best.error < rough.error < 0.5

    def test_it_is_no_worse_than_the_paper(self):
        """Lemma 7 as stated, for answers in [-1, 1], beside ours, for answers in [0, 1]."""
        for n in (10_000, 100_000, 1_000_000):
            plan = pmw.plan_rounds(n, 63, 64, **self.SETTINGS)
            alpha = 2 * plan.error
            log_cells = math.log(64)
            needed = 200 * math.sqrt(log_cells * math.log(2e10))
            needed *= math.log(63) + math.log(128 * log_cells / (alpha**2 * 0.025))
            assert n < needed / alpha**2

    @pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**10)])
    def test_the_guarantee_holds(self, delta):
        """Over seeds, the largest error on the private rows is within the bound."""
        arrangement = pmw.arrange(ThresholdQueries(), np.arange(16.0)[:, None], 100)
        cells = np.zeros(16, dtype=np.int64)
        cells[[2, 9]] = 15_000, 5_000  # far from uniform
        counts = arrangement.incidence @ cells
        settings = {**self.SETTINGS, "delta": delta}
        plan = pmw.plan_rounds(20_000, len(counts), 16, **settings)
        errors = []
        for seed in range(12):
            weights = pmw.play(counts, 20_000, arrangement.incidence, plan, SeededBits(seed))
            errors.append(np.abs(arrangement.incidence @ weights - counts / 20_000).max())
        assert max(errors) <= plan.error
        assert max(errors) > plan.error / 20


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**8)])
def test_mwem_moves_towards_the_private_rows(delta):
    X = np.arange(20.0)[:, None]
    queries = ThresholdQueries()
    listed = queries.cover(X)
    counts = np.rint(20_000 * (np.arange(21) / 20) ** 2).astype(np.int64)
    questions = pmw.Questions.of(queries, listed, X)
    weights, measured, plan = pmw.mwem(
        counts,
        20_000,
        questions,
        np.full(20, 0.05),
        8,
        epsilon=Fraction(1),
        delta=delta,
        bits=SeededBits(0),
    )
    assert np.abs(questions.answers(weights) - counts / 20_000).max() < 0.08  # 0.25 before
    assert len(measured.values) == plan.rounds == 8
    if delta:
        spent = 8 * exponential_rho(plan.round_epsilon) + 8 / (2 * measured.spread)
        assert spent <= zcdp_rho(Fraction(1), delta)
    else:
        assert 8 * (plan.round_epsilon + 1 / measured.spread) <= 1
