"""Marginal tables of integer codes: how many rows fall in each cell.

A table is a sum over rows, and a row's part depends on that row alone. So tables of two sets of
rows add up, and chunks and threads change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Columns = tuple[int, ...]

MOST_CELLS = 10_000_000
"""Of one marginal; a table of more would be nearly empty anyway."""


def check_sizes(sizes: Sequence[int]) -> Columns:
    """Return the domain sizes as a tuple of positive integers."""
    checked = tuple(int(size) for size in sizes)
    if not checked or min(checked) < 1:
        raise ValueError("sizes must name a positive number of codes for at least one column.")
    return checked


def check_codes(name: str, codes: NDArray[np.integer], sizes: Columns) -> NDArray[np.integer]:
    """Return the codes, which must be integers from 0 to below the size of their column."""
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.shape[1] != len(sizes):
        raise ValueError(
            f"{name} must have shape (rows, {len(sizes)}), one column per size; "
            f"got shape {codes.shape}."
        )
    if not np.issubdtype(codes.dtype, np.integer):
        raise ValueError(f"{name} must hold integers; got dtype {codes.dtype}.")
    if len(codes) and (codes.min() < 0 or (codes.max(axis=0) >= np.array(sizes)).any()):
        raise ValueError(f"{name} must hold codes from 0 to below the size of their column.")
    return codes


def check_workload(workload: Iterable[Sequence[int]], sizes: Columns) -> tuple[Columns, ...]:
    """Return the workload as distinct tuples of increasing columns."""
    checked = []
    for columns in workload:
        marginal = tuple(sorted(int(column) for column in columns))
        distinct = len(set(marginal)) == len(marginal) > 0
        if not distinct or marginal[0] < 0 or marginal[-1] >= len(sizes):
            raise ValueError(
                f"A marginal must list distinct columns from 0 to {len(sizes) - 1}; "
                f"got {tuple(columns)}."
            )
        n_cells = math.prod(sizes[column] for column in marginal)
        if n_cells > MOST_CELLS:
            raise ValueError(
                f"The marginal {marginal} has {n_cells} cells, and at most {MOST_CELLS} are "
                "allowed; use fewer columns or coarser bins."
            )
        checked.append(marginal)
    if not checked:
        raise ValueError("The workload must hold at least one marginal.")
    return tuple(dict.fromkeys(checked))


def cells(codes: NDArray[np.integer], columns: Columns, sizes: Columns) -> Integers:
    """Return the cell of each row in the marginal of these columns, in C order."""
    cell = np.zeros(len(codes), dtype=np.int64)
    for column in columns:
        cell *= sizes[column]
        cell += codes[:, column]
    return cell


def marginal_tables(
    codes: NDArray[np.integer], workload: Sequence[Columns], sizes: Columns
) -> Integers:
    """Count the rows in each cell of each marginal.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        Integer codes.
    workload : sequence of tuples of int
        The columns of each marginal.
    sizes : tuple of int
        How many codes each column has.

    Returns
    -------
    ndarray of int64
        One flat table after the other. Those of two sets of rows add up to those of their union.

    Examples
    --------
    >>> import numpy as np
    >>> marginal_tables(np.array([[0, 1], [1, 1], [0, 1]]), [(0,), (0, 1)], (2, 2))
    array([2, 1, 0, 2, 0, 1])
    """
    codes = np.asfortranarray(codes)  # columns are read one by one
    tables = [
        np.bincount(
            cells(codes, columns, sizes), minlength=math.prod(sizes[column] for column in columns)
        )
        for columns in workload
    ]
    return np.concatenate(tables).astype(np.int64, copy=False)
