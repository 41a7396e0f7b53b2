"""Conversion of Gaussian differential privacy (GDP) to (ε, δ), rounded towards larger loss.

Adding Gaussian noise of variance σ² to answers with squared ℓ2 sensitivity Δ² is μ-GDP for μ² = Δ²
/ σ² (Dong, Roth and Su 2019, Theorem 2.7). The squares add up under adaptive composition: two
mechanisms with μ1² and μ2² on the same rows have the total μ1² + μ2² (Corollary 3.3 of the same
paper). The first output may even decide the μ² of the second mechanism, if the sum stays below a
fixed bound (Smith and Thakurta 2022). Therefore, add up the μ² values as fractions, and convert
only the total to (ε, δ). This conversion is exact, whereas the conversion from zCDP is only an
upper bound. docs/proofs/gaussian.md has the proofs, and lists the mechanisms whose μ² must not be
added up in this way.
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
"""Number of decimal digits in the first computation of δ, which is doubled until δ is precise
enough."""

ENCLOSURE_TOLERANCE = Decimal(1).scaleb(-28)
"""Relative width of the enclosure of δ, and relative error of roots, both far below float
precision."""

MAX_TAIL_DEVIATIONS = 1000
"""Number of standard deviations beyond which normal tails (below e^-500000) are not computed."""

MIN_TAIL = Decimal(1).scaleb(-200_000)
"""Upper bound on tails that are not computed, and absolute width of the narrowest enclosures."""

MIN_DELTA = Decimal(1).scaleb(-100_000)
"""Smallest values of δ and 1 - δ that can be converted."""

MAX_ROOT_STEPS = 200
"""Maximum number of Newton steps."""

ROOT_TOLERANCE = 1000 * ENCLOSURE_TOLERANCE
"""Relative step size at which a root is accepted, which exceeds the numerical noise of the
function."""

MAX_SERIES_ARGUMENT = 5
"""Argument below which Mills' ratio uses a series instead of a continued fraction."""

Enclosure = tuple[Decimal, Decimal]
"""A lower and an upper bound on a number."""


def gaussian_delta(mu_squared: Fraction, epsilon: Fraction) -> float:
    """Return the smallest δ for which μ-GDP implies (ε, δ)-differential privacy.

    Parameters
    ----------
    mu_squared : Fraction
        The sum of Δ² / σ² over all uses of Gaussian noise, which must be non-negative.
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
    """Return the smallest ε for which μ-GDP implies (ε, δ)-differential privacy.

    Parameters
    ----------
    mu_squared : Fraction
        The sum of Δ² / σ² over all uses of Gaussian noise, which must be non-negative.
    delta : Fraction
        Strictly between 0 and 1.

    Returns
    -------
    float
        The inverse of `gaussian_delta` with respect to ε, rounded up and at least 0.

    References
    ----------
    Balle and Wang (2018), Theorem 8.

    Examples
    --------
    >>> gaussian_epsilon(0.02, 1e-6)
    0.5750...
    """
    mu_squared, delta = non_negative("mu_squared", mu_squared), _check_delta(delta)
    if implies(mu_squared, Fraction(0), delta):
        return 0.0
    with localcontext(decimal_context(START_DIGITS)):
        mu = to_decimal(mu_squared).sqrt()
        # δ < exp(-z²/2) for z = ε/μ - μ/2 >= 0
        max_epsilon = mu * (mu / 2 + (-2 * to_decimal(delta).ln()).sqrt())
        minus_epsilon = _find_root(
            _gap_in_minus_epsilon(mu_squared, delta),
            low=-max_epsilon,
            high=Decimal(0),
            start=-max_epsilon,
        )
        epsilon = float_above(-minus_epsilon)
    # the root is approximate: increase ε until the implication is proved
    while epsilon < math.inf and not implies(mu_squared, Fraction(epsilon), delta):
        epsilon = math.nextafter(epsilon, math.inf)
    return epsilon


@lru_cache(maxsize=256)
def gaussian_mu_squared(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest μ² for which μ-GDP implies (ε, δ)-differential privacy.

    Parameters
    ----------
    epsilon : Fraction
        Non-negative.
    delta : Fraction
        Strictly between 0 and 1.

    Returns
    -------
    Fraction
        The inverse of `gaussian_delta` with respect to μ², rounded down to 64 binary digits. This
        μ² therefore implies (ε, δ) exactly.

    See Also
    --------
    zcdp_rho : The largest ρ of zCDP; twice this ρ is smaller than the result here.

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
    epsilon, delta = non_negative("epsilon", epsilon), _check_delta(delta)
    with localcontext(decimal_context(START_DIGITS)):
        delta_decimal = to_decimal(delta)
        twice_epsilon = 2 * to_decimal(epsilon)
        # δ < exp(-z²/2) for z = ε/μ - μ/2 >= 0, and δ < μ / sqrt(2π)
        z = (-2 * delta_decimal.ln()).sqrt()
        low = 2 * delta_decimal
        if epsilon:
            root = (z * z + twice_epsilon).sqrt()
            low = max(low, twice_epsilon / (z + root))
        # 1 - δ < exp(-z²/2) for z = μ/2 - ε/μ >= 0
        if 2 * delta < 1:
            z = (4 * delta_decimal).sqrt()
        else:
            z = (-2 * to_decimal(1 - delta).ln()).sqrt()
        high = z + (z * z + twice_epsilon).sqrt()
        mu = _find_root(_gap_in_mu(epsilon, delta), low, high, start=low)
        mu_squared = fraction_below(Fraction(mu) ** 2)
    # the root is approximate: decrease μ² by its last digits until the implication is proved
    decrement = mu_squared / 2**62
    while not implies(mu_squared, epsilon, delta):
        mu_squared = fraction_below(mu_squared - decrement)
    return mu_squared


@lru_cache(maxsize=1024)
def pure_mu_squared(epsilon: Fraction) -> Fraction:
    """Return the μ² for which every ε-differentially private mechanism is μ-GDP.

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
        z = _two_point_quantile(epsilon)
        rounding_margin = 1 + Fraction(1, 2**80)  # covers the rounding of z²
        return fraction_above(4 * Fraction(z * z) * rounding_margin)


def _two_point_quantile(epsilon: Fraction) -> Decimal:
    """Return an upper bound z on Φ⁻¹(e^ε / (1 + e^ε)), where Q(z) = 1 / (1 + e^ε).

    Here, Q denotes the upper tail of the standard normal distribution. Newton's method starts at
    the larger z with exp(-z²/2) / 2 = 1 / (1 + e^ε). Since ln Q is concave, every iterate stays
    above the solution.
    """
    slack = 1 + relative_error()
    if epsilon > MAX_EXACT_EPSILON:
        return (2 * to_decimal(epsilon)).sqrt() * slack  # omits -ln 2, so it is larger
    exact_epsilon = to_decimal(epsilon)
    target = 1 / (1 + exact_epsilon.exp()) * (1 - relative_error())
    z = exact_epsilon
    if exact_epsilon:
        z = (2 * ((1 + exact_epsilon.exp()) / 2).ln()).sqrt() * slack
    for _ in range(MAX_ROOT_STEPS):
        mills, error = _mills_ratio(z)
        gap = (target / (_normal_density(z) * (mills + error) * slack)).ln()
        next_z = max(z - gap * mills * (1 - ENCLOSURE_TOLERANCE), Decimal(0))
        if gap <= ENCLOSURE_TOLERANCE or next_z == z:
            break
        z = next_z
    return z


MAX_EXACT_EPSILON = 100_000
"""Largest ε that is converted exactly; larger values use a bound with a relative error below
1e-4."""


def _check_delta(delta: Fraction) -> Fraction:
    """Return δ as an exact fraction, or raise unless δ and 1 - δ are at least `MIN_DELTA`."""
    delta = probability("delta", delta)
    with localcontext(decimal_context(START_DIGITS)):
        if to_decimal(min(delta, 1 - delta)) < MIN_DELTA:
            raise ValueError(f"delta is too close to 0 or 1: {float(delta):g}.")
    return delta


def implies(mu_squared: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Indicate whether μ-GDP provably implies (ε, δ)-differential privacy, where δ is in (0, 1).

    The result is also False if δ lies between the computed bounds on δ(ε), in which case the
    question is undecided.
    """
    if mu_squared == 0:
        return True
    _, upper = _enclose_to_tolerance(mu_squared, epsilon, 1 - delta)
    return Fraction(upper) <= delta


def _enclose_to_tolerance(
    mu_squared: Fraction, epsilon: Fraction, complement: Fraction = Fraction(1)
) -> Enclosure:
    """Return tight bounds on the δ of μ-GDP at a given ε, computed with as many digits as needed.

    The relative distance between the bounds is at most `ENCLOSURE_TOLERANCE` times `complement`,
    which equals 1 - δ if δ may be close to 1.
    """
    digits = START_DIGITS
    while True:
        with localcontext(decimal_context(digits)):
            lower, upper = _enclose_delta(mu_squared, epsilon)
            tolerance = ENCLOSURE_TOLERANCE * min(to_decimal(complement), Decimal(1))
            if upper - lower <= max(tolerance * lower, MIN_TAIL):
                return lower, upper
        digits *= 2


def _enclose_delta(mu_squared: Fraction, epsilon: Fraction) -> Enclosure:
    """Return bounds on δ = Q(a) - φ(a) M(b), a, b = ε/μ ∓ μ/2, in the current decimal context.

    Q is the upper tail of the normal distribution, φ its density, and M = Q / φ is Mills' ratio.
    The second term is e^ε Q(b), since e^ε φ(b) = φ(a).
    """
    mu = to_decimal(mu_squared).sqrt()
    half_mu = mu / 2
    ratio = to_decimal(epsilon) / mu
    a = ratio - half_mu
    b = ratio + half_mu
    distance = abs(a)
    argument_error = b * relative_error()  # bounds the rounding errors of a and b
    if argument_error * (1 + distance) > Decimal("0.5"):  # too few digits for any bound
        return Decimal(0), Decimal(1)
    if distance > MAX_TAIL_DEVIATIONS:
        return (Decimal(0), MIN_TAIL) if a > 0 else (1 - relative_error(), Decimal(1))
    density = _normal_density(a)
    mills_a, mills_a_error = _mills_ratio(distance)
    mills_b, mills_b_error = _mills_ratio(b)
    tail = density * mills_a if a > 0 else 1 - density * mills_a
    delta = tail - density * mills_b
    # docs/proofs/gaussian.md derives this bound on the total error
    propagated_error = argument_error * (5 + 3 * distance)
    error = density * (mills_a_error + mills_b_error + propagated_error)
    magnitude = tail + density * (mills_a + mills_b)
    error += magnitude * relative_error()
    return max(delta - error, Decimal(0)), delta + error


def _mills_ratio(z: Decimal) -> tuple[Decimal, Decimal]:
    """Return Mills' ratio Q(z) / φ(z) for z >= 0, together with a bound on the error.

    The computation uses the Taylor series of Q for small z, and Laplace's continued fraction for
    large z.
    """
    tolerance = relative_error()
    if z < MAX_SERIES_ARGUMENT:
        # Q(z) = 1/2 - φ(z) (z + z^3/3 + z^5/(3 5) + ...)
        square = z * z
        term = total = z
        exponent = 1
        # until terms are negligible, and each later term is at most half the previous term
        while term > tolerance * total or 2 * square > exponent:
            exponent += 2
            term = term * square / exponent
            total += term
        ratio_at_half = (square / 2).exp() * (_pi() / 2).sqrt()  # 1 / (2 φ(z))
        # the omitted terms add up to at most the last term
        return ratio_at_half - total, term + (ratio_at_half + total) * tolerance
    # the convergents of 1 / (z + 1 / (z + 2 / (z + ...))) are alternately above and below
    numerators, denominators = (Decimal(1), z), (z, z * z + 1)
    step = 1
    while True:
        previous, current = numerators[0] / denominators[0], numerators[1] / denominators[1]
        if abs(previous - current) <= current * tolerance:
            return current, 2 * current * tolerance
        step += 1
        numerators = numerators[1], z * numerators[1] + step * numerators[0]
        denominators = denominators[1], z * denominators[1] + step * denominators[0]


def _pi() -> Decimal:
    """Return π to the precision of the current decimal context."""
    return _compute_pi(getcontext().prec)


@lru_cache(maxsize=16)
def _compute_pi(digits: int) -> Decimal:
    """Return π in integer arithmetic by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239)."""
    unit: int = 10 ** (digits + 10)

    def arctan(inverse: int) -> int:
        """Return arctan(1 / inverse), computed by a Taylor series, in units of 1 / `unit`."""
        power = total = unit // inverse
        odd, sign = 1, 1
        while power:
            power //= inverse**2
            odd, sign = odd + 2, -sign
            total += sign * (power // odd)
        return total

    with localcontext(decimal_context(digits + 20)):
        return Decimal(16 * arctan(5) - 4 * arctan(239)).scaleb(-digits - 10)


GapFunction = Callable[[Decimal], tuple[Decimal, Decimal]]
"""Type of a function that returns f(x) - target and f'(x), for an increasing f."""


def _gap_in_mu(epsilon: Fraction, delta: Fraction) -> GapFunction:
    """Return a function of μ whose root satisfies δ(ε) = `delta`."""

    def gap(mu: Decimal) -> tuple[Decimal, Decimal]:
        ratio, half_mu = to_decimal(epsilon) / mu, mu / 2
        slope = _normal_density(ratio - half_mu)  # dδ/dμ
        lower_delta, _ = _enclose_to_tolerance(Fraction(mu) ** 2, epsilon, 1 - delta)
        return _logit_gap(lower_delta, slope, delta)

    return gap


def _gap_in_minus_epsilon(mu_squared: Fraction, delta: Fraction) -> GapFunction:
    """Return an increasing function of -ε whose root satisfies δ(ε) = `delta`."""

    def gap(minus_epsilon: Decimal) -> tuple[Decimal, Decimal]:
        mu = to_decimal(mu_squared).sqrt()
        ratio, half_mu = -minus_epsilon / mu, mu / 2
        slope = _normal_density(ratio - half_mu) * _mills_ratio(ratio + half_mu)[0]
        lower_delta, _ = _enclose_to_tolerance(mu_squared, Fraction(-minus_epsilon), 1 - delta)
        return _logit_gap(lower_delta, slope, delta)

    return gap


def _logit_gap(value: Decimal, slope: Decimal, delta: Fraction) -> tuple[Decimal, Decimal]:
    """Return the difference logit(value) - logit(δ) and the slope of this difference.

    On the logit scale, both tails are nearly linear.

    The argument `slope` is the derivative of `value`.
    """
    if not 0 < value < 1:  # beyond `MAX_TAIL_DEVIATIONS`; slope 0 requests a bisection step
        return value - Decimal("0.5"), Decimal(0)
    target = (to_decimal(delta) / to_decimal(1 - delta)).ln()
    return (value / (1 - value)).ln() - target, slope / (value * (1 - value))


def _normal_density(z: Decimal) -> Decimal:
    """Return φ(z), the density of the standard normal distribution."""
    return (-z * z / 2).exp() / (2 * _pi()).sqrt()


def _find_root(gap: GapFunction, low: Decimal, high: Decimal, start: Decimal) -> Decimal:
    """Return an approximate root of an increasing function, by Newton's method with bisection.

    The root must lie between `low` and `high`. If a Newton step leaves the interval, the midpoint
    of the interval is used instead.
    """
    x = start
    for _ in range(MAX_ROOT_STEPS):
        value, slope = gap(x)
        low, high = (x, high) if value < 0 else (low, x)
        step = -value / slope if slope else high - low
        next_x = x + step if low < x + step < high else (low + high) / 2
        if abs(next_x - x) <= ROOT_TOLERANCE * abs(next_x):
            return next_x
        x = next_x
    return x
