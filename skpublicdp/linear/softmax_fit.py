"""Fit of a linear model for more than two labels, organised as an ordered list of steps.

The first release has the sums of rows by label. Without labelled public rows, they give a linear
discriminant analysis (LDA) whose within-class covariance comes from public rows. Corrections are
noisy sums of clipped residuals, each followed by a proximal step. Proofs: docs/proofs/linear.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.optimize import minimize

from skpublicdp.data.dataset import Dataset
from skpublicdp.linear.coefficient_posterior import (
    MAX_LOG_VARIANCE,
    MIN_LOG_VARIANCE,
    PublicDesign,
    block_penalty,
    choose_prior_factor,
    dyadic_blocks,
)
from skpublicdp.linear.design_columns import DesignColumns
from skpublicdp.linear.glm_loss import MEAN_UNIT, SoftmaxGLMLoss
from skpublicdp.linear.linear_fit import (
    CLIPPING_LEVELS,
    LABEL_WEIGHT,
    LINEAR_PROOF,
    MAX_CORRECTIONS,
    LabelSums,
    LinearModel,
    PublicBasis,
    labelled_coordinates,
    linear_model,
    make_basis,
    make_encoder,
    smoothed_sample,
)
from skpublicdp.linear.public_basis import best_length
from skpublicdp.linear.row_encoder import (
    RowEncoder,
    class_sum_sensitivity,
    correction_sensitivity,
    integer_coefficients,
)
from skpublicdp.linear.softmax_rows import (
    ResidualTerms,
    class_sums,
    residual_sums,
)
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.privacy.stage_budget import StageBudget
from skpublicdp.typing import Codes, Floats

MIN_SHARE = 1e-6
"""Smallest share of the squared row length of an axis if public rows are labelled, so that the
coefficients of the public rows are used along all axes."""

BETWEEN_WEIGHT = 0.5
"""Share of the estimated between-class covariance that is subtracted from the total covariance.
Measured on the digits at 0, 0.3, 0.6, 0.8 and 1: accuracy falls by up to .1 beyond 0.6."""

MAX_BETWEEN = 0.9
"""Largest share of the variance along a direction that may lie between the labels."""

MIN_COUNT = 0.05
"""Smallest estimated number of rows of a label, in units of the mean number."""

COUNT_ERROR = 0.1
"""Relative error with which public rows predict the sum of the weights of private rows."""

MIN_SAMPLING_RATIO = 0.1
"""Sampling variance of class sums, in units of the noise variance of a correction that spends the
entire budget, up to which there are no corrections. On the digits and on a simulated table with 20
labels, corrections reduce the accuracy below 0.08 and increase it beyond 0.2."""

PROXIMAL_WEIGHT, MAX_PROXIMAL = 0.25, 16.0
"""Weight of the proximal penalty per coefficient and public row, and its largest value, in units of
the curvature. On a simulated table with 20 labels, steps diverge at a quarter of the weight."""

MAX_DISAGREEMENT = 2.0
"""Number of standard deviations by which the log-likelihood of the coefficients of public rows may
be below that of coefficients 0."""

MAX_ITERATIONS = 40
"""Largest number of iterations of the optimisation of one step."""


def fit_softmax(
    data: Dataset,
    ledger: Ledger,
    budget: StageBudget,
    loss: SoftmaxGLMLoss,
    *,
    has_intercept: bool,
) -> LinearModel:
    """Fit a linear model for more than two labels with the help of public rows.

    1. From public rows: centre, scale and axes of the columns, the precision with which each axis
       is measured, the clipping length, and the number of corrections.
    2. First release: noisy sums of rows by label.
    3. Start from the LDA of these sums. If public rows are labelled, start from the coefficients
       of these rows, and take a step towards the sums.
    4. Each correction releases the sum of clipped residuals, and takes a proximal step.
    """
    columns = DesignColumns.from_public(
        data.schema, data.X_public, centred=has_intercept, bounded=data.bounded
    )
    labelled = data.targets.public.astype(np.int64)
    is_labelled = len(np.unique(labelled)) > 1
    basis = make_basis(
        columns,
        data,
        ledger,
        budget,
        loss,
        has_intercept=has_intercept,
        min_share=MIN_SHARE if is_labelled else 0.0,
    )
    encoder = make_encoder(columns, basis, ledger, budget, loss, has_intercept=has_intercept)
    sample = smoothed_sample(basis, encoder)
    n_corrections = choose_steps(basis, encoder, ledger, budget, loss, data.n_private)
    step = budget.fraction(Fraction(1, LABEL_WEIGHT + n_corrections))

    first = StageBudget(LABEL_WEIGHT * step.amount, step.pure)
    sums = release_class_sums(data, ledger, encoder, loss, first)
    sums.move_to_private_mean(sample, basis.mean_factor)
    fit = SoftmaxFit(sample, loss, basis, encoder, data.n_private)
    if is_labelled:
        fit.start_from_labelled_rows(labelled_coordinates(data, basis, encoder), labelled)
    if is_labelled and fit.agrees_with(sums):
        fit.step_towards_sums(sums)
    else:
        fit.start_from_class_sums(sums)
    for _ in range(n_corrections):
        fit.correct(data, ledger, step)
    return linear_model(
        encoder,
        fit.mode,
        fit.unmeasured,
        n_corrections=n_corrections,
        margin_variance=fit.margin_variance,
        estimate="there are more than two labels",
    )


def choose_steps(
    basis: PublicBasis,
    encoder: RowEncoder,
    ledger: Ledger,
    budget: StageBudget,
    loss: SoftmaxGLMLoss,
    n: int,
) -> int:
    """Return the number of corrections, a function of public numbers.

    It grows with the sampling variance of class sums, in units of the noise of a correction.
    """
    n_axes = len(basis.scales)
    if not n_axes:
        return 0
    sensitivity = correction_sensitivity(encoder.limit, loss.n_margins * (1 + n_axes))
    noise = budget.variance(ledger.for_person(sensitivity)) / encoder.limit**2
    sampling = n * loss.curvature_at_zero * basis.scales**2 * basis.variances
    ratio = float(np.median(sampling)) / noise
    if ratio <= MIN_SAMPLING_RATIO:
        return 0
    return min(MAX_CORRECTIONS, 1 + math.ceil(math.log2(ratio / MIN_SAMPLING_RATIO)))


def release_class_sums(
    data: Dataset, ledger: Ledger, encoder: RowEncoder, loss: SoftmaxGLMLoss, budget: StageBudget
) -> LabelSums:
    """Release noisy sums of rows by label, in units of the clipping length."""
    n_labels, first = loss.n_margins, encoder.first_coefficient
    table = class_sums(data, encoder, n_labels)
    noisy = ledger.add_noise(
        table,
        class_sum_sensitivity(encoder.limit, encoder.intercept, encoder.n_coefficients - 1),
        budget.event,
        name="noisy sums of rows by label",
        proof=LINEAR_PROOF,
    )
    values = noisy.values / encoder.limit  # (n_labels, k)
    noise = noisy.variance / encoder.limit**2
    return LabelSums(
        n=data.n_private,
        sums=values[:, first:].T,
        noise=noise,
        row_sums=values[:, 1:].sum(axis=0),
        row_noise=n_labels * noise,
        mean_square=0.0,
        residual_variance=1.0,
    )


class SoftmaxFit:
    """Coefficients of all labels along the axes, which are refined by corrections."""

    def __init__(
        self,
        sample: PublicDesign,
        loss: SoftmaxGLMLoss,
        basis: PublicBasis,
        encoder: RowEncoder,
        n: int,
    ) -> None:
        self.sample, self.loss, self.basis, self.encoder = sample, loss, basis, encoder
        self.n = n
        self.axes = slice(1 - encoder.first_coefficient, None)  # coefficients of axes
        mean_weight = max(sample.weights.mean(), 1e-12)
        rows, plain = sample.weighted[:, self.axes], sample.plain[:, self.axes]
        products = rows * plain
        self.row_mean = rows.mean(axis=0) / mean_weight  # (n_axes,)
        second_moments = products.mean(axis=0) / mean_weight
        largest = second_moments.max(initial=0)
        floor = 1e-12 * largest + 1e-300
        row_variances = second_moments - self.row_mean**2
        self.row_variances = np.maximum(row_variances, floor)
        self.n_weighted = n * mean_weight  # expected sum of the weights of the private rows
        # number of public rows that have the error of the covariance
        excess = basis.mean_factor - n
        self.n_public = n * n / excess if excess > 0 else math.inf
        variances = basis.design_variance / basis.scales**2
        if encoder.has_intercept:
            margin_variance = loss.slope_variance / encoder.intercept_value**2
            variances = np.append(margin_variance, variances)
        # (k, n_labels): prior variances of the distance to the coefficients
        ones = np.ones(loss.n_margins)
        self.design_variances = variances[:, None] * ones
        self.variances = self.design_variances
        self.mode = np.zeros_like(self.variances)
        # (n_design, n_labels): coefficients of standardised columns along axes not measured
        self.unmeasured = np.zeros((len(basis.all_axes), loss.n_margins))

    def _squares(self) -> Floats:
        """Return the mean squares of the columns of centred rows, shape (k,)."""
        if not self.encoder.has_intercept:
            return self.row_variances
        return np.append(self.encoder.intercept_value**2, self.row_variances)

    def start_from_class_sums(self, sums: LabelSums) -> None:
        """Set the coefficients to those of an LDA with estimated class means."""
        self.variances = self.design_variances
        self.unmeasured = np.zeros_like(self.unmeasured)
        counts = self._class_counts(sums)
        shares = counts / counts.sum()
        # 1. posterior means of the deviations of the class means, shape (n_axes, n_labels)
        class_means = sums.sums[self.axes] / counts
        deviations = class_means - self.row_mean[:, None]
        sampling = self.row_variances[:, None] / counts
        error = sums.noise / counts**2 + sampling
        design = self.row_variances**2 * self.variances[self.axes, 0]
        variances = evidence_variances(deviations, error, design)[:, None]
        gain = variances / (variances + error)
        means = gain * deviations
        means -= (means @ shares)[:, None]
        # 2. within-class covariance: total minus between, in whitened coordinates
        n_axes = len(means)
        public_error = min(1.0, n_axes / self.n_public)
        mean_variance = self.row_variances.sum() / max(1, n_axes)
        total = self.row_variances + public_error * mean_variance
        deviation = np.sqrt(total)[:, None]
        whitened = means / deviation
        root = whitened * np.sqrt(shares)  # its square is the between-class covariance
        directions, lengths, _ = np.linalg.svd(root, full_matrices=False)
        between = np.minimum(BETWEEN_WEIGHT * lengths**2, MAX_BETWEEN)
        # inverse of the within-class covariance along these directions (Woodbury identity)
        along = directions.T @ whitened  # (n_directions, n_labels)
        weights = between / (1 - between)
        whitened += (directions * weights) @ along
        slopes = whitened / deviation
        # 3. intercepts
        self.mode[self.axes] = slopes
        if self.encoder.has_intercept:
            half_squares = (means * slopes).sum(axis=0) / 2
            margins = np.log(shares) - half_squares - self.row_mean @ slopes
            self.mode[0] = margins / self.encoder.intercept_value
        self.mode -= self.mode.mean(axis=1, keepdims=True)

    def _class_counts(self, sums: LabelSums) -> Floats:
        """Return estimated sums of the weights of the rows of each label."""
        n_labels = self.loss.n_margins
        mean = self.n_weighted / n_labels
        if not self.encoder.has_intercept:
            return np.full(n_labels, max(mean, 1e-12))
        value = self.encoder.intercept_value
        noise = sums.noise / value**2
        counts = sums.sums[0] / value
        # the mean, which public rows predict up to a relative error
        mean_variance = (COUNT_ERROR * mean) ** 2
        gain = mean_variance / (mean_variance + noise / n_labels)
        mean += gain * (counts.mean() - mean)
        deviations = counts - counts.mean()
        mean_square = float((deviations**2).sum()) / (n_labels - 1)
        variance = max(0.0, mean_square - noise)
        gain = variance / (variance + noise)
        shrunk = mean + gain * deviations
        smallest = MIN_COUNT * self.n_weighted / n_labels
        return np.maximum(shrunk, max(smallest, 1e-12))

    def start_from_labelled_rows(self, coordinates: Floats, labels: Codes) -> None:
        """Set the coefficients to those of labelled public rows."""
        basis = self.basis
        n_intercepts = int(self.encoder.has_intercept)
        prior = np.full(coordinates.shape[1], basis.design_variance)
        first_label = self.variances[:, 0]
        prior[:n_intercepts] = first_label[:n_intercepts]
        mode, variances = fit_labelled_softmax(coordinates, labels, self.loss, prior, n_intercepts)
        self.mode = basis.measured_part(mode)
        posterior = basis.measured_part(variances, power=2)
        # few rows can be fitted perfectly, so their posterior variances may be too large
        self.variances = np.minimum(self.design_variances, posterior[:, None])
        slopes = mode[n_intercepts:]
        self.unmeasured = basis.unmeasured_slopes(slopes)

    def agrees_with(self, sums: LabelSums) -> bool:
        """Indicate whether the class sums do not contradict the coefficients of the public rows.

        They do if the estimated log-likelihood is significantly below that of coefficients 0. The
        coefficients are shrunk along axes with much noise.
        """
        sample, loss = self.sample, self.loss
        squares = self._squares()
        information = self.n * loss.curvature_at_zero * squares
        signal = information[:, None] ** 2 * self.design_variances
        reliability = signal / (signal + sums.noise)
        trial = reliability * self.mode
        margins = sample.plain @ trial
        excess_costs = loss.log_partition(margins) - math.log(loss.n_margins)
        costs = sample.weights * excess_costs
        product = (sums.sums * trial).sum()
        gain = float(product - self.n * costs.mean())
        squared_length = (trial**2).sum()
        public_variance = self.basis.public_factor * costs.var()
        variance = sums.noise * squared_length + public_variance
        least_gain = -MAX_DISAGREEMENT * math.sqrt(variance)
        return gain > least_gain

    def step_towards_sums(self, sums: LabelSums) -> None:
        """Take a step along the difference of the class sums and their public expectation."""
        sample = self.sample
        m = len(sample.weights)
        margins = sample.plain @ self.mode
        means = self.loss.mean(margins)
        # moments of the products of rows and probabilities, shape (k, n_labels)
        first_moments = (sample.weighted.T @ means) / m
        second_moments = ((sample.weighted**2).T @ means**2) / m
        gradient = sums.sums - self.n * first_moments
        variances = np.maximum(0, second_moments - first_moments**2)
        public_error = self.basis.public_factor * variances
        self._step(gradient, sums.noise + public_error)

    def correct(self, data: Dataset, ledger: Ledger, budget: StageBudget) -> None:
        """Release the sum of clipped residuals at the current coefficients, and take a step."""
        encoder, n_labels = self.encoder, self.loss.n_margins
        n_entries = encoder.n_coefficients * n_labels
        sensitivity = correction_sensitivity(encoder.limit, n_entries)
        relative_noise = budget.variance(ledger.for_person(sensitivity)) / encoder.limit**2
        length = self._clipping_length(relative_noise)
        padding = ((encoder.first_coefficient, 0), (0, 0))
        coefficients, exponent = integer_coefficients(np.pad(self.mode, padding), encoder.limit)
        factor = 1 / (MEAN_UNIT * length)
        terms = ResidualTerms(self.loss, coefficients, exponent, factor, encoder.limit)
        noisy = ledger.add_noise(
            residual_sums(data, encoder, terms),
            sensitivity,
            budget.event,
            name="noisy sum of clipped residuals",
            proof=LINEAR_PROOF,
        )
        unit = length / encoder.limit
        values = noisy.values[:, encoder.first_coefficient :].astype(np.float64)
        gradient = unit * values.T
        noise = float(noisy.variance) * unit**2
        self._step(gradient, np.full_like(self.mode, noise))

    def _clipping_length(self, relative_noise: float) -> float:
        """Return the length of residuals times rows at which they are clipped.

        It minimises the noise plus the error of what clipping removes, if labels follow the current
        model. The lengths are those of public rows with every label.
        """
        sample, n_labels = self.sample, self.loss.n_margins
        margins = sample.plain @ self.mode
        means = self.loss.mean(margins)
        squares = (means**2).sum(axis=1)
        squared_residuals = 1 - 2 * means + squares[:, None]
        residual_lengths = np.sqrt(np.maximum(0, squared_residuals))  # (m, n_labels)
        row_lengths = np.sqrt((sample.weighted**2).sum(axis=1))
        products = residual_lengths * row_lengths[:, None]
        order = np.argsort(products, axis=None)
        lengths = products.ravel()[order]
        probabilities = means.ravel()[order] / len(means)
        levels = np.cumsum(probabilities)
        quantiles = np.interp(CLIPPING_LEVELS, levels, lengths)
        candidates = np.maximum(quantiles, 1e-6)
        shares = self.basis.scales**2 * self.basis.variances
        squared_sum = shares.sum() ** 2
        n_effective_axes = squared_sum / (shares**2).sum()
        noise = relative_noise * (1 + n_effective_axes) * (n_labels - 1)
        factor = self.basis.public_factor
        return best_length(candidates, lengths, noise, factor, weights=probabilities)

    def _step(self, gradient: Floats, noise: Floats) -> None:
        """Move the coefficients along a noisy gradient of the log-likelihood.

        The step minimises the public loss, with its gradient replaced by the given one, plus two
        penalties of the distance: one for noise, and one for the error of the public curvature.
        """
        n, sample, loss = self.n, self.sample, self.loss
        n_labels = loss.n_margins
        centred = gradient - gradient.mean(axis=1, keepdims=True)
        noise = noise * (1 - 1 / n_labels)
        start = self.mode
        means = loss.mean(sample.plain @ start)
        # one curvature for all labels, shape (k, 1)
        mean_curvature = float((sample.weights @ loss.curvature(means)) / len(means))
        squares = self._squares()
        information = np.maximum(n * mean_curvature * squares, 1e-12)[:, None]
        error = noise + information  # noise and sampling error of the gradient
        ridge = error / (information * self.variances)
        weight = min(MAX_PROXIMAL, PROXIMAL_WEIGHT * start.size / self.n_public)
        proximal = weight * information
        self.mode = _proximal_step(
            sample, loss, start=start, gradient=centred, penalty=ridge + proximal, n=n
        )

    @property
    def margin_variance(self) -> float:
        """Posterior variance of the margins of an average public row."""
        margin_variances = self.sample.plain**2 @ self.variances  # (m, n_labels)
        return float(margin_variances.mean())


def evidence_variances(values: Floats, errors: Floats, design: Floats) -> Floats:
    """Return prior variances of values with given error variances, by maximum evidence.

    Axes of a dyadic block share the factor on the design variances. Shapes: values and errors
    (n_axes, n_labels), design (n_axes,).
    """
    if not len(design):
        return design
    blocks = dyadic_blocks(len(design))

    def negative_evidence(log_factors: Floats) -> float:
        """Return minus the log evidence and the log prior of the log factors."""
        total = (design * np.exp(log_factors[blocks]))[:, None] + errors
        terms = np.log(total) + values**2 / total
        return float(terms.sum() + block_penalty(log_factors)) / 2

    n_blocks = int(blocks[-1]) + 1
    limits = [(MIN_LOG_VARIANCE, MAX_LOG_VARIANCE)] * n_blocks
    best = minimize(negative_evidence, np.zeros(n_blocks), method="L-BFGS-B", bounds=limits)
    return np.asarray(design * np.exp(best.x[blocks]))


def _proximal_step(
    sample: PublicDesign,
    loss: SoftmaxGLMLoss,
    *,
    start: Floats,
    gradient: Floats,
    penalty: Floats,
    n: int,
) -> Floats:
    """Return the coefficients that minimise the public loss with the given gradient at the start.

    The loss of the public rows is scaled to n rows, and the penalty is quadratic.
    """
    scale, factor = 1 / np.sqrt(penalty), n / len(sample.weights)
    start_sums = factor * (sample.weighted.T @ loss.mean(sample.plain @ start))
    target = start_sums + gradient

    def objective(scaled: Floats) -> tuple[float, Floats]:
        """Return the penalised loss of scaled coefficients, and its gradient."""
        coefficients = scaled.reshape(start.shape) * scale
        margins = sample.plain @ coefficients
        distance = coefficients - start
        pull = penalty * distance
        log_partitions = loss.log_partition(margins)
        value = factor * float(sample.weights @ log_partitions)
        value += float((pull * distance).sum()) / 2
        value -= float((target * coefficients).sum())
        sums = factor * (sample.weighted.T @ loss.mean(margins))
        slope = sums - target + pull
        return value, (slope * scale).ravel()

    solution = minimize(
        objective,
        (start / scale).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MAX_ITERATIONS},
    )
    mode = solution.x.reshape(start.shape) * scale
    return np.asarray(mode - mode.mean(axis=1, keepdims=True))


def fit_labelled_softmax(
    rows: Floats, labels: Codes, loss: SoftmaxGLMLoss, variances: Floats, n_intercepts: int
) -> tuple[Floats, Floats]:
    """Return the coefficients given labelled rows, and their posterior variances per axis.

    The prior variances of the slopes are a factor times those of the design, by cross-validation.
    """
    k, n_labels = rows.shape[1], loss.n_margins
    indicators = (labels[:, None] == np.arange(n_labels)).astype(np.float64)
    is_slope = np.arange(k) >= n_intercepts
    zeros = np.zeros((k, n_labels))

    def precisions(factor: float) -> Floats:
        """Return the prior precisions if a factor multiplies the variances of the slopes."""
        return np.where(is_slope, 1 / (factor * variances), 1 / variances)

    def mode(positions: Codes, factor: float) -> Floats:
        """Return the coefficients that minimise the penalised loss of some rows."""
        part = rows[positions]
        sample = PublicDesign(part, part, np.ones(len(part)))
        # the gradient at 0, where all probabilities are equal
        gradient = part.T @ (indicators[positions] - 1 / n_labels)
        penalty = precisions(factor)[:, None] + zeros
        return _proximal_step(
            sample, loss, start=zeros, gradient=gradient, penalty=penalty, n=len(part)
        )

    def held_out_loss(factor: float, fold: int, fitted: Codes, held_out: Codes) -> float:
        """Return the loss of the rows of a fold, with coefficients fitted to the other rows."""
        margins = rows[held_out] @ mode(fitted, factor)
        margins_of_labels = margins[np.arange(len(held_out)), labels[held_out]]
        return float((loss.log_partition(margins) - margins_of_labels).sum())

    factor, _ = choose_prior_factor(len(rows), held_out_loss)
    ridge = precisions(factor)
    coefficients = mode(np.arange(len(rows)), factor)
    curvatures = loss.curvature(loss.mean(rows @ coefficients))
    return coefficients, 1 / (curvatures @ rows**2 + ridge)
