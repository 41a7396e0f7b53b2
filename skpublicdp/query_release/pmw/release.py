"""Query release by private multiplicative weights, which has an accuracy guarantee.

In each round, an exact draw of the exponential mechanism selects a query with a large error under
the current weights, together with the sign of this error. The weights are then updated towards this
query. docs/proofs/multiplicative_weights.md proves privacy. The notes of `plan_rounds` derive the
error bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from skpublicdp.accounting import Draw, Steps, zcdp_rho
from skpublicdp.data.dataset import Dataset
from skpublicdp.exceptions import TooFewRowsWarning, warn
from skpublicdp.guarantees import Promise, vc_dimension
from skpublicdp.guarantees.query_release import (
    choose_n_rounds,
    min_pmw_error,
    n_pmw_rows,
    pmw_error,
    release_sampling_error,
)
from skpublicdp.hypotheses.magnitudes import check_magnitudes
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.answers import (
    FittedRelease,
    MemberAnswers,
    ReleasedAnswers,
    RowAnswers,
)
from skpublicdp.query_release.planning import default_delta
from skpublicdp.query_release.pmw.cover import QueryCover
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.query_release.queries.geometric import HalfspaceQueries
from skpublicdp.query_release.synthetic import WeightedRows
from skpublicdp.rules.population_guarantee import NO_PUBLIC_ROWS, SYNTHETIC_VALUES, no_guarantee
from skpublicdp.typing import Floats, Integers

DEFAULT_TARGET_ERROR = 0.1
"""Target error for which a warning states the required number of rows if `alpha` is not given."""

WORST_QUERY = "worst query, by an exact draw of the exponential mechanism"
PMW_PROOF = "docs/proofs/multiplicative_weights.md"


def release_pmw(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    """Release queries by algorithm A_PAP, Algorithm 3 of Bassily et al. (2020)."""
    # shuffle, because the cover splits the public rows and their order may be informative
    X_public = np.random.default_rng(0).permutation(rows.X_public)
    if isinstance(queries, HalfspaceQueries):
        check_magnitudes(rows.X_public, rows.schema.names, "the dichotomies of halfspace queries")
    cover = queries.build_cover(X_public)
    n = rows.n_private
    # the remaining parts of alpha and beta are for the errors of the cover and of sampling
    plan = plan_rounds(
        n,
        cover.n_queries,
        cover.log_cells,
        ledger=ledger,
        beta=estimator.beta / 4,
        alpha=None if estimator.alpha is None else estimator.alpha / 2,
    )
    cell_counts = rows.fold(lambda X, _: cover.count(X), estimator.n_jobs)
    weights = run_pmw(cover.answers(cell_counts), n, cover, plan, ledger)
    weighted_rows = WeightedRows(*cover.weighted_rows(weights))
    answers: ReleasedAnswers = RowAnswers(queries, weighted_rows)
    if cover.member_index is not None:
        answers = MemberAnswers(
            queries, weighted_rows, cover.rows_error, cover.member_index, cover.answers(weights)
        )
    return FittedRelease(
        queries,
        rows.schema,
        answers,
        0.0,  # public rows have no weight, since the cell weights start uniform
        promise=_error_guarantee(estimator, queries, rows, cover=cover, plan=plan, ledger=ledger),
    )


def _error_guarantee(
    estimator: Any,
    queries: QueryClass,
    rows: Dataset,
    cover: QueryCover,
    plan: RoundPlan,
    ledger: Ledger,
) -> Promise:
    """Return the bound on all errors and an explanation of it, and warn if the bound is 1.

    The bound is the sum of the errors due to the cover, the rounds and sampling. The bound holds
    with probability 1 - beta.
    """
    n_features = rows.X_public.shape[1]
    d = max(vc_dimension(queries, n_features), 1)
    n, beta = rows.n_private, float(estimator.beta)
    # beta is split: 1/2 for the cover, 1/4 each for sampling and for the rounds
    sampling = release_sampling_error(n, cover.n_queries, beta, ledger.rows_per_person)
    radius = cover.radius(rows.n_public, d, beta / 2) if rows.n_public else 1.0
    error = min(1.0, radius + sampling + plan.error)
    if error >= 1:
        warn(
            'The guarantee of method="pmw" is vacuous for these rows, because its error bound is '
            f'1. {_rows_remedy(estimator, cover, radius, rows.n_public, ledger)}. method="auto" '
            "has no guarantee, but its errors are usually smaller.",
            TooFewRowsWarning,
        )
    if not rows.n_public:
        return no_guarantee(NO_PUBLIC_ROWS)
    if rows.is_synthetic.any():
        return no_guarantee(SYNTHETIC_VALUES)
    reason = (
        f"With probability {1 - beta:g} over all rows and draws, if private and public rows are "
        f"independent draws from the same population: at most {radius:.3g} for the cover, "
        f"{sampling:.3g} for sampling and {plan.error:.3g} for the rounds"
    )
    return Promise(
        error,
        f"{reason}." if error < 1 else f"{reason}. For so few rows, the sum is not a useful bound.",
    )


def _rows_remedy(
    estimator: Any, cover: QueryCover, radius: float, n_public: int, ledger: Ledger
) -> str:
    """Return a phrase that states how many rows are required, or why no number suffices.

    The target error is `alpha` or, if that is not given, `DEFAULT_TARGET_ERROR`. The phrase is part
    of a warning and depends only on public numbers.
    """
    enough = None if estimator.alpha is None else float(estimator.alpha) / 2
    target = DEFAULT_TARGET_ERROR if enough is None else 2 * enough
    min_round_error = min_pmw_error(cover.log_cells)
    min_error = cover.irreducible_error + min_round_error
    if min_error >= target:
        return (
            f"The guaranteed error cannot fall below {min(1.0, min_error):.2g} with any number of "
            "rows, because there are too many cells"
        )
    private_error = target - radius
    min_private_error = min_round_error if enough is None else max(min_round_error, enough / 2)
    if private_error <= min_private_error:
        return f"An error of {target:g} requires more than {n_public} public rows"

    def rows_needed(delta: float) -> int:
        """Return the number of private rows that the target error requires with a given δ."""
        return n_pmw_rows(
            private_error,
            float(estimator.beta),
            max(float(ledger.epsilon), 1e-9),  # avoid an infinite number of rows
            delta=delta,
            n_queries=cover.n_queries,
            log_cells=cover.log_cells,
            rows_per_person=ledger.rows_per_person,
            enough=enough,
        )

    n_needed = rows_needed(float(ledger.delta))
    if estimator.delta is None:
        # the default δ decreases with the number of rows, which increases the required number
        n_updated = rows_needed(default_delta(n_needed))
        while n_updated > n_needed:
            n_needed = n_updated
            n_updated = rows_needed(default_delta(n_needed))
    return f"With {n_public} public rows, an error of {target:g} requires {n_needed} private rows"


@dataclass(frozen=True)
class RoundPlan:
    """Parameters of the rounds, which are computed from public numbers only."""

    rounds: int  # number of rounds
    round_epsilon: Fraction  # budget ε of the exponential mechanism in each round
    rate: float  # learning rate
    # bound on the errors of all answers on the private rows, which holds with probability 1 - beta
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
    """Return the number of rounds with the smallest error bound, and the other parameters.

    Notes
    -----
    With T rounds and the learning rate √(8 ln N / T), the error of the average weights is at most
    √(ln N / 2T) plus the loss due to the draws. If each round has the budget ε₀, the loss due to a
    draw is (2 / ε₀) ln(2k T / β) rows, plus one row for rounding. If a person can have up to r
    rows, the loss is r times as large.

    Initially, KL(private ‖ weights) is at most ln N. A round whose query has error e in the drawn
    direction reduces this divergence by at least rate·e - rate²/8 (Hoeffding's lemma). Summing over
    all rounds shows that the mean of the drawn errors is at most √(ln N / 2T). Each drawn error is
    the largest error of its round, up to the loss of the exponential mechanism (Dwork and Roth
    2014, Corollary 3.12). Since the error of the average weights is the average of the errors in
    all rounds, the bound follows.

    The number of rounds is chosen using the budget per round under zCDP, which has a closed form.
    For the chosen number of rounds, each round then receives the largest budget that the ledger
    admits.
    """
    rho = float(zcdp_rho(ledger.epsilon, ledger.delta)) if ledger.delta else 0.0
    epsilon, rows_per_person = float(ledger.epsilon), ledger.rows_per_person
    n_rounds = choose_n_rounds(
        n,
        n_queries,
        log_cells,
        epsilon=epsilon,
        rho=rho,
        beta=beta,
        rows_per_person=rows_per_person,
        alpha=alpha,
    )
    round_epsilon = ledger.equal_draws(n_rounds)
    error = pmw_error(
        n_rounds,
        float(round_epsilon),
        n,
        n_queries=n_queries,
        log_cells=log_cells,
        beta=beta,
        rows_per_person=rows_per_person,
    )
    rate = math.sqrt(8 * max(log_cells, math.log(2)) / n_rounds)
    return RoundPlan(n_rounds, round_epsilon, rate, error)


def run_pmw(counts: Integers, n: int, cover: QueryCover, plan: RoundPlan, ledger: Ledger) -> Floats:
    """Return cell weights whose answers to all queries approximate the private answers.

    The weights are computed by private multiplicative weights and averaged over the rounds. The
    counts of the private rows are used only in the draws.
    """
    log_weights = np.zeros(cover.size)
    average = np.zeros(cover.size)
    event = Draw(plan.round_epsilon)
    ledger.plan(Steps((event,) * plan.rounds))
    for _ in range(plan.rounds):
        weights = cover.normalize_blocks(log_weights)
        average += weights / plan.rounds
        # a function of earlier draws, rounded so that errors are integers in units of rows
        expected = np.rint(n * cover.answers(weights)).astype(np.int64)
        deficit = counts - expected
        # Each query appears as two options, one for a weight that is too low and one for a weight
        # that is too high. The scores are the negative errors. A replaced row changes each score by
        # at most 1.
        family = Leaf(np.concatenate([-deficit, deficit]))
        option = int(ledger.draw(family, event, 1, name=WORST_QUERY, proof=PMW_PROOF))
        # lower scores have higher probability, and -deficit comes first
        is_too_low = option < len(counts)
        query = option % len(counts)
        step = plan.rate if is_too_low else -plan.rate
        log_weights += step * cover.incidence_row(query)
    return average
