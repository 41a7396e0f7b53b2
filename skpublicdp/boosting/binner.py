"""The public feature map: each column cut into cells, at places that only public rows choose."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.budget_split import N_BINS
from skpublicdp.data.binning import cut_points, fine_edges
from skpublicdp.data.columns import MISSING, OTHER, Column, Schema
from skpublicdp.data.edges import Edges
from skpublicdp.data.frames import Table

Codes = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


MAX_CATEGORIES = 64
"""Of a column of more categories, so many with the most public rows have cells of their own."""


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """One column, cut into cells.

    Attributes
    ----------
    column : Column
        Where it is from.
    cuts : ndarray of float64
        Of a numeric column: a value's cell is the number of cuts below it. Empty otherwise.
    size : int
        Number of cells. The last one is for missing values; of a categorical column, the one
        before it is for categories that no public row has, and for those that few have.
    own : ndarray of int16
        Of a categorical column: the cell of each code of `column`. Empty otherwise.
    """

    column: Column
    cuts: Floats
    size: int
    own: Codes

    def codes(self, values: NDArray[Any]) -> Codes:
        """Return the cell of each value; each on its own."""
        return self.encoded_codes(self.column.plain(values))

    def encoded_codes(self, encoded: NDArray[Any]) -> Codes:
        """Return the cell of each encoded value; each on its own."""
        if self.column.categorical:
            return np.take(self.own, encoded.astype(np.intp)).astype(self.dtype)
        return self._edges.below(encoded).astype(self.dtype, copy=False)

    @cached_property
    def _edges(self) -> Edges:
        return Edges(self.cuts, self.size - 1)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_edges"}

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest type that holds its cells."""
        return np.min_scalar_type(self.size - 1)

    def coarse_bins(self, finer: ColumnBins) -> Codes:
        """Return the cell that has each of the finer cells, whose cuts include all of these."""
        if self.column.categorical:
            return np.arange(self.size).astype(self.dtype)
        # a finer cell is in the one that has its upper end
        ends = np.searchsorted(self.cuts, np.append(finer.cuts, np.inf))
        ends[-1] = len(self.cuts)
        return np.append(ends, self.size - 1).astype(self.dtype)

    @property
    def labels(self) -> list[str]:
        """The cells in words."""
        if self.column.categorical:
            names = [*map(str, self.column.values.tolist())]
            kept = np.flatnonzero(self.own[: len(names)] < self.size - 2)
            return [*(names[code] for code in kept), OTHER, MISSING]
        ends = [self.column.text(cut) for cut in self.cuts]
        if not ends:
            return ["any", MISSING]
        inner = [f"{low} to {high}" for low, high in pairwise(ends)]
        return [f"<= {ends[0]}", *inner, f"> {ends[-1]}", MISSING]


@dataclass(frozen=True, eq=False)
class Binner:
    """Cells of all columns.

    Attributes
    ----------
    columns : tuple of ColumnBins
        One per column.
    """

    columns: tuple[ColumnBins, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(feature.column.name for feature in self.columns)

    @property
    def sizes(self) -> list[int]:
        """Number of cells of each column."""
        return [feature.size for feature in self.columns]

    @property
    def offsets(self) -> NDArray[np.intp]:
        """Where the cells of each column begin among all cells, and their number at the end."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.intp)

    def codes(self, X: Table) -> Codes:
        """Return the cells of rows.

        Parameters
        ----------
        X : Table, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of int, shape (n_features, n)
            One line per column.
        """
        codes = np.empty((len(self.columns), X.shape[0]), dtype=self.dtype)
        for position, feature in enumerate(self.columns):
            codes[position] = X.codes(position, feature.codes)
        return codes

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest type that holds the cells of any column."""
        return np.min_scalar_type(max(self.sizes) - 1)

    def encoded_codes(self, rows: Floats) -> Codes:
        """Return the cells of encoded rows, shape (n_features, n)."""
        lines = zip(self.columns, rows.T, strict=True)
        return np.array([feature.encoded_codes(line) for feature, line in lines])

    def indicators(self, codes: Codes) -> Floats:
        """Return one 0/1 column per cell, shape (n, n_cells)."""
        design = np.zeros((codes.shape[1], int(self.offsets[-1])))
        rows = np.arange(codes.shape[1])
        for line, start in zip(codes, self.offsets, strict=False):
            design[rows, start + line] = 1
        return design


MAX_FINE_BINS = 32
"""Most quantile cells of a column of numbers where there is growth."""


def refine_bins(features: Binner, X_public: Floats, weights: Floats) -> Binner:
    """Cut numeric columns further.

    Parameters
    ----------
    features : Binner
        The cells so far.
    X_public : ndarray of float64, shape (m, n_features)
        Encoded public rows; missing numbers are NaN.
    weights : ndarray of float64, shape (m,)
        Weights of the public rows.

    Returns
    -------
    Binner
        Cells within these, at quantiles, and where one value has most rows at quantiles of the
        distinct values, too.
    """
    finer = []
    for feature, values in zip(features.columns, X_public.T, strict=True):
        known = ~np.isnan(values)
        if feature.column.categorical or not known.any():
            finer.append(feature)
            continue
        cuts = np.union1d(feature.cuts, cut_points(values[known], MAX_FINE_BINS, weights[known]))
        if len(cuts) < 0.7 * MAX_FINE_BINS:
            cuts = np.union1d(cuts, cut_points(np.unique(values[known]), MAX_FINE_BINS // 2))
        finer.append(ColumnBins(feature.column, cuts, len(cuts) + 2, feature.own))
    return Binner(tuple(finer))


def refine_scores(scores: Integers, features: Binner, finer: Binner) -> Integers:
    """Return the scores of cells that were cut further, shape (n_targets, n_cells)."""
    pairs = zip(features.offsets, features.columns, finer.columns, strict=False)
    return np.hstack([scores[:, start + old.coarse_bins(new)] for start, old, new in pairs])


def make_binner(
    schema: Schema, X_public: Floats, max_bins: int | None, weights: Floats | None = None
) -> Binner:
    """Cut columns at quantiles of the public rows, or wherever they may be cut later.

    Parameters
    ----------
    schema : Schema
        The columns, from public rows.
    X_public : ndarray of float64, shape (m, n_features)
        Encoded public rows; missing numbers are NaN.
    max_bins : int or None
        Most cells of a numeric column, that for missing values aside; ``None`` for all there may
        ever be.
    weights : ndarray of float64, shape (m,), optional
        Weights of the public rows, if they count differently.

    Returns
    -------
    Binner
        The cells.
    """
    features = []
    for column, values in zip(schema.columns, X_public.T, strict=True):
        if column.categorical:
            counts = np.bincount(values.astype(np.intp), minlength=column.n_categories)
            counts = counts[: len(column.values)]
            common = np.sort(np.argsort(-counts, kind="stable")[:MAX_CATEGORIES])
            own = np.full(column.n_categories, len(common), dtype=np.int16)
            own[common] = np.arange(len(common))
            own[-1] = len(common) + 1
            features.append(ColumnBins(column, np.empty(0), len(common) + 2, own))
        else:
            known = ~np.isnan(values)
            if max_bins is None:
                cuts = fine_edges(values[known], integral=column.integral, few=N_BINS)
            else:
                mass = None if weights is None else weights[known]
                cuts = cut_points(values[known], max_bins, mass) if known.any() else np.empty(0)
            features.append(ColumnBins(column, cuts, len(cuts) + 2, np.empty(0, dtype=np.int16)))
    return Binner(tuple(features))
