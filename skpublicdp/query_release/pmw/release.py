"""Query release by private multiplicative weights, with its accuracy guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np

from skpublicdp.data.dataset import Dataset
from skpublicdp.exceptions import TooFewRowsWarning, warn
from skpublicdp.guarantees import Promise, vc_dimension
from skpublicdp.guarantees.query_release import min_pmw_error, n_pmw_rows, release_sampling_error
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.answers import (
    FittedRelease,
    MemberAnswers,
    ReleasedAnswers,
    RowAnswers,
)
from skpublicdp.query_release.pmw.cover import QueryCover
from skpublicdp.query_release.pmw.rounds import RoundPlan, plan_rounds, run_pmw
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.query_release.spending import default_delta
from skpublicdp.query_release.weighted_rows import WeightedRows
from skpublicdp.rules.population_guarantee import NO_PUBLIC_ROWS, SYNTHETIC_VALUES, no_guarantee

DEFAULT_TARGET_ERROR = 0.1
"""Error for which a warning states the number of rows, if the estimator has no `alpha`."""


def release_pmw(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    """Release queries by algorithm A_PAP, Algorithm 3 of Bassily et al. (2020).

    Parameters
    ----------
    estimator : PAPQueryRelease
        Its parameters `alpha`, `beta`, `delta` and `n_jobs` are used.
    queries : QueryClass
        The class, bound to the schema.
    rows : Dataset
        Public and private rows.
    ledger : Ledger
        Privacy ledger that is charged.
    """
    # the cover splits the public rows, whose order may be informative
    X_public = np.random.default_rng(0).permutation(rows.X_public)
    cover = queries.build_cover(X_public)
    n = rows.n_private
    # the other parts of alpha and beta are for the errors of the cover and of sampling
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
        answers = MemberAnswers(queries, weighted_rows, cover.member_index, cover.answers(weights))
    return FittedRelease(
        queries,
        rows.schema,
        answers,
        0.0,  # public rows have no weight: the weights of the cells start uniform
        promise=_error_guarantee(estimator, queries, rows, cover, plan, ledger),
    )


def _error_guarantee(
    estimator: Any,
    queries: QueryClass,
    rows: Dataset,
    cover: QueryCover,
    plan: RoundPlan,
    ledger: Ledger,
) -> Promise:
    """Return the bound on the errors of all answers, with its reason, and warn if it is 1.

    The bound is the sum of the errors of the cover, of the rounds and of sampling. It holds with
    probability 1 - beta.
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
            'The guarantee of method="pmw" for these rows is an error of 1, which is no bound: '
            f"{_rows_remedy(estimator, cover, radius, rows.n_public, ledger)}. "
            'method="auto" has no guarantee, but its errors are usually smaller.',
            TooFewRowsWarning,
        )
    if not rows.n_public:
        return no_guarantee(NO_PUBLIC_ROWS)
    if rows.is_synthetic.any():
        return no_guarantee(SYNTHETIC_VALUES)
    reason = (
        f"With probability {1 - beta:g} over all rows and draws, if private and public rows are "
        f"independent and of one population: at most {radius:.3g} for the cover, {sampling:.3g} "
        f"for sampling and {plan.error:.3g} for the rounds"
    )
    return Promise(
        error,
        f"{reason}." if error < 1 else f"{reason}. For so few rows the sum is no bound.",
    )


def _rows_remedy(
    estimator: Any, cover: QueryCover, radius: float, n_public: int, ledger: Ledger
) -> str:
    """Return a phrase that says how many rows the target error takes, or why none suffice.

    The target is `alpha`, or `DEFAULT_TARGET_ERROR`. The phrase is part of a warning and depends on
    public numbers alone.
    """
    enough = None if estimator.alpha is None else float(estimator.alpha) / 2
    target = DEFAULT_TARGET_ERROR if enough is None else 2 * enough
    min_round_error = min_pmw_error(cover.log_cells)
    min_error = cover.irreducible_error + min_round_error
    if min_error >= target:
        return (
            "cells, not rows, are the limit, as no number of rows guarantees less than "
            f"{min(1.0, min_error):.2g}"
        )
    private_error = target - radius
    min_private_error = min_round_error if enough is None else max(min_round_error, enough / 2)
    if private_error <= min_private_error:
        return f"an error of {target:g} takes more than these {n_public} public rows"

    def rows_needed(delta: float) -> int:
        """Return the number of private rows for the target error at a given δ."""
        return n_pmw_rows(
            private_error,
            float(estimator.beta),
            max(float(ledger.epsilon), 1e-9),  # keeps the number of rows finite
            delta,
            cover.n_queries,
            cover.log_cells,
            rows_per_person=ledger.rows_per_person,
            enough=enough,
        )

    n_needed = rows_needed(float(ledger.delta))
    if estimator.delta is None:
        # the default δ decreases with the number of rows, which increases the number needed
        n_updated = rows_needed(default_delta(n_needed))
        while n_updated > n_needed:
            n_needed = n_updated
            n_updated = rows_needed(default_delta(n_needed))
    return f"an error of {target:g} takes {n_needed} private rows with these {n_public} public ones"
