"""Gaussian posterior of the distribution function, given noisy prefix sums and public rows.

The private distribution is the public one times an exponential tilt (smooth shift), plus
independent changes of the cells (rough shift). Both sizes are estimated by marginal likelihood
on a grid (empirical Bayes). Only released and public numbers enter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from skpublicdp.accounting import Measurement
from skpublicdp.query_release.cdf.strategies import MeasurementStrategy
from skpublicdp.query_release.effective_sizes import SHIFT_VARIANCE_GRID
from skpublicdp.typing import Floats

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
    """Unbiased private estimates of the prefix sums and the covariance of their noise."""

    prefix: Floats
    covariance: Floats
    n_private: int


@dataclass(frozen=True)
class DistributionShift:
    """Shift of the private distribution from the public one.

    Attributes
    ----------
    tilt : ndarray
        Coefficients of the exponential tilt.
    rough : float
        Variance of independent changes, as the inverse of a number of rows.
    smooth : float
        Standard deviation of the coefficients around zero.
    """

    tilt: Floats
    rough: float
    smooth: float


NO_SHIFT = DistributionShift(np.zeros(N_COSINES + 1), 0.0, 0.0)


@dataclass(frozen=True)
class PublicPrior:
    """Public prior at the right end of every cell. The last value is 1.

    Attributes
    ----------
    public_cdf : ndarray of shape (n_cells,)
        The public distribution.
    tail_cdf : ndarray of shape (n_cells,)
        Distribution of mass that the public rows do not show.
    n_public : int
        Public rows.
    """

    public_cdf: Floats
    tail_cdf: Floats
    n_public: int

    def at(self, cells: NDArray[np.intp]) -> PublicPrior:
        """Select some ends of cells, including the last one."""
        return PublicPrior(self.public_cdf[cells], self.tail_cdf[cells], self.n_public)

    def tilt_directions(self) -> Floats:
        """Return the tilt directions, shape (n_cells, N_COSINES + 1): location, cosines."""
        middle = self.public_cdf - np.diff(self.public_cdf, prepend=0.0) / 2
        score = ndtri(np.clip(middle, 1e-9, 1 - 1e-9))
        order = np.arange(1, N_COSINES + 1)
        return np.column_stack([score, np.cos(np.pi * np.outer(middle, order)) / order])


@dataclass(frozen=True)
class LinearizedModel:
    """The model linearized at a tilt: mean and components of the covariance, at all edges."""

    mean: Floats
    slopes: Floats
    sampling: Floats
    public: Floats
    rough: Floats

    def prior(self, shift: DistributionShift) -> Floats:
        """Return the prior covariance of the population's prefix sums."""
        smooth = shift.smooth**2 * (self.slopes @ self.slopes.T)
        prior: Floats = self.public + shift.rough * self.rough + smooth
        return prior


def linearize(prior_at_edges: PublicPrior, tilt: Floats, n_private: int) -> LinearizedModel:
    """Linearize the tilted public distribution at the given coefficients."""
    base = np.diff(prior_at_edges.public_cdf, prepend=0.0)
    directions = prior_at_edges.tilt_directions()
    exponent = directions @ tilt
    tilted = base * np.exp(exponent - exponent.max())
    tilted /= tilted.sum()
    total = np.cumsum(tilted)
    total[-1] = 1
    growth = np.divide(tilted, base, out=np.ones_like(base), where=base > 0)
    slopes = np.cumsum(tilted[:, None] * (directions - tilted @ directions), axis=0)[:-1]
    # two pseudo-rows that may be anywhere
    pseudo_variance = 2 / (prior_at_edges.n_public + 1) * prior_at_edges.tail_cdf
    public = bridge_covariance(total, np.cumsum(growth * tilted) + pseudo_variance) / (
        prior_at_edges.n_public + 1
    )
    rough = bridge_covariance(
        total, (1 - TAIL_SHARE_OF_SHIFT) * total + TAIL_SHARE_OF_SHIFT * prior_at_edges.tail_cdf
    )
    mean = total[:-1] - slopes @ tilt
    return LinearizedModel(mean, slopes, bridge_covariance(total, total) / n_private, public, rough)


def bridge_covariance(total: Floats, variance: Floats) -> Floats:
    """Return the covariance of a Brownian bridge: prefix sums of changes that add up to 0.

    `total` and `variance` are cumulative over the cells. The sum of the independent changes is
    subtracted in proportion to the mass of the cells.
    """
    at, before = total[:-1], variance[:-1]
    subtracted = np.outer(at, before)
    covariance: Floats = np.minimum.outer(before, before) - subtracted - subtracted.T
    covariance += variance[-1] * np.outer(at, at)
    return covariance


@dataclass(frozen=True)
class StrategyMeasurement:
    """A measured strategy, and the cells that it was applied to.

    Attributes
    ----------
    strategy : Strategy
        Combinations of the counts of some cells.
    measurement : Measurement
        Their noisy values.
    cells : ndarray of shape (n_cells,), or None
        Index of the strategy's cell that contains each cell of the grid; None if they are equal.
    """

    strategy: MeasurementStrategy
    measurement: Measurement
    cells: NDArray[np.intp] | None = None

    @property
    def matrix(self) -> NDArray[np.int64]:
        """The strategy matrix in terms of the cells of the grid."""
        return self.strategy.matrix if self.cells is None else self.strategy.matrix[:, self.cells]


def gram_matrix(matrix: NDArray[np.int64]) -> tuple[Floats, Floats]:
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
    for item in measurements:
        precision = n_private**2 / item.measurement.variance
        gram, design = gram_matrix(item.matrix)
        target = item.measurement.values / n_private - item.matrix[:, -1]
        information_matrix += precision * gram
        information_vector += precision * (design.T @ target)
    covariance = cho_solve(cho_factor(information_matrix), np.eye(len(information_matrix)))
    return NoisyPrefixSums(covariance @ information_vector, covariance, n_private)


def posterior(
    evidence: NoisyPrefixSums,
    prior_at_edges: PublicPrior,
    shift: DistributionShift,
    likely: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Return the posterior mean and covariance of the population's prefix sums.

    The sampling covariance is evaluated at the prefix sums `likely`, by default those of the
    public prior.
    """
    model = linearize(prior_at_edges, shift.tilt, evidence.n_private)
    prior, sampling = model.prior(shift), model.sampling
    if likely is not None:
        total = np.append(likely, 1.0)
        sampling = bridge_covariance(total, total) / evidence.n_private
    error_covariance = sampling + evidence.covariance
    factor = cho_factor(with_jitter(prior + error_covariance), lower=True)
    # equal to a Kalman gain from the prior mean, and exact for tiny noise
    mean = evidence.prefix - error_covariance @ cho_solve(factor, evidence.prefix - model.mean)
    half = solve_triangular(factor[0], prior, lower=True)
    covariance = prior - half.T @ half
    np.fill_diagonal(covariance, np.maximum(np.diag(covariance), 0))
    return mean, covariance


def path_length(covariance: Floats) -> float:
    """Return the length of the path of prefix sums on the sphere of standardised variables.

    Its steps are the angles whose cosines are the correlations of neighbours.
    """
    variance, together = np.diag(covariance), np.diag(covariance, 1)
    scale = np.sqrt(variance[:-1] * variance[1:])
    correlation = np.divide(together, scale, out=np.ones_like(scale), where=scale > 0)
    return float(np.arccos(np.clip(correlation, -1, 1)).sum())


def simultaneous_factor(length: float, level: float) -> float:
    """Return the number of standard deviations of a simultaneous band, by the tube formula.

    References
    ----------
    Naiman (1986), Conservative confidence bands in curvilinear regression; Sun and Loader (1994).
    """

    def excess(deviations: float) -> float:
        tube = length / np.pi * np.exp(-(deviations**2) / 2)
        return float(tube + 2 * ndtr(-deviations)) - (1 - level)

    return float(brentq(excess, 0.0, 40.0))


def estimate_shift(
    evidence: NoisyPrefixSums, prior_at_edges: PublicPrior
) -> tuple[DistributionShift, DistributionShift]:
    """Return the shift with the largest marginal likelihood, and a larger one for intervals.

    The tilt is found by Gauss-Newton steps. Each step chooses the sizes of both shifts on a grid.
    """
    n_edges = len(evidence.prefix)
    chosen = np.unique(np.linspace(0, n_edges - 1, MAX_SHIFT_EDGES).round().astype(int))
    coarse = prior_at_edges.at(np.append(chosen, n_edges))
    noise = evidence.covariance[np.ix_(chosen, chosen)]
    tilt = np.zeros(N_COSINES + 1)
    directions = coarse.tilt_directions()
    is_shifted = prior_at_edges.n_public == 0
    for round_ in range(N_GAUSS_NEWTON_STEPS):
        model = linearize(coarse, tilt, evidence.n_private)
        fixed = with_jitter(noise + model.public + model.sampling)
        gap = evidence.prefix[chosen] - model.mean
        loss = _log_likelihood_losses(fixed, model, gap)
        size = SHIFT_VARIANCE_GRID[:, None] * np.trace(model.rough)
        size = size + SHIFT_VARIANCE_GRID**2 * np.square(model.slopes).sum()
        if round_ == 0:
            is_shifted = is_shifted or loss[0, 0] > 2 * AIC_THRESHOLD
        best = loss.argmin()
        largest = np.where(loss <= PROFILE_LIKELIHOOD_SLACK, size, -np.inf).argmax()
        rough, smooth = (
            SHIFT_VARIANCE_GRID[best // len(SHIFT_VARIANCE_GRID)],
            SHIFT_VARIANCE_GRID[best % len(SHIFT_VARIANCE_GRID)],
        )
        step = _most_likely_tilt(fixed + rough * model.rough, model.slopes, gap, smooth) - tilt
        length = np.abs(directions @ step).max()
        tilt = tilt + step * min(1, MAX_TILT_STEP / max(length, JITTER))
    interval_shift = DistributionShift(
        tilt,
        float(SHIFT_VARIANCE_GRID[largest // len(SHIFT_VARIANCE_GRID)]),
        float(SHIFT_VARIANCE_GRID[largest % len(SHIFT_VARIANCE_GRID)]),
    )
    return DistributionShift(
        tilt, float(rough), float(smooth)
    ) if is_shifted else NO_SHIFT, interval_shift


def with_jitter(covariance: Floats) -> Floats:
    """Add a small multiple of the identity, so that the covariance is numerically invertible."""
    return covariance + JITTER * np.eye(len(covariance))


def _log_likelihood_losses(fixed: Floats, model: LinearizedModel, gap: Floats) -> Floats:
    """Return twice the log-likelihood loss of each (rough, smooth) pair against the best one."""
    lower = cholesky(fixed, lower=True)
    half = solve_triangular(lower, model.rough, lower=True)
    values, vectors = np.linalg.eigh(solve_triangular(lower, half.T, lower=True))
    gap = vectors.T @ solve_triangular(lower, gap, lower=True)
    slopes = vectors.T @ solve_triangular(lower, model.slopes, lower=True)
    # generalised eigenvectors: noise and rough shift are diagonal, the tilt is a low-rank update
    variances = 1 + SHIFT_VARIANCE_GRID[:, None] * np.maximum(values, 0)
    small = np.einsum("ij,ri,ik->rjk", slopes, 1 / variances, slopes)
    strengths, axes = np.linalg.eigh(small)
    along = np.einsum("rjk,ij,ri->rk", axes, slopes, gap / variances, optimize=True)[:, None, :]
    squared = np.square(SHIFT_VARIANCE_GRID)[:, None]
    update = 1 + squared * np.maximum(strengths, 0)[:, None, :]
    misfit = (gap**2 / variances).sum(axis=1)[:, None] - (squared * along**2 / update).sum(axis=-1)
    volume = np.log(variances).sum(axis=1)[:, None] + np.log(update).sum(axis=-1)
    losses: Floats = misfit + volume
    losses -= losses.min()
    return losses


def _most_likely_tilt(covariance: Floats, slopes: Floats, gap: Floats, smooth: float) -> Floats:
    """Return the most likely coefficients of the tilt, given the sizes of both shifts."""
    if smooth == 0:
        return np.zeros(slopes.shape[1])
    solved = cho_solve(cho_factor(covariance, lower=True), slopes)
    tilt: Floats = np.linalg.solve(
        slopes.T @ solved + np.eye(slopes.shape[1]) / smooth**2, solved.T @ gap
    )
    return tilt
