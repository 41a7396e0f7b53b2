"""Queries about the place of a row among several columns."""

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
"""In the plane they make 18000 cells."""

SIDE_BLOCK = 1 << 16
"""Queries times rows whose sides are told at once."""

N_DICHOTOMY_TRIALS = 16
"""Draws of the few public rows that tell halfspaces apart; the best is taken."""


class RectangleQueries(BoxQueries):
    """Boxes along the axes: does the row lie inside, the faces included.

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
        return Q

    def _checked(self, Q: Any, n_features: int) -> Floats:
        return self._numbers(Q, (n_features, 2), "low and high of each column")


class HalfspaceQueries(QueryClass):
    """Halfspaces: is the row on one side of a hyperplane, w · x ≥ b.

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
        """Tell which rows are on the positive side."""
        Q = self._checked(Q, X.shape[1])
        answers = np.empty((len(Q), len(X)), dtype=bool)
        step = max(1, SIDE_BLOCK // max(1, len(Q)))  # what fits into a cache
        for start in range(0, len(X), step):
            rows = X[start : start + step]
            # column by column: a row's sum then does not depend on the rows beside it; and a
            # warning would tell of huge values
            with np.errstate(over="ignore", invalid="ignore"):
                values = Q[:, :1] * rows[:, 0]
                for column in range(1, X.shape[1]):
                    values += Q[:, column : column + 1] * rows[:, column]
            np.greater_equal(values, Q[:, -1:], out=answers[:, start : start + step])
        return answers

    def arrange(self, X_public: Floats) -> ExplicitCover:
        """List the ways to divide a few public rows."""
        n_features = X_public.shape[1]
        listed, fresh = np.array_split(X_public, 2)
        distinct = np.unique(listed, axis=0)
        n_points = max(m for m in range(1, 49) if self.growth(m, n_features) <= MAX_HALFSPACES)
        generator = np.random.default_rng(0)  # part of the method, and of public rows only
        trials = [
            HalfspaceDichotomies(generator.permutation(distinct)[:n_points])
            for _ in range(N_DICHOTOMY_TRIALS)
        ]
        divisions = min(trials, key=lambda trial: trial.disagreement_bound(listed))
        points, cover = divisions.points, divisions.halfspaces(self.holds)
        missed = 1.0  # where a way was lost to rounding
        if len(cover) == len(divisions.signs):
            missed = divisions.disagreement_bound(X_public)
        candidates = distinct
        if n_features == 2:
            candidates = np.concatenate([candidates, line_arrangement_points(cover, points)])
        return ExplicitCover(self.holds, cover, candidates, fresh, points, missed)

    def dual(self, n_features: int) -> int:
        """Return p for p columns: p hyperplanes make 2^p cells, p + 1 fewer (Schläfli 1901)."""
        return n_features

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows (Cover 1965)."""
        return min(1 << m, 2 * growth_function(max(m - 1, 0), n_features))

    def _checked(self, Q: Any, n_features: int) -> Floats:
        return self._numbers(Q, (n_features + 1,), "the normal, then the offset")


class StumpQueries(QueryClass):
    """Stumps: is the number in one of many columns at most t, or the category there v.

    An array of queries has shape (n_queries, 2): the column, by name or position, and t or v.
    `holds` itself takes positions and codes, and the position -1 - j for "the code of column j is".

    See Also
    --------
    ThresholdQueries : The same of one column.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [5.0, 1.0]])
    >>> StumpQueries().holds([[0, 3.0], [-2, 1.0]], X)
    array([[ True, False],
           [False,  True]])
    """

    def holds(self, Q: ArrayLike, X: Floats) -> Answers:
        """Tell for which rows each stump holds."""
        Q = self._checked(Q, X.shape[1])
        column = Q[:, 0].astype(np.intp)
        equal = column < 0
        values = X.T[np.where(equal, -1 - column, column)]
        return np.where(equal[:, None], values == Q[:, 1:], values <= Q[:, 1:])

    def arrange(self, X_public: Floats) -> ProductCover:
        """Cut numeric columns between public values, and give each category a cell."""
        axes = [QuantileAxis(column, 1, MAX_AXIS_CELLS) for column in X_public.T]
        for place, n_codes in self._coded().items():  # also the codes that no public row has
            axes[place] = QuantileAxis(np.arange(n_codes), 0, n_codes)
        return ProductCover(axes)

    def project(self, Q: NDArray[Any], members: ProductCover) -> Codes:
        """Find the nearest cuts."""
        column = Q[:, 0].astype(np.intp)
        equal = column < 0
        low = np.where(equal, Q[:, 1], -np.inf)
        return members.find(np.where(equal, -1 - column, column), low, Q[:, 1])

    def dual(self, n_features: int) -> int:
        """Return p for p columns: of two stumps on one, one implies the other or its negation.

        One stump for each column is shattered (Bassily et al. 2020, section 4).
        """
        return n_features

    def check_columns(self, schema: Schema) -> None:
        """Accept all columns."""

    def bound(self, schema: Schema, X_public: Floats) -> Self:
        """Return the class as it works on rows encoded by a schema."""
        other = copy.copy(self)
        described = enumerate(schema.columns)
        other._codes = {
            place: column.n_categories for place, column in described if column.categorical
        }
        return other

    def resolve(self, Q: Any, schema: Schema) -> Floats:
        """Check queries as a user gives them, and encode the categories they name."""
        table = np.asarray(Q, dtype=object)
        if table.ndim != 2 or table.shape[1] != 2:
            raise ValueError(
                "Queries of StumpQueries must have shape (n_queries, 2), column and threshold or "
                f"category; got shape {table.shape}."
            )
        resolved = np.empty((len(table), 2))
        for place, (column, value) in enumerate(table.tolist()):
            position = schema.position(column)
            described = schema.columns[position]
            one = np.array([value], dtype=object)
            if described.categorical:
                check_categories(one, described)
                resolved[place] = -1 - position, described.encode(one)[0]
            else:
                number = described.from_user(one) if described.has_offset else one
                resolved[place] = position, self._numbers(number, (), "the threshold")[0]
        return resolved

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows."""
        return min(1 << m, n_features * max(m - 1, 0) + 2 + len(self._coded()))

    def is_coded(self, place: int) -> bool:
        """Tell whether a column is categorical; of the bound class."""
        return place in self._coded()

    def _coded(self) -> dict[int, int]:
        return getattr(self, "_codes", {})

    def _checked(self, Q: Any, n_features: int) -> Floats:
        return self._numbers(Q, (2,), "column and threshold")
