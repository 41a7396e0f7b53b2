"""Cones with a public apex: the polytopes required by the theorem on mixed populations."""

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
"""Maximum number of rows for which the codes about all pivots are kept in memory at a time."""

CODES_PER_LINE = 4
"""Number of codes per line through a pivot: two opposite rays, and the gap before each ray."""


class Wedge(NamedTuple):
    """Region between two rays about a pivot, including both rays and the pivot.

    `Rays` defines pivots, rays and the codes of rows.
    """

    rays: Rays
    """The rays about the pivot through all public points."""

    first: int
    """Index of the ray where the wedge begins."""

    width: int
    """Number of steps from the first ray to the last ray; a halfspace has `len(rays)` steps."""


class Cone(Polytope):
    """A prediction rule defined by an intersection of wedges about public points.

    `predict` determines membership from the codes of rows, exactly as `ConeCover.tabulate` does.
    The normals and offsets are rounded and are only used for printing.

    Parameters
    ----------
    affine_hull : HalfspaceSet
        Halfspaces whose intersection is the affine hull of the public points.
    wedges : sequence of Wedge
        The wedges to intersect.
    axes : ndarray of intp, shape (n_dimensions,)
        Features that determine a point of the affine hull; the rays are computed in these features.
    public : PublicSample
        Source of the feature and label names.
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
            # A wedge is the intersection of two halfspaces: one begins at the first ray of the
            # wedge, and the other ends at its last ray and therefore begins half a turn earlier.
            # The two halfspaces are equal if the wedge is half a turn.
            last_side_start = first + width + len(rays)
            is_halfspace = width == len(rays)
            for ray in [first] if is_halfspace else [first, last_side_start]:
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
        """Return the predicted label code of each row, with the same arithmetic as in scoring."""
        inside = self._affine_hull.contains(X).all(axis=0)
        columns = np.ascontiguousarray(X[:, self._axes].T)
        for rays, first, width in self._wedges:
            inside &= rays.in_wedge(rays.codes(columns), first, width)
        return np.where(inside, self.inside, self._outside).astype(np.intp)


class ConeCover(Cover):
    """Intersections of d halfspaces whose boundaries share a public point, for d = 2 or 3.

    In the plane, these are all pairs of halfspaces whose boundaries pass through a common public
    point and one further public point each. In space, two of the boundaries pass through a common
    pair of public points, the *pivot*. The third boundary passes through one point of the pivot,
    the *apex*, and two further points. The first two members are the empty set, which predicts the
    second label for every row, and the affine hull of the points.

    Parameters
    ----------
    hull : AffineHull
        Affine hull of distinct public points; its dimension is two or three.
    public : PublicSample
        Source of the feature and label names.

    Notes
    -----
    All members belong to the family of Bassily, Moran and Nandi (2020), Algorithm 2, and some
    member makes at most as many errors as the best halfspace h, as in Corollary 4.4 of that paper.
    Let T be the set of points outside h, and let v be the point of T nearest to h. The normal w of
    h lies in the cone N of outer normals of conv(T) at v. The rays of N are normals of the facets
    that contain v. For any ray r of N, w lies between r and some w' on the boundary of N, and w'
    lies between the normals of two facets that share an edge of conv(T) at v. Therefore, w is a
    non-negative combination of three normals of planes through v, two of which share an edge. Hence
    v maximises w over the intersection of the corresponding halfspaces, which therefore contains T
    and does not meet h. In the plane, the two edges at v suffice. If T spans fewer dimensions, the
    basis is completed by normals of planes that contain T, with either sign; such planes exist
    because the public points span the space.
    """

    is_complete = True

    def __init__(self, hull: AffineHull, public: PublicSample) -> None:
        self._hull = hull
        self._public = public
        points = hull.points[:, hull.axes]
        m, d = points.shape
        # d - 1 points determine a pivot
        self._pivots = list(itertools.combinations(range(m), d - 1))
        self._rays = [Rays(points, pivot) for pivot in self._pivots]
        # the pivots that contain each point
        self._pivots_at = [
            [index for index, pivot in enumerate(self._pivots) if apex in pivot]
            for apex in range(m)
        ]
        self._apex_pivots = [(apex, pivot) for apex in range(m) for pivot in self._pivots_at[apex]]
        self._max_lines = max(map(len, self._rays))
        self._n_codes = CODES_PER_LINE * self._max_lines + 1  # the last code is the pivot
        # candidates for the third halfspace of a cone at each apex in space; empty in the plane
        n_apexes_in_space = m if d == 3 else 0
        self._halfspaces_at = [
            self._list_halfspaces(points, apex) for apex in range(n_apexes_in_space)
        ]
        self._max_halfspaces = max(map(len, self._halfspaces_at), default=1)

    @property
    def size(self) -> int:
        """Number of hypotheses, including duplicates."""
        n_cones_per_pair = self._n_wedges * self._max_halfspaces
        return 2 + len(self._apex_pivots) * n_cones_per_pair

    @property
    def _n_wedges(self) -> int:
        """Number of wedges about a pivot, given by a first ray and a width up to half a turn."""
        return 2 * self._max_lines**2

    def _list_halfspaces(self, points: Floats, apex: int) -> list[tuple[int, int]]:
        """Return both halfspaces of each plane through the apex and two other points.

        Each halfspace is listed once and is represented by a pivot index and the ray where its half
        turn begins. A plane that contains several pivots at the apex is listed for the first of its
        other points.
        """
        halfspaces = []
        columns = np.ascontiguousarray(points.T)
        for pivot in self._pivots_at[apex]:
            rays = self._rays[pivot]
            second_point = sum(self._pivots[pivot]) - apex  # the pivot is {apex, second_point}
            codes = rays.codes(columns)
            codes_per_half_turn = 2 * len(rays)
            for line in range(len(rays)):
                # the two opposite rays of the line have codes 2 line + 1, half a turn apart
                on_line = codes % codes_per_half_turn == 2 * line + 1
                on_plane = on_line | (codes == rays.pivot_code)
                on_plane[apex] = False
                first_point = np.flatnonzero(on_plane)[0]
                if first_point == second_point:
                    halfspaces += [(pivot, line), (pivot, line + len(rays))]
        return halfspaces

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the total cost of the rows with each code about each pivot.

        The cost of a row is the change in the error count when the row is moved inside: minus its
        weight for the first label, plus its weight for other labels. The table is one-dimensional
        and contains:

        - the weight of the first label, which is the error count of the empty set;
        - the total cost of the affine hull;
        - the cost of each code about each (apex, pivot) within each halfspace at the apex, as an
          array of shape (n_apex_pivots, n_codes, max_halfspaces).
        """
        hull = self._hull
        n_cost_sums = len(self._apex_pivots) * self._n_codes * self._max_halfspaces
        table = np.zeros(2 + n_cost_sums, np.int64)
        is_first_label = y == 0
        costs = np.where(is_first_label, -weights, weights)
        in_hull = hull.halfspaces.contains(X).all(axis=0)
        table[0] = weights[is_first_label].sum()
        table[1] = costs[in_hull].sum()
        _, _, cost_sums = self._split_table(table)  # a view of the table
        rows_in_hull = np.flatnonzero(in_hull)
        for start in range(0, len(rows_in_hull), CONE_BLOCK_ROWS):
            rows = rows_in_hull[start : start + CONE_BLOCK_ROWS]
            points = X[rows][:, hull.axes]
            columns = np.ascontiguousarray(points.T)
            self._add_costs(cost_sums, columns, costs[rows])
        return table

    def _split_table(self, table: Integers) -> tuple[np.int64, np.int64, Integers]:
        """Return the errors of the empty set, the hull's additional errors, and the code costs.

        The code costs are a view, of shape (n_apex_pivots, n_codes, max_halfspaces).
        """
        shape = (len(self._apex_pivots), self._n_codes, self._max_halfspaces)
        return table[0], table[1], table[2:].reshape(shape)

    def _add_costs(self, cost_sums: Integers, columns: Floats, costs: Integers) -> None:
        """Add the costs of a block of rows to the array of code costs, in place.

        Parameters
        ----------
        cost_sums : ndarray of int64, shape (n_apex_pivots, n_codes, max_halfspaces)
            The array of code costs, which is modified.
        columns : ndarray of float64, shape (n_dimensions, n)
            Coordinates of the rows on the axes of the affine hull.
        costs : ndarray of int64, shape (n,)
            Costs of the rows.
        """
        n = columns.shape[1]
        codes_about = [rays.codes(columns) for rays in self._rays]
        # 1 for rows in each candidate for the third halfspace, which does not exist in the plane
        in_halfspace = np.ones((n, self._max_halfspaces), dtype=np.int64)
        pair = 0  # index of (apex, pivot)
        for apex, pivots in enumerate(self._pivots_at):
            if self._halfspaces_at:
                for index in range(self._max_halfspaces):
                    pivot, ray = self._halfspace(apex, index)
                    rays = self._rays[pivot]
                    half_turn = len(rays)
                    in_halfspace[:, index] = rays.in_wedge(codes_about[pivot], ray, half_turn)
            for pivot in pivots:
                # rows on the pivot get the last code, regardless of the number of rays
                on_pivot = codes_about[pivot] == self._rays[pivot].pivot_code
                codes = np.where(on_pivot, self._n_codes - 1, codes_about[pivot])
                # a matrix that contains the cost of each row in the line of its code
                entries = (costs, (codes, np.arange(n)))
                costs_by_code = coo_array(entries, shape=(self._n_codes, n)).tocsr()
                cost_sums[pair] += costs_by_code @ in_halfspace
                pair += 1

    def _halfspace(self, apex: int, index: int) -> tuple[int, int]:
        """Return a halfspace at an apex as a (pivot, ray) pair.

        Every apex has `_max_halfspaces` indices. If an apex has fewer halfspaces, some of them are
        repeated.
        """
        halfspaces = self._halfspaces_at[apex]
        return halfspaces[index % len(halfspaces)]

    def family(self, table: Integers) -> Family:
        """Return the error counts of the empty set and the hull, then a leaf per (apex, pivot)."""
        empty_errors, hull_cost, cost_sums = self._split_table(table)
        empty_and_hull = Leaf(np.array([empty_errors, empty_errors + hull_cost]))

        def build(start: int, stop: int) -> Leaf:
            """Return the error counts of all cones at the (apex, pivot) pairs ``start:stop``."""
            costs = [self._cone_costs(cost_sums, pair) for pair in range(start, stop)]
            return Leaf(empty_errors + np.stack(costs))

        return OneOf([empty_and_hull, Choice(Lazy(len(self._apex_pivots), build, step=1))])

    def _list_wedges(self, n_lines: int) -> tuple[Codes, Codes]:
        """Return the first ray and the width of each wedge about a pivot with `n_lines` lines.

        All pivots have the same number of wedges: if a pivot has fewer lines, wedges are repeated.
        """
        first_rays, widths = np.divmod(np.arange(self._n_wedges), self._max_lines)
        return first_rays % (2 * n_lines), 1 + widths % n_lines

    def _cone_costs(self, cost_sums: Integers, pair: int) -> Integers:
        """Return the cost of each cone at an (apex, pivot), shape (n_wedges * max_halfspaces,).

        A wedge from ray i to ray j contains the codes 2i + 1, ..., 2j + 1 and the pivot. Since
        codes are cyclic, the cost of a wedge is a difference of cumulative sums over two turns,
        plus the cost of the pivot.
        """
        _, pivot = self._apex_pivots[pair]
        n_lines = len(self._rays[pivot])
        n_codes = CODES_PER_LINE * n_lines
        one_turn = cost_sums[pair, :n_codes]  # (n_codes, max_halfspaces)
        two_turns = np.concatenate([one_turn, one_turn])
        # entry c: the sum over the codes below c
        costs_below = np.zeros((2 * n_codes + 1, self._max_halfspaces), dtype=np.int64)
        np.cumsum(two_turns, axis=0, out=costs_below[1:])
        first_rays, widths = self._list_wedges(n_lines)
        first_codes = 2 * first_rays + 1
        last_codes = first_codes + 2 * widths
        wedge_costs = costs_below[last_codes + 1] - costs_below[first_codes]
        pivot_cost = cost_sums[pair, -1]  # (max_halfspaces,)
        return np.asarray((wedge_costs + pivot_cost).reshape(-1))

    def hypothesis(self, path: Path) -> Polytope:
        """Return the member that a given path in `family` leads to.

        The path is (0, 0) for the empty set, (0, 1) for the hull, and (1, (pair, cone)) for a cone
        at an (apex, pivot) pair.
        """
        option, inner = path
        hull = self._hull.halfspaces
        if option == 0:
            no_sides = HalfspaceSet(np.empty((0, self._public.X.shape[1])), np.empty(0))
            if inner == 0:
                last_label = len(self._public.classes) - 1
                return Polytope(no_sides, no_sides, last_label, self._public)
            return Polytope(hull, no_sides, 0, self._public)
        pair, cone = map(int, inner)
        apex, pivot = self._apex_pivots[pair]
        wedge, halfspace = divmod(cone, self._max_halfspaces)
        rays = self._rays[pivot]
        first_rays, widths = self._list_wedges(len(rays))
        wedges = [Wedge(rays, int(first_rays[wedge]), int(widths[wedge]))]
        if self._halfspaces_at:  # in space, the halfspace beyond a third plane is a wedge, too
            side_pivot, ray = self._halfspace(apex, halfspace)
            side_rays = self._rays[side_pivot]
            wedges.append(Wedge(side_rays, ray, len(side_rays)))
        return Cone(hull, wedges, self._hull.axes, self._public)
