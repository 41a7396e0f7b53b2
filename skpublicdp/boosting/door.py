"""The door of boosting: labels or outcomes, and mixed columns as cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length

from skpublicdp.boosting.features import Codes, FeatureMap, feature_map
from skpublicdp.boosting.outcomes import Kind, Labels
from skpublicdp.data.columns import Rows, Schema
from skpublicdp.data.reference import reference_rows, warn_no_public
from skpublicdp.data.tables import split_tables

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class Cells:
    """Rows as cells.

    Attributes
    ----------
    features : FeatureMap
        The cells.
    codes, public_codes : ndarray of int16, shape (n_columns, n)
        Those of the rows that are learned from, and of the public ones.
    """

    features: FeatureMap
    codes: Codes
    public_codes: Codes


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class BoostingRows:
    """Rows as they come through the door.

    Attributes
    ----------
    schema : Schema
        The columns, from public rows.
    X, y
        Encoded rows that are learned from, and the codes of their labels: private ones, then public
        ones with a label.
    X_public
        Encoded public rows, or a reference where there are none.
    n_private, n_public : int
        Number of private and of true public rows.
    classes : ndarray or None
        The sorted labels; ``None`` if `y` holds outcomes from 0 to 1, multiples of 1 / OUTCOMES.
    outcome_bounds : tuple of float, or None
        What outcomes of 0 and 1 were.
    """

    schema: Schema
    X: Rows
    y: NDArray[Any]
    X_public: Rows
    n_private: int
    n_public: int
    classes: NDArray[Any] | None
    outcome_bounds: tuple[float, float] | None = None

    def cut(self, max_bins: int, weights: Floats | None = None) -> Cells:
        """Cut the columns into cells, by public rows alone, which may be weighed."""
        features = feature_map(self.schema, self.X_public, max_bins, weights)
        return Cells(
            features, features.encoded_codes(self.X), features.encoded_codes(self.X_public)
        )


def read_rows(
    estimator: Any,
    X: Any,
    y: Any,
    kind: Kind | None = None,
    *,
    X_public: Any = None,
    y_public: Any = None,
    is_public: Any = None,
    groups: Any = None,
) -> BoostingRows:
    """Check what `fit` was given, part private from public rows and describe the columns.

    What `y` holds is a `kind` of thing: labels unless said otherwise.
    """
    kind = kind or Labels(estimator.classes)
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    split = split_tables(
        estimator, X, X_public=X_public, is_public=is_public, groups=groups, nullable=True
    )
    y = kind.column(y)
    check_consistent_length(split.mask, y)
    given = [y[split.mask]]
    if y_public is not None:
        if X_public is None:
            raise ValueError("y_public needs X_public, the rows it labels; got y_public alone.")
        given.append(kind.column(y_public))
        if len(given[1]) != len(X_public):
            raise ValueError(
                "y_public must hold one label per row of X_public; "
                f"got {len(given[1])} labels for {len(X_public)} rows."
            )
    found = kind.targets(y[split.kept], given)

    schema = split.schema
    if split.X_public:
        encoded = np.concatenate([schema.encode(part, clamp=False) for part in split.X_public])
    else:
        where = "standard-normal columns" if estimator.bounds is None else "the given bounds"
        warn_no_public(f"the cells come from a data-independent reference over {where}")
        encoded = reference_rows(schema, estimator.bounds)
    private = schema.encode(split.X_private, clamp=False)
    return BoostingRows(
        schema=schema,
        X=np.concatenate([private, encoded[: len(found.which)][found.which]]),
        y=np.concatenate([found.private, found.labelled]),
        X_public=encoded,
        n_private=len(found.private),
        n_public=len(encoded) if split.X_public else 0,
        classes=found.classes,
        outcome_bounds=found.bounds,
    )
