"""Measurements of a column: strategies of the matrix mechanism, and the refinement of heavy cells.

A strategy is an integer matrix of exact sensitivity, applied to the counts of cells. The refinement
splits heavy cells at short decimal numbers, and releases noisy counts of the rows in the parts.
Heavy parts are split in the next round. The cells to split and the budget of each round depend on
released counts only. The refinement finds values shared by many rows, even if no public row has
these values. The proofs are in docs/proofs/prefix_sums.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.reproducible import significant
from skpublicdp.accounting import Gaussian, Measurement, Noise, Sensitivity, noise_scale
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.query_release.cdf.grid import (
    MIN_CELL_SNR,
    CDFGrid,
    ColumnCounts,
    PiecewiseLinearCDF,
    just_below,
)
from skpublicdp.typing import Floats, Integers

COEFFICIENT_BITS = 12
"""Number of bits for square-root coefficients, which are rounded to multiples of 2^-12 with errors
below 1%."""

MAX_SIGMA2_BITS = 59
"""Largest number of bits that the noise variance σ² of a strategy can have; the sampler allows
variances up to 2^60."""

MAX_STRATEGY_SENSITIVITY = Sensitivity(4, 4)
"""Largest sensitivity of any strategy with the coarsest coefficients. If noise for this sensitivity
can be sampled, so can the noise of all other strategies."""

PREFIX_SUMS_PROOF = "docs/proofs/prefix_sums.md"


@dataclass(frozen=True)
class MeasurementStrategy:
    """Integer combinations of cell counts, which are measured jointly."""

    name: str  # name of the strategy in the privacy receipt
    # (n_measurements, n_cells): the combinations, which determine all counts when the total is
    # known
    matrix: Integers
    sensitivity: Sensitivity  # exact sensitivity of the answers when one row moves to another cell


def prefix_strategy(n_cells: int, mu_squared: Fraction) -> MeasurementStrategy:
    """Return the square root factorization of prefix sums, with integer coefficients.

    The budget μ² affects only the precision of the rounded coefficients. References: Fichtenberger,
    Henzinger and Upadhyay (2023), Constant matters; Henzinger, Upadhyay and Upadhyay (2023), Almost
    tight error bounds on differentially private continual counting.
    """
    n_rows = n_cells - 1
    denominator_bits = mu_squared.denominator.bit_length()
    log_budget = mu_squared.numerator.bit_length() - denominator_bits
    # With coefficients of `bits` bits, the squared sensitivity is at most 2^(2 bits + 4). The noise
    # variance is this number divided by μ² and must have at most `MAX_SIGMA2_BITS` bits.
    max_bits = (MAX_SIGMA2_BITS - 4 + log_budget) // 2
    bits = min(COEFFICIENT_BITS, max(0, max_bits))
    # power series of (1 - x)^(-1/2), whose square is the series of prefix sums
    factors = 1 - 0.5 / np.arange(1, n_rows)
    square_root = np.append(1.0, np.cumprod(factors))
    coefficients = np.rint(square_root * 2**bits).astype(np.int64)
    matrix = np.zeros((n_rows, n_cells), dtype=np.int64)
    for cell in range(n_rows):
        matrix[cell:, cell] = coefficients[: n_rows - cell]
    # Shifting two columns to the left adds a term to their distance. The first column and some
    # other column therefore attain the largest distance.
    differences = matrix - matrix[:, :1]
    absolute_distances = np.abs(differences).sum(axis=0)
    squared_distances = np.square(differences).sum(axis=0)
    max_absolute = int(absolute_distances.max())
    max_squared = int(squared_distances.max())
    sensitivity = Sensitivity(max_absolute, max_squared)
    return MeasurementStrategy("square root of prefix sums", matrix, sensitivity)


def histogram_strategy(n_cells: int) -> MeasurementStrategy:
    """Return the strategy that measures each cell separately, for Laplace noise."""
    # a replaced row leaves one cell and enters another
    return MeasurementStrategy("histogram", np.eye(n_cells, dtype=np.int64), Sensitivity(2, 2))


def hierarchy_strategy(n_cells: int) -> MeasurementStrategy:
    """Return the strategy that measures cells and blocks of √n_cells cells, for Laplace noise."""
    cells = np.eye(n_cells, dtype=np.int64)
    blocks = np.add.reduceat(cells, np.arange(0, n_cells, math.isqrt(n_cells)), axis=0)
    # each cell belongs to one block, and the first and the last cell belong to different blocks
    return MeasurementStrategy("hierarchy", np.concatenate([cells, blocks]), Sensitivity(4, 4))


def choose_strategy(
    n_cells: int, noise: Noise, ledger: Ledger, *, is_final: bool
) -> MeasurementStrategy:
    """Return the strategy for a grid before or, if `is_final`, after the refinement.

    The precisions of Gaussian measurements of the same cells add up, so the first measurement is
    not wasted if no cell is heavy. Laplace measurements do not combine in this way, so their first
    measurement is simpler.
    """
    if isinstance(noise, Gaussian):
        # the noise grows with the number of rows per person
        return prefix_strategy(n_cells, noise.mu_squared / ledger.rows_per_person**2)
    return hierarchy_strategy(n_cells) if is_final else histogram_strategy(n_cells)


def check_noise_scale(noise: Noise, ledger: Ledger) -> None:
    """Raise a ValueError if the noise for one column exceeds the range of the integer sampler.

    The check assumes the least favourable strategy and is made before anything is charged.
    """
    if not noise_is_representable(noise, ledger.for_person(MAX_STRATEGY_SENSITIVITY)):
        raise ValueError(
            "The noise of a column is too large to be drawn at epsilon = "
            f"{float(ledger.epsilon):g}. Release fewer columns, or release only public rows with "
            "method='public'."
        )


def measure(
    strategy: MeasurementStrategy, counts: Integers, noise: Noise, ledger: Ledger, suffix: str = ""
) -> Measurement:
    """Return a strategy's combinations of private counts with integer noise added."""
    name = f"{noise.noise_name} on the {strategy.name}{suffix}"
    exact = strategy.matrix @ counts
    return ledger.add_noise(exact, strategy.sensitivity, noise, name=name, proof=PREFIX_SUMS_PROOF)


INTERVAL_SENSITIVITY = Sensitivity(2, 2)
"""Sensitivity of interval counts: a replaced row leaves one interval and enters another."""

REFINEMENT_SHARE = Fraction(1, 4)
"""Maximum share of the budget that all refinement rounds together may spend."""

SHARE_PER_ROUND = Fraction(1, 2)
"""Share of the remaining refinement budget that each round spends."""

MIN_CELL_MASS = 2.0**-13
"""Minimum released mass for a cell to be split, which limits each round to 2^18 intervals."""

MIN_SQUARED_DISTANCE = 1e-300
"""Lower bound on the denominator of the shrinkage factor, which could otherwise be 0."""

MAX_DECIMAL_POWER = 22
"""Largest exponent for which a float represents the power of ten exactly."""


@dataclass(frozen=True)
class IntervalMasses:
    """Disjoint intervals of a numeric column, with the released fraction of rows in each."""

    # (n_intervals,): starts and ends in increasing order. Intervals have the form (start, end].
    starts: Floats
    ends: Floats
    masses: Floats  # (n_intervals,): nonnegative fractions of the private rows

    def select(self, index: NDArray[Any]) -> IntervalMasses:
        """Return the intervals selected by a mask or by positions."""
        return IntervalMasses(self.starts[index], self.ends[index], self.masses[index])

    def replace_by_parts(self, mask: NDArray[np.bool_], parts: IntervalMasses) -> IntervalMasses:
        """Return new intervals, in which the masked intervals are replaced by their parts."""
        others = self.select(~mask)
        starts = np.concatenate([others.starts, parts.starts])
        ends = np.concatenate([others.ends, parts.ends])
        masses = np.concatenate([others.masses, parts.masses])
        intervals = IntervalMasses(starts, ends, masses)
        order = np.argsort(ends, kind="stable")
        return intervals.select(order)


def detection_threshold(noise: Noise, remaining_share: Fraction, ledger: Ledger) -> float:
    """Return the minimum number of rows that makes a cell heavy in the next round.

    The threshold is a multiple of the standard deviation of the round's noise, so that noise alone
    rarely makes a cell heavy.
    """
    round_noise = noise.scaled(remaining_share * SHARE_PER_ROUND)
    _, variance = noise_scale(round_noise, ledger.for_person(INTERVAL_SENSITIVITY))
    return float(MIN_CELL_SNR * np.sqrt(variance))


def refine_heavy_cells(
    grid: CDFGrid,
    masses: Floats,
    x_private: ColumnCounts,
    noise: Noise,
    ledger: Ledger,
    max_cells: int,
) -> tuple[CDFGrid, Fraction]:
    """Split the heavy cells of a grid in rounds until no part is heavy.

    A cell is heavy if its released mass exceeds `detection_threshold` and `MIN_CELL_MASS`.

    Parameters
    ----------
    grid : CDFGrid
        The initial cells.
    masses : ndarray of shape (n_cells,)
        Released fraction of the private rows in each cell.
    noise : Gaussian or Pure
        Budget of the entire release.
    max_cells : int
        Parts of a cell are merged as long as their mass is at most 1 / max_cells.

    Returns
    -------
    grid : CDFGrid
        The refined grid, whose distribution functions follow the released masses in split cells.
    spent_share : Fraction
        Share of the budget that was spent on the refinement.
    """
    n = x_private.n
    remaining_share = REFINEMENT_SHARE
    ends = np.append(grid.edges, grid.high)
    starts = np.concatenate([just_below(np.array([grid.low])), ends[:-1]])
    intervals = IntervalMasses(starts, ends, np.maximum(masses, 0))
    for round_number in count(1):
        threshold = detection_threshold(noise, remaining_share, ledger)
        has_several_floats = just_below(intervals.ends) > intervals.starts  # else it is not split
        is_heavy = (intervals.masses >= max(threshold / n, MIN_CELL_MASS)) & has_several_floats
        if not is_heavy.any():
            break
        heavy = intervals.select(is_heavy)
        parts = split_at_decimals(heavy)
        share = remaining_share * SHARE_PER_ROUND
        remaining_share -= share
        name = f"{noise.noise_name} on the parts of heavy cells, round {round_number}"
        noisy = _release_interval_counts(x_private, parts, noise.scaled(share), ledger, name)
        part_masses = _shrink_masses(
            grid.public_cdf, heavy, parts, noisy=noisy.values / n, variance=noisy.variance / n**2
        )
        intervals = intervals.replace_by_parts(
            is_heavy, IntervalMasses(parts.starts, parts.ends, part_masses)
        )
    spent_share = REFINEMENT_SHARE - remaining_share
    if not spent_share:  # no cell was heavy
        return grid, spent_share
    # only masses that the first round can distinguish from noise justify splitting a cell
    max_mass = max(1 / max_cells, detection_threshold(noise, REFINEMENT_SHARE, ledger) / n)
    return _split_heavy_cells(grid, intervals, max_mass), spent_share


def _release_interval_counts(
    x_private: ColumnCounts, intervals: IntervalMasses, event: Noise, ledger: Ledger, name: str
) -> Measurement:
    """Release noisy numbers of private rows in disjoint intervals, which is all a round reads."""
    cumulative = x_private.cumulative_counts(np.concatenate([intervals.starts, intervals.ends]))
    counts_at_starts, counts_at_ends = np.split(cumulative, 2)
    counts = counts_at_ends - counts_at_starts
    return ledger.add_noise(counts, INTERVAL_SENSITIVITY, event, name=name, proof=PREFIX_SUMS_PROOF)


class _CutSpacing(NamedTuple):
    """Spacing of the cuts within each interval, as arrays of shape (n_intervals,)."""

    # Whether the cuts lie at multiples of a power of ten. Otherwise, the interval is cut into
    # tenths.
    is_decimal: NDArray[np.bool_]
    is_inverse: NDArray[np.bool_]  # Whether the power of ten is 1 / scale. Otherwise it is scale.
    scale: Floats  # powers of ten, which are at least 1 and therefore exact as floats

    def multiple_below(self, x: Floats) -> Floats:
        """Return k of the largest multiple k * (power of ten) that is at most each x."""
        return np.floor(np.where(self.is_inverse, x * self.scale, x / self.scale))


def _cut_spacing(starts: Floats, ends: Floats) -> _CutSpacing:
    """Return, for each interval, the largest power of ten that is at most a third of the width.

    If floats cannot represent the multiples exactly, the spacing is not decimal.
    """
    log_third = np.log10(ends - starts) - np.log10(3)
    exponent = np.floor(significant(log_third)).astype(int)
    abs_exponent = np.abs(exponent)
    has_exact_power = abs_exponent <= MAX_DECIMAL_POWER
    # the number k of a multiple must be an integer that a float represents exactly
    clipped_exponent = np.clip(exponent, -MAX_DECIMAL_POWER, MAX_DECIMAL_POWER)
    max_multiple = 2**52 * 10.0**clipped_exponent
    max_abs = np.maximum(np.abs(starts), np.abs(ends))
    is_decimal = has_exact_power & (max_abs < max_multiple)
    scale_exponent = np.where(is_decimal, abs_exponent, 0)
    scale = 10.0**scale_exponent
    return _CutSpacing(is_decimal, exponent < 0, scale)


def split_at_decimals(intervals: IntervalMasses) -> IntervalMasses:
    """Split intervals of several floats at the multiples of a power of ten, into parts of mass 0.

    Each interval contains 3 to 30 multiples of the chosen power of ten. Each multiple and the right
    end become intervals that contain a single float. If floats are too coarse to represent the
    multiples exactly, the interval is split into ten equal parts instead.
    """
    starts = intervals.starts
    ends = intervals.ends
    widths = ends - starts
    spacing = _cut_spacing(starts, ends)
    first_multiple = np.where(spacing.is_decimal, spacing.multiple_below(starts), 0)
    n_multiples = spacing.multiple_below(ends) - first_multiple
    n_parts = np.where(spacing.is_decimal, n_multiples + 1, 10)
    n_cuts = n_parts.astype(int) + 1
    first_cut = np.cumsum(n_cuts) - n_cuts  # index of each interval's first cut among all cuts

    # the interval of each cut, and the index of the cut in its interval from 0; all (n_cuts,)
    parent = np.repeat(np.arange(len(starts)), n_cuts)
    cut_number = np.arange(len(parent)) - first_cut[parent]
    is_decimal = spacing.is_decimal[parent]
    is_inverse = spacing.is_inverse[parent]
    scale = spacing.scale[parent]
    multiple = first_multiple[parent] + cut_number
    # the quotient of two exact floats is the float nearest to the decimal number
    decimal = np.where(is_inverse, multiple / scale, multiple * scale)
    width_below = widths[parent] * (cut_number / 10)
    tenth = starts[parent] + width_below
    cuts = np.where(is_decimal, decimal, tenth)

    # a decimal number x becomes a separate part, (just_below(x), x], and so does each right end
    decimal_parent = parent[is_decimal]
    before_decimals = just_below(cuts[is_decimal])
    part_ends = np.concatenate([cuts, before_decimals, just_below(ends), ends])
    interval_index = np.arange(len(starts))
    parent_of_end = np.concatenate([parent, decimal_parent, interval_index, interval_index])
    is_after_start = part_ends > starts[parent_of_end]
    is_before_end = part_ends <= ends[parent_of_end]
    is_inside = is_after_start & is_before_end
    part_ends = np.unique(part_ends[is_inside])

    # the first part of an interval starts where the interval starts
    previous_ends = np.append(starts[:1], part_ends[:-1])
    interval_of_part = np.searchsorted(ends, part_ends)
    part_starts = np.maximum(previous_ends, starts[interval_of_part])
    return IntervalMasses(part_starts, part_ends, np.zeros(len(part_ends)))


def _shrink_masses(
    public_cdf: PiecewiseLinearCDF,
    heavy: IntervalMasses,
    parts: IntervalMasses,
    noisy: Floats,
    variance: float,
) -> Floats:
    """Return the masses of the parts of heavy intervals, shrunk towards an expected distribution.

    The noisy fractions of each interval are shrunk towards the result of `_expected_masses` by the
    James-Stein (1961) factor. The result is projected onto nonnegative masses that sum to the mass
    of the interval.
    """
    parent = np.searchsorted(heavy.ends, parts.ends)
    expected = _expected_masses(public_cdf, parent, parts, noisy)
    masses = []
    first_parts = np.flatnonzero(np.diff(parent)) + 1
    for target, values, total in zip(
        np.split(expected, first_parts), np.split(noisy, first_parts), heavy.masses, strict=True
    ):
        difference = values - target
        # k parts with a fixed sum have k - 1 free masses, and the factor subtracts 2 from these
        noise_energy = max(len(difference) - 3, 0) * variance
        squared_distance = max(float(difference @ difference), MIN_SQUARED_DISTANCE)
        weight = max(0.0, 1 - noise_energy / squared_distance)
        masses.append(project_to_simplex(target + weight * difference, float(total)))
    return np.concatenate(masses)


def _expected_masses(
    public_cdf: PiecewiseLinearCDF,
    parent: NDArray[np.intp],  # (n_parts,)
    parts: IntervalMasses,
    noisy: Floats,
) -> Floats:
    """Return the expected mass of each part, given the noisy mass of its whole interval.

    Inside an interval, the mass is spread either uniformly or according to the public distribution,
    whichever is nearer to the noisy fractions of all parts.
    """
    parent_mass = np.bincount(parent, noisy)[parent]
    public_masses = public_cdf(parts.ends) - public_cdf(parts.starts)
    widths = parts.ends - parts.starts
    candidates: list[Floats] = []
    for weights in (public_masses, widths):
        parent_weight = np.bincount(parent, weights)[parent]
        equal_shares = 1 / np.bincount(parent)[parent]
        shares = np.divide(weights, parent_weight, out=equal_shares, where=parent_weight > 0)
        candidates.append(np.multiply(parent_mass, shares))
    return min(candidates, key=lambda masses: float(np.square(noisy - masses).sum()))


def project_to_simplex(values: Floats, total: float) -> Floats:
    """Return the Euclidean projection of numbers onto nonnegative numbers with a given sum.

    The projection subtracts a common threshold from all numbers and sets negative results to 0
    (Duchi et al. 2008, Efficient projections onto the l1-ball). The sum must be positive.
    """
    descending = np.sort(values)[::-1]
    # excess per number if only the largest 1, 2, ... numbers remain positive
    excess = (np.cumsum(descending) - total) / np.arange(1, len(descending) + 1)
    threshold = excess[np.flatnonzero(descending > excess)[-1]]
    return np.maximum(values - threshold, 0)


def _merge_light_parts(
    parts: IntervalMasses, cell_of_part: NDArray[np.intp], max_mass: float
) -> Floats:
    """Return the starts of the new cells, each of which consists of adjacent parts of one old cell.

    Parts are merged from the left as long as their total mass is at most `max_mass`. A part with a
    larger mass becomes a separate cell.
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
    """Split the cells of a grid at part ends until no cell has more mass than `max_mass`.

    Inside a split cell, both distribution functions follow the released masses of the parts and
    keep their values at the ends of the old cells. Parts that contain a single float and are
    heavier than `max_mass` become atoms.
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

    first_start = just_below(np.array([grid.low]))

    def redistribute(cdf: PiecewiseLinearCDF) -> PiecewiseLinearCDF:
        """Return the function, refined in each split cell according to the released masses."""
        # knots of the function that stay: those outside split cells, and the ends of all cells
        cell_of_knot = np.searchsorted(old_ends, cdf.knots)
        cell_of_knot = np.minimum(cell_of_knot, len(old_ends) - 1)
        outside_knots = cdf.knots[~is_split[cell_of_knot]]
        cell_ends = np.append(cdf.knots[0], old_ends)
        old_knots = np.union1d(outside_knots, cell_ends)

        # new knots in split cells, where the function rises in proportion to the released masses
        heights_at_ends = cdf(np.append(first_start, old_ends))  # (n_cells + 1,)
        height_at_start = heights_at_ends[inner_cells]
        height_at_end = heights_at_ends[inner_cells + 1]
        inner_heights = height_at_start + fractions * (height_at_end - height_at_start)

        knots = np.append(old_knots, inner_ends)
        heights = np.append(cdf(old_knots), inner_heights)
        knots, first_index = np.unique(knots, return_index=True)
        heights = np.maximum.accumulate(heights[first_index])
        return PiecewiseLinearCDF(knots, heights)

    is_single_float = just_below(parts.ends) <= parts.starts
    heavy_atoms = parts.ends[is_single_float & (parts.masses > max_mass)]
    return replace(
        grid,
        edges=np.union1d(grid.edges, new_edges),
        public_cdf=redistribute(grid.public_cdf),
        tail_cdf=redistribute(grid.tail_cdf),
        atoms=np.union1d(grid.atoms, heavy_atoms),
    )
