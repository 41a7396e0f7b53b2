"""Synthetic data: a Chow-Liu tree sample and public rows, raked to the released tables.

Only public rows and released numbers enter. The random seed is fixed, since it protects nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from skpublicdp.query_release.marginals.count import Attributes, ravel_codes
from skpublicdp.typing import Floats, Integers

N_TREE_ROWS = 50_000
"""Number of rows drawn from the tree. Raking corrects their sampling error."""

MIN_SYNTHETIC_MASS = 1e-6
"""Cells of smaller released mass get no synthetic row."""

SWEEP_RANGE = 3, 60
MAX_CELL_VISITS = 400_000_000
"""Minimum and maximum number of raking sweeps, and the budget of row visits between them."""

MAX_CACHED_CELLS = 1 << 24
"""Row-to-cell indices are cached if rows times tables is at most this."""

UNDAMPED_SWEEPS = 10
"""Raking is damped after this many sweeps (step ∝ 1/sweep), since noisy tables may disagree."""


def synthesize(
    fractions: Mapping[Attributes, Floats],
    workload: Sequence[Attributes],
    sizes: Attributes,
    public: Integers,
    worth: float,
) -> tuple[Integers, Floats]:
    """Return rows of codes, and weights under which they have the tables of a workload.

    Parameters
    ----------
    fractions : mapping of tuple of int to ndarray
        The tables and all their margins.
    workload : sequence of tuple of int
        The tables that matter.
    sizes : tuple of int
        How many codes each column has.
    public : ndarray of int, shape (m, n_columns)
        Public rows; they show how columns go together beyond the tables.
    worth : float
        How many private rows the public ones count for.

    Returns
    -------
    rows : ndarray of int64, shape (n_rows, n_columns)
        Public rows, rows drawn from a tree of the tables of two columns, and rows in cells that
        neither reach.
    weights : ndarray of shape (n_rows,)
        Positive, with sum 1.
    """
    generator = np.random.default_rng(0)
    drawn = _sample_chow_liu_tree(fractions, sizes, generator)
    n_cells = np.mean([fractions[columns].size for columns in workload])
    share = worth / (worth + n_cells) if len(public) else 0.0  # so many rows show so many cells
    rows = np.concatenate([public, drawn])
    weights = np.repeat(
        [share / max(len(public), 1), (1 - share) / len(drawn)], [len(public), len(drawn)]
    )
    added = [rows[:0]]
    for columns in workload:
        target = fractions[columns].ravel()
        reached = np.zeros(len(target), dtype=bool)
        reached[ravel_codes(rows, columns, sizes)] = True
        lacking = np.flatnonzero(~reached & (target > MIN_SYNTHETIC_MASS))
        new = drawn[generator.integers(len(drawn), size=len(lacking))]
        new[:, columns] = np.stack(np.unravel_index(lacking, fractions[columns].shape), axis=1)
        added.append(new)
    reaching = np.concatenate(added)
    rows = np.concatenate([rows, reaching])
    weights = np.concatenate([weights, np.full(len(reaching), MIN_SYNTHETIC_MASS)])
    kept = weights > 0
    return rows[kept], rake_weights(rows[kept], weights[kept], fractions, workload, sizes)


def rake_weights(
    rows: Integers,
    weights: Floats,
    fractions: Mapping[Attributes, Floats],
    workload: Sequence[Attributes],
    sizes: Attributes,
) -> Floats:
    """Rake the weights to each table in turn, with damped steps."""
    fewest, most = SWEEP_RANGE
    visits = len(rows) * len(workload)
    kept = visits <= MAX_CACHED_CELLS
    found_once = {columns: ravel_codes(rows, columns, sizes) for columns in workload if kept}
    for sweep in range(int(np.clip(MAX_CELL_VISITS // visits, fewest, most))):
        step = min(1.0, UNDAMPED_SWEEPS / (sweep + 1))
        for columns in workload:
            target = fractions[columns].ravel()
            cell = found_once[columns] if kept else ravel_codes(rows, columns, sizes)
            found = np.bincount(cell, weights, minlength=len(target))
            some = found > np.finfo(np.float64).tiny  # what is less has no ratio
            ratio = np.divide(target, found, out=np.ones(len(target)), where=some)
            weights = weights * (ratio**step)[cell]
    weights /= weights.sum()
    return weights


def _sample_chow_liu_tree(
    fractions: Mapping[Attributes, Floats], sizes: Attributes, generator: np.random.Generator
) -> Integers:
    """Draw columns one after the other along the strongest ties (Chow and Liu 1968)."""
    n_columns = len(sizes)
    ties = np.zeros((n_columns, n_columns))
    for columns, table in fractions.items():
        if len(columns) == 2:
            ties[columns] = _mutual_information(table)
    tree = minimum_spanning_tree(csr_matrix(-ties))
    tree = tree + tree.T
    rows = np.zeros((N_TREE_ROWS, n_columns), dtype=np.int64)
    undrawn = set(range(n_columns))
    while undrawn:
        order, parents = breadth_first_order(tree, min(undrawn), directed=False)
        for column in order:
            parent = parents[column]
            if (column,) not in fractions:
                rows[:, column] = generator.integers(sizes[column], size=N_TREE_ROWS)
            elif parent < 0:
                rows[:, column] = _systematic_sample(fractions[column,], N_TREE_ROWS, generator)
            else:
                pair = (min(parent, column), max(parent, column))
                table = fractions[pair] if parent < column else fractions[pair].T
                for code in range(sizes[parent]):
                    here = np.flatnonzero(rows[:, parent] == code)
                    rows[here, column] = _systematic_sample(table[code], len(here), generator)
        undrawn -= set(order.tolist())
    return rows


def _systematic_sample(fractions: Floats, n: int, generator: np.random.Generator) -> Integers:
    """Draw codes that are as evenly spread as they can be, in random order."""
    total = fractions.sum()
    if not total > 0:
        fractions, total = np.ones(len(fractions)), float(len(fractions))
    ends = np.cumsum(fractions) / total
    places = (np.arange(n) + generator.random()) / max(n, 1)
    codes = np.minimum(np.searchsorted(ends, places, side="right"), len(fractions) - 1)
    mixed: Integers = generator.permutation(codes)
    return mixed


def _mutual_information(table: Floats) -> float:
    rows, columns = np.nonzero(table)
    here = table[rows, columns]
    # logarithms first: products of tiny shares would vanish
    apart = np.log(table.sum(axis=1)[rows]) + np.log(table.sum(axis=0)[columns])
    return float((here * (np.log(here) - apart)).sum())
