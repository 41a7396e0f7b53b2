"""Two ways to plan LabelBoost, both from public numbers: the tight one and the paper's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from skpublicdp.accounting import subsampled_epsilon
from skpublicdp.base_learner import epsilon_delta, mechanism_event
from skpublicdp.guarantees import n_label_boost, n_private, vc_dimension
from skpublicdp.hypotheses import HypothesisClass
from skpublicdp.label_boost.plan import Plan, Round, affordable
from skpublicdp.label_boost.relabel import check_rows_of, log_size, most_rows
from skpublicdp.typing import Floats

Sizes = Any
"""A number of rows, or an array of them."""

LogSize = Callable[[Sizes], Floats]
"""Bounds the logarithm of the number of labelings of so many rows."""


def make_plan(
    constants: str, hypotheses: HypothesisClass, n_features: int, n_classes: int, **settings: Any
) -> Plan:
    """Make the plan of a learner.

    Parameters
    ----------
    constants : {"tight", "paper"}
        Which of the two ways.
    hypotheses : HypothesisClass
        What relabels, checked by `relabel.check_relabelling`.
    n_features, n_classes : int
        Numbers of features and labels.
    **settings
        What `tight_plan` and `paper_plan` both take.

    Returns
    -------
    Plan
        Of rounds whose rows can be relabelled.
    """
    if constants == "tight":
        plan = tight_plan(
            **settings,
            log_size=lambda n: log_size(hypotheses, n, n_features, n_classes),
            n_classes=n_classes,
            most=most_rows(hypotheses, n_features),
        )
    elif n_classes > 2:
        raise ValueError(
            f"constants='paper' needs at most two labels and y has {n_classes}; "
            "use constants='tight'."
        )
    else:
        plan = paper_plan(**settings, vc=max(vc_dimension(hypotheses, n_features), 1))
    for step in plan.rounds:
        check_rows_of(hypotheses, n_features, step.kept)
    return plan


def base_size(alpha: float, beta: float, n_base: int | None) -> int:
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
    >>> base_size(0.1, 0.05, None)
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
    log_size: LogSize,
    n_classes: int,
    most: int | None = None,
) -> Plan:
    """Choose rounds, sizes and budgets that promise the least error for a budget.

    Parameters
    ----------
    n_labelled, n_unlabelled : int
        Rows with and without a label.
    epsilon, delta : Fraction
        Budget of the whole.
    alpha, beta, n_base
        As in `base_size`.
    log_size : callable
        Bounds the logarithm of the number of labelings of so many rows.
    n_classes : int
        Number of labels.
    most : int, optional
        How many rows can be relabelled at once; at most half of them are labelled before.

    Returns
    -------
    Plan
        Of no, one and two rounds, and of many ways to share out the budget, the one with the least
        ``sum of labellers + alpha n_base / (base_epsilon base_rows)``. A labeller drawn at ε₀ by s
        rows from labelings whose number has the logarithm l, ``L = l + ln(1 / beta)``, counts
        ``2 L / (ε₀ s) + sqrt(L / (2 s))``: what the draw and the sampling may lose. Where the first
        term exceeds 1/2 it promises nothing, and there is no such round.

    Notes
    -----
    The search is in floats, and only proposes: `plan.affordable` decides what is spent.
    """
    hunger = alpha * base_size(alpha, beta, n_base)
    alone = epsilon_delta(mechanism_event(epsilon, delta))
    none = Plan(
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
    best, plan = hunger / (float(epsilon) * n_labelled), none
    if n_classes < 2:
        return none  # one label: there is nothing to tell apart
    for count in (1, 2):
        score, rounds = _propose(
            count,
            n_labelled,
            n_unlabelled,
            float(epsilon),
            hunger,
            beta,
            log_size,
            n_classes,
            2**62 if most is None else most,
        )
        if score >= best:
            continue
        left, left_delta = affordable(epsilon, delta, rounds, n_classes)
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
    hunger: float,
    beta: float,
    log_size: LogSize,
    n_classes: int,
    most: int,
) -> tuple[float, tuple[Round, ...]]:
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
        length = log_size(np.maximum(rows[0] + rows[1], 1)) + math.log(1 / beta)
        deciding = np.maximum(rows[0], 1e-9)
        lost = 2 * length / (draw[step] / 64 * deciding)
        sampled = np.sqrt(length / (2 * deciding))
        total += np.where((lost <= 0.5) & (rows[1] > 0), lost + sampled, np.inf)
        kept.append(rows)
        labelled, budget = rows[0] + rows[1], after[step]
    total += hunger / (after[-1] * np.maximum(labelled, 1e-9))
    where = np.unravel_index(int(np.argmin(total)), total.shape)
    if not np.isfinite(total[where]):
        return math.inf, ()

    rounds: list[Round] = []
    for step, (old, new) in enumerate(kept):
        of = rounds[-1].kept if rounds else n_labelled
        rounds.append(
            Round(
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


SHRINK = 100
"""Algorithm 3, step 2(c), keeps one row in so many."""

FINAL_SHRINK = 300
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
) -> Plan:
    """Follow Algorithm 3 with its own constants, for an error of 11 alpha at 2 beta (Lemma 4.12).

    Parameters
    ----------
    n_labelled, n_unlabelled : int
        Rows with and without a label.
    epsilon, delta : Fraction
        Budget of the whole. Below ε = 1 the rows of either kind are thinned out first
        (Theorem 4.14).
    alpha, beta, n_base
        As in `base_size`.
    vc : int
        VC dimension of the class that relabels.

    Returns
    -------
    Plan
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
    n = base_size(alpha, beta, n_base)
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
    return Plan(
        epsilon=epsilon,
        delta=delta,
        first_labelled=first,
        first_unlabelled=_thinned(n_unlabelled, epsilon),
        rounds=rounds,
        base_rows=last // FINAL_SHRINK,
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


def _paper_rounds(labelled: int, n: int, alpha: float, beta: float, vc: int) -> tuple[Round, ...]:
    """Return the rounds of Algorithm 3; by Claim 4.9 each takes rows in."""
    rounds: list[Round] = []
    for i in itertools.count(1):
        if labelled >= FINAL_SHRINK * n:
            return tuple(rounds)
        alpha_i, beta_i = alpha / (10 * 2**i), beta / (4 * 2**i)
        exponent = alpha_i * labelled / (200 * vc)
        most = 30_000 * n
        v = most if exponent > 600 else min(most, int(beta_i * vc * math.exp(exponent)) - labelled)
        step = Round(labelled, v, labelled // SHRINK, v // SHRINK, Fraction(1))
        rounds.append(step)
        labelled = step.kept
    raise AssertionError("the rounds never end")
