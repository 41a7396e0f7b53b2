"""Composition of measured privacy losses, intentionally independent of `accounting`.

If the privacy loss of a step lies in [low, high], δ is largest when the loss only takes these two
values. The reason is that δ is the mean of a convex function of e^(-loss), and e^(-loss) has mean
1. The μ² of Gaussian steps are additive (Dong, Roth and Su 2019, Corollary 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import log_ndtr, ndtr

from skpublicdp.typing import Floats

MAX_LOSS_ATOMS = 1 << 12
"""Maximum number of exact atoms.

If there are more atoms, the privacy losses are rounded up to a grid."""

N_GRID_LOSSES = MAX_LOSS_ATOMS // 4
"""Number of steps in the grid of privacy losses."""


def gaussian_delta(mu: float, epsilon: Floats | float) -> Floats:
    """Return the δ of Gaussian noise at a given ε (Balle and Wang 2018, Theorem 8).

    Examples
    --------
    >>> float(gaussian_delta(1.0, 1.0).round(5))
    0.12694
    """
    epsilon = np.asarray(epsilon, dtype=np.float64)
    if mu == 0:
        return np.asarray(np.maximum(0.0, -np.expm1(epsilon)))
    # e^ε Φ(-ε/μ - μ/2), computed in logarithms to prevent overflow
    subtrahend = np.exp(np.minimum(epsilon + log_ndtr(-epsilon / mu - mu / 2), 0.0))
    return np.asarray(np.maximum(0.0, ndtr(mu / 2 - epsilon / mu) - subtrahend))


@dataclass
class PrivacyLosses:
    """Privacy losses of several mechanism calls, each conditional on all earlier outputs."""

    # smallest and largest loss of each call other than Gaussian noise
    ends: list[tuple[float, float]] = field(default_factory=list)
    mu_squared: float = 0.0  # sum of the values μ² of all Gaussian noise

    def swapped(self) -> PrivacyLosses:
        """Return the losses with the two datasets exchanged."""
        return PrivacyLosses([(-high, -low) for low, high in self.ends], self.mu_squared)

    def key(self) -> tuple[object, ...]:
        """Return a hashable key that is equal for losses with the same composed ε and δ.

        The key ignores the order of the losses and any calls without loss. Values are rounded to 12
        digits.
        """
        rounded = ((round(low, 12), round(high, 12)) for low, high in self.ends)
        nonzero = sorted(pair for pair in rounded if pair != (0.0, 0.0))
        return round(self.mu_squared, 12), *nonzero

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε at a given δ for the composition of all losses."""
        return max(_epsilon(self, delta), _epsilon(self.swapped(), delta))

    def delta(self, epsilon: float) -> float:
        """Return the smallest δ at a given ε for the composition of all losses."""
        return max(_delta(self, epsilon), _delta(self.swapped(), epsilon))


def _epsilon(losses: PrivacyLosses, delta: float) -> float:
    """Return the smallest ε at a given δ in one direction (P against P'), by bisection."""
    if not delta:
        return math.inf if losses.mu_squared else sum(high for _, high in losses.ends)
    atoms = _atoms(losses.ends)
    mu = math.sqrt(losses.mu_squared)
    low, high = 0.0, 1.0
    while high < 1e6 and _mixture_delta(atoms, mu, high) > delta:
        low, high = high, 2 * high
    for _ in range(60):  # down to the precision of floats
        middle = (low + high) / 2
        if _mixture_delta(atoms, mu, middle) > delta:
            low = middle
        else:
            high = middle
    return high if high > 1e-15 else 0.0


def _delta(losses: PrivacyLosses, epsilon: float) -> float:
    """Return the smallest δ at a given ε in one direction (P against P')."""
    return _mixture_delta(_atoms(losses.ends), math.sqrt(losses.mu_squared), epsilon)


def _mixture_delta(atoms: tuple[Floats, Floats], mu: float, epsilon: float) -> float:
    """Return the δ, at a given ε, of discrete losses composed with Gaussian noise.

    Conditional on the discrete loss, the loss of the Gaussian noise must not exceed ε minus this
    loss.
    """
    losses, probabilities = atoms
    return float(probabilities @ gaussian_delta(mu, epsilon - losses))


def _atoms(ends: Iterable[tuple[float, float]]) -> tuple[Floats, Floats]:
    """Return the distribution of the total loss if each step has one of its extreme losses.

    Returns
    -------
    losses, probabilities : ndarray of float64, shape (n_atoms,)
        Above `MAX_LOSS_ATOMS`, losses are rounded up to a grid, which makes δ an upper bound.
    """
    losses: Floats = np.zeros(1)
    probabilities: Floats = np.ones(1)
    for low, high in ends:
        if low >= 0 or high <= 0:  # since e^(-loss) has mean 1, the loss is 0
            continue
        # the probability of the high loss follows from the mean of e^(-loss), which is 1
        p_high = math.expm1(-low) / (math.exp(-low) - math.exp(-high))
        p_low = 1 - p_high
        losses = np.concatenate([losses + low, losses + high])
        probabilities = np.concatenate([probabilities * p_low, probabilities * p_high])
        if len(losses) > MAX_LOSS_ATOMS:
            lowest = losses.min()
            grid_step = (losses.max() - lowest) / N_GRID_LOSSES
            n_steps = np.ceil((losses - lowest) / grid_step)
            grid_index = n_steps.astype(np.int64)
            losses = lowest + grid_step * np.arange(grid_index.max() + 1)
            probabilities = np.bincount(grid_index, probabilities).astype(np.float64)
    return losses, probabilities
