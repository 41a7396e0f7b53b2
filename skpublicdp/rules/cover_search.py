"""Private search for a rule by a sequence of exponential mechanisms on finer and finer covers.

The cover of each draw is built around the rule that the previous draw released.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from skpublicdp.accounting import Draw, Either, Event, Steps
from skpublicdp.guarantees import Certificate, excess_error, n_rounds
from skpublicdp.hypotheses import Cover, Hypothesis
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Integers

DRAW_NAME = "exponential mechanism, exact draw"
_DRAW_PROOF = "McSherry and Talwar (2007), Theorem 6; docs/proofs/selection.md"


class DrawnRule(NamedTuple):
    """Rule that a private cover search selected, with its cover and its error bound.

    Attributes
    ----------
    hypothesis : Hypothesis
        The rule drawn last.
    cover : Cover
        The cover that it was drawn from.
    certificate : Certificate
        Bound on the excess error of the last draw, on the scored rows.
    """

    hypothesis: Hypothesis
    cover: Cover
    certificate: Certificate


def search_cover(
    cover: Cover,
    tabulate: Callable[[Cover], Integers],
    ledger: Ledger,
    *,
    sensitivity: int,
    scored: int,
    beta: float,
    name: str = DRAW_NAME,
    proof: str = _DRAW_PROOF,
) -> DrawnRule:
    """Draw a rule of a cover by the exponential mechanism, and refine the cover around it.

    Parameters
    ----------
    cover : Cover
        The first cover.
    tabulate : callable
        ``tabulate(cover)`` returns the counts of scored rows, from which the cover computes the
        errors of all of its rules.
    ledger : Ledger
        Ledger of the fit. All of its ε is spent on the draws, by basic composition, since each
        drawn rule is released and the next cover may depend on it.
    sensitivity : int
        Largest weight of a private row.
    scored : int
        Total weight of the scored rows.
    beta : float
        Probability with which the certificate may fail.
    name, proof : str
        Name of the mechanism and reference of its proof, for the receipt.

    Returns
    -------
    DrawnRule
        The rule of the last draw. The ε of draw t of T is in proportion to t, since an early rule
        only needs to be near a good one.
    """
    group_sensitivity = sensitivity * ledger.rows_per_person
    n_draws = cover.rounds
    if n_draws == "auto":
        n_draws = n_rounds(
            cover.refinable_members.size, max(scored // group_sensitivity, 1), float(ledger.epsilon)
        )
    n_draws = int(n_draws)
    share_unit = ledger.epsilon / (n_draws * (n_draws + 1) // 2)  # 1 + 2 + ... + n_draws shares
    ledger.plan(_plan(ledger.epsilon, share_unit, 1, n_draws))
    remaining = ledger.epsilon
    for draw in range(1, n_draws):
        candidates = cover.refinable_members  # a cover of the rules around which it can be refined
        event = Draw(share_unit * draw)
        remaining -= event.epsilon
        family = candidates.family(tabulate(candidates))
        path = ledger.draw(family, event, sensitivity, name=name, proof=proof)
        hypothesis = candidates.hypothesis(path)
        finer_cover = cover.refine(hypothesis, draw)
        if finer_cover is cover:  # it cannot be refined: the last draw gets the remaining ε
            break
        cover = finer_cover
    family = cover.family(tabulate(cover))
    path = ledger.draw(family, Draw(remaining), sensitivity, name=name, proof=proof)
    certificate = Certificate(
        excess_error=excess_error(
            family.effective_size, scored, float(remaining), beta, group_sensitivity
        ),
        probability=1 - beta,
        effective_size=family.effective_size,
    )
    return DrawnRule(cover.hypothesis(path), cover, certificate)


def _plan(remaining: Fraction, share_unit: Fraction, draw: int, n_draws: int) -> Event:
    """Return the privacy event of all draws of a search from number `draw` on.

    After each draw but the last, the released rule decides how to go on: with one last draw at the
    remaining ε if the cover cannot be refined, otherwise with draws from a finer cover.

    Parameters
    ----------
    remaining : Fraction
        ε of all these draws together.
    share_unit : Fraction
        ε of the first draw of the search; draw t gets t times this number.
    draw, n_draws : int
        Number of the next draw, from 1, and of the last one.
    """
    if draw == n_draws:
        return Draw(remaining)
    share = share_unit * draw
    last_draw: Event = Draw(remaining - share)
    further_draws = _plan(remaining - share, share_unit, draw + 1, n_draws)
    if further_draws != last_draw:
        further_draws = Either((last_draw, further_draws))
    return Steps((Draw(share), further_draws))
