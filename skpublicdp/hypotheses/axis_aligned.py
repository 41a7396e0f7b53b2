"""Classes of a single split: thresholds and stumps."""

from __future__ import annotations

import numpy as np

from skpublicdp.hypotheses.base import (
    Cover,
    HypothesisClass,
    PublicSample,
    check_binary,
)
from skpublicdp.hypotheses.splits import (
    Splits,
    cuts_of,
    public_splits,
    quantile_thresholds,
    stump_growth,
)
from skpublicdp.hypotheses.trees import DecisionTree
from skpublicdp.mechanisms.families import Family, Leaf, Path
from skpublicdp.typing import Codes, Floats, Integers


class StumpCover(Cover):
    """Stumps on given splits and constants: each (split, label above, label below) listed once.

    Parameters
    ----------
    splits : Splits
        The splits.
    members : ndarray of intp, shape (size, 3)
        Split and codes above and below it; a constant has split -1 and its code twice.
    public : PublicSample
        Where the names are from.
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
        """Weigh each label above each split: `Splits.tabulate` of order 1."""
        return self.splits.tabulate(X, y, weights, len(self._public.classes), 1)

    def family(self, table: Integers) -> Family:
        """Return the errors of all members as one leaf."""
        split, above, below = self.members.T
        over = table[:, split + 1]  # of a constant: all rows
        under = table[:, :1] - over
        member = np.arange(self.size)
        return Leaf(table[:, 0].sum() - over[above, member] - under[below, member])

    def hypothesis(self, path: Path) -> DecisionTree:
        """Return the member at an index, as a tree."""
        split, above, below = self.members[path]
        if split < 0:
            return DecisionTree(self.splits[:0], np.array([above]), self._public)
        return DecisionTree(self.splits[int(split)], np.array([below, above]), self._public)


class Thresholds(HypothesisClass):
    """The second label above a threshold of one feature, the first below it; both constants.

    The textbook class of VC dimension 1. It knows one direction only; `Stumps` knows both.

    Parameters
    ----------
    feature : int, default=0
        Column.

    See Also
    --------
    Stumps : Thresholds of any feature.
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
        known = isinstance(self.feature, int | np.integer)
        if not known or not 0 <= self.feature < public.X.shape[1]:
            raise ValueError(
                f"feature must be a column number below {public.X.shape[1]}; got {self.feature!r}."
            )
        cuts = quantile_thresholds(public.X[:, self.feature], alpha)
        splits = Splits(np.full(len(cuts), self.feature), cuts)
        members = [(split, 1, 0) for split in range(len(cuts))] if len(public.classes) == 2 else []
        cover = _stump_cover(splits, members, public)
        cover.cuts = cuts_of(public, alpha, [self.feature], 1)
        cover.radius = cover.cuts.radius
        return cover

    def growth(self, m: int, n_features: int) -> int:
        """Count the labelings of m rows: VC dimension 1, exact."""
        return m + 1


class Stumps(HypothesisClass):
    """One split of any feature with any two different labels, and the constants.

    Works for any number of classes.

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
        """Build the cover: splits at the public `alpha`-quantiles of every feature."""
        splits = public_splits(public, alpha)
        codes = range(len(public.classes))
        members = [
            (split, above, below)
            for split in range(len(splits))
            for above in codes
            for below in codes
            if above != below
        ]
        cover = _stump_cover(splits, members, public)
        cover.cuts = cuts_of(public, alpha, range(public.X.shape[1]), 1, splits)
        cover.radius = cover.cuts.radius
        return cover

    def growth(self, m: int, n_features: int) -> int:
        """Bound the labelings of m rows with two labels."""
        return stump_growth(m, n_features)


def _stump_cover(
    splits: Splits, members: list[tuple[int, int, int]], public: PublicSample
) -> StumpCover:
    constants = [(-1, code, code) for code in range(len(public.classes))]
    return StumpCover(splits, np.array(members + constants, dtype=np.intp), public)
