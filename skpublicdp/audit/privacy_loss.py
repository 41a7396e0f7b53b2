"""Composition of measured privacy losses, independent of `accounting` on purpose.

A step whose privacy loss lies between two ends is dominated by the one that has no loss but the
ends: δ is a mean of a convex function of e^(-loss), whose mean is 1. Gaussian steps add up their
μ² (Dong, Roth and Su 2019, Corollary 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import log_ndtr, ndtr

from skpublicdp.typing import Floats

MAX_LOSS_ATOMS = 1 << 12
"""Maximum number of exact atoms. With more, privacy losses are rounded up to a grid."""


def gaussian_delta(mu: float, epsilon: Floats | float) -> Floats:
    """Return the δ of Gaussian noise at some ε (Balle and Wang 2018, Theorem 8).

    Examples
    --------
    >>> float(gaussian_delta(1.0, 1.0).round(5))
    0.12694
    """
    epsilon = np.asarray(epsilon, dtype=np.float64)
    if mu == 0:
        return np.asarray(np.maximum(0.0, -np.expm1(epsilon)))
    far = np.exp(np.minimum(epsilon + log_ndtr(-epsilon / mu - mu / 2), 0.0))
    return np.asarray(np.maximum(0.0, ndtr(mu / 2 - epsilon / mu) - far))


@dataclass
class PrivacyLosses:
    """Privacy losses of several steps, each given the outputs of the steps before.

    Attributes
    ----------
    ends : list of (float, float)
        Least and largest loss of each step that is not Gaussian noise.
    mu_squared : float
        Of all Gaussian noise.
    """

    ends: list[tuple[float, float]] = field(default_factory=list)
    mu_squared: float = 0.0

    def swapped(self) -> PrivacyLosses:
        """Return the losses with the two data sets exchanged."""
        return PrivacyLosses([(-high, -low) for low, high in self.ends], self.mu_squared)

    def key(self) -> tuple[object, ...]:
        """Return a hashable key of the losses, rounded slightly."""
        rounded = ((round(low, 12), round(high, 12)) for low, high in self.ends)
        moved = sorted(pair for pair in rounded if pair != (0.0, 0.0))
        return round(self.mu_squared, 12), *moved

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε at a given δ."""
        return max(_epsilon(self, delta), _epsilon(self.swapped(), delta))

    def delta(self, epsilon: float) -> float:
        """Return the smallest δ at a given ε."""
        return max(_delta(self, epsilon), _delta(self.swapped(), epsilon))


def _epsilon(losses: PrivacyLosses, delta: float) -> float:
    if not delta:
        return math.inf if losses.mu_squared else sum(high for _, high in losses.ends)
    atoms, low, high = _atoms(losses.ends), 0.0, 1.0
    mu = math.sqrt(losses.mu_squared)
    while high < 1e6 and _delta_of(atoms, mu, high) > delta:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _delta_of(atoms, mu, middle) > delta else (low, middle)
    return high if high > 1e-15 else 0.0


def _delta(losses: PrivacyLosses, epsilon: float) -> float:
    return _delta_of(_atoms(losses.ends), math.sqrt(losses.mu_squared), epsilon)


def _delta_of(atoms: tuple[Floats, Floats], mu: float, epsilon: float) -> float:
    values, chances = atoms
    return float(chances @ gaussian_delta(mu, epsilon - values))


def _atoms(ends: Iterable[tuple[float, float]]) -> tuple[Floats, Floats]:
    """Return the atoms of the privacy loss if each step takes one of its two extreme losses."""
    values: Floats = np.zeros(1)
    chances: Floats = np.ones(1)
    for low, high in ends:
        if low >= 0 or high <= 0:  # both have mean 1 of e^(-loss)
            continue
        top = math.expm1(-low) / (math.exp(-low) - math.exp(-high))
        values = np.concatenate([values + low, values + high])
        chances = np.concatenate([chances * (1 - top), chances * top])
        if len(values) > MAX_LOSS_ATOMS:
            step = (values.max() - values.min()) / (MAX_LOSS_ATOMS // 4)
            places = np.ceil((values - values.min()) / step).astype(np.int64)
            values = values.min() + step * np.arange(places.max() + 1)
            chances = np.bincount(places, chances).astype(np.float64)
    return values, chances
