"""Recorder and enumerated runs of the public verifier, and the ratios of their probabilities."""

from fractions import Fraction

import numpy as np

from tests.internals.audit import PRECISION, EnumeratedRun, MechanismCall, Recorder, enumerate_runs
from tests.internals.mechanisms import exp_minus

__all__ = [
    "EnumeratedRun",
    "MechanismCall",
    "Recorder",
    "enumerate_runs",
    "exp_above",
    "index_by_release",
    "worst_ratio",
]


def draw_outcomes(run):
    """Return the outcomes of all draws of a run."""
    return tuple(call.outcome for call in run.calls_of("draw"))


def index_by_release(runs, released=draw_outcomes):
    """Return a dict of runs by their released values, which must differ between runs.

    The released values are those of draws by default. Noisy values are not among them.
    """
    run_of_release = {released(run): run for run in runs}
    assert len(run_of_release) == len(runs)
    return run_of_release


def worst_ratio(runs, neighbour_runs, epsilon):
    """Return an upper bound of the largest P / P' over all released values, divided by e^ε.

    Parameters
    ----------
    runs, neighbour_runs : dict
        Results of `index_by_release` for two neighbouring data sets.
    epsilon : Fraction
        Claimed privacy parameter. The claim holds if the bound is at most 1.

    Notes
    -----
    Laplace noise contributes its largest loss: exp of the L1 change of its input over its scale.
    """
    assert runs.keys() == neighbour_runs.keys()
    worst = Fraction(0)
    for release, run in runs.items():
        neighbour_run, log_ratio = neighbour_runs[release], -Fraction(epsilon)
        calls = zip(run.calls_of("noise"), neighbour_run.calls_of("noise"), strict=True)
        for call, neighbour_call in calls:
            assert not call.gaussian
            assert call.spread == neighbour_call.spread
            l1_change = int(np.abs(call.exact_input - neighbour_call.exact_input).sum())
            log_ratio += Fraction(l1_change) / call.spread
        worst = max(worst, run.upper / neighbour_run.lower * exp_above(log_ratio))
    return worst


def exp_above(x):
    """Return a rational upper bound of e^x with `PRECISION` binary digits."""
    # `exp_minus` returns lower and upper bounds of e^-x, times 2^PRECISION
    if x > 0:
        return Fraction(1 << PRECISION, exp_minus(x, PRECISION)[0])
    return Fraction(exp_minus(-x, PRECISION)[1], 1 << PRECISION)
