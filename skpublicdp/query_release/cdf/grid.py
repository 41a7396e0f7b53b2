"""Cells of a line and a first guess of what is in them, from public rows and bounds only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MIN_STEP = 2.0**-40
"""No step of a length of its own is shorter than this fraction of the bounds."""

PADDING = 0.05
"""How far beyond the public range, as a fraction of it, a little mass is expected."""

MAX_INTEGER_ATOMS = 1024
"""Whole numbers are told from what is between them if there are no more, for time."""

QUARTER_RECORD = 0.25
"""Of one imagined record: in the public range, in the octaves from there to the bounds, in the
bounds, and on their ends, to which values outside are moved."""


def just_below(x: Floats) -> Floats:
    """Return the numbers just below: an atom at x is the cell between the two."""
    return np.nextafter(x, -np.inf)


@dataclass(frozen=True)
class PiecewiseLinearCDF:
    """A distribution function, linear between knots; a jump is a piece with no number inside.

    Attributes
    ----------
    knots : ndarray of shape (n_knots,)
        Increasing.
    heights : ndarray of shape (n_knots,)
        Nondecreasing from 0 to 1.
    """

    knots: Floats
    heights: Floats

    def __call__(self, x: Floats) -> Floats:
        """Return the fraction at or below each number."""
        x = np.clip(x, self.knots[0], self.knots[-1])
        piece = np.searchsorted(self.knots, x, side="right") - 1
        piece = np.minimum(piece, len(self.knots) - 2)
        start, end = self.knots[piece], self.knots[piece + 1]
        low, high = self.heights[piece], self.heights[piece + 1]
        # at a knot the fraction is 0 or 1 and the height is returned as it is
        fraction = (x - start) / (end - start)
        heights: Floats = np.where(fraction >= 1, high, low + fraction * (high - low))
        return heights

    def inverse(self, p: Floats) -> Floats:
        """Return the least number at or below which there is at least each fraction."""
        piece = np.clip(np.searchsorted(self.heights, p, side="left"), 1, len(self.knots) - 1) - 1
        start, end = self.knots[piece], self.knots[piece + 1]
        low, high = self.heights[piece], self.heights[piece + 1]
        rise = np.where(high > low, high - low, 1.0)
        fraction = np.clip((p - low) / rise, 0, 1)
        jump = np.nextafter(start, end) >= end
        numbers: Floats = np.where(jump | (fraction >= 1), end, start + fraction * (end - start))
        return numbers


@runtime_checkable
class ColumnCounts(Protocol):
    """Private numbers that are only counted; those beyond the bounds are at the nearer one."""

    @property
    def n(self) -> int:
        """How many there are."""
        ...

    def at_or_below(self, ends: Floats) -> Integers:
        """Return how many are at or below each end."""
        ...


class SortedColumn:
    """Numbers in memory.

    Parameters
    ----------
    x : ndarray of shape (n,)
        The numbers.
    low, high : float
        Bounds.
    """

    def __init__(self, x: Floats, low: float = -np.inf, high: float = np.inf) -> None:
        self._x = np.sort(np.clip(x, low, high))

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self._x)

    def at_or_below(self, ends: Floats) -> Integers:
        """Return how many are at or below each end."""
        return np.searchsorted(self._x, ends, side="right").astype(np.int64)


@dataclass(frozen=True)
class CDFGrid:
    """The cells of a line: those of edges e1 < e2 < ... are (.., e1], (e1, e2], ... up to `high`.

    Attributes
    ----------
    low, high : float
        Values outside are moved to the nearer one.
    edges : ndarray of shape (n_cells - 1,)
        Right ends of all cells but the last.
    base : Curve
        The distribution expected from the public rows.
    wide : Curve
        One imagined record: where rows may be that the public ones do not show.
    atoms : ndarray
        Values that are a cell, or the only likely value of a cell.
    """

    low: float
    high: float
    edges: Floats
    base: PiecewiseLinearCDF
    wide: PiecewiseLinearCDF
    atoms: Floats

    def tabulate(self, x: ColumnCounts) -> Integers:
        """Count the rows in each cell; each row is looked at alone."""
        counts: Integers = np.diff(x.at_or_below(self.edges), prepend=0, append=x.n)
        return counts


def build_grid(x_public: Floats, low: float, high: float, resolution: int) -> CDFGrid:
    """Choose about `resolution` cells, fine where public rows are.

    Parameters
    ----------
    x_public : ndarray of shape (n_public,)
        May be empty.
    low, high : float
        Bounds, low < high.
    resolution : int
        How many cells the noise has room for.

    Returns
    -------
    Line
        Cells and base distribution.
    """
    x_public = np.clip(x_public, low, high)
    values, counts = np.unique(x_public, return_counts=True)
    atoms = values[counts >= max(2.0, len(x_public) / (2 * resolution))]
    base, wide = _expected_cdfs(values, counts, low, high)
    levels = np.arange(1, resolution) / resolution
    # drift may pile rows up where public ones are rare: cells end at halves of halves as well
    halves = 0.5 ** np.arange(1, np.log2(len(x_public) + 1) + 1)
    edges = [
        np.array([low]),
        just_below(np.array([high])),
        atoms,
        just_below(atoms),
        wide.inverse(levels[::2]),
    ]
    edges.append(base.inverse(np.concatenate([levels, halves, 1 - halves])))
    every = np.unique(np.concatenate(edges))
    return CDFGrid(low, high, every[(every >= low) & (every < high)], base, wide, atoms)


def _expected_cdfs(
    values: Floats, counts: Integers, low: float, high: float
) -> tuple[PiecewiseLinearCDF, PiecewiseLinearCDF]:
    """Values seen twice jump, others are spread over their gaps; one record is imagined."""
    ends = np.array([low, high])
    jumps = [(ends, np.full(2, QUARTER_RECORD / 2))]
    ramps = [(ends, np.array([0, QUARTER_RECORD]))]
    if not len(values):
        ramps.append((ends, np.array([0, 2 * QUARTER_RECORD])))
        wide = _to_cdf(jumps, ramps, low)
        return wide, wide
    first, last = values[0], values[-1]
    pad = max(PADDING * (last - first or high - low), MIN_STEP * (high - low))
    near = np.clip([first - pad, last + pad], low, high)
    whole = _integer_atoms(values, near)
    spread = jumps if len(whole) else ramps
    spread.append(_snap_to_integers(whole, near, np.array([0, QUARTER_RECORD])))
    ramps.append(_log_spaced_tails(near, pad, low, high))
    wide = _to_cdf(jumps, ramps, low)
    jumping = counts > 1  # smooth numbers never tie
    smooth = np.where(jumping, 0, counts)
    # half of a record is spread towards each neighbour
    points = np.concatenate([near[:1], values, near[1:]])
    masses = np.concatenate([[0], np.cumsum(smooth) - smooth / 2, [smooth.sum()]])
    distinct, where = np.unique(points, return_index=True)
    masses = masses[where]
    masses[-1] = smooth.sum()
    jumps.append((values[jumping], counts[jumping].astype(float)))
    spread.append(_snap_to_integers(whole, distinct, masses))
    return _to_cdf(jumps, ramps, low), wide


def _integer_atoms(values: Floats, near: Floats) -> Floats:
    """Return the whole numbers near the values, if these are whole and those are not too many."""
    first, last = np.ceil(near[0]), np.floor(near[1])
    if last - first >= MAX_INTEGER_ATOMS or not np.array_equal(values, np.rint(values)):
        return np.empty(0)
    return np.unique(first + np.arange(last - first + 1))


def _snap_to_integers(whole: Floats, at: Floats, masses: Floats) -> tuple[Floats, Floats]:
    """Move mass that is spread evenly between points to the whole numbers, if any, near it."""
    if not len(whole):
        return at, masses
    reached = PiecewiseLinearCDF(at, masses)(np.append(whole[:-1] + 0.5, at[-1]))
    return whole, np.diff(reached, prepend=0.0)


def _log_spaced_tails(near: Floats, pad: float, low: float, high: float) -> tuple[Floats, Floats]:
    """Spread mass evenly over the octaves between the public range and the bounds."""
    steps = pad * 2.0 ** np.arange(np.ceil(np.log2(max(high - low, pad) / pad)) + 1)
    below = np.unique(np.maximum(near[0] - steps, low))
    above = np.unique(np.minimum(near[1] + steps, high))
    at = np.unique(np.concatenate([below, near, above]))
    octaves = np.ones(len(at) - 1)
    octaves[np.searchsorted(at, near[0])] = 0  # the public range itself
    total = np.concatenate([[0], np.cumsum(octaves)])
    if total[-1] == 0:
        total = np.linspace(0, 1, len(at))
    return at, QUARTER_RECORD * total / total[-1]


def _to_cdf(
    jumps: list[tuple[Floats, Floats]], ramps: list[tuple[Floats, Floats]], low: float
) -> PiecewiseLinearCDF:
    starts = [just_below(np.array([low])), *(just_below(at) for at, _ in jumps)]
    corners = np.unique(np.concatenate([*starts, *(at for at, _ in [*jumps, *ramps])]))
    heights = np.zeros(len(corners))
    for at, masses in ramps:
        heights += PiecewiseLinearCDF(at, masses)(
            corners
        )  # unlike np.interp right where knots nearly meet
    for at, masses in jumps:
        total = np.concatenate([[0], np.cumsum(masses)])
        heights += total[np.searchsorted(at, corners, side="right")]
    heights = np.maximum.accumulate(heights / heights[-1])
    return PiecewiseLinearCDF(corners, heights)
