"""Verification by recording and replay, for outcomes that cannot be enumerated."""

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
"""The two sides of a replay, as they are named in findings."""

AttainedByLosses = dict[tuple[object, ...], tuple[float, float]]
"""Attained ε and δ of each replay, indexed by the key of its losses."""

MAX_NEIGHBOURS = 24
"""Maximum number of neighbours that are compared with one recording."""

N_PAIRED_KINDS = 3
"""Number of kinds of rows whose members are replaced in pairs."""


def verify_by_replay(verifier: Verifier) -> None:
    """Record the fits of sampled datasets, and replay them on themselves and on neighbours.

    The number of datasets is determined by `max_fits`. Each dataset is recorded both with and
    without noise, since exact integers reach branches that noise would hide.
    """
    domain, verifier.witness = verifier.domain, verifier.witness or REPLAY
    rng = np.random.default_rng(0)
    recorder_types = (FitRecorder, NoiselessRecorder)
    n_neighbours = min(MAX_NEIGHBOURS, len(domain.neighbours(domain.sample(1, rng)[0])))
    # a recording, its replay on the same rows, and one replay on each neighbour
    n_fits_per_recording = n_neighbours + 2
    n_sets = max(1, verifier.max_fits // (len(recorder_types) * n_fits_per_recording))
    recorded: set[PersonKinds] = set()
    attained_by: AttainedByLosses = {}
    for base in domain.sample(n_sets, rng):
        if base in recorded:
            continue
        recorded.add(base)
        neighbours = domain.neighbours(base)
        if len(neighbours) > n_neighbours:
            chosen = rng.choice(len(neighbours), n_neighbours, replace=False)
            neighbours = [neighbours[index] for index in np.sort(chosen)]
        data_sets = [(REPEATED, base), *((NEIGHBOURS, neighbour) for neighbour in neighbours)]
        for recorder_type in recorder_types:
            recorder, fit = verifier.record(base, recorder_type)
            verifier.n_pairs += len(neighbours)
            for sides, data_set in data_sets:
                losses = _compare_replay(verifier, recorder, fit, data_set, sides)
                if losses is not None:
                    _add_attained(verifier, losses, _has_random_roles(recorder), attained_by)
        _check_row_order(verifier, base, recorder, fit)
        _check_additivity(verifier, base, recorder)
    verifier.n_sets = max(verifier.n_sets, len({domain.canonical(base) for base in recorded}))


def _compare_replay(
    verifier: Verifier, recorder: Any, fit: ObservedFit, data_set: PersonKinds, sides: str
) -> PrivacyLosses | None:
    """Replay the outcomes of a recording on a dataset, and return the losses of its calls.

    If the two fits make different calls, this is a finding and the result is None.

    Parameters
    ----------
    recorder, fit : FitRecorder, ObservedFit
        The recorder and the fit of the recording.
    data_set : tuple of int
        Dataset to be fitted with the recorded outcomes.
    sides : {NEIGHBOURS, REPEATED}
        Name of the two fits in findings.
    """
    replay_recorder, replay_fit = verifier.replay(recorder.outcomes, data_set)
    verifier.check(replay_recorder, replay_fit)
    if fit.shown != replay_fit.shown:
        difference = first_difference(fit.shown, replay_fit.shown)
        verifier.add_certainty(f"{sides} are distinguishable by {difference}")
    if _public_calls(recorder) != _public_calls(replay_recorder):
        verifier.add_certainty(f"{sides} make different mechanism calls")
        return None
    losses = PrivacyLosses()
    try:
        verifier.add_losses(losses, recorder.calls, replay_recorder.calls)
    except IncomparableError as error:
        verifier.add_certainty(str(error))
        return None
    return losses


def _add_attained(
    verifier: Verifier, losses: PrivacyLosses, random_roles: bool, attained_by: AttainedByLosses
) -> None:
    """Add the ε and δ attained by the losses of a replay."""
    assert verifier.claimed is not None
    epsilon, delta = verifier.claimed
    key = losses.key()
    if key not in attained_by:
        attained = losses.epsilon(delta_with_tolerance(losses, delta))
        attained_by[key] = attained, losses.delta(epsilon)
    attained, attained_delta = attained_by[key]
    if attained > epsilon * (1 + FLOAT_TOLERANCE) and random_roles:
        verifier.add_finding("given the random roles of rows, the loss exceeds the claim")
    verifier.add_attained(attained, attained_delta)


def _check_row_order(
    verifier: Verifier, base: PersonKinds, recorder: Any, fit: ObservedFit
) -> None:
    """Check that reversing the rows does not change any result.

    Sums of integers do not depend on the order of rows, whereas sums of floats may.
    """
    depends_on_order = verifier.domain.ordered or verifier.domain.rows_per_person
    # what is released of public values is listed in the order of the rows
    has_public_values = verifier.protects != "rows"
    if _has_random_roles(recorder) or depends_on_order or has_public_values:
        return
    reversed_recorder, reversed_fit = verifier.replay(recorder.outcomes, base[::-1])
    losses = PrivacyLosses()
    try:
        for call, reversed_call in zip(recorder.calls, reversed_recorder.calls, strict=True):
            add_loss(losses, call, reversed_call)
    except (IncomparableError, ValueError):
        verifier.add_finding("mechanism calls depend on the order of rows")
        return
    if losses.ends or losses.mu_squared or fit.shown != reversed_fit.shown:
        verifier.add_finding("results depend on the order of rows: sums are not exact")


def _check_additivity(verifier: Verifier, base: PersonKinds, recorder: Any) -> None:
    """Check that tables are additive: the contribution of a row does not depend on other rows.

    For an additive table f, f(a, b) - f(a', b) - f(a, b') + f(a', b') = 0. The first two rows are
    equal, so that any rounding errors of the two replacements add up.
    """
    n_kinds = len(verifier.domain.kinds)
    for kind in range(min(n_kinds, N_PAIRED_KINDS) if len(base) > 1 else 0):
        # the first two rows are (a, b), (a, b'), (a', b) and (a', b'), where a = b
        replacement = (kind + 1) % n_kinds
        calls_of_fits = []
        for first_rows in itertools.product((kind, replacement), repeat=2):
            corner_recorder, _ = verifier.replay(recorder.outcomes, (*first_rows, *base[2:]))
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
                verifier.add_finding(
                    f"{calls[0].name}: the contribution of a row depends on other rows"
                )


def _public_calls(recorder: Any) -> list[tuple[Any, ...]]:
    """Return those attributes of each call that must not depend on private rows."""
    return [(call.kind, call.name, call.event, call.spread) for call in recorder.calls]


def _has_random_roles(recorder: Any) -> bool:
    """Return whether a fit chose rows at random, such as a subsample or an order."""
    return any(call.kind in RANDOM_ROLE_CALLS for call in recorder.calls)
