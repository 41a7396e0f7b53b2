"""Fractions between any two numbers of a binned numeric column, with confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from skpublicdp.query_release.cdf.grid import PiecewiseLinearCDF, just_below
from skpublicdp.query_release.effective_sizes import EffectiveSizePosterior, point_mass_size
from skpublicdp.query_release.marginals.intervals import NormalMixture, TablePosterior
from skpublicdp.query_release.marginals.noisy_fractions import (
    NoisyFractions,
    cap_by_noisy_interval,
    extend_to_zero,
    find_disagreement,
)
from skpublicdp.query_release.marginals.shrinkage import MIN_INDEPENDENCE_ESTIMATE
from skpublicdp.query_release.ratios import ratios
from skpublicdp.query_release.synthetic import WeightedRows
from skpublicdp.typing import Floats

N_POINTS_PER_BIN = 32
"""Number of points inside each bin at which quantile intervals may end. A smaller number reduces
the run time."""

MIN_BERNOULLI_VARIANCE = 1e-9
"""Lower bound on q (1 - q) as a divisor, needed if the sum q is 0 or 1."""


class BinnedRanges(NamedTuple):
    """Ranges of numbers, each expressed as a sum of entire and partial bins.

    All attributes are arrays of shape (n_ranges, n_bins).
    """

    shares: Floats  # fraction of each bin's mass that lies in the range, from 0 to 1
    # Whether the range ends inside the bin. If so, the share is estimated from the rows in the bin.
    is_cut: NDArray[np.bool_]


def condition_on_value(
    posterior: TablePosterior, noisy: NoisyFractions
) -> tuple[TablePosterior, NoisyFractions]:
    """Return the posterior and the noisy fractions of the bins among rows that have a value.

    The last cell of the one-way table contains the rows without a value. Given the fraction of rows
    with a value, the bins are fractions of the private persons who have a value. An error in this
    fraction scales all bins by the same factor and therefore cancels.
    """
    n_persons = float(np.min(noisy.persons))
    cells, estimate = posterior.cells.select(slice(-1)), posterior.estimate[:-1]
    total = max(float(estimate.sum()), 1 / n_persons)
    public_total = max(float(cells.public.sum()), MIN_INDEPENDENCE_ESTIMATE)
    base = cells.independence_estimate
    cells = cells._replace(
        independence_estimate=base / base.sum(),
        public=cells.public / public_total,
        values=cells.values / total,
        precisions=cells.precisions * total**2,
    )
    sizes = posterior.sizes._replace(rows=posterior.sizes.rows * total)
    conditional = replace(posterior, cells=cells, estimate=estimate / total, sizes=sizes)
    noisy_bins = noisy._replace(
        values=noisy.values[:-1] / total,
        variance=noisy.variance / total**2,
        persons=noisy.persons * total,
    )
    return conditional, noisy_bins


@dataclass(frozen=True, eq=False)
class BinnedColumn:
    """CDF, quantiles and intervals of a numeric column, computed from released tables."""

    # values of the column, with weights that reproduce the released tables
    distribution: WeightedRows
    # (n_bins - 1,): cuts between the bins, which are the ranges (cuts[i - 1], cuts[i]]
    cuts: Floats
    # Bounds of the column. Numbers outside these bounds are moved to the nearer bound.
    bounds: tuple[float, float]
    posterior: TablePosterior  # posterior of this column's one-way table
    noisy: NoisyFractions  # noisy fractions of the rows in each bin
    # effective size, in private rows, of the public sample of numbers inside the bins
    rows_inside: float

    def cdf(self, x: Floats) -> Floats:
        """Return the fraction of rows at or below each number."""
        return self.distribution.cdf(x)

    def quantile(self, p: Floats) -> Floats:
        """Return the smallest number at which the CDF reaches each fraction."""
        return self.distribution.quantile(p)

    def mean(self) -> float:
        """Return the mean value of the weighted rows."""
        return self.distribution.mean()

    def fraction_intervals(
        self, above: Floats, up_to: Floats, level: float, *, simultaneous: bool = False
    ) -> Floats:
        """Return intervals for the fractions of rows with above < x <= up_to."""
        n_simultaneous = len(up_to) if simultaneous else None
        answers = self.cdf(up_to) - self.cdf(above)
        return self._intervals(self._binned_ranges(above, up_to), answers, level, n_simultaneous)

    def quantile_interval(self, p: Floats, level: float, *, simultaneous: bool = False) -> Floats:
        """Return all numbers at which the confidence interval of the CDF contains p."""
        numbers = self._possible_ends()
        n_simultaneous = p.size if simultaneous else None
        start = np.full(len(numbers), -np.inf)
        ranges = self._binned_ranges(start, numbers)
        heights = self.cdf(numbers)
        intervals = self._intervals(ranges, heights, level, n_simultaneous)
        lower_cdf, upper_cdf = np.maximum.accumulate(intervals).T
        # the upper bound of the CDF reaches p first and therefore gives the lower end
        low = PiecewiseLinearCDF(numbers, upper_cdf).inverse(p)
        high = PiecewiseLinearCDF(numbers, lower_cdf).inverse(p)
        quantiles = self.quantile(p)
        low = np.minimum(low, quantiles)
        high = np.maximum(high, quantiles)
        interval = np.stack([low, high], axis=-1)
        return np.maximum(interval, self.bounds[0])

    @np.errstate(over="ignore", invalid="ignore")  # values near the largest float overflow
    def mean_interval(self, level: float, *, simultaneous_level: float | None = None) -> Floats:
        """Return a confidence interval for the mean, or the bounds if it overflows, shape (2,).

        The mean is the sum, over all bins, of the bin's fraction times the bin's mean. With a
        `simultaneous_level`, the interval also contains the one from the noisy fractions alone,
        where a bin's rows may lie anywhere in the bin. It then does not depend on a model.
        """
        low_bound, high_bound = self.bounds
        width = np.float64(high_bound - low_bound)  # a square that overflows is infinite
        bin_means, bin_variances, bin_ends = self._bin_moments()
        # rescaled by the bounds, so that the mean is a number from 0 to 1
        coefficients = (bin_means - low_bound) / width
        rescaled_variances = bin_variances / width**2
        estimate = float((self.mean() - low_bound) / width)
        fractions = self.posterior.estimate / self.posterior.estimate.sum()

        # interval given the bin means, which includes the sampling of the private rows
        mean = fractions @ coefficients
        mean_square = fractions @ (coefficients**2 + rescaled_variances)
        variance_of_row = max(float(mean_square - mean**2), 0.0)
        sampling = float(variance_of_row / self.noisy.persons)
        failure = 1 - level
        low = high = estimate
        for sizes in self._possible_sizes():
            ends = self._mean_quantiles(coefficients, sampling, sizes, failure)
            low = min(low, ends[0])
            high = max(high, ends[1])

        # the errors of the bin means are added in quadrature
        mean_deviation = self._bin_mean_deviation(bin_variances, bin_ends, fractions)
        inside = norm.isf(failure / 2) * mean_deviation / width
        low = estimate - float(np.hypot(estimate - low, inside))
        high = estimate + float(np.hypot(high - estimate, inside))
        if simultaneous_level is not None:
            noise_failure = (1 - simultaneous_level) / 2
            lowest, highest = (bin_ends - low_bound) / width
            noisy_low, _ = self._noisy_bounds(lowest, noise_failure)
            _, noisy_high = self._noisy_bounds(highest, noise_failure)
            low = min(low, noisy_low)
            high = max(high, noisy_high)
        rescaled_ends = np.clip([low, high], 0, 1)
        interval = low_bound + width * rescaled_ends
        return interval if np.isfinite(interval).all() else np.array(self.bounds)

    def mean_variances(self, total_persons: float) -> Floats:
        """Return the variances of the mean due to fractions, bin means and sampling, (3,).

        The mean is a number from 0 to 1 between the bounds. The variance within a bin is pooled
        with that of one row at each end, as in `_bin_mean_deviation`, but the public rows of all
        `total_persons` private persons count, not only those of the group.
        """
        low_bound, high_bound = self.bounds
        width = high_bound - low_bound
        bin_means, bin_variances, bin_ends = self._bin_moments()
        coefficients = (bin_means - low_bound) / width
        fractions = self.posterior.estimate / self.posterior.estimate.sum()
        mean = fractions @ coefficients
        all_rows_inside = self.rows_inside * total_persons / self.noisy.persons
        n_rows = all_rows_inside * fractions
        pooled = _pooled_variances(bin_variances, bin_ends, n_rows)
        mean_square = fractions @ (coefficients**2 + pooled / width**2)
        of_fractions = 0.0
        for sizes in self._possible_sizes():
            functions = [self._linear_functions(coefficients[None], rows) for rows in sizes.rows]
            _, means, noise, prior = np.array(functions)[:, :, 0].T  # (n_sizes,) each
            deviations = means - sizes.weights @ means
            variances = noise + prior + deviations**2
            variance = float(sizes.weights @ variances)
            of_fractions = max(of_fractions, variance)
        inside = self._bin_mean_deviation(bin_variances, bin_ends, fractions) / width
        row_variance = max(mean_square - mean**2, 0)
        sampling = row_variance / self.noisy.persons
        return np.array([of_fractions, inside**2, sampling])

    def _mean_quantiles(
        self, coefficients: Floats, sampling: float, sizes: EffectiveSizePosterior, failure: float
    ) -> tuple[float, float]:
        """Return posterior quantiles of a sum of bins at `failure` / 2 and 1 - `failure` / 2."""
        functions = [self._linear_functions(coefficients[None], n_rows) for n_rows in sizes.rows]
        _, means, noise, prior = map(np.array, zip(*functions, strict=True))  # (n_sizes, 1) each
        mixture = NormalMixture(
            weights=sizes.weights[:, None],
            means=means,
            noise=noise + prior,
            prior=np.zeros((len(functions), 1)),
        )

        def variance(mean: Floats) -> Floats:
            """Return the variance of each component, which does not depend on the true mean."""
            return mixture.noise + sampling

        low = mixture.quantile(failure / 2, variance).item()
        return low, mixture.quantile(1 - failure / 2, variance).item()

    def _possible_sizes(self) -> list[EffectiveSizePosterior]:
        """Return the posteriors of the effective size that the intervals must allow for.

        If the public rows are shifted, this includes an effective size of 0.
        """
        sizes = [self.posterior.sizes]
        return [*sizes, point_mass_size(0.0)] if self.posterior.is_shifted else sizes

    def _bin_moments(self) -> tuple[Floats, Floats, Floats]:
        """Return the mean and the variance of the weighted rows in each bin, and the bin's ends.

        The ends have the shape (2, n_bins). In a bin without rows, half of the mass is at each end.
        """
        low, high = self.bounds
        lower_ends = np.append(low, self.cuts)
        upper_ends = np.append(self.cuts, high)
        ends = np.clip([lower_ends, upper_ends], low, high)
        bin_middles = ends.mean(axis=0)
        max_variances = (ends[1] - ends[0]) ** 2 / 4
        n_bins = len(bin_middles)

        numbers = self.distribution.rows[:, 0]
        weights = self.distribution.weights
        bin_of_row = np.searchsorted(self.cuts, numbers)
        values = np.clip(numbers, low, high)
        mass = np.bincount(bin_of_row, weights, minlength=n_bins)
        is_known = mass > 0
        totals = np.bincount(bin_of_row, weights * values, minlength=n_bins)
        means = np.divide(totals, mass, out=bin_middles, where=is_known)
        squared_deviations = (values - means[bin_of_row]) ** 2
        squares = np.bincount(bin_of_row, weights * squared_deviations, n_bins)
        variances = np.divide(squares, mass, out=max_variances, where=is_known)
        return means, variances, ends

    def _bin_mean_deviation(self, variances: Floats, ends: Floats, fractions: Floats) -> float:
        """Return the standard deviation of the mean due to errors in the bin means.

        The mean of each bin is estimated from the bin's public rows. These are worth `rows_inside`
        private rows in all bins together. To estimate the variance within a bin, one row is added
        at each end of the bin, since a few rows may be close together by chance.
        """
        n_rows = self.rows_inside * fractions
        pooled = _pooled_variances(variances, ends, n_rows)
        mean_variances = pooled / np.maximum(n_rows, 1)
        return float(np.sqrt(fractions**2 @ mean_variances))

    def _noisy_bounds(self, coefficients: Floats, failure: float) -> tuple[float, float]:
        """Return bounds on a linear function of the bins, based on the noisy fractions alone.

        The coefficients lie between 0 and 1 and have shape (n_bins,). Each bound fails with
        probability `failure`. The noisy fractions are projected so that they sum to 1, as in
        `_noisy_sums`.
        """
        noisy = self.noisy
        deficit = 1 - noisy.values.sum()
        mean_coefficient = coefficients.mean()
        centred = coefficients - mean_coefficient
        value = coefficients @ noisy.values + mean_coefficient * deficit
        variance = noisy.variance * (centred @ centred)
        noisy_sum = noisy._replace(values=np.array([value]), variance=np.array([variance]))
        low, high = noisy_sum.bounds(failure)
        return low.item(), high.item()

    def _possible_ends(self) -> Floats:
        """Return the numbers at which quantile intervals may end, in increasing order.

        These numbers are the bounds, the cuts, and up to `N_POINTS_PER_BIN` row values in each bin.
        """
        low, high = self.bounds
        values = self._evenly_ranked_values()
        just_above_cuts = -just_below(-self.cuts)
        # confidence intervals for the CDF jump just above a cut and at row values
        points = np.concatenate([self.cuts, just_above_cuts, just_below(values), values])
        is_within = (points >= low) & (points <= high)
        points = points[is_within]
        below_low = just_below(np.array(low))
        ends = np.concatenate([[below_low, low], points, [high]])
        return np.unique(ends)

    def _evenly_ranked_values(self) -> Floats:
        """Return up to `N_POINTS_PER_BIN` row values at evenly spaced ranks in each bin."""
        values = np.unique(self.distribution.rows[:, 0])
        bin_of_value = np.searchsorted(self.cuts, values)
        first_in_bin = np.searchsorted(bin_of_value, bin_of_value, side="left")
        end_of_bin = np.searchsorted(bin_of_value, bin_of_value, side="right")
        n_in_bin = end_of_bin - first_in_bin
        rank = np.arange(len(values)) - first_in_bin
        # select the first value of each of N_POINTS_PER_BIN groups of consecutive ranks
        group = (rank * N_POINTS_PER_BIN) // n_in_bin
        previous_group = ((rank - 1) * N_POINTS_PER_BIN) // n_in_bin
        return values[group > previous_group]

    def _binned_ranges(self, above: Floats, up_to: Floats) -> BinnedRanges:
        """Return the ranges above < x <= up_to as sums of bins."""
        below, total = self._ranges_up_to(above), self._ranges_up_to(up_to)
        shares = np.clip(total.shares - below.shares, 0, 1)
        return BinnedRanges(shares, below.is_cut | total.is_cut)

    def _ranges_up_to(self, x: Floats) -> BinnedRanges:
        """Return the ranges (-inf, x] as sums of bins."""
        low, high = self.bounds
        bin_of_x = np.searchsorted(self.cuts, x)
        ends = np.concatenate([[-np.inf], self.cuts, [np.inf]])
        cdf_at_ends = self.cdf(ends)  # (n_bins + 1,)
        cdf_before_bin = cdf_at_ends[bin_of_x]
        cdf_after_bin = cdf_at_ends[bin_of_x + 1]
        mass = cdf_after_bin - cdf_before_bin
        mass_below_x = self.cdf(x) - cdf_before_bin
        # the share of a bin without rows is unknown and therefore set to one half
        share = ratios(mass_below_x, mass, 0.5)
        # at an end of a bin the share is exactly 0 or 1
        is_outside = (x < low) | (x >= high)
        is_bin_end = np.isin(x, self.cuts) | is_outside
        upper_ends = np.append(self.cuts, high)
        contains_bin = x >= upper_ends[bin_of_x]
        share = np.where(is_bin_end, contains_bin, np.clip(share, 0, 1))

        bins = np.arange(len(self.cuts) + 1)
        bin_of_number = bin_of_x[:, None]  # (n_numbers, 1)
        is_bin_of_x = bins == bin_of_number  # (n_numbers, n_bins)
        is_below = bins < bin_of_number
        shares = np.where(is_bin_of_x, share[:, None], is_below)
        is_cut = is_bin_of_x & ~is_bin_end[:, None]
        return BinnedRanges(shares.astype(np.float64), is_cut)

    def _intervals(
        self, ranges: BinnedRanges, answers: Floats, level: float, n_simultaneous: int | None
    ) -> Floats:
        """Return confidence intervals for the fractions of rows in ranges, shape (n_ranges, 2).

        The intervals contain the answers. Simultaneous intervals also contain two pairs of bounds
        from the noisy answers alone: for the sum of the bins inside the range, and for the sum of
        the bins that intersect the range. The failure probability of these bounds is divided among
        `n_simultaneous` intervals (Bonferroni). If it is None, each interval has separate coverage.
        """
        is_entire = ranges.shares == 1
        is_inside = is_entire & ~ranges.is_cut
        is_intersected = (ranges.shares > 0) | ranges.is_cut
        low, high = self._pointwise_intervals(ranges, level)
        if n_simultaneous is not None:
            failure = (1 - level) / (2 * n_simultaneous)
            noisy_inside = self._noisy_sums(is_inside.astype(np.float64))
            noisy_intersected = self._noisy_sums(is_intersected.astype(np.float64))
            noisy_low, _ = noisy_inside.bounds(failure)
            _, noisy_high = noisy_intersected.bounds(failure)
            low = np.minimum(low, noisy_low)
            high = np.maximum(high, noisy_high)
        ends = np.column_stack([np.minimum(low, answers), np.maximum(high, answers)])
        # the fractions of the empty range and of the entire line are known exactly
        ends[is_inside.all(axis=1)] = 1
        ends[~is_intersected.any(axis=1)] = 0
        return ends

    def _pointwise_intervals(self, ranges: BinnedRanges, level: float) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of intervals, each with coverage `level`.

        Intervals for sums of entire bins are shortened by using the intervals from the noisy
        answers. If a range ends inside a bin, the uncertainty inside this bin is added in
        quadrature instead.
        """
        failure = 1 - level
        estimates = np.clip(ranges.shares @ self.posterior.estimate, 0, 1)
        low, high = self._posterior_intervals(ranges.shares, failure)
        low = np.minimum(low, estimates)
        high = np.maximum(high, estimates)

        noisy = self._noisy_sums(ranges.shares)
        # the posterior intervals contain the estimates, so only the noisy bounds can disagree
        disagreement = find_disagreement(estimates, estimates, estimates, noisy)
        capped_low, capped_high = cap_by_noisy_interval(
            low, high, estimates, noisy=noisy, failure=failure, disagreement=disagreement
        )
        excess, shortfall = self._cut_errors(ranges, failure)
        widened_low = estimates - np.hypot(estimates - low, excess)
        widened_high = estimates + np.hypot(high - estimates, shortfall)
        has_cut = ranges.is_cut.any(axis=1)
        low = np.where(has_cut, widened_low, capped_low)
        high = np.where(has_cut, widened_high, capped_high)
        return extend_to_zero(low), np.minimum(high, 1)

    def _posterior_intervals(self, shares: Floats, failure: float) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of credible intervals for sums of bins.

        The ends of the intervals are quantiles of the posterior mixture. Each end fails with
        probability `failure` / 2.
        """
        ends = [
            self._mixture_quantiles(self._posterior_mixture(shares, sizes), failure)
            for sizes in self._possible_sizes()
        ]
        low = np.min([low for low, _ in ends], axis=0)
        high = np.max([high for _, high in ends], axis=0)
        return low, high

    def _mixture_quantiles(self, mixture: NormalMixture, failure: float) -> tuple[Floats, Floats]:
        """Return the quantiles of sums of bins at `failure` / 2 and 1 - `failure` / 2."""
        clipped_means = np.clip(mixture.means, 0, 1)
        bernoulli_at_mean = clipped_means * (1 - clipped_means)

        def variance(fraction: Floats, min_bernoulli: Floats) -> Floats:
            """Return the variance of each component, assuming that the true sum is `fraction`."""
            bernoulli = fraction * (1 - fraction)
            prior_variance = mixture.prior * np.maximum(bernoulli, min_bernoulli)
            return mixture.noise + prior_variance + bernoulli / self.noisy.persons

        # q (1 - q) vanishes at 0 and 1, so that intervals would exclude fractions close to them. On
        # the side of the nearer end, the prior variance is at least its value at the mean.
        low = mixture.quantile(
            failure / 2,
            lambda fraction: variance(fraction, np.where(fraction < 0.5, bernoulli_at_mean, 0)),
        )
        high = mixture.quantile(
            1 - failure / 2,
            lambda fraction: variance(fraction, np.where(fraction > 0.5, bernoulli_at_mean, 0)),
        )
        return low, high

    def _posterior_mixture(self, shares: Floats, sizes: EffectiveSizePosterior) -> NormalMixture:
        """Return the posterior of sums of bins, with one normal component per effective size."""
        functions = [self._linear_functions(shares, n_rows) for n_rows in sizes.rows]
        # (n_sizes, n_sums) each
        prior_means, means, noise, prior = map(np.array, zip(*functions, strict=True))
        estimates = np.clip(shares @ self.posterior.estimate, 0, 1)
        bernoulli = np.maximum(prior_means * (1 - prior_means), estimates * (1 - estimates))
        return NormalMixture(
            weights=np.repeat(sizes.weights[:, None], len(shares), axis=1),
            means=means,
            noise=noise,
            prior=prior / np.maximum(bernoulli, MIN_BERNOULLI_VARIANCE),
        )

    def _linear_functions(
        self, coefficients: Floats, n_rows: float
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the posterior of linear functions of the bins, whose coefficients are the rows.

        It is the Kalman update of the bins' normal prior, if public rows are worth `n_rows` private
        rows. The results, of shape (n_functions,), are the prior means, the posterior means, and
        the posterior variances due to the noise and to the prior.
        """
        cells = self.posterior.cells
        is_measured = cells.precisions > 0
        noise_variance = ratios(1, cells.precisions)
        prior_mean, covariance = self._prior_of_bins(n_rows)
        # without measurements, the posterior is the prior
        gain: NDArray[Any] = np.zeros(covariance.shape)
        if is_measured.all():
            # Kalman gain P (P + W)⁻¹, for the prior covariance P and the noise covariance W
            gain = np.linalg.solve(covariance + np.diag(noise_variance), covariance).T
        # the error of a sum combines the noise and the deviation from the prior mean
        noise_coefficients = coefficients @ gain
        prior_coefficients = coefficients - coefficients @ gain
        prior_means = coefficients @ prior_mean
        means = prior_means + noise_coefficients @ (cells.values - prior_mean)
        noise = noise_coefficients**2 @ noise_variance
        prior = ((prior_coefficients @ covariance) * prior_coefficients).sum(axis=1)
        return prior_means, means, noise, prior

    def _prior_of_bins(self, n_rows: float) -> tuple[Floats, Floats]:
        """Return the prior mean and covariance of the fractions of the bins.

        The covariance is that of a multinomial sample of 1 + `n_rows` rows. The public fractions
        count as `n_rows` rows, and the independence estimate counts as one row.
        """
        cells, scale = self.posterior.cells, 1 / (1 + n_rows)
        mean = cells.independence_estimate + (1 - scale) * (
            cells.public - cells.independence_estimate
        )
        mean = np.maximum(mean, MIN_INDEPENDENCE_ESTIMATE)
        mean = mean / mean.sum()
        return mean, scale * (np.diag(mean) - np.outer(mean, mean))

    def _cut_errors(self, ranges: BinnedRanges, failure: float) -> tuple[Floats, Floats]:
        """Return bounds on the errors of sums that are due to the shares of cut bins.

        The share of a cut bin is estimated from the rows in the bin. The bounds on this share are
        the ends of the Wilson (1927) score interval. The bounds for several bins are added in
        quadrature.
        """
        fractions = self.posterior.estimate
        shares = ranges.shares
        n_rows = self.rows_inside * fractions  # effective number of rows in each bin
        z_squared = norm.isf(failure / 2) ** 2
        divisor = n_rows + z_squared
        centre = (n_rows * shares + z_squared / 2) / divisor
        variance = n_rows * shares * (1 - shares) + z_squared / 4
        half_width = np.sqrt(z_squared * variance) / divisor
        low_shares = np.clip(centre - half_width, 0, shares)
        high_shares = np.clip(centre + half_width, shares, 1)
        excess = np.where(ranges.is_cut, shares - low_shares, 0)
        shortfall = np.where(ranges.is_cut, high_shares - shares, 0)
        squared_fractions = fractions**2
        low_error = np.sqrt(excess**2 @ squared_fractions)
        high_error = np.sqrt(shortfall**2 @ squared_fractions)
        return low_error, high_error

    def _noisy_sums(self, shares: Floats) -> NoisyFractions:
        """Return noisy fractions for sums of bins, shape (n_sums,).

        The noisy fractions of all bins are first projected so that they sum to 1. The projection
        adds the same number to each bin. For a sum of k out of B bins, it multiplies the variance
        by (B - k) / B.
        """
        n_bins, n_summed = shares.shape[1], shares.sum(axis=1)
        deficit = 1 - self.noisy.values.sum()
        values = shares @ self.noisy.values + n_summed / n_bins * deficit
        variance = self.noisy.variance * n_summed * (n_bins - n_summed) / n_bins
        return self.noisy._replace(values=values, variance=variance)


def _pooled_variances(variances: Floats, ends: Floats, n_rows: Floats) -> Floats:
    """Return the variances within bins, pooled with those of one row at each end of a bin.

    A few rows may be close together by chance.
    """
    max_variances = (ends[1] - ends[0]) ** 2 / 4
    return (n_rows * variances + 2 * max_variances) / (n_rows + 2)
