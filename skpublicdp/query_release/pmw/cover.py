"""Query covers, which consist of representative queries and of cells on which they are constant.

A cover is built from public rows alone (Bassily et al. 2020, Algorithm 3, steps 1 to 4). The
theorem has two conditions. Each query of the class must agree with a member of the cover on all but
a few rows, and each member must have the same answer for all rows of a cell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees.growth import population_share_bound
from skpublicdp.query_release.marginals.count import MEMORY_BYTES
from skpublicdp.typing import Codes, Floats, Integers

RowPredicate = Callable[[NDArray[Any], Floats], NDArray[np.bool_]]

MAX_INCIDENCE_ENTRIES = MEMORY_BYTES // 4
"""Maximum number of entries in the incidence matrix of queries and cells, at 4 bytes each."""

MAX_CANDIDATE_ROWS = 1 << 12
"""Maximum number of public rows whose cells are listed by `split_sample_cover`."""

MAX_COVER_QUERIES = 1 << 18
"""Maximum number of queries in an explicit cover."""

ANSWER_BLOCK = MEMORY_BYTES // 16
"""Maximum number of query-row answers in memory, each of which takes a byte and sometimes two
floats."""

MATCH_BLOCK = 1 << 12
"""Number of columns that are matched at a time."""


class QueryCover(ABC):
    """Finite cover of a query class, together with cells of rows on which each member is constant.

    Each query of the class has a nearest member. Each member gives the same answer for all rows of
    a cell, so the cell counts determine the answers of all members.

    Cells may form several blocks, for instance one per column. Each row then belongs to one cell of
    each block, and the weights of the blocks are independent.
    """

    n_queries: int  # number of queries in the cover
    sizes: Codes  # number of cells in each block
    # radius of the cover in the limit of infinitely many public rows, which is positive if the
    # number of cells is limited
    irreducible_error: float

    @abstractmethod
    def assign_cells(self, X: Floats) -> Codes:
        """Return the cell of each row in each block, computed row by row, shape (n, n_blocks)."""

    @abstractmethod
    def answers(self, cells: NDArray[Any]) -> NDArray[Any]:
        """For each member, sum the counts or weights of the cells in which it holds."""

    @abstractmethod
    def incidence_row(self, query: int) -> Floats:
        """Indicate whether a given member holds in each cell, as 0.0 or 1.0, shape (size,)."""

    @abstractmethod
    def weighted_rows(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return synthetic rows (n_rows, n_features) and their weights (n_rows,).

        The parameter `weights` contains the released weights of the cells, shape (size,).
        """

    @abstractmethod
    def radius(self, m: int, d: int, beta: float) -> float:
        """Bound the difference between a query's answer and that of its nearest member."""

    @property
    def member_index(self) -> Any:
        """Search index for the member nearest to each query, or None if all queries are members."""
        return self

    @property
    def size(self) -> int:
        """Total number of cells in all blocks, which is the length of a count array."""
        return int(self.sizes.sum())

    @property
    def starts(self) -> Codes:
        """Index of the first cell of each block."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def log_cells(self) -> float:
        """Logarithm of the number of ways to choose one cell from each block."""
        return float(np.log(self.sizes).sum())

    def count(self, X: Floats) -> Integers:
        """Return the number of rows in each cell, shape (size,).

        When a row is replaced, one row moves from one cell to another in each block.
        """
        return np.bincount(self.assign_cells(X).ravel(), minlength=self.size).astype(np.int64)

    def normalize_blocks(self, log_weights: Floats) -> Floats:
        """Return weights proportional to exp(log_weights) that sum to 1 in each block."""
        block_max = np.maximum.reduceat(log_weights, self.starts)
        weights: Floats = np.exp(log_weights - np.repeat(block_max, self.sizes))
        weights /= np.repeat(np.add.reduceat(weights, self.starts), self.sizes)
        return weights


@dataclass(frozen=True, eq=False)
class CoverIndex:
    """Search index for the members of a cover, based on their answers on a few points."""

    # function that indicates which queries hold for which rows, shape (n_queries, n_rows)
    holds: RowPredicate
    cover: NDArray[Any]  # members of the cover
    points: Floats  # (n_points, n_features): points on which the members have distinct answers

    def find(self, Q: NDArray[Any]) -> Codes:
        """Return the index of the member that agrees with each query on most points."""
        return _match_columns(self.holds(self.cover, self.points).T, self.holds(Q, self.points).T)


class ExplicitCover(QueryCover):
    """Cover with explicit lists of queries and cells, and a matrix of the cells of each query.

    Parameters
    ----------
    holds : callable
        Function that indicates which queries hold for which rows, shape (n_queries, n_rows).
    cover : ndarray
        Queries of the cover.
    candidates : ndarray of shape (n_rows, n_features)
        Rows whose cells are listed. A row in an unlisted cell is assigned to the listed cell with
        the fewest differing answers.
    holdout : ndarray of shape (m, n_features), optional
        Public rows that are independent of the cover and of the candidates. These rows serve to
        estimate the fraction of rows assigned to other cells, and the bound `disagreement`. If
        None, all cells are listed.
    points : ndarray of shape (n_points, n_features), optional
        Points on which each query of the class agrees with some member of the cover. If None, the
        cover contains the entire class.
    disagreement : float, optional
        Bound on the fraction of held-out rows on which a query and its nearest member differ.
    """

    def __init__(
        self,
        holds: RowPredicate,
        cover: NDArray[Any],
        candidates: Floats,
        holdout: Floats | None = None,
        points: Floats | None = None,
        disagreement: float = 0.0,
    ) -> None:
        check_cover_size(len(cover))
        self._holds = holds
        self._cover = cover
        self._points = points
        self._disagreement = disagreement
        candidates = candidates[: MAX_INCIDENCE_ENTRIES // len(cover)]
        answers = holds(cover, candidates)  # (n_queries, n_candidates)
        # candidates on which all queries agree belong to one cell, represented by the first of them
        cell_of_key: dict[bytes, int] = {}
        keys = _packed_columns(answers)
        cells = [cell_of_key.setdefault(key, len(cell_of_key)) for key in keys]
        self._cell_of_candidate = np.array(cells, dtype=np.intp)
        _, first_rows = np.unique(self._cell_of_candidate, return_index=True)
        self.cells = candidates[first_rows]
        self.incidence = answers[:, first_rows]
        self.sizes = np.array([len(self.cells)])
        self.n_queries = len(cover)
        self._n_holdout = None if holdout is None else len(holdout)
        self._reassigned_share = 0.0
        if holdout is not None and len(holdout):
            assigned = self.assign_cells(holdout)[:, 0]
            is_different = holds(cover, holdout) != self.incidence[:, assigned]
            self._reassigned_share = float(is_different.mean(axis=1).max())
        self.irreducible_error = disagreement + self._reassigned_share

    def assign_cells(self, X: Floats) -> Codes:
        """Return each row's cell or, if it is not listed, the nearest listed cell, shape (n, 1)."""
        block_rows = max(1, ANSWER_BLOCK // len(self._cover))
        cells = [
            _match_columns(self.incidence, self._holds(self._cover, X[start : start + block_rows]))
            for start in range(0, len(X), block_rows)
        ]
        return np.concatenate(cells)[:, None]

    def answers(self, cells: NDArray[Any]) -> NDArray[Any]:
        """For each query, return the sum of the counts or weights of the query's cells.

        Sums of counts are exact, whereas sums of weights are computed in single precision.
        """
        if np.issubdtype(cells.dtype, np.floating):
            return np.asarray(self._float_incidence @ cells.astype(np.float32), dtype=np.float64)
        return np.array([cells[query_cells].sum() for query_cells in self.incidence])

    def incidence_row(self, query: int) -> Floats:
        """Indicate whether a given member holds in each cell, as 0.0 or 1.0."""
        return np.asarray(self.incidence[query], dtype=np.float64)

    def weighted_rows(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return one public row per cell, and the weights of these rows."""
        return self.cells, weights

    def radius(self, m: int, d: int, beta: float) -> float:
        """Bound the difference between a query's answer and that of its nearest member.

        The bound is the disagreement between queries and their members, plus the share of rows
        assigned to other cells. Half of the failure probability is allotted to each of the two
        terms.
        """
        total = 0.0
        if self._n_holdout is not None:
            # the rows are independent of the cover, so a union bound over its members applies
            shares = [self._reassigned_share]
            if self._points is not None:
                shares.append(self._disagreement)
            member_beta = beta / 2 / self.n_queries
            total = sum(population_share_bound(s, self._n_holdout, member_beta) for s in shares)
        return min(total, 1.0)

    @property
    def member_index(self) -> CoverIndex | None:
        """Search index of the members by their answers on the points."""
        if self._points is None:
            return None
        return CoverIndex(self._holds, self._cover, self._points)

    @cached_property
    def _float_incidence(self) -> NDArray[np.float32]:
        """Incidence matrix in single precision, for fast products with weights."""
        return self.incidence.astype(np.float32)


def split_sample_cover(holds: RowPredicate, cover: NDArray[Any], X_public: Floats) -> ExplicitCover:
    """Return a cover whose cells are listed from the first half of the public rows.

    The other half is used to estimate the fraction of rows in unlisted cells.
    """
    candidates, holdout = np.array_split(X_public, 2)
    return ExplicitCover(holds, cover, candidates[:MAX_CANDIDATE_ROWS], holdout)


def check_cover_size(n_queries: int) -> None:
    """Raise a CoverSizeError if a cover has too many queries."""
    if n_queries > MAX_COVER_QUERIES:
        raise CoverSizeError(
            f"The cover has {n_queries} queries, but at most {MAX_COVER_QUERIES} are allowed. This "
            "depends on the number of cells, not on the number of rows. Use fewer columns or bins, "
            'or method="auto".'
        )


def _match_columns(reference: NDArray[np.bool_], columns: NDArray[np.bool_]) -> Codes:
    """Return the index of the reference column nearest to each column of a bit matrix.

    Identical columns are found by hashing, and Hamming distances are computed only for the
    remaining columns.

    Parameters
    ----------
    reference : ndarray of bool, shape (n_bits, n_reference)
        The distinct columns to search.
    columns : ndarray of bool, shape (n_bits, n_columns)
        Columns to match.

    Returns
    -------
    ndarray of int, shape (n_columns,)
        Index of the reference column that differs in the fewest bits.
    """
    unknown = -1  # no reference column is equal
    index_of = {key: i for i, key in enumerate(_packed_columns(reference))}
    indices = [index_of.get(key, unknown) for key in _packed_columns(columns)]
    nearest = np.array(indices, dtype=np.intp)
    unmatched = np.flatnonzero(nearest == unknown)
    if len(unmatched):
        signs = 1 - 2 * reference.astype(np.float32)
        n_ones = reference.sum(axis=0)
        for start in range(0, len(unmatched), MATCH_BLOCK):
            block = unmatched[start : start + MATCH_BLOCK]
            bits = columns[:, block].T.astype(np.float32)  # (n_block, n_bits)
            # the number of bits in which a column and a reference column r differ is
            # sum(column * (1 - 2 r)) + sum(r)
            distance = bits @ signs + n_ones
            nearest[block] = distance.argmin(axis=1)
    return nearest


def _packed_columns(columns: NDArray[np.bool_]) -> list[bytes]:
    """Return each column of a bit matrix as bytes (eight bits per byte), for use as a hash key."""
    return [bits.tobytes() for bits in np.packbits(columns.T, axis=1)]
