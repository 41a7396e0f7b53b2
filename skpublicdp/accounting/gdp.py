"""Gaussian differential privacy, converted to (ε, δ) with every rounding against us.

Gaussian noise of variance σ² on answers of squared sensitivity Δ² is μ-Gaussian differentially
private for μ² = Δ² / σ² (Dong, Roth and Su 2019, Theorem 2.7). The squares add up: mechanisms of
μ1² and μ2² on the same rows, the second chosen by the first's output, are together of μ1² + μ2²
(their Corollary 3.3), even where the first's output decides how much the second spends, as long as
the sum stays below a bound set before (Smith and Thakurta 2022). So add μ²'s as fractions and
convert to (ε, δ) once, at the end. The conversion is exact, where that of zCDP is a bound.
Proved in docs/proofs/gaussian.md, which also says what must not be added up so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from functools import lru_cache

from skpublicdp.accounting.rounding import (
    decimal_context,
    float_above,
    fraction_above,
    fraction_below,
    non_negative,
    probability,
    relative_error,
    to_decimal,
)

START_DIGITS = 80
ENCLOSURE_TOLERANCE = Decimal(1).scaleb(-28)
"""How closely δ is enclosed, and roots are found: floats cannot tell."""

MAX_TAIL_DEVIATIONS = 1000
"""Beyond so many standard deviations a normal tail is below e^-500000, and is not computed."""

MIN_TAIL = Decimal(1).scaleb(-200_000)
MIN_DELTA = Decimal(1).scaleb(-100_000)

MAX_ROOT_STEPS = 200

MAX_SERIES_ARGUMENT = 5
"""From there on a continued fraction converges faster than a series."""

Enclosure = tuple[Decimal, Decimal]


def gaussian_delta(mu_squared: Fraction, epsilon: Fraction) -> float:
    """Return the least δ such that μ-GDP implies (ε, δ)-differential privacy.

    Parameters
    ----------
    mu_squared : Fraction
        The sum of Δ² / σ² over all uses of Gaussian noise, non-negative.
    epsilon : Fraction
        Non-negative.

    Returns
    -------
    float
        Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ), rounded up.

    References
    ----------
    Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2019), Corollary 2.13.

    Examples
    --------
    >>> gaussian_delta(0.02, 1)
    2.4364...e-14
    """
    mu_squared, epsilon = non_negative("mu_squared", mu_squared), non_negative("epsilon", epsilon)
    if mu_squared == 0:
        return 0.0
    _, upper = _enclose_to_tolerance(mu_squared, epsilon)
    return min(float_above(upper), 1.0)


@lru_cache(maxsize=256)
def gaussian_epsilon(mu_squared: Fraction, delta: Fraction) -> float:
    """Return the least ε such that μ-GDP implies (ε, δ)-differential privacy.

    Parameters
    ----------
    mu_squared : Fraction
        The sum of Δ² / σ² over all uses of Gaussian noise, non-negative.
    delta : Fraction
        Strictly between 0 and 1.

    Returns
    -------
    float
        The inverse of `gaussian_delta` in ε, rounded up, and at least 0.

    References
    ----------
    Balle and Wang (2018), Theorem 8.

    Examples
    --------
    >>> gaussian_epsilon(0.02, 1e-6)
    0.5750...
    """
    mu_squared, delta = non_negative("mu_squared", mu_squared), _checked_delta(delta)
    if implies(mu_squared, Fraction(0), delta):
        return 0.0
    with localcontext(decimal_context(START_DIGITS)):
        mu = to_decimal(mu_squared).sqrt()
        # δ < exp(-z²/2) for z = ε/μ - μ/2 >= 0
        highest = mu * (mu / 2 + (-2 * to_decimal(delta).ln()).sqrt())
        found = _find_root(_gap_in_epsilon(mu_squared, delta), -highest, Decimal(0), -highest)
        epsilon = float_above(-found)
    while epsilon < math.inf and not implies(mu_squared, Fraction(epsilon), delta):
        epsilon = math.nextafter(epsilon, math.inf)
    return epsilon


@lru_cache(maxsize=256)
def gaussian_mu_squared(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest μ² such that μ-GDP implies (ε, δ)-differential privacy.

    Parameters
    ----------
    epsilon : Fraction
        Non-negative.
    delta : Fraction
        Strictly between 0 and 1.

    Returns
    -------
    Fraction
        The inverse of `gaussian_delta` in μ², rounded down to 64 binary digits, so that the promise
        of (ε, δ) is never overstated.

    See Also
    --------
    zcdp_rho : The same for zCDP: twice that ρ is smaller than this μ².

    References
    ----------
    Balle and Wang (2018), Theorem 8.

    Examples
    --------
    >>> mu_squared = gaussian_mu_squared(1, 1e-6)
    >>> float(mu_squared)
    0.0560...
    >>> gaussian_epsilon(mu_squared, 1e-6)
    1.0
    """
    epsilon, delta = non_negative("epsilon", epsilon), _checked_delta(delta)
    with localcontext(decimal_context(START_DIGITS)):
        decimal = to_decimal(epsilon)
        # δ < exp(-z²/2) for z = ε/μ - μ/2 >= 0, and δ < μ / sqrt(2π)
        z = (-2 * to_decimal(delta).ln()).sqrt()
        low = 2 * decimal / (z + (z * z + 2 * decimal).sqrt()) if decimal else decimal
        low = max(low, 2 * to_decimal(delta))
        # 1 - δ < exp(-z²/2) for z = μ/2 - ε/μ >= 0
        z = (4 * to_decimal(delta) if 2 * delta < 1 else -2 * to_decimal(1 - delta).ln()).sqrt()
        high = z + (z * z + 2 * decimal).sqrt()
        found = _find_root(_gap_in_mu(epsilon, delta), low, high, low)
        mu_squared = fraction_below(Fraction(found) ** 2)
    step = mu_squared / 2**62
    while not implies(mu_squared, epsilon, delta):
        mu_squared = fraction_below(mu_squared - step)
    return mu_squared


@lru_cache(maxsize=1024)
def pure_mu_squared(epsilon: Fraction) -> Fraction:
    """Return a μ² such that every ε-differentially private mechanism is μ-GDP.

    Parameters
    ----------
    epsilon : Fraction
        Non-negative.

    Returns
    -------
    Fraction
        (2 Φ⁻¹(e^ε / (1 + e^ε)))², rounded up to 64 binary digits.

    References
    ----------
    Dong, Roth and Su (2019), section 2; docs/proofs/budgets.md.

    Examples
    --------
    >>> float(pure_mu_squared(1))
    1.5179...
    """
    epsilon = non_negative("epsilon", epsilon)
    with localcontext(decimal_context(START_DIGITS)):
        exact = to_decimal(min(epsilon, Fraction(MAX_EXACT_EPSILON)))
        # Q(z) = 1 / (1 + e^ε) or less, from the bound Q(z) <= exp(-z²/2) / 2 down
        goal = 1 / (1 + exact.exp()) * (1 - relative_error())
        slack = 1 + relative_error()
        z = (2 * ((1 + exact.exp()) / 2).ln()).sqrt() * slack if exact else exact
        if epsilon > MAX_EXACT_EPSILON:
            z = (2 * to_decimal(epsilon)).sqrt() * slack  # larger still: ln 2 is left out
        else:
            for _ in range(MAX_ROOT_STEPS):
                mills, error = _mills_ratio(z)
                gap = (goal / (_normal_density(z) * (mills + error) * slack)).ln()
                # ln Q is concave: Newton's steps from above stay on the safe side
                following = max(z - gap * mills * (1 - ENCLOSURE_TOLERANCE), Decimal(0))
                if gap <= ENCLOSURE_TOLERANCE or following == z:
                    break
                z = following
        return fraction_above(4 * Fraction(z * z) * (1 + Fraction(1, 2**80)))


MAX_EXACT_EPSILON = 100_000
"""A larger ε is converted by a bound, whose relative error is below 1e-4."""


def _checked_delta(delta: Fraction) -> Fraction:
    delta = probability("delta", delta)
    with localcontext(decimal_context(START_DIGITS)):
        if to_decimal(min(delta, 1 - delta)) < MIN_DELTA:
            raise ValueError(f"delta is too close to 0 or 1: {float(delta):g}.")
    return delta


def implies(mu_squared: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Tell whether μ-GDP is proved to imply (ε, δ)-differential privacy, for δ in (0, 1)."""
    if mu_squared == 0:
        return True
    _, upper = _enclose_to_tolerance(mu_squared, epsilon, 1 - delta)
    return Fraction(upper) <= delta


def _enclose_to_tolerance(
    mu_squared: Fraction, epsilon: Fraction, room: Fraction = Fraction(1)
) -> Enclosure:
    """Enclose δ up to `TOLERANCE` times itself, and times `room`, what is left of it to 1."""
    digits = START_DIGITS
    while True:
        with localcontext(decimal_context(digits)):
            lower, upper = _enclose_delta(mu_squared, epsilon)
            wanted = ENCLOSURE_TOLERANCE * min(to_decimal(room), Decimal(1))
            if upper - lower <= max(wanted * lower, MIN_TAIL):
                return lower, upper
        digits *= 2


def _enclose_delta(mu_squared: Fraction, epsilon: Fraction) -> Enclosure:
    """Enclose δ = Q(a) - φ(a) M(b), a, b = ε/μ ∓ μ/2, in the arithmetic of the context.

    Q is the upper tail of the normal distribution, φ its density, M = Q / φ, and e^ε φ(b) = φ(a).
    """
    mu = to_decimal(mu_squared).sqrt()
    ratio, half = to_decimal(epsilon) / mu, mu / 2
    a, b = ratio - half, ratio + half
    moved = b * relative_error()  # a and b are off by less
    if moved * (1 + abs(a)) > Decimal("0.5"):
        return Decimal(0), Decimal(1)
    if abs(a) > MAX_TAIL_DEVIATIONS:
        return (Decimal(0), MIN_TAIL) if a > 0 else (1 - relative_error(), Decimal(1))
    density = _normal_density(a)
    inner, inner_error = _mills_ratio(abs(a))
    outer, outer_error = _mills_ratio(b)
    tail = density * inner if a > 0 else 1 - density * inner
    delta = tail - density * outer
    error = density * (inner_error + outer_error + moved * (5 + 3 * abs(a)))
    error += (tail + density * (inner + outer)) * relative_error()
    return max(delta - error, Decimal(0)), delta + error


def _mills_ratio(z: Decimal) -> tuple[Decimal, Decimal]:
    """Return M(z) = Q(z) / φ(z) for z >= 0 and a bound of the error."""
    tiny = relative_error()
    if z < MAX_SERIES_ARGUMENT:
        # Q(z) = 1/2 - φ(z) (z + z^3/3 + z^5/(3 5) + ...)
        square = z * z
        term = total = z
        odd = 1
        while term > tiny * total or 2 * square > odd:
            odd += 2
            term = term * square / odd
            total += term
        half = (square / 2).exp() * (_pi() / 2).sqrt()
        # later terms at least halve each time
        return half - total, term + (half + total) * tiny
    # 1 / (z + 1 / (z + 2 / (z + ...))): its convergents are above and below in turns
    numerator, denominator = (Decimal(1), z), (z, z * z + 1)
    step = 1
    while True:
        one, other = numerator[0] / denominator[0], numerator[1] / denominator[1]
        if abs(one - other) <= other * tiny:
            return other, 2 * other * tiny
        step += 1
        numerator = numerator[1], z * numerator[1] + step * numerator[0]
        denominator = denominator[1], z * denominator[1] + step * denominator[0]


def _pi() -> Decimal:
    return _pi_to(getcontext().prec)


@lru_cache(maxsize=16)
def _pi_to(digits: int) -> Decimal:
    """Return π by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239), in integers."""
    one: int = 10 ** (digits + 10)

    def arctan(inverse: int) -> int:
        power = total = one // inverse
        odd, sign = 1, 1
        while power:
            power //= inverse**2
            odd, sign = odd + 2, -sign
            total += sign * (power // odd)
        return total

    with localcontext(decimal_context(digits + 20)):
        return Decimal(16 * arctan(5) - 4 * arctan(239)).scaleb(-digits - 10)


GapFunction = Callable[[Decimal], tuple[Decimal, Decimal]]
"""How far an increasing function is from its goal, and its slope."""


def _gap_in_mu(epsilon: Fraction, delta: Fraction) -> GapFunction:
    def gap(mu: Decimal) -> tuple[Decimal, Decimal]:
        ratio, half = to_decimal(epsilon) / mu, mu / 2
        slope = _normal_density(ratio - half)  # of δ
        return _logit_gap(
            _enclose_to_tolerance(Fraction(mu) ** 2, epsilon, 1 - delta)[0], slope, delta
        )

    return gap


def _gap_in_epsilon(mu_squared: Fraction, delta: Fraction) -> GapFunction:
    """Return the gap as a function of -ε."""

    def gap(minus_epsilon: Decimal) -> tuple[Decimal, Decimal]:
        mu = to_decimal(mu_squared).sqrt()
        ratio, half = -minus_epsilon / mu, mu / 2
        slope = _normal_density(ratio - half) * _mills_ratio(ratio + half)[0]
        value, _ = _enclose_to_tolerance(mu_squared, Fraction(-minus_epsilon), 1 - delta)
        return _logit_gap(value, slope, delta)

    return gap


def _logit_gap(value: Decimal, slope: Decimal, delta: Fraction) -> tuple[Decimal, Decimal]:
    """Compare log(δ / (1 - δ)), which is nearly straight at both ends."""
    if not 0 < value < 1:  # beyond what is computed
        return value - Decimal("0.5"), Decimal(0)
    goal = (to_decimal(delta) / to_decimal(1 - delta)).ln()
    return (value / (1 - value)).ln() - goal, slope / (value * (1 - value))


def _normal_density(z: Decimal) -> Decimal:
    return (-z * z / 2).exp() / (2 * _pi()).sqrt()


def _find_root(gap: GapFunction, low: Decimal, high: Decimal, x: Decimal) -> Decimal:
    """Find roughly where an increasing gap is 0, by Newton's steps and halving."""
    for _ in range(MAX_ROOT_STEPS):
        value, slope = gap(x)
        low, high = (x, high) if value < 0 else (low, x)
        step = -value / slope if slope else high - low
        following = x + step if low < x + step < high else (low + high) / 2
        if abs(following - x) <= 1000 * ENCLOSURE_TOLERANCE * abs(following):
            return following
        x = following
    return x
