"""Binner, which maps rows to the bins of all columns and is determined by public rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.budget_split import N_BINS
from skpublicdp.data.binning import SortedEdges, cut_points, fine_edges
from skpublicdp.data.one_hot import OneHotColumn, fold_rows, indicator_states, source_columns
from skpublicdp.data.schema import MISSING, OTHER, Coder, Column, Schema
from skpublicdp.data.tables import Table
from skpublicdp.typing import Floats, Integers

BinCodes = NDArray[np.integer[Any]]
"""Bin codes of rows, stored in the smallest sufficient numpy integer type."""

MAX_CATEGORIES = 64
"""Maximum number of categories of a column that have bins of their own. The categories with the
most public rows are chosen."""

MAX_FINE_BINS = 32
"""Maximum number of quantile bins of a numeric column in Newton boosting."""

MIN_REFINED_FRACTION = 0.7
"""Fraction of `MAX_FINE_BINS`. Columns with fewer cuts are also cut at quantiles of their distinct
values."""


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """Bins of one column. The last bin is for missing values."""

    column: Column  # column of the schema
    # Increasing cut points of a numeric column. The bin of a value is the number of cuts below the
    # value. The array is empty for a categorical column.
    cuts: Floats
    # Number of bins. The second to last bin of a categorical column is for rare and unknown
    # categories.
    size: int
    # (n_categories,): bin of each category code of a categorical column. The array is empty for a
    # numeric column.
    bin_of_category: BinCodes

    def codes(self, values: NDArray[Any]) -> BinCodes:
        """Return the bin of each raw value of the column. Each bin depends on its value alone."""
        return self.encoded_codes(self.column.as_numeric(values))

    def encoded_codes(self, encoded: NDArray[Any]) -> BinCodes:
        """Return the bin of each encoded value (number or category code).

        The privacy proof requires that the bin of a value depend on this value alone.
        """
        if self.column.categorical:
            return np.take(self.bin_of_category, encoded.astype(np.intp)).astype(self.dtype)
        return self._edges.count_below(encoded).astype(self.dtype, copy=False)

    @cached_property
    def _edges(self) -> SortedEdges:
        """Cut points with an index for fast search. The index is rebuilt after unpickling."""
        return SortedEdges(self.cuts, self.size - 1)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_edges"}

    @property
    def dtype(self) -> np.dtype[Any]:
        """Smallest integer type that can represent all bin codes."""
        return np.min_scalar_type(self.size - 1)

    def coarse_bins(self, fine: ColumnBins) -> BinCodes:
        """Return the bin that contains each fine bin. The fine cuts must include all cuts."""
        if self.column.categorical:
            return np.arange(self.size).astype(self.dtype)
        # each fine bin lies in the bin that contains its upper end
        upper_ends = np.append(fine.cuts, np.inf)
        coarse = np.searchsorted(self.cuts, upper_ends)
        coarse[-1] = len(self.cuts)  # also if infinity itself is a cut
        missing_bin = self.size - 1
        return np.append(coarse, missing_bin).astype(self.dtype)

    @property
    def labels(self) -> list[str]:
        """Description of each bin, which is a range of numbers or a category."""
        if self.column.categorical:
            other_bin = self.size - 2
            categories = self.column.values.tolist()
            # the last codes are for other and missing values, which are no categories
            pairs = zip(categories, self.bin_of_category, strict=False)
            names = [str(category) for category, code in pairs if code < other_bin]
            return [*names, OTHER, MISSING]
        cut_texts = self.column.format_all(self.cuts)
        if not cut_texts:
            return ["any", MISSING]
        inner = [f"{low} to {high}" for low, high in pairwise(cut_texts)]
        return [f"<= {cut_texts[0]}", *inner, f"> {cut_texts[-1]}", MISSING]


@dataclass(frozen=True, eq=False)
class Binner:
    """Bins of all columns, which map each row to integer bin codes."""

    columns: tuple[ColumnBins, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(bins.column.name for bins in self.columns)

    @property
    def sizes(self) -> list[int]:
        """Number of bins of each column, including the bin for missing values."""
        return [bins.size for bins in self.columns]

    @property
    def offsets(self) -> NDArray[np.intp]:
        """Index of each column's first bin among all bins, followed by the total number of bins."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.intp)

    def codes(self, X: Table) -> BinCodes:
        """Return the bins of rows, shape (n_columns, n)."""
        encoders = enumerate(self.source_encoders)
        codes = self.fold([X.map_distinct(position, encode) for position, encode in encoders])
        return np.array(codes, dtype=self.dtype)

    @property
    def source_encoders(self) -> list[Coder]:
        """Elementwise functions that encode the columns of the user's table.

        The functions return the inputs of `fold`, which are bins or, for the 0/1 columns of a
        one-hot column, states.
        """
        encoders: list[Coder] = []
        for bins in self.columns:
            if isinstance(bins.column, OneHotColumn):
                encoders += [partial(indicator_states, member) for member in bins.column.members]
            else:
                encoders.append(bins.codes)
        return encoders

    def fold(self, source_codes: Sequence[BinCodes]) -> list[BinCodes]:
        """Return the bins of rows, one array per column, given the results of `source_encoders`."""
        source, folded = iter(source_codes), []
        for bins in self.columns:
            if isinstance(bins.column, OneHotColumn):
                states = [*islice(source, len(bins.column.members))]
                folded.append(bins.encoded_codes(bins.column.fold(states)))
            else:
                folded.append(next(source))
        return folded

    @property
    def source_columns(self) -> tuple[Column, ...]:
        """Columns of the user's table."""
        return source_columns([bins.column for bins in self.columns])

    @property
    def source_starts(self) -> NDArray[np.intp]:
        """Position of each column, or of a one-hot column's first member, in the user's table."""
        n_sources = [len(source_columns([bins.column])) for bins in self.columns]
        return np.cumsum([0, *n_sources[:-1]]).astype(np.intp)

    def encode_source(self, X: Table) -> Floats:
        """Encode the columns of the user's table as numbers and category codes."""
        encoders = [partial(column.encode, clamp=False) for column in self.source_columns]
        return np.array([X.map_distinct(i, encode) for i, encode in enumerate(encoders)]).T

    def fold_rows(self, source_rows: Floats) -> Floats:
        """In rows from `encode_source`, replace each one-hot column's members with one code."""
        return fold_rows([bins.column for bins in self.columns], source_rows)

    def encode(self, X: Table) -> Floats:
        """Encode rows as numbers and category codes, shape (n, n_columns)."""
        return self.fold_rows(self.encode_source(X))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Smallest integer type that can represent the bins of every column."""
        return np.min_scalar_type(max(self.sizes) - 1)

    def encoded_codes(self, rows: Floats) -> BinCodes:
        """Return the bins of encoded rows, shape (n_columns, n)."""
        pairs = zip(self.columns, rows.T, strict=True)
        return np.array([bins.encoded_codes(values) for bins, values in pairs])

    def indicators(self, codes: BinCodes) -> Floats:
        """Return the one-hot matrix of bins, shape (n, n_bins)."""
        design = np.zeros((codes.shape[1], int(self.offsets[-1])))
        rows = np.arange(codes.shape[1])
        for column_codes, start in zip(codes, self.offsets[:-1], strict=True):
            design[rows, start + column_codes] = 1
        return design


def refine_bins(binner: Binner, X_public: Floats, weights: Floats) -> Binner:
    """Refine the bins of numeric columns with cuts at weighted quantiles of the public rows.

    A column that has too few bins because of ties is also cut at the quantiles of its distinct
    values.
    """
    refined = []
    for bins, values in zip(binner.columns, X_public.T, strict=True):
        is_number = ~np.isnan(values)
        if bins.column.categorical or not is_number.any():
            refined.append(bins)
            continue
        numbers = values[is_number]
        quantiles = cut_points(numbers, MAX_FINE_BINS, weights[is_number])
        cuts = np.union1d(bins.cuts, quantiles)
        if len(cuts) < MIN_REFINED_FRACTION * MAX_FINE_BINS:
            cuts = np.union1d(cuts, cut_points(np.unique(numbers), MAX_FINE_BINS // 2))
        n_bins = len(cuts) + 2  # intervals between the cuts, and the bin for missing values
        refined.append(ColumnBins(bins.column, cuts, n_bins, bins.bin_of_category))
    return Binner(tuple(refined))


def refine_scores(scores: Integers, coarse: Binner, fine: Binner) -> Integers:
    """Return the scores of fine bins, copied from the coarse bins that contain them."""
    triples = zip(coarse.offsets[:-1], coarse.columns, fine.columns, strict=True)
    return np.hstack(
        [
            scores[:, start + coarse_bins.coarse_bins(fine_bins)]
            for start, coarse_bins, fine_bins in triples
        ]
    )


def make_binner(
    schema: Schema,
    X_public: Floats,  # (m, n_columns)
    max_bins: int | None,
    weights: Floats | None = None,  # (m,)
) -> Binner:
    """Return the bins of all columns, as determined by the public rows.

    Numeric columns are cut at weighted quantiles. In a categorical column, each of the most
    frequent categories has its own bin. The bin for missing values does not count towards
    `max_bins`. With ``None``, the result is the fine bins, to whose cuts all later cuts are moved.
    """
    columns = []
    for column, values in zip(schema.columns, X_public.T, strict=True):
        if column.categorical:
            columns.append(_categorical_bins(column, values))
            continue
        is_number = ~np.isnan(values)
        numbers = values[is_number]
        if max_bins is None:
            cuts = fine_edges(numbers, integral=column.integral, max_exact=N_BINS)
        elif len(numbers):
            mass = None if weights is None else weights[is_number]
            cuts = cut_points(numbers, max_bins, mass)
        else:
            cuts = np.empty(0)
        n_bins = len(cuts) + 2  # intervals between the cuts, and the bin for missing values
        columns.append(ColumnBins(column, cuts, n_bins, np.empty(0, dtype=np.int16)))
    return Binner(tuple(columns))


def _categorical_bins(column: Column, codes: Floats) -> ColumnBins:
    """Return one bin per frequent category, one for other categories and one for missing values."""
    counts = np.bincount(codes.astype(np.intp), minlength=column.n_categories)
    counts = counts[: len(column.values)]  # excluding the codes for other and missing values
    by_frequency = np.argsort(-counts, kind="stable")
    frequent = np.sort(by_frequency[:MAX_CATEGORIES])
    other_bin = len(frequent)
    missing_bin = other_bin + 1
    bin_of_category = np.full(column.n_categories, other_bin, dtype=np.int16)
    bin_of_category[frequent] = np.arange(other_bin)
    bin_of_category[-1] = missing_bin
    no_cuts = np.empty(0)
    return ColumnBins(column, no_cuts, size=missing_bin + 1, bin_of_category=bin_of_category)


def n_removable_rows(bins: ColumnBins, codes: Floats) -> Integers:
    """Return how many public rows of each category with a bin can be removed before it loses it.

    The result is at most 2, shape (n_bins - 2,). It repeats the choice of `_categorical_bins` for
    public rows of which one or two rows of a category are left out.
    """
    column = bins.column
    n_categories = len(column.values)
    counts = np.bincount(codes.astype(np.intp), minlength=column.n_categories)
    counts = counts[:n_categories]  # excluding the codes for other and missing values
    # categories are ranked by decreasing count, and by code if their counts are equal
    sort_keys = -counts * n_categories + np.arange(n_categories)
    ranking = np.sort(sort_keys)
    other_bin = bins.size - 2
    chosen = np.flatnonzero(bins.bin_of_category[:n_categories] < other_bin)
    chosen_counts = counts[chosen]
    n_removable = np.zeros(len(chosen), dtype=np.int64)
    for n_removed in (1, 2):
        reduced = np.maximum(chosen_counts - n_removed, 0)
        n_ahead = np.searchsorted(ranking, -reduced * n_categories + chosen)
        n_ahead -= chosen_counts > reduced  # the category is not ahead of itself
        # a category without public rows is known only if it is declared
        is_known = (reduced > 0) | column.is_closed
        n_removable += (n_ahead < MAX_CATEGORIES) & is_known
    return n_removable
