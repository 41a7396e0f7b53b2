"""Bounds of e^-x against an independent high-precision decimal."""

import decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.internals.mechanisms import TINY, FixedPowers, FloatPowers, exp_minus

decimal.getcontext().prec = 500


def reference(x):
    return (decimal.Decimal(-x.numerator) / decimal.Decimal(x.denominator)).exp()


rationals = st.fractions(min_value=0, max_value=3000, max_denominator=10**12)


@given(rationals, st.integers(8, 700))
def test_exp_minus_encloses_tightly(x, precision):
    lower, upper = exp_minus(x, precision)
    exact = reference(x) * decimal.Decimal(2) ** precision
    # 500 digits of the reference, less those before the point, dwarf the unit of the last place
    slack = decimal.Decimal(10) ** -100
    assert lower <= exact + slack
    assert exact - slack <= upper
    assert upper - lower <= 2


@pytest.mark.parametrize(
    "rate", [Fraction(1, 3), Fraction(0.0005), Fraction(7), Fraction(1, 10**9)]
)
@pytest.mark.parametrize("exponent", [0, 1, 2, 4095, 4096, 4097, 123_456, 16_777_216, 10**10])
def test_fixed_powers_enclose(rate, exponent):
    precision = 160
    lower, upper = FixedPowers(rate, precision)(exponent)
    exact = reference(rate * exponent) * 2**precision
    assert lower <= exact <= upper
    assert upper - lower <= 64


@given(
    st.fractions(min_value=Fraction(1, 10**12), max_value=50, max_denominator=10**12),
    st.lists(st.integers(0, 10**15), min_size=1, max_size=20),
)
def test_float_powers_are_within_their_error_bound(rate, exponents):
    powers = FloatPowers(rate)
    values = powers(np.array(exponents, dtype=np.int64))
    gamma = decimal.Decimal(powers.roundings) / (2**53 - powers.roundings)
    for exponent, value in zip(exponents, values.tolist(), strict=True):
        exact = reference(rate * exponent)
        error = abs(decimal.Decimal(value) - exact)
        assert error <= gamma * exact + decimal.Decimal(2) ** -999


def test_float_powers_at_the_edges():
    powers = FloatPowers(Fraction(1, 2))
    values = powers(np.array([0, 1386, 1387, 2**62]))
    assert values[0] == 1.0
    assert values[1] >= TINY
    assert values[2] == values[3] == 0.0


@pytest.mark.parametrize("rate", [Fraction(1, 10**30), Fraction(5e-324), Fraction(1e308)])
def test_extreme_rates(rate):
    powers = FloatPowers(rate)
    values = powers(np.array([0, 1, 2**59]))
    assert values[0] == 1.0
    np.testing.assert_allclose(values[1:], 0.0 if rate > 1 else 1.0, atol=1e-11)
