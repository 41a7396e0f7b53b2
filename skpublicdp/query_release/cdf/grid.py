"""Histogram grid of a numeric column and its public CDF, from public rows and bounds only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from skpublicdp.typing import Floats, Integers

MIN_STEP = 2.0**-40
"""Minimum padding, as a fraction of (high - low)."""

PADDING = 0.05
"""Padding on each side of the public range that gets a little prior mass, as a fraction of it."""

MAX_INTEGER_ATOMS = 1024
"""An integer column gets one atom per integer only if there are at most this many."""

QUARTER_RECORD = 0.25
"""One pseudo-record is split into quarters: public range, log-spaced tails up to the bounds,
uniform between the bounds, and point masses at the bounds."""


def just_below(x: Floats) -> Floats:
    """Return the next smaller floats: the cell (just_below(x), x] holds the atom at x."""
    return np.nextafter(x, -np.inf)


@dataclass(frozen=True)
class PiecewiseLinearCDF:
    """A piecewise linear distribution function. A jump is a piece between adjacent floats.

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
    """A private column that is only counted. Values outside the bounds are clipped."""

    @property
    def n(self) -> int:
        """Number of rows."""
        ...

    def cumulative_counts(self, ends: Floats) -> Integers:
        """Return the number of rows at or below each end."""
        ...


class SortedColumn:
    """A column in memory, sorted once.

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
        """Number of rows."""
        return len(self._x)

    def cumulative_counts(self, ends: Floats) -> Integers:
        """Return the number of rows at or below each end."""
        return np.searchsorted(self._x, ends, side="right").astype(np.int64)


@dataclass(frozen=True)
class CDFGrid:
    """Cells of a column: edges e1 < e2 < ... make the cells (.., e1], (e1, e2], ... up to `high`.

    Attributes
    ----------
    low, high : float
        Bounds. Values outside are clipped.
    edges : ndarray of shape (n_cells - 1,)
        Right ends of all cells but the last.
    public_cdf : PiecewiseLinearCDF
        The distribution function expected from the public rows.
    tail_cdf : PiecewiseLinearCDF
        Distribution of one pseudo-record, for mass that the public rows do not show.
    atoms : ndarray
        Values with a cell of their own, or the only likely value of a cell.
    """

    low: float
    high: float
    edges: Floats
    public_cdf: PiecewiseLinearCDF
    tail_cdf: PiecewiseLinearCDF
    atoms: Floats

    def tabulate(self, x: ColumnCounts) -> Integers:
        """Count the rows in each cell. The counts are additive over rows."""
        counts: Integers = np.diff(x.cumulative_counts(self.edges), prepend=0, append=x.n)
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
        Approximate number of cells that the noise level supports.

    Returns
    -------
    CDFGrid
        Cells, public CDF and tail CDF.
    """
    x_public = np.clip(x_public, low, high)
    values, counts = np.unique(x_public, return_counts=True)
    atoms = values[counts >= max(2.0, len(x_public) / (2 * resolution))]
    public_cdf, tail_cdf = _expected_cdfs(values, counts, low, high)
    levels = np.arange(1, resolution) / resolution
    # a shift may move mass into the public tails: add edges at tail masses 1/2, 1/4, 1/8, ...
    tail_masses = 0.5 ** np.arange(1, np.log2(len(x_public) + 1) + 1)
    edges = [
        np.array([low]),
        just_below(np.array([high])),
        atoms,
        just_below(atoms),
        tail_cdf.inverse(levels[::2]),
    ]
    edges.append(public_cdf.inverse(np.concatenate([levels, tail_masses, 1 - tail_masses])))
    all_edges = np.unique(np.concatenate(edges))
    return CDFGrid(
        low, high, all_edges[(all_edges >= low) & (all_edges < high)], public_cdf, tail_cdf, atoms
    )


def _expected_cdfs(
    values: Floats, counts: Integers, low: float, high: float
) -> tuple[PiecewiseLinearCDF, PiecewiseLinearCDF]:
    """Return the public CDF and the tail CDF. Tied values jump, others are linear in their gaps."""
    ends = np.array([low, high])
    jumps = [(ends, np.full(2, QUARTER_RECORD / 2))]
    ramps = [(ends, np.array([0, QUARTER_RECORD]))]
    if not len(values):
        ramps.append((ends, np.array([0, 2 * QUARTER_RECORD])))
        tail_cdf = _to_cdf(jumps, ramps, low)
        return tail_cdf, tail_cdf
    first, last = values[0], values[-1]
    padding = max(PADDING * (last - first or high - low), MIN_STEP * (high - low))
    padded_range = np.clip([first - padding, last + padding], low, high)
    integers = _integer_atoms(values, padded_range)
    gap_pieces = jumps if len(integers) else ramps
    gap_pieces.append(_snap_to_integers(integers, padded_range, np.array([0, QUARTER_RECORD])))
    ramps.append(_log_spaced_tails(padded_range, padding, low, high))
    tail_cdf = _to_cdf(jumps, ramps, low)
    jumping = counts > 1  # continuous values are never tied
    smooth = np.where(jumping, 0, counts)
    # half of a record is spread towards each neighbour
    points = np.concatenate([padded_range[:1], values, padded_range[1:]])
    masses = np.concatenate([[0], np.cumsum(smooth) - smooth / 2, [smooth.sum()]])
    distinct, first_index = np.unique(points, return_index=True)
    masses = masses[first_index]
    masses[-1] = smooth.sum()
    jumps.append((values[jumping], counts[jumping].astype(float)))
    gap_pieces.append(_snap_to_integers(integers, distinct, masses))
    return _to_cdf(jumps, ramps, low), tail_cdf


def _integer_atoms(values: Floats, padded_range: Floats) -> Floats:
    """Return the integers in the padded public range if all values are integers, else none."""
    first, last = np.ceil(padded_range[0]), np.floor(padded_range[1])
    if last - first >= MAX_INTEGER_ATOMS or not np.array_equal(values, np.rint(values)):
        return np.empty(0)
    return np.unique(first + np.arange(last - first + 1))


def _snap_to_integers(integers: Floats, at: Floats, masses: Floats) -> tuple[Floats, Floats]:
    """Move piecewise uniform mass to the nearest integer atoms, if there are any."""
    if not len(integers):
        return at, masses
    reached = PiecewiseLinearCDF(at, masses)(np.append(integers[:-1] + 0.5, at[-1]))
    return integers, np.diff(reached, prepend=0.0)


def _log_spaced_tails(
    padded_range: Floats, padding: float, low: float, high: float
) -> tuple[Floats, Floats]:
    """Spread mass evenly over the octaves (log scale) between the public range and the bounds."""
    steps = padding * 2.0 ** np.arange(np.ceil(np.log2(max(high - low, padding) / padding)) + 1)
    below = np.unique(np.maximum(padded_range[0] - steps, low))
    above = np.unique(np.minimum(padded_range[1] + steps, high))
    at = np.unique(np.concatenate([below, padded_range, above]))
    octaves = np.ones(len(at) - 1)
    octaves[np.searchsorted(at, padded_range[0])] = 0  # the public range itself
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
