"""The ways to release: what is measured and what is fitted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from skpublicdp.accounting import Gaussian
from skpublicdp.exceptions import TooFewRowsWarning, warn
from skpublicdp.guarantees import cover_radius, n_query_release, vc_dimension
from skpublicdp.hypotheses.base import CHUNK_ROWS
from skpublicdp.ledger import Ledger
from skpublicdp.query_release.derived import Binned, derive
from skpublicdp.query_release.door import ReleaseRows
from skpublicdp.query_release.line import LineRelease, release_line
from skpublicdp.query_release.listed import CustomQueries, MarginalQueries
from skpublicdp.query_release.marginals import release_marginals
from skpublicdp.query_release.multiplicative_weights import (
    Questions,
    arrange,
    mwem,
    mwem_rounds,
    plan_rounds,
    play,
)
from skpublicdp.query_release.queries import IntervalQueries, QueryClass, ThresholdQueries
from skpublicdp.query_release.spending import all_noise
from skpublicdp.query_release.weighted import WeightedRows, spread_over
from skpublicdp.schema import Rows, Schema

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

MOST_COPIED = 20_000
"""Rows that are made up so that the inside of a cell is not one point."""


@dataclass(frozen=True, eq=False)
class Released:
    """What one fit releases.

    Attributes
    ----------
    queries : QueryClass
        Bound to the schema.
    schema : Schema
        The columns.
    table : WeightedRows
        Rows and weights that every query can be asked of.
    effective_public_size : float
        What the public rows were worth.
    line : LineRelease or WeightedRows or None
        Of one numeric column: answers ``cdf`` and ``quantile``.
    projection : Projection or None
        Of PMW: the cover that queries are projected on.
    guarantee : float or None
        Of PMW: a bound of the error.
    """

    queries: QueryClass
    schema: Schema
    table: WeightedRows
    effective_public_size: float
    line: LineRelease | WeightedRows | None = None
    projection: Projection | None = None
    guarantee: float | None = None

    def answer(self, Q: Any) -> Floats:
        """Answer queries as a user gives them."""
        resolved = self.queries.resolve(Q, self.schema)
        if self.projection is not None:
            return self.projection.answer(resolved)
        if isinstance(self.line, LineRelease):
            if resolved.shape[1] == 1:
                return self.line.cdf(resolved[:, 0])
            return self.line.interval(resolved[:, 0], resolved[:, 1])
        return self.table.answer(self.queries, resolved)

    @property
    def error_estimate(self) -> ErrorEstimate | None:
        """Intervals, where there are honest ones."""
        if isinstance(self.line, LineRelease):
            return ErrorEstimate(self.line, self.queries, self.schema)
        return None

    def sample(self, n: int, generator: np.random.Generator) -> Rows:
        """Draw encoded rows."""
        if isinstance(self.line, LineRelease):
            return self.line.quantile(generator.random(n))[:, None]
        return self.table.sample(n, generator)


@dataclass(frozen=True, eq=False)
class Projection:
    """Answers of a cover, and the points that tell its members apart."""

    queries: QueryClass
    cover: NDArray[Any]
    points: Rows
    answers: Floats

    def answer(self, Q: NDArray[Any]) -> Floats:
        """Answer queries of the class by the members that agree with them on the points."""
        return self.answers[self.queries.project(Q, self.cover, self.points)]


@dataclass(frozen=True, eq=False)
class ErrorEstimate:
    """Intervals that should hold the population's fractions 95 times out of 100.

    Call it with queries, in their encoding; it returns an array of shape (n_queries, 2). Those of
    `IntervalQueries` add up the half-widths of both ends.
    """

    line: LineRelease = field(repr=False)
    queries: QueryClass
    schema: Schema = field(repr=False)

    def __call__(self, Q: Any) -> Floats:
        """Return an interval for each answer."""
        resolved = self.queries.resolve(Q, self.schema)
        half = self.line.error(resolved[:, -1])
        if resolved.shape[1] == 1:
            answers = self.line.cdf(resolved[:, 0])
        else:
            answers = self.line.interval(resolved[:, 0], resolved[:, 1])
            half = half + self.line.error(np.nextafter(resolved[:, 0], -np.inf))
        return np.clip(np.column_stack([answers - half, answers + half]), 0, 1)


def release_auto(
    estimator: Any, queries: QueryClass, rows: ReleaseRows, ledger: Ledger
) -> Released:
    """Measure once, then fit around the public prior."""
    one = isinstance(queries, ThresholdQueries | IntervalQueries)
    return (_auto_line if one else _auto_tables)(estimator, queries, rows, ledger)


def release_public(
    estimator: Any, queries: QueryClass, rows: ReleaseRows, ledger: Ledger
) -> Released:
    """Count public rows; private ones are not looked at, save for their number."""
    m = len(rows.X_public)
    table = WeightedRows(rows.X_public, np.full(m, 1 / m))
    size = float(rows.n_public)
    return Released(_bind(queries, rows), rows.schema, table, size, _one(rows, table))


def release_pmw(estimator: Any, queries: QueryClass, rows: ReleaseRows, ledger: Ledger) -> Released:
    """Run A_PAP, Algorithm 3 of Bassily et al. (2020)."""
    bound = _bind(queries, rows)
    n_features = rows.X_public.shape[1]
    arrangement = arrange(bound, rows.X_public, bound.n_points(n_features))
    n = len(rows.X_private)
    plan = plan_rounds(
        n,
        len(arrangement.cover),
        len(arrangement.cells),
        ledger=ledger,
        beta=estimator.beta / 4,
        alpha=None if estimator.alpha is None else estimator.alpha / 2,
    )
    cells = _tally(arrangement.tally, rows.X_private, estimator.n_jobs)
    counts = arrangement.incidence @ cells
    weights = play(counts, n, arrangement.incidence, plan, ledger)
    table = WeightedRows(arrangement.cells, weights)
    projection = Projection(
        bound, arrangement.cover, arrangement.points, arrangement.incidence @ weights
    )
    d = max(vc_dimension(bound, n_features), 1)
    used = len(arrangement.points) if len(arrangement.points) < rows.n_public else rows.n_public
    persons = n / ledger.rows_per_person  # independent, which several rows of one need not be
    sampling = math.sqrt(math.log(8 * len(arrangement.cover) / estimator.beta) / (2 * persons))
    guarantee = cover_radius(used, d, estimator.beta / 2) if used else 1.0
    guarantee += plan.error + sampling
    if guarantee >= 1:
        target = 0.1 if estimator.alpha is None else float(estimator.alpha)
        needed = _rows_needed(target, estimator.beta, n, ledger, d, queries.dual)
        warn(
            f'The guarantee of method="pmw" for these rows is an error of {guarantee:.2g}, which '
            f"says nothing: an error of {target:g} takes {needed} private rows by Theorem 10 of "
            'Bassily et al. (2020). method="auto" guarantees nothing and usually errs less.',
            TooFewRowsWarning,
        )
    return Released(
        bound,
        rows.schema,
        table,
        0.0,  # the weights start uniform
        _one(rows, table),
        # cells of a table are among the cells of the arrangement: no projection is needed
        projection=None if isinstance(bound, MarginalQueries) else projection,
        guarantee=guarantee,
    )


def release_mwem(
    estimator: Any, queries: QueryClass, rows: ReleaseRows, ledger: Ledger
) -> Released:
    """Measure the worst query again and again, on the public rows."""
    bound = _bind(queries, rows)
    n_features = rows.X_public.shape[1]
    if isinstance(bound, MarginalQueries):
        cover = bound.listed
    elif isinstance(bound, CustomQueries):
        cover = bound.everything(rows.X_public)
    else:
        cover = arrange(bound, rows.X_public, bound.n_points(n_features)).cover
    cells, repeated = np.unique(rows.X_public, axis=0, return_counts=True)
    n = len(rows.X_private)
    counts = _tally(lambda X: bound.tally(cover, X), rows.X_private, estimator.n_jobs)
    rounds = mwem_rounds(n, len(rows.X_public), ledger)
    questions = Questions.of(bound, cover, cells)
    weights = mwem(counts, n, questions, repeated / repeated.sum(), rounds, ledger)
    table = WeightedRows(cells, weights)
    return Released(bound, rows.schema, table, float(rows.n_public), _one(rows, table))


def _auto_line(estimator: Any, queries: QueryClass, rows: ReleaseRows, ledger: Ledger) -> Released:
    bound = _bind(queries, rows)
    (column,) = rows.schema.columns
    line = release_line(
        rows.X_private[:, 0],
        rows.X_public[:, 0] if rows.n_public else np.empty(0),
        bounds=(column.low, column.high),
        ledger=ledger,
        trust=estimator.trust,
    )
    # a row from the middle of each cell stands for it
    middles = np.cumsum(line.weights) - line.weights / 2
    table = WeightedRows(
        np.asarray(line.quantile(np.clip(middles, 0, 1)))[:, None],
        line.weights / line.weights.sum(),
    )
    size = float(line.effective_public_size) if rows.n_public else 0.0
    return Released(bound, rows.schema, table, size, line)


def _auto_tables(
    estimator: Any, queries: QueryClass, rows: ReleaseRows, ledger: Ledger
) -> Released:
    bound = _bind(queries, rows)
    persons, noise = len(rows.X_private) / ledger.rows_per_person, all_noise(ledger)
    mu = math.sqrt(noise.mu_squared) if isinstance(noise, Gaussian) else float(noise.epsilon) / 2
    derived = derive(bound, rows.schema, rows.X_public, persons * mu)
    trust = estimator.trust
    if trust != "auto":
        trust = float(trust) * max(rows.n_public, 1)
    codes_public = derived.codes_of_all(rows.X_public, estimator.n_jobs)
    fit = release_marginals(
        derived.codes_of_all(rows.X_private, estimator.n_jobs),
        # a reference only says which combinations of codes there are
        codes_public if rows.n_public or not isinstance(derived, Binned) else None,
        derived.sizes,
        derived.workload,
        ledger=ledger,
        trust=trust,
        n_jobs=estimator.n_jobs,
    )
    if isinstance(bound, MarginalQueries):
        middles = derived.rows(fit.support, codes_public, rows.X_public, 1)
        table = WeightedRows(middles[0], fit.weights)
    else:
        copies = int(np.clip(MOST_COPIED // len(fit.support), 1, 16))
        others = derived.rows(fit.support, codes_public, rows.X_public, copies)
        table = spread_over(fit.support, fit.weights, codes_public, rows.X_public, others)
    size = fit.effective_public_size if rows.n_public else 0.0
    return Released(bound, rows.schema, table, size, _one(rows, table))


def _bind(queries: QueryClass, rows: ReleaseRows) -> QueryClass:
    """Check the class against the columns, and return it as it works on encoded rows."""
    queries.check_columns(rows.schema)
    return queries.bound(rows.schema, rows.X_public)


def _one(rows: ReleaseRows, table: WeightedRows) -> WeightedRows | None:
    one = len(rows.schema.columns) == 1 and not rows.schema.columns[0].categorical
    return table if one else None


def _tally(count: Callable[[Rows], Counts], X: Rows, n_jobs: int | None) -> Counts:
    """Add up the tables of chunks of rows, counted by threads."""
    starts = range(0, len(X), CHUNK_ROWS)
    parts = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(count)(X[start : start + CHUNK_ROWS]) for start in starts
    )
    total: Counts = np.sum(list(parts), axis=0, dtype=np.int64)
    return total


def _rows_needed(
    alpha: float, beta: float, n: int, ledger: Ledger, d: int, dual: int | None
) -> int:
    # the theorem is for ε < 1 and δ > 0: a larger ε needs no more rows
    epsilon, delta = ledger.per_row(ledger.epsilon, ledger.delta)
    return n_query_release(
        alpha, beta, min(float(epsilon), 1 - 1e-9), min(float(delta) or n**-2.0, 0.5), d, dual
    )


METHODS: dict[str, Callable[..., Released]] = {
    "auto": release_auto,
    "pmw": release_pmw,
    "mwem": release_mwem,
    "public": release_public,
}
