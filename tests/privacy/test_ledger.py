"""The ledger: what it admits, what it writes down before it draws, and what its receipts say."""

import itertools
import json
import math
import pickle
import warnings
from fractions import Fraction
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from skpublicdp import (
    GenericLearnerClassifier,
    PPMHalfspaceClassifier,
    PrivacyBudget,
    SemiPrivateClassifier,
)
from skpublicdp.accounting import (
    REPLACE_ONE,
    Approximate,
    Draw,
    Either,
    Gaussian,
    Mechanism,
    PrivacyReceipt,
    Pure,
    Sensitivity,
    Steps,
    basic_price,
    exact_fraction,
    gaussian_epsilon,
    gaussian_mu_squared,
    mu_squared_price,
    noise_scale,
    plan_delta,
    rho_price,
    zcdp_rho,
)
from skpublicdp.exceptions import LargeDeltaWarning, PrivacyBudgetError
from skpublicdp.hypotheses import Halfspaces, Stumps
from skpublicdp.sanitizers import QuantileSanitizer
from tests.accounting.test_events import SINGLE, proposals, trees
from tests.helpers import assert_fits, assert_private
from tests.internals.accounting import NO_EVENT
from tests.internals.mechanisms import Leaf, probabilities
from tests.internals.privacy import (
    Ledger,
    ledger_module,
    new_ticket,
    noise_is_representable,
)
from tests.internals.sanitizers import COLUMN_DRAW_NAME
from tests.kit import Recorder

HALF, TENTH, MILLIONTH = Fraction(1, 2), Fraction(1, 10), Fraction(1, 10**6)
FAMILY = Leaf(np.array([0, 1, 3]))
TABLE = np.array([[5, 0], [-2, 7]])
UNIT = Sensitivity(1, 1)
SAID = {"name": "something", "proof": "somewhere"}


def drawn(ledger, epsilon=HALF, name="draw"):
    return ledger.draw(FAMILY, Draw(epsilon), 1, name=name, proof="selection.md")


def noisy(ledger, event, table=TABLE, sensitivity=UNIT, name="noise"):
    return ledger.add_noise(table, sensitivity, event, name=name, proof="noise.md")


def lines(receipt):
    return [(m.name, m.epsilon) for m in receipt.mechanisms]


class Bits:
    """A source of randomness that tells what had been written when it was asked."""

    secure = True

    def __init__(self, look=lambda: None):
        self.look, self.seen, self.source = look, [], np.random.default_rng(0)

    def bits(self, count):
        self.seen.append(self.look())
        return int.from_bytes(self.source.bytes(64)) >> (512 - count)

    def words(self, count):
        self.seen.append(self.look())
        return np.frombuffer(self.source.bytes(8 * count), dtype=np.uint64)


def watched(bits, *args, **kwargs):
    with mock.patch.object(ledger_module, "random_bits", return_value=bits):
        return Ledger(*args, **kwargs)


USES = {
    "draw": drawn,
    "Laplace": lambda ledger: noisy(ledger, Pure(HALF)),
    "Gaussian": lambda ledger: noisy(ledger, Gaussian(ledger.event.mu_squared / 2)),
    "child": lambda ledger: drawn(ledger.sub_ledger(Pure(HALF), **SAID)),
    "theorem": lambda ledger: drawn(ledger.sub_ledger(Pure(HALF), by_theorem=True, **SAID)),
    "part": lambda ledger: drawn(ledger.split(2)[1]),
}


def opened(call, bits, budget=None, **settings):
    noise = call == "Gaussian"
    epsilon, delta = (2, MILLIONTH) if noise else (1, 0)
    return watched(bits, epsilon, delta, budget=budget, **settings)


class TestWrittenAhead:
    @pytest.mark.parametrize("call", USES)
    def test_the_entry_comes_before_the_draw(self, call):
        budget = PrivacyBudget(2, 1e-6, for_tests=True)
        bits = Bits(look=lambda: [entry.event for entry in budget.ledger])
        ledger = opened(call, bits, budget, who="Somebody")
        ledger.read(100)
        assert not bits.seen
        assert not budget.ledger
        USES[call](ledger)
        assert bits.seen
        assert set(map(tuple, bits.seen)) == {(ledger.event,)}
        ((number, _, who, event, n_rows, group, _),) = budget.ledger
        assert (number, who, event, n_rows, group) == (1, "Somebody", ledger.event, 100, None)
        assert ledger.receipt().entry == 1

    def test_one_entry_for_all_of_a_fit(self):
        budget = PrivacyBudget(1, for_tests=True)
        ledger = Ledger(1, budget=budget)
        for part in ledger.split(2):
            drawn(part.sub_ledger(Pure(HALF), **SAID))
            drawn(part)
        assert len(budget.ledger) == 1
        assert budget.spent().epsilon == 1

    @pytest.mark.parametrize("call", sorted(USES.keys() - {"part"}))
    def test_overspending_touches_no_bit(self, call):
        bits = Bits()
        ledger = opened(call, bits)
        if call == "Gaussian":
            noisy(ledger, ledger.event)
        else:
            drawn(ledger, Fraction(1))
        before, receipt = len(bits.seen), ledger.receipt()
        with pytest.raises(PrivacyBudgetError, match="costs more than"):
            USES[call](ledger)
        assert len(bits.seen) == before
        assert ledger.receipt() == receipt

    @pytest.mark.parametrize("call", USES)
    def test_a_budget_that_is_empty_by_now(self, call):
        """Another fit came between the look at the budget and the first draw."""
        budget, bits = PrivacyBudget(2, 1e-6, for_tests=True), Bits()
        ledger = opened(call, bits, budget)
        other = Ledger(2, budget=budget)
        drawn(other)
        with pytest.raises(PrivacyBudgetError, match="is left of"):
            USES[call](ledger)
        assert not bits.seen
        assert len(budget.ledger) == 1
        assert ledger.receipt().epsilon == 0.0

    def test_a_budget_that_cannot_pay_refuses_at_once(self):
        budget, bits = PrivacyBudget(1, for_tests=True), Bits()
        drawn(Ledger(Fraction(7, 10), budget=budget))
        with pytest.raises(PrivacyBudgetError, match=r"ε = 0\.4.*ε = 0\.3"):
            watched(bits, Fraction(4, 10), budget=budget)
        assert not bits.seen

    def test_a_fit_that_fails_has_spent(self):
        budget = PrivacyBudget(1, for_tests=True)
        ledger = Ledger(1, budget=budget)
        with (
            mock.patch.object(Ledger, "_sample_member", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            drawn(ledger)
        assert budget.remaining("pure") == 0


class TestPlans:
    def test_a_plan_narrows_what_is_held(self):
        ledger = Ledger(1)
        assert ledger.event == Pure(Fraction(1))
        ledger.plan(Steps((Draw(HALF), Draw(HALF))))
        drawn(ledger)
        with pytest.raises(PrivacyBudgetError):
            noisy(ledger, Pure(TENTH))
        drawn(ledger, TENTH)
        with pytest.raises(PrivacyBudgetError):  # no more draws, whatever is left of ε
            drawn(ledger, TENTH)
        assert ledger.receipt().event == Steps((Draw(HALF), Draw(HALF)))

    def test_a_budget_is_charged_the_plan(self):
        budget = PrivacyBudget(1, 1e-6, for_tests=True)
        ledger = Ledger(1, MILLIONTH, budget=budget)
        ledger.plan(Gaussian(Fraction(1, 100)))
        noisy(ledger, Gaussian(Fraction(1, 200)))
        assert [entry.event for entry in budget.ledger] == [Gaussian(Fraction(1, 100))]

    @pytest.mark.parametrize("accountant", [None, "auto", "pure", "zcdp", "gdp"])
    def test_what_fits(self, accountant):
        """(ε, δ), in the currency of the budget."""
        budget = accountant and PrivacyBudget(4, 1e-5, accountant=accountant, for_tests=True)
        ledger = Ledger(1, MILLIONTH, budget=budget)
        mu_squared = ledger.event.mu_squared
        by_curve = gaussian_mu_squared(Fraction(1), MILLIONTH)
        assert mu_squared == (2 * zcdp_rho(1, MILLIONTH) if accountant == "zcdp" else by_curve)
        more = mu_squared * (1 + Fraction(1, 1000))
        assert ledger.fits(Gaussian(mu_squared))
        assert not ledger.fits(Gaussian(more))
        assert not ledger.fits(Steps((Gaussian(mu_squared), Draw(TENTH))))
        # one draw of ε is pure; where a budget adds up μ² or ρ this is no help
        assert ledger.fits(Draw(1)) == (accountant in (None, "pure"))
        assert ledger.fits(Approximate(1, MILLIONTH)) == (accountant in (None, "auto", "pure"))
        assert not ledger.fits(Approximate(1, 2 * MILLIONTH))

        def make_plan(scale):
            return Steps((Gaussian(scale), Draw(scale), Either((Draw(scale), Gaussian(scale)))))

        scale = ledger.calibrate(make_plan)
        assert ledger.fits(make_plan(scale))
        assert not ledger.fits(make_plan(scale * (1 + Fraction(1, 500))))
        for count in (1, 2, 8, 40, 200):
            epsilon = ledger.equal_draws(count)
            assert epsilon >= (Fraction(1, count) if accountant in (None, "pure") else 0)
            ledger.plan(Steps((Draw(epsilon),) * count))
            plan = Steps((Draw(epsilon * (1 + Fraction(1, 500))),) * count)
            assert not ledger.fits(plan) or count > 128
            price, cap = {
                "auto": (mu_squared_price, by_curve),
                "gdp": (mu_squared_price, by_curve),
                "zcdp": (rho_price, zcdp_rho(1, MILLIONTH)),
            }.get(accountant, (lambda plan: plan_delta(plan, 1), MILLIONTH))
            assert price(ledger.event) <= cap

    @pytest.mark.parametrize("accountant", ["auto", "pure", "zcdp"])
    def test_plans_without_a_scale(self, accountant):
        ledger = Ledger(
            1, MILLIONTH, budget=PrivacyBudget(4, 1e-5, accountant=accountant, for_tests=True)
        )
        with pytest.raises(ValueError, match="exceeds the budget"):
            ledger.calibrate(lambda scale: Steps((Gaussian(1), Draw(scale))))
        with pytest.raises(ValueError, match="fits the budget"):
            ledger.calibrate(lambda scale: Draw(TENTH))

    def test_equal_draws_without_delta_add_up(self):
        ledger = Ledger(Fraction(3, 4))
        assert ledger.equal_draws(3) == Fraction(1, 4)
        assert not ledger.fits(Steps((Draw(Fraction(1, 4)),) * 4))

    def test_equal_draws_gain_by_the_plan_calculus(self):
        """Eight draws: 7 to 11% more than by zCDP, and more than by adding up ε."""
        alone = Ledger(1, MILLIONTH).equal_draws(8)
        with_zcdp = Ledger(
            1, MILLIONTH, budget=PrivacyBudget(2, 1e-5, accountant="zcdp", for_tests=True)
        )
        assert 1.06 < alone / with_zcdp.equal_draws(8) < 1.12
        assert alone > Fraction(1, 8)

    @pytest.mark.parametrize(
        "plan", [Draw(Fraction(11, 10)), Gaussian(TENTH), Steps((Pure(HALF), Pure(HALF + TENTH)))]
    )
    def test_a_plan_that_does_not_fit_is_refused(self, plan):
        with pytest.raises(PrivacyBudgetError, match="than epsilon = 1"):
            Ledger(1, event=plan)
        ledger = Ledger(1)
        with pytest.raises(PrivacyBudgetError, match="must not cost more"):
            ledger.plan(plan)
        drawn(ledger, Fraction(1))  # it holds what it held

    def test_plans_are_made_before_anything_is_spent(self):
        ledger = Ledger(1)
        drawn(ledger, TENTH)
        with pytest.raises(RuntimeError, match="before the ledger"):
            ledger.plan(Draw(TENTH))
        ledger = Ledger(1)
        ledger.split(2)
        with pytest.raises(RuntimeError, match="before the ledger"):
            ledger.plan(Draw(TENTH))

    def test_sub_ledgers_and_parallel_ledgers_may_plan_less_and_no_more(self):
        sub_ledger = Ledger(1).sub_ledger(Pure(TENTH), **SAID)
        with pytest.raises(PrivacyBudgetError, match="must not cost more"):
            sub_ledger.plan(Pure(HALF))
        sub_ledger.plan(Draw(TENTH))
        drawn(sub_ledger, TENTH)
        with pytest.raises(PrivacyBudgetError):
            drawn(sub_ledger, TENTH)
        (part,) = Ledger(1).split(1)
        with pytest.raises(PrivacyBudgetError, match="must not cost more"):
            part.plan(Pure(Fraction(11, 10)))
        part.plan(Steps((Draw(HALF), Draw(HALF))))
        drawn(part)
        drawn(part)

    def test_senseless_noise(self):
        ledger = Ledger(1)
        with pytest.raises(TypeError, match="got Draw"):
            noisy(ledger, Draw(HALF))
        drawn(ledger, Fraction(1))


LATE = Either(
    tuple(
        Steps((Gaussian(Fraction(56, 10_000)), after))
        for after in (Draw(Fraction(78, 100)), Gaussian(Fraction(504, 10_000)))
    )
)
"""Either way it is (1, 1e-6); chosen by the first answer it is not."""


def admitted(plan, events):
    """Whether a ledger with a plan lets these events pass, one after the other."""
    ledger = Ledger(1000, HALF, event=plan)
    try:
        for event in events:
            ledger.sub_ledger(event, by_theorem=True, **SAID)
    except PrivacyBudgetError:
        return False
    return True


def chosen_late(plan, data, before=(), depth=3):
    """What an adversary makes of it, who chooses between two events after every answer."""
    open_now = [event for event in proposals(plan) if admitted(plan, (*before, event))]
    if not depth or not open_now:
        return NO_EVENT
    ways = {data.draw(st.sampled_from(open_now)) for _ in range(2)}
    return Either(
        tuple(Steps((way, chosen_late(plan, data, (*before, way), depth - 1))) for way in ways)
    )


class TestChoices:
    def test_a_choice_that_comes_too_late_is_refused(self):
        first, draw, noise = (
            LATE.options[0].parts[0],
            *(option.parts[1] for option in LATE.options),
        )
        assert (
            plan_delta(LATE, 1)
            <= 1e-6
            < 1.6e-6
            < plan_delta(Steps((first, Either((draw, noise)))), 1)
        )
        assert [admitted(LATE, (first, after)) for after in (draw, noise)].count(True) == 1
        for option in LATE.options:
            ledger = Ledger(1, MILLIONTH, event=LATE)
            ledger.take_option(option)
            noisy(ledger, first)
            (other,) = {draw, noise} - {option.parts[1]}
            with pytest.raises(PrivacyBudgetError):
                ledger.sub_ledger(other, **SAID)
            ledger.sub_ledger(option.parts[1], **SAID)

    def test_what_can_be_chosen(self):
        options = Draw(HALF), Steps((Draw(TENTH), Draw(TENTH)))
        ledger = Ledger(1, event=Steps((Draw(TENTH), Either(options), Draw(TENTH))))
        with pytest.raises(RuntimeError, match="option"):
            ledger.take_option(options[0])
        drawn(ledger, TENTH)
        with pytest.raises(RuntimeError, match="option"):
            ledger.take_option(Draw(TENTH))
        ledger.take_option(options[1])
        with pytest.raises(RuntimeError, match="option"):
            ledger.take_option(options[0])
        for _ in range(3):
            drawn(ledger, TENTH)
        with pytest.raises(PrivacyBudgetError):
            drawn(ledger, TENTH)

    @settings(max_examples=80)
    @given(trees(SINGLE), st.data())
    def test_no_adversary_gets_more_than_the_plan(self, plan, data):
        spent = chosen_late(plan, data)
        for price in (basic_price, mu_squared_price, rho_price):
            assert price(spent) <= price(plan)
        for epsilon in (0, Fraction(3, 10), 1):
            assert plan_delta(spent, epsilon) <= 1.03 * plan_delta(plan, epsilon) + 1e-9


class TestParts:
    def test_each_part_has_all_and_the_whole_has_nothing(self):
        ledger = Ledger(1)
        one, other = ledger.split(2)
        drawn(one, Fraction(1), "first")
        noisy(other, Pure(HALF), name="second")
        drawn(other, HALF, "third")
        for spent in (one, other, ledger):
            with (
                mock.patch.object(Ledger, "_sample_member", side_effect=AssertionError),
                pytest.raises(PrivacyBudgetError),
            ):
                drawn(spent, Fraction(1, 10**9))
        receipt = ledger.receipt()
        assert lines(receipt) == [("first", 1.0), ("second", 0.5), ("third", 0.5)]
        assert (receipt.epsilon, receipt.event) == (1.0, Pure(Fraction(1)))

    def test_a_ledger_is_split_once_and_before_it_spends(self):
        ledger = Ledger(1)
        ledger.split(2)
        with pytest.raises(RuntimeError, match="called once"):
            ledger.split(2)
        ledger = Ledger(1)
        drawn(ledger)
        with pytest.raises(RuntimeError, match="called once, before"):
            ledger.split(2)


class TestChildren:
    def test_a_sub_ledger_holds_its_event(self):
        ledger = Ledger(1)
        sub_ledger = ledger.sub_ledger(Pure(HALF), name="stage", proof="there")
        drawn(sub_ledger, Fraction(3, 10))
        inner_ledger = sub_ledger.sub_ledger(Pure(TENTH), name="inner", proof="there")
        drawn(inner_ledger, TENTH)
        for one, left in ((inner_ledger, 0), (sub_ledger, TENTH), (ledger, HALF)):
            with pytest.raises(PrivacyBudgetError):
                drawn(one, left + Fraction(1, 10**9))
        drawn(sub_ledger, TENTH)
        drawn(ledger, HALF, "last")
        assert lines(ledger.receipt()) == [("stage", 0.5), ("last", 0.5)]

    def test_by_a_theorem_draws_are_not_added_up(self):
        ledger = Ledger(1)
        sub_ledger = ledger.sub_ledger(Pure(HALF), by_theorem=True, name="level", proof="there")
        for _ in range(5):
            drawn(sub_ledger, Fraction(3))
        assert lines(ledger.receipt()) == [("level", 0.5)]
        drawn(ledger)
        with pytest.raises(PrivacyBudgetError):
            ledger.sub_ledger(Pure(TENTH), by_theorem=True, **SAID)

    def test_a_sub_ledger_is_paid_even_without_events(self):
        ledger = Ledger(1)
        ledger.sub_ledger(Pure(Fraction(1)), **SAID)
        assert ledger.receipt().epsilon == 1.0
        with pytest.raises(PrivacyBudgetError):
            drawn(ledger, TENTH)

    def test_notes_stand_in_place_of_the_line_that_pays(self):
        ledger = Ledger(1)
        drawn(ledger, TENTH, "before")
        sub_ledger = ledger.sub_ledger(Pure(HALF), by_theorem=True, name="stage", proof="there")
        drawn(sub_ledger, Fraction(1), "unsaid")
        sub_ledger.annotate("one", Draw(HALF), "a proof")
        sub_ledger.annotate("two", Pure(HALF), "another")
        drawn(ledger, TENTH, "after")
        receipt = ledger.receipt()
        assert [m.name for m in receipt.mechanisms] == ["before", "one", "two", "after"]
        assert receipt.mechanisms[1] == Mechanism("one", 0.5, 0.0, "a proof", Draw(HALF))


class TestTickets:
    def test_good_for_one_fit(self):
        ticket = new_ticket()
        assert ticket != new_ticket()
        first, copied = Ledger(1, ticket=ticket), Ledger(1, ticket=ticket)
        drawn(first)
        drawn(first)  # the same fit
        bits = Bits()
        for late in (copied, watched(bits, 1, ticket=ticket)):
            with pytest.raises(PrivacyBudgetError, match="one fit only"):
                drawn(late)
            assert late.receipt().epsilon == 0.0
        assert not bits.seen

    def test_with_a_budget_the_file_remembers(self):
        budget, ticket = PrivacyBudget(3, for_tests=True), new_ticket()
        drawn(Ledger(1, budget=budget, ticket=ticket))
        bits = Bits()
        late = watched(bits, 1, budget=budget, ticket=ticket)
        with pytest.raises(PrivacyBudgetError, match="one fit only"):
            drawn(late)
        assert not bits.seen
        assert budget.spent().epsilon == 1.0

    def test_another_process_needs_a_budget(self):
        foreign = "1-" + new_ticket().split("-")[1]
        with pytest.raises(PrivacyBudgetError, match="one fit only"):
            drawn(Ledger(1, ticket=foreign))
        budget = PrivacyBudget(3, for_tests=True)
        drawn(Ledger(1, budget=budget, ticket=foreign))
        assert len(budget.ledger) == 1


class TestNoise:
    @pytest.mark.parametrize("k", [1, 3])
    @pytest.mark.parametrize("sensitivity", [Sensitivity(1, 1), Sensitivity(2, 2)])
    def test_the_event_decides_on_the_noise(self, k, sensitivity):
        moved = Ledger(1, rows_per_person=k).for_person(sensitivity)
        assert moved == (k * sensitivity.absolute, k * k * sensitivity.squared)
        for event, exact in [
            (Pure(Fraction(1, 3)), moved.absolute * 3),
            (Gaussian(Fraction(1, 30)), moved.squared * 30),
        ]:
            ledger = Ledger(1, MILLIONTH, rows_per_person=k, random_state=0, event=event)
            with Recorder() as recorder:
                measured = noisy(ledger, event, sensitivity=sensitivity)
            (call,) = recorder.calls
            np.testing.assert_array_equal(call.exact_input, TABLE)
            np.testing.assert_array_equal(measured.values, call.outcome)
            assert measured.values.shape == TABLE.shape
            assert call.spread == measured.scale
            assert exact <= measured.scale <= exact * (1 + Fraction(1, 2**23))
            assert call.cost <= (event.mu_squared if call.gaussian else event.epsilon)

    def test_every_number_has_noise_of_its_own(self):
        """Against exact probabilities, all numbers of one table together."""
        table = np.full((40, 500), 3)
        laplace = noisy(Ledger(1, random_state=0), Pure(1), table, Sensitivity(2, 2))
        k = np.arange(-40, 41)
        shares = np.exp(-np.abs(k) / 2)
        self.check(laplace, k, shares / shares.sum())
        event = Gaussian(Fraction(1, 9))
        ledger = Ledger(8, MILLIONTH, random_state=1, event=event)
        self.check(noisy(ledger, event, table), k, np.diff(norm.cdf(np.arange(-40.5, 41.5), 0, 3)))

    @staticmethod
    def check(measured, k, shares):
        found = measured.values - 3
        assert_fits([(found == place).sum() for place in k], shares)
        assert measured.variance == pytest.approx((shares * k**2).sum(), rel=1e-6)
        # neighbours in the table are independent: five deviations of a correlation
        one, other = found[:, 1:].ravel(), found[:, :-1].ravel()
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / math.sqrt(one.size)

    def test_what_can_be_drawn(self):
        assert noise_is_representable(Pure(TENTH), UNIT)
        assert not noise_is_representable(Pure(Fraction(1, 10**12)), UNIT)
        assert not noise_is_representable(Gaussian(Fraction(1, 10**24)), UNIT)
        spread, variance = noise_scale(Gaussian(Fraction(1, 50)), Sensitivity(2, 4))
        assert (spread, variance) == (200, 200 + 1 / 12)
        assert 0 < noise_scale(Pure(1000), UNIT)[1] < 1e-12  # it is divided by


class TestPersons:
    """With k rows per person every event holds for all of them at once."""

    @pytest.mark.parametrize("k", [2, 3])
    @pytest.mark.parametrize("sensitivity", [1, 2])
    def test_a_draw_by_brute_force(self, k, sensitivity):
        epsilon = Fraction(7, 10)
        moves = range(-k * sensitivity, k * sensitivity + 1)

        def outcomes(errors, rows):
            with Recorder() as recorder:
                drawn_by = Ledger(epsilon, rows_per_person=rows)
                drawn_by.draw(Leaf(np.array(errors)), Draw(epsilon), sensitivity, **SAID)
            (call,) = recorder.calls
            return probabilities(call.exact_input, call.cost, call.sensitivity, precision=96)

        base = outcomes([10, 10, 10], k)
        tight = Fraction(0)
        for change in itertools.product(moves, repeat=3):
            other = outcomes([10 + c for c in change], k)
            assert_private(base, other, epsilon)
            tight = max(tight, *(base[path][0] / other[path][1] for path in base))
        assert float(tight) > math.exp(0.5 * epsilon)
        # as for one row it would not hold
        first, last = moves[0], moves[-1]
        with pytest.raises(AssertionError):
            assert_private(
                outcomes([10, 10 + last, 10 + last], 1), outcomes([10, 10 + first, 10], 1), epsilon
            )

    @pytest.mark.parametrize("k", [1, 2, 5])
    @pytest.mark.parametrize("delta", [0, 1e-6, 1e-2])
    def test_group_privacy_of_others(self, k, delta):
        """The worst chain of k neighbours, each as far from the last as it may be."""
        epsilon = 0.9
        ledger = Ledger(epsilon, rows_per_person=k)

        def lost(one, failure):
            """max P_0(T) - e^ε P_k(T), over P_0(T)."""
            p = np.linspace(0, 1, 20_001)
            q = p
            for _ in range(k):  # the least that the next probability can be
                q = np.maximum(0, (q - failure) * math.exp(-one))
            return np.max(p - math.exp(epsilon) * q)

        one, failure = ledger.per_row(exact_fraction(epsilon), exact_fraction(delta))
        assert lost(float(one), failure) <= delta * (1 + 1e-9) + 1e-15
        assert lost(float(one), failure) >= 0.3 * delta
        if k > 1:
            assert lost(1.01 * float(one), failure) > delta
            if delta:
                assert lost(float(one), delta) > delta  # a share of δ is not enough either
                assert lost(float(one), delta / k * math.exp(1e-9)) > delta

    def test_the_unit(self):
        ledger = Ledger(1)
        drawn(ledger)
        assert ledger.receipt().unit == REPLACE_ONE
        for k in (1, 4):
            receipt = Ledger(1, rows_per_person=k).receipt(assumptions=("a", "b"))
            assert receipt.unit == f"replace one person, up to {k} private rows"
            assert receipt.assumptions[:2] == ("a", "b")
            assert "which rows belong to the same person" in receipt.assumptions[2]


def percentage_of(receipt):
    """Return the success rate that the sentence of a receipt states."""
    return float(receipt.in_words().split("at most ")[1].split("%")[0])


def majority_of_three(p):
    return p**3 + 3 * p**2 * (1 - p)


class TestReceipts:
    def test_nothing_spent(self):
        ledger = Ledger(1, MILLIONTH)
        ledger.read(7, 3)
        receipt = ledger.receipt()
        assert (receipt.epsilon, receipt.delta, receipt.event) == (0.0, 0.0, NO_EVENT)
        assert (receipt.mechanisms, receipt.entry) == ((), None)
        assert (receipt.n_private, receipt.n_public) == (7, 3)
        assert receipt.mu == receipt.rho == receipt.delta_at(0.0) == 0.0
        assert "which one it was at most 50.0% of the time;" in receipt.in_words()

    def test_every_line(self):
        event = Steps((Gaussian(Fraction(1, 50)), Draw(TENTH)))
        ledger = Ledger(1, MILLIONTH, event=event)
        noisy(ledger, Gaussian(Fraction(1, 100)), name="half")
        noisy(ledger, Gaussian(Fraction(1, 100)), name="other half")
        drawn(ledger, TENTH)
        receipt = ledger.receipt(assumptions=("numbers of rows",))
        assert (receipt.epsilon, receipt.delta, receipt.event) == (1.0, 1e-6, event)
        alone = gaussian_epsilon(Fraction(1, 100), MILLIONTH)
        expected = [("half", alone), ("other half", alone), ("draw", 0.1)]
        assert lines(receipt) == expected
        assert [m.delta for m in receipt.mechanisms] == [1e-6, 1e-6, 0.0]
        assert [m.event for m in receipt.mechanisms] == [
            *[Gaussian(Fraction(1, 100))] * 2,
            Draw(TENTH),
        ]
        assert receipt.mu == pytest.approx(math.sqrt(1 / 50 + 11 / 2800))
        assert receipt.rho == pytest.approx(1 / 100 + 1 / 800)
        assert receipt.assumptions == ("numbers of rows",)
        frame = pd.DataFrame(receipt.rows())
        assert list(frame.columns) == ["mechanism", "epsilon", "delta", "proof"]
        assert list(zip(frame.mechanism, frame.epsilon, strict=True)) == expected

    def test_mechanisms_that_cost_less_together_say_so(self):
        ledger = Ledger(1, MILLIONTH)
        part = Gaussian(ledger.event.mu_squared / 2)
        for name in ("one", "another"):
            noisy(ledger, part, name=name)
        lines = repr(ledger.receipt()).splitlines()
        assert lines[3].startswith("  mechanisms  one (ε = 0.688911, δ = 1e-06)")
        assert lines[4].startswith("              another (ε = 0.688911, δ")
        together = "ε = 1, δ = 1e-06, which is less than the sum: each mechanism is listed"
        assert lines[5].startswith(f"  together    {together}")
        assert together in ledger.receipt()._repr_html_()
        one = Ledger(1)
        assert "  mechanisms  none" in repr(one.receipt())
        drawn(one)
        for page in (repr(one.receipt()), one.receipt()._repr_html_()):
            assert "together" not in page

    def test_seeds_are_told(self):
        for seed, secure in ((None, True), (0, False), (np.random.default_rng(0), False)):
            ledger = Ledger(1, random_state=seed)
            assert ledger.secure == ledger.receipt().secure_randomness == secure
            assert not ledger.receipt(secure=False).secure_randomness
            words = ledger.receipt().in_words()
            warned = "This does not hold against an attacker who knows or guesses the seed."
            assert words.endswith(warned) != secure
            assert (ledger.seed() is None) == secure

    def test_written_and_read(self):
        ledger = Ledger(
            1, MILLIONTH, budget=PrivacyBudget(1, 1e-6, for_tests=True), rows_per_person=2
        )
        noisy(ledger, ledger.event)
        ledger.annotate("of somebody else", Approximate(TENTH, TENTH), "a paper")
        ledger.read(10, 20)
        receipt = ledger.receipt(assumptions=("a",))
        fields = json.loads(json.dumps(receipt.to_dict()))
        assert PrivacyReceipt.from_dict(fields) == receipt
        assert fields["entry"] == 1

    @pytest.mark.parametrize(
        ("event", "true"),
        [
            (
                Pure(Fraction(3, 2)),
                lambda a: np.maximum(1 - np.exp(1.5) * a, np.exp(-1.5) * (1 - a)),
            ),
            (Gaussian(Fraction(4, 25)), lambda a: norm.cdf(norm.isf(a) - 0.4)),
            (
                Steps((Gaussian(Fraction(1, 25)), Gaussian(Fraction(3, 25)))),
                lambda a: norm.cdf(norm.isf(a) - 0.4),
            ),
            (NO_EVENT, lambda a: 1 - a),
        ],
    )
    def test_the_trade_off_curve(self, event, true):
        """Never above the closed form, and near it."""
        alpha = np.linspace(0, 1, 101)
        receipt = PrivacyReceipt(1.5, 1e-6, "row", 10, 0, (), True, event=event)
        found = receipt.trade_off(alpha)
        assert np.all(found <= true(alpha) + 1e-12)
        assert np.all(found >= true(alpha) - 0.01)
        assert receipt.trade_off(0.5).shape == ()

    def test_a_guarantee_without_a_curve(self):
        """Of somebody else's mechanism (ε, δ) is all that is known."""
        event = Approximate(Fraction(1), TENTH)
        receipt = PrivacyReceipt(1.0, 0.1, "row", 10, 0, (), True, event=event)
        alpha = np.linspace(0, 1, 21)
        worst = np.maximum.reduce([0 * alpha, 1 - 0.1 - math.e * alpha, (1 - 0.1 - alpha) / math.e])
        np.testing.assert_allclose(receipt.trade_off(alpha), worst, atol=1e-9)
        assert receipt.mu == receipt.rho == math.inf
        with pytest.raises(ValueError, match="alpha must"):
            receipt.trade_off([0.5, 1.5])

    @pytest.mark.parametrize(
        ("event", "right"),
        [
            (Pure(Fraction(1)), 1 / (1 + math.exp(-1))),
            # two members whose errors swap
            (Draw(Fraction(1)), 1 / (1 + math.exp(-1 / 2))),
            (Gaussian(Fraction(1, 4)), norm.cdf(0.25)),
            # the likelier side of four outcomes; the smaller loss never outweighs the larger
            (Steps((Pure(HALF), Pure(Fraction(1)))), 1 / (1 + math.exp(-1))),
            (
                Steps((Pure(HALF), Pure(HALF), Pure(HALF))),
                majority_of_three(1 / (1 + math.exp(-HALF))),
            ),
        ],
    )
    def test_a_sentence_for_everybody(self, event, right):
        """The best guess at the exact worst pair, rounded up to a tenth of a percent."""
        receipt = PrivacyReceipt(9.0, 1e-3, "row", 10, 0, (), True, event=event)
        share = percentage_of(receipt)
        assert 100 * right <= share <= 100 * right + 0.2

    @pytest.mark.parametrize("k", [1, 2])
    def test_the_sentence_is_the_best_guess_at_even_odds(self, k):
        """Exponential mechanism over two rules and three persons of k rows, by enumeration.

        Each label agrees with one of the two rules, so a person may turn k errors around.
        """
        ledger = Ledger(1, rows_per_person=k if k > 1 else None, event=Draw(Fraction(1)))
        drawn(ledger, Fraction(1))
        receipt = ledger.receipt()
        persons = list(itertools.product((0, 1), repeat=k))
        best = {Fraction(1, 2): 0.0, Fraction(9, 10): 0.0}
        for others in itertools.product(persons, repeat=2):
            laws = []
            for person in persons:
                ones = sum(map(sum, (*others, person)))
                errors = np.array([ones, 3 * k - ones])
                bounds = probabilities(Leaf(errors), Fraction(1), k)
                laws.append(np.array([float(bounds[rule][0]) for rule in (0, 1)]))
            for prior in best:
                for p, q in itertools.permutations(laws, 2):
                    guess = np.maximum(float(prior) * p, float(1 - prior) * q).sum()
                    best[prior] = max(best[prior], guess)
        assert percentage_of(receipt) == math.ceil(1000 * best[Fraction(1, 2)]) / 10
        # who was nearly sure before is right more often: the sentence must name its odds
        assert 100 * best[Fraction(9, 10)] > percentage_of(receipt)
        words = receipt.in_words()
        assert "considers this person and one other person equally likely." in words
        assert "guessing blindly gives 50%." in words
        assert ("knows every other row and" in words) == (k == 1)
        assert ("knows all rows of everybody else and" in words) == (k > 1)


class TestOpening:
    def test_by_an_estimator(self):
        budget = PrivacyBudget(3, for_tests=True)
        clf = SemiPrivateClassifier(
            epsilon=0.3, random_state=0, max_rows_per_group=4, budget=budget
        )
        ledger = Ledger.from_estimator(clf, event=Draw(TENTH))
        assert (ledger.epsilon, ledger.delta) == (Fraction(3, 10), 0)
        assert (ledger.rows_per_person, ledger.event) == (4, Draw(TENTH))
        drawn(ledger, TENTH)
        assert budget.ledger[0].who == "SemiPrivateClassifier"
        other = Ledger.from_estimator(clf, delta=MILLIONTH, budget=None)
        assert other.event == Gaussian(gaussian_mu_squared(Fraction(3, 10), MILLIONTH))

    @pytest.mark.parametrize(("delta", "warns"), [(1e-6, False), (1e-4, False), (2e-4, True)])
    def test_a_large_delta_is_told(self, delta, warns):
        ledger = Ledger(1, delta)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ledger.read(1000, 10**9)
        assert [w.category for w in caught] == [LargeDeltaWarning] * warns
        if warns:
            assert "delta = 0.0002 is too large for 1000" in str(caught[0].message)
            assert caught[0].filename == __file__

    def test_seeded_ledgers_are_repeatable(self):
        def all_of(seed):
            ledger = Ledger(9, random_state=seed)
            return [
                ledger.subset(50, 20).tolist(),
                ledger.order(50).tolist(),
                ledger.indices(50, 20).tolist(),
                ledger.uniform_below(10**9),
                ledger.seed(64),
                noisy(ledger, Pure(TENTH), np.zeros(30, dtype=np.int64)).values.tolist(),
                [drawn(ledger, TENTH) for _ in range(30)],
            ]

        assert all_of(0) == all_of(0)
        assert all(one != other for one, other in zip(all_of(0), all_of(1), strict=True))
        subset, order, indices, *_ = all_of(2)
        assert subset == sorted(set(subset))
        assert sorted(order) == list(range(50))
        assert set(indices) <= set(range(50))


class Replay(Recorder):
    """Of the first look of the sanitizer the set is released, and not how it was drawn."""

    look = 0  # how many columns have many values: none, or all

    def draw_member(self, family, *others):
        path = super().draw_member(family, *others)
        return (self.look, 0) if self._pending["name"] == COLUMN_DRAW_NAME else path

    def draw_uniform(self, *others):
        super().draw_uniform(*others)
        return 1


def all_that_shows(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return pickle.dumps(fit()), [(w.category, str(w.message)) for w in caught]


ROWS = np.array([[0.0, 1.0], [3.0, 1.0], [-2.0, 0.0], [1.0, 5.0], [2.0, 2.0], [0.5, 0.5]])
LABELS = np.array([0, 1, 1, 0, 1, 0])
NEW_ROWS = ([0.0, 0.0], [2.5, -7.25], [1e300, -1e-300], [3.0, 1.0])
FITS = {
    "semi-private": lambda x, y: SemiPrivateClassifier(classes=[0, 1], random_state=0).fit(
        x, y, X_public=ROWS[:4] + 0.25
    ),
    "semi-private, by reference": lambda x, y: SemiPrivateClassifier(
        Stumps(), classes=[0, 1], random_state=0
    ).fit(x, y),
    "halfspaces in rounds": lambda x, y: SemiPrivateClassifier(
        Halfspaces("directions", directions=20, rounds=3),
        epsilon=50.0,
        classes=[0, 1],
        random_state=0,
    ).fit(x, y, X_public=ROWS[:5] + 0.25),
    "mixed": lambda x, y: PPMHalfspaceClassifier(private_label=1, random_state=0).fit(
        np.vstack([x, ROWS[:3] / 2]), [*y, 0, 1, 0], is_public=np.arange(9) > 5
    ),
    "quantiles": lambda x, y: QuantileSanitizer(epsilon=20.0, random_state=0).fit(x),
    "quantiles of few": lambda x, y: QuantileSanitizer(epsilon=0.1, random_state=0).fit(x),
    "quantiles of many columns": lambda x, y: QuantileSanitizer(epsilon=50.0, random_state=0).fit(
        np.tile(x, 4)
    ),
    "generic": lambda x, y: GenericLearnerClassifier(
        epsilon=20.0, classes=[0, 1], random_state=0
    ).fit(x, y, is_labelled=np.arange(6) < 3),
    "generic with few": lambda x, y: GenericLearnerClassifier(
        Stumps(), epsilon=1.0, bounds=(-5, 5), classes=[0, 1], random_state=0
    ).fit(x, y, is_labelled=np.arange(6) < 3),
    "persons": lambda x, y: GenericLearnerClassifier(
        Stumps(), epsilon=40.0, classes=[0, 1], max_rows_per_group=2, random_state=0
    ).fit(x, y, is_labelled=np.arange(6) < 2, groups=[1, 2, 3, 4, 4, 4]),
}


class TestReplay:
    """Released values dictated, all else is equal for neighbours: artefact, receipt, warnings."""

    @pytest.mark.one_in(3)
    @pytest.mark.parametrize(
        ("name", "look"), [*((name, 0) for name in FITS), ("quantiles of many columns", 8)]
    )
    def test_what_shows_is_what_was_released(self, name, look):
        fit = FITS[name]
        kind = type("Looked", (Replay,), {"look": look})
        with kind() as recorder:
            shown = all_that_shows(lambda: fit(ROWS, LABELS))
        differences = 0
        for place, row, label in itertools.product(range(6), NEW_ROWS, (0, 1)):
            rows, labels = ROWS.copy(), LABELS.copy()
            rows[place], labels[place] = row, label
            with kind(recorder.outcomes) as again:
                assert all_that_shows(lambda: fit(rows, labels)) == shown  # noqa: B023
            for one, other in zip(recorder.calls, again.calls, strict=True):
                same = ("kind", "name", "event", "sensitivity", "spread", "epsilon")
                assert all(getattr(one, what) == getattr(other, what) for what in same)
                differences += answers(one) != answers(other)
        assert differences or name == "quantiles of few"  # the rows are looked at


def answers(call):
    """What the private rows say; of families the first few hundred errors."""
    if call.kind == "draw":
        return [errors for _, errors, _ in itertools.islice(call.exact_input.members(), 300)]
    return np.ravel(call.exact_input).tolist()


def test_noise_on_floats_is_refused_before_it_is_written():
    ledger = Ledger(1, random_state=0)
    with pytest.raises(TypeError, match="int64"):
        noisy(ledger, Pure(HALF), table=np.array([0.3, 1.7]))
    assert not ledger.receipt().mechanisms


def test_a_ledger_stays_in_its_process():
    with pytest.raises(TypeError, match="draws the noise of its process"):
        pickle.dumps(Ledger(1, random_state=0))
