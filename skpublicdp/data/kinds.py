"""Kinds of columns at fit and at prediction, compared by declared types alone.

Since `predict` is also used on private rows, a column is never rejected because of its values. A
column of dtype object has no declared kind and is never rejected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.text import is_valid_text
from skpublicdp.data.column import Column
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
from skpublicdp.data.value_conversion import is_date, is_missing, printed_texts
from skpublicdp.data.value_messages import remedy_for


def check_types(table: Table) -> None:
    """Raise ValueError if a column has a type that no estimator supports."""
    for name, type_ in zip(column_names(table), table.types, strict=True):
        if not is_valid_text(name):
            raise ValueError(
                "The names of the columns must be text that can be written in UTF-8, but the name "
                f"{name!r} contains surrogates. Rename the column."
            )
        if type_.kind == "complex numbers":
            raise ValueError(
                f"Complex data not supported: column {name} must contain real numbers. Use its "
                "real part, or drop it."
            )
        if not type_.usable:
            raise ValueError(
                f"Column {name} must contain numbers, booleans, dates, text or categories; got "
                f"{type_.kind}. {remedy_for(type_.kind)}"
            )


def keep_kinds(estimator: Any, table: Table, *, numeric: bool) -> None:
    """Store the column kinds declared at `fit` in an estimator without a schema.

    An estimator with a schema compares columns with its schema, which has more information. All
    columns of an array have the same type, so numbers and booleans in arrays have no declared kind.
    If an estimator accepts only numbers, columns of dtype object are treated as numeric, since a
    single private number written as text changes the dtype to object.
    """
    if hasattr(type(estimator), "_columns_at_fit"):
        return
    kinds = tuple(map(kind_of_type, table.types))
    if not table.is_frame:
        kinds = tuple(ANYTHING if kind in (NUMBER, BOOLEAN) else kind for kind in kinds)
    elif numeric:
        kinds = tuple(NUMBER if kind == ANYTHING else kind for kind in kinds)
    estimator._kinds = kinds


def infer_public_kind(values: NDArray[Any]) -> str:
    """Return the common kind of the public values in a column of dtype object.

    The kind is ANYTHING if the values are of several kinds or are all missing.
    """
    kinds = {_kind_of_value(value) for value in values.tolist() if not is_missing(value)}
    return kinds.pop() if kinds in ({TEXT}, {BOOLEAN}, {NUMBER}, {DATE}) else ANYTHING


def check_kinds_at_prediction(estimator: Any, table: Table) -> None:
    """Reject columns whose kind differs from that at fit, unless each value can be converted.

    Parameters
    ----------
    estimator : estimator
        Fitted estimator. The estimator stores the columns of its schema in `_columns_at_fit`, or
        the kinds saved by `keep_kinds`.
    table : Table
        Rows to predict, with the columns in the order of `fit`. Only the column types are read.

    Raises
    ------
    ValueError
        If the kind of a column differs from its kind at fit. The message names the first such
        column.
    """
    kinds: Sequence[str] = getattr(estimator, "_kinds", ())
    columns_at_fit: Sequence[Column | str] = getattr(estimator, "_columns_at_fit", kinds)
    names = column_names(table)
    for name, at_fit, type_ in zip(names, columns_at_fit, table.types, strict=False):
        new_kind = kind_of_type(type_)
        if new_kind == ANYTHING:
            continue
        if isinstance(at_fit, str):
            expected, is_accepted = at_fit, new_kind in _ACCEPTED[at_fit]
        else:
            expected, is_accepted = _accepted_by_schema(at_fit, new_kind)
        # A single text value changes the type of all columns of an array. The estimator then
        # converts the values of numeric columns, so their type is not a reason for rejection.
        is_converted = not table.is_frame and new_kind != DATE and expected in (NUMBER, BOOLEAN)
        if isinstance(at_fit, Column) and at_fit.is_datetime and new_kind == DATE:
            had_zone, has_zone = at_fit.time_zone is not None, type_.time_zone is not None
            with_zone = {True: "dates with a time zone", False: "dates without a time zone"}
            if had_zone != has_zone:
                expected, actual = with_zone[had_zone], with_zone[has_zone]
                raise ValueError(kind_mismatch_message(name, expected, actual))
        is_categorical = isinstance(at_fit, Column) and at_fit.categorical
        if not is_accepted and (is_categorical or not is_converted):
            raise ValueError(kind_mismatch_message(name, expected, type_.kind))


def kind_mismatch_message(name: str, expected: str, actual: str) -> str:
    """Return the error message about a column whose kind differs from its kind at fit."""
    hint = ""
    if actual.startswith(NUMBER):
        hint = " (readers of CSV files store a column without any value as numbers)"
    return (
        f"Column {name} must contain {expected}, as at fit; got {actual}{hint}. Convert the column "
        "to the type that it had at fit."
    )


_ACCEPTED = {
    NUMBER: {NUMBER},
    BOOLEAN: {BOOLEAN, NUMBER},
    DATE: {DATE},
    TEXT: {TEXT},
    ANYTHING: {NUMBER, BOOLEAN, TEXT, DATE},
}
"""For estimators without a schema: the kinds accepted at prediction, given the kind at fit."""


def kind_of_type(type_: ColumnType) -> str:
    """Return the kind of a column's values according to the declared type.

    The kind of a categorical column is the common kind of its declared categories, or text if no
    categories are declared.
    """
    if type_.kind != CATEGORY:
        return type_.kind
    if type_.categories is None:
        return TEXT
    kinds = set(map(_kind_of_value, type_.categories))
    return kinds.pop() if len(kinds) == 1 else ANYTHING


def _kind_of_value(value: Any) -> str:
    """Return the kind of a single public value or category, or ANYTHING for unknown types."""
    if isinstance(value, str):
        return TEXT
    if isinstance(value, bool | np.bool_):
        return BOOLEAN
    if isinstance(value, int | float | Decimal | np.number):
        return NUMBER
    return DATE if is_date(value) else ANYTHING


def _accepted_by_schema(column: Column, new_kind: str) -> tuple[str, bool]:
    """Return the kind of a schema column, and whether it accepts values of a given kind.

    Columns of numbers or dates accept text, since each string is separately converted to a number
    or a date, or rejected.
    """
    if column.is_datetime:
        return DATE, new_kind in (DATE, TEXT)
    if column.categorical:
        return _accepted_as_category(column, new_kind)
    # booleans can replace 0 and 1, unless the column also contains other numbers
    is_binary = set(column.values.tolist()) <= {0.0, 1.0}
    return NUMBER, new_kind in (NUMBER, TEXT) or (new_kind == BOOLEAN and is_binary)


def _accepted_as_category(column: Column, new_kind: str) -> tuple[str, bool]:
    """Return the common kind of a column's categories, and whether values of a kind can match.

    Numbers and booleans match categories that equal their text representations.
    """
    categories = column.values.tolist()
    kinds = set(map(_kind_of_value, categories))
    if len(kinds) != 1 or ANYTHING in kinds:
        return ANYTHING, True
    (kind,) = kinds
    if kind == TEXT and new_kind == NUMBER:
        return kind, any(map(_is_printed_number, categories))
    if kind == TEXT and new_kind == BOOLEAN:
        return kind, bool({"True", "False"} & set(categories))
    accepted_kinds = {BOOLEAN: {BOOLEAN, NUMBER}, NUMBER: {NUMBER, TEXT}}
    return kind, new_kind in accepted_kinds.get(kind, {kind})


def _is_printed_number(text: str) -> bool:
    """Indicate whether a text category is the text representation of a finite number."""
    try:
        number = float(text)
        is_integer_text = number.is_integer() and text.lstrip("-").isdigit()
        value = int(text) if is_integer_text else number
        return math.isfinite(number) and text in printed_texts(value)
    except (ValueError, OverflowError):
        return False
