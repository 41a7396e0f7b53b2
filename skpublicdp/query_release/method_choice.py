"""The ways to release: what is measured and what is fitted."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.fit_inputs import Dataset, PrivateColumnCounts
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.answers import ColumnAnswers, TableAnswers
from skpublicdp.query_release.cdf.release import release_cdf
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.cdf.strategies import check_noise_scale
from skpublicdp.query_release.completion import enumerate_completions
from skpublicdp.query_release.discretize import (
    Discretizer,
    PublicBins,
    QueryIndicators,
    ReleasedBins,
    choose_discretizer,
    column_workload,
    releases_columns_first,
)
from skpublicdp.query_release.fitted_release import FittedRelease, bind_queries
from skpublicdp.query_release.marginals.marginal_model import downward_closure
from skpublicdp.query_release.marginals.release import (
    MARGINALS_PROOF,
    MarginalRelease,
    release_tables,
)
from skpublicdp.query_release.pmw.release import release_pmw
from skpublicdp.query_release.queries.base import IntervalQueries, QueryClass, ThresholdQueries
from skpublicdp.query_release.queries.custom import CustomQueries
from skpublicdp.query_release.queries.geometric import StumpQueries
from skpublicdp.query_release.query_list import release_linear_queries
from skpublicdp.query_release.spending import (
    all_noise,
    mechanism_name,
    scaled_noise,
    signal_to_noise,
)
from skpublicdp.query_release.weighted_rows import WeightedRows
from skpublicdp.typing import Floats, Integers


def release_auto(
    estimator: Any,
    queries: QueryClass,
    rows: Dataset,
    ledger: Ledger,
    lacking: Collection[int] = (),
) -> FittedRelease:
    """Measure, and weigh that against the public rows, which may be lacking columns of a list."""
    if isinstance(queries, CustomQueries):
        return _release_query_list(estimator, queries, rows, ledger, lacking)
    one = isinstance(queries, ThresholdQueries | IntervalQueries)
    return (_release_one_column if one else _release_over_tables)(estimator, queries, rows, ledger)


def release_public(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    """Count public rows; private ones are not looked at, save for their number."""
    m = len(rows.X_public)
    table = WeightedRows(rows.X_public, np.full(m, 1 / m))
    size = float(rows.n_public)
    return FittedRelease(bind_queries(queries, rows), rows.schema, table, size)


def _release_query_list(
    estimator: Any, queries: CustomQueries, rows: Dataset, ledger: Ledger, lacking: Collection[int]
) -> FittedRelease:
    rows, n_completions = enumerate_completions(rows, lacking)
    bound = bind_queries(queries, rows)
    listed = QueryIndicators(bound, rows.X_public)
    codes, m = listed.codes_of_all(rows.X_public, estimator.n_jobs), rows.n_public
    trust = estimator.trust
    release = release_linear_queries(
        rows.fold(lambda X, _: listed.count(X), estimator.n_jobs),
        rows.n_private,
        # a reference only says what rows may look like
        codes[: n_completions * m].reshape(n_completions, m, codes.shape[1]),
        ledger=ledger,
        trust=trust if trust == "auto" else float(trust) * max(m, 1),
    )
    table = TableAnswers(release, listed, codes, rows.X_public)
    return FittedRelease(bound, rows.schema, table, release.effective_public_size if m else 0.0)


def _release_one_column(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    bound = bind_queries(queries, rows)
    line = _release_column_cdf(0, estimator, rows, ledger)
    # a row from the middle of each cell stands for it
    middles = np.cumsum(line.weights) - line.weights / 2
    table = WeightedRows(
        np.asarray(line.quantile(np.clip(middles, 0, 1)))[:, None],
        line.weights / line.weights.sum(),
    )
    size = float(line.effective_public_size) if rows.n_public else 0.0
    return FittedRelease(bound, rows.schema, table, size, line)


def _release_column_cdf(
    position: int, estimator: Any, rows: Dataset, ledger: Ledger
) -> ReleasedCDF:
    column = rows.schema.columns[position]
    return release_cdf(
        PrivateColumnCounts(rows.column(position)),
        rows.X_public[:, position] if rows.n_public else np.empty(0),
        bounds=(column.low, column.high),
        ledger=ledger,
        trust=estimator.trust,
    )


def _release_over_tables(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    bound = bind_queries(queries, rows)
    n_jobs, noise, left = estimator.n_jobs, all_noise(ledger), Fraction(1)
    lines, stumps = {}, isinstance(bound, StumpQueries)
    if releases_columns_first(bound):
        rows.check(n_jobs)
        n_features = len(rows.schema.columns)
        tables = [] if stumps else downward_closure(column_workload(bound, n_features))
        share = Fraction(1, n_features + len(tables))  # lines and tables share alike
        check_noise_scale(scaled_noise(noise, share), ledger)
        for position in np.flatnonzero(rows.schema.numeric).tolist():
            paid = ledger.sub_ledger(
                scaled_noise(noise, share),
                name=mechanism_name(f"one column, {rows.schema.names[position]}", noise),
                proof="docs/proofs/prefix_sums.md",
            )
            line = _release_column_cdf(position, estimator, rows, paid)
            lines[position] = replace(line, covariance=None)  # megabytes for each column
            left -= share
    noise = scaled_noise(noise, left) if left else noise
    persons = rows.n_private / ledger.rows_per_person
    derived = choose_discretizer(
        bound, rows.schema, rows.X_public, lines, signal_to_noise(noise, persons)
    )
    codes_public = derived.codes_of_all(rows.X_public, n_jobs)
    workload = [columns for columns in derived.workload if not stumps or columns[0] not in lines]
    release = MarginalRelease({}, {}, derived.sizes, float(rows.n_public))
    if workload:
        trust = estimator.trust
        release = _measure_tables(
            derived,
            workload,
            rows,
            codes_public[: rows.n_public],  # a reference only says what rows may look like
            ledger=ledger.sub_ledger(
                noise, name=mechanism_name("tables", noise), proof=MARGINALS_PROOF
            )
            if lines
            else ledger,
            trust=trust if trust == "auto" else float(trust) * max(rows.n_public, 1),
            n_jobs=n_jobs,
        )
    if isinstance(derived, ReleasedBins) and stumps:
        release = replace(release, fractions={**release.fractions, **derived.one_ways()})
    answers = ColumnAnswers if stumps else TableAnswers
    table = answers(release, derived, codes_public, rows.X_public)
    sizes = [
        release.effective_public_size,
        *(line.effective_public_size for line in lines.values()),
    ]
    size = min(sizes) if rows.n_public else 0.0
    return FittedRelease(bound, rows.schema, table, size)


def _measure_tables(
    derived: Discretizer,
    workload: list[tuple[int, ...]],
    rows: Dataset,
    public: Integers,
    *,
    ledger: Ledger,
    trust: str | float,
    n_jobs: int | None,
) -> MarginalRelease:
    assert isinstance(derived, PublicBins)
    binned, sizes = derived, derived.sizes

    def count(tables: list[tuple[int, ...]]) -> NDArray[np.int64]:
        def of_chunk(X: Floats, _: NDArray[Any]) -> NDArray[np.int64]:
            return binned.tables(X, tables)

        return rows.fold(of_chunk, n_jobs)

    return release_tables(
        count, rows.n_private, public, sizes, workload, ledger=ledger, trust=trust
    )


METHODS: dict[str, Callable[..., FittedRelease]] = {
    "auto": release_auto,
    "pmw": release_pmw,
    "public": release_public,
}
