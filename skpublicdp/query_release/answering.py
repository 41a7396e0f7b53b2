"""What a fitted release can be asked: queries of its class, tables, columns, and rows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import Seed
from skpublicdp.data.batch_predict import apply_rule
from skpublicdp.data.schema import Column, Schema
from skpublicdp.data.tables import is_frame
from skpublicdp.data.validation import read_table
from skpublicdp.exceptions import UncoveredBoundsWarning, warn
from skpublicdp.privacy.ledger import public_seed
from skpublicdp.query_release.binned_columns import BinnedColumn
from skpublicdp.query_release.cdf.grid import just_below
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.fitted_release import FittedRelease
from skpublicdp.query_release.queries.base import QueryClass, ThresholdQueries
from skpublicdp.query_release.queries.marginal import MarginalQueries
from skpublicdp.query_release.weighted_rows import WeightedRows

N_MEAN_QUANTILES = 10_000
"""Quantiles that a mean is taken over."""


class ReleaseAnswers(HTMLReprMixin, TransformerMixin, BaseEstimator):
    """Answers from what `fit` released; nothing here costs privacy."""

    queries_: QueryClass
    random_state: Seed
    _schema: Schema
    _released: FittedRelease

    @property
    def _columns_at_fit(self) -> tuple[Column, ...]:
        return self._schema.columns

    def answer(self, Q: Any) -> NDArray[np.float64]:
        """Estimate the fraction of the population that satisfies each query.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries in the encoding of the class, see its documentation.

        Returns
        -------
        ndarray of shape (n_queries,)
            Answers in [0, 1].

        Warns
        -----
        UnmeasuredWarning
            If a question about cells is about columns that no released table has together, so that
            the answer is what the other tables make likely.
        """
        check_is_fitted(self)
        return self._released.answer(self._checked(Q))

    def holds(self, Q: Any, X: Any) -> NDArray[np.bool_]:
        """Tell which queries hold for which rows; nothing that was released is used.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries.
        X : array-like or DataFrame, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of bool, shape (n_queries, n)
            What `answer` is the mean of, over the population.
        """
        check_is_fitted(self)
        queries, schema = self._released.queries, self._schema
        rows = apply_rule(self, X, schema.encode)
        return queries.holds(queries.resolve(self._checked(Q), schema), rows)

    def interval(
        self, Q: Any, level: float | Fraction = 0.95, *, simultaneous: bool = False
    ) -> NDArray[np.float64]:
        """Say within which bounds the population's fractions should lie.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries in the encoding of the class.
        level : float, default=0.95
            Coverage over samples and noise, in (0, 1). For cells of tables it holds on average
            over cells, and single cells may be covered less often.
        simultaneous : bool, default=False
            Whether all of these should hold together, or each by itself. Those of tables then rest
            on the noisy answers alone, so that nothing about public rows or a model is assumed.

        Returns
        -------
        ndarray of shape (n_queries, 2)
            Low and high. They cover the noise, the sampling of rows, which are taken to be
            independent, and what the public rows were found to be wrong by.

        Raises
        ------
        ValueError
            Where there are no honest ones.
        """
        check_is_fitted(self)
        return self._released.interval(self._checked(Q), _coverage(level), bool(simultaneous))

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Answer queries, for pipelines.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n_queries, ...)
            Queries, not rows; the name is scikit-learn's.

        Returns
        -------
        ndarray of shape (n_queries, 1)
            Answers in [0, 1].
        """
        return self.answer(X)[:, None]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Name what `transform` returns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str
            One name.
        """
        check_is_fitted(self)
        return np.array(["fraction"], dtype=object)

    def score(self, X: Any, y: Any = None) -> float:
        """Compare the answers with rows, which are not protected by it.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Rows, such as a part kept aside. The score depends on them without noise, as all scores
            of scikit-learn do: do not publish it.
        y : None
            Ignored.

        Returns
        -------
        float
            Minus the mean error of the answers to the queries of the class: to all cells of its
            tables, or to the queries that tell these rows apart.
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
        """Return a table of the population: a fraction for each combination of values.

        Parameters
        ----------
        columns : str, int, or sequence of these
            Names or positions of columns that a released table has together.
        level, simultaneous
            Of the intervals, as in `interval`.

        Returns
        -------
        DataFrame or dict of str to ndarray
            A column for each attribute, then ``fraction``, and ``low`` and ``high``, the ends of
            the intervals. A frame if `X` was one.

        Raises
        ------
        ValueError
            If there are no such columns, or no released table has them together.
        """
        check_is_fitted(self)
        columns = [columns] if isinstance(columns, str | int | Integral) else list(columns)
        positions = [self._schema.position(column) for column in columns]
        return self._released.describe_table(positions, _coverage(level), bool(simultaneous))

    def sample(self, n: int | Integral = 1) -> Any:
        """Draw synthetic rows.

        Parameters
        ----------
        n : int, default=1
            Number of rows.

        Returns
        -------
        DataFrame or ndarray, shape (n, n_features)
            Rows in the container that `X` came in. It costs no privacy.
        """
        check_is_fitted(self)
        if not isinstance(n, Integral) or n < 0:
            raise ValueError(f"n must be a non-negative integer; got {n!r}.")
        seed = public_seed(self.random_state)
        generator = np.random.default_rng([seed, 1])  # apart from the noise of `fit`
        return self._schema.decode(self._released.sample(int(n), generator))

    def cdf(self, x: ArrayLike, column: str | int | None = None) -> NDArray[np.float64]:
        """Estimate the fraction at or below each number.

        Parameters
        ----------
        x : array-like of float or of dates
            Numbers.
        column : str or int, default=None
            Name or position of a numeric column; not needed if there is one.

        Returns
        -------
        ndarray of the shape of x
            Fractions, increasing with x.
        """
        line, described = self._line(column)
        return line.cdf(described.from_user(x))

    def cdf_interval(
        self,
        x: ArrayLike,
        column: str | int | None = None,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
    ) -> NDArray[np.float64]:
        """Return intervals of the population's fractions at or below each number.

        Parameters
        ----------
        x : array-like of float or of dates
            Numbers.
        column : str or int, default=None
            Name or position of a numeric column; not needed if there is one.
        level, simultaneous
            As in `interval`.

        Returns
        -------
        ndarray of the shape of x and (2,)
            Low and high.

        Raises
        ------
        ValueError
            Where the column has no intervals: of ``method="pmw"`` and ``"public"``, and of
            `CustomQueries`.
        """
        line, described = self._line_with_intervals(column)
        numbers = described.from_user(x)
        up_to = numbers.ravel()
        ends = line.fraction_intervals(
            np.full(len(up_to), -np.inf), up_to, _coverage(level), simultaneous=bool(simultaneous)
        )
        return ends.reshape(*numbers.shape, 2)

    def quantile(self, p: ArrayLike, column: str | int | None = None) -> NDArray[Any]:
        """Estimate quantiles.

        Parameters
        ----------
        p : array-like of float
            Fractions in [0, 1].
        column : str or int, default=None
            Name or position of a numeric column; not needed if there is one.

        Returns
        -------
        ndarray of the shape of p
            Numbers or dates, increasing with p.
        """
        line, described = self._line(column)
        return described.to_user(line.quantile(_fractions(p)))

    def quantile_interval(
        self,
        p: ArrayLike,
        column: str | int | None = None,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
    ) -> NDArray[Any]:
        """Return intervals of the population's quantiles.

        Parameters
        ----------
        p : array-like of float
            Fractions in [0, 1].
        column : str or int, default=None
            Name or position of a numeric column; not needed if there is one.
        level, simultaneous
            As in `interval`.

        Returns
        -------
        ndarray of the shape of p and (2,)
            Low and high: all numbers at which `cdf_interval` contains p.

        Raises
        ------
        ValueError
            Where the column has no intervals: of ``method="pmw"`` and ``"public"``, and of
            `CustomQueries`.
        """
        line, described = self._line_with_intervals(column)
        ends = line.quantile_interval(
            _fractions(p), _coverage(level), simultaneous=bool(simultaneous)
        )
        return described.to_user(ends)

    def histogram(self, edges: ArrayLike, column: str | int | None = None) -> NDArray[np.float64]:
        """Estimate the fraction of the population in each bin.

        Parameters
        ----------
        edges : array-like of float or of dates, shape (n_bins + 1,)
            Increasing. A bin (a, b] contains its right edge and not its left one, except that the
            first bin contains both of its edges, as in ``pandas.cut(..., include_lowest=True)``.
            In ``numpy.histogram`` a bin [a, b) contains its left edge, and the last one both.
        column : str or int, default=None
            Name or position of a numeric column; not needed if there is one.

        Returns
        -------
        ndarray of shape (n_bins,)
            Fractions. They add up to 1 if the bins cover the bounds of the column.

        Warns
        -----
        UncoveredBoundsWarning
            If the bins do not cover the bounds of the column, so that some rows may be in no bin.
        """
        line, described = self._line(column)
        above, up_to = _bins(edges, described)
        return line.cdf(up_to) - line.cdf(above)

    def histogram_interval(
        self,
        edges: ArrayLike,
        column: str | int | None = None,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
    ) -> NDArray[np.float64]:
        """Return intervals of the population's fraction in each bin.

        Parameters
        ----------
        edges : array-like of float or of dates, shape (n_bins + 1,)
            As in `histogram`.
        column : str or int, default=None
            Name or position of a numeric column; not needed if there is one.
        level, simultaneous
            As in `interval`.

        Returns
        -------
        ndarray of shape (n_bins, 2)
            Low and high.

        Raises
        ------
        ValueError
            Where the column has no intervals: of ``method="pmw"`` and ``"public"``, and of
            `CustomQueries`.

        Warns
        -----
        UncoveredBoundsWarning
            As in `histogram`.
        """
        line, described = self._line_with_intervals(column)
        bins = _bins(edges, described)
        return line.fraction_intervals(*bins, _coverage(level), simultaneous=bool(simultaneous))

    def mean(self, column: str | int | None = None) -> Any:
        """Estimate the mean.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a numeric column; not needed if there is one.

        Returns
        -------
        float, or a datetime
            The mean, numbers outside the bounds being moved to the nearer one.
        """
        line, described = self._line(column)
        numbers = line.quantile((np.arange(N_MEAN_QUANTILES) + 0.5) / N_MEAN_QUANTILES)
        return described.to_user(np.array(numbers.mean())).item()

    def _line_with_intervals(
        self, column: str | int | None
    ) -> tuple[ReleasedCDF | BinnedColumn, Column]:
        line, described = self._line(column)
        if isinstance(line, WeightedRows):
            raise ValueError(
                "There are no intervals for columns with method='public', method='pmw' or "
                "CustomQueries; method='auto' has them with all other classes of queries."
            )
        return line, described

    def _line(
        self, column: str | int | None
    ) -> tuple[ReleasedCDF | BinnedColumn | WeightedRows, Column]:
        check_is_fitted(self)
        numeric = np.flatnonzero(self._schema.numeric)
        if column is None and len(self._schema.columns) > 1:
            raise ValueError(
                "cdf, quantile, histogram and mean are about one numeric column; name it."
            )
        position = 0 if column is None else self._schema.position(column)
        if position not in numeric:
            name = self._schema.names[position]
            raise ValueError(f"Column {name} is categorical; only numbers have an order.")
        return self._released.column(position), self._schema.columns[position]

    def _checked(self, Q: Any) -> Any:
        """Check the columns of queries that look like rows."""
        if isinstance(Q, list | tuple):
            return Q
        frame = is_frame(Q)
        # a frame of questions about cells may leave columns out
        like_rows = ThresholdQueries if frame else ThresholdQueries | MarginalQueries
        array = Q if frame else np.asarray(Q)
        # numbers without names are no rows of a frame
        named = frame or not hasattr(self, "feature_names_in_")
        if isinstance(self.queries_, like_rows) and array.ndim > 1 and named:
            # a question may write a date as text
            return read_table(self, array, reset=False, numeric=False, kinds=False).native
        return Q


def _bins(edges: ArrayLike, column: Column) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return encoded numbers a and b of the bins a < x <= b, the first with its left edge."""
    numbers = column.from_user(edges)
    if numbers.ndim != 1 or len(numbers) < 2 or not (numbers[1:] > numbers[:-1]).all():
        raise ValueError("edges must be two or more increasing numbers.")
    if numbers[0] > column.low or numbers[-1] < column.high:
        first, last, low, high = map(column.format, (*numbers[[0, -1]], column.low, column.high))
        warn(
            f"The bins go from {first} to {last} and the bounds of column {column.name} from {low} "
            f"to {high}, so that rows outside the bins are not counted. Extend the outer edges to "
            "the bounds (for numbers, -inf and inf will do) to count all rows.",
            UncoveredBoundsWarning,
        )
    above = numbers[:-1].copy()
    above[0] = just_below(above[0])
    return above, numbers[1:]


def _coverage(level: Any) -> float:
    if not (isinstance(level, Real) and 0 < float(level) < 1):
        raise ValueError(f"level must be in (0, 1); got {level!r}.")
    return float(level)


def _fractions(p: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(p, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p must lie in [0, 1].")
    return p
