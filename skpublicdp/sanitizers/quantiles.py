"""Private quantiles of one column by recursive medians (docs/proofs/generic_learner.md).

The recursion follows Kaplan, Schnapp and Stemmer (2022). Each median is drawn exactly by the
exponential mechanism from a grid of decimal numbers, which is chosen without looking at the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from skpublicdp.accounting import Draw, Pure, Sensitivity
from skpublicdp.guarantees.sanitizer_bounds import COUNT_SHARE, max_spurious_mass
from skpublicdp.mechanisms.families import Choice, Leaf
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Codes, Floats, Integers

SANITIZER_PROOF = "docs/proofs/generic_learner.md"
QUANTILES_NAME = "medians by exact draws and discrete Laplace noise on masses, of a feature"
"""Name of one column's quantiles in the receipt."""

MAX_EXPONENT = 9
"""If there are no bounds: largest exponent of the steps, which are powers of ten from 10^-9 to
10^9."""

MULTIPLES_PER_STEP = 2500
"""If there are no bounds: number of multiples of each step on either side of 0, which is large
enough to include years."""

MAX_UNIFORM_STEPS = 25_000
"""If there are bounds: maximum number of steps of the evenly spaced grid between them."""

MULTIPLES_PER_DECADE = 1000
"""If there are bounds: number of multiples of each finer step on either side of the origin."""

N_DECADES = 9
"""If there are bounds: number of finer steps, each of which is a power of ten."""

MIN_HALF_WIDTH = 1e-280
"""Lower bound on half the distance between the bounds, which prevents an underflow to 0."""

WEIGHT_PER_GRID = 1 << 24
"""Total prior weight of each grid before the weights are rounded down to integers."""

ZERO_AND_ONE = np.array([0.0, 1.0])
"""Values of indicator columns, which form a grid of their own."""


@dataclass(frozen=True, eq=False)
class CandidateGrid:
    """Increasing candidate values with prior weights for the exponential mechanism."""

    values: Floats  # (n_values,)
    prior: Integers  # (n_values,): positive prior weights

    def __len__(self) -> int:
        return len(self.values)

    def nearest(self, column: Floats) -> Codes:
        """Return the index of the candidate nearest to each number."""
        midpoints = self.values[:-1] / 2 + self.values[1:] / 2
        return np.searchsorted(midpoints, column)


@lru_cache(maxsize=8)
def candidate_grid(bounds: tuple[float, float] | None = None) -> CandidateGrid:
    """Return candidates between the bounds or, if there are no bounds, of all usual magnitudes.

    Parameters
    ----------
    bounds : pair of float, optional
        Lower and upper bound.

    Examples
    --------
    >>> ages = candidate_grid((0.0, 120.0))
    >>> len(ages), ages.values[:3]
    (31101, array([0.e+00, 1.e-10, 2.e-10]))
    >>> usual = candidate_grid()
    >>> len(usual), float(usual.values[-1])
    (86001, 2500000000000.0)
    """
    if bounds is None:
        exponents = range(-MAX_EXPONENT, MAX_EXPONENT + 1)
        n_multiples = float(MULTIPLES_PER_STEP)
        grids = [_multiples(1, exponent, -n_multiples, n_multiples) for exponent in exponents]
        return _union([ZERO_AND_ONE, *grids], -np.inf, np.inf)
    low, high = bounds
    half_width = max(high / 2 - low / 2, MIN_HALF_WIDTH)  # the width itself may overflow
    digit, exponent = _finest_uniform_step(half_width)
    step = digit * 10.0**exponent
    grids = [
        ZERO_AND_ONE,
        np.array([low, high]),
        _multiples(digit, exponent, low / step, high / step),
    ]
    origin = min(max(0.0, low), high)  # the number between the bounds that is nearest to 0
    for fine_exponent in range(exponent + 1, exponent + 1 - N_DECADES, -1):
        center = origin / 10.0**fine_exponent
        first, last = center - MULTIPLES_PER_DECADE, center + MULTIPLES_PER_DECADE
        grids.append(_multiples(1, fine_exponent, first, last))
    return _union(grids, low, high)


def _finest_uniform_step(half_width: float) -> tuple[int, int]:
    """Return the digit and the exponent of the finest grid step that is allowed between two bounds.

    At most `MAX_UNIFORM_STEPS` steps fit between the bounds, whose distance is 2 · half_width. A
    step is digit * 10^exponent, and digit is 1, 2 or 5.
    """
    decade = math.floor(math.log10(half_width))
    finest = 1, decade
    # 5 decades below the half-width there are more than `MAX_UNIFORM_STEPS` steps
    for exponent in range(decade, decade - 5, -1):
        for digit in (5, 2, 1):
            if half_width / 10.0**exponent <= MAX_UNIFORM_STEPS / 2 * digit:
                finest = digit, exponent
    return finest


def _multiples(digit: int, exponent: int, first: float, last: float) -> Floats:
    """Return k * digit * 10^exponent for all integers k from `first` to `last`, rounded once."""
    mantissas = digit * np.arange(math.ceil(first), math.floor(last) + 1, dtype=np.float64)
    return mantissas * 10.0**exponent if exponent >= 0 else mantissas / 10.0**-exponent


def _union(grids: list[Floats], low: float, high: float) -> CandidateGrid:
    """Return the union of the grids between two bounds, which have equal total prior weights."""
    # adding 0.0 turns -0.0 into 0.0
    clipped = [grid[(low <= grid) & (grid <= high)] + 0.0 for grid in grids]
    clipped = [grid for grid in clipped if len(grid)]
    sizes = [len(grid) for grid in clipped]
    weight_of_value = [WEIGHT_PER_GRID // size for size in sizes]
    weights = np.repeat(weight_of_value, sizes)
    all_values = np.concatenate(clipped)
    values, value_index = np.unique(all_values, return_inverse=True)
    prior = np.bincount(value_index, weights).astype(np.int64)
    values.setflags(write=False)
    prior.setflags(write=False)
    return CandidateGrid(values, prior)


def split_budget(epsilon: Fraction, levels: int) -> tuple[Fraction, Fraction]:
    """Return the budget ε for the medians on one recursion level, and the budget for all masses.

    The masses are counted once and receive the share `COUNT_SHARE`. The levels share the remainder
    equally.
    """
    mass_budget = epsilon * COUNT_SHARE
    return (epsilon - mass_budget) / levels, mass_budget


@dataclass(frozen=True, eq=False)
class QuantileColumn:
    """Released distribution of one column: a mixture of uniform segments and single values.

    Attributes
    ----------
    starts, ends : ndarray of float64, shape (n_segments,)
        Start and end of each segment. A segment whose ends are equal represents a single value.
    masses : ndarray of float64, shape (n_segments,)
        Positive fractions of the rows, which sum to 1. The mass of each segment is distributed
        uniformly over the segment.
    """

    starts: Floats
    ends: Floats
    masses: Floats

    def quantile(self, p: Floats) -> Floats:
        """Return the quantiles of the released distribution at the fractions `p` in [0, 1]."""
        cumulative = np.cumsum(self.masses)
        segment = np.minimum(np.searchsorted(cumulative, p), len(cumulative) - 1)
        start, end = self.starts[segment], self.ends[segment]
        fraction = np.clip(1 - (cumulative[segment] - p) / self.masses[segment], 0, 1)
        # single values are returned without rounding error, since many of them are 0 or 1
        return np.where(start == end, start, start * (1 - fraction) + end * fraction)


def release_column(
    column: Floats, candidates: CandidateGrid, *, levels: int, epsilon: Fraction, ledger: Ledger
) -> QuantileColumn:
    """Release quantiles of a private column and the masses of the segments between them.

    Parameters
    ----------
    column : ndarray of float64
        Private numbers, which are moved to the nearest candidates.
    candidates : CandidateGrid
        Candidate values of the quantiles.
    levels : int
        Depth of the recursion, at least 1.
    epsilon : Fraction
        Privacy budget. The release is ε-differentially private.

    Returns
    -------
    QuantileColumn
        Up to 2^levels - 1 quantiles and the segments between them, with noisy masses.
    """
    level_budget, mass_budget = split_budget(epsilon, levels)
    column_ledger = ledger.sub_ledger(Pure(epsilon), name=QUANTILES_NAME, proof=SANITIZER_PROOF)
    counts = np.bincount(candidates.nearest(column), minlength=len(candidates))
    n_before = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    cuts = find_medians(n_before, candidates.prior, levels, level_budget, column_ledger)
    # segments in order: before the first cut, the first cut itself, before the second cut, ...
    boundaries = np.concatenate([[0], (cuts[:, None] + [0, 1]).ravel(), [len(candidates)]])
    noisy = column_ledger.add_noise(
        np.diff(n_before[boundaries]),
        Sensitivity(2, 2),  # a replaced row leaves one segment and enters another
        Pure(mass_budget),
        name=QUANTILES_NAME,
        proof=SANITIZER_PROOF,
    )
    return build_quantile_column(candidates.values, cuts, noisy.values, float(noisy.scale))


def find_medians(
    n_before: Integers, prior: Integers, levels: int, epsilon: Fraction, ledger: Ledger
) -> Codes:
    """Return private quantiles: a median of the rows, then a median on each side, and so on.

    Each node of the recursion is a range of candidates, which is split into two nodes at the median
    drawn from it.

    Parameters
    ----------
    n_before : ndarray of int64, shape (n_candidates + 1,)
        Number of rows before each candidate. The last entry is the total number of rows.
    prior : ndarray of int64, shape (n_candidates,)
        Prior weights of the candidates.
    levels : int
        Depth of the recursion.
    epsilon : Fraction
        Privacy budget of each level.
    """
    nodes = [(0, len(prior))]  # start and stop of each range of candidates
    cuts: list[int] = []
    for _ in range(levels):
        children: list[tuple[int, int]] = []
        # parallel composition: the nodes of a level contain disjoint rows
        level_ledger = ledger.sub_ledger(
            Pure(epsilon), name=QUANTILES_NAME, proof=SANITIZER_PROOF, by_theorem=True
        )
        for start, stop in nodes:
            errors = median_errors(n_before[start : stop + 1])
            family = Choice(Leaf(errors[:, None]), prior[start:stop])
            # a replaced row changes the errors of two nodes by at most 1 each, or the errors of one
            # node by at most 2
            option, _ = level_ledger.draw(
                family, Draw(epsilon), 2, name=QUANTILES_NAME, proof=SANITIZER_PROOF
            )
            cuts.append(start + option)
            children += [(start, start + option), (start + option + 1, stop)]
        nodes = [(start, stop) for start, stop in children if start < stop]
    return np.sort(np.array(cuts, dtype=np.intp))


def median_errors(n_before: Integers) -> Integers:
    """Return the distance, in rows, between each candidate of a node and a median.

    The distance of a candidate is the difference between the numbers of rows on both sides, minus
    the number of rows at the candidate. It is 0 for a median. Adding or removing one row changes
    the distance by at most 1. The parameter `n_before` is the node's part of the array in
    `find_medians`.

    Examples
    --------
    >>> median_errors(np.array([0, 3, 3, 4]))  # 3 rows at the first candidate, 0 and 1 at others
    array([0, 2, 2])
    """
    n_left, n_right = n_before[:-1] - n_before[0], n_before[-1] - n_before[1:]
    n_equal = np.diff(n_before)
    return np.maximum(np.abs(n_left - n_right) - n_equal, 0)


def build_quantile_column(
    values: Floats, cuts: Codes, noisy_masses: Integers, scale: float
) -> QuantileColumn:
    """Return the distribution of a column, given its cuts and the noisy counts in all segments.

    Parameters
    ----------
    values : ndarray of float64
        Candidates.
    cuts : ndarray of intp, shape (n_cuts,)
        Increasing indices of the cuts among the candidates.
    noisy_masses : ndarray of int64, shape (2 * n_cuts + 1,)
        Noisy counts of rows before the first cut, at the first cut, between the first and the
        second cut, and so on.
    scale : float
        Scale of the Laplace noise.
    """
    cut_values = values[cuts].tolist()
    # a tail is as wide as the adjacent gap, since without bounds the last candidate is far away
    first_gap = last_gap = 0.0
    if len(cut_values) > 1:  # a single cut has no gap, and its tails have no width
        first_gap = cut_values[1] - cut_values[0]
        last_gap = cut_values[-1] - cut_values[-2]
    tail_start = max(float(values[0]), cut_values[0] - first_gap)
    tail_end = min(float(values[-1]), cut_values[-1] + last_gap)
    starts = _interleave([tail_start, *cut_values], cut_values)
    ends = _interleave([*cut_values, tail_end], cut_values)
    threshold = max_spurious_mass(len(noisy_masses), scale)
    masses = np.where(noisy_masses > threshold, noisy_masses, 0).astype(np.float64)
    if not masses.any():
        masses[1::2] = 1.0  # odd indices are the cuts
    is_positive = masses > 0
    shares = masses[is_positive] / masses.sum()
    return QuantileColumn(starts[is_positive], ends[is_positive], shares)


def _interleave(gaps: list[float], cuts: list[float]) -> Floats:
    """Return the array gaps[0], cuts[0], gaps[1], cuts[1], ..., gaps[-1]."""
    interleaved = np.empty(len(gaps) + len(cuts))
    interleaved[::2], interleaved[1::2] = gaps, cuts
    return interleaved
