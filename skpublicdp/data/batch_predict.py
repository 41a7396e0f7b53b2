"""Predictions for in-memory or streamed rows, with a warning about unknown categories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_regressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from skpublicdp.data.labels import (
    check_comparable,
    check_length,
    kind_of_labels,
    label_column,
    labels_equal,
)
from skpublicdp.data.schema import Column, Schema
from skpublicdp.data.streaming import Chunk, RowSource, as_rows, is_streamed
from skpublicdp.data.tables import Table
from skpublicdp.data.validation import (
    check_columns,
    is_list_of_records,
    read_records,
    read_table,
)
from skpublicdp.data.value_conversion import MAX_LISTED_COLUMNS
from skpublicdp.exceptions import UnknownCategoriesWarning, warn
from skpublicdp.typing import Codes, Integers, R

Rule = Callable[[Table], NDArray[Any]]
"""Function that maps a table of n rows to n predictions."""


def predict_batches(estimator: Any, X: Any, rule: Rule, *, numeric: bool = False) -> NDArray[Any]:
    """Apply a rule to rows, and return the predictions in the order of the rows."""
    if not is_streamed(X):
        return apply_rule(estimator, X, rule, numeric)
    rows = as_rows(X)
    rows.check_ordered("Predictions")
    chunks = _predict_streamed(estimator, rows, rule, numeric)
    return np.concatenate([predictions for predictions, _ in chunks])


def apply_rule(estimator: Any, X: Any, rule: Callable[[Table], R], numeric: bool = False) -> R:
    """Return the result of a function of rows in memory, and warn about unknown categories."""
    if is_list_of_records(X):
        table = read_records(estimator, X)
    else:
        table = read_table(estimator, X, reset=False, numeric=numeric)
    columns = _schema_columns(estimator)
    counting_table = _CategoryCountingTable(table, columns)
    result = rule(counting_table)
    _warn_unknown_categories(columns, counting_table.counts)
    return result


class ScoreMixin:
    """Mixin whose `score` reads `y` with the reader of `fit`, so it accepts the same labels."""

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy for labels or R² for outcomes, without privacy protection.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Rows to predict.
        y : array-like, shape (n,)
            Labels or outcomes.
        sample_weight : array-like, shape (n,), optional
            Weights of the rows.

        Returns
        -------
        float
            The score, to which no noise is added. The score of private rows must not be
            published.
        """
        predicted = self.predict(X)  # type: ignore[attr-defined]
        return self._score_predictions(y, predicted, sample_weight)

    def _score_predictions(self, y: Any, predicted: NDArray[Any], weights: Any) -> float:
        """Return the score of predictions in memory."""
        y = self._read_target(y)
        check_length(y, len(predicted))
        if is_regressor(self):
            return float(r2_score(y, predicted, sample_weight=weights))
        check_comparable(y=kind_of_labels(y[:1]), classes_=kind_of_labels(predicted[:1]))
        is_correct = labels_equal(y, predicted)
        return float(accuracy_score(np.ones_like(is_correct), is_correct, sample_weight=weights))

    def _read_target(self, y: Any) -> NDArray[Any]:
        """Return labels or outcomes as `fit` reads them."""
        return label_column(y)


class StreamedScoreMixin(ScoreMixin):
    """Mixin for classifiers and regressors whose `score` accepts streamed rows.

    A subclass defines `_rule()`, which returns the function for `predict_batches`. This function
    must not refer to the estimator. The subclass sets `_numeric` if text and categorical columns
    are rejected.
    """

    _numeric = False

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy for labels or R² for outcomes, without privacy protection.

        Parameters
        ----------
        X : array-like, DataFrame or streamed rows, shape (n, n_features)
            Rows to predict.
        y : array-like, shape (n,), or a column of the same streamed rows
            Labels or outcomes.
        sample_weight : array-like, shape (n,), optional
            Weights of the rows.

        Returns
        -------
        float
            The score, to which no noise is added. The score of private rows must not be
            published.
        """
        if not is_streamed(X):
            return super().score(X, y, sample_weight)
        chunks = _predict_streamed(self, as_rows(X, y), self._rule(), self._numeric)
        predictions, labels = zip(*chunks, strict=True)
        predicted = np.concatenate(predictions)
        # labels are read together with the rows, since `y` is a column of the source
        y = np.concatenate(labels)
        return self._score_predictions(y, predicted, sample_weight)

    def _rule(self) -> Rule:
        """Return the function that maps a `Table` of rows to predictions."""
        raise NotImplementedError


class FittedClassifierMixin(StreamedScoreMixin):
    """Mixin that predicts with a fitted classifier of numeric rows, `estimator_`.

    The rows are encoded by the schema of the fit, `_schema`, and clipped to its bounds, since the
    classifier might fail far outside the range of public rows.
    """

    _numeric = True
    estimator_: Any
    _schema: Schema

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n,)
            A label of `classes_` for each row.
        """
        return predict_batches(self, X, self._rule(), numeric=True)

    def _rule(self, method: str = "predict") -> Rule:
        """Return a function that calls a method of the fitted classifier."""
        check_is_fitted(self)
        predict, schema = getattr(self.estimator_, method), self._schema
        return lambda table: predict(schema.encode(table, clamp=True))

    @property
    def _columns_at_fit(self) -> Sequence[Column]:
        """Return the columns that were passed to `fit`, with their names and types."""
        return self._schema.columns


def _schema_columns(estimator: Any) -> Sequence[Column]:
    """Return a fitted estimator's schema columns, or none if it accepts only numbers."""
    return getattr(estimator, "_columns_at_fit", ())


class _CategoryCountingTable(Table):
    """Table that counts known and unknown categories while a rule reads the columns.

    Attributes
    ----------
    counts : ndarray of int64, shape (2, n_columns)
        Number of values in each column whose category is known (row 0) or unknown (row 1). Missing
        values are not counted. The counts are zero for numeric columns and for columns that had no
        categories at fit.
    """

    def __init__(self, table: Table, columns: Sequence[Column]) -> None:
        vars(self).update(vars(table))  # including columns and types that were already read
        self._columns = columns
        self.counts = np.zeros((2, len(columns)), dtype=np.int64)

    def distinct(self, position: int) -> tuple[NDArray[Any], Codes | None]:
        """Return distinct values of a column and their indices, and count its categories."""
        values, indices = super().distinct(position)
        column = self._columns[position] if self._columns else None
        if column is None or not column.categorical or not len(column.values):
            return values, indices
        codes = column.encode(values).astype(np.intp)
        if indices is not None:
            codes = np.take(codes, indices)
        counts = np.bincount(codes, minlength=column.n_categories)
        *n_known, n_unknown, _ = counts.tolist()
        self.counts[:, position] += (sum(n_known), n_unknown)
        return values, indices


def _warn_unknown_categories(columns: Sequence[Column], counts: Integers) -> None:
    """Issue a single warning about all columns with more unknown than known values.

    The warning uses the `warnings` module, so that `call_silently` suppresses it for private rows.
    The parameters are attributes of a `_CategoryCountingTable`.
    """
    n_known, n_unknown = counts
    is_mostly_unknown = n_unknown > n_known
    names = [
        column.name
        for column, is_listed in zip(columns, is_mostly_unknown, strict=True)
        if is_listed
    ]
    if names:
        listed = ", ".join(names[:MAX_LISTED_COLUMNS])
        listed += ", ..." if len(names) > MAX_LISTED_COLUMNS else ""
        warn(
            "Most values of a categorical column are unknown, because they occur neither in the "
            "public rows nor in the column types passed to fit. Check the spelling of the values "
            f"in column {listed}.",
            UnknownCategoriesWarning,
        )


def _predict_streamed(
    estimator: Any, rows: RowSource, rule: Rule, numeric: bool
) -> Iterator[tuple[NDArray[Any], Any]]:
    """Yield (predictions, labels or None) for each chunk of streamed rows, in order.

    A warning about unknown categories is issued after the last chunk. The parameters are those of
    `predict_batches`.
    """
    table = check_columns(estimator, Table(rows.empty()), reset=False, numeric=numeric)
    # in the order of `fit`; the columns of arrays have no names, so their order cannot differ
    column_names = None if rows.names is None else table.labels
    schema_columns = _schema_columns(estimator)

    def predict_chunk(chunk: Chunk) -> tuple[NDArray[Any], Any, Integers]:
        """Return the predictions, the labels, and the counts of known and unknown categories."""
        counting_table = _CategoryCountingTable(Table(chunk.X), schema_columns)
        predictions = rule(counting_table)
        labels = None if chunk.y is None else np.asarray(chunk.y)
        return predictions, labels, counting_table.counts

    counts = np.zeros((2, len(schema_columns)), dtype=np.int64)
    chunks = rows.map(predict_chunk, columns=column_names, keep_dictionaries=True)
    for predictions, labels, chunk_counts in chunks:
        counts += chunk_counts
        yield predictions, labels
    _warn_unknown_categories(schema_columns, counts)
