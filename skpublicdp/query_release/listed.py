"""Queries about cells of a table, and queries of one's own."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from itertools import combinations
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp.guard import attempt
from skpublicdp.query_release.queries import (
    LARGEST_COVER,
    Answers,
    QueryClass,
    Rows,
    check_cover_size,
    flat_queries,
)
from skpublicdp.schema import Schema, is_missing

ANY = -1
"""The code of "any value" in a query about cells."""


class MarginalQueries(QueryClass):
    """Cells of tables: is the row in this cell of a table over some of the columns.

    An array of queries, or a data frame, has shape (n_queries, n_features) like the rows: a query
    has a value in each column it is about, and None in the others (in a data frame, whatever is
    missing). Categories must be equal. Numbers must be in the same bin. ``"(other)"`` stands for
    the categories that no public row has, and ``"(missing)"`` for a missing value.

    `holds` itself takes codes, and -1 for "any".

    Parameters
    ----------
    k : int, default=2
        All tables over k columns are released; over all columns where there are fewer.
    workload : sequence of sequences of str or int, default=None
        The tables, as names or positions of columns, instead of all over k columns.
    bins : int, default=16
        A numeric column with at most so many distinct public values has a bin around each; others
        have about so many public quantiles.

    Examples
    --------
    >>> import numpy as np
    >>> codes = np.array([[0, 1], [0, 2], [1, 1]])
    >>> MarginalQueries().holds([[0, -1], [1, 1]], codes)
    array([[ True,  True, False],
           [False, False,  True]])
    """

    encoding = "(n_queries, n_features): a value, or None for any"

    def __init__(
        self,
        k: int = 2,
        workload: Sequence[Sequence[Any]] | None = None,
        bins: int = 16,
    ) -> None:
        self.k = k
        self.workload = workload
        self.bins = bins

    def holds(self, Q: ArrayLike, X: NDArray[Any]) -> Answers:
        """Tell which rows are in each cell."""
        Q = self._checked(Q, X.shape[1])
        X = self._codes(X)
        inside = np.ones((len(Q), len(X)), dtype=bool)
        for column in range(X.shape[1]):
            asked = np.flatnonzero(Q[:, column] != ANY)
            inside[asked] &= X[:, column] == Q[asked, column : column + 1]
        return inside

    def tally(self, Q: NDArray[Any], X: NDArray[Any]) -> NDArray[np.int64]:
        """Count the rows in each cell; additive over rows."""
        return self._totals(Q, X, None).astype(np.int64)

    def weigh(self, Q: NDArray[Any], X: NDArray[Any], weights: Rows) -> Rows:
        """Add up the weights of the rows in each cell."""
        return self._totals(Q, X, weights)

    def _totals(self, Q: NDArray[Any], X: NDArray[Any], weights: Rows | None) -> Rows:
        codes = self._codes(X)
        totals = np.zeros(len(Q))
        patterns, which = np.unique(Q != ANY, axis=0, return_inverse=True)
        for place, pattern in enumerate(patterns):
            chosen = np.flatnonzero(which.ravel() == place)
            columns = np.flatnonzero(pattern)
            both = np.concatenate([codes[:, columns], Q[np.ix_(chosen, columns)]])
            flat = np.zeros(len(both), dtype=np.int64)
            for column in both.T:  # renumbered at each step, so that no product overflows
                flat = flat * (int(column.max()) + 1) + column
                flat = np.unique(flat, return_inverse=True)[1].ravel()
            totals[chosen] = np.bincount(
                flat[: len(codes)], weights=weights, minlength=int(flat.max()) + 1
            )[flat[len(codes) :]]
        return totals

    def tables(self, schema: Schema) -> list[tuple[int, ...]]:
        """List the tables as positions of columns."""
        n_columns = len(schema.columns)
        if self.workload is None:
            return list(combinations(range(n_columns), min(int(self.k), n_columns)))
        tables = [tuple(map(schema.position, table)) for table in self.workload]
        if not tables or any(len(set(table)) != len(table) or not table for table in tables):
            raise ValueError("workload must list tables, each of one or more different columns.")
        return list(dict.fromkeys(tuple(sorted(table)) for table in tables))

    def cover(self, X_public: NDArray[Any]) -> NDArray[np.int64]:
        """List one cell of the tables for each set of public rows that cells contain."""
        codes = self._codes(X_public)
        listed = self.listed if hasattr(self, "_bins") else self._cells_of(codes)
        check_cover_size(self, len(listed) * len(codes), 1 << 28, "answers on public rows")
        first = np.unique(
            np.packbits(self.holds(listed, X_public), axis=1), axis=0, return_index=True
        )[1]
        return listed[np.sort(first)]

    def representatives(self, cover: NDArray[Any], X_public: Rows) -> Rows:
        """Return a row of each cell of all columns together, or public rows if there are many."""
        if not hasattr(self, "_bins") or math.prod(self._bins.sizes) > LARGEST_COVER:
            return super().representatives(cover, X_public)
        codes = np.indices(self._bins.sizes).reshape(len(self._bins.sizes), -1).T
        rows: Rows = self._bins.representatives(codes, X_public, self._schema)
        return rows

    def check_columns(self, schema: Schema) -> None:
        """Accept all columns, and check the parameters."""
        for name in ("k", "bins"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(
                    f"The {name!r} parameter of MarginalQueries must be a positive integer. Got "
                    f"{value!r} instead."
                )
        self.tables(schema)

    def bound(self, schema: Schema, X_public: Rows) -> Self:
        """Return the class as it works on rows encoded by a schema."""
        other = copy.copy(self)
        other._schema = schema
        other._bins = schema.bins(X_public, int(self.bins))
        return other

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows: not more than there are cells."""
        if not hasattr(self, "_bins"):
            return super().growth(m, n_features)
        return min(1 << m, self._n_cells() + 1)

    @property
    def listed(self) -> NDArray[np.int64]:
        """All cells of all tables, as queries in codes; of the bound class."""
        check_cover_size(self, self._n_cells(), 16 * LARGEST_COVER, "cells")
        parts = []
        for table in self.tables(self._schema):
            cells = np.indices([self._bins.sizes[column] for column in table])
            part = np.full((cells[0].size, len(self._bins.sizes)), ANY)
            part[:, list(table)] = cells.reshape(len(table), -1).T
            parts.append(part)
        return np.concatenate(parts)

    def _n_cells(self) -> int:
        tables = self.tables(self._schema)
        return sum(math.prod(self._bins.sizes[column] for column in table) for table in tables)

    def resolve(self, Q: Any, schema: Schema) -> NDArray[np.int64]:
        """Check queries as a user gives them, and encode values; needs the bound class."""
        n_columns = len(schema.columns)
        if hasattr(Q, "iloc"):
            table = Q.astype(object).to_numpy(dtype=object)
        else:
            table = np.asarray(Q)
            if table.dtype.kind == "f" and np.isnan(table).any():
                raise ValueError(
                    "Queries of MarginalQueries contain NaN; in an array, write None for any value."
                )
            table = table.astype(object)
        if table.ndim == 1:
            raise ValueError(flat_queries(self, n_columns))
        if table.ndim != 2 or table.shape[1] != n_columns:
            raise ValueError(
                f"Queries of MarginalQueries must have shape (n_queries, {n_columns}), a value or "
                f"None for each column of X; got shape {table.shape}."
            )
        resolved = np.full(table.shape, ANY)
        for position, column in enumerate(schema.columns):
            asked = np.array([not is_missing(value) for value in table[:, position]], dtype=bool)
            numbers = np.zeros((int(asked.sum()), n_columns))
            numbers[:, position] = column.encode(table[asked, position])
            resolved[asked, position] = self._bins.codes(numbers)[:, position]
        return resolved

    def _codes(self, X: NDArray[Any]) -> NDArray[np.int64]:
        if X.dtype.kind in "iu":
            return X
        codes: NDArray[np.int64] = self._bins.codes(X)
        return codes

    def _cells_of(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        n_columns = codes.shape[1]
        parts = [np.full((1, n_columns), ANY)]
        for table in combinations(range(n_columns), min(int(self.k), n_columns)):
            part = np.full_like(codes, ANY)
            part[:, table] = codes[:, table]
            parts.append(np.unique(part, axis=0))
        return np.concatenate(parts)

    def _checked(self, Q: Any, n_features: int) -> NDArray[np.int64]:
        codes = np.asarray(Q)
        if codes.ndim != 2 or codes.shape[1] != n_features or codes.dtype.kind not in "iu":
            raise ValueError(
                f"Cells must be codes of shape (n_queries, {n_features}), with -1 for any; got "
                f"{codes.dtype} of shape {codes.shape}."
            )
        return codes


class CustomQueries(QueryClass):
    """Queries of one's own: a fixed list, answered by a function.

    An array of queries has shape (n_queries, 1): positions in the list.

    Parameters
    ----------
    function : callable
        Takes rows in the container they came in and returns booleans, shape (n, n_listed) or, of a
        single query, (n,). It must look at each row alone, which the receipt takes for granted. Of
        what it says of private rows, nothing is heard: no warning, and one sentence if it fails.

    Examples
    --------
    >>> import numpy as np
    >>> mine = CustomQueries(lambda X: np.column_stack([X[:, 0] > X[:, 1], X.sum(axis=1) > 3]))
    >>> mine.holds([[1], [0]], np.array([[1.0, 2.5], [1.0, 0.0]]))
    array([[ True, False],
           [False,  True]])
    """

    encoding = "(n_queries, 1): positions in the list"

    def __init__(self, function: Callable[[Any], ArrayLike]) -> None:
        self.function = function

    def holds(self, Q: ArrayLike, X: Rows) -> Answers:
        """Tell for which rows each query of the list holds."""
        Q = self._checked(Q, X.shape[1])[:, 0]
        answers = self._all(X)
        if len(Q) and not (Q.min() >= 0 and Q.max() < len(answers)):
            raise ValueError(
                f"Queries of CustomQueries must be positions below {len(answers)}, how many the "
                "function lists."
            )
        return answers[Q]

    def tally(self, Q: NDArray[Any], X: Rows) -> NDArray[np.int64]:
        """Count the rows for which each query holds; additive over rows."""
        counts: NDArray[np.int64] = self._all(X)[Q[:, 0]].sum(axis=1)
        return counts

    def cover(self, X_public: Rows) -> NDArray[np.intp]:
        """List one query for each division of the public rows."""
        answers = self._all(X_public)
        check_cover_size(self, len(answers))
        first = np.unique(np.packbits(answers, axis=1), axis=0, return_index=True)[1]
        return np.sort(first)[:, None]

    def everything(self, X: Rows) -> NDArray[np.intp]:
        """Return the whole list, as queries."""
        return np.arange(len(self._all(X[:1])))[:, None]

    def resolve(self, Q: Any, schema: Schema) -> NDArray[np.intp]:
        """Check queries as a user gives them."""
        return self._checked(Q, len(schema.columns))

    def check_columns(self, schema: Schema) -> None:
        """Accept all columns."""

    def bound(self, schema: Schema, X_public: Rows) -> Self:
        """Return the class as it works on rows encoded by a schema."""
        other = copy.copy(self)
        other._schema = schema
        other._n_listed = len(other.everything(X_public))
        return other

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows: not more than are listed."""
        return min(1 << m, getattr(self, "_n_listed", 1 << m) + 1)

    def _all(self, X: Rows) -> Answers:
        found, error = attempt(self._answers, X)
        listed = getattr(self, "_n_listed", None)
        if error is None and found.dtype == bool and found.shape[:1] == (len(X),):
            answers: Answers = found.T
            if found.ndim == 2 and listed in (None, len(answers)):
                return answers
        if listed is not None:  # it has met the public rows, and these may be private
            raise ValueError(
                "The function of CustomQueries must return booleans for all possible rows, one row "
                "per row of X and as many columns as for public rows; what it does with these is "
                "withheld."
            )
        if error is not None:
            raise ValueError(f"The function of CustomQueries raised {type(error).__name__}.")
        raise ValueError(
            "The function of CustomQueries must return booleans, one row per row of X; got "
            f"{found.dtype} of shape {found.shape}."
        )

    def _answers(self, X: Rows) -> Answers:
        rows = self._schema.decode(X) if hasattr(self, "_schema") else X
        answers = np.asarray(self.function(rows))
        return answers[:, None] if answers.ndim == 1 else answers

    def _checked(self, Q: Any, n_features: int) -> NDArray[np.intp]:
        places = self._numbers(Q, (1,), "positions in the list")
        if not (places == np.floor(places)).all():
            raise ValueError("Queries of CustomQueries must be whole numbers.")
        return places.astype(np.intp)
