"""Support rows for marginals: the public rows, smoothed, and rows that reach what they lack.

Everything here sees public rows or released numbers. Its randomness is fixed: it protects nobody.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.query_release.marginal_tables import Columns, Integers, cells

Floats = NDArray[np.float64]

SMOOTHED_SHARE = 0.15
"""What resampled rows weigh: on ADULT it lowers the mean error of public rows alone by 5%."""

SMOOTHED_PER_ROW = 2
SMOOTHED_ROWS = (2_000, 10_000)
TIED_COLUMNS = 3

REACHING_SHARE = 0.01
REACHING_ROWS = 4_000
REACHING_CHANGES = 0.3

FULL_GRID = 20_000
"""Without public rows: all cells if there are at most so many, else so many drawn rows."""


@dataclass(frozen=True)
class Support:
    """Distinct rows of codes and their prior weights, which are positive and sum to 1."""

    rows: Integers
    prior: Floats


def public_support(codes: Integers, sizes: Columns) -> Support:
    """Return the public rows, with a part of the weight on resampled ones.

    Notes
    -----
    A cell that the public sample misses is not empty in the population. Each resampled row starts
    as a public row; then each column in turn takes the value of a random public row that agrees on
    the three columns most tied to it. So it keeps the strong ties and forgets the accidents.
    A last hundredth goes to rows that may take any code anywhere.
    """
    generator = np.random.default_rng(0)
    n_smoothed = int(np.clip(SMOOTHED_PER_ROW * len(codes), *SMOOTHED_ROWS))
    smoothed_share = SMOOTHED_SHARE * min(1.0, n_smoothed / (SMOOTHED_PER_ROW * len(codes)))
    smoothed = _resampled(codes, sizes, n_smoothed, generator)
    reaching = _reaching(codes, sizes, generator)
    rest = 1 - smoothed_share - REACHING_SHARE
    return _distinct(
        [(codes, rest), (smoothed, smoothed_share), (reaching, REACHING_SHARE)],
    )


def uniform_support(sizes: Columns) -> Support | None:
    """Return all rows with equal weights, or None if they are too many."""
    n_rows = math.prod(sizes)
    if n_rows > FULL_GRID:
        return None
    rows = np.stack(np.unravel_index(np.arange(n_rows), sizes), axis=1).astype(np.int64)
    return Support(rows, np.full(n_rows, 1 / n_rows))


def product_support(one_ways: Sequence[Floats], sizes: Columns) -> Support:
    """Draw rows whose columns are independent, from released fractions of each column."""
    generator = np.random.default_rng(0)
    columns = [
        generator.choice(size, FULL_GRID, p=fractions / fractions.sum())
        for size, fractions in zip(sizes, one_ways, strict=True)
    ]
    anything = np.stack([generator.integers(size, size=REACHING_ROWS) for size in sizes], axis=1)
    drawn = np.stack(columns, axis=1)
    mixed = np.where(
        generator.random(anything.shape) < REACHING_CHANGES, anything, drawn[:REACHING_ROWS]
    )
    return _distinct([(drawn, 1 - REACHING_SHARE), (mixed, REACHING_SHARE)])


def _distinct(parts: Sequence[tuple[Integers, float]]) -> Support:
    rows = np.vstack([part for part, _ in parts])
    weights = np.concatenate([np.full(len(part), share / len(part)) for part, share in parts])
    distinct, index = np.unique(rows, axis=0, return_inverse=True)
    prior = np.bincount(index.ravel(), weights).astype(np.float64, copy=False)
    return Support(distinct.astype(np.int64), prior)


def _resampled(
    codes: Integers, sizes: Columns, n_rows: int, generator: np.random.Generator
) -> Integers:
    ties = _mutual_information(codes, sizes)
    rows: Integers = codes[np.arange(n_rows) % len(codes)].copy()
    if n_rows < len(codes):
        rows = codes[generator.choice(len(codes), n_rows, replace=False)].copy()
    for column in generator.permutation(len(sizes)):
        tied = _tied(ties[column], sizes)
        donor_cells = cells(codes, tied, sizes)
        order = np.argsort(donor_cells, kind="stable")
        wanted = cells(rows, tied, sizes)
        low = np.searchsorted(donor_cells[order], wanted, side="left")
        high = np.searchsorted(donor_cells[order], wanted, side="right")
        found = high > low  # earlier changes may have made a combination no public row has
        pick = low + (generator.random(n_rows) * (high - low)).astype(np.int64)
        rows[found, column] = codes[order[pick[found]], column]
    return rows


def _tied(ties: Floats, sizes: Columns) -> Columns:
    """Return the columns of most mutual information, as many as int64 cells allow."""
    chosen: list[int] = []
    for column in np.argsort(-ties, kind="stable")[:TIED_COLUMNS]:
        fits = math.prod(sizes[c] for c in (*chosen, int(column))) < 1 << 62
        if np.isfinite(ties[column]) and fits:
            chosen.append(int(column))
    return tuple(chosen)


def _reaching(codes: Integers, sizes: Columns, generator: np.random.Generator) -> Integers:
    """Return public rows of which some columns take codes of any kind."""
    shape = (REACHING_ROWS, len(sizes))
    anything = np.stack([generator.integers(size, size=REACHING_ROWS) for size in sizes], axis=1)
    public = np.stack(
        [codes[generator.integers(len(codes), size=REACHING_ROWS), c] for c in range(len(sizes))],
        axis=1,
    )
    replaced = np.where(generator.random(shape) < 0.5, anything, public)
    rows = codes[generator.integers(len(codes), size=REACHING_ROWS)]
    return np.where(generator.random(shape) < REACHING_CHANGES, replaced, rows)


def _mutual_information(codes: Integers, sizes: Columns) -> Floats:
    """Return the mutual information of each two columns, less what independence would show."""
    n_rows, n_columns = codes.shape
    information = np.full((n_columns, n_columns), -np.inf)
    entropies: dict[Columns, tuple[float, int]] = {}

    def entropy(columns: Columns) -> tuple[float, int]:
        if columns not in entropies:
            counts: NDArray[Any] = np.unique(cells(codes, columns, sizes), return_counts=True)[1]
            shares = counts / n_rows
            entropies[columns] = (-float(np.sum(shares * np.log(shares))), len(counts))
        return entropies[columns]

    for i in range(n_columns):
        for j in range(i):
            (h_i, n_i), (h_j, n_j), (h_ij, n_ij) = entropy((i,)), entropy((j,)), entropy((i, j))
            bias = (n_ij - n_i - n_j + 1) / (2 * n_rows)
            information[i, j] = information[j, i] = h_i + h_j - h_ij - bias
    return information
