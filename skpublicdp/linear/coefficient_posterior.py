"""Posterior of the coefficients, given noisy sums of private rows and a sample of public rows.

The log-likelihood of a generalised linear model is w·S - n E[A(x·w)]. Only the sums S depend on
labels of private rows. The expectation is estimated from public rows, and its error is part of the
variance of S.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from skpublicdp.linear.glm_loss import GLMLoss
from skpublicdp.typing import Codes, Floats, Mask

BLOCK_SD, WALK_SD = 1.5, 0.5
"""Prior standard deviations of the log variance of the first block of axes, and of the difference
between neighbouring blocks. The ablation has larger values, which are worse. On embedded sentences,
equal variances of all blocks lower the AUC by .004."""

MIN_LOG_VARIANCE, MAX_LOG_VARIANCE = -12.0, 6.0
"""Limits of the log variance of a block, relative to the design."""

PUBLIC_WEIGHT_SD = 0.25
"""Prior standard deviation of the factor on the coefficients of the labelled public rows, whose
prior mean is 1."""

PRIOR_FACTORS = tuple(2.0**power for power in range(-8, 13))
"""Prior variances of the coefficients of labelled public rows, in units of the design."""

N_FOLDS, MAX_VALIDATION_ROWS = 5, 2000
"""Folds and rows of the cross-validation of labelled public rows."""

MAX_ROWS_OF_ERRORS = 1024
"""Number of public rows from which errors of public means are estimated."""

MAX_LOG_MISFIT = 14.0
"""Largest log factor by which private and public rows may differ more than by sampling error."""

MIN_INFORMATION = 1e-12
"""Smallest curvature of the log-likelihood along an axis."""


@dataclass(frozen=True, eq=False)
class PublicDesign:
    """Public rows in units of the clipping length, with an intercept column if there is one."""

    weighted: Floats  # (m, k): rows times their weights
    plain: Floats  # (m, k): rows without weights
    weights: Floats  # (m,): weights between 0 and 1

    @cached_property
    def squares(self) -> tuple[Floats, Floats]:
        """Squares of the weighted and of the plain rows."""
        return self.weighted**2, self.plain**2

    def information(self, curvatures: Floats) -> Floats:
        """Return the sums over rows of curvature times weighted times plain row, shape (k,)."""
        return np.asarray(np.einsum("i,ij,ij->j", curvatures, self.weighted, self.plain))

    def sums_of_squares(self, factors: Floats) -> Floats:
        """Return the sums over rows of factor times squared weighted row, shape (k,)."""
        return np.asarray(np.einsum("i,ij,ij->j", factors, self.weighted, self.weighted))

    def variances(self, factors: Floats) -> Floats:
        """Return the variances over rows of factor times weighted row, shape (k,)."""
        m = len(factors)
        means = factors @ self.weighted / m
        return np.maximum(0, self.sums_of_squares(factors**2) / m - means**2)

    def few(self) -> PublicDesign:
        """Return at most MAX_ROWS_OF_ERRORS evenly spaced rows."""
        step = -(-len(self.weights) // MAX_ROWS_OF_ERRORS)
        rows = slice(None, None, step)
        return PublicDesign(self.weighted[rows], self.plain[rows], self.weights[rows])


@dataclass(frozen=True, eq=False)
class CoefficientSums:
    """Sums of private rows times their centred targets, and their errors."""

    n: int  # number of rows
    sums: Floats  # (k,)
    noise: Floats  # (k,): variance of the noise and of the errors of corrections
    public_factor: float  # variance of a public mean times n², in units of the variance of a row
    residual_variance: float  # variance of the outcome, in units of the curvature


@dataclass(frozen=True, eq=False)
class CoefficientPrior:
    """Normal prior of the coefficients, with one unknown variance per block of axes."""

    mean: Floats  # (k,): coefficients of the labelled public rows, or 0
    variances: Floats  # (k,): prior variances of the design
    blocks: Codes  # (k,): block of each axis
    is_intercept: Mask  # (k,)
    has_mean: bool

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return int(self.blocks.max(initial=0)) + 1

    def scaled(self, log_factors: Floats) -> Floats:
        """Return the prior variances for the log factors of all blocks. The intercept has none."""
        factors = np.where(self.is_intercept, 1.0, np.exp(log_factors)[self.blocks])
        return self.variances * factors

    def precisions(self, factor: float) -> Floats:
        """Return the prior precisions if a factor multiplies the variances of the slopes."""
        weights = 1 / self.variances
        return np.where(self.is_intercept, weights, weights / factor)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Approximate posterior of the coefficients."""

    mode: Floats  # (k,)
    variances: Floats  # (k,)
    parameters: Floats  # (n_blocks + 1,): log factors of the blocks, and factor on the prior mean

    @property
    def public_weight(self) -> float:
        """Factor on the coefficients of the labelled public rows."""
        return float(self.parameters[-1])


def dyadic_blocks(n_axes: int) -> Codes:
    """Return the block of each axis. The blocks have 1, 2, 4, 8, ... axes."""
    ranks = 1 + np.arange(n_axes)
    return np.floor(np.log2(ranks)).astype(np.int64)


def block_penalty(log_factors: Floats) -> float:
    """Return minus twice the log prior of the log factors of all blocks."""
    steps = np.diff(log_factors) / WALK_SD
    return float((log_factors[0] / BLOCK_SD) ** 2 + (steps**2).sum())


def public_errors(
    sample: PublicDesign, loss: GLMLoss, means: Floats, movement: Floats, public_factor: float
) -> Floats:
    """Return the variance of the error of the public means when the coefficients move.

    The means are those of the public rows at the starting point, and `movement` is the expected
    squared movement of each coefficient. Shapes: means (m,), movement (k,).
    """
    curvatures = loss.curvature(means)
    weighted_squares, plain_squares = sample.squares
    squared_changes = (plain_squares @ movement) * curvatures**2
    # the squared change of a probability is at most 1/4
    squared_changes /= 1 + loss.saturation * squared_changes
    return public_factor * (squared_changes @ weighted_squares) / len(squared_changes)


def fit_posterior(
    sample: PublicDesign,
    loss: GLMLoss,
    observed: CoefficientSums,
    prior: CoefficientPrior,
    start: Posterior | None,
) -> Posterior:
    """Return the posterior of the coefficients, with prior variances by maximum evidence.

    The public means are corrected at the mode of `start`, the posterior before the last correction,
    so their errors grow with the distance from this point. Before any correction, the public means
    are accurate at 0.
    """
    # 1. linearise the likelihood at the mode of the last correction, or at the prior mean
    n, m = observed.n, len(sample.weights)
    centre = prior.mean if start is None else start.mode
    means = loss.mean(sample.plain @ centre)
    curvatures = loss.curvature(means)
    # (k,): curvature of the log-likelihood, positive even if all public rows have weight 0
    information = np.maximum(n * sample.information(curvatures) / m, MIN_INFORMATION)
    sampling = observed.residual_variance * n * sample.sums_of_squares(curvatures) / m
    residual_sums = observed.sums - n * (means @ sample.weighted) / m + information * centre
    noise = observed.noise
    if start is None:  # the public means have errors unless all predictions are 0
        noise = noise + observed.public_factor * sample.variances(means)
    few = sample.few()
    few_means = loss.mean(few.plain @ centre)

    def errors(movement: Floats) -> Floats:
        """Return the variances of the errors of the public means."""
        if observed.public_factor == 0:
            return np.zeros_like(movement)
        return public_errors(few, loss, few_means, movement, observed.public_factor)

    # 2. prior variances by maximum evidence
    known_errors = None if start is None else errors(start.variances)
    axes = ~prior.is_intercept

    def negative_evidence(parameters: Floats) -> float:
        """Return minus the log evidence of the sums and the log prior of the parameters."""
        log_factors, weight = parameters[:-1], parameters[-1]
        variances, mean = prior.scaled(log_factors), weight * prior.mean
        error = known_errors
        if error is None:
            distance = mean - prior.mean
            error = errors(variances + distance**2)
        signal = information**2 * variances
        total = signal + sampling + noise + error
        residuals = residual_sums - information * mean
        terms = np.log(total) + residuals**2 / total
        weight_deviation = (weight - 1) / PUBLIC_WEIGHT_SD
        penalty = block_penalty(log_factors) + weight_deviation**2
        return float(terms[axes].sum() + penalty) / 2

    parameters = np.append(np.zeros(prior.n_blocks), 1.0) if start is None else start.parameters
    if axes.any():
        limits = [(MIN_LOG_VARIANCE, MAX_LOG_VARIANCE)] * prior.n_blocks
        limits.append((0.0, 1.5) if prior.has_mean else (1.0, 1.0))
        parameters = minimize(
            negative_evidence, parameters, method="L-BFGS-B", bounds=limits, options={"maxiter": 40}
        ).x
    prior_variances, prior_mean = prior.scaled(parameters[:-1]), parameters[-1] * prior.mean

    # 3. mode of the posterior
    distance = prior_mean - prior.mean
    movement = prior_variances + distance**2 if start is None else start.variances
    error = errors(movement)
    if prior.has_mean and prior.is_intercept.any():
        # the share of a label may differ between public and private rows
        is_intercept = prior.is_intercept
        differences = residual_sums - information * prior_mean
        spread = information**2 * prior_variances
        label_shift = misfit(
            differences[is_intercept],
            spread[is_intercept],
            (sampling + noise + error)[is_intercept],
        )
        prior_variances = np.where(is_intercept, label_shift, 1) * prior_variances
    mode, damped = centre, information
    for _ in range(loss.n_mode_passes):
        # the penalty uses the curvature at the solution, which limits separable solutions
        ridge = (sampling / information + noise / damped) / prior_variances
        proximal = error / (damped * movement)
        mode = _penalised_mode(
            sample,
            loss,
            observed,
            start=mode,
            penalties=((ridge, prior_mean), (proximal, centre)),
            curvature=damped,
        )
        curvatures = loss.curvature(loss.mean(sample.plain @ mode))
        at_mode = n * sample.information(curvatures) / m
        damped = np.sqrt(damped * np.maximum(at_mode, 1e-12 * information))
    total = sampling + noise + error
    variances = prior_variances * total / (information**2 * prior_variances + total)
    return Posterior(mode, variances, parameters)


def _penalised_mode(
    sample: PublicDesign,
    loss: GLMLoss,
    observed: CoefficientSums,
    *,
    start: Floats,
    penalties: tuple[tuple[Floats, Floats], ...],
    curvature: Floats,
) -> Floats:
    """Return the coefficients that minimise the expected loss plus quadratic penalties.

    Each penalty consists of weights, shape (k,), and the coefficients at which it is 0.
    """
    n, m = observed.n, len(sample.weights)
    scale = 1 / np.sqrt(curvature + sum(weights for weights, _ in penalties))

    def objective(scaled: Floats) -> tuple[float, Floats]:
        """Return the penalised loss of scaled coefficients, and its gradient."""
        coefficients = scaled * scale
        margins = sample.plain @ coefficients
        log_partitions = loss.log_partition(margins)
        value = n / m * float(sample.weights @ log_partitions)
        value -= float(observed.sums @ coefficients)
        expected_sums = n / m * (loss.mean(margins) @ sample.weighted)
        gradient = expected_sums - observed.sums
        for weights, target in penalties:
            distance = coefficients - target
            value += float(weights @ distance**2) / 2
            gradient = gradient + weights * distance
        return value, gradient * scale

    solution = minimize(
        objective, start / scale, jac=True, method="L-BFGS-B", options={"maxiter": 100}
    )
    return np.asarray(solution.x * scale)


def fit_labelled_rows(
    rows: Floats, targets: Floats, loss: GLMLoss, prior: CoefficientPrior
) -> Posterior:
    """Return the posterior of the coefficients given public rows with targets in [-1/2, 1/2].

    The prior variance of the slopes is a factor times that of the design, by cross-validation.
    """
    mean_square = float(np.mean(targets**2))
    target_variance = loss.residual_variance(mean_square)
    starts = np.tile(prior.mean, (N_FOLDS, 1))

    def held_out_loss(factor: float, fold: int, fitted: Codes, held_out: Codes) -> float:
        """Return the loss of the rows of a fold, with coefficients fitted to the other rows."""
        ridge = prior.precisions(factor) * target_variance
        starts[fold] = _mode_of_rows(
            rows[fitted], targets[fitted], loss, ridge, prior.mean, starts[fold]
        )
        margins = rows[held_out] @ starts[fold]
        losses = loss.log_partition(margins) - targets[held_out] * margins
        return float(losses.sum())

    factor, mean_loss = choose_prior_factor(len(rows), held_out_loss)
    # for the squared loss, the loss is half of the squared error minus the mean square
    residual_variance = loss.residual_variance(2 * mean_loss + mean_square)
    weights = prior.precisions(factor)
    ridge = target_variance * weights
    mode = _mode_of_rows(rows, targets, loss, ridge, prior.mean, starts.mean(axis=0))
    curvatures = loss.curvature(loss.mean(rows @ mode))
    precisions = curvatures @ rows**2 / residual_variance
    variances = 1 / (precisions + weights)
    return Posterior(mode, variances, np.append(np.zeros(prior.n_blocks), 1.0))


def choose_prior_factor(
    n_rows: int, held_out_loss: Callable[[float, int, Codes, Codes], float]
) -> tuple[float, float]:
    """Return the factor on prior variances by cross-validation, and its mean held-out loss.

    The loss is a function of the factor, the fold, and the fitted and held-out rows.
    """
    order = np.random.default_rng(0).permutation(n_rows)[:MAX_VALIDATION_ROWS]
    folds = np.arange(len(order)) % N_FOLDS
    best_factor, best_loss = 1.0, np.inf
    for factor in PRIOR_FACTORS:
        total = 0.0
        for fold in range(N_FOLDS):
            total += held_out_loss(factor, fold, order[folds != fold], order[folds == fold])
        mean_loss = total / len(order)
        if mean_loss >= best_loss:
            break
        best_factor, best_loss = factor, mean_loss
    return best_factor, best_loss


def _mode_of_rows(
    rows: Floats, targets: Floats, loss: GLMLoss, ridge: Floats, prior_mean: Floats, start: Floats
) -> Floats:
    """Return the coefficients that minimise the loss of rows plus a quadratic penalty."""
    n = len(rows)
    sample = PublicDesign(rows, rows, np.ones(n))
    zeros = np.zeros(rows.shape[1])
    observed = CoefficientSums(n, targets @ rows, zeros, 0.0, 1.0)
    curvature = loss.curvature_at_zero * (rows**2).sum(axis=0)
    return _penalised_mode(
        sample, loss, observed, start=start, penalties=((ridge, prior_mean),), curvature=curvature
    )


def misfit(differences: Floats, variances: Floats, noise: Floats) -> float:
    """Return the factor, at least 1, on the variances of differences that maximises the evidence.

    The differences of private and public sums have the variances times the factor, plus noise.
    """

    def negative_evidence(log_factor: float) -> float:
        """Return minus twice the log evidence of a log factor."""
        total = np.exp(log_factor) * variances + noise
        return float((np.log(total) + differences**2 / total).sum())

    best = minimize_scalar(negative_evidence, bounds=(0.0, MAX_LOG_MISFIT), method="bounded")
    return float(np.exp(best.x))
