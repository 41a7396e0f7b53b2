"""Record and replay: what cannot be listed is dictated to neighbours."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from skpublicdp.audit.data_sets import Chosen
from skpublicdp.audit.losses import Losses
from skpublicdp.audit.observe import difference_seen
from skpublicdp.audit.sensitivity import UnlikeError, add_loss
from skpublicdp.audit.verification import REPLAY, ROUNDED
from skpublicdp.audit.verifier import Verifier, loosely
from skpublicdp.audit.watch import Attempt, Noiseless, Watching

ROLES = ("subset", "order", "indices")

NEIGHBOURS = "neighbouring data sets"
REPEATED = "two fits of the same rows with the same draws"
"""What a replay compares, as findings call it."""

ALIKE = 3
"""How many kinds of rows are moved in pairs."""


class Replay(Verifier):
    """Dictates what was released to fits of neighbours, and compares the rest."""

    def _replay(self) -> None:
        self._witness = self._witness or REPLAY
        rng = np.random.default_rng(0)
        kinds = (Watching, Noiseless)
        neighbours = min(24, len(self._domain.neighbours(self._domain.sample(1, rng)[0])))
        count = max(1, self._max_fits // (len(kinds) * (neighbours + 2)))
        known: set[Chosen] = set()
        for base in self._domain.sample(count, rng):
            if base in known:
                continue
            known.add(base)
            others = self._domain.neighbours(base)
            if len(others) > neighbours:
                places = rng.choice(len(others), neighbours, replace=False)
                others = [others[place] for place in np.sort(places)]
            for kind in kinds:
                tape, attempt = self._recorded(base, kind)
                self._replayed(tape, attempt, base, REPEATED)
                for other in others:
                    self._n_pairs += 1
                    self._replayed(tape, attempt, other, NEIGHBOURS)
            self._out_of_order(base, tape, attempt)
            self._additive(base, tape)
        self._n_sets = max(self._n_sets, len({self._domain.named(base) for base in known}))

    def _dictated(self, outcomes: Any, chosen: Chosen) -> tuple[Any, Attempt]:
        with Watching(outcomes) as tape:
            attempt = self._fit(chosen)
        return tape, attempt

    def _replayed(self, tape: Any, attempt: Attempt, chosen: Chosen, who: str) -> None:
        again, also = self._dictated(tape.outcomes, chosen)
        self._check(again, also)
        if attempt.shown != also.shown:
            where = difference_seen(attempt.shown, also.shown)
            self._told_apart(f"{who} can be told apart by {where}")
        asked = [[(u.kind, u.name, u.event, u.spread) for u in t.uses] for t in (tape, again)]
        if asked[0] != asked[1]:
            self._told_apart(f"{who} are asked different questions")
            return
        losses = Losses()
        try:
            self._add(losses, tape.uses, again.uses)
        except UnlikeError as error:
            self._told_apart(str(error))
            return
        self._price(losses, any(use.kind in ROLES for use in tape.uses))

    def _price(self, losses: Losses, roles: bool) -> None:
        assert self._claimed is not None
        epsilon, delta = self._claimed
        key = losses.key()
        if key not in self._priced:
            attained = losses.epsilon(loosely(losses, delta))
            self._priced[key] = attained, losses.delta(epsilon)
        attained, at = self._priced[key]
        if attained > epsilon * (1 + ROUNDED) and roles:
            self._find("more than is claimed is lost by rows whose random roles are known")
        self._attained, self._delta = max(self._attained, attained), max(self._delta, at)

    def _out_of_order(self, base: Chosen, tape: Any, attempt: Attempt) -> None:
        """Turn the rows round: sums of integers are the same then, sums of floats need not be."""
        roles = any(use.kind in ROLES for use in tape.uses)
        if roles or self._domain.ordered or self._domain.rows_per_person:
            return
        again, also = self._dictated(tape.outcomes, base[::-1])
        losses = Losses()
        try:
            for mine, yours in zip(tape.uses, again.uses, strict=True):
                add_loss(losses, mine, yours)
        except (UnlikeError, ValueError):
            self._find("what is asked depends on the order of rows")
            return
        if losses.ends or losses.mu_squared or attempt.shown != also.shown:
            self._find("answers depend on the order of rows: sums are not exact")

    def _additive(self, base: Chosen, tape: Any) -> None:
        """Check that a row adds the same to a table whoever else is there: no sum is rounded.

        Two rows that are alike are moved alike, one by one: their roundings add up.
        """
        kinds = len(self._domain.kinds)
        for kind in range(min(kinds, ALIKE) if len(base) > 1 else 0):
            corners = []
            for steps in itertools.product((0, 1), repeat=2):
                moved = [(kind + step) % kinds for step in steps]
                corners.append(self._dictated(tape.outcomes, (*moved, *base[2:]))[0].uses)
            if len({len(uses) for uses in corners}) > 1:
                return  # said already
            for uses in zip(*corners, strict=True):
                if uses[0].kind == "noise" and len({use.answer.shape for use in uses}) == 1:
                    none, one, other, both = (use.answer.astype(np.int64) for use in uses)
                    if (none - one - other + both).any():
                        self._find(f"{uses[0].name}: what a row adds depends on other rows")
