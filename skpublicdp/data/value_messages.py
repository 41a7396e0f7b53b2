"""Error messages about values of columns, which name types and columns but never private values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, time, timedelta
from numbers import Number
from typing import Any

import numpy as np

MAX_LISTED_COLUMNS = 5
"""Maximum number of columns named in an error or a warning."""

KINDS_OF_OBJECTS: dict[str, tuple[type, ...]] = {
    "text": (str, np.str_),
    "booleans": (bool, np.bool_),
    "dates": (date, np.datetime64),
    "times of day": (time,),
    "durations": (timedelta, np.timedelta64),
    "complex numbers": (complex, np.complexfloating),
    "numbers": (Number, np.number),
    "bytes": (bytes, bytearray, memoryview),
    "lists": (list, tuple, set, frozenset, np.ndarray),
    "dicts": (dict,),
}
"""Python types of public values in columns of dtype object, by the names that messages use."""

REMEDIES = {
    "dates": "Convert all values to dates.",
    "times of day": "Convert them to numbers, such as minutes since midnight.",
    "durations": "Convert them to numbers, for example with .dt.total_seconds().",
    "bytes": "Convert them to text, for example with .str.decode('utf-8').",
    "lists": "Convert them to numbers or text, or drop the column.",
    "structs": "Convert them to numbers or text, or drop the column.",
    "dicts": "Convert them to numbers or text, or drop the column.",
    "complex numbers": "Use their real parts.",
}
"""Remedies for columns that cannot be read, by kind of value."""


def kind_of_object(value: Any) -> str:
    """Return the name of a public value's kind, such as "dates", as it appears in messages."""
    for kind, types in KINDS_OF_OBJECTS.items():
        if isinstance(value, types):
            return kind
    return f"values of type {type(value).__name__}"


def remedy_for(kind: str) -> str:
    """Return a sentence that says how to convert a column with values of an unreadable kind."""
    return REMEDIES.get(kind, "Convert or drop the column, for example with .astype(str).")


def unreadable_message(name: str, kinds: Collection[str]) -> str:
    """Return the message about a column whose public values are of unreadable or mixed kinds."""
    readable = {"text", "booleans", "numbers", "dates"}
    first = next((kind for kind in kinds if kind not in readable), "dates")
    return (
        f"Column {name} must contain numbers, booleans, dates, text or categories; its public "
        f"values are {' and '.join(kinds)}. {remedy_for(first)}"
    )


IMPUTATION_ADVICE = (
    "Impute with PublicFit(SimpleImputer()), encode text with "
    "PublicFit(OneHotEncoder(sparse_output=False, handle_unknown='ignore')), or use "
    "SemiPrivateBoostingClassifier, which accepts both, or MarginalQueries(missing=[...])."
)
"""Remedies for missing numbers and for text in columns of numbers."""


def not_numbers_message(
    names: Sequence[str], nullable: bool = False, dates: Collection[str] = ()
) -> str:
    """Return the error message about invalid values in columns of numbers or dates.

    The message does not reveal which column or row contains the invalid value.

    Parameters
    ----------
    names : sequence of str
        Names of all numeric columns that can contain an invalid value.
    nullable : bool
        Whether values can be missing.
    dates : collection of str
        Names of the columns that contain dates.
    """
    n_others = len(names) - MAX_LISTED_COLUMNS
    listed = ", ".join(names[:MAX_LISTED_COLUMNS])
    listed += f" and {n_others} others" if n_others > 0 else ""
    columns = f"Column {listed}" if len(names) == 1 else f"Columns {listed}"
    if len(dates) == len(names) and nullable:
        return (
            f"{columns} must contain dates only, as in the public rows, but at least one value is "
            "neither a date nor missing (the row is withheld). Pass dates, or text in ISO format "
            "such as 2024-01-31."
        )
    if len(dates) == len(names):
        return (
            f"{columns} must contain dates only, without missing dates, but at least one value is "
            "missing or is no date (the row is withheld). Pass dates, or text in ISO format such "
            "as 2024-01-31, or use SemiPrivateBoostingClassifier or MarginalQueries(missing=[...])"
            ", which accept missing dates."
        )
    and_dates = f" (and dates in {', '.join(dates)})" if dates else ""
    if nullable:
        return (
            f"{columns} must contain numbers only, as in the public rows{and_dates}, but at least "
            "one value is neither a number nor missing (the row is withheld). Convert the invalid "
            "values, or drop the column."
        )
    return (
        f"{columns} must contain numbers only, without missing or infinite values{and_dates}, but "
        "X contains NaN, infinity, a value too large for float64, or text (the row is withheld; "
        f"each argument must be a number, or a string that is a number). {IMPUTATION_ADVICE}"
    )


def date_advice(name: str) -> str:
    """Return the message about a column of dates, for an estimator that accepts only numbers."""
    return (
        f"Column {name} must contain numbers here; got dates. Convert them, for example to days "
        "since a fixed date, or use SemiPrivateClassifier or SemiPrivateBoostingClassifier, which "
        "accept dates."
    )
