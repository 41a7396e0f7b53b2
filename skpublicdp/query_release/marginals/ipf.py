"""Iterative proportional fitting (raking), and I-projection of noisy tables to fixed margins.

Tables of the same shape are solved as a batch along axis 0. Each further axis has one margin, which
is the sum over this axis. The summed axis is kept with length 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import wrightomega

from skpublicdp.typing import Floats

SMALLEST_POSITIVE = 1e-300
"""Lower bound that is applied to denominators and to arguments of logarithms."""

MAX_IPF_SWEEPS = 50
"""Maximum number of sweeps of iterative proportional fitting for an entire table."""

MAX_NEWTON_CYCLES = 20
"""Maximum number of Newton cycles. Afterwards, proportional fitting removes any remaining
deviation."""

MARGIN_TOLERANCE = 1e-7
"""Newton cycles stop when no sum deviates from the margin by more than this tolerance."""

IPF_TOLERANCE = 1e-3 * MARGIN_TOLERANCE
"""Iterative proportional fitting stops when no sum deviates from the margin by more than this
tolerance, which is small because sweeps are cheap."""

REPAIR_TOLERANCE = 1e-4
"""Deviation from a margin, as a fraction of the rows, above which a table is repaired."""

MIN_REPAIRED_SHARE = 1e-3
"""A repair raises cells to at least this share of their independence estimate."""

REPAIR_SWEEPS = 100
"""Maximum number of sweeps of iterative proportional fitting in a repair."""

MIN_PRIOR_RATIO = 1e-12
"""Minimum weight of the prior relative to the measurement, which avoids division by zero."""

MAX_PRIOR_RATIO = 1e6
"""Maximum weight of the prior relative to the measurement. A larger weight would not change any
released digit.
"""


def ipf(tables: Floats, margins: Sequence[Floats], max_sweeps: int) -> Floats:
    """Scale tables to each of their margins in turn (iterative proportional fitting).

    Each sweep scales the tables to every margin once.

    Examples
    --------
    >>> half = np.array([[[0.5], [0.5]]])
    >>> ipf(np.array([[[4.0, 1.0], [1.0, 4.0]]]), [half.reshape(1, 1, 2), half], 9)[0]
    array([[0.4, 0.1],
           [0.1, 0.4]])
    """
    for _ in range(max_sweeps):
        max_deviation = 0.0
        for axis, margin in enumerate(margins, 1):
            total = tables.sum(axis=axis, keepdims=True)
            max_deviation = max(max_deviation, float(np.abs(total - margin).max()))
            tables = tables * np.divide(margin, total, out=np.zeros_like(total), where=total > 0)
        if max_deviation < IPF_TOLERANCE:
            break
    return tables


def fit_with_fixed_margins(
    prior: Floats, ratio: Floats, values: Floats, precisions: Floats, margins: Sequence[Floats]
) -> Floats:
    """Return the tables with given margins that are nearest to both a prior and noisy values.

    Parameters
    ----------
    prior : ndarray of shape (n_tables, ...)
        Prior fractions, positive.
    ratio : ndarray of shape (n_tables, ...)
        Weight r of the prior relative to the cell's noisy value, as a fraction of the rows.
    values, precisions : ndarray of shape (n_tables, ...)
        Noisy fractions y, and the inverse variances W, which are positive.
    margins : sequence of ndarray
        As in `ipf`.

    Returns
    -------
    ndarray of shape (n_tables, ...)
        The t ≥ 0 that minimises Σ W (r t log(t / prior) - r t + (t - y)² / 2) under the margins.

    Notes
    -----
    Each margin cell has a Lagrange multiplier, and ν is the sum of the multipliers of a cell's
    margins. The value of the cell is r ω(log(prior / r) + (y + ν / W) / r), where ω is Wright's
    function (Corless and Jeffrey 2002). The multipliers are updated by Newton steps, one margin
    after the other.

    Since the sum over a margin's cells is a convex function of the multiplier, Newton steps from
    above never overshoot. From below, Newton's method is applied to the logarithm of the sum. The
    step is no larger than the smallest step at which a single cell reaches the margin. Therefore,
    the sum exceeds the margin at most by a factor equal to the number of cells.
    """
    r = np.clip(ratio, MIN_PRIOR_RATIO, MAX_PRIOR_RATIO)
    # argument of ω for multipliers of 0
    omega_argument = np.log(np.maximum(prior, SMALLEST_POSITIVE) / r) + values / r
    multipliers = np.zeros_like(prior)  # ν of each cell
    tables = r * wrightomega(omega_argument)
    for _ in range(MAX_NEWTON_CYCLES):
        max_deviation = 0.0
        for axis, margin in enumerate(margins, 1):
            tables = np.maximum(tables, SMALLEST_POSITIVE)
            total = tables.sum(axis=axis, keepdims=True)
            # derivative of the sum with respect to its multiplier
            slope = (tables / (r + tables) / precisions).sum(axis=axis, keepdims=True)
            slope = np.maximum(slope, SMALLEST_POSITIVE)
            deficit = margin - total
            max_deviation = max(max_deviation, float(np.abs(deficit).max()))
            # for each cell, the step at which this cell alone reaches the margin
            target = np.maximum(margin, SMALLEST_POSITIVE)
            single_cell_steps = precisions * (r * np.log(target / tables) + target - tables)
            max_step_up = single_cell_steps.min(axis=axis, keepdims=True)
            step_up = np.log(target / total) * total / slope
            step_up = np.minimum(step_up, max_step_up)
            step = np.where(deficit > 0, step_up, deficit / slope)
            multipliers = multipliers + step
            tables = r * wrightomega(omega_argument + multipliers / (precisions * r))
        if max_deviation < MARGIN_TOLERANCE:
            break
    raked = ipf(np.maximum(tables, SMALLEST_POSITIVE), margins, MAX_NEWTON_CYCLES)
    return _repair_unconverged(raked, margins)


def _repair_unconverged(tables: Floats, margins: Sequence[Floats]) -> Floats:
    """Repair and rake the tables that are far from their margins, and return all tables.

    The repair raises nearly empty cells. Proportional fitting cannot do so because it only
    multiplies. The array `tables`, of shape (n_tables, ...), is changed in place.
    """
    max_deviation = np.zeros(len(tables))
    for axis, margin in enumerate(margins, 1):
        deviation = np.abs(tables.sum(axis=axis, keepdims=True) - margin)
        max_deviation = np.maximum(max_deviation, deviation.reshape(len(tables), -1).max(axis=1))
    unconverged = np.flatnonzero(max_deviation > REPAIR_TOLERANCE)
    if len(unconverged):
        # a margin may be shared by all tables of the batch
        table_margins = [
            np.broadcast_to(margin, (len(tables), *margin.shape[1:]))[unconverged]
            for margin in margins
        ]
        independent = ipf(np.ones_like(tables[unconverged]), table_margins, MAX_NEWTON_CYCLES)
        filled = np.maximum(tables[unconverged], MIN_REPAIRED_SHARE * independent)
        tables[unconverged] = ipf(filled, table_margins, REPAIR_SWEEPS)
    return tables
