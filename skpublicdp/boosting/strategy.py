"""Measurement strategies for gradient histograms (the matrix mechanism), and their sensitivity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.binner import Binner
from skpublicdp.boosting.model import MAX_GRADIENT
from skpublicdp.typing import Floats, Integers

STRATEGY_UNIT = 32
"""Integer that stands for an entry of 1 in a strategy matrix: entries are multiples of 1/32."""

MAX_OPTIMISED_BINS = 40
"""Columns with more bins use the identity strategy, since the optimisation takes too long."""

PRIOR_SCALE = np.exp(-1.0)
"""Prior variance of bin scores for which strategies are optimised (ablation: "little")."""


@dataclass(frozen=True, eq=False)
class HistogramStrategy:
    """Integer strategy matrices, one for each column, and a sum over all rows.

    Attributes
    ----------
    blocks : tuple of ndarray of int64, shape (n_measured, n_bins)
        Strategy matrix of each column, in units of 1 / STRATEGY_UNIT.
    is_identity : tuple of bool
        Whether a block measures every bin separately.
    total_weight : int
        Weight of the sum over all rows, which is the last measurement.
    count_weight : int
        Weight of a row in the counts, beside a gradient of norm at most `MAX_GRADIENT`.
    """

    blocks: tuple[Integers, ...]
    is_identity: tuple[bool, ...]
    total_weight: int
    count_weight: int

    def apply(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the measured combinations of bin values; the last one is the weighted total.

        Parameters
        ----------
        values : ndarray of int64 or float64, shape (..., n_bins)
            Values of the bins of all columns.
        """
        ends = np.cumsum([block.shape[1] for block in self.blocks])[:-1]
        columns = np.split(values, ends, axis=-1)
        combined = [column @ block.T for column, block in zip(columns, self.blocks, strict=True)]
        total = self.total_weight * columns[0].sum(-1, keepdims=True)
        return np.concatenate([*combined, total], axis=-1)

    @property
    def column_slices(self) -> list[slice]:
        """Slice of the measurements that belongs to each column."""
        ends = np.cumsum([len(block) for block in self.blocks]).tolist()
        return [slice(end - len(b), end) for end, b in zip(ends, self.blocks, strict=True)]

    def sensitivity(self, *, counts: bool) -> Sensitivity:
        """Bound the change of all measurements when one row is replaced.

        A row adds its scaled gradient, whose norm is at most `MAX_GRADIENT`, times the entries of
        its bins. It adds its count times `count_weight` and the same entries. The change is convex
        in the gradients, so the maximum is at extreme gradients (docs/proofs/moments.md).
        """
        weight = self.count_weight if counts else 0
        # the number of rows is fixed, so the total changes by gradients only
        total = 2 * MAX_GRADIENT * self.total_weight
        absolute, squared = total, total**2
        for block in self.blocks:
            # sums of small integers are exact; two equal bins stand for a flipped label alone
            columns = block.T.astype(np.float64)
            norms = np.abs(columns).sum(axis=1)
            # in the 1-norm the two gradients may be of different targets
            changes = MAX_GRADIENT * np.add.outer(norms, norms)
            absolute += int((changes + weight * cdist(columns, columns, "cityblock")).max())
            distances = cdist(columns, columns, "sqeuclidean")
            changes = MAX_GRADIENT**2 * np.maximum(
                distances, cdist(columns, -columns, "sqeuclidean")
            )
            squared += int((changes + weight**2 * distances).max())
        return Sensitivity(absolute, squared)


def identity_strategy(features: Binner, X: Floats, *, pure: bool) -> HistogramStrategy:
    """Return the strategy that measures every bin.

    With Laplace noise a column with two public bins is measured by their difference. With Gaussian
    noise counts of weight `MAX_GRADIENT` are free: a row that changes bins moves two gradients and
    two counts, which together are as long as the change of a flipped label.

    Parameters
    ----------
    features : Binner
        Bins of all columns.
    X : ndarray of float64, shape (m, n_bins)
        Bin indicators of the public rows.
    pure : bool
        Whether the noise is Laplace.
    """
    is_public = X.sum(axis=0) > 0
    blocks, is_identity = [], []
    for start, size in zip(features.offsets, features.sizes, strict=False):
        bins = np.flatnonzero(is_public[start : start + size])
        block = STRATEGY_UNIT * np.eye(size, dtype=np.int64)
        if pure and len(bins) == 2:
            block = np.zeros((1, size), dtype=np.int64)
            block[0, bins] = STRATEGY_UNIT, -STRATEGY_UNIT
        blocks.append(block)
        is_identity.append(len(block) == size)
    return HistogramStrategy(
        tuple(blocks),
        tuple(is_identity),
        STRATEGY_UNIT // 2,
        MAX_GRADIENT // 2 if pure else MAX_GRADIENT,
    )


def optimised_strategy(
    features: Binner,
    shares: Floats,
    kernels: Sequence[Floats],
    variance: float,
    information: float,
    sampling: float,
) -> HistogramStrategy:
    """Return a strategy that minimises the posterior variance of the scores (HDMM).

    The matrix of each column is optimised separately, over matrices whose columns have norm 1.
    Bins without public rows are left out, and so is a column with one public bin. Counts have half
    the weight of the largest gradient, because this strategy is for balanced classes, where counts
    inform the scores less.

    References
    ----------
    R. McKenna, G. Miklau, M. Hay, A. Machanavajjhala (2018). Optimizing error of high-dimensional
    statistical queries under differential privacy. PVLDB 11(10).

    Parameters
    ----------
    features : Binner
        Bins of all columns.
    shares : ndarray of float64, shape (n_bins,)
        Fraction of the rows in each bin; 0 without public rows.
    kernels : sequence of ndarray
        Prior covariance of the scores of each column, at prior variance 1.
    variance : float
        Noise variance of a measurement.
    information : float
        Number of rows times p (1 - p), for a fraction p of the label.
    sampling : float
        Sampling variance of a sum over all rows: of the private and of the public sample.
    """
    blocks, is_identity = [], []
    for start, size, kernel in zip(features.offsets, features.sizes, kernels, strict=False):
        share = shares[start : start + size]
        bins = np.flatnonzero(share > 0)
        if len(bins) > MAX_OPTIMISED_BINS:
            blocks.append(STRATEGY_UNIT * np.eye(size, dtype=np.int64))
            is_identity.append(True)
            continue
        if len(bins) == 1:  # the sum over all rows measures it already
            blocks.append(np.zeros((1, size), dtype=np.int64))
            is_identity.append(False)
            continue
        A = _minimise_posterior_variance(
            PRIOR_SCALE * kernel[np.ix_(bins, bins)],
            share[bins] / share[bins].sum(),
            (variance + sampling / len(bins)) / information**2,
        )
        block = np.zeros((len(A), size), dtype=np.int64)
        block[:, bins] = np.rint(STRATEGY_UNIT * A)
        blocks.append(block)
        is_identity.append(False)
    return HistogramStrategy(tuple(blocks), tuple(is_identity), STRATEGY_UNIT, MAX_GRADIENT // 2)


def _minimise_posterior_variance(prior: Floats, shares: Floats, noise: float) -> Floats:
    """Minimise tr C (K⁻¹ + C AᵀA C / noise)⁻¹ over matrices A with columns of norm 1.

    C is the covariance of a row's bin indicators and K the prior covariance. A rough minimum is
    enough, since any A is valid.

    Returns
    -------
    ndarray of float64, shape (n_measured, n_bins)
        A with directions dropped that it hardly measures.
    """
    size = len(shares)
    C = np.diag(shares) - np.outer(shares, shares)
    values, vectors = np.linalg.eigh(prior)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    scale = 1 / max(float(np.trace(C @ prior)), 1e-12)

    def loss(flat: Floats) -> tuple[float, Floats]:
        B = flat.reshape(size, size)
        norms = np.sqrt((B**2).sum(axis=0))
        A = B / norms
        design = A @ C @ root
        posterior = root @ np.linalg.inv(np.eye(size) + design.T @ design / noise) @ root.T
        slope = -2 / noise * A @ (C @ posterior @ C @ posterior @ C)
        slope = (slope - A * (A * slope).sum(axis=0)) / norms
        return scale * float(np.trace(C @ posterior)), scale * slope.ravel()

    start = (vectors * np.maximum(values, 1e-9) ** 0.25).T
    start = start + 0.05 * np.random.default_rng(0).normal(size=start.shape)
    result = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 60})
    B = result.x.reshape(size, size)
    A = B / np.sqrt((B**2).sum(axis=0))
    # an equivalent strategy with fewer rows: the eigenvectors of AᵀA that are measured at all
    weights, directions = np.linalg.eigh(A.T @ A)
    is_measured = weights > 1e-3
    reduced: Floats = (directions[:, is_measured] * np.sqrt(weights[is_measured])).T
    return reduced
