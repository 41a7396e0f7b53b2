"""Sizes, budgets and privacy costs of the rounds of LabelBoost.

All functions depend only on public numbers and settings. The bounds are proved in
docs/proofs/label_boost.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import localcontext
from fractions import Fraction
from typing import Any, NamedTuple

from skpublicdp.accounting import base_epsilon, subsampled_epsilon
from skpublicdp.accounting.rounding import (
    float_above,
    float_below,
    precise_context,
    relative_error,
    to_decimal,
)
from skpublicdp.guarantees import n_private


@dataclass(frozen=True)
class RelabellingRound:
    """Sizes and ε of one round, which samples and relabels both kinds of rows."""

    n_labelled: int  # number of labelled rows at the start of the round
    # Number of unlabelled rows from which the round samples. These rows belong to this round alone:
    # those that it does not sample are discarded.
    n_new: int
    # numbers of labelled and unlabelled rows that are sampled without replacement
    sampled_labelled: int
    sampled_new: int
    epsilon: Fraction  # privacy budget ε of the exponential mechanism that draws the labelling rule

    @property
    def n_relabelled(self) -> int:
        """Number of labelled rows at the end of the round."""
        return self.sampled_labelled + self.sampled_new


@dataclass(frozen=True)
class LabelBoostPlan:
    """All sample sizes and privacy budgets of one fit of `LabelBoostClassifier`.

    Raises
    ------
    AssertionError
        If the sizes contradict each other, so that the proof of privacy would not apply. All sizes
        are public, so the message may contain them.
    """

    # numbers of labelled and unlabelled rows before the first round
    n_labelled: int
    n_unlabelled: int
    rounds: tuple[RelabellingRound, ...]  # the rounds, first to last
    base_rows: int  # number of rows that are sampled for the base learner
    # privacy budget of the base learner
    base_epsilon: float
    base_delta: float

    def __post_init__(self) -> None:
        # each round samples from unlabelled rows of its own, so these rows must exist
        if sum(relabelling.n_new for relabelling in self.rounds) > self.n_unlabelled:
            raise AssertionError(
                "The rounds of LabelBoost must not need more unlabelled rows in total than there "
                f"are; got {[relabelling.n_new for relabelling in self.rounds]} of "
                f"{self.n_unlabelled}."
            )
        n_labelled = self.n_labelled
        for relabelling in self.rounds:
            if relabelling.n_labelled != n_labelled:
                raise AssertionError(
                    "A round of LabelBoost must start with the labelled rows of the previous step; "
                    f"got {relabelling.n_labelled} instead of {n_labelled}."
                )
            n_labelled = relabelling.n_relabelled


class RowEpsilons(NamedTuple):
    """Privacy cost ε of a stage for one row, by the row's status at the start of the stage."""

    labelled: float  # cost ε for a row with a label
    unlabelled: float  # cost ε for a row without a label


def relabelling_epsilon(after: Fraction, epsilon: Fraction, n_classes: int = 2) -> RowEpsilons:
    """Return an upper bound on the ε of relabelling rows and running an algorithm on them.

    Let `after` be the ε of the algorithm and `epsilon` the ε of drawing the labelling rule. For
    labelled rows, the bound is ``after + 2 ln(n_classes - 1 + u)`` with ``u = exp(epsilon / 2)``.
    For unlabelled rows, the bound is ``after + 2 ln(n_classes)``. Both bounds are rounded up.
    Relabelling leaves the δ of the algorithm unchanged.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Lemma 4.1, sharpened.

    Examples
    --------
    >>> relabelling_epsilon(Fraction(0), Fraction(1))
    RowEpsilons(labelled=1.9481..., unlabelled=1.3862...)
    """
    with localcontext(precise_context(after, epsilon)):
        labelled_cost, unlabelled_cost = _relabelling_costs(epsilon, n_classes)
        slack = 1 + relative_error()  # covers the rounding of the decimal logarithms
        epsilon_after = to_decimal(after)
        return RowEpsilons(
            float_above((epsilon_after + labelled_cost) * slack),
            float_above((epsilon_after + unlabelled_cost) * slack),
        )


def rounds_epsilon(
    rounds: tuple[RelabellingRound, ...], base: Fraction, n_classes: int = 2
) -> list[RowEpsilons]:
    """Return an upper bound on the ε of each round combined with all later steps.

    The recursion proceeds from the last round to the first: relabelling increases the ε of the
    later steps, and subsampling reduces the sum. `base` is the ε of the base learner. The results
    are listed in the order of the rounds.
    """
    labelled, unlabelled = float(base), 0.0
    last_to_first = []
    for relabelling in reversed(rounds):
        # rows sampled by the round are labelled afterwards, and all later steps use them
        relabelled = relabelling_epsilon(Fraction(labelled), relabelling.epsilon, n_classes)
        labelled_rate = _sampling_rate(relabelling.sampled_labelled, relabelling.n_labelled)
        labelled = subsampled_epsilon(Fraction(relabelled.labelled), labelled_rate)
        if relabelling.sampled_new:
            new_rate = _sampling_rate(relabelling.sampled_new, relabelling.n_new)
            sampled_cost = subsampled_epsilon(Fraction(relabelled.unlabelled), new_rate)
            # an unlabelled row may be sampled in one round only (the rounds have disjoint blocks),
            # so the maximum over rounds is relevant
            unlabelled = max(unlabelled, sampled_cost)
        last_to_first.append(RowEpsilons(labelled, unlabelled))
    return last_to_first[::-1]


def rounds_delta(rounds: tuple[RelabellingRound, ...], base: Fraction) -> list[Fraction]:
    """Return the δ of each round together with all later rounds and the base learner's δ `base`.

    Relabelling preserves the δ of the later steps, and subsampling multiplies this δ by the
    sampling rate.
    """
    labelled, unlabelled = base, Fraction(0)
    last_to_first = []
    for relabelling in reversed(rounds):
        new_rate = _sampling_rate(relabelling.sampled_new, relabelling.n_new)
        unlabelled = max(unlabelled, new_rate * labelled)
        labelled *= _sampling_rate(relabelling.sampled_labelled, relabelling.n_labelled)
        last_to_first.append(max(labelled, unlabelled))
    return last_to_first[::-1]


def affordable_base_budget(
    epsilon: Fraction, delta: Fraction, rounds: tuple[RelabellingRound, ...], n_classes: int = 2
) -> tuple[float, float]:
    """Return the largest ε and δ of a base learner with which the fit stays within its budget.

    The function inverts the recursion of `rounds_epsilon` from the first round to the last:
    subsampling increases the budget (`epsilon`, `delta`) of the later steps, and relabelling
    reduces it. Both numbers are rounded down. A negative ε means that the rounds exceed the budget.
    """
    # `max_inclusion` is the largest probability with which a row reaches the base learner
    remaining, max_inclusion = epsilon, Fraction(1)
    for relabelling in rounds:
        labelled_rate = _sampling_rate(relabelling.sampled_labelled, relabelling.n_labelled)
        new_rate = _sampling_rate(relabelling.sampled_new, relabelling.n_new)
        with localcontext(precise_context(epsilon, relabelling.epsilon)):
            labelled_cost, new_cost = _relabelling_costs(relabelling.epsilon, n_classes)
            # an unlabelled row may be sampled in this round only, so it has its entire budget
            by_status = (
                (remaining, labelled_rate, labelled_cost),
                (epsilon, new_rate, new_cost),
            )
            budgets_after = [
                to_decimal(Fraction(base_epsilon(budget, rate))) - cost
                for budget, rate, cost in by_status
                if rate  # rows that are never sampled cost nothing
            ]
            remaining = Fraction(float_below(min(budgets_after) - relative_error()))
        if remaining <= 0:
            return float(remaining), 0.0
        max_inclusion = max(max_inclusion * labelled_rate, new_rate)
    with localcontext(precise_context(delta, max_inclusion)):
        slack = 1 - relative_error() if rounds else 1
        return float(remaining), float_below(to_decimal(delta / max_inclusion) * slack)


def _relabelling_costs(epsilon: Fraction, n_classes: int) -> tuple[Any, Any]:
    """Return the ε that relabelling adds for labelled and for unlabelled rows, as decimals.

    See `relabelling_epsilon` for the formulas. The decimals have the precision of the current
    decimal context.
    """
    u = (to_decimal(epsilon) / 2).exp()
    return 2 * (n_classes - 1 + u).ln(), 2 * to_decimal(Fraction(n_classes)).ln()


def _sampling_rate(n_sampled: int, n_rows: int) -> Fraction:
    """Return the sampling rate, which is 0 if there are no rows."""
    return Fraction(n_sampled, n_rows) if n_rows else Fraction(0)


def n_base_rows(alpha: float, beta: float, n_base: int | None) -> int:
    """Return the number of rows with which the base learner, at ε = 1, has error at most alpha.

    The error may exceed alpha with probability `beta`. If the user did not specify a number, the
    result is `guarantees.n_private`, the number of rows that a `SemiPrivateClassifier` requires for
    VC dimension 1.

    Examples
    --------
    >>> n_base_rows(0.1, 0.05, None)
    7336
    """
    return n_private(alpha, beta, 1.0, 1) if n_base is None else int(n_base)
