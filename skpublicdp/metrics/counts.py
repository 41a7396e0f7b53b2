"""Rows of a test as one table of counts: at once, or chunk by chunk."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.masks import kept_rows, take
from skpublicdp.data.rows import Chunk, RowSource, as_rows, is_rows
from skpublicdp.metrics.label_codes import (
    call,
    check_lengths,
    count_rows,
    label_codes,
    score_column,
    table_of,
    wrong_if_unknown,
)
from skpublicdp.metrics.score_bins import Cells

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class TestRows:
    """Labelled rows that an estimator is scored on, and how many of them are whose.

    Attributes
    ----------
    source : RowSource or None
        Rows that are streamed.
    X, y
        Rows and labels in memory otherwise.
    n : int
        How many rows count.
    crowd : float
        How many rows the mean row's person has, itself included: 1 where rows are independent.
    """

    __test__ = False  # no test class

    source: RowSource | None
    X: Any
    y: Any
    n: int
    crowd: float

    def count(self, tally: Tally) -> Integers:
        """Return the sum of a tally over all rows."""
        if self.source is not None:
            return np.asarray(self.source.fold(tally))
        return tally.of(self.X, self.y, self.n)


def test_rows(X: Any, y: Any, groups: Any, most: int | None) -> TestRows:
    """Return rows that count: the first few of each person.

    Parameters
    ----------
    X, y
        Rows and labels, in memory or streamed.
    groups : array-like of shape (n,), column of streamed rows, or None
        Whose row each is, which is public.
    most : int or None
        How many rows of a person count.
    """
    if (groups is None) != (most is None):
        raise ValueError(
            "groups and max_rows_per_group must be given together: whose row each is, and how many "
            "rows of one person count."
        )
    source = as_rows(X, y) if is_rows(X) else None
    n = check_lengths(X=X, y=y) if source is None else source.n_rows
    if not n:
        raise ValueError("X must hold at least one row; got none.")
    if most is None:
        return TestRows(source, X, y, n, 1.0)
    persons = groups
    if source is not None and is_rows(groups):
        labelled = as_rows(source, groups)
        labelled.need_order("Groups")
        persons = np.concatenate(list(labelled.map_labels(np.asarray)))
    kept = kept_rows(_Persons(most), persons, np.ones(n, dtype=bool))
    # names need not be of one kind, and then have no order
    sizes = np.array(list(Counter(np.asarray(persons)[kept].tolist()).values()))
    crowd = float((sizes**2).sum() / sizes.sum())
    if source is not None:
        return TestRows(source.keeping(kept), None, None, int(kept.sum()), crowd)
    rows = np.flatnonzero(kept)
    return TestRows(None, take(X, rows), take(y, rows), len(rows), crowd)


test_rows.__test__ = False  # type: ignore[attr-defined]  # no test either


@dataclass(frozen=True)
class _Persons:
    max_rows_per_group: int


@dataclass(frozen=True, eq=False)
class Tally:
    """What is counted of rows: how many are predicted rightly, and those of each label and cell.

    It can be sent to the workers that hold the rows.

    Attributes
    ----------
    estimator : classifier
        Fitted.
    labels : list
        The labels.
    positive : int
        The one that scores speak for.
    column : int
        Its column among the estimator's own scores.
    response : str
        Method that gives scores, or "predict".
    cells : Cells or None
        With two labels: where scores are counted.
    """

    estimator: Any
    labels: list[Any]
    positive: int
    column: int
    response: str
    cells: Cells | None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of labels and of cells."""
        return len(self.labels), len(self.labels) if self.cells is None else self.cells.size

    def __call__(self, chunk: Chunk) -> Integers:
        """Count the rows of a chunk."""
        return self.of(chunk.X, chunk.y, count_rows("X", chunk.X, least=0))

    def of(self, X: Any, y: Any, n: int) -> Integers:
        """Return how many rows are right, then how many there are by label and cell."""
        size = self.shape[0] * self.shape[1]
        if not n:  # not every estimator predicts no rows
            return np.zeros(1 + size, dtype=np.int64)
        codes = label_codes("y", y, self.labels)
        predicted = label_codes("predict", call(self.estimator, "predict", X, n), self.labels)
        right = np.count_nonzero((codes == predicted) & (codes >= 0))
        codes, places = wrong_if_unknown(codes, predicted, len(self.labels))
        if self.cells is not None:
            codes, is_positive = (codes == self.positive) * 1, places == self.positive
            places = self.cells.place(self._scores(X, n), is_positive)
        flat = table_of(codes, places, self.shape).ravel()
        return np.concatenate([[right], flat]).astype(np.int64)

    def _scores(self, X: Any, n: int) -> NDArray[np.float64]:
        if self.response == "predict_proba":
            scores = call(self.estimator, self.response, X, n, 2)[:, self.column]
            return score_column(self.response, scores)
        if self.response == "predict":
            return np.zeros(n)
        scores = score_column(self.response, call(self.estimator, self.response, X, n))
        return scores if self.column else -scores
