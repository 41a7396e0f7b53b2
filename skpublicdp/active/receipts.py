"""What the receipt of the active learner takes to be public, or to stay secret."""

from __future__ import annotations

from typing import Any

from skpublicdp.active.plan import Plan
from skpublicdp.base_learner import epsilon_delta

PROOF = "Balle, Barthe and Gaboardi (2018), Theorem 9; docs/proofs/subsampling.md"


def stage_of(plan: Plan, base: Any) -> str:
    """Name what is run on whom."""
    rows = f"{plan.drawn} rows drawn from {plan.pool}, {plan.asked} labelled"
    return f"{type(base).__name__} on {rows}"


def assumptions_of(learner: Any, plan: Plan, *, queried: bool) -> tuple[str, ...]:
    """List the assumptions of a fit, which said by `queried` if labels were asked for before."""
    name, (epsilon, delta) = type(learner.estimator_).__name__, epsilon_delta(plan.base)
    base = f"ε = {epsilon:.4g}, δ = {delta:.4g}"
    assumptions = [
        f"{name} is ({base})-differentially private, as it was asked to be",
        "the numbers of rows, of labels and of rows drawn may be known",
    ]
    if learner.classes is None:
        where = "in the rows asked for" if queried else "in y"
        assumptions.append(f"the set of labels {where} may be known")
    if learner.max_rows_per_group is not None:
        assumptions.append("the base learner is counted for one row, the whole for a person")
    if learner.transcript_private:
        assumptions.append(
            "who was asked for may be known: it is part of the output (Definition 5.4 and "
            "Theorem 5.5 of Beimel, Nissim and Stemmer 2015)"
        )
    else:
        assumptions.append(
            "who was asked for and who was drawn stay secret (Definition 5.3 of Beimel, Nissim "
            f"and Stemmer 2015); for those who know it, and gave labels, it is {base}"
        )
    return tuple(assumptions)
