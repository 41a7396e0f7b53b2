"""Rigorous bounds of exp(-x), computed in integers because libm proves no error bound."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from skpublicdp.typing import Floats, Integers

DIGIT_BITS = 12
"""Bits of an exponent that one table covers: a table has 4,096 powers."""

MAX_LEVELS = 5
"""Maximum number of tables. Exponents (error counts) are below 2^60, which is five digits."""

Bounds = tuple[int, int]
"""Lower and upper bound in units of 2^-precision."""


def exp_minus(x: Fraction, precision: int) -> Bounds:
    """Return a lower and an upper bound of e^(-x) in fixed point.

    Parameters
    ----------
    x : Fraction
        Non-negative.
    precision : int
        Number of binary digits after the point.

    Returns
    -------
    lower, upper : int
        ``lower <= e**-x * 2**precision <= upper``; they differ by a few units at most.

    Examples
    --------
    >>> exp_minus(Fraction(0), 8)
    (256, 256)
    >>> lower, upper = exp_minus(Fraction(1), 64)
    >>> lower / 2**64
    0.36787944117144233
    >>> upper - lower <= 2
    True
    """
    if x == 0:
        return 1 << precision, 1 << precision
    # e^-x = (e^-y)^(2^halvings) with y <= 1/2; guard digits, as each squaring doubles the error
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 1)
    guard = precision + 2 * halvings + 32
    y = x / (1 << halvings)
    y_lower = (y.numerator << guard) // y.denominator
    y_upper = y_lower + 1
    lower = term_lower = upper = term_upper = 1 << guard
    k = 0
    while term_upper > 1:
        k += 1
        term_lower = (term_lower * y_lower >> guard) // k
        term_upper = -(-(term_upper * y_upper) // (k << guard))
        lower += term_lower
        upper += term_upper
    upper += 2 * term_upper  # the remainder of the series: terms at least halve, as y <= 1/2
    lower, upper = (1 << 2 * guard) // upper, -(-(1 << 2 * guard) // lower)  # 1 / e^y
    for _ in range(halvings):
        lower = lower * lower >> guard
        upper = _shift_up(upper * upper, guard)
    return lower >> (guard - precision), _shift_up(upper, guard - precision)


class FixedPowers:
    """Fixed-point bounds of q^k for q = e^(-rate) and non-negative integers k.

    An exponent is split into digits to the base 4096. The bounds of q^k are products of table
    entries, one for each digit.

    Parameters
    ----------
    rate : Fraction
        Positive.
    precision : int
        Number of binary digits after the point.
    """

    def __init__(self, rate: Fraction, precision: int) -> None:
        self.precision = precision
        self._rate = rate
        self._tables: list[list[Bounds]] = []
        self._steps: list[Bounds] = []
        self._next_powers: list[Bounds] = []  # the power that follows each table

    def power(self, level: int, digit: int) -> Bounds:
        """Return bounds of ``q**(digit * 4096**level)``; tables grow up to the requested digit."""
        # 4,096 roundings by one unit each stay below one unit of the requested precision
        guard = DIGIT_BITS + 4
        working = self.precision + guard
        while len(self._tables) <= level:
            step = self._rate * (1 << DIGIT_BITS * len(self._tables))
            self._tables.append([])
            self._steps.append(exp_minus(step, working))
            self._next_powers.append((1 << working, 1 << working))
        table = self._tables[level]
        if digit >= len(table):
            q_lower, q_upper = self._steps[level]
            lower, upper = self._next_powers[level]
            for _ in range(len(table), digit + 1):
                table.append((lower >> guard, _shift_up(upper, guard)))
                lower = lower * q_lower >> working
                upper = _shift_up(upper * q_upper, working)
            self._next_powers[level] = lower, upper
        return table[digit]

    def table(self, size: int) -> list[Bounds]:
        """Return bounds of q^j for j below `size`, which is at most 4096."""
        self.power(0, size - 1)
        return self._tables[0][:size]

    def __call__(self, exponent: int) -> Bounds:
        """Return bounds of q^exponent."""
        digit = exponent & ((1 << DIGIT_BITS) - 1)
        lower, upper = self.power(0, digit)
        level = 1
        while exponent := exponent >> DIGIT_BITS:
            factor_lower, factor_upper = self.power(level, exponent & ((1 << DIGIT_BITS) - 1))
            lower = lower * factor_lower >> self.precision
            upper = _shift_up(upper * factor_upper, self.precision)
            level += 1
        return lower, upper


TINY = 2.0**-1000
"""Smallest power that `FloatPowers` stores; smaller ones are stored as 0."""


class FloatPowers:
    """Float approximations of q^k, q = e^(-rate), with a proved relative error.

    Every value v̂ satisfies ``|v̂ - v| <= γ(roundings) v + 2**-999``, where γ(k) = ku/(1 - ku) and
    u = 2^-53 (Higham 2002, section 3.1). Table entries are values of `FixedPowers`, rounded once,
    and IEEE products combine them. The value at k = 0 is exactly 1.

    Parameters
    ----------
    rate : Fraction
        Positive.
    """

    def __init__(self, rate: Fraction) -> None:
        self._tables = _float_tables(rate)
        # for each table its rounding, a product, and the (far smaller) width of fixed-point bounds
        self.roundings = 3 * len(self._tables)
        self._largest = (1 << DIGIT_BITS * len(self._tables)) - 1

    def __call__(self, exponents: Integers) -> Floats:
        """Return approximations of q^exponents, elementwise."""
        exponents = np.minimum(exponents, self._largest)  # the largest power in the tables is 0
        mask = (1 << DIGIT_BITS) - 1
        value: Floats = self._tables[0][exponents & mask]
        for level, table in enumerate(self._tables[1:], start=1):
            value *= table[(exponents >> DIGIT_BITS * level) & mask]
        return value


@lru_cache(maxsize=16)
def _float_tables(rate: Fraction) -> list[Floats]:
    """Return the tables of `FloatPowers`, up to the level whose last power is below `TINY`."""
    precision = 1200  # 200 binary digits remain for a power as small as TINY
    powers = FixedPowers(rate, precision)
    tables: list[Floats] = []
    while True:
        table = np.zeros(1 << DIGIT_BITS)
        for digit in range(len(table)):
            # Python rounds int / int correctly for all sizes
            value = powers.power(len(tables), digit)[0] / (1 << precision)
            if value < TINY:
                break  # powers decrease, so the remaining ones are below TINY, too
            table[digit] = value
        table.setflags(write=False)
        tables.append(table)
        if table[-1] == 0.0 or len(tables) == MAX_LEVELS:
            return tables


def _shift_up(value: int, bits: int) -> int:
    """Return value / 2**bits rounded up."""
    return -(-value >> bits)
