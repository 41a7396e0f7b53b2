"""Adaptive binning, which splits numeric bins whose halves have different noisy mean gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import BinCodes, Binner, ColumnBins
from skpublicdp.boosting.budget_split import N_BINS, StageBudget
from skpublicdp.boosting.histograms import BOOSTING_PROOF
from skpublicdp.boosting.loss import Loss, sum_packed
from skpublicdp.boosting.model import MAX_GRADIENT
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.data.binning import snap_to_edges
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Floats, Integers

SPLIT_LEVELS = 6
"""Number of split levels. Each initial bin is split into at most 2^6 bins."""

BIN_SPLIT_SHARE = Fraction(8, 100)
"""Share of the budget spent on all split levels together."""

ROWS_PER_SPLIT_NOISE = 1500
"""Minimum ratio of the number of rows to the standard deviation of the noise, in rows, in the
gradient sum of a half bin. If the ratio is smaller, no bin is split."""

MAX_P_VALUE = 0.008
"""Largest p-value of a chi-squared test for equal mean gradients at which a split is kept."""

MIN_CUT_FRACTION, MAX_CUT_FRACTION = 0.3, 0.7
"""Range of candidate cuts, as fractions of the bin width. The range excludes cuts that would create
a very narrow half."""


@dataclass(eq=False, repr=False)  # a repr would print private rows
class BinSplitter:
    """Adaptive splitter that divides the bins of numeric columns in two, level by level."""

    training: TrainingData
    data: BinnedData
    loss: Loss
    ledger: Ledger  # ledger that records the privacy loss of each release and draws the noise
    # Budget of Newton boosting. All split levels together spend the fraction `BIN_SPLIT_SHARE` of
    # this budget.
    budget: StageBudget
    gradient_variance: float  # ratio of the variance of a row's gradient to the hessian

    def __post_init__(self) -> None:
        self._level_budget = self.budget.fraction(BIN_SPLIT_SHARE / SPLIT_LEVELS)
        X_public = self.training.X_public
        self._columns = [
            position
            for position, bins in enumerate(self.data.binner.columns)
            # columns with few distinct values are treated as codes rather than quantities
            if not bins.column.categorical and len(np.unique(X_public[:, position])) > N_BINS
        ]
        n_columns, sensitivity = len(self._columns), self.loss.sensitivity
        self._sensitivity = Sensitivity(
            n_columns * sensitivity.absolute, n_columns * sensitivity.squared
        )

    def is_affordable(self, effective_rows: float) -> bool:
        """Indicate whether the noise of a single level is small relative to the number of rows."""
        if not self._columns:
            return False
        variance = self._level_budget.variance(self.ledger.for_person(self._sensitivity))
        return effective_rows * 2 * MAX_GRADIENT >= ROWS_PER_SPLIT_NOISE * math.sqrt(variance)

    def split(self, margins: NDArray[np.int32]) -> BinnedData:
        """Split the bins level by level, and return the data in the final bins.

        Parameters
        ----------
        margins : ndarray of int32, shape (n_targets, n)
            Margins of the private rows.
        """
        # a public seed suffices, since the candidate cuts are public
        generator = np.random.default_rng(0)
        for _ in range(SPLIT_LEVELS):
            cuts = {column: self._candidate_cuts(column, generator) for column in self._columns}
            measured = self.ledger.add_noise(
                self._half_sums(cuts, margins),
                self._sensitivity,
                self._level_budget.event,
                name="noisy gradient and hessian histogram of half bins",
                proof=BOOSTING_PROOF,
            )
            sums = measured.values / (2 * MAX_GRADIENT)
            self._split_significant(cuts, sums, measured.variance / (2 * MAX_GRADIENT) ** 2)
        return self.data

    def _candidate_cuts(self, column: int, generator: np.random.Generator) -> Floats:
        """Return a random cut inside each interval of a numeric column, shape (n_bins - 1,).

        A point is drawn uniformly from the middle part of the interval and moved to the nearest
        fine cut. The outermost intervals end at the smallest and the largest public value. If
        either end of an interval is infinite, the cut is not finite.
        """
        cuts = self.data.binner.columns[column].cuts
        values = self.training.X_public[:, column]
        is_finite = np.isfinite(values)
        finite = values[is_finite]
        low = np.minimum(finite.min(), cuts[:1])
        high = np.maximum(finite.max(), cuts[-1:])
        edges = np.concatenate([low, cuts, high])
        n_intervals = len(edges) - 1
        fractions = generator.uniform(MIN_CUT_FRACTION, MAX_CUT_FRACTION, n_intervals)
        with np.errstate(over="ignore", invalid="ignore"):
            widths = np.diff(edges)
            points = edges[:-1] + fractions * widths
        fine_bins = self.data.rows.fine_binner.columns[column]
        return snap_to_edges(fine_bins.cuts, points)

    def _half_sums(self, cuts: dict[int, Floats], margins: NDArray[np.int32]) -> Integers:
        """Return the gradient and hessian sums of both halves of every bin.

        Parameters
        ----------
        cuts : dict of int to ndarray
            Candidate cuts of the numeric bins, indexed by column.
        margins : ndarray of int32, shape (n_targets, n)
            Margins of the private rows.

        Returns
        -------
        ndarray of int64, shape (2 * n_targets, n_halves)
            Gradient sums of all targets, followed by the hessian sums. Within each column, the
            halves of bin i have the indices 2 i and 2 i + 1.
        """
        rows, loss = self.data.rows, self.loss
        halves_by_column = {
            column: self._half_of_fine_bin(column, candidates)
            for column, candidates in cuts.items()
        }

        def sum_chunk(chunk: slice) -> Integers:
            """Return the sums over a single chunk of rows, shape (2, n_targets, n_halves)."""
            packed = loss.packed_gradient_hessian(margins[:, chunk], rows.y[chunk])
            sums = []
            for column, half_of_fine_bin in halves_by_column.items():
                fine_bins = rows.columns[column][chunk]
                half_of_row = np.take(half_of_fine_bin, fine_bins)
                # the last fine bin contains the missing values and belongs to the first half of the
                # last bin
                n_halves = int(half_of_fine_bin[-1]) + 2
                sums.append(sum_packed(half_of_row, n_halves, packed))
            return np.concatenate(sums, axis=2)

        table: Integers = rows.sum_over_chunks(sum_chunk)
        return table.reshape(-1, table.shape[-1])

    def _half_of_fine_bin(self, column: int, candidates: Floats) -> BinCodes:
        """Return the half bin containing each fine bin of a column, shape (n_fine_bins,).

        The lower half of bin i is numbered 2 i, and the upper half 2 i + 1. The last bin and the
        last fine bin contain the missing values, and this bin is not split.
        """
        bin_of_fine_bin = self.data.bin_of_fine_bin[column]
        bins = bin_of_fine_bin.astype(np.intp)
        fine_binner = self.data.rows.fine_binner
        fine_cuts = fine_binner.columns[column].cuts
        fine_bin_starts = np.concatenate([[-np.inf], fine_cuts, [-np.inf]])
        cut_of_bin = np.append(candidates, np.inf)
        is_upper_half = fine_bin_starts >= cut_of_bin[bins]
        halves = 2 * bins + is_upper_half
        max_half = halves[-1] + 1
        return halves.astype(np.min_scalar_type(max_half))

    def _split_significant(self, cuts: dict[int, Floats], sums: Floats, variance: float) -> None:
        """Split each bin whose halves have significantly different ratios of gradient to hessian.

        Significance is determined by a chi-squared test with one degree of freedom per target.

        Parameters
        ----------
        cuts : dict of int to ndarray
            Candidate cuts of the numeric bins, indexed by column.
        sums : ndarray of float64, shape (2 * n_targets, n_halves)
            Noisy sums over half bins, in the order returned by `_half_sums`.
        variance : float
            Noise variance of the sums.
        """
        columns = list(self.data.binner.columns)
        n_targets = self.loss.n_targets
        start = 0
        for position, candidates in cuts.items():
            bins = columns[position]
            size = len(candidates) + 1
            stop = start + 2 * size
            # both with the shape (n_targets, size, 2), for the two halves of each bin
            gradients, hessians = sums[:, start:stop].reshape(2, n_targets, size, 2)
            start = stop
            # noise can make a hessian negative, but the hessian is used as a denominator
            hessians = np.maximum(self.loss.hessian_unit * hessians, 0.05)
            # Wald test of equal Newton steps of the two halves
            gradient_variances = variance + self.gradient_variance * hessians
            variances = (gradient_variances / hessians**2).sum(axis=-1)
            differences = (gradients / hessians) @ [1, -1]  # lower half minus upper half
            statistic = (differences**2 / variances).sum(axis=0)
            is_split = chi2.sf(statistic, n_targets) < MAX_P_VALUE
            is_split = is_split[:-1]  # the bin of missing values cannot be split
            # a bin between neighbouring floats or with an infinite end cannot be cut
            is_new_cut = ~np.isin(candidates, bins.cuts)
            is_split &= np.isfinite(candidates) & is_new_cut
            new_cuts = np.union1d(bins.cuts, candidates[is_split])
            n_bins = len(new_cuts) + 2
            columns[position] = ColumnBins(bins.column, new_cuts, n_bins, bins.bin_of_category)
        self.data = self.training.with_bins(Binner(tuple(columns)))
