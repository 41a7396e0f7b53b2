"""Metrics as ratios of sums over a noisy table: values and intervals of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skpublicdp.metrics.noisy_counts import NoisyTable
from skpublicdp.metrics.score_bins import Cells
from skpublicdp.metrics.score_intervals import fieller, first_guess, imagined, ratio_interval

Floats = NDArray[np.float64]

BINS = 8
"""Of a calibration curve."""


CLEAR = 2
"""Deviations of its noise by which a class stands out."""

FEW = 0.25
"""Rows imagined at either end of a class, so that no variance is zero because all rows agree."""


@dataclass(frozen=True, eq=False)
class PairMean:
    """Mean over pairs of a positive and a negative row, each drawn by itself.

    Attributes
    ----------
    kernel : ndarray of shape (n_cells, n_cells)
        What is averaged, at the cell of the positive row and that of the negative one.
    """

    kernel: Floats

    def sums(self, counts: Floats) -> tuple[Floats, Floats, float, float]:
        """Return gradients and values of numerator and denominator."""
        negative, positive = counts
        of_positive, of_negative = self.kernel @ negative, positive @ self.kernel
        upper = np.concatenate([of_negative, of_positive])
        size = np.repeat([positive.sum(), negative.sum()], counts.shape[1])
        return upper, size, float(positive @ of_positive), float(positive.sum() * negative.sum())

    def value(self, table: NoisyTable) -> float:
        """Return the estimate; one half where a class is empty."""
        label = np.repeat(np.eye(2), table.counts.shape[1], axis=1)
        noise = np.sqrt(table.covariance(label, label))
        # without negative counts there is bias, but where a class is lost in noise there is none
        clear = (table.counts.sum(1) > CLEAR * noise).all()
        _, _, over, under = self.sums(table.counts if clear else table.likely)
        return float(np.clip(over / under, 0, 1)) if under > 0 else 0.5

    def interval(self, table: NoisyTable, failure: float) -> Floats:
        """Return its interval, of shape (2,)."""
        upper, lower, over, under = self.sums(table.counts)
        totals = np.array(over), np.array(under)
        guess = first_guess(*totals)
        noise = [
            table.covariance(one, other)
            for one, other in ((upper, upper), (upper, lower), (lower, lower))
        ]
        variance = noise[0] - 2 * guess * noise[1] + guess**2 * noise[2]
        # gradients at noisy counts hold the noise of pairs twice, where it is at most half of all;
        # half of the excess is taken off, for what is left varies
        pairs = table.variance**2 * ((self.kernel - guess) ** 2).sum()
        once = max(1 - pairs / variance / 2, 0.75) if variance > 0 else 1.0
        a, b, c = (once * part for part in noise)
        rows, doubt = self._of_rows(table, under)
        spreads = a, b - rows / 2, c - rows  # those of rows are θ (1 - θ) times something
        whole = a - 2 * guess * b + guess**2 * c + rows * guess * (1 - guess)
        doubtful = doubt * (guess * (1 - guess) / whole) ** 2 if whole > 0 else np.array(0.0)
        fourth = table.fourth(upper - guess * lower)
        return fieller(*totals, spreads, fourth, failure, doubtful)

    def _of_rows(self, table: NoisyTable, under: float) -> tuple[float, float]:
        """Return what the choice of rows adds to the variance, over θ (1 - θ), and of that itself.

        The second is the sum over classes of the square of what it adds, over its rows: one over
        the degrees of freedom, but for the whole variance squared.
        """
        counts = table.likely.copy()
        counts[:, [0, -1]] += FEW
        upper, lower, over, all_pairs = self.sums(counts)
        mean = over / all_pairs
        squares = ((upper - mean * lower) ** 2).reshape(counts.shape)
        scale = table.crowd * (under / all_pairs) ** 2 / (mean * (1 - mean))
        added = scale * (counts * squares).sum(1)
        return float(added.sum()), float((table.crowd * added**2 / counts.sum(1)).sum())


def ranking(n_cells: int) -> PairMean:
    """Return the area under the ROC curve: ties in a cell count half."""
    ones = np.ones((n_cells, n_cells))
    return PairMean((np.tril(ones) + np.tril(ones, -1)) / 2)


def balance(cells: Cells) -> PairMean:
    """Return the mean of both classes' shares of right predictions."""
    positive = (np.arange(cells.size) >= cells.decided) / 2
    return PairMean(positive[:, None] + 0.5 - positive)


@dataclass(frozen=True, eq=False)
class Ratios:
    """Ratios of sums of rows with some weights.

    Attributes
    ----------
    upper, lower : ndarray of shape (..., n_labels, n_cells)
        Weights of a row in numerator and denominator, from 0 to 1.
    empty : ndarray of shape (...,)
        What the ratio is where no row counts.
    """

    upper: Floats
    lower: Floats
    empty: Floats

    def value(self, table: NoisyTable, *, unbiased: bool = False) -> Floats:
        """Return the estimates, from a table without negative counts or from the unbiased one."""
        counts = table.counts if unbiased else table.likely
        over = (self.upper * counts).sum((-2, -1))
        under = (self.lower * counts).sum((-2, -1))
        found = np.divide(over, under, out=np.array(self.empty, dtype=float), where=under > 0)
        shares: Floats = np.clip(found, 0, 1)
        return shares

    def interval(self, table: NoisyTable, failure: float) -> Floats:
        """Return an interval for each, of shape (..., 2)."""
        flat = (*self.upper.shape[:-2], -1)
        upper = self.upper.reshape(flat)
        lower = np.broadcast_to(self.lower, self.upper.shape).reshape(flat)
        counts = table.counts.ravel()
        return ratio_interval(
            table,
            upper,
            lower,
            (upper @ counts, lower @ counts),
            failure,
            table.likely.ravel(),
            2 * imagined(failure),
        )


def shares_of_all(n_labels: int, cells: Cells | None) -> Ratios:
    """Return the share of all rows in each entry of a confusion matrix."""
    if cells is None:
        predicted = np.eye(n_labels)
    else:
        positive = np.arange(cells.size) >= cells.decided
        predicted = np.array([~positive, positive], dtype=float)
    upper = np.eye(n_labels)[:, None, :, None] * predicted[None, :, None, :]
    return Ratios(upper, np.ones(upper.shape[-2:]), np.zeros(upper.shape[:2]))


def recalls(n_labels: int) -> Ratios:
    """Return the share of right predictions in each class of a confusion matrix."""
    one = np.eye(n_labels)
    upper = one[:, :, None] * one[:, None, :]
    return Ratios(upper, np.repeat(one[:, :, None], n_labels, axis=2), np.full(n_labels, 0.5))


def above(n_cells: int) -> Floats:
    """Return which cells are above each edge, of shape (n_cells - 1, n_cells)."""
    return np.triu(np.ones((n_cells, n_cells)))[1:]


def rates(n_cells: int) -> Ratios:
    """Return false and true positive rates at each edge, of shape (2, n_cells - 1)."""
    label = np.eye(2)[:, None, :, None]
    upper = label * above(n_cells)[None, :, None, :]
    lower = np.broadcast_to(label, upper.shape)
    return Ratios(upper, lower, np.zeros(upper.shape[:2]))


def precisions(n_cells: int) -> Ratios:
    """Return the share of positive rows above each edge."""
    lower = np.repeat(above(n_cells)[:, None, :], 2, axis=1)
    return Ratios(lower * np.array([0.0, 1.0])[:, None], lower, np.ones(n_cells - 1))


def right_shares(n_cells: int) -> Ratios:
    """Return the share of right predictions, were each edge the threshold."""
    over = above(n_cells)
    upper = np.stack([1 - over, over], axis=1)
    return Ratios(upper, np.ones((2, n_cells)), np.zeros(n_cells - 1))


def squared_errors(centers: Floats) -> Ratios:
    """Return the mean squared error of probabilities."""
    upper = np.stack([centers**2, (1 - centers) ** 2])
    return Ratios(upper, np.ones_like(upper), np.array(0.0))


def bins(n_cells: int) -> Floats:
    """Return which cells are in each bin of a calibration curve, of shape (n_bins, n_cells)."""
    parts = np.array_split(np.arange(n_cells), min(BINS, n_cells))
    return np.array([np.isin(np.arange(n_cells), part) for part in parts], dtype=float)


def observed(n_cells: int, positives: Floats) -> Ratios:
    """Return the share of positive rows in each bin; where it is empty, what was predicted."""
    lower = np.repeat(bins(n_cells)[:, None, :], 2, axis=1)
    return Ratios(lower * np.array([0.0, 1.0])[:, None], lower, positives)
