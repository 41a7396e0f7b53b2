"""Validation of tables: shape, column names and column types, with errors that quote no value."""

from __future__ import annotations

import sys
from numbers import Real
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.validation import validate_data

from skpublicdp._internal.redaction import NO_CHECKS, NotNumbersError, call_or_raise, call_silently
from skpublicdp.data.column import MAX_LISTED_COLUMNS
from skpublicdp.data.containers import check_container, check_shape, count_rows_in_container
from skpublicdp.data.description import DescribedRows
from skpublicdp.data.kinds import check_kinds_at_prediction, keep_kinds, kind_mismatch_message
from skpublicdp.data.roles import warn_if_sliced
from skpublicdp.data.schema import column_names, not_numbers_message, to_numbers
from skpublicdp.data.tables import (
    ANYTHING,
    BOOLEAN,
    CATEGORY,
    DATE,
    NUMBER,
    TEXT,
    Table,
    is_frame,
)
from skpublicdp.exceptions import warn
from skpublicdp.typing import Floats

PIPELINE_ADVICE = (
    ". In a pipeline the earlier steps must also transform X_public: pass "
    "transform_input=['X_public'] to Pipeline, with metadata routing enabled."
)
"""Advice for public rows that do not match the private rows that earlier steps transformed."""


def pipeline_advice() -> str:
    """Return the end of a message: advice inside the `fit` of a pipeline, otherwise a full stop."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), Pipeline):
            return PIPELINE_ADVICE
        frame = frame.f_back
    return "."


def read_table(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    numeric: bool,
    name: str = "X",
    kinds: bool = True,
) -> Table:
    """Return rows as a `Table`, after validating the shape and the names and types of columns.

    No value decides an error. In particular no missing or invalid value is found here.

    Parameters
    ----------
    estimator : estimator
        Estimator whose feature names and number of features are set, or compared.
    X : array-like or DataFrame
        Rows.
    reset : bool
        Whether to set the feature names, as `fit` does. Otherwise columns are compared with `fit`
        and brought into its order.
    numeric : bool
        Whether text and categories are refused.
    name : str
        Name of the argument in messages.
    kinds : bool
        Whether columns must have the kinds of `fit`.

    Returns
    -------
    Table
        The rows in their container.
    """
    check_container(estimator, X, name)
    if is_frame(X):
        table = Table(X)
        repeated = [label for label in table.labels if table.labels.count(label) > 1]
        if repeated:
            raise ValueError(
                f"Columns must have different names; got {repeated[0]!r} twice: rename one of them."
            )
        check_shape(table.shape, name)
    else:
        # numpy infers the type of a list from its values, so a private value would decide it
        has_type = isinstance(getattr(X, "dtype", None), np.dtype) or sparse.issparse(X)
        dtype = None if has_type else object
        table = Table(read_array(X, dtype, ensure_all_finite=False, name=name))
    return check_columns(estimator, table, reset=reset, numeric=numeric, name=name, kinds=kinds)


def check_columns(
    estimator: Any,
    table: Table,
    *,
    reset: bool,
    numeric: bool,
    name: str = "X",
    kinds: bool = True,
) -> Table:
    """Return a table with its columns in the order of `fit`, after validating names and types.

    Parameters are as in `read_table`.
    """
    table = _in_fitted_order(estimator, table, reset=reset, name=name)
    check_types(table)
    for column, type_ in zip(column_names(table), table.types, strict=True):
        if numeric and table.is_frame and type_.kind in (TEXT, CATEGORY):
            if kinds and not reset:
                raise NotNumbersError(kind_mismatch_message(column, NUMBER, type_.kind))
            raise NotNumbersError(_encoding_advice(estimator, column, type_.kind))
    if reset:
        keep_kinds(estimator, table, numeric=numeric)
    elif kinds:
        check_kinds_at_prediction(estimator, table)
    return table


def _encoding_advice(estimator: Any, name: str, kind: str) -> str:
    """Return the message about a column of text or categories, which an estimator cannot read."""
    return (
        f"Column {name} must hold numbers for {type(estimator).__name__}; got {kind}: encode it, "
        "for instance with PublicFit(OneHotEncoder(sparse_output=False, handle_unknown='ignore')), "
        "or use SemiPrivateBoostingClassifier, which needs no encoding."
    )


def refuse_text(estimator: Any, public: Table) -> None:
    """Raise NotNumbersError if a column of dtype object holds text in a public row.

    Only public values are read, so the message cannot reveal that a private row holds text.
    """
    for position, (name, type_) in enumerate(zip(column_names(public), public.types, strict=True)):
        if type_.kind != ANYTHING:
            continue
        column = public.column(position)
        _, failure = call_silently(to_numbers, column, name)
        values = column.tolist()
        if failure is None or not any(isinstance(value, str) for value in values):
            continue
        if any(isinstance(value, Real) and value == value for value in values):
            raise NotNumbersError(
                f"Column {name} must hold numbers for {type(estimator).__name__}; got text among "
                "the numbers of public rows: convert the text to numbers or to missing values, "
                "which PublicFit(SimpleImputer()) fills in, or use SemiPrivateBoostingClassifier."
            )
        raise NotNumbersError(_encoding_advice(estimator, name, "text"))


def check_types(table: Table) -> None:
    """Raise ValueError if a column has a type that no estimator can read."""
    for name, type_ in zip(column_names(table), table.types, strict=True):
        if type_.kind == "complex numbers":
            raise ValueError(
                f"Complex data not supported: column {name} must hold real numbers; take its real "
                "part, or drop it."
            )
        if not type_.usable:
            raise ValueError(
                f"Column {name} must hold numbers, booleans, dates, text or categories; got "
                f"{type_.kind}: convert or drop it."
            )


def _in_fitted_order(estimator: Any, table: Table, *, reset: bool, name: str) -> Table:
    """Return the table with its columns in the order of `fit`.

    With `reset`, feature names and the number of features are set on the estimator. Otherwise they
    are compared, with the errors of scikit-learn, for frames of all libraries. Parameters are as in
    `read_table`.
    """
    labels = table.labels if table.is_frame else ()
    is_text = [isinstance(label, str) for label in labels]
    if any(is_text) and not all(is_text):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but X has "
            "column labels of other types, too; rename the columns."
        )
    has_names = any(is_text)
    # an array of the same width, since scikit-learn reads names of pandas only
    placeholder = np.empty((1, table.shape[1]))
    if reset:
        validate_data(estimator, placeholder, reset=True, skip_check_array=True)
        if has_names:
            estimator.feature_names_in_ = np.array(labels, dtype=object)
        return table
    fitted_names = getattr(estimator, "feature_names_in_", None)
    if fitted_names is None or not has_names:
        validate_data(estimator, placeholder, reset=False, skip_check_array=True)
        if has_names:
            warn(
                f"{name} has feature names, but {type(estimator).__name__} was fitted without "
                f"feature names{pipeline_advice() if name == 'X_public' else ''}",
                UserWarning,
            )
        return table
    missing = [label for label in fitted_names if label not in labels]
    unknown = [label for label in labels if label not in fitted_names]
    if missing or unknown:
        differences = [
            f"{', '.join(map(str, names[:MAX_LISTED_COLUMNS]))} is {status}"
            for names, status in ((missing, "missing"), (unknown, "unknown"))
            if names
        ]
        raise ValueError(
            "The feature names should match those that were passed during fit; "
            + " and ".join(differences)
            + (pipeline_advice() if name == "X_public" else ".")
        )
    return table.select(fitted_names.tolist())


def read_public(
    estimator: Any,
    X: Table,
    X_public: Any,
    *,
    numeric: bool,
    n_rows: int | None = None,
) -> Table | None:
    """Return the rows of the argument `X_public`, validated to have the columns of `X`.

    Parameters
    ----------
    estimator : estimator
        Estimator with the names and the number of columns.
    X : Table
        The rows of the argument `X`. Only their types and memory addresses are read.
    X_public : array-like, DataFrame, DescribedRows or None
        Public rows.
    numeric : bool
        Whether text and categories are refused.
    n_rows : int, optional
        Number of rows of a streamed `X`. `X` is then an empty table with its columns.

    Returns
    -------
    Table or None
        The public rows; ``None`` without `X_public`, or if it is empty.
    """
    if X_public is None:
        return None
    if not isinstance(X_public, DescribedRows):
        check_container(estimator, X_public, "X_public")
        if count_rows_in_container(X_public) == 0:
            return None
    if isinstance(X_public, DescribedRows):
        X_public = X_public.in_container(X.container, getattr(estimator, "feature_names_in_", None))
        if not X.is_frame:
            return Table(X_public)
    shape = tuple(getattr(X_public, "shape", ()))
    is_matched_by_name = hasattr(estimator, "feature_names_in_") and is_frame(X_public)
    if len(shape) == 2 and shape[1] != estimator.n_features_in_ and not is_matched_by_name:
        raise ValueError(
            f"X_public must have the columns of X; got {shape[1]} columns where X has "
            f"{estimator.n_features_in_}{pipeline_advice()}"
        )
    try:
        public = read_table(
            estimator, X_public, reset=False, numeric=numeric, name="X_public", kinds=False
        )
    except (TypeError, ValueError) as error:
        raise type(error)(f"X_public is not usable: {error}") from None
    if numeric:
        refuse_text(estimator, public)
    check_separate(X, public, n_rows)
    return public


SHARED_MEMORY = (
    "X_public must hold rows that are not in X, and it shares memory with X, so private rows would "
    "become public. Pass all rows once as X, and mark the public rows by is_public."
)


def check_separate(X: Table, public: Table, n_rows: int | None = None) -> None:
    """Raise ValueError if public rows share memory with `X` or have columns of other kinds.

    A warning is issued if the number of public rows suggests that a cross-validation sliced them.
    Parameters are as in `read_public`.
    """
    if n_rows is None and _overlap(X, public):
        raise ValueError(SHARED_MEMORY)
    warn_if_sliced(X.shape[0] if n_rows is None else n_rows, public.shape[0])
    check_same_kinds(X, public)


def _overlap(X: Table, public: Table) -> bool:
    """Indicate whether a column shares memory in two tables with the same columns."""
    if X.native is public.native:
        return True
    types = zip(X.types, public.types, strict=True)
    return any(
        _shares_memory(X.column(position), public.column(position))
        for position, (type_, public_type) in enumerate(types)
        if type_.usable and type_.kind == public_type.kind
    )


def _shares_memory(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Indicate whether two arrays overlap; the exact test runs only if their ranges do."""
    return bool(np.may_share_memory(first, second) and np.shares_memory(first, second))


def check_same_kinds(X: Table, public: Table) -> None:
    """Raise ValueError if a column has different kinds in `X` and `X_public`, by their types."""
    for name, type_, public_type in zip(column_names(X), X.types, public.types, strict=True):
        # text and categories count as one kind
        kinds = {TEXT if t.kind == CATEGORY else t.kind for t in (type_, public_type)}
        # in arrays booleans are read as the numbers 0 and 1
        are_numbers = not X.is_frame and not public.is_frame and kinds == {NUMBER, BOOLEAN}
        if len(kinds) > 1 and ANYTHING not in kinds and not are_numbers:
            raise ValueError(
                f"Column {name} must hold the same kind of values everywhere; got {type_.kind} in "
                f"X and {public_type.kind} in X_public: convert one of them."
            )


def check_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> Floats:
    """Return rows of numbers as one float64 array, after comparing its columns with `fit`.

    With `reset`, the columns are stored instead. An error quotes no value.
    """
    return as_numbers(read_table(estimator, X, reset=reset, numeric=True))


def as_numbers(table: Table) -> Floats:
    """Return the values of a table as one float64 array, shape (n_rows, n_columns).

    Raises NotNumbersError, without quoting a value, if some value is not a finite number.
    """
    names = column_names(table)
    dates = [name for name, type_ in zip(names, table.types, strict=True) if type_.kind == DATE]
    if dates:
        raise ValueError(
            f"Column {dates[0]} must hold numbers here; got dates: convert them, for instance to "
            "days since a fixed date, or use SemiPrivateClassifier or "
            "SemiPrivateBoostingClassifier, which accept dates."
        )
    nullable = [name for name, type_ in zip(names, table.types, strict=True) if type_.nullable]
    # one error for all columns: which of them is invalid depends on private rows
    refusal = NotNumbersError(not_numbers_message(nullable or names))

    def convert() -> Floats:
        """Return all columns as floats; an exception may quote a value."""
        rows = np.empty(table.shape)
        for position, name in enumerate(names):
            rows[:, position] = to_numbers(table.column(position), name)
        assert_all_finite(rows)
        return rows

    rows: Floats = call_or_raise(convert, error=refusal)
    return rows


def read_array(
    X: Any,
    dtype: Any,
    *,
    accept_sparse: bool = False,
    ensure_all_finite: bool | str = True,
    name: str = "X",
) -> Any:
    """Return rows as an array or a sparse matrix, as scikit-learn's `check_array` does.

    The texts of errors depend on the shape and the declared types alone. Parameters are as in
    `check_array`, and `name` is the name of the argument in messages.
    """
    refusal = _invalid_values_error(X, dtype, name)
    if sparse.issparse(X):
        X = check_array(X, accept_sparse=accept_sparse, dtype=None, ensure_all_finite=False)
    else:
        X = call_or_raise(check_array, X, dtype=dtype, error=refusal, **NO_CHECKS)
        check_shape(X.shape, name)
    if ensure_all_finite:
        allow_nan = ensure_all_finite == "allow-nan"
        call_or_raise(assert_all_finite, X, allow_nan=allow_nan, error=refusal)
    return X


def _invalid_values_error(X: Any, dtype: Any, name: str) -> ValueError:
    """Return the one error for all invalid values of rows, which depends on their types alone."""
    kinds = declared_kinds(X)
    if "c" in kinds:  # complex numbers
        return ValueError(
            f"Complex data not supported: column x0 and all others of {name} must hold real "
            "numbers; take their real parts."
        )
    if kinds <= set("biuf"):  # booleans and numbers
        return ValueError(
            f"Input {name} contains NaN, or {name} contains infinity or a value too large for "
            "float64: drop invalid rows or impute values."
        )
    if dtype is object:
        return ValueError(
            f"Input {name} contains NaN, or values that cannot be compared, or is a list whose "
            "items are not rows: drop invalid rows or impute values."
        )
    return NotNumbersError(
        f"{name} must hold numbers only, none missing or infinite, in rows of the same length "
        "(each argument must be a string that is a number, or a number): encode text first, for "
        "instance with PublicFit(OneHotEncoder(sparse_output=False)), and make a DataFrame of "
        "dicts."
    )


def declared_kinds(X: Any) -> set[str]:
    """Return the set of numpy's `dtype.kind` of all columns of an array-like or a frame.

    A column without a numpy type has the kind "O", as have lists.
    """
    is_frame_like = hasattr(X, "columns")
    dtypes = getattr(X, "dtypes", [None]) if is_frame_like else [getattr(X, "dtype", None)]
    return {str(getattr(dtype, "kind", "O")) for dtype in dtypes}


def feature_names(estimator: BaseEstimator) -> tuple[str, ...]:
    """Return the names of the columns seen in `fit`, or x0, x1 and so on for unnamed columns."""
    default_names = [f"x{column}" for column in range(estimator.n_features_in_)]
    return tuple(map(str, getattr(estimator, "feature_names_in_", default_names)))
