"""The committed tables of the audit and of the seeded defects, and their summaries on a page.

``python -m tests.audit > tests/audit/checks.md`` and ``python -m tests.mutants >
tests/mutants/defects.md`` write the tables. ``python -m tests.audit.summary`` then writes the
summaries into docs/user_guide/why_believe_it.md.
"""

import re
from collections import defaultdict
from pathlib import Path

from tests import ROOT

CHECKS = ROOT / "tests" / "audit" / "checks.md"
DEFECTS = ROOT / "tests" / "mutants" / "defects.md"
PAGE = ROOT / "docs" / "user_guide" / "why_believe_it.md"


def rows(path: Path) -> list[list[str]]:
    """Return the cells of a committed table, row by row."""
    lines = re.findall(r"^\| (.+) \|$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return [line.split(" | ") for line in lines[1:]]


def summary_of_checks(checks: list[list[str]]) -> str:
    """Return a row for each class and witness: the check that is closest to its claim.

    All private scores are one class. A violation is part of the witness, so it has its own row.
    """
    similar = defaultdict(list)
    for name, *claims, witness in checks:
        subject = "private scores" if name.startswith("private_") else name.split(",")[0]
        similar[subject, witness].append((name, *claims, witness))
    lines = [
        "| estimator | checks | claimed ε | δ | attained ε | witness |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for mine in similar.values():
        name, *cells = max(mine, key=_share_of_claim)
        lines.append(f"| {name} | {len(mine)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _share_of_claim(check: tuple[str, ...]) -> float:
    _, claimed, _, attained, _ = check
    if claimed in ("—", "0"):
        return 0.0
    return float(attained.removeprefix("≥ ")) / float(claimed)


def summary_of_defects(defects: list[list[str]]) -> str:
    """Return a row for each class of defects: their number, the first one and all witnesses."""
    similar = defaultdict(list)
    for name, kind, _, witness in defects:
        similar[kind].append((name, witness))
    lines = ["| class | defects | for example | witnesses |", "|---|--:|---|---|"]
    for kind, mine in similar.items():
        witnesses = "; ".join(sorted({witness for _, witness in mine}))
        lines.append(f"| {kind} | {len(mine)} | {mine[0][0]} | {witnesses} |")
    return "\n".join(lines)


def with_summaries(text: str) -> str:
    """Return the text of the page with both summaries of the committed tables."""
    summaries = {
        "make audit": summary_of_checks(rows(CHECKS)),
        "make mutants": summary_of_defects(rows(DEFECTS)),
    }
    for command, summary in summaries.items():
        mark = f"<!-- {command} -->\n"
        text = re.sub(rf"{mark}(?:\|.*\n)*", lambda _, m=mark, s=summary: f"{m}{s}\n", text)
    return text


if __name__ == "__main__":
    PAGE.write_text(with_summaries(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
