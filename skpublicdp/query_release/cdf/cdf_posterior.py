"""Gaussian posterior of the distribution function, given noisy prefix sums and public rows.

The prior mean of the private distribution is the public distribution times an exponential tilt (the
smooth shift). In addition, each cell may change independently (the rough shift). The sizes of both
shifts are estimated on a grid by marginal likelihood (empirical Bayes). All inputs are released or
public numbers.
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
from skpublicdp.query_release.ratios import ratios
from skpublicdp.typing import Floats, Integers

N_COSINES = 8
"""Number of cosines of the public rank that the tilt contains in addition to a location shift."""

MAX_SHIFT_EDGES = 120
"""Maximum number of edges at which the shift is estimated."""

AIC_THRESHOLD = 2.0
"""Minimum gain in log-likelihood that justifies modelling a shift (Akaike information
criterion)."""

TAIL_SHARE_OF_SHIFT = 0.1
"""Share of the rough shift assigned to the tails beyond the public rows."""

PROFILE_LIKELIHOOD_SLACK = 2.0
"""Twice the loss in log-likelihood that is allowed for the shift assumed by intervals."""

N_GAUSS_NEWTON_STEPS = 4
"""Number of Gauss-Newton steps for the tilt, starting from no tilt."""

MAX_TILT_STEP = 1.5
"""Maximum change of a log density ratio in one Gauss-Newton step, for stability."""

JITTER = 1e-13
"""Variance, in squared fractions, added to the diagonal of a covariance matrix before inversion."""

MIN_RANK = 1e-9
"""Minimum distance of ranks from 0 and 1, where the normal score is infinite."""


@dataclass(frozen=True)
class NoisyPrefixSums:
    """Unbiased noisy estimates of the private distribution function at the edges of a grid.

    A prefix sum over the cells of a grid is the fraction of rows at or below an edge.
    """

    prefix_sums: Floats  # (n_edges,): estimated fraction of the private rows at or below each edge
    covariance: Floats  # (n_edges, n_edges): covariance of the noise in the prefix sums
    n_private: int  # number of private rows


@dataclass(frozen=True)
class DistributionShift:
    """Shift between the public and private distributions."""

    # (N_COSINES + 1,): coefficients of the exponential tilt; see `PublicPrior.tilt_directions`
    tilt: Floats
    # variance of the independent changes in the cells, as the inverse of a number of rows
    rough_variance: float
    smooth_deviation: float  # prior standard deviation of the tilt coefficients


NO_SHIFT = DistributionShift(np.zeros(N_COSINES + 1), 0.0, 0.0)
"""The shift if private and public rows have the same distribution."""


@dataclass(frozen=True)
class PublicPrior:
    """Distribution functions of public rows, evaluated at the right ends of the cells of a grid.

    The last value of each function is 1.
    """

    public_cdf: Floats  # (n_cells,): distribution of the public rows, including one pseudo-record
    # (n_cells,): distribution of the pseudo-record, which has mass everywhere between the bounds
    tail_cdf: Floats
    n_public: int  # number of public rows

    def select(self, ends: NDArray[np.intp]) -> PublicPrior:
        """Return the prior for coarser cells, given the indices of their right ends."""
        return PublicPrior(self.public_cdf[ends], self.tail_cdf[ends], self.n_public)

    def tilt_directions(self) -> Floats:
        """Return the basis functions of an exponential tilt, shape (n_cells, N_COSINES + 1).

        A tilt multiplies the mass of each cell by exp(directions @ coefficients). The directions
        are the normal score of the public rank, which shifts the location, and cosines of the rank,
        whose amplitudes are 1, 1/2, 1/3, ...
        """
        mid_rank = self.public_cdf - np.diff(self.public_cdf, prepend=0.0) / 2
        normal_score = ndtri(np.clip(mid_rank, MIN_RANK, 1 - MIN_RANK))
        frequency = np.arange(1, N_COSINES + 1)
        cosines = np.cos(np.pi * np.outer(mid_rank, frequency)) / frequency
        return np.column_stack([normal_score, cosines])


@dataclass(frozen=True)
class LinearizedModel:
    """Gaussian model of the prefix sums at all edges, linearized around a tilt."""

    mean: Floats  # (n_edges,): prefix sums at zero tilt under the linear approximation
    # (n_edges, N_COSINES + 1): derivatives of the prefix sums with respect to the tilt
    jacobian: Floats
    # (n_edges, n_edges): covariance of the sampling error of the private rows
    sampling_covariance: Floats
    # (n_edges, n_edges): covariance of the sampling error of the public rows, propagated through
    # the tilt
    public_covariance: Floats
    # (n_edges, n_edges): covariance of the prefix sums due to a rough shift with variance 1
    rough_covariance: Floats

    def prior_covariance(self, shift: DistributionShift) -> Floats:
        """Return the prior covariance of the population's prefix sums, (n_edges, n_edges)."""
        smooth_covariance = shift.smooth_deviation**2 * (self.jacobian @ self.jacobian.T)
        rough_covariance = shift.rough_variance * self.rough_covariance
        return self.public_covariance + rough_covariance + smooth_covariance


def linearize(prior_at_edges: PublicPrior, tilt: Floats, n_private: int) -> LinearizedModel:
    """Return the first-order Taylor expansion of the tilted public distribution in the tilt."""
    public_mass = np.diff(prior_at_edges.public_cdf, prepend=0.0)
    directions = prior_at_edges.tilt_directions()
    exponent = directions @ tilt
    tilted_mass = public_mass * np.exp(exponent - exponent.max())
    tilted_mass /= tilted_mass.sum()
    cumulative = np.cumsum(tilted_mass)
    cumulative[-1] = 1
    density_ratio = ratios(tilted_mass, public_mass, 1.0)
    centered = directions - tilted_mass @ directions
    # the last prefix sum is always 1 and has no derivative
    jacobian = np.cumsum(tilted_mass[:, None] * centered, axis=0)[:-1]
    # the tilt multiplies the variance of a public cell by the squared density ratio
    cumulative_variance = np.cumsum(density_ratio * tilted_mass)
    # public rows may be absent where private rows are: add two pseudo-rows between the bounds
    n_pseudo_public = prior_at_edges.n_public + 1
    cumulative_variance = cumulative_variance + 2 / n_pseudo_public * prior_at_edges.tail_cdf
    public_covariance = bridge_covariance(cumulative, cumulative_variance) / n_pseudo_public
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
    """Return the covariance of prefix sums of random cell masses with a fixed sum.

    The masses change independently. The total change is subtracted in proportion to the masses. If
    the variances equal the masses, the prefix sums form a Brownian bridge.
    """
    mass, variance = cumulative_mass[:-1], cumulative_variance[:-1]
    subtracted = np.outer(mass, variance)
    # independent changes have the covariance min(variance_i, variance_j) at edges i and j
    covariance: Floats = np.minimum.outer(variance, variance) - subtracted - subtracted.T
    covariance += cumulative_variance[-1] * np.outer(mass, mass)
    return covariance


@dataclass(frozen=True)
class StrategyMeasurement:
    """Noisy answers of a strategy, and the cells whose counts the strategy combined."""

    strategy: MeasurementStrategy  # combinations of the counts of coarse cells or grid cells
    measurement: Measurement  # noisy values of the combinations
    # (n_cells,): index of the coarse cell that contains each cell of the grid. None means that both
    # sets of cells are equal.
    coarse_cells: NDArray[np.intp] | None = None

    @property
    def matrix(self) -> Integers:
        """The strategy matrix, expressed in terms of the cells of the grid."""
        if self.coarse_cells is None:
            return self.strategy.matrix
        return self.strategy.matrix[:, self.coarse_cells]


def gram_matrix(matrix: Integers) -> tuple[Floats, Floats]:
    """Return (DᵀD, D) for the design D of a strategy matrix M.

    M maps cell counts to answers and D maps prefix sums to the same answers, up to a constant that
    depends only on the total, which is public.
    """
    # a cell count is the difference of two prefix sums; the last prefix sum is the public total
    design = (matrix[:, :-1] - matrix[:, 1:]).astype(float)
    return design.T @ design, design


def least_squares(measurements: Sequence[StrategyMeasurement], n_private: int) -> NoisyPrefixSums:
    """Estimate the fraction of private rows at or below each edge by weighted least squares.

    Measurements are weighted by the inverse of their noise variance. At least one measurement must
    distinguish all cells, since otherwise the normal equations are singular.
    """
    n_edges = measurements[0].matrix.shape[1] - 1
    information_matrix = np.zeros((n_edges, n_edges))
    information_vector = np.zeros(n_edges)
    for measured in measurements:
        noisy = measured.measurement
        gram, design = gram_matrix(measured.matrix)
        # the last prefix sum is 1; subtract its contribution to the answers
        target = noisy.values / n_private - measured.matrix[:, -1]
        precision = n_private**2 / noisy.variance
        information_matrix += precision * gram
        information_vector += precision * (design.T @ target)
    covariance = cho_solve(cho_factor(information_matrix), np.eye(n_edges))
    return NoisyPrefixSums(covariance @ information_vector, covariance, n_private)


def posterior_prefix_sums(
    noisy: NoisyPrefixSums,
    prior_at_edges: PublicPrior,
    shift: DistributionShift,
    estimate: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Return the normal posterior of the population's prefix sums under the linearized model.

    The mean, of shape (n_edges,), need not be increasing. The sampling covariance is evaluated at
    the estimate, which is the tilted public distribution by default.
    """
    model = linearize(prior_at_edges, shift.tilt, noisy.n_private)
    prior_covariance = model.prior_covariance(shift)
    if estimate is None:
        sampling_covariance = model.sampling_covariance
    else:
        cumulative = np.append(estimate, 1.0)
        sampling_covariance = bridge_covariance(cumulative, cumulative) / noisy.n_private
    error_covariance = sampling_covariance + noisy.covariance
    factor = cho_factor(with_jitter(prior_covariance + error_covariance), lower=True)
    # Equivalent to the Kalman update from the prior mean. This form remains exact for tiny noise.
    residual = noisy.prefix_sums - model.mean
    mean = noisy.prefix_sums - error_covariance @ cho_solve(factor, residual)
    whitened_prior = solve_triangular(factor[0], prior_covariance, lower=True)
    covariance = prior_covariance - whitened_prior.T @ whitened_prior
    # rounding may make the difference of the two covariances slightly negative
    np.fill_diagonal(covariance, np.maximum(np.diag(covariance), 0))
    return mean, covariance


class ShiftEstimates(NamedTuple):
    """Two estimates of the distribution shift: for the posterior mean and for the intervals."""

    # the shift with the largest marginal likelihood, or no shift if the data fit equally well
    # without one
    likely: DistributionShift
    # the largest shift with nearly the same likelihood, which the intervals assume
    plausible: DistributionShift


def estimate_distribution_shift(
    noisy: NoisyPrefixSums, prior_at_edges: PublicPrior
) -> ShiftEstimates:
    """Estimate the distribution shift by marginal likelihood.

    The tilt is estimated by Gauss-Newton steps. Each step selects the sizes of the rough and the
    smooth shift from a grid. Without public rows, a shift is always modelled.
    """
    n_edges = len(noisy.prefix_sums)
    # use a limited number of evenly spaced edges, since run time is cubic in their number
    selected = np.unique(np.linspace(0, n_edges - 1, MAX_SHIFT_EDGES).round().astype(int))
    prior = prior_at_edges.select(np.append(selected, n_edges))
    noise_covariance = noisy.covariance[np.ix_(selected, selected)]
    tilt = np.zeros(N_COSINES + 1)
    directions = prior.tilt_directions()
    is_shifted = prior_at_edges.n_public == 0
    for step_number in range(N_GAUSS_NEWTON_STEPS):
        model = linearize(prior, tilt, noisy.n_private)
        fixed_covariance = with_jitter(
            noise_covariance + model.public_covariance + model.sampling_covariance
        )
        residual = noisy.prefix_sums[selected] - model.mean
        deviances = _relative_deviances(fixed_covariance, model, residual)
        if step_number == 0:
            # entry (0, 0) is the model without a shift; a deviance is twice a log-likelihood
            # difference
            is_shifted = is_shifted or deviances[0, 0] > 2 * AIC_THRESHOLD
        rough_index, smooth_index = np.unravel_index(deviances.argmin(), deviances.shape)
        rough_variance = SHIFT_VARIANCE_GRID[rough_index]
        smooth_deviation = SHIFT_VARIANCE_GRID[smooth_index]  # the same grid in standard deviations
        covariance = fixed_covariance + rough_variance * model.rough_covariance
        best_tilt = _most_likely_tilt(covariance, model.jacobian, residual, smooth_deviation)
        step = best_tilt - tilt
        step_size = np.abs(directions @ step).max()
        tilt = tilt + step * min(1, MAX_TILT_STEP / max(step_size, JITTER))
    plausible = _largest_plausible_shift(tilt, deviances, model)
    if not is_shifted:
        return ShiftEstimates(NO_SHIFT, plausible)
    likely = DistributionShift(tilt, float(rough_variance), float(smooth_deviation))
    return ShiftEstimates(likely, plausible)


def _largest_plausible_shift(
    tilt: Floats, deviances: Floats, model: LinearizedModel
) -> DistributionShift:
    """Return the largest shift on the grid with a nearly maximal likelihood.

    The size of a shift is the expected squared change of the prefix sums, summed over the edges.
    """
    rough_sizes = SHIFT_VARIANCE_GRID * np.trace(model.rough_covariance)
    smooth_sizes = SHIFT_VARIANCE_GRID**2 * np.square(model.jacobian).sum()
    sizes = rough_sizes[:, None] + smooth_sizes  # (n_rough, n_smooth)
    is_plausible = deviances <= PROFILE_LIKELIHOOD_SLACK
    plausible_sizes = np.where(is_plausible, sizes, -np.inf)
    largest = plausible_sizes.argmax()
    rough_index, smooth_index = np.unravel_index(largest, sizes.shape)
    rough_variance = float(SHIFT_VARIANCE_GRID[rough_index])
    smooth_deviation = float(SHIFT_VARIANCE_GRID[smooth_index])
    return DistributionShift(tilt, rough_variance, smooth_deviation)


def with_jitter(covariance: Floats) -> Floats:
    """Add a small multiple of the identity to make the covariance numerically invertible."""
    return covariance + JITTER * np.eye(len(covariance))


def _relative_deviances(
    fixed_covariance: Floats, model: LinearizedModel, residual: Floats
) -> Floats:
    """Return -2 log(likelihood / maximum) for each pair of a rough and a smooth shift size.

    The covariance of the normal residual is fixed covariance + rough variance · rough covariance +
    smooth deviation² · jacobian jacobianᵀ. Generalised eigenvectors make the first two terms
    diagonal. The tilt is then a low-rank update of a diagonal matrix, for which the determinant
    lemma and the Woodbury identity hold.
    """
    # coordinates in which the fixed covariance is the identity and the rough covariance is diagonal
    lower = cholesky(fixed_covariance, lower=True)
    half_whitened = solve_triangular(lower, model.rough_covariance, lower=True)
    whitened_rough = solve_triangular(lower, half_whitened.T, lower=True)
    rough_variances, vectors = np.linalg.eigh(whitened_rough)
    rough_variances = np.maximum(rough_variances, 0)
    white_residual = vectors.T @ solve_triangular(lower, residual, lower=True)
    jacobian = vectors.T @ solve_triangular(lower, model.jacobian, lower=True)

    # principal axes of the tilt; axes: r rough sizes, i edges, j and k coefficients of the tilt
    variances = 1 + SHIFT_VARIANCE_GRID[:, None] * rough_variances
    tilt_precisions = np.einsum("ij,ri,ik->rjk", jacobian, 1 / variances, jacobian)
    precisions, axes = np.linalg.eigh(tilt_precisions)
    weighted_residual = white_residual / variances
    scores = np.einsum("rjk,ij,ri->rk", axes, jacobian, weighted_residual, optimize=True)

    # from here on the axes are (rough sizes, smooth sizes, principal axes of the tilt)
    scores = scores[:, None, :]
    precisions = np.maximum(precisions, 0)[:, None, :]
    smooth_variances = np.square(SHIFT_VARIANCE_GRID)[:, None]
    factors = 1 + smooth_variances * precisions  # of the determinant, along each axis
    explained = smooth_variances * scores**2 / factors
    squared_error = (white_residual**2 / variances).sum(axis=1)
    squared_error = squared_error[:, None] - explained.sum(axis=-1)
    log_determinant = np.log(variances).sum(axis=1)
    log_factors = np.log(factors).sum(axis=-1)
    log_determinant = log_determinant[:, None] + log_factors
    deviances = squared_error + log_determinant
    return deviances - deviances.min()


def _most_likely_tilt(
    covariance: Floats, jacobian: Floats, residual: Floats, smooth_deviation: float
) -> Floats:
    """Return the posterior mean of the tilt: a ridge regression of the residual on the jacobian."""
    if smooth_deviation == 0:
        return np.zeros(jacobian.shape[1])
    solved = cho_solve(cho_factor(covariance, lower=True), jacobian)
    prior_precision = np.eye(jacobian.shape[1]) / smooth_deviation**2
    return np.linalg.solve(jacobian.T @ solved + prior_precision, solved.T @ residual)
