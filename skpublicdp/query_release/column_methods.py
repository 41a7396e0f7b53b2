"""Methods of a fitted release about one numeric column: CDF, quantiles, histogram and mean."""

from __future__ import annotations

from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skpublicdp.data.schema import Column, Schema
from skpublicdp.exceptions import UncoveredBoundsWarning, warn
from skpublicdp.query_release.answers import ColumnDistribution, FittedRelease
from skpublicdp.query_release.binned_columns import BinnedColumn
from skpublicdp.query_release.cdf.grid import just_below
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.weighted_rows import WeightedRows


class ColumnMethodsMixin:
    """Methods of a fitted release about one numeric column. They cost no privacy."""

    _schema: Schema
    _released: FittedRelease

    def cdf(self, x: ArrayLike, column: str | int | None = None) -> NDArray[np.float64]:
        """Estimate the cumulative distribution function of a column.

        Parameters
        ----------
        x : array-like of float or of dates
            Numbers.
        column : str or int, default=None
            Name or position of a numeric column. It is not needed if there is a single column.

        Returns
        -------
        ndarray of the shape of x
            Fraction of the population at or below each number.
        """
        distribution, schema_column = self._distribution(column)
        return distribution.cdf(schema_column.from_user(x))

    def cdf_interval(
        self,
        x: ArrayLike,
        column: str | int | None = None,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
    ) -> NDArray[np.float64]:
        """Return confidence intervals of the population's cumulative distribution function.

        Parameters
        ----------
        x : array-like of float or of dates
            Numbers.
        column : str or int, default=None
            Name or position of a numeric column. It is not needed if there is a single column.
        level, simultaneous
            As in `interval`.

        Returns
        -------
        ndarray of shape (*x.shape, 2)
            Low and high.

        Raises
        ------
        ValueError
            If the column has no intervals: with ``method="pmw"``, with ``method="public"``, and
            for `CustomQueries`.
        """
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

    def quantile(self, p: ArrayLike, column: str | int | None = None) -> NDArray[Any]:
        """Estimate quantiles of a column.

        Parameters
        ----------
        p : array-like of float
            Fractions in [0, 1].
        column : str or int, default=None
            Name or position of a numeric column. It is not needed if there is a single column.

        Returns
        -------
        ndarray of the shape of p
            Numbers or dates, increasing with p.
        """
        distribution, schema_column = self._distribution(column)
        return schema_column.to_user(distribution.quantile(_check_fractions(p)))

    def quantile_interval(
        self,
        p: ArrayLike,
        column: str | int | None = None,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
    ) -> NDArray[Any]:
        """Return confidence intervals of the population's quantiles.

        Parameters
        ----------
        p : array-like of float
            Fractions in [0, 1].
        column : str or int, default=None
            Name or position of a numeric column. It is not needed if there is a single column.
        level, simultaneous
            As in `interval`.

        Returns
        -------
        ndarray of shape (*p.shape, 2)
            Low and high: the range of the numbers at which `cdf_interval` contains p.

        Raises
        ------
        ValueError
            If the column has no intervals: with ``method="pmw"``, with ``method="public"``, and
            for `CustomQueries`.
        """
        distribution, schema_column = self._distribution_with_intervals(column)
        ends = distribution.quantile_interval(
            _check_fractions(p), check_level(level), simultaneous=bool(simultaneous)
        )
        return schema_column.to_user(ends)

    def histogram(self, edges: ArrayLike, column: str | int | None = None) -> NDArray[np.float64]:
        """Estimate the fraction of the population in each bin.

        Parameters
        ----------
        edges : array-like of float or of dates, shape (n_bins + 1,)
            Increasing. A bin (a, b] contains its right edge, and the first bin contains both of
            its edges, as in ``pandas.cut(..., include_lowest=True)``. In contrast, a bin [a, b) of
            ``numpy.histogram`` contains its left edge, and the last bin contains both.
        column : str or int, default=None
            Name or position of a numeric column. It is not needed if there is a single column.

        Returns
        -------
        ndarray of shape (n_bins,)
            Fractions. They add up to 1 if the bins cover the bounds of the column.

        Warns
        -----
        UncoveredBoundsWarning
            If the bins do not cover the bounds of the column, so that rows may be outside all bins.
        """
        distribution, schema_column = self._distribution(column)
        above, up_to = _encode_bins(edges, schema_column)
        return distribution.cdf(up_to) - distribution.cdf(above)

    def histogram_interval(
        self,
        edges: ArrayLike,
        column: str | int | None = None,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
    ) -> NDArray[np.float64]:
        """Return confidence intervals of the population's fraction in each bin.

        Parameters
        ----------
        edges : array-like of float or of dates, shape (n_bins + 1,)
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
        distribution, schema_column = self._distribution_with_intervals(column)
        above, up_to = _encode_bins(edges, schema_column)
        return distribution.fraction_intervals(
            above, up_to, check_level(level), simultaneous=bool(simultaneous)
        )

    def mean(self, column: str | int | None = None) -> Any:
        """Estimate the mean of a column.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a numeric column. It is not needed if there is a single column.

        Returns
        -------
        float, or a datetime
            The mean, after moving numbers outside the bounds to the nearer bound.
        """
        distribution, schema_column = self._distribution(column)
        return schema_column.to_user(np.array(distribution.mean())).item()

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
                "CustomQueries. Use method='auto' with another class of queries."
            )
        return distribution, schema_column

    def _distribution(self, column: str | int | None) -> tuple[ColumnDistribution, Column]:
        """Return the released distribution of a numeric column, and its entry in the schema."""
        check_is_fitted(self)
        if column is None and len(self._schema.columns) > 1:
            raise ValueError(
                "cdf, quantile, histogram and mean are about one numeric column; pass its name as "
                "column."
            )
        position = 0 if column is None else self._schema.position(column)
        if not self._schema.numeric[position]:
            name = self._schema.names[position]
            raise ValueError(
                f"Column {name} is categorical; cdf, quantile, histogram and mean need numbers."
            )
        return self._released.distribution(position), self._schema.columns[position]


def _encode_bins(
    edges: ArrayLike, column: Column
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of the user's bins a < x <= b, encoded as floats: all a and all b.

    The first a is just below the first edge, so that the first bin contains this edge. Warns if the
    bins do not cover the bounds of the column.
    """
    numbers = column.from_user(edges)
    if numbers.ndim != 1 or len(numbers) < 2 or not (numbers[1:] > numbers[:-1]).all():
        raise ValueError("edges must be two or more increasing numbers.")
    if numbers[0] > column.low or numbers[-1] < column.high:
        first, last, low, high = map(column.format, (*numbers[[0, -1]], column.low, column.high))
        warn(
            f"The bins go from {first} to {last} and the bounds of column {column.name} from {low} "
            f"to {high}, so that rows outside the bins are not counted. Extend the outer edges to "
            "the bounds (for numbers, to -inf and inf) to count all rows.",
            UncoveredBoundsWarning,
        )
    above = numbers[:-1].copy()
    above[0] = just_below(above[0])
    return above, numbers[1:]


def check_level(level: Any) -> float:
    """Return the level of confidence intervals as a float, after checking that it is in (0, 1)."""
    if not (isinstance(level, Real) and 0 < float(level) < 1):
        raise ValueError(f"level must be in (0, 1); got {level!r}.")
    return float(level)


def _check_fractions(p: ArrayLike) -> NDArray[np.float64]:
    """Return levels of quantiles as floats, after checking that they are in [0, 1]."""
    p = np.asarray(p, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p must lie in [0, 1].")
    return p
