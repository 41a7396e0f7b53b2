"""Privacy cost of an adaptive plan, computed with hockey-stick divergences.

A plan is an event that is fixed in advance: sequential steps, and adaptive choices between several
plans. The δ(ε) of a plan is computed backwards from the last step. V(u) is the largest δ that the
later steps can cause, with u = e^(ε - privacy loss so far). Since V is convex in u, linear
interpolation between a few values of V gives an upper bound. All floats are rounded up, so
`plan_delta` returns an upper bound. The proof is docs/proofs/plans.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

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
        The plan.
    epsilon : Fraction
        Non-negative.

    Returns
    -------
    float
        The smallest δ for which every run of the plan is (ε, δ)-differentially private, rounded up.
        If δ is at least 1e-12, it is usually overestimated by less than one percent
        (docs/proofs/plans.md).

    References
    ----------
    Dong, Durfee and Rogers (2020), for the two-valued privacy loss of a draw; Doroshenko, Ghazi,
    Kamath, Kumar and Manurangsi (2022), for the piecewise-linear bounds.

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
    """Return the largest scale for which a plan fits a budget.

    Parameters
    ----------
    make_plan : callable
        Function that maps a positive scale to a plan, whose cost must increase with the scale.
    epsilon, delta : Fraction
        The budget, with δ strictly between 0 and 1.

    Returns
    -------
    Fraction
        The largest scale with ``plan_delta(make_plan(scale), epsilon) <= delta``, rounded down
        with a relative error of at most 2^-12.

    Raises
    ------
    ValueError
        If all scales fit the budget, or if none does.

    Examples
    --------
    >>> draw = Draw(Fraction(1, 10))
    >>> float(largest_scale(lambda scale: Steps((Gaussian(scale), draw)), 1, 1e-6))
    0.0529...
    """
    epsilon, delta = non_negative("epsilon", epsilon), probability("delta", delta)

    def transform(plan_delta: float) -> float:
        """Return 1 / (1 - ln δ), a nearly linear function of the scale for small scales."""
        return 1 / (1 - math.log(max(plan_delta, MIN_LOG_ARGUMENT)))

    target = transform(float(delta))

    def excess(scale: float) -> float:
        """Return the transformed δ at a scale minus the target (negative if the plan fits)."""
        plan_delta = _plan_delta(make_plan(Fraction(scale)), epsilon)
        if Fraction(plan_delta) <= delta:  # exact, so that rounding cannot change the sign
            return min(transform(plan_delta) - target, -MIN_EXCESS)
        return max(transform(plan_delta) - target, MIN_EXCESS)

    return Fraction(_narrow_bracket(excess, _find_bracket(excess, target)))


class _Bracket(NamedTuple):
    """Bracket of scales: the scale `low` fits the budget, and the larger scale `high` does not."""

    # the scales
    low: float
    high: float
    # excess of the cost at each scale over the budget, negative for `low` and positive for `high`
    low_excess: float
    high_excess: float


def _find_bracket(excess: Callable[[float], float], target: float) -> _Bracket:
    """Bracket the largest scale with a negative excess, starting from scale 1 with growing steps.

    The excess plus `target` is nearly linear in the scale. If a guess is too large, it is therefore
    divided by the ratio of its value to the target, with a margin, whenever this factor exceeds the
    growing step.
    """
    low = high = 1.0
    low_excess = high_excess = excess(1.0)
    step = math.sqrt(2)
    while (low_excess > 0) == (high_excess > 0):
        if step > MAX_SCALE_RATIO:
            relation = "exceeds" if low_excess > 0 else "fits"
            raise ValueError(f"the plan {relation} the budget at every scale.")
        min_ratio = max(step, 2.0)
        if low_excess > 0:
            high, high_excess = low, low_excess
            linear_ratio = min(
                LINEAR_GUESS_MARGIN * (low_excess + target) / target, MAX_SCALE_RATIO
            )
            low = _round_mantissa(low / max(min_ratio, linear_ratio))
            low_excess = excess(low)
        else:
            low, low_excess = high, high_excess
            high = _round_mantissa(high * min_ratio)
            high_excess = excess(high)
        step *= step  # √2, 2, 4, 16, ...
    return _Bracket(low, high, low_excess, high_excess)


def _narrow_bracket(excess: Callable[[float], float], bracket: _Bracket) -> float:
    """Narrow a bracket to `SCALE_TOLERANCE` by the secant method, and return the lower end.

    Seen from the nearer end, each guess lies slightly beyond the root of the secant, so that both
    ends move. The overshoot vanishes as the bracket narrows. If a step reduces the logarithmic
    width by less than half, the next guess is the geometric mean of the ends.
    """
    low, high, low_excess, high_excess = bracket
    is_slow = False
    while high > low * (1 + SCALE_TOLERANCE):
        ratio = high / low
        if is_slow:
            root = math.sqrt(low * high)
        else:
            root = low - low_excess * (high - low) / (high_excess - low_excess)
        min_overshoot = 1 + SCALE_TOLERANCE / 3
        exponent = min(MAX_OVERSHOOT_EXPONENT, ratio - 1)
        guess = root * min_overshoot * (root / low) ** exponent
        if high - root < root - low:  # nearer to the high end: go beyond the root downwards
            guess = root / min_overshoot / (high / root) ** exponent
        min_ratio = 1 + 0.9 * SCALE_TOLERANCE  # a guess at an end would not narrow the bracket
        guess = _round_mantissa(min(max(guess, low * min_ratio), high / min_ratio))
        guess_excess = excess(guess)
        if guess_excess > 0:
            high, high_excess = guess, guess_excess
        else:
            low, low_excess = guess, guess_excess
        is_slow = high / low > math.sqrt(ratio)
    return low


@lru_cache(maxsize=1024)
def equal_draws(epsilon: Fraction, delta: Fraction, count: int) -> Fraction:
    """Return the largest ε per draw for which `count` draws together cost at most (ε, δ).

    The composition is computed by `plan_delta`, or by zCDP for more than `MAX_PLANNED_DRAWS` draws.

    Examples
    --------
    >>> float(equal_draws(Fraction(1), Fraction(1, 10**6), 32))
    0.0839...
    """
    if count <= MAX_PLANNED_DRAWS:
        return largest_scale(lambda scale: Steps((Draw(scale),) * count), epsilon, delta)
    return root_below(8 * zcdp_rho(epsilon, delta) / count)


MAX_PLANNED_DRAWS = 128
"""Largest number of equal draws whose composition is computed by the plan calculus.

For more draws, the plan calculus would take seconds and improve ε by at most 7% compared with zCDP.
"""

MAX_SCALE_RATIO = 2.0**64
"""Largest ratio of consecutive scales in a search, which limits scales to 2^-127 to 2^127."""

SCALE_TOLERANCE = 2.0**-12
"""Relative error allowed in a scale."""

MIN_LOG_ARGUMENT = 1e-300
"""Lower bound on δ when a logarithm is taken."""

LINEAR_GUESS_MARGIN = 1.5
"""Factor applied to an extrapolated ratio of scales, so that the new guess is likely to fit."""

MAX_OVERSHOOT_EXPONENT = 0.3
"""Maximum overshoot beyond the root of the secant, as a power of the ratio between this root and
the nearer end."""

PLAN_SCALE_BITS = 20
"""Number of binary digits of a scale, which keeps fractions computed from scales short."""

STEP_BITS = 24
"""Number of binary digits of a grid step, so that multiples of half a step are exact floats."""

MIN_EXCESS = 1e-12
"""Smallest absolute value of the excess in a search for a scale, which preserves the sign."""


def _round_mantissa(scale: float) -> float:
    """Return a scale rounded to `PLAN_SCALE_BITS` binary digits."""
    mantissa, exponent = math.frexp(scale)
    return math.ldexp(round(mantissa * 2**PLAN_SCALE_BITS), exponent - PLAN_SCALE_BITS)


@lru_cache(maxsize=1024)
def _plan_delta(plan: Event, epsilon: Fraction) -> float:
    """Return `plan_delta` for an ε that is already an exact fraction."""
    if _pure_epsilon(plan) <= epsilon:
        return 0.0
    logarithm = float_down(min(epsilon, PLAN_EPSILON_CAP))
    grid = _choose_grid(plan, logarithm)
    delta = grid.value_at(logarithm, _curve_before(plan, grid.start(), grid))
    return min(1.0, delta + UNDERFLOW_BOUND)


PLAN_EPSILON_CAP = Fraction(128)
"""Largest ε used in computations, so that e^ε does not overflow. The δ at this ε is at least the δ
at any larger ε."""

MIN_PLAN_PARAMETER = 2.0**-40
"""Smallest μ, and smallest ε of a draw, used in computations. Raising a smaller value to this
minimum only increases δ."""

UNDERFLOW_BOUND = 2.0**-900
"""Upper bound on the sum of all numbers that are rounded to zero."""


def _curve_before(plan: Event, values: Floats, grid: CurveGrid) -> Floats:
    """Return the curve before a plan on a grid, given the curve `values` after the plan."""
    match plan:
        case Gaussian(mu_squared):
            if mu_squared > PLAN_EPSILON_CAP**2:
                return np.ones_like(values)
            mu = math.nextafter(math.sqrt(float_up(mu_squared)), math.inf)
            return grid.gaussian(max(mu, MIN_PLAN_PARAMETER), values) if mu_squared else values
        case Draw(epsilon):
            if epsilon > PLAN_EPSILON_CAP:
                return np.ones_like(values)
            rounded_epsilon = max(float_up(epsilon), MIN_PLAN_PARAMETER)
            return grid.draw(rounded_epsilon, values) if epsilon else values
        case Pure(epsilon):
            if epsilon > PLAN_EPSILON_CAP:
                return np.ones_like(values)
            return grid.pure(float_up(epsilon), values) if epsilon else values
        case Approximate(epsilon, delta):
            # the loss is infinite with probability δ, and ±ε otherwise (Kairouz et al. 2017)
            failure = min(float_up(delta), 1.0)
            return np.minimum(1.0, _curve_before(Pure(epsilon), values, grid) + failure)
        case Subsampled():
            return _curve_before(_as_approximate(plan), values, grid)
        case Either(options):
            curves = [_curve_before(option, values, grid) for option in dict.fromkeys(options)]
            return np.maximum.reduce(curves)
    for step in reversed(_merge_gaussian_steps(plan)):
        values = _curve_before(step, values, grid)
    return values


def _as_approximate(plan: Subsampled) -> Event:
    """Return the amplified (ε, δ) of a subsampled event, as an event."""
    epsilon, delta = basic_price(plan)
    if not isinstance(epsilon, Fraction):
        raise ValueError("The base of Subsampled must have a finite epsilon by basic composition.")
    return Approximate(epsilon, delta) if delta else Pure(epsilon)


def _choose_grid(plan: Event, epsilon: float) -> CurveGrid:
    """Return a grid of losses for the curves of a plan.

    Any grid yields a valid bound. The grid chosen here yields a tight bound with few points. δ(ε)
    decreases approximately as e^(-r ε), where r is the exponential tilt under which the mean loss
    is ε. In every step of the plan, linear interpolation with step h increases an exponential curve
    by a fraction of at most (r h)² / 8.

    Parameters
    ----------
    epsilon : float
        Value of ε at which δ is computed.
    """
    path = _max_variance_path(plan)
    deviation = math.sqrt(max(path.variance, 1e-200))  # positive, since it is a divisor
    tilt = _find_tilt(path, epsilon)
    # losses beyond this distance from 0 and from ε contribute about e^-LOG_TAIL_MARGIN of δ
    scaled_tilt = tilt * deviation
    root = math.sqrt(scaled_tilt**2 + 4 * LOG_TAIL_MARGIN)
    distance = deviation * (root - scaled_tilt) / 2
    distance = min(distance, float(PLAN_EPSILON_CAP))
    max_loss = float(min(_pure_epsilon(plan), 2 * PLAN_EPSILON_CAP))
    bottom = max(-distance, -max_loss)
    top = min(epsilon + distance, max_loss)

    n_interpolations = 1 + 2 * sum(path.draws.values())
    max_exponent = math.sqrt(INTERPOLATION_LOSS / n_interpolations)  # of one step
    step = max_exponent / (tilt + 1 / deviation)
    min_step = (top - bottom) / MAX_GRID_POINTS
    step = min(max(step, min_step), 0.5)  # `CurveGrid` needs at most 1/2
    if epsilon > step:
        n_intervals = math.ceil(epsilon / step)
        step = epsilon / n_intervals  # ε is a point of the grid, up to rounding
    mantissa, exponent = math.frexp(step)
    digits = math.floor(mantissa * 2**STEP_BITS)
    step = math.ldexp(digits, exponent - STEP_BITS)
    first = math.floor(bottom / step) - 1
    last = max(math.ceil(top / step), 1) + 1
    return CurveGrid(step, first, last)


MAX_TILT = 1e6
"""Largest exponential tilt tried in the search. The search reaches this tilt if the plan's δ(ε) is
nearly zero."""

TILT_TOLERANCE = 0.05
"""Relative error allowed in a tilt."""

LOG_TAIL_MARGIN = 9.0
"""Privacy losses outside the grid contribute at most about e^-9 of δ."""

INTERPOLATION_LOSS = 0.04
"""Approximately eight times the relative increase in δ caused by linear interpolation."""

MAX_GRID_POINTS = 4000
"""Approximate maximum number of grid points. The bounds on rounding errors are proved for up to
4096 points."""


class _LossPath(NamedTuple):
    """The mechanisms on one path through a plan, which chooses one option of each `Either`."""

    mu_squared: float  # total μ² of all Gaussian mechanisms on the path
    draws: Counter[float]  # number of draws on the path for each value of ε

    @property
    def variance(self) -> float:
        """An upper bound on the variance of the privacy loss."""
        return self.mu_squared + sum(count * e * e / 4 for e, count in self.draws.items())

    def mean_loss(self, tilt: float) -> float:
        """Return the largest mean of the loss L under weights proportional to e^(tilt L)."""
        draw_loss = sum(count * _mean_draw_loss(e, tilt) for e, count in self.draws.items())
        # the loss of a Gaussian mechanism is normal, with mean μ²/2 and variance μ²
        return self.mu_squared * (tilt + 0.5) + draw_loss


def _max_variance_path(plan: Event) -> _LossPath:
    """Return the path through a plan on which the privacy loss has the largest variance."""
    match plan:
        case Gaussian(mu_squared):
            return _LossPath(float(min(mu_squared, PLAN_EPSILON_CAP**2)), Counter())
        case Draw(epsilon):
            return _LossPath(0.0, Counter([float(min(epsilon, PLAN_EPSILON_CAP))]))
        case Pure(epsilon) | Approximate(epsilon, _):
            # the loss is ±ε, so its variance is that of a draw with 2 ε
            return _LossPath(0.0, Counter([float(min(2 * epsilon, PLAN_EPSILON_CAP))]))
        case Subsampled():
            return _max_variance_path(_as_approximate(plan))
        case Steps(steps):
            paths = list(map(_max_variance_path, steps))
            draws = sum((path.draws for path in paths), Counter[float]())
            return _LossPath(sum(path.mu_squared for path in paths), draws)
        case Either(options):
            return max(map(_max_variance_path, options), key=lambda path: path.variance)


def _find_tilt(path: _LossPath, epsilon: float) -> float:
    """Return the exponential tilt under which the mean loss is ε, by bisection.

    A rough estimate suffices, since the tilt affects only the choice of grid.
    """
    low, high = 0.0, 1.0
    while high < MAX_TILT and path.mean_loss(high) < epsilon:
        low, high = high, 4 * high
    while high - low > TILT_TOLERANCE * high:
        middle = (low + high) / 2
        if path.mean_loss(middle) < epsilon:
            low = middle
        else:
            high = middle
    return low


def _mean_draw_loss(epsilon: float, tilt: float) -> float:
    """Return the mean loss of a draw under an exponential tilt, for the worst two-valued loss.

    The loss is t or t - ε. With τ = e^t and K = e^ε, E e^(tilt L) is proportional to τ^tilt (K -
    e^(-tilt ε) - (1 - e^(-tilt ε)) τ), which is maximised over τ.
    """
    exponent, next_exponent = tilt * epsilon, (tilt + 1) * epsilon
    if exponent < 1e-6:  # first terms of the Taylor series, where differences would cancel
        return epsilon * (exponent + next_exponent) / 8
    if next_exponent > 500:  # the largest loss has nearly all the weight; exp could overflow
        return epsilon
    decay = math.exp(-exponent)
    slope = -math.expm1(-exponent)
    intercept = math.exp(epsilon) - decay
    tau = tilt * intercept / ((tilt + 1) * slope)
    return math.log(tau) - epsilon * decay * (tau - 1) / (intercept - slope * tau)


def _merge_gaussian_steps(plan: Event) -> list[Event]:
    """Return the steps of a plan, merging consecutive Gaussian mechanisms by adding their μ²."""
    if not isinstance(plan, Steps):
        return [plan]
    flat_steps = [flat for step in plan.parts for flat in _merge_gaussian_steps(step)]
    merged: list[Event] = []
    for step in flat_steps:
        match step, merged:
            case Gaussian(mu_squared), [*_, Gaussian(previous_mu_squared)]:
                merged[-1] = Gaussian(previous_mu_squared + mu_squared)
            case _:
                merged.append(step)
    return merged


def _pure_epsilon(plan: Event) -> Fraction | float:
    """Return the smallest ε for which basic composition proves δ = 0, or infinity."""
    epsilon, delta = basic_price(plan)
    return math.inf if delta else epsilon
