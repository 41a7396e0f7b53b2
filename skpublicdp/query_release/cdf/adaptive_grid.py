"""Adaptive grid: refine heavy cells of a column by counts of their parts, round by round.

Each round splits the heavy cells at short decimal numbers and counts the rows in their parts with
noise. Heavy parts are split in the next round. Released counts alone decide which cells are split
and how much budget a round gets. The refinement finds values with many rows even if no public row
has these values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Sensitivity, noise_scale
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.cdf.grid import CDFGrid, ColumnCounts, PiecewiseLinearCDF, just_below
from skpublicdp.query_release.cdf.strategies import PREFIX_SUMS_PROOF
from skpublicdp.query_release.spending import MIN_CELL_SNR, Noise, mechanism_name, scaled_noise
from skpublicdp.typing import Floats

INTERVAL_SENSITIVITY = Sensitivity(2, 2)
"""A replaced row leaves one interval and enters another."""

REFINEMENT_SHARE = Fraction(1, 4)
"""Maximum share of the budget for all refinement rounds together."""

SHARE_PER_ROUND = Fraction(1, 2)
"""Each refinement round spends this share of the remaining refinement budget."""

MIN_CELL_MASS = 2.0**-13
"""Minimum released mass of a cell that is split, so that a round has at most 2^18 intervals."""

MIN_SQUARED_DISTANCE = 1e-300
"""Lower bound of the denominator of the shrinkage factor, which may be 0."""

MAX_DECIMAL_POWER = 22
"""10^22 is the largest power of ten that a float represents exactly."""


@dataclass(frozen=True)
class IntervalMasses:
    """Disjoint intervals with their released fractions of the rows.

    Attributes
    ----------
    starts, ends : ndarray of shape (n_intervals,)
        Increasing. An interval is (start, end].
    masses : ndarray of shape (n_intervals,)
        Nonnegative fractions.
    """

    starts: Floats
    ends: Floats
    masses: Floats

    def select(self, mask: NDArray[np.bool_]) -> IntervalMasses:
        """Return the intervals of the mask."""
        return IntervalMasses(self.starts[mask], self.ends[mask], self.masses[mask])

    def replace_by_parts(self, mask: NDArray[np.bool_], parts: IntervalMasses) -> IntervalMasses:
        """Replace the intervals of the mask by their parts."""
        others = self.select(~mask)
        ends = np.concatenate([others.ends, parts.ends])
        order = np.argsort(ends)
        starts = np.concatenate([others.starts, parts.starts])[order]
        masses = np.concatenate([others.masses, parts.masses])[order]
        return IntervalMasses(starts, ends[order], masses)


class Refinement(NamedTuple):
    """Result of `refine_heavy_cells`.

    Attributes
    ----------
    grid : CDFGrid
        The refined grid. Its distribution functions follow the released masses in split cells.
    spent_share : Fraction
        Share of the budget that the refinement spent.
    """

    grid: CDFGrid
    spent_share: Fraction


def detection_threshold(noise: Noise, remaining_share: Fraction, ledger: Ledger) -> float:
    """Return the minimum number of rows of a heavy cell, given the remaining refinement budget.

    It is a multiple of the standard deviation of the noise of the next round.
    """
    round_noise = scaled_noise(noise, remaining_share * SHARE_PER_ROUND)
    _, variance = noise_scale(round_noise, ledger.for_person(INTERVAL_SENSITIVITY))
    return float(MIN_CELL_SNR * np.sqrt(variance))


def refine_heavy_cells(
    grid: CDFGrid,
    masses: Floats,
    x_private: ColumnCounts,
    noise: Noise,
    ledger: Ledger,
    max_cells: int,
) -> Refinement:
    """Split heavy cells in rounds until no part is heavy.

    Parameters
    ----------
    grid : CDFGrid
        The initial cells.
    masses : ndarray of shape (n_cells,)
        Released fraction of the rows in each cell.
    x_private : ColumnCounts
        The private column.
    noise : Gaussian or Pure
        The budget of the whole release.
    ledger : Ledger
        Pays.
    max_cells : int
        Parts of a cell are merged up to a mass of 1 / max_cells.

    Returns
    -------
    Refinement
        The refined grid and the share of the budget that was spent.
    """
    n, remaining_share = x_private.n, REFINEMENT_SHARE
    ends = np.append(grid.edges, grid.high)
    starts = np.concatenate([just_below(np.array([grid.low])), ends[:-1]])
    intervals = IntervalMasses(starts, ends, np.maximum(masses, 0))
    for round_number in count(1):
        threshold = detection_threshold(noise, remaining_share, ledger)
        is_heavy = intervals.masses >= max(threshold / n, MIN_CELL_MASS)
        # an interval of a single float cannot be split
        is_heavy &= just_below(intervals.ends) > intervals.starts
        if not is_heavy.any():
            break
        heavy = intervals.select(is_heavy)
        parts = split_at_decimals(heavy)
        share = remaining_share * SHARE_PER_ROUND
        remaining_share -= share
        cumulative = x_private.cumulative_counts(np.concatenate([parts.starts, parts.ends]))
        counts = np.diff(cumulative.reshape(2, -1), axis=0)[0]
        event = scaled_noise(noise, share)
        name = mechanism_name(f"the parts of heavy cells, round {round_number}", noise)
        noisy = ledger.add_noise(
            counts, INTERVAL_SENSITIVITY, event, name=name, proof=PREFIX_SUMS_PROOF
        )
        part_masses = _shrink_masses(
            grid.public_cdf, heavy, parts, noisy.values / n, noisy.variance / n**2
        )
        intervals = intervals.replace_by_parts(
            is_heavy, IntervalMasses(parts.starts, parts.ends, part_masses)
        )
    if remaining_share == REFINEMENT_SHARE:
        return Refinement(grid, Fraction(0))
    max_mass = max(1 / max_cells, detection_threshold(noise, REFINEMENT_SHARE, ledger) / n)
    return Refinement(
        _split_heavy_cells(grid, intervals, max_mass), REFINEMENT_SHARE - remaining_share
    )


def split_at_decimals(intervals: IntervalMasses) -> IntervalMasses:
    """Split intervals at the multiples of a power of ten.

    An interval holds 3 to 30 multiples of its power of ten. Each multiple, and the right end of the
    interval, becomes an interval of a single float. Where floats are too coarse to represent the
    multiples exactly, the interval is split into ten equal parts instead.

    Parameters
    ----------
    intervals : IntervalMasses
        Intervals of more than one float each.

    Returns
    -------
    IntervalMasses
        The parts, with masses 0.
    """
    starts, ends = intervals.starts, intervals.ends
    width = ends - starts
    exponent = np.floor(np.log10(width) - np.log10(3)).astype(int)
    max_abs = np.maximum(np.abs(starts), np.abs(ends))
    is_exact = np.abs(exponent) <= MAX_DECIMAL_POWER
    clipped_exponent = np.clip(exponent, -MAX_DECIMAL_POWER, MAX_DECIMAL_POWER)
    is_exact &= max_abs < 2**52 * 10.0**clipped_exponent
    is_fraction = exponent < 0  # the unit is 1 / scale, and otherwise it is scale
    scale = 10.0 ** np.where(is_exact, np.abs(exponent), 0)
    first_multiple, last_multiple = (
        np.floor(np.where(is_exact & is_fraction, x * scale, x / scale)) for x in (starts, ends)
    )
    n_steps = np.where(is_exact, last_multiple - first_multiple + 1, 10).astype(int)
    first_multiple = np.where(is_exact, first_multiple, 0)
    parent = np.repeat(np.arange(len(starts)), n_steps + 1)
    step = np.arange(len(parent)) - np.repeat(np.cumsum(n_steps + 1) - n_steps - 1, n_steps + 1)
    multiple = first_multiple[parent] + step
    # the quotient of two exact floats is the float nearest to the decimal number
    decimal = np.where(is_fraction[parent], multiple / scale[parent], multiple * scale[parent])
    tenth = starts[parent] + width[parent] * (step / 10)
    cut = np.where(is_exact[parent], decimal, tenth)
    single_floats = cut[is_exact[parent]]
    part_ends = np.concatenate([cut, just_below(single_floats), just_below(ends), ends])
    interval_index = np.arange(len(starts))
    parent_of_end = np.concatenate(
        [parent, parent[is_exact[parent]], interval_index, interval_index]
    )
    is_inside = (part_ends > starts[parent_of_end]) & (part_ends <= ends[parent_of_end])
    part_ends = np.unique(part_ends[is_inside])
    previous_ends = np.concatenate([starts[:1], part_ends[:-1]])
    # the first part of an interval starts where the interval starts
    part_starts = np.maximum(previous_ends, starts[np.searchsorted(ends, part_ends)])
    return IntervalMasses(part_starts, part_ends, np.zeros(len(part_ends)))


def _shrink_masses(
    public_cdf: PiecewiseLinearCDF,
    heavy: IntervalMasses,
    parts: IntervalMasses,
    noisy: Floats,
    variance: float,
) -> Floats:
    """Return the masses of the parts of heavy intervals, shrunk to an expected shape.

    The expected shape is the public distribution or the uniform one, whichever is nearer to the
    noisy fractions. Each interval has the shrinkage factor of James and Stein (1961). The result is
    projected to nonnegative masses whose sum is the mass of the interval.

    Parameters
    ----------
    public_cdf : PiecewiseLinearCDF
        The distribution expected from public rows.
    heavy : IntervalMasses
        The intervals that were split.
    parts : IntervalMasses
        Their parts.
    noisy : ndarray of shape (n_parts,)
        Noisy fraction of the rows in each part.
    variance : float
        Variance of the noise of each fraction.

    Returns
    -------
    ndarray of shape (n_parts,)
    """
    parent = np.searchsorted(heavy.ends, parts.ends)
    parent_mass = np.bincount(parent, noisy)[parent]
    public_masses = public_cdf(parts.ends) - public_cdf(parts.starts)
    widths = parts.ends - parts.starts
    expected_masses = []
    for weights in (public_masses, widths):
        parent_weight = np.bincount(parent, weights)[parent]
        equal_shares = 1 / np.bincount(parent)[parent]
        shares = np.divide(weights, parent_weight, out=equal_shares, where=parent_weight > 0)
        expected_masses.append(parent_mass * shares)
    expected = min(expected_masses, key=lambda shape: float(np.square(noisy - shape).sum()))
    masses = []
    first_parts = np.flatnonzero(np.diff(parent)) + 1
    for target, values, total in zip(
        np.split(expected, first_parts), np.split(noisy, first_parts), heavy.masses, strict=True
    ):
        difference = values - target
        noise_energy = max(len(difference) - 3, 0) * variance
        squared_distance = max(float(difference @ difference), MIN_SQUARED_DISTANCE)
        weight = max(0.0, 1 - noise_energy / squared_distance)
        masses.append(project_to_simplex(target + weight * difference, float(total)))
    return np.concatenate(masses)


def project_to_simplex(values: Floats, total: float) -> Floats:
    """Return the nearest nonnegative numbers with the given positive sum."""
    descending = np.sort(values)[::-1]
    # the excess per number if only the largest 1, 2, ... numbers stay positive
    excess = (np.cumsum(descending) - total) / np.arange(1, len(descending) + 1)
    threshold = excess[np.flatnonzero(descending > excess)[-1]]
    nearest: Floats = np.maximum(values - threshold, 0)
    return nearest


def _merge_light_parts(
    parts: IntervalMasses, cell_of_part: NDArray[np.intp], max_mass: float
) -> Floats:
    """Return the starts of the cells into which the parts of each old cell are merged.

    Parts are merged from the left as long as their mass stays within `max_mass`. A heavier part
    remains a cell of its own.
    """
    new_starts, mass_so_far = [], 0.0
    for i, mass in enumerate(parts.masses):
        begins_cell = i == 0 or cell_of_part[i] != cell_of_part[i - 1]
        if begins_cell or mass_so_far + mass > max_mass:
            new_starts.append(parts.starts[i])
            mass_so_far = 0.0
        mass_so_far += mass
    return np.array(new_starts)


def _split_heavy_cells(grid: CDFGrid, parts: IntervalMasses, max_mass: float) -> CDFGrid:
    """Split the cells of a grid at ends of parts until no cell holds more than `max_mass`.

    Inside a split cell, both distribution functions follow the released masses of the parts. At the
    ends of the old cells they keep their values.

    Parameters
    ----------
    grid : CDFGrid
        The grid before.
    parts : IntervalMasses
        A partition that is at least as fine as the cells, with released masses.
    max_mass : float
        Maximum fraction of the rows in a cell that is merged from several parts.

    Returns
    -------
    CDFGrid
        The refined grid. Parts of a single float that are heavier than `max_mass` become atoms.
    """
    old_ends = np.append(grid.edges, grid.high)
    cell_of_part = np.searchsorted(old_ends, parts.ends)
    new_edges = _merge_light_parts(parts, cell_of_part, max_mass)[1:]

    is_split = np.bincount(cell_of_part, minlength=len(old_ends)) > 1  # (n_cells,)
    cumulative = np.cumsum(parts.masses)
    mass_at_end = cumulative[np.searchsorted(parts.ends, old_ends)]  # (n_cells,)
    mass_at_start = np.concatenate([[0.0], mass_at_end[:-1]])
    in_split_cell = is_split[cell_of_part]  # (n_parts,)
    inner_ends, inner_cells = parts.ends[in_split_cell], cell_of_part[in_split_cell]
    # cumulative fraction of the mass of the cell at the end of each part
    fractions = (cumulative - mass_at_start[cell_of_part])[in_split_cell]
    fractions = fractions / (mass_at_end - mass_at_start)[inner_cells]

    def redistribute(cdf: PiecewiseLinearCDF) -> PiecewiseLinearCDF:
        """Make the function linear between the ends of parts in each split cell."""
        heights_at_ends = cdf(np.concatenate([just_below(np.array([grid.low])), old_ends]))
        cell_of_knot = np.minimum(np.searchsorted(old_ends, cdf.knots), len(old_ends) - 1)
        old_knots = cdf.knots[~is_split[cell_of_knot]]
        old_knots = np.union1d(old_knots, np.concatenate([cdf.knots[:1], old_ends]))
        rises = heights_at_ends[inner_cells + 1] - heights_at_ends[inner_cells]
        inner_heights = heights_at_ends[inner_cells] + fractions * rises
        heights = np.concatenate([cdf(old_knots), inner_heights])
        knots, first_index = np.unique(np.concatenate([old_knots, inner_ends]), return_index=True)
        return PiecewiseLinearCDF(knots, np.maximum.accumulate(heights[first_index]))

    is_single_float = just_below(parts.ends) <= parts.starts
    heavy_atoms = parts.ends[is_single_float & (parts.masses > max_mass)]
    return replace(
        grid,
        edges=np.union1d(grid.edges, new_edges),
        public_cdf=redistribute(grid.public_cdf),
        tail_cdf=redistribute(grid.tail_cdf),
        atoms=np.union1d(grid.atoms, heavy_atoms),
    )
