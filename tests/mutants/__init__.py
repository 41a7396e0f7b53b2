"""Seeded defects of the package, which the public verifier must find one at a time.

``python -m tests.mutants [NAME ...]`` verifies copies of the package with a defect, and prints the
table of tests/mutants/defects.md. A defect is a definition that takes the name of another
one (`Patch`), or a replacement of a few lines (`Mutant`). The package itself is never changed.
"""

from tests.mutants import boosting, conformal, core, learners, linear, releases
from tests.mutants.copies import Detection, detect
from tests.mutants.mutant import Mutant, Patch

MUTANTS = (
    *core.MUTANTS,
    *learners.MUTANTS,
    *boosting.MUTANTS,
    *linear.MUTANTS,
    *releases.MUTANTS,
    *conformal.MUTANTS,
)

__all__ = ["MUTANTS", "Detection", "Mutant", "Patch", "detect"]
