"""One private quantile of conformity scores, whose coverage is proved for any data.

The quantile is drawn exactly by the exponential mechanism from public thresholds. Its rank is above
that of split conformal prediction by as much as the draw may fall short of it, for any data.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.special import lambertw

from skpublicdp.accounting import Draw
from skpublicdp.mechanisms.families import Choice, Leaf
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Integers

SETS_PROOF = "docs/proofs/prediction_sets.md"
QUANTILE_NAME = "quantile of conformity scores: exponential mechanism, one exact draw"

MIN_THRESHOLDS, MAX_THRESHOLDS = 200, 1000
"""Limits of the number of thresholds. In between, there is one threshold per 2 / ε rows."""

SHORTFALL_MARGIN = 1 + 1e-9
"""Factor that covers the rounding errors of a shortfall."""


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


def plan_quantile(n: int, epsilon: Fraction, coverage: Fraction) -> QuantilePlan | None:
    """Return the plan of a quantile with a given coverage, or None if n rows are too few.

    A prior that increases lowers the shortfall, and raises the thresholds drawn from sparse scores.
    The third power balanced both in simulations.
    """
    positions = np.arange(1, count_thresholds(n, epsilon) + 1, dtype=np.int64)
    prior = positions**3
    shortfall = max_shortfall(prior, epsilon)
    rank = math.ceil(coverage * (n + 1) + shortfall)
    if rank > n:
        return None
    proved = (rank - shortfall) / (n + 1)
    return QuantilePlan(prior, rank, float(proved))


def max_shortfall(prior: Integers, epsilon: Fraction) -> Fraction:
    """Return an upper bound on the expected number of ranks by which a draw falls short.

    Let ρ be the largest ratio between the total weight of the thresholds before one and its own
    weight, and q = exp(-ε / 2). The bound is the maximum over x = 1, 2, ... of
    ρ x q^x / (1 + ρ q^(x + 1)), which has a single local maximum.
    """
    weight_before = np.cumsum(prior) - prior
    ratios = weight_before / prior
    ratio = float(ratios.max())
    rate = max(float(epsilon / 2), 1e-300)  # the inverse of a smaller number would overflow
    q = math.exp(-rate)
    solution = lambertw(ratio * q / math.e)
    maximiser = (1 + float(solution.real)) / rate
    shortfalls = []
    for x in (max(1, math.floor(maximiser)), math.ceil(maximiser)):
        weight_ratio = ratio * math.exp(-rate * x)
        numerator = weight_ratio * x
        shortfalls.append(numerator / (1 + weight_ratio * q))
    return Fraction(max(shortfalls) * SHORTFALL_MARGIN)


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
