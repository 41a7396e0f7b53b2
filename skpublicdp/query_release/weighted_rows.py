"""Rows with weights: what every query can be asked of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.typing import Floats, Integers

MAX_GROUP_ID = 1 << 62


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Public rows, or rows that public ones suggest, with released weights.

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
        """Return the weight of the rows for which each query holds."""
        return np.clip(queries.weigh(Q, self.rows, self.weights), 0, 1)

    def cdf(self, x: Floats) -> Floats:
        """Return the weight at or below each number, of one column."""
        values, cumulative = self._ecdf()
        return np.concatenate([[0.0], cumulative])[np.searchsorted(values, x, side="right")]

    def quantile(self, p: Floats) -> Floats:
        """Return the least value at or below which there is at least each weight."""
        values, cumulative = self._ecdf()
        return values[np.minimum(np.searchsorted(cumulative, p), len(values) - 1)]

    def sample(self, n: int, generator: np.random.Generator) -> Floats:
        """Draw rows by their weights."""
        return self.rows[generator.choice(len(self.rows), size=n, p=self.weights)]

    def _ecdf(self) -> tuple[Floats, Floats]:
        values, where = np.unique(self.rows[:, 0], return_inverse=True)
        cumulative = np.cumsum(np.bincount(where.ravel(), weights=self.weights))
        return values, np.minimum(cumulative / cumulative[-1], 1)


def spread_weights(
    support: Integers, weights: Floats, codes_public: Integers, X_public: Floats, others: Floats
) -> WeightedRows:
    """Put the weight of each row of codes on rows that have these codes.

    Parameters
    ----------
    support : ndarray of int, shape (n_support, n_columns)
        Rows of codes.
    weights : ndarray of shape (n_support,)
        Their weights.
    codes_public : ndarray of int, shape (m, n_columns)
        The codes of the public rows.
    X_public : ndarray of float64, shape (m, n_features)
        The public rows.
    others : ndarray of float64, shape (n_support, n_features)
        A row for each row of codes, which counts like a public one.
    """
    labels = _group_ids(np.concatenate([support, codes_public]))
    total = np.bincount(labels[: len(support)], weights, minlength=int(labels.max()) + 1)
    share = np.divide(total, np.bincount(labels), out=np.zeros(len(total)), where=total > 0)
    carried = share[labels]
    used = carried > 0
    rows = np.concatenate([others, X_public])[used]
    return WeightedRows(rows, carried[used] / carried.sum())


def _group_ids(codes: Integers) -> NDArray[np.intp]:
    """Return a number for each row: the same for those of the same codes, and from 0 on."""
    labels, most = np.zeros(len(codes), dtype=np.int64), 1
    for column in codes.T:
        size = int(column.max()) + 1
        if most * size > MAX_GROUP_ID:
            labels = np.unique(labels, return_inverse=True)[1].ravel()
            most = int(labels.max()) + 1
        labels = labels * size + column
        most *= size
    return np.unique(labels, return_inverse=True)[1].ravel()
