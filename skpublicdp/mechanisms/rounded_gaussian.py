"""Gaussian noise rounded to integers, sampled exactly.

Adding this noise to integers is equivalent to applying the continuous Gaussian mechanism and then
rounding. The proof is in docs/proofs/gaussian.md. Normal numbers are drawn by Karney's (2016)
rejection sampling, which generates only the binary digits needed for rounding. If a proved error
bound permits it, the decision is made in float arithmetic from the first 53 digits; otherwise, it
is made in integer arithmetic.
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
    WORD_BITS,
    _check_range,
    _geometric,
    _Thresholds,
    _Uniform,
)
from skpublicdp.mechanisms.exact_exp import GUARD_BITS, Bounds, exp_minus
from skpublicdp.mechanisms.randomness import RandomBits
from skpublicdp.typing import Floats, Integers, Mask

Words = NDArray[np.uint64]
"""Random words."""

BLOCKS = 16
"""Number of blocks per standard deviation. Blocks of length σ/16 lead to few rejections."""

REACH = 4
"""Number of standard deviations covered by a table with one entry per block. Beyond this range, the
block is drawn from a geometric distribution."""

RATE = Fraction(1, 2 * BLOCKS**2)
"""Rate of the normal density. A number x, in units of one block, has density c exp(-RATE x^2)."""

TERMS = 12
"""Number of Taylor terms of exp, with an error below 2^-57 for exponents up to 0.253."""

FLOAT_BITS = 53
"""Number of binary digits of a float."""

ERROR_OF_EXP = 2.0**-48
"""Bound on the absolute error of a float exponential, with a margin (docs/proofs/gaussian.md)."""

ERROR_OF_SCALING = 2.0**-50
"""Bound on the relative error of a scaled float, with a margin (docs/proofs/gaussian.md)."""


def rounded_gaussian(sigma2: Fraction, size: int, bits: RandomBits) -> Integers:
    """Return independent draws of Gaussian noise rounded to integers.

    The distribution is exactly P(k) = Φ((k + 1/2) / σ) - Φ((k - 1/2) / σ).

    See Also
    --------
    skpublicdp.accounting.gaussian_delta : The privacy of *integers* to which this noise is added.

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
    accepted = [np.empty(0, dtype=np.int64)]
    n_missing = size
    while n_missing > 0:
        # slightly more proposals than needed, because some are rejected
        proposals = _draw_accepted(scale, n_missing + n_missing // 16 + 16, bits)
        # keep the first accepted proposals in order: their values are independent of the rejections
        accepted.append(proposals[:n_missing])
        n_missing -= len(accepted[-1])
    return np.concatenate(accepted)


class _Scale:
    """Conversion of numbers in units of one block, σ / BLOCKS, to the nearest integer.

    Parameters
    ----------
    sigma2 : Fraction
        Variance σ^2 of the noise before rounding.
    """

    def __init__(self, sigma2: Fraction) -> None:
        self._square = sigma2 / BLOCKS**2  # square of the length of a block
        # the square root in fixed point, with at least 64 significant binary digits
        magnitude = sigma2.numerator.bit_length() - sigma2.denominator.bit_length()
        places = max(0, 2 * WORD_BITS - magnitude)
        root = isqrt((self._square * 4**places).__floor__())
        self._float = root / (1 << places)  # Python rounds int / int correctly for all sizes

    def round(self, blocks: Floats) -> tuple[Integers, Mask]:
        """Return the rounded numbers, and whether each is proved correct by the error bound."""
        scaled = self._float * blocks
        nearest = np.rint(scaled)
        error = ERROR_OF_SCALING * (scaled + self._float)
        return nearest.astype(np.int64), abs(scaled - nearest) < 0.5 - error

    def round_exactly(self, block: int, inside: _Uniform) -> int:
        """Return the number ``block + inside``, in units of one block, rounded to an integer.

        Digits of `inside`, the position in the block, are drawn until the rounding is certain.
        """
        precision = 2 * WORD_BITS
        while True:
            number = (block << precision) + inside.digits(precision)
            lower, upper = (self._round_half_up(end, precision) for end in (number, number + 1))
            if lower == upper:
                return lower
            precision *= 2

    def _round_half_up(self, number: int, precision: int) -> int:
        """Return floor(z + 1/2) = floor((floor(2z) + 1) / 2) for the scaled number z.

        The number is given in units of 2^-precision blocks. floor(2z) is an integer square root.
        """
        squared = 4 * self._square * number**2
        return (isqrt((squared / (1 << 2 * precision)).__floor__()) + 1) // 2


def _draw_accepted(scale: _Scale, size: int, bits: RandomBits) -> Integers:
    """Draw `size` proposals for Karney's rejection sampling, and return the accepted noise values.

    A proposal has four parts: a block, a position `inside` the block, a uniform number `coin` that
    decides on its acceptance, and a sign. The values are returned in the order of the proposals.
    """
    block = _blocks().count_above(size, bits)
    inside = bits.words(size)
    coin = bits.words(size)
    magnitude, accepted, certain = _decide_by_floats(scale, block, inside, coin)
    undecided = np.flatnonzero(~certain)
    for i in undecided:
        proposal = int(block[i]), int(inside[i]), int(coin[i])
        decision = _decide_by_integers(scale, *proposal, bits)
        magnitude[i], accepted[i] = decision
    # the last bit of the word is the sign; the other 63 bits are the position
    sign_bit = inside & np.uint64(1)
    is_negative = sign_bit == 1
    noise = np.where(is_negative, -magnitude, magnitude)
    return noise[accepted]


def _decide_by_floats(
    scale: _Scale, block: Integers, inside: Words, coin: Words
) -> tuple[Integers, Mask, Mask]:
    """Round and accept or reject proposals in float arithmetic, from their first 53 digits."""
    fraction = _leading_digits(inside)
    exponent = fraction * (2.0 * block + fraction) / (2 * BLOCKS**2)
    exponential = np.ones(len(block))  # Taylor series of exp(-exponent) in Horner form
    for term in range(TERMS, 0, -1):
        exponential = 1 - exponent / term * exponential
    distance = exponential - _leading_digits(coin)
    magnitude, certain = scale.round(block + fraction)
    accepted = distance > 0
    certain |= ~accepted  # the magnitude of a rejected proposal is not used
    certain &= abs(distance) > ERROR_OF_EXP
    certain &= block < REACH * BLOCKS
    return magnitude, accepted, certain


def _leading_digits(words: Words) -> Floats:
    """Return the numbers in [0, 1) given by the first 53 binary digits of each 64-bit word."""
    digits: Floats = (words >> np.uint64(WORD_BITS - FLOAT_BITS)).astype(np.float64)
    return digits * 2.0**-FLOAT_BITS


def _decide_by_integers(
    scale: _Scale, block: int, inside: int, coin: int, bits: RandomBits
) -> tuple[int, bool]:
    """Return the rounded magnitude of one proposal (0 if rejected) and whether it is accepted.

    This function corresponds to `_decide_by_floats` for a single proposal, but without rounding
    errors. Further digits of the position and of the coin are drawn until both decisions are
    proved.
    """
    # the acceptance probability is exp(-RATE (x^2 - envelope)) for the proposed number x
    envelope = block**2
    if block == REACH * BLOCKS:  # the last entry of the table represents all further blocks
        n_further_blocks = int(_geometric(2 * block * RATE).draw(1, bits)[0])
        envelope += 2 * block * n_further_blocks
        block += n_further_blocks
    number = _Uniform(bits, inside >> 1, WORD_BITS - 1)

    def acceptance(precision: int) -> Bounds:
        """Return bounds on the acceptance probability, where x = block + number."""
        start = (block << precision) + number.digits(precision)
        lower, upper = (
            Fraction(end**2, 1 << 2 * precision) - envelope for end in (start, start + 1)
        )
        probability_lower, _ = exp_minus(RATE * upper, precision)
        _, probability_upper = exp_minus(RATE * lower, precision)
        return probability_lower, probability_upper

    if not _Uniform(bits, coin, WORD_BITS).below(acceptance):
        return 0, False
    return scale.round_exactly(block, number), True


def _block_survival(last: int) -> Callable[[int], list[Bounds]]:
    """Return a function that maps a precision to bounds on P(block >= k) for k = 1..last.

    Block h < last has weight e^(-RATE h^2). The blocks from `last` on are assigned the total weight
    of a geometric envelope, e^(-RATE last^2) / (1 - e^(-2 RATE last)).
    """

    def bounds(precision: int) -> list[Bounds]:
        """Return bounds on the probabilities, in units of 2^-precision."""
        working = precision + GUARD_BITS
        unit = 1 << working
        weights = [exp_minus(RATE * h * h, working) for h in range(last + 1)]
        # the geometric series of the blocks from `last` on
        ratio_lower, ratio_upper = exp_minus(2 * RATE * last, working)
        lower, upper = weights.pop()
        lower = (lower << working) // (unit - ratio_lower)
        upper = -((-upper << working) // (unit - ratio_upper))
        # weights of the blocks k and above, for k = last, ..., 0
        tail_weights = [(lower, upper)]
        for weight_lower, weight_upper in reversed(weights):
            lower += weight_lower
            upper += weight_upper
            tail_weights.append((lower, upper))
        total_lower, total_upper = tail_weights.pop()
        return [
            ((lower << precision) // total_upper, -((-upper << precision) // total_lower))
            for lower, upper in reversed(tail_weights)
        ]

    return bounds


@cache
def _blocks() -> _Thresholds:
    """Return the thresholds P(block >= k) of the block distribution, the same for all σ."""
    return _Thresholds(_block_survival(REACH * BLOCKS))
