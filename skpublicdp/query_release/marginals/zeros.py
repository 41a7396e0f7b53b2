"""Structural zeros: cells of tables that are impossible by declaration.

Impossible cells are neither measured nor estimated. Their fractions are 0. All functions use public
declarations and released numbers only.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_matrix

from skpublicdp.query_release.marginals.count import Attributes
from skpublicdp.query_release.marginals.table import (
    IPF_TOLERANCE,
    MAX_IPF_SWEEPS,
    MarginalEstimate,
    ipf,
)
from skpublicdp.typing import Codes, Floats, Integers, Mask

Zeros = Mapping[Attributes, Mask]
"""For sets of columns, the combinations of codes that are impossible, with one axis per column."""

N_PROBE_CELLS = 10_000
"""Minimum number of random numbers from which the residual noise of a table is computed."""

MIN_RESIDUAL_SHARE = 1e-9
"""Residual noise below which the possible cells are considered to be determined by the margins."""

MAX_DIFFERENCE = 1e-9
"""Largest difference between two estimates of a column that are considered equal."""

MAX_RECONCILE_ROUNDS = 5
"""Maximum number of passes over all tables with impossible cells, since they share columns."""


def with_margins(zeros: Mapping[Attributes, Mask]) -> dict[Attributes, Mask]:
    """Return the zeros together with the cells of margins that contain no possible cell."""
    completed = dict(zeros)
    for columns in sorted(zeros, key=len, reverse=True):
        for width in range(len(columns) - 1, 0, -1):
            for margin in itertools.combinations(columns, width):
                axes = tuple(axis for axis, column in enumerate(columns) if column not in margin)
                is_empty = zeros[columns].all(axis=axes)
                if is_empty.any():
                    completed[margin] = is_empty | completed.get(margin, np.zeros_like(is_empty))
    return completed


def possible_cells(zeros: Zeros, columns: Attributes, shape: tuple[int, ...]) -> Mask | None:
    """Return a mask of the possible cells of a table, or None if all cells are possible."""
    is_impossible = np.zeros(shape, dtype=bool)
    for zero_columns, mask in zeros.items():
        if set(zero_columns) <= set(columns):
            broadcast_shape = [
                size if column in zero_columns else 1
                for column, size in zip(columns, shape, strict=True)
            ]
            is_impossible |= mask.reshape(broadcast_shape)
    return ~is_impossible if is_impossible.any() else None


def are_possible(zeros: Zeros, codes: Integers) -> Mask:
    """Indicate whether each row of codes has no impossible combination, shape (n_rows,)."""
    is_possible = np.ones(len(codes), dtype=bool)
    for columns, mask in zeros.items():
        is_possible &= ~mask[tuple(codes[:, columns].T)]
    return is_possible


def residual_noise_share(table: MarginalEstimate) -> float:
    """Return the share of noise in the possible cells that remains without the margins' effects.

    The share is the trace of a projection, which is estimated from random numbers with a fixed
    seed. It is 0 if the margins determine all cells, as for a hierarchy.
    """
    assert table.possible is not None
    generator = np.random.default_rng(0)
    n_possible = int(table.possible.sum())
    n_probes = max(1, N_PROBE_CELLS // n_possible)
    noise = generator.normal(size=(*table.shape, n_probes))
    noise *= table.possible[..., None]
    remaining = table.without_margins(noise)
    share = float(np.square(remaining).sum() / np.square(noise).sum())
    return share if share > MIN_RESIDUAL_SHARE else 0.0


def reconcile(tables: Mapping[Attributes, MarginalEstimate], width: int) -> None:
    """Change the estimates of tables with `width` columns so that wider tables can have them.

    Suppose that two columns have impossible combinations, for example counties and states. The
    tables of counties by sex and of states by sex must then be margins of a table without
    impossible cells, so the counties of a state must add up to the state. Of both tables, the one
    with the smaller total variance is kept. Tables that fit together do not change.
    """
    triples = []  # pair of columns, and the two tables that contain one of them
    for pair in tables.values():
        if len(pair.columns) == 2 and _excludes_combinations(pair):
            first, second = pair.columns
            for columns, table in tables.items():
                other = tuple(sorted({*columns, second} - {first}))
                if len(columns) == len(other) == width and first in columns and other in tables:
                    triples.append((pair, table, tables[other]))
    for _ in range(MAX_RECONCILE_ROUNDS):
        changes = [_reconcile_tables(*triple) for triple in triples]
        if not any(changes):
            break


def _excludes_combinations(pair: MarginalEstimate) -> bool:
    """Indicate whether two codes are possible separately, but not together."""
    if pair.possible is None:
        return False
    is_possible_separately = np.logical_and.outer(
        pair.possible.any(axis=1), pair.possible.any(axis=0)
    )
    return bool((is_possible_separately & ~pair.possible).any())


def _reconcile_tables(
    pair: MarginalEstimate, table: MarginalEstimate, other: MarginalEstimate
) -> bool:
    """Reconcile tables that contain one column each of a pair, and indicate whether one changed."""
    assert pair.possible is not None
    both = list(zip((table, other), pair.columns, np.nonzero(pair.possible), strict=True))
    both.sort(key=lambda entry: float(entry[0].deviation_posterior_variance.sum()))
    (kept, kept_column, kept_code), (changed, column, code) = both
    axis = changed.columns.index(column)
    kept_cells = np.moveaxis(kept.estimate, kept.columns.index(kept_column), 0)
    kept_cells = kept_cells.reshape(len(kept_cells), -1)  # (n_codes, n_cells of other columns)
    moved = np.moveaxis(changed.estimate, axis, 0)
    changed_cells = moved.reshape(len(moved), -1)
    # fractions of the possible pairs of codes, (n_pairs, n_cells of other columns)
    joint = kept_cells[kept_code] * changed_cells[code]
    kept_sums = _indicators(kept_code, len(kept_cells))
    changed_sums = _indicators(code, len(changed_cells))
    for _ in range(MAX_IPF_SWEEPS):
        joint = joint * _ratios(changed_cells, changed_sums @ joint)[code]
        ratios = _ratios(kept_cells, kept_sums @ joint)
        joint = joint * ratios[kept_code]
        if np.abs(ratios[kept_cells > 0] - 1).max(initial=0) < IPF_TOLERANCE:
            break
    sums = changed_sums @ joint
    if np.abs(sums - changed_cells).max() < MAX_DIFFERENCE:
        return False
    fractions = np.moveaxis(sums.reshape(moved.shape), 0, axis)
    margins = [margin[None] for margin in changed.margins()]
    changed.fractions = ipf(fractions[None], margins, MAX_IPF_SWEEPS)[0]
    return True


def _indicators(code: Codes, n_codes: int) -> csr_matrix:
    """Return a matrix that sums rows with equal codes, shape (n_codes, n_rows)."""
    return csr_matrix((np.ones(len(code)), (code, np.arange(len(code)))), (n_codes, len(code)))


def _ratios(target: Floats, sums: Floats) -> Floats:
    """Return the factors from sums to target sums, and 1 for empty sums."""
    return np.divide(target, sums, out=np.ones(sums.shape), where=sums > 0)
