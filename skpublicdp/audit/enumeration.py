"""Verification by enumeration of all outcomes, over all data sets and their neighbours."""

from __future__ import annotations

import contextlib
import math
from functools import partial
from typing import Any

import numpy as np

from skpublicdp.audit.data_sets import PersonKinds
from skpublicdp.audit.enumerated_runs import enumerate_runs
from skpublicdp.audit.observe import difference_seen
from skpublicdp.audit.observed_fit import EnumeratedFit
from skpublicdp.audit.privacy_loss import PrivacyLosses
from skpublicdp.audit.sensitivity import IncomparableError
from skpublicdp.audit.verification import ALL_DRAWS, ALL_OUTCOMES
from skpublicdp.audit.verifier import Verifier


class OutcomeEnumerator(Verifier):
    """Compares the exact probabilities of everything observable."""

    def _enumerate(self) -> None:
        most = self._max_fits / self._domain.size
        known: dict[PersonKinds, list[Any]] = {}
        for chosen in self._domain:
            known[chosen] = enumerate_runs(partial(self._fit, chosen), EnumeratedFit, most)
        runs = [run for of_one in known.values() for run in of_one]
        noisy = any(call.kind == "noise" for run in runs for call in run.calls)
        self._witness = ALL_DRAWS if noisy else ALL_OUTCOMES
        self._n_sets = len(known)
        for run in runs:
            self._check(run, run.result)
        shares = {chosen: _probability_of_shown(of_one) for chosen, of_one in known.items()}
        taken = {chosen: {run.taken: run for run in of_one} for chosen, of_one in known.items()}
        for one in known:
            for neighbour in self._domain.neighbours(one):
                other = self._domain.named(neighbour)
                if one < other:
                    self._n_pairs += 1
                    self._compare_calls(taken[one], taken[other], noisy)
                    if not noisy:
                        self._compare_probabilities(
                            shares[one], shares[other], taken[one], taken[other]
                        )

    def _compare_calls(self, one: dict[Any, Any], other: dict[Any, Any], noisy: bool) -> None:
        """Compare the calls of two data sets, for runs with equal outcomes."""
        for key, run in one.items():
            if key not in other:
                if noisy:
                    self._distinguishable("a draw has members that a neighbour's has not")
                continue
            match = other[key]
            if noisy:
                if run.result.shown != match.result.shown:
                    where = difference_seen(run.result.shown, match.result.shown)
                    self._distinguishable(f"neighbouring data sets can be told apart by {where}")
                noise = PrivacyLosses()
                try:
                    self._add(noise, run.calls_of("noise"), match.calls_of("noise"))
                except IncomparableError as error:
                    self._distinguishable(str(error))
                ratio = max(run.upper / match.lower, match.upper / run.lower)
                lost = sum(high for _, high in noise.ends) + math.log(ratio)
                self._attained = max(self._attained, lost)
        with contextlib.suppress(IncomparableError):  # the probabilities and the replay report it
            run = next(iter(one.values()))
            if run.taken in other:
                self._add(PrivacyLosses(), run.calls, other[run.taken].calls)

    def _compare_probabilities(self, one: Any, other: Any, mine: Any, yours: Any) -> None:
        """Compare the probabilities of everything observable."""
        if one.keys() != other.keys():
            why = "an outcome is possible with one of two neighbours alone"
            for key, run in mine.items():
                if key in yours and run.result.shown != yours[key].result.shown:
                    where = difference_seen(run.result.shown, yours[key].result.shown)
                    why = f"neighbouring data sets can be told apart by {where}"
                    break
            self._distinguishable(why)
            return
        assert self._claimed is not None
        epsilon, delta = self._claimed
        pairs = [(one[key], other[key]) for key in one]
        if not delta:
            worst = max(max(p[1] / q[0], q[1] / p[0]) for p, q in pairs)
            self._attained = max(self._attained, math.log(worst))
        p, q = (np.array([float(pair[side][0]) for pair in pairs]) for side in (0, 1))
        for a, b in ((p, q), (q, p)):
            self._delta = max(self._delta, float(np.maximum(0, a - math.exp(epsilon) * b).sum()))
            if delta:
                self._attained = max(self._attained, _epsilon_at(a, b, delta))


def _probability_of_shown(runs: list[Any]) -> dict[bytes, list[Any]]:
    """Return bounds on the probability of each distinct observation."""
    shares: dict[bytes, list[Any]] = {}
    for run in runs:
        ends = shares.setdefault(run.result.digest, [0, 0])
        ends[0] += run.lower
        ends[1] += run.upper
    return shares


def _epsilon_at(p: Any, q: Any, delta: float) -> float:
    """Return the least ε at which Σ (p - e^ε q)+ is no more than δ."""
    low, high = 0.0, 700.0
    if np.maximum(0, p - q).sum() <= delta:
        return 0.0
    for _ in range(80):
        middle = (low + high) / 2
        lost = np.maximum(0, p - math.exp(middle) * q).sum()
        low, high = (middle, high) if lost > delta else (low, middle)
    return high
