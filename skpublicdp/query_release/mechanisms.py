"""Mechanisms of a release with the methods `auto`, `pmw` and `public`.

This module contains the mechanisms of `auto`, which use the measurements in `cdf/` and
`marginals/`, and the measurement of listed queries. `pmw/release.py` contains the mechanism of
`pmw`, in which exactly drawn queries update the weights of public rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Gaussian, Noise, Sensitivity
from skpublicdp.data.dataset import Dataset, PrivateColumnCounts
from skpublicdp.data.schema import Schema
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.query_release.answers import (
    CDFAnswers,
    ColumnAnswers,
    CountAnswers,
    FittedRelease,
    RowAnswers,
    TableAnswers,
)
from skpublicdp.query_release.bounded_numbers import UNITS
from skpublicdp.query_release.cdf.grid import ColumnCounts, SortedColumn
from skpublicdp.query_release.cdf.release import MAX_ABS_BOUND, MIN_WIDTH, release_cdf
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.cdf.strategies import check_noise_scale
from skpublicdp.query_release.discretize import QueryIndicators
from skpublicdp.query_release.effective_sizes import effective_sample_size
from skpublicdp.query_release.marginals.count import (
    MEMORY_BYTES,
    TOTALS_SHARE,
    release_weight_totals,
)
from skpublicdp.query_release.marginals.marginal_model import downward_closure
from skpublicdp.query_release.marginals.release import (
    MARGINALS_PROOF,
    MarginalRelease,
    release_tables,
)
from skpublicdp.query_release.marginals.table import TableMeasurement
from skpublicdp.query_release.measured_sums import (
    MeasuredSum,
    plan_sums,
    read_sums,
    release_sums,
    sum_shares,
)
from skpublicdp.query_release.pmw.release import release_pmw
from skpublicdp.query_release.queries.base import OneColumnQueries, QueryClass
from skpublicdp.query_release.queries.custom import CustomQueries
from skpublicdp.query_release.queries.structural_zeros import impossible_combinations
from skpublicdp.query_release.synthetic import WeightedRows
from skpublicdp.typing import Floats


def release_linear_queries(
    counts: NDArray[np.int64],
    n_private: int,
    public: NDArray[Any],
    *,
    ledger: Ledger,
    trust: str | float = "auto",
    units: int = 1,
) -> MarginalRelease:
    """Release the fractions of private rows that satisfy the queries of a list.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_queries,)
        Number of private rows for which each query holds.
    n_private : int
        Number of private rows.
    public : ndarray of int, shape (m, n_queries)
        Value 1 if a query holds for a public row. The array may have no rows.
    ledger : Ledger
        Privacy ledger, whose entire budget is spent on Gaussian noise, or on Laplace noise
        if δ = 0.
    trust : "auto" or float
        Effective size of the public sample, in private rows. By default, this size is estimated.
    units : int, default=1
        Largest integer that a row adds to a count. If it is not 1, queries are shares from 0 to 1.

    Returns
    -------
    MarginalRelease
        One table per query, which contains the fraction of rows for which the query does not hold,
        and the fraction for which it holds.

    Raises
    ------
    ValueError
        If the noise is too large to be drawn. In this case, nothing is charged.

    Notes
    -----
    Replacing a row changes each count by at most `units`.

    The prior of the fractions is normal. If public rows are a sample from the same population, the
    prior mean is the vector of public fractions (with half a row added), and the prior covariance
    is S κ. Here, S is the covariance of the answers for a single row, and κ = 1/m + 1/n. A
    distribution shift increases κ, as in `MarginalModel`. The posterior mean is linear in the noisy
    answers. The posterior mean converges to these answers as the noise variance goes to zero,
    because S has full rank.

    Examples
    --------
    >>> half = np.array([[0, 1], [1, 1], [0, 0], [1, 0]] * 25)
    >>> counts, ledger = np.array([500, 400]), Ledger(1, 1e-6, 0)
    >>> release = release_linear_queries(counts, 1000, half, ledger=ledger)
    >>> release.fractions[1,].round(1)
    array([0.6, 0.4])
    """
    n_queries, m = len(counts), len(public)
    noise, sensitivity = ledger.noise, Sensitivity(n_queries, n_queries)
    if units > 1:
        sensitivity = Sensitivity(n_queries * units, n_queries * units**2)
    if not noise_is_representable(noise, ledger.for_person(sensitivity)):
        raise ValueError(
            f"The noise of {n_queries} answers is too large to be drawn at epsilon = "
            f"{float(ledger.epsilon):g}. Release fewer queries."
        )
    noisy = ledger.add_noise(
        counts,
        sensitivity,
        noise,
        name=f"{noise.noise_name} on {n_queries} answers",
        proof="docs/proofs/marginals.md",
    )
    total = n_private * units
    values, variance = noisy.values / total, noisy.variance / total**2
    persons = n_private / ledger.rows_per_person
    prior_mean, prior_covariance = _public_prior(public)
    mean, posterior_variance, scale = _posterior(
        values,
        noise_variance=np.full(n_queries, variance),
        prior_mean=prior_mean,
        prior_covariance=prior_covariance,
        base_scale=1 / (m + 1) + 1 / persons,
        effective_size=None if isinstance(trust, str) else min(float(trust), m + 1),
    )
    fractions = np.clip(mean, 0, 1)
    row_variance = fractions * (1 - fractions)
    if units > 1:  # with one additional row at each end
        public_variance = m * public.var(axis=0) if m else 0.0
        row_variance = (public_variance + 2 * row_variance) / (m + 2)
    sampling_variance = row_variance / persons
    deviations = np.sqrt(posterior_variance + sampling_variance)
    # query j is column j of the tables, with the codes 0 (does not hold) and 1 (holds)
    return MarginalRelease(
        fractions={(j,): np.array([1 - p, p]) for j, p in enumerate(fractions)},
        deviations={(j,): np.array([sd, sd]) for j, sd in enumerate(deviations)},
        sizes=(2,) * n_queries,
        effective_public_size=min(1 / scale, float(m)),
        measured={
            (j,): TableMeasurement(np.array([1 - value, value]), variance)
            for j, value in enumerate(values)
        },
        persons=persons,
        gaussian=isinstance(noise, Gaussian),
    )


def _public_prior(public: NDArray[np.integer]) -> tuple[Floats, Floats]:
    """Return the prior mean of the fractions, and the covariance of the answers for a single row.

    `public` contains 1 if a query holds for a public row, and 0 otherwise, shape (m, n_queries).
    """
    m, n_queries = public.shape
    # one additional row with answer 1/2 and variance 1/4 makes covariances regular
    mean = (public.sum(axis=0) + 0.5) / (m + 1)
    covariance = 0.25 * np.eye(n_queries) / (m + 1)
    if m:
        centred = public - public.mean(axis=0)
        covariance += centred.T @ centred / (m + 1)
    return mean, covariance


def _posterior(
    values: Floats,  # (n_queries,)
    *,
    noise_variance: Floats,  # (n_queries,)
    prior_mean: Floats,
    prior_covariance: Floats,
    base_scale: float,
    effective_size: float | None = None,
) -> tuple[Floats, Floats, float]:
    """Return mean and variance of the posterior of the fractions, and the scale of their prior.

    The prior covariance is ``prior_covariance * scale``. The scale is one over the effective public
    sample size. For noisy fractions y, prior mean μ, prior covariance P and noise covariance W, the
    posterior mean is y - W (P + W)⁻¹ (y - μ) and the posterior covariance is W - W (P + W)⁻¹ W.

    The diagonal matrix D whitens the noise. Let U and λ be the eigenvectors and eigenvalues of the
    prior covariance after whitening. Then (P + W)⁻¹ = D U diag(1 / (scale λ + 1)) Uᵀ D. This
    formula remains precise if the noise is close to zero.
    """
    whitening = 1 / np.sqrt(noise_variance)
    eigenvalues, eigenvectors = np.linalg.eigh(prior_covariance * whitening[:, None] * whitening)
    eigenvalues = np.maximum(eigenvalues, 0)
    residuals = eigenvectors.T @ (whitening * (values - prior_mean))
    if effective_size is None:
        effective_size = effective_sample_size(residuals**2, eigenvalues, 1.0, base_scale)
    scale = 1 / effective_size
    gain = (noise_variance * whitening)[:, None] * eigenvectors  # W D U
    shrinkage = 1 / (scale * eigenvalues + 1)
    variance = noise_variance - (gain**2) @ shrinkage
    mean = values - gain @ (shrinkage * residuals)
    return mean, np.maximum(variance, 0), scale


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
    assert isinstance(queries, CustomQueries)
    units = 1
    codes_public: Any
    if not queries.are_numbers:
        codes_public = indicators.parallel_codes(rows.X_public, estimator.n_jobs)
        counts = rows.fold(lambda X, _: indicators.count(X), estimator.n_jobs)
    else:
        units = 2 * UNITS
        codes_public = queries.units(listed_queries, rows.X_public).T / units
        counts = rows.fold(
            lambda X, _: queries.units(listed_queries, X).sum(axis=1), estimator.n_jobs
        )
    # If there are no public rows (m = 0), X_public is a reference sample. The reference sample is
    # used for synthetic rows, but not for the prior of the fractions.
    release = release_linear_queries(
        counts,
        rows.n_private,
        codes_public[:m],
        ledger=ledger,
        trust=_trusted_size(estimator, m),
        units=units,
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
    zeros = impossible_combinations(queries, rows.schema, codes_public[: rows.n_public])
    weights, weight_totals = queries.weights, None
    sum_columns = read_sums(queries.sums, rows.schema)
    sums: list[MeasuredSum] = []
    if sum_columns:
        of_sums, noise = plan_sums(ledger, len(sum_columns))
        sums = release_sums(
            rows.fold(
                lambda X, _: sum_shares(X, discretizer.codes(X), sum_columns, discretizer.sizes),
                estimator.n_jobs,
            ),
            sum_columns,
            discretizer.sizes,
            rows.n_private,
            ledger=ledger,
            noise=of_sums,
        )
    release = MarginalRelease({}, {}, discretizer.sizes, float(rows.n_public))  # without tables
    if workload:
        if cdfs or sums:  # they were charged for their own shares of the budget
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
            zeros=zeros,
        )
    release = replace(release, sums=tuple(sums))
    answers_class = ColumnAnswers if queries.is_about_single_columns else TableAnswers
    answers = answers_class(queries, release, discretizer, codes_public, rows.X_public)
    cdf_sizes = [cdf.effective_public_size for cdf in cdfs.values()]
    size = min([release.effective_public_size, *cdf_sizes]) if rows.n_public else 0.0
    mean_weight = None if weight_totals is None else weight_totals.total / rows.n_private
    return FittedRelease(queries, rows.schema, answers, size, mean_weight=mean_weight)


def _release_column_cdfs(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> tuple[dict[int, ReleasedCDF], Noise]:
    """Release the CDFs of columns with bins at released quantiles, and return the tables' noise.

    The budget is divided equally among all columns and all tables of the downward closure of the
    workload. Stumps need no further tables, since each column has a CDF or a table. If nothing
    remains, no table is measured, and the noise corresponds to the entire budget.
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
