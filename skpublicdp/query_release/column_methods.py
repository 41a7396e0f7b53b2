"""Methods of a fitted `PAPQueryRelease` for one numeric column: CDF, quantiles, mean, histogram."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.parameters import check_level
from skpublicdp.data.dates import array_from_user
from skpublicdp.data.schema import MISSING, Column, Schema
from skpublicdp.exceptions import UncoveredBoundsWarning, UnmeasuredWarning, warn
from skpublicdp.query_release.answers import ColumnDistribution, FittedRelease
from skpublicdp.query_release.binned_columns import BinnedColumn
from skpublicdp.query_release.cdf.grid import just_below
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.collapsed_tables import ordered_cdf, ordered_quantiles
from skpublicdp.query_release.discretize import bin_labels, encode_edges
from skpublicdp.query_release.group_sums import (
    combined_means,
    group_ratios,
    group_totals,
    mean_frame,
)
from skpublicdp.query_release.synthetic import WeightedRows
from skpublicdp.query_release.table_frames import (
    ALL_MISSING,
    GROUP_LEVEL,
    ColumnByGroup,
    GroupColumns,
    TableOptions,
    as_frame,
)


class ColumnMethodsMixin:
    """Methods of a fitted release for single numeric columns, at no privacy cost."""

    _schema: Schema
    _released: FittedRelease
    _table_options: Callable[..., TableOptions]

    def cdf(
        self,
        x: ArrayLike,
        column: str | int | None = None,
        *,
        by: str | int | Sequence[str | int] | None = None,
    ) -> Any:
        """Estimate the cumulative distribution function (CDF) of a column.

        Parameters
        ----------
        x : array-like of float, of dates or of categories
            Numbers, or categories of a column whose type declares their order.
        column : str or int, default=None
            Name or position of a numeric column or of a column with ordered categories. It can be
            omitted if there is only one column.
        by : str, int, or sequence of these, default=None
            Columns whose categories, or bins of numbers, define groups of rows. A released table
            must contain these columns together with `column`.

        Returns
        -------
        ndarray of the shape of x
            Fraction of the rows with a value (see `missing_fraction`) that are at or below each
            number. With `by`, a DataFrame or dict with the group columns, ``x`` and ``fraction``,
            computed from the group's rows that have a value. Groups that are empty in the release
            are omitted.

        Raises
        ------
        ValueError
            If no released table contains the column and the groups.
        """
        if by is not None:
            return self._by_group(column, by).cdf(np.ravel(array_from_user(x)))
        ordered = self._ordered_position(column)
        if ordered is not None:
            return ordered_cdf(self._released, ordered, x, GROUP_LEVEL)[0]
        distribution, schema_column = self._distribution(column)
        numbers = schema_column.from_user(x)
        if not self._has_values(column):
            return np.full(numbers.shape, np.nan)
        return distribution.cdf(numbers)

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

        As in `cdf`, only rows that have a value are considered.

        Parameters
        ----------
        x : array-like of float or of dates
            Numbers.
        column : str or int, default=None
            Name or position of a numeric column. It can be omitted if there is only one column.
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
            If the column has no intervals, which is the case with ``method="pmw"``, with
            ``method="public"`` and for `CustomQueries`. If no released table contains the column
            and the groups.
        """
        if by is not None:
            options = TableOptions(check_level(level), bool(simultaneous))
            return self._by_group(column, by).cdf(np.ravel(array_from_user(x)), options)
        ordered = self._ordered_position(column)
        if ordered is not None:
            level = self._level_of_ordered(ordered, level, simultaneous)
            return ordered_cdf(self._released, ordered, x, level)[1]
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
            Name or position of a numeric column. It can be omitted if there is only one column.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows, as in `cdf`.

        Returns
        -------
        ndarray of the shape of p
            Numbers or dates, increasing with p, after moving numbers outside the bounds to the
            nearer bound, or categories of a column with ordered categories. With `by`, a DataFrame
            or dict with the group columns, ``p`` and ``quantile``, computed among the group's rows.
            Groups that are empty in the release are omitted.

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
        p = _check_fractions(p)
        ordered = self._ordered_position(column)
        if ordered is not None:
            return ordered_quantiles(self._released, ordered, p, GROUP_LEVEL)[0]
        distribution, schema_column = self._distribution(column)
        if not self._has_values(column):
            return schema_column.to_user(np.full(p.shape, np.nan))
        return schema_column.to_user(distribution.quantile(p))

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
            Name or position of a numeric column. It can be omitted if there is only one column.
        level, simultaneous
            As in `interval`. Simultaneous intervals hold jointly for all groups.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows, as in `cdf`.

        Returns
        -------
        ndarray of shape (*p.shape, 2)
            Lower and upper ends of the range of numbers for which `cdf_interval` contains p. Like
            `quantile`, the range refers to numbers that were moved to the bounds. With
            `by`, a DataFrame or dict as in `quantile`, with the additional columns ``low`` and
            ``high``.

        Raises
        ------
        ValueError
            If the column has no intervals, which is the case with ``method="pmw"``, with
            ``method="public"`` and for `CustomQueries`. If no released table contains the column
            and the groups.
        """
        if by is not None:
            options = TableOptions(check_level(level), bool(simultaneous))
            return self._by_group(column, by).quantile(_check_fractions(p).ravel(), options)
        ordered = self._ordered_position(column)
        if ordered is not None:
            level = self._level_of_ordered(ordered, level, simultaneous)
            return ordered_quantiles(self._released, ordered, _check_fractions(p), level)[1]
        distribution, schema_column = self._distribution_with_intervals(column)
        ends = distribution.quantile_interval(
            _check_fractions(p), check_level(level), simultaneous=bool(simultaneous)
        )
        return schema_column.to_user(ends)

    def histogram(
        self,
        edges: ArrayLike | None = None,
        column: str | int | None = None,
        *,
        by: str | int | Sequence[str | int] | None = None,
    ) -> Any:
        """Estimate the fraction of the population in each bin.

        Parameters
        ----------
        edges : array-like of float or of dates, shape (n_bins + 1,), default=None
            Increasing edges. The default is the parameter `bins` of `MarginalQueries`. A bin (a, b]
            contains its right edge, and the first bin contains both of its edges, as in
            ``pandas.cut(..., include_lowest=True)``. In contrast, a bin [a, b) of
            ``numpy.histogram`` contains its left edge, and the last bin contains both of its edges.
        column : str or int, default=None
            Name or position of a numeric column. It can be omitted if there is only one column.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows, as in `cdf`.

        Returns
        -------
        ndarray of shape (n_bins,)
            Fractions of the rows that have a value. The fractions sum to 1 if the bins cover the
            bounds of the column. In contrast, `table` returns fractions of all rows. With `by`, a
            DataFrame or dict with the group columns, ``bin`` and ``fraction``, computed among the
            group's rows. Groups that are empty in the release are omitted.

        Raises
        ------
        ValueError
            If the edges are not increasing, or if no edges were given either here or in `fit`.

        Warns
        -----
        UncoveredBoundsWarning
            If the bins do not cover the bounds of the column, so that rows may lie outside all
            bins.
        """
        distribution, _ = self._distribution(column)
        above, up_to, names = self._encode_bins(edges, column)
        if by is not None:
            return self._by_group(column, by).histogram(above, up_to, names)
        if not self._has_values(column):
            return np.full(up_to.shape, np.nan)
        return distribution.cdf(up_to) - distribution.cdf(above)

    def histogram_interval(
        self,
        edges: ArrayLike | None = None,
        column: str | int | None = None,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
        by: str | int | Sequence[str | int] | None = None,
    ) -> Any:
        """Return confidence intervals for the population's fraction in each bin, as in `histogram`.

        Parameters
        ----------
        edges : array-like of float or of dates, shape (n_bins + 1,), default=None
            As in `histogram`.
        column : str or int, default=None
            Name or position of a numeric column. It can be omitted if there is only one column.
        level, simultaneous
            As in `interval`. Simultaneous intervals hold jointly for all groups.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows, as in `cdf`.

        Returns
        -------
        ndarray of shape (n_bins, 2)
            Lower and upper ends of the intervals. With `by`, a DataFrame or dict as in `histogram`,
            with the additional columns ``low`` and ``high``.

        Raises
        ------
        ValueError
            If the column has no intervals, which is the case with ``method="pmw"``, with
            ``method="public"`` and for `CustomQueries`.

        Warns
        -----
        UncoveredBoundsWarning
            As in `histogram`.
        """
        if by is not None:
            above, up_to, names = self._encode_bins(edges, column)
            options = TableOptions(check_level(level), bool(simultaneous))
            return self._by_group(column, by).histogram(above, up_to, names, options)
        distribution, _ = self._distribution_with_intervals(column)
        above, up_to, _ = self._encode_bins(edges, column)
        return distribution.fraction_intervals(
            above, up_to, check_level(level), simultaneous=bool(simultaneous)
        )

    def mean(
        self,
        column: str | int | None = None,
        by: str | int | Sequence[str | int] | None = None,
    ) -> Any:
        """Estimate the mean of a numeric column, overall or within groups of rows.

        The mean is taken over the rows that have a value. `missing_fraction` returns the fraction
        of rows without a value. Within each bin of a table, the mean is determined by public rows
        alone and differs little between groups. Group means are therefore accurate only if bins are
        narrow compared with the differences between groups, or if their sums were measured with
        ``MarginalQueries(sums=...)``.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a numeric column. It can be omitted if there is only one column.
        by : str, int, or sequence of these, default=None
            Columns whose categories, or bins of numbers, define groups of rows. A released table
            must contain these columns together with `column`.

        Returns
        -------
        float, or a datetime
            The mean after moving numbers outside the bounds to the nearer bound, or NaN if possibly
            no row has a value. With `by`, a DataFrame or dict with the group columns and ``mean``.
            Groups that may be empty are omitted, as are groups in which possibly no row has a
            value.

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
        position = self._numeric_position(column)
        if by is not None:
            return mean_frame(self._released, position, self._positions(by))
        distribution, schema_column = self._distribution(column)
        has_values = self._has_values(column)
        mean = distribution.mean() if has_values else np.nan
        combined = combined_means(self._released, position, ())
        if combined is not None and not np.isnan(mean):
            mean = combined.means().item()
        return schema_column.to_user(np.array(mean)).item()

    def mean_interval(
        self,
        column: str | int | None = None,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
        by: str | int | Sequence[str | int] | None = None,
    ) -> Any:
        """Return confidence intervals for the population's means, as in `mean`.

        The intervals account for the noise, for the sampling of private rows, and for errors in the
        means within bins, which are determined by public rows alone. Intervals are long if a wide
        bin contains few public rows, such as the last bin of a skewed column, and shorter if
        ``MarginalQueries(sums=...)`` measures the sums of the groups. The coverage of the
        intervals was measured, but no theorem guarantees it.

        There are no intervals after `calibrate`. If the totals are those of the groups `by`, use
        the release before calibration: calibration hardly changes the means of these groups. For
        the mean of the population, weight the ends of the groups' simultaneous intervals by the
        known shares of the groups.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a numeric column. It can be omitted if there is only one column.
        level : float, default=0.95
            Coverage over samples and noise, in (0, 1).
        simultaneous : bool, default=False
            Whether the intervals of all groups hold jointly. For tables, joint intervals also
            contain the intervals from the noisy answers alone, whatever the numbers within the
            bins.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows, as in `mean`.

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
        options = TableOptions(check_level(level), bool(simultaneous))
        position = self._numeric_position(column)
        if by is not None:
            return mean_frame(self._released, position, self._positions(by), options)
        distribution, schema_column = self._distribution_with_intervals(column)
        combined = combined_means(self._released, position, ())
        joint_level = options.level if simultaneous else None
        if combined is not None:
            ends = combined.intervals(options.level, joint_level).ravel()
        else:
            ends = distribution.mean_interval(options.level, simultaneous_level=joint_level)
        return schema_column.to_user(ends)

    def total(
        self,
        column: str | int | None = None,
        by: str | int | Sequence[str | int] | None = None,
        *,
        counts: bool | int | Integral = True,
    ) -> Any:
        """Estimate the total of a numeric column, overall or within groups of rows.

        Totals require sums that were measured with ``MarginalQueries(sums=...)``.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a numeric column. It can be omitted if there is only one column.
        by : str, int, or sequence of these, default=None
            Columns whose categories, or bins of numbers, define groups of rows. They must be
            among the groups of one entry of `sums`.
        counts : bool or int, default=True
            Number of rows to which the totals refer: that of the private rows, or the given size of
            the population.

        Returns
        -------
        float
            The total, after moving numbers outside the bounds to the nearer bound. With `by`, a
            DataFrame or dict with the group columns and ``total``. Groups that may be empty are
            omitted.

        Raises
        ------
        ValueError
            If the sums of the column in these groups were not measured.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skpublicdp import PAPQueryRelease
        >>> from skpublicdp.query_release import MarginalQueries
        >>> rng = np.random.default_rng(0)
        >>> def people(n):
        ...     job = rng.choice(["farm", "shop"], size=n)
        ...     return pd.DataFrame({"job": job, "pay": rng.gamma(2, 1000, size=n)})
        >>> queries = MarginalQueries(sums={"pay": ["job"]})
        >>> release = PAPQueryRelease(queries, bounds={"pay": (0, 20_000)}, random_state=0)
        >>> release = release.fit(people(20_000), X_public=people(300))
        >>> print(f"{release.total('pay') / 1e6:.1f} million")  # 40 million are expected
        39.8 million
        """
        options = self._table_options(0.95, simultaneous=False, counts=counts or True)
        groups = self._positions(by)
        position = self._numeric_position(column)
        keys, totals = group_totals(self._released, position, groups, options)
        return as_frame(self._released, keys, {"total": totals[0]}) if keys else totals[0].item()

    def total_interval(
        self,
        column: str | int | None = None,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
        by: str | int | Sequence[str | int] | None = None,
        counts: bool | int | Integral = True,
    ) -> Any:
        """Return confidence intervals for the totals of a population, as in `total`.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a numeric column. It can be omitted if there is only one column.
        level, simultaneous
            As in `interval`. Simultaneous intervals hold jointly for all groups.
        by, counts
            As in `total`.

        Returns
        -------
        ndarray of shape (2,)
            Lower and upper ends. With `by`, a DataFrame or dict as in `total`, with the additional
            columns ``low`` and ``high``.

        Raises
        ------
        ValueError
            If the sums of the column in these groups were not measured.
        """
        options = self._table_options(level, simultaneous, counts or True)
        groups = self._positions(by)
        position = self._numeric_position(column)
        keys, totals = group_totals(self._released, position, groups, options)
        return self._with_intervals("total", keys, totals)

    def ratio(
        self,
        numerator: str | int,
        denominator: str | int,
        by: str | int | Sequence[str | int] | None = None,
    ) -> Any:
        """Estimate the ratio of the totals of two numeric columns, such as tax over income.

        Parameters
        ----------
        numerator, denominator : str or int
            Names or positions of numeric columns, whose sums were measured in the same groups with
            ``MarginalQueries(sums=...)``.
        by : str, int, or sequence of these, default=None
            Columns that define groups of rows, as in `total`.

        Returns
        -------
        float
            The ratio. With `by`, a DataFrame or dict with the group columns and ``ratio``. Groups
            that may be empty are omitted.

        Raises
        ------
        ValueError
            If the sums of either column in these groups were not measured.
        """
        options = TableOptions(0.95, simultaneous=False)
        columns = self._numeric_position(numerator), self._numeric_position(denominator)
        keys, ratios = group_ratios(self._released, columns, self._positions(by), options)
        return as_frame(self._released, keys, {"ratio": ratios[0]}) if keys else ratios[0].item()

    def ratio_interval(
        self,
        numerator: str | int,
        denominator: str | int,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
        by: str | int | Sequence[str | int] | None = None,
    ) -> Any:
        """Return confidence intervals for the population's ratios of totals, as in `ratio`.

        Parameters
        ----------
        numerator, denominator, by
            As in `ratio`.
        level, simultaneous
            As in `interval`. Simultaneous intervals hold jointly for all groups.

        Returns
        -------
        ndarray of shape (2,)
            Lower and upper ends, which are infinite if the denominator may be 0. With `by`, a
            DataFrame or dict as in `ratio`, with the additional columns ``low`` and ``high``.

        Raises
        ------
        ValueError
            If the sums of either column in these groups were not measured.
        """
        options = TableOptions(check_level(level), bool(simultaneous))
        columns = self._numeric_position(numerator), self._numeric_position(denominator)
        keys, ratios = group_ratios(self._released, columns, self._positions(by), options)
        return self._with_intervals("ratio", keys, ratios)

    def _with_intervals(self, name: str, keys: GroupColumns, values: NDArray[np.float64]) -> Any:
        """Return estimates with intervals by group, or the ends of the only interval."""
        estimates, low, high = values
        if not keys:
            return np.array([low[0], high[0]])
        return as_frame(self._released, keys, {name: estimates, "low": low, "high": high})

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
            Name or position of a column. It can be omitted if there is only one column.

        Returns
        -------
        float
            Fraction of the population. The fraction is 0 for numeric columns in which missing
            numbers are not allowed; see the parameter `missing` of `MarginalQueries`.

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
            Name or position of a column. It can be omitted if there is only one column.
        level : float, default=0.95
            Coverage, as in `interval`.

        Returns
        -------
        ndarray of shape (2,)
            Lower and upper ends of the intervals.

        Raises
        ------
        ValueError
            If the method provides no intervals, or if `missing_fraction` raises an error.
        """
        level = check_level(level)
        cell = self._missing_cell(column)
        if cell is None:
            return np.zeros(2)
        interval: NDArray[np.float64]
        interval = self._released.intervals([cell], level, simultaneous=False)[0]
        return interval

    def _has_values(self, column: str | int | None) -> bool:
        """Indicate whether some row surely has a value in a numeric column.

        Otherwise, the interval for the fraction of rows without a value contains 1.
        """
        position = self._numeric_position(column)
        answers, queries = self._released.answers, self._released.queries
        may_be_missing = self._schema.columns[position].nullable and queries.has_tables
        if not (may_be_missing and answers.is_measured(position)):
            return True
        cell = [{position: MISSING}]
        if answers.has_intervals:
            missing = self._released.intervals(cell, GROUP_LEVEL, simultaneous=False)[0, 1]
        else:
            missing = self._released.answer(cell)[0]
        return bool(missing <= ALL_MISSING)

    def _missing_cell(self, column: str | int | None) -> dict[int, str] | None:
        """Return the query for missing values in a column, or None if they are not allowed."""
        check_is_fitted(self)
        if column is None and len(self._schema.columns) > 1:
            raise ValueError(
                "missing_fraction applies to a single column. Pass the name of that column as "
                "column."
            )
        position = 0 if column is None else self._schema.position(column)
        schema_column = self._schema.columns[position]
        if not schema_column.categorical and not schema_column.nullable:
            return None
        self._released.queries.table_cells([position])  # raises an error without tables
        return {position: MISSING}

    def _encode_bins(
        self, edges: ArrayLike | None, column: str | int | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], list[str]]:
        """Return the ends a and b of all bins a < x <= b, encoded as floats, and their names.

        The first left end is just below the first edge, so that the first bin contains this edge. A
        warning is issued if the bins do not cover the bounds of the column. By default, the bin
        edges from the fit are used.
        """
        position = 0 if column is None else self._schema.position(column)
        schema_column = self._schema.columns[position]
        if edges is not None:
            numbers = encode_edges(edges, schema_column)
        else:
            numbers_of_fit = self._released.queries.bin_edges(position)
            if numbers_of_fit is None:
                raise ValueError(
                    "edges must be given, because MarginalQueries(bins={...}) does not specify "
                    f"edges for column {schema_column.name}."
                )
            numbers = numbers_of_fit
        if numbers[0] > schema_column.low or numbers[-1] < schema_column.high:
            ends = (*numbers[[0, -1]], schema_column.low, schema_column.high)
            first, last, low, high = map(schema_column.format, ends)
            warn(
                f"The bins range from {first} to {last}, but the bounds of column "
                f"{schema_column.name} range from {low} to {high}, so rows outside the bins are "
                "not counted. To count all rows, extend the outer edges to the bounds, or to -inf "
                "and inf for a column of numbers.",
                UncoveredBoundsWarning,
            )
        above = numbers[:-1].copy()
        above[0] = just_below(above[0])
        inner = replace(
            schema_column, low=numbers[0], high=numbers[-1]
        )  # no bins outside the edges
        return above, numbers[1:], bin_labels(numbers, inner)

    def _positions(self, columns: str | int | Sequence[str | int] | None) -> list[int]:
        """Return the positions of columns, which are given by name or position, or no positions."""
        if columns is None:
            return []
        names: Sequence[Any] = [columns] if isinstance(columns, str | int | Real) else list(columns)
        return [self._schema.position(name) for name in names]

    def _distribution_with_intervals(
        self, column: str | int | None
    ) -> tuple[ReleasedCDF | BinnedColumn, Column]:
        """Return the released distribution of a numeric column and its schema entry.

        Raises a ValueError if the distribution has no confidence intervals.
        """
        position = self._numeric_position(column)
        if not self._released.answers.is_measured(position):
            raise ValueError(
                f"No released table contains column {self._schema.names[position]}, so intervals "
                "are not available for this column. Add a table that contains the column to the "
                "workload before the fit."
            )
        distribution, schema_column = self._distribution(column)
        if isinstance(distribution, WeightedRows):
            raise ValueError(
                "Intervals for columns are not available with method='public', method='pmw' or "
                "CustomQueries, or after calling calibrate. Use method='auto' with another query "
                "class and without calibration."
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
                "measure the distribution directly, add a table that contains this column to the "
                "workload.",
                UnmeasuredWarning,
            )
        return self._released.distribution(position), self._schema.columns[position]

    def _ordered_position(self, column: str | int | None) -> int | None:
        """Return the position of a column of ordered categories, or None for other columns."""
        check_is_fitted(self)
        if column is None and len(self._schema.columns) > 1:
            return None
        position = 0 if column is None else self._schema.position(column)
        return position if self._schema.columns[position].declared_order else None

    def _level_of_ordered(
        self, position: int, level: float | Fraction, simultaneous: bool
    ) -> float:
        """Return the level of each interval, where simultaneous ones hold for all categories."""
        n_intervals = len(self._schema.columns[position].values) if simultaneous else 1
        return 1 - (1 - check_level(level)) / n_intervals

    def _numeric_position(self, column: str | int | None) -> int:
        """Return the position of a numeric column after checking that the column can be queried."""
        check_is_fitted(self)
        if column is None and len(self._schema.columns) > 1:
            raise ValueError(
                "cdf, quantile, histogram and mean apply to a single numeric column. Pass the name "
                "of that column as column."
            )
        position = 0 if column is None else self._schema.position(column)
        if not self._schema.numeric[position]:
            name = self._schema.names[position]
            raise ValueError(
                f"Column {name} is categorical, but cdf, quantile, histogram and mean require a "
                "numeric column. For shares of its categories, use table with within. If the "
                "column contains numbers or dates as text, convert them before the fit, for "
                "example with pandas.to_numeric or pandas.to_datetime."
            )
        weights = self._released.queries.weights
        if weights is not None and position == weights.position:
            raise ValueError(
                "The weight column cannot be queried, because no information about it is released."
            )
        return position


def _check_fractions(p: ArrayLike) -> NDArray[np.float64]:
    """Return quantile levels as floats, after checking that they lie in [0, 1]."""
    p = np.asarray(p, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p must lie in [0, 1].")
    return p
