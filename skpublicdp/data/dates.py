"""Dates with time zones, which are encoded as microseconds in UTC."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

Dates = NDArray[np.datetime64]

FIXED_OFFSET = re.compile(r"(?:UTC)?([+-])(\d\d):?(\d\d)")
"""Name of a time zone that is a fixed difference from UTC, such as "+02:00"."""


def read_time_zone(name: str) -> tzinfo:
    """Return the time zone of a given name. Raise a ValueError if the zone is unknown."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    match = FIXED_OFFSET.fullmatch(name)
    if match:
        sign, hours, minutes = match.groups()
        difference = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-difference if sign == "-" else difference)
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise ValueError(
            f"The time zone {name!r} is not known on this computer. Convert the dates to a zone "
            "with a name of the IANA database, such as 'UTC', or install the package tzdata."
        ) from None


def with_time_zone(dates: Dates, time_zone: str) -> NDArray[np.object_]:
    """Return dates in UTC as `datetime` objects with a time zone, and None for NaT."""
    zone = read_time_zone(time_zone)
    aware = np.empty(dates.shape, dtype=object)
    for index, date in np.ndenumerate(dates.astype("datetime64[us]")):
        plain = date.item()
        if isinstance(plain, datetime):  # numpy returns an integer beyond the year 9999
            in_utc = plain.replace(tzinfo=UTC)
            with suppress(OverflowError):  # within a day of the first or the last year
                in_utc = in_utc.astimezone(zone)
            aware[index] = in_utc
    return aware


def common_time_zone(values: Sequence[Any]) -> str | None:
    """Return the name of the time zone of dates, or None if some have none.

    The zone of dates in several zones, or in one without a known name, is UTC.
    """
    zones: set[Any] = {getattr(value, "tzinfo", None) for value in values}
    if not zones or None in zones:
        return None
    names = set(map(name_of_time_zone, zones))
    if len(names) > 1:
        return "UTC"
    (name,) = names
    with suppress(ValueError):
        read_time_zone(name)
        return name
    return "UTC"


def name_of_time_zone(zone: tzinfo | str) -> str:
    """Return the name of a time zone. A fixed difference from UTC is written like "+02:00"."""
    return str(zone).removeprefix("UTC") or "UTC"


def dates_in_utc(values: NDArray[Any]) -> tuple[NDArray[Any], str | None]:
    """Return an array of `datetime` objects as datetime64 in UTC, and the name of the time zone.

    Missing values are None. Other arrays are returned unchanged, and without a time zone.
    """
    present = [value for value in values.ravel().tolist() if value is not None]
    if values.dtype != object or not all(isinstance(value, datetime) for value in present):
        return values, None
    time_zone = common_time_zone(present)
    return dates_from_user(values, time_zone), time_zone


def wall_clock(dates: Dates, time_zone: str) -> Dates:
    """Return dates in UTC as datetime64 in a time zone, without this zone."""
    local = dates.astype("datetime64[us]")
    for index, date in np.ndenumerate(with_time_zone(dates, time_zone)):
        if date is not None:
            local[index] = np.datetime64(date.replace(tzinfo=None), "us")
    return local


def array_from_user(values: Any) -> NDArray[Any]:
    """Return the user's values as an array. Dates of a series keep their time zone, as objects."""
    to_list = getattr(values, "to_list", getattr(values, "to_pylist", None))
    return np.asarray(values if to_list is None else to_list())


def dates_from_user(values: Any, time_zone: str | None) -> Dates:
    """Return the user's dates as datetime64[us], in UTC if the column has a time zone.

    Dates without a time zone are read in the time zone of the column. In a column without a time
    zone, dates with one raise a ValueError.
    """
    array = array_from_user(values)
    if time_zone is None and array.dtype.kind == "M":
        return array.astype("datetime64[us]")
    objects = array.astype(object) if array.dtype.kind != "M" else array.astype("datetime64[us]")
    zone = None if time_zone is None else read_time_zone(time_zone)
    dates = np.empty(array.shape, dtype="datetime64[us]")
    for index, value in np.ndenumerate(objects):
        dates[index] = _date_from_user(value, zone)
    return dates


def dates_of_zone(values: NDArray[Any], time_zone: str | None) -> tuple[NDArray[Any], str | None]:
    """Return dates of a time zone in UTC, and the zone. Other values are returned unchanged."""
    if time_zone is None or values.dtype.kind != "M":
        return values, None
    return dates_from_user(values, time_zone), time_zone


def _date_from_user(value: Any, zone: tzinfo | None) -> np.datetime64:
    """Return one date of the user as datetime64[us], in UTC if there is a time zone."""
    if isinstance(value, str) and re.search(r"\d(Z|[+-]\d\d:?\d\d)$", value) and ":" in value:
        value = datetime.fromisoformat(value)  # numpy ignores the time zone of a text
    if isinstance(value, datetime) and value.tzinfo is not None:
        if zone is None:
            raise ValueError("the column has no time zone")
        return _in_utc(value)
    date = np.datetime64("NaT" if value != value else value, "us")  # pandas has a NaT of its own
    local = date.item()
    if zone is None or not isinstance(local, datetime):  # NaT, or a date beyond the year 9999
        return date
    return _in_utc(local.replace(tzinfo=zone))


def _in_utc(date: datetime) -> np.datetime64:
    """Return a date with a time zone as datetime64[us] in UTC."""
    with suppress(OverflowError):  # within a day of the first or the last year
        date = date.astimezone(UTC)
    return np.datetime64(date.replace(tzinfo=None), "us")
