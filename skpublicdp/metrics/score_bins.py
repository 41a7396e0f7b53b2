"""Histogram bins of classifier scores, chosen from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from skpublicdp.query_release.spending import Noise, signal_to_noise
from skpublicdp.typing import Codes, Floats

MIN_SCORE_BINS, MAX_SCORE_BINS = 8, 512
"""Smallest and largest number of bins."""


@dataclass(frozen=True, eq=False)
class ScoreBins:
    """Bins of a score, separated by edges. An edge belongs to the bin below it.

    Attributes
    ----------
    edges : ndarray of shape (n_bins - 1,)
        Increasing.
    first_positive : int
        Index of the first bin whose rows are predicted to be positive.
    centers : ndarray of shape (n_bins,) or None
        Mean of the two ends of each bin, if scores are probabilities.
    """

    edges: Floats
    first_positive: int
    centers: Floats | None

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.edges) + 1

    def bin_of_score(self, scores: Floats, predicted: NDArray[np.bool_] | None) -> Codes:
        """Return the index of the bin of each row.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Scores. A missing score is replaced by the threshold.
        predicted : ndarray of bool, shape (n,), or None
            Whether `predict` returns the positive class. A score that contradicts it is
            moved to the nearest bin on the other side of the threshold.
        """
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
"""Bins of an estimator without scores: one for each of two predicted labels."""


def make_score_bins(noise: Noise, persons: float, response: str, threshold: float) -> ScoreBins:
    """Return score bins whose number grows with the signal-to-noise ratio of a count.

    Parameters
    ----------
    noise : Gaussian or Pure
        Event that pays for the noise.
    persons : float
        Number of rows, divided by the maximum number of rows per person.
    response : {"predict_proba", "decision_function"}
        Kind of score: a probability, or a number that is positive for the positive class.
    threshold : float
        Decision threshold, which becomes an edge.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from skpublicdp.accounting import Pure
    >>> make_score_bins(Pure(Fraction(1, 5)), 1040, "predict_proba", 0.5).edges.round(2)
    array([0.04, 0.15, 0.31, 0.5 , 0.69, 0.85, 0.96])
    """
    n_levels = max(signal_to_noise(noise, persons), 1.0)
    n_bins = int(
        np.clip(
            2 ** round(math.log2(math.sqrt(2 * n_levels) / 2)),
            MIN_SCORE_BINS,
            MAX_SCORE_BINS,
        )
    )
    # arcsine spacing, so that the standard error of a proportion is similar in all bins
    grid = np.sin(np.arange(1, n_bins) * np.pi / (2 * n_bins)) ** 2
    grid[n_bins // 2 - 1] = 0.5
    edges = np.union1d(logit(grid) if response == "decision_function" else grid, threshold)
    centers = None
    if response == "predict_proba":
        bin_ends = np.concatenate([[0.0], edges, [1.0]])
        centers = (bin_ends[1:] + bin_ends[:-1]) / 2
    return ScoreBins(edges, int(np.searchsorted(edges, threshold)) + 1, centers)
