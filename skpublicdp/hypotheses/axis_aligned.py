"""Hypothesis classes with a single split: thresholds and stumps."""

from __future__ import annotations

import itertools

import numpy as np

from skpublicdp.hypotheses.base import (
    Cover,
    HypothesisClass,
    PublicSample,
    check_binary,
)
from skpublicdp.hypotheses.splits import (
    Splits,
    measure_cuts,
    public_splits,
    quantile_thresholds,
    stump_growth,
)
from skpublicdp.hypotheses.trees import DecisionTree
from skpublicdp.mechanisms.families import Family, Leaf, Path
from skpublicdp.typing import Codes, Floats, Integers

NO_SPLIT = -1
"""Special split index that represents a constant rule.

The table entry at index `NO_SPLIT` + 1 counts all rows, as if every row were above this split."""


class StumpCover(Cover):
    """Cover that consists of stumps at given splits and of constant rules.

    Parameters
    ----------
    splits : Splits
        The splits.
    members : ndarray of intp, shape (size, 3)
        For each stump, the index of its split and the codes of the labels above and below the
        split. A constant rule has the split index `NO_SPLIT`, followed by its label code twice.
    public : PublicSample
        Source of the feature and label names.
    """

    def __init__(self, splits: Splits, members: Codes, public: PublicSample) -> None:
        self.splits = splits
        self.members = members
        self._public = public

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return len(self.members)

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the total weight of each label, followed by the label's weight above each split.

        The shape is (n_classes, 1 + n_splits).
        """
        return self.splits.tabulate(X, y, weights, len(self._public.classes), order=1)

    def family(self, table: Integers) -> Family:
        """Return the error counts of all members, as an unstructured family (`Leaf`)."""
        splits, labels_above, labels_below = self.members.T
        members = np.arange(self.size)
        # weights by label and member; a constant rule counts all rows as above its split
        n_above = table[:, splits + 1]
        n_below = table[:, :1] - n_above
        n_correct_above = n_above[labels_above, members]
        n_correct_below = n_below[labels_below, members]
        n_rows = table[:, 0].sum()
        return Leaf(n_rows - n_correct_above - n_correct_below)

    def hypothesis(self, path: Path) -> DecisionTree:
        """Return the stump or constant with a given list index, as a tree of depth 1 or 0."""
        split, above, below = self.members[path]
        if split == NO_SPLIT:
            return DecisionTree(self.splits[:0], np.array([above]), self._public)
        return DecisionTree(self.splits[int(split)], np.array([below, above]), self._public)


class Thresholds(HypothesisClass):
    """Thresholds on a single feature: rules that predict the second label above the threshold.

    Such a rule predicts the first label for all other rows. The class contains both constant rules
    and has VC dimension 1. `Stumps` contains thresholds in both directions.

    Parameters
    ----------
    feature : int, default=0
        Column.

    See Also
    --------
    Stumps : Thresholds on any feature.
    Intervals : Ranges of one feature.

    Examples
    --------
    >>> from skpublicdp.hypotheses import PublicSample, Thresholds
    >>> public = PublicSample(np.array([[1.0], [2.0], [3.0]]), np.array(["no", "yes"]), ("age",))
    >>> cover = Thresholds().build_cover(public, alpha=0.1, beta=0.05)
    >>> print(cover.hypothesis(0))
    if age > 1.5:
        predict yes
    else:
        predict no
    >>> cover.size  # two thresholds and two constants
    4
    """

    def __init__(self, feature: int = 0) -> None:
        self.feature = feature

    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> StumpCover:
        """Build the cover: thresholds at the public `alpha`-quantiles of the feature."""
        check_binary(self, public)
        is_integer = isinstance(self.feature, int | np.integer)
        if not is_integer or not 0 <= self.feature < public.X.shape[1]:
            raise ValueError(
                f"feature must be a column number below {public.X.shape[1]}; got {self.feature!r}."
            )
        cuts = quantile_thresholds(public.X[:, self.feature], alpha)
        splits = Splits(np.full(len(cuts), self.feature), cuts)
        # with a single label, the constant rule is the only rule
        n_thresholds = len(cuts) if len(public.classes) == 2 else 0
        members = [(split, 1, 0) for split in range(n_thresholds)]
        cover = _stump_cover(splits, members, public)
        cover.cuts = measure_cuts(public, alpha, [self.feature], cuts_per_rule=1)
        cover.radius = cover.cuts.radius
        return cover

    def growth(self, m: int, n_features: int) -> int:
        """Return the number of ways in which thresholds can label m rows; the VC dimension is 1."""
        return m + 1


class Stumps(HypothesisClass):
    """Stumps: a single split of any feature with two different labels, and the constant rules.

    Any number of labels is supported.

    See Also
    --------
    DecisionTrees : Several splits.
    Thresholds : Splits of one feature.

    Examples
    --------
    >>> from skpublicdp.hypotheses import PublicSample, Stumps
    >>> public = PublicSample(np.array([[0.0], [1.0]]), np.array(["no", "yes"]), ("smoker",))
    >>> cover = Stumps().build_cover(public, alpha=0.1, beta=0.05)
    >>> cover.size
    4
    """

    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> StumpCover:
        """Build the cover: splits at the `alpha`-quantiles of every feature in the public rows."""
        splits = public_splits(public, alpha)
        labels = range(len(public.classes))
        members = [
            (split, *label_pair)
            for split in range(len(splits))
            for label_pair in itertools.permutations(labels, 2)
        ]
        cover = _stump_cover(splits, members, public)
        features = range(public.X.shape[1])
        cover.cuts = measure_cuts(public, alpha, features, cuts_per_rule=1, splits=splits)
        cover.radius = cover.cuts.radius
        return cover

    def growth(self, m: int, n_features: int) -> int:
        """Return a bound on the number of ways in which binary stumps can label m rows."""
        return stump_growth(m, n_features)


def _stump_cover(
    splits: Splits, members: list[tuple[int, int, int]], public: PublicSample
) -> StumpCover:
    """Return a cover of the given (split, label above, label below) triples and all constants."""
    constants = [(NO_SPLIT, label, label) for label in range(len(public.classes))]
    return StumpCover(splits, np.array(members + constants, dtype=np.intp), public)
