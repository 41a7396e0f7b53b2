"""Bounds on the excess population error of LabelBoost (docs/proofs/label_boost.md)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skpublicdp.guarantees import Promise
from skpublicdp.guarantees.label_boost import LabellerDraw, labeller_error, relative_deviation_bound
from skpublicdp.guarantees.population import capped_guarantee
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
from skpublicdp.label_boost.privacy_plan import LabelBoostPlan
from skpublicdp.rules.population_guarantee import (
    ADDED_ROWS,
    base_learner_guarantee,
    no_guarantee,
    with_class_assumptions,
)
from skpublicdp.rules.semi_private import SemiPrivateClassifier
from skpublicdp.typing import Floats

UNPROVED_BASE_LEARNER = (
    "rows with drawn labels need a SemiPrivateClassifier as base learner, whose hypotheses include "
    "the rules that label; no bound is known for other base learners"
)

RESAMPLED_ROWS = "the base learner was given rows drawn with replacement, which are not independent"


def label_boost_guarantee(
    plan: LabelBoostPlan,
    hypotheses: HypothesisClass,
    base: Any,
    beta: float,
    n_base: int,
    log_n_labelings: Callable[[Any], Floats],
) -> Promise:
    """Return the guarantee of LabelBoost: the sum of a relabelling and a base learner error.

    Parameters
    ----------
    plan : LabelBoostPlan
        Sizes and budgets of the fit.
    hypotheses : HypothesisClass
        The class that relabels.
    base : classifier
        The fitted base learner.
    beta : float
        Probability with which the bound may fail.
    n_base : int
        Rows on which the base learner was fitted.
    log_n_labelings : callable
        Upper bound on the logarithm of the number of labelings of some number of rows.

    Returns
    -------
    Promise
        A bound relative to the best of `hypotheses`. Without a round it is the base learner's own.
    """
    if not plan.rounds:
        if plan.resampled or n_base > plan.base_rows:
            return no_guarantee(RESAMPLED_ROWS if plan.resampled else ADDED_ROWS)
        return base_learner_guarantee(base, beta)
    if type(base) is not SemiPrivateClassifier or not _is_subclass(hypotheses, base.hypotheses):
        return no_guarantee(UNPROVED_BASE_LEARNER)
    is_own_cover = type(base.hypotheses) is FiniteClass
    base_guarantee = base_learner_guarantee(base, None if is_own_cover else beta / 2)
    if base_guarantee.bound is None:
        return base_guarantee
    labellers = [
        LabellerDraw(step.sampled_labelled, step.n_relabelled, float(step.epsilon))
        for step in plan.rounds
    ]
    relabelling_error = labeller_error(labellers, lambda n: float(log_n_labelings(n)), beta / 2)

    # Disagreement of the base learner with the last labeller. Each step between the population and
    # the rows is one relative deviation bound; a bootstrap sample needs a second one either way.
    # The guarantee of the base learner includes the radius of its cover and fails with half of its
    # own beta, which leaves beta / 4 for these steps.
    log_pairs = math.log(base.cover_size_) + float(log_n_labelings(2 * plan.base_rows))
    n_samples = 2 if plan.resampled else 1
    if is_own_cover:  # the labeller is a member of the cover and makes no error on the rows
        beta_share, disagreement = beta / 2 / (n_samples + 1), 0.0
    else:
        beta_share, disagreement = beta / 4 / (2 * n_samples + 1), base_guarantee.bound
        for _ in range(n_samples):
            disagreement = relative_deviation_bound(
                disagreement, plan.base_rows, log_pairs, beta_share
            )
    disagreement += base.certificate_.at(beta_share)
    for _ in range(n_samples):
        disagreement = relative_deviation_bound(disagreement, plan.base_rows, log_pairs, beta_share)
    guarantee = _sum_guarantee(relabelling_error, disagreement, beta)
    return with_class_assumptions(guarantee, hypotheses)


def released_labeler_guarantee(labeler: Any, base: Any, beta: float) -> Promise:
    """Return the sum of the guarantees of a released labeler and of the base learner.

    The two are fitted to disjoint rows, so both guarantees hold. The base learner's guarantee is
    relative to the labeler, which makes no error on the rows that it labels.

    Parameters
    ----------
    labeler, base : classifier
        The fitted labeler and base learner.
    beta : float
        Probability with which the bound may fail.

    Returns
    -------
    Promise
        A bound relative to the best of the labeler's class.
    """
    if type(base) is not SemiPrivateClassifier or not _is_subclass(
        _class_or_default(labeler.hypotheses), base.hypotheses
    ):
        return no_guarantee(UNPROVED_BASE_LEARNER)
    labeler_guarantee = base_learner_guarantee(labeler, beta / 2)
    base_guarantee = base_learner_guarantee(base, beta / 2)
    if labeler_guarantee.bound is None:
        return labeler_guarantee
    if base_guarantee.bound is None:
        return base_guarantee
    return _sum_guarantee(labeler_guarantee.bound, base_guarantee.bound, beta)


def _sum_guarantee(relabelling_error: float, base_error: float, beta: float) -> Promise:
    """Return the guarantee whose bound is the sum of two errors."""
    reason = (
        f"With probability {1 - beta:g} over all rows and draws, if the rows are independent draws "
        f"from one population, the excess error is at most {relabelling_error:.3g} for relabelling "
        f"plus {base_error:.3g} for the base learner"
    )
    return capped_guarantee(relabelling_error + base_error, reason)


def _class_or_default(hypotheses: HypothesisClass | None) -> HypothesisClass:
    """Return the class, or the default class of a `SemiPrivateClassifier`."""
    return DecisionTrees() if hypotheses is None else hypotheses


def _is_subclass(hypotheses: HypothesisClass, superclass: HypothesisClass | None) -> bool:
    """Return whether every member of a hypothesis class is surely a member of another class.

    False may also mean that it is not known. None stands for the default class.
    """
    superclass = _class_or_default(superclass)
    kind, super_kind = type(hypotheses), type(superclass)
    if kind is super_kind is Halfspaces:
        return True  # their settings change the cover, not the class
    if type(hypotheses) is FiniteClass and type(superclass) is FiniteClass:
        models = {id(model) for model in hypotheses.models}
        return models <= {id(model) for model in superclass.models}
    if kind is super_kind and kind in (Thresholds, Stumps, Intervals, Rectangles):
        settings, super_settings = vars(hypotheses), vars(superclass)
        return all(np.array_equal(super_settings[name], settings[name]) for name in super_settings)
    if super_kind is DecisionTrees:
        return kind in (Thresholds, Stumps)
    return kind is Thresholds and super_kind is Stumps
