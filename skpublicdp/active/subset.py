"""The random subset of an active learner, and the fit of the base learner to it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Event
from skpublicdp.base_learner import add_row_per_label, epsilon_delta, fit_base
from skpublicdp.typing import Floats


class Subset(NamedTuple):
    """Random subset of the pool, in random order.

    Attributes
    ----------
    X_labelled : ndarray of float64, shape (n_queried, n_features)
        The queried rows, with their features.
    y : ndarray of shape (n_queried,)
        Labels of the queried rows.
    X_unlabelled : ndarray of float64, shape (n_drawn - n_queried, n_features)
        The drawn rows that were not queried.
    """

    X_labelled: Floats
    y: NDArray[Any]
    X_unlabelled: Floats


def fit_to_subset(
    base: Any,
    event: Event,
    subset: Subset,
    *,
    classes: NDArray[Any],
    X_public: Floats | None,
    y_public: Any,
    seed: int | None,
) -> Any:
    """Fit a copy of the base learner to a subset of the pool, labelled rows first.

    Parameters
    ----------
    base : classifier
        Base learner, not fitted.
    event : Event
        Budget of the base learner.
    subset : Subset
        Labelled and unlabelled rows.
    classes : ndarray of shape (n_classes,)
        All labels.
    X_public : ndarray of shape (n_public, n_features), or None
        Public rows.
    y_public : array-like or None
        Labels of the public rows, as given to `fit`.
    seed : int or None
        Seed of the base learner.
    """
    epsilon, delta = epsilon_delta(event)
    n_features = subset.X_labelled.shape[1]
    centre = np.zeros(n_features) if X_public is None else np.median(X_public, axis=0)
    X, y = add_row_per_label(base, subset.X_labelled, subset.y, classes, centre)
    n_unlabelled = len(subset.X_unlabelled)
    return fit_base(
        base,
        epsilon,
        np.vstack([X, subset.X_unlabelled]),
        np.concatenate([y, _placeholder_labels(n_unlabelled, classes)]),
        delta=delta,
        random_state=seed,
        classes=classes,
        is_labelled=np.arange(len(X) + n_unlabelled) < len(X),
        X_public=X_public,
        y_public=y_public,
    )


def _placeholder_labels(n: int, classes: NDArray[Any]) -> NDArray[Any]:
    """Return n labels for unlabelled rows, with the dtype of `classes`.

    Base learners get the mask `is_labelled`, and do not use these labels.
    """
    # by numpy dtype kind (boolean, text, object); the default is for numbers
    label = {"b": False, "U": "-1", "O": "-1"}.get(classes.dtype.kind, -1)
    return np.full(n, label, dtype=object if classes.dtype.kind == "O" else None)
