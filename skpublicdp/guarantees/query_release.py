"""Sample sizes and error bounds for query release."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from skpublicdp.accounting import exact_fraction, gaussian_mu_squared, zcdp_rho
from skpublicdp.guarantees.population import (
    check_ranges,
    growth_function,
    log_growth,
    n_public,
    smallest_integer,
)

MAX_PMW_ROUNDS = 2048
"""Maximum number of rounds.

A larger number of rounds takes minutes, and the error bound hardly improves."""

PMW_ROUND_CHOICES = (*range(1, 16), *(int(16 * 2 ** (i / 4)) for i in range(29)))
"""Numbers of rounds to compare: 1 to 15, then 16 to 2048 in steps by a factor of 2^(1/4)."""


def n_query_release(
    alpha: float,
    beta: float,
    epsilon: float,
    delta: float,
    d: int,
    dual: int | None = None,
    *,
    constants: str = "paper",
) -> int:
    """Return the number of private rows required to answer all queries of a class.

    Parameters
    ----------
    alpha : float
        Maximum error of an answer, in (0, 1). Answers are fractions in [0, 1]. The paper's answers
        are in [-1, 1], so its alpha is twice as large.
    beta : float
        Probability, in (0, 1), with which some answer may have a larger error.
    epsilon, delta : float
        Privacy budget. With the paper's constants, both parameters are in (0, 1), the range assumed
        by its lemma. With the tight constants, delta can be 0.
    d : int
        VC dimension of the class, or an upper bound.
    dual : int, optional
        VC dimension of the dual class; the default is Assouad's bound 2^(d+1) - 1.
    constants : {"paper", "tight"}, default="paper"
        The constants of the paper, or of ``PAPQueryRelease(method="pmw")``.

    Returns
    -------
    int
        Number of private rows that are required in addition to m public rows. Let H =
        ``growth_function(m, d)`` be the number of dichotomies of the public rows, and X =
        ``growth_function(H, dual)`` the number of cells that they generate.

        - *Paper*: m is ``n_public(alpha / 2, beta / 2, d)``. The result is(ln X ln(2 / delta)) (ln
          H + ln(256 ln X / (alpha^2 beta))) / (epsilon alpha^2)``, which is Lemma 7 with its
          constants at half of the paper's alpha and beta.
        - *Tight*: m is ``n_public(alpha / 4, beta / 2, d, constants="tight")``. The result is the
          smallest n at which the error of the rounds plus ``sqrt(ln(8 H / beta) / 2n)`` for
          sampling is at most 3 alpha/4, each at beta/4. The `guarantee_` of the release is then at
          most alpha, if its cover has a member for each dichotomy and its `alpha` is ``None`` or
          the same alpha.

    Raises
    ------
    ValueError
        If a number is out of range, or if no number of rows suffices with the tight constants
        because there are at most 2048 rounds.

    References
    ----------
    Bassily, Cheu, Moran, Nikolov, Ullman and Wu (2020), Theorem 10, Lemmas 7 and 11, Claim 3 and
    Fact 4; docs/proofs/multiplicative_weights.md.

    Examples
    --------
    >>> budget = {"epsilon": 0.5, "delta": 1e-6}
    >>> n_query_release(alpha=0.1, beta=0.05, **budget, d=1, dual=1)
    9465538
    >>> n_query_release(alpha=0.1, beta=0.05, **budget, d=1, dual=1, constants="tight")
    269643
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d)
    if constants not in ("paper", "tight"):
        raise ValueError(f"constants must be 'paper' or 'tight'; got {constants!r}.")
    if constants == "paper" or delta:
        check_ranges(delta=delta)
    if constants == "paper" and epsilon >= 1:
        raise ValueError(
            "epsilon must be below 1 for constants='paper', because Lemma 7 of Bassily et al. "
            f"(2020) requires it; got {epsilon!r}."
        )
    cover_alpha = alpha / (4 if constants == "tight" else 2)
    n_queries = growth_function(n_public(cover_alpha, beta / 2, d, constants=constants), d)
    log_cells = log_growth(n_queries, 2 ** (d + 1) - 1 if dual is None else dual)
    if constants == "tight":
        min_error = min_pmw_error(log_cells)
        if min_error >= 3 * alpha / 4:
            raise ValueError(
                f"alpha must be above {4 / 3 * min_error:.2g} for d={d}, because there are at most "
                f"{MAX_PMW_ROUNDS} rounds; got {alpha!r}."
            )
        return n_pmw_rows(
            3 * alpha / 4, beta, epsilon, delta, n_queries, log_cells, enough=alpha / 2
        )
    log_tail = math.log(n_queries) + math.log(256 * log_cells / (alpha**2 * beta))
    noise_factor = 200 * math.sqrt(log_cells * math.log(2 / delta))
    return math.ceil(noise_factor * log_tail / (epsilon * alpha**2))


def n_release_learner(
    alpha: float,
    beta: float,
    epsilon: float,
    delta: float,
    d: int,
    dual: int | None = None,
) -> int:
    """Return the number of private rows required by a learner based on released label parts.

    Parameters
    ----------
    alpha : float
        Excess population error, in (0, 1), over the best query of the class used as a classifier.
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon, delta : float
        Total privacy budget of all releases. delta can be 0.
    d : int
        VC dimension of the class, or an upper bound.
    dual : int, optional
        VC dimension of the dual class; the default is Assouad's bound 2^(d+1) - 1.

    Returns
    -------
    int
        Number of private rows required in addition to ``m = n_public(0.23 alpha / 4, beta / 8, d,
        constants="tight")`` labelled public rows. The same rows are used for

        - releases of the negative and the positive table of `query_release.label_parts`, each
          within a = 0.23 alpha, with ``0.49 epsilon``, delta / 2 and beta / 4:
          ``PAPQueryRelease(method="pmw")``,
        - the fraction of label 1 within c = alpha / 100, with ``0.02 epsilon`` and beta / 4:
          ``metrics.private_accuracy_score(y, np.ones(n), epsilon=0.02 * epsilon)``.

        The guarantee of `query_release.learner_from_label_parts`, with (fraction, c) as `labels`,
        is then at most alpha: 4 a + 2 c, and a / 4 for a list of queries with one query for each
        labelling of the public rows. The number is ``n_query_release(a, ...)`` or, for the count,
        ``n_stumps(c, ..., p=1)``, whichever is larger.

    Raises
    ------
    ValueError
        If a number is out of range, or if no number of rows suffices because there are at most 2048
        rounds.

    References
    ----------
    Bassily, Cheu, Moran, Nikolov, Ullman and Wu (2020), Lemma 17, with constants;
    docs/proofs/guarantees.md.

    Examples
    --------
    >>> n_release_learner(alpha=0.4, beta=0.05, epsilon=1.0, delta=1e-6, d=1, dual=1)
    386071
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d)
    half_budget = (0.49 * epsilon, delta / 2)
    for_tables = n_query_release(0.23 * alpha, beta / 4, *half_budget, d, dual, constants="tight")
    return max(for_tables, n_stumps(alpha / 100, beta / 4, 0.02 * epsilon, 0, p=1))


def n_stumps(alpha: float, beta: float, epsilon: float, delta: float, p: int) -> int:
    """Return the number of private rows required to answer p binary columns with noisy counts.

    The queries are decision stumps on p binary columns: the fraction of ones in each column. No
    public rows are required. The noise is generated by `Ledger.add_noise`.

    Parameters
    ----------
    alpha : float
        Maximum error of an answer, in (0, 1). Answers are fractions in [0, 1]. The paper's answers
        are in [-1, 1], so its alpha is twice as large.
    beta : float
        Probability, in (0, 1), with which some answer may have a larger error.
    epsilon, delta : float
        Privacy budget. The noise is rounded Gaussian, or discrete Laplace if delta is 0.
    p : int
        Number of columns.

    Returns
    -------
    int
        The smallest n for which one of two bounds is at most alpha. The first bound is the sum of
        ``sqrt(ln(4 p / beta) / 2n)`` for sampling and the largest of p noise terms, divided by n,
        each with beta/2. The second is Chernoff's bound on the sum of sampling error and noise.
        With Gaussian noise of standard deviation σ, it is ``(sqrt(2 (n / 4 + σ²) ln(2 p / beta)) +
        1/2) / n``, in which the variances are added instead of the deviations. The order is
        ``log(p) / alpha^2 + sqrt(p log p) / (epsilon alpha)`` with Gaussian noise, and ``log(p) /
        alpha^2 + p log(p) / (epsilon alpha)`` with Laplace noise.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    Replacing a row changes each of p counts by at most 1, so the L2 sensitivity is sqrt(p) and the
    L1 sensitivity is p. The absolute value of a rounded Gaussian variable exceeds ``σ Φ⁻¹(1 - beta
    / 4p) + 1/2`` with probability at most beta / 2p, for ``σ = sqrt(p) / μ``. A discrete Laplace
    variable of scale p / epsilon exceeds ``p ln(4 p / beta) / epsilon`` in absolute value with at
    most the same probability. docs/proofs/multiplicative_weights.md derives Chernoff's bound.

    See Also
    --------
    n_query_release : Number of rows for infinitely many queries, using public rows.
    n_query_release_lower : A matching lower bound for all algorithms.

    References
    ----------
    Bassily, Cheu, Moran, Nikolov, Ullman and Wu (2020), the upper bound in section 4; Dwork,
    McSherry, Nissim and Smith (2006).

    Examples
    --------
    >>> n_stumps(alpha=0.01, beta=0.05, epsilon=1.0, delta=1e-6, p=100)
    47769
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, p=p)
    if delta:
        check_ranges(delta=delta)
    log_sides = math.log(2 * p) - math.log(beta)  # two sides of p columns
    log_failure = log_sides + math.log(2)
    rounding = 1 + 2**-20  # noise scales are rounded up
    if delta:
        mu = math.sqrt(gaussian_mu_squared(exact_fraction(epsilon), exact_fraction(delta)))
        scale = rounding * math.sqrt(p) / mu
        noise_rows = scale * -float(ndtri(beta / (4 * p))) + 0.5
    else:
        scale = rounding * p / epsilon
        noise_rows = scale * log_failure
    # rates of Chernoff's bound, and the logarithms of its factors for Laplace noise
    rates = np.arange(1, 1025) / 1024 / scale
    log_factors = -np.log1p(-((rates[:-1] * scale) ** 2))
    log_factors = np.append(log_factors, -math.log1p(math.exp(-1 / scale)))

    def is_enough(n: int) -> bool:
        max_rows = alpha * n
        sampling_rows = math.sqrt(log_failure * n / 2)
        if sampling_rows + noise_rows <= max_rows:
            return True
        if delta:
            variance = n / 4 + scale**2
            deviation = math.sqrt(2 * variance * log_sides)
            return deviation + 0.5 <= max_rows
        log_moments = rates**2 * n / 8 + log_factors
        log_tails = log_moments - rates * max_rows
        return bool(log_tails.min() <= -log_sides)

    return smallest_integer(is_enough)


def n_pmw_rows(
    error: float,
    beta: float,
    epsilon: float,
    delta: float,
    n_queries: int,
    log_cells: float,
    *,
    rows_per_person: int = 1,
    enough: float | None = None,
) -> int:
    """Return the number of private rows for a given error bound of multiplicative weights.

    The error bound `error` is the sum of `pmw_error` and `release_sampling_error`, each at beta /
    4.

    Parameters
    ----------
    error : float
        Maximum error of an answer, which must be above `min_pmw_error`.
    beta : float
        Probability of failure; each of the two bounds may fail with a quarter of it.
    epsilon, delta : float
        Total privacy budget of all rounds.
    n_queries : int
        Size of the cover.
    log_cells : float
        Natural logarithm of the size of the representative domain.
    rows_per_person : int, default=1
        Maximum number of private rows per person.
    enough : float, optional
        The `alpha` of `choose_n_rounds`.
    """
    rho = float(zcdp_rho(exact_fraction(epsilon), exact_fraction(delta))) if delta else 0.0

    def is_enough(n: int) -> bool:
        n_rounds = choose_n_rounds(
            n, n_queries, log_cells, epsilon, rho, beta / 4, rows_per_person, enough
        )
        # slightly less than by zCDP composition, so the release is guaranteed at least this much
        round_epsilon = (1 - 2**-10) * approximate_round_budget(n_rounds, epsilon, rho)
        round_error = pmw_error(
            n_rounds, round_epsilon, n, n_queries, log_cells, beta / 4, rows_per_person
        )
        return round_error + release_sampling_error(n, n_queries, beta, rows_per_person) <= error

    return smallest_integer(is_enough)


def min_pmw_error(log_cells: float) -> float:
    """Return the smallest error bound of multiplicative weights: all rounds, without noise."""
    return math.sqrt(max(log_cells, math.log(2)) / (2 * MAX_PMW_ROUNDS))


def release_sampling_error(n: int, n_queries: int, beta: float, rows_per_person: int = 1) -> float:
    """Return a bound on the sampling error of all answers, which fails with probability beta/4.

    The bound is the two-sided Hoeffding inequality for n / rows_per_person independent rows.
    """
    n_independent = n / rows_per_person
    return math.sqrt((math.log(8 * n_queries) - math.log(beta)) / (2 * n_independent))


def choose_n_rounds(
    n: int,
    n_queries: int,
    log_cells: float,
    epsilon: float,
    rho: float,
    beta: float,
    rows_per_person: int = 1,
    alpha: float | None = None,
) -> int:
    """Return the number of rounds of multiplicative weights with the smallest error bound."""

    def error(n_rounds: int) -> float:
        round_epsilon = approximate_round_budget(n_rounds, epsilon, rho)
        return pmw_error(n_rounds, round_epsilon, n, n_queries, log_cells, beta, rows_per_person)

    allowed = (n_rounds for n_rounds in PMW_ROUND_CHOICES if n_rounds <= MAX_PMW_ROUNDS)
    best: int = min(allowed, key=error)
    if alpha is not None:
        # with this number of rounds T the error without noise, √(ln N / 2T), is alpha / 2
        sufficient = math.ceil(max(log_cells, math.log(2)) / (2 * (alpha / 2) ** 2))
        best = min(best, sufficient)
    return best


def approximate_round_budget(rounds: int, epsilon: float, rho: float) -> float:
    """Return the largest ε that each of several rounds can use, by basic or zCDP composition.

    A draw with ε₀ satisfies ε₀²/8-zCDP, so each round can use ε₀ = √(8 ρ / rounds).
    """
    return max(epsilon / rounds, math.sqrt(8 * rho / rounds))


def pmw_error(
    rounds: int,
    round_epsilon: float,
    n: int,
    n_queries: int,
    log_cells: float,
    beta: float,
    rows_per_person: int = 1,
) -> float:
    """Return a bound on the maximum error of the averaged weights, as a fraction of private rows.

    With probability 1 - beta, the error of every query is at most √(ln N / 2T) for T rounds on N
    cells, plus the error of the draws. For k queries and ε₀ per round, the error of the draws is (2
    / ε₀) ln(2k T / β) rows, multiplied by the number of rows per person, plus one row for rounding.
    """
    draw_rows = 2 * rows_per_person / round_epsilon * math.log(2 * n_queries * rounds / beta)
    return math.sqrt(max(log_cells, math.log(2)) / (2 * rounds)) + (draw_rows + 1) / n
