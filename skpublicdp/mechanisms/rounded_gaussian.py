"""Gaussian noise, rounded: exact draws; the proof is docs/proofs/gaussian.md.

Added to integers it is the continuous Gaussian mechanism, rounded afterwards. A real number is
drawn as Karney (2016) draws it, by rejection and with as many binary digits as the outcome takes.
Floats look at the first 53 digits and decide only where a bound of all their errors allows it; what
is left over is decided by integers.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from skpublicdp.mechanisms.discrete_laplace import (
    LARGEST_SCALE,
    WORD,
    _check_range,
    _geometric,
    _Thresholds,
    _Uniform,
)
from skpublicdp.mechanisms.exact_exp import Bounds, exp_minus
from skpublicdp.mechanisms.randomness import RandomBits
from skpublicdp.typing import Floats, Integers

Words = NDArray[np.uint64]

BLOCKS = 16
"""Blocks in a standard deviation: few proposals are rejected."""

REACH = 4
"""Blocks are in a table up to 4 standard deviations; beyond, a geometric envelope."""

RATE = Fraction(1, 2 * BLOCKS**2)
"""A number x, in blocks, has density in proportion to exp(-RATE x^2)."""

TERMS = 12
"""Of the Taylor series of exp, enough for the exponents within a block."""

ERROR_OF_EXP = 2.0**-48
ERROR_OF_SCALING = 2.0**-50
"""More than all errors of the floats, absolute and relative; see the proof."""


def rounded_gaussian(sigma2: Fraction, size: int, bits: RandomBits) -> Integers:
    """Draw Gaussian noise rounded to integers.

    P(k) = Φ((k + 1/2) / σ) - Φ((k - 1/2) / σ), exactly.

    Parameters
    ----------
    sigma2 : Fraction
        Variance before rounding, positive and at most 2^60. Rounding adds about 1/12.
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
        If `sigma2` or `size` is out of range.

    See Also
    --------
    skpublicdp.accounting.gaussian_delta : The privacy of *integers* with such noise.

    References
    ----------
    Karney (2016), Sampling exactly from the normal distribution.

    Examples
    --------
    >>> from skpublicdp.mechanisms.randomness import SeededBits
    >>> rounded_gaussian(Fraction(10), 5, SeededBits(0))
    array([...])
    """
    _check_range("sigma2", sigma2, LARGEST_SCALE**2, size)
    scale = _Scale(Fraction(sigma2))
    kept = [np.empty(0, dtype=np.int64)]
    missing = size
    while missing > 0:
        # the first ones kept, in the order they came: how many were tried says nothing of them
        kept.append(_try_some(scale, missing + missing // 16 + 16, bits)[:missing])
        missing -= len(kept[-1])
    return np.concatenate(kept)


class _Scale:
    """Multiplies a number that is known to some digits by σ / BLOCKS, and rounds."""

    def __init__(self, sigma2: Fraction) -> None:
        self._square = sigma2 / BLOCKS**2
        places = max(0, WORD * 2 - sigma2.numerator.bit_length() + sigma2.denominator.bit_length())
        root = isqrt((self._square * 4**places).__floor__())
        self._float = root / (1 << places)  # int / int rounds correctly, whatever the sizes

    def round(self, blocks: Floats) -> tuple[Integers, NDArray[np.bool_]]:
        """Round, and tell where the result is certain."""
        scaled = self._float * blocks
        nearest = np.rint(scaled)
        error = ERROR_OF_SCALING * (scaled + self._float)
        return nearest.astype(np.int64), abs(scaled - nearest) < 0.5 - error

    def round_exactly(self, block: int, inside: _Uniform) -> int:
        """Round the number with as many digits as it takes."""
        precision = 2 * WORD
        while True:
            number = (block << precision) + inside.digits(precision)
            nearest, other = (self._at(end, precision) for end in (number, number + 1))
            if nearest == other:
                return nearest
            precision *= 2

    def _at(self, number: int, precision: int) -> int:
        """Return floor(z + 1/2) = floor((floor(2z) + 1) / 2) of the scaled number z."""
        squared = 4 * self._square * number**2
        return (isqrt((squared / (1 << 2 * precision)).__floor__()) + 1) // 2


def _try_some(scale: _Scale, size: int, bits: RandomBits) -> Integers:
    """Propose `size` values and return those that are kept."""
    block = _blocks().count_above(size, bits)
    inside = bits.words(size)
    coin = bits.words(size)
    magnitude, keep, certain = _look(scale, block, inside, coin)
    for i in np.flatnonzero(~certain):
        magnitude[i], keep[i] = _settle(scale, int(block[i]), int(inside[i]), int(coin[i]), bits)
    negative = inside & np.uint64(1) == 1  # a bit that is not a digit of the number
    return np.where(negative, -magnitude, magnitude)[keep]


def _look(
    scale: _Scale, block: Integers, inside: Words, coin: Words
) -> tuple[Integers, NDArray[np.bool_], NDArray[np.bool_]]:
    """Round and keep or reject by the first 53 digits, and tell where that is certain."""
    fraction = _leading_digits(inside)
    exponent = fraction * (2.0 * block + fraction) / (2 * BLOCKS**2)
    chance = np.ones(len(block))
    for term in range(TERMS, 0, -1):
        chance = 1 - exponent / term * chance
    distance = chance - _leading_digits(coin)
    magnitude, certain = scale.round(block + fraction)
    keep = distance > 0
    certain |= ~keep  # nobody asks for the magnitude of what is rejected
    certain &= abs(distance) > ERROR_OF_EXP
    certain &= block < REACH * BLOCKS
    return magnitude, keep, certain


def _leading_digits(words: Words) -> Floats:
    digits: Floats = (words >> np.uint64(11)).astype(np.float64)
    return digits * 2.0**-53


def _settle(
    scale: _Scale, block: int, inside: int, coin: int, bits: RandomBits
) -> tuple[int, bool]:
    """Decide one proposal with as many digits as it takes."""
    envelope = block**2
    if block == REACH * BLOCKS:
        beyond = int(_geometric(2 * block * RATE).draw(1, bits)[0])
        envelope += 2 * block * beyond
        block += beyond
    number = _Uniform(bits, inside >> 1, WORD - 1)

    def chance(precision: int) -> Bounds:
        """Enclose exp(-RATE (x^2 - envelope)) for x = block + number."""
        start = (block << precision) + number.digits(precision)
        lower, upper = (
            Fraction(end**2, 1 << 2 * precision) - envelope for end in (start, start + 1)
        )
        return exp_minus(RATE * upper, precision)[0], exp_minus(RATE * lower, precision)[1]

    if not _Uniform(bits, coin, WORD).below(chance):
        return 0, False
    return scale.round_exactly(block, number), True


def _block_survival(last: int) -> Callable[[int], list[Bounds]]:
    """Enclose the share of blocks k and beyond, k = 1..last.

    Block h < last weighs e^(-RATE h^2), and all others together
    e^(-RATE last^2) / (1 - e^(-2 RATE last)).
    """

    def bounds(precision: int) -> list[Bounds]:
        working = precision + 32
        one = 1 << working
        weights = [exp_minus(RATE * h * h, working) for h in range(last + 1)]
        step_lower, step_upper = exp_minus(2 * RATE * last, working)
        lower, upper = weights.pop()
        lower = (lower << working) // (one - step_lower)
        upper = -((-upper << working) // (one - step_upper))
        beyond = [(lower, upper)]
        for weight_lower, weight_upper in reversed(weights):
            lower += weight_lower
            upper += weight_upper
            beyond.append((lower, upper))
        total_lower, total_upper = beyond.pop()
        return [
            ((lower << precision) // total_upper, -((-upper << precision) // total_lower))
            for lower, upper in reversed(beyond)
        ]

    return bounds


@cache
def _blocks() -> _Thresholds:
    return _Thresholds(_block_survival(REACH * BLOCKS))
