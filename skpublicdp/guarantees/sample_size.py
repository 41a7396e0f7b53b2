"""Sample sizes of private learners."""

from __future__ import annotations

import math
from typing import NamedTuple

from skpublicdp.guarantees.certificates import excess_error
from skpublicdp.guarantees.growth import (
    check_ranges,
    growth_function,
    log_growth,
    n_public,
    n_uniform,
    smallest_integer,
)
from skpublicdp.guarantees.population import finite_excess, sampling_error


def n_finite(
    alpha: float, beta: float, epsilon: float, size: int, *, realizable: bool = False
) -> int:
    """Return the number of private rows that one draw from a public finite family needs.

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
    realizable : bool, default=False
        Whether some member makes no error in the population. This is an assumption. Then the number
        is of order 1/alpha and 1/(epsilon alpha) instead of 1/alpha^2.

    Returns
    -------
    int
        The smallest n for which `finite_excess` is at most alpha. The paper has O(·). If
        `realizable`, with a `best_error` of 0: at most ``ln(size / beta) / -ln(1 - alpha (1 -
        exp(-epsilon / 2)))``, rounded up.

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith (2011), Theorem 3.4;
    docs/proofs/guarantees.md, for the realizable case.

    Examples
    --------
    >>> n_finite(alpha=0.1, beta=0.05, epsilon=1.0, size=1000)
    1818
    >>> n_finite(alpha=0.1, beta=0.05, epsilon=1.0, size=1000, realizable=True)
    247
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, size=size)
    best_error = 0.0 if realizable else None

    def is_enough(n: int) -> bool:
        return finite_excess(n, beta, epsilon, size, best_error=best_error) <= alpha

    return smallest_integer(is_enough)


def epsilon_finite(alpha: float, beta: float, n: int, size: int) -> float:
    """Return the smallest ε at which one draw from a public finite family is good enough.

    Parameters
    ----------
    alpha : float
        Excess error over the best member in the population, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    n : int
        Number of private rows.
    size : int
        Number of hypotheses, all equally likely. For the cover of `SemiPrivateClassifier` on m
        public rows it is at most ``growth_function(m, d)``.

    Returns
    -------
    float
        The ε at which `finite_excess` is alpha.

    Raises
    ------
    ValueError
        If the sampling error of `n` rows alone is at least alpha, so that no ε is enough.

    See Also
    --------
    skpublicdp.query_release.epsilon_for : The ε of a release of tables or of a CDF.

    References
    ----------
    Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith (2011), Theorem 3.4.

    Examples
    --------
    >>> round(epsilon_finite(alpha=0.05, beta=0.05, n=10_000, size=1000), 3)
    0.178
    """
    check_ranges(alpha=alpha, beta=beta, n=n, size=size)
    sampling = sampling_error(n, 3 * beta / 4, size)
    if sampling >= alpha:
        raise ValueError(
            f"alpha must be above {sampling:.2g}, the sampling error of n = {n} rows, because no "
            f"epsilon reduces this error; got {alpha!r}."
        )
    # the excess error of a draw is inversely proportional to ε
    return excess_error(size, n, 1.0, beta / 4) / (alpha - sampling)


def n_private(
    alpha: float,
    beta: float,
    epsilon: float,
    d: int,
    *,
    realizable: bool = False,
    constants: str = "paper",
) -> int:
    """Return the number of private rows that the semi-private learner needs.

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
    realizable : bool, default=False
        Whether some member of the class makes no error in the population. This is an assumption.
        Then the number is of order 1/(epsilon alpha) instead of 1/alpha^2, up to logarithms.
    constants : {"paper", "tight"}, default="paper"
        The constants of `n_public`.

    Returns
    -------
    int
        Private rows needed together with ``n_public(alpha / 2, beta / 2, d, constants=constants)``
        public ones. The paper has O(·). As in its proof, half of alpha and beta is for the cover.
        The other half is for `n_finite` on a cover with one hypothesis for each dichotomy of the m
        public rows, at most ``growth_function(m, d)``.

        If `realizable`, together with ``n_public(alpha / 2, beta / 2, d, realizable=True,
        constants=constants)`` public ones. Some member of their cover then errs on at most alpha/2
        of the population. The number is the smallest n for which `finite_excess` with this
        `best_error` is at most alpha/2, at beta/2.

    Raises
    ------
    ValueError
        If a number is out of range, or `constants` is another word.

    References
    ----------
    Alon, Bassily and Moran (2019), Theorem 3.1; docs/proofs/guarantees.md, for the realizable case.

    Examples
    --------
    >>> n_private(alpha=0.1, beta=0.05, epsilon=1.0, d=1)
    7336
    >>> n_public(alpha=0.1 / 2, beta=0.05 / 2, d=1)
    1823
    >>> n_private(alpha=0.1, beta=0.05, epsilon=1.0, d=1, realizable=True)
    1652
    """
    half, half_beta = alpha / 2, beta / 2
    m = n_public(half, half_beta, d, realizable=realizable, constants=constants)
    size = growth_function(m, d)
    if not realizable:
        return n_finite(half, half_beta, epsilon, size)

    def is_enough(n: int) -> bool:
        return finite_excess(n, half_beta, epsilon, size, best_error=half) <= half

    return smallest_integer(is_enough)


class SampleSize(NamedTuple):
    """Numbers of labelled and unlabelled private rows that a learner needs.

    Attributes
    ----------
    labelled : int
        Rows with a label.
    unlabelled : int
        Further rows without a label.
    """

    labelled: int
    unlabelled: int


def n_generic_learner(
    alpha: float, beta: float, epsilon: float, d: int, domain_size: int
) -> SampleSize:
    """Return the numbers of rows that the generic semi-supervised learner needs.

    Parameters
    ----------
    alpha : float
        Error in the population, in (0, 1), for the realizable case.
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
        Labelled and unlabelled rows. The paper has O(·). These numbers use the fifths of its proof.
        `n_blr_learner` and `n_quantile_learner` are for the sanitizers of this package, and far
        smaller.

        - Both numbers are at least ``n_uniform(alpha / 5, beta / 5, d)``. The paper has 1250 d /
          alpha^2 ln(25 / (alpha beta)), which the inequality of Vapnik and Chervonenkis does not
          give for all alpha and beta.
        - The sanitizer draws l = 5000 v / alpha^2 ln(10 / alpha) points by the exponential
          mechanism. They answer all h ⊕ f to within alpha/5: half of it since l points can
          (Theorem B.6 at alpha/10), half for the draw. It needs 20 (l ln(domain_size) + ln(5 /
          beta)) / (epsilon alpha) unlabelled rows. Here v is the VC dimension of {h ⊕ f}, whose
          dichotomies are made of two each: the largest v with ``growth_function(v, d)^2 >= 2^v``.
        - The final draw needs 10 ln(5 growth_function(l, d) / beta) / (epsilon alpha) labelled
          rows, by Sauer's lemma. The paper has l instead of the logarithm, hence its alpha^3.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Theorem 3.3 and its proof; Blum, Ligett and Roth (2013).

    Examples
    --------
    >>> n_generic_learner(alpha=0.1, beta=0.05, epsilon=1.0, d=1, domain_size=2**20)
    SampleSize(labelled=391234, unlabelled=31920609709)
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d, domain_size=domain_size)
    min_uniform = n_uniform(alpha / 5, beta / 5, d)
    # VC dimension of the symmetric differences h ⊕ f, v in the docstring
    pair_dimension = smallest_integer(lambda v: growth_function(v, d) ** 2 < 2**v) - 1
    n_points = math.ceil(5000 * pair_dimension / alpha**2 * math.log(10 / alpha))
    log_failure = math.log(5 / beta)
    labelled = 10 * (log_growth(n_points, d) + log_failure) / (epsilon * alpha)
    unlabelled = 20 * (n_points * math.log(domain_size) + log_failure) / (epsilon * alpha)
    return SampleSize(
        max(min_uniform, math.ceil(labelled)), max(min_uniform, math.ceil(unlabelled))
    )
