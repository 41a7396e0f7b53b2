"""Rows of two populations: whose labels are private, and whose are public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skpublicdp.data.door import public_labels
from skpublicdp.data.labelled import public_numbers
from skpublicdp.data.labels import check_length, encode_labels, label_column
from skpublicdp.data.masks import check_index, check_mask, kept_rows
from skpublicdp.data.reading import as_numbers, read_table, refuse_text


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class MixedRows:
    """Rows of two populations as they come through the door.

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


def split_by_status(
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
    """Check labelled rows and part private from public ones.

    A mask decides. Without one all rows are private where the public ones come apart, and labels
    decide where they do not.
    """
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    table = read_table(estimator, X, reset=True, numeric=True)
    check_index(X, is_public=is_public, groups=groups)
    separate = public_numbers(estimator, table, X_public)
    if is_public is not None:
        refuse_text(estimator, table.rows(check_mask(is_public, table.shape[0])))
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
    kept = kept_rows(estimator, groups, ~mask)
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
