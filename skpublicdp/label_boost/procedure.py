"""LabelBoost itself: carry a plan out on the rows, up to those that the base learner gets."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from skpublicdp.accounting import exact_fraction
from skpublicdp.base_learner import mechanism_event
from skpublicdp.data.labelled_inputs import LabelledRows
from skpublicdp.hypotheses import HypothesisClass
from skpublicdp.hypotheses.base import (
    assumptions_of_class,
)
from skpublicdp.label_boost.privacy_plan import LabelBoostPlan, rounds_epsilon
from skpublicdp.label_boost.relabelling import RELABELLING_PROOF, relabel
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Codes, Floats


def rows_for_base_learner(
    plan: LabelBoostPlan, hypotheses: HypothesisClass, rows: LabelledRows, ledger: Ledger
) -> tuple[Floats, Codes]:
    """Run the rounds of Algorithm 3 and return what the base learner is run on.

    Parameters
    ----------
    plan : LabelBoostPlan
        Sizes and budgets.
    hypotheses : HypothesisClass
        The class that relabels; `relabelling.check_relabelling` has accepted it.
    rows : LabelledRows
        Rows with and without a label.
    ledger : Ledger
        Pays for the whole, the base learner included, by the theorem; for one row of a person.

    Returns
    -------
    tuple
        Rows and codes. They are private: only the output of a base learner with the plan's budget
        may be shown.
    """
    X, y, others = rows.X_labelled, rows.y_labelled, rows.X_unlabelled
    if plan.first_labelled < len(X):
        kept = ledger.subset(len(X), plan.first_labelled)
        X, y = X[kept], y[kept]
    if plan.first_unlabelled < len(others):
        others = others[ledger.subset(len(others), plan.first_unlabelled)]
    # random rows of a random part of the others are random rows of the others: no need to part them
    taken = sum(step.kept_new for step in plan.rounds)
    fresh = ledger.subset(len(others), taken)[ledger.order(taken)]
    for step in plan.rounds:
        old = ledger.subset(len(X), step.kept_labelled)
        new, fresh = fresh[: step.kept_new], fresh[step.kept_new :]
        X = np.concatenate([X[old], others[new]])
        y = relabel(hypotheses, X, y[old], rows.classes, step.epsilon, ledger)
    if plan.base_rows < len(X):
        kept = ledger.subset(len(X), plan.base_rows)
        X, y = X[kept], y[kept]
    if plan.resampled:
        drawn = ledger.indices(len(X), len(X))
        return X[drawn], y[drawn]
    if not plan.rounds:
        return X, y
    # subsampling is proved for sets of rows, and a base learner may look at their order
    order = ledger.order(len(X))
    return X[order], y[order]


PAPER_PROOF = "Beimel, Nissim and Stemmer (2015), Lemma 4.6; docs/proofs/label_boost.md"
DRAW_PROOF = "McSherry and Talwar (2007), Theorem 6; docs/proofs/selection.md"
SUBSET_PROOF = "Balle, Barthe and Gaboardi (2018), Theorem 9; docs/proofs/subsampling.md"
BASE_PROOF = "its own"

LABELER_STAGE = "draw of the labeler by the labelled rows"


def base_stage_name(base: object) -> str:
    """Name the stage of the base learner."""
    return f"base learner {type(base).__name__}"


def receipt_assumptions(learner: Any) -> tuple[str, ...]:
    """List what the receipt of a learner takes to be public or private."""
    labels = "" if learner.classes is not None else ", and the set of labels,"
    assumptions = [
        f"which rows are labelled{labels} may be known",
        "the base learner is private with the budget it is given, whatever the rows",
    ]
    if learner.release_labeler:
        assumptions.append("no row is seen by both stages, so their budgets do not add up")
    elif learner.max_rows_per_group is not None:
        assumptions.append("the stages are counted for one row, the whole for a person")
    return (*assumptions, *assumptions_of_class(learner.hypotheses))


def record_stages(ledger: Ledger, plan: LabelBoostPlan, n_classes: int, base: object) -> None:
    """Note each stage with what it and all that follows cost for one row.

    Parameters
    ----------
    ledger : Ledger
        Pays for all of them as a whole.
    plan : LabelBoostPlan
        What is carried out.
    n_classes : int
        Number of labels.
    base : classifier
        The base learner.
    """
    budget = exact_fraction(plan.base_epsilon), exact_fraction(plan.base_delta)
    spent = rounds_epsilon(plan.rounds, budget[0], n_classes)
    notes = [(base_stage_name(base), mechanism_event(*budget), BASE_PROOF)]  # from last to first
    paper = mechanism_event(
        Fraction(1), plan.delta
    )  # its constants are accounted as the paper does
    if plan.resampled:
        name = (
            f"{plan.base_rows} rows kept and as many drawn from them with replacement, and the "
            "base learner"
        )
        notes.append((name, paper, PAPER_PROOF))
    after, others = budget[1], Fraction(0)
    for number, step in reversed(list(enumerate(plan.rounds, start=1))):
        others = max(others, Fraction(step.kept_new, max(step.n_new, 1)) * after)
        after *= Fraction(step.kept_labelled, step.n_labelled)
        name = (
            f"round {number}, {step.kept_labelled} of {step.n_labelled} labelled and "
            f"{step.kept_new} of {step.n_new} other rows relabelled by a draw at "
            f"ε₀ = {float(step.epsilon):g}, and all that follows"
        )
        whole = mechanism_event(exact_fraction(max(spent[number - 1])), max(after, others))
        notes.append(
            (name, paper, PAPER_PROOF) if plan.resampled else (name, whole, RELABELLING_PROOF)
        )
    if plan.resampled and plan.epsilon < 1:
        name = (
            f"{plan.first_labelled} labelled and {plan.first_unlabelled} other rows kept, and all "
            "that follows"
        )
        notes.append((name, mechanism_event(plan.epsilon, plan.delta), SUBSET_PROOF))
    for note in reversed(notes):
        ledger.annotate(*note)
