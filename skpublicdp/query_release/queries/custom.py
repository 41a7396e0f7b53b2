"""Queries that are defined by a user's function."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp._internal.redaction import RefusedError, call_silently
from skpublicdp.data.schema import Schema
from skpublicdp.query_release.bounded_numbers import UNITS, to_units
from skpublicdp.query_release.pmw.cover import ExplicitCover, split_sample_cover
from skpublicdp.query_release.queries.base import Answers, QueryClass
from skpublicdp.typing import Floats, Integers


class CustomQueries(QueryClass):
    """Queries in a list, which are evaluated by a user-defined function.

    An array of queries has shape (n_queries, 1) and contains positions in the list.

    Parameters
    ----------
    function : callable
        Function that accepts rows in the container type of `fit` and returns booleans of shape (n,
        n_listed), or (n,) for a single query. The function's answers for a row must depend only on
        this row; the receipt states this assumption. In frames of libraries other than pandas,
        categories are strings and missing booleans are False. If the function fails on private
        rows, the error message contains no details. Warnings issued by the function are suppressed.
    bounds : array-like of shape (2,) or (n_listed, 2), default=None
        Lowest and highest values of the queries. If given, the function returns numbers instead of
        booleans, and each answer is the mean of the numbers, after moving those beyond the bounds
        to the nearer bound. Missing numbers count as the lower bound. Noise is proportional to the
        width of the bounds, which must not be computed from private rows. Numbers require
        ``method="auto"``, and the release has no synthetic rows.

    See Also
    --------
    MarginalQueries : Tables over columns, which are released more accurately.

    Notes
    -----
    Public rows must have values in all columns of `X`, since the prior of each answer is its answer
    on public rows. Without public rows, the types of columns and `bounds` declare their values.

    Examples
    --------
    >>> import numpy as np
    >>> mine = CustomQueries(lambda X: np.column_stack([X[:, 0] > X[:, 1], X.sum(axis=1) > 3]))
    >>> mine.holds([[1], [0]], np.array([[1.0, 2.5], [1.0, 0.0]]))
    array([[ True, False],
           [False,  True]])
    """

    statistic = "counts"
    assumptions = (
        "the answers of the CustomQueries function about a row depend on this row alone",
    )

    def __init__(
        self, function: Callable[[Any], ArrayLike], bounds: ArrayLike | None = None
    ) -> None:
        self.function = function
        self.bounds = bounds

    @property
    def are_numbers(self) -> bool:  # type: ignore[override]
        """Whether the queries are numbers within bounds."""
        return self.bounds is not None

    def holds(self, Q: ArrayLike, X: Floats) -> Answers:
        """Indicate whether each query holds for each row, shape (n_queries, n)."""
        if self.are_numbers:
            raise ValueError(
                "Queries of CustomQueries with bounds are numbers, which are neither true nor "
                "false."
            )
        positions = self._validated(Q, X.shape[1])[:, 0]
        answers = self._evaluate(X)
        self._check_positions(positions, len(answers))
        return answers[positions]

    def units(self, Q: ArrayLike, X: Floats) -> Integers:
        """Return the number of each query for each row as an integer from 0 to 2 * UNITS.

        The shape is (n_queries, n). The lower bound is 0.
        """
        positions = self._validated(Q, X.shape[1])[:, 0]
        numbers = self._evaluate(X)[positions]
        units = np.empty(numbers.shape, dtype=np.int64)
        for row, position in enumerate(positions):
            low, high = self._ranges[position].tolist()
            is_missing = np.isnan(numbers[row])
            filled = np.where(is_missing, low, numbers[row])
            shifted = to_units(filled, low, high)
            units[row] = shifted + UNITS
        return units

    def from_shares(self, Q: NDArray[Any], shares: Floats) -> Floats:
        """Return answers, or the ends of their intervals, that are given as shares of a range."""
        if not self.are_numbers:
            return shares
        low, high = self._ranges[Q[:, 0]].T.reshape(2, -1, *(1,) * (shares.ndim - 1))
        return np.asarray(low + (high - low) * shares)

    def weighted_mean(self, Q: NDArray[Any], X: Floats, weights: Floats) -> Floats:
        """Return the weighted mean of each query over the rows, (n_queries,)."""
        if not self.are_numbers:
            return super().weighted_mean(Q, X, weights)
        return self.from_shares(Q, self.units(Q, X) @ weights / (2 * UNITS))

    def encode(self, Q: Any, schema: Schema) -> NDArray[np.intp]:
        """Validate the user's queries, which are positions in the list, and return them."""
        positions = self._validated(Q, len(schema.columns))
        self._check_positions(positions, self._n_listed)
        return positions

    def build_cover(self, X_public: Floats) -> ExplicitCover:
        """Return the cover that contains all queries, with the cells of public rows."""
        return split_sample_cover(self.holds, self.all_queries(X_public), X_public)

    def holdout_queries(self, X: Floats) -> NDArray[np.intp]:
        """Return the positions of all queries of the list."""
        return self.all_queries(X)

    def all_queries(self, X: Floats) -> NDArray[np.intp]:
        """Return the positions of all queries of the list, shape (n_listed, 1).

        The function is called on the first row of `X` to determine the number of its answers.
        """
        n_listed = len(self._evaluate(X[:1]))
        return np.arange(n_listed)[:, None]

    def check_columns(self, schema: Schema) -> None:
        """Do nothing, since all types of columns are supported."""

    def bind(self, schema: Schema, X_public: Floats) -> Self:
        """Return a copy for rows encoded by a schema, with the number of queries.

        The function is called on a public row to count its answers.
        """
        bound_queries = copy.copy(self)
        bound_queries._schema = schema
        bound_queries._n_listed = len(bound_queries.all_queries(X_public))
        if not bound_queries._n_listed:
            raise ValueError(
                "The function of CustomQueries must return at least one column, but it returned "
                "an array without columns for public rows."
            )
        if self.are_numbers:
            ranges = np.asarray(self.bounds, dtype=np.float64)
            is_pair = ranges.shape in ((2,), (bound_queries._n_listed, 2))
            with np.errstate(over="ignore", invalid="ignore"):
                widths = np.diff(ranges) if is_pair else np.zeros(1)
            if not is_pair or not ((widths / 2 > 0) & np.isfinite(widths)).all():
                raise ValueError(
                    "The bounds of CustomQueries must be a finite lower and upper bound, or one "
                    f"such pair for each of the {bound_queries._n_listed} queries."
                )
            bound_queries._ranges = np.broadcast_to(ranges, (bound_queries._n_listed, 2))
        return bound_queries

    def growth(self, m: int, n_features: int) -> int:
        """Return an upper bound on the number of labellings of m rows by the queries.

        The bound is the number of all labellings, or the length of the list plus one if that is
        smaller.
        """
        n_labelings = 1 << m
        return min(n_labelings, getattr(self, "_n_listed", n_labelings) + 1)

    def _check_positions(self, positions: NDArray[np.intp], n_listed: int) -> None:
        """Raise a ValueError if a position is outside the list of queries."""
        if len(positions) and not (positions.min() >= 0 and positions.max() < n_listed):
            raise ValueError(
                f"Queries of CustomQueries must be column positions from 0 to {n_listed - 1}, "
                f"because the function returns {n_listed} columns."
            )

    def _evaluate(self, X: Floats) -> NDArray[Any]:
        """Evaluate the function on rows and check its answers, shape (n_listed, n).

        After `bind`, the rows may be private, and error messages contain nothing that depends on
        their values.
        """
        result, error = call_silently(self._call_function, X)
        n_listed = getattr(self, "_n_listed", None)  # None before `bind`
        is_valid = (
            error is None
            and (result.dtype.kind in "biuf" if self.are_numbers else result.dtype == bool)
            and result.ndim == 2
            and len(result) == len(X)
            and n_listed in (None, result.shape[1])
        )
        if is_valid:
            return result.T.astype(np.float64) if self.are_numbers else result.T
        kind = "numbers" if self.are_numbers else "booleans"
        if n_listed is not None:
            raise RefusedError(
                f"The function of CustomQueries must return {kind} for any rows, with one row per "
                "row of X and the same number of columns as for public rows. Details are withheld "
                "because the rows may be private."
            )
        if error is not None:
            # `bind` calls the function on public rows, whose values may be quoted
            details = f": {error}" if hasattr(self, "_schema") else "."
            raise ValueError(
                f"The function of CustomQueries raised {type(error).__name__}{details}"
            )
        raise ValueError(
            f"The function of CustomQueries must return {kind} and one row per row of X; got "
            f"{result.dtype} of shape {result.shape}."
        )

    def _call_function(self, X: Floats) -> NDArray[Any]:
        """Return the result of the user's function on encoded rows, shape (n, n_listed).

        The result is not checked. After `bind`, the rows are decoded one by one, so that column
        types do not depend on private values.
        """
        rows = X
        if hasattr(self, "_schema"):
            rows = self._schema.decode_rowwise(X, with_time_zones=True)
        answers = np.asarray(self.function(rows))
        return answers[:, None] if answers.ndim == 1 else answers

    def _validated(self, Q: Any, n_features: int) -> NDArray[np.intp]:
        """Validate positions in the list and return them as integers of shape (n_queries, 1)."""
        positions = self._as_floats(Q, (1,), "positions in the list")
        if not (positions == np.floor(positions)).all():
            raise ValueError("Queries of CustomQueries must be whole numbers.")
        return positions.astype(np.intp)
