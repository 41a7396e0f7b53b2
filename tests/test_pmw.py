"""Private multiplicative weights: cells, exact privacy over all neighbours, the guarantee."""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from skpublicdp.accounting import Draw, Gaussian, Pure, Steps, plan_delta, rho_price, zcdp_rho
from skpublicdp.ledger import Ledger
from skpublicdp.query_release import (
    CustomQueries,
    HalfspaceQueries,
    IntervalQueries,
    RectangleQueries,
    StumpQueries,
    ThresholdQueries,
)
from skpublicdp.query_release import multiplicative_weights as pmw
from tests.kit import Tape, by_release, every_run, exp_above, worst_ratio

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


def play(arrangement, counts, epsilon):
    plan = pmw.Plan(2, epsilon / 2, 0.7, 1.0)
    pmw.play(counts, 3, arrangement.incidence, plan, Ledger(epsilon, 0, 0))


def mwem(arrangement, counts, epsilon):
    questions = pmw.Questions.of(arrangement.queries, arrangement.cover, arrangement.cells)
    prior = np.full(len(arrangement.cells), 1 / len(arrangement.cells))
    pmw.mwem(counts, 3, questions, prior, 2, Ledger(epsilon, 0, 0))


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
@pytest.mark.parametrize("rounds", [play, mwem])
def test_exact_privacy_over_all_neighbours(rounds, epsilon):
    """Two rounds, three rows, three cells: P <= e^ε P' for every transcript and neighbour."""
    arrangement = pmw.arrange(ThresholdQueries(), np.arange(3.0)[:, None], 100)
    released = {}
    for cells in itertools.combinations_with_replacement(range(3), 3):
        counts = arrangement.incidence @ np.bincount(cells, minlength=3)
        runs = every_run(partial(rounds, arrangement, counts, epsilon))
        assert len(runs) == (2 * len(counts)) ** 2
        released[cells] = by_release(runs)
    ratios = [
        worst_ratio(released[cells], released[other], epsilon)
        for cells, other in itertools.permutations(released, 2)
        if sum(min(cells.count(cell), other.count(cell)) for cell in range(3)) == 2
    ]
    assert max(ratios) <= 1
    assert max(ratios) > exp_above(-epsilon / 2)  # half of ε is really lost


def test_play_draws_what_the_plan_says():
    incidence = np.tri(5, 4, -1, dtype=bool)
    ledger = Ledger(1, 1e-6, 0)
    plan = pmw.plan_rounds(1000, 5, 4, ledger=ledger, beta=0.05)
    with Tape() as tape:
        weights = pmw.play(
            incidence @ np.array([400, 300, 200, 100]), 1000, incidence, plan, ledger
        )
    drawn = [(use.kind, use.event, use.sensitivity) for use in tape.uses]
    assert drawn == [("draw", Draw(plan.round_epsilon), 1)] * plan.rounds
    assert ledger.event == Steps((Draw(plan.round_epsilon),) * plan.rounds)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()


class TestPlan:
    SETTINGS = 1, Fraction(1, 10**10)

    def plan(self, n, n_queries, n_cells, *, settings=SETTINGS, k=None, **parameters):
        ledger = Ledger(*settings, rows_per_person=k)
        return pmw.plan_rounds(n, n_queries, n_cells, ledger=ledger, beta=0.0125, **parameters)

    def test_alpha_means_fewer_rounds(self):
        best = self.plan(100_000, 63, 64)
        rough = self.plan(100_000, 63, 64, alpha=0.5)
        assert rough.rounds == math.ceil(math.log(64) / (2 * 0.25**2))
        assert rough.rounds < best.rounds
        assert best.error < rough.error < 0.5

    def test_it_is_no_worse_than_the_paper(self):
        """Lemma 7 as stated, for answers in [-1, 1], beside ours, for answers in [0, 1]."""
        for n in (10_000, 100_000, 1_000_000):
            plan = self.plan(n, 63, 64)
            alpha = 2 * plan.error
            log_cells = math.log(64)
            needed = 200 * math.sqrt(log_cells * math.log(2e10))
            needed *= math.log(63) + math.log(128 * log_cells / (alpha**2 * 0.025))
            assert n < needed / alpha**2

    @pytest.mark.parametrize("n", [50, 2000, 100_000])
    def test_a_round_gets_no_less_than_by_zcdp(self, n):
        plan = self.plan(n, 63, 64)
        rho = zcdp_rho(*map(Fraction, self.SETTINGS))
        assert plan.rounds * rho_price(Draw(plan.round_epsilon)) > 0.999 * rho
        assert plan_delta(Steps((Draw(plan.round_epsilon),) * plan.rounds), 1) <= 1e-10

    def test_several_rows_of_a_person_are_missed_together(self):
        one, three = (self.plan(30_000, 63, 64, k=k, alpha=0.9) for k in (1, 3))
        assert one.rounds == three.rounds
        learned = math.sqrt(math.log(64) / (2 * one.rounds))
        missed = one.error - learned - 1 / 30_000
        assert three.error == pytest.approx(learned + 3 * missed + 1 / 30_000)

    @pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**10)])
    def test_the_guarantee_holds(self, delta):
        """Over seeds, the largest error on the private rows is within the bound."""
        arrangement = pmw.arrange(ThresholdQueries(), np.arange(16.0)[:, None], 100)
        cells = np.zeros(16, dtype=np.int64)
        cells[[2, 9]] = 15_000, 5_000  # far from uniform
        counts = arrangement.incidence @ cells
        plan = self.plan(20_000, len(counts), 16, settings=(1, delta))
        errors = []
        for seed in range(12):
            ledger = Ledger(1, delta, seed)
            weights = pmw.play(counts, 20_000, arrangement.incidence, plan, ledger)
            errors.append(np.abs(arrangement.incidence @ weights - counts / 20_000).max())
        assert max(errors) <= plan.error
        assert max(errors) > plan.error / 20


@pytest.mark.parametrize("delta", [0, 1e-8])
def test_mwem_moves_towards_the_private_rows(delta):
    X = np.arange(20.0)[:, None]
    queries = ThresholdQueries()
    listed = queries.cover(X)
    counts = np.rint(20_000 * (np.arange(21) / 20) ** 2).astype(np.int64)
    questions = pmw.Questions.of(queries, listed, X)
    weights = pmw.mwem(counts, 20_000, questions, np.full(20, 0.05), 8, Ledger(1, delta, 0))
    assert np.abs(questions.answers(weights) - counts / 20_000).max() < 0.08  # 0.25 before


@pytest.mark.parametrize("rounds", [1, 3, 40])
def test_the_rounds_of_mwem_spend_all_and_no_more(rounds):
    draw, noise = pmw.round_events(rounds, Ledger("0.7", 0))
    assert draw == Draw(noise.epsilon)
    assert isinstance(noise, Pure)
    assert rounds * (draw.epsilon + noise.epsilon) == Fraction(7, 10)
    ledger = Ledger("0.7", 1e-8)
    draw, noise = pmw.round_events(rounds, ledger)
    assert isinstance(noise, Gaussian)
    assert rho_price(draw) == rho_price(noise)
    plan = Steps((draw, noise) * rounds)
    assert 0.98e-8 < plan_delta(plan, Fraction(7, 10)) <= 1e-8
    # by zCDP each round would get less
    assert rho_price(plan) > zcdp_rho(ledger.epsilon, ledger.delta)
