"""Decision trees whose leaves carry any label, drawn without being listed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.hypotheses.base import (
    MAX_BLOCK_ERRORS,
    Cover,
    Hypothesis,
    HypothesisClass,
    PublicSample,
)
from skpublicdp.hypotheses.splits import (
    Predicates,
    check_table,
    cuts_of,
    public_splits,
    split_prior,
    stump_growth,
)
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, Path, Product
from skpublicdp.typing import Codes, Floats, Integers

Simple = str | tuple[str, int, "Simple", "Simple"]
"""A tree without branches that no row reaches or that end alike.

What is said at a leaf, or (condition, its column, the tree where it fails, and where it holds).
"""

IntervalUnion = tuple[tuple[float, float], ...]
"""Values of a column, in intervals: above the low end of one, up to its high end."""

WHOLE_LINE: IntervalUnion = ((-math.inf, math.inf),)

Region = dict[int, IntervalUnion]
"""What is left of columns; of those that are not in it, everything."""


class DecisionTree(Hypothesis):
    """A complete binary tree: a split at each node, a label at each leaf.

    Parameters
    ----------
    splits : Predicates
        The splits, breadth first: the root, then its lower and its upper child.
    leaves : ndarray of intp
        Codes of the leaves' labels, from the lowest to the highest side.
    public : PublicSample
        Where the names are from.
    """

    def __init__(self, splits: Predicates, leaves: Codes, public: PublicSample) -> None:
        self.splits = splits
        self.leaves = leaves
        self._conditions = [splits.describe(i, public.feature_names) for i in range(len(splits))]
        self._labels = [str(public.classes[code]) for code in leaves]

    def apply(self, X: NDArray[Any]) -> Codes:
        """Return the leaf each row ends in."""
        above = self.splits.above(X).astype(np.intp)
        node = np.zeros(len(X), dtype=np.intp)
        rows = np.arange(len(X))
        for _ in range(len(self.leaves).bit_length() - 1):
            node = 2 * node + 1 + above[node, rows]
        leaf: Codes = node - len(self.splits)
        return leaf

    def predict(self, X: Floats) -> Codes:
        """Return the code of each row's leaf."""
        return self.leaves[self.apply(X)]

    def rule(self) -> str:
        """Return the tree as nested if / else lines, as `lines` does, with labels at the leaves."""
        return "\n".join(self.lines([f"predict {label}" for label in self._labels]))

    def lines(self, said: Sequence[str]) -> list[str]:
        """Return the tree as nested if / else lines.

        Branches that no row can reach are left out, and those that end alike are merged.

        Parameters
        ----------
        said : sequence of str, of length n_leaves
            What is said at each leaf, from the lowest to the highest side.
        """

        def written(simple: Simple) -> list[str]:
            if isinstance(simple, str):
                return [simple]
            condition, _, lower, upper = simple
            indent = "    "
            return [
                f"if {condition}:",
                *(indent + line for line in written(upper)),
                "else:",
                *(indent + line for line in written(lower)),
            ]

        return written(self._simple(said))

    def depends_on(self, said: Sequence[str]) -> tuple[int, ...]:
        """Return the columns that decide what is said of a row, one thing at each leaf."""

        def asked(simple: Simple) -> set[int]:
            if isinstance(simple, str):
                return set()
            _, column, lower, upper = simple
            return {column} | asked(lower) | asked(upper)

        return tuple(sorted(asked(self._simple(said))))

    def _simple(self, said: Sequence[str]) -> Simple:
        regions = self.regions()

        def below(node: int) -> Simple | None:
            leaf = node - len(self.splits)
            if leaf >= 0:
                return None if is_empty(regions[leaf]) else said[leaf]
            lower, upper = below(2 * node + 1), below(2 * node + 2)
            if lower is None or upper is None or lower == upper:
                return upper if lower is None else lower
            return self._conditions[node], int(self.splits.features[node]), lower, upper

        simple = below(0)
        assert simple is not None  # a row ends somewhere
        return simple

    def regions(self) -> list[Region]:
        """Return what each leaf leaves of the columns, from the lowest to the highest side."""
        level: list[Region] = [{}]
        for first in (2**depth - 1 for depth in range(len(self.leaves).bit_length() - 1)):
            columns = self.splits.features[first:].tolist()
            level = [
                side
                for node, (region, column) in enumerate(zip(level, columns, strict=False), first)
                for side in split_region(region, column, *self.splits.span(node))
            ]
        return level


class TreeCover(Cover):
    """All trees of a depth on given splits.

    Parameters
    ----------
    splits : Predicates
        The splits; without any, the trees are the constants.
    max_depth : int
        1, 2 or 3.
    prior : ndarray of int64, shape (n_splits,)
        Prior weight of each split, at the root and below it.
    public : PublicSample
        Where the names are from.
    """

    def __init__(
        self, splits: Predicates, max_depth: int, prior: Integers, public: PublicSample
    ) -> None:
        self.splits = splits
        self.prior = prior
        self.max_depth = max_depth if len(splits) else 0
        self._public = public
        self._n_classes = len(public.classes)

    @property
    def size(self) -> int:
        """Number of trees, a Python int: K^(2^depth - 1) C^(2^depth) for K splits, C classes."""
        n_leaves: int = 2**self.max_depth
        n_trees: int = len(self.splits) ** (n_leaves - 1) * self._n_classes**n_leaves
        return n_trees

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Weigh each label above single splits, pairs or triples: `Splits.tabulate`."""
        return self.splits.tabulate(X, y, weights, self._n_classes, self.max_depth)

    def family(self, table: Integers) -> Family:
        """Return the trees as a choice of a root over independent sides and leaves."""
        if self.max_depth == 0:
            return Leaf(_leaf_errors(table))

        def build(start: int, stop: int) -> Family:
            above = table[:, start + 1 : stop + 1]
            return self._halves(table[:, :1] - above, above, self.max_depth - 1)

        n_splits = len(self.splits)
        leaves_of_a_root = 2**self.max_depth * n_splits ** (self.max_depth - 1)
        step = max(1, MAX_BLOCK_ERRORS // (leaves_of_a_root * self._n_classes))
        return Choice(Lazy(n_splits, build, step), self.prior)

    def _halves(self, below: Integers, above: Integers, depth: int) -> Family:
        return Product([self._subtrees(below, depth), self._subtrees(above, depth)])

    def _subtrees(self, table: Integers, depth: int) -> Family:
        """Arrange (classes, *batch, *depth * (splits + 1,)) counts as trees of that depth."""
        if depth == 0:
            return Leaf(_leaf_errors(table))
        splits_last = np.moveaxis(table, -depth, -1)
        above = np.moveaxis(splits_last[..., 1:], -1, -depth)
        below = np.moveaxis(splits_last[..., :1], -1, -depth) - above
        return Choice(self._halves(below, above, depth - 1), self.prior)

    def hypothesis(self, path: Path) -> DecisionTree:
        """Return the tree of a path: (split, (path below it, path above it)), or a label."""
        nodes: list[int] = []
        level = [path]
        for _ in range(self.max_depth):
            nodes += [node[0] for node in level]
            level = [child for node in level for child in node[1]]
        splits = self.splits[np.array(nodes, dtype=np.intp)]
        return DecisionTree(splits, np.array(level, dtype=np.intp), self._public)


class DecisionTrees(HypothesisClass):
    """Decision trees of any labels, any number of classes.

    Parameters
    ----------
    max_depth : {1, 2, 3}, default=2
        Depth. A cover of 200 splits and two classes has 1.3e8 trees of depth 2 and 3.3e18 of
        depth 3, whose table of triples takes K^3 numbers for K splits.

    See Also
    --------
    Stumps : Trees of one split.
    Union : Trees beside other rules.

    Notes
    -----
    Trees are not equally likely a priori: a split weighs more the more evenly it parts the public
    rows, and less the more splits its feature has (`skpublicdp.hypotheses.splits.split_prior`).

    Two splits that part the public rows alike count as one. Trees that only differ where no
    public row falls stay in the cover; duplicates cost ln of their number, nothing else (Alon,
    Bassily and Moran 2019, Lemma 3.2 holds for any public finite family).

    Examples
    --------
    >>> from skpublicdp.hypotheses import DecisionTrees, PublicSample
    >>> X = np.random.default_rng(0).normal(size=(300, 10))
    >>> public = PublicSample(X, np.array([0, 1]), tuple("abcdefghij"))
    >>> DecisionTrees().build_cover(public, alpha=0.05, beta=0.05).size
    109744000
    """

    def __init__(self, max_depth: int = 2) -> None:
        self.max_depth = max_depth

    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> TreeCover:
        """Build the cover: splits at the public `alpha`-quantiles of every feature.

        Raises
        ------
        ValueError
            If `max_depth` is not 1, 2 or 3.
        CoverSizeError
            If the table would not fit in memory.
        """
        if self.max_depth not in (1, 2, 3):
            raise ValueError(f"max_depth must be 1, 2 or 3; got {self.max_depth!r}.")
        splits = public_splits(public, alpha)
        check_table(splits, public, int(self.max_depth), "use a smaller max_depth")
        cover = TreeCover(splits, int(self.max_depth), split_prior(splits, public, alpha), public)
        n_splits = 2 ** int(self.max_depth) - 1
        cover.cuts = cuts_of(public, alpha, range(public.X.shape[1]), n_splits, splits)
        cover.radius = cover.cuts.radius
        return cover

    def growth(self, m: int, n_features: int) -> int:
        """Bound the labelings of m rows by trees of two labels, level by level."""
        single = total = stump_growth(m, n_features)
        for _ in range(int(self.max_depth) - 1):
            total = single // 2 * total**2  # a cut and its complement swap the subtrees
        return total


def _leaf_errors(counts: Integers) -> Integers:
    """Turn (classes, ...) counts into (..., classes) errors of each label."""
    return np.ascontiguousarray(np.moveaxis(counts.sum(axis=0) - counts, 0, -1))


def intersect_interval(part: IntervalUnion, low: float, high: float) -> IntervalUnion:
    """Return the values above `low` and up to `high`.

    Examples
    --------
    >>> intersect_interval(((0, 4), (6, 9)), 2, 7)
    ((2, 4), (6, 7))
    """
    cut = ((max(low, a), min(high, b)) for a, b in part)
    return tuple((a, b) for a, b in cut if a < b)


def split_region(region: Region, column: int, low: float, high: float) -> tuple[Region, Region]:
    """IntervalUnion a region by whether the value of a column is above `low` and up to `high`.

    Returns
    -------
    dict
        Where it is not.
    dict
        Where it is.
    """
    part = region.get(column, WHOLE_LINE)
    without = intersect_interval(part, -math.inf, low) + intersect_interval(part, high, math.inf)
    return region | {column: without}, region | {column: intersect_interval(part, low, high)}


def is_empty(region: Region) -> bool:
    """Tell whether no row is there."""
    return not all(region.values())
