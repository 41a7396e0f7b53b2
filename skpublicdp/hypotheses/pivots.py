"""Hyperplanes that rotate about public points, and rays of points about a pivot."""

from __future__ import annotations

import itertools

import numpy as np

from skpublicdp.hypotheses.sweeps import Sweeps
from skpublicdp.typing import Codes, Floats, Mask

N_POSITIONS = 5
"""Positions of a row on a line: before the first point, on it, between, on the second, after."""

AT_FIRST_POINT, AT_SECOND_POINT = 1, 3
"""The positions of the two points on the line."""


class Pivot:
    """A public point in the plane, or the line through two public points in space.

    Hyperplanes that contain the pivot rotate about it.

    Parameters
    ----------
    start, stop : ndarray of float64, shape (d,)
        The two points in space (d = 3), or the same point twice in the plane (d = 2).
    """

    def __init__(self, start: Floats, stop: Floats) -> None:
        self.start, self.stop, self.span = start, stop, stop - start
        # features by increasing absolute value of the span: the last feature is projected out
        self.axes = np.argsort(np.abs(self.span), kind="stable")

    def project(self, columns: Floats) -> tuple[Floats, Floats]:
        """Return the coordinates (u, v) of rows on a plane across the pivot, which is at (0, 0).

        `columns` contains the transposed rows, shape (d, n). Rows on the pivot have exactly u = v =
        0, because products of equal factors cancel.
        """
        shifted = columns - self.start[:, None]
        if len(columns) == 2:
            u, v = shifted
            return u, v
        first, second, longest = self.axes
        span = self.span
        u = span[longest] * shifted[first] - span[first] * shifted[longest]
        v = span[longest] * shifted[second] - span[second] * shifted[longest]
        return u, v

    def hyperplane(self, u: float, v: float) -> tuple[Floats, float]:
        """Return the normal and offset of the hyperplane through the pivot, in units of the rows.

        (u, v) is the normal in the coordinates of `project`.
        """
        if len(self.start) == 2:
            normal = np.array([u, v])
        else:
            first, second, longest = self.axes
            span = self.span
            normal = np.empty(3)
            normal[first] = u * span[longest]
            normal[second] = v * span[longest]
            normal[longest] = -u * span[first] - v * span[second]
        return normal, float(normal @ self.start)


class RotatingHyperplanes(Sweeps):
    """Lines that rotate about a public point, or planes that rotate about two public points.

    The point, or the line through the two points, is the *pivot* of a sweep. Rows are projected
    along the pivot onto a plane with coordinates (u, v). The key of a row is u / v and its side is
    the sign of v: the rotating line u = t v passes the row at t = u / v. On the pivot, u and v are
    exactly 0 because products of the same factors cancel, and the key is NaN. All hyperplanes of
    the sweep contain the pivot. The members are therefore shifted or tilted by an infinitesimal
    amount, which determines the labels of rows on the pivot. A line labels its pivot positive. A
    plane labels one of the two points positive, together with all rows beyond this point in one of
    the two directions.

    Parameters
    ----------
    points : ndarray of float64, shape (m, 2) or (m, 3)
        At least two distinct public points.

    Notes
    -----
    The members realise every dichotomy of the points except the constants, even for degenerate
    points. Consider a hyperplane that strictly separates the positive points A from the others.
    Move the hyperplane in a general direction until it meets A at a point p. For d = 3, rotate it
    about p in a general way until it meets another point q. The hyperplane now contains only the
    points on the line through p (and q), and all other points are still strictly on their original
    sides. On the line through p and q, A consists of p and all points beyond p in one direction,
    because the hyperplane met the line only in p before it was rotated.
    """

    def __init__(self, points: Floats) -> None:
        n_features = points.shape[1]
        if n_features == 2:
            self._pivots = [Pivot(point, point) for point in points]
            variants = np.ones((1, 1), dtype=bool)
        else:
            self._pivots = [Pivot(*pair) for pair in itertools.combinations(points, 2)]
            positions = np.arange(N_POSITIONS)
            variants = np.array(
                [
                    positions >= AT_FIRST_POINT,
                    positions <= AT_FIRST_POINT,
                    positions >= AT_SECOND_POINT,
                    positions <= AT_SECOND_POINT,
                ]
            )
        columns = np.ascontiguousarray(points.T)
        keys_of_sweep = (self._keys(columns, sweep)[0] for sweep in range(len(self._pivots)))
        cuts = (_thresholds_between(keys) for keys in keys_of_sweep)
        super().__init__(cuts, n_sides=2, variants=variants)

    def _keys(self, columns: Floats, sweep: int) -> tuple[Floats, Mask]:
        """Return the key u / v of each row (NaN on the pivot), and whether v < 0.

        Rows with v < 0 are on the second side, and all other rows are on the first side.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            u, v = self._pivots[sweep].project(columns)
            v += 0.0  # no negative zero, so that an infinite key has the sign of u
            return u / v, v < 0

    def codes(self, columns: Floats, sweep: int) -> Codes:
        """Return the code of each row.

        The bins of the first side come first, followed by the bins of the second side and the
        positions on the pivot.
        """
        keys, on_second_side = self._keys(columns, sweep)
        codes = self._find_bins(keys, sweep)
        codes += on_second_side * np.intp(self.n_bins)
        on_pivot = np.isnan(keys)
        if on_pivot.any():
            positions = self._positions_on_pivot(columns[:, on_pivot], sweep)
            codes[on_pivot] = 2 * self.n_bins + positions
        return codes

    def _positions_on_pivot(self, columns: Floats, sweep: int) -> Codes:
        """Return the position of each row on the pivot: 0 on a point, and 0 to 4 on a line."""
        if len(columns) == 2:
            return np.zeros(columns.shape[1], dtype=np.intp)
        pivot = self._pivots[sweep]
        longest = pivot.axes[-1]
        values = columns[longest]
        points = np.sort([pivot.start[longest], pivot.stop[longest]])
        n_points_below = np.searchsorted(points, values, side="left")
        n_points_up_to = np.searchsorted(points, values, side="right")
        return n_points_below + n_points_up_to

    def hyperplane(self, sweep: int, gap: int) -> tuple[Floats, float]:
        """Return the normal and offset of the hyperplane u - t v = 0, in the units of the rows.

        t is the threshold at index `gap`, which denotes a gap between the keys of public points.
        """
        return self._pivots[sweep].hyperplane(1.0, -self.thresholds[sweep, gap])


class Rays:
    """Rays from a pivot through public points, ordered by angle.

    In the plane, the pivot is a public point and each ray is a half-line. In space, the pivot is
    the line through two public points and each ray is a half-plane.

    Parameters
    ----------
    points : ndarray of float64, shape (m, 2) or (m, 3)
        Distinct public points. Each point outside the pivot defines a ray and an opposite ray.
    pivot : tuple of int
        Index of one point in the plane, or indices of two points in space.

    Attributes
    ----------
    line_keys : ndarray of float64, shape (n_lines,)
        Keys of the distinct lines (planes) through the pivot, by increasing angle. Ray i lies on
        line ``i % n_lines``, and ray ``i + n_lines`` is opposite to ray i.
    """

    def __init__(self, points: Floats, pivot: tuple[int, ...]) -> None:
        self._pivot = Pivot(points[pivot[0]], points[pivot[-1]])
        keys, _ = self._keys(np.ascontiguousarray(points.T))
        self.line_keys = np.unique(keys[~np.isnan(keys)])

    def __len__(self) -> int:
        return len(self.line_keys)

    @property
    def pivot_code(self) -> int:
        """Code of rows on the pivot, which comes after the four codes of each line."""
        return 4 * len(self)

    def _keys(self, columns: Floats) -> tuple[Floats, Mask]:
        """Return the negated cotangent of each row's angle, and whether the angle is at least π.

        The angle of (u, v) is measured from the u axis and is in [0, 2π). Within each half turn,
        the key increases with the angle, from -inf at 0 and at π. On the pivot, the key is NaN.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            u, v = self._pivot.project(columns)
            keys = -(u / v)
        is_horizontal = (v == 0) & (u != 0)
        keys[is_horizontal] = -np.inf
        return keys, (v < 0) | (is_horizontal & (u < 0))

    def codes(self, columns: Floats) -> Codes:
        """Return the code of each row, which is its position among the rays.

        Code 2i + 1 is ray i, code 2i lies between rays i - 1 and i, and `pivot_code` is the pivot.
        Each row is coded independently, with elementwise operations in a fixed order, for both
        scoring and prediction. If features are integers, a row on a ray has exactly the same key as
        the ray's point, because products and differences are exact.
        """
        keys, on_second_side = self._keys(columns)
        n_below = np.searchsorted(self.line_keys, keys)
        on_line = self.line_keys.take(n_below, mode="clip") == keys
        codes_per_half_turn = 2 * len(self)
        codes = codes_per_half_turn * on_second_side + 2 * n_below + on_line
        codes %= 2 * codes_per_half_turn  # the gap after the last ray is the gap before the first
        codes[np.isnan(keys)] = self.pivot_code
        return np.asarray(codes, dtype=np.intp)

    def in_wedge(self, codes: Codes, first: int, width: int) -> Mask:
        """Return whether each code lies between ray `first` and ray `first + width`.

        Both rays and the pivot are included.
        """
        # codes are cyclic; ray i has code 2i + 1
        codes_from_first = (codes - (2 * first + 1)) % (4 * len(self))
        return np.asarray((codes_from_first <= 2 * width) | (codes == self.pivot_code))

    def halfspace(self, ray: int) -> tuple[Floats, float]:
        """Return the normal and offset of the halfspace whose half turn begins at a given ray.

        A row is inside if ``normal @ row >= offset``. The normal is in the units of the rows.
        """
        half_turns, line = divmod(ray, len(self))
        key = self.line_keys[line]
        # (u, v) is the normal on the plane across the pivot: a quarter turn after the ray
        u, v = (0.0, 1.0) if np.isinf(key) else (-1.0, -key)
        is_opposite_ray = half_turns % 2 == 1
        if is_opposite_ray:
            u, v = -u, -v
        return self._pivot.hyperplane(u, v)


@np.errstate(over="ignore", invalid="ignore")  # a midpoint that overflows is outside its gap
def _thresholds_between(keys: Floats) -> Floats:
    """Return one increasing threshold for each gap between neighbouring keys of public points.

    NaN does not count as a key, and infinity is a single key regardless of its sign. A threshold is
    the midpoint of its gap by angle, corrected if rounding places it outside the gap. Since keys
    are on a circle (the projective line), there is also a gap between the largest and the smallest
    key.
    """
    finite = np.unique(keys[np.isfinite(keys)])
    if not len(finite):  # all keys are infinite: there is one gap, which has any threshold
        return np.zeros(1)
    # the angle of a key depends on the unit of u and v; this unit spreads the keys
    unit = float(np.median(np.abs(finite))) or 1.0
    angles = np.arctan(finite / unit)
    has_infinity = np.isinf(keys).any()
    if has_infinity:  # the first and the last key
        lower_keys = np.append(-np.inf, finite)
        upper_keys = np.append(finite, np.inf)
        angles = np.concatenate([[-np.pi / 2], angles, [np.pi / 2]])
        lowest_thresholds = np.append(np.nextafter(finite[0], -np.inf), finite)
    else:
        lower_keys = lowest_thresholds = finite[:-1]
        upper_keys = finite[1:]
    middle_angles = (angles[1:] + angles[:-1]) / 2
    midpoints = unit * np.tan(middle_angles)
    is_inside = (lower_keys <= midpoints) & (midpoints < upper_keys)
    thresholds = np.where(is_inside, midpoints, lowest_thresholds)
    if has_infinity:
        return thresholds
    # the gap from the largest key through infinity to the smallest key
    middle_angle = (angles[-1] + angles[0] + np.pi) / 2
    last = unit * np.tan(middle_angle)
    if last < finite[0]:
        return np.append(last, thresholds)
    return np.append(thresholds, np.fmax(last, finite[-1]))  # `last` can be NaN
