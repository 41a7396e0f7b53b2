"""Halfspace queries on a few public points: dichotomies, hyperplanes, and arrangements of lines."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from skpublicdp.typing import Floats, Integers

Signs = NDArray[np.bool_]

ON_PLANE_TOLERANCE = 1e-9
"""Maximum distance from a hyperplane at which a standardised point counts as on it."""

MIN_CROSSING_SINE = 1e-12
"""Lines at a smaller angle (its sine) count as parallel."""


class HalfspaceDichotomies:
    """All dichotomies of points by halfspaces, and the hyperplanes that bound each of them.

    The halfspaces of one dichotomy are a cone in the space of normals and offsets. The extreme rays
    of the cone are hyperplanes through as many independent points as the space has dimensions. The
    sum of the rays is inside the cone.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
        Distinct points.

    Attributes
    ----------
    points : ndarray of shape (n_points, n_features)
        The points.
    centre, basis : ndarray
        Coordinates in which the points span the space: (x - centre) @ basis.
    planes : ndarray of shape (n_planes, dimension + 1)
        Normals and negative offsets, in these coordinates, of all hyperplanes through the points.
    signs : ndarray of bool, shape (n_dichotomies, n_points)
        The dichotomies: whether each point is in the halfspace.
    bounds_positive, bounds_negative : ndarray of bool, shape (n_dichotomies, n_planes)
        Whether the positive or the negative side of a hyperplane is an extreme ray of the cone.
    """

    def __init__(self, points: Floats) -> None:
        self.points, self.centre = points, points.mean(axis=0)
        scale = np.ptp(points, axis=0)
        scale[scale == 0] = 1.0
        _, widths, axes = np.linalg.svd((points - self.centre) / scale, full_matrices=False)
        self.basis = (axes[widths > ON_PLANE_TOLERANCE * len(points)] / scale).T
        self.planes = _planes_through(self._homogeneous(points))
        sides = self._sides(points)  # (n_points, n_planes)
        dichotomies = {}
        for plane_sides in sides.T:
            on_plane = np.flatnonzero(plane_sides == 0)
            for labels in _dichotomies_on_plane(points[on_plane], self.basis.shape[1]):
                for dichotomy in (plane_sides > 0, plane_sides < 0):
                    dichotomy[on_plane] = labels
                    dichotomies[dichotomy.tobytes()] = dichotomy
        if not self.basis.size:  # a single point, or points that are equal up to the tolerance
            dichotomies = {sign: np.full(len(points), sign) for sign in (True, False)}
        self.signs = np.array(list(dichotomies.values()))
        agreement = np.where(self.signs, 1, -1) @ sides
        n_off_plane = np.abs(sides).sum(axis=0)
        self.bounds_positive = agreement == n_off_plane
        self.bounds_negative = agreement == -n_off_plane

    def halfspaces(self, holds: Callable[[Floats, Floats], Signs]) -> Floats:
        """Return a halfspace for each dichotomy, shape (n_halfspaces, n_features + 1).

        A row is a normal and an offset. A halfspace is dropped if, after rounding, it does not have
        its dichotomy on the points by `holds`, which returns an array (n_halfspaces, n_points).
        """
        # the sum of the extreme rays of each cone, as in the class docstring
        interior = (self.bounds_positive.astype(float) - self.bounds_negative) @ self.planes
        if not self.basis.size:
            interior = np.where(self.signs[:, :1], 1.0, -1.0)
        normals = interior[:, :-1] @ self.basis.T
        halfspaces = np.column_stack([normals, normals @ self.centre - interior[:, -1]])
        is_exact = (holds(halfspaces, self.points) == self.signs).all(axis=1)
        exact_halfspaces: Floats = halfspaces[is_exact]
        return exact_halfspaces

    def disagreement_bound(self, rows: Floats) -> float:
        """Bound the fraction of rows on which two halfspaces of one dichotomy may differ.

        All halfspaces of a dichotomy agree on a row that is on the same side of all hyperplanes
        that bound the dichotomy.
        """
        is_point = (rows[:, None] == self.points).all(axis=2).any(axis=1)
        if is_point.all():
            return 0.0
        if self.basis.shape[1] < self.points.shape[1]:
            return 1.0  # the points do not span the space, so that no bound is known for other rows
        sides = self._sides(rows[~is_point]).T
        is_above, is_below = (sides > 0).astype(np.float32), (sides < 0).astype(np.float32)
        positive = self.bounds_positive.astype(np.float32)
        negative = self.bounds_negative.astype(np.float32)
        # a row is inside if no bounding hyperplane separates it from the cone
        is_inside = positive @ (1 - is_above) + negative @ (1 - is_below) == 0
        is_outside = positive @ (1 - is_below) + negative @ (1 - is_above) == 0
        n_undetermined = (~is_inside & ~is_outside).sum(axis=1)
        return float(n_undetermined.max() / len(rows))

    def _homogeneous(self, rows: Floats) -> Floats:
        """Return rows in the coordinates of the points, with a last coordinate of 1."""
        return np.column_stack([(rows - self.centre) @ self.basis, np.ones(len(rows))])

    def _sides(self, rows: Floats) -> Integers:
        """Return the side of each hyperplane on which each row is: 1, -1, or 0 if it is on it."""
        return _signs(self._homogeneous(rows) @ self.planes.T)


def _dichotomies_on_plane(points: Floats, dimension: int) -> Signs:
    """Return the dichotomies of the points on a hyperplane, shape (n_dichotomies, n_points).

    A small tilt of the hyperplane realises each of them and changes no other point's side.
    """
    if len(points) == dimension:  # independent points, which a hyperplane labels in every way
        return np.array(list(product((False, True), repeat=dimension)))
    return HalfspaceDichotomies(points).signs


def _planes_through(homogeneous: Floats) -> Floats:
    """Return the distinct hyperplanes through as many points as the space has dimensions.

    Two hyperplanes are equal if all points are on the same sides of both.

    Parameters
    ----------
    homogeneous : ndarray of shape (n_points, dimension + 1)
        Points, with a last coordinate of 1.

    Returns
    -------
    ndarray of shape (n_planes, dimension + 1)
        Unit vectors that are orthogonal to the points of the hyperplane.
    """
    dimension = homogeneous.shape[1] - 1
    if not dimension:
        return np.empty((0, 1))
    subsets = np.array(list(combinations(range(len(homogeneous)), dimension)))
    _, singular_values, right_vectors = np.linalg.svd(homogeneous[subsets])
    # the last right singular vector spans the null space, if the points are independent
    is_independent = singular_values[:, -1] > ON_PLANE_TOLERANCE
    planes = right_vectors[is_independent, -1]
    sides = _signs(homogeneous @ planes.T).T
    # the orientation of a plane is arbitrary: its first point off the plane is made positive
    first_off_plane = (sides != 0).argmax(axis=1)
    orientation = sides[np.arange(len(sides)), first_off_plane]
    _, first_index = np.unique(sides * orientation[:, None], axis=0, return_index=True)
    distinct: Floats = planes[np.sort(first_index)]
    return distinct


def _signs(values: Floats) -> Integers:
    """Return the signs of signed distances: 0 within `ON_PLANE_TOLERANCE`, else 1 or -1."""
    return np.where(np.abs(values) > ON_PLANE_TOLERANCE, np.sign(values), 0).astype(np.int64)


def line_arrangement_points(lines: Floats, points: Floats) -> Floats:
    """Return points around every crossing of two lines: one in each of the four cells there.

    Each cell of an arrangement of lines that are not all parallel has a corner. The points
    therefore meet all cells, except for cells narrower than the distance to the crossing.

    Parameters
    ----------
    lines : ndarray of shape (n_lines, 3)
        Normals and offsets.
    points : ndarray of shape (m, 2)
        Points whose range determines the distance of the result from the crossings.

    Returns
    -------
    ndarray of shape (4 * n_crossings, 2)
    """
    lines = lines[np.any(lines[:, :2] != 0, axis=1)]
    lines = lines / np.linalg.norm(lines[:, :2], axis=1, keepdims=True)
    # relative to the range of the points, and positive if all points are equal
    distance = 1e-6 * max(float(np.ptp(points, axis=0).max()), 1e-12)
    first, second = np.triu_indices(len(lines), k=1)
    normals = np.stack([lines[first, :2], lines[second, :2]], axis=1)
    is_crossing = np.abs(np.linalg.det(normals)) >= MIN_CROSSING_SINE
    offsets = np.column_stack([lines[first, 2], lines[second, 2]])[is_crossing]
    corners = [
        np.linalg.solve(normals[is_crossing], (offsets + distance * np.array(signs))[:, :, None])
        for signs in product((-1, 1), repeat=2)
    ]
    return np.concatenate(corners)[:, :, 0]
