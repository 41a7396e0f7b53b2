"""The schedule of LabelBoost and its budget: functions of public sizes and settings alone.

The proofs of all bounds are in docs/proofs/label_boost.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import localcontext
from fractions import Fraction
from typing import Any

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
from skpublicdp.guarantees import n_label_boost, n_private, vc_dimension
from skpublicdp.hypotheses import HypothesisClass
from skpublicdp.label_boost.relabelling import (
    check_n_relabelled,
    log_n_labelings,
    max_relabelled_rows,
)
from skpublicdp.typing import Floats


@dataclass(frozen=True)
class RelabellingRound:
    """One round: thin out the labelled rows and some new ones, and relabel what is kept.

    Attributes
    ----------
    n_labelled, n_new : int
        Labelled rows at its start, and rows without a label that it takes in.
    kept_labelled, kept_new : int
        How many of them are kept.
    epsilon : Fraction
        Parameter of the draw that relabels.
    """

    n_labelled: int
    n_new: int
    kept_labelled: int
    kept_new: int
    epsilon: Fraction

    @property
    def kept(self) -> int:
        """Rows that leave the round with a label."""
        return self.kept_labelled + self.kept_new


@dataclass(frozen=True)
class LabelBoostPlan:
    """All sizes and budgets of one fit.

    Attributes
    ----------
    epsilon, delta : Fraction
        Budget of the whole.
    first_labelled, first_unlabelled : int
        Rows of either kind kept before the first round.
    rounds : tuple of RelabellingRound
        The rounds.
    base_rows : int
        Rows kept for the base learner.
    resampled : bool
        Whether the base learner gets as many rows drawn from these with replacement.
    base_epsilon, base_delta : float
        Budget of the base learner.
    """

    epsilon: Fraction
    delta: Fraction
    first_labelled: int
    first_unlabelled: int
    rounds: tuple[RelabellingRound, ...]
    base_rows: int
    resampled: bool
    base_epsilon: float
    base_delta: float


def relabelling_epsilon(
    after: Fraction, epsilon: Fraction, n_classes: int = 2
) -> tuple[float, float]:
    """Bound the privacy of relabelling rows and running an algorithm on what comes out.

    Parameters
    ----------
    after : Fraction
        Budget of the algorithm.
    epsilon : Fraction
        Parameter of the draw that relabels.
    n_classes : int, default=2
        Number of labels.

    Returns
    -------
    tuple of float
        ``after + 2 ln(n_classes - 1 + u)`` with ``u = exp(epsilon / 2)`` for labelled rows, and
        ``after + 2 ln(n_classes)`` for those without a label; rounded up. δ stays what it is.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Lemma 4.1, sharpened.

    Examples
    --------
    >>> relabelling_epsilon(Fraction(0), Fraction(1))
    (1.9481..., 1.3862...)
    """
    with localcontext(precise_context(after, epsilon)):
        labelled, new = _relabelling_prices(epsilon, n_classes)
        slack = 1 + relative_error()
        start = to_decimal(after)
        return float_above((start + labelled) * slack), float_above((start + new) * slack)


def rounds_epsilon(
    rounds: tuple[RelabellingRound, ...], base: Fraction, n_classes: int = 2
) -> list[tuple[float, float]]:
    """Bound the privacy of each round together with all that follows it.

    Parameters
    ----------
    rounds : tuple of RelabellingRound
        The rounds, first to last.
    base : Fraction
        Budget of the base learner.
    n_classes : int, default=2
        Number of labels.

    Returns
    -------
    list of (float, float)
        For each round, the ε of rows that are labelled at its start and of the others, rounded up.
    """
    labelled, others = float(base), 0.0
    bounds = []
    for step in reversed(rounds):
        before = relabelling_epsilon(Fraction(labelled), step.epsilon, n_classes)
        labelled = subsampled_epsilon(
            Fraction(before[0]), _rate(step.kept_labelled, step.n_labelled)
        )
        if step.kept_new:
            new = subsampled_epsilon(Fraction(before[1]), _rate(step.kept_new, step.n_new))
            others = max(others, new)
        bounds.append((labelled, others))
    return bounds[::-1]


def affordable_base_budget(
    epsilon: Fraction, delta: Fraction, rounds: tuple[RelabellingRound, ...], n_classes: int = 2
) -> tuple[float, float]:
    """Return the largest budget of a base learner that runs after some rounds.

    Parameters
    ----------
    epsilon, delta : Fraction
        Budget of the whole.
    rounds : tuple of RelabellingRound
        The rounds, first to last.
    n_classes : int, default=2
        Number of labels.

    Returns
    -------
    tuple of float
        ε, negative where there is none left, and δ; rounded down.
    """
    left, share = epsilon, Fraction(1)
    for step in rounds:
        rates = _rate(step.kept_labelled, step.n_labelled), _rate(step.kept_new, step.n_new)
        with localcontext(precise_context(epsilon, step.epsilon)):
            # a row that no round has taken before has spent nothing yet
            remains = [
                to_decimal(Fraction(base_epsilon(budget, rate))) - price
                for budget, rate, price in zip(
                    (left, epsilon),
                    rates,
                    _relabelling_prices(step.epsilon, n_classes),
                    strict=True,
                )
                if rate
            ]
            left = Fraction(float_below(min(remains) - relative_error()))
        if left <= 0:
            return float(left), 0.0
        share = max(share * rates[0], rates[1])  # the greatest chance to reach the base learner
    with localcontext(precise_context(delta, share)):
        slack = 1 - relative_error() if rounds else 1
        return float(left), float_below(to_decimal(delta / share) * slack)


def _relabelling_prices(epsilon: Fraction, n_classes: int) -> tuple[Any, Any]:
    """Return what relabelling costs labelled and other rows, in the decimals of the context."""
    u = (to_decimal(epsilon) / 2).exp()
    return 2 * (n_classes - 1 + u).ln(), 2 * to_decimal(Fraction(n_classes)).ln()


def _rate(kept: int, of: int) -> Fraction:
    return Fraction(kept, of) if of else Fraction(0)


Sizes = Any
"""A number of rows, or an array of them."""

LogCounts = Callable[[Sizes], Floats]
"""Bounds the logarithm of the number of labelings of so many rows."""


def make_plan(
    constants: str, hypotheses: HypothesisClass, n_features: int, n_classes: int, **settings: Any
) -> LabelBoostPlan:
    """Make the plan of a learner.

    Parameters
    ----------
    constants : {"tight", "paper"}
        Which of the two ways.
    hypotheses : HypothesisClass
        The class that relabels; `relabelling.check_relabelling` has accepted it.
    n_features, n_classes : int
        Numbers of features and labels.
    **settings
        What `tight_plan` and `paper_plan` both take.

    Returns
    -------
    LabelBoostPlan
        Of rounds whose rows can be relabelled.
    """
    if constants == "tight":
        plan = tight_plan(
            **settings,
            log_n_labelings=lambda n: log_n_labelings(hypotheses, n, n_features, n_classes),
            n_classes=n_classes,
            most=max_relabelled_rows(hypotheses, n_features),
        )
    elif n_classes > 2:
        raise ValueError(
            f"constants='paper' needs at most two labels and y has {n_classes}; "
            "use constants='tight'."
        )
    else:
        plan = paper_plan(**settings, vc=max(vc_dimension(hypotheses, n_features), 1))
    for step in plan.rounds:
        check_n_relabelled(hypotheses, n_features, step.kept)
    return plan


def n_base_rows(alpha: float, beta: float, n_base: int | None) -> int:
    """Return how many rows the base learner needs at ε = 1.

    Parameters
    ----------
    alpha, beta : float
        Error, and the probability with which it may be larger.
    n_base : int or None
        The answer if it is known. Otherwise the base learner is taken to be as hungry as the
        semi-private learner of a class of VC dimension 1, `guarantees.n_private`.

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


def tight_plan(
    n_labelled: int,
    n_unlabelled: int,
    *,
    epsilon: Fraction,
    delta: Fraction,
    alpha: float,
    beta: float,
    n_base: int | None,
    log_n_labelings: LogCounts,
    n_classes: int,
    most: int | None = None,
) -> LabelBoostPlan:
    """Choose rounds, sizes and budgets that promise the least error for a budget.

    Parameters
    ----------
    n_labelled, n_unlabelled : int
        Rows with and without a label.
    epsilon, delta : Fraction
        Budget of the whole.
    alpha, beta, n_base
        As in `n_base_rows`.
    log_n_labelings : callable
        Bounds the logarithm of the number of labelings of so many rows.
    n_classes : int
        Number of labels.
    most : int, optional
        How many rows can be relabelled at once; at most half of them are labelled before.

    Returns
    -------
    LabelBoostPlan
        Of no, one and two rounds, and of many ways to share out the budget, the one with the least
        ``sum of labellers + alpha n_base / (base_epsilon base_rows)``. A labeller drawn at ε₀ by s
        rows from labelings whose number has the logarithm l, ``L = l + ln(1 / beta)``, counts
        ``2 L / (ε₀ s) + sqrt(L / (2 s))``: what the draw and the sampling may lose. Where the first
        term exceeds 1/2 it promises nothing, and there is no such round.

    Notes
    -----
    The grid search uses floats and only proposes. `affordable_base_budget` decides what is spent.
    """
    base_sample_cost = alpha * n_base_rows(alpha, beta, n_base)
    alone = epsilon_delta(mechanism_event(epsilon, delta))
    none = LabelBoostPlan(
        epsilon=epsilon,
        delta=delta,
        first_labelled=n_labelled,
        first_unlabelled=n_unlabelled,
        rounds=(),
        base_rows=n_labelled,
        resampled=False,
        base_epsilon=alone[0],
        base_delta=alone[1],
    )
    best, plan = base_sample_cost / (float(epsilon) * n_labelled), none
    if n_classes < 2:
        return none  # one label: there is nothing to tell apart
    for count in (1, 2):
        score, rounds = _propose(
            count,
            n_labelled,
            n_unlabelled,
            float(epsilon),
            base_sample_cost,
            beta,
            log_n_labelings,
            n_classes,
            2**62 if most is None else most,
        )
        if score >= best:
            continue
        left, left_delta = affordable_base_budget(epsilon, delta, rounds, n_classes)
        if left > 0:
            best = score
            plan = replace(
                none,
                rounds=rounds,
                base_rows=rounds[-1].kept,
                base_epsilon=left,
                base_delta=min(left_delta, 1.0),
            )
    return plan


def _propose(
    count: int,
    n_labelled: int,
    n_unlabelled: int,
    epsilon: float,
    base_sample_cost: float,
    beta: float,
    log_n_labelings: LogCounts,
    n_classes: int,
    most: int,
) -> tuple[float, tuple[RelabellingRound, ...]]:
    """Return the best score of so many rounds on a grid of budgets, and these rounds."""
    points = 32 if count == 1 else 10
    # budgets after each round, the last being the base learner's; what each draw takes; the new
    # rows of the first round, in tenths
    largest = min(max(4.0, 2 * epsilon), 300.0)
    budgets = np.geomspace(0.02, largest, points)
    draws = np.maximum(np.rint(64 * np.geomspace(0.05, 2 * largest, points)), 1)
    shares = [10] if count == 1 else [1, 3, 5, 8]
    axes = np.meshgrid(*[budgets] * count, *[draws] * count, shares, indexing="ij")
    after, draw, share = axes[:count], axes[count:-1], axes[-1].astype(np.int64)
    taken = share * n_unlabelled // 10
    new_rows = [taken, n_unlabelled - taken][:count]

    labelled: Any = np.full(share.shape, n_labelled)
    total = np.zeros(share.shape)
    budget: Any = epsilon
    kept = []
    for step in range(count):
        u = np.exp(draw[step] / 128)
        rows = [
            _kept(of, spent, after[step], factor)
            for of, spent, factor in (
                (labelled, budget, n_classes - 1 + u),
                (new_rows[step], epsilon, float(n_classes)),
            )
        ]
        rows[0] = np.minimum(rows[0], most // 2)
        rows[1] = np.minimum(rows[1], most - rows[0])
        length = log_n_labelings(np.maximum(rows[0] + rows[1], 1)) + math.log(1 / beta)
        deciding = np.maximum(rows[0], 1e-9)
        lost = 2 * length / (draw[step] / 64 * deciding)
        sampled = np.sqrt(length / (2 * deciding))
        total += np.where((lost <= 0.5) & (rows[1] > 0), lost + sampled, np.inf)
        kept.append(rows)
        labelled, budget = rows[0] + rows[1], after[step]
    total += base_sample_cost / (after[-1] * np.maximum(labelled, 1e-9))
    where = np.unravel_index(int(np.argmin(total)), total.shape)
    if not np.isfinite(total[where]):
        return math.inf, ()

    rounds: list[RelabellingRound] = []
    for step, (old, new) in enumerate(kept):
        of = rounds[-1].kept if rounds else n_labelled
        rounds.append(
            RelabellingRound(
                n_labelled=of,
                n_new=int(new_rows[step][where]),
                kept_labelled=int(old[where]),
                kept_new=int(new[where]),
                epsilon=Fraction(int(draw[step][where]), 64),
            )
        )
    return float(total[where]), tuple(rounds)


def _kept(of: Any, spent: Any, after: Any, factor: Any) -> Any:
    """Return how many rows may be kept, so that relabelling and what follows spend no more."""
    with np.errstate(over="ignore"):
        rate = np.expm1(np.minimum(spent, 600.0)) / (np.exp(after) * factor**2 - 1)
    return np.floor(np.minimum(rate, 1.0) * of).astype(np.int64)


ROUND_SHRINKAGE = 100
"""Algorithm 3, step 2(c), keeps one row in so many."""

FINAL_SHRINKAGE = 300
"""Step 3 keeps one row in so many."""


def paper_plan(
    n_labelled: int,
    n_unlabelled: int,
    *,
    epsilon: Fraction,
    delta: Fraction,
    alpha: float,
    beta: float,
    n_base: int | None,
    vc: int,
) -> LabelBoostPlan:
    """Follow Algorithm 3 with its own constants, for an error of 11 alpha at 2 beta (Lemma 4.12).

    Parameters
    ----------
    n_labelled, n_unlabelled : int
        Rows with and without a label.
    epsilon, delta : Fraction
        Budget of the whole. Below ε = 1 the rows of either kind are thinned out first
        (Theorem 4.14).
    alpha, beta, n_base
        As in `n_base_rows`.
    vc : int
        VC dimension of the class that relabels.

    Returns
    -------
    LabelBoostPlan
        The schedule.

    Raises
    ------
    ValueError
        If `epsilon` is above 1, if the lemma promises nothing for `alpha` and `beta`, or if there
        are fewer rows than `guarantees.n_label_boost` counts; the message says how many it takes.
    """
    if epsilon > 1:
        raise ValueError(
            "constants='paper' needs epsilon of at most 1 for a row, where Claims 4.3 and 4.5 of "
            f"Beimel, Nissim and Stemmer (2015) stop; got {float(epsilon):g}: lower epsilon, or "
            "use constants='tight'."
        )
    error, failure = 11 * alpha, 2 * beta
    if error >= 1 or failure >= 1:
        raise ValueError(
            "constants='paper' promises an error of 11 alpha with probability 1 - 2 beta (Lemma "
            f"4.12), so alpha must be below 1/11 and beta below 1/2; got {alpha:g} and {beta:g}."
        )
    n = n_base_rows(alpha, beta, n_base)
    labelled, unlabelled = n_label_boost(error, failure, float(epsilon), vc, n, realizable=True)
    if n_labelled < labelled or n_unlabelled < unlabelled:
        raise ValueError(
            f"constants='paper' needs at least {labelled} labelled and {unlabelled} unlabelled "
            f"rows around a base learner that needs {n}, for an error of 11 alpha = {error:.3g} "
            f"with probability 1 - 2 beta = {1 - failure:.3g}; got {n_labelled} and "
            f"{n_unlabelled}, so {max(labelled - n_labelled, 0)} and "
            f"{max(unlabelled - n_unlabelled, 0)} are missing."
        )
    first = _thinned(n_labelled, epsilon)
    rounds = _paper_rounds(first, n, alpha, beta, vc)
    last = rounds[-1].kept if rounds else first
    base = epsilon_delta(mechanism_event(Fraction(1), delta / 41))  # Lemma 4.6
    return LabelBoostPlan(
        epsilon=epsilon,
        delta=delta,
        first_labelled=first,
        first_unlabelled=_thinned(n_unlabelled, epsilon),
        rounds=rounds,
        base_rows=last // FINAL_SHRINKAGE,
        resampled=True,
        base_epsilon=base[0],
        base_delta=base[1],
    )


def _thinned(n: int, epsilon: Fraction) -> int:
    """Return how many of n rows may be kept for an algorithm at ε = 1 to spend less."""
    if epsilon >= 1:
        return n
    kept = math.floor(n * math.expm1(epsilon) / math.expm1(1)) + 1
    while kept > 0 and subsampled_epsilon(Fraction(1), Fraction(kept, n)) > epsilon:
        kept -= 1
    return kept


def _paper_rounds(
    labelled: int, n: int, alpha: float, beta: float, vc: int
) -> tuple[RelabellingRound, ...]:
    """Return the rounds of Algorithm 3; by Claim 4.9 each takes rows in."""
    rounds: list[RelabellingRound] = []
    for i in itertools.count(1):
        if labelled >= FINAL_SHRINKAGE * n:
            return tuple(rounds)
        alpha_i, beta_i = alpha / (10 * 2**i), beta / (4 * 2**i)
        exponent = alpha_i * labelled / (200 * vc)
        most = 30_000 * n
        v = most if exponent > 600 else min(most, int(beta_i * vc * math.exp(exponent)) - labelled)
        step = RelabellingRound(
            labelled, v, labelled // ROUND_SHRINKAGE, v // ROUND_SHRINKAGE, Fraction(1)
        )
        rounds.append(step)
        labelled = step.kept
    raise AssertionError("the rounds never end")
