"""Zero-concentrated differential privacy, converted to (ε, δ) with every rounding against us.

ρ-zCDP (Bun and Steinke 2016) adds up: mechanisms of ρ1 and ρ2 on the same rows, the second chosen
by the first's output, are together (ρ1 + ρ2)-zCDP (Lemma 2.3). So add ρ's as fractions and convert
to (ε, δ) once, at the end.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from skpublicdp.accounting.decimals import (
    exact_fraction,
    float_above,
    fraction_below,
    log_ratio,
    non_negative,
    precise,
    probability,
    relative_error,
    root,
    sum_with_slack,
    to_decimal,
)


def gaussian_rho(sensitivity_squared: Fraction, sigma2: Fraction) -> Fraction:
    """Return the ρ of discrete (or continuous) Gaussian noise: Δ² / (2 σ²).

    Parameters
    ----------
    sensitivity_squared : Fraction
        The most that replacing one private row changes the answers, as a squared Euclidean
        distance.
    sigma2 : Fraction
        The σ² of the independent noise on each answer, positive.

    Returns
    -------
    Fraction
        The ρ, exactly.

    References
    ----------
    Bun and Steinke (2016), Proposition 1.6; Canonne, Kamath and Steinke (2020), Theorems 4 and 14.
    Proved in docs/proofs/noise.md.

    Examples
    --------
    >>> gaussian_rho(1, 50)
    Fraction(1, 100)
    """
    squared, variance = exact_fraction(sensitivity_squared), exact_fraction(sigma2)
    if squared < 0:
        raise ValueError(f"sensitivity_squared must not be negative; got {sensitivity_squared}.")
    if variance <= 0:
        raise ValueError(f"sigma2 must be positive; got {sigma2}.")
    return squared / (2 * variance)


def pure_rho(epsilon: Fraction) -> Fraction:
    """Return a ρ that every ε-differentially private mechanism has, Laplace noise included: ε² / 2.

    Parameters
    ----------
    epsilon : Fraction
        Non-negative.

    Returns
    -------
    Fraction
        The ρ.

    See Also
    --------
    exponential_rho : A quarter of it, for the exponential mechanism.

    References
    ----------
    Bun and Steinke (2016), Proposition 1.4.

    Examples
    --------
    >>> pure_rho(1)
    Fraction(1, 2)
    """
    return non_negative("epsilon", epsilon) ** 2 / 2


def exponential_rho(epsilon: Fraction) -> Fraction:
    """Return the ρ of an exponential mechanism of budget ε: ε² / 8.

    Its privacy loss lies in an interval of length ε (bounded range), which is stronger than
    ε-differential privacy.

    Parameters
    ----------
    epsilon : Fraction
        The budget of `skpublicdp.mechanisms.selection.draw`, non-negative.

    Returns
    -------
    Fraction
        The ρ.

    References
    ----------
    Cesar and Rogers (2021), on the bounded range of Dong, Durfee and Rogers (2020). Proved in
    docs/proofs/noise.md.

    Examples
    --------
    >>> exponential_rho(1)
    Fraction(1, 8)
    """
    return non_negative("epsilon", epsilon) ** 2 / 8


def zcdp_delta(rho: Fraction, epsilon: Fraction) -> float:
    """Return a δ such that ρ-zCDP implies (ε, δ)-differential privacy.

    Parameters
    ----------
    rho, epsilon : Fraction
        Non-negative.

    Returns
    -------
    float
        The infimum over α > 1 of exp((α - 1)(α ρ - ε)) (1 - 1/α)^α / (α - 1), rounded up, and at
        most 1.

    Notes
    -----
    Every α gives a valid δ, so that a search for the best one decides how tight the answer is,
    never whether it holds. The value at the α found is rounded upwards.

    References
    ----------
    Canonne, Kamath and Steinke (2020), Corollary 13.

    Examples
    --------
    >>> zcdp_delta(0.01, 1)
    1.66...e-13
    """
    rho, epsilon = non_negative("rho", rho), non_negative("epsilon", epsilon)
    if rho == 0:
        return 0.0
    with localcontext(precise(rho, epsilon)):
        rho_decimal, epsilon_decimal = to_decimal(rho), to_decimal(epsilon)
        # the derivative of the logarithm of δ: negative up to the minimum, positive from there
        beta = root(lambda b: (2 * b + 1) * rho_decimal - epsilon_decimal - log_ratio(b))
        alpha = beta + 1
        exponent, slack = sum_with_slack(
            alpha * beta * rho_decimal,
            -beta * epsilon_decimal,
            beta * beta.ln(),
            -alpha * alpha.ln(),
        )
        if exponent + slack >= 0:
            return 1.0
        delta = (exponent + slack).exp() * (1 + relative_error())
        return float_above(max(delta, Decimal(1).scaleb(-9999)))  # it may have underflowed


def zcdp_epsilon(rho: Fraction, delta: Fraction) -> float:
    """Return an ε such that ρ-zCDP implies (ε, δ)-differential privacy.

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
    with localcontext(precise(rho, delta, 1 - delta)):
        rho_decimal, log_delta = to_decimal(rho), to_decimal(delta).ln()
        beta = root(lambda b: b * b * rho_decimal + (b + 1).ln() + log_delta)
        alpha = beta + 1
        epsilon, slack = sum_with_slack(
            alpha * rho_decimal, beta.ln(), -alpha.ln(), -alpha.ln() / beta, -log_delta / beta
        )
        return float_above(max(epsilon + slack, Decimal(0)))


@lru_cache(maxsize=256)
def zcdp_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest ρ such that ρ-zCDP implies (ε, δ)-differential privacy.

    Parameters
    ----------
    epsilon : Fraction
        Non-negative.
    delta : Fraction
        Strictly between 0 and 1.

    Returns
    -------
    Fraction
        The inverse of `zcdp_delta` in ρ, rounded down to 64 binary digits, so that the promise of
        (ε, δ) is never overstated.

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
    with localcontext(precise(epsilon, delta, 1 - delta)):
        epsilon_decimal, log_delta = to_decimal(epsilon), to_decimal(delta).ln()
        # where the derivative of `zcdp_delta` vanishes and δ is the one that is asked for
        beta = root(
            lambda b: (
                (epsilon_decimal + log_ratio(b)) * b * b / (2 * b + 1) + (b + 1).ln() + log_delta
            )
        )
        alpha = beta + 1
        exponent, slack = sum_with_slack(
            log_delta, beta * epsilon_decimal, -beta * beta.ln(), alpha * alpha.ln()
        )
        rho = Fraction((exponent - slack) / (alpha * beta) * (1 - relative_error()))
    return fraction_below(rho)
