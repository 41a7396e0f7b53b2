"""Blocks: the cells of one partition of the rows, their scores, and what visits say of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUGHNESS = 0.1
"""How much of the variance of a number's scores is rough, beside a smooth part."""

PRIOR_VARIANCES = np.exp(np.linspace(-9, 2, 23))
"""Prior variances of scores; evidence weighs these and 0."""

MAX_SCORE = 6.0
"""Scores beyond are cut: a cell in which all rows have one label has no end."""


class TermPosterior:
    """The cells of a column, or the leaves of a tree.

    Parameters
    ----------
    kernel : ndarray of float64, shape (n_cells, n_cells)
        Prior covariance of the scores, of scale 1.
    scores, guess : ndarray of float64, shape (n_targets, n_cells)
        Scores to begin with, and what they may be steps of; the prior is centred at either or at 0,
        as evidence has it.
    public_rows : ndarray of float64, shape (n_cells,)
        How many public rows of equal weight there are in each cell.
    stretch : float
        `Loss.hessian_factor`.

    Attributes
    ----------
    scores : ndarray of float64, shape (n_targets, n_cells)
        Posterior means.
    covariance : ndarray of float64, shape (n_targets, n_cells, n_cells)
        Posterior covariance of each target's scores.
    gain : float
        Logarithm of the evidence for any scores over that for none.
    """

    def __init__(
        self, kernel: Floats, scores: Floats, guess: Floats, public_rows: Floats, stretch: float
    ) -> None:
        shape = scores.shape
        self.scores = scores
        self.covariance = np.zeros((*shape, shape[1]))
        self.gain = 0.0
        self._kernel = kernel
        centers = [scores]
        for center in (guess, np.zeros(shape)):
            if not any(np.array_equal(center, other) for other in centers):
                centers.append(center)
        self._centers = np.stack(centers)
        self._public_rows = public_rows
        self._stretch = stretch
        self._sampling = 0.0
        self._last_hessian = np.zeros(shape)
        self._scales = np.full(len(PRIOR_VARIANCES), 1 / len(PRIOR_VARIANCES))
        self.reset_statistics()

    def update(
        self, sums: Floats, slopes: Floats, variance: float, expected: Floats, sampling: float
    ) -> None:
        """Take in released sums, and move the scores.

        Parameters
        ----------
        sums, slopes : ndarray of float64, shape (n_targets, n_cells)
            Sums of residuals and of their slopes, with noise.
        variance : float
            Variance of that noise.
        expected : ndarray of float64, shape (n_targets, n_cells)
            The sums of slopes that public rows lead to expect.
        sampling : float
            Variance of a residual beside its slope.
        """
        self._average(sums, slopes, variance)
        H = self._last_hessian = self._stretch * self._hessian(expected)
        self._sampling = sampling
        noise = np.sqrt(1 / self._precision + sampling * H)
        found = self._posterior(H / noise, (self._residuals + H * self.scores) / noise)
        moved = np.clip(found, -MAX_SCORE, MAX_SCORE)
        self._residuals -= H * (moved - self.scores)
        self.scores = moved

    def expected_loss(self, precisions: Floats) -> Floats:
        """Return how much of the loss would be for want of knowledge after further visits.

        It is half of tr H C, C being the posterior covariance of the scores and H the curvature.

        Parameters
        ----------
        precisions : ndarray of float64, shape (n,)
            One over the variance of the noise of their sums, pooled; 0 is no visit.

        Returns
        -------
        ndarray of float64, shape (n,)
            In nats over all rows, as evidence has the scales of the prior so far.
        """
        H = self._last_hessian
        known = np.maximum(self._precision + precisions, 1e-300)[:, None, None]
        A = H / np.sqrt(1 / known + self._sampling * H)  # (n, n_targets, n_cells)
        values, axes = np.linalg.eigh(A[..., :, None] * self._kernel * A[..., None, :])
        along = H[:, None] @ ((self._kernel * A[..., None, :]) @ axes) ** 2
        ratios = PRIOR_VARIANCES * np.maximum(values, 0.0)[..., None]
        found = np.einsum("ntj,ntjs->ns", along[..., 0, :], 1 / (1 + ratios))
        nothing = float((H * np.diag(self._kernel)).sum())
        risks: Floats = (nothing - PRIOR_VARIANCES * found) @ (PRIOR_VARIANCES * self._scales) / 2
        return risks

    def reset_statistics(self) -> None:
        """Keep the scores and the prior, but no sums: those to come are of more rows."""
        self._residuals, self._slopes = np.zeros(self.scores.shape), np.zeros(self.scores.shape)
        self._precision = 0.0

    def _average(self, sums: Floats, slopes: Floats, variance: float) -> None:
        """Average with earlier visits by precision."""
        new, total = 1 / variance, self._precision + 1 / variance
        self._residuals = (self._precision * self._residuals + new * sums) / total
        self._slopes = (self._precision * self._slopes + new * slopes) / total
        self._precision = total

    def _hessian(self, expected: Floats) -> Floats:
        """Combine what public rows lead to expect with what was released."""
        precision = (self._public_rows + 0.3) / expected**2
        found = precision * expected + self._precision * self._slopes
        found /= precision + self._precision
        curvature: Floats = np.maximum(found, 0.02 * expected + 0.05)
        return curvature

    def _posterior(self, A: Floats, z: Floats) -> Floats:
        """Return posterior means for z = A scores + N(0, 1), averaged over priors by evidence."""
        values, axes = np.linalg.eigh(A[:, :, None] * self._kernel * A[:, None, :])
        left = z - A * self._centers
        along = np.einsum("tij,cti->ctj", axes, left)
        ratios = (
            PRIOR_VARIANCES * np.maximum(values, 0.0)[..., None]
        )  # (n_targets, n_cells, n_scales)
        explained = along[..., None] ** 2 * (ratios / (1 + ratios)) - np.log1p(ratios)
        misses = (left**2).sum(axis=(1, 2))[:, None]
        evidence = (explained.sum(axis=(1, 2)) - misses) / 2  # (n_centers, n_scales)
        none = -float((z**2).sum()) / 2
        top = max(float(evidence.max()), none)
        weights = np.exp(evidence - top)
        self.gain = float(np.log(weights.mean())) + top - none
        # no scores at all are one prior more
        weights /= weights.sum() + np.exp(none - top)
        self._scales = weights.sum(axis=0)
        spread = (self._kernel * A[:, None, :]) @ axes  # K A in the axes of A K A
        each = (
            spread @ (along[..., None] * (PRIOR_VARIANCES / (1 + ratios)))
            + self._centers[..., None]
        )
        scores: Floats = np.einsum("cs,ctis->ti", weights, each)
        known = np.einsum("cs,s,tjs->tj", weights, PRIOR_VARIANCES**2, 1 / (1 + ratios))
        within = float((weights @ PRIOR_VARIANCES).sum()) * self._kernel
        within = within - (spread * known[:, None]) @ spread.swapaxes(1, 2)
        # what priors make of the scores differs, too
        around = np.moveaxis(each * np.sqrt(weights)[:, None, None], 0, 2)
        around = around.reshape(*scores.shape, -1)
        between = around @ around.swapaxes(1, 2) - scores[:, :, None] * scores[:, None]
        self.covariance = within + between
        return scores


def piecewise_linear_guess(scores: Floats, ranks: Floats) -> Floats:
    """Join the middles of steps by lines, the outermost of which go on.

    Parameters
    ----------
    scores : ndarray of float64, shape (n_cells,)
        Scores of neighbouring cells; those of one step are equal.
    ranks : ndarray of float64, shape (n_cells,)
        Where the cells lie.

    Returns
    -------
    ndarray of float64, shape (n_cells,)
        What the steps may be of; the same scores if there is but one step.

    Examples
    --------
    >>> steps, ranks = np.array([1.0, 1.0, 2.0, 2.0]), np.array([0.0, 1.0, 2.0, 3.0])
    >>> piecewise_linear_guess(steps, ranks).tolist()
    [0.75, 1.25, 1.75, 2.25]
    """
    begins = np.flatnonzero(np.append(True, np.diff(scores) != 0))
    if len(begins) < 2:
        return scores
    sizes = np.diff(np.append(begins, len(scores)))
    middles, steps = np.add.reduceat(ranks, begins) / sizes, scores[begins]
    last = np.clip(np.searchsorted(middles, ranks), 1, len(begins) - 1)
    slopes = np.diff(steps) / np.diff(middles)
    joined: Floats = steps[last] + slopes[last - 1] * (ranks - middles[last])
    return joined


def smoothing_prior(ranks: Floats) -> Floats:
    """Return the prior covariance of a number's scores, of scale 1; missing values come last.

    Parameters
    ----------
    ranks : ndarray of float64, shape (n_cells - 1,)
        Where the cells lie in the public population, between 0 and 1.
    """
    gap = np.abs(ranks[:, None] - ranks)
    line = 6 * np.outer(ranks - 0.5, ranks - 0.5)
    smooth = line + 0.5 * np.exp(-((gap / 0.25) ** 2) / 2) + 0.1 * np.eye(len(ranks))
    rough = 0.5 * np.exp(-gap / 0.06) + 0.5 * np.eye(len(ranks))
    kernel = np.eye(len(ranks) + 1)
    kernel[:-1, :-1] = smooth + ROUGHNESS * rough
    return kernel
