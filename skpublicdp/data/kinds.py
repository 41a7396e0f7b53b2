"""Compare the kinds of columns at prediction with those at fit, by declared types alone.

No value of a row decides a refusal, since `predict` also runs on private rows. A column of dtype
object declares no kind and is never refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.column import Column, is_missing, printed
from skpublicdp.data.schema import column_names
from skpublicdp.data.tables import (
    ANYTHING,
    BOOLEAN,
    CATEGORY,
    DATE,
    NUMBER,
    TEXT,
    ColumnType,
    Table,
)


def keep_kinds(estimator: Any, table: Table, *, numeric: bool) -> None:
    """Store the declared kinds of the columns of `fit` on an estimator that has no schema.

    A schema comes from public rows and says more. An array has one type for all columns, so its
    numbers and booleans declare nothing of a column. Objects are numbers for an estimator of
    numbers: one private number that is written as text makes objects of a column.
    """
    if hasattr(type(estimator), "_columns_at_fit"):
        return
    kinds = tuple(map(_kind, table.types))
    if not table.is_frame:
        kinds = tuple(ANYTHING if kind in (NUMBER, BOOLEAN) else kind for kind in kinds)
    elif numeric:
        kinds = tuple(NUMBER if kind == ANYTHING else kind for kind in kinds)
    estimator._kinds = kinds


def kind_of_public(values: NDArray[Any]) -> str:
    """Return the kind of public values of a column whose type declares none."""
    kinds = {_kind_of_value(value) for value in values.tolist() if not is_missing(value)}
    return kinds.pop() if kinds in ({TEXT}, {BOOLEAN}, {NUMBER}) else ANYTHING


def check_kinds_at_prediction(estimator: Any, table: Table) -> None:
    """Refuse columns of another kind than at fit, unless each value can be converted.

    Parameters
    ----------
    estimator : estimator
        Has the columns of its schema as `_columns_at_fit`, or else the kinds that `fit` kept.
    table : Table
        Rows to predict, in the order of columns of `fit`. Only their types are read.

    Raises
    ------
    ValueError
        Names the first such column.
    """
    kinds: Sequence[str] = getattr(estimator, "_kinds", ())
    columns_at_fit: Sequence[Column | str] = getattr(estimator, "_columns_at_fit", kinds)
    names = column_names(table)
    for name, at_fit, type_ in zip(names, columns_at_fit, table.types, strict=False):
        new_kind = _kind(type_)
        if new_kind == ANYTHING:
            continue
        if isinstance(at_fit, str):
            expected, accepted = at_fit, new_kind in _ACCEPTED[at_fit]
        else:
            expected, accepted = _accepted_by_schema(at_fit, new_kind)
        in_array = not table.is_frame and new_kind != DATE and expected in (NUMBER, BOOLEAN)
        categorical = isinstance(at_fit, Column) and at_fit.categorical
        if not accepted and (categorical or not in_array):
            raise ValueError(another_kind(name, expected, type_.kind))


def another_kind(name: str, expected: str, given: str) -> str:
    """Return the message about a column of another kind than at fit."""
    return (
        f"Column {name} must hold {expected}, as at fit; got {given}: convert it to the kind of "
        "values that fit was given."
    )


_ACCEPTED = {
    NUMBER: {NUMBER},
    BOOLEAN: {BOOLEAN, NUMBER},
    DATE: {DATE},
    TEXT: {TEXT},
    ANYTHING: {NUMBER, BOOLEAN, TEXT, DATE},
}
"""Kinds that may take the place of another one where values are not converted one by one."""


def _kind(type_: ColumnType) -> str:
    """Return the kind of a column type, that of the declared categories if there are some."""
    if type_.kind != CATEGORY:
        return type_.kind
    kinds = set(map(_kind_of_value, (TEXT,) if type_.categories is None else type_.categories))
    return kinds.pop() if len(kinds) == 1 else ANYTHING


def _kind_of_value(value: Any) -> str:
    if isinstance(value, str):
        return TEXT
    if isinstance(value, bool | np.bool_):
        return BOOLEAN
    if isinstance(value, int | float | np.number):
        return NUMBER
    return DATE if isinstance(value, date | np.datetime64) else ANYTHING


def _accepted_by_schema(column: Column, new_kind: str) -> tuple[str, bool]:
    """Return the kind of a described column, and whether it takes a given kind."""
    if column.is_datetime:
        return DATE, new_kind == DATE
    if column.categorical:
        return _accepted_as_category(column, new_kind)
    # booleans are read as 0 and 1, where no public number is another one
    binary = set(column.values.tolist()) <= {0.0, 1.0}
    return NUMBER, new_kind in (NUMBER, TEXT) or (new_kind == BOOLEAN and binary)


def _accepted_as_category(column: Column, new_kind: str) -> tuple[str, bool]:
    categories = column.values.tolist()
    kinds = set(map(_kind_of_value, categories))
    if len(kinds) != 1 or ANYTHING in kinds:
        return ANYTHING, True
    (kind,) = kinds
    if kind == TEXT and new_kind == NUMBER:
        return kind, any(map(_is_printed_number, categories))
    if kind == TEXT and new_kind == BOOLEAN:
        return kind, bool({"True", "False"} & set(categories))
    takes = {BOOLEAN: {BOOLEAN, NUMBER}, NUMBER: {NUMBER, TEXT}}
    return kind, new_kind in takes.get(kind, {kind})


def _is_printed_number(text: str) -> bool:
    """Indicate whether a category is the text that some finite number prints as."""
    try:
        number = float(text)
        whole = int(text) if number.is_integer() and text.lstrip("-").isdigit() else number
        return math.isfinite(number) and text in printed(whole)
    except (ValueError, OverflowError):
        return False
