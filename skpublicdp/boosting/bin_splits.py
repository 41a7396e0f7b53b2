"""Candidate splits on bins, trees applied to bin codes, and sums over combinations of splits."""

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
from skpublicdp.hypotheses.splits import (
    Predicates,
    distinct_partitions,
    format_threshold,
    split_prior,
)
from skpublicdp.hypotheses.trees import TreeCover
from skpublicdp.typing import Floats, Integers

MIN_SIDE_FRACTION = 0.05
"""Lower bound on the fraction of public rows on the smaller side of a split. The prior probability
of the split is proportional to this fraction."""


@dataclass(frozen=True, eq=False)
class BinSplits(Predicates):
    """Splits of trees, which test whether a row's bin in one column lies within a range of bins."""

    features: NDArray[np.intp]  # (n_splits,): column of each split
    # (n_splits,): ends of the range, both included
    first_bin: NDArray[np.intp]
    last_bin: NDArray[np.intp]
    texts: NDArray[Any]  # (n_splits, 2): description of each split and of its negation

    def __getitem__(self, index: int | slice | NDArray[np.intp]) -> BinSplits:
        features = np.atleast_1d(self.features[index])
        texts = self.texts[index].reshape(len(features), 2)
        return BinSplits(
            features,
            np.atleast_1d(self.first_bin[index]),
            np.atleast_1d(self.last_bin[index]),
            texts,
        )

    def write_indicator(
        self, predicate: int, column: NDArray[Any], out: NDArray[np.float32]
    ) -> None:
        """Write 1 into `out` for each row that satisfies the split, and 0 for all other rows."""
        out[:] = self.contains(predicate, column)

    def contains(self, predicate: int, column: NDArray[Any]) -> NDArray[np.bool_]:
        """Indicate which rows satisfy a split, given the rows' bins in the column of the split."""
        # comparison with Python integers does not change the type of byte arrays
        is_inside: NDArray[np.bool_] = column >= int(self.first_bin[predicate])
        is_inside &= column <= int(self.last_bin[predicate])
        return is_inside

    def describe(self, predicate: int, names: tuple[str, ...], *, above: bool = True) -> str:
        """Return the description of a split, or of its negation if `above` is false."""
        text: str = self.texts[predicate, 0 if above else 1]
        return f"{names[self.features[predicate]]} {text}"

    def interval(self, predicate: int) -> tuple[float, float]:
        """Return the range of bins that satisfy a split, as a half-open interval (low, high]."""
        return float(self.first_bin[predicate]) - 1, float(self.last_bin[predicate])


def refine_splits(splits: BinSplits, coarse: Binner, fine: Binner) -> BinSplits:
    """Return the same splits, expressed in terms of finer bins."""
    first = splits.first_bin.astype(np.intp)
    end = splits.last_bin.astype(np.intp) + 1
    pairs = zip(coarse.columns, fine.columns, strict=True)
    for position, (coarse_bins, fine_bins) in enumerate(pairs):
        coarse_of_fine = coarse_bins.coarse_bins(fine_bins)
        # first fine bin of each coarse bin, followed by the end of the last coarse bin
        coarse_codes = np.arange(coarse_bins.size + 1)
        first_fine_bin = np.searchsorted(coarse_of_fine, coarse_codes)
        in_column = splits.features == position
        first[in_column] = first_fine_bin[first[in_column]]
        end[in_column] = first_fine_bin[end[in_column]]
    last = end - 1
    return BinSplits(splits.features, first, last, splits.texts)


def apply_tree(splits: Predicates, columns: BinCodes | list[BinCodes]) -> BinCodes:
    """Return the leaf that each row reaches in a tree that splits on bins.

    The result equals that of `DecisionTree.apply` but is computed in a fraction of the time. At
    each level, all nodes are evaluated for all rows, using bitwise operations instead of indexing.
    The binary digits of a leaf's index are the decisions along the path, starting at the root.
    """
    assert isinstance(splits, BinSplits)
    leaf = np.zeros(len(columns[0]), dtype=np.uint8)
    path_bits: list[NDArray[np.bool_]] = []
    depth = (len(splits) + 1).bit_length() - 1  # a complete tree has 2^depth - 1 nodes
    for level in range(depth):
        first_node = 2**level - 1
        decisions = [
            splits.contains(node, columns[splits.features[node]])
            for node in range(first_node, 2 * first_node + 1)
        ]
        # the last bit of the path selects one of two siblings, the previous bit selects one of two
        # pairs of siblings, and so on; lower ^ (bit & (lower ^ upper)) equals `upper if bit else
        # lower`
        for bit in reversed(path_bits):
            siblings = zip(decisions[::2], decisions[1::2], strict=True)
            decisions = [lower ^ (bit & (lower ^ upper)) for lower, upper in siblings]
        path_bits += decisions
        leaf *= 2
        leaf += decisions[0]
    return leaf


MIN_TABLE_SPLITS, MIN_TABLE_ROWS = {2: 6, 3: 3}, {2: 0, 3: 1 << 14}
"""Smallest numbers of splits per column and of rows, by order, at which `joint_gradient_sums` first
computes sums over tuples of bins. For smaller numbers, using a table of all rows is faster."""


def joint_gradient_sums(
    splits: Predicates, order: int, codes: BinCodes, sizes: list[int], values: Floats
) -> Integers:
    """For each pair or triple of splits, return the sum of the values of the rows that satisfy it.

    With many splits, values are first summed over tuples of patterns, where a pattern is a group of
    bins of one column that satisfy the same splits. The resulting small table is then multiplied
    along each axis by the split indicators of the patterns. The result equals `contingency_table`.
    A tuple has `order` splits, 2 or 3. It can contain the same split more than once, and index 0
    stands for the absence of a condition. Shapes: codes (n_columns, n), values (n,), result
    (n_splits + 1,) * order.
    """
    assert isinstance(splits, BinSplits)
    n_splits, n_rows = len(splits), len(values)
    too_few_splits = n_splits < MIN_TABLE_SPLITS.get(order, np.inf) * len(codes)
    if too_few_splits or n_rows < MIN_TABLE_ROWS[order]:
        X: NDArray[Any] = codes.T
        return contingency_table(
            splits.indicators,
            n_splits,
            X,
            y=np.zeros(n_rows, dtype=np.intp),
            weights=values.astype(np.int64),
            n_classes=1,
            order=order,
        )[0]

    indicators, pattern_of_row = _split_patterns(splits, codes, sizes)
    n_patterns = max(matrix.shape[1] for matrix in indicators)
    powers = []
    for matrix in indicators:
        # all columns are padded to n_patterns, so that all joint sums have the same shape
        n_missing = n_patterns - matrix.shape[1]
        padded = np.pad(matrix, ((0, 0), (0, n_missing)))
        powers.append(_tensor_powers(padded, order))
    n_column_splits = [len(matrix) for matrix in indicators]
    ends = np.cumsum([0, *n_column_splits]).tolist()
    slices = [slice(start, stop) for start, stop in pairwise(ends)]  # splits of each column

    table = np.zeros((n_splits + 1,) * order)  # splits in the order of their columns
    for columns, pattern_sums in _joint_sums(pattern_of_row, n_patterns, values, order):
        # if there are fewer columns than axes, one column contributes several splits
        for repeats in combinations_with_replacement(columns, order - len(columns)):
            axis_columns = sorted(columns + repeats)
            split_sums = pattern_sums
            for column in columns:
                n_axes_of_column = axis_columns.count(column)
                power = powers[column][n_axes_of_column - 1]  # (n_patterns, n_splits^n_axes)
                # replaces the first axis (patterns) with a new last axis (splits), column by column
                split_sums = split_sums.reshape(n_patterns, -1).T @ power
            shape = [n_column_splits[column] for column in axis_columns]
            split_sums = split_sums.reshape(shape)
            # the table is symmetric in its axes
            for axes in permutations(range(order)):
                block = tuple(slices[axis_columns[axis]] for axis in axes)
                table[block] = split_sums.transpose(axes)

    by_column = np.argsort(splits.features, kind="stable")
    table_index = np.append(0, 1 + np.argsort(by_column))  # of each split in the original order
    return table[np.ix_(*[table_index] * order)].astype(np.int64)


def _split_patterns(
    splits: BinSplits, codes: BinCodes, sizes: list[int]
) -> tuple[list[Floats], list[NDArray[np.intp]]]:
    """Group the bins of each column into patterns of bins that satisfy the same splits.

    A constant column is prepended, with a single split that all rows satisfy. The constant column's
    split represents the absence of a condition.
    """
    indicators: list[Floats] = [np.ones((1, 1))]
    pattern_of_row = [np.zeros(codes.shape[1], dtype=np.intp)]
    for column in np.unique(splits.features).tolist():
        bins = np.arange(sizes[column])
        in_column = splits.features == column
        column_splits = np.flatnonzero(in_column).tolist()
        satisfied = [splits.contains(split, bins) for split in column_splits]
        bin_indicators = np.array(satisfied, dtype=np.float64)  # (n_column_splits, n_bins)
        patterns, pattern_of_bin = np.unique(bin_indicators, axis=1, return_inverse=True)
        indicators.append(patterns)
        pattern_of_bin = pattern_of_bin.ravel()
        pattern_of_row.append(pattern_of_bin[codes[column]])
    return indicators, pattern_of_row


def _joint_sums(
    codes: list[NDArray[np.intp]],  # (n,)
    size: int,
    values: Floats,  # (n,)
    order: int,
    columns: tuple[int, ...] = (),
    flat_index: NDArray[np.intp] | int = 0,
) -> Iterator[tuple[tuple[int, ...], Floats]]:
    """Yield each tuple of at most `order` columns, and the sum of values for each joint code."""
    first_column = columns[-1] + 1 if columns else 0
    for column in range(first_column, len(codes)):
        extended = (*columns, column)
        index = flat_index + codes[column]
        n_joint_codes = size ** len(extended)
        joint_sums = np.bincount(index, values, minlength=n_joint_codes)
        yield extended, joint_sums.astype(np.float64)
        if len(extended) < order:
            yield from _joint_sums(
                codes, size, values, order, columns=extended, flat_index=index * size
            )


def _tensor_powers(indicators: Floats, order: int) -> list[Floats]:
    """Return the indicators of all k-tuples of splits of a single column, for k = 1, ..., `order`.

    The k-th result has shape (n_patterns, n_splits ** k), and an entry is 1 if the pattern
    satisfies all splits of the tuple.
    """
    powers = [indicators]
    for _ in range(order - 1):
        powers.append((powers[-1][:, None] * indicators).reshape(-1, indicators.shape[1]))
    return [power.T for power in powers]


def candidate_splits(binner: Binner, codes: BinCodes) -> BinSplits:
    """Return candidate splits for trees, one for each distinct partition of the public rows.

    Numeric columns are split at their cuts, and categorical columns are split into one category and
    the rest. Numeric and categorical columns can also be split by whether the value is missing.

    Parameters
    ----------
    codes : ndarray of int, shape (n_columns, m)
        Bin codes of the public rows.
    """
    columns: list[int] = []
    ranges: list[tuple[int, int]] = []
    texts: list[tuple[str, str]] = []
    for position, bins in enumerate(binner.columns):
        missing, column = bins.size - 1, bins.column
        if column.categorical:
            for code, label in enumerate(bins.labels[:-1]):
                ranges.append((code, code))
                texts.append((f"is {label}", f"is not {label}"))
        else:
            for code, cut in enumerate(bins.cuts.tolist()):
                text = column.format(cut) if column.has_offset else format_threshold(cut)
                ranges.append((code + 1, missing - 1))
                texts.append((f"> {text}", f"<= {text}"))
        ranges.append((missing, missing))
        texts.append(("is missing", "is known"))
        columns += [position] * (len(ranges) - len(columns))  # for all new ranges
    bin_ranges = np.array(ranges, dtype=np.intp).reshape(-1, 2)
    splits = BinSplits(
        features=np.array(columns, dtype=np.intp),
        first_bin=bin_ranges[:, 0],
        last_bin=bin_ranges[:, 1],
        texts=np.array(texts, dtype=object).reshape(-1, 2),
    )
    return splits[distinct_partitions(splits, codes.T)]


def tree_cover(
    splits: BinSplits, codes: BinCodes, names: tuple[str, ...], classes: NDArray[Any], depth: int
) -> TreeCover:
    """Return the family of all trees of a given depth and with given splits, including its prior.

    Splits that divide the public rows more evenly have higher prior probabilities.
    """
    public = PublicSample(codes.T.astype(np.float64), classes, names)
    prior = split_prior(splits, public, alpha=MIN_SIDE_FRACTION)
    return TreeCover(splits, depth, prior, public)
