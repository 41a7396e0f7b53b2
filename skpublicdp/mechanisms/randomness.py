"""Sources of random bits: the secure generator of the operating system, and a seeded generator."""

from __future__ import annotations

import secrets
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class RandomBits(Protocol):
    """Protocol for sources of independent, fair random bits."""

    @property
    def secure(self) -> bool:
        """Whether the bits come from the operating system's CSPRNG."""

    def bits(self, count: int) -> int:
        """Return a uniform random integer from ``range(2**count)``."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` independent, uniform random integers from ``range(2**64)``."""


class SecureBits:
    """Bits from the operating system's cryptographically secure generator."""

    secure = True

    def bits(self, count: int) -> int:
        """Return a uniform random integer from ``range(2**count)``."""
        return secrets.randbits(count)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` independent, uniform random integers from ``range(2**64)``."""
        return np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64)


class SeededBits:
    """Repeatable random bits for tests and papers. Anyone who knows the seed can remove the noise.

    Parameters
    ----------
    seed : int
        Non-negative seed.
    """

    secure = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def bits(self, count: int) -> int:
        """Return a uniform random integer from ``range(2**count)``."""
        n_bytes = -(-count // 8)  # rounded up; surplus bits are shifted out
        return int.from_bytes(self._generator.bytes(n_bytes)) >> (8 * n_bytes - count)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` independent, uniform random integers from ``range(2**64)``."""
        # explicit byte order, so that a seed gives the same words on every machine
        words = np.frombuffer(self._generator.bytes(8 * count), dtype="<u8")
        return words.astype(np.uint64, copy=False)


def random_bits(random_state: object = None) -> RandomBits:
    """Return the source of random bits for a `random_state` parameter.

    Examples
    --------
    >>> random_bits(0).bits(16) == random_bits(0).bits(16)
    True
    >>> random_bits().secure
    True
    """
    if random_state is None:
        return SecureBits()
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return SeededBits(int(random_state))
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return SeededBits(int.from_bytes(random_state.bytes(32)))
    raise ValueError(
        "random_state must be None, a non-negative integer or a numpy generator; "
        f"got {random_state!r}."
    )


def uniform_below(bound: int, bits: RandomBits) -> int:
    """Return an exactly uniform integer from ``range(bound)``, drawn by rejection sampling."""
    count = (bound - 1).bit_length()
    while True:
        value = bits.bits(count)
        if value < bound:
            return value
