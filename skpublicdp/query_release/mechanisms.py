"""Mechanisms of a release with the methods `auto`, `pmw` and `public`.

This module contains the mechanisms of `auto`, which use the measurements in `cdf/`, `marginals/`
and `query_list`. `pmw/release.py` contains the mechanism of `pmw`, in which exactly drawn queries
update the weights of public rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from skpublicdp.accounting import Noise
from skpublicdp.data.dataset import Dataset, PrivateColumnCounts
from skpublicdp.data.schema import Schema
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.answers import (
    CDFAnswers,
    ColumnAnswers,
    CountAnswers,
    FittedRelease,
    RowAnswers,
    TableAnswers,
)
from skpublicdp.query_release.cdf.grid import ColumnCounts, SortedColumn
from skpublicdp.query_release.cdf.release import MAX_ABS_BOUND, MIN_WIDTH, release_cdf
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.cdf.strategies import check_noise_scale
from skpublicdp.query_release.discretize import QueryIndicators
from skpublicdp.query_release.marginals.count import MEMORY_BYTES
from skpublicdp.query_release.marginals.marginal_model import downward_closure
from skpublicdp.query_release.marginals.release import (
    MARGINALS_PROOF,
    MarginalRelease,
    release_tables,
)
from skpublicdp.query_release.marginals.weights import (
    TOTALS_SHARE,
    release_weight_totals,
)
from skpublicdp.query_release.pmw.release import release_pmw
from skpublicdp.query_release.queries.base import OneColumnQueries, QueryClass
from skpublicdp.query_release.query_list import release_linear_queries
from skpublicdp.query_release.synthetic import WeightedRows

MAX_SORTED_NUMBERS = MEMORY_BYTES // 8
"""Maximum number of private values of a column that are sorted in memory, at 8 bytes each."""


def release_auto(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    """Release answers with ``method="auto"``, as a posterior given noisy answers and public rows.

    The ledger's entire budget is spent. The query class is bound to the schema.
    """
    match queries.statistic:
        case "counts":
            return _release_query_list(estimator, queries, rows, ledger)
        case "cdf":
            return _release_one_column(estimator, queries, rows, ledger)
    return _release_over_tables(estimator, queries, rows, ledger)


def release_public(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    """Return the release with ``method="public"``, which weights public rows equally.

    Private values are not used.
    """
    m = len(rows.X_public)
    weighted_rows = WeightedRows(rows.X_public, np.full(m, 1 / m))
    answers = RowAnswers(queries, weighted_rows)
    return FittedRelease(queries, rows.schema, answers, float(rows.n_public))


def _release_query_list(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    """Release the answers to listed queries by means of one noisy row count per query.

    The posterior of the answers combines the counts with the answers of public rows.
    """
    listed_queries = queries.holdout_queries(rows.X_public)  # all queries of the finite list
    m = rows.n_public
    _refuse_unseen_columns(rows)
    indicators = QueryIndicators(queries, listed_queries)
    codes_public = indicators.parallel_codes(rows.X_public, estimator.n_jobs)
    counts = rows.fold(lambda X, _: indicators.count(X), estimator.n_jobs)
    # If there are no public rows (m = 0), X_public is a reference sample. The reference sample is
    # used for synthetic rows, but not for the prior of the fractions.
    release = release_linear_queries(
        counts,
        rows.n_private,
        codes_public[:m],
        ledger=ledger,
        trust=_trusted_size(estimator, m),
    )
    answers = CountAnswers(queries, release, indicators, codes_public, rows.X_public)
    return FittedRelease(queries, rows.schema, answers, release.effective_public_size if m else 0.0)


def _refuse_unseen_columns(rows: Dataset) -> None:
    """Raise a ValueError if a column with categories is missing in all public rows.

    The prior of queries about this column would be certain of an answer that no row shows.
    """
    m = rows.n_public
    real_rows = rows.X_public[:m][~rows.is_synthetic[:m]]
    if not len(real_rows):
        return
    for position, column in enumerate(rows.schema.columns):
        missing_code = len(column.values) + 1
        if column.categorical and (real_rows[:, position] == missing_code).all():
            raise ValueError(
                f"CustomQueries requires public values of each column, but column {column.name} is "
                "missing in all public rows. Leave the column out of X, add public values, or fit "
                "without public rows and declare the values by the types of columns and by bounds."
            )


def _release_one_column(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    """Release the CDF of a single column, which answers thresholds and intervals."""
    assert isinstance(queries, OneColumnQueries)
    _check_bounds_of_cdfs(rows.schema, [0])
    cdf = _release_column_cdf(0, estimator, rows, ledger)
    size = float(cdf.effective_public_size) if rows.n_public else 0.0
    return FittedRelease(queries, rows.schema, CDFAnswers(queries, cdf), size)


def _check_bounds_of_cdfs(schema: Schema, positions: Sequence[int]) -> None:
    """Raise ValueError if a column has bounds for which no CDF can be computed."""
    for position in positions:
        column = schema.columns[position]
        low, high = column.low, column.high
        is_large = max(-low, high) > MAX_ABS_BOUND  # then the width can overflow
        if is_large or high - low < MIN_WIDTH:
            raise ValueError(
                f"Column {column.name} must have bounds of at most {MAX_ABS_BOUND:g} in absolute "
                f"value and at least {MIN_WIDTH:g} apart; got {low:g} and {high:g}. Multiply the "
                "column by a constant, in X and in X_public."
            )


def _release_column_cdf(
    position: int, estimator: Any, rows: Dataset, ledger: Ledger
) -> ReleasedCDF:
    """Release the CDF of the numeric column at `position`, spending the ledger's entire budget."""
    column = rows.schema.columns[position]
    return release_cdf(
        _private_column(rows.column(position)),
        rows.X_public[:, position] if rows.n_public else np.empty(0),
        bounds=(column.low, column.high),
        ledger=ledger,
        trust=estimator.trust,
    )


def _private_column(column: Dataset) -> ColumnCounts:
    """Return a private numeric column, which is read and sorted only once if memory permits."""
    if column.n_private > MAX_SORTED_NUMBERS:
        return PrivateColumnCounts(column)  # reads and sorts the chunks anew for each measurement
    return SortedColumn(np.concatenate(list(column.map(lambda X, _: X[:, 0]))))


def _release_over_tables(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    """Release tables over bins and categories, and estimate answers from them.

    For stumps, rectangles and halfspaces, the CDF of each numeric column is released first, and its
    quantiles divide the column into bins. A stump on a numeric column is answered by the CDF and
    needs no table.
    """
    cdfs, noise = _release_column_cdfs(estimator, queries, rows, ledger)
    snr = noise.signal_to_noise(rows.n_private / ledger.rows_per_person)
    discretizer = queries.discretizer(rows.schema, rows.X_public, cdfs, snr)
    codes_public = discretizer.parallel_codes(rows.X_public, estimator.n_jobs)
    workload = queries.measured_tables(rows.schema)
    weights, weight_totals = queries.weights, None
    release = MarginalRelease({}, {}, discretizer.sizes, float(rows.n_public))  # without tables
    if workload:
        if cdfs:  # they were charged for their own shares of the budget
            ledger = ledger.sub_ledger(
                noise, name=f"{noise.noise_name} on tables", proof=MARGINALS_PROOF
            )
        if weights is not None:
            weight_totals = release_weight_totals(
                lambda: rows.fold(lambda X, _: weights.totals(X), estimator.n_jobs),
                rows.n_private,
                ledger,
            )
            noise = ledger.noise.scaled(1 - TOTALS_SHARE)
            ledger = ledger.sub_ledger(
                noise, name=f"{noise.noise_name} on weighted tables", proof=MARGINALS_PROOF
            )
        release = release_tables(
            lambda tables: rows.fold(
                lambda X, _: discretizer.tables(X, tables, weights), estimator.n_jobs
            ),
            rows.n_private,
            codes_public[: rows.n_public],  # no rows if X_public is a reference sample
            discretizer.sizes,
            workload,
            ledger=ledger,
            trust=_trusted_size(estimator, rows.n_public),
            weight_totals=weight_totals,
        )
    answers_class = ColumnAnswers if queries.is_about_single_columns else TableAnswers
    answers = answers_class(queries, release, discretizer, codes_public, rows.X_public)
    cdf_sizes = [cdf.effective_public_size for cdf in cdfs.values()]
    size = min([release.effective_public_size, *cdf_sizes]) if rows.n_public else 0.0
    mean_weight = None if weight_totals is None else weight_totals.total / rows.n_private
    return FittedRelease(queries, rows.schema, answers, size, mean_weight=mean_weight)


def _release_column_cdfs(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> tuple[dict[int, ReleasedCDF], Noise]:
    """Release the CDF of each numeric column if the query class uses bins at released quantiles.

    The budget is divided equally among all columns and all tables of the downward closure of the
    workload. Stumps need no further tables, since each column has a CDF or a table.

    Returns
    -------
    cdfs : dict of int to ReleasedCDF
        Released CDFs by position of the column. This dict is empty for other query classes.
    table_noise : Gaussian or Pure
        Noise that spends the remaining budget on the tables. If nothing remains (as for stumps on
        numeric columns only), no table is measured, and the noise returned corresponds to the
        entire budget.
    """
    cdfs: dict[int, ReleasedCDF] = {}
    noise, n_features = ledger.noise, len(rows.schema.columns)
    if not queries.releases_columns_first:
        return cdfs, noise
    # errors are raised before any budget is spent
    _check_bounds_of_cdfs(rows.schema, np.flatnonzero(rows.schema.numeric).tolist())
    rows.check(estimator.n_jobs)
    n_tables = 0
    if not queries.is_about_single_columns:
        n_tables = len(downward_closure(queries.tables(rows.schema)))
    share = Fraction(1, n_features + n_tables)
    check_noise_scale(noise.scaled(share), ledger)
    for position in np.flatnonzero(rows.schema.numeric).tolist():
        column_ledger = ledger.sub_ledger(
            noise.scaled(share),
            name=f"{noise.noise_name} on one column, {rows.schema.names[position]}",
            proof="docs/proofs/prefix_sums.md",
        )
        cdf = _release_column_cdf(position, estimator, rows, column_ledger)
        cdfs[position] = replace(cdf, covariance=None)  # megabytes for each column
    remaining_share = 1 - share * len(cdfs)
    return cdfs, noise.scaled(remaining_share) if remaining_share else noise


def _trusted_size(estimator: Any, n_public: int) -> str | float:
    """Return the effective public sample size set by `trust`, or "auto"."""
    trust = estimator.trust  # private rows per public row
    return trust if trust == "auto" else float(trust) * max(n_public, 1)


METHODS: dict[str, Callable[..., FittedRelease]] = {
    "auto": release_auto,
    "pmw": release_pmw,
    "public": release_public,
}
