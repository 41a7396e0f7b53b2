"""Covers built from explicit lists: hypotheses, fitted classifiers and unions of classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.metaestimators import available_if

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
"""Maximum number of public rows on which each model is tested, which limits the running time."""

MASS_RESOLUTION = 1 << 10
"""Relative precision to which the prior masses of many classes are made equal: 1 / 1024."""

MAX_EXACT_PRIOR_BITS = 128
"""Maximum number of binary digits in prior weights for which the masses are made exactly equal."""


class ListedCover(Cover):
    """A cover defined by an explicit list of prediction rules.

    Parameters
    ----------
    hypotheses : sequence of Hypothesis
        A list with at least one hypothesis.
    """

    def __init__(self, hypotheses: Sequence[Hypothesis]) -> None:
        self.hypotheses = tuple(hypotheses)

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return len(self.hypotheses)

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the weighted error count of each hypothesis, shape (size,)."""
        errors = [weights[rule.predict(X) != y].sum() for rule in self.hypotheses]
        return np.array(errors, dtype=np.int64)

    def family(self, table: Integers) -> Family:
        """Return the error counts of all hypotheses, as an unstructured family (`Leaf`)."""
        return Leaf(table)

    def hypothesis(self, path: Path) -> Hypothesis:
        """Return the hypothesis with a given list index."""
        return self.hypotheses[path]


class ClassifierHypothesis(Hypothesis):
    """A fitted classifier used as a hypothesis, with warnings and error messages suppressed.

    Parameters
    ----------
    model : classifier
        Fitted classifier with an attribute `classes_`.
    public : PublicSample
        Source of the labels.
    """

    def __init__(self, model: Any, public: PublicSample) -> None:
        self.model = model
        self._codes = np.searchsorted(public.classes, model.classes_)

    def predict(self, X: Floats) -> Codes:
        """Return the label code that the model predicts for each row."""
        if not len(X):  # models of scikit-learn raise an error for an empty array
            return np.zeros(0, dtype=np.intp)
        error = ValueError(
            f"models must accept any row of finite numbers, but {type(self.model).__name__} raised "
            "an error. The error message is withheld because it may quote private rows."
        )
        # an error message of the model may quote private rows
        return call_or_raise(self._predict_codes, X, error=error)

    def _predict_codes(self, X: Floats) -> Codes:
        """Return the model's predictions as codes: indices into the sample's sorted labels."""
        model = deepcopy(self.model)  # which might keep the rows that it predicts
        model_indices = np.searchsorted(model.classes_, model.predict(X))
        return np.asarray(self._codes[model_indices], dtype=np.intp)

    def rule(self) -> str:
        """Return the model's own representation on a single line."""
        return f"predict by {' '.join(repr(self.model).split())}"


class FiniteClass(HypothesisClass):
    """A finite list of fitted classifiers.

    Parameters
    ----------
    models : sequence of fitted classifiers
        Models that were trained without the private rows: on public rows, on other data, or by a
        private learner whose receipt is counted. The privacy guarantee does not cover information
        about private rows that a model already contains. Each model must predict any finite row,
        and its prediction for a row must depend on that row only: a pipeline with
        `FunctionTransformer(scale)` does not qualify. The receipt states this assumption. The
        assumption is tested on public rows, and a model that violates it there is rejected.
    vc_dimension : int, default=None
        VC dimension of the models with two labels, or an upper bound. The value is not verified,
        and `guarantee_reason_` states this. ``None`` bounds the number of labellings by the number
        of models, so the base-2 logarithm of this number bounds the VC dimension.

    See Also
    --------
    Union : Combines models with classes that are covered using public rows.

    Notes
    -----
    `build_cover` ignores `alpha`, since the class is finite and serves as its own cover.

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

    _assumptions = ("the prediction of a FiniteClass model for a row depends on that row alone",)

    def __init__(self, models: Sequence[Any], vc_dimension: int | None = None) -> None:
        self.models = models
        self.vc_dimension = vc_dimension

    def __sklearn_clone__(self) -> FiniteClass:
        """Return a copy with the same models; `clone` would replace them with unfitted models."""
        return FiniteClass(self.models, self.vc_dimension)

    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> ListedCover:
        """Return a cover that consists of the models.

        Raises
        ------
        ValueError
            If there are no models, if a model is not fitted on some of the labels, if
            `vc_dimension` is not an integer, or if a model's prediction for a public row depends on
            other public rows.
        """
        if self.vc_dimension is not None:
            check_count("vc_dimension", self.vc_dimension, minimum=0)
        if not len(self.models):
            raise ValueError("models must contain at least one fitted classifier; got none.")
        for model in self.models:
            if not np.isin(getattr(model, "classes_", [None]), public.classes).all():
                raise ValueError(
                    f"models must be classifiers fitted to the labels {public.classes.tolist()}, "
                    f"but {type(model).__name__} is not fitted or has other labels."
                )
        cover = ListedCover([ClassifierHypothesis(model, public) for model in self.models])
        rows = public.X[:MAX_TESTED_ROWS]
        for rule, model in zip(cover.hypotheses, self.models, strict=True):
            # predictions for all rows together are compared with predictions for two rows on their
            # own
            if couples_rows(rule.predict, rows, len(rows), np.ndarray.__getitem__, n_single=2):
                raise ValueError(
                    "models must predict each row independently of other rows, but the prediction "
                    f"of {type(model).__name__} for a public row depends on other public rows. "
                    "Remove any step that computes statistics of the rows that it transforms."
                )
        # the class is its own cover, so its distance from the cover is 0
        cover.radius = 0.0
        n_rows = max(len(public.X), 1)
        cover.cuts = Cuts(per_rule=0, columns=0, rows=n_rows, missed=0, allowed=0, merged=False)
        return cover

    def growth(self, m: int, n_features: int) -> int:
        """Return a bound on the number of ways in which the models can label m rows."""
        bound = min(1 << m, len(self.models))
        if self.vc_dimension is None:
            return bound
        return min(bound, growth_function(m, self.vc_dimension))


class UnionCover(Cover):
    """Union of several covers, which have equal prior masses before refinement.

    Parameters
    ----------
    covers : sequence of Cover
        At least one cover.
    public : PublicSample
        Public rows, whose columns determine the shapes of the tables.
    inverse_masses : sequence of int, optional
        Divisor of the prior mass of each cover; the default is 1. A refined cover represents only
        part of its class, so its mass is divided by the number of such parts.
    """

    def __init__(
        self,
        covers: Sequence[Cover],
        public: PublicSample,
        inverse_masses: Sequence[int] | None = None,
    ) -> None:
        self.covers = tuple(covers)
        self.inverse_masses = tuple(inverse_masses or [1] * len(covers))
        self._public = public
        # the shape of a table depends only on the cover, so it can be computed from zero rows
        no_rows = public.X[:0]
        no_labels = np.zeros(0, np.intp)
        no_weights = np.zeros(0, np.int64)
        tables = [cover.tabulate(no_rows, no_labels, no_weights) for cover in covers]
        self._shapes = [table.shape for table in tables]
        rounds = [cover.rounds for cover in covers]
        self.rounds = "auto" if "auto" in rounds else max(map(int, rounds))

    @property
    def refinable_members(self) -> Cover:
        """Union of the covers with several rounds; all others only take part in the last draw."""
        refinable = [
            (cover.refinable_members, divisor)
            for cover, divisor in zip(self.covers, self.inverse_masses, strict=True)
            if cover.rounds != 1
        ]
        if not refinable:
            return self
        covers, inverse_masses = zip(*refinable, strict=True)
        return covers[0] if len(covers) == 1 else UnionCover(covers, self._public, inverse_masses)

    def refine(self, hypothesis: Hypothesis, step: int) -> Cover:
        """Return the union of all covers, refined around a released hypothesis.

        A refined cover keeps a fraction 1 / size of the prior mass of its class. Otherwise, the
        refined cover would be preferred to covers with better members, merely because nearly all of
        its members are copies of one good rule. Further refinements keep this mass, because
        neighbours at smaller distances make mostly the same predictions.
        """
        refined = [cover.refine(hypothesis, step) for cover in self.covers]
        has_changed = False
        inverse_masses = []
        for old, new, divisor in zip(self.covers, refined, self.inverse_masses, strict=True):
            is_refined = new is not old
            has_changed |= is_refined
            inverse_masses.append(max(divisor, old.size) if is_refined else divisor)
        return UnionCover(refined, self._public, inverse_masses) if has_changed else self

    @property
    def size(self) -> int:
        """Total number of members of all covers, as a Python int."""
        return sum(cover.size for cover in self.covers)

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the tables of all covers, flattened and concatenated, shape (n_entries,)."""
        return np.concatenate([cover.tabulate(X, y, weights).ravel() for cover in self.covers])

    def family(self, table: Integers) -> Family:
        """Return the errors as a choice of a cover, followed by a choice of one of its members.

        The prior weights equalise the masses of all covers, which are then divided by
        `inverse_masses`.
        """
        table_ends = np.cumsum([math.prod(shape) for shape in self._shapes])
        flat_tables = np.split(table, table_ends[:-1])
        families = [
            cover.family(flat_table.reshape(shape))
            for cover, flat_table, shape in zip(self.covers, flat_tables, self._shapes, strict=True)
        ]
        masses = []
        for family, divisor in zip(families, self.inverse_masses, strict=True):
            prior_mass, _ = family.prior_range
            masses.append(prior_mass * divisor)
        common_multiple = math.lcm(*masses)
        # with many classes, exact weights may have hundreds of digits, so the masses are only
        # equalised approximately
        if common_multiple > max(masses) << MAX_EXACT_PRIOR_BITS:
            common_multiple = MASS_RESOLUTION * max(masses)
        return OneOf(families, [common_multiple // mass for mass in masses])

    def hypothesis(self, path: Path) -> Hypothesis:
        """Return the member at a given path: (index of the cover, path in that cover)."""
        index, inner = path
        cover: Cover = self.covers[index]
        return cover.hypothesis(inner)


_Growth = TypeVar("_Growth", bound=Callable[..., int])

_available_if_parts_have_growth: Callable[[_Growth], _Growth] = available_if(
    lambda union: all(hasattr(hypotheses, "growth") for hypotheses in union.classes)
)


class Union(HypothesisClass):
    """Union of several classes with equal prior probabilities.

    Parameters
    ----------
    classes : sequence of HypothesisClass
        A sequence with at least one class. With k classes, the logarithm of the effective cover
        size is ln k larger than for the best class alone.

    See Also
    --------
    FiniteClass : An explicit list of classifiers.

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
            If there is no class.
        """
        if not len(self.classes):
            raise ValueError("classes must contain at least one hypothesis class; got none.")
        covers = [
            hypotheses.build_cover(public, alpha=alpha, beta=beta) for hypotheses in self.classes
        ]
        union = UnionCover(covers, public)
        radii = [cover.radius for cover in covers if cover.radius is not None]
        if len(radii) == len(covers):
            union.radius = max(radii)
        cuts_of_covers = [cover.cuts for cover in covers if cover.cuts is not None]
        if len(cuts_of_covers) == len(covers):
            # for each other field, the maximum is a bound that holds for every class
            n_columns = sum(cuts.columns for cuts in cuts_of_covers)
            union.cuts = Cuts(
                per_rule=max(cuts.per_rule for cuts in cuts_of_covers),
                columns=n_columns,
                rows=max(cuts.rows for cuts in cuts_of_covers),
                missed=max(cuts.missed for cuts in cuts_of_covers),
                allowed=max(cuts.allowed for cuts in cuts_of_covers),
                merged=any(cuts.merged for cuts in cuts_of_covers),
            )
        return union

    @_available_if_parts_have_growth
    def growth(self, m: int, n_features: int) -> int:
        """Return a bound on the number of ways in which the classes can label m rows."""
        classes: list[Any] = list(self.classes)  # `growth` is not a method of the base class
        return sum(hypotheses.growth(m, n_features) for hypotheses in classes)
