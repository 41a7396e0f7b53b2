"""Dataset of a fit, with private rows that are read in chunks and public rows in memory."""

from __future__ import annotations

import math
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skpublicdp.data.labels import Targets
from skpublicdp.data.one_hot import ColumnRun
from skpublicdp.data.schema import Coder, Schema
from skpublicdp.data.streaming import Chunk, RowSource
from skpublicdp.data.tables import ColumnType, Table
from skpublicdp.typing import Floats, Mask, R

IN_MEMORY = 2**28
"""Maximum size, in bytes, of an array in ordinary memory."""


def scratch_array(
    shape: tuple[int, ...], dtype: DTypeLike, *, limit: int = IN_MEMORY
) -> NDArray[Any]:
    """Return a new writable array of zeros for codes of private rows.

    A large array is mapped from an unnamed temporary file that only its owner can read. The system
    deletes this file when the array is deleted or when the process ends, even if it crashes.

    Examples
    --------
    >>> codes = scratch_array((4, 2), np.uint8)
    >>> codes[:2] = 7
    >>> codes.sum()
    np.uint64(28)
    """
    dtype = np.dtype(dtype)
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes <= limit:
        return np.zeros(shape, dtype)
    with tempfile.TemporaryFile(prefix="skpublicdp-") as file:
        if not _reserve(file.fileno(), n_bytes):
            raise OSError(
                f"The encoded rows require {n_bytes / 1000000000.0:.2g} GB of disk space, but less "
                f"is free in {tempfile.gettempdir()}. Set the environment variable TMPDIR to a "
                "directory with more space."
            )
        return np.frombuffer(mmap.mmap(file.fileno(), n_bytes), dtype).reshape(shape)


def _reserve(descriptor: int, size: int) -> bool:
    """Allocate disk space for a file, and indicate whether the allocation succeeded.

    Without this allocation, the file would be sparse, and a full disk would later kill the process.
    """
    if shutil.disk_usage(tempfile.gettempdir()).free < size:
        return False
    try:
        os.truncate(descriptor, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
    except OSError:
        return False
    return True


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class Dataset:
    """Rows of a fit: private rows, which are read in chunks, and public rows, which are in memory.

    Attributes
    ----------
    targets : Targets or None
        Encoded targets. Private targets are only included if the rows are in memory.
    """

    schema: Schema
    # (m, n_features): encoded public rows: first the rows marked by the mask, then the rows of
    # `X_public`. Columns with too few public values are augmented. If there are no public rows, a
    # reference sample is used.
    X_public: Floats
    # (m,): mask of the rows of `X_public` with a value that occurs in no actual public row
    is_synthetic: Mask
    bounded: frozenset[int]  # positions of the numeric columns that have bounds
    # number of private rows after applying `max_rows_per_group`, and number of actual public rows
    n_private: int
    n_public: int
    assumptions: tuple[str, ...]  # assumptions about the columns, to be listed in the receipt
    _targets: Targets | None
    _raw_public: Floats
    _source: RowSource
    _positions: tuple[int, ...]
    _encode: Callable[[Any], NDArray[Any]] | None
    _clamp: bool
    _types: tuple[ColumnType, ...]
    # runs of adjacent 0/1 columns that are one-hot in the public rows, if the fit searched for such
    # columns
    one_hot_runs: tuple[ColumnRun, ...] = ()
    # positions of the columns of `X_public` with synthetic or repeated values
    spread_columns: frozenset[int] = frozenset()

    @property
    def targets(self) -> Targets:
        """Encoded targets. This property is available only for estimators that read `y`."""
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
        return self._raw_public[: len(has_target)][has_target]

    def map(self, f: Callable[[Floats, NDArray[Any]], R], n_jobs: int | None = None) -> Iterator[R]:
        """Yield f(X, y) for the encoded private rows and targets of each chunk, in order."""
        chunk_function = self._on_chunk(f, self._encoded)
        return self._source.map(
            chunk_function, columns=self._positions, n_jobs=n_jobs, keep_dictionaries=True
        )

    def codes(
        self, coders: Sequence[Coder], dtype: DTypeLike, n_jobs: int | None = None
    ) -> Iterator[tuple[list[NDArray[Any]], NDArray[Any]]]:
        """Yield (list of the codes of each column, targets) for each chunk, in order."""
        encode_columns = partial(self.schema.codes, coders=coders, types=self._types)
        chunk_function = self._on_chunk(lambda codes, y: (codes, y.astype(dtype)), encode_columns)
        return self._source.map(
            chunk_function, columns=self._positions, n_jobs=n_jobs, keep_dictionaries=True
        )

    def fold(self, f: Callable[[Floats, NDArray[Any]], R], n_jobs: int | None = None) -> R:
        """Return the sum of f(X, y) over chunks, an integer array or a tuple of integer arrays."""
        chunk_function = self._on_chunk(f, self._encoded)
        return self._source.fold(
            chunk_function, columns=self._positions, n_jobs=n_jobs, keep_dictionaries=True
        )

    def check(self, n_jobs: int | None = None) -> None:
        """If some private row is invalid, raise the error before any budget is spent.

        For this purpose, all rows are read and encoded once.
        """
        no_table = np.zeros(0, dtype=np.int64)  # only encoding errors matter
        self.fold(lambda X, y: no_table, n_jobs)

    def column(self, position: int) -> Dataset:
        """Return the data set with only the column at a given position, so no others are read."""
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
        """Return the encoded rows X and targets y of all private rows as arrays in memory."""
        chunks = list(self.map(lambda X, y: (X, y)))
        return np.concatenate([X for X, _ in chunks]), np.concatenate([y for _, y in chunks])

    @property
    def _encoded(self) -> Callable[[Table], Floats]:
        """Function that maps a `Table` of raw rows to encoded rows."""
        return partial(self.schema.encode, clamp=self._clamp, types=self._types)

    def _on_chunk(
        self, f: Callable[[Any, NDArray[Any]], R], encode_table: Callable[[Table], Any]
    ) -> Callable[[Chunk], R]:
        """Return a function of chunks that calls `f` with the encoded rows and targets."""
        encode_target = self._encode

        def call(chunk: Chunk) -> R:
            """Encode the rows and targets of a chunk, and call the function."""
            table, y = Table(chunk.X), chunk.y
            if y is None:
                y = np.zeros(table.shape[0], dtype=np.intp)
            elif encode_target is not None:
                y = encode_target(y)
            return f(encode_table(table), y)

        return call


@dataclass(frozen=True, eq=False, repr=False)
class PrivateColumnCounts:
    """Exact counts of private values at or below given numbers, for one numeric column.

    The counts are not protected, so a mechanism must add noise to them.
    """

    column: Dataset

    @property
    def n(self) -> int:
        """Number of private values."""
        return self.column.n_private

    def cumulative_counts(self, ends: Floats) -> NDArray[np.int64]:
        """Return the number of private values at or below each end, shape (n_ends,)."""

        def count(X: Floats, _: NDArray[Any]) -> NDArray[np.int64]:
            """Return the counts of a chunk of rows."""
            return np.searchsorted(np.sort(X[:, 0]), ends, side="right").astype(np.int64)

        return self.column.fold(count)
