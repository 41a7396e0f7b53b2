"""Bounds on the excess population error of LabelBoost (docs/proofs/label_boost.md)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from skpublicdp.guarantees import BaseAccuracy, Promise
from skpublicdp.guarantees.label_boost import LabellerDraw, labeller_error, relative_deviation_bound
from skpublicdp.guarantees.population import capped_guarantee, log_growth
from skpublicdp.hypotheses import (
    DecisionTrees,
    FiniteClass,
    Halfspaces,
    HypothesisClass,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
)
from skpublicdp.label_boost.plan import LabelBoostPlan
from skpublicdp.rules.cover_classifier import class_or_default
from skpublicdp.rules.population_guarantee import (
    ADDED_ROWS,
    base_learner_guarantee,
    no_guarantee,
    with_class_assumptions,
)
from skpublicdp.rules.semi_private import SemiPrivateClassifier
from skpublicdp.typing import Floats

UNPROVED_BASE_LEARNER = (
    "for rows with drawn labels, the base learner must be a SemiPrivateClassifier whose hypotheses "
    "include the labelling rules; any other base learner requires a base_accuracy"
)

UNUSED_ACCURACY = (
    "base_accuracy only applies to rows with drawn labels, but no row was relabelled; provide more "
    "unlabelled rows"
)

TOO_MANY_LABELS = "base_accuracy declares a VC dimension, which is only defined for two labels"


def label_boost_guarantee(
    plan: LabelBoostPlan,
    hypotheses: HypothesisClass,
    base: Any,
    beta: float,
    n_base: int,
    log_n_labelings: Callable[[Any], Floats],
    base_accuracy: BaseAccuracy | None = None,
    n_classes: int = 2,
) -> Promise:
    """Return the guarantee of LabelBoost: the relabelling error plus the base learner's error.

    The bound applies to the excess population error over the best rule of `hypotheses`, the class
    used for relabelling, and may fail with probability `beta`. If there are no rounds, the
    guarantee is that of the base learner. With at least one round, the bound requires a
    `SemiPrivateClassifier` or a declared accuracy of the base learner.

    Parameters
    ----------
    plan : LabelBoostPlan
        Sizes and budgets of the fit.
    hypotheses : HypothesisClass
        The class used for relabelling.
    base : classifier
        The base learner, fitted to `n_base` rows.
    beta : float
        Probability with which the bound may fail.
    n_base : int
        Number of rows to which the base learner was fitted.
    log_n_labelings : callable
        Upper bound on the logarithm of the number of labellings, as a function of the number of
        rows.
    base_accuracy : BaseAccuracy, optional
        Declared accuracy of the base learner.
    n_classes : int, default=2
        Number of labels.
    """
    if not plan.rounds:
        if n_base > plan.base_rows:
            return no_guarantee(ADDED_ROWS)
        guarantee = base_learner_guarantee(base, beta)
        is_unused = guarantee.bound is None and base_accuracy is not None
        return no_guarantee(UNUSED_ACCURACY) if is_unused else guarantee
    labellers = [
        LabellerDraw(
            relabelling.sampled_labelled, relabelling.n_relabelled, float(relabelling.epsilon)
        )
        for relabelling in plan.rounds
    ]
    relabelling_error = labeller_error(labellers, lambda n: float(log_n_labelings(n)), beta / 2)
    if base_accuracy is not None:
        why = _why_accuracy_does_not_apply(n_base, plan.base_rows, n_classes)
        if why:
            return no_guarantee(why)
        base_error = _declared_disagreement(
            base_accuracy,
            plan.base_rows,
            plan.base_epsilon,
            log_labellers=float(log_n_labelings(2 * plan.base_rows)),
            beta=beta / 2,
        )
        guarantee = _sum_guarantee(relabelling_error, base_error, beta, declared=True)
        return with_class_assumptions(guarantee, hypotheses)
    if type(base) is not SemiPrivateClassifier or not _is_subclass(hypotheses, base.hypotheses):
        return no_guarantee(UNPROVED_BASE_LEARNER)
    # the cover of such a class contains all of its rules for any public rows
    is_own_cover = type(base.hypotheses) is FiniteClass or (
        type(base.hypotheses) is Rectangles and base.hypotheses.cuts is not None
    )
    # The guarantee of the base learner includes the radius of its cover, which may fail with at
    # most half of the base learner's beta. A class that is its own cover has no such term, so its
    # beta does not matter.
    base_guarantee = base_learner_guarantee(base, None if is_own_cover else beta / 2)
    if base_guarantee.bound is None:
        return base_guarantee
    log_pairs = math.log(base.cover_size_) + float(log_n_labelings(2 * plan.base_rows))
    base_error = _disagreement_with_labeller(
        plan,
        base,
        cover_distance=0.0 if is_own_cover else base_guarantee.bound,
        # with the labeller as a member of the cover, the entire second half of beta is available
        beta=beta / 2 if is_own_cover else beta / 4,
        log_pairs=log_pairs,
        is_own_cover=is_own_cover,
    )
    guarantee = _sum_guarantee(relabelling_error, base_error, beta)
    return with_class_assumptions(guarantee, hypotheses)


def _disagreement_with_labeller(
    plan: LabelBoostPlan,
    base: Any,
    *,
    cover_distance: float,
    beta: float,
    log_pairs: float,
    is_own_cover: bool,
) -> float:
    """Return a bound on the population fraction where base learner and last labeller disagree.

    The labels of the base learner depend on its rows, so its own guarantee does not apply. The
    bound moves to these rows, adds the error of the draw, and returns to the population.
    """
    beta_share = beta / (2 if is_own_cover else 3)  # one share for each move and for the draw
    disagreement = cover_distance
    if not is_own_cover:
        disagreement = relative_deviation_bound(disagreement, plan.base_rows, log_pairs, beta_share)
    disagreement += base.certificate_.at(beta_share)
    return relative_deviation_bound(disagreement, plan.base_rows, log_pairs, beta_share)


def _why_accuracy_does_not_apply(n_base: int, n_rows: int, n_classes: int) -> str:
    """Return why a declared accuracy does not apply to a base learner, or "" if it does.

    The base learner has `n_base` rows; `n_rows` excludes the rows that were added for labels.
    """
    if n_base > n_rows:
        return ADDED_ROWS
    return TOO_MANY_LABELS if n_classes > 2 else ""


def evaluated_accuracy(
    accuracy: BaseAccuracy | None,
    n: int,
    epsilon: float,
    beta: float,
    *,
    n_classes: int,
) -> BaseAccuracy | None:
    """Return an accuracy with the error that the guarantee of a fit requires.

    The declared function is called before any budget is spent, with public numbers alone, so that
    an invalid function cannot make a fit fail afterwards.
    """
    if accuracy is None or n_classes > 2:
        return accuracy
    declared_error = accuracy.error_on_rows(n, epsilon, beta / 2)
    return replace(accuracy, error=lambda n, epsilon, beta: declared_error)


def _declared_disagreement(
    accuracy: BaseAccuracy,
    n: int,
    epsilon: float,
    *,
    log_labellers: float,
    beta: float,
) -> float:
    """Return a bound on the population fraction where base learner and labeller disagree.

    The relative deviation bound holds for all pairs of a labeller and a rule of the base learner.
    """
    log_pairs = log_labellers + log_growth(2 * n, accuracy.vc_dimension)
    error_on_rows = accuracy.error_on_rows(n, epsilon, beta / 2)
    return relative_deviation_bound(error_on_rows, n, log_pairs, beta / 2)


def released_labeler_guarantee(
    labeler: Any,
    base: Any,
    beta: float,
    n_base: int,
    n_rows: int,
    base_accuracy: BaseAccuracy | None = None,
) -> Promise:
    """Return the guarantee for ``release_labeler=True``: labeller error plus base learner error.

    The labeller and the base learner are fitted to disjoint rows, so both guarantees hold, each
    with half of `beta`. The base learner's guarantee is relative to the labeller, which makes no
    error on the rows that it labels. Therefore, the sum of both errors is a bound relative to the
    best rule of the labeller's class. The same applies to a declared accuracy. The base learner has
    `n_base` rows; `n_rows` excludes the rows that were added for labels.
    """
    if base_accuracy is not None:
        why = _why_accuracy_does_not_apply(n_base, n_rows, len(labeler.classes_))
        if why:
            return no_guarantee(why)
        labeler_guarantee = base_learner_guarantee(labeler, beta / 2)
        if labeler_guarantee.bound is None:
            return labeler_guarantee
        base_error = _declared_disagreement(
            base_accuracy, n_rows, float(base.epsilon), log_labellers=0.0, beta=beta / 2
        )
        return _sum_guarantee(labeler_guarantee.bound, base_error, beta, declared=True)
    if type(base) is not SemiPrivateClassifier or not _is_subclass(
        class_or_default(labeler.hypotheses), base.hypotheses
    ):
        return no_guarantee(UNPROVED_BASE_LEARNER)
    labeler_guarantee = base_learner_guarantee(labeler, beta / 2)
    base_guarantee = base_learner_guarantee(base, beta / 2)
    if labeler_guarantee.bound is None:
        return labeler_guarantee
    if base_guarantee.bound is None:
        return base_guarantee
    return _sum_guarantee(labeler_guarantee.bound, base_guarantee.bound, beta)


def _sum_guarantee(
    relabelling_error: float, base_error: float, beta: float, *, declared: bool = False
) -> Promise:
    """Return a guarantee whose bound is the relabelling error plus the base learner's error.

    If the error of the base learner is `declared`, the reason states this.
    """
    reason = (
        f"With probability {1 - beta:g} over all rows and draws, if the rows are independent draws "
        f"from one population, the excess error is at most {relabelling_error:.3g} for relabelling "
        f"plus {base_error:.3g} for the base learner"
    )
    guarantee = capped_guarantee(relabelling_error + base_error, reason)
    if not declared or guarantee.bound == 1:  # the bound 1 assumes nothing
        return guarantee
    condition = ", if the base learner is as accurate as base_accuracy declares."
    return Promise(guarantee.bound, guarantee.reason.removesuffix(".") + condition)


def _is_subclass(hypotheses: HypothesisClass, superclass: HypothesisClass | None) -> bool:
    """Return whether every rule of one hypothesis class is known to be a rule of another class.

    False can also mean that the relation is unknown. A superclass of None means the default class.
    """
    superclass = class_or_default(superclass)
    # not isinstance: a Python subclass may contain other rules
    own_type, super_type = type(hypotheses), type(superclass)
    if own_type is not super_type:
        # a threshold is a stump, and both are decision trees of depth 1
        larger_types = {Thresholds: (Stumps, DecisionTrees), Stumps: (DecisionTrees,)}
        return super_type in larger_types.get(own_type, ())
    if own_type is Halfspaces:
        return True  # their settings change the cover, not the class
    if own_type is FiniteClass:
        # by identity: whether two models make the same predictions cannot be decided
        models, super_models = hypotheses.models, superclass.models
        return set(map(id, models)) <= set(map(id, super_models))
    if own_type is Rectangles:
        same_features = np.array_equal(hypotheses.features, superclass.features)
        return same_features and _has_cuts_of(hypotheses, superclass)
    settings = vars(hypotheses)
    return own_type in (Thresholds, Stumps, Intervals) and all(
        np.array_equal(settings[name], value) for name, value in vars(superclass).items()
    )


def _has_cuts_of(hypotheses: Rectangles, superclass: Rectangles) -> bool:
    """Return whether two classes of boxes have the same cuts, or the second contains all boxes."""
    if superclass.cuts is None:
        return True
    if hypotheses.cuts is None or len(hypotheses.cuts) != len(superclass.cuts):
        return False
    return all(map(np.array_equal, hypotheses.cuts, superclass.cuts))
