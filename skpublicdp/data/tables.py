"""The door for rows of mixed columns: numbers and categories, in frames or arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from skpublicdp.data.columns import Schema, build_schema
from skpublicdp.data.door import (
    check_mask,
    declared_kinds,
    kept_rows,
    read_array,
    take,
    warn_if_sliced,
)


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class SplitTables:
    """Rows as they come through the door.

    Attributes
    ----------
    schema : Schema
        The columns, from public rows.
    X_private : DataFrame or ndarray
        Private rows.
    X_public : list of DataFrame or ndarray
        Parts of the public rows: those that the mask marks, then the separate ones.
    mask, kept : ndarray of bool
        Which rows of `X` are public, and which are private and count.
    """

    schema: Schema
    X_private: Any
    X_public: list[Any]
    mask: NDArray[np.bool_]
    kept: NDArray[np.bool_]


def split_tables(
    estimator: Any,
    X: Any,
    *,
    X_public: Any,
    is_public: Any,
    groups: Any = None,
    nullable: bool = False,
) -> SplitTables:
    """Check rows, part private from public ones and describe the columns by the latter."""
    X = check_table(estimator, X, reset=True, nullable=nullable)
    n = X.shape[0]
    mask = check_mask(is_public, n)
    if mask.all():
        raise ValueError("X must hold at least one private row; is_public marks every row.")
    public = []
    if mask.any():
        public.append(take(X, np.flatnonzero(mask)))
    if X_public is not None and np.shape(X_public)[:1] != (0,):
        width = np.shape(X_public)[1:]
        if len(width) == 1 and width != X.shape[1:]:
            raise ValueError(
                f"X_public must have the columns of X; got {width[0]} columns where X has "
                f"{X.shape[1]}."
            )
        try:
            separate = check_table(estimator, X_public, reset=False, nullable=nullable)
        except ValueError as error:
            raise ValueError(f"X_public is not usable: {error}") from None
        warn_if_sliced(n, separate.shape[0])
        public.append(separate)
    numbered = [f"x{column}" for column in range(X.shape[1])]
    names = [str(name) for name in getattr(X, "columns", numbered)]
    schema = build_schema(X, public, names=names, bounds=estimator.bounds, nullable=nullable)
    kept = kept_rows(estimator, groups, ~mask)
    private = X if kept.all() else take(X, np.flatnonzero(kept))
    return SplitTables(schema, private, public, mask, kept)


def check_table(estimator: Any, X: Any, *, reset: bool, nullable: bool = False) -> Any:
    """Check shape, names and number kinds; keep a frame a frame."""
    kinds = declared_kinds(X)
    if not hasattr(X, "iloc"):
        # a list has no type but that of its values, which a private one would decide
        numeric = kinds <= set("biufc")
        finite = numeric and not nullable
        X = read_array(estimator, X, "numeric" if numeric else object, ensure_all_finite=finite)
    elif "c" in kinds:
        raise ValueError("Complex data not supported: X must hold real numbers and categories.")
    elif not X.shape[0] or not X.shape[1]:
        what = "sample" if not X.shape[0] else "feature"
        raise ValueError(
            f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required."
        )
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X
