"""Answers from released tables, and from synthetic rows for queries that no table answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from skpublicdp.exceptions import UnmeasuredWarning, warn
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.discretize import Discretizer, PublicBins, ReleasedBins
from skpublicdp.query_release.marginals.release import MarginalRelease
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.query_release.queries.custom import CustomQueries
from skpublicdp.query_release.queries.marginal import WILDCARD, MarginalQueries
from skpublicdp.query_release.synthetic import rake_weights, synthesize
from skpublicdp.query_release.weighted_rows import WeightedRows, spread_weights
from skpublicdp.typing import Floats, Integers


class TableQueries(NamedTuple):
    """The queries about cells of one table.

    Attributes
    ----------
    columns : tuple of int
        The columns of the table. A query about no column holds for all rows.
    indices : ndarray of int, shape (n_table_queries,)
        Positions of these queries among all.
    codes : tuple of ndarray of int
        For each column, the code in each query: an index into the table.
    """

    columns: tuple[int, ...]
    indices: NDArray[np.intp]
    codes: tuple[Integers, ...]


class TableAnswers:
    """Answers from released tables over integer columns.

    Parameters
    ----------
    release : MarginalRelease
        The tables.
    discretizer : Discretizer
        Maps encoded rows to codes.
    codes_public : ndarray of int, shape (m, n_columns)
        Codes of the public rows, or of a reference sample if there are none.
    X_public : ndarray of float64, shape (m, n_features)
        The same rows, encoded.
    """

    def __init__(
        self,
        release: MarginalRelease,
        discretizer: Discretizer,
        codes_public: Integers,
        X_public: Floats,
    ) -> None:
        self.release, self._discretizer = release, discretizer
        self._codes_public, self._X_public = codes_public, X_public

    def answer(self, queries: QueryClass, Q: NDArray[Any]) -> Floats:
        """Return the released fraction of each encoded query.

        Queries about cells are looked up in their table. All others are evaluated on `rows`.
        """
        if not isinstance(queries, MarginalQueries | CustomQueries):
            return self.rows.answer(queries, Q)
        answers = np.empty(len(Q))
        for columns, indices, codes in self._by_table(queries, Q):
            if columns in self.release.fractions:
                answers[indices] = self.release.fractions[columns][codes]
            elif not columns:  # a query that restricts no column
                answers[indices] = 1.0
            else:
                warn(
                    "A query is about columns that no released table has together, and is answered "
                    "by an estimate from other tables. Add this table to the workload to measure "
                    "it.",
                    UnmeasuredWarning,
                )
                answers[indices] = self.rows.answer(queries, Q[indices])
        return answers

    def expected_error(self, queries: QueryClass) -> float | None:
        """Return the expected root mean square error over all cells of the workload."""
        if not isinstance(queries, MarginalQueries | CustomQueries):
            return None
        deviations = [
            self.release.deviations[columns].ravel() for columns in self._discretizer.workload
        ]
        return float(np.sqrt(np.square(np.concatenate(deviations)).mean()))

    def intervals(
        self, queries: QueryClass, Q: NDArray[Any], level: float, simultaneous: bool
    ) -> Floats:
        """Return confidence intervals of encoded queries, shape (n_queries, 2).

        Simultaneous intervals hold together (Bonferroni). They contain the intervals of the noisy
        answers alone, so that nothing is assumed about public rows.
        """
        if simultaneous:
            return self._simultaneous_intervals(queries, Q, level)
        return self._pointwise_intervals(queries, Q, level)

    def _pointwise_intervals(self, queries: QueryClass, Q: NDArray[Any], level: float) -> Floats:
        """Return intervals that each hold with probability `level`, shape (n_queries, 2)."""
        # this also refuses queries about tables that were not released
        deviations = self.deviations(queries, Q)
        if not isinstance(queries, MarginalQueries):
            return _normal_intervals(self.answer(queries, Q), deviations, level)
        ends = np.ones((len(Q), 2))  # a query about no column holds for all rows
        for columns, indices, codes in self._by_table(queries, Q):
            if columns:
                ends[indices] = self.release.intervals(columns, codes, level)
        return ends

    def _simultaneous_intervals(self, queries: QueryClass, Q: NDArray[Any], level: float) -> Floats:
        """Return intervals that hold together with probability `level` (Bonferroni)."""
        ends = self._pointwise_intervals(queries, Q, level)
        failure = (1 - level) / (2 * max(len(Q), 1))
        for columns, indices, codes in self._by_table(queries, Q):
            if columns:
                ends[indices] = self._with_noise_bounds(ends[indices], columns, codes, failure)
        return ends

    def _with_noise_bounds(
        self, ends: Floats, columns: tuple[int, ...], codes: tuple[Integers, ...], failure: float
    ) -> Floats:
        """Widen intervals of cells to the bounds of the noisy answers alone.

        Each of the two bounds fails with probability `failure`.
        """
        low, high = self.release.noisy(columns, codes).bounds(failure)
        return np.column_stack([np.minimum(low, ends[:, 0]), np.maximum(high, ends[:, 1])])

    def deviations(self, queries: QueryClass, Q: NDArray[Any]) -> Floats:
        """Return the expected root mean square error of the answer to each encoded query."""
        if not isinstance(queries, MarginalQueries | CustomQueries):
            raise ValueError(
                f"There are no intervals for {type(queries).__name__}: its answers come from "
                "synthetic rows, and their error beyond the released tables is unknown."
            )
        deviations = np.zeros(len(Q))
        for columns, indices, codes in self._by_table(queries, Q):
            if columns and columns not in self.release.deviations:
                names = [queries._schema.names[column] for column in columns]
                raise ValueError(
                    "Only tables of the workload and their margins are released, which do not "
                    f"include the table of {' and '.join(names)}. Add it to the workload."
                )
            if columns:
                deviations[indices] = self.release.deviations[columns][codes]
        return deviations

    @property
    def cdfs(self) -> Mapping[int, ReleasedCDF]:
        """The released CDFs of numeric columns, by position."""
        return self._discretizer.cdfs if isinstance(self._discretizer, ReleasedBins) else {}

    @cached_property
    def rows(self) -> WeightedRows:
        """Weighted rows that have the released tables.

        They are synthetic and public rows, or public rows alone for lists of queries.
        """
        release, workload = self.release, self._discretizer.workload
        if not isinstance(self._discretizer, PublicBins):
            # codes of queries determine no row, so that only public rows are known to be possible
            weights = np.full(len(self._X_public), 1 / len(self._X_public))
            weights = rake_weights(
                self._codes_public, weights, release.fractions, workload, release.sizes
            )
            return WeightedRows(self._X_public, weights)
        codes, weights = synthesize(
            release.fractions,
            workload,
            release.sizes,
            self._codes_public,
            release.effective_public_size,
        )
        representatives = self._discretizer.rows(codes)
        return spread_weights(codes, weights, self._codes_public, self._X_public, representatives)

    def _by_table(self, queries: QueryClass, Q: NDArray[Any]) -> Iterator[TableQueries]:
        """Group encoded queries by the table that they are about."""
        if isinstance(queries, CustomQueries):  # query j is the cell with code 1 of column j
            positions, Q = Q, np.full((len(Q), len(self.release.sizes)), WILDCARD)
            np.put_along_axis(Q, positions, 1, axis=1)
        patterns, pattern_of_query = np.unique(Q != WILDCARD, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            indices = np.flatnonzero(pattern_of_query.ravel() == number)
            columns = np.flatnonzero(pattern)
            codes = tuple(Q[np.ix_(indices, columns)].T)
            yield TableQueries(tuple(columns.tolist()), indices, codes)


class ColumnAnswers(TableAnswers):
    """Answers to stumps: from the CDF of a numeric column, or the table of a categorical one.

    See `TableAnswers` for the parameters.
    """

    _discretizer: ReleasedBins

    def answer(self, queries: QueryClass, Q: NDArray[Any]) -> Floats:
        """Return the released fraction of rows for which each stump holds."""
        answers = np.empty(len(Q))
        for column, indices in _stumps_by_column(Q):
            if column < 0:  # the column -1 - column is categorical, see `StumpQueries.holds`
                fractions = self.release.fractions[-1 - column,]
                answers[indices] = fractions[Q[indices, 1].astype(np.intp)]
            else:
                answers[indices] = self._discretizer.cdfs[column].cdf(Q[indices, 1])
        return answers

    def intervals(
        self, queries: QueryClass, Q: NDArray[Any], level: float, simultaneous: bool
    ) -> Floats:
        """Return confidence intervals of stumps, shape (n_queries, 2)."""
        n_simultaneous = max(len(Q), 1) if simultaneous else 1
        single_level = 1 - (1 - level) / n_simultaneous  # Bonferroni
        failure = (1 - single_level) / 2
        ends = np.empty((len(Q), 2))
        for column, indices in _stumps_by_column(Q):
            if column < 0:
                columns, codes = (-1 - column,), (Q[indices, 1].astype(np.intp),)
                ends[indices] = self.release.intervals(columns, codes, level)
                if n_simultaneous > 1:
                    ends[indices] = self._with_noise_bounds(ends[indices], columns, codes, failure)
            else:
                cdf, above = self._discretizer.cdfs[column], np.full(len(indices), -np.inf)
                ends[indices] = cdf.fraction_intervals(above, Q[indices, 1], single_level)
        return ends


def _stumps_by_column(Q: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each encoded column that stumps are about, and the positions of its stumps."""
    for column in np.unique(Q[:, 0]).astype(int).tolist():
        yield column, np.flatnonzero(Q[:, 0] == column)


def _normal_intervals(answers: Floats, deviations: Floats, level: float) -> Floats:
    """Return normal confidence intervals within [0, 1], shape (n, 2)."""
    half_width = norm.isf((1 - level) / 2) * deviations
    ends: Floats = np.clip(np.column_stack([answers - half_width, answers + half_width]), 0, 1)
    return ends
