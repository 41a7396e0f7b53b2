"""The door of boosting: labels or outcomes, and mixed columns as cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.binned import BinnedData, FineBinnedRows, encode_rows
from skpublicdp.boosting.binner import Binner, make_binner
from skpublicdp.boosting.budget_split import N_BINS
from skpublicdp.boosting.public_labels import PublicLabels
from skpublicdp.data.columns import Rows, Schema
from skpublicdp.data.door import read
from skpublicdp.data.labels import Kind, Labels, Targets

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class TrainingData:
    """Rows as they come through the door.

    Attributes
    ----------
    schema : Schema
        The columns, from public rows.
    rows : FineBinnedRows
        Rows that are learned from, with the codes of their labels: private ones, then perhaps
        public ones with a label.
    X_public
        Encoded public rows, filled up where they say too little; or a reference.
    n_private, n_public : int
        Number of private and of true public rows.
    classes : ndarray or None
        The sorted labels; ``None`` if `y` holds outcomes from 0 to 1, multiples of
        1 / TARGET_LEVELS.
    outcome_bounds : tuple of float, or None
        What outcomes of 0 and 1 were.
    assumptions : tuple of str
        What is taken for granted of the columns, for the receipt.
    public_labels : PublicLabels, optional
        Labels or outcomes of public rows.
    """

    schema: Schema
    rows: FineBinnedRows
    X_public: Rows
    n_private: int
    n_public: int
    classes: NDArray[Any] | None
    outcome_bounds: tuple[float, float] | None = None
    assumptions: tuple[str, ...] = ()
    public_labels: PublicLabels | None = None

    @cached_property
    def public(self) -> FineBinnedRows:
        """The public rows; nothing is learned from these."""
        m = len(self.X_public)
        return FineBinnedRows.from_encoded(
            self.rows.fine_binner, [(self.X_public, np.zeros(m))], m, np.uint8
        )

    def bin(self, max_bins: int, weights: Floats | None = None) -> BinnedData:
        """Cut the columns into cells, by public rows alone, which may be weighed."""
        return self.with_bins(make_binner(self.schema, self.X_public, max_bins, weights))

    def with_bins(self, features: Binner) -> BinnedData:
        """Return the rows as given cells, or the nearest there may be."""
        return BinnedData.from_fine_bins(features, self.rows, self.public)


def read_training_data(
    estimator: Any,
    X: Any,
    y: Any,
    kind: Kind | None = None,
    *,
    X_public: Any = None,
    y_public: Any = None,
    is_public: Any = None,
    groups: Any = None,
    together: bool = False,
) -> TrainingData:
    """Check what `fit` was given, part private from public rows and describe the columns.

    What `y` holds is a `kind` of thing: labels unless said otherwise. With `together` public rows
    with one of two labels are learned from like private ones.
    """
    kind = kind or Labels(estimator.classes, least=2)
    data = read(
        estimator,
        X,
        y,
        kind,
        X_public=X_public,
        y_public=y_public,
        is_public=is_public,
        groups=groups,
        nullable=True,
        stand_in=True,
        least=N_BINS,
    )
    schema, found = data.schema, data.targets
    assert found is not None
    encoded = data.X_public
    grid = make_binner(schema, encoded, None)
    dtype = (
        found.private.dtype if found.classes is None else np.min_scalar_type(len(found.classes) - 1)
    )
    coders = [feature.codes for feature in grid.columns]
    chunks, n = data.codes(coders, dtype, estimator.n_jobs), data.n_private
    if together and found.classes is not None and len(found.classes) == 2:
        chunks = chain(chunks, [encode_rows(grid, dtype, data.X_labelled, found.labelled)])
        n += len(found.labelled)
    return TrainingData(
        schema=schema,
        rows=FineBinnedRows.from_codes(grid, chunks, n, dtype, estimator.n_jobs),
        X_public=encoded,
        n_private=data.n_private,
        n_public=data.n_public,
        classes=found.classes,
        outcome_bounds=found.bounds,
        assumptions=data.assumptions,
        public_labels=_public_labels(found, data.made_up),
    )


def _public_labels(targets: Targets, made_up: NDArray[np.bool_]) -> PublicLabels | None:
    rows = np.flatnonzero(targets.which)
    kept = ~made_up[rows]  # an outcome says nothing of a value that it did not come with
    if not kept.any():
        return None
    y = targets.labelled[kept].astype(np.float64)[None]
    if targets.classes is not None and len(targets.classes) > 2:
        y = (y == np.arange(len(targets.classes))[:, None]).astype(np.float64)
    return PublicLabels(rows[kept], y)
