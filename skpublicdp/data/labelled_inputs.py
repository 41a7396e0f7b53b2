"""Read the inputs of `fit` for numeric rows in memory, labelled partly or by two populations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.fit_inputs import public_labels
from skpublicdp.data.labels import check_length, encode_labels, is_unlabelled, label_column
from skpublicdp.data.roles import cap_rows_per_group, check_index, check_mask
from skpublicdp.data.tables import Table, take_rows
from skpublicdp.data.validation import as_numbers, read_public, read_table, refuse_text
from skpublicdp.exceptions import AmbiguousLabelWarning, warn


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class LabelledRows:
    """Validated rows. Which of them are labelled is public.

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


def read_public_numbers(estimator: BaseEstimator, X: Table, X_public: Any) -> NDArray[np.float64]:
    """Check separate public rows of numbers, as `read_public` does; there may be none."""
    public = read_public(estimator, X, X_public, numeric=True)
    if public is None:
        return np.empty((0, X.shape[1]))
    try:
        return as_numbers(public)
    except ValueError as error:
        raise type(error)(f"X_public is not usable: {error}") from None


def read_partially_labelled(
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
    """Validate partly labelled rows, and split labelled, unlabelled and public rows.

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
    separate = read_public_numbers(estimator, table, X_public)
    refuse_text(estimator, table.take(public))
    X = as_numbers(table)
    if is_labelled is not None:
        labelled = check_mask(is_labelled, n, "is_labelled", "unlabelled") & ~public
        check_length(y, n)
        # a label that is not asked for must not even choose the type of the others
        given = label_column(take_rows(y, np.flatnonzero(labelled)), listed=classes is not None)
    else:
        if public.any():
            check_length(y, n)
            y = take_rows(y, np.flatnonzero(~public))
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
    kept = cap_rows_per_group(estimator, groups, counting)
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
    """Return a mask of rows marked as unlabelled, which depends on the set of labels alone."""
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


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class MixedRows:
    """Validated rows of two populations.

    Attributes
    ----------
    X_private, y_private
        Private rows, float64, and 1 where their label is the private one, 0 elsewhere.
    X_public, y_public
        Public rows, likewise: those of `X` first, then separate ones. These may have no labels.
    classes
        The sorted labels.
    private_code
        Position of the private label among them.
    """

    X_private: NDArray[np.float64]
    y_private: NDArray[np.intp]
    X_public: NDArray[np.float64]
    y_public: NDArray[np.intp]
    classes: NDArray[Any]
    private_code: int


def read_label_status(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None,
    *,
    is_public: ArrayLike | None = None,
    X_public: Any = None,
    y_public: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    private_label: Any = None,
) -> MixedRows:
    """Validate labelled rows, and split private and public rows by their label status.

    A mask decides. Without one all rows are private where the public ones come apart, and labels
    decide where they do not.
    """
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    table = read_table(estimator, X, reset=True, numeric=True)
    check_index(X, is_public=is_public, groups=groups)
    separate = read_public_numbers(estimator, table, X_public)
    if is_public is not None:
        refuse_text(estimator, table.take(check_mask(is_public, table.shape[0])))
    X, y = as_numbers(table), label_column(y)
    check_length(y, len(X))
    given = next(iter(public_labels(X_public, y_public, label_column)), y[:0])
    if len({labels.dtype.kind in "OU" for labels in (y, given)}) > 1:
        raise ValueError(
            "y and y_public must hold labels of one kind, text or numbers; convert one of them."
        )
    codes, codes_apart, classes = _binary_codes(y, given, None)
    if private_label is None:
        private_code = len(classes) - 1
    else:
        equal = [label == private_label for label in classes.tolist()]
        if not any(equal) and len(classes) == 1:
            declared = np.asarray([classes[0], private_label])
            codes, codes_apart, classes = _binary_codes(y, given, declared)
            equal = [label == private_label for label in classes.tolist()]
        if not any(equal):
            raise ValueError("private_label must be one of the two labels in y; it is neither.")
        private_code = equal.index(True)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported: the type of the target is multiclass; "
            "use SemiPrivateClassifier instead."
        )
    private, apart = ((part == private_code).astype(np.intp) for part in (codes, codes_apart))
    # of people whose public rows come apart, a label must not publish the others
    by_label = is_public is None and X_public is None
    mask = private == 0 if by_label else check_mask(is_public, len(X))
    kept = cap_rows_per_group(estimator, groups, ~mask)
    return MixedRows(
        X_private=X[kept],
        y_private=private[kept],
        X_public=np.concatenate([X[mask], separate]),
        y_public=np.concatenate([private[mask], apart]),
        classes=classes,
        private_code=private_code,
    )


def _binary_codes(
    y: NDArray[Any], y_public: NDArray[Any], declared: NDArray[Any] | None
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
    """Return codes of labels, all of which are labels, and the labels."""
    codes, _, _, classes = encode_labels(np.concatenate([y, y_public]), [y[:0]], declared)
    return codes[: len(y)], codes[len(y) :], classes
