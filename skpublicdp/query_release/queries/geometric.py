"""Query classes for several columns: rectangles, halfspaces and stumps."""

from __future__ import annotations

import copy
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp.data.schema import Schema
from skpublicdp.guarantees import growth_function
from skpublicdp.query_release.pmw.cover import (
    MAX_AXIS_CELLS,
    HalfspaceDichotomies,
    HalfspaceQueryCover,
    ProductCover,
    QuantileAxis,
    choose_points,
)
from skpublicdp.query_release.queries.base import (
    Answers,
    BoxQueries,
    QueryClass,
    holdout_ranks,
)
from skpublicdp.query_release.queries.marginal import check_categories
from skpublicdp.typing import Codes, Floats

MAX_HALFSPACES = 2304
"""Maximum number of halfspaces in a cover, which suffices for the dichotomies of 48 points in the
plane or 19 points in space."""

MAX_DICHOTOMY_POINTS = 48
"""Maximum number of public rows whose dichotomies are used to form a cover."""

SIDE_BLOCK = 1 << 16
"""Number of query-row answers computed at a time, so that they fit into a cache."""

MIN_COLUMN_DEVIATION = 1e-12
"""Lower bound on a column's standard deviation, by which halfspace normals are standardised."""


class RectangleQueries(BoxQueries):
    """Closed axis-parallel boxes, with low <= x <= high in each column.

    An array of queries has shape (n_queries, n_features, 2) and contains the ends low and high for
    each column, which may be infinite.

    See Also
    --------
    IntervalQueries : Ranges of one column.
    MarginalQueries : Tables over columns with few values.

    Examples
    --------
    >>> import numpy as np
    >>> box = [[0.0, 1.0], [-np.inf, 5.0]]
    >>> RectangleQueries().holds([box], np.array([[0.5, 5.0], [0.5, 6.0]]))
    array([[ True, False]])
    """

    releases_columns_first = True

    def tables(self, schema: Schema) -> list[tuple[int, ...]]:
        """Return all two-way tables, or the one-way table if there is a single column."""
        return _pairs_of_columns(schema)

    def holdout_queries(self, X: Floats) -> Floats:
        """Return boxes that have no lower ends and whose upper corners are held-out rows."""
        high = X[holdout_ranks(len(X))]
        return np.stack([np.full(high.shape, -np.inf), high], axis=2)

    def _boxes(self, Q: Floats) -> Floats:
        """Return the queries unchanged, since they contain both ends for each column."""
        return Q

    def _validated(self, Q: Any, n_features: int) -> Floats:
        """Return boxes as floats of shape (n_queries, n_features, 2), after validation."""
        return self._as_floats(Q, (n_features, 2), "low and high of each column")


class HalfspaceQueries(QueryClass):
    """Closed halfspaces: w · x ≥ b.

    An array of queries has shape (n_queries, n_features + 1) and contains w, followed by b.

    See Also
    --------
    RectangleQueries : Boxes, which are released more accurately.

    Examples
    --------
    >>> import numpy as np
    >>> HalfspaceQueries().holds([[1.0, 1.0, 2.0]], np.array([[1.0, 1.0], [1.0, 0.0]]))
    array([[ True, False]])
    """

    releases_columns_first = True

    def holds(self, Q: ArrayLike, X: Floats) -> Answers:
        """Indicate whether each row is in each halfspace, shape (n_queries, n)."""
        Q = self._validated(Q, X.shape[1])
        normals = Q[:, :-1]
        offsets = Q[:, -1:]
        n_queries, n_features = normals.shape
        answers = np.empty((n_queries, len(X)), dtype=bool)
        block_size = max(1, SIDE_BLOCK // max(1, n_queries))
        for start in range(0, len(X), block_size):
            block = slice(start, start + block_size)
            rows = X[block]
            projections = np.zeros((n_queries, len(rows)))
            # Loop over columns, since the rounding of a matrix product could depend on other rows.
            # Ignore warnings, since they would reveal huge private values.
            with np.errstate(over="ignore", invalid="ignore"):
                for column in range(n_features):
                    coefficients = normals[:, column]
                    projections += np.multiply.outer(coefficients, rows[:, column])
            answers[:, block] = projections >= offsets
        return answers

    def build_cover(self, X_public: Floats) -> HalfspaceQueryCover:
        """Return a cover with one halfspace per dichotomy of a few public rows.

        These rows and the cells come from the first half of the public rows. The second half is
        used to estimate the share of rows on which a halfspace and its nearest member differ, and
        the share of rows that are represented by another cell.
        """
        n_features = X_public.shape[1]
        first_half, second_half = np.array_split(X_public, 2)
        distinct_rows = np.unique(first_half, axis=0)
        n_points = max(
            m
            for m in range(1, MAX_DICHOTOMY_POINTS + 1)
            if self.growth(m, n_features) <= MAX_HALFSPACES
        )
        generator = np.random.default_rng(0)  # fixed seed, since only public rows are used
        points = choose_points(distinct_rows, n_points, generator)
        dichotomies = HalfspaceDichotomies(points)
        return HalfspaceQueryCover(self.holds, dichotomies, distinct_rows, second_half, generator)

    def tables(self, schema: Schema) -> list[tuple[int, ...]]:
        """Return all two-way tables, or the one-way table if there is a single column.

        These tables were more accurate in tests than bins of row projections.
        """
        return _pairs_of_columns(schema)

    def holdout_queries(self, X: Floats) -> Floats:
        """Return halfspaces with random normals, each with a held-out row on its boundary."""
        points = X[holdout_ranks(len(X))]
        normals = np.random.default_rng(0).normal(size=points.shape)
        normals /= np.maximum(X.std(axis=0), MIN_COLUMN_DEVIATION)
        return np.column_stack([normals, (normals * points).sum(axis=1)])

    def dual_vc_dimension(self, n_features: int) -> int:
        """Return the VC dimension of the dual class, which is the number of columns p.

        With p hyperplanes, the space can be divided into 2^p cells, whereas p + 1 hyperplanes yield
        fewer than 2^(p + 1) cells (Schläfli 1901).
        """
        return n_features

    def growth(self, m: int, n_features: int) -> int:
        """Return an upper bound on the number of labellings of m rows by the queries.

        The bound is exact for rows in general position (Cover 1965).
        """
        return min(1 << m, 2 * growth_function(max(m - 1, 0), n_features))

    def _validated(self, Q: Any, n_features: int) -> Floats:
        """Return normals and offsets as floats of shape (n_queries, n_features + 1)."""
        return self._as_floats(Q, (n_features + 1,), "the normal, then the offset")


class StumpQueries(QueryClass):
    """Stumps x_j <= t for a numeric column j, or x_j = v for a categorical column j.

    An array of queries has shape (n_queries, 2); each row contains a column, given by name or
    position, and t or v. `holds` accepts encoded queries: the position of a numeric column and t,
    or -1 - j for the categorical column j and a code.

    See Also
    --------
    ThresholdQueries : Thresholds of a single column.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [5.0, 1.0]])
    >>> StumpQueries().holds([[0, 3.0], [-2, 1.0]], X)
    array([[ True, False],
           [False,  True]])
    """

    releases_columns_first = True
    is_about_single_columns = True

    def holds(self, Q: ArrayLike, X: Floats) -> Answers:
        """Indicate whether each encoded stump holds for each row, shape (n_queries, n)."""
        Q = self._validated(Q, X.shape[1])
        positions, is_categorical = _stump_columns(Q)
        values = X.T[positions]  # (n_queries, n)
        return np.where(is_categorical[:, None], values == Q[:, 1:], values <= Q[:, 1:])

    def build_cover(self, X_public: Floats) -> ProductCover:
        """Return the cover of stumps at cuts between public values of numeric columns.

        The cover contains stumps for all categories, including categories without public rows.
        """
        axes = [QuantileAxis(column, n_ends=1, max_cells=MAX_AXIS_CELLS) for column in X_public.T]
        for position, n_codes in self._n_codes().items():
            axes[position] = QuantileAxis(np.arange(n_codes), n_ends=0, max_cells=n_codes)
        return ProductCover(axes)

    def tables(self, schema: Schema) -> list[tuple[int, ...]]:
        """Return all one-way tables."""
        return [(position,) for position in range(len(schema.columns))]

    def measured_tables(self, schema: Schema) -> list[tuple[int, ...]]:
        """Return the one-way tables of categorical columns.

        For numeric columns, a CDF is released instead.
        """
        return [(position,) for position in np.flatnonzero(~schema.numeric).tolist()]

    def holdout_queries(self, X: Floats) -> Floats:
        """Return stumps at quantiles of the held-out values of each column."""
        quantiles = np.sort(X, axis=0)[holdout_ranks(len(X))]
        categorical_positions = self._n_codes()
        stumps = []
        for position, column_quantiles in enumerate(quantiles.T):
            values = np.unique(column_quantiles)
            is_categorical = position in categorical_positions
            encoded_column = np.full(len(values), -1 - position if is_categorical else position)
            stumps.append(np.column_stack([encoded_column, values]))
        return np.concatenate(stumps)

    def nearest_members(self, Q: NDArray[Any], members: ProductCover) -> Codes:
        """Return the cover's position of the stump at the nearest cut or at the category."""
        positions, is_categorical = _stump_columns(Q)
        high = Q[:, 1]
        low = np.where(is_categorical, high, -np.inf)
        return members.find(positions, low, high)

    def dual_vc_dimension(self, n_features: int) -> int:
        """Return the VC dimension of the dual class, which is the number of columns.

        Given two stumps on the same column, one of them implies the other or its negation, so two
        such stumps cannot be shattered. A set with one stump on each column is shattered (Bassily
        et al. 2020, section 4).
        """
        return n_features

    def check_columns(self, schema: Schema) -> None:
        """Do nothing, since all types of columns are supported."""

    def bind(self, schema: Schema, X_public: Floats) -> Self:
        """Return a copy for rows encoded by a schema, which stores the categorical columns."""
        bound_queries = copy.copy(self)
        bound_queries._n_codes_of_column = {
            position: column.n_categories
            for position, column in enumerate(schema.columns)
            if column.categorical
        }
        return bound_queries

    def encode(self, Q: Any, schema: Schema) -> Floats:
        """Validate the user's stumps and return them in the encoding of the class."""
        table = np.asarray(Q, dtype=object)
        if table.ndim != 2 or table.shape[1] != 2:
            raise ValueError(
                "Queries of StumpQueries must have shape (n_queries, 2), with a column and a "
                f"threshold or category in each row; got shape {table.shape}."
            )
        encoded = np.empty((len(table), 2))
        for number, (name, value) in enumerate(table.tolist()):
            position = schema.position(name)
            column = schema.columns[position]
            values = np.array([value], dtype=object)
            if column.categorical:
                check_categories(values, column)
                encoded[number] = -1 - position, column.encode(values)[0]
            else:
                numbers = column.from_user(values) if column.has_offset else values
                encoded[number] = position, self._as_floats(numbers, (), "the threshold")[0]
        return encoded

    def growth(self, m: int, n_features: int) -> int:
        """Return an upper bound on the number of labellings of m rows by the stumps.

        A numeric column has m - 1 thresholds between m values. A categorical column has at most m
        categories. The two constant labellings are counted only once for all columns.
        """
        n_thresholds, n_categorical = n_features * max(m - 1, 0), len(self._n_codes())
        return min(1 << m, n_thresholds + 2 + n_categorical)

    def _n_codes(self) -> dict[int, int]:
        """Return each categorical column's number of codes, by position ({} before `bind`)."""
        return getattr(self, "_n_codes_of_column", {})

    def _validated(self, Q: Any, n_features: int) -> Floats:
        """Return encoded stumps as floats of shape (n_queries, 2), after validation."""
        return self._as_floats(Q, (2,), "column and threshold")


def _pairs_of_columns(schema: Schema) -> list[tuple[int, ...]]:
    """Return the positions of all pairs of columns, or of the only column."""
    n_features = len(schema.columns)
    return list(combinations(range(n_features), min(2, n_features)))


def _stump_columns(Q: Floats) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the column of each encoded stump, and whether it is categorical, shapes (n_queries,).

    Encoded stumps have -1 - position instead of the position of a categorical column.
    """
    encoded_columns = Q[:, 0].astype(np.intp)
    is_categorical = encoded_columns < 0
    return np.where(is_categorical, -1 - encoded_columns, encoded_columns), is_categorical
