"""Conversion of single values of a column to numbers and dates, and errors that quote no value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.redaction import NotNumbersError, call_or_raise
from skpublicdp.data.container import object_array
from skpublicdp.data.dates import common_time_zone
from skpublicdp.data.tables import ANYTHING, BOOLEAN, DATE, NUMBER, TEXT, ColumnType, Table
from skpublicdp.typing import Floats

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


def common_kind(values: Iterable[Any]) -> str:
    """Return the common kind of public values or categories, or ANYTHING if there is none."""
    kinds = set(map(_kind_of_value, values))
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


def printed_texts(value: Any) -> tuple[str, ...]:
    """Return all strings that represent a number or a boolean: "10" and "10.0" for 10.0.

    Other values have none.
    """
    if isinstance(value, bool | np.bool_):
        return (str(bool(value)),)
    if isinstance(value, int | np.integer):
        return (str(int(value)),)
    if not isinstance(value, float | np.floating):
        return ()
    number = float(value)
    text = repr(number)
    return (str(int(number)), text) if number.is_integer() else (text,)


def is_missing(value: Any) -> bool:
    """Indicate whether a value is None, NaN, numpy's masked value or pandas' NA."""
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(value != value)  # NaN is not equal to itself


def to_numbers(
    values: NDArray[Any],  # (n,)
    name: str,
    offset: int = 0,
    *,
    nullable: bool = False,
    dates: bool = False,
) -> Floats:
    """Return the values of a column minus an offset, as floats. Errors quote no value.

    Each value is converted independently of all others. Dates become microseconds since 1970.
    """
    refusal = NotNumbersError(not_numbers_message([name], nullable, [name] if dates else []))
    if dates and values.dtype.kind in "OUT":
        values = call_or_raise(parse_dates, values, error=refusal)
    return call_or_raise(_subtract_as_floats, values, offset, error=refusal)


def is_date(value: Any) -> bool:
    """Indicate whether a value is a date of Python, pandas or numpy, with or without a time."""
    return isinstance(value, date | np.datetime64)


def parse_dates(values: NDArray[Any]) -> NDArray[np.datetime64]:
    """Return dates and text in ISO format as datetime64 in microseconds, in UTC.

    A missing value becomes NaT. Another value raises an error, which can quote it.
    """
    missing = np.datetime64("NaT")
    parsed = [missing if is_missing(value) else _naive_date(value) for value in values.tolist()]
    return np.array(parsed, dtype="datetime64[us]")


def _naive_date(value: Any) -> Any:
    """Return a date without a time zone, in UTC. An error can quote the value."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip())
    if not is_date(value):
        raise TypeError("no date")
    has_zone = isinstance(value, datetime) and value.tzinfo is not None
    return value.astimezone(UTC).replace(tzinfo=None) if has_zone else value


def _subtract_as_floats(values: NDArray[Any], offset: int) -> Floats:
    """Return values minus an offset as floats. Exceptions can quote a private value.

    Masked values and NaT become NaN. All NaN values are given the same bit pattern, since a
    signalling NaN would cause warnings in later operations.
    """
    if values.dtype.kind in "iuf" and not offset and not np.ma.isMaskedArray(values):
        floats = values.astype(np.float64)
        missing = np.isnan(floats)
        if missing.any():
            floats[missing] = np.nan
        return floats
    missing = np.ma.getmaskarray(values)
    values = np.ma.getdata(values)
    if values.dtype.kind == "M":  # dates
        missing = missing | np.isnat(values)
        values = values.astype("datetime64[us]").astype(np.int64)
    items = values.tolist() if values.dtype == object else [values]
    is_na = [type(item).__name__ == "NAType" for item in items]  # pandas.NA is no float
    if any(is_na):
        items = [np.nan if na else item for item, na in zip(items, is_na, strict=True)]
        values = object_array(items)
    # numpy would silently convert complex numbers to their real parts
    if any(isinstance(item, complex) or _dtype_kind(item) == "c" for item in items):
        raise TypeError("complex")
    if offset and values.dtype.kind in "iu":
        numbers = _subtract_integer(values, offset)
    elif offset and values.dtype == object:  # each integer exactly, whatever the others are
        differences = [_subtract_item(item, offset) for item in items]
        numbers = np.array(differences, dtype=np.float64)
    else:
        numbers = np.asarray(values, dtype=np.float64) - offset
    missing = missing | np.isnan(numbers)
    return np.where(missing, np.nan, numbers)


def _subtract_item(item: Any, offset: int) -> float:
    """Return a number, or text with a number, minus an offset, rounded only once if it is whole."""
    if item is None:
        return np.nan
    if isinstance(item, int | np.integer):
        return float(int(item) - offset)
    return float(item) - offset


def _subtract_integer(values: NDArray[Any], offset: int) -> Floats:
    """Return integers of any numpy type minus an offset, rounded only once."""
    # differences of 64-bit integers fit into 64 bits without a sign
    words, offset_word = values.astype(np.uint64), np.uint64(offset % 2**64)
    is_above = values >= offset
    distances = np.where(is_above, words - offset_word, offset_word - words).astype(np.float64)
    return np.where(is_above, distances, -distances)


def _dtype_kind(values: Any) -> str:
    """Return the `dtype.kind` of an array or a numpy scalar, or "O" for other objects."""
    dtype = getattr(values, "dtype", None)
    return str(getattr(dtype, "kind", "O"))


def types_with_dates(X: Table, public: Sequence[Table]) -> list[ColumnType]:
    """Return the column types of `X`, in which object columns of public dates are dates.

    Readers of files and databases return dates as Python objects, whose declared type is object.
    Public rows decide the time zone, since one private date in another zone makes a column of `X`
    an object column. The time zone of `X` counts only if there are no public dates.
    """
    types = list(X.types)
    for position, type_ in enumerate(types):
        if type_.kind not in (ANYTHING, DATE):
            continue
        objects: list[Any] = []
        zones = []
        for table in public:
            public_type = table.types[position]
            if public_type.kind == DATE:
                zones.append(public_type.time_zone)
                continue
            values = table.column(position).astype(object).tolist()
            present = [value for value in values if not is_missing(value)]
            objects += present
            if any(map(is_date, present)):
                zones.append(common_time_zone(present))
        if type_.kind == ANYTHING and not (zones and all(map(is_date, objects))):
            continue
        zones = zones or [type_.time_zone]
        time_zone = next((zone for zone in zones if zone is not None), None)
        if not X.is_frame:  # arrays of dates have no time zone
            time_zone = None
        types[position] = replace(type_, kind=DATE, time_zone=time_zone)
    return types


def public_numbers(values: NDArray[Any], name: str, offset: int, *, dates: bool) -> Floats:
    """Return the public values of a numeric column minus an offset, as floats.

    A NotNumbersError is raised if some public value is not a number. The message names its type.
    """
    try:
        return to_numbers(values, name, offset, dates=dates)
    except NotNumbersError:
        present = [value for value in values.tolist() if not is_missing(value)]
        kinds = dict.fromkeys(map(kind_of_object, present))
        if not kinds.keys() <= {"numbers", "text"}:
            raise NotNumbersError(unreadable_message(name, kinds)) from None
        raise NotNumbersError(
            f"Column {name} must contain numbers, according to its declared type or its other "
            "public values, but at least one public value is not a number. Convert this value, or "
            "declare the column as text."
        ) from None
