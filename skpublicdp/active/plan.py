"""Sizes and budgets of the active learner, from public numbers alone, and who is drawn by them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting.amplification import (
    base_delta,
    base_epsilon,
    subsample_size,
    subsampled_epsilon,
)
from skpublicdp.mechanisms.randomness import RandomBits
from skpublicdp.mechanisms.subsets import random_subset


@dataclass(frozen=True)
class Plan:
    """Sizes and budgets of one query and fit.

    Attributes
    ----------
    pool, asked, drawn : int
        Rows there are, rows to be labelled, and rows for the base learner, the labelled included.
    roles : str
        ``"random"``, or ``"paper"`` where those drawn that come first are labelled.
    base_epsilon, base_delta : float
        Budget of the base learner.
    epsilon, delta : float
        What that costs.
    """

    pool: int
    asked: int
    drawn: int
    roles: str
    base_epsilon: float
    base_delta: float
    epsilon: float
    delta: float

    def ask(self, bits: RandomBits) -> NDArray[np.intp]:
        """Draw the rows to be labelled; those drawn beside them are left to `rest`."""
        if self.roles == "random":
            return random_subset(self.pool, self.asked, bits)
        return random_subset(self.pool, self.drawn, bits)[: self.asked]

    def rest(self, asked: NDArray[np.intp], bits: RandomBits) -> NDArray[np.intp]:
        """Draw the rows beside those asked for, given these: positions among the others."""
        first = 0 if self.roles == "random" else int(asked[-1]) + 1 - self.asked
        return first + random_subset(self.pool - self.asked - first, self.drawn - self.asked, bits)


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
    """Fix sizes and budgets; the parameters are those of `SubsamplingActiveLearner`.

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
    if base is None:
        given = epsilon if rate == 1 else Fraction(base_epsilon(epsilon, rate, roles=roles))
        spent = epsilon
    else:
        given = base
        spent = base if rate == 1 else Fraction(subsampled_epsilon(base, rate, roles=roles))
    if spent > epsilon:
        raise ValueError(
            f"base_epsilon={float(given):g} on {drawn} of {pool} rows costs {float(spent):.4g}, "
            f"more than epsilon={float(epsilon):g}: ask for fewer labels, in a larger pool, or "
            "leave base_epsilon at 'auto'."
        )
    share = base_delta(delta, rate, spent, given, roles=roles)
    if share >= 1:
        raise ValueError(
            f"delta must be less than the share of the pool that is drawn, {float(rate):.4g}; "
            f"got {float(delta):g}."
        )
    return Plan(pool, asked, drawn, roles, float(given), share, float(spent), float(delta))
