"""RotatingHyperplanes: lines that turn about a public point, planes that turn about two."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from skpublicdp.hypotheses.sweeps import Sweeps
from skpublicdp.typing import Codes, Floats


class RotatingHyperplanes(Sweeps):
    """Lines that turn about a public point, or planes that turn about two of them.

    Rows are projected along the common flat onto a plane with coordinates (u, v). The key is
    u / v and the side the sign of v: a row is passed when the line u = t v reaches it. On the flat
    u = v = 0 exactly, since products of the same factors cancel, and the key is NaN. There the
    members are shifted or tilted by an infinitesimal: a line counts its pivot as positive, a plane
    one pivot and all rows beyond it in one of both directions.

    Parameters
    ----------
    points : ndarray of float64, shape (m, 2) or (m, 3)
        At least two distinct public points.

    Notes
    -----
    Every dichotomy of the points is among the members, save the constants and however degenerate
    the points are. Take a hyperplane that strictly parts the positive points A from the others
    and move it, its direction being general, until it meets A, in p. For d = 3, turn it about p
    until it meets another point q, in a way that is general otherwise. It now contains the points
    of the flat through p (and q) and no others: those off the flat lie strictly on their sides. On
    the line through p and q, A is p and all points beyond it in one direction, because the
    hyperplane met the line in p alone before it was turned.
    """

    def __init__(self, points: Floats) -> None:
        n_features = points.shape[1]
        if n_features == 2:
            self._start, self._stop = points, points
            variants = np.ones((1, 1), dtype=bool)
        else:
            pairs = np.array(list(itertools.combinations(range(len(points)), 2)))
            self._start, self._stop = points[pairs[:, 0]], points[pairs[:, 1]]
            # before the first pivot, at it, between, at the second, after it
            place = np.arange(5)
            variants = np.array([place >= 1, place <= 1, place >= 3, place <= 3])
        self._axes = _axes(self._stop - self._start)
        columns = np.ascontiguousarray(points.T)
        keys = (self._keys(columns, pencil)[0] for pencil in range(len(self._start)))
        super().__init__((_gaps(of_pencil) for of_pencil in keys), 2, variants)

    def _keys(self, columns: Floats, pencil: int) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the key of each row and whether it starts on the second side."""
        start = self._start[pencil]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if len(columns) == 2:
                u, v = columns[0] - start[0], columns[1] - start[1]
            else:
                first, second, along = self._axes[pencil]
                span = self._stop[pencil] - start
                shift = columns[along] - start[along]
                u = span[along] * (columns[first] - start[first]) - span[first] * shift
                v = span[along] * (columns[second] - start[second]) - span[second] * shift
                v += 0.0  # no negative zero: the sign of an infinite key is that of u
            return u / v, v < 0

    def codes(self, columns: Floats, sweep: int) -> Codes:
        """Return the bins of the keys, those of the second side after those of the first."""
        keys, second = self._keys(columns, sweep)
        codes = self._bins(keys, sweep)
        codes += second * np.intp(self.n_bins)
        on_flat = np.isnan(keys)
        if on_flat.any():
            codes[on_flat] = 2 * self.n_bins + self._places(columns[:, on_flat], sweep)
        return codes

    def _places(self, columns: Floats, pencil: int) -> Codes:
        """Return where rows of the flat lie: one place on a point, five on a line."""
        if len(columns) == 2:
            return np.zeros(columns.shape[1], dtype=np.intp)
        along = self._axes[pencil, 2]
        low, high = sorted((self._start[pencil, along], self._stop[pencil, along]))
        values, edges = columns[along], np.array([low, high])
        places: Codes = np.searchsorted(edges, values) + np.searchsorted(edges, values, "right")
        return places

    def hyperplane(self, sweep: int, gap: int) -> tuple[Floats, float]:
        """Return u - t v = 0 in the units of the rows."""
        start, cut = self._start[sweep], self.thresholds[sweep, gap]
        if len(start) == 2:
            normal = np.array([1.0, -cut])
        else:
            first, second, along = self._axes[sweep]
            span = self._stop[sweep] - start
            normal = np.empty(3)
            normal[first], normal[second] = span[along], -cut * span[along]
            normal[along] = cut * span[second] - span[first]
        return normal, float(normal @ start)


class Rays:
    """Half-lines from a public point, or half-planes from the line through two, by their angle.

    Parameters
    ----------
    points : ndarray of float64, shape (m, 2) or (m, 3)
        Distinct public points. Each one off the pivot has a ray, and the opposite of it.
    pivot : tuple of int
        Positions of one point in the plane, of two in space.

    Attributes
    ----------
    lines : ndarray of float64, shape (n_lines,)
        The distinct lines (planes), by increasing angle. Ray i lies on line ``i % n_lines``, and
        ray ``i + n_lines`` is opposite to ray i.
    """

    def __init__(self, points: Floats, pivot: tuple[int, ...]) -> None:
        self._start = points[pivot[0]]
        self._span = points[pivot[-1]] - self._start
        # the longest side of a span is that along which rows are projected
        self._axes = np.argsort(np.abs(self._span), kind="stable")
        keys, _ = self._keys(np.ascontiguousarray(points.T))
        self.lines = np.unique(keys[~np.isnan(keys)])

    def __len__(self) -> int:
        return len(self.lines)

    def _keys(self, columns: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return minus the cotangent of each row's angle and whether the angle is at least π."""
        start, span = self._start, self._span
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if len(columns) == 2:
                u, v = columns[0] - start[0], columns[1] - start[1]
            else:
                first, second, along = self._axes
                shift = columns[along] - start[along]
                u = span[along] * (columns[first] - start[first]) - span[first] * shift
                v = span[along] * (columns[second] - start[second]) - span[second] * shift
            keys = -(u / v)
        level = (v == 0) & (u != 0)
        keys[level] = -np.inf
        return keys, (v < 0) | (level & (u < 0))

    def codes(self, columns: Floats) -> Codes:
        """Return where rows are: on ray i at 2i + 1, between rays at even codes, at the pivot last.

        Each row is coded on its own, by elementwise operations in fixed order; scoring and
        predicting both come here. Rows on a ray have the very key of its point if features are
        integers, whose products and differences are exact.
        """
        keys, second = self._keys(columns)
        below = np.searchsorted(self.lines, keys)
        on = self.lines.take(below, mode="clip") == keys
        codes = (2 * len(self) * second + 2 * below + on) % (4 * len(self))
        codes[np.isnan(keys)] = 4 * len(self)
        return np.asarray(codes, dtype=np.intp)

    def within(self, codes: Codes, ray: int, width: int) -> NDArray[np.bool_]:
        """Tell which codes are from one ray to another, both included, or at the pivot."""
        turned = (codes - (2 * ray + 1)) % (4 * len(self))
        return np.asarray((turned <= 2 * width) | (codes == 4 * len(self)))

    def halfspace(self, ray: int) -> tuple[Floats, float]:
        """Return normal and offset of the half turn that begins at a ray."""
        key = self.lines[ray % len(self)]
        u, v = (0.0, 1.0) if np.isinf(key) else (-1.0, -key)
        if ray % (2 * len(self)) >= len(self):
            u, v = -u, -v
        if len(self._start) == 2:
            normal = np.array([u, v])
        else:
            first, second, along = self._axes
            normal = np.empty(3)
            normal[[first, second]] = u * self._span[along], v * self._span[along]
            normal[along] = -u * self._span[first] - v * self._span[second]
        return normal, float(normal @ self._start)


def _gaps(keys: Floats) -> Floats:
    """Put one threshold, in the middle by angle, into each gap of keys on the projective line."""
    finite = np.unique(keys[np.isfinite(keys)])
    if not len(finite):
        return np.zeros(1)
    scale = float(np.median(np.abs(finite))) or 1.0
    angles = np.arctan(finite / scale)
    if np.isinf(keys).any():
        low = np.append(np.nextafter(finite[0], -np.inf), finite)
        high = np.append(finite, np.inf)
        angles = np.concatenate([[-np.pi / 2], angles, [np.pi / 2]])
        cuts = scale * np.tan((angles[1:] + angles[:-1]) / 2)
        inside = (cuts < high) & (np.append(-np.inf, finite) <= cuts)
        return np.where(inside, cuts, low)
    cuts = scale * np.tan((angles[1:] + angles[:-1]) / 2)
    cuts = np.where((finite[:-1] <= cuts) & (cuts < finite[1:]), cuts, finite[:-1])
    # the last gap runs through infinity
    around = scale * np.tan((angles[-1] + angles[0] + np.pi) / 2)
    if around < finite[0]:
        return np.append(around, cuts)
    return np.append(cuts, max(around, finite[-1]))


def _axes(spans: Floats) -> Codes:
    """Order the features of each span by its size: the last one is the longest."""
    return np.argsort(np.abs(spans), axis=1, kind="stable")
