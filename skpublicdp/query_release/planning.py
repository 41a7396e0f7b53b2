"""Expected error of a release, computed before any fit, and the ε required for a given error.

All computations use only public numbers; no rows are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from skpublicdp.accounting import Gaussian, Measurement, Noise, Sensitivity, noise_scale
from skpublicdp.accounting.cap import BudgetCap
from skpublicdp.accounting.rounding import exact_fraction, written_below
from skpublicdp.data.container import Container
from skpublicdp.data.schema import Column, Schema
from skpublicdp.guarantees.population import check_ranges, smallest_integer
from skpublicdp.query_release.cdf.cdf_posterior import StrategyMeasurement, least_squares
from skpublicdp.query_release.cdf.release import max_grid_cells
from skpublicdp.query_release.cdf.strategies import hierarchy_strategy, prefix_strategy
from skpublicdp.query_release.discretize import max_bins
from skpublicdp.query_release.marginals.count import TOTALS_SHARE
from skpublicdp.query_release.marginals.release import TABLE_SENSITIVITY
from skpublicdp.query_release.queries.base import OneColumnQueries, QueryClass, ThresholdQueries
from skpublicdp.query_release.queries.marginal import MarginalQueries
from skpublicdp.typing import Floats

LARGEST_DEFAULT_DELTA = Fraction(1, 10**6)
"""Upper bound on δ for ``delta=None``, since 1/n² alone would be too large for few rows."""

MEAN_KOLMOGOROV = math.sqrt(math.pi / 2) * math.log(2)
"""Mean of the largest deviation between the empirical and the population CDF, multiplied by √n."""

EPSILON_STEP = 1000
"""The results of `epsilon_for` are multiples of 1 / EPSILON_STEP."""

MAX_PLANNED_EPSILON = 100
"""Largest value of ε that is considered. Errors that require a larger ε are refused, since such an
ε would give no meaningful protection."""

N_NOISE_PATHS = 256
"""Number of simulated paths of the noise in a CDF."""

KINDS = ("rms", "largest")

ErrorOfNoise = Callable[[Noise | None], float]
"""Function that maps a budget to an expected error, where the budget None means that no noise is
added."""


def expected_error(
    epsilon: float | Fraction,
    *,
    n: int,
    queries: QueryClass | int | None = None,
    sizes: Mapping[str, int | None] | Sequence[int | None] | None = None,
    n_public: int = 0,
    delta: float | Fraction | None = None,
    kind: str = "rms",
    max_rows_per_group: int = 1,
    mean_weight: float | None = None,
    design_effect: float | None = None,
) -> float:
    """Estimate the error of a release with ``method="auto"`` before any fit.

    Parameters
    ----------
    epsilon : float
        Privacy budget ε of the release.
    n : int
        Number of private rows.
    queries : QueryClass or int, default=None
        `ThresholdQueries` or `IntervalQueries` (the CDF of one numeric column), `MarginalQueries`
        (tables), or the number of queries of a `CustomQueries` list. ``None`` has the same meaning
        as in `PAPQueryRelease`: tables over pairs of columns if `sizes` is given, otherwise a CDF.
    sizes : dict of str to int, or sequence of int, default=None
        For tables: the number of categories of each column, or ``None`` for a numeric column with
        ``MarginalQueries.bins`` bins. Categories must not be counted in private rows.
    n_public : int, default=0
        Number of public rows from the same population. If the public rows are shifted, the error is
        larger, but not larger than without public rows (``n_public=0``).
    delta : float, default=None
        Privacy budget δ. ``None`` means the default of `PAPQueryRelease`.
    kind : {"rms", "largest"}, default="rms"
        Kind of error: the root mean square error over all cells of the workload, all queries of the
        list or all levels of the CDF, or the expected largest of these errors.
    max_rows_per_group : int, default=1
        The parameter `max_rows_per_group` of a release that protects persons. The noise grows by
        this factor, and for tables and lists, all rows of a person count as one row of the sample.
    mean_weight : float, default=None
        For tables with survey `weights`: expected mean weight divided by the declared maximum, in
        (0, 1], from public knowledge such as a code book. ``None`` means a release without weights.
    design_effect : float, default=None
        For tables with weights: Kish's design effect due to unequal weighting, 1 + CV², where CV is
        the coefficient of variation of the weights. The effective sample size is `n` divided by the
        design effect. ``None`` means the largest possible value, one over `mean_weight`.

    Returns
    -------
    float
        Expected error of the answers, regarded as estimates of the population's fractions. The
        error includes the sampling error of `n` rows.

    Raises
    ------
    ValueError
        If a number is out of range, or if the query class is not supported.

    See Also
    --------
    epsilon_for : The inverse of this function.

    Notes
    -----
    For a fraction p, the variance of the noisy private answer is the noise variance. The prior is
    the fraction among m public rows, whose difference from the fraction of private rows has
    variance p (1 - p) (1/n + 1/m). For a cell of a table, the product of the margins serves as a
    second prior, with variance p². The estimate weights these sources by their precisions. Tables
    are assumed to share the budget equally, and each cell has a fraction of one over the number of
    cells. For the largest error of tables, each table is assumed to have one additional cell with
    fraction 1/2. The noise of a CDF is computed for the measurement strategy on the grid for `n`
    rows. The noise of weighted counts is calibrated to a row with the maximum weight. A sixteenth
    of the budget is spent on the sum of the weights, which is the denominator of weighted
    fractions.

    In tests, the actual errors of releases were mostly .8 to 1 times the expected error, and in
    nine of ten settings .4 to 1.3 times (columns and tables of HI and yrbss, ε from 0.1 to 8, 2,000
    and 20,000 private rows, 0 to 3,000 public rows). With δ = 0 and no public rows, errors were up
    to four times as large in settings where some tables received no share of the budget.

    Examples
    --------
    >>> sizes = {"region": 8, "job": 12, "age": None}
    >>> round(expected_error(1.0, n=20_000, sizes=sizes), 4)
    0.0009
    >>> round(expected_error(1.0, n=20_000, sizes=sizes, n_public=2_000), 4)
    0.0008
    >>> round(expected_error(0.1, n=20_000, queries=ThresholdQueries(), kind="largest"), 3)
    0.019
    """
    check_ranges(epsilon=float(epsilon))
    sample = _private_sample(n, max_rows_per_group, mean_weight, design_effect)
    error_of_noise = _error_function(sample, queries, sizes, n_public, kind)
    return error_of_noise(_noise(epsilon, n, delta))


def epsilon_for(
    error: float,
    *,
    n: int,
    queries: QueryClass | int | None = None,
    sizes: Mapping[str, int | None] | Sequence[int | None] | None = None,
    n_public: int = 0,
    delta: float | Fraction | None = None,
    kind: str = "rms",
    max_rows_per_group: int = 1,
    mean_weight: float | None = None,
    design_effect: float | None = None,
) -> float:
    """Return the smallest ε for which the expected error of a release is at most `error`.

    Parameters
    ----------
    error : float
        Largest acceptable `expected_error`, as a fraction of the population; 0.01 means one
        percentage point.
    n, queries, sizes, n_public, delta, kind, max_rows_per_group, mean_weight, design_effect
        As in `expected_error`.

    Returns
    -------
    float
        The smallest multiple of 0.001 that suffices. The result is 0.001 if public rows alone
        achieve this error.

    Raises
    ------
    ValueError
        If no ε up to 100 suffices because the sampling error of `n` rows is too large. The error
        message states the smallest possible error.

    See Also
    --------
    expected_error : The error for a given ε.
    skpublicdp.guarantees.epsilon_finite : The ε of a classifier that draws one rule.

    Examples
    --------
    What ε do tables of all pairs of three columns require for an error of 0.3 percentage points?

    >>> sizes = {"region": 8, "job": 12, "age": None}
    >>> epsilon_for(0.003, n=20_000, sizes=sizes)
    0.185
    >>> epsilon_for(0.003, n=20_000, sizes=sizes, n_public=500)
    0.085
    """
    check_ranges(error=error)
    sample = _private_sample(n, max_rows_per_group, mean_weight, design_effect)
    error_of_noise = _error_function(sample, queries, sizes, n_public, kind)
    smallest_error = error_of_noise(_noise(MAX_PLANNED_EPSILON, n, delta))
    if smallest_error > error:
        raise ValueError(
            f"error must be at least {smallest_error:.2g} for n = {n}, which is the expected error "
            f"at epsilon = {MAX_PLANNED_EPSILON}; got {error:g}. The sampling error alone, which "
            f"does not depend on epsilon, is {error_of_noise(None):.2g}."
        )

    def is_sufficient(n_steps: int) -> bool:
        """Indicate whether the expected error at this multiple of the step is at most `error`."""
        return error_of_noise(_noise(Fraction(n_steps, EPSILON_STEP), n, delta)) <= error

    return smallest_integer(is_sufficient) / EPSILON_STEP


def _noise(epsilon: float | Fraction, n: int, delta: float | Fraction | None) -> Noise:
    """Return a single noise event that spends (ε, δ), with the default δ of a release."""
    delta = default_delta(n) if delta is None else delta
    plan = BudgetCap(exact_fraction(epsilon), exact_fraction(delta)).default_plan()
    assert isinstance(plan, Noise)
    return plan


class _PrivateSample(NamedTuple):
    """Description of the private sample in a planned release."""

    n: int  # number of rows
    rows_per_person: int  # number of rows per person, which are protected together
    # Expected sum of the weights of all rows, in units of the maximum weight. Without weights, the
    # total is n.
    total: float
    size: float  # effective sample size for tables and lists
    noise_share: Fraction  # share of the budget for the tables

    @property
    def is_weighted(self) -> bool:
        """Whether the rows have survey weights."""
        return self.noise_share < 1

    def noise_variance(self, noise: Noise, sensitivity: Sensitivity) -> float:
        """Return the noise variance of counts that are measured jointly, in squared fractions."""
        k = self.rows_per_person
        per_person = Sensitivity(k * sensitivity.absolute, k * k * sensitivity.squared)
        _, variance = noise_scale(noise.scaled(self.noise_share), per_person)
        return variance / self.total**2


def _private_sample(
    n: int, rows_per_person: int, mean_weight: float | None, design_effect: float | None
) -> _PrivateSample:
    """Check all arguments, and return a description of the private sample in a planned release."""
    check_ranges(n=n)
    given: Any = rows_per_person
    if not isinstance(given, Integral) or given < 1:
        raise ValueError(f"max_rows_per_group must be a positive whole number; got {given!r}.")
    k = int(given)
    if mean_weight is None:
        if design_effect is not None:
            raise ValueError(
                "design_effect requires mean_weight, the mean weight divided by the maximum weight."
            )
        return _PrivateSample(n, k, float(n), n / k, Fraction(1))
    if not 0 < mean_weight <= 1:
        raise ValueError(
            "mean_weight must be the mean weight divided by the maximum weight, above 0 and at "
            f"most 1; got {mean_weight!r}."
        )
    max_effect = 1 / mean_weight  # attained if all weights are 0 or the maximum
    effect = max_effect if design_effect is None else design_effect
    if not 1 <= effect <= max_effect:
        raise ValueError(
            f"design_effect must be from 1 to 1 / mean_weight = {max_effect:.4g}; got {effect!r}."
        )
    return _PrivateSample(n, k, n * mean_weight, n / effect / k, 1 - TOTALS_SHARE)


def _error_function(
    sample: _PrivateSample,
    queries: QueryClass | int | None,
    sizes: Mapping[str, int | None] | Sequence[int | None] | None,
    n_public: int,
    kind: str,
) -> ErrorOfNoise:
    """Check all arguments, and return the expected error as a function of the noise."""
    if not 0 <= n_public < math.inf:
        raise ValueError(f"n_public must be finite and at least 0; got {n_public!r}.")
    if kind not in KINDS:
        raise ValueError(f"kind must be 'rms' or 'largest'; got {kind!r}.")
    if queries is None:
        queries = ThresholdQueries() if sizes is None else MarginalQueries()
    is_largest = kind == "largest"
    if sample.is_weighted and not isinstance(queries, MarginalQueries):
        raise ValueError(
            "mean_weight requires MarginalQueries, because other releases do not support weights."
        )
    if isinstance(queries, OneColumnQueries):
        rows = _Samples(sample.n, n_public)
        return lambda noise: _cdf_error(noise, sample, rows, is_largest)
    samples = _Samples(sample.size, n_public)
    if isinstance(queries, MarginalQueries) and queries.sums:
        raise ValueError(
            "sums is not supported by planning. Plan the tables alone, for half of epsilon."
        )
    if isinstance(queries, MarginalQueries):
        n_cells = _table_sizes(queries, sizes)
        return lambda noise: _tables_error(noise, sample, samples, n_cells, is_largest)
    if isinstance(queries, int) and queries > 0:
        n_queries = queries
        return lambda noise: _list_error(noise, sample, samples, n_queries, is_largest)
    raise ValueError(
        "queries must be ThresholdQueries, IntervalQueries, MarginalQueries or the number of "
        f"queries in a list; got {queries!r}."
    )


class _Samples(NamedTuple):
    """Numbers of rows."""

    n: float  # number of private rows, or their effective number if rows are weighted
    m: int  # public rows

    def error(self, row_variance: Floats, noise: Floats, prior_precision: Floats) -> Floats:
        """Return the expected squared errors of estimated population fractions."""
        # the prior is for the fraction of private rows, so its variance includes both samples
        pooled_size = self.n * self.m / (self.n + self.m)
        pooled_precision = pooled_size / row_variance + prior_precision
        private_weight = 1 / (1 + noise * pooled_precision)
        private_error = row_variance / self.n + noise
        if not self.m and not np.any(prior_precision):
            return private_error
        prior_error = 1 / (self.m / row_variance + prior_precision)
        prior_weight = 1 - private_weight
        return private_weight**2 * private_error + prior_weight**2 * prior_error


def _table_sizes(
    queries: MarginalQueries, sizes: Mapping[str, int | None] | Sequence[int | None] | None
) -> Floats:
    """Return the number of cells in each table of the workload, shape (n_tables,)."""
    if not sizes:
        raise ValueError(
            "If queries is MarginalQueries, sizes must contain the number of categories of each "
            "column, or None for a numeric column."
        )
    if not isinstance(sizes, Mapping):
        sizes = {f"x{position}": size for position, size in enumerate(sizes)}
    names = list(sizes)
    numbers = [
        max_bins(queries.bins, name) if size is None else size for name, size in sizes.items()
    ]
    check_ranges(**{f"sizes of {name}": size for name, size in zip(names, numbers, strict=True)})
    columns = tuple(Column(str(name), np.empty(0), categorical=True) for name in names)
    tables = queries.tables(Schema(columns, Container(None, tuple(names))))
    return np.array([math.prod(numbers[position] for position in table) for table in tables], float)


def _tables_error(
    noise: Noise | None,
    sample: _PrivateSample,
    samples: _Samples,
    n_cells: Floats,
    is_largest: bool,
) -> float:
    """Return the expected error of tables, given their numbers of cells."""
    n_tables = len(n_cells)
    variance = 0.0
    if noise is not None:  # all tables share the budget
        variance = sample.noise_variance(noise.scaled(Fraction(1, n_tables)), TABLE_SENSITIVITY)
    noise_variance = np.full(n_tables, variance)
    # a table with a single cell is known exactly; the cap keeps the variance of a row above 0
    fractions = np.minimum(1 / n_cells, 1 / 2)
    row_variances = fractions * (1 - fractions)
    squared_errors = samples.error(row_variances, noise_variance, 1 / fractions**2)
    if not is_largest:
        return math.sqrt(np.average(squared_errors, weights=n_cells))
    largest = _expected_largest(np.sqrt(squared_errors), n_cells)
    halves = np.full(n_tables, 0.5)
    squared_errors = samples.error(halves / 2, noise_variance, 1 / halves**2)
    largest_of_halves = _expected_largest(np.sqrt(squared_errors), np.ones(n_tables))
    return math.hypot(largest, largest_of_halves)


def _list_error(
    noise: Noise | None,
    sample: _PrivateSample,
    samples: _Samples,
    n_queries: int,
    is_largest: bool,
) -> float:
    """Return the expected error of listed queries that hold for half of the rows."""
    noise_variance = 0.0
    if noise is not None:
        # a replaced row changes each count by at most 1
        noise_variance = sample.noise_variance(noise, Sensitivity(n_queries, n_queries))
    squared_error = samples.error(np.array([0.25]), np.array([noise_variance]), np.zeros(1))
    if is_largest:
        return _expected_largest(np.sqrt(squared_error), np.array([float(n_queries)]))
    return math.sqrt(squared_error.item())


def _cdf_error(
    noise: Noise | None, sample: _PrivateSample, samples: _Samples, is_largest: bool
) -> float:
    """Return the expected error of a released CDF."""
    noise_variance, largest_noise = np.zeros(99), 0.0
    levels = np.arange(1, 100) / 100
    if noise is not None:
        n_cells = max_grid_cells(noise, sample.n / sample.rows_per_person)
        unit_variances, unit_largest, sensitivity = _prefix_sum_noise(
            n_cells, isinstance(noise, Gaussian)
        )
        variance = sample.noise_variance(noise, sensitivity)
        noise_variance = unit_variances * variance
        largest_noise = unit_largest * math.sqrt(variance)
        levels = np.arange(1, n_cells) / n_cells
    if not is_largest:
        squared_errors = samples.error(levels * (1 - levels), noise_variance, np.zeros(1))
        return math.sqrt(squared_errors.mean())
    # sampling errors are Brownian bridges, whose maxima have the Kolmogorov distribution
    row_variance = np.array([MEAN_KOLMOGOROV**2])
    squared_error = samples.error(row_variance, np.array([largest_noise**2]), np.zeros(1))
    return math.sqrt(squared_error.item())


@lru_cache(maxsize=64)
def _prefix_sum_noise(n_cells: int, is_gaussian: bool) -> tuple[Floats, float, Sensitivity]:
    """Return the noise of prefix sums if the answers of a grid's strategy have noise of variance 1.

    The result contains the variances, the expected maximum of the absolute noise, and the
    sensitivity of the strategy's answers.
    """
    strategy = prefix_strategy(n_cells, Fraction(1))
    if not is_gaussian:
        strategy = hierarchy_strategy(n_cells)
    answers = np.zeros(len(strategy.matrix), dtype=np.int64)
    measurement = Measurement(answers, Fraction(1), 1.0)
    unit = StrategyMeasurement(strategy, measurement)
    covariance = least_squares([unit], 1).covariance
    variances = np.diag(covariance).copy()
    generator = np.random.default_rng(0)
    normals = generator.normal(size=(n_cells - 1, N_NOISE_PATHS))
    paths = np.linalg.cholesky(covariance) @ normals
    largest_of_path = np.abs(paths).max(axis=0)
    return variances, float(largest_of_path.mean()), strategy.sensitivity


def _expected_largest(deviations: Floats, counts: Floats) -> float:
    """Return the expected maximum of the absolute values of independent normal variables.

    Notes
    -----
    The mean is computed as the integral of P(largest > x) over x.
    """
    x = np.linspace(0, 12 * deviations.max(), 4001)
    inside = 2 * ndtr(x[:, None] / deviations) - 1
    exceeds = 1 - np.prod(inside**counts, axis=1)
    return float(np.trapezoid(exceeds, x))


def default_delta(n: int) -> float:
    """Return the default δ for n private rows (``delta=None``), rounded down to a float.

    Examples
    --------
    >>> default_delta(2), default_delta(10_000)
    (1e-06, 1e-08)
    """
    return written_below(min(LARGEST_DEFAULT_DELTA, Fraction(1, max(n, 1) ** 2)))
