"""How many rows no algorithm can do without; proofs in docs/proofs/lower_bounds.md."""

from __future__ import annotations

import math

from skpublicdp.guarantees.growth import check_ranges, smallest_integer

ROOT_MEAN_VARIANCE = math.sqrt(2 / 3)
"""Root of E(1 - t^2), t uniform on [-1, 1]."""

MEAN_STANDARD_DEVIATION = math.pi / 4
"""E sqrt(1 - t^2)."""

MEAN_WEIGHTED_DEVIATION = 11 / 12
"""E(1 + |t|)|x - t|, where x is -1 or 1 with mean t."""


def n_public_lower(alpha: float, beta: float, *, pure: bool = False, release: bool = False) -> int:
    """Count the public rows that every semi-private learner of thresholds needs.

    Parameters
    ----------
    alpha : float
        Excess error, in (0, 1), over the best member of the class in every population. Of a
        release: the largest error of an answer; answers are shares, in [0, 1].
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    pure : bool, default=False
        Whether it is purely differentially private, δ = 0. The bound then holds for every class
        that no pure private learner learns, thresholds over infinite domains among them.
    release : bool, default=False
        Whether it answers all thresholds instead of learning one.

    Returns
    -------
    int
        The least m with ``(1 - p)^m < 1 - t + beta``, about ``(t - beta) t / alpha``: here t is
        1/16, or 1/10 if `pure`, and p = alpha / t, or 4 alpha / t of a release. It is 0, nothing
        being proved, where beta >= t or p >= 1. The number of private rows does not matter.

    Notes
    -----
    It holds at ε <= 0.1 and δ <= 1/(100 n^2 ln n), n private rows, for every class of infinite
    Littlestone dimension, such as thresholds of the reals. Numbers of 64 bits are finitely many:
    with them the bound is about learners whose private rows are too few to profit from that.

    The paper mixes rows with probability p = 1/(100 m) and states m > 1/(1600 alpha) for beta =
    1/18. Its failures, 1/18 and two of 0.01, add up to more than the 1/16 that it needs; with the
    sum done exactly, p = alpha / t leaves nothing over and the bound is 1/(2296 alpha) there and
    1/(248 alpha) for small beta. `skpublicdp.audit.reduce_public_data` runs the reduction.

    References
    ----------
    Alon, Bassily and Moran (2019), Theorems 4.1 and 4.2, Lemmas 2.6 and 4.4; Bassily, Cheu, Moran,
    Nikolov, Ullman and Wu (2020), Theorem 15 (for a release).

    Examples
    --------
    >>> n_public_lower(alpha=1e-5, beta=0.01), n_public_lower(alpha=1e-5, beta=0.01, pure=True)
    (338, 944)
    """
    check_ranges(alpha=alpha, beta=beta)
    threshold = 1 / 10 if pure else 1 / 16
    share = (4 if release else 1) * alpha / threshold
    if beta >= threshold or share >= 1:
        return 0
    bound = math.log1p(beta - threshold)
    return smallest_integer(lambda m: m * math.log1p(-share) < bound)


def n_labelled_lower(alpha: float, beta: float, d: int) -> int:
    """Count the labelled rows that every learner needs, private or not, whatever else it has.

    Parameters
    ----------
    alpha : float
        Error in the population, in (0, 1), where some member of the class makes none.
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    d : int
        VC dimension of the class.

    Returns
    -------
    int
        The most of ``ln(2 (beta + 1 / k)) / ln(1 - k alpha / (d - 1))`` over whole k, and ``ln(2
        beta) / ln(1 - alpha)``. For d = 1 nothing is proved, 0.

    Notes
    -----
    The paper cites (d - 1) / (16 alpha) for every beta < 1/2, which cannot hold near 1/2: a coin
    is right half of the time. Here a small beta gives (d - 1) / (5.5 alpha), and beta = 1/4 gives
    (d - 1) / (27.8 alpha).

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
    for k in range(3, min(64, math.ceil(1 / alpha))):  # the heavy row keeps some weight
        kept = 2 * (beta + 1 / k)
        if kept < 1:
            bounds.append(math.log(kept) / math.log1p(-k * alpha / (d - 1)))
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
    """Count the labels that every transcript-private active learner of thresholds asks for.

    Parameters
    ----------
    alpha : float
        Error in the population, in (0, 1), where some threshold makes none.
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget of the rule and of the positions asked for, together.
    delta : float, default=0.0
        Its δ; above 0 needs `pool`.
    pool : int, default=None
        Number of rows from which the learner chooses.
    domain_size : int, default=None
        Number of possible rows; thresholds of the reals by default.

    Returns
    -------
    int
        ``exp(-epsilon) ((1 - sqrt(beta))^2 / (2 alpha) - pool delta)``, rounded up and at least 0.
        On a domain of T points, ``exp(-epsilon) ((1 - beta / (1 - c / b)) T / b - pool delta)``
        with c = floor(2 alpha T) + 1 and the best whole b <= T.

    Raises
    ------
    ValueError
        If a number is out of its range, or delta is positive and `pool` is missing.

    Notes
    -----
    Without privacy of the transcript log2(1/alpha) labels are enough. The proof differs from the
    paper's, whose constant is ``exp(-2 epsilon) (1 - 25 beta / 9) / (9 alpha)``: one row is drawn
    anew instead of two being swapped, so that ε counts once, and no concentration is needed.

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
        raise ValueError(f"pool must be given where delta is positive; got delta = {delta!r}.")
    kept = 1 - math.sqrt(beta)
    shares = [1 / kept * 2 * alpha]
    good = 2 * alpha
    if domain_size is not None:
        check_ranges(domain_size=domain_size)
        wrong = math.floor(2 * alpha * domain_size) + 1
        good = wrong / domain_size
        around = math.floor(wrong / kept)
        shares = [b / domain_size for b in (around, around + 1, domain_size)]
    labels = [(1 - beta / (1 - good / share)) / share for share in shares if good < share <= 1]
    spent = delta * pool if pool is not None else 0.0
    return max(0, math.ceil(math.exp(-epsilon) * (max(labels, default=0.0) - spent)))


def n_query_release_lower(
    alpha: float,
    beta: float,
    epsilon: float,
    p: int,
    m: int,
    *,
    delta: float | None = None,
) -> int:
    """Count the private rows that every release of p yes-or-no columns needs beside m public rows.

    Parameters
    ----------
    alpha : float
        Largest error of an answer, in (0, 1). Answers are shares, in [0, 1]; the paper's are in
        [-1, 1] and its alpha is twice this one.
    beta : float
        Probability, in (0, 1), with which some answer may err more.
    epsilon : float
        Privacy budget.
    p : int
        Number of columns, of each of which the share of ones is released.
    m : int
        Number of public rows.
    delta : float, default=None
        ``None`` means 1/(4n), the theorem's, n being the number that is returned.

    Returns
    -------
    int
        Private rows; 0 where the public ones may be enough. See Notes for the constants.

    Notes
    -----
    Let a = 2 alpha and ``g = 1/3 - a^2 - 7 beta / 3 - (a + 2 beta) (π / 4) sqrt(m) - 2 sqrt(2 m
    beta / (3 p))``. Then ``n (c (a + 2 beta) sqrt(2 p / 3) + 11 k δ p / 12) >= g p`` for (c, k) =
    (sinh ε, 1 + exp(-ε)) and for (exp(ε) / 2, 1). So either m is at least of the order of
    1/alpha^2, where g becomes 0, or n of the order of sqrt(p) / (ε alpha). The paper's proof, by
    the attack of Dwork et al., has no constants; this one adds up what the attack's scores must be.
    The populations are those in which the means of the columns, from -1 to 1, are uniform.

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
    off = a + 2 * beta
    public = off * MEAN_STANDARD_DEVIATION * math.sqrt(m) + 2 * ROOT_MEAN_VARIANCE * math.sqrt(
        m * beta / p
    )
    gap = 1 / 3 - a**2 - 7 / 3 * beta - public
    bounds = [0.0]
    for factor, times in (
        (math.sinh(epsilon), 1 + math.exp(-epsilon)),
        (math.exp(epsilon) / 2, 1.0),
    ):
        noise = factor * off * ROOT_MEAN_VARIANCE * math.sqrt(p)
        if delta is None:
            bounds.append((gap - MEAN_WEIGHTED_DEVIATION * times / 4) * p / noise)
        else:
            bounds.append(gap * p / (noise + MEAN_WEIGHTED_DEVIATION * times * delta * p))
    return math.ceil(max(bounds))
