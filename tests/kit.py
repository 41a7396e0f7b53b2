"""The tests' kit: the tape and the runs are those of the public verifier."""

from skpublicdp.audit.recorder import Tape, Use
from skpublicdp.audit.runs import Run, by_release, every_run, exp_above, worst_ratio

__all__ = ["Run", "Tape", "Use", "by_release", "every_run", "exp_above", "worst_ratio"]
