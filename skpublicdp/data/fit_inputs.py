"""Read the inputs of `fit`: separate public and private rows, build the schema, and encode y."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.bounds import column_position, parse_bounds
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.labels import (
    TargetReader,
    Targets,
    check_length,
    distinct_targets,
    encode_targets,
    require_target,
)
from skpublicdp.data.one_hot import ColumnRun, find_one_hot_runs
from skpublicdp.data.persons import RowChooser
from skpublicdp.data.public_rows import (
    DescribedRows,
    augment_public,
    bounds_of_mark,
    public_data_assumptions,
    reference_in_place_of_public,
    without_augmentation,
)
from skpublicdp.data.roles import RowRoles, split_roles
from skpublicdp.data.schema import Schema, build_schema, column_names, frame_labels
from skpublicdp.data.streaming import RowSource, as_rows
from skpublicdp.data.tables import ColumnType, Table
from skpublicdp.data.text_columns import warn_about_text
from skpublicdp.data.value_conversion import types_with_dates
from skpublicdp.typing import Floats, Mask


def read_fit_inputs(
    estimator: Any,
    X: Any,
    y: Any = None,
    target_reader: TargetReader | None = None,
    *,
    X_public: Any = None,
    y_public: Any = None,
    is_public: Any = None,
    groups: Any = None,
    ledger: RowChooser | None = None,
    numeric: bool = False,
    nullable: bool | Collection[Any] = False,
    clamp: bool = False,
    use_reference: bool = False,
    min_public_rows: int | None = 2,
    find_one_hot: bool = False,
) -> Dataset:
    """Validate the arguments of `fit`, and return the private and public rows.

    The column schema is determined by public rows alone. Targets are encoded, and each person's
    private rows beyond `max_rows_per_group` random ones are omitted.

    Parameters
    ----------
    estimator : estimator
        Estimator that is being fitted, and whose feature names are set.
    X, y, X_public, y_public, is_public, groups
        Arguments passed to `fit`.
    ledger : Ledger, optional
        Ledger of the fit, which chooses the rows of each person. It is needed if there are groups.
    target_reader : TargetReader, optional
        Reader that reads and encodes `y`. If omitted, `y` is ignored.
    numeric : bool
        Whether text and categorical columns are rejected.
    nullable : bool or collection of str and int
        Whether numbers can be missing or infinite. A collection lists the names or positions of
        nullable columns, in addition to the columns with missing public numbers.
    clamp : bool
        Whether numbers outside the bounds are clipped to the bounds.
    use_reference : bool
        Whether a data-independent reference replaces missing public rows.
    min_public_rows : int or None
        Minimum number of public rows, below which synthetic rows are added. With ``None``, the
        public rows are never changed. The default is 2, since at least two rows are needed to show
        two values of a column.
    find_one_hot : bool
        Whether to search for runs of one-hot columns if there are enough public rows.

    Returns
    -------
    Dataset
        The private and public rows of the fit.
    """
    if target_reader is not None:
        require_target(estimator, y)
    roles = split_roles(
        estimator,
        X,
        y,
        X_public=X_public,
        is_public=is_public,
        numeric=numeric,
        streamed=True,
        groups=groups,
    )
    table, public_tables = roles.table, roles.public_tables
    bounds = with_described_bounds(
        getattr(estimator, "bounds", None), X_public, column_names(table), frame_labels(table)
    )
    if not isinstance(nullable, bool):
        nullable = _column_positions(nullable, table)
    schema = build_schema(table, public_tables, bounds=bounds, nullable=nullable, numeric=numeric)
    warn_about_text(schema, public_tables)
    roles = roles.capped(getattr(estimator, "max_rows_per_group", None), groups, ledger)
    target = encode_target(target_reader, roles, y, X_public=X_public, y_public=y_public)
    source = _open_private_rows(roles, target, schema, finite=nullable is not True)
    types = types_with_dates(table, public_tables)
    bounded = frozenset(parse_bounds(bounds, schema.names, types, schema.labels))
    encoded_tables = [schema.encode(public, clamp=clamp) for public in public_tables]
    raw_public = np.concatenate([np.empty((0, table.shape[1])), *encoded_tables])
    sample = without_augmentation(raw_public)
    runs: tuple[ColumnRun, ...] = ()
    if find_one_hot and len(raw_public) >= (min_public_rows or 0):
        runs = find_one_hot_runs(schema, raw_public, bounded)
    if public_tables and min_public_rows is not None:
        has_target = _public_target_mask(target.targets, len(raw_public))
        tables = [table, *public_tables]
        one_hot = frozenset(position for run in runs for position in range(*run))
        sample = augment_public(
            schema, raw_public, tables, bounded, has_target, min_public_rows, one_hot
        )
    elif use_reference and not public_tables:
        sample = reference_in_place_of_public(schema, bounded)
    return Dataset(
        schema=schema,
        X_public=sample.rows,
        is_synthetic=sample.is_synthetic,
        bounded=bounded,
        one_hot_runs=runs,
        spread_columns=sample.spread_columns,
        n_private=roles.n_private,
        n_public=len(raw_public),
        assumptions=_assumptions(schema, roles, X_public),
        _targets=target.targets,
        _raw_public=raw_public,
        _source=source,
        _positions=tuple(range(table.shape[1])),
        _encode=target.encode_chunk,
        _clamp=clamp,
        _types=_types_for_errors(table, streamed=roles.stream is not None),
    )


def _column_positions(columns: Collection[Any], table: Table) -> frozenset[int]:
    """Return the positions of columns that the user declared as having missing numbers."""
    names, labels = column_names(table), frame_labels(table)
    positions = [column_position(column, names, labels) for column in columns]
    if None in positions:
        raise ValueError(
            "missing must list columns of X by name or position; got "
            f"{list(columns)[positions.index(None)]!r}. The columns of X are "
            f"{', '.join(names[:10])}{', ...' if len(names) > 10 else ''}."
        )
    return frozenset(position for position in positions if position is not None)


class TargetEncoding(NamedTuple):
    """Encoded targets of a fit, and the encoder for targets that are read in chunks.

    All three attributes are None for an estimator without a target.
    """

    targets: Targets | None = None
    """Encoded targets of private and public rows, or only distinct labels for streamed rows."""
    y: NDArray[Any] | None = None
    """Encoded targets of all rows in memory, with 0 for uncounted rows, or None for streamed
    rows."""
    encode_chunk: Callable[[Any], NDArray[Any]] | None = None
    """Encoder for the targets of a streamed chunk, or None if the rows are in memory."""


def encode_target(
    target_reader: TargetReader | None, roles: RowRoles, y: Any, *, X_public: Any, y_public: Any
) -> TargetEncoding:
    """Return the encoded targets of private and public rows.

    The labels of `X_public` are validated before any private label is read. All labels of streamed
    rows are read once, since the classes are the distinct labels of all chunks together.
    """
    if target_reader is None:
        return TargetEncoding()
    separate = public_labels(X_public, y_public, target_reader.column)
    if roles.stream is None:
        target_reader.check_public(y, separate)
        column = target_reader.column(y)
        check_length(column, len(roles.is_public))
        public = [column[roles.is_public], *separate]
        targets = target_reader.targets(column[roles.counted], public)
        encoded = np.zeros(len(column), dtype=targets.private.dtype)
        encoded[roles.counted] = targets.private
        return TargetEncoding(targets, encoded)
    chunks = roles.stream.map_labels(lambda y: distinct_targets(target_reader, y))
    # converted to objects, since chunks can have different types
    labels = target_reader.column(np.concatenate([values.astype(object) for values in chunks]))
    distinct = target_reader.distinct(labels)  # each once, since workers receive them
    targets = target_reader.targets(distinct, separate or [distinct[:0]])
    return TargetEncoding(targets, encode_chunk=lambda y: encode_targets(target_reader, y, targets))


def _open_private_rows(
    roles: RowRoles, target: TargetEncoding, schema: Schema, *, finite: bool
) -> RowSource:
    """Return a source of chunks with the counted private rows and their targets.

    If `finite` is true, rows in memory are checked for missing and infinite numbers, so that a fit
    fails before it spends any budget. Streamed rows are checked when they are read.
    """
    if roles.stream is not None:
        return roles.stream
    assert roles.counted is not None
    source = as_rows(roles.table.native, target.y)
    if finite:
        for _ in source.map(lambda chunk: schema.check(Table(chunk.X))):
            pass  # this raises an error for invalid numbers
    return source if roles.counted.all() else source.with_mask(roles.counted)


def _public_target_mask(targets: Targets | None, n_public: int) -> Mask:
    """Return a mask of the public rows with a target, shape (n_public,).

    Separate public rows come last, and have no targets if `y_public` is missing.
    """
    has_target = np.zeros(n_public, dtype=bool)
    if targets is not None:
        has_target[: len(targets.has_target)] = targets.has_target
    return has_target


def _types_for_errors(table: Table, *, streamed: bool) -> tuple[ColumnType, ...]:
    """Return the column types on which error messages depend.

    A missing value can change the type of a streamed chunk, so all streamed columns are treated as
    nullable.
    """
    if not streamed:
        return table.types
    return tuple(replace(type_, nullable=True) for type_ in table.types)


def _assumptions(schema: Schema, roles: RowRoles, X_public: Any) -> tuple[str, ...]:
    """Return the assumptions about public rows and declared categories, for the receipt.

    Categories are an assumption if the type of `X` declares them, but that of `X_public` does not.
    """
    assumptions = public_data_assumptions(X_public)
    public_types = roles.table.types if roles.separate is None else roles.separate.types
    declared = [
        column.name
        for column, type_, public_type in zip(
            schema.columns, roles.table.types, public_types, strict=True
        )
        if column.categorical
        and type_.categories
        and (roles.separate is None or not public_type.categories)
    ]
    if not declared:
        return assumptions
    return (
        *assumptions,
        f"the categories declared by the types of {', '.join(declared)} may be known",
    )


def bound_ends(bounds: Any, names: Sequence[str], labels: Sequence[Any] = ()) -> Floats:
    """Return the low and high ends of declared bounds, shape (2, n_columns), 0 without bounds."""
    ends = np.zeros((2, len(names)))
    for position, limits in parse_bounds(bounds, names, labels=labels).items():
        ends[:, position] = limits
    return ends


def bounds_of_description(X_public: Any, names: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """Return the bounds that public rows from `describe_columns` declare, by name of the column."""
    if not isinstance(X_public, DescribedRows):
        return dict(bounds_of_mark(X_public) or {})
    described = names if set(names) <= set(X_public.columns) else [*X_public.columns]
    return {
        name: X_public.bounds[key]
        for name, key in zip(names, described, strict=False)
        if key in X_public.bounds
    }


def with_described_bounds(
    bounds: Any, X_public: Any, names: Sequence[str], labels: Sequence[Any] = ()
) -> Any:
    """Return the parameter `bounds` of a fit, completed by the bounds of described public rows.

    The parameter has precedence. Bounds of all columns are returned unchanged.
    """
    described = bounds_of_description(X_public, names)
    if not described or not (bounds is None or isinstance(bounds, Mapping)):
        return bounds
    given = {column_position(column, names, labels) for column in bounds or ()}
    completed = dict(bounds or {})
    for name, pair in described.items():
        if column_position(name, names, labels) not in given:
            completed[name] = pair
    return completed


def public_labels(
    X_public: Any, y_public: Any, column: Callable[..., NDArray[Any]]
) -> list[NDArray[Any]]:
    """Return the labels of `X_public` as a list of one array, or an empty list.

    Parameters
    ----------
    X_public, y_public
        Arguments of `fit`. Without `y_public`, the list is empty.
    column : callable
        Function that reads labels from any container, like `TargetReader.column`.
    """
    if y_public is None:
        return []
    if X_public is None:
        raise ValueError(
            "y_public was passed without X_public. Pass the rows that belong to these labels as "
            "X_public."
        )
    labels = column(y_public, name="y_public")
    if len(labels) != np.shape(X_public)[0]:
        raise ValueError(
            "y_public must contain one label per row of X_public; "
            f"got {len(labels)} labels for {np.shape(X_public)[0]} rows."
        )
    return [labels]
