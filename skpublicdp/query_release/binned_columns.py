"""A numeric column of released tables: fractions between any two numbers, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from skpublicdp.query_release.cdf.grid import PiecewiseLinearCDF, just_below
from skpublicdp.query_release.marginals.intervals import (
    MIN_INDEPENDENCE_ESTIMATE,
    MIN_LOWER_END,
    NoisyFractions,
    NormalMixture,
    TablePosterior,
    cap_by_noisy_interval,
)
from skpublicdp.query_release.weighted_rows import WeightedRows
from skpublicdp.typing import Floats

MIN_SIZE_PROBABILITY = 0.08
"""Effective sizes of less probability do not widen the bounds inside a bin. The smallest two of
five have less (.075 and .025): with them nearly all bounds inside a bin would be 0 and 1."""

N_POINTS_PER_BIN = 32
"""Numbers in each bin at which quantile intervals may end, besides its own ends. For time."""


class BinnedRanges(NamedTuple):
    """Runs of numbers as sums of bins, arrays of shape (n_runs, n_bins).

    Attributes
    ----------
    shares : ndarray
        Which share of each bin's fraction is in each run, from 0 to 1.
    split : ndarray of bool
        Whether a run ends inside the bin, so that rows inside it determine the share.
    """

    shares: Floats
    split: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class BinnedColumn:
    """Answers about a numeric column in tables.

    Attributes
    ----------
    carrier : WeightedRows
        Rows of this column that have the released tables.
    cuts : ndarray of shape (n_bins - 1,)
        Bins are (cuts[i - 1], cuts[i]].
    bounds : tuple of float
        Values outside are at the nearer one.
    posterior : TablePosterior
        Of the table of this column.
    noisy : NoisyFractions
        The noisy answers about its bins.
    """

    carrier: WeightedRows
    cuts: Floats
    bounds: tuple[float, float]
    posterior: TablePosterior
    noisy: NoisyFractions

    def cdf(self, x: Floats) -> Floats:
        """Return the fraction at or below each number."""
        return self.carrier.cdf(x)

    def quantile(self, p: Floats) -> Floats:
        """Return the least number at or below which there is at least each fraction."""
        return self.carrier.quantile(p)

    def fraction_intervals(
        self, above: Floats, up_to: Floats, level: float, *, simultaneous: bool = False
    ) -> Floats:
        """Return intervals of the fractions of rows with above < x <= up_to.

        Parameters
        ----------
        above, up_to : ndarray of shape (n,)
            Numbers, which may be infinite.
        level : float
            Coverage.
        simultaneous : bool, default=False
            Whether the intervals hold all at once. They then rest on the noisy answers alone.

        Returns
        -------
        ndarray of shape (n, 2)
        """
        together = len(up_to) if simultaneous else None
        answers = self.cdf(up_to) - self.cdf(above)
        return self._intervals(self._runs(above, up_to), answers, level, together)

    def quantile_interval(self, p: Floats, level: float, *, simultaneous: bool = False) -> Floats:
        """Return all numbers at which the interval of the fraction at or below contains p.

        Parameters
        ----------
        p : ndarray
            Fractions from 0 to 1.
        level, simultaneous
            As in `fraction_intervals`.

        Returns
        -------
        ndarray of shape (..., 2)
        """
        numbers = self._points()
        together = p.size if simultaneous else None
        runs = self._runs(np.full(len(numbers), -np.inf), numbers)
        heights = self._intervals(runs, self.cdf(numbers), level, together).T
        ends = [
            PiecewiseLinearCDF(numbers, np.maximum.accumulate(height)).inverse(p)
            for height in heights[::-1]
        ]
        quantiles = self.quantile(p)
        interval: Floats = np.stack(
            [np.minimum(ends[0], quantiles), np.maximum(ends[1], quantiles)], axis=-1
        )
        return np.maximum(interval, self.bounds[0])

    def _points(self) -> Floats:
        """Return increasing numbers at which quantile intervals may end."""
        low, high = self.bounds
        values = np.unique(self.carrier.rows[:, 0])
        bins = np.searchsorted(self.cuts, values)
        first = np.searchsorted(bins, bins, side="left")
        count = np.searchsorted(bins, bins, side="right") - first
        rank = np.arange(len(values)) - first
        chosen = values[
            (rank * N_POINTS_PER_BIN) // count > ((rank - 1) * N_POINTS_PER_BIN) // count
        ]
        # just above a cut, and at values of rows, intervals change at once
        inner = np.concatenate([self.cuts, -just_below(-self.cuts), just_below(chosen), chosen])
        inner = inner[(inner >= low) & (inner <= high)]
        return np.unique(np.concatenate([[just_below(np.array(low)), low], inner, [high]]))

    def _runs(self, above: Floats, up_to: Floats) -> BinnedRanges:
        (start, open_start), (end, open_end) = self._below(above), self._below(up_to)
        return BinnedRanges(np.clip(end - start, 0, 1), open_start | open_end)

    def _below(self, x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the share of each bin at or below each number, and which bin it is inside of."""
        n_bins, (low, high) = len(self.cuts) + 1, self.bounds
        bins = np.searchsorted(self.cuts, x)
        ends = self.cdf(np.concatenate([[-np.inf], self.cuts, [np.inf]]))
        mass = ends[bins + 1] - ends[bins]
        inside = np.divide(self.cdf(x) - ends[bins], mass, out=np.full(len(x), 0.5), where=mass > 0)
        is_end = np.isin(x, self.cuts) | (x < low) | (x >= high)
        inside = np.where(is_end, x >= np.append(self.cuts, high)[bins], np.clip(inside, 0, 1))
        place = np.arange(n_bins)
        here = place == bins[:, None]
        shares = np.where(here, inside[:, None], place < bins[:, None])
        return shares.astype(np.float64), here & ~is_end[:, None]

    def _intervals(
        self, runs: BinnedRanges, answers: Floats, level: float, together: int | None
    ) -> Floats:
        """Return intervals of runs, around the answers."""
        touched = (runs.shares > 0) | runs.split
        whole = (runs.shares == 1) & ~runs.split
        low, high = self._each(runs, level)
        if together is not None:
            # between the sum of the bins that are inside and that of the bins that are touched
            failure = (1 - level) / (2 * together)
            low = np.minimum(low, self._noisy_sums(whole.astype(np.float64)).bounds(failure)[0])
            high = np.maximum(high, self._noisy_sums(touched.astype(np.float64)).bounds(failure)[1])
        low, high = np.minimum(low, answers), np.maximum(high, answers)
        nothing, everything = ~touched.any(axis=1), whole.all(axis=1)
        low = np.where(nothing, 0, np.where(everything, 1, low))
        return np.column_stack([low, np.where(nothing, 0, np.where(everything, 1, high))])

    def _each(self, runs: BinnedRanges, level: float) -> tuple[Floats, Floats]:
        """Return intervals of runs, each of which holds for itself."""
        failure, persons = 1 - level, self.noisy.persons
        components = self._components(runs.shares)
        sums = np.clip(runs.shares @ self.posterior.estimate, 0, 1)
        centre = np.clip(components.means, 0, 1)

        def variance(fraction: Floats, least: Floats) -> Floats:
            chance = fraction * (1 - fraction)
            prior = components.prior * np.maximum(chance, least)
            return components.noise + prior + chance / persons

        # away from the nearer of 0 and 1 no variance is less than at the mean, as for single cells
        least = centre * (1 - centre)
        low = components.quantile(
            failure / 2, lambda fraction: variance(fraction, np.where(fraction < 0.5, least, 0))
        )
        high = components.quantile(
            1 - failure / 2, lambda fraction: variance(fraction, np.where(fraction > 0.5, least, 0))
        )
        low, high = np.minimum(low, sums), np.maximum(high, sums)
        whole = ~runs.split.any(axis=1)
        below, above = self._inside(runs, failure)
        low = np.where(whole, low, sums - np.hypot(sums - low, below))
        high = np.where(whole, high, sums + np.hypot(high - sums, above))
        noisy = self._noisy_sums(runs.shares)
        low_capped, high_capped = cap_by_noisy_interval(low, high, sums, noisy, failure)
        low, high = np.where(whole, low_capped, low), np.where(whole, high_capped, high)
        return np.where(low < MIN_LOWER_END, 0, low), np.minimum(high, 1)

    def _components(self, shares: Floats) -> NormalMixture:
        """Return the posterior of sums of bins, a component for each effective size.

        The prior variance is per q (1 - q) of a sum q: the bins compete for the rows.
        """
        cells, parts = self.posterior.cells, []
        sums = np.clip(shares @ self.posterior.estimate, 0, 1)
        measured = cells.precisions > 0
        noise = np.divide(1, cells.precisions, out=np.zeros(len(measured)), where=measured)
        for rows, weight in zip(
            self.posterior.sizes.rows, self.posterior.sizes.weights, strict=True
        ):
            per_fraction = 1 / (1 + rows)  # one imagined row more, anywhere
            mean = cells.independence_estimate + (1 - per_fraction) * (
                cells.public - cells.independence_estimate
            )
            mean = np.maximum(mean, MIN_INDEPENDENCE_ESTIMATE)
            mean = mean / mean.sum()
            prior = per_fraction * (np.diag(mean) - np.outer(mean, mean))
            gain = np.zeros(prior.shape)
            if measured.all():
                gain = np.linalg.solve(prior + np.diag(noise), prior).T
            taken, kept = shares @ gain, shares - shares @ gain
            chance = shares @ mean * (1 - shares @ mean)
            chance = np.maximum(np.maximum(chance, sums * (1 - sums)), 1e-9)
            parts.append(
                (
                    np.full(len(shares), weight),
                    shares @ mean + taken @ (cells.values - mean),
                    taken**2 @ noise,
                    ((kept @ prior) * kept).sum(axis=1) / chance,
                )
            )
        return NormalMixture(*(np.stack(arrays) for arrays in zip(*parts, strict=True)))

    def _inside(self, runs: BinnedRanges, failure: float) -> tuple[Floats, Floats]:
        """Return how far sums may be too high, or too low, because runs end inside bins.

        Only the public rows inside a bin determine its split. Bounds are Wilson's (1927), those of
        several bins added in quadrature.
        """
        sizes, fractions = self.posterior.sizes, self.posterior.estimate
        rows = sizes.rows[sizes.weights > MIN_SIZE_PROBABILITY].min() * fractions
        square = norm.isf(failure / 2) ** 2
        middle = (rows * runs.shares + square / 2) / (rows + square)
        half = np.sqrt(square * (rows * runs.shares * (1 - runs.shares) + square / 4))
        half = half / (rows + square)
        below = np.where(runs.split, runs.shares - np.clip(middle - half, 0, runs.shares), 0)
        above = np.where(runs.split, np.clip(middle + half, runs.shares, 1) - runs.shares, 0)
        return np.sqrt((below**2) @ fractions**2), np.sqrt((above**2) @ fractions**2)

    def _noisy_sums(self, shares: Floats) -> NoisyFractions:
        """Return noisy answers about sums of whole bins: all bins together are known to be 1."""
        n_bins, count = shares.shape[1], shares.sum(axis=1)
        values = shares @ self.noisy.values + count / n_bins * (1 - self.noisy.values.sum())
        variance = self.noisy.variance * count * (n_bins - count) / n_bins
        return self.noisy._replace(values=values, variance=variance)
