"""Labelings by a box over two columns, each listed once; see docs/proofs/label_boost.md."""

from __future__ import annotations

import numpy as np

from skpublicdp.label_boost.dichotomies import Dichotomies
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Path, Product
from skpublicdp.typing import Codes, Floats, Integers


class Boxes(Dichotomies):
    """Labelings by a box along two axes: 1 inside, 0 outside.

    A set of rows that a box cuts out is told by the least box around it, which has rows on all four
    sides: so these boxes, and the empty one, are listed.

    Parameters
    ----------
    X : ndarray of float64, shape (n, 2)
        Rows; only which of two values is larger is looked at.
    """

    def __init__(self, X: Floats) -> None:
        ranks = np.stack([np.unique(column, return_inverse=True)[1].ravel() for column in X.T])
        points, self._point_of = np.unique(ranks, axis=1, return_inverse=True)
        self._point_of = self._point_of.ravel()
        # by the first column, rows of one value side by side
        self._across, self._up = points
        self._starts = np.append(np.unique(self._across, return_index=True)[1], points.shape[1])
        self._lefts, self._rights = np.triu_indices(len(self._starts) - 1)

    def family(self, y: Codes) -> Family:
        """Return a choice among pairs of left and right sides, the last one the empty box."""
        n_points = len(self._across)
        ones = np.bincount(self._point_of[: len(y)], y, n_points).astype(np.int64)
        gain = np.bincount(self._point_of[: len(y)], minlength=n_points) - 2 * ones
        missed = int(ones.sum())

        def build(pair: int, _: int) -> Family:
            if pair == len(self._lefts):
                return Leaf(np.array([[missed]], dtype=np.int64))
            return self._between(pair, gain, missed)

        return Choice(Lazy(len(self._lefts) + 1, build, 1))

    def labels(self, member: Path) -> Codes:
        """Return the labels that one of them gives to all rows."""
        pair, box = member
        inside = np.zeros(len(self._across), dtype=np.intp)
        if pair < len(self._lefts):
            group, (lower, upper) = box
            at, heights, groups = self._heights(pair)
            (first, _), start = groups[group]
            up = self._up[at]
            inside[at] = (heights[first + lower] <= up) & (up <= heights[start + upper])
        return inside[self._point_of]

    def _heights(self, pair: int) -> tuple[slice, Codes, list[tuple[tuple[int, int], int]]]:
        """Return the rows between two sides, their heights, and which lower and upper sides fit.

        Groups of lower sides, first to last, go with all upper sides from one on: those with a row
        of the left side and one of the right side between them.
        """
        left, right = self._lefts[pair], self._rights[pair]
        at = slice(self._starts[left], self._starts[right + 1])
        heights = np.unique(self._up[at])
        ends = [
            np.searchsorted(heights, self._up[self._starts[side] : self._starts[side + 1]])
            for side in (left, right)
        ]
        # from one group to the next a row of a side is left below
        firsts = np.unique(np.concatenate(ends))
        groups, lower = [], 0
        for first in firsts:
            nexts = [side[np.searchsorted(side, lower) :] for side in ends]
            if not all(map(len, nexts)):
                break
            groups.append(((lower, int(first)), int(max(rest[0] for rest in nexts))))
            lower = int(first) + 1
        return at, heights, groups

    def _between(self, pair: int, gain: Integers, missed: int) -> Family:
        """Return the boxes between two sides: lower and upper sides are free in a group."""
        at, heights, groups = self._heights(pair)
        places = np.searchsorted(heights, self._up[at])
        steps = np.bincount(places, gain[at], len(heights)).astype(np.int64)
        below = np.concatenate([[0], np.cumsum(steps)])
        options = [
            Product([Leaf(missed - below[None, first : last + 1]), Leaf(below[None, start + 1 :])])
            for (first, last), start in groups
        ]
        return OneOf(options)
