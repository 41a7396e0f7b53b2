"""Second moments of bounded rows: their release, and moments without noise that are as likely.

A row is a vector of coordinates in [-1, 1]: the number 1, each number of the row scaled by its
bounds, and the indicators of all categories of each categorical column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skpublicdp.accounting import Gaussian, Sensitivity
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.schema import Schema
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.query_release.bounded_numbers import to_units
from skpublicdp.query_release.ratios import ratios
from skpublicdp.typing import Floats, Integers

MIN_UNITS, MAX_UNITS = 1 << 6, 1 << 15
"""Limits of the integer that represents 1. Products of two coordinates are at most 2^30."""

ROWS_PER_BLOCK = 1 << 16
"""Number of rows whose products are summed in float64, which is exact up to 2^23 rows."""

CELLS_PER_BATCH = 1 << 20
"""Number of floats of a batch of simulated matrices, to limit memory."""

DRAWS_PER_TAIL = 50
"""Number of simulated matrices beyond each end of an interval."""

MAX_PUBLIC_ROWS = 10_000
"""Number of public rows, evenly spaced, that determine the shape of sampling errors."""

CONSISTENCY_PASSES = 8
"""Number of alternating projections onto the constraints of categories."""

SECOND_MOMENTS_PROOF = "docs/proofs/second_moments.md"


@dataclass(frozen=True, eq=False)
class RowCoordinates:
    """The coordinates of a row, which depend on this row, the schema and public bounds alone."""

    schema: Schema
    bounds: dict[int, tuple[float, float]]  # encoded bounds of the numeric columns, by position
    units: int = MAX_UNITS  # the integer that represents 1, an even number

    @cached_property
    def columns(self) -> list[Integers]:
        """The positions of the coordinates of each column of the schema."""
        sizes = [c.n_categories if c.categorical else 1 for c in self.schema.columns]
        ends = 1 + np.cumsum(sizes)
        return [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates, including the constant 1."""
        return int(self.columns[-1][-1]) + 1

    @cached_property
    def names(self) -> list[str]:
        """Names of the coordinates: a column, or ``column=category``."""
        names = ["(intercept)"]
        for column in self.schema.columns:
            if column.categorical:
                names += [f"{column.name}={category}" for category in column.names]
            else:
                names.append(column.name)
        return names

    @property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity of the sums of products to the replacement of a row."""
        n_columns = len(self.schema.columns)
        n_numbers = len(self.bounds)
        n_categorical = n_columns - n_numbers
        n_changed = n_columns * (n_columns + 2) + n_categorical
        changed_squares = n_numbers + 2 * n_categorical
        twice_squared = 2 * (1 + n_columns) ** 2 + changed_squares
        squared = self.units**4 * twice_squared // 2
        return Sensitivity(self.units**2 * n_changed, squared)

    def integers(self, rows: Floats) -> Integers:
        """Return the coordinates of encoded rows as integers, shape (n, n_coordinates)."""
        n = len(rows)
        integers = np.zeros((n, self.n_coordinates), dtype=np.int64)
        integers[:, 0] = self.units
        for position, coordinates in enumerate(self.columns):
            values, first = rows[:, position], coordinates[0]
            if position in self.bounds:
                low, high = self.bounds[position]
                integers[:, first] = to_units(values, low, high, self.units)
            else:
                own_category = first + values.astype(np.intp)
                integers[np.arange(n), own_category] = self.units
        return integers

    def sums(self, rows: Floats) -> Integers:
        """Return the sums of the products of all pairs of coordinates, without the first pair."""
        sums = np.zeros((self.n_coordinates, self.n_coordinates), dtype=np.int64)
        for start in range(0, len(rows), ROWS_PER_BLOCK):
            block = self.integers(rows[start : start + ROWS_PER_BLOCK]).astype(np.float64)
            sums += (block.T @ block).astype(np.int64)  # exact integers below 2^53
        return sums[np.triu_indices(self.n_coordinates)][1:]


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """Released sums of products of coordinates, in units of rows."""

    coordinates: RowCoordinates
    matrix: Floats  # (n_coordinates, n_coordinates)
    noise_sd: float  # of each pair of coordinates
    is_gaussian: bool
    n: int  # number of private rows
    persons: float  # number of independent persons
    public: Floats  # (m, n_coordinates): coordinates of the public rows

    def block(self, coordinates: Integers) -> Floats:
        """Return the estimated moments of some coordinates.

        The result contains all categories of a column, or none of them.
        """
        matrices = self.matrix[np.ix_(coordinates, coordinates)][None]
        return self._consistent(matrices, coordinates, float(self.n))[0]

    def draws(self, coordinates: Integers, level: float) -> Iterator[Floats]:
        """Yield batches of moments that may have led to the release, shape (n_draws, k, k).

        The draws are the estimate minus simulated noise, i.e. the posterior under a flat prior.
        """
        estimate = self.block(coordinates)
        k = len(coordinates)
        generator = np.random.default_rng(0)
        draw, scale = generator.normal, self.noise_sd
        if not self.is_gaussian:
            draw, scale = generator.laplace, self.noise_sd / math.sqrt(2)
        first, second = np.triu_indices(k)
        batch = max(1, CELLS_PER_BATCH // k**2)
        n_left = math.ceil(2 * DRAWS_PER_TAIL / (1 - level))
        while n_left:
            size = min(n_left, batch)
            n_left -= size
            noise = np.zeros((size, k, k))
            noise[:, first, second] = draw(0, scale, (size, len(first)))
            noise[:, second, first] = noise[:, first, second]
            yield estimate - self._consistent(noise, coordinates, 0.0)

    def _consistent(self, matrices: Floats, coordinates: Integers, corner: float) -> Floats:
        """Return the nearest matrices that agree with the facts about indicators.

        The first coordinate is the constant, whose square adds up to `corner`. The indicators of a
        column add up to 1, and so the sum of their rows is the first row. Products of two different
        indicators of a column are 0, and the square of an indicator is the indicator. These
        constraints are two linear spaces. Alternating projections converge to the projection onto
        both of them.
        """
        indicators = [
            np.flatnonzero(np.isin(coordinates, columns))
            for columns in self.coordinates.columns
            if len(columns) > 1 and columns[0] in coordinates
        ]
        constraints = np.zeros((len(coordinates), len(indicators)))
        constraints[0] = -1
        for number, group in enumerate(indicators):
            constraints[group, number] = 1
        sums = np.eye(len(coordinates)) - constraints @ np.linalg.pinv(constraints)
        matrices = matrices.copy()
        for i in range(CONSISTENCY_PASSES if indicators else 1):
            if i:
                matrices = sums @ matrices @ sums
            matrices[:, 0, 0] = corner
            for group in indicators:
                counts = (matrices[:, group, group] + 2 * matrices[:, 0, group]) / 3
                counts += (corner - counts.sum(axis=1, keepdims=True)) / len(group)
                matrices[:, group[:, None], group] = 0
                matrices[:, group, group] = counts
                matrices[:, 0, group] = matrices[:, group, 0] = counts
        return matrices


def finest_coordinates(coordinates: RowCoordinates, ledger: Ledger) -> RowCoordinates:
    """Return the coordinates with the finest grid for which the noise can be drawn.

    The grid depends on the budget and on the number of columns alone.
    """
    while not noise_is_representable(ledger.noise, ledger.for_person(coordinates.sensitivity)):
        if coordinates.units == MIN_UNITS:
            raise ValueError(
                f"The noise of the second moments of {len(coordinates.columns)} columns is too "
                f"large to be drawn at epsilon = {float(ledger.epsilon):g}. Release fewer columns."
            )
        coordinates = replace(coordinates, units=coordinates.units // 2)
    return coordinates


def release_second_moments(
    rows: Dataset, coordinates: RowCoordinates, ledger: Ledger
) -> SecondMoments:
    """Release the second moments of the private rows, spending the ledger's entire budget."""
    noise = ledger.noise
    noisy = ledger.add_noise(
        rows.fold(lambda X, _: coordinates.sums(X)),
        coordinates.sensitivity,
        noise,
        name=f"{noise.noise_name} on second moments",
        proof=SECOND_MOMENTS_PROOF,
    )
    k, unit = coordinates.n_coordinates, float(coordinates.units**2)
    step = -(-rows.n_public // MAX_PUBLIC_ROWS) or 1
    matrix = np.zeros((k, k))
    matrix[np.triu_indices(k)] = np.concatenate([[rows.n_private], noisy.values / unit])
    matrix += np.triu(matrix, 1).T
    return SecondMoments(
        coordinates,
        matrix,
        noise_sd=math.sqrt(noisy.variance) / unit,
        is_gaussian=isinstance(noise, Gaussian),
        n=rows.n_private,
        persons=rows.n_private / ledger.rows_per_person,
        public=coordinates.integers(rows.X_public[: rows.n_public : step]) / coordinates.units,
    )


MIN_COUNT_IN_SDS = 5.0
"""Smallest released count of a category with a coefficient, in standard deviations of noise."""

PUBLIC_ROWS_PER_COEFFICIENT = 5
"""Smallest number of public rows per coefficient that determine the shape of sampling errors."""


def regression_intervals(
    moments: SecondMoments, target: int, columns: Sequence[int], level: float
) -> tuple[list[str], Floats]:
    """Return names, and the coefficients with their lower and upper ends, shape (k, 3).

    The target is the coordinate of the outcome, whose column is not among the regressors' columns.
    """
    layout = moments.coordinates
    own = next(column for column in layout.columns if target in column)
    coordinates = np.concatenate([[0], *(layout.columns[c] for c in columns), own])
    estimate = moments.block(coordinates)
    groups = [np.flatnonzero(np.isin(coordinates, layout.columns[c])) for c in columns]
    regressors = [0]
    for group in groups:
        counts = estimate[0, group]
        has_coefficient = counts > MIN_COUNT_IN_SDS * moments.noise_sd
        has_coefficient[np.argmax(counts)] = False  # the reference
        regressors += (group[has_coefficient] if len(group) > 1 else group).tolist()
    outcome = int(np.flatnonzero(coordinates == target)[0])
    to_zero, factors, shift = _user_units(moments, coordinates[regressors], target)

    def solve(matrices: Floats) -> tuple[Floats, Floats, Floats]:
        """Return coefficients, inverse matrices of the regressors, and residual variances."""
        products = matrices[:, regressors, outcome]
        rows = matrices[:, regressors]
        squares = rows[:, :, regressors]
        inverses = np.asarray(np.linalg.inv(squares), dtype=np.float64)
        coefficients = np.einsum("dij,dj->di", inverses, products)
        explained = np.einsum("di,di->d", coefficients, products)
        total = matrices[:, outcome, outcome]
        residual_squares = np.maximum(total - explained, 0)
        residual_variances: Floats = residual_squares / moments.n
        return coefficients, inverses, residual_variances

    centre = solve(estimate[None])[0][0]
    inflation = _sampling_inflation(moments, coordinates[regressors], target, centre, to_zero)

    def simulate(matrices: Floats, generator: np.random.Generator) -> Floats:
        """Return drawn coefficients, which are infinite if only noise determines them."""
        coefficients, inverses, residual_variances = solve(matrices)
        unit_variances = np.einsum("ij,djk,ik->di", to_zero, inverses, to_zero, optimize=True)
        inflated_variances = residual_variances[:, None] * inflation
        variances = inflated_variances * np.maximum(unit_variances, 0)
        normal = generator.normal(size=variances.shape)
        sampling_errors = np.sqrt(variances) * normal
        drawn = coefficients @ to_zero.T + sampling_errors
        # if the variance is negative, the noise exceeds what determines the coefficient
        signs = generator.choice([-np.inf, np.inf], drawn.shape)
        has_variance = unit_variances > 0
        return np.where(has_variance, drawn, signs)

    low, high = _simulated_ends(moments, coordinates, level, simulate)
    values = to_zero @ centre
    with np.errstate(over="ignore", invalid="ignore"):
        ends = factors[:, None] * np.column_stack([values, low, high])
        ends[0] += shift
    ends[~np.isfinite(ends).all(axis=1), 0] = np.nan
    return [layout.names[coordinate] for coordinate in coordinates[regressors]], ends


def _simulated_ends(
    moments: SecondMoments,
    coordinates: Integers,
    level: float,
    simulate: Callable[[Floats, np.random.Generator], Floats],
) -> Floats:
    """Return the lower and upper ends of central intervals of simulated values, shape (2, k)."""
    generator = np.random.default_rng(1)
    draws = [simulate(matrices, generator) for matrices in moments.draws(coordinates, level)]
    simulated = np.concatenate(draws)
    tail = (1 - level) / 2
    low = np.quantile(simulated, tail, axis=0, method="lower")
    high = np.quantile(simulated, 1 - tail, axis=0, method="higher")
    return np.stack([low, high])


def _user_units(
    moments: SecondMoments, coordinates: Integers, target: int
) -> tuple[Floats, Floats, float]:
    """Return a matrix, factors and a shift, which turn coefficients into those of user's units.

    The matrix moves the intercept to the row whose numbers are 0. The factors on all coefficients
    follow, and the shift of the intercept.
    """
    layout = moments.coordinates
    middles = np.zeros(layout.n_coordinates)
    halves = np.ones(layout.n_coordinates)
    for position, (low, high) in layout.bounds.items():
        coordinate = layout.columns[position][0]
        offset = layout.schema.columns[position].offset
        middles[coordinate] = low / 2 + high / 2 + offset
        halves[coordinate] = high / 2 - low / 2
    to_zero = np.eye(len(coordinates))
    numbers = coordinates[1:]
    to_zero[0, 1:] = -middles[numbers] / halves[numbers]
    with np.errstate(over="ignore"):  # of bounds near the limits of floats
        factors = halves[target] / halves[coordinates]
    return to_zero, factors, float(middles[target])


def _sampling_inflation(
    moments: SecondMoments,
    coordinates: Integers,
    target: int,
    coefficients: Floats,
    to_zero: Floats,
) -> Floats:
    """Return the factors on the sampling variances of coefficients with residuals of one variance.

    They are the ratios of the sandwich estimate of public rows to its value for residuals of one
    variance, at least 1, times the number of private rows per person.
    """
    rows_per_person = moments.n / moments.persons
    public = moments.public[:, coordinates]
    if len(public) < PUBLIC_ROWS_PER_COEFFICIENT * len(coordinates):
        return np.full(len(coordinates), rows_per_person)
    predicted = public @ coefficients
    squared_residuals = (moments.public[:, target] - predicted) ** 2
    inverse = np.linalg.pinv(public.T @ public)
    influence = public @ inverse @ to_zero.T  # (m, k)
    squared_influence = influence**2
    robust = squared_residuals @ squared_influence
    plain = squared_residuals.mean() * squared_influence.sum(axis=0)
    return rows_per_person * np.maximum(ratios(robust, plain, 1.0), 1)


def correlation_intervals(moments: SecondMoments, columns: Sequence[int], level: float) -> Floats:
    """Return the correlations of all pairs of numeric columns, with intervals, shape (n_pairs, 3).

    The pairs are in the order of the upper triangle of the correlation matrix.
    """
    coordinates = np.concatenate([[0], *(moments.coordinates.columns[c] for c in columns)])
    first, second = np.triu_indices(len(columns), 1)

    def correlate(matrices: Floats) -> tuple[Floats, Floats]:
        """Return correlations, and a mask of those of two columns that vary beyond the noise."""
        means = matrices[:, 0, 1:] / moments.n
        squared_means = means[:, :, None] * means[:, None]
        squares = matrices[:, 1:, 1:] / moments.n
        covariances = squares - squared_means
        variances = np.einsum("dii->di", covariances)
        first_variances = variances[:, first]
        second_variances = variances[:, second]
        is_known = (first_variances > 0) & (second_variances > 0)
        products = first_variances * second_variances
        products = np.where(is_known, products, 1)
        quotients = covariances[:, first, second] / np.sqrt(products)
        correlations = np.clip(quotients, -1, 1)
        return correlations, is_known

    values, is_known = (result[0] for result in correlate(moments.block(coordinates)[None]))
    sampling_sd = np.sqrt(_correlation_variances(moments, coordinates[1:], values))

    def simulate(matrices: Floats, generator: np.random.Generator) -> Floats:
        """Return drawn correlations, or -1 or 1 if a column does not vary beyond the noise."""
        drawn, is_drawn = correlate(matrices)
        drawn = drawn + sampling_sd * generator.normal(size=drawn.shape)
        return np.where(is_drawn, drawn, generator.choice([-1, 1], drawn.shape))

    low, high = np.clip(_simulated_ends(moments, coordinates, level, simulate), -1, 1)
    return np.column_stack([np.where(is_known, values, np.nan), low, high])


def _correlation_variances(moments: SecondMoments, coordinates: Integers, values: Floats) -> Floats:
    """Return the sampling variances of correlations.

    They are those of normal columns, or those of the public rows if the latter are larger.
    """
    variances = (1 - values**2) ** 2
    public = moments.public[:, coordinates]
    is_enough = len(public) >= PUBLIC_ROWS_PER_COEFFICIENT * len(coordinates)
    if is_enough and np.ptp(public, axis=0).all():
        scores = (public - public.mean(axis=0)) / public.std(axis=0)
        first, second = np.triu_indices(len(coordinates), 1)
        first_scores = scores[:, first]
        second_scores = scores[:, second]
        products = first_scores * second_scores
        squares = first_scores**2 + second_scores**2
        influence = products - products.mean(axis=0) * squares / 2
        of_public = (influence**2).mean(axis=0)
        variances = np.maximum(variances, of_public)
    return variances / moments.persons


def variance_intervals(moments: SecondMoments, columns: Sequence[int], level: float) -> Floats:
    """Return the variances of numeric columns in user's units, with intervals, shape (k, 3)."""
    layout = moments.coordinates
    coordinates = np.concatenate([[0], *(layout.columns[c] for c in columns)])
    widths = np.array([high - low for low, high in (layout.bounds[c] for c in columns)])

    def variances(matrices: Floats) -> Floats:
        """Return the variances of the coordinates, which may be negative, (n_draws, k)."""
        means = matrices[:, 0, 1:] / moments.n
        squares = np.einsum("dii->di", matrices[:, 1:, 1:])
        return np.asarray(squares / moments.n - means**2)

    values = np.maximum(variances(moments.block(coordinates)[None])[0], 0)
    # fourth moments of normal columns, or those of the public rows if they are larger
    fourth_moments = 3 * values**2
    public = moments.public[:, coordinates[1:]]
    if len(public) >= PUBLIC_ROWS_PER_COEFFICIENT:
        deviations = public - public.mean(axis=0)
        of_public = (deviations**4).mean(axis=0)
        fourth_moments = np.maximum(fourth_moments, of_public)
    sampling_variances = (fourth_moments - values**2) / moments.persons
    sampling_sd = np.sqrt(sampling_variances)

    def simulate(matrices: Floats, generator: np.random.Generator) -> Floats:
        """Return drawn variances."""
        drawn = variances(matrices)
        return drawn + sampling_sd * generator.normal(size=drawn.shape)

    low, high = np.maximum(_simulated_ends(moments, coordinates, level, simulate), 0)
    halves_squared = (widths / 2) ** 2
    return np.column_stack([values, low, high]) * halves_squared[:, None]
