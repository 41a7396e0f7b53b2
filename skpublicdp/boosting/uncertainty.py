"""Variance of the predicted mean of a row, from released numbers and public rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skpublicdp.boosting.bin_splits import apply_tree
from skpublicdp.boosting.binner import BinCodes, ColumnBins
from skpublicdp.boosting.explain import centred_deviations
from skpublicdp.boosting.fit import FittedModel
from skpublicdp.boosting.model import MARGIN_UNIT
from skpublicdp.hypotheses.trees import DecisionTree
from skpublicdp.typing import Floats

SLOPE_WINDOW = 12
"""Slopes of shape functions are finite differences over ± n_bins / 12 bins."""


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """Linear interpolation of a column's step function through the centres of its bins.

    Attributes
    ----------
    bin_centres, slopes : ndarray of float64, shape (n_bins - 1,)
        Centre and local slope of each bin except the bin of missing values.
    low, high : float
        Range of the public values.
    """

    bin_centres: Floats
    slopes: Floats
    low: float
    high: float

    def deviation_from_steps(self, bins: BinCodes, values: Floats) -> Floats:
        """Return the difference between the line and the step at each value; 0 if missing."""
        width = self.high - self.low
        is_known = bins < len(self.bin_centres)
        clipped = np.clip(values[is_known], self.low - width, self.high + width)
        distances = clipped - self.bin_centres[bins[is_known]]
        deviations = np.zeros(len(bins))
        deviations[is_known] = self.slopes[bins[is_known]] * distances
        return deviations


def piecewise_linear(feature: ColumnBins, scores: Floats) -> PiecewiseLinear:
    """Return the piecewise linear version of a numeric column's shape function."""
    values = np.asarray(feature.column.values, dtype=np.float64)
    values = np.append(values[np.isfinite(values)], feature.cuts)
    low, high = float(values.min()), float(values.max())
    ends = np.concatenate([[low], feature.cuts, [high]])
    centres = (ends[1:] + ends[:-1]) / 2
    # the mean of the public values of a bin is its centre, if it has any
    public = values[: len(values) - len(feature.cuts)]
    bins = np.searchsorted(feature.cuts, public)
    counts = np.bincount(bins, minlength=len(centres))
    has_rows = counts > 0
    sums = np.bincount(bins, public, minlength=len(centres))
    centres[has_rows] = sums[has_rows] / counts[has_rows]
    reach, last = max(1, round(len(centres) / SLOPE_WINDOW)), len(centres) - 1
    above = np.minimum(np.arange(last + 1) + reach, last)
    below = np.maximum(np.arange(last + 1) - reach, 0)
    runs, rises = centres[above] - centres[below], scores[above] - scores[below]
    slopes = np.divide(rises, runs, out=np.zeros(len(runs)), where=runs > 0)
    # the outermost bins are wide, so the steepest slope is assumed there
    slopes[[0, -1]] = np.abs(slopes).max()
    return PiecewiseLinear(centres, slopes, low, high)


class PredictionVariance:
    """Posterior variance of the predicted mean, for one target.

    The posterior variances of a row's bins and leaves add up. The squared difference between steps
    and lines is added for each number, as an estimate of the discretisation error.

    Parameters
    ----------
    fitted : FittedModel
        Model and posterior covariances.
    margin_size : float
        Size of one margin unit on the output scale.
    """

    def __init__(self, fitted: FittedModel, margin_size: float) -> None:
        features, codes = fitted.data.binner, fitted.data.public_codes
        scores = [
            np.array(
                fitted.model.scores[0, start:stop] * (margin_size / MARGIN_UNIT), dtype=np.float64
            )
            for start, stop in zip(features.offsets, features.offsets[1:], strict=False)
        ]
        self._lines = [
            piecewise_linear(feature, bin_scores) if len(feature.cuts) else None
            for feature, bin_scores in zip(features.columns, scores, strict=True)
        ]
        self._trees: tuple[DecisionTree, ...] = fitted.model.trees
        partitions = [*codes, *(apply_tree(tree.splits, codes) for tree in self._trees)]
        self._variances = []
        for bins, covariances in zip(partitions, fitted.covariances, strict=True):
            shares = np.bincount(bins, minlength=covariances.shape[-1]) / len(bins)
            self._variances.append((margin_size * centred_deviations(covariances, shares)[0]) ** 2)

    def variances(self, codes: BinCodes, rows: Floats) -> Floats:
        """Return the variance of each row's predicted mean.

        Parameters
        ----------
        codes : ndarray of int, shape (n_columns, n)
            Bin codes of the rows.
        rows : ndarray of float64, shape (n, n_columns)
            The same rows, encoded.
        """
        total = np.zeros(len(rows))
        partitions = [*codes, *(apply_tree(tree.splits, codes) for tree in self._trees)]
        for bins, variances in zip(partitions, self._variances, strict=True):
            total += variances[bins]
        for bins, values, line in zip(codes, rows.T, self._lines, strict=True):
            if line is not None:
                total += line.deviation_from_steps(bins, values) ** 2
        return total
