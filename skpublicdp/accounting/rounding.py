"""Decimals with many digits and a bound of their error, for conversions that round against us."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import (
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    getcontext,
    localcontext,
)
from fractions import Fraction
from numbers import Rational, Real
from typing import Any


def exact_fraction(value: Real | float) -> Fraction:
    """Read a budget exactly as it is written: a float as the shortest decimal that stands for it.

    So ten times 0.1 is 1, where the floats themselves are a little more.

    Examples
    --------
    >>> exact_fraction(0.1)
    Fraction(1, 10)
    """
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(repr(float(value)))


def non_negative(name: str, value: Fraction) -> Fraction:
    """Return a budget exactly; refuse what is negative or infinite."""
    _check_number(name, value)
    if not value >= 0 or value == math.inf:
        raise ValueError(f"{name} must be a finite number and not negative; got {value}.")
    return exact_fraction(value)


def probability(name: str, value: Fraction) -> Fraction:
    """Return a probability exactly; refuse what is not strictly between 0 and 1."""
    _check_number(name, value)
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1; got {value}.")
    return exact_fraction(value)


def _check_number(name: str, value: Any) -> None:
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a number; got {type(value).__name__}.")


def precise_context(*values: Fraction) -> Context:
    """Return a decimal arithmetic whose `relative_error` is harmless for such parameters."""
    with localcontext(decimal_context(28)):
        digits = sum(abs(to_decimal(value).adjusted()) for value in values if value)
    return decimal_context(2 * (SPARE_DIGITS + digits))


SPARE_DIGITS = 30
"""α - 1 is a multiple of 10^-30, so α is exact wherever its logarithm is small."""


def decimal_context(digits: int) -> Context:
    """Return a decimal arithmetic of so many digits that never goes wrong silently."""
    traps = [DivisionByZero, InvalidOperation, Overflow]
    return Context(digits, ROUND_HALF_EVEN, Emin=-999_999, Emax=999_999, traps=traps)


def relative_error() -> Decimal:
    """Return far more than the relative error of a dozen operations, each correctly rounded.

    Half of the digits make room for logarithms of numbers that are near 1.
    """
    return Decimal(1).scaleb(-(getcontext().prec // 2))


def to_decimal(value: Fraction) -> Decimal:
    """Round a fraction to the digits of the context."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def sum_with_slack(*terms: Decimal) -> tuple[Decimal, Decimal]:
    """Return the sum and a bound of its error."""
    return sum(terms, Decimal(0)), sum(map(abs, terms), Decimal(0)) * relative_error()


def approximate_root(increasing: Callable[[Decimal], Decimal]) -> Decimal:
    """Find roughly where a function of β = α - 1 > 0 changes its sign."""
    least = Decimal(1).scaleb(-SPARE_DIGITS)
    with localcontext(decimal_context(2 * SPARE_DIGITS)):
        low = high = Decimal(1)
        while increasing(high) < 0:
            low, high = high, 2 * high
        while low > least and increasing(low) > 0:
            low, high = low / 2, low
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if increasing(middle) < 0 else (low, middle)
    return max(low.quantize(least), least)


def log_one_plus_inverse(beta: Decimal) -> Decimal:
    """Return roughly log(1 + 1/β), also where 1 + 1/β rounds to 1."""
    return (1 + 1 / beta).ln() if beta.adjusted() < SPARE_DIGITS else 1 / beta


def float_above(value: Decimal) -> float:
    """Return the least float that is not below, neither itself nor as it is read."""
    nearest = float(value)
    while nearest < value or Decimal(repr(nearest)) < value:
        nearest = math.nextafter(nearest, math.inf)
    return nearest


def float_below(value: Decimal) -> float:
    """Return the greatest float that is not above, neither itself nor as it is read."""
    return 0.0 - float_above(value.copy_negate())


def written_above(value: Fraction) -> float:
    """Return the least float that is read as no less."""
    nearest = float(value)
    return nearest if exact_fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def written_below(value: Fraction) -> float:
    """Return the greatest float that is read as no more."""
    return 0.0 - written_above(-value)


def fraction_below(value: Fraction) -> Fraction:
    """Round a positive fraction down to 64 binary digits."""
    scale = _binary_unit(value, 64)
    return Fraction(math.floor(value * scale)) / scale


def fraction_above(value: Fraction, digits: int = 64) -> Fraction:
    """Round a non-negative fraction up to so many binary digits.

    What is not above a number of so many digits is not rounded past it: a plan that costs no more
    than a cap is not refused for its rounding.
    """
    if not value:
        return value
    scale = _binary_unit(value, digits)
    return Fraction(math.ceil(value * scale)) / scale


def _binary_unit(value: Fraction, digits: int) -> Fraction:
    """Return the power of two that makes a positive fraction a number of so many digits."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < Fraction(2) ** exponent:  # 2^exponent is at most the value, and less than twice it
        exponent -= 1
    return Fraction(2) ** (digits - 1 - exponent)


def root_below(square: Fraction) -> Fraction:
    """Return a square root, rounded down."""
    return Fraction(math.isqrt(math.floor(square * (1 << 128))), 1 << 64)
