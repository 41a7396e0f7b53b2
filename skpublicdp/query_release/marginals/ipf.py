"""Iterative proportional fitting (raking), and I-projection of noisy tables onto fixed margins.

Tables of one shape are solved together: axis 0 counts them, and a margin keeps the axis that it is
summed over, with length 1. There is one margin for each axis.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import wrightomega

from skpublicdp.typing import Floats

SMALLEST_POSITIVE = 1e-300

MAX_NEWTON_CYCLES = 20
"""Maximum number of Newton cycles. Proportional fitting removes the remaining deviation."""

MARGIN_TOLERANCE = 1e-7

REPAIR_TOLERANCE, MIN_REPAIRED_SHARE, REPAIR_SWEEPS = 1e-4, 1e-3, 100
"""Repair of tables that did not converge: above this deviation from a margin, cells are raised to
this share of the independence estimate, and raked for up to this many sweeps."""

MAX_PRIOR_RATIO = 1e6
"""Maximum weight of the prior relative to the measurement. More changes no released digit."""


def ipf(tables: Floats, margins: Sequence[Floats], sweeps: int) -> Floats:
    """Scale tables to their margins in turn (iterative proportional fitting).

    Parameters
    ----------
    tables : ndarray, shape (n_tables, ...)
        Not negative.
    margins : sequence of ndarray
        Sums over axis 1, axis 2 and so on, which keep that axis.
    sweeps : int
        The most rounds over all margins.

    Returns
    -------
    ndarray
        Of the same shape. Where a margin is positive and its cells are zero, they stay zero.

    Examples
    --------
    >>> half = np.array([[[0.5], [0.5]]])
    >>> ipf(np.array([[[4.0, 1.0], [1.0, 4.0]]]), [half.reshape(1, 1, 2), half], 9)[0]
    array([[0.4, 0.1],
           [0.1, 0.4]])
    """
    for _ in range(sweeps):
        worst = 0.0
        for axis, margin in enumerate(margins, 1):
            total = tables.sum(axis=axis, keepdims=True)
            worst = max(worst, float(np.abs(total - margin).max()))
            tables = tables * np.divide(margin, total, out=np.zeros_like(total), where=total > 0)
        if worst < 1e-3 * MARGIN_TOLERANCE:
            break
    return tables


def fit_with_fixed_margins(
    prior: Floats, ratio: Floats, values: Floats, precisions: Floats, margins: Sequence[Floats]
) -> Floats:
    """Return the tables of given margins that are nearest to a prior and to noisy values.

    Parameters
    ----------
    prior : ndarray, shape (n_tables, ...)
        Positive fractions.
    ratio : ndarray
        How far the prior outweighs the values of a cell, in units of the table.
    values, precisions : ndarray
        Noisy fractions, and one over their variances, which are positive.
    margins : sequence of ndarray
        As in `ipf`.

    Returns
    -------
    ndarray
        The t ≥ 0 that minimises Σ W (r t log(t / prior) - r t + (t - y)² / 2).

    Notes
    -----
    A cell is r ω(log(prior / r) + (y + ν / W) / r) with Wright's ω and multipliers ν of the margins
    (Corless and Jeffrey 2002). A margin's sum is convex in its multiplier, so that Newton's steps
    from above never overshoot. From below, a step on the logarithm of the sum is cut where one cell
    alone would reach the margin: the sum is then too large by the number of cells at most.
    """
    r = np.clip(ratio, 1e-12, MAX_PRIOR_RATIO)
    start = np.log(np.maximum(prior, SMALLEST_POSITIVE) / r) + values / r
    force = np.zeros_like(prior)  # of all multipliers together
    tables = r * wrightomega(start)
    for _ in range(MAX_NEWTON_CYCLES):
        worst = 0.0
        for axis, margin in enumerate(margins, 1):
            tables = np.maximum(tables, SMALLEST_POSITIVE)
            total = tables.sum(axis=axis, keepdims=True)
            slope = (tables / (r + tables) / precisions).sum(axis=axis, keepdims=True)
            slope, lack = np.maximum(slope, SMALLEST_POSITIVE), margin - total
            goal = np.maximum(margin, SMALLEST_POSITIVE)
            alone = precisions * (r * np.log(goal / tables) + goal - tables)
            rise = np.minimum(
                np.log(goal / total) * total / slope, alone.min(axis=axis, keepdims=True)
            )
            force = force + np.where(lack > 0, rise, lack / slope)
            worst = max(worst, float(np.abs(lack).max()))
            tables = r * wrightomega(start + force / (precisions * r))
        if worst < MARGIN_TOLERANCE:
            break
    return _repair(ipf(np.maximum(tables, SMALLEST_POSITIVE), margins, MAX_NEWTON_CYCLES), margins)


def _repair(tables: Floats, margins: Sequence[Floats]) -> Floats:
    """Repair tables that did not converge: raise nearly empty cells and rake again."""
    lack = np.zeros(len(tables))
    for axis, margin in enumerate(margins, 1):
        gap = np.abs(tables.sum(axis=axis, keepdims=True) - margin)
        lack = np.maximum(lack, gap.reshape(len(tables), -1).max(axis=1))
    far = np.flatnonzero(lack > REPAIR_TOLERANCE)
    if len(far):
        wanted = [np.broadcast_to(m, (len(tables), *m.shape[1:]))[far] for m in margins]
        even = ipf(np.ones_like(tables[far]), wanted, MAX_NEWTON_CYCLES)
        filled = np.maximum(tables[far], MIN_REPAIRED_SHARE * even)
        tables[far] = ipf(filled, wanted, REPAIR_SWEEPS)
    return tables
