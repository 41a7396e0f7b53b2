"""Estimate of the coefficients without a prior, and its covariance.

Without a prior, the coefficients w solve S = n E[p a] + D, where p a is the predicted mean of a row
times the row. The expectation is that of the public rows, and D is the difference of private and
public sums of p a. Corrections measured such differences at earlier coefficients. Regression of p a
on the measured terms over the public rows (kriging) predicts D, with a known error. All of this is
post-processing of released numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skpublicdp.linear.coefficient_posterior import PublicDesign
from skpublicdp.linear.glm_loss import GLMLoss
from skpublicdp.typing import Codes, Floats, Mask

MAX_COEFFICIENTS = 128
"""Largest number of coefficients for which the covariance is computed. Its coverage was measured
for up to 100 columns."""

MIN_PUBLIC_ROWS, MIN_ROWS_PER_AXIS = 300, 3
"""Smallest number of public rows, in total and per column, for which coverage was measured. With 60
rows, intervals of 90% contained 85% of the coefficients."""

N_PASSES = 4
"""Number of passes in which the coefficients and the predicted differences determine each other."""

MAX_STEPS, STEP_TOLERANCE = 50, 1e-4
"""Largest number of Newton steps, and root mean square change of the margins at which they end."""

MAX_ROOT_MEAN_SQUARE = 16.0
"""Root mean square of the margins beyond which the labels are taken as separable by noise."""

N_MOVEMENT_PASSES = 6
"""Number of passes in which the error of the curvature and the covariance determine each other."""

ROWS_OF_INFLATION = 60
"""Number of public rows at which their errors have twice the variance that they show. Errors are
estimated from the rows themselves. With 300 rows, intervals of 95% contained .925 of 5 coefficients
of outcomes without this factor (100,000 private rows at ε = 8)."""

MIN_DEGREES, MAX_RATIO = 3.0, 1e4
"""Smallest degrees of freedom, and largest ratio of a variance to its standard error."""

RIDGE = 1e-10
"""Variance that is added to measured terms, relative to the mean, since they may be collinear."""


@dataclass(frozen=True, eq=False)
class Correction:
    """Measured difference of private and public sums of clipped terms."""

    terms: Floats  # (m, k): clipped terms of the public rows
    difference: Floats  # (k,): measured difference
    noise: float  # noise variance of each difference


@dataclass(frozen=True, eq=False)
class ObservedSums:
    """Noisy sums of private rows times targets, and the noise of the sums of rows."""

    n: int  # number of private rows
    sums: Floats  # (k,)
    noise: float
    row_noise: float
    mean_square: float  # mean square of the targets
    public_factor: float  # variance of a public mean times n², in units of the variance of a row


@dataclass(frozen=True, eq=False)
class CoefficientEstimate:
    """Coefficients without a prior, and their covariance."""

    coefficients: Floats  # (n,)
    covariance: Floats  # (n, n)
    # (n,): degrees of freedom of the variances, since few public rows may contribute most of the
    # public error
    degrees: Floats


def estimate_coefficients(
    sample: PublicDesign,
    loss: GLMLoss,
    observed: ObservedSums,
    corrections: list[Correction],
    *,
    start: Floats,  # (k,)
    is_intercept: Mask,  # (k,)
    to_columns: Floats,  # (n, k)
) -> CoefficientEstimate | None:
    """Return linear functions of the coefficients that solve the estimating equation.

    The result is None if the equation has no solution.

    The equation has four independent errors: the sampling of the labels, the noise of the releases,
    the part of D that is not measured, and the error of the public curvature times the error of the
    coefficients. The matrix of the linear functions is `to_columns`, shape (n, k).
    """
    n, m = observed.n, len(sample.weights)
    coefficients = start
    for _ in range(N_PASSES):
        predicted, difference_errors, remainders = _predict_differences(
            sample, loss, observed, corrections, coefficients, is_intercept
        )
        solution = _solve(sample, loss, (observed.sums - predicted) / n, coefficients)
        if solution is None:
            return None
        coefficients = solution

    means = loss.mean(sample.plain @ coefficients)
    curved = sample.weighted * loss.curvature(means)[:, None]
    information = n * curved.T @ sample.plain / m  # (k, k)
    # the sums also measure the square of predictions, weighted and without the public error
    measured_square = observed.sums @ coefficients / n
    public_square = means @ sample.weighted @ coefficients / m
    mean_square_of_means = (
        float(np.mean(means**2)) * measured_square / max(float(public_square), 1e-12)
    )
    residual_square = observed.mean_square - mean_square_of_means
    label_variance = n * loss.residual_variance(float(residual_square))
    errors = label_variance * curved.T @ sample.weighted / m
    errors += observed.noise * np.eye(len(coefficients)) + difference_errors
    try:
        inverse = np.linalg.inv(information)
    except np.linalg.LinAlgError:
        return None
    covariance = inverse @ errors @ inverse.T
    few = sample.few()
    curvatures = loss.curvature(loss.mean(few.plain @ coefficients))
    for _ in range(N_MOVEMENT_PASSES):
        # the movement of a margin is the error of the coefficients
        movement = np.einsum("ij,ij->i", few.plain @ covariance, few.plain) * curvatures**2
        movement /= 1 + loss.saturation * movement
        moved = (few.weighted * movement[:, None]).T @ few.weighted / len(movement)
        total = errors + observed.public_factor * moved
        covariance = inverse @ total @ inverse.T
    if not np.isfinite(covariance).all():
        return None
    covariance = to_columns @ covariance @ to_columns.T
    # contributions of the public rows to the variance of the public error (Satterthwaite)
    contributions = (remainders @ (to_columns @ inverse).T) ** 2  # (m, n)
    variance_of_mean = contributions.var(axis=0) / len(contributions)
    tiny = np.finfo(float).tiny
    error_of_variance = observed.public_factor * np.sqrt(variance_of_mean)
    ratios = np.diag(covariance) / np.maximum(error_of_variance, tiny)
    degrees = np.clip(2 * np.minimum(ratios, MAX_RATIO) ** 2, MIN_DEGREES, None)
    return CoefficientEstimate(to_columns @ coefficients, covariance, degrees)


def _solve(sample: PublicDesign, loss: GLMLoss, expected: Floats, start: Floats) -> Floats | None:
    """Return the coefficients at which the mean of p a is as expected, or None if there are none.

    Newton steps change the margins by at most 1.
    """
    m, coefficients = len(sample.weights), start
    for _ in range(MAX_STEPS):
        margins = sample.plain @ coefficients
        means = loss.mean(margins)
        curved = sample.weighted * loss.curvature(means)[:, None]
        try:
            step = np.linalg.solve(
                curved.T @ sample.plain / m, expected - means @ sample.weighted / m
            )
        except np.linalg.LinAlgError:
            return None
        size = float(np.sqrt(np.mean((sample.plain @ step) ** 2)))
        if not np.isfinite(size):
            return None
        coefficients = coefficients + step / max(1.0, size)
        if size < STEP_TOLERANCE:
            too_large = np.sqrt(np.mean(margins**2)) > MAX_ROOT_MEAN_SQUARE
            return None if too_large else coefficients
    return None


def _predict_differences(
    sample: PublicDesign,
    loss: GLMLoss,
    observed: ObservedSums,
    corrections: list[Correction],
    coefficients: Floats,
    is_intercept: Mask,
) -> tuple[Floats, Floats, Floats]:
    """Return predicted differences D of private and public sums of p a, and their error covariance.

    The third array, shape (m, k), is what the regression leaves of the terms of public rows.

    The regressors of a coefficient are the terms of all corrections, the row's linear predictor and
    the row's coordinate. Sums of the last two were released with the label sums, and the public
    rows have moved to them, so that their differences are 0 up to noise.
    """
    few = sample.few()
    step = -(-len(sample.weights) // len(few.weights))
    m, k = few.weighted.shape
    n_corrections = len(corrections)
    slopes = np.where(is_intercept, 0.0, coefficients)
    regressors = np.empty((k, m, n_corrections + 2))
    for position, correction in enumerate(corrections):
        regressors[:, :, position] = correction.terms[::step].T
    regressors[:, :, -2] = few.weighted @ slopes
    regressors[:, :, -1] = np.where(is_intercept, 0.0, few.weighted).T
    regressors -= regressors.mean(axis=1, keepdims=True)
    targets = (few.weighted * loss.mean(few.plain @ coefficients)[:, None]).T  # (k, m)
    targets = targets - targets.mean(axis=1, keepdims=True)

    # covariance of the noise of the measured differences
    correction_noise = np.array([correction.noise for correction in corrections])
    noise = np.zeros((k, n_corrections + 2, n_corrections + 2))
    noise[:, range(n_corrections), range(n_corrections)] = correction_noise
    noise[:, -2, -2] = observed.row_noise * (slopes @ slopes)
    noise[:, -1, -1] = observed.row_noise
    noise[:, -1, -2] = noise[:, -2, -1] = observed.row_noise * slopes

    def weights(rows: Codes) -> Floats:
        """Return the weights of the regressors, fitted to the given rows, shape (k, q)."""
        x = regressors[:, rows]
        x = x - x.mean(axis=1, keepdims=True)
        y = targets[:, rows]
        y = y - y.mean(axis=1, keepdims=True)
        transposed = x.transpose(0, 2, 1)
        covariance = observed.public_factor * transposed @ x / len(rows)
        covariance += noise
        traces = np.trace(covariance, axis1=1, axis2=2)
        floors = RIDGE * traces + np.finfo(float).tiny
        identity = np.eye(covariance.shape[1])
        covariance += floors[:, None, None] * identity
        products = np.einsum("kiq,ki->kq", x, y)
        products *= observed.public_factor / len(rows)
        solution = np.linalg.solve(covariance, products[:, :, None])
        return np.asarray(solution[:, :, 0])

    gains = weights(np.arange(m))
    predicted = np.zeros(k)
    for position, correction in enumerate(corrections):
        predicted += gains[:, position] * correction.difference
    # what the regression leaves, in rows to which it was not fitted
    half = np.arange(m) % 2
    remainders = np.empty((m, k))
    for fold in (0, 1):
        rows = np.flatnonzero(half == fold)
        fitted = weights(np.flatnonzero(half != fold))
        remainder = targets[:, rows] - np.einsum("kiq,kq->ki", regressors[:, rows], fitted)
        remainders[rows] = (remainder - remainder.mean(axis=1, keepdims=True)).T
    errors = observed.public_factor * remainders.T @ remainders / m
    errors += np.diag(gains[:, :n_corrections] ** 2 @ correction_noise)
    of_rows = gains[:, -2, None] * slopes + np.diag(np.where(is_intercept, 0.0, gains[:, -1]))
    errors += observed.row_noise * of_rows @ of_rows.T
    return predicted, errors, remainders
