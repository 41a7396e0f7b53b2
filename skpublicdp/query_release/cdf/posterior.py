"""Fit noisy prefix sums and public rows together: everything here sees released numbers only.

The private distribution is modelled as the public one, times the exponential of a few smooth waves
(smooth drift), plus independent changes of the cells (rough drift). How large either may be is read
off the likelihood of the noisy answers. Given that, the estimate is a Gaussian posterior mean.
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

Floats = NDArray[np.float64]

N_COSINES = 8
"""Cosines of the rank, besides a shift."""

MAX_SHIFT_EDGES = 120
"""Trust is estimated on at most so many edges."""

AIC_THRESHOLD = 2.0
"""Drift is believed in if it makes the noisy answers e² times as likely (Akaike's rule)."""

TAIL_SHARE_OF_SHIFT = 0.1
"""The share of rough drift that goes where the public rows are not."""

PROFILE_LIKELIHOOD_SLACK = 2.0
"""Twice the log-likelihood that the drift of the error bars may lose: they take the largest."""

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
    """How the private distribution may differ from the public one.

    Attributes
    ----------
    waves : ndarray
        Coefficients of the tilt.
    rough : float
        Variance of independent changes, as the inverse of a number of rows.
    smooth : float
        Standard deviation of the coefficients around zero.
    """

    waves: Floats
    rough: float
    smooth: float


NO_SHIFT = DistributionShift(np.zeros(N_COSINES + 1), 0.0, 0.0)


@dataclass(frozen=True)
class PublicPrior:
    """What is expected at the right end of every cell, the last being 1.

    Attributes
    ----------
    base : ndarray of shape (n_cells,)
        The public distribution.
    wide : ndarray of shape (n_cells,)
        Where the unexpected goes.
    n_public : int
        Public rows.
    """

    base: Floats
    wide: Floats
    n_public: int

    def at(self, cells: NDArray[np.intp]) -> PublicPrior:
        """Keep some ends of cells, the last among them."""
        return PublicPrior(self.base[cells], self.wide[cells], self.n_public)

    def waves(self) -> Floats:
        """Return the directions of smooth drift, one value per cell: a shift and cosines."""
        middle = self.base - np.diff(self.base, prepend=0.0) / 2
        score = ndtri(np.clip(middle, 1e-9, 1 - 1e-9))
        order = np.arange(1, N_COSINES + 1)
        return np.column_stack([score, np.cos(np.pi * np.outer(middle, order)) / order])


@dataclass(frozen=True)
class LinearizedModel:
    """The model about one tilt: the mean, and the parts of the covariance, at all edges."""

    mean: Floats
    slopes: Floats
    sampling: Floats
    public: Floats
    rough: Floats

    def prior(self, drift: DistributionShift) -> Floats:
        """Return the covariance of the population's prefix sums before anything is measured."""
        smooth = drift.smooth**2 * (self.slopes @ self.slopes.T)
        prior: Floats = self.public + drift.rough * self.rough + smooth
        return prior


def linearize(guess: PublicPrior, waves: Floats, n_private: int) -> LinearizedModel:
    """Tilt the guess by some waves and differentiate there."""
    base = np.diff(guess.base, prepend=0.0)
    directions = guess.waves()
    exponent = directions @ waves
    tilted = base * np.exp(exponent - exponent.max())
    tilted /= tilted.sum()
    total = np.cumsum(tilted)
    total[-1] = 1
    growth = np.divide(tilted, base, out=np.ones_like(base), where=base > 0)
    slopes = np.cumsum(tilted[:, None] * (directions - tilted @ directions), axis=0)[:-1]
    # two rows more may be anywhere
    unseen = 2 / (guess.n_public + 1) * guess.wide
    public = bridge_covariance(total, np.cumsum(growth * tilted) + unseen) / (guess.n_public + 1)
    rough = bridge_covariance(
        total, (1 - TAIL_SHARE_OF_SHIFT) * total + TAIL_SHARE_OF_SHIFT * guess.wide
    )
    mean = total[:-1] - slopes @ waves
    return LinearizedModel(mean, slopes, bridge_covariance(total, total) / n_private, public, rough)


def bridge_covariance(total: Floats, variance: Floats) -> Floats:
    """Covariance of cumulated independent changes of the cells, tied to 0 at the end.

    `total` and `variance` are cumulated over the cells; what the changes add up to is taken back
    in proportion to the cells.
    """
    at, before = total[:-1], variance[:-1]
    taken = np.outer(at, before)
    covariance: Floats = np.minimum.outer(before, before) - taken - taken.T
    covariance += variance[-1] * np.outer(at, at)
    return covariance


@dataclass(frozen=True)
class StrategyMeasurement:
    """What was measured, and of which cells.

    Attributes
    ----------
    strategy : Strategy
        Combinations of the counts of some cells.
    measurement : Measurement
        Their noisy values.
    cells : ndarray of shape (n_cells,), or None
        The cell of the strategy that each cell of the line is in; without it, they are the same.
    """

    strategy: MeasurementStrategy
    measurement: Measurement
    cells: NDArray[np.intp] | None = None

    @property
    def matrix(self) -> NDArray[np.int64]:
        """The combinations, of counts of the cells of the line."""
        return self.strategy.matrix if self.cells is None else self.strategy.matrix[:, self.cells]


def gram_matrix(matrix: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the precision of prefix sums under noise of variance 1, and what they are times."""
    # cell counts are differences of prefix sums, the last of which is the known total
    design = (matrix[:, :-1] - matrix[:, 1:]).astype(float)
    return design.T @ design, design


def least_squares(looks: Sequence[StrategyMeasurement], n_private: int) -> NoisyPrefixSums:
    """Solve least squares for the fraction of private rows at or below each edge.

    One of the looks must be at all cells.
    """
    n_edges = looks[0].matrix.shape[1] - 1
    known, heard = np.zeros((n_edges, n_edges)), np.zeros(n_edges)
    for look in looks:
        precision = n_private**2 / look.measurement.variance
        gain, design = gram_matrix(look.matrix)
        target = look.measurement.values / n_private - look.matrix[:, -1]
        known += precision * gain
        heard += precision * (design.T @ target)
    covariance = cho_solve(cho_factor(known), np.eye(len(known)))
    return NoisyPrefixSums(covariance @ heard, covariance, n_private)


def posterior(
    evidence: NoisyPrefixSums,
    guess: PublicPrior,
    drift: DistributionShift,
    likely: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Return the posterior mean and covariance of the population's prefix sums.

    How far private rows are from their population follows from the prefix sums that are `likely`,
    by default those of the guess.
    """
    model = linearize(guess, drift.waves, evidence.n_private)
    prior, sampling = model.prior(drift), model.sampling
    if likely is not None:
        total = np.append(likely, 1.0)
        sampling = bridge_covariance(total, total) / evidence.n_private
    doubt = sampling + evidence.covariance
    factor = cho_factor(with_jitter(prior + doubt), lower=True)
    # the same as a gain from the model's mean, and exact where there is next to no noise
    mean = evidence.prefix - doubt @ cho_solve(factor, evidence.prefix - model.mean)
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
    """Return how many standard deviations hold all prefix sums at once at a level.

    A longer path leaves a tube around itself more often.

    References
    ----------
    Naiman (1986), Conservative confidence bands in curvilinear regression; Sun and Loader (1994).
    """

    def excess(deviations: float) -> float:
        tube = length / np.pi * np.exp(-(deviations**2) / 2)
        return float(tube + 2 * ndtr(-deviations)) - (1 - level)

    return float(brentq(excess, 0.0, 40.0))


def estimate_shift(
    evidence: NoisyPrefixSums, guess: PublicPrior
) -> tuple[DistributionShift, DistributionShift]:
    """Return the drift to fit with and the largest that is plausible, for error bars.

    The tilt is found by Gauss-Newton steps; at each the sizes are chosen on a grid.
    """
    n_edges = len(evidence.prefix)
    chosen = np.unique(np.linspace(0, n_edges - 1, MAX_SHIFT_EDGES).round().astype(int))
    coarse = guess.at(np.append(chosen, n_edges))
    noise = evidence.covariance[np.ix_(chosen, chosen)]
    waves = np.zeros(N_COSINES + 1)
    directions = coarse.waves()
    believed = guess.n_public == 0
    for round_ in range(N_GAUSS_NEWTON_STEPS):
        model = linearize(coarse, waves, evidence.n_private)
        fixed = with_jitter(noise + model.public + model.sampling)
        gap = evidence.prefix[chosen] - model.mean
        loss = _log_likelihood_losses(fixed, model, gap)
        size = SHIFT_VARIANCE_GRID[:, None] * np.trace(model.rough)
        size = size + SHIFT_VARIANCE_GRID**2 * np.square(model.slopes).sum()
        if round_ == 0:
            believed = believed or loss[0, 0] > 2 * AIC_THRESHOLD
        best = loss.argmin()
        most = np.where(loss <= PROFILE_LIKELIHOOD_SLACK, size, -np.inf).argmax()
        rough, smooth = (
            SHIFT_VARIANCE_GRID[best // len(SHIFT_VARIANCE_GRID)],
            SHIFT_VARIANCE_GRID[best % len(SHIFT_VARIANCE_GRID)],
        )
        step = _most_likely_tilt(fixed + rough * model.rough, model.slopes, gap, smooth) - waves
        length = np.abs(directions @ step).max()
        waves = waves + step * min(1, MAX_TILT_STEP / max(length, JITTER))
    bars = DistributionShift(
        waves,
        float(SHIFT_VARIANCE_GRID[most // len(SHIFT_VARIANCE_GRID)]),
        float(SHIFT_VARIANCE_GRID[most % len(SHIFT_VARIANCE_GRID)]),
    )
    return DistributionShift(waves, float(rough), float(smooth)) if believed else NO_SHIFT, bars


def with_jitter(covariance: Floats) -> Floats:
    """Make a covariance one that floats can invert."""
    return covariance + JITTER * np.eye(len(covariance))


def _log_likelihood_losses(fixed: Floats, model: LinearizedModel, gap: Floats) -> Floats:
    """Twice the log-likelihood lost by every (rough, smooth) of the grid against the best one."""
    lower = cholesky(fixed, lower=True)
    half = solve_triangular(lower, model.rough, lower=True)
    values, vectors = np.linalg.eigh(solve_triangular(lower, half.T, lower=True))
    gap = vectors.T @ solve_triangular(lower, gap, lower=True)
    slopes = vectors.T @ solve_triangular(lower, model.slopes, lower=True)
    # in these coordinates noise and rough drift are diagonal, and the waves are a small update
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
    """Return the most likely coefficients of the waves, given the sizes."""
    if smooth == 0:
        return np.zeros(slopes.shape[1])
    solved = cho_solve(cho_factor(covariance, lower=True), slopes)
    tilt: Floats = np.linalg.solve(
        slopes.T @ solved + np.eye(slopes.shape[1]) / smooth**2, solved.T @ gap
    )
    return tilt
