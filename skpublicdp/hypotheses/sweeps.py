"""Sweeps: one-parameter families of hyperplanes, which pass every row once."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Self

import numpy as np

from skpublicdp.hypotheses.splits import quantile_thresholds
from skpublicdp.typing import Codes, Floats, Integers, Mask

SWEEP_BLOCK_ROWS = 1 << 13
"""Number of rows coded together: they fit into the processor's cache."""

LIMB_BITS = 24
"""Bits of a weight that are summed together: floats are exact for up to 2^29 rows."""

CELLS_PER_THRESHOLD = 8
"""Number of grid cells per threshold: few cells contain a threshold, so few bins are wrong."""


class Sweeps(ABC):
    """One-parameter families of hyperplanes, each with its thresholds.

    A hyperplane of a sweep moves past every row once. The *key* of a row is the parameter at which
    the hyperplane passes it, and its *side* is the side of the hyperplane before that. A member is
    a sweep, a threshold between the keys of public points, an orientation and a variant. The
    variant decides the label of rows that lie on all hyperplanes of the sweep.

    Parameters
    ----------
    cuts : iterable of ndarray of float64
        Increasing thresholds of each sweep.
    n_sides : {1, 2}
        Number of sides on which rows may start.
    variants : ndarray of bool, shape (n_variants, n_positions)
        Positions on the common intersection of a sweep that each variant labels positive.
    """

    def __init__(self, cuts: Iterable[Floats], n_sides: int, variants: Mask) -> None:
        cuts_of_sweep = list(cuts)
        self.n_cuts = np.array([len(values) for values in cuts_of_sweep])
        n_cuts = int(self.n_cuts.max())
        # padded by infinities, which no key exceeds
        self.thresholds = np.full((len(cuts_of_sweep), n_cuts), np.inf)
        self.scales = np.tile([0.0, 1.0], (len(cuts_of_sweep), 1))
        # for each cell of a grid, the bin of most keys in the cell
        n_cells = CELLS_PER_THRESHOLD * n_cuts + 1
        self._typical_bins = np.zeros(
            (len(cuts_of_sweep), n_cells), dtype=np.min_scalar_type(n_cuts)
        )
        for sweep, values in enumerate(cuts_of_sweep):
            self.thresholds[sweep, : len(values)] = values
            if len(values):
                middle = float(np.median(values))
                width = float(np.median(np.abs(values - middle)))
                self.scales[sweep] = middle, width or abs(middle) or 1.0
                cell_counts = np.bincount(self._cells(values, sweep), minlength=n_cells)
                self._typical_bins[sweep, 1:] = np.cumsum(cell_counts)[:-1]
        self.n_sides = n_sides
        self.variants = variants

    def __len__(self) -> int:
        return len(self.thresholds)

    @property
    def n_bins(self) -> int:
        """Number of bins of keys between thresholds."""
        return int(self.thresholds.shape[1]) + 1

    @property
    def n_codes(self) -> int:
        """Number of codes: the bins of each side, then the positions on the common intersection."""
        return self.n_sides * self.n_bins + int(self.variants.shape[1])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of an array over all members: sweeps, variants, thresholds, orientations."""
        return len(self), len(self.variants), self.thresholds.shape[1], 2

    @abstractmethod
    def codes(self, columns: Floats, sweep: int) -> Codes:
        """Return the code of each row in one sweep, for scoring and for predicting.

        Parameters
        ----------
        columns : ndarray of float64, shape (n_features, n)
            Rows, transposed. Each row is coded on its own, by elementwise operations in a fixed
            order.
        sweep : int
            Index of the sweep.

        Returns
        -------
        ndarray of intp, shape (n,)
            Codes below `n_codes`.
        """

    def select(self, sweep: int) -> Self:
        """Return a copy that has a single sweep."""
        single = copy.copy(self)
        for name, value in vars(self).items():
            if name not in ("n_sides", "variants"):
                setattr(single, name, value[sweep : sweep + 1])
        return single

    @abstractmethod
    def hyperplane(self, sweep: int, gap: int) -> tuple[Floats, float]:
        """Return normal and offset of the hyperplane at a threshold, in the first orientation."""

    def tabulate(self, X: Floats, y: Codes, weights: Integers, n_classes: int) -> Integers:
        """Return the weight of each code by label and sweep, shape (n_classes, sweeps, n_codes)."""
        table = np.zeros((n_classes, len(self), self.n_codes), dtype=np.int64)
        has_unit_weights = bool((weights == 1).all())
        order = np.argsort(y, kind="stable")  # one class after the other
        edges = np.searchsorted(y[order], np.arange(n_classes + 1))
        for label in range(n_classes):
            for start in range(edges[label], edges[label + 1], SWEEP_BLOCK_ROWS):
                rows = order[start : min(start + SWEEP_BLOCK_ROWS, edges[label + 1])]
                columns = np.ascontiguousarray(X[rows].T)
                row_weights = None if has_unit_weights else weights[rows]
                for sweep in range(len(self)):
                    codes = self.codes(columns, sweep)
                    table[label, sweep] += _histogram(codes, row_weights, self.n_codes)
        return table

    def _bins(self, keys: Floats, sweep: int) -> Codes:
        """Return the number of thresholds below each key, as `numpy.searchsorted` but faster.

        The cell of a grid suggests a bin. If this bin does not contain the key, it is replaced by
        the result of `numpy.searchsorted`, so the result is exact for every grid.
        """
        thresholds = self.thresholds[sweep]
        cells = self._cells(keys, sweep)
        bins: Codes = self._typical_bins[sweep].take(cells, mode="clip").astype(np.intp)
        low = np.concatenate([[-np.inf], thresholds]).take(bins)
        high = np.append(thresholds, np.inf).take(bins)
        wrong = np.flatnonzero(~((low < keys) & (keys <= high)))
        bins[wrong] = np.searchsorted(thresholds, keys[wrong])
        return bins

    def _cells(self, keys: Floats, sweep: int) -> Codes:
        """Return the grid cell of each key; the cells of infinite keys and NaN are arbitrary.

        The grid is uniform in t / (abs(t) + 1) for the standardised key t, which is in (-1, 1).
        """
        middle, width = self.scales[sweep]
        half_size = (self._typical_bins.shape[1] - 1) / 2
        with np.errstate(invalid="ignore", over="ignore"):
            shifted = keys - middle
            cells: Floats = shifted / (np.abs(shifted) + width) * half_size + half_size
            return np.asarray(cells.astype(np.intp))

    def sum_positive(self, values: Integers) -> Integers:
        """Return, for every member, the sum of the values of the codes that it labels positive.

        Parameters
        ----------
        values : ndarray of int64, shape (sweeps, n_codes)
            Values; sums are modulo 2^64.

        Returns
        -------
        ndarray of int64, of `shape`
            Sums; the entries at padded thresholds are arbitrary.
        """
        n_bins = self.n_bins
        values_of_bins = values[:, : self.n_sides * n_bins].reshape(-1, self.n_sides, n_bins)
        # on the common intersection, shape (sweeps, n_variants)
        fixed = values[:, self.n_sides * n_bins :] @ self.variants.T.astype(np.int64)
        cumulative = np.cumsum(values_of_bins, axis=2)
        # first orientation: above the threshold on the first side, below it on the second
        sums = cumulative[:, 0, -1:] - cumulative[:, 0, :-1]
        for side in range(1, self.n_sides):
            sums += cumulative[:, side, :-1]
        totals = cumulative[:, :, -1].sum(axis=1)[:, None]
        by_orientation = np.stack([sums, totals - sums], axis=-1)
        return np.asarray(by_orientation[:, None] + fixed[:, :, None, None])

    def positive_codes(self, variant: int, gap: int, orientation: int) -> Mask:
        """Return which codes a member labels positive, shape (n_codes,)."""
        above = np.arange(self.n_bins) > gap
        bins_of_side = [above ^ bool(orientation ^ side) for side in range(self.n_sides)]
        return np.concatenate([*bins_of_side, self.variants[variant]])

    def dichotomy_ids(self, points: Floats) -> Integers:
        """Return a number for each member that identifies its dichotomy of the public points.

        Parameters
        ----------
        points : ndarray of float64, shape (m, n_features)
            Distinct public points.

        Returns
        -------
        ndarray of int64, of `shape`
            For m < 64 the bits of the positive points. Otherwise the sum of fixed random words of
            the positive points: two of N dichotomies collide with probability at most N^2 / 2^65.
            A padded threshold has 0, like the constant.
        """
        words = point_words(len(points))
        columns = np.ascontiguousarray(points.T)
        values = np.zeros((len(self), self.n_codes), dtype=np.int64)
        for sweep in range(len(self)):
            np.add.at(values[sweep], self.codes(columns, sweep), words)
        numbers = self.sum_positive(values)
        is_padded = np.arange(self.shape[2]) >= self.n_cuts[:, None]
        numbers[np.broadcast_to(is_padded[:, None, :, None], numbers.shape)] = 0
        return numbers


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
        """Return hyperplanes at quantiles of the projected points.

        Parameters
        ----------
        weights : ndarray of float64, shape (n_directions, n_features)
            Directions.
        points : ndarray of float64, shape (m, n_features)
            Public rows.
        spacing : float
            Fraction of the points between neighbouring quantiles.
        max_thresholds : int
            Maximum number of thresholds of a direction; they are thinned out evenly.
        """
        columns = np.ascontiguousarray(points.T)
        cuts = [quantile_thresholds(project(normal, columns), spacing) for normal in weights]
        return cls(weights, [_thin_out(thresholds, max_thresholds) for thresholds in cuts])

    def codes(self, columns: Floats, sweep: int) -> Codes:
        """Return the bin of each row's projection."""
        return self._bins(project(self.weights[sweep], columns), sweep)

    def hyperplane(self, sweep: int, gap: int) -> tuple[Floats, float]:
        """Return the direction as the normal, and the threshold as the offset."""
        return self.weights[sweep], float(self.thresholds[sweep, gap])


def _thin_out(thresholds: Floats, max_thresholds: int) -> Floats:
    """Return at most `max_thresholds` of the thresholds, evenly spaced by rank."""
    if len(thresholds) <= max_thresholds:
        return thresholds
    ranks = (2 * np.arange(max_thresholds) + 1) * len(thresholds) // (2 * max_thresholds)
    return thresholds[ranks]


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
    """Return a 64-bit word for each public point; sums of words identify sets of points."""
    if size < 64:
        words: Integers = np.int64(1) << np.arange(size, dtype=np.int64)
        return words
    limits = np.iinfo(np.int64)
    return np.random.default_rng(0).integers(limits.min, limits.max, size=size, endpoint=True)


def _histogram(codes: Codes, weights: Integers | None, length: int) -> Integers:
    """Return the total weight of each code, exact although `numpy.bincount` sums floats."""
    if weights is None:
        return np.bincount(codes, minlength=length)
    total = np.zeros(length, dtype=np.int64)
    for shift in range(0, int(weights.max(initial=0)).bit_length(), LIMB_BITS):
        limb = (weights >> shift) & ((1 << LIMB_BITS) - 1)
        total += np.bincount(codes, limb, minlength=length).astype(np.int64) << shift
    return total
