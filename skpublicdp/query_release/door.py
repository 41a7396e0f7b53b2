"""The door of a release: mixed columns, private and public rows, the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from skpublicdp.accounting import exact_fraction
from skpublicdp.public import warn_no_public
from skpublicdp.schema import Rows, Schema
from skpublicdp.tables import reference_rows, split_tables


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class ReleaseRows:
    """Rows as they come through the door.

    Attributes
    ----------
    schema : Schema
        The columns, from public rows.
    X_private, X_public : ndarray of float64
        Encoded rows; a reference stands in where there are no public rows.
    n_public : int
        Number of true public rows.
    epsilon, delta : Fraction
        The budget.
    """

    schema: Schema
    X_private: Rows
    X_public: Rows
    n_public: int
    epsilon: Fraction
    delta: Fraction


def read_rows(estimator: Any, X: Any, *, X_public: Any, is_public: Any) -> ReleaseRows:
    """Check what `fit` was given, part private from public rows and describe the columns."""
    split = split_tables(estimator, X, X_public=X_public, is_public=is_public)
    schema = split.schema
    X_private = schema.encode(split.X_private)
    if split.X_public:
        encoded = np.concatenate([schema.encode(part) for part in split.X_public])
    else:
        where = "standard-normal columns" if estimator.bounds is None else "the given bounds"
        warn_no_public(f"the cells come from a data-independent reference over {where}")
        encoded = reference_rows(schema, estimator.bounds)
    delta = _delta(estimator.delta, len(X_private))
    n_public = len(encoded) if split.X_public else 0
    epsilon = exact_fraction(estimator.epsilon)
    return ReleaseRows(schema, X_private, encoded, n_public, epsilon, delta)


def _delta(delta: Any, n: int) -> Fraction:
    if delta is not None:
        return exact_fraction(delta)
    if n < 2:
        raise ValueError(
            "delta=None means 1/n², which takes at least 2 private rows; got n_samples = 1. Pass "
            "delta."
        )
    # a float, so that the receipt states what was used
    rounded = 1 / (n * n)
    while Fraction(rounded) > Fraction(1, n * n):
        rounded = math.nextafter(rounded, 0)
    return Fraction(rounded)
