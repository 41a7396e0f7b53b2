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
    """The queries that are about the same columns, and so are answered by one table.

    Attributes
    ----------
    columns : tuple of int
        Positions of the columns. The tuple is empty for queries that restrict no column, which hold
        for all rows.
    indices : ndarray of int, shape (n_table_queries,)
        Positions of these queries in the array of all queries.
    codes : tuple of ndarray of int, each of shape (n_table_queries,)
        For each column, the code that each query requires. It is an index into the table.
    """

    columns: tuple[int, ...]
    indices: NDArray[np.intp]
    codes: tuple[Integers, ...]


class TableAnswers:
    """Answers to queries from released tables over columns of integer codes.

    Parameters
    ----------
    release : MarginalRelease
        The released tables.
    discretizer : Discretizer
        Maps encoded rows to the codes that the tables count.
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
        """Return the estimated fraction of rows that satisfy each encoded query.

        A query about a cell has the fraction of this cell in its released table. All other queries
        are evaluated on the weighted rows `rows`.
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
        """Return the expected root mean square error over all cells of all tables of the workload.

        None for query classes that are answered by synthetic rows, whose error is unknown.
        """
        if not isinstance(queries, MarginalQueries | CustomQueries):
            return None
        deviations = [
            self.release.deviations[columns].ravel() for columns in self._discretizer.workload
        ]
        return float(np.sqrt(np.square(np.concatenate(deviations)).mean()))

    def intervals(
        self, queries: QueryClass, Q: NDArray[Any], level: float, simultaneous: bool
    ) -> Floats:
        """Return confidence intervals of the answers to encoded queries, shape (n_queries, 2).

        Simultaneous intervals hold together (Bonferroni). They contain the intervals from the noisy
        counts alone, so that they hold without assumptions about public rows.
        """
        if simultaneous:
            return self._simultaneous_intervals(queries, Q, level)
        return self._pointwise_intervals(queries, Q, level)

    def _pointwise_intervals(self, queries: QueryClass, Q: NDArray[Any], level: float) -> Floats:
        """Return intervals that each hold with probability `level`, shape (n_queries, 2)."""
        # raises an error for queries about tables that were not released
        deviations = self.deviations(queries, Q)
        if not isinstance(queries, MarginalQueries):
            return _normal_intervals(self.answer(queries, Q), deviations, level)
        ends = np.ones((len(Q), 2))  # the interval [1, 1] for queries that restrict no column
        for columns, indices, codes in self._by_table(queries, Q):
            if columns:
                ends[indices] = self.release.intervals(columns, codes, level)
        return ends

    def _simultaneous_intervals(self, queries: QueryClass, Q: NDArray[Any], level: float) -> Floats:
        """Return intervals that hold together with probability `level`, shape (n_queries, 2)."""
        ends = self._pointwise_intervals(queries, Q, level)
        failure = (1 - level) / (2 * max(len(Q), 1))  # Bonferroni, over both ends of all intervals
        for columns, indices, codes in self._by_table(queries, Q):
            if columns:
                ends[indices] = self._with_noise_bounds(ends[indices], columns, codes, failure)
        return ends

    def _with_noise_bounds(
        self, ends: Floats, columns: tuple[int, ...], codes: tuple[Integers, ...], failure: float
    ) -> Floats:
        """Return intervals of cells, widened to contain the intervals from the noisy counts alone.

        Each end of the interval from the noisy counts fails with probability `failure`.
        """
        noisy_low, noisy_high = self.release.noisy(columns, codes).bounds(failure)
        low, high = ends.T
        return np.column_stack([np.minimum(noisy_low, low), np.maximum(noisy_high, high)])

    def deviations(self, queries: QueryClass, Q: NDArray[Any]) -> Floats:
        """Return the expected root mean square error of the answer to each encoded query."""
        if not isinstance(queries, MarginalQueries | CustomQueries):
            raise ValueError(
                f"There are no intervals for {type(queries).__name__}: its answers come from "
                "synthetic rows, and their error beyond the released tables is unknown."
            )
        deviations = np.zeros(len(Q))  # 0 for queries that restrict no column
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
        """The released CDFs of numeric columns, by position. Empty if only tables were released."""
        return self._discretizer.cdfs if isinstance(self._discretizer, ReleasedBins) else {}

    @cached_property
    def rows(self) -> WeightedRows:
        """Rows whose weights reproduce the released tables, for queries that no table answers.

        They are synthetic and public rows, or public rows alone for `CustomQueries`.
        """
        release, workload = self.release, self._discretizer.workload
        if not isinstance(self._discretizer, PublicBins):
            # no synthetic rows, since the answers to custom queries do not determine a row
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
        """Yield encoded queries in groups that restrict the same columns."""
        cells = Q
        if isinstance(queries, CustomQueries):  # query j is the cell with code 1 of column j
            cells = np.full((len(Q), len(self.release.sizes)), WILDCARD)
            np.put_along_axis(cells, Q, 1, axis=1)
        is_restricted = cells != WILDCARD  # (n_queries, n_columns)
        patterns, pattern_of_query = np.unique(is_restricted, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            indices = np.flatnonzero(pattern_of_query.ravel() == number)
            columns = np.flatnonzero(pattern)
            codes = tuple(cells[np.ix_(indices, columns)].T)
            yield TableQueries(tuple(columns.tolist()), indices, codes)


class ColumnAnswers(TableAnswers):
    """Answers to stumps: from the CDF of a numeric column, or the table of a categorical one.

    The first entry of an encoded stump is the position of a numeric column, or -1 - position for a
    categorical one (see `StumpQueries`). The parameters are those of `TableAnswers`.
    """

    _discretizer: ReleasedBins

    def answer(self, queries: QueryClass, Q: NDArray[Any]) -> Floats:
        """Return the estimated fraction of rows for which each encoded stump holds."""
        answers = np.empty(len(Q))
        for column, indices in _stumps_by_column(Q):
            if column < 0:  # categorical
                fractions = self.release.fractions[-1 - column,]
                answers[indices] = fractions[Q[indices, 1].astype(np.intp)]
            else:
                answers[indices] = self._discretizer.cdfs[column].cdf(Q[indices, 1])
        return answers

    def intervals(
        self, queries: QueryClass, Q: NDArray[Any], level: float, simultaneous: bool
    ) -> Floats:
        """Return confidence intervals of the answers to encoded stumps, shape (n_queries, 2)."""
        n_simultaneous = max(len(Q), 1) if simultaneous else 1
        single_level = 1 - (1 - level) / n_simultaneous  # Bonferroni
        failure = (1 - single_level) / 2  # of each end
        ends = np.empty((len(Q), 2))
        for column, indices in _stumps_by_column(Q):
            if column < 0:  # categorical
                columns, codes = (-1 - column,), (Q[indices, 1].astype(np.intp),)
                ends[indices] = self.release.intervals(columns, codes, level)
                if n_simultaneous > 1:
                    ends[indices] = self._with_noise_bounds(ends[indices], columns, codes, failure)
            else:
                above, thresholds = np.full(len(indices), -np.inf), Q[indices, 1]
                cdf = self._discretizer.cdfs[column]
                ends[indices] = cdf.fraction_intervals(above, thresholds, single_level)
        return ends


def _stumps_by_column(Q: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each encoded column in the first column of Q, and the indices of its stumps in Q."""
    for column in np.unique(Q[:, 0]).astype(int).tolist():
        yield column, np.flatnonzero(Q[:, 0] == column)


def _normal_intervals(answers: Floats, deviations: Floats, level: float) -> Floats:
    """Return normal confidence intervals of fractions, clipped to [0, 1], shape (n_queries, 2)."""
    half_width = norm.isf((1 - level) / 2) * deviations
    ends: Floats = np.clip(np.column_stack([answers - half_width, answers + half_width]), 0, 1)
    return ends
