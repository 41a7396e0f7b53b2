"""What a model of outcomes leaves unexplained: how much in all, and how often how far."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.door import Cells
from skpublicdp.boosting.loss import Loss
from skpublicdp.boosting.moments import PROOF
from skpublicdp.boosting.plan import Budget
from skpublicdp.boosting.scores import HALF, Model
from skpublicdp.hypotheses.base import CHUNK_ROWS
from skpublicdp.ledger import Ledger

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SPREAD_SHARE = Fraction(1, 25)
"""Share of the budget for the counts of residuals."""

DISTANCES = 2.0 ** (np.arange(-32, 1) / 4)
EDGES = np.concatenate([-DISTANCES[::-1], [0.0], DISTANCES])
"""Ends of the bins of residuals, from -1 to 1: whatever their scale is, some bins suit it."""

LEAST_VARIANCE = 1e-4
"""Residuals vary no less beside their slopes, whatever noise says."""


def residual_variance(
    model: Model,
    cells: Cells,
    y: NDArray[Any],
    row_weights: Floats,
    loss: Loss,
    ledger: Ledger,
    budget: Budget,
) -> float:
    """Release the sum of squared residuals; return it over that of slopes among public rows."""
    total = 0
    for chunk, margins in _margins(model, cells, len(y)):
        residuals, _ = loss.parts(margins, y[chunk])
        total += int((residuals**2).sum())
    squares = ledger.add_noise(
        np.array([total]),
        Sensitivity(HALF**2, HALF**4),
        budget.event,
        name="noisy sum of squared residuals",
        proof=PROOF,
    ).values[0]
    _, slopes = loss.parts(model.margins(cells.public_codes))
    expected = len(y) * float((slopes @ row_weights).sum()) * 2 * HALF
    return float(np.clip(squares / expected, LEAST_VARIANCE, 1.0))


def residual_counts(
    model: Model, cells: Cells, y: NDArray[Any], loss: Loss, ledger: Ledger, budget: Budget
) -> Integers:
    """Release how many outcomes lie how far from what is predicted, from -1 to 1.

    Returns
    -------
    ndarray of int64, shape (len(EDGES) - 1,)
        Noisy counts.
    """
    counts = np.zeros(len(EDGES) - 1, dtype=np.int64)
    for chunk, margins in _margins(model, cells, len(y)):
        bins = np.searchsorted(EDGES, y[chunk] - loss.mean(margins)[0], side="right") - 1
        counts += np.bincount(bins.clip(0, len(counts) - 1), minlength=len(counts))
    # a row that moves is missing in one bin and counts in another one
    moved, name = Sensitivity(2, 2), "noisy counts of residuals"
    return ledger.add_noise(counts, moved, budget.event, name=name, proof=PROOF).values


def residual_shares(counts: Integers, n: int) -> Floats:
    """Return the nearest shares of `n` residuals that are no less than 0 and add up to 1.

    Where counts are nothing but noise most of these are 0.
    """
    shares = counts / n
    ranked = np.sort(shares)[::-1]
    excess = (np.cumsum(ranked) - 1) / np.arange(1, len(ranked) + 1)
    lowered = excess[np.flatnonzero(ranked > excess)[-1]]
    nearest: Floats = np.maximum(shares - lowered, 0.0)
    return nearest


def residual_quantiles(shares: Floats, levels: Floats) -> Floats:
    """Return how far from what is predicted given shares of outcomes lie at most."""
    # smooth within bins, which are not much narrower than what they hold
    below = PchipInterpolator(EDGES, np.append(0.0, np.cumsum(shares)))
    places = np.linspace(-1.0, 1.0, 1 << 14)
    found: Floats = np.interp(levels, below(places), places)
    return found


def _margins(model: Model, cells: Cells, n: int) -> Iterator[tuple[slice, Integers]]:
    for start in range(0, n, CHUNK_ROWS):
        chunk = slice(start, start + CHUNK_ROWS)
        yield chunk, model.margins(cells.codes[:, chunk])
