"""How many rows each private algorithm needs."""

from __future__ import annotations

import math
from typing import NamedTuple

from skpublicdp.guarantees.certificates import excess_error
from skpublicdp.guarantees.growth import (
    check,
    growth_function,
    least,
    log_growth,
    n_public,
    n_uniform,
)


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
        The least n with ``2 ln(2 size / beta) / (epsilon n) + sqrt(2 ln(2 (size + 1) / beta) / n)
        <= alpha``. The paper has O(·). The first term is `excess_error` at beta/2. The second pays
        Hoeffding twice: no member may look better than it is, nor the best one worse, together
        size + 1 one-sided events at beta/2.

    References
    ----------
    Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith (2011), Theorem 3.4.

    Examples
    --------
    >>> n_finite(alpha=0.1, beta=0.05, epsilon=1.0, size=1000)
    2526
    """
    check(alpha=alpha, beta=beta, epsilon=epsilon, size=size)
    sampling = 2 * (math.log(size + 1) + math.log(2 / beta))
    return least(
        lambda n: excess_error(size, n, epsilon, beta / 2) + math.sqrt(sampling / n) <= alpha
    )


def n_private(alpha: float, beta: float, epsilon: float, d: int) -> int:
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

    Returns
    -------
    int
        Private rows needed beside ``n_public(alpha / 2, beta / 2, d)`` public ones. The paper has
        O(·); as in its proof the cover takes half of alpha and beta, and the other half goes to
        `n_finite` for one hypothesis for each of the at most ``growth_function(m, d)`` dichotomies
        of the m public rows.

    References
    ----------
    Alon, Bassily and Moran (2019), Theorem 3.1.

    Examples
    --------
    >>> n_private(alpha=0.1, beta=0.05, epsilon=1.0, d=1)
    10443
    >>> n_public(alpha=0.1 / 2, beta=0.05 / 2, d=1)
    1823
    """
    m = n_public(alpha / 2, beta / 2, d)
    return n_finite(alpha / 2, beta / 2, epsilon, growth_function(m, d))


def n_ppm(alpha: float, beta: float, epsilon: float, d: int, *, realizable: bool = False) -> int:
    """Count the rows, private and public together, of the halfspace learner on mixed populations.

    Parameters
    ----------
    alpha : float
        Excess error over the best halfspace in the population, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    d : int
        Number of features (not the VC dimension, which is one more).
    realizable : bool, default=False
        Whether some halfspace makes no error.

    Returns
    -------
    int
        Rows needed. The paper has O(·) and defers the proof; see Notes for the constants.

    Notes
    -----
    Write W = ``growth_function(n, d)`` for the subsets of at most d rows. The family drawn from has
    at most ``G = growth_function(2 W, d)`` members, and one whose empirical error is no more than
    the best halfspace's (Corollary 4.4), so the draw loses ``t = 2 ln(G b / beta) / (epsilon n)``.
    A member is told by at most k = d(d + 1) rows: d for each of d halfspaces and, where the public
    rows lie in a proper affine subspace, d that span it; there are at most N = G W such tales, each
    independent of the other n - k rows.

    - Agnostic, b = 3: Hoeffding on those rows, on which the error exceeds that on all n by at most
      k/n, and once for the best halfspace: ``t + k/n + sqrt(ln(3 N / beta) / (2 (n - k))) +
      sqrt(ln(3 / beta) / (2 n)) <= alpha``.
    - Realizable, b = 2: the error on the n - k rows is at most t n / (n - k), and a Binomial(n, p)
      is below n t with probability at most ``exp(-n (sqrt(p) - sqrt(t))^2)`` (Chernoff's bound, and
      relative entropy is at least the squared Hellinger distance): ``sqrt(t n / (n - k)) +
      sqrt(ln(2 N / beta) / (n - k)) <= sqrt(alpha)``; or the agnostic number if that is less.

    References
    ----------
    Bassily, Moran and Nandi (2020), Theorem 4.6.

    Examples
    --------
    >>> n_ppm(alpha=0.1, beta=0.05, epsilon=1.0, d=2)
    5987
    >>> n_ppm(alpha=0.1, beta=0.05, epsilon=1.0, d=2, realizable=True)
    2327
    """
    check(alpha=alpha, beta=beta, epsilon=epsilon, d=d)
    k = d * (d + 1)

    def logs(n: int) -> tuple[float, float]:
        subsets = growth_function(n, d)
        members = log_growth(2 * subsets, d)
        return members, members + math.log(subsets)

    def agnostic(n: int) -> bool:
        members, tales = logs(n)
        draw = 2 * (members + math.log(3 / beta)) / (epsilon * n)
        every = math.sqrt((tales + math.log(3 / beta)) / (2 * (n - k)))
        best = math.sqrt(math.log(3 / beta) / (2 * n))
        return draw + k / n + every + best <= alpha

    def consistent(n: int) -> bool:
        members, tales = logs(n)
        draw = 2 * (members + math.log(2 / beta)) / (epsilon * (n - k))
        every = (tales + math.log(2 / beta)) / (n - k)
        return math.sqrt(draw) + math.sqrt(every) <= math.sqrt(alpha)

    n = least(agnostic, start=k + 1)
    return min(n, least(consistent, start=k + 1)) if realizable else n


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
        Labelled and unlabelled rows. The paper has O(·); the proof's fifths are kept:

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
    check(alpha=alpha, beta=beta, epsilon=epsilon, d=d, domain_size=domain_size)
    uniform = n_uniform(alpha / 5, beta / 5, d)
    pairs = least(lambda v: growth_function(v, d) ** 2 < 2**v) - 1
    sanitized = math.ceil(5000 * pairs / alpha**2 * math.log(10 / alpha))
    failure = math.log(5 / beta)
    labelled = 10 * (log_growth(sanitized, d) + failure) / (epsilon * alpha)
    unlabelled = 20 * (sanitized * math.log(domain_size) + failure) / (epsilon * alpha)
    return SampleSize(max(uniform, math.ceil(labelled)), max(uniform, math.ceil(unlabelled)))


def n_label_boost(
    alpha: float, beta: float, epsilon: float, d: int, n_base: int, *, realizable: bool = False
) -> SampleSize:
    """Count the rows of LabelBoost around a base learner.

    Parameters
    ----------
    alpha : float
        Error in the population over that of the best member, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget of the whole. Above 1 it is treated as 1: the theorem stops there.
    d : int
        VC dimension of the class, or a bound on it.
    n_base : int
        Rows with which the base learner, at epsilon = 1, errs on at most alpha/11 with probability
        at least 1 - beta/2.
    realizable : bool, default=False
        Whether some member of the class makes no error.

    Returns
    -------
    SampleSize
        Labelled and unlabelled rows. With a = alpha/11 and b = beta/2, and the paper's constants:
        90000 n_base unlabelled and 96000 d / a ln(2240 / (a b)) labelled rows at epsilon = 1 (Lemma
        4.12). For the agnostic form the paper has O(·): also at least 100 ``n_uniform(a / 20,
        b / 8, d)``, so that the first labeller, from a hundredth of them, is within 3 a/20 of the
        best (one part for the draw, two for sampling); the later rounds copy it as in the paper.
        There must then be a first round, even where the base learner has rows enough without.
        Both numbers are divided by the rate q = (e^epsilon - 1) / (e - 1) at which a fixed-size
        subsample of each part gives epsilon; the paper's Claim 4.3 has q = epsilon / (3 + e).

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Theorems 4.13, 4.14 and 4.16; Balle, Barthe and Gaboardi
    (2018), Theorem 9.

    Examples
    --------
    >>> n_label_boost(alpha=0.1, beta=0.05, epsilon=1.0, d=1, n_base=1000, realizable=True)
    SampleSize(labelled=170053921, unlabelled=90000000)
    """
    check(alpha=alpha, beta=beta, epsilon=epsilon, d=d, n_base=n_base)
    a, b = alpha / 11, beta / 2
    labelled = math.ceil(96000 * d / a * math.log(2240 / (a * b)))
    if not realizable:
        labelled = max(labelled, 100 * n_uniform(a / 20, b / 8, d))
    return SampleSize(n_subsampling(labelled, epsilon), n_subsampling(90000 * n_base, epsilon))


def n_subsampling(
    n: int, epsilon: float, epsilon_base: float = 1.0, *, roles: str = "random"
) -> int:
    """Count the pool from which a subsample of n rows brings a base learner's epsilon down.

    Parameters
    ----------
    n : int
        Rows the base learner takes, labelled and unlabelled together.
    epsilon : float
        Privacy budget wanted.
    epsilon_base : float, default=1.0
        Privacy budget of the base learner.
    roles : {"random", "paper"}, default="random"
        Which of the n rows are labelled: a uniform choice, or those that come first in the pool.

    Returns
    -------
    int
        Pool size. With random roles n (e^epsilon_base - 1) / (e^epsilon - 1), which is exact; with
        the paper's n (3 + e^(2 epsilon_base)) / epsilon, its own constant. The number of labels
        asked for does not change, so with ``n_label_boost`` at epsilon = 1 as the base learner it
        is free of epsilon (Theorem 5.8).

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Claim 5.7 and Theorem 5.8; Balle, Barthe and Gaboardi (2018),
    Theorem 9.

    Examples
    --------
    >>> n_subsampling(1000, epsilon=0.1)
    16338
    >>> n_subsampling(1000, epsilon=0.1, roles="paper")
    103891
    """
    check(n=n, epsilon=epsilon, epsilon_base=epsilon_base)
    if roles not in ("random", "paper"):
        raise ValueError(f"roles must be 'random' or 'paper'; got {roles!r}.")
    if roles == "paper":
        return math.ceil(n * (3 + math.exp(2 * epsilon_base)) / epsilon)
    return math.ceil(n * max(1.0, math.expm1(epsilon_base) / math.expm1(epsilon)))


def n_query_release(
    alpha: float,
    beta: float,
    epsilon: float,
    delta: float,
    d: int,
    dual: int | None = None,
) -> int:
    """Count the private rows with which all queries of a class are answered.

    Parameters
    ----------
    alpha : float
        Largest error of an answer, in (0, 1). Answers are shares, in [0, 1]; the paper's are in
        [-1, 1] and its alpha is twice this one.
    beta : float
        Probability, in (0, 1), with which some answer may err more.
    epsilon, delta : float
        Privacy budget, both in (0, 1).
    d : int
        VC dimension of the class, or a bound on it.
    dual : int, optional
        VC dimension of the dual class; by default Assouad's bound 2^(d+1) - 1.

    Returns
    -------
    int
        Private rows needed beside ``n_public(alpha / 2, beta / 2, d)`` public ones: ``200 sqrt(ln X
        ln(2 / delta)) (ln H + ln(256 ln X / (alpha^2 beta))) / (epsilon alpha^2)``, Lemma 7 with
        its constants at half of the paper's alpha and beta. H = ``growth_function(m, d)`` counts
        the dichotomies of the m public rows, X = ``growth_function(H, dual)`` the cells they make.

    References
    ----------
    Bassily, Cheu, Moran, Nikolov, Ullman and Wu (2020), Theorem 10, Lemmas 7 and 11, Claim 3 and
    Fact 4.

    Examples
    --------
    >>> n_query_release(alpha=0.1, beta=0.05, epsilon=0.5, delta=1e-6, d=1, dual=1)
    9465538
    """
    check(alpha=alpha, beta=beta, epsilon=epsilon, delta=delta, d=d)
    queries = growth_function(n_public(alpha / 2, beta / 2, d), d)
    cells = log_growth(queries, 2 ** (d + 1) - 1 if dual is None else dual)
    tail = math.log(queries) + math.log(256 * cells / (alpha**2 * beta))
    return math.ceil(200 * math.sqrt(cells * math.log(2 / delta)) * tail / (epsilon * alpha**2))
