"""A seeded defect, and the kinds of defects."""

import ast
from collections import defaultdict
from functools import cache
from textwrap import indent
from typing import NamedTuple

from tests import ROOT

PACKAGE = ROOT / "skpublicdp"


class Mutant(NamedTuple):
    """A defect within a function: a replacement of text in one file.

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

    def source(self) -> str:
        """Return the source of the file with the defect."""
        text = (PACKAGE / self.file).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} must contain the text of {self.name!r} once.")
        return text.replace(self.old, self.new)


class Patch(NamedTuple):
    """A defect of a whole definition: another one takes its name, wherever it is defined.

    Moving, renaming or formatting code within the definition does not touch the defect.

    Attributes
    ----------
    name : str
        Description of the defect.
    kind : str
        Kind of the defect.
    target : str
        Name of a constant, function or method (`Class.method`) of the package.
    new : str
        What takes its name: an expression, or the source of a function `replacement`. It may use
        `original`, which is the definition of the package, and all names of its module.
    cases : tuple of str
        Names of the checks of the audit that are expected to detect it.
    """

    name: str
    kind: str
    target: str
    new: str
    cases: tuple[str, ...]

    @property
    def file(self) -> str:
        """Path of the file that defines the target, relative to the package."""
        files = definitions().get(self.target, ())
        if len(files) != 1:
            raise ValueError(f"One file must define {self.target!r}; found {list(files)}.")
        return files[0]

    def source(self) -> str:
        """Return the source of the file with the defect at its end."""
        body = self.new if self.new.startswith("def ") else f"replacement = {self.new}\n"
        owner, _, attribute = self.target.rpartition(".")
        current = f'vars({owner})["{attribute}"]' if owner else self.target
        return (
            (PACKAGE / self.file).read_text(encoding="utf-8")
            + "\n\ndef _seeded_defect(original):\n"
            + "    import copy, dataclasses, math, types, warnings\n\n"
            + indent(body, "    ")
            + "    return replacement\n\n\n"
            + f"{self.target} = _seeded_defect({current})\n"
        )


@cache
def definitions() -> dict[str, list[str]]:
    """Return the files that define each constant, function and method of the package, by name."""
    files = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                files[node.name].append(file)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                files[node.targets[0].id].append(file)
            elif isinstance(node, ast.ClassDef):
                methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                for method in methods:
                    files[f"{node.name}.{method}"].append(file)
    return files


SCALE = "wrong scale"
SENSITIVITY = "wrong sensitivity"
RANDOMNESS = "bad randomness"
CHARGE = "late or missing charge"
ACCOUNT = "wrong accounting"
UNPAID = "uncharged access"
STRUCTURE = "structure from private rows"
FLOATS = "floating-point sums"
LEAK = "leak outside the release"
