"""Release of a list of linear queries, using noisy counts and a normal posterior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Gaussian, Sensitivity
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.query_release.effective_sizes import effective_sample_size
from skpublicdp.query_release.marginals.release import MarginalRelease
from skpublicdp.query_release.marginals.table import TableMeasurement
from skpublicdp.typing import Floats


class LinearPrior(NamedTuple):
    """Normal prior for the fractions of private rows that satisfy queries, based on public rows.

    The prior covariance is ``covariance * scale + diag(extra_variance)``. The scale is one over the
    effective public sample size and is estimated from the noisy counts.

    Attributes
    ----------
    mean : ndarray of shape (n_queries,)
        Prior mean of each fraction.
    covariance : ndarray of shape (n_queries, n_queries)
        Covariance of the answers (0 or 1) for a single row.
    extra_variance : ndarray of shape (n_queries,)
        Variance due to columns that public rows lack, or 0 if no column is missing.
    """

    mean: Floats
    covariance: Floats
    extra_variance: Floats


class LinearPosterior(NamedTuple):
    """Normal posterior for the fractions of private rows that satisfy queries.

    Attributes
    ----------
    mean, variance : ndarray of shape (n_queries,)
        Posterior mean and variance of each fraction.
    scale : float
        Factor of the prior covariance, which is one over the effective public sample size.
    """

    mean: Floats
    variance: Floats
    scale: float


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
    public : ndarray of int, shape (n_completions, m, n_queries)
        Value 1 if a query holds for a public row, given each completion of the columns that public
        rows lack (see `enumerate_completions`). The array may have no rows. If no column is
        missing, there is one completion.
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

    The prior of the fractions is normal. If public rows are a sample from the same population, and
    their completion changes no answer, the prior mean is the vector of public fractions (with half
    a row added), and the prior covariance is S κ. Here, S is the covariance of the answers for a
    single row, and κ = 1/m + 1/n. A distribution shift increases κ, as in `MarginalModel`. The
    posterior mean is linear in the noisy answers. The posterior mean converges to these answers as
    the noise variance goes to zero, because S has full rank.

    Suppose a query holds for a fraction p of a public row's completions, with 0 < p < 1. In this
    case, public rows do not determine the fraction of similar private rows that satisfy the query.
    We assume that this fraction is uniformly distributed on [0, 1]. The mean squared distance of
    this fraction from p is 1/3 - p + p². The prior mean uses p. The prior variance of the query
    grows by the square of the root mean squared distance, averaged over public rows. For a query
    that holds for all completed rows or for no completed row, the variance grows by 1/3, since the
    query may refer to a value that no completion has. These additional deviations are independent
    across queries.

    Examples
    --------
    >>> half = np.array([[[0, 1], [1, 1], [0, 0], [1, 0]] * 25])
    >>> counts, ledger = np.array([500, 400]), Ledger(1, 1e-6, 0)
    >>> release = release_linear_queries(counts, 1000, half, ledger=ledger)
    >>> release.fractions[1,].round(1)
    array([0.6, 0.4])
    """
    n_queries, m = len(counts), public.shape[1]
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
    posterior = _posterior(
        _public_prior(public),
        values,
        noise_variance=np.full(n_queries, variance),
        base_scale=1 / (m + 1) + 1 / persons,
        effective_size=None if isinstance(trust, str) else min(float(trust), m + 1),
    )
    fractions = np.clip(posterior.mean, 0, 1)
    sampling_variance = fractions * (1 - fractions) / persons
    deviations = np.sqrt(posterior.variance + sampling_variance)
    # query j is column j of the tables, with the codes 0 (does not hold) and 1 (holds)
    return MarginalRelease(
        fractions={(j,): np.array([1 - p, p]) for j, p in enumerate(fractions)},
        deviations={(j,): np.array([sd, sd]) for j, sd in enumerate(deviations)},
        sizes=(2,) * n_queries,
        effective_public_size=min(1 / posterior.scale, float(m)),
        measured={
            (j,): TableMeasurement(np.array([1 - value, value]), variance)
            for j, value in enumerate(values)
        },
        persons=persons,
        gaussian=isinstance(noise, Gaussian),
    )


def _public_prior(public: NDArray[np.integer]) -> LinearPrior:
    """Return the prior for the fractions of private rows, given the answers on public rows.

    The formulas are in the notes of `release_linear_queries`.

    Parameters
    ----------
    public : ndarray of int, shape (n_completions, m, n_queries)
        Value 1 if a query holds for a completed public row, and 0 otherwise.
    """
    n_completions, m, n_queries = public.shape
    row_means = public.mean(axis=0)  # averages over the completions, (m, n_queries)
    # one additional row with answer 1/2 and variance 1/4 makes covariances regular
    mean = (row_means.sum(axis=0) + 0.5) / (m + 1)
    covariance, extra_variance = 0.25 * np.eye(n_queries) / (m + 1), np.zeros(n_queries)
    if m:
        centred, row_variances = row_means - row_means.mean(axis=0), row_means * (1 - row_means)
        covariance += centred.T @ centred / (m + 1)
        # root mean square of U - p for U uniform on [0, 1], where completions have both answers
        distances = np.where(row_variances > 0, np.sqrt(1 / 3 - row_variances), 0)
        extra_variance = distances.mean(axis=0) ** 2
        # an answer may be constant only because completions contain few of the possible values
        is_constant = ((row_means == row_means[0]) & (row_variances == 0)).all(axis=0)
        if n_completions > 1:
            extra_variance[is_constant] = 1 / 3
    return LinearPrior(mean, covariance, extra_variance)


def _posterior(
    prior: LinearPrior,
    values: Floats,
    noise_variance: Floats,
    base_scale: float,
    effective_size: float | None = None,
) -> LinearPosterior:
    """Return the normal posterior of the fractions and the scale of their prior covariance.

    For noisy fractions y, prior mean μ, prior covariance P and noise covariance W, the posterior
    mean is y - W (P + W)⁻¹ (y - μ) and the posterior covariance is W - W (P + W)⁻¹ W.

    The diagonal matrix D whitens the noise and the extra variance. Let U and λ be the eigenvectors
    and eigenvalues of the prior covariance after whitening. Then (P + W)⁻¹ = D U diag(1 / (scale λ
    + 1)) Uᵀ D. This formula remains precise if the noise is close to zero.

    Parameters
    ----------
    prior : LinearPrior
    values, noise_variance : ndarray of shape (n_queries,)
        Noisy fractions and their noise variances.
    base_scale : float
        The scale if public and private rows have the same distribution.
    effective_size : float, optional
        Inverse of the scale. By default, the scale is `base_scale` plus the estimated shift.
    """
    whitening = 1 / np.sqrt(noise_variance + prior.extra_variance)
    eigenvalues, eigenvectors = np.linalg.eigh(prior.covariance * whitening[:, None] * whitening)
    eigenvalues = np.maximum(eigenvalues, 0)
    residuals = eigenvectors.T @ (whitening * (values - prior.mean))
    if effective_size is None:
        effective_size = effective_sample_size(residuals**2, eigenvalues, 1.0, base_scale)
    scale = 1 / effective_size
    gain = (noise_variance * whitening)[:, None] * eigenvectors  # W D U
    shrinkage = 1 / (scale * eigenvalues + 1)
    variance = noise_variance - (gain**2) @ shrinkage
    mean = values - gain @ (shrinkage * residuals)
    return LinearPosterior(mean, np.maximum(variance, 0), scale)
