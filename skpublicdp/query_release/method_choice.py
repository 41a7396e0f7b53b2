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
from skpublicdp.typing import Integers


def release_auto(
    estimator: Any,
    queries: QueryClass,
    rows: Dataset,
    ledger: Ledger,
    missing_columns: Collection[int] = (),
) -> FittedRelease:
    """Release answers with ``method="auto"``: a posterior given noisy answers and public rows.

    The whole budget of the ledger is spent. `missing_columns` contains the positions of columns
    that public rows lack. Only `CustomQueries` support them.
    """
    if isinstance(queries, CustomQueries):
        return _release_query_list(estimator, queries, rows, ledger, missing_columns)
    if isinstance(queries, ThresholdQueries | IntervalQueries):
        return _release_one_column(estimator, queries, rows, ledger)
    return _release_over_tables(estimator, queries, rows, ledger)


def release_public(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    """Return the release with ``method="public"``: public rows with equal weights.

    No private value is used.
    """
    m = len(rows.X_public)
    weighted_rows = WeightedRows(rows.X_public, np.full(m, 1 / m))
    return FittedRelease(
        bind_queries(queries, rows), rows.schema, weighted_rows, float(rows.n_public)
    )


def _release_query_list(
    estimator: Any,
    queries: CustomQueries,
    rows: Dataset,
    ledger: Ledger,
    missing_columns: Collection[int],
) -> FittedRelease:
    """Release the answers to custom queries: one noisy count of rows for each query.

    The posterior of the answers combines the counts with the answers of public rows.
    """
    rows, n_completions = enumerate_completions(rows, missing_columns)
    bound = bind_queries(queries, rows)
    indicators = QueryIndicators(bound, rows.X_public)
    codes_public = indicators.parallel_codes(rows.X_public, estimator.n_jobs)
    m, n_queries = rows.n_public, codes_public.shape[1]
    counts = rows.fold(lambda X, _: indicators.count(X), estimator.n_jobs)
    # If there are no public rows (m = 0), X_public is a reference sample. It is used for synthetic
    # rows, but not for the prior of the fractions.
    holds_on_public = codes_public[: n_completions * m].reshape(n_completions, m, n_queries)
    release = release_linear_queries(
        counts,
        rows.n_private,
        holds_on_public,
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
    # for statistics other than the CDF: one row for each cell, at the median of the cell
    median_levels = np.cumsum(cdf.weights) - cdf.weights / 2
    medians = np.asarray(cdf.quantile(np.clip(median_levels, 0, 1)))
    weighted_rows = WeightedRows(medians[:, None], cdf.weights / cdf.weights.sum())
    size = float(cdf.effective_public_size) if rows.n_public else 0.0
    return FittedRelease(bound, rows.schema, weighted_rows, size, cdf)


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
    """Release tables over bins and categories, and estimate answers from them.

    For stumps, rectangles and halfspaces, the CDF of each numeric column is released first. Its
    quantiles cut the column into bins. A stump about a numeric column is answered by the CDF, and
    needs no table.
    """
    bound = bind_queries(queries, rows)
    n_jobs, noise = estimator.n_jobs, all_noise(ledger)
    cdfs, remaining_share = _release_column_cdfs(estimator, bound, rows, ledger)
    if remaining_share:  # 0 for stumps if all columns are numeric: then no table is measured
        noise = scaled_noise(noise, remaining_share)
    persons = rows.n_private / ledger.rows_per_person
    discretizer = choose_discretizer(
        bound, rows.schema, rows.X_public, cdfs, signal_to_noise(noise, persons)
    )
    codes_public = discretizer.parallel_codes(rows.X_public, n_jobs)
    is_by_column = isinstance(bound, StumpQueries)
    workload = discretizer.workload
    if is_by_column:
        workload = [columns for columns in workload if columns[0] not in cdfs]
    release = MarginalRelease({}, {}, discretizer.sizes, float(rows.n_public))  # without tables
    if workload:
        if cdfs:  # they were charged for the other shares of the budget
            ledger = ledger.sub_ledger(
                noise, name=mechanism_name("tables", noise), proof=MARGINALS_PROOF
            )
        release = _measure_tables(
            discretizer,
            workload,
            rows,
            codes_public[: rows.n_public],  # no rows if X_public is a reference sample
            ledger=ledger,
            trust=_trusted_size(estimator, rows.n_public),
            n_jobs=n_jobs,
        )
    if isinstance(discretizer, ReleasedBins) and is_by_column:
        # synthetic rows need a table of every column
        fractions = {**release.fractions, **discretizer.column_marginals()}
        release = replace(release, fractions=fractions)
    answers_class = ColumnAnswers if is_by_column else TableAnswers
    table = answers_class(release, discretizer, codes_public, rows.X_public)
    cdf_sizes = [cdf.effective_public_size for cdf in cdfs.values()]
    size = min([release.effective_public_size, *cdf_sizes]) if rows.n_public else 0.0
    return FittedRelease(bound, rows.schema, table, size)


def _release_column_cdfs(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> tuple[dict[int, ReleasedCDF], Fraction]:
    """Release the CDF of each numeric column, if the query class has bins at released quantiles.

    The budget is divided equally among all columns and all tables of the downward closure of the
    workload. For stumps there are no other tables, since each column has a CDF or a table.

    Returns
    -------
    cdfs : dict of int to ReleasedCDF
        Released CDFs by position of the column. Empty for other query classes.
    remaining_share : Fraction
        Share of the budget that is left for the tables.
    """
    cdfs: dict[int, ReleasedCDF] = {}
    remaining_share = Fraction(1)
    if not releases_columns_first(queries):
        return cdfs, remaining_share
    rows.check(estimator.n_jobs)  # raises an error for invalid rows before any budget is spent
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
        cdfs[position] = replace(cdf, covariance=None)  # megabytes for each column
        remaining_share -= share
    return cdfs, remaining_share


def _trusted_size(estimator: Any, n_public: int) -> str | float:
    """Return the effective public sample size that the user sets by `trust`, or "auto"."""
    trust = estimator.trust  # private rows per public row
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
    """Release the tables of a workload, which are counted from the private rows.

    Parameters
    ----------
    discretizer : PublicBins or ReleasedBins
        Maps rows to the codes that the tables count.
    workload : list of tuple of int
        The tables, each a tuple of column positions.
    rows : Dataset
        Its private rows are read once for each list of tables that `release_tables` counts.
    codes_public : ndarray of int, shape (n_public, n_columns)
        Codes of the public rows, possibly none.
    trust : "auto" or float
        Effective public sample size, in private rows.
    """
    assert isinstance(discretizer, PublicBins)
    bins = discretizer  # for mypy, which does not narrow types inside nested functions

    def count_tables(tables: list[tuple[int, ...]]) -> NDArray[np.int64]:
        """Return the concatenated cell counts of tables over all private rows."""
        return rows.fold(lambda X, _: bins.tables(X, tables), n_jobs)

    return release_tables(
        count_tables,
        rows.n_private,
        codes_public,
        discretizer.sizes,
        workload,
        ledger=ledger,
        trust=trust,
    )


METHODS: dict[str, Callable[..., FittedRelease]] = {
    "auto": release_auto,
    "pmw": release_pmw,
    "public": release_public,
}
