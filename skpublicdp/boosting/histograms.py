"""Gradient histograms over bins, computed with exact integers and released with exact noise."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Event, Sensitivity
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import BinCodes
from skpublicdp.boosting.budget_split import StageBudget
from skpublicdp.boosting.model import MAX_GRADIENT, AdditiveModel, scaled_gradients
from skpublicdp.boosting.strategy import STRATEGY_UNIT, HistogramStrategy
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Floats, Integers

BOOSTING_PROOF = "docs/proofs/moments.md"
"""Proof page for the sensitivities of all sums that boosting releases, cited in receipts."""


def count_sensitivity(n_counts: int) -> Sensitivity:
    """Return the sensitivity of `n_counts` counts, if a single row changes each by at most 1."""
    return Sensitivity(n_counts, n_counts)


def noisy_class_balance(training: TrainingData, ledger: Ledger, budget: StageBudget) -> float:
    """Spend a budget on noisy counts of the labels, and return the class balance.

    The class balance is 4 p (1 - p) for two labels and min(1, 2 (1 - Σ p²)) for more labels. The
    class balance equals 1 if all labels have the same frequency p.
    """
    rows, n_targets = training.rows, training.n_targets

    def count_chunk(chunk: slice) -> Integers:
        """Return the class counts of one chunk of rows (for two labels, the number of ones)."""
        y = rows.y[chunk]
        if n_targets == 1:
            return np.array([y.sum(dtype=np.int64)])
        return np.bincount(y, minlength=n_targets)

    counts = ledger.add_noise(
        rows.sum_over_chunks(count_chunk),
        # with more than two labels, one count decreases by 1 and another count increases by 1
        Sensitivity(1, 1) if n_targets == 1 else Sensitivity(2, 2),
        budget.event,
        name="noisy counts of the labels",
        proof=BOOSTING_PROOF,
    ).values
    n = rows.n
    shares = np.clip(counts / n, min(3 / n, 0.5), max(1 - 3 / n, 0.5))
    if n_targets == 1:
        return float(4 * shares[0] * (1 - shares[0]))
    shares = shares / shares.sum()
    return min(1.0, float(2 * (1 - shares @ shares)))


def gradient_histogram(model: AdditiveModel, data: BinnedData, *, pure: bool) -> Integers:
    """For each bin, return the sum of the scaled gradients and the number of rows."""

    def tabulate_chunk(chunk: slice) -> Integers:
        """Return the gradient sums and counts of one chunk of rows, (n_targets + 1, n_bins)."""
        codes = data.codes(chunk)
        gradients = scaled_gradients(model.raw_predict(codes), data.rows.y[chunk], pure)
        return histogram_sums(gradients, codes, model.offsets)

    return data.rows.sum_over_chunks(tabulate_chunk)


def histogram_sums(values: NDArray[Any], codes: BinCodes, offsets: NDArray[np.intp]) -> Integers:
    """For each bin, return the sum of the integer values and the number of rows."""
    n_bins = int(offsets[-1])
    table = np.empty((len(values) + 1, n_bins), dtype=np.int64)
    for bin_of_row, (start, stop) in zip(codes, pairwise(offsets), strict=True):
        size = stop - start
        column_table = table[:, start:stop]  # a view of `table`
        for target, target_values in enumerate(values):
            # doubles are exact here: the sums are integers far below 2^53
            sums = np.bincount(bin_of_row, weights=target_values, minlength=size)
            column_table[target] = sums
        column_table[-1] = np.bincount(bin_of_row, minlength=size)
    return table


@dataclass(frozen=True, eq=False)
class NoisyHistogram:
    """Noisy measurements of a gradient histogram, which are linear combinations of its bins."""

    # (n_targets, n_measured): linear combinations of gradient sums, in units of gradients
    sums: Floats
    # (n_measured,): the same linear combinations of row counts, or None if counts were not measured
    counts: Floats | None
    # Noise variances of a combination of gradient sums and of a combination of counts. Without
    # counts, `count_variance` is infinite.
    variance: float
    count_variance: float


def measure(
    table: Integers, strategy: HistogramStrategy, event: Event, ledger: Ledger, *, counts: bool
) -> NoisyHistogram:
    """Release the result of measuring a gradient histogram with a strategy and exact noise.

    Parameters
    ----------
    table : ndarray of int64, shape (n_targets + 1, n_bins)
        Result of `gradient_histogram`.
    strategy : HistogramStrategy
        Linear combinations of bins to measure.
    event : Gaussian or Pure
        Privacy event of the release.
    counts : bool
        Whether row counts are released together with the gradient sums.
    """
    weight = strategy.count_weight
    combined = strategy.apply(table)
    combined[-1] *= weight  # the last row holds counts
    measured = ledger.add_noise(
        combined if counts else combined[:-1],
        strategy.sensitivity(counts=counts),
        event,
        name="noisy gradient histogram",
        proof=BOOSTING_PROOF,
    )
    values = measured.values.astype(np.float64)
    gradient_unit, count_unit = 2 * MAX_GRADIENT * STRATEGY_UNIT, weight * STRATEGY_UNIT
    n_targets = len(table) - 1
    return NoisyHistogram(
        sums=values[:n_targets] / gradient_unit,
        counts=values[-1] / count_unit if counts else None,
        variance=measured.variance / gradient_unit**2,
        count_variance=measured.variance / count_unit**2 if counts else np.inf,
    )
