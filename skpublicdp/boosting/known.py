"""Outcomes of public rows: known without noise, and believed as far as released sums agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from skpublicdp.boosting.posterior import Scores

Floats = NDArray[np.float64]

TRUSTS = (0.0, 0.1, 0.3, 1.0)
"""Powers to which the likelihood of public outcomes may be raised; evidence weighs them."""

LONGEST_STEP = 4.0
"""How far a step of Newton's method moves a margin at most."""


@dataclass(frozen=True, eq=False, repr=False)
class KnownOutcomes:
    """Outcomes of public rows.

    Attributes
    ----------
    rows : ndarray of intp, shape (k,)
        Which of the public rows have one.
    outcomes : ndarray of float64, shape (n_targets, k)
        From 0 to 1.
    """

    rows: NDArray[np.intp]
    outcomes: Floats


def conditioned(belief: Scores, X: Floats, outcomes: Floats, trust: float) -> Scores:
    """Condition a belief on outcomes whose logistic likelihood is raised to a power.

    That is a power prior (Ibrahim and Chen 2000) for what is released of private rows.

    Parameters
    ----------
    belief : Scores
        The belief before.
    X : ndarray of float64, shape (k, n_scores)
        Rows.
    outcomes : ndarray of float64, shape (k,)
        From 0 to 1.
    trust : float
        The power, from 0 to 1.

    Returns
    -------
    Scores
        The mode, and the inverse of the curvature there.
    """
    extended = np.hstack([X, np.ones((len(X), 1))])
    precision, point = np.linalg.inv(belief.covariance), belief.mean.astype(np.float64)

    def curvature(probability: Floats) -> Floats:
        found: Floats = (
            precision + trust * (extended.T * (probability * (1 - probability))) @ extended
        )
        return found

    for _ in range(20):
        probability = expit(extended @ point)
        slope = precision @ (belief.mean - point) + trust * extended.T @ (outcomes - probability)
        step = np.linalg.solve(curvature(probability), slope)
        longest = float(np.abs(extended @ step).max(initial=0.0))
        point = point + step * np.float64(min(1.0, LONGEST_STEP / max(longest, 1e-12)))
        if longest < 1e-9:
            break
    covariance: Floats = np.linalg.inv(curvature(expit(extended @ point))).astype(np.float64)
    return Scores(point, covariance)


def averaged(beliefs: list[Scores], evidence: Floats) -> Scores:
    """Return the mean and covariance of a mixture of beliefs, weighed by evidence (logarithms)."""
    weights = softmax(evidence)
    means = np.array([belief.mean for belief in beliefs])
    mean: Floats = weights @ means
    covariance = np.einsum("b,bi,bj->ij", weights, means - mean, means - mean)
    for weight, belief in zip(weights, beliefs, strict=True):
        covariance += weight * belief.covariance
    return Scores(mean, covariance)
