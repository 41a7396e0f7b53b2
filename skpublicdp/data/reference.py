"""Reference samples that replace missing public rows and depend on no data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from skpublicdp.data.bounds import limits_of
from skpublicdp.data.schema import Column, Schema
from skpublicdp.exceptions import NoPublicDataWarning, warn
from skpublicdp.typing import Floats


def reference_sample(
    n_features: int, bounds: ArrayLike | Mapping[Any, Any] | None = None, size: int = 1000
) -> NDArray[np.float64]:
    """Return rows that replace missing public rows and depend on no data.

    Parameters
    ----------
    n_features : int
        Number of columns.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of position to pair, optional
        Lowest and highest value of every column, of each or of some: the reference is uniform
        between them, and standard normal in columns without.
    size : int, default=1000
        Number of rows.

    Returns
    -------
    ndarray of float64, shape (size, n_features)
        A Latin hypercube: each column holds the `size` mid-quantiles in a fixed shuffled order.

    Raises
    ------
    ValueError
        If the bounds have another shape, are not finite or not increasing.

    Examples
    --------
    >>> np.sort(reference_sample(1, bounds=(0, 10), size=5)[:, 0])
    array([1., 3., 5., 7., 9.])
    """
    generator = np.random.default_rng(0)  # fixed: the reference is part of the method, not random
    quantiles = np.tile((np.arange(size) + 0.5)[:, None] / size, (1, n_features))
    quantiles = generator.permuted(quantiles, axis=0)
    limits = limits_of(bounds, [f"x{position}" for position in range(n_features)])
    for position, places in enumerate(quantiles.T):
        if position in limits:
            low, high = limits[position]
            quantiles[:, position] = low * (1 - places) + high * places
        else:
            quantiles[:, position] = norm.ppf(places)
    return quantiles


def warn_no_public(remedy: str) -> None:
    """Warn that a data-independent structure replaces the missing public rows."""
    warn(
        f"No public rows were given, so {remedy}; pass X_public or is_public (folds of a "
        "cross-validation keep them with model_selection.PublicKFold), or rows written by "
        "skpublicdp.data.describe_columns.",
        NoPublicDataWarning,
    )


def reference_rows(schema: Schema, bounded: Collection[int], size: int = 1000) -> Floats:
    """Return encoded rows that look at no data.

    Parameters
    ----------
    schema : Schema
        The columns. All categories are alike.
    bounded : collection of int
        Positions of the columns of numbers that have bounds; others are standard normal.
    size : int
        Number of rows.
    """
    rows = reference_sample(len(schema.columns), None, size)
    uniform = reference_sample(len(schema.columns), (0, 1), size)
    for position, column in enumerate(schema.columns):
        if column.categorical or position in bounded:
            rows[:, position] = evenly(column, uniform[:, position])
    return rows


def reference_of(schema: Schema, bounded: Collection[int], kind: str) -> str:
    """Say what the columns of reference rows are taken to be, in a word for columns."""
    if all(column.categorical or at in bounded for at, column in enumerate(schema.columns)):
        return "the given bounds"
    return f"standard-normal {kind} (bounds says what values are possible)"


def evenly(column: Column, places: Floats) -> Floats:
    """Return encoded values of a column at places from 0 to 1 of all its values."""
    if column.categorical:
        return np.floor(places * len(column.values))
    values = column.low * (1 - places) + column.high * places
    # one value is no sign that all are whole
    return np.rint(values) if column.integral and len(column.values) > 1 else values
