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
"""Number of thresholds, boxes or halfspaces, at evenly spaced ranks of the held-out rows."""

MIN_COLUMN_DEVIATION = 1e-12
"""Lower bound of the standard deviation of a column, which standardises normals of halfspaces."""


def holdout_queries(queries: QueryClass, X: Floats) -> NDArray[Any]:
    """Return the encoded queries of a class over which `PAPQueryRelease.score` averages errors.

    Classes with a finite list return all queries. Otherwise there are up to `MAX_HOLDOUT_QUERIES`
    queries (of stumps, in each column). Thresholds and ends of intervals are quantiles of a column
    of `X`. Boxes have a row as upper corner. Halfspaces have a row on the boundary and random
    normals.

    Parameters
    ----------
    queries : QueryClass
        The class, bound to the schema.
    X : ndarray of float64, shape (n, n_features)
        Encoded held-out rows.
    """
    n, n_features = X.shape
    ranks = np.unique(np.linspace(0, n - 1, min(n, MAX_HOLDOUT_QUERIES)).astype(np.intp))
    quantiles = np.sort(X, axis=0)[ranks]
    match queries:
        case ThresholdQueries():
            return quantiles
        case IntervalQueries():
            low = np.full(len(quantiles), -np.inf)
            return np.column_stack([low, quantiles])
        case StumpQueries():
            stumps = [
                _column_stumps(queries, position, values)
                for position, values in enumerate(quantiles.T)
            ]
            return np.concatenate(stumps)
        case RectangleQueries():
            low = np.full((len(ranks), n_features), -np.inf)
            return np.stack([low, X[ranks]], axis=2)
        case HalfspaceQueries():
            normals = np.random.default_rng(0).normal(size=(len(ranks), n_features))
            normals /= np.maximum(X.std(axis=0), MIN_COLUMN_DEVIATION)
            offsets = (normals * X[ranks]).sum(axis=1)
            return np.column_stack([normals, offsets])
        case CustomQueries():
            return queries.all_queries(X)
        case MarginalQueries():
            return queries.all_cells
    raise TypeError(f"There is no score for {type(queries).__name__}.")


def _column_stumps(queries: StumpQueries, position: int, values: Floats) -> Floats:
    """Return the encoded stumps at distinct values of one column, shape (n_stumps, 2).

    The encoding of `StumpQueries` replaces the position of a categorical column by -1 - position.
    """
    values = np.unique(values)
    encoded_column = -1.0 - position if queries.is_categorical(position) else position
    return np.column_stack([np.full(len(values), encoded_column), values])
