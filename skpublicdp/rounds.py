"""Rounds of exact draws: each on a cover around what the one before released."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from skpublicdp.accounting import Mechanism
from skpublicdp.guarantees import Certificate, excess_error, n_rounds
from skpublicdp.hypotheses import Cover, Hypothesis
from skpublicdp.hypotheses.base import Table
from skpublicdp.mechanisms.randomness import RandomBits
from skpublicdp.mechanisms.selection import draw


class Drawn(NamedTuple):
    """What the rounds came to.

    Attributes
    ----------
    hypothesis : Hypothesis
        The rule drawn last.
    cover : Cover
        The cover it was drawn from.
    effective_size : int
        Size of that cover as bounds count it.
    spent : tuple of Fraction
        Budget of each draw.
    """

    hypothesis: Hypothesis
    cover: Cover
    effective_size: int
    spent: tuple[Fraction, ...]


def draw_in_rounds(
    cover: Cover,
    tabulate: Callable[[Cover], Table],
    *,
    epsilon: Fraction,
    sensitivity: int,
    scored: int,
    bits: RandomBits,
) -> Drawn:
    """Draw a member of a cover, and then of the finer ones that it offers.

    Parameters
    ----------
    cover : Cover
        The first cover.
    tabulate : callable
        Returns the table of all rows for a cover.
    epsilon : Fraction
        Budget of all draws: ε-differential privacy by basic composition, since what was drawn is
        released and the next cover may depend on it.
    sensitivity : int
        Weight of one private row.
    scored : int
        Total weight of all rows.
    bits : RandomBits
        Randomness.

    Returns
    -------
    Drawn
        The last rule and what was spent. Round t has t shares of the budget: an early rule need
        only be near a good one.
    """
    rounds = cover.rounds
    if rounds == "auto":
        rounds = n_rounds(cover.scouts.size, max(scored // sensitivity, 1), float(epsilon))
    shares = int(rounds) * (int(rounds) + 1) // 2
    spent: list[Fraction] = []
    for number in range(1, int(rounds)):
        scouts = cover.scouts
        spent.append(epsilon * number / shares)
        family = scouts.family(tabulate(scouts))
        hypothesis = scouts.hypothesis(draw(family, spent[-1], sensitivity, bits))
        finer = cover.refined(hypothesis, number)
        if finer is cover:  # with nothing finer to come, one draw takes all that is left
            break
        cover = finer
    family = cover.family(tabulate(cover))
    spent.append(epsilon - sum(spent))
    hypothesis = cover.hypothesis(draw(family, spent[-1], sensitivity, bits))
    return Drawn(hypothesis, cover, family.effective_size, tuple(spent))


def certify(drawn: Drawn, *, scored: int, sensitivity: int, beta: float) -> Certificate:
    """State what the last draw promises, up to a probability `beta`."""
    size = drawn.effective_size
    return Certificate(
        excess_error=excess_error(size, scored, float(drawn.spent[-1]), beta, sensitivity),
        probability=1 - beta,
        effective_size=size,
    )


def exact_draws(spent: tuple[Fraction, ...], reference: str) -> tuple[Mechanism, ...]:
    """List draws for a receipt."""
    name = "exponential mechanism, exact draw"
    return tuple(Mechanism(name, float(share), 0.0, reference) for share in spent)
