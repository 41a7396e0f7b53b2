"""Lower bounds on ε from numbers of correct guesses, using exact binomial tests."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import beta as beta_distribution
from scipy.stats import binom

MAX_EPSILON = 50.0
"""Upper limit of the search for ε. No attack on fewer than e^50 rows can prove a larger ε."""


def clopper_pearson(successes: int, n: int, level: float) -> tuple[float, float]:
    """Return the Clopper-Pearson confidence interval of a proportion.

    References
    ----------
    Clopper and Pearson (1934).

    Examples
    --------
    >>> [round(end, 3) for end in clopper_pearson(0, 10, 0.95)]
    [0.0, 0.308]
    """
    # `scipy.stats.binomtest` searches the ends up to an absolute error, which is too coarse for
    # small ends
    tail = (1 - level) / 2
    low = beta_distribution.ppf(tail, successes, n - successes + 1) if successes else 0.0
    high = beta_distribution.isf(tail, successes + 1, n - successes) if successes < n else 1.0
    return float(low), float(high)


def epsilon_lower_bound(
    n_correct: int, n_guesses: int, n_pairs: int, delta: float, failure: float
) -> float:
    """Return a lower confidence bound on ε from the number of correct guesses, by bisection.

    Every ε below the bound is rejected, because at this ε the probability of `n_correct` or more
    correct guesses is below `failure`.
    """
    low, high = 0.0, MAX_EPSILON
    if _guess_probability(n_correct, n_guesses, n_pairs, low, delta) >= failure:
        return low
    for _ in range(60):  # down to the precision of floats
        middle = (low + high) / 2
        refuted = _guess_probability(n_correct, n_guesses, n_pairs, middle, delta) < failure
        low, high = (middle, high) if refuted else (low, middle)
    return low  # refuted itself, and with it every smaller ε


def _guess_probability(
    n_correct: int, n_guesses: int, n_pairs: int, epsilon: float, delta: float
) -> float:
    """Return an upper bound on the probability of `n_correct` or more correct guesses.

    The guesses concern a release with (ε, δ)-differential privacy. See Steinke, Nasr and Jagielski
    (2023), Theorem 5.1, and Theorem 5.2 for δ above 0.
    """
    p_correct = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(n_correct - 1, n_guesses, p_correct))
    if not delta or not n_correct:
        return tail
    # maximum over i of P(n_correct - i <= X < n_correct) / i for the binomial number X of successes
    n_exceeding = np.arange(1, n_correct + 1)
    masses = binom.pmf(n_correct - n_exceeding, n_guesses, p_correct)
    mean_masses = np.cumsum(masses) / n_exceeding
    max_mass = float(mean_masses.max())
    return min(1.0, tail + 2 * n_pairs * delta * max_mass)
