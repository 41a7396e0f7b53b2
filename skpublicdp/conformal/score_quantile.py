"""One private quantile of conformity scores, whose coverage is proved for any data.

The quantile is drawn exactly by the exponential mechanism from public thresholds. Its rank is above
that of split conformal prediction by as much as the draw may fall short of it, for any data.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from skpublicdp.accounting import Draw
from skpublicdp.mechanisms.families import Choice, Leaf
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Integers

SETS_PROOF = "docs/proofs/prediction_sets.md"
QUANTILE_NAME = "quantile of conformity scores: exponential mechanism, one exact draw"

MIN_THRESHOLDS, MAX_THRESHOLDS = 200, 1000
"""Limits of the number of thresholds. In between, there is one threshold per 2 / ε rows."""

COMPARISON_MARGIN = 1 + 1e-9
"""Factor that covers the rounding errors of a comparison."""

SHORTFALL_TOLERANCE = 0.001
"""Relative tolerance of a shortfall."""

MAX_EXCESS = 400
"""Largest excess over a rank, in rows, that is considered."""


class QuantilePlan(NamedTuple):
    """Public numbers of a draw of one quantile."""

    prior: Integers  # (n_thresholds,): prior weights, which do not decrease
    rank: int  # rank of the quantile, which the draw aims at
    coverage: float  # proved coverage


def count_thresholds(n: int, epsilon: Fraction) -> int:
    """Return the number of thresholds for n rows and a privacy budget ε per row.

    The last threshold admits every score.
    """
    return int(np.clip(float(n * epsilon / 2), MIN_THRESHOLDS, MAX_THRESHOLDS))


@lru_cache(maxsize=64)
def plan_quantile(n: int, epsilon: Fraction, coverage: Fraction) -> QuantilePlan | None:
    """Return the plan of a quantile with a given coverage, or None if n rows are too few.

    A prior that increases lowers the shortfall, and raises the thresholds drawn from sparse scores.
    The third power balanced both in simulations.
    """
    positions = np.arange(1, count_thresholds(n, epsilon) + 1, dtype=np.int64)
    prior = positions**3
    prior.setflags(write=False)
    rank, shortfall = 0, Fraction(0)
    while rank < (min_rank := math.ceil(coverage * (n + 1) + shortfall)):
        rank = min_rank
        if rank > n:
            return None
        shortfall = max_shortfall(prior, epsilon, n, rank)
    proved = (rank - shortfall) / (n + 1)
    return QuantilePlan(prior, rank, float(proved))


def max_shortfall(prior: Integers, epsilon: Fraction, n: int, rank: int) -> Fraction:
    """Return an upper bound on the expected number of rows by which a draw falls short of a rank.

    The bound is the lowest v, up to `SHORTFALL_TOLERANCE`, for which ρ q^x (x - q v) is at most
    `min_excess` for x = 1, 2, ... Here ρ is the largest ratio between the total weight of the
    thresholds before one and its own weight, and q = exp(-ε / 2).
    """
    ratios = (np.cumsum(prior) - prior) / prior
    max_ratio = float(ratios.max())
    rate = max(float(epsilon / 2), 1e-300)  # the inverse of a smaller number would overflow
    q = math.exp(-rate)

    def is_bound(v: float) -> bool:
        """Return whether v is proved to be an upper bound."""
        maximiser = 1 / rate + q * v
        terms = []
        for x in (max(1, math.floor(maximiser)), math.ceil(maximiser)):
            terms.append(math.exp(-rate * x) * (x - q * v))
        return max_ratio * max(terms) * COMPARISON_MARGIN <= min_excess(v, q, n + 1 - rank)

    low, high = 0.0, 1.0
    while not is_bound(high):
        low, high = high, 2 * high
        if low > n:
            return Fraction(n + 1)  # of no use
    while high - low > SHORTFALL_TOLERANCE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_bound(middle) else (middle, high)
    return Fraction(high)


def min_excess(v: float, q: float, max_rows: int) -> float:
    """Return the least weight of v plus the excess over a rank, over all data from the rank on.

    The rows from the rank on lie in a sequence of bins with excesses y_0 < y_1 < ... up to
    `max_rows`. The result is the minimum of v + q y_0 + Σ q^(y_(t-1) + 1) (v + q y_t), by dynamic
    programming. Sequences end at an excess of `MAX_EXCESS`, which decreases the minimum.
    """
    last = min(max_rows, MAX_EXCESS)
    values = v + q * np.arange(last + 1)
    rest = np.zeros(last + 1)  # least sum of the later terms, by the current excess
    for excess in reversed(range(last)):
        later = slice(excess + 1, None)
        weight = q ** (excess + 1)
        terms = weight * values[later] + rest[later]
        rest[excess] = terms.min()
    sums = values + rest
    return float(sums.min())


def rank_errors(counts: Integers, rank: int) -> Integers:
    """Return how far each threshold is from the row of a given rank, in rows.

    The threshold j admits the scores of bins 0 to j. Its error is 0 if the row of this rank is in
    bin j. Replacing one row changes each error by at most 1.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_thresholds,)
        Number of rows whose score is in each bin.
    rank : int
        Rank, from 1 to the number of rows.

    Examples
    --------
    >>> rank_errors(np.array([3, 0, 4, 2]), rank=5)
    array([2, 2, 0, 3])
    """
    n_admitted = np.cumsum(counts)
    n_before = n_admitted - counts
    n_short, n_beyond = rank - n_admitted, n_before + 1 - rank
    return np.maximum(np.maximum(n_short, n_beyond), 0)


def draw_threshold(counts: Integers, plan: QuantilePlan, ledger: Ledger) -> int:
    """Release the index of a threshold, and spend the entire budget of a ledger."""
    assert isinstance(ledger.event, Draw)
    errors = rank_errors(counts, plan.rank)
    family = Choice(Leaf(errors[:, None]), plan.prior)
    index, _ = ledger.draw(family, ledger.event, 1, name=QUANTILE_NAME, proof=SETS_PROOF)
    return int(index)
