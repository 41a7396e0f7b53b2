"""Verification by enumeration of all outcomes, over all datasets and their neighbours."""

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
"""The runs of one dataset, indexed by the outcomes of their calls."""

ProbabilityBounds = dict[bytes, tuple[Any, Any]]
"""Lower and upper bounds on the probability of each observation, indexed by its digest."""


MAX_LOG_RATIO = 700.0
"""Upper limit of the search for ε: larger values overflow in `exp`."""

BISECTION_STEPS = 80
"""Number of bisections in the search for ε, which reaches the precision of floats."""


def verify_by_enumeration(verifier: Verifier) -> None:
    """Enumerate the outcomes of all datasets, and compare each pair of neighbours."""
    max_runs = verifier.max_fits / verifier.domain.size
    runs_of_set: dict[PersonKinds, list[Any]] = {}
    for data_set in verifier.domain:
        fit = partial(verifier.fit, data_set)
        runs_of_set[data_set] = enumerate_runs(fit, EnumeratedFit, max_runs)
    runs = [run for set_runs in runs_of_set.values() for run in set_runs]
    noisy = any(call.kind == "noise" for run in runs for call in run.calls)
    verifier.witness = ALL_DRAWS if noisy else ALL_OUTCOMES
    verifier.n_sets = len(runs_of_set)
    for run in runs:
        verifier.check(run, run.result)
    bounds, by_path = {}, {}
    for data_set, set_runs in runs_of_set.items():
        bounds[data_set] = _observation_probabilities(set_runs)
        by_path[data_set] = {run.path: run for run in set_runs}
    for data_set in runs_of_set:
        for ordered_neighbour in verifier.domain.neighbours(data_set):
            neighbour = verifier.domain.canonical(ordered_neighbour)
            if data_set < neighbour:
                verifier.n_pairs += 1
                _compare_calls(verifier, by_path[data_set], by_path[neighbour], noisy)
                if not noisy:
                    _compare_probabilities(
                        verifier,
                        bounds[data_set],
                        bounds[neighbour],
                        by_path[data_set],
                        by_path[neighbour],
                    )


def _compare_calls(
    verifier: Verifier, runs: RunsByPath, neighbour_runs: RunsByPath, noisy: bool
) -> None:
    """Compare the mechanism calls of two datasets, for runs with equal outcomes.

    If there is noise, the privacy loss of each pair of runs is included in the attained ε.
    Otherwise, only the ledger entries are checked here, and the probabilities are compared
    elsewhere.
    """
    if noisy:
        for path, run in runs.items():
            _compare_noisy_runs(verifier, run, neighbour_runs, path)
    with contextlib.suppress(IncomparableError):  # the probabilities and the replay report it
        run = next(iter(runs.values()))
        if run.path in neighbour_runs:
            verifier.add_losses(PrivacyLosses(), run.calls, neighbour_runs[run.path].calls)


def _compare_noisy_runs(
    verifier: Verifier, run: EnumeratedFit, neighbour_runs: RunsByPath, path: Any
) -> None:
    """Compare one run with the neighbour's run with equal outcomes, and update the attained ε.

    The privacy loss of draws is exact, and the loss of noise is bounded using its sensitivity.
    """
    if path not in neighbour_runs:
        verifier.add_certainty(
            "a draw includes members that cannot be drawn on a neighbouring data set"
        )
        return
    neighbour_run = neighbour_runs[path]
    if run.result.shown != neighbour_run.result.shown:
        difference = first_difference(run.result.shown, neighbour_run.result.shown)
        verifier.add_certainty(f"neighbouring data sets are distinguishable by {difference}")
    noise = PrivacyLosses()
    try:
        verifier.add_losses(noise, run.calls_of("noise"), neighbour_run.calls_of("noise"))
    except IncomparableError as error:
        verifier.add_certainty(str(error))
    ratio = max(run.upper / neighbour_run.lower, neighbour_run.upper / run.lower)
    loss = sum(high for _, high in noise.ends) + math.log(ratio)
    verifier.add_attained(loss)


def _compare_probabilities(
    verifier: Verifier,
    bounds: ProbabilityBounds,
    neighbour_bounds: ProbabilityBounds,
    runs: RunsByPath,
    neighbour_runs: RunsByPath,
) -> None:
    """Compare the probabilities of all observations, and update the attained ε and δ."""
    if bounds.keys() != neighbour_bounds.keys():
        verifier.add_certainty(_explain_difference(runs, neighbour_runs))
        return
    assert verifier.claimed is not None
    epsilon, delta = verifier.claimed
    pairs = [(bounds[digest], neighbour_bounds[digest]) for digest in bounds]
    if not delta:
        ratios = [
            max(upper / neighbour_lower, neighbour_upper / lower)
            for (lower, upper), (neighbour_lower, neighbour_upper) in pairs
        ]
        verifier.add_attained(math.log(max(ratios)))
    # lower bounds, which equal the probabilities up to their precision
    p = np.array([float(lower) for (lower, _), _ in pairs])
    q = np.array([float(neighbour_lower) for _, (neighbour_lower, _) in pairs])
    exp_epsilon = math.exp(epsilon)
    for first, second in ((p, q), (q, p)):
        excesses = np.maximum(0, first - exp_epsilon * second)
        attained = _smallest_epsilon(first, second, delta) if delta else 0.0
        verifier.add_attained(attained, float(excesses.sum()))


def _explain_difference(runs: RunsByPath, neighbour_runs: RunsByPath) -> str:
    """Return the finding about neighbours with different sets of possible observations."""
    for path, run in runs.items():
        if path in neighbour_runs and run.result.shown != neighbour_runs[path].result.shown:
            difference = first_difference(run.result.shown, neighbour_runs[path].result.shown)
            return f"neighbouring data sets are distinguishable by {difference}"
    return "an outcome is possible on only one of two neighbouring data sets"


def _observation_probabilities(runs: list[Any]) -> ProbabilityBounds:
    """Return bounds on the probability of each distinct observation, summed over all runs."""
    bounds: ProbabilityBounds = {}
    for run in runs:
        lower, upper = bounds.get(run.result.digest, (0, 0))
        bounds[run.result.digest] = (lower + run.lower, upper + run.upper)
    return bounds


def _smallest_epsilon(p: Floats, q: Floats, delta: float) -> float:
    """Return the smallest ε with Σ max(0, p - e^ε q) <= δ, by bisection."""
    low, high = 0.0, MAX_LOG_RATIO
    if np.maximum(0, p - q).sum() <= delta:
        return 0.0
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        excess = np.maximum(0, p - math.exp(middle) * q).sum()
        low, high = (middle, high) if excess > delta else (low, middle)
    return high
