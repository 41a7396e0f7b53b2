"""The state of a fitted release: queries, schema, and the tables, rows or CDF that answer them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.dataset import Dataset
from skpublicdp.data.schema import Schema
from skpublicdp.guarantees import Promise
from skpublicdp.query_release.answers import TableAnswers
from skpublicdp.query_release.binned_columns import BinnedColumn
from skpublicdp.query_release.cdf.grid import just_below
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.holdout_queries import holdout_queries
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.query_release.queries.marginal import MarginalQueries
from skpublicdp.query_release.weighted_rows import WeightedRows
from skpublicdp.rules.population_guarantee import no_guarantee
from skpublicdp.typing import Floats

UNPROVED = no_guarantee(
    'only method="pmw" bounds the largest error of all answers; intervals bound single answers'
)

ColumnDistribution = ReleasedCDF | BinnedColumn | WeightedRows
"""Answers `cdf` and `quantile` of one numeric column. Only `WeightedRows` has no intervals."""


@dataclass(frozen=True, eq=False)
class FittedRelease:
    """The results of one fit, in the same form for all methods.

    Attributes
    ----------
    queries : QueryClass
        The query class, bound to the schema.
    schema : Schema
        The columns.
    table : WeightedRows or TableAnswers
        Weighted rows or released tables. They answer queries if `cdf` and `projection` are None.
    effective_public_size : float
        Effective public sample size, in private rows.
    cdf : ReleasedCDF or None
        The released CDF, for thresholds and intervals with ``method="auto"``.
    projection : callable or None
        Answers queries by the nearest members of the cover, with ``method="pmw"``.
    promise : Promise
        Error bound of ``method="pmw"``, or the reason why there is none.
    """

    queries: QueryClass
    schema: Schema
    table: WeightedRows | TableAnswers
    effective_public_size: float
    cdf: ReleasedCDF | None = None
    projection: Callable[[NDArray[Any]], Floats] | None = None
    promise: Promise = UNPROVED

    def answer(self, Q: Any) -> Floats:
        """Return the estimated fractions of rows that satisfy the user's queries."""
        return self._answer(self.queries.encode(Q, self.schema))

    def _answer(self, Q: NDArray[Any]) -> Floats:
        """Return the estimated fractions of rows that satisfy encoded queries."""
        if self.projection is not None:
            return self.projection(Q)
        if self.cdf is not None:
            if Q.shape[1] == 1:  # thresholds; otherwise intervals, with two ends
                return self.cdf.cdf(Q[:, 0])
            return self.cdf.interval(Q[:, 0], Q[:, 1])
        return self.table.answer(self.queries, Q)

    def interval(self, Q: Any, level: float, simultaneous: bool) -> Floats:
        """Return confidence intervals of the population fractions of the user's queries.

        The shape is (n_queries, 2).
        """
        encoded = self.queries.encode(Q, self.schema)
        if self.cdf is not None:
            if encoded.shape[1] == 1:  # thresholds
                above = np.full(len(encoded), -np.inf)
            else:  # closed intervals, which contain their lower end
                above = just_below(encoded[:, 0])
            up_to = encoded[:, -1]
            return self.cdf.fraction_intervals(above, up_to, level, simultaneous=simultaneous)
        if isinstance(self.table, TableAnswers):
            return self.table.intervals(self.queries, encoded, level, simultaneous)
        raise ValueError(
            'There are no intervals for this method. method="auto" has them, and method="pmw" has '
            "guarantee_."
        )

    @property
    def expected_error(self) -> float | None:
        """Expected root mean square error of the cells of the released tables, or None."""
        if not isinstance(self.table, TableAnswers):
            return None
        return self.table.expected_error(self.queries)

    def mean_error(self, X: Floats) -> float:
        """Return the mean absolute difference of answers and fractions of the encoded rows `X`.

        The average is over `holdout_queries`.
        """
        Q = holdout_queries(self.queries, X)
        fractions = self.queries.weighted_mean(Q, X, np.full(len(X), 1 / len(X)))
        return float(np.abs(self._answer(Q) - fractions).mean())

    def describe_table(self, positions: Sequence[int], level: float, simultaneous: bool) -> Any:
        """Return all cells of a marginal with fractions and intervals, as a frame or a dict.

        The columns at `positions` come first, then ``fraction``, ``low`` and ``high``. The last two
        are omitted if the method releases no tables.
        """
        queries = self.queries
        if not isinstance(queries, MarginalQueries):
            raise ValueError(
                "table needs a release of tables, queries=MarginalQueries(). For a single column "
                "use histogram or cdf."
            )
        if not positions or len(set(positions)) < len(positions):
            raise ValueError("columns must be one or more different columns.")
        Q, values = queries.table_cells(positions)
        ends = None
        if isinstance(self.table, TableAnswers):
            # before the answers, to raise an error instead of a warning for an unreleased table
            ends = self.table.intervals(queries, Q, level, simultaneous)
        table: dict[Any, Any] = {
            self.schema.names[position]: column
            for position, column in zip(positions, values, strict=True)
        }
        table["fraction"] = self._answer(Q)
        if ends is not None:
            table["low"], table["high"] = ends.T
        if self.schema.container.library is None:  # the fit was not on a frame
            return table
        return replace(self.schema.container, labels=tuple(table)).build(
            [np.asarray(column) for column in table.values()]
        )

    @property
    def rows(self) -> WeightedRows:
        """The released distribution as weighted rows, on which any query can be evaluated."""
        return self.table.rows if isinstance(self.table, TableAnswers) else self.table

    def column_marginal(self, position: int) -> Floats | None:
        """Return the released fractions of the bins of a column, or None without such a table."""
        if isinstance(self.table, TableAnswers) and isinstance(self.queries, MarginalQueries):
            return self.table.release.fractions.get((position,))
        return None

    @property
    def only_column(self) -> ColumnDistribution | None:
        """The released distribution of the column if there is only one and it is numeric."""
        return self.column(0) if self.schema.numeric.tolist() == [True] else None

    def column(self, position: int) -> ColumnDistribution:
        """Return the released distribution of a numeric column.

        It is a released CDF if there is one, else a released one-way table, else weighted rows.
        Earlier ones are more accurate.
        """
        if self.cdf is not None:
            return self.cdf
        cdfs = self.table.cdfs if isinstance(self.table, TableAnswers) else {}
        if position in cdfs:
            return cdfs[position]
        distribution = WeightedRows(self.rows.rows[:, [position]], self.rows.weights)
        if self.column_marginal(position) is None:
            return distribution
        assert isinstance(self.table, TableAnswers)
        assert isinstance(self.queries, MarginalQueries)
        release, cuts = self.table.release, self.queries.cuts(position)
        column, all_bins = self.schema.columns[position], np.arange(len(cuts) + 1)
        return BinnedColumn(
            distribution,
            cuts,
            bounds=(column.low, column.high),
            posterior=release.posteriors[position,],
            noisy=release.noisy((position,), (all_bins,)),
        )

    def sample(self, n: int, generator: np.random.Generator) -> Floats:
        """Draw n encoded rows from the released distribution, shape (n, n_features)."""
        if self.cdf is not None:  # inverse transform sampling
            return self.cdf.quantile(generator.random(n))[:, None]
        return self.rows.sample(n, generator)


def bind_queries(queries: QueryClass, rows: Dataset) -> QueryClass:
    """Return the query class bound to the schema, after checking that it supports the columns."""
    queries.check_columns(rows.schema)
    return queries.bind(rows.schema, rows.X_public)
