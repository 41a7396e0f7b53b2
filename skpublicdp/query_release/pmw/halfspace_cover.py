"""In which ways halfspaces divide a few public points."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from skpublicdp.typing import Floats

Signs = NDArray[np.bool_]

ON_PLANE_TOLERANCE = 1e-9
"""Standardised points nearer to a hyperplane are taken to be on it."""


class HalfspaceDichotomies:
    """The ways in which halfspaces divide points, and the hyperplanes that bound each way.

    The halfspaces that divide points in one way are a cone in the space of normals and offsets. Its
    extreme rays are hyperplanes through as many independent points as the points have dimensions;
    their sum is inside of it.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
        Distinct points.

    Attributes
    ----------
    points : ndarray
        As given.
    centre, basis : ndarray
        Coordinates in which the points span the space: (x - centre) @ basis.
    planes : ndarray of shape (n_planes, dimension + 1)
        Normals and minus offsets in these coordinates, of all hyperplanes through the points.
    signs : ndarray of bool, shape (n_ways, n_points)
        The ways.
    along, against : ndarray of bool, shape (n_ways, n_planes)
        Which hyperplanes bound a way, with their positive side or their negative one.
    """

    def __init__(self, points: Floats) -> None:
        self.points, self.centre = points, points.mean(axis=0)
        scale = np.ptp(points, axis=0)
        scale[scale == 0] = 1.0
        _, widths, axes = np.linalg.svd((points - self.centre) / scale, full_matrices=False)
        self.basis = (axes[widths > ON_PLANE_TOLERANCE * len(points)] / scale).T
        self.planes = _planes(self._lift(points))
        sides = self._sides(points)
        ways = {}
        for side in sides.T:
            on = np.flatnonzero(side == 0)
            for labels in _labels(points[on], self.basis.shape[1]):
                for way in (side > 0, side < 0):
                    way[on] = labels
                    ways[way.tobytes()] = way
        if not self.basis.size:  # a single point, or some that cannot be told apart
            ways = {sign: np.full(len(points), sign) for sign in (True, False)}
        self.signs = np.array(list(ways.values()))
        agreement, clear = np.where(self.signs, 1, -1) @ sides, np.abs(sides).sum(axis=0)
        self.along, self.against = agreement == clear, agreement == -clear

    def halfspaces(self, holds: Callable[[Floats, Floats], Signs]) -> Floats:
        """Return a halfspace for each way, as normal and offset; `holds` has the last word."""
        inside = (self.along.astype(float) - self.against) @ self.planes
        if not self.basis.size:
            inside = np.where(self.signs[:, :1], 1.0, -1.0)
        normals = inside[:, :-1] @ self.basis.T
        rules = np.column_stack([normals, normals @ self.centre - inside[:, -1]])
        kept: Floats = rules[(holds(rules, self.points) == self.signs).all(axis=1)]
        return kept

    def disagreement_bound(self, rows: Floats) -> float:
        """Bound on which share of rows two halfspaces may differ that divide the points alike.

        A row on one side of all hyperplanes that bound a way is on that side of all its halfspaces.
        """
        known = (rows[:, None] == self.points).all(axis=2).any(axis=1)
        if known.all():
            return 0.0
        if self.basis.shape[1] < self.points.shape[1]:
            return 1.0
        sides = self._sides(rows[~known]).T
        above, below = (sides > 0).astype(np.float32), (sides < 0).astype(np.float32)
        along, against = self.along.astype(np.float32), self.against.astype(np.float32)
        inside = along @ (1 - above) + against @ (1 - below) == 0
        outside = along @ (1 - below) + against @ (1 - above) == 0
        return float((~inside & ~outside).sum(axis=1).max() / len(rows))

    def _lift(self, rows: Floats) -> Floats:
        return np.column_stack([(rows - self.centre) @ self.basis, np.ones(len(rows))])

    def _sides(self, rows: Floats) -> NDArray[np.int64]:
        return _signs(self._lift(rows) @ self.planes.T)


def _labels(points: Floats, dimension: int) -> Signs:
    """List the ways to divide the points of a hyperplane: it may be tilted in each."""
    if len(points) == dimension:
        return np.array(list(product((False, True), repeat=dimension)))
    return HalfspaceDichotomies(points).signs


def _planes(lifted: Floats) -> Floats:
    """Return the hyperplanes through points, each of them once."""
    dimension = lifted.shape[1] - 1
    if not dimension:
        return np.empty((0, 1))
    chosen = np.array(list(combinations(range(len(lifted)), dimension)))
    _, widths, normals = np.linalg.svd(lifted[chosen])
    planes = normals[widths[:, -1] > ON_PLANE_TOLERANCE, -1]
    sides = _signs(lifted @ planes.T).T
    first = sides[np.arange(len(sides)), (sides != 0).argmax(axis=1)]
    _, places = np.unique(sides * first[:, None], axis=0, return_index=True)
    kept: Floats = planes[np.sort(places)]
    return kept


def _signs(values: Floats) -> NDArray[np.int64]:
    return np.where(np.abs(values) > ON_PLANE_TOLERANCE, np.sign(values), 0).astype(np.int64)


def line_arrangement_points(lines: Floats, points: Floats) -> Floats:
    """Return points in the four cells around every crossing of lines in the plane.

    Each cell of an arrangement of lines that are not all parallel has a corner, so all cells are
    met, save those narrower than the step.

    Parameters
    ----------
    lines : ndarray of shape (n_lines, 3)
        Normals and offsets.
    points : ndarray of shape (m, 2)
        Set the scale.
    """
    lines = lines[np.any(lines[:, :2] != 0, axis=1)]
    lines = lines / np.linalg.norm(lines[:, :2], axis=1, keepdims=True)
    step = 1e-6 * max(float(np.ptp(points, axis=0).max()), 1e-12)
    one, other = np.triu_indices(len(lines), k=1)
    matrices = np.stack([lines[one, :2], lines[other, :2]], axis=1)
    crossing = np.abs(np.linalg.det(matrices)) >= 1e-12
    offsets = np.column_stack([lines[one, 2], lines[other, 2]])[crossing]
    around = [
        np.linalg.solve(matrices[crossing], (offsets + step * np.array(signs))[:, :, None])
        for signs in product((-1, 1), repeat=2)
    ]
    return np.concatenate(around)[:, :, 0]
