"""Read the inputs of `fit`: split public and private rows, build the schema, encode y."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.dataset import Dataset
from skpublicdp.data.labels import (
    TargetReader,
    Targets,
    check_length,
    distinct_targets,
    encode_targets,
)
from skpublicdp.data.public_rows import (
    augment_public,
    describe_reference,
    public_data_assumptions,
    reference_rows,
    warn_no_public,
    without_augmentation,
)
from skpublicdp.data.roles import (
    SHARED_MEMORY,
    cap_rows_per_group,
    check_index,
    check_mask,
    read_public,
)
from skpublicdp.data.schema import Schema, build_schema, parse_bounds
from skpublicdp.data.streaming import RowSource, as_rows, is_streamed
from skpublicdp.data.tables import ColumnType, Table
from skpublicdp.data.validation import check_columns, read_table, refuse_text
from skpublicdp.typing import Floats, Mask


class _OpenedRows(NamedTuple):
    """The argument `X` of `fit`, with its columns validated and no value read."""

    source: RowSource | None
    """Streamed rows with their labels, or None if the rows are in memory."""
    table: Table
    """The rows in memory, or an empty table with the columns of the streamed rows."""
    n_rows: int
    """Number of rows."""


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
    numeric: bool = False,
    nullable: bool = False,
    clamp: bool = False,
    use_reference: bool = False,
    min_public_rows: int | None = 2,
) -> Dataset:
    """Return the private and public rows of a fit, after validating its arguments.

    Public rows alone determine the schema of the columns. Targets are encoded, and private rows of
    a person beyond `max_rows_per_group` are left out.

    Parameters
    ----------
    estimator : estimator
        The estimator that is fitted. Its feature names are set.
    X, y, X_public, y_public, is_public, groups
        Arguments of its `fit`.
    target_reader : TargetReader, optional
        Reads and encodes `y`. Without it, `y` is ignored.
    numeric : bool
        Whether text and categories are refused.
    nullable : bool
        Whether numbers may be missing or infinite.
    clamp : bool
        Whether numbers outside the bounds are moved to the nearer bound.
    use_reference : bool
        Whether a data-independent reference replaces missing public rows.
    min_public_rows : int or None
        Number of public rows below which rows are added. ``None`` never changes public rows. The
        default 2 is the least number of rows that shows two values of a column.

    Returns
    -------
    Dataset
        Private and public rows.
    """
    if target_reader is not None and y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    if X_public is not None and X_public is X:
        raise ValueError(SHARED_MEMORY)

    source, table, n = _open_rows(estimator, X, y, is_public, groups, numeric=numeric)
    is_in_memory = source is None  # only streamed rows have a source from the start
    public_mask = check_mask(is_public, n)
    if public_mask.all():
        raise ValueError("X must hold at least one private row; is_public marks every row.")
    public_tables = [table.take(public_mask)] if public_mask.any() else []
    if numeric and public_tables:
        refuse_text(estimator, public_tables[0])
    n_streamed = None if is_in_memory else n
    separate_table = read_public(estimator, table, X_public, numeric=numeric, n_rows=n_streamed)
    if separate_table is not None:
        public_tables.append(separate_table)
    bounds = getattr(estimator, "bounds", None)
    schema = build_schema(table, public_tables, bounds=bounds, nullable=nullable, numeric=numeric)

    if source is not None and is_streamed(groups):
        groups = _collect_column(source, groups)
    # without groups, streamed rows need no mask, which would be large for very many rows
    needs_mask = is_in_memory or groups is not None
    private_mask = cap_rows_per_group(
        estimator, groups, ~public_mask if needs_mask else np.empty(0, dtype=bool)
    )
    counted_mask = private_mask if needs_mask else None
    n_private = n if counted_mask is None else int(counted_mask.sum())
    if source is not None and counted_mask is not None:
        source = source.with_mask(counted_mask)

    encoding = _TargetEncoding(targets=None, encode_chunk=None, y=None)
    if target_reader is not None:
        read_public_labels = partial(public_labels, X_public, y_public, target_reader.column)
        if source is None:
            assert counted_mask is not None
            encoding = _encode_in_memory(
                target_reader, y, counted_mask, public_mask, read_public_labels
            )
        else:
            encoding = _encode_streamed(target_reader, source, read_public_labels)
    if source is None:
        assert counted_mask is not None
        source = as_rows(table.native, encoding.y)
        if not nullable:  # before any budget is spent
            for _ in source.map(lambda chunk: schema.check(Table(chunk.X))):
                pass  # an invalid number raises an error
        source = source if counted_mask.all() else source.with_mask(counted_mask)

    bounded = frozenset(parse_bounds(bounds, schema.names, table.types))
    encoded_tables = [schema.encode(public, clamp=clamp) for public in public_tables]
    raw_public = np.concatenate([np.empty((0, table.shape[1])), *encoded_tables])
    if public_tables and min_public_rows is not None:
        has_target = _public_target_mask(encoding.targets, len(raw_public))
        tables = [table, *public_tables]
        sample = augment_public(schema, raw_public, tables, bounded, has_target, min_public_rows)
    elif use_reference and not public_tables:
        sample = without_augmentation(_reference(schema, bounded))
    else:
        sample = without_augmentation(raw_public)
    return Dataset(
        schema=schema,
        X_public=sample.rows,
        is_synthetic=sample.is_synthetic,
        bounded=bounded,
        n_private=n_private,
        n_public=len(raw_public),
        assumptions=_assumptions(schema, table, X_public),
        _targets=encoding.targets,
        _raw_public=raw_public,
        _source=source,
        _positions=tuple(range(table.shape[1])),
        _encode=encoding.encode_chunk,
        _clamp=clamp,
        _types=_types_for_errors(table, streamed=not is_in_memory),
    )


def _open_rows(
    estimator: Any, X: Any, y: Any, is_public: Any, groups: Any, *, numeric: bool
) -> _OpenedRows:
    """Return the argument `X` of `fit` as a table or as streamed rows, with validated columns.

    Feature names are set on the estimator. Other arguments of `fit` are only checked to fit `X`.
    """
    if not is_streamed(X):
        table = read_table(estimator, X, reset=True, numeric=numeric)
        check_index(X, is_public=is_public, groups=groups)
        return _OpenedRows(None, table, table.shape[0])
    if is_public is not None:
        raise ValueError(
            "is_public marks rows of a table in memory, and X is streamed; pass the public rows "
            "as X_public."
        )
    source = as_rows(X, y)
    table = check_columns(estimator, Table(source.empty()), reset=True, numeric=numeric)
    if not source.n_rows:
        raise ValueError("X must hold at least one private row; it is empty.")
    return _OpenedRows(source, table, source.n_rows)


def _public_target_mask(targets: Targets | None, n_public: int) -> Mask:
    """Return a mask of the public rows that have a target, shape (n_public,).

    Separate public rows come last, and without `y_public` they have no targets.
    """
    has_target = np.zeros(n_public, dtype=bool)
    if targets is not None:
        has_target[: len(targets.has_target)] = targets.has_target
    return has_target


def _reference(schema: Schema, bounded: frozenset[int]) -> Floats:
    """Return encoded rows that replace missing public rows and do not depend on data; warn."""
    distribution = describe_reference(schema, bounded, "columns")
    warn_no_public(f"the cells come from a data-independent reference over {distribution}")
    return reference_rows(schema, bounded)


def _collect_column(rows: RowSource, column: Any) -> NDArray[Any]:
    """Return all values of a streamed column as one array, in the order of the streamed rows."""
    rows.check_ordered("Groups")
    return np.concatenate(list(as_rows(rows, column).map_labels(np.asarray)))


def _types_for_errors(table: Table, *, streamed: bool) -> tuple[ColumnType, ...]:
    """Return the column types on which error texts depend.

    A missing value may change the type of a streamed chunk, so streamed columns count as nullable.
    """
    if not streamed:
        return table.types
    return tuple(replace(type_, nullable=True) for type_ in table.types)


def _assumptions(schema: Schema, table: Table, X_public: Any) -> tuple[str, ...]:
    """Return the assumptions about public rows and declared categories, for the receipt."""
    assumptions = public_data_assumptions(X_public)
    declared = [
        column.name
        for column, type_ in zip(schema.columns, table.types, strict=True)
        if column.categorical and type_.categories
    ]
    if not declared:
        return assumptions
    return (
        *assumptions,
        f"the categories that the types of {', '.join(declared)} list may be known",
    )


class _TargetEncoding(NamedTuple):
    """Encoded targets of a fit, and the encoder of targets that are read in chunks.

    All three are None for an estimator without a target.
    """

    targets: Targets | None
    """Encoded targets of private and public rows; of streamed rows only the distinct labels."""
    encode_chunk: Callable[[Any], NDArray[Any]] | None
    """Encodes the targets of a streamed chunk; None if the rows are in memory."""
    y: NDArray[Any] | None
    """Encoded targets of all rows in memory, 0 for uncounted rows; None for streamed rows."""


def _encode_in_memory(
    target_reader: TargetReader,
    y: Any,
    counted_mask: Mask,
    public_mask: Mask,
    read_public_labels: Callable[[], list[NDArray[Any]]],
) -> _TargetEncoding:
    """Return the encoded targets of rows in memory.

    Parameters
    ----------
    target_reader : TargetReader
        Reads and encodes targets.
    y : array-like, shape (n,)
        Targets of all rows.
    counted_mask : ndarray of bool, shape (n,)
        Mask of the private rows that count.
    public_mask : ndarray of bool, shape (n,)
        Mask of the public rows.
    read_public_labels : callable
        Returns the targets of the separate public rows. It is called after `y` is validated.
    """
    y = target_reader.column(y)
    check_length(y, len(public_mask))
    y_public_parts = [y[public_mask], *read_public_labels()]
    targets = target_reader.targets(y[counted_mask], y_public_parts)
    encoded = np.zeros(len(y), dtype=targets.private.dtype)
    encoded[counted_mask] = targets.private
    return _TargetEncoding(targets, None, encoded)


def _encode_streamed(
    target_reader: TargetReader,
    source: RowSource,
    read_public_labels: Callable[[], list[NDArray[Any]]],
) -> _TargetEncoding:
    """Return the encoding of the targets of streamed rows.

    All targets are read once, since the classes are the distinct labels of all chunks. Parameters
    are as in `_encode_in_memory`.
    """
    y_public_parts = read_public_labels()
    distinct_of_chunks = list(source.map_labels(lambda y: distinct_targets(target_reader, y)))
    # as objects, since the types of chunks may differ
    distinct = target_reader.column(
        np.concatenate([values.astype(object) for values in distinct_of_chunks])
    )
    targets = target_reader.targets(distinct, y_public_parts or [distinct[:0]])
    return _TargetEncoding(targets, lambda y: encode_targets(target_reader, y, targets), None)


def public_labels(
    X_public: Any, y_public: Any, column: Callable[..., NDArray[Any]]
) -> list[NDArray[Any]]:
    """Return the labels of the rows of `X_public` as a list of one array, or an empty list.

    Parameters
    ----------
    X_public, y_public
        Arguments of `fit`. Without `y_public` the list is empty.
    column : callable
        Reads labels of any container, as `TargetReader.column` does.
    """
    if y_public is None:
        return []
    if X_public is None:
        raise ValueError("y_public needs X_public, the rows it labels; got y_public alone.")
    labels = column(y_public, name="y_public")
    if len(labels) != np.shape(X_public)[0]:
        raise ValueError(
            "y_public must hold one label per row of X_public; "
            f"got {len(labels)} labels for {np.shape(X_public)[0]} rows."
        )
    return [labels]
