"""Uniformly random subsets and orders, exactly, from random bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skpublicdp.mechanisms.randomness import RandomBits

AT_ONCE = 1 << 20
"""Positions drawn at a time, for the sake of memory."""


def random_subset(n: int, k: int, bits: RandomBits) -> NDArray[np.intp]:
    """Draw k of n positions, each set of k equally likely.

    Parameters
    ----------
    n : int
        Number of positions.
    k : int
        Number of positions drawn, at most n.
    bits : RandomBits
        Source of randomness.

    Returns
    -------
    ndarray of intp, shape (k,)
        The positions, increasing.

    Notes
    -----
    If k is at most half of n, the first k different ones of uniform positions are drawn: each set
    is then as likely as any other. Else every position gets a random key of 64 bits, and the k
    least keys win. Where the k-th and the next are equal all keys are drawn anew: that event treats
    all positions alike, so that given that it does not happen each set is as likely as any other.

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
        return _first_different(n, k, bits)
    while True:
        keys = bits.words(n)
        last, following = np.partition(keys, (k - 1, k))[k - 1 : k + 1]
        if last < following:
            return np.flatnonzero(keys <= last)


def _first_different(n: int, k: int, bits: RandomBits) -> NDArray[np.intp]:
    different, missing = np.zeros(n, dtype=bool), k
    while missing:  # never more are drawn than are missing, so that none is too many
        different[random_indices(n, min(missing, AT_ONCE), bits)] = True
        missing = k - int(np.count_nonzero(different))
    return np.flatnonzero(different)


def random_order(n: int, bits: RandomBits) -> NDArray[np.intp]:
    """Draw an order of n positions, each equally likely.

    Parameters
    ----------
    n : int
        Number of positions.
    bits : RandomBits
        Source of randomness.

    Returns
    -------
    ndarray of intp, shape (n,)
        The positions in that order: those of sorted keys as in `random_subset`, all distinct.

    Examples
    --------
    >>> from skpublicdp.mechanisms.randomness import SeededBits
    >>> sorted(random_order(4, SeededBits(0)).tolist())
    [0, 1, 2, 3]
    """
    while True:
        keys = bits.words(n)
        order = np.argsort(keys)
        if (np.diff(keys[order]) > 0).all():  # of unsigned words: 0 where two are equal
            return order


def random_indices(n: int, k: int, bits: RandomBits) -> NDArray[np.intp]:
    """Draw k positions of n with replacement, each exactly uniform, by rejection.

    Parameters
    ----------
    n : int
        Number of positions, at least 1.
    k : int
        How many to draw.
    bits : RandomBits
        Source of randomness.

    Returns
    -------
    ndarray of intp, shape (k,)
        The positions, in the order drawn.

    Examples
    --------
    >>> from skpublicdp.mechanisms.randomness import SeededBits
    >>> random_indices(1, 3, SeededBits(0))
    array([0, 0, 0])
    """
    limit = (1 << 64) // n * n  # a multiple of n, so that remainders are equally likely
    drawn = np.zeros(0, dtype=np.uint64)
    while len(drawn) < k:
        words = bits.words(k - len(drawn))
        drawn = np.concatenate([drawn, words[words <= np.uint64(limit - 1)]])
    return (drawn % np.uint64(n)).astype(np.intp)
