"""Yes/no questions about the cells of a row: what vote trees ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.binner import Binner, Codes
from skpublicdp.hypotheses.base import PublicSample
from skpublicdp.hypotheses.contingency import contingency_table
from skpublicdp.hypotheses.splits import Predicates, one_per_partition, shown, split_prior
from skpublicdp.hypotheses.trees import TreeCover
from skpublicdp.typing import Floats, Integers


@dataclass(frozen=True, eq=False)
class BinSplits(Predicates):
    """Predicates "is the cell of this column within a range".

    Attributes
    ----------
    features : ndarray of intp, shape (n_questions,)
        Column each one looks at.
    first_bin, last_bin : ndarray of intp, shape (n_questions,)
        The range, both ends included.
    texts : ndarray of object, shape (n_questions, 2)
        The question and its opposite in words.
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
        """Write 1 for each row of which the answer is yes."""
        out[:] = self.contains(predicate, column)

    def contains(self, predicate: int, column: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell of which rows the answer is yes."""
        # beside integers of Python bytes stay bytes
        found: NDArray[np.bool_] = column >= int(self.first_bin[predicate])
        found &= column <= int(self.last_bin[predicate])
        return found

    def describe(self, predicate: int, names: tuple[str, ...], *, above: bool = True) -> str:
        """Return a question, or its opposite, in words."""
        text: str = self.texts[predicate, 0 if above else 1]
        return f"{names[self.features[predicate]]} {text}"

    def span(self, predicate: int) -> tuple[float, float]:
        """Return the cells of the range: above the one before it, up to its last."""
        return float(self.first_bin[predicate]) - 1, float(self.last_bin[predicate])


def refine_splits(asked: BinSplits, features: Binner, finer: Binner) -> BinSplits:
    """Ask the same of cells that were cut further."""
    first, last = asked.first_bin.astype(np.intp), asked.last_bin.astype(np.intp)
    for position, (old, new) in enumerate(zip(features.columns, finer.columns, strict=True)):
        mine = asked.features == position
        # where the old cells begin among the new ones
        begins = np.searchsorted(old.coarse_bins(new), np.arange(old.size + 1))
        first[mine], last[mine] = begins[first[mine]], begins[last[mine] + 1] - 1
    return BinSplits(asked.features, first, last, asked.texts)


def apply_tree(asked: Predicates, columns: Codes | list[Codes]) -> Codes:
    """Return the leaf that each row ends in, as `DecisionTree.apply` does; several times as fast.

    Parameters
    ----------
    asked : BinSplits
        What the tree asks, breadth first: `DecisionTree.splits`.
    columns : sequence of ndarray of int, shape (n,)
        The cells of rows.
    """
    assert isinstance(asked, BinSplits)
    leaf = np.zeros(len(columns[0]), dtype=np.uint8)
    bits: list[NDArray[np.bool_]] = []
    for first in (2**depth - 1 for depth in range((len(asked) + 1).bit_length() - 1)):
        answers = [
            asked.contains(node, columns[asked.features[node]])
            for node in range(first, 2 * first + 1)
        ]
        for bit in reversed(bits):
            pairs = zip(answers[::2], answers[1::2], strict=True)
            answers = [no ^ (bit & (no ^ yes)) for no, yes in pairs]
        bits += answers
        leaf *= 2
        leaf += answers[0]
    return leaf


MIN_SPLITS_PER_COLUMN, MIN_TABLE_ROWS = {2: 6, 3: 3}, {2: 0, 3: 1 << 14}
"""With more questions for each column, and rows, adding up by cells is faster than by answers."""


def joint_gradient_sums(
    asked: Predicates, order: int, codes: Codes, sizes: list[int], values: Floats
) -> Integers:
    """Add up values over the rows that meet one, two or three questions at a time.

    Parameters
    ----------
    asked : BinSplits
        The questions.
    order : int
        How many of them are met at a time.
    codes : ndarray of int, shape (n_columns, n)
        The cells of rows.
    sizes : list of int
        Number of cells of each column.
    values : ndarray of float64, shape (n,)
        Integers.
    """
    assert isinstance(asked, BinSplits)
    few = len(asked) < MIN_SPLITS_PER_COLUMN.get(order, np.inf) * len(codes)
    if few or len(values) < MIN_TABLE_ROWS[order]:
        X: NDArray[Any] = codes.T
        alike, weights = np.zeros(len(values), dtype=np.intp), values.astype(np.int64)
        found: Integers = contingency_table(asked.above, len(asked), X, alike, weights, 1, order)[0]
        return found
    # the first column is that of no question, which all rows meet
    met: list[Floats] = [np.ones((1, 1))]
    lines = [np.zeros(len(values), dtype=np.intp)]
    for position in np.unique(asked.features).tolist():
        mine, cells = np.flatnonzero(asked.features == position), np.arange(sizes[position])
        answers = np.array(
            [asked.contains(each, cells) for each in mine.tolist()], dtype=np.float64
        )
        # cells of which all answers are the same are one
        patterns, pattern_of = np.unique(answers, axis=1, return_inverse=True)
        met.append(patterns)
        lines.append(np.take(pattern_of.ravel(), codes[position]))
    widest = max(patterns.shape[1] for patterns in met)
    met = [np.pad(one, ((0, 0), (0, widest - one.shape[1]))) for one in met]
    places = [slice(*ends) for ends in pairwise(np.cumsum([0, *map(len, met)]).tolist())]
    all_met = [_tensor_powers(one, order) for one in met]
    table = np.zeros((len(asked) + 1,) * order)
    for which, block in _bin_tuple_sums(lines, widest, values, order):
        for more in combinations_with_replacement(which, order - len(which)):
            columns, sums = sorted(which + more), block
            for column in which:
                sums = sums.reshape(widest, -1).T @ all_met[column][columns.count(column) - 1]
            sums = sums.reshape([len(met[column]) for column in columns])
            for axes in permutations(range(order)):
                table[tuple(places[columns[axis]] for axis in axes)] = sums.transpose(axes)
    back = np.append(0, 1 + np.argsort(np.argsort(asked.features, kind="stable")))
    ordered: Integers = table[np.ix_(*[back] * order)].astype(np.int64)
    return ordered


def _bin_tuple_sums(
    lines: list[NDArray[np.intp]],
    size: int,
    values: Floats,
    order: int,
    which: tuple[int, ...] = (),
    row: NDArray[np.intp] | int = 0,
) -> Iterator[tuple[tuple[int, ...], Floats]]:
    """Yield columns, up to so many, and the sums of the values over all combinations of cells."""
    for column in range(which[-1] + 1 if which else 0, len(lines)):
        these, cell = (*which, column), row + lines[column]
        yield these, np.bincount(cell, values, minlength=size ** len(these)).astype(np.float64)
        if len(these) < order:
            yield from _bin_tuple_sums(lines, size, values, order, these, cell * size)


def _tensor_powers(met: Floats, order: int) -> list[Floats]:
    """Return which cells meet one question, two at once and so on, cells first."""
    found = [met]
    for _ in range(order - 1):
        found.append((found[-1][:, None] * met).reshape(-1, met.shape[1]))
    return [one.T for one in found]


def candidate_splits(features: Binner, codes: Codes) -> BinSplits:
    """List the questions that part the public rows, one for each way to part them.

    Numbers are asked whether they are above a cut, categories whether they are one of them, and
    both whether they are missing.
    """
    asked: list[tuple[int, int, int, str, str]] = []
    for position, feature in enumerate(features.columns):
        missing, column = feature.size - 1, feature.column
        if column.categorical:
            for code, label in enumerate(feature.labels[:-1]):
                asked.append((position, code, code, f"is {label}", f"is not {label}"))
        else:
            for code, cut in enumerate(feature.cuts.tolist()):
                text = column.format(cut) if column.has_offset else shown(cut)
                asked.append((position, code + 1, missing - 1, f"> {text}", f"<= {text}"))
        asked.append((position, missing, missing, "is missing", "is known"))
    listed = BinSplits(
        np.array([a[0] for a in asked], dtype=np.intp),
        np.array([a[1] for a in asked], dtype=np.intp),
        np.array([a[2] for a in asked], dtype=np.intp),
        np.array([a[3:] for a in asked], dtype=object).reshape(-1, 2),
    )
    return listed[one_per_partition(listed, codes.T)]


def tree_cover(
    asked: BinSplits, codes: Codes, names: tuple[str, ...], classes: NDArray[Any], depth: int
) -> TreeCover:
    """Return all trees of a depth that ask given questions, weighed by public rows."""
    public = PublicSample(codes.T.astype(np.float64), classes, names)
    prior = split_prior(asked, public, 0.05)
    return TreeCover(asked, depth, prior, public)
