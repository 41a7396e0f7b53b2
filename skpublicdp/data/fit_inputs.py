"""Read the inputs of `fit`: split public and private rows, build the schema, encode y."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skpublicdp.data.augment import augment_public, without_augmentation
from skpublicdp.data.bounds import parse_bounds
from skpublicdp.data.description import public_data_assumptions
from skpublicdp.data.labels import (
    TargetReader,
    Targets,
    check_length,
    distinct_targets,
    encode_targets,
)
from skpublicdp.data.reference import describe_reference, reference_rows, warn_no_public
from skpublicdp.data.roles import cap_rows_per_group, check_index, check_mask
from skpublicdp.data.schema import Coder, Schema, build_schema
from skpublicdp.data.streaming import AcceptsDictionaries, Chunk, RowSource, as_rows, is_streamed
from skpublicdp.data.tables import ColumnType, Table
from skpublicdp.data.validation import (
    SHARED_MEMORY,
    check_columns,
    read_public,
    read_table,
    refuse_text,
)
from skpublicdp.typing import Floats, Mask, R


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class Dataset:
    """Private rows, read in chunks, and public rows in memory.

    Attributes
    ----------
    schema : Schema
        Description of the columns, from public rows.
    X_public : ndarray of float64, shape (m, n_features)
        Encoded public rows: rows marked by the mask, then the rows of `X_public`. They are
        augmented where they show too few values, and replaced by a reference if there are none.
    is_synthetic : ndarray of bool, shape (m,)
        Mask of the rows of `X_public` with a value that no actual public row has.
    bounded : frozenset of int
        Positions of the numeric columns that have bounds.
    targets : Targets or None
        Encoded targets. Private targets are included only if the rows are in memory.
    n_private, n_public : int
        Number of private rows after `max_rows_per_group`, and of actual public rows.
    assumptions : tuple of str
        Assumptions about the columns, for the receipt.
    """

    schema: Schema
    X_public: Floats
    is_synthetic: Mask
    bounded: frozenset[int]
    n_private: int
    n_public: int
    assumptions: tuple[str, ...]
    _targets: Targets | None
    _raw_public: Floats
    _source: RowSource
    _positions: tuple[int, ...]
    _encode: Callable[[Any], NDArray[Any]] | None
    _clamp: bool
    _types: tuple[ColumnType, ...]

    @property
    def targets(self) -> Targets:
        """Encoded targets. Only for estimators that read y."""
        assert self._targets is not None
        return self._targets

    @property
    def classes(self) -> NDArray[Any]:
        """The sorted labels of a classifier."""
        assert self.targets.classes is not None
        return self.targets.classes

    @property
    def X_labelled(self) -> Floats:
        """Encoded public rows that have a target."""
        has_target = self.targets.has_target
        labelled: Floats = self._raw_public[: len(has_target)][has_target]
        return labelled

    def map(self, f: Callable[[Floats, NDArray[Any]], R], n_jobs: int | None = None) -> Iterator[R]:
        """Yield the result of a function for each chunk of encoded rows and targets, in order."""
        chunk_function = self._on_chunk(f, self._encoded)
        return self._source.map(chunk_function, columns=self._positions, n_jobs=n_jobs)

    def codes(
        self, coders: Sequence[Coder], dtype: DTypeLike, n_jobs: int | None = None
    ) -> Iterator[tuple[list[NDArray[Any]], NDArray[Any]]]:
        """Yield the codes of all columns and the targets of each chunk, in the order of rows.

        Parameters
        ----------
        coders : sequence of callable
            One elementwise function per column.
        dtype : dtype
            Type of the targets.
        n_jobs : int, optional
            Number of threads, as in joblib.
        """
        encode_columns = partial(self.schema.codes, coders=coders, types=self._types)
        chunk_function = self._on_chunk(lambda codes, y: (codes, y.astype(dtype)), encode_columns)
        return self._source.map(chunk_function, columns=self._positions, n_jobs=n_jobs)

    def fold(self, f: Callable[[Floats, NDArray[Any]], R], n_jobs: int | None = None) -> R:
        """Return the sum over chunks of a function of the encoded rows and targets."""
        chunk_function = self._on_chunk(f, self._encoded)
        total: R = self._source.fold(chunk_function, columns=self._positions, n_jobs=n_jobs)
        return total

    def check(self, n_jobs: int | None = None) -> None:
        """Read all rows once, so that invalid rows raise before any budget is spent."""
        self.fold(lambda X, _: np.zeros(1, dtype=np.int64), n_jobs)

    def column(self, position: int) -> Dataset:
        """Return the rows with a single column. Other columns are then not read."""
        container = self.schema.container
        container = replace(container, labels=(container.labels[position],))
        return replace(
            self,
            schema=Schema((self.schema.columns[position],), container),
            X_public=self.X_public[:, [position]],
            _positions=(self._positions[position],),
            _types=(self._types[position],),
        )

    def to_arrays(self) -> tuple[Floats, NDArray[Any]]:
        """Return all encoded private rows and their targets."""
        chunks = list(self.map(lambda X, y: (X, y)))
        return np.concatenate([X for X, _ in chunks]), np.concatenate([y for _, y in chunks])

    @property
    def _encoded(self) -> Callable[[Table], Floats]:
        """Function that encodes a table by the schema."""
        return partial(self.schema.encode, clamp=self._clamp, types=self._types)

    def _on_chunk(
        self, f: Callable[[Any, NDArray[Any]], R], encode_table: Callable[[Table], Any]
    ) -> Callable[[Chunk], R]:
        """Return a function of chunks that calls `f` with encoded rows and encoded targets.

        Without targets, `f` gets zeros in their place.
        """
        encode_target = self._encode

        def call(chunk: Chunk) -> R:
            table, y = Table(chunk.X), chunk.y
            if y is None:
                y = np.zeros(table.shape[0], dtype=np.intp)
            elif encode_target is not None:
                y = encode_target(y)
            return f(encode_table(table), y)

        return AcceptsDictionaries(call)


@dataclass(frozen=True, eq=False, repr=False)
class PrivateColumnCounts:
    """Exact counts of the private values of one numeric column.

    Attributes
    ----------
    column : Dataset
        Rows with a single numeric column.
    """

    column: Dataset

    @property
    def n(self) -> int:
        """Number of private values."""
        return self.column.n_private

    def cumulative_counts(self, ends: Floats) -> NDArray[np.int64]:
        """Return the number of values at or below each end."""

        def count(X: Floats, _: NDArray[Any]) -> NDArray[np.int64]:
            return np.searchsorted(np.sort(X[:, 0]), ends, side="right").astype(np.int64)

        return self.column.fold(count)


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
    """Validate the inputs of `fit`, split public and private rows, and build the schema.

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
        Number of public rows below which rows are added. ``None`` never changes public rows.

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
    is_in_memory = source is None
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

    encoding = _TargetEncoding(None, None, None)
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
            source.fold(lambda chunk: schema.check(Table(chunk.X)))
        source = source if counted_mask.all() else source.with_mask(counted_mask)

    bounded = frozenset(parse_bounds(bounds, schema.names, table.types))
    encoded_tables = [schema.encode(public, clamp=clamp) for public in public_tables]
    raw_public = np.concatenate([np.empty((0, table.shape[1])), *encoded_tables])
    if public_tables and min_public_rows is not None:
        has_target = np.zeros(len(raw_public), dtype=bool)
        if encoding.targets is not None:
            has_target[: len(encoding.targets.has_target)] = encoding.targets.has_target
        declared = [table, *public_tables]
        sample = augment_public(schema, raw_public, declared, bounded, has_target, min_public_rows)
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
    """Open the rows of `fit`, in memory or streamed, and validate their columns."""
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


def _reference(schema: Schema, bounded: frozenset[int]) -> Floats:
    """Return reference rows that replace missing public rows, with a warning."""
    distribution = describe_reference(schema, bounded, "columns")
    warn_no_public(f"the cells come from a data-independent reference over {distribution}")
    return reference_rows(schema, bounded)


def _collect_column(rows: RowSource, column: Any) -> NDArray[Any]:
    """Return a streamed column as one array in memory."""
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
    """Encoded targets, and the way to the targets of a chunk of rows."""

    targets: Targets | None
    """Encoded targets."""
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
    """Encode the targets of rows in memory.

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
    """Read the distinct targets of streamed rows, and return an encoder of their chunks."""
    y_public_parts = read_public_labels()
    chunks = list(source.map_labels(lambda y: distinct_targets(target_reader, y)))
    distinct = target_reader.column(np.concatenate([chunk.astype(object) for chunk in chunks]))
    targets = target_reader.targets(distinct, y_public_parts or [distinct[:0]])
    return _TargetEncoding(targets, lambda y: encode_targets(target_reader, y, targets), None)


def public_labels(
    X_public: Any, y_public: Any, column: Callable[..., NDArray[Any]]
) -> list[NDArray[Any]]:
    """Return a list with the labels of the separate public rows; empty without `y_public`."""
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
