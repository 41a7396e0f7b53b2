"""``python -m tests.audit [NAME ...]``: verify, print a table, exit with 1 on a violation."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

from tests.audit import checks
from tests.audit.checks import Result, run_check, table, verdict


def main(*names: str) -> int:
    """Run the checks with the given names, by default all, and return the exit code.

    Each line of the table is printed when its check has finished, and the verdict at the end. The
    name of the running check is printed to standard error. All randomness is seeded or replayed, so
    that repeated runs print the same.
    """
    warnings.simplefilter("ignore")
    check_of_name = checks.all_checks()
    for name in names:
        if name not in check_of_name:
            raise ValueError(f"names must be names in the table of the audit; got {name!r}.")
    results = []

    def run_all() -> Iterator[Result]:
        """Yield the result of each check."""
        selected = names or tuple(check_of_name)
        for number, name in enumerate(selected, start=1):
            print(f"{number}/{len(selected)} {name}", file=sys.stderr, flush=True)
            results.append(run_check(name, check_of_name[name]))
            yield results[-1]

    for line in table(run_all()):
        print(line, flush=True)
    print(f"\n{verdict(results)}", flush=True)
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
