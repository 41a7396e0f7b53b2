"""Structural zeros: cells of tables that are impossible by declaration.

Impossible cells are neither measured nor estimated. Their fractions are 0. All functions use public
declarations and released numbers only.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from skpublicdp.query_release.marginals.count import Attributes
from skpublicdp.query_release.marginals.table import (
    IPF_TOLERANCE,
    MAX_IPF_SWEEPS,
    MarginalEstimate,
    ipf,
)
from skpublicdp.typing import Floats, Integers, Mask

Zeros = Mapping[Attributes, Mask]
"""For sets of columns, the combinations of codes that are impossible, with one axis per column."""

N_PROBE_CELLS = 20_000
"""Minimum number of random numbers from which the residual noise of a table is computed."""

MIN_RESIDUAL_SHARE = 1e-9
"""Residual noise below which the possible cells are considered to be determined by the margins."""

MAX_DIFFERENCE = 1e-9
"""Largest difference between two estimates of a column that are considered equal."""

MAX_RECONCILE_ROUNDS = 20
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
                    completed[margin] = completed.get(margin, False) | is_empty
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
    remaining, total = 0.0, 0.0
    for _ in range(max(1, N_PROBE_CELLS // n_possible)):
        noise = generator.normal(size=table.shape) * table.possible
        remaining += float((table.without_margins(noise) ** 2).sum())
        total += float((noise**2).sum())
    share = remaining / total
    return share if share > MIN_RESIDUAL_SHARE else 0.0


def reconcile_columns(tables: Mapping[Attributes, MarginalEstimate]) -> None:
    """Change the estimates of single columns so that tables over two columns can have them.

    For example, the counties of a state add up to the state. In each table, the column with the
    smaller total variance is kept. Columns that fit together do not change.
    """
    pairs = [
        table for table in tables.values() if len(table.columns) == 2 and table.possible is not None
    ]
    for _ in range(MAX_RECONCILE_ROUNDS):
        changes = [_reconcile_pair(table) for table in pairs]
        if not any(changes):
            break


def _reconcile_pair(table: MarginalEstimate) -> bool:
    """Reconcile the single columns of a table, and indicate whether one has been changed."""
    assert table.possible is not None
    margins = [margin[None] for margin in table.margins()]
    independent = np.where(table.possible, margins[0] * margins[1], 0.0)
    cells = ipf(independent, margins, MAX_IPF_SWEEPS)
    variances = [parent.deviation_posterior_variance.sum() for parent in table.parents]
    kept = int(np.argmin(variances))
    changed = table.parents[1 - kept]
    # parent i lacks the column of axis i, so it has the sums over this axis
    total = cells.sum(axis=1 + kept, keepdims=True)
    ratio = np.divide(margins[kept], total, out=np.zeros(total.shape), where=total > 0)
    sums = (cells * ratio).sum(axis=1 + (1 - kept)).ravel()
    sums /= sums.sum()
    if np.abs(sums - changed.estimate).max() < MAX_DIFFERENCE:
        return False
    changed.fractions = sums
    return True
