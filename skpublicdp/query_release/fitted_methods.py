"""Methods of a fitted `PAPQueryRelease`: answers, intervals, tables, synthetic rows and scores."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import Seed
from skpublicdp.data.batch_predict import apply_rule
from skpublicdp.data.schema import Column
from skpublicdp.data.tables import is_frame
from skpublicdp.data.validation import read_table
from skpublicdp.privacy.ledger import public_seed
from skpublicdp.query_release.column_methods import ColumnMethodsMixin, check_level
from skpublicdp.query_release.queries.base import QueryClass


class FittedReleaseMixin(ColumnMethodsMixin, HTMLReprMixin, TransformerMixin, BaseEstimator):
    """Methods of a fitted release. All are post-processing of released numbers: no privacy cost."""

    queries_: QueryClass
    random_state: Seed

    @property
    def _columns_at_fit(self) -> tuple[Column, ...]:
        """The schema's description of each column of the rows passed to `fit`."""
        return self._schema.columns

    def answer(self, Q: Any) -> NDArray[np.float64]:
        """Estimate the fraction of the population that satisfies each query.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries, in the format that the query class documents.

        Returns
        -------
        ndarray of shape (n_queries,)
            Answers in [0, 1].

        Warns
        -----
        UnmeasuredWarning
            If no released table contains all columns of a query about cells. The answer is then an
            estimate from the other tables.
        """
        check_is_fitted(self)
        return self._released.answer(self._check_queries(Q))

    def holds(self, Q: Any, X: Any) -> NDArray[np.bool_]:
        """Evaluate queries on rows, without using the released results.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries.
        X : array-like or DataFrame, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of bool, shape (n_queries, n)
            Whether each query holds for each row. `answer` estimates the mean over the population.
        """
        check_is_fitted(self)
        queries, schema = self._released.queries, self._schema
        rows = apply_rule(self, X, schema.encode)
        return queries.holds(queries.encode(self._check_queries(Q), schema), rows)

    def interval(
        self, Q: Any, level: float | Fraction = 0.95, *, simultaneous: bool = False
    ) -> NDArray[np.float64]:
        """Return confidence intervals of the population's fractions.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries, as in `answer`.
        level : float, default=0.95
            Coverage over samples and noise, in (0, 1). For cells of tables it holds on average
            over cells, and single cells may be covered less often.
        simultaneous : bool, default=False
            Whether all intervals hold together with probability `level`, or each one separately.
            Simultaneous intervals of tables contain the intervals of the noisy answers alone, so
            that they hold without assumptions about public rows or a model.

        Returns
        -------
        ndarray of shape (n_queries, 2)
            Low and high. The intervals account for the noise, for the sampling of rows, which are
            assumed to be independent, and for the estimated shift of the public rows.

        Raises
        ------
        ValueError
            If the method or the query class has no intervals.
        """
        check_is_fitted(self)
        return self._released.intervals(
            self._check_queries(Q), check_level(level), simultaneous=bool(simultaneous)
        )

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Answer queries, as a step of a pipeline.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n_queries, ...)
            Queries. They are called `X` because scikit-learn's pipelines pass them by this name.

        Returns
        -------
        ndarray of shape (n_queries, 1)
            Answers in [0, 1].
        """
        return self.answer(X)[:, None]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the name of the column that `transform` returns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str, shape (1,)
        """
        check_is_fitted(self)
        return np.array(["fraction"], dtype=object)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean absolute error of the answers on held-out rows.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Held-out rows. They are not protected: the score depends on them without noise, like all
            scores of scikit-learn. Do not publish it.
        y : None
            Ignored.

        Returns
        -------
        float
            Minus the mean error over all cells of the tables of the class, or over queries at
            quantiles of these rows.
        """
        check_is_fitted(self)
        return -self._released.mean_error(apply_rule(self, X, self._schema.encode))

    def table(
        self,
        columns: str | int | Sequence[str | int],
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
    ) -> Any:
        """Return the marginal of some columns: a fraction for each combination of their values.

        Parameters
        ----------
        columns : str, int, or sequence of these
            Names or positions of columns that are together in a released table.
        level, simultaneous
            Coverage of the intervals, as in `interval`.

        Returns
        -------
        DataFrame or dict of str to ndarray
            The columns, then ``fraction``, and ``low`` and ``high``, the ends of the intervals. It
            is a frame if `X` was one.

        Raises
        ------
        ValueError
            If a column does not exist, or no released table contains all of them.
        """
        check_is_fitted(self)
        columns = [columns] if isinstance(columns, str | int | Integral) else list(columns)
        positions = [self._schema.position(column) for column in columns]
        return self._released.describe_table(
            positions, check_level(level), simultaneous=bool(simultaneous)
        )

    def sample(self, n: int | Integral = 1) -> Any:
        """Draw synthetic rows.

        Parameters
        ----------
        n : int, default=1
            Number of rows.

        Returns
        -------
        DataFrame or ndarray, shape (n, n_features)
            Rows in the type of container that `X` had. They cost no privacy.
        """
        check_is_fitted(self)
        if not isinstance(n, Integral) or n < 0:
            raise ValueError(f"n must be a non-negative integer; got {n!r}.")
        seed = public_seed(self.random_state)
        generator = np.random.default_rng([seed, 1])  # independent of the stream of `fit`
        return self._schema.decode(self._released.answers.sample(int(n), generator))

    def _check_queries(self, Q: Any) -> Any:
        """Return the user's queries, after comparing their columns with the columns of `fit`.

        Only queries that have the same columns as rows are compared: thresholds, and cells as
        arrays. Other queries are returned unchanged, and are checked by `QueryClass.encode`.
        """
        if isinstance(Q, list | tuple):
            return Q
        has_names = is_frame(Q)
        queries = Q if has_names else np.asarray(Q)
        # `read_table` would warn about an array without names after a fit on a frame
        is_comparable = has_names or not hasattr(self, "feature_names_in_")
        has_columns = self.queries_.has_columns_of_rows(as_frame=has_names)
        if has_columns and queries.ndim > 1 and is_comparable:
            # kinds may differ, since a query may contain a date as text
            return read_table(self, queries, reset=False, numeric=False, kinds=False).native
        return Q
