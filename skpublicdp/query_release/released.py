"""What a fit releases, whichever way it was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.columns import Rows, Schema
from skpublicdp.data.door import Dataset
from skpublicdp.guarantees import Promise
from skpublicdp.population_guarantee import no_guarantee
from skpublicdp.query_release.cells import before
from skpublicdp.query_release.line import NORMAL_95, LineRelease
from skpublicdp.query_release.listed import MarginalQueries
from skpublicdp.query_release.probes import probes
from skpublicdp.query_release.queries import QueryClass
from skpublicdp.query_release.table_answers import TableAnswers, intervals
from skpublicdp.query_release.weighted import WeightedRows

BAND_LEVEL = 0.95
"""How often the bands of lines hold."""

UNPROVED = no_guarantee(
    'only of method="pmw" is the largest error of all answers known, and intervals tell of others'
)

Floats = NDArray[np.float64]
Table = WeightedRows | TableAnswers


@dataclass(frozen=True, eq=False)
class Released:
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
    table: Table
    effective_public_size: float
    thresholds: LineRelease | None = None
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
        together = max(len(resolved), 1) if simultaneous else 1
        if self.thresholds is not None:
            found = intervals(self._answer(resolved), self._half(resolved), level, together)
            if simultaneous and level <= BAND_LEVEL:  # one band holds however many are asked
                half = self._half(resolved, simultaneous=True)
                band = intervals(self._answer(resolved), half, BAND_LEVEL, 1)
                narrower = (np.diff(band) < np.diff(found)).all()
                return band if narrower else found
            return found
        if isinstance(self.table, TableAnswers):
            if simultaneous:
                return self.table.together(self.queries, resolved, level)
            deviations = self.table.deviations(self.queries, resolved)
            return intervals(self._answer(resolved), deviations, level, 1)
        raise ValueError(
            'There are no intervals for this method; method="auto" has them, and "pmw" has '
            "guarantee_."
        )

    def _half(self, resolved: Floats, **settings: bool) -> Floats:
        """Return the standard deviation that intervals of a line amount to."""
        assert self.thresholds is not None
        widths = self.thresholds.error(resolved[:, -1], **settings)
        if resolved.shape[1] == 2:
            widths = widths + self.thresholds.error(before(resolved[:, 0]), **settings)
        return widths / NORMAL_95

    @property
    def expected_error(self) -> float | None:
        """Root mean square of the deviations of all answers of the tables."""
        if not isinstance(self.table, TableAnswers):
            return None
        return self.table.expected_error(self.queries)

    def mean_error(self, X: Rows) -> float:
        """Return the mean error of the class's answers as to encoded rows."""
        queries = probes(self.queries, X)
        truth = self.queries.weigh(queries, X, np.full(len(X), 1 / len(X)))
        return float(np.abs(self._answer(queries) - truth).mean())

    def describe_table(self, positions: Sequence[int]) -> Any:
        """Return the cells of a table with their fractions, as a frame or a dict."""
        queries = self.queries
        if not isinstance(queries, MarginalQueries):
            raise ValueError("Tables are released with MarginalQueries.")
        if not positions or len(set(positions)) < len(positions):
            raise ValueError("columns must be one or more different columns.")
        Q, values = queries.cells_of(positions)
        deviations = None
        if isinstance(self.table, TableAnswers):
            deviations = self.table.deviations(queries, Q)  # refuses what was not released
        answers = self._answer(Q)
        found: dict[Any, Any] = {
            self.schema.names[at]: column for at, column in zip(positions, values, strict=True)
        }
        found["fraction"] = answers
        if deviations is not None:
            found["low"], found["high"] = intervals(answers, deviations, 0.95, 1).T
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
    def line(self) -> LineRelease | WeightedRows | None:
        """What answers ``cdf`` and ``quantile``, if there is one numeric column."""
        return self.column(0) if self.schema.numeric.tolist() == [True] else None

    def column(self, position: int) -> LineRelease | WeightedRows:
        """Return what answers ``cdf`` and ``quantile`` of a numeric column."""
        if self.thresholds is not None:
            return self.thresholds
        lines = self.table.lines if isinstance(self.table, TableAnswers) else {}
        if position in lines:
            return lines[position]
        return WeightedRows(self.rows.rows[:, [position]], self.rows.weights)

    def sample(self, n: int, generator: np.random.Generator) -> Rows:
        """Draw encoded rows."""
        if self.thresholds is not None:
            return self.thresholds.quantile(generator.random(n))[:, None]
        return self.rows.sample(n, generator)


def bind(queries: QueryClass, rows: Dataset) -> QueryClass:
    """Check the class against the columns, and return it as it works on encoded rows."""
    queries.check_columns(rows.schema)
    return queries.bound(rows.schema, rows.X_public)
