"""Rows with released weights, on which any query can be evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.typing import Floats, Integers

MAX_GROUP_ID = 1 << 62
"""Upper bound of the integers that number combinations of codes, below the limit of int64."""


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """A discrete distribution on public or synthetic rows, with released weights.

    Attributes
    ----------
    rows : ndarray of float64, shape (n_rows, n_features)
        Encoded rows.
    weights : ndarray of shape (n_rows,)
        Non-negative, with sum 1.
    """

    rows: Floats
    weights: Floats

    def answer(self, queries: QueryClass, Q: NDArray[Any]) -> Floats:
        """Return the total weight of the rows that satisfy each query."""
        return np.clip(queries.weighted_mean(Q, self.rows, self.weights), 0, 1)

    def cdf(self, x: Floats) -> Floats:
        """Return the weight of the rows at or below each number, for rows of one column."""
        values, cumulative = self._ecdf()
        return np.concatenate([[0.0], cumulative])[np.searchsorted(values, x, side="right")]

    def quantile(self, p: Floats) -> Floats:
        """Return the smallest values at which `cdf` reaches given fractions, for one column."""
        values, cumulative = self._ecdf()
        return values[np.minimum(np.searchsorted(cumulative, p), len(values) - 1)]

    def sample(self, n: int, generator: np.random.Generator) -> Floats:
        """Draw n rows with replacement, with probabilities equal to their weights."""
        return self.rows[generator.choice(len(self.rows), size=n, p=self.weights)]

    def _ecdf(self) -> tuple[Floats, Floats]:
        """Return the distinct values of the first column, and the cumulative weight at each."""
        values, value_of_row = np.unique(self.rows[:, 0], return_inverse=True)
        cumulative = np.cumsum(np.bincount(value_of_row.ravel(), weights=self.weights))
        return values, np.minimum(cumulative / cumulative[-1], 1)


def spread_weights(
    codes: Integers,
    weights: Floats,
    codes_public: Integers,
    X_public: Floats,
    representatives: Floats,
) -> WeightedRows:
    """Divide the weight of each combination of codes evenly among the rows that have it.

    These rows are the representative of the combination and all public rows with these codes.

    Parameters
    ----------
    codes : ndarray of int, shape (n_combinations, n_columns)
        Combinations of codes, which may repeat.
    weights : ndarray of shape (n_combinations,)
        Their weights.
    codes_public : ndarray of int, shape (m, n_columns)
        The codes of the public rows.
    X_public : ndarray of float64, shape (m, n_features)
        The public rows, encoded.
    representatives : ndarray of float64, shape (n_combinations, n_features)
        An encoded row for each combination.
    """
    group_of_row = _group_ids(np.concatenate([codes, codes_public]))
    totals = np.bincount(group_of_row[: len(codes)], weights, minlength=int(group_of_row.max()) + 1)
    weight_per_row = np.divide(
        totals, np.bincount(group_of_row), out=np.zeros(len(totals)), where=totals > 0
    )
    row_weights = weight_per_row[group_of_row]
    is_positive = row_weights > 0
    rows = np.concatenate([representatives, X_public])[is_positive]
    return WeightedRows(rows, row_weights[is_positive] / row_weights.sum())


def _group_ids(codes: Integers) -> NDArray[np.intp]:
    """Return an integer for each row of codes, from 0 on, equal for equal rows."""
    ids, n_ids = np.zeros(len(codes), dtype=np.int64), 1
    for column in codes.T:
        n_codes = int(column.max()) + 1
        if n_ids * n_codes > MAX_GROUP_ID:
            ids = np.unique(ids, return_inverse=True)[1].ravel()
            n_ids = int(ids.max()) + 1
        ids = ids * n_codes + column
        n_ids *= n_codes
    return np.unique(ids, return_inverse=True)[1].ravel()
