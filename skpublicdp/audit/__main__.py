"""``python -m skpublicdp.audit [NAME ...]``: verify, print a table, exit with 1 on a violation."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

from skpublicdp.audit.binomial import BinomialAudit
from skpublicdp.audit.evidence import run_check, select_checks, table, verdict
from skpublicdp.audit.verification import Verification


def main(*names: str) -> int:
    """Run the checks with the given names, by default all, and return the exit code.

    Each line of the table is printed when its check has finished, and the verdict at the end. The
    name of the running check is printed to standard error.
    """
    warnings.simplefilter("ignore")
    checks = select_checks(*names)
    results = []

    def run_all() -> Iterator[Verification | BinomialAudit]:
        for number, (name, check) in enumerate(checks.items(), start=1):
            print(f"{number}/{len(checks)} {name}", file=sys.stderr, flush=True)
            results.append(run_check(name, check))
            yield results[-1]

    for line in table(run_all()):
        print(line, flush=True)
    print(f"\n{verdict(results)}", flush=True)
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
