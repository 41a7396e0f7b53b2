"""``python -m tests.mutants [NAME ...]``: who finds each defect; returns 1 if one is missed."""

import sys

from tests.mutants import MUTANTS, caught


def main(*names: str) -> int:
    """Print the table while it grows."""
    missed = 0
    print("| defect | class | found by | witness |\n|---|---|---|---|", flush=True)
    for mutant in MUTANTS:
        if names and mutant.name not in names:
            continue
        found = caught(mutant)
        missed += found is None
        said = "**missed** | none" if found is None else f"{found.case} | {found.witness}"
        print(f"| {mutant.name} | {mutant.kind} | {said} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
