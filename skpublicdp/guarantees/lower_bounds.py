"""Lower bounds on the sample sizes of any algorithm; proofs in docs/proofs/lower_bounds.md."""

from __future__ import annotations

import math
from typing import Literal

from skpublicdp.guarantees.population import check_ranges, smallest_integer

ROOT_MEAN_VARIANCE = math.sqrt(2 / 3)
"""The value sqrt(E(1 - t^2)) for t uniform on [-1, 1]: root mean variance of a sign with mean t."""

MEAN_STANDARD_DEVIATION = math.pi / 4
"""The value E sqrt(1 - t^2), which is the mean standard deviation of a sign with mean t."""

MEAN_WEIGHTED_DEVIATION = 11 / 12
"""The expectation E (1 + |t|) |x - t|, where x is a sign with mean t."""


def n_public_lower(
    alpha: float, beta: float, *, pure: bool = False, release: bool | Literal["any"] = False
) -> int:
    """Return a lower bound on the public rows of any semi-private learner of thresholds.

    The bound applies to every class of infinite Littlestone dimension.

    Parameters
    ----------
    alpha : float
        Excess error, in (0, 1), over the best rule of the class in every population. For a release,
        this is the maximum error of an answer, where answers are fractions in [0, 1].
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    pure : bool, default=False
        Whether the learner satisfies pure differential privacy, that is, δ = 0. The bound then
        applies to every class that cannot be learned with pure privacy, for example thresholds over
        infinite domains.
    release : bool or "any", default=False
        Whether the algorithm answers queries instead of learning: all thresholds (True), or all
        queries of a class to which the bound on learners applies ("any", Theorem 15).

    Returns
    -------
    int
        The smallest m with ``(1 - p)^m < 1 - t + b``, approximately ``(t - b) t / alpha``. In this
        formula, t is 1/16, or 1/10 if `pure`; p = alpha / t, or 4 alpha / t for a release; and b =
        beta, or 2 beta for "any", where ``<`` is replaced by ``<=``. If b >= t or p >= 1, no bound
        has been proved and the result is 0. The bound holds for any number of private rows.

    Raises
    ------
    ValueError
        If a number is out of range, or `release` is an invalid string.

    Notes
    -----
    The bound for "any" requires ε < 0.05 and δ <= 1/(200 n^2 ln n) for the release, half of the
    values below, since the learner of Lemma 17 uses two releases and a noisy count.

    The bound applies if ε <= 0.1 and δ <= 1/(100 n^2 ln n) for n private rows, and to every class
    of infinite Littlestone dimension, for example thresholds on the reals. The 64-bit numbers,
    however, form a finite domain. For 64-bit numbers, the bound applies to learners with too few
    private rows to exploit this.

    The paper mixes rows with probability p = 1/(100 m) and states m > 1/(1600 alpha) for beta =
    1/18. The paper's failure probabilities, 1/18 and twice 0.01, add up to more than the required
    1/16. The exact sum with p = alpha / t gives 1/(2296 alpha) for this beta, and 1/(248 alpha) for
    small beta. `skpublicdp.audit.reduce_public_data` performs the reduction.

    References
    ----------
    Alon, Bassily and Moran (2019), Theorems 4.1 and 4.2, Lemmas 2.6 and 4.4; Bassily, Cheu, Moran,
    Nikolov, Ullman and Wu (2020), Theorem 15 (for a release).

    Examples
    --------
    >>> n_public_lower(alpha=1e-5, beta=0.01), n_public_lower(alpha=1e-5, beta=0.01, pure=True)
    (338, 944)
    >>> n_public_lower(alpha=1e-6, beta=0.01, release="any")
    679
    """
    check_ranges(alpha=alpha, beta=beta)
    if release not in (True, False, "any"):
        raise ValueError(f"release must be True, False or 'any'; got {release!r}.")
    # t, p and b in the docstring
    min_failure = 1 / 10 if pure else 1 / 16
    mixing_rate = (4 if release else 1) * alpha / min_failure
    failure = 2 * beta if release == "any" else beta
    if failure >= min_failure or mixing_rate >= 1:
        return 0
    log_success = math.log1p(failure - min_failure)
    if release == "any":
        return smallest_integer(lambda m: m * math.log1p(-mixing_rate) <= log_success)
    return smallest_integer(lambda m: m * math.log1p(-mixing_rate) < log_success)


def n_labelled_lower(alpha: float, beta: float, d: int) -> int:
    """Return a lower bound on the labelled rows of any learner, private or not.

    Parameters
    ----------
    alpha : float
        Population error, in (0, 1), in the realizable case.
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    d : int
        VC dimension of the class.

    Returns
    -------
    int
        The maximum of ``ln(2 (beta + 1 / k)) / ln(1 - k alpha / (d - 1))`` over integers k, and of
        ``ln(2 beta) / ln(1 - alpha)``. For d = 1, no bound has been proved and the result is 0.

    Notes
    -----
    The paper cites (d - 1) / (16 alpha) for every beta < 1/2. The cited bound cannot hold for beta
    near 1/2, since a fair coin is correct with probability 1/2. The bound of this function is (d -
    1) / (5.5 alpha) for small beta and (d - 1) / (27.8 alpha) for beta = 1/4.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Theorem B.3, after Ehrenfeucht, Haussler, Kearns and Valiant
    (1989).

    Examples
    --------
    >>> n_labelled_lower(alpha=0.01, beta=0.05, d=11)
    230
    """
    check_ranges(alpha=alpha, beta=beta, d=d)
    if d == 1:
        return 0
    bounds = [0.0]
    if 2 * beta < 1:
        bounds.append(math.log(2 * beta) / math.log1p(-alpha))
    # The hard population has rare rows of total mass k alpha, which must be below 1. Every k gives
    # a valid bound (none for k <= 2), so it suffices to try integers below 64.
    for k in range(3, min(64, math.ceil(1 / alpha))):
        unseen_share = 2 * (beta + 1 / k)
        rare_share = k * alpha / (d - 1)
        if unseen_share < 1:
            bounds.append(math.log(unseen_share) / math.log1p(-rare_share))
    return math.ceil(max(bounds))


def n_active_lower(
    alpha: float,
    beta: float,
    epsilon: float,
    *,
    delta: float = 0.0,
    pool: int | None = None,
    domain_size: int | None = None,
) -> int:
    """Return a lower bound on the labels of transcript-private active learners of thresholds.

    Parameters
    ----------
    alpha : float
        Population error, in (0, 1), in the realizable case.
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Combined privacy budget of the rule and the queried positions.
    delta : float, default=0.0
        δ of this privacy budget. A positive δ requires `pool`.
    pool : int, default=None
        Number of rows from which the learner queries labels.
    domain_size : int, default=None
        Number of possible rows. The default domain is the reals.

    Returns
    -------
    int
        ``exp(-epsilon) ((1 - sqrt(beta))^2 / (2 alpha) - pool delta)``, rounded up and at least 0.
        For a domain of T points, ``exp(-epsilon) ((1 - beta / (1 - c / b)) T / b - pool delta)``
        with c = floor(2 alpha T) + 1, maximised over the integers b <= T.

    Raises
    ------
    ValueError
        If a number is out of range, or if delta is positive and `pool` is None.

    Notes
    -----
    If the transcript need not be private, log2(1/alpha) labels suffice. The proof differs from the
    paper's proof, whose constant is ``exp(-2 epsilon) (1 - 25 beta / 9) / (9 alpha)``. The proof
    redraws one row instead of swapping two rows. Therefore, ε counts only once and no concentration
    inequality is needed.

    References
    ----------
    Beimel, Nissim and Stemmer (2015), Theorem 5.6.

    Examples
    --------
    >>> n_active_lower(alpha=0.001, beta=0.05, epsilon=1.0)
    111
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon)
    if delta and pool is None:
        raise ValueError(f"pool must be given if delta is positive; got delta = {delta!r}.")
    success = 1 - math.sqrt(beta)
    # In the hard population, the threshold is uniform on a part of the domain. The bound holds for
    # every size of this part, so the best size is used. All sizes are fractions of the domain.
    accurate_share = 2 * alpha  # thresholds with an error of at most alpha
    threshold_shares = [1 / success * 2 * alpha]
    if domain_size is not None:
        check_ranges(domain_size=domain_size)
        n_accurate = math.floor(2 * alpha * domain_size) + 1
        accurate_share = n_accurate / domain_size
        # the bound has one maximum, so an integer next to it or the entire domain is the best
        optimum = math.floor(n_accurate / success)
        threshold_shares = [
            n_thresholds / domain_size for n_thresholds in (optimum, optimum + 1, domain_size)
        ]
    n_labels = [
        (1 - beta / (1 - accurate_share / share)) / share
        for share in threshold_shares
        if accurate_share < share <= 1
    ]
    delta_labels = delta * pool if pool is not None else 0.0
    bound = math.exp(-epsilon) * (max(n_labels, default=0.0) - delta_labels)
    return max(0, math.ceil(bound))


def n_query_release_lower(
    alpha: float,
    beta: float,
    epsilon: float,
    p: int,
    m: int,
    *,
    delta: float | None = None,
) -> int:
    """Return a lower bound on the private rows of any release of p binary columns.

    Parameters
    ----------
    alpha : float
        Maximum error of an answer, in (0, 1). Answers are fractions in [0, 1]. The paper's answers
        are in [-1, 1], so its alpha is twice as large.
    beta : float
        Probability, in (0, 1), with which some answer may have a larger error.
    epsilon : float
        Privacy budget.
    p : int
        Number of columns. The release contains the fraction of ones in each column.
    m : int
        Number of public rows.
    delta : float, default=None
        ``None`` means 1/(4n), as in the theorem, where n is the returned number.

    Returns
    -------
    int
        Number of private rows, or 0 if the public rows might be sufficient. See Notes for the
        constants.

    Notes
    -----
    Let a = 2 alpha and ``g = 1/3 - a^2 - 7 beta / 3 - (a + 2 beta) (π / 4) sqrt(m) - 2 sqrt(2 m
    beta / (3 p))``. Then ``n (c (a + 2 beta) sqrt(2 p / 3) + 11 k δ p / 12) >= g p`` for (c, k) =
    (sinh ε, 1 + exp(-ε)) and for (exp(ε) / 2, 1). Therefore, either m is at least of the order
    1/alpha^2, where g becomes 0, or n is at least of the order sqrt(p) / (ε alpha). The paper's
    proof, which uses the attack of Dwork et al., does not state constants. The proof used here
    bounds the sum of the attack's scores. In the hard population, the column means are uniform on
    [-1, 1].

    References
    ----------
    Bassily, Cheu, Moran, Nikolov, Ullman and Wu (2020), Theorems 13 and 14; Dwork, Smith, Steinke,
    Ullman and Vadhan (2015), Theorem 17; Bun, Steinke and Ullman (2017), fingerprinting lemma.

    Examples
    --------
    >>> n_query_release_lower(alpha=0.01, beta=0.001, epsilon=1.0, p=10_000, m=20, delta=0.0)
    1190
    >>> n_query_release_lower(alpha=0.01, beta=0.001, epsilon=1.0, p=10_000, m=400, delta=0.0)
    0
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, p=p)
    if m < 0:
        raise ValueError(f"m must not be negative; got {m!r}.")
    if delta is not None and not 0 <= delta < 1:
        raise ValueError(f"delta must lie in [0, 1); got {delta!r}.")
    a = 2 * alpha
    mean_error = a + 2 * beta
    accurate_score = mean_error * MEAN_STANDARD_DEVIATION * math.sqrt(m)
    failure_score = 2 * ROOT_MEAN_VARIANCE * math.sqrt(m * beta / p)
    public_score = accurate_score + failure_score
    private_score = 1 / 3 - a**2 - 7 / 3 * beta - public_score  # g in the Notes
    bounds = [0.0]
    # c and k in the Notes: two bounds on the score of a row, of which the better bound is used
    for c, k in (
        (math.sinh(epsilon), 1 + math.exp(-epsilon)),
        (math.exp(epsilon) / 2, 1.0),
    ):
        score_per_row = c * mean_error * ROOT_MEAN_VARIANCE * math.sqrt(p)
        if delta is None:  # δ = 1 / (4n), so that its term does not depend on n
            bounds.append((private_score - MEAN_WEIGHTED_DEVIATION * k / 4) * p / score_per_row)
        else:
            delta_per_row = MEAN_WEIGHTED_DEVIATION * k * delta * p
            bounds.append(private_score * p / (score_per_row + delta_per_row))
    return math.ceil(max(bounds))
