"""The door of a release: mixed columns, private and public rows, the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.validation import validate_data

from skpublicdp.accounting import exact_fraction
from skpublicdp.public import (
    check_mask,
    reference_sample,
    warn_if_sliced,
    warn_no_public,
    without_values,
)
from skpublicdp.schema import Rows, Schema, build_schema

REFERENCE_ROWS = 1000


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
    X = _container(estimator, X, reset=True)
    n = X.shape[0]
    mask = check_mask(is_public, n)
    if mask.all():
        raise ValueError("X must hold at least one private row; is_public marks every row.")
    public = []
    if mask.any():
        public.append(_safe_indexing(X, np.flatnonzero(mask)))
    if X_public is not None and np.shape(X_public)[:1] != (0,):
        width = np.shape(X_public)[1:]
        if len(width) == 1 and width != X.shape[1:]:
            raise ValueError(
                f"X_public must have the columns of X; got {width[0]} columns where X has "
                f"{X.shape[1]}."
            )
        try:
            separate = _container(estimator, X_public, reset=False)
        except ValueError as error:
            raise ValueError(f"X_public is not usable: {error}") from None
        warn_if_sliced(n, separate.shape[0], stacklevel=5)
        public.append(separate)
    names = [str(name) for name in getattr(X, "columns", _numbered(X.shape[1]))]
    schema = build_schema(X, public, names=names, bounds=estimator.bounds)
    X_private = schema.encode(X if not mask.any() else _safe_indexing(X, np.flatnonzero(~mask)))
    if public:
        encoded = np.concatenate([schema.encode(part) for part in public])
    else:
        where = "standard-normal columns" if estimator.bounds is None else "the given bounds"
        warn_no_public(f"the cells come from a data-independent reference over {where}")
        encoded = _reference(schema, estimator.bounds)
    delta = _delta(estimator.delta, len(X_private))
    n_public = len(encoded) if public else 0
    epsilon = exact_fraction(estimator.epsilon)
    return ReleaseRows(schema, X_private, encoded, n_public, epsilon, delta)


def _numbered(n_features: int) -> list[str]:
    return [f"x{column}" for column in range(n_features)]


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


def _container(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Check shape, names and number kinds; keep a frame a frame."""
    if not hasattr(X, "iloc"):
        if isinstance(X, list | tuple):
            # a list has no type but that of its values, which a private one would decide
            X = without_values(np.asarray, X, dtype=object)
        numeric = getattr(getattr(X, "dtype", None), "kind", "O") in "biufc"
        X = without_values(
            check_array,
            X,
            dtype="numeric" if numeric else object,
            ensure_all_finite=numeric,
            estimator=estimator,
            input_name="X",
        )
    elif not X.shape[0] or not X.shape[1]:
        what = "sample" if not X.shape[0] else "feature"
        raise ValueError(
            f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required."
        )
    without_values(validate_data, estimator, X, reset=reset, skip_check_array=True)
    return X


def _reference(schema: Schema, bounds: Any) -> Rows:
    """Return rows that look at no data: numbers from the bounds, all categories alike."""
    rows = reference_sample(len(schema.columns), None, REFERENCE_ROWS)
    uniform = reference_sample(len(schema.columns), (0, 1), REFERENCE_ROWS)
    for position, column in enumerate(schema.columns):
        if column.categorical:
            rows[:, position] = np.floor(uniform[:, position] * len(column.values))
        elif bounds is not None:
            rows[:, position] = column.low + uniform[:, position] * (column.high - column.low)
    return rows
