"""What a fit releases, whichever way it was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.fit_inputs import Dataset
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
    'only of method="pmw" is the largest error of all answers known, and intervals tell of others'
)

AnswerTable = WeightedRows | TableAnswers


@dataclass(frozen=True, eq=False)
class FittedRelease:
    """What one fit releases.

    Attributes
    ----------
    queries : QueryClass
        Bound to the schema.
    schema : Schema
        The columns.
    table : WeightedRows or TableAnswers
        What every query can be asked of.
    effective_public_size : float
        What the public rows were worth.
    thresholds : LineRelease or None
        Of thresholds and intervals: the distribution function.
    projection : callable or None
        Of PMW: answers queries by the members of the cover that they are projected on.
    promise : Promise
        Of PMW: a bound of the error.
    """

    queries: QueryClass
    schema: Schema
    table: AnswerTable
    effective_public_size: float
    thresholds: ReleasedCDF | None = None
    projection: Callable[[NDArray[Any]], Floats] | None = None
    promise: Promise = UNPROVED

    def answer(self, Q: Any) -> Floats:
        """Answer queries as a user gives them."""
        return self._answer(self.queries.resolve(Q, self.schema))

    def _answer(self, resolved: NDArray[Any]) -> Floats:
        if self.projection is not None:
            return self.projection(resolved)
        if self.thresholds is not None:
            if resolved.shape[1] == 1:
                return self.thresholds.cdf(resolved[:, 0])
            return self.thresholds.interval(resolved[:, 0], resolved[:, 1])
        return self.table.answer(self.queries, resolved)

    def interval(self, Q: Any, level: float, simultaneous: bool) -> Floats:
        """Return intervals for the population's fractions, where there are honest ones."""
        resolved = self.queries.resolve(Q, self.schema)
        if self.thresholds is not None:
            above = np.full(len(resolved), -np.inf)
            if resolved.shape[1] == 2:
                above = just_below(resolved[:, 0])
            return self.thresholds.fraction_intervals(
                above, resolved[:, -1], level, simultaneous=simultaneous
            )
        if isinstance(self.table, TableAnswers):
            intervals = (
                self.table.simultaneous_intervals
                if simultaneous
                else self.table.pointwise_intervals
            )
            return intervals(self.queries, resolved, level)
        raise ValueError(
            'There are no intervals for this method; method="auto" has them, and "pmw" has '
            "guarantee_."
        )

    @property
    def expected_error(self) -> float | None:
        """Root mean square of the deviations of all answers of the tables."""
        if not isinstance(self.table, TableAnswers):
            return None
        return self.table.expected_error(self.queries)

    def mean_error(self, X: Floats) -> float:
        """Return the mean error of the class's answers as to encoded rows."""
        queries = holdout_queries(self.queries, X)
        truth = self.queries.weigh(queries, X, np.full(len(X), 1 / len(X)))
        return float(np.abs(self._answer(queries) - truth).mean())

    def describe_table(self, positions: Sequence[int], level: float, simultaneous: bool) -> Any:
        """Return the cells of a table with fractions and intervals, as a frame or a dict."""
        queries = self.queries
        if not isinstance(queries, MarginalQueries):
            raise ValueError(
                "table needs a release of tables, queries=MarginalQueries(); of a single column "
                "there are histogram and cdf."
            )
        if not positions or len(set(positions)) < len(positions):
            raise ValueError("columns must be one or more different columns.")
        Q, values = queries.cells_of(positions)
        ends = None
        if isinstance(self.table, TableAnswers):
            intervals = (
                self.table.simultaneous_intervals
                if simultaneous
                else self.table.pointwise_intervals
            )
            ends = intervals(queries, Q, level)  # refuses what was not released
        answers = self._answer(Q)
        found: dict[Any, Any] = {
            self.schema.names[at]: column for at, column in zip(positions, values, strict=True)
        }
        found["fraction"] = answers
        if ends is not None:
            found["low"], found["high"] = ends.T
        if self.schema.container.library is None:
            return found
        return replace(self.schema.container, labels=tuple(found)).build(
            [np.asarray(column) for column in found.values()]
        )

    @property
    def rows(self) -> WeightedRows:
        """Rows and weights that every query can be asked of."""
        return self.table.rows if isinstance(self.table, TableAnswers) else self.table

    def one_way(self, position: int) -> Floats | None:
        """Return the released table of one column, if it was cut as its queries are."""
        if isinstance(self.table, TableAnswers) and isinstance(self.queries, MarginalQueries):
            return self.table.release.fractions.get((position,))
        return None

    @property
    def line(self) -> ReleasedCDF | BinnedColumn | WeightedRows | None:
        """What answers ``cdf`` and ``quantile``, if there is one numeric column."""
        return self.column(0) if self.schema.numeric.tolist() == [True] else None

    def column(self, position: int) -> ReleasedCDF | BinnedColumn | WeightedRows:
        """Return what answers ``cdf`` and ``quantile`` of a numeric column."""
        if self.thresholds is not None:
            return self.thresholds
        lines = self.table.lines if isinstance(self.table, TableAnswers) else {}
        if position in lines:
            return lines[position]
        carrier = WeightedRows(self.rows.rows[:, [position]], self.rows.weights)
        if self.one_way(position) is None:
            return carrier
        assert isinstance(self.table, TableAnswers)
        assert isinstance(self.queries, MarginalQueries)
        release, cuts = self.table.release, self.queries.cuts(position)
        column = self.schema.columns[position]
        return BinnedColumn(
            carrier,
            cuts,
            (column.low, column.high),
            release.posteriors[position,],
            release.noisy((position,), (np.arange(len(cuts) + 1),)),
        )

    def sample(self, n: int, generator: np.random.Generator) -> Floats:
        """Draw encoded rows."""
        if self.thresholds is not None:
            return self.thresholds.quantile(generator.random(n))[:, None]
        return self.rows.sample(n, generator)


def bind_queries(queries: QueryClass, rows: Dataset) -> QueryClass:
    """Check the class against the columns, and return it as it works on encoded rows."""
    queries.check_columns(rows.schema)
    return queries.bound(rows.schema, rows.X_public)
