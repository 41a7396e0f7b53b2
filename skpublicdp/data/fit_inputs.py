"""Read the inputs of `fit`: split public and private rows, build the schema, encode y."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skpublicdp.data.augment import augment_public, not_augmented
from skpublicdp.data.bounds import limits_of
from skpublicdp.data.description import assumed_of
from skpublicdp.data.labels import (
    TargetReader,
    Targets,
    check_length,
    distinct_targets,
    encode_targets,
)
from skpublicdp.data.reference import reference_of, reference_rows, warn_no_public
from skpublicdp.data.roles import cap_rows_per_group, check_index, check_mask
from skpublicdp.data.schema import Coder, Schema, build_schema
from skpublicdp.data.streaming import AcceptsDictionaries, Chunk, RowSource, as_rows, is_streamed
from skpublicdp.data.tables import ColumnType, Table
from skpublicdp.data.validation import SHARED, check_columns, read_public, read_table, refuse_text
from skpublicdp.typing import Floats, R


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class Dataset:
    """Private rows, read in chunks, and public ones.

    Attributes
    ----------
    schema : Schema
        The columns, from public rows.
    X_public : ndarray of float64, shape (m, n_features)
        Encoded public rows: those that the mask marks, then the separate ones, filled up where they
        say too little; or a reference.
    is_synthetic : ndarray of bool, shape (m,)
        Which public rows contain a value that no given public row has.
    bounded : frozenset of int
        Positions of the columns of numbers that have bounds.
    targets : Targets or None
        What is to be learned; its private part only if rows are in memory.
    n_private, n_public : int
        Number of private rows that count, and of true public rows.
    assumptions : tuple of str
        What is taken for granted of the columns, for the receipt.
    """

    schema: Schema
    X_public: Floats
    is_synthetic: NDArray[np.bool_]
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
        """Encoded public rows that are learned from."""
        which = self.targets.has_target
        labelled: Floats = self._raw_public[: len(which)][which]
        return labelled

    def map(self, f: Callable[[Floats, NDArray[Any]], R], n_jobs: int | None = None) -> Iterator[R]:
        """Call a function with the encoded rows and the targets of each chunk, in order."""
        work = self._on_chunk(f, self._encoded)
        return self._source.map(work, columns=self._positions, n_jobs=n_jobs)

    def codes(
        self, coders: Sequence[Coder], dtype: DTypeLike, n_jobs: int | None = None
    ) -> Iterator[tuple[list[NDArray[Any]], NDArray[Any]]]:
        """Yield what functions of single values make of each column, and the targets, in order."""
        read = partial(self.schema.codes, coders=coders, types=self._types)
        work = self._on_chunk(lambda codes, y: (codes, y.astype(dtype)), read)
        return self._source.map(work, columns=self._positions, n_jobs=n_jobs)

    def fold(self, f: Callable[[Floats, NDArray[Any]], R], n_jobs: int | None = None) -> R:
        """Add up what a function makes of the encoded rows and the targets of each chunk."""
        work = self._on_chunk(f, self._encoded)
        total: R = self._source.fold(work, columns=self._positions, n_jobs=n_jobs)
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
        parts = list(self.map(lambda X, y: (X, y)))
        return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])

    @property
    def _encoded(self) -> Callable[[Table], Floats]:
        return partial(self.schema.encode, clamp=self._clamp, types=self._types)

    def _on_chunk(
        self, f: Callable[[Any, NDArray[Any]], R], read: Callable[[Table], Any]
    ) -> Callable[[Chunk], R]:
        encode = self._encode

        def call(chunk: Chunk) -> R:
            table, y = Table(chunk.X), chunk.y
            if y is None:
                y = np.zeros(table.shape[0], dtype=np.intp)
            elif encode is not None:
                y = encode(y)
            return f(read(table), y)

        return AcceptsDictionaries(call)


@dataclass(frozen=True, eq=False, repr=False)
class PrivateColumnCounts:
    """Counts of the private values of one numeric column."""

    column: Dataset

    @property
    def n(self) -> int:
        """Number of private values."""
        return self.column.n_private

    def at_or_below(self, ends: Floats) -> NDArray[np.int64]:
        """Return the number of values at or below each end."""

        def count(X: Floats, _: NDArray[Any]) -> NDArray[np.int64]:
            return np.searchsorted(np.sort(X[:, 0]), ends, side="right").astype(np.int64)

        return self.column.fold(count)


def read_fit_inputs(
    estimator: Any,
    X: Any,
    y: Any = None,
    kind: TargetReader | None = None,
    *,
    X_public: Any = None,
    y_public: Any = None,
    is_public: Any = None,
    groups: Any = None,
    numeric: bool = False,
    nullable: bool = False,
    clamp: bool = False,
    stand_in: bool = False,
    least: int | None = 2,
) -> Dataset:
    """Validate the inputs of `fit`, split public and private rows, and build the schema.

    Parameters
    ----------
    estimator : estimator
        Whose `fit` it is.
    X, y, X_public, y_public, is_public, groups
        What it was given.
    kind : Kind, optional
        How `y` is read; without it there is none.
    numeric : bool
        Whether text and categories are refused.
    nullable : bool
        Whether numbers may be missing or infinite.
    clamp : bool
        Whether numbers beyond the bounds are moved to the nearer one.
    stand_in : bool
        Whether a reference takes the place of public rows where there are none.
    least : int or None
        Fewer public rows than this are too few to describe a column; ``None`` leaves them as they
        are.

    Returns
    -------
    Dataset
        The rows.
    """
    if kind is not None and y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    if X_public is not None and X_public is X:
        raise ValueError(SHARED)
    if is_streamed(X):
        if is_public is not None:
            raise ValueError(
                "is_public marks rows of a table in memory; pass the public rows apart from "
                "streamed ones, as X_public."
            )
        streaming = as_rows(X, y)
        source: RowSource | None = streaming
        empty = Table(streaming.empty())
        table, n = check_columns(estimator, empty, reset=True, numeric=numeric), streaming.n_rows
        if not n:
            raise ValueError("X must hold at least one private row; it is empty.")
    else:
        source, table = None, read_table(estimator, X, reset=True, numeric=numeric)
        check_index(X, is_public=is_public, groups=groups)
        n = table.shape[0]
    mask = check_mask(is_public, n)
    if mask.all():
        raise ValueError("X must hold at least one private row; is_public marks every row.")
    public = [table.take(mask)] if mask.any() else []
    if numeric and public:
        refuse_text(estimator, public[0])
    streamed = None if source is None else n
    separate = read_public(estimator, table, X_public, numeric=numeric, n_rows=streamed)
    if separate is not None:
        public.append(separate)
    bounds = getattr(estimator, "bounds", None)
    schema = build_schema(table, public, bounds=bounds, nullable=nullable, numeric=numeric)
    if source is not None and is_streamed(groups):
        groups = _column_of(source, groups)
    # a mask of very many rows is large itself
    counted = cap_rows_per_group(
        estimator, groups, ~mask[: 0 if streamed and groups is None else None]
    )
    n_private, kept = (int(counted.sum()), counted) if len(counted) == n else (n, None)
    if source is not None and kept is not None:
        source = source.with_mask(kept)
    targets, encode = None, None
    if kind is not None:
        targets, encode, y = _targets(kind, source, y, kept, mask, X_public, y_public)
    if source is None:
        source = as_rows(table.native, y if kind is not None else None)
        if not nullable:  # before anything is spent
            source.fold(lambda chunk: schema.check(Table(chunk.X)))
        source = source if kept is None or kept.all() else source.with_mask(kept)
    parts = [schema.encode(part, clamp=clamp) for part in public]
    given = np.concatenate([np.empty((0, table.shape[1])), *parts])
    bounded = frozenset(limits_of(bounds, schema.names, table.types))
    if public and least is not None:
        which = np.zeros(len(given), dtype=bool)
        if targets is not None:
            which[: len(targets.has_target)] = targets.has_target
        sample = augment_public(schema, given, [table, *public], bounded, which, least)
    else:
        sample = not_augmented(_reference(schema, bounded) if stand_in and not public else given)
    return Dataset(
        schema=schema,
        X_public=sample.rows,
        is_synthetic=sample.is_synthetic,
        bounded=bounded,
        n_private=n_private,
        n_public=len(given),
        assumptions=_assumptions(schema, table, X_public),
        _targets=targets,
        _raw_public=given,
        _source=source,
        _positions=tuple(range(table.shape[1])),
        _encode=encode,
        _clamp=clamp,
        _types=_types_of_all(table, streamed is not None),
    )


def _reference(schema: Schema, bounded: frozenset[int]) -> Floats:
    """Return rows that stand in for public ones, and warn that they do."""
    where = reference_of(schema, bounded, "columns")
    warn_no_public(f"the cells come from a data-independent reference over {where}")
    return reference_rows(schema, bounded)


def _column_of(rows: RowSource, column: Any) -> NDArray[Any]:
    """Return a column that is streamed with rows, in memory."""
    rows.check_ordered("Groups")
    return np.concatenate(list(as_rows(rows, column).map_labels(np.asarray)))


def _types_of_all(table: Table, streamed: bool) -> tuple[ColumnType, ...]:
    """Return the types that errors go by: a missing value may change that of a streamed chunk."""
    if not streamed:
        return table.types
    return tuple(replace(type_, nullable=True) for type_ in table.types)


def _assumptions(schema: Schema, table: Table, X_public: Any) -> tuple[str, ...]:
    described = assumed_of(X_public)
    declared = [
        column.name
        for column, type_ in zip(schema.columns, table.types, strict=True)
        if column.categorical and type_.categories
    ]
    if not declared:
        return described
    return (*described, f"the categories that the types of {', '.join(declared)} list may be known")


def _targets(
    kind: TargetReader,
    source: RowSource | None,
    y: Any,
    kept: NDArray[np.bool_] | None,
    mask: NDArray[np.bool_],
    X_public: Any,
    y_public: Any,
) -> tuple[Targets, Callable[[Any], NDArray[Any]] | None, NDArray[Any] | None]:
    """Return what is to be learned, how targets of a chunk are read, or those of all rows."""
    given = []
    if source is None:
        y = kind.column(y)
        check_length(y, len(mask))
        given.append(y[mask])
    given += public_labels(X_public, y_public, kind.column)
    if source is None:
        assert kept is not None
        targets = kind.targets(y[kept], given)
        whole = np.zeros(len(y), dtype=targets.private.dtype)
        whole[kept] = targets.private
        return targets, None, whole
    parts = list(source.map_labels(lambda part: distinct_targets(kind, part)))
    seen = kind.column(np.concatenate([part.astype(object) for part in parts]))
    targets = kind.targets(seen, given or [seen[:0]])
    return targets, lambda part: encode_targets(kind, part, targets), None


def public_labels(
    X_public: Any, y_public: Any, column: Callable[..., NDArray[Any]]
) -> list[NDArray[Any]]:
    """Return the labels of separate public rows, if there are any."""
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
