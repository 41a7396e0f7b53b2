"""One column of a schema: numbers or dates within bounds, or categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.redaction import NotNumbersError, RefusedError, call_or_raise
from skpublicdp.typing import Floats

OTHER, MISSING = "(other)", "(missing)"
"""How a category that no public row has, and a missing value, are written out."""

MAX_EXACT_INTEGER = 2**53
"""All integers up to this are exact in double precision."""

DAY = 86_400 * 10**6
"""In microseconds."""

MIN_WHOLE_DAYS = 12
"""Minimum number of distinct public values, all whole days, to print dates without a time."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column, from public rows only.

    Attributes
    ----------
    name : str
        Name, in messages.
    values : ndarray
        Distinct public values, sorted. Those of a categorical column are its categories.
    categorical : bool
        Whether values are only equal or not.
    low, high : float
        Bounds of a numeric column; other numbers are moved to the nearer one.
    integral : bool
        Whether all public values of a numeric column, and its bounds, are whole numbers.
    nullable : bool
        Whether a numeric column may have missing values.
    dated : bool
        Whether numbers are microseconds since 1970.
    origin : int
        Numbers are counted from here, so that floats hold whole ones that are too large for them.
    """

    name: str
    values: NDArray[Any]
    categorical: bool
    low: float = -np.inf
    high: float = np.inf
    integral: bool = False
    nullable: bool = False
    is_datetime: bool = False
    offset: int = 0

    @property
    def n_categories(self) -> int:
        """Number of codes: the categories, then those of `OTHER` and `MISSING`."""
        return len(self.values) + 2

    def encode(self, values: NDArray[Any], *, clamp: bool = True) -> Floats:
        """Return numbers within the bounds, or codes of categories; each value on its own."""
        if self.categorical:
            refusal = RefusedError(f"Column {self.name} could not be read.")
            codes: Floats = call_or_raise(self._codes_of_any, values, error=refusal)
            return codes
        numbers = to_numbers(values, self.name, self.offset, nullable=self.nullable)
        if not self.nullable and not np.isfinite(numbers).all():
            raise NotNumbersError(not_numbers([self.name]))
        return np.clip(numbers, self.low, self.high) if clamp else numbers

    def as_numeric(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return numbers as they are if they need no encoding, otherwise encoded, not clamped."""
        kind = "?" if np.ma.isMaskedArray(values) else values.dtype.kind
        if self.categorical or self.has_offset or kind not in ("biuf" if self.nullable else "biu"):
            return self.encode(values, clamp=False)
        return values.view(np.uint8) if kind == "b" else values

    def _codes_of_any(self, values: NDArray[Any]) -> Floats:
        """Return codes of objects, or of numbers by their distinct values."""
        if values.dtype.kind not in "biuf":
            return self._codes(np.asarray(values, dtype=object))
        distinct, inverse = np.unique(np.ma.getdata(values), return_inverse=True)
        codes: Floats = np.take(self._codes(distinct.astype(object)), inverse)
        codes[np.ma.getmaskarray(values)] = self.n_categories - 1
        return codes

    def _codes(self, values: NDArray[Any]) -> Floats:
        categories = self.values.tolist()
        codes = {value: code for code, value in enumerate(categories)}
        other, missing = len(codes), len(codes) + 1
        codes.setdefault(OTHER, other)
        codes.setdefault(MISSING, missing)
        # text that a category prints as, where categories are numbers
        of_text = {
            text: code
            for code, value in enumerate(categories)
            if not isinstance(value, str)
            for text in printed(value)
        }

        def code(value: Any) -> int:
            try:
                if is_missing(value):
                    return missing
                if value in codes:
                    return codes[value]
                if isinstance(value, str):
                    return of_text.get(value, other)
                return next((codes[text] for text in printed(value) if text in codes), other)
            except Exception:  # what cannot be compared is no public category
                return other

        listed, plain = values.tolist(), {**codes, None: missing}.get
        numbers = (plain(v, -1) if type(v) in PLAIN else code(v) for v in listed)
        found = np.fromiter(numbers, dtype=np.float64, count=len(listed))
        for position in np.flatnonzero(found < 0).tolist():
            found[position] = code(listed[position])
        return found

    def decode(self, numbers: Floats) -> NDArray[Any]:
        """Undo `encode`, `OTHER` and `MISSING` being written out."""
        if self.is_datetime:
            return self._dates(numbers)
        if self.integral:
            # up: as many are at or below each integer as before
            return np.ceil(numbers).astype(np.int64) + self.offset
        if not self.categorical:
            return numbers
        names = np.empty(self.n_categories, dtype=object)
        names[:] = self.names
        decoded: NDArray[Any] = names[numbers.astype(np.intp)]
        return decoded

    @property
    def has_offset(self) -> bool:
        """Whether encoded numbers differ from the user's values by an offset or a unit."""
        return self.is_datetime or self.offset != 0

    def format(self, number: float) -> str:
        """Write out an encoded number or date."""
        if not self.has_offset:
            return f"{number:.6g}"
        if not self.is_datetime:
            return str(self.offset + int(np.floor(number)))
        day, time = str(self._dates(np.array([number]))[0]).split("T")
        at = int(np.searchsorted(self.values, number))
        around = self.values[max(at - 1, 0) : at + 1]
        halfway = len(around) == 2 and around.mean() == number
        # where all values are whole days the time means nothing: a few values do not say that of
        # all, but cuts half-way between them are on different days
        sure = halfway or len(self.values) >= MIN_WHOLE_DAYS
        daily = time == "00:00:00.000000" or (sure and not (self.values % DAY).any())
        return day if daily else f"{day} {time.partition('.')[0]}"

    def from_user(self, values: Any) -> Floats:
        """Convert a user's numbers or dates to encoded numbers."""
        if not self.has_offset:
            return np.asarray(values, dtype=np.float64)
        try:
            if self.is_datetime:
                dates = np.asarray(values, dtype="datetime64[us]")
                return np.where(np.isnat(dates), np.nan, dates.astype(np.float64))
            return (np.asarray(values, dtype=object) - self.offset).astype(np.float64)
        except (TypeError, ValueError):
            held = "dates" if self.is_datetime else "whole numbers"
            raise ValueError(
                f"Column {self.name} holds {held}, and what is asked of it must be such, too."
            ) from None

    def to_user(self, numbers: Floats) -> NDArray[Any]:
        """Convert encoded numbers to the user's numbers or dates, without rounding."""
        if not self.has_offset:
            return numbers
        numbers = np.asarray(numbers, dtype=np.float64)
        if self.is_datetime:
            return self._dates(numbers)
        return np.ceil(numbers).astype(np.int64) + self.offset

    @staticmethod
    def _dates(numbers: Floats) -> NDArray[np.datetime64]:
        return np.ceil(numbers).astype(np.int64).astype("datetime64[us]")

    @property
    def names(self) -> list[Any]:
        """The categories by their codes, `OTHER` and `MISSING` being written out."""
        return [*self.values.tolist(), OTHER, MISSING]


PLAIN = {str, int, bool, type(None)}
"""Types of values that can be compared, and of which only None is missing."""


def printed(value: Any) -> tuple[str, ...]:
    """Return the texts that a number or a boolean prints as: "10" and "10.0" for 10.0."""
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
    return bool(value != value)


def to_numbers(
    values: NDArray[Any], name: str, origin: int = 0, *, nullable: bool = False
) -> Floats:
    """Convert a column to floats, each value on its own; an error quotes no value."""
    refusal = NotNumbersError(not_numbers([name], nullable))
    numbers: Floats = call_or_raise(_floats, values, origin, error=refusal)
    return numbers


def _floats(values: NDArray[Any], origin: int) -> Floats:
    if values.dtype.kind in "iuf" and not origin and not np.ma.isMaskedArray(values):
        plain = values.astype(np.float64)
        missing = np.isnan(plain)
        if missing.any():
            plain[missing] = np.nan  # a signalling NaN is heard again and again
        return plain
    missing = np.ma.getmaskarray(values)
    values = np.ma.getdata(values)
    if values.dtype.kind == "M":
        missing = missing | np.isnat(values)
        values = values.astype("datetime64[us]").astype(np.int64)
    parts = values.tolist() if values.dtype == object else [values]
    # numpy would take the real part and warn
    if any(isinstance(part, complex) or _kind(part) == "c" for part in parts):
        raise TypeError("complex")
    if origin and values.dtype.kind in "iu":  # wraps around where it is too far for a float anyway
        numbers = (values.astype(np.int64) - np.int64(origin)).astype(np.float64)
    else:
        numbers = np.asarray(values, dtype=np.float64) - origin
    return np.where(missing | np.isnan(numbers), np.nan, numbers)


def _kind(values: Any) -> str:
    """Return the kind of a type; "O" if there is none, or none of numpy's."""
    return str(getattr(getattr(values, "dtype", None), "kind", "O"))


def not_numbers(names: Sequence[str], nullable: bool = False) -> str:
    """Return the error text for invalid values, which does not reveal the column or the row."""
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} others" if len(names) > 5 else "")
    columns = f"Column {listed}" if len(names) == 1 else f"Columns {listed}"
    if nullable:
        return (
            f"{columns} must hold numbers only, as among the public rows, and some value is "
            "neither a number nor missing (where is withheld); convert such values, or drop the "
            "column."
        )
    return (
        f"{columns} must hold numbers only, none missing or infinite (each argument must be a "
        "string that is a number, or a number), and some value is not (where is withheld): X "
        "contains NaN, infinity, a value too large for float64, or text; fill in by "
        "PublicFit(SimpleImputer()), or encode text by PublicFit(OneHotEncoder("
        "sparse_output=False, handle_unknown='ignore')) (for labels, SemiPrivateBoostingClassifier "
        "takes both as they are)."
    )
