"""LabelBoost itself: carry a plan out on the rows, up to those that the base learner gets."""

from __future__ import annotations

import numpy as np

from skpublicdp.data.labelled_inputs import LabelledRows
from skpublicdp.hypotheses import HypothesisClass
from skpublicdp.label_boost.plan import Plan
from skpublicdp.label_boost.relabel import relabel
from skpublicdp.ledger import Ledger
from skpublicdp.typing import Codes, Floats


def boosted_rows(
    plan: Plan, hypotheses: HypothesisClass, rows: LabelledRows, ledger: Ledger
) -> tuple[Floats, Codes]:
    """Run the rounds of Algorithm 3 and return what the base learner is run on.

    Parameters
    ----------
    plan : Plan
        Sizes and budgets.
    hypotheses : HypothesisClass
        What relabels, checked by `relabel.check_relabelling`.
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
