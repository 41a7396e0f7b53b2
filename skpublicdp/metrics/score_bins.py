"""Cells of scores: a grid that no private row decides."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from skpublicdp.query_release.spending import Noise, room_for

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

FEWEST, MOST = 8, 512
"""Cells of a score."""


@dataclass(frozen=True, eq=False)
class Cells:
    """A line of scores cut at edges; the cell of an edge is the one below it.

    Attributes
    ----------
    edges : ndarray of shape (n_cells - 1,)
        Increasing.
    decided : int
        The first cell whose rows are predicted to be positive.
    centers : ndarray of shape (n_cells,) or None
        Probability that stands for each cell, where scores are probabilities.
    """

    edges: Floats
    decided: int
    centers: Floats | None

    @property
    def size(self) -> int:
        """How many cells there are."""
        return len(self.edges) + 1

    def place(self, scores: Floats, predicted: NDArray[np.bool_] | None) -> Codes:
        """Return the cell of each row.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            A missing one counts as lying at the threshold.
        predicted : ndarray of bool, shape (n,), or None
            Which rows `predict` says are positive. A score is moved to their side of the threshold.
        """
        threshold = self.edges[self.decided - 1]
        place = np.searchsorted(self.edges, np.where(np.isnan(scores), threshold, scores))
        if predicted is None:
            return place
        return np.where(
            predicted, np.maximum(place, self.decided), np.minimum(place, self.decided - 1)
        )


ONLY_PREDICTED = Cells(np.zeros(1), 1, None)
"""For estimators without scores: two cells, told apart by what is predicted."""


def make_cells(noise: Noise, persons: float, response: str, threshold: float) -> Cells:
    """Choose as many cells as the noise has room for.

    Parameters
    ----------
    noise : Gaussian or Pure
        What pays.
    persons : float
        How many rows there are, over how many each person may have.
    response : {"predict_proba", "decision_function"}
        What the scores are: probabilities, or any number, positive ones for the positive class.
    threshold : float
        It becomes an edge.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from skpublicdp.accounting import Pure
    >>> make_cells(Pure(Fraction(1, 5)), 1040, "predict_proba", 0.5).edges.round(2)
    array([0.04, 0.15, 0.31, 0.5 , 0.69, 0.85, 0.96])
    """
    room = max(room_for(noise, persons), 1.0)
    size = int(np.clip(2 ** round(math.log2(math.sqrt(2 * room) / 2)), FEWEST, MOST))
    # the deviation of a share is alike in all of these cells, and they are fine near 0 and 1
    grid = np.sin(np.arange(1, size) * np.pi / (2 * size)) ** 2
    grid[size // 2 - 1] = 0.5
    edges = np.union1d(logit(grid) if response == "decision_function" else grid, threshold)
    centers = None
    if response == "predict_proba":
        ends = np.concatenate([[0.0], edges, [1.0]])
        centers = (ends[1:] + ends[:-1]) / 2
    return Cells(edges, int(np.searchsorted(edges, threshold)) + 1, centers)
