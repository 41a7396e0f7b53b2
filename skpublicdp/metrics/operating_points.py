"""Operating points: a threshold with its released rates, for all rows or for groups of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skpublicdp.metrics.counts import ScoreBins
from skpublicdp.metrics.estimates import RatioMetrics
from skpublicdp.metrics.noisy_counts import NoisyTable
from skpublicdp.metrics.score_intervals import extend_interval
from skpublicdp.typing import Floats

RATES = ("sensitivity", "specificity", "precision", "accuracy")
"""Rates of an operating point, in the order of the arrays below."""

EMPTY_RATES = (0.5, 0.5, 1.0, 0.5)
"""Values of the rates if no row counts for them."""


@dataclass(frozen=True, eq=False)
class OperatingPoint:
    """A decision threshold with its released rates and their intervals.

    Instances are returned by `PrivateScores.threshold_for` and `PrivateScores.rates_by_group`.

    Attributes
    ----------
    threshold : float or None
        Rows whose score is above the threshold are predicted to be positive. That of
        `threshold_for` is the next float above the scores that are counted below it, since
        `FixedThresholdClassifier` predicts rows whose score equals its threshold to be positive.
        None if the estimator has no scores, or more than two labels.
    sensitivity : float
        Fraction of the positive rows that are predicted to be positive (recall).
    specificity : float
        Fraction of the other rows that are not predicted to be positive.
    precision : float
        Fraction of the rows predicted to be positive that are positive.
    accuracy : float
        Fraction of the rows that are predicted correctly.
    n_rows : float
        Number of rows. The number of rows in a group is an estimate.
    intervals : dict
        Lower and upper end of the interval of each rate, by its name.
    level : float
        Confidence level of all intervals together.
    """

    threshold: float | None
    sensitivity: float
    specificity: float
    precision: float
    accuracy: float
    n_rows: float
    intervals: dict[str, tuple[float, float]]
    level: float

    def __repr__(self) -> str:
        threshold = "None" if self.threshold is None else f"{self.threshold:.4g}"
        lines = [f"OperatingPoint(threshold={threshold}), level {self.level:g}"]
        for rate in RATES:
            value = getattr(self, rate)
            low, high = self.intervals[rate]
            interval = f"[{low:.3f}, {high:.3f}]"
            lines.append(f"  {rate:<12}{value:.3f}  {interval}")
        return "\n".join(lines)


class BinParts(NamedTuple):
    """Parts of the rows in each bin that have a score above a threshold, shape (..., n_bins)."""

    negative: Floats  # estimated part of the negatives
    positive: Floats  # estimated part of the positives
    certain: Floats  # 1 for the bins that lie above the threshold
    possible: Floats  # 1 for these bins and the bin that contains the threshold


def parts_above(score_bins: ScoreBins, thresholds: Floats) -> BinParts:
    """Return the parts of each bin above thresholds, shape (..., n_bins).

    Inside a bin, the parts are those that the public rows predict. Without public rows, thresholds
    must be edges.
    """
    edges, curve = score_bins.edges, score_bins.curve
    bins = np.arange(score_bins.n_bins)
    own_bin = np.searchsorted(edges, thresholds)[..., None]  # the bin that contains a threshold
    upper_edge = np.append(edges, np.inf)[own_bin]
    is_inside = thresholds[..., None] < upper_edge
    certain = (bins > own_bin).astype(float)
    in_own_bin = (bins == own_bin) & is_inside
    possible = certain + in_own_bin
    if curve is None:
        return BinParts(certain, certain, certain, possible)
    shares = curve.shares_below(thresholds)[..., None]
    inner_ends = curve.shares_below(edges)
    ends = np.pad(inner_ends, ((0, 0), (1, 1)), constant_values=(0, 1))
    upper = ends[:, own_bin + 1]
    width = upper - ends[:, own_bin]
    middle = np.full(width.shape, 0.5)
    parts = np.divide(upper - shares, width, out=middle, where=width > 0)
    parts = np.clip(parts, 0, 1)
    negative, positive = certain + in_own_bin * parts
    return BinParts(negative, positive, certain, possible)


class BoundedRates(NamedTuple):
    """Rates of an operating point, with bounds."""

    estimate: RatioMetrics
    lowest: RatioMetrics  # rates that are not larger
    highest: RatioMetrics  # rates that are not smaller


def rates_above(above_negative: Floats, above_positive: Floats, cells: Floats) -> RatioMetrics:
    """Return the rates for a table of two labels, shape (4, ...), in the order of `RATES`.

    Parameters
    ----------
    above_negative, above_positive : ndarray of shape (..., n_bins)
        Parts of the negatives and of the positives in each bin that are predicted to be positive.
    cells : ndarray of shape (2, n_rows)
        Indicators of the rows of the table that contain negatives, and positives.
    """
    n_bins = above_negative.shape[-1]
    negatives, positives = cells[:, :, None] * np.ones(n_bins)  # (n_rows, n_bins) each
    false_positives = negatives * above_negative[..., None, :]
    true_positives = positives * above_positive[..., None, :]
    true_negatives = negatives - false_positives
    numerators = (
        true_positives,
        true_negatives,
        true_positives,
        true_positives + true_negatives,
    )
    denominators = (positives, negatives, true_positives + false_positives, positives + negatives)
    shape = true_positives.shape
    denominator = np.stack([np.broadcast_to(entry, shape) for entry in denominators])
    default = np.array(EMPTY_RATES).reshape(-1, *[1] * (len(shape) - 2))
    default = np.broadcast_to(default, denominator.shape[:-2])
    return RatioMetrics(np.stack(numerators), denominator, default)


def predicted_rates(n_labels: int, positive: int, rows: Floats) -> BoundedRates:
    """Return the rates of one label against the others in a table of labels by predicted labels.

    The accuracy is that of all labels. `rows`, shape (n_groups * n_labels,), is the indicator of
    the rows of the table that belong to a group.
    """
    labels = np.eye(n_labels)
    n_groups = len(rows) // n_labels
    is_label = np.tile(labels, (n_groups, 1))  # (n_rows, n_labels)
    is_positive = rows * is_label[:, positive]
    is_predicted = labels[positive]
    cells = np.stack([rows - is_positive, is_positive])
    rates = rates_above(is_predicted, is_predicted, cells)
    rates.numerator[-1] = rows[:, None] * is_label
    return BoundedRates(rates, rates, rates)


def operating_point(
    table: NoisyTable,
    rates: BoundedRates,
    threshold: float | None,
    level: float,
    n_intervals: int,
) -> OperatingPoint:
    """Return an operating point.

    Parameters
    ----------
    table : NoisyTable
        The released table.
    rates : BoundedRates
        The rates.
    threshold : float or None
        The threshold.
    level : float
        Probability with which all intervals hold.
    n_intervals : int
        Number of intervals among which the failure probability is divided.
    """
    values = rates.estimate.value(table)
    failure = (1 - level) / n_intervals
    low = rates.lowest.interval(table, failure)[:, 0]
    high = rates.highest.interval(table, failure)[:, 1]
    intervals = extend_interval(np.stack([low, high], axis=1), values)
    all_rows = rates.estimate.denominator[-1]  # of the accuracy
    return OperatingPoint(
        threshold,
        sensitivity=float(values[0]),
        specificity=float(values[1]),
        precision=float(values[2]),
        accuracy=float(values[3]),
        n_rows=float((all_rows * table.nonnegative).sum()),
        intervals={
            rate: (float(low), float(high))
            for rate, (low, high) in zip(RATES, intervals, strict=True)
        },
        level=level,
    )


def rates_at(score_bins: ScoreBins, threshold: float, cells: Floats) -> BoundedRates:
    """Return the rates at a threshold.

    The rates of a threshold inside a bin are bounded by those in which all rows of the bin are
    predicted wrongly, and in which all are predicted correctly.
    """
    negative, positive, certain, possible = parts_above(score_bins, np.array(threshold))
    return BoundedRates(
        rates_above(negative, positive, cells),
        rates_above(possible, certain, cells),
        rates_above(certain, possible, cells),
    )


def n_simultaneous(n_edges: int) -> int:
    """Return the number of intervals that hold for the rates at every threshold.

    Sensitivities and specificities are bounded by those at edges. Precisions and accuracies have an
    interval for each edge, and one for all thresholds in a bin.
    """
    return 2 * n_edges + 2 * (2 * n_edges + 1)


def find_threshold(
    score_bins: ScoreBins, counts: Floats, rate: str, target: float
) -> tuple[float | None, float]:
    """Return the threshold with a given rate, and the largest rate of any threshold.

    The threshold is the largest with this sensitivity, or the smallest with this specificity or
    precision. It is None if no threshold has the rate.

    Parameters
    ----------
    score_bins : ScoreBins
        Bins of the scores.
    counts : ndarray of shape (2, n_bins)
        Nonnegative counts, with the negatives first.
    rate : {"sensitivity", "specificity", "precision"}
        Rate of the threshold.
    target : float
        Value of the rate.
    """
    thresholds, curve = score_bins.edges, score_bins.curve
    if curve is not None:
        thresholds = np.union1d(thresholds, curve.knots)
    parts = parts_above(score_bins, thresholds)
    false_positives, true_positives = parts.negative @ counts[0], parts.positive @ counts[1]
    if rate == "sensitivity":  # decreases in the threshold
        values = true_positives / max(counts[1].sum(), 1e-300)
    elif rate == "specificity":
        values = 1 - false_positives / max(counts[0].sum(), 1e-300)
    else:
        n_predicted = true_positives + false_positives
        values = np.divide(
            true_positives, n_predicted, out=np.zeros(len(thresholds)), where=n_predicted > 0
        )
    reached = np.flatnonzero(values >= target)
    if not len(reached):
        return None, float(values.max())
    if curve is not None and rate != "precision":
        order = slice(None, None, -1) if rate == "sensitivity" else slice(None)
        nearest = np.interp(target, values[order], thresholds[order])
        return float(nearest), float(values.max())
    position = reached[-1] if rate == "sensitivity" else reached[0]
    return float(thresholds[position]), float(values.max())
