"""Histograms of gradients over bins: tabulated in exact integers, released with exact noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Event
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import BinCodes
from skpublicdp.boosting.model import MAX_GRADIENT, AdditiveModel, scaled_gradients
from skpublicdp.boosting.strategy import STRATEGY_UNIT, HistogramStrategy
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Floats, Integers

PROOF = "docs/proofs/moments.md"


def gradient_histogram(model: AdditiveModel, data: BinnedData, *, pure: bool) -> Integers:
    """Return the sums of scaled gradients and the number of rows in each bin.

    Parameters
    ----------
    model : AdditiveModel
        Current model.
    data : BinnedData
        Binned private rows.
    pure : bool
        Whether gradients are scaled for the 1-norm or the Euclidean norm.

    Returns
    -------
    ndarray of int64, shape (n_targets + 1, n_bins)
        Gradient sums of each target in units of 1 / (2 MAX_GRADIENT), then counts.
    """

    def tabulate_chunk(chunk: slice) -> Integers:
        codes = data.codes(chunk)
        gradients = scaled_gradients(model.raw_predict(codes), data.rows.y[chunk], pure)
        return histogram_sums(gradients, codes, model.offsets)

    table: Integers = data.rows.sum_over_chunks(tabulate_chunk)
    return table


def histogram_sums(values: NDArray[Any], codes: BinCodes, offsets: NDArray[np.intp]) -> Integers:
    """Return the sums of integer values and the counts in each bin, (n_targets + 1, n_bins)."""
    table = np.empty((len(values) + 1, int(offsets[-1])), dtype=np.int64)
    for bin_of_row, low, high in zip(codes, offsets[:-1], offsets[1:], strict=True):
        for target, value in enumerate(values):
            # doubles are exact here: the sums are integers far below 2^53
            table[target, low:high] = np.bincount(bin_of_row, weights=value, minlength=high - low)
        table[-1, low:high] = np.bincount(bin_of_row, minlength=high - low)
    return table


@dataclass(frozen=True, eq=False)
class NoisyHistogram:
    """Released combinations of a gradient histogram, in units of gradients and of rows.

    Attributes
    ----------
    sums : ndarray of float64, shape (n_targets, n_measured)
        Gradient sums.
    counts : ndarray of float64, shape (n_measured,), or None
        Row counts, if they were measured.
    variance, count_variance : float
        Noise variance of a gradient sum and of a count.
    """

    sums: Floats
    counts: Floats | None
    variance: float
    count_variance: float


def measure(
    table: Integers, strategy: HistogramStrategy, event: Event, ledger: Ledger, *, counts: bool
) -> NoisyHistogram:
    """Release the combinations of a histogram that a strategy measures, with exact noise.

    Parameters
    ----------
    table : ndarray of int64, shape (n_targets + 1, n_bins)
        Result of `gradient_histogram`.
    strategy : HistogramStrategy
        Combinations of bins.
    event : Gaussian or Pure
        Privacy event to spend.
    ledger : Ledger
        Ledger that pays and draws the noise.
    counts : bool
        Whether row counts are released with the gradient sums.
    """
    weight = strategy.count_weight
    combined = strategy.apply(table)
    combined[-1] *= weight
    measured = ledger.add_noise(
        combined if counts else combined[:-1],
        strategy.sensitivity(counts=counts),
        event,
        name="noisy gradient histogram",
        proof=PROOF,
    )
    values = measured.values.astype(np.float64)
    unit = 2 * MAX_GRADIENT * STRATEGY_UNIT
    return NoisyHistogram(
        values[: len(table) - 1] / unit,
        values[-1] / (weight * STRATEGY_UNIT) if counts else None,
        measured.variance / unit**2,
        measured.variance / (weight * STRATEGY_UNIT) ** 2 if counts else np.inf,
    )
