"""The door: which rows are private, which are public, checked once and for all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from skpublicdp.exceptions import NoPublicDataWarning, SlicedPublicDataWarning

UNLABELLED = -1
"""Marks a public row without a label, as in `sklearn.semi_supervised`."""


@dataclass(frozen=True, eq=False)
class SplitRows:
    """Rows as they come through the door.

    Attributes
    ----------
    X_private, y_private
        Private rows, float64, and the codes of their labels.
    X_public
        All public rows, float64.
    X_labelled, y_labelled
        Those public rows that carry a label, and its code.
    classes
        The sorted labels.
    """

    X_private: NDArray[np.float64]
    y_private: NDArray[np.intp]
    X_public: NDArray[np.float64]
    X_labelled: NDArray[np.float64]
    y_labelled: NDArray[np.intp]
    classes: NDArray[Any]


def split_rows(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None,
    *,
    X_public: ArrayLike | None = None,
    y_public: ArrayLike | None = None,
    is_public: ArrayLike | None = None,
    classes: ArrayLike | None = None,
) -> SplitRows:
    """Check what a classifier's `fit` was given and part private from public rows.

    `X_public` without `y_public` has no labels. Elsewhere a public label of -1 means "no label",
    unless -1 is one of the real labels: one of `classes`, or, where these are not declared, the
    label of some private row.
    """
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    X = check_rows(estimator, X, reset=True)
    mask = check_mask(is_public, len(X))
    y = label_column(y)
    check_consistent_length(X, y)
    if mask.all():
        raise ValueError("X must hold at least one private row; is_public marks every row.")
    separate = _check_public(estimator, X, X_public)
    y_given = [y[mask]]
    if y_public is not None:
        if X_public is None:
            raise ValueError("y_public needs X_public, the rows it labels; got y_public alone.")
        y_given.append(label_column(y_public))
        if len(y_given[1]) != len(separate):
            raise ValueError(
                "y_public must hold one label per row of X_public; "
                f"got {len(y_given[1])} labels for {len(separate)} rows."
            )
    y_private, y_labelled, labelled, known = encode_labels(y[~mask], y_given, classes)
    X_all_public = np.concatenate([X[mask], separate])
    return SplitRows(
        X_private=X[~mask],
        y_private=y_private,
        X_public=X_all_public,
        X_labelled=X_all_public[: len(labelled)][labelled],
        y_labelled=y_labelled,
        classes=known,
    )


@dataclass(frozen=True, eq=False)
class MixedRows:
    """Rows of two populations as they come through the door.

    Attributes
    ----------
    X_private, y_private
        Private rows, float64, and 1 where their label is the private one, 0 elsewhere.
    X_public, y_public
        Public rows, likewise.
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
    private_label: Any = None,
) -> MixedRows:
    """Check labelled rows and part private from public ones, by a mask or by their labels."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    X = check_rows(estimator, X, reset=True)
    y = label_column(y)
    check_consistent_length(X, y)
    codes, _, _, classes = encode_labels(y, [y[:0]], None)
    if private_label is None:
        private_code = len(classes) - 1
    else:
        equal = [label == private_label for label in classes.tolist()]
        if not any(equal) and len(classes) == 1:
            declared = [classes[0], private_label]
            codes, _, _, classes = encode_labels(y, [y[:0]], declared)
            equal = [label == private_label for label in classes.tolist()]
        if not any(equal):
            raise ValueError("private_label must be one of the two labels in y; it is neither.")
        private_code = equal.index(True)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass; "
            "use SemiPrivateClassifier instead."
        )
    private = (codes == private_code).astype(np.intp)
    mask = private == 0 if is_public is None else check_mask(is_public, len(X))
    return MixedRows(X[~mask], private[~mask], X[mask], private[mask], classes, private_code)


def check_rows(estimator: BaseEstimator, X: ArrayLike, *, reset: bool) -> NDArray[np.float64]:
    """Validate rows as float64; an error never quotes a value."""
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of huge values
        return without_values(validate_data, estimator, X, reset=reset, dtype=np.float64)


def feature_names(estimator: BaseEstimator) -> tuple[str, ...]:
    """Return the names of the columns seen in `fit`, or x0, x1 and so on."""
    numbered = [f"x{column}" for column in range(estimator.n_features_in_)]
    return tuple(map(str, getattr(estimator, "feature_names_in_", numbered)))


def without_values(check: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of scikit-learn, whose errors may quote a private text or a whole array."""
    try:
        return check(*args, **kwargs)
    except (ValueError, OverflowError) as error:
        message = str(error)
    # raised outside the handler, so that the original error is not kept as context either
    first = message.split("\n")[0]
    if first.startswith("The feature names"):
        raise ValueError(message)
    if "convert" in first:
        raise ValueError(
            "X must hold numbers only and some column holds text; encode it first, for instance "
            "with PublicFit(OneHotEncoder(sparse_output=False))."
        )
    if "unknown categories" in first:
        raise ValueError(
            "X holds a category that no public row has; give the encoder handle_unknown='ignore'."
        )
    if first.startswith("Expected 2D"):
        first = first.rstrip(":") + (
            ". Reshape your data with array.reshape(-1, 1) if it has a single feature or "
            "array.reshape(1, -1) if it is a single row."
        )
    raise ValueError(first)


def check_mask(is_public: ArrayLike | None, n: int, name: str = "is_public") -> NDArray[np.bool_]:
    """Validate a mask: a boolean per row, False by default."""
    if is_public is None:
        return np.zeros(n, dtype=bool)
    mask = np.asarray(is_public)
    if mask.dtype == object and all(isinstance(status, bool | np.bool_) for status in mask.flat):
        mask = mask.astype(bool)  # pandas' nullable booleans
    if mask.dtype != bool:
        raise ValueError(
            f"{name} must be an array of booleans; got {mask.dtype} values: "
            f"write {name}.astype(bool) if they are 0 and 1."
        )
    if mask.shape != (n,):
        raise ValueError(
            f"{name} must hold one boolean per row of X, shape ({n},); got shape {mask.shape}."
        )
    return mask


def warn_if_sliced(n: int, n_public: int, stacklevel: int) -> None:
    """Make it loud that a cross-validation may have cut `X_public` together with `X`."""
    if n == n_public:
        warnings.warn(
            f"X_public has exactly as many rows as X ({n}): scikit-learn's cross-validation slices "
            "every such argument with X, silently. Pass the rows in one X with an is_public mask, "
            "or an X_public of another length.",
            SlicedPublicDataWarning,
            stacklevel=stacklevel,
        )


def reference_sample(
    n_features: int, bounds: ArrayLike | None = None, size: int = 1000
) -> NDArray[np.float64]:
    """Rows that stand in for public ones, and look at no data.

    Parameters
    ----------
    n_features : int
        Number of columns.
    bounds : array-like of float, shape (2,) or (n_features, 2), optional
        Lowest and highest value of every column, or of each: the reference is then uniform
        between them; otherwise it is standard normal.
    size : int, default=1000
        Number of rows.

    Returns
    -------
    ndarray of float64, shape (size, n_features)
        A Latin hypercube: each column holds the `size` mid-quantiles in a fixed shuffled order.

    Raises
    ------
    ValueError
        If the bounds have another shape, are not finite or not increasing.

    Examples
    --------
    >>> np.sort(reference_sample(1, bounds=(0, 10), size=5)[:, 0])
    array([1., 3., 5., 7., 9.])
    """
    generator = np.random.default_rng(0)  # fixed: the reference is part of the method, not random
    quantiles = np.tile((np.arange(size) + 0.5)[:, None] / size, (1, n_features))
    quantiles = generator.permuted(quantiles, axis=0)
    if bounds is None:
        return norm.ppf(quantiles)
    low, high = check_bounds(bounds, n_features)
    return low * (1 - quantiles) + high * quantiles


def check_bounds(
    bounds: ArrayLike, n_features: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Validate bounds as (low, high), two arrays of shape (n_features,)."""
    limits = np.asarray(bounds, dtype=np.float64)
    if limits.shape not in {(2,), (n_features, 2)}:
        raise ValueError(
            f"bounds must be one pair (low, high) or one per feature, shape ({n_features}, 2); "
            f"got shape {limits.shape}."
        )
    low, high = np.broadcast_to(limits, (n_features, 2)).T
    if not (np.isfinite(limits).all() and (low < high).all()):
        raise ValueError("bounds must be finite with low < high for every feature.")
    return low, high


def warn_no_public(remedy: str, wrappers: int = 0) -> None:
    """Say that a data-independent structure stands in for the missing public rows."""
    # this function, its caller, fit and scikit-learn's wrapper of it stand before the caller
    warnings.warn(
        f"No public rows were given, so {remedy}.", NoPublicDataWarning, stacklevel=5 + wrappers
    )


def _check_public(
    estimator: BaseEstimator, X: NDArray[np.float64], X_public: ArrayLike | None
) -> NDArray[np.float64]:
    if X_public is None:
        return np.empty((0, X.shape[1]))
    shape = np.shape(X_public)
    if len(shape) == 2 and shape[1] != X.shape[1]:
        raise ValueError(
            f"X_public must have the columns of X; got {shape[1]} columns where X has {X.shape[1]}."
        )
    if len(shape) == 2 and shape[0] == 0:
        return np.empty((0, X.shape[1]))
    try:
        separate = check_rows(estimator, X_public, reset=False)
    except ValueError as error:
        raise ValueError(f"X_public is not usable: {error}") from None
    # this function, split_rows, fit and scikit-learn's wrapper of it stand before the caller
    warn_if_sliced(len(X), len(separate), stacklevel=6)
    return separate


def label_column(labels: ArrayLike) -> NDArray[Any]:
    """Return labels as a one-dimensional array."""
    if isinstance(labels, list | tuple):
        _check_one_kind(labels)
    return without_values(column_or_1d, labels, warn=True)


def encode_labels(
    private: NDArray[Any], public: list[NDArray[Any]], classes: ArrayLike | None
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_], NDArray[Any]]:
    """Return (private codes, public codes, which given public labels are labels, classes).

    No label changes how another one is read: kinds are not mixed, and codes are exact.
    """
    declared = None if classes is None else _labels(np.asarray(classes))
    private = _labels(private)
    # parts without a single label keep their kind out of it
    marks = [is_unlabelled(labels) for labels in public]
    if is_unlabelled(private if declared is None else declared).any():
        marks = [np.zeros(len(mark), dtype=bool) for mark in marks]
    given = [
        _labels(labels[~mark]) for labels, mark in zip(public, marks, strict=True) if not mark.all()
    ]
    parts = [private, *given] if declared is None else [declared, private, *given]
    if len({part.dtype.kind in "OU" for part in parts}) > 1:
        raise ValueError(_MIXED)
    together = np.concatenate([private, *given])
    distinct = np.unique(together)
    # a few copies: scikit-learn warns by how often labels repeat, which private rows decide
    check_classification_targets(np.tile(distinct, 4))
    known = distinct if declared is None else np.unique(declared)
    if known.dtype.kind == "U":
        known = np.array(known.tolist())  # as wide as its labels, not as what else was in the array
    codes = np.minimum(np.searchsorted(known, together), len(known) - 1)
    if not (known[codes] == together).all():
        raise ValueError("y must hold only labels listed in classes; some row has another one.")
    return codes[: len(private)], codes[len(private) :], ~np.concatenate(marks), known


def _labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels as plain text, integers, booleans or floats; refuse what cannot be exact."""
    if labels.dtype.kind in "OU":
        if all(isinstance(label, str) for label in labels):
            # plain strings of their own, not objects of the private rows
            return np.array([str(label) for label in labels], dtype=labels.dtype)
        _check_one_kind(labels)
        raise ValueError("Unknown label type: y must hold text, integers or booleans.")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("Input y contains NaN; mark a public row without a label by -1.")
    assert_all_finite(labels, input_name="y")
    if labels.dtype.kind in "fiu" and len(labels) and np.abs(labels.astype(float)).max() > 2**53:
        raise ValueError("Numeric labels must be at most 2**53 in size, to be told apart exactly.")
    return labels


def _check_one_kind(labels: Iterable[Any]) -> None:
    """Refuse a mixture of text and numbers, the mark aside: numpy would make it all text."""
    if len({isinstance(label, str) for label in labels if label != UNLABELLED}) > 1:
        raise ValueError(_MIXED)


_MIXED = "Labels must be all text or all numbers in y, y_public and classes; got both."


def is_unlabelled(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which labels are the mark of a row without one."""
    if labels.dtype.kind in "OUS":
        # np.where(mask, -1, strings) turns the mark into text
        return np.array([label in (UNLABELLED, str(UNLABELLED)) for label in labels], dtype=bool)
    return np.asarray(labels == UNLABELLED)
