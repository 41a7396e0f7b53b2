"""Events: what they cost in each currency, what is left of a plan, and how they compose."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from skpublicdp.accounting import (
    Approximate,
    Draw,
    Either,
    Gaussian,
    Pure,
    Steps,
    Subsampled,
    basic_price,
    exact_fraction,
    gaussian_delta,
    mu_squared_price,
    plan_delta,
    pure_mu_squared,
    rho_price,
    subsampled_epsilon,
)
from tests.internals.accounting import (
    DRAW_MU_SQUARED_RATE,
    NO_EVENT,
    from_text,
    remaining_plans,
    to_text,
)

pytestmark = pytest.mark.once

ONE, HALF, TENTH = Fraction(1), Fraction(1, 2), Fraction(1, 10)
INF = math.inf
PRICES = (lambda e: basic_price(e)[0], lambda e: basic_price(e)[1], rho_price, mu_squared_price)

SIZES = st.fractions(Fraction(1, 50), 1, max_denominator=50)
SINGLE = SIZES.map(Pure) | SIZES.map(Gaussian) | SIZES.map(Draw)
SAMPLED = st.builds(Subsampled, SIZES, SIZES.map(Pure) | SIZES.map(Draw))
FAILING = st.builds(Approximate, SIZES, st.fractions(0, Fraction(1, 1000), max_denominator=10**6))


def trees(single, leaves=5):
    def several(inner):
        parts = st.lists(inner, min_size=1, max_size=3).map(tuple)
        return parts.map(Steps) | parts.map(Either)

    return st.recursive(single, several, max_leaves=leaves)


EVENTS = trees(SINGLE | SAMPLED | FAILING)


class TestPrices:
    @pytest.mark.parametrize(
        ("event", "expected"),
        [
            (Pure(HALF), (HALF, 0, Fraction(1, 8), pure_mu_squared(HALF))),
            (Draw(HALF), (HALF, 0, Fraction(1, 32), DRAW_MU_SQUARED_RATE / 4)),
            (Gaussian(HALF), (INF, 0, Fraction(1, 4), HALF)),
            (Gaussian(0), (0, 0, 0, 0)),
            (Approximate(HALF, TENTH), (HALF, TENTH, INF, INF)),
            (Approximate(HALF, 0), (HALF, 0, Fraction(1, 8), pure_mu_squared(HALF))),
            (NO_EVENT, (0, 0, 0, 0)),
            (
                Steps((Draw(ONE), Pure(HALF), Draw(HALF))),
                (
                    2,
                    0,
                    Fraction(9, 32),
                    DRAW_MU_SQUARED_RATE * Fraction(5, 4) + pure_mu_squared(HALF),
                ),
            ),
            (
                Steps((Gaussian(HALF), Draw(ONE))),
                (INF, 0, Fraction(3, 8), HALF + DRAW_MU_SQUARED_RATE),
            ),
            (
                Steps((Approximate(HALF, TENTH), Approximate(ONE, TENTH))),
                (Fraction(3, 2), Fraction(1, 5), INF, INF),
            ),
            # the dearest option, in each currency by itself
            (
                Either((Gaussian(TENTH), Draw(ONE), Approximate(HALF, TENTH))),
                (INF, TENTH, INF, INF),
            ),
            (Either((Gaussian(HALF), Draw(HALF))), (INF, 0, Fraction(1, 4), HALF)),
            (Subsampled(HALF, Gaussian(ONE)), (INF, 0, INF, INF)),
        ],
    )
    def test_each(self, event, expected):
        assert tuple(price(event) for price in PRICES) == expected

    @pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1, 5, 30, 700])
    def test_any_pure_mechanism_is_gaussian(self, epsilon):
        """Randomised response is covered at its corner, and by nothing less."""
        mu_squared = pure_mu_squared(epsilon)
        assert mu_squared == mu_squared_price(Pure(epsilon))
        # P(truth) = e^ε / (1 + e^ε) is reached at a false-alarm rate of 1 / (1 + e^ε)
        z = norm.isf(1 / (1 + np.exp(float(epsilon))))
        assert float(mu_squared) == pytest.approx(4 * z**2, rel=1e-9)
        if epsilon <= 5:  # δ at 0 is tanh(ε / 2); decided by the curve with many digits
            true = (Fraction(math.expm1(epsilon)) / (1 + Fraction(math.exp(epsilon)))) * (
                1 - Fraction(1, 10**14)
            )
            assert gaussian_delta(mu_squared, 0) >= true
            assert gaussian_delta(mu_squared * (1 - Fraction(1, 10**10)), 0) < true

    def test_a_huge_budget_is_bounded(self):
        before, beyond = (float(pure_mu_squared(e)) / e for e in (99_999, 100_001))
        assert 7.99 < before < beyond < 8 * (1 + 1e-9)

    @pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 12.0, 16.5, 60.0, 200.0])
    def test_any_draw_is_gaussian(self, epsilon):
        """The two-point pairs that are the worst have their vertex below the Gaussian curve."""
        mu = math.sqrt(mu_squared_price(Draw(epsilon)))
        t = epsilon * np.linspace(0.001, 0.999, 999)
        log_p = t + np.log(-np.expm1(t - epsilon)) - np.log(-np.expm1(-epsilon)) - t
        log_p = np.log(np.expm1(epsilon - t)) + t - np.log(np.expm1(epsilon))
        log_q = log_p - t
        # P = Φ(x + μ) where Q = Φ(x): compare logarithms of both tails
        x = norm.ppf(np.exp(log_q))
        x = np.where(np.isfinite(x), x, -np.sqrt(-2 * log_q))
        slack = 1e-9 + 1e-9 * np.abs(log_p)
        assert np.all(norm.logcdf(x + mu) >= log_p - slack)
        if epsilon < 0.1:  # and hardly more than needed
            less = norm.logcdf(x + mu * (1 - 1e-3))
            assert np.any(less < log_p)

    @pytest.mark.parametrize("n", [2, 3, 5])
    @pytest.mark.parametrize("base", [0.2, 1.0, 3.0])
    def test_a_subsample_by_brute_force(self, n, base):
        """One row of n is drawn, its bit told by randomised response: the bound is attained."""
        price, delta = basic_price(Subsampled(Fraction(1, n), Pure(base)))
        assert delta == 0
        p = 1 / (1 + math.exp(-base))
        yes = [((n - ones) * (1 - p) + ones * p) / n for ones in range(n + 1)]
        lost = [abs(math.log(b / a)) for a, b in itertools.pairwise(yes)]
        lost += [abs(math.log((1 - b) / (1 - a))) for a, b in itertools.pairwise(yes)]
        assert max(lost) == pytest.approx(float(price), rel=1e-12)

    def test_a_subsample_of_anything(self):
        inner = Steps((Draw(HALF), Either((Pure(HALF), Draw(TENTH)))))
        event = Subsampled(TENTH, inner)
        assert basic_price(event)[0] == exact_fraction(subsampled_epsilon(1, TENTH))
        assert rho_price(event) == basic_price(event)[0] ** 2 / 2
        assert mu_squared_price(event) == pure_mu_squared(basic_price(event)[0])
        failing = Subsampled(TENTH, Approximate(ONE, Fraction(1, 1000)))
        assert basic_price(failing)[0] == basic_price(event)[0]
        assert Fraction(1, 10**4) <= basic_price(failing)[1] <= Fraction(1, 10**4) * (1 + 1e-12)
        paper = Subsampled(TENTH, Pure(ONE), "paper")
        assert basic_price(paper)[0] > 2 * basic_price(event)[0]

    @settings(max_examples=60)
    @given(EVENTS, EVENTS)
    def test_more_costs_more(self, event, other):
        for price in PRICES:
            assert price(Steps((event, other))) == price(Steps((other, event))) >= price(event)
            assert price(Either((event, other))) == max(price(event), price(other))
            assert price(Steps((event,))) == price(event)
            assert price(Steps((event, other))) >= price(Either((event, other)))

    @settings(max_examples=60)
    @given(SIZES, st.fractions(1, 10, max_denominator=100), SIZES)
    def test_larger_costs_more(self, size, factor, rate):
        for kind in (Pure, Draw, Gaussian, lambda size: Subsampled(rate, Pure(size))):
            for price in PRICES:
                assert price(kind(size)) <= price(kind(size * factor))
        for price in PRICES:
            assert price(Draw(size)) <= price(Pure(size))
            assert price(Subsampled(rate, Pure(size))) <= price(Pure(size)) + Fraction(1, 10**15)

    @pytest.mark.parametrize("size", [-1, INF, math.nan])
    def test_senseless_events_are_refused(self, size):
        for kind in (Pure, Draw, Gaussian, lambda size: Approximate(1, size)):
            with pytest.raises(ValueError, match="finite non-negative"):
                kind(size)

    @pytest.mark.parametrize("size", ["1", None, [1.0]])
    def test_events_of_what_is_no_number_are_refused(self, size):
        for kind in (Pure, Draw, Gaussian, lambda size: Approximate(1, size)):
            with pytest.raises(TypeError, match="a number"):
                kind(size)


@settings(max_examples=100)
@given(EVENTS)
def test_events_are_written_and_read(event):
    again = from_text(to_text(event))
    assert again == event
    assert hash(again) == hash(event)
    assert str(again) == str(event)


def sizes_of(plan):
    """All single events of a plan."""
    match plan:
        case Steps(parts) | Either(parts):
            return [single for part in parts for single in sizes_of(part)]
    return [plan]


def root_below(square):
    return Fraction(math.isqrt(math.floor(square * 10**12)), 10**6)


def proposals(left):
    """Events that what is left may cover, just or nearly: whole, halved, or in another coin."""
    singles, found = sizes_of(left), []
    for share, single in itertools.product((ONE, HALF), singles):
        match single:
            case Pure(epsilon):
                found += [Pure(share * epsilon), Draw(share * epsilon)]
            case Gaussian(mu_squared):
                found += [
                    Gaussian(share * mu_squared),
                    Draw(root_below(share * mu_squared / DRAW_MU_SQUARED_RATE)),
                    Pure(root_below(share * mu_squared * Fraction(62, 100))),
                ]
            case Draw(epsilon):
                found.append(Draw(share * epsilon))
            case Approximate(epsilon, delta):
                found += [Approximate(share * epsilon, share * delta), Draw(share * epsilon)]
            case Subsampled():
                found.append(single)
    noise = [single.mu_squared for single in singles if isinstance(single, Gaussian)]
    pure = [single.epsilon for single in singles if isinstance(single, Pure)]
    found += [Gaussian(sum(some)) for some in itertools.pairwise(noise)]
    found += [Gaussian(sum(noise)), Pure(sum(pure)), Steps((Draw(TENTH), Pure(TENTH)))]
    return [event for event in found if event not in (Gaussian(0), Pure(0), Draw(0))]


def followed(plan, data, depth=3):
    """Return what an adversary does with a plan: after each answer one of two ways to go on."""
    admitted = [(event, left) for event in proposals(plan) for left in remaining_plans(plan, event)]
    if not depth or not admitted:
        return NO_EVENT
    event, left = data.draw(st.sampled_from(admitted))
    ways = Either(tuple(followed(left, data, depth - 1) for _ in range(2)))
    return Steps((event, ways))


class TestRemainders:
    @settings(max_examples=80)
    @given(trees(SINGLE | FAILING), st.data())
    def test_no_more_is_spent_than_planned(self, plan, data):
        """In any currency, with every answer used to choose what comes next."""
        spent = followed(plan, data)
        for price in PRICES:
            assert price(spent) <= price(plan)
        for epsilon in (0, Fraction(3, 10), 1, 2):
            assert plan_delta(spent, epsilon) <= 1.03 * plan_delta(plan, epsilon) + 1e-9

    @settings(max_examples=60)
    @given(trees(SINGLE | SAMPLED), st.data())
    def test_what_a_plan_says_may_be_done(self, plan, data):
        """Its own events, one after the other, for one choice at each either."""

        def chosen(plan):
            match plan:
                case Either(options):
                    return chosen(data.draw(st.sampled_from(options)))
                case Steps(parts):
                    return [event for part in parts for event in chosen(part)]
            return [plan]

        left = {plan}
        for event in chosen(plan):
            left = {after for before in left for after in remaining_plans(before, event)}
            assert left

    def test_of_one_kind_by_another(self):
        assert list(remaining_plans(Pure(ONE), Draw(HALF))) == [Pure(HALF)]
        assert list(remaining_plans(Pure(ONE), Subsampled(TENTH, Pure(ONE)))) == [
            Pure(1 - exact_fraction(subsampled_epsilon(1, TENTH)))
        ]
        assert list(remaining_plans(Gaussian(ONE), Pure(HALF))) == [
            Gaussian(1 - pure_mu_squared(HALF))
        ]
        assert list(remaining_plans(Approximate(ONE, TENTH), Approximate(HALF, TENTH))) == [
            Approximate(HALF, 0)
        ]
        assert list(remaining_plans(Draw(ONE), Draw(ONE))) == [NO_EVENT]
        sampled = Subsampled(TENTH, Pure(ONE))
        assert list(remaining_plans(sampled, sampled)) == [NO_EVENT]

    @pytest.mark.parametrize(
        ("plan", "event"),
        [
            (Pure(ONE), Gaussian(Fraction(1, 10**9))),
            (Pure(ONE), Approximate(HALF, Fraction(1, 10**9))),
            (Pure(ONE), Steps((Pure(HALF), Draw(HALF), Draw(TENTH)))),
            (Gaussian(ONE), Approximate(TENTH, TENTH)),
            (Gaussian(ONE), Gaussian(1 + Fraction(1, 10**9))),
            (Gaussian(ONE), Pure(Fraction(9, 10))),
            (Draw(ONE), Pure(TENTH)),  # a draw is less than any pure mechanism
            (Draw(ONE), Steps((Draw(HALF), Draw(TENTH)))),
            (Approximate(ONE, TENTH), Approximate(HALF, Fraction(2, 10))),
            (Subsampled(TENTH, Pure(ONE)), Pure(Fraction(1, 100))),
            (Subsampled(TENTH, Pure(ONE)), Subsampled(TENTH, Pure(ONE), "paper")),
            (Steps((Draw(ONE), Draw(ONE))), Draw(Fraction(3, 2))),
            (Steps((Gaussian(ONE), Draw(ONE), Gaussian(ONE))), Gaussian(Fraction(5, 2))),
            (Either((Draw(ONE), Gaussian(HALF))), Gaussian(ONE)),
            (NO_EVENT, Draw(TENTH)),
        ],
    )
    def test_what_is_not_covered(self, plan, event):
        assert list(remaining_plans(plan, event)) == []

    def all_left(self, plan, *events):
        left = [plan]
        for event in events:
            left = [after for before in left for after in remaining_plans(before, event)]
        return left

    def test_each_draw_is_good_for_one(self):
        plan = Steps((Draw(ONE), Draw(ONE)))
        assert self.all_left(plan, Draw(HALF), Draw(HALF)) == [NO_EVENT]
        assert not self.all_left(plan, Draw(TENTH), Draw(TENTH), Draw(TENTH))

    def test_steps_are_taken_in_order(self):
        plan = Steps((Gaussian(TENTH), Draw(ONE), Gaussian(HALF)))
        assert self.all_left(plan, Draw(ONE), Gaussian(HALF))
        assert not self.all_left(plan, Draw(ONE), Gaussian(HALF + TENTH))
        assert not self.all_left(plan, Gaussian(HALF), Draw(ONE))

    def test_noise_of_several_steps(self):
        plan = Steps((Gaussian(ONE), Draw(HALF), Gaussian(ONE), Gaussian(ONE)))
        assert self.all_left(plan, Gaussian(Fraction(3))) == [NO_EVENT]
        # the draw between them is lost then, unless noise pays for it
        (left,) = self.all_left(plan, Gaussian(Fraction(5, 2)))
        assert left == Gaussian(HALF)
        assert not self.all_left(plan, Gaussian(Fraction(5, 2)), Draw(Fraction(6, 5)))

    def test_an_option_that_is_begun_is_the_one(self):
        plan = Either((Steps((Draw(ONE), Gaussian(ONE))), Steps((Draw(HALF), Draw(HALF)))))
        assert self.all_left(plan, Draw(ONE), Gaussian(ONE))
        assert self.all_left(plan, Draw(HALF), Draw(HALF))
        assert not self.all_left(plan, Draw(ONE), Draw(HALF), Gaussian(ONE))
        for left in self.all_left(plan, Draw(HALF)):
            found = [
                bool(list(remaining_plans(left, event))) for event in (Draw(HALF), Gaussian(ONE))
            ]
            assert found in ([True, True], [True, False])  # noise of 1 pays for the draw, too
        assert not self.all_left(plan, Draw(HALF), Draw(HALF), Draw(HALF), Gaussian(9 * TENTH))


PLD = "dp_accounting.pld.privacy_loss_distribution"


def composed(steps):
    """The same events by somebody else's numbers: each by its worst pair, then by convolution."""
    pld = pytest.importorskip(PLD)
    parameters = pytest.importorskip("dp_accounting.pld.common").DifferentialPrivacyParameters
    total = pld.identity()
    for step in steps:
        match step:
            case Pure(epsilon):
                one = pld.from_privacy_parameters(parameters(float(epsilon), 0.0))
            case Approximate(epsilon, delta):
                one = pld.from_privacy_parameters(parameters(float(epsilon), float(delta)))
            case Gaussian(mu_squared):
                one = pld.from_gaussian_mechanism(1 / math.sqrt(mu_squared))
            case (Draw(epsilon), share):  # with losses t and t - ε, t = share ε
                t, budget = float(share * epsilon), float(epsilon)
                p = math.exp(t) * math.expm1(budget - t) / math.expm1(budget)
                upper = {0: math.log(p), 1: math.log1p(-p)}
                lower = {0: upper[0] - t, 1: upper[1] - t + budget}
                one = pld.from_two_probability_mass_functions(lower, upper)
        total = total.compose(one)
    return total


class TestComposition:
    """Against the convolutions of dp-accounting."""

    @pytest.mark.parametrize(
        "steps",
        [
            (Pure(HALF),),
            (Pure(Fraction(3, 10)), Pure(HALF), Pure(TENTH)),
            (Pure(TENTH),) * 12,
            (Approximate(HALF, Fraction(1, 100)), Pure(TENTH)),
            (Approximate(Fraction(3, 10), Fraction(1, 10**4)),) * 3,
            (Gaussian(TENTH), Pure(HALF)),
            (
                Pure(Fraction(1, 5)),
                Gaussian(TENTH),
                Approximate(Fraction(1, 5), Fraction(1, 10**5)),
            ),
        ],
    )
    @pytest.mark.parametrize("epsilon", [0.05, 0.4, 0.9])
    def test_what_is_fixed_in_advance(self, steps, epsilon):
        theirs = composed(steps).get_delta_for_epsilon
        ours = plan_delta(Steps(steps), Fraction(epsilon))
        # theirs rounds each loss up to a multiple of 1e-4, ours is a broken line between kinks
        assert theirs(epsilon + 2e-4 * len(steps)) <= ours <= 1.01 * theirs(epsilon - 0.02)

    @pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.7])
    def test_draws(self, epsilon):
        """Chosen one after the other they cost no less than fixed ones, and little more."""
        rest = (Gaussian(Fraction(1, 20)), Pure(TENTH))
        best = max(
            composed((*[(Draw(HALF), Fraction(k, 20))] * 2, *rest)).get_delta_for_epsilon(
                epsilon + 1e-3
            )
            for k in range(1, 20)
        )
        ours = plan_delta(Steps((Draw(HALF), Draw(HALF), *rest)), Fraction(epsilon))
        assert 0.98 * best <= ours <= 1.3 * best

    def test_gaussian_budgets_of_pure_events(self):
        mechanism = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
        for epsilon in (0.1, 1.0, 4.0):
            sigma = 1 / math.sqrt(pure_mu_squared(epsilon))
            curve = mechanism.GaussianPrivacyLoss(sigma).get_delta_for_epsilon
            assert curve(0) == pytest.approx(math.tanh(epsilon / 2), rel=1e-9)
            for at in np.linspace(0, epsilon, 9):
                response = (math.exp(epsilon) - math.exp(at)) / (1 + math.exp(epsilon))
                assert curve(at) >= response * (1 - 1e-9)

    def test_prices_add_up_to_no_less_than_the_composition(self):
        """ε, ρ and μ² by their sums, converted, against δ by convolution."""
        steps = (Pure(TENTH), Gaussian(Fraction(1, 50)), (Draw(Fraction(1, 5)), HALF))
        total = composed(steps)
        events = [step[0] if isinstance(step, tuple) else step for step in steps]
        mu_squared = sum(map(mu_squared_price, events))
        for epsilon in (0.1, 0.3, 0.6):
            true = total.get_delta_for_epsilon(epsilon + 1e-3)
            assert true <= gaussian_delta(mu_squared, Fraction(epsilon))
