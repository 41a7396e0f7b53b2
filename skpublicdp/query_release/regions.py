"""Queries about the place of a row among several columns."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp.guarantees import growth_function
from skpublicdp.query_release.dichotomies import (
    halfspace_dichotomies,
    line_arrangement_points,
    runs,
)
from skpublicdp.query_release.queries import (
    LARGEST_COVER,
    Answers,
    QueryClass,
    Rows,
    check_cover_size,
    distinct_on,
)
from skpublicdp.schema import Schema


class RectangleQueries(QueryClass):
    """Boxes along the axes: does the row lie inside, the faces included.

    An array of queries has shape (n_queries, n_features, 2): low and high of each column, which may
    be infinite.

    Examples
    --------
    >>> import numpy as np
    >>> box = [[0.0, 1.0], [-np.inf, 5.0]]
    >>> RectangleQueries().holds([box], np.array([[0.5, 5.0], [0.5, 6.0]]))
    array([[ True, False]])
    """

    encoding = "(n_queries, n_features, 2): low, high"

    def holds(self, Q: ArrayLike, X: Rows) -> Answers:
        """Tell which rows lie in each box."""
        Q = self._checked(Q, X.shape[1])
        inside = np.ones((len(Q), len(X)), dtype=bool)
        for column in range(X.shape[1]):
            inside &= X[:, column] >= Q[:, column, :1]
            inside &= X[:, column] <= Q[:, column, 1:]
        return inside

    def cover(self, X_public: Rows) -> Rows:
        """List one box for each set of public rows that boxes contain."""
        sides = [runs(column) for column in X_public.T]
        n_boxes = int(np.prod([float(len(side)) for side in sides]))
        check_cover_size(self, n_boxes, 64 * LARGEST_COVER, "boxes")
        grid = np.meshgrid(*(np.arange(len(side)) for side in sides), indexing="ij")
        boxes = np.stack([side[at.ravel()] for side, at in zip(sides, grid, strict=True)], axis=1)
        kept = distinct_on(self, boxes, X_public)
        check_cover_size(self, len(kept))
        return kept

    def representatives(self, cover: NDArray[Any], X_public: Rows) -> Rows:
        """Return the grid of the public values."""
        return _grid(self, [np.unique(column) for column in X_public.T])

    def n_points(self, n_features: int) -> int:
        """Return how many public rows make a cover of moderate size."""
        return (0, 48, 12, 8)[n_features] if n_features < 4 else 5

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows."""
        return min(1 << m, growth_function(m, 2 * n_features))

    def _checked(self, Q: Any, n_features: int) -> Rows:
        return self._numbers(Q, (n_features, 2), "low and high of each column")


class HalfspaceQueries(QueryClass):
    """Halfspaces: is the row on one side of a hyperplane, w · x ≥ b.

    An array of queries has shape (n_queries, n_features + 1): the normal w, then the offset b.

    Examples
    --------
    >>> import numpy as np
    >>> HalfspaceQueries().holds([[1.0, 1.0, 2.0]], np.array([[1.0, 1.0], [1.0, 0.0]]))
    array([[ True, False]])
    """

    encoding = "(n_queries, n_features + 1): normal, offset"

    def holds(self, Q: ArrayLike, X: Rows) -> Answers:
        """Tell which rows are on the positive side."""
        Q = self._checked(Q, X.shape[1])
        # column by column: a row's sum then does not depend on the rows beside it
        with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of huge values
            values = Q[:, :1] * X[:, 0]
            for column in range(1, X.shape[1]):
                values += Q[:, column : column + 1] * X[:, column]
        return values >= Q[:, -1:]

    def cover(self, X_public: Rows) -> Rows:
        """List one halfspace for each division of the public rows, by linear programs."""
        points = np.unique(X_public, axis=0)
        # each takes a few linear programs
        check_cover_size(self, self.growth(len(points), X_public.shape[1]), 1 << 10)
        return halfspace_dichotomies(points, self.holds)

    def representatives(self, cover: NDArray[Any], X_public: Rows) -> Rows:
        """Return the public rows and, in the plane, points around all crossings of the lines."""
        points = np.unique(X_public, axis=0)
        if X_public.shape[1] == 2:
            points = np.concatenate([points, line_arrangement_points(cover, points)])
        elif X_public.shape[1] == 1:
            cuts = np.unique([b / w for w, b in cover if w])
            ends = [cuts[0] - np.ptp(points) - 1, *cuts, cuts[-1] + np.ptp(points) + 1]
            between = (np.array(ends[:-1]) + ends[1:]) / 2
            points = np.concatenate([points, between[:, None]])
        return points

    def n_points(self, n_features: int) -> int:
        """Return how many public rows make a cover of moderate size."""
        return (0, 48, 12)[n_features] if n_features < 3 else 8

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows (Cover 1965)."""
        return min(1 << m, 2 * growth_function(max(m - 1, 0), n_features))

    def _checked(self, Q: Any, n_features: int) -> Rows:
        return self._numbers(Q, (n_features + 1,), "the normal, then the offset")


class StumpQueries(QueryClass):
    """Stumps: is the number in one of many columns at most t, or the category there v.

    An array of queries has shape (n_queries, 2): the column, by name or position, and t or v.
    `holds` itself takes positions and codes, and the position -1 - j for "the code of column j is".

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [5.0, 1.0]])
    >>> StumpQueries().holds([[0, 3.0], [-2, 1.0]], X)
    array([[ True, False],
           [False,  True]])
    """

    encoding = "(n_queries, 2): column, threshold or category"

    def holds(self, Q: ArrayLike, X: Rows) -> Answers:
        """Tell for which rows each stump holds."""
        Q = self._checked(Q, X.shape[1])
        column = Q[:, 0].astype(np.intp)
        equal = column < 0
        values = X.T[np.where(equal, -1 - column, column)]
        return np.where(equal[:, None], values == Q[:, 1:], values <= Q[:, 1:])

    def cover(self, X_public: Rows) -> Rows:
        """List one stump for each division of the public rows."""
        stumps = [np.array([[0, -np.inf], [0, np.inf]])]
        for column, values in enumerate(X_public.T):
            distinct = np.unique(values)
            cuts = (distinct[:-1] + distinct[1:]) / 2
            stumps.append(np.column_stack([np.full(len(cuts), column), cuts]))
            if column in self._coded():
                stumps[-1] = np.column_stack([np.full(len(distinct), -1.0 - column), distinct])
        listed = distinct_on(self, np.concatenate(stumps), X_public)
        check_cover_size(self, len(listed))
        return listed

    def representatives(self, cover: NDArray[Any], X_public: Rows) -> Rows:
        """Return the grid of the public values."""
        return _grid(self, [np.unique(column) for column in X_public.T])

    def check_columns(self, schema: Schema) -> None:
        """Accept all columns."""

    def bound(self, schema: Schema, X_public: Rows) -> Self:
        """Return the class as it works on rows encoded by a schema."""
        other = copy.copy(self)
        other._categorical = frozenset(np.flatnonzero(~schema.numeric).tolist())
        return other

    def resolve(self, Q: Any, schema: Schema) -> Rows:
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
                resolved[place] = -1 - position, described.encode(one)[0]
            else:
                resolved[place] = position, self._numbers(one, (), "the threshold")[0]
        return resolved

    def n_points(self, n_features: int) -> int:
        """Return how many public rows make a cover of moderate size."""
        return max(2, int(4096 ** (1 / n_features)))

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows."""
        return min(1 << m, n_features * max(m - 1, 0) + 2)

    def _coded(self) -> frozenset[int]:
        return getattr(self, "_categorical", frozenset())

    def _checked(self, Q: Any, n_features: int) -> Rows:
        return self._numbers(Q, (2,), "column and threshold")


def _grid(queries: QueryClass, axes: Sequence[Rows]) -> Rows:
    size = 1
    for axis in axes:
        size *= len(axis)
    check_cover_size(queries, size, 4 * LARGEST_COVER, "cells")
    grid = np.meshgrid(*axes, indexing="ij")
    return np.stack([values.ravel() for values in grid], axis=1)
