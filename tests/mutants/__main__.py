"""``python -m tests.mutants [NAME ...]``: print the check that detects each seeded defect."""

import sys

from tests.mutants import MUTANTS, detect


def main(*names: str) -> int:
    """Print a table of the detections, line by line, and return 1 if a defect is missed."""
    missed = 0
    print("| defect | class | found by | witness |\n|---|---|---|---|", flush=True)
    for mutant in MUTANTS:
        if names and mutant.name not in names:
            continue
        detection = detect(mutant)
        missed += detection is None
        cells = "**missed** | none"
        if detection is not None:
            cells = f"{detection.case} | {detection.witness}"
        print(f"| {mutant.name} | {mutant.kind} | {cells} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
