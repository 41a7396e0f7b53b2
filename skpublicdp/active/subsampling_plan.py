"""Sizes, budgets and subsampling of the active learner, from public numbers alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skpublicdp.accounting import Event, Pure, Subsampled, basic_price, exact_fraction
from skpublicdp.accounting.amplification import base_delta, base_epsilon, subsample_size
from skpublicdp.base_learner import epsilon_delta, mechanism_event
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Codes

ROUNDING_MARGIN = 1 - Fraction(1, 1 << 50)
"""Factor on a budget before it is converted to a subsample: leaves room for rounding up later."""


@dataclass(frozen=True)
class SubsamplingPlan:
    """Sizes and budgets of one query and fit.

    Attributes
    ----------
    n_pool, n_queried, n_drawn : int
        Rows of the pool, rows to be labelled, and rows of the base learner (labelled included).
    roles : {"random", "paper"}
        Which of the drawn rows are labelled: a uniform choice, or those that come first.
    base : Event
        Privacy event of the base learner.
    event : Event
        The same event amplified by subsampling: the privacy loss of a row of the pool.
    epsilon : Fraction
        The ε that is promised; at least the ε of `event`.
    """

    n_pool: int
    n_queried: int
    n_drawn: int
    roles: str
    base: Event
    event: Event
    epsilon: Fraction

    def draw_queries(self, ledger: Ledger) -> Codes:
        """Draw the positions of the rows to be labelled; `draw_unlabelled` draws the others."""
        if self.roles == "random":
            return ledger.subset(self.n_pool, self.n_queried)
        return ledger.subset(self.n_pool, self.n_drawn)[: self.n_queried]

    def draw_unlabelled(self, queried: Codes, ledger: Ledger) -> Codes:
        """Draw the unlabelled rows given the queried ones, as positions among the other rows."""
        first = 0 if self.roles == "random" else int(queried[-1]) + 1 - self.n_queried
        return first + ledger.subset(
            self.n_pool - self.n_queried - first, self.n_drawn - self.n_queried
        )


def make_plan(
    n_pool: int,
    *,
    n_labels: int,
    epsilon: Fraction,
    delta: Fraction,
    base: Fraction | None,
    n_subsample: int | None,
    roles: str,
    transcript_private: bool,
    semi_supervised: bool,
) -> SubsamplingPlan:
    """Choose sizes and budgets for the parameters of `SubsamplingActiveLearner`, for one row.

    `base` is the ε of the base learner. None means the largest that `epsilon` allows.
    """
    base_target = max(Fraction(1), epsilon) if base is None else base
    n_queried = n_drawn = min(n_labels, n_pool)
    if semi_supervised:
        if n_subsample is not None:
            n_drawn = min(n_subsample, n_pool)
        elif transcript_private:
            n_drawn = n_pool
        else:
            n_drawn = max(n_queried, subsample_size(n_pool, epsilon, base_target, roles=roles))
        if n_drawn < n_queried:
            raise ValueError(
                f"n_subsample must not be less than the {n_queried} labels asked for; got "
                f"{n_drawn}."
            )
    # if all drawn rows are labelled, a row has a single role and the roles do not matter
    roles = "random" if n_drawn == n_queried else roles
    rate = Fraction(1) if transcript_private else Fraction(n_drawn, n_pool)

    def amplified(event: Event) -> Event:
        return event if rate == 1 else Subsampled(rate, event, roles)

    margin, epsilon_of_base = ROUNDING_MARGIN, base
    if rate == 1:
        margin, epsilon_of_base = Fraction(1), base or epsilon
    elif epsilon_of_base is None:
        epsilon_of_base = exact_fraction(base_epsilon(epsilon * margin, rate, roles=roles))
    event_epsilon = Fraction(basic_price(amplified(Pure(epsilon_of_base)))[0])
    if event_epsilon > epsilon:
        raise ValueError(
            f"base_epsilon={float(epsilon_of_base):g} on {n_drawn} of {n_pool} rows costs "
            f"{float(event_epsilon):.4g}, more than epsilon={float(epsilon):g}: ask for fewer "
            "labels, in a larger pool, or leave base_epsilon at 'auto'."
        )
    delta_of_base = base_delta(delta * margin, rate, event_epsilon, epsilon_of_base, roles=roles)
    if delta_of_base >= 1:
        raise ValueError(
            f"delta must be less than the share of the pool that is drawn, {float(rate):.4g}; "
            f"got {float(delta):g}."
        )
    event = mechanism_event(epsilon_of_base, exact_fraction(delta_of_base))
    promised_epsilon = epsilon if base is None else event_epsilon
    return SubsamplingPlan(
        n_pool, n_queried, n_drawn, roles, event, amplified(event), promised_epsilon
    )


SUBSAMPLING_PROOF = "Balle, Barthe and Gaboardi (2018), Theorem 9; docs/proofs/subsampling.md"


def stage_name(plan: SubsamplingPlan, base: Any) -> str:
    """Name the base learner and the rows it is run on, for the receipt."""
    rows = f"{plan.n_drawn} rows drawn from {plan.n_pool}, {plan.n_queried} labelled"
    return f"{type(base).__name__} on {rows}"


def receipt_assumptions(learner: Any, plan: SubsamplingPlan, *, queried: bool) -> tuple[str, ...]:
    """List the assumptions of a fit; `queried` indicates whether `query` ran before."""
    name, (epsilon, delta) = type(learner.estimator_).__name__, epsilon_delta(plan.base)
    base = f"ε = {epsilon:.4g}, δ = {delta:.4g}"
    assumptions = [
        f"{name} is ({base})-differentially private, as it was asked to be",
        "the numbers of rows, of labels and of rows drawn may be known",
    ]
    if learner.classes is None:
        where = "in the rows asked for" if queried else "in y"
        assumptions.append(f"the set of labels {where} may be known")
    if learner.max_rows_per_group is not None:
        assumptions.append("the base learner is counted for one row, the whole for a person")
    if learner.transcript_private:
        assumptions.append(
            "who was asked for may be known: it is part of the output (Definition 5.4 and "
            "Theorem 5.5 of Beimel, Nissim and Stemmer 2015)"
        )
    else:
        assumptions.append(
            "who was asked for and who was drawn stay secret (Definition 5.3 of Beimel, Nissim "
            f"and Stemmer 2015); for those who know it, and gave labels, it is {base}"
        )
    return tuple(assumptions)
