"""Gaussian posterior of the distribution function, given noisy prefix sums and public rows.

The prior mean of the private distribution is the public one times an exponential tilt (smooth
shift). Independent changes of the cells are added (rough shift). The sizes of both shifts are
estimated on a grid by marginal likelihood (empirical Bayes). Only released and public numbers
enter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.special import ndtri

from skpublicdp.accounting import Measurement
from skpublicdp.query_release.cdf.strategies import MeasurementStrategy
from skpublicdp.query_release.effective_sizes import SHIFT_VARIANCE_GRID
from skpublicdp.typing import Floats, Integers

N_COSINES = 8
"""Number of cosines of the public rank in the tilt, besides a location shift."""

MAX_SHIFT_EDGES = 120
"""Maximum number of edges at which the shift is estimated."""

AIC_THRESHOLD = 2.0
"""Minimum gain in log-likelihood for which a shift is modelled (Akaike information criterion)."""

TAIL_SHARE_OF_SHIFT = 0.1
"""Share of the rough shift that is assigned to the tails beyond the public rows."""

PROFILE_LIKELIHOOD_SLACK = 2.0
"""Twice the log-likelihood loss that is allowed for the shift of the intervals."""

N_GAUSS_NEWTON_STEPS = 4
MAX_TILT_STEP = 1.5
JITTER = 1e-13


@dataclass(frozen=True)
class NoisyPrefixSums:
    """Unbiased private estimates of the prefix sums.

    Attributes
    ----------
    prefix : ndarray of shape (n_edges,)
        Estimated fraction of the private rows at or below each edge.
    covariance : ndarray of shape (n_edges, n_edges)
        Covariance of their noise.
    n_private : int
        Number of private rows.
    """

    prefix: Floats
    covariance: Floats
    n_private: int


@dataclass(frozen=True)
class DistributionShift:
    """Shift of the private distribution from the public one.

    Attributes
    ----------
    tilt : ndarray of shape (N_COSINES + 1,)
        Coefficients of the exponential tilt.
    rough_variance : float
        Variance of independent changes of the cells, as the inverse of a number of rows.
    smooth_deviation : float
        Prior standard deviation of the coefficients of the tilt.
    """

    tilt: Floats
    rough_variance: float
    smooth_deviation: float


NO_SHIFT = DistributionShift(np.zeros(N_COSINES + 1), 0.0, 0.0)


@dataclass(frozen=True)
class PublicPrior:
    """Public distribution functions at the right ends of cells. Their last values are 1.

    Attributes
    ----------
    public_cdf : ndarray of shape (n_cells,)
        Distribution of the public rows, with one pseudo-record.
    tail_cdf : ndarray of shape (n_cells,)
        Distribution of the pseudo-record, with mass everywhere between the bounds.
    n_public : int
        Number of public rows.
    """

    public_cdf: Floats
    tail_cdf: Floats
    n_public: int

    def select(self, ends: NDArray[np.intp]) -> PublicPrior:
        """Return the prior on coarser cells, given the indices of their ends."""
        return PublicPrior(self.public_cdf[ends], self.tail_cdf[ends], self.n_public)

    def tilt_directions(self) -> Floats:
        """Return the directions of the tilt at each cell, shape (n_cells, N_COSINES + 1).

        They are the normal score of the public rank, which shifts the location, and cosines of the
        rank with amplitudes 1, 1/2, 1/3, ...
        """
        mid_rank = self.public_cdf - np.diff(self.public_cdf, prepend=0.0) / 2
        normal_score = ndtri(np.clip(mid_rank, 1e-9, 1 - 1e-9))
        frequency = np.arange(1, N_COSINES + 1)
        cosines = np.cos(np.pi * np.outer(mid_rank, frequency)) / frequency
        return np.column_stack([normal_score, cosines])


@dataclass(frozen=True)
class LinearizedModel:
    """Gaussian model of the prefix sums at all edges, linearized at a tilt.

    Attributes
    ----------
    mean : ndarray of shape (n_edges,)
        Prefix sums at a tilt of zero, by the linear approximation.
    jacobian : ndarray of shape (n_edges, N_COSINES + 1)
        Derivatives of the prefix sums with respect to the tilt.
    sampling_covariance : ndarray of shape (n_edges, n_edges)
        Covariance of the sampling error of the private rows.
    public_covariance : ndarray of shape (n_edges, n_edges)
        Covariance of the sampling error of the public rows, carried through the tilt.
    rough_covariance : ndarray of shape (n_edges, n_edges)
        Covariance of a rough shift with variance 1.
    """

    mean: Floats
    jacobian: Floats
    sampling_covariance: Floats
    public_covariance: Floats
    rough_covariance: Floats

    def prior_covariance(self, shift: DistributionShift) -> Floats:
        """Return the prior covariance of the population's prefix sums."""
        smooth_covariance = shift.smooth_deviation**2 * (self.jacobian @ self.jacobian.T)
        rough_covariance = shift.rough_variance * self.rough_covariance
        covariance: Floats = self.public_covariance + rough_covariance + smooth_covariance
        return covariance


def linearize(prior_at_edges: PublicPrior, tilt: Floats, n_private: int) -> LinearizedModel:
    """Linearize the tilted public distribution at the given coefficients.

    Parameters
    ----------
    prior_at_edges : PublicPrior
        The public distribution.
    tilt : ndarray of shape (N_COSINES + 1,)
        Coefficients of the tilt.
    n_private : int
        Number of private rows.
    """
    public_mass = np.diff(prior_at_edges.public_cdf, prepend=0.0)
    directions = prior_at_edges.tilt_directions()
    exponent = directions @ tilt
    tilted_mass = public_mass * np.exp(exponent - exponent.max())
    tilted_mass /= tilted_mass.sum()
    cumulative = np.cumsum(tilted_mass)
    cumulative[-1] = 1
    growth = np.divide(
        tilted_mass, public_mass, out=np.ones_like(public_mass), where=public_mass > 0
    )
    centered = directions - tilted_mass @ directions
    jacobian = np.cumsum(tilted_mass[:, None] * centered, axis=0)[:-1]
    # two more pseudo-rows anywhere between the bounds
    pseudo_variance = 2 / (prior_at_edges.n_public + 1) * prior_at_edges.tail_cdf
    public_covariance = bridge_covariance(
        cumulative, np.cumsum(growth * tilted_mass) + pseudo_variance
    ) / (prior_at_edges.n_public + 1)
    rough_covariance = bridge_covariance(
        cumulative,
        (1 - TAIL_SHARE_OF_SHIFT) * cumulative + TAIL_SHARE_OF_SHIFT * prior_at_edges.tail_cdf,
    )
    return LinearizedModel(
        mean=cumulative[:-1] - jacobian @ tilt,
        jacobian=jacobian,
        sampling_covariance=bridge_covariance(cumulative, cumulative) / n_private,
        public_covariance=public_covariance,
        rough_covariance=rough_covariance,
    )


def bridge_covariance(cumulative_mass: Floats, cumulative_variance: Floats) -> Floats:
    """Return the covariance of prefix sums of changes whose total is 0 (a Brownian bridge).

    Cells change independently. Their sum is then subtracted in proportion to the masses.

    Parameters
    ----------
    cumulative_mass, cumulative_variance : ndarray of shape (n_cells,)
        Prefix sums of the masses of the cells, and of the variances of their changes.

    Returns
    -------
    ndarray of shape (n_cells - 1, n_cells - 1)
    """
    mass, variance = cumulative_mass[:-1], cumulative_variance[:-1]
    subtracted = np.outer(mass, variance)
    covariance: Floats = np.minimum.outer(variance, variance) - subtracted - subtracted.T
    covariance += cumulative_variance[-1] * np.outer(mass, mass)
    return covariance


@dataclass(frozen=True)
class StrategyMeasurement:
    """A measured strategy, and the cells that it was applied to.

    Attributes
    ----------
    strategy : MeasurementStrategy
        Combinations of the counts of coarse cells, or of the cells of the grid.
    measurement : Measurement
        Their noisy values.
    coarse_cells : ndarray of shape (n_cells,), or None
        Index of the coarse cell that contains each cell of the grid. None if they are equal.
    """

    strategy: MeasurementStrategy
    measurement: Measurement
    coarse_cells: NDArray[np.intp] | None = None

    @property
    def matrix(self) -> Integers:
        """The strategy matrix in terms of the cells of the grid."""
        if self.coarse_cells is None:
            return self.strategy.matrix
        return self.strategy.matrix[:, self.coarse_cells]


def gram_matrix(matrix: Integers) -> tuple[Floats, Floats]:
    """Return (DᵀD, D): the Gram matrix, and the design D that maps prefix sums to answers."""
    # cell counts are differences of prefix sums, and the last prefix sum is the public total
    design = (matrix[:, :-1] - matrix[:, 1:]).astype(float)
    return design.T @ design, design


def least_squares(measurements: Sequence[StrategyMeasurement], n_private: int) -> NoisyPrefixSums:
    """Estimate the fraction of private rows at or below each edge by weighted least squares.

    At least one of the measurements must distinguish all cells.
    """
    n_edges = measurements[0].matrix.shape[1] - 1
    information_matrix, information_vector = np.zeros((n_edges, n_edges)), np.zeros(n_edges)
    for measured in measurements:
        precision = n_private**2 / measured.measurement.variance
        gram, design = gram_matrix(measured.matrix)
        target = measured.measurement.values / n_private - measured.matrix[:, -1]
        information_matrix += precision * gram
        information_vector += precision * (design.T @ target)
    covariance = cho_solve(cho_factor(information_matrix), np.eye(len(information_matrix)))
    return NoisyPrefixSums(covariance @ information_vector, covariance, n_private)


class PrefixSumPosterior(NamedTuple):
    """Posterior mean and covariance of the population's prefix sums at all edges."""

    mean: Floats
    covariance: Floats


def posterior_prefix_sums(
    evidence: NoisyPrefixSums,
    prior_at_edges: PublicPrior,
    shift: DistributionShift,
    estimate: Floats | None = None,
) -> PrefixSumPosterior:
    """Return the posterior of the population's prefix sums under the linearized model.

    Parameters
    ----------
    evidence : NoisyPrefixSums
        The private measurements.
    prior_at_edges : PublicPrior
        The public distribution.
    shift : DistributionShift
        Tilt and sizes of the shift.
    estimate : ndarray of shape (n_edges,), optional
        Prefix sums at which the sampling covariance is evaluated. By default they are those of the
        tilted public distribution.
    """
    model = linearize(prior_at_edges, shift.tilt, evidence.n_private)
    prior_covariance, sampling_covariance = model.prior_covariance(shift), model.sampling_covariance
    if estimate is not None:
        cumulative = np.append(estimate, 1.0)
        sampling_covariance = bridge_covariance(cumulative, cumulative) / evidence.n_private
    error_covariance = sampling_covariance + evidence.covariance
    factor = cho_factor(with_jitter(prior_covariance + error_covariance), lower=True)
    # Equal to the Kalman update from the prior mean. This form is exact for tiny noise.
    mean = evidence.prefix - error_covariance @ cho_solve(factor, evidence.prefix - model.mean)
    whitened_prior = solve_triangular(factor[0], prior_covariance, lower=True)
    covariance = prior_covariance - whitened_prior.T @ whitened_prior
    np.fill_diagonal(covariance, np.maximum(np.diag(covariance), 0))
    return PrefixSumPosterior(mean, covariance)


class ShiftEstimates(NamedTuple):
    """Estimated shifts, for the estimate and for its intervals.

    Attributes
    ----------
    likely : DistributionShift
        The shift with the largest marginal likelihood, or no shift if it does not explain more.
    plausible : DistributionShift
        The largest shift with nearly the same likelihood. Intervals are computed under it.
    """

    likely: DistributionShift
    plausible: DistributionShift


def estimate_distribution_shift(
    evidence: NoisyPrefixSums, prior_at_edges: PublicPrior
) -> ShiftEstimates:
    """Estimate the shift of the private distribution by marginal likelihood.

    The tilt is estimated by Gauss-Newton steps. Each step chooses the sizes of the rough and of the
    smooth shift on a grid. Without public rows a shift is always modelled.
    """
    n_edges = len(evidence.prefix)
    selected = np.unique(np.linspace(0, n_edges - 1, MAX_SHIFT_EDGES).round().astype(int))
    prior = prior_at_edges.select(np.append(selected, n_edges))
    noise = evidence.covariance[np.ix_(selected, selected)]
    tilt = np.zeros(N_COSINES + 1)
    directions = prior.tilt_directions()
    is_shifted = prior_at_edges.n_public == 0
    for step_number in range(N_GAUSS_NEWTON_STEPS):
        model = linearize(prior, tilt, evidence.n_private)
        fixed_covariance = with_jitter(noise + model.public_covariance + model.sampling_covariance)
        residual = evidence.prefix[selected] - model.mean
        losses = _log_likelihood_losses(fixed_covariance, model, residual)
        if step_number == 0:
            is_shifted = is_shifted or losses[0, 0] > 2 * AIC_THRESHOLD
        rough_index, smooth_index = np.unravel_index(losses.argmin(), losses.shape)
        rough, smooth = SHIFT_VARIANCE_GRID[rough_index], SHIFT_VARIANCE_GRID[smooth_index]
        covariance = fixed_covariance + rough * model.rough_covariance
        step = _most_likely_tilt(covariance, model.jacobian, residual, smooth) - tilt
        step_size = np.abs(directions @ step).max()
        tilt = tilt + step * min(1, MAX_TILT_STEP / max(step_size, JITTER))
    # expected squared size of each shift of the grid, summed over the edges
    sizes = SHIFT_VARIANCE_GRID[:, None] * np.trace(model.rough_covariance)
    sizes = sizes + SHIFT_VARIANCE_GRID**2 * np.square(model.jacobian).sum()
    plausible_sizes = np.where(losses <= PROFILE_LIKELIHOOD_SLACK, sizes, -np.inf)
    max_rough, max_smooth = np.unravel_index(plausible_sizes.argmax(), losses.shape)
    likely = DistributionShift(tilt, float(rough), float(smooth)) if is_shifted else NO_SHIFT
    plausible = DistributionShift(
        tilt, float(SHIFT_VARIANCE_GRID[max_rough]), float(SHIFT_VARIANCE_GRID[max_smooth])
    )
    return ShiftEstimates(likely, plausible)


def with_jitter(covariance: Floats) -> Floats:
    """Add a small multiple of the identity, so that the covariance is numerically invertible."""
    return covariance + JITTER * np.eye(len(covariance))


def _log_likelihood_losses(
    fixed_covariance: Floats, model: LinearizedModel, residual: Floats
) -> Floats:
    """Return twice the loss of log-likelihood of each pair of shift sizes against the best pair.

    Generalised eigenvectors make the fixed covariance and the covariance of the rough shift
    diagonal. The tilt is then a low-rank update of a diagonal matrix, for which the determinant
    lemma and the Woodbury identity hold.

    Parameters
    ----------
    fixed_covariance : ndarray of shape (n_edges, n_edges)
        Covariance of noise and sampling errors.
    model : LinearizedModel
        The model at the current tilt.
    residual : ndarray of shape (n_edges,)
        Measured prefix sums less the mean of the model.

    Returns
    -------
    ndarray of shape (n_rough, n_smooth)
    """
    lower = cholesky(fixed_covariance, lower=True)
    half_whitened = solve_triangular(lower, model.rough_covariance, lower=True)
    rough_variances, vectors = np.linalg.eigh(solve_triangular(lower, half_whitened.T, lower=True))
    residual = vectors.T @ solve_triangular(lower, residual, lower=True)
    jacobian = vectors.T @ solve_triangular(lower, model.jacobian, lower=True)
    # axes: r rough sizes, i edges, j and k coefficients of the tilt
    variances = 1 + SHIFT_VARIANCE_GRID[:, None] * np.maximum(rough_variances, 0)
    tilt_precisions = np.einsum("ij,ri,ik->rjk", jacobian, 1 / variances, jacobian)
    precisions, axes = np.linalg.eigh(tilt_precisions)
    projections = np.einsum("rjk,ij,ri->rk", axes, jacobian, residual / variances, optimize=True)[
        :, None, :
    ]
    smooth_variances = np.square(SHIFT_VARIANCE_GRID)[:, None]
    update = 1 + smooth_variances * np.maximum(precisions, 0)[:, None, :]
    squared_error = (residual**2 / variances).sum(axis=1)[:, None]
    squared_error = squared_error - (smooth_variances * projections**2 / update).sum(axis=-1)
    log_determinant = np.log(variances).sum(axis=1)[:, None] + np.log(update).sum(axis=-1)
    losses: Floats = squared_error + log_determinant
    losses -= losses.min()
    return losses


def _most_likely_tilt(
    covariance: Floats, jacobian: Floats, residual: Floats, smooth_deviation: float
) -> Floats:
    """Return the posterior mean of the tilt, by ridge regression of the residual on the jacobian.

    Parameters
    ----------
    covariance : ndarray of shape (n_edges, n_edges)
        Covariance of the residual given the tilt.
    jacobian : ndarray of shape (n_edges, n_coefficients)
        Derivatives with respect to the tilt.
    residual : ndarray of shape (n_edges,)
        Measured prefix sums less the mean of the model.
    smooth_deviation : float
        Prior standard deviation of the coefficients. If it is 0, so is the tilt.
    """
    if smooth_deviation == 0:
        return np.zeros(jacobian.shape[1])
    solved = cho_solve(cho_factor(covariance, lower=True), jacobian)
    prior_precision = np.eye(jacobian.shape[1]) / smooth_deviation**2
    tilt: Floats = np.linalg.solve(jacobian.T @ solved + prior_precision, solved.T @ residual)
    return tilt
