"""Cells of numbers that are cut in two where released sums say that the halves differ."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.door import BoostingRows, Cells
from skpublicdp.boosting.features import Feature, FeatureMap
from skpublicdp.boosting.loss import Loss
from skpublicdp.boosting.moments import PROOF
from skpublicdp.boosting.plan import FINE, Budget
from skpublicdp.boosting.scores import HALF
from skpublicdp.hypotheses.base import CHUNK_ROWS
from skpublicdp.ledger import Ledger

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LEVELS = 6
"""How often each cell may be cut in two."""

HALVING_SHARE = Fraction(8, 100)
"""Share of the budget for all levels."""

WORTH = 1500
"""Halves are looked at if the noise of a sum is at most one over so many of the rows."""

UNLIKELY = 0.008
"""A cut stays if halves alike would differ so much with a probability below this."""


class Halving:
    """Cuts the cells of numeric columns in two, level by level.

    Parameters
    ----------
    rows : BoostingRows
        Private and public rows.
    cells : Cells
        The same as cells.
    loss : Loss
        What is fitted.
    ledger : Ledger
        Pays.
    budget : Budget
        Of which a level takes a part.
    sampling : float
        Variance of a residual beside its slope.
    """

    def __init__(
        self,
        rows: BoostingRows,
        cells: Cells,
        loss: Loss,
        ledger: Ledger,
        budget: Budget,
        sampling: float,
    ) -> None:
        self.cells = cells
        self._rows, self._loss, self._ledger, self._sampling = rows, loss, ledger, sampling
        self._level = budget.part(HALVING_SHARE / LEVELS)
        self._columns = [
            position
            for position, feature in enumerate(cells.features.features)
            # numbers of fewer values are codes rather than amounts
            if not feature.column.categorical and len(np.unique(rows.X_public[:, position])) > FINE
        ]
        columns = len(self._columns)
        self._moved = Sensitivity(columns * loss.moved.absolute, columns * loss.moved.squared)

    def worth(self, effective: float) -> bool:
        """Tell whether the noise is small beside so many rows."""
        if not self._columns:
            return False
        variance = self._level.variance(self._ledger.for_person(self._moved))
        return effective * 2 * HALF >= WORTH * math.sqrt(variance)

    def run(self, margins: NDArray[Any], y: NDArray[Any]) -> Cells:
        """Spend all levels, and return the cells that came of it."""
        places = np.random.default_rng(0)
        X_public = self._rows.X_public
        for _ in range(LEVELS):
            cuts = {
                position: _between(
                    self.cells.features.features[position].cuts, X_public[:, position], places
                )
                for position in self._columns
            }
            measured = self._ledger.add_noise(
                self._sums(cuts, margins, y),
                self._moved,
                self._level.event,
                name="noisy sums of residuals and slopes over halves of cells",
                proof=PROOF,
            )
            noise = measured.variance / (2 * HALF) ** 2
            self._cut(cuts, measured.values / (2 * HALF), noise)
        return self.cells

    def _sums(self, cuts: dict[int, Floats], margins: NDArray[Any], y: NDArray[Any]) -> Integers:
        """Add up residuals and slopes over both halves of each cell."""
        sizes = [2 * (len(between) + 1) for between in cuts.values()]
        edges = np.concatenate([[0], np.cumsum(sizes)])
        table = np.zeros((2 * self._loss.n_targets, edges[-1]), dtype=np.int64)
        for start in range(0, len(y), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            values = np.concatenate(self._loss.parts(margins[:, chunk], y[chunk]))
            for position, low, high in zip(cuts, edges, edges[1:], strict=False):
                line = self.cells.codes[position, chunk]
                above = self._rows.X[chunk, position] > np.append(cuts[position], np.inf)[line]
                half = 2 * line.astype(np.intp) + above
                for total, value in zip(table, values, strict=True):
                    found = np.bincount(half, value, minlength=high - low)
                    total[low:high] += found.astype(np.int64)
        return table

    def _cut(self, cuts: dict[int, Floats], noisy: Floats, noise: float) -> None:
        """Keep the cuts whose halves differ."""
        features = list(self.cells.features.features)
        codes = self.cells.codes.copy()
        targets = self._loss.n_targets
        start = 0
        for position, between in cuts.items():
            feature, size = features[position], len(between) + 1
            halves = noisy[:, start : start + 2 * size].reshape(2, targets, size, 2)
            start += 2 * size
            H = np.maximum(halves[1], 0.05)
            variance = ((noise + self._sampling * H) / H**2).sum(axis=-1)
            difference = (halves[0] / H) @ [1, -1]
            kept = chi2.sf((difference**2 / variance).sum(axis=0), targets) < UNLIKELY
            kept[-1] = False  # missing values have no halves
            # neighbouring floats have nothing between them, and infinite ones no middle
            kept[:-1] &= np.isfinite(between) & ~np.isin(between, feature.cuts)
            found = np.union1d(feature.cuts, between[kept[:-1]])
            features[position] = Feature(feature.column, found, len(found) + 2, feature.own)
            line = codes[position]
            above = self._rows.X[:, position] > np.append(between, np.inf)[line]
            # each cut that is kept moves the cells above it on
            moved = np.arange(size) + np.cumsum(kept) - kept
            codes[position] = moved[line] + (above & kept[line])
        finer = FeatureMap(tuple(features))
        self.cells = Cells(finer, codes, finer.encoded_codes(self._rows.X_public))


def _between(cuts: Floats, public: Floats, places: np.random.Generator) -> Floats:
    """Return a public random place within each cell; the outer ones end with the public rows."""
    known = public[np.isfinite(public)]
    edges = np.concatenate(
        [np.minimum(known.min(), cuts[:1]), cuts, np.maximum(known.max(), cuts[-1:])]
    )
    with np.errstate(over="ignore", invalid="ignore"):
        inside: Floats = edges[:-1] + places.uniform(0.3, 0.7, len(edges) - 1) * np.diff(edges)
    return inside
