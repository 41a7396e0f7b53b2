"""Discretizers, which map each row to integer codes for counting tables or query answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from skpublicdp.data.binning import Bins, bins_from_cuts, count_below
from skpublicdp.data.schema import Schema
from skpublicdp.hypotheses.base import TABULATION_CHUNK_ROWS
from skpublicdp.query_release.cdf.grid import MIN_CELL_SNR, just_below
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.marginals.count import marginal_tables
from skpublicdp.query_release.marginals.weights import WeightColumn
from skpublicdp.typing import Floats, Integers

if TYPE_CHECKING:
    from skpublicdp.query_release.queries.base import QueryClass

MIN_RELEASED_BINS, MAX_RELEASED_BINS = 4, 128
"""Minimum and maximum number of bins of a column that is cut at its released quantiles."""

MAX_BINNED_CELLS = 1 << 20
"""Maximum total number of cells in all tables over these columns."""


class Discretizer(ABC):
    """Map from encoded rows to integer codes, and the tables to release over these codes."""

    # Number of codes of each column. The codes are integers from 0 to size - 1.
    sizes: tuple[int, ...]
    workload: list[tuple[int, ...]]  # the tables, each a tuple of column positions
    # The released CDFs of numeric columns, by column position. This dict is empty if only tables
    # are released.
    cdfs: dict[int, ReleasedCDF]

    @abstractmethod
    def codes(self, rows: Floats) -> Integers:
        """Return the codes of encoded rows, shape (n_rows, n_columns).

        The codes of each row depend on this row alone.
        """

    def parallel_codes(self, rows: Floats, n_jobs: int | None) -> Integers:
        """Return the codes of encoded rows, computed in `n_jobs` threads over chunks of rows."""
        starts = range(0, len(rows), TABULATION_CHUNK_ROWS)
        if len(starts) < 2:  # no rows, or a single chunk
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
        self.cdfs = {}
        self.bins = bins
        self.sizes = bins.sizes
        self.workload = workload

    def codes(self, rows: Floats) -> Integers:
        """Return the bin of each numeric value and the code of each category."""
        return self.bins.codes(rows)

    def tables(
        self,
        rows: Floats,
        workload: list[tuple[int, ...]],
        weights: WeightColumn | None = None,
    ) -> Integers:
        """Return the number of rows in each cell of each table, concatenated over tables.

        With `weights`, the integer weights of the rows are summed instead. Tables from several
        chunks of rows can be added.
        """
        codes = np.empty(rows.shape, np.min_scalar_type(max(self.sizes)), order="F")
        for position, cuts in enumerate(self.bins.cuts):
            column = rows[:, position]
            codes[:, position] = column if cuts is None else count_below(cuts, column)
            if self.bins.has_missing(position):
                is_missing = np.isnan(column)
                codes[is_missing, position] = self.sizes[position] - 1
        units = None if weights is None else weights.units(rows)
        return marginal_tables(codes, workload, self.sizes, units)

    def rows(self, codes: Integers) -> Floats:
        """Return an encoded row for each row of codes, using public values within bins."""
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
        Number of bins of a column. The number can differ slightly for columns in which single
        values are frequent.
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
        self._cuts_of_column = {
            position: _quantile_cuts(cdf, n_bins) for position, cdf in cdfs.items()
        }
        bins = bins_from_cuts(schema, self._cuts_of_column)
        super().__init__(schema, bins, workload, np.empty((0, len(bins.sizes))))
        self.cdfs = cdfs

    def rows(self, codes: Integers) -> Floats:
        """Return an encoded row for each row of codes.

        Each number is drawn from the column's released distribution within the given bin.
        """
        generator = np.random.default_rng(0)  # fixed, since only released numbers enter
        rows = codes.astype(np.float64)
        for position, cdf in self.cdfs.items():
            heights = cdf.cdf(self._cuts_of_column[position])
            levels = np.concatenate([[0.0], heights, [1.0]])  # at the ends of the bins
            bins = codes[:, position]
            low, high = levels[bins], levels[bins + 1]
            # inverse transform sampling within the bin
            level = low + (high - low) * generator.random(len(codes))
            rows[:, position] = cdf.quantile(level)
        return rows

    def column_marginals(self) -> dict[tuple[int, ...], Floats]:
        """Return the one-way table of each numeric column, computed from the released CDF."""
        return {
            (position,): np.diff(cdf.cdf(self._cuts_of_column[position]), prepend=0.0, append=1.0)
            for position, cdf in self.cdfs.items()
        }


def _quantile_cuts(cdf: ReleasedCDF, n_bins: int) -> Floats:
    """Return cuts that form about `n_bins` bins of equal released mass.

    A value that equals several quantiles has at least as much mass as an average bin. It becomes a
    separate bin, with a cut on each side.
    """
    levels = np.arange(1, n_bins) / n_bins
    quantiles, multiplicity = np.unique(cdf.quantile(levels), return_counts=True)
    heavy_values = quantiles[multiplicity > 1]
    return np.union1d(quantiles, just_below(heavy_values))


def bins_at_noise_level(
    schema: Schema, cdfs: dict[int, ReleasedCDF], tables: list[tuple[int, ...]], snr: float
) -> ReleasedBins:
    """Return bins between released quantiles that are as fine as the noise in the tables allows.

    If all tables share the budget equally, an average cell has the signal-to-noise ratio
    `MIN_CELL_SNR`. `snr` is the signal-to-noise ratio of a count of all private persons. All tables
    must have the same number of columns.
    """
    order = len(tables[0])  # a table has n_bins ** order cells
    max_bins = min(MAX_RELEASED_BINS, (MAX_BINNED_CELLS / len(tables)) ** (1 / order))
    bins_at_snr = (snr / len(tables) / MIN_CELL_SNR) ** (1 / order)
    n_bins = int(np.clip(bins_at_snr, MIN_RELEASED_BINS, max_bins))
    return ReleasedBins(schema, cdfs, n_bins, tables)


class QueryIndicators(Discretizer):
    """Discretizer with one binary column per listed query; the column is 1 if the query holds.

    Parameters
    ----------
    queries : QueryClass
        The class of the queries.
    listed_queries : ndarray of shape (n_queries, ...)
        The queries, encoded.
    """

    def __init__(self, queries: QueryClass, listed_queries: NDArray[Any]) -> None:
        self._queries, self._listed_queries, self.cdfs = queries, listed_queries, {}
        self.sizes = (2,) * len(listed_queries)
        self.workload = [(column,) for column in range(len(listed_queries))]

    def codes(self, rows: Floats) -> Integers:
        """Return 1 if a query holds for a row and 0 otherwise, shape (n_rows, n_queries)."""
        return self._queries.holds(self._listed_queries, rows).T.astype(np.int64)

    def count(self, rows: Floats) -> Integers:
        """Return the number of rows for which each query holds, shape (n_queries,).

        Counts from several chunks of rows can be added.
        """
        holds = self._queries.holds(self._listed_queries, rows)
        return holds.sum(axis=1, dtype=np.int64)
