"""Yes/no questions about the cells of a row: what vote trees ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.features import Codes, FeatureMap, Floats, Integers
from skpublicdp.hypotheses.base import PublicSample
from skpublicdp.hypotheses.joint import joint_table
from skpublicdp.hypotheses.splits import Predicates, one_per_partition, shown, split_prior
from skpublicdp.hypotheses.trees import TreeCover


@dataclass(frozen=True, eq=False)
class Questions(Predicates):
    """Predicates "is the cell of this column within a range".

    Attributes
    ----------
    features : ndarray of intp, shape (n_questions,)
        Column each one looks at.
    first, last : ndarray of intp, shape (n_questions,)
        The range, both ends included.
    texts : ndarray of object, shape (n_questions, 2)
        The question and its opposite in words.
    """

    features: NDArray[np.intp]
    first: NDArray[np.intp]
    last: NDArray[np.intp]
    texts: NDArray[Any]

    def __getitem__(self, index: int | slice | NDArray[np.intp]) -> Questions:
        features = np.atleast_1d(self.features[index])
        texts = self.texts[index].reshape(len(features), 2)
        return Questions(
            features, np.atleast_1d(self.first[index]), np.atleast_1d(self.last[index]), texts
        )

    def met(self, predicate: int, column: NDArray[Any], out: NDArray[np.float32]) -> None:
        """Write 1 for each row of which the answer is yes."""
        out[:] = self.inside(predicate, column)

    def inside(self, predicate: int, column: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell of which rows the answer is yes."""
        # beside integers of Python bytes stay bytes
        found: NDArray[np.bool_] = column >= int(self.first[predicate])
        found &= column <= int(self.last[predicate])
        return found

    def describe(self, predicate: int, names: tuple[str, ...], *, above: bool = True) -> str:
        """Return a question, or its opposite, in words."""
        text: str = self.texts[predicate, 0 if above else 1]
        return f"{names[self.features[predicate]]} {text}"

    def span(self, predicate: int) -> tuple[float, float]:
        """Return the cells of the range: above the one before it, up to its last."""
        return float(self.first[predicate]) - 1, float(self.last[predicate])


def carried_questions(asked: Questions, features: FeatureMap, finer: FeatureMap) -> Questions:
    """Ask the same of cells that were cut further."""
    first, last = asked.first.astype(np.intp), asked.last.astype(np.intp)
    for position, (old, new) in enumerate(zip(features.features, finer.features, strict=True)):
        mine = asked.features == position
        # where the old cells begin among the new ones
        begins = np.searchsorted(old.of_finer(new), np.arange(old.size + 1))
        first[mine], last[mine] = begins[first[mine]], begins[last[mine] + 1] - 1
    return Questions(asked.features, first, last, asked.texts)


def leaves(asked: Predicates, columns: Codes | list[Codes]) -> Codes:
    """Return the leaf that each row ends in, as `DecisionTree.apply` does; several times as fast.

    Parameters
    ----------
    asked : Questions
        What the tree asks, breadth first: `DecisionTree.splits`.
    columns : sequence of ndarray of int, shape (n,)
        The cells of rows.
    """
    assert isinstance(asked, Questions)
    leaf = np.zeros(len(columns[0]), dtype=np.uint8)
    bits: list[NDArray[np.bool_]] = []
    for first in (2**depth - 1 for depth in range((len(asked) + 1).bit_length() - 1)):
        answers = [
            asked.inside(node, columns[asked.features[node]])
            for node in range(first, 2 * first + 1)
        ]
        for bit in reversed(bits):
            pairs = zip(answers[::2], answers[1::2], strict=True)
            answers = [no ^ (bit & (no ^ yes)) for no, yes in pairs]
        bits += answers
        leaf *= 2
        leaf += answers[0]
    return leaf


FEW_PER_COLUMN = 6
"""With more questions for each column, counting pairs of cells is faster than pairs of answers."""


def explained(
    asked: Predicates, order: int, codes: Codes, sizes: list[int], values: Floats
) -> Integers:
    """Add up values over the rows that meet one, two or three questions, as `joint_table` does.

    Parameters
    ----------
    asked : Questions
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
    assert isinstance(asked, Questions)
    if order != 2 or len(asked) < FEW_PER_COLUMN * len(codes):
        X: NDArray[Any] = codes.T
        alike, weights = np.zeros(len(values), dtype=np.intp), values.astype(np.int64)
        found: Integers = joint_table(asked.above, len(asked), X, alike, weights, 1, order)[0]
        return found
    table = np.zeros((len(asked) + 1, len(asked) + 1))
    table[0, 0] = values.sum()
    seen: list[tuple[NDArray[np.intp], Floats, NDArray[np.intp]]] = []
    for position in np.unique(asked.features).tolist():
        mine = np.flatnonzero(asked.features == position)
        line, cells = codes[position].astype(np.intp), np.arange(sizes[position])
        met = np.array(
            [asked.inside(question, cells) for question in mine.tolist()], dtype=np.float64
        )
        alone = np.bincount(line, values, minlength=len(cells))
        table[0, mine + 1] = table[mine + 1, 0] = met @ alone
        table[np.ix_(mine + 1, mine + 1)] = (met * alone) @ met.T
        line *= max(sizes)
        for others, of_other, other in seen:
            both = np.bincount(line + other, values, minlength=len(cells) * max(sizes))
            both = both.reshape(len(cells), -1)[:, : of_other.shape[1]]
            block = met @ both @ of_other.T
            table[np.ix_(mine + 1, others + 1)] = block
            table[np.ix_(others + 1, mine + 1)] = block.T
        seen.append((mine, met, line // max(sizes)))
    return table.astype(np.int64)


def questions(features: FeatureMap, codes: Codes) -> Questions:
    """List the questions that part the public rows, one for each way to part them.

    Numbers are asked whether they are above a cut, categories whether they are one of them, and
    both whether they are missing.
    """
    asked: list[tuple[int, int, int, str, str]] = []
    for position, feature in enumerate(features.features):
        missing, column = feature.size - 1, feature.column
        if column.categorical:
            for code, label in enumerate(feature.labels[:-1]):
                asked.append((position, code, code, f"is {label}", f"is not {label}"))
        else:
            for code, cut in enumerate(feature.cuts.tolist()):
                text = column.text(cut) if column.counted else shown(cut)
                asked.append((position, code + 1, missing - 1, f"> {text}", f"<= {text}"))
        asked.append((position, missing, missing, "is missing", "is known"))
    listed = Questions(
        np.array([a[0] for a in asked], dtype=np.intp),
        np.array([a[1] for a in asked], dtype=np.intp),
        np.array([a[2] for a in asked], dtype=np.intp),
        np.array([a[3:] for a in asked], dtype=object).reshape(-1, 2),
    )
    return listed[one_per_partition(listed, codes.T)]


def tree_cover(
    asked: Questions, codes: Codes, names: tuple[str, ...], classes: NDArray[Any], depth: int
) -> TreeCover:
    """Return all trees of a depth that ask given questions, weighed by public rows."""
    public = PublicSample(codes.T.astype(np.float64), classes, names)
    prior = split_prior(asked, public, 0.05)
    return TreeCover(asked, depth, prior, public)
