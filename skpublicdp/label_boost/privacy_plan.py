"""Sizes, budgets and privacy costs of the rounds of LabelBoost.

All functions depend on public numbers and settings only. The proofs of the bounds are in
docs/proofs/label_boost.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import localcontext
from fractions import Fraction
from typing import Any

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
    """One round: sample labelled and unlabelled rows and relabel all of them.

    Attributes
    ----------
    n_labelled : int
        Labelled rows at the start of the round.
    n_new : int
        Unlabelled rows from which the round samples.
    sampled_labelled, sampled_new : int
        Rows of either kind that are sampled without replacement.
    epsilon : Fraction
        ε of the exponential mechanism that draws the labelling rule.
    """

    n_labelled: int
    n_new: int
    sampled_labelled: int
    sampled_new: int
    epsilon: Fraction

    @property
    def n_relabelled(self) -> int:
        """Rows with a label at the end of the round."""
        return self.sampled_labelled + self.sampled_new


@dataclass(frozen=True)
class LabelBoostPlan:
    """All sizes and budgets of one fit.

    Attributes
    ----------
    epsilon, delta : Fraction
        Budget of the fit.
    initial_labelled, initial_unlabelled : int
        Rows of either kind that are sampled before the first round.
    rounds : tuple of RelabellingRound
        The rounds, first to last.
    base_rows : int
        Rows that are sampled for the base learner.
    resampled : bool
        Whether the base learner is run on a bootstrap sample of these rows: as many rows, drawn
        with replacement.
    base_epsilon, base_delta : float
        Budget of the base learner.
    """

    epsilon: Fraction
    delta: Fraction
    initial_labelled: int
    initial_unlabelled: int
    rounds: tuple[RelabellingRound, ...]
    base_rows: int
    resampled: bool
    base_epsilon: float
    base_delta: float


def relabelling_epsilon(
    after: Fraction, epsilon: Fraction, n_classes: int = 2
) -> tuple[float, float]:
    """Return an upper bound on the ε of relabelling rows and running an algorithm on them.

    Parameters
    ----------
    after : Fraction
        ε of the algorithm.
    epsilon : Fraction
        ε of the exponential mechanism that draws the labelling rule.
    n_classes : int, default=2
        Number of labels.

    Returns
    -------
    tuple of float
        ``after + 2 ln(n_classes - 1 + u)`` with ``u = exp(epsilon / 2)`` for labelled rows, and
        ``after + 2 ln(n_classes)`` for unlabelled rows, both rounded up. Relabelling leaves the δ
        of the algorithm unchanged.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Lemma 4.1, sharpened.

    Examples
    --------
    >>> relabelling_epsilon(Fraction(0), Fraction(1))
    (1.9481..., 1.3862...)
    """
    with localcontext(precise_context(after, epsilon)):
        labelled, new = _relabelling_costs(epsilon, n_classes)
        slack = 1 + relative_error()
        start = to_decimal(after)
        return float_above((start + labelled) * slack), float_above((start + new) * slack)


def rounds_epsilon(
    rounds: tuple[RelabellingRound, ...], base: Fraction, n_classes: int = 2
) -> list[tuple[float, float]]:
    """Return an upper bound on the ε of each round together with all later steps.

    The recursion runs from the last round to the first: relabelling adds to the ε of the later
    steps, and subsampling reduces the sum.

    Parameters
    ----------
    rounds : tuple of RelabellingRound
        The rounds, first to last.
    base : Fraction
        ε of the base learner.
    n_classes : int, default=2
        Number of labels.

    Returns
    -------
    list of (float, float)
        For each round, ε of the rows that are labelled at its start and ε of all other rows.
    """
    labelled, unlabelled = float(base), 0.0
    bounds = []
    for step in reversed(rounds):
        costs = relabelling_epsilon(Fraction(labelled), step.epsilon, n_classes)
        labelled = subsampled_epsilon(
            Fraction(costs[0]), _sampling_rate(step.sampled_labelled, step.n_labelled)
        )
        if step.sampled_new:
            new_rate = _sampling_rate(step.sampled_new, step.n_new)
            unlabelled = max(unlabelled, subsampled_epsilon(Fraction(costs[1]), new_rate))
        bounds.append((labelled, unlabelled))
    return bounds[::-1]


def affordable_base_budget(
    epsilon: Fraction, delta: Fraction, rounds: tuple[RelabellingRound, ...], n_classes: int = 2
) -> tuple[float, float]:
    """Return the largest budget of a base learner that runs after some rounds.

    It inverts the recursion of `rounds_epsilon`, from the first round to the last.

    Parameters
    ----------
    epsilon, delta : Fraction
        Budget of the fit.
    rounds : tuple of RelabellingRound
        The rounds, first to last.
    n_classes : int, default=2
        Number of labels.

    Returns
    -------
    tuple of float
        ε and δ, rounded down. A negative ε means that the rounds exceed the budget.
    """
    remaining, inclusion = epsilon, Fraction(1)
    for step in rounds:
        labelled_rate = _sampling_rate(step.sampled_labelled, step.n_labelled)
        new_rate = _sampling_rate(step.sampled_new, step.n_new)
        with localcontext(precise_context(epsilon, step.epsilon)):
            labelled_cost, new_cost = _relabelling_costs(step.epsilon, n_classes)
            # an unlabelled row that no earlier round has sampled still has its whole budget
            by_kind = (
                (remaining, labelled_rate, labelled_cost),
                (epsilon, new_rate, new_cost),
            )
            budgets = [
                to_decimal(Fraction(base_epsilon(budget, rate))) - cost
                for budget, rate, cost in by_kind
                if rate
            ]
            remaining = Fraction(float_below(min(budgets) - relative_error()))
        if remaining <= 0:
            return float(remaining), 0.0
        # largest probability with which a row reaches the base learner
        inclusion = max(inclusion * labelled_rate, new_rate)
    with localcontext(precise_context(delta, inclusion)):
        slack = 1 - relative_error() if rounds else 1
        return float(remaining), float_below(to_decimal(delta / inclusion) * slack)


def _relabelling_costs(epsilon: Fraction, n_classes: int) -> tuple[Any, Any]:
    """Return the ε that relabelling adds for labelled and for unlabelled rows, as decimals.

    They have the precision of the current decimal context.
    """
    u = (to_decimal(epsilon) / 2).exp()
    return 2 * (n_classes - 1 + u).ln(), 2 * to_decimal(Fraction(n_classes)).ln()


def _sampling_rate(n_sampled: int, n_rows: int) -> Fraction:
    """Return the sampling rate, which is 0 if there are no rows."""
    return Fraction(n_sampled, n_rows) if n_rows else Fraction(0)


def n_base_rows(alpha: float, beta: float, n_base: int | None) -> int:
    """Return the number of rows that the base learner needs at ε = 1.

    Parameters
    ----------
    alpha, beta : float
        Error, and the probability with which it may be exceeded.
    n_base : int or None
        The number, if the user gave it. By default it is `guarantees.n_private`: the rows that a
        `SemiPrivateClassifier` needs for a class of VC dimension 1.

    Returns
    -------
    int
        Rows.

    Examples
    --------
    >>> n_base_rows(0.1, 0.05, None)
    7336
    """
    return n_private(alpha, beta, 1.0, 1) if n_base is None else int(n_base)
