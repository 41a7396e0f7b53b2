"""Histogram grid and public CDF of a numeric column, based on public rows and bounds alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from skpublicdp._internal.reproducible import stable_floor
from skpublicdp.typing import Floats, Integers

MIN_PADDING = 2.0**-40
"""Minimum padding of the public range, as a fraction of (high - low)."""

PADDING = 0.05
"""Padding beyond the public range that receives a little prior mass, relative to the range."""

MAX_INTEGER_ATOMS = 1024
"""Largest number of integers in the public range for which each integer becomes an atom."""

MIN_CELL_SNR = 4
"""Target signal-to-noise ratio of a cell: rows per standard deviation of the noise."""

QUARTER_RECORD = 0.25
"""Mass of a quarter of the pseudo-record, in rows. One quarter each is assigned to the public
range, to log-spaced tails up to the bounds, to all numbers between the bounds, and to the bounds
themselves."""


def just_below(x: Floats) -> Floats:
    """Return the largest float below each x, so that the interval (result, x] contains only x."""
    return np.nextafter(x, -np.inf)


@dataclass(frozen=True)
class PiecewiseLinearCDF:
    """Piecewise linear CDF, in which a jump is a piece between adjacent floats."""

    knots: Floats  # (n_knots,): increasing ends of the pieces
    heights: Floats  # (n_knots,): nondecreasing values at the knots, from 0 to 1

    def __call__(self, x: Floats) -> Floats:
        """Return the height of the function at each number, from 0 to 1."""
        x = np.clip(x, self.knots[0], self.knots[-1])
        last_piece = len(self.knots) - 2
        piece = np.searchsorted(self.knots, x, side="right") - 1
        piece = np.minimum(piece, last_piece)  # the piece that begins at or below each number
        start = self.knots[piece]
        end = self.knots[piece + 1]
        low = self.heights[piece]
        high = self.heights[piece + 1]
        # at a knot, the fraction is exactly 0 or 1 and the height has no rounding error
        fraction = (x - start) / (end - start)
        inside = low + fraction * (high - low)
        return np.where(fraction >= 1, high, inside)

    def inverse(self, p: Floats) -> Floats:
        """Return the quantile of each fraction p, i.e. the smallest number x with cdf(x) >= p."""
        # the piece that rises to p ends at the first knot whose height is at least p
        last_knot = len(self.knots) - 1
        end_knot = np.searchsorted(self.heights, p, side="left")
        end_knot = np.clip(end_knot, 1, last_knot)
        start = self.knots[end_knot - 1]
        end = self.knots[end_knot]
        low = self.heights[end_knot - 1]
        high = self.heights[end_knot]
        rise = np.where(high > low, high - low, 1.0)
        fraction = np.clip((p - low) / rise, 0, 1)
        inside = start + fraction * (end - start)
        is_jump = np.nextafter(start, end) >= end  # no float lies between the ends of the piece
        is_end = is_jump | (fraction >= 1)
        return np.where(is_end, end, inside)

    def mean(self) -> float:
        """Return the mean of the distribution, which is uniform on each piece."""
        start, end = self.knots[:-1], self.knots[1:]
        is_jump = np.nextafter(start, end) >= end
        piece_means = np.where(is_jump, end, start / 2 + end / 2)
        return float(np.diff(self.heights) @ piece_means)


@runtime_checkable
class ColumnCounts(Protocol):
    """Interface of a private numeric column, which provides nothing but counts.

    All values are clipped to the bounds of the column before they are counted.
    """

    @property
    def n(self) -> int:
        """Number of rows."""
        ...

    def cumulative_counts(self, ends: Floats) -> Integers:
        """Return the number of rows whose value is at most each end, shape (n_ends,)."""
        ...


class SortedColumn:
    """Column that is sorted once in memory, so that each count requires only a binary search."""

    def __init__(self, x: Floats, low: float = -np.inf, high: float = np.inf) -> None:
        self._x = np.clip(x, low, high)
        self._x.sort()

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self._x)

    def cumulative_counts(self, ends: Floats) -> Integers:
        """Return the number of rows whose value is at most each end, shape (n_ends,)."""
        return np.searchsorted(self._x, ends, side="right").astype(np.int64)


@dataclass(frozen=True)
class CDFGrid:
    """Histogram cells of a column, and the distribution functions expected from the public rows.

    The cells are (just_below(low), edges[0]], (edges[0], edges[1]], ..., (edges[-1], high].
    """

    # bounds to which values are clipped
    low: float
    high: float
    edges: Floats  # (n_cells - 1,): right ends of all cells except the last one
    # distribution of the public rows, smoothed and including one pseudo-record
    public_cdf: PiecewiseLinearCDF
    # distribution of the pseudo-record, which has mass everywhere between the bounds
    tail_cdf: PiecewiseLinearCDF
    # Values that are shared by many rows. Each atom has a separate cell, or is the only likely
    # value in its cell.
    atoms: Floats

    def tabulate(self, x: ColumnCounts) -> Integers:
        """Return the number of a column's rows in each cell, shape (n_cells,).

        Each row belongs to exactly one cell.
        """
        return np.diff(x.cumulative_counts(self.edges), prepend=0, append=x.n)


def build_grid(x_public: Floats, low: float, high: float, resolution: int) -> CDFGrid:
    """Build a grid of approximately `resolution` cells at quantiles of the public rows, if any."""
    x_public = np.clip(x_public, low, high)
    values, counts = np.unique(x_public, return_counts=True)
    # an atom is a tied value with at least half the rows of an average cell
    atoms = values[counts >= max(2.0, len(x_public) / (2 * resolution))]
    public_cdf, tail_cdf = _expected_cdfs(values, counts, low, high)
    levels = np.arange(1, resolution) / resolution
    # A shift may move mass into the public tails. Edges are placed at tail masses 1/2, 1/4, 1/8,
    # ... down to about a single public row.
    tail_masses = 0.5 ** np.arange(1, np.log2(len(x_public) + 1) + 1)
    public_levels = np.concatenate([levels, tail_masses, 1 - tail_masses])
    candidate_edges = [
        np.array([low]),
        just_below(np.array([high])),
        atoms,
        just_below(atoms),
        tail_cdf.inverse(levels[::2]),  # use fewer cells, since the tails contain little mass
        public_cdf.inverse(public_levels),
    ]
    edges = np.unique(np.concatenate(candidate_edges))
    edges = edges[(edges >= low) & (edges < high)]
    return CDFGrid(low, high, edges, public_cdf, tail_cdf, atoms)


class _PointMasses(NamedTuple):
    """Discrete component of an unnormalised distribution."""

    points: Floats  # (n_points,): increasing values
    masses: Floats  # (n_points,): mass at each value, in rows


class _UniformPieces(NamedTuple):
    """Piecewise uniform component of an unnormalised distribution."""

    knots: Floats  # (n_knots,): increasing ends of the pieces
    cumulative: Floats  # (n_knots,): mass at or below each knot, in rows


_MassParts = list[_PointMasses | _UniformPieces]
"""Components of a distribution."""


def _expected_cdfs(
    values: Floats, counts: Integers, low: float, high: float
) -> tuple[PiecewiseLinearCDF, PiecewiseLinearCDF]:
    """Return the public CDF and the tail CDF of a `CDFGrid`, given public values and their counts.

    The pseudo-record has four quarters; see `QUARTER_RECORD`. The public distribution is the sum of
    the pseudo-record and the public rows.
    """
    bounds = np.array([low, high])
    pseudo_record: _MassParts = [
        _PointMasses(bounds, np.full(2, QUARTER_RECORD / 2)),
        _UniformPieces(bounds, np.array([0, QUARTER_RECORD])),
    ]
    if not len(values):  # without a public range, two quarters are spread between the bounds
        pseudo_record.append(_UniformPieces(bounds, np.array([0, 2 * QUARTER_RECORD])))
        tail_cdf = _mixture_cdf(pseudo_record, low)
        return tail_cdf, tail_cdf
    first, last = values[0], values[-1]
    public_width = last - first if last > first else high - low
    padding = max(PADDING * public_width, MIN_PADDING * (high - low))
    padded_range = np.clip([first - padding, last + padding], low, high)
    integers = _integer_atoms(values, padded_range)
    range_quarter = _UniformPieces(padded_range, np.array([0, QUARTER_RECORD]))
    pseudo_record += [
        _move_to_integers(range_quarter, integers),
        _log_spaced_tails(padded_range, padding, low, high),
    ]
    public_parts = _public_masses(values, counts, padded_range, integers)
    return _mixture_cdf(pseudo_record + public_parts, low), _mixture_cdf(pseudo_record, low)


def _public_masses(
    values: Floats, counts: Integers, padded_range: Floats, integers: Floats
) -> _MassParts:
    """Return the distribution of the public rows, where each row has mass 1.

    Tied values become point masses. Untied values are treated as draws of a continuous variable:
    half of each row is spread over the gap on either side. In an integer column, whose values are
    `integers`, the spread mass is moved to the nearest integers.
    """
    is_tied = counts > 1
    untied_counts = np.where(is_tied, 0, counts)
    n_untied = untied_counts.sum()
    points = np.concatenate([padded_range[:1], values, padded_range[1:]])
    cumulative = np.concatenate([[0], np.cumsum(untied_counts) - untied_counts / 2, [n_untied]])
    # a public value at a bound coincides with an end of the padded range
    knots, first_index = np.unique(points, return_index=True)
    cumulative = cumulative[first_index]
    cumulative[-1] = n_untied
    return [
        _PointMasses(values[is_tied], counts[is_tied].astype(float)),
        _move_to_integers(_UniformPieces(knots, cumulative), integers),
    ]


def _integer_atoms(values: Floats, padded_range: Floats) -> Floats:
    """Return the integers in the padded range of an integer column.

    The array is empty if some public value is not an integer, or if the range contains more than
    `MAX_INTEGER_ATOMS` integers.
    """
    first, last = np.ceil(padded_range[0]), np.floor(padded_range[1])
    if last - first >= MAX_INTEGER_ATOMS or not np.array_equal(values, np.rint(values)):
        return np.empty(0)
    return np.unique(first + np.arange(last - first + 1))


def _move_to_integers(pieces: _UniformPieces, integers: Floats) -> _PointMasses | _UniformPieces:
    """Move piecewise uniform mass to the nearest of the given integers, if there are any."""
    if not len(integers):
        return pieces
    # mass halfway between two integers belongs to the lower integer
    cell_ends = np.append(integers[:-1] + 0.5, pieces.knots[-1])
    cumulative = PiecewiseLinearCDF(pieces.knots, pieces.cumulative)(cell_ends)
    return _PointMasses(integers, np.diff(cumulative, prepend=0.0))


def _log_spaced_tails(
    padded_range: Floats, padding: float, low: float, high: float
) -> _UniformPieces:
    """Spread a quarter-record over the tails between the padded range and the bounds.

    The pieces of each tail have equal masses, and their widths double with increasing distance from
    the range.
    """
    range_low, range_high = padded_range
    width_in_paddings = max(high - low, padding) / padding
    n_doublings = -stable_floor(-np.log2(width_in_paddings))
    distances = padding * 2.0 ** np.arange(n_doublings + 1)
    below = np.maximum(range_low - distances, low)
    above = np.minimum(range_high + distances, high)
    knots = np.unique(np.concatenate([below, padded_range, above]))
    n_pieces = len(knots) - 1
    weights = np.ones(n_pieces)
    position_of_range = np.searchsorted(knots, range_low)
    weights[position_of_range] = 0
    cumulative = np.append(0, np.cumsum(weights))
    if cumulative[-1] == 0:  # no tails: the padded range reaches both bounds
        cumulative = np.linspace(0, 1, n_pieces + 1)
    masses = QUARTER_RECORD * cumulative / cumulative[-1]
    return _UniformPieces(knots, masses)


def _mixture_cdf(parts: _MassParts, low: float) -> PiecewiseLinearCDF:
    """Return the distribution function of a sum of components, scaled to a total mass of 1.

    The first knot is the float below the lower bound `low`, where the height is 0.
    """
    point_masses = [part for part in parts if isinstance(part, _PointMasses)]
    uniform_pieces = [part for part in parts if isinstance(part, _UniformPieces)]
    all_knots = [just_below(np.array([low]))]
    all_knots += [part.knots for part in uniform_pieces]
    for jumps in point_masses:
        all_knots += [just_below(jumps.points), jumps.points]
    knots = np.unique(np.concatenate(all_knots))
    heights = np.zeros(len(knots))
    for pieces in uniform_pieces:
        # np.interp has large rounding errors where two knots are neighbouring floats
        cdf = PiecewiseLinearCDF(pieces.knots, pieces.cumulative)
        heights += cdf(knots)
    for jumps in point_masses:
        cumulative = np.append(0, np.cumsum(jumps.masses))
        n_jumps = np.searchsorted(jumps.points, knots, side="right")
        heights += cumulative[n_jumps]
    heights = np.maximum.accumulate(heights / heights[-1])
    return PiecewiseLinearCDF(knots, heights)
