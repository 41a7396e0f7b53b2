"""Verification by record and replay, for outcomes that cannot be enumerated."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from skpublicdp.audit.data_sets import PersonKinds
from skpublicdp.audit.observe import difference_seen
from skpublicdp.audit.observed_fit import FitRecorder, NoiselessRecorder, ObservedFit
from skpublicdp.audit.privacy_loss import PrivacyLosses
from skpublicdp.audit.sensitivity import IncomparableError, add_loss
from skpublicdp.audit.verification import FLOAT_TOLERANCE, REPLAY
from skpublicdp.audit.verifier import Verifier, delta_with_tolerance

RANDOM_ROLE_CALLS = ("subset", "order", "indices")

NEIGHBOURS = "neighbouring data sets"
REPEATED = "two fits of the same rows with the same draws"
"""The two sides of a replay, as named in findings."""

N_PAIRED_KINDS = 3
"""Number of kinds of rows that are replaced in pairs."""


class Replayer(Verifier):
    """Replays recorded outcomes in fits of neighbours and compares everything else."""

    def _replay(self) -> None:
        self._witness = self._witness or REPLAY
        rng = np.random.default_rng(0)
        kinds = (FitRecorder, NoiselessRecorder)
        neighbours = min(24, len(self._domain.neighbours(self._domain.sample(1, rng)[0])))
        count = max(1, self._max_fits // (len(kinds) * (neighbours + 2)))
        known: set[PersonKinds] = set()
        for base in self._domain.sample(count, rng):
            if base in known:
                continue
            known.add(base)
            others = self._domain.neighbours(base)
            if len(others) > neighbours:
                places = rng.choice(len(others), neighbours, replace=False)
                others = [others[place] for place in np.sort(places)]
            for kind in kinds:
                recorder, attempt = self._recorded(base, kind)
                self._compare_replay(recorder, attempt, base, REPEATED)
                for other in others:
                    self._n_pairs += 1
                    self._compare_replay(recorder, attempt, other, NEIGHBOURS)
            self._check_row_order(base, recorder, attempt)
            self._check_additivity(base, recorder)
        self._n_sets = max(self._n_sets, len({self._domain.named(base) for base in known}))

    def _dictated(self, outcomes: Any, chosen: PersonKinds) -> tuple[Any, ObservedFit]:
        with FitRecorder(outcomes) as recorder:
            attempt = self._fit(chosen)
        return recorder, attempt

    def _compare_replay(
        self, recorder: Any, attempt: ObservedFit, chosen: PersonKinds, who: str
    ) -> None:
        again, also = self._dictated(recorder.outcomes, chosen)
        self._check(again, also)
        if attempt.shown != also.shown:
            where = difference_seen(attempt.shown, also.shown)
            self._distinguishable(f"{who} can be told apart by {where}")
        asked = [[(u.kind, u.name, u.event, u.spread) for u in t.calls] for t in (recorder, again)]
        if asked[0] != asked[1]:
            self._distinguishable(f"{who} are asked different questions")
            return
        losses = PrivacyLosses()
        try:
            self._add(losses, recorder.calls, again.calls)
        except IncomparableError as error:
            self._distinguishable(str(error))
            return
        self._price(losses, any(call.kind in RANDOM_ROLE_CALLS for call in recorder.calls))

    def _price(self, losses: PrivacyLosses, roles: bool) -> None:
        assert self._claimed is not None
        epsilon, delta = self._claimed
        key = losses.key()
        if key not in self._priced:
            attained = losses.epsilon(delta_with_tolerance(losses, delta))
            self._priced[key] = attained, losses.delta(epsilon)
        attained, at = self._priced[key]
        if attained > epsilon * (1 + FLOAT_TOLERANCE) and roles:
            self._add_finding("more than is claimed is lost by rows whose random roles are known")
        self._attained, self._delta = max(self._attained, attained), max(self._delta, at)

    def _check_row_order(self, base: PersonKinds, recorder: Any, attempt: ObservedFit) -> None:
        """Check that reversing the rows changes nothing, as it can change sums of floats."""
        roles = any(call.kind in RANDOM_ROLE_CALLS for call in recorder.calls)
        if roles or self._domain.ordered or self._domain.rows_per_person:
            return
        again, also = self._dictated(recorder.outcomes, base[::-1])
        losses = PrivacyLosses()
        try:
            for mine, yours in zip(recorder.calls, again.calls, strict=True):
                add_loss(losses, mine, yours)
        except (IncomparableError, ValueError):
            self._add_finding("what is asked depends on the order of rows")
            return
        if losses.ends or losses.mu_squared or attempt.shown != also.shown:
            self._add_finding("answers depend on the order of rows: sums are not exact")

    def _check_additivity(self, base: PersonKinds, recorder: Any) -> None:
        """Check that tables are additive: the contribution of a row depends on no other row.

        Two equal rows are replaced one by one and together, since rounding errors would add up.
        """
        kinds = len(self._domain.kinds)
        for kind in range(min(kinds, N_PAIRED_KINDS) if len(base) > 1 else 0):
            corners = []
            for steps in itertools.product((0, 1), repeat=2):
                moved = [(kind + step) % kinds for step in steps]
                corners.append(self._dictated(recorder.outcomes, (*moved, *base[2:]))[0].calls)
            if len({len(uses) for uses in corners}) > 1:
                return  # reported before
            for uses in zip(*corners, strict=True):
                if uses[0].kind == "noise" and len({call.exact_input.shape for call in uses}) == 1:
                    none, one, other, both = (call.exact_input.astype(np.int64) for call in uses)
                    if (none - one - other + both).any():
                        self._add_finding(f"{uses[0].name}: what a row adds depends on other rows")
