"""What may be admitted to a budget, whatever was chosen before: docs/proofs/budgets.md."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
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
)
from skpublicdp.accounting.gdp import gaussian_epsilon, gaussian_mu_squared
from skpublicdp.accounting.zcdp import zcdp_epsilon, zcdp_rho

ACCOUNTANTS = ("auto", "pure", "zcdp", "gdp")

KINDS = ("pure", "draw", "gaussian")
"""Of fits: any with δ = 0, those that only draw, and those with a positive δ."""

LARGEST = 1 << 20
"""No fit has a larger ε."""


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

    Examples
    --------
    >>> once = Prices.of(Draw(Fraction(1, 2)))
    >>> (once + once).rho
    Fraction(1, 16)
    """

    epsilon: Fraction | None
    delta: Fraction
    rho: Fraction | None
    mu_squared: Fraction | None

    @classmethod
    def of(cls, event: Event) -> Prices:
        """Return the prices of an event, ρ and μ² rounded up to short numbers."""
        epsilon, delta = basic_price(event)
        rho, mu_squared = (
            None if math.isinf(price) else fraction_above(Fraction(price))
            for price in (rho_price(event), mu_squared_price(event))
        )
        return cls(None if math.isinf(epsilon) else Fraction(epsilon), delta, rho, mu_squared)

    def __add__(self, other: Any) -> Prices:
        return Prices(
            _sum(self.epsilon, other.epsilon),
            self.delta + other.delta,
            _sum(self.rho, other.rho),
            _sum(self.mu_squared, other.mu_squared),
        )

    def to_text(self) -> str:
        """Write prices down exactly; `from_text` reads them."""
        return json.dumps([None if price is None else str(price) for price in self])

    @classmethod
    def from_text(cls, text: str) -> Prices:
        """Read what `to_text` wrote."""
        prices: list[Any] = [None if p is None else Fraction(p) for p in json.loads(text)]
        return cls(*prices)


FREE = Prices(Fraction(0), Fraction(0), Fraction(0), Fraction(0))


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
        match self.accountant:
            case "pure":
                return _within(total.epsilon, self.epsilon) and total.delta <= self.delta
            case "zcdp":
                return _within(total.rho, zcdp_rho(self.epsilon, self.delta))
        if self.accountant == "auto" and _within(total.epsilon, self.epsilon) and not total.delta:
            return True  # pure *or* gdp: all of δ is left to gdp
        return _within(total.mu_squared, gaussian_mu_squared(self.epsilon, self.delta))

    def spent(self, total: Prices) -> Spent:
        """Return the least ε, and δ, that would have admitted a total that holds."""
        found = []
        if self.accountant in ("auto", "pure") and total.epsilon is not None:
            found.append(Spent(written_above(total.epsilon), written_above(total.delta)))
        if self.accountant == "zcdp" and total.rho is not None:
            found.append(Spent(zcdp_epsilon(total.rho, self.delta), float(self.delta)))
        if self.accountant in ("auto", "gdp") and total.mu_squared is not None:
            found.append(Spent(gaussian_epsilon(total.mu_squared, self.delta), float(self.delta)))
        return min(found)

    def room(self, total: Prices, kind: str, delta: Fraction | None = None) -> float:
        """Return the largest ε of one more fit.

        Parameters
        ----------
        total : Prices
            What is spent.
        kind : {"pure", "draw", "gaussian"}
            What is run.
        delta : Fraction, optional
            δ of the fit, if it is ``"gaussian"``; by default that of the cap, or with ``"pure"``
            accounting what is left of it.
        """
        if kind == "draw":
            return self._largest(total, Draw)
        if kind == "pure":
            return self._largest(total, Pure)
        if delta is None:
            delta = self.delta - (total.delta if self.accountant == "pure" else 0)
            if delta <= 0:
                return 0.0
        found: Any
        at = probability("delta", delta)
        if self.accountant == "pure":
            return self._largest(total, lambda epsilon: Approximate(epsilon, at))
        if self.accountant == "zcdp":
            left = zcdp_rho(self.epsilon, self.delta) - (total.rho or 0)
            found, price = zcdp_epsilon(max(left, Fraction(0)), at), zcdp_rho
        else:
            left = gaussian_mu_squared(self.epsilon, self.delta) - (total.mu_squared or 0)
            found, price = gaussian_epsilon(max(left, Fraction(0)), at), gaussian_mu_squared
        while found and price(exact_fraction(found), at) > left:  # it was rounded up
            found = math.nextafter(found, 0)
        return float(found)

    def refusal(self, event: Event, total: Prices) -> str:
        """Say why an event is not admitted after a total, and how to go on."""
        price = Prices.of(event)
        by = f"accountant={self.accountant!r}"
        cap = f"of the budget of ε = {float(self.epsilon):g}, δ = {float(self.delta):g}"
        if self.accountant != "pure" and (price.delta or price.mu_squared is None):
            return (
                f"{by} has no price for a fit of which only (ε, δ) is known; use a budget with "
                "accountant='pure', or delta=0 in the fit."
            )
        if self.accountant == "pure" and price.epsilon is None:
            return f"{by} has no price for Gaussian noise; spend Approximate(epsilon, delta)."
        if self.accountant == "pure" and total.delta + price.delta > self.delta:
            left = _short(self.delta - total.delta, ROUND_FLOOR)
            return (
                f"This fit asks for δ = {_short(price.delta)}, and δ = {left} is left {cap}; fit "
                "with delta=0 or a smaller one, or stop here."
            )
        if price.epsilon is None:
            epsilon = gaussian_epsilon(price.mu_squared or Fraction(0), self.delta)
            asked = f"as much as ε = {_short(epsilon)} at δ = {float(self.delta):g}"
        else:
            asked = f"ε = {_short(price.epsilon)}"
        noise = price.epsilon is None or price.delta
        kind = "gaussian" if noise else "draw" if isinstance(event, Draw) else "pure"
        room = self.room(total, kind, price.delta or None)
        left = f"ε = {_short(room, ROUND_FLOOR)}" if room else "nothing"
        advice = "fit with a smaller epsilon, or stop here" if room else "stop here"
        return f"This fit asks for {asked}, and {left} is left {cap}; {advice}."

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


def _within(total: Fraction | None, most: Fraction) -> bool:
    return total is not None and total <= most


def _short(number: Fraction | float, rounding: str = ROUND_CEILING) -> str:
    """Write a number with four digits, on the safe side."""
    return f"{float(Context(4, rounding).create_decimal(repr(float(number)))):g}"
