"""Score bins, and counts of rows by label and bin, in memory or in streamed batches."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from skpublicdp.accounting import Noise
from skpublicdp.data.roles import RowChooser, cap_rows_per_group, read_persons
from skpublicdp.data.streaming import Chunk, RowSource, as_rows, is_streamed
from skpublicdp.data.tables import pick_column, table_height, take_rows
from skpublicdp.metrics.label_tables import (
    call_estimator,
    check_lengths,
    contingency_table,
    label_codes,
    score_column,
    unknown_as_error,
)
from skpublicdp.metrics.public_bins import (
    MAX_SCORE_BINS,
    MIN_SCORE_BINS,
    PublicCurve,
    make_public_bins,
    target_bins,
)
from skpublicdp.typing import Codes, Floats, Integers, Mask


@dataclass(frozen=True, eq=False)
class ScoreBins:
    """Histogram bins of a classifier's scores.

    A score that equals an edge belongs to the bin below the edge.
    """

    edges: Floats  # (n_bins - 1,): edges between neighbouring bins, in increasing order
    first_positive: int  # index of the first bin in which rows are predicted to be positive
    # (n_bins,): center of each bin if the scores are probabilities, otherwise None. The center is
    # the mean score of the public rows in the bin, or its midpoint.
    centers: Floats | None
    # predicted distribution of the scores inside the bins; None if no public rows are given
    curve: PublicCurve | None = None

    @property
    def n_bins(self) -> int:
        """Number of bins, including the two unbounded outer bins."""
        return len(self.edges) + 1

    @property
    def predicts_positive(self) -> Mask:
        """For each bin, whether its rows are predicted to be positive, shape (n_bins,)."""
        return np.arange(self.n_bins) >= self.first_positive

    @property
    def positions(self) -> Floats:
        """A score inside each bin, shape (n_bins,)."""
        if self.centers is not None:
            return self.centers
        edges = self.edges
        widths = np.diff(edges)
        first = edges[0] - widths[0]
        last = edges[-1] + widths[-1]
        bounds = np.concatenate([[first], edges, [last]])
        return np.asarray((bounds[1:] + bounds[:-1]) / 2)

    def bin_of_score(self, scores: Floats, predicted: NDArray[np.bool_] | None) -> Codes:
        """Return the bin index of each score."""
        threshold = self.edges[self.first_positive - 1]
        bin_of_score = np.searchsorted(self.edges, np.where(np.isnan(scores), threshold, scores))
        if predicted is None:
            return bin_of_score
        positive = np.maximum(bin_of_score, self.first_positive)
        negative = np.minimum(bin_of_score, self.first_positive - 1)
        return np.where(predicted, positive, negative)


PREDICTED_LABEL_BINS = ScoreBins(np.zeros(1), 1, None)
"""Bins for an estimator without scores. All scores are 0, so the predicted labels serve as bins."""


def make_score_bins(
    noise: Noise,
    persons: float,
    response: str,
    threshold: float,
    n_labels: int = 2,
    public_scores: Floats | None = None,
) -> ScoreBins:
    """Return the histogram bins of the scores.

    The less noise a count has relative to the number of rows, the more bins there are.

    Parameters
    ----------
    noise : Gaussian or Pure
        Privacy cost of the counts, which determines their noise.
    persons : float
        Number of rows, divided by the maximum number of rows per person.
    response : {"predict_proba", "decision_function"}
        Method that returns the scores: probabilities, or log-odds.
    threshold : float
        Decision threshold, which becomes one of the edges.
    n_labels : int, default=2
        Number of labels. The spacing is symmetric in log-odds around the fraction 1 / n_labels.
    public_scores : ndarray of shape (n_public,), default=None
        Scores of public rows, at whose quantiles the edges lie. None uses a fixed grid.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from skpublicdp.accounting import Pure
    >>> make_score_bins(Pure(Fraction(1, 5)), 1040, "predict_proba", 0.5).edges.round(2)
    array([0.04, 0.15, 0.31, 0.5 , 0.69, 0.85, 0.96])
    """
    public_bins = None
    if public_scores is not None:
        public_bins = make_public_bins(noise, persons, response, threshold, public_scores)
    if public_bins is None:
        edges = np.union1d(_fixed_edges(noise, persons, response, n_labels), threshold)
        curve, means = None, np.array(np.nan)
    else:
        edges, means, curve = public_bins
    centers = None
    if response == "predict_proba":
        bin_ends = np.concatenate([[0.0], edges, [1.0]])
        midpoints = (bin_ends[1:] + bin_ends[:-1]) / 2
        centers = np.where(np.isnan(means), midpoints, means)
    first_positive = int(np.searchsorted(edges, threshold)) + 1
    return ScoreBins(edges, first_positive, centers, curve)


def _fixed_edges(noise: Noise, persons: float, response: str, n_labels: int) -> Floats:
    """Return edges in arcsine spacing, in which a proportion has similar standard errors."""
    power_of_two = 2 ** round(math.log2(target_bins(noise, persons)))  # even, so 1/2 is an edge
    n_bins = int(np.clip(power_of_two, MIN_SCORE_BINS, MAX_SCORE_BINS))
    ranks = np.arange(1, n_bins)
    angles = ranks * np.pi / (2 * n_bins)
    grid = np.sin(angles) ** 2
    grid[n_bins // 2 - 1] = 0.5  # exactly, without rounding error
    if n_labels > 2:
        grid = grid / (grid + (1 - grid) * (n_labels - 1))  # odds divided by n_labels - 1
    if response == "decision_function":
        grid = logit(grid)
    return np.asarray(grid)


class RowCounter(Protocol):
    """Function that sums integers over rows, such that each summand depends on a single row."""

    def __call__(self, chunk: Chunk) -> Integers:
        """Return the sums over one batch of streamed rows."""

    def count(self, X: Any, y: Any, n: int, by: Any = None) -> Integers:
        """Return the sums over n rows in memory; `by` are values by which they are grouped."""


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class ScoredRows:
    """Labelled rows used to score an estimator, with the design effect of their groups."""

    __test__ = False  # pytest must not collect it

    source: RowSource | None  # source of streamed rows; None if the rows are in memory
    # Rows and labels in memory. X and y are None for streamed rows.
    X: Any
    y: Any
    n: int  # number of counted rows
    # design effect Σ nᵢ² / Σ nᵢ for persons with nᵢ counted rows; 1 if rows are independent
    design_effect: float
    by: Any = None  # (n,): value by which rows in memory are grouped, unless it is a column of X

    @property
    def y_type(self) -> Any:
        """Labels of which only the declared type is read: an empty column for streamed rows."""
        return self.y if self.source is None else self.source.empty_labels()

    def count(self, counter: RowCounter) -> Integers:
        """Return the counts of `counter` over all rows; streamed rows are summed over batches."""
        if self.source is not None:
            return np.asarray(self.source.fold(counter))
        return counter.count(self.X, self.y, self.n, self.by)


def read_scored_rows(
    X: Any, y: Any, groups: Any, max_rows: int | None, ledger: RowChooser, by: Any = None
) -> ScoredRows:
    """Return the rows to score, which are at most `max_rows` random rows of each person.

    Parameters
    ----------
    X, y
        Rows and labels, either in memory or streamed.
    groups : array-like of shape (n,), column of streamed rows, or None
        Person identifier of each row, which is public.
    max_rows : int or None
        Maximum number of rows per person.
    by : array-like of shape (n,), default=None
        Private value by which rows in memory are grouped.
    """
    if (groups is None) != (max_rows is None):
        raise ValueError(
            "groups and max_rows_per_group must be given together: groups identifies the person of "
            "each row, and max_rows_per_group is the maximum number of rows counted per person."
        )
    source = as_rows(X, y) if is_streamed(X) else None
    columns = {"X": X, "y": y} if by is None else {"X": X, "y": y, "by": by}
    n = check_lengths(**columns) if source is None else source.n_rows
    if not n:
        raise ValueError("X must contain at least one row; got none.")
    if max_rows is None:
        return ScoredRows(source, X, y, n, 1.0, by)
    persons = groups if source is None else read_persons(source, groups)
    is_counted = cap_rows_per_group(max_rows, persons, np.ones(n, dtype=bool), ledger)
    # numpy.unique would sort the names, and names of different types have no order
    rows_of_person = Counter(np.asarray(persons)[is_counted].tolist())
    sizes = np.array(list(rows_of_person.values()))
    design_effect = float((sizes**2).sum() / sizes.sum())
    if source is not None:
        n_counted = int(is_counted.sum())
        return ScoredRows(
            source.with_mask(is_counted, groups, persons), None, None, n_counted, design_effect
        )
    rows = np.flatnonzero(is_counted)
    kept_by = None if by is None else take_rows(by, rows)
    return ScoredRows(
        None, take_rows(X, rows), take_rows(y, rows), len(rows), design_effect, kept_by
    )


read_scored_rows.__test__ = False  # type: ignore[attr-defined]  # pytest must not collect it


class ExactCounts(NamedTuple):
    """Exact counts of scored rows; these counts are private."""

    n_correct: Integers  # (1,): number of correct predictions
    # (n_groups * n_labels, n_bins): number of rows by group, label and bin. With two labels, the
    # first row of a group contains the negative label.
    table: Integers
    # (n_labels, 2, n_bins): for each of more than two labels, the number of rows with other labels
    # and the number of rows with this label, by bin of the label's score
    by_label: Integers


OTHER_GROUP = "(other)"
"""Name of the group of all rows whose value is not among the public values."""


class RowGroups(NamedTuple):
    """Public values by which rows are grouped."""

    values: list[Any]  # the public values, followed by `OTHER_GROUP`
    position: int | None  # column of X with the value of each row; None if it is passed by itself

    def codes(self, X: Any, by: Any) -> Codes:
        """Return the index of the group of each row."""
        column = by if self.position is None else pick_column(X, self.position)
        codes = label_codes("by", column, self.values[:-1])
        return np.where(codes < 0, len(self.values) - 1, codes)


@dataclass(frozen=True, eq=False)
class LabelCounter:
    """Function that counts correct predictions and counts rows by label and bin.

    The counter is a class instead of a closure, which makes it picklable for worker processes.
    """

    estimator: Any  # fitted classifier
    labels: list[Any]  # list of the public labels
    positive: int  # index of the positive label among `labels`
    score_labels: list[Any]  # labels of the estimator's score columns, from its `classes_`
    # Method that returns scores: "predict_proba" or "decision_function". The method is "predict" if
    # there are no scores.
    response: str
    # bins of the scores; None if there are more than two labels and no scores
    score_bins: ScoreBins | None = None
    groups: RowGroups | None = None  # groups of rows that are counted separately

    @property
    def n_groups(self) -> int:
        """Number of groups of rows, which is 1 without `groups`."""
        return 1 if self.groups is None else len(self.groups.values)

    @property
    def n_scored_labels(self) -> int:
        """Number of labels with scores.

        If there are two labels and no score method, both count as scored.
        """
        n_labels = len(self.labels)
        return n_labels if n_labels == 2 or (n_labels > 2 and self.response != "predict") else 0

    @property
    def table_bins(self) -> ScoreBins | None:
        """Bins of the table for two labels, or None if the predicted labels serve as its bins."""
        return self.score_bins if len(self.labels) == 2 else None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n_groups * n_labels, n_bins) of the table."""
        n_labels = len(self.labels)
        n_bins = n_labels if self.table_bins is None else self.table_bins.n_bins
        return self.n_groups * n_labels, n_bins

    @property
    def is_correct(self) -> Mask:
        """Mask of the table cells that contain correctly predicted rows."""
        if self.table_bins is None:
            is_correct = np.eye(len(self.labels), dtype=bool)
        else:
            predicts_positive = self.table_bins.predicts_positive
            is_correct = np.stack([~predicts_positive, predicts_positive])
        return np.tile(is_correct, (self.n_groups, 1))

    def __call__(self, chunk: Chunk) -> Integers:
        """Return the counts of one batch of streamed rows; see `count`."""
        return self.count(chunk.X, chunk.y, table_height(chunk.X))

    @property
    def by_label_shape(self) -> tuple[int, int, int]:
        """Shape of `ExactCounts.by_label`."""
        if self.score_bins is None or len(self.labels) == 2:
            return 0, 2, 1
        return len(self.labels), 2, self.score_bins.n_bins

    def split(self, flat: Integers) -> ExactCounts:
        """Return the components of an array from `count`, or of a sum of these arrays."""
        n_correct, table, by_label = np.split(flat, [1, 1 + math.prod(self.shape)])
        return ExactCounts(
            n_correct, table.reshape(self.shape), by_label.reshape(self.by_label_shape)
        )

    def public_scores(self, X_public: Any) -> Floats:
        """Return the scores of public rows, those of all labels if there are more than two."""
        n = check_lengths(X_public=X_public)
        if len(self.labels) == 2:
            return self._scores(X_public, n)
        scores = call_estimator(self.estimator, self.response, X_public, n, width=len(self.labels))
        return score_column(self.response, scores.ravel())

    def count(self, X: Any, y: Any, n: int, by: Any = None) -> Integers:
        """Return the counts in `ExactCounts` over n rows, as one flat array of int64."""
        if not n:  # some estimators reject an empty X
            n_counts = 1 + math.prod(self.shape) + math.prod(self.by_label_shape)
            return np.zeros(n_counts, dtype=np.int64)
        codes = label_codes("y", y, self.labels)
        predictions = call_estimator(self.estimator, "predict", X, n=n)
        predicted = label_codes("predict", predictions, self.labels)
        is_correct = (codes == predicted) & (codes >= 0)
        codes, predicted = unknown_as_error(codes, predicted, len(self.labels))
        bins = predicted
        by_label = np.zeros(0, dtype=np.int64)
        if self.table_bins is not None:
            codes = (codes == self.positive).astype(np.intp)
            is_positive = predicted == self.positive
            bins = self.table_bins.bin_of_score(self._scores(X, n), is_positive)
        elif self.score_bins is not None:
            by_label = self._count_by_label(codes, self.score_bins, X)
        if self.groups is not None:
            codes = codes + len(self.labels) * self.groups.codes(X, by)
        table = contingency_table(codes, bins, self.shape)
        n_correct = np.count_nonzero(is_correct)
        counts = np.concatenate([[n_correct], table.ravel(), by_label.ravel()])
        return counts.astype(np.int64)

    def _scores(self, X: Any, n: int) -> Floats:
        """Return the score of the positive label, if there are two labels, shape (n,).

        The score is 0 if there is no score method.
        """
        column = self.score_labels.index(self.labels[self.positive])
        if self.response == "predict":
            return np.zeros(n)
        if self.response == "predict_proba":
            probabilities = call_estimator(self.estimator, self.response, X, n=n, width=2)
            return score_column(self.response, probabilities[:, column])
        decisions = call_estimator(self.estimator, self.response, X, n=n)
        scores = score_column(self.response, decisions)
        # decision_function returns the score of classes_[1]
        return scores if column == 1 else -scores

    def _count_by_label(self, codes: Codes, score_bins: ScoreBins, X: Any) -> Integers:
        """Return, for each label, the numbers of other rows and own rows by bin of its score."""
        scores = call_estimator(
            self.estimator, self.response, X, n=len(codes), width=len(self.labels)
        )
        tables = []
        for code, label in enumerate(self.labels):
            column = scores[:, self.score_labels.index(label)]
            bins = score_bins.bin_of_score(score_column(self.response, column), None)
            is_own = (codes == code).astype(np.intp)
            tables.append(contingency_table(is_own, bins, self.by_label_shape[1:]))
        return np.stack(tables)
