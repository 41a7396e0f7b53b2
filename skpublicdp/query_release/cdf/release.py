"""The release of one numeric column: measure with exact noise, then fit around public rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression
from scipy.stats import norm

from skpublicdp.accounting import Gaussian
from skpublicdp.ledger import Ledger
from skpublicdp.query_release.cdf.adaptive_grid import (
    REFINEMENT_SHARE,
    SHARE_PER_ROUND,
    detection_threshold,
    refine_heavy_cells,
)
from skpublicdp.query_release.cdf.grid import (
    CDFGrid,
    ColumnCounts,
    PiecewiseLinearCDF,
    SortedColumn,
    build_grid,
    just_below,
)
from skpublicdp.query_release.cdf.posterior import (
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
from skpublicdp.query_release.cdf.strategies import (
    check_noise_scale,
    hierarchy_strategy,
    histogram_strategy,
    measure,
    prefix_strategy,
)
from skpublicdp.query_release.spending import MIN_CELL_SNR, all_noise, scaled_noise, signal_to_noise

Floats = NDArray[np.float64]

MIN_CDF_CELLS, MAX_CDF_CELLS, MAX_CDF_CELLS_LAPLACE = 16, 700, 256
"""Of the line; the most with Gaussian noise and with Laplace noise, for time."""

MAX_ABS_BOUND = 1e300
"""Sums and multiples of such numbers are still floats."""


@dataclass(frozen=True)
class ReleasedCDF:
    """What is released of a column; answers are fractions of the population it was drawn from.

    Attributes
    ----------
    curve : Curve
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
        Length of the path of prefix sums, for intervals that hold at all numbers at once.
    effective_public_size : float
        How many rows without drift would be worth as much as the public rows were held to be.
    drift : Drift
        How far the fit let the private distribution be from the public one.
    n_private, n_public : int
        Rows.
    covariance : ndarray of shape (n_cells - 1, n_cells - 1), or None
        Covariance of the released distribution function at the edges. It is left out where many
        columns are released, for memory: intervals of differences are longer then.
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
            see `error`, leaves p out.
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
        half = self.error(at, level=level, together=p.size if simultaneous else 1)
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
        half = self.error(above, level=level, together=together)
        half = half + self.error(up_to, level=level, together=together)
        # all at once, rare bins among them, normal tails of a difference would be too thin
        if self.covariance is not None and not simultaneous:
            deviation = np.sqrt(self._variance_between(above, up_to))
            half = np.minimum(half, norm.isf((1 - level) / 2) * deviation)
        answers = np.maximum(self.cdf(up_to) - self.cdf(above), 0)
        intervals: Floats = np.clip(np.column_stack([answers - half, answers + half]), 0, 1)
        return intervals

    def error(self, x: ArrayLike, *, level: float = 0.95, together: float = 1) -> Floats:
        """Return the half-width of an interval for the population's fraction at each number.

        Parameters
        ----------
        x : array-like
            Numbers.
        level : float, default=0.95
            Coverage.
        together : float, default=1
            How many intervals hold at once: by Bonferroni, or by the band that holds at all numbers
            if that is narrower. Infinity asks for the band.

        Returns
        -------
        ndarray
            One for each number, at most 1.
        """
        wide = float(norm.isf((1 - level) / (2 * together)))
        if together > 1:
            wide = min(wide, simultaneous_factor(self.path_length, level))
        variances = np.concatenate([[0], self.deviations**2, [0]])
        cell, share, is_end = self._place(np.asarray(x, dtype=float))
        around = wide * np.sqrt((1 - share) * variances[cell] + share * variances[cell + 1])
        inside = np.hypot(around, wide * np.sqrt(self._variance_inside(cell, share)))
        # at worst it is all in one place
        inside = np.minimum(inside, around + np.maximum(share, 1 - share) * self.weights[cell])
        half: Floats = np.minimum(np.where(is_end, around, inside), 1)
        return half

    def _place(self, x: Floats) -> tuple[NDArray[np.intp], Floats, NDArray[np.bool_]]:
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
        """Return the variance of a share of a cell, which the rows in it determine."""
        weight, spread = self.weights[cell], self.within_cell_variance[cell]
        least = 1 / (weight / spread + 2)
        split = np.clip(share, least, 1 - least)
        variance: Floats = spread * weight * split * (1 - split)
        return variance

    def _variance_between(self, above: Floats, up_to: Floats) -> Floats:
        """Return the variance of the difference of the distribution function at two numbers."""
        assert self.covariance is not None
        covariance = np.pad(self.covariance, 1)  # at both ends the function is known
        (start, low, start_is_end), (end, high, end_is_end) = map(self._place, (above, up_to))
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
    x_private : array-like of shape (n_private,), or Counted
        At least one finite number. Values outside the bounds are moved to the nearer one.
    x_public : array-like of shape (n_public,)
        Finite numbers; may be empty.
    bounds : tuple of float
        Lower and upper bound, known without looking at private rows. Wide ones cost little where
        there are public rows.
    ledger : Ledger
        Pays with all it holds: Gaussian noise, or Laplace noise if δ = 0.
    trust : 'auto' or float
        How much of a row a public row is worth, from 0 to 1. 'auto' reads it off the noisy answers,
        which costs no privacy.

    Returns
    -------
    LineRelease
        What is private in it are noisy counts. The number of private rows is taken to be public.

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
    >>> release = release_line(hours, hours[::30], bounds=(0, 100), ledger=ledger)
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
    most = int(np.clip(signal_to_noise(noise, n / k) / MIN_CELL_SNR, MIN_CDF_CELLS, cap))
    line = build_grid(public, low, high, most)
    looks, left = [], Fraction(1)
    if detection_threshold(noise, REFINEMENT_SHARE, ledger) <= n:
        coarse, n_cells = line, len(line.edges) + 1
        share = REFINEMENT_SHARE * SHARE_PER_ROUND
        if isinstance(noise, Gaussian):
            # looks at the same cells add up: this one costs nothing if none is full
            strategy = prefix_strategy(n_cells, share * noise.mu_squared / k**2)
        else:
            strategy = histogram_strategy(n_cells)
        part = scaled_noise(noise, share)
        first = measure(strategy, line.tabulate(private), part, ledger, ", first look")
        prefix = least_squares([StrategyMeasurement(strategy, first)], n).prefix
        masses = np.diff(prefix, prepend=0.0, append=1.0)
        line, spent = refine_heavy_cells(line, masses, private, noise, ledger, most)
        ends = np.append(line.edges, line.high)
        looks.append(StrategyMeasurement(strategy, first, np.searchsorted(coarse.edges, ends)))
        left -= share + spent
    rest = scaled_noise(noise, left)
    if isinstance(rest, Gaussian):
        strategy = prefix_strategy(len(line.edges) + 1, rest.mu_squared / k**2)
    else:
        strategy = hierarchy_strategy(len(line.edges) + 1)
    looks.append(
        StrategyMeasurement(strategy, measure(strategy, line.tabulate(private), rest, ledger))
    )
    return posterior_cdf(line, looks, public, n, trust)


def posterior_cdf(
    line: CDFGrid,
    looks: Sequence[StrategyMeasurement],
    x_public: Floats,
    n_private: int,
    trust: str | float = "auto",
) -> ReleasedCDF:
    """Turn a noisy measurement into a release; no private row is seen here.

    Parameters
    ----------
    line : Line
        The cells.
    looks : sequence of Look
        What was measured of the private rows.
    x_public : ndarray of shape (n_public,)
        May be empty.
    n_private : int
        Positive.
    trust : 'auto' or float
        As in `release_cdf`.

    Returns
    -------
    LineRelease
        A function of the arguments alone.
    """
    guess = public_prior_at_edges(line, x_public)
    evidence = least_squares(looks, n_private)
    if trust == "auto":
        drift, bars = estimate_shift(evidence, guess)
    else:
        n_public = len(x_public)
        rough = 1 / (float(trust) * n_public + 1) - 1 / (n_public + 1)
        drift = bars = DistributionShift(NO_SHIFT.waves, rough, 0.0)
    mean, _ = posterior(evidence, guess, drift)
    heights = np.clip(isotonic_regression(mean).x, 0, 1)
    # the estimate may trust the public rows more than the error bars do
    other, covariance = posterior(evidence, guess, bars, heights)
    length = path_length(covariance)
    covariance = covariance + np.outer(other - heights, other - heights)
    model = linearize(guess, drift.waves, n_private)
    prior = np.trace(model.prior(drift))
    weights = np.diff(heights, prepend=0.0, append=1.0)
    # what came of a cell as a whole tells how far drift may go inside
    apart = (weights - np.diff(guess.base, prepend=0.0)) ** 2
    apart = np.divide(apart, weights, out=np.zeros_like(weights), where=weights > 0)
    inside = np.maximum(1 / (len(x_public) + 1) + bars.rough, apart)
    return ReleasedCDF(
        curve=_interpolate(line, heights),
        edges=line.edges,
        weights=weights,
        atoms=line.atoms,
        deviations=np.sqrt(np.diag(covariance)),
        within_cell_variance=inside,
        path_length=length,
        effective_public_size=float(n_private * np.trace(model.sampling) / prior),
        drift=drift,
        n_private=n_private,
        n_public=len(x_public),
        covariance=covariance,
    )


def public_prior_at_edges(line: CDFGrid, x_public: Floats) -> PublicPrior:
    """Evaluate the expected distribution where it is measured."""
    ends = np.append(line.edges, line.high)
    base, wide = line.base(ends), line.wide(ends)
    base[-1] = wide[-1] = 1
    return PublicPrior(base, wide, len(x_public))


def _interpolate(line: CDFGrid, heights: Floats) -> PiecewiseLinearCDF:
    """Follow the expected distribution inside each cell."""
    start = just_below(np.array([line.low]))
    ends = np.concatenate([start, line.edges, [line.high]])
    heights = np.concatenate([[0], heights, [1]])
    knots = np.unique(np.concatenate([line.base.knots, ends]))
    cell = np.clip(np.searchsorted(ends, knots, side="left"), 1, len(ends) - 1)
    expected = line.base(ends)
    mass = expected[cell] - expected[cell - 1]
    length = ends[cell] - ends[cell - 1]
    share = np.where(
        mass > 0,
        (line.base(knots) - expected[cell - 1]) / np.where(mass > 0, mass, 1),
        (knots - ends[cell - 1]) / length,
    )
    # the two ends of a cell get the heights found, not what rounding makes of them
    share = np.where(knots >= ends[cell], 1, np.clip(share, 0, 1))
    found = np.where(
        share == 1, heights[cell], heights[cell - 1] + share * (heights[cell] - heights[cell - 1])
    )
    found[0] = 0
    return PiecewiseLinearCDF(knots, np.maximum.accumulate(found))


def _column(name: str, values: ArrayLike) -> Floats:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or not np.isfinite(column).all():
        raise ValueError(f"{name} must be a one-dimensional array of finite numbers.")
    return column
