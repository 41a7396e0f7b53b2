"""Release the distribution function of one numeric column: count, measure, estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression
from scipy.stats import norm

from skpublicdp.accounting import Gaussian
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.cdf.adaptive_grid import (
    REFINEMENT_SHARE,
    SHARE_PER_ROUND,
    detection_threshold,
    refine_heavy_cells,
)
from skpublicdp.query_release.cdf.cdf_posterior import (
    NO_SHIFT,
    DistributionShift,
    PublicPrior,
    StrategyMeasurement,
    estimate_shift,
    least_squares,
    linearize,
    path_length,
    posterior,
    simultaneous_factor,
)
from skpublicdp.query_release.cdf.grid import (
    CDFGrid,
    ColumnCounts,
    PiecewiseLinearCDF,
    SortedColumn,
    build_grid,
    just_below,
)
from skpublicdp.query_release.cdf.strategies import (
    check_noise_scale,
    hierarchy_strategy,
    histogram_strategy,
    measure,
    prefix_strategy,
)
from skpublicdp.query_release.spending import MIN_CELL_SNR, all_noise, scaled_noise, signal_to_noise
from skpublicdp.typing import Floats

MIN_CDF_CELLS, MAX_CDF_CELLS, MAX_CDF_CELLS_LAPLACE = 16, 700, 256
"""Minimum number of cells, and maximum with Gaussian and with Laplace noise, to save time."""

MAX_ABS_BOUND = 1e300
"""Largest absolute bound, so that sums and multiples of bounds do not overflow."""


@dataclass(frozen=True)
class ReleasedCDF:
    """Released distribution function of a column. Answers are fractions of the population.

    Attributes
    ----------
    curve : PiecewiseLinearCDF
        The distribution function.
    edges : ndarray of shape (n_cells - 1,)
        Cells are (edges[i - 1], edges[i]]; the first starts at the lower bound, which is in it, and
        the last ends at the upper bound.
    weights : ndarray of shape (n_cells,)
        Fraction of the population in each cell.
    atoms : ndarray
        Values that the release treats as points with mass of their own.
    deviations : ndarray of shape (n_cells - 1,)
        Standard deviation of the released distribution function at each edge.
    spread_inside : ndarray of shape (n_cells,)
        Variance inside each cell, as the inverse of a number of rows.
    path_length : float
        Length of the path of standardised prefix sums, for simultaneous confidence bands.
    effective_public_size : float
        Effective public sample size, in private rows.
    drift : DistributionShift
        Estimated shift of the private distribution from the public one.
    n_private, n_public : int
        Rows.
    covariance : ndarray of shape (n_cells - 1, n_cells - 1), or None
        Covariance of the released distribution function at the edges. It is dropped where many
        columns are released, to save memory; intervals of differences are then longer.
    """

    curve: PiecewiseLinearCDF
    edges: Floats
    weights: Floats
    atoms: Floats
    deviations: Floats
    within_cell_variance: Floats
    path_length: float
    effective_public_size: float
    drift: DistributionShift
    n_private: int
    n_public: int
    covariance: Floats | None = field(default=None, repr=False)

    def cdf(self, x: ArrayLike) -> Floats:
        """Return the fraction at or below each number; outside the bounds it is 0 or 1."""
        return self.curve(np.asarray(x, dtype=float))

    def quantile(self, p: ArrayLike) -> Floats:
        """Return the least number at or below which there is at least each fraction."""
        p = np.asarray(p, dtype=float)
        numbers: Floats = np.maximum(self.curve.inverse(p), self.curve.knots[1])
        return numbers

    def interval(self, low: ArrayLike, high: ArrayLike) -> Floats:
        """Return the fraction in each closed interval, 0 if it is empty."""
        below = self.curve(just_below(np.asarray(low, dtype=float)))
        fractions: Floats = np.maximum(self.cdf(high) - below, 0)
        return fractions

    def quantile_interval(
        self, p: ArrayLike, level: float = 0.95, *, simultaneous: bool = False
    ) -> Floats:
        """Return intervals for the population's quantiles.

        Parameters
        ----------
        p : array-like
            Fractions from 0 to 1.
        level : float, default=0.95
            Coverage.
        simultaneous : bool, default=False
            Whether the intervals hold all at once.

        Returns
        -------
        ndarray of shape (..., 2)
            Lower and upper ends. A number is between them unless the interval around its fraction,
            see `half_width`, leaves p out.
        """
        p = np.asarray(p, dtype=float)
        # just beside an edge, and in the middle of a cell, intervals are wider than at its ends
        levels = self.curve(self.edges)
        middles = self.curve.inverse((levels[1:] + levels[:-1]) / 2)
        beside = np.concatenate(
            [just_below(self.edges), self.edges, -just_below(-self.edges), middles]
        )
        at = np.union1d(self.curve.knots, np.clip(beside, *self.curve.knots[[0, -1]]))
        heights = self.curve(at)
        half = self.half_width(at, level=level, together=p.size if simultaneous else 1)
        ends = [
            PiecewiseLinearCDF(at, np.maximum.accumulate(bound)).inverse(p)
            for bound in (np.minimum(heights + half, 1), heights - half)
        ]
        interval: Floats = np.maximum(np.stack(ends, axis=-1), self.curve.knots[1])
        return interval

    def fraction_intervals(
        self, above: ArrayLike, up_to: ArrayLike, level: float, *, simultaneous: bool = False
    ) -> Floats:
        """Return intervals of the fractions of the population with above < x <= up_to.

        Parameters
        ----------
        above, up_to : array-like of shape (n,)
            Numbers, which may be infinite.
        level : float
            Coverage.
        simultaneous : bool, default=False
            Whether the intervals hold all at once.

        Returns
        -------
        ndarray of shape (n, 2)
        """
        above, up_to = np.asarray(above, dtype=float), np.asarray(up_to, dtype=float)
        together = max(len(up_to), 1) if simultaneous else 1
        half = self.half_width(above, level=level, together=together)
        half = half + self.half_width(up_to, level=level, together=together)
        # all at once, rare bins among them, normal tails of a difference would be too thin
        if self.covariance is not None and not simultaneous:
            deviation = np.sqrt(self._variance_between(above, up_to))
            half = np.minimum(half, norm.isf((1 - level) / 2) * deviation)
        answers = np.maximum(self.cdf(up_to) - self.cdf(above), 0)
        intervals: Floats = np.clip(np.column_stack([answers - half, answers + half]), 0, 1)
        return intervals

    def half_width(self, x: ArrayLike, *, level: float = 0.95, together: float = 1) -> Floats:
        """Return the half-width of an interval for the population's fraction at each number.

        Parameters
        ----------
        x : array-like
            Numbers.
        level : float, default=0.95
            Coverage.
        together : float, default=1
            Number of simultaneous intervals, by Bonferroni or by the simultaneous band if that is
            narrower. Infinity selects the band.

        Returns
        -------
        ndarray
            One for each number, at most 1.
        """
        wide = float(norm.isf((1 - level) / (2 * together)))
        if together > 1:
            wide = min(wide, simultaneous_factor(self.path_length, level))
        variances = np.concatenate([[0], self.deviations**2, [0]])
        cell, share, is_end = self._locate(np.asarray(x, dtype=float))
        around = wide * np.sqrt((1 - share) * variances[cell] + share * variances[cell + 1])
        inside = np.hypot(around, wide * np.sqrt(self._variance_inside(cell, share)))
        # at worst all mass of the cell is at one point
        inside = np.minimum(inside, around + np.maximum(share, 1 - share) * self.weights[cell])
        half: Floats = np.minimum(np.where(is_end, around, inside), 1)
        return half

    def _locate(self, x: Floats) -> tuple[NDArray[np.intp], Floats, NDArray[np.bool_]]:
        """Return the cell of each number, the share of it up to there, and whether it is an end."""
        heights = np.concatenate([[0], np.cumsum(self.weights)])
        cell = np.searchsorted(self.edges, x, side="left")
        weight = self.weights[cell]
        share = np.divide(
            self.cdf(x) - heights[cell], weight, out=np.ones(x.shape), where=weight > 0
        )
        low, high = self.curve.knots[1], self.curve.knots[-1]
        is_end = np.isin(x, self.edges) | (x < low) | (x >= high)
        return cell, np.clip(share, 0, 1), is_end

    def _variance_inside(self, cell: NDArray[np.intp], share: Floats) -> Floats:
        """Return the variance of a share of a cell, by its effective number of rows."""
        weight, spread = self.weights[cell], self.within_cell_variance[cell]
        least = 1 / (weight / spread + 2)
        split = np.clip(share, least, 1 - least)
        variance: Floats = spread * weight * split * (1 - split)
        return variance

    def _variance_between(self, above: Floats, up_to: Floats) -> Floats:
        """Return the variance of the difference of the distribution function at two numbers."""
        assert self.covariance is not None
        covariance = np.pad(self.covariance, 1)  # at both bounds the function is exact
        (start, low, start_is_end), (end, high, end_is_end) = map(self._locate, (above, up_to))
        places = np.stack([start, start + 1, end, end + 1])
        factors = np.stack([low - 1, -low, 1 - high, high])
        variance = np.einsum(
            "in,jn,ijn->n", factors, factors, covariance[places[:, None], places[None]]
        )
        of_ends = np.where(start_is_end, 0, self._variance_inside(start, low))
        of_ends = of_ends + np.where(end_is_end, 0, self._variance_inside(end, high))
        within = self._variance_inside(start, high - low)
        inside = np.where((start == end) & ~(start_is_end & end_is_end), within, of_ends)
        total: Floats = np.maximum(variance, 0) + inside
        return total


def release_cdf(
    x_private: ArrayLike | ColumnCounts,
    x_public: ArrayLike,
    *,
    bounds: tuple[float, float],
    ledger: Ledger,
    trust: str | float = "auto",
) -> ReleasedCDF:
    """Release the distribution of one numeric column.

    Parameters
    ----------
    x_private : array-like of shape (n_private,), or ColumnCounts
        At least one finite number. Values outside the bounds are moved to the nearer one.
    x_public : array-like of shape (n_public,)
        Finite numbers; may be empty.
    bounds : tuple of float
        Lower and upper bound, chosen without private rows. Wide bounds cost little accuracy if
        there are public rows.
    ledger : Ledger
        Pays with all it holds: Gaussian noise, or Laplace noise if δ = 0.
    trust : 'auto' or float
        Weight of a public row relative to a private row, from 0 to 1. 'auto' estimates it from the
        noisy answers, which costs no privacy.

    Returns
    -------
    ReleasedCDF
        A function of noisy counts and public rows. The number of private rows is public.

    Raises
    ------
    ValueError
        If an argument is not as described, or the noise is too large to be drawn. Nothing is
        charged then.

    Examples
    --------
    >>> import numpy as np
    >>> hours = np.repeat([20.0, 40.0, 60.0], 1000)
    >>> ledger = Ledger(1, 1e-6, random_state=0)
    >>> release = release_cdf(hours, hours[::30], bounds=(0, 100), ledger=ledger)
    >>> release.cdf([39, 40]).round(1)
    array([0.3, 0.7])
    """
    public = _column("x_public", x_public)
    low, high = float(bounds[0]), float(bounds[1])
    if not -MAX_ABS_BOUND <= low < high <= MAX_ABS_BOUND:
        raise ValueError(
            f"bounds must be at most {MAX_ABS_BOUND:g} in size, the lower below the upper; "
            f"got {bounds}."
        )
    private: ColumnCounts
    if isinstance(x_private, ColumnCounts):
        private = x_private
    else:
        private = SortedColumn(_column("x_private", x_private), low, high)
    if not private.n:
        raise ValueError("There must be at least one private row.")
    if trust != "auto" and (isinstance(trust, str) or not 0 <= trust <= 1):
        raise ValueError(f"trust must be 'auto' or a number from 0 to 1; got {trust!r}.")
    noise, n, k = all_noise(ledger), private.n, ledger.rows_per_person
    check_noise_scale(noise, ledger)
    cap = MAX_CDF_CELLS if isinstance(noise, Gaussian) else MAX_CDF_CELLS_LAPLACE
    max_cells = int(np.clip(signal_to_noise(noise, n / k) / MIN_CELL_SNR, MIN_CDF_CELLS, cap))
    grid = build_grid(public, low, high, max_cells)
    measurements, remaining_share = [], Fraction(1)
    if detection_threshold(noise, REFINEMENT_SHARE, ledger) <= n:
        coarse_grid, n_cells = grid, len(grid.edges) + 1
        share = REFINEMENT_SHARE * SHARE_PER_ROUND
        if isinstance(noise, Gaussian):
            # measurements of equal cells pool: this one is not wasted if no cell is heavy
            strategy = prefix_strategy(n_cells, share * noise.mu_squared / k**2)
        else:
            strategy = histogram_strategy(n_cells)
        first_noise = scaled_noise(noise, share)
        first_answers = measure(
            strategy, grid.tabulate(private), first_noise, ledger, ", first look"
        )
        prefix = least_squares([StrategyMeasurement(strategy, first_answers)], n).prefix
        masses = np.diff(prefix, prepend=0.0, append=1.0)
        grid, spent_share = refine_heavy_cells(grid, masses, private, noise, ledger, max_cells)
        ends = np.append(grid.edges, grid.high)
        measurements.append(
            StrategyMeasurement(strategy, first_answers, np.searchsorted(coarse_grid.edges, ends))
        )
        remaining_share -= share + spent_share
    final_noise = scaled_noise(noise, remaining_share)
    if isinstance(final_noise, Gaussian):
        strategy = prefix_strategy(len(grid.edges) + 1, final_noise.mu_squared / k**2)
    else:
        strategy = hierarchy_strategy(len(grid.edges) + 1)
    measurements.append(
        StrategyMeasurement(
            strategy, measure(strategy, grid.tabulate(private), final_noise, ledger)
        )
    )
    return posterior_cdf(grid, measurements, public, n, trust)


def posterior_cdf(
    grid: CDFGrid,
    measurements: Sequence[StrategyMeasurement],
    x_public: Floats,
    n_private: int,
    trust: str | float = "auto",
) -> ReleasedCDF:
    """Estimate the distribution function from noisy measurements and public rows (post-processing).

    Parameters
    ----------
    grid : CDFGrid
        The cells.
    measurements : sequence of StrategyMeasurement
        Noisy answers of strategies on the private rows.
    x_public : ndarray of shape (n_public,)
        May be empty.
    n_private : int
        Positive.
    trust : 'auto' or float
        As in `release_cdf`.

    Returns
    -------
    ReleasedCDF
        A function of the arguments alone.
    """
    prior_at_edges = public_prior_at_edges(grid, x_public)
    prefix_sums = least_squares(measurements, n_private)
    if trust == "auto":
        shift, interval_shift = estimate_shift(prefix_sums, prior_at_edges)
    else:
        n_public = len(x_public)
        rough = 1 / (float(trust) * n_public + 1) - 1 / (n_public + 1)
        shift = interval_shift = DistributionShift(NO_SHIFT.tilt, rough, 0.0)
    mean, _ = posterior(prefix_sums, prior_at_edges, shift)
    heights = np.clip(isotonic_regression(mean).x, 0, 1)
    # the estimate may trust the public rows more than the intervals do
    interval_mean, covariance = posterior(prefix_sums, prior_at_edges, interval_shift, heights)
    length = path_length(covariance)
    covariance = covariance + np.outer(interval_mean - heights, interval_mean - heights)
    model = linearize(prior_at_edges, shift.tilt, n_private)
    prior_trace = np.trace(model.prior(shift))
    weights = np.diff(heights, prepend=0.0, append=1.0)
    # the shift of a whole cell estimates the shift inside it
    squared_shift = (weights - np.diff(prior_at_edges.public_cdf, prepend=0.0)) ** 2
    squared_shift = np.divide(squared_shift, weights, out=np.zeros_like(weights), where=weights > 0)
    within_cell_variance = np.maximum(1 / (len(x_public) + 1) + interval_shift.rough, squared_shift)
    return ReleasedCDF(
        curve=_interpolate(grid, heights),
        edges=grid.edges,
        weights=weights,
        atoms=grid.atoms,
        deviations=np.sqrt(np.diag(covariance)),
        within_cell_variance=within_cell_variance,
        path_length=length,
        effective_public_size=float(n_private * np.trace(model.sampling) / prior_trace),
        drift=shift,
        n_private=n_private,
        n_public=len(x_public),
        covariance=covariance,
    )


def public_prior_at_edges(grid: CDFGrid, x_public: Floats) -> PublicPrior:
    """Evaluate the public prior at the right end of every cell."""
    ends = np.append(grid.edges, grid.high)
    public_heights, tail_heights = grid.public_cdf(ends), grid.tail_cdf(ends)
    public_heights[-1] = tail_heights[-1] = 1
    return PublicPrior(public_heights, tail_heights, len(x_public))


def _interpolate(grid: CDFGrid, heights: Floats) -> PiecewiseLinearCDF:
    """Interpolate the heights at the edges by the public distribution inside each cell."""
    start = just_below(np.array([grid.low]))
    ends = np.concatenate([start, grid.edges, [grid.high]])
    heights = np.concatenate([[0], heights, [1]])
    knots = np.unique(np.concatenate([grid.public_cdf.knots, ends]))
    cell = np.clip(np.searchsorted(ends, knots, side="left"), 1, len(ends) - 1)
    expected = grid.public_cdf(ends)
    mass = expected[cell] - expected[cell - 1]
    length = ends[cell] - ends[cell - 1]
    share = np.where(
        mass > 0,
        (grid.public_cdf(knots) - expected[cell - 1]) / np.where(mass > 0, mass, 1),
        (knots - ends[cell - 1]) / length,
    )
    # the ends of a cell get exactly the given heights, without rounding error
    share = np.where(knots >= ends[cell], 1, np.clip(share, 0, 1))
    interpolated = np.where(
        share == 1, heights[cell], heights[cell - 1] + share * (heights[cell] - heights[cell - 1])
    )
    interpolated[0] = 0
    return PiecewiseLinearCDF(knots, np.maximum.accumulate(interpolated))


def _column(name: str, values: ArrayLike) -> Floats:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or not np.isfinite(column).all():
        raise ValueError(f"{name} must be a one-dimensional array of finite numbers.")
    return column
