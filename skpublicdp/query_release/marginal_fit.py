"""Weights that explain noisy marginals: how far to trust the public rows, and whether to tilt them.

All of it is post-processing of released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from skpublicdp.query_release.marginal_tables import Incidence
from skpublicdp.query_release.solver import Floats, fit_weights

ONE_WAY_GUARD = 4.0
"""Public rows are tilted if twice the log-likelihood of the one-ways gains more than this."""

GUARD = 1.0
"""The final trust is full unless all measurements gain more than this: on ADULT, where public rows
are a random part, they gain nothing at all; from year to year on ACS mostly 1 to 50."""

STEPS_PER_OCTAVE = 4


@dataclass(frozen=True)
class Answers:
    """Noisy answers of marginals in the cells that have support, and what rows add to them."""

    matrix: sp.csr_matrix
    values: Floats
    variance: float

    @classmethod
    def of(cls, placed: Incidence, tables: list[Floats], variance: float) -> Answers:
        """Keep the cells of noisy tables that have support."""
        pairs = zip(tables, placed.reached, strict=True)
        values = np.concatenate([table[reached] for table, reached in pairs])
        return cls(placed.matrix, values, variance)

    @property
    def variances(self) -> Floats:
        """Return the variance of each answer."""
        return np.full(len(self.values), self.variance)


@dataclass(frozen=True)
class Explained:
    """Fitted weights, the trust in the public rows, and whether they were tilted first."""

    weights: Floats
    trust: float
    tilted: bool
    converged: bool


def explain(
    prior: Floats,
    near: Answers,
    far: Answers | None,
    trust: str | float,
    n_public: int,
    n_private: int,
) -> Explained:
    """Fit weights near the prior to the one-ways and the other marginals."""
    everything = (near,) if far is None else (near, far)

    def fit(start: Floats, answers: Sequence[Answers], records: float) -> tuple[Floats, bool]:
        matrix = sp.vstack([a.matrix for a in answers]).tocsr()
        values = np.concatenate([a.values for a in answers])
        variances = np.concatenate([a.variances for a in answers])
        result = fit_weights(matrix, start, values, variances, records)
        return result.weights, result.converged

    def estimate(start: Floats, answers: Sequence[Answers]) -> float:
        return likeliest_trust(start, answers, n_public, n_private, GUARD)

    if not isinstance(trust, str):
        weights, converged = fit(prior, everything, float(trust))
        return Explained(weights, float(trust), False, converged)
    drift = trust_by_one_ways(prior, near, n_public, n_private)
    if far is None or drift == (n_public or n_private):
        records = drift if far is None else estimate(prior, everything)
        weights, converged = fit(prior, everything, records)
        return Explained(weights, records, False, converged)
    tilted, tilt_converged = fit(prior, (near,), drift)
    tilted = np.maximum(tilted, np.finfo(float).tiny)
    weights, converged = fit(tilted, (far,), estimate(tilted, (far,)))
    return Explained(weights, drift, True, tilt_converged and converged)


def trust_by_one_ways(prior: Floats, near: Answers, n_public: int, n_private: int) -> float:
    """Return the trust if the one-ways alone are to show drift."""
    return likeliest_trust(prior, (near,), n_public, n_private, ONE_WAY_GUARD)


def likeliest_trust(
    prior: Floats, answers: Sequence[Answers], n_public: int, n_private: int, guard: float
) -> float:
    """Return the trust of the largest diagonal Gaussian likelihood, full unless the guard yields.

    A noisy answer spreads about the prior's by the noise, V / n for the private sample and
    V / trust for the public one, where V is the variance of what a row adds to it.
    """
    full = float(n_public or n_private)
    spreads, errors, noises = [], [], []
    for each in answers:
        answer = each.matrix @ prior
        spreads.append(np.maximum(each.matrix.power(2) @ prior - answer**2, 0))
        errors.append((each.values - answer) ** 2)
        noises.append(each.variances)
    spread, error, noise = map(np.concatenate, (spreads, errors, noises))
    octaves = math.ceil(math.log2(max(full, 2.0)))
    grid = full * 2.0 ** (-np.arange(STEPS_PER_OCTAVE * octaves + 1) / STEPS_PER_OCTAVE)
    gains = []
    for records in grid:
        variance = noise + spread * (1 / n_private + 1 / records)
        gains.append(-float(np.sum(error / variance + np.log(variance))))  # twice the likelihood
    best = int(np.argmax(gains))
    gained = gains[best] - gains[0] > (guard if n_public else 0.0)
    return float(grid[best]) if gained else full
