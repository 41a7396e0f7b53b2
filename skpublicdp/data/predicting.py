"""Predictions of rows that need not fit in memory: one value for each, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score

from skpublicdp.data.frames import Table
from skpublicdp.data.reading import check_columns, read_table
from skpublicdp.data.rows import AsRead, Chunk, RowSource, as_rows, is_rows

Rule = Callable[[Table], NDArray[Any]]


def each_row(estimator: Any, X: Any, rule: Rule, *, numeric: bool = False) -> NDArray[Any]:
    """Return what a rule says of each row, in the order of rows.

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
        If streamed rows have no fixed order.
    """
    if not is_rows(X):
        return rule(read_table(estimator, X, reset=False, numeric=numeric))
    rows = as_rows(X)
    rows.need_order("Predictions")
    return np.concatenate([said for said, _ in _streamed(estimator, rows, rule, numeric)])


class ScoresRows:
    """Adds to `score` of a classifier or regressor that rows may be streamed.

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
        if is_rows(X):
            parts = list(_streamed(self, as_rows(X, y), self._rule(), self._numeric))
            predicted, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        else:
            predicted = self.predict(X)  # type: ignore[attr-defined]
        metric = accuracy_score if is_classifier(self) else r2_score
        return float(metric(y, predicted, sample_weight=sample_weight))

    def _rule(self) -> Rule:
        raise NotImplementedError


def _streamed(estimator: Any, rows: RowSource, rule: Rule, numeric: bool) -> Any:
    table = check_columns(estimator, Table(rows.empty()), reset=False, numeric=numeric)
    columns = None if rows.names is None else table.labels

    def call(chunk: Chunk) -> tuple[NDArray[Any], Any]:
        return rule(Table(chunk.X)), None if chunk.y is None else np.asarray(chunk.y)

    return rows.map(AsRead(call), columns=columns)
