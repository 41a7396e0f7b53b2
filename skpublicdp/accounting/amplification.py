"""Privacy amplification by subsampling, rounded towards larger privacy loss.

Suppose an (ε, δ)-differentially private algorithm runs on a secret uniform subset of fixed size
with a fraction q of the rows. The subsampled algorithm is then (ln(1 + q (e^ε - 1)), q
δ)-differentially private when one row is replaced (Balle, Barthe and Gaboardi 2018, Theorem 9). The
theorem assumes that the role of a drawn row does not depend on which other rows are drawn.
Algorithm 4 of Beimel, Nissim and Stemmer (2015) labels the first rows of the subset, so replacing
one row can also change the role of another row. In that case, the amplification is weaker:
``roles="paper"``, proved in docs/proofs/subsampling.md.
"""

from __future__ import annotations

from decimal import localcontext
from fractions import Fraction

from skpublicdp.accounting.rounding import (
    exact_fraction,
    float_above,
    float_below,
    non_negative,
    precise_context,
    relative_error,
    to_decimal,
)

SUBSAMPLING_PROOF = "Balle, Barthe and Gaboardi (2018), Theorem 9; docs/proofs/subsampling.md"
"""Reference that receipts cite for amplification by subsampling."""


def subsampled_epsilon(epsilon: Fraction, rate: Fraction, *, roles: str = "random") -> float:
    """Return the amplified ε of an ε-differentially private algorithm that runs on a subsample.

    Parameters
    ----------
    epsilon : Fraction
        ε of the algorithm on its own input, non-negative.
    rate : Fraction
        Fraction of the rows that are in the subsample, in (0, 1]. The subsample is a uniform subset
        of fixed size.
    roles : {"random", "paper"}, default="random"
        Which rows of the subset are passed to the algorithm together with their labels:
        ``"random"`` for a uniformly random choice (or all rows, or none), ``"paper"`` for the first
        rows in data set order.

    Returns
    -------
    float
        ln(1 + q (e^ε - 1)), or ln((1 - q + q e^(2ε)) / (1 - q + q e^ε)) with the paper's roles,
        rounded up.

    References
    ----------
    Balle, Barthe and Gaboardi (2018), Theorem 9. Beimel, Nissim and Stemmer (2015), Algorithm 4.

    Examples
    --------
    >>> subsampled_epsilon(1, Fraction(1, 10))
    0.1585...
    >>> subsampled_epsilon(1, Fraction(1, 10), roles="paper")
    0.3354...
    """
    epsilon, rate = non_negative("epsilon", epsilon), _check_rate(rate)
    _check_roles(roles)
    with localcontext(precise_context(epsilon, rate)):
        q, exp_epsilon = to_decimal(rate), to_decimal(epsilon).exp()
        # e^result - 1 is computed directly, since a difference of exponentials would lose digits
        growth = q * (exp_epsilon - 1)
        if roles == "paper":
            growth = growth * exp_epsilon / (1 + growth)
        return float_above((1 + growth).ln() * (1 + relative_error()))


def base_epsilon(epsilon: Fraction, rate: Fraction, *, roles: str = "random") -> float:
    """Return the largest ε of the base algorithm whose amplified ε is at most `epsilon`.

    Parameters
    ----------
    epsilon : Fraction
        ε of the subsampled algorithm, non-negative.
    rate : Fraction
        Fraction of the rows that are in the subsample, in (0, 1].
    roles : {"random", "paper"}, default="random"
        As in `subsampled_epsilon`.

    Returns
    -------
    float
        The inverse of `subsampled_epsilon`, rounded down: ln(1 + (e^ε - 1) / q), or with the
        paper's roles ln x for the root x > 1 of q x^2 - q e^ε x = (1 - q) (e^ε - 1).

    References
    ----------
    Balle, Barthe and Gaboardi (2018), Theorem 9. Beimel, Nissim and Stemmer (2015), Algorithm 4.

    Examples
    --------
    >>> base_epsilon(0.1, Fraction(1, 10))
    0.7186...
    >>> base_epsilon(0.1, Fraction(1, 10), roles="paper")
    0.5136...
    """
    epsilon, rate = non_negative("epsilon", epsilon), _check_rate(rate)
    _check_roles(roles)
    with localcontext(precise_context(epsilon, rate)):
        q, exp_epsilon = to_decimal(rate), to_decimal(epsilon).exp()
        growth = (exp_epsilon - 1) / q  # e^result - 1
        if roles == "paper":
            # x - 1 for the root x, with d = e^ε - 1: (d - 1 + sqrt((d - 1)^2 + 4 d / q)) / 2
            d = exp_epsilon - 1
            sqrt_discriminant = ((d - 1) ** 2 + 4 * d / q).sqrt()
            if d >= 1:
                growth = (d - 1 + sqrt_discriminant) / 2
            else:  # the conjugate, whose terms do not cancel
                growth = 2 * d / (q * (sqrt_discriminant + 1 - d))
        return float_below((1 + growth).ln() * (1 - relative_error()))


def base_delta(
    delta: Fraction,
    rate: Fraction,
    epsilon: Fraction,
    epsilon_base: Fraction,
    *,
    roles: str = "random",
) -> float:
    """Return the largest δ of the base algorithm whose amplified δ is at most `delta`.

    Parameters
    ----------
    delta : Fraction
        δ of the subsampled algorithm, in [0, 1].
    rate : Fraction
        Fraction of the rows that are in the subsample, in (0, 1].
    epsilon, epsilon_base : Fraction
        ε of the subsampled algorithm and of the base algorithm, with
        ``subsampled_epsilon(epsilon_base, rate, roles=roles) <= epsilon``.
    roles : {"random", "paper"}, default="random"
        As in `subsampled_epsilon`.

    Returns
    -------
    float
        δ / q, or with the paper's roles δ / (q (1 + max(0, e^epsilon_base - e^epsilon))), rounded
        down; at most 1. The paper proves a larger factor, 7 + e^epsilon_base (Claim 5.7).

    References
    ----------
    Balle, Barthe and Gaboardi (2018), Theorem 9. Beimel, Nissim and Stemmer (2015), Claim 5.7.

    Examples
    --------
    >>> base_delta(1e-6, Fraction(1, 8), 0.5, 1.0)
    8e-06
    >>> base_delta(1e-6, Fraction(1, 8), 0.5, 1.0, roles="paper")
    3.8655...e-06
    """
    delta, rate = non_negative("delta", delta), _check_rate(rate)
    epsilon, base = non_negative("epsilon", epsilon), non_negative("epsilon_base", epsilon_base)
    _check_roles(roles)
    ratio = delta / rate
    if roles == "random" or base <= epsilon:
        ratio = min(ratio, Fraction(1))
        with localcontext(precise_context(delta, rate)):
            decimal_ratio = to_decimal(ratio)
            if Fraction(decimal_ratio) == ratio:  # exact: no error to subtract
                return float_below(decimal_ratio)
            return float_below(decimal_ratio * (1 - relative_error()))
    with localcontext(precise_context(epsilon, base, delta, rate)):
        exp_base = to_decimal(base).exp()
        exp_epsilon = to_decimal(epsilon).exp()
        difference = (exp_base - exp_epsilon) * (1 + relative_error())
        slack = exp_base * relative_error()  # rounding error of the difference
        lower_bound = to_decimal(ratio) / (1 + difference + slack)
        lower_bound *= 1 - relative_error()
        return min(float_below(lower_bound), 1.0)


def subsampled_delta(
    delta_base: Fraction,
    rate: Fraction,
    epsilon: Fraction,
    epsilon_base: Fraction,
    *,
    roles: str = "random",
) -> float:
    """Return the δ of an (ε, δ)-differentially private algorithm after subsampling.

    Parameters
    ----------
    delta_base : Fraction
        δ of the algorithm, in [0, 1].
    rate, epsilon, epsilon_base, roles
        As in `base_delta`, which is the inverse of this function.

    Returns
    -------
    float
        q δ, or with the paper's roles q (1 + max(0, e^epsilon_base - e^epsilon)) δ, rounded up.

    References
    ----------
    Balle, Barthe and Gaboardi (2018), Theorem 9. Beimel, Nissim and Stemmer (2015), Claim 5.7.

    Examples
    --------
    >>> subsampled_delta(8e-6, Fraction(1, 8), 0.5, 1.0)
    1.000...e-06
    """
    delta, rate = non_negative("delta_base", delta_base), _check_rate(rate)
    epsilon, base = non_negative("epsilon", epsilon), non_negative("epsilon_base", epsilon_base)
    _check_roles(roles)
    with localcontext(precise_context(epsilon, base, delta, rate)):
        difference = to_decimal(Fraction(0))  # of exponentials, at least e^base - e^epsilon
        if roles == "paper" and base > epsilon:
            exp_base = to_decimal(base).exp()
            exp_epsilon = to_decimal(epsilon).exp()
            difference = exp_base - exp_epsilon + exp_base * relative_error()
        sampled_delta = rate * delta
        product = float(sampled_delta)
        # no rounding is needed if the product is an exact float with an exact decimal
        if not difference and exact_fraction(product) == Fraction(product) == sampled_delta:
            return min(product, 1.0)
        upper_bound = to_decimal(sampled_delta) * (1 + difference)
        upper_bound *= 1 + relative_error()
        return min(float_above(upper_bound), 1.0)


def subsample_size(
    pool: int, epsilon: Fraction, epsilon_base: Fraction, *, roles: str = "random"
) -> int:
    """Return the largest subsample size for which the amplified ε is at most `epsilon`.

    Parameters
    ----------
    pool : int
        Number of rows to sample from, at least 1.
    epsilon, epsilon_base : Fraction
        ε of the subsampled algorithm and of the base algorithm.
    roles : {"random", "paper"}, default="random"
        As in `subsampled_epsilon`.

    Returns
    -------
    int
        The largest n with ``subsampled_epsilon(epsilon_base, n / pool, roles=roles) <= epsilon``.
        The result is 0 if even a subsample of one row exceeds `epsilon`, and `pool` if no
        amplification is needed.

    References
    ----------
    Balle, Barthe and Gaboardi (2018), Theorem 9. Beimel, Nissim and Stemmer (2015), Algorithm 4.

    Examples
    --------
    >>> subsample_size(16_338, 0.1, 1.0)
    1000
    >>> subsample_size(16_338, 0.1, 1.0, roles="paper")
    382
    """
    epsilon, base = non_negative("epsilon", epsilon), non_negative("epsilon_base", epsilon_base)
    _check_roles(roles)
    if pool < 1:
        raise ValueError(f"pool must be at least 1; got {pool}.")
    if base <= epsilon:
        return pool
    low, high = 0, pool  # bisection: the amplified ε increases with the size
    while high - low > 1:
        middle = (low + high) // 2
        amplified = Fraction(subsampled_epsilon(base, Fraction(middle, pool), roles=roles))
        low, high = (middle, high) if amplified <= epsilon else (low, middle)
    return low


def _check_rate(rate: Fraction) -> Fraction:
    """Return a sampling rate as an exact fraction, or raise unless it is in (0, 1]."""
    if not 0 < rate <= 1:
        raise ValueError(f"rate must be above 0 and at most 1; got {rate}.")
    return exact_fraction(rate)


def _check_roles(roles: str) -> None:
    """Raise ValueError if `roles` is not one of the known values."""
    if roles not in ("random", "paper"):
        raise ValueError(f"roles must be 'random' or 'paper'; got {roles!r}.")
