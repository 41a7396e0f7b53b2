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
    halfspaces_near,
    joined,
    n_supported_halfspaces,
    net_size,
    random_halfspaces,
    random_supported_halfspaces,
)
from skpublicdp.hypotheses.polytopes import Polytope
from skpublicdp.mechanisms.families import Family, Leaf, Path
from skpublicdp.typing import Codes, Floats, Integers

MAX_INTERSECTIONS = 1 << 24
"""A cover of more members is refused."""


class IntersectionCover(Cover):
    """All intersections of at most some number of distinct halfspaces, each of them once.

    Before them comes the empty set, which gives every row the second label. It is the only member
    where there are no public points to be inside.

    Parameters
    ----------
    pool : HalfspaceSet
        Halfspaces to intersect.
    flat : HalfspaceSet or None
        Halfspaces that are part of every intersection, also of that of no halfspace: the affine
        hull of the public points. ``None`` where there are no points.
    most : int
        How many halfspaces of the pool are met at a time.
    public : PublicSample
        Where the names are from.
    rounds : int or "auto", default=1
        How many draws share the budget, each on halfspaces around those drawn before.
    whole : bool, default=False
        Whether some member errs no more than the best halfspace, as the theorem wants.
    """

    def __init__(
        self,
        pool: HalfspaceSet,
        flat: HalfspaceSet | None,
        most: int,
        public: PublicSample,
        rounds: int | str = 1,
        whole: bool = False,
    ) -> None:
        self.pool = pool
        self.rounds = rounds
        self.whole = whole
        self._flat = flat
        self._most = min(most, len(pool))
        self._public = public
        sizes = range(0 if flat is None else self._most + 1)
        self._counts = [math.comb(len(pool), size) for size in sizes]

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return 1 + sum(self._counts)

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Weigh each label in the flat, and in each halfspace, pair or triple within it.

        The table of `contingency_table`; the flat is the first predicate.
        """

        def met(chunk: Floats, out: NDArray[np.float32]) -> None:
            if self._flat is not None:
                out[0] = self._flat.contains(chunk).all(axis=0)
                self.pool.contains(chunk, out[1:])
                out[1:] *= out[0]

        n_predicates = 0 if self._flat is None else len(self.pool) + 1
        n_classes = len(self._public.classes)
        return contingency_table(met, n_predicates, X, y, weights, n_classes, max(self._most, 1))

    def family(self, table: Integers) -> Family:
        """Return the errors as one leaf: the first class inside, the second outside."""
        order = table.ndim - 1
        outside = int(table[:-1].sum(axis=0)[(0,) * order])
        parts = [np.zeros(1, dtype=np.int64)]
        if self._flat is not None:
            excess = table[1] - table[0]  # what it costs to be inside
            parts.append(excess[(0,) * (order - 1) + (1,)][None])
            for size in range(1, self._most + 1):  # singles, pairs, triples
                sums = excess[(0,) * (order - size) + (slice(2, None),) * size]
                parts.append(_distinct(sums))
        return Leaf(outside + np.concatenate(parts))

    def hypothesis(self, path: Path) -> Polytope:
        """Return the member at an index: the empty set, then intersections by their size."""
        index = int(path) - 1
        if self._flat is None or index < 0:
            nothing = self.pool[:0]
            return Polytope(nothing, nothing, len(self._public.classes) - 1, self._public)
        size = 0
        while index >= self._counts[size]:
            index -= self._counts[size]
            size += 1
        chosen = self.pool[unrank(index, len(self.pool), size)]
        return Polytope(self._flat, chosen, 0, self._public)

    def refined(self, hypothesis: Hypothesis, step: int) -> Cover:
        """Return the cover of as many halfspaces, now near the released ones.

        Where fewer were met than may be, some of the pool, evenly spread over it, fill it up.
        """
        sides = hypothesis.sides if isinstance(hypothesis, Polytope) else self.pool[:0]
        if self.rounds == 1 or not 0 < len(sides) <= self._most:  # a union draws others' as well
            return self
        size = len(self.pool)
        near = size * len(sides) // self._most
        pool = halfspaces_near(sides, self._public.X, near, step)
        rest = np.arange(size - near) * size // max(size - near, 1)
        return IntersectionCover(
            joined(pool, self.pool[rest]), self._flat, self._most, self._public, self.rounds
        )


def _distinct(sums: Integers) -> Integers:
    """Return the entries whose indices increase, in lexicographic order."""
    if sums.ndim == 1:
        return sums
    if sums.ndim == 2:
        return np.asarray(sums[np.triu_indices(len(sums), 1)])
    parts = [sums.reshape(-1)[:0]]
    for i, part in enumerate(sums):
        parts.append(_distinct(part[(slice(i + 1, None),) * part.ndim]))
    return np.concatenate(parts)


def unrank(index: int, n: int, size: int) -> Codes:
    """Return the subset of range(n) at an index of the lexicographic order of its size."""
    chosen = []
    first = 0
    while size:
        count = math.comb(n - first - 1, size - 1)
        if index < count:
            chosen.append(first)
            size -= 1
        else:
            index -= count
        first += 1
    return np.array(chosen, dtype=np.intp)


class HalfspaceIntersections(HypothesisClass):
    """Polytopes of few sides: the first label inside, the second outside.

    For at most two classes. `PPMHalfspaceClassifier` learns them on mixed populations.

    Parameters
    ----------
    max_intersections : int, default=None
        The most halfspaces that are met at a time; ``None`` means 2, or 1 for a single feature, and
        with ``pool="paper"`` as many as the theorem needs. The pool that a table in memory
        allows is smaller the more are met: 5800 for 2, 400 for 3, 80 for 4, 30 for 5.
    pool : {"auto", "paper"}, default="auto"
        ``"paper"`` takes a halfspace and its opposite for every set of at most d public points,
        where d is the number of dimensions they span. With ``max_intersections=None`` and two or
        three dimensions only those intersections are taken that the proof of the theorem needs:
        `ConeCover`. ``"auto"`` takes the paper's pool for up to three dimensions,
        drawing some of those that d points support where there are more than `alpha` asks for. With
        more dimensions it spreads the halfspaces over the space.
    max_halfspaces : int, default=1400
        The most halfspaces of an automatic pool, whatever `alpha` asks for.

    See Also
    --------
    Halfspaces : One halfspace.

    Notes
    -----
    Rows outside the affine hull of the public points are outside of every intersection.

    `alpha` asks for as many halfspaces as ``d / alpha`` points in general position support, up to
    two of them at a time, or three from three dimensions on. Such a pool has for nearly every
    halfspace one that disagrees with it on at most a share `alpha` of the public rows: on a line
    this is exact, in two and three dimensions it was measured. Of five features 1400 halfspaces are
    asked for at an `alpha` of 0.3, of more features earlier; a smaller one still puts them at finer
    thresholds. ``pool="paper"`` takes all there are.

    The pool is a function of the public rows. Where it is not all
    that the paper has and pairs are the most, the budget is shared by as many draws as cost little
    (`guarantees.n_rounds`): each after the first takes a pool of as many halfspaces around those
    drawn before; where a single one was drawn, half of them. After a draw without halfspaces one
    more, from the same pool, is the last.

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
        """Build the cover.

        Raises
        ------
        ValueError
            If there are more than two classes, or a parameter is not as described.
        CoverSizeError
            If the paper's pool is too large.
        """
        check_binary(self, public)
        self._check_parameters()
        n_features = public.X.shape[1]
        # zeros of either sign are one value
        points, rows = np.unique(public.X + 0.0, axis=0, return_inverse=True)
        if len(public.classes) == 1 or not len(points):
            nothing = HalfspaceSet(np.empty((0, n_features)), np.empty(0))
            return IntersectionCover(nothing, None, 0, public, whole=True)
        hull = AffineHull(points)
        n_dimensions = len(hull.axes)
        if self.pool == "paper" and self.max_intersections is None:
            return self._theorem(hull, public)
        default = min(2, n_features)
        most = default if self.max_intersections is None else int(self.max_intersections)
        allowed = max_pool_size(most)
        most_wanted = min(int(self.max_halfspaces), allowed)
        wanted = min(net_size(alpha, n_dimensions), most_wanted)
        rounds = "auto" if most < 3 else 1  # triples take too long to count them again
        size = n_supported_halfspaces(len(points), n_dimensions)
        if self.pool == "auto" and n_dimensions > MAX_SUPPORTED_DIMENSIONS and most_wanted >= 2:
            pool = random_halfspaces(points, wanted, alpha)
            return IntersectionCover(pool, hull.flat, most, public, rounds)
        if self.pool == "auto" and size > wanted >= 2:
            pool = random_supported_halfspaces(hull, np.sort(rows, axis=None), wanted)
            return IntersectionCover(pool, hull.flat, most, public, rounds)
        if size > allowed:
            raise CoverSizeError(
                f"{len(points)} distinct public points in {n_features} dimensions support "
                f"{size:.2g} halfspaces and {allowed} are allowed with max_intersections={most}; "
                'give fewer public rows or use pool="auto" and max_intersections=None.'
            )
        whole = most >= n_dimensions
        return IntersectionCover(
            all_supported_halfspaces(hull), hull.flat, most, public, whole=whole
        )

    def _theorem(self, hull: AffineHull, public: PublicSample) -> IntersectionCover | ConeCover:
        """Build the family with as many intersections as dimensions."""
        m, d = hull.coordinates.shape
        if not max_support_points(d):
            raise CoverSizeError(
                f'pool="paper" needs public rows of at most {max(MAX_SUPPORT_POINTS)} dimensions, '
                f'as they support too many polytopes otherwise; got {d}: use pool="auto".'
            )
        if m > max_support_points(d):
            raise CoverSizeError(
                f"{m} distinct public points in {d} dimensions support too many polytopes and "
                f"{max_support_points(d)} points are allowed; give fewer public rows, chosen at "
                "random."
            )
        if d in (2, 3):
            return ConeCover(hull, public)
        return IntersectionCover(
            all_supported_halfspaces(hull, max(d, 1)), hull.flat, d, public, whole=True
        )

    def _check_parameters(self) -> None:
        if self.pool not in ("auto", "paper"):
            raise ValueError(f'pool must be "auto" or "paper"; got {self.pool!r}.')
        check_count("max_halfspaces", self.max_halfspaces, least=2)
        if self.max_intersections is not None:
            check_count("max_intersections", self.max_intersections)


def max_pool_size(most: int) -> int:
    """Count the halfspaces whose pairs or triples a table can hold and a draw can list."""
    size: int = math.floor((MAX_TABLE_BYTES / contingency_bytes(0, 2, 0)) ** (1 / most)) - 2
    while math.comb(max(size, 0), most) > MAX_INTERSECTIONS:
        size -= 1 + size // 1000
    return max(size, 0)


def max_support_points(d: int) -> int:
    """Count the points of d dimensions that may support the theorem's family, in general position.

    In the plane and in space they make 2^26 cones. From four dimensions on all intersections are
    listed of the halfspaces that d points support; 0 where not even points that span the space may.

    Examples
    --------
    >>> [max_support_points(d) for d in (1, 2, 3, 4, 5, 6, 7)]
    [1000, 320, 19, 7, 6, 7, 0]
    """
    return MAX_SUPPORT_POINTS.get(d, 0) if d else 1
