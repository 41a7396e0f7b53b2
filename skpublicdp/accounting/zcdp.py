"""Conversion of zero-concentrated DP (zCDP) to (ε, δ), rounded towards larger loss.

The parameters ρ add up under adaptive composition (Bun and Steinke 2016, Lemma 2.3): two mechanisms
with ρ1 and ρ2 on the same rows are jointly (ρ1 + ρ2)-zCDP. Therefore, add up the values of ρ as
fractions, and convert only the total to (ε, δ).
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from skpublicdp.accounting.rounding import (
    approximate_root,
    float_above,
    fraction_below,
    log_one_plus_inverse,
    non_negative,
    precise_context,
    probability,
    relative_error,
    sum_with_slack,
    to_decimal,
)


def zcdp_epsilon(rho: Fraction, delta: Fraction) -> float:
    """Return an ε for which ρ-zCDP implies (ε, δ)-differential privacy.

    Parameters
    ----------
    rho : Fraction
        Non-negative.
    delta : Fraction
        Strictly between 0 and 1.

    Returns
    -------
    float
        The infimum over α > 1 of α ρ + log(1 - 1/α) - log(α δ) / (α - 1), rounded up, and at
        least 0.

    References
    ----------
    Canonne, Kamath and Steinke (2020), Corollary 13, solved for ε.

    Examples
    --------
    >>> zcdp_epsilon(0.01, 1e-6)
    0.6216...
    """
    rho, delta = non_negative("rho", rho), probability("delta", delta)
    if rho == 0:
        return 0.0
    with localcontext(precise_context(rho, delta, 1 - delta)):
        rho_decimal, log_delta = to_decimal(rho), to_decimal(delta).ln()
        # β = α - 1 for the α that minimises ε(α): the derivative has this sign
        beta = approximate_root(lambda b: b * b * rho_decimal + (b + 1).ln() + log_delta)
        alpha = beta + 1
        epsilon, slack = sum_with_slack(
            alpha * rho_decimal, beta.ln(), -alpha.ln(), -alpha.ln() / beta, -log_delta / beta
        )
        return float_above(max(epsilon + slack, Decimal(0)))


@lru_cache(maxsize=256)
def zcdp_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest ρ for which `zcdp_epsilon` returns at most ε.

    Parameters
    ----------
    epsilon : Fraction
        Non-negative.
    delta : Fraction
        Strictly between 0 and 1.

    Returns
    -------
    Fraction
        The inverse of `zcdp_epsilon`, rounded down to 64 binary digits. This ρ therefore implies
        (ε, δ) exactly.

    References
    ----------
    Canonne, Kamath and Steinke (2020), Corollary 13, solved for ρ.

    Examples
    --------
    >>> rho = zcdp_rho(1, 1e-6)
    >>> float(rho)
    0.0243...
    >>> zcdp_epsilon(rho, 1e-6)
    1.0
    """
    epsilon, delta = non_negative("epsilon", epsilon), probability("delta", delta)
    with localcontext(precise_context(epsilon, delta, 1 - delta)):
        epsilon_decimal, log_delta = to_decimal(epsilon), to_decimal(delta).ln()
        # β = α - 1 for the best α, where δ(α) = δ and the derivative of δ(α) is zero
        beta = approximate_root(
            lambda b: (
                (epsilon_decimal + log_one_plus_inverse(b)) * b * b / (2 * b + 1)
                + (b + 1).ln()
                + log_delta
            )
        )
        alpha = beta + 1
        exponent, slack = sum_with_slack(
            log_delta, beta * epsilon_decimal, -beta * beta.ln(), alpha * alpha.ln()
        )
        rho = Fraction((exponent - slack) / (alpha * beta) * (1 - relative_error()))
    return fraction_below(rho)
