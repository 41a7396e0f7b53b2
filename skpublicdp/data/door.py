"""The door: which rows are private, which are public, checked once and for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_array, check_consistent_length
from sklearn.utils.validation import validate_data

from skpublicdp.data.labels import encode_labels, label_column
from skpublicdp.exceptions import SlicedPublicDataWarning, warn
from skpublicdp.guard import ANYTHING, NotNumbersError, guarded


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
    groups: ArrayLike | None = None,
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
    private = kept_rows(estimator, groups, ~mask)
    y_private, y_labelled, labelled, known = encode_labels(y[private], y_given, classes)
    X_all_public = np.concatenate([X[mask], separate])
    return SplitRows(
        X_private=X[private],
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
    groups: ArrayLike | None = None,
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
            declared = np.asarray([classes[0], private_label])
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
    kept = kept_rows(estimator, groups, ~mask)
    return MixedRows(X[kept], private[kept], X[mask], private[mask], classes, private_code)


def check_rows(estimator: BaseEstimator, X: ArrayLike, *, reset: bool) -> NDArray[np.float64]:
    """Validate rows as float64; an error never quotes a value."""
    rows: NDArray[np.float64] = read_array(estimator, X, np.float64)
    named = X if hasattr(X, "columns") else rows
    validate_data(estimator, named, reset=reset, skip_check_array=True)
    return rows


def read_array(
    estimator: BaseEstimator,
    X: Any,
    dtype: Any,
    *,
    accept_sparse: bool = False,
    ensure_all_finite: bool | str = True,
) -> Any:
    """Convert rows to an array; an error depends on their shape and their declared types alone.

    The arguments are those of scikit-learn's `check_array`.
    """
    refusal = _refusal(X, dtype)
    if not sparse.issparse(X):
        X = guarded(check_array, X, dtype=dtype, error=refusal, **ANYTHING)
    try:
        X = check_array(
            X,
            accept_sparse=accept_sparse,
            dtype=None,
            ensure_all_finite=False,
            estimator=estimator,
            input_name="X",
        )
    except ValueError as error:
        shape = str(error).split("\n")[0]  # the whole array is quoted below
    else:
        if ensure_all_finite:
            allow_nan = ensure_all_finite == "allow-nan"
            guarded(assert_all_finite, X, allow_nan=allow_nan, error=refusal)
        return X
    if shape.startswith("Expected 2D"):
        shape = shape.rstrip(":") + (
            ". Reshape your data with array.reshape(-1, 1) if it has a single feature or "
            "array.reshape(1, -1) if it is a single row."
        )
    raise ValueError(shape)


def _refusal(X: Any, dtype: Any) -> ValueError:
    """Return what is said of values that will not do, whichever they are."""
    kinds = declared_kinds(X)
    if "c" in kinds:
        return ValueError("Complex data not supported: X must hold real numbers.")
    if kinds <= set("biuf"):
        return ValueError(
            "Input X contains NaN, or X contains infinity or a value too large for float64."
        )
    if dtype is object:
        return ValueError("Input X contains NaN, or something that cannot be compared.")
    return NotNumbersError(
        "X must hold numbers only, none missing or infinite: each argument must be a string that "
        "is a number, or a number. Encode text first, for instance with "
        "PublicFit(OneHotEncoder(sparse_output=False))."
    )


def declared_kinds(X: Any) -> set[str]:
    """Return the kinds of the types of the columns; "O" if they may hold anything."""
    dtypes = getattr(X, "dtypes", [None]) if hasattr(X, "columns") else [getattr(X, "dtype", None)]
    return {str(getattr(dtype, "kind", "O")) for dtype in dtypes}


def feature_names(estimator: BaseEstimator) -> tuple[str, ...]:
    """Return the names of the columns seen in `fit`, or x0, x1 and so on."""
    numbered = [f"x{column}" for column in range(estimator.n_features_in_)]
    return tuple(map(str, getattr(estimator, "feature_names_in_", numbered)))


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


def take(X: Any, positions: NDArray[np.intp]) -> Any:
    """Select rows of a container before anything of it is converted."""
    if isinstance(X, list | tuple):
        return [X[position] for position in positions]
    if hasattr(X, "iloc"):
        return X.iloc[positions]
    return X[positions]


def is_missing_person(person: Any) -> bool:
    """Tell whether a group is None, NaN or another mark that does not equal itself."""
    try:
        return person is None or bool(person != person)
    except TypeError:  # pandas.NA does not say
        return True


def kept_rows(estimator: Any, groups: Any, private: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which private rows count: the first few of each person.

    Parameters
    ----------
    estimator : estimator
        Its `max_rows_per_group` says how many.
    groups : array-like, shape (n,), or None
        Whose row each is; who has which rows is public.
    private : ndarray of bool, shape (n,)
        Which rows are private.
    """
    most = estimator.max_rows_per_group
    if groups is None:
        if most is None:
            return private
        raise ValueError(
            f"max_rows_per_group={most} needs groups, whose row each row of X is; pass groups to "
            "fit, by metadata routing inside a pipeline or a search."
        )
    if most is None:
        raise ValueError(
            "groups needs max_rows_per_group, the most rows of one person that count; set it."
        )
    persons = np.asarray(groups)
    if persons.shape != private.shape:
        raise ValueError(
            f"groups must name one person per row of X, shape {private.shape}; got shape "
            f"{persons.shape}."
        )
    seen: dict[Any, int] = {}
    kept = private.copy()
    for position in np.flatnonzero(private).tolist():
        person = persons[position]
        if is_missing_person(person):
            raise ValueError("groups must name a person for every private row; one is missing.")
        seen[person] = seen.get(person, 0) + 1
        kept[position] = seen[person] <= most
    return kept


def warn_if_sliced(n: int, n_public: int) -> None:
    """Make it loud that a cross-validation may have cut `X_public` together with `X`."""
    if n == n_public:
        warn(
            f"X_public has exactly as many rows as X ({n}): scikit-learn's cross-validation slices "
            "every such argument with X, silently. Pass the rows in one X with an is_public mask, "
            "or an X_public of another length.",
            SlicedPublicDataWarning,
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
    warn_if_sliced(len(X), len(separate))
    return separate
