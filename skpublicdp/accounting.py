"""What was spent, on whom and how: receipts that can be shown to anybody, and zCDP.

ρ-zCDP (Bun and Steinke 2016) adds up: mechanisms of ρ1 and ρ2 on the same rows, the second chosen
by the first's output, are together (ρ1 + ρ2)-zCDP (Lemma 2.3). So add ρ's as fractions and convert
to (ε, δ) once, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from decimal import (
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    getcontext,
    localcontext,
)
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

REPLACE_ONE = "replace one private row (features and label)"
"""The unit of privacy: neighbouring data sets differ by replacing one private row."""


@dataclass(frozen=True)
class Mechanism:
    """One use of the private rows.

    Attributes
    ----------
    name : str
        What was run.
    epsilon, delta : float
        What it spent.
    reference : str
        Where its privacy is proved.
    """

    name: str
    epsilon: float
    delta: float
    reference: str


@dataclass(frozen=True, repr=False)
class PrivacyReceipt:
    """The privacy of one fit, from public numbers only.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee: the fitted object is (epsilon, delta)-differentially private.
    unit : str
        What neighbouring data sets may differ in.
    n_private, n_public : int
        Rows protected and rows not protected.
    mechanisms : tuple of Mechanism
        Every use of the private rows.
    secure_randomness : bool
        False when the randomness is seeded: the run is then repeatable, and whoever knows the
        seed is not bound by the guarantee.
    assumptions : tuple of str
        What is taken to be public.
    """

    epsilon: float
    delta: float
    unit: str
    n_private: int
    n_public: int
    mechanisms: tuple[Mechanism, ...]
    secure_randomness: bool
    assumptions: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain dicts, lists, strings and numbers, ready for JSON."""
        fields = asdict(self)
        fields["mechanisms"] = list(fields["mechanisms"])
        fields["assumptions"] = list(fields["assumptions"])
        return fields

    def __repr__(self) -> str:
        spent = (f"{m.name} (ε = {m.epsilon:g}, δ = {m.delta:g})" for m in self.mechanisms)
        randomness = (
            "operating system's secure generator"
            if self.secure_randomness
            else "seeded, repeatable: for tests and papers, not for release"
        )
        return "\n".join(
            [
                f"PrivacyReceipt: ε = {self.epsilon:g}, δ = {self.delta:g}",
                f"  unit        {self.unit}",
                f"  rows        {self.n_private} private, {self.n_public} public",
                f"  mechanisms  {', '.join(spent)}",
                f"  randomness  {randomness}",
                "  scope       this fit alone; every other use of the same rows adds its own",
                *(f"  assumes     {assumption}" for assumption in self.assumptions),
            ]
        )


def exact_fraction(value: Real) -> Fraction:
    """Read a budget exactly as it is stored.

    Examples
    --------
    >>> exact_fraction(0.5)
    Fraction(1, 2)
    """
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(float(value))


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
    return _non_negative("epsilon", epsilon) ** 2 / 2


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
    return _non_negative("epsilon", epsilon) ** 2 / 8


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
    rho, epsilon = _non_negative("rho", rho), _non_negative("epsilon", epsilon)
    if rho == 0:
        return 0.0
    with localcontext(_precise(rho, epsilon)):
        rho_decimal, epsilon_decimal = _decimal(rho), _decimal(epsilon)
        # the derivative of the logarithm of δ: negative up to the minimum, positive from there
        beta = _root(lambda b: (2 * b + 1) * rho_decimal - epsilon_decimal - _log_ratio(b))
        alpha = beta + 1
        exponent, slack = _sum(
            alpha * beta * rho_decimal,
            -beta * epsilon_decimal,
            beta * beta.ln(),
            -alpha * alpha.ln(),
        )
        if exponent + slack >= 0:
            return 1.0
        delta = (exponent + slack).exp() * (1 + _relative_error())
        return _float_above(max(delta, Decimal(1).scaleb(-9999)))  # it may have underflowed


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
    rho, delta = _non_negative("rho", rho), _probability("delta", delta)
    if rho == 0:
        return 0.0
    with localcontext(_precise(rho, delta, 1 - delta)):
        rho_decimal, log_delta = _decimal(rho), _decimal(delta).ln()
        beta = _root(lambda b: b * b * rho_decimal + (b + 1).ln() + log_delta)
        alpha = beta + 1
        epsilon, slack = _sum(
            alpha * rho_decimal, beta.ln(), -alpha.ln(), -alpha.ln() / beta, -log_delta / beta
        )
        return _float_above(max(epsilon + slack, Decimal(0)))


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
    epsilon, delta = _non_negative("epsilon", epsilon), _probability("delta", delta)
    with localcontext(_precise(epsilon, delta, 1 - delta)):
        epsilon_decimal, log_delta = _decimal(epsilon), _decimal(delta).ln()
        # where the derivative of `zcdp_delta` vanishes and δ is the one that is asked for
        beta = _root(
            lambda b: (
                (epsilon_decimal + _log_ratio(b)) * b * b / (2 * b + 1) + (b + 1).ln() + log_delta
            )
        )
        alpha = beta + 1
        log_ratio, slack = _sum(
            log_delta, beta * epsilon_decimal, -beta * beta.ln(), alpha * alpha.ln()
        )
        rho = Fraction((log_ratio - slack) / (alpha * beta) * (1 - _relative_error()))
    scale = Fraction(2) ** (64 - (rho.numerator.bit_length() - rho.denominator.bit_length()))
    return Fraction(math.floor(rho * scale)) / scale


def _non_negative(name: str, value: Fraction) -> Fraction:
    if not value >= 0 or value == math.inf:
        raise ValueError(f"{name} must be a finite number and not negative; got {value}.")
    return exact_fraction(value)


def _probability(name: str, value: Fraction) -> Fraction:
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1; got {value}.")
    return exact_fraction(value)


def _precise(*values: Fraction) -> Context:
    """Return a decimal arithmetic whose `_relative_error` is harmless for such parameters."""
    with localcontext(_arithmetic(28)):
        digits = sum(abs(_decimal(value).adjusted()) for value in values if value)
    return _arithmetic(2 * (SPARE_DIGITS + digits))


SPARE_DIGITS = 30
"""α - 1 is a multiple of 10^-30, so α is exact wherever its logarithm is small."""


def _arithmetic(digits: int) -> Context:
    traps = [DivisionByZero, InvalidOperation, Overflow]
    return Context(digits, ROUND_HALF_EVEN, Emin=-999_999, Emax=999_999, traps=traps)


def _relative_error() -> Decimal:
    """Return far more than the relative error of a dozen operations, each correctly rounded.

    Half of the digits make room for logarithms of numbers that are near 1.
    """
    return Decimal(1).scaleb(-(getcontext().prec // 2))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _sum(*terms: Decimal) -> tuple[Decimal, Decimal]:
    """Return the sum and a bound of its error."""
    return sum(terms, Decimal(0)), sum(map(abs, terms), Decimal(0)) * _relative_error()


def _root(increasing: Callable[[Decimal], Decimal]) -> Decimal:
    """Find roughly where a function of β = α - 1 > 0 changes its sign."""
    least = Decimal(1).scaleb(-SPARE_DIGITS)
    with localcontext(_arithmetic(2 * SPARE_DIGITS)):
        low = high = Decimal(1)
        while increasing(high) < 0:
            low, high = high, 2 * high
        while low > least and increasing(low) > 0:
            low, high = low / 2, low
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if increasing(middle) < 0 else (low, middle)
    return max(low.quantize(least), least)


def _log_ratio(beta: Decimal) -> Decimal:
    """Return roughly log(1 + 1/β), also where 1 + 1/β rounds to 1."""
    return (1 + 1 / beta).ln() if beta.adjusted() < SPARE_DIGITS else 1 / beta


def _float_above(value: Decimal) -> float:
    """Return the least float that is not below."""
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)
