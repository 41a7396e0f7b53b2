"""Tables to publish: whole counts that add up, grades of reliability, and suppressed cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse.linalg import lsqr

from skpublicdp.query_release.answers import FittedRelease
from skpublicdp.query_release.marginals.zeros import possible_cells
from skpublicdp.query_release.ratios import ratios
from skpublicdp.typing import Floats, Integers, Mask

DEVIATION_COST = 3.0
"""Cost of moving a count by one beyond its neighbouring whole numbers, relative to the cost of
rounding it. It exceeds the cost of rounding two counts in the wrong direction."""

GRADES = "ABCDE"
"""Grades of reliability, from the best to the worst."""

DEFAULT_LIMITS = (0.1, 0.2, 0.3, 0.5)
"""Largest half-width of an interval, relative to the estimate, for the grades A to D."""

DERIVABLE = 1e-6
"""A hidden cell is derivable if it moves by less than this while all sums stay the same."""


def whole_counts(released: FittedRelease, columns: tuple[int, ...], n_rows: int) -> Integers:
    """Return whole counts of a table over increasing columns, in the order of its codes.

    One column, and a table with structural zeros, is rounded by largest remainders. Two columns are
    rounded such that the margins are the rounded tables of each column. A wider table keeps its
    margin over all columns but the last, and the table of the last column.
    """
    cells, _ = released.queries.table_cells(columns)
    table_codes = cells[:, list(columns)]
    codes = tuple(table_codes.T)
    shape = tuple(column_codes.max() + 1 for column_codes in codes)
    counts = np.zeros(shape)
    fractions = released.answers.answer(cells)
    counts[codes] = fractions * n_rows
    release = getattr(released.answers, "release", None)
    zeros = getattr(release, "zeros", {})
    possible = possible_cells(zeros, columns, shape)
    if len(columns) == 1 or possible is not None:
        return largest_remainders(counts, n_rows)
    rows = whole_counts(released, columns[:-1], n_rows).ravel()
    last = whole_counts(released, columns[-1:], n_rows)
    matrix = counts.reshape(len(rows), len(last))
    rounded = controlled_rounding(matrix, rows, last)
    return rounded.reshape(shape)


def largest_remainders(counts: Floats, total: int) -> Integers:
    """Return whole numbers next to the counts with a given sum (the method of Hamilton)."""
    counts = counts * (total / counts.sum())
    whole = np.floor(counts).astype(np.int64)
    order = np.argsort((whole - counts).ravel(), kind="stable")  # largest remainder first
    whole.ravel()[order[: total - int(whole.sum())]] += 1
    return whole


def controlled_rounding(counts: Floats, rows: Integers, columns: Integers) -> Integers:
    """Return a table of whole numbers near the counts that has the given margins (Cox 1987).

    Each count becomes one of its two neighbouring whole numbers, if that is possible with these
    margins. Counts of 0 stay 0. The linear program has whole solutions, since it is a network flow.

    References
    ----------
    L. H. Cox (1987). A constructive procedure for unbiased controlled rounding. JASA 82.

    Examples
    --------
    >>> controlled_rounding(np.array([[0.6, 1.4], [1.5, 0.5]]), np.array([2, 2]), np.array([2, 2]))
    array([[1, 1],
           [1, 1]])
    """
    sums = _margin_sums(*counts.shape)
    floors = np.floor(counts).ravel()
    fractions = counts.ravel() - floors
    margins = np.concatenate([rows, columns])
    missing = margins - sums @ floors
    for is_free in (counts > 0, np.ones(counts.shape, dtype=bool)):
        free = np.flatnonzero(is_free)
        n = len(free)
        # steps: up to the next whole number, further up, and down
        free_sums = sums[:, free]
        constraints = sp.hstack([free_sums, free_sums, -free_sums])
        deviation_cost = np.full(2 * n, DEVIATION_COST)
        cost = np.concatenate([1 - 2 * fractions[free], deviation_cost])
        unlimited = np.full(n, np.inf)
        high = np.concatenate([np.ones(n), unlimited, floors[free]])
        low = np.zeros(3 * n)
        bounds = np.column_stack([low, high])
        solution = linprog(cost, A_eq=constraints, b_eq=missing, bounds=bounds, method="highs-ds")
        if solution.success:
            steps = np.rint(solution.x).astype(np.int64)
            up, further, down = np.split(steps, 3)
            rounded = floors.astype(np.int64)
            rounded[free] += up + further - down
            return rounded.reshape(counts.shape)
    raise AssertionError("margins with equal sums always have a table")


def _margin_sums(n_rows: int, n_columns: int) -> Any:
    """Return the sparse matrix that sums the cells of a table over each row and each column."""
    row_sums = sp.kron(sp.eye(n_rows), np.ones((1, n_columns)))
    column_sums = sp.kron(np.ones((1, n_rows)), sp.eye(n_columns))
    return sp.vstack([row_sums, column_sums], format="csc")


def check_limits(quality: Any) -> tuple[float, ...] | None:
    """Return the limits of the grades A to D, or None if no grades are requested."""
    if quality is False or quality is None:
        return None
    if quality is True:
        return DEFAULT_LIMITS
    limits = tuple(map(float, quality)) if np.iterable(quality) else ()
    if len(limits) != len(GRADES) - 1 or list(limits) != sorted(set(limits)) or limits[0] <= 0:
        raise ValueError(
            "quality must be a bool, or the largest relative half-widths of the grades A, B, C and "
            f"D: four positive, increasing numbers; got {quality!r}."
        )
    return limits


def check_suppress(suppress: Any) -> str | None:
    """Return the best grade that is hidden, or None."""
    if suppress is None:
        return None
    if suppress not in list(GRADES[1:]):
        raise ValueError(
            f"suppress must be a grade from B to E, from which on cells are hidden, or None; got "
            f"{suppress!r}."
        )
    return str(suppress)


def grades(estimates: Floats, low: Floats, high: Floats, limits: Sequence[float]) -> NDArray[Any]:
    """Return a grade for each estimate: half the length of its interval, relative to it."""
    relative_widths = ratios((high - low) / 2, estimates, np.inf)
    return np.array(list(GRADES))[np.searchsorted(limits, relative_widths)]


def complete_suppression(hidden: Mask, sizes: Floats, known: Mask | None = None) -> Mask:
    """Return the cells to hide so that no hidden cell can be derived from sums over any column.

    Cells are added to lines with a single hidden cell, and next to cells that the other sums
    determine, starting with the smallest cells. The known cells, such as impossible ones, are never
    hidden. If they leave no cell to add, a hidden cell can be derived.
    """
    shape = hidden.shape
    known = np.squeeze(np.zeros(shape, dtype=bool) if known is None else known)
    hidden = np.squeeze(hidden).copy()
    sizes = np.squeeze(sizes)
    while (derivable := np.argwhere(_derivable(hidden))).size:
        # lines through derivable cells; those with a single hidden cell come first
        alone = np.zeros(hidden.shape, dtype=bool)
        crossing = np.zeros(hidden.shape, dtype=bool)
        for cell in derivable.tolist():
            for axis in range(hidden.ndim):
                line: tuple[Any, ...] = (*cell[:axis], slice(None), *cell[axis + 1 :])
                crossing[line] = True
                alone[line] |= hidden[line].sum() == 1
        candidates = alone & ~hidden & ~known
        if not candidates.any():
            candidates = crossing & ~hidden & ~known
        if not candidates.any():  # such as a table of one cell
            break
        # number of further lines in which a candidate would be the only hidden cell
        cost = np.zeros(hidden.shape)
        for axis in range(hidden.ndim):
            cost += (~hidden).all(axis=axis, keepdims=True)
        order = np.lexsort([sizes[candidates], cost[candidates]])
        chosen = np.argwhere(candidates)[order[0]]
        hidden[tuple(chosen)] = True
    return hidden.reshape(shape)


def _derivable(hidden: Mask) -> Mask:
    """Indicate which hidden cells are determined by the visible cells and all sums over a column.

    A random change of the hidden cells is projected on the changes that leave all sums the same.
    """
    cells = np.argwhere(hidden)
    derivable = np.zeros(hidden.shape, dtype=bool)
    if not len(cells) or hidden.ndim == 0:
        return derivable
    blocks = []
    for axis in range(hidden.ndim):
        others = np.delete(cells, axis, axis=1)
        _, line = np.unique(others, axis=0, return_inverse=True)
        ones = np.ones(len(cells))
        indices = line.ravel(), np.arange(len(cells))
        blocks.append(sp.csr_matrix((ones, indices)))
    sums = sp.vstack(blocks)
    change = np.random.default_rng(0).normal(size=len(cells))
    coefficients = lsqr(sums.T, change, atol=1e-14, btol=1e-14, iter_lim=10 * len(cells) + 100)[0]
    free_change = change - sums.T @ coefficients
    derivable[tuple(cells.T)] = np.abs(free_change) < DERIVABLE
    return derivable


def finish(
    released: FittedRelease, positions: Sequence[int], values: dict[str, Any], options: Any
) -> dict[str, Any]:
    """Return the value columns of a table with whole counts, grades and hidden cells."""
    if options.whole:
        columns = tuple(sorted(positions))
        counts = whole_counts(released, columns, options.n_rows)
        cells, _ = released.queries.table_cells(positions)
        codes = tuple(cells[:, list(columns)].T)
        values["count"] = counts[codes]
    table_cells = released.queries.table_cells
    shape = [len(table_cells([position])[0]) for position in positions]
    return publish(values, shape, options)


def publish(values: dict[str, Any], shape: Sequence[int], options: Any) -> dict[str, Any]:
    """Return the value columns with whole ends of counts, grades, and hidden cells as NaN."""
    if options.whole and "count_low" in values:
        values["count_low"] = np.floor(values["count_low"]).astype(np.int64)
        values["count_high"] = np.ceil(values["count_high"]).astype(np.int64)
    if options.limits is None and options.suppress is None:
        return values
    if "low" not in values:
        raise ValueError("quality and suppress require intervals. Use method='auto'.")
    estimates = next(iter(values.values()))
    limits = options.limits or DEFAULT_LIMITS
    quality = grades(estimates, values["low"], values["high"], limits)
    # impossible cells alone have an interval without length
    is_known = (values["low"] == 0) & (values["high"] == 0)
    quality = np.where(is_known, GRADES[0], quality)
    hidden = np.zeros(len(quality), dtype=bool)
    if options.suppress is not None:
        unreliable = (quality >= options.suppress).reshape(shape)
        sizes = np.nan_to_num(estimates).reshape(shape)
        hidden = complete_suppression(unreliable, sizes, is_known.reshape(shape)).ravel()
    shown = {name: np.where(hidden, np.nan, column) for name, column in values.items()}
    if not hidden.any():
        shown = values
    return {**shown, "quality": quality} if options.limits is not None else shown
