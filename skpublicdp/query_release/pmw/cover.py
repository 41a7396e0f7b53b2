"""Query covers: queries that represent a class, and the cells on which they are constant.

A cover is built from public rows alone (Bassily et al. 2020, Algorithm 3, steps 1 to 4). The
theorem asks for two things: each query of the class agrees with a member of the cover on all but a
few rows, and no member tells rows of one cell apart.
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
from skpublicdp.guarantees import cover_radius
from skpublicdp.guarantees.growth import population_share_bound
from skpublicdp.typing import Codes, Floats, Integers

RowPredicate = Callable[[NDArray[Any], Floats], NDArray[np.bool_]]

MAX_INCIDENCE_ENTRIES = 1 << 26
"""Maximum number of entries of the incidence matrix of queries and cells."""

MAX_CANDIDATE_ROWS = 1 << 12
"""The most public rows whose cells are listed where not all are: rows look for the nearest."""

MAX_COVER_QUERIES = 1 << 18
"""Maximum number of queries in an explicit cover."""

ANSWER_BLOCK = 1 << 24
"""Maximum number of query-row answers in memory at a time."""


class QueryCover(ABC):
    """A cover and its cells.

    Attributes
    ----------
    n_queries : int
        Size of the cover.
    sizes : ndarray of int
        Number of cells in each block. A row is in one cell of each, and blocks are independent.
    irreducible_error : float
        What the radius would be with endless public rows: above 0 where cells are the limit.
    """

    n_queries: int
    sizes: Codes
    irreducible_error: float

    @abstractmethod
    def cell_of(self, X: Floats) -> Codes:
        """Return where each row is counted, shape (n, n_blocks), each row on its own."""

    @abstractmethod
    def answers(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Add up counts or weights over the cells where each query holds."""

    @abstractmethod
    def incidence_row(self, query: int) -> Floats:
        """Return where a query holds, as 0 and 1."""

    @abstractmethod
    def table(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return rows with weights that stand for weighted cells."""

    @abstractmethod
    def radius(self, m: int, d: int, beta: float) -> float:
        """Bound how much a query's answer differs from that of its member of the cover.

        Parameters
        ----------
        m : int
            Public rows.
        d : int
            VC dimension of the class.
        beta : float
            Probability with which it may fail, over the draw of the public rows.
        """

    @property
    def index(self) -> Any:
        """What finds the members of the cover that stand for queries; None if all are members."""
        return self

    @property
    def size(self) -> int:
        """Length of an array of cells."""
        return int(self.sizes.sum())

    @property
    def starts(self) -> Codes:
        """Where blocks start in an array of cells."""
        starts: Codes = np.cumsum(self.sizes) - self.sizes
        return starts

    @property
    def log_cells(self) -> float:
        """The logarithm of how many cells all blocks make together."""
        return float(np.log(self.sizes).sum())

    def count(self, X: Floats) -> Integers:
        """Count the rows in each cell: additive, and one row moves one count of each block."""
        return np.bincount(self.cell_of(X).ravel(), minlength=self.size).astype(np.int64)

    def normalised(self, logs: Floats) -> Floats:
        """Return weights in proportion to exp(logs), of sum 1 in each block."""
        tops = np.maximum.reduceat(logs, self.starts)
        weights: Floats = np.exp(logs - np.repeat(tops, self.sizes))
        weights /= np.repeat(np.add.reduceat(weights, self.starts), self.sizes)
        return weights


@dataclass(frozen=True, eq=False)
class CoverIndex:
    """Queries of a cover, and the points that tell them apart."""

    holds: RowPredicate
    cover: NDArray[Any]
    points: Floats

    def find(self, Q: NDArray[Any]) -> Codes:
        """Return the members that agree with queries on the points."""
        return _find(self.holds(self.cover, self.points).T, self.holds(Q, self.points).T)


class ExplicitCover(QueryCover):
    """Cells and queries that are listed one by one.

    Parameters
    ----------
    holds : callable
        Tells which queries hold for which rows.
    cover : ndarray
        Queries.
    candidates : ndarray of shape (n_rows, n_features)
        Rows in the cells that are to be listed. A row of another cell is moved to the one whose
        queries differ least.
    fresh : ndarray of shape (m, n_features), optional
        Public rows that neither the cover nor the candidates come from: they tell how many rows are
        moved. If None, none are: all cells are listed.
    points : ndarray of shape (n_points, n_features), optional
        Queries of the class agree on these with a member of the cover. If None, the cover is the
        class.
    missed : float, optional
        Share of the public rows on which they may then differ.
    """

    def __init__(
        self,
        holds: RowPredicate,
        cover: NDArray[Any],
        candidates: Floats,
        fresh: Floats | None = None,
        points: Floats | None = None,
        missed: float = 0.0,
    ) -> None:
        check_cover_size(len(cover))
        self._holds, self._cover, self._points, self._cover_error = holds, cover, points, missed
        candidates = candidates[: MAX_INCIDENCE_ENTRIES // len(cover)]
        answers = holds(cover, candidates)
        first_of: dict[bytes, int] = {}
        for place, key in enumerate(_packed(answers)):
            first_of.setdefault(key, place)
        first = np.array([*first_of.values()], dtype=np.intp)
        self.cells, self.incidence = candidates[first], answers[:, first]
        self._fresh, self._reassigned_share = (None if fresh is None else len(fresh)), 0.0
        if fresh is not None and len(fresh):
            differs = holds(cover, fresh) != self.incidence[:, self.cell_of(fresh)[:, 0]]
            self._reassigned_share = float(differs.mean(axis=1).max())
        self.n_queries, self.sizes = len(cover), np.array([len(self.cells)])
        self.irreducible_error = missed + self._reassigned_share

    def cell_of(self, X: Floats) -> Codes:
        """Return the cell of each row, or the nearest one that is listed."""
        step = max(1, ANSWER_BLOCK // len(self._cover))
        blocks = (self._holds(self._cover, X[at : at + step]) for at in range(0, len(X), step))
        return np.concatenate([_find(self.incidence, holds) for holds in blocks])[:, None]

    def answers(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Add up counts or weights over the cells of each query."""
        if cells.dtype.kind == "f":
            return np.asarray(self._dense @ cells.astype(np.float32), dtype=np.float64)
        return np.array([cells[inside].sum() for inside in self.incidence])

    def incidence_row(self, query: int) -> Floats:
        """Return the cells of a query."""
        return np.asarray(self.incidence[query], dtype=np.float64)

    def table(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the row of each cell."""
        return self.cells, weights

    def radius(self, m: int, d: int, beta: float) -> float:
        """Add what the cover misses to what is moved."""
        total = 0.0
        if self._points is not None:
            total += cover_radius(m, d, beta / 2, self._cover_error)
        if self._fresh is not None:
            total += population_share_bound(
                self._reassigned_share, self._fresh, beta / 2 / self.n_queries
            )
        return min(total, 1.0)

    @property
    def index(self) -> CoverIndex | None:
        """The cover without its cells."""
        points = self._points
        return None if points is None else CoverIndex(self._holds, self._cover, points)

    @cached_property
    def _dense(self) -> NDArray[np.float32]:
        return self.incidence.astype(np.float32)


def split_sample_cover(holds: RowPredicate, cover: NDArray[Any], X_public: Floats) -> ExplicitCover:
    """List cells of one half of the public rows; the other half tells what that misses."""
    listed, fresh = np.array_split(X_public, 2)
    return ExplicitCover(holds, cover, listed[:MAX_CANDIDATE_ROWS], fresh)


def check_cover_size(n_queries: int) -> None:
    """Raise CoverSizeError if a cover has too many queries."""
    if n_queries > MAX_COVER_QUERIES:
        raise CoverSizeError(
            f"{n_queries} queries are more than the {MAX_COVER_QUERIES} that can be listed: cells, "
            'not rows, are the limit; use fewer columns or bins, or method="auto".'
        )


def _find(known: NDArray[np.bool_], wanted: NDArray[np.bool_]) -> Codes:
    """Return for each wanted column the place of the equal known one, or else of the nearest."""
    places_of = {key: place for place, key in enumerate(_packed(known))}
    places = np.array([places_of.get(key, -1) for key in _packed(wanted)], dtype=np.intp)
    others = np.flatnonzero(places < 0)
    if len(others):
        signs = 1 - 2 * known.astype(np.float32)
        for start in range(0, len(others), 1 << 12):
            block = others[start : start + (1 << 12)]
            # how many bits differ, but for those of the known column itself
            differing = wanted[:, block].T.astype(np.float32) @ signs + known.sum(axis=0)
            places[block] = differing.argmin(axis=1)
    return places


def _packed(columns: NDArray[np.bool_]) -> list[bytes]:
    """Return each column as bytes."""
    return [bits.tobytes() for bits in np.packbits(columns.T, axis=1)]
