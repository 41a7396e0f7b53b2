"""The methods of a release: `auto`, `pmw` and `public`, and the mechanisms of `auto`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.dataset import Dataset, PrivateColumnCounts
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
    missing_columns: Collection[int] = (),
) -> FittedRelease:
    """Measure the private rows, and combine the noisy answers with the public rows.

    The whole budget of the ledger is spent. `missing_columns` are the positions of columns that
    public rows lack, which only `CustomQueries` support.
    """
    if isinstance(queries, CustomQueries):
        return _release_query_list(estimator, queries, rows, ledger, missing_columns)
    if isinstance(queries, ThresholdQueries | IntervalQueries):
        return _release_one_column(estimator, queries, rows, ledger)
    return _release_over_tables(estimator, queries, rows, ledger)


def release_public(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    """Answer from the public rows alone. Of the private rows only the number is used."""
    m = len(rows.X_public)
    table = WeightedRows(rows.X_public, np.full(m, 1 / m))
    size = float(rows.n_public)
    return FittedRelease(bind_queries(queries, rows), rows.schema, table, size)


def _release_query_list(
    estimator: Any,
    queries: CustomQueries,
    rows: Dataset,
    ledger: Ledger,
    missing_columns: Collection[int],
) -> FittedRelease:
    """Measure all queries of a list once, and combine the noisy answers with the public ones."""
    rows, n_completions = enumerate_completions(rows, missing_columns)
    bound = bind_queries(queries, rows)
    indicators = QueryIndicators(bound, rows.X_public)
    codes_public = indicators.parallel_codes(rows.X_public, estimator.n_jobs)
    m, n_queries = rows.n_public, codes_public.shape[1]
    release = release_linear_queries(
        rows.fold(lambda X, _: indicators.count(X), estimator.n_jobs),
        rows.n_private,
        # without public rows, X_public is a reference sample, and is no evidence of fractions
        codes_public[: n_completions * m].reshape(n_completions, m, n_queries),
        ledger=ledger,
        trust=_trusted_size(estimator, m),
    )
    table = TableAnswers(release, indicators, codes_public, rows.X_public)
    return FittedRelease(bound, rows.schema, table, release.effective_public_size if m else 0.0)


def _release_one_column(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    """Release the CDF of the single column, which answers thresholds and intervals."""
    bound = bind_queries(queries, rows)
    cdf = _release_column_cdf(0, estimator, rows, ledger)
    # the median of each cell represents it
    median_levels = np.cumsum(cdf.weights) - cdf.weights / 2
    table = WeightedRows(
        np.asarray(cdf.quantile(np.clip(median_levels, 0, 1)))[:, None],
        cdf.weights / cdf.weights.sum(),
    )
    size = float(cdf.effective_public_size) if rows.n_public else 0.0
    return FittedRelease(bound, rows.schema, table, size, cdf)


def _release_column_cdf(
    position: int, estimator: Any, rows: Dataset, ledger: Ledger
) -> ReleasedCDF:
    """Release the CDF of the numeric column at `position`, with the whole budget of `ledger`."""
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
    """Release tables, and the CDFs of numeric columns before them if the class needs released bins.

    Stumps are answered column by column: by the CDF of a numeric column and the table of a
    categorical one.
    """
    bound = bind_queries(queries, rows)
    n_jobs, noise = estimator.n_jobs, all_noise(ledger)
    cdfs, remaining_share = _release_column_cdfs(estimator, bound, rows, ledger)
    if remaining_share:  # otherwise all columns are numeric stumps, and no table is measured
        noise = scaled_noise(noise, remaining_share)
    persons = rows.n_private / ledger.rows_per_person
    discretizer = choose_discretizer(
        bound, rows.schema, rows.X_public, cdfs, signal_to_noise(noise, persons)
    )
    codes_public = discretizer.parallel_codes(rows.X_public, n_jobs)
    # a numeric stump is answered by its CDF and needs no table
    by_column = isinstance(bound, StumpQueries)
    workload = [
        columns for columns in discretizer.workload if not by_column or columns[0] not in cdfs
    ]
    release = MarginalRelease({}, {}, discretizer.sizes, float(rows.n_public))
    if workload:
        if cdfs:
            ledger = ledger.sub_ledger(
                noise, name=mechanism_name("tables", noise), proof=MARGINALS_PROOF
            )
        release = _measure_tables(
            discretizer,
            workload,
            rows,
            codes_public[: rows.n_public],  # none if X_public is a reference sample
            ledger=ledger,
            trust=_trusted_size(estimator, rows.n_public),
            n_jobs=n_jobs,
        )
    if isinstance(discretizer, ReleasedBins) and by_column:
        fractions = {**release.fractions, **discretizer.column_marginals()}
        release = replace(release, fractions=fractions)
    answers = ColumnAnswers if by_column else TableAnswers
    table = answers(release, discretizer, codes_public, rows.X_public)
    cdf_sizes = [cdf.effective_public_size for cdf in cdfs.values()]
    size = min([release.effective_public_size, *cdf_sizes]) if rows.n_public else 0.0
    return FittedRelease(bound, rows.schema, table, size)


def _release_column_cdfs(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> tuple[dict[int, ReleasedCDF], Fraction]:
    """Release the CDF of each numeric column, if the class needs them before its tables.

    Each CDF and each table of the workload and its margins get an equal share of the budget.

    Returns
    -------
    cdfs : dict of int to ReleasedCDF
        By position of the column. Empty if the class needs none.
    remaining_share : Fraction
        Share of the budget that is left for the tables.
    """
    cdfs: dict[int, ReleasedCDF] = {}
    remaining_share = Fraction(1)
    if not releases_columns_first(queries):
        return cdfs, remaining_share
    rows.check(estimator.n_jobs)
    noise, n_features = all_noise(ledger), len(rows.schema.columns)
    n_tables = 0
    if not isinstance(queries, StumpQueries):
        n_tables = len(downward_closure(column_workload(queries, n_features)))
    share = Fraction(1, n_features + n_tables)
    check_noise_scale(scaled_noise(noise, share), ledger)
    for position in np.flatnonzero(rows.schema.numeric).tolist():
        column_ledger = ledger.sub_ledger(
            scaled_noise(noise, share),
            name=mechanism_name(f"one column, {rows.schema.names[position]}", noise),
            proof="docs/proofs/prefix_sums.md",
        )
        cdf = _release_column_cdf(position, estimator, rows, column_ledger)
        cdfs[position] = replace(cdf, covariance=None)  # it would take megabytes per column
        remaining_share -= share
    return cdfs, remaining_share


def _trusted_size(estimator: Any, n_public: int) -> str | float:
    """Return the effective public sample size that the parameter `trust` sets, or "auto"."""
    trust = estimator.trust
    return trust if trust == "auto" else float(trust) * max(n_public, 1)


def _measure_tables(
    discretizer: Discretizer,
    workload: list[tuple[int, ...]],
    rows: Dataset,
    codes_public: Integers,
    *,
    ledger: Ledger,
    trust: str | float,
    n_jobs: int | None,
) -> MarginalRelease:
    """Release the tables of a workload, counted chunk by chunk from the private rows."""
    assert isinstance(discretizer, PublicBins)
    bins, sizes = discretizer, discretizer.sizes

    def count(tables: list[tuple[int, ...]]) -> NDArray[np.int64]:
        def count_chunk(X: Floats, _: NDArray[Any]) -> NDArray[np.int64]:
            return bins.tables(X, tables)

        return rows.fold(count_chunk, n_jobs)

    return release_tables(
        count, rows.n_private, codes_public, sizes, workload, ledger=ledger, trust=trust
    )


METHODS: dict[str, Callable[..., FittedRelease]] = {
    "auto": release_auto,
    "pmw": release_pmw,
    "public": release_public,
}
