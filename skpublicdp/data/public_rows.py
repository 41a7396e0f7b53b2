"""Substitutes for public rows: described columns, reference samples and augmented rows."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from skpublicdp.data.column import DAY
from skpublicdp.data.container import Container
from skpublicdp.data.dates import dates_of_zone
from skpublicdp.data.metadata_files import ColumnMetadata, read_metadata
from skpublicdp.data.schema import REFERENCE_BOUND, Column, Schema, parse_bounds
from skpublicdp.data.tables import Table
from skpublicdp.data.validation import pipeline_advice
from skpublicdp.data.value_conversion import MAX_LISTED_COLUMNS
from skpublicdp.exceptions import NoPublicDataWarning, warn
from skpublicdp.typing import Floats, Mask

LIBRARIES = ("pandas", "polars", "pyarrow")
"""Data frame libraries that `DescribedRows.to_frame` supports."""

DESCRIBED = "the public rows come from a description that does not depend on the private rows"
"""Assumption about described rows, as listed in the receipt."""


@dataclass(frozen=True, eq=False, repr=False)
class DescribedRows:
    """Synthetic public rows returned by `describe_columns`, which are passed as ``X_public``."""

    columns: dict[str, NDArray[Any]]
    # Columns whose values can be missing, according to a metadata file. The generated rows
    # themselves have no missing values.
    nullable: frozenset[str] = frozenset()
    # columns that a metadata file lists without bounds or categories, with the reason for each
    not_given: dict[str, str] = field(default_factory=dict)
    # Lowest and highest value of each column of numbers or dates. They are the bounds of each fit
    # with these rows, unless the parameter `bounds` declares others.
    bounds: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns."""
        return len(next(iter(self.columns.values()))), len(self.columns)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        lacking = "".join(f"; not {name}: {reason}" for name, reason in self.not_given.items())
        return f"<{self.shape[0]} described rows of {', '.join(self.columns)}{lacking}>"

    def to_frame(self, library: str = "pandas") -> Any:
        """Return the rows as a data frame for inspection."""
        if library not in LIBRARIES:
            raise ValueError(f"library must be one of {', '.join(LIBRARIES)}; got {library!r}.")
        return Container(library, tuple(self.columns)).build(list(self.columns.values()))

    def in_container(
        self, container: Container, names: Sequence[str] | None, time_zones: Sequence[str | None]
    ) -> Any:
        """Return the rows in a container of the same kind as `X`.

        Parameters
        ----------
        container : Container
            Library and labels of `X`.
        names : sequence of str or None
            Names of the columns of `X`. Without names, the columns keep their order.
        time_zones : sequence of str or None
            Time zone that the type of each column of `X` declares.
        """
        if names is None:
            if container.library is not None or len(container.labels) != len(self.columns):
                raise ValueError(
                    f"X_public describes {len(self.columns)} columns by name, but X has no column "
                    "names. Name the columns of X, or describe all of them in the order of X."
                )
            return container.build(list(self.columns.values()))
        missing = [name for name in names if name not in self.columns]
        if missing:
            reason = self.not_given.get(missing[0])
            advice = ""
            if reason is not None:
                advice = (
                    f", because {reason}. Describe it with the argument columns of describe_columns"
                )
            raise ValueError(
                f"X_public must describe every column of X, but {missing[0]!r} is missing{advice}."
            )
        columns = [
            dates_of_zone(self.columns[name], zone)
            for name, zone in zip(names, time_zones, strict=True)
        ]
        values, zones = zip(*columns, strict=True)
        return Container(container.library, tuple(names)).build(values, time_zones=zones)


_marks: dict[int, tuple[ref[Any], Mapping[str, tuple[Any, Any]]]] = {}
"""Tables that were computed from described rows, with bounds of their columns by name, indexed by
the `id` of the table. Tables that are no longer used drop out."""


def public_data_assumptions(X_public: Any) -> tuple[str, ...]:
    """Return the assumptions about described public rows, for a receipt."""
    return (DESCRIBED,) if is_described(X_public) else ()


def is_described(X_public: Any) -> bool:
    """Indicate whether public rows were generated from a description.

    This holds for rows from `describe_columns`, and for tables that `mark_described` has marked.
    """
    return isinstance(X_public, DescribedRows) or bounds_of_mark(X_public) is not None


def bounds_of_mark(table: Any) -> Mapping[str, tuple[Any, Any]] | None:
    """Return the bounds with which `mark_described` marked a table, or None without a mark."""
    marked, bounds = _marks.get(id(table), (None, {}))
    return bounds if marked is not None and marked() is table else None


def mark_described(table: Any, bounds: Mapping[str, tuple[Any, Any]] | None = None) -> Any:
    """Mark a table as computed from described rows, and return the same table.

    The mark belongs to the object, since an array has no attributes of its own. A copy of the table
    is not marked, and neither is an object without weak references, such as None or a list.
    """
    key = id(table)
    with suppress(TypeError):
        _marks[key] = ref(table, lambda _: _marks.pop(key, None)), dict(bounds or {})
    return table


def describe_columns(
    description: Mapping[str, Any] | str | os.PathLike[str],
    *,
    size: int = 300,
    columns: Mapping[str, Any] | None = None,
) -> DescribedRows:
    """Generate synthetic public rows from a description of the columns.

    Use this function if there are no actual public rows. The description must be based on common
    knowledge, and must not depend on the private rows in any way.

    Parameters
    ----------
    description : dict of str to description, or metadata
        Description of each column, indexed by name. A tuple ``(low, high)`` of numbers or dates
        generates evenly spread values. With ``(low, high, typical)``, the median is `typical`, and
        most values are close to the median. These ranges are the bounds of each fit that gets the
        rows, unless its parameter `bounds` declares others. A list generates equally frequent
        categories, and a dict maps categories to approximate shares. The description can also be a
        metadata file in the format of dpsynth (``domain.yaml``) or CSVW, given as the path of a
        JSON or YAML file or as parsed content.
    size : int, default=300
        Number of rows to generate.
    columns : dict of str to description, optional
        Descriptions that complement or replace those in a metadata file.

    Returns
    -------
    DescribedRows
        Rows to be passed as ``X_public``. The columns are independent of each other. The attribute
        `not_given` contains the columns that a metadata file lists without bounds or categories,
        with the reason.

    Raises
    ------
    ValueError
        If a description has an invalid form.
    ImportError
        If a YAML file is given and PyYAML is not installed.

    See Also
    --------
    open_rows : Function that opens rows from a file or a database.

    Examples
    --------
    >>> from skpublicdp.data import describe_columns
    >>> rows = describe_columns(
    ...     {"age": (17, 90), "hours": (1, 99, 40), "job": ["clerk", "nurse"]}, size=4
    ... )
    >>> rows
    <4 described rows of age, hours, job>
    >>> sorted(rows.columns["age"].tolist()), sorted(rows.columns["hours"].tolist())
    ([26, 44, 63, 81], [18, 38, 44, 73])
    >>> rows.to_frame()
       age  hours    job
    0   63     73  clerk
    1   26     44  nurse
    2   44     38  clerk
    3   81     18  nurse
    """
    metadata = read_metadata(description) or ColumnMetadata()
    if metadata.description or metadata.not_given:
        description = metadata.description
    if isinstance(description, Mapping):
        description = {**description, **(columns or {})}
    if not isinstance(description, Mapping) or not description:
        raise ValueError(
            "description must be a dict from column names to descriptions, with at least one "
            "column; got "
            f"{'an empty one' if isinstance(description, Mapping) else type(description).__name__}."
        )
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
        raise ValueError(f"size must be a positive whole number of rows; got {size!r}.")
    quantiles = reference_sample(len(description), (0, 1), size)
    values = {
        str(name): _column_values(str(name), column, quantiles[:, position])
        for position, (name, column) in enumerate(description.items())
    }
    not_given = {n: reason for n, reason in metadata.not_given.items() if n not in values}
    bounds = {
        str(name): column[:2] for name, column in description.items() if isinstance(column, tuple)
    }
    return DescribedRows(values, metadata.nullable, not_given, bounds)


def _column_values(name: str, description: Any, quantiles: Floats) -> NDArray[Any]:
    """Return the values of a described column at given quantile levels.

    A description has bounds, bounds with a typical value, or categories with or without shares.
    """
    if isinstance(description, tuple) and len(description) in (2, 3):
        return _numeric_values(name, description, quantiles)
    if isinstance(description, list) and description:
        description = dict.fromkeys(description, 1)
    shares = list(description.values()) if isinstance(description, Mapping) else []
    if not shares or not all(isinstance(s, int | float | np.number) and s > 0 for s in shares):
        raise ValueError(
            f"Column {name} must be described by (low, high), (low, high, typical), a list of "
            f"categories, or a dict that maps each category to its share; got {description!r}."
        )
    cumulative = np.cumsum(shares) / sum(shares)
    categories = np.empty(len(description), dtype=object)
    categories[:] = list(description)
    codes = np.searchsorted(cumulative, quantiles).clip(max=len(description) - 1)
    return categories[codes]


def _numeric_values(name: str, description: tuple[Any, ...], quantiles: Floats) -> NDArray[Any]:
    """Return numbers or dates for the description (low, high) or (low, high, typical).

    Without a typical value, the distribution is uniform. Otherwise, the distance from this median
    at the quantile level q grows with the square of 2q - 1, so most values are close to it.
    """
    is_date = not all(isinstance(end, int | float | np.number) for end in description)
    ends: Any = description
    try:
        if is_date:
            ends = np.array(description, dtype="datetime64[us]").astype(np.int64)
        low, high, *typical = map(float, ends)
    except (TypeError, ValueError):
        raise ValueError(
            f"Column {name} must be described by numbers or dates; got {description!r}."
        ) from None
    if not -np.inf < low < high < np.inf or not all(low <= middle <= high for middle in typical):
        raise ValueError(
            f"Column {name} must be described by finite numbers low < high, with the typical value "
            f"between them; got {description!r}."
        )
    if typical:
        (median,) = typical
        signed = 2 * quantiles - 1  # -1 at `low`, 0 at the median, and 1 at `high`
        max_distance = np.where(signed < 0, median - low, high - median)
        if np.isinf(high - low):  # a distance may overflow, but not a weighted mean
            values = (1 - signed**2) * median + signed**2 * np.where(signed < 0, low, high)
        else:
            values = median + np.sign(signed) * signed**2 * max_distance
    elif np.isinf(high - low):
        values = (1 - quantiles) * low + quantiles * high
    else:
        values = low + quantiles * (high - low)
    if is_date:
        # between whole days, all values are whole days; otherwise, all values are whole
        # microseconds
        are_whole_days = not any(end % DAY for end in ends)
        unit = DAY if are_whole_days else 1
        return (values.astype(np.int64) // unit * unit).astype("datetime64[us]")
    is_integral = all(isinstance(end, int | np.integer) for end in description)
    return np.rint(values).astype(np.int64) if is_integral else values


def reference_sample(
    n_features: int, bounds: ArrayLike | Mapping[Any, Any] | None = None, size: int = 1000
) -> NDArray[np.float64]:
    """Return data-independent rows that replace missing public rows.

    Examples
    --------
    >>> np.sort(reference_sample(1, bounds=(0, 10), size=5)[:, 0])
    array([1., 3., 5., 7., 9.])
    """
    generator = np.random.default_rng(0)  # fixed: the reference is not random
    probabilities = np.tile((np.arange(size) + 0.5)[:, None] / size, (1, n_features))
    probabilities = generator.permuted(probabilities, axis=0)
    limits = parse_bounds(bounds, [f"x{position}" for position in range(n_features)])
    rows = np.empty_like(probabilities)
    for position, column in enumerate(probabilities.T):
        if position in limits:
            low, high = limits[position]
            rows[:, position] = low * (1 - column) + high * column
        else:
            rows[:, position] = norm.ppf(column)
    return rows


def warn_no_public(replacement: str) -> None:
    """Warn that there are no public rows, and name the replacement."""
    warn(
        f"No public rows were given, so {replacement}. Pass public rows as X_public, mark them "
        "with is_public, or create rows with skpublicdp.data.describe_columns. In "
        "cross-validation, use model_selection.PublicKFold, which keeps the public rows in all "
        "folds.",
        NoPublicDataWarning,
    )


def reference_rows(schema: Schema, bounded: Collection[int], size: int = 1000) -> Floats:
    """Return an encoded reference sample for the columns of a schema."""
    n_columns = len(schema.columns)
    rows = reference_sample(n_columns, None, size)
    uniform = reference_sample(n_columns, (0, 1), size)
    for position, column in enumerate(schema.columns):
        if column.categorical or position in bounded:
            rows[:, position] = spread_evenly(column, uniform[:, position])
    return rows


def describe_reference(schema: Schema, bounded: Collection[int], kind: str) -> str:
    """Return a phrase for messages that describes the distribution of `reference_rows`."""
    columns = enumerate(schema.columns)
    if all(column.categorical or position in bounded for position, column in columns):
        return "the given bounds"
    return f"standard-normal {kind}, which lie near 0 (pass bounds to declare the possible values)"


def spread_evenly(column: Column, fractions: Floats) -> Floats:
    """Return encoded values at given fractions of a column's range or list of categories."""
    if column.categorical:
        return np.floor(fractions * len(column.values))
    values = column.low * (1 - fractions) + column.high * fractions
    # a single whole number does not imply that all values are whole numbers
    return np.rint(values) if column.integral and len(column.values) > 1 else values


N_ADDED_ROWS = 300
"""Number of synthetic rows added if there are too few public rows. The number equals the default in
`describe_columns`."""


@dataclass(frozen=True, eq=False, repr=False)
class AugmentedSample:
    """Actual public rows of a fit, together with synthetic rows."""

    # (m, n_features): encoded rows: the actual public rows in their original order, followed by
    # added rows
    rows: Floats
    # (m,): mask of the rows with at least one value that occurs in no actual public row
    is_synthetic: Mask
    # positions of the columns that are not a genuine sample, because some of their values are
    # synthetic or repeated
    spread_columns: frozenset[int] = frozenset()


def without_augmentation(rows: Floats) -> AugmentedSample:
    """Return public rows as a sample that has no synthetic rows."""
    return AugmentedSample(rows, np.zeros(len(rows), dtype=bool))


def _list_names(names: Sequence[str]) -> str:
    """Return the first few names, separated by commas."""
    return ", ".join([*names[:MAX_LISTED_COLUMNS], *["..."][: len(names) > MAX_LISTED_COLUMNS]])


def reference_in_place_of_public(schema: Schema, bounded: Collection[int]) -> AugmentedSample:
    """Warn about missing public rows, and return a data-independent reference."""
    undeclared = [
        column
        for position, column in enumerate(schema.columns)
        if not column.categorical and position not in bounded
    ]
    numbers = [column.name for column in undeclared if not column.is_datetime]
    dates = [column.name for column in undeclared if column.is_datetime]
    effects = []
    if numbers:
        effects.append(
            f"numbers in {_list_names(numbers)} are assumed to lie near 0, and values beyond "
            f"±{REFERENCE_BOUND:g} count as ±{REFERENCE_BOUND:g}"
        )
    if dates:
        effects.append(f"all dates in {_list_names(dates)} count as the beginning of 1970")
    if effects:
        warn_no_public(f"{', and '.join(effects)} (pass bounds to declare their range)")
    else:
        warn_no_public("the cells come from the given bounds and the declared categories alone")
    return without_augmentation(reference_rows(schema, bounded))


def augment_public(
    schema: Schema,
    X_public: Floats,
    tables: Sequence[Table],
    bounded: Collection[int],
    has_label: Mask,
    min_rows: int,
    one_hot: Collection[int] = (),
) -> AugmentedSample:
    """Augment public rows with values spread over the bounds and declared categories.

    With fewer than `min_rows` public rows, synthetic rows are added. Otherwise, if a column has
    fewer than two distinct values, its values in half of the rows are replaced by evenly spread
    values. A warning names the columns that have neither bounds nor declared categories.

    Parameters
    ----------
    X_public : ndarray of float64, shape (m, n_features)
        Encoded public rows, of which there is at least one.
    tables : sequence of Table
        Tables with the same columns, from which only the declared types are read.
    bounded : collection of int
        Positions of the columns with bounds.
    has_label : ndarray of bool, shape (m,)
        Mask of the labelled rows. Unlabelled rows are modified before labelled rows.
    min_rows : int
        Minimum number of public rows. With fewer public rows, synthetic rows are added.
    one_hot : collection of int
        Positions of one-hot columns. One-hot columns need no added values, because together they
        form a single column.

    Returns
    -------
    AugmentedSample
        Actual and synthetic rows.

    Raises
    ------
    ValueError
        If no public value of a column lies within its bounds.
    """
    _check_within_bounds(schema, bounded)
    columns = enumerate(schema.columns)
    domains = [_has_declared_domain(column, i, tables, bounded) for i, column in columns]
    has_domain = np.array(domains)
    m = len(X_public)
    if m < min_rows:
        undeclared = np.array(schema.names)[~has_domain].tolist()
        if undeclared:
            warn(
                f"Only {m} public row{'s were' if m > 1 else ' was'} given, but at least "
                f"{min_rows} are needed to learn the possible values of "
                f"{_columns_and_remedies(undeclared)}",
                NoPublicDataWarning,
            )
        if not has_domain.any():
            return without_augmentation(X_public)
        repeated = X_public[np.arange(N_ADDED_ROWS) % m]  # applies to columns without a domain
        added = _spread_columns(schema, repeated, has_domain)
        is_added = np.arange(m + N_ADDED_ROWS) >= m
        # values of the other columns are repeated, so they are not a genuine sample of this size
        every_column = frozenset(range(len(schema.columns)))
        return AugmentedSample(np.concatenate([X_public, added]), is_added, every_column)

    is_uninformative = np.array(
        [
            position not in one_hot and _n_distinct(column, values) < 2
            for position, (column, values) in enumerate(
                zip(schema.columns, X_public.T, strict=True)
            )
        ]
    )
    undeclared = np.array(schema.names)[is_uninformative & ~has_domain].tolist()
    if undeclared:
        warn(
            "The public rows contain fewer than two different values of "
            f"{_columns_and_remedies(undeclared)}",
            NoPublicDataWarning,
        )
    changed_columns = is_uninformative & has_domain
    if not changed_columns.any():
        return without_augmentation(X_public)
    # shuffled because the rows may be sorted, with a fixed seed because the result is not random
    order = np.random.default_rng(0).permutation(m)
    order = order[np.argsort(has_label[order], kind="stable")]  # unlabelled rows are changed first
    is_synthetic = np.zeros(m, dtype=bool)
    is_synthetic[order[: m // 2]] = True  # the same half of the rows in all columns
    rows = X_public.copy()
    rows[is_synthetic] = _spread_columns(schema, X_public[is_synthetic], changed_columns)
    spread_columns = frozenset(np.flatnonzero(changed_columns).tolist())
    return AugmentedSample(rows, is_synthetic, spread_columns)


def _check_within_bounds(schema: Schema, bounded: Collection[int]) -> None:
    """Raise ValueError if all public values of a bounded column lie outside its bounds."""
    for position in bounded:
        column = schema.columns[position]
        public_values = column.values
        if column.categorical or not len(public_values):
            continue
        if not ((column.low <= public_values) & (public_values <= column.high)).any():
            raise ValueError(
                f"All public values of column {column.name} lie outside the bounds of this column. "
                f"Use the same unit for the rows and the bounds{pipeline_advice()}"
            )


def _has_declared_domain(
    column: Column, position: int, tables: Sequence[Table], bounded: Collection[int]
) -> bool:
    """Indicate whether the possible values of a column are defined by bounds or a declared type."""
    if not column.categorical:
        return position in bounded
    has_categories = any(table.types[position].categories for table in tables)
    is_boolean = column.values.tolist() == [False, True]
    return has_categories or is_boolean


def _n_distinct(column: Column, values: Floats) -> int:
    """Return the number of distinct categories, or distinct finite numbers, among encoded values.

    The codes for `OTHER` and `MISSING` are not counted.
    """
    is_counted = values < len(column.values) if column.categorical else np.isfinite(values)
    return len(np.unique(values[is_counted]))


def _spread_columns(schema: Schema, rows: Floats, columns: Mask) -> Floats:
    """Return a copy of encoded rows with evenly spread values in the selected columns."""
    fractions = reference_sample(rows.shape[1], (0, 1), len(rows))
    changed = rows.copy()
    for position in np.flatnonzero(columns):
        changed[:, position] = spread_evenly(schema.columns[position], fractions[:, position])
    return changed


def _columns_and_remedies(names: list[str]) -> str:
    """Return the end of a warning about columns, with their names, the consequence and remedies."""
    n_others = len(names) - MAX_LISTED_COLUMNS
    others = f" and {n_others} others" if n_others > 0 else ""
    return (
        f"{', '.join(names[:MAX_LISTED_COLUMNS])}{others}, so different private values of these "
        f"columns may be treated as equal. Pass bounds={{{names[0]!r}: (low, high)}} for numbers, "
        "declare categories in the type of the column, pass public rows with different values (for "
        "example, from skpublicdp.data.describe_columns), or drop constant columns."
    )
