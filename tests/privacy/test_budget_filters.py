"""What budgets admit: never more than (ε, δ), by dp-accounting and by games that are solved."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import norm

from skpublicdp import PrivacyBudget
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
    gaussian_mu_squared,
    mu_squared_price,
    plan_delta,
    pure_mu_squared,
    rho_price,
    subsampled_epsilon,
    zcdp_epsilon,
)
from skpublicdp.exceptions import PrivacyBudgetError
from tests.internals.accounting import (
    ZERO_SPENT,
    Filter,
    SpentTotals,
    remaining_plans,
    without_failures,
)

pytestmark = pytest.mark.once

TENTH = Draw(Fraction(1, 10))
MILLIONTH = Fraction(1, 10**6)


def spend_all(budget, events):
    """Offer events in turn; return those that are admitted."""
    admitted = []
    for event in events:
        try:
            budget.spend(event)
        except PrivacyBudgetError:
            continue
        admitted.append(event)
    return admitted


# true costs of fixed sequences, by dp-accounting


def pair_of(privacy_loss, upper, lower):
    """Make a privacy loss distribution of two probability vectors, with losses rounded down."""
    return privacy_loss.from_two_probability_mass_functions(
        {o: math.log(p) for o, p in enumerate(lower) if p},
        {o: math.log(p) for o, p in enumerate(upper) if p},
        pessimistic_estimate=False,
        value_discretization_interval=2e-4,
        symmetric=False,
    )


def worst_pair(event, where):
    """Return the probabilities of outcomes of a worst mechanism of its kind on neighbours.

    `where` in (0, 1) is the place of the interval in which the loss of a draw lies.
    """
    match event:
        case Draw(epsilon):
            high, whole = where * float(epsilon), float(epsilon)
            p = math.expm1(whole - high) / (math.exp(whole - high) - math.exp(-high))
            q = p * math.exp(-high)
            return (p, 1 - p), (q, 1 - q)
        case Pure(epsilon):
            p = 1 / (1 + math.exp(-float(epsilon)))
            return (p, 1 - p), (1 - p, p)
        case Approximate(epsilon, delta):
            p, lost = 1 / (1 + math.exp(-float(epsilon))), float(delta)
            rest = 1 - lost
            return (lost, 0, rest * p, rest * (1 - p)), (0, lost, rest * (1 - p), rest * p)
        case Gaussian(mu_squared):  # seen in six cells
            mu = math.sqrt(mu_squared)
            ends = mu / 2 + np.linspace(-1.5, 2.5, 5)
            below = (np.concatenate([[0], ndtr(ends - mean), [1]]) for mean in (mu, 0))
            return tuple(np.diff(next(below)).tolist()), tuple(np.diff(next(below)).tolist())


def true_delta(events, epsilon, *, where=0.5, option=0):
    """Return δ(ε) of mechanisms run one after the other, rounded down."""
    privacy_loss = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    total = pair_of(privacy_loss, (1,), (1,))
    todo, mu_squared = list(events), Fraction(0)
    while todo:
        event = todo.pop()
        match event:
            case Steps(parts):
                todo += parts
            case Either(options):
                todo.append(options[option % len(options)])
            case Subsampled(rate, base, _):
                # the whole is pure, and no more is known of it
                (spent, _) = basic_price(base)
                todo.append(Pure(Fraction(subsampled_epsilon(spent, rate)) * Fraction(999, 1000)))
            case Gaussian(more):
                mu_squared += more
            case _:
                total = total.compose(pair_of(privacy_loss, *worst_pair(event, where)))
    if mu_squared:
        noise = privacy_loss.from_gaussian_mechanism(
            1 / math.sqrt(mu_squared),
            pessimistic_estimate=False,
            value_discretization_interval=2e-4,
            use_connect_dots=False,
        )
        total = total.compose(noise)
    return total.get_delta_for_epsilon(float(epsilon))


small = st.fractions(Fraction(1, 100), Fraction(1, 2), max_denominator=100)
squares = st.fractions(Fraction(1, 1000), Fraction(1, 20), max_denominator=1000)
single = st.one_of(
    small.map(Draw),
    small.map(Pure),
    squares.map(Gaussian),
    st.builds(Subsampled, st.just(Fraction(1, 10)), small.map(Pure)),
)
unsure = st.builds(Approximate, small, st.sampled_from([MILLIONTH / 2, MILLIONTH / 40]))


def trees_of(leaves):
    return st.recursive(
        leaves,
        lambda inside: st.one_of(
            st.lists(inside, min_size=1, max_size=3).map(Steps),
            st.lists(inside, min_size=1, max_size=2).map(Either),
        ),
        max_leaves=4,
    )


tree = trees_of(single)
caps = st.sampled_from(
    [
        (1, 0, "auto"),
        (1, MILLIONTH, "auto"),
        (2, Fraction(1, 100), "auto"),
        (1, MILLIONTH, "pure"),
        (1, MILLIONTH, "zcdp"),
        (1, MILLIONTH, "gdp"),
        (Fraction(1, 4), Fraction(1, 100), "gdp"),
    ]
)


@settings(max_examples=50)
@given(
    caps,
    st.lists(st.one_of(tree, unsure), min_size=1, max_size=16),
    st.sampled_from([0.2, 0.5, 0.8]),
    st.integers(0, 1),
)
def test_what_is_admitted_never_costs_more(cap, events, where, option):
    epsilon, delta, accountant = cap
    budget = PrivacyBudget(epsilon, delta, accountant=accountant)
    admitted = spend_all(budget, events)
    assert [entry.event for entry in budget.ledger] == admitted
    spent = true_delta(admitted, epsilon, where=where, option=option)
    assert spent <= float(delta) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(("accountant", "loose"), [("auto", 1.012), ("gdp", 1.003), ("zcdp", 1.09)])
def test_what_is_spent_is_nearly_what_noise_costs(accountant, loose):
    """Gaussian differential privacy converts exactly, zCDP by a bound."""
    budget = PrivacyBudget(Fraction(3, 2), MILLIONTH, accountant=accountant)
    noise = [Gaussian(Fraction(1, 100))] * 3
    spend_all(budget, noise)
    spent = budget.spent()
    assert spent.delta == 1e-6
    assert true_delta(noise, spent.epsilon) <= MILLIONTH
    assert true_delta(noise, spent.epsilon / loose) > MILLIONTH


def test_what_is_spent_is_what_unsure_fits_cost():
    budget = PrivacyBudget(Fraction(3, 2), MILLIONTH, accountant="pure")
    fits = [Approximate(Fraction(1, 3), MILLIONTH / 4)] * 3
    spend_all(budget, fits)
    assert budget.spent() == (1.0, 7.5e-07)
    assert true_delta(fits, 1.0) == pytest.approx(7.5e-7, rel=1e-3)


def test_zcdp_totals_agree_with_dp_accounting():
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.rdp import RdpAccountant

    budget = PrivacyBudget(2, MILLIONTH, accountant="zcdp")
    events = [TENTH, Pure(Fraction(1, 5)), Gaussian(Fraction(1, 50)), Steps((TENTH, TENTH))]
    spend_all(budget, events)
    rho = 3 * Fraction(1, 800) + Fraction(1, 50) + Fraction(1, 100)
    orders = 1 + np.geomspace(0.01, 1000, 4000)
    accountant = RdpAccountant(orders).compose(dp_accounting.ZCDpEvent(float(rho)))
    expected = accountant.get_epsilon(1e-6)
    assert budget.spent().epsilon == pytest.approx(expected, rel=1e-4)
    assert budget.spent().epsilon <= expected + 1e-9  # theirs tries some orders only


# the whole game, solved: the analyst chooses after every answer


def menu(epsilon, delta):
    unit = Fraction(epsilon)
    return (
        [Draw(unit / 4), Draw(unit / 2), Draw(unit), Pure(unit / 4), Pure(unit / 2)],
        [
            Approximate(unit / 4, delta / 20),
            Approximate(unit / 4, delta / 2),
            Approximate(unit / 2, delta),
        ],
    )


def places(event):
    """Return where the interval of the losses of a mechanism may lie, see `worst_pair`."""
    return (0.1, 0.5, 0.75, 0.9) if isinstance(event, Draw) else (0.5,)


def outcomes(event, where):
    """Return (probability, privacy loss) of the outcomes of a worst mechanism."""
    pairs = zip(*worst_pair(event, where), strict=True)
    return [(p, math.log(p / q) if q else math.inf) for p, q in pairs if p]


def value_of_the_game(cap, *, depth, events, goal=None, start=ZERO_SPENT):
    """Return the largest δ(ε) that adaptive choices can reach, with noise to end with."""
    goal = float(cap.epsilon) if goal is None else goal
    most = gaussian_mu_squared(cap.epsilon, cap.delta) if cap.delta else Fraction(0)

    admits = cache(cap.admits)
    choices = [
        (SpentTotals.from_event(event), [outcomes(event, where) for where in places(event)])
        for event in events
    ]

    @cache
    def noise_left(total):
        """All of the noise that is still admitted, in 1/8 of the most."""
        for eighths in range(8, 0, -1):
            event = Gaussian(most * eighths / 8)
            if most and cap.admits(total + SpentTotals.from_event(event)):
                return math.sqrt(event.mu_squared)
        return 0.0

    @cache
    def value(total, loss, left):
        best = max(0.0, -math.expm1(goal - loss))
        mu, needed = noise_left(total), goal - loss
        if mu:
            tails = ndtr([mu / 2 - needed / mu, -mu / 2 - needed / mu])
            best = max(best, tails[0] - math.exp(needed) * tails[1])
        if not left:
            return best
        for cost, mechanisms in choices:
            after = total + cost
            if not admits(after):
                continue
            for mechanism in mechanisms:
                reached = 0.0
                for p, more in mechanism:
                    reached += (
                        p
                        if more == math.inf
                        else p * value(after, round(loss + more, 12), left - 1)
                    )
                best = max(best, reached)
        return best

    return value(start, 0.0, depth)


class BasicOrGdp(Filter):
    """What must not be done: each of two filters has all of δ."""

    def admits(self, total):
        basic = Filter(self.epsilon, self.delta, "pure")
        return basic.admits(total) or Filter(self.epsilon, self.delta, "gdp").admits(total)


class FailuresForFree(Filter):
    """What must not be done: failures have all of δ, and noise has its shares of it, too."""

    def failure_allowance(self, total):
        return self.delta


@pytest.mark.one_in(2)
@pytest.mark.parametrize("accountant", ["auto", "pure", "zcdp", "gdp"])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1, Fraction(1, 50)), (Fraction(1, 4), Fraction(1, 10))]
)
def test_adaptive_choices_never_pass_the_cap(accountant, epsilon, delta):
    cap = Filter(Fraction(epsilon), delta, accountant)
    known, unsure = menu(epsilon, delta)
    found = value_of_the_game(cap, depth=4, events=(*known, *unsure))
    assert found <= float(delta) * (1 + 1e-9)
    assert found > 0.3 * float(delta)  # the game is worth playing


def test_adaptive_choices_with_noise_in_the_middle_never_pass_the_cap():
    """Something has been asked before: the first entry alone, which may have all, is no choice."""
    epsilon, delta = Fraction(1), Fraction(1, 50)
    noise = [Gaussian(gaussian_mu_squared(epsilon, delta) * share) for share in (0.125, 0.5)]
    events = [*menu(1, delta)[0], *menu(1, delta)[1], *noise]
    later = ZERO_SPENT._replace(fits=1)
    for cap, least, most in (
        (Filter(epsilon, delta, "auto"), 0.6, 1),
        (FailuresForFree(epsilon, delta, "auto"), 1.2, 2),
    ):
        found = value_of_the_game(cap, depth=3, events=events, start=later)
        assert least * delta < found <= most * delta


def test_adaptive_choices_never_pass_a_pure_cap():
    known, unsure = menu(1, MILLIONTH)
    cap = Filter(Fraction(1), Fraction(0), "pure")
    assert value_of_the_game(cap, depth=4, events=(*known, *unsure)) < 1e-12
    lax = Filter(Fraction(5, 4), Fraction(0), "pure")
    assert value_of_the_game(lax, depth=4, events=known, goal=1.0) > 0.04


def test_basic_composition_with_delta_or_gdp_would_pass_the_cap():
    """Why `auto` leaves all of δ to gdp: two filters that share it are not one of them."""
    epsilon, delta = 1, Fraction(1, 50)
    known, unsure = menu(epsilon, delta)
    shared = BasicOrGdp(Fraction(epsilon), delta, "auto")
    assert value_of_the_game(shared, depth=3, events=(*known, *unsure)) > 1.15 * delta


def test_failures_beyond_their_share_would_pass_the_cap():
    epsilon, delta = 1, Fraction(1, 50)
    known, unsure = menu(epsilon, delta)
    lax = FailuresForFree(Fraction(epsilon), delta, "auto")
    assert value_of_the_game(lax, depth=3, events=(*known, *unsure)) > 1.15 * delta


def test_the_counterexample_of_the_proof_page():
    """A draw of .1, and then noise where its loss was high, an (ε, δ) mechanism where not."""
    draw = Draw(Fraction(1, 10))
    left = gaussian_mu_squared(Fraction(1), MILLIONTH) - mu_squared_price(draw)
    (p, rest), _ = worst_pair(draw, 0.75)
    steps = Steps((draw, Approximate(Fraction(9, 10), MILLIONTH)))
    assert (SpentTotals.from_event(steps).pure, SpentTotals.from_event(steps).delta) == (
        1,
        MILLIONTH,
    )
    reached = p * gaussian_delta(left, exact_fraction(1 - 0.075)) + rest * 1e-6
    assert reached == pytest.approx(1.27e-6, rel=0.01)


def test_the_natural_filter_would_pass_the_cap():
    """Two paths with δ each, and the choice between them after the first answer: 1.93 δ."""
    epsilon = Fraction(1)
    noise = Gaussian(gaussian_mu_squared(epsilon, MILLIONTH) / 10)
    draw, more = Draw(Fraction(786, 1000)), Gaussian(Fraction(504, 10_000))
    for path in (Steps((noise, draw)), Steps((noise, more))):
        assert plan_delta(path, epsilon) <= MILLIONTH
    assert plan_delta(Steps((noise, Either((draw, more)))), epsilon) > 1.9e-6


# prices


def test_prices_are_those_of_the_table():
    epsilon = Fraction(1, 2)
    noise, nothing = Gaussian(epsilon), Fraction(0)
    pure, draw = SpentTotals.from_event(Pure(epsilon)), SpentTotals.from_event(Draw(epsilon))
    assert (pure.rho, draw.rho) == (epsilon**2 / 2, epsilon**2 / 8)
    assert 1 <= draw.mu_squared / Fraction(11, 112) <= 1 + Fraction(1, 2**62)
    for one in (pure, draw):
        assert (one.delta, one.pure, one.noise, one.noisy, one.fits) == (0, epsilon, 0, 0, 1)
    assert SpentTotals.from_event(noise) == (0, epsilon / 2, epsilon, 0, epsilon, 1, 1)
    assert SpentTotals.from_event(Approximate(epsilon, MILLIONTH)) == pure._replace(delta=MILLIONTH)
    assert SpentTotals.from_event(Approximate(nothing, MILLIONTH)).fits == 1
    assert (
        SpentTotals.from_event(Gaussian(nothing)) == SpentTotals.from_event(Steps(())) == ZERO_SPENT
    )
    tenth = Fraction(1, 10)
    below = exact_fraction(subsampled_epsilon(epsilon, tenth))
    assert SpentTotals.from_event(Subsampled(tenth, Pure(epsilon))).pure == below
    failing = SpentTotals.from_event(Subsampled(tenth, Approximate(epsilon, MILLIONTH)))
    assert failing == SpentTotals.from_event(Pure(below))._replace(delta=failing.delta)
    assert failing.delta == pytest.approx(MILLIONTH / 10)
    assert SpentTotals.from_event(Subsampled(tenth, noise)) == (0, None, None, 0, None, 1, 1)
    parts = (noise, Approximate(epsilon, MILLIONTH), Pure(epsilon))
    mixed = SpentTotals.from_event(Steps(parts))
    assert (mixed.delta, mixed.pure, mixed.noisy, mixed.fits) == (MILLIONTH, 0, 1, 1)
    assert mixed.noise == mixed.mu_squared == pytest.approx(epsilon + 2 * pure.mu_squared)
    assert SpentTotals.from_event(Either(parts)).mu_squared == max(epsilon, pure.mu_squared)
    both = Steps((Either((Draw(epsilon), Gaussian(Fraction(1, 8)))), Draw(epsilon)))
    assert basic_price(both) == (math.inf, 0)
    assert rho_price(both) == Fraction(1, 16) + Fraction(1, 32)
    assert mu_squared_price(both) == Fraction(1, 8) + Fraction(11, 112)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 16.0, 40.0])
def test_a_pure_mechanism_is_gaussian_private_at_its_price(epsilon):
    """Randomised response attains the corner of its trade-off, and is below the curve elsewhere."""
    mu = math.sqrt(mu_squared_price(Pure(exact_fraction(epsilon))))
    corner = -math.log1p(math.exp(epsilon))
    assert norm.logcdf(-mu / 2) == pytest.approx(corner, rel=1e-9)
    levels = np.geomspace(1e-30, 0.5, 200)
    power = np.minimum(np.exp(epsilon) * levels, 1 - np.exp(-epsilon) * (1 - levels))
    allowed = norm.sf(norm.isf(levels) - mu)
    assert (power <= allowed * (1 + 1e-9)).all()


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 16.0, 20.0, 40.0])
def test_a_draw_is_gaussian_private_at_its_price(epsilon):
    mu = math.sqrt(mu_squared_price(Draw(exact_fraction(epsilon))))
    logits = np.linspace(-60, 60, 4001)
    # the vertex of a two-point pair whose losses are ε apart (docs/proofs/moments.md)
    upper, lower = logits + epsilon / 2, logits - epsilon / 2
    high = np.where(upper > 0, norm.isf(expit(-upper)), norm.ppf(expit(upper)))
    low = np.where(lower > 0, norm.isf(expit(-lower)), norm.ppf(expit(lower)))
    assert (high - low).max() <= mu * (1 + 1e-9)
    if epsilon <= 1:
        assert (high - low).max() > mu * 0.985


def expit(x):
    return np.exp(-np.logaddexp(0, -x))


@settings(max_examples=100)
@given(st.fractions(0, 60, max_denominator=50), st.fractions(0, 60, max_denominator=50))
def test_pure_prices_are_superadditive(one, other):
    """So what remains of a pure plan never costs more than the plan (docs/proofs/budgets.md)."""
    together = pure_mu_squared(one + other)
    assert pure_mu_squared(one) + pure_mu_squared(other) <= together * (1 + Fraction(1, 2**60))
    assert mu_squared_price(Draw(one)) <= pure_mu_squared(one) * (1 + Fraction(1, 2**60))
    assert rho_price(Draw(one)) <= rho_price(Pure(one))


@settings(max_examples=40)
@given(st.lists(st.one_of(tree, unsure), max_size=4))
def test_prices_survive_being_written_down(events):
    total = ZERO_SPENT
    for event in events:
        total = total + SpentTotals.from_event(event)
    assert SpentTotals.from_text(total.to_text()) == total


# what is left of a plan


def nodes(plan):
    yield plan
    if isinstance(plan, Steps | Either):
        for part in plan.parts if isinstance(plan, Steps) else plan.options:
            yield from nodes(part)


def known(plan):
    return mu_squared_price(without_failures(plan)) < math.inf


planned = tree.filter(known)
unsure_too = trees_of(st.one_of(single, unsure)).filter(known)
LITTLE = 1 + Fraction(1, 2**50)
"""For prices that are rounded up, and sums of them."""


@settings(max_examples=100)
@given(st.data(), unsure_too)
def test_no_run_of_a_plan_costs_more_than_the_plan(data, plan):
    """Whatever is asked and admitted, and however late it is chosen; for prices, not for curves."""
    left, run = [plan], []
    for _ in range(5):
        parts = [node for one in left for node in nodes(one)]
        event = data.draw(st.one_of(single, unsure, st.sampled_from(parts or [TENTH])))
        if data.draw(st.booleans()) and isinstance(event, Gaussian):
            event = Gaussian(event.mu_squared * 3 / 2)  # perhaps of two steps of noise
        following = [rest for one in left for rest in remaining_plans(one, event)]
        if following:
            left, run = following, [*run, event]
    assert sum(basic_price(event)[1] for event in run) <= basic_price(plan)[1]
    for price in (lambda e: basic_price(e)[0], rho_price, mu_squared_price):
        assert (
            sum(price(without_failures(e)) for e in run) <= price(without_failures(plan)) * LITTLE
        )


@settings(max_examples=60)
@given(st.data(), planned, st.sampled_from([Fraction(1, 10), Fraction(1, 2)]))
def test_an_event_and_what_it_leaves_are_within_the_plan(data, plan, epsilon):
    """For curves, as long as what is left is chosen with the event."""
    event = data.draw(st.one_of(single, st.sampled_from([*nodes(plan)])))
    whole = plan_delta(plan, epsilon)
    for rest in remaining_plans(plan, event):
        assert plan_delta(Steps((event, rest)), epsilon) <= whole * 1.03 + 1e-9


# groups


@settings(max_examples=30)
@given(
    caps,
    st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.one_of(single, unsure)), max_size=14),
)
def test_each_group_stays_within_the_cap(cap, asked):
    epsilon, delta, accountant = cap
    budget = PrivacyBudget(epsilon, delta, accountant=accountant)
    for name, event in asked:
        spend_all(budget.group(name) if name else budget, [event])
    for name in ("a", "b"):
        own = [entry.event for entry in budget.ledger if entry.group in (None, name)]
        assert true_delta(own, epsilon) <= float(delta) * (1 + 1e-9) + 1e-12


def test_spent_is_the_least_budget_that_would_have_done():
    events = [TENTH, Gaussian(Fraction(1, 200)), Draw(Fraction(1, 4))]
    budget = PrivacyBudget(2, 1e-6)
    spend_all(budget, events)
    spent = budget.spent()
    assert spend_all(PrivacyBudget(*spent), events) == events
    assert spend_all(PrivacyBudget(spent.epsilon * 0.9999, spent.delta), events) != events
    assert spent.epsilon < zcdp_epsilon(sum(map(rho_price, events)) * 2, MILLIONTH)
