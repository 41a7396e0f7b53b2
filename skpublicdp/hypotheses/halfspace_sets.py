"""Pools of closed halfspaces to intersect, chosen by public points."""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.spatial import ConvexHull, QhullError

from skpublicdp.hypotheses.splits import quantile_thresholds
from skpublicdp.hypotheses.sweeps import draw_directions, project, scales
from skpublicdp.typing import Codes, Floats

RANGE_TOLERANCE = 1e-9
"""Distances below this share of the data's range are rounding."""

MAGNITUDE_TOLERANCE = 2.0**-47
"""So are distances below this share of the data's magnitude: it holds sums of some features."""

BOX_HALF_WIDTH = 4.0
"""Half the width, in public standard deviations, of the box that outlying halfspaces cut."""

MAX_SUPPORTED_DIMENSIONS = 3
"""The most features for which an automatic pool is supported by the public points themselves."""

PERTURBATIONS = (0.4, 0.2, 0.1, 0.05)
"""How far halfspaces are first turned and moved around a released one, in standard deviations."""


@dataclass(frozen=True, eq=False)
class HalfspaceSet:
    """Closed halfspaces `normal @ x >= offset`.

    Parameters
    ----------
    normals : ndarray of float64, shape (size, n_features)
        Normals, pointing inwards. The largest coefficient of each is 1 or -1.
    offsets : ndarray of float64, shape (size,)
        A row on the hyperplane is inside.
    """

    normals: Floats
    offsets: Floats

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, index: slice | Codes) -> HalfspaceSet:
        return HalfspaceSet(self.normals[index], self.offsets[index])

    def contains(self, X: Floats, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Tell which rows are inside which halfspaces; scoring and predicting both come here.

        Parameters
        ----------
        X : ndarray of float64, shape (n, n_features)
            Rows.
        out : ndarray of float32, shape (size, n), optional
            Where to write.

        Returns
        -------
        ndarray of float32, shape (size, n)
            1 inside, 0 outside.
        """
        if out is None:
            out = np.empty((len(self), len(X)), dtype=np.float32)
        columns = np.ascontiguousarray(X.T)
        for index, (normal, offset) in enumerate(zip(self.normals, self.offsets, strict=True)):
            np.greater_equal(project(normal, columns), offset, out=out[index])
        return out


def joined(*pools: HalfspaceSet) -> HalfspaceSet:
    """Put pools end to end."""
    return HalfspaceSet(
        np.concatenate([pool.normals for pool in pools]),
        np.concatenate([pool.offsets for pool in pools]),
    )


class AffineHull:
    """The least flat that holds some points: `Aff` of Bassily, Moran and Nandi (2020), Algorithm 1.

    Parameters
    ----------
    points : ndarray of float64, shape (m, n_features)
        Distinct points, at least one.

    Attributes
    ----------
    coordinates : ndarray of float64, shape (m, n_dimensions)
        The points within the hull.
    axes : ndarray of intp, shape (n_dimensions,)
        Features that tell the points of the hull apart: a hyperplane of them cuts it in one.
    flat : HalfspaceSet
        Halfspaces whose intersection is the hull, up to rounding; none where it is the whole space.
    points : ndarray of float64, shape (m, n_features)
        The points.
    """

    def __init__(self, points: Floats) -> None:
        varies, scale = scales(points)
        standard = np.where(varies, (points - points.mean(axis=0)) / scale, 0.0)
        # a full matrix for many points would be as large as their number squared
        full = len(standard) < standard.shape[1]
        _, sizes, basis = np.linalg.svd(standard, full_matrices=full)
        rank = int((sizes > RANGE_TOLERANCE * sizes.max(initial=0)).sum())
        self.coordinates = standard @ basis[:rank].T
        self.axes = np.arange(rank)
        if 0 < rank < len(scale):
            self.axes = np.sort(qr(basis[:rank], mode="r", pivoting=True)[1][:rank])
        self.points = points
        self._basis = basis[:rank]
        self._scale = scale
        low, high, _ = self._through(basis[rank:], np.zeros((len(basis) - rank, 1), int))
        # other rows of the hull are off it by their own rounding
        slack = np.abs(low.normals) @ self._slack()
        self.flat = joined(
            HalfspaceSet(low.normals, low.offsets - slack),
            HalfspaceSet(high.normals, high.offsets - slack),
        )

    def supported(self, *subsets: Codes) -> HalfspaceSet:
        """Return one halfspace that each subset of the points supports, then their opposites.

        Parameters
        ----------
        *subsets : ndarray of intp, shape (n_subsets, size)
            Positions of distinct points, at most as many as the hull has dimensions.

        Returns
        -------
        HalfspaceSet
            Where a subset supports several halfspaces one of them is taken. The points on a
            hyperplane, up to rounding, are inside its halfspace and inside the opposite one. Of
            hyperplanes through the same points one is kept.
        """
        parts = [self._through(self._normals(part) @ self._basis, part) for part in subsets]
        low = joined(*(part[0] for part in parts))
        high = joined(*(part[1] for part in parts))
        on = np.concatenate([part[2] for part in parts])
        _, first = np.unique(np.packbits(on, axis=1), axis=0, return_index=True)
        kept = np.sort(first)
        return joined(low[kept], high[kept])

    def _normals(self, subsets: Codes) -> Floats:
        """Return, in the hull's coordinates, a normal to each subset of the points."""
        chosen = self.coordinates[subsets]
        spans = chosen[:, 1:] - chosen[:, :1]
        if not spans.shape[1]:
            return np.tile(np.eye(1, self.coordinates.shape[1]), (len(subsets), 1))
        return np.asarray(np.linalg.svd(spans, full_matrices=True)[2][:, -1])

    def _through(
        self, normals: Floats, subsets: Codes
    ) -> tuple[HalfspaceSet, HalfspaceSet, NDArray[np.bool_]]:
        """Return halfspaces, their opposites, and which points lie on the hyperplanes.

        Normals have length 1 and are for standardised features.
        """
        columns = np.ascontiguousarray(self.points.T)
        slack_of = self._slack()
        # a coefficient that is nothing but rounding would clutter the rule, and move what is on it
        normals = np.where(np.abs(normals) <= RANGE_TOLERANCE, 0.0, normals) / self._scale
        leading = normals[np.arange(len(normals)), (normals != 0).argmax(axis=1)]
        # the sign of a singular vector depends on the library; order must not
        normals = normals * np.sign(leading)[:, None] / np.abs(normals).max(axis=1, keepdims=True)
        on = np.empty((len(normals), len(self.points)), dtype=bool)
        ends = np.empty((len(normals), 2))
        for index, (normal, subset) in enumerate(zip(normals, subsets, strict=True)):
            projected = project(normal, columns)
            slack = np.abs(normal) @ slack_of
            on[index] = np.abs(projected - projected[subset].mean()) <= slack
            ends[index] = projected[on[index]].min(), projected[on[index]].max()
        return HalfspaceSet(normals, ends[:, 0]), HalfspaceSet(-normals, -ends[:, 1]), on

    def _slack(self) -> Floats:
        """Return by how much of each feature rounding may move a point."""
        return np.asarray(
            RANGE_TOLERANCE * np.ptp(self.points, axis=0)
            + MAGNITUDE_TOLERANCE * np.abs(self.points).max(axis=0)
        )


def all_supported_halfspaces(hull: AffineHull, fewest: int = 1) -> HalfspaceSet:
    """Return C_pub of Algorithm 1: halfspaces and opposites that at most d points support.

    Parameters
    ----------
    hull : AffineHull
        Distinct public points; d is its dimension.
    fewest : int, default=1
        Least number of points. Those of d points are enough for Corollary 4.4: the others are there
        for points that lie in a flat, which is then cut by hyperplanes through points off it, too.

    Returns
    -------
    HalfspaceSet
        The halfspaces.
    """
    m, d = hull.coordinates.shape
    subsets = [
        np.array(list(itertools.combinations(range(m), size)))
        for size in range(fewest, d + 1)
        if size <= m
    ]
    return hull.supported(*subsets) if subsets else hull.flat[:0]


def n_supported_halfspaces(m: int, d: int, fewest: int = 1) -> int:
    """Count the halfspaces of `all_supported_halfspaces` for points in general position."""
    return 2 * sum(math.comb(m, size) for size in range(fewest, d + 1))


def net_size(alpha: float, d: int) -> int:
    """Count the halfspaces of a pool that approximates all of them up to `alpha`.

    Parameters
    ----------
    alpha : float
        Share of the public rows, in (0, 1).
    d : int
        Number of dimensions.

    Returns
    -------
    int
        As many as ``d / alpha`` points support, up to two of them at a time, or three from three
        dimensions on. On a line that is finer than `alpha`, and hardly dearer.

    Examples
    --------
    >>> net_size(0.05, 1), net_size(0.05, 2), net_size(0.2, 2)
    (420, 1640, 110)
    """
    return n_supported_halfspaces(
        math.ceil(d / alpha * (1 - 1e-9)), 2 if d < 3 else MAX_SUPPORTED_DIMENSIONS
    )


def random_supported_halfspaces(hull: AffineHull, rows: Codes, most: int) -> HalfspaceSet:
    """Draw halfspaces that d of the points support, with a fixed seed.

    Parameters
    ----------
    hull : AffineHull
        Distinct public points, more than d.
    rows : ndarray of intp, shape (n_rows,)
        Which point each public row is at: dense places are drawn more often.
    most : int
        Most halfspaces.

    Returns
    -------
    HalfspaceSet
        Halfspaces and their opposites. On a line they are at evenly spaced quantiles. Elsewhere
        most are supported by d random rows. One in eight is a facet of the convex hull of a random
        part of the rows, as Observation 4.2 needs where hardly any row is mislabelled: random rows
        hardly ever support one.
    """
    if hull.coordinates.shape[1] == 1:
        count = most // 2
        ranks = (2 * np.arange(count) + 1) * len(rows) // (2 * count)
        return hull.supported(np.unique(rows[ranks])[:, None])
    generator = np.random.default_rng(0)  # fixed: the pool is part of the method, not random
    facets = _facets(hull, rows, most // 16, generator)
    drawn = _random_subsets(hull, rows, most, generator)
    subsets = np.concatenate([facets, drawn])
    _, first = np.unique(subsets, axis=0, return_index=True)
    return hull.supported(subsets[np.sort(first)[: most // 2]])


def _random_subsets(
    hull: AffineHull, rows: Codes, size: int, generator: np.random.Generator
) -> Codes:
    """Draw up to so many sets of d points, dense places more often."""
    d = hull.coordinates.shape[1]
    subsets = np.sort(generator.choice(rows, (size, d)), axis=1)
    return np.asarray(subsets[(np.diff(subsets, axis=1) > 0).all(axis=1)])


def _facets(hull: AffineHull, rows: Codes, size: int, generator: np.random.Generator) -> Codes:
    """Draw facets of the convex hulls of all rows, of half of them, of a quarter and so on."""
    d = hull.coordinates.shape[1]
    facets: list[Codes] = [np.empty((0, d), dtype=np.intp)]
    halvings = max(1, (len(rows) // (4 * d)).bit_length())
    for attempt in range(size * halvings):
        part = np.unique(generator.choice(rows, len(rows) >> attempt % halvings, replace=False))
        with contextlib.suppress(QhullError, ValueError):  # a part that does not span the hull
            facets.append(np.sort(part[ConvexHull(hull.coordinates[part]).simplices], axis=1))
        if sum(map(len, facets)) >= size:
            break
    found: Codes = generator.permutation(np.concatenate(facets))[:size]
    return found


def random_halfspaces(points: Floats, most: int, alpha: float) -> HalfspaceSet:
    """Draw halfspaces all over the space, for when public points span few of the useful ones.

    Parameters
    ----------
    points : ndarray of float64, shape (m, n_features)
        Public rows.
    most : int
        Most halfspaces.
    alpha : float
        Spacing of the public quantiles that thresholds are at.

    Returns
    -------
    HalfspaceSet
        Halfspaces and their opposites: one half along `draw_directions`, each with one threshold
        at a public quantile, the other half with isotropic normals through uniform points of a box
        around the rows, in standard deviations.
    """
    generator = np.random.default_rng(0)  # fixed: the pool is part of the method, not random
    varies, scale = scales(points)
    inner = draw_directions(points, most // 4, few=0.1)
    columns = np.ascontiguousarray(points.T)
    at_quantiles = []
    for normal in inner:
        cuts = quantile_thresholds(project(normal, columns), alpha)
        at_quantiles.append(generator.choice(cuts) if len(cuts) else math.nan)
    box = generator.uniform(
        -BOX_HALF_WIDTH, BOX_HALF_WIDTH, size=(most // 2 - len(inner), points.shape[1])
    )
    outer = generator.normal(size=box.shape) * varies / scale
    through = points.mean(axis=0) + box * scale
    normals = np.concatenate([inner, outer])
    offsets = np.concatenate([at_quantiles, (outer * through).sum(axis=1)])
    kept = np.isfinite(offsets) & normals.any(axis=1)
    largest = np.abs(normals[kept]).max(axis=1)
    pool = HalfspaceSet(normals[kept] / largest[:, None], offsets[kept] / largest)
    return joined(pool, HalfspaceSet(-pool.normals, -pool.offsets))


def halfspaces_near(middle: HalfspaceSet, points: Floats, size: int, step: int) -> HalfspaceSet:
    """Draw halfspaces near some, by public rows and fixed randomness.

    Parameters
    ----------
    middle : HalfspaceSet
        Halfspaces, at least one; they are kept.
    points : ndarray of float64, shape (m, n_features)
        Public rows.
    size : int
        Number of halfspaces, at least as many as those of `middle`.
    step : int
        1 for the first refinement; each further step halves the distances.

    Returns
    -------
    HalfspaceSet
        Those of `middle`, then others around each of them in turn. Among standardised rows a
        hyperplane is turned about the foot of a public row on it, by adding to its normal one of
        `PERTURBATIONS` times a random direction, and moved by half as much times a normal number.
    """
    generator = np.random.default_rng(step)  # fixed: the pool is part of the method, not random
    points = points[np.lexsort(points.T)]  # the order of rows says nothing
    varies, scale = scales(points)
    mean = points.mean(axis=0)
    chosen = middle[np.arange(size - len(middle)) % len(middle)]
    normals = chosen.normals * np.where(varies, scale, 0.0)
    lengths = np.linalg.norm(normals, axis=1)
    normals /= lengths[:, None]
    offsets = (chosen.offsets - (chosen.normals * mean).sum(axis=1)) / lengths
    feet = (generator.choice(points, len(normals)) - mean) / scale
    feet -= ((feet * normals).sum(axis=1) - offsets)[:, None] * normals
    moves = generator.normal(size=normals.shape) * varies
    moves /= np.linalg.norm(moves, axis=1, keepdims=True)
    # every member of `middle` gets all distances
    distances = 0.5 ** (step - 1) * np.resize(np.repeat(PERTURBATIONS, len(middle)), len(normals))
    normals += distances[:, None] * moves
    offsets = (normals * feet).sum(axis=1)
    offsets += distances / 2 * generator.normal(size=len(normals))
    normals /= scale
    offsets += (normals * mean).sum(axis=1)
    largest = np.abs(normals).max(axis=1)
    return joined(middle, HalfspaceSet(normals / largest[:, None], offsets / largest))
