"""Discrete Laplace noise, sampled exactly and without floating point.

The distribution follows Canonne, Kamath and Steinke (2020), and docs/proofs/noise.md has the proof.
Every random decision compares a fresh uniform number with a threshold in [0, 1]. Tables contain the
first 64 binary digits of the thresholds, which are proved to be correct by integer arithmetic. One
random 64-bit word therefore decides the comparison, unless it equals these digits. If they are
equal, further digits of both numbers are computed until they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from skpublicdp.mechanisms.exact_exp import DIGIT_BITS, GUARD_BITS, Bounds, FixedPowers, exp_minus
from skpublicdp.mechanisms.randomness import RandomBits
from skpublicdp.typing import Integers

LARGEST_SCALE = 1 << 30
"""Largest scale (and standard deviation) for which all draws, including the tails, fit into
int64."""

GEOMETRIC_REACH = 8
"""Largest value of a geometric variable that the table contains, as a multiple of the scale 1 /
rate.

With probability e^-8, a draw exceeds this value; it is then continued by a further draw."""

WORD_BITS = 64
"""Number of bits of a random word."""

BASE = 1 << DIGIT_BITS
"""Base of the digits of a geometric variable."""


def discrete_laplace(scale: Fraction, size: int, bits: RandomBits) -> Integers:
    """Draw random integers x with probabilities proportional to exp(-abs(x) / scale).

    Notes
    -----
    Suppose that replacing one row changes the integers by at most D in the l1 norm. Then noise of
    scale D / ε makes them ε-differentially private (Dwork, McSherry, Nissim and Smith 2006).

    Examples
    --------
    >>> from skpublicdp.mechanisms.randomness import SeededBits
    >>> discrete_laplace(Fraction(7, 3), 5, SeededBits(0))
    array([...])
    """
    _check_range("scale", scale, LARGEST_SCALE, size)
    geometric = _geometric(1 / Fraction(scale))
    return geometric.draw(size, bits) - geometric.draw(size, bits)


def _check_range(name: str, value: Fraction, largest: int, size: int) -> None:
    """Raise ValueError unless 0 < value <= largest and size >= 0."""
    if not 0 < value <= largest:
        raise ValueError(f"{name} must be positive and at most {largest}; got {value}.")
    if size < 0:
        raise ValueError(f"size must not be negative; got {size}.")


class _Uniform:
    """Uniform random number in [0, 1) whose binary digits are drawn on demand.

    Parameters
    ----------
    bits : RandomBits
        Source of further digits.
    digits : int
        The first `n_digits` binary digits, as an integer.
    n_digits : int
        Number of digits drawn so far.
    """

    def __init__(self, bits: RandomBits, digits: int, n_digits: int) -> None:
        self._bits = bits
        self._digits = digits
        self._n_digits = n_digits

    def digits(self, precision: int) -> int:
        """Return the first `precision` binary digits of the number, as an integer."""
        n_missing = precision - self._n_digits
        if n_missing > 0:
            self._digits = self._digits << n_missing | self._bits.bits(n_missing)
            self._n_digits = precision
        return self._digits >> (self._n_digits - precision)

    def below(self, bounds: Callable[[int], Bounds]) -> bool:
        """Indicate whether the number is below a threshold, given bounds on the threshold."""
        precision = max(2 * WORD_BITS, self._n_digits)
        while True:
            digits = self.digits(precision)
            lower, upper = bounds(precision)
            if digits < lower:  # the number is below (digits + 1) / 2^precision
                return True
            if digits >= upper:
                return False
            precision *= 2


class _Thresholds:
    """Table of the first 64 binary digits of thresholds in [0, 1], with more on demand.

    Parameters
    ----------
    bounds : callable
        ``bounds(precision)`` returns bounds on all thresholds, as multiples of 2^-precision.
    """

    def __init__(self, bounds: Callable[[int], list[Bounds]]) -> None:
        self._bounds = bounds
        precision = 2 * WORD_BITS
        while (words := _leading_words(bounds(precision), precision)) is None:
            precision *= 2
        self._words = np.array(words, dtype=np.uint64)
        self._ascending = self._words[::-1].copy()

    def count_above(self, size: int, bits: RandomBits) -> Integers:
        """Draw `size` uniform numbers, and return how many thresholds exceed each of them.

        If the k-th threshold is P(X >= k), these counts have the distribution of X. The thresholds
        must not increase with their index.
        """
        uniform = bits.words(size)
        not_above = np.searchsorted(self._ascending, uniform, side="right")
        count = len(self._words) - not_above
        # If the words are equal, further digits decide. If all words are larger, index -1 refers to
        # the largest word, which also differs.
        for i in np.flatnonzero(self._ascending[not_above - 1] == uniform):
            number = _Uniform(bits, int(uniform[i]), WORD_BITS)
            while (
                count[i] < len(self._words)
                and self._words[count[i]] == uniform[i]
                and number.below(self._threshold(int(count[i])))
            ):
                count[i] += 1
        return count

    def _threshold(self, index: int) -> Callable[[int], Bounds]:
        """Return a function that maps a precision to the bounds on one threshold."""
        return lambda precision: self._bounds(precision)[index]


def _leading_words(bounds: list[Bounds], precision: int) -> list[int] | None:
    """Return the first 64 binary digits of each threshold, or None if the bounds are too wide.

    The digits of a threshold t, read as an integer a, satisfy a <= 2^64 t <= a + 1. The digits are
    returned only if the bounds prove both inequalities for every threshold.
    """
    shift = precision - WORD_BITS
    words = [min(max(lower >> shift, 0), (1 << WORD_BITS) - 1) for lower, _ in bounds]
    are_proved = all(
        upper <= (word + 1) << shift for word, (_, upper) in zip(words, bounds, strict=True)
    )
    return words if are_proved else None


class _Geometric:
    """Geometric distribution: P(n) = (1 - q) q^n on n >= 0, for q = e^(-rate).

    The digits of n are independent in any base, so each digit is drawn from a separate table. The
    remaining high part of n is again geometric, and the rate is `BASE` times as large.
    """

    def __init__(self, rate: Fraction) -> None:
        self._digits: list[_Thresholds] = []
        # From a rate of 1/256 on, the table of the high part has at most 8 * 256 = 2,048 entries.
        # That is below the 4,096 powers of one level of `FixedPowers`.
        while 32 * GEOMETRIC_REACH * rate < 1:
            self._digits.append(_Thresholds(_digit_survival(rate)))
            rate *= BASE
        self._last = -(-GEOMETRIC_REACH // rate)
        self._high = _Thresholds(_geometric_survival(rate, self._last))

    def draw(self, size: int, bits: RandomBits) -> Integers:
        """Return `size` independent draws, assembled from their digits in base 4096."""
        value = self._draw_high(size, bits)
        for digit in reversed(self._digits):
            value = (value << DIGIT_BITS) + digit.count_above(size, bits)
        return value

    def _draw_high(self, size: int, bits: RandomBits) -> Integers:
        """Return draws of the high part, without the digits drawn from separate tables.

        A geometric variable is memoryless, so a draw that reaches the last value of the table is
        continued by adding a fresh draw.
        """
        value = np.zeros(size, dtype=np.int64)
        pending = np.arange(size)
        while len(pending):
            increment = self._high.count_above(len(pending), bits)
            value[pending] += increment
            pending = pending[increment == self._last]
        return value


def _geometric_survival(rate: Fraction, last: int) -> Callable[[int], list[Bounds]]:
    """Return a function that maps a precision to bounds on P(n >= k) = q^k for k = 1..last."""
    return lambda precision: FixedPowers(rate, precision).table(last + 1)[1:]


def _digit_survival(rate: Fraction) -> Callable[[int], list[Bounds]]:
    """Return a function that maps a precision to bounds on P(digit >= k) for k = 1..4095.

    The digit is the remainder modulo 4096 of a geometric variable with q = e^(-rate). Therefore
    P(digit >= k) = (q^k - q^4096) / (1 - q^4096).
    """

    def bounds(precision: int) -> list[Bounds]:
        """Return bounds on the probabilities, in units of 2^-precision."""
        working = precision + GUARD_BITS  # the denominator 1 - q^4096 may be small
        unit = 1 << working
        end_lower, end_upper = exp_minus(rate * BASE, working)
        return [
            (
                ((lower - end_upper) << precision) // (unit - end_lower),
                -((end_lower - upper << precision) // (unit - end_upper)),
            )
            for lower, upper in FixedPowers(rate, working).table(1 << DIGIT_BITS)[1:]
        ]

    return bounds


@lru_cache(maxsize=16)
def _geometric(rate: Fraction) -> _Geometric:
    """Return the geometric distribution with a given rate; its tables are cached."""
    return _Geometric(rate)
