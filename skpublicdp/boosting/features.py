"""The public feature map: each column cut into cells, at places that only public rows choose."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.binning import cut_points
from skpublicdp.data.columns import MISSING, OTHER, Column, Schema, split_columns

Codes = NDArray[np.int16]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


MOST_CATEGORIES = 64
"""Of a column of more categories, so many with the most public rows have cells of their own."""


@dataclass(frozen=True, eq=False)
class Feature:
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
        return self.encoded_codes(self.column.encode(values, clamp=False))

    def encoded_codes(self, encoded: Floats) -> Codes:
        """Return the cell of each encoded value; each on its own."""
        if self.column.categorical:
            return self.own[encoded.astype(np.intp)]
        codes = np.searchsorted(self.cuts, encoded).astype(np.int16)
        codes[np.isnan(encoded)] = self.size - 1
        return codes

    @property
    def labels(self) -> list[str]:
        """The cells in words."""
        if self.column.categorical:
            names = [*map(str, self.column.values.tolist()), OTHER, MISSING]
            kept = np.flatnonzero(self.own < self.size - 2)
            return [*(names[code] for code in kept), OTHER, MISSING]
        ends = [f"{cut:.6g}" for cut in self.cuts]
        if not ends:
            return ["any", MISSING]
        inner = [f"{low} to {high}" for low, high in pairwise(ends)]
        return [f"<= {ends[0]}", *inner, f"> {ends[-1]}", MISSING]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Cells of all columns.

    Attributes
    ----------
    features : tuple of Feature
        One per column.
    """

    features: tuple[Feature, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(feature.column.name for feature in self.features)

    @property
    def sizes(self) -> list[int]:
        """Number of cells of each column."""
        return [feature.size for feature in self.features]

    @property
    def offsets(self) -> NDArray[np.intp]:
        """Where the cells of each column begin among all cells, and their number at the end."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.intp)

    def codes(self, X: Any) -> Codes:
        """Return the cells of rows.

        Parameters
        ----------
        X : DataFrame or ndarray, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of int16, shape (n_features, n)
            One line per column.
        """
        columns = split_columns(X)
        codes = np.empty((len(columns), X.shape[0]), dtype=np.int16)
        for line, feature, values in zip(codes, self.features, columns, strict=True):
            line[:] = feature.codes(values)
        return codes

    def encoded_codes(self, rows: Floats) -> Codes:
        """Return the cells of encoded rows, shape (n_features, n)."""
        lines = zip(self.features, rows.T, strict=True)
        return np.array([feature.encoded_codes(line) for feature, line in lines])

    def indicators(self, codes: Codes) -> Floats:
        """Return one 0/1 column per cell, shape (n, n_cells)."""
        design = np.zeros((codes.shape[1], int(self.offsets[-1])))
        rows = np.arange(codes.shape[1])
        for line, start in zip(codes, self.offsets, strict=False):
            design[rows, start + line] = 1
        return design


MOST_CELLS = 32
"""Most quantile cells of a column of numbers where there is growth."""


def refined(features: FeatureMap, X_public: Floats, weights: Floats) -> FeatureMap:
    """Cut numeric columns further.

    Parameters
    ----------
    features : FeatureMap
        The cells so far.
    X_public : ndarray of float64, shape (m, n_features)
        Encoded public rows; missing numbers are NaN.
    weights : ndarray of float64, shape (m,)
        Weights of the public rows.

    Returns
    -------
    FeatureMap
        Cells within these, at quantiles, and where one value has most rows at quantiles of the
        distinct values, too.
    """
    finer = []
    for feature, values in zip(features.features, X_public.T, strict=True):
        known = ~np.isnan(values)
        if feature.column.categorical or not known.any():
            finer.append(feature)
            continue
        cuts = np.union1d(feature.cuts, cut_points(values[known], MOST_CELLS, weights[known]))
        if len(cuts) < 0.7 * MOST_CELLS:
            cuts = np.union1d(cuts, cut_points(np.unique(values[known]), MOST_CELLS // 2))
        finer.append(Feature(feature.column, cuts, len(cuts) + 2, feature.own))
    return FeatureMap(tuple(finer))


def carried(scores: Integers, features: FeatureMap, finer: FeatureMap) -> Integers:
    """Return the scores of cells that were cut further, shape (n_targets, n_cells)."""
    lines = []
    for start, old, new in zip(features.offsets, features.features, finer.features, strict=False):
        which = np.arange(old.size)
        if not old.column.categorical:
            # a cell is in the one that has its upper end
            which = np.searchsorted(old.cuts, np.append(new.cuts, np.inf))
            which = np.append(which, old.size - 1)
        lines.append(scores[:, start + which])
    return np.hstack(lines)


def feature_map(
    schema: Schema, X_public: Floats, max_bins: int, weights: Floats | None = None
) -> FeatureMap:
    """Cut columns at quantiles of the public rows.

    Parameters
    ----------
    schema : Schema
        The columns, from public rows.
    X_public : ndarray of float64, shape (m, n_features)
        Encoded public rows; missing numbers are NaN.
    max_bins : int
        Most cells of a numeric column, that for missing values aside.
    weights : ndarray of float64, shape (m,), optional
        Weights of the public rows, if they count differently.

    Returns
    -------
    FeatureMap
        The cells.
    """
    features = []
    for column, values in zip(schema.columns, X_public.T, strict=True):
        if column.categorical:
            counts = np.bincount(values.astype(np.intp), minlength=column.n_categories)[:-2]
            common = np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])
            own = np.full(column.n_categories, len(common), dtype=np.int16)
            own[common] = np.arange(len(common))
            own[-1] = len(common) + 1
            features.append(Feature(column, np.empty(0), len(common) + 2, own))
        else:
            known = ~np.isnan(values)
            mass = None if weights is None else weights[known]
            cuts = cut_points(values[known], max_bins, mass) if known.any() else np.empty(0)
            features.append(Feature(column, cuts, len(cuts) + 2, np.empty(0, dtype=np.int16)))
    return FeatureMap(tuple(features))
