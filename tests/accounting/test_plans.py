"""Adaptive plans: δ against references that share no code with it, and on the safe side."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erfcx
from scipy.stats import norm

from skpublicdp.accounting import (
    Approximate,
    Draw,
    Either,
    Gaussian,
    Pure,
    Steps,
    Subsampled,
    gaussian_delta,
    largest_scale,
    plan_delta,
    rho_price,
)
from tests.helpers import best_delta
from tests.internals.accounting import CurveGrid, _gaussian_delta, plans
from tests.internals.mechanisms import Choice, Leaf, Product, probabilities

TENTH = Fraction(1, 10)


def start(a):
    """δ at ε = a of nothing."""
    return max(0.0, -math.expm1(a))


def after_gaussian(mu2):
    """Return δ at ε = a of a Gaussian mechanism, by Mills' ratio."""
    mu = math.sqrt(mu2)

    def delta(a):
        if a < 0:
            return -math.expm1(a) + math.exp(a) * delta(-a)
        z = a / mu - mu / 2
        mills = erfcx(z / math.sqrt(2)) - erfcx((z + mu) / math.sqrt(2))
        return math.exp(-z * z / 2) * mills / 2

    return delta


def after_draw(epsilon):
    """Return δ at ε = a of one draw, in closed form (Dong, Durfee and Rogers 2020)."""

    def delta(a):
        if abs(a) >= epsilon:
            return start(a)
        return (math.exp(epsilon / 2) - math.exp(a / 2)) ** 2 / math.expm1(epsilon)

    return delta


def pure_before(epsilon, later, lost=0.0):
    """Return δ of randomised response and what comes later; with δ = `lost` all is told."""
    p = 1 / (1 + math.exp(-epsilon))
    return lambda a: lost + (1 - lost) * (p * later(a - epsilon) + (1 - p) * later(a + epsilon))


def two_points(epsilon, t):
    p = math.exp(t) * math.expm1(epsilon - t) / math.expm1(epsilon)
    return p, 1 - p


def draw_before(epsilon, later, points=4001):
    """Return δ of a draw and what comes later: a maximum over many t."""
    grid = [(t, *two_points(epsilon, t)) for t in np.linspace(0, epsilon, points)]
    return functools.cache(
        lambda a: max(p * later(a - t) + q * later(a - t + epsilon) for t, p, q in grid)
    )


def gaussian_before(mu2, later, kinks=()):
    """Return δ of a Gaussian mechanism and what comes later: an integral."""
    mu = math.sqrt(mu2)
    nodes, weights = np.polynomial.legendre.leggauss(10)

    def delta(a):
        ends = sorted({mu2 / 2 - 11 * mu, mu2 / 2 + 11 * mu, *(a - kink for kink in kinks)})
        total = 0.0
        for low, high in itertools.pairwise(ends):
            cuts = np.linspace(low, high, 1 + math.ceil((high - low) / mu))
            for left, right in itertools.pairwise(cuts):
                losses = (left + right + (right - left) * nodes) / 2
                values = np.array([later(a - loss) for loss in losses])
                heights = weights * values * norm.pdf(losses, mu2 / 2, mu)
                total += heights.sum() * (right - left) / 2
        return total

    return functools.cache(delta)


G, D = 0.03, 0.4
SAMPLED = math.log(1 + (math.e - 1) / 4)
HIGHER = lambda a: max(after_gaussian(0.05)(a), after_draw(0.6)(a))  # noqa: E731
REFERENCES = {
    "gaussian": (Gaussian(G), after_gaussian(G)),
    "draw": (Draw(D), after_draw(D)),
    "gaussian, draw": (
        Steps((Gaussian(G), Draw(D))),
        gaussian_before(G, after_draw(D), kinks=(D, -D)),
    ),
    "draw, gaussian": (Steps((Draw(D), Gaussian(G))), draw_before(D, after_gaussian(G))),
    "draw, draw": (Steps((Draw(D), Draw(0.55))), draw_before(D, after_draw(0.55))),
    "gaussian, draw, gaussian": (
        Steps((Gaussian(G / 2), Draw(D), Gaussian(G))),
        gaussian_before(G / 2, draw_before(D, after_gaussian(G), points=101)),
    ),
    "gaussian, either": (
        Steps((Gaussian(G), Either((Gaussian(0.05), Draw(0.6))))),
        gaussian_before(G, HIGHER, kinks=(0.6, -0.6)),
    ),
    "draw, either": (Steps((Draw(D), Either((Gaussian(0.05), Draw(0.6))))), draw_before(D, HIGHER)),
    "pure": (Pure(D), pure_before(D, start)),
    "pure, pure": (Steps((Pure(D), Pure(0.55))), pure_before(D, pure_before(0.55, start))),
    "gaussian, pure": (
        Steps((Gaussian(G), Pure(D))),
        gaussian_before(G, pure_before(D, start), kinks=(D, -D)),
    ),
    "pure, gaussian": (Steps((Pure(D), Gaussian(G))), pure_before(D, after_gaussian(G))),
    "draw, pure": (Steps((Draw(D), Pure(0.3))), draw_before(D, pure_before(0.3, start))),
    "approximate": (Approximate(D, 0.001), pure_before(D, start, lost=0.001)),
    "approximate, gaussian": (
        Steps((Approximate(D, 1e-4), Gaussian(G))),
        pure_before(D, after_gaussian(G), lost=1e-4),
    ),
    "gaussian, subsampled": (
        Steps((Gaussian(G), Subsampled(Fraction(1, 4), Pure(1)))),
        gaussian_before(G, pure_before(SAMPLED, start), kinks=(SAMPLED, -SAMPLED)),
    ),
}
LOOSE = {"pure", "pure, pure", "draw, pure", "approximate"}  # kinks that no grid meets


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("epsilon", [0.0, 0.25, 0.7, 1.1])
class TestReferences:
    def test_just_above(self, name, epsilon):
        plan, reference = REFERENCES[name]
        true, delta = reference(epsilon), plan_delta(plan, epsilon)
        # references are as exact as an integral, or a maximum over some t, is
        most = (1.05 if name in LOOSE else 1.01) * true
        assert true * (1 - 1e-7) <= delta <= max(most, 1e-250)

    @pytest.mark.parametrize("step", [0.3, 0.11, 0.04])
    def test_above_on_any_grid(self, name, epsilon, step, monkeypatch):
        plan, reference = REFERENCES[name]
        short = math.ldexp(round(step * 2**20), -20)
        monkeypatch.setattr(plans, "_choose_grid", lambda *_: CurveGrid(short, -8, 40))
        delta = plans._plan_delta.__wrapped__(plan, Fraction(epsilon))
        assert delta >= reference(epsilon) * (1 - 1e-7)


@pytest.mark.parametrize("mu", [1e-5, 0.01, 0.3, 4.0])
def test_the_gaussian_curve_is_rounded_up(mu):
    """The one with many digits (gdp.py) is the least float above the truth."""
    distances = np.linspace(0, 8 * mu, 101)
    bounds = _gaussian_delta(mu, distances)
    for bound, distance in zip(bounds, distances, strict=True):
        true = gaussian_delta(Fraction(mu) ** 2, Fraction(distance))
        assert true <= bound <= true * (1 + 2e-9 / mu)
    assert plan_delta(Gaussian(Fraction(mu) ** 2), Fraction(3 * mu)) >= gaussian_delta(
        Fraction(mu) ** 2, Fraction(3 * mu)
    )


def test_a_choice_costs_more_than_either_of_its_options():
    options = Gaussian(Fraction(63, 1000)), Draw(Fraction(6, 10))
    first = Gaussian(Fraction(3, 100))
    dearest = max(plan_delta(Steps((first, option)), 1) for option in options)
    assert plan_delta(Steps((first, Either(options))), 1) > 1.3 * dearest
    # there is nothing to choose by before the first answer
    alone = max(plan_delta(option, 1) for option in options)
    assert alone * 0.99 <= plan_delta(Either(options), 1) <= alone * 1.01


def test_gaussian_mechanisms_in_a_row_are_one():
    parts = Steps((Gaussian(Fraction(1, 100)), Steps((Gaussian(Fraction(2, 100)),))))
    nested = Steps((Steps(()), parts, Gaussian(Fraction(3, 100))))
    assert plan_delta(nested, 1) == plan_delta(Gaussian(Fraction(6, 100)), 1)


class TestDraws:
    @pytest.mark.parametrize("count", [2, 5, 12])
    @pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8])
    def test_between_what_is_known(self, count, share):
        """At least the optimum without adaptivity (Dong, Durfee and Rogers 2020, Theorem 2)."""
        budget = Fraction(3, 10)
        epsilon = Fraction(share) * count * budget
        delta = plan_delta(Steps((Draw(budget),) * count), epsilon)
        fixed = 0.0
        for t in np.linspace(0, float(budget), 2001):
            p, q = two_points(float(budget), t)
            fixed = max(
                fixed,
                sum(
                    math.comb(count, low)
                    * p ** (count - low)
                    * q**low
                    * start(float(epsilon) - count * t + low * float(budget))
                    for low in range(count + 1)
                ),
            )
        assert fixed * (1 - 1e-9) <= delta <= best_delta(count * budget**2 / 8, epsilon)
        assert delta <= 2 * fixed

    def test_nothing_is_left_beyond_the_sum(self):
        plan = Steps((Draw(TENTH), Either((Draw(2 * TENTH), Draw(TENTH))), Draw(TENTH)))
        assert plan_delta(plan, 4 * TENTH) == 0.0
        assert plan_delta(plan, 4 * TENTH - Fraction(1, 1000)) > 0.0


def worst_delta(epsilon, rounds, p=1.0, q=1.0):
    """Return δ of the worst adaptive choice of pairs (P, Q), a list of them for every round."""
    if not rounds:
        return max(0.0, p - math.exp(epsilon) * q)
    return max(
        sum(worst_delta(epsilon, rounds[1:], p * x, q * y) for x, y in zip(*pair, strict=True))
        for pair in rounds[0]
    )


def bounded_range_pair(rng, epsilon, outcomes):
    """Return P, Q whose losses span at most ε: mostly the ends, which are the worst."""
    loss = epsilon * rng.choice([0.0, 1.0, rng.random()], outcomes)
    p = rng.dirichlet(np.full(outcomes, 0.7))
    q = p * np.exp(-loss)
    return p, q / q.sum()


def pure_pair(rng, epsilon, outcomes):
    """Return P, Q whose losses lie between -ε and ε: mostly at the ends."""
    while True:
        loss = epsilon * rng.choice([-1.0, 1.0, 2 * rng.random() - 1], outcomes - 1)
        p = rng.dirichlet(np.full(outcomes, 0.7))
        q = p[:-1] * np.exp(-loss)
        rest = 1 - q.sum()
        if rest > 0 and abs(math.log(p[-1] / rest)) <= epsilon:  # the last one makes it add up
            return p, np.append(q, rest)


def exponential_pairs(epsilon):
    """Yield the exact draw on neighbouring data sets, families of every kind, both ways."""
    bits = range(2)
    families = [
        lambda e: Leaf(np.array(e)),
        lambda e: Leaf(np.array([e[0], e[1] + 1, e[2], e[1], e[2] + 1])),
        lambda e: Choice(Leaf(np.array([[e[0], e[1]], [e[2], e[2]]])), prior=np.array([1, 5])),
        lambda e: Product((Leaf(np.array([e[0], 1])), Leaf(np.array([0, 3])))),
    ]
    for build in families:
        for row, other in itertools.product(itertools.product(bits, repeat=3), repeat=2):
            if row < other:
                bounds = [
                    probabilities(build(list(errors)), Fraction(epsilon), 1, 80)
                    for errors in (row, other)
                ]
                pair = [np.array([float(low) for low, _ in b.values()]) for b in bounds]
                yield from (pair, pair[::-1])


class TestDomination:
    @pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.5, 0.9])
    def test_random_pairs_chosen_adaptively(self, epsilon):
        budgets, rng = (0.5, 0.3, 0.5), np.random.default_rng(0)
        best = 0.0
        for _ in range(25):
            rounds = [[bounded_range_pair(rng, e, 3) for _ in range(4)] for e in budgets]
            best = max(best, worst_delta(epsilon, rounds))
        delta = plan_delta(Steps(tuple(map(Draw, budgets))), epsilon)
        assert 0.1 * delta <= best <= delta

    @pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.5, 0.9])
    def test_random_pure_mechanisms_chosen_adaptively(self, epsilon):
        """Between draws, too: each pair is any one with losses of at most its budget."""
        rng, best = np.random.default_rng(0), 0.0
        response = np.array([math.exp(0.4), 1.0]) / (1 + math.exp(0.4))
        for _ in range(25):
            pures = [pure_pair(rng, 0.4, 3) for _ in range(4)] + [(response, response[::-1])]
            draws = [bounded_range_pair(rng, 0.3, 3) for _ in range(4)]
            best = max(best, worst_delta(epsilon, [pures, draws, pures]))
        delta = plan_delta(Steps((Pure(0.4), Draw(0.3), Pure(0.4))), epsilon)
        assert 0.5 * delta <= best <= delta

    @pytest.mark.parametrize("epsilon", [0.0, 0.4, 0.8])
    def test_the_exact_draw_chosen_adaptively(self, epsilon):
        pairs = list(exponential_pairs(0.6))
        assert len(pairs) == 4 * 28 * 2
        best = worst_delta(epsilon, [pairs[::3], pairs[1::3]])
        delta = plan_delta(Steps((Draw(0.6), Draw(0.6))), epsilon)
        assert 0.3 * delta <= best <= delta

    def test_one_draw_is_attained(self):
        """Two members whose errors move apart, with a prior: the loss takes both its ends."""
        best = 0.0
        for weight in range(1, 40):
            family = [
                Choice(Leaf(np.array([[e], [1 - e]])), prior=np.array([weight, 20])) for e in (0, 1)
            ]
            p, q = (
                np.array([float(low) for low, _ in probabilities(f, Fraction(1), 1).values()])
                for f in family
            )
            best = max(best, worst_delta(0.3, [[(p, q)]]))
        assert best <= plan_delta(Draw(1), 0.3) <= 1.02 * best

    @pytest.mark.parametrize("epsilon", [0.1, 0.5])
    def test_with_gaussian_mechanisms_between(self, epsilon):
        """Bounded-range draws, chosen by a coarse look at the answer in between."""
        rng = np.random.default_rng(1)
        edges = np.linspace(-5, 5, 42)
        mu = 0.4
        blurred = [
            np.diff(norm.cdf(edges, center), prepend=0.0, append=1.0) for center in (mu, 0.0)
        ]
        blurred = [np.append(masses[:-1], 1 - masses[:-1].sum()) for masses in blurred]
        draws = [bounded_range_pair(rng, 0.4, 2) for _ in range(30)]
        best = worst_delta(epsilon, [draws, [blurred], draws])
        delta = plan_delta(Steps((Draw(0.4), Gaussian(mu**2), Draw(0.4))), epsilon)
        assert 0.5 * delta <= best <= delta


SIZES = st.fractions(Fraction(1, 100), 1, max_denominator=100)
PLANS = st.recursive(
    SIZES.map(Gaussian) | SIZES.map(Draw) | SIZES.map(Pure),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Steps(tuple(parts)))
        | st.lists(inner, min_size=1, max_size=2).map(lambda parts: Either(tuple(parts)))
    ),
    max_leaves=5,
)


class TestMonotone:
    @settings(max_examples=60, deadline=None)
    @given(PLANS, PLANS, st.fractions(0, 2, max_denominator=100), SIZES)
    def test_more_costs_more(self, plan, other, epsilon, more):
        delta = plan_delta(plan, epsilon)
        margin = max(delta, 1e-13)  # below it the bound may be loose, but not wrong
        assert 0 <= delta <= 1
        assert plan_delta(plan, epsilon + more) <= 1.01 * margin
        assert 0.99 * delta <= plan_delta(Either((plan, other)), epsilon) + 1e-13
        assert 0.99 * delta <= plan_delta(Steps((plan, other)), epsilon) + 1e-13
        assert 0.99 * delta <= plan_delta(Steps((other, plan)), epsilon) + 1e-13

    @settings(max_examples=30, deadline=None)
    @given(PLANS, st.fractions(0, 2, max_denominator=100))
    def test_no_more_than_zcdp(self, plan, epsilon):
        by_zcdp = float(best_delta(rho_price(plan), epsilon))
        assert plan_delta(plan, epsilon) <= 1.01 * by_zcdp + 1e-13


class TestEnds:
    def test_nothing_costs_nothing(self):
        for plan in (Steps(()), Draw(0), Pure(0), Gaussian(0), Either((Draw(0), Steps(())))):
            assert plan_delta(plan, 0) == 0.0
        padded = Steps((Draw(0), Gaussian(TENTH), Draw(TENTH), Gaussian(0)))
        assert plan_delta(padded, 1) == pytest.approx(
            plan_delta(Steps((Gaussian(TENTH), Draw(TENTH))), 1), rel=0.02
        )

    @pytest.mark.parametrize("epsilon", [0, 1e-300, 0.3, 1, 300, Fraction(10) ** 400])
    @pytest.mark.parametrize("size", [1e-320, 1e-12, 1e-3, 30, 1e4, Fraction(10) ** 400])
    def test_extremes_are_bounds(self, epsilon, size):
        for plan in (
            Gaussian(size),
            Steps((Gaussian(size), Draw(TENTH))),
            Steps((Draw(size), Gaussian(TENTH))),
            Steps((Pure(size), Gaussian(TENTH))),
            Steps((Gaussian(TENTH), Approximate(size, TENTH))),
        ):
            assert 0 < plan_delta(plan, epsilon) <= 1
        if TENTH**8 < size < 100 and epsilon < 100:
            true = after_gaussian(float(size))(float(epsilon))
            assert plan_delta(Gaussian(size), epsilon) >= true * (1 - 1e-12)

    def test_underflow_is_rounded_up(self):
        assert 0 < plan_delta(Gaussian(Fraction(1, 10**4)), 1) < 1e-250

    def test_senseless_plans_are_refused(self):
        with pytest.raises(ValueError, match="mu_squared"):
            Gaussian(-1)
        with pytest.raises(ValueError, match="epsilon must"):
            Draw(math.inf)
        with pytest.raises(ValueError, match="at least one option"):
            Either(())
        with pytest.raises(ValueError, match="epsilon must"):
            plan_delta(Draw(1), -1)

    def test_a_subsample_of_noise_is_refused(self):
        with pytest.raises(ValueError, match="finite epsilon"):
            plan_delta(Steps((Subsampled(TENTH, Gaussian(1)), Draw(1))), 1)

    def test_lists_are_taken_as_tuples(self):
        plan = Steps([Either([Draw(1), Gaussian(1)])])
        assert plan == Steps((Either((Draw(1), Gaussian(1))),))
        assert plan_delta(plan, 1) > 0


class TestLargestScale:
    @pytest.mark.parametrize(
        ("budget", "share"),
        [(0.1, 0.9457), (0.2, 0.8227), (0.3, 0.6794), (0.4, 0.5359), (0.5, 0.4008)],
    )
    def test_what_a_draw_leaves_to_noise(self, budget, share):
        """The numbers of an integration on 20001 points."""
        whole = largest_scale(Gaussian, 1, 1e-6)
        left = largest_scale(lambda mu2: Steps((Gaussian(mu2), Draw(budget))), 1, 1e-6)
        assert float(whole) == pytest.approx(0.0560, rel=1e-3)
        assert float(left / whole) == pytest.approx(share, rel=2e-3)

    @pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
    @pytest.mark.parametrize("unit", [Fraction(1), Fraction(1, 10**6), Fraction(10**6)])
    def test_the_largest_one(self, delta, unit):
        def make_plan(scale):
            size = scale * unit
            return Steps((Gaussian(size), Draw(TENTH), Either((Draw(size), Gaussian(size / 2)))))

        scale = largest_scale(make_plan, 1, delta)
        assert plan_delta(make_plan(scale), 1) <= delta
        assert plan_delta(make_plan(scale * (1 + Fraction(1, 2**11))), 1) > delta
        assert scale.numerator.bit_length() <= 64

    def test_budgets_without_an_answer(self):
        with pytest.raises(ValueError, match="exceeds the budget"):
            largest_scale(lambda scale: Steps((Draw(2), Gaussian(scale))), 1, 1e-6)
        with pytest.raises(ValueError, match="fits the budget"):
            largest_scale(lambda scale: Draw(Fraction(1, 2)), 1, 1e-6)


class TestGrid:
    GRID = CurveGrid(Fraction(1, 8).__float__(), -24, 24)

    def test_a_broken_line_is_convex_and_above(self):
        rng = np.random.default_rng(2)
        u = np.exp(np.arange(-24, 25) / 8)
        values = np.maximum(0.0, 1 - u / 2) * 0.7 + 0.3
        noisy = values * (1 + 1e-9 * rng.random(len(u)))  # not convex where it is straight
        weights, line = self.GRID._convex(noisy)
        assert np.all(weights >= 0)
        assert np.all(line[1:] >= noisy)
        assert line[0] >= 1
        assert np.all(line[1:] <= values * (1 + 1e-7))
        above = noisy[-1] + (weights * np.maximum(0, 1 - u[:, None] / u)).sum(axis=1)
        assert np.all(above >= noisy)

    def test_reading_between_the_points(self):
        values = 1 / (1 + np.exp(np.arange(-24, 25) / 8))
        for a in (0.0, 0.3, 1.0, 2.9):
            assert 1 / (1 + math.exp(a)) <= self.GRID.value_at(a, values)
            assert self.GRID.value_at(a, values) <= 1.01 / (1 + math.exp(a))
        assert self.GRID.value_at(5.0, values) >= values[-1]
        middle = math.log((1 + math.exp(1 / 8)) / 2)  # half way in u
        assert self.GRID.value_at(middle, values) == pytest.approx((values[24] + values[25]) / 2)

    def test_multiples_are_exact(self):
        step = round(0.124 * 2**24) / 2**24
        grid = CurveGrid(step, -8, 8)
        for count in range(1, 2000):
            assert grid._multiple_below(count * step) == count
            assert grid._multiple_below(math.nextafter(count * step, 0)) == count - 1
        just_below = math.nextafter(8 * step, 0)
        values = np.append(np.linspace(0.9, 0.1, 16), 0.0)
        assert grid.value_at(just_below, values) >= 0
        assert grid.draw(just_below, values).shape == values.shape

    @pytest.mark.parametrize("size", [0.05, 0.125, 0.3, 1.0])
    def test_every_step_costs(self, size):
        """Also at both ends of a grid that is too short."""
        u = np.exp(np.arange(-24, 25) / 8)
        for values in (self.GRID.start(), 1 / (1 + u)):
            for operator in (self.GRID.draw, self.GRID.gaussian, self.GRID.pure):
                after = operator(size, values)
                assert np.all(after >= values)
                assert np.all(after <= 1)
                assert np.all(np.diff(after) <= 1e-12)
