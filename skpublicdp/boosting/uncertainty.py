"""Posterior variances of predicted means, computed from released numbers and public rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from skpublicdp.boosting.bin_splits import apply_tree
from skpublicdp.boosting.binner import BinCodes, ColumnBins
from skpublicdp.boosting.explain import centred_deviations
from skpublicdp.boosting.fitted_model import FittedModel
from skpublicdp.boosting.model import MARGIN_UNIT
from skpublicdp.data.binning import midpoint
from skpublicdp.hypotheses.trees import DecisionTree
from skpublicdp.typing import Floats

SLOPE_WINDOW = 12
"""Parameter of the window for the slope of a shape function. The slope at a bin is a finite
difference over n_bins / SLOPE_WINDOW bins on either side."""


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """Interpolation of a column's step function by straight lines through the bin centres."""

    # (n_bins - 1,): centre and local slope of each bin, except the bin for missing values
    bin_centres: Floats
    slopes: Floats
    # range of the public values
    low: float
    high: float

    def deviation_from_steps(self, bins: BinCodes, values: Floats) -> Floats:
        """Return the interpolated score of each value minus the score of its bin.

        The difference between both scores estimates the discretisation error. The difference is 0
        for missing values.
        """
        is_number = bins < len(self.bin_centres)
        deviations = np.zeros(len(bins))
        with np.errstate(all="ignore"):  # values near the largest float overflow
            width = self.high - self.low
            # extrapolate by at most the width of the public range
            clipped = np.clip(values[is_number], self.low - width, self.high + width)
            number_bins = bins[is_number]
            distances = clipped - self.bin_centres[number_bins]
            products = self.slopes[number_bins] * distances
            # without a usable slope, the score of the bin is the best estimate
            deviations[is_number] = np.where(np.isfinite(products), products, 0.0)
        return deviations


def piecewise_linear(bins: ColumnBins, scores: Floats) -> PiecewiseLinear:
    """Return the piecewise linear interpolation of a numeric column's shape function.

    The centre of a bin is the mean of its public values. If a bin has no public values, the centre
    is the midpoint of its ends.

    Parameters
    ----------
    scores : ndarray of float64, shape (n_bins,)
        Score of each bin. The last bin is for missing values.
    """
    public_values = np.asarray(bins.column.values, dtype=np.float64)
    is_finite = np.isfinite(public_values)
    public_values = public_values[is_finite]
    values = np.append(public_values, bins.cuts)
    low = float(values.min())
    high = float(values.max())

    ends = np.concatenate([[low], bins.cuts, [high]])
    centres = midpoint(ends[:-1], ends[1:])  # (n_intervals,)
    n_intervals = len(centres)
    bin_of_value = np.searchsorted(bins.cuts, public_values)
    counts = np.bincount(bin_of_value, minlength=n_intervals)
    sums = np.bincount(bin_of_value, public_values, minlength=n_intervals)
    # a sum of values near the largest float overflows
    has_mean = (counts > 0) & np.isfinite(sums)
    means = sums[has_mean] / counts[has_mean]
    centres[has_mean] = means

    window = max(1, round(n_intervals / SLOPE_WINDOW))
    positions = np.arange(n_intervals)
    last = n_intervals - 1
    upper = np.minimum(positions + window, last)
    lower = np.maximum(positions - window, 0)
    with np.errstate(over="ignore"):  # a slope is 0 in an infinite run, and infinite in a tiny one
        runs = centres[upper] - centres[lower]
        rises = scores[upper] - scores[lower]
        slopes = np.divide(rises, runs, out=np.zeros(n_intervals), where=runs > 0)
    # since the outermost bins are wide, the steepest slope is conservatively assumed there
    steepest = np.abs(slopes).max()
    slopes[[0, -1]] = steepest
    return PiecewiseLinear(centres, slopes, low, high)


class PredictionVariance:
    """Posterior variance of the predicted mean, for one target.

    The variance is the sum of three components: the expected squared errors of the scores of a
    row's bins and leaves, the expected squared error of a public model's contribution, and an
    estimated squared discretisation error for each numeric column. The discretisation error is
    estimated as the difference between the step function and its linear interpolation.

    Parameters
    ----------
    fitted : FittedModel
        Model and posterior covariances.
    margin_size : float
        Output per unit of margin.
    """

    def __init__(self, fitted: FittedModel, margin_size: float) -> None:
        model, binner = fitted.model, fitted.data.binner
        score_unit = np.float64(margin_size / MARGIN_UNIT)
        self._lines: list[PiecewiseLinear | None] = []  # None for columns without cuts
        for bins, (start, stop) in zip(binner.columns, pairwise(binner.offsets), strict=True):
            scores: Floats = model.scores[0, start:stop] * score_unit
            is_numeric = len(bins.cuts) > 0
            line = piecewise_linear(bins, scores) if is_numeric else None
            self._lines.append(line)
        self._trees: tuple[DecisionTree, ...] = model.trees
        term = fitted.public_term
        self._constant = 0.0 if term is None else margin_size**2 * term.variance
        self._variances = []  # variances of each bin or leaf, by term
        terms = self._codes_of_terms(fitted.data.public_codes)
        errors = fitted.error_covariances or fitted.covariances
        for codes, covariances in zip(terms, errors, strict=True):
            n_bins = covariances.shape[-1]
            counts = np.bincount(codes, minlength=n_bins)
            shares = counts / len(codes)
            deviations = margin_size * centred_deviations(covariances, shares)[0]
            self._variances.append(deviations**2)

    def _codes_of_terms(self, codes: BinCodes) -> list[BinCodes]:
        """Return the rows' bins in each column, followed by their leaves in each tree."""
        return [*codes, *(apply_tree(tree.splits, codes) for tree in self._trees)]

    def variances(self, codes: BinCodes, rows: Floats) -> Floats:
        """Return the posterior variance of each row's predicted mean, shape (n,)."""
        total = np.full(len(rows), self._constant)
        for term_codes, variances in zip(self._codes_of_terms(codes), self._variances, strict=True):
            total += variances[term_codes]
        for bins, values, line in zip(codes, rows.T, self._lines, strict=True):
            if line is not None:
                with np.errstate(over="ignore"):
                    total += line.deviation_from_steps(bins, values) ** 2
        return total
