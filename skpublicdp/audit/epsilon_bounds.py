"""Lower bounds on ε from counts of correct guesses, by exact binomial tests."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import beta as beta_distribution
from scipy.stats import binom

MAX_EPSILON = 50.0
"""Upper end of the search for ε. No attack on fewer than e^50 rows can prove more."""


def clopper_pearson(successes: int, n: int, level: float) -> tuple[float, float]:
    """Return the Clopper-Pearson confidence interval of a proportion.

    Parameters
    ----------
    successes : int
        How many of n independent rows have a property.
    n : int
        Rows, at least one.
    level : float
        How often the share must lie inside, in (0, 1), and outside to either side at most half as
        often as it may.

    Returns
    -------
    tuple of float
        Low and high.

    References
    ----------
    Clopper and Pearson (1934).

    Examples
    --------
    >>> [round(end, 3) for end in clopper_pearson(0, 10, 0.95)]
    [0.0, 0.308]
    """
    tail = (1 - level) / 2
    low = beta_distribution.ppf(tail, successes, n - successes + 1) if successes else 0.0
    high = beta_distribution.isf(tail, successes + 1, n - successes) if successes < n else 1.0
    return float(low), float(high)


def epsilon_lower_bound(
    right: int, guesses: int, pairs: int, delta: float, failure: float
) -> float:
    """Return the smallest ε at which so many correct guesses have probability >= `failure`."""
    low, high = 0.0, MAX_EPSILON
    if _guess_probability(right, guesses, pairs, low, delta) >= failure:
        return low
    for _ in range(60):
        middle = (low + high) / 2
        refuted = _guess_probability(right, guesses, pairs, middle, delta) < failure
        low, high = (middle, high) if refuted else (low, middle)
    return low  # refuted itself, and with it every smaller ε


def _guess_probability(right: int, guesses: int, pairs: int, epsilon: float, delta: float) -> float:
    """Bound the probability of so many correct guesses (Steinke et al. 2023, Thms 5.1, 5.2)."""
    q = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, q))
    if not delta or not right:
        return tail
    drops = np.arange(1, right + 1)
    just_below = np.cumsum(binom.pmf(right - drops, guesses, q))
    return min(1.0, tail + 2 * pairs * delta * float((just_below / drops).max()))
