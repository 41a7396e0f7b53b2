"""What is measured of each column's cells, and how much one replaced row can move it."""

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

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STRATEGY_UNIT = 32
"""A cell's own entry in a measured sum: entries are multiples of 1/32."""

MAX_OPTIMISED_BINS = 40
"""Columns of more cells are measured cell by cell: better combinations take long to find."""

PRIOR_SCALE = np.exp(-1.0)
"""Scale of the prior for which combinations are chosen."""


@dataclass(frozen=True, eq=False)
class HistogramStrategy:
    """Integer combinations of cells, each of one column, and the sum of all rows.

    Attributes
    ----------
    blocks : tuple of ndarray of int64, shape (n_measured, n_cells of a column)
        One per column.
    is_identity : tuple of bool
        Whether a block measures each cell by itself.
    total_weight : int
        Entry of all rows in the last sum.
    count_weight : int
        What a row counts beside a residual of at most `MAX_GRADIENT`.
    """

    blocks: tuple[Integers, ...]
    is_identity: tuple[bool, ...]
    total_weight: int
    count_weight: int

    def apply(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return all combinations of values of cells; the last one weighs every row alike.

        Parameters
        ----------
        values : ndarray of int64 or float64, shape (..., n_cells)
            Any values.
        """
        ends = np.cumsum([block.shape[1] for block in self.blocks])[:-1]
        parts = np.split(values, ends, axis=-1)
        found = [part @ block.T for part, block in zip(parts, self.blocks, strict=True)]
        return np.concatenate(
            [*found, self.total_weight * parts[0].sum(-1, keepdims=True)], axis=-1
        )

    @property
    def column_slices(self) -> list[slice]:
        """Which combinations are of which column."""
        ends = np.cumsum([len(block) for block in self.blocks]).tolist()
        return [slice(end - len(b), end) for end, b in zip(ends, self.blocks, strict=True)]

    def sensitivity(self, *, counts: bool) -> Sensitivity:
        """Bound what replacing one row moves.

        A row adds its scaled gradient, whose norm is at most `MAX_GRADIENT`, times the entries of
        its bins. It adds its count times `count_weight` and the same entries. The change is convex
        in the gradients, so the maximum is at extreme gradients (docs/proofs/moments.md).
        """
        weight = self.count_weight if counts else 0
        # the number of rows does not change, so the last sum moves by residuals only
        last = 2 * MAX_GRADIENT * self.total_weight
        absolute, squared = last, last**2
        for block in self.blocks:
            # sums of small integers are exact; equal cells stand for a change of the label alone
            columns = block.T.astype(np.float64)
            lengths = np.abs(columns).sum(axis=1)
            # the two residuals may be of different targets
            moved = MAX_GRADIENT * np.add.outer(lengths, lengths)
            absolute += int((moved + weight * cdist(columns, columns, "cityblock")).max())
            apart = cdist(columns, columns, "sqeuclidean")
            moved = MAX_GRADIENT**2 * np.maximum(apart, cdist(columns, -columns, "sqeuclidean"))
            squared += int((moved + weight**2 * apart).max())
        return Sensitivity(absolute, squared)


def identity_strategy(features: Binner, X: Floats, *, pure: bool) -> HistogramStrategy:
    """Measure each cell; with Laplace noise, of columns with two public cells their difference.

    With Gaussian noise counts of weight `MAX_GRADIENT` are free: a row that changes bins moves two
    gradients and two counts, which together are as long as the change of a flipped label.

    Parameters
    ----------
    features : Binner
        The columns.
    X : ndarray of float64, shape (m, n_cells)
        Cells of the public rows.
    pure : bool
        Whether the noise is Laplace's.
    """
    seen = X.sum(axis=0) > 0
    blocks, is_identity = [], []
    for start, size in zip(features.offsets, features.sizes, strict=False):
        cells = np.flatnonzero(seen[start : start + size])
        block = STRATEGY_UNIT * np.eye(size, dtype=np.int64)
        if pure and len(cells) == 2:
            block = np.zeros((1, size), dtype=np.int64)
            block[0, cells] = STRATEGY_UNIT, -STRATEGY_UNIT
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
    """Measure the combinations of each column's cells that say most of its scores.

    Of the matrices whose columns have length 1, one that leaves the least variance of the scores
    over the population, given a prior, is found for each column by itself. Cells that no public row
    has are left out, and so is a column with one public cell. Counts weigh half of the longest
    residual: they are worth less where the labels are about equally common, which is what this
    strategy is for.

    Parameters
    ----------
    features : Binner
        The columns.
    shares : ndarray of float64, shape (n_cells,)
        Share of the rows in each cell; 0 in those that no public row has.
    kernels : sequence of ndarray
        Prior covariance of the scores of each column, of scale 1.
    variance : float
        Variance of the noise in a combination.
    information : float
        Number of rows times p (1 - p) for a share p of a label.
    sampling : float
        Variance of a sum over all rows besides the noise: of the private rows as a sample, and of
        the public ones.
    """
    blocks, is_identity = [], []
    for start, size, kernel in zip(features.offsets, features.sizes, kernels, strict=False):
        share = shares[start : start + size]
        seen = np.flatnonzero(share > 0)
        if len(seen) > MAX_OPTIMISED_BINS:
            blocks.append(STRATEGY_UNIT * np.eye(size, dtype=np.int64))
            is_identity.append(True)
            continue
        if len(seen) == 1:  # it tells no more than the sum of all rows
            blocks.append(np.zeros((1, size), dtype=np.int64))
            is_identity.append(False)
            continue
        A = _minimise_posterior_variance(
            PRIOR_SCALE * kernel[np.ix_(seen, seen)],
            share[seen] / share[seen].sum(),
            (variance + sampling / len(seen)) / information**2,
        )
        block = np.zeros((len(A), size), dtype=np.int64)
        block[:, seen] = np.rint(STRATEGY_UNIT * A)
        blocks.append(block)
        is_identity.append(False)
    return HistogramStrategy(tuple(blocks), tuple(is_identity), STRATEGY_UNIT, MAX_GRADIENT // 2)


def _minimise_posterior_variance(prior: Floats, shares: Floats, noise: float) -> Floats:
    """Minimise tr C (K⁻¹ + C AᵀA C / noise)⁻¹ over matrices A with columns of length 1.

    C is the covariance of the cells of a row. The minimum is wanted roughly, for any A is valid.
    """
    size = len(shares)
    C = np.diag(shares) - np.outer(shares, shares)
    values, vectors = np.linalg.eigh(prior)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    scale = 1 / max(float(np.trace(C @ prior)), 1e-12)

    def loss(flat: Floats) -> tuple[float, Floats]:
        B = flat.reshape(size, size)
        lengths = np.sqrt((B**2).sum(axis=0))
        A = B / lengths
        seen = A @ C @ root
        posterior = root @ np.linalg.inv(np.eye(size) + seen.T @ seen / noise) @ root.T
        slope = -2 / noise * A @ (C @ posterior @ C @ posterior @ C)
        slope = (slope - A * (A * slope).sum(axis=0)) / lengths
        return scale * float(np.trace(C @ posterior)), scale * slope.ravel()

    start = (vectors * np.maximum(values, 1e-9) ** 0.25).T
    start = start + 0.05 * np.random.default_rng(0).normal(size=start.shape)
    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 60})
    B = found.x.reshape(size, size)
    A = B / np.sqrt((B**2).sum(axis=0))
    # the same sums in fewer combinations: those of directions that are measured at all
    weights, directions = np.linalg.eigh(A.T @ A)
    kept = weights > 1e-3
    combined: Floats = (directions[:, kept] * np.sqrt(weights[kept])).T
    return combined
