"""Methods of a fitted `PAPQueryRelease`: answers, tables, samples, scores and synthetic rows."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import Seed, check_level
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.accounting import PrivacyReceipt
from skpublicdp.data.batch_predict import apply_rule
from skpublicdp.data.schema import Column, Schema
from skpublicdp.data.tables import is_frame
from skpublicdp.data.validation import read_table
from skpublicdp.data.value_conversion import MAX_LISTED_COLUMNS
from skpublicdp.exceptions import SyntheticTailsWarning, warn
from skpublicdp.guarantees.population import check_ranges
from skpublicdp.privacy.ledger import public_seed
from skpublicdp.query_release.answers import FittedRelease
from skpublicdp.query_release.calibration import calibrate_release
from skpublicdp.query_release.column_methods import ColumnMethodsMixin
from skpublicdp.query_release.fidelity import fidelity_columns
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.query_release.row_constraints import (
    Constraint,
    check_constraints,
    draw_accepted_rows,
    satisfies,
)
from skpublicdp.query_release.table_frames import (
    TableOptions,
    as_frame,
    describe_all_tables,
    describe_number,
    describe_table,
)
from skpublicdp.typing import Floats, Mask


class SyntheticRowsMixin:
    """Methods of a fitted release that draw synthetic rows, at no privacy cost."""

    random_state: Seed
    guarantee_: float | None
    _schema: Schema
    _released: FittedRelease

    def sample(
        self,
        n: int | Integral = 1,
        *,
        keep_other: bool = True,
        keep_missing: bool = True,
        constraints: Constraint | Sequence[Constraint] | None = None,
    ) -> Any:
        """Draw synthetic rows.

        Parameters
        ----------
        n : int, default=1
            Number of rows.
        keep_other : bool, default=True
            Whether rows may have a category that no public row has, which is called ``"(other)"``.
            In a boolean column, or a column whose type declares all categories, there are no such
            categories, so they are always replaced by values from other rows.
        keep_missing : bool, default=True
            Whether rows may have missing values. In a column of booleans that are never missing in
            public rows, missing values are always replaced by values from other rows.
        constraints : callable, or sequence of callables, default=None
            Conditions that all rows must satisfy. They must not be derived from private rows. A
            function accepts rows in the container type of `fit` and returns a boolean for each row,
            as in ``lambda rows: (rows["age"] >= 15) | (rows["job"] != "farm")``.

        Returns
        -------
        DataFrame or ndarray, shape (n, n_features)
            Rows in the container type of `X`, at no privacy cost. Columns keep the categories that
            the type of `X_public` declares, or else that of `X`, and their order. Dates are in the
            time zone of the public dates. Public values decide all other types, since a private
            value can change a type of `X`. Missing values are missing. Rows that violate a
            constraint are redrawn. The sample's tables therefore differ from the released tables
            where the release contradicts the constraints. `fidelity` measures these differences.

        Raises
        ------
        ValueError
            If a constraint is invalid, or if hardly any row satisfies the constraints.

        Warns
        -----
        SyntheticTailsWarning
            If numbers are drawn from public rows and therefore stay within the public range,
            although the bounds of the column are wider.
        """
        rows = self._draw_rows(n, keep_other, keep_missing, constraints)
        columns = self._short_columns()
        if columns:
            names = ", ".join(columns[:MAX_LISTED_COLUMNS])
            warn(
                f"Synthetic numbers in {names} are limited to the range of the public rows, "
                "although the bounds are wider. To release the tails of a column, use "
                "ThresholdQueries. To silence this warning, set the bounds to the range of the "
                "public rows.",
                SyntheticTailsWarning,
            )
        return self._schema.decode(rows)

    def fidelity(
        self,
        n: int | Integral = 10_000,
        *,
        keep_other: bool = True,
        keep_missing: bool = True,
        constraints: Constraint | Sequence[Constraint] | None = None,
        level: float | Fraction = 0.95,
    ) -> Any:
        """Compare synthetic rows with each released table and CDF.

        The rows are drawn in the same way as in `sample`. All numbers are computed from released
        and public numbers, so they may be published. They show how well such rows agree with the
        measurements, not with other properties of the private rows.

        Parameters
        ----------
        n : int, default=10000
            Number of rows to sample from, at least 1.
        keep_other, keep_missing, constraints
            As in `sample`.
        level : float, default=0.95
            Coverage of the release's intervals, in (0, 1).

        Returns
        -------
        DataFrame or dict of arrays
            One row for each released table or CDF, and no row with ``method="pmw"`` or
            ``"public"``. The result is a frame of the same library as `X`, or a dict of arrays if
            `X` was an array. The columns are:

            - ``table``: names of the columns of the table.
            - ``n_numbers``: number of cells in the table, or of levels of the CDF.
            - ``rms_difference``: root mean square difference between the synthetic rows' fractions
              and the released fractions.
            - ``largest_difference``: largest absolute difference.
            - ``release_error``: root mean square of the expected errors, due to noise and sampling,
              of the released fractions.
            - ``drawing_error``: expected root mean square difference due to the drawing of
              synthetic rows.
            - ``inside``: share of the synthetic rows' fractions that lie within the release's
              confidence intervals. For fractions that are known after `calibrate`, these are
              intervals for the drawing of rows.

        Raises
        ------
        ValueError
            As `sample`.

        See Also
        --------
        skpublicdp.plotting.FidelityDisplay : Picture of the result.

        Examples
        --------
        >>> import pandas as pd
        >>> import numpy as np
        >>> from skpublicdp import PAPQueryRelease
        >>> rng = np.random.default_rng(0)
        >>> sex, works = rng.choice(["f", "m"], 9000), rng.random(9000) < 0.6
        >>> X = pd.DataFrame({"sex": sex, "works": works})
        >>> release = PAPQueryRelease(random_state=0).fit(X[90:], X_public=X[:90])
        >>> release.fidelity(5000)[["table", "n_numbers"]]
                table  n_numbers
        0         sex          4
        1       works          4
        2  sex, works         16
        """
        level = check_level(level)
        if isinstance(n, Integral) and n == 0:
            raise ValueError(
                "n must be at least 1, because synthetic rows are compared with the release; got 0."
            )
        rows = self._draw_rows(n, keep_other, keep_missing, constraints)
        tables = self._released.answers.compare_rows(rows, level, self._schema.names)
        return as_frame(self._released, {}, fidelity_columns(tables))

    def sample_guarantee(
        self,
        n: int | Integral,
        *,
        n_queries: int = 1,
        beta: float = 0.05,
        keep_other: bool = True,
        keep_missing: bool = True,
        constraints: Constraint | Sequence[Constraint] | None = None,
    ) -> float | None:
        """Return a bound on the errors of queries that are evaluated on synthetic rows.

        Parameters
        ----------
        n : int
            Number of rows that `sample` draws.
        n_queries : int, default=1
            Number k of queries, which must be chosen before the rows are drawn.
        beta : float, default=0.05
            Failure probability of the bound on the sampling error, in (0, 1). The total failure
            probability is at most this value plus that of `guarantee_`.
        keep_other, keep_missing, constraints
            As in `sample`.

        Returns
        -------
        float or None
            With ``method="pmw"``: ``guarantee_ + w + sqrt(ln(2 k / beta) / (2 n))``, at most 1,
            where w is the released weight of rows that `sample` rejects or changes. ``None`` if
            `guarantee_` is ``None``, or if answers come from a cover instead of weighted rows.

        References
        ----------
        Bassily, Cheu, Moran, Nikolov, Ullman and Wu (2020), Remark 9.
        """
        check_is_fitted(self)
        check_ranges(n=int(n), n_queries=n_queries, beta=beta)
        if self.guarantee_ is None or not self._released.answers.answers_are_of_rows:
            return None
        support = self._released.rows
        is_changed = ~self._acceptance(keep_other, keep_missing, constraints)(support.rows)
        changed_weight = float(support.weights[is_changed].sum())
        sampling = math.sqrt(math.log(2 * n_queries / beta) / (2 * int(n)))
        return min(1.0, self.guarantee_ + changed_weight + sampling)

    def _acceptance(
        self,
        keep_other: bool,
        keep_missing: bool,
        constraints: Constraint | Sequence[Constraint] | None,
    ) -> Callable[[Floats], Mask]:
        """Return a function that indicates which encoded rows `sample` may return."""
        functions = check_constraints(constraints)

        def is_accepted(rows: Floats) -> Mask:
            """Indicate which encoded rows may be returned."""
            mask = self._schema.is_possible(rows)
            mask[mask] = satisfies(functions, rows[mask], self._schema)
            if not keep_other:
                mask &= self._schema.has_known_categories(rows)
            if not keep_missing:
                mask &= self._schema.has_all_values(rows)
            return mask

        return is_accepted

    def _draw_rows(
        self,
        n: int | Integral,
        keep_other: bool,
        keep_missing: bool,
        constraints: Constraint | Sequence[Constraint] | None,
    ) -> Floats:
        """Return n encoded synthetic rows; the parameters are those of `sample`."""
        check_is_fitted(self)
        if not isinstance(n, Integral) or n < 0:
            raise ValueError(f"n must be a non-negative integer; got {n!r}.")
        is_accepted = self._acceptance(keep_other, keep_missing, constraints)
        seed = public_seed(self.random_state)
        generator = np.random.default_rng([seed, 1])  # use a stream independent of `fit`

        def draw(size: int) -> Floats:
            """Return encoded rows without impossible values."""
            rows = self._released.answers.sample(size, generator)
            weights = self._released.queries.weights
            if weights is not None:  # synthetic rows have equal weights
                rows[:, weights.position] = 1 - weights.offset
            return self._schema.replace_impossible(rows)

        return draw_accepted_rows(draw, is_accepted, int(n))

    def _short_columns(self) -> list[str]:
        """Return the numeric columns whose synthetic numbers stay within the public range.

        Columns whose bounds equal the public range are excluded.
        """
        if not self._released.answers.ends_with_public_rows:
            return []
        weights = self._released.queries.weights
        return [
            column.name
            for position, column in enumerate(self._schema.columns)
            if not (column.categorical or (weights is not None and position == weights.position))
            and len(column.values)
            and (column.low < column.values[0] or column.high > column.values[-1])
        ]


class FittedReleaseMixin(
    ColumnMethodsMixin,
    SyntheticRowsMixin,
    HTMLReprMixin,
    VersionedMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Methods of a fitted release, which post-process released numbers and cost no privacy."""

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
            Queries in the format that the query class documents.

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
        """Evaluate queries on given rows, without using the released results.

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
            Coverage over samples and noise, in (0, 1). For cells of tables, the coverage is an
            average over cells, so individual cells may be covered less often.
        simultaneous : bool, default=False
            Whether all intervals hold jointly with probability `level`, rather than each interval
            separately. Simultaneous intervals for tables contain the intervals from the noisy
            answers alone. They therefore hold without assumptions about public rows or a model.

        Returns
        -------
        ndarray of shape (n_queries, 2)
            Lower and upper ends. The intervals account for the noise, for the sampling of rows
            (which are assumed independent), and for the estimated shift of the public rows.

        Raises
        ------
        ValueError
            If the method or the query class does not provide intervals.
        """
        check_is_fitted(self)
        return self._released.intervals(
            self._check_queries(Q), check_level(level), simultaneous=bool(simultaneous)
        )

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Answer queries in a step of a pipeline.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n_queries, ...)
            Queries. The parameter is called `X` because scikit-learn's pipelines use this name.

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
            Held-out rows, which are not protected: like any scikit-learn score, this score is
            computed from the rows without noise. This score must not be published.
        y : None
            Ignored.

        Returns
        -------
        float
            Negative mean absolute error over all cells of the tables in the class, or over queries
            at quantiles of these rows.
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
        """Return the marginal table of some columns: a fraction for each combination of values.

        Parameters
        ----------
        columns : str, int, or sequence of these
            Names or positions of columns that occur together in a released table. Releases without
            tables, such as the default release of a single numeric column, provide a table of each
            numeric column with bins cut at round numbers.
        level, simultaneous
            Coverage of the intervals, as in `interval`.
        counts : bool or int, default=False
            Whether to add counts, i.e. fractions times the number of private rows. An integer, such
            as the size of the population, replaces the number of private rows. An integer is
            required if there are weights.
        within : str, int, or sequence of these, default=None
            Columns that define groups. The table then contains shares, i.e. the fraction of a
            group's rows in each cell. These columns may, but need not, be among `columns`.
        wide : bool or str, default=False
            Whether each category of the last column becomes a column of the result instead of a
            row. The values are the counts if `counts` is set, and otherwise the fractions or
            shares. The name of another value column, such as ``"low"``, selects that column
            instead.

        Returns
        -------
        DataFrame or dict of str to ndarray
            The columns, then ``fraction`` (or ``share``) with the ends ``low`` and ``high`` of its
            interval. With `counts`, the columns ``count``, ``count_low`` and ``count_high`` are
            added. If a column of `X` in the table has such a name, an underscore is appended to the
            name of the result column, as in ``fraction_``. The result is a frame of the same
            library as `X`, and a dict if `X` is an array. For rows that are read in chunks, the
            library is the one of the chunks, for example pyarrow for Parquet files and DuckDB.

            A column has the same type in the results of all methods. If some of its cells are text,
            such as ``"(missing)"``, all of them are text. Categories whose type declares an order
            keep this order. All other categories are sorted, and numbers within strings are
            compared as numbers. ``"(other)"`` and ``"(missing)"`` come last.

        Raises
        ------
        ValueError
            If a column does not exist, no released table contains all columns, or a parameter is
            invalid.

        Notes
        -----
        Intervals refer to the population's fractions. The interval for a count is the interval for
        the corresponding fraction, multiplied by the number of rows. If a group may be empty, its
        shares are unknown and reported as NaN, with the interval [0, 1].

        A bin "a to b" of numbers contains b, and only the first bin contains a. The name of a bin
        that counts several numbers states it, as in ``">= 2"``. Numbers outside the bounds are
        counted as the nearer bound.

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
            raise ValueError("columns must contain at least one column that is not also in within.")
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
        """Iterate over all released tables: the tables of the workload and all of their margins.

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
            A table in the format returned by `table`. Tables of single columns come first.

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
        """Whether the release describes a single numeric column and contains no tables.

        Listed queries do not determine the distribution of a column.
        """
        queries = self._released.queries
        return not queries.has_tables and queries.statistic != "counts"

    def _table_options(
        self, level: float | Fraction, simultaneous: bool, counts: bool | int | Integral
    ) -> TableOptions:
        """Check the options for displaying tables, and return them."""
        n_rows: int | None = None
        if counts is True and self._released.queries.weights is not None:
            raise ValueError(
                "counts must be the size of the population, because the rows have weights. Pass "
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
        """Return a copy of the release whose tables agree with totals from other sources.

        The released distribution is raked to known margins, such as those from a census.
        Calibration is post-processing of released numbers and costs no privacy. In the copy, the
        methods `answer`, `table`, `cdf`, `mean` and `sample` return calibrated results.

        Parameters
        ----------
        totals : dict
            Known totals of one or more released tables. Each key is a column or a tuple of columns.
            Each value is a dict or a pandas Series that maps every cell of the table to a number of
            persons or a share. Cells are named as in `table`, with tuples for several columns. Only
            the proportions within each table matter. Cells of ``"(other)"`` and ``"(missing)"`` may
            be omitted and are then empty after calibration. Totals must be public and must not be
            computed from private rows.

        Returns
        -------
        PAPQueryRelease
            The calibrated copy, with the same `privacy_`. If the release is itself calibrated, the
            totals of all calls hold.

        Raises
        ------
        ValueError
            If totals contradict each other, lack cells, or refer to a table that was not released.

        Notes
        -----
        Intervals are approximate. The intervals of the release are rescaled by the standard
        deviation of the linearised calibration estimator [1]_, where errors due to noise are added
        as if they were independent. `cdf_interval`, `quantile_interval` and `mean_interval` are not
        available. For a mean, weight the ends of `mean_interval` of the groups by the known shares
        of the groups instead, with ``simultaneous=True`` and before calibration. The user guide on
        query release has an example.

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
        """Return the user's queries after checking that their columns match those seen in `fit`.

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
