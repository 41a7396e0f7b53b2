"""Verification by enumeration of all outcomes, over all data sets and their neighbours."""

from __future__ import annotations

import contextlib
import math
from functools import partial
from typing import Any

import numpy as np

from skpublicdp.audit.data_sets import PersonKinds
from skpublicdp.audit.enumerated_runs import enumerate_runs
from skpublicdp.audit.observe import first_difference
from skpublicdp.audit.observed_fit import EnumeratedFit
from skpublicdp.audit.privacy_loss import PrivacyLosses
from skpublicdp.audit.sensitivity import IncomparableError
from skpublicdp.audit.verification import ALL_DRAWS, ALL_OUTCOMES
from skpublicdp.audit.verifier import Verifier
from skpublicdp.typing import Floats

RunsByPath = dict[Any, EnumeratedFit]
"""Runs of one data set, by the outcomes of their calls."""

ProbabilityBounds = dict[bytes, list[Any]]
"""Lower and upper bound of the probability of each observation, by its digest."""


class OutcomeEnumerator(Verifier):
    """Compares the exact probabilities of everything observable."""

    def _enumerate(self) -> None:
        """Enumerate the outcomes of all data sets, and compare each pair of neighbours."""
        max_runs = self._max_fits / self._domain.size
        runs_of_set: dict[PersonKinds, list[Any]] = {}
        for data_set in self._domain:
            fit = partial(self._fit, data_set)
            runs_of_set[data_set] = enumerate_runs(fit, EnumeratedFit, max_runs)
        runs = [run for set_runs in runs_of_set.values() for run in set_runs]
        noisy = any(call.kind == "noise" for run in runs for call in run.calls)
        self._witness = ALL_DRAWS if noisy else ALL_OUTCOMES
        self._n_sets = len(runs_of_set)
        for run in runs:
            self._check(run, run.result)
        bounds, by_path = {}, {}
        for data_set, set_runs in runs_of_set.items():
            bounds[data_set] = _observation_probabilities(set_runs)
            by_path[data_set] = {run.path: run for run in set_runs}
        for data_set in runs_of_set:
            for ordered_neighbour in self._domain.neighbours(data_set):
                neighbour = self._domain.canonical(ordered_neighbour)
                if data_set < neighbour:
                    self._n_pairs += 1
                    self._compare_calls(by_path[data_set], by_path[neighbour], noisy)
                    if not noisy:
                        self._compare_probabilities(
                            bounds[data_set],
                            bounds[neighbour],
                            by_path[data_set],
                            by_path[neighbour],
                        )

    def _compare_calls(self, runs: RunsByPath, neighbour_runs: RunsByPath, noisy: bool) -> None:
        """Compare the calls of two data sets, for runs with equal outcomes."""
        if noisy:
            for path, run in runs.items():
                self._compare_noisy_runs(run, neighbour_runs, path)
        with contextlib.suppress(IncomparableError):  # the probabilities and the replay report it
            run = next(iter(runs.values()))
            if run.path in neighbour_runs:
                self._add_losses(PrivacyLosses(), run.calls, neighbour_runs[run.path].calls)

    def _compare_noisy_runs(
        self, run: EnumeratedFit, neighbour_runs: RunsByPath, path: Any
    ) -> None:
        """Bound the privacy loss of one run: exact for draws, by its sensitivity for noise."""
        if path not in neighbour_runs:
            self._distinguishable("a draw has members that are missing on a neighbouring data set")
            return
        match = neighbour_runs[path]
        if run.result.shown != match.result.shown:
            difference = first_difference(run.result.shown, match.result.shown)
            self._distinguishable(f"neighbouring data sets are distinguishable by {difference}")
        noise = PrivacyLosses()
        try:
            self._add_losses(noise, run.calls_of("noise"), match.calls_of("noise"))
        except IncomparableError as error:
            self._distinguishable(str(error))
        ratio = max(run.upper / match.lower, match.upper / run.lower)
        loss = sum(high for _, high in noise.ends) + math.log(ratio)
        self._attained = max(self._attained, loss)

    def _compare_probabilities(
        self,
        bounds: ProbabilityBounds,
        neighbour_bounds: ProbabilityBounds,
        runs: RunsByPath,
        neighbour_runs: RunsByPath,
    ) -> None:
        """Compare the probabilities of all observations, and update the attained ε and δ."""
        if bounds.keys() != neighbour_bounds.keys():
            self._distinguishable(_explain_difference(runs, neighbour_runs))
            return
        assert self._claimed is not None
        epsilon, delta = self._claimed
        pairs = [(bounds[key], neighbour_bounds[key]) for key in bounds]
        if not delta:
            worst = max(max(p[1] / q[0], q[1] / p[0]) for p, q in pairs)
            self._attained = max(self._attained, math.log(worst))
        p, q = (np.array([float(pair[side][0]) for pair in pairs]) for side in (0, 1))
        for a, b in ((p, q), (q, p)):
            self._delta = max(self._delta, float(np.maximum(0, a - math.exp(epsilon) * b).sum()))
            if delta:
                self._attained = max(self._attained, _smallest_epsilon(a, b, delta))


def _explain_difference(runs: RunsByPath, neighbour_runs: RunsByPath) -> str:
    """Return the finding about neighbours with different sets of observations."""
    for path, run in runs.items():
        if path in neighbour_runs and run.result.shown != neighbour_runs[path].result.shown:
            difference = first_difference(run.result.shown, neighbour_runs[path].result.shown)
            return f"neighbouring data sets are distinguishable by {difference}"
    return "an outcome is possible on only one of two neighbouring data sets"


def _observation_probabilities(runs: list[Any]) -> ProbabilityBounds:
    """Return bounds of the probability of each distinct observation."""
    bounds: ProbabilityBounds = {}
    for run in runs:
        ends = bounds.setdefault(run.result.digest, [0, 0])
        ends[0] += run.lower
        ends[1] += run.upper
    return bounds


def _smallest_epsilon(p: Floats, q: Floats, delta: float) -> float:
    """Return the smallest ε with Σ max(0, p - e^ε q) <= δ, by bisection."""
    low, high = 0.0, 700.0
    if np.maximum(0, p - q).sum() <= delta:
        return 0.0
    for _ in range(80):
        middle = (low + high) / 2
        excess = np.maximum(0, p - math.exp(middle) * q).sum()
        low, high = (middle, high) if excess > delta else (low, middle)
    return high
