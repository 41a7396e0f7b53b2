"""Warnings about text columns whose public values should be converted or dropped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from skpublicdp.data.schema import Schema
from skpublicdp.data.tables import Table
from skpublicdp.data.value_conversion import is_missing
from skpublicdp.data.value_messages import MAX_LISTED_COLUMNS
from skpublicdp.exceptions import TextColumnWarning, warn

MIN_DISTINCT, MIN_VALUES = 10, 20
"""Minimum number of distinct dates or amounts, and of values of free text, in a warning."""

MOST = 0.9
"""Minimum share of public values that are dates or amounts, or of distinct values in free text."""

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"\s*(?:"
    r"\d{4}([-/.])\d{1,2}\1\d{1,2}"  # 2024-01-31
    r"|\d{1,2}([-/.])\d{1,2}\2(?:\d{4}|\d{2})"  # 31/01/2024, 1.2.24
    rf"|\d{{1,2}}[ -]{_MONTH}[ ,-]+\d{{2,4}}"  # 31 January 2024
    rf"|{_MONTH} \d{{1,2}},? \d{{2,4}}"  # Jan 31, 2024
    r")(?:[T ]+\d{1,2}:\d{2}.*)?\s*",
    re.IGNORECASE,
)
"""Text that is a date, possibly with a time of day."""

_UNIT = r"(?:[$€£¥₹%]|(?:usd|eur|gbp|chf|jpy|cny|inr)\b)"
_NUMERAL = r"\d+(?:[., '’]\d+)*"
_AMOUNT = re.compile(
    rf"\s*[-+(]?\s*(?:{_UNIT}\s*[-+]?{_NUMERAL}|{_NUMERAL}\s*{_UNIT}"
    r"|\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+,\d+|\d+,\d{1,2})\s*\)?\s*",
    re.IGNORECASE,
)
"""Text that is an amount of money, a percentage, or a number with separators."""


def warn_about_text(schema: Schema, public: Sequence[Table]) -> None:
    """Warn about text columns whose public values are dates, amounts, or nearly all different."""
    dates, amounts, free = [], [], []
    for position, column in enumerate(schema.columns):
        if not column.categorical or column.is_closed:
            continue
        values = [value for part in public for value in part.column(position).tolist()]
        present = [value for value in values if not is_missing(value)]
        distinct = {value for value in present if isinstance(value, str)}
        if len(distinct) < MIN_DISTINCT:
            continue
        n_wanted = MOST * len(distinct)
        if sum(_DATE.fullmatch(text) is not None for text in distinct) >= n_wanted:
            dates.append(column.name)
        elif sum(_AMOUNT.fullmatch(text) is not None for text in distinct) >= n_wanted:
            amounts.append(column.name)
        elif len(present) >= MIN_VALUES and len(distinct) >= MOST * len(present):
            free.append(column.name)
    for names, kind, function in ((dates, "dates", "datetime"), (amounts, "amounts", "numeric")):
        if names:
            warn(
                f"Column {_listed(names)} contains {kind} as text, according to its public values, "
                "so each value is a category of its own. Convert the column before the fit, for "
                f"example with pandas.to_{function}.",
                TextColumnWarning,
            )
    if free:
        warn(
            f"Nearly every public value of column {_listed(free)} occurs once, as in free text or "
            "identifiers. Little can be learned from the column, and public values are displayed "
            "as names of categories, for example by explain. Drop the column, or encode it.",
            TextColumnWarning,
        )


def _listed(names: Sequence[str]) -> str:
    """Return the first names, separated by commas."""
    return ", ".join([*names[:MAX_LISTED_COLUMNS], *["..."][: len(names) > MAX_LISTED_COLUMNS]])
