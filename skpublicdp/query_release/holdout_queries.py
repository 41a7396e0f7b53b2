"""Queries on which `PAPQueryRelease.score` compares the answers with held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.query_release.queries.base import IntervalQueries, QueryClass, ThresholdQueries
from skpublicdp.query_release.queries.custom import CustomQueries
from skpublicdp.query_release.queries.geometric import (
    HalfspaceQueries,
    RectangleQueries,
    StumpQueries,
)
from skpublicdp.query_release.queries.marginal import MarginalQueries
from skpublicdp.typing import Floats

MAX_HOLDOUT_QUERIES = 256
"""Number of thresholds, boxes or halfspaces, evenly spaced over the held-out rows."""


def holdout_queries(queries: QueryClass, X: Floats) -> NDArray[Any]:
    """Return queries of a class, for the mean error of its answers on the rows `X`.

    Thresholds, ends of intervals and corners of boxes are order statistics of `X`, about
    `MAX_HOLDOUT_QUERIES` in all (of stumps, in each column). Halfspaces pass through rows and have
    random normals. Classes that are finite return all their queries.
    """
    n, n_features = X.shape
    ranks = np.unique(np.linspace(0, n - 1, min(n, MAX_HOLDOUT_QUERIES)).astype(np.intp))
    quantiles = np.sort(X, axis=0)[ranks]
    match queries:
        case ThresholdQueries():
            return quantiles
        case IntervalQueries():
            return np.column_stack([np.full(len(quantiles), -np.inf), quantiles])
        case StumpQueries():
            stumps = [
                _column_stumps(queries, position, values)
                for position, values in enumerate(quantiles.T)
            ]
            return np.concatenate(stumps)
        case RectangleQueries():
            return np.stack([np.full((len(ranks), n_features), -np.inf), X[ranks]], axis=2)
        case HalfspaceQueries():
            normals = np.random.default_rng(0).normal(size=(len(ranks), n_features))
            normals /= np.maximum(X.std(axis=0), 1e-12)
            return np.column_stack([normals, (normals * X[ranks]).sum(axis=1)])
        case CustomQueries():
            return queries.all_queries(X)
        case MarginalQueries():
            return queries.all_cells
    raise TypeError(f"There is no score for {type(queries).__name__}.")


def _column_stumps(queries: StumpQueries, position: int, values: Floats) -> Floats:
    """Return the stumps at the distinct values of one column, shape (n_stumps, 2)."""
    values = np.unique(values)
    column = -1.0 - position if queries.is_categorical(position) else position
    return np.column_stack([np.full(len(values), column), values])
