"""Sizes, budgets and privacy costs of the rounds of LabelBoost, and their choice.

All functions depend only on public numbers and settings. The bounds are proved in
docs/proofs/label_boost.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import localcontext
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from skpublicdp.accounting import base_epsilon, subsampled_epsilon
from skpublicdp.accounting.rounding import (
    float_above,
    float_below,
    precise_context,
    relative_error,
    to_decimal,
)
from skpublicdp.base_learner import epsilon_delta, mechanism_event
from skpublicdp.guarantees import n_private
from skpublicdp.hypotheses import HypothesisClass
from skpublicdp.label_boost.relabelling import log_n_labelings, max_relabelled_rows
from skpublicdp.typing import Floats


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
            by_status = ((remaining, labelled_rate, labelled_cost), (epsilon, new_rate, new_cost))
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


RowCounts = Any
"""A number of rows, or an array of numbers of rows."""

LogLabelingCounts = Callable[[RowCounts], Floats]
"""Function that returns an upper bound on the logarithm of the number of labellings of n rows."""

EPSILON_STEPS = 64
"""The ε of a draw is a multiple of 1/64, so it is an exact fraction with a small denominator."""

GRID_POINTS = {1: 32, 2: 10}
"""Number of grid values per budget, by number of rounds; 10^4 and 32^2 pairs take little time."""

NEW_ROW_TENTHS = {1: [10], 2: [1, 3, 5, 8]}
"""Tenths of the unlabelled rows from which the first round may sample, by number of rounds."""

MIN_BUDGET, MIN_DRAW_EPSILON = 0.02, 0.05
"""Smallest values of ε in the grid, for all steps after a round and for the draw of a round."""

MAX_DRAW_ERROR = 0.5
"""Maximum error bound of a draw in a round that the search proposes.

Above this bound, labels may be worse than chance."""

SAFE_EXPONENT = 600.0
"""Maximum argument of `exp`, which overflows for arguments of 710 and above."""

TINY_COUNT = 1e-9
"""Value that replaces 0 sampled rows to make the error bound huge instead of undefined."""


def choose_plan(
    hypotheses: HypothesisClass, n_features: int, n_classes: int, **settings: Any
) -> LabelBoostPlan:
    """Return the sizes and budgets of a fit, based only on public numbers and the class."""
    return tight_plan(
        **settings,
        log_n_labelings=lambda n: log_n_labelings(hypotheses, n, n_features, n_classes),
        n_classes=n_classes,
        max_rows=max_relabelled_rows(hypotheses, n_features),
    )


def tight_plan(
    n_labelled: int,
    n_unlabelled: int,
    *,
    epsilon: Fraction,
    delta: Fraction,
    alpha: float,
    beta: float,
    n_base: int | None,
    log_n_labelings: LogLabelingCounts,
    n_classes: int,
    max_rows: int | None = None,
    must_relabel: bool = False,
) -> LabelBoostPlan:
    """Return the LabelBoost plan with zero, one or two rounds that has the smallest error bound.

    Parameters
    ----------
    n_labelled, n_unlabelled : int
        Numbers of rows with and without a label.
    epsilon, delta : Fraction
        Privacy budget of the fit.
    alpha, beta, n_base
        See `n_base_rows`.
    log_n_labelings : callable
        Function that returns an upper bound on the logarithm of the number of labellings of n rows.
    n_classes : int
        Number of labels.
    max_rows : int, optional
        Maximum number of rows that one round relabels. At most half of these rows have a label
        before the round.
    must_relabel : bool, default=False
        Whether to choose zero rounds only if no other plan is possible. This option is needed if
        the accuracy of the base learner is known for rows labelled by a rule, but not for the
        original labels.

    Notes
    -----
    The grid search uses floats and only proposes rounds. The budget of the base learner is computed
    by `affordable_base_budget`, which is exact, so every plan is within its budget.
    """
    # error of the base learner times its ε and its number of rows, which is constant
    base_sample_cost = alpha * n_base_rows(alpha, beta, n_base)
    base_epsilon, base_delta = epsilon_delta(mechanism_event(epsilon, delta))
    # without rounds, the base learner has the labelled rows and the entire budget
    plan = LabelBoostPlan(
        n_labelled=n_labelled,
        n_unlabelled=n_unlabelled,
        rounds=(),
        base_rows=n_labelled,
        base_epsilon=base_epsilon,
        base_delta=base_delta,
    )
    if n_classes < 2:
        return plan  # with a single label every rule is the same
    best_error = math.inf if must_relabel else base_sample_cost / (float(epsilon) * n_labelled)
    for n_rounds in (1, 2):
        error, rounds = _search_rounds(
            n_rounds,
            n_labelled,
            n_unlabelled,
            epsilon=float(epsilon),
            base_sample_cost=base_sample_cost,
            beta=beta,
            log_n_labelings=log_n_labelings,
            n_classes=n_classes,
            max_rows=_UNLIMITED if max_rows is None else max_rows,
        )
        if error >= best_error:
            continue
        base_epsilon, base_delta = affordable_base_budget(epsilon, delta, rounds, n_classes)
        if base_epsilon > 0:
            best_error = error
            plan = replace(
                plan,
                rounds=rounds,
                base_rows=rounds[-1].n_relabelled,
                base_epsilon=base_epsilon,
                base_delta=min(base_delta, 1.0),
            )
    return plan


_UNLIMITED = 2**62  # more rows than there can be; fits an int64


def _search_grid(n_rounds: int, n_unlabelled: int, epsilon: float) -> tuple[Any, Any, Any]:
    """Return the grid of all combinations of budgets and sizes that the search compares.

    For each round, the grid has the ε of all later steps, the ε of its draw in units of 1 /
    `EPSILON_STEPS`, and the number of unlabelled rows from which it samples.
    """
    n_points = GRID_POINTS[n_rounds]
    # subsampling permits steps with a larger ε than the fit; exp(300) does not overflow
    max_budget = np.clip(2 * epsilon, 4.0, 300.0)
    budgets = np.geomspace(MIN_BUDGET, max_budget, n_points)
    draw_epsilons = np.geomspace(MIN_DRAW_EPSILON, 2 * max_budget, n_points)
    n_steps = np.rint(EPSILON_STEPS * draw_epsilons)
    draw_steps = np.maximum(n_steps, 1)
    values: list[Any] = [budgets] * n_rounds + [draw_steps] * n_rounds
    values.append(NEW_ROW_TENTHS[n_rounds])
    *axes, tenths = np.meshgrid(*values, indexing="ij")
    tenths = tenths.astype(np.int64)
    n_new_first = tenths * n_unlabelled // 10
    n_new_second = n_unlabelled - n_new_first
    n_new = (n_new_first, n_new_second)
    return axes[:n_rounds], axes[n_rounds:], n_new[:n_rounds]


def _search_rounds(
    n_rounds: int,
    n_labelled: int,
    n_unlabelled: int,
    *,
    epsilon: float,
    base_sample_cost: float,
    beta: float,
    log_n_labelings: LogLabelingCounts,
    n_classes: int,
    max_rows: int,
) -> tuple[float, tuple[RelabellingRound, ...]]:
    """Return the smallest error bound on a grid of budgets and sizes, and the rounds that have it.

    The constant `base_sample_cost` is the error of the base learner times its ε and its number of
    rows. If no grid point has a bound, the error is infinite and there are no rounds.
    """
    budgets_after, steps_by_round, new_by_round = _search_grid(n_rounds, n_unlabelled, epsilon)
    # labelled rows and remaining ε at the start of a round, for all points of the grid
    labelled: Any = np.full(new_by_round[0].shape, n_labelled)
    budget: Any = epsilon
    total_error = np.zeros(labelled.shape)
    sampled_by_round = []
    for position in range(n_rounds):
        budget_after, n_new = budgets_after[position], new_by_round[position]
        draw_epsilon = steps_by_round[position] / EPSILON_STEPS
        u = np.exp(draw_epsilon / 2)
        sampled = _max_sampled(labelled, budget, budget_after, n_classes - 1 + u)
        # an unlabelled row may be sampled in one round only, so it has the entire budget
        sampled_new = _max_sampled(n_new, epsilon, budget_after, float(n_classes))
        sampled = np.minimum(sampled, max_rows // 2)
        sampled_new = np.minimum(sampled_new, max_rows - sampled)
        n_relabelled = sampled + sampled_new
        log_size = log_n_labelings(np.maximum(n_relabelled, 1)) + math.log(1 / beta)
        round_error = _round_error(sampled, draw_epsilon, log_size)
        total_error += np.where(sampled_new > 0, round_error, np.inf)
        sampled_by_round.append((sampled, sampled_new))
        labelled, budget = n_relabelled, budget_after
    total_error += base_sample_cost / (budgets_after[-1] * np.maximum(labelled, TINY_COUNT))
    best = np.unravel_index(int(np.argmin(total_error)), total_error.shape)
    if not np.isfinite(total_error[best]):
        return math.inf, ()

    rounds: list[RelabellingRound] = []
    for position, (sampled, sampled_new) in enumerate(sampled_by_round):
        rounds.append(
            RelabellingRound(
                n_labelled=rounds[-1].n_relabelled if rounds else n_labelled,
                n_new=int(new_by_round[position][best]),
                sampled_labelled=int(sampled[best]),
                sampled_new=int(sampled_new[best]),
                epsilon=Fraction(int(steps_by_round[position][best]), EPSILON_STEPS),
            )
        )
    return float(total_error[best]), tuple(rounds)


def _round_error(sampled: Any, draw_epsilon: Any, log_size: Any) -> Floats:
    """Return a round's error bound, or infinity if its draw is too inaccurate.

    All arrays have the shape of the grid. `log_size` is the logarithm of the number of labellings
    divided by the failure probability.
    """
    n_scored = np.maximum(sampled, TINY_COUNT)
    draw_error = 2 * log_size / (draw_epsilon * n_scored)
    sampling_error = np.sqrt(log_size / (2 * n_scored))
    return np.where(draw_error <= MAX_DRAW_ERROR, draw_error + sampling_error, np.inf)


def _max_sampled(n_rows: Any, budget: Any, budget_after: Any, factor: Any) -> Any:
    """Return the size of the largest sample of n rows that a round can relabel within a budget.

    At sampling rate q, the cost of the round and all later steps is ``ln(1 + q (factor²
    e^budget_after - 1))``. The function solves this equation for the sampling rate.
    """
    with np.errstate(over="ignore"):
        rate = np.expm1(np.minimum(budget, SAFE_EXPONENT)) / (np.exp(budget_after) * factor**2 - 1)
    return np.floor(np.minimum(rate, 1.0) * n_rows).astype(np.int64)
