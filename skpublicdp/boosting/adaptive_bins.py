"""Cells of numbers that are cut in two where released sums say that the halves differ."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import Binner, ColumnBins
from skpublicdp.boosting.budget_split import N_BINS, StageBudget
from skpublicdp.boosting.histograms import PROOF
from skpublicdp.boosting.loss import Loss, sum_packed
from skpublicdp.boosting.model import MAX_GRADIENT
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.data.binning import snapped
from skpublicdp.ledger import Ledger

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SPLIT_LEVELS = 6
"""How often each cell may be cut in two."""

BIN_SPLIT_SHARE = Fraction(8, 100)
"""Share of the budget for all levels."""

ROWS_PER_SPLIT_NOISE = 1500
"""Halves are looked at if the noise of a sum is at most one over so many of the rows."""

MAX_P_VALUE = 0.008
"""A cut stays if halves alike would differ so much with a probability below this."""


class BinSplitter:
    """Cuts the cells of numeric columns in two, level by level.

    Parameters
    ----------
    rows : TrainingData
        Private and public rows.
    cells : BinnedData
        The same as cells.
    loss : Loss
        What is fitted.
    ledger : Ledger
        Pays.
    budget : StageBudget
        Of which a level takes a part.
    sampling : float
        Variance of a residual beside its slope.
    """

    def __init__(
        self,
        rows: TrainingData,
        cells: BinnedData,
        loss: Loss,
        ledger: Ledger,
        budget: StageBudget,
        sampling: float,
    ) -> None:
        self.cells = cells
        self._rows, self._loss, self._ledger, self._sampling = rows, loss, ledger, sampling
        self._level = budget.fraction(BIN_SPLIT_SHARE / SPLIT_LEVELS)
        self._columns = [
            position
            for position, feature in enumerate(cells.binner.columns)
            # numbers of fewer values are codes rather than amounts
            if not feature.column.categorical
            and len(np.unique(rows.X_public[:, position])) > N_BINS
        ]
        columns = len(self._columns)
        self._moved = Sensitivity(
            columns * loss.sensitivity.absolute, columns * loss.sensitivity.squared
        )

    def is_affordable(self, effective: float) -> bool:
        """Tell whether the noise is small beside so many rows."""
        if not self._columns:
            return False
        variance = self._level.variance(self._ledger.for_person(self._moved))
        return effective * 2 * MAX_GRADIENT >= ROWS_PER_SPLIT_NOISE * math.sqrt(variance)

    def split(self, margins: NDArray[np.int32]) -> BinnedData:
        """Spend all levels, and return the cells that came of it, for rows of such margins."""
        places = np.random.default_rng(0)
        for _ in range(SPLIT_LEVELS):
            cuts = {position: self._candidate_cuts(position, places) for position in self._columns}
            measured = self._ledger.add_noise(
                self._half_sums(cuts, margins),
                self._moved,
                self._level.event,
                name="noisy sums of residuals and slopes over halves of cells",
                proof=PROOF,
            )
            noise = measured.variance / (2 * MAX_GRADIENT) ** 2
            self._cut(cuts, measured.values / (2 * MAX_GRADIENT), noise)
        return self.cells

    def _candidate_cuts(self, position: int, places: np.random.Generator) -> Floats:
        """Return the fine cut nearest to a public random place in each cell.

        The outer cells end with the public rows.
        """
        cuts, public = self.cells.binner.columns[position].cuts, self._rows.X_public[:, position]
        known = public[np.isfinite(public)]
        edges = np.concatenate(
            [np.minimum(known.min(), cuts[:1]), cuts, np.maximum(known.max(), cuts[-1:])]
        )
        with np.errstate(over="ignore", invalid="ignore"):
            inside = edges[:-1] + places.uniform(0.3, 0.7, len(edges) - 1) * np.diff(edges)
        return snapped(self.cells.rows.fine_binner.columns[position].cuts, inside)

    def _half_sums(self, cuts: dict[int, Floats], margins: NDArray[np.int32]) -> Integers:
        """Add up residuals and slopes over both halves of each cell."""
        rows, halves = self.cells.rows, []
        for position, between in cuts.items():
            # a fine cell is above a place if it begins there
            begins = np.append(-np.inf, rows.fine_binner.columns[position].cuts)
            line = self.cells.bin_of_fine_bin[position].astype(np.intp)
            line *= 2
            line[:-1] += begins >= np.append(between, np.inf)[line[:-1] // 2]
            halves.append(line.astype(np.min_scalar_type(line[-1] + 1)))

        def of_chunk(at: slice) -> Integers:
            packed = self._loss.packed_gradient_hessian(margins[:, at], rows.y[at])
            found = [
                sum_packed(np.take(line, rows.columns[position][at]), int(line[-1]) + 2, packed)
                for position, line in zip(cuts, halves, strict=True)
            ]
            return np.concatenate(found, axis=2)

        table: Integers = rows.sum_over_chunks(of_chunk)
        return table.reshape(-1, table.shape[-1])

    def _cut(self, cuts: dict[int, Floats], noisy: Floats, noise: float) -> None:
        """Keep the cuts whose halves differ."""
        features = list(self.cells.binner.columns)
        targets = self._loss.n_targets
        start = 0
        for position, between in cuts.items():
            feature, size = features[position], len(between) + 1
            halves = noisy[:, start : start + 2 * size].reshape(2, targets, size, 2)
            start += 2 * size
            H = np.maximum(halves[1], 0.05)
            variance = ((noise + self._sampling * H) / H**2).sum(axis=-1)
            difference = (halves[0] / H) @ [1, -1]
            kept = chi2.sf((difference**2 / variance).sum(axis=0), targets) < MAX_P_VALUE
            kept[-1] = False  # missing values have no halves
            # neighbouring floats have nothing between them, and infinite ones no middle
            kept[:-1] &= np.isfinite(between) & ~np.isin(between, feature.cuts)
            found = np.union1d(feature.cuts, between[kept[:-1]])
            features[position] = ColumnBins(feature.column, found, len(found) + 2, feature.own)
        self.cells = self._rows.with_bins(Binner(tuple(features)))
