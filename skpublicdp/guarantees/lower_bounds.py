"""Lower bounds on sample sizes, for every algorithm; proofs in docs/proofs/lower_bounds.md."""

from __future__ import annotations

import math
from typing import Literal

from skpublicdp.guarantees.growth import check_ranges, smallest_integer

ROOT_MEAN_VARIANCE = math.sqrt(2 / 3)
"""sqrt(E(1 - t^2)) for t uniform on [-1, 1]: root mean variance of a sign with mean t."""

MEAN_STANDARD_DEVIATION = math.pi / 4
"""E sqrt(1 - t^2): mean standard deviation of a sign with mean t."""

MEAN_WEIGHTED_DEVIATION = 11 / 12
"""E (1 + |t|) |x - t|, where x is a sign with mean t."""


def n_public_lower(
    alpha: float, beta: float, *, pure: bool = False, release: bool | Literal["any"] = False
) -> int:
    """Return a lower bound on the public rows of every semi-private learner of thresholds.

    It holds for every class of infinite Littlestone dimension.

    Parameters
    ----------
    alpha : float
        Excess error, in (0, 1), over the best member of the class in every population. For a
        release, the largest error of an answer; answers are shares, in [0, 1].
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    pure : bool, default=False
        Whether the learner is purely differentially private, δ = 0. The bound then holds for every
        class that no pure private learner learns, for example thresholds over infinite domains.
    release : bool or "any", default=False
        Whether the algorithm answers queries instead of learning: all thresholds (True), or all
        members of a class for which the bound on learners holds ("any", Theorem 15).

    Returns
    -------
    int
        The smallest m with ``(1 - p)^m < 1 - t + b``, about ``(t - b) t / alpha``. Here t is 1/16,
        or 1/10 if `pure`, p = alpha / t, or 4 alpha / t for a release, and b = beta, or 2 beta for
        "any", where ``<=`` takes the place of ``<``. If b >= t or p >= 1 no bound is proved, and it
        is 0. It holds for every number of private rows.

    Raises
    ------
    ValueError
        If a number is out of range, or `release` is another string.

    Notes
    -----
    The bound for "any" needs ε < 0.05 and δ <= 1/(200 n^2 ln n) for the release, half of the
    numbers below, since the learner of Lemma 17 takes two releases and a noisy count.

    The bound holds at ε <= 0.1 and δ <= 1/(100 n^2 ln n) for n private rows, and for every class of
    infinite Littlestone dimension, for example thresholds of the reals. There are finitely many
    numbers of 64 bits; for these the bound is about learners with too few private rows to exploit
    that.

    The paper mixes rows with probability p = 1/(100 m) and states m > 1/(1600 alpha) for beta =
    1/18. Its failure probabilities, 1/18 and twice 0.01, add up to more than the required 1/16. The
    exact sum with p = alpha / t gives 1/(2296 alpha) for this beta, and 1/(248 alpha) for small
    beta. `skpublicdp.audit.reduce_public_data` runs the reduction.

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
    """Return a lower bound on the labelled rows of every learner, private or not.

    Parameters
    ----------
    alpha : float
        Error in the population, in (0, 1), for the realizable case.
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    d : int
        VC dimension of the class.

    Returns
    -------
    int
        The maximum of ``ln(2 (beta + 1 / k)) / ln(1 - k alpha / (d - 1))`` over integers k, and of
        ``ln(2 beta) / ln(1 - alpha)``. For d = 1 no bound is proved, and it is 0.

    Notes
    -----
    The paper cites (d - 1) / (16 alpha) for every beta < 1/2, which cannot hold near 1/2, since a
    fair coin is right with probability 1/2. Here a small beta gives (d - 1) / (5.5 alpha), and beta
    = 1/4 gives (d - 1) / (27.8 alpha).

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
    bounds = [math.log(2 * beta) / math.log1p(-alpha)] if 2 * beta < 1 else [0.0]
    # The hard population has rare rows of total mass k alpha, which must be below 1. Every k gives
    # a valid bound (none for k <= 2), so it is enough to try integers below 64.
    for k in range(3, min(64, math.ceil(1 / alpha))):
        unseen_share = 2 * (beta + 1 / k)
        if unseen_share < 1:
            bounds.append(math.log(unseen_share) / math.log1p(-k * alpha / (d - 1)))
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
    """Return a lower bound on the labels of a transcript-private active learner of thresholds.

    Parameters
    ----------
    alpha : float
        Error in the population, in (0, 1), for the realizable case.
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget of the rule and the queried positions together.
    delta : float, default=0.0
        δ of this budget; a positive one needs `pool`.
    pool : int, default=None
        Number of rows from which the learner queries labels.
    domain_size : int, default=None
        Number of possible rows. By default the domain is the reals.

    Returns
    -------
    int
        ``exp(-epsilon) ((1 - sqrt(beta))^2 / (2 alpha) - pool delta)``, rounded up and at least 0.
        On a domain of T points, ``exp(-epsilon) ((1 - beta / (1 - c / b)) T / b - pool delta)``
        with c = floor(2 alpha T) + 1, maximised over the integers b <= T.

    Raises
    ------
    ValueError
        If a number is out of range, or if delta is positive and `pool` is None.

    Notes
    -----
    Without privacy of the transcript log2(1/alpha) labels are enough. The proof differs from the
    paper's, whose constant is ``exp(-2 epsilon) (1 - 25 beta / 9) / (9 alpha)``. It redraws one row
    instead of swapping two, so that ε counts once, and needs no concentration inequality.

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
    # In the hard population the threshold is uniform on a part of the domain. The bound holds for
    # every size of this part, so the best one counts. All sizes are shares of the domain.
    accurate_share = 2 * alpha  # thresholds with an error of at most alpha
    threshold_shares = [1 / success * 2 * alpha]
    if domain_size is not None:
        check_ranges(domain_size=domain_size)
        n_accurate = math.floor(2 * alpha * domain_size) + 1
        accurate_share = n_accurate / domain_size
        # the bound has one maximum, so an integer next to it or the whole domain is the best
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
    """Return a lower bound on the private rows of every release of p binary columns.

    Parameters
    ----------
    alpha : float
        Largest error of an answer, in (0, 1). Answers are shares, in [0, 1]. The paper's answers
        are in [-1, 1], so its alpha is twice this one.
    beta : float
        Probability, in (0, 1), with which some answer may have a larger error.
    epsilon : float
        Privacy budget.
    p : int
        Number of columns. The share of ones of each is released.
    m : int
        Number of public rows.
    delta : float, default=None
        ``None`` means 1/(4n) as in the theorem, where n is the returned number.

    Returns
    -------
    int
        Private rows; 0 if the public ones may be enough. See Notes for the constants.

    Notes
    -----
    Let a = 2 alpha and ``g = 1/3 - a^2 - 7 beta / 3 - (a + 2 beta) (π / 4) sqrt(m) - 2 sqrt(2 m
    beta / (3 p))``. Then ``n (c (a + 2 beta) sqrt(2 p / 3) + 11 k δ p / 12) >= g p`` for (c, k) =
    (sinh ε, 1 + exp(-ε)) and for (exp(ε) / 2, 1). So either m is at least of the order of
    1/alpha^2, where g becomes 0, or n of the order of sqrt(p) / (ε alpha). The paper's proof, by
    the attack of Dwork et al., has no constants. This one bounds the sum of the attack's scores.
    The hard population has column means that are uniform on [-1, 1].

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
    # c and k in the Notes: two bounds on the score of a row, of which the better one counts
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
