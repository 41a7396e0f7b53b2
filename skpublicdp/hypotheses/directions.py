"""Random directions of hyperplanes, which depend on public rows and a fixed seed."""

from __future__ import annotations

import itertools

import numpy as np

from skpublicdp.typing import Floats, Mask

SPARSE_SHARE = 0.2
"""Default fraction of directions that use few features."""

SPARSE_SIZES = (2, 3, 4)
"""Numbers of features of sparse directions, in turn."""

ISOTROPIC_DIVISOR = 10
"""One direction in ten is isotropic, and one in ten is isotropic after whitening."""

REFINEMENT_DISTANCES = (0.8, 0.4, 0.2)
"""Distances of new directions from a released one in the first refinement, for unit vectors."""

MIN_WHITENING_VARIANCE = 1e-3
"""Least variance by which whitening divides: nearly constant combinations are not magnified."""

MAX_SPARSE_FEATURES = 6
"""Largest number of features of a sparse direction, which is mostly refined within them."""


def draw_directions(points: Floats, size: int, sparse_share: float = SPARSE_SHARE) -> Floats:
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
    varies, scale = feature_scales(points)
    if n_features == 1 or not varies.any():
        return np.ones((1, n_features))
    directions = _standardised_directions(points, size, sparse_share, seed=0)
    return _to_row_units(directions, varies, scale)


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
        Among standardised rows, the unit vector of the given direction plus 0.8, 0.4 or 0.2 times a
        unit vector in a direction of `draw_directions`. These factors are divided by two after each
        step. Around a direction of at most `MAX_SPARSE_FEATURES` features, 30% use the same
        features and 30% use one feature more, because sparse rules have few alternatives.
    """
    varies, scale = feature_scales(points)
    centre = normal * scale / np.linalg.norm(normal * scale)
    is_sparse = np.count_nonzero(centre) <= MAX_SPARSE_FEATURES
    n_same_features = 3 * (size - 1) // 10 if is_sparse else 0  # 30%
    n_general = size - 1 - 2 * n_same_features
    moves = np.concatenate(
        [
            _sparse_moves(centre, varies, n_same_features, seed=step),
            _standardised_directions(points, n_general, SPARSE_SHARE, seed=step),
        ]
    )
    moves /= np.linalg.norm(moves, axis=1, keepdims=True)
    distances = 0.5 ** (step - 1) * np.array(REFINEMENT_DISTANCES)
    directions = centre + moves * np.resize(distances, (len(moves), 1))
    return _to_row_units(np.vstack([centre, directions]), varies, scale)


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
    generator = np.random.default_rng(seed)  # fixed seed: a function of the public rows
    n_features = points.shape[1]
    varies, scale = feature_scales(points)
    standardised = (points - points.mean(axis=0)) / scale
    # differences of rows follow the data, but few public rows have few of them
    n_isotropic = size // ISOTROPIC_DIVISOR
    sparse = np.zeros((int(sparse_share * size), n_features))
    distinct = np.unique(standardised, axis=0)
    n_differences = size - len(sparse) - 2 * n_isotropic
    first = generator.integers(len(distinct), size=n_differences)
    # a negative index counts from the end, so this is never the same row
    second = first - generator.integers(1, len(distinct), size=n_differences)
    differences = distinct[first] - distinct[second]
    features = np.flatnonzero(varies)
    for direction, n_nonzero in zip(sparse, itertools.cycle(SPARSE_SIZES), strict=False):
        nonzero = generator.choice(features, size=min(n_nonzero, len(features)), replace=False)
        direction[nonzero] = generator.normal(size=len(nonzero))  # fills a row of `sparse`
    isotropic = generator.normal(size=(n_isotropic, n_features))
    whitened = generator.normal(size=(n_isotropic, n_features)) @ _whitening_matrix(standardised)
    return np.concatenate([differences, sparse, isotropic, whitened])


def feature_scales(points: Floats) -> tuple[Mask, Floats]:
    """Return which features vary, and the standard deviation of each (1 for constant features)."""
    varies = np.ptp(points, axis=0) > 0
    return varies, np.where(varies, points.std(axis=0), 1.0)


def _whitening_matrix(standardised: Floats) -> Floats:
    """Return C^(-1/2), up to a rotation, for the covariance matrix C of standardised rows.

    An isotropic direction times this matrix is a direction whose image is isotropic if the rows
    are whitened.
    """
    variances, basis = np.linalg.eigh(np.atleast_2d(np.cov(standardised, rowvar=False)))
    return np.asarray((basis / np.sqrt(np.maximum(variances, MIN_WHITENING_VARIANCE))).T)


def _to_row_units(directions: Floats, varies: Mask, scale: Floats) -> Floats:
    """Convert directions among standardised rows to the units of the rows; changes its argument.

    Constant features get weight 0, directions without weights are dropped, and the first non-zero
    weight is positive.
    """
    directions[:, ~varies] = 0
    directions = directions[np.abs(directions).max(axis=1) > 0]
    directions /= scale
    return directions * leading_signs(directions)


def leading_signs(directions: Floats) -> Floats:
    """Return the sign of the first non-zero weight of each direction, shape (n_directions, 1)."""
    leading = directions[np.arange(len(directions)), (directions != 0).argmax(axis=1)]
    return np.asarray(np.sign(leading)[:, None])
