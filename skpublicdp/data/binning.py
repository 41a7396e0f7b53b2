"""Bins of numeric columns, with edges that depend on public rows alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.schema import Schema
from skpublicdp.typing import Codes, Floats, Integers

UnsignedCounts = NDArray[np.unsignedinteger[Any]]


def cut_points(values: Floats, n_bins: int, weights: Floats | None = None) -> Floats:
    """Return increasing cut points that divide public values into bins of roughly equal weight.

    Bin i contains the values with exactly i cut points below them. Cut points are midpoints of
    neighbouring distinct values.
    """
    distinct, inverse = np.unique(values, return_inverse=True)
    if weights is None:
        weights = np.ones(len(values))
    masses = np.bincount(inverse, weights)
    midpoints = midpoint(distinct[:-1], distinct[1:])  # no public value equals a cut point
    if len(distinct) <= n_bins:
        return midpoints
    # last distinct value of each bin except the last bin, at the quantiles i / n_bins
    mass_per_bin = masses.sum() / n_bins
    mass_up_to_cut = np.arange(1, n_bins) * mass_per_bin
    last_in_bin = np.searchsorted(np.cumsum(masses), mass_up_to_cut, side="left")
    # a value with a large weight can be the last value of several bins, which are then merged
    cuts = np.unique(np.clip(last_in_bin, 0, len(midpoints) - 1))
    return midpoints[cuts]


def midpoint(low: Floats, high: Floats) -> Floats:
    """Return the midpoints of two arrays, which are finite even if their sum overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        midpoints: Floats = (low + high) / 2
        # half of a number is exact if its double overflows
        return np.where(np.isinf(midpoints), low / 2 + high / 2, midpoints)


def column_medians(rows: Floats) -> Floats:
    """Return the median of each column, which is finite even if a sum of two values overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        medians: Floats = np.median(rows, axis=0)
        return np.where(np.isfinite(medians), medians, 2 * np.median(np.asarray(rows) / 2, axis=0))


MAX_FINE_EDGES = 65_000
"""Maximum number of edges in a fine grid, small enough for codes to fit in 16 bits."""

N_FINE_EDGES = 8192
"""Approximate number of edges in a fine grid if there are fewer distinct public values."""

MAX_EDGES_PER_GAP = 64
"""Maximum number of edges added to a fine grid between two neighbouring public values."""


def fine_edges(values: Floats, *, integral: bool, max_exact: int) -> Floats:
    """Return the edges of a fine grid, among which the cut points of bins are later chosen.

    The grid is determined by public values alone. The grid contains all possible results of
    `cut_points`, or quantiles of these cut points if there are more than `MAX_FINE_EDGES`. Evenly
    spaced edges are added in gaps between neighbouring public values, since private values may lie
    in these gaps.
    """
    distinct = np.unique(values)
    finite = distinct[np.isfinite(distinct)]
    n_per_gap = min(MAX_EDGES_PER_GAP, N_FINE_EDGES // max(len(finite), 1))
    with np.errstate(over="ignore", invalid="ignore"):
        edges = cut_points(values, MAX_FINE_EDGES)
        if len(distinct) > max_exact and n_per_gap > 1:
            gap_starts = finite[:-1, None]
            gap_widths = np.diff(finite)[:, None]
            steps = np.arange(n_per_gap) + 0.5
            added = gap_starts + gap_widths * steps / n_per_gap  # (n_gaps, n_per_gap)
            if integral:
                added = np.floor(added) + 0.5
            is_finite = np.isfinite(added)
            edges = np.union1d(edges, added[is_finite])
    return edges[~np.isnan(edges)]


def snap_to_edges(edges: Floats, points: Floats) -> Floats:
    """Return the edge nearest to each point, or the lower edge in a tie. NaN stays NaN."""
    if not len(edges):
        return points
    # each point lies between two neighbouring edges, which coincide if there is only one edge
    min_above = 0 if len(edges) == 1 else 1
    above = np.searchsorted(edges, points).clip(min_above, len(edges) - 1)
    below = np.maximum(above - 1, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        is_below_nearer = points - edges[below] <= edges[above] - points
    nearest = edges[np.where(is_below_nearer, below, above)]
    return np.where(np.isnan(points), points, nearest)


def count_below(edges: Floats, values: Floats) -> Codes:
    """Return the number of sorted edges below each value. For NaN, this number is 0."""
    return SortedEdges(edges).count_below(values).astype(np.intp)


LOOKUP_BLOCK = 1 << 15
"""Number of values per lookup, small enough for temporary arrays to fit in the CPU cache."""

MIN_LOOKUP_VALUES = 128
"""Minimum number of values for which a lookup table is built."""

MIN_BUCKETS, BUCKETS_PER_EDGE = 1 << 10, 4
"""Number of buckets without edges, and additional buckets per edge. With these numbers, most
buckets contain at most one edge."""

take_unchecked = partial(np.take, mode="clip")
"""`numpy.take` for indices known to be valid, since clipping takes half as long as checking."""


class SortedEdges:
    """Sorted edges, with a method that counts the edges below values.

    The range of the edges is divided into buckets of equal width, whose numbers of lower edges are
    looked up. Counting is 5 to 15 times faster than with `numpy.searchsorted`.

    Parameters
    ----------
    edges : ndarray of float64
        Sorted edges, which may be infinite but not NaN.
    missing : int
        Count to return for NaN.
    """

    def __init__(self, edges: Floats, missing: int = 0) -> None:
        self._edges, self._missing = edges, missing
        self._dtype = np.min_scalar_type(max(len(edges), missing))
        self._n_buckets = MIN_BUCKETS + BUCKETS_PER_EDGE * len(edges)
        finite = edges[np.isfinite(edges)]
        self._low, self._scale = 0.0, 0.0
        if len(finite):
            low, high = finite[0], finite[-1]
            with np.errstate(all="ignore"):
                scale = self._n_buckets / (high - low)
            # the scale stays 0 if the range is too narrow for buckets, and is 0 if it is too wide
            if np.isfinite(scale):
                self._low, self._scale = low, scale

    def __reduce__(self) -> tuple[Any, ...]:
        # lookup tables are large and can be rebuilt quickly
        return SortedEdges, (self._edges, self._missing)

    def count_below(self, values: NDArray[Any]) -> UnsignedCounts:
        """Return the number of edges below each value, as does left-sided `searchsorted`."""
        counts = np.empty(len(values), self._dtype)
        with np.errstate(all="ignore"):
            for start in range(0, len(values), LOOKUP_BLOCK):
                block = slice(start, start + LOOKUP_BLOCK)
                numbers = np.ascontiguousarray(values[block], dtype=np.float64)
                if self._scale and len(values) >= MIN_LOOKUP_VALUES:
                    counts[block] = self._look_up(numbers)
                else:
                    counts[block] = np.searchsorted(self._edges, numbers)
                counts[block][np.isnan(numbers)] = self._missing
        return counts

    def _look_up(self, values: Floats) -> UnsignedCounts:
        """Return the number of edges below each float, or an arbitrary number for NaN.

        All edges in lower buckets are below the value, and no edges in higher buckets are.
        """
        n_edges_before, n_steps, padded_edges = self._buckets
        counts: UnsignedCounts = take_unchecked(n_edges_before, self._bucket_of(values))
        # simultaneous binary search in all buckets, in steps of 2**(n_steps - 1), ..., 2, 1 edges
        for power in reversed(range(n_steps)):
            step = 1 << power
            # edges are sorted: if the last of the next `step` edges is below, so are the others
            last_edge = take_unchecked(padded_edges[step - 1 :], counts)
            counts += np.multiply(values > last_edge, step, dtype=counts.dtype)
        return counts

    @cached_property
    def _buckets(self) -> tuple[UnsignedCounts, int, Floats]:
        """Lookup table of `_look_up`: first edge of each bucket, number of halvings, and edges.

        A search in a bucket starts at its first edge and advances by less than 2**n_steps edges.
        """
        # one bucket below the range of edges, and one above it
        n_in_bucket = np.bincount(self._bucket_of(self._edges), minlength=self._n_buckets + 2)
        n_edges_before = np.cumsum(n_in_bucket) - n_in_bucket
        n_steps = int(n_in_bucket.max()).bit_length()
        # a search in the last bucket reads beyond the last edge: no value exceeds NaN
        padded_edges = np.append(self._edges, np.full(1 << n_steps, np.nan))
        return n_edges_before.astype(self._dtype), n_steps, padded_edges

    def _bucket_of(self, values: Floats) -> Codes:
        """Return the bucket of each value, which never decreases with the value, even rounded.

        Bucket 0 contains the values below the range, and the last bucket those above.
        """
        # computed in place, since creating temporary arrays would take longer than the arithmetic
        bucket = values - self._low
        bucket *= self._scale
        bucket += 1
        np.maximum(bucket, 0, out=bucket)
        np.minimum(bucket, self._n_buckets + 1, out=bucket)
        return bucket.astype(np.intp)


MAX_BIN_END = 1e300
"""Magnitude that replaces infinite bounds, so that the midpoints of bins do not overflow."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of all columns, which map encoded rows to integer codes."""

    # cut points of each numeric column, or None for a categorical column, in which each code is a
    # bin
    cuts: tuple[Floats | None, ...]
    # Number of bins of each column. In a nullable numeric column, the last bin is for missing
    # values.
    sizes: tuple[int, ...]

    def codes(self, rows: Floats) -> Integers:
        """Return the bin of each value in encoded rows, shape (n, n_columns).

        Each row is coded independently of other rows.
        """
        codes = np.empty(rows.shape, dtype=np.int64, order="F")
        for position, cuts in enumerate(self.cuts):
            column = rows[:, position]
            codes[:, position] = column if cuts is None else np.searchsorted(cuts, column)
            if self.has_missing(position):
                is_missing = np.isnan(column)
                codes[is_missing, position] = self.sizes[position] - 1
        return codes

    def has_missing(self, position: int) -> bool:
        """Indicate whether a column's last bin is for missing numbers."""
        cuts = self.cuts[position]
        return cuts is not None and self.sizes[position] > len(cuts) + 1

    def representatives(self, codes: Integers, X_public: Floats, schema: Schema) -> Floats:
        """Decode bins to encoded rows, using a representative value for each bin.

        A numeric bin is represented by the median of its public values, or by its midpoint if it
        has no public values. Missing numbers are represented by NaN.

        Parameters
        ----------
        codes : ndarray of int64, shape (n, n_columns)
            Bins of the rows.
        X_public : ndarray of float64, shape (m, n_columns)
            Encoded public rows.
        """
        rows = np.empty(codes.shape)
        for position, cuts in enumerate(self.cuts):
            if cuts is None:
                rows[:, position] = codes[:, position]
                continue
            column = schema.columns[position]
            low = max(column.low, -MAX_BIN_END)
            high = min(column.high, MAX_BIN_END)
            ends = np.concatenate([[low], cuts, [high]])
            centres = midpoint(ends[:-1], ends[1:])
            public_values = X_public[:, position]
            public_values = public_values[~np.isnan(public_values)]
            public_codes = np.searchsorted(cuts, public_values)
            for code in np.unique(public_codes):
                values_in_bin = public_values[public_codes == code]
                centres[code] = np.quantile(values_in_bin, 0.5, method="inverted_cdf")
            if column.integral:  # a whole number in the bin, if one exists
                centres = np.minimum(np.ceil(centres), np.floor(ends[1:]))
            if self.has_missing(position):
                centres = np.append(centres, np.nan)
            rows[:, position] = centres[codes[:, position]]
        return rows

    def sample_public_values(self, codes: Integers, X_public: Floats, schema: Schema) -> Floats:
        """Decode bins to encoded rows, using a random public value from each bin.

        Columns are drawn independently. A bin without public values is replaced by its midpoint.
        """
        rows = self.representatives(codes, X_public, schema)
        generator = np.random.default_rng(0)  # fixed: rows depend on codes and public rows only
        for position, cuts in enumerate(self.cuts):
            if cuts is None:
                continue
            bin_of_row, n_bins = codes[:, position], self.sizes[position]
            values = np.sort(X_public[:, position])
            values = values[~np.isnan(values)]
            # the values of bin i are values[starts[i] : starts[i + 1]]
            starts = np.searchsorted(np.searchsorted(cuts, values), np.arange(n_bins + 1))
            n_values = np.diff(starts)[bin_of_row]  # public values in the bin of each row
            drawn = (generator.random(len(codes)) * n_values).astype(np.intp)
            index = starts[bin_of_row] + drawn
            has_values = n_values > 0
            rows[has_values, position] = values[index[has_values]]
        return rows


def bins_from_cuts(schema: Schema, cuts: Mapping[int, Floats]) -> Bins:
    """Return the bins of all columns, which are intervals between cuts or categories.

    A nullable numeric column has an additional bin for missing numbers.
    """
    cuts_of_columns = tuple(map(cuts.get, range(len(schema.columns))))
    sizes = []
    for column, column_cuts in zip(schema.columns, cuts_of_columns, strict=True):
        if column_cuts is None:
            sizes.append(column.n_categories)
        else:
            sizes.append(len(column_cuts) + 1 + column.nullable)
    return Bins(cuts_of_columns, tuple(sizes))
