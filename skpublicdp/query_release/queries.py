"""Classes of yes-or-no questions about a row; those about one number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.query_release.dichotomies import runs
from skpublicdp.schema import Schema

Rows = NDArray[np.float64]
Answers = NDArray[np.bool_]

LARGEST_COVER = 1 << 14
"""The most queries of a cover, and the most cells."""

BLOCK = 1 << 24
"""Answers of queries on rows held at a time."""


class QueryClass(BaseEstimator, ABC):
    """A class of queries: each is true or false of a row.

    Rows are encoded: numeric columns as they are, categorical ones by the codes of a schema.
    """

    encoding: str
    """The shape of an array of queries and what is in it."""

    dual: int | None = None
    """The VC dimension of the dual class, where it is less than Assouad's bound."""

    @abstractmethod
    def holds(self, Q: ArrayLike, X: Rows) -> Answers:
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
    def cover(self, X_public: Rows) -> NDArray[Any]:
        """List one query for each way in which queries of the class divide the public rows.

        Parameters
        ----------
        X_public : ndarray of float64, shape (m, n_features)
            Public rows, at least one.

        Returns
        -------
        ndarray
            The cover of Bassily et al. (2020), Algorithm 3: no two of its queries agree on all
            public rows, and each query of the class agrees with one of them.

        Raises
        ------
        CoverSizeError
            If there are too many of them.
        """

    def project(self, Q: ArrayLike, cover: NDArray[Any], X_public: Rows) -> NDArray[np.intp]:
        """Find the members of a cover that agree with queries on all public rows.

        Parameters
        ----------
        Q : array-like
            Queries.
        cover : ndarray
            What `cover` returned for the same public rows.
        X_public : ndarray of float64, shape (m, n_features)
            Public rows.

        Returns
        -------
        ndarray of intp, shape (n_queries,)
            Positions in the cover.
        """
        known = _keys(self.holds(cover, X_public))
        places = {key: place for place, key in enumerate(known)}
        wanted = _keys(self.holds(Q, X_public))
        missing = next((key for key in wanted if key not in places), None)
        if missing is not None:
            raise ValueError(f"{type(self).__name__}: some query is not in the class.")
        return np.array([places[key] for key in wanted], dtype=np.intp)

    def representatives(self, cover: NDArray[Any], X_public: Rows) -> Rows:
        """Return rows that together are in every cell of the cover's arrangement, if possible."""
        return np.unique(X_public, axis=0)

    def tally(self, Q: NDArray[Any], X: Rows) -> NDArray[np.int64]:
        """Count the rows for which each query holds; additive over rows."""
        counts = np.zeros(len(Q), dtype=np.int64)
        step = max(1, BLOCK // max(1, len(Q)))
        for start in range(0, len(X), step):
            counts += self.holds(Q, X[start : start + step]).sum(axis=1)
        return counts

    def weigh(self, Q: NDArray[Any], X: Rows, weights: Rows) -> Rows:
        """Add up the weights of the rows for which each query holds."""
        totals = np.empty(len(Q))
        step = max(1, BLOCK // max(1, len(X)))
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

    def bound(self, schema: Schema, X_public: Rows) -> Self:
        """Return the class as it works on rows encoded by a schema."""
        return self

    def n_points(self, n_features: int) -> int:
        """Return how many public rows make a cover of moderate size."""
        return 1 << 12

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows."""
        return 1 << m

    @abstractmethod
    def _checked(self, Q: Any, n_features: int) -> NDArray[Any]: ...

    def _numbers(self, Q: Any, shape: tuple[int, ...], example: str) -> Rows:
        """Return queries as floats of shape (n_queries, *shape)."""
        try:
            numbers = np.asarray(Q, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"Queries of {type(self).__name__} must be numbers.") from None
        if numbers.ndim == 1 and len(shape) == 1:
            raise ValueError(flat_queries(self, shape[0]))
        if numbers.ndim != 1 + len(shape) or numbers.shape[1:] != shape:
            wanted = ", ".join(map(str, shape))
            raise ValueError(
                f"Queries of {type(self).__name__} must have shape (n_queries, {wanted}), "
                f"{example}; got shape {numbers.shape}."
            )
        if np.isnan(numbers).any():
            raise ValueError(f"Queries of {type(self).__name__} must not contain NaN.")
        return numbers


def flat_queries(queries: QueryClass, width: int) -> str:
    """Return what is wrong with a one-dimensional array, in the words of scikit-learn."""
    return (
        f"Expected 2D array, got 1D array instead: queries of {type(queries).__name__} have shape "
        f"(n_queries, {width}). Reshape your data with array.reshape(-1, {width})."
    )


def _keys(holds: Answers) -> list[bytes]:
    return [row.tobytes() for row in np.packbits(holds, axis=1)]


def check_cover_size(
    queries: QueryClass, size: int, limit: int = LARGEST_COVER, what: str = "queries"
) -> None:
    """Refuse covers and arrangements that do not fit in memory."""
    if size > limit:
        raise CoverSizeError(
            f"The public rows make {size} {what} of {type(queries).__name__}, above {limit}; use "
            'fewer public rows or columns, or method="auto".'
        )


def distinct_on(queries: QueryClass, Q: NDArray[Any], X_public: Rows) -> NDArray[Any]:
    """Keep the first of the queries that agree on all public rows."""
    first: dict[bytes, int] = {}
    for start in range(0, len(Q), 1 << 14):
        for place, key in enumerate(_keys(queries.holds(Q[start : start + (1 << 14)], X_public))):
            first.setdefault(key, start + place)
    return Q[list(first.values())]


def _check_one_column(queries: QueryClass, n_features: int) -> None:
    if n_features != 1:
        raise ValueError(f"{type(queries).__name__} are about one column; X has {n_features}.")


class ThresholdQueries(QueryClass):
    """Thresholds: is the number at most t. The answers are the distribution function of a column.

    An array of queries has shape (n_queries, 1): the thresholds t.

    Examples
    --------
    >>> import numpy as np
    >>> ThresholdQueries().holds([[1.0], [2.0]], np.array([[1.0], [1.5], [3.0]]))
    array([[ True, False, False],
           [ True,  True, False]])
    """

    encoding = "(n_queries, 1): t"
    dual = 1

    def holds(self, Q: ArrayLike, X: Rows) -> Answers:
        """Tell which numbers are at most each threshold."""
        Q = self._checked(Q, X.shape[1])
        return X[:, 0] <= Q

    def cover(self, X_public: Rows) -> Rows:
        """List the thresholds halfway between public values, and both infinities."""
        distinct = np.unique(X_public)
        check_cover_size(self, len(distinct) + 1)
        return np.concatenate([[-np.inf], (distinct[:-1] + distinct[1:]) / 2, [np.inf]])[:, None]

    def check_columns(self, schema: Schema) -> None:
        """Refuse columns that the class cannot ask about."""
        super().check_columns(schema)
        _check_one_column(self, len(schema.columns))

    def n_points(self, n_features: int) -> int:
        """Return how many public rows make a cover of moderate size."""
        return 512

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows."""
        return m + 1

    def _checked(self, Q: Any, n_features: int) -> Rows:
        _check_one_column(self, n_features)
        return self._numbers(Q, (1,), "the threshold")


class IntervalQueries(QueryClass):
    """Intervals: does the number lie between two bounds, both included.

    An array of queries has shape (n_queries, 2): low and high, which may be infinite.

    Examples
    --------
    >>> import numpy as np
    >>> IntervalQueries().holds([[1.0, 2.0]], np.array([[1.0], [2.0], [3.0]]))
    array([[ True,  True, False]])
    """

    encoding = "(n_queries, 2): low, high"
    dual = 2

    def holds(self, Q: ArrayLike, X: Rows) -> Answers:
        """Tell which numbers lie in each interval."""
        Q = self._checked(Q, X.shape[1])
        return (X[:, 0] >= Q[:, :1]) & (X[:, 0] <= Q[:, 1:])

    def cover(self, X_public: Rows) -> Rows:
        """List the intervals that end halfway between public values, and an empty one."""
        m = len(np.unique(X_public))
        check_cover_size(self, m * (m + 1) // 2 + 1)
        return runs(X_public[:, 0])

    def check_columns(self, schema: Schema) -> None:
        """Refuse columns that the class cannot ask about."""
        super().check_columns(schema)
        _check_one_column(self, len(schema.columns))

    def n_points(self, n_features: int) -> int:
        """Return how many public rows make a cover of moderate size."""
        return 48

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows."""
        return m * (m + 1) // 2 + 1

    def _checked(self, Q: Any, n_features: int) -> Rows:
        _check_one_column(self, n_features)
        return self._numbers(Q, (2,), "low and high")
