"""Cones with a public apex: the polytopes that the theorem on mixed populations needs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from skpublicdp.hypotheses.base import (
    Cover,
    PublicSample,
)
from skpublicdp.hypotheses.halfspace_sets import AffineHull, HalfspaceSet
from skpublicdp.hypotheses.pivots import Rays
from skpublicdp.hypotheses.polytopes import Polytope
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Path
from skpublicdp.typing import Codes, Floats, Integers

CONE_BLOCK_ROWS = 1 << 12
"""Rows counted at a time."""


class Cone(Polytope):
    """A polytope whose sides pass through a public point; their rays say who is inside.

    Parameters
    ----------
    flat : HalfspaceSet
        The affine hull of the public points.
    turns : sequence of (Rays, int, int)
        For each the ray where it begins and how many rays further it ends, at most half a turn.
    axes : ndarray of intp
        The features that tell rows of the hull apart.
    public : PublicSample
        Where the names are from.
    """

    def __init__(
        self,
        flat: HalfspaceSet,
        turns: list[tuple[Rays, int, int]],
        axes: Codes,
        public: PublicSample,
    ) -> None:
        normals, offsets = [], []
        for rays, ray, width in turns:
            # what ends at a ray begins half a turn before it
            begins = [ray, ray + width + len(rays)]
            for begin in begins[: 1 + (width < len(rays))]:
                within, offset = rays.halfspace(begin)
                normal = np.zeros(public.X.shape[1])
                normal[axes] = within
                normals.append(normal / np.abs(normal).max())
                offsets.append(offset / np.abs(normal).max())
        super().__init__(flat, HalfspaceSet(np.array(normals), np.array(offsets)), 0, public)
        self._flat = flat
        self._turns = turns
        self._axes = axes

    def predict(self, X: Floats) -> Codes:
        """Return the code of each row, by the arithmetic that scored it."""
        inside = self._flat.contains(X).all(axis=0)
        columns = np.ascontiguousarray(X[:, self._axes].T)
        for rays, ray, width in self._turns:
            inside &= rays.within(rays.codes(columns), ray, width)
        return np.where(inside, self._inside, self._outside).astype(np.intp)


class ConeCover(Cover):
    """Intersections of as many halfspaces as there are dimensions, through a common public point.

    In the plane all pairs of halfspaces whose lines meet in a public point and pass through another
    one each. In space two halfspaces through a common pair of public points, the *edge*, and a
    third one through one of the two, the *apex*, and any two others. Before them come the empty
    set, which gives every row the second label, and the affine hull of the points.

    Parameters
    ----------
    hull : AffineHull
        Of distinct public points that span two or three dimensions.
    public : PublicSample
        Where the names are from.

    Notes
    -----
    All members are among those of Bassily, Moran and Nandi (2020), Algorithm 2, and one of them
    errs no more than the best halfspace h, as in Corollary 4.4. Let T be the points off h and v the
    one among them that is nearest to h. The normal w of h lies in the cone N of outer normals at v
    of the convex hull of T, whose rays are normals of facets through v. A ray r of N and some w' on
    the border of N have w between them, and w' is between normals of two facets that share an edge
    of T at v. So w is a combination of three normals of planes through v, two of them through a
    common edge, with no negative coefficient: v maximises w over the intersection of their
    halfspaces, which therefore misses h and holds T. In the plane the two edges at v do. Where T
    spans less, normals of any planes that hold it complete a basis, with either sign; there are
    such planes since the points span the space.
    """

    whole = True

    def __init__(self, hull: AffineHull, public: PublicSample) -> None:
        points = hull.points[:, hull.axes]
        m, d = points.shape
        self._hull = hull
        self._public = public
        pivots = list(itertools.combinations(range(m), d - 1))
        self._rays = [Rays(points, pivot) for pivot in pivots]
        self._at = [[index for index, p in enumerate(pivots) if v in p] for v in range(m)]
        self._most_lines = max(map(len, self._rays))
        self._caps = [self._half_turns(points, v, pivots) for v in range(m)] if d == 3 else []
        self._n_caps = max(map(len, self._caps), default=1)
        # an apex, and a ray system that has it on its pivot
        self._spots = [(v, index) for v in range(m) for index in self._at[v]]

    @property
    def size(self) -> int:
        """Number of hypotheses, duplicates included."""
        return 2 + len(self._spots) * self._n_caps * 2 * self._most_lines**2

    def _half_turns(
        self, points: Floats, apex: int, pivots: list[tuple[int, ...]]
    ) -> list[tuple[int, int]]:
        """List (rays, ray) of both sides of each plane through a point and two others, once."""
        found = []
        columns = np.ascontiguousarray(points.T)
        for index in self._at[apex]:
            rays = self._rays[index]
            other = sum(pivots[index]) - apex
            codes = rays.codes(columns)
            for line in range(len(rays)):
                on = (codes % (2 * len(rays)) == 2 * line + 1) | (codes == 4 * len(rays))
                on[apex] = False
                if np.flatnonzero(on)[0] == other:  # known by the first of its other points
                    found += [(index, line), (index, line + len(rays))]
        return found

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Weigh what it costs that a row is inside, by its place among the rays.

        Rows of the first label cost their weight outside, all others inside. The table has the
        weight of the first label, the cost of all of the hull, and the cost of each place of each
        of the rays at each apex, within each halfspace through the apex and two other points.
        """
        width = 4 * self._most_lines + 1
        table = np.zeros(2 + len(self._spots) * self._n_caps * width, dtype=np.int64)
        cost = np.where(y == 0, -weights, weights)
        table[0] = weights[y == 0].sum()
        inside = np.flatnonzero(self._hull.flat.contains(X).all(axis=0))
        table[1] = cost[inside].sum()
        places = table[2:].reshape(-1, width, self._n_caps)  # a row's costs lie side by side
        for start in range(0, len(inside), CONE_BLOCK_ROWS):
            chosen = inside[start : start + CONE_BLOCK_ROWS]
            columns = np.ascontiguousarray(X[chosen][:, self._hull.axes].T)
            self._add(places, columns, cost[chosen])
        return table

    def _add(self, places: Integers, columns: Floats, cost: Integers) -> None:
        """Add the costs of some rows, place by place."""
        rows = np.arange(columns.shape[1])
        codes = [rays.codes(columns) for rays in self._rays]
        met = np.ones((len(rows), 1), dtype=np.int64)
        spot = 0
        for apex, at in enumerate(self._at):
            if self._caps:
                caps = [self._cap(apex, cap) for cap in range(self._n_caps)]
                met = np.array([self._half(codes[index], index, ray) for index, ray in caps]).T
            for index in at:
                n_lines = len(self._rays[index])
                # at the pivot comes last, however many rays there are
                place = np.where(codes[index] == 4 * n_lines, 4 * self._most_lines, codes[index])
                shape = places.shape[1], len(rows)
                places[spot] += coo_array((cost, (place, rows)), shape=shape).tocsr() @ met
                spot += 1

    def _half(self, codes: Codes, index: int, ray: int) -> Integers:
        """Tell, as integers, which codes are within half a turn."""
        rays = self._rays[index]
        return rays.within(codes, ray, len(rays)).astype(np.int64)

    def _cap(self, apex: int, cap: int) -> tuple[int, int]:
        """Return one of the halfspaces at an apex; where there are fewer they come again."""
        return self._caps[apex][cap % len(self._caps[apex])]

    def family(self, table: Integers) -> Family:
        """Return the errors: the empty set and the hull, then for each apex and rays one leaf."""
        places = table[2:].reshape(len(self._spots), -1, self._n_caps)
        few = Leaf(np.array([table[0], table[0] + table[1]]))

        def build(start: int, stop: int) -> Leaf:
            return Leaf(table[0] + np.stack([self._costs(places, j) for j in range(start, stop)]))

        return OneOf([few, Choice(Lazy(len(self._spots), build, step=1))])

    def _turns(self, n_lines: int) -> tuple[Any, Any]:
        """Return the rays where turns begin and their widths; where there are fewer, again."""
        ray, width = np.divmod(np.arange(2 * self._most_lines**2), self._most_lines)
        return ray % (2 * n_lines), 1 + width % n_lines

    def _costs(self, places: Integers, spot: int) -> Integers:
        """Return what the members of a spot cost beyond the empty set, turns by halfspaces."""
        n_lines = len(self._rays[self._spots[spot][1]])
        around = places[spot, : 4 * n_lines]
        passed = np.zeros((8 * n_lines + 1, self._n_caps), dtype=np.int64)
        np.cumsum(np.concatenate([around, around]), axis=0, out=passed[1:])
        ray, width = self._turns(n_lines)
        costs = passed[2 * (ray + width) + 2] - passed[2 * ray + 1]
        return np.asarray((costs + places[spot, -1]).reshape(-1))

    def hypothesis(self, path: Path) -> Polytope:
        """Return the member that a path of `family` names."""
        option, place = path
        if option == 0:
            nothing = HalfspaceSet(np.empty((0, self._public.X.shape[1])), np.empty(0))
            if place == 0:
                return Polytope(nothing, nothing, len(self._public.classes) - 1, self._public)
            return Polytope(self._hull.flat, nothing, 0, self._public)
        spot, member = int(place[0]), int(place[1])
        apex, index = self._spots[spot]
        turn, cap = divmod(member, self._n_caps)
        rays = self._rays[index]
        ray, width = (int(of_all[turn]) for of_all in self._turns(len(rays)))
        turns = [(rays, ray, width)]
        if self._caps:
            beside, begin = self._cap(apex, cap)
            turns.append((self._rays[beside], begin, len(self._rays[beside])))
        return Cone(self._hull.flat, turns, self._hull.axes, self._public)
