"""Axis-aligned boxes with few faces in any number of columns, for mixed populations."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.hypotheses.base import PublicSample
from skpublicdp.hypotheses.halfspace_sets import HalfspaceSet, open_complements
from skpublicdp.hypotheses.intersections import IntersectionCover, max_pool_size, unrank
from skpublicdp.hypotheses.polytopes import Polytope, if_else
from skpublicdp.mechanisms.families import Family, Leaf, Path
from skpublicdp.typing import Codes, Floats, Integers


class AxisBox(Polytope):
    """Rule that predicts one label inside an axis-aligned box and the other label outside.

    Parameters
    ----------
    faces : HalfspaceSet
        One or more closed halfspaces, each of which constrains a single column.
    is_union : bool
        Whether the first label is predicted in the union of the halfspaces instead of their
        intersection. In this case, the second label is predicted inside a box with open faces.
    public : PublicSample
        Source of the names.
    """

    def __init__(self, faces: HalfspaceSet, is_union: bool, public: PublicSample) -> None:
        no_flat = faces[:0]
        if is_union:
            super().__init__(no_flat, open_complements(faces), 1, public)
            self._outside = 0
        else:
            super().__init__(no_flat, faces, 0, public)
        self.faces = faces
        self._is_union = is_union

    def rule(self) -> str:
        """Return the box as an if/else statement; numbers are rounded to six digits."""
        conditions = [
            self._condition(normal, offset)
            for normal, offset in zip(self.faces.normals, self.faces.offsets, strict=True)
        ]
        return if_else(conditions, self._labels[self.inside], self._labels[self._outside])

    def _condition(self, normal: Floats, offset: float) -> str:
        """Return the condition, in words, that a row inside the box satisfies at one face."""
        (column,) = np.flatnonzero(normal)
        is_lower_end = normal[column] > 0
        sign = (">=" if is_lower_end else "<=") if not self._is_union else "<>"[not is_lower_end]
        return f"{self._names[column]} {sign} {normal[column] * offset + 0.0:.6g}"


class AxisPool(NamedTuple):
    """Halfspaces ``x_j >= v`` and ``x_j <= v`` at values of public rows."""

    halfspaces: HalfspaceSet  # the closed halfspaces, whose normals have length 1
    # maximum number of public rows strictly between two neighbouring cut values of a column
    missed: int


def axis_pool(X: Floats, n_cuts: int) -> AxisPool:
    """Return axis-aligned halfspaces at evenly spaced ranks of each column.

    Parameters
    ----------
    X : ndarray of float64, shape (m, n_features)
        One or more public rows.
    n_cuts : int
        Number of values per column, at least two. These include the smallest and the largest value.
    """
    m, n_features = X.shape
    ranks = np.linspace(0, m - 1, min(n_cuts, m)).round().astype(np.intp)
    normals, offsets = [], []
    missed = 0
    for column in range(n_features):
        sorted_values = np.sort(X[:, column]) + 0.0  # zeros of either sign are equal
        cuts = np.unique(sorted_values[ranks])
        n_below = np.searchsorted(sorted_values, cuts)
        n_up_to = np.searchsorted(sorted_values, cuts, side="right")
        rows_between = n_below[1:] - n_up_to[:-1]
        missed = max(missed, int(rows_between.max(initial=0)))
        axis = np.zeros((len(cuts), n_features))
        axis[:, column] = 1.0
        normals += [axis, -axis]
        offsets += [cuts, -cuts]
    halfspaces = HalfspaceSet(np.concatenate(normals), np.concatenate(offsets))
    return AxisPool(halfspaces, missed)


class AxisBoxCover(IntersectionCover):
    """All boxes from a pool with a limited number of faces, with either label inside.

    The first members are those of `IntersectionCover`, which predict the first label inside an
    intersection of halfspaces. The remaining members predict the first label inside a union of at
    least two halfspaces, and therefore the second label inside a box.

    Parameters
    ----------
    pool : AxisPool
        Halfspaces that define the faces.
    max_faces : int
        Maximum number of faces of a box.
    public : PublicSample
        Source of the names.

    Attributes
    ----------
    missed : int
        Maximum number of public rows that change sides if one face of a box is moved to the nearest
        face in the pool.
    """

    def __init__(self, pool: AxisPool, max_faces: int, public: PublicSample) -> None:
        no_flat = pool.halfspaces[:0]
        super().__init__(pool.halfspaces, no_flat, max_faces, public, is_complete=True)
        self.missed = pool.missed
        self.max_faces = max_faces

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return super().size + sum(self._n_subsets[2:])

    def family(self, table: Integers) -> Family:
        """Return the error counts of all members, as an unstructured family (`Leaf`).

        By inclusion-exclusion, the excess of a union is the sum, with alternating signs, of the
        excesses of all intersections of its halfspaces.
        """
        intersections = super().family(table)
        assert isinstance(intersections, Leaf)
        order = table.ndim - 1
        excess = table[1] - table[0]
        empty_set_errors = int(intersections.errors[0])
        unions = [intersections.errors]
        for size in range(2, self._max_intersections + 1):
            # index 0 of the table is the predicate that is always true, 1 is the hull
            subsets = increasing_subsets(len(self.pool), size) + 2
            errors = np.full(subsets.shape[1], empty_set_errors, dtype=np.int64)
            for n_met in range(1, size + 1):
                sign = 1 if n_met % 2 else -1
                for met in itertools.combinations(subsets, n_met):
                    errors += sign * excess[(0,) * (order - n_met) + met]
            unions.append(errors)
        return Leaf(np.concatenate(unions))

    def hypothesis(self, path: Path) -> Polytope:
        """Return the member at an index; intersections come first, by size, and then unions."""
        index = int(path) - super().size
        if index < 0:
            polytope = super().hypothesis(path)
            return polytope if not len(polytope.sides) else self._box(polytope.sides, False)
        size = 2
        while index >= self._n_subsets[size]:
            index -= self._n_subsets[size]
            size += 1
        return self._box(self.pool[unrank(index, len(self.pool), size)], True)

    def _box(self, faces: HalfspaceSet, is_union: bool) -> AxisBox:
        return AxisBox(faces, is_union, self._public)


def increasing_subsets(n: int, size: int) -> Codes:
    """Return all subsets of range(n) of a given size, as increasing columns in lexicographic order.

    The shape is (size, number of subsets). `unrank` returns a single subset.
    """
    subsets = np.arange(n)[None]
    for _ in range(size - 1):
        last = subsets[-1]
        n_larger = n - 1 - last  # elements that may follow the last one
        repeated = np.repeat(subsets, n_larger, axis=1)
        first_of_group = np.repeat(np.cumsum(n_larger) - n_larger, n_larger)
        rank_in_group = np.arange(n_larger.sum()) - first_of_group
        following = repeated[-1] + 1 + rank_in_group
        subsets = np.vstack([repeated, following])
    return subsets


def build_axis_boxes(
    public: PublicSample, max_faces: int, max_halfspaces: int, alpha: float
) -> IntersectionCover:
    """Return the cover of axis-aligned boxes with at most `max_faces` faces, all at public values.

    Parameters
    ----------
    public : PublicSample
        Public rows and at most two labels.
    max_faces : int
        Maximum number of faces of a box.
    max_halfspaces : int
        Maximum number of halfspaces in the pool.
    alpha : float
        Maximum fraction of the public rows on which a box disagrees with the nearest member of the
        cover, unless `max_halfspaces` is too small to achieve it.

    Raises
    ------
    CoverSizeError
        If the pool is too small for two values of each column.
    """
    n_features = public.X.shape[1]
    if len(public.classes) == 1 or not len(public.X):
        no_halfspaces = HalfspaceSet(np.empty((0, n_features)), np.empty(0))
        return IntersectionCover(no_halfspaces, None, 0, public, is_complete=True)
    max_size = min(max_halfspaces, max_pool_size(max_faces))
    max_cuts = max_size // (2 * n_features)  # each value has two halfspaces
    if max_cuts < 2:
        raise CoverSizeError(
            f"{n_features} columns require at least {4 * n_features} axis-aligned halfspaces, but "
            f"at most {max_size} are allowed for max_intersections={max_faces}. Increase "
            "max_halfspaces, decrease max_intersections, or use fewer columns."
        )
    # a spacing of alpha / max_faces of the rows; the factor keeps rounding errors from adding one
    n_cuts = min(math.ceil(max_faces / alpha * (1 - 1e-9)) + 1, max_cuts)
    return AxisBoxCover(axis_pool(public.X, n_cuts), max_faces, public)
