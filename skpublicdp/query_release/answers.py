"""Answers from released tables, and from rows that have these tables where rows are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

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


class TableAnswers:
    """What is answered from tables over integer columns.

    Parameters
    ----------
    release : MarginalRelease
        The tables.
    derived : Discretizer
        How rows become codes.
    codes_public : ndarray of int, shape (m, n_columns)
        Public rows in codes, or those of a reference.
    X_public : ndarray of float64, shape (m, n_features)
        The same rows, encoded.
    """

    def __init__(
        self,
        release: MarginalRelease,
        derived: Discretizer,
        codes_public: Integers,
        X_public: Floats,
    ) -> None:
        self.release, self._derived = release, derived
        self._codes_public, self._X_public = codes_public, X_public

    def answer(self, queries: QueryClass, Q: NDArray[Any]) -> Floats:
        """Return the fraction of the population for which each query holds."""
        if not isinstance(queries, MarginalQueries | CustomQueries):
            return self.rows.answer(queries, Q)
        answers = np.empty(len(Q))
        for columns, asked, codes in self._by_table(queries, Q):
            if columns in self.release.fractions:
                answers[asked] = self.release.fractions[columns][codes]
            elif not columns:
                answers[asked] = 1.0
            else:
                warn(
                    "No released table has all columns of some query together, so that its answer "
                    "is what other tables make likely; add the table to the workload to measure "
                    "it.",
                    UnmeasuredWarning,
                )
                answers[asked] = self.rows.answer(queries, Q[asked])
        return answers

    def expected_error(self, queries: QueryClass) -> float | None:
        """Return the root mean square of the deviations of all cells of the workload."""
        if not isinstance(queries, MarginalQueries | CustomQueries):
            return None
        every = [self.release.deviations[columns].ravel() for columns in self._derived.workload]
        return float(np.sqrt(np.square(np.concatenate(every)).mean()))

    def pointwise_intervals(self, queries: QueryClass, Q: NDArray[Any], level: float) -> Floats:
        """Return intervals, shape (n, 2), each of which holds for itself."""
        deviations = self.deviations(queries, Q)  # refuses what was not released
        if not isinstance(queries, MarginalQueries):
            return _normal(self.answer(queries, Q), deviations, level)
        ends = np.ones((len(Q), 2))  # a query about no column holds for everybody
        for columns, asked, codes in self._by_table(queries, Q):
            if columns:
                ends[asked] = self.release.intervals(columns, codes, level)
        return ends

    def simultaneous_intervals(self, queries: QueryClass, Q: NDArray[Any], level: float) -> Floats:
        """Return intervals that hold all at once (Bonferroni), whatever public rows say."""
        ends, failure = (
            self.pointwise_intervals(queries, Q, level),
            (1 - level) / (2 * max(len(Q), 1)),
        )
        for columns, asked, codes in self._by_table(queries, Q):
            if columns:
                ends[asked] = self._widened(ends[asked], columns, codes, failure)
        return ends

    def _widened(
        self, ends: Floats, columns: tuple[int, ...], codes: Any, failure: float
    ) -> Floats:
        """Widen intervals to the bounds that the noisy answers alone give."""
        low, high = self.release.noisy(columns, codes).bounds(failure)
        return np.column_stack([np.minimum(low, ends[:, 0]), np.maximum(high, ends[:, 1])])

    def deviations(self, queries: QueryClass, Q: NDArray[Any]) -> Floats:
        """Return the standard deviation of each answer."""
        if not isinstance(queries, MarginalQueries | CustomQueries):
            raise ValueError(
                f"There are no intervals for {type(queries).__name__}: its answers come from rows "
                "that have the released tables, and what the tables leave open is not known."
            )
        found = np.zeros(len(Q))
        for columns, asked, codes in self._by_table(queries, Q):
            if columns and columns not in self.release.deviations:
                names = [queries._schema.names[column] for column in columns]
                raise ValueError(
                    "Only tables of the workload and their margins are released, and that of "
                    f"{' and '.join(names)} is not among them; add it to the workload."
                )
            if columns:
                found[asked] = self.release.deviations[columns][codes]
        return found

    @property
    def lines(self) -> Mapping[int, ReleasedCDF]:
        """The numeric columns that were released by themselves."""
        return self._derived.lines if isinstance(self._derived, ReleasedBins) else {}

    @cached_property
    def rows(self) -> WeightedRows:
        """Rows that have the released tables."""
        release, workload = self.release, self._derived.workload
        if not isinstance(self._derived, PublicBins):
            # what else a query may ask is unknown: public rows alone are known to be possible
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
        others = self._derived.rows(codes)
        return spread_weights(codes, weights, self._codes_public, self._X_public, others)

    def _by_table(self, queries: QueryClass, Q: NDArray[Any]) -> Any:
        """Yield the columns that queries are about, which of them, and their codes."""
        if isinstance(queries, CustomQueries):
            Q, rest = np.full((len(Q), len(self.release.sizes)), WILDCARD), Q
            np.put_along_axis(Q, rest, 1, axis=1)
        patterns, which = np.unique(Q != WILDCARD, axis=0, return_inverse=True)
        for place, pattern in enumerate(patterns):
            asked = np.flatnonzero(which.ravel() == place)
            columns = tuple(np.flatnonzero(pattern).tolist())
            yield columns, asked, tuple(Q[np.ix_(asked, np.flatnonzero(pattern))].T)


class ColumnAnswers(TableAnswers):
    """What is answered of each column by itself; see `TableAnswers`."""

    _derived: ReleasedBins

    def answer(self, queries: QueryClass, Q: NDArray[Any]) -> Floats:
        """Return the fraction of the population for which each stump holds."""
        answers = np.empty(len(Q))
        for place, asked in self._by_column(Q):
            if place < 0:
                answers[asked] = self.release.fractions[-1 - place,][Q[asked, 1].astype(np.intp)]
            else:
                answers[asked] = self._derived.lines[place].cdf(Q[asked, 1])
        return answers

    def pointwise_intervals(self, queries: QueryClass, Q: NDArray[Any], level: float) -> Floats:
        """Return intervals, shape (n, 2), each of which holds for itself."""
        return self._intervals(Q, level, 1)

    def simultaneous_intervals(self, queries: QueryClass, Q: NDArray[Any], level: float) -> Floats:
        """Return intervals that hold all at once (Bonferroni)."""
        return self._intervals(Q, level, max(len(Q), 1))

    def _intervals(self, Q: NDArray[Any], level: float, together: int) -> Floats:
        ends, single = np.empty((len(Q), 2)), 1 - (1 - level) / together
        for place, asked in self._by_column(Q):
            if place < 0:
                columns, codes = (-1 - place,), (Q[asked, 1].astype(np.intp),)
                ends[asked] = self.release.intervals(columns, codes, level)
                if together > 1:
                    ends[asked] = self._widened(ends[asked], columns, codes, (1 - single) / 2)
            else:
                above = np.full(len(asked), -np.inf)
                line = self._derived.lines[place]
                ends[asked] = line.fraction_intervals(above, Q[asked, 1], single)
        return ends

    def _by_column(self, Q: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """Yield the columns of stumps, see `StumpQueries.holds`, and which stumps these are."""
        for place in np.unique(Q[:, 0]).astype(int).tolist():
            yield place, np.flatnonzero(Q[:, 0] == place)


def _normal(answers: Floats, deviations: Floats, level: float) -> Floats:
    """Return normal intervals, shape (n, 2)."""
    half = norm.isf((1 - level) / 2) * deviations
    ends: Floats = np.clip(np.column_stack([answers - half, answers + half]), 0, 1)
    return ends
