"""Rows that stand in for public ones, and look at no data."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from skpublicdp.data.bounds import check_bounds
from skpublicdp.data.columns import Rows, Schema
from skpublicdp.exceptions import NoPublicDataWarning, warn


def reference_sample(
    n_features: int, bounds: ArrayLike | None = None, size: int = 1000
) -> NDArray[np.float64]:
    """Rows that stand in for public ones, and look at no data.

    Parameters
    ----------
    n_features : int
        Number of columns.
    bounds : array-like of float, shape (2,) or (n_features, 2), optional
        Lowest and highest value of every column, or of each: the reference is then uniform
        between them; otherwise it is standard normal.
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
    if bounds is None:
        normal: Rows = norm.ppf(quantiles)
        return normal
    low, high = check_bounds(bounds, n_features)
    return low * (1 - quantiles) + high * quantiles


def warn_no_public(remedy: str) -> None:
    """Say that a data-independent structure stands in for the missing public rows."""
    warn(
        f"No public rows were given, so {remedy}; pass X_public or is_public (folds of a "
        "cross-validation keep them with model_selection.PublicKFold), or rows written by "
        "skpublicdp.data.describe_columns.",
        NoPublicDataWarning,
    )


def reference_rows(schema: Schema, bounds: ArrayLike | None, size: int = 1000) -> Rows:
    """Return encoded rows that look at no data: numbers from the bounds, all categories alike.

    Warns that they stand in for public rows.
    """
    where = "the given bounds"
    if bounds is None:
        where = "standard-normal columns (bounds says what values are possible)"
    warn_no_public(f"the cells come from a data-independent reference over {where}")
    rows = reference_sample(len(schema.columns), None, size)
    uniform = reference_sample(len(schema.columns), (0, 1), size)
    for position, column in enumerate(schema.columns):
        if column.categorical:
            rows[:, position] = np.floor(uniform[:, position] * len(column.values))
        elif bounds is not None:
            rows[:, position] = column.low + uniform[:, position] * (column.high - column.low)
    return rows
