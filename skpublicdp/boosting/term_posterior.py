"""Gaussian posterior of the scores of a single term, which is a column or a tree.

The posterior is averaged over a grid of prior variances and prior means, which are weighted by
their marginal likelihoods. The budget is divided among the terms by Neyman allocation, based on
their expected losses.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from skpublicdp._internal.reproducible import significant
from skpublicdp.typing import Floats, Integers

ROUGHNESS = 0.1
"""Weight of the rough component in a numeric column's prior covariance, relative to the smooth
component."""

PRIOR_VARIANCES = np.exp(np.linspace(-9, 2, 23))
"""Grid of prior variances. All variances in the grid are equally likely a priori, and results are
averaged over the grid with weights given by the marginal likelihood."""

START_LOG_VARIANCE_SD = 1.0
"""Standard deviation of the log prior variance around the posterior variance of the initial scores,
the same as between the columns of the additive fit (`fit_prior_variances`)."""

MAX_SCORE = 6.0
"""Upper bound on the absolute score, in logits. Without this bound, the score of a bin in which all
rows have the same label would diverge."""

PUBLIC_PSEUDO_ROWS = 0.3
"""Number of public pseudo-rows added to each bin, so that the hessian of an empty bin is
positive."""

ALLOCATION_STEPS = 32
"""Number of units that each item receives if the budget is divided equally. One unit is the
smallest positive allocation."""


class TermPosterior:
    """Gaussian posterior of a single term's scores, updated with noisy gradient sums.

    Parameters
    ----------
    kernel : ndarray of float64, shape (n_bins, n_bins)
        Prior covariance of the scores, for prior variance 1.
    scores, guess : ndarray of float64, shape (n_targets, n_bins)
        Initial scores, and their piecewise linear interpolation. The candidate prior means are the
        initial scores, their interpolation and zero. Results are averaged over the candidates with
        weights given by the marginal likelihood.
    public_rows : ndarray of float64, shape (n_bins,)
        Effective number of public rows in each bin.
    hessian_factor : float
        `Loss.hessian_factor`.
    start_variance : float, optional
        Posterior variance of the centred initial scores, averaged over the public rows. If given,
        `error_covariance` includes the errors of the initial scores.

    Attributes
    ----------
    scores : ndarray of float64, shape (n_targets, n_bins)
        Posterior means, in logits.
    covariance : ndarray of float64, shape (n_targets, n_bins, n_bins)
        Posterior covariance of each target's scores.
    error_covariance : ndarray of float64, shape (n_targets, n_bins, n_bins)
        Expected products of the errors of the scores, which determine confidence intervals.
    gain : float
        Log Bayes factor of nonzero scores against zero scores.
    """

    def __init__(
        self,
        kernel: Floats,
        scores: Floats,
        guess: Floats,
        public_rows: Floats,
        hessian_factor: float,
        start_variance: float | None = None,
    ) -> None:
        n_targets, n_bins = scores.shape
        self.scores = scores
        self.covariance = self.error_covariance = np.zeros((n_targets, n_bins, n_bins))
        self.gain = 0.0
        self._kernel = kernel
        # duplicate candidates are dropped, since all mixture components have the same prior weight
        prior_means = [scores]
        for candidate in (guess, np.zeros(scores.shape)):
            if not any(np.array_equal(candidate, mean) for mean in prior_means):
                prior_means.append(candidate)
        self._prior_means = np.stack(prior_means)  # (n_means, n_targets, n_bins)
        self._start_variance = start_variance
        self._public_rows = public_rows
        self._hessian_factor = hessian_factor
        self._gradient_variance = 0.0
        self._last_hessian = np.zeros(scores.shape)
        self._variance_weights = np.full(len(PRIOR_VARIANCES), 1 / len(PRIOR_VARIANCES))
        self.reset_statistics()

    def reset_statistics(self) -> None:
        """Discard all released sums, and keep the scores and the prior.

        Sums over a different set of rows have a different scale, so the old sums must be discarded
        before such sums are used.
        """
        self._gradients = np.zeros(self.scores.shape)
        self._hessians = np.zeros(self.scores.shape)
        self._precision = 0.0

    def update(
        self,
        gradients: Floats,  # (n_targets, n_bins)
        hessians: Floats,  # (n_targets, n_bins)
        variance: float,
        expected: Floats,  # (n_targets, n_bins)
        gradient_variance: float,
    ) -> None:
        """Average new noisy sums with earlier ones, and take a Newton step to the posterior mean.

        Let H denote the hessian sums. As in iteratively reweighted least squares, the working
        response (gradients + H scores) / deviation has the Gaussian likelihood N(H scores /
        deviation, 1). The attributes `scores`, `covariance` and `gain` are replaced.
        """
        # average with all earlier noisy sums, weighted by precision
        old_precision, precision = self._precision, 1 / variance
        total_precision = old_precision + precision
        self._gradients = old_precision * self._gradients + precision * gradients
        self._gradients /= total_precision
        self._hessians = old_precision * self._hessians + precision * hessians
        self._hessians /= total_precision
        self._precision = total_precision

        # average with the hessian sums that the public rows predict
        public_precision = (self._public_rows + PUBLIC_PSEUDO_ROWS) / expected**2
        pooled = public_precision * expected + total_precision * self._hessians
        pooled /= public_precision + total_precision
        # noise can make the average negative, but Newton steps divide by the average
        min_hessians = 0.02 * expected + 0.05
        H = self._hessian_factor * np.maximum(pooled, min_hessians)
        self._last_hessian = H
        self._gradient_variance = gradient_variance

        # privacy noise and sampling error of the gradient sums
        error_variance = 1 / self._precision + gradient_variance * H
        deviation = np.sqrt(error_variance)
        response = (self._gradients + H * self.scores) / deviation
        posterior_mean = self._update_posterior(H / deviation, response)
        scores = np.clip(posterior_mean, -MAX_SCORE, MAX_SCORE)
        # extrapolate the pooled gradients to the new scores, to first order
        self._gradients -= H * (scores - self.scores)
        self.scores = scores

    def expected_loss(self, precisions: Floats) -> Floats:
        """Return the excess loss ½ tr(H C) to be expected after one more noisy update.

        Here H is the diagonal matrix of the last hessian sums, and C is the posterior covariance of
        the scores after the update. The result is averaged over the posterior distribution of the
        prior variance. A precision (1 / noise variance) of 0 stands for no update. The loss of each
        precision is in nats over all rows.
        """
        H = self._last_hessian
        # the lower bound avoids a division by zero if there are no sums at all
        total_precisions = np.maximum(self._precision + precisions, 1e-300)
        noise_variances = 1 / total_precisions[:, None, None]
        deviations = np.sqrt(noise_variances + self._gradient_variance * H)
        A = H / deviations  # design of the working response, shape (n, n_targets, n_bins)

        # tr(H C) = v tr(H K) - v² tr(H K A (1 + v A K A)⁻¹ A K) for prior variance v and kernel K
        KA = self._kernel * A[..., None, :]
        AKA = A[..., :, None] * self._kernel * A[..., None, :]
        eigenvalues, eigenvectors = np.linalg.eigh(AKA)
        basis = KA @ eigenvectors
        hessian_of_direction = (H[:, None] @ basis**2)[..., 0, :]  # (n, n_targets, n_bins)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        ratios = PRIOR_VARIANCES * eigenvalues[..., None]
        explained = np.einsum("ntj,ntjs->ns", hessian_of_direction, 1 / (1 + ratios))
        kernel_diagonal = np.diag(self._kernel)
        prior_trace = float((H * kernel_diagonal).sum())
        relative_traces = prior_trace - PRIOR_VARIANCES * explained  # tr(H C) / v
        weights = PRIOR_VARIANCES * self._variance_weights
        return relative_traces @ weights / 2

    def _update_posterior(self, A: Floats, z: Floats) -> Floats:
        """Return the posterior mean scores given z = A scores + N(0, 1).

        The prior is a mixture of a point mass at zero scores and of distributions N(mean, v K) with
        different means and variances v, where K is the kernel. The mixture components are averaged
        with weights given by their marginal likelihoods. All components have diagonal covariances
        in the eigenbasis of A K A. This method also sets the attributes `covariance` and `gain`.
        Shapes: (n_targets, n_bins).
        """
        AKA = A[:, :, None] * self._kernel * A[:, None, :]
        eigenvalues, eigenvectors = np.linalg.eigh(AKA)
        residuals = z - A * self._prior_means  # (n_means, n_targets, n_bins)
        projected = np.einsum("tij,cti->ctj", eigenvectors, residuals)
        # ratio of prior to noise variance of each eigenvector, (n_targets, n_bins, n_variances)
        ratios = PRIOR_VARIANCES * np.maximum(eigenvalues, 0.0)[..., None]

        # log evidence of each mixture component, up to a common constant
        squares = projected[..., None] ** 2
        explained = squares * (ratios / (1 + ratios)) - np.log1p(ratios)
        explained_sums = explained.sum(axis=(1, 2))  # (n_means, n_variances)
        residual_sums = (residuals**2).sum(axis=(1, 2))  # (n_means,)
        log_evidence = (explained_sums - residual_sums[:, None]) / 2
        zero_evidence = -float((z**2).sum()) / 2
        # subtract the maximum to avoid overflow in the exponential
        max_evidence = max(float(log_evidence.max()), zero_evidence)
        weights = np.exp(log_evidence - max_evidence)
        zero_weight = np.exp(zero_evidence - max_evidence)
        mean_evidence = float(np.log(weights.mean())) + max_evidence
        self.gain = mean_evidence - zero_evidence
        weights /= weights.sum() + zero_weight
        self._variance_weights = weights.sum(axis=0)

        KA = self._kernel * A[:, None, :]
        basis = KA @ eigenvectors
        posterior_variances = PRIOR_VARIANCES / (1 + ratios)
        shrunk = projected[..., None] * posterior_variances
        means = basis @ shrunk + self._prior_means[..., None]
        # means: (n_means, n_targets, n_bins, n_variances)
        scores: Floats = np.einsum("cs,ctis->ti", weights, means)

        # law of total covariance, within and between the components of the mixture
        outer_product = scores[:, :, None] * scores[:, None]
        covariance_between = _second_moments(means, weights) - outer_product
        covariance_within = self._covariance_within(weights, basis, ratios)
        self.covariance = self.error_covariance = covariance_within + covariance_between
        if self._start_variance is None:
            return scores

        # expected products of the errors of `scores`, which are not the mean of this mixture
        weights = weights * self._prior_weights(self._start_variance)  # had equal prior weights
        zero_weight = 1 - self._variance_weights.sum()
        total_weight = weights.sum() + zero_weight
        weights = weights / total_weight
        zero_weight = zero_weight / total_weight
        errors = means - scores[..., None]
        error_moments = _second_moments(errors, weights)
        zero_moments = zero_weight * scores[:, :, None] * scores[:, None]
        covariance_within = self._covariance_within(weights, basis, ratios)
        self.error_covariance = covariance_within + (error_moments + zero_moments)
        return scores

    def _covariance_within(self, weights: Floats, basis: Floats, ratios: Floats) -> Floats:
        """Return the mean covariance of the mixture components, (n_targets, n_bins, n_bins)."""
        mean_variance = float((weights @ PRIOR_VARIANCES).sum())
        reduction = np.einsum("cs,s,tjs->tj", weights, PRIOR_VARIANCES**2, 1 / (1 + ratios))
        explained = (basis * reduction[:, None]) @ basis.swapaxes(1, 2)
        return mean_variance * self._kernel - explained

    def _prior_weights(self, start_variance: float) -> Floats:
        """Return the prior weight of each mean and variance, with mean 1, shape (n_means, n).

        The evidence alone cannot rule out that the initial scores are exact, since they were fitted
        to the same rows. However, the initial scores have a known posterior variance. The log
        variance around the initial scores, or around their interpolation, therefore has a normal
        prior, whose mean is the logarithm of this posterior variance.
        """
        public_rows = self._public_rows
        shares = public_rows / public_rows.sum()
        # variance of centred scores over the public rows, for prior variance 1
        mean_variance = shares @ np.diag(self._kernel)
        kernel_variance = mean_variance - shares @ self._kernel @ shares
        prior_variance = start_variance / max(kernel_variance, 1e-12)
        log_variances = np.log(PRIOR_VARIANCES)
        centre = np.log(np.maximum(prior_variance, 1e-300))
        low, high = log_variances[0], log_variances[-1]
        centre = np.clip(centre, low, high)
        standardised = (log_variances - centre) / START_LOG_VARIANCE_SD
        prior = np.exp(-(standardised**2) / 2)
        prior = prior / prior.mean()
        has_start = [mean.any() for mean in self._prior_means]
        is_around_start = np.array(has_start)[:, None]  # (n_means, 1)
        return np.where(is_around_start, prior, 1.0)


def _second_moments(vectors: Floats, weights: Floats) -> Floats:
    """Return the weighted sum of v vᵀ over all means and variances, (n_targets, n_bins, n_bins).

    The vectors have the shape (n_means, n_targets, n_bins, n_variances).
    """
    scaled = vectors * np.sqrt(weights)[:, None, None]
    scaled = np.moveaxis(scaled, 0, 2).reshape(*vectors.shape[1:3], -1)
    return scaled @ scaled.swapaxes(1, 2)


def piecewise_linear_guess(scores: Floats, ranks: Floats) -> Floats:
    """Interpolate scores linearly between the centres of runs of equal scores.

    Beyond the first and the last centre, scores are extrapolated linearly.

    Examples
    --------
    >>> steps, ranks = np.array([1.0, 1.0, 2.0, 2.0]), np.array([0.0, 1.0, 2.0, 3.0])
    >>> piecewise_linear_guess(steps, ranks).tolist()
    [0.75, 1.25, 1.75, 2.25]
    """
    is_first_of_run = np.append(True, np.diff(scores) != 0)
    starts = np.flatnonzero(is_first_of_run)  # (n_runs,)
    if len(starts) < 2:
        return scores
    lengths = np.diff(np.append(starts, len(scores)))
    centres = np.add.reduceat(ranks, starts) / lengths
    levels = scores[starts]
    slopes = np.diff(levels) / np.diff(centres)  # slope i is between the centres i and i + 1
    next_run = np.searchsorted(centres, ranks)  # first run whose centre is not below the rank
    next_run = np.clip(next_run, 1, len(starts) - 1)
    distances = ranks - centres[next_run]
    return levels[next_run] + slopes[next_run - 1] * distances


def smooth_kernel(ranks: Floats) -> Floats:
    """Return the prior covariance of a smooth function of the rank, for prior variance 1.

    The function is the sum of a linear trend, a Gaussian process with a squared-exponential kernel
    and variance 0.5, and white noise of variance 0.1.
    """
    length_scale = 0.25  # length scale of the Gaussian process, in units of rank
    distance = (ranks[:, None] - ranks) / length_scale
    # the trend between rank 0 and rank 1 has a standard deviation of √6
    trend = 6 * np.outer(ranks - 0.5, ranks - 0.5)
    return trend + 0.5 * np.exp(-(distance**2) / 2) + 0.1 * np.eye(len(ranks))


def smoothing_prior(ranks: Floats) -> Floats:
    """Return the prior covariance of a numeric column's scores, for prior variance 1.

    The covariance is the sum of the smooth component `smooth_kernel` and a rough component, which
    consists of an exponential kernel and white noise and is multiplied by `ROUGHNESS`. The last
    bin, which is for missing values, is independent of all other bins and has variance 1.
    """
    n_intervals = len(ranks)
    length_scale = 0.06  # length scale of the rough component, in units of rank
    distance = np.abs(ranks[:, None] - ranks)
    exponential = np.exp(-distance / length_scale)
    rough = 0.5 * exponential + 0.5 * np.eye(n_intervals)
    kernel = np.eye(n_intervals + 1)
    kernel[:-1, :-1] = smooth_kernel(ranks) + ROUGHNESS * rough
    return kernel


def allocation_grid(n_items: int, steps: int = ALLOCATION_STEPS) -> Integers:
    """Return the allocations, in units, at which the loss of each item is evaluated.

    The allocations are 0, powers of 2, and the total number of units.
    """
    total = n_items * steps
    powers = 1 << np.arange(total.bit_length())
    return np.concatenate([[0], powers[powers < total], [total]])


def neyman_allocation(losses: Floats, units: Integers) -> list[Fraction]:
    """Divide a budget so as to minimise the sum of expected losses (Neyman 1934).

    Units are allocated greedily along the steepest segments of the lower convex hulls of the
    losses. The result is optimal if the losses are convex and are linear between the grid points.
    Shapes: losses (n_items, n_allocations), units (n_allocations,), where the last allocation is
    the total budget. The fractions of the budget sum to 1.

    Examples
    --------
    >>> from skpublicdp.boosting.term_posterior import allocation_grid, neyman_allocation
    >>> units = allocation_grid(2)
    >>> noise = 1 / (1 + units)
    >>> [str(share) for share in neyman_allocation(np.array([noise, 9 * noise]), units)]
    ['1/4', '3/4']
    """
    n_items = len(losses)
    segments = []
    for item in range(n_items):
        segments += _hull_segments(units, losses[item], item)
    total_units = int(units[-1])
    allocation, remaining = np.zeros(n_items, dtype=np.int64), total_units
    for segment in sorted(segments):  # steepest segments first
        n_units = min(segment.n_units, remaining)
        allocation[segment.item] += n_units
        remaining -= n_units
    # units that would not reduce any loss are divided equally
    allocation += remaining // n_items
    allocation[0] += remaining % n_items
    return [Fraction(int(n_units), total_units) for n_units in allocation]


class _HullSegment(NamedTuple):
    """Segment of the lower convex hull of an item's loss. Segments are ordered by slope."""

    slope: float  # change in the loss per additional unit, which is negative
    item: int  # position of the item
    n_units: int  # length of the segment, in units


def _hull_segments(units: Integers, losses: Floats, item: int) -> list[_HullSegment]:
    """Return the decreasing segments of the lower convex hull of an item's loss, in order."""
    segments, start = [], 0
    while start < len(units) - 1:
        slopes = (losses[start + 1 :] - losses[start]) / (units[start + 1 :] - units[start])
        slopes = significant(slopes)  # columns that are alike remain in order
        steepest = int(np.argmin(slopes))
        if slopes[steepest] >= 0:  # no larger allocation reduces the loss
            break
        end = start + 1 + steepest
        n_units = int(units[end] - units[start])
        segments.append(_HullSegment(float(slopes[steepest]), item, n_units))
        start = end
    return segments
