"""How many rows private query release needs."""

from __future__ import annotations

import math

from skpublicdp.accounting import exact_fraction, zcdp_rho
from skpublicdp.guarantees.growth import (
    check_ranges,
    growth_function,
    log_growth,
    n_public,
    smallest_integer,
)

MAX_PMW_ROUNDS = 2048
"""Maximum number of rounds: more take minutes, for a bound that hardly improves."""


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
    """Count the private rows with which all queries of a class are answered.

    Parameters
    ----------
    alpha : float
        Largest error of an answer, in (0, 1). Answers are shares, in [0, 1]; the paper's are in
        [-1, 1] and its alpha is twice this one.
    beta : float
        Probability, in (0, 1), with which some answer may err more.
    epsilon, delta : float
        Privacy budget. For the paper's constants both are in (0, 1), as the lemma stops there. For
        the tight ones delta may be 0.
    d : int
        VC dimension of the class, or a bound on it.
    dual : int, optional
        VC dimension of the dual class; by default Assouad's bound 2^(d+1) - 1.
    constants : {"paper", "tight"}, default="paper"
        Those of the paper, or the rounds that ``PAPQueryRelease(method="pmw")`` plays.

    Returns
    -------
    int
        Private rows needed beside m public ones. H = ``growth_function(m, d)`` counts the
        dichotomies of these, X = ``growth_function(H, dual)`` the cells they make.

        - *Paper*: m is ``n_public(alpha / 2, beta / 2, d)``, and the number ``200 sqrt(ln X ln(2 /
          delta)) (ln H + ln(256 ln X / (alpha^2 beta))) / (epsilon alpha^2)``, Lemma 7 with its
          constants at half of the paper's alpha and beta.
        - *Tight*: m is ``n_public(alpha / 4, beta / 2, d, constants="tight")``, and the number the
          least n at which the rounds lose at most 3 alpha/4 with ``sqrt(ln(8 H / beta) / 2n)`` for
          sampling, each at beta/4. So `guarantee_` of the release is at most alpha, if its cover
          has a member for each dichotomy, and its `alpha` is ``None`` or the same.

    Raises
    ------
    ValueError
        If a number is out of range, or no number of rows is enough for the tight constants, as at
        most 2048 rounds are played.

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
            "epsilon must be below 1, where Lemma 7 of Bassily et al. (2020) stops; got "
            f"{epsilon!r}."
        )
    part = alpha / (4 if constants == "tight" else 2)
    queries = growth_function(n_public(part, beta / 2, d, constants=constants), d)
    cells = log_growth(queries, 2 ** (d + 1) - 1 if dual is None else dual)
    if constants == "tight":
        if (least_error := min_pmw_error(cells)) >= 3 * alpha / 4:
            raise ValueError(
                f"alpha must be above {4 / 3 * least_error:.2g} for d={d}, as at most "
                f"{MAX_PMW_ROUNDS} rounds are played; got {alpha!r}."
            )
        return n_pmw_rows(3 * alpha / 4, beta, epsilon, delta, queries, cells, enough=alpha / 2)
    tail = math.log(queries) + math.log(256 * cells / (alpha**2 * beta))
    return math.ceil(200 * math.sqrt(cells * math.log(2 / delta)) * tail / (epsilon * alpha**2))


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
    """Return the least number of private rows at which rounds and sampling lose at most `error`.

    `error` is above `min_pmw_error`, and `enough` is the `alpha` of `choose_n_rounds`. The budget
    of a round is what zCDP gives, less 2^-10 of it. The plan calculus gives at least that much.
    """
    rho = float(zcdp_rho(exact_fraction(epsilon), exact_fraction(delta))) if delta else 0.0

    def holds(n: int) -> bool:
        of_class = n, n_queries, log_cells
        rounds = choose_n_rounds(*of_class, epsilon, rho, beta / 4, rows_per_person, enough)
        budget = (1 - 2**-10) * approximate_round_budget(rounds, epsilon, rho)
        lost = pmw_error(rounds, budget, *of_class, beta / 4, rows_per_person)
        return lost + release_sampling_error(n, n_queries, beta, rows_per_person) <= error

    return smallest_integer(holds)


def min_pmw_error(log_cells: float) -> float:
    """Return the error of the largest number of rounds without any noise."""
    return math.sqrt(max(log_cells, math.log(2)) / (2 * MAX_PMW_ROUNDS))


def release_sampling_error(n: int, n_queries: int, beta: float, rows_per_person: int = 1) -> float:
    """Bound by how much n rows differ from the population in all answers, at beta/4.

    By Hoeffding's inequality on both sides. Of n rows n / rows_per_person are independent.
    """
    independent = n / rows_per_person
    return math.sqrt((math.log(8 * n_queries) - math.log(beta)) / (2 * independent))


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
    """Return the number of rounds of multiplicative weights with the least bound of the error.

    Parameters
    ----------
    n : int
        Private rows.
    n_queries : int
        Size of the cover.
    log_cells : float
        ln N, of the size of the representative domain.
    epsilon : float
        Privacy budget of all rounds.
    rho : float
        Their budget in zCDP; 0 for δ = 0.
    beta : float
        Probability with which the bound may fail.
    rows_per_person : int, default=1
        Private rows that a person may have.
    alpha : float, optional
        An error that is enough: no more rounds are played than take the weights halfway there.
    """

    def error(rounds: int) -> float:
        budget = approximate_round_budget(rounds, epsilon, rho)
        return pmw_error(rounds, budget, n, n_queries, log_cells, beta, rows_per_person)

    choices = [*range(1, 16), *(int(16 * 2 ** (i / 4)) for i in range(29))]
    best: int = min((rounds for rounds in choices if rounds <= MAX_PMW_ROUNDS), key=error)
    if alpha is not None:
        best = min(best, math.ceil(max(log_cells, math.log(2)) / (2 * (alpha / 2) ** 2)))
    return best


def approximate_round_budget(rounds: int, epsilon: float, rho: float) -> float:
    """Return the budget of a round by composition in ε or in zCDP, whichever is larger."""
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
    """Bound the error of the average weights on the private rows, with probability 1 - beta.

    √(ln N / 2T), plus what the draws of T rounds miss: (2 / ε₀) ln(2k T / β) rows each, ε₀ being
    the budget of a round, times the rows of a person, plus one row for rounding.
    """
    missed = 2 * rows_per_person / round_epsilon * math.log(2 * n_queries * rounds / beta)
    return math.sqrt(max(log_cells, math.log(2)) / (2 * rounds)) + (missed + 1) / n
