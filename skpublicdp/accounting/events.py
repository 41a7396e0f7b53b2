"""Events: uses of private rows, and their prices in pure ε, zCDP and GDP.

An event is a tree that is fixed in advance or written down afterwards. What it costs in each
currency is proved in docs/proofs/budgets.md; `plans` composes events of one fit more tightly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skpublicdp.accounting.amplification import subsampled_delta, subsampled_epsilon
from skpublicdp.accounting.gdp import pure_mu_squared
from skpublicdp.accounting.rounding import exact_fraction, non_negative

Price = Fraction | float
"""An exact number, or infinity."""

DRAW_MU_SQUARED_RATE = Fraction(11, 28)
"""More than π/8, hardly: a draw of ε is μ-GDP for μ² = (π/8) ε² (docs/proofs/moments.md)."""


class _ExactAmounts:
    """Fields that are read exactly; a negative or an infinite one is refused."""

    def __post_init__(self) -> None:
        for name, amount in list(vars(self).items()):
            object.__setattr__(self, name, non_negative(name, amount))


@dataclass(frozen=True)
class Pure(_ExactAmounts):
    """Any ε-differentially private mechanism, such as Laplace noise.

    Attributes
    ----------
    epsilon : Fraction
        At least its ε.
    """

    epsilon: Fraction


@dataclass(frozen=True)
class Gaussian(_ExactAmounts):
    """Rounded Gaussian noise on integers that one row moves by Δ: μ² = Δ² / σ², or more.

    Attributes
    ----------
    mu_squared : Fraction
        At least the square of the sensitivity over σ².
    """

    mu_squared: Fraction


@dataclass(frozen=True)
class Draw(_ExactAmounts):
    """One draw by the exponential mechanism.

    Attributes
    ----------
    epsilon : Fraction
        At least its budget: the privacy loss lies in an interval of that length.
    """

    epsilon: Fraction


@dataclass(frozen=True)
class Approximate(_ExactAmounts):
    """Somebody else's (ε, δ)-differentially private mechanism.

    Attributes
    ----------
    epsilon, delta : Fraction
        At least its ε and δ.
    """

    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True)
class Subsampled:
    """Something run on a secret random subset of a fixed size, once.

    Attributes
    ----------
    rate : Fraction
        Share of the rows that are drawn, in (0, 1].
    base : Event
        What is run on them.
    roles : {"random", "paper"}
        As in `subsampled_epsilon`.
    """

    rate: Fraction
    base: Event
    roles: str = "random"


@dataclass(frozen=True)
class Steps:
    """Events one after the other.

    Attributes
    ----------
    parts : tuple of events
        In order of time. What exactly a step asks may depend on everything released before.
    """

    parts: tuple[Event, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))


@dataclass(frozen=True)
class Either:
    """One of several events: which one may depend on everything released before.

    Events on disjoint rows count as one of them, too: a replaced row is seen by one alone.

    Attributes
    ----------
    options : tuple of events
        At least one.
    """

    options: tuple[Event, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(self.options))
        if not self.options:
            raise ValueError("Either needs at least one option.")


Event = Pure | Gaussian | Draw | Approximate | Subsampled | Steps | Either


def basic_price(event: Event) -> tuple[Price, Fraction]:
    """Return the (ε, δ) of an event by basic composition; ε is infinite where there is noise.

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
            inner, failure = basic_price(base)
            if not isinstance(inner, Fraction):
                return math.inf, Fraction(0)
            spent = exact_fraction(subsampled_epsilon(inner, rate, roles=roles))
            if not failure:
                return spent, Fraction(0)
            lost = subsampled_delta(failure, rate, spent, inner, roles=roles)
            return spent, exact_fraction(lost)
        case Steps(parts):
            prices = [basic_price(part) for part in parts]
            return _add_prices(price for price, _ in prices), sum(
                (d for _, d in prices), Fraction(0)
            )
        case Either(options):
            prices = [basic_price(option) for option in options]
            return max(price for price, _ in prices), max(delta for _, delta in prices)


def rho_price(event: Event) -> Price:
    """Return the ρ of zero-concentrated differential privacy of an event.

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
        case Steps(parts):
            return _add_prices(map(rho_price, parts))
        case Either(options):
            return max(map(rho_price, options))
    spent, failure = basic_price(event)
    return math.inf if failure or not isinstance(spent, Fraction) else spent**2 / 2


def mu_squared_price(event: Event) -> Price:
    """Return the μ² of Gaussian differential privacy of an event.

    Examples
    --------
    >>> mu_squared_price(Steps((Draw(Fraction(1)), Gaussian(Fraction(1, 4)))))
    Fraction(9, 14)
    """
    match event:
        case Draw(epsilon):
            ranged = DRAW_MU_SQUARED_RATE * epsilon**2
            # of large draws pure differential privacy says more than the bounded range
            return ranged if epsilon <= 16 else min(ranged, pure_mu_squared(epsilon))
        case Gaussian(mu_squared):
            return mu_squared
        case Steps(parts):
            return _add_prices(map(mu_squared_price, parts))
        case Either(options):
            return max(map(mu_squared_price, options))
    spent, failure = basic_price(event)
    if failure or not isinstance(spent, Fraction):
        return math.inf
    return pure_mu_squared(spent)


def without_failures(event: Event) -> Event:
    """Return what is left of an event where nothing fails that its δ in `basic_price` allows.

    Examples
    --------
    >>> without_failures(Approximate(Fraction(1), Fraction(1, 10**6)))
    Pure(epsilon=Fraction(1, 1))
    """
    match event:
        case Approximate(epsilon):
            return Pure(epsilon)
        case Subsampled():
            spent, failure = basic_price(event)
            return Pure(Fraction(spent)) if failure else event
        case Steps(parts):
            return Steps(tuple(map(without_failures, parts)))
        case Either(options):
            return Either(tuple(map(without_failures, options)))
    return event


def remaining_plans(plan: Event, event: Event) -> Iterator[Event]:
    """Yield what may be left of a plan after an event that it covers.

    What a plan still allows is never less than what is left of it (docs/proofs/budgets.md): steps
    may be skipped; of a pure, an approximate or a Gaussian budget any event takes its price; and
    noise may be taken from several steps of noise in a row.

    Examples
    --------
    >>> plan = Steps((Gaussian(Fraction(3)), Either((Gaussian(Fraction(1)), Draw(Fraction(1))))))
    >>> list(remaining_plans(plan, Gaussian(Fraction(4))))
    [Steps(parts=())]
    >>> list(remaining_plans(plan, Draw(Fraction(2))))[0].parts[0]
    Gaussian(mu_squared=Fraction(10, 7))
    """
    match plan:
        case Pure(most):
            epsilon, delta = basic_price(event)
            if epsilon <= most and not delta:
                yield Pure(most - Fraction(epsilon))
        case Approximate(most, failure):
            epsilon, delta = basic_price(event)
            if epsilon <= most and delta <= failure:
                yield Approximate(most - Fraction(epsilon), failure - delta)
        case Gaussian(most):
            price = mu_squared_price(event)
            if price <= most:
                yield Gaussian(most - Fraction(price))
        case Draw(most):
            if isinstance(event, Draw) and event.epsilon <= most:
                yield NO_EVENT
        case Subsampled():
            if event == plan:
                yield NO_EVENT
        case Either(options):
            for option in options:
                yield from remaining_plans(option, event)
        case Steps(parts):
            yield from _remaining_steps(parts, event)


def _remaining_steps(parts: tuple[Event, ...], event: Event) -> Iterator[Event]:
    for place, part in enumerate(parts):
        later = parts[place + 1 :]
        covered = False
        for left in remaining_plans(part, event):
            covered = True
            kept = () if left in USED_UP else (left,)
            yield kept[0] if kept and not later else Steps((*kept, *later))
        if covered and type(part) is type(event):
            return  # to skip what is meant for it gains nothing
        if isinstance(part, Gaussian) and not covered and isinstance(event, Gaussian | Draw):
            # noise, or a draw that counts as noise, goes on in the steps of noise that follow
            rest = Gaussian(Fraction(mu_squared_price(event)) - part.mu_squared)
            yield from _remaining_steps(later, rest)
        if isinstance(part, Gaussian) and isinstance(event, Gaussian):
            return


NO_EVENT = Steps(())
USED_UP = (NO_EVENT, Gaussian(Fraction(0)), Pure(Fraction(0)))


def to_text(event: Event) -> str:
    """Write an event down; `from_text` reads it."""
    return json.dumps(_to_list(event))


def from_text(text: str) -> Event:
    """Read an event that `to_text` wrote.

    Examples
    --------
    >>> from_text(to_text(Steps((Draw(Fraction(1, 3)),))))
    Steps(parts=(Draw(epsilon=Fraction(1, 3)),))
    """
    return _from_list(json.loads(text))


def _to_list(event: Event) -> list[Any]:
    match event:
        case Steps(parts) | Either(parts):
            return [type(event).__name__, *map(_to_list, parts)]
        case Subsampled(rate, base, roles):
            return ["Subsampled", str(rate), _to_list(base), roles]
    return [type(event).__name__, *map(str, vars(event).values())]


def _from_list(plain: list[Any]) -> Event:
    name, *rest = plain
    match name:
        case "Steps":
            return Steps(tuple(map(_from_list, rest)))
        case "Either":
            return Either(tuple(map(_from_list, rest)))
        case "Subsampled":
            return Subsampled(Fraction(rest[0]), _from_list(rest[1]), rest[2])
        case "Approximate":
            return Approximate(*map(Fraction, rest))
    single: dict[str, type[Pure | Gaussian | Draw]] = {
        "Pure": Pure,
        "Gaussian": Gaussian,
        "Draw": Draw,
    }
    return single[name](Fraction(rest[0]))


def _add_prices(prices: Iterator[Price] | map[Price]) -> Price:
    total: Price = Fraction(0)
    for price in prices:
        total = math.inf if math.inf in (total, price) else Fraction(total) + Fraction(price)
    return total
