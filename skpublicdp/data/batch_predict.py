"""Prediction of rows in memory or streamed, with a warning about unknown categories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score

from skpublicdp.data.schema import Column
from skpublicdp.data.streaming import AcceptsDictionaries, Chunk, RowSource, as_rows, is_streamed
from skpublicdp.data.tables import Table
from skpublicdp.data.validation import check_columns, read_table
from skpublicdp.exceptions import UnknownCategoriesWarning, warn
from skpublicdp.typing import Integers, R

Rule = Callable[[Table], NDArray[Any]]


def predict_batches(estimator: Any, X: Any, rule: Rule, *, numeric: bool = False) -> NDArray[Any]:
    """Return the predictions of a rule, in the order of rows.

    Parameters
    ----------
    estimator : estimator
        Fitted estimator, which has the names and the number of columns.
    X : array-like, DataFrame or streamed rows, shape (n, n_features)
        Rows. Streamed rows are read in chunks.
    rule : callable
        Maps a `Table`, with the columns in the order of `fit`, to predictions. Dask calls it on
        the workers, so it must be picklable.
    numeric : bool
        Whether text and categories are refused.

    Returns
    -------
    ndarray, shape (n,) or (n, n_outputs)

    Raises
    ------
    ValueError
        If a column is of another kind than at fit, or if streamed rows have no fixed order.

    Warns
    -----
    UnknownCategoriesWarning
        If more values of a categorical column are unknown than known.
    """
    if not is_streamed(X):
        return apply_rule(estimator, X, rule, numeric)
    rows = as_rows(X)
    rows.check_ordered("Predictions")
    chunks = _predict_streamed(estimator, rows, rule, numeric)
    return np.concatenate([predictions for predictions, _ in chunks])


def apply_rule(estimator: Any, X: Any, rule: Callable[[Table], R], numeric: bool = False) -> R:
    """Return the result of a rule for rows in memory, and warn about unknown categories.

    Parameters are as in `predict_batches`, except that the rule may return any type.
    """
    table = read_table(estimator, X, reset=False, numeric=numeric)
    columns = _schema_columns(estimator)
    counting_table = _CategoryCountingTable(table.native, columns)
    result = rule(counting_table)
    _warn_unknown_categories(columns, counting_table.counts)
    return result


class StreamedScoreMixin:
    """Mixin whose `score` accepts streamed rows, for classifiers and regressors.

    A subclass defines `_rule()`, which returns the function of `predict_batches` without a
    reference to the estimator. It sets `_numeric` if text and categories are refused.
    """

    _numeric = False

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of labels, or the R² of outcomes, without privacy protection.

        Parameters
        ----------
        X : array-like, DataFrame or streamed rows, shape (n, n_features)
            Rows.
        y : array-like, shape (n,), or a column of the same streamed rows
            Labels or outcomes.
        sample_weight : array-like, shape (n,), optional
            Weights of the rows.

        Returns
        -------
        float
            The score. It has no noise: do not publish the score of private rows.
        """
        if is_streamed(X):
            chunks = _predict_streamed(self, as_rows(X, y), self._rule(), self._numeric)
            predictions, labels = zip(*chunks, strict=True)
            predicted, y = np.concatenate(predictions), np.concatenate(labels)
        else:
            predicted = self.predict(X)  # type: ignore[attr-defined]
        metric = accuracy_score if is_classifier(self) else r2_score
        return float(metric(y, predicted, sample_weight=sample_weight))

    def _rule(self) -> Rule:
        """Return the prediction function of tables."""
        raise NotImplementedError


def _schema_columns(estimator: Any) -> Sequence[Column]:
    """Return the columns of a fitted estimator's schema, or an empty sequence without one."""
    columns: Sequence[Column] = getattr(estimator, "_columns_at_fit", ())
    return columns


class _CategoryCountingTable(Table):
    """A table that counts known and unknown categories while a rule reads its columns.

    Attributes
    ----------
    counts : ndarray of int64, shape (2, n_columns)
        Numbers of known values (first line) and unknown values (second line). Missing values are
        not counted, nor are columns without any category at fit.
    """

    def __init__(self, native: Any, columns: Sequence[Column]) -> None:
        super().__init__(native)
        self._columns = columns
        self.counts = np.zeros((2, len(columns)), dtype=np.int64)

    def map_distinct(
        self, position: int, code: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> NDArray[Any]:
        """Return the codes of a column, and count its categories.

        Code and status (known, unknown or missing) of a value are packed into one integer, so that
        a single lookup gives both.
        """
        column = self._columns[position] if self._columns else None
        if column is None or not column.categorical or not len(column.values):
            return super().map_distinct(position, code)
        dtypes, n_categories = [], len(column.values)

        def code_and_status(values: NDArray[Any]) -> Integers:
            """Return 3 * code + status, where status is 0 (known), 1 (unknown) or 2 (missing)."""
            codes, categories = code(values), column.encode(values)
            dtypes.append(codes.dtype)
            status = (categories >= n_categories).astype(np.int64) + (categories > n_categories)
            return 3 * codes.astype(np.int64) + status

        packed = super().map_distinct(position, code_and_status)
        self.counts[:, position] += np.bincount(packed % 3, minlength=3)[:2]
        return (packed // 3).astype(dtypes[-1])


def _warn_unknown_categories(columns: Sequence[Column], counts: Integers) -> None:
    """Warn once about all columns with more unknown than known categories.

    The warning uses the `warnings` module, so that `call_silently` drops it on private rows.
    """
    mostly_unknown = counts[1] > counts[0]
    names = [column.name for column, flag in zip(columns, mostly_unknown, strict=True) if flag]
    if names:
        listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        warn(
            "Most values of a categorical column are unknown, since they occurred in no public row "
            f"and no column type at fit. Check the spelling in column {listed}.",
            UnknownCategoriesWarning,
        )


def _predict_streamed(
    estimator: Any, rows: RowSource, rule: Rule, numeric: bool
) -> Iterator[tuple[NDArray[Any], Any]]:
    """Yield predictions and labels of each chunk, and warn once after the last chunk."""
    table = check_columns(estimator, Table(rows.empty()), reset=False, numeric=numeric)
    column_names = None if rows.names is None else table.labels
    schema_columns = _schema_columns(estimator)

    def predict_chunk(chunk: Chunk) -> tuple[NDArray[Any], Any, Integers]:
        """Return predictions, labels, and counts of known and unknown categories."""
        counting_table = _CategoryCountingTable(chunk.X, schema_columns)
        predictions = rule(counting_table)
        labels = None if chunk.y is None else np.asarray(chunk.y)
        return predictions, labels, counting_table.counts

    counts = np.zeros((2, len(schema_columns)), dtype=np.int64)
    chunks = rows.map(AcceptsDictionaries(predict_chunk), columns=column_names)
    for predictions, labels, chunk_counts in chunks:
        counts += chunk_counts
        yield predictions, labels
    _warn_unknown_categories(schema_columns, counts)
