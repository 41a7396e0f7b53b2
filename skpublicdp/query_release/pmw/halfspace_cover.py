"""Cover of halfspace queries: dichotomies of public points, with cells around public rows."""

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
"""Maximum distance from a hyperplane at which a standardised point counts as lying on it."""

MAX_CELLS = 1 << 13
"""Maximum number of cells. With `MAX_HALFSPACES` queries, the incidence matrix then takes 75 MB."""

N_NEIGHBOURS = 4
"""Number of neighbours of each public row between which additional cells are placed."""

MAX_FITTED_ROWS = 1 << 10
"""Maximum number of public rows that `choose_points` uses when it compares points."""

POINTS_AT_A_TIME = 2
"""Number of points that `choose_points` adds before it lists the dichotomies again."""

ROW_BLOCK = 1 << 11
"""Number of rows for which the sides of all hyperplanes are computed at a time."""


class HalfspaceDichotomies:
    """All dichotomies of points by halfspaces, and the hyperplanes that bound each of them.

    The halfspaces of one dichotomy form a cone in the space of normals and offsets. The extreme
    rays of the cone are hyperplanes through d independent points in d dimensions. The sum of these
    rays lies in the interior of the cone.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
        Distinct points to be divided by halfspaces.

    Attributes
    ----------
    points : ndarray of shape (n_points, n_features)
        The points.
    centre, basis : ndarray
        Parameters of coordinates in which the points span the space: (x - centre) @ basis.
    planes : ndarray of shape (n_planes, dimension + 1)
        Normals and negative offsets, in these coordinates, of all hyperplanes spanned by the
        points.
    signs : ndarray of bool, shape (n_dichotomies, n_points)
        The dichotomies, each of which indicates whether each point is in the halfspace.
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

        Each row consists of a normal and an offset. A halfspace is dropped if rounding changes its
        dichotomy on the points, as evaluated by `holds`, which returns an array of shape
        (n_halfspaces, n_points).
        """
        # the sum of the extreme rays of each cone, as in the class docstring
        orientation = self.bounds_positive.astype(float) - self.bounds_negative
        interior = orientation @ self.planes
        if not self.basis.size:
            interior = np.where(self.signs[:, :1], 1.0, -1.0)
        # from coordinates of the points' affine hull to features
        normals = interior[:, :-1] @ self.basis.T
        offsets = normals @ self.centre - interior[:, -1]
        halfspaces = np.column_stack([normals, offsets])
        evaluated_signs = holds(halfspaces, self.points)  # (n_halfspaces, n_points)
        is_exact = (evaluated_signs == self.signs).all(axis=1)
        return halfspaces[is_exact]

    def disagreement_bound(self, rows: Floats) -> float:
        """Bound the fraction of rows on which two halfspaces of the same dichotomy may differ."""
        n_undetermined = sum(
            self.undetermined(rows[start : start + ROW_BLOCK]).sum(axis=1)
            for start in range(0, len(rows), ROW_BLOCK)
        )
        return float(np.max(n_undetermined) / max(1, len(rows)))

    def undetermined(self, rows: Floats) -> Signs:
        """Return the rows on which two halfspaces of the same dichotomy may differ.

        All halfspaces of a dichotomy agree on the points themselves, and on every row that all
        hyperplanes bounding the dichotomy place on the same side.

        Returns
        -------
        ndarray of bool, shape (n_dichotomies, n_rows)
        """
        is_point = (rows[:, None] == self.points).all(axis=2).any(axis=1)
        if self.basis.shape[1] < self.points.shape[1]:
            # the points do not span the space, so no bound is known for other rows
            return np.tile(~is_point, (len(self.signs), 1))
        sides = self._sides(rows).T  # (n_planes, n_rows)
        undetermined = np.empty((len(self.signs), len(rows)), dtype=bool)
        for number in range(len(self.signs)):
            # sides of the few extreme rays of the cone
            positive = sides[self.bounds_positive[number]]
            negative = sides[self.bounds_negative[number]]
            ray_sides = np.concatenate([positive, -negative])
            has_inside = (ray_sides >= 0).any(axis=0)
            has_outside = (ray_sides <= 0).any(axis=0)
            undetermined[number] = has_inside & has_outside
        undetermined[:, is_point] = False
        return undetermined

    def _homogeneous(self, rows: Floats) -> Floats:
        """Return rows in the coordinates of the points, with a final coordinate of 1."""
        return np.column_stack([(rows - self.centre) @ self.basis, np.ones(len(rows))])

    def _sides(self, rows: Floats) -> Integers:
        """Return each row's side of each hyperplane: 1, -1, or 0 if the row lies on it."""
        return _signs(self._homogeneous(rows) @ self.planes.T)


def _dichotomies_on_plane(points: Floats, dimension: int) -> Signs:
    """Return the dichotomies of points on a hyperplane, shape (n_dichotomies, n_points).

    A small tilt of the hyperplane realises each dichotomy without changing the side of any other
    point.
    """
    if len(points) == dimension:  # hyperplanes label independent points in every possible way
        return np.array(list(product((False, True), repeat=dimension)))
    return HalfspaceDichotomies(points).signs


def _planes_through(homogeneous: Floats) -> Floats:
    """Return the distinct hyperplanes through d points, where d is the dimension of the space.

    Two hyperplanes are considered equal if every point lies on the same side of both hyperplanes.

    Parameters
    ----------
    homogeneous : ndarray of shape (n_points, dimension + 1)
        Points with a final coordinate of 1.

    Returns
    -------
    ndarray of shape (n_planes, dimension + 1)
        Unit vectors that are orthogonal to the points on the hyperplane.
    """
    dimension = homogeneous.shape[1] - 1
    if not dimension:
        return np.empty((0, 1))
    subsets = np.array(list(combinations(range(len(homogeneous)), dimension)))
    _, singular_values, right_vectors = np.linalg.svd(homogeneous[subsets])
    # the last right singular vector spans the null space if the points are independent
    is_independent = singular_values[:, -1] > ON_PLANE_TOLERANCE
    planes = right_vectors[is_independent, -1]
    sides = _signs(homogeneous @ planes.T).T
    # the orientation of a plane is arbitrary, so the first point off the plane is made positive
    first_off_plane = (sides != 0).argmax(axis=1)
    orientation = sides[np.arange(len(sides)), first_off_plane]
    planes = planes * orientation[:, None]
    _, first_index = np.unique(sides * orientation[:, None], axis=0, return_index=True)
    return planes[np.sort(first_index)]


def _signs(values: Floats) -> Integers:
    """Return the signs of distances: 0 within `ON_PLANE_TOLERANCE`, otherwise 1 or -1."""
    return np.where(np.abs(values) > ON_PLANE_TOLERANCE, np.sign(values), 0).astype(np.int64)


def choose_points(rows: Floats, n_points: int, generator: np.random.Generator) -> Floats:
    """Choose points whose dichotomies leave few rows undetermined, and return them.

    The first third of the points are random rows. Each further point is a row in the largest
    undetermined region, chosen to belong to as many large undetermined regions as possible.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Distinct public rows.
    n_points : int
        Maximum number of points.
    generator : Generator
        Generator that draws the first points and the rows used to compare points.
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
    """Cover with one halfspace per dichotomy of a few public points, and with cells around rows.

    The cells are represented by public rows and by random points between a row and its neighbours.
    Each row is assigned to the nearest cell. The errors due to halfspaces that separate a row from
    its cell are estimated on public rows that are independent of the cover.

    Parameters
    ----------
    holds : callable
        Function that indicates which halfspaces hold for which rows, shape (n_queries, n_rows).
    dichotomies : HalfspaceDichotomies
        The dichotomies of the chosen points.
    rows : ndarray of shape (n_rows, n_features)
        Distinct public rows.
    holdout : ndarray of shape (m, n_features)
        Public rows that are independent of `dichotomies` and `rows`.
    generator : Generator
        Generator that draws the random cells.
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
        disagreement = 1.0  # no bound holds if a dichotomy lost its halfspace through rounding
        if len(cover) == len(dichotomies.signs):
            disagreement = dichotomies.disagreement_bound(holdout)
        selected_rows = generator.permutation(rows)[:MAX_CELLS]
        candidates = _points_among(selected_rows, generator)
        self._low = candidates.min(axis=0)
        self._high = candidates.max(axis=0)
        is_constant = self._high == self._low
        self._scale = np.where(is_constant, 1.0, candidates.std(axis=0))
        self._tree = cKDTree(candidates / self._scale)
        super().__init__(holds, cover, candidates, holdout, dichotomies.points, disagreement)

    def assign_cells(self, X: Floats) -> Codes:
        """Return, for each row, the cell of the nearest candidate, shape (n, 1).

        Rows are first clipped to the range of the candidates, so that no distance overflows.
        """
        clipped = np.clip(np.nan_to_num(X), self._low, self._high)
        nearest = self._tree.query(clipped / self._scale)[1]
        cells: Codes = self._cell_of_candidate[nearest]
        return cells[:, None]


def _points_among(rows: Floats, generator: np.random.Generator) -> Floats:
    """Return the rows and random points between neighbouring rows, at most `MAX_CELLS` in total.

    Each random point lies in the triangle formed by a row and two of its nearest neighbours.
    """
    n_neighbours = min(N_NEIGHBOURS, len(rows) - 1)
    n_points = MAX_CELLS - len(rows)
    if n_neighbours < 1 or n_points < 1:
        return rows
    scaled = rows / np.maximum(rows.std(axis=0), np.finfo(float).tiny)
    _, nearest = cKDTree(scaled).query(scaled, k=n_neighbours + 1)
    neighbours = nearest[:, 1:]  # (n_rows, n_neighbours), without the row itself
    corner = np.arange(n_points) % len(rows)
    corners = rows[corner]
    points = corners.copy()
    for _ in range(2):
        rank = generator.integers(n_neighbours, size=n_points)
        other_corners = rows[neighbours[corner, rank]]
        step = generator.random((n_points, 1)) / 2
        points += step * (other_corners - corners)
    return np.concatenate([rows, points])
