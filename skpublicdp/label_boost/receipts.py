"""What LabelBoost spent, stage by stage, from public numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from skpublicdp.accounting import REPLACE_ONE, Mechanism, PrivacyReceipt
from skpublicdp.label_boost.plan import Plan, rounds_epsilon

PROOF = "Beimel, Nissim and Stemmer (2015), Lemma 4.1; docs/proofs/label_boost.md"
PAPER_PROOF = "Beimel, Nissim and Stemmer (2015), Lemma 4.6; docs/proofs/label_boost.md"
DRAW_PROOF = "McSherry and Talwar (2007), Theorem 6; docs/proofs/selection.md"
SUBSET_PROOF = "Balle, Barthe and Gaboardi (2018), Theorem 9; docs/proofs/subsampling.md"


def stages_of(plan: Plan, n_classes: int) -> tuple[Mechanism, ...]:
    """List each stage before the base learner, with what it and all that follows spend.

    Parameters
    ----------
    plan : Plan
        What is carried out.
    n_classes : int
        Number of labels.

    Returns
    -------
    tuple of Mechanism
        The stages, first to last.
    """
    paper = plan.resampled  # its constants are accounted as it does: (1, 41 delta) at every round
    spent = rounds_epsilon(plan.rounds, Fraction(plan.base_epsilon), n_classes)
    after, others = Fraction(plan.base_delta), Fraction(0)
    stages = []
    if paper:
        stages.append(
            Mechanism(
                f"{plan.base_rows} rows kept and as many drawn from them with replacement, and the "
                "base learner",
                1.0,
                float(plan.delta),
                PAPER_PROOF,
            )
        )
    for number, step in reversed(list(enumerate(plan.rounds, start=1))):
        others = max(others, Fraction(step.kept_new, max(step.n_new, 1)) * after)
        after *= Fraction(step.kept_labelled, step.n_labelled)
        stages.append(
            Mechanism(
                f"round {number}, {step.kept_labelled} of {step.n_labelled} labelled and "
                f"{step.kept_new} of {step.n_new} other rows relabelled by a draw at "
                f"ε₀ = {float(step.epsilon):g}, and all that follows",
                1.0 if paper else max(spent[number - 1]),
                float(plan.delta) if paper else float(max(after, others)),
                PAPER_PROOF if paper else PROOF,
            )
        )
    if paper and plan.epsilon < 1:
        stages.append(
            Mechanism(
                f"{plan.first_labelled} labelled and {plan.first_unlabelled} other rows kept, and "
                "all that follows",
                float(plan.epsilon),
                float(plan.delta),
                SUBSET_PROOF,
            )
        )
    return tuple(stages[::-1])


def labeler_stage(epsilon: float) -> Mechanism:
    """Describe the draw of a labeler that is released."""
    return Mechanism("draw of the labeler by the labelled rows", epsilon, 0.0, DRAW_PROOF)


def base_stage(base: Any, budget: tuple[float, float]) -> Mechanism:
    """Describe the base learner with its budget (ε, δ)."""
    return Mechanism(f"base learner {type(base).__name__}", *budget, "its own")


def is_seeded(base: Any) -> bool:
    """Tell whether a fitted base learner is repeatable, as far as it lets anybody know."""
    own = getattr(base, "privacy_", None)
    if isinstance(own, PrivacyReceipt):
        return not own.secure_randomness
    return base.get_params(deep=False).get("random_state") is not None


def receipt(
    estimator: Any,
    mechanisms: tuple[Mechanism, ...],
    *,
    n_private: int,
    n_public: int,
    secure: bool,
) -> PrivacyReceipt:
    """Write the receipt of one fit.

    Parameters
    ----------
    estimator : LabelBoostClassifier
        Its parameters are what was promised.
    mechanisms : tuple of Mechanism
        The stages.
    n_private, n_public : int
        Numbers of rows.
    secure : bool
        Whether no randomness was seeded.

    Returns
    -------
    PrivacyReceipt
        The receipt.
    """
    labels = "" if estimator.classes is not None else ", and the set of labels,"
    assumptions = [
        f"which rows are labelled{labels} may be known",
        "the base learner is private with the budget it is given, whatever the rows",
    ]
    epsilon = float(estimator.epsilon)
    if estimator.release_labeler:
        assumptions.append("no row is seen by both stages, so their budgets do not add up")
    elif estimator.constants == "paper":
        epsilon = min(epsilon, 1.0)
    return PrivacyReceipt(
        epsilon=epsilon,
        delta=float(estimator.delta),
        unit=REPLACE_ONE,
        n_private=n_private,
        n_public=n_public,
        mechanisms=mechanisms,
        secure_randomness=secure,
        assumptions=tuple(assumptions),
    )
