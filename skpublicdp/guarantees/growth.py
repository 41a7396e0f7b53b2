"""In how many ways a class can label rows, and what follows from that number alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol


class HasGrowth(Protocol):
    """A hypothesis class that bounds its own growth function."""

    def growth(self, m: int, n_features: int) -> int:
        """Bound the number of ways in which the class can label m rows."""


def growth_function(m: int, d: int) -> int:
    """Bound the ways in which a class of VC dimension d can label m rows (Sauer's lemma).

    Parameters
    ----------
    m : int
        Number of rows.
    d : int
        VC dimension.

    Returns
    -------
    int
        The sum of the binomials C(m, k) over k <= d.

    References
    ----------
    Sauer (1972), Theorem 1.

    Examples
    --------
    >>> growth_function(10, 2)  # intervals of a line, say
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
    """Bound the VC dimension of a hypothesis class with two labels.

    Parameters
    ----------
    hypotheses : HypothesisClass
        A class with a method ``growth(m, n_features)`` that bounds in how many ways it can label m
        rows.
    n_features : int
        Number of features.

    Returns
    -------
    int
        The largest v with ``growth(v, n_features) >= 2^v``: no more rows can be shattered. It is
        the VC dimension itself where `growth` is exact.

    Raises
    ------
    TypeError
        If the class has no such method.
    ValueError
        If it can label 65536 rows in every way.

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
            f"The VC dimension of {type(hypotheses).__name__} is unknown; "
            "give the class a method growth(m, n_features)."
        )

    def too_few(v: int) -> bool:
        if v > 1 << 16:
            raise ValueError(f"{hypotheses!r} has no finite VC dimension, or a very large one.")
        return hypotheses.growth(v, n_features) < 1 << v

    return smallest_integer(too_few) - 1


def n_public(alpha: float, beta: float, d: int, *, constants: str = "paper") -> int:
    """Count the public rows whose dichotomies cover the class to within alpha.

    Parameters
    ----------
    alpha : float
        Radius, in (0, 1): every member of the class disagrees with some member of the cover on at
        most this share of the population.
    beta : float
        Probability, in (0, 1), with which the cover may fail.
    d : int
        VC dimension of the class, or a bound on it.
    constants : {"paper", "tight"}, default="paper"
        Those of the paper, or smaller ones that hold as well.

    Returns
    -------
    int
        The least m from which ``2 (2em/d)^(2d) exp(-alpha m / 4) <= beta`` holds: inequality (1) of
        the paper, whose constants are its own. The tight one is the least m from which
        ``2 growth_function(2m, d)^2 <= beta 2^(alpha m)``: see `dichotomies_radius`.

    References
    ----------
    Alon, Bassily and Moran (2019), Lemma 3.3; docs/proofs/guarantees.md.

    Examples
    --------
    >>> n_public(alpha=0.1, beta=0.05, d=1)
    820
    >>> n_public(alpha=0.1, beta=0.05, d=1, constants="tight")
    231
    """
    check_ranges(alpha=alpha, beta=beta, d=d)
    if constants not in ("paper", "tight"):
        raise ValueError(f"constants must be 'paper' or 'tight'; got {constants!r}.")
    if constants == "tight":
        # concave in m, and above alpha m at 1: it crosses once
        ways = math.log(2 / beta)
        return smallest_integer(
            lambda m: 2 * log_growth(2 * m, d) + ways <= alpha * m * math.log(2)
        )
    # the left side rises up to m = 8d / alpha, where it exceeds 1, and falls from there on
    return smallest_integer(lambda m: _radius(m, beta, d) <= alpha, start=math.ceil(8 * d / alpha))


def cover_radius(m: int, d: int, beta: float, missed: float = 0.0) -> float:
    """Bound how well the dichotomies of m public rows cover the class; the inverse of `n_public`.

    Parameters
    ----------
    m : int
        Number of public rows.
    d : int
        VC dimension of the class, or a bound on it.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    missed : float, default=0.0
        A coarser cover than all dichotomies: the share of the m rows on which a member of the class
        may disagree with its nearest member of the cover.

    Returns
    -------
    float
        ``r = 4 (ln(2 / beta) + 2d ln(2em / d)) / m``, at most 1. Below m = d/2 it is 1: Sauer's
        bound, and inequality (1) with it, needs 2m >= d. With `missed` it is ``missed +
        sqrt(missed r) + r`` for half of beta, by relative deviations of the disagreements, which
        divide rows in at most ``growth_function(m, d)^2`` ways.

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


def _radius(m: int, beta: float, d: int) -> float:
    return 4 * (math.log(2 / beta) + 2 * d * (1 + math.log(2 * m / d))) / m


def population_share_bound(share: float, m: int, beta: float) -> float:
    """Bound a share of the population by the share of m rows, with probability 1 - beta.

    Chernoff's bound: shares below p by t are no likelier than exp(-m t^2 / 2p).

    Examples
    --------
    >>> round(population_share_bound(0.02, m=1000, beta=0.05), 4)
    0.0369
    """
    if not m:
        return 1.0
    rate = -math.log(beta) / m
    return min(1.0, share + math.sqrt(2 * share * rate) + 2 * rate)


def n_uniform(alpha: float, beta: float, d: int) -> int:
    """Count the rows on which the errors of all members are within alpha of the true ones.

    What learning costs without privacy: the baseline of all other numbers here.

    Parameters
    ----------
    alpha : float
        Largest difference between an error on the rows and in the population, in (0, 1).
    beta : float
        Probability, in (0, 1), with which some member may differ more.
    d : int
        VC dimension of the class, or a bound on it.

    Returns
    -------
    int
        The least m from which ``4 growth_function(2m, d) exp(-alpha^2 m / 8) <= beta`` holds.

    References
    ----------
    Vapnik and Chervonenkis (1971), as in Anthony and Bartlett (1999), Theorem 4.3.

    Examples
    --------
    >>> n_uniform(alpha=0.1, beta=0.05, d=1)
    11544
    """
    check_ranges(alpha=alpha, beta=beta, d=d)
    # concave in m, and above ln(beta) at 0: it crosses once
    return smallest_integer(lambda m: math.log(4 / beta) + log_growth(2 * m, d) <= alpha**2 * m / 8)


def smallest_integer(holds: Callable[[int], bool], start: int = 1) -> int:
    """Return the least integer from `start` on that satisfies a condition which then stays true."""
    low, high = int(start) - 1, int(start)
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def log_growth(m: int, d: int) -> float:
    """Return ln(growth_function(m, d)), or a bound on it that is quick for any d."""
    if m <= d:
        return m * math.log(2)
    if d <= 64:
        return math.log(growth_function(m, d))
    bound = d * (1 + math.log(m) - math.log(d))  # (em/d)^d, less than 2^m from m = 4d on
    return bound if m > 4 * d else min(bound, m * math.log(2))


def check_ranges(**arguments: float) -> None:
    """Refuse shares outside (0, 1), and anything else that is not positive."""
    for name, value in arguments.items():
        share = name in ("alpha", "beta", "delta")
        if not 0 < value < (1 if share else math.inf):
            kind = "lie strictly between 0 and 1" if share else "be positive and finite"
            raise ValueError(f"{name} must {kind}; got {value!r}.")
