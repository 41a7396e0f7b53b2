"""Answers to a list of queries: measured once, and weighed against how public rows answer them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Gaussian, Sensitivity
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.query_release.effective_sizes import effective_sample_size
from skpublicdp.query_release.marginals.release import MarginalRelease, TableMeasurement
from skpublicdp.query_release.spending import all_noise, mechanism_name
from skpublicdp.typing import Floats


def release_linear_queries(
    counts: NDArray[np.int64],
    n_private: int,
    public: NDArray[np.integer],
    *,
    ledger: Ledger,
    trust: str | float = "auto",
) -> MarginalRelease:
    """Release the fraction of rows for which each query of a list holds.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_queries,)
        The private rows for which each holds.
    n_private : int
        Private rows.
    public : ndarray of int, shape (n_completions, m, n_queries)
        1 where a query holds for a public row, completed in one way after the other by what columns
        that public rows do not show may hold; there may be no row, and there is one completion if
        all columns are shown.
    ledger : Ledger
        Pays with all it holds: Gaussian noise, or Laplace noise if δ = 0.
    trust : "auto" or float
        How many private rows the public ones count for.

    Returns
    -------
    MarginalRelease
        A table of one column, which is 1 where the query holds, for each query.

    Raises
    ------
    ValueError
        If the noise cannot be drawn; nothing is charged then.

    Notes
    -----
    A replaced row moves each count by at most 1. If public rows are a sample of the same
    population, and one row more says nothing, fractions lie about the public ones with the
    covariance S κ, where S is that of a row's answers and κ = 1/m + 1/n, plus drift as in
    `MarginalModel`. The posterior mean under normal noise is linear in the noisy answers, and goes
    to them as the noise goes to nothing, because S has full rank.

    Where completions of a public row answer a query differently, and it holds in a share p of them,
    nothing is known of the fraction of such rows for which it holds. If that is uniform, it is in
    the mean square by 1/3 - p + p² from p. So the prior mean takes p, and the prior variance of the
    query is larger by the square of the mean deviation of all rows; by 1/3 for a query that holds
    for no completed row, or for all, which may be about a value that is not among the completions.
    Of two queries that are open neither tells of the other.

    Examples
    --------
    >>> half = np.array([[[0, 1], [1, 1], [0, 0], [1, 0]] * 25])
    >>> counts, ledger = np.array([500, 400]), Ledger(1, 1e-6, 0)
    >>> release = release_linear_queries(counts, 1000, half, ledger=ledger)
    >>> release.fractions[1,].round(1)
    array([0.6, 0.4])
    """
    n_queries, m = len(counts), public.shape[1]
    noise, moved = all_noise(ledger), Sensitivity(n_queries, n_queries)
    if not noise_is_representable(noise, ledger.for_person(moved)):
        raise ValueError(
            f"The noise of {n_queries} answers is too large to be drawn at epsilon = "
            f"{float(ledger.epsilon):g}; ask fewer queries."
        )
    found = ledger.add_noise(
        counts,
        moved,
        noise,
        name=mechanism_name(f"{n_queries} answers", noise),
        proof="docs/proofs/marginals.md",
    )
    values, variance = found.values / n_private, found.variance / n_private**2
    persons = n_private / ledger.rows_per_person
    shown = public.mean(axis=0)
    mean = (shown.sum(axis=0) + 0.5) / (m + 1)
    covariance, unseen = 0.25 * np.eye(n_queries) / (m + 1), np.zeros(n_queries)
    if m:
        centred, spread = shown - shown.mean(axis=0), shown * (1 - shown)
        covariance += centred.T @ centred / (m + 1)
        unseen = np.where(spread > 0, np.sqrt(1 / 3 - spread), 0).mean(axis=0) ** 2
        # completions are some of many: none may be what these are about
        alike = ((shown == shown[0]) & (spread == 0)).all(axis=0)
        unseen[alike & (len(public) > 1)] = 1 / 3
    found_mean, left, factor = _posterior(
        mean,
        covariance,
        unseen,
        values,
        np.full(n_queries, variance),
        1 / (m + 1) + 1 / persons,
        None if isinstance(trust, str) else min(float(trust), m + 1),
    )
    fractions = np.clip(found_mean, 0, 1)
    deviations = np.sqrt(left + fractions * (1 - fractions) / persons)
    return MarginalRelease(
        fractions={(j,): np.array([1 - p, p]) for j, p in enumerate(fractions)},
        deviations={(j,): np.array([s, s]) for j, s in enumerate(deviations)},
        sizes=(2,) * n_queries,
        effective_public_size=min(1 / factor, float(m)),
        measured={
            (j,): TableMeasurement(np.array([1 - v, v]), variance) for j, v in enumerate(values)
        },
        persons=persons,
        gaussian=isinstance(noise, Gaussian),
    )


def _posterior(
    mean: Floats,
    covariance: Floats,
    unseen: Floats,
    values: Floats,
    noise: Floats,
    known: float,
    trust: float | None = None,
) -> tuple[Floats, Floats, float]:
    """Weigh noisy values against a prior of known shape.

    Parameters
    ----------
    mean : ndarray of shape (n,)
        Prior mean.
    covariance : ndarray of shape (n, n)
        Prior covariance, but for a factor.
    unseen : ndarray of shape (n,)
        Prior variances that are added to it, whatever the factor.
    values, noise : ndarray of shape (n,)
        Noisy values, and the variance of the noise of each.
    known : float
        The factor if public rows are a sample of the private rows' population.
    trust : float, optional
        One over the factor; by default the drift that the values make likely is added to `known`.

    Returns
    -------
    mean, variance : ndarray of shape (n,)
        Of the posterior.
    factor : float
        That was used.
    """
    root = 1 / np.sqrt(noise + unseen)
    scales, axes = np.linalg.eigh(covariance * root[:, None] * root)
    scales = np.maximum(scales, 0)
    residual = axes.T @ (root * (values - mean))
    factor = 1 / (trust or effective_sample_size(residual**2, scales, 1.0, known))
    # the same as a gain from the prior mean, and exact where there is next to no noise
    back = (noise * root)[:, None] * axes
    left = 1 / (factor * scales + 1)
    variance = noise - (back**2) @ left
    return values - back @ (left * residual), np.maximum(variance, 0), factor
