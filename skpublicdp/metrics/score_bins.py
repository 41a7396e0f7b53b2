"""Histogram bins of classifier scores.

The bins depend on public numbers but not on private rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from skpublicdp.accounting import Noise
from skpublicdp.typing import Codes, Floats, Mask

MIN_SCORE_BINS, MAX_SCORE_BINS = 8, 512
"""Minimum and maximum number of bins."""


@dataclass(frozen=True, eq=False)
class ScoreBins:
    """Histogram bins of a classifier's scores.

    A score that equals an edge belongs to the bin below the edge.
    """

    edges: Floats  # (n_bins - 1,): edges between neighbouring bins, in increasing order
    first_positive: int  # index of the first bin in which rows are predicted to be positive
    # (n_bins,): midpoint of each bin if the scores are probabilities, otherwise None
    centers: Floats | None

    @property
    def n_bins(self) -> int:
        """Number of bins, including the two unbounded outer bins."""
        return len(self.edges) + 1

    @property
    def predicts_positive(self) -> Mask:
        """For each bin, whether its rows are predicted to be positive, shape (n_bins,)."""
        return np.arange(self.n_bins) >= self.first_positive

    def bin_of_score(self, scores: Floats, predicted: NDArray[np.bool_] | None) -> Codes:
        """Return the bin index of each score."""
        threshold = self.edges[self.first_positive - 1]
        bin_of_score = np.searchsorted(self.edges, np.where(np.isnan(scores), threshold, scores))
        if predicted is None:
            return bin_of_score
        return np.where(
            predicted,
            np.maximum(bin_of_score, self.first_positive),
            np.minimum(bin_of_score, self.first_positive - 1),
        )


PREDICTED_LABEL_BINS = ScoreBins(np.zeros(1), 1, None)
"""Bins for an estimator without scores. All scores are 0, so the predicted labels serve as bins."""


def make_score_bins(
    noise: Noise, persons: float, response: str, threshold: float, n_labels: int = 2
) -> ScoreBins:
    """Return the histogram bins of the scores.

    The less noise a count has relative to the number of rows, the more bins there are.

    Parameters
    ----------
    noise : Gaussian or Pure
        Privacy cost of the counts, which determines their noise.
    persons : float
        Number of rows, divided by the maximum number of rows per person.
    response : {"predict_proba", "decision_function"}
        Method that returns the scores: probabilities, or log-odds.
    threshold : float
        Decision threshold, which becomes one of the edges.
    n_labels : int, default=2
        Number of labels. The spacing is symmetric in log-odds around the fraction 1 / n_labels.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from skpublicdp.accounting import Pure
    >>> make_score_bins(Pure(Fraction(1, 5)), 1040, "predict_proba", 0.5).edges.round(2)
    array([0.04, 0.15, 0.31, 0.5 , 0.69, 0.85, 0.96])
    """
    n_levels = max(noise.signal_to_noise(persons), 1.0)
    target_bins = math.sqrt(2 * n_levels) / 2
    power_of_two = 2 ** round(math.log2(target_bins))  # even, so that 1/2 is an edge
    n_bins = int(np.clip(power_of_two, MIN_SCORE_BINS, MAX_SCORE_BINS))
    # arcsine spacing gives a proportion a similar standard error in all bins
    angles = np.arange(1, n_bins) * np.pi / (2 * n_bins)
    grid = np.sin(angles) ** 2
    grid[n_bins // 2 - 1] = 0.5  # exactly, without rounding error
    if n_labels > 2:
        grid = grid / (grid + (1 - grid) * (n_labels - 1))  # odds divided by n_labels - 1
    if response == "decision_function":
        grid = logit(grid)
    edges = np.union1d(grid, threshold)
    centers = None
    if response == "predict_proba":
        bin_ends = np.concatenate([[0.0], edges, [1.0]])
        centers = (bin_ends[1:] + bin_ends[:-1]) / 2
    first_positive = int(np.searchsorted(edges, threshold)) + 1
    return ScoreBins(edges, first_positive, centers)
