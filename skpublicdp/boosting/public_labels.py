"""Power prior from public labels, averaged over exponents according to the private sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax

from skpublicdp.boosting.additive_posterior import (
    LOG_VARIANCE_MEAN,
    GaussianPosterior,
    WeightedPublicRows,
    bin_prior,
    prior_covariances,
)
from skpublicdp.boosting.binner import Binner
from skpublicdp.boosting.model import MARGIN_UNIT, AdditiveModel, null_model
from skpublicdp.typing import Floats

POWER_PRIORS = (0.0, 0.1, 0.3, 1.0)
"""Exponents of the public likelihood. The fits are averaged with weights determined by their
evidence (ablation: "public labels")."""

MAX_NEWTON_STEP = 4.0
"""Maximum change in a margin in one Newton step."""

MAX_NEWTON_STEPS = 200
"""Maximum number of Newton steps. The iteration stops early once it reaches the mode."""


@dataclass(frozen=True, eq=False, repr=False)
class PublicLabels:
    """Targets of public rows."""

    rows: NDArray[np.intp]  # (k,): indices of the labelled public rows
    outcomes: Floats  # (n_targets, k): targets of the labelled rows, between 0 and 1


def laplace_approximation(
    prior: GaussianPosterior, X: Floats, outcomes: Floats, exponent: float
) -> GaussianPosterior:
    """Return the Laplace approximation of a power prior: a prior times a power of a likelihood.

    Power priors are due to Ibrahim and Chen (2000). Here, the likelihood is the logistic likelihood
    of labelled public rows. The mode is found by damped Newton steps, and the covariance is the
    inverse of the hessian at the mode.

    Parameters
    ----------
    prior : GaussianPosterior
        Prior of the coefficients and the intercept.
    X : ndarray of float64, shape (k, n_coefficients)
        Labelled rows.
    outcomes : ndarray of float64, shape (k,)
        Targets of the labelled rows, between 0 and 1.
    exponent : float
        Exponent of the likelihood, between 0 and 1.
    """
    extended = np.hstack([X, np.ones((len(X), 1))])
    precision, mode = np.linalg.inv(prior.covariance), prior.mean.astype(np.float64)

    def hessian(probability: Floats) -> Floats:
        """Return the hessian of the negative log posterior."""
        q = probability * (1 - probability)
        return precision + exponent * (extended.T * q) @ extended

    for _ in range(MAX_NEWTON_STEPS):
        probability = expit(extended @ mode)
        slope = precision @ (prior.mean - mode) + exponent * extended.T @ (outcomes - probability)
        step = np.linalg.solve(hessian(probability), slope)
        max_change = float(np.abs(extended @ step).max(initial=0.0))
        damping = min(1.0, MAX_NEWTON_STEP / max(max_change, 1e-12))
        mode = mode + step * np.float64(damping)
        if max_change < 1e-9:
            break
    covariance: Floats = np.linalg.inv(hessian(expit(extended @ mode))).astype(np.float64)
    return GaussianPosterior(mode, covariance)


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Initial model for boosting, with its uncertainty."""

    model: AdditiveModel  # scores of all bins
    # (n_targets, n_bins, n_bins): posterior covariances of each column's bin scores
    covariances: list[Floats]


def warm_starts(
    binner: Binner,
    design: WeightedPublicRows,
    n_targets: int,
    public_labels: PublicLabels | None,
) -> list[WarmStart]:
    """Return the candidate initial models: the null model, followed by a fit for each power prior.

    Each fit conditions the prior of the bin scores on the likelihood of the public labels, raised
    to one of the positive exponents in `POWER_PRIORS`.

    Parameters
    ----------
    n_targets : int
        1 for two labels, otherwise the number of labels.
    public_labels : PublicLabels or None
        Targets of the public rows. If None, only the null model is returned.
    """
    null = null_model(binner.offsets, n_targets)
    starts = [WarmStart(null, [np.zeros((n_targets, size, size)) for size in binner.sizes])]
    if public_labels is None:
        return starts
    blocks = prior_covariances(binner, design)
    log_variances = np.full(len(blocks), LOG_VARIANCE_MEAN)
    priors = [
        bin_prior(blocks, log_variances, float(intercept), design.X)
        for intercept in logit(clipped_rates(public_labels))
    ]
    X = priors[0].X[public_labels.rows]
    for exponent in POWER_PRIORS[1:]:
        pairs = zip(priors, public_labels.outcomes, strict=True)
        posteriors = [
            replace(prior, factors=laplace_approximation(prior.factors, X, outcomes, exponent))
            for prior, outcomes in pairs
        ]
        means = np.array([posterior.mean for posterior in posteriors])
        scores = np.rint(MARGIN_UNIT * means).astype(np.int64)
        model = AdditiveModel(scores[:, :-1], scores[:, -1], binner.offsets)
        columns = zip(*(posterior.covariances for posterior in posteriors), strict=True)
        starts.append(WarmStart(model, [np.array(column) for column in columns]))
    return starts


def clipped_rates(public_labels: PublicLabels) -> Floats:
    """Return the mean of each public target, kept away from 0 and 1, shape (n_targets,)."""
    min_rate = 1 / (public_labels.outcomes.shape[1] + 2)
    return np.clip(public_labels.outcomes.mean(axis=1), min_rate, 1 - min_rate)


def evidence_weights(log_evidence: Floats) -> Floats:
    """Return the posterior weights of the power-prior exponents.

    The exponent 0, with which the public labels are ignored, has a prior weight of 1/2. The other
    exponents share the remaining prior weight equally.
    """
    prior_odds = np.ones(len(log_evidence))
    prior_odds[0] = max(len(log_evidence) - 1, 1)
    return softmax(log_evidence + np.log(prior_odds))


def mix_models(starts: list[WarmStart], weights: Floats) -> WarmStart:
    """Return the mean and the covariances of a mixture of initial models.

    By the law of total covariance, the covariances include the variation within and between the
    models.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_models,)
        Weights of the models, which sum to 1.
    """

    def mean(arrays: list[NDArray[Any]]) -> NDArray[np.int64]:
        """Return the weighted mean, rounded to integers."""
        return np.rint(np.tensordot(weights, arrays, axes=1)).astype(np.int64)

    models = [start.model for start in starts]
    scores = mean([model.scores for model in models])
    intercepts = mean([model.intercepts for model in models])
    offsets = models[0].offsets
    covariances = []
    for column, (first_bin, end) in enumerate(pairwise(offsets)):
        covariance = np.zeros_like(starts[0].covariances[column])
        for weight, start in zip(weights, starts, strict=True):
            deviations = (start.model.scores - scores)[:, first_bin:end] / MARGIN_UNIT
            between = deviations[:, :, None] * deviations[:, None]
            covariance += weight * (start.covariances[column] + between)
        covariances.append(covariance)
    return WarmStart(AdditiveModel(scores, intercepts, offsets), covariances)


def mix_gaussians(components: list[GaussianPosterior], weights: Floats) -> GaussianPosterior:
    """Return a Gaussian with the same mean and covariance as a mixture of Gaussians."""
    means = np.array([component.mean for component in components])
    mean: Floats = weights @ means
    covariance = np.einsum("b,bi,bj->ij", weights, means - mean, means - mean)
    for weight, component in zip(weights, components, strict=True):
        covariance += weight * component.covariance
    return GaussianPosterior(mean, covariance)
