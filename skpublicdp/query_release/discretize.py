"""Discretizers, which map each row to integer codes for counting tables or query answers, and bins.

Bins have edges from users or cuts at public or released numbers, and names in tables.
"""

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
from skpublicdp.query_release.marginals.count import WeightColumn, marginal_tables
from skpublicdp.typing import Floats, Integers

if TYPE_CHECKING:
    from skpublicdp.query_release.queries.base import QueryClass


import itertools
from collections.abc import Mapping
from numbers import Integral

from skpublicdp._internal.reproducible import stable_floor
from skpublicdp.data.schema import Column

DEFAULT_BINS = 16
"""Default maximum number of bins of a numeric column."""

LABEL_PRECISION = 3
"""Number of decimals of edges in labels, which is increased until all edges differ, as in
`pandas.cut`."""

MAX_LABEL_PRECISION = 20
"""Upper limit on the precision of labels, as in `pandas.cut`."""


def parse_bins(bins: Any, schema: Schema) -> dict[int, int | Floats]:
    """Return, for each numeric column, the maximum number of bins or the encoded edges."""
    positions = np.flatnonzero(schema.numeric).tolist()
    if not isinstance(bins, Mapping):
        return dict.fromkeys(positions, _check_number(bins))
    parsed: dict[int, int | Floats] = dict.fromkeys(positions, DEFAULT_BINS)
    for name, value in bins.items():
        position = schema.position(name)
        column = schema.columns[position]
        if column.categorical:
            raise ValueError(
                f"bins has an entry for column {column.name}, which is categorical. Bins apply "
                "only to numeric columns."
            )
        if np.ndim(value) == 0:
            parsed[position] = _check_number(value)
            continue
        edges = encode_edges(value, column)
        if not (edges[1:] > column.low).all() or not (edges[:-1] < column.high).all():
            low, high = column.format(column.low), column.format(column.high)
            raise ValueError(
                f"The bins of column {column.name} must lie within its bounds, {low} to {high}, "
                "because numbers are clipped to the bounds. Pass bounds that contain all edges."
            )
        parsed[position] = edges
    return parsed


def max_bins(bins: int | Mapping[Any, Any], name: str) -> int:
    """Return the maximum number of bins of a numeric column, for the parameter `bins`."""
    chosen: Any = bins.get(name, DEFAULT_BINS) if isinstance(bins, Mapping) else bins
    # rows beyond the edges may need a bin on each side
    return _check_number(chosen) if np.ndim(chosen) == 0 else len(chosen) + 1


def _check_number(bins: Any) -> int:
    """Check that a number of bins is a positive integer, and return it as an int."""
    if not isinstance(bins, Integral) or bins < 1:
        raise ValueError(
            "The 'bins' parameter of MarginalQueries must be a positive integer, or a dict that "
            f"maps columns to positive integers or increasing edges. Got {bins!r} instead."
        )
    return int(bins)


def encode_edges(edges: Any, column: Column) -> Floats:
    """Check that bin edges are increasing, and return the encoded edges."""
    numbers = column.from_user(edges)
    if numbers.ndim != 1 or len(numbers) < 2 or not (numbers[1:] > numbers[:-1]).all():
        raise ValueError(
            f"The edges of column {column.name} must contain at least two increasing numbers."
        )
    return numbers


def cuts_from_edges(edges: Floats, column: Column) -> Floats:
    """Return the cuts between bins with given edges, shape (n_bins - 1,).

    A bin (a, b] contains its right edge, and the first bin contains both edges. If the bounds of
    the column extend beyond the edges, there is an additional bin below or above the edges.
    """
    below = [just_below(edges[0])] if column.low < edges[0] else []
    above = [edges[-1]] if column.high > edges[-1] else []
    return np.concatenate([below, edges[1:-1], above])


def bin_labels(edges: Floats, column: Column) -> list[str]:
    """Return labels of bins with given edges, like ``pandas.cut(..., include_lowest=True)``.

    Bins below and above all edges (see `cuts_from_edges`) have labels such as "< 0" and "> 50". For
    dates, the first label begins with a square bracket, "[2024-01-01, 2025-01-01]", instead of a
    slightly earlier date.
    """
    texts = column.format_all(edges)
    if column.has_offset:
        labels = [f"({low}, {high}]" for low, high in itertools.pairwise(texts)]
        labels[0] = f"[{labels[0][1:]}"
    else:
        labels = _pandas_labels(edges)
    has_below = column.low < edges[0]
    below = [f"< {texts[0]}"] if has_below else []
    above = [f"> {texts[-1]}"] if column.high > edges[-1] else []
    return [*below, *labels, *above]


def _pandas_labels(edges: Floats) -> list[str]:
    """Return the labels that ``pandas.cut(..., include_lowest=True)`` gives to bins.

    Edges are rounded. Since intervals are open on the left, the first edge is lowered by one unit
    of the last decimal.

    Examples
    --------
    >>> _pandas_labels(np.array([0.0, 10.0, 20.5]))
    ['(-0.001, 10.0]', '(10.0, 20.5]']
    """
    precision = LABEL_PRECISION
    while precision < MAX_LABEL_PRECISION:
        rounded = [_round(edge, precision) for edge in edges.tolist()]
        if len(set(rounded)) == len(rounded):
            break
        precision += 1
    else:
        precision = LABEL_PRECISION
        rounded = [_round(edge, precision) for edge in edges.tolist()]
    rounded[0] -= 10.0**-precision
    return [f"({low}, {high}]" for low, high in itertools.pairwise(rounded)]


def _round(number: float, precision: int) -> float:
    """Round a number to `precision` decimals, or to significant digits if it is below 1."""
    fraction, whole = np.modf(number)
    if not np.isfinite(number) or number == 0:
        return number
    digits = precision
    if whole == 0:
        digits = precision - 1 - stable_floor(np.log10(abs(fraction)))
    return float(np.round(number, digits))


def describe_cells(column: Column, cuts: Floats | None) -> list[Any]:
    """Return the name of each code in a column: a category, a number, or a bin's range as text.

    `cuts` contains the cuts between the bins of a numeric column, or None for a categorical column.
    A bin that contains a single public value is named after this value. If the bounds allow smaller
    or larger numbers in the first or the last bin, the name of this bin states it, for example
    "<= 0" or ">= 2". So do the names of bins that contain several whole numbers.
    """
    if column.categorical:
        return list(column.names)
    assert cuts is not None
    if not has_bin_per_value(column, cuts):
        return _describe_ranges(column, cuts)
    if column.integral and not column.is_datetime:
        return _describe_whole_numbers(column, cuts)
    values, texts = _values_within_bounds(column), column.format_all(cuts)
    # numbers between two public values are counted with the nearer value
    allows_smaller, allows_larger = column.low < values[0], column.high > values[-1]
    names: list[Any] = column.to_user(values).tolist()
    if column.is_datetime and (allows_smaller or allows_larger or column.nullable):
        names = [*column.format_all(values)]
    if allows_smaller:
        names[0] = f"<= {texts[0]}"
    if allows_larger:
        names[-1] = f"> {texts[-1]}"
    return names


def _describe_whole_numbers(column: Column, cuts: Floats) -> list[Any]:
    """Return the public values, or for bins with several whole numbers, their range as text."""
    names: list[Any] = column.restore(_values_within_bounds(column)).tolist()
    last_whole = np.floor(cuts)
    smallest = [column.low, *(last_whole + 1).tolist()]
    largest = [*last_whole.tolist(), column.high]
    for code, (low, high) in enumerate(zip(smallest, largest, strict=True)):
        if low == high:
            continue
        first = str(int(low) + column.offset)
        last = str(int(high) + column.offset)
        names[code] = f"{first} to {last}"
        if code == 0:
            names[code] = f"<= {last}"
        if code == len(cuts):
            names[code] = f">= {first}"
    return names


def has_bin_per_value(column: Column, cuts: Floats) -> bool:
    """Indicate whether each distinct public value of a numeric column has a bin of its own."""
    return 0 < len(cuts) == len(_values_within_bounds(column)) - 1


def _values_within_bounds(column: Column) -> Floats:
    """Return the distinct public values, where values beyond a bound count as the bound."""
    return np.unique(np.clip(column.values, column.low, column.high))


def _describe_ranges(column: Column, cuts: Floats) -> list[str]:
    """Return the range of each bin of a numeric column as text, such as "18 to 22.5".

    A bin contains the upper end of its range, and only the first bin contains the lower end.
    Without declared bounds, the first and the last bin have no outer end, since they also count all
    numbers beyond the public range.
    """
    if not column.is_bounded:
        texts = column.format_all(cuts)
        if not texts:
            return ["any"]
        inner = [f"{low} to {high}" for low, high in itertools.pairwise(texts)]
        return [f"<= {texts[0]}", *inner, f"> {texts[-1]}"]
    ends = [column.low, *cuts.tolist(), column.high]
    if column.low == column.high:
        return [column.format(column.low)]
    texts = column.format_all(ends)
    return [f"{low} to {high}" for low, high in itertools.pairwise(texts)]


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
        dtype = np.min_scalar_type(max(self.sizes))
        codes = np.empty(rows.shape, dtype, order="F")
        for position, cuts in enumerate(self.bins.cuts):
            column = rows[:, position]
            column_codes = codes[:, position]  # a view
            column_codes[:] = column if cuts is None else count_below(cuts, column)
            if self.bins.has_missing(position):
                missing_code = self.sizes[position] - 1
                is_missing = np.isnan(column)
                column_codes[is_missing] = missing_code
        units = None if weights is None else weights.units(rows)
        return marginal_tables(codes, workload, self.sizes, units)

    def rows(self, codes: Integers) -> Floats:
        """Return an encoded row for each row of codes, using public values within bins."""
        return self.bins.sample_public_values(codes, self._X_public, self._schema)


class ReleasedBins(PublicBins):
    """Bins between released quantiles of each numeric column.

    The number of bins can differ slightly from `n_bins` if single values are frequent.
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
            low = levels[bins]
            high = levels[bins + 1]
            # inverse transform sampling within the bin
            level = low + (high - low) * generator.random(len(bins))
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
    """Discretizer with one binary column per listed query; the column is 1 if the query holds."""

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
