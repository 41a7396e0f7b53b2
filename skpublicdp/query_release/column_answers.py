"""Answers to stumps, each of which restricts a single column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.query_release.answers import TableAnswers
from skpublicdp.query_release.discretize import Discretizer, ReleasedBins
from skpublicdp.query_release.marginals.release import MarginalRelease
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.typing import Floats, Integers


class ColumnAnswers(TableAnswers):
    """Answers to stumps from the CDF of a numeric column or the table of a categorical column.

    The first entry of an encoded stump is the position of a numeric column, or -1 - position of a
    categorical column (see `StumpQueries`). This class has the parameters of `TableAnswers`.
    """

    def __init__(
        self,
        queries: QueryClass,
        release: MarginalRelease,
        discretizer: Discretizer,
        codes_public: Integers,
        X_public: Floats,
    ) -> None:
        assert isinstance(discretizer, ReleasedBins)
        # synthetic rows need a table of every column
        fractions = {**release.fractions, **discretizer.column_marginals()}
        release = replace(release, fractions=fractions)
        super().__init__(queries, release, discretizer, codes_public, X_public)

    def answer(self, Q: NDArray[Any]) -> Floats:
        """Return the estimated fraction of rows for which each encoded stump holds."""
        answers = np.empty(len(Q))
        for column, indices in _stumps_by_column(Q):
            if column < 0:  # categorical
                fractions = self.release.fractions[-1 - column,]
                answers[indices] = fractions[Q[indices, 1].astype(np.intp)]
            else:
                answers[indices] = self._discretizer.cdfs[column].cdf(Q[indices, 1])
        return answers

    def intervals(self, Q: NDArray[Any], level: float, *, simultaneous: bool) -> Floats:
        """Return confidence intervals for the answers to encoded stumps, shape (n_queries, 2)."""
        n_simultaneous = max(len(Q), 1) if simultaneous else 1
        single_level = 1 - (1 - level) / n_simultaneous  # Bonferroni
        failure = (1 - single_level) / 2  # of each end
        ends = np.empty((len(Q), 2))
        for column, indices in _stumps_by_column(Q):
            if column < 0:  # categorical
                columns, codes = (-1 - column,), (Q[indices, 1].astype(np.intp),)
                ends[indices] = self._cell_intervals(columns, codes, level)
                if n_simultaneous > 1:
                    ends[indices] = self._with_noise_bounds(ends[indices], columns, codes, failure)
            else:
                above, thresholds = np.full(len(indices), -np.inf), Q[indices, 1]
                cdf = self._discretizer.cdfs[column]
                ends[indices] = cdf.fraction_intervals(above, thresholds, single_level)
        return ends


def _stumps_by_column(Q: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """For each distinct encoded column of Q, yield it and the indices of its stumps."""
    for column in np.unique(Q[:, 0]).astype(int).tolist():
        yield column, np.flatnonzero(Q[:, 0] == column)
