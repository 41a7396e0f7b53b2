"""How sure the mean outcome of a row is, from released numbers and public rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.binner import Codes, ColumnBins
from skpublicdp.boosting.explain import centred_deviations
from skpublicdp.boosting.fit import FittedModel
from skpublicdp.boosting.questions import leaves
from skpublicdp.boosting.scores import UNIT
from skpublicdp.hypotheses.trees import DecisionTree

Floats = NDArray[np.float64]

STEEP = 12
"""Scores are taken for a line over one of so many parts of a column's cells, on either side."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """A column's scores as a line through the middles of its cells.

    Attributes
    ----------
    middles, slopes : ndarray of float64, shape (n_cells - 1,)
        Of each cell but that for missing values.
    low, high : float
        Where the public values end.
    """

    middles: Floats
    slopes: Floats
    low: float
    high: float

    def away(self, line: Codes, values: Floats) -> Floats:
        """Return how far the line is from the scores at given values; 0 where they are missing."""
        width = self.high - self.low
        known = line < len(self.middles)
        places = np.clip(values[known], self.low - width, self.high + width)
        found = np.zeros(len(line))
        found[known] = self.slopes[line[known]] * (places - self.middles[line[known]])
        return found


def slopes_of(feature: ColumnBins, scores: Floats) -> Slopes:
    """Return the line of a number's scores."""
    values = np.asarray(feature.column.values, dtype=np.float64)
    values = np.append(values[np.isfinite(values)], feature.cuts)
    low, high = float(values.min()), float(values.max())
    ends = np.concatenate([[low], feature.cuts, [high]])
    middles = (ends[1:] + ends[:-1]) / 2
    # public values have their own middle, where there are any
    public = values[: len(values) - len(feature.cuts)]
    cells = np.searchsorted(feature.cuts, public)
    counts = np.bincount(cells, minlength=len(middles))
    some = counts > 0
    middles[some] = np.bincount(cells, public, minlength=len(middles))[some] / counts[some]
    reach, last = max(1, round(len(middles) / STEEP)), len(middles) - 1
    above = np.minimum(np.arange(last + 1) + reach, last)
    below = np.maximum(np.arange(last + 1) - reach, 0)
    runs, rises = middles[above] - middles[below], scores[above] - scores[below]
    slopes = np.divide(rises, runs, out=np.zeros(len(runs)), where=runs > 0)
    # outermost cells are wide, and nobody knows how scores go on there
    slopes[[0, -1]] = np.abs(slopes).max()
    return Slopes(middles, slopes, low, high)


class Spread:
    """Variances of what is believed of the means of rows: of one target.

    The variances of the cells and leaves that a row is in add up. To these comes, squared, by how
    much the scores of numbers would differ if they were lines instead of steps.

    Parameters
    ----------
    learned : FittedModel
        What was learned.
    unit : float
        What a margin of 1 is called.
    """

    def __init__(self, learned: FittedModel, unit: float) -> None:
        features, codes = learned.data.binner, learned.data.public_codes
        scores = [
            np.array(learned.model.scores[0, start:stop] * (unit / UNIT), dtype=np.float64)
            for start, stop in zip(features.offsets, features.offsets[1:], strict=False)
        ]
        self._lines = [
            slopes_of(feature, of_cells) if len(feature.cuts) else None
            for feature, of_cells in zip(features.columns, scores, strict=True)
        ]
        self._trees: tuple[DecisionTree, ...] = learned.model.trees
        lines = [*codes, *(leaves(tree.splits, codes) for tree in self._trees)]
        self._variances = []
        for line, covariances in zip(lines, learned.covariances, strict=True):
            shares = np.bincount(line, minlength=covariances.shape[-1]) / len(line)
            self._variances.append((unit * centred_deviations(covariances, shares)[0]) ** 2)

    def variances(self, codes: Codes, rows: Floats) -> Floats:
        """Return the variance of each mean.

        Parameters
        ----------
        codes : ndarray of int, shape (n_columns, n)
            Cells of rows.
        rows : ndarray of float64, shape (n, n_columns)
            The same rows, encoded.
        """
        found = np.zeros(len(rows))
        lines = [*codes, *(leaves(tree.splits, codes) for tree in self._trees)]
        for line, variances in zip(lines, self._variances, strict=True):
            found += variances[line]
        for line, values, slopes in zip(codes, rows.T, self._lines, strict=True):
            if slopes is not None:
                found += slopes.away(line, values) ** 2
        return found
