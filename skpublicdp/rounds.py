"""Rounds of exact draws: each on a cover around what the one before released."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from skpublicdp.accounting import Draw, Either, Event, Steps
from skpublicdp.guarantees import Certificate, excess_error, n_rounds
from skpublicdp.hypotheses import Cover, Hypothesis
from skpublicdp.hypotheses.base import Table
from skpublicdp.ledger import Ledger

NAME = "exponential mechanism, exact draw"
PROOF = "McSherry and Talwar (2007), Theorem 6; docs/proofs/selection.md"


class Drawn(NamedTuple):
    """What the rounds came to.

    Attributes
    ----------
    hypothesis : Hypothesis
        The rule drawn last.
    cover : Cover
        The cover it was drawn from.
    certificate : Certificate
        What the last draw promises.
    """

    hypothesis: Hypothesis
    cover: Cover
    certificate: Certificate


def draw_in_rounds(
    cover: Cover,
    tabulate: Callable[[Cover], Table],
    ledger: Ledger,
    *,
    sensitivity: int,
    scored: int,
    beta: float,
    name: str = NAME,
    proof: str = PROOF,
) -> Drawn:
    """Draw a member of a cover, and then of the finer ones that it offers.

    Parameters
    ----------
    cover : Cover
        The first cover.
    tabulate : callable
        Returns the table of all rows for a cover.
    ledger : Ledger
        Pays with all of its ε, by basic composition: what was drawn is released, and the next cover
        may depend on it.
    sensitivity : int
        Weight of one private row.
    scored : int
        Total weight of all rows.
    beta : float
        Probability with which the certificate may fail.
    name, proof : str
        For the receipt.

    Returns
    -------
    Drawn
        The last rule. Round t has t shares of the budget: an early rule need only be near a good
        one.
    """
    moved = sensitivity * ledger.rows_per_person
    rounds = cover.rounds
    if rounds == "auto":
        rounds = n_rounds(cover.scouts.size, max(scored // moved, 1), float(ledger.epsilon))
    rounds = int(rounds)
    unit = ledger.epsilon / (rounds * (rounds + 1) // 2)
    ledger.plan(_plan(ledger.epsilon, unit, 1, rounds))
    left = ledger.epsilon
    for number in range(1, rounds):
        scouts = cover.scouts
        share = Draw(unit * number)
        left -= share.epsilon
        family = scouts.family(tabulate(scouts))
        path = ledger.draw(family, share, sensitivity, name=name, proof=proof)
        hypothesis = scouts.hypothesis(path)
        finer = cover.refined(hypothesis, number)
        if finer is cover:  # with nothing finer to come, one draw takes all that is left
            break
        cover = finer
    family = cover.family(tabulate(cover))
    path = ledger.draw(family, Draw(left), sensitivity, name=name, proof=proof)
    certificate = Certificate(
        excess_error=excess_error(family.effective_size, scored, float(left), beta, moved),
        probability=1 - beta,
        effective_size=family.effective_size,
    )
    return Drawn(cover.hypothesis(path), cover, certificate)


def _plan(left: Fraction, unit: Fraction, number: int, rounds: int) -> Event:
    """Return what rounds may come to from one of them on: released rules decide if more follow."""
    if number == rounds:
        return Draw(left)
    share = unit * number
    rest = _plan(left - share, unit, number + 1, rounds)
    ends = Draw(left - share)
    return Steps((Draw(share), ends if rest == ends else Either((ends, rest))))
