"""The ways to release: what is measured and what is fitted."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.fit_inputs import Dataset, PrivateColumnCounts
from skpublicdp.data.schema import Codes, Rows
from skpublicdp.ledger import Ledger
from skpublicdp.query_release.answers import ColumnAnswers, TableAnswers
from skpublicdp.query_release.cdf.release import LineRelease, release_line
from skpublicdp.query_release.cdf.strategies import check_drawable
from skpublicdp.query_release.completion import completed
from skpublicdp.query_release.discretize import (
    Binned,
    Derived,
    Lined,
    Listed,
    derive,
    needs_lines,
    tables_over_lines,
)
from skpublicdp.query_release.fitted_release import Released, bind
from skpublicdp.query_release.marginals.model import closure
from skpublicdp.query_release.marginals.release import PROOF, MarginalRelease, release_tables
from skpublicdp.query_release.pmw.release import release_pmw
from skpublicdp.query_release.queries.base import IntervalQueries, QueryClass, ThresholdQueries
from skpublicdp.query_release.queries.custom import CustomQueries
from skpublicdp.query_release.queries.geometric import StumpQueries
from skpublicdp.query_release.query_list import release_answers
from skpublicdp.query_release.spending import all_noise, noise_on, part_of, room_for
from skpublicdp.query_release.weighted_rows import WeightedRows


def release_auto(
    estimator: Any,
    queries: QueryClass,
    rows: Dataset,
    ledger: Ledger,
    lacking: Collection[int] = (),
) -> Released:
    """Measure, and weigh that against the public rows, which may be lacking columns of a list."""
    if isinstance(queries, CustomQueries):
        return _auto_list(estimator, queries, rows, ledger, lacking)
    one = isinstance(queries, ThresholdQueries | IntervalQueries)
    return (_auto_line if one else _auto_tables)(estimator, queries, rows, ledger)


def release_public(estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger) -> Released:
    """Count public rows; private ones are not looked at, save for their number."""
    m = len(rows.X_public)
    table = WeightedRows(rows.X_public, np.full(m, 1 / m))
    size = float(rows.n_public)
    return Released(bind(queries, rows), rows.schema, table, size)


def _auto_list(
    estimator: Any, queries: CustomQueries, rows: Dataset, ledger: Ledger, lacking: Collection[int]
) -> Released:
    rows, n_completions = completed(rows, lacking)
    bound = bind(queries, rows)
    listed = Listed(bound, rows.X_public)
    codes, m = listed.codes_of_all(rows.X_public, estimator.n_jobs), rows.n_public
    trust = estimator.trust
    release = release_answers(
        rows.fold(lambda X, _: listed.count(X), estimator.n_jobs),
        rows.n_private,
        # a reference only says what rows may look like
        codes[: n_completions * m].reshape(n_completions, m, codes.shape[1]),
        ledger=ledger,
        trust=trust if trust == "auto" else float(trust) * max(m, 1),
    )
    table = TableAnswers(release, listed, codes, rows.X_public)
    return Released(bound, rows.schema, table, release.effective_public_size if m else 0.0)


def _auto_line(estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger) -> Released:
    bound = bind(queries, rows)
    line = _line_of(0, estimator, rows, ledger)
    # a row from the middle of each cell stands for it
    middles = np.cumsum(line.weights) - line.weights / 2
    table = WeightedRows(
        np.asarray(line.quantile(np.clip(middles, 0, 1)))[:, None],
        line.weights / line.weights.sum(),
    )
    size = float(line.effective_public_size) if rows.n_public else 0.0
    return Released(bound, rows.schema, table, size, line)


def _line_of(position: int, estimator: Any, rows: Dataset, ledger: Ledger) -> LineRelease:
    column = rows.schema.columns[position]
    return release_line(
        PrivateColumnCounts(rows.column(position)),
        rows.X_public[:, position] if rows.n_public else np.empty(0),
        bounds=(column.low, column.high),
        ledger=ledger,
        trust=estimator.trust,
    )


def _auto_tables(estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger) -> Released:
    bound = bind(queries, rows)
    n_jobs, noise, left = estimator.n_jobs, all_noise(ledger), Fraction(1)
    lines, stumps = {}, isinstance(bound, StumpQueries)
    if needs_lines(bound):
        rows.check(n_jobs)
        n_features = len(rows.schema.columns)
        tables = [] if stumps else closure(tables_over_lines(bound, n_features))
        share = Fraction(1, n_features + len(tables))  # lines and tables share alike
        check_drawable(part_of(noise, share), ledger)
        for position in np.flatnonzero(rows.schema.numeric).tolist():
            paid = ledger.child(
                part_of(noise, share),
                name=noise_on(f"one column, {rows.schema.names[position]}", noise),
                proof="docs/proofs/prefix_sums.md",
            )
            line = _line_of(position, estimator, rows, paid)
            lines[position] = replace(line, covariance=None)  # megabytes for each column
            left -= share
    noise = part_of(noise, left) if left else noise
    persons = rows.n_private / ledger.rows_per_person
    derived = derive(bound, rows.schema, rows.X_public, lines, room_for(noise, persons))
    codes_public = derived.codes_of_all(rows.X_public, n_jobs)
    workload = [columns for columns in derived.workload if not stumps or columns[0] not in lines]
    release = MarginalRelease({}, {}, derived.sizes, float(rows.n_public))
    if workload:
        trust = estimator.trust
        release = _tables_of(
            derived,
            workload,
            rows,
            codes_public[: rows.n_public],  # a reference only says what rows may look like
            ledger=ledger.child(noise, name=noise_on("tables", noise), proof=PROOF)
            if lines
            else ledger,
            trust=trust if trust == "auto" else float(trust) * max(rows.n_public, 1),
            n_jobs=n_jobs,
        )
    if isinstance(derived, Lined) and stumps:
        release = replace(release, fractions={**release.fractions, **derived.one_ways()})
    answers = ColumnAnswers if stumps else TableAnswers
    table = answers(release, derived, codes_public, rows.X_public)
    sizes = [
        release.effective_public_size,
        *(line.effective_public_size for line in lines.values()),
    ]
    size = min(sizes) if rows.n_public else 0.0
    return Released(bound, rows.schema, table, size)


def _tables_of(
    derived: Derived,
    workload: list[tuple[int, ...]],
    rows: Dataset,
    public: Codes,
    *,
    ledger: Ledger,
    trust: str | float,
    n_jobs: int | None,
) -> MarginalRelease:
    assert isinstance(derived, Binned)
    binned, sizes = derived, derived.sizes

    def count(tables: list[tuple[int, ...]]) -> NDArray[np.int64]:
        def of_chunk(X: Rows, _: NDArray[Any]) -> NDArray[np.int64]:
            return binned.tables(X, tables)

        return rows.fold(of_chunk, n_jobs)

    return release_tables(
        count, rows.n_private, public, sizes, workload, ledger=ledger, trust=trust
    )


METHODS: dict[str, Callable[..., Released]] = {
    "auto": release_auto,
    "pmw": release_pmw,
    "public": release_public,
}
