"""Column of a schema, which contains numbers or dates within bounds, or categories."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.redaction import NotNumbersError, RefusedError, call_or_raise
from skpublicdp.data.dates import dates_from_user, wall_clock, with_time_zone
from skpublicdp.data.value_conversion import (
    common_kind,
    is_missing,
    not_numbers_message,
    printed_texts,
    to_numbers,
)
from skpublicdp.typing import Floats

OTHER, MISSING = "(other)", "(missing)"
"""Names of the last two codes, which represent unknown categories and missing values."""

MAX_EXACT_INTEGER = 2**53
"""Largest magnitude up to which all integers are represented exactly in double precision."""

DAY = 86_400 * 10**6
"""Number of microseconds in a day."""

MAX_INT64 = 2**63 - 1
"""Largest integers of numpy's types."""

MAX_FLOAT_INT64 = float(2**63 - 2**10)
"""Largest float that int64 can hold. Infinite numbers, which probe models, are limited to it."""

MIN_WHOLE_DAYS = 12
"""Minimum number of distinct public dates which, if all of them are whole days, suppress the time
of day."""


@dataclass(frozen=True, eq=False)
class Column:
    """Description of a single column, based only on public rows and declared types.

    The column encodes the user's values as floats, and decodes floats back to these values. An
    encoded number is the value minus an offset, or the number of microseconds since 1970. The code
    of a category is its position in `values`. Two additional codes at the end represent `OTHER` and
    `MISSING`.
    """

    name: str  # name used in messages
    # sorted distinct public values: encoded numbers, or categories of any type
    values: NDArray[Any]
    categorical: bool  # whether the column is categorical rather than numeric
    # Bounds of the encoded values of a numeric column. Numbers outside are clipped.
    low: float = -np.inf
    high: float = np.inf
    # whether the bounds and all public values of a numeric column are whole numbers
    integral: bool = False
    nullable: bool = False  # whether a numeric column can have missing values
    is_datetime: bool = False  # whether encoded numbers are microseconds since 1970
    # number subtracted from the values so that large whole numbers are exact as floats
    offset: int = 0
    # categories in the order declared by the column type, or an empty tuple if no order is declared
    declared_order: tuple[Any, ...] = ()
    # whether the type of a categorical column declares all possible categories
    is_closed: bool = False
    # Whether the bounds of a numeric column were declared. Otherwise, they extend the public range.
    is_bounded: bool = True
    # time zone of a column of dates, in which dates are shown and queries are read
    time_zone: str | None = None
    # Whether synthetic rows can have missing values. The type of `X` does not decide this, since a
    # private value can change this type.
    can_be_missing: bool = True

    @property
    def n_categories(self) -> int:
        """Number of codes, including those for `OTHER` and `MISSING`."""
        return len(self.values) + 2

    def encode(self, values: NDArray[Any], *, clamp: bool = True) -> Floats:
        """Return encoded numbers clipped to the bounds, or category codes, shape (n,).

        Each value is encoded independently of all others.
        """
        if self.categorical:
            refusal = RefusedError(
                f"Column {self.name} could not be read, because its categories must be comparable "
                "with each other. Convert the column to text."
            )
            return call_or_raise(self._category_codes, values, error=refusal)
        numbers = self.to_numbers(values)
        if not self.nullable and not np.isfinite(numbers).all():
            dates = [self.name] if self.is_datetime else []
            raise NotNumbersError(not_numbers_message([self.name], dates=dates))
        return np.clip(numbers, self.low, self.high) if clamp else numbers

    def to_numbers(self, values: NDArray[Any]) -> Floats:
        """Return encoded numbers or dates, which can be missing or infinite."""
        return to_numbers(
            values, self.name, self.offset, nullable=self.nullable, dates=self.is_datetime
        )

    def as_numeric(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the encoded values of the column without clipping them to the bounds.

        Numbers that equal their encoding and need no check keep their data type, which saves time.
        """
        kind = values.dtype.kind
        unchecked_kinds = "biuf" if self.nullable else "biu"
        needs_encoding = (
            self.categorical
            or self.has_offset
            or np.ma.isMaskedArray(values)
            or kind not in unchecked_kinds
        )
        if needs_encoding:
            return self.encode(values, clamp=False)
        return values.view(np.uint8) if kind == "b" else values

    def _category_codes(self, values: NDArray[Any]) -> Floats:
        """Return the category codes of values. Each distinct number is encoded only once."""
        if values.dtype.kind not in "biuf":  # neither booleans nor numbers
            return self._object_codes(np.asarray(values, dtype=object))
        numbers = np.ma.getdata(values)
        distinct, inverse = np.unique(numbers, return_inverse=True)
        distinct_codes = self._object_codes(distinct.astype(object))
        codes: Floats = np.take(distinct_codes, inverse)
        missing_code = self.n_categories - 1
        codes[np.ma.getmaskarray(values)] = missing_code
        return codes

    def _object_codes(self, values: NDArray[Any]) -> Floats:
        """Return the category codes of an array of Python objects.

        A value belongs to the category to which it is equal. If there is none, numbers and text are
        compared as text: "10" and "10.0" match the category 10, and the number 10 matches the
        category "10".
        """
        codes, code_of_text = self._codes_of_values
        other_code, missing_code = len(self.values), len(self.values) + 1

        def code_of(value: Any) -> int:
            """Return the code of a value of any type, even a type without comparisons."""
            try:
                if is_missing(value):
                    return missing_code
                if value in codes:
                    return codes[value]
                if isinstance(value, str):
                    return code_of_text.get(value, other_code)
                matches = (codes[text] for text in printed_texts(value) if text in codes)
                return next(matches, other_code)
            except Exception:  # a value that cannot be compared does not equal any public category
                return other_code

        # most values are found in the dictionary, which is faster than calling `code_of`
        objects = values.tolist()
        code_of_plain = codes.get
        not_found = -1  # plain values that equal no category are compared as text below
        encoded = np.fromiter(
            (
                code_of_plain(value, not_found) if type(value) in PLAIN_TYPES else code_of(value)
                for value in objects
            ),
            dtype=np.float64,
            count=len(objects),
        )
        for position in np.flatnonzero(encoded == not_found).tolist():
            encoded[position] = code_of(objects[position])
        return encoded

    @cached_property
    def _codes_of_values(self) -> tuple[dict[Any, int], dict[str, int]]:
        """Code of each category, of the names of both additional codes and of None.

        The second dict has the texts that represent categories which are no text.
        """
        categories = self.values.tolist()
        codes: dict[Any, int] = {value: code for code, value in enumerate(categories)}
        missing_code = len(codes) + 1
        codes.setdefault(OTHER, len(codes))
        codes.setdefault(MISSING, missing_code)
        codes[None] = missing_code
        code_of_text = {
            text: code
            for code, value in enumerate(categories)
            if not isinstance(value, str)
            for text in printed_texts(value)
        }
        return codes, code_of_text

    @cached_property
    def kind_of_categories(self) -> str:
        """Common kind of the categories, or "anything" if there is none."""
        return common_kind(self.values.tolist())

    def __getstate__(self) -> dict[str, Any]:
        # what is computed from the fields is left out of pickles
        caches = ("_codes_of_values", "_holds_whole_days", "kind_of_categories")
        return {name: value for name, value in vars(self).items() if name not in caches}

    def decode(self, numbers: Floats) -> NDArray[Any]:
        """Convert encoded values back to the user's values, as the inverse of `encode`.

        Codes are decoded to categories, `OTHER` or `MISSING`.
        """
        if self.is_datetime:
            return self._dates(numbers)
        if self.integral or self.offset:
            # rounding up preserves the number of rows at or below each integer
            whole = np.ceil(numbers)
            # floats even if no number is missing, since one row must not change the type of others
            return whole + self.offset if self.nullable else self._add_offset(whole)
        if not self.categorical:
            return numbers
        names = np.empty(self.n_categories, dtype=object)
        names[:] = self.names
        return names[numbers.astype(np.intp)]

    def restore(self, numbers: Floats) -> NDArray[Any]:
        """Convert encoded values to the user's values, where missing values are missing.

        Unlike in `decode`, missing categories are None, and whole numbers of which some are missing
        form a masked array of integers.
        """
        if self.categorical:
            decoded = self.decode(numbers)
            decoded[numbers == self.n_categories - 1] = None
            return decoded
        is_whole = self.integral or bool(self.offset)
        if not (is_whole and self.nullable) or self.is_datetime:
            return self.decode(numbers)
        is_missing_number = np.isnan(numbers)
        whole = self._add_offset(np.ceil(np.where(is_missing_number, 0, numbers)))
        return np.ma.MaskedArray(whole, is_missing_number)

    def is_impossible(self, numbers: Floats) -> NDArray[np.bool_]:
        """Indicate encoded values that the type of the column excludes.

        These are unknown categories where the type declares all categories, and missing values
        where public values show that the type has none.
        """
        if not self.categorical:
            return np.isnan(numbers) & (not self.can_be_missing)
        other_code, missing_code = len(self.values), len(self.values) + 1
        is_other = (numbers == other_code) & self.is_closed
        is_missing_value = (numbers == missing_code) & (not self.can_be_missing)
        return is_other | is_missing_value

    @property
    def has_offset(self) -> bool:
        """Whether encoded numbers differ from the user's values in offset or unit."""
        return self.is_datetime or self.offset != 0

    def format(self, number: float) -> str:
        """Format an encoded number or date in the user's units."""
        (text,) = self.format_all([number])
        return text

    def format_all(self, numbers: Floats | Sequence[float]) -> list[str]:
        """Format encoded numbers or dates in the user's units. Different numbers look different.

        Numbers have six significant digits, or more if needed. The time of day is omitted at
        midnight, or if the column appears to contain only whole days. A column appears to contain
        only whole days if all public values are whole days, and either there are at least
        `MIN_WHOLE_DAYS` of them or the number is the midpoint of two neighbouring values.
        """
        array = np.asarray(numbers, dtype=np.float64)
        n_distinct = len(np.unique(array))
        if not self.has_offset:
            return format_numbers(array)
        if not self.is_datetime:
            return [str(self.offset + int(np.floor(number))) for number in array]
        dates = self._local_dates(array)
        texts = [
            str(date).partition("T")[0] if self._shows_day_only(number, date) else _date_text(date)
            for number, date in zip(array, dates, strict=True)
        ]
        if len(set(texts)) < n_distinct:
            texts = [_date_text(date) for date in dates]
        if len(set(texts)) < n_distinct:
            texts = [str(date).replace("T", " ") for date in dates]
        if len(set(texts)) < n_distinct:  # the hour that is repeated at the end of summer time
            texts = [str(date) for date in self.to_user(array)]
        return texts

    def _shows_day_only(self, number: float, date: np.datetime64) -> bool:
        """Indicate whether the time of day of a date is omitted."""
        if str(date).endswith("T00:00:00.000000"):
            return True
        index = int(np.searchsorted(self.values, number))
        neighbours = self.values[max(index - 1, 0) : index + 1]
        is_midpoint = len(neighbours) == 2 and neighbours.mean() == number
        enough_values = is_midpoint or len(self.values) >= MIN_WHOLE_DAYS
        return enough_values and self._holds_whole_days

    @cached_property
    def _holds_whole_days(self) -> bool:
        """Whether all public dates are whole days in the time zone of the column."""
        local = self._local_dates(self.values).astype(np.int64)
        return not (local % DAY).any()

    def from_user(self, values: Any) -> Floats:
        """Encode numbers or dates from the user's query, without clipping.

        Dates without a time zone are read in the time zone of the column.
        """
        if not self.has_offset:
            return np.asarray(values, dtype=np.float64)
        try:
            if self.is_datetime:
                dates = self.dates_from_user(values)
                return np.where(np.isnat(dates), np.nan, dates.astype(np.float64))
            return (np.asarray(values, dtype=object) - self.offset).astype(np.float64)
        except (TypeError, ValueError):
            kind_of_values = "dates" if self.is_datetime else "whole numbers"
            raise ValueError(
                f"Column {self.name} contains {kind_of_values}, so queries about this column must "
                "contain values of the same type. Convert the values in the queries."
            ) from None

    def dates_from_user(self, values: Any) -> NDArray[np.datetime64]:
        """Return dates of the user as datetime64, in UTC for a column with a time zone."""
        return dates_from_user(values, self.time_zone)

    def to_user(self, numbers: Floats) -> NDArray[Any]:
        """Convert encoded numbers back to the user's numbers or dates.

        Unlike `decode`, this method does not round the numbers of an integral column without an
        offset. In a column with a time zone, dates are `datetime` objects with this time zone.
        """
        if not self.has_offset:
            return numbers
        numbers = np.asarray(numbers, dtype=np.float64)
        if self.is_datetime and self.time_zone is not None:
            return with_time_zone(self._dates(numbers), self.time_zone)
        if self.is_datetime:
            return self._dates(numbers)
        return self._add_offset(np.ceil(numbers))

    def _add_offset(self, numbers: Floats) -> NDArray[Any]:
        """Return whole numbers plus the offset, as int64, or uint64 if public values need it.

        Missing numbers cannot be integers, so floats are returned if there are any.
        """
        if np.isnan(numbers).any():
            return numbers + self.offset
        max_bound = max(abs(self.low), abs(self.high))
        max_magnitude = abs(self.offset) + max_bound
        if max_magnitude < MAX_INT64:
            limited = np.clip(numbers, -MAX_FLOAT_INT64, MAX_FLOAT_INT64)
            return limited.astype(np.int64) + self.offset
        # the bounds are wider than the public values, and may exceed the range of 64 bits
        dtype: np.dtype[Any] = np.dtype(np.int64)
        if len(self.values) and int(self.values[-1]) + self.offset > MAX_INT64:
            dtype = np.dtype(np.uint64)
        limits = np.iinfo(dtype)
        clipped = np.clip(numbers, -(2.0**64), 2.0**64)
        whole_numbers = []
        for number in np.ravel(clipped).tolist():
            shifted = int(number) + self.offset
            shifted = max(shifted, limits.min)
            whole_numbers.append(min(shifted, limits.max))
        integers = np.array(whole_numbers, dtype=dtype)
        shaped_integers = integers.reshape(np.shape(numbers))
        return shaped_integers[()]  # a scalar for a scalar

    def _local_dates(self, numbers: Floats) -> NDArray[np.datetime64]:
        """Convert encoded dates to datetime64 in the time zone of the column."""
        if self.time_zone is None:
            return self._dates(numbers)
        return wall_clock(self._dates(numbers), self.time_zone)

    @staticmethod
    def _dates(numbers: Floats) -> NDArray[np.datetime64]:
        """Convert microseconds since 1970 to dates, rounded up to whole microseconds.

        NaN becomes NaT.
        """
        is_missing_date = np.isnan(numbers)
        whole = np.ceil(np.where(is_missing_date, 0, numbers))
        microseconds = np.clip(whole, -MAX_FLOAT_INT64, MAX_FLOAT_INT64).astype(np.int64)
        dates = microseconds.astype("datetime64[us]")
        return np.where(is_missing_date, np.datetime64("NaT", "us"), dates)

    @property
    def names(self) -> list[Any]:
        """Names of all codes of a categorical column, including `OTHER` and `MISSING`."""
        return [*self.values.tolist(), OTHER, MISSING]

    @property
    def possible_categories(self) -> NDArray[Any]:
        """Categories of synthetic rows, with `OTHER` unless the type declares all categories."""
        if self.is_closed:
            return self.values
        categories = np.empty(len(self.values) + 1, dtype=object)
        categories[:] = [*self.values.tolist(), OTHER]
        return categories

    @property
    def display_order(self) -> list[int]:
        """Codes of a categorical column in display order, with `OTHER` and `MISSING` at the end.

        Categories with a declared order come first. Others are sorted, and "9" precedes "10".
        """
        categories = self.values.tolist()
        rank = {category: number for number, category in enumerate(self.declared_order)}
        texts_only = all(isinstance(category, str) for category in categories)

        def key(code: int) -> tuple[Any, ...]:
            """Return the sort key of a code. Categories of all other types are already sorted."""
            declared_rank = rank.get(categories[code], len(rank))
            text_key = natural_key(categories[code]) if texts_only else ()
            return declared_rank, text_key, code

        codes = sorted(range(len(categories)), key=key)
        return [*codes, len(categories), len(categories) + 1]


SHOWN_DIGITS, MAX_DIGITS = 6, 17
"""Number of significant digits in the text of a number, which is increased until all texts differ.
The largest number represents each float exactly."""

MAX_PLAIN_NUMBER = 1e15
"""Magnitude from which numbers are written in scientific notation."""


def format_numbers(numbers: Floats | Sequence[float]) -> list[str]:
    """Return the texts of numbers, with as many digits as needed so that different numbers differ.

    Examples
    --------
    >>> format_numbers([0.25, 1e6, 1_127_612.5]), format_numbers([1e9, 1e9 + 0.125])
    (['0.25', '1000000', '1127612.5'], ['1000000000', '1000000000.1'])
    """
    values = np.asarray(numbers, dtype=np.float64).tolist()
    for digits in range(SHOWN_DIGITS, MAX_DIGITS + 1):
        texts = [_format_number(value, digits) for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def _format_number(number: float, digits: int) -> str:
    """Return a number with a given number of significant digits, in plain notation up to 1e15.

    Digits before the decimal point, and the half of a cut between two whole numbers, are kept.
    """
    text = f"{number:.{digits}g}"
    if not 1 <= abs(number) < MAX_PLAIN_NUMBER:
        return text
    if (2 * number).is_integer():
        return f"{number:.1f}".removesuffix(".0")
    return f"{number:.0f}" if "e" in text else text


NUMBER_IN_TEXT = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?|\d+")
"""Pattern of a number in a string. A minus sign after a digit or a letter is read as a hyphen, as
in "10-20"."""


def natural_key(text: str) -> tuple[Any, ...]:
    """Return a sort key that compares numbers in strings numerically.

    Examples
    --------
    >>> sorted(["10", "9", "grade 10", "grade 9", "(10, 20]", "(-5, 10]"], key=natural_key)
    ['9', '10', '(-5, 10]', '(10, 20]', 'grade 9', 'grade 10']
    """
    words = NUMBER_IN_TEXT.split(text)
    numbers = map(float, NUMBER_IN_TEXT.findall(text))
    # words and numbers alternate, so entries at the same position have the same type
    return tuple(part for pair in itertools.zip_longest(words, numbers) for part in pair)[:-1]


def _date_text(date: np.datetime64) -> str:
    """Return a date and its time of day in seconds, which is omitted at midnight."""
    day, _, time = str(date).partition("T")
    return day if time == "00:00:00.000000" else f"{day} {time.partition('.')[0]}"


PLAIN_TYPES = {str, int, bool, type(None)}
"""Types of hashable values for which None is the only missing value."""
