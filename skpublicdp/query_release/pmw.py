"""Private multiplicative weights as a method of a release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.door import Dataset
from skpublicdp.exceptions import TooFewRowsWarning, warn
from skpublicdp.guarantees import Promise, n_query_release, vc_dimension
from skpublicdp.ledger import Ledger
from skpublicdp.promise import MADE_UP, NO_PUBLIC, nothing
from skpublicdp.query_release.arrangements import Arrangement
from skpublicdp.query_release.multiplicative_weights import Plan, plan_rounds, play
from skpublicdp.query_release.queries import QueryClass
from skpublicdp.query_release.released import Released, bind
from skpublicdp.query_release.weighted import WeightedRows

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Projection:
    """Answers of a cover, and what finds the members that stand for queries."""

    queries: QueryClass
    members: Any
    answers: Floats

    def __call__(self, Q: NDArray[Any]) -> Floats:
        """Answer queries of the class by members of the cover."""
        return np.clip(self.answers[self.queries.project(Q, self.members)], 0, 1)


def release_pmw(estimator: Any, queries: QueryClass, rows: Dataset, ledger: Ledger) -> Released:
    """Run A_PAP, Algorithm 3 of Bassily et al. (2020)."""
    bound = bind(queries, rows)
    X_public = np.random.default_rng(0).permutation(rows.X_public)  # public order means nothing
    arrangement = bound.arrange(X_public)
    n = rows.n_private
    plan = plan_rounds(
        n,
        arrangement.n_queries,
        arrangement.log_cells,
        ledger=ledger,
        beta=estimator.beta / 4,
        alpha=None if estimator.alpha is None else estimator.alpha / 2,
    )
    cells = rows.fold(lambda X, _: arrangement.tally(X), estimator.n_jobs)
    weights = play(arrangement.answers(cells), n, arrangement, plan, ledger)
    table = WeightedRows(*arrangement.table(weights))
    projection = None
    if arrangement.members is not None:
        projection = Projection(bound, arrangement.members, arrangement.answers(weights))
    return Released(
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
    arrangement: Arrangement,
    plan: Plan,
    ledger: Ledger,
) -> Promise:
    """Bound the error by the cover, the rounds and sampling; warn if that says nothing."""
    n_features = rows.X_public.shape[1]
    d = max(vc_dimension(queries, n_features), 1)
    n, beta = rows.n_private, float(estimator.beta)
    persons = n / ledger.rows_per_person  # independent, which several rows of one need not be
    sampling = math.sqrt(math.log(8 * arrangement.n_queries / beta) / (2 * persons))
    radius = arrangement.radius(rows.n_public, d, beta / 2) if rows.n_public else 1.0
    error = radius + sampling + plan.error
    if error >= 1:
        target = 0.1 if estimator.alpha is None else float(estimator.alpha)
        # the theorem is for ε < 1 and δ > 0: a larger ε needs no more rows
        epsilon, delta = map(float, ledger.per_row(ledger.epsilon, ledger.delta))
        epsilon, delta = min(epsilon, 1 - 1e-9), min(delta or n**-2.0, 0.5)
        needed = n_query_release(target, beta, epsilon, delta, d, queries.dual(n_features))
        limit = "" if arrangement.floor < target else " Here cells, not rows, are the limit."
        warn(
            f'The guarantee of method="pmw" for these rows is an error of {error:.2g}, which '
            f"says nothing: an error of {target:g} takes {needed} private rows by Theorem 10 of "
            f'Bassily et al. (2020).{limit} method="auto" guarantees nothing and usually errs '
            "less.",
            TooFewRowsWarning,
        )
    if not rows.n_public:
        return nothing(NO_PUBLIC)
    if rows.made_up.any():
        return nothing(MADE_UP)
    reason = (
        f"With probability {1 - beta:g} over all rows and draws, if private and public rows are "
        f"independent and of one population: at most {radius:.3g} for the cover, {sampling:.3g} "
        f"for sampling and {plan.error:.3g} for the rounds"
    )
    return Promise(
        error,
        f"{reason}." if error < 1 else f"{reason}, which for so few rows promises nothing.",
    )
