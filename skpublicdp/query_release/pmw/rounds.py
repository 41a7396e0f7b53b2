"""Private multiplicative weights on the cells of a public cover.

In each round, an exact draw of the exponential mechanism selects a query with a large error under
the current weights, and the sign of the error. The weights are then updated towards this query.
Privacy is proved in docs/proofs/multiplicative_weights.md. The error bound is in the notes of
`plan_rounds`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skpublicdp.accounting import Draw, Steps, zcdp_rho
from skpublicdp.guarantees.query_release import choose_n_rounds, pmw_error
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.pmw.cover import QueryCover
from skpublicdp.typing import Floats, Integers

WORST_QUERY = "worst query, by an exact draw of the exponential mechanism"
PMW_PROOF = "docs/proofs/multiplicative_weights.md"


@dataclass(frozen=True)
class RoundPlan:
    """Parameters of the rounds, from public numbers only.

    Attributes
    ----------
    rounds : int
        Number of rounds.
    round_epsilon : Fraction
        Budget ε of the exponential mechanism in each round.
    rate : float
        Learning rate.
    error : float
        Error bound of all answers on the private rows, with probability 1 - beta.
    """

    rounds: int
    round_epsilon: Fraction
    rate: float
    error: float


def plan_rounds(
    n: int,
    n_queries: int,
    log_cells: float,
    *,
    ledger: Ledger,
    beta: float,
    alpha: float | None = None,
) -> RoundPlan:
    """Return the number of rounds with the smallest error bound, and the parameters of a round.

    Parameters
    ----------
    n : int
        Number of private rows.
    n_queries : int
        Size k of the cover.
    log_cells : float
        ln N, the logarithm of the size of the representative domain.
    ledger : Ledger
        The budget.
    beta : float
        Failure probability β of the bound.
    alpha : float, optional
        Sufficient error. There are at most as many rounds as bring √(ln N / 2T) down to a half of
        it.

    Returns
    -------
    RoundPlan
        Number of rounds, budget of a round, learning rate and error bound.

    Notes
    -----
    With T rounds of learning rate √(8 ln N / T), the error of the average weights is at most
    √(ln N / 2T), plus the loss of the draws. The loss of a draw is (2 / ε₀) ln(2k T / β) rows for
    the budget ε₀ of a round, plus one row for rounding. If a person may have r rows, it is r times
    as large.

    KL(private ‖ weights) is at most ln N at the start. A round whose query has the error e in the
    drawn direction reduces it by at least rate·e - rate²/8 (Hoeffding's lemma). The sum over all
    rounds shows that the mean of the drawn errors is at most √(ln N / 2T). Each of them is the
    largest error of its round, up to the loss of the exponential mechanism (Dwork and Roth 2014,
    Corollary 3.12). An error of the average weights is the average of the errors of all rounds.

    The number of rounds is chosen by the budget of a round under zCDP, which has a closed form. The
    budget of the chosen number is then the largest one that the ledger admits.
    """
    rho = float(zcdp_rho(ledger.epsilon, ledger.delta)) if ledger.delta else 0.0
    epsilon, rows_per_person = float(ledger.epsilon), ledger.rows_per_person
    n_rounds = choose_n_rounds(n, n_queries, log_cells, epsilon, rho, beta, rows_per_person, alpha)
    round_epsilon = ledger.equal_draws(n_rounds)
    error = pmw_error(
        n_rounds, float(round_epsilon), n, n_queries, log_cells, beta, rows_per_person
    )
    rate = math.sqrt(8 * max(log_cells, math.log(2)) / n_rounds)
    return RoundPlan(n_rounds, round_epsilon, rate, error)


def run_pmw(counts: Integers, n: int, cover: QueryCover, plan: RoundPlan, ledger: Ledger) -> Floats:
    """Return weights of cells whose answers to all queries approximate the private ones.

    The weights are those of private multiplicative weights, averaged over the rounds.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_queries,)
        Number of private rows for which each query holds. Only the draws use it.
    n : int
        Number of private rows.
    cover : QueryCover
        The cover and its cells.
    plan : RoundPlan
        Number of rounds, budget and learning rate.
    ledger : Ledger
        Privacy ledger that is charged for each draw.

    Returns
    -------
    ndarray of shape (cover.size,)
        The average weights over the rounds, with sum 1 in each block.
    """
    log_weights = np.zeros(cover.size)
    average = np.zeros(cover.size)
    event = Draw(plan.round_epsilon)
    ledger.plan(Steps((event,) * plan.rounds))
    for _ in range(plan.rounds):
        weights = cover.normalize_blocks(log_weights)
        average += weights / plan.rounds
        # a function of earlier draws, rounded so that errors are whole rows
        expected = np.rint(n * cover.answers(weights)).astype(np.int64)
        deficit = counts - expected
        # Each query is an option twice: as one whose weight is too low, and as one whose weight is
        # too high. The scores are minus the errors. A replaced row changes each by at most 1.
        family = Leaf(np.concatenate([-deficit, deficit]))
        option = int(ledger.draw(family, event, 1, name=WORST_QUERY, proof=PMW_PROOF))
        # lower scores are likelier, and -deficit comes first
        is_too_low, query = option < len(counts), option % len(counts)
        step = plan.rate if is_too_low else -plan.rate
        log_weights += step * cover.incidence_row(query)
    return average
