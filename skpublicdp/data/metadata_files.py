"""Column descriptions read from metadata files of dpsynth and CSVW."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

CSVW_INTEGERS = {
    *("integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger"),
    *("unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"),
    *("nonPositiveInteger", "negativeInteger"),
}
CSVW_NUMBERS = CSVW_INTEGERS | {"decimal", "double", "float", "number"}
CSVW_DATES = {"date", "dateTime", "datetime", "dateTimeStamp"}
"""CSVW data types, grouped by kind (https://www.w3.org/TR/tabular-metadata/#datatypes)."""


@dataclass(frozen=True)
class ColumnMetadata:
    """Information from a metadata file about the columns of one table."""

    # bounds (low, high) or a list of categories, for each column described by the file
    description: dict[str, Any] = field(default_factory=dict)
    nullable: frozenset[str] = frozenset()  # columns whose values can be missing
    # for each column without a description, the reason why the description is missing
    not_given: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Entry:
    """Information from a metadata file about one column."""

    values: tuple[Any, Any] | list[Any] | None
    """The bounds or categories of the column, or None if the file specifies neither."""
    nullable: bool
    reason: str = ""
    """Why `values` is None."""


def read_metadata(source: Any) -> ColumnMetadata | None:
    """Read column metadata, or return None if the source is neither a path nor metadata.

    Parameters
    ----------
    source : path, or dict
        Path of a JSON or YAML file, or the parsed content of such a file.
    """
    is_path = isinstance(source, str | os.PathLike)
    content = _parse_file(Path(source)) if is_path else source
    entries = _entries(content, is_file=is_path)
    if entries is None:
        if is_path:
            raise ValueError(
                f"A metadata file must have the format dpsynth or CSVW, but {os.fspath(source)!r} "
                "has a different format. Describe the columns with a dict instead."
            )
        return None
    return ColumnMetadata(
        {name: entry.values for name, entry in entries.items() if entry.values is not None},
        frozenset(name for name, entry in entries.items() if entry.nullable),
        {name: entry.reason for name, entry in entries.items() if entry.values is None},
    )


def _parse_file(path: Path) -> Any:
    """Return the content of a JSON or YAML file."""
    is_json = path.suffix.lower() == ".json"
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text, object_pairs_hook=_distinct) if is_json else _parse_yaml(text)
    except (ImportError, OSError):
        raise
    except Exception as error:  # of any class, since PyYAML has its own
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(
            f"A metadata file must be valid {'JSON' if is_json else 'YAML'} in UTF-8, but "
            f"{os.fspath(path)!r} is not: {' '.join(str(reason).split())}"
        ) from None


def _parse_yaml(text: str) -> Any:
    """Return the content of a YAML file, or raise ValueError if it is invalid."""
    try:
        import yaml
    except ImportError:
        yaml = None  # raised below, so that the traceback shows a single error
    if yaml is None:
        raise ImportError("PyYAML must be installed to read YAML files. Run `pip install pyyaml`.")

    class DistinctLoader(yaml.SafeLoader):
        """Loader that refuses mappings in which a key occurs twice."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            """Return a mapping after comparing the texts of its keys."""
            _distinct([(key.value, None) for key, _ in node.value if isinstance(key.value, str)])
            return super().construct_mapping(node, deep)

    return yaml.load(text, DistinctLoader)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dict of the pairs, or raise ValueError if a key, such as a column, occurs twice."""
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(f"{key!r} occurs twice.")
        mapping[key] = value
    return mapping


def _entries(content: Any, *, is_file: bool) -> dict[str, _Entry] | None:
    """Return the entries of all columns, or None if the content has no supported format."""
    if not isinstance(content, Mapping) or not content:
        return None
    if "@context" in content and ("tables" in content or "tableSchema" in content):
        return _read_columns(_csvw_columns(content), _csvw_entry)
    if all(_is_dpsynth(column, is_file=is_file) for column in content.values()):
        return _read_columns(content, lambda column: _dpsynth_entry(column or {}))
    return None


def _read_columns(columns: Any, read_entry: Callable[[Any], _Entry]) -> dict[str, _Entry]:
    """Return the entries of all columns. An error names the column that is invalid."""
    entries = {}
    for name, column in columns.items():
        try:
            entry = read_entry(column)
            problem = _problem(entry.values)
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            problem = "a bound is too large" if isinstance(error, OverflowError) else str(error)
        if problem:
            raise ValueError(
                "A metadata file must give bounds or categories that can be read, but those of "
                f"column {name} are invalid: {problem}."
            )
        entries[str(name)] = entry
    return entries


def _problem(values: Any) -> str:
    """Return why bounds or categories cannot be used, or "" if they can."""
    if isinstance(values, list):
        nested = [value for value in values if isinstance(value, Mapping | list | set | tuple)]
        return f"a category is a {type(nested[0]).__name__}, not a single value" if nested else ""
    numbers = [end for end in values or () if not isinstance(end, datetime)]
    return "" if all(math.isfinite(float(number)) for number in numbers) else "a bound is infinite"


def _bounded(low: Any, high: Any, nullable: bool, convert: Callable[[Any], Any]) -> _Entry:
    """Return the entry of a column of numbers or dates, with bounds if both are specified."""
    if low is None or high is None:
        return _Entry(None, nullable, "no lower and upper bound are given")
    low, high = convert(low), convert(high)
    if low == high:
        return _Entry(None, nullable, "the lower and the upper bound are equal")
    return _Entry((low, high), nullable)


def _to_date(value: Any) -> datetime:
    """Convert a date or time, or its ISO string, to naive UTC, which numpy can read."""
    moment = datetime.fromisoformat(str(value))
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _is_dpsynth(column: Any, *, is_file: bool) -> bool:
    """Indicate whether a value describes an attribute in the dpsynth format.

    dpsynth writes the type. In files, types can be omitted, in which case they are inferred from
    the keys. In a dict in memory, a mapping whose values are all numbers is interpreted as category
    shares.

    References
    ----------
    https://github.com/google/dpsynth/blob/main/docs/specifying_domains.md
    """
    if column is None or column == {}:
        return is_file
    if not isinstance(column, Mapping):
        return False
    if str(column.get("type", "")).endswith("Attribute") or "possible_values" in column:
        return True
    return is_file and bool({"min_value", "max_tokens", "default_value"} & set(column))


def _dpsynth_entry(column: Mapping[str, Any]) -> _Entry:
    """Return the entry for an attribute in the dpsynth format."""
    if "possible_values" in column:
        return _Entry(list(column["possible_values"]), nullable=False)
    if "min_value" in column:
        # with clip_to_range, dpsynth replaces missing numbers; otherwise it models them
        nullable = not column.get("clip_to_range", True)
        convert = int if column.get("dtype") == "int" else float
        return _bounded(column["min_value"], column.get("max_value"), nullable, convert)
    if column.get("public_possible_values"):
        return _Entry(list(column["public_possible_values"]), nullable=False)
    return _Entry(None, False, "no categories are given")


def _csvw_columns(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the columns of the only table, indexed by name and including inherited properties.

    References
    ----------
    https://www.w3.org/TR/tabular-metadata/#columns and #inherited-properties
    """
    tables = content.get("tables", [content])
    if len(tables) != 1:
        raise ValueError(
            f"A metadata file must describe exactly one table; got {len(tables)} tables. "
            "Describe the columns of one table with a dict instead."
        )
    (table,) = tables
    schema = table["tableSchema"]
    if not isinstance(schema, Mapping):
        raise ValueError(
            "CSVW metadata must contain the table's schema; got only a link to it. Copy the schema "
            "into the file."
        )
    inherited = {
        key: level[key]
        for level in (content, table, schema)
        for key in ("datatype", "required")
        if key in level
    }
    return _distinct(
        [
            (_csvw_name(column), inherited | dict(column))
            for column in schema.get("columns", ())
            if not column.get("virtual")
        ]
    )


def _csvw_name(column: Mapping[str, Any]) -> str:
    """Return the header of a column, which is its first title or, without titles, its name."""
    titles = column.get("titles") or column.get("name")
    if isinstance(titles, Mapping):
        titles = next(iter(titles.values()))
    return str(titles[0] if isinstance(titles, list) else titles)


def _csvw_entry(column: Mapping[str, Any]) -> _Entry:
    """Return the entry for a CSVW column, including categories from the extension CSVW-EO.

    References
    ----------
    https://www.w3.org/TR/tabular-metadata/#derived-datatypes and
    https://dscc-admin-ch.github.io/csvw-eo-docs/vocabulary/classes/
    """
    nullable = not column.get("required", False)
    if "keyValues" in column:
        return _Entry(list(column["keyValues"]), nullable)
    datatype = column.get("datatype", "string")
    if not isinstance(datatype, Mapping):
        datatype = {"base": datatype}
    base = datatype.get("base", "string")
    if base == "boolean":
        return _Entry([False, True], nullable)
    convert: Callable[[Any], Any] = int if base in CSVW_INTEGERS else float
    if base in CSVW_DATES:
        convert = _to_date
    elif base not in CSVW_NUMBERS:
        return _Entry(None, nullable, "no categories are given")
    limits = {**column, **datatype}  # in CSVW-EO, bounds are properties of the column
    low = _first(limits, "minimum", "minInclusive", "minExclusive")
    high = _first(limits, "maximum", "maxInclusive", "maxExclusive")
    return _bounded(low, high, nullable, convert)


def _first(mapping: Mapping[str, Any], *keys: str) -> Any:
    """Return the value of the first of several keys that a mapping contains, or None."""
    return next((mapping[key] for key in keys if key in mapping), None)
