"""Splits on bins: candidate splits, application of trees, and joint tables of splits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.binner import BinCodes, Binner
from skpublicdp.hypotheses.base import PublicSample
from skpublicdp.hypotheses.contingency import contingency_table
from skpublicdp.hypotheses.splits import Predicates, one_per_partition, shown, split_prior
from skpublicdp.hypotheses.trees import TreeCover
from skpublicdp.typing import Floats, Integers


@dataclass(frozen=True, eq=False)
class BinSplits(Predicates):
    """Splits that test whether the bin of a column is within a range.

    Attributes
    ----------
    features : ndarray of intp, shape (n_splits,)
        Column of each split.
    first_bin, last_bin : ndarray of intp, shape (n_splits,)
        Ends of the range, both included.
    texts : ndarray of object, shape (n_splits, 2)
        Text of each split and of its opposite.
    """

    features: NDArray[np.intp]
    first_bin: NDArray[np.intp]
    last_bin: NDArray[np.intp]
    texts: NDArray[Any]

    def __getitem__(self, index: int | slice | NDArray[np.intp]) -> BinSplits:
        features = np.atleast_1d(self.features[index])
        texts = self.texts[index].reshape(len(features), 2)
        return BinSplits(
            features,
            np.atleast_1d(self.first_bin[index]),
            np.atleast_1d(self.last_bin[index]),
            texts,
        )

    def met(self, predicate: int, column: NDArray[Any], out: NDArray[np.float32]) -> None:
        """Write 1 for each row that meets the split."""
        out[:] = self.contains(predicate, column)

    def contains(self, predicate: int, column: NDArray[Any]) -> NDArray[np.bool_]:
        """Indicate which rows meet the split."""
        # comparison with Python integers keeps arrays of bytes as they are
        is_inside: NDArray[np.bool_] = column >= int(self.first_bin[predicate])
        is_inside &= column <= int(self.last_bin[predicate])
        return is_inside

    def describe(self, predicate: int, names: tuple[str, ...], *, above: bool = True) -> str:
        """Return the text of a split, or of its opposite."""
        text: str = self.texts[predicate, 0 if above else 1]
        return f"{names[self.features[predicate]]} {text}"

    def span(self, predicate: int) -> tuple[float, float]:
        """Return the range as a half-open interval: above the first value, up to the second."""
        return float(self.first_bin[predicate]) - 1, float(self.last_bin[predicate])


def refine_splits(splits: BinSplits, features: Binner, finer: Binner) -> BinSplits:
    """Return the same splits in terms of finer bins."""
    first, last = splits.first_bin.astype(np.intp), splits.last_bin.astype(np.intp)
    for position, (old, new) in enumerate(zip(features.columns, finer.columns, strict=True)):
        in_column = splits.features == position
        # first finer bin of each old bin
        starts = np.searchsorted(old.coarse_bins(new), np.arange(old.size + 1))
        first[in_column], last[in_column] = (
            starts[first[in_column]],
            starts[last[in_column] + 1] - 1,
        )
    return BinSplits(splits.features, first, last, splits.texts)


def apply_tree(splits: Predicates, columns: BinCodes | list[BinCodes]) -> BinCodes:
    """Return the leaf of each row, as `DecisionTree.apply` does, but several times as fast.

    Parameters
    ----------
    splits : BinSplits
        Splits of the tree in breadth-first order: `DecisionTree.splits`.
    columns : sequence of ndarray of int, shape (n,)
        Bin codes of each column.
    """
    assert isinstance(splits, BinSplits)
    leaf = np.zeros(len(columns[0]), dtype=np.uint8)
    path_bits: list[NDArray[np.bool_]] = []
    for first in (2**depth - 1 for depth in range((len(splits) + 1).bit_length() - 1)):
        answers = [
            splits.contains(node, columns[splits.features[node]])
            for node in range(first, 2 * first + 1)
        ]
        # each earlier bit selects one of two neighbouring nodes
        for bit in reversed(path_bits):
            pairs = zip(answers[::2], answers[1::2], strict=True)
            answers = [no ^ (bit & (no ^ yes)) for no, yes in pairs]
        path_bits += answers
        leaf *= 2
        leaf += answers[0]
    return leaf


MIN_SPLITS_PER_COLUMN, MIN_TABLE_ROWS = {2: 6, 3: 3}, {2: 0, 3: 1 << 14}
"""From these numbers of splits per column and of rows, by order, summing by bins is faster."""


def joint_gradient_sums(
    splits: Predicates, order: int, codes: BinCodes, sizes: list[int], values: Floats
) -> Integers:
    """Return the sums of values over the rows that meet two or three splits at a time.

    With many splits, values are summed over tuples of bins first and then contracted with the
    split indicators of each bin. The result equals `contingency_table`.

    Parameters
    ----------
    splits : BinSplits
        The splits.
    order : int
        Number of splits that are met at a time; a split may be repeated, and index 0 is no split.
    codes : ndarray of int, shape (n_columns, n)
        Bin codes of the rows.
    sizes : list of int
        Number of bins of each column.
    values : ndarray of float64, shape (n,)
        Integers.

    Returns
    -------
    ndarray of int64, shape (n_splits + 1,) * order
        The sums.
    """
    assert isinstance(splits, BinSplits)
    has_few_splits = len(splits) < MIN_SPLITS_PER_COLUMN.get(order, np.inf) * len(codes)
    if has_few_splits or len(values) < MIN_TABLE_ROWS[order]:
        X: NDArray[Any] = codes.T
        classes, weights = np.zeros(len(values), dtype=np.intp), values.astype(np.int64)
        direct: Integers = contingency_table(
            splits.above, len(splits), X, classes, weights, 1, order
        )[0]
        return direct
    # a first constant column with one indicator, which all rows meet
    indicators: list[Floats] = [np.ones((1, 1))]
    patterns_of_rows = [np.zeros(len(values), dtype=np.intp)]
    for position in np.unique(splits.features).tolist():
        indices, bins = np.flatnonzero(splits.features == position), np.arange(sizes[position])
        by_bin = np.array(
            [splits.contains(index, bins) for index in indices.tolist()], dtype=np.float64
        )
        # bins with the same indicators are merged to one pattern
        patterns, pattern_of_bin = np.unique(by_bin, axis=1, return_inverse=True)
        indicators.append(patterns)
        patterns_of_rows.append(np.take(pattern_of_bin.ravel(), codes[position]))
    width = max(patterns.shape[1] for patterns in indicators)
    indicators = [np.pad(matrix, ((0, 0), (0, width - matrix.shape[1]))) for matrix in indicators]
    ends = np.cumsum([0, *map(len, indicators)]).tolist()
    slices = [slice(*pair) for pair in pairwise(ends)]
    powers = [_tensor_powers(matrix, order) for matrix in indicators]
    table = np.zeros((len(splits) + 1,) * order)
    for columns, block in _bin_tuple_sums(patterns_of_rows, width, values, order):
        for repeats in combinations_with_replacement(columns, order - len(columns)):
            axis_columns, sums = sorted(columns + repeats), block
            for column in columns:
                power = powers[column][axis_columns.count(column) - 1]
                sums = sums.reshape(width, -1).T @ power
            sums = sums.reshape([len(indicators[column]) for column in axis_columns])
            for axes in permutations(range(order)):
                table[tuple(slices[axis_columns[axis]] for axis in axes)] = sums.transpose(axes)
    # from the order by column back to the order of the splits
    inverse = np.append(0, 1 + np.argsort(np.argsort(splits.features, kind="stable")))
    ordered: Integers = table[np.ix_(*[inverse] * order)].astype(np.int64)
    return ordered


def _bin_tuple_sums(
    codes: list[NDArray[np.intp]],
    size: int,
    values: Floats,
    order: int,
    columns: tuple[int, ...] = (),
    flat_index: NDArray[np.intp] | int = 0,
) -> Iterator[tuple[tuple[int, ...], Floats]]:
    """Yield tuples of at most `order` columns, with the sums of values over their joint bins."""
    for column in range(columns[-1] + 1 if columns else 0, len(codes)):
        extended, index = (*columns, column), flat_index + codes[column]
        sums = np.bincount(index, values, minlength=size ** len(extended)).astype(np.float64)
        yield extended, sums
        if len(extended) < order:
            yield from _bin_tuple_sums(codes, size, values, order, extended, index * size)


def _tensor_powers(indicators: Floats, order: int) -> list[Floats]:
    """Return the indicators of one split, of pairs and so on, each of shape (n_bins, n_tuples)."""
    powers = [indicators]
    for _ in range(order - 1):
        powers.append((powers[-1][:, None] * indicators).reshape(-1, indicators.shape[1]))
    return [power.T for power in powers]


def candidate_splits(features: Binner, codes: BinCodes) -> BinSplits:
    """Return one split for each distinct partition of the public rows.

    Numbers are split at their cuts, categories by equality, and both by missing values.
    """
    rows: list[tuple[int, int, int, str, str]] = []
    for position, feature in enumerate(features.columns):
        missing, column = feature.size - 1, feature.column
        if column.categorical:
            for code, label in enumerate(feature.labels[:-1]):
                rows.append((position, code, code, f"is {label}", f"is not {label}"))
        else:
            for code, cut in enumerate(feature.cuts.tolist()):
                text = column.format(cut) if column.has_offset else shown(cut)
                rows.append((position, code + 1, missing - 1, f"> {text}", f"<= {text}"))
        rows.append((position, missing, missing, "is missing", "is known"))
    splits = BinSplits(
        np.array([row[0] for row in rows], dtype=np.intp),
        np.array([row[1] for row in rows], dtype=np.intp),
        np.array([row[2] for row in rows], dtype=np.intp),
        np.array([row[3:] for row in rows], dtype=object).reshape(-1, 2),
    )
    return splits[one_per_partition(splits, codes.T)]


def tree_cover(
    splits: BinSplits, codes: BinCodes, names: tuple[str, ...], classes: NDArray[Any], depth: int
) -> TreeCover:
    """Return the cover of all trees of a depth with these splits and a prior from public rows."""
    public = PublicSample(codes.T.astype(np.float64), classes, names)
    prior = split_prior(splits, public, 0.05)
    return TreeCover(splits, depth, prior, public)
