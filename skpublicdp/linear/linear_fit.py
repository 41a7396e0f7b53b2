"""Fit of a linear model to private rows, organised as an ordered list of steps.

The method and the nouns are described in the README.md of this folder, and its privacy in
docs/proofs/linear.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from skpublicdp.accounting import Sensitivity
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.public_rows import DESCRIBED
from skpublicdp.linear.coefficient_covariance import (
    MAX_COEFFICIENTS,
    MIN_PUBLIC_ROWS,
    MIN_ROWS_PER_AXIS,
    ROWS_OF_INFLATION,
    CoefficientEstimate,
    Correction,
    ObservedSums,
    estimate_coefficients,
)
from skpublicdp.linear.coefficient_posterior import (
    CoefficientPrior,
    CoefficientSums,
    Posterior,
    PublicDesign,
    dyadic_blocks,
    fit_labelled_rows,
    fit_posterior,
    misfit,
    public_errors,
)
from skpublicdp.linear.design_columns import DesignColumns, ModelColumn
from skpublicdp.linear.glm_loss import MEAN_UNIT, GLMLoss
from skpublicdp.linear.public_basis import (
    MAX_AXES,
    MIN_ENERGY,
    best_length,
    clipping_length,
    energy_shares,
    expected_error,
    shrunk_covariance,
)
from skpublicdp.linear.row_encoder import (
    BLOCK_ENTRIES,
    CorrectionTerms,
    RowEncoder,
    correction_sensitivity,
    correction_sums,
    integer_coefficients,
    label_sum_sensitivity,
    label_sums,
)
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.privacy.stage_budget import StageBudget
from skpublicdp.typing import Codes, Floats

LINEAR_PROOF = "docs/proofs/linear.md"

LABEL_WEIGHT = 4
"""Budget of the first release, in units of the budget of one correction."""

CORRECTION_GAIN = 16
"""Factor by which a correction is assumed to reduce the variance of the error of public means."""

MAX_CORRECTIONS = 6
"""Largest number of corrections, each of which reads all private rows."""

MIN_MEAN_VARIANCE = 1e-12
"""Smallest variance of a public mean, in units of the squared clipping length."""

ROWS_PER_COLUMN = 2
"""Number of smoothed public rows per column, at least, so that their covariance has full rank. A
larger number costs memory, and 4 and 8 gain nothing."""

MIN_RELATIVE_VARIANCE = 1e-6
"""Variance of standardised public rows along an axis at which columns count as collinear."""

MIN_LIMIT_BITS, MAX_LIMIT_BITS = 10, 20
"""Binary digits of the integer that represents the clipping length."""

CLIPPING_LEVELS = np.linspace(0.3, 1, 36)
"""Quantiles of the lengths of public terms among which the clipping length of a correction is
chosen."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Coefficients of the design columns."""

    columns: DesignColumns
    # (n_design,), or (n_labels, n_design): coefficients of the centred and scaled columns
    slopes: Floats
    # margin of a row at the centre of the columns, or one per label
    intercept: Any
    n_corrections: int
    margin_variance: float  # posterior variance of the margin of an average public row
    # estimate without a prior of the intercept and the coefficients in the units of the columns,
    # or the reason why there is none
    estimate: CoefficientEstimate | str

    @property
    def coefficients(self) -> Floats:
        """Coefficients in the units of the columns, with the shape of `slopes`."""
        return self.slopes / self.columns.scale


@dataclass(frozen=True, eq=False)
class PublicBasis:
    """Scaled public axes, which depend on public rows, the number of rows and the budget."""

    all_axes: Floats  # (n_design, n_all): orthonormal axes of standardised rows
    measured: Codes  # (n_axes,): positions of the axes along which private rows are measured
    scales: Floats  # (n_axes,): factors of the coordinates, for which the clipping length is 1
    design_variance: float  # prior variance of every coefficient along an axis
    # weight and standard deviation of the spherical noise that smooths public rows
    identity_weight: float
    identity_sd: float
    # (m, n_axes): coordinates of the public rows along the axes, without the scales
    coordinates: Floats
    variances: Floats  # (n_axes,): variances of the public rows along the axes, after shrinkage
    # variance of a public mean, and of a mean over smoothed public rows, times n², in units of the
    # variance of a row
    mean_factor: float
    public_factor: float

    @property
    def matrix(self) -> Floats:
        """Matrix that maps standardised rows to scaled coordinates, shape (n_design, n_axes)."""
        return self.all_axes[:, self.measured] * self.scales

    def measured_part(self, coefficients: Floats, *, power: int = 1) -> Floats:
        """Return coefficients of scaled axes (variances for power 2), given those of all axes."""
        n_intercepts = len(coefficients) - self.all_axes.shape[1]
        positions = np.append(np.arange(n_intercepts), n_intercepts + self.measured)
        scales = np.append(np.ones(n_intercepts), self.scales)
        return (coefficients[positions].T / scales**power).T

    def unmeasured_slopes(self, slopes: Floats) -> Floats:
        """Return the part of the slopes of all axes that is not measured, of standardised rows."""
        slopes = slopes.copy()
        slopes[self.measured] = 0
        return self.all_axes @ slopes


def fit_linear(
    data: Dataset,
    ledger: Ledger,
    budget: StageBudget,
    loss: GLMLoss,
    *,
    has_intercept: bool,
    model: ModelColumn | None = None,
) -> LinearModel:
    """Fit a linear model to private rows with the help of public rows, spending a budget.

    1. From public rows: centre, scale and axes of the columns, the precision with which each axis
       is measured, and the clipping length.
    2. From public numbers: the number of corrections and the shares of the budget.
    3. First release: noisy sums of rows times targets, and of rows.
    4. Move the public rows to the private mean, and fit the posterior to the sums. Its prior mean
       is fitted to labelled public rows.
    5. Each correction releases how far private and public means of the predictions differ, and
       fits the posterior again.
    6. From all releases: an estimate without a prior, and its covariance, for intervals.
    """
    columns = DesignColumns.from_public(
        data.schema,
        data.X_public,
        centred=has_intercept,
        bounded=data.bounded,
        model=model,
    )
    basis = make_basis(columns, data, ledger, budget, loss, has_intercept=has_intercept)
    encoder = make_encoder(columns, basis, ledger, budget, loss, has_intercept=has_intercept)
    sample = smoothed_sample(basis, encoder)
    n_corrections = choose_corrections(sample, basis, encoder, ledger, budget, loss)
    step = budget.fraction(Fraction(1, LABEL_WEIGHT + n_corrections))

    first = StageBudget(LABEL_WEIGHT * step.amount, step.pure)
    sums = release_label_sums(data, ledger, encoder, loss, first)
    sums.move_to_private_mean(sample, basis.mean_factor)
    prior, public_coefficients = make_prior(data, basis, encoder, loss)
    fit = CorrectedFit(sample, loss, sums, prior, basis.public_factor)
    for _ in range(n_corrections):
        fit.correct(data, ledger, encoder, step, n_corrections)
    # axes that are not measured have the coefficients of the labelled public rows
    unmeasured = basis.unmeasured_slopes(fit.posterior.public_weight * public_coefficients)
    return linear_model(
        encoder,
        fit.posterior.mode,
        unmeasured,
        n_corrections=n_corrections,
        margin_variance=fit.margin_variance,
        estimate=estimate_columns(fit, data, basis, encoder, ledger),
    )


def make_basis(
    columns: DesignColumns,
    data: Dataset,
    ledger: Ledger,
    budget: StageBudget,
    loss: GLMLoss,
    *,
    has_intercept: bool,
    min_share: float = 0.0,
) -> PublicBasis:
    """Return the axes that are worth measuring, with their scales.

    With a positive `min_share`, all axes are measured, and have at least this share of the squared
    row length.
    """
    varies = np.isfinite(columns.scale)
    rows = columns.standardised(data.X_public)
    if not varies.all():
        rows = rows[:, varies]
    # rows of a reference or of a description show no correlations, so that every covariance
    # has an error of the size of the variances
    has_joint_rows = data.n_public > 0 and DESCRIBED not in data.assumptions
    n_effective = data.n_public if has_joint_rows else max(1, rows.shape[1])
    n = data.n_private
    mean_factor = n * n / n_effective + n
    if not rows.shape[1]:  # only the intercept is fitted
        nothing = np.zeros((len(columns.scale), 0))
        no_axes = np.zeros(0, dtype=np.int64)
        return PublicBasis(
            all_axes=nothing,
            measured=no_axes,
            scales=np.zeros(0),
            design_variance=1.0,
            identity_weight=0.0,
            identity_sd=0.0,
            coordinates=rows,
            variances=np.zeros(0),
            mean_factor=mean_factor,
            public_factor=mean_factor,
        )
    centre = rows.mean(axis=0) if has_intercept else np.zeros(rows.shape[1])
    rows -= centre
    covariance = shrunk_covariance(rows)
    design_variance = loss.slope_variance / covariance.variances.sum()
    information = n * loss.curvature_at_zero * covariance.variances

    def design(n_axes: int) -> tuple[float, Floats]:
        """Return the expected error and the energy shares if at most n_axes axes are measured."""
        noise = _label_noise(ledger, budget, loss, n_axes)
        leading = covariance.variances[:n_axes], information[:n_axes]
        shares = energy_shares(leading[0], design_variance, leading[1], noise)
        error = expected_error(leading[0], shares, design_variance, leading[1], noise)
        return error + design_variance * covariance.variances[n_axes:].sum(), shares

    n_axes = min(len(covariance.variances), MAX_AXES)
    designs = [design(n_axes)]
    while budget.pure and n_axes > 1:  # Laplace noise grows with the number of sums
        n_axes = (n_axes + 1) // 2
        designs.append(design(n_axes))
    _, shares = min(designs, key=lambda candidate: candidate[0])
    shares = np.maximum(shares, min_share)
    is_measured = shares > MIN_ENERGY
    shares = np.where(is_measured, shares, 0)
    length = clipping_length(rows, shares, centre_rows=has_intercept)
    measured = np.flatnonzero(is_measured)
    all_axes = np.zeros((len(columns.scale), len(covariance.variances)))
    all_axes[varies] = covariance.axes
    scales = np.sqrt(shares[measured] / covariance.variances[measured]) / length
    return PublicBasis(
        all_axes,
        measured,
        scales,
        design_variance,
        covariance.identity_weight,
        math.sqrt(covariance.identity_variance),
        rows @ covariance.axes[:, measured],
        covariance.variances[measured],
        mean_factor,
        # Ledoit-Wolf shrinkage leaves this share of the error of the sample covariance
        n * n / n_effective * (1 - covariance.identity_weight if has_joint_rows else 1) + n,
    )


def _label_noise(ledger: Ledger, budget: StageBudget, loss: GLMLoss, n_axes: int) -> float:
    """Return the noise variance of label sums, in units of the squared clipping length."""
    limit = 2**MAX_LIMIT_BITS
    sensitivity = label_sum_sensitivity(loss, limit, limit // 2, n_axes)
    variance = budget.variance(ledger.for_person(sensitivity))
    return variance / (loss.sum_scale * limit) ** 2


class NoiseTooLargeError(ValueError):
    """The noise of a linear model is too large to be drawn."""


def make_encoder(
    columns: DesignColumns,
    basis: PublicBasis,
    ledger: Ledger,
    budget: StageBudget,
    loss: GLMLoss,
    *,
    has_intercept: bool,
) -> RowEncoder:
    """Return the encoder with the finest integers for which the noise can be drawn.

    Raises
    ------
    NoiseTooLargeError
        If there are no such integers. Only public numbers decide, and nothing has been released.
    """
    n_axes = len(basis.scales)
    parts = LABEL_WEIGHT + MAX_CORRECTIONS
    for bits in range(MAX_LIMIT_BITS, MIN_LIMIT_BITS - 1, -1):
        limit = 2**bits
        releases: tuple[tuple[int, Sensitivity], ...] = (
            (LABEL_WEIGHT, label_sum_sensitivity(loss, limit, limit // 2, n_axes)),
            (1, correction_sensitivity(limit, loss.n_margins * (1 + n_axes))),
        )
        if all(
            noise_is_representable(
                budget.fraction(Fraction(weight, parts)).event, ledger.for_person(sensitivity)
            )
            for weight, sensitivity in releases
        ):
            return RowEncoder.from_basis(
                columns, basis.matrix, limit=limit, has_intercept=has_intercept
            )
    remedy = "Check that epsilon has the intended value."
    if ledger.rows_per_person > 1:  # noise is proportional to this number
        remedy = f"Reduce max_rows_per_group, which is {ledger.rows_per_person}."
    raise NoiseTooLargeError(
        f"epsilon = {float(ledger.epsilon):g} is so small that the noise of sums is too large to "
        f"be drawn. {remedy}"
    )


def smoothed_sample(basis: PublicBasis, encoder: RowEncoder) -> PublicDesign:
    """Return public rows with added normal noise, whose covariance is the shrunk covariance.

    The noise keeps the shape of the distribution and vanishes as the number of public rows grows.
    """
    m, n_axes = basis.coordinates.shape
    n_copies = max(1, -(-ROWS_PER_COLUMN * n_axes // m))
    rows = np.tile(basis.coordinates, (n_copies, 1))
    if basis.identity_weight > 0:
        generator = np.random.default_rng(0)
        rows *= math.sqrt(1 - basis.identity_weight)
        noise_sd = math.sqrt(basis.identity_weight) * basis.identity_sd
        for copy in np.split(rows, n_copies):
            copy += noise_sd * generator.normal(size=copy.shape)
        # the second moments of this sample are exactly those of the shrunk covariance
        deviations = np.sqrt(basis.variances)
        rows /= deviations
        factor = np.linalg.cholesky(rows.T @ rows / len(rows))
        rows = solve_triangular(factor, rows.T, lower=True, overwrite_b=True).T
        rows *= deviations
    rows *= basis.scales
    return _sample(encoder, rows)


def _sample(encoder: RowEncoder, scaled: Floats) -> PublicDesign:
    """Return a sample of rows with the given scaled coordinates."""
    m, first = len(scaled), encoder.first_coefficient
    weighted = np.empty((m, encoder.n_coefficients - first))
    plain = np.empty_like(weighted)
    weights = np.empty(m)
    for start in range(0, m, encoder.n_block_rows):
        rows = slice(start, start + encoder.n_block_rows)
        encoded = encoder.encode_scaled(scaled[rows])
        weighted[rows] = encoded.weighted[:, first:]
        plain[rows] = encoded.plain[:, first:]
        weights[rows] = encoded.weights
    weighted /= encoder.limit
    plain /= encoder.limit
    return PublicDesign(weighted, plain, weights)


def choose_corrections(
    sample: PublicDesign,
    basis: PublicBasis,
    encoder: RowEncoder,
    ledger: Ledger,
    budget: StageBudget,
    loss: GLMLoss,
) -> int:
    """Return the number of corrections, a function of public numbers.

    Each correction reduces the variance of the error of the public means by CORRECTION_GAIN. The
    errors need not be smaller than the noise of the label sums.
    """
    prior = _design_prior(basis, encoder, loss, basis.scales)
    few = sample.few()
    means = loss.mean(np.zeros(len(few.weights)))
    errors = public_errors(few, loss, means, prior.variances, basis.public_factor)
    errors_of_axes = errors[~prior.is_intercept]
    n_axes = len(errors_of_axes)
    if not n_axes:
        return 0
    noise = _label_noise(ledger, budget, loss, n_axes)
    ratio = float(np.median(errors_of_axes)) / noise
    if ratio <= 1:
        return 0
    return min(MAX_CORRECTIONS, math.ceil(math.log(ratio, CORRECTION_GAIN)))


def _design_prior(
    basis: PublicBasis, encoder: RowEncoder, loss: GLMLoss, scales: Floats
) -> CoefficientPrior:
    """Return the prior of the coefficients of axes with given scales, without public labels."""
    n_axes = len(scales)
    blocks = dyadic_blocks(n_axes)
    variances = basis.design_variance / scales**2
    is_intercept = np.zeros(n_axes, dtype=bool)
    if encoder.has_intercept:
        variances = np.append(loss.intercept_variance / encoder.intercept_value**2, variances)
        blocks = np.append(0, blocks)
        is_intercept = np.append(True, is_intercept)
    mean = np.zeros(len(variances))
    return CoefficientPrior(mean, variances, blocks, is_intercept, has_mean=False)


def make_prior(
    data: Dataset, basis: PublicBasis, encoder: RowEncoder, loss: GLMLoss
) -> tuple[CoefficientPrior, Floats]:
    """Return the prior of the coefficients, and public coefficients of all axes without scales.

    Labelled public rows are an observation without noise, and their posterior is the prior of the
    private rows. The coefficients of the private rows may differ from those of the public rows:
    they are a factor times those, plus a deviation. The variances of the deviations start from the
    posterior variances, and are chosen by the evidence of the private sums, together with the
    factor.
    """
    columns = encoder.columns
    n_intercepts = int(encoder.has_intercept)
    # the prior mean is the public model, whose predictions are a column
    means = columns.prior_slopes @ basis.all_axes
    if encoder.has_intercept:
        means = np.append(columns.prior_intercept / encoder.intercept_value, means)
    prior = _design_prior(basis, encoder, loss, basis.scales)
    has_model = columns.model is not None
    prior = replace(prior, mean=basis.measured_part(means), has_mean=has_model)
    targets = data.targets.public.astype(np.float64) - 0.5
    has_coefficients = len(prior.variances) > 0
    if not has_coefficients or len(np.unique(targets)) < 2:
        return prior, means[n_intercepts:]
    rows = labelled_coordinates(data, basis, encoder)
    unscaled = np.ones(basis.all_axes.shape[1])
    all_prior = replace(_design_prior(basis, encoder, loss, unscaled), mean=means)
    posterior = fit_labelled_rows(rows, targets, loss, all_prior)
    public_prior = replace(
        prior,
        mean=basis.measured_part(posterior.mode),
        variances=basis.measured_part(posterior.variances, power=2),
        has_mean=True,
    )
    return public_prior, posterior.mode[n_intercepts:]


def labelled_coordinates(data: Dataset, basis: PublicBasis, encoder: RowEncoder) -> Floats:
    """Return coordinates of labelled public rows along all axes, after the intercept column."""
    coordinates = encoder.columns.standardised(data.X_labelled) @ basis.all_axes
    if not encoder.has_intercept:
        return coordinates
    return np.insert(coordinates, 0, encoder.intercept_value, axis=1)


@dataclass(frozen=True, eq=False)
class LabelSums:
    """First release, in units of the clipping length and of the width of the targets."""

    n: int
    sums: Floats  # (k,): noisy sums of weighted rows times targets in [-1/2, 1/2]
    noise: float  # noise variance of each sum
    row_sums: Floats  # (n_axes,): noisy sums of weighted rows
    row_noise: float
    mean_square: float  # mean square of the targets, or 0 if it is not released
    residual_variance: float

    def move_to_private_mean(self, sample: PublicDesign, mean_factor: float) -> None:
        """Move the public rows by the posterior mean of the difference of the means."""
        n_axes = len(self.row_sums)
        if not n_axes or not sample.weights.any():
            return
        axes = slice(sample.plain.shape[1] - n_axes, None)
        rows = sample.weighted[:, axes]
        differences = self.row_sums - self.n * rows.mean(axis=0)
        variances = mean_factor * rows.var(axis=0) + MIN_MEAN_VARIANCE
        noise = np.full(n_axes, self.row_noise)
        variances *= misfit(differences, variances, noise)
        # the weighted rows move by the weights times the movement
        gain = variances / (variances + noise)
        n_weighted = self.n * sample.weights.mean()
        movement = gain * differences / n_weighted
        rows += sample.weights[:, None] * movement
        sample.plain[:, axes] += movement


def release_label_sums(
    data: Dataset, ledger: Ledger, encoder: RowEncoder, loss: GLMLoss, budget: StageBudget
) -> LabelSums:
    """Release noisy sums of rows times targets, and of rows."""
    n_axes, levels, limit = encoder.n_coefficients - 1, loss.levels, encoder.limit
    sensitivity = label_sum_sensitivity(loss, limit, encoder.intercept, n_axes)
    table = label_sums(data, encoder, loss)
    noisy = ledger.add_noise(
        table,
        sensitivity,
        budget.event,
        name="noisy sums of rows times targets",
        proof=LINEAR_PROOF,
    )
    label_unit, row_unit = 1 / (4 * levels * limit), 1 / (levels * limit)
    values = noisy.values.astype(np.float64)
    end = encoder.n_coefficients
    mean_square = 0.0
    if loss.releases_squares:
        mean_square = float(values[-1]) / (2 * levels * limit * data.n_private)
    return LabelSums(
        n=data.n_private,
        sums=values[encoder.first_coefficient : end] * label_unit,
        noise=noisy.variance * label_unit**2,
        row_sums=values[end : end + n_axes] * row_unit,
        row_noise=noisy.variance * row_unit**2,
        mean_square=mean_square,
        residual_variance=loss.residual_variance(mean_square),
    )


class CorrectedFit:
    """Posterior that is refined by corrections of the public means.

    The posterior needs the expected sum of p a over private rows, where p is the predicted mean and
    a the weighted row. A correction measures the difference between this sum and its public
    estimate, at the current mode.
    """

    def __init__(
        self,
        sample: PublicDesign,
        loss: GLMLoss,
        sums: LabelSums,
        prior: CoefficientPrior,
        public_factor: float,
    ) -> None:
        self.sample, self.loss = sample, loss
        self.sums, self.prior = sums, prior
        self.public_factor = public_factor
        zeros = np.zeros(len(prior.variances))
        self.difference = zeros  # estimated private minus public sum
        self.variances = zeros  # variances of the estimate
        self.last_means: Floats | float = 0.0  # public predictions at the last correction
        # terms of all corrections, their noisy private sums, units and noise variances
        self.corrections: list[tuple[CorrectionTerms, Floats, float, float]] = []
        self.posterior = self._posterior(zeros, public_factor)

    @property
    def margin_variance(self) -> float:
        """Posterior variance of the margin of an average public row."""
        variances = self.sample.plain**2 @ self.posterior.variances
        return float(variances.mean())

    def _posterior(
        self, unmeasured: Floats, public_factor: float, *, start: Posterior | None = None
    ) -> Posterior:
        """Return the posterior given the sums and all corrections so far."""
        observed = CoefficientSums(
            n=self.sums.n,
            sums=self.sums.sums - self.difference,
            noise=self.sums.noise + self.variances + unmeasured,
            public_factor=public_factor,
            residual_variance=self.sums.residual_variance,
        )
        return fit_posterior(self.sample, self.loss, observed, self.prior, start)

    def correct(
        self, data: Dataset, ledger: Ledger, encoder: RowEncoder, budget: StageBudget, n_steps: int
    ) -> None:
        """Release a correction at the current mode, and update the posterior."""
        n, sample, mode = self.sums.n, self.sample, self.posterior.mode
        k = len(mode)
        sensitivity = correction_sensitivity(encoder.limit, encoder.n_coefficients)
        relative_noise = budget.variance(ledger.for_person(sensitivity)) / encoder.limit**2
        terms, unit = correction_terms(
            sample, self.loss, encoder, mode, n_steps * k * relative_noise, self.public_factor
        )
        table = correction_sums(data, encoder, terms)
        noisy = ledger.add_noise(
            table,
            sensitivity,
            budget.event,
            name="noisy correction of public means",
            proof=LINEAR_PROOF,
        )
        first = encoder.first_coefficient
        public, unmeasured = public_terms(sample, encoder, terms)
        private = noisy.values[first:].astype(np.float64)
        measured = unit * (private - n * public)
        noise = np.full(k, noisy.variance * unit**2)
        self.corrections.append((terms, unit * private, unit, noisy.variance * unit**2))
        # error of the public means since the last correction
        means = self.loss.mean(sample.plain @ mode)
        changes = sample.variances(means - self.last_means)
        moved = self.public_factor * changes + MIN_MEAN_VARIANCE
        misfit_factor = misfit(measured - self.difference, moved, self.variances + noise)
        # Kalman update of the difference
        self.variances = self.variances + misfit_factor * moved
        gain = self.variances / (self.variances + noise)
        self.difference = self.difference + gain * (measured - self.difference)
        self.variances = (1 - gain) * self.variances
        self.last_means = means
        factor = misfit_factor * self.public_factor
        self.posterior = self._posterior(
            factor * unit**2 * unmeasured, factor, start=self.posterior
        )


def correction_terms(
    sample: PublicDesign,
    loss: GLMLoss,
    encoder: RowEncoder,
    mode: Floats,
    relative_noise: float,
    public_factor: float,
) -> tuple[CorrectionTerms, float]:
    """Return the terms of a correction with their clipping length, and the unit of the integers.

    The clipping length b minimises the noise plus the error of what clipping removes, which is left
    to the public rows. The noise variances of all entries add up to `relative_noise`, in units of
    b².
    """
    coefficients = np.append(np.zeros(encoder.first_coefficient), mode)
    integers, exponent = integer_coefficients(coefficients, encoder.limit)
    terms = CorrectionTerms(
        loss,
        integers,
        exponent,
        public_mean=np.zeros(encoder.n_coefficients),
        factor=1.0,
        limit=encoder.limit,
    )
    blocks = [terms.exact(*block) for block in _integer_blocks(sample, encoder)]
    total = sum(block.sum(axis=0) for block in blocks)
    mean = np.rint(total / len(sample.weights))
    lengths = np.concatenate([np.linalg.norm(block - mean, axis=1) for block in blocks])
    candidates = np.maximum(np.quantile(lengths, CLIPPING_LEVELS), 1.0)
    length = best_length(candidates, lengths, relative_noise, public_factor)
    factor = encoder.limit / length
    unit = 1 / (MEAN_UNIT * encoder.limit * factor)
    return replace(terms, public_mean=mean, factor=factor), unit


def public_terms(
    sample: PublicDesign, encoder: RowEncoder, terms: CorrectionTerms
) -> tuple[Floats, Floats]:
    """Return the public mean of the clipped terms, and the variance of what clipping removes."""
    m = len(sample.weights)
    sums = np.zeros((3, encoder.n_coefficients))
    for weighted, plain in _integer_blocks(sample, encoder):
        exact = terms.factor * terms.exact(weighted, plain)
        clipped = terms.clipped(weighted, plain)
        removed = exact - clipped
        for total, values in zip(sums, (clipped, removed, removed**2), strict=True):
            total += values.sum(axis=0)
    mean, removed_mean, removed_square = sums[:, encoder.first_coefficient :] / m
    variance = removed_square - removed_mean**2
    return mean, np.maximum(0, variance)


def _integer_blocks(sample: PublicDesign, encoder: RowEncoder) -> Iterator[tuple[Floats, Floats]]:
    """Yield blocks of weighted and plain public rows in the units of integer rows."""
    padding = ((0, 0), (encoder.first_coefficient, 0))
    n_block_rows = max(1, BLOCK_ENTRIES // encoder.n_coefficients)
    for start in range(0, len(sample.weights), n_block_rows):
        rows = slice(start, start + n_block_rows)
        yield (
            np.pad(encoder.limit * sample.weighted[rows], padding),
            np.pad(encoder.limit * sample.plain[rows], padding),
        )


def estimate_columns(
    fit: CorrectedFit, data: Dataset, basis: PublicBasis, encoder: RowEncoder, ledger: Ledger
) -> CoefficientEstimate | str:
    """Return the estimate without a prior in the units of the columns, or why there is none."""
    n_axes, n_coefficients = len(basis.measured), len(fit.prior.variances)
    too_small = "too few rows or too small an epsilon"
    if ledger.rows_per_person > 1:
        return "rows of one person may be correlated"
    if any(code >= 0 for code in encoder.columns.codes):
        return "there are columns of categories, whose indicators are collinear"
    if data.n_public < max(MIN_PUBLIC_ROWS, MIN_ROWS_PER_AXIS * n_axes):
        return (
            f"there are fewer than {MIN_PUBLIC_ROWS} public rows, or fewer than "
            f"{MIN_ROWS_PER_AXIS} public rows per column"
        )
    if DESCRIBED in data.assumptions:
        return "the public rows were generated from a description of the columns"
    if not 0 < n_coefficients <= MAX_COEFFICIENTS:
        return f"they are computed for 1 to {MAX_COEFFICIENTS} coefficients"
    if n_axes < basis.all_axes.shape[1]:
        return f"some directions are not measured, because of {too_small}"
    sample_variances = (basis.coordinates**2).mean(axis=0)
    if sample_variances.min(initial=1.0) <= MIN_RELATIVE_VARIANCE:
        return "some columns are collinear in the public rows"
    # rows keep their shape, which smoothing with normal noise would change
    variances = np.minimum(basis.variances, _unbiased_variances(sample_variances, data.n_public))
    factors = np.sqrt(variances / sample_variances)
    sample = _sample(encoder, basis.coordinates * factors * basis.scales)
    fit.sums.move_to_private_mean(sample, basis.mean_factor)
    corrections = []
    for terms, private, unit, noise in fit.corrections:
        blocks = [terms.clipped(*block) for block in _integer_blocks(sample, encoder)]
        public = unit * np.concatenate(blocks)[:, encoder.first_coefficient :]
        difference = private - data.n_private * public.mean(axis=0)
        corrections.append(Correction(public, difference, noise))
    observed = ObservedSums(
        n=data.n_private,
        sums=fit.sums.sums,
        noise=fit.sums.noise,
        row_noise=fit.sums.row_noise,
        mean_square=fit.sums.mean_square,
        public_factor=basis.mean_factor * (1 + ROWS_OF_INFLATION / data.n_public),
    )
    # from the coefficients of coordinates to an intercept and the coefficients of columns
    scale = encoder.columns.scale
    to_columns = np.zeros((1 + len(scale), n_coefficients))
    to_columns[0, fit.prior.is_intercept] = encoder.intercept_value
    to_columns[1:, ~fit.prior.is_intercept] = encoder.basis / scale[:, None]
    to_columns[1:][np.isinf(scale)] = np.nan  # nothing is known about constant columns
    estimate = estimate_coefficients(
        sample,
        fit.loss,
        observed,
        corrections,
        start=fit.posterior.mode,
        is_intercept=fit.prior.is_intercept,
        to_columns=to_columns,
    )
    return estimate or f"the noise is too large, because of {too_small}"


def _unbiased_variances(sample_variances: Floats, m: int) -> Floats:
    """Return variances along the axes by Stein's estimator, since shrinkage enlarges small ones.

    Of m rows, a sample variance is smaller than the variance by a share that depends on the
    distance to larger variances, and is at least that of the Marchenko-Pastur law.
    """
    n_axes = len(sample_variances)
    distances = sample_variances[None, :] - sample_variances[:, None]
    distances[distances <= 0] = np.inf
    pressures = sample_variances[:, None] / distances
    pressure = 2 * pressures.sum(axis=1)  # (n_axes,)
    shares = 1 - (n_axes - 1 + pressure) / m
    smallest_share = (1 - math.sqrt(n_axes / m)) ** 2
    shares = np.maximum(shares, smallest_share)
    return np.asarray(sample_variances / shares)


def linear_model(
    encoder: RowEncoder, mode: Floats, unmeasured: Floats, **attributes: Any
) -> LinearModel:
    """Return the coefficients of the design columns, given those of the axes.

    The coefficients of standardised columns along axes that are not measured are given, too. Both
    have one column per label if there are more than two.
    """
    n_intercepts = int(encoder.has_intercept)
    slopes = encoder.basis @ mode[n_intercepts:] + unmeasured
    slopes[np.isinf(encoder.columns.scale)] = 0
    intercept = encoder.intercept_value * mode[:n_intercepts].sum(axis=0)
    return LinearModel(encoder.columns, slopes.T, intercept, **attributes)
