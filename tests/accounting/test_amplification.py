"""Amplification by subsampling: the bounds, their inverses, and on which side they are rounded."""

import decimal
import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skpublicdp.accounting import base_delta, base_epsilon, subsample_size, subsampled_epsilon
from skpublicdp.guarantees import n_subsampling
from tests.helpers import readings, two_down, two_up
from tests.internals.accounting import amplification

ROLES = ["random", "paper"]
MARGIN = 1 + decimal.Decimal(10) ** -25

budgets = st.fractions(min_value=Fraction(1, 10**9), max_value=40, max_denominator=10**9)
rates = st.fractions(Fraction(1, 10**7), 1, max_denominator=10**7)
roles_drawn = st.sampled_from(ROLES)


def exact(value):
    return decimal.Decimal(value.numerator) / value.denominator


def bound(epsilon, rate, roles):
    """The bound as it is written, with 120 digits."""
    with decimal.localcontext(prec=120):
        q, x = exact(Fraction(rate)), exact(Fraction(epsilon)).exp()
        if roles == "random":
            return (1 + q * (x - 1)).ln()
        return ((1 - q + q * x**2) / (1 - q + q * x)).ln()


@settings(max_examples=60)
@given(budgets, rates, roles_drawn)
def test_the_bound_is_rounded_up(epsilon, rate, roles):
    spent, true = subsampled_epsilon(epsilon, rate, roles=roles), bound(epsilon, rate, roles)
    assert min(readings(spent)) >= Fraction(true)
    assert two_down(spent) <= true * MARGIN
    assert spent <= two_up(float(epsilon))  # it never costs


@settings(max_examples=60)
@given(budgets, rates, roles_drawn)
def test_the_inverse_is_rounded_down(epsilon, rate, roles):
    base = base_epsilon(epsilon, rate, roles=roles)
    with decimal.localcontext(prec=120):
        assert bound(max(readings(base)), rate, roles) <= exact(epsilon)
        assert bound(two_up(base), rate, roles) * MARGIN >= exact(epsilon)


@settings(max_examples=60)
@given(budgets, rates, st.fractions(1, 10, max_denominator=100), roles_drawn)
def test_monotone(epsilon, rate, factor, roles):
    more = min(rate * factor, Fraction(1))
    spent = subsampled_epsilon(epsilon, rate, roles=roles)
    assert spent <= subsampled_epsilon(epsilon, more, roles=roles)
    assert spent <= subsampled_epsilon(epsilon * factor, rate, roles=roles)
    assert spent >= subsampled_epsilon(epsilon, rate)  # the paper's roles cost more
    assert base_epsilon(epsilon, more, roles=roles) <= base_epsilon(epsilon, rate, roles=roles)


@settings(max_examples=40)
@given(st.integers(1, 10**6), st.floats(0.01, 3), st.floats(0.01, 8), roles_drawn)
def test_the_size_is_the_largest(pool, epsilon, base, roles):
    size = subsample_size(pool, epsilon, base, roles=roles)
    assert 0 <= size <= pool
    if base <= epsilon:
        assert size == pool
        return
    if size:
        assert subsampled_epsilon(base, Fraction(size, pool), roles=roles) <= epsilon
    if size < pool:
        assert subsampled_epsilon(base, Fraction(size + 1, pool), roles=roles) > epsilon


@settings(max_examples=60)
@given(st.floats(0, 1), rates, budgets, budgets, roles_drawn)
def test_delta_is_rounded_down(delta, rate, epsilon, base, roles):
    share = base_delta(delta, rate, epsilon, base, roles=roles)
    with decimal.localcontext(prec=120):
        factor = exact(rate)
        if roles == "paper" and base > epsilon:
            factor *= 1 + exact(base).exp() - exact(epsilon).exp()
        true = min(exact(Fraction(str(delta))) / factor, decimal.Decimal(1))
    assert share <= true
    if roles == "random" or base <= epsilon:
        true = min(Fraction(str(delta)) / rate, Fraction(1))
        assert max(readings(share)) <= true
    assert two_up(share) * float(MARGIN) >= float(true) * (1 - 1e-15)


def test_no_quotient_of_delta_is_rounded_up():
    for step, parts in itertools.product(range(1, 30), (3, 7, 11)):
        rate = Fraction(1, parts) * 2
        share = base_delta(step / 1000, rate, 1, 2)
        assert max(readings(share)) <= Fraction(step, 1000) / rate < two_up(share)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("base", [0.5, 1.0, 2.0])
def test_the_papers_constants_are_enough(epsilon, base):
    """Claim 5.7: t >= (n / ε)(3 + e^2ε*) is (ε, (7 + e^ε*)/(3 + e^2ε*) ε δ*)-private."""
    rate = Fraction(epsilon / (3 + math.exp(2 * base)))
    assert subsampled_epsilon(base, rate, roles="paper") <= epsilon
    papers = (7 + math.exp(base)) / (3 + math.exp(2 * base)) * epsilon
    assert base_delta(1e-6, rate, epsilon, base, roles="paper") >= 1e-6 / papers


def test_known_values():
    half = Fraction(1, 2)
    assert subsampled_epsilon(1, half) == pytest.approx(0.6201, abs=1e-4)
    assert subsampled_epsilon(1, half, roles="paper") == pytest.approx(0.8137, abs=1e-4)
    assert subsampled_epsilon(1, 1, roles="paper") == pytest.approx(1)
    assert base_epsilon(0.8136663235247497, half, roles="paper") == pytest.approx(1)
    assert subsampled_epsilon(0, half) < 1e-29  # the slack of the rounding is all
    assert base_epsilon(0, half) == base_epsilon(0, half, roles="paper") == 0


def test_pool_multipliers():
    """Rows of the pool for each row drawn, at ε* = 1 and ε = 0.1: 16.3, and the paper's 103.9."""
    pool = 1_000_000
    assert pool / subsample_size(pool, 0.1, 1.0) == pytest.approx(16.338, abs=1e-3)
    assert pool / subsample_size(pool, 0.1, 1.0, roles="paper") == pytest.approx(42.69, abs=0.01)
    assert n_subsampling(1000, 0.1) / 1000 == pytest.approx(16.3, abs=0.05)
    assert n_subsampling(1000, 0.1, roles="paper") / 1000 == pytest.approx(103.9, abs=0.05)


@pytest.mark.parametrize("roles", ROLES)
def test_ends_of_the_range(roles):
    tiny, huge = Fraction(1, 10**12), 1 << 20
    for epsilon in (5e-324, 1e-300, 1e-9, huge):
        base = base_epsilon(epsilon, tiny, roles=roles)
        assert base >= math.nextafter(epsilon, 0)
        assert subsampled_epsilon(base, tiny, roles=roles) <= two_up(epsilon)
    assert subsample_size(1, 0.1, 1.0, roles=roles) == 0
    assert subsample_size(1, 1.0, 1.0, roles=roles) == 1
    assert base_delta(1, tiny, 1, 2, roles=roles) == pytest.approx(1)
    assert base_delta(5e-324, Fraction(1), 1, 2, roles=roles) in (0.0, 5e-324)


@pytest.mark.parametrize("roles", ROLES)
def test_the_bound_is_safe_before_it_is_a_float(roles, monkeypatch):
    monkeypatch.setattr(amplification, "float_above", lambda value: value)
    monkeypatch.setattr(amplification, "float_below", lambda value: value)
    epsilon, rate = Fraction(7, 5), Fraction(1, 3)
    with decimal.localcontext(prec=120):
        true = bound(epsilon, rate, roles)
        assert true < subsampled_epsilon(epsilon, rate, roles=roles) <= true * MARGIN
        base = base_epsilon(epsilon, rate, roles=roles)
        assert exact(epsilon) / MARGIN <= bound(Fraction(base), rate, roles) < exact(epsilon)
        share = base_delta(Fraction(1, 10**6), rate, epsilon, 2, roles="paper")
        factor = exact(rate) * (1 + decimal.Decimal(2).exp() - exact(epsilon).exp())
        assert decimal.Decimal("1e-6") / MARGIN <= share * factor < decimal.Decimal("1e-6")


def test_senseless_input_is_refused():
    for function in (subsampled_epsilon, base_epsilon):
        with pytest.raises(ValueError, match="rate must"):
            function(1, Fraction(3, 2))
        with pytest.raises(ValueError, match="epsilon must"):
            function(-1, Fraction(1, 2))
        with pytest.raises(ValueError, match="roles"):
            function(1, Fraction(1, 2), roles="all")
    with pytest.raises(ValueError, match="pool must"):
        subsample_size(0, 1, 2)
    with pytest.raises(ValueError, match="roles must be"):
        subsample_size(5, 1, 2, roles="all")
    with pytest.raises(ValueError, match="delta must"):
        base_delta(-1, Fraction(1, 2), 1, 2)
    with pytest.raises(ValueError, match="roles must be"):
        base_delta(0, Fraction(1, 2), 1, 2, roles="all")
