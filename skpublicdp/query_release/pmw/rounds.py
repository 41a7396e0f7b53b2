"""Private multiplicative weights on the cells of a public cover.

That it is private is proved in docs/proofs/multiplicative_weights.md, how much it errs in
`plan_rounds`.

The distinguisher is the exponential mechanism, drawn exactly: each round it picks the query, with a
sign, on which the current weights err most, and the weights move towards it.
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
    """How the rounds are played, from public numbers only.

    Attributes
    ----------
    rounds : int
        Number of rounds.
    round_epsilon : Fraction
        Budget of the exponential mechanism in each.
    rate : float
        Learning rate.
    error : float
        With probability 1 - beta no answer on the private rows errs more.
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
    """Choose the number of rounds by the bound of the error.

    Parameters
    ----------
    n : int
        Private rows.
    n_queries : int
        Size of the cover.
    log_cells : float
        ln N, of the size of the representative domain.
    ledger : Ledger
        What may be spent.
    beta : float
        Probability with which the bound may fail.
    alpha : float, optional
        An error that is enough: no more rounds are played than take the weights halfway there.

    Returns
    -------
    Plan
        With T rounds of learning rate √(8 ln N / T), the average weights err by at most
        √(ln N / 2T), plus what the draws miss: (2 / ε₀) ln(2k T / β) rows each, ε₀ being the budget
        of a round, plus one row for rounding. If a person may have r rows, they miss r times as
        much.

    Notes
    -----
    KL(private ‖ weights) starts at no more than ln N. A round with a query whose answer is off by e
    in the drawn direction lowers it by at least rate·e - rate²/8 (Hoeffding's lemma). Add up, and
    divide by the number of rounds: the drawn errors are on average at most √(ln N / 2T). Each is
    the largest of its round, up to what the exponential mechanism misses (Dwork and Roth 2014,
    Corollary 3.12), and the errors of the average weights are averages of errors.

    The number is chosen by the budgets that zCDP gives to a round, which have a closed form. Those
    of the chosen number are then as large as the ledger finds them.
    """
    rho = float(zcdp_rho(ledger.epsilon, ledger.delta)) if ledger.delta else 0.0
    of_class = n, n_queries, log_cells
    best = choose_n_rounds(
        *of_class, float(ledger.epsilon), rho, beta, ledger.rows_per_person, alpha
    )
    budget = ledger.equal_draws(best)
    error = pmw_error(best, float(budget), *of_class, beta, ledger.rows_per_person)
    rate = math.sqrt(8 * max(log_cells, math.log(2)) / best)
    return RoundPlan(best, budget, rate, error)


def run_pmw(
    counts: Integers, n: int, arrangement: QueryCover, plan: RoundPlan, ledger: Ledger
) -> Floats:
    """Play the rounds of private multiplicative weights.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_queries,)
        Private rows for which each query holds: used in the draws alone.
    n : int
        Private rows.
    arrangement : QueryCover
        Which queries hold in which cells.
    plan : RoundPlan
        Rounds and budgets.
    ledger : Ledger
        Pays.

    Returns
    -------
    ndarray of shape (size of the arrangement,)
        The average weights over the rounds, with sum 1 in each block.
    """
    logs = np.zeros(arrangement.size)
    average = np.zeros(arrangement.size)
    event = Draw(plan.round_epsilon)
    ledger.plan(Steps((event,) * plan.rounds))
    for _ in range(plan.rounds):
        weights = arrangement.normalised(logs)
        average += weights / plan.rounds
        # a function of what was released before, in whole rows
        expected = np.rint(n * arrangement.answers(weights)).astype(np.int64)
        lacking = counts - expected
        # a replaced row moves each of these errors by at most 1
        family = Leaf(np.concatenate([-lacking, lacking]))
        place = int(ledger.draw(family, event, 1, name=WORST_QUERY, proof=PMW_PROOF))
        too_low, query = place < len(counts), place % len(counts)
        logs += (plan.rate if too_low else -plan.rate) * arrangement.incidence_row(query)
    return average
