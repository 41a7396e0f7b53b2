"""Cones with a public apex: the polytopes that the theorem on mixed populations needs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

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
"""Number of rows that are coded and counted together."""


class Wedge(NamedTuple):
    """Region between two rays about a pivot, both rays and the pivot included."""

    rays: Rays
    """The rays of all public points about the pivot."""

    first: int
    """Index of the ray where the wedge begins."""

    width: int
    """Number of rays from the first to the last; `len(rays)` is half a turn, a halfspace."""


class Cone(Polytope):
    """An intersection of wedges about public points; codes about the pivots decide membership.

    Parameters
    ----------
    affine_hull : HalfspaceSet
        Halfspaces whose intersection is the affine hull of the public points.
    wedges : sequence of Wedge
        The wedges to intersect.
    axes : ndarray of intp, shape (n_dimensions,)
        Features that determine a point of the hull, in which the rays are computed.
    public : PublicSample
        Source of the names.
    """

    def __init__(
        self,
        affine_hull: HalfspaceSet,
        wedges: Sequence[Wedge],
        axes: Codes,
        public: PublicSample,
    ) -> None:
        normals, offsets = [], []
        for rays, first, width in wedges:
            # the halfspace that ends at a ray begins half a turn before it
            begins = [first, first + width + len(rays)]
            n_sides = 1 if width == len(rays) else 2
            for ray in begins[:n_sides]:
                normal_on_axes, offset = rays.halfspace(ray)
                normal = np.zeros(public.X.shape[1])
                normal[axes] = normal_on_axes
                largest = np.abs(normal).max()
                normals.append(normal / largest)
                offsets.append(offset / largest)
        sides = HalfspaceSet(np.array(normals), np.array(offsets))
        super().__init__(affine_hull, sides, 0, public)
        self._affine_hull = affine_hull
        self._wedges = wedges
        self._axes = axes

    def predict(self, X: Floats) -> Codes:
        """Return the code of each row, by the arithmetic that scored it."""
        inside = self._affine_hull.contains(X).all(axis=0)
        columns = np.ascontiguousarray(X[:, self._axes].T)
        for rays, first, width in self._wedges:
            inside &= rays.in_wedge(rays.codes(columns), first, width)
        return np.where(inside, self._inside, self._outside).astype(np.intp)


class ConeCover(Cover):
    """Intersections of d halfspaces whose borders share a public point, in d = 2 or 3 dimensions.

    In the plane, these are all pairs of halfspaces whose borders pass through a common public point
    and one further public point each. In space, two of the borders pass through a common pair of
    public points, the *pivot*. The third one passes through one point of the pivot, the *apex*, and
    two further points. The first two members are the empty set, which gives every row the second
    label, and the affine hull of the points.

    Parameters
    ----------
    hull : AffineHull
        Affine hull of distinct public points, of dimension two or three.
    public : PublicSample
        Source of the names.

    Notes
    -----
    All members belong to the family of Bassily, Moran and Nandi (2020), Algorithm 2, and one of
    them makes at most as many errors as the best halfspace h, as in their Corollary 4.4. Let T be
    the points outside h, and v the point of T that is nearest to h. The normal w of h lies in the
    cone N of outer normals of conv(T) at v. The rays of N are normals of the facets that contain v.
    For a ray r of N, w lies between r and some w' on the boundary of N, and w' lies between the
    normals of two facets that share an edge of conv(T) at v. So w is a combination, with
    non-negative coefficients, of three normals of planes through v, two of which share an edge.
    Hence v maximises w over the intersection of their halfspaces, which therefore does not meet h
    and contains T. In the plane the two edges at v suffice. If T spans fewer dimensions, normals of
    planes that contain T complete a basis, with either sign; these planes exist because the public
    points span the space.
    """

    is_complete = True

    def __init__(self, hull: AffineHull, public: PublicSample) -> None:
        points = hull.points[:, hull.axes]
        m, d = points.shape
        self._hull = hull
        self._public = public
        self._pivots = list(itertools.combinations(range(m), d - 1))
        self._rays = [Rays(points, pivot) for pivot in self._pivots]
        self._pivots_at = [
            [index for index, pivot in enumerate(self._pivots) if apex in pivot]
            for apex in range(m)
        ]
        self._max_lines = max(map(len, self._rays))
        # in space, the candidates for the third halfspace of a cone
        self._halfspaces_at = [self._list_halfspaces(points, v) for v in range(m)] if d == 3 else []
        self._max_halfspaces = max(map(len, self._halfspaces_at), default=1)
        self._apex_pivots = [(apex, pivot) for apex in range(m) for pivot in self._pivots_at[apex]]

    @property
    def size(self) -> int:
        """Number of hypotheses, duplicates included."""
        return 2 + len(self._apex_pivots) * self._max_halfspaces * 2 * self._max_lines**2

    def _list_halfspaces(self, points: Floats, apex: int) -> list[tuple[int, int]]:
        """List both halfspaces of each plane through the apex and two other points, once each.

        A halfspace is represented by a pivot and the ray where its half turn begins. A plane that
        contains several pivots at the apex is listed for the first of its other points.
        """
        halfspaces = []
        columns = np.ascontiguousarray(points.T)
        for pivot in self._pivots_at[apex]:
            rays = self._rays[pivot]
            second_point = sum(self._pivots[pivot]) - apex
            codes = rays.codes(columns)
            for line in range(len(rays)):
                on_plane = (codes % (2 * len(rays)) == 2 * line + 1) | (codes == rays.pivot_code)
                on_plane[apex] = False
                if np.flatnonzero(on_plane)[0] == second_point:
                    halfspaces += [(pivot, line), (pivot, line + len(rays))]
        return halfspaces

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Sum the costs of rows by their codes about each pivot.

        The cost of a row is the change of the errors if it is inside: minus its weight for the
        first label, plus its weight for the others. The table holds

        - the weight of the first label, which are the errors of the empty set;
        - the total cost of the affine hull;
        - the cost of each code about each (apex, pivot) within each halfspace at the apex, in an
          array of shape (n_apex_pivots, n_codes, max_halfspaces).
        """
        n_codes = 4 * self._max_lines + 1
        table = np.zeros(2 + len(self._apex_pivots) * n_codes * self._max_halfspaces, np.int64)
        cost = np.where(y == 0, -weights, weights)
        table[0] = weights[y == 0].sum()
        inside = np.flatnonzero(self._hull.halfspaces.contains(X).all(axis=0))
        table[1] = cost[inside].sum()
        code_costs = table[2:].reshape(-1, n_codes, self._max_halfspaces)
        for start in range(0, len(inside), CONE_BLOCK_ROWS):
            rows = inside[start : start + CONE_BLOCK_ROWS]
            columns = np.ascontiguousarray(X[rows][:, self._hull.axes].T)
            self._add_costs(code_costs, columns, cost[rows])
        return table

    def _add_costs(self, code_costs: Integers, columns: Floats, cost: Integers) -> None:
        """Add the costs of a block of rows to the array of `tabulate`, in place.

        Parameters
        ----------
        code_costs : ndarray of int64, shape (n_apex_pivots, n_codes, max_halfspaces)
            The array.
        columns : ndarray of float64, shape (n_dimensions, n)
            Coordinates of the rows on the axes of the hull.
        cost : ndarray of int64, shape (n,)
            Costs of the rows.
        """
        rows = np.arange(columns.shape[1])
        codes = [rays.codes(columns) for rays in self._rays]
        in_halfspace = np.ones((len(rows), 1), dtype=np.int64)
        apex_pivot = 0
        for apex, pivots in enumerate(self._pivots_at):
            if self._halfspaces_at:
                halfspaces = [self._halfspace(apex, i) for i in range(self._max_halfspaces)]
                in_halfspace = np.array(
                    [self._indicator(codes[pivot], pivot, ray) for pivot, ray in halfspaces]
                ).T
            for pivot in pivots:
                # the pivot itself has the last code, for any number of rays
                pivot_code = self._rays[pivot].pivot_code
                code = np.where(codes[pivot] == pivot_code, 4 * self._max_lines, codes[pivot])
                cost_by_code = coo_array(
                    (cost, (code, rows)), shape=(code_costs.shape[1], len(rows))
                ).tocsr()
                code_costs[apex_pivot] += cost_by_code @ in_halfspace
                apex_pivot += 1

    def _indicator(self, codes: Codes, pivot: int, ray: int) -> Integers:
        """Return 1 for codes in the halfspace whose half turn begins at a ray, 0 otherwise."""
        rays = self._rays[pivot]
        return rays.in_wedge(codes, ray, len(rays)).astype(np.int64)

    def _halfspace(self, apex: int, index: int) -> tuple[int, int]:
        """Return a halfspace at an apex as (pivot, ray); indices beyond their number repeat."""
        halfspaces = self._halfspaces_at[apex]
        return halfspaces[index % len(halfspaces)]

    def family(self, table: Integers) -> Family:
        """Return the errors: the empty set and the hull, then one leaf per (apex, pivot)."""
        code_costs = table[2:].reshape(len(self._apex_pivots), -1, self._max_halfspaces)
        empty_and_hull = Leaf(np.array([table[0], table[0] + table[1]]))

        def build(start: int, stop: int) -> Leaf:
            """Return the errors of all cones at consecutive (apex, pivot) pairs."""
            costs = [self._cone_costs(code_costs, pair) for pair in range(start, stop)]
            return Leaf(table[0] + np.stack(costs))

        return OneOf([empty_and_hull, Choice(Lazy(len(self._apex_pivots), build, step=1))])

    def _wedge_bounds(self, n_lines: int) -> tuple[Codes, Codes]:
        """Return the first ray and the width of each wedge about a pivot with `n_lines` lines.

        All pivots have the same number of wedges: with fewer lines, wedges are repeated.
        """
        first, width = np.divmod(np.arange(2 * self._max_lines**2), self._max_lines)
        return first % (2 * n_lines), 1 + width % n_lines

    def _cone_costs(self, code_costs: Integers, apex_pivot: int) -> Integers:
        """Return the cost of each cone at an (apex, pivot), shape (n_wedges * max_halfspaces,).

        A wedge contains a range of codes, so its cost is a difference of cumulative sums over two
        turns, plus the cost of the pivot.
        """
        n_lines = len(self._rays[self._apex_pivots[apex_pivot][1]])
        one_turn = code_costs[apex_pivot, : 4 * n_lines]
        cumulative = np.zeros((8 * n_lines + 1, self._max_halfspaces), dtype=np.int64)
        np.cumsum(np.concatenate([one_turn, one_turn]), axis=0, out=cumulative[1:])
        first, width = self._wedge_bounds(n_lines)
        wedge_costs = cumulative[2 * (first + width) + 2] - cumulative[2 * first + 1]
        return np.asarray((wedge_costs + code_costs[apex_pivot, -1]).reshape(-1))

    def hypothesis(self, path: Path) -> Polytope:
        """Return the member at a path of `family`."""
        option, inner = path
        hull = self._hull.halfspaces
        if option == 0:
            no_sides = HalfspaceSet(np.empty((0, self._public.X.shape[1])), np.empty(0))
            if inner == 0:
                return Polytope(no_sides, no_sides, len(self._public.classes) - 1, self._public)
            return Polytope(hull, no_sides, 0, self._public)
        apex_pivot, member = int(inner[0]), int(inner[1])
        apex, pivot = self._apex_pivots[apex_pivot]
        wedge, halfspace = divmod(member, self._max_halfspaces)
        rays = self._rays[pivot]
        first, width = (int(bounds[wedge]) for bounds in self._wedge_bounds(len(rays)))
        wedges = [Wedge(rays, first, width)]
        if self._halfspaces_at:
            side_pivot, ray = self._halfspace(apex, halfspace)
            side_rays = self._rays[side_pivot]
            wedges.append(Wedge(side_rays, ray, len(side_rays)))
        return Cone(hull, wedges, self._hull.axes, self._public)
