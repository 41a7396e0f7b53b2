"""How far one population may be from another, or cells from a model: what is tried and believed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SIZES = np.concatenate([[0.0], np.geomspace(1e-6, 10, 29)])
"""Sizes that are tried, four to a power of ten."""


def likely_worth(
    squared: Floats,
    spread: Floats,
    noise: Floats | float,
    known: float,
    weights: Floats | float = 1.0,
) -> float:
    """Return how many private rows public ones are worth: the median of what is possible.

    Before anything is measured, no drift is as likely as all other sizes together, and these are
    equally likely. So the noise of a measurement that says little is not taken for drift.

    Parameters
    ----------
    squared : ndarray
        Squared errors of noisy answers.
    spread : ndarray
        Their variance per drift.
    noise : ndarray or float
        Their variance from noise.
    known : float
        One over what the public rows are worth without drift.
    weights : ndarray or float, default=1
        How many independent errors each stands for: less than one where errors add up to zero.

    Examples
    --------
    >>> clear, hidden = (
    ...     likely_worth(np.full(9, 0.2), np.ones(9), noise, known=1e-3) for noise in (1e-4, 1e4)
    ... )
    >>> round(clear), round(hidden)
    (6, 1000)
    """
    variances = (spread * (known + drift) + noise + 1e-30 for drift in SIZES)
    logs = np.array([-float((weights * (squared / v + np.log(v))).sum()) / 2 for v in variances])
    odds = np.exp(logs - logs.max())
    odds[0] *= len(odds) - 1
    total = np.cumsum(odds)
    return float(1 / (known + SIZES[np.searchsorted(total, total[-1] / 2)]))
