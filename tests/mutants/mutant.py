"""A seeded defect, and the kinds of defects."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """A defect: a replacement of text in one file.

    Attributes
    ----------
    name : str
        Description of the defect.
    kind : str
        Kind of the defect.
    file : str
        Path of the file, relative to the package.
    old, new : str
        Text that occurs once in the file, and its replacement.
    cases : tuple of str
        Names of the checks of the audit that are expected to detect it.
    """

    name: str
    kind: str
    file: str
    old: str
    new: str
    cases: tuple[str, ...]


SCALE = "wrong scale"
SENSITIVITY = "wrong sensitivity"
RANDOMNESS = "bad randomness"
CHARGE = "late or missing charge"
ACCOUNT = "wrong accounting"
UNPAID = "uncharged access"
STRUCTURE = "structure from private rows"
FLOATS = "floating-point sums"
LEAK = "leak outside the release"
