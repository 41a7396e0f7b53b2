"""Private search for a rule by exponential mechanisms on increasingly fine covers.

The cover for each draw is built around the rule that the previous draw released.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from skpublicdp.accounting import Draw, Either, Event, Pure, Sensitivity, Steps
from skpublicdp.accounting.measurements import Measurement
from skpublicdp.guarantees import Certificate, excess_error, n_rounds
from skpublicdp.hypotheses import Cover, Hypothesis
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Integers

DRAW_NAME = "exponential mechanism, exact draw"
DRAW_PROOF = "McSherry and Talwar (2007), Theorem 6; docs/proofs/selection.md"


class DrawnRule(NamedTuple):
    """A rule selected by a private cover search, with its cover and its error bound."""

    hypothesis: Hypothesis  # the rule selected by the last draw
    cover: Cover  # the cover from which the rule was drawn
    certificate: Certificate  # bound on the excess error of the last draw on the scored rows
    n_draws: int = 1  # planned number of draws, which is a public number
    # noisy count of the private rows that the rule mislabels, if the search has an `Evaluation`
    noisy_errors: Measurement | None = None


class Evaluation(NamedTuple):
    """A noisy count of the private rows that the drawn rule mislabels."""

    event: Pure  # privacy cost of the count, which is reserved and not spent on the draws
    # ``count_errors(hypothesis)`` returns the number of mislabelled private rows
    count_errors: Callable[[Hypothesis], int]


@dataclass(frozen=True, kw_only=True, eq=False)
class RuleSearch:
    """Initial state of a search: a cover, and the rows used to score its rules."""

    cover: Cover  # the first cover
    # ``tabulate(cover)`` returns the counts of scored rows, from which the cover computes the
    # errors of all of its rules
    tabulate: Callable[[Cover], Integers]
    # the draws and the evaluation spend the ledger's entire ε, by basic composition, since each
    # drawn rule is released and the next cover may depend on it
    ledger: Ledger
    scored: int  # total weight of the scored rows
    sensitivity: int = 1  # maximum weight of a private row
    # name of the mechanism and reference of its proof, for the receipt
    name: str = DRAW_NAME
    proof: str = DRAW_PROOF
    # A noisy count of errors after the last draw. The ε of the evaluation is not available to the
    # draws.
    evaluation: Evaluation | None = None

    @property
    def epsilon(self) -> Fraction:
        """ε of all draws together, which is the ε of the ledger minus the ε of the evaluation."""
        if self.evaluation is None:
            return self.ledger.epsilon
        return self.ledger.epsilon - self.evaluation.event.epsilon

    def draw(self, cover: Cover, event: Draw) -> tuple[Hypothesis, int]:
        """Return a rule drawn from a cover using its errors, and the cover's effective size."""
        family = cover.family(self.tabulate(cover))
        path = self.ledger.draw(family, event, self.sensitivity, name=self.name, proof=self.proof)
        return cover.hypothesis(path), family.effective_size

    def evaluate(self, hypothesis: Hypothesis) -> Measurement | None:
        """Return a noisy count of the private rows that a released rule mislabels, if planned."""
        if self.evaluation is None:
            return None
        errors = np.array([self.evaluation.count_errors(hypothesis)], dtype=np.int64)
        return self.ledger.add_noise(
            errors,
            Sensitivity(1, 1),  # a private row is mislabelled or not
            self.evaluation.event,
            name="errors of the drawn rule: discrete Laplace noise",
            proof="docs/proofs/mixtures.md",
        )


def search_cover(search: RuleSearch, *, beta: float) -> DrawnRule:
    """Draw a rule from a cover with the exponential mechanism, and refine the cover around it.

    The ε of draw t of T is proportional to t, since an early rule only needs to be close to a good
    rule. If the cover has equal rounds, all draws have the same ε. `beta` is the probability with
    which the certificate may fail. If the search has an evaluation, the errors of the last rule are
    counted with added noise.
    """
    cover, ledger = search.cover, search.ledger
    group_sensitivity = search.sensitivity * ledger.rows_per_person
    if cover.rounds == "auto":
        n_scored = max(search.scored // group_sensitivity, 1)
        n_draws = n_rounds(cover.refinable_members.size, n_scored, float(search.epsilon))
    else:
        n_draws = int(cover.rounds)
    if cover.equal_rounds:
        draws = [Draw(search.epsilon / n_draws)] * n_draws
        plan: Event = Steps(tuple(draws))
    else:
        share_unit = search.epsilon / (n_draws * (n_draws + 1) // 2)  # 1 + 2 + ... + n_draws
        draws = [Draw(share_unit * draw) for draw in range(1, n_draws + 1)]
        plan = _plan(search.epsilon, share_unit, 1, n_draws)
    ledger.plan(plan if search.evaluation is None else Steps((plan, search.evaluation.event)))
    remaining = search.epsilon
    for draw in range(1, n_draws):
        event = draws[draw - 1]
        remaining -= event.epsilon
        # a cover of the rules around which it can be refined
        hypothesis, _ = search.draw(cover.refinable_members, event)
        finer_cover = cover.refine(hypothesis, draw)
        if finer_cover is cover:  # it cannot be refined: the last draw gets the remaining ε
            break
        cover = finer_cover
    hypothesis, effective_size = search.draw(cover, Draw(remaining))
    certificate = Certificate(
        excess_error=excess_error(
            effective_size, search.scored, float(remaining), beta, group_sensitivity
        ),
        probability=1 - beta,
        effective_size=effective_size,
    )
    return DrawnRule(hypothesis, cover, certificate, n_draws, search.evaluate(hypothesis))


def _plan(remaining: Fraction, share_unit: Fraction, draw: int, n_draws: int) -> Event:
    """Return the privacy event of all draws of a search, starting with draw number `draw`.

    After each draw except the last, the released rule determines how the search continues: with a
    single final draw at the remaining ε if the cover cannot be refined, and with draws from a finer
    cover otherwise.
    """
    if draw == n_draws:
        return Draw(remaining)
    share = share_unit * draw
    last_draw: Event = Draw(remaining - share)
    further_draws = _plan(remaining - share, share_unit, draw + 1, n_draws)
    if further_draws != last_draw:
        further_draws = Either((last_draw, further_draws))
    return Steps((Draw(share), further_draws))
