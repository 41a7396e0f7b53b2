"""Piecewise-linear upper bounds on the hockey-stick curves of privacy losses.

A curve V maps u = e^ε to the largest δ at this ε that the later steps of a plan can cause. V is
non-increasing and convex, with V(0) = 1. V is stored as upper bounds at the points u = e^(j h), for
a range of integers j. V is interpolated linearly from (0, 1) through these points, and is constant
after the last point. The proof is docs/proofs/plans.md.
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
"""Factor that covers all rounding errors when a few thousand non-negative floats are summed."""

MAX_RELATIVE_ROUNDING = 2.0**-38
"""Upper bound on the relative error of a value multiplied by `ROUNDING_FACTOR`."""

GAUSSIAN_TAIL_ERROR = 2.0**-42
"""Relative error of a Gaussian tail Φ(-z), per unit of 1 + z²."""

MIN_DIVISOR = 2.0**-1000
"""Smallest allowed divisor, which replaces 0."""

CHORD_TABLE_ENTRIES = 2**15
"""Approximate maximum number of floats in a table of chords, which limits memory use."""


@dataclass(frozen=True)
class CurveGrid:
    """Grid of points u = e^(j h) at which curves are stored.

    All methods accept and return curves as arrays of their values, of shape (last - first + 1,).
    """

    # Distance h between the logarithms of neighbouring points. The step is at most 1/2 and has at
    # most 24 binary digits, so that multiples of h/2 are exact floats.
    step: float
    # the smallest and the largest j; `last` is positive
    first: int
    last: int

    def start(self) -> Floats:
        """Return max(0, 1 - u) at the points, which is the curve after the last step of a plan."""
        return np.maximum(0.0, -np.expm1(self._logarithms))

    def value_at(self, logarithm: float, values: Floats) -> float:
        """Return an upper bound on a curve at the point e^logarithm >= 1."""
        j = self._multiple_below(logarithm)
        index = j - self.first + 1  # heights[0] belongs to u = 0
        _, heights = self._convex(values)
        if index + 1 >= len(heights):  # after the last point, where the curve is constant
            return float(heights[-1])
        distance = min(logarithm - j * self.step, self.step)
        interpolated = _interpolate(
            heights[index : index + 1], heights[index + 1 :], distance, self.step
        )
        return float(interpolated[0] * ROUNDING_FACTOR)

    def gaussian(self, mu: float, values: Floats) -> Floats:
        """Return the curve before a μ-GDP Gaussian mechanism, given the curve after it.

        A convex curve is a sum of hockey sticks max(0, 1 - u / u_j). The mechanism maps each hockey
        stick to a shifted copy of its own curve, so the sum is a convolution over j.
        """
        weights, heights = self._convex(values)
        indices = np.arange(len(values), dtype=np.float64)
        distances = self.step * indices
        above_kink = _gaussian_delta(mu, distances)  # for u >= u_j
        # for u <= u_j, by the symmetry of the privacy loss
        scaled = np.exp(-distances) * above_kink
        below_kink = -np.expm1(-distances) + scaled
        ascending = below_kink[:0:-1]  # from the point farthest below the kink
        kernel = np.concatenate([ascending, above_kink])
        curve = np.convolve(weights, kernel, mode="valid")
        return _round_up(curve + heights[-1])

    def draw(self, epsilon: float, values: Floats) -> Floats:
        """Return the curve before a draw of the exponential mechanism, given the curve after it.

        The privacy loss is either t or t - ε, for some t in [0, ε] that may depend on u (Dong,
        Durfee and Rogers 2020). Therefore the curve at u is the maximum over y in [u / K, u], K =
        e^ε, of the chord of V from y to K y, evaluated at u, where V is the curve after the draw.
        The maximum over all y between two neighbouring grid points is bounded by one raised chord
        (`_bounding_chords`).
        """
        step, size = self.step, len(values)
        n_intervals = self._multiple_below(epsilon)  # whole grid intervals from u / K to u
        remainder = epsilon - n_intervals * step
        _, convex_heights = self._convex(values)
        heights = convex_heights[1:]  # at the points, without u = 0
        start_heights = self._extend(convex_heights, n_intervals + 1)  # V(y)
        end_heights = _interpolate(  # V(K y)
            start_heights[n_intervals:-1], start_heights[n_intervals + 1 :], remainder, step
        )
        start_heights = start_heights[: len(end_heights)]

        maximum = heights
        if remainder:  # y in the partial interval that begins at u / K
            first_heights = _interpolate(
                start_heights[:size], start_heights[1 : size + 1], step - remainder, step
            )
            chord_starts, chord_ends = _bounding_chords(
                first_heights,
                start_heights[1 : size + 1],
                heights,
                end_heights[1 : size + 1],
                epsilon,
                remainder,
            )
            start_weight, end_weight = _loss_probabilities(
                epsilon, np.array([epsilon - remainder / 2])
            )
            maximum = np.maximum(maximum, start_weight * chord_starts + end_weight * chord_ends)
        if n_intervals:
            chord_starts, chord_ends = _bounding_chords(
                start_heights[1:-1],
                start_heights[2:],
                end_heights[1:-1],
                end_heights[2:],
                epsilon,
                step,
            )
            start_weights, end_weights = _loss_probabilities(
                epsilon, step * (np.arange(n_intervals, dtype=np.float64) + 0.5)
            )
            maximum = np.maximum(
                maximum, _max_chords(chord_starts, chord_ends, start_weights, end_weights)
            )
        return _round_up(maximum)

    def pure(self, epsilon: float, values: Floats) -> Floats:
        """Return the curve before any ε-differentially private mechanism, given the curve after it.

        The worst case is randomised response, with a privacy loss of ε or -ε.
        """
        step, size = self.step, len(values)
        n_intervals = self._multiple_below(epsilon)
        remainder = epsilon - n_intervals * step
        heights = self._extend(self._convex(values)[1], n_intervals + 1)
        heights_below = _interpolate(  # V(u / K), K = e^ε
            heights[:size], heights[1 : size + 1], step - remainder, step
        )
        heights_above = _interpolate(  # V(K u)
            heights[-size - 1 : -1], heights[-size:], remainder, step
        )
        exp_epsilon = math.exp(epsilon)
        return _round_up((exp_epsilon * heights_below + heights_above) / (1 + exp_epsilon))

    def _extend(self, convex_heights: Floats, n_points: int) -> Floats:
        """Return heights at the grid points and at `n_points` further points on either side.

        The parameter `convex_heights` has the format returned by `_convex`. The curve is linear
        from u = 0 to the first point, and constant after the last one.
        """
        height_at_zero, heights = convex_heights[0], convex_heights[1:]
        distances = self.step * np.arange(n_points, 0, -1)
        below_grid = -np.expm1(-distances) * height_at_zero + np.exp(-distances) * heights[0]
        return np.concatenate([below_grid, heights, np.full(n_points, heights[-1])])

    def _multiple_below(self, logarithm: float) -> int:
        """Return the largest integer k with k h <= logarithm.

        Rounding does not change the floor of the quotient. If the float x is below the float k h,
        then x <= k h (1 - 2^-53). Therefore x / h is not rounded up to k, since half the gap
        between floats below k is less than k 2^-53.
        """
        return math.floor(logarithm / self.step)

    def _convex(self, values: Floats) -> tuple[Floats, Floats]:
        """Return a convex, piecewise-linear upper bound W on a convex curve."""
        points = self._points
        bounds = np.append(1.0, values)  # at u = 0 and at the points
        inner_widths = points[:-1] * math.expm1(self.step)
        widths = np.append(points[0], inner_widths)  # of the intervals between the bounds
        drops = bounds[:-1] - bounds[1:]
        slopes = np.append(drops / widths, 0.0)  # downward
        slopes = np.maximum.accumulate(slopes[::-1])[::-1]
        weights = points * (slopes[:-1] - slopes[1:])

        # compute W from the rounded weights, as a sum of non-negative terms, from the last point on
        slope_changes = (weights / points)[::-1]
        reversed_slopes = np.cumsum(slope_changes)
        reversed_drops = reversed_slopes * widths[::-1]
        heights = np.cumsum(reversed_drops)[::-1]
        heights = np.append(heights, 0.0) + bounds[-1]
        quotients = bounds / np.maximum(heights, MIN_DIVISOR)
        max_quotient = float(np.max(quotients))
        factor = max_quotient * ROUNDING_FACTOR
        weights = weights * factor
        heights = heights * (factor * ROUNDING_FACTOR)
        return weights, heights

    @cached_property
    def _logarithms(self) -> Floats:
        """Logarithms j h of the points."""
        return self.step * np.arange(self.first, self.last + 1, dtype=np.float64)

    @cached_property
    def _points(self) -> Floats:
        """The points u_j = e^(j h)."""
        return np.exp(self._logarithms)


def _interpolate(left: Floats, right: Floats, distance: float, step: float) -> Floats:
    """Interpolate linearly in u between neighbouring points of the grid."""
    right_weight = math.expm1(distance) / math.expm1(step)
    left_weight = math.exp(distance) * math.expm1(step - distance) / math.expm1(step)
    return left_weight * left + right_weight * right


def _loss_probabilities(epsilon: float, t: Floats) -> tuple[Floats, Floats]:
    """Return the probabilities of the losses t and t - ε of a two-valued privacy loss.

    The probabilities sum to 1, and the mean of e^-loss is 1. These two conditions determine both
    probabilities.
    """
    denominator = math.expm1(epsilon)
    return np.exp(t) * np.expm1(epsilon - t) / denominator, np.expm1(t) / denominator


def _bounding_chords(
    start_first: Floats,
    start_last: Floats,
    end_first: Floats,
    end_last: Floats,
    epsilon: float,
    width: float,
) -> tuple[Floats, Floats]:
    """Return, for each interval of y, a chord that bounds all chords from y to K y, where K = e^ε.

    On the interval, V(y) is linear from `start_first` to `start_last`, and V(K y) from `end_first`
    to `end_last`. The chord from the middle of the interval, raised by the curvature terms a and b
    of docs/proofs/plans.md, lies above every chord that starts in the interval, at least where that
    chord is the highest of all.

    Parameters
    ----------
    start_first, start_last, end_first, end_last : ndarray of float64, shape (n_chords,)
        Heights at both ends of each interval.
    epsilon, width : float
        Lengths of a chord and of an interval on the logarithmic scale.

    Returns
    -------
    chord_starts, chord_ends : ndarray of float64, shape (n_chords,)
        Heights of the raised chords at both ends.
    """
    exp_epsilon = math.exp(epsilon)
    twice_sinh = 2 * math.sinh(width / 2)
    half_width = width / 2
    start_middle = _interpolate(start_first, start_last, distance=half_width, step=width)
    end_middle = _interpolate(end_first, end_last, distance=half_width, step=width)
    start_drop = start_first - start_last
    end_drop = end_first - end_last
    middle_drop = start_middle - end_middle
    rounding = MAX_RELATIVE_ROUNDING * start_first
    # the chord at u is linear in y and in u / y, with slopes in proportion to -a and -b
    a = exp_epsilon * start_drop - end_drop + (exp_epsilon + 1) * rounding
    b = start_drop - end_drop + twice_sinh * middle_drop + 3 * rounding
    curvature = 2 * math.sinh(width / 4) ** 2 / math.cosh(half_width)
    factor = curvature / (twice_sinh * math.expm1(epsilon))
    a = np.maximum(a, 0.0) * factor
    b = np.maximum(b, 0.0) * factor
    chord_starts = start_middle + a + b
    chord_ends = end_middle + a + exp_epsilon * b
    return chord_starts, chord_ends


def _max_chords(
    chord_starts: Floats, chord_ends: Floats, start_weights: Floats, end_weights: Floats
) -> Floats:
    """Return the height of the highest chord at each point, over all lower intervals of y.

    Parameters
    ----------
    chord_starts, chord_ends : ndarray of float64, shape (n_intervals + n_points - 1,)
        Heights of the chord from each interval.
    start_weights, end_weights : ndarray of float64, shape (n_intervals,)
        Probabilities of both ends for each distance between point and interval, in increasing order
        of distance.

    Returns
    -------
    ndarray of float64, shape (n_points,)
        Maximum height at each point over all intervals.
    """
    n_intervals = len(start_weights)
    n_points = len(chord_starts) - n_intervals + 1
    # (n_intervals, n_points): the distance increases along rows
    starts = sliding_window_view(chord_starts, n_points)[::-1]
    ends = sliding_window_view(chord_ends, n_points)[::-1]
    maximum = np.full(n_points, -np.inf)
    n_rows = max(1, CHORD_TABLE_ENTRIES // n_points)  # rows in memory at once
    for first_row in range(0, n_intervals, n_rows):
        rows = slice(first_row, first_row + n_rows)
        chords = start_weights[rows, None] * starts[rows]
        chords += end_weights[rows, None] * ends[rows]
        maximum = np.maximum(maximum, chords.max(axis=0))
    return maximum


def _round_up(values: Floats) -> Floats:
    """Return the values multiplied by `ROUNDING_FACTOR` and clipped to 1, as upper bounds."""
    return np.minimum(1.0, values * ROUNDING_FACTOR)


def _gaussian_delta(mu: float, logarithms: Floats) -> Floats:
    """Return upper bounds on the δ of a Gaussian mechanism at u = e^x, for x >= 0.

    δ is Φ(-z) - e^x Φ(-z - μ), z = x/μ - μ/2 (Balle and Wang 2018, Theorem 8). The bound assumes
    that the relative error of SciPy's Φ is at most 2^-44.
    """
    z = logarithms / mu - mu / 2
    upper_tail = ndtr(-z)
    factor = np.exp(logarithms)
    shifted_tail = factor * ndtr(-z - mu)
    difference = np.maximum(0.0, upper_tail - shifted_tail)
    # the relative errors of ndtr and of exp, amplified by the error of z: see docs/proofs/plans.md
    relative_error = GAUSSIAN_TAIL_ERROR * (1 + z * z)
    return difference + relative_error * upper_tail


def float_up(value: Fraction) -> float:
    """Return the smallest float that is not below a fraction."""
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def float_down(value: Fraction) -> float:
    """Return the largest float that is not above a fraction."""
    return -float_up(-value)
