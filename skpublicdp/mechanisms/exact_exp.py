"""Rigorous bounds on exp(-x) in integer arithmetic, because libm guarantees no error bound."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from skpublicdp.typing import Floats, Integers

DIGIT_BITS = 12
"""Number of bits of an exponent that one table covers, which gives 4,096 powers per table."""

GUARD_BITS = 32
"""Number of guard digits in intermediate results, which make rounding errors negligible."""

MAX_LEVELS = 5
"""Maximum number of tables. Number of digits of an exponent, since exponents (error counts) are
below 2^60."""

Bounds = tuple[int, int]
"""Lower and upper bounds on a real number, as integer multiples of 2^-precision."""


def exp_minus(x: Fraction, precision: int) -> Bounds:
    """Return lower and upper bounds on e^(-x), as multiples of 2^-precision.

    Parameters
    ----------
    x : Fraction
        Non-negative.
    precision : int
        Number of binary digits after the point.

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
    # e^-x = (e^-y)^(2^n_halvings) for y = x / 2^n_halvings, which is at most 1/2
    n_halvings = max(0, (x.numerator // x.denominator).bit_length() + 1)
    # extra digits, because each squaring doubles the relative error
    working = precision + 2 * n_halvings + GUARD_BITS
    y = x / (1 << n_halvings)
    y_lower = (y.numerator << working) // y.denominator
    y_upper = y_lower + 1
    # Taylor series of e^y: lower bounds are rounded down, upper bounds are rounded up
    lower = term_lower = upper = term_upper = 1 << working
    k = 0
    while term_upper > 1:
        k += 1
        term_lower = (term_lower * y_lower >> working) // k
        term_upper = -(-(term_upper * y_upper) // (k << working))
        lower += term_lower
        upper += term_upper
    # each further term is at most half the previous term, since y <= 1/2
    upper += 2 * term_upper
    # the reciprocal e^-y exchanges the roles of the bounds
    lower, upper = (1 << 2 * working) // upper, -(-(1 << 2 * working) // lower)
    for _ in range(n_halvings):
        lower = lower * lower >> working
        upper = _shift_up(upper * upper, working)
    return lower >> (working - precision), _shift_up(upper, working - precision)


class FixedPowers:
    """Fixed-point bounds on q^k for q = e^(-rate) and non-negative integers k.

    An exponent k is split into digits in base 4096. The table of level i contains bounds on
    q^(digit 4096^i), and a bound on q^k is a product of entries, one for each digit.

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
        # for each level: its table, then the ratio of neighbouring entries and the next entry, both
        # with guard digits
        self._tables: list[list[Bounds]] = []
        self._ratios: list[Bounds] = []
        self._next_powers: list[Bounds] = []

    def power(self, level: int, digit: int) -> Bounds:
        """Return bounds on ``q**(digit * 4096**level)``.

        If entries up to the requested digit are missing, they are added to the table in place.
        """
        # 2^12 roundings by a few guard units each sum to less than one unit of the requested
        # precision
        guard = DIGIT_BITS + 4
        working = self.precision + guard
        while len(self._tables) <= level:
            level_rate = self._rate * (1 << DIGIT_BITS * len(self._tables))
            self._tables.append([])
            self._ratios.append(exp_minus(level_rate, working))
            self._next_powers.append((1 << working, 1 << working))
        table = self._tables[level]
        if digit >= len(table):
            q_lower, q_upper = self._ratios[level]
            lower, upper = self._next_powers[level]
            for _ in range(len(table), digit + 1):
                table.append((lower >> guard, _shift_up(upper, guard)))
                lower = lower * q_lower >> working
                upper = _shift_up(upper * q_upper, working)
            self._next_powers[level] = lower, upper
        return table[digit]

    def table(self, size: int) -> list[Bounds]:
        """Return bounds on q^j for all j below `size`, which is at most 4096."""
        self.power(0, size - 1)  # adds the missing entries of level 0
        return self._tables[0][:size]

    def __call__(self, exponent: int) -> Bounds:
        """Return bounds on q^exponent: products of the bounds for the exponent's digits."""
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
"""Smallest power that `FloatPowers` stores; smaller powers are stored as 0."""

TABLE_PRECISION = 1200
"""Number of binary digits from which float tables are rounded; even a power as small as `TINY` has
200 significant digits."""


class FloatPowers:
    """Float approximations of q^k for q = e^(-rate), with a proved bound on the relative error.

    Every value v̂ satisfies ``|v̂ - v| <= γ(roundings) v + 2**-999``, where γ(k) = ku/(1 - ku) and
    u = 2^-53 (Higham 2002, section 3.1). Table entries are values of `FixedPowers` after a single
    rounding, and are multiplied in IEEE arithmetic. The value at k = 0 is exactly 1.

    Parameters
    ----------
    rate : Fraction
        Positive.
    """

    def __init__(self, rate: Fraction) -> None:
        self._tables = _float_tables(rate)
        # for each table: one rounding of an entry, one rounding of a product, and one for the far
        # smaller width of the fixed-point bounds
        self.roundings = 3 * len(self._tables)
        self._largest = (1 << DIGIT_BITS * len(self._tables)) - 1

    def __call__(self, exponents: Integers) -> Floats:
        """Return float approximations of q^exponents, in the shape of `exponents`."""
        # larger exponents lie outside the tables; their powers are 0, like the last table entry
        exponents = np.minimum(exponents, self._largest)
        mask = (1 << DIGIT_BITS) - 1
        value: Floats = self._tables[0][exponents & mask]
        for level, table in enumerate(self._tables[1:], start=1):
            value *= table[(exponents >> DIGIT_BITS * level) & mask]
        return value


@lru_cache(maxsize=16)
def _float_tables(rate: Fraction) -> list[Floats]:
    """Return the tables of `FloatPowers`, up to the level whose last power is below `TINY`."""
    powers = FixedPowers(rate, TABLE_PRECISION)
    tables: list[Floats] = []
    while True:
        table = np.zeros(1 << DIGIT_BITS)
        for digit in range(len(table)):
            lower, _ = powers.power(len(tables), digit)
            # Python rounds int / int correctly for all sizes
            value = lower / (1 << TABLE_PRECISION)
            if value < TINY:
                break  # powers decrease, so the remaining powers are below TINY, too
            table[digit] = value
        table.setflags(write=False)
        tables.append(table)
        if table[-1] == 0.0 or len(tables) == MAX_LEVELS:
            return tables


def _shift_up(value: int, bits: int) -> int:
    """Return value / 2**bits, rounded up to an integer."""
    return -(-value >> bits)
