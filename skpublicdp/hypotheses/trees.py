"""Decision trees with arbitrary leaf labels, drawn without enumerating all trees."""

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
    measure_cuts,
    public_splits,
    split_prior,
    stump_growth,
)
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, Path, Product
from skpublicdp.typing import Codes, Floats, Integers

SimplifiedTree = str | tuple[str, int, "SimplifiedTree", "SimplifiedTree"]
"""Text of a leaf, or a node: (condition, its column, subtree if it fails, subtree if it holds).

Branches that no row reaches are removed, and a node with two equal subtrees is replaced by one of
them."""

IntervalUnion = tuple[tuple[float, float], ...]
"""Union of disjoint intervals (low, high] of column values."""

WHOLE_LINE: IntervalUnion = ((-math.inf, math.inf),)
"""The interval that contains all values."""

Region = dict[int, IntervalUnion]
"""Allowed values of each column in a region of the space; unlisted columns can have any value."""


class DecisionTree(Hypothesis):
    """A complete binary tree with a split at each node and a label at each leaf.

    Parameters
    ----------
    splits : Predicates
        Splits in breadth-first order: the root, its lower child, its upper child, and so on.
    leaves : ndarray of intp, shape (n_leaves,)
        Label codes of the leaves, from left (lower children) to right.
    public : PublicSample
        Source of the feature and label names.
    """

    def __init__(self, splits: Predicates, leaves: Codes, public: PublicSample) -> None:
        self.splits = splits
        self.leaves = leaves
        self._conditions = [splits.describe(i, public.feature_names) for i in range(len(splits))]
        self._labels = [str(public.classes[code]) for code in leaves]

    def apply(self, X: NDArray[Any]) -> Codes:
        """Return the index of the leaf that each row reaches, shape (n,)."""
        above = self.splits.indicators(X).astype(np.intp)  # (n_splits, n)
        nodes = np.zeros(len(X), dtype=np.intp)
        rows = np.arange(len(X))
        for _ in range(self._depth):
            # the children of node i are the nodes 2i + 1 (below its split) and 2i + 2 (above it)
            is_upper_child = above[nodes, rows]
            nodes = 2 * nodes + 1 + is_upper_child
        return nodes - len(self.splits)

    @property
    def _depth(self) -> int:
        """Number of splits between the root and a leaf: log2 of the number of leaves."""
        return len(self.leaves).bit_length() - 1

    def predict(self, X: Floats) -> Codes:
        """Return the predicted label code of each row, which is the label of its leaf."""
        return self.leaves[self.apply(X)]

    def rule(self) -> str:
        """Return the tree as nested if/else statements with the predicted labels."""
        return "\n".join(self.format_lines([f"predict {label}" for label in self._labels]))

    def format_lines(self, leaf_texts: Sequence[str]) -> list[str]:
        """Return the tree as lines of nested if/else statements with given leaf texts.

        Branches that no row can reach are omitted, and subtrees with equal texts are merged.

        Parameters
        ----------
        leaf_texts : sequence of str, of length n_leaves
            Text of each leaf, from left (lower children) to right.
        """
        indent = "    "

        def format_subtree(subtree: SimplifiedTree) -> list[str]:
            """Return the lines of text for a subtree."""
            if isinstance(subtree, str):
                return [subtree]
            condition, _, lower, upper = subtree
            return [
                f"if {condition}:",
                *(indent + line for line in format_subtree(upper)),
                "else:",
                *(indent + line for line in format_subtree(lower)),
            ]

        return format_subtree(self._simplify(leaf_texts))

    def relevant_columns(self, leaf_texts: Sequence[str]) -> tuple[int, ...]:
        """Return the sorted indices of the columns on which the text of a row's leaf depends.

        The result contains the columns of the splits that remain in the simplified tree of
        `format_lines`.
        """

        def collect_columns(subtree: SimplifiedTree) -> set[int]:
            """Return the columns of the conditions of a subtree."""
            if isinstance(subtree, str):
                return set()
            _, column, lower, upper = subtree
            return {column} | collect_columns(lower) | collect_columns(upper)

        return tuple(sorted(collect_columns(self._simplify(leaf_texts))))

    def _simplify(self, leaf_texts: Sequence[str]) -> SimplifiedTree:
        """Return the tree without unreachable branches and without splits into equal subtrees."""
        regions = self.regions()

        def simplify_subtree(node: int) -> SimplifiedTree | None:
            """Return the simplified subtree at a node, or None if no row reaches the node."""
            leaf = node - len(self.splits)  # nodes after the last split are leaves
            if leaf >= 0:
                return None if is_empty(regions[leaf]) else leaf_texts[leaf]
            lower, upper = simplify_subtree(2 * node + 1), simplify_subtree(2 * node + 2)
            if lower is None:
                return upper
            if upper is None or lower == upper:
                return lower
            return self._conditions[node], int(self.splits.features[node]), lower, upper

        tree = simplify_subtree(0)
        assert tree is not None  # every row reaches a leaf
        return tree

    def regions(self) -> list[Region]:
        """Return the region of each leaf, from left (lower children) to right."""
        regions: list[Region] = [{}]  # of the nodes of one depth
        for depth in range(self._depth):
            first_node = 2**depth - 1
            child_regions: list[Region] = []
            for node, region in enumerate(regions, first_node):
                column = int(self.splits.features[node])
                low, high = self.splits.interval(node)
                child_regions += split_region(region, column, low, high)
            regions = child_regions
        return regions


class TreeCover(Cover):
    """Cover that contains all trees of a given depth on given splits.

    Parameters
    ----------
    splits : Predicates
        The splits. If there are no splits, the only trees are the constants.
    max_depth : int
        1, 2 or 3.
    prior : ndarray of int64, shape (n_splits,)
        Prior weight of each split, the same at each node.
    public : PublicSample
        Source of the feature and label names.
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
        """Number of trees, as a Python integer.

        With K splits and C classes, there are K^(2^depth - 1) C^(2^depth) trees.
        """
        n_leaves: int = 2**self.max_depth
        return len(self.splits) ** (n_leaves - 1) * self._n_classes**n_leaves

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the weight of the rows by label and by the splits that the rows exceed.

        The shape is (n_classes,) + max_depth * (n_splits + 1,), where index 0 stands for no split.
        """
        return self.splits.tabulate(X, y, weights, self._n_classes, self.max_depth)

    def family(self, table: Integers) -> Family:
        """Return the error counts of all trees, as a choice of a root and a pair of subtrees."""
        if self.max_depth == 0:
            return Leaf(_leaf_errors(table))

        def build(start: int, stop: int) -> Family:
            """Return the trees whose split at the root is in ``start:stop``."""
            # index 0 of the table stands for no condition, so the splits begin at 1
            above = table[:, start + 1 : stop + 1]
            return self._subtree_pairs(table[:, :1] - above, above, self.max_depth - 1)

        n_splits = len(self.splits)
        n_leaves_per_root = 2**self.max_depth * n_splits ** (self.max_depth - 1)
        step = max(1, MAX_BLOCK_ERRORS // (n_leaves_per_root * self._n_classes))
        return Choice(Lazy(n_splits, build, step), self.prior)

    def _subtree_pairs(self, below: Integers, above: Integers, depth: int) -> Family:
        """Return all pairs that consist of a subtree below a split and a subtree above it.

        `below` and `above` are the tables of the rows on either side of the split.
        """
        return Product([self._subtrees(below, depth), self._subtrees(above, depth)])

    def _subtrees(self, table: Integers, depth: int) -> Family:
        """Return all trees of a given depth, from the weights of combinations of splits."""
        if depth == 0:
            return Leaf(_leaf_errors(table))
        # the first split axis joins the batch: it enumerates the root of the subtree
        all_rows, above = np.split(table, [1], axis=-depth)
        below = all_rows - above
        return Choice(self._subtree_pairs(below, above, depth - 1), self.prior)

    def hypothesis(self, path: Path) -> DecisionTree:
        """Return the tree that a given path in `family` leads to.

        A path is (split index, (path below the split, path above the split)), or a label code for a
        leaf.
        """
        splits: list[int] = []
        paths = [path]  # of the nodes of one depth
        for _ in range(self.max_depth):
            splits += [split for split, _ in paths]
            paths = [child for _, children in paths for child in children]
        leaves = np.array(paths, dtype=np.intp)
        nodes = self.splits[np.array(splits, dtype=np.intp)]
        return DecisionTree(nodes, leaves, self._public)


class DecisionTrees(HypothesisClass):
    """Decision trees with arbitrary leaf labels, for any number of labels.

    Parameters
    ----------
    max_depth : {1, 2, 3}, default=2
        Depth of the trees. A cover of 200 splits and two labels has 1.3e8 trees of depth 2 and
        3.3e18 trees of depth 3. For K splits, the table of depth 3 contains K^3 numbers.

    See Also
    --------
    Stumps : Trees with one split.
    Union : Combines trees with other rules.

    Notes
    -----
    The prior is not uniform: a split has more weight if it divides the public rows more evenly, and
    less weight if its feature has more splits (`skpublicdp.hypotheses.splits.split_prior`).

    Splits with the same partition of the public rows are counted once. Trees that only differ in
    regions without public rows remain in the cover. Duplicates only increase the logarithm of the
    cover size (Alon, Bassily and Moran 2019, Lemma 3.2 holds for every public finite family).

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
        """Build the cover: splits at the `alpha`-quantiles of every feature in the public rows.

        Raises
        ------
        ValueError
            If `max_depth` is not 1, 2 or 3.
        CoverSizeError
            If the table would not fit in memory.
        """
        if self.max_depth not in (1, 2, 3):
            raise ValueError(f"max_depth must be 1, 2 or 3; got {self.max_depth!r}.")
        max_depth = int(self.max_depth)
        splits = public_splits(public, alpha)
        check_table(splits, public, order=max_depth, remedy="use a smaller max_depth")
        prior = split_prior(splits, public, alpha)
        cover = TreeCover(splits, max_depth, prior=prior, public=public)
        features = range(public.X.shape[1])
        n_splits = 2**max_depth - 1
        cover.cuts = measure_cuts(public, alpha, features, cuts_per_rule=n_splits, splits=splits)
        cover.radius = cover.cuts.radius
        return cover

    def growth(self, m: int, n_features: int) -> int:
        """Return a bound on the number of ways in which trees with two labels can label m rows.

        A tree of depth d is a split with two subtrees of depth d - 1, each of which may label all
        rows in any of its ways.
        """
        n_stumps = n_trees = stump_growth(m, n_features)
        for _ in range(int(self.max_depth) - 1):
            # a stump and its complement are one split, since the subtrees can be swapped
            n_splits = n_stumps // 2
            n_trees = n_splits * n_trees**2
        return n_trees


def _leaf_errors(counts: Integers) -> Integers:
    """Return the errors of a leaf for each predicted label, given the weight of each label.

    The shape (n_classes, ...) of `counts` becomes (..., n_classes).
    """
    return np.ascontiguousarray(np.moveaxis(counts.sum(axis=0) - counts, 0, -1))


def intersect_interval(values: IntervalUnion, low: float, high: float) -> IntervalUnion:
    """Return the intersection of a union of intervals with the interval (low, high].

    Examples
    --------
    >>> intersect_interval(((0, 4), (6, 9)), 2, 7)
    ((2, 4), (6, 7))
    """
    intersections = ((max(low, start), min(high, stop)) for start, stop in values)
    return tuple((start, stop) for start, stop in intersections if start < stop)


def split_region(region: Region, column: int, low: float, high: float) -> tuple[Region, Region]:
    """Return the parts of a region with values outside and inside the interval (low, high]."""
    values = region.get(column, WHOLE_LINE)
    lower = intersect_interval(values, -math.inf, low)
    upper = intersect_interval(values, high, math.inf)
    inside = intersect_interval(values, low, high)
    return region | {column: lower + upper}, region | {column: inside}


def is_empty(region: Region) -> bool:
    """Return whether a region is empty because some column has no allowed values."""
    return not all(region.values())
