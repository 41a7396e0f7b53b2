"""Reference samples: rows that replace missing public rows and depend on no data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from skpublicdp.data.bounds import parse_bounds
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
    probabilities = np.tile((np.arange(size) + 0.5)[:, None] / size, (1, n_features))
    probabilities = generator.permuted(probabilities, axis=0)
    limits = parse_bounds(bounds, [f"x{position}" for position in range(n_features)])
    rows = np.empty_like(probabilities)
    for position, column in enumerate(probabilities.T):
        if position in limits:
            low, high = limits[position]
            rows[:, position] = low * (1 - column) + high * column
        else:
            rows[:, position] = norm.ppf(column)
    return rows


def warn_no_public(replacement: str) -> None:
    """Warn that there are no public rows, and name what replaces them.

    Parameters
    ----------
    replacement : str
        Clause of the message, such as "the scaler is fitted on a standard-normal reference".
    """
    warn(
        f"No public rows were given, so {replacement}. Pass X_public or is_public (in "
        "cross-validation with model_selection.PublicKFold, which keeps public rows in all folds), "
        "or rows from skpublicdp.data.describe_columns.",
        NoPublicDataWarning,
    )


def reference_rows(schema: Schema, bounded: Collection[int], size: int = 1000) -> Floats:
    """Return an encoded reference sample for the columns of a schema.

    Parameters
    ----------
    schema : Schema
        The columns. All categories are equally frequent.
    bounded : collection of int
        Positions of the numeric columns with bounds, which are uniform. Other numeric columns are
        standard normal.
    size : int
        Number of rows.
    """
    rows = reference_sample(len(schema.columns), None, size)
    uniform = reference_sample(len(schema.columns), (0, 1), size)
    for position, column in enumerate(schema.columns):
        if column.categorical or position in bounded:
            rows[:, position] = spread_evenly(column, uniform[:, position])
    return rows


def describe_reference(schema: Schema, bounded: Collection[int], kind: str) -> str:
    """Return a phrase for messages: the set over which the rows of `reference_rows` are spread.

    Parameters
    ----------
    schema : Schema
        The columns.
    bounded : collection of int
        Positions of the numeric columns with bounds.
    kind : str
        Plural noun for the columns in the message, such as "features".
    """
    columns = enumerate(schema.columns)
    if all(column.categorical or position in bounded for position, column in columns):
        return "the given bounds"
    return f"standard-normal {kind} (pass bounds to declare the possible values)"


def spread_evenly(column: Column, fractions: Floats) -> Floats:
    """Return encoded values of a column at fractions of its range, or of its list of categories.

    Parameters
    ----------
    column : Column
        The column.
    fractions : ndarray, shape (n,)
        Numbers in [0, 1); evenly spread fractions give evenly spread values.
    """
    if column.categorical:
        return np.floor(fractions * len(column.values))
    values = column.low * (1 - fractions) + column.high * fractions
    # a single whole number does not show that all values are whole
    return np.rint(values) if column.integral and len(column.values) > 1 else values
