"""Sizes and budgets of the active learner, from public numbers alone, and who is drawn by them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from skpublicdp.accounting import Event, Pure, Subsampled, basic_price, exact_fraction
from skpublicdp.accounting.amplification import base_delta, base_epsilon, subsample_size
from skpublicdp.base_learner import mechanism_event
from skpublicdp.ledger import Ledger
from skpublicdp.typing import Codes

KEPT = 1 - Fraction(1, 1 << 50)
"""Of a budget that is turned into one on a subset: what is rounded up on the way back must fit."""


@dataclass(frozen=True)
class Plan:
    """Sizes and budgets of one query and fit.

    Attributes
    ----------
    pool, asked, drawn : int
        Rows there are, rows to be labelled, and rows for the base learner, the labelled included.
    roles : str
        ``"random"``, or ``"paper"`` where those drawn that come first are labelled.
    base : Event
        What the base learner spends.
    event : Event
        What that costs a row.
    epsilon : Fraction
        What is promised of it, no less.
    """

    pool: int
    asked: int
    drawn: int
    roles: str
    base: Event
    event: Event
    epsilon: Fraction

    def ask(self, ledger: Ledger) -> Codes:
        """Draw the rows to be labelled; those drawn beside them are left to `rest`."""
        if self.roles == "random":
            return ledger.subset(self.pool, self.asked)
        return ledger.subset(self.pool, self.drawn)[: self.asked]

    def rest(self, asked: Codes, ledger: Ledger) -> Codes:
        """Draw the rows beside those asked for, given these: positions among the others."""
        first = 0 if self.roles == "random" else int(asked[-1]) + 1 - self.asked
        return first + ledger.subset(self.pool - self.asked - first, self.drawn - self.asked)


def make_plan(
    pool: int,
    *,
    n_labels: int,
    epsilon: Fraction,
    delta: Fraction,
    base: Fraction | None,
    n_subsample: int | None,
    roles: str,
    transcript_private: bool,
    semi_supervised: bool,
) -> Plan:
    """Fix sizes and budgets; the parameters are those of `SubsamplingActiveLearner`, for one row.

    Without a budget for the base learner, `base`, it gets the largest.
    """
    wanted = max(Fraction(1), epsilon) if base is None else base
    asked = drawn = min(n_labels, pool)
    if semi_supervised:
        if n_subsample is not None:
            drawn = min(n_subsample, pool)
        elif transcript_private:
            drawn = pool
        else:
            drawn = max(asked, subsample_size(pool, epsilon, wanted, roles=roles))
        if drawn < asked:
            raise ValueError(
                f"n_subsample must not be less than the {asked} labels asked for; got {drawn}."
            )
    # where all rows drawn are labelled there is one role, and nothing for a row to move
    roles = "random" if drawn == asked else roles
    rate = Fraction(1) if transcript_private else Fraction(drawn, pool)

    def whole(event: Event) -> Event:
        return event if rate == 1 else Subsampled(rate, event, roles)

    kept, given = KEPT, base
    if rate == 1:
        kept, given = Fraction(1), base or epsilon
    elif given is None:
        given = exact_fraction(base_epsilon(epsilon * kept, rate, roles=roles))
    spent = Fraction(basic_price(whole(Pure(given)))[0])
    if spent > epsilon:
        raise ValueError(
            f"base_epsilon={float(given):g} on {drawn} of {pool} rows costs {float(spent):.4g}, "
            f"more than epsilon={float(epsilon):g}: ask for fewer labels, in a larger pool, or "
            "leave base_epsilon at 'auto'."
        )
    share = base_delta(delta * kept, rate, spent, given, roles=roles)
    if share >= 1:
        raise ValueError(
            f"delta must be less than the share of the pool that is drawn, {float(rate):.4g}; "
            f"got {float(delta):g}."
        )
    event = mechanism_event(given, exact_fraction(share))
    promised = epsilon if base is None else spent
    return Plan(pool, asked, drawn, roles, event, whole(event), promised)
