"""Methods of a fitted `PAPQueryRelease`: answers, tables, sample, score, and one column."""

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
from skpublicdp.exceptions import UncoveredBoundsWarning, warn
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
    describe_table,
    group_means,
)


class ColumnMethodsMixin:
    """Methods of a fitted release about one numeric column. They cost no privacy."""

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
            Name or position of a numeric column. It is not needed if there is a single column.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows: categories, or bins of numbers. A released table
            must contain them together with `column`.

        Returns
        -------
        ndarray of the shape of x
            Fraction at or below each number, of the rows that have a value (`missing_fraction`).
            With `by` it is a DataFrame or dict of the columns of groups, ``x``, and ``fraction``:
            of the rows of a group that have a value. Groups that are empty in the release are left
            out.

        Raises
        ------
        ValueError
            If no released table has the column and the groups.
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
        """Return confidence intervals of the population's cumulative distribution function.

        It is the one of the rows that have a value, as in `cdf`.

        Parameters
        ----------
        x : array-like of float or of dates
            Numbers.
        column : str or int, default=None
            Name or position of a numeric column. It is not needed if there is a single column.
        level, simultaneous
            As in `interval`. Simultaneous intervals hold together for all groups.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows, as in `cdf`.

        Returns
        -------
        ndarray of shape (*x.shape, 2)
            Low and high. With `by` it is a DataFrame or dict, as of `cdf`, with the further columns
            ``low`` and ``high``.

        Raises
        ------
        ValueError
            If the column has no intervals: with ``method="pmw"``, with ``method="public"``, and
            for `CustomQueries`. If no released table has the column and the groups.
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
        """Estimate quantiles of a column, among the rows that have a value.

        Parameters
        ----------
        p : array-like of float
            Fractions in [0, 1].
        column : str or int, default=None
            Name or position of a numeric column. It is not needed if there is a single column.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows, as in `cdf`.

        Returns
        -------
        ndarray of the shape of p
            Numbers or dates, increasing with p. With `by` it is a DataFrame or dict of the columns
            of groups, ``p``, and ``quantile``: of the rows of a group. Groups that are empty in the
            release are left out.

        Raises
        ------
        ValueError
            If no released table has the column and the groups.

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
        """Return confidence intervals of the population's quantiles, as in `quantile`.

        Parameters
        ----------
        p : array-like of float
            Fractions in [0, 1].
        column : str or int, default=None
            Name or position of a numeric column. It is not needed if there is a single column.
        level, simultaneous
            As in `interval`. Simultaneous intervals hold together for all groups.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows, as in `cdf`.

        Returns
        -------
        ndarray of shape (*p.shape, 2)
            Low and high: the range of the numbers at which `cdf_interval` contains p. With `by` it
            is a DataFrame or dict, as of `quantile`, with the further columns ``low`` and ``high``.

        Raises
        ------
        ValueError
            If the column has no intervals: with ``method="pmw"``, with ``method="public"``, and
            for `CustomQueries`. If no released table has the column and the groups.
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
            Increasing. By default they are those of the parameter `bins` of `MarginalQueries`. A
            bin (a, b] contains its right edge, and the first bin contains both of its edges, as in
            ``pandas.cut(..., include_lowest=True)``. In contrast, a bin [a, b) of
            ``numpy.histogram`` contains its left edge, and the last bin contains both.
        column : str or int, default=None
            Name or position of a numeric column. It is not needed if there is a single column.

        Returns
        -------
        ndarray of shape (n_bins,)
            Fractions of the rows that have a value. They add up to 1 if the bins cover the bounds
            of the column. The fractions of all rows are in `table`.

        Raises
        ------
        ValueError
            If edges are not increasing, or neither given here nor at the fit.

        Warns
        -----
        UncoveredBoundsWarning
            If the bins do not cover the bounds of the column, so that rows may be outside all bins.
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
        """Return confidence intervals of the population's fraction in each bin, as in `histogram`.

        Parameters
        ----------
        edges : array-like of float or of dates, shape (n_bins + 1,), default=None
            As in `histogram`.
        column : str or int, default=None
            Name or position of a numeric column. It is not needed if there is a single column.
        level, simultaneous
            As in `interval`.

        Returns
        -------
        ndarray of shape (n_bins, 2)
            Low and high.

        Raises
        ------
        ValueError
            If the column has no intervals: with ``method="pmw"``, with ``method="public"``, and
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

        It is the mean of the rows that have a value. `missing_fraction` is the fraction of others.
        Inside a bin of a table only public rows determine the mean, and groups differ little there.
        So means of groups need bins that are narrow compared with the differences between groups.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a numeric column. It is not needed if there is a single column.
        by : str, int, or sequence of these, default=None
            Columns that define groups: categories, or bins of numbers. They must be together with
            `column` in a released table.

        Returns
        -------
        float, or a datetime
            The mean, after moving numbers outside the bounds to the nearer bound. With `by`, a
            DataFrame or dict of the columns of the groups and ``mean``. Groups that may be empty
            are left out.

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
        distribution, schema_column = self._distribution(column)
        if by is not None:
            position = 0 if column is None else self._schema.position(column)
            return group_means(self._released, position, self._positions(by))
        return schema_column.to_user(np.array(distribution.mean())).item()

    def _by_group(
        self, column: str | int | None, by: str | int | Sequence[str | int]
    ) -> ColumnByGroup:
        """Return the released distributions of a numeric column in groups of rows."""
        self._distribution(column)  # raises an error for a column that is not numeric
        position = 0 if column is None else self._schema.position(column)
        return ColumnByGroup(self._released, position, self._positions(by))

    def missing_fraction(self, column: str | int | None = None) -> float:
        """Estimate the fraction of rows without a value in a column.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a column. It is not needed if there is a single column.

        Returns
        -------
        float
            Fraction of the population. It is 0 for numeric columns in which the fit accepts no
            missing number, see the parameter `missing` of `MarginalQueries`.

        Raises
        ------
        ValueError
            If the column is categorical, and the release is not one of tables.

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
        """Return a confidence interval of the fraction of rows without a value in a column.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a column. It is not needed if there is a single column.
        level : float, default=0.95
            Coverage, as in `interval`.

        Returns
        -------
        ndarray of shape (2,)
            Low and high.

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
        """Return the query about rows without a value in a column, or None if there are none."""
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
        """Return the ends of the bins a < x <= b, encoded as floats: all a and all b.

        The first a is just below the first edge, so that the first bin contains this edge. Warns if
        the bins do not cover the bounds of the column. Without edges, those of the fit are used.
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
        """Return the positions of one or more columns that a user gave by name or position."""
        columns = [columns] if isinstance(columns, str | int | Integral) else list(columns)
        return [self._schema.position(column) for column in columns]

    def _distribution_with_intervals(
        self, column: str | int | None
    ) -> tuple[ReleasedCDF | BinnedColumn, Column]:
        """Return the released distribution of a numeric column, and its entry in the schema.

        Raises a ValueError if the distribution has no confidence intervals.
        """
        distribution, schema_column = self._distribution(column)
        if isinstance(distribution, WeightedRows):
            raise ValueError(
                "There are no intervals for columns with method='public', method='pmw' or "
                "CustomQueries, or after calibrate. Use method='auto' with another class of "
                "queries, without calibration."
            )
        return distribution, schema_column

    def _distribution(self, column: str | int | None) -> tuple[ColumnDistribution, Column]:
        """Return the released distribution of a numeric column, and its entry in the schema."""
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
                "numeric column."
            )
        weights = self._released.queries.weights
        if weights is not None and position == weights.position:
            raise ValueError(
                "The weight column cannot be queried, because nothing is released about it."
            )
        return self._released.distribution(position), self._schema.columns[position]


def _check_fractions(p: ArrayLike) -> NDArray[np.float64]:
    """Return levels of quantiles as floats, after checking that they are in [0, 1]."""
    p = np.asarray(p, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p must lie in [0, 1].")
    return p


class FittedReleaseMixin(
    ColumnMethodsMixin, SyntheticRowsMixin, HTMLReprMixin, TransformerMixin, BaseEstimator
):
    """Methods of a fitted release. All are post-processing of released numbers: no privacy cost."""

    queries_: QueryClass
    privacy_: PrivacyReceipt
    expected_error_: float | None

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
        counts: bool | int | Integral = False,
        within: str | int | Sequence[str | int] | None = None,
        wide: bool | str = False,
    ) -> Any:
        """Return the marginal of some columns: a fraction for each combination of their values.

        Parameters
        ----------
        columns : str, int, or sequence of these
            Names or positions of columns that are together in a released table.
        level, simultaneous
            Coverage of the intervals, as in `interval`.
        counts : bool or int, default=False
            Whether counts are shown, too: fractions times the number of private rows. A number of
            rows, such as the size of the population, takes the place of the number of private rows.
            With weights it must be a number.
        within : str, int, or sequence of these, default=None
            Columns that define groups. The table then has shares: fractions of the rows of a group
            that are in a cell. These columns need not be among `columns`.
        wide : bool or str, default=False
            Whether there is a column for each category of the last column, instead of a row. Its
            values are the counts if they are shown, and else the fractions or shares. The name of
            another column of values, such as ``"low"``, selects these instead.

        Returns
        -------
        DataFrame or dict of str to ndarray
            The columns, then ``fraction`` (or ``share``), and ``low`` and ``high``, the ends of its
            interval. With `counts`, then ``count``, ``count_low`` and ``count_high``. It is a frame
            if `X` was one. Categories whose type declares an order have this order. Others are
            sorted, and numbers in text are compared as numbers. ``"(other)"`` and ``"(missing)"``
            come last.

        Raises
        ------
        ValueError
            If a column does not exist, no released table contains all of them, or a parameter is
            invalid.

        Notes
        -----
        Intervals are about the population's fractions. The interval of a count is the one of its
        fraction, times the number of rows. A share of a group that may be empty is unknown: it is
        NaN, and its interval is [0, 1].

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
        return describe_table(self._released, positions, groups, options, wide)

    def tables(
        self,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
        counts: bool | int | Integral = False,
    ) -> Iterator[Any]:
        """Iterate over all released tables: the workload and its margins.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of the intervals, as in `interval`.
        simultaneous : bool, default=False
            Whether all intervals of all tables hold together.
        counts : bool or int, default=False
            Counts, as in `table`.

        Yields
        ------
        DataFrame or dict of str to ndarray
            A table as `table` returns it. Tables of single columns come first.

        Raises
        ------
        ValueError
            If the release is not one of tables, or a parameter is invalid.

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
        if not self._released.queries.has_tables:
            self._released.queries.table_cells([])  # raises an error
        return describe_all_tables(self._released, self._table_options(level, simultaneous, counts))

    def _table_options(
        self, level: float | Fraction, simultaneous: bool, counts: bool | int | Integral
    ) -> TableOptions:
        """Return the options of tables, after checking them."""
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
        """Return a copy of the release whose tables agree with totals known from elsewhere.

        The released distribution is raked to the margins, for example to those of a census. It is
        post-processing of released numbers, and costs no privacy. `answer`, `table`, `cdf`, `mean`
        and `sample` of the copy are calibrated.

        Parameters
        ----------
        totals : dict
            Known totals of one or more released tables. A key is a column, or a tuple of columns.
            Its value is a dict or a pandas Series from each cell of the table to a number of
            persons or a share. Cells are named as `table` shows them, those of several columns by
            tuples. Only the proportions in a table matter. Cells of ``"(other)"`` and
            ``"(missing)"`` may be omitted, and are then empty after calibration. Totals must be
            public, and must not be computed from private rows.

        Returns
        -------
        PAPQueryRelease
            The calibrated copy, with the same `privacy_`. Calibrate once, with all totals together:
            a second calibration does not keep the first totals.

        Raises
        ------
        ValueError
            If totals contradict each other, lack cells, or are about a table that is not released.

        Notes
        -----
        Intervals are approximate. They are those of the release, rescaled by the standard deviation
        of the linearised calibration estimator [1]_, where errors of the noise are added as if they
        were independent. `cdf_interval` and `quantile_interval` are not available.

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
