"""How sure the mean outcome of a row is, from released numbers and public rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skpublicdp.boosting.bin_splits import apply_tree
from skpublicdp.boosting.binner import Codes, ColumnBins
from skpublicdp.boosting.explain import centred_deviations
from skpublicdp.boosting.fit import FittedModel
from skpublicdp.boosting.model import MARGIN_UNIT
from skpublicdp.hypotheses.trees import DecisionTree
from skpublicdp.typing import Floats

SLOPE_WINDOW = 12
"""Scores are taken for a line over one of so many parts of a column's cells, on either side."""


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """A column's scores as a line through the bin_centres of its cells.

    Attributes
    ----------
    bin_centres, slopes : ndarray of float64, shape (n_cells - 1,)
        Of each cell but that for missing values.
    low, high : float
        Where the public values end.
    """

    bin_centres: Floats
    slopes: Floats
    low: float
    high: float

    def deviation_from_steps(self, line: Codes, values: Floats) -> Floats:
        """Return how far the line is from the scores at given values; 0 where they are missing."""
        width = self.high - self.low
        known = line < len(self.bin_centres)
        places = np.clip(values[known], self.low - width, self.high + width)
        found = np.zeros(len(line))
        found[known] = self.slopes[line[known]] * (places - self.bin_centres[line[known]])
        return found


def piecewise_linear(feature: ColumnBins, scores: Floats) -> PiecewiseLinear:
    """Return the line of a number's scores."""
    values = np.asarray(feature.column.values, dtype=np.float64)
    values = np.append(values[np.isfinite(values)], feature.cuts)
    low, high = float(values.min()), float(values.max())
    ends = np.concatenate([[low], feature.cuts, [high]])
    bin_centres = (ends[1:] + ends[:-1]) / 2
    # public values have their own middle, where there are any
    public = values[: len(values) - len(feature.cuts)]
    cells = np.searchsorted(feature.cuts, public)
    counts = np.bincount(cells, minlength=len(bin_centres))
    some = counts > 0
    bin_centres[some] = np.bincount(cells, public, minlength=len(bin_centres))[some] / counts[some]
    reach, last = max(1, round(len(bin_centres) / SLOPE_WINDOW)), len(bin_centres) - 1
    above = np.minimum(np.arange(last + 1) + reach, last)
    below = np.maximum(np.arange(last + 1) - reach, 0)
    runs, rises = bin_centres[above] - bin_centres[below], scores[above] - scores[below]
    slopes = np.divide(rises, runs, out=np.zeros(len(runs)), where=runs > 0)
    # outermost cells are wide, and nobody knows how scores go on there
    slopes[[0, -1]] = np.abs(slopes).max()
    return PiecewiseLinear(bin_centres, slopes, low, high)


class PredictionVariance:
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
            np.array(learned.model.scores[0, start:stop] * (unit / MARGIN_UNIT), dtype=np.float64)
            for start, stop in zip(features.offsets, features.offsets[1:], strict=False)
        ]
        self._lines = [
            piecewise_linear(feature, of_cells) if len(feature.cuts) else None
            for feature, of_cells in zip(features.columns, scores, strict=True)
        ]
        self._trees: tuple[DecisionTree, ...] = learned.model.trees
        lines = [*codes, *(apply_tree(tree.splits, codes) for tree in self._trees)]
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
        lines = [*codes, *(apply_tree(tree.splits, codes) for tree in self._trees)]
        for line, variances in zip(lines, self._variances, strict=True):
            found += variances[line]
        for line, values, slopes in zip(codes, rows.T, self._lines, strict=True):
            if slopes is not None:
                found += slopes.deviation_from_steps(line, values) ** 2
        return found
