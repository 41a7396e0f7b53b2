"""Private release of the distribution function of one numeric column."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from skpublicdp.accounting import Gaussian, Noise
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.cdf.cdf_posterior import (
    NO_SHIFT,
    DistributionShift,
    PublicPrior,
    ShiftEstimates,
    StrategyMeasurement,
    estimate_distribution_shift,
    least_squares,
    linearize,
    posterior_prefix_sums,
)
from skpublicdp.query_release.cdf.grid import (
    MIN_CELL_SNR,
    CDFGrid,
    ColumnCounts,
    PiecewiseLinearCDF,
    SortedColumn,
    build_grid,
    just_below,
)
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF, path_length
from skpublicdp.query_release.cdf.strategies import (
    REFINEMENT_SHARE,
    SHARE_PER_ROUND,
    check_noise_scale,
    choose_strategy,
    detection_threshold,
    measure,
    refine_heavy_cells,
)
from skpublicdp.typing import Floats

MIN_CDF_CELLS, MAX_CDF_CELLS, MAX_CDF_CELLS_LAPLACE = 16, 700, 256
"""Minimum number of cells, and maximum numbers of cells with Gaussian and with Laplace noise. These
maxima limit the run time, which is cubic in the number of cells."""

MAX_ABS_BOUND = 1e300
"""Largest absolute bound, so that sums and multiples of bounds do not overflow."""

MIN_WIDTH = 1e-290
"""Smallest difference of the bounds, so that small fractions of it are positive."""


def release_cdf(
    x_private: ArrayLike | ColumnCounts,
    x_public: ArrayLike,
    *,
    bounds: tuple[float, float],
    ledger: Ledger,
    trust: str | float = "auto",
) -> ReleasedCDF:
    """Release the distribution function of one numeric column with differential privacy.

    Parameters
    ----------
    x_private : array-like of shape (n_private,), or ColumnCounts
        Private values, of which there must be at least one. All values must be finite. They are
        clipped to the bounds.
    x_public : array-like of shape (n_public,)
        Finite public values; the array may be empty.
    bounds : tuple of float
        Lower and upper bounds, chosen without using private rows. If there are public rows, wide
        bounds reduce accuracy only slightly.
    ledger : Ledger
        Privacy ledger, whose entire budget is spent on Gaussian noise, or on Laplace noise
        if δ = 0.
    trust : 'auto' or float
        Weight of a public row relative to a private row, from 0 to 1. 'auto' estimates this weight
        from the noisy answers, at no privacy cost.

    Returns
    -------
    ReleasedCDF
        Released distribution, computed from noisy counts and public rows. The number of private
        rows is not protected.

    Raises
    ------
    ValueError
        If an argument is invalid, or if the noise is too large to be drawn. The error is raised
        before anything is charged.

    Notes
    -----
    If the budget suffices to detect heavy cells, an eighth of it is used to measure all cells, and
    heavy cells are refined. The remaining budget is used to measure the refined cells.

    Examples
    --------
    >>> import numpy as np
    >>> hours = np.repeat([20.0, 40.0, 60.0], 1000)
    >>> ledger = Ledger(1, 1e-6, random_state=0)
    >>> release = release_cdf(hours, hours[::30], bounds=(0, 100), ledger=ledger)
    >>> release.cdf([39, 40]).round(1)
    array([0.3, 0.7])
    """
    public = _check_column("x_public", x_public)
    low, high = _check_cdf_bounds(bounds)
    if isinstance(x_private, ColumnCounts):
        private = x_private
    else:
        private = SortedColumn(_check_column("x_private", x_private), low, high)
    if not private.n:
        raise ValueError("There must be at least one private row.")
    if trust != "auto" and (isinstance(trust, str) or not 0 <= trust <= 1):
        raise ValueError(f"trust must be 'auto' or a number from 0 to 1; got {trust!r}.")
    noise = ledger.noise
    check_noise_scale(noise, ledger)

    max_cells = max_grid_cells(noise, private.n / ledger.rows_per_person)
    public_grid = build_grid(public, low, high, max_cells)
    grid, measurements, spent_share = _measure_and_refine(public_grid, private, ledger, max_cells)
    final_noise = noise.scaled(1 - spent_share)
    strategy = choose_strategy(len(grid.edges) + 1, final_noise, ledger, is_final=True)
    answers = measure(strategy, grid.tabulate(private), final_noise, ledger)
    measurements = [*measurements, StrategyMeasurement(strategy, answers)]
    return posterior_cdf(grid, measurements, public, private.n, trust)


def _measure_and_refine(
    grid: CDFGrid, private: ColumnCounts, ledger: Ledger, max_cells: int
) -> tuple[CDFGrid, list[StrategyMeasurement], Fraction]:
    """Measure the cells of a grid with an eighth of the budget, and refine the heavy cells.

    Returns the refined grid, the measurement of the initial cells, and the spent share of the
    budget. There is no measurement if the budget does not suffice for it.
    """
    noise, n = ledger.noise, private.n
    # no cell can be heavy if even a cell with all rows is not heavy
    if detection_threshold(noise, REFINEMENT_SHARE, ledger) > n:
        return grid, [], Fraction(0)
    share = REFINEMENT_SHARE * SHARE_PER_ROUND
    first_noise = noise.scaled(share)
    strategy = choose_strategy(len(grid.edges) + 1, first_noise, ledger, is_final=False)
    counts = grid.tabulate(private)
    answers = measure(strategy, counts, first_noise, ledger, ", before refinement")
    first_measurement = StrategyMeasurement(strategy, answers)
    prefix_sums = least_squares([first_measurement], n).prefix_sums
    masses = np.diff(prefix_sums, prepend=0.0, append=1.0)
    refined, refinement_share = refine_heavy_cells(
        grid, masses, private, noise=noise, ledger=ledger, max_cells=max_cells
    )
    # the initial cell that contains each refined cell
    refined_ends = np.append(refined.edges, refined.high)
    initial_cells = np.searchsorted(grid.edges, refined_ends)
    measurement = StrategyMeasurement(strategy, answers, initial_cells)
    return refined, [measurement], share + refinement_share


def _check_cdf_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Check the order and size of a column's bounds, and return them as floats."""
    low, high = float(bounds[0]), float(bounds[1])
    if not -MAX_ABS_BOUND <= low < high <= MAX_ABS_BOUND:
        raise ValueError(
            f"bounds must be at most {MAX_ABS_BOUND:g} in absolute value, and the lower bound must "
            f"be below the upper bound; got {bounds}."
        )
    return low, high


def max_grid_cells(noise: Noise, n_persons: float) -> int:
    """Return the maximum number of histogram cells of a column for a given noise level.

    With this number of cells, a cell that contains an equal share of the rows has the
    signal-to-noise ratio `MIN_CELL_SNR`. The number is clipped to `MIN_CDF_CELLS` and
    `MAX_CDF_CELLS` (`MAX_CDF_CELLS_LAPLACE`).
    """
    max_cells = MAX_CDF_CELLS if isinstance(noise, Gaussian) else MAX_CDF_CELLS_LAPLACE
    n_cells = noise.signal_to_noise(n_persons) / MIN_CELL_SNR
    return int(np.clip(n_cells, MIN_CDF_CELLS, max_cells))


def posterior_cdf(
    grid: CDFGrid,
    measurements: Sequence[StrategyMeasurement],
    x_public: Floats,
    n_private: int,
    trust: str | float = "auto",
) -> ReleasedCDF:
    """Estimate the distribution function from noisy measurements and public rows, if any."""
    prior_at_edges = public_prior_at_edges(grid, x_public)
    prefix_sums = least_squares(measurements, n_private)
    if trust == "auto":
        shifts = estimate_distribution_shift(prefix_sums, prior_at_edges)
    else:
        shifts = _shift_of_trust(float(trust), len(x_public))
    mean, _ = posterior_prefix_sums(prefix_sums, prior_at_edges, shifts.likely)
    heights = np.clip(isotonic_regression(mean).x, 0, 1)
    # The intervals assume the plausible shift, which trusts public rows less than the estimate. The
    # difference between both estimates counts as an error.
    plausible_mean, plausible_covariance = posterior_prefix_sums(
        prefix_sums, prior_at_edges, shifts.plausible, heights
    )
    bias = plausible_mean - heights
    covariance = plausible_covariance + np.outer(bias, bias)
    model = linearize(prior_at_edges, shifts.likely.tilt, n_private)
    prior_trace = np.trace(model.prior_covariance(shifts.likely))
    # average over the edges of the number of private rows with the same precision as the prior
    effective_public_size = float(n_private * np.trace(model.sampling_covariance) / prior_trace)
    weights = np.diff(heights, prepend=0.0, append=1.0)
    # the shift of an entire cell serves as an estimate of the shift inside the cell
    squared_shift = (weights - np.diff(prior_at_edges.public_cdf, prepend=0.0)) ** 2
    squared_shift = np.divide(squared_shift, weights, out=np.zeros_like(weights), where=weights > 0)
    plausible_variance = 1 / (len(x_public) + 1) + shifts.plausible.rough_variance
    return ReleasedCDF(
        curve=_interpolate(grid, heights),
        edges=grid.edges,
        weights=weights,
        atoms=grid.atoms,
        deviations=np.sqrt(np.diag(covariance)),
        within_cell_variance=np.maximum(plausible_variance, squared_shift),
        path_length=path_length(plausible_covariance),
        effective_public_size=effective_public_size,
        drift=shifts.likely,
        n_private=n_private,
        n_public=len(x_public),
        covariance=covariance,
    )


def _shift_of_trust(trust: float, n_public: int) -> ShiftEstimates:
    """Return the rough shift that gives each public row the weight of `trust` private rows.

    With this shift, the public rows are as precise as trust · n_public + 1 rows; without it, they
    are as precise as n_public + 1 rows. The shift variance is the difference between the two
    variances.
    """
    rough_variance = 1 / (trust * n_public + 1) - 1 / (n_public + 1)
    shift = DistributionShift(NO_SHIFT.tilt, rough_variance, 0.0)
    return ShiftEstimates(likely=shift, plausible=shift)


def public_prior_at_edges(grid: CDFGrid, x_public: Floats) -> PublicPrior:
    """Evaluate the public distribution functions at the right ends of the cells of a grid."""
    ends = np.append(grid.edges, grid.high)
    public_heights, tail_heights = grid.public_cdf(ends), grid.tail_cdf(ends)
    public_heights[-1] = tail_heights[-1] = 1
    return PublicPrior(public_heights, tail_heights, len(x_public))


def _interpolate(grid: CDFGrid, heights: Floats) -> PiecewiseLinearCDF:
    """Return the distribution function that has given heights at the edges of a grid.

    Within each cell, the function increases in proportion to the public distribution function, or
    linearly if the cell has no public mass.
    """
    start = just_below(np.array([grid.low]))
    ends = np.concatenate([start, grid.edges, [grid.high]])
    heights = np.concatenate([[0], heights, [1]])
    public_heights = grid.public_cdf(ends)
    knots = np.unique(np.concatenate([grid.public_cdf.knots, ends]))

    # the cell of each knot: its ends, its width and its public mass
    end_index = np.searchsorted(ends, knots, side="left")
    end_index = np.clip(end_index, 1, len(ends) - 1)
    start_index = end_index - 1
    cell_start = ends[start_index]
    cell_end = ends[end_index]
    public_start = public_heights[start_index]
    public_mass = public_heights[end_index] - public_start
    public_below = grid.public_cdf(knots) - public_start

    has_public = public_mass > 0
    divisor = np.where(has_public, public_mass, 1)
    linear_fraction = (knots - cell_start) / (cell_end - cell_start)
    fraction = np.where(has_public, public_below / divisor, linear_fraction)
    fraction = np.clip(fraction, 0, 1)
    # the ends of a cell have exactly the given heights, without rounding error
    fraction = np.where(knots >= cell_end, 1, fraction)
    low = heights[start_index]
    high = heights[end_index]
    inside = low + fraction * (high - low)
    interpolated = np.where(fraction == 1, high, inside)
    interpolated[0] = 0
    return PiecewiseLinearCDF(knots, np.maximum.accumulate(interpolated))


def _check_column(name: str, values: ArrayLike) -> Floats:
    """Return one column as floats, after checking that it is one-dimensional and finite."""
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or not np.isfinite(column).all():
        raise ValueError(f"{name} must be a one-dimensional array of finite numbers.")
    return column
