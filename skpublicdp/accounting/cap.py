"""Cap on the privacy cost of one fit, which decides whether the fit's (ε, δ) covers a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skpublicdp.accounting.events import (
    DRAW_MU_SQUARED_RATE,
    Event,
    Gaussian,
    Pure,
    basic_price,
    mu_squared_price,
    rho_price,
)
from skpublicdp.accounting.gdp import gaussian_mu_squared
from skpublicdp.accounting.plans import (
    MAX_SCALE_RATIO,
    SCALE_TOLERANCE,
    equal_draws,
    largest_scale,
    plan_delta,
)
from skpublicdp.accounting.rounding import root_below
from skpublicdp.accounting.zcdp import zcdp_rho


@dataclass(frozen=True)
class BudgetCap:
    """Upper limit on the privacy cost of one fit's plan.

    Examples
    --------
    >>> cap = BudgetCap(Fraction(1), Fraction(1, 10**6), "gdp")
    >>> cap.admits(Gaussian(Fraction(56, 1000))), cap.admits(Pure(Fraction(1)))
    (True, False)
    """

    # the guarantee of the fit
    epsilon: Fraction
    delta: Fraction
    # Accountant of the budget, or ``"pure"`` without a budget. ``"pure"`` accepts any plan that is
    # provably (ε, δ)-differentially private. The other accountants compare the plan's ρ or μ² with
    # that of the cap. ``"auto"`` also accepts events that may fail, provided that their ε and δ add
    # up to at most (ε, δ).
    accountant: str = "pure"

    def admits(self, event: Event) -> bool:
        """Indicate whether a plan that is fixed in advance costs at most the (ε, δ) of the fit.

        An accountant with a single price compares the plan's ρ or μ² with the ρ or μ² of (ε, δ).
        Otherwise any proof of (ε, δ) suffices: basic composition, μ², ρ, or the δ of the plan.
        """
        price, limit = self._currency()
        epsilon, delta = basic_price(event)
        adds_up = epsilon <= self.epsilon and delta <= self.delta
        if price is not None:
            if self.accountant == "auto" and delta and adds_up:
                return True  # an event that may fail has no finite μ²
            return bool(price(event) <= limit)
        if adds_up or not self.delta:
            return adds_up
        return (
            mu_squared_price(event) <= self._mu_squared()
            or rho_price(event) <= zcdp_rho(self.epsilon, self.delta)
            or plan_delta(event, self.epsilon) <= self.delta
        )

    def default_plan(self) -> Event:
        """Return a plan that admits any Gaussian noise in the cap, or any pure event if δ is 0."""
        return Gaussian(self._mu_squared()) if self.delta else Pure(self.epsilon)

    def calibrate(self, make_plan: Callable[[Fraction], Event]) -> Fraction:
        """Return the largest scale for which the cap admits a plan, by bisection.

        The cost of ``make_plan(scale)`` must be an increasing function of the scale.
        """
        price, limit = self._currency()
        if price is None:
            return largest_scale(make_plan, self.epsilon, self.delta)
        low, high = Fraction(0), Fraction(1)
        while price(make_plan(high)) <= limit:
            low, high = high, 2 * high
            if high > MAX_SCALE_RATIO:
                raise ValueError("the plan fits the budget at every scale.")
        while not low or high - low > low * Fraction(SCALE_TOLERANCE):
            middle = (low + high) / 2
            low, high = (middle, high) if price(make_plan(middle)) <= limit else (low, middle)
            if high < 1 / Fraction(MAX_SCALE_RATIO):
                raise ValueError("the plan exceeds the budget at every scale.")
        return low

    def equal_draws(self, count: int) -> Fraction:
        """Return the largest ε per draw for which the cap admits `count` draws.

        Without a budget, or with the accountant ``"pure"``, the function returns the larger of two
        values: the ε from basic composition and the ε from `plans.equal_draws`.
        """
        equal_share = self.epsilon / count
        price, limit = self._currency()
        if not self.delta:
            return equal_share
        if price is None:
            return max(equal_share, equal_draws(self.epsilon, self.delta, count))
        # a draw of ε costs coefficient · ε²: μ² for GDP, ρ = ε² / 8 for zCDP
        coefficient = DRAW_MU_SQUARED_RATE if price is mu_squared_price else Fraction(1, 8)
        return root_below(limit / (coefficient * count))

    def _mu_squared(self) -> Fraction:
        """Return the largest μ² for which the cap admits Gaussian noise; for zCDP, μ² = 2 ρ."""
        price, limit = self._currency()
        return 2 * limit if price is rho_price else gaussian_mu_squared(self.epsilon, self.delta)

    def _currency(self) -> tuple[Callable[[Event], Any] | None, Fraction]:
        """Return the accountant's price function (for ρ or μ²) and the price of (ε, δ).

        The function is None if costs are (ε, δ) pairs, which have no single price.
        """
        if not self.delta or self.accountant == "pure":
            return None, Fraction(0)
        if self.accountant == "zcdp":
            return rho_price, zcdp_rho(self.epsilon, self.delta)
        return mu_squared_price, gaussian_mu_squared(self.epsilon, self.delta)
