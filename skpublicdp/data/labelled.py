"""The door of learners whose private rows are numbers and only partly labelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.frames import Table
from skpublicdp.data.labels import check_length, encode_labels, is_unlabelled, label_column
from skpublicdp.data.masks import check_index, check_mask, kept_rows, take
from skpublicdp.data.reading import as_numbers, read_public, read_table, refuse_text
from skpublicdp.exceptions import AmbiguousLabelWarning, warn


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class LabelledRows:
    """Rows as they come through the door; which of them are labelled is public.

    Attributes
    ----------
    X_labelled, y_labelled
        Labelled private rows, float64, and the codes of their labels.
    X_unlabelled
        The other private rows.
    labelled : ndarray of bool
        Which of the private rows that count are labelled.
    classes
        The sorted labels.
    X_public
        Public rows: those of `X`, then separate ones.
    """

    X_labelled: NDArray[np.float64]
    y_labelled: NDArray[np.intp]
    X_unlabelled: NDArray[np.float64]
    labelled: NDArray[np.bool_]
    classes: NDArray[Any]
    X_public: NDArray[np.float64]


def public_numbers(estimator: BaseEstimator, X: Table, X_public: Any) -> NDArray[np.float64]:
    """Check separate public rows of numbers, as `read_public` does; there may be none."""
    public = read_public(estimator, X, X_public, numeric=True)
    if public is None:
        return np.empty((0, X.shape[1]))
    try:
        return as_numbers(public)
    except ValueError as error:
        raise type(error)(f"X_public is not usable: {error}") from None


def split_labelled(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None,
    *,
    is_labelled: ArrayLike | None = None,
    X_public: Any = None,
    is_public: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    classes: ArrayLike | None = None,
) -> LabelledRows:
    """Check rows of which some are labelled, and part these from the others and from public ones.

    Labels of public rows are not looked at. With `is_labelled`, `y` is looked at where it says so
    and nowhere else. Without it, -1 (or ``"-1"`` among text labels) marks an unlabelled row unless
    it is itself a label: one of `classes` or, where these are not declared, one of no more than two
    values in `y`.
    """
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    table = read_table(estimator, X, reset=True, numeric=True)
    check_index(X, is_public=is_public, is_labelled=is_labelled, groups=groups)
    n = table.shape[0]
    public = check_mask(is_public, n)
    if public.all():
        raise ValueError("X must hold at least one private row; is_public marks every row.")
    separate = public_numbers(estimator, table, X_public)
    refuse_text(estimator, table.rows(public))
    X = as_numbers(table)
    if is_labelled is not None:
        labelled = check_mask(is_labelled, n, "is_labelled", "unlabelled") & ~public
        check_length(y, n)
        # a label that is not asked for must not even choose the type of the others
        given = label_column(take(y, np.flatnonzero(labelled)), listed=classes is not None)
    else:
        if public.any():
            check_length(y, n)
            y = take(y, np.flatnonzero(~public))
        y = label_column(y, listed=classes is not None)
        check_length(y, n - int(public.sum()))
        marked = _marks(y, classes)
        labelled = np.zeros(n, dtype=bool)
        labelled[~public] = ~marked
        given = y[~marked]
    if not labelled.any():
        raise ValueError("y must hold at least one label; every row is marked as unlabelled.")
    counting = ~public
    persons, failure = call_silently(np.asarray, groups)
    if failure is None and persons.shape == (n,):
        # nobody is both among the labelled rows and among the others: budgets need not be shared
        counting &= labelled | ~np.isin(persons, persons[labelled])
    kept = kept_rows(estimator, groups, counting)
    codes, _, _, known = encode_labels(given[kept[labelled]], [given[:0]], classes)
    return LabelledRows(
        X_labelled=X[kept & labelled],
        y_labelled=codes,
        X_unlabelled=X[kept & ~labelled],
        labelled=labelled[kept],
        classes=known,
        X_public=np.concatenate([X[public], separate]),
    )


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
