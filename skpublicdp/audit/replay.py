"""Verification by record and replay, for outcomes that cannot be enumerated."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from skpublicdp.audit.data_sets import PersonKinds
from skpublicdp.audit.observe import first_difference
from skpublicdp.audit.observed_fit import FitRecorder, NoiselessRecorder, ObservedFit
from skpublicdp.audit.privacy_loss import PrivacyLosses
from skpublicdp.audit.sensitivity import IncomparableError, add_loss
from skpublicdp.audit.verification import FLOAT_TOLERANCE, REPLAY
from skpublicdp.audit.verifier import Verifier, delta_with_tolerance

RANDOM_ROLE_CALLS = ("subset", "order", "indices")

NEIGHBOURS = "neighbouring data sets"
REPEATED = "two fits of the same rows with the same draws"
"""The two sides of a replay, as named in findings."""

MAX_NEIGHBOURS = 24
"""Maximum number of neighbours that one recording is compared with."""

N_PAIRED_KINDS = 3
"""Number of kinds of rows that are replaced in pairs."""


class Replayer(Verifier):
    """Verifier that replays recorded outcomes in fits of neighbours and compares the rest."""

    def _replay(self) -> None:
        """Record the fits of sampled data sets, and replay them on themselves and on neighbours.

        The number of data sets follows from `max_fits`. Each is recorded with noise and without:
        exact integers reach branches that noise would hide.
        """
        self._witness = self._witness or REPLAY
        rng = np.random.default_rng(0)
        recorder_types = (FitRecorder, NoiselessRecorder)
        n_neighbours = len(self._domain.neighbours(self._domain.sample(1, rng)[0]))
        n_neighbours = min(MAX_NEIGHBOURS, n_neighbours)
        # a recording, its replay on the same rows, and one replay on each neighbour
        n_fits_per_recording = n_neighbours + 2
        n_sets = max(1, self._max_fits // (len(recorder_types) * n_fits_per_recording))
        recorded: set[PersonKinds] = set()
        for base in self._domain.sample(n_sets, rng):
            if base in recorded:
                continue
            recorded.add(base)
            neighbours = self._domain.neighbours(base)
            if len(neighbours) > n_neighbours:
                chosen = rng.choice(len(neighbours), n_neighbours, replace=False)
                neighbours = [neighbours[index] for index in np.sort(chosen)]
            for recorder_type in recorder_types:
                recorder, fit = self._recorded(base, recorder_type)
                self._compare_replay(recorder, fit, base, REPEATED)
                for neighbour in neighbours:
                    self._n_pairs += 1
                    self._compare_replay(recorder, fit, neighbour, NEIGHBOURS)
            self._check_row_order(base, recorder, fit)
            self._check_additivity(base, recorder)
        self._n_sets = max(self._n_sets, len({self._domain.canonical(base) for base in recorded}))

    def _fit_with(self, outcomes: Any, data_set: PersonKinds) -> tuple[Any, ObservedFit]:
        """Return the recorder and the fit of a data set with given outcomes of all mechanisms."""
        with FitRecorder(outcomes) as recorder:
            fit = self._fit(data_set)
        return recorder, fit

    def _compare_replay(
        self, recorder: Any, fit: ObservedFit, data_set: PersonKinds, sides: str
    ) -> None:
        """Replay the outcomes of a recording on a data set, and compare the two fits.

        Parameters
        ----------
        recorder, fit : FitRecorder, ObservedFit
            The recording.
        data_set : tuple of int
            Data set that is fitted with the recorded outcomes.
        sides : {NEIGHBOURS, REPEATED}
            Name of the two fits in findings.
        """
        replay_recorder, replay_fit = self._fit_with(recorder.outcomes, data_set)
        self._check(replay_recorder, replay_fit)
        if fit.shown != replay_fit.shown:
            difference = first_difference(fit.shown, replay_fit.shown)
            self._distinguishable(f"{sides} are distinguishable by {difference}")
        if _public_calls(recorder) != _public_calls(replay_recorder):
            self._distinguishable(f"{sides} make different mechanism calls")
            return
        losses = PrivacyLosses()
        try:
            self._add_losses(losses, recorder.calls, replay_recorder.calls)
        except IncomparableError as error:
            self._distinguishable(str(error))
            return
        self._update_attained(losses, _has_random_roles(recorder))

    def _update_attained(self, losses: PrivacyLosses, random_roles: bool) -> None:
        """Update the attained ε and δ by the losses of a replay.

        Equal losses are composed only once, since composition is slow.

        Parameters
        ----------
        losses : PrivacyLosses
            Losses of all calls of the replay.
        random_roles : bool
            Whether rows had secret random roles. The claim may then rest on their secrecy, which a
            replay with equal roles does not have.
        """
        assert self._claimed is not None
        epsilon, delta = self._claimed
        key = losses.key()
        if key not in self._composed:
            attained = losses.epsilon(delta_with_tolerance(losses, delta))
            self._composed[key] = attained, losses.delta(epsilon)
        attained, attained_delta = self._composed[key]
        if attained > epsilon * (1 + FLOAT_TOLERANCE) and random_roles:
            self._add_finding("given the random roles of rows, the loss exceeds the claim")
        self._attained = max(self._attained, attained)
        self._delta = max(self._delta, attained_delta)

    def _check_row_order(self, base: PersonKinds, recorder: Any, fit: ObservedFit) -> None:
        """Check that reversing the rows changes no result.

        Sums of integers do not depend on the order of rows, but sums of floats may.
        """
        depends_on_order = self._domain.ordered or self._domain.rows_per_person
        if _has_random_roles(recorder) or depends_on_order:
            return
        reversed_recorder, reversed_fit = self._fit_with(recorder.outcomes, base[::-1])
        losses = PrivacyLosses()
        try:
            for call, reversed_call in zip(recorder.calls, reversed_recorder.calls, strict=True):
                add_loss(losses, call, reversed_call)
        except (IncomparableError, ValueError):
            self._add_finding("mechanism calls depend on the order of rows")
            return
        if losses.ends or losses.mu_squared or fit.shown != reversed_fit.shown:
            self._add_finding("results depend on the order of rows: sums are not exact")

    def _check_additivity(self, base: PersonKinds, recorder: Any) -> None:
        """Check that tables are additive: the contribution of a row depends on no other row.

        For an additive table f, f(a, b) - f(a', b) - f(a, b') + f(a', b') = 0. The first two rows
        are equal, so that rounding errors of the two replacements would add up.
        """
        n_kinds = len(self._domain.kinds)
        for kind in range(min(n_kinds, N_PAIRED_KINDS) if len(base) > 1 else 0):
            # the first two rows are (a, b), (a, b'), (a', b) and (a', b'), where a = b
            replacement = (kind + 1) % n_kinds
            calls_of_fits = []
            for first_rows in itertools.product((kind, replacement), repeat=2):
                corner_recorder, _ = self._fit_with(recorder.outcomes, (*first_rows, *base[2:]))
                calls_of_fits.append(corner_recorder.calls)
            if len({len(calls) for calls in calls_of_fits}) > 1:
                return  # reported by the comparison of neighbours
            for calls in zip(*calls_of_fits, strict=True):
                if calls[0].kind != "noise":
                    continue
                tables = [call.exact_input.astype(np.int64) for call in calls]
                if len({table.shape for table in tables}) > 1:
                    continue
                original, second_replaced, first_replaced, both_replaced = tables
                if (original - second_replaced - first_replaced + both_replaced).any():
                    self._add_finding(
                        f"{calls[0].name}: the contribution of a row depends on other rows"
                    )


def _public_calls(recorder: Any) -> list[tuple[Any, ...]]:
    """Return the attributes of each call that must not depend on private rows."""
    return [(call.kind, call.name, call.event, call.spread) for call in recorder.calls]


def _has_random_roles(recorder: Any) -> bool:
    """Indicate whether a fit chose rows at random, such as a subsample or an order."""
    return any(call.kind in RANDOM_ROLE_CALLS for call in recorder.calls)
