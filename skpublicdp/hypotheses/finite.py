"""Classes made of other things: listed hypotheses, fitted models, unions of classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from skpublicdp._internal.coupling import couples_rows
from skpublicdp._internal.redaction import call_or_raise
from skpublicdp.guarantees import Cuts, growth_function
from skpublicdp.hypotheses.base import (
    Cover,
    Hypothesis,
    HypothesisClass,
    PublicSample,
    check_count,
)
from skpublicdp.mechanisms.families import Family, Leaf, OneOf, Path
from skpublicdp.typing import Codes, Floats, Integers

MAX_TESTED_ROWS = 100
"""Maximum number of public rows on which each model is tried, a matter of time."""

MASS_RESOLUTION = 1 << 10
"""Masses of many classes are equal up to one part in so many."""


class ListedCover(Cover):
    """A cover whose hypotheses are listed one by one.

    Parameters
    ----------
    hypotheses : sequence of Hypothesis
        At least one.
    """

    def __init__(self, hypotheses: Sequence[Hypothesis]) -> None:
        self.hypotheses = tuple(hypotheses)

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return len(self.hypotheses)

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the errors of each hypothesis, shape (size,)."""
        return np.array([weights[h.predict(X) != y].sum() for h in self.hypotheses], dtype=np.int64)

    def family(self, table: Integers) -> Family:
        """Return the errors as one leaf."""
        return Leaf(table)

    def hypothesis(self, path: Path) -> Hypothesis:
        """Return the hypothesis at an index."""
        member: Hypothesis = self.hypotheses[path]
        return member


class ClassifierHypothesis(Hypothesis):
    """A fitted classifier as a hypothesis; of what it says only its predictions are heard.

    Parameters
    ----------
    model : classifier
        Fitted, with `classes_`.
    public : PublicSample
        Where the labels are from.
    """

    def __init__(self, model: Any, public: PublicSample) -> None:
        self.model = model
        self._codes = np.searchsorted(public.classes, model.classes_)

    def predict(self, X: Floats) -> Codes:
        """Return the code of the model's label for each row."""
        if not len(X):  # scikit-learn's models refuse to predict nothing
            return np.zeros(0, dtype=np.intp)
        refusal = ValueError(
            f"models must predict any finite row; {type(self.model).__name__} could not, and "
            "what it says is withheld."
        )
        codes: Codes = call_or_raise(self._predicted, X, error=refusal)  # it may quote private rows
        return codes

    def _predicted(self, X: Floats) -> Codes:
        position = np.searchsorted(self.model.classes_, self.model.predict(X))
        return np.asarray(self._codes[position], dtype=np.intp)

    def rule(self) -> str:
        """Return the model's own representation on one line."""
        return f"predict by {' '.join(repr(self.model).split())}"


class FiniteClass(HypothesisClass):
    """Fitted classifiers to choose from.

    Parameters
    ----------
    models : sequence of fitted classifiers
        They must have been trained without any private row: on public rows, on other data, or by
        a private learner whose receipt is counted. What they know of private rows is not covered.
        Each must predict any finite row, and its prediction must depend on that row alone: a
        pipeline with `FunctionTransformer(scale)` does not qualify. The receipt states this
        assumption. It is tried on public rows, and a model that fails is refused.
    vc_dimension : int, default=None
        VC dimension of the models of two labels, or a bound on it. It is taken on trust: what a
        learner promises by it says so in `guarantee_reason_`. ``None`` bounds the number of
        labelings by the number of models alone, which is a VC dimension of log2 of that number.

    See Also
    --------
    Union : Your rules beside classes that public rows choose.

    Notes
    -----
    `build_cover` ignores `alpha`: the class is finite, and is its own cover.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skpublicdp.hypotheses import FiniteClass, PublicSample
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 0, 1])
    >>> models = [LogisticRegression(C=C).fit(X, y) for C in (0.1, 1.0, 10.0)]
    >>> public = PublicSample(X, np.array([0, 1]), ("x0",))
    >>> FiniteClass(models).build_cover(public, alpha=0.05, beta=0.05).size
    3
    >>> from skpublicdp.guarantees import vc_dimension
    >>> many = 100 * models
    >>> vc_dimension(FiniteClass(many), 1), vc_dimension(FiniteClass(many, vc_dimension=1), 1)
    (8, 1)
    """

    _assumptions = ("what a model of FiniteClass predicts for a row depends on that row alone",)

    def __init__(self, models: Sequence[Any], vc_dimension: int | None = None) -> None:
        self.models = models
        self.vc_dimension = vc_dimension

    def __sklearn_clone__(self) -> FiniteClass:
        """Keep the models as they are: scikit-learn would clone them, and forget their fits."""
        return FiniteClass(self.models, self.vc_dimension)

    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> ListedCover:
        """List the models.

        Raises
        ------
        ValueError
            If there are none, if one is not fitted on some of the labels, if `vc_dimension` is no
            whole number, or if the prediction of one for a public row is seen to depend on other
            public rows.
        """
        if self.vc_dimension is not None:
            check_count("vc_dimension", self.vc_dimension, least=0)
        if not len(self.models):
            raise ValueError("models must hold at least one fitted classifier; got none.")
        for model in self.models:
            if not np.isin(getattr(model, "classes_", [None]), public.classes).all():
                raise ValueError(
                    f"models must be fitted classifiers of the labels {public.classes.tolist()}; "
                    f"{type(model).__name__} is not fitted or has other labels."
                )
        cover = ListedCover([ClassifierHypothesis(model, public) for model in self.models])
        rows = public.X[:MAX_TESTED_ROWS]
        for rule, model in zip(cover.hypotheses, self.models, strict=True):
            if couples_rows(rule.predict, rows, len(rows), np.ndarray.__getitem__, alone=2):
                raise ValueError(
                    f"models must predict each row on its own, and the prediction of "
                    f"{type(model).__name__} for a public row depends on other public rows; "
                    "leave out steps that use statistics of the rows they transform."
                )
        cover.radius = 0.0
        cover.cuts = Cuts(0, 0, max(len(public.X), 1), 0, 0, merged=False)
        return cover

    def growth(self, m: int, n_features: int) -> int:
        """Bound the labelings of m rows by the number of models, and by Sauer's lemma."""
        bound = min(1 << m, len(self.models))
        return (
            bound
            if self.vc_dimension is None
            else min(bound, growth_function(m, self.vc_dimension))
        )


class UnionCover(Cover):
    """The members of several covers, each cover with the same prior mass until it is refined.

    Parameters
    ----------
    covers : sequence of Cover
        At least one.
    public : PublicSample
        Where the shapes of their tables are tried.
    rarities : sequence of int, optional
        A cover stands for one in so many parts of its class, and has as much less mass; 1 by
        default.
    """

    def __init__(
        self, covers: Sequence[Cover], public: PublicSample, rarities: Sequence[int] | None = None
    ) -> None:
        self.covers = tuple(covers)
        self.rarities = tuple(rarities or [1] * len(self.covers))
        self._public = public
        none = public.X[:0], np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int64)
        self._shapes = [cover.tabulate(*none).shape for cover in self.covers]
        rounds = [cover.rounds for cover in self.covers]
        self.rounds = "auto" if "auto" in rounds else max(map(int, rounds))

    @property
    def scouts(self) -> Cover:
        """The union of the covers with several rounds: the others wait for the last draw."""
        parts = zip(self.covers, self.rarities, strict=True)
        scouts = [(cover.scouts, rarity) for cover, rarity in parts if cover.rounds != 1]
        if not scouts:
            return self
        covers, rarities = zip(*scouts, strict=True)
        return covers[0] if len(covers) == 1 else UnionCover(covers, self._public, rarities)

    def refined(self, hypothesis: Hypothesis, step: int) -> Cover:
        """Return the union of what each cover makes of a released hypothesis.

        There are as many finer covers as members to refine. With all of the mass of its class, the
        one that is made would win against covers with better members: nearly all of its are good.
        What is refined once more counts no further: neighbours at that distance share most of it.
        """
        finer = [cover.refined(hypothesis, step) for cover in self.covers]
        if all(one is other for one, other in zip(finer, self.covers, strict=True)):
            return self
        rarities = [
            rarity if one is other else max(rarity, other.size)
            for one, other, rarity in zip(finer, self.covers, self.rarities, strict=True)
        ]
        return UnionCover(finer, self._public, rarities)

    @property
    def size(self) -> int:
        """Number of members of all covers, a Python int."""
        return sum(cover.size for cover in self.covers)

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the tables of all covers end to end, shape (entries,)."""
        return np.concatenate([cover.tabulate(X, y, weights).ravel() for cover in self.covers])

    def family(self, table: Integers) -> Family:
        """Return a choice of a cover, then of a member of it."""
        ends = np.cumsum([math.prod(shape) for shape in self._shapes])[:-1]
        tables = zip(self.covers, np.split(table, ends), self._shapes, strict=True)
        families = [cover.family(part.reshape(shape)) for cover, part, shape in tables]
        masses = [
            family.prior_range[0] * rarity
            for family, rarity in zip(families, self.rarities, strict=True)
        ]
        common = math.lcm(*masses)
        if common > max(masses) << 128:  # that of many may have hundreds of digits
            common = MASS_RESOLUTION * max(masses)
        return OneOf(families, [common // mass for mass in masses])

    def hypothesis(self, path: Path) -> Hypothesis:
        """Return the member of one cover."""
        chosen, inner = path
        cover: Cover = self.covers[chosen]
        return cover.hypothesis(inner)


class Union(HypothesisClass):
    """Any rule of several classes; before the draw each class is equally likely.

    Parameters
    ----------
    classes : sequence of HypothesisClass
        At least one. Choosing among k of them costs ln k more than knowing which one is best.

    See Also
    --------
    FiniteClass : Rules that you list.

    Examples
    --------
    >>> from skpublicdp.hypotheses import Intervals, PublicSample, Stumps, Union
    >>> public = PublicSample(np.array([[1.0], [2.0]]), np.array([0, 1]), ("age",))
    >>> Union([Stumps(), Intervals()]).build_cover(public, alpha=0.05, beta=0.05).size
    8
    """

    def __init__(self, classes: Sequence[HypothesisClass]) -> None:
        self.classes = classes

    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> UnionCover:
        """Build the covers of all classes.

        Raises
        ------
        ValueError
            If there are none.
        """
        if not len(self.classes):
            raise ValueError("classes must hold at least one hypothesis class; got none.")
        covers = [one.build_cover(public, alpha=alpha, beta=beta) for one in self.classes]
        union = UnionCover(covers, public)
        reached = [cover.radius for cover in covers]
        known = [radius for radius in reached if radius is not None]
        union.radius = max(known) if len(known) == len(reached) else None
        cuts = [cover.cuts for cover in covers if cover.cuts is not None]
        if len(cuts) == len(covers):
            # of the worst in every respect, each of which holds for all
            columns = sum(one.columns for one in cuts)
            fields = zip(*(one._replace(columns=columns) for one in cuts), strict=True)
            union.cuts = Cuts(*map(max, fields))
        return union

    def growth(self, m: int, n_features: int) -> int:
        """Bound the labelings of m rows by the sum over the classes."""
        bounds: list[Any] = list(self.classes)
        return sum(one.growth(m, n_features) for one in bounds)
