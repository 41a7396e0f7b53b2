"""Score bins at quantiles of the scores of public rows, and thresholds inside these bins.

Where rows of one class are rare, a fixed grid has few thresholds among their scores. The scores of
public rows predict, without labels and at no privacy cost, where the rows of each class are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from skpublicdp.accounting import Noise
from skpublicdp.typing import Floats

MIN_PUBLIC_PROBABILITY = 1e-4
"""Predicted probabilities are clipped to this distance from 0 and 1."""

SCORE_DECIMALS = 12
"""Public scores that agree to this number of decimals count as equal, so that no edge depends on
the rounding of an estimator."""

MIN_SCORE_BINS, MAX_SCORE_BINS = 8, 512
"""Minimum and maximum number of bins."""

EXTRA_BINS = 1.5
"""Factor for the number of bins at quantiles, whose thresholds are interpolated. A smaller factor
gives a wider interval of the specificity, and a larger one a less accurate threshold."""

MAX_KNOTS = 512
"""Maximum number of public scores between which thresholds are interpolated."""


def target_bins(noise: Noise, persons: float) -> float:
    """Return the number of bins at which noise and the width of the bins are balanced."""
    n_levels = max(noise.signal_to_noise(persons), 1.0)
    return math.sqrt(2 * n_levels) / 2


@dataclass(frozen=True, eq=False)
class PublicCurve:
    """Distribution of the scores of negative and of positive rows, predicted from public rows."""

    knots: Floats  # (m,): scores in increasing order
    below: Floats  # (2, m): share of the negatives and of the positives below each knot, 0 to 1

    def shares_below(self, thresholds: Floats) -> Floats:
        """Return the predicted shares of both classes below thresholds, shape (2, ...)."""
        return np.stack([np.interp(thresholds, self.knots, shares) for shares in self.below])


class PublicEdges(NamedTuple):
    """Edges of score bins that public rows determine."""

    edges: Floats  # (n_bins - 1,)
    means: Floats  # (n_bins,): mean score of the public rows in each bin, NaN without public rows
    curve: PublicCurve


def make_public_bins(
    noise: Noise, persons: float, response: str, threshold: float, public_scores: Floats
) -> PublicEdges | None:
    """Return bins with equal parts of the rows, in which the rarer class has the larger weight.

    With a share π of positives, the distribution of the positives has the weight 1 - π, and that of
    the negatives has the weight π. Both are predicted from the scores, which are probabilities or
    log-odds. An edge is the midpoint between two public scores, so equal scores share a bin.
    The result is None if all public scores are equal.
    """
    is_finite = np.isfinite(public_scores)
    scores = np.round(public_scores[is_finite], SCORE_DECIMALS)
    if not len(scores):
        raise ValueError("X_public must contain a row whose score is a number; got none.")
    distinct, rank = np.unique(scores, return_inverse=True)
    if len(distinct) == 1:
        return None
    probabilities = scores if response == "predict_proba" else expit(scores)
    probabilities = np.clip(probabilities, MIN_PUBLIC_PROBABILITY, 1 - MIN_PUBLIC_PROBABILITY)
    positive_share = float(probabilities.mean())
    rare_share = min(positive_share, 1 - positive_share)
    n_bins = round(EXTRA_BINS * target_bins(noise, 2 * rare_share * persons))
    n_bins = int(np.clip(n_bins, MIN_SCORE_BINS, MAX_SCORE_BINS))

    weights = np.stack([1 - probabilities, probabilities])
    sums = np.stack([np.bincount(rank, of_class) for of_class in weights])
    cumulative = np.cumsum(sums, axis=1)  # (2, n_distinct)
    below = cumulative / cumulative[:, -1:]
    below = below[:, :-1]  # (2, n_midpoints)
    midpoints = (distinct[1:] + distinct[:-1]) / 2
    mixture = positive_share * below[0] + (1 - positive_share) * below[1]
    chosen = _at_quantiles(mixture, n_bins)
    edges = np.union1d(midpoints[chosen], threshold)
    if len(edges) == 1:
        return None
    inner = np.arange(len(midpoints))
    if len(midpoints) > MAX_KNOTS:
        inner = _at_quantiles(mixture, MAX_KNOTS)
    knots = np.concatenate([distinct[:1], midpoints[inner], distinct[-1:]])
    below_knots = np.pad(below[:, inner], ((0, 0), (1, 1)), constant_values=(0, 1))

    bin_of_score = np.searchsorted(edges, scores)
    n_bins = len(edges) + 1
    n_public = np.bincount(bin_of_score, minlength=n_bins)
    sums = np.bincount(bin_of_score, scores, minlength=n_bins)
    missing = np.full(n_bins, np.nan)
    means = np.divide(sums, n_public, out=missing, where=n_public > 0)
    return PublicEdges(edges, means, PublicCurve(knots, below_knots))


def _at_quantiles(shares: Floats, n_parts: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the first positions at which increasing shares reach k / n_parts, for each k."""
    quantiles = np.arange(1, n_parts) / n_parts
    positions = np.searchsorted(shares, quantiles)
    return np.unique(np.minimum(positions, len(shares) - 1))
