"""Count the sorted edges below values by bucket lookup, which is faster than `searchsorted`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.typing import Codes, Floats, Mask

UnsignedCounts = NDArray[np.unsignedinteger[Any]]

LOOKUP_BLOCK = 1 << 15
"""Number of values per lookup batch, small enough for temporary arrays to fit in the CPU cache."""

ENTRIES_PER_VALUE = 8
"""Maximum number of lookup table entries per searched value. With fewer values,
`numpy.searchsorted` is faster than building the table.
"""

BUCKETS_PER_EDGE = 4
"""Approximate number of buckets per edge. With this number, most buckets contain at most one
edge."""

MIN_BUCKETS, MAX_BUCKETS = 1 << 10, 1 << 16
"""Minimum and maximum number of buckets."""

OUTSIDE_SHARE = 1 / 500
"""Fraction of the edges on either side that lie outside the range divided into buckets. Without
this margin, a single distant edge would widen all buckets.
"""

MAX_CROWDED_SHARE = 1 / 50
"""Maximum fraction of edges in crowded buckets. Values in such buckets are located by
`searchsorted`."""

take_unchecked = partial(np.take, mode="clip")
"""`numpy.take` for indices known to be valid, since clipping takes half as long as checking."""


class SortedEdges:
    """Sorted edges, with methods that count the edges below values using on-demand lookup tables.

    Counting is 1.6 to 7 times faster than with `numpy.searchsorted`.

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
        self._tables: dict[Any, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # lookup tables are large and can be rebuilt quickly
        return SortedEdges, (self._edges, self._missing)

    def count_below(self, values: NDArray[Any]) -> UnsignedCounts:
        """Return the number of edges below each value, as does left-sided `searchsorted`."""
        with np.errstate(all="ignore"):
            if values.dtype.kind in "iu" and values.dtype.itemsize <= 2:
                return self._count_narrow_integers(values)
            counts = np.empty(len(values), self._dtype)
            for start in range(0, len(values), LOOKUP_BLOCK):
                block = slice(start, start + LOOKUP_BLOCK)
                counts[block] = self._count_floats(np.ascontiguousarray(values[block]))
            return counts

    def _count_narrow_integers(self, values: NDArray[Any]) -> UnsignedCounts:
        """Return the number of edges below each 8-bit or 16-bit integer, using a lookup table."""
        table = self._tables.get(values.dtype)
        if table is None:
            n_entries = 1 << 8 * values.dtype.itemsize  # one count for each integer of the type
            if ENTRIES_PER_VALUE * len(values) < n_entries:
                return np.searchsorted(self._edges, values).astype(self._dtype)
            limits = np.iinfo(values.dtype)
            # the table is ordered by index, where negative indices count from its end
            integers = np.r_[0 : limits.max + 1, limits.min : 0]
            table = np.searchsorted(self._edges, integers).astype(self._dtype)
            self._tables[values.dtype] = table
        return np.take(table, values)

    def _count_floats(self, values: NDArray[Any]) -> UnsignedCounts:
        """Return the number of edges below each number.

        Values of type float32 are searched without conversion, and all other numbers are searched
        as float64.
        """
        if values.dtype != np.float32:
            values = values.astype(np.float64, copy=False)
        is_long = ENTRIES_PER_VALUE * len(values) >= MIN_BUCKETS
        if values.dtype not in self._tables and is_long:
            self._tables[values.dtype] = Buckets.build(self._edges, values.dtype, self._dtype)
        buckets = self._tables.get(values.dtype)
        if buckets is None:
            counts = np.searchsorted(self._edges, values).astype(self._dtype)
        else:
            counts = buckets.count_below(values)
        is_missing = np.isnan(values)
        if is_missing.any():
            counts[is_missing] = self._missing
        return counts


@dataclass(frozen=True, eq=False)
class Buckets:
    """Buckets of equal width, used to count the edges below a value quickly.

    The bucket is a non-decreasing function of the value, even in floating-point arithmetic.
    Therefore, all edges in lower buckets are below the value, and no edges in higher buckets are. A
    binary search compares the value only with the edges in its own bucket.
    """

    # sorted edges, padded with 2**n_steps NaN entries, which no value exceeds
    edges: NDArray[np.floating[Any]]
    low: np.floating[Any]  # lower end of the first inner bucket
    scale: np.floating[Any]  # reciprocal of the bucket width
    # (n_buckets + 2,): number of edges in lower buckets. The two outermost buckets are unbounded.
    n_edges_before: UnsignedCounts
    # (n_buckets + 2,): mask of the buckets with 2**n_steps or more edges, which are too many for
    # the binary search. For values in these buckets, all edges are searched.
    is_crowded: Mask
    # number of steps of the binary search within a bucket, which can distinguish 2**n_steps
    # positions
    n_steps: int

    @classmethod
    def build(
        cls, edges: Floats, dtype: np.dtype[Any], count_dtype: np.dtype[Any]
    ) -> Buckets | None:
        """Return the buckets for values of a given data type.

        The result is None if there are too few finite edges, or if their range is so narrow or so
        wide that the scale is not a finite positive number.

        Parameters
        ----------
        edges : ndarray of float64
            Sorted edges.
        dtype : dtype
            Type of the values (float32 or float64).
        count_dtype : dtype
            Unsigned integer type of the counts.
        """
        power_of_two = 1 << (BUCKETS_PER_EDGE * len(edges)).bit_length()
        n_buckets = max(MIN_BUCKETS, min(power_of_two, MAX_BUCKETS))
        if dtype == np.float32:
            # rounded down, since a float32 exceeds an edge if and only if it exceeds the rounded
            # edge
            rounded = edges.astype(dtype)
            edges = np.where(rounded > edges, np.nextafter(rounded, dtype.type(-np.inf)), rounded)
        finite = edges[np.isfinite(edges)]
        n_outside = int(OUTSIDE_SHARE * len(finite))
        inner = finite[n_outside : len(finite) - n_outside]
        if len(inner) < 2:
            return None
        low, high = inner[0], inner[-1]
        scale = dtype.type(n_buckets / (np.float64(high) - np.float64(low)))
        if not np.isfinite(scale) or not scale:
            return None
        bucket_of_edge = _bucket_index(edges, low, scale, n_buckets)
        n_in_bucket = np.bincount(bucket_of_edge, minlength=n_buckets + 2)
        n_steps = 1
        while n_in_bucket[n_in_bucket >= 1 << n_steps].sum() > MAX_CROWDED_SHARE * len(edges):
            n_steps += 1
        padded = np.concatenate([edges, np.full(1 << n_steps, np.nan, dtype)])
        n_edges_before = (np.cumsum(n_in_bucket) - n_in_bucket).astype(count_dtype)
        is_crowded = n_in_bucket >= 1 << n_steps
        return cls(padded, low, scale, n_edges_before, is_crowded, n_steps)

    def count_below(self, values: NDArray[np.floating[Any]]) -> UnsignedCounts:
        """Return the number of edges below each value, or an arbitrary number for NaN."""
        n_buckets = len(self.n_edges_before) - 2
        bucket = _bucket_index(values, self.low, self.scale, n_buckets)
        counts: UnsignedCounts = take_unchecked(self.n_edges_before, bucket)
        # simultaneous binary search in all buckets, in steps of 2**(n_steps - 1), ..., 2, 1 edges
        for power in reversed(range(self.n_steps)):
            step = 1 << power
            # edges are sorted: if the last of the next `step` edges is below, so are the others
            last_edge = take_unchecked(self.edges[step - 1 :], counts)
            is_above = (values > last_edge).view(np.uint8)
            counts += is_above if step == 1 else np.multiply(is_above, step, dtype=counts.dtype)
        is_in_crowded_bucket = take_unchecked(self.is_crowded, bucket)
        crowded = np.flatnonzero(is_in_crowded_bucket)
        if len(crowded):
            n_edges = len(self.edges) - (1 << self.n_steps)
            counts[crowded] = np.searchsorted(self.edges[:n_edges], values[crowded])
        return counts


def _bucket_index(
    values: NDArray[np.floating[Any]],
    low: np.floating[Any],
    scale: np.floating[Any],
    n_buckets: int,
) -> Codes:
    """Return the bucket of each value among `n_buckets` inner and two unbounded outer buckets.

    Bucket 0 contains the values below `low`, and bucket `n_buckets` + 1 contains the values above
    the range.
    """
    # computed in place, since creating temporary arrays would take longer than the arithmetic
    bucket = values - low
    bucket *= scale
    bucket += 1
    np.maximum(bucket, 0, out=bucket)
    np.minimum(bucket, n_buckets + 1, out=bucket)
    return bucket.astype(np.intp)
