"""``python -m skpublicdp.audit [NAME ...]``: verify, print a table, return 1 if anything fails."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

from skpublicdp.audit.binomial import BinomialAudit
from skpublicdp.audit.evidence import table, verify_all
from skpublicdp.audit.verification import Verification


def main(*names: str) -> int:
    """Print the table while it grows, of everything or of some names."""
    warnings.simplefilter("ignore")
    failed = []

    def noted() -> Iterator[Verification | BinomialAudit]:
        for found in verify_all(*names):
            if not found.holds:
                failed.append(found.name)
            yield found

    for line in table(noted()):
        print(line, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
