"""Random hyperplane directions, which depend on public rows and a fixed seed."""

from __future__ import annotations

import itertools

import numpy as np

from skpublicdp.typing import Floats, Mask

SPARSE_SHARE = 0.2
"""Default fraction of sparse directions, which use few features."""

SPARSE_SIZES = (2, 3, 4)
"""Numbers of features used by sparse directions, taken in turn."""

ISOTROPIC_DIVISOR = 10
"""One in this many directions is isotropic, and one is isotropic after whitening."""

REFINEMENT_DISTANCES = (0.8, 0.4, 0.2)
"""Distances of the first new directions from a released direction (as unit vectors)."""

MIN_WHITENING_VARIANCE = 1e-3
"""Minimum variance in whitening; it prevents magnifying nearly constant combinations."""

MAX_SPARSE_FEATURES = 6
"""Maximum number of features used by a sparse direction, which is mostly refined within them."""


def draw_directions(points: Floats, size: int, sparse_share: float = SPARSE_SHARE) -> Floats:
    """Return random directions that depend on public rows, with a fixed seed."""
    n_features = points.shape[1]
    varies, scale = feature_scales(points)
    if n_features == 1 or not varies.any():
        return np.ones((1, n_features))
    directions = _standardised_directions(points, size, sparse_share, seed=0)
    return _to_row_units(directions, varies, scale)


def directions_around(normal: Floats, points: Floats, size: int, step: int) -> Floats:
    """Return random directions near a given direction, using public rows and a fixed seed.

    Parameters
    ----------
    normal : ndarray of float64, shape (n_features,)
        The given direction, in the units of the rows. The given direction is returned first.
    points : ndarray of float64, shape (m, n_features)
        Public rows.
    size : int
        Number of the refinement, starting at 1; each step halves the distances.
    step : int
        1 for the first refinement; each further step divides the distances by two.

    Returns
    -------
    ndarray of float64, shape (at most size, n_features)
        Among standardised rows, a new direction is the unit vector of the given direction plus 0.8,
        0.4 or 0.2 times a unit vector in a direction from `draw_directions`. These factors are
        halved after each step. Around a direction with at most `MAX_SPARSE_FEATURES` features, 30%
        of the new directions use the same features and 30% use one additional feature, because
        sparse rules have few alternatives.
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
    """Return random directions with the features of `centre`, and as many with one more feature.

    A single feature has no other direction, so all directions then use one additional feature.
    """
    generator = np.random.default_rng(seed)
    is_used = centre != 0
    moves = generator.normal(size=(2 * size, len(centre))) * is_used
    unused_features = np.flatnonzero(varies & ~is_used)
    if len(unused_features):
        n_extended = size if is_used.sum() > 1 else len(moves)
        added_features = generator.choice(unused_features, size=n_extended)
        added_weights = generator.normal(size=n_extended)
        moves[np.arange(n_extended), added_features] = added_weights
    return np.asarray(moves)


def _standardised_directions(points: Floats, size: int, sparse_share: float, seed: int) -> Floats:
    """Return random directions for standardised rows, shape (size, n_features).

    The directions are, in this order, differences of distinct public rows, sparse, isotropic, and
    isotropic after whitening.
    """
    generator = np.random.default_rng(seed)  # fixed seed: a function of the public rows
    n_features = points.shape[1]
    varies, scale = feature_scales(points)
    varying = np.flatnonzero(varies)
    standardised = (points - points.mean(axis=0)) / scale
    distinct = np.unique(standardised, axis=0)
    n_distinct = len(distinct)

    n_isotropic = size // ISOTROPIC_DIVISOR
    n_sparse = int(sparse_share * size)
    n_differences = size - n_sparse - 2 * n_isotropic

    # differences of rows follow the data, but a small public sample has few differences
    first = generator.integers(n_distinct, size=n_differences)
    # a negative index counts from the end, so the two rows are always different
    second = first - generator.integers(1, n_distinct, size=n_differences)
    differences = distinct[first] - distinct[second]

    sparse = np.zeros((n_sparse, n_features))
    for direction, max_nonzero in zip(sparse, itertools.cycle(SPARSE_SIZES), strict=False):
        n_nonzero = min(max_nonzero, len(varying))
        nonzero = generator.choice(varying, size=n_nonzero, replace=False)
        direction[nonzero] = generator.normal(size=n_nonzero)  # fills a row of `sparse`

    isotropic = generator.normal(size=(n_isotropic, n_features))
    whitened = generator.normal(size=(n_isotropic, n_features))
    whitened = whitened @ _whitening_matrix(standardised)
    return np.concatenate([differences, sparse, isotropic, whitened])


def feature_scales(points: Floats) -> tuple[Mask, Floats]:
    """Return the mask of non-constant features, and all standard deviations (1 if constant)."""
    varies = np.ptp(points, axis=0) > 0
    return varies, np.where(varies, points.std(axis=0), 1.0)


def _whitening_matrix(standardised: Floats) -> Floats:
    """Return C^(-1/2), where C is the covariance matrix of standardised rows.

    Multiplying an isotropic direction by this matrix yields a direction that is isotropic for
    whitened rows.
    """
    variances, basis = np.linalg.eigh(np.atleast_2d(np.cov(standardised, rowvar=False)))
    # the symmetric root does not depend on the signs of the eigenvectors
    return np.asarray((basis / np.sqrt(np.maximum(variances, MIN_WHITENING_VARIANCE))) @ basis.T)


def _to_row_units(directions: Floats, varies: Mask, scale: Floats) -> Floats:
    """Convert directions for standardised rows to the units of the rows, in place.

    Constant features get weight 0, directions without non-zero weights are dropped, and the first
    non-zero weight is made positive.
    """
    directions[:, ~varies] = 0
    directions = directions[np.abs(directions).max(axis=1) > 0]
    directions /= scale
    return directions * leading_signs(directions)


def leading_signs(directions: Floats) -> Floats:
    """Return the sign of the first non-zero weight of each direction, shape (n_directions, 1)."""
    leading = directions[np.arange(len(directions)), (directions != 0).argmax(axis=1)]
    return np.asarray(np.sign(leading)[:, None])
