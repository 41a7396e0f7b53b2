"""Noisy sums over cells: tabulated exactly, released with exact noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Event
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import Codes
from skpublicdp.boosting.model import MAX_GRADIENT, AdditiveModel, Integers, scaled_gradients
from skpublicdp.boosting.strategy import STRATEGY_UNIT, HistogramStrategy
from skpublicdp.ledger import Ledger

Floats = NDArray[np.float64]

PROOF = "docs/proofs/moments.md"


def gradient_histogram(model: AdditiveModel, cells: BinnedData, *, pure: bool) -> Integers:
    """Sum residuals over cells, and count rows.

    Parameters
    ----------
    model : AdditiveModel
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
        values = scaled_gradients(model.raw_predict(codes), cells.rows.y[at], pure)
        return histogram_sums(values, codes, model.offsets)

    table: Integers = cells.rows.sum_over_chunks(of_chunk)
    return table


def histogram_sums(values: NDArray[Any], codes: Codes, offsets: NDArray[np.intp]) -> Integers:
    """Add up integers over the rows of each cell, and count rows, (n_targets + 1, n_cells)."""
    table = np.empty((len(values) + 1, int(offsets[-1])), dtype=np.int64)
    for line, low, high in zip(codes, offsets[:-1], offsets[1:], strict=True):
        for target, value in enumerate(values):
            # sums of integers far below 2^53
            table[target, low:high] = np.bincount(line, weights=value, minlength=high - low)
        table[-1, low:high] = np.bincount(line, minlength=high - low)
    return table


@dataclass(frozen=True, eq=False)
class NoisyHistogram:
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


def measure(
    table: Integers, strategy: HistogramStrategy, event: Event, ledger: Ledger, *, counts: bool
) -> NoisyHistogram:
    """Measure a moment table with exact noise.

    Parameters
    ----------
    table : ndarray of int64, shape (n_targets + 1, n_cells)
        What `gradient_histogram` returns.
    strategy : HistogramStrategy
        The combinations of cells.
    event : Gaussian or Pure
        What it costs.
    ledger : Ledger
        Pays.
    counts : bool
        Whether rows are counted, too.

    Returns
    -------
    NoisyHistogram
        The sums.
    """
    weight = strategy.count_weight
    combined = strategy.apply(table)
    combined[-1] *= weight
    measured = ledger.add_noise(
        combined if counts else combined[:-1],
        strategy.sensitivity(counts=counts),
        event,
        name="noisy sums of residuals over cells",
        proof=PROOF,
    )
    noisy = measured.values.astype(np.float64)
    unit = 2 * MAX_GRADIENT * STRATEGY_UNIT
    return NoisyHistogram(
        noisy[: len(table) - 1] / unit,
        noisy[-1] / (weight * STRATEGY_UNIT) if counts else None,
        measured.variance / unit**2,
        measured.variance / (weight * STRATEGY_UNIT) ** 2 if counts else np.inf,
    )
