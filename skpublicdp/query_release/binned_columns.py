"""A numeric column of released tables: fractions between any two numbers, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from skpublicdp.query_release.cdf.grid import PiecewiseLinearCDF, just_below
from skpublicdp.query_release.marginals.intervals import (
    MIN_LOWER_END,
    NoisyFractions,
    NormalMixture,
    TablePosterior,
    cap_by_noisy_interval,
)
from skpublicdp.query_release.marginals.shrinkage import MIN_INDEPENDENCE_ESTIMATE
from skpublicdp.query_release.weighted_rows import WeightedRows
from skpublicdp.typing import Floats

MIN_SIZE_PROBABILITY = 0.08
"""Effective sizes of lower probability do not widen the bounds inside a bin. The smallest two of
five have less (.075 and .025): with them nearly all bounds inside a bin would be 0 and 1."""

N_POINTS_PER_BIN = 32
"""Number of points inside a bin at which quantile intervals may end. It limits the run time."""


class BinnedRanges(NamedTuple):
    """Ranges of numbers as sums of bins, arrays of shape (n_ranges, n_bins).

    Attributes
    ----------
    shares : ndarray
        Fraction of the mass of each bin that is in the range, from 0 to 1.
    is_cut : ndarray of bool
        Whether the range ends inside the bin. Its share is then estimated from the rows in the bin.
    """

    shares: Floats
    is_cut: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class BinnedColumn:
    """CDF, quantiles and intervals of a numeric column of released tables.

    Attributes
    ----------
    distribution : WeightedRows
        Rows of this column, weighted to have the released tables.
    cuts : ndarray of shape (n_bins - 1,)
        Bins are (cuts[i - 1], cuts[i]].
    bounds : tuple of float
        Numbers outside are moved to the nearer bound.
    posterior : TablePosterior
        Posterior of the one-way table of this column.
    noisy : NoisyFractions
        The noisy fractions of its bins.
    """

    distribution: WeightedRows
    cuts: Floats
    bounds: tuple[float, float]
    posterior: TablePosterior
    noisy: NoisyFractions

    def cdf(self, x: Floats) -> Floats:
        """Return the fraction at or below each number."""
        return self.distribution.cdf(x)

    def quantile(self, p: Floats) -> Floats:
        """Return the smallest number at which the CDF reaches each fraction."""
        return self.distribution.quantile(p)

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
            Whether all intervals hold together. They then contain the interval of the noisy answers
            alone, so that no model is assumed.

        Returns
        -------
        ndarray of shape (n, 2)
        """
        n_simultaneous = len(up_to) if simultaneous else None
        answers = self.cdf(up_to) - self.cdf(above)
        return self._intervals(self._binned_ranges(above, up_to), answers, level, n_simultaneous)

    def quantile_interval(self, p: Floats, level: float, *, simultaneous: bool = False) -> Floats:
        """Return all numbers at which the confidence interval of the CDF contains p.

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
        numbers = self._possible_ends()
        n_simultaneous = p.size if simultaneous else None
        ranges = self._binned_ranges(np.full(len(numbers), -np.inf), numbers)
        low_cdf, high_cdf = self._intervals(ranges, self.cdf(numbers), level, n_simultaneous).T
        low, high = (
            PiecewiseLinearCDF(numbers, np.maximum.accumulate(heights)).inverse(p)
            for heights in (high_cdf, low_cdf)
        )
        quantiles = self.quantile(p)
        interval: Floats = np.stack(
            [np.minimum(low, quantiles), np.maximum(high, quantiles)], axis=-1
        )
        return np.maximum(interval, self.bounds[0])

    def _possible_ends(self) -> Floats:
        """Return increasing numbers at which quantile intervals may end.

        These are the bounds, the cuts, and up to `N_POINTS_PER_BIN` values of rows in each bin.
        """
        low, high = self.bounds
        values = np.unique(self.distribution.rows[:, 0])
        bins = np.searchsorted(self.cuts, values)
        first = np.searchsorted(bins, bins, side="left")
        count = np.searchsorted(bins, bins, side="right") - first
        rank = np.arange(len(values)) - first  # of each value in its bin
        is_selected = (rank * N_POINTS_PER_BIN) // count > ((rank - 1) * N_POINTS_PER_BIN) // count
        selected = values[is_selected]
        # the intervals of the CDF jump just above a cut and at values of rows
        points = np.concatenate(
            [self.cuts, -just_below(-self.cuts), just_below(selected), selected]
        )
        points = points[(points >= low) & (points <= high)]
        return np.unique(np.concatenate([[just_below(np.array(low)), low], points, [high]]))

    def _binned_ranges(self, above: Floats, up_to: Floats) -> BinnedRanges:
        """Return the ranges (above, up_to] as sums of bins."""
        start, end = self._bins_at_or_below(above), self._bins_at_or_below(up_to)
        return BinnedRanges(np.clip(end.shares - start.shares, 0, 1), start.is_cut | end.is_cut)

    def _bins_at_or_below(self, x: Floats) -> BinnedRanges:
        """Return the ranges (-inf, x] as sums of bins."""
        n_bins, (low, high) = len(self.cuts) + 1, self.bounds
        bins = np.searchsorted(self.cuts, x)  # the bin that contains each number
        cdf_at_cuts = self.cdf(np.concatenate([[-np.inf], self.cuts, [np.inf]]))
        masses = cdf_at_cuts[bins + 1] - cdf_at_cuts[bins]
        share = np.divide(
            self.cdf(x) - cdf_at_cuts[bins], masses, out=np.full(len(x), 0.5), where=masses > 0
        )
        is_bin_end = np.isin(x, self.cuts) | (x < low) | (x >= high)
        share = np.where(is_bin_end, x >= np.append(self.cuts, high)[bins], np.clip(share, 0, 1))
        all_bins = np.arange(n_bins)
        is_own_bin = all_bins == bins[:, None]  # (n_numbers, n_bins)
        shares = np.where(is_own_bin, share[:, None], all_bins < bins[:, None])
        return BinnedRanges(shares.astype(np.float64), is_own_bin & ~is_bin_end[:, None])

    def _intervals(
        self, ranges: BinnedRanges, answers: Floats, level: float, n_simultaneous: int | None
    ) -> Floats:
        """Return intervals of the fractions in ranges that contain the answers, shape (n, 2).

        Simultaneous intervals extend to the noise bounds of two sums of entire bins: the bins
        inside the range, and the bins that it intersects. For them the level is divided among
        `n_simultaneous` intervals (Bonferroni).
        """
        intersects = (ranges.shares > 0) | ranges.is_cut
        is_inside = (ranges.shares == 1) & ~ranges.is_cut
        low, high = self._pointwise_intervals(ranges, level)
        if n_simultaneous is not None:
            failure = (1 - level) / (2 * n_simultaneous)
            inner, outer = is_inside.astype(np.float64), intersects.astype(np.float64)
            low = np.minimum(low, self._noisy_sums(inner).bounds(failure)[0])
            high = np.maximum(high, self._noisy_sums(outer).bounds(failure)[1])
        low, high = np.minimum(low, answers), np.maximum(high, answers)
        is_empty, is_everything = ~intersects.any(axis=1), is_inside.all(axis=1)
        low = np.where(is_empty, 0, np.where(is_everything, 1, low))
        high = np.where(is_empty, 0, np.where(is_everything, 1, high))
        return np.column_stack([low, high])

    def _pointwise_intervals(self, ranges: BinnedRanges, level: float) -> tuple[Floats, Floats]:
        """Return both ends of intervals that each hold with probability `level`.

        For sums of entire bins they are quantiles of the posterior mixture, capped by the noise
        interval. If a range cuts bins, the uncertainty inside them is added in quadrature.
        """
        failure, persons = 1 - level, self.noisy.persons
        components = self._components(ranges.shares)
        sums = np.clip(ranges.shares @ self.posterior.estimate, 0, 1)
        centre = np.clip(components.means, 0, 1)

        def variance(fraction: Floats, min_bernoulli: Floats) -> Floats:
            """Return the variance of each component, at candidates for the true fraction."""
            bernoulli = fraction * (1 - fraction)
            prior = components.prior * np.maximum(bernoulli, min_bernoulli)
            return components.noise + prior + bernoulli / persons

        # towards the nearer of 0 and 1 the variance is at least the variance at the mean
        at_mean = centre * (1 - centre)
        low = components.quantile(
            failure / 2, lambda fraction: variance(fraction, np.where(fraction < 0.5, at_mean, 0))
        )
        high = components.quantile(
            1 - failure / 2,
            lambda fraction: variance(fraction, np.where(fraction > 0.5, at_mean, 0)),
        )
        low, high = np.minimum(low, sums), np.maximum(high, sums)
        has_no_cut = ~ranges.is_cut.any(axis=1)
        excess, shortfall = self._cut_errors(ranges, failure)
        low = np.where(has_no_cut, low, sums - np.hypot(sums - low, excess))
        high = np.where(has_no_cut, high, sums + np.hypot(high - sums, shortfall))
        noisy = self._noisy_sums(ranges.shares)
        low_capped, high_capped = cap_by_noisy_interval(low, high, sums, noisy, failure)
        low, high = np.where(has_no_cut, low_capped, low), np.where(has_no_cut, high_capped, high)
        return np.where(low < MIN_LOWER_END, 0, low), np.minimum(high, 1)

    def _components(self, shares: Floats) -> NormalMixture:
        """Return the posterior of sums of bins, one normal component for each effective size.

        The prior of the bins is multinomial-like, see `_prior_of_bins`, and the posterior is a
        Kalman update. The prior variance in the result is per unit of q (1 - q), with q the sum.

        Parameters
        ----------
        shares : ndarray of shape (n_sums, n_bins)
            Coefficients of the sums.
        """
        cells, components = self.posterior.cells, list[NormalMixture]()
        sums = np.clip(shares @ self.posterior.estimate, 0, 1)
        is_measured = cells.precisions > 0
        noise_variance = np.divide(
            1, cells.precisions, out=np.zeros(len(is_measured)), where=is_measured
        )
        for n_rows, weight in zip(
            self.posterior.sizes.rows, self.posterior.sizes.weights, strict=True
        ):
            mean, covariance = self._prior_of_bins(n_rows)
            gain = np.zeros(covariance.shape)
            if is_measured.all():
                gain = np.linalg.solve(covariance + np.diag(noise_variance), covariance).T
            gain_of_sums = shares @ gain
            residual = shares - shares @ gain
            bernoulli = shares @ mean * (1 - shares @ mean)
            bernoulli = np.maximum(np.maximum(bernoulli, sums * (1 - sums)), 1e-9)
            components.append(
                NormalMixture(
                    weights=np.full(len(shares), weight),
                    means=shares @ mean + gain_of_sums @ (cells.values - mean),
                    noise=gain_of_sums**2 @ noise_variance,
                    prior=((residual @ covariance) * residual).sum(axis=1) / bernoulli,
                )
            )
        return NormalMixture(*(np.stack(arrays) for arrays in zip(*components, strict=True)))

    def _prior_of_bins(self, n_rows: float) -> tuple[Floats, Floats]:
        """Return the prior mean and covariance of the bins for an effective public sample size.

        The public fractions count as `n_rows` rows, and the independence estimate as one row.
        """
        cells, scale = self.posterior.cells, 1 / (1 + n_rows)
        mean = cells.independence_estimate + (1 - scale) * (
            cells.public - cells.independence_estimate
        )
        mean = np.maximum(mean, MIN_INDEPENDENCE_ESTIMATE)
        mean = mean / mean.sum()
        return mean, scale * (np.diag(mean) - np.outer(mean, mean))

    def _cut_errors(self, ranges: BinnedRanges, failure: float) -> tuple[Floats, Floats]:
        """Return bounds on the error of sums because ranges cut bins: excess and shortfall.

        The share of a cut bin is estimated from the public rows in it alone. Its bounds are
        Wilson's (1927), and the bounds of several bins are added in quadrature.

        Returns
        -------
        excess, shortfall : ndarray of shape (n_ranges,)
            The estimated sum may be too high, or too low, by at most this.
        """
        sizes, fractions, shares = self.posterior.sizes, self.posterior.estimate, ranges.shares
        min_size = sizes.rows[sizes.weights > MIN_SIZE_PROBABILITY].min()
        n_rows = min_size * fractions  # effective number of rows in each bin
        z_squared = norm.isf(failure / 2) ** 2
        centre = (n_rows * shares + z_squared / 2) / (n_rows + z_squared)
        half_width = np.sqrt(z_squared * (n_rows * shares * (1 - shares) + z_squared / 4))
        half_width = half_width / (n_rows + z_squared)
        low, high = np.clip(centre - half_width, 0, shares), np.clip(centre + half_width, shares, 1)
        excess = np.where(ranges.is_cut, shares - low, 0)
        shortfall = np.where(ranges.is_cut, high - shares, 0)
        return np.sqrt((excess**2) @ fractions**2), np.sqrt((shortfall**2) @ fractions**2)

    def _noisy_sums(self, shares: Floats) -> NoisyFractions:
        """Return the noisy fractions of sums of bins, corrected so that all bins add up to 1."""
        n_bins, count = shares.shape[1], shares.sum(axis=1)
        values = shares @ self.noisy.values + count / n_bins * (1 - self.noisy.values.sum())
        variance = self.noisy.variance * count * (n_bins - count) / n_bins
        return self.noisy._replace(values=values, variance=variance)
