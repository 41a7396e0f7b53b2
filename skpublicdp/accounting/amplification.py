"""Privacy amplification by subsampling, with every rounding against us.

A fixed-size subsample without replacement of a share q of the rows, the rest of them unseen, turns
(ε, δ)-differential privacy into (ln(1 + q (e^ε - 1)), q δ) when one row is replaced (Balle, Barthe
and Gaboardi 2018, Theorem 9). That holds where each drawn row plays its part whichever others are
drawn. Where the parts go by the order of the rows (Algorithm 4 of Beimel, Nissim and Stemmer 2015
labels those that come first) one row moves another one's part as well, and amplification is less:
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


def subsampled_epsilon(epsilon: Fraction, rate: Fraction, *, roles: str = "random") -> float:
    """Return the ε of an ε-differentially private algorithm on a subsample.

    Parameters
    ----------
    epsilon : Fraction
        Budget of the algorithm, non-negative.
    rate : Fraction
        Share of the rows that it is run on, in (0, 1]: a uniform subset of a fixed size.
    roles : {"random", "paper"}, default="random"
        Which rows of the subset the algorithm gets with their label: a uniform choice (or all, or
        none), or those that come first among all rows.

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
    epsilon, rate = non_negative("epsilon", epsilon), _rate(rate)
    _check_roles(roles)
    with localcontext(precise_context(epsilon, rate)):
        q, x = to_decimal(rate), to_decimal(epsilon).exp()
        grown = q * (x - 1)
        if roles == "paper":
            grown = grown * x / (1 + grown)  # what the bound adds to 1: no digits cancel
        return float_above((1 + grown).ln() * (1 + relative_error()))


def base_epsilon(epsilon: Fraction, rate: Fraction, *, roles: str = "random") -> float:
    """Return the largest ε with which an algorithm may be run on a subsample.

    Parameters
    ----------
    epsilon : Fraction
        Budget of the whole, non-negative.
    rate : Fraction
        Share of the rows in the subsample, in (0, 1].
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
    epsilon, rate = non_negative("epsilon", epsilon), _rate(rate)
    _check_roles(roles)
    with localcontext(precise_context(epsilon, rate)):
        q, whole = to_decimal(rate), to_decimal(epsilon).exp()
        grown = (whole - 1) / q
        if roles == "paper":
            # x - 1 for the root x, with d = e^ε - 1: (d - 1 + sqrt((d - 1)^2 + 4 d / q)) / 2
            d = whole - 1
            root = ((d - 1) ** 2 + 4 * d / q).sqrt()
            grown = (d - 1 + root) / 2 if d >= 1 else 2 * d / (q * (root + 1 - d))
        return float_below((1 + grown).ln() * (1 - relative_error()))


def base_delta(
    delta: Fraction,
    rate: Fraction,
    epsilon: Fraction,
    epsilon_base: Fraction,
    *,
    roles: str = "random",
) -> float:
    """Return the largest δ with which an algorithm may be run on a subsample.

    Parameters
    ----------
    delta : Fraction
        δ of the whole, in [0, 1].
    rate : Fraction
        Share of the rows in the subsample, in (0, 1].
    epsilon, epsilon_base : Fraction
        ε of the whole and of the algorithm, such that ``subsampled_epsilon(epsilon_base, rate,
        roles=roles) <= epsilon``.
    roles : {"random", "paper"}, default="random"
        As in `subsampled_epsilon`.

    Returns
    -------
    float
        δ / q, or with the paper's roles δ / (q (1 + max(0, e^epsilon_base - e^epsilon))), rounded
        down; at most 1. The paper has 7 + e^epsilon_base in place of that sum (Claim 5.7).

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
    delta, rate = non_negative("delta", delta), _rate(rate)
    epsilon, base = non_negative("epsilon", epsilon), non_negative("epsilon_base", epsilon_base)
    _check_roles(roles)
    share = delta / rate
    if roles == "random" or base <= epsilon:
        share = min(share, Fraction(1))
        with localcontext(precise_context(delta, rate)):
            exact = to_decimal(share)
            if Fraction(exact) == share:
                return float_below(exact)
            return float_below(exact * (1 - relative_error()))
    with localcontext(precise_context(epsilon, base, delta, rate)):
        moved = (to_decimal(base).exp() - to_decimal(epsilon).exp()) * (1 + relative_error())
        slack = to_decimal(base).exp() * relative_error()  # of the difference
        least = to_decimal(share) / (1 + moved + slack) * (1 - relative_error())
        return min(float_below(least), 1.0)


def subsampled_delta(
    delta_base: Fraction,
    rate: Fraction,
    epsilon: Fraction,
    epsilon_base: Fraction,
    *,
    roles: str = "random",
) -> float:
    """Return the δ of an (ε, δ)-differentially private algorithm on a subsample.

    Parameters
    ----------
    delta_base : Fraction
        δ of the algorithm, in [0, 1].
    rate, epsilon, epsilon_base, roles
        As in `base_delta`, of which this is the inverse.

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
    delta, rate = non_negative("delta_base", delta_base), _rate(rate)
    epsilon, base = non_negative("epsilon", epsilon), non_negative("epsilon_base", epsilon_base)
    _check_roles(roles)
    with localcontext(precise_context(epsilon, base, delta, rate)):
        moved = to_decimal(Fraction(0))
        if roles == "paper" and base > epsilon:
            larger = to_decimal(base).exp()
            moved = larger - to_decimal(epsilon).exp() + larger * relative_error()
        nearest = float(rate * delta)
        if not moved and exact_fraction(nearest) == Fraction(nearest) == rate * delta:
            return min(nearest, 1.0)
        spent = to_decimal(rate * delta) * (1 + moved) * (1 + relative_error())
        return min(float_above(spent), 1.0)


def subsample_size(
    pool: int, epsilon: Fraction, epsilon_base: Fraction, *, roles: str = "random"
) -> int:
    """Return how many rows of a pool an algorithm with a budget of its own may be run on.

    Parameters
    ----------
    pool : int
        Number of rows, at least 1.
    epsilon, epsilon_base : Fraction
        ε of the whole and of the algorithm.
    roles : {"random", "paper"}, default="random"
        As in `subsampled_epsilon`.

    Returns
    -------
    int
        The largest n with ``subsampled_epsilon(epsilon_base, n / pool, roles=roles) <= epsilon``;
        0 where there is none, and all rows where the algorithm needs no amplification.

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
    within, beyond = 0, pool  # the bound grows with the size
    while beyond - within > 1:
        middle = (within + beyond) // 2
        spent = Fraction(subsampled_epsilon(base, Fraction(middle, pool), roles=roles))
        within, beyond = (middle, beyond) if spent <= epsilon else (within, middle)
    return within


def _rate(rate: Fraction) -> Fraction:
    if not 0 < rate <= 1:
        raise ValueError(f"rate must be above 0 and at most 1; got {rate}.")
    return exact_fraction(rate)


def _check_roles(roles: str) -> None:
    if roles not in ("random", "paper"):
        raise ValueError(f"roles must be 'random' or 'paper'; got {roles!r}.")
