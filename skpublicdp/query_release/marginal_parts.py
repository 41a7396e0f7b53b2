"""How a row parts its move over the cells it lies in: all tables together are one query.

Gaussian noise pays for the Euclidean length of what a row adds to all tables. So a row adds less to
cells that public rows or other tables tell anyway, and more to its other cells. What a cell is
worth is public or released; the length is bounded in docs/proofs/marginals.md.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from numpy.typing import NDArray

from skpublicdp.query_release.marginal_tables import (
    CHUNK_ROWS,
    Columns,
    Incidence,
    Integers,
    cells,
)

Floats = NDArray[np.float64]

UNIT = 256
"""What a row adds to a cell is a whole number of 256ths, because noise is exact on integers."""

MOST_WORTH = 1 << 20
"""Worths are whole numbers, so that no rounding can lengthen what a row adds."""

FAINT = 0.5
"""Cells of so many times the fraction up to which the prior is known better than by the noise are
worth half: on ADULT, a quarter leaves larger maximal errors, and one larger mean errors."""

LEAST_WORTH = 0.05
"""Public rows may be wrong about what is light."""

SLICES = 8
"""Threads share the rows of a chunk in so many parts."""


def worth_of_cells(
    placed: Incidence, workload: Sequence[Columns], prior: Floats, known: float
) -> Integers:
    """Return what it is worth to measure each cell that has support.

    Parameters
    ----------
    placed : Incidence
        The support rows in the cells.
    workload : sequence of tuples of int
        The columns of each marginal.
    prior : ndarray of shape (n_support,)
        The weights of the support rows.
    known : float
        Variance of the noise if all cells are worth the same, as a fraction, over that of a row
        that the prior was drawn from, or less if the public rows may be wrong. The prior is better
        than the noise up to about this fraction.

    Returns
    -------
    ndarray of int64, shape (n_cells,)
        From 1 to `MOST_WORTH`. With fraction q it goes by q √(1 - q) / (q + known / 2): the prior
        tells a light cell better than noisy answers do, and the other cells tell one that holds
        nearly all rows. If k - 1 other marginals have all columns of a cell's but one, it is
        divided by √k: they tell most of it.
    """
    fractions = np.clip(placed.matrix @ prior, 0, 1)
    worth = fractions * np.sqrt(1 - fractions) / (fractions + FAINT * known)
    alike = np.repeat(_alike(workload), [len(reached) for reached in placed.reached])
    worth = np.maximum(worth, LEAST_WORTH) / np.sqrt(alike)
    whole: Integers = np.maximum(np.rint(MOST_WORTH * worth), 1).astype(np.int64)
    return whole


def parted_incidence(placed: Incidence, worth: Integers) -> sp.csr_matrix:
    """Return what each support row adds to each cell, in place of the ones of an incidence."""
    matrix = placed.matrix
    total = np.rint(matrix.T @ worth).astype(np.int64)
    of_entry = np.repeat(worth, np.diff(matrix.indptr))
    parts = row_parts(of_entry, total[matrix.indices], len(placed.reached)) / UNIT
    return sp.csr_matrix((parts, matrix.indices, matrix.indptr), shape=matrix.shape)


def parted_tables(
    codes: NDArray[np.integer],
    workload: Sequence[Columns],
    sizes: Columns,
    placed: Incidence,
    worth: Integers,
    n_jobs: int | None = None,
) -> list[Integers]:
    """Add up what rows add to each cell that has support, in units of 1 / 256.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        Integer codes.
    workload : sequence of tuples of int
        The columns of each marginal.
    sizes : tuple of int
        How many codes each column has.
    placed : Incidence
        Which cells have support.
    worth : ndarray of int64, shape (n_cells,)
        What each of these cells is worth, one marginal after the other.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    list of ndarray of int64
        For each marginal a sum for each cell that has support. Sums of two sets of rows add up to
        those of their union. The squares of what one row adds to all of them sum up to at most the
        number of marginals, times 256².
    """
    ends = np.cumsum([len(reached) for reached in placed.reached])[:-1]
    worths = []
    for columns, reached, values in zip(
        workload, placed.reached, np.split(worth, ends), strict=True
    ):
        every = np.zeros(math.prod(sizes[column] for column in columns), dtype=np.int32)
        every[reached] = values  # no row adds anything to the other cells
        worths.append(every)
    tables = [np.zeros(len(every), dtype=np.int64) for every in worths]

    def total_of(rows: NDArray[np.integer]) -> Integers:
        total = np.zeros(len(rows), dtype=np.int64)
        for columns, every in zip(workload, worths, strict=True):
            total += every[cells(rows, columns, sizes)]
        return total

    def add(index: int, chunk: NDArray[np.integer], total: Integers) -> None:
        cell = cells(chunk, workload[index], sizes)
        parts = row_parts(worths[index][cell], total, len(workload))
        added = np.bincount(cell, parts, minlength=len(tables[index]))
        tables[index] += added.astype(np.int64)  # exact: whole numbers far below 2^53

    with Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem") as parallel:
        for start in range(0, len(codes), CHUNK_ROWS):
            # columns are read one by one
            chunk = np.asfortranarray(codes[start : start + CHUNK_ROWS])
            slices = np.array_split(chunk, SLICES)
            total = np.concatenate(parallel(delayed(total_of)(rows) for rows in slices))
            parallel(delayed(add)(index, chunk, total) for index in range(len(workload)))
    return [table[reached] for table, reached in zip(tables, placed.reached, strict=True)]


def row_parts(worth: NDArray[np.integer], total: Integers, n_marginals: int) -> Floats:
    """Return the whole units that rows add to a cell each.

    Parameters
    ----------
    worth : ndarray of int, shape (n_rows,)
        What the cell of each row is worth; from 0 to `MOST_WORTH`.
    total : ndarray of int64, shape (n_rows,)
        What all cells of each row are worth.
    n_marginals : int
        How many cells a row has.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        The root of the number of marginals times worth / total, floored to units.
    """
    squares = n_marginals * UNIT**2 * worth.astype(np.int64) // np.maximum(total, 1)
    parts: Floats = np.floor(np.sqrt(squares))  # exact: the root is rounded to nearest below 2^52
    return parts


def _alike(workload: Sequence[Columns]) -> Integers:
    """Count for each marginal itself, and the others of its size that share all columns but one."""
    lower = [list(itertools.combinations(columns, len(columns) - 1)) for columns in workload]
    shared = Counter(itertools.chain.from_iterable(lower))
    return np.array([1 + sum(shared[each] - 1 for each in mine) for mine in lower])
