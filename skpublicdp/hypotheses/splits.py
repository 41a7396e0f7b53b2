"""Axis-aligned splits `x[feature] > threshold`, placed at public quantiles."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees import Cuts
from skpublicdp.hypotheses.base import (
    FeatureName,
    PublicSample,
)
from skpublicdp.hypotheses.contingency import (
    EXACT_FLOAT64,
    MAX_TABLE_BYTES,
    contingency_bytes,
    contingency_table,
    pair_counts,
)
from skpublicdp.typing import Codes, Floats, Integers

MIN_SPLITS_PER_COLUMN = 8
"""Minimum number of splits per column for which counting pairs of cells is the faster method."""

QUANTILE_MARGIN = 1 + 1e-9
"""Factor applied to a spacing to prevent rounding effects if `alpha` is a multiple of 1 / m."""

PRIOR_UNIT = 1024
"""Unit of prior weights: a feature's only split has weight 512 if it halves the public rows."""

MAX_ROUND_DECIMALS = 324
"""Number of decimal places of the smallest positive float."""

CELL_BLOCK_ROWS = 1 << 15
"""Maximum number of rows whose cells are kept in memory at a time."""


class Predicates(ABC):
    """Boolean conditions on single columns, used as the splits of a tree."""

    features: Codes  # (n_predicates,): column of each predicate

    def __len__(self) -> int:
        return len(self.features)

    @abstractmethod
    def __getitem__(self, index: int | slice | Codes) -> Self: ...

    @abstractmethod
    def write_indicator(
        self, predicate: int, column: NDArray[Any], out: NDArray[np.float32]
    ) -> None:
        """For each row, write 1 to `out`, shape (n,), if it satisfies a predicate, and 0 otherwise.

        `column` contains the values of the predicate's column, shape (n,).
        """

    @abstractmethod
    def describe(self, predicate: int, names: tuple[str, ...], *, above: bool = True) -> str:
        """Return the text of a predicate, or of its negation if `above` is False."""

    @abstractmethod
    def interval(self, predicate: int) -> tuple[float, float]:
        """Return the interval (low, high] of the values that satisfy a predicate."""

    def indicators(
        self, X: NDArray[Any], out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return whether each row satisfies each predicate, for both scoring and prediction."""
        if out is None:
            out = np.empty((len(self), len(X)), dtype=np.float32)
        for feature in np.unique(self.features):
            column = np.ascontiguousarray(X[:, feature])
            for predicate in np.flatnonzero(self.features == feature).tolist():
                self.write_indicator(predicate, column, out[predicate])
        return out

    def tabulate(
        self, X: NDArray[Any], y: Codes, weights: Integers, n_classes: int, order: int
    ) -> Integers:
        """Return the weight of the rows by label and by combination of satisfied predicates."""
        return contingency_table(self.indicators, len(self), X, y, weights, n_classes, order)


@dataclass(frozen=True, eq=False)
class Splits(Predicates):
    """Predicates `x[feature] > threshold`."""

    features: Codes  # (n_splits,): column of each split
    # (n_splits,): a row is above a split if its value is strictly greater than the threshold
    thresholds: Floats

    def __getitem__(self, index: int | slice | Codes) -> Splits:
        return Splits(np.atleast_1d(self.features[index]), np.atleast_1d(self.thresholds[index]))

    def write_indicator(
        self, predicate: int, column: NDArray[Any], out: NDArray[np.float32]
    ) -> None:
        """For each row, write 1 to `out`, shape (n,), if it is above a split, and 0 otherwise."""
        np.greater(column, self.thresholds[predicate], out=out)

    def tabulate(
        self, X: NDArray[Any], y: Codes, weights: Integers, n_classes: int, order: int
    ) -> Integers:
        """Return the weight of the rows by label and by combination of splits that they exceed.

        For pairs of splits in columns with many splits, a faster method returns the same table.
        """
        # `numpy.bincount` adds floats, which are exact below this limit
        max_weight = int(weights.max(initial=1))
        is_exact = max_weight * len(X) < EXACT_FLOAT64
        if order == 2 and is_exact:
            n_columns = len(np.unique(self.features))
            if len(self) >= MIN_SPLITS_PER_COLUMN * n_columns:
                return self._tabulate_pairs(X, y, weights, n_classes=n_classes)
        return super().tabulate(X, y, weights, n_classes=n_classes, order=order)

    def _tabulate_pairs(
        self, X: NDArray[Any], y: Codes, weights: Integers, n_classes: int
    ) -> Integers:
        """Return `tabulate` of order 2, by counting pairs of cells between the splits of columns.

        Cumulative sums over pairs of cells give the weights of pairs of splits, because a row is
        above a split if its cell comes after the split.
        """
        n_entries = len(self) + 1  # entry 0 is the predicate that is always true
        table = np.zeros((n_classes, n_entries, n_entries), dtype=np.int64)
        labels = np.arange(n_classes)
        features = np.unique(self.features).tolist()
        splits_of_column = [self._ordered_splits(feature) for feature in features]
        entries_of_column = [splits + 1 for splits in splits_of_column]
        n_cells = [len(splits) + 1 for splits in splits_of_column]
        for start in range(0, len(X), CELL_BLOCK_ROWS):
            rows = slice(start, start + CELL_BLOCK_ROWS)
            cells = [
                self._cells(X[rows, feature], splits)
                for feature, splits in zip(features, splits_of_column, strict=True)
            ]
            pairs = pair_counts(
                cells, n_cells, y=y[rows], weights=weights[rows], n_classes=n_classes
            )
            for i, j, counts in pairs:
                # entry (c, p, q): rows of label c in cell p or later of column i, q or later of j
                reversed_counts = counts[:, ::-1, ::-1]
                above = reversed_counts.cumsum(axis=1).cumsum(axis=2)[:, ::-1, ::-1]
                entries = entries_of_column[i]
                table[np.ix_(labels, entries, entries_of_column[j])] += above[:, 1:, 1:]
                if i == j:  # pairs of a split and the predicate that is always true
                    table[:, entries, 0] += above[:, 1:, 0]
                if i == j == 0:  # the weight of each label, which every column has
                    table[:, 0, 0] += above[:, 0, 0]
        # only pairs of columns i <= j were counted; the table is symmetric
        table[:, 0, 1:] = table[:, 1:, 0]
        for earlier, later in itertools.combinations(entries_of_column, 2):
            block = table[np.ix_(labels, earlier, later)]
            table[np.ix_(labels, later, earlier)] = block.swapaxes(1, 2)
        return table

    def _ordered_splits(self, feature: int) -> Codes:
        """Return the indices of a feature's splits, ordered by increasing threshold."""
        splits = np.flatnonzero(self.features == feature)
        return splits[np.argsort(self.thresholds[splits], kind="stable")]

    def _cells(self, column: NDArray[Any], splits: Codes) -> NDArray[np.integer[Any]]:
        """Return the cell of each value of a column: the number of splits below the value."""
        values = np.ascontiguousarray(column)
        cells = np.zeros(len(values), np.min_scalar_type(len(splits)))
        for threshold in self.thresholds[splits]:  # np.float64: comparison in double precision
            cells += values > threshold
        return cells

    def describe(self, predicate: int, names: tuple[str, ...], *, above: bool = True) -> str:
        """Return the text `name > threshold`, or `name <= threshold` for the negation."""
        sign = ">" if above else "<="
        name = names[self.features[predicate]]
        return f"{name} {sign} {format_threshold(self.thresholds[predicate], name)}"

    def interval(self, predicate: int) -> tuple[float, float]:
        """Return the interval (threshold, infinity)."""
        return float(self.thresholds[predicate]), math.inf


def format_threshold(threshold: float, name: str = "") -> str:
    """Return the shortest text that exactly represents a threshold of a column.

    A column with a `FeatureName`, such as a date column, defines the text of its numbers.
    """
    number = float(threshold)
    if isinstance(name, FeatureName):
        return name.write(number)
    # `repr` uses scientific notation for larger numbers
    is_short_integer = number.is_integer() and abs(number) < 1e15
    return f"{number:.0f}" if is_short_integer else repr(number)


def check_table(splits: Splits, public: PublicSample, order: int, remedy: str) -> None:
    """Raise CoverSizeError if the table of combinations of splits exceeds `MAX_TABLE_BYTES`.

    `remedy` is the part of the error message that advises how to change the parameter that sets the
    order.
    """
    n_bytes = contingency_bytes(len(splits), len(public.classes), order)
    if n_bytes > MAX_TABLE_BYTES:
        raise CoverSizeError(
            f"{len(splits)} splits and {len(public.classes)} classes require a table of "
            f"{n_bytes / 2**30:.1f} GiB, but at most {MAX_TABLE_BYTES / 2**30:.0f} GiB are "
            f"allowed. Increase alpha, drop features, or {remedy}."
        )


def quantile_thresholds(column: Floats, alpha: float) -> Floats:
    """Return thresholds such that every cut of a column is within mass `alpha` of a threshold.

    If more than half of the values are equal (such as amounts that are mostly zero), the mass is
    measured on the other values. The tail then gets as many thresholds as any other column.

    Parameters
    ----------
    column : ndarray of float64, shape (m,)
        Public values.
    alpha : float
        Maximum fraction of the values between neighbouring thresholds, unless a single value
        exceeds this fraction. If alpha is below 1/m, every gap between distinct values gets a
        threshold.

    Examples
    --------
    >>> quantile_thresholds(np.arange(10.0), alpha=0.25)
    array([1.5, 3.5, 5.5, 7.5])
    >>> quantile_thresholds(np.array([0.0, 0.0, 1.0]), alpha=0.1)
    array([0.5])
    """
    values, counts = np.unique(column, return_counts=True)
    # without the value, if any, that more than half of the rows have
    n_rows = counts[2 * counts <= len(column)].sum()
    spacing = float(alpha * n_rows * QUANTILE_MARGIN)
    n_up_to = np.cumsum(counts).tolist()
    gaps = []  # gap i is between the distinct values i and i + 1
    n_below_last = 0
    for gap in range(len(values) - 1):
        # the next gap would be too far from the last threshold
        if n_up_to[gap + 1] - n_below_last > spacing:
            gaps.append(gap)
            n_below_last = n_up_to[gap]
    value_list = values.tolist()
    return np.array([_shortest_between(value_list[gap], value_list[gap + 1]) for gap in gaps])


def _shortest_between(low: float, high: float) -> float:
    """Return the shortest decimal number in the middle half of the gap between two numbers.

    The result t satisfies low <= t < high, so `x > t` separates the two numbers. A rule that is
    printed with this number is therefore exact, without rounding.
    """
    middle = low / 2 + high / 2
    quarter = high / 4 - low / 4
    width = min(high - low, 1e307)  # `round` supports at most 307 digits before the point
    # numbers with fewer decimals, which may be negative, are too coarse for a gap of this width
    min_decimals = -math.floor(math.log10(width))
    for decimals in range(min_decimals, MAX_ROUND_DECIMALS + 1):
        threshold = round(middle, decimals)
        if abs(threshold - middle) <= quarter and low <= threshold < high:
            return threshold
    return low  # neighbouring floats have no number between them, and `> low` separates them


def public_splits(public: PublicSample, alpha: float) -> Splits:
    """Return splits of all features at public quantiles, omitting equivalent splits.

    Splits are equivalent if they partition the public rows into the same two sets.
    """
    thresholds_of_column = [quantile_thresholds(column, alpha) for column in public.X.T]
    n_splits = [len(thresholds) for thresholds in thresholds_of_column]
    columns = np.arange(len(n_splits))
    features = np.repeat(columns, n_splits)
    splits = Splits(features, np.concatenate(thresholds_of_column))
    distinct = distinct_partitions(splits, public.X)
    return splits[distinct]


def distinct_partitions(splits: Predicates, X: NDArray[Any]) -> Codes:
    """Return, in increasing order, the indices of splits that partition the rows differently.

    Among splits with equal partitions, the first is returned. Splits that leave all rows on one
    side are omitted.
    """
    sides = splits.indicators(X).astype(bool)  # (n_splits, n)
    sides ^= sides[:, :1]  # a split and its complement have the same partition
    _, first = np.unique(np.packbits(sides, axis=1), axis=0, return_index=True)
    representatives: Codes = np.sort(first)
    return representatives[sides[representatives].any(axis=1)]


def measure_cuts(
    public: PublicSample,
    alpha: float,
    features: Sequence[int],
    cuts_per_rule: int,
    splits: Predicates | None = None,
) -> Cuts:
    """Return the maximum distance from a cut to the nearest threshold, in public rows.

    A rule of the class may cut columns anywhere, whereas the members of its cover cut columns at
    `quantile_thresholds`.

    Parameters
    ----------
    public : PublicSample
        Public rows.
    alpha : float
        Quantile spacing.
    features : sequence of int
        Columns.
    cuts_per_rule : int
        Maximum number of cuts in a rule. Moving a cut changes the rule on the rows between the old
        and the new position.
    splits : Predicates, optional
        The splits from `public_splits`; the default is all quantiles.
    """
    m = len(public.X)
    max_distance = n_thresholds = 0
    for feature in features:
        column = np.sort(public.X[:, feature])
        thresholds = quantile_thresholds(column, alpha)
        cuts = np.concatenate([[-np.inf], thresholds, [np.inf]])
        # a cut is represented by its rank, the number of rows below the cut
        ranks = np.searchsorted(column, cuts, side="right")
        possible_ranks = np.searchsorted(column, column, side="right")
        # the nearest threshold is one of the two neighbours of a possible cut
        upper = np.searchsorted(ranks, possible_ranks).clip(1)
        distances = np.minimum(possible_ranks - ranks[upper - 1], ranks[upper] - possible_ranks)
        max_distance = max(max_distance, int(distances.max()))
        n_thresholds += len(thresholds)
    return Cuts(
        per_rule=cuts_per_rule,
        columns=len(features),
        rows=m,
        missed=max_distance,
        allowed=math.floor(alpha * m * QUANTILE_MARGIN / 2),
        merged=splits is not None and len(splits) < n_thresholds,
    )


def split_prior(splits: Predicates, public: PublicSample, alpha: float) -> Integers:
    """Return the prior weight of each split in the exponential mechanism, using public rows only.

    A split with few rows on one side changes few predictions, so its weight is small. The total
    weight of a feature should not grow in proportion to its number of splits.
    """
    n = len(public.X)
    is_above = splits.indicators(public.X)
    n_above = is_above.sum(axis=1, dtype=np.int64)
    n_smaller_side = np.minimum(n_above, n - n_above)
    n_smaller_side = np.maximum(n_smaller_side, alpha * n)
    n_splits_of_feature = np.bincount(splits.features)
    n_alternatives = n_splits_of_feature[splits.features]
    balance = PRIOR_UNIT * n_smaller_side / n
    weights: Integers = np.rint(balance / np.sqrt(n_alternatives)).astype(np.int64)
    return np.maximum(weights, 1)


def stump_growth(m: int, n_features: int) -> int:
    """Return a bound on the number of ways in which stumps and constants can label m rows.

    There are two labels. Splits of one feature can assign label 1 to exactly k rows in at most two
    ways: to the k rows with the lowest values or to those with the highest values.
    """
    return 2 + sum(min(math.comb(m, k), 2 * n_features) for k in range(1, m))
