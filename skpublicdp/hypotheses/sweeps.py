"""One-parameter families of hyperplanes (sweeps), and the directions of parallel ones."""

from __future__ import annotations

import copy
import itertools
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

MAX_SPARSE_FEATURES = 6
"""Largest number of features of a sparse direction, which is mostly refined within them."""


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


def draw_directions(points: Floats, size: int, sparse_share: float = 0.2) -> Floats:
    """Return random directions that depend on public rows, with a fixed seed.

    Parameters
    ----------
    points : ndarray of float64, shape (m, n_features)
        Public rows.
    size : int
        Number of directions.
    sparse_share : float, default=0.2
        Fraction of directions that use two to four features.

    Returns
    -------
    ndarray of float64, shape (at most size, n_features)
        Directions in the units of the rows, up to sign. Besides sparse ones, 10% are isotropic, 10%
        are isotropic among whitened rows, and the others are differences of standardised public
        rows. Features that are constant among the public rows have weight 0. With a single feature
        there is a single direction.
    """
    n_features = points.shape[1]
    varies, scale = scales(points)
    if n_features == 1 or not varies.any():
        return np.ones((1, n_features))
    directions = _standardised_directions(points, size, sparse_share, seed=0)
    return _in_row_units(directions, varies, scale)


def directions_around(normal: Floats, points: Floats, size: int, step: int) -> Floats:
    """Return random directions near a given one that depend on public rows, with a fixed seed.

    Parameters
    ----------
    normal : ndarray of float64, shape (n_features,)
        The given direction, in the units of the rows; it is returned first.
    points : ndarray of float64, shape (m, n_features)
        Public rows.
    size : int
        Number of directions.
    step : int
        1 for the first refinement; each further step divides the distances by two.

    Returns
    -------
    ndarray of float64, shape (at most size, n_features)
        Among standardised rows and with lengths 1, the given direction plus 0.8, 0.4 or 0.2 times a
        direction of `draw_directions`; these factors are divided by two after each step. Around a
        direction of at most `MAX_SPARSE_FEATURES` features, 30% use the same features and 30% use
        one feature more, because sparse rules have few alternatives.
    """
    varies, scale = scales(points)
    centre = normal * scale / np.linalg.norm(normal * scale)
    is_sparse = np.count_nonzero(centre) <= MAX_SPARSE_FEATURES
    n_same_features = 3 * (size - 1) // 10 if is_sparse else 0
    n_general = size - 1 - 2 * n_same_features
    moves = np.concatenate(
        [
            _sparse_moves(centre, varies, n_same_features, seed=step),
            _standardised_directions(points, n_general, sparse_share=0.2, seed=step),
        ]
    )
    moves /= np.linalg.norm(moves, axis=1, keepdims=True)
    distances = 0.8 * 0.5 ** (step - 1) * np.array([1.0, 0.5, 0.25])
    directions = centre + moves * np.resize(distances, (len(moves), 1))
    return _in_row_units(np.vstack([centre, directions]), varies, scale)


def _sparse_moves(centre: Floats, varies: Mask, size: int, seed: int) -> Floats:
    """Return random directions of the features of `centre`, and as many with one feature more.

    A single feature has no other directions, so all of them use one feature more.

    Parameters
    ----------
    centre : ndarray of float64, shape (n_features,)
        A direction.
    varies : ndarray of bool, shape (n_features,)
        Features that are not constant among the public rows.
    size : int
        Number of directions of either kind.
    seed : int
        Seed.

    Returns
    -------
    ndarray of float64, shape (2 * size, n_features)
        The directions; directions with one feature more come first.
    """
    generator = np.random.default_rng(seed)
    moves = generator.normal(size=(2 * size, len(centre))) * (centre != 0)
    unused_features = np.flatnonzero(varies & (centre == 0))
    if len(unused_features):
        n_extended = size if np.count_nonzero(centre) > 1 else len(moves)
        added_features = generator.choice(unused_features, size=n_extended)
        moves[np.arange(n_extended), added_features] = generator.normal(size=n_extended)
    return np.asarray(moves)


def _standardised_directions(points: Floats, size: int, sparse_share: float, seed: int) -> Floats:
    """Return random directions among standardised rows, shape (size, n_features).

    They are differences of distinct public rows, sparse, isotropic, and isotropic after whitening,
    in this order.
    """
    generator = np.random.default_rng(seed)  # fixed: directions are part of the method, not random
    n_features = points.shape[1]
    varies, scale = scales(points)
    standard = (points - points.mean(axis=0)) / scale
    n_isotropic = size // 10  # with few public rows there are few differences
    sparse = np.zeros((int(sparse_share * size), n_features))
    distinct = np.unique(standard, axis=0)
    first = generator.integers(len(distinct), size=size - len(sparse) - 2 * n_isotropic)
    second = first - generator.integers(1, len(distinct), size=len(first))  # never the same row
    differences = distinct[first] - distinct[second]
    features = np.flatnonzero(varies)
    for direction, n_nonzero in zip(sparse, itertools.cycle((2, 3, 4)), strict=False):
        nonzero = generator.choice(features, size=min(n_nonzero, len(features)), replace=False)
        direction[nonzero] = generator.normal(size=len(nonzero))
    isotropic = generator.normal(size=(n_isotropic, n_features))
    whitened = generator.normal(size=(n_isotropic, n_features)) @ _whitening(standard)
    return np.concatenate([differences, sparse, isotropic, whitened])


def scales(points: Floats) -> tuple[Mask, Floats]:
    """Return which features vary, and the standard deviations (1 for constant features)."""
    varies = np.ptp(points, axis=0) > 0
    return varies, np.where(varies, points.std(axis=0), 1.0)


def _whitening(standard: Floats) -> Floats:
    """Return the matrix that maps isotropic directions to isotropic ones among whitened rows."""
    variances, basis = np.linalg.eigh(np.atleast_2d(np.cov(standard, rowvar=False)))
    return np.asarray((basis / np.sqrt(np.maximum(variances, 1e-3))).T)


def _in_row_units(directions: Floats, varies: Mask, scale: Floats) -> Floats:
    """Return directions among standardised rows in the units of the rows.

    Constant features get weight 0, directions without weights are dropped, and the first non-zero
    weight is positive.
    """
    directions[:, ~varies] = 0
    directions = directions[np.abs(directions).max(axis=1) > 0]
    directions /= scale
    leading = directions[np.arange(len(directions)), (directions != 0).argmax(axis=1)]
    return np.asarray(directions * np.sign(leading)[:, None])


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
