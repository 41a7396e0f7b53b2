"""Corrections of a public model: the unchanged model, and versions modified by rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from skpublicdp.hypotheses.base import (
    Cover,
    Hypothesis,
    HypothesisClass,
    PublicSample,
    check_binary,
)
from skpublicdp.hypotheses.finite import ClassifierHypothesis, FiniteClass, UnionCover
from skpublicdp.hypotheses.trees import DecisionTrees
from skpublicdp.mechanisms.families import Family, Path
from skpublicdp.typing import Codes, Floats, Integers

AGREES, DIFFERS = "as the model", "unlike the model"
"""Labels used by the rules that correct a model. The labels are sorted, as required."""


class CorrectedHypothesis(Hypothesis):
    """A binary model whose prediction is changed where a rule predicts `DIFFERS`.

    Parameters
    ----------
    model : ClassifierHypothesis
        The model.
    correction : Hypothesis
        Rule whose label code 1 means that the other label is predicted.
    """

    def __init__(self, model: ClassifierHypothesis, correction: Hypothesis) -> None:
        self.model, self.correction = model, correction

    def predict(self, X: Floats) -> Codes:
        """Return the predicted label code of each row, shape (n,)."""
        return self.model.predict(X) ^ self.correction.predict(X)

    def rule(self) -> str:
        """Return the text of the correction rule, followed by the model."""
        return f"{self.correction.rule()}\nwhere the model is {self.model.rule()}"


class CorrectedCover(Cover):
    """Cover that consists of corrections of a model by the members of another cover.

    A corrected rule mislabels a row if and only if the correction mislabels it with respect to the
    label "the model is wrong here". The table is therefore that of the other cover, computed for
    these labels.

    Parameters
    ----------
    model : ClassifierHypothesis
        The model.
    corrections : Cover
        Cover of the rules that correct the model.
    """

    def __init__(self, model: ClassifierHypothesis, corrections: Cover) -> None:
        self.model, self.corrections = model, corrections
        self.rounds = corrections.rounds
        self.radius, self.cuts = corrections.radius, corrections.cuts

    @property
    def refinable_members(self) -> Cover:
        """Corrections by those members that have finer covers."""
        return self._of(self.corrections.refinable_members)

    def refine(self, hypothesis: Hypothesis, step: int) -> Cover:
        """Return the corrections by members of a finer cover around a released hypothesis."""
        if isinstance(hypothesis, CorrectedHypothesis):
            hypothesis = hypothesis.correction
        return self._of(self.corrections.refine(hypothesis, step))

    def _of(self, corrections: Cover) -> Cover:
        """Return the cover with the given corrections, or this cover if they are unchanged."""
        if corrections is self.corrections:
            return self
        return CorrectedCover(self.model, corrections)

    @property
    def size(self) -> int:
        """Number of corrections."""
        return self.corrections.size

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the correction table for labels that indicate where the model makes errors."""
        is_error = (self.model.predict(X) != y).astype(np.intp)
        return self.corrections.tabulate(X, is_error, weights)

    def family(self, table: Integers) -> Family:
        """Return the error counts of all corrected rules."""
        return self.corrections.family(table)

    def hypothesis(self, path: Path) -> Hypothesis:
        """Return the model with the correction at a given path."""
        return CorrectedHypothesis(self.model, self.corrections.hypothesis(path))


_Growth = TypeVar("_Growth", bound=Callable[..., int])

_available_if_rules_have_growth: Callable[[_Growth], _Growth] = available_if(
    lambda corrections: hasattr(corrections._rules, "growth")
)


class Corrections(HypothesisClass):
    """A public binary model, and its corrections by the rules of a class.

    A correction predicts the other label wherever its rule applies, and agrees with the model
    elsewhere. Half of the prior mass is assigned to the unchanged model.

    Parameters
    ----------
    model : fitted classifier
        Model that was trained without the private rows, as in `FiniteClass`: it must predict any
        finite row, and its prediction for a row must depend on that row only.
    hypotheses : HypothesisClass, default=None
        Class of rules that identify the rows on which the model is wrong. The default class is
        trees of depth 2.

    See Also
    --------
    FiniteClass : Several models.
    skpublicdp.SemiPrivateBoostingClassifier : Its `public_model` is weighed by released sums.

    Notes
    -----
    Taking the exclusive or with a fixed model is a bijection between the dichotomies of
    `hypotheses` and those of the corrections. The VC dimension and the radius of the cover are
    therefore unchanged.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skpublicdp import SemiPrivateClassifier
    >>> from skpublicdp.hypotheses import Corrections, Stumps
    >>> rng = np.random.default_rng(0)
    >>> X, X_public = rng.integers(0, 9, size=(2000, 2)), rng.integers(0, 9, size=(100, 2))
    >>> model = DecisionTreeClassifier(max_depth=1).fit(X_public, X_public[:, 0] > 4)
    >>> y = (X[:, 0] > 4) ^ (X[:, 1] > 6)  # the model is wrong where x1 > 6
    >>> clf = SemiPrivateClassifier(Corrections(model, Stumps()), epsilon=1, random_state=0)
    >>> print(clf.fit(X, y, X_public=X_public).hypothesis_)
    if x1 > 6.5:
        predict unlike the model
    else:
        predict as the model
    where the model is predict by DecisionTreeClassifier(max_depth=1)
    """

    _assumptions = FiniteClass._assumptions

    def __init__(self, model: Any, hypotheses: HypothesisClass | None = None) -> None:
        self.model = model
        self.hypotheses = hypotheses

    def __sklearn_clone__(self) -> Corrections:
        """Return a copy with the same model; `clone` would replace it with an unfitted model."""
        return Corrections(self.model, clone(self.hypotheses, safe=False))

    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> Cover:
        """Return the cover of the model and its corrections.

        Raises
        ------
        ValueError
            If there are more than two labels, or if `FiniteClass` would reject the model.
        """
        check_binary(self, public)
        model = FiniteClass([self.model]).build_cover(public, alpha=alpha, beta=beta)
        (rule,) = model.hypotheses
        assert isinstance(rule, ClassifierHypothesis)
        n_labels = len(public.classes)
        names = np.array([AGREES, DIFFERS][:n_labels])
        where_wrong = PublicSample(public.X, names, public.feature_names)
        corrections = self._rules.build_cover(where_wrong, alpha=alpha, beta=beta)
        cover = UnionCover([model, CorrectedCover(rule, corrections)], public)
        cover.radius = corrections.radius
        cover.cuts = corrections.cuts
        return cover

    @property
    def _rules(self) -> HypothesisClass:
        """The rules that correct the model."""
        return DecisionTrees() if self.hypotheses is None else self.hypotheses

    @_available_if_rules_have_growth
    def growth(self, m: int, n_features: int) -> int:
        """Return a bound on the number of ways in which the corrected rules can label m rows."""
        rules: Any = self._rules  # `growth` is not a method of the base class
        bound: int = rules.growth(m, n_features) + 1
        return min(1 << m, bound)
