"""Joint tables: how many rows of each label meet each predicate, each pair or each triple."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.typing import Codes, Floats, Integers

CONTINGENCY_BLOCK_ROWS = 1 << 14
"""Rows whose indicators are held at a time."""

MAX_TABLE_BYTES = 1 << 30
"""A larger table is refused."""

Indicators = Callable[[Floats, NDArray[np.float32]], Any]
"""Writes 1 where a row meets a predicate and 0 elsewhere, shape (n_predicates, n)."""


def contingency_bytes(n_predicates: int, n_classes: int, order: int) -> int:
    """Count the bytes of a joint table."""
    return int(8 * n_classes * (n_predicates + 1) ** order)


def contingency_table(
    indicators: Indicators,
    n_predicates: int,
    X: Floats,
    y: Codes,
    weights: Integers,
    n_classes: int,
    order: int,
) -> Integers:
    """Weigh the rows of each label that meet as many predicates at a time as `order` says.

    Parameters
    ----------
    indicators : callable
        ``indicators(X, out)`` writes which rows meet which predicates.
    n_predicates : int
        How many there are.
    X, y, weights
        Rows, codes of their labels and weights, as in `Cover.tabulate`.
    n_classes : int
        Number of labels.
    order : int
        How many predicates are met at a time.

    Returns
    -------
    ndarray of int64, shape (n_classes,) + order * (n_predicates + 1,)
        With an always-true predicate put first, so that for order 2 entry (c, i, j) weighs the
        rows of label c that meet i and j, (c, i, 0) those that meet i and (c, 0, 0) all. From order
        4 on only entries are filled whose indices do not decrease up to the last but one.
    """
    table = np.zeros((n_classes, *[n_predicates + 1] * order), dtype=np.int64)
    heaviest = int(weights.max(initial=1))
    # every sum of a block stays an exact integer in the type it is added in
    dtype: Any = np.float32 if heaviest * CONTINGENCY_BLOCK_ROWS <= 1 << 24 else np.float64
    block = max(1, min(CONTINGENCY_BLOCK_ROWS, len(X), (1 << 53) // heaviest))
    met = np.empty((n_predicates + 1) * block, dtype=np.float32)
    by_class = np.argsort(y, kind="stable")
    edges = np.searchsorted(y[by_class], np.arange(n_classes + 1))
    for code in range(n_classes):
        for start in range(edges[code], edges[code + 1], block):
            chosen = by_class[start : min(start + block, edges[code + 1])]
            side = met[: (n_predicates + 1) * len(chosen)].reshape(n_predicates + 1, -1)
            side[0] = 1
            indicators(X[chosen], side[1:])
            weight = weights[chosen]
            # with unit weights both operands are one array, and BLAS does half the work
            _add_sums(table[code, ...], side, None if (weight == 1).all() else weight, dtype)
    return _symmetric(table) if order == 3 else table


def _add_sums(
    table: Integers, side: NDArray[np.float32], weight: Integers | None, dtype: Any
) -> None:
    """Add the weight of the rows that are 1 in as many rows of `side` as the table has axes.

    From triples on only the entries whose first index is the least are filled.
    """
    if table.ndim >= 3:
        for least in range(len(side)):
            inside = np.flatnonzero(side[least])
            part = side[least:, inside]
            later: tuple[Any, ...] = (least, *[slice(least, None)] * (table.ndim - 1))
            _add_sums(
                table[later],
                part,
                None if weight is None else weight[inside],
                dtype,
            )
        return
    left = side if weight is None else side * weight.astype(dtype)
    if table.ndim == 2:
        table += (left @ side.astype(dtype, copy=False).T).astype(np.int64)
    elif table.ndim == 1:
        table += left.sum(axis=1, dtype=np.float64).astype(np.int64)
    else:
        table += left[0].sum(dtype=np.float64).astype(np.int64)


def _symmetric(table: Integers) -> Integers:
    """Copy the entries (c, i, j, k) with least i to all orders of i, j, k."""
    for least in range(table.shape[1]):
        block = table[:, least, least:, least:]
        table[:, least:, least, least:] = block
        table[:, least:, least:, least] = block
    return table


def pair_counts(
    columns: Sequence[NDArray[np.integer[Any]]],
    sizes: Sequence[int],
    y: Codes,
    weights: Integers,
    n_classes: int,
) -> Iterator[tuple[int, int, Integers]]:
    """Weigh the rows of each label in each pair of cells of two columns.

    Parameters
    ----------
    columns : sequence of ndarray of int, shape (n,)
        The cell of each row.
    sizes : sequence of int
        How many cells each column has.
    y, weights, n_classes
        As in `contingency_table`.

    Yields
    ------
    first, second : int
        Which columns: all pairs, and before these each column by itself, as a pair.
    ndarray of int64, shape (n_classes, cells of first, cells of second)
        The weights; for a column by itself they lie on the diagonal.
    """
    heavy = None if (weights == 1).all() else weights
    for first, second in combinations_with_replacement(range(len(columns)), 2):
        shape = (n_classes, sizes[first], sizes[second])
        # narrow numbers move faster
        dtype: type[np.integer[Any]] = np.uint16 if math.prod(shape) < 1 << 16 else np.int64
        cell = np.asarray(y, dtype=dtype) * sizes[first]
        cell = (cell + columns[first].astype(dtype, copy=False)) * sizes[second]
        cell += columns[second].astype(dtype, copy=False)
        found = np.bincount(cell, heavy, minlength=math.prod(shape))
        yield first, second, found.astype(np.int64).reshape(shape)
