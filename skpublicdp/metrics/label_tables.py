"""Release of one table per label, for more than two labels: own and other rows by score.

Each row is counted once among the own rows of its label, and once among the other rows of every
other label. Since counts of own rows have a lower sensitivity, they are measured separately.
"""

from __future__ import annotations

import numpy as np

from skpublicdp.accounting import Noise
from skpublicdp.metrics.noisy_counts import (
    SCORES_PROOF,
    TABLE_SENSITIVITY,
    NoisyTable,
    adjust_to_totals,
    others_sensitivity,
)
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Integers


def release_label_tables(
    exact: Integers, own_noise: Noise, other_noise: Noise, ledger: Ledger, confusion: NoisyTable
) -> tuple[NoisyTable, ...]:
    """Release a table for each label: its other rows and own rows by the bin of its score.

    Each table is consistent with the label's number of rows in the confusion matrix.

    Parameters
    ----------
    exact : ndarray of int64, shape (n_labels, 2, n_bins)
        Exact private counts.
    own_noise, other_noise : Gaussian or Pure
        Privacy costs of counting the own rows and the other rows, which determine the noise scales.
    confusion : NoisyTable
        The released confusion matrix.
    """
    n_labels, _, n_bins = exact.shape
    name = f"{own_noise.noise_name} on rows of each label by its score"
    own = ledger.add_noise(
        exact[:, 1].copy(), TABLE_SENSITIVITY, own_noise, name=name, proof=SCORES_PROOF
    )
    name = f"{other_noise.noise_name} on rows of the other labels by the score of each label"
    sensitivity = others_sensitivity(n_labels)
    other = ledger.add_noise(
        exact[:, 0].copy(), sensitivity, other_noise, name=name, proof=SCORES_PROOF
    )
    is_own = np.repeat([False, True], n_bins)
    totals, clipped_totals = confusion.counts.sum(1), confusion.nonnegative.sum(1)
    # indicator of the cells of each true label, (n_labels, n_labels * n_labels)
    label_weights = np.repeat(np.eye(n_labels), n_labels, axis=1)
    total_variances = confusion.covariance(label_weights, label_weights)
    tables = []
    for label in range(n_labels):
        values = np.concatenate([other.values[label], own.values[label]]).astype(np.float64)
        total, clipped_total = float(totals[label]), float(clipped_totals[label])
        counts, nonnegative = adjust_to_totals(
            values,
            (is_own, ~is_own),
            [total, confusion.n - total],
            [clipped_total, confusion.n - clipped_total],
        )
        table = NoisyTable(
            counts=counts.reshape(2, n_bins),
            nonnegative=nonnegative.reshape(2, n_bins),
            n=confusion.n,
            variance=np.array([other.variance, own.variance]),
            total_variance=float(total_variances[label]),
            groups=(is_own, ~is_own),
            event=own_noise,
            design_effect=confusion.design_effect,
        )
        tables.append(table)
    return tuple(tables)
