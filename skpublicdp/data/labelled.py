"""The door of learners whose rows are all private and only partly labelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length

from skpublicdp.data.labels import encode_labels, is_unlabelled, label_column
from skpublicdp.data.masks import check_mask, kept_rows, take
from skpublicdp.data.reading import check_rows
from skpublicdp.exceptions import AmbiguousLabelWarning, warn


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class LabelledRows:
    """Rows as they come through the door; which of them are labelled is public.

    Attributes
    ----------
    X_labelled, y_labelled
        Labelled rows, float64, and the codes of their labels.
    X_unlabelled
        The other rows.
    labelled : ndarray of bool
        Which rows of `X` are labelled.
    classes
        The sorted labels.
    """

    X_labelled: NDArray[np.float64]
    y_labelled: NDArray[np.intp]
    X_unlabelled: NDArray[np.float64]
    labelled: NDArray[np.bool_]
    classes: NDArray[Any]


def split_labelled(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None,
    *,
    is_labelled: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    classes: ArrayLike | None = None,
) -> LabelledRows:
    """Check rows of which some are labelled, and part these from the others.

    With a mask, `y` is looked at where the mask says so and nowhere else. Without one, -1 (or
    ``"-1"`` among text labels) marks an unlabelled row unless it is itself a label: one of
    `classes` or, where these are not declared, one of no more than two values in `y`.
    """
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    X = check_rows(estimator, X, reset=True)
    if is_labelled is not None:
        labelled = check_mask(is_labelled, len(X), "is_labelled", "unlabelled")
        check_consistent_length(X, y)
        # a label that is not asked for must not even choose the type of the others
        given = label_column(take(y, np.flatnonzero(labelled)))
    else:
        y = label_column(y)
        check_consistent_length(X, y)
        labelled = ~_marks(y, classes)
        given = y[labelled]
    if not labelled.any():
        raise ValueError("y must hold at least one label; every row is marked as unlabelled.")
    counting = np.ones(len(X), dtype=bool)
    if groups is not None and np.shape(groups) == (len(X),):
        # nobody is both among the labelled rows and among the others: budgets need not be shared
        persons = np.asarray(groups)
        counting = labelled | ~np.isin(persons, persons[labelled])
    kept = kept_rows(estimator, groups, counting)
    codes, _, _, known = encode_labels(given[kept[labelled]], [given[:0]], classes)
    X, labelled = X[kept], labelled[kept]
    return LabelledRows(X[labelled], codes, X[~labelled], labelled, known)


def _marks(y: NDArray[Any], classes: ArrayLike | None) -> NDArray[np.bool_]:
    """Tell which rows are marked as unlabelled, by the set of labels alone."""
    marked = is_unlabelled(y)
    if classes is not None:
        return marked & (not is_unlabelled(np.asarray(classes)).any())
    if not marked.any() or marked.all():
        return marked
    others = y[~marked]
    if (others != others[0]).any():
        return marked
    warn(
        "y holds -1 and one other value, so -1 is read as a label; pass classes or is_labelled if "
        "it marks rows without one.",
        AmbiguousLabelWarning,
    )
    return np.zeros(len(y), dtype=bool)
