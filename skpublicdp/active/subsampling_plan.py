"""Row counts and privacy budgets of the active learner, based only on public numbers."""

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
"""Factor applied to ε and δ before they are converted to the budget of the base learner.

Without this margin, the amplified budget, which is rounded up, could exceed the privacy budget."""


@dataclass(frozen=True)
class SubsamplingPlan:
    """Row counts and privacy budgets of one query and its fit."""

    # number of rows in the pool, number of rows whose labels are queried, and number of rows,
    # labelled or not, that the base learner receives
    n_pool: int
    n_queried: int
    n_drawn: int
    # which of the drawn rows are queried: rows chosen uniformly at random, or the rows that come
    # first in the pool
    roles: str
    base: Event  # privacy event of the base learner
    # privacy event of the base learner for a row of the pool, after amplification by subsampling
    event: Event
    # ε of the guarantee for one row of the pool, which is at least the ε of `event`
    epsilon: Fraction

    def draw_queries(self, ledger: Ledger) -> Codes:
        """Return the positions in the pool, random and increasing, of the rows to be labelled."""
        if self.roles == "random":
            return ledger.subset(self.n_pool, self.n_queried)
        drawn = ledger.subset(self.n_pool, self.n_drawn)  # increasing
        return drawn[: self.n_queried]

    def draw_unlabelled(self, queried: Codes, ledger: Ledger) -> Codes:
        """Return random unlabelled rows, as positions among the rows that were not queried.

        Together, the queried and the unlabelled rows form a uniformly random subset. With the
        paper's roles, queried rows come first in the subset, so all unlabelled rows come after the
        last queried row.
        """
        n_not_queried = self.n_pool - self.n_queried
        first = 0
        if self.roles == "paper":  # number of rows before the last queried one, less the queried
            first = int(queried[-1]) + 1 - self.n_queried
        return first + ledger.subset(n_not_queried - first, self.n_drawn - self.n_queried)


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
    """Return the row counts and the privacy budgets of a query and its fit.

    Parameters
    ----------
    n_pool : int
        Number of rows in the pool.
    n_labels, n_subsample, roles, transcript_private
        See `SubsamplingActiveLearner`.
    epsilon, delta : Fraction
        Privacy budget for one row of the pool.
    base : Fraction or None
        Privacy budget ε of the base learner. None means the largest ε that `epsilon` permits.
    semi_supervised : bool
        Whether the base learner uses unlabelled rows.
    """
    n_queried = n_drawn = min(n_labels, n_pool)
    if semi_supervised and n_subsample is not None:
        n_drawn = min(n_subsample, n_pool)
    elif semi_supervised and transcript_private:
        n_drawn = n_pool
    elif semi_supervised:
        base_target = max(Fraction(1), epsilon) if base is None else base
        n_drawn = max(n_queried, subsample_size(n_pool, epsilon, base_target, roles=roles))
    if n_drawn < n_queried:
        raise ValueError(
            f"n_subsample must be at least the number of labels, {n_queried}; got {n_drawn}."
        )
    # if all drawn rows are labelled, both choices of roles coincide
    roles = "random" if n_drawn == n_queried else roles
    rate = Fraction(1) if transcript_private else Fraction(n_drawn, n_pool)
    margin = Fraction(1) if rate == 1 else ROUNDING_MARGIN  # without amplification, no rounding
    epsilon_of_base = base
    if epsilon_of_base is None:
        allowed = epsilon if rate == 1 else base_epsilon(epsilon * margin, rate, roles=roles)
        epsilon_of_base = exact_fraction(allowed)
    event_epsilon = Fraction(basic_price(_amplified(Pure(epsilon_of_base), rate, roles))[0])
    if event_epsilon > epsilon:
        raise ValueError(
            f"A base learner with base_epsilon={float(epsilon_of_base):g} on {n_drawn} of {n_pool} "
            f"rows costs ε = {float(event_epsilon):.4g}, which exceeds epsilon={float(epsilon):g}. "
            "Query fewer labels, use a larger pool, or set base_epsilon='auto'."
        )
    delta_of_base = base_delta(delta * margin, rate, event_epsilon, epsilon_of_base, roles=roles)
    if delta_of_base >= 1:
        raise ValueError(
            f"delta must be below the pool's sampling rate of {float(rate):.4g}; got "
            f"{float(delta):g}."
        )
    event = mechanism_event(epsilon_of_base, exact_fraction(delta_of_base))
    amplified, guaranteed = (
        _amplified(event, rate, roles),
        epsilon if base is None else event_epsilon,
    )
    return SubsamplingPlan(n_pool, n_queried, n_drawn, roles, event, amplified, guaranteed)


def _amplified(event: Event, rate: Fraction, roles: str) -> Event:
    """Return the privacy event, for a row of the pool, of running `event` on a subset."""
    return event if rate == 1 else Subsampled(rate, event, roles)


def receipt_assumptions(learner: Any, plan: SubsamplingPlan, *, queried: bool) -> tuple[str, ...]:
    """Return the assumptions of a fit that the receipt states.

    `queried` is True if the labels were queried before `fit`.
    """
    name, (epsilon, delta) = type(learner.estimator_).__name__, epsilon_delta(plan.base)
    base = f"ε = {epsilon:.4g}, δ = {delta:.4g}"
    assumptions = [
        f"{name} is ({base})-differentially private",
        "the numbers of rows, of labels and of rows drawn may be known",
    ]
    if learner.classes is None:
        scope = "of the queried rows" if queried else "in y"
        assumptions.append(f"the set of labels {scope} may be known")
    if learner.max_rows_per_group is not None:
        assumptions.append(
            "ε of the base learner applies to one row, ε of the receipt applies to a person"
        )
    if learner.transcript_private:
        assumptions.append(
            "the queried rows may be known: they are part of the output (Definition 5.4 and "
            "Theorem 5.5 of Beimel, Nissim and Stemmer 2015)"
        )
    else:
        assumptions.append(
            "the queried and the drawn rows stay secret (Definition 5.3 of Beimel, Nissim and "
            "Stemmer 2015); against attackers who know these rows, persons who gave labels have "
            f"{base}"
        )
    return tuple(assumptions)
