"""Sweeps: hyperplanes that move in one way, past each row once, and directions to slide along."""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from skpublicdp.hypotheses.splits import quantile_thresholds
from skpublicdp.typing import Codes, Floats, Integers

SWEEP_BLOCK_ROWS = 1 << 13
"""Rows coded at a time, so that they stay in the processor's cache."""

LIMB_BITS = 24
"""Bits of a weight added at a time: 2^29 rows then still sum to exact floats."""

MAX_SPARSE_FEATURES = 6
"""A direction of at most so many features is mostly refined within them."""


class Sweeps(ABC):
    """Sweeps of hyperplanes, each with its thresholds.

    A row meets a sweep by a key, the time at which the hyperplane passes it, and by the side it
    is on before that. A member is a sweep, a threshold (a gap between the keys of public points),
    an orientation and a variant, which decides where rows go that the hyperplane never leaves.

    Parameters
    ----------
    cuts : iterable of ndarray of float64
        Increasing thresholds of each sweep.
    n_sides : {1, 2}
        Number of sides a row may start from.
    variants : ndarray of bool, shape (n_variants, n_flat)
        Which of the places on the common flat each variant calls positive.
    """

    def __init__(self, cuts: Iterable[Floats], n_sides: int, variants: NDArray[np.bool_]) -> None:
        listed = list(cuts)
        self.n_cuts = np.array([len(of_sweep) for of_sweep in listed])
        n_cuts = int(self.n_cuts.max())
        # padded by infinities, which no key exceeds
        self.thresholds = np.full((len(listed), n_cuts), np.inf)
        self.scales = np.tile([0.0, 1.0], (len(listed), 1))
        self._guesses = np.zeros((len(listed), 8 * n_cuts + 1), dtype=np.min_scalar_type(n_cuts))
        for sweep, of_sweep in enumerate(listed):
            self.thresholds[sweep, : len(of_sweep)] = of_sweep
            if len(of_sweep):
                middle = float(np.median(of_sweep))
                width = float(np.median(np.abs(of_sweep - middle)))
                self.scales[sweep] = middle, width or abs(middle) or 1.0
                below = np.bincount(self._cells(of_sweep, sweep), minlength=8 * n_cuts + 1)
                self._guesses[sweep, 1:] = np.cumsum(below)[:-1]
        self.n_sides = n_sides
        self.variants = variants

    def __len__(self) -> int:
        return len(self.thresholds)

    @property
    def n_bins(self) -> int:
        """Number of bins between thresholds."""
        return int(self.thresholds.shape[1]) + 1

    @property
    def n_codes(self) -> int:
        """Number of codes of rows: every bin of every side, then the places on the flat."""
        return self.n_sides * self.n_bins + int(self.variants.shape[1])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of an array of members: sweeps, variants, thresholds, orientations."""
        return len(self), len(self.variants), self.thresholds.shape[1], 2

    @abstractmethod
    def codes(self, columns: Floats, sweep: int) -> Codes:
        """Code rows for one sweep; scoring and predicting both come here.

        Parameters
        ----------
        columns : ndarray of float64, shape (n_features, n)
            Rows, transposed. Each is coded on its own, by elementwise operations in fixed order.
        sweep : int
            Which sweep.

        Returns
        -------
        ndarray of intp, shape (n,)
            Codes below `n_codes`.
        """

    def one(self, sweep: int) -> Self:
        """Return a single sweep."""
        single = copy.copy(self)
        for name, value in vars(self).items():
            if name not in ("n_sides", "variants"):
                setattr(single, name, value[sweep : sweep + 1])
        return single

    @abstractmethod
    def hyperplane(self, sweep: int, gap: int) -> tuple[Floats, float]:
        """Return normal and offset of the first orientation of a member."""

    def tabulate(self, X: Floats, y: Codes, weights: Integers, n_classes: int) -> Integers:
        """Weigh each code in each sweep, shape (n_classes, sweeps, n_codes)."""
        table = np.zeros((n_classes, len(self), self.n_codes), dtype=np.int64)
        unit = bool((weights == 1).all())
        order = np.argsort(y, kind="stable")  # one class after the other
        edges = np.searchsorted(y[order], np.arange(n_classes + 1))
        for code in range(n_classes):
            for start in range(edges[code], edges[code + 1], SWEEP_BLOCK_ROWS):
                chosen = order[start : min(start + SWEEP_BLOCK_ROWS, edges[code + 1])]
                columns = np.ascontiguousarray(X[chosen].T)
                heavy = None if unit else weights[chosen]
                for sweep in range(len(self)):
                    table[code, sweep] += _histogram(
                        self.codes(columns, sweep), heavy, self.n_codes
                    )
        return table

    def _bins(self, keys: Floats, sweep: int) -> Codes:
        """Count the thresholds below each key, as `numpy.searchsorted` does but much faster.

        A uniform grid guesses; guesses that do not bracket their key are replaced. So the result
        is exact whatever the grid.
        """
        thresholds = self.thresholds[sweep]
        cells = self._cells(keys, sweep)
        guesses: Codes = self._guesses[sweep].take(cells, mode="clip").astype(np.intp)
        low = np.concatenate([[-np.inf], thresholds]).take(guesses)
        high = np.append(thresholds, np.inf).take(guesses)
        missed = np.flatnonzero(~((low < keys) & (keys <= high)))
        guesses[missed] = np.searchsorted(thresholds, keys[missed])
        return guesses

    def _cells(self, keys: Floats, sweep: int) -> Codes:
        """Return cells of the grid; what happens to an infinite key or NaN does not matter."""
        middle, width = self.scales[sweep]
        half = (self._guesses.shape[1] - 1) / 2
        with np.errstate(invalid="ignore", over="ignore"):
            shifted = keys - middle
            cells: Floats = shifted / (np.abs(shifted) + width) * half + half
            return np.asarray(cells.astype(np.intp))

    def sums(self, values: Integers) -> Integers:
        """Add up, for every member, the values of the codes it calls positive.

        Parameters
        ----------
        values : ndarray of int64, shape (sweeps, n_codes)
            Values; sums are modulo 2^64.

        Returns
        -------
        ndarray of int64, of `shape`
            Sums; those of padded thresholds mean nothing.
        """
        n_bins = self.n_bins
        bins = values[:, : self.n_sides * n_bins].reshape(-1, self.n_sides, n_bins)
        flat = values[:, self.n_sides * n_bins :] @ self.variants.T.astype(np.int64)
        passed = np.cumsum(bins, axis=2)
        first = passed[:, 0, -1:] - passed[:, 0, :-1]
        for side in range(1, self.n_sides):
            first += passed[:, side, :-1]
        both = np.stack([first, passed[:, :, -1].sum(axis=1)[:, None] - first], axis=-1)
        return np.asarray(both[:, None] + flat[:, :, None, None])

    def positive(self, variant: int, gap: int, orientation: int) -> NDArray[np.bool_]:
        """Tell which codes a member calls positive, shape (n_codes,)."""
        above = np.arange(self.n_bins) > gap
        sides = [above ^ bool(orientation ^ side) for side in range(self.n_sides)]
        return np.concatenate([*sides, self.variants[variant]])

    def patterns(self, points: Floats) -> Integers:
        """Give members that part the public points alike, and only those, the same number.

        Parameters
        ----------
        points : ndarray of float64, shape (m, n_features)
            Distinct public points.

        Returns
        -------
        ndarray of int64, of `shape`
            For m < 64 the bits of the positive points. For more, the sum of fixed random words of
            the positive points: of N dichotomies two share a number with probability N^2 / 2^65.
            A padded threshold gets 0, as the constant does.
        """
        words = pattern_words(len(points))
        columns = np.ascontiguousarray(points.T)
        values = np.zeros((len(self), self.n_codes), dtype=np.int64)
        for sweep in range(len(self)):
            np.add.at(values[sweep], self.codes(columns, sweep), words)
        numbers = self.sums(values)
        padded = np.arange(self.shape[2]) >= self.n_cuts[:, None]
        numbers[np.broadcast_to(padded[:, None, :, None], numbers.shape)] = 0
        return numbers


class ParallelHyperplanes(Sweeps):
    """Hyperplanes that slide along directions; the key of a row is its projection.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_directions, n_features)
        ParallelHyperplanes, in the units of the rows.
    cuts : sequence of ndarray of float64
        Increasing thresholds on each direction.
    """

    def __init__(self, weights: Floats, cuts: Iterable[Floats]) -> None:
        super().__init__(cuts, 1, np.ones((1, 0), dtype=bool))
        self.weights = weights

    @classmethod
    def at_quantiles(
        cls, weights: Floats, points: Floats, spacing: float, most: int
    ) -> ParallelHyperplanes:
        """Put at most so many thresholds at quantiles of the projections, `spacing` apart."""
        columns = np.ascontiguousarray(points.T)
        cuts = [quantile_thresholds(project(w, columns), spacing) for w in weights]
        return cls(weights, [_thin(of_direction, most) for of_direction in cuts])

    def codes(self, columns: Floats, sweep: int) -> Codes:
        """Return the bins of the projections."""
        return self._bins(project(self.weights[sweep], columns), sweep)

    def hyperplane(self, sweep: int, gap: int) -> tuple[Floats, float]:
        """Return the direction and the threshold."""
        return self.weights[sweep], float(self.thresholds[sweep, gap])


def draw_directions(points: Floats, size: int, few: float = 0.2) -> Floats:
    """Draw directions by public rows and fixed randomness.

    Parameters
    ----------
    points : ndarray of float64, shape (m, n_features)
        Public rows.
    size : int
        Number of directions.
    few : float, default=0.2
        Share of those of two to four features.

    Returns
    -------
    ndarray of float64, shape (at most size, n_features)
        In the units of the rows and up to sign: those of few features, 10% each isotropic and
        isotropic among whitened rows, all others differences of standardised public rows. A feature
        that is constant among the public rows gets no weight. Of one feature, that feature.
    """
    n_features = points.shape[1]
    varies, scale = scales(points)
    if n_features == 1 or not varies.any():
        return np.ones((1, n_features))
    return _in_units(_standard_directions(points, size, few, seed=0), varies, scale)


def directions_around(normal: Floats, points: Floats, size: int, step: int) -> Floats:
    """Draw directions near one, by public rows and fixed randomness.

    Parameters
    ----------
    normal : ndarray of float64, shape (n_features,)
        The direction, in the units of the rows; it is kept.
    points : ndarray of float64, shape (m, n_features)
        Public rows.
    size : int
        Number of directions.
    step : int
        1 for the first refinement; each further step halves the distances.

    Returns
    -------
    ndarray of float64, shape (at most size, n_features)
        Among standardised rows and with lengths 1, the direction plus 0.8, 0.4 or 0.2, halved after
        each step, of another one as `draw_directions` draws them. Around a direction of at most
        `MAX_SPARSE_FEATURES`, 30% keep to them and 30% add one more: there is less to choose from.
    """
    varies, scale = scales(points)
    middle = normal * scale / np.linalg.norm(normal * scale)
    of_few = np.count_nonzero(middle) <= MAX_SPARSE_FEATURES
    n_near = 3 * (size - 1) // 10 if of_few else 0
    moves = np.concatenate(
        [
            _moves_near(middle, varies, n_near, seed=step),
            _standard_directions(points, size - 1 - 2 * n_near, few=0.2, seed=step),
        ]
    )
    moves /= np.linalg.norm(moves, axis=1, keepdims=True)
    distances = 0.8 * 0.5 ** (step - 1) * np.array([1.0, 0.5, 0.25])
    directions = middle + moves * np.resize(distances, (len(moves), 1))
    return _in_units(np.vstack([middle, directions]), varies, scale)


def _moves_near(middle: Floats, varies: NDArray[np.bool_], size: int, seed: int) -> Floats:
    """Return so many random directions of the same features, and as many of one more.

    A single feature has no other directions: all get one more.
    """
    generator = np.random.default_rng(seed)
    moves = generator.normal(size=(2 * size, len(middle))) * (middle != 0)
    others = np.flatnonzero(varies & (middle == 0))
    if len(others):
        n_more = size if np.count_nonzero(middle) > 1 else len(moves)
        added = generator.choice(others, size=n_more)
        moves[np.arange(n_more), added] = generator.normal(size=n_more)
    return np.asarray(moves)


def _standard_directions(points: Floats, size: int, few: float, seed: int) -> Floats:
    """Return directions among standardised rows: differences, and three other kinds."""
    generator = np.random.default_rng(seed)  # fixed: directions are part of the method, not random
    n_features = points.shape[1]
    varies, scale = scales(points)
    standard = (points - points.mean(axis=0)) / scale
    n_other = size // 10  # some of each: where public rows are few, differences are too
    sparse = np.zeros((int(few * size), n_features))
    distinct = np.unique(standard, axis=0)
    first = generator.integers(len(distinct), size=size - len(sparse) - 2 * n_other)
    second = first - generator.integers(1, len(distinct), size=len(first))  # never the same
    differences = distinct[first] - distinct[second]
    features = np.flatnonzero(varies)
    for direction, size_of in zip(sparse, itertools.cycle((2, 3, 4)), strict=False):
        chosen = generator.choice(features, size=min(size_of, len(features)), replace=False)
        direction[chosen] = generator.normal(size=len(chosen))
    isotropic = generator.normal(size=(n_other, n_features))
    whitened = generator.normal(size=(n_other, n_features)) @ _whitening(standard)
    return np.concatenate([differences, sparse, isotropic, whitened])


def scales(points: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """Return which features vary, and their standard deviations (1 for the others)."""
    varies = np.ptp(points, axis=0) > 0
    return varies, np.where(varies, points.std(axis=0), 1.0)


def _whitening(standard: Floats) -> Floats:
    """Return the map of isotropic directions to those isotropic among whitened rows."""
    spread, basis = np.linalg.eigh(np.atleast_2d(np.cov(standard, rowvar=False)))
    return np.asarray((basis / np.sqrt(np.maximum(spread, 1e-3))).T)


def _in_units(directions: Floats, varies: NDArray[np.bool_], scale: Floats) -> Floats:
    """Turn directions among standardised rows into those of the rows, up to sign."""
    directions[:, ~varies] = 0
    directions = directions[np.abs(directions).max(axis=1) > 0]
    directions /= scale
    leading = directions[np.arange(len(directions)), (directions != 0).argmax(axis=1)]
    return np.asarray(directions * np.sign(leading)[:, None])


def _thin(cuts: Floats, most: int) -> Floats:
    """Keep at most so many, evenly."""
    if len(cuts) <= most:
        return cuts
    return cuts[(2 * np.arange(most) + 1) * len(cuts) // (2 * most)]


def project(weights: Floats, columns: Floats) -> Floats:
    """Project rows, one feature after the other: no row meets another one's arithmetic."""
    projected = np.zeros(columns.shape[1])
    with np.errstate(invalid="ignore", over="ignore"):
        for feature in np.flatnonzero(weights):
            projected += weights[feature] * columns[feature]
    return projected


def pattern_words(size: int) -> Integers:
    """Return a word for each public point, such that sums of words tell sets of points apart."""
    if size < 64:
        words: Integers = np.int64(1) << np.arange(size, dtype=np.int64)
        return words
    limits = np.iinfo(np.int64)
    return np.random.default_rng(0).integers(limits.min, limits.max, size=size, endpoint=True)


def _histogram(codes: Codes, weights: Integers | None, length: int) -> Integers:
    """Weigh each code, exactly."""
    if weights is None:
        return np.bincount(codes, minlength=length)
    total = np.zeros(length, dtype=np.int64)
    for shift in range(0, int(weights.max(initial=0)).bit_length(), LIMB_BITS):
        limb = (weights >> shift) & ((1 << LIMB_BITS) - 1)
        total += np.bincount(codes, limb, minlength=length).astype(np.int64) << shift
    return total
