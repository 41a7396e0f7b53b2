"""Privacy filters, which decide whether a budget admits the next fit (docs/proofs/budgets.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

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
from skpublicdp.accounting.rounding import (
    exact_fraction,
    fraction_above,
    probability,
    written_above,
)
from skpublicdp.accounting.zcdp import zcdp_epsilon, zcdp_rho

ACCOUNTANTS = ("auto", "pure", "zcdp", "gdp")

FIT_KINDS = ("pure", "draw", "gaussian", "approximate")
"""Kinds of fits: any fit with δ = 0, fits with only draws, fits with Gaussian noise, and any other
fit with δ > 0."""

FAILURE_SHARE, SINGLE_NOISE_SHARE, SPLIT_SHARE = Fraction(1, 10), Fraction(1, 30), Fraction(1, 30)
"""How the accountant "auto" splits the δ of a budget into shares.

The first share is for events that may fail. The second and third shares are for the second and
third rules of `Filter.admission_rules`.
"""

N_EPSILON_PARTS = 16
"""Number of equal parts of ε; the third rule assigns k parts to pure fits and the rest to noise."""

MAX_FIT_EPSILON = 1 << 20
"""Upper limit on the ε of a fit, far larger than any practical value."""


ZERO = Fraction(0)


class Spent(NamedTuple):
    """Smallest (ε, δ) of a budget that would have admitted all fits so far."""

    # the privacy parameters, rounded up
    epsilon: float
    delta: float


class Remaining(NamedTuple):
    """Largest ε that a budget allows for one more fit, for each kind of fit.

    Since different kinds of fits compose differently, these values differ from the total ε minus
    the spent ε.
    """

    pure: float  # largest ε of any fit with ``delta=0``
    draw: float  # largest ε of a fit that only draws a rule by the exponential mechanism
    # Largest ε of a fit that adds Gaussian noise, assuming that the fit uses the δ of the budget.
    # This ε is 0 if the δ of the budget is 0.
    gaussian: float
    # largest ε of any other fit with δ > 0, assuming that the fit uses the remaining δ
    approximate: float

    def __bool__(self) -> bool:
        return any(self)

    def __repr__(self) -> str:
        epsilons = ", ".join(
            f"{kind} {four_digits(epsilon, ROUND_FLOOR)}"
            for kind, epsilon in self._asdict().items()
        )
        return f"Largest ε of one more fit, by kind (each kind composes differently): {epsilons}"


class SpentTotals(NamedTuple):
    """Total privacy cost of a set of fits under each accountant.

    The field names are part of the file format of budgets.

    Examples
    --------
    >>> once = SpentTotals.from_event(Draw(Fraction(1, 2)))
    >>> (once + once).rho
    Fraction(1, 16)
    """

    delta: Fraction  # Total δ of events that may fail. All other fields assume that no event fails.
    # total ρ of zCDP and total μ² of Gaussian differential privacy, None if infinite
    rho: Fraction | None
    mu_squared: Fraction | None
    pure: Fraction  # sum of ε over fits without Gaussian noise
    noise: Fraction | None  # sum of μ² over fits with Gaussian noise, None if infinite
    noisy: int  # number of fits with Gaussian noise
    fits: int  # number of fits whose cost is positive

    @classmethod
    def from_event(cls, event: Event) -> SpentTotals:
        """Return the costs of a fit whose plan is `event`, with ρ and μ² rounded up to 64 bits."""
        epsilon, delta = basic_price(event)
        event = without_failures(event)
        rho, mu_squared = (
            None if price == math.inf else fraction_above(Fraction(price))
            for price in (rho_price(event), mu_squared_price(event))
        )
        if epsilon == math.inf:  # math.isinf overflows for fractions too large for a float
            return cls(delta, rho, mu_squared, ZERO, mu_squared, noisy=1, fits=1)
        n_fits = int(epsilon > 0 or delta > 0)
        return cls(delta, rho, mu_squared, Fraction(epsilon), ZERO, noisy=0, fits=n_fits)

    def __add__(self, totals: Any) -> SpentTotals:
        """Return the totals of both sets of fits together."""
        return SpentTotals(
            self.delta + totals.delta,
            _sum_unless_infinite(self.rho, totals.rho),
            _sum_unless_infinite(self.mu_squared, totals.mu_squared),
            self.pure + totals.pure,
            _sum_unless_infinite(self.noise, totals.noise),
            self.noisy + totals.noisy,
            self.fits + totals.fits,
        )

    def covers(self, totals: SpentTotals, tolerance: Fraction) -> bool:
        """Indicate whether no cost is below that in `totals`, up to a relative tolerance."""
        return all(
            price is None or (other is not None and price >= other * (1 - tolerance))
            for price, other in zip(self, totals, strict=True)
        )

    def to_text(self) -> str:
        """Return the exact totals as a JSON string that `from_text` can parse."""
        fields = self._asdict().items()
        return json.dumps({name: None if price is None else str(price) for name, price in fields})

    @classmethod
    def from_text(cls, text: str) -> SpentTotals:
        """Return the totals stored in a JSON string from `to_text`.

        A string in any other format raises AttributeError, TypeError or ValueError.
        """
        fields = json.loads(text).items()
        prices: dict[str, Any] = {name: price and Fraction(price) for name, price in fields}
        return cls(**prices)


ZERO_SPENT = SpentTotals(ZERO, ZERO, ZERO, ZERO, ZERO, 0, 0)


class AdmissionRule(NamedTuple):
    """Sufficient condition for admission: the total μ² implies (ε, δ)-differential privacy."""

    noise: Fraction | None  # total μ², or None if it is infinite
    # the (ε, δ) that the total must imply
    epsilon: Fraction
    delta: Fraction
    # Whether the same (ε, δ) is checked for several totals. If so, the largest admissible μ² is
    # computed once and cached.
    is_reused: bool = True

    def is_met(self) -> bool:
        """Indicate whether the total μ² implies (ε, δ)-differential privacy."""
        if self.is_reused:
            return self.remaining() >= 0
        return self.noise is not None and implies(self.noise, self.epsilon, self.delta)

    def remaining(self) -> Fraction:
        """Return the μ² that can still be added, or a negative number if nothing can."""
        max_mu_squared = gaussian_mu_squared(self.epsilon, self.delta)
        return Fraction(-1) if self.noise is None else max_mu_squared - self.noise


@dataclass(frozen=True)
class Filter:
    """Privacy filter that admits adaptively chosen events while their total stays below a cap."""

    # The cap, i.e. the joint guarantee of all fits.
    epsilon: Fraction
    delta: Fraction
    accountant: str  # as in `PrivacyBudget`, but always ``"pure"`` if δ is 0

    def admits(self, total: SpentTotals) -> bool:
        """Indicate whether the total cost of several fits stays within the (ε, δ) of the budget.

        A separate allowance limits the δ of fits that may fail. All other costs are compared in the
        units of the accountant: ρ for ``"zcdp"``, the sum of ε for ``"pure"`` (where Gaussian noise
        has no finite cost), μ² for ``"gdp"``, and for ``"auto"`` either the sum of ε or any rule
        for μ².
        """
        if total.delta > self.failure_allowance(total):
            return False
        if self.accountant == "zcdp":
            return total.rho is not None and total.rho <= zcdp_rho(self.epsilon, self.delta)
        sum_is_within = not total.noisy and total.pure <= self.epsilon
        if self.accountant == "pure":
            return sum_is_within
        if self.accountant == "auto" and sum_is_within:
            return True
        return any(rule.is_met() for rule in self.admission_rules(total))

    def failure_allowance(self, total: SpentTotals) -> Fraction:
        """Return the largest allowed total δ of fits that may fail.

        With ``"auto"``, the fraction `FAILURE_SHARE` of δ is reserved for failures. A single fit,
        however, may use the entire δ.
        """
        if self.accountant == "auto":
            is_single = total.fits <= 1 and not total.noisy
            return self.delta if is_single else self.delta * FAILURE_SHARE
        return self.delta if self.accountant == "pure" else ZERO

    def admission_rules(self, total: SpentTotals) -> list[AdmissionRule]:
        """Return the admission rules of ``"auto"`` and ``"gdp"``; one met rule admits a total.

        1. All fits count as Gaussian noise, and their μ² add up.
        2. The ε of pure fits and the ε of one fit with Gaussian noise add up.
        3. Pure fits use k equal parts of ε, and fits with Gaussian noise use the other parts.
        """
        share = self._all_noise_share(total)
        rules = [AdmissionRule(total.mu_squared, self.epsilon, self.delta * share)]
        if share == 1:
            return rules
        if total.noisy <= 1 and total.pure < self.epsilon:
            epsilon = self.epsilon - total.pure
            delta = self.delta * SINGLE_NOISE_SHARE
            rules.append(AdmissionRule(total.noise, epsilon, delta, is_reused=False))
        n_pure_parts = math.ceil(N_EPSILON_PARTS * total.pure / self.epsilon)
        n_noisy_parts = N_EPSILON_PARTS - n_pure_parts
        if n_pure_parts > 0 and n_noisy_parts > 0:
            epsilon = self.epsilon * n_noisy_parts / N_EPSILON_PARTS
            delta = self.delta * SPLIT_SHARE / (N_EPSILON_PARTS - 1)
            rules.append(AdmissionRule(total.noise, epsilon, delta))
        return rules

    def spent(self, total: SpentTotals) -> Spent:
        """Return the (ε, δ) of the smallest filter that admits a total admitted by this one."""
        if self.accountant == "zcdp":
            return Spent(zcdp_epsilon(total.rho or ZERO, self.delta), written_above(self.delta))
        candidates = []
        if self.accountant != "gdp" and not total.noisy:
            candidates.append(Spent(written_above(total.pure), written_above(total.delta)))
        if self.accountant != "pure":
            delta = written_above(self.delta)
            candidates += [
                Spent(written_above(epsilon), delta) for epsilon in self._required_epsilons(total)
            ]
        return min(candidates)

    def largest_epsilon(
        self, total: SpentTotals, kind: str, delta: Fraction | None = None
    ) -> float:
        """Return the largest ε that one more fit may have.

        Parameters
        ----------
        total : SpentTotals
            Total cost of the fits so far.
        kind : {"pure", "draw", "gaussian", "approximate"}
            Kind of fit, which depends on its mechanisms (see `FIT_KINDS`).
        delta : Fraction, optional
            δ of the fit, for the last two kinds. The default is the δ of the cap, or the part of
            this δ that remains if the δ values of fits are added up.
        """
        if kind == "draw":
            return self._largest_epsilon_by_search(total, Draw)
        if kind == "pure":
            return self._largest_epsilon_by_search(total, Pure)
        adds_deltas = kind == "approximate" or self.accountant == "pure"
        if delta is None:
            new_total = total._replace(fits=total.fits + 1)
            delta = self.failure_allowance(new_total) - total.delta if adds_deltas else self.delta
            if delta <= 0:
                return 0.0
        exact_delta = probability("delta", delta)
        if adds_deltas:
            return self._largest_epsilon_by_search(
                total, lambda epsilon: Approximate(epsilon, exact_delta)
            )
        return self._largest_gaussian(total, exact_delta)

    def _largest_gaussian(self, total: SpentTotals, delta: Fraction) -> float:
        """Return the largest ε that one more fit with Gaussian noise may have, given its δ.

        The fit converts (ε, δ) back to ρ or μ², which must not exceed the remainder. Therefore ε is
        rounded down.
        """
        new_total = total._replace(fits=total.fits + 1, noisy=total.noisy + 1)
        if total.delta > self.failure_allowance(new_total):
            return 0.0
        epsilon: Any
        if self.accountant == "zcdp":
            remaining = zcdp_rho(self.epsilon, self.delta) - (total.rho or 0)
            epsilon, to_price = zcdp_epsilon(max(remaining, ZERO), delta), zcdp_rho
        else:
            remaining = max(rule.remaining() for rule in self.admission_rules(new_total))
            epsilon, to_price = gaussian_epsilon(max(remaining, ZERO), delta), gaussian_mu_squared
        while epsilon and to_price(exact_fraction(epsilon), delta) > remaining:
            epsilon = math.nextafter(epsilon, 0)
        return float(epsilon)

    def refusal_message(self, event: Event, total: SpentTotals) -> str:
        """Return the error message for a refused event, given the cost of earlier fits."""
        price = SpentTotals.from_event(event)
        accountant = f"accountant={self.accountant!r}"
        cap = f"of the budget of ε = {float(self.epsilon):g}, δ = {float(self.delta):g}"
        if price.mu_squared is None or (price.noisy and self.accountant == "pure"):
            return (
                f"{accountant} cannot account for this Gaussian noise. Spend Approximate(epsilon, "
                "delta) instead."
            )
        if price.delta and self.accountant in ("zcdp", "gdp"):
            return (
                f"{accountant} cannot account for a fit whose privacy cost is known only as (ε, "
                "δ). Use a budget with accountant='auto' or 'pure', or set delta=0 in the fit."
            )
        allowance = self.failure_allowance(total + price)
        if total.delta + price.delta > allowance:
            remaining = four_digits(max(allowance - total.delta, ZERO), ROUND_FLOOR)
            if not self.delta:
                return self._no_delta_message(price, total)
            if total.delta > allowance:
                return (
                    f"No fit is possible after the first one, which used δ = "
                    f"{four_digits(total.delta)} {cap}: later fits are only possible if fits whose "
                    f"cost is known only as (ε, δ) use at most δ = {float(allowance):g} together. "
                    "Make no further fits."
                )
            scope = (
                " for fits whose cost is known only as (ε, δ)," if self.accountant == "auto" else ""
            )
            return (
                f"This fit requests δ = {four_digits(price.delta)}, but only δ = {remaining} is "
                f"left{scope} {cap}. Fit with delta=0 or a smaller delta, or make no further fits."
            )
        if price.noisy:
            epsilon = gaussian_epsilon(price.mu_squared, self.delta)
            requested = f"as much as ε = {four_digits(epsilon)} at δ = {float(self.delta):g}"
            largest = self.largest_epsilon(total, "gaussian")
        else:
            requested = f"ε = {four_digits(price.pure)}"
            kind = "approximate" if price.delta else "draw" if isinstance(event, Draw) else "pure"
            largest = self.largest_epsilon(total, kind, price.delta or None)
        remaining = f"only ε = {four_digits(largest, ROUND_FLOOR)}" if largest else "nothing"
        advice = (
            "Fit with a smaller epsilon, or make no further fits"
            if largest
            else "Make no further fits"
        )
        return f"This fit requests {requested}, but {remaining} is left {cap}. {advice}."

    def _no_delta_message(self, price: SpentTotals, total: SpentTotals) -> str:
        """Return the error message for a fit with δ > 0 that a budget with δ = 0 refuses."""
        advice = "Fit with delta=0, or make no further fits"
        if not total.fits:  # no promise depends on the budget yet
            advice = "Fit with delta=0, or create the budget with a δ before its first fit: "
            advice += "PrivacyBudget(epsilon, delta)"
        return (
            f"This fit requests δ = {four_digits(price.delta)}, but the budget of ε = "
            f"{float(self.epsilon):g} has no δ. {advice}."
        )

    def _all_noise_share(self, total: SpentTotals) -> Fraction:
        """Return the share of δ for the first rule, which treats all fits as Gaussian noise."""
        if self.accountant == "gdp" or (total.fits <= 1 and not total.delta):
            return Fraction(1)  # the first fit is not chosen adaptively
        return 1 - FAILURE_SHARE - SINGLE_NOISE_SHARE - SPLIT_SHARE

    def _required_epsilons(self, total: SpentTotals) -> Iterator[Fraction]:
        """For each admission rule, yield the smallest ε of a budget that would admit a total."""

        def to_epsilon(noise: Fraction, share: Fraction) -> Fraction:
            return exact_fraction(gaussian_epsilon(noise, self.delta * share))

        if total.mu_squared is not None:
            yield to_epsilon(total.mu_squared, self._all_noise_share(total))
        if self._all_noise_share(total) == 1 or not total.noise:
            return
        if total.noisy == 1:
            yield total.pure + to_epsilon(total.noise, SINGLE_NOISE_SHARE)
        noise = to_epsilon(total.noise, SPLIT_SHARE / (N_EPSILON_PARTS - 1))
        for n_pure_parts in range(1, N_EPSILON_PARTS):
            n_noise_parts = N_EPSILON_PARTS - n_pure_parts
            yield N_EPSILON_PARTS * max(total.pure / n_pure_parts, noise / n_noise_parts)

    def _largest_epsilon_by_search(
        self, total: SpentTotals, make_event: Callable[[Fraction], Event]
    ) -> float:
        """Find, by bisection, the largest float ε whose event is admitted after a total."""

        def admitted(epsilon: Any) -> bool:
            return self.admits(total + SpentTotals.from_event(make_event(exact_fraction(epsilon))))

        low, high = 0.0, float(self.epsilon)
        while high < MAX_FIT_EPSILON and admitted(high):
            low, high = high, 2 * high
        # until neighbouring floats, or until ε is negligible
        while low < (middle := (low + high) / 2) < high and high > 2**-60 * self.epsilon:
            low, high = (middle, high) if admitted(middle) else (low, middle)
        return low


def _sum_unless_infinite(first: Fraction | None, second: Fraction | None) -> Fraction | None:
    """Return the sum of two prices; None represents infinity."""
    return None if first is None or second is None else first + second


def four_digits(number: Fraction | float, rounding: str = ROUND_CEILING) -> str:
    """Format a number with four significant digits, rounded up by default."""
    if number == math.inf:
        return "inf"
    exact = exact_fraction(number)
    rounded = Context(4, rounding).divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return f"{float(rounded):g}" if math.isfinite(float(rounded)) else f"{rounded:e}"
