"""What may be admitted to a budget, whatever was chosen before: docs/proofs/budgets.md."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from functools import cache
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

EIGHTHS = 8
"""Pure fits may have any number of these parts of ε, and noise the rest."""

ASIDE = Fraction(1, 16)
"""Share of δ for the choice between them, which depends on what was released."""

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

    `pure` is the ε of events with δ = 0 alone, `noise` the μ² of all others, and `fits` the number
    of all that cost something.

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
    pure: Fraction
    noise: Fraction | None
    fits: int

    @classmethod
    def of(cls, event: Event) -> Prices:
        """Return the prices of an event, ρ and μ² rounded up to short numbers."""
        epsilon, delta = basic_price(event)
        rho, mu_squared = (
            None if math.isinf(price) else fraction_above(Fraction(price))
            for price in (rho_price(event), mu_squared_price(event))
        )
        if math.isinf(epsilon):
            return cls(None, delta, rho, mu_squared, NO, mu_squared, 1)
        exact = Fraction(epsilon)
        pure, noise = (NO, mu_squared) if delta else (exact, NO)
        return cls(exact, delta, rho, mu_squared, pure, noise, int(exact > 0 or delta > 0))

    def __add__(self, other: Any) -> Prices:
        return Prices(
            _sum(self.epsilon, other.epsilon),
            self.delta + other.delta,
            _sum(self.rho, other.rho),
            _sum(self.mu_squared, other.mu_squared),
            self.pure + other.pure,
            _sum(self.noise, other.noise),
            self.fits + other.fits,
        )

    def to_text(self) -> str:
        """Write prices down exactly; `from_text` reads them."""
        return json.dumps([None if price is None else str(price) for price in self])

    @classmethod
    def from_text(cls, text: str) -> Prices:
        """Read what `to_text` wrote; anything else is a TypeError or a ValueError."""
        *found, fits = json.loads(text)
        prices: list[Any] = [None if price is None else Fraction(price) for price in found]
        return cls._make([*prices, int(fits)])


FREE = Prices(NO, NO, NO, NO, NO, NO, 0)


class Way(NamedTuple):
    """One way to stay below a cap: pure fits up to an ε, and noise with what is left of it.

    Where `pure` is None all fits count as noise, pure ones too.
    """

    pure: Fraction | None
    epsilon: Fraction
    delta: Fraction

    def noise(self, total: Prices) -> Fraction | None:
        """Return the μ² that counts as noise."""
        return total.mu_squared if self.pure is None else total.noise

    def left(self, total: Prices) -> Fraction:
        """Return the μ² of noise that may be added; negative where the total is too much."""
        noise = self.noise(total)
        if noise is None or (self.pure is not None and total.pure > self.pure):
            return Fraction(-1)
        return _most_noise(self.epsilon, self.delta) - noise


@cache
def _most_noise(epsilon: Fraction, delta: Fraction) -> Fraction:
    return gaussian_mu_squared(epsilon, delta)


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
        if self.accountant == "auto" and total.pure <= self.epsilon and total.noise == 0:
            return True  # only pure fits, which take nothing of δ
        return any(way.left(total) >= 0 for way in self.ways(total.fits))

    def ways(self, fits: int) -> list[Way]:
        """List the ways of ``"auto"`` and ``"gdp"`` to admit a total of so many fits."""
        shared = self.accountant == "auto" and fits > 1  # nobody chooses before the first answer
        whole = Way(None, self.epsilon, self.delta * (1 - ASIDE) if shared else self.delta)
        if not shared:
            return [whole]
        part = self.delta * ASIDE / (EIGHTHS - 1)
        pure = [self.epsilon * eighths / EIGHTHS for eighths in range(1, EIGHTHS)]
        return [whole, *(Way(most, self.epsilon - most, part) for most in pure)]

    def spent(self, total: Prices) -> Spent:
        """Return the least ε, and δ, that would have admitted a total that holds."""
        found = []
        adds_up = self.accountant == "pure" or (self.accountant == "auto" and total.noise == 0)
        if adds_up and total.epsilon is not None:
            found.append(Spent(written_above(total.epsilon), written_above(total.delta)))
        if self.accountant == "zcdp" and total.rho is not None:
            found.append(Spent(zcdp_epsilon(total.rho, self.delta), float(self.delta)))
        if self.accountant in ("auto", "gdp"):
            for way in self.ways(total.fits):
                noise, share = way.noise(total), way.epsilon / self.epsilon
                if noise is not None:
                    epsilon = exact_fraction(gaussian_epsilon(noise, way.delta)) / share
                    if way.pure is not None:
                        epsilon = max(epsilon, total.pure / (1 - share))
                    found.append(Spent(written_above(epsilon), float(self.delta)))
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
            left = max(way.left(total) for way in self.ways(total.fits + 1))
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
