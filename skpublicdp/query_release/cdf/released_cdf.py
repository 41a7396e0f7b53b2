"""Released distribution function of one numeric column, with confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import norm

from skpublicdp.query_release.cdf.cdf_posterior import DistributionShift
from skpublicdp.query_release.cdf.grid import PiecewiseLinearCDF, just_below
from skpublicdp.query_release.ratios import ratios
from skpublicdp.typing import Codes, Floats

MAX_FACTOR = 40.0
"""Upper bound on the half-width, in standard deviations, beyond which normal tails vanish in
floats."""


@dataclass(frozen=True)
class ReleasedCDF:
    """Released distribution function of a column, whose answers are fractions of the population."""

    curve: PiecewiseLinearCDF  # the distribution function
    # (n_cells - 1,): edges between the cells, which are the intervals (edges[i - 1], edges[i]]. The
    # first cell includes the lower bound, and the last cell ends at the upper bound.
    edges: Floats
    weights: Floats  # (n_cells,): fraction of the population in each cell
    atoms: Floats  # values that are shared by a substantial fraction of the population
    # (n_cells - 1,): standard deviation of the released distribution function at each edge
    deviations: Floats
    # (n_cells,): variance of the distribution within each cell, as the inverse of a number of rows
    within_cell_variance: Floats
    path_length: float  # result of `path_length`, which determines simultaneous confidence bands
    effective_public_size: float  # effective size of the public sample, in private rows
    drift: DistributionShift  # estimated shift between the public and private distributions
    # numbers of rows
    n_private: int
    n_public: int
    # (n_cells - 1, n_cells - 1): covariance of the released distribution function at the edges. If
    # many columns are released, the covariance is dropped to save memory, which makes intervals for
    # differences longer.
    covariance: Floats | None = field(default=None, repr=False)

    def cdf(self, x: ArrayLike) -> Floats:
        """Return the fraction of the population at or below each number x.

        The fraction is 0 below the column's lower bound, and 1 at or above the upper bound.
        """
        return self.curve(np.asarray(x, dtype=float))

    def quantile(self, p: ArrayLike) -> Floats:
        """Return the quantile of each fraction p, i.e. the smallest number x with cdf(x) >= p."""
        p = np.asarray(p, dtype=float)
        return np.maximum(self.curve.inverse(p), self._low)

    def mean(self) -> float:
        """Return the population mean of the numbers after clipping to the bounds."""
        return float(np.clip(self.curve.mean(), self._low, self.curve.knots[-1]))

    def fraction(self, above: ArrayLike, up_to: ArrayLike) -> Floats:
        """Return the fraction of the population with above < x <= up_to, or 0 if above > up_to."""
        return np.maximum(self.cdf(up_to) - self.cdf(above), 0)

    def quantile_interval(
        self, p: ArrayLike, level: float = 0.95, *, simultaneous: bool = False
    ) -> Floats:
        """Return confidence intervals for the quantiles of the population, shape (..., 2).

        An interval contains all numbers x whose interval for cdf(x) (see `half_width`) contains p.
        """
        p = np.asarray(p, dtype=float)
        # The ends of the intervals are evaluated at knots and interpolated between knots.
        # Half-widths jump at the edges, and are largest near the middle of a cell.
        edge_heights = self.curve(self.edges)
        middles = self.curve.inverse((edge_heights[1:] + edge_heights[:-1]) / 2)
        just_above_edges = -just_below(-self.edges)
        extra_knots = np.concatenate(
            [just_below(self.edges), self.edges, just_above_edges, middles]
        )
        first_knot, last_knot = self.curve.knots[[0, -1]]
        knots = np.union1d(self.curve.knots, np.clip(extra_knots, first_knot, last_knot))
        heights = self.curve(knots)
        n_intervals = p.size if simultaneous else 1
        half_width = self.half_width(knots, level=level, n_intervals=n_intervals)
        ends = [
            PiecewiseLinearCDF(knots, np.maximum.accumulate(band)).inverse(p)
            for band in (np.minimum(heights + half_width, 1), heights - half_width)
        ]
        return np.maximum(np.stack(ends, axis=-1), self._low)

    def mean_interval(self, level: float, *, simultaneous_level: float | None = None) -> Floats:
        """Return a confidence interval for the mean at the larger of the two levels, shape (2,).

        The mean is a linear combination of the distribution function's values at the cell edges,
        whose coefficients are the differences between the means of neighbouring cells. Its variance
        is the variance of this combination plus the variance due to the cell means.
        """
        means, variances = self._cell_moments()
        steps = means[1:] - means[:-1]
        if self.covariance is not None:
            quadratic_form = float(steps @ self.covariance @ steps)
            height_variance = max(quadratic_form, 0.0)
        else:  # the largest possible variance, for fully dependent errors of the heights
            max_deviation = float(np.abs(steps) @ self.deviations)
            height_variance = max_deviation**2
        inner_variance = float(self.within_cell_variance * self.weights @ variances)
        deviation = np.sqrt(height_variance + inner_variance)
        failure = 1 - max(level, simultaneous_level or 0)
        half_width = norm.isf(failure / 2) * deviation
        mean = self.mean()
        ends = [mean - half_width, mean + half_width]
        return np.clip(ends, self._low, self.curve.knots[-1])

    def _cell_moments(self) -> tuple[Floats, Floats]:
        """Return the mean and the variance of the numbers in each cell, shape (n_cells,) each."""
        # pieces of the curve, each within one cell; a jump is a piece whose mass is at its end
        knots = np.union1d(self.curve.knots, self.edges)
        mass = np.diff(self.curve(knots))  # (n_pieces,)
        end = knots[1:]
        is_jump = np.nextafter(knots[:-1], end) >= end
        start = np.where(is_jump, end, knots[:-1])
        middle = start / 2 + end / 2
        cell = np.searchsorted(self.edges, end, side="left")
        n_cells = len(self.weights)
        total = np.bincount(cell, mass, minlength=n_cells)
        is_occupied = total > 0

        # in a cell without mass, numbers are uniform between its ends
        high = self.curve.knots[-1]
        cell_ends = np.concatenate([[self._low], self.edges, [high]])
        cell_middles = (cell_ends[1:] + cell_ends[:-1]) / 2
        uniform_variances = np.diff(cell_ends) ** 2 / 12
        sums = np.bincount(cell, mass * middle, minlength=n_cells)
        means = np.divide(sums, total, out=cell_middles, where=is_occupied)
        deviation = middle - means[cell]
        width = end - start
        inside = width**2 / 12  # variance of uniform numbers
        second_moment = mass * (deviation**2 + inside)
        squares = np.bincount(cell, second_moment, n_cells)
        variances = np.divide(squares, total, out=uniform_variances, where=is_occupied)
        return means, variances

    def fraction_intervals(
        self, above: ArrayLike, up_to: ArrayLike, level: float, *, simultaneous: bool = False
    ) -> Floats:
        """Return intervals for the population's fractions with above < x <= up_to, shape (n, 2)."""
        above = np.asarray(above, dtype=float)
        up_to = np.asarray(up_to, dtype=float)
        n_intervals = max(len(up_to), 1) if simultaneous else 1
        half_width_above = self.half_width(above, level=level, n_intervals=n_intervals)
        half_width_up_to = self.half_width(up_to, level=level, n_intervals=n_intervals)
        half_width = half_width_above + half_width_up_to
        # Simultaneous intervals also cover rare bins, for which the normal tails of a difference
        # are too thin.
        if self.covariance is not None and not simultaneous:
            deviation = np.sqrt(self._difference_variance(above, up_to))
            normal_half_width = norm.isf((1 - level) / 2) * deviation
            half_width = np.minimum(half_width, normal_half_width)
        answers = self.fraction(above, up_to)
        ends = np.column_stack([answers - half_width, answers + half_width])
        return np.clip(ends, 0, 1)

    def half_width(self, x: ArrayLike, *, level: float = 0.95, n_intervals: float = 1) -> Floats:
        """Return the half-width of the confidence interval around cdf(x) for each number x.

        Several intervals hold jointly by Bonferroni's correction or by the simultaneous band,
        whichever is narrower. An infinite `n_intervals` selects the band.
        """
        x = np.asarray(x, dtype=float)
        failure = (1 - level) / (2 * n_intervals)  # of each end
        factor = float(norm.isf(failure))
        if n_intervals > 1:
            factor = min(factor, simultaneous_factor(self.path_length, level))
        cell, fraction, is_end = self._locate(x)

        variances = np.concatenate([[0], self.deviations**2, [0]])  # at both ends of all cells
        variance_before = variances[cell]
        variance_after = variances[cell + 1]
        interpolated = (1 - fraction) * variance_before + fraction * variance_after
        at_ends = factor * np.sqrt(interpolated)

        variance_within = self._within_cell_variance(cell, fraction)
        within = factor * np.sqrt(variance_within)
        inside = np.hypot(at_ends, within)
        # the largest possible error occurs if all mass of the cell is at one point
        max_share_moved = np.maximum(fraction, 1 - fraction)
        worst_case = at_ends + max_share_moved * self.weights[cell]
        inside = np.minimum(inside, worst_case)
        half_width = np.where(is_end, at_ends, inside)
        return np.minimum(half_width, 1)

    @property
    def _low(self) -> float:
        """The lower bound of the column, which is preceded by a knot at the next smaller float."""
        return float(self.curve.knots[1])

    def _locate(self, x: Floats) -> tuple[Codes, Floats, NDArray[np.bool_]]:
        """Return the cell of each number, and the fraction of its mass at or below the number.

        The third array indicates the ends of cells and the numbers outside the bounds.
        """
        cell = np.searchsorted(self.edges, x, side="left")
        weight = self.weights[cell]
        cumulative = np.cumsum(self.weights)
        mass_before_cell = np.append(0, cumulative)[cell]
        mass_in_cell = self.cdf(x) - mass_before_cell
        fraction = np.clip(ratios(mass_in_cell, weight, 1.0), 0, 1)
        high = self.curve.knots[-1]
        is_outside = (x < self._low) | (x >= high)
        is_end = np.isin(x, self.edges) | is_outside
        return cell, fraction, is_end

    def _within_cell_variance(self, cell: Codes, fraction: Floats) -> Floats:
        """Return the error variance of the mass below a point inside a cell, given the cell's mass.

        The error variance is binomial with the effective number n of rows in the cell. The fraction
        of the mass below the point is kept at least 1 / (n + 2) away from 0 and 1, since even an
        estimated fraction of 0 is uncertain.
        """
        weight, variance_per_mass = self.weights[cell], self.within_cell_variance[cell]
        min_fraction = 1 / (weight / variance_per_mass + 2)
        fraction = np.clip(fraction, min_fraction, 1 - min_fraction)
        return variance_per_mass * weight * fraction * (1 - fraction)

    def _difference_variance(self, above: Floats, up_to: Floats) -> Floats:
        """Return the posterior variance of cdf(up_to) - cdf(above), at edges and inside cells."""
        assert self.covariance is not None
        covariance = np.pad(self.covariance, 1)  # the function is exact at both bounds
        first_cell, first_fraction, is_first_end = self._locate(above)
        last_cell, last_fraction, is_last_end = self._locate(up_to)
        # By linear interpolation within cells, the difference is a linear combination of the
        # heights at the ends of both cells.
        edges = np.stack([first_cell, first_cell + 1, last_cell, last_cell + 1])  # (4, n)
        factors = np.stack([first_fraction - 1, -first_fraction, 1 - last_fraction, last_fraction])
        edge_covariance = covariance[edges[:, None], edges[None]]  # (4, 4, n)
        edge_variance = np.einsum("in,jn,ijn->n", factors, factors, edge_covariance)

        first_variance = self._within_cell_variance(first_cell, first_fraction)
        last_variance = self._within_cell_variance(last_cell, last_fraction)
        two_cells = np.where(is_first_end, 0, first_variance) + np.where(
            is_last_end, 0, last_variance
        )
        one_cell = self._within_cell_variance(first_cell, last_fraction - first_fraction)
        # if both numbers are ends of the same cell, these ends alone determine the variance
        is_inside_one_cell = (first_cell == last_cell) & ~(is_first_end & is_last_end)
        inner_variance = np.where(is_inside_one_cell, one_cell, two_cells)
        return np.maximum(edge_variance, 0) + inner_variance


def path_length(covariance: Floats) -> float:
    """Return the path length in the tube formula, for estimates at increasing numbers.

    Standardised errors are unit vectors whose inner products are the correlations. The path on the
    unit sphere connects consecutive vectors. The length of each step is the angle whose cosine is
    the correlation of two neighbours.
    """
    variance, neighbour_covariance = np.diag(covariance), np.diag(covariance, 1)
    scale = np.sqrt(variance[:-1] * variance[1:])
    correlation = ratios(neighbour_covariance, scale, 1.0)
    return float(np.arccos(np.clip(correlation, -1, 1)).sum())


def simultaneous_factor(length: float, level: float) -> float:
    """Return the half-width of a simultaneous confidence band, in standard deviations.

    The half-width c solves length / π · exp(-c²/2) + 2 Φ(-c) = 1 - level (tube formula).

    References
    ----------
    Naiman (1986), Conservative confidence bands in curvilinear regression; Sun and Loader (1994).
    """

    def excess_failure(deviations: float) -> float:
        """Return the failure probability of a band with this half-width, minus 1 - level."""
        tube = length / np.pi * np.exp(-(deviations**2) / 2)
        return float(tube + 2 * ndtr(-deviations)) - (1 - level)

    return float(brentq(excess_failure, 0.0, MAX_FACTOR))
