"""Queries about cells of a table, and queries of one's own."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import combinations
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp.data.binning import cut_columns
from skpublicdp.data.schema import Schema
from skpublicdp.query_release.pmw.cover import (
    MAX_INCIDENCE_ENTRIES,
    ExplicitCover,
    check_cover_size,
    split_sample_cover,
)
from skpublicdp.query_release.queries.base import Answers, QueryClass
from skpublicdp.query_release.queries.cell_queries import describe_cells, read_cells
from skpublicdp.typing import Floats

MAX_LISTED_CELLS = 1 << 14
"""The most cells of all columns together that are listed, whether public rows are there or not."""

WILDCARD = -1
"""The code of "any value" in a query about cells."""


class MarginalQueries(QueryClass):
    """Cells of tables: is the row in this cell of a table over some of the columns.

    Queries are dicts of column to value, one or a list of them; or a data frame with some of the
    columns, or an array with all of them, in which None stands for any value (in a data frame,
    whatever is missing). Categories must be equal. Numbers must be in the same bin. ``"(other)"``
    stands for the categories that no public row has, and ``"(missing)"`` for a missing value.

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

    See Also
    --------
    RectangleQueries : Boxes of numeric columns.
    skpublicdp.plotting.MarginalDisplay : Picture of a released table.

    Examples
    --------
    >>> import numpy as np
    >>> codes = np.array([[0, 1], [0, 2], [1, 1]])
    >>> MarginalQueries().holds([[0, -1], [1, 1]], codes)
    array([[ True,  True, False],
           [False, False,  True]])
    """

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
            asked = np.flatnonzero(Q[:, column] != WILDCARD)
            inside[asked] &= X[:, column] == Q[asked, column : column + 1]
        return inside

    def weigh(self, Q: NDArray[Any], X: NDArray[Any], weights: Floats) -> Floats:
        """Add up the weights of the rows in each cell."""
        codes = self._codes(X)
        totals = np.zeros(len(Q))
        patterns, which = np.unique(Q != WILDCARD, axis=0, return_inverse=True)
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

    def arrange(self, X_public: Floats) -> ExplicitCover:
        """List the cells of the tables, and of all columns together if these are not too many."""
        sizes = self._bins.sizes
        listed = self.listed
        if math.prod(sizes) <= min(MAX_LISTED_CELLS, MAX_INCIDENCE_ENTRIES // len(listed)):
            codes = np.indices(sizes).reshape(len(sizes), -1).T
            rows = self._bins.representatives(codes, X_public, self._schema)
            return ExplicitCover(self.holds, listed, rows)
        return split_sample_cover(self.holds, listed, X_public)

    def dual(self, n_features: int) -> int:
        """Return 2 p for p columns: cells are boxes (see `RectangleQueries`)."""
        return 2 * n_features

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

    def bound(self, schema: Schema, X_public: Floats) -> Self:
        """Return the class as it works on rows encoded by a schema."""
        other = copy.copy(self)
        other._schema = schema
        other._bins = cut_columns(schema, X_public, int(self.bins))
        return other

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows: not more than there are cells."""
        if not hasattr(self, "_bins"):
            return super().growth(m, n_features)
        return min(1 << m, self._n_cells() + 1)

    def cells_of(self, positions: Sequence[int]) -> tuple[NDArray[np.int64], list[list[Any]]]:
        """Return the cells of a table in codes, and what they are called in each column."""
        codes = np.indices([self._bins.sizes[at] for at in positions]).reshape(len(positions), -1)
        cells = np.full((codes.shape[1], len(self._bins.sizes)), WILDCARD)
        cells[:, list(positions)] = codes.T
        called = []
        for position, column in zip(positions, codes, strict=True):
            names = describe_cells(self._schema.columns[position], self._bins.cuts[position])
            called.append([names[code] for code in column])
        return cells, called

    def cuts(self, position: int) -> Floats:
        """Return the cuts between the bins of a numeric column; of the bound class."""
        cuts: Floats | None = self._bins.cuts[position]
        assert cuts is not None
        return cuts

    @property
    def listed(self) -> NDArray[np.int64]:
        """All cells of all tables, as queries in codes; of the bound class."""
        check_cover_size(self._n_cells())
        parts = []
        for table in self.tables(self._schema):
            cells = np.indices([self._bins.sizes[column] for column in table])
            part = np.full((cells[0].size, len(self._bins.sizes)), WILDCARD)
            part[:, list(table)] = cells.reshape(len(table), -1).T
            parts.append(part)
        return np.concatenate(parts)

    def _n_cells(self) -> int:
        tables = self.tables(self._schema)
        return sum(math.prod(self._bins.sizes[column] for column in table) for table in tables)

    def resolve(self, Q: Any, schema: Schema) -> NDArray[np.int64]:
        """Check queries as a user gives them, and encode values; needs the bound class."""
        return read_cells(Q, schema, self._bins, WILDCARD)

    def _codes(self, X: NDArray[Any]) -> NDArray[np.int64]:
        if X.dtype.kind in "iu":
            return X
        codes: NDArray[np.int64] = self._bins.codes(X)
        return codes

    def _checked(self, Q: Any, n_features: int) -> NDArray[np.int64]:
        codes = np.asarray(Q)
        if codes.ndim != 2 or codes.shape[1] != n_features or codes.dtype.kind not in "iu":
            raise ValueError(
                f"Cells must be codes of shape (n_queries, {n_features}), with -1 for any; got "
                f"{codes.dtype} of shape {codes.shape}."
            )
        return codes
