"""Intersections of few halfspaces: the family of Bassily, Moran and Nandi (2020)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees.ppm import MAX_SUPPORT_POINTS
from skpublicdp.hypotheses.base import (
    Cover,
    Hypothesis,
    HypothesisClass,
    PublicSample,
    check_binary,
    check_count,
)
from skpublicdp.hypotheses.cones import ConeCover
from skpublicdp.hypotheses.contingency import MAX_TABLE_BYTES, contingency_bytes, contingency_table
from skpublicdp.hypotheses.halfspace_sets import (
    MAX_SUPPORTED_DIMENSIONS,
    AffineHull,
    HalfspaceSet,
    all_supported_halfspaces,
    concatenate_sets,
    halfspaces_near,
    n_supported_halfspaces,
    net_size,
    random_halfspaces,
    random_supported_halfspaces,
)
from skpublicdp.hypotheses.magnitudes import check_magnitudes
from skpublicdp.hypotheses.polytopes import Polytope
from skpublicdp.mechanisms.families import Family, Leaf, Path
from skpublicdp.typing import Codes, Floats, Integers

MAX_INTERSECTIONS = 1 << 24
"""Maximum number of members of a cover."""


WITHIN_HULL = 1
"""Table index of the hull: predicate 0 is always true, and the pool begins at predicate 2."""


class IntersectionCover(Cover):
    """All distinct intersections of a limited number of halfspaces from a pool.

    The first member is the empty set, which predicts the second label for every row. Without public
    points, the empty set is the only member.

    Parameters
    ----------
    pool : HalfspaceSet
        Halfspaces to intersect.
    affine_hull : HalfspaceSet or None
        Halfspaces that define the affine hull of the public points. These halfspaces are part of
        every intersection, even of one that contains no halfspace from the pool. ``None`` if there
        are no public points.
    max_intersections : int
        Maximum number of pool halfspaces in an intersection.
    public : PublicSample
        Source of the feature and label names.
    rounds : int or "auto", default=1
        Number of draws that share the privacy budget; each draw uses halfspaces around those drawn
        previously.
    is_complete : bool, default=False
        Whether some member makes at most as many errors as the best halfspace, as the theorem
        requires.
    """

    def __init__(
        self,
        pool: HalfspaceSet,
        affine_hull: HalfspaceSet | None,
        max_intersections: int,
        public: PublicSample,
        rounds: int | str = 1,
        is_complete: bool = False,
    ) -> None:
        self.pool = pool
        self.rounds = rounds
        self.is_complete = is_complete
        self.affine_hull = affine_hull
        self._max_intersections = min(max_intersections, len(pool))
        self._public = public
        sizes = range(0 if affine_hull is None else self._max_intersections + 1)
        self._n_subsets = [math.comb(len(pool), size) for size in sizes]

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return 1 + sum(self._n_subsets)

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the weight of each label in each halfspace, pair or triple within the hull.

        This is a `contingency_table` of order `max_intersections`. The predicates are membership in
        the affine hull, and in each halfspace of the pool within the hull.
        """

        def write_indicators(chunk: Floats, out: NDArray[np.float32]) -> None:
            """For each row, write 1 to `out` if the row satisfies a predicate, and 0 otherwise."""
            if self.affine_hull is None:  # no predicates: every row is outside the empty set
                return
            in_hull, in_halfspaces = out[0], out[1:]
            in_hull[:] = self.affine_hull.contains(chunk).all(axis=0)
            self.pool.contains(chunk, in_halfspaces)
            in_halfspaces *= in_hull

        n_predicates = 0 if self.affine_hull is None else len(self.pool) + 1
        n_classes = len(self._public.classes)
        order = max(self._max_intersections, 1)
        return contingency_table(write_indicators, n_predicates, X, y, weights, n_classes, order)

    def family(self, table: Integers) -> Family:
        """Return the error counts of all members, as an unstructured family (`Leaf`).

        A member predicts the first label inside and the second label outside. The error count of a
        member is therefore the error count of the empty set, plus the excess weight of the second
        label over the first label inside.
        """
        order = table.ndim - 1
        all_rows = (0,) * order
        # a single label is predicted everywhere, and the empty set makes no errors
        empty_set_errors = int(table[:-1].sum(axis=0)[all_rows])
        excesses = [np.zeros(1, dtype=np.int64)]  # the empty set
        if self.affine_hull is not None:
            excess = table[1] - table[0]
            hull = (0,) * (order - 1) + (WITHIN_HULL,)
            excesses.append(excess[hull][None])
            pool_entries = slice(WITHIN_HULL + 1, None)
            for size in range(1, self._max_intersections + 1):
                # the other predicates are the predicate that is always true
                subsets = (0,) * (order - size) + (pool_entries,) * size
                excesses.append(_increasing_entries(excess[subsets]))
        return Leaf(empty_set_errors + np.concatenate(excesses))

    def hypothesis(self, path: Path) -> Polytope:
        """Return the member at an index; the empty set comes first, then intersections by size."""
        if self.affine_hull is None or path == 0:
            no_sides = self.pool[:0]
            last_label = len(self._public.classes) - 1
            return Polytope(no_sides, no_sides, last_label, self._public)
        index = int(path) - 1  # among all intersections
        size = 0  # number of halfspaces of the intersection
        while index >= self._n_subsets[size]:
            index -= self._n_subsets[size]
            size += 1
        sides = self.pool[unrank(index, len(self.pool), size)]
        return Polytope(self.affine_hull, sides, 0, self._public)

    def refine(self, hypothesis: Hypothesis, step: int) -> Cover:
        """Return a cover whose pool has the same size but is close to a released polytope's sides.

        If the polytope has fewer halfspaces than allowed, part of the new pool is an evenly spaced
        sample of the old pool. If this cover has a single round, or if the hypothesis is not a
        polytope of this kind, this cover is returned.
        """
        sides = hypothesis.sides if isinstance(hypothesis, Polytope) else self.pool[:0]
        # the polytope may be a member of another cover in a union
        if self.rounds == 1 or not 0 < len(sides) <= self._max_intersections:
            return self
        size = len(self.pool)
        n_near = size * len(sides) // self._max_intersections
        n_sampled = size - n_near
        near = halfspaces_near(sides, self._public.X, n_near, step)
        sampled = np.arange(n_sampled) * size // max(n_sampled, 1)  # evenly spaced indices
        return IntersectionCover(
            concatenate_sets(near, self.pool[sampled]),
            self.affine_hull,
            self._max_intersections,
            self._public,
            self.rounds,
        )


def _increasing_entries(table: Integers) -> Integers:
    """Return the entries (i, j, ...) with i < j < ... of a table, in lexicographic order.

    These entries correspond to the subsets of a set of halfspaces, each listed once. `unrank` is
    the inverse.
    """
    if table.ndim == 1:
        return table
    if table.ndim == 2:
        return np.asarray(table[np.triu_indices(len(table), 1)])
    entries = [table.reshape(-1)[:0]]
    for first, subtable in enumerate(table):
        entries.append(_increasing_entries(subtable[(slice(first + 1, None),) * subtable.ndim]))
    return np.concatenate(entries)


def unrank(index: int, n: int, size: int) -> Codes:
    """Return a subset of range(n), given its index among all subsets of its size.

    Subsets are in lexicographic order. The result has shape (size,) and is increasing.
    """
    subset = []
    n_missing = size
    element = 0
    while n_missing:
        # subsets that continue with this element come before those that skip it
        n_with_element = math.comb(n - element - 1, n_missing - 1)
        if index < n_with_element:
            subset.append(element)
            n_missing -= 1
        else:
            index -= n_with_element
        element += 1
    return np.array(subset, dtype=np.intp)


class HalfspaceIntersections(HypothesisClass):
    """Intersections of few halfspaces: rules that predict the first label inside a polytope.

    All rows outside the polytope are predicted to have the second label. The class supports at most
    two labels. `PPMHalfspaceClassifier` learns these rules on mixed populations.

    Parameters
    ----------
    max_intersections : int, default=None
        Maximum number of halfspaces in an intersection. ``None`` means 2, or 1 for a single
        feature; with ``pool="paper"``, it means the number that the theorem requires. The memory
        required by the table limits the pool to about 5800 halfspaces for intersections of 2
        halfspaces, 400 for 3, 80 for 4 and 30 for 5.
    pool : {"auto", "paper"}, default="auto"
        ``"paper"`` uses a halfspace and its opposite for every set of at most d public points,
        where d is the dimension of the space that the points span. With ``max_intersections=None``
        and two or three dimensions, only the intersections used in the proof of the theorem are
        included (`ConeCover`). ``"auto"`` uses the paper's pool in up to three dimensions, or a
        random sample of the pool if it has more halfspaces than `alpha` requires. In more
        dimensions, it uses random halfspaces that cover the feature space.
    max_halfspaces : int, default=1400
        Maximum number of halfspaces in an automatic pool, regardless of `alpha`.

    See Also
    --------
    Halfspaces : Single halfspaces.

    Notes
    -----
    Rows outside the affine hull of the public points are outside every intersection.

    `alpha` determines the size of an automatic pool: the number of halfspaces supported by subsets
    of ``d / alpha`` points in general position. The subsets contain at most two points, or at most
    three points if d >= 3. For nearly every halfspace, this pool contains a halfspace that
    disagrees with it on at most a fraction `alpha` of the public rows. This result is exact in one
    dimension and was measured in two and three dimensions. With five features, the limit of 1400 is
    reached at an `alpha` of 0.3; with more features it is reached at a larger `alpha`. A smaller
    `alpha` still results in finer thresholds.

    The pool is a function of the public rows. If the pool is not the paper's complete pool and at
    most two halfspaces are intersected, several draws share the privacy budget
    (`guarantees.n_rounds`). Each draw after the first uses a pool of the same size around the
    halfspaces of the previous draw, or half of the pool around a single halfspace. If a draw
    selects no halfspaces, one further draw from the same pool is the last draw.

    References
    ----------
    Bassily, Moran and Nandi (2020), Algorithms 1 and 2.

    Examples
    --------
    >>> from skpublicdp.hypotheses import HalfspaceIntersections, PublicSample
    >>> X = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    >>> public = PublicSample(X, np.array(["no", "yes"]), ("age", "income"))
    >>> cover = HalfspaceIntersections().build_cover(public, alpha=0.05, beta=0.05)
    >>> len(cover.pool), cover.size
    (12, 80)
    >>> print(cover.hypothesis(7))
    if age + income >= 4 (≈):
        predict no
    else:
        predict yes
    """

    def __init__(
        self,
        max_intersections: int | None = None,
        pool: str = "auto",
        max_halfspaces: int = 1400,
    ) -> None:
        self.max_intersections = max_intersections
        self.pool = pool
        self.max_halfspaces = max_halfspaces

    def build_cover(
        self, public: PublicSample, *, alpha: float, beta: float
    ) -> IntersectionCover | ConeCover:
        """Build the cover: intersections of halfspaces from a pool determined by public rows.

        Raises
        ------
        ValueError
            If there are more than two classes, if a parameter is invalid, or if products of public
            values overflow.
        CoverSizeError
            If the paper's pool is too large.
        """
        check_binary(self, public)
        self._check_parameters()
        self._check_public_values(public.X, public.feature_names)
        n_features = public.X.shape[1]
        # adding 0.0 makes zeros of either sign equal
        points, point_of_row = np.unique(public.X + 0.0, axis=0, return_inverse=True)
        # if there is a single label or there are no public points, the empty set is the only member
        if len(public.classes) == 1 or not len(points):
            no_halfspaces = HalfspaceSet(np.empty((0, n_features)), np.empty(0))
            return IntersectionCover(no_halfspaces, None, 0, public, is_complete=True)
        hull = AffineHull(points)
        if self.pool == "paper" and self.max_intersections is None:
            return self._theorem_cover(hull, public)
        return self._pool_cover(hull, np.sort(point_of_row, axis=None), alpha, public)

    def _check_public_values(self, points: Floats, feature_names: tuple[str, ...]) -> None:
        """Raise ValueError if products of public values overflow."""
        check_magnitudes(points, feature_names, "halfspaces")

    def _pool_cover(
        self, hull: AffineHull, point_of_row: Codes, alpha: float, public: PublicSample
    ) -> IntersectionCover:
        """Return the intersections of the halfspaces in a pool of limited size.

        `point_of_row` is the index of each public row among the distinct public points of `hull`.
        """
        points, n_features, n_dimensions = hull.points, public.X.shape[1], len(hull.axes)
        max_intersections = min(2, n_features)
        if self.max_intersections is not None:
            max_intersections = int(self.max_intersections)
        memory_limit = max_pool_size(max_intersections)
        max_size = min(int(self.max_halfspaces), memory_limit)
        size = min(net_size(alpha, n_dimensions), max_size)
        rounds = "auto" if max_intersections < 3 else 1  # tables of triples are slow to recompute
        n_supported = n_supported_halfspaces(len(points), n_dimensions)
        if self.pool == "auto" and n_dimensions > MAX_SUPPORTED_DIMENSIONS and max_size >= 2:
            pool = random_halfspaces(points, size, alpha)
            return IntersectionCover(pool, hull.halfspaces, max_intersections, public, rounds)
        if self.pool == "auto" and n_supported > size >= 2:
            pool = random_supported_halfspaces(hull, point_of_row, size)
            return IntersectionCover(pool, hull.halfspaces, max_intersections, public, rounds)
        if n_supported > memory_limit:
            raise CoverSizeError(
                f"{len(points)} distinct public points in {n_features} dimensions support "
                f"{n_supported:.2g} halfspaces, but at most {memory_limit} are allowed with "
                f'max_intersections={max_intersections}. Pass fewer public rows or use pool="auto" '
                "and max_intersections=None."
            )
        return IntersectionCover(
            all_supported_halfspaces(hull),
            hull.halfspaces,
            max_intersections,
            public,
            is_complete=max_intersections >= n_dimensions,
        )

    def _theorem_cover(
        self, hull: AffineHull, public: PublicSample
    ) -> IntersectionCover | ConeCover:
        """Return the family used in the theorem of Bassily, Moran and Nandi (2020).

        The number of intersected halfspaces is the dimension of the space that the public points
        span.
        """
        m, d = hull.coordinates.shape
        if not max_support_points(d):
            raise CoverSizeError(
                f'pool="paper" requires public rows with at most {max(MAX_SUPPORT_POINTS)} '
                f"dimensions; got {d} dimensions, in which the rows define too many polytopes. Use "
                'pool="auto".'
            )
        if m > max_support_points(d):
            raise CoverSizeError(
                f"{m} distinct public points in {d} dimensions define too many polytopes. Pass a "
                f"random sample of at most {max_support_points(d)} public rows."
            )
        if d in (2, 3):
            return ConeCover(hull, public)
        pool = all_supported_halfspaces(hull, min_points=max(d, 1))
        return IntersectionCover(pool, hull.halfspaces, d, public, is_complete=True)

    def _check_parameters(self) -> None:
        """Raise ValueError unless the parameters are valid."""
        if self.pool not in ("auto", "paper"):
            raise ValueError(f'pool must be "auto" or "paper"; got {self.pool!r}.')
        check_count("max_halfspaces", self.max_halfspaces, minimum=2)
        if self.max_intersections is not None:
            check_count("max_intersections", self.max_intersections)


def max_pool_size(max_intersections: int) -> int:
    """Return the maximum number of halfspaces whose intersections fit into memory.

    The limit applies to both the table of pairs (triples, ...) and the list of members.
    """
    # a table has (size + 2)^max_intersections entries for each of two labels, since it also
    # includes the predicate that is always true and the hull
    bytes_per_entry = contingency_bytes(n_predicates=0, n_classes=2, order=0)
    max_entries = MAX_TABLE_BYTES / bytes_per_entry
    size: int = math.floor(max_entries ** (1 / max_intersections)) - 2
    while math.comb(max(size, 0), max_intersections) > MAX_INTERSECTIONS:
        size -= 1 + size // 1000  # steps of 0.1%, for speed
    return max(size, 0)


def max_support_points(d: int) -> int:
    """Return the maximum number of public points for the family used in the theorem.

    In two and three dimensions, these points determine at most 2^26 cones. In four or more
    dimensions, all intersections of halfspaces supported by d points are listed. The result is 0 if
    even d + 1 points are too many.

    Examples
    --------
    >>> [max_support_points(d) for d in (1, 2, 3, 4, 5, 6, 7)]
    [1000, 320, 19, 7, 6, 7, 0]
    """
    return MAX_SUPPORT_POINTS.get(d, 0) if d else 1  # points that span no dimension are one point
