"""What an (ε, δ) covers, in the currency that its budget counts in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skpublicdp.accounting.decimals import root_below
from skpublicdp.accounting.events import (
    DRAW_RATE,
    Event,
    Gaussian,
    Pure,
    basic_price,
    mu_squared_price,
    rho_price,
)
from skpublicdp.accounting.gdp import gaussian_mu_squared
from skpublicdp.accounting.plans import FURTHEST, equal_draws, largest_scale, plan_delta
from skpublicdp.accounting.zcdp import zcdp_rho


@dataclass(frozen=True)
class Capacity:
    """An (ε, δ) that plans have to fit into.

    Attributes
    ----------
    epsilon, delta : Fraction
        What is promised.
    accountant : str
        That of the budget; ``"pure"``, also without one, takes any proof of (ε, δ), the others what
        their sum allows, and ``"auto"`` also what may fail and adds up to (ε, δ).

    Examples
    --------
    >>> one = Capacity(Fraction(1), Fraction(1, 10**6), "gdp")
    >>> one.covers(Gaussian(Fraction(56, 1000))), one.covers(Pure(Fraction(1)))
    (True, False)
    """

    epsilon: Fraction
    delta: Fraction
    accountant: str = "pure"

    def covers(self, event: Event) -> bool:
        """Tell whether a plan that is fixed in advance costs no more."""
        price, cap = self._currency()
        spent, failure = basic_price(event)
        adds_up = price is None or (self.accountant == "auto" and failure)
        if adds_up and spent <= self.epsilon and failure <= self.delta:
            return True
        if price is not None:
            return bool(price(event) <= cap)
        return bool(self.delta) and (
            mu_squared_price(event) <= self._mu_squared()
            or rho_price(event) <= zcdp_rho(self.epsilon, self.delta)
            or plan_delta(event, self.epsilon) <= self.delta
        )

    def anything(self) -> Event:
        """Return the plan of any noise, or of anything pure where δ is 0."""
        return Gaussian(self._mu_squared()) if self.delta else Pure(self.epsilon)

    def scale(self, make_plan: Callable[[Fraction], Event]) -> Fraction:
        """Return the largest scale at which a plan fits; it costs more at a larger scale."""
        price, cap = self._currency()
        if price is None:
            return largest_scale(make_plan, self.epsilon, self.delta)
        low, high = Fraction(0), Fraction(1)
        while price(make_plan(high)) <= cap:
            low, high = high, 2 * high
            if high > FURTHEST:
                raise ValueError("the plan fits the budget at every scale.")
        while not low or high - low > low / 4096:
            middle = (low + high) / 2
            low, high = (middle, high) if price(make_plan(middle)) <= cap else (low, middle)
            if high < 1 / Fraction(FURTHEST):
                raise ValueError("the plan exceeds the budget at every scale.")
        return low

    def equal_draws(self, count: int) -> Fraction:
        """Return the largest ε that each of some draws may have.

        It is found by the plan calculus where that is fast, by zCDP otherwise, and by adding up ε
        where that gives more.
        """
        basic = self.epsilon / count
        price, cap = self._currency()
        if not self.delta:
            return basic
        if price is None:
            return max(basic, equal_draws(self.epsilon, self.delta, count))
        rate = DRAW_RATE if price is mu_squared_price else Fraction(1, 8)
        return root_below(cap / (rate * count))

    def _mu_squared(self) -> Fraction:
        price, cap = self._currency()
        return 2 * cap if price is rho_price else gaussian_mu_squared(self.epsilon, self.delta)

    def _currency(self) -> tuple[Callable[[Event], Any] | None, Fraction]:
        """Return what is counted, and how much of it (ε, δ) is."""
        if not self.delta or self.accountant == "pure":
            return None, Fraction(0)
        if self.accountant == "zcdp":
            return rho_price, zcdp_rho(self.epsilon, self.delta)
        return mu_squared_price, gaussian_mu_squared(self.epsilon, self.delta)
