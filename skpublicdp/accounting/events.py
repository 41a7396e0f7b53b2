"""Privacy events, which describe uses of private rows and their prices in (ε, δ), zCDP and GDP.

An event is a tree of mechanisms. The tree describes either a mechanism that was run, or a plan,
which lists in advance everything that a fit may run. The price of an event is an upper bound on its
privacy loss. docs/proofs/budgets.md has the proofs of these prices. The module `plans` computes a
tighter composition of the events in one fit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from skpublicdp.accounting.amplification import subsampled_delta, subsampled_epsilon
from skpublicdp.accounting.gdp import pure_mu_squared
from skpublicdp.accounting.rounding import exact_fraction, non_negative

Price = Fraction | float
"""Privacy cost: an exact fraction, or `math.inf`."""

DRAW_MU_SQUARED_RATE = Fraction(11, 28)
"""Rational upper bound on π/8: a draw with parameter ε is μ-GDP for μ² = (π/8) ε²
(docs/proofs/moments.md)."""

MAX_BOUNDED_RANGE_EPSILON = 16
"""Largest ε for which `DRAW_MU_SQUARED_RATE` gives a smaller μ² of a draw than the general
bound."""


class Sensitivity(NamedTuple):
    """Sensitivity of integer statistics, i.e. the largest change when one row is replaced.

    Attributes
    ----------
    absolute : int
        The ℓ1 sensitivity, i.e. the largest sum of absolute changes.
    squared : int
        The squared ℓ2 sensitivity, i.e. the largest sum of squared changes.
    """

    absolute: int
    squared: int


class _ExactAmounts:
    """Base class for events, which converts numeric fields to exact, non-negative fractions."""

    def __post_init__(self) -> None:
        for name, amount in list(vars(self).items()):
            object.__setattr__(self, name, non_negative(name, amount))


@dataclass(frozen=True)
class Pure(_ExactAmounts):
    """Any ε-differentially private mechanism, such as the Laplace mechanism.

    Attributes
    ----------
    epsilon : Fraction
        Upper bound on its ε.
    """

    epsilon: Fraction

    noise_name: ClassVar[str] = "discrete Laplace noise"
    variance_power: ClassVar[int] = 2
    """If the event receives the fraction `share` of a privacy cost, the noise variance is
    proportional to ``share ** -variance_power``."""
    excess_kurtosis: ClassVar[float] = 3.0

    def scaled(self, share: Fraction) -> Pure:
        """Return the event that has the fraction `share` of this event's privacy cost."""
        return Pure(share * self.epsilon)

    def signal_to_noise(self, count: float) -> float:
        """Return a count divided by 2/ε, the scale of Laplace noise for sensitivity 2."""
        return count * (float(self.epsilon) / 2)

    def variance(self, sensitivity: Sensitivity) -> float:
        """Return 2 (Δ₁/ε)², the variance of the continuous Laplace noise before discretization."""
        scale = sensitivity.absolute / float(self.epsilon)
        return 2 * scale * scale


@dataclass(frozen=True)
class Gaussian(_ExactAmounts):
    """Rounded Gaussian noise of variance σ² on integers of ℓ2 sensitivity Δ.

    Attributes
    ----------
    mu_squared : Fraction
        Upper bound on Δ² / σ².
    """

    mu_squared: Fraction

    noise_name: ClassVar[str] = "Gaussian noise, rounded (analytic Gaussian mechanism)"
    variance_power: ClassVar[int] = 1
    excess_kurtosis: ClassVar[float] = 0.0

    def scaled(self, share: Fraction) -> Gaussian:
        """Return the event that has the fraction `share` of this event's privacy cost."""
        return Gaussian(share * self.mu_squared)

    def signal_to_noise(self, count: float) -> float:
        """Return a count divided by 1/μ, the standard deviation of noise for sensitivity 1."""
        return count * math.sqrt(self.mu_squared)

    def variance(self, sensitivity: Sensitivity) -> float:
        """Return (Δ₂/μ)², the variance of the Gaussian noise before rounding."""
        return sensitivity.squared / float(self.mu_squared)


Noise = Gaussian | Pure
"""Privacy cost of exactly sampled integer noise: rounded Gaussian or discrete Laplace."""


@dataclass(frozen=True)
class Draw(_ExactAmounts):
    """One draw by the exponential mechanism.

    Attributes
    ----------
    epsilon : Fraction
        Upper bound on its ε. For any two neighbouring data sets, the privacy loss lies in an
        interval of length ε.
    """

    epsilon: Fraction


@dataclass(frozen=True)
class Approximate(_ExactAmounts):
    """Any (ε, δ)-differentially private mechanism, for example from another package.

    Attributes
    ----------
    epsilon, delta : Fraction
        Upper bounds on its ε and δ.
    """

    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True)
class Subsampled:
    """One run of a mechanism on a secret uniform subset of a fixed size.

    Attributes
    ----------
    rate : Fraction
        Fraction of the rows in the subset, in (0, 1].
    base : Event
        The mechanism.
    roles : {"random", "paper"}
        As in `subsampled_epsilon`.
    """

    rate: Fraction
    base: Event
    roles: str = "random"


@dataclass(frozen=True)
class Steps:
    """Sequential composition of events.

    Attributes
    ----------
    parts : tuple of events
        The events, in chronological order. Each event may depend on everything released before it.
    """

    parts: tuple[Event, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))


@dataclass(frozen=True)
class Either:
    """One of several events, chosen adaptively from everything released before.

    Events on disjoint sets of rows also count as a single event, since a replaced row affects only
    one of them.

    Attributes
    ----------
    options : tuple of events
        The possible events, at least one.
    """

    options: tuple[Event, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(self.options))
        if not self.options:
            raise ValueError("Either needs at least one option.")


Event = Pure | Gaussian | Draw | Approximate | Subsampled | Steps | Either


def basic_price(event: Event) -> tuple[Price, Fraction]:
    """Return the (ε, δ) of an event by basic composition; ε is infinite for Gaussian noise.

    Examples
    --------
    >>> basic_price(Steps((Pure(Fraction(1, 2)), Draw(Fraction(1, 3)))))
    (Fraction(5, 6), Fraction(0, 1))
    """
    match event:
        case Pure(epsilon) | Draw(epsilon):
            return epsilon, Fraction(0)
        case Gaussian(mu_squared):
            return (math.inf if mu_squared else Fraction(0)), Fraction(0)
        case Approximate(epsilon, delta):
            return epsilon, delta
        case Subsampled(rate, base, roles):
            base_epsilon, base_delta = basic_price(base)
            if not isinstance(base_epsilon, Fraction):
                return math.inf, Fraction(0)
            amplified = exact_fraction(subsampled_epsilon(base_epsilon, rate, roles=roles))
            if not base_delta:
                return amplified, Fraction(0)
            amplified_delta = subsampled_delta(
                base_delta, rate, amplified, base_epsilon, roles=roles
            )
            return amplified, exact_fraction(amplified_delta)
        case Steps(steps):
            prices = [basic_price(step) for step in steps]
            total_delta = sum((delta for _, delta in prices), Fraction(0))
            return _add_prices(epsilon for epsilon, _ in prices), total_delta
        case Either(options):
            prices = [basic_price(option) for option in options]
            return max(epsilon for epsilon, _ in prices), max(delta for _, delta in prices)


def rho_price(event: Event) -> Price:
    """Return the price of an event as ρ of zero-concentrated differential privacy.

    Examples
    --------
    >>> rho_price(Steps((Draw(Fraction(1)), Gaussian(Fraction(1, 4)))))
    Fraction(1, 4)
    """
    match event:
        case Draw(epsilon):
            return epsilon**2 / 8
        case Gaussian(mu_squared):
            return mu_squared / 2
        case Steps(steps):
            return _add_prices(map(rho_price, steps))
        case Either(options):
            return max(map(rho_price, options))
    pure_epsilon, delta = basic_price(event)
    return math.inf if delta or not isinstance(pure_epsilon, Fraction) else pure_epsilon**2 / 2


def mu_squared_price(event: Event) -> Price:
    """Return the price of an event as μ² of Gaussian differential privacy.

    Examples
    --------
    >>> mu_squared_price(Steps((Draw(Fraction(1)), Gaussian(Fraction(1, 4)))))
    Fraction(9, 14)
    """
    match event:
        case Draw(epsilon):
            bounded_range_price = DRAW_MU_SQUARED_RATE * epsilon**2
            if epsilon <= MAX_BOUNDED_RANGE_EPSILON:
                return bounded_range_price
            # for larger ε, pure differential privacy gives the smaller bound
            return min(bounded_range_price, pure_mu_squared(epsilon))
        case Gaussian(mu_squared):
            return mu_squared
        case Steps(steps):
            return _add_prices(map(mu_squared_price, steps))
        case Either(options):
            return max(map(mu_squared_price, options))
    pure_epsilon, delta = basic_price(event)
    if delta or not isinstance(pure_epsilon, Fraction):
        return math.inf
    return pure_mu_squared(pure_epsilon)


def without_failures(event: Event) -> Event:
    """Return an event with δ = 0 that describes the same mechanism, given that it does not fail.

    An (ε, δ)-differentially private mechanism behaves like an ε-differentially private one, except
    with probability δ. Budgets sum these failure probabilities separately from all other prices
    (docs/proofs/budgets.md).

    Examples
    --------
    >>> without_failures(Approximate(Fraction(1), Fraction(1, 10**6)))
    Pure(epsilon=Fraction(1, 1))
    """
    match event:
        case Approximate(epsilon):
            return Pure(epsilon)
        case Subsampled():
            amplified, delta = basic_price(event)
            return Pure(Fraction(amplified)) if delta else event
        case Steps(steps):
            return Steps(tuple(map(without_failures, steps)))
        case Either(options):
            return Either(tuple(map(without_failures, options)))
    return event


def remaining_plans(plan: Event, event: Event) -> Iterator[Event]:
    """Yield what may remain of a plan after an event, or nothing if the event exceeds the plan.

    The event and any one of the remaining plans together cost at most as much as the original plan
    (docs/proofs/budgets.md). Steps of the plan may be skipped. The price of the event is subtracted
    from a pure, approximate or Gaussian step. The μ² of Gaussian noise may be spread over several
    consecutive Gaussian steps.

    Examples
    --------
    >>> plan = Steps((Gaussian(Fraction(3)), Either((Gaussian(Fraction(1)), Draw(Fraction(1))))))
    >>> list(remaining_plans(plan, Gaussian(Fraction(4))))
    [Steps(parts=())]
    >>> list(remaining_plans(plan, Draw(Fraction(2))))[0].parts[0]
    Gaussian(mu_squared=Fraction(10, 7))
    """
    match plan:
        case Pure(max_epsilon):
            epsilon, delta = basic_price(event)
            if epsilon <= max_epsilon and not delta:
                yield Pure(max_epsilon - Fraction(epsilon))
        case Approximate(max_epsilon, max_delta):
            epsilon, delta = basic_price(event)
            if epsilon <= max_epsilon and delta <= max_delta:
                yield Approximate(max_epsilon - Fraction(epsilon), max_delta - delta)
        case Gaussian(max_mu_squared):
            mu_squared = mu_squared_price(event)
            if mu_squared <= max_mu_squared:
                yield Gaussian(max_mu_squared - Fraction(mu_squared))
        case Draw(max_epsilon):
            if isinstance(event, Draw) and event.epsilon <= max_epsilon:
                yield NO_EVENT
        case Subsampled():
            if event == plan:
                yield NO_EVENT
        case Either(options):
            for option in options:
                yield from remaining_plans(option, event)
        case Steps(steps):
            yield from _remaining_steps(steps, event)


def _remaining_steps(steps: tuple[Event, ...], event: Event) -> Iterator[Event]:
    """For each step that can cover the event, yield the steps that remain.

    Earlier steps are skipped, and later steps remain unchanged.
    """
    for i, step in enumerate(steps):
        later_steps = steps[i + 1 :]
        is_covered = False
        for remainder in remaining_plans(step, event):
            is_covered = True
            if remainder in EXHAUSTED:
                yield Steps(later_steps)
            else:
                yield Steps((remainder, *later_steps)) if later_steps else remainder
        if is_covered and type(step) is type(event):
            return  # skipping a step of the same kind leaves a smaller remainder
        if isinstance(step, Gaussian) and not is_covered and isinstance(event, Gaussian | Draw):
            # the excess of noise, or of a draw priced as noise, is taken from the next Gaussian
            # steps
            excess = Gaussian(Fraction(mu_squared_price(event)) - step.mu_squared)
            yield from _remaining_steps(later_steps, excess)
        if isinstance(step, Gaussian) and isinstance(event, Gaussian):
            return  # skipping this step would leave a smaller remainder


NO_EVENT = Steps(())
"""The empty plan, which allows no use of private rows."""

EXHAUSTED = (NO_EVENT, Gaussian(Fraction(0)), Pure(Fraction(0)))
"""Remaining plans that allow no further event with a positive price."""


def to_text(event: Event) -> str:
    """Return an event as a JSON string that `from_text` can parse."""
    return json.dumps(_to_list(event))


def from_text(text: str) -> Event:
    """Return the event described by a JSON string from `to_text`.

    Examples
    --------
    >>> from_text(to_text(Steps((Draw(Fraction(1, 3)),))))
    Steps(parts=(Draw(epsilon=Fraction(1, 3)),))
    """
    return _from_list(json.loads(text))


def _to_list(event: Event) -> list[Any]:
    """Return an event as a list for JSON: class name and fields, with numbers as strings."""
    match event:
        case Steps(events) | Either(events):
            return [type(event).__name__, *map(_to_list, events)]
        case Subsampled(rate, base, roles):
            return ["Subsampled", str(rate), _to_list(base), roles]
    return [type(event).__name__, *map(str, vars(event).values())]


def _from_list(values: list[Any]) -> Event:
    """Return the event described by a list from `_to_list`."""
    name, *fields = values
    match name:
        case "Steps":
            return Steps(tuple(map(_from_list, fields)))
        case "Either":
            return Either(tuple(map(_from_list, fields)))
        case "Subsampled":
            return Subsampled(Fraction(fields[0]), _from_list(fields[1]), fields[2])
        case "Approximate":
            return Approximate(*map(Fraction, fields))
    classes: dict[str, type[Pure | Gaussian | Draw]] = {
        "Pure": Pure,
        "Gaussian": Gaussian,
        "Draw": Draw,
    }
    return classes[name](Fraction(fields[0]))


def _add_prices(prices: Iterator[Price] | map[Price]) -> Price:
    """Return the sum of prices, which is infinite if any price is infinite."""
    total: Price = Fraction(0)
    for price in prices:
        total = math.inf if math.inf in (total, price) else Fraction(total) + Fraction(price)
    return total
