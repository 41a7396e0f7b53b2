"""Exact discrete Laplace noise; the proof is docs/proofs/noise.md.

After Canonne, Kamath and Steinke (2020). Every decision is one question: is a fresh uniform number
below a threshold in [0, 1]? Tables hold the first 64 binary digits of the thresholds, proved by
integer arithmetic, so one random word answers it unless the word equals the digits; then both
numbers get more digits until they differ. There is no floating point here.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from skpublicdp.mechanisms.exact_exp import DIGIT_BITS, Bounds, FixedPowers, exp_minus
from skpublicdp.mechanisms.randomness import RandomBits
from skpublicdp.typing import Integers

LARGEST_SCALE = 1 << 30
"""Draws of such a scale still fit int64, with room for the tails."""

GEOMETRIC_REACH = 8
"""The table of a geometric variable ends at 8 scales, and starts anew from there."""

WORD = 64
DIGITS = 1 << DIGIT_BITS


def discrete_laplace(scale: Fraction, size: int, bits: RandomBits) -> Integers:
    """Draw discrete Laplace noise: P(x) proportional to exp(-abs(x) / scale) on the integers.

    Parameters
    ----------
    scale : Fraction
        Positive, at most 2^30.
    size : int
        How many independent draws.
    bits : RandomBits
        Source of randomness.

    Returns
    -------
    ndarray of int64, shape (size,)
        The draws.

    Raises
    ------
    ValueError
        If `scale` or `size` is out of range.

    Notes
    -----
    Added to integers whose changes add up to at most D when one row is replaced, noise of scale
    D / ε makes them ε-differentially private (Dwork, McSherry, Nissim and Smith 2006).

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
    if not 0 < value <= largest:
        raise ValueError(f"{name} must be positive and at most {largest}; got {value}.")
    if size < 0:
        raise ValueError(f"size must not be negative; got {size}.")


class _Uniform:
    """A uniform number on [0, 1) whose binary digits are drawn when they are needed."""

    def __init__(self, bits: RandomBits, digits: int, known: int) -> None:
        self._bits = bits
        self._digits = digits
        self._known = known

    def digits(self, precision: int) -> int:
        """Return the first `precision` binary digits, as an integer."""
        if (fresh := precision - self._known) > 0:
            self._digits = self._digits << fresh | self._bits.bits(fresh)
            self._known = precision
        return self._digits >> (self._known - precision)

    def below(self, bounds: Callable[[int], Bounds]) -> bool:
        """Whether the number is below the one that ``bounds(precision)`` encloses."""
        precision = max(2 * WORD, self._known)
        while True:
            digits = self.digits(precision)
            lower, upper = bounds(precision)
            if digits < lower:  # the number is below (digits + 1) / 2^precision
                return True
            if digits >= upper:
                return False
            precision *= 2


class _Thresholds:
    """Reals in [0, 1], known to 64 binary digits in a table and to any number of them on demand.

    Parameters
    ----------
    bounds : callable
        ``bounds(precision)`` encloses all of them, in units of 2^-precision.
    """

    def __init__(self, bounds: Callable[[int], list[Bounds]]) -> None:
        self._bounds = bounds
        precision = 2 * WORD
        while (words := _leading_words(bounds(precision), precision)) is None:
            precision *= 2
        self._words = np.array(words, dtype=np.uint64)
        self._ascending = self._words[::-1].copy()

    def count_above(self, size: int, bits: RandomBits) -> Integers:
        """Count the thresholds above each of `size` fresh uniform numbers.

        The thresholds must not increase with their index.
        """
        uniform = bits.words(size)
        not_above = np.searchsorted(self._ascending, uniform, side="right")
        count = len(self._words) - not_above
        # if the table has the very word, it is the last one that is not above it
        for i in np.flatnonzero(self._ascending[not_above - 1] == uniform):
            number = _Uniform(bits, int(uniform[i]), WORD)
            while (
                count[i] < len(self._words)
                and self._words[count[i]] == uniform[i]
                and number.below(self._threshold(int(count[i])))
            ):
                count[i] += 1
        return count

    def _threshold(self, index: int) -> Callable[[int], Bounds]:
        return lambda precision: self._bounds(precision)[index]


def _leading_words(bounds: list[Bounds], precision: int) -> list[int] | None:
    """Return a with a <= t 2^64 <= a + 1 for each t, or None if the bounds do not settle it."""
    shift = precision - WORD
    words = [min(max(lower >> shift, 0), (1 << WORD) - 1) for lower, _ in bounds]
    settled = all(
        upper <= (word + 1) << shift for word, (_, upper) in zip(words, bounds, strict=True)
    )
    return words if settled else None


class _Geometric:
    """P(n) = (1 - q) q^n on n >= 0, q = e^(-rate): its digits to any base are independent."""

    def __init__(self, rate: Fraction) -> None:
        self._digits: list[_Thresholds] = []
        while 32 * GEOMETRIC_REACH * rate < 1:  # then the table below has at most 4,095 entries
            self._digits.append(_Thresholds(_digit_survival(rate)))
            rate *= DIGITS
        self._last = -(-GEOMETRIC_REACH // rate)
        self._high = _Thresholds(_geometric_survival(rate, self._last))

    def draw(self, size: int, bits: RandomBits) -> Integers:
        value = self._draw_high(size, bits)
        for digit in reversed(self._digits):
            value = (value << DIGIT_BITS) + digit.count_above(size, bits)
        return value

    def _draw_high(self, size: int, bits: RandomBits) -> Integers:
        value = np.zeros(size, dtype=np.int64)
        pending = np.arange(size)
        while len(pending):  # who reached the end of the table has no memory and goes on from there
            more = self._high.count_above(len(pending), bits)
            value[pending] += more
            pending = pending[more == self._last]
        return value


def _geometric_survival(rate: Fraction, last: int) -> Callable[[int], list[Bounds]]:
    """Enclose P(n >= k) = q^k for k = 1..last."""
    return lambda precision: FixedPowers(rate, precision).table(last + 1)[1:]


def _digit_survival(rate: Fraction) -> Callable[[int], list[Bounds]]:
    """Enclose P(d >= k) = (q^k - q^4096) / (1 - q^4096) for k = 1..4095."""

    def bounds(precision: int) -> list[Bounds]:
        working = precision + 32  # 1 - q^4096 may be small
        one = 1 << working
        end_lower, end_upper = exp_minus(rate * DIGITS, working)
        return [
            (
                ((lower - end_upper) << precision) // (one - end_lower),
                -((end_lower - upper << precision) // (one - end_upper)),
            )
            for lower, upper in FixedPowers(rate, working).table(1 << DIGIT_BITS)[1:]
        ]

    return bounds


@lru_cache(maxsize=16)
def _geometric(rate: Fraction) -> _Geometric:
    return _Geometric(rate)
