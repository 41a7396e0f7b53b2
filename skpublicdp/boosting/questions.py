"""Yes/no questions about the cells of a row: what vote trees ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.features import Codes, FeatureMap
from skpublicdp.hypotheses.base import PublicSample
from skpublicdp.hypotheses.splits import Predicates, one_per_partition, shown, split_prior
from skpublicdp.hypotheses.trees import TreeCover


@dataclass(frozen=True, eq=False)
class Questions(Predicates):
    """Predicates "is the cell of this column within a range".

    Attributes
    ----------
    features : ndarray of intp, shape (n_questions,)
        Column each one looks at.
    first, last : ndarray of int16, shape (n_questions,)
        The range, both ends included.
    texts : ndarray of object, shape (n_questions, 2)
        The question and its opposite in words.
    """

    features: NDArray[np.intp]
    first: NDArray[np.int16]
    last: NDArray[np.int16]
    texts: NDArray[Any]

    def __getitem__(self, index: int | slice | NDArray[np.intp]) -> Questions:
        features = np.atleast_1d(self.features[index])
        texts = self.texts[index].reshape(len(features), 2)
        return Questions(
            features, np.atleast_1d(self.first[index]), np.atleast_1d(self.last[index]), texts
        )

    def met(self, predicate: int, column: NDArray[Any], out: NDArray[np.float32]) -> None:
        """Write 1 for each row of which the answer is yes."""
        inside = column >= self.first[predicate]
        inside &= column <= self.last[predicate]
        out[:] = inside

    def describe(self, predicate: int, names: tuple[str, ...], *, above: bool = True) -> str:
        """Return a question, or its opposite, in words."""
        text: str = self.texts[predicate, 0 if above else 1]
        return f"{names[self.features[predicate]]} {text}"


def carried_questions(asked: Questions, features: FeatureMap, finer: FeatureMap) -> Questions:
    """Ask the same of cells that were cut further."""
    first, last = asked.first.copy(), asked.last.copy()
    for position, (old, new) in enumerate(zip(features.features, finer.features, strict=True)):
        if old.column.categorical:
            continue
        mine = asked.features == position
        # where the old cells begin among the new ones, and that for missing values
        begins = np.append(np.searchsorted(new.cuts, old.cuts) + 1, new.size - 1)
        begins = np.insert(begins, 0, 0).astype(np.int16)
        first[mine] = begins[asked.first[mine]]
        last[mine] = np.append(begins[1:] - 1, new.size - 1)[asked.last[mine]]
    return Questions(asked.features, first, last, asked.texts)


def questions(features: FeatureMap, codes: Codes) -> Questions:
    """List the questions that part the public rows, one for each way to part them.

    Numbers are asked whether they are above a cut, categories whether they are one of them, and
    both whether they are missing.
    """
    asked: list[tuple[int, int, int, str, str]] = []
    for position, feature in enumerate(features.features):
        missing = feature.size - 1
        if feature.column.categorical:
            for code, label in enumerate(feature.labels[:-1]):
                asked.append((position, code, code, f"is {label}", f"is not {label}"))
        else:
            for code, cut in enumerate(feature.cuts.tolist()):
                text = shown(cut)
                asked.append((position, code + 1, missing - 1, f"> {text}", f"<= {text}"))
        asked.append((position, missing, missing, "is missing", "is known"))
    listed = Questions(
        np.array([a[0] for a in asked], dtype=np.intp),
        np.array([a[1] for a in asked], dtype=np.int16),
        np.array([a[2] for a in asked], dtype=np.int16),
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
