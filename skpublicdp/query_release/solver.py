"""Weights near a prior that explain noisy measurements: truncated dual Newton.

The problem is convex: over weights p ≥ 0 with Σ p = 1, minimise

    trust · KL(p ‖ prior) + ½ Σ_c ((A p)_c - target_c)² / variance_c.

Its dual is smooth, strictly convex and unconstrained, so Newton's method with a line search ends at
the one solution from any start. Everything here is post-processing: it sees released numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skpublicdp.exceptions import warn

Floats = NDArray[np.float64]

TOLERANCE = 0.01
"""The residual that stops: what is left of the χ², where each measurement has about 1."""

MAX_NEWTON = 60
MAX_CG = 200
MAX_HALVINGS = 40
ARMIJO = 1e-4


class NotConvergedWarning(UserWarning):
    """The weights stopped short of the solution, so answers from them may be off."""


@dataclass(frozen=True)
class WeightFit:
    """Weights and how well they solve the problem.

    Attributes
    ----------
    weights : ndarray of shape (n_support,)
        Non-negative, with sum 1.
    multipliers : ndarray of shape (n_measurements,)
        The dual solution; a good start for a similar problem.
    residual : float
        What is left of the gradient: see the notes of `fit_weights`.
    converged : bool
        Whether the residual is below the tolerance.
    n_newton, n_cg : int
        Newton steps, and conjugate gradient steps in all of them.
    """

    weights: Floats
    multipliers: Floats = field(repr=False)
    residual: float
    converged: bool
    n_newton: int
    n_cg: int


def fit_weights(
    incidence: sp.csr_matrix,
    prior: Floats,
    targets: Floats,
    variances: Floats,
    trust: float,
    start: Floats | None = None,
    tolerance: float = TOLERANCE,
    max_newton: int = MAX_NEWTON,
) -> WeightFit:
    """Fit weights to measurements, as far from a prior as its trust allows.

    Parameters
    ----------
    incidence : csr_matrix of shape (n_measurements, n_support)
        The measurements of the weights p are ``incidence @ p``.
    prior : ndarray of shape (n_support,)
        Positive weights with sum 1.
    targets, variances : ndarray of shape (n_measurements,)
        The noisy answers, and the positive variance of each.
    trust : float
        How many records the prior counts for; positive.
    start : ndarray of shape (n_measurements,), optional
        Multipliers to start from, by default 0: the prior itself.
    tolerance : float, default=0.01
        The residual that stops.
    max_newton : int, default=60
        Most Newton steps.

    Returns
    -------
    WeightFit
        The weights.

    Warns
    -----
    NotConvergedWarning
        If the residual stays above the tolerance.

    Notes
    -----
    With multipliers λ the weights are prior · exp(Aᵀλ / trust), normalised, and the dual is
    trust · log Σ prior · exp(Aᵀλ / trust) - λ·target + ½ Σ variance · λ². Each Newton step is
    solved by conjugate gradients with the preconditioner variance + V / trust, where V is the
    variance of a row of A under the current weights (q (1 - q) for an answer q if it holds ones),
    to a relative size of min(.3, √(r / √K)), where r is that of the gradient.

    The residual is the squared gradient in units of the preconditioner, over all measurements. If
    the prior's spread V / trust exceeds the noise, it counts for as many times more: it is then
    the error of the answers in units of their posterior variance, not of the prior's.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> incidence = sp.csr_matrix([[1.0, 0.0, 0.0]])
    >>> prior = np.full(3, 1 / 3)
    >>> fit = fit_weights(incidence, prior, np.array([0.5]), np.array([1e-3]), trust=1e-3)
    >>> fit.weights.round(3)
    array([0.5 , 0.25, 0.25])
    >>> fit.converged
    True
    """
    dual = _Dual(incidence, prior, targets, variances, trust)
    point = dual.at(np.zeros(len(targets)) if start is None else np.asarray(start, dtype=float))
    n_newton = n_cg = 0
    residual = point.residual
    while residual >= tolerance and n_newton < max_newton:
        direction, steps = _newton_direction(dual, point)
        following = _line_search(dual, point, direction)
        n_newton, n_cg = n_newton + 1, n_cg + steps
        if following is None:  # rounding hides any further descent
            break
        point, residual = following, following.residual
    converged = residual < tolerance
    if not converged:
        warn(
            f"The weights did not converge: the residual is {residual:.2g} after {n_newton} Newton "
            f"steps, and {tolerance:g} was asked for.",
            NotConvergedWarning,
        )
    return WeightFit(point.weights, point.multipliers, residual, converged, n_newton, n_cg)


@dataclass(frozen=True)
class _Point:
    """The dual at some multipliers."""

    multipliers: Floats
    tilt: Floats  # Aᵀλ
    value: float
    weights: Floats
    answers: Floats
    gradient: Floats
    preconditioner: Floats
    stiffness: Floats  # the prior's spread in units of the noise, at least 1

    @property
    def size(self) -> float:
        return float(np.sum(self.gradient**2 / self.preconditioner))

    @property
    def residual(self) -> float:
        return float(np.sum(self.gradient**2 / self.preconditioner * self.stiffness))


class _Dual:
    def __init__(
        self,
        incidence: sp.csr_matrix,
        prior: Floats,
        targets: Floats,
        variances: Floats,
        trust: float,
    ) -> None:
        self._incidence = incidence
        self._transpose = incidence.T.tocsr()  # both products run along rows
        self._squares = sp.csr_matrix(
            (incidence.data**2, incidence.indices, incidence.indptr), shape=incidence.shape
        )
        self._log_prior = np.log(prior)
        self._targets = targets
        self._variances = variances
        self._trust = trust

    def tilt(self, multipliers: Floats) -> Floats:
        return np.asarray(self._transpose @ multipliers)

    def value(self, multipliers: Floats, tilt: Floats) -> tuple[float, Floats]:
        """Return the dual and the unnormalised weights."""
        exponents = self._log_prior + tilt / self._trust
        largest = float(exponents.max())
        weights = np.exp(exponents - largest)
        log_total = largest + float(np.log(weights.sum()))
        quadratic = _dot(multipliers, 0.5 * self._variances * multipliers - self._targets)
        return self._trust * log_total + quadratic, weights

    def at(self, multipliers: Floats, tilt: Floats | None = None) -> _Point:
        tilt = self.tilt(multipliers) if tilt is None else tilt
        value, weights = self.value(multipliers, tilt)
        weights = weights / weights.sum()
        answers = np.asarray(self._incidence @ weights)
        gradient = answers - self._targets + self._variances * multipliers
        spread = np.maximum(self._squares @ weights - answers**2, 0) / self._trust
        preconditioner = self._variances + spread
        stiffness = np.maximum(spread / self._variances, 1)
        return _Point(
            multipliers, tilt, value, weights, answers, gradient, preconditioner, stiffness
        )

    def hessian_times(self, point: _Point, vector: Floats) -> Floats:
        centred = self.tilt(vector) - _dot(point.answers, vector)
        curvature = np.asarray(self._incidence @ (point.weights * centred)) / self._trust
        return self._variances * vector + curvature


def _newton_direction(dual: _Dual, point: _Point) -> tuple[Floats, int]:
    """Solve Hessian · d = -gradient roughly, by preconditioned conjugate gradients."""
    norm = sqrt(point.size)
    forcing = min(0.3, sqrt(norm / sqrt(len(point.gradient))))
    direction = np.zeros_like(point.gradient)
    left = -point.gradient
    scaled = left / point.preconditioner
    search = scaled
    size = _dot(left, scaled)
    steps = 0
    while steps < MAX_CG:
        steps += 1
        image = dual.hessian_times(point, search)
        length = size / _dot(search, image)
        direction = direction + length * search
        left = left - length * image
        scaled = left / point.preconditioner
        previous, size = size, _dot(left, scaled)
        if sqrt(size) <= forcing * norm:
            break
        search = scaled + (size / previous) * search
    return direction, steps


def _line_search(dual: _Dual, point: _Point, direction: Floats) -> _Point | None:
    """Halve the step until the dual falls by a share of what its slope promises."""
    slope = _dot(point.gradient, direction)
    along = dual.tilt(direction)
    step = 1.0
    for _ in range(MAX_HALVINGS):
        multipliers = point.multipliers + step * direction
        tilt = point.tilt + step * along
        if dual.value(multipliers, tilt)[0] <= point.value + ARMIJO * step * slope:
            return dual.at(multipliers, tilt)
        step /= 2
    return None


def _dot(one: Floats, other: Floats) -> float:
    # BLAS would wake its threads for every such short product, and they wait for busy cores
    return float(np.einsum("i,i->", one, other))
