"""An additive logistic model known through noisy sums: a Gaussian posterior of its scores.

The private rows enter through released sums Σ v(x) (1[y] - σ(F(x))) φ(x) + noise, φ(x) being the
cells of a row. What a model (b, w) makes of them is estimated from the public rows, so everything
here is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, cho_factor, cho_solve
from scipy.optimize import minimize

from skpublicdp.boosting.features import FeatureMap

Floats = NDArray[np.float64]

MISMATCH = 0.3
"""Share of the public sample's own noise that a smooth model cannot explain away."""


@dataclass(frozen=True, eq=False)
class PublicDesign:
    """Public rows as the sums see them.

    Attributes
    ----------
    X : ndarray of float64, shape (m, n_cells)
        Their cells, 0 and 1.
    weights : ndarray of float64, shape (m,)
        Weight of each, of sum 1.
    n : int
        Number of private rows that they stand for.
    """

    X: Floats
    weights: Floats
    n: int

    @property
    def concentration(self) -> float:
        """Sum of squared weights: 1 over the number of public rows, if all weigh the same."""
        return float(self.weights @ self.weights)

    @property
    def size(self) -> float:
        """How many public rows of equal weight would say as much."""
        return 1 / self.concentration


@dataclass(frozen=True, eq=False)
class Release:
    """Released sums A Σ v (1[y] - σ(F)) φ + noise, for a matrix A of combinations of cells.

    Attributes
    ----------
    total : ndarray of float64, shape (n_measured,)
        The sums.
    covariance : ndarray of float64, shape (n_measured, n_measured)
        Of the noise.
    Z : ndarray of float64, shape (m, n_measured)
        A φ of the public rows.
    scale : ndarray of float64, shape (m,)
        v of the public rows.
    baseline : ndarray of float64, shape (m,)
        σ(F) of the public rows.
    """

    total: Floats
    covariance: Floats
    Z: Floats
    scale: Floats
    baseline: Floats


@dataclass(frozen=True, eq=False)
class Scores:
    """A Gaussian belief about (w, b): one score per cell, then the intercept."""

    mean: Floats
    covariance: Floats

    def margins(self, X: Floats) -> Floats:
        """Return the margin of each row of cells."""
        margins: Floats = X @ self.mean[:-1] + self.mean[-1]
        return margins


def kernels(features: FeatureMap, design: PublicDesign) -> list[Floats]:
    """Return each column's prior covariance, of scale 1: smooth in a number's public rank."""
    blocks = []
    mass = design.weights @ design.X
    for start, feature in zip(features.offsets, features.features, strict=False):
        block = np.eye(feature.size)
        if not feature.column.categorical and feature.size > 1:
            bins = feature.size - 1  # the cell of missing values has no neighbours
            share = mass[start : start + bins]
            rank = np.cumsum(share) - share / 2
            distance = (rank[:, None] - rank) / 0.25
            line = 6 * np.outer(rank - 0.5, rank - 0.5)
            block[:bins, :bins] = line + 0.5 * np.exp(-(distance**2) / 2) + 0.1 * np.eye(bins)
        blocks.append(block)
    return blocks


def smoothness(
    blocks: Sequence[Floats], design: PublicDesign, release: Release, rate: float
) -> Floats:
    """Choose each column's prior variance by the evidence of a first release.

    Parameters
    ----------
    blocks : sequence of ndarray
        Prior covariances of scale 1.
    design : PublicDesign
        Public rows.
    release : Release
        Sums centred at a constant.
    rate : float
        That constant, the share of rows that are 1.

    Returns
    -------
    ndarray of float64, shape (n_columns,)
        Logarithms of the scales: one for all with a prior N(-1.5, 1.5²), then one for each around
        it with a prior N(., 1).
    """
    n, X, Z, g = design.n, design.X, release.Z, release.total
    weighted = Z * design.weights[:, None]
    H = rate * (1 - rate) * n * (weighted.T @ X - np.outer(design.weights @ Z, design.weights @ X))
    spread = weighted.T @ Z - np.outer(design.weights @ Z, design.weights @ Z)
    sampling = rate * (1 - rate) * n * (1 + MISMATCH * n * design.concentration) * spread
    noise = release.covariance + sampling
    sizes = [len(block) for block in blocks]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    HK = H @ block_diag(*blocks)

    def negative(theta: Floats, center: float, spread: float) -> tuple[float, Floats]:
        scales = np.exp(theta)
        factor = cho_factor(noise + (HK * np.repeat(scales, sizes)) @ H.T, lower=True)
        solved = cho_solve(factor, g)
        value = g @ solved / 2 + np.log(np.diag(factor[0])).sum()
        traces = np.add.reduceat((cho_solve(factor, H) * HK).sum(axis=0), starts)
        explained = np.add.reduceat((solved @ H) * (solved @ HK), starts)
        slope = scales * (traces - explained) / 2
        value += ((theta - center) ** 2).sum() / (2 * spread**2)
        return float(value), slope + (theta - center) / spread**2

    def common(theta: Floats) -> tuple[float, Floats]:
        value, slope = negative(np.repeat(theta, len(blocks)), 0.0, np.inf)
        offset = theta[0] + 1.5
        return value + offset**2 / (2 * 1.5**2), np.array([slope.sum() + offset / 1.5**2])

    first = minimize(common, np.array([-1.5]), jac=True, method="L-BFGS-B", bounds=[(-9, 5)])
    center = float(first.x[0])
    each = minimize(
        lambda theta: negative(theta, center, 1.0),
        np.full(len(blocks), center),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-12, 6)] * len(blocks),
        options={"maxiter": 15},
    )
    return np.asarray(each.x)


def prior(blocks: Sequence[Floats], theta: Floats, intercept: float) -> Scores:
    """Return the belief before any release."""
    scaled = [np.exp(t) * block for t, block in zip(theta, blocks, strict=True)]
    covariance = block_diag(*scaled, np.ones((1, 1)))
    mean = np.zeros(len(covariance))
    mean[-1] = intercept
    return Scores(mean, covariance)


def update(
    belief: Scores,
    design: PublicDesign,
    release: Release,
    offset: Floats | float = 0.0,
    steps: int = 5,
) -> tuple[Scores, float]:
    """Condition a belief on a release: Gauss-Newton steps, the first full, the others damped.

    Parameters
    ----------
    belief : Scores
        The belief before.
    design : PublicDesign
        Public rows.
    release : Release
        What was released.
    offset : ndarray of float64, shape (m,), or float, default=0
        What the margins of the public rows have besides.
    steps : int, default=5
        Number of steps.

    Returns
    -------
    Scores
        The belief after.
    float
        Logarithm of the evidence, up to a constant.
    """
    n, Z, v, w = design.n, release.Z, release.scale, design.weights
    extended = np.hstack([design.X, np.ones((len(design.X), 1))])
    point = belief.mean
    for step in range(steps):
        probability = _sigmoid(extended @ point + offset)
        q = probability * (1 - probability)
        error = v * (probability - release.baseline)
        H = n * (Z * (w * q * v)[:, None]).T @ extended
        # the private rows' own noise, and how far the public ones may be from their population
        own = n * (1 + MISMATCH * n * design.concentration) * w * q * v**2 + (n * w * error) ** 2
        S = (Z * own[:, None]).T @ Z + release.covariance
        innovation = release.total - n * Z.T @ (w * error) - H @ (belief.mean - point)
        spread = belief.covariance @ H.T
        factor = cho_factor(H @ spread + S, lower=True)
        gain = cho_solve(factor, spread.T).T
        target = belief.mean + gain @ innovation
        point = target if step == 0 else point + 0.7 * (target - point)
    evidence = -innovation @ cho_solve(factor, innovation) / 2 - np.log(np.diag(factor[0])).sum()
    covariance = belief.covariance - gain @ spread.T
    return Scores(point, (covariance + covariance.T) / 2), float(evidence)


def _sigmoid(margins: Floats) -> Floats:
    probability: Floats = 1 / (1 + np.exp(-np.clip(margins, -30, 30)))
    return probability
