"""Recorder and enumerated runs of the public verifier, for tests."""

from skpublicdp.audit.enumerated_runs import (
    EnumeratedRun,
    enumerate_runs,
    exp_above,
    index_by_release,
    worst_ratio,
)
from skpublicdp.audit.recorder import MechanismCall, Recorder

__all__ = [
    "EnumeratedRun",
    "MechanismCall",
    "Recorder",
    "enumerate_runs",
    "exp_above",
    "index_by_release",
    "worst_ratio",
]
