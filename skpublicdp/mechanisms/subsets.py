"""Exactly uniform random subsets, permutations and indices drawn from random bits."""

from __future__ import annotations

import numpy as np

from skpublicdp.mechanisms.randomness import RandomBits
from skpublicdp.typing import Codes

MAX_INDICES_PER_BATCH = 1 << 20
"""Number of indices that are drawn at once, which limits memory use."""


def random_subset(n: int, k: int, bits: RandomBits) -> Codes:
    """Return k of n positions, drawn uniformly without replacement.

    Notes
    -----
    If k is at most n / 2, uniform positions are drawn until k of them are distinct. By symmetry,
    all sets of k positions are equally likely. Otherwise, each position is assigned a random 64-bit
    key, and the positions with the k smallest keys are returned. If the k-th smallest key equals
    the next one, all keys are drawn again. This event is symmetric in the positions, so all sets
    remain equally likely.

    Examples
    --------
    >>> from skpublicdp.mechanisms.randomness import SeededBits
    >>> random_subset(10, 3, SeededBits(0)).shape
    (3,)
    """
    if not 0 <= k <= n:
        raise ValueError(f"k must be between 0 and n; got k={k} and n={n}.")
    if k in (0, n):
        return np.arange(k)
    if 2 * k <= n:
        return _first_distinct(n, k, bits)
    while True:
        keys = bits.words(n)
        kth_key, next_key = np.partition(keys, (k - 1, k))[k - 1 : k + 1]
        if kth_key < next_key:
            return np.flatnonzero(keys <= kth_key)


def _first_distinct(n: int, k: int, bits: RandomBits) -> Codes:
    """Draw uniform positions until k are distinct; return these k positions in increasing order."""
    is_drawn = np.zeros(n, dtype=bool)
    n_missing = k
    while n_missing:
        # a batch of at most `n_missing` positions never yields more than k distinct positions
        batch_size = min(n_missing, MAX_INDICES_PER_BATCH)
        is_drawn[random_indices(n, batch_size, bits)] = True
        n_missing = k - int(np.count_nonzero(is_drawn))
    return np.flatnonzero(is_drawn)


def random_order(n: int, bits: RandomBits) -> Codes:
    """Return a uniformly random permutation of n positions.

    Examples
    --------
    >>> from skpublicdp.mechanisms.randomness import SeededBits
    >>> sorted(random_order(4, SeededBits(0)).tolist())
    [0, 1, 2, 3]
    """
    while True:
        keys = bits.words(n)
        order = np.argsort(keys)
        if (np.diff(keys[order]) > 0).all():  # differences of unsigned words are 0 for equal keys
            return order


def random_indices(n: int, k: int, bits: RandomBits) -> Codes:
    """Return k of n positions, drawn exactly uniformly with replacement by rejection sampling.

    Examples
    --------
    >>> from skpublicdp.mechanisms.randomness import SeededBits
    >>> random_indices(1, 3, SeededBits(0))
    array([0, 0, 0])
    """
    # the largest multiple of n, below which all remainders modulo n are equally likely
    limit = (1 << 64) // n * n
    accepted = np.zeros(0, dtype=np.uint64)
    while len(accepted) < k:
        words = bits.words(k - len(accepted))
        is_below_limit = words <= np.uint64(limit - 1)
        accepted = np.append(accepted, words[is_below_limit])
    remainders = accepted % np.uint64(n)
    return remainders.astype(np.intp)
