"""Adaptive grid: split heavy cells at short decimal numbers, round by round.

Each round counts the rows in the parts of heavy cells with exact noise. Parts that are heavy are
split in the next round. Which cells are split, and the price of a round, depend on released counts
alone. A value that many rows share is therefore found even if no public row has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count

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

SMALLEST_POSITIVE = 1e-300

MAX_DECIMAL_POWER = 22
"""10^22 is the largest power of ten that a float represents exactly."""


@dataclass(frozen=True)
class Intervals:
    """Adjacent intervals with their released fractions of the rows.

    Attributes
    ----------
    starts, ends : ndarray of shape (n_pieces,)
        An interval is (start, end].
    masses : ndarray of shape (n_pieces,)
        Nonnegative.
    """

    starts: Floats
    ends: Floats
    masses: Floats

    def keep(self, kept: NDArray[np.bool_]) -> Intervals:
        """Return the selected intervals."""
        return Intervals(self.starts[kept], self.ends[kept], self.masses[kept])

    def replaced(self, whole: NDArray[np.bool_], new: Intervals) -> Intervals:
        """Return all intervals, with those of the mask replaced by their parts."""
        rest = self.keep(~whole)
        ends = np.concatenate([rest.ends, new.ends])
        order = np.argsort(ends)
        starts = np.concatenate([rest.starts, new.starts])[order]
        return Intervals(starts, ends[order], np.concatenate([rest.masses, new.masses])[order])


def detection_threshold(noise: Noise, aside: Fraction, ledger: Ledger) -> float:
    """Return the minimum number of rows of a cell that is split, given the remaining budget."""
    _, variance = noise_scale(
        scaled_noise(noise, aside * SHARE_PER_ROUND), ledger.for_person(INTERVAL_SENSITIVITY)
    )
    return float(MIN_CELL_SNR * np.sqrt(variance))


def refine_heavy_cells(
    line: CDFGrid,
    masses: Floats,
    x_private: ColumnCounts,
    noise: Noise,
    ledger: Ledger,
    most_cells: int,
) -> tuple[CDFGrid, Fraction]:
    """Split heavy cells in rounds until no part is heavy.

    Parameters
    ----------
    line : CDFGrid
        The cells.
    masses : ndarray of shape (n_cells,)
        Released fraction of the rows in each.
    x_private : Counted
        The private numbers.
    noise : Gaussian or Pure
        The whole budget.
    ledger : Ledger
        Pays.
    most_cells : int
        Cells of one over so many of the rows are fine enough to be measured.

    Returns
    -------
    line : CDFGrid
        With more cells, and with what was found in the guess of what is inside the old ones.
    spent : Fraction
        The share of the budget that this took.
    """
    n, aside = x_private.n, REFINEMENT_SHARE
    ends = np.append(line.edges, line.high)
    start = just_below(np.array([line.low]))
    pieces = Intervals(np.concatenate([start, ends[:-1]]), ends, np.maximum(masses, 0))
    for look in count(1):
        tell = detection_threshold(noise, aside, ledger)
        full = pieces.masses >= max(tell / n, MIN_CELL_MASS)
        full &= just_below(pieces.ends) > pieces.starts  # a single float cannot be cut
        if not full.any():
            break
        whole = pieces.keep(full)
        new = split_at_decimals(whole)
        share = aside * SHARE_PER_ROUND
        aside -= share
        at = x_private.cumulative_counts(np.concatenate([new.starts, new.ends]))
        counts = np.diff(at.reshape(2, -1), axis=0)[0]
        event = scaled_noise(noise, share)
        name = mechanism_name(f"the pieces of full cells, look {look}", noise)
        found = ledger.add_noise(
            counts, INTERVAL_SENSITIVITY, event, name=name, proof=PREFIX_SUMS_PROOF
        )
        inside = _shrunk_masses(
            line.public_cdf, whole, new, found.values / n, found.variance / n**2
        )
        pieces = pieces.replaced(full, Intervals(new.starts, new.ends, inside))
    if aside == REFINEMENT_SHARE:
        return line, Fraction(0)
    most = max(1 / most_cells, detection_threshold(noise, REFINEMENT_SHARE, ledger) / n)
    return _split_heavy_cells(line, pieces, most), REFINEMENT_SHARE - aside


def split_at_decimals(whole: Intervals) -> Intervals:
    """Split cells at multiples of a power of ten, each of which is an interval of its own.

    The power leaves 3 to 30 multiples in a cell; where floats are too coarse for that, a cell is
    cut in ten. The right end of a cell is a piece of its own.
    """
    starts, ends = whole.starts, whole.ends
    width = ends - starts
    power = np.floor(np.log10(width) - np.log10(3)).astype(int)
    largest = np.maximum(np.abs(starts), np.abs(ends))
    exact = np.abs(power) <= MAX_DECIMAL_POWER
    exact &= largest < 2**52 * 10.0 ** np.clip(power, -MAX_DECIMAL_POWER, MAX_DECIMAL_POWER)
    unit = 10.0 ** np.where(exact, np.abs(power), 0)
    low, high = (
        np.floor(np.where(exact & (power < 0), at * unit, at / unit)) for at in (starts, ends)
    )
    first = np.where(exact, low, 0)
    n_steps = np.where(exact, high - low + 1, 10).astype(int)
    cell = np.repeat(np.arange(len(starts)), n_steps + 1)
    step = np.arange(len(cell)) - np.repeat(np.cumsum(n_steps + 1) - n_steps - 1, n_steps + 1)
    multiple = first[cell] + step
    # a quotient of two exact floats is the float that the decimal number is written for
    value = np.where(power[cell] < 0, multiple / unit[cell], multiple * unit[cell])
    even = starts[cell] + width[cell] * (step / 10)
    value = np.where(exact[cell], value, even)
    alone = value[exact[cell]]
    at = np.concatenate([value, just_below(alone), just_below(ends), ends])
    of = np.concatenate([cell, cell[exact[cell]], np.tile(np.arange(len(starts)), 2)])
    at = np.unique(at[(at > starts[of]) & (at <= ends[of])])
    previous = np.concatenate([starts[:1], at[:-1]])
    return Intervals(np.maximum(previous, starts[np.searchsorted(ends, at)]), at, np.zeros(len(at)))


def _shrunk_masses(
    base: PiecewiseLinearCDF, whole: Intervals, new: Intervals, found: Floats, variance: float
) -> Floats:
    """Return the mass of each piece of each cell, near to what was expected or to what was found.

    What is expected is the shape of the guess or an even spread, whichever explains more. Between
    that and the noisy fractions found James and Stein (1961) choose.
    """
    parent = np.searchsorted(whole.ends, new.ends)
    total = np.bincount(parent, found)[parent]
    expected = []
    for spread in (base(new.ends) - base(new.starts), new.ends - new.starts):
        held = np.bincount(parent, spread)[parent]
        even = 1 / np.bincount(parent)[parent]
        expected.append(total * np.divide(spread, held, out=even, where=held > 0))
    likely = min(expected, key=lambda guess: float(np.square(found - guess).sum()))
    masses = []
    firsts = np.flatnonzero(np.diff(parent)) + 1
    for guess, values, mass in zip(
        np.split(likely, firsts), np.split(found, firsts), whole.masses, strict=True
    ):
        apart = values - guess
        noise = max(len(apart) - 3, 0) * variance
        believed = max(0.0, 1 - noise / max(float(apart @ apart), SMALLEST_POSITIVE))
        masses.append(project_to_simplex(guess + believed * apart, float(mass)))
    return np.concatenate(masses)


def project_to_simplex(values: Floats, total: float) -> Floats:
    """Return the nearest nonnegative numbers of a positive sum."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    level = excess[np.flatnonzero(falling > excess)[-1]]
    nearest: Floats = np.maximum(values - level, 0)
    return nearest


def _split_heavy_cells(grid: CDFGrid, pieces: Intervals, max_mass: float) -> CDFGrid:
    """Split the cells of a grid at ends of pieces until no cell holds more than `max_mass`.

    The pieces of a cell are merged from the left as long as their mass stays within `max_mass`; a
    heavier piece remains a cell of its own. Inside a cell that was cut, both curves follow the
    released masses of its pieces; at the ends of the old cells they keep their values.

    Parameters
    ----------
    grid : CDFGrid
        The cells before.
    pieces : Intervals
        A partition that is at least as fine, by increasing `ends`, with released masses.
    max_mass : float
        Largest fraction of the rows that a cell of several pieces may hold.

    Returns
    -------
    CDFGrid
        With the new edges and curves. Intervals above `max_mass` that hold a single number are
        added to its atoms.
    """
    old_ends = np.append(grid.edges, grid.high)
    cell_of_piece = np.searchsorted(old_ends, pieces.ends)
    new_edges, mass_so_far = [], 0.0
    for i, mass in enumerate(pieces.masses):
        begins_cell = i == 0 or cell_of_piece[i] != cell_of_piece[i - 1]
        if begins_cell or mass_so_far + mass > max_mass:
            new_edges.append(pieces.starts[i])
            mass_so_far = 0.0
        mass_so_far += mass

    is_cut = np.bincount(cell_of_piece, minlength=len(old_ends)) > 1  # (n_cells,)
    cumulative = np.cumsum(pieces.masses)
    mass_at_end = cumulative[np.searchsorted(pieces.ends, old_ends)]  # (n_cells,)
    mass_at_start = np.concatenate([[0.0], mass_at_end[:-1]])
    in_cut_cell = is_cut[cell_of_piece]  # (n_pieces,)
    inner_ends, inner_cells = pieces.ends[in_cut_cell], cell_of_piece[in_cut_cell]
    # of the mass of its cell, the fraction up to the end of each piece
    fractions = (cumulative - mass_at_start[cell_of_piece])[in_cut_cell]
    fractions = fractions / (mass_at_end - mass_at_start)[inner_cells]

    def redistribute(curve: PiecewiseLinearCDF) -> PiecewiseLinearCDF:
        """Make the curve linear between the ends of pieces wherever a cell was cut."""
        at_ends = curve(np.concatenate([just_below(np.array([grid.low])), old_ends]))
        cell_of_knot = np.minimum(np.searchsorted(old_ends, curve.knots), len(old_ends) - 1)
        kept = curve.knots[~is_cut[cell_of_knot]]
        kept = np.union1d(kept, np.concatenate([curve.knots[:1], old_ends]))
        rises = at_ends[inner_cells + 1] - at_ends[inner_cells]
        heights = np.concatenate([curve(kept), at_ends[inner_cells] + fractions * rises])
        knots, first = np.unique(np.concatenate([kept, inner_ends]), return_index=True)
        return PiecewiseLinearCDF(knots, np.maximum.accumulate(heights[first]))

    is_single_number = just_below(pieces.ends) <= pieces.starts
    heavy = pieces.ends[is_single_number & (pieces.masses > max_mass)]
    return replace(
        grid,
        edges=np.union1d(grid.edges, new_edges[1:]),
        public_cdf=redistribute(grid.public_cdf),
        tail_cdf=redistribute(grid.tail_cdf),
        atoms=np.union1d(grid.atoms, heavy),
    )
