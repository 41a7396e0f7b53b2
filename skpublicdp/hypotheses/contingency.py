"""Contingency tables: label weights of rows that satisfy combinations of predicates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.typing import Codes, Floats, Integers

CONTINGENCY_BLOCK_ROWS = 1 << 14
"""Maximum number of rows whose indicators are kept in memory at a time."""

MAX_TABLE_BYTES = 1 << 30
"""Maximum size of a table."""

EXACT_FLOAT32 = 1 << 24
"""Maximum integer up to which all integers and their sums are exact in float32."""

EXACT_FLOAT64 = 1 << 53
"""Maximum integer up to which all integers and their sums are exact in float64."""

Indicators = Callable[[Floats, NDArray[np.float32]], Any]
"""Function ``indicators(X, out)`` that evaluates predicates on rows.

The function writes 1 if a row satisfies a predicate and 0 otherwise to ``out``, which has shape
(n_predicates, n)."""


def contingency_bytes(n_predicates: int, n_classes: int, order: int) -> int:
    """Return the size in bytes of the int64 array that `contingency_table` returns."""
    bytes_per_entry = 8
    return int(bytes_per_entry * n_classes * (n_predicates + 1) ** order)


def contingency_table(
    indicators: Indicators,
    n_predicates: int,
    X: Floats,
    y: Codes,
    weights: Integers,
    n_classes: int,
    order: int,
) -> Integers:
    """Return the weight of the rows by label and by combination of `order` satisfied predicates.

    Parameters
    ----------
    indicators : callable
        Function ``indicators(X, out)`` that records whether each row satisfies each predicate.
    n_predicates : int
        Number of predicates.
    X, y, weights
        Rows, their label codes and their integer weights.
    n_classes : int
        Number of labels.
    order : int
        Number of predicates that are combined.

    Returns
    -------
    ndarray of int64, shape (n_classes,) + order * (n_predicates + 1,)
        The predicate at index 0 is always true. For order 2, entry (c, i, j) is the weight of the
        rows with label c that satisfy i and j. Hence (c, i, 0) is the weight of the rows with label
        c that satisfy i, and (c, 0, 0) is the total weight of label c. For order 4 and above, an
        entry is only computed if its indices, except the last, are non-decreasing.
    """
    n_indices = n_predicates + 1
    table = np.zeros((n_classes, *[n_indices] * order), dtype=np.int64)
    max_weight = int(weights.max(initial=1))
    # the type and the number of rows of a block are chosen to make all sums exact integers
    is_exact_in_float32 = max_weight * CONTINGENCY_BLOCK_ROWS <= EXACT_FLOAT32
    dtype: Any = np.float32 if is_exact_in_float32 else np.float64
    max_exact_rows = EXACT_FLOAT64 // max_weight
    block_rows = max(1, min(CONTINGENCY_BLOCK_ROWS, len(X), max_exact_rows))
    buffer = np.empty(n_indices * block_rows, dtype=np.float32)
    for label, rows in blocks_by_label(y, n_classes, block_rows):
        satisfied = buffer[: n_indices * len(rows)].reshape(n_indices, -1)
        satisfied[0] = 1  # the predicate that is always true
        indicators(X[rows], satisfied[1:])
        row_weights: Integers | None = weights[rows]
        # with unit weights both operands are the same array, which halves the work of BLAS
        if np.all(row_weights == 1):
            row_weights = None
        _add_sums(table[label, ...], satisfied, weights=row_weights, dtype=dtype)
    if order == 3:  # entries (label, i, j, k) with i <= j and i <= k are copied to permutations
        for first in range(n_indices):
            block = table[:, first, first:, first:]
            table[:, first:, first, first:] = block
            table[:, first:, first:, first] = block
    return table


def blocks_by_label(y: Codes, n_classes: int, block_rows: int) -> Iterator[tuple[int, Codes]]:
    """Yield (label code, indices of rows with this label), at most `block_rows` rows at a time."""
    rows_by_class = np.argsort(y, kind="stable")
    class_edges = np.searchsorted(y[rows_by_class], np.arange(n_classes + 1))
    for label, (class_start, class_stop) in enumerate(itertools.pairwise(class_edges)):
        for start in range(class_start, class_stop, block_rows):
            yield label, rows_by_class[start : min(start + block_rows, class_stop)]


def _add_sums(
    table: Integers, satisfied: NDArray[np.float32], weights: Integers | None, dtype: Any
) -> None:
    """For each combination of predicates, add the weight of the rows that satisfy it, in place.

    Parameters
    ----------
    table : ndarray of int64, shape (n_predicates,) * order
        Table of one label. For order 3 and above, only entries whose first index is the smallest
        are added.
    satisfied : ndarray of float32, shape (n_predicates, n)
        1 if a row satisfies a predicate and 0 otherwise.
    weights : ndarray of int64, shape (n,), or None
        Weights of the rows, or None for unit weights.
    dtype : type
        Float type in which all sums are exact.
    """
    if table.ndim >= 3:
        # reduce the order by one: use the rows that satisfy a first predicate, for it and all later
        # predicates
        for first in range(len(satisfied)):
            rows = np.flatnonzero(satisfied[first])
            subtable: tuple[Any, ...] = (first, *[slice(first, None)] * (table.ndim - 1))
            _add_sums(
                table[subtable],
                satisfied[first:, rows],
                None if weights is None else weights[rows],
                dtype,
            )
        return
    weighted = satisfied if weights is None else satisfied * weights.astype(dtype)
    if table.ndim == 2:
        table += (weighted @ satisfied.astype(dtype, copy=False).T).astype(np.int64)
    elif table.ndim == 1:
        table += weighted.sum(axis=1, dtype=np.float64).astype(np.int64)
    else:
        table += weighted[0].sum(dtype=np.float64).astype(np.int64)


def pair_counts(
    columns: Sequence[NDArray[np.integer[Any]]],  # (n,)
    sizes: Sequence[int],
    y: Codes,
    weights: Integers,
    n_classes: int,
) -> Iterator[tuple[int, int, Integers]]:
    """For each pair of discretised columns, yield the weight of rows by label and pair of cells."""
    row_weights = None if (weights == 1).all() else weights
    pairs = itertools.combinations_with_replacement(range(len(columns)), 2)
    for first, second in pairs:
        n_first = sizes[first]
        n_second = sizes[second]
        n_entries = n_classes * n_first * n_second
        # 16-bit integers need less memory bandwidth if they can number all entries
        dtype: Any = np.uint16 if n_entries < 1 << 16 else np.int64
        labels = np.asarray(y, dtype=dtype)
        first_cells = columns[first].astype(dtype, copy=False)
        second_cells = columns[second].astype(dtype, copy=False)
        # flat index of (label, first cell, second cell)
        entry_of_row = (labels * n_first + first_cells) * n_second
        entry_of_row += second_cells
        counts = np.bincount(entry_of_row, row_weights, minlength=n_entries)
        table = counts.astype(np.int64).reshape(n_classes, n_first, n_second)
        yield first, second, table
