"""Warnings about released metrics that suggest that labels are coded differently.

The type of a list or a column of dtype object does not show whether its labels can agree with
others, and its private values must not cause a warning. Released numbers may.
"""

from __future__ import annotations

import numpy as np

from skpublicdp.exceptions import ImplausibleScoreWarning, warn
from skpublicdp.metrics.noisy_counts import NoisyTable

ALARM_LEVEL = 0.95
"""Minimum confidence level of the bounds on which a warning is based."""

UNKNOWN_N_LABELS = 10
"""Number of labels that is assumed if the labels are private."""

MAX_RARE_SHARE, RARE_SDS = 0.05, 3
"""A label is reported as rare if its number of rows is below this share of all rows, and below this
number of standard deviations of the noise."""

_ADVICE = (
    "Labels may be coded differently, for example as text instead of numbers: compare the types "
    "and the spelling of both, and convert one of them."
)


def alarm_failure(level: float) -> float:
    """Return the failure probability of bounds at a user's level, but not above 1 - ALARM_LEVEL."""
    return 1 - max(level, ALARM_LEVEL)


def warn_if_below_chance(metric: str, upper: float, n_labels: int = UNKNOWN_N_LABELS) -> bool:
    """Warn if the upper bound of a released metric is below half of what random guesses achieve."""
    is_far_below = upper < 0.5 / n_labels
    if is_far_below:
        warn(
            f"The released {metric} is far below chance: it is at most {upper:.2g}, but random "
            f"guesses among {n_labels} labels achieve {1 / n_labels:.2g}. {_ADVICE}",
            ImplausibleScoreWarning,
        )
    return is_far_below


def warn_if_rare(table: NoisyTable) -> None:
    """Warn if the positive label, in row 1 of a released table, hardly occurs."""
    positive_cells = np.repeat([0.0, 1.0], table.counts.shape[1])
    n_positive = table.counts[1].sum()
    noise_sd = float(np.sqrt(table.covariance(positive_cells, positive_cells)))
    upper = n_positive + RARE_SDS * noise_sd
    if n_positive < RARE_SDS * noise_sd and upper < MAX_RARE_SHARE * table.n:
        warn(
            f"Hardly any row has the label pos_label: at most about {upper:.0f} of {table.n} rows, "
            f"according to the released counts. {_ADVICE}",
            ImplausibleScoreWarning,
        )
