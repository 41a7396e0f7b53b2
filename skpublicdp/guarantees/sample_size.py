"""How many rows each private algorithm needs."""

from __future__ import annotations

import math
from typing import NamedTuple

from skpublicdp.guarantees.growth import (
    check_ranges,
    growth_function,
    log_growth,
    n_public,
    n_uniform,
    smallest_integer,
)
from skpublicdp.guarantees.population import finite_excess


def n_finite(alpha: float, beta: float, epsilon: float, size: int) -> int:
    """Count the private rows with which one draw from a public finite family learns.

    Parameters
    ----------
    alpha : float
        Excess error over the best member in the population, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    size : int
        Number of hypotheses, all equally likely.

    Returns
    -------
    int
        The least n for which `finite_excess` is at most alpha. The paper has O(·).

    References
    ----------
    Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith (2011), Theorem 3.4.

    Examples
    --------
    >>> n_finite(alpha=0.1, beta=0.05, epsilon=1.0, size=1000)
    1818
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, size=size)
    return smallest_integer(lambda n: finite_excess(n, beta, epsilon, size) <= alpha)


def n_private(
    alpha: float, beta: float, epsilon: float, d: int, *, constants: str = "paper"
) -> int:
    """Count the private rows of the semi-private learner.

    Parameters
    ----------
    alpha : float
        Excess error over the best member of the class in the population, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    d : int
        VC dimension of the class, or a bound on it.
    constants : {"paper", "tight"}, default="paper"
        Those of `n_public`.

    Returns
    -------
    int
        Private rows needed beside ``n_public(alpha / 2, beta / 2, d, constants=constants)`` public
        ones. The paper has O(·); as in its proof the cover takes half of alpha and beta, and the
        other half goes to `n_finite` for one hypothesis for each of the at most
        ``growth_function(m, d)`` dichotomies of the m public rows.

    References
    ----------
    Alon, Bassily and Moran (2019), Theorem 3.1.

    Examples
    --------
    >>> n_private(alpha=0.1, beta=0.05, epsilon=1.0, d=1)
    7336
    >>> n_public(alpha=0.1 / 2, beta=0.05 / 2, d=1)
    1823
    """
    m = n_public(alpha / 2, beta / 2, d, constants=constants)
    return n_finite(alpha / 2, beta / 2, epsilon, growth_function(m, d))


class SampleSize(NamedTuple):
    """Rows needed, all of them private.

    Attributes
    ----------
    labelled : int
        Rows with a label.
    unlabelled : int
        Further rows without one.
    """

    labelled: int
    unlabelled: int


def n_generic_learner(
    alpha: float, beta: float, epsilon: float, d: int, domain_size: int
) -> SampleSize:
    """Count the rows of the generic semi-supervised learner.

    Parameters
    ----------
    alpha : float
        Error in the population, in (0, 1), where some member of the class makes none.
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    d : int
        VC dimension of the class, or a bound on it.
    domain_size : int
        Number of possible rows (features only).

    Returns
    -------
    SampleSize
        Labelled and unlabelled rows. The paper has O(·); the proof's fifths are kept, while
        `n_blr_learner` and `n_quantile_learner` are of the sanitizers of this package, and far
        fewer:

        - both numbers are at least ``n_uniform(alpha / 5, beta / 5, d)`` (for the paper's 1250 d /
          alpha^2 ln(25 / (alpha beta)), which the inequality of Vapnik and Chervonenkis does not
          give for all alpha and beta);
        - the sanitizer draws, by the exponential mechanism, l = 5000 v / alpha^2 ln(10 / alpha)
          points that answer all h ⊕ f to within alpha/5, half of it because so few points do
          (Theorem B.6 at alpha/10), half for the draw: 20 (l ln(domain_size) + ln(5 / beta)) /
          (epsilon alpha) unlabelled rows. Here v is the VC dimension of {h ⊕ f}, of which two
          dichotomies make one: the largest v with ``growth_function(v, d)^2 >= 2^v``;
        - the final draw: 10 ln(5 growth_function(l, d) / beta) / (epsilon alpha) labelled rows
          (by Sauer; the paper puts l for the logarithm, hence its alpha^3).

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Theorem 3.3 and its proof; Blum, Ligett and Roth (2013).

    Examples
    --------
    >>> n_generic_learner(alpha=0.1, beta=0.05, epsilon=1.0, d=1, domain_size=2**20)
    SampleSize(labelled=391234, unlabelled=31920609709)
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d, domain_size=domain_size)
    uniform = n_uniform(alpha / 5, beta / 5, d)
    pairs = smallest_integer(lambda v: growth_function(v, d) ** 2 < 2**v) - 1
    sanitized = math.ceil(5000 * pairs / alpha**2 * math.log(10 / alpha))
    failure = math.log(5 / beta)
    labelled = 10 * (log_growth(sanitized, d) + failure) / (epsilon * alpha)
    unlabelled = 20 * (sanitized * math.log(domain_size) + failure) / (epsilon * alpha)
    return SampleSize(max(uniform, math.ceil(labelled)), max(uniform, math.ceil(unlabelled)))
