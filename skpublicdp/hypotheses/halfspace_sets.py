"""Sets of closed halfspaces, either supported by public points or covering the feature space."""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.spatial import ConvexHull, QhullError

from skpublicdp.hypotheses.directions import draw_directions, feature_scales, leading_signs
from skpublicdp.hypotheses.magnitudes import check_magnitudes
from skpublicdp.hypotheses.splits import quantile_thresholds
from skpublicdp.hypotheses.sweeps import middle_ranks, project
from skpublicdp.typing import Codes, Floats, Mask

RANGE_TOLERANCE = 1e-9
"""Rounding error of a distance, as a fraction of the range of the data."""

MAGNITUDE_TOLERANCE = 2.0**-47
"""Rounding error of a distance for few features, as a fraction of the magnitude of the data."""

BOX_HALF_WIDTH = 4.0
"""Half the width of the box cut by isotropic halfspaces, in public standard deviations."""

MAX_SUPPORTED_DIMENSIONS = 3
"""Maximum dimension in which an automatic pool uses halfspaces supported by public points."""

PERTURBATIONS = (0.4, 0.2, 0.1, 0.05)
"""Sizes of the initial random changes to a released halfspace, in standard deviations."""

HYPERPLANES_PER_FACET = 8
"""One in this many random supported hyperplanes is a facet of a convex hull."""

ROWS_PER_FACET_DIMENSION = 4
"""Minimum number of rows per dimension in a random subset whose convex hull is computed."""

POOL_SPARSE_SHARE = 0.1
"""Fraction of sparse directions among the directions of random halfspaces."""


@dataclass(frozen=True, eq=False)
class HalfspaceSet:
    """Set of closed halfspaces, each of which contains the rows x with `normal @ x >= offset`."""

    # (size, n_features): normals, pointing inwards. Each normal is scaled to make its largest
    # coefficient 1 or -1.
    normals: Floats
    offsets: Floats  # (size,): offsets; a row on the hyperplane is inside the halfspace

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, index: slice | Codes) -> HalfspaceSet:
        return HalfspaceSet(self.normals[index], self.offsets[index])

    def contains(self, X: Floats, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return whether each row is inside each halfspace, for both scoring and prediction."""
        if out is None:
            out = np.empty((len(self), len(X)), dtype=np.float32)
        columns = np.ascontiguousarray(X.T)
        for index, normal in enumerate(self.normals):
            projected = project(normal, columns)
            np.greater_equal(projected, self.offsets[index], out=out[index])
        return out


def concatenate_sets(*sets: HalfspaceSet) -> HalfspaceSet:
    """Return the concatenation of several sets of halfspaces."""
    return HalfspaceSet(
        np.concatenate([halfspaces.normals for halfspaces in sets]),
        np.concatenate([halfspaces.offsets for halfspaces in sets]),
    )


def open_complements(halfspaces: HalfspaceSet) -> HalfspaceSet:
    """Return closed halfspaces that contain exactly the floats outside the given halfspaces.

    A row is outside a closed halfspace if it is inside the opposite halfspace, without the
    boundary. The offset is therefore the next larger float.
    """
    return HalfspaceSet(-halfspaces.normals, np.nextafter(-halfspaces.offsets, math.inf))


class AffineHull:
    """Affine hull of public points: `Aff` of Bassily, Moran and Nandi (2020), Algorithm 1.

    Parameters
    ----------
    points : ndarray of float64, shape (m, n_features)
        One or more distinct points.

    Attributes
    ----------
    coordinates : ndarray of float64, shape (m, n_dimensions)
        Coordinates of the points within the hull.
    axes : ndarray of intp, shape (n_dimensions,)
        Features that determine a point of the hull.
    halfspaces : HalfspaceSet
        Halfspaces whose intersection is the hull, up to rounding; empty if the hull is the entire
        space.
    points : ndarray of float64, shape (m, n_features)
        The points.
    """

    def __init__(self, points: Floats) -> None:
        n_points, n_features = points.shape
        varies, scale = feature_scales(points)
        centred = points - points.mean(axis=0)
        standardised = np.where(varies, centred / scale, 0.0)
        # The full basis includes the normals of the hull. With more points than features, the
        # reduced basis is already full, and computing full left vectors would require an m x m
        # matrix.
        needs_full_basis = n_points < n_features
        _, singular_values, basis = np.linalg.svd(standardised, full_matrices=needs_full_basis)
        is_positive = singular_values > RANGE_TOLERANCE * singular_values.max(initial=0)
        rank = int(is_positive.sum())
        if rank == n_features:
            basis = np.eye(rank)  # coordinates then are the features, without rounding errors
        basis_of_hull, normals = np.split(basis, [rank])
        self.coordinates = standardised @ basis_of_hull.T
        self.axes = np.arange(rank)
        if 0 < rank < n_features:
            # the first pivots of a QR decomposition are linearly independent features
            _, pivots = qr(basis_of_hull, mode="r", pivoting=True)
            self.axes = np.sort(pivots[:rank])
        self.points = points
        self._basis = basis_of_hull
        self._scale = scale
        # each normal defines a hyperplane that contains the hull and its points
        index_of_point = np.zeros((len(normals), 1), int)
        halfspaces, opposites, _ = self._hyperplanes_through(normals, index_of_point)
        # other rows in the hull deviate from these hyperplanes by their own rounding error
        slack = np.abs(halfspaces.normals) @ self._rounding_error()
        self.halfspaces = concatenate_sets(
            HalfspaceSet(halfspaces.normals, halfspaces.offsets - slack),
            HalfspaceSet(opposites.normals, opposites.offsets - slack),
        )

    def supported_halfspaces(self, *subsets: Codes) -> HalfspaceSet:
        """Return one halfspace supported by each subset of points, and all opposite halfspaces."""
        hyperplanes = [
            self._hyperplanes_through(self._unit_normals(indices) @ self._basis, indices)
            for indices in subsets
        ]
        sets, opposite_sets, contains_point = zip(*hyperplanes, strict=True)
        halfspaces = concatenate_sets(*sets)
        opposites = concatenate_sets(*opposite_sets)
        # one row of bits per hyperplane: the points that it contains
        point_sets = np.packbits(np.concatenate(contains_point), axis=1)
        _, first = np.unique(point_sets, axis=0, return_index=True)
        distinct = np.sort(first)
        return concatenate_sets(halfspaces[distinct], opposites[distinct])

    def _unit_normals(self, subsets: Codes) -> Floats:
        """Return a unit normal to each subset of the points, in coordinates of the hull.

        Parameters
        ----------
        subsets : ndarray of intp, shape (n_subsets, size)
            Indices of points. If many directions are normal to a subset, the one nearest to a
            fixed direction is used, so that the choice is not the linear algebra library's.
        """
        vertices = self.coordinates[subsets]  # (n_subsets, size, n_dimensions)
        spans = vertices[:, 1:] - vertices[:, :1]
        n_dimensions = spans.shape[2]
        if not n_dimensions:
            return np.zeros((len(subsets), 0))
        random_direction = np.random.default_rng(0).normal(size=self._basis.shape[1])
        fixed_direction = self._basis @ random_direction  # in coordinates of the hull
        # the right singular vectors of singular values 0 are orthogonal to all spans
        _, singular_values, right_vectors = np.linalg.svd(spans, full_matrices=True)
        is_positive = singular_values > RANGE_TOLERANCE * singular_values.max(initial=0)
        n_normal = n_dimensions - is_positive.sum(axis=1)  # (n_subsets,)
        normals = np.array(right_vectors[:, -1])
        for i in np.flatnonzero(n_normal > 1):
            null_space = right_vectors[i, n_dimensions - n_normal[i] :]
            nearest = (null_space @ fixed_direction) @ null_space
            normals[i] = nearest / np.linalg.norm(nearest)
        return normals

    def _hyperplanes_through(
        self, normals: Floats, subsets: Codes
    ) -> tuple[HalfspaceSet, HalfspaceSet, Mask]:
        """Return both halfspaces of hyperplanes, and which points are on each hyperplane.

        The mask has shape (n_hyperplanes, m); a point is on a hyperplane up to rounding.

        Parameters
        ----------
        normals : ndarray of float64, shape (n_hyperplanes, n_features)
            Unit normals among standardised features.
        subsets : ndarray of intp, shape (n_hyperplanes, size)
            Indices of points that each hyperplane passes through.
        """
        columns = np.ascontiguousarray(self.points.T)
        rounding_error = self._rounding_error()  # (n_features,)
        # coefficients that are rounding errors would appear in the printed rule
        is_rounding_error = np.abs(normals) <= RANGE_TOLERANCE
        normals = np.where(is_rounding_error, 0.0, normals) / self._scale
        largest = np.abs(normals).max(axis=1, keepdims=True)
        # linear algebra libraries differ in the sign of singular vectors
        normals = normals * leading_signs(normals) / largest

        n_planes = len(normals)
        contains_point = np.empty((n_planes, len(self.points)), dtype=bool)
        # projections of the points on a plane differ by rounding errors, and both halfspaces
        # contain all points
        offsets = np.empty(n_planes)
        opposite_offsets = np.empty(n_planes)
        for plane, (normal, subset) in enumerate(zip(normals, subsets, strict=True)):
            projected = project(normal, columns)
            plane_offset = projected[subset].mean()
            slack = np.abs(normal) @ rounding_error
            is_on_plane = np.abs(projected - plane_offset) <= slack
            contains_point[plane] = is_on_plane
            offsets[plane] = projected[is_on_plane].min()
            opposite_offsets[plane] = -projected[is_on_plane].max()
        halfspaces = HalfspaceSet(normals, offsets)
        opposites = HalfspaceSet(-normals, opposite_offsets)
        return halfspaces, opposites, contains_point

    def _rounding_error(self) -> Floats:
        """Return a bound on the rounding error of a point in each feature, shape (n_features,)."""
        return np.asarray(
            RANGE_TOLERANCE * np.ptp(self.points, axis=0)
            + MAGNITUDE_TOLERANCE * np.abs(self.points).max(axis=0)
        )


def count_dimensions(points: Floats, feature_names: tuple[str, ...]) -> int:
    """Return the number of dimensions of the affine hull of public points, 0 without points."""
    check_magnitudes(points, feature_names, "halfspaces")
    return len(AffineHull(points).axes) if len(points) else 0


def all_supported_halfspaces(hull: AffineHull, min_points: int = 1) -> HalfspaceSet:
    """Return C_pub of Algorithm 1: halfspaces supported by at most d points, and opposites."""
    m, d = hull.coordinates.shape
    subsets = [
        np.array(list(itertools.combinations(range(m), size)))
        for size in range(min_points, d + 1)
        if size <= m
    ]
    if not subsets:  # a single point: its hull has dimension 0 and no hyperplanes
        return hull.halfspaces[:0]
    return hull.supported_halfspaces(*subsets)


def n_supported_halfspaces(m: int, d: int, min_points: int = 1) -> int:
    """Return the number of `all_supported_halfspaces` of m points in general position."""
    return 2 * sum(math.comb(m, size) for size in range(min_points, d + 1))


def net_size(alpha: float, d: int) -> int:
    """Return the pool size that approximates every halfspace to within `alpha`.

    Examples
    --------
    >>> net_size(0.05, 1), net_size(0.05, 2), net_size(0.2, 2)
    (420, 1640, 110)
    """
    # the factor prevents a quotient that is an integer up to rounding from being rounded up
    n_points = math.ceil(d / alpha * (1 - 1e-9))
    max_subset_size = 2 if d < 3 else MAX_SUPPORTED_DIMENSIONS
    return n_supported_halfspaces(n_points, max_subset_size)


def random_supported_halfspaces(
    hull: AffineHull, point_of_row: Codes, max_halfspaces: int
) -> HalfspaceSet:
    """Return a random sample, with a fixed seed, of the halfspaces that d points support."""
    n_hyperplanes = max_halfspaces // 2  # each has two halfspaces
    d = hull.coordinates.shape[1]
    if d == 1:
        ranks = middle_ranks(n_hyperplanes, len(point_of_row))
        points = np.unique(point_of_row[ranks])
        return hull.supported_halfspaces(points[:, None])
    generator = np.random.default_rng(0)  # fixed seed: a function of the public rows
    n_facets = n_hyperplanes // HYPERPLANES_PER_FACET
    facets = _draw_facets(hull, point_of_row, n_facets=n_facets, generator=generator)
    # twice as many as needed, because equal subsets are removed
    rows = generator.choice(point_of_row, (max_halfspaces, d))
    random_subsets = np.sort(rows, axis=1)
    has_distinct_points = (np.diff(random_subsets, axis=1) > 0).all(axis=1)
    subsets = np.concatenate([facets, random_subsets[has_distinct_points]])
    _, first = np.unique(subsets, axis=0, return_index=True)
    distinct = np.sort(first)[:n_hyperplanes]
    return hull.supported_halfspaces(subsets[distinct])


def _draw_facets(
    hull: AffineHull, point_of_row: Codes, n_facets: int, generator: np.random.Generator
) -> Codes:
    """Return random facets of the convex hulls of random subsets of the public rows.

    The subsets contain all rows, 1/2 of the rows, 1/4 of the rows and so on, in turn. A facet is
    represented by the indices of its d points, and the shape is (at most n_facets, d).
    """
    d = hull.coordinates.shape[1]
    facets: list[Codes] = [np.empty((0, d), dtype=np.intp)]
    n_rows = len(point_of_row)
    # number of halvings until a subset has fewer than ROWS_PER_FACET_DIMENSION * d rows
    n_sizes = max(1, (n_rows // (ROWS_PER_FACET_DIMENSION * d)).bit_length())
    for attempt in range(n_facets * n_sizes):
        sample_size = n_rows >> attempt % n_sizes
        sample = np.unique(generator.choice(point_of_row, sample_size, replace=False))
        # a sample whose points span fewer than d dimensions has no facets and is skipped
        with contextlib.suppress(QhullError, ValueError):
            simplices = ConvexHull(hull.coordinates[sample]).simplices
            facets.append(np.sort(sample[simplices], axis=1))
        if sum(map(len, facets)) >= n_facets:
            break
    shuffled = generator.permutation(np.concatenate(facets))
    return shuffled[:n_facets]


def random_halfspaces(points: Floats, max_halfspaces: int, alpha: float) -> HalfspaceSet:
    """Return random halfspaces, with a fixed seed, that cover the feature space.

    In high dimensions, only few of the useful halfspaces are supported by sets of d public points.

    Parameters
    ----------
    points : ndarray of float64, shape (m, n_features)
        Public rows.
    max_halfspaces : int
        Maximum number of halfspaces.
    alpha : float
        Spacing of the public quantiles at which thresholds are placed.
    """
    generator = np.random.default_rng(0)  # fixed seed: a function of the public rows
    varies, scale = feature_scales(points)
    n_hyperplanes = max_halfspaces // 2  # each has two halfspaces
    # first half: hyperplanes at a random public quantile in each direction
    quantile_normals = draw_directions(points, max_halfspaces // 4, POOL_SPARSE_SHARE)
    columns = np.ascontiguousarray(points.T)
    quantile_offsets = []
    for normal in quantile_normals:
        thresholds = quantile_thresholds(project(normal, columns), alpha)
        # NaN marks a direction in which all public rows have the same value
        quantile_offsets.append(generator.choice(thresholds) if len(thresholds) else math.nan)
    # second half: isotropic hyperplanes through random points of a box
    n_isotropic = n_hyperplanes - len(quantile_normals)
    n_features = points.shape[1]
    standard_points = generator.uniform(
        -BOX_HALF_WIDTH, BOX_HALF_WIDTH, size=(n_isotropic, n_features)
    )
    isotropic_normals = generator.normal(size=(n_isotropic, n_features)) * varies / scale
    box_points = points.mean(axis=0) + standard_points * scale
    isotropic_offsets = (isotropic_normals * box_points).sum(axis=1)
    normals = np.concatenate([quantile_normals, isotropic_normals])
    offsets = np.concatenate([quantile_offsets, isotropic_offsets])
    is_valid = np.isfinite(offsets) & normals.any(axis=1)
    halfspaces = _scaled_halfspaces(normals[is_valid], offsets[is_valid])
    return concatenate_sets(halfspaces, HalfspaceSet(-halfspaces.normals, -halfspaces.offsets))


def _scaled_halfspaces(normals: Floats, offsets: Floats) -> HalfspaceSet:
    """Return halfspaces, scaled to make the largest coefficient of each normal 1 or -1."""
    largest = np.abs(normals).max(axis=1)
    return HalfspaceSet(normals / largest[:, None], offsets / largest)


def halfspaces_near(centres: HalfspaceSet, points: Floats, size: int, step: int) -> HalfspaceSet:
    """Return released halfspaces together with random halfspaces near them, using a fixed seed.

    Among standardised rows, a hyperplane is rotated about the projection of a public row onto the
    hyperplane: one of `PERTURBATIONS` times a random unit vector is added to its normal. The
    hyperplane is then shifted by half of this distance times a standard normal random number.

    Parameters
    ----------
    centres : HalfspaceSet
        One or more halfspaces, which are returned first.
    points : ndarray of float64, shape (m, n_features)
        Public rows.
    size : int
        Number of halfspaces to return, which is at least the number of centres.
    step : int
        Number of the refinement, starting at 1; each step halves the distances.
    """
    generator = np.random.default_rng(step)  # fixed seed: a function of the public rows
    points = points[np.lexsort(points.T)]  # the result does not depend on the order of rows
    varies, scale = feature_scales(points)
    mean = points.mean(axis=0)
    n_new = size - len(centres)
    repeated = centres[np.arange(n_new) % len(centres)]

    # the centres for standardised rows, with normals of length 1
    normals = repeated.normals * np.where(varies, scale, 0.0)
    lengths = np.linalg.norm(normals, axis=1)  # (n_new,)
    normals /= lengths[:, None]
    offsets_of_mean = (repeated.normals * mean).sum(axis=1)
    offsets = (repeated.offsets - offsets_of_mean) / lengths

    # a random public row for each hyperplane, projected onto it: the rotation keeps this point
    rows = generator.choice(points, n_new)
    projections = (rows - mean) / scale
    distances_to_plane = (projections * normals).sum(axis=1) - offsets
    projections -= distances_to_plane[:, None] * normals

    directions = generator.normal(size=normals.shape) * varies
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    # all distances are used for every centre
    distances = np.resize(np.repeat(PERTURBATIONS, len(centres)), n_new)
    distances = 0.5 ** (step - 1) * distances
    normals += distances[:, None] * directions
    offsets = (normals * projections).sum(axis=1)
    offsets += distances / 2 * generator.normal(size=n_new)
    # convert back to the units of the rows
    normals /= scale
    offsets += (normals * mean).sum(axis=1)
    return concatenate_sets(centres, _scaled_halfspaces(normals, offsets))
