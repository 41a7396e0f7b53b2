"""Rows with released weights, on which any query can be evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.query_release.marginals.count import combination_ids
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.typing import Floats, Integers


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
        """Return the total weight of the rows that satisfy each encoded query."""
        return np.clip(queries.weighted_mean(Q, self.rows, self.weights), 0, 1)

    def cdf(self, x: Floats) -> Floats:
        """Return the total weight of the rows with values at or below each number.

        The rows must have a single column.
        """
        values, cumulative = self._ecdf()
        n_values_up_to_x = np.searchsorted(values, x, side="right")
        return np.concatenate([[0.0], cumulative])[n_values_up_to_x]

    def quantile(self, p: Floats) -> Floats:
        """Return the smallest values at which `cdf` reaches each fraction in `p`.

        The rows must have a single column.
        """
        values, cumulative = self._ecdf()
        return values[np.minimum(np.searchsorted(cumulative, p), len(values) - 1)]

    def mean(self) -> float:
        """Return the weighted mean of the rows, which must have a single column."""
        return float(np.average(self.rows[:, 0], weights=self.weights))

    def sample(self, n: int, generator: np.random.Generator) -> Floats:
        """Draw n rows with replacement, with probabilities equal to their weights."""
        return self.rows[generator.choice(len(self.rows), size=n, p=self.weights)]

    def _ecdf(self) -> tuple[Floats, Floats]:
        """Return the sorted distinct values of the first column, and the cumulative weight at each.

        Both arrays have the shape (n_values,). The last cumulative weight is 1.
        """
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
    """Divide the weight of each combination of codes evenly among the rows with these codes.

    These rows are all public rows with the codes, and the representative of the combination. Real
    values inside the bins then come from public rows.

    Parameters
    ----------
    codes : ndarray of int, shape (n_combinations, n_columns)
        Combinations of codes. The same one may occur several times.
    weights : ndarray of shape (n_combinations,)
        Weight of each combination.
    codes_public : ndarray of int, shape (m, n_columns)
        The codes of the public rows.
    X_public : ndarray of float64, shape (m, n_features)
        The public rows, encoded.
    representatives : ndarray of float64, shape (n_combinations, n_features)
        An encoded row for each combination.
    """
    # a group is the set of all representatives and public rows with the same codes
    group_of_row = combination_ids(np.concatenate([codes, codes_public]))
    n_groups = int(group_of_row.max()) + 1
    totals = np.bincount(group_of_row[: len(codes)], weights, minlength=n_groups)
    group_sizes = np.bincount(group_of_row)
    weight_per_row = np.divide(totals, group_sizes, out=np.zeros(n_groups), where=totals > 0)
    row_weights = weight_per_row[group_of_row]
    is_positive = row_weights > 0
    rows = np.concatenate([representatives, X_public])[is_positive]
    return WeightedRows(rows, row_weights[is_positive] / row_weights.sum())
