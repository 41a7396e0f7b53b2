"""How many rows private query release needs."""

from __future__ import annotations

import math

from skpublicdp.guarantees.growth import check, growth_function, log_growth, n_public


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
        Privacy budget, both in (0, 1): the lemma stops there.
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
    if epsilon >= 1:
        raise ValueError(
            "epsilon must be below 1, where Lemma 7 of Bassily et al. (2020) stops; got "
            f"{epsilon!r}."
        )
    queries = growth_function(n_public(alpha / 2, beta / 2, d), d)
    cells = log_growth(queries, 2 ** (d + 1) - 1 if dual is None else dual)
    tail = math.log(queries) + math.log(256 * cells / (alpha**2 * beta))
    return math.ceil(200 * math.sqrt(cells * math.log(2 / delta)) * tail / (epsilon * alpha**2))
