"""Directed rounding: decimals with error bounds, and fractions or floats rounded up or down."""

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

DECIMAL_DIGITS = 28
"""Number of digits used to estimate a decimal exponent (the default precision of `decimal`)."""

FRACTION_BITS = 64
"""Number of binary digits of rounded fractions, which exceeds the 53 digits of a float."""

MAX_BISECTIONS = 100
"""Number of bisection steps in `approximate_root`, enough for `SPARE_DIGITS` decimal digits."""


def exact_fraction(value: Real | float) -> Fraction:
    """Return a number as a fraction, where a float means the shortest decimal that represents it.

    Therefore ten times 0.1 is exactly 1, although the binary value of the float 0.1 is slightly
    larger.

    Examples
    --------
    >>> exact_fraction(0.1)
    Fraction(1, 10)
    """
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(repr(float(value)))


def non_negative(name: str, value: Fraction) -> Fraction:
    """Return a number as an exact fraction, or raise if it is negative or infinite."""
    _check_number(name, value)
    if not value >= 0 or value == math.inf:
        raise ValueError(f"{name} must be a finite non-negative number; got {value}.")
    return exact_fraction(value)


def probability(name: str, value: Fraction) -> Fraction:
    """Return a probability as an exact fraction, or raise unless it is in (0, 1)."""
    _check_number(name, value)
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1; got {value}.")
    return exact_fraction(value)


def _check_number(name: str, value: Any) -> None:
    """Raise if a parameter is not a real number."""
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a number; got {type(value).__name__}.")


def precise_context(*values: Fraction) -> Context:
    """Return a decimal context that is precise enough to add and multiply the values.

    The number of digits is twice the sum of `SPARE_DIGITS` and the decimal exponents of all values,
    since `relative_error` allows for the loss of half the digits.
    """
    with localcontext(decimal_context(DECIMAL_DIGITS)):
        digits = sum(abs(to_decimal(value).adjusted()) for value in values if value)
    return decimal_context(2 * (SPARE_DIGITS + digits))


SPARE_DIGITS = 30
"""Number of decimal places of a root β = α - 1, which makes log(α) precise for small β."""


def decimal_context(digits: int) -> Context:
    """Return a decimal context with `digits` digits that raises on overflow and invalid results."""
    traps = [DivisionByZero, InvalidOperation, Overflow]
    return Context(digits, ROUND_HALF_EVEN, Emin=-999_999, Emax=999_999, traps=traps)


def relative_error() -> Decimal:
    """Return an upper bound on the relative error after a dozen correctly rounded operations.

    With p digits, the bound is 10^-(p/2), which also covers the error of logarithms of numbers
    close to 1.
    """
    return Decimal(1).scaleb(-(getcontext().prec // 2))


def to_decimal(value: Fraction) -> Decimal:
    """Return a fraction as a decimal, rounded to the digits of the current context."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def sum_with_slack(*terms: Decimal) -> tuple[Decimal, Decimal]:
    """Return a sum of rounded terms and an upper bound on its rounding error."""
    return sum(terms, Decimal(0)), sum(map(abs, terms), Decimal(0)) * relative_error()


def approximate_root(increasing: Callable[[Decimal], Decimal]) -> Decimal:
    """Return an approximate positive root of an increasing function, by bisection.

    The root is β = α - 1 for the Rényi order α that minimises a bound. Since the bound is valid for
    every α, the root need not be exact. The returned root is a multiple of 10^-`SPARE_DIGITS`.
    """
    resolution = Decimal(1).scaleb(-SPARE_DIGITS)
    with localcontext(decimal_context(2 * SPARE_DIGITS)):
        low = high = Decimal(1)
        while increasing(high) < 0:
            low, high = high, 2 * high
        while low > resolution and increasing(low) > 0:
            low, high = low / 2, low
        for _ in range(MAX_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if increasing(middle) < 0 else (low, middle)
    return max(low.quantize(resolution), resolution)


def log_one_plus_inverse(beta: Decimal) -> Decimal:
    """Return log(1 + 1/β), or 1/β for large β, where 1 + 1/β would round to 1."""
    return (1 + 1 / beta).ln() if beta.adjusted() < SPARE_DIGITS else 1 / beta


def float_above(value: Decimal) -> float:
    """Return the smallest float that is at least `value`, both exactly and as printed by `repr`."""
    nearest = float(value)
    while nearest < value or Decimal(repr(nearest)) < value:
        nearest = math.nextafter(nearest, math.inf)
    return nearest


def float_below(value: Decimal) -> float:
    """Return the largest float that is at most `value`, both exactly and as printed by `repr`."""
    return 0.0 - float_above(value.copy_negate())  # not -x, which could be -0.0


def written_above(value: Fraction) -> float:
    """Return the smallest float whose `repr`, read as a decimal, is at least a fraction."""
    nearest = float(value)
    return nearest if exact_fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def written_below(value: Fraction) -> float:
    """Return the largest float whose `repr`, read as a decimal, is at most a fraction."""
    return 0.0 - written_above(-value)


def fraction_below(value: Fraction) -> Fraction:
    """Round a positive fraction down to `FRACTION_BITS` binary digits."""
    scale = _binary_unit(value, FRACTION_BITS)
    return Fraction(math.floor(value * scale)) / scale


def fraction_above(value: Fraction, digits: int = FRACTION_BITS) -> Fraction:
    """Round a non-negative fraction up to `digits` binary digits.

    If a cap has at most this many digits, the result exceeds the cap only if the fraction itself
    does. Rounding alone therefore never lifts the cost of a plan above a cap.
    """
    if not value:
        return value
    scale = _binary_unit(value, digits)
    return Fraction(math.ceil(value * scale)) / scale


def _binary_unit(value: Fraction, digits: int) -> Fraction:
    """Return the power of two by which a fraction gets `digits` digits before its binary point."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < Fraction(2) ** exponent:  # ensure 2^exponent <= value < 2^(exponent + 1)
        exponent -= 1
    return Fraction(2) ** (digits - 1 - exponent)


def root_below(square: Fraction) -> Fraction:
    """Return the square root of a fraction, rounded down to a multiple of 2^-`FRACTION_BITS`."""
    unit = 1 << FRACTION_BITS
    return Fraction(math.isqrt(math.floor(square * unit**2)), unit)
