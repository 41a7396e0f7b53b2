"""Copies of the package with a seeded defect, which its audit verifies."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests import ROOT
from tests.audit.checks import FAILED
from tests.mutants.mutant import PACKAGE, Mutant, Patch

_ROW = re.compile(r"^\| (.+?) \| .* \| (.+?): \*\*VIOLATED\*\*: (.+) \|$")


class Detection(NamedTuple):
    """A violation in a copy with a defect: the check, its witness and its finding."""

    case: str
    witness: str
    finding: str


def detect(mutant: Mutant | Patch | None, cases: Sequence[str] = ()) -> Detection | None:
    """Return the first violation that the verifier finds in a copy with a defect, or None.

    The checks that are expected to detect it run first, then all checks. A check that raises an
    error is not a violation.

    Parameters
    ----------
    mutant : Mutant, Patch or None
        Defect of the copy; None for a copy without a defect.
    cases : sequence of str
        Names of the checks of a copy without a defect.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy_with_audit(folder, mutant)
        if mutant is None:
            return _violation(folder, cases)
        return _violation(folder, mutant.cases) or _violation(folder, ())


def copy_with_audit(folder: str, mutant: Mutant | Patch | None) -> None:
    """Copy the package and its audit to a folder, with a defect unless `mutant` is None."""
    for part in ("skpublicdp", "tests/audit", "tests/internals"):
        # with compiled files: the changed file is newer
        shutil.copytree(ROOT / part, Path(folder) / part)
    shutil.copy(ROOT / "tests" / "__init__.py", Path(folder) / "tests")
    if mutant is not None:
        changed_file = Path(folder) / PACKAGE.name / mutant.file
        changed_file.write_text(mutant.source(), encoding="utf-8")


def _violation(folder: str, cases: Sequence[str]) -> Detection | None:
    """Run the checks of a copy in a folder until the first violation."""
    variables = {"PYTHONPATH": folder, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.audit", *cases]
    with (
        open(Path(folder) / "progress", "w+", encoding="utf-8") as progress,
        subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=progress,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        n_lines = 0
        for line in process.stdout:
            n_lines += 1
            violation = _ROW.match(line)
            if violation and not violation[3].startswith(FAILED):
                process.kill()
                return Detection(*violation.groups())
        if n_lines < 3:
            process.wait()
            progress.seek(0)
            raise ValueError(f"The copy of the package cannot be imported: {progress.read()}")
    return None
