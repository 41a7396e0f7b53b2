"""What a seeded defect is."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """A defect: other text in one file.

    Attributes
    ----------
    name : str
        What is wrong.
    kind : str
        Its class.
    file : str
        Below the package.
    old, new : str
        The text, which the file holds once, and what takes its place.
    cases : tuple of str
        Names in the table of `verify_all` that are expected to find it.
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
UNPAID = "unpaid look"
STRUCTURE = "structure from private rows"
FLOATS = "sums of floats"
LEAK = "leak beside the release"
