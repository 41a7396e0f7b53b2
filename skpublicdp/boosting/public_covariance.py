"""Covariances of few public rows, shrunk towards those of independent columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from skpublicdp.typing import Floats

MAX_FACTORS = 640
"""Maximum number of factors of an additive fit with more bins than public rows, to limit run
time."""

VARIANCE_TOLERANCE = 1e-6
"""Relative difference below which variances count as equal."""

ColumnIndex: TypeAlias = NDArray[np.intp]
"""Column of the table to which each coordinate of a vector belongs, or -1 for a constant."""


@dataclass(frozen=True, eq=False)
class FactorBasis:
    """Directions of the bin scores of each column, and the shrinkage of the factors' covariances.

    Many entries of the covariance of hundreds of bins are estimated from few rows. Scores that fit
    these rows by chance look more influential than they are.
    """

    # (n_bins_of_column, n_factors_of_column): orthonormal directions of standardised bin scores
    directions: tuple[Floats, ...]
    # weight of the covariance of independent columns, between 0 and 1
    independence: float

    @property
    def columns(self) -> ColumnIndex:
        """Column of the table to which each factor belongs, shape (n_factors,)."""
        return index_of_blocks([block.shape[1] for block in self.directions])


def index_of_blocks(sizes: Sequence[int]) -> ColumnIndex:
    """Return the number of the block of each coordinate, given the sizes of all blocks."""
    return np.repeat(np.arange(len(sizes)), sizes)


def make_factor_basis(rows_by_column: Sequence[Floats], weights: Floats) -> FactorBasis:
    """Return the factors that contribute most to the variance of the margin.

    Parameters
    ----------
    rows_by_column : sequence of ndarray of float64, shape (m, n_bins_of_column)
        For each column, coefficients of standardised bin scores in the margins of the public rows.
    weights : ndarray of float64, shape (m,)
        Weights of the public rows, which sum to 1.
    """
    sizes = [rows.shape[1] for rows in rows_by_column]
    directions = list(map(np.eye, sizes))
    if sum(sizes) > MAX_FACTORS:
        centred = [rows - weights @ rows for rows in rows_by_column]
        covariances = [second_moment(rows, weights) for rows in centred]
        axes = [np.linalg.eigh(covariance) for covariance in covariances]
        all_variances = [values for values, _ in axes]
        variances = np.sort(np.concatenate(all_variances))
        largest = variances[-1]
        largest_omitted = variances[-MAX_FACTORS - 1]
        # equal variances are kept or omitted together, since they differ by rounding errors
        threshold = (1 + VARIANCE_TOLERANCE) * largest_omitted
        if largest <= threshold:
            threshold = (1 - VARIANCE_TOLERANCE) * largest
        directions = [vectors[:, values > threshold] for values, vectors in axes]
    pairs = zip(rows_by_column, directions, strict=True)
    factors = [rows @ vectors for rows, vectors in pairs]
    independence = _independence(factors, weights)
    return FactorBasis(tuple(directions), independence)


def _independence(factors: Sequence[Floats], weights: Floats) -> float:
    """Return the weight of independent columns that minimises the expected squared error.

    Only covariances between columns are shrunk, because those within a column have few entries.

    References
    ----------
    O. Ledoit and M. Wolf (2004). A well-conditioned estimator for large-dimensional covariance
    matrices. Journal of Multivariate Analysis.
    """
    centred = [rows - weights @ rows for rows in factors]
    squared_lengths = np.array([(rows**2).sum(axis=1) for rows in centred])  # (n_columns, m)
    square_of_sum = squared_lengths.sum(axis=0) ** 2
    sum_of_squares = (squared_lengths**2).sum(axis=0)
    # squared norms of matrices, summed over all pairs of different columns
    products = square_of_sum - sum_of_squares  # (m,)
    within = 0.0
    for rows in centred:
        within += np.sum(second_moment(rows, weights) ** 2)
    moment = second_moment(np.hstack(centred), weights)
    between = np.sum(moment**2) - within
    if between <= 0:
        return 0.0
    squared_weights = weights**2
    error = squared_weights @ products - (weights @ weights) * between
    return float(np.clip(error / between, 0.0, 1.0))


def second_moment(rows: Floats, row_weights: Floats) -> Floats:
    """Return Σ r x xᵀ over rows x with weights r."""
    scaled = rows * np.sqrt(row_weights)[:, None]
    moment: Floats = scaled.T @ scaled
    return moment


def shares_retained(left: ColumnIndex, right: ColumnIndex, between: float) -> Floats:
    """Return the share of each covariance that shrinkage retains, which is 1 within a column."""
    return np.where(left[:, None] == right, 1.0, between)


def shrunk_moment(left: Floats, right: Floats, row_weights: Floats, shares: Floats) -> Floats:
    """Return Σ r x yᵀ over rows, after multiplying the covariances of x and y by given shares."""
    weighted = left * row_weights[:, None]
    product_of_means = np.outer(weighted.sum(axis=0), row_weights @ right) / row_weights.sum()
    covariance = weighted.T @ right - product_of_means
    moment: Floats = product_of_means + shares * covariance
    return moment
