"""Additive counts of scored rows by label and bin, in memory or in batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.roles import cap_rows_per_group
from skpublicdp.data.streaming import Chunk, RowSource, as_rows, is_streamed
from skpublicdp.data.tables import take_rows
from skpublicdp.metrics.label_codes import (
    call_estimator,
    check_lengths,
    contingency_table,
    count_rows,
    label_codes,
    score_column,
    unknown_as_error,
)
from skpublicdp.metrics.score_bins import ScoreBins
from skpublicdp.typing import Integers


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class ScoredRows:
    """Labelled rows that an estimator is scored on, with the design effect of their groups.

    Attributes
    ----------
    source : RowSource or None
        Source of streamed rows.
    X, y
        Rows and labels in memory otherwise.
    n : int
        Number of rows that are counted.
    design_effect : float
        Design effect Σ nᵢ² / Σ nᵢ for persons with nᵢ counted rows; 1 if rows are independent.
    """

    __test__ = False  # pytest must not collect it

    source: RowSource | None
    X: Any
    y: Any
    n: int
    design_effect: float

    def count(self, counts: LabelCounter) -> Integers:
        """Return the sum of a counter over all rows."""
        if self.source is not None:
            return np.asarray(self.source.fold(counts))
        return counts.count(self.X, self.y, self.n)


def read_scored_rows(X: Any, y: Any, groups: Any, max_rows: int | None) -> ScoredRows:
    """Return the rows to score: the first `max_rows` rows of each person.

    Parameters
    ----------
    X, y
        Rows and labels, in memory or streamed.
    groups : array-like of shape (n,), column of streamed rows, or None
        Person of each row, which is public.
    max_rows : int or None
        Maximum number of rows per person.
    """
    if (groups is None) != (max_rows is None):
        raise ValueError(
            "groups and max_rows_per_group must be given together: the person of each row, and the "
            "maximum number of counted rows of a person."
        )
    source = as_rows(X, y) if is_streamed(X) else None
    n = check_lengths(X=X, y=y) if source is None else source.n_rows
    if not n:
        raise ValueError("X must hold at least one row; got none.")
    if max_rows is None:
        return ScoredRows(source, X, y, n, 1.0)
    persons = groups
    if source is not None and is_streamed(groups):
        rows_and_groups = as_rows(source, groups)
        rows_and_groups.check_ordered("Groups")
        persons = np.concatenate(list(rows_and_groups.map_labels(np.asarray)))
    is_counted = cap_rows_per_group(_GroupCap(max_rows), persons, np.ones(n, dtype=bool))
    # numpy.unique would sort the names, and names of several types have no order
    sizes = np.array(list(Counter(np.asarray(persons)[is_counted].tolist()).values()))
    design_effect = float((sizes**2).sum() / sizes.sum())
    if source is not None:
        n_counted = int(is_counted.sum())
        return ScoredRows(source.with_mask(is_counted), None, None, n_counted, design_effect)
    rows = np.flatnonzero(is_counted)
    return ScoredRows(None, take_rows(X, rows), take_rows(y, rows), len(rows), design_effect)


read_scored_rows.__test__ = False  # type: ignore[attr-defined]  # pytest must not collect it


@dataclass(frozen=True)
class _GroupCap:
    """The parameter that `cap_rows_per_group` reads from an estimator."""

    max_rows_per_group: int


@dataclass(frozen=True, eq=False)
class LabelCounter:
    """Counter of correct predictions and of rows by label and bin, which workers can unpickle.

    Attributes
    ----------
    estimator : classifier
        Fitted classifier.
    labels : list
        The public labels.
    positive : int
        Index of the positive label.
    column : int
        Column of the positive label in the estimator's scores.
    response : str
        Method that returns scores, or "predict".
    score_bins : ScoreBins or None
        Bins of the scores, with two labels.
    """

    estimator: Any
    labels: list[Any]
    positive: int
    column: int
    response: str
    score_bins: ScoreBins | None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of labels, and number of bins; without scores, predicted labels are bins."""
        n_labels = len(self.labels)
        return n_labels, n_labels if self.score_bins is None else self.score_bins.n_bins

    def __call__(self, chunk: Chunk) -> Integers:
        """Return the counts of a chunk; see `count`."""
        return self.count(chunk.X, chunk.y, count_rows("X", chunk.X, min_rows=0))

    def count(self, X: Any, y: Any, n: int) -> Integers:
        """Return the number of correct predictions, followed by the counts by label and bin.

        Parameters
        ----------
        X, y
            Rows and labels.
        n : int
            Number of rows.

        Returns
        -------
        ndarray of int64, shape (1 + n_labels * n_bins,)
            Sums over rows. With two labels and scores, row 0 of the table has the negative label.
        """
        if not n:  # some estimators reject an empty X
            return np.zeros(1 + self.shape[0] * self.shape[1], dtype=np.int64)
        codes = label_codes("y", y, self.labels)
        predicted = label_codes(
            "predict", call_estimator(self.estimator, "predict", X, n), self.labels
        )
        n_correct = np.count_nonzero((codes == predicted) & (codes >= 0))
        codes, bins = unknown_as_error(codes, predicted, len(self.labels))
        if self.score_bins is not None:
            codes, is_positive = (codes == self.positive) * 1, bins == self.positive
            bins = self.score_bins.bin_of_score(self._scores(X, n), is_positive)
        flat = contingency_table(codes, bins, self.shape).ravel()
        return np.concatenate([[n_correct], flat]).astype(np.int64)

    def _scores(self, X: Any, n: int) -> NDArray[np.float64]:
        """Return the score of the positive label for each row; 0 for estimators without scores."""
        if self.response == "predict_proba":
            scores = call_estimator(self.estimator, self.response, X, n, 2)[:, self.column]
            return score_column(self.response, scores)
        if self.response == "predict":
            return np.zeros(n)
        scores = score_column(self.response, call_estimator(self.estimator, self.response, X, n))
        return scores if self.column else -scores
