"""Noisy sums over cells: tabulated exactly, released with exact noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Event
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import Codes
from skpublicdp.boosting.scores import HALF, Integers, Model, residuals
from skpublicdp.boosting.strategy import ONE, Strategy
from skpublicdp.ledger import Ledger

Floats = NDArray[np.float64]

PROOF = "docs/proofs/moments.md"


def moment_table(model: Model, cells: BinnedData, *, pure: bool) -> Integers:
    """Sum residuals over cells, and count rows.

    Parameters
    ----------
    model : Model
        What the residuals are left by.
    cells : BinnedData
        Rows as cells.
    pure : bool
        How residuals are scaled.

    Returns
    -------
    ndarray of int64, shape (n_targets + 1, n_cells)
        The residuals of each target, and the rows.
    """

    def of_chunk(at: slice) -> Integers:
        codes = cells.codes(at)
        values = residuals(model.margins(codes), cells.rows.y[at], pure)
        return cell_sums(values, codes, model.offsets)

    table: Integers = cells.rows.sum_over_chunks(of_chunk)
    return table


def cell_sums(values: NDArray[Any], codes: Codes, offsets: NDArray[np.intp]) -> Integers:
    """Add up integers over the rows of each cell, and count rows, (n_targets + 1, n_cells)."""
    table = np.empty((len(values) + 1, int(offsets[-1])), dtype=np.int64)
    for line, low, high in zip(codes, offsets[:-1], offsets[1:], strict=True):
        for target, value in enumerate(values):
            # sums of integers far below 2^53
            table[target, low:high] = np.bincount(line, weights=value, minlength=high - low)
        table[-1, low:high] = np.bincount(line, minlength=high - low)
    return table


@dataclass(frozen=True, eq=False)
class Noisy:
    """Released sums, in units of residuals and of rows.

    Attributes
    ----------
    sums : ndarray of float64, shape (n_targets, n_measured)
        Residuals.
    counts : ndarray of float64, shape (n_measured,), or None
        Rows.
    variance, count_variance : float
        Variance of the noise of either.
    """

    sums: Floats
    counts: Floats | None
    variance: float
    count_variance: float


def release(
    table: Integers, strategy: Strategy, event: Event, ledger: Ledger, *, counts: bool
) -> Noisy:
    """Measure a moment table with exact noise.

    Parameters
    ----------
    table : ndarray of int64, shape (n_targets + 1, n_cells)
        What `moment_table` returns.
    strategy : Strategy
        The combinations of cells.
    event : Gaussian or Pure
        What it costs.
    ledger : Ledger
        Pays.
    counts : bool
        Whether rows are counted, too.

    Returns
    -------
    Noisy
        The sums.
    """
    weight = strategy.count_weight
    combined = strategy.combined(table)
    combined[-1] *= weight
    measured = ledger.add_noise(
        combined if counts else combined[:-1],
        strategy.sensitivity(counts=counts),
        event,
        name="noisy sums of residuals over cells",
        proof=PROOF,
    )
    noisy = measured.values.astype(np.float64)
    unit = 2 * HALF * ONE
    return Noisy(
        noisy[: len(table) - 1] / unit,
        noisy[-1] / (weight * ONE) if counts else None,
        measured.variance / unit**2,
        measured.variance / (weight * ONE) ** 2 if counts else np.inf,
    )
