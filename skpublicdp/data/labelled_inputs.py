"""Read inputs of `fit` that are numeric rows in memory and partially labelled or mixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.fit_inputs import public_labels
from skpublicdp.data.labels import (
    check_length,
    concatenate_labels,
    encode_labels,
    invalid_labels_error,
    is_unlabelled,
    label_column,
    require_target,
)
from skpublicdp.data.persons import RowChooser, cap_rows_per_group
from skpublicdp.data.roles import check_mask, split_roles
from skpublicdp.data.tables import take_rows
from skpublicdp.data.validation import as_numbers
from skpublicdp.exceptions import AmbiguousLabelWarning, warn
from skpublicdp.typing import Codes, Floats, Mask


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class LabelledRows:
    """Validated partially labelled rows. The set of labelled rows is public information."""

    X_labelled: Floats  # private rows that have a label
    y_labelled: Codes  # codes of their labels
    X_unlabelled: Floats  # private rows that have no label
    labelled: Mask  # mask of the labelled rows among the counted private rows, in the order of `X`
    classes: NDArray[Any]  # the sorted labels
    X_public: Floats  # public rows of `X`, followed by the separate public rows

    @property
    def n_private(self) -> int:
        """Number of counted private rows."""
        return len(self.labelled)

    @property
    def n_public(self) -> int:
        """Number of public rows."""
        return len(self.X_public)


def read_partially_labelled(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None,
    *,
    is_labelled: ArrayLike | None = None,
    X_public: Any = None,
    is_public: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    ledger: RowChooser | None = None,
    classes: ArrayLike | None = None,
) -> LabelledRows:
    """Validate the arguments of `fit`, and return the labelled, unlabelled and public rows.

    Labels of public rows are never read.

    Parameters
    ----------
    estimator : estimator
        Estimator to fit, whose feature names are set.
    X, y, X_public, is_public, groups
        Arguments passed to `fit`.
    ledger : Ledger, optional
        Ledger of the fit, which chooses the rows of each person. It is needed if there are groups.
    is_labelled : array-like of bool, shape (n,), optional
        Mask of the labelled rows. The other entries of `y` are not read. Without a mask, -1 (or
        ``"-1"`` for text labels) marks an unlabelled row, unless -1 is itself a label.
    classes : array-like, optional
        All possible labels. If omitted, -1 is a label if `y` has exactly one other value.
    """
    require_target(estimator, y)
    roles = split_roles(
        estimator,
        X,
        X_public=X_public,
        is_public=is_public,
        numeric=True,
        is_labelled=is_labelled,
        groups=groups,
    )
    separate_public = roles.separate_numbers()
    X, public = as_numbers(roles.table), roles.is_public
    labelled, y_labelled = _read_labels(y, public, is_labelled, classes)
    if not labelled.any():
        raise ValueError(
            "y must contain at least one label, but every row is marked as unlabelled."
        )
    may_count = ~public  # counted private rows, up to `max_rows_per_group` for each person
    persons, failure = call_silently(np.asarray, groups)
    if failure is None and persons.shape == public.shape:
        # no person has both labelled and unlabelled rows, so each set can spend the entire budget
        may_count &= labelled | ~np.isin(persons, persons[labelled])
    counted = cap_rows_per_group(estimator.max_rows_per_group, groups, may_count, ledger)
    label_codes = encode_labels(y_labelled[counted[labelled]], [y_labelled[:0]], classes)
    return LabelledRows(
        X_labelled=X[counted & labelled],
        y_labelled=label_codes.private,
        X_unlabelled=X[counted & ~labelled],
        labelled=labelled[counted],
        classes=label_codes.classes,
        X_public=np.concatenate([X[public], separate_public]),
    )


def _read_labels(
    y: Any, public: Mask, is_labelled: ArrayLike | None, classes: ArrayLike | None
) -> tuple[Mask, NDArray[Any]]:
    """Return a mask of the labelled private rows, shape (n,), and the labels of these rows.

    Parameters
    ----------
    y : array-like, shape (n,)
        Labels of all rows.
    public : ndarray of bool, shape (n,)
        Mask of the public rows.
    is_labelled, classes
        As in `read_partially_labelled`.
    """
    n = len(public)
    if is_labelled is not None:
        labelled = check_mask(is_labelled, n, "is_labelled", "unlabelled") & ~public
        check_length(y, n)
        # an unmarked label must not even affect the common type of the labels
        marked = take_rows(y, np.flatnonzero(labelled))
        return labelled, label_column(marked, listed=classes is not None)
    if public.any():
        check_length(y, n)
        y = take_rows(y, np.flatnonzero(~public))
    y = label_column(y, listed=classes is not None)
    check_length(y, n - int(public.sum()))
    unlabelled = _unlabelled_mask(y, classes)
    labelled = np.zeros(n, dtype=bool)
    labelled[~public] = ~unlabelled
    return labelled, y[~unlabelled]


def _unlabelled_mask(y: NDArray[Any], classes: ArrayLike | None) -> Mask:
    """Return a mask of the rows whose label -1 means that they are unlabelled, shape (n,).

    Whether -1 marks an unlabelled row or is a label depends on the set of labels alone, not on the
    frequencies of the labels. The value -1 is a label if it is in `classes`, or if `y` contains at
    most one other value.

    Parameters
    ----------
    y : ndarray, shape (n,)
        Labels of the private rows.
    classes : array-like or None
        All possible labels.
    """
    is_minus_one = is_unlabelled(y)
    if classes is not None:
        return is_minus_one & (not is_unlabelled(np.asarray(classes)).any())
    if not is_minus_one.any() or is_minus_one.all():
        return is_minus_one
    other_labels = y[~is_minus_one]
    if (other_labels != other_labels[0]).any():
        return is_minus_one
    warn(
        "y contains -1 and one other value, so -1 is treated as a label. If -1 marks unlabelled "
        "rows instead, pass classes or is_labelled.",
        AmbiguousLabelWarning,
    )
    return np.zeros(len(y), dtype=bool)


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class MixedRows:
    """Validated rows with binary labels, which can determine which of the rows are private."""

    X_private: Floats
    # indicator of the private label: 1 for rows with the private label, 0 for other rows
    y_private: Codes
    X_public: Floats  # public rows of `X`, followed by the separate public rows
    # Labels of the first public rows, encoded as in `y_private`. Separate public rows can be
    # unlabelled.
    y_public: Codes
    classes: NDArray[Any]  # the sorted labels
    private_code: int  # position of the private label in `classes`
    # whether the label of a row decides whether the row is private, so labels are not protected
    label_decides: bool

    @property
    def n_private(self) -> int:
        """Number of private rows."""
        return len(self.X_private)

    @property
    def n_public(self) -> int:
        """Number of public rows."""
        return len(self.X_public)

    @property
    def known_facts(self) -> str:
        """Facts about the rows that the receipt assumes to be public knowledge."""
        if self.label_decides:
            return "the label of every row may be known, because it decides which rows are private"
        return "which rows are private, and the set of labels in y, may be known"


def read_label_status(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None,
    *,
    is_public: ArrayLike | None = None,
    X_public: Any = None,
    y_public: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    ledger: RowChooser | None = None,
    private_label: Any = None,
) -> MixedRows:
    """Validate the arguments of a `fit` with binary labels, and return private and public rows.

    The mask `is_public` determines which rows are public. Without a mask, all rows are private if
    `X_public` is given. Otherwise, the rows without the private label are public.

    Parameters
    ----------
    estimator : estimator
        Estimator to fit, whose feature names are set.
    X, y, is_public, X_public, y_public, groups
        Arguments passed to `fit`.
    ledger : Ledger, optional
        Ledger of the fit, which chooses the rows of each person. It is needed if there are groups.
    private_label : label, optional
        Label whose rows are private. By default, this is the last of the sorted labels.
    """
    require_target(estimator, y)
    roles = split_roles(
        estimator,
        X,
        X_public=X_public,
        is_public=is_public,
        numeric=True,
        all_public=True,
        groups=groups,
    )
    separate_public = roles.separate_numbers()
    y_public_parts = public_labels(X_public, y_public, label_column)
    X, column = as_numbers(roles.table), label_column(y)
    check_length(column, len(X))
    separate_labels = y_public_parts[0] if y_public_parts else column[:0]
    if _is_text(column) != _is_text(separate_labels):
        raise ValueError(
            "The labels in y and y_public must be all text or all numbers. Convert y or y_public."
        )
    refusal = invalid_labels_error(column.dtype.kind, listed=False)
    all_labels = concatenate_labels([column, separate_labels], refusal)
    encoded = encode_labels(all_labels, [column[:0]], None)
    if private_label is not None and len(encoded.classes) == 1:
        # all rows have the same label, and the private label may be the missing label
        (label,) = encoded.classes.tolist()
        if label != private_label:
            declared = np.asarray([encoded.classes[0], private_label])
            encoded = encode_labels(all_labels, [column[:0]], declared)
    private_code = _private_code(encoded.classes, private_label)
    if len(encoded.classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass; use "
            "SemiPrivateClassifier instead."
        )
    is_private_label = (encoded.private[: len(X)] == private_code).astype(np.intp)
    is_private_label_separate = (encoded.private[len(X) :] == private_code).astype(np.intp)
    # with separate public rows, the label of a row in X must not make the row public
    label_decides = is_public is None and X_public is None
    public = is_private_label == 0 if label_decides else roles.is_public
    counted = cap_rows_per_group(estimator.max_rows_per_group, groups, ~public, ledger)
    return MixedRows(
        X_private=X[counted],
        y_private=is_private_label[counted],
        X_public=np.concatenate([X[public], separate_public]),
        y_public=np.concatenate([is_private_label[public], is_private_label_separate]),
        classes=encoded.classes,
        private_code=private_code,
        label_decides=label_decides,
    )


def _is_text(labels: NDArray[Any]) -> bool:
    """Indicate whether labels returned by `label_column` are text rather than numbers."""
    return labels.dtype.kind in "OU"


def _private_code(classes: NDArray[Any], private_label: Any) -> int:
    """Return the position of the private label in `classes`, which is the last one by default."""
    if private_label is None:
        return len(classes) - 1
    is_equal = [label == private_label for label in classes.tolist()]
    if not any(is_equal):
        raise ValueError(
            "private_label must be one of the two labels in y, but it is neither of them."
        )
    return is_equal.index(True)
