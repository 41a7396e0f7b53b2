"""How far one population may be from another, or cells from a model: what is tried and believed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SIZES = np.concatenate([[0.0], np.geomspace(1e-6, 10, 29)])
"""Sizes that are tried, four to a power of ten."""

CLEAR_GAIN = 2.0
"""Drift is believed in if it makes the noisy answers e² times as likely (Akaike's rule)."""


def clear_drift(
    squared: Floats, spread: Floats, variance: Floats, weights: Floats | float = 1.0
) -> float:
    """Return the likeliest drift, if it makes errors clearly likelier than none does.

    Parameters
    ----------
    squared : ndarray
        Squared errors.
    spread : ndarray
        Their variance per drift.
    variance : ndarray
        Their variance without drift.
    weights : ndarray or float, default=1
        How many independent errors each stands for: less than one where errors add up to zero.
    """
    variances = (spread * drift + variance + 1e-30 for drift in SIZES)
    gains = np.array([-float((weights * (squared / v + np.log(v))).sum()) / 2 for v in variances])
    best = int(gains.argmax())
    return float(SIZES[best]) if gains[best] - gains[0] > CLEAR_GAIN else 0.0
