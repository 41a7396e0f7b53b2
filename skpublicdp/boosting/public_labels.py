"""Outcomes of public rows: known without noise, and believed as far as released sums agree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax

from skpublicdp.boosting.binner import Binner
from skpublicdp.boosting.model import MARGIN_UNIT, AdditiveModel, null_model
from skpublicdp.boosting.posterior import (
    LOG_VARIANCE_MEAN,
    GaussianPosterior,
    WeightedPublicRows,
    bin_prior,
    prior_covariances,
)
from skpublicdp.typing import Floats

POWER_PRIORS = (0.0, 0.1, 0.3, 1.0)
"""Powers to which the likelihood of public outcomes may be raised; evidence weighs them."""

MAX_NEWTON_STEP = 4.0
"""How far a step of Newton's method moves a margin at most."""


@dataclass(frozen=True, eq=False, repr=False)
class PublicLabels:
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


def laplace_approximation(
    belief: GaussianPosterior, X: Floats, outcomes: Floats, trust: float
) -> GaussianPosterior:
    """Condition a belief on outcomes whose logistic likelihood is raised to a power.

    That is a power prior (Ibrahim and Chen 2000) for what is released of private rows.

    Parameters
    ----------
    belief : GaussianPosterior
        The belief before.
    X : ndarray of float64, shape (k, n_scores)
        Rows.
    outcomes : ndarray of float64, shape (k,)
        From 0 to 1.
    trust : float
        The power, from 0 to 1.

    Returns
    -------
    GaussianPosterior
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
        point = point + step * np.float64(min(1.0, MAX_NEWTON_STEP / max(longest, 1e-12)))
        if longest < 1e-9:
            break
    covariance: Floats = np.linalg.inv(curvature(expit(extended @ point))).astype(np.float64)
    return GaussianPosterior(point, covariance)


@dataclass(frozen=True, eq=False)
class WarmStart:
    """A model to begin with.

    Attributes
    ----------
    model : AdditiveModel
        Scores of cells.
    covariances : list of ndarray, shape (n_targets, n_cells of a column, n_cells of a column)
        How sure they are.
    """

    model: AdditiveModel
    covariances: list[Floats]


def warm_starts(
    features: Binner, design: WeightedPublicRows, n_targets: int, known: PublicLabels | None
) -> list[WarmStart]:
    """Return what a model may begin with: nothing, then public outcomes, trusted more and more.

    Parameters
    ----------
    features : Binner
        Cells.
    design : WeightedPublicRows
        Public rows.
    n_targets : int
        1 for two labels, otherwise their number.
    known : PublicLabels or None
        Outcomes of public rows.
    """
    blank = null_model(features.offsets, n_targets)
    found = [WarmStart(blank, [np.zeros((n_targets, size, size)) for size in features.sizes])]
    if known is None:
        return found
    blocks = prior_covariances(features, design)
    theta, m = np.full(len(blocks), LOG_VARIANCE_MEAN), known.outcomes.shape[1]
    rates = np.clip(known.outcomes.mean(axis=1), 1 / (m + 2), 1 - 1 / (m + 2))
    before = [bin_prior(blocks, theta, float(center), design.X) for center in logit(rates)]
    X = before[0].X[known.rows]
    for trust in POWER_PRIORS[1:]:
        pairs = zip(before, known.outcomes, strict=True)
        beliefs = [
            replace(b, factors=laplace_approximation(b.factors, X, own, trust)) for b, own in pairs
        ]
        scores = np.rint(MARGIN_UNIT * np.array([belief.mean for belief in beliefs])).astype(
            np.int64
        )
        model = AdditiveModel(scores[:, :-1], scores[:, -1], features.offsets)
        columns = zip(*(belief.covariances for belief in beliefs), strict=True)
        found.append(WarmStart(model, [np.array(column) for column in columns]))
    return found


def evidence_weights(evidence: Floats) -> Floats:
    """Return how far to believe in what is made of each trust, none first, or of one thing alone.

    There are even odds that public outcomes are of another population, before the evidence
    (logarithms) says more.
    """
    odds = np.ones(len(evidence))
    odds[0] = max(len(evidence) - 1, 1)
    weights: Floats = softmax(evidence + np.log(odds))
    return weights


def mix_models(begin: list[WarmStart], weights: Floats) -> WarmStart:
    """Return the mean of what a model may begin with."""

    def mean(each: list[NDArray[Any]]) -> NDArray[np.int64]:
        return np.rint(np.tensordot(weights, each, axes=1)).astype(np.int64)

    models = [start.model for start in begin]
    scores, intercepts = mean([m.scores for m in models]), mean([m.intercepts for m in models])
    offsets = models[0].offsets
    covariances = []
    for column, (low, high) in enumerate(pairwise(offsets)):
        found = np.zeros_like(begin[0].covariances[column])
        for weight, start in zip(weights, begin, strict=True):
            away = (start.model.scores - scores)[:, low:high] / MARGIN_UNIT
            found += weight * (start.covariances[column] + away[:, :, None] * away[:, None])
        covariances.append(found)
    return WarmStart(AdditiveModel(scores, intercepts, offsets), covariances)


def mix_gaussians(beliefs: list[GaussianPosterior], weights: Floats) -> GaussianPosterior:
    """Return the mean and covariance of a mixture of beliefs."""
    means = np.array([belief.mean for belief in beliefs])
    mean: Floats = weights @ means
    covariance = np.einsum("b,bi,bj->ij", weights, means - mean, means - mean)
    for weight, belief in zip(weights, beliefs, strict=True):
        covariance += weight * belief.covariance
    return GaussianPosterior(mean, covariance)
