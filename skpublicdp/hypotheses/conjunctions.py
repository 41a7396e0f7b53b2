"""Hypothesis class of conjunctions of up to three literals, as in "A and B and not C"."""

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
    measure_cuts,
    public_splits,
    split_prior,
    stump_growth,
)
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Path
from skpublicdp.typing import Codes, Floats, Integers


class Conjunction(Hypothesis):
    """Rule that predicts the second label if all literals hold, and the first label otherwise.

    Parameters
    ----------
    splits : Splits
        The splits, one for each literal. If there are no splits, the rule is a constant.
    above : tuple of bool
        For each literal, True for `x > threshold` and False for `x <= threshold`.
    public : PublicSample
        Source of the feature and label names.
    constant : int, default=1
        Label code that is predicted if there are no literals.
    """

    def __init__(
        self, splits: Splits, above: tuple[bool, ...], public: PublicSample, constant: int = 1
    ) -> None:
        self.splits = splits
        self.above = above
        last = len(public.classes) - 1
        # codes that are predicted if a literal fails, and if all literals hold
        self._codes = (0, last) if above else (min(constant, last),) * 2
        self._labels = [str(public.classes[code]) for code in self._codes]
        self._names = public.feature_names

    def predict(self, X: Floats) -> Codes:
        """Return the predicted label code of each row."""
        is_above = self.splits.indicators(X) == 1
        holds = (is_above == np.array(self.above, dtype=bool)[:, None]).all(axis=0)
        return np.where(holds, self._codes[1], self._codes[0]).astype(np.intp)

    def rule(self) -> str:
        """Return the rule as text: the condition, and the label it predicts in either case."""
        if not self.above:
            return f"predict {self._labels[1]}"
        literals = [
            self.splits.describe(index, self._names, above=above)
            for index, above in enumerate(self.above)
        ]
        condition = " and ".join(dict.fromkeys(literals))  # without repetitions
        label_otherwise, label = self._labels
        return f"if {condition}:\n    predict {label}\nelse:\n    predict {label_otherwise}"


class ConjunctionCover(Cover):
    """Cover that contains all conjunctions with a fixed number of literals, and both constants.

    Parameters
    ----------
    splits : Splits
        The splits.
    literals : int
        Number of literals: 1, 2 or 3. Literals can be repeated, which yields a shorter rule.
    prior : ndarray of int64, shape (n_splits,)
        Prior weight of each split.
    public : PublicSample
        Source of the feature and label names.
    """

    def __init__(
        self, splits: Splits, literals: int, prior: Integers, public: PublicSample
    ) -> None:
        self.splits = splits
        self.literals = literals if len(splits) else 0
        self._prior = np.concatenate([prior, prior])  # both literals of a split have its weight
        self._public = public

    @property
    def size(self) -> int:
        """Number of conjunctions and constants, as a Python int."""
        conjunctions: int = (2 * len(self.splits)) ** self.literals if self.literals else 0
        return conjunctions + 2

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the weight of rows by label and by the splits that they exceed.

        The shape is (n_classes,) + literals * (n_splits + 1,), where index 0 stands for no split.
        """
        return self.splits.tabulate(X, y, weights, len(self._public.classes), self.literals)

    def family(self, table: Integers) -> Family:
        """Return the error counts of all conjunctions, as nested choices of one literal.

        A conjunction mislabels the rows with the first label for which it holds and the rows with
        the last label for which it does not hold. The error count of a conjunction is therefore the
        weight of the last label plus the excess weight of the first label where the conjunction
        holds. With a single label, all error counts are 0.
        """
        excess = table[0] - table[-1]
        # the first entry, for the conditions that are always true, is the total over all rows
        last_label_weight = int(table[-1].flat[0]) if len(table) > 1 else 0
        first_label_weight = last_label_weight + int(excess.flat[0])
        # the constant first label makes errors on the last label, and vice versa
        constants = np.array([last_label_weight, first_label_weight], dtype=np.int64)
        if not self.literals:
            return Leaf(constants)

        def build(start: int, stop: int) -> Family:
            """Return the conjunctions whose first literal is in ``start:stop``."""
            excess_of_first = _sum_by_literal(excess, 0)[start:stop]
            return self._conjunctions(last_label_weight, excess_of_first, self.literals - 1)

        n_literals = 2 * len(self.splits)
        step = max(1, MAX_BLOCK_ERRORS // n_literals ** (self.literals - 1))
        return OneOf([Choice(Lazy(n_literals, build, step), self._prior), Leaf(constants)])

    def _conjunctions(self, base_errors: int, excess: Integers, n_literals: int) -> Family:
        """Return nested choices of the remaining literals."""
        if n_literals == 0:
            return Leaf(base_errors + excess[..., None])  # a family of one conjunction each
        excess = _sum_by_literal(excess, excess.ndim - n_literals)
        return Choice(self._conjunctions(base_errors, excess, n_literals - 1), self._prior)

    def hypothesis(self, path: Path) -> Conjunction:
        """Return the rule that a given path in `family` leads to.

        With two literals, the path is (0, (first literal, (second literal, 0))), or (1, code) for a
        constant. Without literals, the path is the label code.
        """
        literals: list[int] = []
        if self.literals:
            option, inner = path
            path = inner
            if option == 0:
                for _ in range(self.literals):
                    literal, inner = inner
                    literals.append(literal)
        # literals i and n_splits + i are `x > threshold` and `x <= threshold` for split i
        n_splits = len(self.splits)
        index = np.array([literal % n_splits for literal in literals], dtype=np.intp)
        above = tuple(literal < n_splits for literal in literals)
        constant = 0 if literals else int(path)
        return Conjunction(self.splits[index], above, self._public, constant)


class Conjunctions(HypothesisClass):
    """Conjunctions of up to three conditions: rules that predict the second label if all hold.

    A condition (literal) is `feature > threshold` or `feature <= threshold`. Rules with two or
    three literals are drawn without enumerating all of them.

    Parameters
    ----------
    max_literals : {1, 2, 3}, default=2
        Number of literals. Literals can be repeated, which yields a shorter rule.

    See Also
    --------
    Rectangles : Boxes that are bounded on both sides in each feature.

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
        """Build the cover: splits at the `alpha`-quantiles of every feature in the public rows.

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
        cover.cuts = measure_cuts(public, alpha, features, int(self.max_literals), splits)
        cover.radius = cover.cuts.radius
        return cover

    def growth(self, m: int, n_features: int) -> int:
        """Return a bound on the number of ways in which conjunctions can label m rows.

        A rule is the intersection of at most `max_literals` subsets defined by splits.
        """
        n_subsets = stump_growth(m, n_features) - 2
        return growth_function(n_subsets, int(self.max_literals)) + 1


def _sum_by_literal(values: Integers, axis: int) -> Integers:
    """Return sums over the rows for which each literal holds."""
    total, above = np.split(values, [1], axis=axis)
    return np.concatenate([above, total - above], axis=axis)
