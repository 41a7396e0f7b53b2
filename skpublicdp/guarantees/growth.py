"""Growth function, VC dimension and the sample sizes that follow from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

MAX_VC_DIMENSION = 1 << 16
"""Maximum VC dimension for which sample sizes are computed."""

MAX_EXACT_DIMENSION = 64
"""Maximum VC dimension for which `log_growth` sums the binomial coefficients of Sauer's bound."""


class HasGrowth(Protocol):
    """A hypothesis class that provides an upper bound on its own growth function."""

    def growth(self, m: int, n_features: int) -> int:
        """Return an upper bound on the number of labellings of m rows by the class."""


def growth_function(m: int, d: int) -> int:
    """Return the maximum number of labellings of m rows by a class of VC dimension d (Sauer).

    Parameters
    ----------
    m : int
        Number of rows.
    d : int
        VC dimension.

    Returns
    -------
    int
        The sum of the binomial coefficients C(m, k) over k <= d.

    References
    ----------
    Sauer (1972), Theorem 1.

    Examples
    --------
    >>> growth_function(10, 2)  # for example, intervals on a line
    56
    """
    m, d = int(m), int(d)  # integers of numpy would overflow
    if m <= d:
        return 1 << m
    total = term = 1
    for k in range(d):
        term = term * (m - k) // (k + 1)
        total += term
    return total


def vc_dimension(hypotheses: HasGrowth, n_features: int) -> int:
    """Return an upper bound on the VC dimension of a hypothesis class with two labels.

    Parameters
    ----------
    hypotheses : HypothesisClass
        A class with a method ``growth(m, n_features)`` that returns an upper bound on the number of
        labellings of m rows.
    n_features : int
        Number of features.

    Returns
    -------
    int
        The largest v with ``growth(v, n_features) >= 2^v``, since larger sets of rows cannot be
        shattered. The bound equals the VC dimension if `growth` is exact.

    Raises
    ------
    TypeError
        If the class does not have a method `growth`.
    ValueError
        If the bound exceeds 65536.

    References
    ----------
    Vapnik and Chervonenkis (1971).

    Examples
    --------
    >>> class Intervals:
    ...     def growth(self, m, n_features):
    ...         return growth_function(m, 2)
    >>> vc_dimension(Intervals(), n_features=1)
    2
    """
    if not hasattr(hypotheses, "growth"):
        raise TypeError(
            "hypotheses must have a method growth(m, n_features), from which the VC dimension is "
            f"computed; {type(hypotheses).__name__} has no such method."
        )

    def is_not_shattered(v: int) -> bool:
        if v > MAX_VC_DIMENSION:  # otherwise a class without a VC dimension would never end
            raise ValueError(
                f"hypotheses must have a VC dimension of at most {MAX_VC_DIMENSION}; got "
                f"{hypotheses!r}."
            )
        return hypotheses.growth(v, n_features) < 1 << v

    return smallest_integer(is_not_shattered) - 1


def n_public(
    alpha: float, beta: float, d: int, *, realizable: bool = False, constants: str = "paper"
) -> int:
    """Return the number of public rows whose dichotomies form a cover of radius alpha.

    Parameters
    ----------
    alpha : float
        Radius, in (0, 1): every rule of the class disagrees with some rule of the cover on at most
        this fraction of the population.
    beta : float
        Probability, in (0, 1), with which the cover may fail.
    d : int
        VC dimension of the class, or an upper bound.
    realizable : bool, default=False
        Whether only one fixed rule needs to be covered: the rule that makes no error, or the best
        rule if `n_private` has a `best_error`. In this case, every rule that agrees with it on the
        rows differs from it on at most alpha of the population. This number of labelled rows
        therefore also suffices to learn the class without privacy if some rule makes no error.
    constants : {"paper", "tight"}, default="paper"
        Whether to use the constants of the paper or smaller constants.

    Returns
    -------
    int
        With the paper's constants, the smallest m such that ``2 (2em/d)^(2d) exp(-alpha m / 4) <=
        beta``, inequality (1) of the paper, holds for m and all larger numbers. With the tight
        constants, the smallest m such that ``2 growth_function(2m, d)^2 <= beta 2^(alpha m)`` holds
        for m and all larger numbers, see `dichotomies_radius`. If `realizable`, the exponent 2d is
        replaced by d, and the tight inequality is ``4 growth_function(2m, d) <= beta 2^(alpha m)``.

    Raises
    ------
    ValueError
        If a number is out of range, or `constants` is invalid.

    References
    ----------
    Alon, Bassily and Moran (2019), Lemma 3.3; Beimel, Nissim and Stemmer (2015), Theorem B.4, for
    `realizable`; docs/proofs/guarantees.md.

    Examples
    --------
    >>> n_public(alpha=0.1, beta=0.05, d=1)
    820
    >>> n_public(alpha=0.1, beta=0.05, d=1, constants="tight")
    231
    >>> n_public(alpha=0.1, beta=0.05, d=1, realizable=True, constants="tight")
    146
    """
    check_ranges(alpha=alpha, beta=beta, d=d)
    if constants not in ("paper", "tight"):
        raise ValueError(f"constants must be 'paper' or 'tight'; got {constants!r}.")
    n_rules = 1 if realizable else 2  # that vary: one is fixed in the realizable case
    if constants == "tight":
        # the left side is concave in m and exceeds the right side at m = 1, so it crosses once
        log_failure = math.log((4 if realizable else 2) / beta)
        return smallest_integer(
            lambda m: n_rules * log_growth(2 * m, d) + log_failure <= alpha * m * math.log(2)
        )
    # the left side of the inequality decreases for larger m, and exceeds 1 here
    start = math.ceil(4 * n_rules * d / alpha)
    return smallest_integer(lambda m: _radius(m, beta, d, n_rules) <= alpha, start=start)


def cover_radius(m: int, d: int, beta: float, missed: float = 0.0) -> float:
    """Return the radius of the cover by dichotomies of m public rows, inverting `n_public`.

    Parameters
    ----------
    m : int
        Number of public rows.
    d : int
        VC dimension of the class, or an upper bound.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    missed : float, default=0.0
        Radius of the cover on the m rows if the cover does not represent all dichotomies: the
        fraction of the rows on which a rule of the class may disagree with the nearest rule of the
        cover.

    Returns
    -------
    float
        ``r = 4 (ln(2 / beta) + 2d ln(2em / d)) / m``, capped at 1. Below m = d/2, the radius is 1,
        since Sauer's bound and inequality (1) require 2m >= d. With `missed`, the radius is
        ``missed + sqrt(missed r) + r`` at half of beta. The formula follows from relative deviation
        bounds for the disagreements, which have at most ``growth_function(m, d)^2`` dichotomies.

    References
    ----------
    Alon, Bassily and Moran (2019), Lemma 3.3; for `missed`, Anthony and Shawe-Taylor (1993).

    Examples
    --------
    >>> round(cover_radius(m=1000, d=1, beta=0.05), 4)
    0.0836
    """
    check_ranges(beta=beta, d=d, m=m)
    if 2 * m < d:
        return 1.0
    radius = _radius(m, beta / 2 if missed else beta, d)
    return min(1.0, missed + math.sqrt(missed * radius) + radius)


def _radius(m: int, beta: float, d: int, n_rules: int = 2) -> float:
    """Return the alpha for which inequality (1) of Alon, Bassily and Moran (2019) is an equality.

    The inequality applies to pairs of rules. If `n_rules` is 1, one of the two rules is fixed.
    """
    return 4 * (math.log(2 / beta) + n_rules * d * (1 + math.log(2 * m / d))) / m


def population_share_bound(share: float, m: int, beta: float) -> float:
    """Return an upper bound on a population fraction, given its value among m sampled rows.

    The bound holds with probability 1 - beta. By Chernoff's bound, the fraction among the rows is
    below p - t with probability at most exp(-m t^2 / 2p), where p is the population fraction.

    Examples
    --------
    >>> round(population_share_bound(0.02, m=1000, beta=0.05), 4)
    0.0369
    """
    if not m:
        return 1.0  # without rows nothing is known about the population
    rate = -math.log(beta) / m
    # the largest p with m (p - share)^2 / 2p <= -ln(beta), rounded up to a simple expression
    return min(1.0, share + math.sqrt(2 * share * rate) + 2 * rate)


def n_uniform(alpha: float, beta: float, d: int) -> int:
    """Return the number of rows for which all empirical errors are close to population errors.

    The result is the sample size for uniform convergence to within alpha over a class. It also
    suffices for learning without privacy, and serves as a baseline for the other sample sizes.

    Parameters
    ----------
    alpha : float
        Maximum difference, in (0, 1), between the empirical error and the population error.
    beta : float
        Probability, in (0, 1), with which the difference may be larger for some rule.
    d : int
        VC dimension of the class, or an upper bound.

    Returns
    -------
    int
        The smallest m such that ``4 growth_function(2m, d) exp(-alpha^2 m / 8) <= beta`` holds for
        m and all larger numbers.

    References
    ----------
    Vapnik and Chervonenkis (1971), as in Anthony and Bartlett (1999), Theorem 4.3.

    Examples
    --------
    >>> n_uniform(alpha=0.1, beta=0.05, d=1)
    11544
    """
    check_ranges(alpha=alpha, beta=beta, d=d)
    # the left side is concave in m and exceeds the right side at m = 1, so it crosses once
    return smallest_integer(lambda m: math.log(4 / beta) + log_growth(2 * m, d) <= alpha**2 * m / 8)


def smallest_integer(holds: Callable[[int], bool], start: int = 1) -> int:
    """Return the smallest integer, starting from `start`, that satisfies a monotone condition.

    If `holds` is true for an integer, it must be true for all larger integers. The search doubles
    the integer until the condition is satisfied, and then bisects. The search does not terminate if
    the condition is never satisfied.
    """
    low, high = int(start) - 1, int(start)
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def log_growth(m: int, d: int) -> float:
    """Return ln(growth_function(m, d)) or, for large d, an upper bound in constant time."""
    if m <= d:
        return m * math.log(2)
    if d <= MAX_EXACT_DIMENSION:
        return math.log(growth_function(m, d))
    bound = d * (1 + math.log(m) - math.log(d))  # (em/d)^d, which is below 2^m from m = 4d on
    if m > 4 * d:
        return bound
    return min(bound, m * math.log(2))


def check_ranges(**arguments: float) -> None:
    """Raise ValueError unless each keyword argument is in the range that its name implies.

    alpha, beta and delta must lie in (0, 1), and all other numbers must be positive and finite.
    """
    for name, value in arguments.items():
        is_share = name in ("alpha", "beta", "delta")
        if not 0 < value < (1 if is_share else math.inf):
            requirement = "lie strictly between 0 and 1" if is_share else "be positive and finite"
            raise ValueError(f"{name} must {requirement}; got {value!r}.")
