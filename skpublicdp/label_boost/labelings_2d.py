"""Labelings by a box over two columns, each listed once; see docs/proofs/label_boost.md."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.label_boost.labelings import EnumeratedLabelings, Labelings
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Path, Product
from skpublicdp.typing import Codes, Floats, Integers


class BoxLabelings(Labelings):
    """Labelings by a box along two axes: 1 inside, 0 outside.

    A set of rows that a box cuts out is told by the least box around it, which has rows on all four
    sides: so these boxes, and the empty one, are listed.

    Parameters
    ----------
    X : ndarray of float64, shape (n, 2)
        Rows; only which of two values is larger is looked at.
    """

    def __init__(self, X: Floats) -> None:
        ranks = np.stack([np.unique(column, return_inverse=True)[1].ravel() for column in X.T])
        points, self._point_of = np.unique(ranks, axis=1, return_inverse=True)
        self._point_of = self._point_of.ravel()
        # by the first column, rows of one value side by side
        self._across, self._up = points
        self._starts = np.append(np.unique(self._across, return_index=True)[1], points.shape[1])
        self._lefts, self._rights = np.triu_indices(len(self._starts) - 1)

    def family(self, y: Codes) -> Family:
        """Return a choice among pairs of left and right sides, the last one the empty box."""
        n_points = len(self._across)
        ones = np.bincount(self._point_of[: len(y)], y, n_points).astype(np.int64)
        gain = np.bincount(self._point_of[: len(y)], minlength=n_points) - 2 * ones
        missed = int(ones.sum())

        def build(pair: int, _: int) -> Family:
            if pair == len(self._lefts):
                return Leaf(np.array([[missed]], dtype=np.int64))
            return self._between(pair, gain, missed)

        return Choice(Lazy(len(self._lefts) + 1, build, 1))

    def labels(self, member: Path) -> Codes:
        """Return the labels that one of them gives to all rows."""
        pair, box = member
        inside = np.zeros(len(self._across), dtype=np.intp)
        if pair < len(self._lefts):
            group, (lower, upper) = box
            at, heights, groups = self._heights(pair)
            (first, _), start = groups[group]
            up = self._up[at]
            inside[at] = (heights[first + lower] <= up) & (up <= heights[start + upper])
        return inside[self._point_of]

    def _heights(self, pair: int) -> tuple[slice, Codes, list[tuple[tuple[int, int], int]]]:
        """Return the rows between two sides, their heights, and which lower and upper sides fit.

        Groups of lower sides, first to last, go with all upper sides from one on: those with a row
        of the left side and one of the right side between them.
        """
        left, right = self._lefts[pair], self._rights[pair]
        at = slice(self._starts[left], self._starts[right + 1])
        heights = np.unique(self._up[at])
        ends = [
            np.searchsorted(heights, self._up[self._starts[side] : self._starts[side + 1]])
            for side in (left, right)
        ]
        # from one group to the next a row of a side is left below
        firsts = np.unique(np.concatenate(ends))
        groups, lower = [], 0
        for first in firsts:
            nexts = [side[np.searchsorted(side, lower) :] for side in ends]
            if not all(map(len, nexts)):
                break
            groups.append(((lower, int(first)), int(max(rest[0] for rest in nexts))))
            lower = int(first) + 1
        return at, heights, groups

    def _between(self, pair: int, gain: Integers, missed: int) -> Family:
        """Return the boxes between two sides: lower and upper sides are free in a group."""
        at, heights, groups = self._heights(pair)
        places = np.searchsorted(heights, self._up[at])
        steps = np.bincount(places, gain[at], len(heights)).astype(np.int64)
        below = np.concatenate([[0], np.cumsum(steps)])
        options = [
            Product([Leaf(missed - below[None, first : last + 1]), Leaf(below[None, start + 1 :])])
            for (first, last), start in groups
        ]
        return OneOf(options)


SLOPE_TOLERANCE = 2.0**-48
"""Slopes are computed to a few roundings: nearer ones are told apart by fractions."""

INTEGER_BITS = 25
"""Slopes between whole numbers of so many bits are equal as floats only if they are equal."""


class HalfplaneLabelings(EnumeratedLabelings):
    """Labelings by a line in the plane, either side being 1, and the constant ones.

    Those that are not constant are told by a point and a ray from it through other points: 1 on the
    left of the ray's line, and on the line itself at the point and behind it.

    Parameters
    ----------
    X : ndarray of float64, shape (n, 2)
        Rows, which are compared exactly.
    """

    def __init__(self, X: Floats) -> None:
        points, point_of = np.unique(X + 0.0, axis=0, return_inverse=True)
        self._given, self._point_of = points, point_of.ravel()
        # a power of two for each column keeps lines lines, and sides sides
        _, exponents = np.frexp(np.abs(points).max(axis=0))
        scaled = np.ldexp(points, INTEGER_BITS - exponents)
        kept = np.ldexp(scaled, exponents - INTEGER_BITS) == points
        self._whole = bool((kept & (scaled == np.rint(scaled))).all())
        self._points = scaled if self._whole else points

    def errors(self, y: Codes) -> Integers:
        """Return the errors of the constants, then those of the rays of each point."""
        n_points = len(self._points)
        ones = np.bincount(self._point_of[: len(y)], y, n_points)
        gain = np.bincount(self._point_of[: len(y)], minlength=n_points) - 2 * ones
        missed = int(ones.sum())
        listed = [np.array([missed, len(y) - missed], dtype=np.int64)]
        for point in range(n_points):
            lines, behind = self._rays(point)
            size = int(lines.max(initial=-1)) + 1
            others = np.delete(gain, point)
            upper = np.bincount(lines[~behind], others[~behind], size).cumsum()
            lower = np.bincount(lines[behind], others[behind], size).cumsum()
            # whole numbers, which floats add up exactly
            left_of = [upper[-1:] - upper + lower, lower[-1:] - lower + upper]
            found = [left_of[side][np.unique(lines[behind == side])] for side in (0, 1)]
            listed.append((missed + gain[point] + np.concatenate(found)).astype(np.int64))
        return np.concatenate(listed)

    def labels(self, member: int) -> Codes:
        """Return the labels that one of them gives to all rows."""
        inside = np.zeros(len(self._points), dtype=np.intp)
        if member < 2:
            inside += member
            return inside[self._point_of]
        member -= 2
        for point in range(len(self._points)):
            lines, behind = self._rays(point)
            for side in (False, True):
                rays = np.unique(lines[behind == side])
                if member < len(rays):
                    line = rays[member]
                    left = np.where(behind == side, lines > line, lines <= line)
                    inside[np.delete(np.arange(len(inside)), point)] = left
                    inside[point] = 1
                    return inside[self._point_of]
                member -= len(rays)
        raise IndexError("there are fewer labelings")

    def _rays(self, point: int) -> tuple[Codes, NDArray[np.bool_]]:
        """Return on which line through a point each other one is, and whether on its lower ray.

        Lines are numbered by their angle, from 0 to below π; an upper ray has this angle.
        """
        with np.errstate(over="ignore"):
            across, up = np.delete(self._points - self._points[point], point, axis=0).T
        behind = (up < 0) | ((up == 0) & (across < 0))  # a difference has the sign it should
        sign = np.where(behind, -1.0, 1.0)
        sectors, slopes = _slopes(across * sign, up * sign)
        order = np.lexsort((slopes, sectors))
        close = self._close(sectors[order], slopes[order])
        first = np.append(True, ~close)
        if not self._whole and close.any():
            first = self._exactly(order, first, point)
        lines = np.empty(len(order), dtype=np.intp)
        lines[order] = np.cumsum(first[: len(order)]) - 1
        return lines, behind

    def _close(self, sectors: Codes, slopes: Floats) -> NDArray[np.bool_]:
        """Tell which directions, in order, may be the same as the next, or after it."""
        alike, step = sectors[1:] == sectors[:-1], np.diff(slopes)
        largest = np.maximum(np.abs(slopes[1:]), np.abs(slopes[:-1]))
        near = ~(step > SLOPE_TOLERANCE * largest) | (largest < 2.0**-1000)
        across = (slopes[:-1] > 1 - SLOPE_TOLERANCE) & (slopes[1:] < SLOPE_TOLERANCE - 1)
        close: NDArray[np.bool_] = np.where(alike, near, across)
        if self._whole:
            close = alike & (step == 0)
        elif not np.abs(self._points).max(initial=0) < 2.0**1000:  # differences may overflow
            close[:] = True
        return close

    def _exactly(self, order: Codes, first: NDArray[np.bool_], point: int) -> NDArray[np.bool_]:
        """Put runs of close directions in order, in place, and return which are the first of one.

        Parameters
        ----------
        order : ndarray of intp
            Other points, as they follow.
        first : ndarray of bool
            Which are not close to the one before.
        point : int
            Where the rays come from.
        """
        others = np.delete(np.arange(len(self._points)), point)
        x, y = map(Fraction, self._given[point].tolist())
        first = first.copy()
        starts = np.flatnonzero(first)
        for start, stop in zip(starts, np.append(starts[1:], len(order)), strict=True):
            if stop - start < 2:
                continue
            keys = []
            for place in order[start:stop].tolist():
                across, up = map(Fraction, self._given[others[place]].tolist())
                level = up == y
                keys.append((not level, 0 if level else (x - across) / (up - y), place))
            keys.sort()
            order[start:stop] = [place for _, _, place in keys]
            for at, (one, other) in enumerate(itertools.pairwise(keys), int(start) + 1):
                first[at] = one[:2] != other[:2]
        return first


def _slopes(across: Floats, up: Floats) -> tuple[Codes, Floats]:
    """Return what directions from angle 0 to below π are ordered by: an eighth, and a slope."""
    flat = np.abs(across) > up
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        slopes = np.where(flat, up / across, -across / up)
    sectors = np.where(flat, np.where(across > 0, 0, 2), 1)
    return sectors.astype(np.intp), slopes
