"""Release of a list of linear queries, using noisy counts and a normal posterior."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Gaussian, Sensitivity
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.query_release.effective_sizes import effective_sample_size
from skpublicdp.query_release.marginals.release import MarginalRelease
from skpublicdp.query_release.marginals.table import TableMeasurement
from skpublicdp.typing import Floats


def release_linear_queries(
    counts: NDArray[np.int64],
    n_private: int,
    public: NDArray[np.integer],
    *,
    ledger: Ledger,
    trust: str | float = "auto",
) -> MarginalRelease:
    """Release the fractions of private rows that satisfy the queries of a list.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_queries,)
        Number of private rows for which each query holds.
    n_private : int
        Number of private rows.
    public : ndarray of int, shape (m, n_queries)
        Value 1 if a query holds for a public row. The array may have no rows.
    ledger : Ledger
        Privacy ledger. Ledger whose entire budget is spent on Gaussian noise, or on Laplace noise
        if δ = 0.
    trust : "auto" or float
        Effective size of the public sample, in private rows. By default, this size is estimated.

    Returns
    -------
    MarginalRelease
        One table per query, which contains the fraction of rows for which the query does not hold,
        and the fraction for which it holds.

    Raises
    ------
    ValueError
        If the noise is too large to be drawn. In this case, nothing is charged.

    Notes
    -----
    Replacing a row changes each count by at most 1.

    The prior of the fractions is normal. If public rows are a sample from the same population, the
    prior mean is the vector of public fractions (with half a row added), and the prior covariance
    is S κ. Here, S is the covariance of the answers for a single row, and κ = 1/m + 1/n. A
    distribution shift increases κ, as in `MarginalModel`. The posterior mean is linear in the noisy
    answers. The posterior mean converges to these answers as the noise variance goes to zero,
    because S has full rank.

    Examples
    --------
    >>> half = np.array([[0, 1], [1, 1], [0, 0], [1, 0]] * 25)
    >>> counts, ledger = np.array([500, 400]), Ledger(1, 1e-6, 0)
    >>> release = release_linear_queries(counts, 1000, half, ledger=ledger)
    >>> release.fractions[1,].round(1)
    array([0.6, 0.4])
    """
    n_queries, m = len(counts), len(public)
    noise, sensitivity = ledger.noise, Sensitivity(n_queries, n_queries)
    if not noise_is_representable(noise, ledger.for_person(sensitivity)):
        raise ValueError(
            f"The noise of {n_queries} answers is too large to be drawn at epsilon = "
            f"{float(ledger.epsilon):g}. Release fewer queries."
        )
    noisy = ledger.add_noise(
        counts,
        sensitivity,
        noise,
        name=f"{noise.noise_name} on {n_queries} answers",
        proof="docs/proofs/marginals.md",
    )
    values, variance = noisy.values / n_private, noisy.variance / n_private**2
    persons = n_private / ledger.rows_per_person
    prior_mean, prior_covariance = _public_prior(public)
    mean, posterior_variance, scale = _posterior(
        values,
        noise_variance=np.full(n_queries, variance),
        prior_mean=prior_mean,
        prior_covariance=prior_covariance,
        base_scale=1 / (m + 1) + 1 / persons,
        effective_size=None if isinstance(trust, str) else min(float(trust), m + 1),
    )
    fractions = np.clip(mean, 0, 1)
    sampling_variance = fractions * (1 - fractions) / persons
    deviations = np.sqrt(posterior_variance + sampling_variance)
    # query j is column j of the tables, with the codes 0 (does not hold) and 1 (holds)
    return MarginalRelease(
        fractions={(j,): np.array([1 - p, p]) for j, p in enumerate(fractions)},
        deviations={(j,): np.array([sd, sd]) for j, sd in enumerate(deviations)},
        sizes=(2,) * n_queries,
        effective_public_size=min(1 / scale, float(m)),
        measured={
            (j,): TableMeasurement(np.array([1 - value, value]), variance)
            for j, value in enumerate(values)
        },
        persons=persons,
        gaussian=isinstance(noise, Gaussian),
    )


def _public_prior(public: NDArray[np.integer]) -> tuple[Floats, Floats]:
    """Return the prior mean of the fractions, and the covariance of the answers for a single row.

    `public` contains 1 if a query holds for a public row, and 0 otherwise, shape (m, n_queries).
    """
    m, n_queries = public.shape
    # one additional row with answer 1/2 and variance 1/4 makes covariances regular
    mean = (public.sum(axis=0) + 0.5) / (m + 1)
    covariance = 0.25 * np.eye(n_queries) / (m + 1)
    if m:
        centred = public - public.mean(axis=0)
        covariance += centred.T @ centred / (m + 1)
    return mean, covariance


def _posterior(
    values: Floats,  # (n_queries,)
    *,
    noise_variance: Floats,  # (n_queries,)
    prior_mean: Floats,
    prior_covariance: Floats,
    base_scale: float,
    effective_size: float | None = None,
) -> tuple[Floats, Floats, float]:
    """Return mean and variance of the posterior of the fractions, and the scale of their prior.

    The prior covariance is ``prior_covariance * scale``. The scale is one over the effective public
    sample size. For noisy fractions y, prior mean μ, prior covariance P and noise covariance W, the
    posterior mean is y - W (P + W)⁻¹ (y - μ) and the posterior covariance is W - W (P + W)⁻¹ W.

    The diagonal matrix D whitens the noise. Let U and λ be the eigenvectors and eigenvalues of the
    prior covariance after whitening. Then (P + W)⁻¹ = D U diag(1 / (scale λ + 1)) Uᵀ D. This
    formula remains precise if the noise is close to zero.
    """
    whitening = 1 / np.sqrt(noise_variance)
    eigenvalues, eigenvectors = np.linalg.eigh(prior_covariance * whitening[:, None] * whitening)
    eigenvalues = np.maximum(eigenvalues, 0)
    residuals = eigenvectors.T @ (whitening * (values - prior_mean))
    if effective_size is None:
        effective_size = effective_sample_size(residuals**2, eigenvalues, 1.0, base_scale)
    scale = 1 / effective_size
    gain = (noise_variance * whitening)[:, None] * eigenvectors  # W D U
    shrinkage = 1 / (scale * eigenvalues + 1)
    variance = noise_variance - (gain**2) @ shrinkage
    mean = values - gain @ (shrinkage * residuals)
    return mean, np.maximum(variance, 0), scale
