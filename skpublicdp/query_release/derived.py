"""Queries of any class by tables over integer columns that public rows define."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from itertools import combinations

import numpy as np
from joblib import Parallel, delayed

from skpublicdp.hypotheses.base import CHUNK_ROWS
from skpublicdp.query_release.listed import CustomQueries, MarginalQueries
from skpublicdp.query_release.queries import QueryClass
from skpublicdp.query_release.regions import HalfspaceQueries, RectangleQueries, StumpQueries
from skpublicdp.schema import Bins, Codes, Rows, Schema

STUMP_BINS = 8, 64
"""Fewest and most bins of a column that stumps are about."""

FEWEST_BINS, MOST_BINS = 4, 32
"""Of a column whose pairs with others are measured for rectangles and halfspaces."""


class Derived(ABC):
    """Integer columns computed from each row alone, and the tables over them.

    Attributes
    ----------
    sizes : tuple of int
        Number of codes of each column.
    workload : list of tuple of int
        The tables, as positions of columns.
    """

    sizes: tuple[int, ...]
    workload: list[tuple[int, ...]]

    @abstractmethod
    def codes(self, rows: Rows) -> Codes:
        """Return the codes of encoded rows."""

    @abstractmethod
    def rows(self, support: Codes, codes_public: Codes, X_public: Rows, copies: int) -> Rows:
        """Return encoded rows with given codes, shape (copies, n_support, n_features)."""

    def codes_of_all(self, rows: Rows, n_jobs: int | None) -> Codes:
        """Code rows in chunks and by threads, neither of which changes a code."""
        starts = range(0, len(rows), CHUNK_ROWS)
        if len(starts) < 2:
            return self.codes(rows)
        parts = Parallel(n_jobs=n_jobs, require="sharedmem")(
            delayed(self.codes)(rows[start : start + CHUNK_ROWS]) for start in starts
        )
        return np.concatenate(list(parts))


class Binned(Derived):
    """The columns of a schema in bins."""

    def __init__(self, schema: Schema, bins: Bins, workload: list[tuple[int, ...]]) -> None:
        self._schema = schema
        self.bins = bins
        self.sizes = bins.sizes
        self.workload = workload

    def codes(self, rows: Rows) -> Codes:
        """Return the bins of each row."""
        return self.bins.codes(rows)

    def rows(self, support: Codes, codes_public: Codes, X_public: Rows, copies: int) -> Rows:
        """Return the middles of the bins, or a mixture of the public values in them."""
        if copies == 1:
            return self.bins.representatives(support, X_public, self._schema)[None]
        scattered = self.bins.scattered(np.tile(support, (copies, 1)), X_public, self._schema)
        return scattered.reshape(copies, len(support), -1)


class Listed(Derived):
    """One column per query of a list: whether it holds."""

    def __init__(self, queries: CustomQueries, X_public: Rows) -> None:
        self._queries = queries
        self._all = queries.everything(X_public)
        self.sizes = (2,) * len(self._all)
        self.workload = [(column,) for column in range(len(self._all))]

    def codes(self, rows: Rows) -> Codes:
        """Return 1 where a query holds."""
        return self._queries.holds(self._all, rows).T.astype(np.int64)

    def rows(self, support: Codes, codes_public: Codes, X_public: Rows, copies: int) -> Rows:
        """Return the public rows whose codes are nearest."""
        nearest = [np.abs(codes_public - row).sum(axis=1).argmin() for row in support]
        return X_public[np.array(nearest, dtype=np.intp)][None]


def derive(queries: QueryClass, schema: Schema, X_public: Rows, room: float) -> Derived:
    """Choose the columns and tables for a class of queries.

    Parameters
    ----------
    queries : QueryClass
        Bound to the schema.
    schema : Schema
        The columns.
    X_public : ndarray of float64
        Encoded public rows.
    room : float
        n √(2ρ): how many equal parts of the private rows stand out of the noise of one count.
    """
    n_features = len(schema.columns)
    match queries:
        case MarginalQueries():
            return Binned(schema, schema.bins(X_public, int(queries.bins)), queries.tables(schema))
        case StumpQueries():
            n_bins = int(np.clip(1.5 * math.sqrt(room / n_features), *STUMP_BINS))
            bins = schema.bins(X_public, n_bins)
            return Binned(schema, bins, [(column,) for column in range(n_features)])
        case RectangleQueries() | HalfspaceQueries():
            # tables of pairs beat bins along directions for halfspaces, too
            order = min(2, n_features)
            tables = list(combinations(range(n_features), order))
            most = min(MOST_BINS, max(FEWEST_BINS, 2 * math.sqrt(len(X_public))))
            n_bins = int(np.clip((room / len(tables)) ** (1 / order) / 2, FEWEST_BINS, most))
            return Binned(schema, schema.bins(X_public, n_bins), tables)
        case CustomQueries():
            return Listed(queries, X_public)
    raise ValueError(
        f'method="auto" does not know {type(queries).__name__}; wrap its queries in CustomQueries.'
    )
