"""Handle the rows of the witnesses' table, its CSV and its page with only the standard library."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
SUMMARY = HERE / "witnesses.csv"
PAGE = HERE.parent / "docs" / "user_guide" / "witnesses.md"

HOLDS, ABOVE, FOUND, MISSED = "holds", "ABOVE", "found", "not found"
"""Verdicts about a claim, and about a planted defect."""

EQUAL, DIFFERS = "equal", "differs"
"""Verdicts about differences in time and memory between two datasets."""


class MissingError(Exception):
    """Raised by a part if a requirement is missing."""


class Row(NamedTuple):
    """Result of an independent tool.

    Attributes
    ----------
    part : str
        Part of the run, which is also the table of the page.
    tool : str
        Package and version of the tool.
    subject : str
        Estimator or sampler, with its settings.
    measure : str
        Quantity reported in `found`.
    claimed : float
        Largest value allowed by the claim; NaN without a claim.
    delta : float
        δ of the claim; NaN if not applicable.
    found : float
        Value that the tool found.
    other : float
        Second value, without privacy or rounded in the other direction; NaN if not available.
    verdict : str
        Whether `found` is within the claim, or whether a planted defect was found.
    """

    part: str
    tool: str
    subject: str
    measure: str
    claimed: float
    delta: float
    found: float
    other: float
    verdict: str


def row(part, tool, subject, measure, claimed, delta, found, other=math.nan):
    """Return a row whose verdict compares a value with the largest value allowed by the claim."""
    verdict = HOLDS if math.isnan(claimed) or found <= claimed else ABOVE
    return Row(part, tool, subject, measure, claimed, delta, found, other, verdict)


def read():
    """Return the rows of the committed table."""
    with SUMMARY.open(encoding="utf-8", newline="") as lines:
        return [
            Row(*line[:4], *(float(text or "nan") for text in line[4:8]), line[8])
            for line in list(csv.reader(lines))[1:]
        ]


def write(part, rows):
    """Replace the rows of a part in the committed table and in the tables of the page."""
    kept = [line for line in read() if line.part != part] if SUMMARY.exists() else []
    with SUMMARY.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(Row._fields)
        for line in sorted([*kept, *rows], key=lambda line: line.part):  # stable within a part
            writer.writerow(map(_text, line))
    if PAGE.exists():
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _text(value):
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else f"{value:.5g}"


COLUMNS = {
    "accounting": {
        "estimator": "subject",
        "claimed ε": "claimed",
        "δ": "delta",
        "PLD, at least": "found",
        "PLD, at most": "other",
        "verdict": "verdict",
    },
    "samplers": {
        "sampler": "subject",
        "beside": "tool",
        "compared by": "measure",
        "value": "found",
        "samples, or δ of the other": "other",
        "verdict": "verdict",
    },
    "canaries": {
        "estimator": "subject",
        "attack": "measure",
        "claimed ε": "claimed",
        "δ": "delta",
        "ε at least": "found",
        "without privacy": "other",
        "verdict": "verdict",
    },
    "attacks": {
        "classifier": "subject",
        "attack": "measure",
        "largest area by the claim": "claimed",
        "area": "found",
        "HistGradientBoosting": "other",
        "verdict": "verdict",
    },
    "rows": {
        "rows": "subject",
        "protection against overfitting": "found",
        "quality": "other",
    },
    "recorder": {
        "case": "subject",
        "pairs of neighbours": "other",
        "finding": "measure",
        "verdict": "verdict",
    },
    "time": {
        "what": "subject",
        "measure": "measure",
        "value": "found",
        "of the other": "other",
        "verdict": "verdict",
    },
}
"""Columns of each part's table on the page, as heading and row field."""


def table(part, rows):
    """Return a part's table in Markdown."""
    fields = COLUMNS[part].values()
    is_text = [field in ("tool", "subject", "measure", "verdict") for field in fields]
    lines = [f"| {' | '.join(COLUMNS[part])} |"]
    lines.append("|" + "".join("---|" if text else "--:|" for text in is_text))
    for line in rows:
        cells = (_text(getattr(line, field)) or "—" for field in fields)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def is_left_out(line):
    """Return whether a row is only in the CSV, like the many fits with identical calls."""
    return line.tool == "sys.setprofile" and line.verdict == EQUAL


def with_tables(text):
    """Return a page's text with each table between its comments updated from the CSV."""
    rows = read()
    for part in COLUMNS:
        mine = [line for line in rows if line.part == part and not is_left_out(line)]
        pattern = rf"(<!-- witnesses: {part} -->\n).*?(<!-- end -->)"
        text = re.sub(
            pattern, lambda m, p=part, r=mine: f"{m[1]}{table(p, r)}\n{m[2]}", text, flags=re.DOTALL
        )
    return text
