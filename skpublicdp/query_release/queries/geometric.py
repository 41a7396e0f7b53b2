"""Query classes over several numeric columns: rectangles, halfspaces, and stumps."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp.data.schema import Schema
from skpublicdp.guarantees import growth_function
from skpublicdp.query_release.pmw.cover import ExplicitCover
from skpublicdp.query_release.pmw.grid_cover import MAX_AXIS_CELLS, ProductCover, QuantileAxis
from skpublicdp.query_release.pmw.halfspace_cover import (
    HalfspaceDichotomies,
    line_arrangement_points,
)
from skpublicdp.query_release.queries.base import Answers, BoxQueries, QueryClass
from skpublicdp.query_release.queries.cell_queries import check_categories
from skpublicdp.typing import Codes, Floats

MAX_HALFSPACES = 400
"""Maximum number of halfspaces in a cover. In the plane 400 halfspaces make 18,000 cells."""

SIDE_BLOCK = 1 << 16
"""Number of query-row answers that are computed at a time, so that they fit into a cache."""

N_DICHOTOMY_TRIALS = 16
"""Number of random subsets of public rows, of which the best one defines the cover."""


class RectangleQueries(BoxQueries):
    """Axis-parallel closed boxes: low <= x <= high in each column.

    An array of queries has shape (n_queries, n_features, 2): low and high of each column, which may
    be infinite.

    See Also
    --------
    IntervalQueries : Ranges of one column.
    MarginalQueries : Tables of columns with few values.

    Examples
    --------
    >>> import numpy as np
    >>> box = [[0.0, 1.0], [-np.inf, 5.0]]
    >>> RectangleQueries().holds([box], np.array([[0.5, 5.0], [0.5, 6.0]]))
    array([[ True, False]])
    """

    def _boxes(self, Q: Floats) -> Floats:
        """Return the queries, which are low and high of each column."""
        return Q

    def _validated(self, Q: Any, n_features: int) -> Floats:
        """Return boxes as floats, after checking shape and values."""
        return self._as_floats(Q, (n_features, 2), "low and high of each column")


class HalfspaceQueries(QueryClass):
    """Closed halfspaces: w · x ≥ b.

    An array of queries has shape (n_queries, n_features + 1): the normal w, then the offset b.

    See Also
    --------
    RectangleQueries : Boxes, which are released more accurately.

    Examples
    --------
    >>> import numpy as np
    >>> HalfspaceQueries().holds([[1.0, 1.0, 2.0]], np.array([[1.0, 1.0], [1.0, 0.0]]))
    array([[ True, False]])
    """

    def holds(self, Q: ArrayLike, X: Floats) -> Answers:
        """Return whether each row is in each halfspace."""
        Q = self._validated(Q, X.shape[1])
        answers = np.empty((len(Q), len(X)), dtype=bool)
        step = max(1, SIDE_BLOCK // max(1, len(Q)))
        for start in range(0, len(X), step):
            rows = X[start : start + step]
            # A matrix product could round a row's sum depending on the other rows. A warning would
            # reveal huge private values.
            with np.errstate(over="ignore", invalid="ignore"):
                values = Q[:, :1] * rows[:, 0]
                for column in range(1, X.shape[1]):
                    values += Q[:, column : column + 1] * rows[:, column]
            np.greater_equal(values, Q[:, -1:], out=answers[:, start : start + step])
        return answers

    def build_cover(self, X_public: Floats) -> ExplicitCover:
        """Return a cover with one halfspace for each dichotomy of a few public rows.

        These rows come from the first half of the public rows. The second half estimates the share
        of rows in cells that the cover does not list.
        """
        n_features = X_public.shape[1]
        first_half, second_half = np.array_split(X_public, 2)
        distinct = np.unique(first_half, axis=0)
        n_points = max(
            m for m in range(1, 49) if self.growth_function(m, n_features) <= MAX_HALFSPACES
        )
        generator = np.random.default_rng(0)  # fixed, since only public rows enter
        trials = [
            HalfspaceDichotomies(generator.permutation(distinct)[:n_points])
            for _ in range(N_DICHOTOMY_TRIALS)
        ]
        dichotomies = min(trials, key=lambda trial: trial.disagreement_bound(first_half))
        points, cover = dichotomies.points, dichotomies.halfspaces(self.holds)
        disagreement = 1.0  # no bound holds if rounding lost the halfspace of a dichotomy
        if len(cover) == len(dichotomies.signs):
            disagreement = dichotomies.disagreement_bound(X_public)
        candidates = distinct
        if n_features == 2:
            candidates = np.concatenate([candidates, line_arrangement_points(cover, points)])
        return ExplicitCover(self.holds, cover, candidates, second_half, points, disagreement)

    def dual_vc_dimension(self, n_features: int) -> int:
        """Return p for p columns.

        p hyperplanes can make 2^p cells, and p + 1 hyperplanes make fewer than 2^(p + 1) (Schläfli
        1901).
        """
        return n_features

    def growth_function(self, m: int, n_features: int) -> int:
        """Return an upper bound of the number of ways to divide m rows (Cover 1965)."""
        return min(1 << m, 2 * growth_function(max(m - 1, 0), n_features))

    def _validated(self, Q: Any, n_features: int) -> Floats:
        """Return normals and offsets as floats, after checking shape and values."""
        return self._as_floats(Q, (n_features + 1,), "the normal, then the offset")


class StumpQueries(QueryClass):
    """Stumps: x_j <= t for a numeric column j, or x_j = v for a categorical one.

    An array of queries has shape (n_queries, 2): the column, by name or position, and t or v.
    `holds` takes encoded queries: the position of a numeric column and t, or -1 - j for the
    categorical column j and a code.

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

    def holds(self, Q: ArrayLike, X: Floats) -> Answers:
        """Return whether each stump holds for each row."""
        Q = self._validated(Q, X.shape[1])
        column = Q[:, 0].astype(np.intp)
        is_category = column < 0
        values = X.T[np.where(is_category, -1 - column, column)]
        return np.where(is_category[:, None], values == Q[:, 1:], values <= Q[:, 1:])

    def build_cover(self, X_public: Floats) -> ProductCover:
        """Return the cover by cuts of numeric columns between public values, and by categories."""
        axes = [QuantileAxis(column, 1, MAX_AXIS_CELLS) for column in X_public.T]
        for position, n_codes in self._n_codes().items():  # including categories not in public rows
            axes[position] = QuantileAxis(np.arange(n_codes), 0, n_codes)
        return ProductCover(axes)

    def nearest_members(self, Q: NDArray[Any], members: ProductCover) -> Codes:
        """Return the position of the stump at the nearest cut, or at the category."""
        column = Q[:, 0].astype(np.intp)
        is_category = column < 0
        low = np.where(is_category, Q[:, 1], -np.inf)
        return members.find(np.where(is_category, -1 - column, column), low, Q[:, 1])

    def dual_vc_dimension(self, n_features: int) -> int:
        """Return p for p columns.

        Of two stumps on one column, one implies the other or its negation, so that they are not
        shattered. One stump on each column is shattered (Bassily et al. 2020, section 4).
        """
        return n_features

    def check_columns(self, schema: Schema) -> None:
        """Do nothing, since all columns are supported."""

    def bind(self, schema: Schema, X_public: Floats) -> Self:
        """Return the class bound to a schema, with the categorical columns."""
        bound = copy.copy(self)
        bound._codes = {
            position: column.n_categories
            for position, column in enumerate(schema.columns)
            if column.categorical
        }
        return bound

    def encode(self, Q: Any, schema: Schema) -> Floats:
        """Return encoded stumps, see `holds`, after checking the user's input."""
        table = np.asarray(Q, dtype=object)
        if table.ndim != 2 or table.shape[1] != 2:
            raise ValueError(
                "Queries of StumpQueries must have shape (n_queries, 2), column and threshold or "
                f"category; got shape {table.shape}."
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

    def growth_function(self, m: int, n_features: int) -> int:
        """Return an upper bound of the number of ways in which the stumps label m rows."""
        return min(1 << m, n_features * max(m - 1, 0) + 2 + len(self._n_codes()))

    def is_categorical(self, position: int) -> bool:
        """Indicate whether a column is categorical, for a bound class."""
        return position in self._n_codes()

    def _n_codes(self) -> dict[int, int]:
        """Return the number of codes of each categorical column. It is empty before `bind`."""
        return getattr(self, "_codes", {})

    def _validated(self, Q: Any, n_features: int) -> Floats:
        """Return encoded stumps as floats, after checking shape and values."""
        return self._as_floats(Q, (2,), "column and threshold")
