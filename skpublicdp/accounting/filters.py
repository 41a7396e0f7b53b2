"""What may be admitted to a budget, whatever was chosen before: docs/proofs/budgets.md."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from skpublicdp.accounting.decimals import (
    exact_fraction,
    fraction_above,
    probability,
    written_above,
)
from skpublicdp.accounting.events import (
    Approximate,
    Draw,
    Event,
    Pure,
    basic_price,
    mu_squared_price,
    rho_price,
    without_failures,
)
from skpublicdp.accounting.gdp import gaussian_epsilon, gaussian_mu_squared, implies
from skpublicdp.accounting.zcdp import zcdp_epsilon, zcdp_rho

ACCOUNTANTS = ("auto", "pure", "zcdp", "gdp")

KINDS = ("pure", "draw", "gaussian", "approximate")
"""Of fits: any with δ = 0, those that only draw, noise, and those with a δ for what may fail."""

FAILURES, ALONE, MIXED = Fraction(1, 10), Fraction(1, 30), Fraction(1, 30)
"""Shares of δ for fits that may fail, and for what `Filter.ways` lists after the first way."""

PARTS = 16
"""Pure fits may have any number of these parts of ε, and noise the rest."""

LARGEST = 1 << 20
"""No fit has a larger ε."""


NO = Fraction(0)


class Spent(NamedTuple):
    """An (ε, δ) that would have admitted all fits so far.

    Attributes
    ----------
    epsilon, delta : float
        Rounded up.
    """

    epsilon: float
    delta: float


class Prices(NamedTuple):
    """What events cost in each currency; None is infinite.

    `delta` is the probability of those failures that are set aside in all other prices; `pure` the
    ε of events that then have one, `noise` the μ² of the others, `noisy` their number, and `fits`
    the number of all that cost something.

    Examples
    --------
    >>> once = Prices.of(Draw(Fraction(1, 2)))
    >>> (once + once).rho
    Fraction(1, 16)
    """

    delta: Fraction
    rho: Fraction | None
    mu_squared: Fraction | None
    pure: Fraction
    noise: Fraction | None
    noisy: int
    fits: int

    @classmethod
    def of(cls, event: Event) -> Prices:
        """Return the prices of an event, ρ and μ² rounded up to short numbers."""
        epsilon, delta = basic_price(event)
        event = without_failures(event)
        rho, mu_squared = (
            None if price == math.inf else fraction_above(Fraction(price))
            for price in (rho_price(event), mu_squared_price(event))
        )
        if epsilon == math.inf:  # isinf overflows where a fraction is too large for a float
            return cls(delta, rho, mu_squared, NO, mu_squared, 1, 1)
        costs = int(epsilon > 0 or delta > 0)
        return cls(delta, rho, mu_squared, Fraction(epsilon), NO, 0, costs)

    def __add__(self, other: Any) -> Prices:
        return Prices(
            self.delta + other.delta,
            _sum(self.rho, other.rho),
            _sum(self.mu_squared, other.mu_squared),
            self.pure + other.pure,
            _sum(self.noise, other.noise),
            self.noisy + other.noisy,
            self.fits + other.fits,
        )

    def to_text(self) -> str:
        """Write prices down exactly; `from_text` reads them."""
        fields = self._asdict().items()
        return json.dumps({name: None if price is None else str(price) for name, price in fields})

    @classmethod
    def from_text(cls, text: str) -> Prices:
        """Read what `to_text` wrote; others are an AttributeError, TypeError or ValueError."""
        fields = json.loads(text).items()
        prices: dict[str, Any] = {name: price and Fraction(price) for name, price in fields}
        return cls(**prices)


FREE = Prices(NO, NO, NO, NO, NO, 0, 0)


class Way(NamedTuple):
    """One way to stay below a cap: an (ε, δ) that some μ² of noise has to hold."""

    noise: Fraction | None
    epsilon: Fraction
    delta: Fraction
    recurs: bool = True

    def holds(self) -> bool:
        """Tell whether it does."""
        if self.recurs:
            return self.left() >= 0  # the most is found once
        return self.noise is not None and implies(self.noise, self.epsilon, self.delta)

    def left(self) -> Fraction:
        """Return the μ² that may be added; negative where it is too much."""
        most = gaussian_mu_squared(self.epsilon, self.delta)
        return Fraction(-1) if self.noise is None else most - self.noise


@dataclass(frozen=True)
class Filter:
    """A cap, and what is added up to stay below it.

    Attributes
    ----------
    epsilon, delta : Fraction
        The cap.
    accountant : {"auto", "pure", "zcdp", "gdp"}
        As in `PrivacyBudget`; ``"pure"`` where δ is 0.
    """

    epsilon: Fraction
    delta: Fraction
    accountant: str

    def holds(self, total: Prices) -> bool:
        """Tell whether a total may be reached."""
        if total.delta > self.failures(total):
            return False
        if self.accountant == "zcdp":
            return total.rho is not None and total.rho <= zcdp_rho(self.epsilon, self.delta)
        if self.accountant != "gdp" and not total.noisy and total.pure <= self.epsilon:
            return True
        return any(way.holds() for way in self.ways(total))

    def failures(self, total: Prices) -> Fraction:
        """Return the δ that a total may have for failures."""
        if self.accountant == "auto":
            alone = total.fits <= 1 and not total.noisy
            return self.delta if alone else self.delta * FAILURES
        return self.delta if self.accountant == "pure" else NO

    def ways(self, total: Prices) -> list[Way]:
        """List the ways of ``"auto"`` and ``"gdp"`` to admit noise among a total."""
        if self.accountant == "pure":
            return []
        found = [Way(total.mu_squared, self.epsilon, self.delta * self._whole(total))]
        if self._whole(total) == 1:
            return found
        if total.noisy <= 1 and total.pure < self.epsilon:
            rest = self.epsilon - total.pure
            found.append(Way(total.noise, rest, self.delta * ALONE, recurs=False))
        parts = math.ceil(PARTS * total.pure / self.epsilon)
        if 0 < parts < PARTS:
            left = self.epsilon * (PARTS - parts) / PARTS
            found.append(Way(total.noise, left, self.delta * MIXED / (PARTS - 1)))
        return found

    def spent(self, total: Prices) -> Spent:
        """Return the least ε, and δ, that would have admitted a total that holds."""
        if self.accountant == "zcdp":
            return Spent(zcdp_epsilon(total.rho or NO, self.delta), written_above(self.delta))
        found = []
        if self.accountant != "gdp" and not total.noisy:
            found.append(Spent(written_above(total.pure), written_above(total.delta)))
        if self.accountant != "pure":
            delta = written_above(self.delta)
            found += [Spent(written_above(needed), delta) for needed in self._needed(total)]
        return min(found)

    def room(self, total: Prices, kind: str, delta: Fraction | None = None) -> float:
        """Return the largest ε of one more fit.

        Parameters
        ----------
        total : Prices
            What is spent.
        kind : {"pure", "draw", "gaussian", "approximate"}
            What is run.
        delta : Fraction, optional
            δ of the fit, for the last two kinds; by default that of the cap, or what is left of it
            where δ's add up.
        """
        if kind == "draw":
            return self._largest(total, Draw)
        if kind == "pure":
            return self._largest(total, Pure)
        adds_up = kind == "approximate" or self.accountant == "pure"
        if delta is None:
            one_more = total._replace(fits=total.fits + 1)
            delta = self.failures(one_more) - total.delta if adds_up else self.delta
            if delta <= 0:
                return 0.0
        found: Any
        at = probability("delta", delta)
        if adds_up:
            return self._largest(total, lambda epsilon: Approximate(epsilon, at))
        if self.accountant == "zcdp":
            left = zcdp_rho(self.epsilon, self.delta) - (total.rho or 0)
            found, price = zcdp_epsilon(max(left, NO), at), zcdp_rho
        else:
            one_more = total._replace(fits=total.fits + 1, noisy=total.noisy + 1)
            left = max(way.left() for way in self.ways(one_more))
            found, price = gaussian_epsilon(max(left, NO), at), gaussian_mu_squared
        while found and price(exact_fraction(found), at) > left:  # it was rounded up
            found = math.nextafter(found, 0)
        return float(found)

    def refusal(self, event: Event, total: Prices) -> str:
        """Say why an event is not admitted after a total, and how to go on."""
        price = Prices.of(event)
        by = f"accountant={self.accountant!r}"
        cap = f"of the budget of ε = {float(self.epsilon):g}, δ = {float(self.delta):g}"
        if price.mu_squared is None or (price.noisy and self.accountant == "pure"):
            return f"{by} has no price for such noise; spend Approximate(epsilon, delta)."
        if price.delta and self.accountant in ("zcdp", "gdp"):
            return (
                f"{by} has no price for a fit of which only (ε, δ) is known; use a budget with "
                "accountant='auto' or 'pure', or delta=0 in the fit."
            )
        allowed = self.failures(total + price)
        if total.delta + price.delta > allowed:
            left = four_digits(max(allowed - total.delta, NO), ROUND_FLOOR)
            such = " for fits of which only (ε, δ) is known," if self.accountant == "auto" else ""
            return (
                f"This fit asks for δ = {four_digits(price.delta)}, and δ = {left} is left{such} "
                f"{cap}; fit with delta=0 or a smaller one, or stop here."
            )
        if price.noisy:
            epsilon = gaussian_epsilon(price.mu_squared, self.delta)
            asked = f"as much as ε = {four_digits(epsilon)} at δ = {float(self.delta):g}"
            room = self.room(total, "gaussian")
        else:
            asked = f"ε = {four_digits(price.pure)}"
            kind = "approximate" if price.delta else "draw" if isinstance(event, Draw) else "pure"
            room = self.room(total, kind, price.delta or None)
        left = f"ε = {four_digits(room, ROUND_FLOOR)}" if room else "nothing"
        advice = "fit with a smaller epsilon, or stop here" if room else "stop here"
        return f"This fit asks for {asked}, and {left} is left {cap}; {advice}."

    def _whole(self, total: Prices) -> Fraction:
        """Return the share of δ of the way in which all fits count as noise."""
        if self.accountant == "gdp" or (total.fits <= 1 and not total.delta):
            return Fraction(1)  # nobody chooses before the first answer
        return 1 - FAILURES - ALONE - MIXED

    def _needed(self, total: Prices) -> Iterator[Fraction]:
        """Yield the least ε for each of the ways to admit a total."""

        def converted(noise: Fraction, share: Fraction) -> Fraction:
            return exact_fraction(gaussian_epsilon(noise, self.delta * share))

        if total.mu_squared is not None:
            yield converted(total.mu_squared, self._whole(total))
        if self._whole(total) == 1 or not total.noise:
            return
        if total.noisy == 1:
            yield total.pure + converted(total.noise, ALONE)
        noise = converted(total.noise, MIXED / (PARTS - 1))
        for parts in range(1, PARTS):
            yield PARTS * max(total.pure / parts, noise / (PARTS - parts))

    def _largest(self, total: Prices, make_event: Callable[[Fraction], Event]) -> float:
        """Find the largest ε, as it is read, at which an event is admitted after a total."""

        def admitted(epsilon: Any) -> bool:
            return self.holds(total + Prices.of(make_event(exact_fraction(epsilon))))

        low, high = 0.0, float(self.epsilon)
        while high < LARGEST and admitted(high):
            low, high = high, 2 * high
        while low < (middle := (low + high) / 2) < high and high > 2**-60 * self.epsilon:
            low, high = (middle, high) if admitted(middle) else (low, middle)
        return low


def _sum(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else one + other


def four_digits(number: Fraction | float, rounding: str = ROUND_CEILING) -> str:
    """Write a number with four digits, on the safe side."""
    if number == math.inf:
        return "inf"
    exact = exact_fraction(number)
    rounded = Context(4, rounding).divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return f"{float(rounded):g}" if math.isfinite(float(rounded)) else f"{rounded:e}"
