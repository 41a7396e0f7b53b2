"""All ways in which draws can fall out, over all data sets and neighbours."""

from __future__ import annotations

import contextlib
import math
from functools import partial
from typing import Any

import numpy as np

from skpublicdp.audit.data_sets import Chosen
from skpublicdp.audit.losses import Losses
from skpublicdp.audit.observe import difference_seen
from skpublicdp.audit.runs import every_run
from skpublicdp.audit.sensitivity import UnlikeError
from skpublicdp.audit.verification import ALL, DRAWS
from skpublicdp.audit.verifier import Verifier
from skpublicdp.audit.watch import WatchedRun


class AllOutcomes(Verifier):
    """Compares the exact probabilities of all that can be seen."""

    def _enumerate(self) -> None:
        most = self._max_fits / self._domain.size
        known: dict[Chosen, list[Any]] = {}
        for chosen in self._domain:
            known[chosen] = every_run(partial(self._fit, chosen), WatchedRun, most)
        runs = [run for of_one in known.values() for run in of_one]
        noisy = any(use.kind == "noise" for run in runs for use in run.uses)
        self._witness = DRAWS if noisy else ALL
        self._n_sets = len(known)
        for run in runs:
            self._check(run, run.result)
        shares = {chosen: _by_sight(of_one) for chosen, of_one in known.items()}
        taken = {chosen: {run.taken: run for run in of_one} for chosen, of_one in known.items()}
        for one in known:
            for neighbour in self._domain.neighbours(one):
                other = self._domain.named(neighbour)
                if one < other:
                    self._n_pairs += 1
                    self._move(taken[one], taken[other], noisy)
                    if not noisy:
                        self._compare(shares[one], shares[other], taken[one], taken[other])

    def _move(self, one: dict[Any, Any], other: dict[Any, Any], noisy: bool) -> None:
        """Compare what draws that fell out alike were asked of."""
        for key, run in one.items():
            if key not in other:
                if noisy:
                    self._told_apart("a draw has members that a neighbour's has not")
                continue
            match = other[key]
            if noisy:
                if run.result.shown != match.result.shown:
                    where = difference_seen(run.result.shown, match.result.shown)
                    self._told_apart(f"neighbouring data sets can be told apart by {where}")
                noise = Losses()
                try:
                    self._add(noise, run.uses_of("noise"), match.uses_of("noise"))
                except UnlikeError as error:
                    self._told_apart(str(error))
                ratio = max(run.upper / match.lower, match.upper / run.lower)
                lost = sum(high for _, high in noise.ends) + math.log(ratio)
                self._attained = max(self._attained, lost)
        with contextlib.suppress(UnlikeError):  # probabilities, and replay, say what to think of it
            run = next(iter(one.values()))
            if run.taken in other:
                self._add(Losses(), run.uses, other[run.taken].uses)

    def _compare(self, one: Any, other: Any, mine: Any, yours: Any) -> None:
        """Compare the probabilities of all that can be seen."""
        if one.keys() != other.keys():
            why = "an outcome is possible with one of two neighbours alone"
            for key, run in mine.items():
                if key in yours and run.result.shown != yours[key].result.shown:
                    where = difference_seen(run.result.shown, yours[key].result.shown)
                    why = f"neighbouring data sets can be told apart by {where}"
                    break
            self._told_apart(why)
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


def _by_sight(runs: list[Any]) -> dict[bytes, list[Any]]:
    """Add up the probabilities of runs that show the same."""
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
