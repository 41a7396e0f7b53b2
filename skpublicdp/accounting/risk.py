"""Conversion between (ε, δ) and an attacker's success rate.

Consider an attacker who knows all rows but one, and who considers two values of the remaining row
equally likely. The attacker's best guess, given the result, is right with probability 1/2 + TV/2,
where TV is the total variation distance between the two output distributions. The risk is TV/2, the
improvement over a blind guess. The proof is docs/proofs/plans.md.
"""

from __future__ import annotations

import math
from decimal import localcontext
from fractions import Fraction

from skpublicdp.accounting.gdp import gaussian_delta, gaussian_epsilon, gaussian_mu_squared
from skpublicdp.accounting.rounding import (
    exact_fraction,
    float_above,
    float_below,
    non_negative,
    precise_context,
    probability,
    relative_error,
    to_decimal,
)

RISK_KINDS = ("any", "draw", "gaussian")
"""Kinds of fits, whose risks differ for the same (ε, δ)."""

NO_FAILURE = Fraction(0)
"""Value of δ in pure differential privacy."""


def risk_from_epsilon(
    epsilon: Fraction, delta: Fraction = NO_FAILURE, *, kind: str = "any"
) -> float:
    """Return the largest gain of an attacker over guessing for a given (ε, δ).

    Suppose an attacker knows every other row and considers this person and one other person equally
    likely. From the result, the attacker can tell which person it was with probability at most 1/2
    plus the risk, whereas guessing blindly gives 1/2.

    Parameters
    ----------
    epsilon : Fraction or float
        Privacy parameter ε, non-negative.
    delta : Fraction or float, default=0
        Privacy parameter δ, in [0, 1). It must be 0 for ``kind="draw"`` and positive for
        ``kind="gaussian"``.
    kind : {"any", "draw", "gaussian"}, default="any"
        Kind of the fit. ``"any"`` holds for every (ε, δ)-differentially private fit. ``"draw"`` is
        for fits that only draw rules by the exponential mechanism, once or several times with
        values of ε that add up to `epsilon`. ``"gaussian"`` is for fits that only add Gaussian
        noise. Their risks are smaller.

    Returns
    -------
    float
        Risk in [0, 0.5], rounded up. A risk of 0.05 means 5 percentage points better than guessing.
        The bound is tight: some fit of this kind attains it.

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If a parameter is out of range.

    See Also
    --------
    epsilon_from_risk : The inverse function.
    PrivacyReceipt.risk : The risk of a fit, computed from all of its mechanisms.

    References
    ----------
    Kairouz, Oh and Viswanath (2017), Theorem 3.3, for the worst fit; docs/proofs/plans.md.

    Examples
    --------
    >>> risk_from_epsilon(1.0)
    0.2310...
    >>> risk_from_epsilon(1.0, kind="draw")
    0.1224...
    >>> risk_from_epsilon(1.0, 1e-6, kind="gaussian")
    0.0471...
    """
    exact_epsilon, exact_delta = non_negative("epsilon", epsilon), _check_kind(delta, kind)
    if kind == "gaussian":
        return gaussian_delta(gaussian_mu_squared(exact_epsilon, exact_delta), Fraction(0)) / 2
    if kind == "draw":
        exact_epsilon /= 2
    with localcontext(precise_context(exact_epsilon, exact_delta)):
        odds = (-to_decimal(exact_epsilon)).exp()
        distance = (1 - odds + 2 * to_decimal(exact_delta) * odds) / (1 + odds)
        return min(float_above(distance / 2 * (1 + relative_error())), 0.5)


def epsilon_from_risk(risk: Fraction, delta: Fraction = NO_FAILURE, *, kind: str = "any") -> float:
    """Return the largest ε for which an attacker's gain over guessing is at most a given risk.

    Parameters
    ----------
    risk : Fraction or float
        Largest allowed success rate of an attacker, minus 1/2. For example, 0.05 allows 5
        percentage points over guessing; see `risk_from_epsilon`. The risk must lie strictly between
        δ/2 and 0.5.
    delta : Fraction or float, default=0
        Privacy parameter δ, in [0, 1). It must be 0 for ``kind="draw"`` and positive for
        ``kind="gaussian"``.
    kind : {"any", "draw", "gaussian"}, default="any"
        Kind of the fit, as in `risk_from_epsilon`.

    Returns
    -------
    float
        Privacy parameter ε, rounded down, so that ``risk_from_epsilon(epsilon, delta, kind=kind)``
        is at most `risk`, up to rounding in the last digit.

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If a parameter is out of range.

    See Also
    --------
    risk_from_epsilon : The inverse function.

    Examples
    --------
    >>> epsilon_from_risk(0.05)
    0.2006...
    >>> epsilon_from_risk(0.05, kind="draw")
    0.4013...
    >>> epsilon_from_risk(0.05, 1e-6, kind="gaussian")
    1.0667...
    """
    exact_risk, exact_delta = probability("risk", risk), _check_kind(delta, kind)
    if not exact_delta < 2 * exact_risk < 1:
        raise ValueError(f"risk must lie strictly between delta / 2 and 0.5; got {risk}.")
    if kind == "gaussian":
        mu_squared = gaussian_mu_squared(Fraction(0), 2 * exact_risk)
        epsilon = gaussian_epsilon(mu_squared, exact_delta)
        # this ε is rounded up: decrease it until its noise is large enough
        while gaussian_mu_squared(exact_fraction(epsilon), exact_delta) > mu_squared:
            epsilon = math.nextafter(epsilon, 0)
        return epsilon
    odds = (1 + 2 * exact_risk - 2 * exact_delta) / (1 - 2 * exact_risk)
    with localcontext(precise_context(odds - 1)):
        epsilon = float_below(to_decimal(odds).ln() * (1 - relative_error()))
    return 2 * epsilon if kind == "draw" else epsilon


def _check_kind(delta: Fraction, kind: str) -> Fraction:
    """Return δ as an exact fraction, or raise if it is not allowed for this kind of fit."""
    if kind not in RISK_KINDS:
        raise ValueError(f"kind must be one of {', '.join(RISK_KINDS)}; got {kind!r}.")
    if kind == "gaussian":
        return probability("delta", delta)
    exact_delta = non_negative("delta", delta)
    if exact_delta >= 1:
        raise ValueError(f"delta must be a number, at least 0 and below 1; got {delta}.")
    if kind == "draw" and exact_delta:
        raise ValueError(f"delta must be 0 for kind='draw'; got {delta}.")
    return exact_delta
