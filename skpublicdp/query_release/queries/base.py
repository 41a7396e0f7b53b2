"""Classes of yes-or-no questions about a row; those about one number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skpublicdp.data.schema import Schema
from skpublicdp.guarantees import growth_function
from skpublicdp.query_release.pmw.cover import ANSWER_BLOCK, QueryCover
from skpublicdp.query_release.pmw.grid_cover import BoxCover
from skpublicdp.typing import Codes, Floats

Answers = NDArray[np.bool_]


class QueryClass(BaseEstimator, ABC):
    """A class of queries: each is true or false of a row.

    Rows are encoded: numeric columns as they are, categorical ones by the codes of a schema.
    """

    @abstractmethod
    def holds(self, Q: ArrayLike, X: Floats) -> Answers:
        """Tell which queries hold for which rows.

        Parameters
        ----------
        Q : array-like
            Queries, in the encoding of the class.
        X : ndarray of float64, shape (n, n_features)
            Rows, each of which is looked at alone.

        Returns
        -------
        ndarray of bool, shape (n_queries, n)
            Answers, exact for the numbers as they are stored.
        """

    @abstractmethod
    def arrange(self, X_public: Floats) -> QueryCover:
        """Build a cover of the class and its cells, for ``method="pmw"``.

        Parameters
        ----------
        X_public : ndarray of float64, shape (m, n_features)
            Public rows, at least one, in random order.

        Returns
        -------
        Arrangement
            The cover and the representative domain of Bassily et al. (2020), Algorithm 3.

        Raises
        ------
        CoverSizeError
            If they do not fit into memory.
        """

    def project(self, Q: NDArray[Any], members: Any) -> Codes:
        """Find the members of a cover that stand for queries."""
        found: Codes = members.find(Q)
        return found

    def dual(self, n_features: int) -> int | None:
        """Return the VC dimension of the dual class, if it is less than Assouad's bound."""
        return None

    def weigh(self, Q: NDArray[Any], X: Floats, weights: Floats) -> Floats:
        """Add up the weights of the rows for which each query holds."""
        totals = np.empty(len(Q))
        step = max(1, ANSWER_BLOCK // max(1, len(X)))
        for start in range(0, len(Q), step):
            # added row by row in one order: an answer does not depend on the queries beside it
            holds = self.holds(Q[start : start + step], X)
            totals[start : start + step] = [weights[row].sum() for row in holds]
        return totals

    def resolve(self, Q: Any, schema: Schema) -> NDArray[Any]:
        """Check queries as a user gives them, and encode the categories they name."""
        return self._checked(Q, len(schema.columns))

    def check_columns(self, schema: Schema) -> None:
        """Refuse columns that the class cannot ask about."""
        if not schema.numeric.all():
            name = schema.names[int(np.flatnonzero(~schema.numeric)[0])]
            raise ValueError(
                f"{type(self).__name__} needs numeric columns and column {name} is categorical; "
                "StumpQueries and MarginalQueries take both."
            )
        counted = [column.name for column in schema.columns if column.has_offset]
        if counted and not isinstance(self, _OneColumn):
            raise ValueError(
                f"{type(self).__name__} needs plain numbers and column {counted[0]} holds dates or "
                "numbers beyond 2**53; StumpQueries and MarginalQueries take both."
            )

    def bound(self, schema: Schema, X_public: Floats) -> Self:
        """Return the class as it works on rows encoded by a schema."""
        return self

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows."""
        return 1 << m

    @abstractmethod
    def _checked(self, Q: Any, n_features: int) -> NDArray[Any]: ...

    def _numbers(self, Q: Any, shape: tuple[int, ...], example: str) -> Floats:
        """Return queries as floats of shape (n_queries, *shape)."""
        try:
            numbers = np.asarray(Q, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"Queries of {type(self).__name__} must be numbers.") from None
        if numbers.ndim == 1 and shape == (1,):
            numbers = numbers[:, None]
        if numbers.ndim == 1 and len(shape) == 1:
            raise ValueError(flat_queries(type(self).__name__, shape[0]))
        if numbers.ndim != 1 + len(shape) or numbers.shape[1:] != shape:
            wanted = ", ".join(map(str, shape))
            raise ValueError(
                f"Queries of {type(self).__name__} must have shape (n_queries, {wanted}), "
                f"{example}; got shape {numbers.shape}."
            )
        if np.isnan(numbers).any():
            raise ValueError(f"Queries of {type(self).__name__} must not contain NaN.")
        return numbers


def flat_queries(name: str, width: int) -> str:
    """Return what is wrong with a one-dimensional array, in the words of scikit-learn."""
    return (
        f"Expected 2D array, got 1D array instead: queries of {name} have shape "
        f"(n_queries, {width}); Reshape your data with array.reshape(-1, {width})."
    )


class BoxQueries(QueryClass):
    """Boxes along the axes: a run of numbers in each column, with one end or two."""

    ends = 2
    """How many ends of a run are asked for."""

    def holds(self, Q: ArrayLike, X: Floats) -> Answers:
        """Tell which rows lie in each box."""
        boxes = self._boxes(self._checked(Q, X.shape[1]))
        inside = np.ones((len(boxes), len(X)), dtype=bool)
        for column in range(X.shape[1]):
            inside &= X[:, column] >= boxes[:, column, :1]
            inside &= X[:, column] <= boxes[:, column, 1:]
        return inside

    def arrange(self, X_public: Floats) -> BoxCover:
        """Cut all columns between public values."""
        return BoxCover(X_public, self.ends)

    def project(self, Q: NDArray[Any], members: BoxCover) -> Codes:
        """Find the boxes between the nearest cuts."""
        return members.find(self._boxes(Q))

    def dual(self, n_features: int) -> int:
        """Return how many ends a box has, e p of p columns.

        A row x is in the boxes with low <= x <= high: an orthant of the space of (low, -high). Of
        e p + 1 boxes, e p are extreme in its coordinates, and an orthant with these has the last
        one, too (Wenocur and Dudley 1981). Two overlapping intervals of each column are shattered,
        and so is one threshold.
        """
        return self.ends * n_features

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows."""
        return growth_function(m, self.ends * n_features)

    @abstractmethod
    def _boxes(self, Q: Floats) -> Floats:
        """Return low and high of each column, shape (n_queries, n_features, 2)."""


class _OneColumn(BoxQueries):
    """Runs of the numbers of a single column."""

    def check_columns(self, schema: Schema) -> None:
        """Refuse columns that the class cannot ask about."""
        super().check_columns(schema)
        self._check_one(len(schema.columns))

    def resolve(self, Q: Any, schema: Schema) -> Floats:
        """Check queries as a user gives them, and encode dates."""
        (column,) = schema.columns
        return self._checked(column.from_user(Q) if column.has_offset else Q, 1)

    def _checked(self, Q: Any, n_features: int) -> Floats:
        self._check_one(n_features)
        return self._numbers(Q, (self.ends,), ("the threshold", "low and high")[self.ends - 1])

    def _check_one(self, n_features: int) -> None:
        if n_features != 1:
            raise ValueError(f"{type(self).__name__} are about one column; X has {n_features}.")


class ThresholdQueries(_OneColumn):
    """Thresholds: is the number at most t. The answers are the distribution function of a column.

    An array of queries has shape (n_queries, 1) or (n_queries,): the thresholds t.

    See Also
    --------
    IntervalQueries : Ranges of the same column.

    Examples
    --------
    >>> import numpy as np
    >>> ThresholdQueries().holds([[1.0], [2.0]], np.array([[1.0], [1.5], [3.0]]))
    array([[ True, False, False],
           [ True,  True, False]])
    """

    ends = 1

    def _boxes(self, Q: Floats) -> Floats:
        return np.insert(Q, 0, -np.inf, axis=1)[:, None]


class IntervalQueries(_OneColumn):
    """Intervals: does the number lie between two bounds, both included.

    An array of queries has shape (n_queries, 2): low and high, which may be infinite.

    See Also
    --------
    ThresholdQueries : Distribution functions and quantiles.
    RectangleQueries : Ranges of several columns.

    Examples
    --------
    >>> import numpy as np
    >>> IntervalQueries().holds([[1.0, 2.0]], np.array([[1.0], [2.0], [3.0]]))
    array([[ True,  True, False]])
    """

    def _boxes(self, Q: Floats) -> Floats:
        return Q[:, None]
