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
        "cases": "cases",
        "claimed ε": "claimed",
        "δ": "delta",
        "lower bound": "found",
        "upper bound": "other",
        "verdict": "verdict",
    },
    "samplers": {
        "sampler": "subject",
        "cases": "cases",
        "compared with": "tool",
        "measure": "measure",
        "value": "found",
        "number of samples, or δ of the other tool": "other",
        "verdict": "verdict",
    },
    "canaries": {
        "estimator": "subject",
        "attack": "measure",
        "cases": "cases",
        "claimed ε": "claimed",
        "δ": "delta",
        "lower bound on ε": "found",
        "without privacy": "other",
        "verdict": "verdict",
    },
    "attacks": {
        "classifier": "subject",
        "attack": "measure",
        "cases": "cases",
        "maximum area by the claim": "claimed",
        "measured area": "found",
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
        "cases": "cases",
        "pairs of neighbours": "other",
        "finding": "measure",
        "verdict": "verdict",
    },
    "time": {
        "what": "subject",
        "cases": "cases",
        "measure": "measure",
        "value": "found",
        "second value": "other",
        "verdict": "verdict",
    },
}
"""Columns of each part's table on the page, as heading and field of a row or of its kind."""

CALLS = "sys.setprofile"
"""Tool that counts the calls of a fit."""

RATIO, MEMORY = "ratio of median times, and p value", "peak MiB"
"""Measures of fits to two datasets. The page shows the largest difference."""


class Kind(NamedTuple):
    """Rows that the page shows as one, the row that it shows, and their number."""

    line: Row
    cases: int


def kinds(rows):
    """Return the kinds of rows of a part; rows with different verdicts are never of one kind."""
    rows_of_kind = {}
    for line in rows:
        rows_of_kind.setdefault((*_kind(line), line.verdict), []).append(line)
    return [Kind(max(mine, key=_rank), len(mine)) for mine in rows_of_kind.values()]


def _kind(line):
    """Return what rows of a kind have in common: mostly the class of the estimator."""
    subject, _, rest = line.subject.partition(",")
    if subject.startswith("private_"):
        subject = "private scores"
    if line.part == "accounting" or line.tool == CALLS:
        return (subject,)
    if line.part in ("samplers", "recorder"):
        return subject, line.tool
    if line.part in ("canaries", "attacks"):
        return subject, line.measure
    if line.measure in (RATIO, MEMORY):
        return rest.rpartition(",")[2], line.measure
    return line.subject, line.measure


def _rank(line):
    """Return a number that is largest in the row of a kind that the page shows."""
    if line.claimed > 0:
        return line.found / line.claimed
    if line.measure.startswith("p value"):
        return -line.found
    if line.measure in (RATIO, MEMORY):
        ratio = line.found if line.measure == RATIO else line.found / line.other
        return abs(math.log(ratio))
    return line.found


def table(part, rows):
    """Return a part's table in Markdown, with a row for each kind."""
    fields = COLUMNS[part].values()
    is_text = [field in ("tool", "subject", "measure", "verdict") for field in fields]
    lines = [f"| {' | '.join(COLUMNS[part])} |"]
    lines.append("|" + "".join("---|" if text else "--:|" for text in is_text))
    for kind in kinds(rows):
        values = {**kind.line._asdict(), "cases": kind.cases}
        if kind.line.tool == CALLS:
            values["measure"] = "calls"  # the CSV names the functions
        cells = (_text(values[field]) or "—" for field in fields)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def is_left_out(line):
    """Return whether a row is only in the CSV, like the many fits with identical calls."""
    return line.tool == CALLS and line.verdict == EQUAL


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
