"""Queries of any class by tables over integer columns that public rows define."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import combinations

import numpy as np
from joblib import Parallel, delayed

from skpublicdp.data.binning import Bins, count_below, cut_columns
from skpublicdp.data.schema import Schema
from skpublicdp.hypotheses.base import TABULATION_CHUNK_ROWS
from skpublicdp.query_release.cdf.grid import just_below
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.marginals.count import marginal_tables
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.query_release.queries.custom import CustomQueries
from skpublicdp.query_release.queries.geometric import (
    HalfspaceQueries,
    RectangleQueries,
    StumpQueries,
)
from skpublicdp.query_release.queries.marginal import MarginalQueries
from skpublicdp.query_release.spending import MIN_CELL_SNR
from skpublicdp.typing import Floats, Integers

MIN_RELEASED_BINS, MAX_RELEASED_BINS, MAX_BINNED_CELLS = 4, 128, 1 << 20
"""Of a column that is cut at released quantiles, and of all tables over such columns together."""


class Discretizer(ABC):
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
    def codes(self, rows: Floats) -> Integers:
        """Return the codes of encoded rows."""

    def codes_of_all(self, rows: Floats, n_jobs: int | None) -> Integers:
        """Code rows in chunks and by threads, neither of which changes a code."""
        starts = range(0, len(rows), TABULATION_CHUNK_ROWS)
        if len(starts) < 2:
            return self.codes(rows)
        parts = Parallel(n_jobs=n_jobs, require="sharedmem")(
            delayed(self.codes)(rows[start : start + TABULATION_CHUNK_ROWS]) for start in starts
        )
        return np.concatenate(list(parts))


class PublicBins(Discretizer):
    """The columns of a schema in bins, and where rows are in them."""

    def __init__(
        self, schema: Schema, bins: Bins, workload: list[tuple[int, ...]], X_public: Floats
    ) -> None:
        self._schema, self._X_public = schema, X_public
        self.bins = bins
        self.sizes = bins.sizes
        self.workload = workload

    def codes(self, rows: Floats) -> Integers:
        """Return the bins of each row."""
        return self.bins.codes(rows)

    def tables(self, rows: Floats, workload: list[tuple[int, ...]]) -> Integers:
        """Count the rows in each cell of each table; additive over rows."""
        codes = np.empty(rows.shape, np.min_scalar_type(max(self.sizes)), order="F")
        for position, cut in enumerate(self.bins.cuts):
            column = rows[:, position]
            codes[:, position] = column if cut is None else count_below(cut, column)
        return marginal_tables(codes, workload, self.sizes)

    def rows(self, codes: Integers) -> Floats:
        """Return an encoded row for each row of codes: a mixture of the public values in them."""
        return self.bins.sample_public_values(codes, self._X_public, self._schema)


class ReleasedBins(PublicBins):
    """Bins that were cut at released quantiles of each column.

    Parameters
    ----------
    schema : Schema
        The columns.
    lines : dict of int to ReleasedCDF
        Those of the numeric columns.
    n_bins : int
        How many bins a column has, about.
    workload : list of tuple of int
        The tables.
    """

    def __init__(
        self,
        schema: Schema,
        lines: dict[int, ReleasedCDF],
        n_bins: int,
        workload: list[tuple[int, ...]],
    ) -> None:
        self.lines = lines
        self._cuts = {position: _cuts(line, n_bins) for position, line in lines.items()}
        cuts = [self._cuts.get(position) for position in range(len(schema.columns))]
        sizes = tuple(
            column.n_categories if cut is None else len(cut) + 1
            for column, cut in zip(schema.columns, cuts, strict=True)
        )
        super().__init__(schema, Bins(tuple(cuts), sizes), workload, np.empty((0, len(sizes))))

    def rows(self, codes: Integers) -> Floats:
        """Return an encoded row for each row of codes, spread in the bins as the lines are."""
        generator = np.random.default_rng(0)  # part of the method, and of released numbers only
        rows = codes.astype(np.float64)
        for position, line in self.lines.items():
            levels = np.concatenate([[0.0], line.cdf(self._cuts[position]), [1.0]])
            low, high = levels[codes[:, position]], levels[codes[:, position] + 1]
            rows[:, position] = line.quantile(low + (high - low) * generator.random(len(codes)))
        return rows

    def one_ways(self) -> dict[tuple[int, ...], Floats]:
        """Return the table of each numeric column by itself."""
        return {
            (position,): np.diff(line.cdf(self._cuts[position]), prepend=0.0, append=1.0)
            for position, line in self.lines.items()
        }


def _cuts(line: ReleasedCDF, n_bins: int) -> Floats:
    """Cut at quantiles, and on both sides of values that are several of them."""
    levels = np.arange(1, n_bins) / n_bins
    at, times = np.unique(line.quantile(levels), return_counts=True)
    cuts: Floats = np.union1d(at, just_below(at[times > 1]))
    return cuts


class QueryIndicators(Discretizer):
    """One column per query of a list: whether it holds."""

    def __init__(self, queries: CustomQueries, X_public: Floats) -> None:
        self._queries = queries
        self._all = queries.everything(X_public)
        self.sizes = (2,) * len(self._all)
        self.workload = [(column,) for column in range(len(self._all))]

    def codes(self, rows: Floats) -> Integers:
        """Return 1 where a query holds."""
        return self._queries.holds(self._all, rows).T.astype(np.int64)

    def count(self, rows: Floats) -> Integers:
        """Count the rows for which each query holds; additive over rows."""
        counts: Integers = self._queries.holds(self._all, rows).sum(axis=1, dtype=np.int64)
        return counts


def releases_columns_first(queries: QueryClass) -> bool:
    """Tell whether columns are released one by one first."""
    return isinstance(queries, StumpQueries | RectangleQueries | HalfspaceQueries)


def column_workload(queries: QueryClass, n_features: int) -> list[tuple[int, ...]]:
    """List the tables for stumps, and pairs for rectangles and halfspaces.

    Tables of pairs beat bins along directions for halfspaces, too.
    """
    order = 1 if isinstance(queries, StumpQueries) else min(2, n_features)
    return list(combinations(range(n_features), order))


def choose_discretizer(
    queries: QueryClass,
    schema: Schema,
    X_public: Floats,
    lines: dict[int, ReleasedCDF],
    room: float,
) -> Discretizer:
    """Choose the columns and tables for a class of queries.

    Parameters
    ----------
    queries : QueryClass
        Bound to the schema.
    schema : Schema
        The columns.
    X_public : ndarray of float64
        Encoded public rows.
    lines : dict of int to ReleasedCDF
        The numeric columns, if `releases_columns_first`.
    room : float
        n √(2ρ): how many equal parts of the private rows stand out of the noise of one count.
    """
    n_features = len(schema.columns)
    match queries:
        case MarginalQueries():
            bins = cut_columns(schema, X_public, int(queries.bins))
            return PublicBins(schema, bins, queries.tables(schema), X_public)
        case StumpQueries() | RectangleQueries() | HalfspaceQueries():
            tables = column_workload(queries, n_features)
            order = len(tables[0])
            most = min(MAX_RELEASED_BINS, (MAX_BINNED_CELLS / len(tables)) ** (1 / order))
            n_bins = int(
                np.clip((room / len(tables) / MIN_CELL_SNR) ** (1 / order), MIN_RELEASED_BINS, most)
            )
            return ReleasedBins(schema, lines, n_bins, tables)
    raise ValueError(
        f'method="auto" does not know {type(queries).__name__}; wrap its queries in CustomQueries.'
    )
