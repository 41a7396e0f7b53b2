"""Gaussian noise rounded to integers, sampled exactly.

Integers plus this noise are the continuous Gaussian mechanism, rounded afterwards. The proof is
docs/proofs/gaussian.md. A normal number is drawn by Karney's (2016) rejection sampling, with as
many binary digits as its rounding needs. Floats decide from the first 53 digits if a proved error
bound permits it, and integers decide all other cases.
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
from skpublicdp.mechanisms.exact_exp import Bounds, exp_minus
from skpublicdp.mechanisms.randomness import RandomBits
from skpublicdp.typing import Floats, Integers, Mask

Words = NDArray[np.uint64]
"""Random words."""

BLOCKS = 16
"""Number of blocks in a standard deviation: enough for few rejections."""

REACH = 4
"""Standard deviations that the table of blocks covers; the tail has a geometric envelope."""

RATE = Fraction(1, 2 * BLOCKS**2)
"""Rate of the density of a number x in blocks, which is proportional to exp(-RATE x^2)."""

TERMS = 12
"""Number of terms of the Taylor series of exp, enough for the exponents within a block."""

ERROR_OF_EXP = 2.0**-48
"""Bound on the absolute error of a float exponential, with a margin (docs/proofs/gaussian.md)."""

ERROR_OF_SCALING = 2.0**-50
"""Bound on the relative error of a scaled float, with a margin (docs/proofs/gaussian.md)."""


def rounded_gaussian(sigma2: Fraction, size: int, bits: RandomBits) -> Integers:
    """Return Gaussian noise rounded to integers.

    P(k) = Φ((k + 1/2) / σ) - Φ((k - 1/2) / σ), exactly.

    Parameters
    ----------
    sigma2 : Fraction
        Variance before rounding, positive and at most 2^60. Rounding adds about 1/12.
    size : int
        Number of independent draws.
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
    skpublicdp.accounting.gaussian_delta : The privacy of *integers* with this noise.

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
        # the first accepted ones in order: their values are independent of the rejections
        accepted.append(_propose(scale, n_missing + n_missing // 16 + 16, bits)[:n_missing])
        n_missing -= len(accepted[-1])
    return np.concatenate(accepted)


class _Scale:
    """Scaling of a number in blocks by σ / BLOCKS, followed by rounding to an integer."""

    def __init__(self, sigma2: Fraction) -> None:
        self._square = sigma2 / BLOCKS**2
        magnitude = sigma2.numerator.bit_length() - sigma2.denominator.bit_length()
        places = max(0, 2 * WORD_BITS - magnitude)
        root = isqrt((self._square * 4**places).__floor__())
        self._float = root / (1 << places)  # Python rounds int / int correctly for all sizes

    def round(self, blocks: Floats) -> tuple[Integers, Mask]:
        """Return the rounded numbers, and where the error bound proves them."""
        scaled = self._float * blocks
        nearest = np.rint(scaled)
        error = ERROR_OF_SCALING * (scaled + self._float)
        return nearest.astype(np.int64), abs(scaled - nearest) < 0.5 - error

    def round_exactly(self, block: int, inside: _Uniform) -> int:
        """Return the rounded number, after drawing as many digits as the rounding needs."""
        precision = 2 * WORD_BITS
        while True:
            number = (block << precision) + inside.digits(precision)
            lower, upper = (self._round_half_up(end, precision) for end in (number, number + 1))
            if lower == upper:
                return lower
            precision *= 2

    def _round_half_up(self, number: int, precision: int) -> int:
        """Return floor(z + 1/2) = floor((floor(2z) + 1) / 2) for the scaled number z."""
        squared = 4 * self._square * number**2
        return (isqrt((squared / (1 << 2 * precision)).__floor__()) + 1) // 2


def _propose(scale: _Scale, size: int, bits: RandomBits) -> Integers:
    """Draw `size` proposals and return the accepted values, in order.

    A proposal is a block, a position inside the block, a coin for its acceptance and a sign.
    """
    block = _blocks().count_above(size, bits)
    inside = bits.words(size)
    coin = bits.words(size)
    magnitude, accepted, certain = _decide_by_floats(scale, block, inside, coin)
    for i in np.flatnonzero(~certain):
        magnitude[i], accepted[i] = _decide_by_integers(
            scale, int(block[i]), int(inside[i]), int(coin[i]), bits
        )
    negative = inside & np.uint64(1) == 1  # the last bit of the word is no digit of the position
    return np.where(negative, -magnitude, magnitude)[accepted]


def _decide_by_floats(
    scale: _Scale, block: Integers, inside: Words, coin: Words
) -> tuple[Integers, Mask, Mask]:
    """Round, and accept or reject, proposals by their first 53 digits.

    Returns
    -------
    magnitude : ndarray of int64, shape (size,)
        Rounded absolute values.
    accepted : ndarray of bool, shape (size,)
        Outcome of the rejection step.
    certain : ndarray of bool, shape (size,)
        Whether the error bounds prove both; otherwise both are arbitrary.
    """
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
    """Return the first 53 binary digits of words as numbers in [0, 1)."""
    digits: Floats = (words >> np.uint64(11)).astype(np.float64)
    return digits * 2.0**-53


def _decide_by_integers(
    scale: _Scale, block: int, inside: int, coin: int, bits: RandomBits
) -> tuple[int, bool]:
    """Return the rounded magnitude of one proposal and whether it is accepted.

    Digits of the position and of the coin are drawn until both decisions are certain.
    """
    envelope = block**2
    if block == REACH * BLOCKS:
        n_further_blocks = int(_geometric(2 * block * RATE).draw(1, bits)[0])
        envelope += 2 * block * n_further_blocks
        block += n_further_blocks
    number = _Uniform(bits, inside >> 1, WORD_BITS - 1)

    def acceptance(precision: int) -> Bounds:
        """Enclose the acceptance probability exp(-RATE (x^2 - envelope)), x = block + number."""
        start = (block << precision) + number.digits(precision)
        lower, upper = (
            Fraction(end**2, 1 << 2 * precision) - envelope for end in (start, start + 1)
        )
        return exp_minus(RATE * upper, precision)[0], exp_minus(RATE * lower, precision)[1]

    if not _Uniform(bits, coin, WORD_BITS).below(acceptance):
        return 0, False
    return scale.round_exactly(block, number), True


def _block_survival(last: int) -> Callable[[int], list[Bounds]]:
    """Return the function that encloses the probability of blocks k and above, k = 1..last.

    Block h < last has weight e^(-RATE h^2). The blocks from `last` on have the total weight
    e^(-RATE last^2) / (1 - e^(-2 RATE last)) of the geometric envelope.
    """

    def bounds(precision: int) -> list[Bounds]:
        """Enclose the probabilities in units of 2^-precision."""
        working = precision + 32
        unit = 1 << working
        weights = [exp_minus(RATE * h * h, working) for h in range(last + 1)]
        step_lower, step_upper = exp_minus(2 * RATE * last, working)
        lower, upper = weights.pop()
        lower = (lower << working) // (unit - step_lower)
        upper = -((-upper << working) // (unit - step_upper))
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
    """Return the table of the distribution of blocks, the same for every σ."""
    return _Thresholds(_block_survival(REACH * BLOCKS))
