"""Enumerations of the labellings of rows by boxes and by halfplanes on two columns.

The proofs are in docs/proofs/label_boost.md ("Listing each dichotomy once").
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.label_boost.labelings import EnumeratedLabelings, Labelings, ranks_of_values
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Path, Product
from skpublicdp.typing import Codes, Floats, Integers


class _LowerSides(NamedTuple):
    """Consecutive lower sides of boxes that can be combined with the same upper sides.

    A side is an index into `_Strip.heights`.
    """

    # first and last lower side, both inclusive
    first: int
    last: int
    # Lowest upper side for these lower sides. All higher upper sides are also possible.
    first_upper: int


class _Strip(NamedTuple):
    """Points between a left and a right side of a box, with possible lower and upper sides."""

    points: slice  # the points between the sides, as a slice of all distinct points
    heights: Codes  # distinct ranks of these points in the second column, in increasing order
    # all pairs of a lower and an upper side that touch both the left and the right side
    runs: list[_LowerSides]


class BoxLabelings(Labelings):
    """Labellings by an axis-parallel box: 1 inside, 0 outside.

    Each set of rows that can be cut out by a box has a unique bounding box, which touches rows on
    all four sides. The list therefore contains each bounding box once, and the empty box.

    Parameters
    ----------
    X : ndarray of float64, shape (n, 2)
        Rows. Only the order of the values in each column matters.
    """

    def __init__(self, X: Floats) -> None:
        ranks = np.stack([ranks_of_values(column) for column in X.T])
        points, point_of_row = np.unique(ranks, axis=1, return_inverse=True)
        self._point_of_row = point_of_row.ravel()
        # np.unique sorts by the first column, so points with the same x rank are adjacent
        self._x_ranks, self._y_ranks = points
        _, first_points = np.unique(self._x_ranks, return_index=True)
        n_points = points.shape[1]
        # the points with x rank r are _starts[r], ..., _starts[r + 1] - 1
        self._starts = np.append(first_points, n_points)
        # x ranks of the left and the right side, for each pair of sides
        self._lefts, self._rights = np.triu_indices(len(first_points))

    def family(self, y: Codes) -> Family:
        """Return all boxes with their errors on the first ``len(y)`` rows, whose labels are y.

        The family is a choice of one pair of a left and a right side. The boxes between a left and
        a right side are generated on demand. The last option in the family is the empty box.
        """
        n_points = len(self._x_ranks)
        labelled_points = self._point_of_row[: len(y)]
        ones = np.bincount(labelled_points, y, n_points).astype(np.int64)
        error_change = np.bincount(labelled_points, minlength=n_points) - 2 * ones
        n_ones = int(ones.sum())

        def build(sides: int, _: int) -> Family:
            if sides == len(self._lefts):
                return Leaf(np.array([[n_ones]], dtype=np.int64))  # the empty box
            return self._boxes_between(sides, error_change, n_ones)

        return Choice(Lazy(len(self._lefts) + 1, build, 1))

    def labels(self, member: Path) -> Codes:
        """Return the labels that one box of the family assigns to all rows.

        The path of a box is ``(sides, (run, (lower, upper)))``, in the order of `_boxes_between`.
        """
        sides, path_between = member
        inside = np.zeros(len(self._x_ranks), dtype=np.intp)
        if sides < len(self._lefts):  # the last option is the empty box
            run_index, (lower, upper) = path_between
            strip = self._strip(sides)
            run = strip.runs[run_index]
            y_ranks = self._y_ranks[strip.points]
            min_y_rank = strip.heights[run.first + lower]
            max_y_rank = strip.heights[run.first_upper + upper]
            inside[strip.points] = (min_y_rank <= y_ranks) & (y_ranks <= max_y_rank)
        return inside[self._point_of_row]

    def _strip(self, sides: int) -> _Strip:
        """Return the points between a left and a right side, and all lower and upper sides.

        A box touches its left and its right side only if each of these sides has a point between
        the lower and the upper side. For a given lower side, the lowest upper side is therefore the
        larger of two heights: the lowest point at or above the lower side on the left, and on the
        right. The lowest upper side changes only where a lower side passes one of these points.
        These changes divide the lower sides into runs.

        Parameters
        ----------
        sides : int
            Index of the pair of sides in `_lefts` and `_rights`.
        """
        left, right = self._lefts[sides], self._rights[sides]
        points = slice(self._starts[left], self._starts[right + 1])
        heights = np.unique(self._y_ranks[points])
        heights_on_sides = [
            np.searchsorted(heights, self._y_ranks[self._starts[side] : self._starts[side + 1]])
            for side in (left, right)
        ]
        runs, first_lower = [], 0
        for last_lower in np.unique(np.concatenate(heights_on_sides)):
            heights_above = [
                heights_on_side[np.searchsorted(heights_on_side, first_lower) :]
                for heights_on_side in heights_on_sides
            ]
            if not all(map(len, heights_above)):
                break  # one of the two sides has no point above
            first_upper = int(max(heights_on_side[0] for heights_on_side in heights_above))
            runs.append(_LowerSides(first_lower, int(last_lower), first_upper))
            first_lower = int(last_lower) + 1
        return _Strip(points, heights, runs)

    def _boxes_between(self, sides: int, error_change: Integers, n_ones: int) -> Family:
        """Return all boxes with a given left and right side, with their errors.

        A box mislabels every 1 outside and every 0 inside, so its error count is `n_ones` plus the
        sum of `error_change` over its points. If the points are ordered by height, the sum over the
        points of a box is a difference of two cumulative sums, one for the lower side and one for
        the upper side. Within a run, every lower side can be combined with every upper side, so the
        errors of a run are a `Product` of two leaves.
        """
        strip = self._strip(sides)
        height_of_point = np.searchsorted(strip.heights, self._y_ranks[strip.points])
        change = np.bincount(
            height_of_point, error_change[strip.points], len(strip.heights)
        ).astype(np.int64)
        cumulative = np.concatenate([[0], np.cumsum(change)])
        options = []  # the leaves have a leading batch axis of length 1, as `Lazy` needs
        for run in strip.runs:
            lower = Leaf(n_ones - cumulative[None, run.first : run.last + 1])
            upper = Leaf(cumulative[None, run.first_upper + 1 :])
            options.append(Product([lower, upper]))
        return OneOf(options)


MEMBERS_OF_CONSTANTS = 2
"""Number of constant labellings, which `HalfplaneLabelings` lists first: all 0, then all 1."""

SAFE_DIFFERENCE = 2.0**1000
"""Differences of coordinates below this bound cannot overflow.

Slopes below the inverse of this bound may have lost digits due to underflow, so they are compared
as fractions."""

SLOPE_TOLERANCE = 2.0**-48
"""Relative difference below which two slopes are compared as fractions.

This value exceeds the rounding error of a slope, see docs/proofs/label_boost.md."""

INTEGER_BITS = 25
"""Maximum bits of integer coordinates for which float slopes of different directions differ."""


class HalfplaneLabelings(EnumeratedLabelings):
    """Labellings by a line in the plane, with 1 on either side, and all constant labellings.

    Each non-constant labelling is determined by a point and a ray from this point through other
    points. The label is 1 for points to the left of the ray's line and, on the line, for the ray's
    origin and the points behind it.

    Parameters
    ----------
    X : ndarray of float64, shape (n, 2)
        Rows, which are compared exactly.
    """

    def __init__(self, X: Floats) -> None:
        points, point_of_row = np.unique(X + 0.0, axis=0, return_inverse=True)
        self._exact_points = points
        self._point_of_row = point_of_row.ravel()
        # If possible, scale the columns to integers of INTEGER_BITS bits. Scaling a column by a
        # power of two maps lines to lines and preserves their sides.
        max_abs = np.abs(points).max(axis=0)  # (2,)
        _, exponents = np.frexp(max_abs)
        shifts = INTEGER_BITS - exponents
        scaled = np.ldexp(points, shifts)
        is_exact = np.ldexp(scaled, -shifts) == points
        is_integer = scaled == np.rint(scaled)
        self._are_integers = bool((is_exact & is_integer).all())
        self._points = scaled if self._are_integers else points

    def errors(self, y: Codes) -> Integers:
        """Return the errors of the constants, followed by the errors of the rays of each point.

        Parameters
        ----------
        y : ndarray of intp
            Labels of the first ``len(y)`` rows, on which errors are counted.

        Returns
        -------
        ndarray of int64, shape (n_labelings,)
            One error count for each labelling: all rows 0, all rows 1, and then, for each point,
            its upper rays and its lower rays by angle (see `_lines_through`).
        """
        n_points = len(self._points)
        labelled_points = self._point_of_row[: len(y)]
        ones = np.bincount(labelled_points, y, n_points)
        error_change = np.bincount(labelled_points, minlength=n_points) - 2 * ones
        n_ones = int(ones.sum())
        errors = [np.array([n_ones, len(y) - n_ones], dtype=np.int64)]
        for point in range(n_points):
            line_of_point, on_lower_ray = self._lines_through(point)
            n_lines = int(line_of_point.max(initial=-1)) + 1
            change = np.delete(error_change, point)
            # Sums of the change over the upper and the lower rays of all lines up to an angle.
            # Floats add these integers exactly.
            upper_sums, lower_sums = (
                np.bincount(line_of_point[on_ray], change[on_ray], n_lines).cumsum()
                for on_ray in (~on_lower_ray, on_lower_ray)
            )
            # The upper rays of larger angles and the lower rays of smaller angles lie to the left
            # of an upper ray. The lower ray of the same line lies behind the point, so it is
            # included.
            left_of_upper = upper_sums[-1:] - upper_sums + lower_sums
            left_of_lower = lower_sums[-1:] - lower_sums + upper_sums
            # only rays through at least one other point are listed
            change_of_ray = [
                left_of_upper[np.unique(line_of_point[~on_lower_ray])],
                left_of_lower[np.unique(line_of_point[on_lower_ray])],
            ]
            n_errors = n_ones + error_change[point] + np.concatenate(change_of_ray)
            errors.append(n_errors.astype(np.int64))
        return np.concatenate(errors)

    def labels(self, member: int) -> Codes:
        """Return the labels that the labelling at index `member` of `errors` gives to the rows."""
        inside = np.zeros(len(self._points), dtype=np.intp)
        if member < MEMBERS_OF_CONSTANTS:
            inside += member  # all rows have the label 0 or 1
            return inside[self._point_of_row]
        n_remaining = member - MEMBERS_OF_CONSTANTS
        for point in range(len(self._points)):
            line_of_point, on_lower_ray = self._lines_through(point)
            for is_lower in (False, True):
                on_same_side = on_lower_ray == is_lower
                lines = np.unique(line_of_point[on_same_side])
                if n_remaining < len(lines):
                    line = lines[n_remaining]
                    is_left = np.where(on_same_side, line_of_point > line, line_of_point <= line)
                    inside[np.delete(np.arange(len(inside)), point)] = is_left
                    inside[point] = 1
                    return inside[self._point_of_row]
                n_remaining -= len(lines)
        raise IndexError(f"member must be below the number of labellings; got {member}")

    def _lines_through(self, point: int) -> tuple[Codes, NDArray[np.bool_]]:
        """Return the line that joins each other point to a given point, and its side of that line.

        Parameters
        ----------
        point : int
            Index of the point.

        Returns
        -------
        line_of_point : ndarray of intp, shape (n_points - 1,)
            Index of the line through each other point. Lines are numbered by their angle, from 0 to
            below π.
        on_lower_ray : ndarray of bool, shape (n_points - 1,)
            Marks the points on the lower ray of their line. The upper ray has the same angle as its
            line.
        """
        with np.errstate(over="ignore"):
            differences = self._points - self._points[point]
        dx, dy = np.delete(differences, point, axis=0).T
        # a difference of two floats has the correct sign
        points_left = (dy == 0) & (dx < 0)
        on_lower_ray = (dy < 0) | points_left
        sign = np.where(on_lower_ray, -1.0, 1.0)
        sectors, slopes = _slopes(dx * sign, dy * sign)
        order = np.lexsort((slopes, sectors))
        is_close = self._is_close_to_next(sectors[order], slopes[order])
        # the first direction begins a line, and so does each direction that differs from the
        # previous one
        begins_line = np.append(True, ~is_close)
        if not self._are_integers and is_close.any():
            begins_line = self._sort_close_directions(order, begins_line, point)
        n_points = len(order)
        line_of_point = np.empty(n_points, dtype=np.intp)
        # without other points, `order` is empty and `begins_line` has one entry
        n_lines = np.cumsum(begins_line[:n_points])
        line_of_point[order] = n_lines - 1
        return line_of_point, on_lower_ray

    def _is_close_to_next(self, sectors: Codes, slopes: Floats) -> NDArray[np.bool_]:
        """Return a mask of the sorted directions that equal the next direction up to rounding.

        For integer coordinates, float slopes are sufficiently accurate and the mask marks equal
        directions.

        Parameters
        ----------
        sectors, slopes : ndarray, shape (n_directions,)
            Directions as in `_slopes`, sorted by angle.

        Returns
        -------
        ndarray of bool, shape (n_directions - 1,)
            The mask, which has no entry for the last direction.
        """
        in_same_sector = sectors[1:] == sectors[:-1]
        difference = np.diff(slopes)
        if self._are_integers:
            return in_same_sector & (difference == 0)
        if not np.abs(self._points).max(initial=0) < SAFE_DIFFERENCE:
            return np.ones(len(difference), dtype=np.bool_)  # differences may overflow
        slope, next_slope = slopes[:-1], slopes[1:]
        largest = np.maximum(np.abs(next_slope), np.abs(slope))
        is_far = difference > SLOPE_TOLERANCE * largest
        is_near = ~is_far | (largest < 1 / SAFE_DIFFERENCE)
        # the slope 1 that ends a sector and the slope -1 that begins the next represent the same
        # direction
        ends_sector = slope > 1 - SLOPE_TOLERANCE
        begins_sector = next_slope < SLOPE_TOLERANCE - 1
        is_near_border = ends_sector & begins_sector
        return np.where(in_same_sector, is_near, is_near_border)

    def _sort_close_directions(
        self, order: Codes, begins_run: NDArray[np.bool_], point: int
    ) -> NDArray[np.bool_]:
        """Sort each run of close directions by exact slopes, changing `order` in place.

        Parameters
        ----------
        order : ndarray of intp, shape (n_points - 1,)
            The other points, sorted by the float slopes of their directions.
        begins_run : ndarray of bool, shape (n_points - 1,)
            Marks the directions that are not close to the previous direction.
        point : int
            Origin of the rays.

        Returns
        -------
        ndarray of bool, shape (n_points - 1,)
            Marks the directions that differ from the previous direction.
        """
        others = np.delete(np.arange(len(self._points)), point)
        x, y = map(Fraction, self._exact_points[point].tolist())
        begins_line = begins_run.copy()
        starts = np.flatnonzero(begins_line)
        for start, stop in zip(starts, np.append(starts[1:], len(order)), strict=True):
            if stop - start < 2:
                continue
            keys = []
            for index in order[start:stop].tolist():
                other_x, other_y = map(Fraction, self._exact_points[others[index]].tolist())
                is_level = other_y == y
                # -cot(angle) increases with the angle from 0 to π; the angle 0 itself comes first
                negative_cotangent = 0 if is_level else (x - other_x) / (other_y - y)
                keys.append((not is_level, negative_cotangent, index))
            keys.sort()
            order[start:stop] = [index for _, _, index in keys]
            directions = [(is_above, slope) for is_above, slope, _ in keys]
            for position, (previous, current) in enumerate(
                itertools.pairwise(directions), int(start) + 1
            ):
                begins_line[position] = previous != current
        return begins_line


def _slopes(dx: Floats, dy: Floats) -> tuple[Codes, Floats]:
    """Return a sector and a slope for each direction (dx, dy) of the upper half-plane.

    Directions sorted by sector, then by slope, are sorted by angle from 0 to below π. The sectors
    contain the angles below π/4 (0), from π/4 to 3π/4 (1) and above 3π/4 (2). Slopes are measured
    along the nearer axis, so they lie in [-1, 1].
    """
    is_flat = np.abs(dx) > dy
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        slopes = np.where(is_flat, dy / dx, -dx / dy)
    sectors = np.where(is_flat, np.where(dx > 0, 0, 2), 1)
    return sectors.astype(np.intp), slopes
