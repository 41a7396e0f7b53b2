"""Unions of many halfspaces, built by a search that draws one halfspace at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees import growth_function
from skpublicdp.guarantees.ppm import (
    DEFAULT_BOX_ALPHA,
    MAX_GROWING_HALFSPACES,
    MAX_LISTED_FACES,
    WEIGHT_UNIT,
)
from skpublicdp.hypotheses.axis_boxes import AxisBox, build_axis_boxes
from skpublicdp.hypotheses.base import Cover, Hypothesis, PublicSample
from skpublicdp.hypotheses.cones import ConeCover
from skpublicdp.hypotheses.contingency import contingency_table
from skpublicdp.hypotheses.finite import ListedCover
from skpublicdp.hypotheses.halfspace_sets import (
    AffineHull,
    HalfspaceSet,
    concatenate_sets,
    n_supported_halfspaces,
)
from skpublicdp.hypotheses.intersections import HalfspaceIntersections, IntersectionCover
from skpublicdp.hypotheses.polytopes import HalfspaceUnion, Polytope
from skpublicdp.mechanisms.families import Family, Leaf, Path
from skpublicdp.typing import Codes, Floats, Integers

DEFAULT_FIRST_WEIGHT = math.exp(-1)
"""Weight of errors on rows of the covered label in the first draw.

This value yields the weights of the distorted greedy algorithm for unions with as many halfspaces
as there are draws."""

WHY_GROWING_IS_UNPROVED = (
    f"more than {MAX_LISTED_FACES} halfspaces are drawn one at a time, so the search may miss the "
    "best rule; evaluation_share gives a bound by counted errors"
)
"""Reason why no bound on the excess error has been proved."""

PUBLIC, PRIVATE = 0, 1

MakeRule = Callable[[HalfspaceSet, int], Polytope]
"""``make_rule(faces, covered)`` returns the rule that predicts the label code `covered` in a union:
the union of the closed halfspaces `faces` for label 0, and of their complements for label 1."""


class GrowingUnion(Cover):
    """A cover of a union of halfspaces and of all unions that add one halfspace from a pool.

    A rule predicts one label, the *covered* label, inside a union of halfspaces and the other label
    elsewhere. `refine` returns the cover for the next draw. After `n_faces` draws, the search
    starts again with an empty union for the next label. The last cover lists all previously drawn
    rules, so the last draw selects both a label and a number of halfspaces.

    In early draws, an error on a row of the covered label counts less than an error on any other
    row: its weight increases from about `first_weight` to 1 in a geometric sequence. The first
    halfspaces therefore contain few rows of the other label, which matters because later halfspaces
    cannot correct such errors (distorted greedy algorithm of [1]_).

    Parameters
    ----------
    pool : HalfspaceSet
        One or more closed halfspaces.
    n_faces : int
        Maximum number of halfspaces in a union, and number of draws for each covered label.
    first_weight : float
        Limit, in (0, 1], of the weight in the first draw of an error on a row of the covered label.
    make_rule : callable
        ``make_rule(faces, covered)`` returns the rule of a union.
    labels : tuple of int, default=(0, 1)
        Codes of the labels to cover, in this order.
    drawn : tuple of Polytope, default=()
        Rules that were drawn earlier, without repetitions.
    n_drawn : int, default=0
        Number of draws made so far for the first of `labels`.

    References
    ----------
    .. [1] C. Harshaw, M. Feldman, J. Ward and A. Karbasi (2019). Submodular maximization beyond
       non-negativity: guarantees, fast algorithms, and applications. ICML.
    """

    equal_rounds = True
    is_complete = False

    def __init__(
        self,
        pool: HalfspaceSet,
        n_faces: int,
        first_weight: float,
        make_rule: MakeRule,
        labels: tuple[int, ...] = (PUBLIC, PRIVATE),
        drawn: tuple[Polytope, ...] = (),
        n_drawn: int = 0,
    ) -> None:
        self.pool = pool
        self.rounds = len(labels) * n_faces + 1
        self._n_faces = n_faces
        self._first_weight = first_weight
        self._make_rule = make_rule
        self._labels = labels
        self._drawn = drawn if n_drawn else (*drawn, make_rule(pool[:0], labels[0]))
        self._n_drawn = n_drawn

    @property
    def covered(self) -> int:
        """Code of the label covered by the union."""
        return self._labels[0]

    @property
    def union(self) -> Polytope:
        """The rule to which the next halfspace is added."""
        return self._drawn[-1]

    @property
    def error_weight(self) -> float:
        """Weight of an error on a row of the covered label, as a multiple of 1 / `WEIGHT_UNIT`."""
        n_left = self._n_faces - 1 - self._n_drawn
        return int(WEIGHT_UNIT * self._first_weight ** (n_left / self._n_faces)) / WEIGHT_UNIT

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return 1 + len(self.pool)

    def n_final_rules(self, n_draws: int) -> int:
        """Return the number of rules that can be the result of a search that begins here."""
        return len(self._labels) * growth_function(len(self.pool), self._n_faces)

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return, for each label, the weight of the rows that each halfspace adds to the union.

        The result is a `contingency_table` of order 1.
        """

        def write_indicators(chunk: Floats, out: NDArray[np.float32]) -> None:
            """For each row, write 1 to `out` if a halfspace adds the row to the union, else 0."""
            self.pool.contains(chunk, out)
            if self.covered == PRIVATE:  # the union consists of the complements
                np.subtract(1, out, out=out)
            out *= self.union.predict(chunk) != self.covered

        return contingency_table(write_indicators, len(self.pool), X, y, weights, 2, order=1)

    def family(self, table: Integers) -> Family:
        """Return the weighted error counts of all members, up to a constant, as a `Leaf`.

        The total weight of errors on rows of the covered label is rounded down to an integer.
        Replacing one row of weight w changes the result by at most w, since the weight of an error
        is at most 1.
        """
        covered_label = table[self.covered]
        other_label = table[1 - self.covered]
        # index 0 of the table is the predicate that is always true, and of the family the union
        # itself, which adds no rows
        missed = covered_label[0] - covered_label
        missed[0] = covered_label[0]
        wrongly_covered = other_label.copy()
        wrongly_covered[0] = 0
        weight = int(self.error_weight * WEIGHT_UNIT)
        # of large weights, the product `missed * weight` would not fit into 64 bits
        units, rest = np.divmod(missed, WEIGHT_UNIT)
        weighted = units * weight + rest * weight // WEIGHT_UNIT
        return Leaf(weighted + wrongly_covered)

    def hypothesis(self, path: Path) -> Polytope:
        """Return the member at an index; the union comes first, followed by the pool halfspaces."""
        index = int(path)
        if index == 0:
            return self.union
        faces = concatenate_sets(self.union.faces, self.pool[index - 1 : index])
        return self._make_rule(faces, self.covered)

    def refine(self, hypothesis: Hypothesis, step: int) -> Cover:
        """Return the cover for the next draw, given the most recently drawn rule."""
        assert isinstance(hypothesis, Polytope)
        is_new = hypothesis is not self.union
        drawn = (*self._drawn, hypothesis) if is_new else self._drawn
        labels, n_drawn = self._labels, self._n_drawn + 1
        if n_drawn == self._n_faces:
            labels, n_drawn = labels[1:], 0
        if not labels:
            return ListedCover(drawn)
        return GrowingUnion(
            self.pool, self._n_faces, self._first_weight, self._make_rule, labels, drawn, n_drawn
        )


MixedCover = IntersectionCover | ConeCover | GrowingUnion
"""Covers of `PPMHalfspaceClassifier`."""


def build_growing_union(
    public: PublicSample,
    pool: str,
    n_faces: int,
    max_halfspaces: int,
    alpha: float | None,
) -> IntersectionCover | GrowingUnion:
    """Return the initial cover of a search over unions of many halfspaces.

    Parameters
    ----------
    public : PublicSample
        Public rows and at most two labels. If there is a single label, or if there are no public
        rows, the returned cover contains a single rule.
    pool : {"axes", "auto", "paper"}
        ``"axes"`` selects axis-aligned boxes; the other values are those of
        `HalfspaceIntersections`.
    n_faces : int
        Maximum number of halfspaces in a union.
    max_halfspaces : int
        Maximum number of halfspaces in the pool.
    alpha : float or None
        Target approximation error of the pool, and weight of errors in the first draw; ``None``
        means `DEFAULT_BOX_ALPHA` and `DEFAULT_FIRST_WEIGHT`, respectively.

    Raises
    ------
    CoverSizeError
        If the paper's pool is too large, or if a pool of boxes is too small.
    """
    max_halfspaces = min(max_halfspaces, MAX_GROWING_HALFSPACES)
    first_weight = DEFAULT_FIRST_WEIGHT if alpha is None else alpha
    alpha = DEFAULT_BOX_ALPHA if alpha is None else alpha
    if pool == "axes":
        # the distance alpha / n_faces between cuts, as for boxes with fewer faces
        boxes = build_axis_boxes(public, 1, max_halfspaces, alpha / n_faces)
        if not len(boxes.pool):
            return boxes
        return growing_boxes(boxes.pool, n_faces, first_weight, public)
    if pool == "paper" and len(public.classes) > 1:
        _check_number_of_supported_halfspaces(public.X)
    family = HalfspaceIntersections(1, pool, max_halfspaces)
    halfspaces = family.build_cover(public, alpha=alpha, beta=alpha)  # it does not depend on beta
    assert isinstance(halfspaces, IntersectionCover)
    if halfspaces.affine_hull is None:
        return halfspaces
    return growing_polytopes(halfspaces.pool, halfspaces.affine_hull, n_faces, first_weight, public)


def growing_boxes(
    pool: HalfspaceSet, n_faces: int, first_weight: float, public: PublicSample
) -> GrowingUnion:
    """Return the initial cover of a search over boxes with many faces and either label inside."""

    def make_box(faces: HalfspaceSet, covered: int) -> Polytope:
        if not len(faces):
            return Polytope(faces, faces, 1 - covered, public)
        is_union = covered == PUBLIC
        return AxisBox(_without_implied(faces, is_union), is_union, public)

    return GrowingUnion(pool, n_faces, first_weight, make_box)


def growing_polytopes(
    pool: HalfspaceSet,
    affine_hull: HalfspaceSet,
    n_faces: int,
    first_weight: float,
    public: PublicSample,
) -> GrowingUnion:
    """Return the initial cover of a search over polytopes with many faces.

    Either label may be inside the polytope if the public rows span the space. Otherwise, rows
    outside their affine hull receive the private label, and the public label is inside.
    """

    def make_polytope(faces: HalfspaceSet, covered: int) -> Polytope:
        if covered == PRIVATE:
            return Polytope(affine_hull, _without_implied(faces, False), PUBLIC, public)
        if not len(faces):
            return Polytope(faces, faces, PRIVATE, public)
        return HalfspaceUnion(_without_implied(faces, True), public)

    labels = (PRIVATE,) if len(affine_hull) else (PUBLIC, PRIVATE)
    return GrowingUnion(pool, n_faces, first_weight, make_polytope, labels)


def _check_number_of_supported_halfspaces(X: Floats) -> None:
    """Raise CoverSizeError if public rows support too many halfspaces to draw from."""
    if not len(X):
        return
    points = np.unique(X + 0.0, axis=0)  # zeros of either sign are equal
    n_dimensions = len(AffineHull(points).axes)
    n_supported = n_supported_halfspaces(len(points), n_dimensions)
    if n_supported > MAX_GROWING_HALFSPACES:
        raise CoverSizeError(
            f"{len(points)} distinct public points in {n_dimensions} dimensions support "
            f"{n_supported:.2g} halfspaces, but at most {MAX_GROWING_HALFSPACES} are allowed if "
            f"max_intersections is larger than {MAX_LISTED_FACES}. Pass fewer public rows or use "
            'pool="auto".'
        )


def _without_implied(faces: HalfspaceSet, is_union: bool) -> HalfspaceSet:
    """Return one halfspace per direction, such that the union or intersection is unchanged."""
    normals, direction_of_face = np.unique(faces.normals, axis=0, return_inverse=True)
    direction_of_face = direction_of_face.reshape(-1)  # some versions of numpy add an axis
    tightest = np.minimum if is_union else np.maximum
    no_limit = math.inf if is_union else -math.inf
    offsets = np.full(len(normals), no_limit)
    tightest.at(offsets, direction_of_face, faces.offsets)
    return HalfspaceSet(normals, offsets)
