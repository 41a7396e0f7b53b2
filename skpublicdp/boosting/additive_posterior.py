"""Gaussian posterior of an additive logistic model, computed from noisy sums by Kalman updates.

The released sums are Σ v(x) (1[y] - σ(F(x))) φ(x) + noise over the private rows. Here F is the
margin of the current model, v is the scale of a row's gradient, and φ(x) is the vector of a row's
bin indicators. For a model with bin scores w and intercept b, the expected sums are estimated from
m public rows, so everything in this module is post-processing. The likelihood depends on w only
through the margins of the public rows. All computations are therefore projected onto at most m
dimensions, while on the orthogonal complement the prior remains unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, cho_factor, cho_solve, cholesky, qr, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax

from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import Binner
from skpublicdp.boosting.budget_split import MIN_NUMERIC_COLUMNS, MISMATCH
from skpublicdp.boosting.model import MARGIN_UNIT, AdditiveModel, null_model
from skpublicdp.boosting.public_covariance import (
    MAX_FACTORS,
    ColumnIndex,
    FactorBasis,
    make_factor_basis,
    second_moment,
    shares_retained,
    shrunk_moment,
)
from skpublicdp.boosting.term_posterior import smooth_kernel
from skpublicdp.typing import Floats

LOG_VARIANCE_MEAN, LOG_VARIANCE_SD = -1.5, 1.5
"""Mean and standard deviation of the normal hyperprior for the log prior variance of bin scores."""

COMMON_LOG_VARIANCE_BOUNDS, COLUMN_LOG_VARIANCE_BOUNDS = (-9, 5), (-12, 6)
"""Search intervals for the common log prior variance and for the log prior variance per column."""

DAMPING = 0.7
"""Step length of all Gauss-Newton steps after the first. A length below 1 prevents oscillation."""


@dataclass(frozen=True, eq=False)
class WeightedPublicRows:
    """Public rows with importance weights, used as a sample of the private population."""

    # (m, n_bins): bin indicators (0 or 1) of the rows, or the coordinates of the rows in a row
    # space
    X: Floats
    weights: Floats  # (m,): weight of each row. The weights sum to 1.
    n: int  # number of private rows that the public rows represent
    # factors whose coefficients are the columns of X, or None if covariances are not shrunk
    basis: FactorBasis | None = None

    @classmethod
    def from_data(cls, data: BinnedData, weights: Floats | None = None) -> WeightedPublicRows:
        """Return the binned public rows, which have equal weights by default."""
        X = data.binner.indicators(data.public_codes)
        return cls(X, np.full(len(X), 1 / len(X)) if weights is None else weights, data.rows.n)

    @property
    def concentration(self) -> float:
        """Sum of squared weights, which is 1 / m for m public rows with equal weights."""
        return float(self.weights @ self.weights)

    @property
    def effective_size(self) -> float:
        """Kish's effective sample size of the weighted rows."""
        return 1 / self.concentration


@dataclass(frozen=True, eq=False)
class NoisyStatistic:
    """Noisy gradient sums of one target: A Σ v (1[y] - σ(F)) φ + noise, for a strategy A."""

    total: Floats  # (n_measured,): the noisy sums
    covariance: Floats  # (n_measured, n_measured): covariance matrix of the noise
    Z: Floats  # (m, n_measured): value of A φ for each public row
    scale: Floats  # (m,): gradient scale v of each public row
    baseline: Floats  # (m,): probability σ(F) that the measured model assigns to each public row
    # (n_measured,): column of each sum, or -1 for the total. Used with a `FactorBasis`.
    columns: ColumnIndex | None = None
    # (n_coefficients,): coefficients of the measured model. Used with a `FactorBasis`.
    measured_at: Floats | None = None


@dataclass(frozen=True, eq=False)
class GaussianPosterior:
    """Gaussian distribution of (w, b), the vector of the coefficients followed by the intercept."""

    mean: Floats  # (n_coefficients + 1,): expected coefficients and intercept
    # (n_coefficients + 1, n_coefficients + 1): covariance of the coefficients and the intercept
    covariance: Floats

    def margins(self, X: Floats) -> Floats:
        """Return the expected margin of each row of `X`."""
        return X @ self.mean[:-1] + self.mean[-1]


@dataclass(frozen=True, eq=False)
class BinPosterior:
    """Gaussian distribution of all bin scores, represented as a factor model.

    The scores are `loadings` times the factors plus an independent residual. The factors span the
    row space of the public rows. A release therefore provides information about the factors only,
    and the residual keeps its prior distribution.
    """

    factors: GaussianPosterior  # distribution of the factors and the intercept
    X: Floats  # (m, n_factors): coefficient of each factor in the margin of each public row
    loadings: Floats  # (n_bins, n_factors): bin scores per unit of each factor
    # (n_bins, n_bins): covariance of each column's residual
    residual_covariances: tuple[Floats, ...]

    @property
    def mean(self) -> Floats:
        """Expected score of each bin, followed by the expected intercept."""
        return np.append(self.loadings @ self.factors.mean[:-1], self.factors.mean[-1])

    @property
    def covariances(self) -> list[Floats]:
        """Covariance matrix of the bin scores of each column, shape (n_bins, n_bins)."""
        factor_covariance = self.factors.covariance[:-1, :-1]
        loadings = [self.loadings[bins] for bins in _column_slices(self.residual_covariances)]
        return [
            residual + L @ factor_covariance @ L.T
            for residual, L in zip(self.residual_covariances, loadings, strict=True)
        ]

    def mean_variance(self, row_weights: Floats) -> float:
        """Return the variance of the centred margin, averaged over the weighted public rows."""
        centred = self.X - row_weights @ self.X
        covariance = self.factors.covariance[:-1, :-1]
        variances = ((centred @ covariance) * centred).sum(axis=1)  # (m,)
        return float(row_weights @ variances)


def row_space(rows: Floats) -> tuple[Floats, Floats]:
    """Return an orthonormal basis of a matrix's row space, and the coordinates of the rows."""
    if rows.shape[1] <= len(rows):
        return np.eye(rows.shape[1]), rows
    basis, coordinates = qr(rows.T, mode="economic")
    return basis, coordinates.T


def whiten_and_reduce(totals: Floats, variances: Floats, Z: Floats) -> tuple[Floats, Floats]:
    """Rescale noisy sums to unit noise variance, and project them onto the public rows' row space.

    With m public rows, the projection has at most m coordinates. The projection is a sufficient
    statistic, since the expected sums of any model lie in this space.
    """
    deviations = np.sqrt(variances)
    basis, coordinates = row_space(Z / deviations)
    return totals / deviations @ basis, coordinates


def prior_covariances(binner: Binner, design: WeightedPublicRows) -> list[Floats]:
    """Return the prior covariance of each column's bin scores, for prior variance 1.

    Scores of a numeric column are a smooth function of the rank among the public rows (see
    `smooth_kernel`). Scores of categories and of missing values are independent.
    """
    covariances = []
    shares = design.weights @ design.X
    # the last offset is the number of bins, not the start of a column
    for start, bins in zip(binner.offsets[:-1], binner.columns, strict=True):
        covariance = np.eye(bins.size)
        if not bins.column.categorical and bins.size > 1:
            n_intervals = bins.size - 1  # the last bin, for missing values, has no neighbours
            mass = shares[start : start + n_intervals]
            ranks = np.cumsum(mass) - mass / 2  # rank of the centre of each interval
            covariance[:n_intervals, :n_intervals] = smooth_kernel(ranks)
        covariances.append(covariance)
    return covariances


def fit_prior_variances(
    blocks: Sequence[Floats],  # prior covariances of the scores of each column, for variance 1
    design: WeightedPublicRows,
    statistic: NoisyStatistic,
    rate: float,
    basis: FactorBasis | None = None,
    log_variance_mean: float = LOG_VARIANCE_MEAN,
) -> Floats:
    """Estimate each column's prior variance from the first release by empirical Bayes.

    The marginal likelihood is maximised in two stages. The first stage estimates a common log
    variance with the hyperprior of `LOG_VARIANCE_MEAN`. The second stage estimates a log variance
    for each column, with a N(., 1) prior centred at the common value. The statistic has gradient
    sums at a model that predicts the probability `rate`. The result has the logarithms of the prior
    variances, shape (n_columns,).
    """
    hessian_sum, weights = design.n * rate * (1 - rate), design.weights
    centred = (statistic.Z - weights @ statistic.Z) * weights[:, None]
    # the sampling variance is inflated because the public rows come from another population
    mismatch = 1 + MISMATCH * design.n * design.concentration
    roots = [cholesky(block, lower=True) for block in blocks]
    sizes = [len(block) for block in blocks]
    row_covariance = centred.T @ statistic.Z
    if basis is None:
        cross_covariance = centred.T @ _multiply_columns(design.X, roots)
    else:
        assert statistic.columns is not None
        columns, retained = statistic.columns, 1 - basis.independence
        roots = [root @ vectors for root, vectors in zip(roots, basis.directions, strict=True)]
        sizes = [root.shape[1] for root in roots]
        cross_covariance = centred.T @ _multiply_columns(design.X, roots)
        cross_covariance *= shares_retained(columns, basis.columns, retained)
        row_covariance *= shares_retained(columns, columns, retained)
    covariance = statistic.covariance + hessian_sum * mismatch * row_covariance
    covariance_root = cholesky(covariance, lower=True)
    # the model is total = H w + N(0, 1), with w ~ N(0, 1) at prior variance 1
    total = solve_triangular(covariance_root, statistic.total, lower=True)
    H = hessian_sum * solve_triangular(covariance_root, cross_covariance, lower=True)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    eigenvalues, eigenvectors = np.linalg.eigh(H @ H.T)
    squares = (eigenvectors.T @ total) ** 2

    def common_loss(log_variance: Floats) -> tuple[float, Floats]:
        """Return the negative log posterior of a common log variance, and its derivative."""
        prior_variance = np.exp(log_variance[0])
        standardised = (log_variance[0] - log_variance_mean) / LOG_VARIANCE_SD
        variances = 1 + prior_variance * eigenvalues  # of the total in the eigenbasis
        relative_squares = squares / variances
        deviance = (relative_squares + np.log(variances)).sum()
        value = deviance / 2 + standardised**2 / 2
        log_slopes = 1 - 1 / variances  # derivatives of the log variances
        deviance_slope = ((1 - relative_squares) * log_slopes).sum()
        slope = deviance_slope / 2 + standardised / LOG_VARIANCE_SD
        return float(value), np.array([slope])

    common = minimize(
        common_loss,
        np.array([log_variance_mean]),
        jac=True,
        method="L-BFGS-B",
        bounds=[COMMON_LOG_VARIANCE_BOUNDS],
    )
    center = float(common.x[0])

    def column_loss(log_variances: Floats) -> tuple[float, Floats]:
        """Return the negative log posterior of the columns' log variances, and its gradient."""
        deviations = np.exp(log_variances / 2)  # (n_columns,)
        scaled = H * np.repeat(deviations, sizes)
        marginal_covariance = np.eye(len(H)) + scaled @ scaled.T
        root = np.linalg.cholesky(marginal_covariance)
        white_design = solve_triangular(root, scaled, lower=True)
        white_total = solve_triangular(root, total, lower=True)
        half_log_determinant = np.log(np.diag(root)).sum()
        negative_log_likelihood = white_total @ white_total / 2 + half_log_determinant
        distances = log_variances - center
        value = negative_log_likelihood + (distances**2).sum() / 2
        squared_norms = (white_design**2).sum(axis=0)  # (n_bins,)
        projections = white_total @ white_design
        slope_of_bin = squared_norms - projections**2
        slopes = np.add.reduceat(slope_of_bin, starts) / 2  # (n_columns,)
        return float(value), slopes + log_variances - center

    by_column = minimize(
        column_loss,
        np.full(len(blocks), center),
        jac=True,
        method="L-BFGS-B",
        bounds=[COLUMN_LOG_VARIANCE_BOUNDS] * len(blocks),
        options={"maxiter": 15},  # an approximate optimum is enough for a prior
    )
    return np.asarray(by_column.x)


def bin_prior(
    blocks: Sequence[Floats],
    log_variances: Floats,
    intercept: float,
    X: Floats,
    basis: FactorBasis | None = None,
) -> BinPosterior:
    """Return the prior of all bin scores, represented as a factor model on the public rows.

    By default, the factors span the row space of the public rows.
    """
    pairs = zip(log_variances, blocks, strict=True)
    covariances = [np.exp(log_variance) * block for log_variance, block in pairs]
    roots = [cholesky(covariance, lower=True) for covariance in covariances]
    # scores are products of roots and standard normal variables, and the public rows depend on a
    # projection of these variables
    rows = _multiply_columns(X, roots)
    if basis is None:
        directions, coordinates = row_space(rows)
    else:
        directions = block_diag(*basis.directions)
        coordinates = _multiply_columns(rows, basis.directions)
    loadings, residuals = [], []
    for bins, covariance, root in zip(_column_slices(roots), covariances, roots, strict=True):
        L = root @ directions[bins]  # (n_bins_of_column, n_factors)
        loadings.append(L)
        residuals.append(covariance - L @ L.T)
    n_factors = coordinates.shape[1]
    mean = np.append(np.zeros(n_factors), intercept)
    return BinPosterior(
        factors=GaussianPosterior(mean, np.eye(n_factors + 1)),
        X=coordinates,
        loadings=np.vstack(loadings),
        residual_covariances=tuple(residuals),
    )


def condition_on(
    prior: BinPosterior, design: WeightedPublicRows, statistic: NoisyStatistic
) -> BinPosterior:
    """Return the posterior of all bin scores given noisy gradient sums."""
    factors, _ = gauss_newton_update(prior.factors, replace(design, X=prior.X), statistic)
    return replace(prior, factors=factors)


def gauss_newton_update(
    prior: GaussianPosterior,
    design: WeightedPublicRows,
    statistic: NoisyStatistic,
    offset: Floats | float = 0.0,  # (m,)
    steps: int = 5,
) -> tuple[GaussianPosterior, float]:
    """Return the posterior given noisy gradient sums, using an iterated extended Kalman update.

    The expected sums are estimated from the public rows and linearised at the current mode. The
    first Gauss-Newton step is a full step, and later steps are damped by `DAMPING`. The base
    margins of the public rows are `offset`. The second value is the log marginal likelihood of the
    statistic, up to a constant.
    """
    ones = np.ones((len(design.X), 1))
    extended = np.hstack([design.X, ones])  # (m, n_coefficients + 1)
    mode = prior.mean
    for step in range(steps):
        margins = extended @ mode + offset
        H, expected, error_covariance = _linearised_sums(
            design, statistic, extended, margins, coefficients=mode[:-1]
        )
        linear_change = H @ (prior.mean - mode)
        innovation = statistic.total - expected - linear_change
        # Kalman update
        cross_covariance = H @ prior.covariance
        innovation_covariance = cross_covariance @ H.T + error_covariance
        factor = cho_factor(innovation_covariance, lower=True)
        solved_innovation = cho_solve(factor, innovation)
        full_step = prior.mean + solved_innovation @ cross_covariance
        mode = full_step if step == 0 else mode + DAMPING * (full_step - mode)

    root = factor[0]  # Cholesky factor of the innovation's covariance
    half_log_determinant = np.log(np.diag(root)).sum()
    log_evidence = -innovation @ solved_innovation / 2 - half_log_determinant
    reduction = solve_triangular(root, cross_covariance, lower=True)
    covariance = prior.covariance - reduction.T @ reduction
    return GaussianPosterior(mode, covariance), float(log_evidence)


def _linearised_sums(
    design: WeightedPublicRows,
    statistic: NoisyStatistic,
    extended: Floats,  # (m, n_coefficients + 1)
    margins: Floats,  # (m,)
    coefficients: Floats,  # (n_coefficients,)
) -> tuple[Floats, Floats, Floats]:
    """Return the derivative, the expectation and the error covariance of the sums of a model.

    With a `FactorBasis`, covariances between columns are shrunk. Sums of independent columns are
    linear in the coefficients. Extended public rows have a column of ones for the intercept.
    """
    n, basis = design.n, design.basis
    Z = statistic.Z
    w, v = design.weights, statistic.scale  # (m,)
    margins = np.clip(margins, -30, 30)  # so that `exp` does not overflow
    probability = 1 / (1 + np.exp(-margins))
    label_variance = probability * (1 - probability)
    slope_of_row = w * label_variance * v
    change_of_row = w * v * (probability - statistic.baseline)
    # for the private rows, and for the public rows relative to their population
    sampling_factor = n * (1 + MISMATCH * n * design.concentration)
    sampling_variance = sampling_factor * w * label_variance * v**2  # (m,)
    public_variance = (n * change_of_row) ** 2
    columns, measured_at = statistic.columns, statistic.measured_at
    if basis is None or columns is None or measured_at is None:
        H = n * (Z * slope_of_row[:, None]).T @ extended
        error_covariance = second_moment(Z, sampling_variance + public_variance)
        return H, n * Z.T @ change_of_row, error_covariance + statistic.covariance

    retained = 1 - basis.independence
    factor_columns = np.append(basis.columns, -1)
    retained_shares = shares_retained(columns, factor_columns, retained)
    H = n * shrunk_moment(Z, extended, slope_of_row, retained_shares)
    error_covariance = shrunk_moment(
        Z,
        Z,
        sampling_variance + retained * public_variance,
        shares_retained(columns, columns, retained),
    )
    mean_Z = slope_of_row @ Z / slope_of_row.sum()
    expected_means = mean_Z * change_of_row.sum()
    expected_deviations = Z.T @ change_of_row - expected_means
    expected = n * (expected_means + retained * expected_deviations)
    # the remaining weight is that of independent columns
    covariance = H - n * np.outer(mean_Z, slope_of_row @ extended)
    is_within = columns[:, None] == basis.columns
    within_columns = np.where(is_within, covariance[:, :-1], 0.0)
    expected += (1 - retained) * within_columns @ (coefficients - measured_at)
    return H, expected, error_covariance + statistic.covariance


def _column_slices(blocks: Sequence[Floats]) -> list[slice]:
    """Return each column's slice of an array of all bins, given the columns' square blocks."""
    ends = np.cumsum([len(block) for block in blocks]).tolist()
    return [slice(end - len(block), end) for end, block in zip(ends, blocks, strict=True)]


def choose_factor_basis(blocks: Sequence[Floats], design: WeightedPublicRows) -> FactorBasis | None:
    """Return the factors of a fit, or None if there are too few or too many columns.

    With few columns, public rows determine the covariances, and shrinking them makes some fits of
    strong effects much worse.
    """
    if not MIN_NUMERIC_COLUMNS <= len(blocks) <= MAX_FACTORS:
        return None
    roots = [cholesky(block, lower=True) for block in blocks]
    pairs = zip(_column_slices(blocks), roots, strict=True)
    return make_factor_basis([design.X[:, bins] @ root for bins, root in pairs], design.weights)


def project_sums(
    totals: Floats, Z: Floats, columns: ColumnIndex, design: WeightedPublicRows, X: Floats
) -> tuple[Floats, Floats, ColumnIndex]:
    """Project noisy sums of unit variance onto those that the factors of each column can change.

    The last sum is the total over all rows, which is kept.
    """
    assert design.basis is not None
    factor_columns = design.basis.columns
    weighted = (X - design.weights @ X) * design.weights[:, None]
    projected_totals, projected_Z, kept_columns = [], [], []
    for column in np.unique(columns).tolist():
        sums = np.flatnonzero(columns == column)
        factors = np.flatnonzero(factor_columns == column)
        column_Z = Z[:, sums]
        directions = np.eye(len(sums))
        if column >= 0 and len(factors) < len(sums):
            products = column_Z.T @ weighted[:, factors]
            directions, _ = np.linalg.qr(products)
        column_totals = totals[..., sums]
        projected_totals.append(column_totals @ directions)
        projected_Z.append(column_Z @ directions)
        kept_columns += [column] * directions.shape[1]
    projected = np.concatenate(projected_totals, axis=-1)
    kept = np.array(kept_columns, dtype=np.intp)
    return projected, np.hstack(projected_Z), kept


def _multiply_columns(X: Floats, matrices: Sequence[Floats]) -> Floats:
    """Return the product of `X` and a block-diagonal matrix with one block per column."""
    slices = _column_slices(matrices)
    products = [X[:, bins] @ matrix for bins, matrix in zip(slices, matrices, strict=True)]
    return np.hstack(products)


POWER_PRIORS = (0.0, 0.1, 0.3, 1.0)
"""Exponents of the public likelihood. The fits are averaged with weights determined by their
evidence (ablation: "public labels")."""

MAX_NEWTON_STEP = 4.0
"""Maximum change in a margin in one Newton step."""

MAX_NEWTON_STEPS = 200
"""Maximum number of Newton steps. The iteration stops early once it reaches the mode."""


@dataclass(frozen=True, eq=False, repr=False)
class PublicLabels:
    """Targets of public rows."""

    rows: NDArray[np.intp]  # (k,): indices of the labelled public rows
    outcomes: Floats  # (n_targets, k): targets of the labelled rows, between 0 and 1


def laplace_approximation(
    prior: GaussianPosterior, X: Floats, outcomes: Floats, exponent: float
) -> GaussianPosterior:
    """Return the Laplace approximation of a power prior: a prior times a power of a likelihood.

    Power priors are due to Ibrahim and Chen (2000). Here, the likelihood is the logistic likelihood
    of labelled public rows. The mode is found by damped Newton steps, and the covariance is the
    inverse of the hessian at the mode. Shapes: X (k, n_coefficients), outcomes between 0 and 1
    (k,).
    """
    extended = np.hstack([X, np.ones((len(X), 1))])
    precision, mode = _inverse(prior.covariance), prior.mean.astype(np.float64)

    def hessian(probability: Floats) -> Floats:
        """Return the hessian of the negative log posterior."""
        q = probability * (1 - probability)
        scaled = extended * np.sqrt(exponent * q)[:, None]
        hessian: Floats = precision + scaled.T @ scaled  # half the time of a general product
        return hessian

    for _ in range(MAX_NEWTON_STEPS):
        probability = expit(extended @ mode)
        slope = precision @ (prior.mean - mode) + exponent * extended.T @ (outcomes - probability)
        step = cho_solve(cho_factor(hessian(probability)), slope)
        max_change = float(np.abs(extended @ step).max(initial=0.0))
        damping = min(1.0, MAX_NEWTON_STEP / max(max_change, 1e-12))
        mode = mode + step * np.float64(damping)
        if max_change < 1e-6:  # the error of the next step is its square
            break
    return GaussianPosterior(mode, _inverse(hessian(expit(extended @ mode))))


def _inverse(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix, in half the time of `np.linalg.inv`."""
    root = cholesky(matrix, lower=True)
    lower, _ = dpotri(root, lower=True)
    strictly_lower = np.tril(lower, -1)
    inverse: Floats = np.tril(lower) + strictly_lower.T
    return inverse


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Initial model for boosting, with its uncertainty."""

    model: AdditiveModel  # scores of all bins
    # (n_targets, n_bins, n_bins): posterior covariances of each column's bin scores
    covariances: list[Floats]


def warm_starts(
    binner: Binner, design: WeightedPublicRows, n_targets: int, public_labels: PublicLabels | None
) -> list[WarmStart]:
    """Return the candidate initial models: the null model, followed by a fit for each power prior.

    Each fit conditions the prior of the bin scores on the likelihood of the public labels, raised
    to one of the positive exponents in `POWER_PRIORS`. Without public labels, there is only the
    null model.
    """
    null = null_model(binner.offsets, n_targets)
    starts = [WarmStart(null, [np.zeros((n_targets, size, size)) for size in binner.sizes])]
    if public_labels is None:
        return starts
    blocks = prior_covariances(binner, design)
    log_variances = np.full(len(blocks), LOG_VARIANCE_MEAN)
    priors = [
        bin_prior(blocks, log_variances, float(intercept), design.X)
        for intercept in logit(clipped_rates(public_labels))
    ]
    X = priors[0].X[public_labels.rows]
    for exponent in POWER_PRIORS[1:]:
        pairs = zip(priors, public_labels.outcomes, strict=True)
        posteriors = [
            replace(prior, factors=laplace_approximation(prior.factors, X, outcomes, exponent))
            for prior, outcomes in pairs
        ]
        means = np.array([posterior.mean for posterior in posteriors])
        scores = np.rint(MARGIN_UNIT * means).astype(np.int64)
        model = AdditiveModel(scores[:, :-1], scores[:, -1], binner.offsets)
        columns = zip(*(posterior.covariances for posterior in posteriors), strict=True)
        starts.append(WarmStart(model, [np.array(column) for column in columns]))
    return starts


def clipped_rates(public_labels: PublicLabels) -> Floats:
    """Return the mean of each public target, kept away from 0 and 1, shape (n_targets,)."""
    min_rate = 1 / (public_labels.outcomes.shape[1] + 2)
    return np.clip(public_labels.outcomes.mean(axis=1), min_rate, 1 - min_rate)


def evidence_weights(log_evidence: Floats) -> Floats:
    """Return the posterior weights of the power-prior exponents.

    The exponent 0, with which the public labels are ignored, has a prior weight of 1/2. The other
    exponents share the remaining prior weight equally.
    """
    prior_odds = np.ones(len(log_evidence))
    prior_odds[0] = max(len(log_evidence) - 1, 1)
    return softmax(log_evidence + np.log(prior_odds))


def mix_models(starts: list[WarmStart], weights: Floats) -> WarmStart:
    """Return the mean and the covariances of a mixture of initial models.

    By the law of total covariance, the covariances include the variation within and between the
    models.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_models,)
        Weights of the models, which sum to 1.
    """

    def mean(arrays: list[NDArray[Any]]) -> NDArray[np.int64]:
        """Return the weighted mean, rounded to integers."""
        return np.rint(np.tensordot(weights, arrays, axes=1)).astype(np.int64)

    models = [start.model for start in starts]
    scores = mean([model.scores for model in models])
    intercepts = mean([model.intercepts for model in models])
    offsets = models[0].offsets
    covariances = []
    for column, (first_bin, end) in enumerate(pairwise(offsets)):
        covariance = np.zeros_like(starts[0].covariances[column])
        for weight, start in zip(weights, starts, strict=True):
            deviations = (start.model.scores - scores)[:, first_bin:end] / MARGIN_UNIT
            between = deviations[:, :, None] * deviations[:, None]
            covariance += weight * (start.covariances[column] + between)
        covariances.append(covariance)
    return WarmStart(AdditiveModel(scores, intercepts, offsets), covariances)


def mix_gaussians(components: list[GaussianPosterior], weights: Floats) -> GaussianPosterior:
    """Return a Gaussian with the same mean and covariance as a mixture of Gaussians."""
    means = np.array([component.mean for component in components])
    mean: Floats = weights @ means
    covariance = np.einsum("b,bi,bj->ij", weights, means - mean, means - mean)
    for weight, component in zip(weights, components, strict=True):
        covariance += weight * component.covariance
    return GaussianPosterior(mean, covariance)
