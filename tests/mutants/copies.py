"""Plants a defect in a copy of the package, and lets that copy verify itself."""

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

from skpublicdp.audit.evidence import FAILED
from tests.mutants.mutant import Mutant

PACKAGE = Path(__file__).parent.parent.parent / "skpublicdp"
_ROW = re.compile(r"^\| (.+?) \| .* \| (.+?): \*\*VIOLATED\*\*: (.+) \|$")


class Caught(NamedTuple):
    """What gave a defect away: the estimator, the witness and what it says."""

    case: str
    witness: str
    finding: str


def planted(mutant: Mutant) -> str:
    """Return the text of the file with the defect."""
    text = (PACKAGE / mutant.file).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.file} must hold the text of {mutant.name!r} once.")
    return text.replace(mutant.old, mutant.new)


def caught(mutant: Mutant | None, cases: Sequence[str] = ()) -> Caught | None:
    """Return the first violation that the verifier finds in a copy, or None.

    Cases are those that are expected to find it; if none does, all are asked. A copy that cannot be
    used at all is no violation. Without a defect, `cases` alone are verified.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / PACKAGE.name
        shutil.copytree(PACKAGE, copy)  # with what is compiled: the defect is newer
        if mutant is None:
            return _violation(folder, cases)
        (copy / mutant.file).write_text(planted(mutant), encoding="utf-8")
        return _violation(folder, mutant.cases) or _violation(folder, ())


def _violation(folder: str, cases: Sequence[str]) -> Caught | None:
    where = {"PYTHONPATH": folder, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "skpublicdp.audit", *cases]
    with (
        open(Path(folder) / "progress", "w+", encoding="utf-8") as progress,
        subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | where,
            stdout=subprocess.PIPE,
            stderr=progress,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        lines = 0
        for line in process.stdout:
            lines += 1
            found = _ROW.match(line)
            if found and not found[3].startswith(FAILED):
                process.kill()
                return Caught(*found.groups())
        if lines < 3:
            process.wait()
            progress.seek(0)
            raise ValueError(
                "A copy of the package must at least be imported, and this one is not: "
                + progress.read()
            )
    return None
