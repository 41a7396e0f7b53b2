"""Rules "A and B and not C" of up to three literals, drawn from the joint tables of splits."""

from __future__ import annotations

import numpy as np

from skpublicdp.guarantees import growth_function
from skpublicdp.hypotheses.base import (
    MAX_BLOCK_ERRORS,
    Cover,
    Hypothesis,
    HypothesisClass,
    PublicSample,
    check_binary,
)
from skpublicdp.hypotheses.splits import (
    Splits,
    check_table,
    cuts_of,
    public_splits,
    split_prior,
    stump_growth,
)
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Path
from skpublicdp.typing import Codes, Floats, Integers


class Conjunction(Hypothesis):
    """The second label where all literals hold, the first elsewhere.

    Parameters
    ----------
    splits : Splits
        One split per literal; without any, the rule is a constant.
    above : tuple of bool
        Whether each literal holds above its split, or below and on it.
    public : PublicSample
        Where the names are from.
    constant : int, default=1
        Code predicted without literals.
    """

    def __init__(
        self, splits: Splits, above: tuple[bool, ...], public: PublicSample, constant: int = 1
    ) -> None:
        self.splits = splits
        self.above = above
        last = len(public.classes) - 1
        self._codes = (0, last) if above else (min(constant, last),) * 2
        self._labels = [str(public.classes[code]) for code in self._codes]
        self._names = public.feature_names

    def predict(self, X: Floats) -> Codes:
        """Return the code of each row."""
        sides = self.splits.above(X) == 1
        holds = (sides == np.array(self.above, dtype=bool)[:, None]).all(axis=0)
        return np.where(holds, self._codes[1], self._codes[0]).astype(np.intp)

    def rule(self) -> str:
        """Return `if literal and literal: predict label, else: predict label`."""
        if not self.above:
            return f"predict {self._labels[1]}"
        literals = [
            self.splits.describe(index, self._names, above=above)
            for index, above in enumerate(self.above)
        ]
        condition = " and ".join(dict.fromkeys(literals))
        return (
            f"if {condition}:\n    predict {self._labels[1]}\nelse:\n    predict {self._labels[0]}"
        )


class ConjunctionCover(Cover):
    """All conjunctions of a number of literals, repetitions included, and both constants.

    Parameters
    ----------
    splits : Splits
        The splits.
    literals : int
        1, 2 or 3. A repeated literal makes a shorter rule.
    prior : ndarray of int64, shape (n_splits,)
        Prior weight of each split.
    public : PublicSample
        Where the names are from.
    """

    def __init__(
        self, splits: Splits, literals: int, prior: Integers, public: PublicSample
    ) -> None:
        self.splits = splits
        self.literals = literals if len(splits) else 0
        self._prior = np.concatenate([prior, prior])
        self._public = public

    @property
    def size(self) -> int:
        """Number of conjunctions and constants, a Python int."""
        conjunctions: int = (2 * len(self.splits)) ** self.literals if self.literals else 0
        return conjunctions + 2

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Weigh each label above single splits, pairs or triples: `Splits.tabulate`."""
        return self.splits.tabulate(X, y, weights, len(self._public.classes), self.literals)

    def family(self, table: Integers) -> Family:
        """Return the conjunctions as nested choices of a literal."""
        # where a rule holds the first label errs, elsewhere the last one; a lone label never errs
        gain = table[0] - table[-1]
        positive = int(table[-1].flat[0]) if len(table) > 1 else 0
        always = positive + int(gain.flat[0])
        constants = Leaf(np.array([positive, always], dtype=np.int64))
        if not self.literals:
            return constants

        def build(start: int, stop: int) -> Family:
            return self._rest(positive, _literals(gain, 0)[start:stop], self.literals - 1)

        n_literals = 2 * len(self.splits)
        step = max(1, MAX_BLOCK_ERRORS // n_literals ** (self.literals - 1))
        return OneOf([Choice(Lazy(n_literals, build, step), self._prior), constants])

    def _rest(self, positive: int, gain: Integers, literals: int) -> Family:
        """Arrange (*batch, *literals * (splits + 1,)) gains as choices of that many literals."""
        if literals == 0:
            return Leaf(positive + gain[..., None])
        rest = self._rest(positive, _literals(gain, gain.ndim - literals), literals - 1)
        return Choice(rest, self._prior)

    def hypothesis(self, path: Path) -> Conjunction:
        """Return the rule that a path names."""
        chosen: list[int] = []
        if self.literals:
            option, inner = path
            path = inner
            if option == 0:
                for _ in range(self.literals):
                    literal, inner = inner
                    chosen.append(literal)
        # the first half of the literals holds above a split, the second half below it
        n_splits = len(self.splits)
        index = np.array([literal % n_splits for literal in chosen], dtype=np.intp)
        above = tuple(literal < n_splits for literal in chosen)
        constant = 0 if chosen else int(path)
        return Conjunction(self.splits[index], above, self._public, constant)


class Conjunctions(HypothesisClass):
    """The second label where up to three conditions hold, the first elsewhere.

    A condition (literal) is `feature > threshold` or `feature <= threshold`. Rules of two and three
    literals are drawn without being listed.

    Parameters
    ----------
    max_literals : {1, 2, 3}, default=2
        Number of literals; a repeated one makes a shorter rule.

    See Also
    --------
    Rectangles : Boxes with two ends for each feature.

    Examples
    --------
    >>> from skpublicdp.hypotheses import Conjunctions, PublicSample
    >>> X = np.random.default_rng(0).normal(size=(300, 10))
    >>> public = PublicSample(X, np.array(["no", "yes"]), tuple("abcdefghij"))
    >>> Conjunctions(max_literals=3).build_cover(public, alpha=0.05, beta=0.05).size
    54872002
    """

    def __init__(self, max_literals: int = 2) -> None:
        self.max_literals = max_literals

    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> ConjunctionCover:
        """Build the cover: splits at the public `alpha`-quantiles of every feature.

        Raises
        ------
        ValueError
            If `max_literals` is not 1, 2 or 3, or there are more than two labels.
        CoverSizeError
            If the table would not fit in memory.
        """
        check_binary(self, public)
        if self.max_literals not in (1, 2, 3):
            raise ValueError(f"max_literals must be 1, 2 or 3; got {self.max_literals!r}.")
        splits = public_splits(public, alpha)
        check_table(splits, public, self.max_literals, "use a smaller max_literals")
        prior = split_prior(splits, public, alpha)
        cover = ConjunctionCover(splits, int(self.max_literals), prior, public)
        features = range(public.X.shape[1])
        cover.cuts = cuts_of(public, alpha, features, int(self.max_literals), splits)
        cover.radius = cover.cuts.radius
        return cover

    def growth(self, m: int, n_features: int) -> int:
        """Bound the labelings of m rows: at most `max_literals` of the parts that splits make."""
        parts = stump_growth(m, n_features) - 2
        return growth_function(parts, int(self.max_literals)) + 1


def _literals(gain: Integers, axis: int) -> Integers:
    """Turn an axis of splits, the always-true one first, into one of literals: above, below."""
    whole, above = np.split(gain, [1], axis=axis)
    return np.concatenate([above, whole - above], axis=axis)
