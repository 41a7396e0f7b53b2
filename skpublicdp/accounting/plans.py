"""Privacy cost of an adaptive plan, by hockey-stick divergences.

A plan is an event that is fixed in advance: steps one after the other, and places where the answers
given so far decide which of several plans goes on. Its δ(ε) is computed backwards: V(u) is the
most that the steps still to come can add to δ where u = e^(ε - privacy loss so far). V is convex
in u, so the broken line through a few of its values lies above it. With every rounding
against us as well, what `plan_delta` returns is an upper bound; the proof is docs/proofs/plans.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from skpublicdp.accounting.events import (
    Approximate,
    Draw,
    Either,
    Event,
    Gaussian,
    Pure,
    Steps,
    Subsampled,
    basic_price,
)
from skpublicdp.accounting.hockey_stick import CurveGrid, float_down, float_up
from skpublicdp.accounting.rounding import non_negative, probability, root_below
from skpublicdp.accounting.zcdp import zcdp_rho
from skpublicdp.typing import Floats


def plan_delta(plan: Event, epsilon: Fraction) -> float:
    """Return the δ of a plan at a given ε.

    Parameters
    ----------
    plan : Event
        What is run.
    epsilon : Fraction
        Non-negative.

    Returns
    -------
    float
        The least δ with which every run of the plan is (ε, δ)-differentially private, rounded up:
        where δ is at least 1e-12, usually by less than one percent (docs/proofs/plans.md).

    References
    ----------
    Dong, Durfee and Rogers (2020), who bound the loss of one draw by two values; Doroshenko, Ghazi,
    Kamath, Kumar and Manurangsi (2022), for the broken lines.

    Examples
    --------
    >>> plan_delta(Gaussian(Fraction(56, 1000)), 1)
    9.9469...e-07
    >>> plan_delta(Steps((Gaussian(Fraction(56, 1000)), Draw(Fraction(1, 10)))), 1)
    1.709...e-06
    >>> plan_delta(Steps((Draw(Fraction(1, 2)),) * 2), 1)
    0.0
    """
    return _plan_delta(plan, non_negative("epsilon", epsilon))


def largest_scale(
    make_plan: Callable[[Fraction], Event], epsilon: Fraction, delta: Fraction
) -> Fraction:
    """Return the largest scale at which a plan fits a budget.

    Parameters
    ----------
    make_plan : callable
        Takes a positive scale and returns a plan, which costs more at a larger scale.
    epsilon, delta : Fraction
        The budget; δ strictly between 0 and 1.

    Returns
    -------
    Fraction
        A scale with ``plan_delta(make_plan(scale), epsilon) <= delta``. It is the largest one, less
        at most a share of 2^-12.

    Raises
    ------
    ValueError
        If every scale fits or none does.

    Examples
    --------
    >>> draw = Draw(Fraction(1, 10))
    >>> float(largest_scale(lambda scale: Steps((Gaussian(scale), draw)), 1, 1e-6))
    0.0529...
    """
    epsilon, delta = non_negative("epsilon", epsilon), probability("delta", delta)

    def size(spent: float) -> float:
        return 1 / (1 - math.log(max(spent, 1e-300)))  # for small scales nearly linear in them

    aim = size(float(delta))

    def excess(scale: float) -> float:
        spent = _plan_delta(make_plan(Fraction(scale)), epsilon)
        if Fraction(spent) <= delta:  # the sign is exact, the rest only says where to look
            return min(size(spent) - aim, -MIN_EXCESS)
        return max(size(spent) - aim, MIN_EXCESS)

    # low fits and high does not, as soon as both are found
    low = high = 1.0
    at_low = at_high = excess(1.0)
    step = math.sqrt(2)
    while (at_low > 0) == (at_high > 0):
        if step > MAX_SCALE_RATIO:
            fate = "exceeds" if at_low > 0 else "fits"
            raise ValueError(f"the plan {fate} the budget at every scale.")
        least = max(step, 2.0)
        if at_low > 0:
            high, at_high = low, at_low
            low = _round_mantissa(
                low / max(least, min(1.5 * (at_low + aim) / aim, MAX_SCALE_RATIO))
            )
            at_low = excess(low)
        else:
            low, at_low = high, at_high
            high = _round_mantissa(high * least)
            at_high = excess(high)
        step *= step
    slow = False
    while high > low * (1 + SCALE_TOLERANCE):
        ratio = high / low
        root = math.sqrt(low * high) if slow else low - at_low * (high - low) / (at_high - at_low)
        # not at the root but behind it, seen from the nearer end, so that both ends close in
        behind = 1 + SCALE_TOLERANCE / 3
        share = min(0.3, ratio - 1)
        guess = root * behind * (root / low) ** share
        if high - root < root - low:
            guess = root / behind / (high / root) ** share
        narrow = 1 + 0.9 * SCALE_TOLERANCE
        guess = _round_mantissa(min(max(guess, low * narrow), high / narrow))
        at_guess = excess(guess)
        if at_guess > 0:
            high, at_high = guess, at_guess
        else:
            low, at_low = guess, at_guess
        slow = high / low > math.sqrt(ratio)
    return Fraction(low)


@lru_cache(maxsize=1024)
def equal_draws(epsilon: Fraction, delta: Fraction, count: int) -> Fraction:
    """Return an ε that each of some draws may have, by the plan calculus where that is fast.

    Examples
    --------
    >>> float(equal_draws(Fraction(1), Fraction(1, 10**6), 32))
    0.0839...
    """
    if count <= MAX_PLANNED_DRAWS:
        return largest_scale(lambda scale: Steps((Draw(scale),) * count), epsilon, delta)
    return root_below(8 * zcdp_rho(epsilon, delta) / count)


MAX_PLANNED_DRAWS = 128
"""More equal draws are composed by zCDP: the plan calculus takes seconds and gains 7% at most."""


MAX_SCALE_RATIO = 2.0**64
"""Scales are searched for between 2^-127 and 2^127."""

SCALE_TOLERANCE = 2.0**-12
"""Relative error of a scale."""

MIN_EXCESS = 1e-12
"""Least distance from the budget that the search assumes."""


def _round_mantissa(scale: float) -> float:
    """Round a scale to few digits, so that fractions made of it stay short."""
    mantissa, exponent = math.frexp(scale)
    return math.ldexp(round(mantissa * 2**20), exponent - 20)


@lru_cache(maxsize=1024)
def _plan_delta(plan: Event, epsilon: Fraction) -> float:
    if _pure_epsilon(plan) <= epsilon:
        return 0.0
    logarithm = float_down(min(epsilon, PLAN_EPSILON_CAP))
    grid = _choose_grid(plan, logarithm)
    delta = grid.at(logarithm, _curve_before(plan, grid.start(), grid))
    return min(1.0, delta + UNDERFLOW_BOUND)


PLAN_EPSILON_CAP = Fraction(128)
"""A larger ε is taken for this one: δ is no smaller there, and exponentials stay floats."""

MIN_PLAN_PARAMETER = 2.0**-40
"""Smaller μ, and budgets of draws, are taken for this one: δ is no smaller there."""

UNDERFLOW_BOUND = 2.0**-900
"""More than all numbers together that were too small for floats."""


def _curve_before(plan: Event, values: Floats, grid: CurveGrid) -> Floats:
    """Return the curve before a plan from the curve after it."""
    match plan:
        case Gaussian(mu_squared):
            if mu_squared > PLAN_EPSILON_CAP**2:
                return np.ones_like(values)
            mu = math.nextafter(math.sqrt(float_up(mu_squared)), math.inf)
            return grid.gaussian(max(mu, MIN_PLAN_PARAMETER), values) if mu_squared else values
        case Draw(epsilon):
            if epsilon > PLAN_EPSILON_CAP:
                return np.ones_like(values)
            return (
                grid.draw(max(float_up(epsilon), MIN_PLAN_PARAMETER), values) if epsilon else values
            )
        case Pure(epsilon):
            if epsilon > PLAN_EPSILON_CAP:
                return np.ones_like(values)
            return grid.pure(float_up(epsilon), values) if epsilon else values
        case Approximate(epsilon, delta):
            # all is lost with probability δ, and the loss is ±ε otherwise (Kairouz et al. 2017)
            lost = min(float_up(delta), 1.0)
            return np.minimum(1.0, _curve_before(Pure(epsilon), values, grid) + lost)
        case Subsampled():
            return _curve_before(_as_approximate(plan), values, grid)
        case Either(options):
            curves = [_curve_before(option, values, grid) for option in dict.fromkeys(options)]
            highest: Floats = np.maximum.reduce(curves)
            return highest
    for step in reversed(_merge_gaussian_steps(plan)):
        values = _curve_before(step, values, grid)
    return values


def _as_approximate(plan: Subsampled) -> Event:
    """Return an event of which all is known."""
    epsilon, delta = basic_price(plan)
    if not isinstance(epsilon, Fraction):
        raise ValueError("Of a subsample, only the cost of (ε, δ)-private events is known.")
    return Approximate(epsilon, delta) if delta else Pure(epsilon)


def _choose_grid(plan: Event, epsilon: float) -> CurveGrid:
    """Choose a grid; any one gives a bound, and a good one a tight bound.

    δ falls about as e^(-r ε) for the r at which the tilted loss is ε on average. A broken line is
    above such a curve by (r h)² / 8 of it, in every step.
    """
    mu_squared, draws = _max_variance_path(plan)
    spread = math.sqrt(max(_variance(mu_squared, draws), 1e-200))
    low, high = 0.0, 1.0
    while high < 1e6 and _mean_loss(mu_squared, draws, high) < epsilon:
        low, high = high, 4 * high
    while high - low > 0.05 * high:
        middle = (low + high) / 2
        below = _mean_loss(mu_squared, draws, middle) < epsilon
        low, high = (middle, high) if below else (low, middle)
    # where a path from ε to its end may stray without being e^-MARGIN less likely for it
    stray = spread * (math.sqrt((low * spread) ** 2 + 4 * LOG_TAIL_MARGIN) - low * spread) / 2
    pure, stray = (
        float(min(_pure_epsilon(plan), 2 * PLAN_EPSILON_CAP)),
        min(stray, float(PLAN_EPSILON_CAP)),
    )
    bottom, top = max(-stray, -pure), min(epsilon + stray, pure)
    steps = 1 + 2 * sum(draws.values())
    step = math.sqrt(INTERPOLATION_LOSS / steps) / (low + 1 / spread)
    step = min(max(step, (top - bottom) / MAX_GRID_POINTS), 0.5)
    if epsilon > step:
        step = epsilon / math.ceil(epsilon / step)
    mantissa, exponent = math.frexp(step)
    step = math.ldexp(math.floor(mantissa * 2**24), exponent - 24)
    return CurveGrid(step, math.floor(bottom / step) - 1, max(math.ceil(top / step), 1) + 1)


LOG_TAIL_MARGIN = 9.0
"""What lies beyond the grid counts e^-9 of δ or less, about."""

INTERPOLATION_LOSS = 0.04
"""Eight times the share of δ that is lost to broken lines, about."""

MAX_GRID_POINTS = 4000
"""Of a grid; also what the bounds of roundings are made for."""


def _max_variance_path(plan: Event) -> tuple[float, Counter[float]]:
    """Return μ² and the budgets of the draws on the path on which the loss varies most."""
    match plan:
        case Gaussian(mu_squared):
            return float(min(mu_squared, PLAN_EPSILON_CAP**2)), Counter()
        case Draw(epsilon):
            return 0.0, Counter([float(min(epsilon, PLAN_EPSILON_CAP))])
        case Pure(epsilon) | Approximate(epsilon, _):
            return 0.0, Counter([float(min(2 * epsilon, PLAN_EPSILON_CAP))])
        case Subsampled():
            return _max_variance_path(_as_approximate(plan))
        case Steps(parts):
            totals = list(map(_max_variance_path, parts))
            return sum(t[0] for t in totals), sum((t[1] for t in totals), Counter[float]())
        case Either(options):
            return max(map(_max_variance_path, options), key=lambda total: _variance(*total))


def _variance(mu_squared: float, draws: Counter[float]) -> float:
    """Bound the variance of the loss."""
    return mu_squared + sum(count * e * e / 4 for e, count in draws.items())


def _mean_loss(mu_squared: float, draws: Counter[float], tilt: float) -> float:
    """Return the mean of the loss L under weights in proportion to e^(tilt L), at its worst."""

    def draw(epsilon: float) -> float:
        small, large = tilt * epsilon, (tilt + 1) * epsilon
        if small < 1e-6:
            return epsilon * (small + large) / 8
        if large > 500:
            return epsilon
        # E e^(tilt L) = τ^tilt (total - share τ) / (K - 1) is largest at this τ = e^t
        share, decay = -math.expm1(-small), math.exp(-small)
        total = math.exp(epsilon) - decay
        tau = tilt * total / ((tilt + 1) * share)
        return math.log(tau) - epsilon * decay * (tau - 1) / (total - share * tau)

    return mu_squared * (tilt + 0.5) + sum(count * draw(e) for e, count in draws.items())


def _merge_gaussian_steps(plan: Event) -> list[Event]:
    """Return the steps of a plan, with Gaussian mechanisms in a row made one."""
    if not isinstance(plan, Steps):
        return [plan]
    steps: list[Event] = []
    for step in (step for part in plan.parts for step in _merge_gaussian_steps(part)):
        match step, steps:
            case Gaussian(more), [*_, Gaussian(mu_squared)]:
                steps[-1] = Gaussian(mu_squared + more)
            case _:
                steps.append(step)
    return steps


def _pure_epsilon(plan: Event) -> Fraction | float:
    """Return the ε at which δ is 0."""
    epsilon, delta = basic_price(plan)
    return math.inf if delta else epsilon
