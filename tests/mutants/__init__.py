"""Seeded defects of the package, which the public verifier must find one at a time.

``python -m tests.mutants [NAME ...]`` verifies copies of the package with a defect, and prints the
table of docs/user_guide/why_believe_it.md. A defect is a replacement of a few lines in such a copy.
The package itself is never changed.
"""

from tests.mutants import boosting, core, learners, releases
from tests.mutants.copies import Detection, detect, with_defect
from tests.mutants.mutant import Mutant

MUTANTS = (*core.MUTANTS, *learners.MUTANTS, *boosting.MUTANTS, *releases.MUTANTS)

__all__ = ["MUTANTS", "Detection", "Mutant", "detect", "with_defect"]
