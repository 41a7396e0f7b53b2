"""Privacy curves as broken lines that lie above them; the proof is docs/proofs/plans.md.

V(u) bounds the δ at e^ε = u that the steps still to come can cause. It falls, is convex, and is 1
at u = 0. A curve is stored as its values at u = e^(j h) for a range of integers j, and is read as
the broken line through (0, 1) and them, which is level from the last one on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import ndtr

from skpublicdp.typing import Floats

ROUNDING_FACTOR = 1 + 2.0**-39
"""Factor on sums of a few thousand non-negative floats: more than all their roundings."""

MAX_RELATIVE_ROUNDING = 2.0**-38
"""Bound on the relative error of a value that was multiplied by the slack."""


MIN_DIVISOR = 2.0**-1000
"""Stands in for 0 as a divisor."""

CHORD_TABLE_ENTRIES = 2**15
"""Lines are compared in tables of about so many numbers."""


@dataclass(frozen=True)
class CurveGrid:
    """Points u = e^(j h) at which curves are stored.

    Attributes
    ----------
    step : float
        The distance h of their logarithms: at most 1/2, and of at most 24 binary digits, so that
        all multiples of h/2 that occur are floats.
    first, last : int
        The first j and the last one; `last` is positive.
    """

    step: float
    first: int
    last: int

    def start(self) -> Floats:
        """Return max(0, 1 - u), which is δ where no step is left."""
        start: Floats = np.maximum(0.0, -np.expm1(self._logarithms))
        return start

    def at(self, logarithm: float, values: Floats) -> float:
        """Read a curve at a point e^logarithm >= 1."""
        below = self._multiple_below(logarithm)
        index = below - self.first + 1
        _, line = self._convex(values)
        if index + 1 >= len(line):
            return float(line[-1])
        rest = min(logarithm - below * self.step, self.step)
        return float(
            _interpolate(line[index : index + 1], line[index + 1 :], rest, self.step)[0]
            * ROUNDING_FACTOR
        )

    def gaussian(self, mu: float, values: Floats) -> Floats:
        """Return the curve before a Gaussian mechanism from the curve after it."""
        weights, line = self._convex(values)
        distances = self.step * np.arange(len(values), dtype=np.float64)
        ahead = _gaussian_delta(mu, distances)  # where u >= the kink
        # before the kink, by symmetry
        behind = -np.expm1(-distances) + np.exp(-distances) * ahead
        spread = np.convolve(weights, np.concatenate([behind[:0:-1], ahead]), mode="valid")
        return _clip_to_one(spread + line[-1])

    def draw(self, epsilon: float, values: Floats) -> Floats:
        """Return the curve before a draw of budget ε from the curve after it.

        The loss is t or t - ε, where t may depend on u: V is the largest value at u of the chords
        from y to K y, K = e^ε, y from u / K to u.
        """
        step, size = self.step, len(values)
        pieces = self._multiple_below(epsilon)  # of the broken line from u / K to u, and a rest
        rest = epsilon - pieces * step
        _, line = self._convex(values)
        top, line = line[0], line[1:]
        distances = step * np.arange(pieces + 1, 0, -1)
        below = -np.expm1(-distances) * top + np.exp(-distances) * line[0]
        near = np.concatenate([below, line, np.full(pieces + 1, line[-1])])  # V(y)
        far = _interpolate(near[pieces:-1], near[pieces + 1 :], rest, step)  # V(K y)
        near = near[: len(far)]

        best = line
        if rest:
            left = _interpolate(near[:size], near[1 : size + 1], step - rest, step)
            lefts, rights = _bounding_chords(
                left, near[1 : size + 1], line, far[1 : size + 1], epsilon, rest
            )
            head, tail = _loss_probabilities(epsilon, np.array([epsilon - rest / 2]))
            best = np.maximum(best, head * lefts + tail * rights)
        if pieces:
            left, right = _bounding_chords(near[1:-1], near[2:], far[1:-1], far[2:], epsilon, step)
            heads, tails = _loss_probabilities(
                epsilon, step * (np.arange(pieces, dtype=np.float64) + 0.5)
            )
            lefts = sliding_window_view(left, size)[::-1]  # t is the row, u the column
            rights = sliding_window_view(right, size)[::-1]
            rows = max(1, CHORD_TABLE_ENTRIES // size)
            for k in range(0, pieces, rows):
                some = slice(k, k + rows)
                lines = heads[some, None] * lefts[some]
                lines += tails[some, None] * rights[some]
                best = np.maximum(best, lines.max(axis=0))
        return _clip_to_one(best)

    def pure(self, epsilon: float, values: Floats) -> Floats:
        """Return the curve before an ε-differentially private mechanism from that after it.

        The loss is ε or -ε, as that of randomised response: of all such mechanisms it is the worst.
        """
        step, size = self.step, len(values)
        pieces = self._multiple_below(epsilon)
        rest = epsilon - pieces * step
        _, line = self._convex(values)
        top, line = line[0], line[1:]
        distances = step * np.arange(pieces + 1, 0, -1)
        below = -np.expm1(-distances) * top + np.exp(-distances) * line[0]
        known = np.concatenate([below, line, np.full(pieces + 1, line[-1])])
        near = _interpolate(known[:size], known[1 : size + 1], step - rest, step)  # V(u / K)
        far = _interpolate(known[-size - 1 : -1], known[-size:], rest, step)  # V(K u)
        larger = math.exp(epsilon)
        return _clip_to_one((larger * near + far) / (1 + larger))

    def _multiple_below(self, logarithm: float) -> int:
        """Return the largest k with k h <= logarithm.

        k h is a float. If x is a smaller one, x <= k h (1 - 2^-53), and its quotient by h is not
        rounded up to k either: half the gap between floats below k is less than k 2^-53.
        """
        return math.floor(logarithm / self.step)

    def _convex(self, values: Floats) -> tuple[Floats, Floats]:
        """Return a convex broken line W above a convex curve of which upper bounds are given.

        Returns
        -------
        weights : array
            W(u) = w + Σ_j weights[j] max(0, 1 - u / u_j), no weight being negative.
        line : array
            W at 0 and at the points, rounded up; the last one is w.
        """
        points, bounds = self._points, np.concatenate([[1.0], values])
        widths = np.concatenate([points[:1], points[:-1] * math.expm1(self.step)])
        slopes = np.concatenate([(bounds[:-1] - bounds[1:]) / widths, [0.0]])
        slopes = np.maximum.accumulate(slopes[::-1])[::-1]
        weights = points * (slopes[:-1] - slopes[1:])
        # W again from the weights that there are, as a sum of non-negative terms
        slopes = np.cumsum((weights / points)[::-1])[::-1]
        line = np.concatenate([np.cumsum((slopes * widths)[::-1])[::-1], [0.0]]) + bounds[-1]
        short = float(np.max(bounds / np.maximum(line, MIN_DIVISOR))) * ROUNDING_FACTOR
        return weights * short, line * (short * ROUNDING_FACTOR)

    @cached_property
    def _logarithms(self) -> Floats:
        return self.step * np.arange(self.first, self.last + 1, dtype=np.float64)

    @cached_property
    def _points(self) -> Floats:
        points: Floats = np.exp(self._logarithms)
        return points


def _interpolate(left: Floats, right: Floats, distance: float, step: float) -> Floats:
    """Interpolate linearly in u, a distance of logarithms after the left end of a step."""
    share = math.expm1(distance) / math.expm1(step)
    rest = math.exp(distance) * math.expm1(step - distance) / math.expm1(step)
    return rest * left + share * right


def _loss_probabilities(epsilon: float, t: Floats) -> tuple[Floats, Floats]:
    """Return the probabilities of the losses t and t - ε, which are those of a privacy loss."""
    excess = math.expm1(epsilon)
    return np.exp(t) * np.expm1(epsilon - t) / excess, np.expm1(t) / excess


def _bounding_chords(
    near: Floats, near_end: Floats, far: Floats, far_end: Floats, epsilon: float, width: float
) -> tuple[Floats, Floats]:
    """Return the left and right values of chords that replace those from a piece of a broken line.

    V(y) goes linearly from `near` to `near_end`, V(K y) from `far` to `far_end`. The chord from the
    middle of the piece, raised a little, is above any chord from the piece wherever that one is
    the highest of them.
    """
    larger, excess, sinh = math.exp(epsilon), math.expm1(epsilon), 2 * math.sinh(width / 2)
    falls, far_falls, lost = near - near_end, far - far_end, MAX_RELATIVE_ROUNDING * near
    middle, far_middle = (
        _interpolate(left, right, width / 2, width)
        for left, right in ((near, near_end), (far, far_end))
    )
    # what the chord loses per y and per u / y
    a = larger * falls - far_falls + (larger + 1) * lost
    b = falls - far_falls + sinh * (middle - far_middle) + 3 * lost
    bend = 2 * math.sinh(width / 4) ** 2 / math.cosh(width / 2)
    a, b = (np.maximum(part, 0.0) * (bend / (sinh * excess)) for part in (a, b))
    return middle + a + b, far_middle + a + larger * b


def _clip_to_one(values: Floats) -> Floats:
    """Round a curve up; δ is at most 1."""
    bounded: Floats = np.minimum(1.0, values * ROUNDING_FACTOR)
    return bounded


def _gaussian_delta(mu: float, logarithms: Floats) -> Floats:
    """Bound the δ of a Gaussian mechanism from above, for logarithms x >= 0 of u.

    It is Φ(-z) - e^x Φ(-z - μ), z = x/μ - μ/2 (Balle and Wang 2018, Theorem 8). SciPy's Φ is taken
    to have a relative error of at most 2^-44.
    """
    z = logarithms / mu - mu / 2
    first = ndtr(-z)
    second = np.exp(logarithms) * ndtr(-z - mu)
    bound: Floats = np.maximum(0.0, first - second) + 2.0**-42 * (1 + z * z) * first
    return bound


def float_up(value: Fraction) -> float:
    """Return the least float that is not below."""
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def float_down(value: Fraction) -> float:
    """Return the greatest float that is not above."""
    return -float_up(-value)
