"""Private multiplicative weights as a method of a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.fit_inputs import Dataset
from skpublicdp.exceptions import TooFewRowsWarning, warn
from skpublicdp.guarantees import Promise, vc_dimension
from skpublicdp.guarantees.query_release import min_pmw_error, n_pmw_rows, release_sampling_error
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.fitted_release import FittedRelease, bind_queries
from skpublicdp.query_release.pmw.cover import QueryCover
from skpublicdp.query_release.pmw.rounds import RoundPlan, plan_rounds, run_pmw
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.query_release.spending import default_delta
from skpublicdp.query_release.weighted_rows import WeightedRows
from skpublicdp.rules.population_guarantee import NO_PUBLIC_ROWS, SYNTHETIC_VALUES, no_guarantee
from skpublicdp.typing import Floats


@dataclass(frozen=True, eq=False)
class MemberAnswers:
    """Answers of a cover, and what finds the members that stand for queries."""

    queries: QueryClass
    index: Any
    answers: Floats

    def __call__(self, Q: NDArray[Any]) -> Floats:
        """Answer queries of the class by members of the cover."""
        return np.clip(self.answers[self.queries.nearest_members(Q, self.index)], 0, 1)


def release_pmw(
    estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger
) -> FittedRelease:
    """Run A_PAP, Algorithm 3 of Bassily et al. (2020)."""
    bound = bind_queries(queries, rows)
    X_public = np.random.default_rng(0).permutation(rows.X_public)  # public order means nothing
    arrangement = bound.build_cover(X_public)
    n = rows.n_private
    plan = plan_rounds(
        n,
        arrangement.n_queries,
        arrangement.log_cells,
        ledger=ledger,
        beta=estimator.beta / 4,
        alpha=None if estimator.alpha is None else estimator.alpha / 2,
    )
    cells = rows.fold(lambda X, _: arrangement.count(X), estimator.n_jobs)
    weights = run_pmw(arrangement.answers(cells), n, arrangement, plan, ledger)
    table = WeightedRows(*arrangement.table(weights))
    projection = None
    if arrangement.index is not None:
        projection = MemberAnswers(bound, arrangement.index, arrangement.answers(weights))
    return FittedRelease(
        bound,
        rows.schema,
        table,
        0.0,  # the weights start uniform
        projection=projection,
        promise=_promise(estimator, bound, rows, arrangement, plan, ledger),
    )


def _promise(
    estimator: Any,
    queries: QueryClass,
    rows: Dataset,
    arrangement: QueryCover,
    plan: RoundPlan,
    ledger: Ledger,
) -> Promise:
    """Bound the error by the cover, the rounds and sampling; warn if that says nothing."""
    n_features = rows.X_public.shape[1]
    d = max(vc_dimension(queries, n_features), 1)
    n, beta = rows.n_private, float(estimator.beta)
    sampling = release_sampling_error(n, arrangement.n_queries, beta, ledger.rows_per_person)
    radius = arrangement.radius(rows.n_public, d, beta / 2) if rows.n_public else 1.0
    error = min(1.0, radius + sampling + plan.error)
    if error >= 1:
        warn(
            'The guarantee of method="pmw" for these rows is an error of 1, which says nothing: '
            f"{_remedy(estimator, arrangement, radius, rows.n_public, ledger)}. "
            'method="auto" guarantees nothing and usually errs less.',
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
        f"{reason}." if error < 1 else f"{reason}, which for so few rows promises nothing.",
    )


def _remedy(
    estimator: Any, arrangement: QueryCover, radius: float, n_public: int, ledger: Ledger
) -> str:
    """Return what a useful error takes, from public numbers."""
    enough = None if estimator.alpha is None else float(estimator.alpha) / 2
    target = 0.1 if enough is None else 2 * enough
    rounds = min_pmw_error(arrangement.log_cells)
    if arrangement.irreducible_error + rounds >= target:
        return (
            "cells, not rows, are the limit, as no number of rows guarantees less than "
            f"{min(1.0, arrangement.irreducible_error + rounds):.2g}"
        )
    left = target - radius
    if left <= (rounds if enough is None else max(rounds, enough / 2)):
        return f"an error of {target:g} takes more than these {n_public} public rows"

    def rows_needed(delta: float) -> int:
        return n_pmw_rows(
            left,
            float(estimator.beta),
            max(float(ledger.epsilon), 1e-9),  # a smaller ε takes more rows than anybody has
            delta,
            arrangement.n_queries,
            arrangement.log_cells,
            rows_per_person=ledger.rows_per_person,
            enough=enough,
        )

    needed = rows_needed(float(ledger.delta))
    if estimator.delta is None:  # the default falls with the number of rows
        while (more := rows_needed(default_delta(needed))) > needed:
            needed = more
    return f"an error of {target:g} takes {needed} private rows with these {n_public} public ones"
