"""Sweeps: one-parameter families of hyperplanes that pass every row exactly once."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Self

import numpy as np

from skpublicdp.hypotheses.contingency import blocks_by_label
from skpublicdp.hypotheses.splits import quantile_thresholds
from skpublicdp.typing import Codes, Floats, Integers, Mask

SWEEP_BLOCK_ROWS = 1 << 13
"""Number of rows coded at a time, chosen to fit into the processor cache."""

LIMB_BITS = 24
"""Number of bits of a weight that are summed at a time; float sums are exact for up to 2^29 rows.
"""

CELLS_PER_THRESHOLD = 8
"""Number of grid cells per threshold.

Most cells contain no threshold, so all keys in such a cell share a bin."""


class Sweeps(ABC):
    """One-parameter families of hyperplanes, with thresholds for each family.

    A hyperplane of a sweep moves past every row once. The *key* of a row is the parameter value at
    which the hyperplane passes the row, and its *side* is the side of the hyperplane on which the
    row lies before that. The *code* of a row combines its side with the bin of its key between
    thresholds. A member is defined by a sweep, a threshold between the keys of public points, an
    orientation and a variant. The variant determines the label of rows that lie on all hyperplanes
    of the sweep; these rows have separate codes.

    Parameters
    ----------
    cuts : iterable of ndarray of float64
        Increasing thresholds of each sweep.
    n_sides : {1, 2}
        Number of sides on which rows can start.
    variants : ndarray of bool, shape (n_variants, n_positions)
        For each variant, whether it labels rows positive at each position on the common
        intersection of the hyperplanes. Families of parallel hyperplanes have no such positions.
    """

    def __init__(self, cuts: Iterable[Floats], n_sides: int, variants: Mask) -> None:
        cuts_of_sweep = list(cuts)
        n_sweeps = len(cuts_of_sweep)
        self.n_sides = n_sides
        self.variants = variants
        self.n_cuts = np.array([len(thresholds) for thresholds in cuts_of_sweep])
        max_cuts = int(self.n_cuts.max())
        # sweeps with fewer thresholds are padded by infinities, which no key exceeds
        self.thresholds = np.full((n_sweeps, max_cuts), np.inf)
        # the lookup grid of `_find_bins`: middle and width, then the bin where each cell begins
        self.scales = np.tile([0.0, 1.0], (n_sweeps, 1))
        n_cells = CELLS_PER_THRESHOLD * max_cuts + 1
        self._typical_bins = np.zeros((n_sweeps, n_cells), dtype=np.min_scalar_type(max_cuts))
        for sweep, thresholds in enumerate(cuts_of_sweep):
            n_thresholds = len(thresholds)
            if not n_thresholds:
                continue
            self.thresholds[sweep, :n_thresholds] = thresholds
            with np.errstate(over="ignore", invalid="ignore"):
                middle = float(np.median(thresholds))
                width = float(np.median(np.abs(thresholds - middle)))
            # a single threshold, or equal thresholds, have width 0; any positive width is valid
            if np.isfinite(middle + width):
                self.scales[sweep] = middle, width or abs(middle) or 1.0
            # cells are arbitrary if the difference of two thresholds overflows
            cells = self._cells(thresholds, sweep).clip(0, n_cells - 1)
            n_in_cell = np.bincount(cells, minlength=n_cells)
            self._typical_bins[sweep, 1:] = np.cumsum(n_in_cell[:-1])

    def __len__(self) -> int:
        return len(self.thresholds)

    @property
    def n_bins(self) -> int:
        """Number of bins into which the thresholds of a sweep divide the keys of rows."""
        return int(self.thresholds.shape[1]) + 1

    @property
    def n_codes(self) -> int:
        """Number of codes: the bins of each side, and the positions on the intersection."""
        return self.n_sides * self.n_bins + int(self.variants.shape[1])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of an array of all members: sweeps, variants, thresholds and orientations."""
        return len(self), len(self.variants), self.thresholds.shape[1], 2

    @abstractmethod
    def codes(self, columns: Floats, sweep: int) -> Codes:
        """Return the code of each row in one sweep, for both scoring and prediction."""

    def select(self, sweep: int) -> Self:
        """Return a copy that contains a single sweep, with index 0."""
        single = copy.copy(self)
        for name, value in vars(self).items():
            # all other attributes, including those of subclasses, are arrays or lists with one
            # entry per sweep
            if name not in ("n_sides", "variants"):
                setattr(single, name, value[sweep : sweep + 1])
        return single

    @abstractmethod
    def hyperplane(self, sweep: int, gap: int) -> tuple[Floats, float]:
        """Return the normal and offset of a threshold's hyperplane, in the first orientation."""

    def tabulate(self, X: Floats, y: Codes, weights: Integers, n_classes: int) -> Integers:
        """Return the weight of rows by label, sweep and code: (n_classes, n_sweeps, n_codes)."""
        n_sweeps = len(self)
        table = np.zeros((n_classes, n_sweeps, self.n_codes), dtype=np.int64)
        has_unit_weights = bool((weights == 1).all())
        for label, rows in blocks_by_label(y, n_classes, SWEEP_BLOCK_ROWS):
            columns = np.ascontiguousarray(X[rows].T)
            row_weights = None if has_unit_weights else weights[rows]
            for sweep in range(n_sweeps):
                codes = self.codes(columns, sweep)
                table[label, sweep] += _histogram(codes, row_weights, self.n_codes)
        return table

    def _find_bins(self, keys: Floats, sweep: int) -> Codes:
        """Return the bin of each key, which is the number of thresholds below the key.

        The function is a faster version of `numpy.searchsorted`: the grid cell of a key suggests a
        bin. If this bin does not contain the key, `numpy.searchsorted` finds the bin. The result is
        therefore exact for every grid.
        """
        thresholds = self.thresholds[sweep]
        cells = self._cells(keys, sweep)
        typical_bins = self._typical_bins[sweep].take(cells, mode="clip")
        bins: Codes = typical_bins.astype(np.intp)
        lower_ends = np.append(-np.inf, thresholds)
        upper_ends = np.append(thresholds, np.inf)
        is_above = lower_ends.take(bins) < keys
        is_in_bin = is_above & (keys <= upper_ends.take(bins))  # False for NaN
        wrong = np.flatnonzero(~is_in_bin)
        bins[wrong] = np.searchsorted(thresholds, keys[wrong])
        return bins

    def _cells(self, keys: Floats, sweep: int) -> Codes:
        """Return the grid cell of each key; the cells of infinite keys and NaN are arbitrary.

        For a standardised key t, the grid is uniform in t / (abs(t) + 1), which is in (-1, 1).
        """
        middle, width = self.scales[sweep]
        n_cells = self._typical_bins.shape[1]
        half_size = (n_cells - 1) / 2
        with np.errstate(invalid="ignore", over="ignore"):
            shifted = keys - middle
            fractions = shifted / (np.abs(shifted) + width)  # in (-1, 1)
            positions: Floats = fractions * half_size + half_size
            return np.asarray(positions.astype(np.intp))

    def sum_positive(self, values: Integers) -> Integers:
        """Return each member's sum of the values of the codes that it labels positive.

        Parameters
        ----------
        values : ndarray of int64, shape (sweeps, n_codes)
            Values of the codes. Sums are modulo 2^64.
        """
        n_bin_codes = self.n_sides * self.n_bins
        bin_values, position_values = np.split(values, [n_bin_codes], axis=1)
        bin_values = bin_values.reshape(-1, self.n_sides, self.n_bins)

        cumulative = np.cumsum(bin_values, axis=2)
        up_to_threshold = cumulative[:, :, :-1]  # (sweeps, n_sides, max_cuts)
        totals = cumulative[:, :, -1]  # (sweeps, n_sides)
        # first orientation: above the threshold on the first side, below it on the second
        first_orientation = totals[:, :1] - up_to_threshold[:, 0]  # (sweeps, max_cuts)
        for side in range(1, self.n_sides):
            first_orientation += up_to_threshold[:, side]
        # the second orientation has the other bins
        total = totals.sum(axis=1, keepdims=True)
        second_orientation = total - first_orientation
        bin_sums = np.stack([first_orientation, second_orientation], axis=-1)

        is_positive = self.variants.astype(np.int64)  # (n_variants, n_positions)
        position_sums = position_values @ is_positive.T  # (sweeps, n_variants)
        return bin_sums[:, None] + position_sums[:, :, None, None]

    def positive_codes(self, variant: int, gap: int, orientation: int) -> Mask:
        """Return, for each code, whether a member labels its rows positive, shape (n_codes,)."""
        is_above = np.arange(self.n_bins) > gap
        is_positive = [is_above ^ bool(orientation ^ side) for side in range(self.n_sides)]
        return np.concatenate([*is_positive, self.variants[variant]])

    def dichotomy_ids(self, points: Floats) -> Integers:
        """Return, for each member, a number that identifies its labelling of the public points."""
        words = point_words(len(points))
        columns = np.ascontiguousarray(points.T)
        word_sums = np.zeros((len(self), self.n_codes), dtype=np.int64)
        for sweep in range(len(self)):
            codes = self.codes(columns, sweep)
            np.add.at(word_sums[sweep], codes, words)
        identifiers = self.sum_positive(word_sums)  # (sweeps, n_variants, max_cuts, 2)
        max_cuts = identifiers.shape[2]
        is_padded = np.arange(max_cuts) >= self.n_cuts[:, None]  # (sweeps, max_cuts)
        thresholds_first = identifiers.swapaxes(1, 2)  # a view
        thresholds_first[is_padded] = 0
        return identifiers


class ParallelHyperplanes(Sweeps):
    """Parallel hyperplanes for each of several directions; the key of a row is its projection.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_directions, n_features)
        Directions (normals), in the units of the rows.
    cuts : iterable of ndarray of float64
        Increasing thresholds on each direction.
    """

    def __init__(self, weights: Floats, cuts: Iterable[Floats]) -> None:
        super().__init__(cuts, 1, np.ones((1, 0), dtype=bool))
        self.weights = weights

    @classmethod
    def at_quantiles(
        cls, weights: Floats, points: Floats, spacing: float, max_thresholds: int
    ) -> ParallelHyperplanes:
        """Return hyperplanes through the quantiles of public points in each direction."""
        columns = np.ascontiguousarray(points.T)
        cuts = []
        for normal in weights:
            thresholds = quantile_thresholds(project(normal, columns), spacing)
            if len(thresholds) > max_thresholds:
                thresholds = thresholds[middle_ranks(max_thresholds, len(thresholds))]
            cuts.append(thresholds)
        return cls(weights, cuts)

    def codes(self, columns: Floats, sweep: int) -> Codes:
        """Return the code of each row: the bin of its projection onto the sweep direction."""
        return self._find_bins(project(self.weights[sweep], columns), sweep)

    def hyperplane(self, sweep: int, gap: int) -> tuple[Floats, float]:
        """Return the direction as the normal, and the threshold as the offset."""
        return self.weights[sweep], float(self.thresholds[sweep, gap])


def middle_ranks(n_groups: int, n: int) -> Codes:
    """Return the middle ranks of groups of equal size among n sorted values."""
    return np.asarray((2 * np.arange(n_groups) + 1) * n // (2 * n_groups))


def project(weights: Floats, columns: Floats) -> Floats:
    """Return the projection of each row, summed over the features in a fixed order.

    Unlike a matrix product, the result for a row does not depend on the other rows.
    """
    projected = np.zeros(columns.shape[1])
    with np.errstate(invalid="ignore", over="ignore"):
        for feature in np.flatnonzero(weights):
            projected += weights[feature] * columns[feature]
    return projected


def point_words(size: int) -> Integers:
    """Return a 64-bit integer for each public point; their sums identify sets of points.

    For up to 63 points, each point corresponds to one bit. For more points, the integers are random
    with a fixed seed, and sums are modulo 2^64.
    """
    if size < 64:
        return np.int64(1) << np.arange(size, dtype=np.int64)
    limits = np.iinfo(np.int64)
    return np.random.default_rng(0).integers(limits.min, limits.max, size=size, endpoint=True)


def _histogram(codes: Codes, weights: Integers | None, length: int) -> Integers:
    """Return the total weight of each code below `length`; if weights is None, all weights are 1.

    `numpy.bincount` sums floats. The sums are exact because weights are split into parts (limbs) of
    `LIMB_BITS` bits, which are summed separately.
    """
    if weights is None:
        return np.bincount(codes, minlength=length)
    total = np.zeros(length, dtype=np.int64)
    for shift in range(0, int(weights.max(initial=0)).bit_length(), LIMB_BITS):
        limb = (weights >> shift) & ((1 << LIMB_BITS) - 1)
        total += np.bincount(codes, limb, minlength=length).astype(np.int64) << shift
    return total
