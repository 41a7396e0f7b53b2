"""Interface of query classes, and the classes of axis-parallel boxes, thresholds and intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skpublicdp.data.schema import Schema
from skpublicdp.guarantees import growth_function
from skpublicdp.query_release.cdf.grid import just_below
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.discretize import PublicBins, bins_at_noise_level
from skpublicdp.query_release.marginals.count import WeightColumn
from skpublicdp.query_release.pmw.cover import ANSWER_BLOCK, BoxQueryCover, QueryCover
from skpublicdp.query_release.queries.combined import CombinedQuery
from skpublicdp.typing import Codes, Floats

Answers = NDArray[np.bool_]

WILDCARD = -1
"""Code that means "any value" in a query about cells."""

MAX_HOLDOUT_QUERIES = 256
"""Maximum number of held-out queries (thresholds, boxes or halfspaces), taken at evenly spaced
ranks of held-out rows."""


class QueryClass(BaseEstimator, ABC):
    """Base class of query classes. Each query either holds or does not hold for a given row.

    Rows are encoded as floats: numbers are unchanged, and categories are replaced by their codes in
    the schema. `PAPQueryRelease.fit` calls `bind` to bind a class to the schema. The method
    `encode` validates and encodes the queries that a user passes.
    """

    statistic: Literal["cdf", "tables", "counts"] = "tables"
    """Statistic measured by ``method="auto"``: the CDF of a single column, tables, or counts of the
    rows that satisfy listed queries."""

    releases_columns_first = False
    """Whether the CDF of each numeric column is released before the tables, and the bins of the
    tables are cut at its quantiles."""

    is_about_single_columns = False
    """Whether each query restricts a single column, so that this column's CDF or one-way table
    determines the answer."""

    supports_offsets = False
    """Whether columns may contain dates or numbers beyond 2**53, which are encoded as
    differences."""

    has_tables = False
    """Whether queries refer to cells of tables that use the same bins."""

    assumptions: tuple[str, ...] = ()
    """Assumptions about the queries, which the receipt lists."""

    are_numbers = False
    """Whether the queries are numbers, and the answers their means, instead of fractions."""

    sums: Any = None
    """Columns and groups whose sums are measured, if the class has tables."""

    @property
    def nullable(self) -> bool | Collection[Any]:
        """Whether numbers may be missing, or a collection of columns where they may be missing.

        In the second case, numbers may also be missing in columns where public numbers are missing.
        """
        return False

    @abstractmethod
    def holds(self, Q: ArrayLike, X: Floats) -> Answers:
        """Evaluate queries on rows.

        Parameters
        ----------
        Q : array-like
            Queries in the encoding of the class.
        X : ndarray of float64, shape (n, n_features)
            Encoded rows. The answers for each row depend only on this row.

        Returns
        -------
        ndarray of bool, shape (n_queries, n)
            Whether each query holds for each row, evaluated exactly for the floats in `X`.
        """

    @abstractmethod
    def build_cover(self, X_public: Floats) -> QueryCover:
        """Build a cover of the class and its cells, for ``method="pmw"``.

        Parameters
        ----------
        X_public : ndarray of float64, shape (m, n_features)
            Public rows in random order; there is at least one.

        Returns
        -------
        QueryCover
            The cover and the representative domain of Bassily et al. (2020), Algorithm 3.

        Raises
        ------
        CoverSizeError
            If the cover and its cells do not fit into memory.
        """

    def nearest_members(self, Q: NDArray[Any], members: Any) -> Codes:
        """Return the position of the cover's member that approximates each query.

        Parameters
        ----------
        Q : ndarray
            Encoded queries.
        members : object
            The `index` of the cover returned by `build_cover`.
        """
        return members.find(Q)

    def dual_vc_dimension(self, n_features: int) -> int | None:
        """Return the VC dimension of the dual class, or None to use Assouad's bound.

        The dual class swaps the roles of queries and rows, so that each row labels the queries.
        """
        return None

    def weighted_mean(self, Q: NDArray[Any], X: Floats, weights: Floats) -> Floats:
        """Return the total weight of the rows for which each query holds.

        Since the weights sum to 1, the result is the weighted mean of each query over the rows.

        Parameters
        ----------
        Q : ndarray
            Encoded queries.
        X : ndarray of float64, shape (n, n_features)
            Encoded rows.
        weights : ndarray of shape (n,)
            Weights of the rows.

        Returns
        -------
        ndarray of shape (n_queries,)
        """
        totals = np.empty(len(Q))
        block_size = max(1, ANSWER_BLOCK // max(1, len(X)))  # queries per block, to limit memory
        for start in range(0, len(Q), block_size):
            block = slice(start, start + block_size)
            holds = self.holds(Q[block], X)  # (n_block, n)
            # a separate sum for each query, so that its rounding does not depend on other queries
            for query, satisfied in enumerate(holds, start):
                totals[query] = weights[satisfied].sum()
        return totals

    def encode(self, Q: Any, schema: Schema) -> NDArray[Any]:
        """Validate the user's queries and return them in the encoding of the class."""
        return self._validated(Q, len(schema.columns))

    def combined(self, Q: Any, schema: Schema) -> list[CombinedQuery] | None:
        """Return the codes that satisfy each query about combined cells, or None."""
        return None

    def check_columns(self, schema: Schema) -> None:
        """Raise a ValueError if the query class does not support the schema's columns."""
        if not schema.numeric.all():
            name = schema.names[int(np.flatnonzero(~schema.numeric)[0])]
            raise ValueError(
                f"{type(self).__name__} requires numeric columns, but column {name} is "
                "categorical. Use StumpQueries or MarginalQueries, which support both."
            )
        offset_names = [column.name for column in schema.columns if column.has_offset]
        if offset_names and not self.supports_offsets:
            raise ValueError(
                f"{type(self).__name__} requires numbers up to 2**53, but column {offset_names[0]} "
                "contains dates or larger numbers. Use StumpQueries or MarginalQueries."
            )

    weights: WeightColumn | None = None
    """Column of survey weights, which is set by `MarginalQueries.weighted`. Queries must not use
    this column."""

    # declarations of impossible combinations, which only `MarginalQueries` has
    zeros: Any = None
    hierarchy: Any = None

    def bind(self, schema: Schema, X_public: Floats) -> Self:
        """Return a copy of the query class for rows encoded by a schema.

        The base class does not depend on a schema and returns the same object.
        """
        return self

    def tables(self, schema: Schema) -> list[tuple[int, ...]]:
        """Return the tables of ``method="auto"`` as tuples of increasing column positions."""
        raise ValueError(
            f'method="auto" does not support {type(self).__name__}. Wrap the queries in '
            "CustomQueries."
        )

    def measured_tables(self, schema: Schema) -> list[tuple[int, ...]]:
        """Return the tables of the workload that are counted, which by default are all tables."""
        return self.tables(schema)

    def discretizer(
        self, schema: Schema, X_public: Floats, cdfs: dict[int, ReleasedCDF], snr: float
    ) -> PublicBins:
        """Return the bins of numeric columns that are used to count `tables`.

        By default, the bins are cut at quantiles of released CDFs.

        Parameters
        ----------
        schema : Schema
            The columns.
        X_public : ndarray of float64, shape (m, n_features)
            Encoded public rows.
        cdfs : dict of int to ReleasedCDF
            Released CDFs of numeric columns by position, if `releases_columns_first`.
        snr : float
            Number of private persons divided by the noise scale of the tables.
        """
        return bins_at_noise_level(schema, cdfs, self.tables(schema), snr)

    def table_cells(self, positions: Sequence[int]) -> tuple[NDArray[np.int64], list[list[Any]]]:
        """Return the cells of a table as encoded queries, and the names of their codes."""
        raise ValueError(
            "table requires a release with queries=MarginalQueries() for categorical columns and "
            "for several columns. Other releases only have one table for each numeric column."
        )

    def bin_cuts(self, position: int) -> Floats | None:
        """Return the cuts between a numeric column's bins, or None if queries use no bins."""
        return None

    def bin_edges(self, position: int) -> Floats | None:
        """Return the user's bin edges for a column in encoded form, or None if not given."""
        return None

    def holdout_queries(self, X: Floats) -> NDArray[Any]:
        """Return the encoded queries over which `PAPQueryRelease.score` averages errors.

        Classes with a finite list return all queries. Otherwise, there are up to 256 queries (for
        stumps, 256 in each column). Thresholds and ends of intervals are quantiles of a column of
        `X`. The upper corner of each box is a held-out row. Halfspaces have random normals, and
        each has a held-out row on its boundary.

        Parameters
        ----------
        X : ndarray of float64, shape (n, n_features)
            Encoded held-out rows.
        """
        raise TypeError(f"score is not implemented for {type(self).__name__}.")

    def cumulative(self, x: Floats) -> Floats | None:
        """Return the queries whose answers are the CDF at x, or None if there are none."""
        return None

    def has_columns_of_rows(self, *, as_frame: bool) -> bool:
        """Indicate whether queries in a frame or an array must have the same columns as rows."""
        return False

    def growth(self, m: int, n_features: int) -> int:
        """Return an upper bound on the number of labellings of m rows by the queries.

        The default is 2^m, the number of all labellings.
        """
        return 1 << m

    @abstractmethod
    def _validated(self, Q: Any, n_features: int) -> NDArray[Any]:
        """Validate the shape and values of encoded queries and return them as an array."""

    def _as_floats(self, Q: Any, shape: tuple[int, ...], entries: str) -> Floats:
        """Return encoded queries as an array of floats, shape (n_queries, *shape).

        A ValueError, which describes the `entries` of a query, is raised for NaN and for other
        shapes. One-dimensional input is accepted if `shape` is (1,).
        """
        name = type(self).__name__
        try:
            numbers = np.asarray(Q, dtype=np.float64)
        except (TypeError, ValueError):
            expected = ", ".join(["n_queries", *map(str, shape)])
            example = " For example, pass [[40]]." if shape == (1,) else ""
            raise ValueError(
                f"Queries of {name} must be an array of numbers with shape ({expected}), {entries};"
                f" got other values in {type(Q).__name__}.{example}"
            ) from None
        if numbers.ndim == 1 and shape == (1,):
            numbers = numbers[:, None]
        if numbers.ndim == 1 and len(shape) == 1:
            raise ValueError(one_dimensional_message(name, shape[0]))
        if numbers.ndim != 1 + len(shape) or numbers.shape[1:] != shape:
            expected = ", ".join(map(str, shape))
            raise ValueError(
                f"Queries of {name} must have shape (n_queries, {expected}), {entries}; got shape "
                f"{numbers.shape}."
            )
        if np.isnan(numbers).any():
            raise ValueError(f"Queries of {name} must not contain NaN.")
        return numbers


def holdout_ranks(n: int) -> NDArray[np.intp]:
    """Return up to `MAX_HOLDOUT_QUERIES` evenly spaced ranks of n held-out rows."""
    ranks = np.linspace(0, n - 1, min(n, MAX_HOLDOUT_QUERIES)).astype(np.intp)
    return np.unique(ranks)


def one_dimensional_message(name: str, width: int) -> str:
    """Return the error message for queries in a one-dimensional array.

    The beginning and the end of this message are required by scikit-learn's estimator checks.
    """
    return (
        f"Expected 2D array, got 1D array instead: queries of {name} have shape "
        f"(n_queries, {width}); Reshape your data with array.reshape(-1, {width})."
    )


class BoxQueries(QueryClass):
    """Axis-parallel boxes, which contain a row if its value in each column lies in an interval.

    In subclasses with `n_ends` = 1, these intervals are (-inf, high]; in all others, they are [low,
    high].
    """

    n_ends = 2
    """Number of ends of each interval that a query specifies."""

    def holds(self, Q: ArrayLike, X: Floats) -> Answers:
        """Indicate whether each row lies in each box, shape (n_queries, n)."""
        boxes = self._boxes(self._validated(Q, X.shape[1]))  # (n_queries, n_columns, 2)
        inside = np.ones((len(boxes), len(X)), dtype=bool)
        for column in range(X.shape[1]):
            values = X[:, column]
            low = boxes[:, column, :1]
            high = boxes[:, column, 1:]
            inside &= values >= low
            inside &= values <= high
        return inside

    def build_cover(self, X_public: Floats) -> BoxQueryCover:
        """Return the cover of all boxes whose ends are cuts between public values."""
        return BoxQueryCover(X_public, self.n_ends)

    def nearest_members(self, Q: NDArray[Any], members: BoxQueryCover) -> Codes:
        """Return each box's position in the cover after rounding its ends to the nearest cuts."""
        return members.find(self._boxes(Q))

    def dual_vc_dimension(self, n_features: int) -> int:
        """Return the VC dimension e p of the dual class, for e ends per interval and p columns.

        A row x lies in the boxes with low <= x <= high. In the space of (low, -high), these boxes
        form an orthant. Among any e p + 1 boxes, e p boxes include an extreme box in each
        coordinate of this space, so an orthant that contains these boxes also contains the
        remaining box (Wenocur and Dudley 1981). The bound is attained by two overlapping intervals,
        or one threshold, in each column.
        """
        return self.n_ends * n_features

    def growth(self, m: int, n_features: int) -> int:
        """Return an upper bound on the number of labellings of m rows by the boxes."""
        return growth_function(m, self.n_ends * n_features)

    @abstractmethod
    def _boxes(self, Q: Floats) -> Floats:
        """Return the boxes of validated queries, shape (n_queries, n_features, 2).

        The last axis contains the lower and the upper end of each column's interval.
        """


class OneColumnQueries(BoxQueries):
    """Base class of query classes for a single numeric column, i.e. thresholds and intervals."""

    statistic = "cdf"
    supports_offsets = True

    def ranges(self, Q: Floats) -> tuple[Floats, Floats]:
        """Return the ends (above, up_to) of the ranges above < x <= up_to in encoded queries."""
        low, high = self._boxes(Q)[:, 0].T
        return just_below(low), high

    def cumulative(self, x: Floats) -> Floats:
        """Return the ranges from -inf to each number x."""
        low = np.full((len(x), self.n_ends - 1), -np.inf)  # thresholds have no lower end
        return np.column_stack([low, x])

    def holdout_queries(self, X: Floats) -> Floats:
        """Return ranges from -inf to quantiles of the held-out rows."""
        return self.cumulative(np.sort(X[:, 0])[holdout_ranks(len(X))])

    def check_columns(self, schema: Schema) -> None:
        """Raise a ValueError unless there is exactly one column, which must be numeric."""
        super().check_columns(schema)
        self._check_single_column(len(schema.columns))

    def encode(self, Q: Any, schema: Schema) -> Floats:
        """Encode dates in the user's queries, validate the queries and return them as floats."""
        (column,) = schema.columns
        return self._validated(column.from_user(Q) if column.has_offset else Q, 1)

    def _validated(self, Q: Any, n_features: int) -> Floats:
        """Return thresholds, or low and high, as floats of shape (n_queries, n_ends)."""
        self._check_single_column(n_features)
        entries = "the threshold" if self.n_ends == 1 else "low and high"
        return self._as_floats(Q, (self.n_ends,), entries)

    def _check_single_column(self, n_features: int) -> None:
        """Raise a ValueError unless rows have exactly one column."""
        if n_features != 1:
            raise ValueError(
                f"{type(self).__name__} apply to a single column, but X has {n_features} columns."
            )


class ThresholdQueries(OneColumnQueries):
    """Thresholds x <= t, whose answers form the cumulative distribution function of a column.

    An array of queries contains the thresholds t in shape (n_queries, 1) or (n_queries,).

    See Also
    --------
    IntervalQueries : Queries about ranges of the same column.

    Examples
    --------
    >>> import numpy as np
    >>> ThresholdQueries().holds([[1.0], [2.0]], np.array([[1.0], [1.5], [3.0]]))
    array([[ True, False, False],
           [ True,  True, False]])
    """

    n_ends = 1

    def has_columns_of_rows(self, *, as_frame: bool) -> bool:
        """Return True, since a threshold is itself a value of the column."""
        return True

    def _boxes(self, Q: Floats) -> Floats:
        """Return the ranges from -inf to each threshold, shape (n_queries, 1, 2)."""
        return np.insert(Q, 0, -np.inf, axis=1)[:, None]


class IntervalQueries(OneColumnQueries):
    """Closed intervals: low <= x <= high.

    An array of queries has shape (n_queries, 2) and contains the ends low and high, which may be
    infinite.

    See Also
    --------
    ThresholdQueries : Cumulative distribution functions and quantiles.
    RectangleQueries : Ranges of several columns.

    Examples
    --------
    >>> import numpy as np
    >>> IntervalQueries().holds([[1.0, 2.0]], np.array([[1.0], [2.0], [3.0]]))
    array([[ True,  True, False]])
    """

    def _boxes(self, Q: Floats) -> Floats:
        """Return the ends low and high of each interval, shape (n_queries, 1, 2)."""
        return Q[:, None]
