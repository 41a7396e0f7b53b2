"""Predict rows in chunks, in memory or streamed, with one value per row."""

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
from skpublicdp.typing import R

Rule = Callable[[Table], NDArray[Any]]


def predict_batches(estimator: Any, X: Any, rule: Rule, *, numeric: bool = False) -> NDArray[Any]:
    """Return the predictions of a rule, in the order of rows.

    Parameters
    ----------
    estimator : estimator
        Has the names and the number of columns.
    X : array-like, DataFrame or streamed rows, shape (n, n_features)
        Rows; of streamed ones a few chunks are in memory at once.
    rule : callable
        Given a `Table` in the order of `fit`; on Dask it works on the workers, so that it must be
        picklable.
    numeric : bool
        Whether text and categories are refused.

    Returns
    -------
    ndarray of n values or lines

    Raises
    ------
    ValueError
        If a column is of another kind than at fit, or if streamed rows have no fixed order.

    Warns
    -----
    UnknownCategoriesWarning
        If more than half of the values of a categorical column are unknown.
    """
    if not is_streamed(X):
        return apply_rule(estimator, X, rule, numeric)
    rows = as_rows(X)
    rows.check_ordered("Predictions")
    return np.concatenate(
        [predictions for predictions, _ in _streamed(estimator, rows, rule, numeric)]
    )


def apply_rule(estimator: Any, X: Any, rule: Callable[[Table], R], numeric: bool = False) -> R:
    """Apply a rule to rows in memory, and warn where most categories are unknown.

    The arguments are those of `predict_batches`; the rule may return anything.
    """
    table = read_table(estimator, X, reset=False, numeric=numeric)
    columns = _columns_of(estimator)
    counting = _CountingTable(table.native, columns)
    result = rule(counting)
    _warn_of_unknown(columns, counting.counts)
    return result


class StreamedScoreMixin:
    """Mixin whose `score` accepts streamed rows, for classifiers and regressors.

    A subclass has `_rule()`, which returns the rule of `predict` without the estimator around it,
    and says whether its columns must be `numeric`.
    """

    _numeric = False

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of labels, or the R² of outcomes, on rows that are not protected.

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
            The score. It depends on the rows without noise: do not publish that of private ones.
        """
        if is_streamed(X):
            parts = list(_streamed(self, as_rows(X, y), self._rule(), self._numeric))
            predicted, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        else:
            predicted = self.predict(X)  # type: ignore[attr-defined]
        metric = accuracy_score if is_classifier(self) else r2_score
        return float(metric(y, predicted, sample_weight=sample_weight))

    def _rule(self) -> Rule:
        raise NotImplementedError


def _columns_of(estimator: Any) -> Sequence[Column]:
    columns: Sequence[Column] = getattr(estimator, "_columns_at_fit", ())
    return columns


class _CountingTable(Table):
    """Count known and unknown values of categorical columns while a rule reads their codes.

    Attributes
    ----------
    counts : ndarray of int64, shape (2, n_columns)
        Numbers of known and of unknown values. Missing values count as neither, and so does a
        column of which fit knew no category.
    """

    def __init__(self, native: Any, columns: Sequence[Column]) -> None:
        super().__init__(native)
        self._columns = columns
        self.counts = np.zeros((2, len(columns)), dtype=np.int64)

    def map_distinct(
        self, position: int, code: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> NDArray[Any]:
        """Return what a function of single values makes of a column."""
        column = self._columns[position] if self._columns else None
        if column is None or not column.categorical or not len(column.values):
            return super().map_distinct(position, code)
        dtypes, n_known = [], len(column.values)

        def code_and_status(values: NDArray[Any]) -> NDArray[np.int64]:
            codes, categories = code(values), column.encode(values)
            dtypes.append(codes.dtype)
            status = (categories >= n_known).astype(np.int64) + (categories > n_known)
            return 3 * codes.astype(np.int64) + status

        pairs = super().map_distinct(position, code_and_status)
        self.counts[:, position] += np.bincount(pairs % 3, minlength=3)[:2]
        return (pairs // 3).astype(dtypes[-1])


def _warn_of_unknown(columns: Sequence[Column], counts: NDArray[np.int64]) -> None:
    """Warn once of all columns of which more values are unknown than known.

    The warning goes through `warnings`, so that it is dropped where `call_silently` calls `predict`
    on private rows.
    """
    unknown = counts[1] > counts[0]
    named = [column.name for column, most in zip(columns, unknown, strict=True) if most]
    if named:
        listed = ", ".join(named[:5]) + (", ..." if len(named) > 5 else "")
        warn(
            "Most values of a categorical column are unknown, as no public row and no column type "
            f"had them at fit: check the spelling in column {listed}.",
            UnknownCategoriesWarning,
        )


def _streamed(
    estimator: Any, rows: RowSource, rule: Rule, numeric: bool
) -> Iterator[tuple[NDArray[Any], Any]]:
    """Yield predictions and labels chunk by chunk, and warn once after the last chunk."""
    table = check_columns(estimator, Table(rows.empty()), reset=False, numeric=numeric)
    columns = None if rows.names is None else table.labels
    described = _columns_of(estimator)

    def call(chunk: Chunk) -> tuple[NDArray[Any], Any, NDArray[np.int64]]:
        counting = _CountingTable(chunk.X, described)
        predictions = rule(counting)
        labels = None if chunk.y is None else np.asarray(chunk.y)
        return predictions, labels, counting.counts

    counts = np.zeros((2, len(described)), dtype=np.int64)
    for predictions, labels, of_chunk in rows.map(AcceptsDictionaries(call), columns=columns):
        counts += of_chunk
        yield predictions, labels
    _warn_of_unknown(described, counts)
