"""Defects seeded in the package one at a time, each of which the public verifier must find.

``python -m tests.mutants`` verifies them all and prints the table of
docs/user_guide/why_believe_it.md; names may follow. A defect is a few lines of other text in a copy
of the package: it is never run in the package itself.
"""

from tests.mutants import boosting, core, learners, releases
from tests.mutants.copies import Caught, caught, planted
from tests.mutants.mutant import Mutant

MUTANTS = (*core.MUTANTS, *learners.MUTANTS, *boosting.MUTANTS, *releases.MUTANTS)

__all__ = ["MUTANTS", "Caught", "Mutant", "caught", "planted"]
