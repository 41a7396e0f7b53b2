"""Queries by which rows are told apart, to compare answers with rows kept aside."""

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


def holdout_queries(queries: QueryClass, X: Floats) -> NDArray[Any]:
    """Return queries of a class that tell rows apart: some 256, or so many for each column."""
    n, n_features = X.shape
    levels = np.unique(np.linspace(0, n - 1, min(n, MAX_HOLDOUT_QUERIES)).astype(np.intp))
    ordered = np.sort(X, axis=0)[levels]
    match queries:
        case ThresholdQueries():
            return ordered
        case IntervalQueries():
            return np.column_stack([np.full(len(ordered), -np.inf), ordered])
        case StumpQueries():
            return np.concatenate([_stumps(queries, place, x) for place, x in enumerate(ordered.T)])
        case RectangleQueries():
            return np.stack([np.full((len(levels), n_features), -np.inf), X[levels]], axis=2)
        case HalfspaceQueries():
            normals = np.random.default_rng(0).normal(size=(len(levels), n_features))
            normals /= np.maximum(X.std(axis=0), 1e-12)
            return np.column_stack([normals, (normals * X[levels]).sum(axis=1)])
        case CustomQueries():
            return queries.everything(X)
        case MarginalQueries():
            return queries.listed
    raise TypeError(f"There is no score for {type(queries).__name__}.")


def _stumps(queries: StumpQueries, place: int, values: Floats) -> Floats:
    values = np.unique(values)
    column = np.full(len(values), -1.0 - place if queries.is_coded(place) else place)
    return np.column_stack([column, values])
