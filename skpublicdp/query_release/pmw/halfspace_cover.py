"""Halfspace queries: dichotomies of a few public points, and cells around many public rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from skpublicdp.query_release.pmw.cover import ExplicitCover
from skpublicdp.typing import Codes, Floats, Integers

Signs = NDArray[np.bool_]

ON_PLANE_TOLERANCE = 1e-9
"""Maximum distance from a hyperplane at which a standardised point counts as on it."""

MAX_CELLS = 1 << 13
"""Maximum number of cells. With `MAX_HALFSPACES` queries their incidence matrix takes 75 MB."""

N_NEIGHBOURS = 4
"""Neighbours of a public row among which cells between rows are placed."""

MAX_FITTED_ROWS = 1 << 10
"""Maximum number of public rows by which `choose_points` compares points."""

POINTS_AT_A_TIME = 2
"""Points that `choose_points` adds before it lists the dichotomies again."""

ROW_BLOCK = 1 << 11
"""Number of rows of which the sides of all hyperplanes are computed at a time."""


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
        """Bound the fraction of rows on which two halfspaces of one dichotomy may differ."""
        n_undetermined = sum(
            self.undetermined(rows[start : start + ROW_BLOCK]).sum(axis=1)
            for start in range(0, len(rows), ROW_BLOCK)
        )
        return float(np.max(n_undetermined) / max(1, len(rows)))

    def undetermined(self, rows: Floats) -> Signs:
        """Return the rows on which two halfspaces of a dichotomy may differ.

        All halfspaces of a dichotomy agree on a row that is on the same side of all hyperplanes
        that bound the dichotomy, and on the points themselves.

        Returns
        -------
        ndarray of bool, shape (n_dichotomies, n_rows)
        """
        is_point = (rows[:, None] == self.points).all(axis=2).any(axis=1)
        if self.basis.shape[1] < self.points.shape[1]:
            # the points do not span the space, so that no bound is known for other rows
            return np.tile(~is_point, (len(self.signs), 1))
        sides = self._sides(rows).T
        undetermined = np.empty((len(self.signs), len(rows)), dtype=bool)
        rays = zip(self.bounds_positive, self.bounds_negative, strict=True)
        for number, (positive, negative) in enumerate(rays):
            # sides of the extreme rays of the cone, of which there are few
            ray_sides = np.concatenate([sides[positive], -sides[negative]])
            undetermined[number] = (ray_sides <= 0).any(axis=0) & (ray_sides >= 0).any(axis=0)
        undetermined[:, is_point] = False
        return undetermined

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


def choose_points(rows: Floats, n_points: int, generator: np.random.Generator) -> Floats:
    """Return points whose dichotomies leave few rows undetermined.

    The first third are random rows. Then points are added where most rows are undetermined: a row
    of the largest undetermined region, which is in as many large ones as possible.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Distinct public rows.
    n_points : int
        Maximum number of points.
    generator : Generator
        Draws the first points, and the rows by which points are compared.
    """
    rows = generator.permutation(rows)
    n_first = min(len(rows), max(rows.shape[1] + 1, n_points // 3))
    chosen = [*range(min(n_first, n_points))]
    fitted = rows[:MAX_FITTED_ROWS]
    while len(chosen) < min(n_points, len(rows)):
        undetermined = HalfspaceDichotomies(rows[chosen]).undetermined(fitted)
        sizes = undetermined.sum(axis=1)
        for _ in range(min(POINTS_AT_A_TIME, n_points - len(chosen))):
            largest = int(sizes.argmax())
            if not sizes[largest]:
                break
            candidates = np.flatnonzero(undetermined[largest])
            covered_sizes = sizes @ undetermined[:, candidates]
            point = int(candidates[covered_sizes.argmax()])
            chosen.append(point)
            sizes = np.where(undetermined[:, point], 0, sizes)  # the point divides these regions
        if not undetermined.any():
            break
    return rows[chosen]


class HalfspaceQueryCover(ExplicitCover):
    """Cover by one halfspace for each dichotomy of a few public points, with cells around rows.

    The cells are public rows, and random points between a row and its neighbours. A row is assigned
    to the nearest one. Lines that separate the two are counted on public rows that are independent
    of the cover.

    Parameters
    ----------
    holds : callable
        Returns which halfspaces hold for which rows, shape (n_queries, n_rows).
    dichotomies : HalfspaceDichotomies
        The dichotomies of the chosen points.
    rows : ndarray of shape (n_rows, n_features)
        Distinct public rows.
    holdout : ndarray of shape (m, n_features)
        Public rows that are independent of `dichotomies` and `rows`.
    generator : Generator
        Draws the cells.
    """

    def __init__(
        self,
        holds: Callable[[Any, Floats], Signs],
        dichotomies: HalfspaceDichotomies,
        rows: Floats,
        holdout: Floats,
        generator: np.random.Generator,
    ) -> None:
        cover = dichotomies.halfspaces(holds)
        disagreement = 1.0  # no bound holds if rounding lost the halfspace of a dichotomy
        if len(cover) == len(dichotomies.signs):
            disagreement = dichotomies.disagreement_bound(holdout)
        candidates = _points_among(generator.permutation(rows)[:MAX_CELLS], generator)
        self._low, self._high = candidates.min(axis=0), candidates.max(axis=0)
        self._scale = np.where(self._high > self._low, candidates.std(axis=0), 1.0)
        self._tree = cKDTree(candidates / self._scale)
        super().__init__(holds, cover, candidates, holdout, dichotomies.points, disagreement)

    def assign_cells(self, X: Floats) -> Codes:
        """Return the cell of the nearest candidate of each row, shape (n, 1).

        Rows are moved into the range of the candidates first, so that no distance overflows.
        """
        clipped = np.clip(np.nan_to_num(X), self._low, self._high)
        nearest = self._tree.query(clipped / self._scale)[1]
        cells: Codes = self._cell_of_candidate[nearest]
        return cells[:, None]


def _points_among(rows: Floats, generator: np.random.Generator) -> Floats:
    """Return the rows, and as many random points among neighbouring rows as `MAX_CELLS` allows.

    A point is in the triangle of a row and two of its nearest neighbours.
    """
    n_neighbours = min(N_NEIGHBOURS, len(rows) - 1)
    n_points = MAX_CELLS - len(rows)
    if n_neighbours < 1 or n_points < 1:
        return rows
    scale = np.maximum(rows.std(axis=0), np.finfo(float).tiny)
    neighbours = cKDTree(rows / scale).query(rows / scale, k=n_neighbours + 1)[1][:, 1:]
    corner = np.arange(n_points) % len(rows)
    points = rows[corner].copy()
    for _ in range(2):
        other = rows[neighbours[corner, generator.integers(n_neighbours, size=n_points)]]
        points += generator.random((n_points, 1)) / 2 * (other - rows[corner])
    return np.concatenate([rows, points])
