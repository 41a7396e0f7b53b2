"""Discretizers: integer columns of each row, and the workload of tables for a query class."""

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

MIN_RELEASED_BINS, MAX_RELEASED_BINS = 4, 128
"""Minimum and maximum number of bins of a column that is cut at its released quantiles."""

MAX_BINNED_CELLS = 1 << 20
"""Maximum number of cells of all tables over these columns together."""


class Discretizer(ABC):
    """A map of encoded rows to integer codes, and a list of tables over them.

    Attributes
    ----------
    sizes : tuple of int
        Number of codes of each column.
    workload : list of tuple of int
        The tables, each a tuple of column positions.
    """

    sizes: tuple[int, ...]
    workload: list[tuple[int, ...]]

    @abstractmethod
    def codes(self, rows: Floats) -> Integers:
        """Return the codes of encoded rows. The codes of a row depend on this row alone."""

    def parallel_codes(self, rows: Floats, n_jobs: int | None) -> Integers:
        """Return `codes`, computed chunk by chunk in threads."""
        starts = range(0, len(rows), TABULATION_CHUNK_ROWS)
        if len(starts) < 2:
            return self.codes(rows)
        chunks = Parallel(n_jobs=n_jobs, require="sharedmem")(
            delayed(self.codes)(rows[start : start + TABULATION_CHUNK_ROWS]) for start in starts
        )
        return np.concatenate(list(chunks))


class PublicBins(Discretizer):
    """Bins of numeric columns, and the codes of categorical columns."""

    def __init__(
        self, schema: Schema, bins: Bins, workload: list[tuple[int, ...]], X_public: Floats
    ) -> None:
        self._schema, self._X_public = schema, X_public
        self.bins = bins
        self.sizes = bins.sizes
        self.workload = workload

    def codes(self, rows: Floats) -> Integers:
        """Return the bin of each row in each column."""
        return self.bins.codes(rows)

    def tables(self, rows: Floats, workload: list[tuple[int, ...]]) -> Integers:
        """Return the number of rows in each cell of each table. The counts add up over chunks."""
        codes = np.empty(rows.shape, np.min_scalar_type(max(self.sizes)), order="F")
        for position, cuts in enumerate(self.bins.cuts):
            column = rows[:, position]
            codes[:, position] = column if cuts is None else count_below(cuts, column)
        return marginal_tables(codes, workload, self.sizes)

    def rows(self, codes: Integers) -> Floats:
        """Return an encoded row for each row of codes, with public values of its bins."""
        return self.bins.sample_public_values(codes, self._X_public, self._schema)


class ReleasedBins(PublicBins):
    """Bins between released quantiles of each numeric column.

    Parameters
    ----------
    schema : Schema
        The columns.
    cdfs : dict of int to ReleasedCDF
        The released CDFs of the numeric columns, by position.
    n_bins : int
        Number of bins of a column. A column with heavy single values can have a few more or less.
    workload : list of tuple of int
        The tables, each a tuple of column positions.
    """

    def __init__(
        self,
        schema: Schema,
        cdfs: dict[int, ReleasedCDF],
        n_bins: int,
        workload: list[tuple[int, ...]],
    ) -> None:
        self.cdfs = cdfs
        self._cuts_of_column = {
            position: _quantile_cuts(cdf, n_bins) for position, cdf in cdfs.items()
        }
        cuts = tuple(self._cuts_of_column.get(position) for position in range(len(schema.columns)))
        sizes = tuple(
            column.n_categories if column_cuts is None else len(column_cuts) + 1
            for column, column_cuts in zip(schema.columns, cuts, strict=True)
        )
        super().__init__(schema, Bins(cuts, sizes), workload, np.empty((0, len(sizes))))

    def rows(self, codes: Integers) -> Floats:
        """Return an encoded row for each row of codes.

        A number is drawn from the released distribution of its column within its bin.
        """
        generator = np.random.default_rng(0)  # fixed, since only released numbers enter
        rows = codes.astype(np.float64)
        for position, cdf in self.cdfs.items():
            levels = np.concatenate([[0.0], cdf.cdf(self._cuts_of_column[position]), [1.0]])
            low, high = levels[codes[:, position]], levels[codes[:, position] + 1]
            rows[:, position] = cdf.quantile(low + (high - low) * generator.random(len(codes)))
        return rows

    def column_marginals(self) -> dict[tuple[int, ...], Floats]:
        """Return the released fraction of each bin of each numeric column."""
        return {
            (position,): np.diff(cdf.cdf(self._cuts_of_column[position]), prepend=0.0, append=1.0)
            for position, cdf in self.cdfs.items()
        }


def _quantile_cuts(cdf: ReleasedCDF, n_bins: int) -> Floats:
    """Return cuts at quantiles.

    A value that equals several quantiles is heavy. It is cut on both sides, and has its own bin.
    """
    levels = np.arange(1, n_bins) / n_bins
    quantiles, multiplicity = np.unique(cdf.quantile(levels), return_counts=True)
    cuts: Floats = np.union1d(quantiles, just_below(quantiles[multiplicity > 1]))
    return cuts


class QueryIndicators(Discretizer):
    """One binary column for each query of a list: 1 if the query holds."""

    def __init__(self, queries: CustomQueries, X_public: Floats) -> None:
        self._queries = queries
        self._all_queries = queries.all_queries(X_public)
        self.sizes = (2,) * len(self._all_queries)
        self.workload = [(column,) for column in range(len(self._all_queries))]

    def codes(self, rows: Floats) -> Integers:
        """Return 1 if a query holds for a row and 0 otherwise, shape (n_rows, n_queries)."""
        return self._queries.holds(self._all_queries, rows).T.astype(np.int64)

    def count(self, rows: Floats) -> Integers:
        """Return the number of rows for which each query holds. It adds up over chunks."""
        holds = self._queries.holds(self._all_queries, rows)
        counts: Integers = holds.sum(axis=1, dtype=np.int64)
        return counts


def releases_columns_first(queries: QueryClass) -> bool:
    """Indicate whether the CDF of each numeric column is released before any table.

    The released quantiles then cut the columns into bins.
    """
    return isinstance(queries, StumpQueries | RectangleQueries | HalfspaceQueries)


def column_workload(queries: QueryClass, n_features: int) -> list[tuple[int, ...]]:
    """Return all one-way tables for stumps, and all two-way tables for boxes and halfspaces.

    For halfspaces, two-way tables were more accurate than bins along directions.
    """
    order = 1 if isinstance(queries, StumpQueries) else min(2, n_features)
    return list(combinations(range(n_features), order))


def choose_discretizer(
    queries: QueryClass,
    schema: Schema,
    X_public: Floats,
    cdfs: dict[int, ReleasedCDF],
    snr: float,
) -> Discretizer:
    """Return the discretizer with the bins and tables that answer a class of queries.

    Between released quantiles there are as many bins as keep the signal-to-noise ratio of a cell
    at `MIN_CELL_SNR`, when all tables share the budget.

    Parameters
    ----------
    queries : QueryClass
        Bound to the schema.
    schema : Schema
        The columns.
    X_public : ndarray of float64
        Encoded public rows.
    cdfs : dict of int to ReleasedCDF
        The CDFs of the numeric columns, if `releases_columns_first`.
    snr : float
        Signal-to-noise ratio of the count of all private rows, see `signal_to_noise`.
    """
    n_features = len(schema.columns)
    match queries:
        case MarginalQueries():
            bins = cut_columns(schema, X_public, int(queries.bins))
            return PublicBins(schema, bins, queries.tables(schema), X_public)
        case StumpQueries() | RectangleQueries() | HalfspaceQueries():
            tables = column_workload(queries, n_features)
            order = len(tables[0])
            max_bins = min(MAX_RELEASED_BINS, (MAX_BINNED_CELLS / len(tables)) ** (1 / order))
            bins_at_snr = (snr / len(tables) / MIN_CELL_SNR) ** (1 / order)
            n_bins = int(np.clip(bins_at_snr, MIN_RELEASED_BINS, max_bins))
            return ReleasedBins(schema, cdfs, n_bins, tables)
    raise ValueError(
        f'method="auto" does not support {type(queries).__name__}; wrap its queries in '
        "CustomQueries."
    )
