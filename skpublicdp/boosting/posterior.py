"""An additive logistic model known through noisy sums: a Gaussian posterior of its scores.

The private rows enter through released sums Σ v(x) (1[y] - σ(F(x))) φ(x) + noise, φ(x) being the
cells of a row. What a model (b, w) makes of them is estimated from the public rows, so everything
here is post-processing. Sums and scores are told apart only by the public rows, so neither has more
directions than there are of these: others are noise, or stay as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, qr, solve_triangular
from scipy.optimize import minimize

from skpublicdp.boosting.binner import Binner
from skpublicdp.boosting.budget_split import MISMATCH

Floats = NDArray[np.float64]

LOG_VARIANCE_MEAN, LOG_VARIANCE_SD = -1.5, 1.5
"""Mean and standard deviation of what the logarithm of a prior variance of scores is expected."""


@dataclass(frozen=True, eq=False)
class WeightedPublicRows:
    """Public rows as the sums see them.

    Attributes
    ----------
    X : ndarray of float64, shape (m, n_cells)
        Their cells, 0 and 1, or where they are along the axes of a belief.
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
    def effective_size(self) -> float:
        """How many public rows of equal weight would say as much."""
        return 1 / self.concentration


@dataclass(frozen=True, eq=False)
class NoisyStatistic:
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
class GaussianPosterior:
    """A Gaussian belief about (w, b): one score per cell, then the intercept."""

    mean: Floats
    covariance: Floats

    def margins(self, X: Floats) -> Floats:
        """Return the margin of each row of cells."""
        margins: Floats = X @ self.mean[:-1] + self.mean[-1]
        return margins


@dataclass(frozen=True, eq=False)
class BinPosterior:
    """A Gaussian belief about the scores of all cells, along axes that tell public rows apart.

    Scores are `loadings` times what is believed along the axes, and an independent rest, of which
    nothing is learned.

    Attributes
    ----------
    factors : GaussianPosterior
        The belief along the axes, and about the intercept.
    X : ndarray of float64, shape (m, n_axes)
        Public rows, along the axes.
    loadings : ndarray of float64, shape (n_cells, n_axes)
        Scores, along the axes.
    residual_covariances : tuple of ndarray of float64, shape (n_bins, n_bins)
        Covariance of that remainder, for each column.
    """

    factors: GaussianPosterior
    X: Floats
    loadings: Floats
    residual_covariances: tuple[Floats, ...]

    @property
    def mean(self) -> Floats:
        """Expected score of each cell, then the intercept."""
        return np.append(self.loadings @ self.factors.mean[:-1], self.factors.mean[-1])

    @property
    def covariances(self) -> list[Floats]:
        """Covariance of the scores of each column."""
        along = self.factors.covariance[:-1, :-1]
        parts = [self.loadings[cells] for cells in _column_slices(self.residual_covariances)]
        return [
            rest + part @ along @ part.T
            for rest, part in zip(self.residual_covariances, parts, strict=True)
        ]


def row_space(rows: Floats) -> tuple[Floats, Floats]:
    """Return orthonormal axes, no more than rows, and the rows along them."""
    if rows.shape[1] <= len(rows):
        return np.eye(rows.shape[1]), rows
    axes, along = qr(rows.T, mode="economic")
    return axes, along.T


def whiten_and_reduce(totals: Floats, variances: Floats, Z: Floats) -> tuple[Floats, Floats]:
    """Return sums that say as much, no more than public rows and with noise of variance 1.

    Parameters
    ----------
    totals : ndarray of float64, shape (..., n_measured)
        Sums with independent noise.
    variances : ndarray of float64, shape (n_measured,)
        Of the noise.
    Z : ndarray of float64, shape (m, n_measured)
        What public rows add to the sums.

    Returns
    -------
    ndarray of float64, shape (..., n_condensed)
        The sums.
    ndarray of float64, shape (m, n_condensed)
        What public rows add to them.
    """
    deviations = np.sqrt(variances)
    axes, along = row_space(Z / deviations)
    return totals / deviations @ axes, along


def prior_covariances(features: Binner, design: WeightedPublicRows) -> list[Floats]:
    """Return each column's prior covariance, of scale 1: smooth in a number's public rank."""
    blocks = []
    mass = design.weights @ design.X
    for start, feature in zip(features.offsets, features.columns, strict=False):
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


def fit_prior_variances(
    blocks: Sequence[Floats], design: WeightedPublicRows, release: NoisyStatistic, rate: float
) -> Floats:
    """Choose each column's prior variance by the evidence of a first release.

    Parameters
    ----------
    blocks : sequence of ndarray
        Prior covariances of scale 1.
    design : WeightedPublicRows
        Public rows.
    release : NoisyStatistic
        Sums centred at a constant.
    rate : float
        That constant, the share of rows that are 1.

    Returns
    -------
    ndarray of float64, shape (n_columns,)
        Logarithms of the scales: one for all, expected around `LOG_SCALE`, then one for each around
        it with a prior N(., 1).
    """
    q, weights = design.n * rate * (1 - rate), design.weights
    centred = (release.Z - weights @ release.Z) * weights[:, None]
    mismatch = 1 + MISMATCH * design.n * design.concentration
    noise = cholesky(release.covariance + q * mismatch * centred.T @ release.Z, lower=True)
    rows = _multiply_columns(design.X, [cholesky(block, lower=True) for block in blocks])
    # with sums of white noise, and scores that are white at scale 1
    total = solve_triangular(noise, release.total, lower=True)
    H = q * solve_triangular(noise, centred.T @ rows, lower=True)
    sizes = [len(block) for block in blocks]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    values, axes = np.linalg.eigh(H @ H.T)
    squares = (axes.T @ total) ** 2

    def common(theta: Floats) -> tuple[float, Floats]:
        variances = 1 + np.exp(theta[0]) * values
        offset = (theta[0] - LOG_VARIANCE_MEAN) / LOG_VARIANCE_SD
        value = (squares / variances + np.log(variances)).sum() / 2 + offset**2 / 2
        slope = (
            (1 - squares / variances) * (1 - 1 / variances)
        ).sum() / 2 + offset / LOG_VARIANCE_SD
        return float(value), np.array([slope])

    first = minimize(
        common, np.array([LOG_VARIANCE_MEAN]), jac=True, method="L-BFGS-B", bounds=[(-9, 5)]
    )
    center = float(first.x[0])

    def negative(theta: Floats) -> tuple[float, Floats]:
        scaled = H * np.repeat(np.exp(theta / 2), sizes)
        root = np.linalg.cholesky(np.eye(len(H)) + scaled @ scaled.T)
        solved = solve_triangular(root, scaled, lower=True)
        white = solve_triangular(root, total, lower=True)
        value = white @ white / 2 + np.log(np.diag(root)).sum() + ((theta - center) ** 2).sum() / 2
        slope = np.add.reduceat((solved**2).sum(axis=0) - (white @ solved) ** 2, starts) / 2
        return float(value), slope + theta - center

    each = minimize(
        negative,
        np.full(len(blocks), center),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-12, 6)] * len(blocks),
        options={"maxiter": 15},
    )
    return np.asarray(each.x)


def bin_prior(blocks: Sequence[Floats], theta: Floats, intercept: float, X: Floats) -> BinPosterior:
    """Return the belief before any release, given the cells of the public rows."""
    scaled = [np.exp(t) * block for t, block in zip(theta, blocks, strict=True)]
    roots = [cholesky(block, lower=True) for block in scaled]
    axes, along = row_space(_multiply_columns(X, roots))
    loadings = [
        root @ axes[cells] for root, cells in zip(roots, _column_slices(roots), strict=True)
    ]
    rest = tuple(block - part @ part.T for block, part in zip(scaled, loadings, strict=True))
    n_axes = along.shape[1]
    scores = GaussianPosterior(np.append(np.zeros(n_axes), intercept), np.eye(n_axes + 1))
    return BinPosterior(scores, along, np.vstack(loadings), rest)


def condition_on(
    belief: BinPosterior, design: WeightedPublicRows, release: NoisyStatistic
) -> BinPosterior:
    """Condition the scores of all cells on a release."""
    factors, _ = gauss_newton_update(belief.factors, replace(design, X=belief.X), release)
    return replace(belief, factors=factors)


def gauss_newton_update(
    belief: GaussianPosterior,
    design: WeightedPublicRows,
    release: NoisyStatistic,
    offset: Floats | float = 0.0,
    steps: int = 5,
) -> tuple[GaussianPosterior, float]:
    """Condition a belief on a release: Gauss-Newton steps, the first full, the others damped.

    Parameters
    ----------
    belief : GaussianPosterior
        The belief before.
    design : WeightedPublicRows
        Public rows.
    release : NoisyStatistic
        What was released.
    offset : ndarray of float64, shape (m,), or float, default=0
        What the margins of the public rows have besides.
    steps : int, default=5
        Number of steps.

    Returns
    -------
    GaussianPosterior
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
        scaled = Z * np.sqrt(own)[:, None]
        S = scaled.T @ scaled + release.covariance
        innovation = release.total - n * Z.T @ (w * error) - H @ (belief.mean - point)
        spread = H @ belief.covariance
        factor = cho_factor(spread @ H.T + S, lower=True)
        target = belief.mean + cho_solve(factor, innovation) @ spread
        point = target if step == 0 else point + 0.7 * (target - point)
    evidence = -innovation @ cho_solve(factor, innovation) / 2 - np.log(np.diag(factor[0])).sum()
    explained = solve_triangular(factor[0], spread, lower=True)
    return GaussianPosterior(point, belief.covariance - explained.T @ explained), float(evidence)


def _column_slices(blocks: Sequence[Floats]) -> list[slice]:
    ends = np.cumsum([len(block) for block in blocks]).tolist()
    return [slice(end - len(block), end) for end, block in zip(ends, blocks, strict=True)]


def _multiply_columns(X: Floats, matrices: Sequence[Floats]) -> Floats:
    """Multiply the cells of each column by a matrix."""
    parts = [
        X[:, cells] @ own for cells, own in zip(_column_slices(matrices), matrices, strict=True)
    ]
    return np.hstack(parts)


def _sigmoid(margins: Floats) -> Floats:
    probability: Floats = 1 / (1 + np.exp(-np.clip(margins, -30, 30)))
    return probability
