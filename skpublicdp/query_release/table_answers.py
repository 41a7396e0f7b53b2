"""Answers from released tables, and from rows that have these tables where rows are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from skpublicdp.data.columns import Codes, Rows
from skpublicdp.exceptions import UnmeasuredWarning, warn
from skpublicdp.query_release.bands import share_bounds
from skpublicdp.query_release.derived import Binned, Derived, Lined
from skpublicdp.query_release.line import NORMAL_95, LineRelease
from skpublicdp.query_release.listed import ANY, CustomQueries, MarginalQueries
from skpublicdp.query_release.marginal_rows import rake, rows_with_tables
from skpublicdp.query_release.marginals import MarginalRelease
from skpublicdp.query_release.queries import QueryClass
from skpublicdp.query_release.weighted import WeightedRows, spread_over

Floats = NDArray[np.float64]


class TableAnswers:
    """What is answered from tables over integer columns.

    Parameters
    ----------
    release : MarginalRelease
        The tables.
    derived : Derived
        How rows become codes.
    codes_public : ndarray of int, shape (m, n_columns)
        Public rows in codes, or those of a reference.
    X_public : ndarray of float64, shape (m, n_features)
        The same rows, encoded.
    """

    def __init__(
        self, release: MarginalRelease, derived: Derived, codes_public: Codes, X_public: Rows
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

    def together(self, queries: QueryClass, Q: NDArray[Any], level: float) -> Floats:
        """Return intervals that hold all at once (Bonferroni), whatever public rows say."""
        each = intervals(self.answer(queries, Q), self.deviations(queries, Q), level, 1)
        release = self.release
        for columns, asked, codes in self._by_table(queries, Q):
            if columns:
                measured = release.measured[columns]
                low, high = share_bounds(
                    measured.values[codes],
                    measured.variance,
                    release.persons,
                    (1 - level) / (2 * len(Q)),
                    gaussian=release.gaussian,
                )
                each[asked, 0] = np.minimum(low, each[asked, 0])
                each[asked, 1] = np.maximum(high, each[asked, 1])
        return each

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
    def lines(self) -> Mapping[int, LineRelease]:
        """The numeric columns that were released by themselves."""
        return self._derived.lines if isinstance(self._derived, Lined) else {}

    @cached_property
    def rows(self) -> WeightedRows:
        """Rows that have the released tables."""
        release, workload = self.release, self._derived.workload
        if not isinstance(self._derived, Binned):
            # what else a query may ask is unknown: public rows alone are known to be possible
            weights = np.full(len(self._X_public), 1 / len(self._X_public))
            weights = rake(self._codes_public, weights, release.fractions, workload, release.sizes)
            return WeightedRows(self._X_public, weights)
        codes, weights = rows_with_tables(
            release.fractions,
            workload,
            release.sizes,
            self._codes_public,
            release.effective_public_size,
        )
        others = self._derived.rows(codes)
        return spread_over(codes, weights, self._codes_public, self._X_public, others)

    def _by_table(self, queries: QueryClass, Q: NDArray[Any]) -> Any:
        """Yield the columns that queries are about, which of them, and their codes."""
        if isinstance(queries, CustomQueries):
            Q, rest = np.full((len(Q), len(self.release.sizes)), ANY), Q
            np.put_along_axis(Q, rest, 1, axis=1)
        patterns, which = np.unique(Q != ANY, axis=0, return_inverse=True)
        for place, pattern in enumerate(patterns):
            asked = np.flatnonzero(which.ravel() == place)
            columns = tuple(np.flatnonzero(pattern).tolist())
            yield columns, asked, tuple(Q[np.ix_(asked, np.flatnonzero(pattern))].T)


class ColumnAnswers(TableAnswers):
    """What is answered of each column by itself; see `TableAnswers`."""

    _derived: Lined

    def answer(self, queries: QueryClass, Q: NDArray[Any]) -> Floats:
        """Return the fraction of the population for which each stump holds."""
        return self._ask(Q, lambda line, x: line.cdf(x), self.release.fractions)

    def deviations(self, queries: QueryClass, Q: NDArray[Any]) -> Floats:
        """Return the standard deviation of each answer."""
        return self._ask(Q, lambda line, x: line.error(x) / NORMAL_95, self.release.deviations)

    def together(self, queries: QueryClass, Q: NDArray[Any], level: float) -> Floats:
        """Return normal intervals that hold all at once (Bonferroni)."""
        return intervals(self.answer(queries, Q), self.deviations(queries, Q), level, len(Q))

    def _ask(
        self,
        Q: NDArray[Any],
        of_line: Callable[[LineRelease, Floats], Floats],
        tables: Mapping[tuple[int, ...], Floats],
    ) -> Floats:
        """Ask the line or the table of the column of each stump (see `StumpQueries.holds`)."""
        found = np.empty(len(Q))
        for place in np.unique(Q[:, 0]).astype(np.intp):
            asked = np.flatnonzero(Q[:, 0] == place)
            if place < 0:
                found[asked] = tables[-1 - place,][Q[asked, 1].astype(np.intp)]
            else:
                found[asked] = of_line(self._derived.lines[place], Q[asked, 1])
        return found


def intervals(answers: Floats, deviations: Floats, level: float, together: int) -> Floats:
    """Return normal intervals, shape (n, 2), so wide that so many hold together (Bonferroni)."""
    half = norm.isf((1 - level) / (2 * together)) * deviations
    ends: Floats = np.clip(np.column_stack([answers - half, answers + half]), 0, 1)
    return ends
