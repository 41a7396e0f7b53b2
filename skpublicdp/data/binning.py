"""Bin numeric columns at edges that only public rows determine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.bucket_search import SortedEdges
from skpublicdp.data.schema import Schema
from skpublicdp.typing import Floats, Integers


def cut_points(values: Floats, n_bins: int, weights: Floats | None = None) -> Floats:
    """Return increasing cuts (a value is in the bin of cuts below it), from public values only."""
    distinct, inverse = np.unique(values, return_inverse=True)
    mass = np.bincount(inverse, np.ones(len(values)) if weights is None else weights)
    halfway = (distinct[:-1] + distinct[1:]) / 2  # no public value is on a cut
    if len(distinct) <= n_bins:
        return halfway
    ends = np.searchsorted(
        np.cumsum(mass), np.arange(1, n_bins) * (mass.sum() / n_bins), side="left"
    )
    cuts: Floats = halfway[np.unique(np.clip(ends, 0, len(halfway) - 1))]
    return cuts


MAX_FINE_EDGES = 65_000
"""Maximum number of edges of a fine grid, so that its codes fit in 16 bits."""

N_FINE_EDGES = 8192
"""Approximate number of edges of a fine grid when there are fewer distinct public values."""


def fine_edges(values: Floats, *, integral: bool, few: int) -> Floats:
    """Return the edges of a grid on which a column may be cut later, from public values only.

    Parameters
    ----------
    values : ndarray of float64
        Public values, none missing.
    integral : bool
        Whether they are whole numbers: further edges are then put half-way between such.
    few : int
        Columns of no more distinct values have no further edges.

    Returns
    -------
    ndarray of float64
        Increasing: all cuts that `cut_points` may choose, quantiles of these if they are too many,
        and places evenly between neighbouring values.
    """
    distinct = np.unique(values)
    with np.errstate(over="ignore", invalid="ignore"):
        edges = cut_points(values, MAX_FINE_EDGES)
        known = distinct[np.isfinite(distinct)]
        parts = min(64, N_FINE_EDGES // max(len(known), 1))
        if len(distinct) > few and parts > 1:
            inside = known[:-1, None] + np.diff(known)[:, None] * (np.arange(parts) + 0.5) / parts
            places = np.floor(inside) + 0.5 if integral else inside
            edges = np.union1d(edges, places[np.isfinite(places)])
    finite_edges: Floats = edges[~np.isnan(edges)]
    return finite_edges


def snapped(edges: Floats, places: Floats) -> Floats:
    """Return the edge nearest to each place; those that are no numbers stay what they are."""
    if not len(edges):
        return places
    above = np.searchsorted(edges, places).clip(1 - (len(edges) == 1), len(edges) - 1)
    below = np.maximum(above - 1, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        nearer = places - edges[below] <= edges[above] - places
    nearest: Floats = np.where(np.isnan(places), places, edges[np.where(nearer, below, above)])
    return nearest


def count_below(edges: Floats, values: Floats) -> NDArray[np.intp]:
    """Return how many of increasing edges are below each value; 0 for NaN."""
    return SortedEdges(edges).count_below(values).astype(np.intp)


@dataclass(frozen=True, eq=False)
class Bins:
    """Integer codes of encoded rows.

    Attributes
    ----------
    cuts : tuple of ndarray or None
        Cuts of each column, or None where the column is coded already.
    sizes : tuple of int
        Number of codes of each column.
    """

    cuts: tuple[Floats | None, ...]
    sizes: tuple[int, ...]

    def codes(self, rows: Floats) -> Integers:
        """Return the codes of encoded rows; each row on its own."""
        codes = np.empty(rows.shape, dtype=np.int64, order="F")
        for position, cut in enumerate(self.cuts):
            column = rows[:, position]
            codes[:, position] = (
                column.astype(np.int64) if cut is None else np.searchsorted(cut, column)
            )
        return codes

    def representatives(self, codes: Integers, X_public: Floats, schema: Schema) -> Floats:
        """Return an encoded row for each row of codes: public medians of bins, or their middles."""
        rows = np.empty(codes.shape)
        for position, cut in enumerate(self.cuts):
            if cut is None:
                rows[:, position] = codes[:, position]
                continue
            column = schema.columns[position]
            ends = np.concatenate([[max(column.low, -1e300)], cut, [min(column.high, 1e300)]])
            middles = (ends[:-1] + ends[1:]) / 2
            of_public = np.searchsorted(cut, X_public[:, position])
            for code in np.unique(of_public):
                inside = X_public[of_public == code, position]
                middles[code] = np.quantile(inside, 0.5, method="inverted_cdf")
            if column.integral:
                middles = np.ceil(middles)
            rows[:, position] = middles[codes[:, position]]
        return rows

    def scattered(self, codes: Integers, X_public: Floats, schema: Schema) -> Floats:
        """Return an encoded row for each row of codes: public values of its bins, mixed anew."""
        rows = self.representatives(codes, X_public, schema)
        generator = np.random.default_rng(0)  # part of the method, and of public rows only
        for position, cut in enumerate(self.cuts):
            if cut is None:
                continue
            values = np.sort(X_public[:, position])
            starts = np.searchsorted(np.searchsorted(cut, values), np.arange(len(cut) + 2))
            counts = np.diff(starts)[codes[:, position]]
            chosen = (generator.random(len(codes)) * counts).astype(np.intp)
            place = starts[codes[:, position]] + chosen
            rows[counts > 0, position] = values[place[counts > 0]]
        return rows


def cut_columns(schema: Schema, X_public: Floats, n_bins: int) -> Bins:
    """Cut numeric columns at public values; categories are bins of their own.

    Parameters
    ----------
    schema : Schema
        The columns.
    X_public : ndarray of float64
        Encoded public rows.
    n_bins : int
        A numeric column with at most so many public values has a bin around each, others have
        about so many quantiles.
    """
    cuts = [
        None if column.categorical else cut_points(X_public[:, position], n_bins)
        for position, column in enumerate(schema.columns)
    ]
    sizes = tuple(
        column.n_categories if cut is None else len(cut) + 1
        for column, cut in zip(schema.columns, cuts, strict=True)
    )
    return Bins(tuple(cuts), sizes)
