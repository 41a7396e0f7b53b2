"""What LabelBoost promises in the population; the proof is docs/proofs/label_boost.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skpublicdp.guarantees import Promise
from skpublicdp.guarantees.label_boost import LabellerDraw, labeller_error, relative_deviation_bound
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
    guarantee_of_base_learner,
    no_guarantee,
    with_class_assumptions,
)
from skpublicdp.rules.semi_private import SemiPrivateClassifier
from skpublicdp.typing import Floats

UNPROVED_BASE_LEARNER = (
    "what a base learner makes of rows with drawn labels is known of a SemiPrivateClassifier whose "
    "hypotheses include the rules that label, and of no other"
)

RESAMPLED_ROWS = "the base learner was given rows drawn with replacement, which are not independent"


def label_boost_guarantee(
    plan: LabelBoostPlan,
    hypotheses: HypothesisClass,
    base: Any,
    beta: float,
    n_given: int,
    log_n_labelings: Callable[[Any], Floats],
) -> Promise:
    """Add up what the labellers, the base learner and sampling may cost.

    Parameters
    ----------
    plan : LabelBoostPlan
        What was carried out.
    hypotheses : HypothesisClass
        What labels.
    base : classifier
        The fitted base learner.
    beta : float
        Probability with which the promise may fail.
    n_given : int
        Rows that the base learner was given.
    log_n_labelings : callable
        Bounds the logarithm of the number of labelings of so many rows.

    Returns
    -------
    Promise
        The promise, over the best of `hypotheses`; without a round that of the base learner.
    """
    if not plan.rounds:
        if plan.resampled or n_given > plan.base_rows:
            return no_guarantee(RESAMPLED_ROWS if plan.resampled else ADDED_ROWS)
        return guarantee_of_base_learner(base, beta)
    if type(base) is not SemiPrivateClassifier or not _includes(base.hypotheses, hypotheses):
        return no_guarantee(UNPROVED_BASE_LEARNER)
    exact = type(base.hypotheses) is FiniteClass  # its own cover
    of_base = guarantee_of_base_learner(base, None if exact else beta / 2)
    if of_base.bound is None:
        return of_base
    labellers = [
        LabellerDraw(step.kept_labelled, step.kept, float(step.epsilon)) for step in plan.rounds
    ]
    found = labeller_error(labellers, lambda n: float(log_n_labelings(n)), beta / 2)
    # what its guarantee says of the cover is a part of it, and fails with half of its beta
    members = math.log(base.cover_size_) + float(log_n_labelings(2 * plan.base_rows))
    samples = 2 if plan.resampled else 1
    if exact:  # the rule that labels the rows is among those drawn from, and makes no error
        share, copy = beta / 2 / (samples + 1), 0.0
    else:
        share, copy = beta / 4 / (2 * samples + 1), of_base.bound
        for _ in range(samples):
            copy = relative_deviation_bound(copy, plan.base_rows, members, share)
    copy += base.certificate_.at(share)
    for _ in range(samples):
        copy = relative_deviation_bound(copy, plan.base_rows, members, share)
    return with_class_assumptions(_stated(found, copy, beta), hypotheses)


def released_labeler_guarantee(labeler: Any, base: Any, beta: float) -> Promise:
    """Add up what the released labeler and the base learner promise on rows of their own.

    Parameters
    ----------
    labeler, base : classifier
        The fitted ones.
    beta : float
        Probability with which the promise may fail.

    Returns
    -------
    Promise
        The promise, over the best of the labeler's class.
    """
    if type(base) is not SemiPrivateClassifier or not _includes(
        base.hypotheses, _class(labeler.hypotheses)
    ):
        return no_guarantee(UNPROVED_BASE_LEARNER)
    first, second = (
        guarantee_of_base_learner(labeler, beta / 2),
        guarantee_of_base_learner(base, beta / 2),
    )
    if first.bound is None or second.bound is None:
        return first if first.bound is None else second
    return _stated(first.bound, second.bound, beta)


def _stated(found: float, copied_error: float, beta: float) -> Promise:
    bound = found + copied_error
    reason = (
        f"With probability {1 - beta:g} over all rows and draws, if rows are independent and of "
        f"one population: at most {found:.3g} for what labels the rows and {copied_error:.3g} for "
        "the base learner"
    )
    return Promise(
        min(bound, 1.0),
        f"{reason}." if bound < 1 else f"{reason}, which for so few rows promises nothing.",
    )


def _class(hypotheses: HypothesisClass | None) -> HypothesisClass:
    return DecisionTrees() if hypotheses is None else hypotheses


def _includes(of_base: HypothesisClass | None, other: HypothesisClass) -> bool:
    """Tell whether a class surely has all members of another one."""
    own = _class(of_base)
    if type(other) is Halfspaces and type(own) is Halfspaces:
        return True  # their settings are about covers
    if type(other) is FiniteClass and type(own) is FiniteClass:
        return {id(model) for model in other.models} <= {id(model) for model in own.models}
    if type(other) is type(own) and type(own) in (Thresholds, Stumps, Intervals, Rectangles):
        return all(np.array_equal(vars(own)[name], vars(other)[name]) for name in vars(own))
    single = type(other) in (Thresholds, Stumps)
    return (single and type(own) is DecisionTrees) or (
        type(other) is Thresholds and type(own) is Stumps
    )
