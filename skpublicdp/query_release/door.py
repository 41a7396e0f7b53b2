"""The door of a release: mixed columns, private and public rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skpublicdp.data.columns import Rows, Schema
from skpublicdp.data.reference import reference_rows, warn_no_public
from skpublicdp.data.tables import split_tables


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
    """

    schema: Schema
    X_private: Rows
    X_public: Rows
    n_public: int


def read_rows(estimator: Any, X: Any, *, X_public: Any, is_public: Any, groups: Any) -> ReleaseRows:
    """Check what `fit` was given, part private from public rows and describe the columns."""
    split = split_tables(estimator, X, X_public=X_public, is_public=is_public, groups=groups)
    schema = split.schema
    X_private = schema.encode(split.X_private)
    if split.X_public:
        encoded = np.concatenate([schema.encode(part) for part in split.X_public])
        return ReleaseRows(schema, X_private, encoded, len(encoded))
    where = "standard-normal columns" if estimator.bounds is None else "the given bounds"
    warn_no_public(f"the cells come from a data-independent reference over {where}")
    return ReleaseRows(schema, X_private, reference_rows(schema, estimator.bounds), 0)
