"""Methods of a fitted `PAPQueryRelease`: answers, tables, samples, score and column statistics."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import check_level
from skpublicdp.accounting import PrivacyReceipt
from skpublicdp.data.batch_predict import apply_rule
from skpublicdp.data.schema import MISSING, Column, Schema
from skpublicdp.data.tables import is_frame
from skpublicdp.data.validation import read_table
from skpublicdp.exceptions import UncoveredBoundsWarning, UnmeasuredWarning, warn
from skpublicdp.query_release.answers import FittedRelease
from skpublicdp.query_release.binned_columns import BinnedColumn
from skpublicdp.query_release.calibration import calibrate_release
from skpublicdp.query_release.cdf.grid import just_below
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.group_distributions import ColumnByGroup, IntervalOptions
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.query_release.queries.bin_edges import encode_edges
from skpublicdp.query_release.row_answers import ColumnDistribution
from skpublicdp.query_release.synthetic import WeightedRows
from skpublicdp.query_release.synthetic_methods import SyntheticRowsMixin
from skpublicdp.query_release.table_frames import (
    TableOptions,
    describe_all_tables,
    describe_number,
    describe_table,
    group_means,
)


class ColumnMethodsMixin:
    """Methods of a fitted release for single numeric columns, at no privacy cost."""

    _schema: Schema
    _released: FittedRelease

    def cdf(
        self,
        x: ArrayLike,
        column: str | int | None = None,
        *,
        by: str | int | Sequence[str | int] | None = None,
    ) -> Any:
        """Estimate the cumulative distribution function of a column.

        Parameters
        ----------
        x : array-like of float or of dates
            Numbers.
        column : str or int, default=None
            Name or position of a numeric column. Optional if there is only one column.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows by categories or by bins of numbers. A released table
            must contain these columns together with `column`.

        Returns
        -------
        ndarray of the shape of x
            Fraction at or below each number among the rows that have a value (see
            `missing_fraction`). With `by`, a DataFrame or dict with the group columns, ``x`` and
            ``fraction``, computed among the group's rows that have a value. Groups that are empty
            in the release are omitted.

        Raises
        ------
        ValueError
            If no released table contains the column and the groups.
        """
        if by is not None:
            return self._by_group(column, by).cdf(np.ravel(np.asarray(x)))
        distribution, schema_column = self._distribution(column)
        return distribution.cdf(schema_column.from_user(x))

    def cdf_interval(
        self,
        x: ArrayLike,
        column: str | int | None = None,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
        by: str | int | Sequence[str | int] | None = None,
    ) -> Any:
        """Return confidence intervals for the population's cumulative distribution function.

        As in `cdf`, the function refers to the rows that have a value.

        Parameters
        ----------
        x : array-like of float or of dates
            Numbers.
        column : str or int, default=None
            Name or position of a numeric column. Optional if there is only one column.
        level, simultaneous
            As in `interval`. Simultaneous intervals hold jointly for all groups.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows, as in `cdf`.

        Returns
        -------
        ndarray of shape (*x.shape, 2)
            Lower and upper ends. With `by`, a DataFrame or dict as in `cdf`, with the additional
            columns ``low`` and ``high``.

        Raises
        ------
        ValueError
            If the column has no intervals, i.e. with ``method="pmw"``, with ``method="public"`` or
            for `CustomQueries`. If no released table contains the column and the groups.
        """
        if by is not None:
            options = IntervalOptions(check_level(level), bool(simultaneous))
            return self._by_group(column, by).cdf(np.ravel(np.asarray(x)), options)
        distribution, schema_column = self._distribution_with_intervals(column)
        numbers = schema_column.from_user(x)
        up_to = numbers.ravel()
        ends = distribution.fraction_intervals(
            np.full(len(up_to), -np.inf),
            up_to,
            check_level(level),
            simultaneous=bool(simultaneous),
        )
        return ends.reshape(*numbers.shape, 2)

    def quantile(
        self,
        p: ArrayLike,
        column: str | int | None = None,
        *,
        by: str | int | Sequence[str | int] | None = None,
    ) -> Any:
        """Estimate quantiles of a column among the rows that have a value.

        Parameters
        ----------
        p : array-like of float
            Fractions in [0, 1].
        column : str or int, default=None
            Name or position of a numeric column. Optional if there is only one column.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows, as in `cdf`.

        Returns
        -------
        ndarray of the shape of p
            Numbers or dates, increasing with p. With `by`, a DataFrame or dict with the group
            columns, ``p`` and ``quantile``, computed among the group's rows. Groups that are empty
            in the release are omitted.

        Raises
        ------
        ValueError
            If no released table contains the column and the groups.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skpublicdp import PAPQueryRelease
        >>> rng = np.random.default_rng(0)
        >>> def people(n):
        ...     job = rng.choice(["farm", "shop"], size=n)
        ...     age = rng.integers(20, 60, size=n) + np.where(job == "farm", 10, 0)
        ...     return pd.DataFrame({"job": job, "age": age})
        >>> release = PAPQueryRelease(bounds={"age": (20, 70)}, random_state=0)
        >>> release = release.fit(people(20_000), X_public=people(500))
        >>> release.quantile([0.25, 0.5], column="age", by="job")[:4]
            job     p  quantile
        0  farm  0.25      39.0
        1  farm  0.50      49.0
        2  shop  0.25      30.0
        3  shop  0.50      40.0
        """
        if by is not None:
            return self._by_group(column, by).quantile(_check_fractions(p).ravel())
        distribution, schema_column = self._distribution(column)
        return schema_column.to_user(distribution.quantile(_check_fractions(p)))

    def quantile_interval(
        self,
        p: ArrayLike,
        column: str | int | None = None,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
        by: str | int | Sequence[str | int] | None = None,
    ) -> Any:
        """Return confidence intervals for the population's quantiles, as in `quantile`.

        Parameters
        ----------
        p : array-like of float
            Fractions in [0, 1].
        column : str or int, default=None
            Name or position of a numeric column. Optional if there is only one column.
        level, simultaneous
            As in `interval`. Simultaneous intervals hold jointly for all groups.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows, as in `cdf`.

        Returns
        -------
        ndarray of shape (*p.shape, 2)
            Lower and upper ends of the range in which `cdf_interval` contains p. With `by`, a
            DataFrame or dict as in `quantile`, with the additional columns ``low`` and ``high``.

        Raises
        ------
        ValueError
            If the column has no intervals, i.e. with ``method="pmw"``, with ``method="public"`` or
            for `CustomQueries`. If no released table contains the column and the groups.
        """
        if by is not None:
            options = IntervalOptions(check_level(level), bool(simultaneous))
            return self._by_group(column, by).quantile(_check_fractions(p).ravel(), options)
        distribution, schema_column = self._distribution_with_intervals(column)
        ends = distribution.quantile_interval(
            _check_fractions(p), check_level(level), simultaneous=bool(simultaneous)
        )
        return schema_column.to_user(ends)

    def histogram(
        self, edges: ArrayLike | None = None, column: str | int | None = None
    ) -> NDArray[np.float64]:
        """Estimate the fraction of the population in each bin.

        Parameters
        ----------
        edges : array-like of float or of dates, shape (n_bins + 1,), default=None
            Increasing edges. The default is the parameter `bins` of `MarginalQueries`. A bin (a, b]
            contains its right edge, and the first bin contains both of its edges, as in
            ``pandas.cut(..., include_lowest=True)``. In contrast, a bin [a, b) of
            ``numpy.histogram`` contains its left edge, and the last bin contains both edges.
        column : str or int, default=None
            Name or position of a numeric column. Optional if there is only one column.

        Returns
        -------
        ndarray of shape (n_bins,)
            Fractions of the rows that have a value. The fractions sum to 1 if the bins cover the
            bounds of the column. `table` returns fractions of all rows.

        Raises
        ------
        ValueError
            If the edges are not increasing, or if no edges were given here or in `fit`.

        Warns
        -----
        UncoveredBoundsWarning
            If the bins do not cover the bounds of the column, so that rows may lie outside all
            bins.
        """
        distribution, _ = self._distribution(column)
        above, up_to = self._encode_bins(edges, column)
        return distribution.cdf(up_to) - distribution.cdf(above)

    def histogram_interval(
        self,
        edges: ArrayLike | None = None,
        column: str | int | None = None,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
    ) -> NDArray[np.float64]:
        """Return confidence intervals for the population's fraction in each bin, as in `histogram`.

        Parameters
        ----------
        edges : array-like of float or of dates, shape (n_bins + 1,), default=None
            As in `histogram`.
        column : str or int, default=None
            Name or position of a numeric column. Optional if there is only one column.
        level, simultaneous
            As in `interval`.

        Returns
        -------
        ndarray of shape (n_bins, 2)
            Lower and upper ends of the intervals.

        Raises
        ------
        ValueError
            If the column has no intervals, i.e. with ``method="pmw"``, with ``method="public"`` or
            for `CustomQueries`.

        Warns
        -----
        UncoveredBoundsWarning
            As in `histogram`.
        """
        distribution, _ = self._distribution_with_intervals(column)
        above, up_to = self._encode_bins(edges, column)
        return distribution.fraction_intervals(
            above, up_to, check_level(level), simultaneous=bool(simultaneous)
        )

    def mean(
        self,
        column: str | int | None = None,
        by: str | int | Sequence[str | int] | None = None,
    ) -> Any:
        """Estimate the mean of a column, overall or in each group of rows.

        The mean is taken over the rows that have a value. `missing_fraction` returns the fraction
        of rows without a value. Within a bin of a table, the mean is determined by public rows
        alone and differs little between groups. Group means therefore require bins that are narrow
        compared with the differences between groups.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a numeric column. Optional if there is only one column.
        by : str, int, or sequence of these, default=None
            Columns that define groups by categories or by bins of numbers. A released table must
            contain these columns together with `column`.

        Returns
        -------
        float, or a datetime
            The mean, after moving numbers outside the bounds to the nearer bound. With `by`, a
            DataFrame or dict with the group columns and ``mean``. Groups that may be empty are
            omitted.

        Raises
        ------
        ValueError
            If `by` is given, and no released table contains its columns and `column`.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skpublicdp import PAPQueryRelease
        >>> rng = np.random.default_rng(0)
        >>> def people(n):
        ...     job = rng.choice(["farm", "shop"], size=n)
        ...     age = rng.integers(20, 60, size=n) + np.where(job == "farm", 10, 0)
        ...     return pd.DataFrame({"job": job, "age": age})
        >>> release = PAPQueryRelease(bounds={"age": (20, 70)}, random_state=0)
        >>> release = release.fit(people(20_000), X_public=people(500))
        >>> release.mean("age", by="job")[:2].round()
            job  mean
        0  farm  49.0
        1  shop  40.0
        """
        if by is not None:
            position = self._numeric_position(column)
            return group_means(self._released, position, self._positions(by))
        distribution, schema_column = self._distribution(column)
        return schema_column.to_user(np.array(distribution.mean())).item()

    def mean_interval(
        self,
        column: str | int | None = None,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
        by: str | int | Sequence[str | int] | None = None,
    ) -> Any:
        """Return confidence intervals for the population's means, as in `mean`.

        The intervals account for the noise, for the sampling of private rows, and for the means
        within bins, which are determined by public rows alone. Intervals are long if a wide bin
        contains few public rows, such as the last bin of a skewed column.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a numeric column. Optional if there is only one column.
        level : float, default=0.95
            Coverage over samples and noise, in (0, 1).
        simultaneous : bool, default=False
            Whether the intervals of all groups hold jointly. For tables, they also contain the
            intervals from the noisy answers alone, for any numbers within the bins.
        by : str, int, or sequence of these, default=None
            Columns that define groups, as in `mean`.

        Returns
        -------
        ndarray of shape (2,)
            Lower and upper ends. With `by`, a DataFrame or dict as in `mean`, with the additional
            columns ``low`` and ``high``.

        Raises
        ------
        ValueError
            If the column has no intervals, i.e. with ``method="pmw"``, with ``method="public"``,
            for `CustomQueries` or after `calibrate`, or if no released table contains the column
            and the groups.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skpublicdp import PAPQueryRelease
        >>> rng = np.random.default_rng(0)
        >>> def people(n):
        ...     job = rng.choice(["farm", "shop"], size=n)
        ...     age = rng.integers(20, 60, size=n) + np.where(job == "farm", 10, 0)
        ...     return pd.DataFrame({"job": job, "age": age})
        >>> release = PAPQueryRelease(bounds={"age": (20, 70)}, random_state=0)
        >>> release = release.fit(people(20_000), X_public=people(500))
        >>> release.mean_interval("age").round(1)
        array([44.3, 44.7])
        >>> release.mean_interval("age", by="job").round(1)[:2]
            job  mean   low  high
        0  farm  49.4  49.1  49.7
        1  shop  39.6  39.4  39.9
        """
        options = IntervalOptions(check_level(level), bool(simultaneous))
        if by is not None:
            return self._by_group(column, by).mean(options)
        distribution, schema_column = self._distribution_with_intervals(column)
        ends = distribution.mean_interval(
            options.level, simultaneous_level=options.level if simultaneous else None
        )
        return schema_column.to_user(ends)

    def _by_group(
        self, column: str | int | None, by: str | int | Sequence[str | int]
    ) -> ColumnByGroup:
        """Return the released distributions of a numeric column within groups of rows."""
        position = self._numeric_position(column)
        return ColumnByGroup(self._released, position, self._positions(by))

    def missing_fraction(self, column: str | int | None = None) -> float:
        """Estimate the fraction of rows without a value in a column.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a column. Optional if there is only one column.

        Returns
        -------
        float
            Fraction of the population. The fraction is 0 for numeric columns in which the fit
            accepts no missing numbers; see the parameter `missing` of `MarginalQueries`.

        Raises
        ------
        ValueError
            If the column is categorical and no tables were released.

        Examples
        --------
        >>> import numpy as np
        >>> from skpublicdp import PAPQueryRelease
        >>> rng = np.random.default_rng(0)
        >>> income = np.where(rng.random((20_000, 1)) < 0.2, np.nan, rng.uniform(0, 9, (20_000, 1)))
        >>> release = PAPQueryRelease(bounds=(0, 9), random_state=0)
        >>> release = release.fit(income[300:], X_public=income[:300].copy())
        >>> print(f"{release.missing_fraction():.2f}", release.missing_fraction_interval().round(3))
        0.20 [0.193 0.204]
        >>> print(f"{release.mean():.1f}")  # of those with a value
        4.5
        """
        cell = self._missing_cell(column)
        return 0.0 if cell is None else float(self._released.answer([cell])[0])

    def missing_fraction_interval(
        self, column: str | int | None = None, level: float | Fraction = 0.95
    ) -> NDArray[np.float64]:
        """Return a confidence interval for the fraction of rows without a value in a column.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a column. Optional if there is only one column.
        level : float, default=0.95
            Coverage, as in `interval`.

        Returns
        -------
        ndarray of shape (2,)
            Lower and upper ends of the intervals.

        Raises
        ------
        ValueError
            If the method has no intervals, or `missing_fraction` raises an error.
        """
        level = check_level(level)
        cell = self._missing_cell(column)
        if cell is None:
            return np.zeros(2)
        interval: NDArray[np.float64]
        interval = self._released.intervals([cell], level, simultaneous=False)[0]
        return interval

    def _missing_cell(self, column: str | int | None) -> dict[int, str] | None:
        """Return the query for missing values in a column, or None if no value may be missing."""
        check_is_fitted(self)
        if column is None and len(self._schema.columns) > 1:
            raise ValueError("missing_fraction applies to one column. Pass its name as column.")
        position = 0 if column is None else self._schema.position(column)
        schema_column = self._schema.columns[position]
        if not schema_column.categorical and not schema_column.nullable:
            return None
        self._released.queries.table_cells([position])  # raises an error without tables
        return {position: MISSING}

    def _encode_bins(
        self, edges: ArrayLike | None, column: str | int | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return all left ends a and right ends b of the bins a < x <= b, encoded as floats.

        The first left end is just below the first edge, so that the first bin contains this edge. A
        warning is issued if the bins do not cover the bounds of the column. By default, the edges
        from the fit are used.
        """
        position = 0 if column is None else self._schema.position(column)
        schema_column = self._schema.columns[position]
        if edges is not None:
            numbers = encode_edges(edges, schema_column)
        else:
            numbers_of_fit = self._released.queries.bin_edges(position)
            if numbers_of_fit is None:
                raise ValueError(
                    "edges must be given, because MarginalQueries(bins={...}) did not specify "
                    f"edges for column {schema_column.name}."
                )
            numbers = numbers_of_fit
        if numbers[0] > schema_column.low or numbers[-1] < schema_column.high:
            ends = (*numbers[[0, -1]], schema_column.low, schema_column.high)
            first, last, low, high = map(schema_column.format, ends)
            warn(
                f"The bins range from {first} to {last}, but the bounds of column "
                f"{schema_column.name} range from {low} to {high}, so rows outside the bins are "
                "not counted. To count all rows, extend the outer edges to the bounds (for "
                "numbers, to -inf and inf).",
                UncoveredBoundsWarning,
            )
        above = numbers[:-1].copy()
        above[0] = just_below(above[0])
        return above, numbers[1:]

    def _positions(self, columns: str | int | Sequence[str | int]) -> list[int]:
        """Return the positions of one or more columns given by name or position."""
        columns = [columns] if isinstance(columns, str | int | Integral) else list(columns)
        return [self._schema.position(column) for column in columns]

    def _distribution_with_intervals(
        self, column: str | int | None
    ) -> tuple[ReleasedCDF | BinnedColumn, Column]:
        """Return the released distribution of a numeric column and its schema entry.

        Raises a ValueError if the distribution has no confidence intervals.
        """
        position = self._numeric_position(column)
        if not self._released.answers.is_measured(position):
            raise ValueError(
                f"No released table contains column {self._schema.names[position]}, so it has no "
                "intervals. Add a table of it to the workload before the fit."
            )
        distribution, schema_column = self._distribution(column)
        if isinstance(distribution, WeightedRows):
            raise ValueError(
                "There are no intervals for columns with method='public', method='pmw' or "
                "CustomQueries, or after calibrate. Use method='auto' with another class of "
                "queries, without calibration."
            )
        return distribution, schema_column

    def _distribution(self, column: str | int | None) -> tuple[ColumnDistribution, Column]:
        """Return the released distribution of a numeric column and its schema entry.

        Warns if no released table contains the column.
        """
        position = self._numeric_position(column)
        if not self._released.answers.is_measured(position):
            warn(
                f"No released table contains column {self._schema.names[position]}, so its "
                "distribution is estimated from public rows and from tables of other columns. To "
                "measure the distribution, add a table of the column to the workload.",
                UnmeasuredWarning,
            )
        return self._released.distribution(position), self._schema.columns[position]

    def _numeric_position(self, column: str | int | None) -> int:
        """Return the position of a numeric column, after checking that it can be queried."""
        check_is_fitted(self)
        if column is None and len(self._schema.columns) > 1:
            raise ValueError(
                "cdf, quantile, histogram and mean apply to one numeric column. Pass its name as "
                "column."
            )
        position = 0 if column is None else self._schema.position(column)
        if not self._schema.numeric[position]:
            name = self._schema.names[position]
            raise ValueError(
                f"Column {name} is categorical, but cdf, quantile, histogram and mean require a "
                "numeric column. If it contains numbers as text, convert them before the fit, for "
                "instance by pandas.to_numeric."
            )
        weights = self._released.queries.weights
        if weights is not None and position == weights.position:
            raise ValueError(
                "The weight column cannot be queried, because nothing is released about it."
            )
        return position


def _check_fractions(p: ArrayLike) -> NDArray[np.float64]:
    """Return quantile levels as floats, after checking that they lie in [0, 1]."""
    p = np.asarray(p, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p must lie in [0, 1].")
    return p


class FittedReleaseMixin(
    ColumnMethodsMixin, SyntheticRowsMixin, HTMLReprMixin, TransformerMixin, BaseEstimator
):
    """Methods of a fitted release, which post-process released numbers at no privacy cost."""

    queries_: QueryClass
    privacy_: PrivacyReceipt
    expected_error_: float | None

    @property
    def _columns_at_fit(self) -> tuple[Column, ...]:
        """Schema entry of each column of the rows passed to `fit`."""
        return self._schema.columns

    def answer(self, Q: Any) -> NDArray[np.float64]:
        """Estimate the fraction of the population that satisfies each query.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries in the format documented by the query class.

        Returns
        -------
        ndarray of shape (n_queries,)
            Answers in [0, 1].

        Warns
        -----
        UnmeasuredWarning
            If no released table contains all columns of a query about cells. The answer is then
            estimated from other tables.
        """
        check_is_fitted(self)
        return self._released.answer(self._check_queries(Q))

    def holds(self, Q: Any, X: Any) -> NDArray[np.bool_]:
        """Evaluate queries on rows without using the released results.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries.
        X : array-like or DataFrame, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of bool, shape (n_queries, n)
            Whether each query holds for each row. `answer` estimates the mean of these values over
            the population.
        """
        check_is_fitted(self)
        queries, schema = self._released.queries, self._schema
        rows = apply_rule(self, X, schema.encode)
        return queries.holds(queries.encode(self._check_queries(Q), schema), rows)

    def interval(
        self, Q: Any, level: float | Fraction = 0.95, *, simultaneous: bool = False
    ) -> NDArray[np.float64]:
        """Return confidence intervals for the population's fractions.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries, as in `answer`.
        level : float, default=0.95
            Coverage over samples and noise, in (0, 1). For cells of tables, coverage holds on
            average over cells, and single cells may be covered less often.
        simultaneous : bool, default=False
            Whether all intervals hold jointly with probability `level`, instead of each separately.
            Simultaneous intervals for tables contain the intervals from the noisy answers alone, so
            that they hold without assumptions about public rows or a model.

        Returns
        -------
        ndarray of shape (n_queries, 2)
            Lower and upper ends. The intervals account for the noise, for the sampling of rows
            (assumed independent) and for the estimated shift of the public rows.

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
        """Answer queries as a step of a pipeline.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n_queries, ...)
            Queries, which are named `X` because scikit-learn's pipelines use this name.

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
        """Return the negative mean absolute error of the answers on held-out rows.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Held-out rows, which are not protected: like all scikit-learn scores, this score depends
            on them without noise. Do not publish the score.
        y : None
            Ignored.

        Returns
        -------
        float
            Negative mean error over all cells of the tables in the class, or over queries at
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
        counts: bool | int | Integral = False,
        within: str | int | Sequence[str | int] | None = None,
        wide: bool | str = False,
    ) -> Any:
        """Return the marginal table of some columns, with a fraction for each value combination.

        Parameters
        ----------
        columns : str, int, or sequence of these
            Names or positions of columns that a released table contains together. Releases without
            tables, such as the default release of a single numeric column, provide a table of each
            numeric column with bins cut at round numbers.
        level, simultaneous
            Coverage of the intervals, as in `interval`.
        counts : bool or int, default=False
            Whether to add counts, i.e. fractions times the number of private rows. An integer, such
            as the size of the population, replaces the number of private rows and is required with
            weights.
        within : str, int, or sequence of these, default=None
            Columns that define groups. The table then contains shares, i.e. the fraction of a
            group's rows in each cell. These columns need not be among `columns`.
        wide : bool or str, default=False
            Whether each category of the last column becomes a column instead of a row. The values
            are the counts if `counts` is set, and otherwise the fractions or shares. The name of
            another value column, such as ``"low"``, selects that column instead.

        Returns
        -------
        DataFrame or dict of str to ndarray
            The columns, then ``fraction`` (or ``share``) with the ends ``low`` and ``high`` of its
            interval. With `counts`, also ``count``, ``count_low`` and ``count_high``. The result is
            a frame if `X` was a frame. Categories whose type declares an order keep this order. All
            other categories are sorted, and numbers in text are compared as numbers. ``"(other)"``
            and ``"(missing)"`` come last.

        Raises
        ------
        ValueError
            If a column does not exist, no released table contains all columns, or a parameter is
            invalid.

        Notes
        -----
        Intervals refer to the population's fractions. The interval for a count is the interval for
        its fraction, times the number of rows. Shares of a group that may be empty are unknown:
        they are NaN, with the interval [0, 1].

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skpublicdp import PAPQueryRelease
        >>> rng = np.random.default_rng(0)
        >>> def people(n):
        ...     region = rng.choice(["north", "south"], size=n)
        ...     smokes = rng.random(n) < np.where(region == "north", 0.3, 0.1)
        ...     return pd.DataFrame({"region": region, "smokes": np.where(smokes, "yes", "no")})
        >>> release = PAPQueryRelease(epsilon=1.0, random_state=0)
        >>> release = release.fit(people(20_000), X_public=people(300))
        >>> release.table("smokes", within="region")[:2].round(2)
          region smokes  share   low  high
        0  north     no   0.71  0.70  0.72
        1  north    yes   0.29  0.28  0.30
        >>> release.table("region", counts=True, wide=True).round(-2)
             north    south  (other)  (missing)
        0  10000.0  10000.0      0.0        0.0
        """
        check_is_fitted(self)
        positions = self._positions(columns)
        groups = [] if within is None else self._positions(within)
        if groups and set(positions) <= set(groups):
            raise ValueError("columns must contain at least one column that is not in within.")
        positions = [position for position in groups if position not in positions] + positions
        options = self._table_options(level, simultaneous, counts)
        is_number = len(positions) == 1 and not groups and self._schema.numeric[positions[0]]
        if is_number and self._has_column_tables:
            return describe_number(self._released, positions[0], options, wide)
        return describe_table(self._released, positions, groups, options, wide)

    def tables(
        self,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
        counts: bool | int | Integral = False,
    ) -> Iterator[Any]:
        """Iterate over all released tables, i.e. the workload and its margins.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of the intervals, as in `interval`.
        simultaneous : bool, default=False
            Whether all intervals of all tables hold jointly.
        counts : bool or int, default=False
            Whether to add counts, as in `table`.

        Yields
        ------
        DataFrame or dict of str to ndarray
            A table in the format of `table`. Tables of single columns come first.

        Raises
        ------
        ValueError
            If no tables were released, or if a parameter is invalid.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skpublicdp import PAPQueryRelease
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame(rng.choice(["no", "yes"], size=(5_000, 2)), columns=["a", "b"])
        >>> release = PAPQueryRelease(random_state=0).fit(rows[100:], X_public=rows[:100])
        >>> for table in release.tables():
        ...     print(table.columns.tolist(), len(table))
        ['a', 'fraction', 'low', 'high'] 4
        ['b', 'fraction', 'low', 'high'] 4
        ['a', 'b', 'fraction', 'low', 'high'] 16
        """
        check_is_fitted(self)
        options = self._table_options(level, simultaneous, counts)
        if self._released.queries.has_tables:
            return describe_all_tables(self._released, options)
        if self._released.only_column is None or not self._has_column_tables:
            self._released.queries.table_cells([])  # raises an error
        return iter([describe_number(self._released, 0, options, wide=False)])

    @property
    def _has_column_tables(self) -> bool:
        """Whether the release describes single numbers, without tables of its own.

        Listed queries do not determine the distribution of a column.
        """
        queries = self._released.queries
        return not queries.has_tables and queries.statistic != "counts"

    def _table_options(
        self, level: float | Fraction, simultaneous: bool, counts: bool | int | Integral
    ) -> TableOptions:
        """Check the options of tables and return them."""
        n_rows: int | None = None
        if counts is True and self._released.queries.weights is not None:
            raise ValueError(
                "counts must be the size of the population, because the rows are weighted. Pass "
                "counts=N for a population of N rows."
            )
        if counts is True:
            n_rows = self.privacy_.n_private
        elif counts is not False:
            if not isinstance(counts, Integral) or counts < 1:
                raise ValueError(f"counts must be a bool or a positive integer; got {counts!r}.")
            n_rows = int(counts)
        return TableOptions(check_level(level), bool(simultaneous), n_rows)

    def calibrate(self, totals: Mapping[Any, Any]) -> Self:
        """Return a copy of the release whose tables agree with totals known from other sources.

        The released distribution is raked to known margins, for example from a census. Calibration
        is post-processing of released numbers and costs no privacy. The methods `answer`, `table`,
        `cdf`, `mean` and `sample` of the copy are calibrated.

        Parameters
        ----------
        totals : dict
            Known totals of one or more released tables. Each key is a column or a tuple of columns.
            Each value is a dict or a pandas Series that maps every cell of the table to a number of
            persons or a share. Cells are named as in `table`, with tuples for several columns. Only
            the proportions within a table matter. Cells of ``"(other)"`` and ``"(missing)"`` may be
            omitted and are then empty after calibration. Totals must be public and must not be
            computed from private rows.

        Returns
        -------
        PAPQueryRelease
            The calibrated copy, with the same `privacy_`. Calibrate once with all totals together,
            since a second calibration does not preserve the first totals.

        Raises
        ------
        ValueError
            If totals contradict each other, lack cells, or refer to a table that was not released.

        Notes
        -----
        Intervals are approximate. The intervals of the release are rescaled by the standard
        deviation of the linearised calibration estimator [1]_, where noise errors are added as if
        they were independent. `cdf_interval`, `quantile_interval` and
        `mean_interval` are not available.

        References
        ----------
        .. [1] J.-C. Deville and C.-E. Särndal (1992). Calibration estimators in survey sampling.
           Journal of the American Statistical Association 87.

        Examples
        --------
        >>> import numpy as np
        >>> from skpublicdp import PAPQueryRelease
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.choice(["f", "m"], size=(9000, 2), p=[0.3, 0.7])
        >>> release = PAPQueryRelease(epsilon=1.0, random_state=0)
        >>> release = release.fit(rows, X_public=rng.choice(["f", "m"], size=(50, 2)))
        >>> calibrated = release.calibrate({0: {"f": 4_020_000, "m": 3_980_000}})
        >>> print(calibrated.table(0)["fraction"].round(4))
        [0.5025 0.4975 0.     0.    ]
        """
        check_is_fitted(self)
        calibrated = copy.copy(self)
        calibrated._released = calibrate_release(self._released, totals)
        calibrated.expected_error_ = calibrated._released.answers.expected_error()
        return calibrated

    def _check_queries(self, Q: Any) -> Any:
        """Return the user's queries after comparing their columns with the columns of `fit`.

        Only queries with the same columns as rows are compared, i.e. thresholds and cells in
        arrays. All other queries are returned unchanged and are checked by `QueryClass.encode`.
        """
        if isinstance(Q, list | tuple):
            return Q
        has_names = is_frame(Q)
        queries = Q if has_names else np.asarray(Q)
        # `read_table` would warn about an array without names after a fit on a frame
        is_comparable = has_names or not hasattr(self, "feature_names_in_")
        has_columns = self.queries_.has_columns_of_rows(as_frame=has_names)
        if has_columns and queries.ndim > 1 and is_comparable:
            # column kinds may differ, since a query may contain a date as text
            return read_table(self, queries, reset=False, numeric=False, kinds=False).native
        return Q
